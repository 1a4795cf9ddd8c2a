//! Participants that hear of a transaction later than the others, in the same order.

use super::{Active, Addressed, MultiPartitionInitiator, address};
use lockstep_types::{PartitionId, TransactionId};

impl<C> MultiPartitionInitiator<C> {
    /// Addresses a participant that was left out when the round began. A transaction that shares it
    /// and is after this transaction must not have been addressed there yet.
    pub fn address_late(&mut self, transaction: TransactionId, late: PartitionId) -> Addressed {
        let active = self.active.get_mut(transaction).expect("a round belongs to a transaction");
        active.is_addressed(late);
        address(&mut self.sent, &self.runs, &self.epochs, late)
    }

    /// The same when all others have answered; nothing while they have not.
    pub fn address_ready_late(
        &mut self,
        transaction: TransactionId,
        late: PartitionId,
    ) -> Option<Addressed> {
        let active = self.active.get_mut(transaction)?;
        if active.outstanding != active.participants.iter().filter(|p| p.late).count() {
            return None;
        }
        active.is_addressed(late);
        Some(address(&mut self.sent, &self.runs, &self.epochs, late))
    }
}

impl Active {
    /// A participant that was left out is addressed now.
    fn is_addressed(&mut self, late: PartitionId) {
        let place = self.place(late).expect("it is a participant");
        let participant = &mut self.participants[place];
        assert!(participant.late, "it is addressed once");
        debug_assert!(
            participant.outstanding && participant.in_round,
            "who was not addressed owes an answer to the round"
        );
        participant.late = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp::{MultiLimits, RoundProgress};

    const NOW: i64 = 1_700_000_000_000;
    const LIMITS: MultiLimits = MultiLimits { waiting: 3, active: 8 };
    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(1);

    #[test]
    fn a_partition_that_is_addressed_late_hears_of_what_it_was_told_only() {
        let begin = |initiator: &mut MultiPartitionInitiator<_>| {
            assert_eq!(initiator.submit("call", false), Ok(()));
            let (_, transaction) = initiator.begin_next(NOW).expect("it may begin");
            initiator.enlist(transaction, &[A, B]);
            let mut addressed = Vec::new();
            initiator.begin_round_into(transaction, &[A, B], true, Some(A), &mut addressed);
            assert_eq!(addressed.iter().map(|a| a.partition).collect::<Vec<_>>(), [B]);
            transaction
        };
        let mut initiator = MultiPartitionInitiator::new(2, LIMITS);
        let (first, second) = (begin(&mut initiator), begin(&mut initiator));
        assert_eq!(initiator.address_ready_late(first, A), None);
        assert_eq!(initiator.answer(first, 1, A, 0), RoundProgress::Stale);
        assert_eq!(initiator.answer(second, 1, B, 0), RoundProgress::Pending);
        // What was not sent to A is no news there, and begins no run.
        let addressed = initiator.abandon(first);
        assert_eq!(addressed, [Addressed { partition: B, number: 3, run: 1, epoch: 0 }]);
        assert_eq!(initiator.address_ready_late(second, A), None);
        assert_eq!(initiator.answer(second, 1, B, 1), RoundProgress::Pending);
        let late = initiator.address_ready_late(second, A);
        assert_eq!(late, Some(Addressed { partition: A, number: 1, run: 0, epoch: 0 }));
        assert_eq!(initiator.answer(second, 1, A, 0), RoundProgress::Complete);
        assert_eq!(initiator.next_decidable(), Some(second));
    }
}
