//! What is written next to a connection, as slices of the memory where it is, and how much of it
//! was taken.
//!
//! The order is: the rest of the frame that was written in part, the hello or refusal, datagrams,
//! ordered messages, and an acknowledgement of its own if nothing else carries one. Headers are
//! made at each write, so that they acknowledge all that was delivered until then and a datagram
//! overtakes all that is not begun.

use crate::clock::{ClockReading, ClockSamples, STAMP_BYTES};
use crate::datagrams::Datagrams;
use crate::frame::{FrameKind, HEADER_BYTES, Header};
use crate::send_buffer::SendBuffer;
use std::io::IoSlice;

/// Where a planned frame's payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// Whole frames, and the preamble, as bytes.
    Control,
    /// A datagram, by its index in the queue.
    Datagram(usize),
    /// A batch, by its number.
    Batch(u64),
    Nothing,
}

#[derive(Debug, Clone, Copy)]
struct Planned {
    header: [u8; HEADER_BYTES],
    header_length: usize,
    payload: Payload,
    payload_length: usize,
    acknowledged: u64,
}

impl Planned {
    fn length(&self) -> usize {
        self.header_length + self.payload_length
    }
}

/// The output of one connection.
#[derive(Debug, Default)]
pub(crate) struct Output {
    control: Vec<u8>,
    plan: Vec<Planned>,
    /// How many bytes of the first planned frame were written.
    begun: usize,
    /// The last position that a header carried whose writing has begun.
    acknowledged: u64,
    frames: u64,
}

/// What frames are made of.
pub(crate) struct Sources<'a> {
    pub datagrams: &'a mut Datagrams,
    pub send: &'a mut SendBuffer,
    pub clock: &'a ClockSamples,
    pub now: ClockReading,
    /// The number of the last message that was delivered.
    pub received: u64,
    /// Whether the hellos were exchanged, so that other frames may follow.
    pub is_open: bool,
    /// Whether an acknowledgement is due with nothing to carry it.
    pub acknowledge: bool,
}

impl Output {
    /// A connection begins, at whose beginning the peer learns a position.
    pub fn begin(&mut self, acknowledged: u64) {
        self.clear();
        assert!(!self.is_urgent(), "nothing of an earlier connection is written");
        self.acknowledged = acknowledged;
    }

    /// The peer has no position: a session begins on a connection that exists already.
    pub fn begin_session(&mut self) {
        self.acknowledged = 0;
    }

    /// Forgets what was to be written.
    pub fn clear(&mut self) {
        self.control.clear();
        self.plan.clear();
        self.begun = 0;
    }

