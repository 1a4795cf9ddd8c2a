//! Many connections with many calls in flight each, on one thread: what load generators use.
//!
//! Calls are encoded straight into a connection's send buffer and written once per batch;
//! responses are read in place; the clock is read once per batch of responses. In steady state
//! nothing is allocated.
//!
//! ```no_run
//! use lockstep_client::{Call, ConnectOptions, ParameterWriter, Pipeline};
//! use std::time::{Duration, Instant};
//!
//! let mut pipeline = Pipeline::new(&ConnectOptions::default())?;
//! let connection = pipeline.connect("127.0.0.1:21212")?;
//! let parameters = ParameterWriter::default();
//! let call = Call::new("@Ping", parameters.bytes(), Instant::now());
//! pipeline.submit(connection, &call)?;
//! // A closed loop: each response submits the next call.
//! pipeline.poll(Duration::from_millis(10), |completion, outgoing| {
//!     let next = Call::new("@Ping", parameters.bytes(), completion.completed_at);
//!     let _ = outgoing.submit(&next);
//! })?;
//! # Ok::<(), lockstep_client::ClientError>(())
//! ```

use crate::buffer::ReceiveBuffer;
use crate::connection::{self, ConnectOptions, Identity, LoggedIn, Notices};
use crate::routing::{Routing, Target};
use crate::{CallOptions, ClientError, Response};
use lockstep_types::ParameterSet;
use lockstep_wire_volt::invocation;
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Events taken from the operating system at once.
const EVENT_BATCH: usize = 1024;
/// Greatest unsent bytes of a connection; past them the server does not keep up reading.
const MAX_UNSENT_BYTES: usize = 64 * 1024 * 1024;
/// Bits of a handle that hold the slot; those above hold the slot's generation.
const SLOT_BITS: u32 = 24;
const GENERATION_MASK: u64 = (1 << 31) - 1;

/// A connection's number within its pipeline, from 0 in the order of connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionIndex(pub usize);

/// A call to submit.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The procedure.
    pub procedure: &'a str,
    /// The encoded parameters, their count in front.
    pub parameters: &'a [u8],
    /// What to ask for beside.
    pub options: CallOptions,
    /// Comes back with the completion; of no meaning to the pipeline.
    pub context: u64,
    /// From when the latency counts. An open loop gives the time that the call was due, so that
    /// a stalled client is not hidden.
    pub started_at: Instant,
}

impl<'a> Call<'a> {
    /// A call without options, with context 0.
    pub fn new(procedure: &'a str, parameters: &'a [u8], started_at: Instant) -> Call<'a> {
        Call { procedure, parameters, options: CallOptions::default(), context: 0, started_at }
    }
}

/// The end of a call.
#[derive(Debug)]
pub struct Completion<'a> {
    /// The connection that it was submitted to.
    pub connection: ConnectionIndex,
    /// The call's context.
    pub context: u64,
    /// When the response was read (one time for all that were read together).
    pub completed_at: Instant,
    /// From [`Call::started_at`] to `completed_at`.
    pub latency: Duration,
    /// The response, or why there is none: the connection was lost, or the call expired.
    pub result: Result<Response<'a>, ClientError>,
}

struct Slot {
    context: u64,
    started_at: Instant,
    generation: u64,
    busy: bool,
}

/// The sending half of a connection: calls in flight and bytes to write. Completion callbacks get
/// it to submit further calls.
pub struct Outgoing {
    index: ConnectionIndex,
    bytes: Vec<u8>,
    written: usize,
    /// As many as were ever in flight at once.
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
    max_in_flight: usize,
    open: bool,
}

impl Outgoing {
    fn new(index: ConnectionIndex, max_in_flight: usize) -> Outgoing {
        Outgoing {
            index,
            bytes: Vec::new(),
            written: 0,
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            max_in_flight: max_in_flight.min(1 << SLOT_BITS),
            open: true,
        }
    }

    /// The connection.
    pub fn connection(&self) -> ConnectionIndex {
        self.index
    }

