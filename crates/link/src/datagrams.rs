//! The queue of datagrams: heartbeats, and messages of a protocol that repeats what it needs. They
//! are written before ordered messages and are never sent again. The oldest is dropped when the
//! queue is full.

use crate::clock::STAMP_BYTES;
use crate::error::OfferError;
use crate::frame::FrameKind;
use crate::limits::LinkLimits;
use std::collections::VecDeque;

/// Buffers that are kept for the next datagrams.
const SPARES: usize = 64;
/// A buffer that is longer is not kept.
const SPARE_BYTES: usize = 16 << 10;

/// A queued datagram.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub kind: FrameKind,
    /// The payload. That of a heartbeat begins with space for clock readings.
    pub payload: Vec<u8>,
}

/// The queue of one link.
#[derive(Debug)]
pub(crate) struct Datagrams {
    queue: VecDeque<Datagram>,
    /// How many of the first are being written, and may not be dropped.
    planned: usize,
    bytes: u64,
    spare: Vec<Vec<u8>>,
    dropped: u64,
    bytes_max: u64,
    count_max: usize,
}

impl Datagrams {
    pub fn new(limits: &LinkLimits) -> Datagrams {
        Datagrams {
            queue: VecDeque::new(),
            planned: 0,
            bytes: 0,
            spare: Vec::new(),
            dropped: 0,
            bytes_max: limits.datagram_bytes_max,
            count_max: limits.datagrams_max,
        }
    }

    /// Queues what `write` appends to a buffer.
    pub fn offer(
        &mut self,
        kind: FrameKind,
        frame_bytes_max: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), OfferError> {
        let mut payload = self.spare.pop().unwrap_or_default();
        let begin = if kind == FrameKind::Heartbeat { STAMP_BYTES } else { 0 };
        payload.resize(begin, 0);
        write(&mut payload);
        assert!(payload.len() >= begin, "a heartbeat is appended to what the buffer holds");
        if payload.len() > frame_bytes_max as usize {
            let bytes = payload.len() - begin;
            self.keep(payload);
            return Err(OfferError::too_long(bytes, frame_bytes_max, begin));
        }
        self.bytes += payload.len() as u64;
        self.queue.push_back(Datagram { kind, payload });
        // The newest one stays: it fits alone. So do those that are being written.
        while self.bytes > self.bytes_max || self.queue.len() > self.count_max {
            if self.queue.len() <= self.planned + 1 {
                break;
            }
            let oldest = self.queue.remove(self.planned).expect("there is one more than planned");
            self.bytes -= oldest.payload.len() as u64;
            self.keep(oldest.payload);
            self.dropped += 1;
        }
        Ok(())
    }

    fn keep(&mut self, mut payload: Vec<u8>) {
        if self.spare.len() < SPARES && payload.capacity() <= SPARE_BYTES {
            payload.clear();
            self.spare.push(payload);
        }
    }

    pub fn get(&self, index: usize) -> Option<&Datagram> {
        self.queue.get(index)
    }

    /// A datagram that is about to be written. It is not dropped from now on.
    pub fn plan(&mut self, index: usize) -> Option<&mut Datagram> {
        assert!(index <= self.planned, "datagrams are planned in their order");
        let found = self.queue.get_mut(index)?;
        self.planned = self.planned.max(index + 1);
        Some(found)
    }

    /// Only the first `count` are being written.
    pub fn set_planned(&mut self, count: usize) {
        assert!(count <= self.queue.len(), "what is being written is queued");
        self.planned = count;
    }

    /// The first was written.
    pub fn pop(&mut self) {
        let written = self.queue.pop_front().expect("what was written is queued");
        self.planned = self.planned.saturating_sub(1);
        self.bytes -= written.payload.len() as u64;
        self.keep(written.payload);
    }

    /// Drops all datagrams: the connection is over.
    pub fn clear(&mut self) {
        self.dropped += self.queue.len() as u64;
        self.planned = 0;
        while !self.queue.is_empty() {
            self.pop();
        }
        assert_eq!(self.bytes, 0, "bytes are those of the queue");
    }

    /// Counts a datagram that could not be queued.
    pub fn count_dropped(&mut self) {
        self.dropped += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The number of datagrams that were dropped, because of the limits or with a connection.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(bytes_max: u64, count_max: usize) -> Datagrams {
        let limits = LinkLimits {
            datagram_bytes_max: bytes_max,
            datagrams_max: count_max,
            ..LinkLimits::default()
        };
        Datagrams::new(&limits)
    }

    fn offer(queue: &mut Datagrams, byte: u8, length: usize) -> Result<(), OfferError> {
        queue.offer(FrameKind::Datagram, 100, |buffer| buffer.resize(length, byte))
    }

    fn firsts(queue: &Datagrams) -> Vec<u8> {
        queue.queue.iter().map(|datagram| datagram.payload[0]).collect()
    }

    #[test]
    fn the_oldest_is_dropped_over_each_limit() {
        let mut by_count = queue(1_000, 3);
        (0..5).for_each(|byte| offer(&mut by_count, byte, 1).unwrap());
        assert_eq!((firsts(&by_count), by_count.dropped()), (vec![2, 3, 4], 2));
        let mut by_bytes = queue(100, 1_000);
        (0..5).for_each(|byte| offer(&mut by_bytes, byte, 40).unwrap());
        assert_eq!((firsts(&by_bytes), by_bytes.dropped()), (vec![3, 4], 3));
        offer(&mut by_bytes, 9, 100).unwrap();
        assert_eq!(firsts(&by_bytes), [9]);
        let error = offer(&mut by_bytes, 9, 101).unwrap_err();
        assert_eq!(error, OfferError::TooLong { bytes: 101, bytes_max: 100 });
        assert_eq!((firsts(&by_bytes), by_bytes.dropped()), (vec![9], 5));
        by_bytes.clear();
        assert_eq!((by_bytes.is_empty(), by_bytes.dropped(), by_bytes.bytes), (true, 6, 0));
    }

    #[test]
    fn what_is_being_written_is_not_dropped() {
        let mut queue = queue(1_000, 2);
        (0..2).for_each(|byte| offer(&mut queue, byte, 1).unwrap());
        assert!(queue.plan(0).is_some());
        (2..5).for_each(|byte| offer(&mut queue, byte, 1).unwrap());
        assert_eq!(firsts(&queue), [0, 4]);
        queue.set_planned(1);
        queue.pop();
        assert_eq!(firsts(&queue), [4]);
    }
}
