//! The initiator of one partition: gives its calls their ids and times, and keeps the order between
//! them and the fragments of multi-partition transactions.
//!
//! A partition is in one of three states:
//!
//! * *free*: calls run and are answered at once;
//! * *stopped* by a multi-partition transaction whose last fragment here has not come: whatever
//!   arrives waits;
//! * *speculating* after transactions whose last fragment has run here and whose decision has
//!   not come: calls and last fragments run, their answers are kept. A commit lets the answers up
//!   to the next undecided transaction go; an abort undoes everything after it, to run again
//!   in the same order.
//!
//! A fragment that is not the last of its transaction here runs only on decided state, because
//! its coordinator acts on what it reads.

use crate::clock::TransactionClock;
use crate::log_entry::EntryHeader;
use lockstep_types::{PartitionId, TransactionId};
use std::collections::VecDeque;

mod fence;
mod invariants;
mod settled;

/// Limits of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Calls that wait.
    pub held_calls: usize,
    /// Calls and fragments that run speculatively; 0 to hold everything until the decision.
    pub speculative_calls: usize,
    /// Bytes of answers that are kept until a decision.
    pub speculative_bytes: usize,
}

/// Orders the calls of one partition. `H` is what the caller needs to run a call that waited, `A`
/// an answer that is kept, `F` the work of a fragment, `M` a point to go back to.
#[derive(Debug)]
pub struct SinglePartitionInitiator<H, A, F, M> {
    clock: TransactionClock,
    limits: PartitionLimits,
    pending: VecDeque<Pending<H, F>>,
    pending_calls: usize,
    /// What ran and is not safe, in order: the first is always a multi-partition transaction.
    speculated: VecDeque<Speculated<H, A, F, M>>,
    speculated_bytes: usize,
    /// The transaction that has stopped this partition, and where it began.
    stopped: Option<(TransactionId, M)>,
    /// Number of aborts that were carried out.
    run: u64,
}

#[derive(Debug)]
enum Pending<H, F> {
    /// With its id and time if it ran before.
    Call(H, Option<EntryHeader>, Turn),
    Fragments(Fragments<F>),
}

/// When a call that waits may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Also after an undecided transaction.
    Any,
    /// When all before it is decided: it cannot run again.
    Decided,
}

#[derive(Debug)]
enum Speculated<H, A, F, M> {
    Call { call: H, header: EntryHeader, answer: A, bytes: usize },
    Fragments { fragments: Fragments<F>, mark: M },
}

/// The fragments of one round of a multi-partition transaction for this partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragments<F> {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its round.
    pub round: u32,
    /// No further round comes.
    pub last: bool,
    /// Its id and time, from when it runs for the first time.
    pub header: Option<EntryHeader>,
    /// What to do.
    pub work: F,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It runs now, under this id, and is answered.
    Run(EntryHeader),
    /// It runs now; its answer is kept ([`SinglePartitionInitiator::keep`]).
    Speculate(EntryHeader),
    /// It waits.
    Hold,
}

/// What is to run next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<H, F> {
    /// A call that waited.
    Call(H, EntryHeader),
    /// A call that waited; its answer is kept.
    Speculate(H, EntryHeader),
    /// Fragments: to be given back with the point before them
    /// ([`SinglePartitionInitiator::ran_fragments`]).
    Fragments(Fragments<F>, EntryHeader),
}

impl<H, A, F, M: Copy> SinglePartitionInitiator<H, A, F, M> {
    /// The initiator of a partition.
    pub fn new(partition: PartitionId, limits: PartitionLimits) -> Self {
        SinglePartitionInitiator {
            clock: TransactionClock::new(partition),
            limits,
            pending: VecDeque::new(),
            pending_calls: 0,
            speculated: VecDeque::new(),
            speculated_bytes: 0,
            stopped: None,
            run: 0,
        }
    }

    /// New ids are greater than this one.
    pub fn advance_past(&mut self, last: TransactionId) {
        self.clock.advance_past(last);
    }

    /// The id that was given last: new ids are greater.
    pub fn last_id(&self) -> TransactionId {
        self.clock.last()
    }

