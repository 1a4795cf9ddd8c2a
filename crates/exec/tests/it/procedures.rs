//! Procedures: batches undone as a whole, and the same code round by round.

use super::support::*;
use lockstep_exec::distributed::{CoordinatorContext, coordinate, execute_fragment};
use lockstep_exec::procedure::{BatchResult, ProcedureRound, run_procedure, run_round};
use lockstep_exec::statement::execute;
use lockstep_exec::{
    Database, NativeProcedure, PreparedProcedure, PreparedStatement, ProcedureContext,
    ProcedureError,
};
use lockstep_plan_ir::procedure::{
    ProcedureDefinition, ProcedureKind, ProcedureParameter, ProcedurePartitioning,
};
use lockstep_plan_ir::relation::AggregateCall;
use lockstep_plan_ir::statement::{Coordinator, Execution, Fragment, Operation, Query, Target};
use lockstep_plan_ir::{AggregateFunction, Relation, TableDefinition};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Outcome, ParameterSet, SqlType, Status, TableSchema};
use std::sync::Arc;

fn accounts() -> TableDefinition {
    table(
        0,
        "ACCOUNTS",
        vec![not_null("ID", SqlType::BigInt), not_null("BALANCE", SqlType::BigInt)],
        vec![index("PK", &[0], true)],
    )
}

/// Moves an amount; refuses to overdraw; what it read last is its result.
struct Transfer;

const BIGINT: ProcedureParameter =
    ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };

impl NativeProcedure for Transfer {
    fn name(&self) -> &str {
        "Transfer"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[BIGINT, BIGINT, BIGINT]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("balance", ""), ("change", ""), ("open", "")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (from, to) = (context.parameter(0), context.parameter(1));
        let Datum::Int(amount) = context.parameter(2) else {
            return Err(context.abort("no amount"));
        };
        context.queue(0, &[from])?;
        let results = context.execute()?;
        let Some(Datum::Int(balance)) = results.scalar(0)? else {
            return Err(context.abort("no such account"));
        };
        context.queue(1, &[from, Datum::Int(-amount)])?;
        context.queue(1, &[to, Datum::Int(amount)])?;
        context.queue(2, &[Datum::Int(amount)])?;
        match context.execute() {
            Ok(_) => {}
            Err(ProcedureError::Sql(_)) => {
                context.set_application_status(7, "kept".to_string());
            }
            Err(other) => return Err(other),
        }
        if balance < amount {
            return Err(context.abort("overdrawn"));
        }
        context.queue(0, &[from])?;
        context.queue(0, &[to])?;
        context.execute()?;
        context.return_result(0)?;
        context.return_result(1)
    }
}

fn transfer() -> PreparedProcedure {
    let by_key = lookup(0, 0, vec![parameter(0)]);
    let statements = [
        statement(query(by_key.clone(), vec![big(0, 1)]), 1),
        statement(update(0, by_key, vec![(1, add(big(0, 1), parameter(1)))]), 2),
        statement(insert(0, vec![parameter(0), int(0)]), 1),
    ];
    let named = |statement| ("s".to_string(), Arc::new(statement));
    let definition = ProcedureDefinition {
        declared: Vec::new(),
        name: "Transfer".to_string(),
        kind: ProcedureKind::Native("Transfer".to_string()),
        partitioning: Some(ProcedurePartitioning::Directed),
        parameters: Transfer.parameters().to_vec(),
        statements: statements.into_iter().map(named).collect(),
        read_only: false,
        effects: false,
    };
    PreparedProcedure::new(Arc::new(definition), Some(Arc::new(Transfer)))
}

fn bank() -> Database {
    let mut bank = database(vec![accounts()]);
    must(&mut bank, insert(0, vec![int(1), int(100)]));
    must(&mut bank, insert(0, vec![int(2), int(50)]));
    bank.commit();
    bank
}

fn parameters(values: [i64; 3]) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    for value in values {
        writer.bigint(value);
    }
    writer
}

fn call(bank: &mut Database, values: [i64; 3]) -> (Outcome, Vec<String>) {
    let writer = parameters(values);
    let set = ParameterSet::new(writer.bytes()).expect("a set");
    let mut out = Vec::new();
    let outcome = run_procedure(bank, &transfer(), set, &transaction(), &mut out);
    bank.commit();
    (outcome, tables(&out))
}

fn tables(bytes: &[u8]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut rest = bytes;
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let (table, after) = rest.split_at(i32::from_be_bytes(*length) as usize + 4);
        shown.push(show(table));
        rest = after;
    }
    shown
}

