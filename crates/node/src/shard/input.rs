//! Reading from sockets: bytes to frames, logins, and calls.

use super::Shard;
use super::calls::Taken;
use super::replica::Slots;
use crate::connection::{ConnectionKey, ReadResult, Stage};
use lockstep_wire_volt::login::{Login, LoginReply, MAX_LOGIN_BYTES};
use lockstep_wire_volt::next_frame;

impl Shard {
    /// A socket became ready.
    pub(super) fn note_socket(&mut self, place: usize, event: &mio::event::Event) {
        let now_us = self.now_us;
        let Some(connection) = self.connections.at(place) else {
            return;
        };
        let key = connection.key;
        if event.is_writable() && connection.unread_bytes() > 0 {
            connection.writable(now_us);
            self.connections.list_for_write(key);
        } else if event.is_writable() {
            connection.writable(now_us);
        }
        if (event.is_readable() || event.is_read_closed() || event.is_error())
            && let Some(connection) = self.connections.get(key)
        {
            connection.readable = true;
            connection.read_closed |= event.is_read_closed();
            self.connections.list_for_read(key);
        }
    }

    /// Reads once from every connection that has something, unless it is paused. What is paused
    /// is listed again when its reason is gone.
    pub(super) fn read_ready(&mut self) {
        let mut listed = self.connections.begin_reading();
        for key in listed.drain(..) {
            let Some(connection) = self.connections.get(key) else { continue };
            connection.listed_for_read = false;
            if !self.is_paused(key) {
                self.read_connection(key);
            } else if self.outbox.is_overflowing() || !self.gates.may_take_calls() {
                self.connections.list_for_read(key);
            }
        }
        self.connections.end_reading(listed);
    }

    fn read_connection(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.get(key) else { return };
        if connection.has_backlog {
            self.take_bytes(key, &[]);
            // What is left waits for the client; else the next round reads on.
            return self.resume_reading(key);
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let Some(connection) = self.connections.get(key) else { return };
        match connection.read(&mut buffer) {
            ReadResult::Nothing => connection.readable = false,
            ReadResult::Closed => self.close(key),
            ReadResult::Bytes { count, drained } => {
                connection.readable = !drained;
                if !drained {
                    self.connections.list_for_read(key);
                }
                self.take_bytes(key, &buffer[..count]);
            }
        }
        self.read_buffer = buffer;
    }

    /// Goes through the frames of what was read, after what was left over before.
    fn take_bytes(&mut self, key: ConnectionKey, bytes: &[u8]) {
        let Some(connection) = self.connections.get(key) else { return };
        if connection.partial_input.is_empty() {
            let taken = self.take_frames(key, bytes);
            if let Some(connection) = self.connections.get(key) {
                connection.keep_partial(&bytes[taken..]);
            }
            return;
        }
        let mut whole = std::mem::take(&mut connection.partial_input);
        whole.extend_from_slice(bytes);
        let taken = self.take_frames(key, &whole);
        if let Some(connection) = self.connections.get(key) {
            whole.drain(..taken);
            connection.partial_input = whole;
        }
    }

    /// Handles all whole frames; returns the bytes that they took.
    fn take_frames(&mut self, key: ConnectionKey, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let most_unread = self.facts.options.max_unread_bytes.to_usize();
        let Some(connection) = self.connections.get(key) else { return bytes.len() };
        let written_bytes = connection.output.len() - connection.unread_bytes();
        // The answers of calls that run here go straight into the connection's output.
        let mut output = std::mem::take(&mut connection.output);
        let mut stage = connection.stage;
        let (mut frames, mut answers, mut called) = (0u64, 0u64, Slots::default());
        let mut has_backlog = false;
        while stage != Stage::Closing {
            // The calls of one read can have answers of any size: the rest waits until the
            // client has read these.
            has_backlog =
                output.len() - written_bytes >= most_unread || self.waits_for_too_many(key);
            if has_backlog {
                break;
            }
            let limit = match stage {
                Stage::Ready => self.facts.options.max_invocation_bytes.to_usize(),
                _ => MAX_LOGIN_BYTES,
            };
            match next_frame(&bytes[taken..], limit) {
                Ok(None) => break,
                Ok(Some((body, length))) => {
                    taken += length;
                    frames += 1;
                    let answered = output.len();
                    stage = match stage {
                        Stage::Ready if !self.phase.takes_calls() => {
                            self.refuse_at_the_end(key, body, &mut output);
                            stage
                        }
                        Stage::Ready => {
                            let taken = self.take_invocation(key, body, &mut output);
                            if let Taken::Answered(slot) = taken {
                                called.add(slot);
                            }
                            stage
                        }
                        _ => self.take_login(key, body, &mut output),
                    };
                    answers += u64::from(output.len() > answered);
                    self.take_urgent_between(key, &mut output, &mut called);
                }
                Err(error) => {
                    self.note_refused(key, "connection closed", &error);
                    stage = Stage::Closing;
                }
            }
        }
        self.depend_on_calls(key, &mut called);
        if let Some(connection) = self.connections.get(key) {
            connection.output = output;
            connection.stage = stage;
            connection.has_backlog = has_backlog;
            connection.traffic.messages_read += frames;
            connection.traffic.messages_written += answers;
            self.connections.list_for_write(key);
        }
        taken
    }

    /// Takes urgent messages between two calls of a connection, whose output is with its reader:
    /// there may be answers for it among them.
    #[inline]
    fn take_urgent_between(
        &mut self,
        key: ConnectionKey,
        output: &mut Vec<u8>,
        called: &mut Slots,
    ) {
        if !self.finds_urgent() {
            return;
        }
        self.depend_on_calls(key, called);
        let Some(connection) = self.connections.get(key) else { return };
        connection.output = std::mem::take(output);
        self.take_urgent();
        if let Some(connection) = self.connections.get(key) {
            *output = std::mem::take(&mut connection.output);
        }
    }

    /// The connection's output has answers of calls that ran at these replicas.
    #[inline]
    fn depend_on_calls(&mut self, key: ConnectionKey, called: &mut Slots) {
        if !self.gates.holds_answers {
            return;
        }
        for slot in called.drain() {
            let entry = self.replicas[slot].answer_position();
            if let Some(connection) = self.connections.get(key) {
                connection.depend_on(slot, entry);
            }
        }
    }

    fn take_login(&mut self, key: ConnectionKey, body: &[u8], output: &mut Vec<u8>) -> Stage {
        let facts = std::sync::Arc::clone(&self.facts);
        let Some(connection) = self.connections.get(key) else { return Stage::Closing };
        match Login::decode(body) {
            // Security is off: any user and password is welcome, and Kerberos logs in silently.
            Ok(_) => {
                let reply = LoginReply {
                    host_id: facts.host.0 as i32,
                    connection_id: connection.id,
                    cluster_timestamp_ms: facts
                        .cluster_created_ms
                        .load(std::sync::atomic::Ordering::Relaxed),
                    leader_address: i32::from_be_bytes([127, 0, 0, 1]),
                    build: &facts.build,
                };
                reply.encode(output);
                Stage::Ready
            }
            Err(status) => {
                facts.dropped_connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.note_refused(key, "login refused", &status);
                let refusal = lockstep_wire_volt::login::refusal(status);
                output.extend_from_slice(&refusal);
                Stage::Closing
            }
        }
    }
}
