//! Bytes from the connection to events.

use super::{Connection, Link};
use crate::accepting::{read_header, read_version};
use crate::clock::{ClockOffset, ClockReading, STAMP_BYTES, Stamp};
use crate::error::{LinkError, Malformed};
use crate::event::Event;
use crate::frame::{FrameKind, Header};
use crate::hello::{HELLO_BYTES_MAX, Hello, SeenDial};
use crate::limits::LENGTH_BYTES;
use crate::refusal::{PeerRefusal, Refusal};
use lockstep_base::bytes::ByteReader;
use std::ops::Range;

/// The next item of the receive buffer. Bytes are given by their offsets.
enum Found {
    /// A frame of messages, of which none is delivered.
    Messages,
    Datagram(Range<usize>),
    Heartbeat(Range<usize>),
    /// A frame for the link alone.
    Handled,
    /// An event that does not come from the receive buffer is pending.
    Pending,
    /// More bytes are needed.
    Nothing,
}

/// Reading.
impl Link {
    /// Space to read into. Empty only without a connection, while a refusal is written, and
    /// while complete frames wait for [`Link::next_event`].
    pub fn read_space(&mut self) -> &mut [u8] {
        match self.connection {
            Connection::None | Connection::Closing => &mut [],
            Connection::Dialing { .. } | Connection::Open => self.receive.space(),
        }
    }

    /// This many bytes were read into the space.
    pub fn filled(&mut self, count: usize) {
        self.receive.filled(count);
    }

