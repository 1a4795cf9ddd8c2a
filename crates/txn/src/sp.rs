//! The initiator of one partition: numbers its log entries, and stops it for multi-partition
//! transactions.

use crate::clock::TransactionClock;
use crate::log_entry::EntryHeader;
use lockstep_types::{PartitionId, TransactionId};
use std::collections::VecDeque;

/// Orders the calls of one partition. `C` is whatever the caller needs to run a held call.
#[derive(Debug)]
pub struct SinglePartitionInitiator<C> {
    clock: TransactionClock,
    epoch: u64,
    sequence: u64,
    /// The multi-partition transaction that has stopped this partition.
    stopped_by: Option<TransactionId>,
    held: VecDeque<C>,
    held_limit: usize,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It runs now, at this place in the log.
    Run(EntryHeader),
    /// The partition has stopped for a multi-partition transaction: hold the call.
    Hold,
}

impl<C> SinglePartitionInitiator<C> {
    /// The initiator of a partition in an epoch, holding back at most `held_limit` calls.
    pub fn new(partition: PartitionId, epoch: u64, held_limit: usize) -> Self {
        SinglePartitionInitiator {
            clock: TransactionClock::new(partition),
            epoch,
            sequence: 0,
            stopped_by: None,
            held: VecDeque::new(),
            held_limit,
        }
    }

    /// A call wants to run.
    #[inline]
    pub fn admit(&mut self, now_ms: i64) -> Admission {
        // A held call was there before: it goes first, also when the partition is free again.
        if self.stopped_by.is_some() || !self.held.is_empty() {
            return Admission::Hold;
        }
        Admission::Run(self.next_entry(now_ms))
    }

    /// Keeps a call that was told to hold.
    ///
    /// # Errors
    /// Gives the call back when as many as the limit are held; it is to be refused.
    pub fn hold(&mut self, call: C) -> Result<(), C> {
        if self.held.len() >= self.held_limit {
            return Err(call);
        }
        self.held.push_back(call);
        Ok(())
    }

    /// The next held call, once the partition is free; it runs at the place given with it.
    pub fn release(&mut self, now_ms: i64) -> Option<(C, EntryHeader)> {
        if self.stopped_by.is_some() {
            return None;
        }
        let call = self.held.pop_front()?;
        Some((call, self.next_entry(now_ms)))
    }

    /// A fragment of a multi-partition transaction is to run: the partition stops for it, or has.
    /// The entry carries the transaction's own id and time.
    pub fn begin_fragment(&mut self, transaction: TransactionId, timestamp_us: i64) -> EntryHeader {
        assert!(
            self.stopped_by.is_none_or(|current| current == transaction),
            "one multi-partition transaction at a time"
        );
        self.stopped_by = Some(transaction);
        self.sequence += 1;
        EntryHeader { epoch: self.epoch, sequence: self.sequence, transaction, timestamp_us }
    }

    /// The decision on the transaction that stopped this partition: it goes on.
    pub fn end_transaction(
        &mut self,
        transaction: TransactionId,
        timestamp_us: i64,
    ) -> EntryHeader {
        assert_eq!(self.stopped_by, Some(transaction), "a decision on what was never begun");
        self.stopped_by = None;
        self.sequence += 1;
        EntryHeader { epoch: self.epoch, sequence: self.sequence, transaction, timestamp_us }
    }

    /// The transaction that has stopped this partition.
    pub fn stopped_by(&self) -> Option<TransactionId> {
        self.stopped_by
    }

    /// Number of calls held back.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Number of entries so far.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    #[inline]
    fn next_entry(&mut self, now_ms: i64) -> EntryHeader {
        let transaction = self.clock.next(now_ms);
        self.sequence += 1;
        EntryHeader {
            epoch: self.epoch,
            sequence: self.sequence,
            transaction,
            timestamp_us: transaction.time_ms() * 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    #[test]
    fn calls_wait_for_the_decision_and_keep_their_order() {
        let mut initiator = SinglePartitionInitiator::new(PartitionId(1), 7, 2);
        let Admission::Run(first) = initiator.admit(NOW) else { panic!("the partition is free") };
        assert_eq!((first.epoch, first.sequence), (7, 1));
        let multi = TransactionId::new(NOW, 0, PartitionId::MULTI);
        assert_eq!(initiator.begin_fragment(multi, 5).sequence, 2);
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert_eq!(initiator.hold('a'), Ok(()));
        assert_eq!(initiator.hold('b'), Ok(()));
        assert_eq!(initiator.hold('c'), Err('c'));
        assert_eq!(initiator.begin_fragment(multi, 5).sequence, 3);
        assert!(initiator.release(NOW).is_none());
        initiator.end_transaction(multi, 5);
        // A newcomer must not overtake the held calls.
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert_eq!(initiator.release(NOW).map(|r| r.0), Some('a'));
        assert_eq!(initiator.release(NOW).map(|r| r.0), Some('b'));
        assert!(matches!(initiator.admit(NOW), Admission::Run(_)));
    }

    #[test]
    #[should_panic(expected = "one multi-partition transaction at a time")]
    fn two_transactions_at_once_stop_the_host() {
        let mut initiator = SinglePartitionInitiator::<()>::new(PartitionId(0), 1, 1);
        initiator.begin_fragment(TransactionId::new(NOW, 0, PartitionId::MULTI), 0);
        initiator.begin_fragment(TransactionId::new(NOW, 1, PartitionId::MULTI), 0);
    }
}
