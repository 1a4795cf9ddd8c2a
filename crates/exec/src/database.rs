//! The data of one site, and the transaction that runs on it.

use crate::arena::Arena;
use crate::change::{EntryChanges, TableState};
use crate::digest::ChangeDigest;
use crate::error::{SqlError, state};
use crate::lookup::RoutedKey;
use crate::procedure::CallMemory;
use crate::query::Settings;
use crate::schema_change::PreparedChange;
use crate::statement::PreparedStatement;
use crate::watch::{StatementTime, StatementTimes, Watch};
use lockstep_plan_ir::TableDefinition;
use lockstep_storage::{RowId, StorageError, Table, Tables, UndoLog, UndoMark};
use lockstep_types::{Datum, HashRing, PartitionId, TableId, TransactionId};
use std::sync::Arc;

/// The arena's memory that is kept from one statement to the next.
const KEPT_ARENA_BYTES: usize = 1 << 20;
/// Batches of procedures between two checks of the time.
const BATCHES_PER_CHECK: u32 = 256;
/// Changes of rows after which tables are looked after.
const CHANGES_A_MAINTENANCE: u64 = 16;

/// What a transaction is to the statements that run in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionContext {
    /// Its number; also the seed of its random numbers.
    pub transaction_id: TransactionId,
    /// Its time, microseconds since 1970: NOW.
    pub timestamp_us: i64,
    /// The call addresses this partition itself (all-partition calls, directed procedures,
    /// fragments): statements without a known partitioning value may run.
    pub addresses_partition: bool,
    /// The call is of a single-partition procedure: guards and the place of new rows are checked
    /// against this partition.
    pub single_partition: bool,
    /// No statement may write.
    pub read_only: bool,
}

/// Tables of fewer rows are not worth compiling for.
pub const BATCH_ROWS_MIN: u64 = 200;

/// See [`DatabaseOptions::entry_changes_limit_bytes`].
pub const DEFAULT_ENTRY_CHANGES_LIMIT_BYTES: usize = 64 << 20;

/// Limits and place of a [`Database`].
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// The partition that this is.
    pub partition: PartitionId,
    /// Which partition owns which value.
    pub ring: Arc<HashRing>,
    /// The largest result of one statement, in bytes.
    pub result_limit_bytes: usize,
    /// Memory that one statement may use for intermediate results, in bytes.
    pub temporary_limit_bytes: usize,
    /// Undo that open transactions may hold, in bytes.
    pub undo_limit_bytes: u64,
    /// Changes of global indexes' entries that one statement may ask for at a partition, in bytes.
    pub entry_changes_limit_bytes: usize,
    /// Whether queries may work on batches of rows; tests compare both ways.
    pub batches: bool,
    /// Whether a digest of changes is kept: see [`Database::change_digest`].
    pub digests: bool,
    /// Tables of fewer rows are not read in batches.
    pub batch_rows_min: u64,
}

impl DatabaseOptions {
    /// VoltDB's limits, for a partition of a ring.
    pub fn new(partition: PartitionId, ring: Arc<HashRing>) -> DatabaseOptions {
        DatabaseOptions {
            partition,
            ring,
            result_limit_bytes: 50 << 20,
            temporary_limit_bytes: 100 << 20,
            undo_limit_bytes: lockstep_storage::DEFAULT_UNDO_LIMIT_BYTES,
            entry_changes_limit_bytes: DEFAULT_ENTRY_CHANGES_LIMIT_BYTES,
            batches: true,
            digests: false,
            batch_rows_min: BATCH_ROWS_MIN,
        }
    }
}

/// What statements may use: see [`DatabaseOptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutionLimits {
    /// [`DatabaseOptions::result_limit_bytes`].
    pub result_bytes: usize,
    /// [`DatabaseOptions::temporary_limit_bytes`].
    pub temporary_bytes: usize,
    /// [`DatabaseOptions::undo_limit_bytes`].
    pub undo_bytes: u64,
    /// [`DatabaseOptions::entry_changes_limit_bytes`].
    pub entry_changes_bytes: usize,
}

