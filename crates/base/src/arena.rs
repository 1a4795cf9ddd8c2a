//! A bump arena: memory for values that live as long as one statement or transaction.
//!
//! Allocation is a pointer increment; nothing is freed one by one. [`Arena::reset`] makes all
//! memory usable again and keeps the chunks, so that a site that runs transaction after
//! transaction allocates nothing from the system once it is warm.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// Alignment of every chunk; the greatest that a value may need.
const CHUNK_ALIGN: usize = 16;
/// Chunks of this size are kept by `reset`; larger ones, made for one large value, are freed.
const CHUNK_BYTES: usize = 64 * 1024;

/// Memory that is given out piece by piece and released at once.
pub struct Arena {
    /// The next free byte of the current chunk and the end of it.
    next: Cell<usize>,
    end: Cell<usize>,
    /// Bytes of the chunks in use since the last reset.
    taken: Cell<usize>,
    /// Base of the current chunk, for its provenance.
    base: Cell<NonNull<u8>>,
    chunks: RefCell<Chunks>,
}

#[derive(Default)]
struct Chunks {
    /// Chunks of the standard size; the first `used` are in use.
    standard: Vec<NonNull<u8>>,
    used: usize,
    /// Chunks for single large values, with their sizes.
    large: Vec<(NonNull<u8>, usize)>,
}

// SAFETY: the arena owns its chunks; it is not `Sync`, so one thread uses it at a time.
unsafe impl Send for Arena {}

impl Default for Arena {
    fn default() -> Arena {
        Arena {
            next: Cell::new(0),
            end: Cell::new(0),
            taken: Cell::new(0),
            base: Cell::new(NonNull::dangling()),
            chunks: RefCell::default(),
        }
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("reserved_bytes", &self.reserved_bytes()).finish()
    }
}

fn chunk_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, CHUNK_ALIGN).expect("chunks are far smaller than memory")
}

