//! What a running procedure sees and does.

use super::faults::{
    begin_batch, damaged, damaged_parameters, no_such_table, note_failed_batch, spans,
    unknown_statement, unreadable, wrong_count,
};
use super::hosted::BlockingRounds;
use super::parameters::{queued_parameter, take_plain};
use super::round::{BatchResult, QueuedStatement, queued_statement};
use super::{PreparedProcedure, ProcedureError, Suspended};
use crate::arena::Arena;
use crate::change::own;
use crate::convert::{array_elements, queued_list};
use crate::database::{Database, TransactionContext};
use crate::error::SqlError;
use crate::statement::{Ahead, execute, execute_at};
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_types::outcome::NO_APPLICATION_STATUS;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::table::read_datum;
use lockstep_types::{
    Datum, Failure, Outcome, Parameter, ParameterSet, PartitionId, SqlType, TableBuilder,
    TableSchema, TableView, TransactionId,
};

/// The most statements of one batch.
pub const BATCH_LIMIT: usize = 100_000;
/// Room for queued statements that every call has.
const FIRST_QUEUE: usize = 4;

/// A queued statement with its parameters.
#[derive(Clone, Copy)]
struct Queued<'c> {
    statement: usize,
    parameters: &'c [Datum<'c>],
}

/// Where batches are executed.
pub(super) enum Backend<'c> {
    /// At once, at this site.
    Local { database: &'c mut Database, results: &'c mut Vec<u8>, starts: &'c mut Vec<u32> },
    /// At partitions, between rounds.
    Rounds {
        transaction: TransactionContext,
        history: &'c [BatchResult],
        next: usize,
        /// The batch that the next round needs; nothing runs after it is there.
        wanted: Option<Vec<QueuedStatement>>,
    },
    /// At partitions, while the procedure's thread waits.
    Blocking {
        transaction: TransactionContext,
        rounds: &'c mut dyn BlockingRounds,
        /// The results of the batch before.
        last: BatchResult,
    },
}

impl<'c> Backend<'c> {
    pub(super) fn local(
        database: &'c mut Database,
        results: &'c mut Vec<u8>,
        starts: &'c mut Vec<u32>,
    ) -> Backend<'c> {
        Backend::Local { database, results, starts }
    }
}

/// A call of a native procedure.
pub struct ProcedureContext<'c> {
    procedure: &'c PreparedProcedure,
    parameters: &'c [Datum<'c>],
    /// What a hosted procedure gets instead: its parameters as the client sent them.
    given: ParameterSet<'c>,
    arena: &'c Arena,
    queue: &'c mut [Queued<'c>],
    queued: usize,
    backend: Backend<'c>,
    random: Option<SeededRandom>,
    /// A batch failed, which undoes the call whatever its code makes of that: a procedure over
    /// several partitions runs at the only one, or the failure was that of a limit of the host.
    doomed: Option<Failure>,
    application_status: i8,
    application_text: Option<String>,
    out: &'c mut Vec<u8>,
    table_count: u16,
}

/// The result tables of a batch, one per statement.
#[derive(Clone, Copy)]
pub struct BatchResults<'b> {
    tables: Tables<'b>,
}

#[derive(Clone, Copy)]
enum Tables<'b> {
    Joined { bytes: &'b [u8], starts: &'b [u32] },
    Apart(&'b [Vec<u8>]),
}

impl<'b> BatchResults<'b> {
    /// Number of tables.
    pub fn len(&self) -> usize {
        match self.tables {
            Tables::Joined { starts, .. } => starts.len(),
            Tables::Apart(tables) => tables.len(),
        }
    }

    /// All tables in their wire form, in parts to be put one after the other.
    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = &'b [u8]> + Clone + use<'b> {
        let (joined, apart): (_, &[_]) = match self.tables {
            Tables::Joined { bytes, .. } => (Some(bytes), &[]),
            Tables::Apart(tables) => (None, tables),
        };
        joined.into_iter().chain(apart.iter().map(Vec::as_slice))
    }