impl ExecutionLimits {
    /// As much as they need.
    pub const NONE: ExecutionLimits = ExecutionLimits {
        result_bytes: usize::MAX,
        temporary_bytes: usize::MAX,
        undo_bytes: u64::MAX,
        entry_changes_bytes: usize::MAX,
    };
}

impl DatabaseOptions {
    /// What bounds and watches executions.
    pub(crate) fn settings<'a>(&self, watch: &'a Watch) -> Settings<'a> {
        Settings {
            memory_limit: self.temporary_limit_bytes,
            batch_rows_min: self.batches.then_some(self.batch_rows_min),
            watch,
        }
    }
}

/// One site's data.
pub struct Database {
    pub(crate) tables: Tables,
    pub(crate) states: Vec<Option<TableState>>,
    pub(crate) undo: UndoLog,
    digest: ChangeDigest,
    pub(crate) arena: Arena,
    pub(crate) options: DatabaseOptions,
    pub(crate) transaction: TransactionContext,
    pub(crate) watch: Watch,
    /// Lent by the host while it measures a call.
    pub(crate) measured: Option<Box<StatementTimes>>,
    transaction_mark: UndoMark,
    /// The rows that a statement changes, found before the first is changed.
    pub(crate) found_rows: Vec<RowId>,
    /// The integer that was last found to live here.
    pub(crate) owned_value: Option<i64>,
    /// Changes of index entries that the running statement asks for.
    pub(crate) entries: EntryChanges,
    /// What the call that runs was led here by.
    pub(crate) routed_key: RoutedKey,
    /// A statement of the transaction asked for a row that a global index finds elsewhere.
    pub(crate) misled: bool,
    pub(crate) change: Option<PreparedChange>,
    /// The undo log's place when the tables were last maintained.
    maintained: UndoMark,
    /// Changes since the tables were last checked, in builds that check them.
    unchecked: u64,
    /// Batches of procedures that have run, over all calls.
    batches_run: u32,
    /// Out while a procedure runs.
    pub(crate) call_memory: Option<Box<CallMemory>>,
}

impl Database {
    /// A site without tables.
    pub fn new(options: DatabaseOptions) -> Database {
        let undo = UndoLog::new(options.undo_limit_bytes);
        Database {
            tables: Tables::new(),
            states: Vec::new(),
            transaction_mark: undo.mark(),
            maintained: undo.mark(),
            unchecked: 0,
            undo,
            digest: ChangeDigest::default(),
            arena: Arena::new(),
            options,
            transaction: TransactionContext {
                transaction_id: TransactionId(0),
                timestamp_us: 0,
                addresses_partition: false,
                single_partition: false,
                read_only: true,
            },
            watch: Watch::default(),
            measured: None,
            found_rows: Vec::new(),
            owned_value: None,
            entries: EntryChanges::default(),
            routed_key: RoutedKey::default(),
            misled: false,
            change: None,
            batches_run: 0,
            call_memory: None,
        }
    }

    /// Whether the queries that follow may work on batches of rows. They give the same either
    /// way; tests compare.
    pub fn set_batches(&mut self, batches: bool) {
        self.options.batches = batches;
    }

    /// How the statements that follow are watched, until this is called again.
    pub fn set_watch(&mut self, watch: Watch) {
        self.watch = watch;
    }

    /// The statements of procedures are timed from now on, until the times are collected.
    pub fn lend_times(&mut self, times: Box<StatementTimes>) {
        self.measured = Some(times);
    }

    /// What [`Database::lend_times`] lent.
    pub fn take_times(&mut self) -> Option<Box<StatementTimes>> {
        self.measured.take()
    }

    /// The time, if the call is measured.
    #[inline]
    pub(crate) fn statement_begins(&self) -> Option<u64> {
        self.measured.as_ref().map(|times| times.now())
    }

    /// A statement that began at a time ended.
    #[cold]
    pub(crate) fn statement_ended(
        &mut self,
        statement: usize,
        began: u64,
        result_bytes: usize,
        failed: bool,
    ) {
        if let Some(times) = &mut self.measured {
            let ticks = times.now().saturating_sub(began);
            let (statement, result_bytes) = (statement as u32, result_bytes as u64);
            times.add(StatementTime { statement, ticks, result_bytes, failed });
        }
    }