    /// The next event; none when more bytes are needed. A message counts as delivered when it is
    /// returned: the caller processes or queues it at once.
    ///
    /// After an error the connection is over and the session stays. The caller may call
    /// [`Link::write_slices`] until it gives nothing, so that the peer can report the error, then
    /// closes the connection and calls [`Link::disconnected`].
    #[inline]
    pub fn next_event(&mut self, now: ClockReading) -> Result<Option<Event<'_>>, LinkError> {
        if self.has_pending
            && let Some(event) = self.take_pending()
        {
            return Ok(Some(event));
        }
        if self.undelivered == 0 {
            match self.next_frame(now)? {
                Found::Messages => {}
                Found::Datagram(range) => {
                    return Ok(Some(Event::Datagram(self.receive.at(range))));
                }
                Found::Heartbeat(range) => {
                    return Ok(Some(Event::Heartbeat(self.receive.at(range))));
                }
                Found::Pending => return Ok(self.take_pending()),
                Found::Handled | Found::Nothing => return Ok(None),
            }
        }
        match self.next_message(now) {
            Some((number, range)) => {
                Ok(Some(Event::Message { number, bytes: self.receive.at(range) }))
            }
            None => Err(self.fail_messages()),
        }
    }

    /// How far the peer's wall clock is from this host's; none before a round trip.
    pub fn clock_offset(&self) -> Option<ClockOffset> {
        self.clock.offset()
    }

    /// The monotonic time of the last frame on the present connection, in microseconds; none while
    /// the hellos have not been exchanged.
    pub fn last_heard_us(&self) -> Option<i64> {
        self.heard_us
    }

    #[cold]
    fn take_pending(&mut self) -> Option<Event<'static>> {
        if let Some(session) = self.pending.ended.take() {
            return Some(Event::SessionEnded { session });
        }
        if let Some(session) = self.pending.began.take() {
            return Some(Event::SessionBegan { session });
        }
        self.has_pending = false;
        self.pending.connected.take().map(|resumed| Event::Connected { resumed })
    }

    fn next_frame(&mut self, now: ClockReading) -> Result<Found, LinkError> {
        loop {
            let found = match self.connection {
                Connection::None | Connection::Closing => Ok(Found::Nothing),
                Connection::Dialing { version } => self.read_reply(version, now),
                Connection::Open => self.read_frame(now),
            };
            match found {
                Ok(Found::Handled) => {}
                Ok(found) => return Ok(found),
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            }
        }
    }

    /// The connection is over for an error.
    #[cold]
    fn fail(&mut self, error: &LinkError) {
        self.undelivered = 0;
        match error.refusal() {
            Some(refusal) => self.refuse(&refusal),
            None => {
                self.output.clear();
                self.connection = Connection::Closing;
            }
        }
    }

    /// The number and the bytes of the next message of a frame that is complete and sound, which
    /// is delivered with that; none if the messages do not fill the frame.
    #[inline]
    fn next_message(&mut self, now: ClockReading) -> Option<(u64, Range<usize>)> {
        let (rest, offset) = self.receive.first(self.undelivered).expect("the frame is complete");
        let (length, rest) = rest.split_first_chunk()?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > rest.len() {
            return None;
        }
        let whole = LENGTH_BYTES + length;
        self.receive.consume(whole);
        self.undelivered -= whole;
        let session = self.session.as_mut().expect("an open connection is in a session");
        session.received += 1;
        if self.delivered_bytes == 0 {
            self.delivered_us = now.monotonic_us;
        }
        self.delivered_bytes += whole as u64;
        Some((session.received, offset + LENGTH_BYTES..offset + whole))
    }

    #[cold]
    fn fail_messages(&mut self) -> LinkError {
        let malformed = Malformed("length of a message");
        let error = LinkError::malformed(FrameKind::Messages, malformed);
        self.fail(&error);
        error
    }

    /// Reads a frame of an open connection.
    fn read_frame(&mut self, now: ClockReading) -> Result<Found, LinkError> {
        let length_max = self.limits.frame_bytes_max;
        let Some((header, range)) = self.complete_frame(length_max)? else {
            return Ok(Found::Nothing);
        };
        self.heard_us = Some(now.monotonic_us);
        self.take_acknowledgement(&header)?;
        let length = range.len();
        match header.kind {
            FrameKind::Messages => {
                self.check_messages(&header)?;
                self.undelivered = length;
                Ok(Found::Messages)
            }
            FrameKind::Datagram => {
                self.receive.consume(length);
                Ok(Found::Datagram(range))
            }
            FrameKind::Heartbeat => {
                let stamp = Stamp::read(&mut ByteReader::new(self.receive.at(range.clone())))
                    .map_err(|malformed| LinkError::malformed(header.kind, malformed))?;
                self.clock.receive(stamp, now);
                self.receive.consume(length);
                Ok(Found::Heartbeat(range.start + STAMP_BYTES..range.end))
            }
            FrameKind::Acknowledgement => {
                self.receive.consume(length);
                Ok(Found::Handled)
            }
            FrameKind::Refused => Err(self.read_refusal(range)),
            kind @ (FrameKind::Hello | FrameKind::HelloReply) => {
                Err(LinkError::UnexpectedFrame { kind, expected: "a frame after the hello" })
            }
        }
    }

    /// The header and the payload of the next frame, which is checked and not consumed yet; none
    /// while it is not complete.
    fn complete_frame(
        &mut self,
        length_max: u32,
    ) -> Result<Option<(Header, Range<usize>)>, LinkError> {
        let header = match self.header {
            Some(header) => header,
            None => match read_header(&mut self.receive, length_max)? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        self.header = Some(header);
        let length = header.length as usize;
        let Some((payload, offset)) = self.receive.first(length) else { return Ok(None) };
        header.check_payload(payload)?;
        self.header = None;
        Ok(Some((header, offset..offset + length)))
    }

    fn take_acknowledgement(&mut self, header: &Header) -> Result<(), LinkError> {
        let found = header.acknowledged;
        let (earlier, sent) = (self.send.acknowledged(), self.send.written());
        if header.kind == FrameKind::Refused {
            return Ok(());
        }
        if !(earlier..=sent).contains(&found) {
            return Err(LinkError::Acknowledged { found, earlier, sent });
        }
        if found > earlier {
            self.send.acknowledge(found);
        }
        Ok(())
    }

    fn check_messages(&self, header: &Header) -> Result<(), LinkError> {
        let session = self.session.expect("an open connection is in a session");
        let (found, expected) = (header.first, session.received + 1);
        if found != expected {
            return Err(LinkError::MessageNumber { found, expected });
        }
        if header.length == 0 {
            return Err(LinkError::malformed(header.kind, Malformed("first message")));
        }
        Ok(())
    }

    fn read_refusal(&self, range: Range<usize>) -> LinkError {
        match PeerRefusal::decode(self.receive.at(range)) {
            Ok(refusal) => LinkError::Refused(refusal),
            Err(malformed) => LinkError::malformed(FrameKind::Refused, malformed),
        }
    }

    /// Reads the reply to this host's hello.
    fn read_reply(&mut self, version: Option<u16>, now: ClockReading) -> Result<Found, LinkError> {
        let version = match version {
            Some(version) => version,
            None => match read_version(&mut self.receive, self.identity.versions)? {
                Some(version) => version,
                None => return Ok(Found::Nothing),
            },
        };
        self.connection = Connection::Dialing { version: Some(version) };
        let Some((header, range)) = self.complete_frame(HELLO_BYTES_MAX)? else {
            return Ok(Found::Nothing);
        };
        match header.kind {
            FrameKind::HelloReply => {}
            FrameKind::Refused => return Err(self.read_refusal(range)),
            kind => return Err(LinkError::UnexpectedFrame { kind, expected: "a hello reply" }),
        }
        let length = range.len();
        let hello = Hello::decode(self.receive.at(range))
            .map_err(|malformed| LinkError::malformed(header.kind, malformed))?;
        self.receive.consume(length);
        self.check_reply(&hello, version)?;
        self.take_reply(&hello, version, now)?;
        Ok(Found::Pending)
    }

    fn check_reply(&self, hello: &Hello, version: u16) -> Result<(), LinkError> {
        hello.check(&self.identity).map_err(LinkError::Refusal)?;
        self.check_host(hello).map_err(LinkError::Refusal)?;
        self.check_incarnation(hello).map_err(LinkError::Refusal)?;
        let wrong = |field| Err(LinkError::Malformed { kind: FrameKind::HelloReply, field });
        if hello.version != version {
            return wrong("version, which is not the greatest that both speak");
        }
        let own = SeenDial { incarnation: self.identity.incarnation, dial: self.dials };
        if hello.seen != own {
            return wrong("number of the dial, which is another than that of the hello");
        }
        Ok(())
    }

    /// Resumes the session that the reply names, or begins it.
    fn take_reply(
        &mut self,
        hello: &Hello,
        version: u16,
        now: ClockReading,
    ) -> Result<(), LinkError> {
        let wrong = |field| LinkError::Malformed { kind: FrameKind::HelloReply, field };
        let id = hello.session.ok_or(wrong("session"))?;
        let is_own = self.session.is_some_and(|session| session.id == id);
        if hello.resumed && !self.can_resume(hello) {
            self.end_session_here();
            return Err(wrong("received position of the session"));
        }
        if !hello.resumed {
            self.end_session_here();
            let is_named_by_peer = (id.host, id.incarnation) == (hello.from, hello.incarnation);
            if is_own || !is_named_by_peer || hello.received > 0 {
                return Err(wrong("session, which does not begin with the reply"));
            }
            self.output.begin_session();
            self.begin_session(id, hello);
        }
        let is_known = self.seen.incarnation == hello.incarnation;
        let earlier = if is_known { self.seen.dial } else { 0 };
        self.seen = SeenDial { incarnation: hello.incarnation, dial: hello.dial.max(earlier) };
        self.seen_process = hello.process;
        self.open(hello, version, hello.received, hello.resumed, now);
        Ok(())
    }
}

impl Link {
    /// Refuses a peer whose wall clock differs by more than `limit_us` from this host's for
    /// certain. Whether it was refused.
    pub fn refuse_clock_offset(&mut self, limit_us: u64) -> bool {
        match self.clock_offset() {
            Some(offset) if self.is_connected() && offset.exceeds(limit_us) => {
                self.refuse(&Refusal::ClockOffset { offset_us: offset.offset_us, limit_us });
                true
            }
            _ => false,
        }
    }
}
