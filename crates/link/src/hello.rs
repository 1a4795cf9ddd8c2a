//! The hello, the first frame of each side: who the sender is, which host it addresses, and the
//! state of the session.
//!
//! ```text
//! cluster            16
//! from, to        4 + 4  host ids of the sender and of the host that it addresses
//! incarnation         8  of the sender's process
//! process             8  random bits of the sender's process
//! version             2  in a reply, the version that is spoken from now on; else 0
//! resumed             1  in a reply, 1 if the session of the hello is resumed; else 0
//! dial                8  how often the sender has dialed this peer; a hello has the number of its
//!                        own connection
//! seen            8 + 8  incarnation of the peer and number of its latest dial that the sender
//!                        has seen; a reply has those of the hello
//! session     4 + 8 + 8  host and incarnation that began the session, and its number there; zeros
//!                        for none. A hello has the session that the sender is in, a reply the
//!                        one that both are in from now on
//! received            8  the number of the last message of the session that the sender has
//!                        delivered
//! frame_bytes_max     4  the longest payload that the sender takes
//! clock readings     32  see `frame.rs`
//! name, release          texts after their lengths (varints)
//! ```
//!
//! What follows is of a later version, and skipped.

use crate::clock::Stamp;
use crate::error::Malformed;
use crate::frame::VersionRange;
use crate::limits::{FRAME_BYTES_MIN, LimitError};
use crate::refusal::{Refusal, printable};
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_types::HostId;
use std::fmt;

/// The longest payload of a hello, its reply or a refusal, in bytes.
pub const HELLO_BYTES_MAX: u32 = 2048;
/// The longest name of a host, in bytes.
pub const HOST_NAME_BYTES_MAX: usize = 255;
/// The longest name of a release, in bytes.
pub const RELEASE_BYTES_MAX: usize = 64;

/// Names a cluster: random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The identity of a host, which its hello carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostIdentity {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its id in the cluster.
    pub host: HostId,
    /// The run of its process, from 1. A later run has a greater one.
    pub incarnation: u64,
    /// Random bits, drawn when the process starts. By them two processes are distinguished that
    /// have the same incarnation by mistake, because one runs on a copy of the other's directory.
    pub process: u64,
    /// Its name in messages, at most [`HOST_NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its release, at most [`RELEASE_BYTES_MAX`] bytes.
    pub release: String,
    /// The versions of the protocol that it speaks: [`VersionRange::SUPPORTED`], but in tests of
    /// mixed releases.
    pub versions: VersionRange,
}

impl HostIdentity {
    /// Checks the lengths of the texts, the incarnation and the versions.
    pub fn check(&self) -> Result<(), LimitError> {
        let VersionRange { min, max } = self.versions;
        let (name, release) = (self.name.len() as u64, self.release.len() as u64);
        LimitError::check("length of the host name", name, 0, HOST_NAME_BYTES_MAX as u64)?;
        LimitError::check("length of the release", release, 0, RELEASE_BYTES_MAX as u64)?;
        LimitError::check("incarnation", self.incarnation, 1, u64::MAX)?;
        LimitError::check("oldest version", u64::from(min), 1, u64::from(max))
    }
}

/// A session between two hosts: the run of numbers that messages have. The host that accepted its
/// first connection names it. No two sessions of a pair of hosts have the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId {
    /// The host that named it.
    pub host: HostId,
    /// The run of that host's process.
    pub incarnation: u64,
    /// The number of the session in that run, from 1.
    pub number: u64,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SessionId { host, incarnation, number } = self;
        write!(f, "{number} of incarnation {incarnation} of host {host}")
    }
}

/// The first frame of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The sender's cluster.
    pub cluster: ClusterId,
    /// The sender.
    pub from: HostId,
    /// The host that the sender addresses.
    pub to: HostId,
    /// The run of the sender's process.
    pub incarnation: u64,
    /// Random bits of the sender's process.
    pub process: u64,
    /// The sender's name in messages.
    pub name: String,
    /// The sender's release.
    pub release: String,
    pub(crate) version: u16,
    pub(crate) resumed: bool,
    pub(crate) dial: u64,
    pub(crate) seen: SeenDial,
    pub(crate) session: Option<SessionId>,
    pub(crate) received: u64,
    pub(crate) frame_bytes_max: u32,
    pub(crate) stamp: Stamp,
}

