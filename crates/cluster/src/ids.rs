//! Numbers of the control plane.

use lockstep_base::bytes::{ByteReader, EndOfBytes};
use lockstep_types::HostId;
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// The number of a cluster, drawn when it is formed. Messages of another cluster are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ClusterId(pub [u8; 16]);

impl ClusterId {
    /// Its length in bytes.
    pub(crate) const BYTES: usize = 16;

    /// Reads the number; all zeros are no cluster.
    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Option<ClusterId>, EndOfBytes> {
        let bytes = input.take(Self::BYTES)?.try_into().expect("as many were taken");
        Ok(Some(ClusterId(bytes)).filter(|cluster| *cluster != ClusterId::default()))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

number!(
    /// The number of a configuration of leaders and followers; it only grows. 0 is before the
    /// first placement.
    Epoch
);
number!(
    /// One run of a host's process; it only grows. From 1 to [`Incarnation::LIMIT`] - 1, so that
    /// milliseconds since 1970 fit.
    Incarnation
);

impl Incarnation {
    /// One more than the greatest incarnation.
    pub const LIMIT: u64 = 1 << 48;
}

impl Epoch {
    /// The next epoch.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// One more than the greatest number of a host or witness.
pub const HOST_LIMIT: u32 = 1024;

/// The identity of a voter or learner: the host with the incarnation in which it joined without
/// any Raft state. A process that has its Raft state keeps the identity; one that lost it has
/// another, so that it never votes twice in one term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RaftId(u64);

impl RaftId {
    const INCARNATION_BITS: u32 = 48;

    /// The identity of a host that joins in an incarnation; `None` if one of them is out of range.
    pub fn new(host: HostId, joined_in: Incarnation) -> Option<RaftId> {
        let in_range = host.0 < HOST_LIMIT && (1..Incarnation::LIMIT).contains(&joined_in.0);
        in_range.then(|| RaftId(u64::from(host.0) << Self::INCARNATION_BITS | joined_in.0))
    }

    /// The identity with a number that was read; `None` if no member can have it.
    pub fn from_number(number: u64) -> Option<RaftId> {
        let host = HostId((number >> Self::INCARNATION_BITS) as u32);
        RaftId::new(host, Incarnation(number & (Incarnation::LIMIT - 1)))
    }

    /// The identity as the number that the Raft library uses; never 0.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The host.
    pub fn host(self) -> HostId {
        HostId((self.0 >> Self::INCARNATION_BITS) as u32)
    }

    /// The incarnation in which the host joined.
    pub fn joined_in(self) -> Incarnation {
        Incarnation(self.0 & (Incarnation::LIMIT - 1))
    }
}

impl fmt::Display for RaftId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.host(), self.joined_in())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raft_id_is_host_and_incarnation_and_never_zero() {
        let id = RaftId::new(HostId(0), Incarnation(1)).expect("in range");
        assert_eq!((id.host(), id.joined_in(), id.number()), (HostId(0), Incarnation(1), 1));
        let id = RaftId::new(HostId(1023), Incarnation(Incarnation::LIMIT - 1)).expect("in range");
        assert_eq!(RaftId::from_number(id.number()), Some(id));
        assert_eq!(RaftId::new(HostId(0), Incarnation(0)), None);
        assert_eq!(RaftId::new(HostId(HOST_LIMIT), Incarnation(1)), None);
        assert_eq!(RaftId::new(HostId(0), Incarnation(Incarnation::LIMIT)), None);
        assert_eq!(RaftId::from_number(u64::MAX), None);
        assert_eq!(RaftId::from_number(0), None);
    }
}
