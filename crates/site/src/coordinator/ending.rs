//! How transactions end, in particular before their turn: a round that takes too long, a
//! coordinator that cannot go on.

use super::awaited::Awaits;
use super::{Coordinator, CoordinatorOutput, Finished, OneRoundFinished, numbered};
use crate::active::{Active, Queued, RowRouting, Submitted};
use crate::message::{MultiCall, MultiWork, ToPartition, Writers};
use crate::tables::write_modified;
use lockstep_txn::{Addressed, RoundProgress};
use lockstep_types::{Failure, Outcome, PartitionId, TransactionId};

impl<O, C: Clone> Coordinator<O, C> {
    /// Goes on where another coordinator ended: with the catalog in force, and with transaction
    /// ids after its last one.
    pub fn go_on_behind(&mut self, last: TransactionId, catalog_version: u64) {
        assert!(self.is_idle(), "a coordinator goes on before its first transaction");
        self.catalog_version = catalog_version;
        self.initiator.advance_past(last);
    }

    /// The version of the catalog in force.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// From now on what only a decision in the partitions' logs tells is answered when they have
    /// it: they tell so.
    pub fn await_durable_decisions(&mut self) {
        self.awaits_durable_decisions = true;
    }

    /// The outcome is known: everybody who took part hears it.
    pub(crate) fn decide(
        &mut self,
        transaction: TransactionId,
        outcome: Outcome,
        tables: Vec<u8>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let commit = outcome.failure.is_none();
        assert!(
            !commit || active.pending.is_empty(),
            "changes of index entries precede the commit"
        );
        if let (MultiWork::Schema(task), true) = (&active.call.work, commit) {
            // It is answered when it is in force everywhere, because the next call of the same
            // client may go to any partition. Of other transactions a partition that has not
            // heard the decision yet answers nobody, so nobody can see a state from before.
            self.catalog_version = task.catalog_version;
            let writers = active.unnamed_writers();
            self.outcomes.note(transaction, true, || writers);
            active.finished = Some((outcome, tables));
            let decision = Decision::of(commit, active);
            let addressed = self.initiator.decide(transaction, commit, true);
            let awaited = !addressed.is_empty();
            send_decision((transaction, &decision), true, addressed, outputs);
            if !awaited {
                self.answer(transaction, outputs);
            }
            return;
        }
        // Of one without votes only its commit in their logs says that it is committed. What is
        // undone although all may have said yes is undone only by the abort in a log.
        let awaits = match (commit, active.writers.is_empty()) {
            _ if !self.awaits_durable_decisions => Awaits::Nobody,
            (true, true) if !active.logged.is_empty() => Awaits::All,
            (false, false) => Awaits::OneOf(active.writers.to_vec()),
            _ => Awaits::Nobody,
        };
        let decision = Decision::of(commit, active);
        if let Decision::Commit(writers) = &decision {
            self.outcomes.note(transaction, true, || writers.clone());
        }
        active.finished = Some((outcome, tables));
        // What ran after it is void where it is undone, and it is until a log has its commit: so
        // nothing that ran after it is decided before.
        let holds_back = matches!(awaits, Awaits::All)
            && self.initiator.is_in_last_round(transaction)
            && !self.faults.decide_past_commits();
        let addressed = self.initiator.decide(transaction, commit, holds_back);
        let answer = self.finish(transaction);
        self.conclude((transaction, decision), addressed, awaits, answer, outputs);
    }

    /// The transaction is over; gives its answer.
    fn finish(&mut self, transaction: TransactionId) -> CoordinatorOutput<O, C> {
        let active = *self.active.remove(&transaction).expect("it is in progress");
        let (outcome, tables) = active.finished.expect("the outcome is known when all heard it");
        let (partition_count, rounds) = (active.partition_count, active.rounds);
        let ended = Ended { outcome, tables, partition_count, rounds };
        finished(active.call, ended, active.enlargements)
    }

    /// The fault of a vote that is not waited for: a partition that has not answered said yes.
    pub(super) fn pretend(&mut self, transaction: TransactionId) {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let round = active.rounds;
        for partition in self.initiator.participants(transaction) {
            let run = u64::MAX;
            if self.initiator.answer(transaction, round, partition, run) != RoundProgress::Stale {
                let mut counted = Vec::new();
                write_modified(&mut counted, 1);
                active.answers[partition.index()] = Some(Ok((vec![counted; 64], Vec::new())));
            }
        }
    }

