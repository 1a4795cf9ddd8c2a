//! The durability gate: holds what a partition sends until the log records that it depends on are
//! durable.
//!
//! Every response and vote depends on all records that the partition has logged by then: its own,
//! and those of the transactions whose changes it may have read. It is released when the log is
//! durable up to the last of them, in the order in which the partition gave it.

use std::collections::VecDeque;

/// Responses and votes of one partition that are not released yet.
#[derive(Debug)]
pub struct DurabilityGate<M> {
    /// With the log sequence number that each depends on.
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
            "a later message waits for no earlier record"
        );
        assert!(
            self.waiting.front().is_none_or(|(entry, _)| *entry > durable),
            "nothing waits for a record that is durable"
        );
    }

    /// A message that depends on a log record, while the log is durable up to `durable`: given back
    /// if it may be sent at once, else it waits.
    #[inline]
    pub fn pass(&mut self, entry: u64, durable: u64, message: M) -> Option<M> {
        // A message after one that waits, waits too: the order is kept.
        if entry <= durable && self.waiting.is_empty() {
            return Some(message);
        }
        // The buffered response of a call that ran earlier names the record of its run; it is sent
        // after the messages given since.
        let entry = self.waiting.back().map_or(entry, |(before, _)| entry.max(*before));
        self.waiting.push_back((entry, message));
        None
    }

    /// The next that may be sent now that the log is durable up to `durable`.
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
    fn a_later_message_is_sent_later_though_it_names_an_earlier_record() {
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
