//! A read buffer that frames are split off in place. It grows to the greatest frame seen and is
//! never given back, so steady traffic allocates nothing.

use crate::ClientError;
use lockstep_wire_volt::frame::{frame_bytes, next_frame};
use std::io::{self, Read};

/// First size: an idle connection should cost little, ten thousand of them are not unusual.
const INITIAL_BYTES: usize = 8 * 1024;
/// The least room that a read gets.
const LEAST_ROOM_BYTES: usize = 4 * 1024;
/// Up to here the buffer doubles when a read fills it, so that busy connections read in large
/// batches.
const BUSY_BYTES: usize = 256 * 1024;

/// Received bytes that are not consumed yet: `bytes[start..end]`.
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    max_frame_bytes: usize,
}

impl ReceiveBuffer {
    pub fn new(max_frame_bytes: usize) -> ReceiveBuffer {
        ReceiveBuffer { bytes: vec![0; INITIAL_BYTES], start: 0, end: 0, max_frame_bytes }
    }

    /// Reads once. Returns the bytes read, 0 at the end of the stream, and whether there was room
    /// for more: then the socket is drained.
    pub fn read_from(&mut self, source: &mut impl Read) -> io::Result<(usize, bool)> {
        self.make_room();
        let room = self.bytes.len() - self.end;
        let count = source.read(&mut self.bytes[self.end..])?;
        self.end += count;
        if count == room && self.bytes.len() < BUSY_BYTES {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        Ok((count, count < room))
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let pending = &self.bytes[self.start..self.end];
        // A length that is not sound is reported by `next_frame`; here it just needs no room.
        let wanted = frame_bytes(pending, self.max_frame_bytes).ok().flatten().unwrap_or(0);
        let missing = wanted.saturating_sub(pending.len()).max(LEAST_ROOM_BYTES);
        if self.bytes.len() - self.end >= missing {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.bytes.len() - self.end < missing {
            self.bytes.resize(self.end + missing, 0);
        }
    }

    /// The body of the first whole frame, which is then consumed.
    #[inline]
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, ClientError> {
        let pending = &self.bytes[self.start..self.end];
        match next_frame(pending, self.max_frame_bytes) {
            Err(error) => Err(ClientError::Protocol(error.to_string())),
            Ok(None) => Ok(None),
            Ok(Some((body, consumed))) => {
                self.start += consumed;
                Ok(Some(body))
            }
        }
    }
}