    /// Time has passed: transactions that have taken longer than the limit are aborted. A
    /// partition that is still busy with its part stops at its next look at the time, and takes it
    /// back; the others are free at once. Schema changes take the time they need.
    pub fn expire(&mut self, now_us: i64, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        if self.transaction_limit_us == 0 {
            return;
        }
        let before_us = now_us.saturating_sub(self.transaction_limit_us);
        let limit_ms = self.transaction_limit_us / 1000;
        let why = || {
            format!(
                "no partition's command log had the decision within {limit_ms} ms (option \
                 transaction_timeout_ms)"
            )
        };
        self.expire_awaited(before_us, why, outputs);
        self.now_us = now_us;
        let is_late = |active: &Active<O, C>| {
            active.deadline_us.is_some_and(|deadline_us| deadline_us < now_us)
        };
        let late = self.active.iter().filter(|(_, active)| is_late(active)).map(|(id, _)| *id);
        let mut late: Vec<TransactionId> = late.chain(self.late_one_rounds(before_us)).collect();
        late.sort_unstable();
        for transaction in late.into_iter().rev() {
            let round = self.active.get(&transaction).map_or(1, |active| active.rounds);
            let missing: Vec<u32> = self
                .initiator
                .unanswered(transaction)
                .iter()
                .map(|partition| partition.0)
                .collect();
            let text = format!(
                "VOLTDB ERROR: SQL ERROR the transaction was not over after {} ms (option \
                 transaction_timeout_ms), in its round {round}; answers of partitions {missing:?} \
                 were missing, or decisions on earlier transactions. Everything is undone.",
                self.transaction_limit_us / 1000,
            );
            let failure = Failure::graceful(text);
            self.abandon(transaction, failure, outputs);
        }
        self.begin(now_us, outputs);
    }

    /// The coordinator cannot go on: everything that waits or is in progress and not decided fails
    /// with this reason, is undone everywhere, and its partitions are free. Of decisions that have
    /// waited for a partition's log since before a time, the outcome is not known.
    pub fn fail_all(
        &mut self,
        failure: &Failure,
        before_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let why = || "partitions that are to log the decision cannot be served".to_string();
        self.expire_awaited(before_us, why, outputs);
        let waiting = self.initiator.take_waiting();
        // From the last to the first: nothing runs again that is aborted next.
        for transaction in self.initiator.undecided().into_iter().rev() {
            self.abandon(transaction, failure.clone(), outputs);
        }
        outputs.extend(waiting.into_iter().map(|queued| failed_waiting(queued, failure)));
    }

    /// What is decided does not wait for these partitions, which cannot be served: they carry it
    /// out before they answer anybody.
    pub fn end_without(
        &mut self,
        partitions: &[PartitionId],
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        for partition in partitions {
            for transaction in self.initiator.unacknowledged_by(*partition) {
                self.note_heard(transaction, *partition, outputs);
            }
        }
    }

    /// A partition has heard a decision that holds back those after it.
    pub(super) fn note_heard(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        if self.initiator.acknowledge(transaction, partition) != RoundProgress::Complete {
            return;
        }
        // Of others than changes of the catalog the answer waits apart, for the logs.
        if self.active.contains_key(&transaction) {
            self.answer(transaction, outputs);
        }
        self.decide_all(outputs);
    }

    /// The transaction met partitions outside its set: it is undone, and ordered again with them.
    pub(super) fn order_again(
        &mut self,
        transaction: TransactionId,
        not_enlisted: Vec<PartitionId>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let mut needed = self.initiator.participants(transaction);
        needed.extend(not_enlisted);
        if self.faults.take_everyone() {
            needed = self.all_partitions();
        }
        let addressed = self.initiator.decide(transaction, false, false);
        send_decision((transaction, &Decision::Abort), false, addressed, outputs);
        let mut active = *self.active.remove(&transaction).expect("it is in progress");
        if active.row_routing == RowRouting::Found {
            active.call.home = None;
        }
        let enlargements = active.enlargements + 1;
        let begun_us = Some(active.begun_us);
        let submitted = Box::new(Submitted { call: active.call, needed, enlargements, begun_us });
        self.initiator.resubmit(Queued::Planned(submitted), false);
    }

