//! One partition at its site: its initiator, its data, and its part in multi-partition
//! transactions.

use crate::coordinator::{write_count, write_modified};
use crate::message::{
    FragmentPart, FragmentTask, FromPartition, SchemaTask, StatementCall, ToPartition,
};
use crate::parameters::with_parameters;
use lockstep_exec::database::{Database, DatabaseOptions, TransactionContext};
use lockstep_exec::distributed::{execute_apply, execute_fragment};
use lockstep_exec::load::load_rows;
use lockstep_exec::procedure::{PreparedProcedure, run_procedure};
use lockstep_exec::statement::{PreparedStatement, execute};
use lockstep_exec::watch::{Stopwatch, TimeLimit, Watch};
use lockstep_txn::{
    Admission, EntryHeader, EntryKind, LogBuffer, OrderedStream, SinglePartitionInitiator,
};
use lockstep_types::{
    Failure, HashRing, Outcome, ParameterSet, PartitionId, TableView, TransactionId,
};
use std::sync::Arc;

/// Limits of a site and of the coordinator.
#[derive(Debug, Clone)]
pub struct SiteLimits {
    /// Calls held back at a partition while a multi-partition transaction runs.
    pub held_calls: usize,
    /// Multi-partition calls that wait for their turn.
    pub waiting_multi: usize,
    /// Result tables of one call, bytes.
    pub result_bytes: usize,
    /// Intermediate results of one statement, bytes.
    pub temporary_bytes: usize,
}

/// Messages of the coordinator that may come before their turn. It sends a partition only the
/// rounds of one transaction and its decision ahead of an answer.
const EARLY_MESSAGES: usize = 64;
/// The first configuration; it changes only with the members of a cluster.
const FIRST_EPOCH: u64 = 1;

/// What a partition asks its surroundings to do.
pub enum PartitionEffect<C> {
    /// Deliver a message to the coordinator.
    Send(FromPartition),
    /// A schema change is in force here: this is the catalog from now on.
    CatalogInForce(C),
    /// The partition goes on: held calls can run.
    Resumed,
}

/// A partition. `H` is what the surroundings hold of a call that waits, `C` their catalog.
pub struct Site<H, C> {
    partition: PartitionId,
    initiator: SinglePartitionInitiator<H>,
    stream: OrderedStream<ToPartition<C>>,
    database: Database,
    log: LogBuffer,
    catalog_version: u32,
    /// The multi-partition transaction that has begun here.
    open: Option<TransactionId>,
    stopwatch: Option<Stopwatch>,
    schema: Option<Arc<SchemaTask<C>>>,
}

impl<H, C: Clone> Site<H, C> {
    /// An empty partition of a ring.
    pub fn new(partition: PartitionId, ring: HashRing, limits: &SiteLimits) -> Site<H, C> {
        let mut options = DatabaseOptions::new(partition, Arc::new(ring));
        options.result_limit_bytes = limits.result_bytes;
        options.temporary_limit_bytes = limits.temporary_bytes;
        Site {
            partition,
            initiator: SinglePartitionInitiator::new(partition, FIRST_EPOCH, limits.held_calls),
            stream: OrderedStream::new(EARLY_MESSAGES),
            database: Database::new(options),
            log: LogBuffer::default(),
            catalog_version: 0,
            open: None,
            stopwatch: None,
            schema: None,
        }
    }