fn balances(bank: &mut Database) -> String {
    must(bank, query(scan(0, 0), vec![big(0, 0), big(0, 1)]))
}

#[test]
fn a_procedure_at_its_site() {
    let mut bank = bank();
    let (outcome, tables) = call(&mut bank, [1, 2, 30]);
    assert_eq!((outcome, tables), (Outcome::success(2), vec!["70".into(), "80".into()]));
    let (outcome, _) = call(&mut bank, [1, 2, 1000]);
    let failure = outcome.failure.expect("an abort");
    assert_eq!(failure.status, Status::UserAbort);
    assert_eq!(failure.message, "VOLTDB ERROR: USER ABORT overdrawn");
    assert_eq!(balances(&mut bank), "1 70 / 2 80 / 30 0");
}

#[test]
fn a_failed_batch_is_undone_as_a_whole_and_may_be_survived() {
    let mut bank = bank();
    let (outcome, tables) = call(&mut bank, [1, 2, 2]);
    assert_eq!(outcome.application_status, 7);
    assert_eq!(outcome.application_text.as_deref(), Some("kept"));
    assert_eq!(tables, ["100", "50"]);
    assert_eq!(balances(&mut bank), "1 100 / 2 50");
}

#[test]
fn a_procedure_round_by_round_does_what_it_does_at_once() {
    let mut bank = bank();
    let writer = parameters([1, 2, 30]);
    let set = ParameterSet::new(writer.bytes()).expect("a set");
    let procedure = transfer();
    let mut history: Vec<BatchResult> = Vec::new();
    let (outcome, result) = loop {
        match run_round(&procedure, set, &transaction(), &history) {
            ProcedureRound::Finished { outcome, tables } => break (outcome, tables),
            ProcedureRound::Batch(batch) => {
                let tables = batch.iter().map(|queued| {
                    let set = ParameterSet::new(&queued.parameters).expect("a set");
                    let values: Vec<Datum<'_>> = set
                        .iter()
                        .map(|parameter| match parameter {
                            Ok(lockstep_types::Parameter::Scalar(_, value)) => value,
                            other => panic!("{other:?}"),
                        })
                        .collect();
                    let mut out = Vec::new();
                    execute(&mut bank, &queued.statement, &values, &mut out).expect("it works");
                    out
                });
                history.push(BatchResult { tables: tables.collect() });
            }
        }
    };
    assert_eq!(outcome, Outcome::success(2));
    assert_eq!(tables(&result), ["70", "80"]);
    assert_eq!(history.len(), 3);
    assert_eq!(balances(&mut bank), "1 70 / 2 80 / 30 0");
}

/// SELECT SUM(BALANCE), COUNT(*): partial aggregates at each partition, merged.
fn total() -> PreparedStatement {
    let aggregate = |input, slot, calls| Relation::Aggregate {
        input: Box::new(input),
        slot,
        group: vec![],
        calls,
    };
    let call = |function, argument| AggregateCall {
        function,
        distinct: false,
        argument,
        sql_type: SqlType::BigInt,
        user: None,
    };
    let partial = aggregate(
        scan(0, 0),
        1,
        vec![
            call(AggregateFunction::Sum, Some(big(0, 1))),
            call(AggregateFunction::CountStar, None),
        ],
    );
    let types = vec![SqlType::BigInt, SqlType::BigInt];
    let merged = aggregate(
        Relation::Receive { slot: 2, fragment: 0, types },
        3,
        vec![
            call(AggregateFunction::Sum, Some(big(2, 0))),
            call(AggregateFunction::Sum, Some(big(2, 1))),
        ],
    );
    let both = vec![big(1, 0), big(1, 1)];
    let mut planned = statement(query(merged.clone(), vec![big(3, 0), big(3, 1)]), 0);
    planned.execution = Execution::Distributed {
        fragments: vec![Fragment {
            target: Target::All,
            operation: Operation::Query(Query { relation: partial, output: both }),
            result: TableSchema::new(&[("S", SqlType::BigInt), ("C", SqlType::BigInt)]),
        }],
        coordinator: Coordinator::Query(Query {
            relation: merged,
            output: vec![big(3, 0), big(3, 1)],
        }),
    };
    PreparedStatement::new(Arc::new(planned))
}

