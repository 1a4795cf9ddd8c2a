//! The initiator of multi-partition transactions: gives each its place in the order of all, and
//! says when it may be decided.
//!
//! It never waits for execution: a transaction takes its place at all its partitions at once, in
//! one order, and any number up to a limit are under way. Partitions execute them speculatively;
//! what is said here keeps that exact:
//!
//! * a transaction is decided only after every earlier one that shares a partition with it, so
//!   that nothing is decided on data of a transaction that may still be aborted;
//! * an abort makes its partitions run what they had run behind it again. Their answers to later
//!   transactions are void from then on: each message of a partition carries the number of its
//!   run, and one of an older run than the transaction needs is stale.

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
    /// The run of the partition that this message leaves it in, see [`crate::mp`].
    pub run: u64,
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
    /// Transactions under way at the same time.
    pub active: usize,
}

#[derive(Debug)]
struct Participant {
    partition: PartitionId,
    /// Answers of earlier runs are void.
    least_run: u64,
    /// Its answer to the current round has not come, or is void.
    outstanding: bool,
    /// It was addressed in the current round.
    in_round: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Rounds are to come.
    Running,
    /// The current round is the last one.
    Last,
    /// The decision is out and acknowledgements are awaited.
    Deciding,
}

#[derive(Debug)]
struct Active {
    transaction: TransactionId,
    participants: Vec<Participant>,
    round: u32,
    stage: Stage,
    exclusive: bool,
}

impl Active {
    fn participant(&mut self, partition: PartitionId) -> Option<&mut Participant> {
        self.participants.iter_mut().find(|p| p.partition == partition)
    }

    fn takes_part(&self, partition: PartitionId) -> bool {
        self.participants.iter().any(|p| p.partition == partition)
    }

    fn is_complete(&self) -> bool {
        self.participants.iter().all(|p| !p.outstanding)
    }

    fn shares_partition(&self, other: &Active) -> bool {
        self.participants.iter().any(|p| other.takes_part(p.partition))
    }
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
    /// In order.
    active: VecDeque<Active>,
    /// Per partition: messages sent so far.
    sent: Vec<u64>,
    /// Per partition: aborts sent so far, which is the number of its run.
    runs: Vec<u64>,
}

impl<C> MultiPartitionInitiator<C> {
    /// The initiator over this many partitions.
    pub fn new(partition_count: u32, limits: MultiLimits) -> Self {
        MultiPartitionInitiator {
            clock: TransactionClock::new(PartitionId::MULTI),
            waiting: VecDeque::new(),
            limits,
            active: VecDeque::new(),
            sent: vec![0; partition_count as usize],
            runs: vec![0; partition_count as usize],
        }
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
        let alone = front.exclusive || self.active.back().is_some_and(|active| active.exclusive);
        if self.active.len() >= if alone { 1 } else { self.limits.active } {
            return None;
        }
        let Waiting { call, exclusive } = self.waiting.pop_front()?;
        let transaction = self.clock.next(now_ms);
        self.active.push_back(Active {
            transaction,
            participants: Vec::new(),
            round: 0,
            stage: Stage::Running,
            exclusive,
        });
        Some((call, transaction))
    }

    /// Names the partitions of the transaction that began last: it takes its place there, and
    /// nowhere else.
    pub fn enlist(&mut self, transaction: TransactionId, partitions: &[PartitionId]) {
        let last = self.active.back_mut().expect("a transaction has begun");
        assert_eq!(last.transaction, transaction, "the order is that of the beginnings");
        assert!(last.round == 0 && last.participants.is_empty(), "partitions are named once");
        assert!(!partitions.is_empty(), "a transaction runs somewhere");
        let runs = &self.runs;
        last.participants.extend(partitions.iter().map(|partition| Participant {
            partition: *partition,
            least_run: runs[partition.index()],
            outstanding: false,
            in_round: false,
        }));
    }

    /// The partitions of a transaction that are not among those it named.
    pub fn strangers(
        &self,
        transaction: TransactionId,
        partitions: &[PartitionId],
    ) -> Vec<PartitionId> {
        let active = self.get(transaction).expect("the transaction is under way");
        partitions.iter().copied().filter(|partition| !active.takes_part(*partition)).collect()
    }

    /// The partitions that a transaction named.
    pub fn participants(&self, transaction: TransactionId) -> Vec<PartitionId> {
        let active = self.get(transaction).expect("the transaction is under way");
        active.participants.iter().map(|participant| participant.partition).collect()
    }

    /// Begins a round at these partitions. In the first one every participant is addressed,
    /// for it takes its place there. Behind the `last` round comes only the decision. Returns the
    /// round's number and how to address each message.
    pub fn begin_round(
        &mut self,
        transaction: TransactionId,
        partitions: &[PartitionId],
        last: bool,
    ) -> (u32, Vec<Addressed>) {
        let active = self.active.iter_mut().find(|active| active.transaction == transaction);
        let active = active.expect("a round belongs to a transaction");
        assert!(active.is_complete(), "the round before is complete");
        assert_eq!(active.stage, Stage::Running, "no round follows the last one");
        let first = active.round == 0;
        active.round += 1;
        active.stage = if last { Stage::Last } else { Stage::Running };
        let mut addressed = Vec::with_capacity(partitions.len());
        for participant in &mut active.participants {
            participant.in_round = first || partitions.contains(&participant.partition);
            participant.outstanding = participant.in_round;
            if participant.in_round {
                addressed.push(participant.partition);
            }
        }
        let known = partitions.iter().all(|partition| addressed.contains(partition));
        assert!(known && !addressed.is_empty(), "a round runs at the transaction's partitions");
        let round = active.round;
        (round, self.address(&addressed))
    }

