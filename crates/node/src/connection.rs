//! One client connection: what was read of an unfinished message, what waits to be written, and
//! how far its client lags.

use crate::callers::Presence;
use crate::shard::Slot;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

/// Buffers that grew beyond this are given back when they are empty.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

/// Names a connection for as long as it lives: its place and which of the connections that had
/// this place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ConnectionKey {
    /// The place in its thread's list.
    pub place: u32,
    /// Grows each time the place is taken again.
    pub generation: u32,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has until this time (microseconds of the thread's clock) to log in.
    Login {
        /// The deadline.
        until_us: i64,
    },
    /// It may call.
    Ready,
    /// What is in the output is still written, then it closes.
    Closing,
}

/// A connection with its buffers.
pub struct Connection {
    /// Lets queries see whether the client has left. It is dropped before the socket, whose
    /// descriptor it names.
    pub(crate) _presence: Presence,
    /// The socket.
    pub stream: TcpStream,
    /// Its name.
    pub key: ConnectionKey,
    /// The number that clients and statistics see.
    pub id: i64,
    /// Came in through the admin port.
    pub admin: bool,
    /// The peer's address, for statistics.
    pub peer: String,
    /// How far it has come.
    pub stage: Stage,
    /// Wants to hear of topology and catalog changes.
    pub subscribed: bool,
    /// The beginning of a message whose end has not come yet.
    pub partial_input: Vec<u8>,
    /// `partial_input` begins with calls that wait until the client has read its answers.
    pub has_backlog: bool,
    /// Answers; those before `written` are written.
    pub output: Vec<u8>,
    written: usize,
    /// The weight of the calls that are not answered yet.
    pub outstanding: u32,
    /// Their number.
    pub unanswered: u32,
    /// The socket may have more to read.
    pub readable: bool,
    /// The peer will send no more: what it sent before is followed by the end, of which no event
    /// tells again.
    pub read_closed: bool,
    /// The socket took less than was offered and has not said that it is ready again.
    write_blocked: bool,
    /// Since when answers wait that the client does not read.
    pub unread_since_us: Option<i64>,
    /// Is in the thread's list of connections to write to.
    pub listed_for_write: bool,
    /// Is in the thread's list of connections to read from.
    pub listed_for_read: bool,
    /// Bytes and messages in both directions.
    pub traffic: Traffic,
    /// By replica of the thread, the log entries that the output depends on; more of them where
    /// copies come to the thread later.
    depends_on: Vec<Dependency>,
    /// The output that waits for log entries, in order.
    waiting: VecDeque<WaitingOutput>,
    /// Output up to this byte has been checked for what it depends on.
    checked_end: u64,
}

/// What the output of a connection depends on in the log of one replica.
#[derive(Debug, Clone, Copy, Default)]
struct Dependency {
    /// The greatest entry.
    entry: u64,
    /// The greatest entry that some of the output waits for, or has waited for.
    awaited: u64,
    /// Output depends on the replica that came since the last look.
    is_new: bool,
}

/// What holds output back until log entries are safe.
pub trait OutputGates {
    /// The last entry of a replica's log that output may depend on.
    fn safe_position(&self, slot: Slot) -> u64;

    /// Whether nothing of a replica may be answered now, whatever it depends on.
    fn is_withheld(&self, slot: Slot) -> bool;

    /// Output waits for an entry of a replica's log.
    fn wait(&mut self, slot: Slot, entry: u64);
}

/// Output from a byte on, as bytes since the connection was made, and what it waits for: an entry
/// of a replica's log.
#[derive(Debug, Clone, Copy)]
struct WaitingOutput {
    begin: u64,
    slot: Slot,
    entry: u64,
}

/// Counters of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// Bytes read.
    pub bytes_read: u64,
    /// Messages read.
    pub messages_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Messages written.
    pub messages_written: u64,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadResult {
    /// This many bytes; `drained` when the socket has no more for now.
    Bytes {
        /// How many.
        count: usize,
        /// Whether the next readiness event will tell of more.
        drained: bool,
    },
    /// Nothing there.
    Nothing,
    /// The peer is gone.
    Closed,
}

