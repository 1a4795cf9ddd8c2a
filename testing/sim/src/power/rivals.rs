//! Calls that hold and release the same pair of accounts, many at a time. Whether one passes
//! depends on those before it, so a partition votes otherwise each time it runs one again.

use super::{Call, Run};
use crate::world::World;
use lockstep_base::random::SeededRandom;

/// Runs with such calls: one in N.
const RUNS_ONE_IN: u64 = 3;
/// How many more calls are in flight in such a run.
const CLIENTS: usize = 6;
/// The kinds of [`Run::hold`]: two of them hold, one releases.
const KINDS: [u64; 4] = [7, 9, 8, 9];

/// Draws them from random numbers of its own, so that other runs are as they were without them.
pub(super) struct Rivals {
    random: SeededRandom,
    are_there: bool,
}

impl Rivals {
    pub(super) fn new(seed: u64) -> Rivals {
        let mut random = SeededRandom::new(seed ^ 0x51de);
        let are_there = random.chance(1, RUNS_ONE_IN);
        Rivals { random, are_there }
    }

    pub(super) fn are_there(&self) -> bool {
        self.are_there
    }

    /// How many calls are in flight besides those of other runs.
    pub(super) fn clients(&self) -> usize {
        if self.are_there { CLIENTS } else { 0 }
    }

    /// Whether the coordinator looks at the clock once more.
    pub(super) fn hurry(&mut self) -> bool {
        self.are_there && self.random.chance(1, 25)
    }

    fn kind(&mut self) -> Option<u64> {
        let is_drawn = self.are_there && self.random.chance(1, 2);
        is_drawn.then(|| KINDS[self.random.below(KINDS.len() as u64) as usize])
    }
}

impl Run {
    /// A call that holds or releases the first pair, if one is drawn.
    pub(super) fn rival(&mut self, world: &mut World) -> Option<Call> {
        let kind = self.rivals.kind()?;
        Some(self.hold_pair(world, kind, 0))
    }
}