#[test]
fn partial_aggregates_of_partitions_are_merged() {
    let total = total();
    let mut sites: Vec<Database> =
        (0..3).map(|number| partition(number, 3, vec![accounts()])).collect();
    let mut sent = Vec::new();
    for (number, site) in sites.iter_mut().enumerate() {
        for id in 0..=number as i64 {
            must(site, insert(0, vec![int(id), int(100)]));
        }
        let mut out = Vec::new();
        execute_fragment(site, &total, 0, &[], &mut out).expect("a partial aggregate");
        sent.push(out);
    }
    let inputs = [sent.iter().map(Vec::as_slice).collect()];
    let context = CoordinatorContext::new(0, sites[0].options());
    let mut out = Vec::new();
    coordinate(&total, &[], &inputs, &context, &mut out).expect("a total");
    assert_eq!(show(&out), "600 6");
    let mut alone = bank();
    let mut out = Vec::new();
    execute(&mut alone, &total, &[], &mut out).expect("one partition does all of it");
    assert_eq!(show(&out), "150 2");
}

/// Reads rows, deletes some of those that it reads a little later, and puts others there, in one
/// batch.
struct Churn;

impl NativeProcedure for Churn {
    fn name(&self) -> &str {
        "Churn"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[BIGINT, BIGINT]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("read", ""), ("drop", ""), ("add", "")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (Datum::Int(first), Datum::Int(count)) = (context.parameter(0), context.parameter(1))
        else {
            return Err(context.abort("no numbers"));
        };
        for row in first..first + count {
            context.queue(0, &[Datum::Int(row)])?;
            if row % 3 == 0 {
                context.queue(1, &[Datum::Int(row + 2)])?;
            }
            if row % 6 == 0 {
                context.queue(2, &[Datum::Int(row + 2), Datum::Text("a new text, long enough")])?;
            }
        }
        let results = context.execute()?;
        let tables = results.len();
        for table in 0..tables {
            context.return_result(table)?;
        }
        Ok(())
    }
}

#[test]
fn what_a_batch_reads_ahead_is_a_hint_only() {
    const ROWS: i64 = 6000;
    let notes = table(
        0,
        "NOTES",
        vec![not_null("ID", SqlType::BigInt), column("TEXT", SqlType::Varchar)],
        vec![index("PK", &[0], true)],
    );
    let mut database = database(vec![notes]);
    for row in 0..ROWS {
        let words = format!("the text of row {row}, in a tail");
        must(&mut database, insert(0, vec![int(row), text(&words)]));
    }
    database.commit();
    let by_key = lookup(0, 0, vec![parameter(0)]);
    let read = query(by_key.clone(), vec![col(0, 1, SqlType::Varchar)]);
    let mut words = col(0, 1, SqlType::Varchar);
    words.node = parameter(1).node;
    let add = vec![parameter(0), words];
    let mut add = statement(insert(0, add), 2);
    add.parameters[1].sql_type = SqlType::Varchar;
    let statements = [statement(read, 1), statement(delete(0, by_key), 1), add];
    let named = |statement| ("s".to_string(), Arc::new(statement));
    let definition = ProcedureDefinition {
        declared: Vec::new(),
        name: "Churn".to_string(),
        kind: ProcedureKind::Native("Churn".to_string()),
        partitioning: None,
        parameters: Churn.parameters().to_vec(),
        statements: statements.into_iter().map(named).collect(),
        read_only: false,
        effects: false,
    };
    let procedure = PreparedProcedure::new(Arc::new(definition), Some(Arc::new(Churn)));
    let mut writer = ParameterWriter::default();
    writer.bigint(ROWS - 60).bigint(80);
    let given = ParameterSet::new(writer.bytes()).expect("parameters");
    let mut out = Vec::new();
    let outcome = run_procedure(&mut database, &procedure, given, &transaction(), &mut out);
    assert_eq!(outcome.failure, None);
    database.commit();
    let mut shown = tables(&out).into_iter();
    for row in ROWS - 60..ROWS + 20 {
        let expected = match row % 6 {
            // Deleted two rows ago, and in every other case put there again.
            2 => "a new text, long enough".to_string(),
            5 => String::new(),
            _ if row < ROWS => format!("the text of row {row}, in a tail"),
            _ => String::new(),
        };
        assert_eq!(shown.next(), Some(expected), "row {row}");
        if row % 3 == 0 {
            assert_eq!(shown.next().as_deref(), Some(if row + 2 < ROWS { "1" } else { "0" }));
        }
        if row % 6 == 0 {
            assert_eq!(shown.next().as_deref(), Some("1"));
        }
    }
}
