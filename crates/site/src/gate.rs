//! Holds back what leaves a partition until what it stands behind is durable.
//!
//! Everything that is told stands behind all entries that the partition has logged by then: its
//! own, and those of whatever it may have read. It leaves when the log is durable up to the last
//! of them, and not before what was told earlier.

use std::collections::VecDeque;

/// What one partition has to tell and may not yet.
#[derive(Debug)]
pub struct DurabilityGate<M> {
    /// With the number of the entry that each stands behind.
    waiting: VecDeque<(u64, M)>,
}

impl<M> Default for DurabilityGate<M> {
    fn default() -> DurabilityGate<M> {
        DurabilityGate { waiting: VecDeque::new() }
    }
}

impl<M> DurabilityGate<M> {
    /// Whether nothing waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Checks what holds between two steps, the log durable up to `durable`. Visits all that waits.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self, durable: u64) {
        assert!(
            self.waiting.iter().is_sorted_by_key(|(entry, _)| *entry),
            "what leaves later waits for no earlier entry"
        );
        assert!(
            self.waiting.front().is_none_or(|(entry, _)| *entry > durable),
            "nothing waits for an entry that is durable"
        );
    }

    /// Something is told that stands behind the numbered entry, while the log is durable up to
    /// `durable`: given back if it may leave at once, else it waits.
    #[inline]
    pub fn pass(&mut self, entry: u64, durable: u64, message: M) -> Option<M> {
        // What is told behind something that waits, waits with it: the order is kept.
        if entry <= durable && self.waiting.is_empty() {
            return Some(message);
        }
        // The kept answer of a call that ran long ago names the entry of its run; it leaves after
        // what was told since.
        let entry = self.waiting.back().map_or(entry, |(before, _)| entry.max(*before));
        self.waiting.push_back((entry, message));
        None
    }

    /// The next that may leave now that the log is durable up to `durable`.
    #[inline]
    pub fn release(&mut self, durable: u64) -> Option<M> {
        let (entry, _) = self.waiting.front()?;
        if *entry > durable {
            return None;
        }
        self.waiting.pop_front().map(|(_, message)| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_later_leaves_later_though_it_names_an_earlier_entry() {
        let mut gate = DurabilityGate::default();
        assert_eq!(gate.pass(7, 5, "a vote"), None);
        // The answer of a call that ran before the vote, kept until a decision.
        assert_eq!(gate.pass(6, 5, "a kept answer"), None);
        gate.check_invariants(5);
        assert_eq!(gate.release(6), None);
        assert_eq!(gate.release(7), Some("a vote"));
        assert_eq!(gate.release(7), Some("a kept answer"));
        assert!(gate.is_idle());
    }
}