    /// If the transaction has failed because the row that it was led to has moved before, it is
    /// undone, and ordered again to ask the index itself. The logs must say that it is undone, so
    /// the partition with the stale routing has to be among those that vote.
    pub(super) fn route_again(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) -> bool {
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        let home = active.call.home.map(|home| home.partition);
        let says_no = |writers: &[PartitionId]| {
            writers.is_empty() || home.is_some_and(|home| writers.contains(&home))
        };
        if active.row_routing != RowRouting::Stale || !says_no(&active.writers) {
            return false;
        }
        active.call.home = None;
        self.order_again(transaction, Vec::new(), outputs);
        true
    }

    /// The transaction is over, and is answered.
    pub(super) fn answer(
        &mut self,
        transaction: TransactionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let answer = self.finish(transaction);
        outputs.push(answer);
    }

    /// Aborts a transaction wherever it is in its rounds.
    pub(super) fn abandon(
        &mut self,
        transaction: TransactionId,
        failure: Failure,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        if self.one_rounds.contains(transaction) {
            return self.abandon_one_round(transaction, failure, outputs);
        }
        self.abandon_thread(transaction, &failure, outputs);
        let addressed = self.initiator.abandon(transaction);
        let active = self.active.get_mut(&transaction).expect("it is in progress");
        active.finished = Some((Outcome::failed(failure), Vec::new()));
        let awaits = match self.awaits_durable_decisions && !active.writers.is_empty() {
            true => Awaits::OneOf(active.writers.to_vec()),
            false => Awaits::Nobody,
        };
        let answer = self.finish(transaction);
        self.conclude((transaction, Decision::Abort), addressed, awaits, answer, outputs);
    }
}

/// How a call ended.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) tables: Vec<u8>,
    pub(super) partition_count: u32,
    pub(super) rounds: u32,
}

pub(super) fn finished<O, C>(
    call: MultiCall<O, C>,
    ended: Ended,
    enlargements: u32,
) -> CoordinatorOutput<O, C> {
    let parameter_bytes = match &call.work {
        MultiWork::Procedure { parameters, .. } => parameters.len(),
        _ => 0,
    };
    CoordinatorOutput::Finished(Box::new(Finished {
        is_schema: matches!(call.work, MultiWork::Schema(_)),
        origin: call.origin,
        outcome: ended.outcome,
        tables: ended.tables,
        parameter_bytes,
        partition_count: ended.partition_count,
        rounds: ended.rounds,
        enlargements,
    }))
}

/// A call ends that is in no transaction.
pub(super) fn failed_waiting<O, C>(
    queued: Queued<O, C>,
    failure: &Failure,
) -> CoordinatorOutput<O, C> {
    match queued {
        Queued::Planned(submitted) => {
            let outcome = Outcome::failed(failure.clone());
            let ended = Ended { outcome, tables: Vec::new(), partition_count: 0, rounds: 0 };
            finished(submitted.call, ended, submitted.enlargements)
        }
        Queued::OneRound(origin, call) => {
            let result = Err(Box::new(failure.clone()));
            CoordinatorOutput::OneRoundFinished(OneRoundFinished {
                origin,
                call,
                result,
                partition_count: 0,
                rounds: 0,
            })
        }
    }
}

/// What becomes of a transaction.
#[derive(Debug, Clone)]
pub(super) enum Decision {
    /// With the partitions that logged something of it, unless its last round named them.
    Commit(Option<Writers>),
    Abort,
}

impl Decision {
    pub(super) fn of<O, C>(commit: bool, active: &Active<O, C>) -> Decision {
        match commit {
            true => Decision::Commit(active.unnamed_writers()),
            false => Decision::Abort,
        }
    }
}

pub(super) fn send_decision<O, C>(
    (transaction, decision): (TransactionId, &Decision),
    acknowledge: bool,
    addressed: Vec<Addressed>,
    outputs: &mut Vec<CoordinatorOutput<O, C>>,
) {
    for address in addressed {
        let run = address.run;
        let memory = Vec::new();
        let (commit, writers) = match decision {
            Decision::Commit(writers) => (true, writers.clone()),
            Decision::Abort => (false, None),
        };
        let message =
            ToPartition::Decision { transaction, commit, run, acknowledge, writers, memory };
        outputs.push(CoordinatorOutput::Send(numbered(address, message)));
    }
}
