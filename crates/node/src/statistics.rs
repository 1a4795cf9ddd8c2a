//! What a site's thread and its replicas count, for `@Statistics`. Counting costs a few
//! instructions a call and no system call, except for one call in twenty, whose execution is timed.

mod replica;
mod thread;

use crate::catalog::HostCatalog;
pub use crate::transaction_counters::TransactionCounters;
use crate::transaction_counters::{AD_HOC, EndedTransaction};
pub use lockstep_base::extent::Extent;
use lockstep_types::Status;
pub use replica::{CallTimer, ReplicaSnapshot, ReplicaStatistics};
pub use thread::{
    ConnectionSnapshot, IdleCounters, InitiatorCounters, QueueCounters, ThreadSnapshot,
    ThreadStatistics,
};

/// The name under which a procedure is counted; ad hoc statements have numbers that no procedure
/// has.
fn name_of(catalog: &HostCatalog, number: u32) -> String {
    let found = catalog.procedures().get(number as usize);
    found.map_or_else(|| AD_HOC.to_string(), |procedure| procedure.definition.name.clone())
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