/// The latest dial of a peer that a host has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SeenDial {
    pub incarnation: u64,
    pub dial: u64,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        let put_u64 =
            |bytes: &mut Vec<u8>, value: u64| bytes.extend_from_slice(&value.to_be_bytes());
        let put_u32 =
            |bytes: &mut Vec<u8>, value: u32| bytes.extend_from_slice(&value.to_be_bytes());
        bytes.extend_from_slice(&self.cluster.0);
        put_u32(&mut bytes, self.from.0);
        put_u32(&mut bytes, self.to.0);
        put_u64(&mut bytes, self.incarnation);
        put_u64(&mut bytes, self.process);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.put_u8(u8::from(self.resumed));
        put_u64(&mut bytes, self.dial);
        put_u64(&mut bytes, self.seen.incarnation);
        put_u64(&mut bytes, self.seen.dial);
        let none = SessionId { host: HostId(0), incarnation: 0, number: 0 };
        let session = self.session.unwrap_or(none);
        put_u32(&mut bytes, session.host.0);
        put_u64(&mut bytes, session.incarnation);
        put_u64(&mut bytes, session.number);
        put_u64(&mut bytes, self.received);
        put_u32(&mut bytes, self.frame_bytes_max);
        self.stamp.put(&mut bytes);
        bytes.put_counted(self.name.as_bytes());
        bytes.put_counted(self.release.as_bytes());
        bytes
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Hello, Malformed> {
        let mut reader = ByteReader::new(payload);
        let wrong = |field| move |_: EndOfBytes| Malformed(field);
        let cluster = reader.take(16).map_err(wrong("cluster"))?;
        let cluster = ClusterId(cluster.try_into().map_err(|_| Malformed("cluster"))?);
        let from = HostId(reader.u32().map_err(wrong("host id"))?);
        let to = HostId(reader.u32().map_err(wrong("id of the addressed host"))?);
        let incarnation = reader.u64().map_err(wrong("incarnation"))?;
        if incarnation == 0 {
            return Err(Malformed("incarnation, which is 0"));
        }
        let process = reader.u64().map_err(wrong("bits of the process"))?;
        let version = reader.i16().map_err(wrong("version"))?.cast_unsigned();
        let resumed = match reader.u8() {
            Ok(flag @ 0..=1) => flag == 1,
            _ => return Err(Malformed("mark of a resumed session")),
        };
        let dial = reader.u64().map_err(wrong("number of the dial"))?;
        let seen = SeenDial {
            incarnation: reader.u64().map_err(wrong("incarnation of the peer"))?,
            dial: reader.u64().map_err(wrong("number of the peer's dial"))?,
        };
        let session = SessionId {
            host: HostId(reader.u32().map_err(wrong("host of the session"))?),
            incarnation: reader.u64().map_err(wrong("incarnation of the session"))?,
            number: reader.u64().map_err(wrong("number of the session"))?,
        };
        let received = reader.u64().map_err(wrong("received position"))?;
        let frame_bytes_max = reader.u32().map_err(wrong("longest frame"))?;
        if frame_bytes_max < FRAME_BYTES_MIN {
            return Err(Malformed("longest frame, which is below the least limit"));
        }
        let stamp = Stamp::read(&mut reader)?;
        let name = read_text(&mut reader, HOST_NAME_BYTES_MAX).ok_or(Malformed("host name"))?;
        let release = read_text(&mut reader, RELEASE_BYTES_MAX).ok_or(Malformed("release"))?;
        let session = (session.number > 0).then_some(session);
        Ok(Hello {
            cluster,
            from,
            to,
            incarnation,
            process,
            name,
            release,
            version,
            resumed,
            dial,
            seen,
            session,
            received,
            frame_bytes_max,
            stamp,
        })
    }

    /// Checks that the sender belongs to the same cluster and addresses this host. Callers may
    /// check this before they search for the link of the sender.
    pub fn check(&self, identity: &HostIdentity) -> Result<(), Refusal> {
        if self.cluster != identity.cluster {
            return Err(Refusal::WrongCluster { ours: identity.cluster, theirs: self.cluster });
        }
        if self.to != identity.host {
            return Err(Refusal::WrongHost { expected: self.to, found: identity.host });
        }
        if self.from == identity.host {
            return Err(Refusal::DuplicateHost {
                host: identity.host,
                newest: identity.incarnation,
                refused: self.incarnation,
            });
        }
        Ok(())
    }
}

