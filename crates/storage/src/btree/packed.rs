//! Packed leaves: a full leaf that keys in sequence have left rarely changes again, so its
//! keys and rows are kept as their differences from the smallest, in as few bytes as the greatest
//! difference needs. Searches read it as it is; a change unpacks it first.
//!
//! A leaf that is to be packed is noted when it is left, and packed with others later, so that an
//! insert does not wait for it (see `Tree::pack_noted`). When that happens is seen nowhere.

use super::node::{LEAF_CAPACITY, Leaf, PACKED, TreeKey, partition_point};
use super::{Inner, Path, Tree};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;

/// Leaves that are noted before they are packed.
const NOTED_LEAVES: usize = 8;
/// Bytes after the last difference, so that reads of whole words stay inside.
const SLACK_BYTES: usize = 16;

/// The head of a packed leaf; the rows' differences follow, then those of the keys. It begins as
/// a leaf does.
#[repr(C)]
pub(crate) struct Packed<K> {
    /// With `PACKED` set.
    length: u16,
    key_bytes: u8,
    row_bytes: u8,
    first_row: u32,
    pub(super) size_bytes: usize,
    previous: *mut Leaf<K>,
    next: *mut Leaf<K>,
    /// The smallest key.
    base: K,
}

/// How the rows of a leaf are read, packed or not.
#[derive(Clone, Copy)]
pub(crate) struct RowReader {
    at: *const u8,
    bytes: usize,
    mask: u32,
    first: u32,
}

impl RowReader {
    /// Reads nothing.
    pub(crate) const NONE: RowReader =
        RowReader { at: std::ptr::null(), bytes: 0, mask: 0, first: 0 };

    /// # Safety
    /// `leaf` is a live leaf.
    #[inline]
    pub(crate) unsafe fn of<K>(leaf: *const Leaf<K>) -> RowReader {
        // SAFETY: by the contract; a packed leaf has its rows after its head.
        unsafe {
            if !is_packed(leaf) {
                let at = (&raw const (*leaf).rows).cast();
                return RowReader { at, bytes: 4, mask: u32::MAX, first: 0 };
            }
            let packed = leaf.cast::<Packed<K>>();
            let bytes = usize::from((*packed).row_bytes);
            let mask = u32::MAX.unbounded_shr(32 - 8 * bytes as u32);
            RowReader { at: packed.add(1).cast(), bytes, mask, first: (*packed).first_row }
        }
    }

    /// The row of an entry.
    ///
    /// # Safety
    /// The leaf is live, unchanged since, and has that entry.
    #[inline(always)]
    pub(crate) unsafe fn row(self, position: usize) -> u32 {
        // SAFETY: by the contract; after the rows there is more of the leaf to read.
        let word = unsafe { self.at.add(position * self.bytes).cast::<u32>().read_unaligned() };
        self.first.wrapping_add(word & self.mask)
    }
}

/// The length of a leaf, packed or not.
///
/// # Safety
/// `leaf` is a live leaf.
#[inline(always)]
pub(crate) unsafe fn leaf_length<K>(leaf: *const Leaf<K>) -> usize {
    // SAFETY: by the contract; both kinds begin with their length. A packed leaf has not the
    // alignment of the other kind.
    usize::from(unsafe { leaf.cast::<u16>().read() } & !PACKED)
}

/// # Safety
/// `leaf` is a live leaf.
#[inline(always)]
pub(super) unsafe fn is_packed<K>(leaf: *const Leaf<K>) -> bool {
    // SAFETY: as in `leaf_length`.
    unsafe { leaf.cast::<u16>().read() & PACKED != 0 }
}

/// The places of a leaf's links to its neighbours: the one before, the one after.
///
/// # Safety
/// `leaf` is a live leaf.
pub(crate) unsafe fn links<K>(leaf: *mut Leaf<K>) -> (*mut *mut Leaf<K>, *mut *mut Leaf<K>) {
    // SAFETY: by the contract.
    unsafe {
        if is_packed(leaf) {
            let packed = leaf.cast::<Packed<K>>();
            (&raw mut (*packed).previous, &raw mut (*packed).next)
        } else {
            (&raw mut (*leaf).previous, &raw mut (*leaf).next)
        }
    }
}

