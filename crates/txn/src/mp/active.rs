//! What is kept of a transaction in progress.

use lockstep_types::PartitionId;
use std::ops::{Deref, DerefMut};

#[derive(Debug, Clone, Copy)]
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

/// Participants that lie in the transaction itself.
const FEW: usize = 2;

/// In place of a participant that there is not.
const NOBODY: Participant = Participant {
    partition: PartitionId(0),
    least_run: 0,
    outstanding: false,
    in_round: false,
    late: false,
};

/// The participants of a transaction, in the order of their numbers. Most transactions over several
/// partitions have two: what answers and decisions change is then next to what names it.
#[derive(Debug)]
pub(super) enum Participants {
    /// The first of these, as the number says.
    Few(usize, [Participant; FEW]),
    /// More than [`FEW`].
    Many(Vec<Participant>),
}

impl Participants {
    /// None yet; space for this number of them, in memory that `spare` gives where it is needed.
    pub(super) fn for_count(count: usize, spare: impl FnOnce() -> Vec<Participant>) -> Self {
        if count <= FEW {
            return Participants::Few(0, [NOBODY; FEW]);
        }
        let mut list = spare();
        debug_assert!(list.is_empty(), "kept lists are empty");
        list.reserve(count);
        Participants::Many(list)
    }

    /// Adds one; there are no more than there is space for.
    pub(super) fn push(&mut self, participant: Participant) {
        debug_assert!(
            self.last().is_none_or(|last| last.partition < participant.partition),
            "participants are listed once, in the order of their partitions"
        );
        match self {
            Participants::Few(count, few) => {
                few[*count] = participant;
                *count += 1;
            }
            Participants::Many(list) => list.push(participant),
        }
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, place: usize) {
        match self {
            Participants::Few(count, few) => {
                assert!(place < *count, "it is one of them");
                few.copy_within(place + 1.., place);
                *count -= 1;
            }
            Participants::Many(list) => drop(list.remove(place)),
        }
    }
}

impl Deref for Participants {
    type Target = [Participant];

    #[inline]
    fn deref(&self) -> &[Participant] {
        match self {
            Participants::Few(count, few) => &few[..*count],
            Participants::Many(list) => list,
        }
    }
}

impl DerefMut for Participants {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Participant] {
        match self {
            Participants::Few(count, few) => &mut few[..*count],
            Participants::Many(list) => list,
        }
    }
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
    /// Named once, when it takes its place.
    pub(super) participants: Participants,
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

    /// Checks that the transaction may be decided now.
    pub(super) fn check_decision(&self) {
        assert!(self.is_complete(), "all answers are in before the decision");
        assert_ne!(self.stage, Stage::Deciding, "a transaction is decided once");
        assert!(
            self.round > 0 || self.participants.is_empty(),
            "the transaction that takes its position begins a round"
        );
    }

    pub(super) fn is_complete(&self) -> bool {
        self.outstanding == 0
    }

    pub(super) fn is_decidable(&self) -> bool {
        self.stage == Stage::Last && self.is_complete() && self.waits_for == 0
    }
}
