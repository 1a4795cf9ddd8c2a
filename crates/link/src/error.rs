//! Errors: why a connection ends, and why an offered message is not taken.

use crate::frame::{FrameKind, MAGIC, VersionRange};
use crate::limits::LENGTH_BYTES;
use crate::refusal::{PeerRefusal, Refusal};
use std::fmt;

/// The field of a payload that does not have the form of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Why a connection is over. The session is not: the next connection resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// The first bytes are not those of a host.
    NotALink {
        /// The first bytes that came.
        first: [u8; 8],
        /// The number of them.
        length: usize,
    },
    /// The preamble's checksum is not that of its bytes.
    PreambleChecksum {
        /// The one that came.
        found: u32,
        /// The one of the bytes.
        expected: u32,
    },
    /// The hosts have no version of the protocol in common.
    NoCommonVersion {
        /// This host's.
        ours: VersionRange,
        /// The peer's.
        theirs: VersionRange,
    },
    /// A header's checksum is not that of its bytes.
    HeaderChecksum {
        /// The one that came.
        found: u32,
        /// The one of the bytes.
        expected: u32,
    },
    /// A payload's checksum is not that of its bytes.
    PayloadChecksum {
        /// The frame's kind.
        kind: FrameKind,
        /// The payload's length.
        length: u32,
        /// The checksum that came.
        found: u32,
        /// The one of the bytes.
        expected: u32,
    },
    /// A frame of no known kind.
    UnknownKind {
        /// The kind and the three zeros after it, as they came.
        bytes: [u8; 4],
    },
    /// A frame over the limit.
    FrameTooLong {
        /// The frame's kind.
        kind: FrameKind,
        /// The length of its payload.
        length: u32,
        /// The limit of this host.
        limit: u32,
    },
    /// A frame that may not come now: messages before the hello, or a second hello.
    UnexpectedFrame {
        /// The frame's kind.
        kind: FrameKind,
        /// What may come.
        expected: &'static str,
    },
    /// A payload that does not have the form of the format.
    Malformed {
        /// The frame's kind.
        kind: FrameKind,
        /// The field that is wrong or missing.
        field: &'static str,
    },
    /// Messages that do not follow the last one.
    MessageNumber {
        /// The number of the first message of the frame.
        found: u64,
        /// The number that follows the last message.
        expected: u64,
    },
    /// An acknowledgement of messages that were not sent, or less than an earlier one.
    Acknowledged {
        /// The number that came.
        found: u64,
        /// The one before it.
        earlier: u64,
        /// The last message that was sent.
        sent: u64,
    },
    /// The peer refused the connection.
    Refused(PeerRefusal),
    /// This host refused the peer because of its hello.
    Refusal(Refusal),
}

impl LinkError {
    pub(crate) fn malformed(kind: FrameKind, malformed: Malformed) -> LinkError {
        LinkError::Malformed { kind, field: malformed.0 }
    }

    /// The refusal to send before the connection is closed; none if the peer has refused the
    /// connection, or does not speak the protocol.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            LinkError::NotALink { .. } | LinkError::Refused(_) => None,
            LinkError::NoCommonVersion { ours, theirs } => {
                Some(Refusal::NoCommonVersion { ours: *ours, theirs: *theirs })
            }
            LinkError::Refusal(refusal) => Some(refusal.clone()),
            other => Some(Refusal::Protocol { text: other.to_string() }),
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::NotALink { first, length } => {
                let first = first[..(*length).min(first.len())].escape_ascii();
                let magic = MAGIC.escape_ascii();
                write!(
                    f,
                    "the first bytes \"{first}\" are not \"{magic}\": this port is for the hosts \
                     of a cluster only"
                )
            }
            LinkError::PreambleChecksum { found, expected } => {
                write!(f, "the preamble has checksum {found:08x}, and its bytes {expected:08x}")
            }
            LinkError::NoCommonVersion { ours, theirs } => {
                Refusal::NoCommonVersion { ours: *ours, theirs: *theirs }.fmt(f)
            }
            LinkError::HeaderChecksum { found, expected } => {
                write!(f, "a frame header has checksum {found:08x}, and its bytes {expected:08x}")
            }
            LinkError::PayloadChecksum { kind, length, found, expected } => write!(
                f,
                "a {kind} frame of {length} bytes has checksum {found:08x}, and its bytes \
                 {expected:08x}"
            ),
            LinkError::UnknownKind { bytes: [kind, zeros @ ..] } => {
                write!(f, "a frame has kind {kind} with {zeros:?}: known are 1 to 7 with zeros")
            }
            LinkError::FrameTooLong { kind, length, limit } => write!(
                f,
                "a {kind} frame has {length} bytes (limit {limit}, frame_bytes_max of the link)"
            ),
            LinkError::UnexpectedFrame { kind, expected } => {
                write!(f, "a {kind} frame came where {expected} is expected")
            }
            LinkError::Malformed { kind, field } => {
                write!(f, "a {kind} frame is malformed: wrong or missing {field}")
            }
            LinkError::MessageNumber { found, expected } => {
                write!(f, "message {found} came where message {expected} is expected")
            }
            LinkError::Acknowledged { found, earlier, sent } => write!(
                f,
                "the peer acknowledges message {found}: it acknowledged {earlier} before, and \
                 message {sent} is the last one sent"
            ),
            LinkError::Refused(refusal) => refusal.fmt(f),
            LinkError::Refusal(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for LinkError {}

/// Why a message or datagram was not taken. Nothing of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferError {
    /// There is no session, or the caller has not taken the event of its beginning.
    NoSession,
    /// No connection: datagrams do not wait for one.
    NotConnected,
    /// The messages that are not acknowledged are at their limit: retry later.
    Full {
        /// Bytes of them.
        bytes: u64,
        /// The limit of bytes.
        bytes_max: u64,
        /// The number of them.
        messages: u64,
        /// The limit of their number.
        messages_max: u64,
    },
    /// The message does not fit a frame that both hosts take.
    TooLong {
        /// The message's length.
        bytes: u64,
        /// The longest that there may be.
        bytes_max: u64,
    },
}

impl OfferError {
    pub(crate) fn too_long(bytes: usize, frame_bytes_max: u32, overhead: usize) -> OfferError {
        let bytes_max = u64::from(frame_bytes_max).saturating_sub(overhead as u64);
        OfferError::TooLong { bytes: bytes as u64, bytes_max }
    }

    pub(crate) fn message_too_long(bytes: usize, frame_bytes_max: u32) -> OfferError {
        OfferError::too_long(bytes, frame_bytes_max, LENGTH_BYTES)
    }
}

impl fmt::Display for OfferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferError::NoSession => f.write_str("no session with the peer has begun"),
            OfferError::NotConnected => f.write_str("the peer is not connected"),
            OfferError::Full { bytes, bytes_max, messages, messages_max } => write!(
                f,
                "the backlog of the link is full: {bytes} bytes (limit {bytes_max}, \
                 backlog_bytes_max) in {messages} messages (limit {messages_max}, \
                 backlog_messages_max): retry later"
            ),
            OfferError::TooLong { bytes, bytes_max } => {
                write!(f, "a message of {bytes} bytes (limit {bytes_max}, by frame_bytes_max)")
            }
        }
    }
}

impl std::error::Error for OfferError {}

/// A connection exists, or is being made: there is nothing to dial for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyConnected;

impl fmt::Display for AlreadyConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the link has a connection already: close the one just made")
    }
}

impl std::error::Error for AlreadyConnected {}
