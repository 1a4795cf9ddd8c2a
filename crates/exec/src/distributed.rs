//! Statements over several partitions: fragments at each, then the coordinator's part over the
//! tables that they sent.
//!
//! Rounds of [`Execution::Distributed`]: [`execute_fragment`] wherever the fragment's target says,
//! then [`coordinate`]. Rounds of [`Execution::Shipped`]: the same fragments, then [`ship`], which
//! gives each partition its rows; [`execute_apply`] there; then [`coordinate_counts`].

mod alone;

pub(crate) use alone::joined_up;

use crate::arena::Arena;
use crate::change::{Work, partition_of_key};
use crate::context::{Context, NoSubqueries};
use crate::convert::{statement_parameter, statement_parameters};
use crate::database::{Database, DatabaseOptions};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use crate::query::{Executor, Flow, Run, Settings, write_query};
use crate::statement::{PreparedStatement, check_start, read_tables, run_operation};
use crate::watch::Watch;
use lockstep_plan_ir::Expression;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::statement::{Coordinator, Execution, Fragment, KnownEntry, Query};
use lockstep_storage::Tables;
use lockstep_types::{
    Datum, HashRing, ParameterSet, PartitionId, TableBuilder, TableSchema, TableView,
};

/// Runs a body with a `Run` over a desk: everything in it lives as long as the desk's borrow.
macro_rules! with_run {
    (
        $desk:expr, $statement:expr, $parameters:expr, $coordinator:expr,
        $run:ident => $body:expr
    ) => {{
        let slot_count = usize::from($statement.slot_count);
        let executor = $desk.executor(slot_count, $coordinator);
        let context = Context {
            parameters: $parameters,
            arena: &$desk.arena,
            now_us: $coordinator.timestamp_us,
            subqueries: &executor,
        };
        let frame = Frame::new(&$desk.arena, slot_count);
        let $run = Run { executor: &executor, context: &context, frame };
        $body
    }};
}

/// Where a coordinator stands.
#[derive(Debug, Clone)]
pub struct CoordinatorContext {
    /// The transaction's time: NOW.
    pub timestamp_us: i64,
    /// The largest result, in bytes.
    pub result_limit_bytes: usize,
    /// Memory for intermediate results, in bytes.
    pub temporary_limit_bytes: usize,
    /// Stops and counts what the coordinator runs.
    pub watch: Watch,
}

impl CoordinatorContext {
    /// The limits of a site's options.
    pub fn new(timestamp_us: i64, options: &DatabaseOptions) -> CoordinatorContext {
        CoordinatorContext {
            timestamp_us,
            result_limit_bytes: options.result_limit_bytes,
            temporary_limit_bytes: options.temporary_limit_bytes,
            watch: Watch::default(),
        }
    }
}

/// The fragments of a statement that runs at several partitions; none of a local one.
pub fn fragments(prepared: &PreparedStatement) -> &[Fragment] {
    match &prepared.statement().execution {
        Execution::Local { .. } => &[],
        Execution::Distributed { fragments, .. } | Execution::Shipped { fragments, .. } => {
            fragments
        }
    }
}

