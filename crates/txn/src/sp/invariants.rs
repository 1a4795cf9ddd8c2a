//! What holds between the fields of a partition's initiator whenever it is at rest.

use super::{Fragments, Pending, SinglePartitionInitiator, Speculated, Turn};
use lockstep_types::{PartitionId, TransactionId};
use std::fmt::Debug;

impl<H, A, F, M: Copy + Ord + Debug> SinglePartitionInitiator<H, A, F, M> {
    /// Checks everything that holds between two events, when all safe answers are taken. Visits
    /// all that waits and all that ran speculatively. `now` is the point that undo has reached.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self, now: M) {
        self.check_counts();
        self.check_speculation(now);
        self.check_order();
    }

    fn check_counts(&self) {
        let waiting = self.pending.iter().filter(|p| matches!(p, Pending::Call(..))).count();
        assert_eq!(self.pending_calls, waiting, "the count of waiting calls is that of the queue");
        let (mut speculated, mut kept_bytes) = (0, 0);
        for ran in &self.speculated {
            if let Speculated::Call { bytes, .. } = ran {
                speculated += 1;
                kept_bytes += bytes;
            }
        }
        assert_eq!(self.speculated_bytes, kept_bytes, "kept bytes are those of the kept answers");
        let limit = self.limits.held_calls + self.limits.speculative_calls;
        assert!(
            waiting + speculated <= limit,
            "{waiting} waiting and {speculated} speculated calls are within both limits ({limit})"
        );
        let ran = self.speculated.len();
        let limit = self.limits.speculative_calls.max(1);
        assert!(ran <= limit, "{ran} calls and fragments ran speculatively, at most {limit} may");
    }

    fn check_speculation(&self, now: M) {
        if let Some((by, mark)) = &self.stopped {
            assert!(self.speculated.is_empty(), "a partition stops on decided state only");
            assert_eq!(by.partition(), PartitionId::MULTI, "the coordinator's work stops it");
            assert!(*mark <= now, "undo holds what the stopped transaction did");
        }
        assert!(
            !matches!(self.speculated.front(), Some(Speculated::Call { .. })),
            "the first that is not safe is a multi-partition transaction"
        );
        let mut before: Option<M> = None;
        for ran in &self.speculated {
            let Speculated::Fragments { fragments, mark } = ran else { continue };
            assert!(fragments.last, "only a last round is speculated on");
            assert!(fragments.header.is_some(), "what ran has an id and a time");
            assert!(
                before.is_none_or(|before| before <= *mark),
                "undo marks ascend with the order"
            );
            assert!(*mark <= now, "undo reaches beyond every speculated transaction");
            before = Some(*mark);
        }
    }

    /// Transactions of the coordinator stand in the order of their ids, ran or not.
    fn check_order(&self) {
        let mut last = self.stopped.as_ref().map(|(by, _)| *by);
        for fragments in self.speculated_fragments() {
            let id = fragments.transaction;
            assert!(
                last.is_none_or(|last| last < id),
                "transactions ran in the order of their ids"
            );
            last = Some(id);
        }
        for (position, pending) in self.pending.iter().enumerate() {
            match pending {
                Pending::Fragments(fragments) => {
                    let id = fragments.transaction;
                    let goes_on = self.stopped.as_ref().is_some_and(|(by, _)| *by == id);
                    assert!(
                        last.is_none_or(|last| last < id) || goes_on && position == 0,
                        "transactions wait in the order of their ids, the next round first of all"
                    );
                    last = Some(id);
                }
                Pending::Call(_, header, turn) => {
                    let id = header.map(|header| header.transaction);
                    assert!(
                        id.is_none_or(|id| id.partition() != PartitionId::MULTI),
                        "a call has an id of its partition"
                    );
                    assert!(
                        *turn == Turn::Any || header.is_none(),
                        "what waits for decided state has never run"
                    );
                }
            }
        }
    }

    fn speculated_fragments(&self) -> impl Iterator<Item = &Fragments<F>> {
        self.speculated.iter().filter_map(|ran| match ran {
            Speculated::Fragments { fragments, .. } => Some(fragments),
            Speculated::Call { .. } => None,
        })
    }

    /// Whether a transaction of the coordinator ran or waits here and is not decided.
    pub fn has(&self, transaction: TransactionId) -> bool {
        let waits = |pending: &Pending<H, F>| match pending {
            Pending::Fragments(fragments) => fragments.transaction == transaction,
            Pending::Call(..) => false,
        };
        self.stopped_by() == Some(transaction)
            || self.speculated_fragments().any(|ran| ran.transaction == transaction)
            || self.pending.iter().any(waits)
    }
}

