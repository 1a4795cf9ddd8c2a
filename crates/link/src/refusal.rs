//! Refusals: the reason why a host closes a connection, which the other host reads and logs.

use crate::error::Malformed;
use crate::frame::{FrameKind, VersionRange, put_frame, put_preamble};
use crate::hello::ClusterId;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_types::HostId;
use std::fmt;

/// The longest text of a refusal, in bytes.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 512;

/// A refusal by this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The hosts belong to different clusters.
    WrongCluster {
        /// This host's.
        ours: ClusterId,
        /// The other host's.
        theirs: ClusterId,
    },
    /// The hosts have no version of the protocol in common.
    NoCommonVersion {
        /// This host's.
        ours: VersionRange,
        /// The other host's.
        theirs: VersionRange,
    },
    /// The other host asked for another one than this: an address is wrong.
    WrongHost {
        /// The host that was asked for.
        expected: HostId,
        /// The host that it found.
        found: HostId,
    },
    /// Two processes have the same host id. The one with the greater incarnation is taken; if both
    /// have the same, the one that came first.
    DuplicateHost {
        /// The id.
        host: HostId,
        /// The incarnation that is taken.
        newest: u64,
        /// The incarnation that is refused.
        refused: u64,
    },
    /// No member of the cluster has the id. Callers decide on this.
    UnknownHost {
        /// The id.
        host: HostId,
    },
    /// Both hosts dialed at once. The connection of the host with the lower id survives: no error.
    SimultaneousDial,
    /// A newer connection of the same host has been accepted before: no error.
    SupersededDial {
        /// The number of the refused connection.
        dial: u64,
        /// The number of the newest one.
        newest: u64,
    },
    /// The wall clocks differ by more than the limit. Callers decide on this.
    ClockOffset {
        /// Other host's clock minus this host's, in microseconds.
        offset_us: i64,
        /// The limit, in microseconds.
        limit_us: u64,
    },
    /// The other host's bytes break the protocol.
    Protocol {
        /// What is wrong with them.
        text: String,
    },
    /// Another reason of the caller's.
    Other {
        /// The reason, as a sentence.
        text: String,
    },
}

/// The kind of a refusal, to act on: it is the same in all releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// See [`Refusal::WrongCluster`].
    WrongCluster,
    /// See [`Refusal::NoCommonVersion`].
    NoCommonVersion,
    /// See [`Refusal::WrongHost`].
    WrongHost,
    /// See [`Refusal::DuplicateHost`].
    DuplicateHost,
    /// See [`Refusal::UnknownHost`].
    UnknownHost,
    /// See [`Refusal::SimultaneousDial`].
    SimultaneousDial,
    /// See [`Refusal::SupersededDial`].
    SupersededDial,
    /// See [`Refusal::ClockOffset`].
    ClockOffset,
    /// See [`Refusal::Protocol`].
    Protocol,
    /// See [`Refusal::Other`].
    Other,
    /// A number that a later release has defined.
    Unknown(u16),
}

/// The reasons by their numbers, from 1.
const REASONS: [RefusalReason; 10] = [
    RefusalReason::WrongCluster,
    RefusalReason::NoCommonVersion,
    RefusalReason::WrongHost,
    RefusalReason::DuplicateHost,
    RefusalReason::UnknownHost,
    RefusalReason::SimultaneousDial,
    RefusalReason::SupersededDial,
    RefusalReason::ClockOffset,
    RefusalReason::Protocol,
    RefusalReason::Other,
];

/// A refusal by the other host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRefusal {
    /// What to act on.
    pub reason: RefusalReason,
    /// The other host's words, at most [`REFUSAL_TEXT_BYTES_MAX`] bytes without control characters.
    pub text: String,
}

impl Refusal {
    /// What the other host acts on.
    pub fn reason(&self) -> RefusalReason {
        match self {
            Refusal::WrongCluster { .. } => RefusalReason::WrongCluster,
            Refusal::NoCommonVersion { .. } => RefusalReason::NoCommonVersion,
            Refusal::WrongHost { .. } => RefusalReason::WrongHost,
            Refusal::DuplicateHost { .. } => RefusalReason::DuplicateHost,
            Refusal::UnknownHost { .. } => RefusalReason::UnknownHost,
            Refusal::SimultaneousDial => RefusalReason::SimultaneousDial,
            Refusal::SupersededDial { .. } => RefusalReason::SupersededDial,
            Refusal::ClockOffset { .. } => RefusalReason::ClockOffset,
            Refusal::Protocol { .. } => RefusalReason::Protocol,
            Refusal::Other { .. } => RefusalReason::Other,
        }
    }

    /// All bytes to send to a host that was refused before this host has sent anything: write
    /// them, then close the connection.
    pub fn to_bytes(&self, versions: VersionRange) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_preamble(&mut bytes, versions);
        self.put_frame(&mut bytes);
        bytes
    }

    /// Appends the frame alone.
    pub(crate) fn put_frame(&self, bytes: &mut Vec<u8>) {
        let mut text = self.to_string();
        let mut end = text.len().min(REFUSAL_TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        let mut payload = Vec::new();
        payload.extend_from_slice(&self.reason().number().to_be_bytes());
        payload.put_counted(text.as_bytes());
        put_frame(bytes, FrameKind::Refused, &payload, 0);
    }
}