    /// True for an empty batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a statement's table.
    fn bytes(&self, number: usize) -> Option<&'b [u8]> {
        match self.tables {
            Tables::Joined { bytes, starts } => {
                let start = *starts.get(number)? as usize;
                let end = starts.get(number + 1).map_or(bytes.len(), |end| *end as usize);
                bytes.get(start..end)
            }
            Tables::Apart(tables) => tables.get(number).map(Vec::as_slice),
        }
    }

    /// The table of the statement that was queued at this place, from 0.
    ///
    /// # Errors
    /// The batch had fewer statements.
    #[inline]
    pub fn table(&self, number: usize) -> Result<TableView<'b>, ProcedureError> {
        let bytes = self.bytes(number).ok_or_else(|| no_such_table(number))?;
        TableView::read(&mut ByteReader::new(bytes))
            .map_err(|error| ProcedureError::Unexpected(error.to_string()))
    }

    /// Number of rows of a statement's table.
    ///
    /// # Errors
    /// As for [`BatchResults::table`].
    #[inline]
    pub fn row_count(&self, number: usize) -> Result<u32, ProcedureError> {
        let bytes = self.bytes(number).ok_or_else(|| no_such_table(number))?;
        Ok(body(bytes).ok_or_else(damaged)?.row_count)
    }

    /// The first value of a statement's table: `None` when it has no row.
    ///
    /// # Errors
    /// As for [`BatchResults::table`].
    #[inline]
    pub fn scalar(&self, number: usize) -> Result<Option<Datum<'b>>, ProcedureError> {
        let bytes = self.bytes(number).ok_or_else(|| no_such_table(number))?;
        let Body { first_type, row_count, rows } = body(bytes).ok_or_else(damaged)?;
        if row_count == 0 {
            return Ok(None);
        }
        if first_type == SqlType::BigInt.code()
            && let Some([_, _, _, _, value @ ..]) = rows.first_chunk::<12>()
        {
            let value = i64::from_be_bytes(*value);
            return Ok(Some(if value == i64::MIN { Datum::Null } else { Datum::Int(value) }));
        }
        let first_value = rows.get(4..).ok_or_else(damaged)?;
        let sql_type = SqlType::from_code(first_type).ok_or_else(damaged)?;
        read_datum(&mut ByteReader::new(first_value), sql_type).map(Some).map_err(|_| damaged())
    }
}

/// What a look at a table's first value needs.
struct Body<'b> {
    first_type: i8,
    row_count: u32,
    rows: &'b [u8],
}

/// Finds the rows of a table that the executor wrote, without walking over its header.
#[inline]
fn body(bytes: &[u8]) -> Option<Body<'_>> {
    // i32 table length, i32 header length, i8 status, i16 columns, then the type of the first.
    let [_, _, _, _, a, b, c, d, _, _, _, first_type] = *bytes.first_chunk()?;
    let (header_bytes, first_type) = (u32::from_be_bytes([a, b, c, d]) as usize, first_type as i8);
    let (count, rows) = bytes.get(8 + header_bytes..)?.split_first_chunk()?;
    Some(Body { first_type, row_count: u32::from_be_bytes(*count), rows })
}

