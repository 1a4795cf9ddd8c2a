//! Frames: every message, both ways, is an `i32` length (not counting itself) and a body.

use std::fmt;

/// Bytes of the length in front of a body.
pub const LENGTH_BYTES: usize = 4;
/// The greatest body that VoltDB's servers and clients accept, and the default limit here.
pub const DEFAULT_MAX_FRAME_BYTES: usize = 52_428_800;

/// A length that no sound message has: the stream cannot be followed further, so the connection
/// closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length is zero or negative.
    NotPositive(i32),
    /// The length is over the limit.
    TooLong {
        /// The length that the peer sent, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NotPositive(length) => {
                write!(f, "a message announces {length} bytes; at least 1 is needed")
            }
            FrameError::TooLong { length, limit } => {
                write!(f, "a message announces {length} bytes, over the limit of {limit} bytes")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Bytes of the first frame, its length included, once its four length bytes are there. Lets a
/// reader make room for the whole frame at once.
#[inline]
pub fn frame_bytes(bytes: &[u8], max_bytes: usize) -> Result<Option<usize>, FrameError> {
    let Some((head, _)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*head);
    if length <= 0 {
        return Err(FrameError::NotPositive(length));
    }
    let body = length as usize;
    if body > max_bytes {
        return Err(FrameError::TooLong { length: body, limit: max_bytes });
    }
    Ok(Some(LENGTH_BYTES + body))
}

/// Splits the first whole frame off a read buffer: its body and how many bytes it took from the
/// buffer. `None` while bytes are missing.
#[inline]
pub fn next_frame(bytes: &[u8], max_bytes: usize) -> Result<Option<(&[u8], usize)>, FrameError> {
    match frame_bytes(bytes, max_bytes)? {
        Some(total) if total <= bytes.len() => Ok(Some((&bytes[LENGTH_BYTES..total], total))),
        _ => Ok(None),
    }
}
