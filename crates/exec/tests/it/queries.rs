//! Queries over two small tables.

use super::support::*;
use lockstep_exec::Database;
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::expression::{Comparison, Subquery};
use lockstep_plan_ir::relation::{JoinKind, SetBranch, SetOperator, WindowCall, WindowFunction};
use lockstep_plan_ir::{Access, AggregateFunction, Expression, Node, Relation, Scan};
use lockstep_types::{Datum, IndexId, SqlType, TableId};

const PEOPLE: u32 = 0;
const PETS: u32 = 1;

/// PEOPLE(ID, AGE, NAME) with an index on AGE; PETS(ID, OWNER, KIND).
fn zoo() -> Database {
    let people = table(
        PEOPLE,
        "PEOPLE",
        vec![
            not_null("ID", SqlType::BigInt),
            column("AGE", SqlType::BigInt),
            column("NAME", SqlType::Varchar),
        ],
        vec![index("PK", &[0], true), index("BY_AGE", &[1], false)],
    );
    let pets = table(
        PETS,
        "PETS",
        vec![
            not_null("ID", SqlType::BigInt),
            column("OWNER", SqlType::BigInt),
            column("KIND", SqlType::Varchar),
        ],
        vec![index("PK2", &[0], true)],
    );
    let mut database = database(vec![people, pets]);
    let null = || Expression::literal(lockstep_types::Value::Null, SqlType::BigInt);
    for (id, age, name) in
        [(1, int(30), "Ada"), (2, int(20), "Bob"), (3, null(), "Cyd"), (4, int(30), "Dan")]
    {
        must(&mut database, insert(PEOPLE, vec![int(id), age, text(name)]));
    }
    for (id, owner, kind) in
        [(10, int(1), "cat"), (11, int(1), "dog"), (12, int(2), "cat"), (13, null(), "fox")]
    {
        must(&mut database, insert(PETS, vec![int(id), owner, text(kind)]));
    }
    database
}

fn name(slot: u16) -> Expression {
    col(slot, 2, SqlType::Varchar)
}

fn ages(lower: Option<i64>, reverse: bool) -> Relation {
    let bound = |value| lockstep_plan_ir::relation::KeyBound { value: int(value), inclusive: true };
    let access = Access::Index {
        index: IndexId(1),
        equal: vec![],
        null_matches: vec![],
        lower: lower.map(bound),
        upper: None,
        reverse,
        at_most_one: false,
    };
    Relation::Scan(Scan { slot: 0, table: TableId(PEOPLE), access, filter: None })
}

#[test]
fn scans_filter_by_columns_and_indexes() {
    let mut zoo = zoo();
    let older = compare(Comparison::Greater, big(0, 1), int(20));
    let scanned = query(scan_where(0, PEOPLE, Some(older)), vec![name(0)]);
    assert_eq!(must(&mut zoo, scanned), "Ada / Dan");
    assert_eq!(must(&mut zoo, query(ages(Some(20), false), vec![name(0)])), "Bob / Ada / Dan");
    assert_eq!(must(&mut zoo, query(ages(None, true), vec![name(0)])), "Dan / Ada / Bob / Cyd");
    let found = run(
        &mut zoo,
        query(lookup(0, PEOPLE, vec![parameter(0)]), vec![name(0)]),
        &[Datum::Int(2)],
    );
    assert_eq!(found.expect("a name"), "Bob");
    let missing =
        run(&mut zoo, query(lookup(0, PEOPLE, vec![parameter(0)]), vec![name(0)]), &[Datum::Null]);
    assert_eq!(missing.expect("nothing"), "");
}

#[test]
fn every_kind_of_join_by_loop_and_by_hash() {
    let mut zoo = zoo();
    for (kind, expected) in [
        (JoinKind::Inner, "Ada cat / Ada dog / Bob cat"),
        (JoinKind::Left, "Ada cat / Ada dog / Bob cat / Cyd NULL / Dan NULL"),
        (JoinKind::Right, "Ada cat / Ada dog / Bob cat / NULL fox"),
        (JoinKind::Full, "Ada cat / Ada dog / Bob cat / Cyd NULL / Dan NULL / NULL fox"),
        (JoinKind::Semi, "Ada NULL / Bob NULL"),
        (JoinKind::Anti, "Cyd NULL / Dan NULL"),
    ] {
        for hash in [false, true] {
            let on = (big(0, 0), big(1, 1));
            let joined = join(kind, scan(0, PEOPLE), scan(1, PETS), (0, 1), on, hash);
            let rows = must(&mut zoo, query(joined, vec![name(0), name(1)]));
            assert_eq!(rows, expected, "{kind:?}, hash {hash}");
        }
    }
}