    /// Calls without a response yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Encodes a call; it is written with the next flush or poll.
    #[inline]
    pub fn submit(&mut self, call: &Call<'_>) -> Result<(), ClientError> {
        if !self.open {
            return Err(ClientError::lost("the connection"));
        }
        if self.bytes.len() >= MAX_UNSENT_BYTES {
            return Err(ClientError::LimitReached {
                what: "unsent bytes",
                limit: MAX_UNSENT_BYTES,
            });
        }
        let Some(index) = self.free.pop().or_else(|| self.new_slot(call.started_at)) else {
            let limit = self.max_in_flight;
            return Err(ClientError::LimitReached { what: "calls in flight", limit });
        };
        let slot = &mut self.slots[index as usize];
        slot.context = call.context;
        slot.started_at = call.started_at;
        slot.busy = true;
        let handle = (slot.generation << SLOT_BITS | u64::from(index)) as i64;
        self.in_flight += 1;
        let out = &mut self.bytes;
        invocation::encode(out, call.procedure, handle, &call.options, call.parameters);
        Ok(())
    }

    #[cold]
    fn new_slot(&mut self, started_at: Instant) -> Option<u32> {
        let index = self.slots.len();
        if index >= self.max_in_flight {
            return None;
        }
        self.slots.push(Slot { context: 0, started_at, generation: 0, busy: false });
        Some(index as u32)
    }

