//! Lists whose partitions' leaders are lost or moved on purpose, and whose coordinators are lost.

use super::{Kind, Lists, Report, run};
use crate::bank::Failure;
use crate::world::Answer;
use lockstep_base::random::SeededRandom;
use lockstep_site::Faults;
use lockstep_types::Status;

/// One step in this many moves a leader, or loses one or the coordinator.
const MOVES_ONE_IN: u64 = 120;

/// Runs one seed with leaders that move or are lost, and coordinators that are lost, over lists of
/// this kind.
///
/// # Errors
/// The first check that failed.
pub fn run_with_takeovers(
    seed: u64,
    transactions: usize,
    kind: Kind,
    faults: Faults,
) -> Result<Report, Failure> {
    let mut lists = Lists::open(seed, faults, kind);
    lists.moves = Some(SeededRandom::new(seed ^ 0x3055));
    run(lists, seed, transactions)
}

/// Whether the client cannot know how its call ended.
pub(super) fn is_unknown(answer: &Answer) -> bool {
    let failure = answer.outcome.failure.as_ref();
    failure.is_some_and(|failure| failure.status == Status::ResponseUnknown)
}

impl Lists {
    pub(super) fn move_leader(&mut self) {
        let Some(random) = self.moves.as_mut() else { return };
        if random.chance(1, MOVES_ONE_IN) {
            self.world.lose_something(random);
        }
    }
}
