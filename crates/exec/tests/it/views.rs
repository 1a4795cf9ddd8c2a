//! Views follow their table, exactly.

use super::support::*;
use lockstep_base::random::SeededRandom;
use lockstep_exec::Database;
use lockstep_exec::statement::execute;
use lockstep_plan_ir::relation::KeyBound;
use lockstep_plan_ir::statement::Query;
use lockstep_plan_ir::{Access, AggregateFunction, Relation, Scan, StorageChange, TableDefinition};
use lockstep_types::{Datum, IndexId, SqlType, TableId};
use std::sync::Arc;

const ITEMS: u32 = 0;
const TOTALS: u32 = 1;

/// ITEMS(ID, KIND, PRICE) with an index on (KIND, PRICE); TOTALS counts, sums and finds extremes.
fn schema() -> (TableDefinition, TableDefinition) {
    let mut items = table(
        ITEMS,
        "ITEMS",
        vec![
            not_null("ID", SqlType::BigInt),
            column("KIND", SqlType::BigInt),
            column("PRICE", SqlType::BigInt),
        ],
        vec![index("PK", &[0], true), index("BY_KIND", &[1, 2], false)],
    );
    let totals = view(
        TOTALS,
        "TOTALS",
        &mut items,
        &[1],
        &[
            (AggregateFunction::CountStar, None, None),
            (AggregateFunction::Sum, Some(2), None),
            (AggregateFunction::Min, Some(2), Some(extreme(false))),
            (AggregateFunction::Max, Some(2), Some(extreme(true))),
        ],
    );
    (items, totals)
}

/// The first or last price of the kind in slot 0.
fn extreme(reverse: bool) -> Query {
    let access = Access::Index {
        index: IndexId(1),
        equal: vec![big(0, 1)],
        null_matches: vec![true],
        // A lower bound leaves the NULLs out.
        lower: Some(KeyBound { value: int(i64::MIN + 1), inclusive: true }),
        upper: None,
        reverse,
        at_most_one: false,
    };
    let scan = Relation::Scan(Scan { slot: 1, table: TableId(ITEMS), access, filter: None });
    let relation = Relation::Limit { input: Box::new(scan), limit: Some(int(1)), offset: None };
    Query { relation, output: vec![big(1, 2)] }
}

fn totals(database: &mut Database) -> String {
    let sorted = Relation::Sort {
        input: Box::new(scan(0, TOTALS)),
        keys: vec![ascending(big(0, 0))],
        limit: None,
        offset: None,
    };
    must(database, query(sorted, (0..5).map(|column| big(0, column)).collect()))
}

fn item(database: &mut Database, id: i64, kind: i64, price: i64) {
    must(database, insert(ITEMS, vec![int(id), int(kind), int(price)]));
}

#[test]
fn groups_come_change_and_go() {
    let (items, view) = schema();
    let mut database = database(vec![items, view]);
    for (id, kind, price) in [(1, 7, 50), (2, 7, 20), (3, 7, 90), (4, 8, 5)] {
        item(&mut database, id, kind, price);
    }
    database.commit();
    assert_eq!(totals(&mut database), "7 3 160 20 90 / 8 1 5 5 5");
    must(&mut database, delete(ITEMS, lookup(0, ITEMS, vec![int(3)])));
    assert_eq!(totals(&mut database), "7 2 70 20 50 / 8 1 5 5 5", "the next greatest");
    must(&mut database, update(ITEMS, lookup(0, ITEMS, vec![int(2)]), vec![(2, int(60))]));
    assert_eq!(totals(&mut database), "7 2 110 50 60 / 8 1 5 5 5");
    must(&mut database, update(ITEMS, lookup(0, ITEMS, vec![int(4)]), vec![(1, int(7))]));
    assert_eq!(totals(&mut database), "7 3 115 5 60", "a group without rows is gone");
    must(&mut database, delete(ITEMS, scan(0, ITEMS)));
    assert_eq!(totals(&mut database), "");
    database.rollback();
    assert_eq!(totals(&mut database), "7 3 160 20 90 / 8 1 5 5 5");
}

