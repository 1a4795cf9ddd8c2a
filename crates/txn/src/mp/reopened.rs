//! A partition whose leader has changed: its stream of messages begins again.

use super::MultiPartitionInitiator;
use lockstep_types::{PartitionId, TransactionId};

impl<C> MultiPartitionInitiator<C> {
    /// The transactions that are not decided and were sent to a partition, in order.
    pub fn undecided_at(&self, partition: PartitionId) -> Vec<TransactionId> {
        let mut undecided = self.undecided();
        undecided.retain(|transaction| {
            let active = self.get(*transaction).expect("it is in progress");
            let place = active.place(partition);
            place.is_some_and(|place| active.round > 0 && !active.participants[place].late)
        });
        undecided
    }

    /// Another leader of a partition takes messages, numbered from 1, in run 0. Everything that was
    /// sent to the leader before, and is not decided, was abandoned; what it says of that is stale,
    /// because those transactions are not in progress any more.
    pub fn reopen(&mut self, partition: PartitionId) {
        let place = partition.index();
        for transaction in &self.queues[place] {
            let active = self.active.get_mut(*transaction);
            let active = active.expect("a transaction in a queue is in progress");
            let at = active.place(partition).expect("it is in the queue of a participant");
            let participant = &mut active.participants[at];
            assert!(participant.late, "what was sent to the leader before is abandoned");
            participant.least_run = 0;
        }
        (self.sent[place], self.runs[place]) = (0, 0);
        assert!(self.undecided_at(partition).is_empty(), "the new leader was sent nothing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp::{Addressed, MultiLimits, RoundProgress};

    const NOW: i64 = 1_700_000_000_000;
    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(1);

    #[test]
    fn a_new_leader_gets_messages_from_one_on_and_answers_of_the_one_before_are_stale() {
        let limits = MultiLimits { waiting: 3, active: 8 };
        let mut initiator = MultiPartitionInitiator::new(2, limits);
        let begin = |initiator: &mut MultiPartitionInitiator<_>, partitions: &[PartitionId]| {
            assert_eq!(initiator.submit("call", false), Ok(()));
            let (_, transaction) = initiator.begin_next(NOW).expect("it may begin");
            initiator.enlist(transaction, partitions);
            initiator.begin_round(transaction, partitions, true);
            transaction
        };
        let both = begin(&mut initiator, &[A, B]);
        let other = begin(&mut initiator, &[B]);
        assert_eq!(initiator.undecided_at(A), [both]);
        assert_eq!(initiator.undecided_at(B), [both, other]);
        initiator.abandon(both);
        initiator.reopen(A);
        assert_eq!(initiator.answer(both, 1, A, 0), RoundProgress::Stale);
        assert_eq!(initiator.submit("call", false), Ok(()));
        let (_, again) = initiator.begin_next(NOW).expect("it may begin");
        initiator.enlist(again, &[A]);
        let (_, addressed) = initiator.begin_round(again, &[A], true);
        assert_eq!(addressed, [Addressed { partition: A, number: 1, run: 0 }]);
    }
}
