//! The initiator of multi-partition transactions: gives each its place in the order of all, and
//! says when it may be decided.
//!
//! It never waits for execution: a transaction takes its place at all its partitions at once, in
//! one order, and any number up to a limit are in progress. Partitions execute them speculatively;
//! what is said here keeps that exact:
//!
//! * a transaction is decided only after every earlier one that shares a partition with it, so
//!   that nothing is decided on data of a transaction that may still be aborted;
//! * an abort makes its partitions run what they had run after it again. Their answers to later
//!   transactions are void from then on: each message of a partition carries the number of its
//!   run, and one of an older run than the transaction needs is stale.
//!
//! Each partition has a queue of the transactions that are undecided there, in order; the one that
//! is at the front of all its queues waits for nobody. What each step costs depends on the number
//! of the transaction's partitions, not on how many transactions are in progress; an abort costs a
//! step for each transaction that is void.

use crate::clock::TransactionClock;
use lockstep_base::growing::GrowingMap;
use lockstep_types::{PartitionId, TransactionId};
use std::collections::VecDeque;

mod abandon;
mod active;
mod decide;
mod invariants;
mod late;
mod reopened;

use active::{Active, Participant, Participants, Stage};
use decide::note_decidable;

/// A message's partition and its number in the stream of messages to that partition (from 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addressed {
    /// Whom it goes to.
    pub partition: PartitionId,
    /// Its place in the stream, see [`crate::OrderedStream`].
    pub number: u64,
    /// The run of the partition that this message leaves it in, see [`crate::mp`].
    pub run: u64,
    /// The epoch of the stream.
    pub epoch: u64,
}

/// What an answer to a round means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundProgress {
    /// Others are still to come.
    Pending,
    /// It was the last one.
    Complete,
    /// It is a repeat, or of a run that an abort made void: to be ignored.
    Stale,
}

/// Limits of the initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiLimits {
    /// Calls in the queue.
    pub waiting: usize,
    /// Transactions in progress at the same time.
    pub active: usize,
}

#[derive(Debug)]
struct Waiting<C> {
    call: C,
    exclusive: bool,
}

/// Orders multi-partition transactions. `C` is a waiting call.
#[derive(Debug)]
pub struct MultiPartitionInitiator<C> {
    clock: TransactionClock,
    waiting: VecDeque<Waiting<C>>,
    /// Calls that began, and are kept elsewhere until they may be ordered again.
    set_aside: usize,
    limits: MultiLimits,
    /// In order: ids of one clock only grow.
    active: GrowingMap<TransactionId, Active>,
    /// Per partition: who is undecided there, in order.
    queues: Vec<VecDeque<TransactionId>>,
    /// Whose last round is complete, and who is at the front of all its queues; the first in order
    /// stands last.
    decidable: Vec<TransactionId>,
    /// Empty lists of participants, kept for their memory.
    spare_participants: Vec<Vec<Participant>>,
    /// Per partition: messages sent so far.
    sent: Vec<u64>,
    /// Per partition: aborts sent so far, which is the number of its run.
    runs: Vec<u64>,
    /// Per partition: the epoch of the cluster in which the stream of messages to it began.
    epochs: Vec<u64>,
}

impl<C> MultiPartitionInitiator<C> {
    /// The initiator over this many partitions.
    pub fn new(partition_count: u32, limits: MultiLimits) -> Self {
        MultiPartitionInitiator {
            clock: TransactionClock::new(PartitionId::MULTI),
            waiting: VecDeque::new(),
            set_aside: 0,
            limits,
            active: GrowingMap::default(),
            queues: (0..partition_count).map(|_| VecDeque::new()).collect(),
            decidable: Vec::new(),
            spare_participants: Vec::new(),
            sent: vec![0; partition_count as usize],
            runs: vec![0; partition_count as usize],
            epochs: vec![0; partition_count as usize],
        }
    }

    /// New ids are greater than this one.
    pub fn advance_past(&mut self, last: TransactionId) {
        self.clock.advance_past(last);
    }

    /// A call arrived. An exclusive one runs while no other multi-partition transaction does.
    ///
    /// # Errors
    /// Gives the call back when the queue is full; it is to be refused.
    pub fn submit(&mut self, call: C, exclusive: bool) -> Result<(), C> {
        if self.waiting.len() + self.set_aside >= self.limits.waiting {
            return Err(call);
        }
        self.waiting.push_back(Waiting { call, exclusive });
        Ok(())
    }

    /// A call that began and has to be ordered again goes in front of those that wait.
    pub fn resubmit(&mut self, call: C, exclusive: bool) {
        self.waiting.push_front(Waiting { call, exclusive });
    }