fn bytes_for(difference: u128) -> usize {
    (128 - difference.leading_zeros() as usize).div_ceil(8)
}

fn layout<K>(size_bytes: usize) -> Layout {
    let align = align_of::<Packed<K>>();
    Layout::from_size_align(size_bytes, align).expect("a packed leaf is smaller than a leaf")
}

/// How the keys of a packed leaf are read.
struct KeyReader<K> {
    at: *const u8,
    bytes: usize,
    base: K,
}

impl<K: TreeKey> KeyReader<K> {
    /// # Safety
    /// `packed` is a live packed leaf.
    #[inline(always)]
    unsafe fn of(packed: *const Packed<K>) -> KeyReader<K> {
        // SAFETY: by the contract; the keys lie after the rows, those after the head.
        unsafe {
            let bytes = usize::from((*packed).key_bytes);
            let rows = usize::from((*packed).length & !PACKED) * usize::from((*packed).row_bytes);
            KeyReader { at: packed.add(1).cast::<u8>().add(rows), bytes, base: (*packed).base }
        }
    }

    /// The key of an entry of a leaf whose differences take a word at most.
    ///
    /// # Safety
    /// The leaf is live, unchanged since, has that entry, and `bytes` is at most 8.
    #[inline(always)]
    unsafe fn narrow_key(&self, position: usize) -> K {
        let mask = u64::MAX.unbounded_shr(64 - 8 * self.bytes as u32);
        // SAFETY: by the contract; the slack after the keys makes whole words readable.
        let word = unsafe { self.at.add(position * self.bytes).cast::<u64>().read_unaligned() };
        K::plus(&self.base, u128::from(word & mask))
    }

    /// The key of an entry.
    ///
    /// # Safety
    /// The leaf is live, unchanged since, and has that entry.
    #[inline(always)]
    unsafe fn key(&self, position: usize) -> K {
        // SAFETY: by the contract; the slack after the keys makes whole words readable.
        unsafe {
            if self.bytes <= 8 {
                return self.narrow_key(position);
            }
            let mask = u128::MAX.unbounded_shr(128 - 8 * self.bytes as u32);
            let word = self.at.add(position * self.bytes).cast::<u128>().read_unaligned();
            K::plus(&self.base, word & mask)
        }
    }
}

impl<K: TreeKey> Packed<K> {
    /// The key of an entry.
    ///
    /// # Safety
    /// `packed` is a live packed leaf with that entry.
    #[inline(always)]
    unsafe fn key(packed: *const Packed<K>, position: usize) -> K {
        // SAFETY: by the contract.
        unsafe { KeyReader::of(packed).key(position) }
    }

