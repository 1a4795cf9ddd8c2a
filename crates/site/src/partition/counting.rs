//! What a partition counts: of the fragments that it runs, for how long they stop it, and what the
//! operators of profiled statements do.

use super::{Site, Stopped, Work};
use crate::counts::{FragmentRun, SpeculationCounts};
use crate::effect::PartitionEffect;
use crate::message::{BoundStatement, StatementProfile};
use lockstep_base::elapsed::Elapsed;
use lockstep_exec::watch::{Profiler, Stopwatch, Watch};
use lockstep_txn::EntryHeader;
use lockstep_txn::sp::Fragments;
use lockstep_types::TransactionId;
use std::sync::Arc;

impl<H, A, C: Clone> Site<H, A, C> {
    /// From now on the operators of a statement are counted, if it is profiled.
    #[inline]
    pub(super) fn begin_profile(&mut self, bound: &BoundStatement) -> Option<(u32, Arc<Profiler>)> {
        let number = bound.profile?;
        let statement = Arc::clone(bound.statement.statement());
        let profiler = Arc::new(Profiler::new(statement, self.profile_clock));
        self.watch_with(Some(Arc::clone(&profiler)));
        Some((number, profiler))
    }

    /// The statement has run that [`Site::begin_profile`] was asked for.
    #[inline]
    pub(super) fn end_profile(&mut self, profiled: Option<(u32, Arc<Profiler>)>) {
        let Some((statement, profiler)) = profiled else { return };
        self.watch_with(None);
        let operators = profiler.operators();
        let partition = Some(self.partition);
        self.profiles.push(StatementProfile { statement, partition, operators });
    }

    #[cold]
    fn watch_with(&mut self, profiler: Option<Arc<Profiler>>) {
        let stop = self.stopwatch.as_ref().map(Stopwatch::check);
        self.database.set_watch(Watch { stop, profiler });
    }

    /// The number of the last log entry and the digest of changes up to there, while everything is
    /// decided; nothing else makes it the same at two replicas.
    pub fn decided_digest(&self) -> Option<(u64, u64)> {
        let is_decided = self.initiator.is_decided() && !self.database.has_undo();
        is_decided.then(|| (self.log.sequence(), self.database.change_digest()))
    }

    /// Whether a message of the coordinator with this number was acted on: another one repeats it.
    pub fn has_received(&self, number: u64) -> bool {
        number <= self.stream.last()
    }

    /// Log entries and bytes so far.
    pub fn log_totals(&self) -> (u64, u64) {
        self.log.totals()
    }

    /// How often the partition ran speculatively, and again.
    pub fn speculation(&self) -> SpeculationCounts {
        self.counts
    }

    /// Counts fragments that ran; they are not given back to the initiator yet.
    pub(super) fn count_run(
        &mut self,
        fragments: &Fragments<Work<C>>,
        header: &EntryHeader,
        now_us: i64,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        let (procedure_number, arrived_us) = match &fragments.work {
            Work::Tasks(tasks, arrived_us) => (tasks.procedure_number, *arrived_us),
            Work::OneRound(call, arrived_us) => (call.procedure_number, *arrived_us),
            Work::Schema(_) | Work::Build(_) => return,
        };
        let before = self.stopped.take();
        let speculative = before.is_none() && !self.initiator.is_decided();
        self.counts.speculated += u64::from(speculative);
        let since_us = before.map_or(now_us, |stopped| stopped.since_us);
        let stopped = match fragments.last {
            true => Elapsed::between_us(since_us, now_us),
            false => {
                self.stopped = Some(Stopped { procedure_number, since_us });
                Elapsed::ZERO
            }
        };
        effects.push(PartitionEffect::Ran(FragmentRun {
            procedure_number,
            is_run: true,
            speculative,
            repeated: header.repeated,
            waited: Elapsed::between_us(arrived_us, now_us),
            stopped,
        }));
    }

    /// The decision on the transaction that has stopped the partition between its rounds ends the
    /// stop; one on a transaction that waits for its turn does not.
    pub(super) fn count_stop(
        &mut self,
        transaction: TransactionId,
        now_us: i64,
        effects: &mut Vec<PartitionEffect<H, A, C>>,
    ) {
        if self.initiator.stopped_by() != Some(transaction) {
            return;
        }
        if let Some(Stopped { procedure_number, since_us }) = self.stopped.take() {
            let stopped = Elapsed::between_us(since_us, now_us);
            let run = FragmentRun { procedure_number, stopped, ..FragmentRun::default() };
            effects.push(PartitionEffect::Ran(run));
        }
    }
}
