//! Where the bytes of a key are put together: in memory that the index lends and undoes, so
//! that no lookup allocates once the index is warm.

use std::cell::RefCell;

/// Bytes of a key that lie in the index's nodes.
pub(crate) const PREFIX_BYTES: usize = 24;
/// Buffers kept at rest, and their greatest size.
const POOL_LIMIT: usize = 8;
const KEEP_BYTES: usize = 1 << 20;

/// The buffers that an index lends.
#[derive(Default)]
pub(crate) struct KeyPool {
    spare: RefCell<Vec<Vec<u8>>>,
}

impl KeyPool {
    /// Bytes of the buffers at rest.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let spare = self.spare.borrow();
        let buffers: usize = spare.iter().map(Vec::capacity).sum();
        buffers + spare.capacity() * size_of::<Vec<u8>>()
    }
}

/// A key under construction, or the bound of a cursor. Costs nothing until bytes are added.
pub(crate) struct KeyBuffer<'a> {
    /// The key, filled up with zeros to at least `PREFIX_BYTES` once it is in use.
    bytes: Vec<u8>,
    length: usize,
    pool: &'a KeyPool,
}

impl<'a> KeyBuffer<'a> {
    #[inline]
    pub(crate) fn new(pool: &'a KeyPool) -> KeyBuffer<'a> {
        KeyBuffer { bytes: Vec::new(), length: 0, pool }
    }

    #[inline]
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if end > self.bytes.len() {
            self.grow(end);
        }
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    /// Makes room for `end` bytes.
    fn grow(&mut self, end: usize) {
        if self.bytes.capacity() == 0 {
            self.bytes = self.pool.spare.borrow_mut().pop().unwrap_or_default();
            self.bytes.clear();
        }
        self.bytes.resize(end.max(PREFIX_BYTES), 0);
    }

    /// The key's bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The key as the tree compares it; bytes that are missing count as zero, or as 0xff for
    /// `high`.
    #[inline]
    pub(crate) fn probe(&self, high: bool) -> BytesProbe<'_> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX_BYTES>() else {
            // No bytes at all.
            let fill = if high { u64::MAX } else { 0 };
            return BytesProbe { words: [fill; 3], tail: &[], high };
        };
        let (chunks, _) = prefix.as_chunks::<8>();
        let mut words = [0u64; 3];
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_be_bytes(*chunk);
        }
        if self.length >= PREFIX_BYTES {
            return BytesProbe { words, tail: &self.bytes[PREFIX_BYTES..self.length], high };
        }
        if high {
            let (full, rest) = (self.length / 8, self.length % 8);
            words[full] |= u64::MAX >> (8 * rest);
            words[full + 1..].fill(u64::MAX);
        }
        BytesProbe { words, tail: &[], high }
    }
}

impl Drop for KeyBuffer<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.bytes.capacity() > 0 {
            let mut spare = self.pool.spare.borrow_mut();
            if spare.len() < POOL_LIMIT && self.bytes.capacity() <= KEEP_BYTES {
                spare.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

/// What a byte key is searched with.
#[derive(Clone, Copy)]
pub(crate) struct BytesProbe<'p> {
    /// The first 24 bytes as big-endian numbers.
    pub(crate) words: [u64; 3],
    pub(crate) tail: &'p [u8],
    /// The probe stands after all keys that begin with it, not before them.
    pub(crate) high: bool,
}
