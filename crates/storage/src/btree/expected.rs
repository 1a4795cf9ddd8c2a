//! Prefetched searches: the leaf is found and loaded into the cache ahead of time, and the get and
//! the insert of that key begin there.

use super::node::prefetch_rows;
use super::{LEAF_CAPACITY, Leaf, Tree, TreeKey, is_packed};

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// Asks the processor for the leaf that a search for the key will end in; false for a tree
    /// whose leaves are few, which lie in the cache as it is.
    #[inline]
    pub(crate) fn prefetch(&self, probe: K::Probe<'_>) -> bool {
        if self.height < 2 {
            return false;
        }
        prefetch_rows(self.find_leaf(probe, 0));
        true
    }
}

impl Tree<u64, true> {
    /// Asks the processor for the leaf that a search for the key will end in, so that it is there
    /// when the search comes. Trees whose leaves are few lie in the cache as it is.
    #[inline(always)]
    pub(crate) fn expect(&self, key: u64) {
        if self.height >= 2 {
            self.expect_leaf(key);
        }
    }

    #[inline(never)]
    fn expect_leaf(&self, key: u64) {
        let leaf = self.find_leaf(key, 0);
        prefetch_rows(leaf);
        self.expected.set((key, leaf.cast()));
    }

    /// The leaf of a key that was expected, if it is still the one.
    #[inline(always)]
    fn expected_leaf(&self, key: u64) -> Option<*mut Leaf<u64>> {
        let (expected, leaf) = self.expected.get();
        (expected == key && !leaf.is_null()).then_some(leaf.cast())
    }

    /// As `get`, for a key that may have been expected.
    #[inline]
    pub(crate) fn get_expected(&self, key: u64) -> Option<u32> {
        let Some(leaf) = self.expected_leaf(key) else { return self.get(key) };
        // SAFETY: the leaf is of this tree: whatever splits or merges leaves forgets it.
        unsafe {
            if is_packed(leaf) {
                return self.get(key);
            }
            debug_assert!(std::ptr::eq(self.find_leaf(key, 0), leaf), "a split forgets the leaf");
            let position = Self::position_at_or_after(leaf, key);
            let found = position < (*leaf).length as usize
                && (*leaf).keys.get_unchecked(position).assume_init() == key;
            found.then(|| (*leaf).rows.get_unchecked(position).assume_init())
        }
    }

    /// As `insert`, for a key that may have been expected.
    #[inline]
    pub(crate) fn insert_expected(&mut self, key: u64, row: u32) -> Result<(), u32> {
        let Some(leaf) = self.expected_leaf(key) else { return self.insert(key, row) };
        // SAFETY: the leaf is of this tree, as above, and has space where `insert_at` needs it.
        unsafe {
            if is_packed(leaf) {
                return self.insert(key, row);
            }
            debug_assert!(std::ptr::eq(self.find_leaf(key, row), leaf), "a split forgets the leaf");
            let length = (*leaf).length as usize;
            let position = Self::position_at_or_after(leaf, key);
            if position < length && (*leaf).keys.get_unchecked(position).assume_init() == key {
                return Err((*leaf).rows.get_unchecked(position).assume_init());
            }
            if length == LEAF_CAPACITY || self.counted.get() != 0 {
                return self.insert(key, row);
            }
            self.length += 1;
            Self::insert_at(leaf, position, key, row);
        }
        Ok(())
    }
}
