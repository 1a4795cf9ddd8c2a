//! What was decided is remembered until the logs of all partitions have it.
//!
//! A partition may not have heard of a decision that others have carried out, or its copies may not
//! have its entry: a coordinator that is new, or a copy that comes to lead, learns it from those
//! that remember ([`crate::fence::OutcomeMemory`]). They remember the last ones only. So the
//! coordinator asks all partitions now and then for what they have safely in their logs, and begins
//! no more transactions while one of them owes too many answers.

use super::{Coordinator, CoordinatorOutput, numbered};
use crate::message::ToPartition;
use lockstep_types::PartitionId;

/// Questions that may be without the answer of a partition.
const OPEN_QUESTIONS: u64 = 7;

/// Which decisions partitions have confirmed.
pub(super) struct Confirmations {
    /// Transactions between two questions; 0 where nothing is remembered.
    interval: u64,
    /// Transactions that have begun.
    begun: u64,
    /// No more may begin than these.
    limit: u64,
    /// The last question.
    asked: u64,
    /// Per partition, the last question that it has answered.
    confirmed: Vec<u64>,
}

impl Confirmations {
    /// Where nothing is remembered, nothing is asked.
    pub(super) fn none(partition_count: u32) -> Confirmations {
        let confirmed = vec![0; partition_count as usize];
        Confirmations { interval: 0, begun: 0, limit: u64::MAX, asked: 0, confirmed }
    }

    /// For memories of this many decisions; `active` transactions may be in progress.
    pub(super) fn of(memory: usize, active: usize, partition_count: u32) -> Confirmations {
        assert!(memory > active, "more is remembered than can be in progress");
        let interval = ((memory - active) as u64 / (OPEN_QUESTIONS + 1)).max(1);
        let limit = interval * OPEN_QUESTIONS;
        Confirmations { interval, limit, ..Confirmations::none(partition_count) }
    }

    /// Whether another transaction may begin.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        self.begun < self.limit
    }

    /// A transaction begins; whether a question is due.
    #[inline]
    pub(super) fn note_begun(&mut self) -> bool {
        self.begun += 1;
        self.interval > 0 && self.begun >= (self.asked + 1) * self.interval
    }

    fn note_confirmed(&mut self, partition: PartitionId, checkpoint: u64) {
        let confirmed = &mut self.confirmed[partition.index()];
        *confirmed = checkpoint.min(self.asked).max(*confirmed);
        let least = self.confirmed.iter().min().copied().unwrap_or_default();
        self.limit = match self.interval {
            0 => u64::MAX,
            interval => interval * (least + OPEN_QUESTIONS),
        };
    }
}

impl<O, C: Clone> Coordinator<O, C> {
    /// Asks all partitions what they have in their logs.
    #[cold]
    pub(super) fn ask_for_confirmation(&mut self, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        self.confirmations.asked += 1;
        for partition in self.all_partitions() {
            self.ask_one(partition, outputs);
        }
    }

    /// Asks a partition again, whose leader is another one.
    pub(super) fn ask_one(
        &mut self,
        partition: PartitionId,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let checkpoint = self.confirmations.asked;
        if checkpoint > 0 {
            let address = self.initiator.address_notice(partition);
            let message = ToPartition::Confirm { checkpoint };
            outputs.push(CoordinatorOutput::Send(numbered(address, message)));
        }
    }

    /// A partition has everything before a question in its log.
    pub(super) fn confirmed(&mut self, partition: PartitionId, checkpoint: u64) {
        self.confirmations.note_confirmed(partition, checkpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_confirms_nothing_holds_up_what_would_be_forgotten() {
        let mut confirmations = Confirmations::of(84, 4, 2);
        let mut asked = 0;
        while confirmations.may_begin() {
            if confirmations.note_begun() {
                confirmations.asked += 1;
                asked += 1;
                confirmations.note_confirmed(PartitionId(0), asked);
            }
        }
        assert_eq!((confirmations.begun, asked), (70, 7));
        confirmations.note_confirmed(PartitionId(1), 2);
        assert!(confirmations.may_begin() && confirmations.limit == 90);
        let none = Confirmations::none(2);
        assert!(none.may_begin());
    }
}