    /// Begins the next transaction, if it may begin now. Its partitions are to be named at once
    /// ([`Self::enlist`]), or it ends without any ([`Self::decide`]).
    pub fn begin_next(&mut self, now_ms: i64) -> Option<(C, TransactionId)> {
        let front = self.waiting.front()?;
        let last = self.active.last();
        let alone = front.exclusive || last.is_some_and(|(_, active)| active.exclusive);
        if self.active.len() >= if alone { 1 } else { self.limits.active } {
            return None;
        }
        let Waiting { call, exclusive } = self.waiting.pop_front()?;
        let transaction = self.clock.next(now_ms);
        let active = Active {
            participants: Participants::for_count(0, Vec::new),
            outstanding: 0,
            waits_for: 0,
            round: 0,
            stage: Stage::Running,
            exclusive,
        };
        self.active.push(transaction, active);
        Some((call, transaction))
    }

    /// Names the partitions of the transaction that began last, in the order of their numbers: it
    /// takes its place there, and nowhere else.
    pub fn enlist(&mut self, transaction: TransactionId, partitions: &[PartitionId]) {
        let (last, active) = self.active.last_mut().expect("a transaction has begun");
        assert_eq!(last, transaction, "the order is that of the beginnings");
        assert!(active.round == 0 && active.participants.is_empty(), "partitions are named once");
        assert!(!partitions.is_empty(), "a transaction runs somewhere");
        assert!(partitions.is_sorted_by(|a, b| a < b), "each partition is named once, in order");
        let spare = &mut self.spare_participants;
        let memory = || spare.pop().unwrap_or_default();
        active.participants = Participants::for_count(partitions.len(), memory);
        for partition in partitions {
            let queue = &mut self.queues[partition.index()];
            active.waits_for += usize::from(!queue.is_empty());
            queue.push_back(transaction);
            active.participants.push(Participant {
                partition: *partition,
                least_run: self.runs[partition.index()],
                outstanding: false,
                in_round: false,
                late: false,
            });
        }
    }

    /// The partitions of a transaction that are not among those it named.
    pub fn not_enlisted(
        &self,
        transaction: TransactionId,
        partitions: &[PartitionId],
    ) -> Vec<PartitionId> {
        let active = self.get(transaction).expect("the transaction is in progress");
        partitions.iter().copied().filter(|partition| active.place(*partition).is_none()).collect()
    }

    /// The partitions that a transaction named.
    pub fn participants(&self, transaction: TransactionId) -> Vec<PartitionId> {
        let active = self.get(transaction).expect("the transaction is in progress");
        active.participants.iter().map(|participant| participant.partition).collect()
    }

    /// The lowest partition that a transaction named, once it has.
    pub fn first_participant(&self, transaction: TransactionId) -> Option<PartitionId> {
        Some(self.get(transaction)?.participants.first()?.partition)
    }

    /// Begins a round at these partitions. In the first one every participant is addressed,
    /// for it takes its place there. After the `last` round comes only the decision. Returns the
    /// round's number and how to address each message.
    pub fn begin_round(
        &mut self,
        transaction: TransactionId,
        partitions: &[PartitionId],
        last: bool,
    ) -> (u32, Vec<Addressed>) {
        let mut addressed = Vec::with_capacity(partitions.len());
        let round = self.begin_round_into(transaction, partitions, last, None, &mut addressed);
        (round, addressed)
    }

    /// [`Self::begin_round`], with the addresses in a list that is empty. The partition `late`,
    /// if it takes part, is addressed later ([`Self::address_late`]).
    pub fn begin_round_into(
        &mut self,
        transaction: TransactionId,
        partitions: &[PartitionId],
        last: bool,
        late: Option<PartitionId>,
        addressed: &mut Vec<Addressed>,
    ) -> u32 {
        assert!(addressed.is_empty(), "the list is given empty");
        assert!(partitions.is_sorted(), "partitions come in the order of their numbers");
        let active = self.active.get_mut(transaction).expect("a round belongs to a transaction");
        assert!(active.is_complete(), "the round before is complete");
        assert_eq!(active.stage, Stage::Running, "no round follows the last one");
        let first = active.round == 0;
        active.round += 1;
        active.stage = if last { Stage::Last } else { Stage::Running };
        let mut known = 0;
        for participant in active.participants.iter_mut() {
            let named = partitions.binary_search(&participant.partition).is_ok();
            known += usize::from(named);
            participant.in_round = first || named;
            participant.outstanding = participant.in_round;
            participant.late = participant.in_round && late == Some(participant.partition);
            active.outstanding += usize::from(participant.in_round);
            if participant.in_round && !participant.late {
                let (sent, runs) = (&mut self.sent, &self.runs);
                addressed.push(address(sent, runs, &self.epochs, participant.partition));
            }
        }
        assert!(
            known == partitions.len() && active.outstanding > 0,
            "a round runs at the transaction's partitions"
        );
        active.round
    }

