//! The calls that the host makes itself: their origins name what makes them in place of a client's
//! connection, and their responses go back to it.

use crate::connection::ConnectionKey;

/// No connection has this slot.
const OWN_SLOT: u32 = u32::MAX;

/// What makes a call, other than a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnCall {
    /// A load inside a site's thread (`inner_load`).
    Load,
    /// A non-transactional or compound procedure in Java.
    Procedure,
    /// A task of the schema.
    Task,
    /// A restore of a snapshot.
    Restore,
    /// A snapshot: the transaction whose state it saves.
    Snapshot,
    /// A step of an index build.
    IndexBuild,
    /// A deletion of expired rows.
    Expiry,
    /// Queries of `EXPLAIN ANALYZE`.
    Analysis,
    /// A system procedure that each host of the cluster answers for itself.
    EachHost,
}

impl OwnCall {
    const ALL: [OwnCall; 9] = [
        OwnCall::Load,
        OwnCall::Procedure,
        OwnCall::Task,
        OwnCall::Restore,
        OwnCall::Snapshot,
        OwnCall::IndexBuild,
        OwnCall::Expiry,
        OwnCall::Analysis,
        OwnCall::EachHost,
    ];

    /// What origins of such calls have in place of a connection.
    #[inline]
    pub const fn key(self) -> ConnectionKey {
        ConnectionKey { place: OWN_SLOT, generation: self as u32 }
    }

    /// What made a call with this in place of a connection; `None` for a client.
    #[inline]
    pub fn of(key: ConnectionKey) -> Option<OwnCall> {
        match key.place {
            OWN_SLOT => OwnCall::ALL.get(key.generation as usize).copied(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_what_makes_a_call() {
        for own in OwnCall::ALL {
            assert_eq!(OwnCall::of(own.key()), Some(own));
        }
        assert_eq!(OwnCall::of(ConnectionKey { place: 0, generation: 0 }), None);
        assert_eq!(OwnCall::of(ConnectionKey { place: OWN_SLOT, generation: 9 }), None);
    }
}
