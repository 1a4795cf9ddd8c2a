//! What a thread sends itself: between the coordinator and the partitions that it serves, and from
//! one of its partitions to another.
//!
//! A thread takes such messages in the round in which it sends them, and those that come of them
//! too. A transaction of many rounds at partitions of one thread would so hold the thread for as
//! long as it takes, without a look at sockets, other threads and time limits: what is left after a
//! few milliseconds is for the next round.

use crate::clock;
use crate::message::Envelope;
use lockstep_base::elapsed::Elapsed;
use std::collections::VecDeque;

/// How long after a round's beginning messages are taken in it.
const ROUND_US: u64 = 5_000;
/// Messages between two readings of the clock.
const MESSAGES_PER_CLOCK: u32 = 4;

/// See the module.
#[derive(Default)]
pub(super) struct OwnMessages {
    waiting: VecDeque<Envelope>,
    /// Taken in this round.
    taken: u32,
    /// No more are taken in this round.
    is_over: bool,
}

impl OwnMessages {
    /// A round begins.
    #[inline]
    pub(super) fn begin_round(&mut self) {
        (self.taken, self.is_over) = (0, false);
    }

    #[inline]
    pub(super) fn push(&mut self, message: Envelope) {
        self.waiting.push_back(message);
    }

    /// The number of those that wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether one is to be taken in this round.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        !self.waiting.is_empty() && !self.is_over
    }

    /// The next one, if it is to be taken in this round, which began at `now_us`.
    #[inline]
    pub(super) fn take(&mut self, now_us: i64) -> Option<Envelope> {
        if !self.has_next() {
            return None;
        }
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(MESSAGES_PER_CLOCK) {
            self.is_over = Elapsed::between_us(now_us, clock::now_us()).us() >= ROUND_US;
        }
        self.waiting.pop_front()
    }
}