    /// A partition's answer to a round arrived, from the given run of the partition.
    pub fn answer(
        &mut self,
        transaction: TransactionId,
        round: u32,
        partition: PartitionId,
        run: u64,
    ) -> RoundProgress {
        let Some(active) = self.get_mut(transaction) else { return RoundProgress::Stale };
        if active.round != round || active.stage == Stage::Deciding {
            return RoundProgress::Stale;
        }
        match active.participant(partition) {
            Some(participant) if participant.outstanding && run >= participant.least_run => {
                participant.outstanding = false;
            }
            _ => return RoundProgress::Stale,
        }
        if active.is_complete() { RoundProgress::Complete } else { RoundProgress::Pending }
    }

    /// Whether a round that is not the last one is complete: it may go on.
    pub fn may_go_on(&self, transaction: TransactionId) -> bool {
        self.get(transaction).is_some_and(|a| a.stage == Stage::Running && a.is_complete())
    }

    /// The first transaction whose last round is complete and that no earlier one holds back.
    pub fn next_decidable(&self) -> Option<TransactionId> {
        let decidable = |(place, active): (usize, &Active)| {
            let ready = active.stage == Stage::Last && active.is_complete();
            let free =
                || self.active.iter().take(place).all(|earlier| !earlier.shares_partition(active));
            (ready && free()).then_some(active.transaction)
        };
        self.active.iter().enumerate().find_map(decidable)
    }

    /// The transaction is decided: who must hear it. With `acknowledged`, it is over only when
    /// every participant has said that it heard ([`Self::acknowledge`]).
    pub fn decide(
        &mut self,
        transaction: TransactionId,
        commit: bool,
        acknowledged: bool,
    ) -> Vec<Addressed> {
        let place = self.active.iter().position(|active| active.transaction == transaction);
        let place = place.expect("a decision belongs to a transaction");
        let active = &mut self.active[place];
        assert!(active.is_complete(), "all answers are in before the decision");
        let begun = active.round > 0;
        let participants: Vec<PartitionId> =
            active.participants.iter().map(|participant| participant.partition).collect();
        if acknowledged && begun {
            active.stage = Stage::Deciding;
            active.participants.iter_mut().for_each(|participant| participant.outstanding = true);
        } else {
            self.active.remove(place);
        }
        if !begun {
            return Vec::new();
        }
        if !commit {
            self.void_answers(place, &participants);
        }
        self.address(&participants)
    }

    /// An abort: what later transactions got from its partitions is void.
    fn void_answers(&mut self, from: usize, partitions: &[PartitionId]) {
        for partition in partitions {
            self.runs[partition.index()] += 1;
            let run = self.runs[partition.index()];
            for later in self.active.iter_mut().skip(from) {
                let void = later.stage != Stage::Deciding;
                if let Some(participant) = later.participant(*partition)
                    && void
                {
                    participant.least_run = run;
                    participant.outstanding = participant.in_round;
                }
            }
        }
    }

    /// A participant heard the decision.
    pub fn acknowledge(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
    ) -> RoundProgress {
        let Some(place) = self.active.iter().position(|a| a.transaction == transaction) else {
            return RoundProgress::Stale;
        };
        let active = &mut self.active[place];
        if active.stage != Stage::Deciding {
            return RoundProgress::Stale;
        }
        match active.participant(partition) {
            Some(participant) if participant.outstanding => participant.outstanding = false,
            _ => return RoundProgress::Stale,
        }
        if !active.is_complete() {
            return RoundProgress::Pending;
        }
        self.active.remove(place);
        RoundProgress::Complete
    }

    /// Number of calls that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Number of transactions under way.
    pub fn active_count(&self) -> usize {
        self.active.len()
    }

    /// True when nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    fn get(&self, transaction: TransactionId) -> Option<&Active> {
        self.active.iter().find(|active| active.transaction == transaction)
    }

    fn get_mut(&mut self, transaction: TransactionId) -> Option<&mut Active> {
        self.active.iter_mut().find(|active| active.transaction == transaction)
    }

    fn address(&mut self, partitions: &[PartitionId]) -> Vec<Addressed> {
        let address = |partition: &PartitionId| {
            let sent = &mut self.sent[partition.index()];
            *sent += 1;
            let run = self.runs[partition.index()];
            Addressed { partition: *partition, number: *sent, run }
        };
        partitions.iter().map(address).collect()
    }
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
        // The third ran behind the second at C, and that behind the first at B.
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
        assert_eq!(addressed, [Addressed { partition: A, number: 3, run: 1 }]);
        assert_eq!(initiator.next_decidable(), Some(third));
        // The answer that was under way when A took the abort is void.
        assert_eq!(initiator.answer(second, 1, A, 0), RoundProgress::Stale);
        assert_eq!(initiator.answer(second, 1, A, 1), RoundProgress::Complete);
        assert_eq!(initiator.next_decidable(), Some(second));
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
        let (name, schema) = initiator.begin_next(NOW).expect("nothing is under way");
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
        assert_eq!(initiator.strangers(transaction, &[A, B, C]), [B]);
        initiator.answer(transaction, 1, A, 0);
        initiator.answer(transaction, 1, C, 0);
        let (round, addressed) = initiator.begin_round(transaction, &[A], true);
        assert_eq!((round, addressed.len()), (2, 1));
        initiator.answer(transaction, 2, A, 0);
        assert_eq!(initiator.decide(transaction, true, false).len(), 2);
    }
}
