//! Takes multi-partition transactions through their rounds, one transaction at a time.

use crate::message::{
    BoundStatement, FromPartition, MultiCall, MultiWork, Numbered, SchemaTask, ToPartition,
};
use crate::partition::SiteLimits;
use crate::round::{Desk, Round};
use lockstep_base::bytes::ByteReader;
use lockstep_exec::database::TransactionContext;
use lockstep_exec::distributed::CoordinatorContext;
use lockstep_exec::procedure::{BatchResult, ProcedureRound, run_round};
use lockstep_exec::watch::{Stopwatch, TimeLimit, Watch};
use lockstep_txn::{MultiPartitionInitiator, RoundProgress};
use lockstep_types::{
    Datum, Failure, HashRing, Outcome, ParameterSet, PartitionId, SqlType, TableBuilder,
    TableSchema, TableView, TransactionId,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the coordinator asks its surroundings to do.
pub enum CoordinatorOutput<O, C> {
    /// Deliver a message to a partition.
    Send(Numbered<C>),
    /// Answer a call.
    Finished(Finished<O>),
    /// A schema change came in force while the call waited: its plans must be made anew.
    Stale(O),
}

/// A call that ended.
pub struct Finished<O> {
    /// Who waits.
    pub origin: O,
    /// How it ended.
    pub outcome: Outcome,
    /// Its result tables, in wire form, one after the other.
    pub tables: Vec<u8>,
    /// It was a schema change.
    pub is_schema: bool,
    /// Bytes of its parameters.
    pub parameter_bytes: usize,
}

/// The coordinator of a cluster.
pub struct Coordinator<O, C> {
    initiator: MultiPartitionInitiator<MultiCall<O, C>>,
    active: Option<Active<O, C>>,
    /// The version of the catalog in force.
    catalog_version: u64,
    ring: HashRing,
    limits: DeskLimits,
    stopwatch: Option<Stopwatch>,
}

#[derive(Clone, Copy)]
struct DeskLimits {
    result_bytes: usize,
    temporary_bytes: usize,
}

/// The transaction under way.
struct Active<O, C> {
    call: MultiCall<O, C>,
    context: TransactionContext,
    /// Statements that wait for their round.
    batch: VecDeque<BoundStatement>,
    /// Results of the batch so far.
    results: Vec<Vec<u8>>,
    /// Results of earlier batches: what the procedure has seen.
    history: Vec<BatchResult>,
    round: Option<Round>,
    failure: Option<Failure>,
    /// Set once the outcome is known, while acknowledgements are awaited.
    finished: Option<(Outcome, Vec<u8>)>,
}

/// What a transaction does next.
enum Next {
    Round(Round),
    End(Outcome, Vec<u8>),
}

impl<O, C: Clone> Coordinator<O, C> {
    /// A coordinator over the partitions of a ring.
    pub fn new(ring: HashRing, limits: &SiteLimits) -> Coordinator<O, C> {
        Coordinator {
            initiator: MultiPartitionInitiator::new(ring.partition_count(), limits.waiting_multi),
            active: None,
            catalog_version: 0,
            ring,
            limits: DeskLimits {
                result_bytes: limits.result_bytes,
                temporary_bytes: limits.temporary_bytes,
            },
            stopwatch: None,
        }
    }

    /// From now on the queries of calls with a limit are timed by a watch.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// A call arrives.
    ///
    /// # Errors
    /// Gives it back when too many wait.
    pub fn submit(
        &mut self,
        call: MultiCall<O, C>,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) -> Result<(), Box<MultiCall<O, C>>> {
        self.initiator.submit(call)?;
        self.begin(now_us, outputs);
        Ok(())
    }

    /// A partition's message arrives.
    pub fn receive(
        &mut self,
        message: FromPartition,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        match message {
            FromPartition::Answer { partition, transaction, round, result } => {
                let progress = self.initiator.answer(transaction, round, partition);
                if progress == RoundProgress::Stale {
                    return;
                }
                let active = self.active.as_mut().expect("an answer of the current round");
                match result {
                    Err(failure) => active.failure = active.failure.take().or(Some(failure)),
                    Ok(tables) => match &mut active.round {
                        Some(round) => round.answers[partition.index()] = tables,
                        None => active.results.extend(tables),
                    },
                }
                if progress == RoundProgress::Complete {
                    self.round_complete(outputs);
                }
            }
            FromPartition::Acknowledged { partition, transaction } => {
                let progress = self.initiator.acknowledge(transaction, partition);
                if progress == RoundProgress::Complete {
                    self.answer(outputs);
                }
            }
        }
        self.begin(now_us, outputs);
    }

    /// True when nothing is under way or waits.
    pub fn is_idle(&self) -> bool {
        self.active.is_none() && self.initiator.waiting_count() == 0
    }

    /// Begins the next transactions, until one has a round under way.
    fn begin(&mut self, now_us: i64, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        while self.active.is_none() {
            let Some((call, transaction)) = self.initiator.begin_next(now_us / 1000) else {
                return;
            };
            if call.catalog_version != self.catalog_version {
                self.initiator.decide(false);
                outputs.push(CoordinatorOutput::Stale(call.origin));
                continue;
            }
            let context = context_of(transaction, &call);
            let batch = match &call.work {
                MultiWork::Statements(call) => call.statements.iter().cloned().collect(),
                _ => VecDeque::new(),
            };
            self.active = Some(Active {
                call,
                context,
                batch,
                results: Vec::new(),
                history: Vec::new(),
                round: None,
                failure: None,
                finished: None,
            });
            match self.schema_task() {
                Some(task) => self.send_schema(&task, outputs),
                None => self.advance(outputs),
            }
        }
    }

    fn schema_task(&self) -> Option<Arc<SchemaTask<C>>> {
        match &self.active.as_ref()?.call.work {
            MultiWork::Schema(task) => Some(Arc::clone(task)),
            _ => None,
        }
    }

    fn send_schema(
        &mut self,
        task: &Arc<SchemaTask<C>>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let transaction = self.current();
        let all: Vec<_> = (0..self.ring.partition_count()).map(PartitionId).collect();
        let (round, addressed) = self.initiator.begin_round(&all);
        for address in addressed {
            let message = ToPartition::Schema { transaction, round, task: Arc::clone(task) };
            let (partition, number) = (address.partition, address.number);
            outputs.push(CoordinatorOutput::Send(Numbered { partition, number, message }));
        }
    }

    fn current(&self) -> TransactionId {
        let active = self.active.as_ref().expect("a transaction is under way");
        active.context.transaction_id
    }

    fn round_complete(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        let active = self.active.as_mut().expect("a round belongs to a transaction");
        if let Some(failure) = active.failure.take() {
            return self.decide(Outcome::failed(failure), Vec::new(), outputs);
        }
        if matches!(active.call.work, MultiWork::Schema(_)) {
            let mut tables = Vec::new();
            match active.results.is_empty() {
                true => write_status(&mut tables),
                false => write_modified(&mut tables, total(&active.results)),
            }
            return self.decide(Outcome::success(1), tables, outputs);
        }
        let round = active.round.take().expect("answers belong to a round");
        let context = desk_context(active, self.limits, self.stopwatch.as_ref());
        let desk = Desk { ring: &self.ring, context };
        if let Err(failure) = round.merge(&mut active.batch, &mut active.results, &desk) {
            return self.decide(Outcome::failed(failure), Vec::new(), outputs);
        }
        self.advance(outputs);
    }

    /// Begins the next round, or ends the transaction.
    fn advance(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        let transaction = self.current();
        match self.next() {
            Next::End(outcome, tables) => self.decide(outcome, tables, outputs),
            Next::Round(mut round) => {
                let partitions = round.partitions();
                let (number, addressed) = self.initiator.begin_round(&partitions);
                let time_limit = self.active.as_ref().and_then(time_limit);
                for address in addressed {
                    let tasks = std::mem::take(&mut round.tasks[address.partition.index()]);
                    let message =
                        ToPartition::Fragments { transaction, round: number, time_limit, tasks };
                    let (partition, number) = (address.partition, address.number);
                    outputs.push(CoordinatorOutput::Send(Numbered { partition, number, message }));
                }
                let active = self.active.as_mut().expect("a round belongs to a transaction");
                active.round = Some(round);
            }
        }
    }

    fn next(&mut self) -> Next {
        let ring = &self.ring;
        let active = self.active.as_mut().expect("a transaction is under way");
        loop {
            if !active.batch.is_empty() {
                let context = desk_context(active, self.limits, self.stopwatch.as_ref());
                let desk = Desk { ring, context };
                let merged = match Round::plan(&active.batch, &desk) {
                    // Rows to be shipped may come from no table: VALUES of computed keys.
                    Ok(round) if round.partitions().is_empty() => {
                        round.merge(&mut active.batch, &mut active.results, &desk)
                    }
                    Ok(round) => return Next::Round(round),
                    Err(failure) => Err(failure),
                };
                if let Err(failure) = merged {
                    return Next::End(Outcome::failed(failure), Vec::new());
                }
                continue;
            }
            match &active.call.work {
                MultiWork::Statements(call) if call.counted => {
                    let mut tables = Vec::new();
                    write_count(&mut tables, call.statements.len());
                    return Next::End(Outcome::success(1), tables);
                }
                MultiWork::Statements(_) => {
                    return statements_end(&active.results, self.limits.result_bytes);
                }
                MultiWork::Schema(_) => unreachable!("a schema change has one round"),
                MultiWork::Procedure { procedure, parameters } => {
                    if !active.results.is_empty() {
                        let tables = std::mem::take(&mut active.results);
                        active.history.push(BatchResult { tables });
                    }
                    let set = match ParameterSet::new(parameters) {
                        Ok(set) => set,
                        Err(error) => {
                            let failure = Failure::graceful(error.to_string());
                            return Next::End(Outcome::failed(failure), Vec::new());
                        }
                    };
                    match run_round(procedure, set, &active.context, &active.history) {
                        ProcedureRound::Finished { outcome, tables } => {
                            return Next::End(outcome, tables);
                        }
                        ProcedureRound::Batch(queued) if queued.is_empty() => {
                            active.history.push(BatchResult { tables: Vec::new() });
                        }
                        ProcedureRound::Batch(queued) => {
                            active.batch = queued
                                .into_iter()
                                .map(|statement| BoundStatement {
                                    statement: statement.statement,
                                    parameters: statement.parameters.into(),
                                    shipped: None,
                                })
                                .collect();
                        }
                    }
                }
            }
        }
    }

    /// The outcome is known: everybody who took part hears it.
    fn decide(
        &mut self,
        outcome: Outcome,
        tables: Vec<u8>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let transaction = self.current();
        let active = self.active.as_mut().expect("a decision belongs to a transaction");
        let commit = outcome.failure.is_none();
        // A schema change is answered when it is in force everywhere, because the next call of
        // the same client may go to any partition. Of other transactions a partition that has
        // not heard the decision yet is stopped, so nobody can see a state from before.
        let acknowledge = matches!(active.call.work, MultiWork::Schema(_)) && commit;
        if let (MultiWork::Schema(task), true) = (&active.call.work, commit) {
            self.catalog_version = task.catalog_version;
        }
        active.finished = Some((outcome, tables));
        let addressed = self.initiator.decide(acknowledge);
        let awaited = acknowledge && !addressed.is_empty();
        for address in addressed {
            let message = ToPartition::Decision { transaction, commit, acknowledge };
            let (partition, number) = (address.partition, address.number);
            outputs.push(CoordinatorOutput::Send(Numbered { partition, number, message }));
        }
        if !awaited {
            self.answer(outputs);
        }
    }

    fn answer(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        let active = self.active.take().expect("an answer belongs to a transaction");
        let (outcome, tables) = active.finished.expect("the outcome is known when all heard it");
        let is_schema = matches!(active.call.work, MultiWork::Schema(_));
        let parameter_bytes = match &active.call.work {
            MultiWork::Procedure { parameters, .. } => parameters.len(),
            _ => 0,
        };
        let origin = active.call.origin;
        let finished = Finished { origin, outcome, tables, is_schema, parameter_bytes };
        outputs.push(CoordinatorOutput::Finished(finished));
    }
}

fn context_of<O, C>(transaction: TransactionId, call: &MultiCall<O, C>) -> TransactionContext {
    let read_only = match &call.work {
        MultiWork::Statements(statements) => statements.read_only,
        MultiWork::Procedure { procedure, .. } => procedure.definition().read_only,
        MultiWork::Schema(_) => false,
    };
    TransactionContext {
        transaction_id: transaction,
        timestamp_us: transaction.time_ms() * 1000,
        addresses_partition: true,
        single_partition: false,
        read_only,
    }
}

/// What limits the time of the transaction's queries.
fn time_limit<O, C>(active: &Active<O, C>) -> Option<TimeLimit> {
    active.call.time_limit.filter(|_| active.context.read_only)
}

fn desk_context<O, C>(
    active: &Active<O, C>,
    limits: DeskLimits,
    stopwatch: Option<&Stopwatch>,
) -> CoordinatorContext {
    let stop = stopwatch.map(|stopwatch| {
        stopwatch.start(time_limit(active));
        stopwatch.check()
    });
    CoordinatorContext {
        timestamp_us: active.context.timestamp_us,
        result_limit_bytes: limits.result_bytes,
        temporary_limit_bytes: limits.temporary_bytes,
        watch: Watch { stop, profiler: None },
    }
}

fn statements_end(results: &[Vec<u8>], limit_bytes: usize) -> Next {
    let bytes: usize = results.iter().map(Vec::len).sum();
    if bytes > limit_bytes {
        let text = format!(
            "VOLTDB ERROR: SQL ERROR the result of {bytes} bytes is over the limit of \
             {limit_bytes} bytes (option max_response_bytes)"
        );
        return Next::End(Outcome::failed(Failure::graceful(text)), Vec::new());
    }
    Next::End(Outcome::success(results.len() as u16), results.concat())
}

/// The result of a bulk load: one table without a column name, one row, the number of rows.
pub(crate) fn write_count(out: &mut Vec<u8>, count: usize) {
    let schema = TableSchema::new(&[("", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(count as i64)]);
    table.finish();
}

/// The result of exchanging the contents of tables, as of DML: the number of rows.
pub(crate) fn write_modified(out: &mut Vec<u8>, rows: i64) {
    let schema = TableSchema::modified_tuples();
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(rows)]);
    table.finish();
}

/// The sum of partitions' row counts.
fn total(counts: &[Vec<u8>]) -> i64 {
    let count = |table: &Vec<u8>| {
        let view = TableView::read(&mut ByteReader::new(table)).ok()?;
        match view.scalar() {
            Ok(Some(Datum::Int(count))) => Some(count),
            _ => None,
        }
    };
    counts.iter().filter_map(count).sum()
}

/// The result of a schema change: one table, one row, STATUS 0.
fn write_status(out: &mut Vec<u8>) {
    let schema = TableSchema::new(&[("STATUS", SqlType::BigInt)]);
    let mut table = TableBuilder::begin(out, &schema);
    table.row(&schema, &[Datum::Int(0)]);
    table.finish();
}