#[test]
fn a_new_view_is_filled_with_what_is_there() {
    let (items, view) = schema();
    let mut plain = items.clone();
    plain.dependent_views.clear();
    let mut database = database(vec![plain]);
    item(&mut database, 1, 7, 50);
    item(&mut database, 2, 7, 20);
    database.commit();
    let changes = [
        StorageChange::Create(Arc::new(view)),
        StorageChange::Alter { definition: Arc::new(items), columns: None },
    ];
    database.prepare_change(&changes).expect("a view");
    database.commit_change();
    assert_eq!(totals(&mut database), "7 2 70 20 50");
    item(&mut database, 3, 7, 1);
    assert_eq!(totals(&mut database), "7 3 71 1 50");
}

#[test]
fn a_view_without_groups_keeps_its_row() {
    let (mut items, _) = schema();
    items.dependent_views.clear();
    let count =
        [(AggregateFunction::CountStar, None, None), (AggregateFunction::Sum, Some(2), None)];
    let whole = view(TOTALS, "WHOLE", &mut items, &[], &count);
    let mut database = database(vec![items, whole]);
    let read = |database: &mut Database| {
        must(database, query(scan(0, TOTALS), vec![big(0, 0), big(0, 1)]))
    };
    assert_eq!(read(&mut database), "0 NULL");
    item(&mut database, 1, 7, 50);
    item(&mut database, 2, 7, 20);
    assert_eq!(read(&mut database), "2 70");
    must(&mut database, delete(ITEMS, scan(0, ITEMS)));
    assert_eq!(read(&mut database), "0 NULL");
}

/// What the view must hold, computed from its source.
fn recomputed(database: &mut Database) -> String {
    let grouped = Relation::Aggregate {
        input: Box::new(scan(0, ITEMS)),
        slot: 1,
        group: vec![big(0, 1)],
        calls: vec![
            call(AggregateFunction::CountStar, None),
            call(AggregateFunction::Count, Some(big(0, 2))),
            call(AggregateFunction::Sum, Some(big(0, 2))),
            call(AggregateFunction::Min, Some(big(0, 2))),
            call(AggregateFunction::Max, Some(big(0, 2))),
        ],
    };
    let sorted = Relation::Sort {
        input: Box::new(grouped),
        keys: vec![ascending(big(1, 0))],
        limit: None,
        offset: None,
    };
    must(database, query(sorted, (0..6).map(|column| big(1, column)).collect()))
}

#[test]
fn a_random_history_leaves_what_a_query_computes() {
    let (mut items, _) = schema();
    items.dependent_views.clear();
    let mirror = view(
        TOTALS,
        "MIRROR",
        &mut items,
        &[1],
        &[
            (AggregateFunction::CountStar, None, None),
            (AggregateFunction::Count, Some(2), None),
            (AggregateFunction::Sum, Some(2), None),
            (AggregateFunction::Min, Some(2), Some(extreme(false))),
            (AggregateFunction::Max, Some(2), Some(extreme(true))),
        ],
    );
    let mut database = database(vec![items, mirror]);
    let mut random = SeededRandom::new(11);
    let put = prepared(insert(ITEMS, vec![parameter(0), parameter(1), parameter(2)]), 3);
    let by_key = || lookup(0, ITEMS, vec![parameter(0)]);
    let both = vec![(1, parameter(1)), (2, parameter(2))];
    let change = prepared(update(ITEMS, by_key(), both), 3);
    let take = prepared(delete(ITEMS, by_key()), 1);
    let mut out = Vec::new();
    for step in 0..3000 {
        let id = Datum::Int(random.between(0, 40));
        let nullable = |random: &mut SeededRandom, bound| match random.between(-1, bound) {
            -1 => Datum::Null,
            value => Datum::Int(value),
        };
        let values = [id, nullable(&mut random, 3), nullable(&mut random, 5)];
        // Inserts of a key that is there fail, and must leave no trace in the view.
        let _ = match random.below(3) {
            0 => execute(&mut database, &put, &values, &mut out),
            1 => execute(&mut database, &change, &values, &mut out),
            _ => execute(&mut database, &take, &values[..1], &mut out),
        };
        match random.below(10) {
            0 => database.commit(),
            1 => database.rollback(),
            _ => {}
        }
        let sorted = Relation::Sort {
            input: Box::new(scan(0, TOTALS)),
            keys: vec![ascending(big(0, 0))],
            limit: None,
            offset: None,
        };
        let view =
            must(&mut database, query(sorted, (0..6).map(|column| big(0, column)).collect()));
        assert_eq!(view, recomputed(&mut database), "after step {step}");
    }
}
