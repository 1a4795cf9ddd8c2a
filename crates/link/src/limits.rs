//! The limits of a link: how long a frame is, how much waits for the peer, how much memory is
//! kept, and how long an acknowledgement is held back.

use crate::frame::HEADER_BYTES;
use std::fmt;

/// The least value of [`LinkLimits::frame_bytes_max`].
pub const FRAME_BYTES_MIN: u32 = 64;
/// Bytes before each message in a frame: its length.
pub(crate) const LENGTH_BYTES: usize = 4;

/// What a link may hold and send. All hosts of a cluster should have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkLimits {
    /// The longest payload of a frame that this host takes, in bytes. The hello carries it, and
    /// the peer sends no longer ones. A message and its length (4 bytes) fit into one frame.
    pub frame_bytes_max: u32,
    /// Bytes of ordered messages, with 4 for each, that are not acknowledged: queued or sent.
    pub backlog_bytes_max: u64,
    /// The number of ordered messages that are not acknowledged.
    pub backlog_messages_max: u64,
    /// Bytes of queued datagrams and heartbeats.
    pub datagram_bytes_max: u64,
    /// The number of queued datagrams and heartbeats.
    pub datagrams_max: usize,
    /// Bytes of one chunk of the send buffer: messages that are offered between two writes share
    /// frames of about this length. A chunk grows for a longer message; one of more than four times
    /// this length is released with the message.
    pub chunk_bytes: usize,
    /// Bytes of acknowledged chunks that are kept for the next messages.
    pub spare_bytes_max: usize,
    /// Bytes of the receive buffer, which grows for longer frames and shrinks after them.
    pub read_bytes: usize,
    /// How long an acknowledgement waits for a frame to travel with, in microseconds.
    pub acknowledge_after_us: u64,
    /// Bytes of messages after which an acknowledgement waits no longer.
    pub acknowledge_after_bytes: u64,
}

impl Default for LinkLimits {
    fn default() -> LinkLimits {
        LinkLimits {
            frame_bytes_max: 64 << 20,
            backlog_bytes_max: 256 << 20,
            backlog_messages_max: 1 << 20,
            datagram_bytes_max: 128 << 20,
            datagrams_max: 1024,
            chunk_bytes: 64 << 10,
            spare_bytes_max: 4 << 20,
            read_bytes: 256 << 10,
            acknowledge_after_us: 5_000,
            acknowledge_after_bytes: 256 << 10,
        }
    }
}

impl LinkLimits {
    /// Checks that the limits fit together. Each error names the limit, its value and what it has
    /// to be.
    pub fn check(&self) -> Result<(), LimitError> {
        let frame = u64::from(self.frame_bytes_max);
        let least = [
            ("frame_bytes_max", frame, u64::from(FRAME_BYTES_MIN)),
            ("backlog_bytes_max", self.backlog_bytes_max, frame),
            ("backlog_messages_max", self.backlog_messages_max, 1),
            ("datagram_bytes_max", self.datagram_bytes_max, frame),
            ("datagrams_max", self.datagrams_max as u64, 1),
            ("chunk_bytes", self.chunk_bytes as u64, 1),
            ("read_bytes", self.read_bytes as u64, HEADER_BYTES as u64),
            ("acknowledge_after_bytes", self.acknowledge_after_bytes, 1),
        ];
        let mut checks = least.into_iter();
        checks.try_for_each(|(name, value, least)| LimitError::check(name, value, least, u64::MAX))
    }
}

/// A value that a link cannot work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitError {
    /// What it is the value of.
    pub name: &'static str,
    /// The value.
    pub value: u64,
    /// The least value that there may be.
    pub least: u64,
    /// The greatest value that there may be.
    pub most: u64,
}

impl LimitError {
    /// Checks one value.
    pub(crate) fn check(
        name: &'static str,
        value: u64,
        least: u64,
        most: u64,
    ) -> Result<(), LimitError> {
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(LimitError { name, value, least, most }),
        }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitError { name, value, least, most } = self;
        write!(f, "{name} of the link is {value}: it must be {least}")?;
        match *most {
            u64::MAX => f.write_str(" or more"),
            most => write!(f, " to {most}"),
        }
    }
}

impl std::error::Error for LimitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_do_not_fit_together_are_named() {
        let sound = LinkLimits::default();
        assert_eq!(sound.check(), Ok(()));
        let error = LinkLimits { backlog_bytes_max: 5, ..sound }.check().unwrap_err().to_string();
        assert_eq!(error, "backlog_bytes_max of the link is 5: it must be 67108864 or more");
        for (limits, name) in [
            (LinkLimits { frame_bytes_max: 63, ..sound }, "frame_bytes_max"),
            (LinkLimits { datagram_bytes_max: 1, ..sound }, "datagram_bytes_max"),
            (LinkLimits { datagrams_max: 0, ..sound }, "datagrams_max"),
            (LinkLimits { backlog_messages_max: 0, ..sound }, "backlog_messages_max"),
            (LinkLimits { chunk_bytes: 0, ..sound }, "chunk_bytes"),
            (LinkLimits { read_bytes: 31, ..sound }, "read_bytes"),
            (LinkLimits { acknowledge_after_bytes: 0, ..sound }, "acknowledge_after_bytes"),
        ] {
            assert_eq!(limits.check().unwrap_err().name, name);
        }
    }
}
