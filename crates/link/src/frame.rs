//! The bytes of a connection between two hosts. Integers are big-endian.
//!
//! Each side sends a preamble, then frames:
//!
//! ```text
//! preamble  16  magic "LOCKLINK" (8), oldest and newest version that the sender speaks
//!               (2 + 2), CRC-32 of these 12 bytes (4)
//! frame     32  header, then the payload:
//!            4  CRC-32 of the rest of the header
//!            4  CRC-32 of the payload
//!            4  length of the payload
//!            1  kind
//!            3  zeros
//!            8  acknowledgement: the number of the last message that the sender has delivered
//!            8  number of the first message of a frame of messages; 0 in other frames
//! ```
//!
//! | kind | name | payload |
//! |---|---|---|
//! | 1 | hello | see the head of `hello.rs`; the first frame of the host that dialed |
//! | 2 | hello reply | the same; the first frame of the host that accepted |
//! | 3 | refused | reason (2), a text after its length (a varint); the last frame |
//! | 4 | messages | for each message its length (4) and its bytes, of consecutive numbers |
//! | 5 | datagram | the datagram |
//! | 6 | heartbeat | clock readings (32, see below), then bytes of the caller |
//! | 7 | acknowledgement | nothing: the position is in the header |
//!
//! Clock readings are the sender's monotonic and wall clock in microseconds (8 + 8), the monotonic
//! reading of the last such fields that it received (8), and the time since then, or -1 if there
//! were none (8).
//!
//! The preamble, the frames hello, hello reply and refused, and the fields that they have in
//! version 1 are the same in all versions: a later version appends fields to the hello, which older
//! readers skip. So any two releases can report why they have no version in common.

use crate::error::LinkError;
use std::fmt;

/// The first bytes of every connection.
pub const MAGIC: [u8; 8] = *b"LOCKLINK";
/// Length of the preamble, which precedes the first frame.
pub const PREAMBLE_BYTES: usize = 16;
/// Length of the header of a frame.
pub const HEADER_BYTES: usize = 32;

const CHECKED_PREAMBLE: usize = 12;
const CHECKED_FROM: usize = 4;

/// The versions of the protocol that a release speaks, the oldest and the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl VersionRange {
    /// What this release speaks.
    pub const SUPPORTED: VersionRange = VersionRange { min: 1, max: 1 };

    /// The greatest version that both speak.
    pub fn common(self, other: VersionRange) -> Option<u16> {
        let version = self.max.min(other.max);
        (version >= self.min.max(other.min)).then_some(version)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min == self.max {
            true => write!(f, "version {}", self.min),
            false => write!(f, "versions {} to {}", self.min, self.max),
        }
    }
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The first frame of the host that dialed.
    Hello = 1,
    /// The first frame of the host that accepted.
    HelloReply = 2,
    /// The reason why the sender closes the connection.
    Refused = 3,
    /// Ordered messages.
    Messages = 4,
    /// One datagram.
    Datagram = 5,
    /// A heartbeat.
    Heartbeat = 6,
    /// Only an acknowledgement.
    Acknowledgement = 7,
}

impl FrameKind {
    fn of(byte: u8) -> Option<FrameKind> {
        Some(match byte {
            1 => FrameKind::Hello,
            2 => FrameKind::HelloReply,
            3 => FrameKind::Refused,
            4 => FrameKind::Messages,
            5 => FrameKind::Datagram,
            6 => FrameKind::Heartbeat,
            7 => FrameKind::Acknowledgement,
            _ => return None,
        })
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameKind::Hello => "hello",
            FrameKind::HelloReply => "hello reply",
            FrameKind::Refused => "refusal",
            FrameKind::Messages => "messages",
            FrameKind::Datagram => "datagram",
            FrameKind::Heartbeat => "heartbeat",
            FrameKind::Acknowledgement => "acknowledgement",
        })
    }
}

/// The header of a frame, without its own checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub payload_checksum: u32,
    pub length: u32,
    pub kind: FrameKind,
    pub acknowledged: u64,
    pub first: u64,
}

impl Header {
    /// The header of a frame with this payload.
    pub fn of(kind: FrameKind, payload: &[u8], acknowledged: u64) -> Header {
        let length = u32::try_from(payload.len()).expect("a payload is within the limit of frames");
        let payload_checksum = checksum(payload);
        Header { payload_checksum, length, kind, acknowledged, first: 0 }
    }

    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.payload_checksum.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_be_bytes());
        bytes[12] = self.kind as u8;
        bytes[16..24].copy_from_slice(&self.acknowledged.to_be_bytes());
        bytes[24..].copy_from_slice(&self.first.to_be_bytes());
        let own = checksum(&bytes[CHECKED_FROM..]);
        bytes[..CHECKED_FROM].copy_from_slice(&own.to_be_bytes());
        bytes
    }

    /// Reads a header, whose length has to be within `length_max`.
    pub fn decode(bytes: &[u8; HEADER_BYTES], length_max: u32) -> Result<Header, LinkError> {
        let (found, expected) = (u32_at(bytes, 0), checksum(&bytes[CHECKED_FROM..]));
        if found != expected {
            return Err(LinkError::HeaderChecksum { found, expected });
        }
        let kind_bytes = [bytes[12], bytes[13], bytes[14], bytes[15]];
        let kind = FrameKind::of(kind_bytes[0]).filter(|_| kind_bytes[1..] == [0; 3]);
        let kind = kind.ok_or(LinkError::UnknownKind { bytes: kind_bytes })?;
        let length = u32_at(bytes, 8);
        if length > length_max {
            return Err(LinkError::FrameTooLong { kind, length, limit: length_max });
        }
        let payload_checksum = u32_at(bytes, 4);
        let (acknowledged, first) = (u64_at(bytes, 16), u64_at(bytes, 24));
        Ok(Header { payload_checksum, length, kind, acknowledged, first })
    }

    /// Checks a payload against the header.
    #[inline]
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), LinkError> {
        let expected = checksum(payload);
        if expected == self.payload_checksum {
            return Ok(());
        }
        let (kind, length, found) = (self.kind, self.length, self.payload_checksum);
        Err(LinkError::PayloadChecksum { kind, length, found, expected })
    }
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_be_bytes(*bytes[at..].first_chunk().expect("a field is within the header"))
}

fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_be_bytes(*bytes[at..].first_chunk().expect("a field is within the header"))
}

/// CRC-32.
#[inline]
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Appends a preamble.
pub(crate) fn put_preamble(bytes: &mut Vec<u8>, versions: VersionRange) {
    let begin = bytes.len();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&versions.min.to_be_bytes());
    bytes.extend_from_slice(&versions.max.to_be_bytes());
    let checksum = checksum(&bytes[begin..]);
    bytes.extend_from_slice(&checksum.to_be_bytes());
}

/// Appends a frame whose payload is at hand.
pub(crate) fn put_frame(bytes: &mut Vec<u8>, kind: FrameKind, payload: &[u8], acknowledged: u64) {
    bytes.extend_from_slice(&Header::of(kind, payload, acknowledged).encode());
    bytes.extend_from_slice(payload);
}

/// Reads a preamble; none while it is not complete. What does not begin as one is refused at its
/// first wrong byte.
pub(crate) fn read_preamble(bytes: &[u8]) -> Result<Option<VersionRange>, LinkError> {
    let length = bytes.len().min(MAGIC.len());
    if bytes[..length] != MAGIC[..length] {
        let mut first = [0; MAGIC.len()];
        first[..length].copy_from_slice(&bytes[..length]);
        return Err(LinkError::NotALink { first, length });
    }
    let Some((checked, rest)) = bytes.split_at_checked(CHECKED_PREAMBLE) else { return Ok(None) };
    let Some(found) = rest.first_chunk().map(|found| u32::from_be_bytes(*found)) else {
        return Ok(None);
    };
    let expected = checksum(checked);
    if found != expected {
        return Err(LinkError::PreambleChecksum { found, expected });
    }
    let [.., min_high, min_low, max_high, max_low] = *checked else { return Ok(None) };
    let min = u16::from_be_bytes([min_high, min_low]);
    Ok(Some(VersionRange { min, max: u16::from_be_bytes([max_high, max_low]) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_common_version_is_chosen() {
        let range = |min, max| VersionRange { min, max };
        assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
        assert_eq!(range(2, 5).common(range(1, 3)), Some(3));
        assert_eq!(range(4, 4).common(range(1, 9)), Some(4));
        assert_eq!(range(1, 2).common(range(3, 4)), None);
        assert_eq!(range(3, 4).common(range(1, 2)), None);
        assert_eq!(range(5, 1).common(range(1, 5)), None, "a range that is none has no member");
        assert_eq!(
            (range(2, 2).to_string(), range(1, 2).to_string().as_str()),
            ("version 2".to_string(), "versions 1 to 2")
        );
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_an_error() {
        let mut header = Header::of(FrameKind::Messages, b"abc", 7);
        header.first = 8;
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, 3), Ok(header));
        assert_eq!(header.check_payload(b"abc"), Ok(()));
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = Header::decode(&flipped, u32::MAX).unwrap_err();
            assert!(matches!(error, LinkError::HeaderChecksum { .. }), "{bit}: {error}");
        }
        let error = header.check_payload(b"abd").unwrap_err();
        assert!(matches!(error, LinkError::PayloadChecksum { .. }), "{error}");
    }

    #[test]
    fn lengths_over_the_limit_and_unknown_kinds_are_named() {
        let bytes = Header::of(FrameKind::Datagram, &[0; 70], 0).encode();
        let error = Header::decode(&bytes, 69).unwrap_err().to_string();
        assert!(error.contains("datagram") && error.contains("70") && error.contains("69"));
        for (at, value) in [(12, 8), (12, 0), (13, 1), (15, 9)] {
            let mut bytes = bytes;
            bytes[at] = value;
            let own = checksum(&bytes[CHECKED_FROM..]).to_be_bytes();
            bytes[..CHECKED_FROM].copy_from_slice(&own);
            let error = Header::decode(&bytes, 70).unwrap_err();
            assert!(matches!(error, LinkError::UnknownKind { .. }), "{error}");
        }
    }

    #[test]
    fn a_preamble_is_refused_at_its_first_wrong_byte() {
        let mut bytes = Vec::new();
        let versions = VersionRange { min: 1, max: 300 };
        put_preamble(&mut bytes, versions);
        assert_eq!(bytes.len(), PREAMBLE_BYTES);
        assert_eq!(read_preamble(&bytes), Ok(Some(versions)));
        for length in 0..PREAMBLE_BYTES {
            assert_eq!(read_preamble(&bytes[..length]), Ok(None));
        }
        for bit in 0..PREAMBLE_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read_preamble(&flipped).is_err(), "{bit}");
            let seen = flipped.len().min(bit / 8 + 1);
            assert_eq!(read_preamble(&flipped[..seen]).is_err(), bit / 8 < 8 || seen == 16);
        }
        let error = read_preamble(b"GET / HTTP/1.1\r\n").unwrap_err().to_string();
        assert!(error.contains("\"GET / HT\"") && error.contains("LOCKLINK"), "{error}");
        assert!(read_preamble(b"LOX").unwrap_err().to_string().contains("\"LOX\""));
    }
}