    /// A call wants to run.
    #[inline]
    pub fn admit(&mut self, now_ms: i64) -> Admission {
        debug_assert!(
            self.stopped.is_none() || self.speculated.is_empty(),
            "a partition stops on decided state only"
        );
        // What waits was there before: it goes first, also when the partition is free again.
        if self.stopped.is_some() || !self.pending.is_empty() {
            return Admission::Hold;
        }
        if self.speculated.is_empty() {
            return Admission::Run(self.next_entry(now_ms));
        }
        match self.may_speculate() {
            true => Admission::Speculate(self.next_entry(now_ms)),
            false => Admission::Hold,
        }
    }

    /// Gives an id to what runs no statement, and so need not wait: an entry about the log itself.
    pub fn order_apart(&mut self, now_ms: i64) -> EntryHeader {
        self.next_entry(now_ms)
    }

    /// Queues a call that has to wait.
    ///
    /// # Errors
    /// Gives the call back when as many as the limit wait; it is to be refused.
    pub fn hold(&mut self, call: H) -> Result<(), H> {
        if self.pending_calls >= self.limits.held_calls {
            return Err(call);
        }
        self.pending_calls += 1;
        self.pending.push_back(Pending::Call(call, None, Turn::Any));
        Ok(())
    }

    /// Keeps a call that was to run after something undecided and must not: it is the first to
    /// run when all is decided.
    ///
    /// # Errors
    /// As for [`SinglePartitionInitiator::hold`].
    pub fn hold_until_decided(&mut self, call: H) -> Result<(), H> {
        if self.pending_calls >= self.limits.held_calls {
            return Err(call);
        }
        assert!(!self.speculated.is_empty(), "a call waits for decisions that are due");
        self.pending_calls += 1;
        self.pending.push_front(Pending::Call(call, None, Turn::Decided));
        Ok(())
    }

    /// Fragments arrived, in the order of the coordinator's stream.
    pub fn arrive(&mut self, fragments: Fragments<F>) {
        let transaction = fragments.transaction;
        debug_assert_eq!(
            transaction.partition(),
            PartitionId::MULTI,
            "the coordinator orders them"
        );
        debug_assert!(fragments.header.is_none(), "what arrives has not run here");
        let goes_on = self.stopped.as_ref().is_some_and(|(by, _)| *by == transaction);
        debug_assert!(
            goes_on || self.last_known().is_none_or(|last| last < transaction),
            "transactions arrive in the order of their ids"
        );
        match goes_on {
            // The partition has stopped for it.
            true => self.pending.push_front(Pending::Fragments(fragments)),
            false => self.pending.push_back(Pending::Fragments(fragments)),
        }
    }

    /// What is to run next, of what waits; the caller runs it before it asks again.
    pub fn next(&mut self, now_ms: i64) -> Option<Next<H, F>> {
        let free = self.speculated.is_empty();
        let runs = match (self.pending.front()?, &self.stopped) {
            (Pending::Fragments(next), Some((by, _))) => next.transaction == *by,
            (Pending::Call(..), Some(_)) => false,
            (Pending::Call(_, _, Turn::Decided), None) => free,
            (Pending::Fragments(next), None) if !next.last => free,
            _ => free || self.may_speculate(),
        };
        if !runs {
            return None;
        }
        match self.pending.pop_front()? {
            Pending::Call(call, header, _) => {
                self.pending_calls -= 1;
                let header = match header {
                    Some(header) => EntryHeader { repeated: true, ..header },
                    None => self.next_entry(now_ms),
                };
                Some(if free { Next::Call(call, header) } else { Next::Speculate(call, header) })
            }
            Pending::Fragments(mut fragments) => {
                let header = match fragments.header {
                    Some(header) => EntryHeader { repeated: true, ..header },
                    None => first_entry(fragments.transaction),
                };
                fragments.header = Some(header);
                Some(Next::Fragments(fragments, header))
            }
        }
    }

    /// Buffers the response of a call that ran speculatively, of `bytes` bytes.
    pub fn keep(&mut self, call: H, header: EntryHeader, answer: A, bytes: usize) {
        assert!(!self.speculated.is_empty(), "answers are kept after an undecided transaction");
        debug_assert!(self.stopped.is_none(), "no call runs while the partition is stopped");
        self.speculated_bytes += bytes;
        self.speculated.push_back(Speculated::Call { call, header, answer, bytes });
    }