    /// The data.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// From now on queries are timed by a watch; without one they run as long as they like.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.database.set_watch(Watch { stop: Some(stopwatch.check()), profiler: None });
        self.stopwatch = Some(stopwatch);
    }

    /// How long the queries of the next call may run: to be said before each, and only of calls
    /// that read.
    #[inline]
    pub fn limit_time(&mut self, limit: Option<TimeLimit>) {
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.start(limit);
        }
    }

    /// Whether a call may run now.
    #[inline]
    pub fn admit(&mut self, now_us: i64) -> Admission {
        self.initiator.admit(now_us / 1000)
    }

    /// Keeps a call that was told to hold.
    ///
    /// # Errors
    /// Gives the call back when as many as the limit are held.
    pub fn hold(&mut self, call: H) -> Result<(), H> {
        self.initiator.hold(call)
    }

    /// The next held call that can run now.
    pub fn release(&mut self, now_us: i64) -> Option<(H, EntryHeader)> {
        self.initiator.release(now_us / 1000)
    }

    /// Runs a single-partition call: the log entry, the procedure, commit or rollback. Result
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
        debug_assert!(self.open.is_none(), "a stopped partition runs no calls");
        let read_only = procedure.definition().read_only;
        if !read_only {
            let (kind, version) = (EntryKind::Command, self.catalog_version);
            self.log.append(header, kind, version, procedure_number, &[], parameters.bytes());
        }
        let context = TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition,
            single_partition: true,
            read_only,
        };
        self.database.begin(&context);
        let outcome = run_procedure(&mut self.database, procedure, *parameters, &context, out);
        if outcome.failure.is_none() {
            self.database.commit();
        } else {
            self.database.rollback();
        }
        outcome
    }

    /// Runs ad hoc statements that need this partition only, as one transaction.
    pub fn statements(
        &mut self,
        header: &EntryHeader,
        call: &StatementCall,
        out: &mut Vec<u8>,
    ) -> Outcome {
        debug_assert!(self.open.is_none(), "a stopped partition runs no calls");
        if !call.read_only {
            for bound in &call.statements {
                let (kind, version) = (EntryKind::Fragments, self.catalog_version);
                self.log.append(header, kind, version, 0, &[self.partition.0], &bound.parameters);
            }
        }
        let context = TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: call.read_only,
        };
        self.database.begin(&context);
        let start = out.len();
        for bound in &call.statements {
            if call.counted {
                out.truncate(start);
            }
            let database = &mut self.database;
            let result = with_parameters(bound, |parameters| {
                execute(database, &bound.statement, parameters, out)
            });
            if let Err(failure) = result {
                self.database.rollback();
                return Outcome::failed(failure);
            }
        }
        self.database.commit();
        if call.counted {
            out.truncate(start);
            write_count(out, call.statements.len());
            return Outcome::success(1);
        }
        Outcome::success(call.statements.len() as u16)
    }

    /// Loads rows into a table here, as one transaction, by the statement of the table's
    /// generated procedure. `parameters` is the call as the log keeps it. The answer is one table
    /// with the number of rows.
    pub fn load(
        &mut self,
        header: &EntryHeader,
        statement: &PreparedStatement,
        rows: &TableView<'_>,
        parameters: &[u8],
        out: &mut Vec<u8>,
    ) -> Outcome {
        debug_assert!(self.open.is_none(), "a stopped partition runs no calls");
        let (kind, version) = (EntryKind::Fragments, self.catalog_version);
        self.log.append(header, kind, version, 0, &[self.partition.0], parameters);
        self.limit_time(None);
        self.database.begin(&TransactionContext {
            transaction_id: header.transaction,
            timestamp_us: header.timestamp_us,
            addresses_partition: true,
            single_partition: false,
            read_only: false,
        });
        match load_rows(&mut self.database, statement, rows) {
            Ok(count) => {
                self.database.commit();
                write_count(out, count as usize);
                Outcome::success(1)
            }
            Err(error) => {
                self.database.rollback();
                Outcome::failed(error.to_failure())
            }
        }
    }

    /// A message of the coordinator arrives, in whatever order.
    pub fn receive(
        &mut self,
        number: u64,
        message: ToPartition<C>,
        effects: &mut Vec<PartitionEffect<C>>,
    ) {
        // A repeat has been acted upon already; more early messages than the limit cannot come
        // from a coordinator that awaits answers.
        if self.stream.receive(number, message).is_err() {
            return;
        }
        while let Some(message) = self.stream.take_next() {
            self.act(message, effects);
        }
    }

    fn act(&mut self, message: ToPartition<C>, effects: &mut Vec<PartitionEffect<C>>) {
        match message {
            ToPartition::Fragments { transaction, round, time_limit, tasks } => {
                self.limit_time(time_limit);
                let result = self.fragments(transaction, &tasks);
                let partition = self.partition;
                let answer = FromPartition::Answer { partition, transaction, round, result };
                effects.push(PartitionEffect::Send(answer));
            }
            ToPartition::Schema { transaction, round, task } => {
                self.limit_time(None);
                let result = self.prepare_schema(transaction, task);
                let partition = self.partition;
                let answer = FromPartition::Answer { partition, transaction, round, result };
                effects.push(PartitionEffect::Send(answer));
            }
            ToPartition::Decision { transaction, commit, acknowledge } => {
                self.decide(transaction, commit, effects);
                if acknowledge {
                    let partition = self.partition;
                    let message = FromPartition::Acknowledged { partition, transaction };
                    effects.push(PartitionEffect::Send(message));
                }
                effects.push(PartitionEffect::Resumed);
            }
        }
    }

    /// The partition stops for the transaction, if it has not yet.
    fn open(&mut self, transaction: TransactionId) -> EntryHeader {
        let timestamp_us = transaction.time_ms() * 1000;
        let header = self.initiator.begin_fragment(transaction, timestamp_us);
        if self.open != Some(transaction) {
            assert!(self.open.is_none(), "one multi-partition transaction at a time");
            self.open = Some(transaction);
            self.database.begin(&TransactionContext {
                transaction_id: transaction,
                timestamp_us,
                addresses_partition: true,
                single_partition: false,
                read_only: false,
            });
        }
        header
    }

    fn fragments(
        &mut self,
        transaction: TransactionId,
        tasks: &[FragmentTask],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let header = self.open(transaction);
        let mut tables = Vec::with_capacity(tasks.len());
        for task in tasks {
            let bound = &task.bound;
            if !bound.statement.statement().read_only {
                let (kind, version) = (EntryKind::Fragments, self.catalog_version);
                self.log.append(&header, kind, version, 0, &[self.partition.0], &bound.parameters);
            }
            let (database, statement) = (&mut self.database, &bound.statement);
            let mut table = Vec::new();
            let out = &mut table;
            with_parameters(bound, |parameters| match task.part {
                FragmentPart::Whole => execute(database, statement, parameters, out),
                FragmentPart::Fragment(number) => {
                    execute_fragment(database, statement, number, parameters, out)
                }
                FragmentPart::Apply => {
                    let shipped = bound.shipped.as_deref();
                    let rows = shipped.and_then(|rows| rows.get(self.partition.index()));
                    execute_apply(database, statement, parameters, rows.map_or(&[], |r| r), out)
                }
            })?;
            tables.push(table);
        }
        Ok(tables)
    }

    fn prepare_schema(
        &mut self,
        transaction: TransactionId,
        task: Arc<SchemaTask<C>>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        self.open(transaction);
        let swap = task.swap;
        let prepared = match swap {
            Some(swap) => self.database.prepare_swap(swap.first, swap.second),
            None => self.database.prepare_change(&task.changes).map(|()| 0),
        };
        self.schema = Some(task);
        let rows = prepared.map_err(|error| error.to_failure())?;
        let Some(swap) = swap else { return Ok(Vec::new()) };
        let counts = !swap.replicated || self.partition == PartitionId(0);
        let mut table = Vec::new();
        write_modified(&mut table, if counts { rows as i64 } else { 0 });
        Ok(vec![table])
    }

    fn decide(
        &mut self,
        transaction: TransactionId,
        commit: bool,
        effects: &mut Vec<PartitionEffect<C>>,
    ) {
        assert_eq!(self.open, Some(transaction), "a decision on what was never begun");
        self.open = None;
        let header = self.initiator.end_transaction(transaction, transaction.time_ms() * 1000);
        let kind = if commit { EntryKind::Commit } else { EntryKind::Abort };
        self.log.append(&header, kind, self.catalog_version, 0, &[], &[]);
        let schema = self.schema.take();
        if commit {
            self.database.commit();
        } else {
            self.database.rollback();
        }
        match (schema, commit) {
            (None, _) => {}
            (Some(_), false) => self.database.rollback_change(),
            (Some(task), true) => {
                self.database.commit_change();
                self.catalog_version += 1;
                effects.push(PartitionEffect::CatalogInForce(task.catalog.clone()));
            }
        }
    }

    /// The log entries of this round go to the log writer and the followers. There are none yet:
    /// data lives in memory only, so they are counted and dropped.
    pub fn hand_over_log(&mut self) {
        if self.log.entries() > 0 {
            self.log.clear();
        }
    }

    /// What is due between log entries and should keep no caller waiting.
    #[inline]
    pub fn maintain(&mut self) {
        self.database.maintain();
    }

    /// Log entries and bytes so far.
    pub fn log_totals(&self) -> (u64, u64) {
        self.log.totals()
    }

    /// The multi-partition transaction that has stopped this partition.
    pub fn stopped_by(&self) -> Option<TransactionId> {
        self.initiator.stopped_by()
    }
}