fn new_chunk(bytes: usize) -> NonNull<u8> {
    let layout = chunk_layout(bytes);
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Arena {
    /// An arena without memory; the first allocation gets some.
    pub fn new() -> Arena {
        Arena::default()
    }

    /// A slice of `count` copies of `value`.
    #[inline]
    pub fn fill<T: Copy>(&self, count: usize, value: T) -> &mut [T] {
        self.generate(count, |_| value)
    }

    /// A copy of a slice.
    #[inline]
    pub fn copy<T: Copy>(&self, values: &[T]) -> &mut [T] {
        self.generate(values.len(), |index| values[index])
    }

    /// A copy of a text.
    #[inline]
    pub fn copy_text(&self, text: &str) -> &str {
        let bytes: &[u8] = self.copy(text.as_bytes());
        // SAFETY: the bytes are those of a `str`.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }

    /// One value.
    #[inline]
    pub fn value<T: Copy>(&self, value: T) -> &mut T {
        &mut self.fill(1, value)[0]
    }

    #[inline]
    #[allow(clippy::mut_from_ref, reason = "every call hands out other memory")]
    fn generate<T: Copy>(&self, count: usize, value: impl Fn(usize) -> T) -> &mut [T] {
        const { assert!(align_of::<T>() <= CHUNK_ALIGN) };
        let bytes = count.checked_mul(size_of::<T>()).expect("slices fit the address space");
        if bytes == 0 {
            // SAFETY: a dangling, aligned pointer is valid for zero bytes.
            return unsafe { std::slice::from_raw_parts_mut(NonNull::dangling().as_ptr(), count) };
        }
        let start = self.allocate(bytes, align_of::<T>()).cast::<T>().as_ptr();
        for index in 0..count {
            // SAFETY: `allocate` gave fresh memory for `count` aligned values.
            unsafe { start.add(index).write(value(index)) };
        }
        // SAFETY: all values were written; nobody else has this memory until `reset`, which
        // borrows the arena mutably and so ends this borrow first. `T: Copy` needs no drop.
        unsafe { std::slice::from_raw_parts_mut(start, count) }
    }

    #[inline]
    fn allocate(&self, bytes: usize, align: usize) -> NonNull<u8> {
        let start = self.next.get().next_multiple_of(align);
        if start + bytes > self.end.get() {
            return self.allocate_slow(bytes);
        }
        self.next.set(start + bytes);
        // SAFETY: `start` is an offset within the current chunk: `start + bytes <= end`.
        unsafe { self.base.get().add(start) }
    }

    #[cold]
    fn allocate_slow(&self, bytes: usize) -> NonNull<u8> {
        let mut chunks = self.chunks.borrow_mut();
        if bytes > CHUNK_BYTES / 4 {
            let chunk = new_chunk(bytes);
            chunks.large.push((chunk, bytes));
            self.taken.set(self.taken.get() + bytes);
            return chunk;
        }
        if chunks.used == chunks.standard.len() {
            chunks.standard.push(new_chunk(CHUNK_BYTES));
        }
        let chunk = chunks.standard[chunks.used];
        chunks.used += 1;
        self.taken.set(self.taken.get() + CHUNK_BYTES);
        self.base.set(chunk);
        self.next.set(bytes);
        self.end.set(CHUNK_BYTES);
        chunk
    }

    /// Whether anything was handed out since the last reset.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.taken.get() > 0
    }

    /// Bytes of the chunks in use, up to one chunk more than [`Arena::used_bytes`]: for those who
    /// ask often.
    #[inline]
    pub fn taken_bytes(&self) -> usize {
        self.taken.get()
    }

    /// Releases everything that was given out.
    pub fn reset(&mut self) {
        let chunks = self.chunks.get_mut();
        for (chunk, bytes) in chunks.large.drain(..) {
            // SAFETY: the chunk was allocated with this layout; the mutable borrow of the arena
            // shows that nothing in it is in use.
            unsafe { dealloc(chunk.as_ptr(), chunk_layout(bytes)) };
        }
        chunks.used = 0;
        self.taken.set(0);
        self.next.set(0);
        self.end.set(0);
    }

    /// Gives chunks beyond `keep_bytes` back to the system; call it after [`Arena::reset`].
    pub fn shrink(&mut self, keep_bytes: usize) {
        let chunks = self.chunks.get_mut();
        let keep = (keep_bytes / CHUNK_BYTES).max(chunks.used);
        for chunk in chunks.standard.drain(keep.min(chunks.standard.len())..) {
            // SAFETY: standard chunks beyond `used` hold nothing and have this layout.
            unsafe { dealloc(chunk.as_ptr(), chunk_layout(CHUNK_BYTES)) };
        }
    }

    /// Bytes obtained from the system.
    pub fn reserved_bytes(&self) -> usize {
        let chunks = self.chunks.borrow();
        chunks.standard.len() * CHUNK_BYTES + chunks.large.iter().map(|(_, b)| b).sum::<usize>()
    }

    /// Bytes handed out since the last reset, unused ends of chunks included: what a statement's
    /// memory limit is compared with.
    pub fn used_bytes(&self) -> usize {
        let chunks = self.chunks.borrow();
        let full = chunks.used.saturating_sub(1) * CHUNK_BYTES;
        full + self.next.get() + chunks.large.iter().map(|(_, b)| b).sum::<usize>()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.reset();
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_apart_and_aligned() {
        let arena = Arena::new();
        let mut texts = Vec::new();
        let mut numbers = Vec::new();
        for i in 0..20_000usize {
            texts.push((i, arena.copy_text(&i.to_string())));
            let number = arena.value(i as u64);
            assert_eq!(std::ptr::from_mut(number).addr() % align_of::<u64>(), 0);
            numbers.push((i, number));
        }
        assert!(texts.iter().all(|(i, text)| text.parse() == Ok(*i)));
        assert!(numbers.iter().all(|(i, number)| **number == *i as u64));
        assert_eq!(arena.copy::<u64>(&[]), &[]);
        assert_eq!(arena.fill(3, ()), &[(); 3]);
    }

    #[test]
    fn reset_keeps_standard_chunks_and_frees_large_ones() {
        let mut arena = Arena::new();
        for _ in 0..3 {
            for _ in 0..100 {
                assert!(arena.fill(1000, 7u8).iter().all(|b| *b == 7));
            }
            assert!(arena.fill(1_000_000, 9u8).iter().all(|b| *b == 9));
            assert!(arena.used_bytes() >= 1_100_000);
            assert!(arena.taken_bytes() >= arena.used_bytes());
            assert!(arena.taken_bytes() - arena.used_bytes() <= CHUNK_BYTES);
            assert!(arena.is_used());
            arena.reset();
            assert!(!arena.is_used());
            assert_eq!(arena.used_bytes(), 0);
            assert_eq!(arena.reserved_bytes(), 2 * CHUNK_BYTES);
        }
        arena.shrink(0);
        assert_eq!(arena.reserved_bytes(), 0);
        assert_eq!(arena.copy_text("again"), "again");
    }
}