    /// Fragments that [`SinglePartitionInitiator::next`] gave have run; `mark` is the point
    /// before them.
    pub fn ran_fragments(&mut self, fragments: Fragments<F>, mark: M) {
        debug_assert!(fragments.header.is_some(), "what ran has an id and a time");
        let begun = self.stopped.take();
        assert!(
            begun.as_ref().is_none_or(|(by, _)| *by == fragments.transaction),
            "a stopped partition runs only what it stopped for"
        );
        let mark = begun.map_or(mark, |(_, begun)| begun);
        match fragments.last {
            true => self.speculated.push_back(Speculated::Fragments { fragments, mark }),
            false => {
                assert!(self.speculated.is_empty(), "the coordinator acts on decided state only");
                self.stopped = Some((fragments.transaction, mark));
            }
        }
    }

    /// The transaction is committed. Everything up to the next undecided one is safe: its answers
    /// are to be taken ([`SinglePartitionInitiator::release`]) until there is none. Gives what it
    /// did here last, if others may have it too: of a transaction in several rounds nothing is
    /// left.
    pub fn commit(&mut self, transaction: TransactionId) -> Option<F> {
        self.take_decided(transaction)
    }

    /// The next answer that is safe, in order, with its call. They are taken one by one, because
    /// many may have been kept and moving them into a list of their own costs as much as they do.
    pub fn release(&mut self) -> Option<(H, A)> {
        if !matches!(self.speculated.front(), Some(Speculated::Call { .. })) {
            return None;
        }
        match self.speculated.pop_front() {
            Some(Speculated::Call { call, answer, bytes, .. }) => {
                self.speculated_bytes -= bytes;
                Some((call, answer))
            }
            _ => unreachable!("it was looked at"),
        }
    }

    /// Where what is safe ends, once all safe answers are taken; `None`: everything is safe.
    pub fn safe_to(&self) -> Option<M> {
        match self.speculated.front()? {
            Speculated::Fragments { mark, .. } => Some(*mark),
            Speculated::Call { .. } => panic!("safe answers are taken before this is asked"),
        }
    }

    /// The transaction is aborted: everything since the point that is returned is to be taken
    /// back; nothing when it has not run here. What ran after it waits to run again; `run` is
    /// the number of that run. Unlike a commit, an abort may come before the decisions on earlier
    /// transactions, and before what is aborted has run.
    pub fn abort(&mut self, transaction: TransactionId, run: u64) -> Option<M> {
        assert!(run > self.run, "each abort begins a run");
        self.run = run;
        self.pending.retain(
            |pending| !matches!(pending, Pending::Fragments(f) if f.transaction == transaction),
        );
        if let Some((by, mark)) = self.stopped {
            // What runs after the one that stops the partition has not run.
            if by == transaction {
                self.stopped = None;
                return Some(mark);
            }
            return None;
        }
        let is_it = |ran: &Speculated<H, A, F, M>| {
            matches!(
                ran, Speculated::Fragments { fragments, .. } if fragments.transaction == transaction
            )
        };
        let place = self.speculated.iter().position(is_it)?;
        while self.speculated.len() > place + 1 {
            self.pending.push_front(match self.speculated.pop_back()? {
                Speculated::Call { call, header, bytes, .. } => {
                    self.pending_calls += 1;
                    self.speculated_bytes -= bytes;
                    Pending::Call(call, Some(header), Turn::Any)
                }
                Speculated::Fragments { fragments, .. } => Pending::Fragments(fragments),
            });
        }
        match self.speculated.pop_back() {
            Some(Speculated::Fragments { mark, .. }) => Some(mark),
            _ => unreachable!("it was found here"),
        }
    }

    /// Takes the transaction off; decisions come in the order in which the partition ran.
    fn take_decided(&mut self, transaction: TransactionId) -> Option<F> {
        if let Some((by, _)) = self.stopped.take() {
            assert_eq!(by, transaction, "a decision on what was never begun");
            return None;
        }
        match self.speculated.pop_front() {
            Some(Speculated::Fragments { fragments, .. })
                if fragments.transaction == transaction =>
            {
                Some(fragments.work)
            }
            _ => panic!("the decision on {transaction:?} is not the next that is due here"),
        }
    }

    /// The number of the partition's run: how many aborts it has carried out.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// True when nothing is undecided here.
    pub fn is_decided(&self) -> bool {
        self.stopped.is_none() && self.speculated.is_empty()
    }

