//! The receive buffer: the bytes of a connection until their frames are complete. They are read
//! into it and borrowed from it without a copy.
//!
//! The buffer grows while a frame comes in that is longer than it, by the number of bytes that have
//! come and not by the length in the header, so that a header alone allocates nothing. It shrinks
//! when no such frame has come for a while.

use std::ops::Range;

/// After this many reads without a frame over the usual length the buffer shrinks.
const READS_BEFORE_SHRINKING: u32 = 64;

/// Received bytes, of which the front is consumed.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// How many bytes from `start` on the next step needs.
    needed: usize,
    usual_bytes: usize,
    /// Reads since a frame over the usual length came.
    reads: u32,
}

impl ReceiveBuffer {
    /// An empty one, of a usual length.
    pub fn new(usual_bytes: usize) -> ReceiveBuffer {
        let bytes = vec![0; usual_bytes];
        ReceiveBuffer { bytes, start: 0, end: 0, needed: 1, usual_bytes, reads: 0 }
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        (self.start, self.end, self.needed) = (0, 0, 1);
        self.shrink();
    }

    /// Space for the next bytes. Empty only while what is needed is there.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.reads += 1;
            if self.reads >= READS_BEFORE_SHRINKING {
                self.shrink();
            }
        }
        let is_low = self.bytes.len() - self.end < self.bytes.len() / 4;
        if self.start > 0 && (is_low || self.start + self.needed > self.bytes.len()) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() && self.needed > self.end {
            let length = (self.bytes.len() * 2).min(self.needed).max(self.usual_bytes);
            self.bytes.resize(length, 0);
        }
        assert!(self.start <= self.end, "bytes are consumed after they came");
        &mut self.bytes[self.end..]
    }

    /// The first `count` bytes of the space hold data now.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "no more is read than there is space for");
        self.end += count;
    }

    /// Appends bytes that were read elsewhere.
    pub fn append(&mut self, bytes: &[u8]) {
        self.needed = self.needed.max(self.end - self.start + bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            let space = self.space();
            let count = space.len().min(rest.len());
            assert!(count > 0, "the buffer takes what is needed");
            space[..count].copy_from_slice(&rest[..count]);
            self.filled(count);
            rest = &rest[count..];
        }
    }

    /// The bytes that are not consumed.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first bytes that are not consumed, and their offset; none if fewer than `count` came:
    /// then the buffer will take that many.
    #[inline]
    pub fn first(&mut self, count: usize) -> Option<(&[u8], usize)> {
        if self.end - self.start < count {
            self.needed = count;
            if count > self.usual_bytes {
                self.reads = 0;
            }
            return None;
        }
        Some((&self.bytes[self.start..self.start + count], self.start))
    }

    /// Consumes bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only received bytes are consumed");
        self.start += count;
        self.needed = 1;
    }

    /// Bytes by their offset, which stays valid until the next `space`.
    #[inline]
    pub fn at(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    fn shrink(&mut self) {
        self.reads = 0;
        if self.bytes.len() > self.usual_bytes {
            self.bytes.truncate(self.usual_bytes);
            self.bytes.shrink_to_fit();
        }
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_bytes_are_kept_and_moved_to_the_front() {
        let mut buffer = ReceiveBuffer::new(8);
        buffer.space()[..6].copy_from_slice(b"abcdef");
        buffer.filled(6);
        assert_eq!(buffer.first(4).unwrap().0, b"abcd");
        buffer.consume(4);
        assert_eq!(buffer.first(7), None);
        assert_eq!(buffer.space().len(), 6, "the space after what was moved");
        buffer.space()[..5].copy_from_slice(b"ghijk");
        buffer.filled(5);
        assert_eq!(buffer.unread(), b"efghijk");
        assert_eq!(buffer.first(7), Some((&b"efghijk"[..], 0)));
    }

    #[test]
    fn memory_grows_with_what_has_come_and_shrinks_again() {
        let mut buffer = ReceiveBuffer::new(16);
        let length = 1_000;
        let mut sizes = Vec::new();
        while buffer.first(length).is_none() {
            let count = buffer.space().len();
            buffer.filled(count);
            sizes.push(buffer.capacity());
        }
        assert_eq!(sizes[..4], [16, 32, 64, 128]);
        assert!(buffer.capacity() <= 1_024);
        assert!(buffer.space().is_empty(), "the frame is complete");
        buffer.consume(length);
        for _ in 1..READS_BEFORE_SHRINKING {
            assert!(buffer.space().len() >= length, "the next frame may be as long");
        }
        assert_eq!(buffer.space().len(), 16);
        assert_eq!(buffer.capacity(), 16);
    }

    #[test]
    fn bytes_from_elsewhere_are_appended() {
        let mut buffer = ReceiveBuffer::new(4);
        buffer.append(b"0123456789");
        buffer.append(b"");
        assert_eq!(buffer.unread(), b"0123456789");
        buffer.clear();
        assert_eq!((buffer.unread(), buffer.capacity()), (&b""[..], 4));
    }
}
