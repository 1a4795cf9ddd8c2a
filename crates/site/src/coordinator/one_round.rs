//! Calls of one round ([`OneRoundCall`]): the coordinator orders them, sends them on, and decides
//! when all have answered. It does not look into them or their answers.

use super::awaited::Awaits;
use super::ending::Decision;
use super::{Coordinator, CoordinatorOutput, numbered};
use crate::active::{Queued, over_limit};
use crate::message::{OneRoundAnswer, ToPartition};
use crate::one_round::OneRoundCall;
use crate::tables::write_modified;
use lockstep_txn::{Addressed, RoundProgress};
use lockstep_types::{Failure, PartitionId, TransactionId};
use std::sync::Arc;

/// The number of the only round.
const ROUND: u32 = 1;
/// Empty lists that are kept.
pub(super) const SPARE_LISTS: usize = 1024;

/// A transaction in progress.
pub(super) struct OneRound<O> {
    origin: O,
    call: Arc<OneRoundCall>,
    /// The answers so far. One that an abort made void gives way to the next.
    answers: Vec<Answer>,
    begun_us: i64,
}

/// An answer of a partition. The result comes first: moved as a whole, it is written and read by
/// the same steps, which a processor passes on without waiting.
#[repr(C)]
struct Answer {
    result: OneRoundAnswer,
    partition: PartitionId,
}

/// Empty lists, kept for their memory.
#[derive(Default)]
pub(super) struct Spare {
    answers: Vec<Vec<Answer>>,
    pub(super) addressed: Vec<Addressed>,
    pub(super) partitions: Vec<PartitionId>,
}

impl Spare {
    /// Whether the lists are empty, and at most `limit`.
    pub(super) fn is_within(&self, limit: usize) -> bool {
        let are_empty = self.answers.iter().all(Vec::is_empty)
            && self.addressed.is_empty()
            && self.partitions.is_empty();
        are_empty && self.answers.len() <= limit
    }
}

/// A call of one round that ended.
pub struct OneRoundFinished<O> {
    /// Who waits.
    pub origin: O,
    /// The call.
    pub call: Arc<OneRoundCall>,
    /// The answers of its partitions, one after the other
    /// ([`crate::OneRoundCalls::write_tables`]), or why it was undone.
    pub result: OneRoundAnswer,
    /// Partitions that it took part at; 0 when it ended without any.
    pub partition_count: u32,
    /// Its rounds: 1, or 0 when it never began.
    pub rounds: u32,
}

impl<O, C: Clone> Coordinator<O, C> {
    /// A call of one round arrives.
    ///
    /// # Errors
    /// Gives back who waits when too many do.
    pub fn submit_one_round(
        &mut self,
        origin: O,
        call: Arc<OneRoundCall>,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) -> Result<(), O> {
        self.now_us = now_us;
        match self.initiator.submit(Queued::OneRound(origin, call), false) {
            Err(Queued::OneRound(origin, _)) => return Err(origin),
            Err(Queued::Planned(_)) => unreachable!("what is refused is what was given"),
            Ok(()) => self.begin(now_us, outputs),
        }
        Ok(())
    }