    /// True when nothing is undecided here and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.is_decided() && self.pending.is_empty()
    }

    /// Number of calls and fragments that wait.
    pub fn waiting_count(&self) -> usize {
        self.pending.len()
    }

    /// Number of calls that wait.
    pub fn held_count(&self) -> usize {
        self.pending_calls
    }

    fn may_speculate(&self) -> bool {
        self.speculated.len() < self.limits.speculative_calls
            && self.speculated_bytes < self.limits.speculative_bytes
    }

    #[inline]
    fn next_entry(&mut self, now_ms: i64) -> EntryHeader {
        first_entry(self.clock.next(now_ms))
    }
}

/// The header of what runs for the first time: its time is that of its transaction's id.
#[inline]
pub fn first_entry(transaction: TransactionId) -> EntryHeader {
    EntryHeader { transaction, timestamp_us: transaction.time_ms() * 1000, repeated: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const LIMITS: PartitionLimits =
        PartitionLimits { held_calls: 2, speculative_calls: 4, speculative_bytes: 100 };

    type Initiator = SinglePartitionInitiator<char, char, &'static str, u32>;

    fn initiator(limits: PartitionLimits) -> Initiator {
        SinglePartitionInitiator::new(PartitionId(1), limits)
    }

    fn multi(counter: u32) -> TransactionId {
        TransactionId::new(NOW, counter, PartitionId::MULTI)
    }

    fn arrive(initiator: &mut Initiator, transaction: TransactionId, round: u32, last: bool) {
        initiator.arrive(Fragments { transaction, round, last, header: None, work: "work" });
    }

    /// Runs what is due; `mark` stands for the point before it.
    fn run_fragments(initiator: &mut Initiator, mark: u32) -> EntryHeader {
        match initiator.next(NOW) {
            Some(Next::Fragments(fragments, header)) => {
                initiator.ran_fragments(fragments, mark);
                header
            }
            other => panic!("fragments were due, not {other:?}"),
        }
    }

    /// The answers that a commit lets go, and where what is safe ends.
    fn commit(
        initiator: &mut Initiator,
        transaction: TransactionId,
    ) -> (Vec<(char, char)>, Option<u32>) {
        initiator.commit(transaction);
        (std::iter::from_fn(|| initiator.release()).collect(), initiator.safe_to())
    }

    fn speculate(initiator: &mut Initiator, call: char) -> EntryHeader {
        let Admission::Speculate(header) = initiator.admit(NOW) else { panic!("it speculates") };
        initiator.keep(call, header, call.to_ascii_uppercase(), 10);
        header
    }

    #[test]
    fn calls_wait_while_rounds_are_to_come_and_keep_their_order() {
        let mut initiator = initiator(LIMITS);
        let Admission::Run(first) = initiator.admit(NOW) else { panic!("the partition is free") };
        assert!(!first.repeated);
        arrive(&mut initiator, multi(0), 1, false);
        assert_eq!(run_fragments(&mut initiator, 5), first_entry(multi(0)));
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert_eq!(initiator.hold('a'), Ok(()));
        assert_eq!(initiator.hold('b'), Ok(()));
        assert_eq!(initiator.hold('c'), Err('c'));
        // Another transaction waits after the calls; the next round of the first does not.
        arrive(&mut initiator, multi(1), 1, true);
        assert_eq!(initiator.next(NOW), None);
        arrive(&mut initiator, multi(0), 2, false);
        run_fragments(&mut initiator, 6);
        assert_eq!(commit(&mut initiator, multi(0)), (vec![], None));
        // A newcomer must not overtake what waits.
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert!(matches!(initiator.next(NOW), Some(Next::Call('a', _))));
        assert!(matches!(initiator.next(NOW), Some(Next::Call('b', _))));
        run_fragments(&mut initiator, 8);
        assert!(matches!(initiator.admit(NOW), Admission::Speculate(_)));
    }

    #[test]
    fn a_call_that_cannot_run_again_waits_until_all_is_decided() {
        let mut initiator = initiator(LIMITS);
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 5);
        speculate(&mut initiator, 'a');
        assert!(matches!(initiator.admit(NOW), Admission::Speculate(_)));
        assert_eq!(initiator.hold_until_decided('b'), Ok(()));
        assert_eq!(initiator.next(NOW), None);
        // What follows it stays after it.
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert_eq!(initiator.hold('c'), Ok(()));
        assert_eq!(initiator.hold_until_decided('d'), Err('d'));
        arrive(&mut initiator, multi(1), 1, true);
        assert_eq!(initiator.next(NOW), None);
        // What ran before it runs again before it.
        initiator.abort(multi(0), 1);
        assert!(matches!(initiator.next(NOW), Some(Next::Call('a', _))));
        assert!(matches!(initiator.next(NOW), Some(Next::Call('b', header)) if !header.repeated));
        assert!(matches!(initiator.next(NOW), Some(Next::Call('c', _))));
        run_fragments(&mut initiator, 6);
    }

    #[test]
    fn a_commit_lets_answers_go_up_to_the_next_undecided_transaction() {
        let mut initiator = initiator(LIMITS);
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 10);
        speculate(&mut initiator, 'a');
        arrive(&mut initiator, multi(1), 1, true);
        run_fragments(&mut initiator, 20);
        speculate(&mut initiator, 'b');
        // Four are kept already.
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        let released = commit(&mut initiator, multi(0));
        assert_eq!(released, (vec![('a', 'A')], Some(20)));
        let released = commit(&mut initiator, multi(1));
        assert_eq!(released, (vec![('b', 'B')], None));
        assert!(initiator.is_idle());
    }

    #[test]
    fn an_abort_runs_everything_behind_it_again_under_its_id() {
        let mut initiator = initiator(LIMITS);
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 10);
        let a = speculate(&mut initiator, 'a');
        arrive(&mut initiator, multi(1), 1, true);
        let fragments = run_fragments(&mut initiator, 20);
        let b = speculate(&mut initiator, 'b');
        assert_eq!(initiator.abort(multi(0), 1), Some(10));
        assert_eq!(initiator.run(), 1);
        let again = |header| EntryHeader { repeated: true, ..header };
        assert_eq!(initiator.next(NOW), Some(Next::Call('a', again(a))));
        assert_eq!(run_fragments(&mut initiator, 11), again(fragments));
        assert_eq!(initiator.next(NOW), Some(Next::Speculate('b', again(b))));
    }

    #[test]
    fn an_abort_may_come_before_what_it_aborts_has_run_and_before_earlier_decisions() {
        let mut initiator = initiator(LIMITS);
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 10);
        speculate(&mut initiator, 'a');
        arrive(&mut initiator, multi(1), 1, true);
        run_fragments(&mut initiator, 20);
        let b = speculate(&mut initiator, 'b');
        // Waits for decided state.
        arrive(&mut initiator, multi(2), 1, false);
        assert_eq!(initiator.next(NOW), None);
        assert_eq!(initiator.abort(multi(2), 1), None);
        assert_eq!(initiator.abort(multi(1), 2), Some(20));
        let b = EntryHeader { repeated: true, ..b };
        assert_eq!(initiator.next(NOW), Some(Next::Speculate('b', b)));
        initiator.keep('b', b, 'B', 10);
        let (answers, _) = commit(&mut initiator, multi(0));
        assert_eq!(answers, [('a', 'A'), ('b', 'B')]);
        assert!(initiator.is_idle());
    }

    #[test]
    fn what_is_not_the_last_round_runs_on_decided_state() {
        let mut initiator = initiator(LIMITS);
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 10);
        arrive(&mut initiator, multi(1), 1, false);
        assert_eq!(initiator.next(NOW), None);
        initiator.commit(multi(0));
        run_fragments(&mut initiator, 20);
        assert_eq!(initiator.abort(multi(1), 1), Some(20));
    }

    #[test]
    fn without_speculation_everything_waits_for_the_decision() {
        let mut initiator = initiator(PartitionLimits { speculative_calls: 0, ..LIMITS });
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 10);
        assert_eq!(initiator.admit(NOW), Admission::Hold);
        assert_eq!(initiator.hold('a'), Ok(()));
        assert_eq!(initiator.next(NOW), None);
        initiator.commit(multi(0));
        assert!(matches!(initiator.next(NOW), Some(Next::Call('a', _))));
    }

    #[test]
    #[should_panic(expected = "is not the next that is due here")]
    fn a_decision_out_of_order_stops_the_host() {
        let mut initiator = initiator(LIMITS);
        arrive(&mut initiator, multi(0), 1, true);
        run_fragments(&mut initiator, 10);
        initiator.commit(multi(1));
    }
}
