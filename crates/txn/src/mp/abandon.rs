//! Transactions that end before their turn.

use super::decide::forget_decidable;
use super::{Active, Addressed, MultiPartitionInitiator, Participant, Stage, address};
use lockstep_types::{PartitionId, TransactionId};

impl<C> MultiPartitionInitiator<C> {
    /// The transaction is aborted before its turn, whatever is still to come of it: its
    /// coordinator cannot go on, or its time is over. Returns who must hear it: the partitions that
    /// were addressed.
    pub fn abandon(&mut self, transaction: TransactionId) -> Vec<Addressed> {
        let active = self.get(transaction).expect("a decision belongs to a transaction");
        assert_ne!(active.stage, Stage::Deciding, "a transaction is decided once");
        assert!(active.round > 0, "who has not begun is decided at once");
        forget_decidable(&mut self.decidable, transaction);
        self.void_answers(transaction);
        let active = self.active.remove(transaction).expect("it was looked at");
        let (sent, runs, epochs) = (&mut self.sent, &self.runs, &self.epochs);
        let addressed = active.participants.iter().filter(|participant| !participant.late);
        let addressed = addressed.map(|p| address(sent, runs, epochs, p.partition)).collect();
        self.leave(transaction, active);
        addressed
    }

    /// The transactions in progress that are not decided, in order.
    pub fn undecided(&self) -> Vec<TransactionId> {
        let open = |(transaction, active): (TransactionId, &Active)| {
            (active.stage != Stage::Deciding).then_some(transaction)
        };
        self.active.iter().filter_map(open).collect()
    }

    /// The partitions whose answers to the current round are outstanding.
    pub fn unanswered(&self, transaction: TransactionId) -> Vec<PartitionId> {
        let active = self.get(transaction).expect("the transaction is in progress");
        let open = |p: &Participant| p.outstanding.then_some(p.partition);
        active.participants.iter().filter_map(open).collect()
    }

    /// Takes all calls that wait.
    pub fn take_waiting(&mut self) -> Vec<C> {
        self.waiting.drain(..).map(|waiting| waiting.call).collect()
    }

    /// A call that began will be ordered again later. It counts as one that waits until then.
    pub fn set_aside(&mut self) {
        self.set_aside += 1;
    }

    /// A call that was set aside may be ordered again ([`Self::resubmit`]), or never will be.
    pub fn end_set_aside(&mut self) {
        assert!(self.set_aside > 0, "a call that is set aside was counted");
        self.set_aside -= 1;
    }

    /// Number of calls that are set aside.
    pub fn set_aside_count(&self) -> usize {
        self.set_aside
    }
}

#[cfg(test)]
mod tests {
    use crate::mp::{MultiLimits, MultiPartitionInitiator};

    #[test]
    fn a_call_that_is_set_aside_counts_as_one_that_waits() {
        let mut initiator = MultiPartitionInitiator::new(2, MultiLimits { waiting: 2, active: 1 });
        assert_eq!(initiator.submit("first", false), Ok(()));
        initiator.set_aside();
        initiator.check_invariants();
        assert_eq!(initiator.submit("second", false), Err("second"), "two wait already");
        initiator.end_set_aside();
        initiator.resubmit("again", false);
        initiator.check_invariants();
        assert_eq!(initiator.submit("second", false), Err("second"));
        assert_eq!(initiator.take_waiting(), ["again", "first"]);
        assert_eq!(initiator.submit("second", false), Ok(()));
    }
}
