//! What is kept of a transaction in progress.

use lockstep_types::PartitionId;

#[derive(Debug)]
pub(super) struct Participant {
    pub(super) partition: PartitionId,
    /// Answers of earlier runs are void.
    pub(super) least_run: u64,
    /// Its answer to the current round has not come, or is void.
    pub(super) outstanding: bool,
    /// It was addressed in the current round, or will be.
    pub(super) in_round: bool,
    /// It was not addressed yet.
    pub(super) late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Rounds are to come.
    Running,
    /// The current round is the last one.
    Last,
    /// The decision is out and acknowledgements are awaited.
    Deciding,
}

#[derive(Debug)]
pub(super) struct Active {
    /// In the order of their numbers.
    pub(super) participants: Vec<Participant>,
    /// Participants whose answer or acknowledgement is outstanding.
    pub(super) outstanding: usize,
    /// Participants where an earlier transaction is undecided.
    pub(super) waits_for: usize,
    pub(super) round: u32,
    pub(super) stage: Stage,
    pub(super) exclusive: bool,
}

impl Active {
    pub(super) fn place(&self, partition: PartitionId) -> Option<usize> {
        self.participants.binary_search_by_key(&partition, |p| p.partition).ok()
    }

    /// The participant has answered, or acknowledged; false when nothing was expected of it.
    pub(super) fn settle(&mut self, partition: PartitionId, run: u64) -> bool {
        let Some(place) = self.place(partition) else { return false };
        let participant = &mut self.participants[place];
        if !participant.outstanding || participant.late || run < participant.least_run {
            return false;
        }
        participant.outstanding = false;
        debug_assert!(self.outstanding > 0, "outstanding answers are counted once each");
        self.outstanding -= 1;
        true
    }

    pub(super) fn is_complete(&self) -> bool {
        self.outstanding == 0
    }

    pub(super) fn is_decidable(&self) -> bool {
        self.stage == Stage::Last && self.is_complete() && self.waits_for == 0
    }
}
