//! Statements: prepared once, shared by all sites, executed at one.

mod ahead;
mod columns;
mod fast;
mod guard;

use crate::change::{Work, run_change};
use crate::context::Context;
use crate::database::Database;
use crate::error::SqlError;
use crate::frame::Frame;
use crate::query::{Executor, Run, write_query};
pub(crate) use ahead::Ahead;
use columns::ColumnQuery;
use fast::FastPath;
use lockstep_plan_ir::statement::{Execution, Operation};
use lockstep_plan_ir::{ProcedureDefinition, Statement};
use lockstep_storage::RowId;
use lockstep_types::{Datum, SqlType, TableBuilder, TableId, TableSchema, TableView};
use std::sync::{Arc, OnceLock};

/// A statement that is ready to run. Sites share it.
#[derive(Debug, Clone)]
pub struct PreparedStatement {
    statement: Arc<Statement>,
    fast: Option<FastPath>,
    /// The table of a statement that changes rows, with a count of 0.
    counts: CountTable,
    /// The table into which VALUES go.
    inserted: Option<TableId>,
    /// What it is to the digest of changes.
    identity: u64,
    /// A distributed query for the only partition, once it was run there.
    joined_up: OnceLock<Option<Box<Operation>>>,
    origin: StatementOrigin,
}

/// Where a statement comes from: what a log says of it, to find or plan it again.
#[derive(Debug, Clone)]
pub enum StatementOrigin {
    /// The numbered statement of a procedure.
    Procedure {
        /// The procedure.
        definition: Arc<ProcedureDefinition>,
        /// The statement's place in it.
        number: u32,
    },
    /// Text that was planned by itself.
    Text {
        /// As within a single-partition procedure.
        single_partition: bool,
        /// Planner rules that were off, as a number.
        rules_off: u64,
        /// What else it was planned with, as the planner's side encodes it, where that is not what
        /// the catalog has: nothing that the log has is planned so.
        planning: Option<Arc<[u8]>>,
    },
    /// The question to a global index where the row of a key lives
    /// ([`lockstep_plan_ir::lookup::question`]).
    Question {
        /// The table of the index's entries.
        entries: TableId,
    },
}

/// The table of a statement that changes rows: the same bytes each time, but for the count.
#[derive(Debug, Clone)]
pub(crate) struct CountTable {
    bytes: Box<[u8]>,
}

impl CountTable {
    pub(crate) fn new(schema: &TableSchema) -> CountTable {
        let modified = TableSchema::modified_tuples();
        let is_count = schema.types() == [SqlType::BigInt];
        let schema = if is_count { schema } else { &modified };
        let mut bytes = Vec::new();
        let mut table = TableBuilder::begin(&mut bytes, schema);
        table.row(schema, &[Datum::Int(0)]);
        table.finish();
        CountTable { bytes: bytes.into() }
    }

    /// Appends the table with a count.
    #[inline]
    pub(crate) fn write(&self, count: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        if let Some(place) = out.last_chunk_mut::<8>() {
            *place = count.to_be_bytes();
        }
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<PreparedStatement>();
};

impl PreparedStatement {
    /// Prepares a planned statement.
    pub fn new(statement: Arc<Statement>) -> PreparedStatement {
        let fast = match &statement.execution {
            Execution::Local { operation, .. } => FastPath::of(operation, &statement.result),
            _ => None,
        };
        let counts = CountTable::new(&statement.result);
        let inserted = guard::inserted(&statement);
        let joined_up = OnceLock::new();
        let (single_partition, rules_off, planning) = (false, 0, None);
        let origin = StatementOrigin::Text { single_partition, rules_off, planning };
        let identity = crate::digest::statement_identity(&statement.text);
        PreparedStatement { statement, fast, counts, inserted, identity, joined_up, origin }
    }

    /// Prepares a statement for a host with this many partitions: at the only one, a distributed
    /// query runs whole.
    pub fn for_partitions(mut statement: Statement, partition_count: u32) -> PreparedStatement {
        if partition_count == 1
            && let Some(operation) = crate::distributed::joined_up(&statement)
        {
            statement.execution = Execution::Local { operation, routing: None };
        }
        PreparedStatement::new(Arc::new(statement))
    }

    /// Prepares a statement that always runs by its operators, so that they can be counted.
    pub fn without_fast_path(statement: Arc<Statement>) -> PreparedStatement {
        PreparedStatement { fast: None, ..PreparedStatement::new(statement) }
    }

    /// The same statement as it always runs by its operators, so that they can be counted.
    pub fn by_operators(&self) -> PreparedStatement {
        PreparedStatement::without_fast_path(Arc::clone(&self.statement))
            .with_origin(self.origin.clone())
    }

    /// The statement, coming from elsewhere than from plain text.
    pub fn with_origin(self, origin: StatementOrigin) -> PreparedStatement {
        PreparedStatement { origin, ..self }
    }

    /// Where it comes from.
    pub fn origin(&self) -> &StatementOrigin {
        &self.origin
    }

    /// The plan.
    pub fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }

    /// Whether the statement runs on a path of its own: get, insert, update or delete of one row,
    /// or columns of an index range.
    pub fn is_fast(&self) -> bool {
        self.fast.is_some()
    }