    pub(super) fn begin_one_round(
        &mut self,
        transaction: TransactionId,
        origin: O,
        call: Arc<OneRoundCall>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        if call.catalog_version != self.catalog_version {
            let output = CoordinatorOutput::OneRoundStale(origin, call);
            return self.overtaken(transaction, output, outputs);
        }
        let everyone = if self.stop_everything { self.all_partitions() } else { Vec::new() };
        let participants = if self.stop_everything { &everyone[..] } else { call.participants() };
        let last = !self.stop_everything;
        self.initiator.enlist(transaction, participants);
        let addressed = &mut self.spare.addressed;
        let late = self.near.filter(|near| last && participants.contains(near));
        // All at once: to count who has the call is to wait for what other cores have to do with
        // this one's memory.
        let late_call = late.map(|_| Arc::clone(&call));
        let initiator = &mut self.initiator;
        let round = initiator.begin_round_into(transaction, participants, last, late, addressed);
        assert_eq!(round, ROUND, "there is one round");
        for address in addressed.drain(..) {
            let message = ToPartition::OneRound { transaction, last, call: Arc::clone(&call) };
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
        let answers = self.spare.answers.pop().unwrap_or_default();
        let begun_us = self.now_us;
        self.one_rounds.push(transaction, OneRound { origin, call, answers, begun_us });
        if let Some(call) = late_call {
            self.late.push_back((transaction, call));
            self.send_ready_late(outputs);
        }
    }

    /// From now on this partition, which is on the coordinator's own thread, gets its part of a
    /// call of one round when the other partitions have answered theirs: then nothing that it
    /// runs has to be kept until a decision. Until then it runs calls that come before the
    /// transaction. Whether anybody is kept waiting by this only the surroundings know
    /// ([`Coordinator::send_late`]).
    pub fn serve_last(&mut self, near: PartitionId) {
        assert!(self.is_idle(), "it is said before the first transaction");
        self.near = Some(near);
    }

    /// Whether a partition's part of a call is held back.
    #[inline]
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Sends what is held back now, answered by the others or not.
    pub fn send_late(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        let Some(near) = self.near else { return };
        while let Some((transaction, call)) = self.late.pop_front() {
            let address = self.initiator.address_late(transaction, near);
            self.send_one_late(transaction, call, address, outputs);
        }
    }

    /// Sends what is held back and need not be any longer. In the order of the transactions: one
    /// waits for all before it.
    pub(super) fn send_ready_late(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        let Some(near) = self.near else { return };
        while let Some((front, _)) = self.late.front()
            && let Some(address) = self.initiator.address_ready_late(*front, near)
            && let Some((transaction, call)) = self.late.pop_front()
        {
            self.send_one_late(transaction, call, address, outputs);
        }
    }

    fn send_one_late(
        &mut self,
        transaction: TransactionId,
        call: Arc<OneRoundCall>,
        address: Addressed,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        debug_assert!(self.one_rounds.contains(transaction), "a call that ended has no part left");
        let message = ToPartition::OneRound { transaction, last: true, call };
        outputs.push(CoordinatorOutput::Send(numbered(address, message)));
    }

    pub(super) fn one_round_answered(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
        run: u64,
        result: OneRoundAnswer,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let run = if self.faults.keep_void_answers() { u64::MAX } else { run };
        let progress = self.initiator.answer(transaction, ROUND, partition, run);
        if progress == RoundProgress::Stale {
            return;
        }
        let in_progress = self.one_rounds.get_mut(transaction).expect("it is in progress");
        in_progress.take(partition, result);
        // Only the answer that the first one lacks lets any be sent.
        if self.late.front().is_some_and(|(front, _)| *front == transaction) {
            self.send_ready_late(outputs);
        }
        if self.faults.drop_vote() && progress == RoundProgress::Pending {
            self.send_late(outputs);
            self.pretend_one_round(transaction);
        }
        // With nothing speculating, no round is said to be the last.
        if self.stop_everything
            && self.initiator.may_go_on(transaction)
            && let Some(ended) = self.one_rounds.remove(transaction)
        {
            self.decide_one_round(transaction, ended, outputs);
        }
        self.decide_all(outputs);
    }

    /// See [`Coordinator::pretend`].
    fn pretend_one_round(&mut self, transaction: TransactionId) {
        for partition in self.initiator.participants(transaction) {
            let run = u64::MAX;
            if self.initiator.answer(transaction, ROUND, partition, run) != RoundProgress::Stale {
                let in_progress = self.one_rounds.get_mut(transaction).expect("it is in progress");
                let mut tables = Vec::new();
                (0..in_progress.call.tables_of(partition))
                    .for_each(|_| write_modified(&mut tables, 1));
                in_progress.take(partition, Ok(tables));
            }
        }
    }

    /// All have answered, and no earlier transaction is undecided where it took part.
    pub(super) fn decide_one_round(
        &mut self,
        transaction: TransactionId,
        mut ended: OneRound<O>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let last = !self.stop_everything;
        let result = ended.result(self.limits.result_bytes);
        let commit = result.is_ok();
        if commit {
            self.outcomes.note(transaction, true, || None);
        }
        let awaits_one = self.awaits_durable_decisions && ended.is_known_by_decision(commit, last);
        let addressed = &mut self.spare.addressed;
        self.initiator.decide_into(transaction, commit, false, addressed);
        let partition_count = addressed.len() as u32;
        for address in addressed.drain(..) {
            let memory = ended.memory_of(address.partition);
            let (run, acknowledge) = (address.run, awaits_one);
            let message = ToPartition::Decision {
                transaction,
                commit,
                run,
                acknowledge,
                writers: None,
                memory,
            };
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
        let OneRound { origin, call, mut answers, .. } = ended;
        let awaited = match awaits_one {
            true => (call.writers().to_vec(), 1),
            false => (Vec::new(), 0),
        };
        let finished = OneRoundFinished { origin, call, result, partition_count, rounds: ROUND };
        let answer = CoordinatorOutput::OneRoundFinished(finished);
        self.keep_answer(transaction, awaited, answer, outputs);
        answers.clear();
        if self.spare.answers.len() < SPARE_LISTS {
            self.spare.answers.push(answers);
        }
    }

    /// Those that began before a time.
    pub(super) fn late_one_rounds(&self, before_us: i64) -> impl Iterator<Item = TransactionId> {
        let late = self.one_rounds.iter().filter(move |(_, call)| call.begun_us < before_us);
        late.map(|(transaction, _)| transaction)
    }

    /// See [`Coordinator::abandon`].
    pub(super) fn abandon_one_round(
        &mut self,
        transaction: TransactionId,
        failure: Failure,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let addressed = self.initiator.abandon(transaction);
        self.late.retain(|(late, _)| *late != transaction);
        self.send_ready_late(outputs);
        let partition_count = addressed.len() as u32;
        let OneRound { origin, call, .. } =
            self.one_rounds.remove(transaction).expect("it is in progress");
        let voters = voters(&call, &addressed);
        let awaits = match self.awaits_durable_decisions && !voters.is_empty() {
            true => Awaits::OneOf(voters.to_vec()),
            false => Awaits::Nobody,
        };
        let result = Err(Box::new(failure));
        let finished = OneRoundFinished { origin, call, result, partition_count, rounds: ROUND };
        let answer = CoordinatorOutput::OneRoundFinished(finished);
        self.conclude((transaction, Decision::Abort), addressed, awaits, answer, outputs);
    }
}

/// The partitions that may all have said yes to a call that was sent to these. One that writes and
/// was not sent its part has not said yes: nothing can be committed, and it never hears of the
/// abort.
pub(super) fn voters<'a>(call: &'a OneRoundCall, addressed: &[Addressed]) -> &'a [PartitionId] {
    let heard = |writer: &PartitionId| addressed.iter().any(|at| at.partition == *writer);
    match call.writers().iter().all(heard) {
        true => call.writers(),
        false => &[],
    }
}

