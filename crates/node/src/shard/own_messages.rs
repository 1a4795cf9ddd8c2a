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
/// Messages between two readings of the clock, at first and where they take long.
const MESSAGES_PER_CLOCK_MIN: u32 = 4;
/// The same at most: while they take little time, a reading comes half as often after each.
const MESSAGES_PER_CLOCK_MAX: u32 = 64;
/// Messages between two readings that took longer than this are too many.
const LONG_US: u64 = 100;

/// See the module.
#[derive(Default)]
pub(super) struct OwnMessages {
    waiting: VecDeque<Envelope>,
    /// Messages until the next reading of the clock.
    until_clock: u32,
    /// Messages between the last reading and the next.
    between: u32,
    /// The last reading in this round, or its beginning.
    read_us: i64,
    /// No more are taken in this round.
    is_over: bool,
}

impl OwnMessages {
    /// A round begins.
    #[inline]
    pub(super) fn begin_round(&mut self, now_us: i64) {
        (self.read_us, self.is_over) = (now_us, false);
        self.between = MESSAGES_PER_CLOCK_MIN;
        self.until_clock = MESSAGES_PER_CLOCK_MIN;
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
        self.until_clock = self.until_clock.saturating_sub(1);
        if self.until_clock == 0 {
            self.read_clock(now_us, clock::now_us());
        }
        let message = self.waiting.pop_front();
        // An empty list begins again with memory that was used just now.
        if self.waiting.is_empty() {
            self.waiting.clear();
        }
        message
    }

    /// Ends the taking if the round lasted long enough, and decides when the clock is read next.
    fn read_clock(&mut self, round_us: i64, now_us: i64) {
        self.is_over = Elapsed::between_us(round_us, now_us).us() >= ROUND_US;
        self.between = match Elapsed::between_us(self.read_us, now_us).us() >= LONG_US {
            true => MESSAGES_PER_CLOCK_MIN,
            false => (self.between * 2).min(MESSAGES_PER_CLOCK_MAX),
        };
        (self.until_clock, self.read_us) = (self.between, now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_rarely_while_messages_take_little_time_and_often_while_they_take_long() {
        let mut messages = OwnMessages::default();
        messages.begin_round(0);
        let until = |messages: &OwnMessages| messages.until_clock;
        assert_eq!(until(&messages), MESSAGES_PER_CLOCK_MIN);
        (1..10).for_each(|now_us| messages.read_clock(0, now_us));
        assert_eq!((until(&messages), messages.is_over), (MESSAGES_PER_CLOCK_MAX, false));
        messages.read_clock(0, 9 + LONG_US as i64);
        assert_eq!((until(&messages), messages.is_over), (MESSAGES_PER_CLOCK_MIN, false));
        messages.read_clock(0, ROUND_US as i64);
        assert!(messages.is_over, "the rest is for the next round");
        messages.begin_round(ROUND_US as i64);
        assert!(!messages.is_over && until(&messages) == MESSAGES_PER_CLOCK_MIN);
    }
}
