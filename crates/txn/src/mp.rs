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
mod invariants;
mod late;
mod reopened;

use active::{Active, Participant, Stage};

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
        if self.waiting.len() >= self.limits.waiting {
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
        debug_assert!(
            self.spare_participants.last().is_none_or(Vec::is_empty),
            "kept lists are empty"
        );
        let active = Active {
            participants: self.spare_participants.pop().unwrap_or_default(),
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
        active.participants.reserve(partitions.len());
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
        for participant in &mut active.participants {
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

    /// The first transaction whose last round is complete and that no earlier one holds back.
    pub fn next_decidable(&self) -> Option<TransactionId> {
        self.decidable.last().copied()
    }

    /// The transaction is decided: who must hear it. With `acknowledged`, it is over only when
    /// every participant has said that it heard ([`Self::acknowledge`]).
    pub fn decide(
        &mut self,
        transaction: TransactionId,
        commit: bool,
        acknowledged: bool,
    ) -> Vec<Addressed> {
        let mut addressed = Vec::new();
        self.decide_into(transaction, commit, acknowledged, &mut addressed);
        addressed
    }

    /// [`Self::decide`], with the addresses in a list that is empty.
    pub fn decide_into(
        &mut self,
        transaction: TransactionId,
        commit: bool,
        acknowledged: bool,
        addressed: &mut Vec<Addressed>,
    ) {
        assert!(addressed.is_empty(), "the list is given empty");
        let active = self.active.get_mut(transaction);
        let active = active.expect("a decision belongs to a transaction");
        assert!(active.is_complete(), "all answers are in before the decision");
        assert_eq!(active.waits_for, 0, "every earlier transaction of its partitions is decided");
        assert_ne!(active.stage, Stage::Deciding, "a transaction is decided once");
        self.decidable.retain(|decidable| *decidable != transaction);
        if active.round == 0 {
            assert!(
                active.participants.is_empty(),
                "the transaction that takes its position begins a round"
            );
            self.active.remove(transaction);
            return;
        }
        if !commit {
            self.void_answers(transaction);
        }
        let active = self.active.get_mut(transaction).expect("it was looked at");
        let decision = |p: &mut Participant| {
            p.outstanding = acknowledged;
            address(&mut self.sent, &self.runs, &self.epochs, p.partition)
        };
        addressed.extend(active.participants.iter_mut().map(decision));
        match acknowledged {
            true => {
                active.stage = Stage::Deciding;
                active.outstanding = active.participants.len();
            }
            false => self.leave(transaction),
        }
    }

    /// An abort begins a run of its partitions: what later transactions got there is void.
    fn void_answers(&mut self, transaction: TransactionId) {
        let active = self.get(transaction).expect("it is in progress");
        // Where it was not sent, none after it was sent either.
        let addressed = active.participants.iter().filter(|participant| !participant.late);
        let partitions: Vec<PartitionId> =
            addressed.map(|participant| participant.partition).collect();
        for partition in partitions {
            self.runs[partition.index()] += 1;
            let run = self.runs[partition.index()];
            let queue = &self.queues[partition.index()];
            let place = queue.iter().position(|queued| *queued == transaction);
            let place = place.expect("it is in the queue of a participant");
            for later in queue.iter().skip(place + 1) {
                let active =
                    self.active.get_mut(*later).expect("a transaction in a queue is in progress");
                assert!(active.waits_for > 0, "nothing is decided after what is undecided");
                let place = active.place(partition).expect("it is in the queue of a participant");
                let participant = &mut active.participants[place];
                participant.least_run = run;
                active.outstanding += usize::from(participant.in_round);
                active.outstanding -= usize::from(participant.outstanding);
                participant.outstanding = participant.in_round;
            }
        }
    }

    /// The transaction is over: the next one comes to the front.
    fn leave(&mut self, transaction: TransactionId) {
        let mut active = self.active.remove(transaction).expect("it was in progress");
        for participant in active.participants.drain(..) {
            let queue = &mut self.queues[participant.partition.index()];
            let place = queue.iter().position(|queued| *queued == transaction);
            let place = place.expect("it is in the queue of a participant");
            queue.remove(place);
            // None comes to the front when one that is not there leaves.
            let Some(next) = queue.front().filter(|_| place == 0) else { continue };
            let active =
                self.active.get_mut(*next).expect("a transaction in a queue is in progress");
            debug_assert!(active.waits_for > 0, "who was not at the front waited there");
            active.waits_for -= 1;
            if active.is_decidable() {
                note_decidable(&mut self.decidable, *next);
            }
        }
        if self.spare_participants.len() < SPARE_LISTS {
            self.spare_participants.push(active.participants);
        }
    }

    /// A participant heard the decision.
    pub fn acknowledge(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
    ) -> RoundProgress {
        let Some(active) = self.active.get_mut(transaction) else { return RoundProgress::Stale };
        if active.stage != Stage::Deciding || !active.settle(partition, u64::MAX) {
            return RoundProgress::Stale;
        }
        if !active.is_complete() {
            return RoundProgress::Pending;
        }
        self.leave(transaction);
        RoundProgress::Complete
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

/// Lists a transaction at its place, unless it is listed.
fn note_decidable(decidable: &mut Vec<TransactionId>, transaction: TransactionId) {
    // There is hardly ever more than one.
    let place = decidable.partition_point(|listed| *listed > transaction);
    if decidable.get(place) != Some(&transaction) {
        decidable.insert(place, transaction);
    }
}

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
