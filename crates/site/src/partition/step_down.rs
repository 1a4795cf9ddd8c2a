//! A leader that follows another one from now on: it was drained, and its data stay where they are.

use super::Site;
use crate::fence::{ChangeId, OutcomeMemory};
use lockstep_exec::watch::Watch;
use lockstep_txn::OrderedStream;
use lockstep_types::TransactionId;

/// What a leader knew of the coordinator's transactions, for the copy that it becomes: should that
/// lead again, it reports it.
#[derive(Debug)]
pub struct SteppedDown {
    /// The last entry of its log.
    pub position: u64,
    /// What was decided lately.
    pub outcomes: OutcomeMemory,
    /// The latest transaction of all.
    pub last: TransactionId,
    /// The last change of the catalog, or beginning of a snapshot.
    pub last_change: Option<ChangeId>,
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// The partition is led elsewhere from now on: this one takes nothing of the coordinator any
    /// more, and runs what the leader has logged.
    ///
    /// # Panics
    /// Something is in progress, or was logged and not forwarded.
    pub fn step_down(&mut self) -> SteppedDown {
        assert!(self.is_idle(), "a leader is drained before it follows");
        assert!(self.logged.is_empty(), "everything in its log is decided");
        assert_eq!(self.waiting_log_bytes(), 0, "everything that it logged was forwarded");
        assert!(!self.database.has_undo(), "what it has is final");
        self.stream = OrderedStream::new(self.early_messages);
        self.initiator.restart_runs();
        self.stopwatch = None;
        self.database.set_watch(Watch { stop: None, profiler: None });
        self.is_followed = false;
        self.settle_floor = None;
        let remembered = OutcomeMemory::new(self.outcomes.limit());
        SteppedDown {
            position: self.log.sequence(),
            outcomes: std::mem::replace(&mut self.outcomes, remembered),
            last: self.last_multi.max(self.initiator.last_id()),
            last_change: self.last_change.take(),
        }
    }
}