impl<'c> ProcedureContext<'c> {
    pub(super) fn new(
        procedure: &'c PreparedProcedure,
        parameters: &'c [Datum<'c>],
        arena: &'c Arena,
        backend: Backend<'c>,
        out: &'c mut Vec<u8>,
    ) -> ProcedureContext<'c> {
        let empty = Queued { statement: 0, parameters: &[] };
        ProcedureContext {
            procedure,
            parameters,
            given: ParameterSet::EMPTY,
            arena,
            queue: arena.fill(FIRST_QUEUE, empty),
            queued: 0,
            backend,
            random: None,
            doomed: None,
            application_status: NO_APPLICATION_STATUS,
            application_text: None,
            out,
            table_count: 0,
        }
    }

    pub(super) fn set_given(&mut self, given: ParameterSet<'c>) {
        self.given = given;
    }

    /// The parameters of a hosted procedure's call as the client sent them; of others, none.
    pub fn given(&self) -> ParameterSet<'c> {
        self.given
    }

    /// The procedure's name.
    pub fn procedure_name(&self) -> &'c str {
        &self.procedure.definition.name
    }

    /// The partition that the call runs at; [`PartitionId::MULTI`] when at several.
    pub fn partition(&self) -> PartitionId {
        match &self.backend {
            Backend::Local { .. } if spans(self.procedure) => PartitionId::MULTI,
            Backend::Local { database, .. } => database.options().partition,
            Backend::Rounds { .. } | Backend::Blocking { .. } => PartitionId::MULTI,
        }
    }

    /// A parameter, of its declared type; NULL past the last.
    #[inline]
    pub fn parameter(&self, number: usize) -> Datum<'c> {
        self.parameters.get(number).copied().unwrap_or(Datum::Null)
    }

    /// The elements of an array parameter.
    pub fn array_parameter(&self, number: usize) -> impl Iterator<Item = Datum<'c>> + use<'c> {
        array_elements(self.parameter(number))
    }

    /// Queues a statement of the procedure, by its place in the list.
    ///
    /// # Errors
    /// An unknown statement, a wrong number of parameters, a value that does not fit.
    pub fn queue(
        &mut self,
        statement: usize,
        parameters: &[Datum<'_>],
    ) -> Result<(), ProcedureError> {
        let Some(prepared) = self.procedure.statements.get(statement) else {
            return Err(unknown_statement(statement));
        };
        let wanted = &*prepared.statement().parameters;
        if wanted.len() != parameters.len() {
            return Err(wrong_count(prepared, parameters.len()));
        }
        let arena = self.arena;
        let values = arena.fill(parameters.len(), Datum::Null);
        for ((value, given), wanted) in values.iter_mut().zip(parameters).zip(wanted) {
            // Written in place: through a temporary, the copy would wait for the bytes beside
            // the tag to reach memory.
            match (given, wanted.sql_type) {
                (
                    Datum::Int(number),
                    SqlType::Integer | SqlType::SmallInt | SqlType::TinyInt | SqlType::BigInt,
                ) => *value = Datum::Int(*number),
                (Datum::Float(number), SqlType::Float) => *value = Datum::Float(*number),
                (Datum::Timestamp(time), SqlType::Timestamp) => *value = Datum::Timestamp(*time),
                (Datum::Text(text), SqlType::Varchar) => {
                    *value = Datum::Text(arena.copy_text(text));
                }
                _ => *value = queued_parameter(own(arena, *given), *wanted, prepared, arena)?,
            }
        }
        if let Backend::Local { database, .. } = &self.backend {
            prepared.prefetch(database, values);
        }
        if self.queued == self.queue.len() {
            self.grow_queue()?;
        }
        if let Some(place) = self.queue.get_mut(self.queued) {
            *place = Queued { statement, parameters: values };
            self.queued += 1;
        }
        Ok(())
    }

    /// Queues a statement with the parameter set at the beginning of `bytes`, which stay where
    /// they are until [`ProcedureContext::execute`]. Gives the bytes after the set.
    ///
    /// # Errors
    /// As for [`ProcedureContext::queue`].
    pub fn queue_encoded(
        &mut self,
        statement: usize,
        bytes: &'c [u8],
    ) -> Result<&'c [u8], ProcedureError> {
        let parameters = ParameterSet::new(bytes).map_err(|_| damaged_parameters())?;
        let Some(prepared) = self.procedure.statements.get(statement) else {
            return Err(unknown_statement(statement));
        };
        let wanted = &*prepared.statement().parameters;
        if wanted.len() != parameters.count() {
            return Err(wrong_count(prepared, parameters.count()));
        }
        let arena = self.arena;
        let values = arena.fill(wanted.len(), Datum::Null);
        let mut rest = parameters.bytes();
        for (value, wanted) in values.iter_mut().zip(wanted) {
            if let Some(behind) = take_plain(rest, *wanted, value) {
                rest = behind;
                continue;
            }
            let mut given = ParameterSet::from_parts(1, rest).iter();
            let parameter = given.next().ok_or_else(damaged_parameters)?;
            *value = match parameter.map_err(|error| unreadable(prepared, error))? {
                Parameter::Scalar(_, given) => queued_parameter(given, *wanted, prepared, arena)?,
                list => queued_list(list, wanted, arena)?,
            };
            rest = given.rest();
        }
        self.add_to_queue(statement, values)?;
        Ok(rest)
    }

    /// Forgets what is queued.
    pub fn clear_queue(&mut self) {
        self.queued = 0;
    }

    #[inline]
    fn add_to_queue(
        &mut self,
        statement: usize,
        parameters: &'c [Datum<'c>],
    ) -> Result<(), ProcedureError> {
        if let (Backend::Local { database, .. }, Some(prepared)) =
            (&self.backend, self.procedure.statements.get(statement))
        {
            prepared.prefetch(database, parameters);
        }
        if self.queued == self.queue.len() {
            self.grow_queue()?;
        }
        if let Some(place) = self.queue.get_mut(self.queued) {
            *place = Queued { statement, parameters };
            self.queued += 1;
        }
        Ok(())
    }

    #[cold]
    fn grow_queue(&mut self) -> Result<(), ProcedureError> {
        if self.queued >= BATCH_LIMIT {
            return Err(ProcedureError::Abort(format!(
                "a batch holds at most {BATCH_LIMIT} statements"
            )));
        }
        let empty = Queued { statement: 0, parameters: &[] };
        let longer = self.arena.fill(self.queue.len() * 2, empty);
        longer[..self.queued].copy_from_slice(&self.queue[..self.queued]);
        self.queue = longer;
        Ok(())
    }

    /// Executes the queued statements, in order, and empties the queue.
    ///
    /// # Errors
    /// A statement's failure undoes the whole batch; a single-partition procedure may go on.
    pub fn execute(&mut self) -> Result<BatchResults<'_>, ProcedureError> {
        let batch = &self.queue[..self.queued];
        self.queued = 0;
        match &mut self.backend {
            Backend::Local { database, results, starts } => {
                let done = begin_batch(database, &self.doomed)
                    .and_then(|()| execute_batch(database, self.procedure, batch, results, starts));
                if let Err(error) = done {
                    return Err(note_failed_batch(self.procedure, &mut self.doomed, error));
                }
                let tables = Tables::Joined { bytes: results, starts };
                Ok(BatchResults { tables })
            }
            Backend::Rounds { history, next, wanted, .. } => {
                if batch.is_empty() && wanted.is_none() {
                    return Ok(BatchResults { tables: Tables::Apart(&[]) });
                }
                if let (Some(result), None) = (history.get(*next), &wanted) {
                    *next += 1;
                    return Ok(BatchResults { tables: Tables::Apart(&result.tables) });
                }
                if wanted.is_none() {
                    let mut writer = ParameterWriter::default();
                    let queued = |queued: &Queued<'_>| {
                        let statement = &self.procedure.statements[queued.statement];
                        queued_statement(statement, queued.parameters, &mut writer)
                    };
                    *wanted = Some(batch.iter().map(queued).collect());
                }
                Err(ProcedureError::Suspended(Suspended(())))
            }
            Backend::Blocking { rounds, last, .. } => {
                last.tables.clear();
                if !batch.is_empty() {
                    let mut writer = ParameterWriter::default();
                    let queued = |queued: &Queued<'_>| {
                        let statement = &self.procedure.statements[queued.statement];
                        queued_statement(statement, queued.parameters, &mut writer)
                    };
                    let batch = batch.iter().map(queued).collect();
                    *last = rounds.execute(batch).map_err(ProcedureError::Failed)?;
                }
                Ok(BatchResults { tables: Tables::Apart(&last.tables) })
            }
        }
    }

    fn transaction(&self) -> &TransactionContext {
        match &self.backend {
            Backend::Local { database, .. } => database.transaction(),
            Backend::Rounds { transaction, .. } | Backend::Blocking { transaction, .. } => {
                transaction
            }
        }
    }

    /// The transaction's time, microseconds since 1970, of millisecond resolution.
    pub fn transaction_time_us(&self) -> i64 {
        self.transaction().timestamp_us
    }

    /// The transaction's unique number.
    pub fn transaction_id(&self) -> TransactionId {
        self.transaction().transaction_id
    }

    /// Random numbers: the same on every replica and at replay.
    pub fn random(&mut self) -> &mut SeededRandom {
        let seed = self.transaction().transaction_id.0;
        self.random.get_or_insert_with(|| SeededRandom::new(seed))
    }

    /// Sets the application status and its text, which the client gets beside the tables.
    pub fn set_application_status(&mut self, status: i8, text: impl Into<Option<String>>) {
        self.application_status = status;
        self.application_text = text.into();
    }

    /// An error that aborts the call: `return Err(context.abort("..."))`.
    #[cold]
    pub fn abort(&self, message: impl Into<String>) -> ProcedureError {
        ProcedureError::Abort(message.into())
    }

    /// Returns one number: a table with one BIGINT column without a name.
    pub fn return_scalar(&mut self, value: i64) {
        self.procedure.scalar.write(value as u64, self.out);
        self.table_count += 1;
    }

    /// Returns a table of rows.
    pub fn return_table<'d>(
        &mut self,
        schema: &TableSchema,
        rows: impl Iterator<Item = &'d [Datum<'d>]>,
    ) {
        let mut table = TableBuilder::begin(self.out, schema);
        for row in rows {
            table.row(schema, row);
        }
        table.finish();
        self.table_count += 1;
    }

    /// Returns a table of the last executed batch as it is.
    ///
    /// # Errors
    /// The batch had fewer statements.
    pub fn return_result(&mut self, number: usize) -> Result<(), ProcedureError> {
        let tables = match &self.backend {
            Backend::Local { results, starts, .. } => Tables::Joined { bytes: results, starts },
            Backend::Rounds { history, next, .. } => {
                let last = next.checked_sub(1).and_then(|last| history.get(last));
                Tables::Apart(last.map_or(&[], |batch| &batch.tables))
            }
            Backend::Blocking { last, .. } => Tables::Apart(&last.tables),
        };
        let results = BatchResults { tables };
        let bytes = results.bytes(number).ok_or_else(|| no_such_table(number))?;
        self.out.extend_from_slice(bytes);
        self.table_count += 1;
        Ok(())
    }

    /// Returns tables in their wire form, one after the other.
    pub fn return_encoded(&mut self, count: u16, tables: &[u8]) {
        self.out.extend_from_slice(tables);
        self.table_count = self.table_count.saturating_add(count);
    }

    /// The most bytes that the call may return.
    pub fn result_limit_bytes(&self) -> Option<usize> {
        match &self.backend {
            Backend::Local { database, .. } => Some(database.options().result_limit_bytes),
            Backend::Rounds { .. } | Backend::Blocking { .. } => None,
        }
    }

    /// The batch that the next round needs, if the procedure was suspended.
    pub(super) fn take_wanted(&mut self) -> Option<Vec<QueuedStatement>> {
        match &mut self.backend {
            Backend::Local { .. } | Backend::Blocking { .. } => None,
            Backend::Rounds { wanted, .. } => wanted.take(),
        }
    }

    /// How the call ended.
    pub(super) fn into_outcome(self, result: Result<(), ProcedureError>) -> Outcome {
        Outcome {
            table_count: match &self.doomed {
                None if result.is_ok() => self.table_count,
                _ => 0,
            },
            application_status: self.application_status,
            application_text: self.application_text,
            failure: result.err().map(ProcedureError::into_failure).or(self.doomed),
        }
    }
}