    /// Frees the slot of a handle; `None` for handles that are not in flight.
    #[inline]
    fn take(&mut self, handle: i64) -> Option<(u64, Instant)> {
        let handle = u64::try_from(handle).ok()?;
        let index = (handle & ((1 << SLOT_BITS) - 1)) as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if !slot.busy || slot.generation != handle >> SLOT_BITS {
            return None;
        }
        slot.busy = false;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index);
        self.in_flight -= 1;
        Some((slot.context, slot.started_at))
    }

    /// Writes what the socket takes; true once everything is written.
    fn flush(&mut self, stream: &mut mio::net::TcpStream) -> io::Result<bool> {
        while self.written < self.bytes.len() {
            match stream.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Moves the unsent rest to the front once it is the smaller part, so that
                    // the buffer does not creep and moving stays cheap.
                    if self.written > self.bytes.len() / 2 {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.written = 0;
        Ok(true)
    }
}

struct Link {
    stream: mio::net::TcpStream,
    address: String,
    identity: Identity,
    receive: ReceiveBuffer,
    outgoing: Outgoing,
    notices: Notices,
    /// False after the socket took less than it was given, until it reports room again.
    writable: bool,
}

/// Connections driven together by one thread.
pub struct Pipeline {
    poll: Poll,
    events: Events,
    links: Vec<Link>,
    /// Connections by host, with the position that was picked last.
    by_host: BTreeMap<i32, (Vec<ConnectionIndex>, usize)>,
    last_picked: usize,
    options: ConnectOptions,
}

impl Pipeline {
    /// A pipeline without connections. `options` hold for each of them.
    pub fn new(options: &ConnectOptions) -> Result<Pipeline, ClientError> {
        let poll = Poll::new().map_err(|error| ClientError::io("poll", "sockets", error))?;
        let events = Events::with_capacity(EVENT_BATCH);
        Ok(Pipeline {
            poll,
            events,
            links: Vec::new(),
            by_host: BTreeMap::new(),
            last_picked: 0,
            options: options.clone(),
        })
    }

    /// Connects and logs in, blocking.
    pub fn connect(&mut self, address: &str) -> Result<ConnectionIndex, ClientError> {
        let index = ConnectionIndex(self.links.len());
        let link = self.open_link(address, index)?;
        self.by_host.entry(link.identity.host_id).or_default().0.push(index);
        self.links.push(link);
        Ok(index)
    }

    /// Replaces a lost connection by a new one to the same address, blocking. Calls in flight on
    /// the old one must have completed, which they do in the poll that sees the loss.
    pub fn reconnect(&mut self, connection: ConnectionIndex) -> Result<(), ClientError> {
        let address = self.links[connection.0].address.clone();
        let link = self.open_link(&address, connection)?;
        let old_host = self.links[connection.0].identity.host_id;
        if let Some((connections, _)) = self.by_host.get_mut(&old_host) {
            connections.retain(|other| *other != connection);
        }
        self.by_host.entry(link.identity.host_id).or_default().0.push(connection);
        self.links[connection.0] = link;
        Ok(())
    }

    fn open_link(&self, address: &str, index: ConnectionIndex) -> Result<Link, ClientError> {
        let LoggedIn { stream, identity, receive } = connection::log_in(address, &self.options)?;
        let io = |error| ClientError::io("configure", address, error);
        stream.set_nonblocking(true).map_err(io)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(index.0), interest).map_err(io)?;
        Ok(Link {
            stream,
            address: address.to_string(),
            identity,
            receive,
            outgoing: Outgoing::new(index, self.options.max_in_flight),
            notices: Notices::default(),
            writable: true,
        })
    }

    /// The connection for a call: the open ones of the host that leads its partition in turn, or
    /// all open ones in turn when that host is unknown or has none. `None`: no connection is open.
    pub fn pick(
        &mut self,
        routing: &Routing,
        procedure: &str,
        parameters: ParameterSet<'_>,
    ) -> Option<ConnectionIndex> {
        if let Target::Host(host) = routing.target(procedure, parameters)
            && let Some((connections, last)) = self.by_host.get_mut(&host)
        {
            for _ in 0..connections.len() {
                *last = (*last + 1) % connections.len();
                let picked = connections[*last];
                if self.links[picked.0].outgoing.open {
                    return Some(picked);
                }
            }
        }
        for _ in 0..self.links.len() {
            self.last_picked = (self.last_picked + 1) % self.links.len();
            if self.links[self.last_picked].outgoing.open {
                return Some(ConnectionIndex(self.last_picked));
            }
        }
        None
    }

    /// Number of connections, lost ones included.
    pub fn connection_count(&self) -> usize {
        self.links.len()
    }

    /// What a host said about itself.
    pub fn identity(&self, connection: ConnectionIndex) -> &Identity {
        &self.links[connection.0].identity
    }

    /// Whether calls can be submitted to the connection.
    pub fn is_open(&self, connection: ConnectionIndex) -> bool {
        self.links[connection.0].outgoing.open
    }

    /// Calls without a response, on all connections.
    pub fn in_flight(&self) -> usize {
        self.links.iter().map(|link| link.outgoing.in_flight).sum()
    }

    /// Calls without a response on one connection.
    pub fn in_flight_on(&self, connection: ConnectionIndex) -> usize {
        self.links[connection.0].outgoing.in_flight
    }

    /// What a host sent on its own since the last time; forgets it.
    pub fn take_notices(&mut self, connection: ConnectionIndex) -> Notices {
        std::mem::take(&mut self.links[connection.0].notices)
    }

    /// Encodes a call; it is written by the next [`Pipeline::poll`].
    #[inline]
    pub fn submit(
        &mut self,
        connection: ConnectionIndex,
        call: &Call<'_>,
    ) -> Result<(), ClientError> {
        self.links[connection.0].outgoing.submit(call)
    }

    /// Writes what was submitted, waits at most `timeout` for responses, and hands each to
    /// `complete` together with the sending half of its connection, for the next call; what is
    /// submitted there is written before this returns. Returns the number of completed calls.
    pub fn poll<F>(&mut self, timeout: Duration, mut complete: F) -> Result<usize, ClientError>
    where
        F: FnMut(Completion<'_>, &mut Outgoing),
    {
        let mut completed = 0;
        for link in &mut self.links {
            completed += link.flush(&mut complete);
        }
        let timeout = if completed > 0 { Duration::ZERO } else { timeout };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(completed),
            result => result.map_err(|error| ClientError::io("poll", "sockets", error))?,
        }
        for event in &self.events {
            let link = &mut self.links[event.token().0];
            if !link.outgoing.open {
                continue;
            }
            if event.is_writable() {
                link.writable = true;
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                completed += link.receive(event.is_read_closed(), &mut complete);
            }
            completed += link.flush(&mut complete);
        }
        Ok(completed)
    }

    /// Completes all calls that started more than `patience` before `now` as timed out. Their
    /// responses are dropped when they come. Walks over all slots: for once a second or so.
    pub fn expire<F>(&mut self, now: Instant, patience: Duration, mut complete: F) -> usize
    where
        F: FnMut(Completion<'_>, &mut Outgoing),
    {
        let too_old = |started_at: Instant| now.saturating_duration_since(started_at) > patience;
        let error = || ClientError::TimedOut { waited: patience };
        self.links.iter_mut().map(|link| link.fail_calls(now, too_old, error, &mut complete)).sum()
    }
}

impl Link {
    fn flush(&mut self, complete: &mut impl FnMut(Completion<'_>, &mut Outgoing)) -> usize {
        if !self.writable || !self.outgoing.open || self.outgoing.bytes.is_empty() {
            return 0;
        }
        match self.outgoing.flush(&mut self.stream) {
            Ok(all) => {
                self.writable = all;
                0
            }
            Err(_) => self.lose(complete),
        }
    }

    /// Reads until the socket is drained and completes what came.
    fn receive(
        &mut self,
        closed: bool,
        complete: &mut impl FnMut(Completion<'_>, &mut Outgoing),
    ) -> usize {
        let mut completed = 0;
        loop {
            let drained = match self.receive.read_from(&mut self.stream) {
                Ok((0, _)) => return completed + self.lose(complete),
                // After a close the end itself must be read, however short the last read was.
                Ok((_, drained)) => drained && !closed,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return completed,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return completed + self.lose(complete),
            };
            match self.complete_received(complete) {
                Ok(count) => completed += count,
                Err(_) => return completed + self.lose(complete),
            }
            if drained {
                return completed;
            }
        }
    }

    fn complete_received(
        &mut self,
        complete: &mut impl FnMut(Completion<'_>, &mut Outgoing),
    ) -> Result<usize, ClientError> {
        let now = Instant::now();
        let mut completed = 0;
        while let Some(body) = self.receive.next_body()? {
            let response =
                Response::decode(body).map_err(|error| ClientError::Protocol(error.to_string()))?;
            let Some((context, started_at)) = self.outgoing.take(response.client_handle) else {
                self.notices.note(response.client_handle);
                continue;
            };
            completed += 1;
            let completion = Completion {
                connection: self.outgoing.index,
                context,
                completed_at: now,
                latency: now.saturating_duration_since(started_at),
                result: Ok(response),
            };
            complete(completion, &mut self.outgoing);
        }
        Ok(completed)
    }

    /// Closes the connection and completes its calls as lost.
    #[cold]
    fn lose(&mut self, complete: &mut impl FnMut(Completion<'_>, &mut Outgoing)) -> usize {
        self.outgoing.open = false;
        self.outgoing.bytes.clear();
        self.outgoing.written = 0;
        // Tells the server; the socket itself closes when the link is replaced or dropped.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let address = self.address.clone();
        self.fail_calls(Instant::now(), |_| true, || ClientError::lost(&address), complete)
    }

    fn fail_calls(
        &mut self,
        now: Instant,
        is_meant: impl Fn(Instant) -> bool,
        error: impl Fn() -> ClientError,
        complete: &mut impl FnMut(Completion<'_>, &mut Outgoing),
    ) -> usize {
        let mut failed = 0;
        for index in 0..self.outgoing.slots.len() {
            let slot = &self.outgoing.slots[index];
            if !slot.busy || !is_meant(slot.started_at) {
                continue;
            }
            let handle = (slot.generation << SLOT_BITS | index as u64) as i64;
            let Some((context, started_at)) = self.outgoing.take(handle) else { continue };
            failed += 1;
            let completion = Completion {
                connection: self.outgoing.index,
                context,
                completed_at: now,
                latency: now.saturating_duration_since(started_at),
                result: Err(error()),
            };
            complete(completion, &mut self.outgoing);
        }
        failed
    }
}
