//! What a site's thread counts, for `@Statistics`. Counting costs a few instructions a call and
//! no system call, except for one call in twenty, whose execution is timed.

use crate::catalog::{HostCatalog, HostProcedure};
use crate::clock;
use crate::connection::{Connection, ConnectionKey, Traffic};
use crate::message::{NO_PROCEDURE, Origin};
pub use crate::transaction_counters::TransactionCounters;
use crate::transaction_counters::{EndedTransaction, TransactionStatistics};
use hdrhistogram::Histogram;
use lockstep_base::elapsed::Elapsed;
use lockstep_base::map::FixedHashMap;
use lockstep_exec::TableStatistics;
use lockstep_exec::watch::StatementTimes;
use lockstep_site::{FragmentRun, Site};
use lockstep_types::{Outcome, PartitionId, Status, TableId, ThreadId, Value};
use std::collections::BTreeMap;

/// One call in this many is timed.
const SAMPLING_INTERVAL: u64 = 20;
/// The greatest latency that the histogram tells apart, in microseconds: one hour.
const MAX_LATENCY_US: u64 = 3_600_000_000;

/// Smallest, greatest and sum of a series.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// The smallest.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The sum.
    pub sum: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Extent { min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Extent {
    /// Takes a value in.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
    }

    /// The smallest, 0 when there was none.
    pub fn smallest(&self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }

    /// The mean of `count` values, 0 when there was none.
    pub fn mean(&self, count: u64) -> u64 {
        self.sum.checked_div(count).unwrap_or(0)
    }

    /// Both series as one.
    pub fn merge(&mut self, other: &Extent) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }
}

/// Counters of one procedure at one site.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcedureCounters {
    /// Calls.
    pub invocations: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// Execution time of those, nanoseconds.
    pub execution_ns: Extent,
    /// Bytes of result tables.
    pub result_bytes: Extent,
    /// Bytes of parameters.
    pub parameter_bytes: Extent,
    /// Calls that the procedure aborted.
    pub aborts: u64,
    /// Calls that failed otherwise.
    pub failures: u64,
}

impl ProcedureCounters {
    /// Both counts as one.
    pub fn merge(&mut self, other: &ProcedureCounters) {
        self.invocations += other.invocations;
        self.timed += other.timed;
        self.execution_ns.merge(&other.execution_ns);
        self.result_bytes.merge(&other.result_bytes);
        self.parameter_bytes.merge(&other.parameter_bytes);
        self.aborts += other.aborts;
        self.failures += other.failures;
    }

    /// Without the runs that were undone and repeated: the sums lose as much as those have in the
    /// mean.
    fn each_call_once(&self, repeated: u64) -> ProcedureCounters {
        let mut counters = *self;
        counters.invocations = self.invocations.saturating_sub(repeated);
        for extent in [&mut counters.result_bytes, &mut counters.parameter_bytes] {
            extent.sum -= extent.mean(self.invocations) * repeated.min(self.invocations);
        }
        counters
    }

    #[inline]
    fn count_end(&mut self, failure: Option<Status>) {
        match failure {
            None => {}
            Some(Status::UserAbort) => self.aborts += 1,
            Some(_) => self.failures += 1,
        }
    }
}

/// Counters of one procedure on one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct InitiatorCounters {
    /// Calls that were answered.
    pub invocations: u64,
    /// From reading the call to its answer, milliseconds.
    pub latency_ms: Extent,
    /// Calls that the procedure aborted.
    pub aborts: u64,
    /// Calls that failed otherwise.
    pub failures: u64,
}

/// The times that a thread slept.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdleCounters {
    /// How often.
    pub count: u64,
    /// How long, nanoseconds.
    pub slept_ns: Extent,
    /// The sum of the squares, for their deviation.
    pub squares_ns: f64,
}

/// The calls that came to run at a site.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueCounters {
    /// How many.
    pub polled: u64,
    /// From reading them to running them, microseconds.
    pub waited_us: Extent,
}