    /// What statements may use from now on; gives what they might use before.
    pub fn set_limits(&mut self, limits: ExecutionLimits) -> ExecutionLimits {
        use std::mem::replace;
        let options = &mut self.options;
        self.undo.set_limit(limits.undo_bytes);
        ExecutionLimits {
            result_bytes: replace(&mut options.result_limit_bytes, limits.result_bytes),
            temporary_bytes: replace(&mut options.temporary_limit_bytes, limits.temporary_bytes),
            undo_bytes: replace(&mut options.undo_limit_bytes, limits.undo_bytes),
            entry_changes_bytes: replace(
                &mut options.entry_changes_limit_bytes,
                limits.entry_changes_bytes,
            ),
        }
    }

    /// The limits and the place of this site.
    pub fn options(&self) -> &DatabaseOptions {
        &self.options
    }

    /// Begins a transaction. One that is open stays so until [`Database::commit`]; the mark
    /// undoes all that follows.
    #[inline]
    pub fn begin(&mut self, context: &TransactionContext) -> UndoMark {
        self.transaction = *context;
        self.misled = false;
        self.transaction_mark = self.undo.mark();
        self.transaction_mark
    }

    /// The transaction that runs.
    pub fn transaction(&self) -> &TransactionContext {
        &self.transaction
    }

    /// Makes everything so far final.
    #[inline]
    pub fn commit(&mut self) {
        self.undo.release_all(&mut self.tables);
        self.digest.commit();
        self.transaction_mark = self.undo.mark();
    }

    /// Makes everything before a mark final: the transactions after it stay open.
    pub fn commit_to(&mut self, mark: UndoMark) {
        self.undo.release_to(mark, &mut self.tables);
        self.digest.commit_to(mark);
    }

    /// Undoes the transaction that began last.
    pub fn rollback(&mut self) {
        self.rollback_to(self.transaction_mark);
    }

    /// Undoes everything since a mark.
    pub fn rollback_to(&mut self, mark: UndoMark) {
        self.undo.rollback_to(mark, &mut self.tables);
        self.digest.rollback_to(mark);
        if !self.entries.is_empty() {
            self.entries.truncate(0);
        }
    }

