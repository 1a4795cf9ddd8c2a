//! One other host: the socket to it under its link.

use super::terms::SaidWithTerms;
use super::watch::Watch;
use super::{ClusterTerms, TERMS, frame};
use crate::host_message::HostMessage;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::other_host::OtherHost;
use lockstep_link::{
    Accepting, ClockReading, HostIdentity, LimitError, Link, LinkError, LinkLimits, OfferError,
    Refusal,
};
use lockstep_types::HostId;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Token};
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

/// Between two attempts to connect. The host with the greater number gives the other time to.
const DIAL_EVERY_US: u64 = 100_000;
/// How long a connection may take until the hellos are exchanged.
const CONNECT_TIMEOUT_US: u64 = 2_000_000;
/// Between two heartbeats.
const BEAT_EVERY_US: u64 = 50_000;
/// The pieces of one vectored write.
const SLICES: usize = 64;
/// The most bytes that are copied to be written as one: a vectored write costs more than that.
const GATHERED_BYTES: usize = 4096;

/// Another host.
pub(super) struct Peer {
    pub(super) host_id: HostId,
    pub(super) link: Link,
    /// Where it listens; none where this host only knows that it connects.
    address: Option<SocketAddr>,
    /// The connection, and whether it is known to be made.
    stream: Option<(TcpStream, bool)>,
    dialed_us: i64,
    beat_us: i64,
    /// When something was heard of the host, as far as is known.
    heard_us: i64,
    can_read: bool,
    /// The other side has ended, or there is an error: what is left is read to the end.
    read_closed: bool,
    can_write: bool,
    /// It has the same terms.
    pub(super) has_agreed: bool,
    /// Which of its messages are taken.
    pub(super) other: OtherHost<Box<HostMessage>>,
    /// When its cluster was created, as it has said.
    pub(super) created_ms: Option<i64>,
    /// Memory of what is written.
    gathered: Vec<u8>,
    /// A message that the link has no room for.
    held: Option<Box<HostMessage>>,
    /// Only a refusal is still to be written.
    is_closing: bool,
    own_host: HostId,
    /// Why the last attempt to connect brought no connection.
    problem: String,
}

impl Peer {
    pub(super) fn new(
        identity: HostIdentity,
        host: HostId,
        address: Option<SocketAddr>,
        limits: LinkLimits,
    ) -> Result<Peer, LimitError> {
        let own_host = identity.host;
        Ok(Peer {
            host_id: host,
            link: Link::new(identity, host, limits)?,
            address,
            stream: None,
            dialed_us: 0,
            beat_us: 0,
            heard_us: 0,
            can_read: false,
            read_closed: false,
            can_write: false,
            has_agreed: false,
            other: OtherHost::default(),
            created_ms: None,
            gathered: Vec::new(),
            held: None,
            is_closing: false,
            own_host,
            problem: "no attempt has ended yet".to_string(),
        })
    }

    pub(super) fn host(&self) -> HostId {
        self.host_id
    }

    /// Where it listens, once that is known.
    pub(super) fn listens_at(&mut self, address: SocketAddr) {
        self.address = Some(address);
    }

    fn token(&self) -> Token {
        Token(self.host_id.0 as usize)
    }

    /// Whether the hosts are connected and have the same terms.
    pub(super) fn agrees(&self) -> bool {
        self.has_agreed && self.link.is_connected()
    }

    /// What is still missing until the hosts are connected and have the same terms; `None` once
    /// they are. The host is named as given.
    pub(super) fn missing(&self, name: &str) -> Option<String> {
        let address = self
            .address
            .map_or("an address that is not known yet".into(), |address| address.to_string());
        match (self.link.is_connected(), self.has_agreed) {
            (true, true) => None,
            (true, false) => Some(format!("{name} at {address}: connected, no terms yet")),
            _ => Some(format!("{name} at {address}: no connection ({})", self.problem)),
        }
    }

    /// How long nothing was heard of the host.
    pub(super) fn unheard(&mut self, now: ClockReading) -> Elapsed {
        if let Some(heard_us) = self.link.last_heard_us() {
            self.heard_us = heard_us;
        }
        Elapsed::between_us(self.heard_us, now.monotonic_us)
    }

    /// Whether a message waits for room.
    pub(super) fn is_held_up(&self) -> bool {
        self.held.is_some() || self.other.is_full()
    }

    /// Closes a connection that brought nothing for long, so that the next one is made as soon as
    /// the network is there again. The session stays.
    pub(super) fn drop_silent(&mut self, limit_us: u64, watch: &Watch, now: ClockReading) {
        if self.link.is_connected() && self.unheard(now).us() > limit_us {
            tracing::debug!(host = %self.host_id, "a connection is silent: connect again");
            self.close(watch);
        }
    }

