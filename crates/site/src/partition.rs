//! One partition at its site: its initiator, its data, and its part in multi-partition
//! transactions.

mod counting;
mod epoch;
mod fence;
mod hand_over;
mod invariants;
mod logging;
mod messages;
mod replay;
mod settled;
mod snapshot;
mod step_down;
mod tasks;

use crate::counts::SpeculationCounts;
use crate::effect::{PartitionEffect, Ready};
use crate::fence::{ChangeId, OutcomeMemory};
use crate::limits::{Faults, SiteLimits};
use crate::message::{
    AnswerForm, FromPartition, RoundAnswer, RoundTasks, SchemaTask, StatementCall,
    StatementProfile, TaskEntries, ToPartition, Writers,
};
use crate::one_round::{EndedCalls, OneRoundCall};
use crate::parameters::with_parameters;
use crate::tables::{write_count, write_other_answer};
pub use epoch::DecidedLater;
use lockstep_base::growing::GrowingMap;
use lockstep_exec::database::{Database, DatabaseOptions, ExecutionLimits, TransactionContext};
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::load::load_rows;
use lockstep_exec::procedure::{PreparedProcedure, run_procedure};
use lockstep_exec::statement::{PreparedStatement, execute};
use lockstep_exec::watch::{StatementTimes, Stopwatch, TimeLimit, Watch};
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::sp::{Fragments, Next, PartitionLimits};
use lockstep_txn::{Admission, EntryHeader, LogBuffer, OrderedStream, SinglePartitionInitiator};
use lockstep_types::{
    Failure, HashRing, Outcome, ParameterSet, PartitionId, TableView, TransactionId,
};
use logging::Logged;
pub(crate) use logging::writes;
use settled::{Point, SettleFloor};
use std::sync::Arc;
pub use step_down::SteppedDown;

/// What the coordinator asked for.
#[derive(Debug)]
enum Work<C> {
    /// With the time of their arrival.
    Tasks(Box<RoundTasks>, i64),
    /// With the time of its arrival.
    OneRound(Arc<OneRoundCall>, i64),
    Schema(Arc<SchemaTask<C>>),
    Build(Arc<[PartitionEntries]>),
}

/// A transaction that has stopped the partition between its rounds.
#[derive(Debug)]
struct Stopped {
    procedure_number: u32,
    since_us: i64,
}

/// A partition. `H` is what the surroundings hold of a call that waits, `A` an answer that is
/// kept, `C` their catalog.
pub struct Site<H, A, C> {
    partition: PartitionId,
    initiator: SinglePartitionInitiator<H, A, Work<C>, Point>,
    stream: OrderedStream<ToPartition<C>>,
    /// The epoch of the stream.
    epoch: u64,
    /// What was decided lately, and the last change of the catalog or beginning of a snapshot.
    outcomes: OutcomeMemory,
    last_change: Option<ChangeId>,
    /// The last transaction of a coordinator.
    last_multi: TransactionId,
    /// Messages that the stream keeps until a missing one comes.
    early_messages: usize,
    pub(crate) database: Database,
    log: LogBuffer,
    /// Of undecided transactions that the log has something of, what it has.
    logged: GrowingMap<TransactionId, Logged>,
    /// Memory of the entry that is made.
    log_body: Vec<u8>,
    /// Times operators of profiled statements.
    profile_clock: fn() -> u64,
    /// What they did in the round or call that runs.
    profiles: Vec<StatementProfile>,
    schema: Option<Arc<SchemaTask<C>>>,
    stopwatch: Option<Stopwatch>,
    counts: SpeculationCounts,
    stopped: Option<Stopped>,
    /// How long the parts of a transaction over several partitions may run.
    part_limit: Option<TimeLimit>,
    /// How long a call that writes may run.
    write_limit: Option<TimeLimit>,
    /// Memory for answers to calls of one round.
    answer_memory: Vec<Vec<u8>>,
    /// Calls of one round that are committed.
    ended_calls: EndedCalls,
    /// It has followers, which need what recovery makes again.
    is_followed: bool,
    /// The snapshot that began last is that of a copy.
    has_copy_snapshot: bool,
    /// After an abort, until what ran after it has run again and is decided.
    settle_floor: Option<SettleFloor>,
    /// While the log is replayed: the limits that its entries run without.
    replayed_without: Option<ExecutionLimits>,
    pub(crate) faults: Faults,
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// Which partition it is.
    #[inline]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// An empty partition of a ring.
    pub fn new(partition: PartitionId, ring: HashRing, limits: &SiteLimits) -> Site<H, A, C> {
        let mut options = DatabaseOptions::new(partition, Arc::new(ring));
        options.result_limit_bytes = limits.result_bytes_max;
        options.temporary_limit_bytes = limits.temporary_bytes_max;
        options.batch_rows_min = limits.batch_rows_min;
        options.undo_limit_bytes = limits.undo_bytes_max;
        options.entry_changes_limit_bytes = limits.entry_changes_bytes_max;
        options.digests = limits.digests;
        let partition_limits = PartitionLimits {
            held_calls: limits.held_calls_max,
            speculative_calls: if limits.stop_everything.is_on() {
                0
            } else {
                limits.speculative_calls_max
            },
            speculative_bytes: limits.speculative_bytes_max,
        };
        // Of each transaction in progress a partition can have a round and a decision ahead of a
        // missing message, and of each that was abandoned meanwhile.
        let early_messages = 4_096 + 4 * limits.active_multi_calls_max;
        Site {
            partition,
            initiator: SinglePartitionInitiator::new(partition, partition_limits),
            stream: OrderedStream::new(early_messages),
            epoch: 0,
            outcomes: OutcomeMemory::default(),
            last_change: None,
            last_multi: TransactionId::default(),
            early_messages,
            database: Database::new(options),
            log: LogBuffer::new(partition, LogSource::of_run(1), 0),
            logged: GrowingMap::default(),
            log_body: Vec::new(),
            profile_clock: || 0,
            profiles: Vec::new(),
            schema: None,
            stopwatch: None,
            counts: SpeculationCounts::default(),
            stopped: None,
            part_limit: limits.part_limit(),
            write_limit: limits.write_limit(),
            answer_memory: Vec::new(),
            ended_calls: EndedCalls::default(),
            is_followed: false,
            has_copy_snapshot: false,
            settle_floor: None,
            replayed_without: None,
            faults: limits.faults,
        }
    }

