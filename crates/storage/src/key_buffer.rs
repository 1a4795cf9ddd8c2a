//! Where the bytes of a key are put together: on the stack while short, else in memory that the
//! index lends and takes back, so that no lookup allocates once the index is warm.

use std::cell::RefCell;

/// Longest key that stays on the stack.
const INLINE_BYTES: usize = 128;
/// Bytes of a key that lie in the index's nodes.
pub(crate) const PREFIX_BYTES: usize = 24;
/// Buffers kept for keys that are longer.
const POOL_LIMIT: usize = 4;

/// The buffers that an index lends for long keys.
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

/// A key under construction, or the bound of a cursor.
pub(crate) struct KeyBuffer<'a> {
    inline: [u8; INLINE_BYTES],
    length: usize,
    long: Option<Vec<u8>>,
    pool: &'a KeyPool,
}

impl<'a> KeyBuffer<'a> {
    pub(crate) fn new(pool: &'a KeyPool) -> KeyBuffer<'a> {
        KeyBuffer { inline: [0; INLINE_BYTES], length: 0, long: None, pool }
    }

    #[inline]
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if end <= INLINE_BYTES && self.long.is_none() {
            self.inline[self.length..end].copy_from_slice(bytes);
            self.length = end;
        } else {
            self.extend_long(bytes);
        }
    }

    #[cold]
    fn extend_long(&mut self, bytes: &[u8]) {
        if self.long.is_none() {
            let mut long = self.pool.spare.borrow_mut().pop().unwrap_or_default();
            long.clear();
            long.extend_from_slice(&self.inline[..self.length]);
            self.long = Some(long);
        }
        if let Some(long) = &mut self.long {
            long.extend_from_slice(bytes);
            self.length = long.len();
        }
    }

    /// The key's bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.long {
            None => &self.inline[..self.length],
            Some(long) => long,
        }
    }

    /// The key as the tree compares it; bytes that are missing count as zero, or as 0xff for
    /// `high`.
    #[inline]
    pub(crate) fn probe(&self, high: bool) -> BytesProbe<'_> {
        let bytes = self.bytes();
        let mut prefix = [if high { 0xff } else { 0 }; PREFIX_BYTES];
        let (head, tail) = bytes.split_at(bytes.len().min(PREFIX_BYTES));
        prefix[..head.len()].copy_from_slice(head);
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&prefix[at..at + 8]);
            u64::from_be_bytes(word)
        };
        BytesProbe { words: [word(0), word(8), word(16)], tail, high }
    }
}

impl Drop for KeyBuffer<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(long) = self.long.take() {
            let mut spare = self.pool.spare.borrow_mut();
            if spare.len() < POOL_LIMIT {
                spare.push(long);
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
    /// The probe stands behind all keys that begin with it, not before them.
    pub(crate) high: bool,
}
