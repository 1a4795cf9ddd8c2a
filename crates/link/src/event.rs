//! What a link reports to its caller.

use crate::hello::SessionId;
use lockstep_types::HostId;

/// The next thing that happened. Its bytes are those of the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A session is over. Its messages that were not delivered are dropped, on both sides.
    SessionEnded {
        /// The session.
        session: SessionId,
    },
    /// A session has begun: from now on messages may be offered, and all that are delivered are
    /// of it.
    SessionBegan {
        /// The session.
        session: SessionId,
    },
    /// The hellos were exchanged. [`crate::Link::peer`] describes the peer.
    Connected {
        /// Whether the session was resumed. Otherwise it has begun with this connection.
        resumed: bool,
    },
    /// The next ordered message. It counts as delivered from now on.
    Message {
        /// Its number in the session, from 1.
        number: u64,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A datagram.
    Datagram(&'a [u8]),
    /// A heartbeat, with the bytes that the peer's caller put into it.
    Heartbeat(&'a [u8]),
}

/// The peer, from its hello at the latest connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub host: HostId,
    /// The run of its process.
    pub incarnation: u64,
    /// Its name in messages.
    pub name: String,
    /// Its release.
    pub release: String,
    /// The version of the protocol that both speak.
    pub version: u16,
}

/// The messages that the peer has not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// The number of messages, queued or sent.
    pub messages: u64,
    /// Their bytes, with 4 for the length of each. A frame of which the peer has delivered a part
    /// counts whole.
    pub bytes: u64,
}

/// Counts since the link was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Frames that were written as a whole.
    pub frames_written: u64,
    /// Messages that were written again after a reconnect, because the peer had not delivered them.
    pub messages_resent: u64,
    /// Datagrams and heartbeats that were dropped, because of the limits or without a connection.
    pub datagrams_dropped: u64,
    /// Connections on which the hellos were exchanged.
    pub connections: u64,
    /// Sessions that have begun.
    pub sessions: u64,
}
