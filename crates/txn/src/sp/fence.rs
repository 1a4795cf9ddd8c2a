//! The coordinator is another one: what the one before had sent and has not run ends here.

use super::{Fragments, Pending, SinglePartitionInitiator, Speculated};
use lockstep_types::TransactionId;

impl<H, A, F, M: Copy> SinglePartitionInitiator<H, A, F, M> {
    /// Drops all fragments that wait. Nobody has an answer to them that counts, so that their
    /// transactions are not committed. Gives the transactions whose fragments had run before an
    /// abort, in order.
    pub fn drop_waiting_fragments(&mut self) -> Vec<TransactionId> {
        let mut ran = Vec::new();
        self.pending.retain(|pending| {
            let Pending::Fragments(fragments) = pending else { return true };
            if fragments.header.is_some() {
                ran.push(fragments.transaction);
            }
            false
        });
        assert!(ran.is_sorted(), "transactions wait in the order of their ids");
        ran
    }

    /// The last fragments of transactions that ran and are not decided, in order.
    pub fn undecided_fragments(&self) -> impl Iterator<Item = &Fragments<F>> {
        self.speculated.iter().filter_map(|ran| match ran {
            Speculated::Fragments { fragments, .. } => Some(fragments),
            Speculated::Call { .. } => None,
        })
    }

    /// Runs are counted from 0 again: none of the coordinator's fragments waits to answer in one.
    pub fn restart_runs(&mut self) {
        let is_fragment = |pending: &Pending<H, F>| matches!(pending, Pending::Fragments(_));
        assert!(!self.pending.iter().any(is_fragment), "no fragments wait");
        self.run = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sp::{Next, PartitionLimits};
    use lockstep_types::PartitionId;

    const NOW: i64 = 1_700_000_000_000;

    fn multi(counter: u32) -> TransactionId {
        TransactionId::new(NOW, counter, PartitionId::MULTI)
    }

    #[test]
    fn what_waits_is_dropped_and_what_ran_stays_undecided() {
        let limits =
            PartitionLimits { held_calls: 4, speculative_calls: 8, speculative_bytes: 100 };
        let mut initiator: SinglePartitionInitiator<char, char, (), u32> =
            SinglePartitionInitiator::new(PartitionId(1), limits);
        for counter in 0..4 {
            let (transaction, round, header) = (multi(counter), 1, None);
            let last = counter < 3;
            initiator.arrive(Fragments { transaction, round, last, header, work: () });
        }
        for mark in 5..8 {
            let Some(Next::Fragments(ran, _)) = initiator.next(NOW) else { panic!("it runs") };
            initiator.ran_fragments(ran, mark);
        }
        // The second is aborted: the third waits to run again, the fourth has never run.
        assert_eq!(initiator.abort(multi(1), 1), Some(6));
        assert_eq!(initiator.drop_waiting_fragments(), [multi(2)]);
        let undecided = initiator.undecided_fragments().map(|fragments| fragments.transaction);
        assert_eq!(undecided.collect::<Vec<_>>(), [multi(0)]);
        initiator.commit(multi(0));
        initiator.restart_runs();
        assert!(initiator.is_idle() && initiator.run() == 0);
    }
}
