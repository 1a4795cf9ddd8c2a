//! Writing to sockets, and the deadlines of those who do not read or do not log in.

use super::Shard;
use crate::connection::{ConnectionKey, Stage};
use lockstep_base::elapsed::Elapsed;
use lockstep_wire_volt::login::{LoginStatus, refusal};
use std::sync::atomic::Ordering;

impl Shard {
    /// Writes all answers of this round, one system call a connection.
    pub(super) fn write_ready(&mut self) {
        let mut listed = self.connections.begin_writing();
        let now_us = self.now_us;
        for key in listed.drain(..) {
            let writable_bytes = self.writable_bytes(key);
            let Some(connection) = self.connections.get(key) else { continue };
            connection.listed_for_write = false;
            let written = connection.write(now_us, writable_bytes);
            let done = connection.stage == Stage::Closing && connection.unread_bytes() == 0;
            if written.is_err() || done {
                self.close(key);
            } else {
                self.resume_reading(key);
            }
        }
        self.connections.end_writing(listed);
    }

    /// A paused connection whose client caught up is read again.
    pub(super) fn resume_reading(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.get(key) else { return };
        if connection.readable || connection.has_backlog {
            self.connections.list_for_read(key);
        }
    }

    /// True while a connection may not send: its client lags too far, or another thread does. A
    /// host that stops reads what it refuses, and only from clients that read their answers.
    pub(super) fn is_paused(&mut self, key: ConnectionKey) -> bool {
        let options = &self.facts.options;
        let unread_max = match self.phase.takes_calls() {
            true => options.max_unread_bytes.get(),
            false => 1,
        };
        self.gates.is_log_behind
            || self.outbox.is_overflowing()
            || self.connections.get(key).is_some_and(|connection| {
                connection.unread_bytes() as u64 >= unread_max
                    || u64::from(connection.outstanding) >= options.max_outstanding_calls.get()
                    || connection.stage == Stage::Closing
            })
    }

    /// True while a connection has as many calls unanswered as it may.
    #[inline]
    pub(super) fn waits_for_too_many(&mut self, key: ConnectionKey) -> bool {
        let most = self.facts.options.max_outstanding_calls.get();
        self.connections.get(key).is_some_and(|c| u64::from(c.outstanding) >= most)
    }

    /// Closes connections that have not logged in or have not read for too long.
    pub(super) fn check_deadlines(&mut self) {
        let patience = Elapsed::from_ms(self.facts.options.unread_timeout_ms.get());
        let now_us = self.now_us;
        let mut late = Vec::new();
        for connection in self.connections.iter() {
            let no_login =
                matches!(connection.stage, Stage::Login { until_us } if now_us > until_us);
            let no_read = connection
                .unread_since_us
                .is_some_and(|since_us| Elapsed::between_us(since_us, now_us) > patience);
            if no_login || no_read {
                late.push((connection.key, no_login));
            }
        }
        for (key, no_login) in late {
            if no_login {
                self.refuse_login(key, LoginStatus::TimedOut);
            } else {
                self.note_refused(
                    key,
                    "connection closed",
                    &"the client does not read its answers",
                );
                self.facts.dropped_connections.fetch_add(1, Ordering::Relaxed);
                self.close(key);
            }
        }
    }

    /// Tells a connection why it may not log in, then closes it.
    pub(super) fn refuse_login(&mut self, key: ConnectionKey, status: LoginStatus) {
        self.facts.dropped_connections.fetch_add(1, Ordering::Relaxed);
        self.note_refused(key, "login refused", &status);
        if let Some(connection) = self.connections.get(key) {
            connection.output.extend_from_slice(&refusal(status));
            connection.stage = Stage::Closing;
            self.connections.list_for_write(key);
        }
    }

    /// Appends frames to all connections that asked to hear of changes.
    pub(super) fn push_to_subscribers(&mut self, frames: &[u8]) {
        let mut listening = Vec::new();
        for connection in self.connections.iter_mut() {
            if connection.subscribed && connection.stage == Stage::Ready {
                connection.output.extend_from_slice(frames);
                connection.traffic.messages_written += 1;
                listening.push(connection.key);
            }
        }
        listening.into_iter().for_each(|key| self.connections.list_for_write(key));
    }
}
