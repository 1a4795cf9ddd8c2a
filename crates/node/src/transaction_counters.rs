//! How the calls of each procedure ran: at how many partitions, in how many rounds, what they
//! waited, and what ran before its turn was sure. For the selector TRANSACTIONS of `@Statistics`.
//!
//! Calls that run at one partition and need not wait are not counted here: their number is that
//! of the procedure's calls less those that are.

use crate::catalog::HostCatalog;
use crate::statistics::{Extent, ProcedureCounters};
use lockstep_base::elapsed::Elapsed;
use lockstep_base::map::FixedHashMap;
use lockstep_site::FragmentRun;

/// The name under which ad hoc statements are counted.
pub const AD_HOC: &str = "@AdHoc";

/// How a transaction ran that the coordinator ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedTransaction {
    /// Partitions that it took part at.
    pub partition_count: u32,
    /// All partitions of the host.
    pub of_partitions: u32,
    /// Its rounds.
    pub rounds: u32,
    /// How often it was ordered again.
    pub enlargements: u32,
}

/// How the calls of one procedure ran, as one thread saw it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransactionCounters {
    /// How often the procedure ran here, or was refused, or ended at the coordinator here.
    pub executions: u64,
    /// Of those, refused before they ran.
    pub refused: u64,
    /// Of those, runs of a call that had run before, after a transaction that was aborted.
    pub repeated_calls: u64,
    /// Of those, runs after undecided transactions.
    pub speculative_calls: u64,
    /// Calls that did not run at once.
    pub held_calls: u64,
    /// What those waited; microseconds.
    pub held_us: Extent,
    /// Calls that the coordinator here ended without any partition.
    pub no_partition: u64,
    /// At one partition.
    pub one_partition: u64,
    /// At several, but not at all.
    pub few_partitions: u64,
    /// At all partitions, where there are several.
    pub all_partitions: u64,
    /// The rounds of all these.
    pub rounds: u64,
    /// How often one was ordered again with more partitions.
    pub enlargements: u64,
    /// Rounds in which this partition took part.
    pub fragments: u64,
    /// Of those, after undecided transactions.
    pub speculative_fragments: u64,
    /// Of those, again.
    pub repeated_fragments: u64,
    /// From a round's arrival until it ran here; microseconds.
    pub waited_us: Extent,
    /// How long transactions stopped this partition between their rounds; microseconds.
    pub stopped_us: Extent,
}

impl TransactionCounters {
    /// A transaction ended.
    pub fn count_end(&mut self, finished: &EndedTransaction) {
        let counter = match finished.partition_count {
            0 => &mut self.no_partition,
            1 => &mut self.one_partition,
            all if all == finished.of_partitions => &mut self.all_partitions,
            _ => &mut self.few_partitions,
        };
        *counter += 1;
        self.rounds += u64::from(finished.rounds);
        self.enlargements += u64::from(finished.enlargements);
    }

    /// Fragments ran here, or a stop ended.
    pub fn count_run(&mut self, run: &FragmentRun) {
        if run.is_run {
            self.fragments += 1;
            self.speculative_fragments += u64::from(run.speculative);
            self.repeated_fragments += u64::from(run.repeated);
            self.waited_us.add(run.waited.us());
        }
        if run.stopped > Elapsed::ZERO {
            self.stopped_us.add(run.stopped.us());
        }
    }

    /// Calls that the coordinator here ended.
    fn coordinated(&self) -> u64 {
        self.no_partition + self.one_partition + self.few_partitions + self.all_partitions
    }

    /// Calls that ran at one partition, each counted once.
    pub fn single_partition(&self) -> u64 {
        let others = self.coordinated() - self.one_partition + self.refused + self.repeated_calls;
        self.executions.saturating_sub(others)
    }

    /// All calls, each counted once.
    pub fn calls(&self) -> u64 {
        self.executions.saturating_sub(self.repeated_calls)
    }

    /// Both counts as one.
    pub fn merge(&mut self, other: &TransactionCounters) {
        self.each(other, |own, other| *own += other);
        self.held_us.merge(&other.held_us);
        self.waited_us.merge(&other.waited_us);
        self.stopped_us.merge(&other.stopped_us);
    }

    /// Takes off what was counted earlier. Smallest and greatest values stay.
    pub fn subtract(&mut self, earlier: &TransactionCounters) {
        let less = |own: &mut u64, other: u64| *own = own.saturating_sub(other);
        self.each(earlier, less);
        less(&mut self.held_us.sum, earlier.held_us.sum);
        less(&mut self.waited_us.sum, earlier.waited_us.sum);
        less(&mut self.stopped_us.sum, earlier.stopped_us.sum);
    }

    fn each(&mut self, other: &TransactionCounters, change: impl Fn(&mut u64, u64)) {
        for (own, other) in [
            (&mut self.executions, other.executions),
            (&mut self.refused, other.refused),
            (&mut self.repeated_calls, other.repeated_calls),
            (&mut self.speculative_calls, other.speculative_calls),
            (&mut self.held_calls, other.held_calls),
            (&mut self.no_partition, other.no_partition),
            (&mut self.one_partition, other.one_partition),
            (&mut self.few_partitions, other.few_partitions),
            (&mut self.all_partitions, other.all_partitions),
            (&mut self.rounds, other.rounds),
            (&mut self.enlargements, other.enlargements),
            (&mut self.fragments, other.fragments),
            (&mut self.speculative_fragments, other.speculative_fragments),
            (&mut self.repeated_fragments, other.repeated_fragments),
        ] {
            change(own, other);
        }
    }
}

/// The counters of one thread.
pub struct TransactionStatistics {
    procedures: Vec<TransactionCounters>,
    ad_hoc: TransactionCounters,
}

impl TransactionStatistics {
    /// Counters for this many procedures.
    pub fn new(procedure_count: usize) -> TransactionStatistics {
        TransactionStatistics {
            procedures: vec![TransactionCounters::default(); procedure_count],
            ad_hoc: TransactionCounters::default(),
        }
    }

    /// The counters of a procedure; those of ad hoc statements for every other number.
    pub fn of(&mut self, procedure: u32) -> &mut TransactionCounters {
        self.procedures.get_mut(procedure as usize).unwrap_or(&mut self.ad_hoc)
    }

    /// A new catalog is in force: procedures that it still has keep their counters.
    pub fn follow_catalog(&mut self, old: &HostCatalog, new: &HostCatalog) {
        let mut by_name: FixedHashMap<&str, TransactionCounters> = FixedHashMap::default();
        for (procedure, counters) in old.procedures().iter().zip(&self.procedures) {
            by_name.insert(&procedure.definition.name, *counters);
        }
        let kept = |name: &str| by_name.get(name).copied().unwrap_or_default();
        self.procedures = new.procedures().iter().map(|p| kept(&p.definition.name)).collect();
    }

    /// By name, those of ad hoc statements last.
    pub fn snapshot(
        &self,
        procedures: &[ProcedureCounters],
        name: impl Fn(u32) -> String,
    ) -> Vec<(String, TransactionCounters)> {
        let counters = self.procedures.iter().zip(procedures).map(|(counters, procedure)| {
            TransactionCounters { executions: procedure.invocations, ..*counters }
        });
        let mut all: Vec<_> = (0..).map(name).zip(counters).collect();
        let ad_hoc = self.ad_hoc;
        let executions = ad_hoc.executions + ad_hoc.coordinated();
        all.push((AD_HOC.to_string(), TransactionCounters { executions, ..ad_hoc }));
        all
    }
}