fn read_text(reader: &mut ByteReader<'_>, bytes_max: usize) -> Option<String> {
    let bytes = reader.counted().ok().filter(|bytes| bytes.len() <= bytes_max)?;
    Some(printable(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockReading;

    fn sample() -> Hello {
        Hello {
            cluster: ClusterId([7; 16]),
            from: HostId(1),
            to: HostId(2),
            incarnation: 3,
            process: 33,
            name: "a".to_string(),
            release: "0.1.0".to_string(),
            version: 1,
            resumed: true,
            dial: 4,
            seen: SeenDial { incarnation: 5, dial: 6 },
            session: Some(SessionId { host: HostId(2), incarnation: 5, number: 8 }),
            received: 9,
            frame_bytes_max: 1000,
            stamp: Stamp { sent: ClockReading { monotonic_us: 10, wall_us: 11 }, echo: None },
        }
    }

    fn identity() -> HostIdentity {
        HostIdentity {
            cluster: ClusterId([7; 16]),
            host: HostId(2),
            incarnation: 5,
            process: 55,
            name: "b".to_string(),
            release: "0.1.0".to_string(),
            versions: VersionRange::SUPPORTED,
        }
    }

    #[test]
    fn a_hello_is_read_back_and_every_cut_is_an_error() {
        for session in [None, sample().session] {
            let hello = Hello { session, ..sample() };
            let bytes = hello.encode();
            assert_eq!(Hello::decode(&bytes), Ok(hello.clone()));
            for end in 0..bytes.len() {
                assert!(Hello::decode(&bytes[..end]).is_err(), "{end}");
            }
            let mut longer = bytes;
            longer.extend_from_slice(b"what a later version appends");
            assert_eq!(Hello::decode(&longer), Ok(hello));
        }
        let long = Hello { name: "n".repeat(HOST_NAME_BYTES_MAX + 1), ..sample() };
        assert_eq!(Hello::decode(&long.encode()), Err(Malformed("host name")));
        let none = Hello { incarnation: 0, ..sample() };
        assert_eq!(Hello::decode(&none.encode()), Err(Malformed("incarnation, which is 0")));
        let short = Hello { frame_bytes_max: FRAME_BYTES_MIN - 1, ..sample() };
        assert!(Hello::decode(&short.encode()).is_err());
    }

    #[test]
    fn the_longest_hello_is_within_its_limit() {
        let (name, release) = ("n".repeat(HOST_NAME_BYTES_MAX), "r".repeat(RELEASE_BYTES_MAX));
        let longest = Hello { name: name.clone(), release, ..sample() };
        assert!(longest.encode().len() * 2 < HELLO_BYTES_MAX as usize, "with space for more");
        let mut host = HostIdentity { name, ..identity() };
        assert_eq!(host.check(), Ok(()));
        host.name.push('n');
        let error = host.check().unwrap_err().to_string();
        assert_eq!(error, "length of the host name of the link is 256: it must be 0 to 255");
        assert!(HostIdentity { incarnation: 0, ..identity() }.check().is_err());
        let versions = VersionRange { min: 2, max: 1 };
        assert!(HostIdentity { versions, ..identity() }.check().is_err());
    }

    #[test]
    fn a_hello_of_another_cluster_or_for_another_host_is_refused() {
        assert_eq!(sample().check(&identity()), Ok(()));
        let other = Hello { cluster: ClusterId([8; 16]), ..sample() };
        let refusal = other.check(&identity()).unwrap_err().to_string();
        assert!(refusal.contains(&"07".repeat(16)) && refusal.contains(&"08".repeat(16)));
        let other = Hello { to: HostId(3), ..sample() };
        let refusal = other.check(&identity()).unwrap_err().to_string();
        assert!(refusal.starts_with("the connection is for host 3, and host 2 is"), "{refusal}");
        let same = Hello { from: HostId(2), incarnation: 6, ..sample() };
        let refusal = same.check(&identity()).unwrap_err().to_string();
        assert!(refusal.contains("host id 2: incarnation 5 is taken, incarnation 6"), "{refusal}");
    }
}