impl<H, A, F, M> SinglePartitionInitiator<H, A, F, M> {
    /// The transaction that has stopped the partition between its rounds.
    pub fn stopped_by(&self) -> Option<TransactionId> {
        self.stopped.as_ref().map(|(by, _)| *by)
    }

    /// The transaction of the coordinator that arrived last, of those that are not decided.
    pub(super) fn last_known(&self) -> Option<TransactionId> {
        let waits = self.pending.iter().rev().find_map(|pending| match pending {
            Pending::Fragments(fragments) => Some(fragments.transaction),
            Pending::Call(..) => None,
        });
        let ran = self.speculated.iter().rev().find_map(|ran| match ran {
            Speculated::Fragments { fragments, .. } => Some(fragments.transaction),
            Speculated::Call { .. } => None,
        });
        waits.max(ran).max(self.stopped_by())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sp::{Admission, Next, PartitionLimits};

    type Initiator = SinglePartitionInitiator<char, char, (), u32>;

    const NOW: i64 = 1_700_000_000_000;

    fn multi(counter: u32) -> TransactionId {
        TransactionId::new(NOW, counter, PartitionId::MULTI)
    }

    /// One transaction ran and a call after it, another transaction waits.
    fn speculating() -> Initiator {
        let limits =
            PartitionLimits { held_calls: 4, speculative_calls: 2, speculative_bytes: 100 };
        let mut initiator = Initiator::new(PartitionId(1), limits);
        for counter in 0..2 {
            let (transaction, round, last, header) = (multi(counter), 1, true, None);
            initiator.arrive(Fragments { transaction, round, last, header, work: () });
        }
        let Some(Next::Fragments(fragments, _)) = initiator.next(NOW) else { panic!("it runs") };
        initiator.ran_fragments(fragments, 5);
        let Some(Next::Fragments(fragments, _)) = initiator.next(NOW) else { panic!("it runs") };
        initiator.ran_fragments(fragments, 6);
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert_eq!(initiator.hold('a'), Ok(()));
        initiator
    }

    #[test]
    fn invariants_hold_through_commit_and_abort() {
        let mut initiator = speculating();
        initiator.check_invariants(7);
        assert!(initiator.has(multi(1)) && !initiator.has(multi(2)));
        assert_eq!(initiator.abort(multi(0), 1), Some(5));
        initiator.check_invariants(5);
        assert!(!initiator.has(multi(0)) && initiator.has(multi(1)));
    }

    #[test]
    #[should_panic(expected = "undo reaches beyond every speculated transaction")]
    fn undo_that_was_lost_is_noticed() {
        speculating().check_invariants(5);
    }

    #[test]
    #[should_panic(expected = "transactions ran in the order of their ids")]
    fn transactions_out_of_order_are_noticed() {
        let mut initiator = speculating();
        initiator.speculated.swap(0, 1);
        if let Some(Speculated::Fragments { mark, .. }) = initiator.speculated.front_mut() {
            *mark = 5;
        }
        initiator.check_invariants(7);
    }

    #[test]
    #[should_panic(expected = "the count of waiting calls is that of the queue")]
    fn a_lost_call_is_noticed() {
        let mut initiator = speculating();
        initiator.pending.clear();
        initiator.check_invariants(7);
    }
}
