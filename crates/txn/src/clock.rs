//! Transaction ids: times that never move backward, unique within an initiator.

use lockstep_types::PartitionId;
use lockstep_types::ids::{TRANSACTION_EPOCH_MS, TransactionId};

/// Makes the transaction ids of one initiator.
///
/// The time given in may jump either way; ids only grow. When the counter within a millisecond is
/// used up, ids run ahead of the time given in by up to as many milliseconds as needed.
#[derive(Debug, Clone)]
pub struct TransactionClock {
    partition: PartitionId,
    time_ms: i64,
    counter: u32,
}

impl TransactionClock {
    /// A clock for the initiator of a partition ([`PartitionId::MULTI`] for the MPI).
    pub fn new(partition: PartitionId) -> Self {
        TransactionClock { partition, time_ms: TRANSACTION_EPOCH_MS, counter: 0 }
    }

    /// The next id, at the given time or later.
    #[inline]
    pub fn next(&mut self, now_ms: i64) -> TransactionId {
        if now_ms > self.time_ms {
            self.time_ms = now_ms;
            self.counter = 0;
        } else {
            self.counter += 1;
            if self.counter >= 1 << TransactionId::COUNTER_BITS {
                self.time_ms += 1;
                self.counter = 0;
            }
        }
        debug_assert!(
            self.time_ms >= now_ms && self.counter < 1 << TransactionId::COUNTER_BITS,
            "an id is of the time given or later, and its counter fits"
        );
        TransactionId::new(self.time_ms, self.counter, self.partition)
    }

    /// The id that was given last, or one that is never given.
    pub fn last(&self) -> TransactionId {
        TransactionId::new(self.time_ms, self.counter, self.partition)
    }

    /// Never gives an id at or before this one again: what a new leader or a recovered partition
    /// does with the last id of its log.
    pub fn advance_past(&mut self, last: TransactionId) {
        if last.time_ms() >= self.time_ms {
            self.time_ms = last.time_ms() + 1;
            self.counter = 0;
        }
        assert!(self.time_ms > last.time_ms(), "new ids are of a later time than those before");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_although_the_time_jumps() {
        let mut clock = TransactionClock::new(PartitionId(5));
        let start = TRANSACTION_EPOCH_MS + 1_000_000;
        let mut last = TransactionId::default();
        for i in 0..5000i64 {
            let jump = if i % 700 == 0 { -500 } else { i / 600 };
            let id = clock.next(start + jump);
            assert!(id > last, "{i}");
            assert_eq!(id.partition(), PartitionId(5));
            last = id;
        }
        clock.advance_past(TransactionId::new(start + 10_000, 3, PartitionId(5)));
        assert!(clock.next(start).time_ms() > start + 10_000);
    }
}
