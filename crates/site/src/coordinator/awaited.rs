//! Answers that wait until a log says what was decided.
//!
//! Where every participant that writes has said yes, the logs alone tell a commit: recovery makes
//! it so, whatever the coordinator had in mind. So a failure reported to a client needs an abort in
//! the log of one that writes, and a commit that nobody voted on needs the commits. Partitions
//! acknowledge such a decision, and their acknowledgements wait until it is durable there.
//!
//! A transaction that is undone is over at once: those after it run again, and say yes after the
//! abort in each log. A commit without votes holds back the decisions on those that ran after it:
//! as long as no log has it, another coordinator undoes it, and what ran after it.

use super::ending::{Decision, failed_waiting, send_decision};
use super::{Coordinator, CoordinatorOutput};
use crate::active::Queued;
use lockstep_txn::Addressed;
use lockstep_types::{Failure, Outcome, PartitionId, Status, TransactionId};

/// What waits for acknowledgements.
enum Held<O, C> {
    Answer(CoordinatorOutput<O, C>),
    /// The call is ordered again when it is certain that it is undone. Before that the logs may
    /// have it as committed, and it would run twice.
    Repetition(Queued<O, C>),
}

/// An answer, or a call, that waits for acknowledgements.
pub(super) struct AwaitedAnswer<O, C> {
    held: Held<O, C>,
    /// Whose acknowledgement counts and has not come.
    from: Vec<PartitionId>,
    /// How many of them are enough.
    needed: usize,
    since_us: i64,
}

impl<O, C> AwaitedAnswer<O, C> {
    /// Whether a partition is one of those that can acknowledge.
    pub(super) fn awaits(&self, partition: PartitionId) -> bool {
        self.from.contains(&partition)
    }

    /// Whether it is a call that is ordered again.
    pub(super) fn is_repetition(&self) -> bool {
        matches!(self.held, Held::Repetition(_))
    }

    /// Whether as many can still acknowledge as are needed, which are some.
    pub(super) fn can_come(&self) -> bool {
        (1..=self.from.len()).contains(&self.needed)
    }
}

/// Whose acknowledgements an answer waits for.
pub(super) enum Awaits {
    /// It goes at once.
    Nobody,
    /// One of these says enough.
    OneOf(Vec<PartitionId>),
    /// All that hear the decision.
    All,
}

impl<O, C: Clone> Coordinator<O, C> {
    /// Sends a decision, and the answer when it has been acknowledged as it needs to be.
    pub(super) fn conclude(
        &mut self,
        (transaction, decision): (TransactionId, Decision),
        addressed: Vec<Addressed>,
        awaits: Awaits,
        answer: CoordinatorOutput<O, C>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let (from, needed) = match awaits {
            Awaits::Nobody => (Vec::new(), 0),
            Awaits::OneOf(partitions) => (partitions, 1),
            Awaits::All => {
                let all: Vec<PartitionId> = addressed.iter().map(|a| a.partition).collect();
                let count = all.len();
                (all, count)
            }
        };
        let acknowledge = needed > 0;
        send_decision((transaction, &decision), acknowledge, addressed, outputs);
        self.keep_answer(transaction, (from, needed), answer, outputs);
    }

    /// Buffers a response until enough of these partitions have acknowledged; none: it is sent now.
    pub(super) fn keep_answer(
        &mut self,
        transaction: TransactionId,
        (from, needed): (Vec<PartitionId>, usize),
        answer: CoordinatorOutput<O, C>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        assert!(needed <= from.len(), "what is awaited can come");
        if needed == 0 {
            outputs.push(answer);
            return;
        }
        self.keep(transaction, Held::Answer(answer), (from, needed));
    }

    /// A transaction is undone that is to be ordered again, as it has been sent to these
    /// partitions: `voters` are those that may all have said yes to it. If they have, the abort has
    /// to be in the log of one of them first. True if it is to say so.
    pub(super) fn repeat(
        &mut self,
        transaction: TransactionId,
        voters: &[PartitionId],
        queued: Queued<O, C>,
    ) -> bool {
        let waits =
            self.awaits_durable_decisions && !voters.is_empty() && !self.faults.repeat_undecided();
        match waits {
            true => {
                self.initiator.set_aside();
                self.keep(transaction, Held::Repetition(queued), (voters.to_vec(), 1));
            }
            false => self.initiator.resubmit(queued, false),
        }
        waits
    }

    fn keep(
        &mut self,
        transaction: TransactionId,
        held: Held<O, C>,
        (from, needed): (Vec<PartitionId>, usize),
    ) {
        let awaited = AwaitedAnswer { held, from, needed, since_us: self.now_us };
        let before = self.awaited.insert(transaction, awaited);
        assert!(before.is_none(), "a transaction ends once");
    }

    /// A partition says that a decision is in its log, durable: an answer may wait for it.
    pub(super) fn note_acknowledged(
        &mut self,
        transaction: TransactionId,
        partition: PartitionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let Some(awaited) = self.awaited.get_mut(&transaction) else { return };
        if let Some(place) = awaited.from.iter().position(|from| *from == partition) {
            awaited.from.swap_remove(place);
            awaited.needed -= 1;
        }
        if awaited.needed == 0
            && let Some(awaited) = self.awaited.remove(&transaction)
        {
            match awaited.held {
                Held::Answer(answer) => outputs.push(answer),
                Held::Repetition(queued) => {
                    self.initiator.end_set_aside();
                    self.initiator.resubmit(queued, false);
                }
            }
        }
    }

    /// Answers that have waited since before a time: nobody knows what a crash would make of
    /// these transactions, and the client gets that answer.
    pub(super) fn expire_awaited(
        &mut self,
        before_us: i64,
        why: impl Fn() -> String,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let is_late = |awaited: &AwaitedAnswer<O, C>| awaited.since_us < before_us;
        let late = self.awaited.iter().filter(|(_, awaited)| is_late(awaited)).map(|(id, _)| *id);
        for transaction in late.collect::<Vec<_>>() {
            if let Some(awaited) = self.awaited.remove(&transaction) {
                outputs.push(match awaited.held {
                    Held::Answer(answer) => as_unknown(answer, &why()),
                    Held::Repetition(queued) => {
                        self.initiator.end_set_aside();
                        failed_waiting(queued, &unknown("that it is undone", &why()))
                    }
                });
            }
        }
    }
}

fn as_unknown<O, C>(mut answer: CoordinatorOutput<O, C>, why: &str) -> CoordinatorOutput<O, C> {
    let unknown = |decided: Option<&Failure>| {
        unknown(decided.map_or("committed", |failure| failure.message.as_str()), why)
    };
    match &mut answer {
        CoordinatorOutput::Finished(finished) => {
            let failure = unknown(finished.outcome.failure.as_ref());
            finished.outcome = Outcome::failed(failure);
            finished.tables.clear();
        }
        CoordinatorOutput::OneRoundFinished(finished) => {
            let failure = unknown(finished.result.as_ref().err().map(|failure| &**failure));
            finished.result = Err(Box::new(failure));
        }
        _ => unreachable!("only answers are kept"),
    }
    answer
}

fn unknown(decided: &str, why: &str) -> Failure {
    let text = format!(
        "The outcome is not known: {why}, and a crash now could turn it. Decided was: {decided}"
    );
    Failure::new(Status::ResponseUnknown, text)
}