#[test]
fn groups_come_in_their_first_order_and_no_rows_make_one_group() {
    let mut zoo = zoo();
    let grouped = Relation::Aggregate {
        input: Box::new(scan(0, PEOPLE)),
        slot: 1,
        group: vec![big(0, 1)],
        calls: vec![
            call(AggregateFunction::CountStar, None),
            call(AggregateFunction::Max, Some(big(0, 0))),
            call(AggregateFunction::Sum, Some(big(0, 1))),
        ],
    };
    let output = vec![big(1, 0), big(1, 1), big(1, 2), big(1, 3)];
    assert_eq!(must(&mut zoo, query(grouped, output)), "30 2 4 60 / 20 1 2 20 / NULL 1 3 NULL");
    let none = Relation::Aggregate {
        input: Box::new(scan_where(0, PEOPLE, Some(equal(big(0, 0), int(99))))),
        slot: 1,
        group: vec![],
        calls: vec![
            call(AggregateFunction::CountStar, None),
            call(AggregateFunction::Sum, Some(big(0, 1))),
        ],
    };
    assert_eq!(must(&mut zoo, query(none, vec![big(1, 0), big(1, 1)])), "0 NULL");
}

#[test]
fn rows_are_counted_with_and_without_a_visit() {
    let mut zoo = zoo();
    let mut count = |input| {
        let relation = Relation::Aggregate {
            input: Box::new(input),
            slot: 1,
            group: vec![],
            calls: vec![call(AggregateFunction::CountStar, None)],
        };
        must(&mut zoo, query(relation, vec![big(1, 0)]))
    };
    assert_eq!(count(scan(0, PEOPLE)), "4");
    assert_eq!(count(ages(Some(21), false)), "2");
    assert_eq!(count(ages(None, true)), "4");
    assert_eq!(count(lookup(0, PEOPLE, vec![int(2)])), "1");
    assert_eq!(count(scan_where(0, PEOPLE, Some(equal(big(0, 1), int(30))))), "2");
}

fn sorted(limit: Option<i64>, offset: Option<i64>) -> Relation {
    Relation::Sort {
        input: Box::new(scan(0, PEOPLE)),
        keys: vec![descending(big(0, 1)), ascending(name(0))],
        limit: limit.map(int),
        offset: offset.map(int),
    }
}

#[test]
fn sorts_are_stable_cut_and_put_nulls_where_told() {
    let mut zoo = zoo();
    let names = |relation| query(relation, vec![name(0)]);
    assert_eq!(must(&mut zoo, names(sorted(None, None))), "Ada / Dan / Bob / Cyd");
    assert_eq!(must(&mut zoo, names(sorted(Some(2), Some(1)))), "Dan / Bob");
    assert_eq!(must(&mut zoo, names(sorted(Some(0), None))), "");
    let error = run(&mut zoo, names(sorted(Some(-1), None)), &[]).expect_err("a negative limit");
    assert!(error.message().contains("LIMIT"), "{error}");
}

#[test]
fn the_first_of_many_rows_are_the_same_with_and_without_a_cut() {
    let mut zoo = zoo();
    for id in 100..5_000i64 {
        let age = int(id * 7919 % 1000);
        must(&mut zoo, insert(PEOPLE, vec![int(id), age, text("many")]));
    }
    let by_age = |limit: Option<i64>| Relation::Sort {
        input: Box::new(scan(0, PEOPLE)),
        keys: vec![ascending(big(0, 1))],
        limit: limit.map(int),
        offset: None,
    };
    let whole = must(&mut zoo, query(by_age(None), vec![big(0, 0), big(0, 1)]));
    let first = must(&mut zoo, query(by_age(Some(30)), vec![big(0, 0), big(0, 1)]));
    let expected: Vec<&str> = whole.split(" / ").take(30).collect();
    assert_eq!(first, expected.join(" / "));
}

fn branch(relation: Relation, output: Expression) -> SetBranch {
    SetBranch { relation, output: vec![output] }
}

#[test]
fn set_operations_with_and_without_duplicates() {
    let mut zoo = zoo();
    for (operator, all, expected) in [
        (SetOperator::Union, true, "1 / 2 / 3 / 4 / 1 / 1 / 2 / NULL"),
        (SetOperator::Union, false, "1 / 2 / 3 / 4 / NULL"),
        (SetOperator::Intersect, false, "1 / 2"),
        (SetOperator::Intersect, true, "1 / 2"),
        (SetOperator::Except, false, "3 / 4"),
    ] {
        let set = Relation::SetOperation {
            operator,
            all,
            branches: vec![branch(scan(0, PEOPLE), big(0, 0)), branch(scan(1, PETS), big(1, 1))],
            slot: 2,
        };
        let rows = must(&mut zoo, query(set, vec![big(2, 0)]));
        assert_eq!(rows, expected, "{operator:?}, all {all}");
    }
}