    /// Calls and fragments that wait here.
    pub fn waiting_count(&self) -> usize {
        self.initiator.waiting_count()
    }

    /// The data.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// From now on queries are timed by a watch; without one they run as long as they like. The
    /// clock times operators of profiled statements: any unit, never backwards.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch, profile_clock: fn() -> u64) {
        self.profile_clock = profile_clock;
        self.database.set_watch(Watch { stop: Some(stopwatch.check()), profiler: None });
        self.stopwatch = Some(stopwatch);
    }

    /// Whether queries are timed.
    pub fn has_stopwatch(&self) -> bool {
        self.stopwatch.is_some()
    }

    /// The statements of the next call are timed.
    pub fn lend_times(&mut self, times: Box<StatementTimes>) {
        self.database.lend_times(times);
    }

    /// The times of the call before, lent for it.
    pub fn take_times(&mut self) -> Option<Box<StatementTimes>> {
        self.database.take_times()
    }

    /// How long the statements of the next call may run, if it only reads; one that writes has the
    /// site's own limit. To be set before each call.
    #[inline]
    pub fn limit_call(&mut self, reads: bool, limit: Option<TimeLimit>) {
        self.limit_time(if reads { limit } else { self.write_limit });
    }

    #[inline]
    fn limit_time(&mut self, limit: Option<TimeLimit>) {
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.start(limit);
        }
    }

    /// Whether a call may run now.
    #[inline]
    pub fn admit(&mut self, now_us: i64) -> Admission {
        match self.initiator.admit(now_us / 1000) {
            Admission::Speculate(header) if self.faults.answer_early() => Admission::Run(header),
            admission => admission,
        }
    }

    /// Queues a call that has to wait.
    ///
    /// # Errors
    /// Gives the call back when as many as the limit are held.
    pub fn hold(&mut self, call: H) -> Result<(), H> {
        self.initiator.hold(call)
    }

    /// Buffers the response of a call that ran speculatively, of `bytes` bytes, until the
    /// transactions before it are decided.
    pub fn keep(&mut self, call: H, header: EntryHeader, answer: A, bytes: usize) {
        debug_assert!(!self.initiator.is_decided(), "answers are kept until a decision");
        self.counts.speculated += 1;
        self.initiator.keep(call, header, answer, bytes);
    }

    /// The next call that waited and can run now; fragments that can run before it do. To be
    /// asked until there is none, after each message.
    pub fn next(
        &mut self,
        now_us: i64,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) -> Option<Ready<H>> {
        loop {
            match self.initiator.next(now_us / 1000)? {
                Next::Call(call, header) => return Some(Ready::Run(call, header)),
                Next::Speculate(call, header) => return Some(Ready::Speculate(call, header)),
                Next::Fragments(fragments, header) => {
                    let point = self.point();
                    let answer = self.run_fragments(&fragments, &header);
                    effects.push(PartitionEffect::Send(answer));
                    self.count_run(&fragments, &header, now_us, effects);
                    self.initiator.ran_fragments(fragments, point);
                }
            }
        }
    }

    fn run_fragments(
        &mut self,
        fragments: &Fragments<Work<C>>,
        header: &EntryHeader,
    ) -> FromPartition {
        let (partition, transaction) = (self.partition, fragments.transaction);
        if let Work::OneRound(call, _) = &fragments.work {
            let result = self.run_one_round(call, header);
            self.log_work(fragments, header, result.is_ok());
            let (run, epoch) = (self.initiator.run(), self.epoch);
            return FromPartition::OneRound { partition, transaction, run, epoch, result };
        }
        let mut entries = Vec::new();
        debug_assert!(self.profiles.is_empty(), "profiles go with the answer to their round");
        let result = self.run_work(fragments, header, &mut entries);
        self.log_work(fragments, header, result.is_ok());
        let (round, run) = (fragments.round, self.initiator.run());
        let misled = result.is_err() && self.database.was_misled();
        FromPartition::Answer(Box::new(RoundAnswer {
            partition,
            transaction,
            round,
            run,
            epoch: self.epoch,
            result,
            entries,
            profiles: std::mem::take(&mut self.profiles),
            misled,
        }))
    }

    /// Runs a single-partition call: the procedure, the log entry, commit or rollback. Result
    /// tables are appended to `out`; on failure `out` may hold tables that are void.
    #[inline]
    pub fn call(
        &mut self,
        header: &EntryHeader,
        procedure: &PreparedProcedure,
        procedure_number: u32,
        parameters: &ParameterSet<'_>,
        addresses_partition: bool,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let read_only = procedure.definition().read_only;
        let has_effects = procedure.definition().effects && !read_only;
        let context = TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition,
            single_partition: true,
            read_only,
        };
        let mark = self.database.begin(&context);
        let mut outcome = run_procedure(&mut self.database, procedure, *parameters, &context, out);
        if self.database.has_entry_changes() {
            outcome = Outcome::failed(entries_elsewhere(&procedure.definition().name));
        }
        let succeeded = outcome.failure.is_none();
        if has_effects {
            if succeeded {
                self.log_effects(header, mark);
            }
        } else if !read_only {
            if self.logs_entry(header, succeeded) {
                let name = &procedure.definition().name;
                self.log.command(header, procedure_number, name, addresses_partition, parameters);
            }
            self.log_result(header, succeeded);
        }
        self.end_call(succeeded);
        outcome
    }

    /// Runs ad hoc statements that need this partition only, as one transaction.
    pub fn statements(
        &mut self,
        header: &EntryHeader,
        call: &StatementCall,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let context = TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: call.read_only,
        };
        self.database.begin(&context);
        let start = out.len();
        let ran = self.run_statements(call, out);
        if !call.read_only {
            self.log_statements(header, call, ran.is_ok());
        }
        self.end_call(ran.is_ok());
        if let Err(failure) = ran {
            return Outcome::failed(failure);
        }
        if call.answer == AnswerForm::Results {
            return Outcome::success(call.statements.len() as u16);
        }
        out.truncate(start);
        let profiles = std::mem::take(&mut self.profiles);
        let is_written = write_other_answer(call, &profiles, out);
        assert!(is_written, "what is no result is written here");
        Outcome::success(1)
    }

    fn run_statements(&mut self, call: &StatementCall, out: &mut Vec<u8>) -> Result<(), Failure> {
        let start = out.len();
        for bound in &call.statements {
            if call.answer == AnswerForm::StatementCount {
                out.truncate(start);
            }
            let profiled = self.begin_profile(bound);
            let database = &mut self.database;
            let result = with_parameters(bound, |parameters| {
                execute(database, &bound.statement, parameters, out)
            });
            self.end_profile(profiled);
            result?;
        }
        match self.database.has_entry_changes() {
            true => Err(entries_elsewhere("of ad hoc statements")),
            false => Ok(()),
        }
    }

    /// Loads rows into a table here, as one transaction, by the statement of the table's
    /// generated procedure. The answer is one table with the number of rows.
    pub fn load(
        &mut self,
        header: &EntryHeader,
        statement: &PreparedStatement,
        rows: &TableView<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.limit_time(self.write_limit);
        self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        let loaded = load_rows(&mut self.database, statement, rows);
        let loaded = match self.database.has_entry_changes() {
            true => Err(entries_elsewhere("of a bulk load")),
            false => loaded.map_err(|error| error.to_failure()),
        };
        self.log_load(header, statement, rows, loaded.is_ok());
        self.end_call(loaded.is_ok());
        match loaded {
            Ok(count) => {
                write_count(out, count as i64);
                Outcome::success(1)
            }
            Err(failure) => Outcome::failed(failure),
        }
    }

    /// A call has run: its changes are final, or undone, or, after an undecided transaction,
    /// kept to be undone.
    #[inline]
    fn end_call(&mut self, succeeded: bool) {
        match (succeeded, self.initiator.is_decided()) {
            (true, true) => self.database.commit(),
            (true, false) => {}
            (false, _) => self.database.rollback(),
        }
        debug_assert!(
            !self.initiator.is_decided() || !self.database.has_undo(),
            "where everything is decided a call leaves nothing to be undone"
        );
    }

    fn run_work(
        &mut self,
        fragments: &Fragments<Work<C>>,
        header: &EntryHeader,
        collected: &mut Vec<TaskEntries>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        self.database.begin(&TransactionContext {
            transaction_id: fragments.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        match &fragments.work {
            Work::OneRound(..) => unreachable!("it is run apart"),
            Work::Tasks(work, _) => {
                self.limit_time(work.time_limit);
                self.run_entries(&work.entries)?;
                self.run_tasks(&work.tasks, collected)
            }
            Work::Build(entries) => {
                self.limit_time(None);
                let built = self.database.build_entries(entries);
                let changes = built.map_err(|error| error.to_failure())?;
                collected.push(TaskEntries { task: 0, changes });
                Ok(Vec::new())
            }
            Work::Schema(task) => {
                self.limit_time(None);
                self.note_change(fragments.transaction, task);
                self.prepare_schema(Arc::clone(task))
            }
        }
    }

    fn commit(
        &mut self,
        transaction: TransactionId,
        writers: Option<Writers>,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        if let Some(Work::OneRound(call, _)) = self.initiator.commit(transaction) {
            self.ended_calls.push(call);
        }
        while let Some((call, answer)) = self.initiator.release() {
            effects.push(PartitionEffect::Answer(call, answer));
        }
        self.log_commit(transaction, writers.as_deref().map(Vec::as_slice));
        self.outcomes.note(transaction, true, || writers);
        match self.initiator.safe_to() {
            Some(point) => self.database.commit_to(point.mark),
            None => self.database.commit(),
        }
        if let Some(task) = self.schema.take() {
            assert!(self.initiator.is_decided(), "no schema change after speculation");
            match &task.snapshot {
                Some(start) => {
                    let begun = self.begin_snapshot(start, transaction);
                    effects.push(PartitionEffect::SnapshotBegun(Box::new(begun)));
                }
                None => {
                    self.database.commit_change();
                    self.log.set_catalog_version(task.catalog_version);
                    effects.push(PartitionEffect::CatalogInForce(task.catalog.clone()));
                }
            }
        }
    }

    fn abort(&mut self, transaction: TransactionId, run: u64) {
        let waiting = self.initiator.waiting_count();
        let point = self.initiator.abort(transaction, run);
        let again = self.initiator.waiting_count().saturating_sub(waiting);
        self.counts.repeated += again as u64;
        self.log_abort(transaction);
        self.outcomes.note(transaction, false, || None);
        self.counts.aborted += 1;
        let Some(point) = point else { return };
        self.note_repeats(point);
        if !self.faults.skip_undo() {
            self.database.rollback_to(point.mark);
        }
        // A change stops the partition: who is aborted while there is one is the change itself.
        if self.schema.take().is_some() {
            self.database.rollback_change();
        }
    }

    /// What is due between log entries and should keep no caller waiting.
    #[inline]
    pub fn maintain(&mut self) {
        self.ended_calls.clear();
        self.database.maintain();
    }

    /// True when nothing is undecided here and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.initiator.is_idle()
    }
}

/// A call that runs at one partition asks for changes of index entries elsewhere: it should have
/// come through the coordinator.
#[cold]
fn entries_elsewhere(what: &str) -> Failure {
    Failure::unexpected(format!(
        "The call {what} changes rows with entries in global indexes at other partitions, and was \
         sent to one partition only; nothing was changed."
    ))
}
