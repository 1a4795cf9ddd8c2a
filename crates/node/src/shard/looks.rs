//! How often a thread looks for urgent messages.
//!
//! Behind a transaction that is undecided, every call is kept to be taken back, which costs some
//! of what the call does. Where such transactions are rare it pays to look after each call, so
//! that few calls run in between. Where they are many, there is always an undecided one: then it
//! pays to take their messages many at a time, because each look at a message that was just
//! written waits for another core's cache line. So a thread looks half as often when it finds
//! several, and twice as often when it finds none.

/// Calls between two looks at most: what runs in one round of the thread's loop.
const MOST_CALLS: u32 = 64;

/// When the next look is due.
#[derive(Debug)]
pub(super) struct Looks {
    calls_left: u32,
    /// Calls between two looks.
    every: u32,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { calls_left: 1, every: 1 }
    }
}

impl Looks {
    /// A call has run: whether it is time to look.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.calls_left = self.calls_left.saturating_sub(1);
        self.calls_left == 0
    }

    /// A look found so many messages.
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

    /// Calls until the next look.
    fn calls_until_due(looks: &mut Looks) -> u32 {
        (1..=1000).find(|_| looks.is_due()).expect("a look comes")
    }

    #[test]
    fn it_looks_rarely_while_there_are_many_and_often_while_there_are_few() {
        let mut looks = Looks::default();
        assert_eq!(calls_until_due(&mut looks), 1);
        (0..100).for_each(|_| looks.found(3));
        assert_eq!(calls_until_due(&mut looks), MOST_CALLS);
        looks.found(1);
        assert_eq!(calls_until_due(&mut looks), MOST_CALLS);
        (0..100).for_each(|_| looks.found(0));
        assert_eq!(calls_until_due(&mut looks), 1);
    }
}