/// Executes a batch at this site; a failure undoes all of it.
fn execute_batch(
    database: &mut Database,
    procedure: &PreparedProcedure,
    batch: &[Queued<'_>],
    results: &mut Vec<u8>,
    starts: &mut Vec<u32>,
) -> Result<(), ProcedureError> {
    results.clear();
    starts.clear();
    let (mark, limit) = (database.mark(), database.options.result_limit_bytes);
    let of = |queued: &Queued<'_>| &*procedure.statements[queued.statement];
    let mut ahead = Ahead::of(batch.len(), mark);
    for (number, queued) in batch.iter().enumerate() {
        let mut row = None;
        if let Some(ahead) = &mut ahead {
            ahead.step(database, number, |place| batch.get(place).map(|q| (of(q), q.parameters)));
            row = ahead.row(database, number);
        }
        starts.push(results.len() as u32);
        let (began, length) = (database.statement_begins(), results.len());
        let mut done = match row {
            Some(row) => execute_at(database, of(queued), row, queued.parameters, results),
            None => execute(database, of(queued), queued.parameters, results),
        };
        if let Some(began) = began {
            let bytes = results.len().saturating_sub(length);
            database.statement_ended(queued.statement, began, bytes, done.is_err());
        }
        if done.is_ok() && results.len() > limit {
            done = Err(crate::query::too_large(0, limit));
        }
        if let Err(error) = done {
            return Err(undo_batch(database, mark, results, starts, error));
        }
    }
    Ok(())
}

#[cold]
fn undo_batch(
    database: &mut Database,
    mark: lockstep_storage::UndoMark,
    results: &mut Vec<u8>,
    starts: &mut Vec<u32>,
    error: SqlError,
) -> ProcedureError {
    database.rollback_to(mark);
    results.clear();
    starts.clear();
    ProcedureError::Sql(error)
}
