//! Nodes of the B+tree, and the kinds of keys they hold.

use crate::heap::StringHeap;
use crate::key_buffer::BytesProbe;
use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Entries of a full leaf.
pub(crate) const LEAF_CAPACITY: usize = 64;
/// Children of a full inner node; one more than its separators.
pub(crate) const FAN_OUT: usize = 64;

/// A key as nodes hold it. Kept apart from the probe that searches for it, because a long key's
/// tail lies in the tree's arena.
pub(crate) trait TreeKey: Copy {
    /// Where the tails of long keys lie.
    type Arena: Default;
    /// A key to search for.
    type Probe<'p>: Copy;

    /// True if this key sorts before the probe.
    fn before(&self, probe: Self::Probe<'_>) -> bool;
    /// True if this key sorts after the probe.
    fn after(&self, probe: Self::Probe<'_>) -> bool;
    /// The probe as a key, its tail copied into the arena.
    fn store(probe: Self::Probe<'_>, arena: &mut Self::Arena) -> Self;
    /// A copy with a tail of its own.
    fn duplicate(&self, arena: &mut Self::Arena) -> Self;
    /// Gives the tail back.
    ///
    /// # Safety
    /// The key came from `store` or `duplicate` with this arena and is not used again.
    unsafe fn release(self, arena: &mut Self::Arena);
    /// Bytes that the arena holds.
    fn arena_bytes(arena: &Self::Arena) -> usize;
}

macro_rules! number_key {
    ($number:ty) => {
        impl TreeKey for $number {
            type Arena = ();
            type Probe<'p> = $number;

            #[inline(always)]
            fn before(&self, probe: $number) -> bool {
                *self < probe
            }
            #[inline(always)]
            fn after(&self, probe: $number) -> bool {
                *self > probe
            }
            #[inline(always)]
            fn store(probe: $number, (): &mut ()) -> $number {
                probe
            }
            #[inline(always)]
            fn duplicate(&self, (): &mut ()) -> $number {
                *self
            }
            #[inline(always)]
            unsafe fn release(self, (): &mut ()) {}
            fn arena_bytes((): &()) -> usize {
                0
            }
        }
    };
}

number_key!(u64);
number_key!(u128);

/// A byte-comparable key: 24 bytes in place, the rest in the arena behind its length.
#[derive(Clone, Copy)]
pub(crate) struct BytesKey {
    words: [u64; 3],
    /// A `u32` length and that many bytes.
    tail: Option<NonNull<u8>>,
}

const TAIL_LENGTH_BYTES: usize = 4;

impl BytesKey {
    #[inline]
    fn tail(&self) -> &[u8] {
        match self.tail {
            None => &[],
            // SAFETY: a key's tail lives as long as the key: `store` and `duplicate` wrote a
            // length and that many bytes there.
            Some(cell) => unsafe {
                let length = cell.cast::<u32>().read_unaligned() as usize;
                std::slice::from_raw_parts(cell.as_ptr().add(TAIL_LENGTH_BYTES), length)
            },
        }
    }

    #[inline(always)]
    fn compare(&self, probe: BytesProbe<'_>) -> Ordering {
        self.words.cmp(&probe.words).then_with(|| {
            if self.tail.is_none() && probe.tail.is_empty() {
                Ordering::Equal
            } else {
                compare_tails(self.tail(), probe)
            }
        })
    }
}

/// Compares what follows the first 24 bytes. A probe that ends first is the beginning of the
/// key, and stands before or behind it.
fn compare_tails(tail: &[u8], probe: BytesProbe<'_>) -> Ordering {
    let common = tail.len().min(probe.tail.len());
    tail[..common].cmp(&probe.tail[..common]).then_with(|| {
        match tail.len().cmp(&probe.tail.len()) {
            Ordering::Greater if probe.high => Ordering::Less,
            order => order,
        }
    })
}

/// Stores a tail behind its length.
fn store_tail(tail: &[u8], arena: &mut StringHeap) -> Option<NonNull<u8>> {
    if tail.is_empty() {
        return None;
    }
    let cell = arena.reserve(TAIL_LENGTH_BYTES + tail.len());
    // SAFETY: the cell has room for the length and the tail.
    unsafe {
        cell.cast::<u32>().write_unaligned(tail.len() as u32);
        let at = cell.as_ptr().add(TAIL_LENGTH_BYTES);
        std::ptr::copy_nonoverlapping(tail.as_ptr(), at, tail.len());
    }
    Some(cell)
}

impl TreeKey for BytesKey {
    type Arena = StringHeap;
    type Probe<'p> = BytesProbe<'p>;

    #[inline(always)]
    fn before(&self, probe: BytesProbe<'_>) -> bool {
        self.compare(probe).is_lt()
    }
    #[inline(always)]
    fn after(&self, probe: BytesProbe<'_>) -> bool {
        self.compare(probe).is_gt()
    }
    fn store(probe: BytesProbe<'_>, arena: &mut StringHeap) -> BytesKey {
        BytesKey { words: probe.words, tail: store_tail(probe.tail, arena) }
    }
    fn duplicate(&self, arena: &mut StringHeap) -> BytesKey {
        BytesKey { words: self.words, tail: store_tail(self.tail(), arena) }
    }
    unsafe fn release(self, arena: &mut StringHeap) {
        if let Some(cell) = self.tail {
            let length = TAIL_LENGTH_BYTES + self.tail().len();
            // SAFETY: the cell was reserved with this length and is not used again.
            unsafe { arena.release(cell, length) };
        }
    }
    fn arena_bytes(arena: &StringHeap) -> usize {
        arena.allocated_bytes()
    }
}

/// A leaf: keys in order, each with the row it belongs to.
#[repr(C)]
pub(crate) struct Leaf<K> {
    pub(crate) length: u32,
    pub(crate) rows: [MaybeUninit<u32>; LEAF_CAPACITY],
    pub(crate) previous: *mut Leaf<K>,
    pub(crate) next: *mut Leaf<K>,
    pub(crate) keys: [MaybeUninit<K>; LEAF_CAPACITY],
}

/// An inner node: child `i` holds what is at or after separator `i - 1` and before separator `i`.
#[repr(C)]
pub(crate) struct Inner<K> {
    /// Separators; one less than children.
    pub(crate) length: u32,
    pub(crate) rows: [MaybeUninit<u32>; FAN_OUT],
    pub(crate) children: [MaybeUninit<*mut u8>; FAN_OUT],
    pub(crate) keys: [MaybeUninit<K>; FAN_OUT],
}

/// The node behind a new box, uninitialised but for its length.
pub(crate) fn new_leaf<K>() -> *mut Leaf<K> {
    let mut leaf = Box::<Leaf<K>>::new_uninit();
    let at = leaf.as_mut_ptr();
    // SAFETY: all other fields are `MaybeUninit` and need no value.
    unsafe {
        (&raw mut (*at).length).write(0);
        (&raw mut (*at).previous).write(std::ptr::null_mut());
        (&raw mut (*at).next).write(std::ptr::null_mut());
        Box::into_raw(leaf.assume_init())
    }
}

/// The node behind a new box, uninitialised but for its length.
pub(crate) fn new_inner<K>() -> *mut Inner<K> {
    let mut inner = Box::<Inner<K>>::new_uninit();
    // SAFETY: all other fields are `MaybeUninit` and need no value.
    unsafe {
        (&raw mut (*inner.as_mut_ptr()).length).write(0);
        Box::into_raw(inner.assume_init())
    }
}

/// How many of the first `length` entries satisfy a condition that holds for a beginning of
/// them. Without branches that the data decides: a mispredicted one costs more than the step.
#[inline(always)]
pub(crate) fn partition_point(length: usize, holds: impl Fn(usize) -> bool) -> usize {
    if length == 0 {
        return 0;
    }
    let mut base = 0;
    let mut size = length;
    while size > 1 {
        let half = size / 2;
        let middle = base + half;
        base = std::hint::select_unpredictable(holds(middle), middle, base);
        size -= half;
    }
    base + usize::from(holds(base))
}
