//! While leaders are moved on purpose the coordinator begins nothing: what is in progress ends, and
//! calls wait. A partition that changes its leader then has nothing undecided, and no transaction
//! has to be undone for it, which not every one can be.

use super::{Coordinator, CoordinatorOutput};
use crate::active::Queued;
use crate::message::MultiCall;
use crate::one_round::OneRoundCall;
use std::sync::Arc;

/// A call that has not begun.
pub enum WaitingCall<O, C> {
    /// Its rounds are planned by the coordinator.
    Planned(MultiCall<O, C>),
    /// One of one round, and who waits for it.
    OneRound(O, Arc<OneRoundCall>),
}

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

    /// Takes the calls that wait, in order: another coordinator is to begin them.
    pub fn take_waiting(&mut self) -> Vec<WaitingCall<O, C>> {
        let waiting = self.initiator.take_waiting().into_iter().map(|queued| match queued {
            Queued::Planned(submitted) => WaitingCall::Planned(submitted.call),
            Queued::OneRound(origin, call) => WaitingCall::OneRound(origin, call),
        });
        waiting.collect()
    }

    /// Whether nothing is in progress, whatever waits.
    pub fn is_quiet(&self) -> bool {
        let is_open = !self.is_overtaken && self.take_over.is_over();
        is_open && self.initiator.is_idle() && self.awaited.is_empty()
    }
}
