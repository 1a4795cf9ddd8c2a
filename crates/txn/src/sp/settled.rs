//! From where on what a partition ran may still change.

use super::{Pending, SinglePartitionInitiator, Speculated};
use lockstep_types::{PartitionId, TransactionId};

impl<H, A, F, M: Copy> SinglePartitionInitiator<H, A, F, M> {
    /// The first transaction that is undecided here, with the point before it; to be asked when all
    /// safe answers are taken.
    pub fn first_undecided(&self) -> Option<(TransactionId, M)> {
        if self.stopped.is_some() {
            return self.stopped;
        }
        match self.speculated.front()? {
            Speculated::Fragments { fragments, mark } => Some((fragments.transaction, *mark)),
            Speculated::Call { .. } => panic!("safe answers are taken before this is asked"),
        }
    }

    /// Whether something waits to run again after an abort.
    pub fn has_repeats(&self) -> bool {
        self.pending.front().is_some_and(ran_before)
    }

    /// The last transaction of the coordinator that waits to run again after an abort.
    pub fn last_repeat(&self) -> Option<TransactionId> {
        let repeats = self.pending.iter().take_while(|pending| ran_before(pending));
        let transactions = repeats.filter_map(|pending| match pending {
            Pending::Fragments(fragments) => Some(fragments.transaction),
            Pending::Call(..) => None,
        });
        let last = transactions.last();
        debug_assert!(
            last.is_none_or(|last| last.partition() == PartitionId::MULTI),
            "the coordinator orders them"
        );
        last
    }
}

fn ran_before<H, F>(pending: &Pending<H, F>) -> bool {
    match pending {
        Pending::Call(_, header, _) => header.is_some(),
        Pending::Fragments(fragments) => fragments.header.is_some(),
    }
}
