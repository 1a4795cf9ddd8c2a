//! The partition's coordinator is another one from now on. See [`crate::fence`].

use super::{Site, Work};
use crate::effect::PartitionEffect;
use crate::fence::{
    ChangeId, FenceReport, KnownOutcome, LoggedRound, OutcomeMemory, UndecidedTransaction,
};
use crate::message::{FromPartition, SchemaTask};
use lockstep_txn::OrderedStream;
use lockstep_types::TransactionId;
use std::sync::Arc;

impl<H, A, C: Clone> Site<H, A, C> {
    /// From now on the partition remembers as many decisions, for another coordinator.
    pub fn remember_outcomes(&mut self, limit: usize) {
        self.outcomes = OutcomeMemory::new(limit);
    }

    /// How many decisions it remembers.
    pub fn outcomes_limit(&self) -> usize {
        self.outcomes.limit()
    }

    /// The epoch of the stream of messages that the partition takes.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the partition has reported to another coordinator, and has heard nothing of it yet:
    /// in a later epoch it is to report again, since a coordinator that has taken over in that one
    /// does not take the report.
    pub fn awaits_coordinator(&self) -> bool {
        self.epoch > 0 && self.stream.last() == 0 && !self.stream.has_next()
    }

    /// Whether it waits for another coordinator to decide what it has undecided: answers of calls
    /// wait for that, too.
    pub fn awaits_decisions(&self) -> bool {
        self.awaits_coordinator() && !self.initiator.is_decided()
    }

    /// Another coordinator, of a stream of this later epoch, is to take over: nothing of the one
    /// before is taken any more, and what that had sent and has not run here ends. The report is
    /// among the effects, as a message to the coordinator; [`Site::next`] is due. Calls go on;
    /// those after an undecided transaction are answered when the coordinator has decided it.
    ///
    /// False if the partition has a coordinator of that epoch, or of a later one.
    pub fn fence(&mut self, epoch: u64, effects: &mut Vec<PartitionEffect<H, A, C>>) -> bool {
        if epoch <= self.epoch {
            return false;
        }
        self.epoch = epoch;
        self.stream = OrderedStream::new(self.early_messages);
        // Their votes are void, and those who have sent them wait for others.
        for transaction in self.initiator.drop_waiting_fragments() {
            if self.logged.get(transaction).is_some() {
                self.log_abort(transaction);
                self.outcomes.note(transaction, false, || None);
            }
        }
        self.initiator.restart_runs();
        let report = Box::new(self.report());
        effects.push(PartitionEffect::Send(FromPartition::Fenced(report)));
        true
    }

    pub(super) fn report(&self) -> FenceReport {
        let mut undecided: Vec<UndecidedTransaction> = Vec::new();
        if let Some(transaction) = self.initiator.stopped_by() {
            let logged = self.logged_of(transaction);
            undecided.push(UndecidedTransaction { transaction, logged, voters: Vec::new() });
        }
        for fragments in self.initiator.undecided_fragments() {
            let transaction = fragments.transaction;
            let voters = match &fragments.work {
                Work::Tasks(tasks, _) => tasks.writers.to_vec(),
                Work::OneRound(call, _) => call.writers().to_vec(),
                Work::Schema(_) | Work::Build(_) => unreachable!("a change stops the partition"),
            };
            let logged = self.logged_of(transaction);
            undecided.push(UndecidedTransaction { transaction, logged, voters });
        }
        FenceReport {
            partition: self.partition,
            epoch: self.epoch,
            undecided,
            outcomes: self.outcomes.all().cloned().collect(),
            change: self.last_change.clone(),
            catalog_version: self.log.catalog_version(),
            last: self.last_multi,
        }
    }

    fn logged_of(&self, transaction: TransactionId) -> Option<LoggedRound> {
        let logged = self.logged.get(transaction)?;
        Some(LoggedRound { round: logged.round(), vote: logged.vote() })
    }

    /// The coordinator has decided everything that the partition has reported.
    pub(super) fn resolve(
        &mut self,
        decisions: &[KnownOutcome],
        now_us: i64,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        for KnownOutcome { transaction, commits, writers } in decisions {
            self.count_stop(*transaction, now_us, effects);
            match commits {
                true => self.commit(*transaction, writers.clone(), effects),
                false => self.abort(*transaction, self.initiator.run() + 1),
            }
        }
        self.initiator.restart_runs();
        assert!(self.initiator.is_decided(), "everything of the coordinator before is decided");
        assert!(self.logged.is_empty(), "the log has all decisions");
    }

    /// A change of the catalog, or the beginning of a snapshot, is prepared.
    pub(super) fn note_change(&mut self, transaction: TransactionId, task: &SchemaTask<C>) {
        let snapshot = task.snapshot.as_ref().map(|_| Arc::clone(&task.source));
        let catalog_version = task.catalog_version;
        self.last_change = Some(ChangeId { transaction, catalog_version, snapshot });
    }

    /// The copy leads from now on, and has carried out the first message of a stream of this epoch.
    /// What its log has of decisions comes with it.
    pub fn join_stream(
        &mut self,
        epoch: u64,
        outcomes: OutcomeMemory,
        (last, last_change): (TransactionId, Option<ChangeId>),
    ) {
        assert!(self.is_idle() && epoch >= self.epoch, "a copy has no coordinator");
        self.stream = OrderedStream::after(1, self.early_messages);
        (self.epoch, self.outcomes) = (epoch, outcomes);
        (self.last_multi, self.last_change) = (last, last_change);
    }

    /// The messages about it that the partition sends when it leads: that these are in its log, and
    /// that all decisions are carried out.
    pub fn joined(
        &mut self,
        acknowledge: &[TransactionId],
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        // What was decided before needs no memory anywhere once the coordinator goes on.
        self.log.need_all();
        acknowledge.iter().for_each(|transaction| self.acknowledge(*transaction, effects));
        let (partition, epoch) = (self.partition, self.epoch);
        effects.push(PartitionEffect::Send(FromPartition::Resolved { partition, epoch }));
    }
}
