//! Messages to bytes for the connection.

use super::{Connection, Link};
use crate::clock::ClockReading;
use crate::error::OfferError;
use crate::event::{Backlog, LinkCounters};
use crate::frame::FrameKind;
use crate::output::Sources;
use lockstep_base::elapsed::Elapsed;
use std::io::IoSlice;

/// Offering.
impl Link {
    /// Takes an ordered message: `write` appends it to the buffer, after what is there. Gives its
    /// number in the session. It is delivered once and in order, as long as the session lasts,
    /// whether there is a connection now or not. With an error nothing has been taken.
    ///
    /// A session takes messages once its [`crate::Event::SessionBegan`] was given out.
    #[inline]
    pub fn offer(
        &mut self,
        now: ClockReading,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, OfferError> {
        let is_unknown =
            self.has_pending && (self.pending.ended.is_some() || self.pending.began.is_some());
        if self.session.is_none() || is_unknown {
            return Err(OfferError::NoSession);
        }
        self.send.offer(now.monotonic_us, write)
    }

    /// Takes a datagram that `write` appends to the buffer: it is written before ordered messages
    /// and lost with the connection, or when more of them wait than there may.
    pub fn offer_datagram(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), OfferError> {
        self.offer_unordered(FrameKind::Datagram, write)
    }

    /// Takes a heartbeat, a datagram that carries the readings of the clocks when it is written.
    /// `write` may append to it what the peer's caller is to get.
    pub fn offer_heartbeat(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), OfferError> {
        self.offer_unordered(FrameKind::Heartbeat, write)
    }

    fn offer_unordered(
        &mut self,
        kind: FrameKind,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), OfferError> {
        if self.connection != Connection::Open {
            self.datagrams.count_dropped();
            return Err(OfferError::NotConnected);
        }
        self.datagrams.offer(kind, self.datagram_bytes_max, write)
    }

    /// What waits for the peer's acknowledgement.
    pub fn backlog(&self) -> Backlog {
        Backlog { messages: self.send.messages(), bytes: self.send.bytes() }
    }

    /// How long the oldest message that is not acknowledged has waited since it was offered; none
    /// if all are acknowledged. Of a frame that was acknowledged in part the first one counts.
    pub fn oldest_unacknowledged(&self, now: ClockReading) -> Option<Elapsed> {
        self.send.age(now.monotonic_us)
    }

    /// Counts since the link was made.
    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            frames_written: self.output.frames(),
            messages_resent: self.send.resent(),
            datagrams_dropped: self.datagrams.dropped(),
            connections: self.connections,
            sessions: self.sessions,
        }
    }
}

/// Writing.
impl Link {
    /// Whether there is something to write: then the caller writes what
    /// [`Link::write_slices`] gives when the connection takes it.
    pub fn wants_to_write(&self, now: ClockReading) -> bool {
        if self.connection == Connection::None {
            return false;
        }
        let has_frames = !self.datagrams.is_empty() || self.send.has_unwritten();
        self.output.is_urgent()
            || (self.connection == Connection::Open
                && (has_frames || self.is_acknowledgement_due(now)))
    }

    /// When [`Link::wants_to_write`] becomes true by time alone, by the monotonic clock in
    /// microseconds: an acknowledgement waits for a frame to travel with until then.
    pub fn write_deadline_us(&self) -> Option<i64> {
        let is_waiting = self.connection == Connection::Open && self.has_unacknowledged();
        let after_us = self.limits.acknowledge_after_us;
        is_waiting.then(|| self.delivered_us.saturating_add_unsigned(after_us))
    }

    /// Fills `slices`, at least two, with what is to be written next, in one vectored write, and
    /// gives their number. The caller then reports with [`Link::wrote`], before anything else, how
    /// many bytes were written.
    pub fn write_slices<'a>(&'a mut self, now: ClockReading, slices: &mut [IoSlice<'a>]) -> usize {
        if self.connection == Connection::None {
            return 0;
        }
        let acknowledge = self.is_acknowledgement_due(now);
        self.output.plan(
            &mut Sources {
                datagrams: &mut self.datagrams,
                send: &mut self.send,
                clock: &self.clock,
                now,
                received: self.session.map_or(0, |session| session.received),
                is_open: self.connection == Connection::Open,
                acknowledge,
            },
            slices.len(),
        );
        let link = &*self;
        link.output.fill(&link.datagrams, &link.send, slices)
    }

    /// The first `count` bytes of the slices were written.
    pub fn wrote(&mut self, count: usize) {
        self.output.wrote(count, &mut self.datagrams, &mut self.send);
        if !self.has_unacknowledged() {
            self.delivered_bytes = 0;
        }
    }

    fn has_unacknowledged(&self) -> bool {
        let received = self.session.map_or(0, |session| session.received);
        received > self.output.acknowledged()
    }

    fn is_acknowledgement_due(&self, now: ClockReading) -> bool {
        let waited = Elapsed::between_us(self.delivered_us, now.monotonic_us);
        self.has_unacknowledged()
            && (waited.us() >= self.limits.acknowledge_after_us
                || self.delivered_bytes >= self.limits.acknowledge_after_bytes)
    }
}
