//! The initiator of multi-partition transactions: one at a time, in the order they came.

use crate::clock::TransactionClock;
use lockstep_types::{PartitionId, TransactionId};
use std::collections::VecDeque;

/// A message's partition and its number in the stream of messages to that partition (from 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed {
    /// Whom it goes to.
    pub partition: PartitionId,
    /// Its place in the stream, see [`crate::OrderedStream`].
    pub number: u64,
}

/// What an answer to a round means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundProgress {
    /// Others are still to come.
    Pending,
    /// It was the last one.
    Complete,
    /// It is not of the current round: a repeat, to be ignored.
    Stale,
}

#[derive(Debug)]
struct Active {
    transaction: TransactionId,
    round: u32,
    /// Partitions whose answer to the current round is outstanding.
    outstanding: Vec<PartitionId>,
    /// Partitions that had a fragment: all of them must hear the decision.
    participants: Vec<PartitionId>,
    /// The decision is out and acknowledgements are awaited.
    deciding: bool,
}

/// Lets multi-partition transactions run one after the other. `C` is a waiting call.
#[derive(Debug)]
pub struct MultiPartitionInitiator<C> {
    clock: TransactionClock,
    waiting: VecDeque<C>,
    waiting_limit: usize,
    active: Option<Active>,
    /// Per partition: messages sent so far.
    sent: Vec<u64>,
}

impl<C> MultiPartitionInitiator<C> {
    /// The initiator over this many partitions, with at most `waiting_limit` calls in its queue.
    pub fn new(partition_count: u32, waiting_limit: usize) -> Self {
        MultiPartitionInitiator {
            clock: TransactionClock::new(PartitionId::MULTI),
            waiting: VecDeque::new(),
            waiting_limit,
            active: None,
            sent: vec![0; partition_count as usize],
        }
    }

    /// A call arrived.
    ///
    /// # Errors
    /// Gives the call back when the queue is full; it is to be refused.
    pub fn submit(&mut self, call: C) -> Result<(), C> {
        if self.waiting.len() >= self.waiting_limit {
            return Err(call);
        }
        self.waiting.push_back(call);
        Ok(())
    }

    /// Begins the next transaction if none is under way.
    pub fn begin_next(&mut self, now_ms: i64) -> Option<(C, TransactionId)> {
        if self.active.is_some() {
            return None;
        }
        let call = self.waiting.pop_front()?;
        let transaction = self.clock.next(now_ms);
        self.active = Some(Active {
            transaction,
            round: 0,
            outstanding: Vec::new(),
            participants: Vec::new(),
            deciding: false,
        });
        Some((call, transaction))
    }

    /// Begins a round at these partitions. Returns its number and how to address each message.
    pub fn begin_round(&mut self, partitions: &[PartitionId]) -> (u32, Vec<Addressed>) {
        let active = self.active.as_mut().expect("a round belongs to a transaction");
        assert!(active.outstanding.is_empty(), "the round before is complete");
        assert!(!active.deciding, "no round follows the decision");
        assert!(!partitions.is_empty(), "a round runs somewhere");
        active.round += 1;
        active.outstanding.extend_from_slice(partitions);
        for partition in partitions {
            if !active.participants.contains(partition) {
                active.participants.push(*partition);
            }
        }
        let round = active.round;
        (round, self.address(partitions))
    }

    /// A partition's answer to a round arrived.
    pub fn answer(
        &mut self,
        transaction: TransactionId,
        round: u32,
        partition: PartitionId,
    ) -> RoundProgress {
        let Some(active) = self.active.as_mut() else { return RoundProgress::Stale };
        if active.transaction != transaction || active.round != round || active.deciding {
            return RoundProgress::Stale;
        }
        Self::count(active, partition)
    }

    /// The transaction is decided: who must hear it. With `acknowledged`, the next transaction
    /// begins only when every participant has said that it heard ([`Self::acknowledge`]).
    pub fn decide(&mut self, acknowledged: bool) -> Vec<Addressed> {
        let active = self.active.as_mut().expect("a decision belongs to a transaction");
        assert!(active.outstanding.is_empty(), "all answers are in before the decision");
        let participants = active.participants.clone();
        if acknowledged && !participants.is_empty() {
            active.deciding = true;
            active.outstanding.extend_from_slice(&participants);
        } else {
            self.active = None;
        }
        self.address(&participants)
    }

    /// A participant heard the decision.
    pub fn acknowledge(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
    ) -> RoundProgress {
        let Some(active) = self.active.as_mut() else { return RoundProgress::Stale };
        if active.transaction != transaction || !active.deciding {
            return RoundProgress::Stale;
        }
        let progress = Self::count(active, partition);
        if progress == RoundProgress::Complete {
            self.active = None;
        }
        progress
    }

    /// Number of calls that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// True when nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.active.is_none()
    }

    fn count(active: &mut Active, partition: PartitionId) -> RoundProgress {
        let Some(place) = active.outstanding.iter().position(|p| *p == partition) else {
            return RoundProgress::Stale;
        };
        active.outstanding.swap_remove(place);
        match active.outstanding.is_empty() {
            true => RoundProgress::Complete,
            false => RoundProgress::Pending,
        }
    }

    fn address(&mut self, partitions: &[PartitionId]) -> Vec<Addressed> {
        let address = |partition: &PartitionId| {
            let sent = &mut self.sent[partition.index()];
            *sent += 1;
            Addressed { partition: *partition, number: *sent }
        };
        partitions.iter().map(address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(2);

    #[test]
    fn one_transaction_at_a_time_and_every_participant_hears_the_decision() {
        let mut initiator = MultiPartitionInitiator::new(3, 2);
        assert_eq!(initiator.submit("first"), Ok(()));
        assert_eq!(initiator.submit("second"), Ok(()));
        assert_eq!(initiator.submit("third"), Err("third"));
        let (call, first) = initiator.begin_next(NOW).expect("it is idle");
        assert_eq!(call, "first");
        assert!(initiator.begin_next(NOW).is_none());
        let (round, addressed) = initiator.begin_round(&[A, B]);
        assert_eq!(addressed[1], Addressed { partition: B, number: 1 });
        assert_eq!(initiator.answer(first, round, A), RoundProgress::Pending);
        assert_eq!(initiator.answer(first, round, A), RoundProgress::Stale);
        assert_eq!(initiator.answer(first, round + 1, B), RoundProgress::Stale);
        assert_eq!(initiator.answer(first, round, B), RoundProgress::Complete);
        let (round, _) = initiator.begin_round(&[A]);
        assert_eq!(initiator.answer(first, round, A), RoundProgress::Complete);
        let decision = initiator.decide(true);
        let expected =
            [Addressed { partition: A, number: 3 }, Addressed { partition: B, number: 2 }];
        assert_eq!(decision, expected);
        assert!(initiator.begin_next(NOW).is_none());
        assert_eq!(initiator.acknowledge(first, A), RoundProgress::Pending);
        assert_eq!(initiator.acknowledge(first, B), RoundProgress::Complete);
        let (call, second) = initiator.begin_next(NOW).expect("the first is over");
        assert_eq!(call, "second");
        assert!(second > first);
        assert_eq!(initiator.decide(false), []);
        assert!(initiator.is_idle());
    }
}
