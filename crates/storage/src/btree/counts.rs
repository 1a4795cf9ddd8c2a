//! Numbers of entries below inner nodes, so that a long range is counted in few steps.
//!
//! An inner node knows its number after a range was counted over it, and forgets it when an entry
//! below it comes or goes. A change looks at one word of the tree for that: a tree whose ranges
//! nobody counts keeps no numbers. Below a node that knows its number all inner nodes know theirs,
//! so a change that meets one on its way up that does not know it is done.

use super::node::{Inner, Leaf, TreeKey, UNKNOWN};
use super::packed::{RowReader, is_packed, leaf_length};
use super::{Path, Tree};
use std::ops::Range;

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// Entries of the leaves from `from` on and before `to`, in time that grows with the height
    /// of the tree alone, and with the changes since the last time.
    ///
    /// # Safety
    /// Both are leaves of this tree, and `to` is not before `from`.
    pub(crate) unsafe fn count_between(&self, from: *const Leaf<K>, to: *const Leaf<K>) -> u64 {
        if from == to {
            return 0;
        }
        // SAFETY: leaves that differ have an inner node above them, in which their paths part;
        // of a tree that is not one leaf every leaf has an entry.
        unsafe {
            let (left, right) = (self.path_to(from), self.path_to(to));
            let mut level = 0;
            while left.step(level).1 == right.step(level).1 {
                level += 1;
            }
            let (inner, first) = left.step(level);
            let mut count = self.count_children(inner, level, first + 1..right.step(level).1);
            for level in level + 1..self.height {
                let (inner, child) = left.step(level);
                let children = (*inner).length as usize + 1;
                count += self.count_children(inner, level, child + 1..children);
                let (inner, child) = right.step(level);
                count += self.count_children(inner, level, 0..child);
            }
            count + leaf_length(from) as u64
        }
    }

    /// The first and the last leaf.
    pub(crate) fn outer_leaves(&self) -> (*const Leaf<K>, *const Leaf<K>) {
        (self.first, self.last)
    }

    /// The path to a leaf.
    ///
    /// # Safety
    /// It is a leaf of this tree and has an entry.
    unsafe fn path_to(&self, leaf: *const Leaf<K>) -> Path<K> {
        // SAFETY: by the contract the first entry is initialised.
        unsafe {
            let row = RowReader::of(leaf).row(0);
            let key = match is_packed(leaf) {
                true => Self::packed_key(leaf, 0),
                false => (*leaf).keys[0].assume_init(),
            };
            let (found, path) = self.descend(key.as_probe(), row);
            debug_assert!(std::ptr::eq(found, leaf), "an entry is found where it lies");
            path
        }
    }

    /// Entries below some children of an inner node.
    ///
    /// # Safety
    /// `inner` is live, `level` levels below the root, and has those children.
    unsafe fn count_children(
        &self,
        inner: *mut Inner<K>,
        level: usize,
        children: Range<usize>,
    ) -> u64 {
        let mut count = 0;
        for child in children {
            #[cfg(test)]
            visits::note();
            // SAFETY: by the contract; children of the lowest inner nodes are leaves.
            unsafe {
                let node = (*inner).children[child].assume_init();
                count += match level + 1 == self.height {
                    true => leaf_length(node.cast::<Leaf<K>>()) as u64,
                    false => self.count_below(node.cast(), level + 1),
                };
            }
        }
        count
    }

    /// Entries below an inner node, which knows their number from then on.
    ///
    /// # Safety
    /// `inner` is live and `level` levels below the root.
    unsafe fn count_below(&self, inner: *mut Inner<K>, level: usize) -> u64 {
        // SAFETY: by the contract; nobody holds a reference to a node.
        unsafe {
            if (*inner).entries == UNKNOWN {
                let children = (*inner).length as usize + 1;
                let entries = self.count_children(inner, level, 0..children);
                (*inner).entries = u32::try_from(entries).expect("row ids have 32 bits");
                self.counted.set(self.counted.get() + 1);
            }
            u64::from((*inner).entries)
        }
    }

    /// An entry at the end of the path comes or goes.
    ///
    /// # Safety
    /// `path` is a path of this tree as it is.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn forget_counts(&self, path: &Path<K>) {
        for level in (0..self.height).rev() {
            // SAFETY: a path has a step for each level.
            unsafe {
                let (inner, _) = path.step(level);
                if (*inner).entries == UNKNOWN {
                    return;
                }
                self.forget_count(inner);
            }
        }
    }

    /// Entries below one node come or go; the nodes above it do not know their numbers.
    ///
    /// # Safety
    /// `inner` is live.
    pub(super) unsafe fn forget_count(&self, inner: *mut Inner<K>) {
        // SAFETY: by the contract.
        unsafe {
            if (*inner).entries != UNKNOWN {
                (*inner).entries = UNKNOWN;
                debug_assert!(self.counted.get() > 0, "nodes with a count are counted");
                self.counted.set(self.counted.get() - 1);
            }
        }
    }
}

/// Children that counting looked at, for tests of how many they are.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        static VISITS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        VISITS.set(VISITS.get() + 1);
    }

    /// How many there were on this thread.
    pub(crate) fn count() -> u64 {
        VISITS.get()
    }
}
