//! The load inside a site's thread, see [`crate::inner_load`].

use super::Shard;
use super::calls::Taken;
use crate::inner_load::SiteLoad;
use crate::own_call::OwnCall;

/// Calls made in one round, so that sockets and other threads have their turn.
const CALLS_PER_ROUND: usize = 64;
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// A load and its buffers.
pub(super) struct InnerLoad {
    load: Box<dyn SiteLoad>,
    frame: Vec<u8>,
    answer: Vec<u8>,
}

impl InnerLoad {
    pub(super) fn new(load: Box<dyn SiteLoad>) -> InnerLoad {
        InnerLoad { load, frame: Vec::new(), answer: Vec::new() }
    }
}

impl Shard {
    /// Whether the load has a call to be made.
    pub(super) fn load_wants_to_call(&mut self) -> bool {
        self.inner_load.as_mut().is_some_and(|inner| inner.load.wants_to_call())
    }

    /// Makes the calls of this round.
    pub(super) fn run_load(&mut self) {
        if !self.phase.takes_calls() || self.outbox.is_overflowing() || !self.gates.may_take_calls()
        {
            return;
        }
        let Some(mut inner) = self.inner_load.take() else { return };
        for _ in 0..CALLS_PER_ROUND {
            if !inner.load.wants_to_call() {
                break;
            }
            inner.frame.clear();
            inner.answer.clear();
            inner.load.next_call(&mut inner.frame);
            let body = &inner.frame[LENGTH_BYTES..];
            let is_safe = match self.take_invocation(OwnCall::Load.key(), body, &mut inner.answer) {
                Taken::Answered(slot) => !self.keeps_load_answer(slot, &inner.answer),
                Taken::Refused => true,
                Taken::Pending => false,
            };
            if is_safe {
                inner.load.answered(&inner.answer);
            }
            if self.finds_urgent() {
                // It may have answers for the load.
                self.inner_load = Some(inner);
                self.take_urgent();
                let Some(taken) = self.inner_load.take() else { return };
                inner = taken;
            }
        }
        self.inner_load = Some(inner);
    }

    /// An answer of this thread that has waited for the log.
    pub(super) fn tell_load(&mut self, frame: &[u8]) {
        if let Some(inner) = &mut self.inner_load {
            inner.load.answered(frame);
        }
    }
}