    /// A partition's answer to a round arrived, from the given run of the partition.
    pub fn answer(
        &mut self,
        transaction: TransactionId,
        round: u32,
        partition: PartitionId,
        run: u64,
    ) -> RoundProgress {
        let Some(active) = self.active.get_mut(transaction) else { return RoundProgress::Stale };
        let current = active.round == round && active.stage != Stage::Deciding;
        if !current || !active.settle(partition, run) {
            return RoundProgress::Stale;
        }
        let progress = match active.is_complete() {
            true => RoundProgress::Complete,
            false => RoundProgress::Pending,
        };
        if active.is_decidable() {
            note_decidable(&mut self.decidable, transaction);
        }
        progress
    }

    /// Whether a round that is not the last one is complete: it may go on.
    pub fn may_go_on(&self, transaction: TransactionId) -> bool {
        self.get(transaction).is_some_and(|a| a.stage == Stage::Running && a.is_complete())
    }

    /// Number of calls that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Number of transactions in progress.
    pub fn active_count(&self) -> usize {
        self.active.len()
    }

    /// True when nothing is in progress.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    fn get(&self, transaction: TransactionId) -> Option<&Active> {
        self.active.get(transaction)
    }
}

/// Empty lists that are kept.
const SPARE_LISTS: usize = 1024;

