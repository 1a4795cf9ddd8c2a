//! Filling a tree with entries that come in order, as far as that goes.

use super::{LEAF_CAPACITY, Tree, TreeKey, is_packed};

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// As [`Tree::insert`], without a search where the entry comes after all others.
    #[inline]
    pub(crate) fn append(&mut self, probe: K::Probe<'_>, row: u32) -> Result<(), u32> {
        let leaf = self.last;
        // SAFETY: the last leaf is of this tree; its first `length` entries are initialised, and
        // there is room for one more.
        unsafe {
            if !is_packed(leaf) && self.counted.get() == 0 {
                let length = (*leaf).length as usize;
                let keys = (&raw const (*leaf).keys).cast::<K>();
                let is_last = length > 0 && length < LEAF_CAPACITY && {
                    let key = &*keys.add(length - 1);
                    match UNIQUE {
                        true => key.before(probe),
                        false => {
                            let rows = (&raw const (*leaf).rows).cast::<u32>();
                            key.entry_before(*rows.add(length - 1), probe, row)
                        }
                    }
                };
                if is_last {
                    let key = K::store(probe, &mut self.arena);
                    self.length += 1;
                    Self::insert_at(leaf, length, key, row);
                    return Ok(());
                }
            }
        }
        self.insert(probe, row)
    }
}