    /// Asks for the memory that an execution with these parameters will read, if that is plain.
    #[inline(always)]
    pub(crate) fn prefetch(&self, database: &Database, parameters: &[Datum<'_>]) {
        if let Some(fast) = &self.fast {
            fast.prefetch(database, parameters);
        }
    }

    /// A distributed query as one that runs whole at the only partition.
    pub(crate) fn joined_up(&self) -> Option<&Operation> {
        let joined_up = || crate::distributed::joined_up(&self.statement).map(Box::new);
        self.joined_up.get_or_init(joined_up).as_deref()
    }

    /// What the statement is to the digest of changes.
    #[inline]
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The result of a statement that changes rows.
    #[inline]
    pub(crate) fn counts(&self) -> &CountTable {
        &self.counts
    }
}

/// As [`execute`], where the row is known that the statement finds by its key.
#[inline]
pub(crate) fn execute_at(
    database: &mut Database,
    prepared: &PreparedStatement,
    row: RowId,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if let Some(FastPath::Columns(ColumnQuery::Get(query))) = &prepared.fast {
        check_start(database, &prepared.statement, parameters)?;
        guard::check(database, &prepared.statement, prepared.inserted, parameters)?;
        return query.run_at(database, row, out);
    }
    execute(database, prepared, parameters, out)
}

/// Executes a statement whose work is all at this site, and appends its result table to `out`.
/// With one partition that is every statement.
///
/// # Errors
/// What the statement violates; data and `out` are then as they were.
pub fn execute(
    database: &mut Database,
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if let Some(FastPath::Columns(query)) = &prepared.fast {
        check_start(database, &prepared.statement, parameters)?;
        guard::check(database, &prepared.statement, prepared.inserted, parameters)?;
        // It changes nothing, and when it fails it has truncated `out` itself.
        return query.run(database, parameters, out);
    }
    let length = out.len();
    database.begin_statement();
    let mark = database.mark();
    let mut result = start(database, prepared, parameters, out);
    if database.has_entry_changes() && result.is_ok() {
        result = database.settle_entries();
    }
    match result {
        Ok(()) => database.note_changes(mark, prepared, parameters),
        Err(_) => {
            out.truncate(length);
            database.rollback_to(mark);
        }
    }
    result
}

#[inline]
fn start(
    database: &mut Database,
    prepared: &PreparedStatement,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let statement = &*prepared.statement;
    check_start(database, statement, parameters)?;
    guard::check(database, statement, prepared.inserted, parameters)?;
    if let Some(fast) = &prepared.fast {
        return fast.run(database, prepared, parameters, out);
    }
    match &statement.execution {
        Execution::Local { operation, .. } => {
            let work = Work { parameters, received: &[], slot_count: statement.slot_count.into() };
            run_operation(database, prepared, operation, &statement.result, work, out)
        }
        _ => crate::distributed::execute_alone(database, prepared, parameters, out),
    }
}

/// Refuses what no statement may begin with.
#[inline]
pub(crate) fn check_start(
    database: &Database,
    statement: &Statement,
    parameters: &[Datum<'_>],
) -> Result<(), SqlError> {
    if parameters.len() != statement.parameters.len() {
        return Err(parameter_count(statement, parameters.len()));
    }
    if database.transaction.read_only && !statement.read_only {
        return Err(read_only(statement));
    }
    Ok(())
}

/// Refuses a bulk load in a transaction that only reads.
pub(crate) fn check_start_of_load(
    database: &Database,
    statement: &Statement,
) -> Result<(), SqlError> {
    match database.transaction.read_only {
        true => Err(read_only(statement)),
        false => Ok(()),
    }
}

#[cold]
fn parameter_count(statement: &Statement, given: usize) -> SqlError {
    SqlError::argument(format!(
        "Number of arguments provided was {given} where {} was expected for statement {}",
        statement.parameters.len(),
        statement.text
    ))
}

#[cold]
fn read_only(statement: &Statement) -> SqlError {
    SqlError::sql(format!("a read-only transaction cannot run: {}", statement.text))
}

/// Runs one operation and appends its table.
pub(crate) fn run_operation(
    database: &mut Database,
    prepared: &PreparedStatement,
    operation: &Operation,
    schema: &TableSchema,
    work: Work<'_>,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    match operation {
        Operation::Query(query) => {
            let arena = &database.arena;
            let options = &database.options;
            let settings = options.settings(&database.watch);
            let (tables, slots) = (&database.tables, work.slot_count);
            let executor = Executor::new(tables, arena, work.received, slots, settings);
            let context = Context {
                parameters: work.parameters,
                arena,
                now_us: database.transaction.timestamp_us,
                subqueries: &executor,
            };
            let frame = Frame::new(arena, work.slot_count);
            let run = Run { executor: &executor, context: &context, frame };
            write_query(&run, query, schema, options.result_limit_bytes, out)
        }
        change => {
            let count = run_change(database, change, work)?;
            prepared.counts.write(count, out);
            Ok(())
        }
    }
}

/// Reads the tables that partitions sent.
pub(crate) fn read_tables<'b>(
    tables: impl Iterator<Item = &'b [u8]>,
) -> Result<Vec<TableView<'b>>, SqlError> {
    tables
        .map(|bytes| {
            TableView::read(&mut lockstep_base::bytes::ByteReader::new(bytes))
                .map_err(|error| SqlError::sql(format!("a fragment's table is damaged: {error}")))
        })
        .collect()
}