/// Numbers the next message to a partition.
fn address(sent: &mut [u64], runs: &[u64], epochs: &[u64], partition: PartitionId) -> Addressed {
    let (sent, run) = (&mut sent[partition.index()], runs[partition.index()]);
    *sent += 1;
    debug_assert!(run <= *sent, "each run began with a message");
    Addressed { partition, number: *sent, run, epoch: epochs[partition.index()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const A: PartitionId = PartitionId(0);
    const B: PartitionId = PartitionId(1);
    const C: PartitionId = PartitionId(2);

    fn initiator(active: usize) -> MultiPartitionInitiator<&'static str> {
        MultiPartitionInitiator::new(3, MultiLimits { waiting: 3, active })
    }

    /// Begins a transaction of one round.
    fn begin(
        initiator: &mut MultiPartitionInitiator<&'static str>,
        partitions: &[PartitionId],
    ) -> TransactionId {
        let (_, transaction) = initiator.begin_next(NOW).expect("it may begin");
        initiator.enlist(transaction, partitions);
        initiator.begin_round(transaction, partitions, true);
        transaction
    }

    #[test]
    fn transactions_run_beside_each_other_and_are_decided_in_the_order_of_their_partitions() {
        let mut initiator = initiator(8);
        for call in ["first", "second", "third"] {
            assert_eq!(initiator.submit(call, false), Ok(()));
        }
        assert_eq!(initiator.submit("fourth", false), Err("fourth"));
        let first = begin(&mut initiator, &[A, B]);
        let second = begin(&mut initiator, &[B, C]);
        let third = begin(&mut initiator, &[C]);
        assert_eq!(initiator.answer(second, 1, B, 0), RoundProgress::Pending);
        assert_eq!(initiator.answer(second, 1, B, 0), RoundProgress::Stale);
        assert_eq!(initiator.answer(second, 2, C, 0), RoundProgress::Stale);
        assert_eq!(initiator.answer(second, 1, C, 0), RoundProgress::Complete);
        assert_eq!(initiator.answer(third, 1, C, 0), RoundProgress::Complete);
        // The third ran after the second at C, and that after the first at B.
        assert_eq!(initiator.next_decidable(), None);
        initiator.answer(first, 1, A, 0);
        initiator.answer(first, 1, B, 0);
        for expected in [first, second, third] {
            assert_eq!(initiator.next_decidable(), Some(expected));
            initiator.decide(expected, true, false);
        }
        assert!(initiator.is_idle());
    }

    #[test]
    fn an_abort_voids_what_ran_behind_it_and_nothing_else() {
        let mut initiator = initiator(8);
        for call in ["first", "second", "third"] {
            assert_eq!(initiator.submit(call, false), Ok(()));
        }
        let first = begin(&mut initiator, &[A]);
        let second = begin(&mut initiator, &[A, B]);
        let third = begin(&mut initiator, &[C]);
        for (transaction, partition) in [(first, A), (second, A), (second, B), (third, C)] {
            initiator.answer(transaction, 1, partition, 0);
        }
        let addressed = initiator.decide(first, false, false);
        assert_eq!(addressed, [Addressed { partition: A, number: 3, run: 1, epoch: 0 }]);
        assert_eq!(initiator.next_decidable(), Some(third));
        // The answer that was in flight when A took the abort is void.
        assert_eq!(initiator.answer(second, 1, A, 0), RoundProgress::Stale);
        assert_eq!(initiator.answer(second, 1, A, 1), RoundProgress::Complete);
        assert_eq!(initiator.next_decidable(), Some(second));
    }

    #[test]
    fn one_that_is_abandoned_leaves_from_wherever_it_is() {
        let mut initiator = initiator(8);
        for call in ["first", "second", "third"] {
            assert_eq!(initiator.submit(call, false), Ok(()));
        }
        let first = begin(&mut initiator, &[A, B]);
        let second = begin(&mut initiator, &[B, C]);
        let third = begin(&mut initiator, &[B, C]);
        for (transaction, partition) in [(second, B), (third, B), (third, C)] {
            initiator.answer(transaction, 1, partition, 0);
        }
        assert_eq!(initiator.undecided(), [first, second, third]);
        let addressed = initiator.abandon(second);
        assert_eq!(
            addressed,
            [
                Addressed { partition: B, number: 4, run: 1, epoch: 0 },
                Addressed { partition: C, number: 3, run: 1, epoch: 0 }
            ]
        );
        // What the third got after it is void; its answers come again.
        initiator.answer(first, 1, A, 0);
        initiator.answer(first, 1, B, 0);
        assert_eq!(initiator.next_decidable(), Some(first));
        initiator.decide(first, true, false);
        assert_eq!(initiator.next_decidable(), None);
        assert_eq!(initiator.answer(third, 1, B, 1), RoundProgress::Pending);
        assert_eq!(initiator.answer(second, 1, C, 0), RoundProgress::Stale);
        assert_eq!(initiator.answer(third, 1, C, 1), RoundProgress::Complete);
        assert_eq!(initiator.next_decidable(), Some(third));
        initiator.decide(third, true, false);
        assert!(initiator.is_idle());
    }

    #[test]
    fn an_exclusive_one_waits_for_all_and_holds_up_all() {
        let mut initiator = initiator(8);
        assert_eq!(initiator.submit("call", false), Ok(()));
        assert_eq!(initiator.submit("schema", true), Ok(()));
        assert_eq!(initiator.submit("next", false), Ok(()));
        let call = begin(&mut initiator, &[A]);
        assert!(initiator.begin_next(NOW).is_none());
        initiator.answer(call, 1, A, 0);
        initiator.decide(call, true, false);
        let (name, schema) = initiator.begin_next(NOW).expect("nothing is in progress");
        assert_eq!(name, "schema");
        initiator.enlist(schema, &[A, B]);
        initiator.begin_round(schema, &[A, B], false);
        assert!(initiator.begin_next(NOW).is_none());
        initiator.answer(schema, 1, A, 0);
        assert!(!initiator.may_go_on(schema));
        initiator.answer(schema, 1, B, 0);
        assert!(initiator.may_go_on(schema));
        initiator.decide(schema, true, true);
        assert_eq!(initiator.acknowledge(schema, A), RoundProgress::Pending);
        assert!(initiator.begin_next(NOW).is_none());
        assert_eq!(initiator.acknowledge(schema, B), RoundProgress::Complete);
        assert!(initiator.begin_next(NOW).is_some());
    }

    #[test]
    fn every_participant_hears_of_the_first_round_and_strangers_are_named() {
        let mut initiator = initiator(8);
        assert_eq!(initiator.submit("call", false), Ok(()));
        let (_, transaction) = initiator.begin_next(NOW).expect("it may begin");
        initiator.enlist(transaction, &[A, C]);
        let (_, addressed) = initiator.begin_round(transaction, &[A], false);
        assert_eq!(addressed.len(), 2);
        assert_eq!(initiator.not_enlisted(transaction, &[A, B, C]), [B]);
        initiator.answer(transaction, 1, A, 0);
        initiator.answer(transaction, 1, C, 0);
        let (round, addressed) = initiator.begin_round(transaction, &[A], true);
        assert_eq!((round, addressed.len()), (2, 1));
        initiator.answer(transaction, 2, A, 0);
        assert_eq!(initiator.decide(transaction, true, false).len(), 2);
    }
}