    /// A packed copy of a leaf, without links; `None` when it would not be much smaller.
    ///
    /// # Safety
    /// `leaf` is a live leaf that is not packed and has an entry.
    unsafe fn of(leaf: *const Leaf<K>) -> Option<*mut Packed<K>> {
        // SAFETY: the first `length` entries are initialised; all writes lie in the new memory.
        unsafe {
            let length = leaf_length(leaf);
            let keys = (&raw const (*leaf).keys).cast::<K>();
            let rows = (&raw const (*leaf).rows).cast::<u32>();
            let base = *keys;
            let key_bytes = bytes_for((*keys.add(length - 1)).difference(&base));
            let (mut first_row, mut last_row) = (u32::MAX, 0);
            for at in 0..length {
                first_row = first_row.min(*rows.add(at));
                last_row = last_row.max(*rows.add(at));
            }
            let row_bytes = bytes_for(u128::from(last_row - first_row));
            let size_bytes =
                size_of::<Packed<K>>() + length * (key_bytes + row_bytes) + SLACK_BYTES;
            if size_bytes * 4 > size_of::<Leaf<K>>() * 3 {
                return None;
            }
            debug_assert!(key_bytes <= 16 && row_bytes <= 4, "differences are of keys in order");
            let layout = layout::<K>(size_bytes);
            let packed = alloc(layout).cast::<Packed<K>>();
            if packed.is_null() {
                handle_alloc_error(layout);
            }
            packed.write(Packed {
                length: length as u16 | PACKED,
                key_bytes: key_bytes as u8,
                row_bytes: row_bytes as u8,
                first_row,
                size_bytes,
                previous: std::ptr::null_mut(),
                next: std::ptr::null_mut(),
                base,
            });
            let data = packed.add(1).cast::<u8>();
            data.write_bytes(0, size_bytes - size_of::<Packed<K>>());
            for at in 0..length {
                let row = (*rows.add(at) - first_row).to_le_bytes();
                data.add(at * row_bytes).copy_from_nonoverlapping(row.as_ptr(), row_bytes);
                let key = (*keys.add(at)).difference(&base).to_le_bytes();
                let to = data.add(length * row_bytes + at * key_bytes);
                to.copy_from_nonoverlapping(key.as_ptr(), key_bytes);
            }
            Some(packed)
        }
    }

    /// # Safety
    /// `packed` is a live packed leaf that nobody uses any more.
    pub(super) unsafe fn free(packed: *mut Packed<K>) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(packed.cast(), layout::<K>((*packed).size_bytes)) };
    }
}

/// The leaves that are to be packed, by their first entries.
pub(super) struct Noted<K> {
    entries: [MaybeUninit<(K, u32)>; NOTED_LEAVES],
    count: usize,
}

