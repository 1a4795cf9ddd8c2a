//! A B+tree of (key, row id) entries with one writer and no latches.
//!
//! Entries are ordered by key, then by row. A `UNIQUE` tree holds each key once and compares
//! keys alone. Leaves are linked in both directions, so that cursors run along them. A full leaf
//! is not halved when the new entry comes directly after the one that came before, but split there:
//! keys that grow fill their nodes, at the tree's end and within, and full leaves that they leave
//! are packed. Nodes under a quarter full merge with a neighbour or take from it.
//!
//! Invariants: every leaf but a lone root has an entry; every inner node has a separator; a
//! separator owns its key; all leaves lie at the same depth.

mod append;
mod check;
mod counts;
mod expected;
mod node;
mod packed;
mod rebalance;
mod spare;

#[cfg(test)]
pub(crate) use counts::visits;
pub(crate) use node::{BytesKey, LEAF_CAPACITY, Leaf, TreeKey, partition_point};
use node::{FAN_OUT, Inner, NO_INSERT, new_leaf, prefetch_node};
use packed::{Noted, Packed, is_packed};
pub(crate) use packed::{RowReader, leaf_length, links};
use spare::Spare;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{copy, copy_nonoverlapping, null_mut};

/// Inner levels of the highest tree. Row ids have 32 bits and inner nodes away from the edges
/// have at least 16 children, so no tree comes near.
const MAX_HEIGHT: usize = 16;

/// The tree.
pub(crate) struct Tree<K: TreeKey, const UNIQUE: bool> {
    root: *mut u8,
    /// Inner levels above the leaves.
    height: usize,
    first: *mut Leaf<K>,
    last: *mut Leaf<K>,
    length: u64,
    leaves: usize,
    inners: usize,
    /// Inner nodes that know the number of entries below them.
    counted: Cell<usize>,
    arena: K::Arena,
    /// A number key and its leaf, which `expect` found; null when leaves have split or merged
    /// since. No part of the tree's content.
    expected: Cell<(u64, *mut u8)>,
    /// Leaves that are packed, among `leaves`, and their bytes.
    packed_leaves: usize,
    packed_bytes: usize,
    noted: Noted<K>,
    spare: Spare<K>,
}

// SAFETY: the tree owns everything its pointers reach; nothing is shared with another thread.
unsafe impl<K: TreeKey, const UNIQUE: bool> Send for Tree<K, UNIQUE> where K::Arena: Send {}

/// The inner nodes from the root to a leaf, with the child taken at each.
struct Path<K> {
    steps: [MaybeUninit<(*mut Inner<K>, usize)>; MAX_HEIGHT],
}

impl<K> Path<K> {
    /// # Safety
    /// `level` is below the height of the tree that the path was made in.
    #[inline]
    unsafe fn step(&self, level: usize) -> (*mut Inner<K>, usize) {
        // SAFETY: the descent wrote one step for each level.
        unsafe { self.steps[level].assume_init_read() }
    }
}

