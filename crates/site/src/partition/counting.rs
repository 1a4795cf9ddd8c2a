//! What a partition counts of the fragments that it runs, and for how long they stop it.

use super::{Site, Stopped, Work};
use crate::counts::FragmentRun;
use crate::effect::PartitionEffect;
use lockstep_base::elapsed::Elapsed;
use lockstep_txn::EntryHeader;
use lockstep_txn::sp::Fragments;
use lockstep_types::TransactionId;

impl<H, A, C: Clone> Site<H, A, C> {
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
