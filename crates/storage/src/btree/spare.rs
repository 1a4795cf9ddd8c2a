//! Nodes for the next splits, made ahead of time, so that a call does not wait for the allocator.

use super::Tree;
use super::node::{Inner, Leaf, NO_INSERT, TreeKey, new_inner, new_leaf};
use std::ptr::null_mut;

/// Leaves kept at most for the next splits: leaves that fill alike split one after the other.
const SPARE_LEAVES: usize = 64;
/// Inner nodes kept for the next splits.
const SPARE_INNERS: usize = 4;
/// Of how many leaves one is kept at most.
const LEAVES_A_SPARE: usize = 16;

/// The nodes.
pub(super) struct Spare<K> {
    /// The first of the leaves, linked by `next`.
    leaf: *mut Leaf<K>,
    leaf_count: usize,
    inners: [*mut Inner<K>; SPARE_INNERS],
}

impl<K> Spare<K> {
    pub(super) const fn new() -> Spare<K> {
        Spare { leaf: null_mut(), leaf_count: 0, inners: [null_mut(); SPARE_INNERS] }
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        let inners = self.inners.iter().filter(|inner| !inner.is_null()).count();
        self.leaf_count * size_of::<Leaf<K>>() + inners * size_of::<Inner<K>>()
    }
}

impl<K> Spare<K> {
    /// Checks that the list has as many leaves as are counted, all of them empty.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        let (mut leaf, mut count) = (self.leaf, 0);
        while !leaf.is_null() && count <= self.leaf_count {
            // SAFETY: the list holds live leaves.
            let (length, next) = unsafe { ((*leaf).length, (*leaf).next) };
            if length != 0 {
                return Err(format!("a spare leaf has {length} entries"));
            }
            (leaf, count) = (next, count + 1);
        }
        match count == self.leaf_count {
            true => Ok(()),
            false => Err(format!("{} spare leaves are counted, not {count}", self.leaf_count)),
        }
    }

    /// # Safety
    /// `leaf` is an empty leaf that nobody uses.
    unsafe fn push(&mut self, leaf: *mut Leaf<K>) {
        // SAFETY: by the contract.
        unsafe {
            debug_assert_eq!((*leaf).length, 0, "a spare leaf is empty");
            (*leaf).next = self.leaf;
        }
        self.leaf = leaf;
        self.leaf_count += 1;
    }

    fn pop(&mut self) -> Option<*mut Leaf<K>> {
        if self.leaf.is_null() {
            return None;
        }
        debug_assert!(self.leaf_count > 0, "spare leaves are counted");
        let leaf = self.leaf;
        // SAFETY: the list holds live leaves.
        unsafe { self.leaf = std::mem::replace(&mut (*leaf).next, null_mut()) };
        self.leaf_count -= 1;
        Some(leaf)
    }
}

impl<K> Drop for Spare<K> {
    fn drop(&mut self) {
        // SAFETY: spare nodes come from boxes, and nobody else knows them.
        unsafe {
            while let Some(leaf) = self.pop() {
                drop(Box::from_raw(leaf));
            }
            for inner in self.inners.iter().filter(|inner| !inner.is_null()) {
                drop(Box::from_raw(*inner));
            }
        }
    }
}

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// Does ahead of time what the next splits would do: makes nodes, packs leaves.
    pub(crate) fn prepare_growth(&mut self) {
        self.pack_noted();
        let wanted = self.spare_leaves_wanted();
        while self.spare.leaf_count < wanted {
            // SAFETY: the leaf is new.
            unsafe { self.spare.push(new_leaf()) };
        }
        // After mass deletes there are too many.
        while self.spare.leaf_count > wanted
            && let Some(leaf) = self.spare.pop()
        {
            // SAFETY: leaves come from boxes, and nobody uses a spare one.
            drop(unsafe { Box::from_raw(leaf) });
        }
        if wanted > 0 {
            let missing = self.spare.inners.iter_mut().filter(|inner| inner.is_null());
            missing.for_each(|inner| *inner = new_inner());
        }
    }

    fn spare_leaves_wanted(&self) -> usize {
        (self.leaves / LEAVES_A_SPARE).min(SPARE_LEAVES)
    }

    /// An empty leaf.
    pub(super) fn take_leaf(&mut self) -> *mut Leaf<K> {
        self.spare.pop().unwrap_or_else(new_leaf)
    }

    /// An inner node without separators.
    pub(super) fn take_inner(&mut self) -> *mut Inner<K> {
        let spare = self.spare.inners.iter_mut().find(|inner| !inner.is_null());
        spare.map_or_else(new_inner, |inner| std::mem::replace(inner, null_mut()))
    }

    /// Keeps the memory of a leaf for the next split, or gives it back.
    ///
    /// # Safety
    /// `leaf` is live, not packed, and nobody uses it any more.
    pub(super) unsafe fn free_leaf(&mut self, leaf: *mut Leaf<K>) {
        // SAFETY: by the contract; leaves come from boxes.
        unsafe {
            if self.spare.leaf_count < self.spare_leaves_wanted() {
                (*leaf).length = 0;
                (*leaf).last_insert = NO_INSERT;
                (*leaf).previous = null_mut();
                self.spare.push(leaf);
            } else {
                drop(Box::from_raw(leaf));
            }
        }
    }
}