    /// Frames to be written before all others, which are appended by `write`.
    pub fn add_control(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.control);
    }

    /// Whether there is a hello or a refusal to write, or the rest of a frame.
    pub fn is_urgent(&self) -> bool {
        !self.control.is_empty() || self.begun > 0
    }

    /// The last position that the peer has been sent.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// How many frames were written as a whole.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Decides what is written next, with at most `slices` slices.
    pub fn plan(&mut self, sources: &mut Sources<'_>, slices: usize) {
        assert!(slices >= 2, "a frame takes a slice for its header and one for its payload");
        self.plan.truncate(usize::from(self.begun > 0));
        let is_begun = |payload| self.plan.first().is_some_and(|first| first.payload == payload);
        let datagram_begun = is_begun(Payload::Datagram(0));
        let batch_begun = is_begun(Payload::Batch(sources.send.next_unwritten()));
        let control_begun = is_begun(Payload::Control);
        sources.datagrams.set_planned(usize::from(datagram_begun));
        if control_begun {
            // A refusal may have followed a hello since.
            self.plan[0].payload_length = self.control.len();
        } else if !self.control.is_empty() {
            self.plan.push(Planned {
                header: [0; HEADER_BYTES],
                header_length: 0,
                payload: Payload::Control,
                payload_length: self.control.len(),
                acknowledged: self.acknowledged,
            });
        }
        if !sources.is_open {
            return;
        }
        let frames_max = slices / 2;
        self.plan_datagrams(sources, usize::from(datagram_begun), frames_max);
        self.plan_batches(sources, u64::from(batch_begun), frames_max);
        if self.plan.is_empty() && sources.acknowledge {
            let header = Header::of(FrameKind::Acknowledgement, &[], sources.received);
            self.add(header, Payload::Nothing);
        }
    }

    fn plan_datagrams(&mut self, sources: &mut Sources<'_>, from: usize, frames_max: usize) {
        let mut index = from;
        while self.plan.len() < frames_max {
            let Some(datagram) = sources.datagrams.plan(index) else { return };
            if datagram.kind == FrameKind::Heartbeat {
                let stamp = sources.clock.stamp(sources.now).encode();
                datagram.payload[..STAMP_BYTES].copy_from_slice(&stamp);
            }
            let header = Header::of(datagram.kind, &datagram.payload, sources.received);
            self.add(header, Payload::Datagram(index));
            index += 1;
        }
    }

    fn plan_batches(&mut self, sources: &mut Sources<'_>, skip: u64, frames_max: usize) {
        let mut number = sources.send.next_unwritten() + skip;
        while self.plan.len() < frames_max {
            let Some(batch) = sources.send.close(number) else { return };
            let header = Header {
                payload_checksum: batch.checksum.expect("a closed batch has its checksum"),
                length: batch.length() as u32,
                kind: FrameKind::Messages,
                acknowledged: sources.received,
                first: batch.first,
            };
            self.add(header, Payload::Batch(number));
            number += 1;
        }
    }

    fn add(&mut self, header: Header, payload: Payload) {
        self.plan.push(Planned {
            header: header.encode(),
            header_length: HEADER_BYTES,
            payload,
            payload_length: header.length as usize,
            acknowledged: header.acknowledged,
        });
    }

    /// Fills the slices with what was planned. Gives the number of slices.
    pub fn fill<'a>(
        &'a self,
        datagrams: &'a Datagrams,
        send: &'a SendBuffer,
        slices: &mut [IoSlice<'a>],
    ) -> usize {
        let mut used = 0;
        let mut skip = self.begun;
        for planned in &self.plan {
            if slices.len() - used < 2 {
                break;
            }
            let payload: &[u8] = match planned.payload {
                Payload::Control => &self.control,
                Payload::Datagram(index) => {
                    &datagrams.get(index).expect("what is planned is queued").payload
                }
                Payload::Batch(number) => {
                    send.payload(send.batch(number).expect("what is planned is kept"))
                }
                Payload::Nothing => &[],
            };
            debug_assert_eq!(payload.len(), planned.payload_length, "planned frames are closed");
            for part in [&planned.header[..planned.header_length], payload] {
                let rest = &part[skip.min(part.len())..];
                skip -= skip.min(part.len());
                if !rest.is_empty() {
                    slices[used] = IoSlice::new(rest);
                    used += 1;
                }
            }
        }
        used
    }

    /// This many bytes of the slices were written.
    pub fn wrote(&mut self, count: usize, datagrams: &mut Datagrams, send: &mut SendBuffer) {
        let mut rest = self.begun + count;
        let mut done = 0;
        while let Some(planned) = self.plan.get(done).filter(|_| rest > 0) {
            self.acknowledged = self.acknowledged.max(planned.acknowledged);
            if rest < planned.length() {
                break;
            }
            rest -= planned.length();
            done += 1;
            match planned.payload {
                Payload::Control => self.control.clear(),
                Payload::Datagram(_) => datagrams.pop(),
                Payload::Batch(_) => send.wrote_batch(),
                Payload::Nothing => {}
            }
        }
        assert!(rest == 0 || done < self.plan.len(), "no more was written than was planned");
        self.frames += done as u64;
        assert!(done > 0 || rest >= self.begun, "what was written stays written");
        self.plan.drain(..done);
        self.plan.truncate(usize::from(rest > 0));
        self.begun = rest;
        let datagram_begun = match self.plan.first_mut().map(|planned| &mut planned.payload) {
            Some(Payload::Datagram(index)) => {
                *index = 0;
                true
            }
            _ => false,
        };
        datagrams.set_planned(usize::from(datagram_begun));
    }
}
