//! A partition whose leader has changed, or whose coordinator has: its stream of messages begins
//! again, in a later epoch of the cluster. Messages in both directions name the epoch of their
//! stream, so that nothing of an earlier one is taken.

use super::active::Stage;
use super::{Addressed, MultiPartitionInitiator, address};
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

    /// Another leader of a partition takes messages, numbered from 1, in run 0, in a stream of a
    /// later epoch. Everything that was sent to the leader before, and is not decided, was
    /// abandoned; what it says of that is stale, because those transactions are not in progress any
    /// more.
    pub fn reopen(&mut self, partition: PartitionId, epoch: u64) {
        let place = partition.index();
        assert!(epoch > self.epochs[place], "a stream begins again in a later epoch");
        self.epochs[place] = epoch;
        for transaction in &self.queues[place] {
            let active = self.active.get_mut(*transaction);
            let active = active.expect("a transaction in a queue is in progress");
            let is_decided = active.stage == Stage::Deciding;
            let at = active.place(partition).expect("it is in the queue of a participant");
            let participant = &mut active.participants[at];
            // The new leader acknowledges what was decided.
            assert!(is_decided || participant.late, "what the leader before had is abandoned");
            participant.least_run = 0;
        }
        (self.sent[place], self.runs[place]) = (0, 0);
        assert!(self.undecided_at(partition).is_empty(), "the new leader was sent nothing");
    }

    /// The stream to a partition is of this epoch, before anything was sent.
    pub fn begin_stream(&mut self, partition: PartitionId, epoch: u64) {
        let place = partition.index();
        assert!(self.active.is_empty() && self.sent[place] == 0, "nothing was sent yet");
        assert!(epoch >= self.epochs[place], "epochs only grow");
        self.epochs[place] = epoch;
    }

    /// The epoch of the stream of messages to a partition.
    #[inline]
    pub fn epoch_of(&self, partition: PartitionId) -> u64 {
        self.epochs[partition.index()]
    }

    /// Addresses a message that is of no transaction.
    pub fn address_notice(&mut self, partition: PartitionId) -> Addressed {
        address(&mut self.sent, &self.runs, &self.epochs, partition)
    }

    /// A partition takes no part any more in a transaction whose last round it has answered: the
    /// fault of an answer that counts although its partition's leader is lost. False if that is not
    /// so, and nothing is done.
    pub fn keep_answer(&mut self, transaction: TransactionId, partition: PartitionId) -> bool {
        let active = self.active.get_mut(transaction).expect("it is in progress");
        let place = active.place(partition).expect("it is in the queue of a participant");
        let keeps = active.stage == Stage::Last && !active.participants[place].outstanding;
        if !keeps || active.participants.len() == 1 {
            return false;
        }
        active.participants.remove(place);
        let queue = &mut self.queues[partition.index()];
        let at = queue.iter().position(|queued| *queued == transaction);
        let at = at.expect("it is in the queue of a participant");
        queue.remove(at);
        active.waits_for -= usize::from(at > 0);
        if let Some(next) = queue.front().filter(|_| at == 0) {
            let next = self.active.get_mut(*next).expect("it is in progress");
            next.waits_for -= 1;
        }
        true
    }

    /// The decided transactions that a partition has not acknowledged.
    pub fn unacknowledged_by(&self, partition: PartitionId) -> Vec<TransactionId> {
        let owes = |transaction: &TransactionId| {
            let active = self.get(*transaction).expect("it is in progress");
            let place = active.place(partition).expect("it is in the queue of a participant");
            active.stage == Stage::Deciding && active.participants[place].outstanding
        };
        self.queues[partition.index()].iter().copied().filter(owes).collect()
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
        initiator.reopen(A, 2);
        assert_eq!(initiator.answer(both, 1, A, 0), RoundProgress::Stale);
        assert_eq!(initiator.submit("call", false), Ok(()));
        let (_, again) = initiator.begin_next(NOW).expect("it may begin");
        initiator.enlist(again, &[A]);
        let (_, addressed) = initiator.begin_round(again, &[A], true);
        assert_eq!(addressed, [Addressed { partition: A, number: 1, run: 0, epoch: 2 }]);
    }
}