#[test]
fn a_recursion_counts_and_stops_at_rows_it_has_seen() {
    let mut zoo = zoo();
    let step = Relation::Filter {
        input: Box::new(Relation::Working { number: 0, slot: 1 }),
        predicate: compare(Comparison::Less, big(1, 0), int(5)),
    };
    let numbers = Relation::Recursive {
        number: 0,
        base: Box::new(branch(Relation::OneRow, int(1))),
        step: Box::new(branch(step, add(big(1, 0), int(1)))),
        all: true,
        slot: 2,
    };
    assert_eq!(must(&mut zoo, query(numbers, vec![big(2, 0)])), "1 / 2 / 3 / 4 / 5");
    let endless = Relation::Recursive {
        number: 0,
        base: Box::new(branch(Relation::OneRow, int(1))),
        step: Box::new(branch(Relation::Working { number: 0, slot: 1 }, big(1, 0))),
        all: false,
        slot: 2,
    };
    assert_eq!(must(&mut zoo, query(endless, vec![big(2, 0)])), "1");
}

fn subquery(relation: Relation, output: Expression, uncorrelated: bool) -> Box<Subquery> {
    Box::new(Subquery { relation, output: vec![output], uncorrelated, number: 0 })
}

fn boolean(node: Node) -> Expression {
    Expression { node, sql_type: SqlType::Boolean }
}

#[test]
fn subqueries_alone_and_correlated() {
    let mut zoo = zoo();
    let owned = scan_where(1, PETS, Some(equal(big(1, 1), big(0, 0))));
    let exists = boolean(Node::Exists(subquery(owned.clone(), int(1), false)));
    let rows = query(scan_where(0, PEOPLE, Some(exists)), vec![name(0)]);
    assert_eq!(must(&mut zoo, rows), "Ada / Bob");
    let quantified = |quantifier, comparison| {
        boolean(Node::Quantified {
            comparison,
            quantifier,
            row: vec![big(0, 0)],
            subquery: subquery(scan(1, PETS), big(1, 1), true),
        })
    };
    let within = scan_where(0, PEOPLE, Some(quantified(Quantifier::Any, Comparison::Equal)));
    assert_eq!(must(&mut zoo, query(within, vec![name(0)])), "Ada / Bob");
    let outside = scan_where(0, PEOPLE, Some(quantified(Quantifier::All, Comparison::NotEqual)));
    assert_eq!(must(&mut zoo, query(outside, vec![name(0)])), "", "a NULL makes it unknown");
    let several = Node::ScalarSubquery(subquery(scan(1, PETS), big(1, 0), true));
    let scalar = Expression { node: several, sql_type: SqlType::BigInt };
    let error = run(&mut zoo, query(scan(0, PEOPLE), vec![scalar]), &[]).expect_err("four rows");
    assert!(error.message().contains("More than one row"), "{error}");
}

#[test]
fn windows_rank_sum_and_look_back() {
    let mut zoo = zoo();
    let window = |function, arguments: Vec<Expression>| WindowCall {
        function,
        arguments,
        partition: vec![],
        order: vec![ascending(big(0, 1))],
        frame: None,
        sql_type: SqlType::BigInt,
    };
    let relation = Relation::Window {
        input: Box::new(scan(0, PEOPLE)),
        slot: 1,
        calls: vec![
            window(WindowFunction::RowNumber, vec![]),
            window(WindowFunction::Rank, vec![]),
            window(WindowFunction::DenseRank, vec![]),
            window(WindowFunction::Aggregate(AggregateFunction::Sum), vec![big(0, 0)]),
            window(WindowFunction::Lag, vec![big(0, 0)]),
        ],
    };
    let output = vec![name(0), big(1, 0), big(1, 1), big(1, 2), big(1, 3), big(1, 4)];
    assert_eq!(
        must(&mut zoo, query(relation, output)),
        "Cyd 1 1 1 3 NULL / Bob 2 2 2 5 3 / Ada 3 3 3 10 2 / Dan 4 3 3 10 1"
    );
}

#[test]
fn distinct_keeps_the_first_of_equal_rows() {
    let mut zoo = zoo();
    let projected = Relation::Project {
        input: Box::new(scan(0, PEOPLE)),
        slot: 1,
        expressions: vec![big(0, 1)],
    };
    let relation = Relation::Distinct { input: Box::new(projected), slot: 1 };
    assert_eq!(must(&mut zoo, query(relation, vec![big(1, 0)])), "30 / 20 / NULL");
}
