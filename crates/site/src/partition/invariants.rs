//! What holds between the parts of a partition whenever it is at rest.

use super::Site;
use super::tasks::{ANSWER_BUFFER_BYTES, ANSWER_BUFFERS};
use lockstep_types::PartitionId;

impl<H, A, C: Clone> Site<H, A, C> {
    /// Checks what holds between two messages: the order of the initiator, what undo holds, what
    /// the log still owes. Visits all that waits or ran speculatively, and no row.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        self.initiator.check_invariants(self.point());
        self.stream.check_invariants();
        self.log.check_invariants();
        assert!(
            !self.initiator.is_decided() || !self.database.has_undo(),
            "where everything is decided nothing can be undone any more"
        );
        for (transaction, _) in self.logged.iter() {
            assert_eq!(transaction.partition(), PartitionId::MULTI, "calls need no decision");
            assert!(
                self.initiator.has(transaction),
                "the log owes decisions on undecided transactions only, not on {transaction:?}"
            );
        }
        let is_stopped = self.initiator.stopped_by().is_some();
        assert_eq!(
            self.stopped.is_some() || self.schema.is_some(),
            is_stopped,
            "the time of a stop counts until the decision on what stopped the partition"
        );
        assert!(self.schema.is_none() || is_stopped, "a change of the catalog stops the partition");
        assert!(self.profiles.is_empty(), "profiles go with the answer to their round");
        assert!(
            self.log_body.capacity() == 0 || self.log.sequence() > 0,
            "memory for entries comes with the first"
        );
        assert!(self.answer_memory.len() <= ANSWER_BUFFERS, "kept buffers are within their limit");
        assert!(
            self.answer_memory.iter().all(|b| b.is_empty() && b.capacity() <= ANSWER_BUFFER_BYTES),
            "kept buffers are empty and small"
        );
    }

    /// The number of the coordinator's message that was acted on last, and that of the run.
    pub fn progress(&self) -> (u64, u64) {
        (self.stream.last(), self.initiator.run())
    }
}
