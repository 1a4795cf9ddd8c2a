//! Up to which of its entries a partition's log is settled: further entries do not change what they
//! say, unless they decide a transaction among them.
//!
//! A call is logged when it has run, and may run again: after the abort of a transaction that ran
//! before it. It votes then, and may fail although nothing that the log has changed, because the
//! transaction only read here, or was aborted while the host was short of time. A follower that had
//! run the call by then would have done too much. So it runs entries only up to where the first
//! undecided transaction began when it ran for the first time.

use super::Site;
use lockstep_storage::UndoMark;
use lockstep_types::TransactionId;

/// Where a partition stood before it ran a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) mark: UndoMark,
    /// Its last log entry.
    sequence: u64,
}

/// What ran after an aborted transaction runs again, and may end otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettleFloor {
    /// The last entry before that transaction.
    sequence: u64,
    /// The last transaction of the coordinator that runs again.
    last: TransactionId,
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// Where the partition stands.
    #[inline]
    pub(super) fn point(&self) -> Point {
        Point { mark: self.database.mark(), sequence: self.log.sequence() }
    }

    /// What ran after this point was undone, and what of it is not aborted waits to run again.
    #[cold]
    pub(super) fn note_repeats(&mut self, point: Point) {
        if !self.initiator.has_repeats() {
            return;
        }
        let last = self.initiator.last_repeat().unwrap_or_default();
        let before = self.settle_floor.unwrap_or(SettleFloor { sequence: u64::MAX, last });
        self.settle_floor = Some(SettleFloor {
            sequence: before.sequence.min(point.sequence),
            last: before.last.max(last),
        });
        assert!(point.sequence <= self.log.sequence(), "a point is of entries that there are");
    }

    /// The number of the last entry of which the log says all that it will say, but for decisions.
    /// It only grows.
    pub fn settled_sequence(&mut self) -> u64 {
        let first = self.initiator.first_undecided();
        if let Some(floor) = self.settle_floor {
            let is_repeat = |(transaction, _): (TransactionId, Point)| transaction <= floor.last;
            if self.initiator.has_repeats() || first.is_some_and(is_repeat) {
                // What is aborted need not be the first that is undecided.
                let first = first.map_or(u64::MAX, |(_, point)| point.sequence);
                return first.min(floor.sequence);
            }
            self.settle_floor = None;
        }
        let settled = first.map_or(self.log.sequence(), |(_, point)| point.sequence);
        assert!(settled <= self.log.sequence(), "what is settled was logged");
        settled
    }
}