impl Connection {
    /// A new connection that has until `login_until_us` to log in.
    pub(crate) fn new(
        stream: TcpStream,
        key: ConnectionKey,
        id: i64,
        admin: bool,
        until_us: i64,
        presence: Presence,
        replica_count: usize,
    ) -> Self {
        let peer = stream.peer_addr().map(|a| a.ip().to_string()).unwrap_or_default();
        Connection {
            _presence: presence,
            stream,
            key,
            id,
            admin,
            peer,
            stage: Stage::Login { until_us },
            subscribed: false,
            partial_input: Vec::new(),
            has_backlog: false,
            output: Vec::new(),
            written: 0,
            outstanding: 0,
            unanswered: 0,
            readable: false,
            read_closed: false,
            write_blocked: false,
            unread_since_us: None,
            listed_for_write: false,
            listed_for_read: false,
            traffic: Traffic::default(),
            depends_on: vec![Dependency::default(); replica_count],
            waiting: VecDeque::new(),
            checked_end: 0,
        }
    }

    /// Reads once. A read that does not fill the buffer has drained the socket: with
    /// edge-triggered readiness the next bytes bring a new event.
    pub fn read(&mut self, buffer: &mut [u8]) -> ReadResult {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return ReadResult::Closed,
                Ok(count) => {
                    self.traffic.bytes_read += count as u64;
                    let drained = count < buffer.len() && !self.read_closed;
                    return ReadResult::Bytes { count, drained };
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadResult::Nothing,
                Err(_) => return ReadResult::Closed,
            }
        }
    }

    /// What is in the output depends on an entry of a replica's log.
    #[inline]
    pub fn depend_on(&mut self, slot: Slot, entry: u64) {
        if slot.index() >= self.depends_on.len() {
            self.depends_on.resize_with(slot.index() + 1, Dependency::default);
        }
        let dependency = &mut self.depends_on[slot.index()];
        dependency.entry = dependency.entry.max(entry);
        dependency.is_new = true;
    }

    /// How many bytes of the output may be written. The gates get what the output that came since
    /// the last time waits for.
    pub fn safe_bytes(&mut self, gates: &mut impl OutputGates) -> usize {
        let written = self.traffic.bytes_written;
        let end = written + self.unread_bytes() as u64;
        let begin = std::mem::replace(&mut self.checked_end, end);
        for (slot, dependency) in Slot::all().zip(&mut self.depends_on) {
            // Output waits for all that the output before it waits for.
            let Dependency { entry, awaited, is_new } = *dependency;
            if !is_new {
                continue;
            }
            dependency.is_new = false;
            let waits = entry > awaited && entry > gates.safe_position(slot);
            if waits || gates.is_withheld(slot) {
                dependency.awaited = entry;
                self.waiting.push_back(WaitingOutput { begin, slot, entry });
                gates.wait(slot, entry);
            }
        }
        while self
            .waiting
            .front()
            .is_some_and(|output| output.entry <= gates.safe_position(output.slot))
        {
            self.waiting.pop_front();
        }
        let safe_end = self.waiting.front().map_or(end, |output| output.begin);
        safe_end.saturating_sub(written) as usize
    }

    /// Whether calls are not answered, or answers wait for something besides the client.
    pub fn waits_for_host(&self) -> bool {
        self.unanswered > 0 || !self.waiting.is_empty()
    }

    /// Whether output waits for an entry of a replica's log, or may have to.
    pub fn waits_for(&self, slot: Slot) -> bool {
        let waits = self.waiting.iter().any(|output| output.slot == slot);
        waits || self.depends_on.get(slot.index()).is_some_and(|dependency| dependency.is_new)
    }

    /// Another replica is in the slot from now on: the output that is there does not wait for the
    /// log of the one before, and what comes waits for entries that may have smaller numbers.
    pub fn forget(&mut self, slot: Slot) {
        self.waiting.retain(|output| output.slot != slot);
        if let Some(dependency) = self.depends_on.get_mut(slot.index()) {
            *dependency = Dependency::default();
        }
        assert!(!self.waits_for(slot), "nothing is left of the replica before");
    }

    /// Writes as much as the socket takes, `most` bytes at most.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn write(&mut self, now_us: i64, most: usize) -> io::Result<()> {
        if self.write_blocked {
            return Ok(());
        }
        let end = self.written.saturating_add(most).min(self.output.len());
        while self.written < end {
            match self.stream.write(&self.output[self.written..end]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    self.traffic.bytes_written += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    self.unread_since_us.get_or_insert(now_us);
                    self.forget_written();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.unread_since_us = None;
        if end < self.output.len() {
            self.forget_written();
            return Ok(());
        }
        self.written = 0;
        self.output.clear();
        if self.output.capacity() > KEPT_BUFFER_BYTES {
            self.output = Vec::new();
        }
        Ok(())
    }

    /// Moves what is unwritten to the front, once that is the smaller part: a client that reads
    /// slowly and never catches up must not make the buffer grow for ever.
    fn forget_written(&mut self) {
        if self.written > self.unread_bytes() {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// The socket says that it takes bytes again.
    pub fn writable(&mut self, now_us: i64) {
        self.write_blocked = false;
        // The client reads, however slowly: its patience starts again.
        if self.unread_since_us.is_some() {
            self.unread_since_us = Some(now_us);
        }
    }

    /// Bytes of answers that are not written yet.
    pub fn unread_bytes(&self) -> usize {
        self.output.len() - self.written
    }

    /// Keeps the beginning of a message until the rest comes.
    pub fn keep_partial(&mut self, rest: &[u8]) {
        self.partial_input.clear();
        if rest.is_empty() {
            if self.partial_input.capacity() > KEPT_BUFFER_BYTES {
                self.partial_input = Vec::new();
            }
        } else {
            self.partial_input.extend_from_slice(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::Callers;
    use std::sync::Arc;

    /// All replicas have their log safe up to an entry.
    struct SafeUpTo(u64);

    impl OutputGates for SafeUpTo {
        fn safe_position(&self, _: Slot) -> u64 {
            self.0
        }

        fn is_withheld(&self, _: Slot) -> bool {
            false
        }

        fn wait(&mut self, _: Slot, _: u64) {}
    }

    /// A connection that was made when its thread had one replica.
    fn connection() -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let stream = TcpStream::connect(address).expect("it listens");
        let presence = Callers::enter(&Arc::default(), Default::default(), &stream);
        Connection::new(stream, ConnectionKey::default(), 1, false, 0, presence, 1)
    }

    /// Output comes that depends on an entry.
    fn answer(connection: &mut Connection, slot: Slot, entry: u64) {
        connection.output.push(0);
        connection.depend_on(slot, entry);
    }

    #[test]
    fn output_waits_for_replicas_that_came_after_the_connection() {
        let mut connection = connection();
        let later = Slot::all().nth(2).expect("there are more");
        connection.forget(later);
        answer(&mut connection, later, 7);
        assert!(connection.waits_for(later), "nobody has looked yet");
        assert_eq!(connection.safe_bytes(&mut SafeUpTo(6)), 0);
        assert_eq!(connection.safe_bytes(&mut SafeUpTo(7)), 1);
        assert!(!connection.waits_for(later));
    }

    #[test]
    fn the_entries_of_the_next_replica_of_a_slot_begin_anew() {
        let (mut connection, slot) = (connection(), Slot::all().next().expect("there is one"));
        answer(&mut connection, slot, 500);
        assert_eq!(connection.safe_bytes(&mut SafeUpTo(499)), 0);
        assert!(connection.waits_for(slot));
        // The copy was moved, and what it answered is safe.
        connection.forget(slot);
        assert_eq!(connection.safe_bytes(&mut SafeUpTo(0)), 1);
        // Another partition is there, whose log is shorter.
        answer(&mut connection, slot, 5);
        assert_eq!(connection.safe_bytes(&mut SafeUpTo(4)), 1, "its entry is not safe yet");
        assert_eq!(connection.safe_bytes(&mut SafeUpTo(5)), 2);
    }
}
