//! Changes of rows: constraints, statements undone as a whole, schema changes, partitions.

use super::support::*;
use lockstep_exec::Database;
use lockstep_exec::statement::execute;
use lockstep_plan_ir::change::ColumnSource;
use lockstep_plan_ir::statement::{Guard, Insert, Operation, Upsert};
use lockstep_plan_ir::{Expression, Relation, StorageChange, TableDefinition};
use lockstep_types::{Datum, IndexId, SqlType, TableId, Value};
use std::sync::Arc;

fn definition() -> TableDefinition {
    let mut columns = vec![
        not_null("ID", SqlType::BigInt),
        column("A", SqlType::BigInt),
        column("B", SqlType::Varchar),
    ];
    columns[2].length = 6;
    table(0, "D1", columns, vec![index("PK", &[0], true)])
}

fn rows(database: &mut Database) -> String {
    must(database, query(scan(0, 0), vec![big(0, 0), big(0, 1), col(0, 2, SqlType::Varchar)]))
}

fn filled() -> Database {
    let mut database = database(vec![definition()]);
    for id in 1..=3 {
        assert_eq!(must(&mut database, insert(0, vec![int(id), int(id * 10), text("x")])), "1");
    }
    database.commit();
    database
}

#[test]
fn constraints_name_the_table_and_the_rows() {
    let mut database = filled();
    let mut refused = |values: Vec<Expression>| {
        run(&mut database, insert(0, values), &[]).expect_err("refused").message().to_string()
    };
    let lines = |message: &str| -> Vec<String> {
        message.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let message = refused(vec![int(1), int(30), text("dup")]);
    assert_eq!(
        lines(&message),
        [
            "Attempted violation of constraint",
            "Constraint Type UNIQUE, Table CatalogId D1",
            "Relevant Tuples:",
            "ID A B",
            "--- --- ----",
            "1 30 dup",
            "1 10 x",
        ]
    );
    let null = Expression::literal(Value::Null, SqlType::BigInt);
    let message = refused(vec![null, int(1), text("a")]);
    assert_eq!(lines(&message)[1], "Constraint Type NOT_NULL, Table CatalogId D1");
    let message = refused(vec![int(9), int(1), text("toolong")]);
    assert_eq!(
        message,
        "The size 7 of the value 'toolong' exceeds the size of the VARCHAR(6) column 'B'"
    );
    assert_eq!(rows(&mut database), "1 10 x / 2 20 x / 3 30 x");
}

#[test]
fn a_failing_statement_is_undone_alone() {
    let mut database = filled();
    must(&mut database, update(0, scan(0, 0), vec![(1, add(big(0, 1), int(1)))]));
    let collide = update(0, scan(0, 0), vec![(0, int(2))]);
    run(&mut database, collide, &[]).expect_err("2 is there");
    assert_eq!(rows(&mut database), "1 11 x / 2 21 x / 3 31 x");
    database.rollback();
    assert_eq!(rows(&mut database), "1 10 x / 2 20 x / 3 30 x");
}

#[test]
fn updates_and_deletes_by_key_and_by_scan_count_rows() {
    let mut database = filled();
    let by_key = |key| lookup(0, 0, vec![int(key)]);
    assert_eq!(must(&mut database, update(0, by_key(2), vec![(2, text("y"))])), "1");
    assert_eq!(must(&mut database, update(0, by_key(7), vec![(2, text("y"))])), "0");
    assert_eq!(must(&mut database, delete(0, by_key(1))), "1");
    assert_eq!(rows(&mut database), "2 20 y / 3 30 x");
    let over = equal(big(0, 1), int(30));
    assert_eq!(must(&mut database, delete(0, scan_where(0, 0, Some(over)))), "1");
    assert_eq!(must(&mut database, Operation::Truncate(TableId(0))), "1");
    assert_eq!(rows(&mut database), "");
    database.rollback();
    assert_eq!(rows(&mut database), "1 10 x / 2 20 x / 3 30 x");
}

#[test]
fn insert_from_a_query_reads_before_it_writes() {
    let mut database = filled();
    let doubled = Operation::Insert(Insert {
        table: TableId(0),
        source: scan(0, 0),
        values: vec![add(big(0, 0), int(100)), big(0, 1), col(0, 2, SqlType::Varchar)],
        upsert: None,
    });
    assert_eq!(must(&mut database, doubled), "3");
    assert_eq!(
        must(&mut database, query(scan(0, 0), vec![big(0, 0)])),
        "1 / 2 / 3 / 101 / 102 / 103"
    );
}

#[test]
fn upsert_changes_what_is_there_and_inserts_what_is_not() {
    let mut database = filled();
    let upsert = |id, a| {
        Operation::Insert(Insert {
            table: TableId(0),
            source: Relation::OneRow,
            values: vec![int(id), int(a), text("up")],
            upsert: Some(Upsert { primary_key: IndexId(0), assigned: vec![0, 1] }),
        })
    };
    assert_eq!(must(&mut database, upsert(2, 5)), "1");
    assert_eq!(must(&mut database, upsert(4, 5)), "1");
    assert_eq!(rows(&mut database), "1 10 x / 2 5 x / 3 30 x / 4 5 up");
}

#[test]
fn rows_and_guards_belong_to_their_partition() {
    let mut definition = definition();
    definition.partition_columns = vec![0];
    let ring = lockstep_types::HashRing::new(2);
    let home = |partition| {
        (1..).find(|id| ring.partition_of(Datum::Int(*id)).0 == partition).expect("many ids")
    };
    let (here, elsewhere) = (home(0), home(1));
    let mut database = partition(0, 2, vec![definition]);
    assert_eq!(must(&mut database, insert(0, vec![int(here), int(1), text("a")])), "1");
    let error = run(&mut database, insert(0, vec![int(elsewhere), int(1), text("a")]), &[]);
    let message = error.expect_err("another partition's").message().to_string();
    assert!(
        message.starts_with("Mispartitioned tuple in single-partition insert statement.\n"),
        "{message}"
    );
    let moved = update(0, scan(0, 0), vec![(0, int(elsewhere))]);
    let message = run(&mut database, moved, &[]).expect_err("it would move").message().to_string();
    assert!(message.contains("Updating a partitioning column is not supported"), "{message}");
    let mut guarded = statement(query(lookup(0, 0, vec![parameter(0)]), vec![big(0, 1)]), 1);
    let guards = vec![Guard {
        table: TableId(0),
        table_name: "D1".to_string(),
        value: Some(parameter(0)),
        local: false,
    }];
    guarded.guards = guards.clone();
    let guarded = lockstep_exec::PreparedStatement::new(Arc::new(guarded));
    let mut out = Vec::new();
    execute(&mut database, &guarded, &[Datum::Int(here)], &mut out).expect("it lives here");
    assert_eq!(show(&out), "1");
    let error = execute(&mut database, &guarded, &[Datum::Int(elsewhere)], &mut out);
    let message = error.expect_err("it lives elsewhere").message().to_string();
    for part in ["table D1", &elsewhere.to_string(), "a statement"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(show(&out), "1", "nothing was appended");
    let mut inserting = statement(insert(0, vec![parameter(0), int(1), text("a")]), 1);
    inserting.guards = guards;
    let inserting = lockstep_exec::PreparedStatement::new(Arc::new(inserting));
    let error = execute(&mut database, &inserting, &[Datum::Int(elsewhere)], &mut out);
    let message = error.expect_err("another partition's").message().to_string();
    assert!(message.starts_with("Mispartitioned tuple"), "{message}");
}

#[test]
fn a_schema_change_is_in_force_at_its_commit() {
    let mut database = filled();
    let mut wider = definition();
    wider.columns.push(column("C", SqlType::BigInt));
    wider.visible_columns = 4;
    wider.indexes.push(index("BY_A", &[1], true));
    let alter = StorageChange::Alter {
        definition: Arc::new(wider),
        columns: Some(vec![
            ColumnSource::Old(0),
            ColumnSource::Old(1),
            ColumnSource::Old(2),
            ColumnSource::Constant(Value::Int(7)),
        ]),
    };
    database.prepare_change(std::slice::from_ref(&alter)).expect("it fits");
    assert_eq!(rows(&mut database), "1 10 x / 2 20 x / 3 30 x");
    database.rollback_change();
    database.prepare_change(std::slice::from_ref(&alter)).expect("it fits");
    database.commit_change();
    let wide = query(scan(0, 0), vec![big(0, 0), big(0, 3)]);
    assert_eq!(must(&mut database, wide), "1 7 / 2 7 / 3 7");
    assert_eq!(database.statistics()[0].indexes.len(), 2);
    let refuse = StorageChange::RequireEmpty { table: TableId(0), message: "not empty".into() };
    assert_eq!(database.prepare_change(&[refuse]).expect_err("rows").message(), "not empty");
}

#[test]
fn results_and_intermediate_rows_have_limits() {
    let ring = Arc::new(lockstep_types::HashRing::new(1));
    let mut options = lockstep_exec::DatabaseOptions::new(lockstep_types::PartitionId(0), ring);
    options.result_limit_bytes = 2000;
    options.temporary_limit_bytes = 1 << 20;
    let mut database = Database::new(options);
    database.prepare_change(&[StorageChange::Create(Arc::new(definition()))]).expect("a table");
    database.commit_change();
    database.begin(&transaction());
    for id in 0..40_000 {
        must(&mut database, insert(0, vec![int(id), int(id), text("x")]));
    }
    let all = query(scan(0, 0), vec![big(0, 0)]);
    let error = run(&mut database, all, &[]).expect_err("too much");
    assert!(error.message().contains("over the limit of 2000 bytes"), "{error}");
    let sorted = Relation::Sort {
        input: Box::new(scan(0, 0)),
        keys: vec![descending(big(0, 0))],
        limit: None,
        offset: None,
    };
    let error = run(&mut database, query(sorted, vec![big(0, 0)]), &[]).expect_err("too much");
    assert_eq!(
        error.message(),
        "More than 1 MB of temp table memory used while executing SQL.  Aborting. \
         (option max_temporary_bytes)"
    );
}

#[test]
fn keys_are_unique_at_the_end_of_an_update() {
    let mut database = filled();
    for by in [1, -1] {
        let shifted = update(0, scan(0, 0), vec![(0, add(big(0, 0), int(by)))]);
        assert_eq!(must(&mut database, shifted), "3");
    }
    let before = rows(&mut database);
    let same = update(0, scan(0, 0), vec![(0, int(7))]);
    assert!(run(&mut database, same, &[]).is_err(), "three rows cannot have one key");
    assert_eq!(rows(&mut database), before);
}