/// A place among the entries: before the entry `position` of `leaf`, which may be its end.
pub(crate) struct Place<K> {
    pub(crate) leaf: *const Leaf<K>,
    pub(crate) position: usize,
}

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    pub(crate) fn new() -> Self {
        let leaf = new_leaf::<K>();
        Tree {
            root: leaf.cast(),
            height: 0,
            first: leaf,
            last: leaf,
            length: 0,
            leaves: 1,
            inners: 0,
            counted: Cell::new(0),
            arena: K::Arena::default(),
            expected: Cell::new((0, null_mut())),
            packed_leaves: 0,
            packed_bytes: 0,
            noted: Noted::new(),
            spare: Spare::new(),
        }
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Bytes of nodes and long keys.
    pub(crate) fn allocated_bytes(&self) -> usize {
        (self.leaves - self.packed_leaves) * size_of::<Leaf<K>>()
            + self.inners * size_of::<Inner<K>>()
            + self.spare.allocated_bytes()
            + self.packed_bytes
            + K::arena_bytes(&self.arena)
    }

    /// Entries of a node that sort before (`probe`, `row`).
    ///
    /// # Safety
    /// The first `length` keys and rows are initialised.
    #[inline(always)]
    unsafe fn count_before(
        keys: *const K,
        rows: *const u32,
        length: usize,
        probe: K::Probe<'_>,
        row: u32,
    ) -> usize {
        // SAFETY: positions stay below `length`.
        partition_point(length, |at| unsafe {
            let key = &*keys.add(at);
            if UNIQUE { key.before(probe) } else { key.entry_before(*rows.add(at), probe, row) }
        })
    }

    /// Entries of a node that sort before or at (`probe`, `row`).
    ///
    /// # Safety
    /// The first `length` keys and rows are initialised.
    #[inline(always)]
    unsafe fn count_through(
        keys: *const K,
        rows: *const u32,
        length: usize,
        probe: K::Probe<'_>,
        row: u32,
    ) -> usize {
        // SAFETY: positions stay below `length`.
        partition_point(length, |at| unsafe {
            let key = &*keys.add(at);
            if UNIQUE {
                !key.after(probe)
            } else {
                // An entry is at or before (probe, row) if it is before (probe, row + 1); no row
                // has the greatest number.
                key.entry_before(*rows.add(at), probe, row.saturating_add(1))
            }
        })
    }

    /// The leaf in which (`probe`, `row`) belongs.
    #[inline(always)]
    fn find_leaf(&self, probe: K::Probe<'_>, row: u32) -> *mut Leaf<K> {
        let mut node = self.root;
        for _ in 0..self.height {
            // SAFETY: above the leaves all nodes are initialised inner nodes of this tree.
            unsafe {
                let inner = node.cast::<Inner<K>>();
                let keys = (&raw const (*inner).keys).cast::<K>();
                let rows = (&raw const (*inner).rows).cast::<u32>();
                let child = Self::count_through(keys, rows, (*inner).length as usize, probe, row);
                node = (*inner).children.get_unchecked(child).assume_init();
                prefetch_node::<K>(node);
            }
        }
        node.cast()
    }

    /// As `find_leaf`, keeping the way.
    #[inline(always)]
    fn descend(&self, probe: K::Probe<'_>, row: u32) -> (*mut Leaf<K>, Path<K>) {
        let mut path = Path { steps: [const { MaybeUninit::uninit() }; MAX_HEIGHT] };
        let mut node = self.root;
        for level in 0..self.height {
            // SAFETY: above the leaves all nodes are initialised inner nodes of this tree.
            unsafe {
                let inner = node.cast::<Inner<K>>();
                let keys = (&raw const (*inner).keys).cast::<K>();
                let rows = (&raw const (*inner).rows).cast::<u32>();
                let child = Self::count_through(keys, rows, (*inner).length as usize, probe, row);
                path.steps[level].write((inner, child));
                node = (*inner).children.get_unchecked(child).assume_init();
                prefetch_node::<K>(node);
            }
        }
        (node.cast(), path)
    }

    /// The row of the first entry whose key equals the probe.
    #[inline]
    pub(crate) fn get(&self, probe: K::Probe<'_>) -> Option<u32> {
        let place = self.first_at_or_after(probe);
        // SAFETY: the leaf is of this tree; positions below its length are initialised.
        unsafe {
            let mut leaf = place.leaf;
            let mut position = place.position;
            if position == leaf_length(leaf) {
                if UNIQUE {
                    return None;
                }
                leaf = *links(leaf.cast_mut()).1;
                position = 0;
                if leaf.is_null() {
                    return None;
                }
            }
            if is_packed(leaf) {
                let key = Self::packed_key(leaf, position);
                return (!key.after(probe)).then(|| RowReader::of(leaf).row(position));
            }
            let key = (*leaf).keys.get_unchecked(position).assume_init_ref();
            (!key.after(probe)).then(|| (*leaf).rows.get_unchecked(position).assume_init())
        }
    }

    /// The place of the first entry whose key is at or after the probe.
    #[inline]
    pub(crate) fn first_at_or_after(&self, probe: K::Probe<'_>) -> Place<K> {
        let leaf = self.find_leaf(probe, 0);
        // SAFETY: the leaf is of this tree.
        let position = unsafe { Self::position_at_or_after(leaf, probe) };
        Place { leaf, position }
    }

    /// The place of the first entry whose key is after the probe.
    #[inline]
    pub(crate) fn first_after(&self, probe: K::Probe<'_>) -> Place<K> {
        let leaf = self.find_leaf(probe, u32::MAX);
        // SAFETY: the leaf is of this tree.
        let position = unsafe { Self::position_after(leaf, probe) };
        Place { leaf, position }
    }

    /// Entries of a leaf with keys before the probe.
    ///
    /// # Safety
    /// `leaf` is a leaf of this tree.
    #[inline]
    pub(crate) unsafe fn position_at_or_after(leaf: *const Leaf<K>, probe: K::Probe<'_>) -> usize {
        // SAFETY: a leaf's first `length` entries are initialised.
        unsafe {
            if is_packed(leaf) {
                return Self::packed_point(leaf, |key| key.before(probe));
            }
            let keys = (&raw const (*leaf).keys).cast::<K>();
            partition_point((*leaf).length as usize, |at| (*keys.add(at)).before(probe))
        }
    }

    /// Entries of a leaf with keys before or at the probe.
    ///
    /// # Safety
    /// `leaf` is a leaf of this tree.
    #[inline]
    pub(crate) unsafe fn position_after(leaf: *const Leaf<K>, probe: K::Probe<'_>) -> usize {
        // SAFETY: a leaf's first `length` entries are initialised.
        unsafe {
            if is_packed(leaf) {
                return Self::packed_point(leaf, |key| !key.after(probe));
            }
            let keys = (&raw const (*leaf).keys).cast::<K>();
            partition_point((*leaf).length as usize, |at| !(*keys.add(at)).after(probe))
        }
    }

    /// The place before all entries.
    pub(crate) fn start(&self) -> Place<K> {
        Place { leaf: self.first, position: 0 }
    }

    /// The place after all entries.
    pub(crate) fn end(&self) -> Place<K> {
        // SAFETY: the last leaf is of this tree.
        Place { leaf: self.last, position: unsafe { leaf_length(self.last) } }
    }

    /// Adds an entry. In a `UNIQUE` tree that has the key, gives its row and changes nothing.
    #[inline]
    pub(crate) fn insert(&mut self, probe: K::Probe<'_>, row: u32) -> Result<(), u32> {
        let (mut leaf, path) = self.descend(probe, row);
        // SAFETY: leaf and path are of this tree; entries move within the leaf's capacity.
        unsafe {
            if is_packed(leaf) {
                if let Some(existing) = self.packed_duplicate(leaf, probe) {
                    return Err(existing);
                }
                let (parent, child) = path.step(self.height - 1);
                leaf = self.unpacked_child(parent, child);
            }
            let length = (*leaf).length as usize;
            let keys = (&raw mut (*leaf).keys).cast::<K>();
            let rows = (&raw mut (*leaf).rows).cast::<u32>();
            let position = Self::count_before(keys, rows, length, probe, row);
            if UNIQUE && position < length && !(*keys.add(position)).after(probe) {
                return Err(*rows.add(position));
            }
            let key = K::store(probe, &mut self.arena);
            self.length += 1;
            if length == LEAF_CAPACITY {
                self.split_leaf(leaf, position, key, row, &path);
            } else {
                Self::insert_at(leaf, position, key, row);
                if self.counted.get() != 0 {
                    self.forget_counts(&path);
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// `leaf` is a leaf of this tree with room, `position` is at most its length.
    #[inline(always)]
    unsafe fn insert_at(leaf: *mut Leaf<K>, position: usize, key: K, row: u32) {
        // SAFETY: by the contract all moves stay within the arrays.
        unsafe {
            let length = (*leaf).length as usize;
            debug_assert!(position <= length && length < LEAF_CAPACITY, "the leaf has space");
            let behind = length - position;
            let key_at = (&raw mut (*leaf).keys).cast::<K>().add(position);
            copy(key_at, key_at.add(1), behind);
            key_at.write(key);
            let row_at = (&raw mut (*leaf).rows).cast::<u32>().add(position);
            copy(row_at, row_at.add(1), behind);
            row_at.write(row);
            (*leaf).length += 1;
            (*leaf).last_insert = position as u16;
        }
    }

    /// # Safety
    /// `leaf` is full and the end of `path`.
    #[cold]
    unsafe fn split_leaf(
        &mut self,
        leaf: *mut Leaf<K>,
        position: usize,
        key: K,
        row: u32,
        path: &Path<K>,
    ) {
        self.expected.set((0, null_mut()));
        let right = self.take_leaf();
        // SAFETY: both are live.
        let lengths = unsafe { (leaf_length(leaf), leaf_length(right)) };
        debug_assert_eq!(lengths, (LEAF_CAPACITY, 0), "a full leaf is split into an empty one");
        self.leaves += 1;
        // SAFETY: both leaves are live and ours; the moved entries are initialised.
        unsafe {
            self.forget_counts(path);
            let next = (*leaf).next;
            (*right).previous = leaf;
            (*right).next = next;
            (*leaf).next = right;
            if next.is_null() {
                self.last = right;
            } else {
                *links(next).0 = right;
            }
            let follows = position == usize::from((*leaf).last_insert) + 1;
            let grows = position == LEAF_CAPACITY && (follows || next.is_null());
            let keep = if grows || follows { position } else { LEAF_CAPACITY / 2 };
            let moved = LEAF_CAPACITY - keep;
            let source = &raw const *leaf;
            copy_nonoverlapping(
                (*source).keys.as_ptr().add(keep),
                (*right).keys.as_mut_ptr(),
                moved,
            );
            copy_nonoverlapping(
                (*source).rows.as_ptr().add(keep),
                (*right).rows.as_mut_ptr(),
                moved,
            );
            (*leaf).length = keep as u16;
            (*right).length = moved as u16;
            if position > keep || grows {
                Self::insert_at(right, position - keep, key, row);
            } else {
                Self::insert_at(leaf, position, key, row);
            }
            let separator = (*right).keys[0].assume_init_ref().duplicate(&mut self.arena);
            let separator_row = (*right).rows[0].assume_init();
            self.insert_child(path, separator, separator_row, right.cast());
            if grows {
                self.note_full(leaf);
            }
        }
    }

    /// Puts a new right neighbour of the path's end into its parents, splitting them as needed.
    ///
    /// # Safety
    /// `path` leads to the left neighbour of `child`, whose level is that of the path's end.
    unsafe fn insert_child(
        &mut self,
        path: &Path<K>,
        mut key: K,
        mut row: u32,
        mut child: *mut u8,
    ) {
        for level in (0..self.height).rev() {
            // SAFETY: the path has a step for each level; nodes are live and ours.
            unsafe {
                let (inner, index) = path.step(level);
                if ((*inner).length as usize) < FAN_OUT - 1 {
                    Self::insert_child_at(inner, index, key, row, child);
                    return;
                }
                (key, row, child) = self.split_inner(inner, index, key, row, child);
            }
        }
        assert!(self.height < MAX_HEIGHT, "no tree over 32-bit row ids is that high");
        let root = self.take_inner();
        self.inners += 1;
        self.height += 1;
        // SAFETY: the new root has space for one separator and two children.
        unsafe {
            (*root).length = 1;
            (*root).keys[0].write(key);
            (*root).rows[0].write(row);
            (*root).children[0].write(self.root);
            (*root).children[1].write(child);
        }
        self.root = root.cast();
    }

    /// Adds separator `index` and the child after it.
    ///
    /// # Safety
    /// `inner` is live, has space, and `index` is at most its length.
    unsafe fn insert_child_at(
        inner: *mut Inner<K>,
        index: usize,
        key: K,
        row: u32,
        child: *mut u8,
    ) {
        // SAFETY: by the contract all moves stay within the arrays.
        unsafe {
            let length = (*inner).length as usize;
            debug_assert!(index <= length && length < FAN_OUT - 1, "the node has space");
            let behind = length - index;
            let key_at = (&raw mut (*inner).keys).cast::<K>().add(index);
            copy(key_at, key_at.add(1), behind);
            key_at.write(key);
            let row_at = (&raw mut (*inner).rows).cast::<u32>().add(index);
            copy(row_at, row_at.add(1), behind);
            row_at.write(row);
            let child_at = (&raw mut (*inner).children).cast::<*mut u8>().add(index + 1);
            copy(child_at, child_at.add(1), behind);
            child_at.write(child);
            (*inner).length += 1;
        }
    }

    /// Splits a full inner node and adds the child to the half it belongs to. Gives the
    /// separator between the halves and the new right one.
    ///
    /// # Safety
    /// `inner` is live and full; `index` is at most its length.
    #[cold]
    unsafe fn split_inner(
        &mut self,
        inner: *mut Inner<K>,
        index: usize,
        key: K,
        row: u32,
        child: *mut u8,
    ) -> (K, u32, *mut u8) {
        const FULL: usize = FAN_OUT - 1;
        let right = self.take_inner();
        self.inners += 1;
        // When the tree grows at its right end, the left half stays nearly full.
        let keep = if index == FULL { FULL - 2 } else { FULL / 2 };
        // SAFETY: both nodes are live; the moved separators and children are initialised.
        unsafe {
            debug_assert_eq!((*inner).length as usize, FULL, "a full node is split");
            let moved = FULL - keep - 1;
            let source = &raw const *inner;
            copy_nonoverlapping(
                (*source).keys.as_ptr().add(keep + 1),
                (*right).keys.as_mut_ptr(),
                moved,
            );
            copy_nonoverlapping(
                (*source).rows.as_ptr().add(keep + 1),
                (*right).rows.as_mut_ptr(),
                moved,
            );
            copy_nonoverlapping(
                (*source).children.as_ptr().add(keep + 1),
                (*right).children.as_mut_ptr(),
                moved + 1,
            );
            let middle = (*inner).keys[keep].assume_init();
            let middle_row = (*inner).rows[keep].assume_init();
            (*inner).length = keep as u32;
            (*right).length = moved as u32;
            if index > keep {
                Self::insert_child_at(right, index - keep - 1, key, row, child);
            } else {
                Self::insert_child_at(inner, index, key, row, child);
            }
            (middle, middle_row, right.cast())
        }
    }

    /// Removes the entry; false if there is none.
    #[inline]
    pub(crate) fn remove(&mut self, probe: K::Probe<'_>, row: u32) -> bool {
        let (mut leaf, path) = self.descend(probe, row);
        // SAFETY: leaf and path are of this tree; positions stay below the leaf's length.
        unsafe {
            if is_packed(leaf) {
                let (parent, child) = path.step(self.height - 1);
                leaf = self.unpacked_child(parent, child);
            }
            let length = (*leaf).length as usize;
            let keys = (&raw mut (*leaf).keys).cast::<K>();
            let rows = (&raw mut (*leaf).rows).cast::<u32>();
            let position = Self::count_before(keys, rows, length, probe, row);
            if position == length
                || (*keys.add(position)).after(probe)
                || *rows.add(position) != row
            {
                return false;
            }
            (*keys.add(position)).release(&mut self.arena);
            let behind = length - position - 1;
            copy(keys.add(position + 1), keys.add(position), behind);
            copy(rows.add(position + 1), rows.add(position), behind);
            debug_assert!(self.length > 0, "an entry that is removed was counted");
            (*leaf).length -= 1;
            (*leaf).last_insert = NO_INSERT;
            self.length -= 1;
            let is_low = length - 1 < LEAF_CAPACITY / 4 && self.height > 0;
            if is_low || self.counted.get() != 0 {
                self.forget_counts(&path);
                if is_low {
                    self.expected.set((0, null_mut()));
                    self.fill_leaf(&path);
                }
            }
        }
        true
    }

    /// Frees the nodes below and at `node`; tails lie in the arena and go with it.
    ///
    /// # Safety
    /// `node` is live, `height` levels above the leaves, and not used again.
    unsafe fn free(node: *mut u8, height: usize) {
        // SAFETY: nodes came from boxes of their types; children are freed before their parent.
        unsafe {
            if height == 0 {
                let leaf = node.cast::<Leaf<K>>();
                if is_packed(leaf) {
                    Packed::<K>::free(leaf.cast());
                } else {
                    drop(Box::from_raw(leaf));
                }
                return;
            }
            let inner = node.cast::<Inner<K>>();
            for child in 0..=(*inner).length as usize {
                Self::free((*inner).children[child].assume_init(), height - 1);
            }
            drop(Box::from_raw(inner));
        }
    }
}

impl<K: TreeKey, const UNIQUE: bool> Drop for Tree<K, UNIQUE> {
    fn drop(&mut self) {
        // SAFETY: the root is live and nobody uses the tree any more.
        unsafe { Self::free(self.root, self.height) };
        self.root = null_mut();
    }
}

#[cfg(test)]
mod tests;
