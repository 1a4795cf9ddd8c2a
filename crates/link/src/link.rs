//! One end of a link: the session with one other host, and its connection if there is one.
//!
//! **Connections.** There is one at a time. Either host may dial, and each numbers its dials. An
//! accepted connection replaces the present one, because a host dials only when it has none, with
//! these exceptions:
//!
//! * An older one than the newest that was seen from the same process is refused.
//! * If the accepting host has dialed as well, and the other had not seen that dial when it sent
//!   its hello, both have dialed at once. Then the dial of the host with the lower id survives:
//!   that host refuses, the other one accepts.
//!
//! **Sessions.** The host that accepts names them. The hello has the session that its sender is
//! in. If the accepting host is in the same one, it resumes it; else it begins another, and its
//! reply names that. So a session ends when one of the two processes was restarted or has ended
//! it, and no message of it is delivered afterwards.
//!
//! **Positions.** The hello and its reply have the number of the last message that their sender
//! has delivered to its caller. At that time neither side has an open connection on which it
//! could deliver more: so each side sends exactly what follows.

mod receiving;
mod sending;

use crate::accepting::Accepting;
use crate::clock::{ClockReading, ClockSamples};
use crate::datagrams::Datagrams;
use crate::error::AlreadyConnected;
use crate::event::Peer;
use crate::faults::LinkFaults;
use crate::frame::{FrameKind, Header, put_frame, put_preamble};
use crate::hello::{HELLO_BYTES_MAX, Hello, HostIdentity, SeenDial, SessionId};
use crate::limits::{LimitError, LinkLimits};
use crate::output::Output;
use crate::receive_buffer::ReceiveBuffer;
use crate::refusal::Refusal;
use crate::send_buffer::SendBuffer;
use lockstep_types::HostId;

/// The state of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// There is none.
    None,
    /// The hello was sent. The version is known once the peer's preamble has come.
    Dialing { version: Option<u16> },
    /// The hellos were exchanged.
    Open,
    /// Only a refusal is still to be written.
    Closing,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    id: SessionId,
    peer_incarnation: u64,
    /// The number of the last message that was delivered.
    received: u64,
}

/// Events that do not come from the receive buffer, in their order.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    ended: Option<SessionId>,
    began: Option<SessionId>,
    connected: Option<bool>,
}

/// One end of a link. It does no I/O: the caller moves the bytes, passes the time in, and takes the
/// events. The head of the crate has an example.
///
/// A process makes one link for each peer and keeps it, also while the peer is down: the numbers of
/// dials and sessions are counted in it.
#[derive(Debug)]
pub struct Link {
    identity: HostIdentity,
    peer_host: HostId,
    limits: LinkLimits,
    faults: LinkFaults,
    connection: Connection,
    /// The number of the dial that the connection comes from, if this host has dialed.
    dialed: Option<u64>,
    dials: u64,
    seen: SeenDial,
    /// Random bits of the process that `seen` is of.
    seen_process: u64,
    peer: Option<Peer>,
    session: Option<Session>,
    sessions_named: u64,
    pending: Pending,
    has_pending: bool,
    receive: ReceiveBuffer,
    header: Option<Header>,
    /// Bytes of the frame of messages that are not delivered yet.
    undelivered: usize,
    /// When the first message was delivered that no header has acknowledged, and their bytes.
    delivered_us: i64,
    delivered_bytes: u64,
    heard_us: Option<i64>,
    send: SendBuffer,
    datagrams: Datagrams,
    datagram_bytes_max: u32,
    output: Output,
    clock: ClockSamples,
    connections: u64,
    sessions: u64,
}

impl Link {
    /// The end at the host `identity` of its link to another host, `peer`; no session, no
    /// connection. Panics if the peer is the host itself.
    pub fn new(
        identity: HostIdentity,
        peer: HostId,
        limits: LinkLimits,
    ) -> Result<Link, LimitError> {
        identity.check()?;
        limits.check()?;
        assert_ne!(identity.host, peer, "a host has no link to itself");
        Ok(Link {
            identity,
            peer_host: peer,
            limits,
            faults: LinkFaults::default(),
            connection: Connection::None,
            dialed: None,
            dials: 0,
            seen: SeenDial::default(),
            seen_process: 0,
            peer: None,
            session: None,
            sessions_named: 0,
            pending: Pending::default(),
            has_pending: false,
            receive: ReceiveBuffer::new(limits.read_bytes),
            header: None,
            undelivered: 0,
            delivered_us: 0,
            delivered_bytes: 0,
            heard_us: None,
            send: SendBuffer::new(limits),
            datagrams: Datagrams::new(&limits),
            datagram_bytes_max: limits.frame_bytes_max,
            output: Output::default(),
            clock: ClockSamples::default(),
            connections: 0,
            sessions: 0,
        })
    }

