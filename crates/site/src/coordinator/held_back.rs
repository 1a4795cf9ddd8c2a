//! While leaders are moved on purpose the coordinator begins nothing: what is in progress ends, and
//! calls wait. A partition that changes its leader then has nothing undecided, and no transaction
//! has to be undone for it, which not every one can be.

use super::{Coordinator, CoordinatorOutput};

impl<O, C: Clone> Coordinator<O, C> {
    /// From now on nothing begins, or what waits does again.
    pub fn hold_back(
        &mut self,
        is_held_back: bool,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        self.is_held_back = is_held_back;
        if !is_held_back {
            self.begin(now_us, outputs);
        }
    }

    /// Whether nothing is in progress, whatever waits.
    pub fn is_quiet(&self) -> bool {
        let is_open = !self.is_overtaken && self.take_over.is_over();
        is_open && self.initiator.is_idle() && self.awaited.is_empty()
    }
}