    /// A statement has run: if it has changed rows since `mark`, the digest counts it.
    #[inline]
    pub(crate) fn note_changes(
        &mut self,
        mark: UndoMark,
        prepared: &PreparedStatement,
        parameters: &[Datum<'_>],
    ) {
        if self.options.digests {
            self.fold_changes(mark, prepared.identity(), parameters);
        }
    }

    #[inline(never)]
    fn fold_changes(&mut self, mark: UndoMark, statement: u64, parameters: &[Datum<'_>]) {
        let changes = self.undo.changes_between(mark, self.undo.mark());
        if changes > 0 {
            self.digest.fold(mark, statement, parameters, changes);
        }
    }

    /// A load, or changes of entries of global indexes, were carried out since `mark`.
    pub(crate) fn note_bytes(&mut self, mark: UndoMark, what: u64, bytes: &[&[u8]]) {
        if self.options.digests && self.undo.changes_between(mark, self.undo.mark()) > 0 {
            self.digest.fold_bytes(mark, what, bytes);
        }
    }

    /// Goes on with the digest that a snapshot kept.
    pub fn resume_digest(&mut self, value: u64) {
        if self.options.digests {
            self.digest.resume(value);
        }
    }

    /// What was done since `mark` is logged as these images, and digested as those.
    pub fn note_images(&mut self, mark: UndoMark, images: &[u8]) {
        if self.options.digests {
            self.digest.fold_images(mark, images);
        }
    }

    /// A running digest of what was done here since this process began: which statements changed
    /// rows, with their parameters and the number of changes; 0 where none is kept. Equal at two
    /// replicas that did the same from the same position on; valid while nothing is undecided.
    pub fn change_digest(&self) -> u64 {
        self.digest.value()
    }

    /// A batch of a procedure begins: every so often its time is checked, because the statements of
    /// a procedure may be many, and each too short to check.
    #[inline]
    pub(crate) fn begin_batch(&mut self) -> Result<(), SqlError> {
        self.batches_run = self.batches_run.wrapping_add(1);
        match self.batches_run.is_multiple_of(BATCHES_PER_CHECK) {
            true => self.watch.check(),
            false => Ok(()),
        }
    }

    /// The present point, to go back to.
    #[inline]
    pub fn mark(&self) -> UndoMark {
        self.undo.mark()
    }

    /// True if something can still be undone.
    pub fn has_undo(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Checks the undo log, and that rows and indexes of every table fit. Visits everything.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        self.undo.check_invariants();
        let checked = self.tables.check().and_then(|()| self.undo.check_against(&self.tables));
        if let Err(problem) = checked {
            panic!("rows, indexes and undo of a table fit: {problem}");
        }
    }

    /// True if something changed since the mark.
    pub fn changed_since(&self, mark: UndoMark) -> bool {
        self.undo.changed_since(mark)
    }

    /// Between transactions: makes ready what coming changes will need, and gives back what mass
    /// deletes have left, once there were some changes. Shows nowhere but in memory.
    #[inline]
    pub fn maintain(&mut self) {
        if self.undo.changes_between(self.maintained, self.undo.mark()) >= CHANGES_A_MAINTENANCE {
            self.maintained = self.undo.mark();
            self.tables.maintain();
            if cfg!(debug_assertions) {
                self.check_sometimes();
            }
        }
    }

    /// Checks everything, once for about as many changes as there are rows.
    fn check_sometimes(&mut self) {
        self.unchecked += CHANGES_A_MAINTENANCE;
        let rows = self.tables.iter().map(|(_, table)| table.row_count()).sum::<u64>();
        if self.unchecked >= rows {
            self.unchecked = 0;
            self.check_invariants();
        }
    }

    /// A table's definition.
    pub fn definition(&self, table: TableId) -> Option<&Arc<TableDefinition>> {
        self.states.get(table.index())?.as_ref().map(|state| &state.definition)
    }

    /// Frees what the statement before computed.
    #[inline]
    pub(crate) fn begin_statement(&mut self) {
        if self.arena.used_bytes() > 0 {
            self.arena.reset();
            if self.arena.reserved_bytes() > 4 * KEPT_ARENA_BYTES {
                self.arena.shrink(KEPT_ARENA_BYTES);
            }
        }
    }
}

/// Whether a partitioning value lives here; an integer that does is remembered, because the
/// statements of one call mostly ask for the same.
#[inline]
pub(crate) fn owns(
    options: &DatabaseOptions,
    owned_value: &mut Option<i64>,
    value: Datum<'_>,
) -> bool {
    if options.ring.partition_count() == 1 {
        return true;
    }
    if let Datum::Int(value) = value
        && *owned_value == Some(value)
    {
        return true;
    }
    let owned = options.ring.partition_of_values([value]) == options.partition;
    if let (true, Datum::Int(value)) = (owned, value) {
        *owned_value = Some(value);
    }
    owned
}

/// A table that a plan names.
#[inline]
pub(crate) fn table_of(tables: &Tables, table: TableId) -> Result<&Table, SqlError> {
    tables.get(table).ok_or_else(|| no_such_table(table))
}

#[cold]
pub(crate) fn no_such_table(table: TableId) -> SqlError {
    SqlError::sql(format!("the table with number {table} was dropped; plan the statement again"))
}

/// A storage error that has no wording of its own.
#[cold]
pub(crate) fn storage_fault(error: StorageError) -> SqlError {
    let code = match error {
        StorageError::UndoLimit { .. } | StorageError::RowIdsExhausted { .. } => {
            state::TEMPORARY_MEMORY
        }
        StorageError::OutOfRange { .. } => state::OUT_OF_RANGE,
        _ => state::TYPE_MISMATCH,
    };
    SqlError::coded(code, error.to_string())
}