/// The partition that a value without slots names: of an owner target, or of the routing of a
/// local statement.
///
/// # Errors
/// What the expression's evaluation refuses.
fn owner(
    expression: &Expression,
    parameters: &[Datum<'_>],
    timestamp_us: i64,
    ring: &HashRing,
) -> Result<PartitionId, SqlError> {
    let arena = Arena::new();
    let context =
        Context { parameters, arena: &arena, now_us: timestamp_us, subqueries: &NoSubqueries };
    let value = evaluate(expression, &context, &Frame::new(&arena, 0))?;
    Ok(ring.partition_of(value))
}

/// As [`owner`], from a statement's parameters as they were sent. Where the value is one of them,
/// the others are not converted: they are where the statement runs.
///
/// # Errors
/// Parameters that do not fit, and what the expression's evaluation refuses.
pub fn owner_of_given(
    expression: &Expression,
    prepared: &PreparedStatement,
    given: ParameterSet<'_>,
    timestamp_us: i64,
    ring: &HashRing,
) -> Result<PartitionId, SqlError> {
    let arena = Arena::new();
    let planned = &prepared.statement().parameters;
    if let Node::Parameter(number) = expression.node {
        let value = statement_parameter(given, planned, number.into(), &arena)?;
        return Ok(ring.partition_of(value));
    }
    let parameters = statement_parameters(given, planned, &arena)?;
    owner(expression, &parameters, timestamp_us, ring)
}

/// The partition of an index entry that a statement is known to add.
///
/// # Errors
/// What the evaluation of the key refuses.
pub fn owner_of_entry(
    entry: &KnownEntry,
    parameters: &[Datum<'_>],
    timestamp_us: i64,
    ring: &HashRing,
) -> Result<PartitionId, SqlError> {
    let arena = Arena::new();
    let context =
        Context { parameters, arena: &arena, now_us: timestamp_us, subqueries: &NoSubqueries };
    let frame = Frame::new(&arena, 0);
    let key = entry.values.iter().take(usize::from(entry.key_count));
    let key: Vec<Datum<'_>> =
        key.map(|value| evaluate(value, &context, &frame)).collect::<Result<_, _>>()?;
    Ok(partition_of_key(ring, &key))
}

/// Runs one fragment at this partition and appends its table to `out`.
///
/// # Errors
/// What the fragment violates; data and `out` are then as they were.
pub fn execute_fragment(
    database: &mut Database,
    prepared: &PreparedStatement,
    fragment: usize,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let statement = prepared.statement();
    let Some(fragment) = fragments(prepared).get(fragment) else {
        return Err(SqlError::sql(format!("the statement has no fragment {fragment}")));
    };
    let mark = database.mark();
    atomically(database, out, |database, out| {
        check_start(database, statement, parameters)?;
        let work = Work { parameters, received: &[], slot_count: statement.slot_count.into() };
        run_operation(database, prepared, &fragment.operation, &fragment.result, work, out)
    })?;
    database.note_changes(mark, prepared, parameters);
    Ok(())
}

/// Runs the second round of a shipped statement at this partition: `rows` is the table that
/// [`ship`] made for it.
///
/// # Errors
/// As for [`execute_fragment`].
pub fn execute_apply(
    database: &mut Database,
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    rows: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let statement = prepared.statement();
    let Execution::Shipped { apply, finish, .. } = &statement.execution else {
        return Err(SqlError::sql("the statement ships no rows"));
    };
    let mark = database.mark();
    atomically(database, out, |database, out| {
        check_start(database, statement, parameters)?;
        let received = [read_tables([rows].into_iter())?];
        let slot_count = statement.slot_count.into();
        let work = Work { parameters, received: &received, slot_count };
        let result = finish.as_ref().map_or(&statement.result, |finish| &finish.sent);
        run_operation(database, prepared, apply, result, work, out)
    })?;
    database.note_changes(mark, prepared, parameters);
    Ok(())
}

fn atomically(
    database: &mut Database,
    out: &mut Vec<u8>,
    run: impl FnOnce(&mut Database, &mut Vec<u8>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    database.begin_statement();
    let mark = database.mark();
    let length = out.len();
    let mut result = run(database, out);
    if database.has_entry_changes() && result.is_ok() {
        result = database.settle_entries();
    }
    if result.is_err() {
        out.truncate(length);
        database.rollback_to(mark);
    }
    result
}

/// Makes the result of a distributed statement of what the fragments sent and appends it to
/// `out`. `inputs` has, per fragment, the tables of the partitions that ran it, in partition
/// order.
///
/// # Errors
/// What the coordinator's part violates; `out` is then as it was.
pub fn coordinate(
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    inputs: &[Vec<&[u8]>],
    context: &CoordinatorContext,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let statement = prepared.statement();
    let Execution::Distributed { coordinator, .. } = &statement.execution else {
        unreachable!("only distributed statements are merged by the coordinator");
    };
    let length = out.len();
    let result = match coordinator {
        Coordinator::Query(query) => {
            query_result(prepared, query, parameters, inputs, context, out)
        }
        Coordinator::SumCounts => add_counts(prepared, inputs, false, out),
        Coordinator::SameCount => add_counts(prepared, inputs, true, out),
    };
    if result.is_err() {
        out.truncate(length);
    }
    result
}

fn query_result(
    prepared: &PreparedStatement,
    query: &Query,
    parameters: &[Datum<'_>],
    inputs: &[Vec<&[u8]>],
    context: &CoordinatorContext,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let statement = prepared.statement();
    let desk = Desk::new(inputs)?;
    with_run!(desk, statement, parameters, context, run => {
        write_query(&run, query, &statement.result, context.result_limit_bytes, out)
    })
}

/// Makes the result of a shipped statement of what the partitions sent in its second round:
/// counts, or for a query rows.
///
/// # Errors
/// Damaged tables, replicas of a table that disagree, and what the coordinator's part violates;
/// `out` is then as it was.
pub fn coordinate_applied(
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    inputs: &[Vec<&[u8]>],
    context: &CoordinatorContext,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let Execution::Shipped { replicated, finish, .. } = &prepared.statement().execution else {
        unreachable!("only statements that ship rows have a second round");
    };
    let Some(finish) = finish else { return add_counts(prepared, inputs, *replicated, out) };
    let length = out.len();
    let result = query_result(prepared, &finish.query, parameters, inputs, context, out);
    if result.is_err() {
        out.truncate(length);
    }
    result
}

/// The rows that a shipped statement sends to each partition: a table per partition.
///
/// # Errors
/// As for [`coordinate`].
pub fn ship(
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    inputs: &[Vec<&[u8]>],
    context: &CoordinatorContext,
    ring: &HashRing,
) -> Result<Vec<Vec<u8>>, SqlError> {
    let statement = prepared.statement();
    let Execution::Shipped { query, types, partition_columns, .. } = &statement.execution else {
        unreachable!("only statements that ship rows have a second round");
    };
    let columns: Vec<_> = types.iter().map(|sql_type| ("", *sql_type)).collect();
    let schema = TableSchema::new(&columns);
    let partitions = ring.partition_count() as usize;
    let mut outs: Vec<Vec<u8>> = vec![Vec::new(); partitions];
    let mut tables: Vec<TableBuilder<'_>> =
        outs.iter_mut().map(|out| TableBuilder::begin(out, &schema)).collect();
    let desk = Desk::new(inputs)?;
    with_run!(desk, statement, parameters, context, run => {
        ship_rows(&run, query, &schema, |row, values| match partition_columns.as_slice() {
            [] => tables.iter_mut().for_each(row),
            columns => {
                let places = columns.iter().map(|column| values[usize::from(*column)]);
                row(&mut tables[ring.partition_of_values(places).index()]);
            }
        })?;
    });
    tables.into_iter().for_each(|table| {
        table.finish();
    });
    Ok(outs)
}

/// Calls `place` for each row with what appends the row to a table.
fn ship_rows<'a>(
    run: &Run<'_, 'a>,
    query: &'a Query,
    schema: &TableSchema,
    mut place: impl FnMut(&mut dyn FnMut(&mut TableBuilder<'_>), &[Datum<'a>]),
) -> Result<(), SqlError> {
    let mut values = Vec::with_capacity(query.output.len());
    run.run(&query.relation, &mut || {
        values.clear();
        for expression in &query.output {
            values.push(run.value(expression)?);
        }
        run.charge(values.len() * size_of::<Datum<'_>>())?;
        let mut append = |table: &mut TableBuilder<'_>| {
            table.row(schema, &values);
        };
        place(&mut append, &values);
        Ok(Flow::Continue)
    })?;
    Ok(())
}

/// What a coordinator's relations read: received tables and nothing else.
struct Desk<'b> {
    arena: Arena,
    tables: Tables,
    received: Vec<Vec<TableView<'b>>>,
}

impl<'b> Desk<'b> {
    fn new(inputs: &[Vec<&'b [u8]>]) -> Result<Desk<'b>, SqlError> {
        let received = inputs.iter().map(|tables| read_tables(tables.iter().copied()));
        let received = received.collect::<Result<_, _>>()?;
        Ok(Desk { arena: Arena::new(), tables: Tables::new(), received })
    }

    fn executor<'d>(&'d self, slot_count: usize, context: &'d CoordinatorContext) -> Executor<'d> {
        let settings = Settings {
            memory_limit: context.temporary_limit_bytes,
            // What a coordinator reads are no tables.
            batch_rows_min: None,
            watch: &context.watch,
        };
        Executor::new(&self.tables, &self.arena, &self.received, slot_count, settings)
    }
}

fn add_counts(
    prepared: &PreparedStatement,
    inputs: &[Vec<&[u8]>],
    same: bool,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let mut total: Option<i64> = None;
    for table in read_tables(inputs.iter().flatten().copied())? {
        let count = match table.scalar() {
            Ok(Some(Datum::Int(count))) => count,
            _ => return Err(SqlError::sql("a partition sent no count")),
        };
        total = Some(match total {
            None => count,
            Some(total) if same && total == count => total,
            Some(total) if same => {
                return Err(SqlError::sql(format!(
                    "the partitions' copies of a replicated table differ: {total} and {count} rows"
                )));
            }
            Some(total) => total.saturating_add(count),
        });
    }
    prepared.counts().write(total.unwrap_or(0) as u64, out);
    Ok(())
}

/// Runs a statement of any kind at the only partition.
pub(crate) fn execute_alone(
    database: &mut Database,
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if database.options.ring.partition_count() != 1 {
        return Err(SqlError::sql(format!(
            "the statement needs several partitions and runs in a single-partition procedure: {}",
            prepared.statement().text
        )));
    }
    if database.watch.profiler.is_none()
        && let Some(query) = prepared.joined_up()
    {
        let statement = prepared.statement();
        let work = Work { parameters, received: &[], slot_count: statement.slot_count.into() };
        return run_operation(database, prepared, query, &statement.result, work, out);
    }
    let mut tables = vec![Vec::new(); fragments(prepared).len()];
    for (number, table) in tables.iter_mut().enumerate() {
        execute_fragment(database, prepared, number, parameters, table)?;
    }
    let inputs: Vec<Vec<&[u8]>> = tables.iter().map(|table| vec![table.as_slice()]).collect();
    let mut context = CoordinatorContext::new(database.transaction.timestamp_us, &database.options);
    context.watch = database.watch.clone();
    if let Execution::Shipped { .. } = prepared.statement().execution {
        let ring = database.options.ring.clone();
        let shipped = ship(prepared, parameters, &inputs, &context, &ring)?;
        let rows = shipped.first().map_or(&[][..], Vec::as_slice);
        let mut applied = Vec::new();
        execute_apply(database, prepared, parameters, rows, &mut applied)?;
        let inputs = [vec![applied.as_slice()]];
        return coordinate_applied(prepared, parameters, &inputs, &context, out);
    }
    coordinate(prepared, parameters, &inputs, &context, out)
}
