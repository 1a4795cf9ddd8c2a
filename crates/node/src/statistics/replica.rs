//! What is counted of one replica: its procedures' calls, how they ran, and its tables.

use super::{EndedCall, ProcedureCounters, name_of};
use crate::catalog::{HostCatalog, HostProcedure};
use crate::clock;
use crate::message::{NO_PROCEDURE, Origin};
use crate::transaction_counters::{TransactionCounters, TransactionStatistics};
use lockstep_base::elapsed::Elapsed;
use lockstep_base::map::FixedHashMap;
use lockstep_exec::TableStatistics;
use lockstep_exec::watch::StatementTimes;
use lockstep_site::{FragmentRun, Site};
use lockstep_types::{Outcome, PartitionId, Status, TableId, ThreadId, Value};

/// One call in this many is timed.
const SAMPLING_INTERVAL: u64 = 20;

/// The counters of one replica.
pub struct ReplicaStatistics {
    procedures: Vec<ProcedureCounters>,
    /// Per procedure and statement, what calls that were timed ran.
    statements: Vec<Vec<ProcedureCounters>>,
    transactions: TransactionStatistics,
    /// How calls end is counted when their answers go out.
    speculating: bool,
    /// For the calls that are timed.
    times: Option<Box<StatementTimes>>,
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

impl ReplicaStatistics {
    /// Counters for a catalog's procedures.
    pub fn new(catalog: &HostCatalog) -> ReplicaStatistics {
        ReplicaStatistics {
            procedures: vec![ProcedureCounters::default(); catalog.procedures().len()],
            statements: catalog.procedures().iter().map(no_statements).collect(),
            transactions: TransactionStatistics::new(catalog.procedures().len()),
            speculating: false,
            times: Some(Box::new(StatementTimes::new(clock::monotonic_ns))),
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

    /// A call runs after an undecided transaction.
    pub fn count_speculative(&mut self, procedure: u32) {
        self.transactions.of(procedure).speculative_calls += 1;
    }

    /// An ad hoc call runs at this partition alone.
    pub fn count_ad_hoc(&mut self) {
        self.transactions.of(NO_PROCEDURE).executions += 1;
    }

    /// Everything, for the control thread.
    pub fn snapshot<H, A, C: Clone>(
        &self,
        thread: ThreadId,
        catalog: &HostCatalog,
        site: &Site<H, A, C>,
    ) -> ReplicaSnapshot {
        let name = |number: u32| name_of(catalog, number);
        let transactions = self.transactions.snapshot(&self.procedures, name);
        let once =
            |(counters, (_, transactions)): (&ProcedureCounters, &(_, TransactionCounters))| {
                counters.each_call_once(transactions.repeated_calls)
            };
        let procedures = self.procedures.iter().zip(&transactions).map(once);
        ReplicaSnapshot {
            thread,
            partition: site.partition(),
            statements: self.statements.clone(),
            procedures: (0..).map(name).zip(procedures).collect(),
            transactions,
            tables: site.database().statistics(),
            log_entries: site.log_totals().0,
            log_bytes: site.log_totals().1,
            outstanding_entries: 0,
            outstanding_bytes: 0,
            waiting: site.waiting_count() as u64,
            mispartitioned: None,
        }
    }
}

/// One replica's numbers at one moment.
#[derive(Clone)]
pub struct ReplicaSnapshot {
    /// The thread that owns it, which is a site.
    pub thread: ThreadId,
    /// Its partition.
    pub partition: PartitionId,
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
    /// Calls and fragments that wait now.
    pub waiting: u64,
    /// If asked for: rows that belong to another partition, of each table that has any.
    pub mispartitioned: Option<Vec<(TableId, u64)>>,
}

impl ReplicaSnapshot {
    /// Its site's number, as clients see it.
    pub fn site(&self) -> Value {
        Value::Int(self.thread.index() as i64)
    }

    /// Its partition's number, as clients see it.
    pub fn partition(&self) -> Value {
        Value::Int(self.partition.0.into())
    }
}
