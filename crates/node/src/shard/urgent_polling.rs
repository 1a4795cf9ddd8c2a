//! How often a thread polls for urgent messages.
//!
//! After a transaction that is undecided, every call can still be undone, which costs some of what
//! the call does. Where such transactions are rare it pays to poll after each call, so that few
//! calls run in between. Where they are many, there is always an undecided one: then it pays to
//! take their messages many at a time, because each read of a message that was just written waits
//! for another core's cache line. So a thread polls half as often when it finds several, and twice
//! as often when it finds none.

/// Calls between two polls at most: what runs in one round of the thread's loop.
const MOST_CALLS: u32 = 64;

/// When the next poll is due.
#[derive(Debug)]
pub(super) struct UrgentPolling {
    calls_left: u32,
    /// Calls between two polls.
    every: u32,
}

impl Default for UrgentPolling {
    fn default() -> UrgentPolling {
        UrgentPolling { calls_left: 1, every: 1 }
    }
}

impl UrgentPolling {
    /// A call has run: whether it is time to poll.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.calls_left = self.calls_left.saturating_sub(1);
        self.calls_left == 0
    }

    /// A poll found this number of messages.
    #[inline]
    pub(super) fn found(&mut self, messages: usize) {
        self.every = match messages {
            0 => (self.every / 2).max(1),
            1 => self.every,
            _ => (self.every * 2).min(MOST_CALLS),
        };
        self.calls_left = self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls until the next poll.
    fn calls_until_due(polling: &mut UrgentPolling) -> u32 {
        (1..=1000).find(|_| polling.is_due()).expect("a poll comes")
    }

    #[test]
    fn it_polls_rarely_while_there_are_many_and_often_while_there_are_few() {
        let mut polling = UrgentPolling::default();
        assert_eq!(calls_until_due(&mut polling), 1);
        (0..100).for_each(|_| polling.found(3));
        assert_eq!(calls_until_due(&mut polling), MOST_CALLS);
        polling.found(1);
        assert_eq!(calls_until_due(&mut polling), MOST_CALLS);
        (0..100).for_each(|_| polling.found(0));
        assert_eq!(calls_until_due(&mut polling), 1);
    }
}