    /// Breaks the link on purpose.
    #[cfg(feature = "faults")]
    pub fn set_faults(&mut self, faults: LinkFaults) {
        self.faults = faults;
    }
}

/// Connections.
impl Link {
    /// A connection to the peer was made: the link begins with the hello. An error if there is
    /// one already, or a dial waits for its reply: then the caller closes the one just made.
    ///
    /// The caller bounds the time until [`Link::is_connected`]: while the dial of the host with the
    /// lower id waits for its reply, that host refuses the dials of the other one.
    pub fn dialed(&mut self, now: ClockReading) -> Result<(), AlreadyConnected> {
        if self.connection != Connection::None {
            return Err(AlreadyConnected);
        }
        self.dials += 1;
        self.connection = Connection::Dialing { version: None };
        self.dialed = Some(self.dials);
        self.prepare_connection();
        self.put_hello(FrameKind::Hello, 0, false, now);
        Ok(())
    }

    /// A connection was accepted whose hello has come, and is from the peer. From now on the link
    /// uses it, and the caller closes the one that the link had, unread. With an error the link
    /// stays as it is: the caller sends the refusal ([`Refusal::to_bytes`]) and closes the accepted
    /// connection. Nothing may be accepted whose hello has not come.
    pub fn accept(&mut self, accepting: Accepting, now: ClockReading) -> Result<(), Refusal> {
        let parts = accepting.into_parts();
        let (version, hello, receive) = parts.expect("the caller has seen the hello");
        hello.check(&self.identity)?;
        self.check_host(&hello)?;
        self.check_incarnation(&hello)?;
        self.check_dial(&hello)?;
        self.disconnected();
        self.seen = SeenDial { incarnation: hello.incarnation, dial: hello.dial };
        self.seen_process = hello.process;
        let resumed = self.can_resume(&hello);
        if !resumed {
            self.end_session_here();
            self.sessions_named += 1;
            let (host, incarnation) = (self.identity.host, self.identity.incarnation);
            self.begin_session(
                SessionId { host, incarnation, number: self.sessions_named },
                &hello,
            );
        }
        let received = if resumed { hello.received } else { 0 };
        self.prepare_connection();
        self.open(&hello, version, received, resumed, now);
        self.put_hello(FrameKind::HelloReply, version, resumed, now);
        self.receive.append(receive.unread());
        Ok(())
    }

    /// The connection is over: the peer has closed it, or the caller. The session stays. Without
    /// a connection nothing happens.
    pub fn disconnected(&mut self) {
        self.connection = Connection::None;
        self.dialed = None;
        self.receive.clear();
        self.header = None;
        self.undelivered = 0;
        if self.faults.resend_on_reconnect()
            && let Some(session) = &mut self.session
        {
            session.received = session.received.min(self.output.acknowledged());
        }
        self.output.clear();
        self.datagrams.clear();
        // Earlier samples are dropped, because the clocks may have been corrected since.
        self.clock = ClockSamples::default();
        self.heard_us = None;
        self.pending.connected = None;
    }

    /// Ends the connection with a reason, which the peer reports. The caller calls
    /// [`Link::write_slices`] until it gives nothing, then closes the connection and calls
    /// [`Link::disconnected`].
    pub fn refuse(&mut self, refusal: &Refusal) {
        if self.connection == Connection::None || self.connection == Connection::Closing {
            return;
        }
        self.connection = Connection::Closing;
        self.output.add_control(|bytes| refusal.put_frame(bytes));
    }

    /// Whether the hellos were exchanged and the connection is in use.
    pub fn is_connected(&self) -> bool {
        self.connection == Connection::Open
    }

    /// Whether there is a connection, in whatever state.
    pub fn has_connection(&self) -> bool {
        self.connection != Connection::None
    }

