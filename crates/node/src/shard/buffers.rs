//! Buffers of calls and answers on their way between threads, kept for their memory.

/// Buffers that are kept.
const SPARE_BUFFERS: usize = 4096;
/// A buffer that is larger is not kept.
const KEPT_BYTES: usize = 64 * 1024;

/// See the module.
#[derive(Default)]
pub(super) struct Buffers {
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    /// An empty buffer.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// A buffer with these bytes.
    #[inline]
    pub(super) fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.take();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Keeps a buffer for reuse, unless there are enough or it is large.
    #[inline]
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() <= KEPT_BYTES {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
