//! Connections as TCP makes them: bytes in order, until a break that loses what is on the way.

use std::collections::VecDeque;

/// The most bytes on the way in one direction.
const WINDOW_BYTES: usize = 3_000;

/// How a side finds out that a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not at all: the other side or the network is gone. Only a time limit helps.
    Silent,
    /// After the bytes that are on the way.
    Finished,
    /// At once.
    Reset,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// Nothing that is written arrives any more, and nobody is notified.
    is_cut: bool,
    end: Option<End>,
}

/// A connection; its pipes by the side that writes.
#[derive(Debug, Default)]
pub struct Stream {
    pipes: [Pipe; 2],
}

impl Stream {
    /// How many bytes the side may write now.
    pub fn space(&self, side: usize) -> usize {
        WINDOW_BYTES.saturating_sub(self.pipes[side].bytes.len())
    }

    pub fn write(&mut self, side: usize, bytes: &[u8]) {
        let pipe = &mut self.pipes[side];
        if pipe.end.is_none() {
            pipe.bytes.extend(bytes);
        }
    }

    /// How many bytes have come for the side.
    pub fn arrived(&self, side: usize) -> usize {
        let pipe = &self.pipes[1 - side];
        if pipe.is_cut { 0 } else { pipe.bytes.len() }
    }

    pub fn read(&mut self, side: usize, space: &mut [u8]) {
        let pipe = &mut self.pipes[1 - side];
        let taken = pipe.bytes.drain(..space.len());
        for (target, byte) in space.iter_mut().zip(taken) {
            *target = byte;
        }
    }

    /// Whether the side sees that the connection is over.
    pub fn is_over(&self, side: usize) -> bool {
        let pipe = &self.pipes[1 - side];
        match pipe.end {
            None | Some(End::Silent) => false,
            Some(End::Finished) => pipe.bytes.is_empty() && !pipe.is_cut,
            Some(End::Reset) => !pipe.is_cut,
        }
    }

    /// The side closes its end. It reads no more; the other side finds out or not.
    pub fn close(&mut self, side: usize, end: End) {
        let [own, other] = match side {
            0 => [0, 1],
            _ => [1, 0],
        };
        self.pipes[other].bytes.clear();
        self.pipes[other].end.get_or_insert(End::Silent);
        let pipe = &mut self.pipes[own];
        if end == End::Reset {
            pipe.bytes.clear();
        }
        pipe.end.get_or_insert(end);
    }

    /// What the side writes is lost from now on, and what is on the way.
    pub fn cut(&mut self, side: usize) {
        self.pipes[side].is_cut = true;
    }

    /// The network ends the connection for both sides.
    pub fn reset(&mut self) {
        for pipe in &mut self.pipes {
            pipe.bytes.clear();
            pipe.end = Some(End::Reset);
        }
    }

    /// A cut direction works again: what was lost on the way is sent again, as TCP does.
    pub fn heal(&mut self) {
        self.pipes.iter_mut().for_each(|pipe| pipe.is_cut = false);
    }
}