/// A multi-partition call that ended at the coordinator.
#[derive(Debug)]
pub struct EndedCall {
    /// How it ran; none for a schema change.
    pub transaction: Option<EndedTransaction>,
    /// Bytes of its tables.
    pub result_bytes: usize,
    /// Bytes of its parameters.
    pub parameter_bytes: usize,
    /// Why it failed, if it did.
    pub failure: Option<Status>,
}

type InitiatorKey = (ConnectionKey, u32);

/// The counters of one thread.
pub struct ShardStatistics {
    procedures: Vec<ProcedureCounters>,
    /// Per procedure and statement, what calls that were timed ran.
    statements: Vec<Vec<ProcedureCounters>>,
    transactions: TransactionStatistics,
    /// How calls end is counted when their answers go out.
    speculating: bool,
    /// For the calls that are timed.
    times: Option<Box<StatementTimes>>,
    initiators: Vec<(InitiatorKey, InitiatorCounters)>,
    initiator_places: BTreeMap<(u32, u32, u32), usize>,
    last_initiator: Option<(InitiatorKey, usize)>,
    latency_us: Histogram<u64>,
    answers_this_round: u64,
    idle: IdleCounters,
    queue: QueueCounters,
}

/// A call's number, and when it began if it is timed.
#[derive(Debug, Clone, Copy)]
pub struct CallTimer {
    procedure: u32,
    began_ns: Option<u64>,
}

fn no_statements(procedure: &HostProcedure) -> Vec<ProcedureCounters> {
    vec![ProcedureCounters::default(); procedure.definition.statements.len()]
}

impl ShardStatistics {
    /// Counters for a catalog's procedures.
    pub fn new(catalog: &HostCatalog) -> ShardStatistics {
        let latency_us = Histogram::new_with_max(MAX_LATENCY_US, 2)
            .expect("two digits up to an hour are a valid histogram");
        ShardStatistics {
            procedures: vec![ProcedureCounters::default(); catalog.procedures().len()],
            statements: catalog.procedures().iter().map(no_statements).collect(),
            transactions: TransactionStatistics::new(catalog.procedures().len()),
            speculating: false,
            times: Some(Box::new(StatementTimes::new(clock::monotonic_ns))),
            initiators: Vec::new(),
            initiator_places: BTreeMap::new(),
            last_initiator: None,
            latency_us,
            answers_this_round: 0,
            idle: IdleCounters::default(),
            queue: QueueCounters::default(),
        }
    }

    /// A new catalog is in force: procedures that it still has keep their counters.
    pub fn follow_catalog(&mut self, old: &HostCatalog, new: &HostCatalog) {
        self.transactions.follow_catalog(old, new);
        let mut by_name: FixedHashMap<&str, ProcedureCounters> = FixedHashMap::default();
        for procedure in old.procedures() {
            let counters = self.procedures[procedure.number as usize];
            by_name.insert(&procedure.definition.name, counters);
        }
        let kept = |name: &str| by_name.get(name).copied().unwrap_or_default();
        let counters = new.procedures().iter().map(|p| kept(&p.definition.name)).collect();
        self.procedures = counters;
        let mut statements: FixedHashMap<&str, Vec<ProcedureCounters>> = FixedHashMap::default();
        for (procedure, counters) in old.procedures().iter().zip(self.statements.drain(..)) {
            statements.insert(&procedure.definition.name, counters);
        }
        let kept = |procedure: &HostProcedure| {
            let before = statements.remove(procedure.definition.name.as_str());
            let fits = |counters: &Vec<_>| counters.len() == procedure.definition.statements.len();
            before.filter(fits).unwrap_or_else(|| no_statements(procedure))
        };
        self.statements = new.procedures().iter().map(kept).collect();
        // Numbers mean other procedures now.
        self.initiators.clear();
        self.initiator_places.clear();
        self.last_initiator = None;
    }