impl RefusalReason {
    fn number(self) -> u16 {
        if let RefusalReason::Unknown(number) = self {
            return number;
        }
        let index = REASONS.iter().position(|reason| *reason == self);
        index.expect("each reason is in the list") as u16 + 1
    }

    fn of(number: u16) -> RefusalReason {
        let known = usize::from(number).checked_sub(1).and_then(|index| REASONS.get(index));
        known.copied().unwrap_or(RefusalReason::Unknown(number))
    }

    /// Whether another connection replaces the refused one, so that there is nothing to report.
    pub fn is_harmless(self) -> bool {
        matches!(self, RefusalReason::SimultaneousDial | RefusalReason::SupersededDial)
    }
}

impl PeerRefusal {
    pub(crate) fn decode(payload: &[u8]) -> Result<PeerRefusal, Malformed> {
        let mut reader = ByteReader::new(payload);
        let number = reader.take(2).map_err(|_| Malformed("reason"))?;
        let number = u16::from_be_bytes([number[0], number[1]]);
        let text = reader.counted().map_err(|_| Malformed("text"))?;
        if text.len() > REFUSAL_TEXT_BYTES_MAX {
            return Err(Malformed("text, which is too long"));
        }
        Ok(PeerRefusal { reason: RefusalReason::of(number), text: printable(text) })
    }
}

/// Text from another host for a log: without control characters, which could end a line.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::WrongCluster { ours, theirs } => write!(
                f,
                "the hosts belong to different clusters: this host to {ours}, the other host to \
                 {theirs}: correct the list of peers, or the directory"
            ),
            Refusal::NoCommonVersion { ours, theirs } => write!(
                f,
                "the hosts have no version of the link protocol in common: this host speaks \
                 {ours}, the other host {theirs}: upgrade the older release"
            ),
            Refusal::WrongHost { expected, found } => write!(
                f,
                "the connection is for host {expected}, and host {found} is at the address: \
                 correct the list of peers"
            ),
            Refusal::DuplicateHost { host, newest, refused } if newest == refused => write!(
                f,
                "two processes have the host id {host} and the incarnation {newest}: one runs on a \
                 copy of the other's directory: stop it"
            ),
            Refusal::DuplicateHost { host, newest, refused } => write!(
                f,
                "two processes have the host id {host}: incarnation {newest} is taken, \
                 incarnation {refused} is refused: stop one of them"
            ),
            Refusal::UnknownHost { host } => {
                write!(f, "host {host} is not a member of the cluster")
            }
            Refusal::SimultaneousDial => f.write_str(
                "both hosts dialed at once: the connection of the host with the lower id is used",
            ),
            Refusal::SupersededDial { dial, newest } => {
                write!(f, "connection {dial} of the host is older than its connection {newest}")
            }
            Refusal::ClockOffset { offset_us, limit_us } => write!(
                f,
                "the wall clocks differ by {offset_us} us (limit {limit_us} us): synchronize the \
                 clocks of the hosts"
            ),
            Refusal::Protocol { text } | Refusal::Other { text } => f.write_str(text),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for PeerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer refused the connection: {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{HEADER_BYTES, PREAMBLE_BYTES};

    fn payload(refusal: &Refusal) -> Vec<u8> {
        refusal.to_bytes(VersionRange::SUPPORTED)[PREAMBLE_BYTES + HEADER_BYTES..].to_vec()
    }

    #[test]
    fn the_other_host_reads_the_reason_and_the_text() {
        let refusal = Refusal::DuplicateHost { host: HostId(2), newest: 9, refused: 4 };
        let read = PeerRefusal::decode(&payload(&refusal)).unwrap();
        assert_eq!(read.reason, RefusalReason::DuplicateHost);
        assert_eq!(
            read.to_string(),
            "the peer refused the connection: two processes have the host id 2: incarnation 9 is \
             taken, incarnation 4 is refused: stop one of them"
        );
        for (index, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(usize::from(reason.number()), index + 1);
            assert_eq!(RefusalReason::of(reason.number()), reason);
        }
        assert_eq!(RefusalReason::of(0), RefusalReason::Unknown(0));
        assert_eq!(RefusalReason::of(999).number(), 999);
    }

    #[test]
    fn long_texts_are_cut_and_control_characters_replaced() {
        let text = "é".repeat(REFUSAL_TEXT_BYTES_MAX);
        let bytes = payload(&Refusal::Other { text });
        let read = PeerRefusal::decode(&bytes).unwrap();
        assert_eq!(read.text.len(), REFUSAL_TEXT_BYTES_MAX);
        for end in 0..bytes.len() {
            assert!(PeerRefusal::decode(&bytes[..end]).is_err());
        }
        let text = "a\nb\x1b[31m".to_string();
        let read = PeerRefusal::decode(&payload(&Refusal::Other { text })).unwrap();
        assert_eq!(read.text, "a\u{fffd}b\u{fffd}[31m");
        let mut long = vec![0, 10];
        long.put_counted(&[b'a'; REFUSAL_TEXT_BYTES_MAX + 1]);
        assert!(PeerRefusal::decode(&long).is_err());
    }
}
