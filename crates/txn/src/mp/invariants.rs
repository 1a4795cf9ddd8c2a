//! What holds between the fields of the initiator of multi-partition transactions.

use super::{Active, MultiPartitionInitiator, SPARE_LISTS, Stage};
use lockstep_types::{PartitionId, TransactionId};

impl<C> MultiPartitionInitiator<C> {
    /// Checks everything that holds between two events. Visits all transactions in progress.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        let (active, limit) = (self.active.len(), self.limits.active.max(1));
        assert!(active <= limit, "{active} transactions are in progress, the limit is {limit}");
        // Each that is in progress may be ordered again.
        let waiting = self.waiting.len() + self.set_aside + self.active.len();
        let limit = self.limits.waiting + self.limits.active.max(1);
        assert!(waiting <= limit, "{waiting} calls wait, those ordered again included: {limit}");
        assert!(self.spare_participants.len() <= SPARE_LISTS, "kept lists are within their limit");
        assert!(
            self.spare_participants.iter().all(Vec::is_empty),
            "kept lists are empty: a transaction begins without participants"
        );
        for (transaction, active) in self.active.iter() {
            assert!(!active.exclusive || self.active.len() == 1, "an exclusive one is alone");
            self.check_active(transaction, active);
        }
        self.check_queues();
        let decidable = self.active.iter().rev().filter(|(_, active)| active.is_decidable());
        assert!(
            decidable.map(|(transaction, _)| transaction).eq(self.decidable.iter().copied()),
            "the list of decidable transactions is complete, the first in order last"
        );
        for (sent, run) in self.sent.iter().zip(&self.runs) {
            assert!(run <= sent, "each run of a partition began with a message to it");
        }
    }

    fn check_active(&self, transaction: TransactionId, active: &Active) {
        let participants = &active.participants;
        assert!(
            participants.is_sorted_by(|a, b| a.partition < b.partition),
            "participants are listed once, in the order of their partitions"
        );
        let outstanding = participants.iter().filter(|p| p.outstanding).count();
        assert_eq!(active.outstanding, outstanding, "outstanding answers are counted once each");
        let is_behind = |partition: PartitionId| {
            self.queues[partition.index()].front().is_some_and(|front| *front != transaction)
        };
        let waits_for = participants.iter().filter(|p| is_behind(p.partition)).count();
        assert_eq!(
            active.waits_for, waits_for,
            "a transaction waits where an earlier one is undecided"
        );
        for participant in participants.iter() {
            let deciding = active.stage == Stage::Deciding;
            assert!(
                !participant.outstanding || participant.in_round || deciding,
                "only partitions of the round owe an answer"
            );
            assert!(
                !participant.late || participant.in_round && participant.outstanding,
                "a participant that was not addressed yet owes its answer"
            );
            assert!(
                participant.least_run <= self.runs[participant.partition.index()],
                "no answer of a run to come is awaited"
            );
        }
        match active.stage {
            Stage::Running => {}
            Stage::Last => assert!(active.round > 0, "the last round has begun"),
            Stage::Deciding => {
                assert_eq!(
                    active.waits_for, 0,
                    "decisions are made in the order of each partition"
                );
                assert!(active.outstanding > 0, "a transaction that all have heard of is over");
            }
        }
        assert!(
            active.round > 0 || active.outstanding == 0,
            "nobody owes an answer before the first round"
        );
    }

    fn check_queues(&self) {
        let mut queued = 0;
        for (partition, queue) in self.queues.iter().enumerate() {
            let partition = PartitionId(partition as u32);
            assert!(queue.iter().is_sorted_by(|a, b| a < b), "queues are in the order of the ids");
            for transaction in queue {
                let active = self.get(*transaction).expect("who is in a queue is in progress");
                assert!(active.place(partition).is_some(), "only participants queue");
            }
            queued += queue.len();
        }
        let named: usize = self.active.iter().map(|(_, active)| active.participants.len()).sum();
        assert_eq!(queued, named, "each participant queues the transaction once");
    }

    /// Whether a transaction is in progress, its decision perhaps not acknowledged by all.
    pub fn has(&self, transaction: TransactionId) -> bool {
        self.active.contains(transaction)
    }

    /// The transactions in progress, in order, decided or not.
    pub fn in_progress(&self) -> impl Iterator<Item = TransactionId> {
        self.active.iter().map(|(transaction, _)| transaction)
    }

    /// Whether the decision on a transaction is out and acknowledgements are awaited.
    pub fn is_deciding(&self, transaction: TransactionId) -> bool {
        self.get(transaction).is_some_and(|active| active.stage == Stage::Deciding)
    }

    /// The number of a transaction's current round, from 1; 0 before its first.
    pub fn round_of(&self, transaction: TransactionId) -> Option<u32> {
        self.get(transaction).map(|active| active.round)
    }

    /// The partitions of a transaction's current round.
    pub fn in_round(&self, transaction: TransactionId) -> impl Iterator<Item = PartitionId> {
        let participants = self.get(transaction).map_or(&[][..], |active| &active.participants);
        participants.iter().filter(|p| p.in_round).map(|p| p.partition)
    }

    /// Messages to a partition so far, and the number of its run.
    pub fn sent_to(&self, partition: PartitionId) -> (u64, u64) {
        (self.sent[partition.index()], self.runs[partition.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp::MultiLimits;

    const NOW: i64 = 1_700_000_000_000;
    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(1);

    /// Two transactions, the second after the first at one partition.
    fn two() -> (MultiPartitionInitiator<u8>, TransactionId, TransactionId) {
        let mut initiator = MultiPartitionInitiator::new(2, MultiLimits { waiting: 4, active: 4 });
        let mut begin = |partitions: &[PartitionId]| {
            assert_eq!(initiator.submit(1, false), Ok(()));
            let (_, transaction) = initiator.begin_next(NOW).expect("it may begin");
            initiator.enlist(transaction, partitions);
            initiator.begin_round(transaction, partitions, true);
            transaction
        };
        let (first, second) = (begin(&[A, B]), begin(&[B]));
        (initiator, first, second)
    }

    #[test]
    fn invariants_hold_through_answers_aborts_and_decisions() {
        let (mut initiator, first, second) = two();
        initiator.check_invariants();
        initiator.answer(second, 1, B, 0);
        initiator.check_invariants();
        assert_eq!(initiator.abandon(first).len(), 2);
        initiator.check_invariants();
        initiator.answer(second, 1, B, 1);
        initiator.check_invariants();
        assert_eq!(initiator.next_decidable(), Some(second));
        initiator.decide(second, true, true);
        initiator.check_invariants();
        assert!(initiator.is_deciding(second) && !initiator.has(first));
    }

    #[test]
    #[should_panic(expected = "a transaction waits where an earlier one is undecided")]
    fn a_transaction_that_overtakes_is_noticed() {
        let (mut initiator, _, second) = two();
        initiator.active.get_mut(second).expect("it is in progress").waits_for = 0;
        initiator.check_invariants();
    }

    #[test]
    #[should_panic(expected = "the list of decidable transactions is complete")]
    fn a_transaction_that_is_never_decided_is_noticed() {
        let (mut initiator, first, _) = two();
        initiator.answer(first, 1, A, 0);
        initiator.answer(first, 1, B, 0);
        initiator.decidable.clear();
        initiator.check_invariants();
    }
}