impl<O> OneRound<O> {
    /// Who waits, and for what.
    pub(super) fn into_call(self) -> (O, Arc<OneRoundCall>) {
        (self.origin, self.call)
    }

    /// Whether the call writes at a partition.
    pub(super) fn writes_at(&self, partition: PartitionId) -> bool {
        self.call.writers().contains(&partition)
    }

    /// Checks what holds between two events; `participants` are those that were ordered.
    pub(super) fn check_invariants(&self, participants: &[PartitionId]) {
        let takes_part = |partition: &PartitionId| participants.contains(partition);
        assert!(self.call.participants().iter().all(takes_part), "its partitions are ordered");
        assert!(self.call.writers().iter().all(takes_part), "who writes takes part");
        assert!(self.answers.len() <= participants.len(), "a participant has one answer");
        for (number, Answer { partition, .. }) in self.answers.iter().enumerate() {
            assert!(takes_part(partition), "only participants answer");
            let others = &self.answers[number + 1..];
            assert!(others.iter().all(|other| other.partition != *partition), "one answer each");
        }
    }

    fn take(&mut self, partition: PartitionId, result: OneRoundAnswer) {
        match self.answers.iter_mut().find(|answer| answer.partition == partition) {
            Some(answer) => answer.result = result,
            None => self.answers.push(Answer { result, partition }),
        }
    }

    /// Whether how the call ended is known by the decision in a log only: it is undone although all
    /// that write have said yes, or committed without their votes.
    fn is_known_by_decision(&self, commit: bool, voted: bool) -> bool {
        let writers = self.call.writers();
        let said_no =
            |answer: &Answer| answer.result.is_err() && writers.contains(&answer.partition);
        match commit {
            _ if writers.is_empty() => false,
            true => !voted,
            false => voted && !self.answers.iter().any(said_no),
        }
    }

    /// The answers one after the other, in memory of the first, or the failure: that of the
    /// lowest partition, those of statements before those of index entries.
    fn result(&mut self, limit_bytes: usize) -> OneRoundAnswer {
        let mut failure: Option<(bool, PartitionId, &Failure)> = None;
        let mut bytes = 0;
        for Answer { partition, result } in &self.answers {
            match result {
                Ok(tables) => bytes += tables.len(),
                Err(error) => {
                    let only_entries = !self.call.runs_statements(*partition);
                    let (place, this) = ((only_entries, *partition), &**error);
                    if failure.is_none_or(|(entries, before, _)| place < (entries, before)) {
                        failure = Some((only_entries, *partition, this));
                    }
                }
            }
        }
        if let Some((_, _, failure)) = failure {
            return Err(Box::new(failure.clone()));
        }
        if let Some(failure) = over_limit(bytes, limit_bytes) {
            return Err(Box::new(failure));
        }
        let mut order = self.call.answer_order();
        let mut joined =
            order.next().map(|at| take_tables(&mut self.answers, at)).unwrap_or_default();
        for partition in order {
            let answer = self.answers.iter().find(|answer| answer.partition == partition);
            if let Some(Answer { result: Ok(tables), .. }) = answer {
                joined.extend_from_slice(tables);
            }
        }
        Ok(joined)
    }

    /// What is left of a partition's answer: it gets the memory back.
    fn memory_of(&mut self, partition: PartitionId) -> Vec<u8> {
        let mut memory = take_tables(&mut self.answers, partition);
        memory.clear();
        memory
    }
}

/// The tables of a partition's answer, which loses them; nothing of a failure.
fn take_tables(answers: &mut [Answer], partition: PartitionId) -> Vec<u8> {
    let answer = answers.iter_mut().find(|answer| answer.partition == partition);
    let tables = answer.and_then(|answer| answer.result.as_mut().ok());
    tables.map(std::mem::take).unwrap_or_default()
}