    /// A call begins to execute.
    #[inline]
    pub fn begin_call(&mut self, procedure: u32) -> CallTimer {
        let counters = &mut self.procedures[procedure as usize];
        let timed = counters.invocations.is_multiple_of(SAMPLING_INTERVAL);
        counters.invocations += 1;
        CallTimer { procedure, began_ns: timed.then(clock::monotonic_ns) }
    }

    /// What times the statements of a call, if that is timed.
    #[inline]
    pub fn lend_times(&mut self, timer: &CallTimer) -> Option<Box<StatementTimes>> {
        timer.began_ns.and_then(|_| self.times.take())
    }

    /// The statements of a call that was timed.
    #[cold]
    pub fn count_statements(&mut self, timer: &CallTimer, mut times: Box<StatementTimes>) {
        let statements = &mut self.statements[timer.procedure as usize];
        for time in times.drain() {
            let Some(counters) = statements.get_mut(time.statement as usize) else { continue };
            counters.invocations += 1;
            counters.timed += 1;
            counters.execution_ns.add(time.ticks);
            counters.result_bytes.add(time.result_bytes);
            counters.failures += u64::from(time.failed);
        }
        self.times = Some(times);
    }

    /// It ended.
    #[inline]
    pub fn end_call(
        &mut self,
        timer: CallTimer,
        outcome: &Outcome,
        parameter_bytes: usize,
        result_bytes: usize,
    ) {
        let counters = &mut self.procedures[timer.procedure as usize];
        counters.parameter_bytes.add(parameter_bytes as u64);
        counters.result_bytes.add(result_bytes as u64);
        if let Some(began_ns) = timer.began_ns {
            counters.timed += 1;
            counters.execution_ns.add(clock::ns_since(began_ns));
        }
        // A speculative run may run again: what counts is the one whose answer goes out.
        if let Some(failure) = &outcome.failure
            && !self.speculating
        {
            counters.count_end(Some(failure.status));
        }
    }

    /// The runs that begin now are speculative, or no longer.
    pub fn set_speculating(&mut self, speculating: bool) {
        self.speculating = speculating;
    }

    /// The answer of a speculative run goes out.
    pub fn count_kept(&mut self, procedure: u32, status: Status) {
        if let Some(counters) = self.procedures.get_mut(procedure as usize) {
            counters.count_end((status != Status::Success).then_some(status));
        }
    }

    /// A call was refused before it executed.
    pub fn count_refused(&mut self, procedure: u32) {
        if let Some(counters) = self.procedures.get_mut(procedure as usize) {
            counters.invocations += 1;
            counters.failures += 1;
            self.transactions.of(procedure).refused += 1;
        }
    }

    /// A multi-partition call ended. Counted where the coordinator is.
    #[inline]
    pub fn count_multi(&mut self, origin: &Origin, ended: &EndedCall, now_us: i64) {
        if let Some(transaction) = &ended.transaction {
            self.transactions.of(origin.procedure).count_end(transaction);
        }
        if origin.procedure == NO_PROCEDURE {
            return;
        }
        let Some(counters) = self.procedures.get_mut(origin.procedure as usize) else { return };
        counters.invocations += 1;
        counters.timed += 1;
        let took = Elapsed::between_us(origin.arrived_us, now_us);
        counters.execution_ns.add(took.us().saturating_mul(1000));
        counters.result_bytes.add(ended.result_bytes as u64);
        counters.parameter_bytes.add(ended.parameter_bytes as u64);
        counters.count_end(ended.failure);
    }

    /// A multi-partition transaction's fragments ran here, or it no longer stops the partition.
    pub fn count_fragments(&mut self, run: &FragmentRun) {
        self.transactions.of(run.procedure_number).count_run(run);
    }

    /// A call that waited comes to run, perhaps again.
    pub fn count_held(&mut self, procedure: u32, waited: Elapsed, repeated: bool) {
        let counters = self.transactions.of(procedure);
        counters.repeated_calls += u64::from(repeated);
        counters.held_calls += 1;
        counters.held_us.add(waited.us());
    }

    /// A call runs behind an undecided transaction.
    pub fn count_speculative(&mut self, procedure: u32) {
        self.transactions.of(procedure).speculative_calls += 1;
    }