    /// The peer, from its hello at the latest connection.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    fn prepare_connection(&mut self) {
        let received = self.session.map_or(0, |session| session.received);
        assert_eq!(self.undelivered, 0, "nothing of an earlier connection is delivered");
        assert!(self.datagrams.is_empty(), "nor sent");
        self.output.begin(received);
        self.delivered_bytes = 0;
    }

    fn put_hello(&mut self, kind: FrameKind, version: u16, resumed: bool, now: ClockReading) {
        let hello = Hello {
            cluster: self.identity.cluster,
            from: self.identity.host,
            to: self.peer_host,
            incarnation: self.identity.incarnation,
            process: self.identity.process,
            name: self.identity.name.clone(),
            release: self.identity.release.clone(),
            version,
            resumed,
            dial: self.dials,
            seen: self.seen,
            session: self.session.map(|session| session.id),
            received: self.session.map_or(0, |session| session.received),
            frame_bytes_max: self.limits.frame_bytes_max,
            stamp: self.clock.stamp(now),
        };
        let (payload, versions) = (hello.encode(), self.identity.versions);
        assert!(payload.len() <= HELLO_BYTES_MAX as usize, "the texts of a hello are bounded");
        self.output.add_control(|bytes| {
            put_preamble(bytes, versions);
            put_frame(bytes, kind, &payload, hello.received);
        });
    }

    fn check_host(&self, hello: &Hello) -> Result<(), Refusal> {
        match hello.from == self.peer_host {
            true => Ok(()),
            false => Err(Refusal::WrongHost { expected: self.peer_host, found: hello.from }),
        }
    }

    fn check_incarnation(&self, hello: &Hello) -> Result<(), Refusal> {
        let (newest, refused) = (self.seen.incarnation, hello.incarnation);
        let is_copy = refused == newest && hello.process != self.seen_process;
        match refused < newest || is_copy {
            false => Ok(()),
            true => Err(Refusal::DuplicateHost { host: hello.from, newest, refused }),
        }
    }

    /// Whether an accepted connection is newer than what is known of the peer's, and than this
    /// host's own.
    fn check_dial(&self, hello: &Hello) -> Result<(), Refusal> {
        let is_known = hello.incarnation == self.seen.incarnation;
        if is_known && hello.dial <= self.seen.dial {
            return Err(Refusal::SupersededDial { dial: hello.dial, newest: self.seen.dial });
        }
        let was_seen = |own: u64| {
            hello.seen.incarnation == self.identity.incarnation && hello.seen.dial >= own
        };
        let is_current = match self.connection {
            Connection::None | Connection::Closing => false,
            Connection::Dialing { .. } => true,
            // A connection to an earlier run of the peer's process is over, whatever was seen.
            Connection::Open => is_known,
        };
        match self.dialed {
            Some(own) if is_current && !was_seen(own) && self.identity.host < self.peer_host => {
                Err(Refusal::SimultaneousDial)
            }
            _ => Ok(()),
        }
    }

    /// The hellos were exchanged.
    fn open(
        &mut self,
        hello: &Hello,
        version: u16,
        received: u64,
        resumed: bool,
        now: ClockReading,
    ) {
        self.peer = Some(Peer {
            host: hello.from,
            incarnation: hello.incarnation,
            name: hello.name.clone(),
            release: hello.release.clone(),
            version,
        });
        let session = self.session.expect("the hellos agree on a session");
        assert_eq!(session.peer_incarnation, hello.incarnation, "it is with this process");
        assert!(!self.is_connected(), "a connection is opened once");
        self.datagram_bytes_max = self.limits.frame_bytes_max.min(hello.frame_bytes_max);
        self.clock.receive(hello.stamp, now);
        self.send.resume_after(received, self.faults);
        self.connection = Connection::Open;
        self.heard_us = Some(now.monotonic_us);
        self.connections += 1;
        self.pending.connected = Some(resumed);
        self.has_pending = true;
    }
}

/// Sessions.
impl Link {
    /// Ends the session, and the connection with it: none of its messages is delivered from now
    /// on, here or at the peer. The caller closes the connection. The next connection begins
    /// another session. Without a session nothing happens but that the connection ends.
    pub fn end_session(&mut self) {
        self.disconnected();
        self.end_session_here();
    }

    /// The session; none before the first connection and after [`Link::end_session`].
    pub fn session(&self) -> Option<SessionId> {
        self.session.map(|session| session.id)
    }

    fn end_session_here(&mut self) {
        let Some(session) = self.session.take() else { return };
        self.send.begin_session(self.limits.frame_bytes_max);
        self.has_pending = true;
        // A session that ends before its event is taken is not reported at all.
        if self.pending.began.take().is_none() {
            assert!(self.pending.ended.is_none(), "one session ends after another has begun");
            self.pending.ended = Some(session.id);
        }
    }

    fn begin_session(&mut self, id: SessionId, hello: &Hello) {
        assert!(self.session.is_none(), "one session begins after another has ended");
        assert!(id.number > 0, "sessions are numbered from 1");
        self.send.begin_session(hello.frame_bytes_max);
        self.session = Some(Session { id, peer_incarnation: hello.incarnation, received: 0 });
        self.pending.began = Some(id);
        self.has_pending = true;
        self.sessions += 1;
    }

    /// Whether the peer is in the same session as this host, at a position that can be sent on
    /// from.
    fn can_resume(&self, hello: &Hello) -> bool {
        self.session.is_some_and(|session| {
            hello.session == Some(session.id)
                && hello.incarnation == session.peer_incarnation
                && self.send.can_resume_after(hello.received)
        })
    }
}
