//! A round of the links: what the thread that is at them does in one go.

use super::{ACCEPTING, LISTENER, Links, now};
use crate::shard::Shard;
use lockstep_base::elapsed::Elapsed;
use mio::Token;
use mio::event::Event;
use std::io;

/// A site that is to hear what comes may have no time: all sockets are looked at this often.
const LOOK_EVERY_US: u64 = 900;
/// The control plane, which takes longer than a round without it, is attended to when it has heard
/// something or is asked for something, and this often: a small part of the time between two
/// heartbeats.
const ATTEND_EVERY_US: u64 = 4_000;

impl Links {
    /// A round begins: one that does all that is due, also because other hosts were heard, or,
    /// where that was done just before, one that only sends what threads have sent.
    pub(super) fn begin_round(&mut self, does_all: bool, heard: bool) {
        self.now = now();
        self.does_all = does_all || heard || std::mem::take(&mut self.has_more);
        let since = Elapsed::between_us(self.looked_us, self.now.monotonic_us);
        if since.us() >= LOOK_EVERY_US {
            self.look_at_all();
        }
        let unattended = Elapsed::between_us(self.attended_us, self.now.monotonic_us);
        self.attends |= does_all || !self.has_formed() || unattended.us() >= ATTEND_EVERY_US;
    }

    /// In this round all sockets are looked at.
    pub(super) fn look_at_all(&mut self) {
        (self.does_all, self.looked_us) = (true, self.now.monotonic_us);
        self.peers.iter_mut().flatten().for_each(|peer| peer.look());
    }

    /// In this round the socket of a host is looked at, if there is one.
    pub(super) fn look_at(&mut self, place: usize) {
        assert!(self.does_all, "a round that looks at a socket reads from it");
        if let Some(peer) = self.peers.get_mut(place).and_then(Option::as_mut) {
            peer.look();
        }
    }

    /// The poll of the links has an event.
    pub(super) fn note_event(&mut self, event: &Event) {
        match event.token() {
            token if token == Shard::waker_token() => {}
            LISTENER => self.accept_all(),
            Token(number) if number >= ACCEPTING => self.hear(number - ACCEPTING),
            Token(number) => {
                if let Some(peer) = self.peers.get_mut(number).and_then(Option::as_mut) {
                    peer.note_event(event, &self.watch, self.now);
                }
            }
        }
    }

    /// Reads what has come, does what is due, and writes what threads have sent.
    pub(super) fn exchange(&mut self) {
        let exchanged = self.read_and_write();
        self.outbox.flush();
        if exchanged.is_err() || self.is_stopping {
            self.ended = Some(exchanged);
        }
    }

    fn read_and_write(&mut self) -> io::Result<()> {
        if self.does_all {
            self.read_peers()?;
            self.send_receipts();
        }
        self.take_messages();
        if self.does_all && self.attends {
            (self.attends, self.attended_us) = (false, self.now.monotonic_us);
            self.attend_to_members()?;
        }
        if self.does_all {
            self.send_wishes();
        }
        self.send_all();
        self.write_peers();
        Ok(())
    }

    /// Whether their thread is to end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether the cluster is formed, as far as this host is concerned.
    pub(super) fn has_formed(&self) -> bool {
        self.formed.is_none()
    }

    /// Their thread ends: how, if it was to.
    pub(super) fn finish(mut self) -> Option<io::Result<()>> {
        let ended = self.ended.take()?;
        if ended.is_ok() {
            // What threads sent before the stop, and was not looked at: others may have to stop
            // too.
            self.take_messages();
            self.write_peers();
            self.log_pieces();
            self.logs.end_all();
        }
        Some(ended)
    }

    /// Whether threads have sent messages that can be taken now.
    pub(super) fn has_messages(&mut self) -> bool {
        !self.inbox.is_empty() && !self.is_held_up()
    }

    /// Whether a thread of this host has no room for messages.
    pub(super) fn is_overflowing(&self) -> bool {
        self.outbox.is_overflowing()
    }
}