    /// An ad hoc call runs at this partition alone.
    pub fn count_ad_hoc(&mut self) {
        self.transactions.of(NO_PROCEDURE).executions += 1;
    }

    /// A call of one of this thread's connections is answered.
    #[inline]
    pub fn count_answer(&mut self, origin: &Origin, status: Status, now_us: i64) {
        let latency_us = Elapsed::between_us(origin.arrived_us, now_us).us();
        if latency_us == 0 {
            self.answers_this_round += 1;
        } else {
            self.latency_us.saturating_record(latency_us);
        }
        let place = self.initiator_place((origin.connection, origin.procedure));
        let counters = &mut self.initiators[place].1;
        counters.invocations += 1;
        counters.latency_ms.add(latency_us / 1000);
        match status {
            Status::Success => {}
            Status::UserAbort => counters.aborts += 1,
            _ => counters.failures += 1,
        }
    }

    /// A call comes to run, so long after it was read.
    #[inline]
    pub fn count_wait(&mut self, waited: Elapsed) {
        self.queue.polled += 1;
        self.queue.waited_us.add(waited.us());
    }

    /// The thread slept.
    pub fn count_sleep(&mut self, slept_ns: u64) {
        self.idle.count += 1;
        self.idle.slept_ns.add(slept_ns);
        self.idle.squares_ns += slept_ns as f64 * slept_ns as f64;
    }

    /// The round ends, `elapsed` after it began: calls that were answered within it took
    /// about that long.
    pub fn end_round(&mut self, elapsed: Elapsed) {
        let answers = std::mem::take(&mut self.answers_this_round);
        if answers > 0 {
            let elapsed_us = elapsed.us().min(MAX_LATENCY_US);
            // Within the histogram's range, so it is recorded.
            let _ = self.latency_us.record_n(elapsed_us, answers);
        }
    }

    #[inline]
    fn initiator_place(&mut self, key: InitiatorKey) -> usize {
        if let Some((last, place)) = self.last_initiator
            && last == key
        {
            return place;
        }
        let ordered = (key.0.place, key.0.generation, key.1);
        let place = match self.initiator_places.get(&ordered) {
            Some(place) => *place,
            None => {
                self.initiators.push((key, InitiatorCounters::default()));
                self.initiator_places.insert(ordered, self.initiators.len() - 1);
                self.initiators.len() - 1
            }
        };
        self.last_initiator = Some((key, place));
        place
    }

    /// A connection is gone, and its counters with it.
    pub fn connection_closed(&mut self, connection: &Connection) {
        let key = connection.key;
        self.last_initiator = None;
        let gone: Vec<_> = self
            .initiator_places
            .range((key.place, key.generation, 0)..=(key.place, key.generation, u32::MAX))
            .map(|(ordered, _)| *ordered)
            .collect();
        for ordered in gone {
            let Some(place) = self.initiator_places.remove(&ordered) else { continue };
            self.initiators.swap_remove(place);
            if let Some(((moved, procedure), _)) = self.initiators.get(place) {
                self.initiator_places.insert((moved.place, moved.generation, *procedure), place);
            }
        }
    }

