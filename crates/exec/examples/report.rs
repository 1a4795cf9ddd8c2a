//! Reporting queries over a million rows, for timing from outside: `report QUERY TIMES`.

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use lockstep_exec::Database;
use lockstep_exec::statement::execute;
use lockstep_plan_ir::expression::Comparison;
use lockstep_plan_ir::relation::JoinKind;
use lockstep_plan_ir::{AggregateFunction, Operation, Relation};
use lockstep_types::SqlType;
use support::*;

const ROWS: i64 = 1_000_000;

fn load() -> Database {
    let facts = table(
        0,
        "FACTS",
        vec![
            not_null("ID", SqlType::BigInt),
            column("KIND", SqlType::Integer),
            column("PRICE", SqlType::BigInt),
            column("NAME", SqlType::Varchar),
        ],
        vec![index("PK", &[0], true)],
    );
    let kinds = table(
        1,
        "KINDS",
        vec![not_null("ID", SqlType::BigInt), column("NAME", SqlType::Varchar)],
        vec![index("PK", &[0], true)],
    );
    let mut database = database(vec![facts, kinds]);
    let insert_fact = {
        let values = vec![parameter(0), parameter(1), parameter(2), text("some name")];
        prepared(insert(0, values), 3)
    };
    let mut out = Vec::new();
    for id in 0..ROWS {
        out.clear();
        let values = [id, id * 7919 % 1000, id * 104_729 % 1_000_003];
        let values = values.map(lockstep_types::Datum::Int);
        execute(&mut database, &insert_fact, &values, &mut out).expect("a row");
        database.commit();
    }
    for id in 0..1000 {
        must(&mut database, insert(1, vec![int(id), text(&format!("kind {id}"))]));
    }
    database.commit();
    database
}

fn kind(slot: u16) -> lockstep_plan_ir::Expression {
    col(slot, 1, SqlType::Integer)
}

fn aggregate(input: Relation, group: bool) -> Relation {
    Relation::Aggregate {
        input: Box::new(input),
        slot: 3,
        group: if group { vec![kind(0)] } else { vec![] },
        calls: vec![
            call(AggregateFunction::CountStar, None),
            call(AggregateFunction::Sum, Some(big(0, 2))),
        ],
    }
}

fn query_of(name: &str) -> Operation {
    let cheap = || Some(compare(Comparison::Less, big(0, 2), int(500_000)));
    let totals = |relation| query(relation, vec![big(3, 0), big(3, 1)]);
    match name {
        "filter" => totals(aggregate(scan_where(0, 0, cheap()), false)),
        "group" => query(aggregate(scan(0, 0), true), vec![big(3, 0), big(3, 1), big(3, 2)]),
        "top" => query(
            Relation::Sort {
                input: Box::new(scan(0, 0)),
                keys: vec![descending(big(0, 2))],
                limit: Some(int(10)),
                offset: None,
            },
            vec![big(0, 0)],
        ),
        "join" => {
            let on = (kind(0), big(1, 0));
            let joined = join(JoinKind::Inner, scan(0, 0), scan(1, 1), (0, 1), on, true);
            totals(aggregate(joined, false))
        }
        "distinct" => {
            let expressions = vec![kind(0)];
            let input = Relation::Project { input: Box::new(scan(0, 0)), slot: 1, expressions };
            let relation = Relation::Distinct { input: Box::new(input), slot: 1 };
            query(relation, vec![col(1, 0, SqlType::Integer)])
        }
        "arithmetic" => {
            let filter = compare(Comparison::Less, add(big(0, 2), big(0, 0)), int(500_000));
            totals(aggregate(scan_where(0, 0, Some(filter)), false))
        }
        other => panic!("no query {other}"),
    }
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let times = std::env::args().nth(2).and_then(|times| times.parse().ok()).unwrap_or(0);
    let mut database = load();
    let mut out = Vec::new();
    for _ in 0..times {
        let prepared = prepared(query_of(&name), 0);
        out.clear();
        execute(&mut database, &prepared, &[], &mut out).expect("a result");
    }
}
