//! Nodes of the B+tree, and the kinds of keys they hold.

use crate::heap::StringHeap;
use crate::key_buffer::BytesProbe;
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Entries of a full leaf. One less than a power of two, for [`partition_point`].
pub(crate) const LEAF_CAPACITY: usize = 63;
/// In the length of a leaf that is packed.
pub(crate) const PACKED: u16 = 1 << 15;
/// Children of a full inner node; one more than its separators.
pub(crate) const FAN_OUT: usize = 64;

/// A key as nodes hold it. Kept apart from the probe that searches for it, because a long key's
/// tail lies in the tree's arena.
pub(crate) trait TreeKey: Copy {
    /// Where the tails of long keys lie.
    type Arena: Default;
    /// A key to search for.
    type Probe<'p>: Copy;

    /// Whether leaves of such keys can be packed.
    const PACKS: bool;

    /// True if this key sorts before the probe.
    fn before(&self, probe: Self::Probe<'_>) -> bool;
    /// True if this key sorts after the probe.
    fn after(&self, probe: Self::Probe<'_>) -> bool;
    /// True if the entry of this key and `row` sorts before that of the probe and `other`.
    fn entry_before(&self, row: u32, probe: Self::Probe<'_>, other: u32) -> bool;
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
    /// The probe that finds this key.
    fn as_probe(&self) -> Self::Probe<'_>;
    /// Bytes of the arena that the key uses.
    fn held_bytes(&self) -> usize;
    /// Checks the arena, of which keys use `used_bytes`.
    ///
    /// # Errors
    /// What is wrong first, in words.
    fn check_arena(arena: &Self::Arena, used_bytes: usize) -> Result<(), String>;
    /// How far a number key is above another.
    fn difference(&self, base: &Self) -> u128;
    /// The number key that is that far above another.
    fn plus(base: &Self, difference: u128) -> Self;
}

macro_rules! number_key {
    ($number:ty) => {
        impl TreeKey for $number {
            type Arena = ();
            type Probe<'p> = $number;
            const PACKS: bool = true;

            #[inline(always)]
            fn before(&self, probe: $number) -> bool {
                *self < probe
            }
            #[inline(always)]
            fn after(&self, probe: $number) -> bool {
                *self > probe
            }
            #[inline(always)]
            fn entry_before(&self, row: u32, probe: $number, other: u32) -> bool {
                (*self < probe) | ((*self == probe) & (row < other))
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
            fn held_bytes(&self) -> usize {
                0
            }
            fn check_arena((): &(), _used_bytes: usize) -> Result<(), String> {
                Ok(())
            }
            fn as_probe(&self) -> $number {
                *self
            }
            fn difference(&self, base: &$number) -> u128 {
                u128::from(self.wrapping_sub(*base))
            }
            #[inline(always)]
            fn plus(base: &$number, difference: u128) -> $number {
                base.wrapping_add(difference as $number)
            }
        }
    };
}

number_key!(u64);
number_key!(u128);

/// A byte-comparable key: 24 bytes in place, the rest in the arena after its length.
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
        // Word by word: mostly the same word decides in every step of a search.
        if self.words[0] != probe.words[0] {
            return self.words[0].cmp(&probe.words[0]);
        }
        if self.words[1] != probe.words[1] {
            return self.words[1].cmp(&probe.words[1]);
        }
        if self.words[2] != probe.words[2] {
            return self.words[2].cmp(&probe.words[2]);
        }
        if self.tail.is_none() && probe.tail.is_empty() {
            return Ordering::Equal;
        }
        compare_tails(self.tail(), probe)
    }
}

/// Compares what follows the first 24 bytes. A probe that ends first is the beginning of the
/// key, and stands before or after it.
fn compare_tails(tail: &[u8], probe: BytesProbe<'_>) -> Ordering {
    let common = tail.len().min(probe.tail.len());
    tail[..common].cmp(&probe.tail[..common]).then_with(|| {
        match tail.len().cmp(&probe.tail.len()) {
            Ordering::Greater if probe.high => Ordering::Less,
            order => order,
        }
    })
}

/// Stores a tail after its length.
fn store_tail(tail: &[u8], arena: &mut StringHeap) -> Option<NonNull<u8>> {
    if tail.is_empty() {
        return None;
    }
    let cell = arena.reserve(TAIL_LENGTH_BYTES + tail.len());
    // SAFETY: the cell has space for the length and the tail.
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
    const PACKS: bool = false;

    #[inline(always)]
    fn before(&self, probe: BytesProbe<'_>) -> bool {
        self.compare(probe).is_lt()
    }
    #[inline(always)]
    fn after(&self, probe: BytesProbe<'_>) -> bool {
        self.compare(probe).is_gt()
    }
    #[inline(always)]
    fn entry_before(&self, row: u32, probe: BytesProbe<'_>, other: u32) -> bool {
        match self.compare(probe) {
            Ordering::Less => true,
            Ordering::Equal => row < other,
            Ordering::Greater => false,
        }
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
    fn held_bytes(&self) -> usize {
        if self.tail.is_none() { 0 } else { TAIL_LENGTH_BYTES + self.tail().len() }
    }
    fn check_arena(arena: &StringHeap, used_bytes: usize) -> Result<(), String> {
        arena.check()?;
        match arena.used_bytes() {
            counted if counted == used_bytes => Ok(()),
            counted => Err(format!("keys use {used_bytes} bytes of the arena, not {counted}")),
        }
    }
    fn as_probe(&self) -> BytesProbe<'_> {
        BytesProbe { words: self.words, tail: self.tail(), high: false }
    }
    fn difference(&self, _base: &BytesKey) -> u128 {
        0
    }
    fn plus(base: &BytesKey, _difference: u128) -> BytesKey {
        *base
    }
}

/// In `last_insert`: the entry that comes next is after no other.
pub(crate) const NO_INSERT: u16 = u16::MAX - 1;

/// In the number of entries of an inner node: it does not know it.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// A leaf: keys in order, each with the row it belongs to. Keys lie where inner nodes have them.
#[repr(C, align(64))]
pub(crate) struct Leaf<K> {
    /// Entries; with `PACKED` set it is no such leaf, but a [`super::packed::Packed`].
    pub(crate) length: u16,
    /// Where the entry that came last was put.
    pub(crate) last_insert: u16,
    pub(crate) rows: [MaybeUninit<u32>; LEAF_CAPACITY],
    pub(crate) keys: [MaybeUninit<K>; LEAF_CAPACITY],
    pub(crate) previous: *mut Leaf<K>,
    pub(crate) next: *mut Leaf<K>,
}

/// An inner node: child `i` holds what is at or after separator `i - 1` and before separator `i`.
#[repr(C, align(64))]
pub(crate) struct Inner<K> {
    /// Separators; one less than children.
    pub(crate) length: u32,
    pub(crate) rows: [MaybeUninit<u32>; FAN_OUT - 1],
    pub(crate) keys: [MaybeUninit<K>; FAN_OUT - 1],
    pub(crate) children: [MaybeUninit<*mut u8>; FAN_OUT],
    /// Entries in the leaves below, or `UNKNOWN` (see `counts.rs`).
    pub(crate) entries: u32,
}

/// The node after a new box, uninitialised but for its length.
pub(crate) fn new_leaf<K>() -> *mut Leaf<K> {
    let mut leaf = Box::<Leaf<K>>::new_uninit();
    let at = leaf.as_mut_ptr();
    // SAFETY: all other fields are `MaybeUninit` and need no value.
    unsafe {
        (&raw mut (*at).length).write(0);
        (&raw mut (*at).last_insert).write(NO_INSERT);
        (&raw mut (*at).previous).write(std::ptr::null_mut());
        (&raw mut (*at).next).write(std::ptr::null_mut());
        Box::into_raw(leaf.assume_init())
    }
}

/// The node after a new box, uninitialised but for its length and its number of entries.
pub(crate) fn new_inner<K>() -> *mut Inner<K> {
    let mut inner = Box::<Inner<K>>::new_uninit();
    let at = inner.as_mut_ptr();
    // SAFETY: all other fields are `MaybeUninit` and need no value.
    unsafe {
        (&raw mut (*at).length).write(0);
        (&raw mut (*at).entries).write(UNKNOWN);
        Box::into_raw(inner.assume_init())
    }
}

/// Asks the processor for the parts of a node that a search in it will read: a search touches
/// three or four lines one after the other, each of which may have to come from memory.
#[inline(always)]
pub(crate) fn prefetch_node<K>(node: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let keys = std::mem::offset_of!(Leaf<K>, keys);
        let step = size_of::<K>() * LEAF_CAPACITY / 8 + 1;
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(node.cast());
            for line in 0..8 {
                _mm_prefetch::<_MM_HINT_T0>(node.wrapping_add(keys + line * step).cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = node;
}

/// As `prefetch_node`, for the rows of a leaf, which an insert moves along with the keys.
#[inline(always)]
pub(crate) fn prefetch_rows<K>(leaf: *const Leaf<K>) {
    #[cfg(target_arch = "x86_64")]
    for line in 1..4usize {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(leaf.cast::<i8>().wrapping_add(line * 64)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = leaf;
}

/// The number of entries lies where the alignment leaves space.
const _: () = assert!(
    size_of::<Inner<u64>>() == 1280
        && size_of::<Inner<u128>>() == 1792
        && size_of::<Inner<BytesKey>>() == 2816
);

const _: () = assert!(
    std::mem::offset_of!(Leaf<u64>, keys) == std::mem::offset_of!(Inner<u64>, keys)
        && std::mem::offset_of!(Leaf<u128>, keys) == std::mem::offset_of!(Inner<u128>, keys)
);

/// How many of the first `length` entries, at most 63, satisfy a condition that holds for a
/// beginning of them.
///
/// Without branches that the data decides: a mispredicted one costs more than the search. The
/// first step leaves a window of one less than a power of two, at one end or the other (they
/// overlap); each further step halves it, with distances that are constants.
#[inline(always)]
pub(crate) fn partition_point(length: usize, holds: impl Fn(usize) -> bool) -> usize {
    debug_assert!(length < 64);
    let first = |size: usize| select_unpredictable(holds(length - size), length - size + 1, 0);
    let step =
        |base: usize, size: usize| select_unpredictable(holds(base + size - 1), base + size, base);
    let from_16 = |base| step(step(step(step(base, 8), 4), 2), 1);
    if length >= 32 {
        from_16(step(first(32), 16))
    } else if length >= 16 {
        from_16(first(16))
    } else {
        let mut size = length;
        let mut base = 0;
        while size > 1 {
            let half = size / 2;
            base = select_unpredictable(holds(base + half), base + half, base);
            size -= half;
        }
        base + usize::from(length > 0 && holds(base))
    }
}