    /// Everything, for the control thread.
    pub fn snapshot<'c, H, A, C: Clone>(
        &self,
        thread: ThreadId,
        catalog: &HostCatalog,
        site: &Site<H, A, C>,
        connections: impl Iterator<Item = &'c Connection>,
    ) -> ShardSnapshot {
        let names = catalog.procedures();
        let name = |number: u32| {
            let found = names.get(number as usize);
            found.map_or_else(|| "@AdHoc".to_string(), |p| p.definition.name.clone())
        };
        let connections: Vec<ConnectionSnapshot> = connections
            .map(|connection| ConnectionSnapshot {
                key: connection.key,
                id: connection.id,
                peer: connection.peer.clone(),
                admin: connection.admin,
                unanswered: connection.unanswered,
                unread_bytes: connection.unread_bytes() as u64,
                traffic: connection.traffic,
            })
            .collect();
        let by_key: FixedHashMap<(u32, u32), &ConnectionSnapshot> =
            connections.iter().map(|c| ((c.key.place, c.key.generation), c)).collect();
        let identity = |key: ConnectionKey| {
            let found = by_key.get(&(key.place, key.generation));
            found.map(|connection| (connection.id, connection.peer.clone()))
        };
        let initiators = self.initiators.iter().filter_map(|((key, procedure), counters)| {
            let (id, peer) = identity(*key)?;
            Some((id, peer, name(*procedure), *counters))
        });
        let initiators = initiators.collect();
        let transactions = self.transactions.snapshot(&self.procedures, name);
        let once =
            |(counters, (_, transactions)): (&ProcedureCounters, &(_, TransactionCounters))| {
                counters.each_call_once(transactions.repeated_calls)
            };
        let procedures = self.procedures.iter().zip(&transactions).map(once);
        ShardSnapshot {
            thread,
            partition: site.partition(),
            initiators,
            statements: self.statements.clone(),
            procedures: (0..).map(name).zip(procedures).collect(),
            transactions,
            tables: site.database().statistics(),
            log_entries: site.log_totals().0,
            log_bytes: site.log_totals().1,
            outstanding_entries: 0,
            outstanding_bytes: 0,
            latency_us: self.latency_us.clone(),
            idle: self.idle,
            queue: self.queue,
            waiting: site.waiting_count() as u64,
            connections,
            mispartitioned: None,
        }
    }
}

impl ShardSnapshot {
    /// Its site's number, as clients see it.
    pub fn site(&self) -> Value {
        Value::Int(self.thread.0.into())
    }

    /// Its partition's number, as clients see it.
    pub fn partition(&self) -> Value {
        Value::Int(self.partition.0.into())
    }
}

/// One thread's numbers at one moment.
#[derive(Clone)]
pub struct ShardSnapshot {
    /// The thread, which is a site.
    pub thread: ThreadId,
    /// Its partition.
    pub partition: PartitionId,
    /// Connection id, its peer, procedure, counters.
    pub initiators: Vec<(i64, String, String, InitiatorCounters)>,
    /// Per procedure of the catalog.
    pub procedures: Vec<(String, ProcedureCounters)>,
    /// For each of those, per statement, what timed calls ran; without sizes of parameters.
    pub statements: Vec<Vec<ProcedureCounters>>,
    /// Per procedure and for ad hoc statements, how its calls ran.
    pub transactions: Vec<(String, TransactionCounters)>,
    /// Per table, with its indexes.
    pub tables: Vec<TableStatistics>,
    /// Log entries so far.
    pub log_entries: u64,
    /// Bytes of log entries so far.
    pub log_bytes: u64,
    /// Of those, the ones that the command log's thread has not written yet, and their bytes; 0
    /// where nothing is logged.
    pub outstanding_entries: u64,
    /// See `outstanding_entries`.
    pub outstanding_bytes: u64,
    /// From reading a call to its answer.
    pub latency_us: Histogram<u64>,
    /// When the thread slept.
    pub idle: IdleCounters,
    /// Calls that came to run.
    pub queue: QueueCounters,
    /// Calls and fragments that wait now.
    pub waiting: u64,
    /// Connections.
    pub connections: Vec<ConnectionSnapshot>,
    /// If asked for: rows that belong to another partition, of each table that has any.
    pub mispartitioned: Option<Vec<(TableId, u64)>>,
}

/// One connection's numbers.
#[derive(Debug, Clone)]
pub struct ConnectionSnapshot {
    /// Its key within its thread.
    pub key: ConnectionKey,
    /// Its number.
    pub id: i64,
    /// The peer's address.
    pub peer: String,
    /// Came in through the admin port.
    pub admin: bool,
    /// Calls not answered yet.
    pub unanswered: u32,
    /// Answers not written yet, bytes.
    pub unread_bytes: u64,
    /// Bytes and messages.
    pub traffic: Traffic,
}