    /// Connects, where there is no connection and it is time to.
    pub(super) fn dial_in_time(&mut self, watch: &Watch, now: ClockReading) {
        let patience = if self.own_host < self.host_id { 1 } else { 3 };
        let waited = Elapsed::between_us(self.dialed_us, now.monotonic_us).us();
        let is_pending = self.stream.is_some() && !self.link.is_connected();
        if is_pending && waited > CONNECT_TIMEOUT_US {
            let what = if self.link.has_connection() { "reply to the hello" } else { "answer" };
            self.problem = format!("no {what} in {} ms", CONNECT_TIMEOUT_US / 1_000);
            self.close(watch);
        }
        if self.stream.is_some() || waited < patience * DIAL_EVERY_US {
            return;
        }
        let Some(address) = self.address else { return };
        self.dialed_us = now.monotonic_us;
        let mut stream = match TcpStream::connect(address) {
            Ok(stream) => stream,
            Err(error) => return self.problem = error.to_string(),
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if watch.registry().register(&mut stream, self.token(), interest).is_ok() {
            self.stream = Some((stream, false));
        }
    }

    /// Takes a connection that the other host has made.
    pub(super) fn accept(
        &mut self,
        mut stream: TcpStream,
        accepting: Accepting,
        watch: &Watch,
        now: ClockReading,
    ) -> Result<(), Refusal> {
        if let Err(refusal) = self.link.accept(accepting, now) {
            self.problem = refusal.to_string();
            // A fresh socket takes so little; if not, the peer sees the close alone.
            let _ = stream.write(&refusal.to_bytes(lockstep_link::VersionRange::SUPPORTED));
            return Err(refusal);
        }
        self.drop_stream(watch);
        let set_up = watch.add_connection(&mut stream, self.host_id);
        if set_up.and_then(|()| stream.set_nodelay(true)).is_err() {
            self.link.disconnected();
            return Ok(());
        }
        self.stream = Some((stream, true));
        (self.can_read, self.can_write, self.is_closing) = (true, true, false);
        self.read_closed = false;
        Ok(())
    }

    /// The other host may have sent something.
    pub(super) fn look(&mut self) {
        self.can_read |= self.stream.as_ref().is_some_and(|(_, is_made)| *is_made);
    }

    /// The socket is ready for something.
    pub(super) fn note_event(&mut self, event: &Event, watch: &Watch, now: ClockReading) {
        let host = self.host_id;
        let Some((stream, is_made)) = &mut self.stream else { return };
        if !*is_made {
            if !event.is_writable() && !event.is_error() {
                return;
            }
            let failed = stream.take_error().unwrap_or_else(Some);
            let failed = failed.or_else(|| stream.peer_addr().err());
            let failed = failed.or_else(|| stream.set_nodelay(true).err());
            if let Some(error) = failed.or_else(|| watch.add_connection(stream, host).err()) {
                self.problem = error.to_string();
                self.stream = None;
                return;
            }
            if self.link.dialed(now).is_err() {
                self.stream = None;
                return;
            }
            *is_made = true;
        }
        self.can_read |= event.is_readable() || event.is_error() || event.is_read_closed();
        self.can_write |= event.is_writable();
        self.read_closed |= event.is_error() || event.is_read_closed();
    }

    /// Reads from the socket, if all that was read before is taken; whether there is more for the
    /// link.
    pub(super) fn read(&mut self) -> bool {
        while self.can_read && !self.is_closing {
            let Some((stream, true)) = &mut self.stream else { return false };
            let space = self.link.read_space();
            let room = space.len();
            match stream.read(space) {
                Ok(0) => self.disconnect(),
                Ok(count) => {
                    self.link.filled(count);
                    // With edge-triggered readiness the next bytes bring a new event.
                    self.can_read = count == room || self.read_closed;
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.can_read = false,
                Err(_) => self.disconnect(),
            }
        }
        false
    }

    /// The link has found something wrong: what it still has to write is written, then the
    /// connection is closed.
    pub(super) fn fail(&mut self, error: &LinkError) {
        self.is_closing = true;
        self.problem = error.to_string();
    }

    /// The other host hears the terms, and which placement this one goes by: they are the first
    /// message of a session, and come again where both hosts take part again.
    ///
    /// # Errors
    /// The other host takes only shorter messages.
    pub(super) fn send_terms(
        &mut self,
        (terms, said): (&ClusterTerms, SaidWithTerms),
        now: ClockReading,
    ) -> Result<(), String> {
        let offered = self.link.offer(now, |out| {
            out.extend_from_slice(&[TERMS, 0]);
            terms.write(said, out);
        });
        match offered {
            // Without a session the next one begins with them.
            Ok(_) | Err(OfferError::NoSession) => self.other.note_epoch_sent(),
            Err(OfferError::Full { .. }) => {}
            Err(error) => return Err(format!("it does not take the terms: {error}")),
        }
        Ok(())
    }

    /// A session has begun.
    pub(super) fn note_session(&mut self) {
        self.other.begin_session();
    }

    /// The session is over before the cluster was formed.
    pub(super) fn ends_session(&mut self) {
        (self.has_agreed, self.held) = (false, None);
    }

    /// The session with a host that serves is over, and so messages are lost. Whether that is news.
    pub(super) fn is_cut_off(&mut self) -> bool {
        self.ends_session();
        self.other.end_session()
    }

    /// The host is lost: what waits for it is dropped.
    pub(super) fn go_out(&mut self, watch: &Watch) {
        self.held = None;
        self.other.go_out();
        self.link.end_session();
        self.close(watch);
    }

    /// Sends what may be lost.
    pub(super) fn send_datagram(&mut self, bytes: &[u8]) {
        // Without a connection, or with too many that wait, it is lost.
        let _ = self.link.offer_datagram(|out| out.extend_from_slice(bytes));
    }

    fn disconnect(&mut self) {
        self.stream = None;
        (self.can_read, self.can_write, self.is_closing) = (false, false, false);
        self.read_closed = false;
        self.link.disconnected();
    }

    fn drop_stream(&mut self, watch: &Watch) {
        if let Some((mut stream, _)) = self.stream.take() {
            // Deregistering fails only for a socket that is gone already.
            let _ = watch.registry().deregister(&mut stream);
        }
    }

    /// Closes the connection.
    pub(super) fn close(&mut self, watch: &Watch) {
        self.drop_stream(watch);
        self.disconnect();
    }

    /// Takes a message for a thread of the host, as soon as both hosts know that they take part.
    /// The message if the link has copied it.
    pub(super) fn offer(
        &mut self,
        message: Box<HostMessage>,
        now: ClockReading,
    ) -> Option<Box<HostMessage>> {
        self.other.send(message).and_then(|message| self.offer_now(message, now))
    }

    fn offer_now(
        &mut self,
        message: Box<HostMessage>,
        now: ClockReading,
    ) -> Option<Box<HostMessage>> {
        assert!(self.held.is_none(), "nothing is taken while a message waits for room");
        let offered = self.link.offer(now, |out| frame::put(out, &message));
        match offered {
            Ok(_) => return Some(message),
            Err(OfferError::Full { .. }) => self.held = Some(message),
            // No wait helps: what expects an answer to it ends with the session.
            Err(error) => {
                tracing::error!(host = %self.host_id, %error, "a message cannot be sent");
                self.link.end_session();
            }
        }
        None
    }

    /// Offers the message again that had no room, and what has waited.
    pub(super) fn offer_held(&mut self, now: ClockReading) {
        if let Some(message) = self.held.take() {
            self.offer_now(message, now);
        }
        while self.held.is_none() {
            let Some(message) = self.other.next_waiting() else { return };
            self.offer_now(message, now);
        }
    }

    /// Shows the other host that this one is there.
    pub(super) fn beat_in_time(&mut self, now: ClockReading) {
        let waited = Elapsed::between_us(self.beat_us, now.monotonic_us).us();
        if self.link.is_connected() && waited >= BEAT_EVERY_US {
            self.beat_us = now.monotonic_us;
            // Where it finds no room, those before it are on their way.
            let _ = self.link.offer_heartbeat(|_| {});
        }
    }

    /// Writes what the socket takes.
    pub(super) fn write(&mut self, now: ClockReading) {
        while self.can_write && self.link.wants_to_write(now) {
            let Some((stream, true)) = &mut self.stream else { return };
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.link.write_slices(now, &mut slices);
            if count == 0 {
                break;
            }
            match write_slices(stream, &slices[..count], &mut self.gathered) {
                Ok(written) => self.link.wrote(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.can_write = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.disconnect(),
            }
        }
        if self.is_closing && !self.link.wants_to_write(now) {
            self.disconnect();
        }
    }
}

/// Writes slices: few bytes as one, for which the system takes less time.
fn write_slices(
    stream: &mut TcpStream,
    slices: &[IoSlice<'_>],
    gathered: &mut Vec<u8>,
) -> io::Result<usize> {
    let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
    if bytes > GATHERED_BYTES {
        return stream.write_vectored(slices);
    }
    gathered.clear();
    slices.iter().for_each(|slice| gathered.extend_from_slice(slice));
    stream.write(gathered)
}
