//! What happens when a node of the B+tree runs low: it merges with a neighbour, or takes from it.

use super::node::{FAN_OUT, Inner, LEAF_CAPACITY, Leaf, TreeKey};
use super::{Path, Tree, links};
use std::ptr::{copy, copy_nonoverlapping};

/// Two leaves merge when they have at most this many entries together: some room stays, so that
/// the next insert does not split again.
const LEAF_MERGE_LIMIT: usize = LEAF_CAPACITY * 3 / 4;
/// Two inner nodes merge when they have at most this many children together.
const INNER_MERGE_LIMIT: usize = FAN_OUT * 3 / 4;

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// Merges or refills the leaf at the end of `path`, which has run low.
    ///
    /// # Safety
    /// `path` is a path of this tree as it is, whose height is above 0.
    #[cold]
    pub(super) unsafe fn fill_leaf(&mut self, path: &Path<K>) {
        debug_assert!(self.height > 0, "a lone root has no neighbour");
        let level = self.height - 1;
        // SAFETY: the parent has a separator, so at least two children; all nodes are live.
        unsafe {
            let (parent, index) = path.step(level);
            let left_index = index.saturating_sub(1);
            let left = self.unpacked_child(parent, left_index);
            let right = self.unpacked_child(parent, left_index + 1);
            let (left_length, right_length) = ((*left).length as usize, (*right).length as usize);
            let total = left_length + right_length;
            if total <= LEAF_MERGE_LIMIT {
                Self::append_entries(left, right, right_length);
                let next = (*right).next;
                (*left).next = next;
                if next.is_null() {
                    self.last = left;
                } else {
                    *links(next).0 = left;
                }
                self.leaves -= 1;
                self.free_leaf(right);
                self.remove_child(path, level, left_index);
                return;
            }
            let target = total / 2;
            if left_length < target {
                Self::append_entries(left, right, target - left_length);
            } else {
                Self::prepend_entries(left, right, left_length - target);
            }
            self.replace_separator(parent, left_index, right);
        }
    }

    /// Moves the first `count` entries of `right` after those of `left`.
    ///
    /// # Safety
    /// Both are live leaves; `left` has space and `right` that many entries.
    unsafe fn append_entries(left: *mut Leaf<K>, right: *mut Leaf<K>, count: usize) {
        // SAFETY: by the contract all moves stay within the arrays of initialised entries.
        unsafe {
            let left_length = (*left).length as usize;
            let fits = count <= (*right).length as usize && left_length + count <= LEAF_CAPACITY;
            debug_assert!(fits, "{count} entries fit into the left leaf");
            let rest = (*right).length as usize - count;
            let (left_keys, right_keys) =
                ((&raw mut (*left).keys).cast::<K>(), (&raw mut (*right).keys).cast::<K>());
            copy_nonoverlapping(right_keys, left_keys.add(left_length), count);
            copy(right_keys.add(count), right_keys, rest);
            let (left_rows, right_rows) =
                ((&raw mut (*left).rows).cast::<u32>(), (&raw mut (*right).rows).cast::<u32>());
            copy_nonoverlapping(right_rows, left_rows.add(left_length), count);
            copy(right_rows.add(count), right_rows, rest);
            (*left).length += count as u16;
            (*right).length -= count as u16;
        }
    }

    /// Moves the last `count` entries of `left` before those of `right`.
    ///
    /// # Safety
    /// Both are live leaves; `right` has space and `left` that many entries.
    unsafe fn prepend_entries(left: *mut Leaf<K>, right: *mut Leaf<K>, count: usize) {
        // SAFETY: by the contract all moves stay within the arrays of initialised entries.
        unsafe {
            let right_length = (*right).length as usize;
            let fits = count <= (*left).length as usize && right_length + count <= LEAF_CAPACITY;
            debug_assert!(fits, "{count} entries fit into the right leaf");
            let keep = (*left).length as usize - count;
            let (left_keys, right_keys) =
                ((&raw mut (*left).keys).cast::<K>(), (&raw mut (*right).keys).cast::<K>());
            copy(right_keys, right_keys.add(count), right_length);
            copy_nonoverlapping(left_keys.add(keep), right_keys, count);
            let (left_rows, right_rows) =
                ((&raw mut (*left).rows).cast::<u32>(), (&raw mut (*right).rows).cast::<u32>());
            copy(right_rows, right_rows.add(count), right_length);
            copy_nonoverlapping(left_rows.add(keep), right_rows, count);
            (*left).length -= count as u16;
            (*right).length += count as u16;
        }
    }

    /// Makes a separator the first entry of the leaf after it.
    ///
    /// # Safety
    /// `parent` is live with that separator; `right` is live and has an entry.
    unsafe fn replace_separator(
        &mut self,
        parent: *mut Inner<K>,
        index: usize,
        right: *mut Leaf<K>,
    ) {
        // SAFETY: by the contract both are initialised; the old separator is dropped once.
        unsafe {
            debug_assert!((*right).length > 0, "the leaf after a separator has an entry");
            (*parent).keys[index].assume_init_read().release(&mut self.arena);
            let key = (*right).keys[0].assume_init_ref().duplicate(&mut self.arena);
            (*parent).keys[index].write(key);
            (*parent).rows[index].write((*right).rows[0].assume_init());
        }
    }

    /// Removes separator `index` and the child after it, whose content is now in the child
    /// before it, from the node at `level` of `path`.
    ///
    /// # Safety
    /// `path` is a path of this tree; the node has that separator.
    unsafe fn remove_child(&mut self, path: &Path<K>, level: usize, index: usize) {
        // SAFETY: by the contract all moves stay within the initialised parts of live nodes.
        unsafe {
            let (inner, _) = path.step(level);
            debug_assert!(index < (*inner).length as usize, "the separator is there");
            (*inner).keys[index].assume_init_read().release(&mut self.arena);
            self.close_gap(inner, index);
            let length = (*inner).length as usize;
            if level == 0 {
                if length == 0 {
                    self.root = (*inner).children[0].assume_init();
                    self.height -= 1;
                    self.inners -= 1;
                    drop(Box::from_raw(inner));
                }
            } else if length < FAN_OUT / 4 {
                self.fill_inner(path, level);
            }
        }
    }

    /// Takes separator `index`, whose key is gone, and the child after it out of `inner`.
    ///
    /// # Safety
    /// `inner` is live and has that separator.
    unsafe fn close_gap(&mut self, inner: *mut Inner<K>, index: usize) {
        // SAFETY: by the contract all moves stay within the initialised parts.
        unsafe {
            let behind = (*inner).length as usize - index - 1;
            let keys = (&raw mut (*inner).keys).cast::<K>().add(index);
            copy(keys.add(1), keys, behind);
            let rows = (&raw mut (*inner).rows).cast::<u32>().add(index);
            copy(rows.add(1), rows, behind);
            let children = (&raw mut (*inner).children).cast::<*mut u8>().add(index + 1);
            copy(children.add(1), children, behind);
            (*inner).length -= 1;
        }
    }

    /// Merges or refills the inner node at `level` of `path`, which has run low.
    ///
    /// # Safety
    /// `path` is a path of this tree down to `level`, which is above 0.
    unsafe fn fill_inner(&mut self, path: &Path<K>, level: usize) {
        // SAFETY: the parent has a separator, so at least two children; all nodes are live.
        unsafe {
            let (parent, index) = path.step(level - 1);
            let left_index = index.saturating_sub(1);
            let left = (*parent).children[left_index].assume_init().cast::<Inner<K>>();
            let right = (*parent).children[left_index + 1].assume_init().cast::<Inner<K>>();
            self.forget_count(left);
            self.forget_count(right);
            let left_children = (*left).length as usize + 1;
            let total = left_children + (*right).length as usize + 1;
            if total <= INNER_MERGE_LIMIT {
                while Self::rotate_left(parent, left_index, left, right) {}
                // The right node has one child left and no separator: the parent's goes down.
                let length = (*left).length as usize;
                (*left).keys[length].write((*parent).keys[left_index].assume_init_read());
                (*left).rows[length].write((*parent).rows[left_index].assume_init());
                (*left).children[length + 1].write((*right).children[0].assume_init());
                (*left).length += 1;
                drop(Box::from_raw(right));
                self.inners -= 1;
                self.drop_moved_separator(path, level - 1, left_index);
                return;
            }
            let target = total / 2;
            for _ in left_children..target {
                Self::rotate_left(parent, left_index, left, right);
            }
            for _ in target..left_children {
                Self::rotate_right(parent, left_index, left, right);
            }
        }
    }

    /// As `remove_child` for a separator whose key has moved elsewhere.
    ///
    /// # Safety
    /// As for `remove_child`.
    unsafe fn drop_moved_separator(&mut self, path: &Path<K>, level: usize, index: usize) {
        // SAFETY: a copy with a tail of its own stands in for the key that moved, so that
        // `remove_child` has something to release.
        unsafe {
            let (inner, _) = path.step(level);
            let stand_in = (*inner).keys[index].assume_init_ref().duplicate(&mut self.arena);
            (*inner).keys[index].write(stand_in);
            self.remove_child(path, level, index);
        }
    }

    /// Moves the first child of `right` to the end of `left`, through the separator between
    /// them. False when it is the only one.
    ///
    /// # Safety
    /// The nodes are live; `left` and `right` are neighbours around separator `index` of
    /// `parent`; `left` has space.
    unsafe fn rotate_left(
        parent: *mut Inner<K>,
        index: usize,
        left: *mut Inner<K>,
        right: *mut Inner<K>,
    ) -> bool {
        // SAFETY: by the contract all moves stay within the initialised parts.
        unsafe {
            let rest = (*right).length as usize;
            if rest == 0 {
                return false;
            }
            let length = (*left).length as usize;
            debug_assert!(length < FAN_OUT - 1, "the left node has space for a child");
            (*left).keys[length].write((*parent).keys[index].assume_init_read());
            (*left).rows[length].write((*parent).rows[index].assume_init());
            (*left).children[length + 1].write((*right).children[0].assume_init());
            (*left).length += 1;
            (*parent).keys[index].write((*right).keys[0].assume_init_read());
            (*parent).rows[index].write((*right).rows[0].assume_init());
            (*right).keys.copy_within(1..rest, 0);
            (*right).rows.copy_within(1..rest, 0);
            (*right).children.copy_within(1..=rest, 0);
            (*right).length -= 1;
        }
        true
    }

    /// Moves the last child of `left` to the beginning of `right`, through the separator
    /// between them.
    ///
    /// # Safety
    /// As for `rotate_left`, with room in `right` and a separator in `left`.
    unsafe fn rotate_right(
        parent: *mut Inner<K>,
        index: usize,
        left: *mut Inner<K>,
        right: *mut Inner<K>,
    ) {
        // SAFETY: by the contract all moves stay within the initialised parts.
        unsafe {
            let rest = (*right).length as usize;
            let has_both = rest < FAN_OUT - 1 && (*left).length > 0;
            debug_assert!(has_both, "the right node has space for a child of the left one");
            let last = (*left).length as usize - 1;
            (*right).keys.copy_within(0..rest, 1);
            (*right).rows.copy_within(0..rest, 1);
            (*right).children.copy_within(0..=rest, 1);
            (*right).keys[0].write((*parent).keys[index].assume_init_read());
            (*right).rows[0].write((*parent).rows[index].assume_init());
            (*right).children[0].write((*left).children[last + 1].assume_init());
            (*right).length += 1;
            (*parent).keys[index].write((*left).keys[last].assume_init_read());
            (*parent).rows[index].write((*left).rows[last].assume_init());
            (*left).length -= 1;
        }
    }
}