impl<K> Noted<K> {
    pub(super) const fn new() -> Noted<K> {
        Noted { entries: [const { MaybeUninit::uninit() }; NOTED_LEAVES], count: 0 }
    }
}

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// Entries of a packed leaf for which a condition holds, which holds for a beginning.
    ///
    /// # Safety
    /// `leaf` is a live packed leaf.
    #[inline(never)]
    pub(super) unsafe fn packed_point(leaf: *const Leaf<K>, holds: impl Fn(&K) -> bool) -> usize {
        // SAFETY: by the contract; positions stay below the length.
        unsafe {
            let (length, keys) = (leaf_length(leaf), KeyReader::<K>::of(leaf.cast()));
            // Two loops: in the one that is mostly taken nothing depends on the keys' width.
            if keys.bytes <= 8 {
                return partition_point(length, |at| holds(&keys.narrow_key(at)));
            }
            partition_point(length, |at| holds(&keys.key(at)))
        }
    }

    /// The key of an entry of a packed leaf.
    ///
    /// # Safety
    /// `leaf` is a live packed leaf with that entry.
    pub(super) unsafe fn packed_key(leaf: *const Leaf<K>, position: usize) -> K {
        // SAFETY: by the contract.
        unsafe { Packed::key(leaf.cast(), position) }
    }

    /// The row of a packed leaf's entry with this key, if keys are unique.
    ///
    /// # Safety
    /// `leaf` is a live packed leaf.
    #[cold]
    pub(super) unsafe fn packed_duplicate(
        &self,
        leaf: *const Leaf<K>,
        probe: K::Probe<'_>,
    ) -> Option<u32> {
        // SAFETY: by the contract; positions stay below the length.
        unsafe {
            let position = Self::packed_point(leaf, |key| key.before(probe));
            let same = UNIQUE
                && position < leaf_length(leaf)
                && !Self::packed_key(leaf, position).after(probe);
            same.then(|| RowReader::of(leaf).row(position))
        }
    }

    /// Notes a full leaf that is not likely to change soon.
    ///
    /// # Safety
    /// `leaf` is a live leaf that is not packed and has an entry.
    pub(super) unsafe fn note_full(&mut self, leaf: *const Leaf<K>) {
        if !K::PACKS {
            return;
        }
        // SAFETY: by the contract the first entry is initialised. It is read first: packing what
        // was noted before may pack this leaf.
        let entry = unsafe { ((*leaf).keys[0].assume_init(), (*leaf).rows[0].assume_init()) };
        if self.noted.count == NOTED_LEAVES {
            self.pack_noted();
        }
        self.noted.entries[self.noted.count].write(entry);
        self.noted.count += 1;
    }

    /// Packs the leaves that were noted and are still full.
    pub(crate) fn pack_noted(&mut self) {
        for number in 0..std::mem::take(&mut self.noted.count) {
            // SAFETY: entries below the count are initialised; the path is of this tree as it is.
            unsafe {
                let (key, row) = self.noted.entries[number].assume_init();
                let (leaf, path) = self.descend(key.as_probe(), row);
                let full = !is_packed(leaf) && leaf_length(leaf) == LEAF_CAPACITY;
                if full && leaf != self.last && self.height > 0 {
                    self.pack(leaf, &path);
                }
            }
        }
    }

    /// # Safety
    /// `leaf` is the end of `path`, a path of this tree as it is with a height above 0, and is
    /// not packed.
    unsafe fn pack(&mut self, leaf: *mut Leaf<K>, path: &Path<K>) {
        // SAFETY: by the contract.
        unsafe {
            let Some(packed) = Packed::of(leaf) else { return };
            (*packed).previous = (*leaf).previous;
            (*packed).next = (*leaf).next;
            self.packed_leaves += 1;
            self.packed_bytes += (*packed).size_bytes;
            let (parent, child) = path.step(self.height - 1);
            self.replace_leaf(parent, child, packed.cast());
            self.free_leaf(leaf);
        }
    }

    /// Puts the links and the parent of a leaf on another that stands for it.
    ///
    /// # Safety
    /// `new` is live and has the links of the leaf that is that child.
    unsafe fn replace_leaf(&mut self, parent: *mut Inner<K>, child: usize, new: *mut Leaf<K>) {
        self.expected.set((0, std::ptr::null_mut()));
        // SAFETY: by the contract; neighbours of a leaf are live.
        unsafe {
            (*parent).children[child].write(new.cast());
            let (previous, next) = links(new);
            match (*previous).is_null() {
                true => self.first = new,
                false => *links(*previous).1 = new,
            }
            match (*next).is_null() {
                true => self.last = new,
                false => *links(*next).0 = new,
            }
        }
    }

    /// The leaf that is a child, unpacked if it was packed.
    ///
    /// # Safety
    /// `parent` is a live parent of leaves of this tree with that child.
    pub(super) unsafe fn unpacked_child(
        &mut self,
        parent: *mut Inner<K>,
        child: usize,
    ) -> *mut Leaf<K> {
        // SAFETY: by the contract; the new leaf has space for the entries of any leaf.
        unsafe {
            let old = (*parent).children[child].assume_init().cast::<Leaf<K>>();
            if !is_packed(old) {
                return old;
            }
            let length = leaf_length(old);
            let rows = RowReader::of(old);
            let packed = old.cast::<Packed<K>>();
            let leaf = self.take_leaf();
            for at in 0..length {
                (*leaf).keys[at].write(Packed::key(packed, at));
                (*leaf).rows[at].write(rows.row(at));
            }
            debug_assert!((1..=LEAF_CAPACITY).contains(&length), "a packed leaf was a full one");
            (*leaf).length = length as u16;
            (*leaf).previous = (*packed).previous;
            (*leaf).next = (*packed).next;
            debug_assert!(self.packed_leaves > 0, "a packed leaf is counted");
            self.packed_leaves -= 1;
            self.packed_bytes -= (*packed).size_bytes;
            self.replace_leaf(parent, child, leaf);
            Packed::free(packed);
            leaf
        }
    }
}
