//! Puts numbered messages back in order and drops repeats.

use std::collections::BTreeMap;

/// A message could not be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// It was taken before.
    Repeated,
    /// More messages ahead of a missing one than the limit allows.
    TooFarAhead,
}

/// The receiving end of a numbered stream of messages, numbers from 1.
#[derive(Debug)]
pub struct OrderedStream<T> {
    /// The number of the last message given out.
    last: u64,
    /// The message after that, if it is there and was not early.
    due: Option<T>,
    early: BTreeMap<u64, T>,
    early_limit: usize,
}

impl<T> OrderedStream<T> {
    /// A stream that holds at most `early_limit` messages that came before their turn.
    pub fn new(early_limit: usize) -> Self {
        OrderedStream { last: 0, due: None, early: BTreeMap::new(), early_limit }
    }

    /// A stream whose messages up to this one were taken.
    pub fn after(last: u64, early_limit: usize) -> Self {
        OrderedStream { last, ..OrderedStream::new(early_limit) }
    }

    /// Whether the message of this number, which arrives, is the next one: then it counts as given
    /// out, and need not be handed in first.
    #[inline]
    pub fn passes(&mut self, number: u64) -> bool {
        let passes = number == self.last + 1 && self.due.is_none();
        self.last += u64::from(passes);
        passes
    }

    /// Takes a message as it arrives; [`OrderedStream::take_next`] gives those whose turn it is.
    ///
    /// # Errors
    /// A repeat, which is to be ignored, or too many early messages, which is the sender's fault.
    pub fn receive(&mut self, number: u64, message: T) -> Result<(), StreamError> {
        let is_next = number == self.last + 1;
        let is_due = is_next && self.due.is_some();
        if number <= self.last || is_due || self.early.contains_key(&number) {
            return Err(StreamError::Repeated);
        }
        // Messages in order, which most are, are not listed.
        if is_next {
            self.due = Some(message);
            return Ok(());
        }
        if self.early.len() >= self.early_limit {
            return Err(StreamError::TooFarAhead);
        }
        self.early.insert(number, message);
        debug_assert!(self.is_consistent(), "what came early is beyond the next message");
        Ok(())
    }

    /// Whether [`OrderedStream::take_next`] gives one, or may.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.due.is_some() || !self.early.is_empty()
    }

    /// The next message in order, once it is there.
    pub fn take_next(&mut self) -> Option<T> {
        let message = match self.due.take() {
            Some(message) => message,
            None => self.early.remove(&(self.last + 1))?,
        };
        self.last += 1;
        debug_assert!(self.is_consistent(), "messages are given out once, in order");
        Some(message)
    }

    /// The number of the message that was given out last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Checks what holds between two messages.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        assert!(self.is_consistent(), "what came early is beyond the next message");
        assert!(self.early.len() <= self.early_limit, "early messages are within their limit");
    }

    /// Whether everything that came early stands beyond the next message and the one that is due.
    fn is_consistent(&self) -> bool {
        let next = self.last + 1 + u64::from(self.due.is_some());
        self.early.first_key_value().is_none_or(|(first, _)| *first >= next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_restored_and_repeats_are_dropped() {
        let mut stream = OrderedStream::new(3);
        assert_eq!(stream.receive(2, "b"), Ok(()));
        assert_eq!(stream.take_next(), None);
        assert_eq!(stream.receive(2, "b"), Err(StreamError::Repeated));
        assert_eq!(stream.receive(1, "a"), Ok(()));
        assert_eq!(stream.receive(1, "a"), Err(StreamError::Repeated));
        assert_eq!(stream.take_next(), Some("a"));
        assert_eq!(stream.receive(1, "a"), Err(StreamError::Repeated));
        assert_eq!(stream.take_next(), Some("b"));
        for number in 4..7 {
            assert_eq!(stream.receive(number, "x"), Ok(()));
        }
        assert_eq!(stream.receive(7, "x"), Err(StreamError::TooFarAhead));
        assert!(!stream.passes(5) && stream.passes(3));
        assert_eq!(stream.receive(3, "x"), Err(StreamError::Repeated));
        assert_eq!(stream.take_next(), Some("x"));
    }
}
