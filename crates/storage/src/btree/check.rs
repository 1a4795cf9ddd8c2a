//! A check of everything that a tree relies on, for tests and the simulator.

use super::node::{FAN_OUT, Inner, Leaf, TreeKey, UNKNOWN};
use super::packed::{Packed, RowReader, is_packed, leaf_length, links};
use super::{LEAF_CAPACITY, Tree};
use std::ptr::null_mut;

/// What a walk over the nodes has found so far.
struct Found<K> {
    leaves: Vec<*mut Leaf<K>>,
    inners: usize,
    /// Inner nodes that know the number of entries below them.
    counted: usize,
    /// Bytes of the arena that keys and separators use.
    arena_bytes: usize,
}

/// An entry that bounds a subtree.
type Limit<K> = Option<(K, u32)>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl<K: TreeKey, const UNIQUE: bool> Tree<K, UNIQUE> {
    /// Checks the shape of the tree, the order of its entries, the links of its leaves, and that
    /// its counts are those of its nodes. Visits every entry; gives their rows in key order.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub(crate) fn check(&self) -> Result<Vec<u32>, String> {
        let mut found = Found { leaves: Vec::new(), inners: 0, counted: 0, arena_bytes: 0 };
        // SAFETY: the tree is borrowed; every node is live.
        let entries = unsafe { self.check_node(self.root, self.height, (None, None), &mut found) }?;
        ensure(entries == self.length, || {
            format!("{entries} entries lie in the leaves, {} are counted", self.length)
        })?;
        let nodes = (found.leaves.len(), found.inners, found.counted);
        let counts = (self.leaves, self.inners, self.counted.get());
        ensure(nodes == counts, || {
            format!("leaves, inner nodes, counted ones: {nodes:?} found, {counts:?} counted")
        })?;
        // SAFETY: as above.
        unsafe {
            self.check_links(&found.leaves)?;
            self.check_packed(&found.leaves)?;
        }
        let (_, expected) = self.expected.get();
        ensure(expected.is_null() || found.leaves.contains(&expected.cast()), || {
            "the leaf of a prefetched search is not in the tree".into()
        })?;
        self.spare.check()?;
        K::check_arena(&self.arena, found.arena_bytes)?;
        // SAFETY: as above; positions stay below the length.
        let rows = found.leaves.iter().flat_map(|leaf| unsafe {
            let reader = RowReader::of(*leaf);
            (0..leaf_length(*leaf)).map(move |at| reader.row(at))
        });
        Ok(rows.collect())
    }

    /// Checks a node and those below it, whose entries are at or after `from` and before `to`;
    /// gives how many there are.
    ///
    /// # Safety
    /// `node` is a live node of this tree, `height` levels above the leaves.
    unsafe fn check_node(
        &self,
        node: *mut u8,
        height: usize,
        (from, to): (Limit<K>, Limit<K>),
        found: &mut Found<K>,
    ) -> Result<u64, String> {
        if height == 0 {
            // SAFETY: by the contract.
            return unsafe { self.check_leaf(node.cast(), (from, to), found) };
        }
        found.inners += 1;
        let (inners, counted) = (found.inners, found.counted);
        let inner = node.cast::<Inner<K>>();
        // SAFETY: by the contract; children and separators up to the length are initialised.
        unsafe {
            let length = (*inner).length as usize;
            ensure((1..FAN_OUT).contains(&length), || format!("{length} separators in a node"))?;
            let separator_bytes = |at: usize| (*inner).keys[at].assume_init().held_bytes();
            found.arena_bytes += (0..length).map(separator_bytes).sum::<usize>();
            let mut entries = 0;
            for child in 0..=length {
                let separator = |at: usize| {
                    Some(((*inner).keys[at].assume_init(), (*inner).rows[at].assume_init()))
                };
                let from = if child == 0 { from } else { separator(child - 1) };
                let to = if child == length { to } else { separator(child) };
                let node = (*inner).children[child].assume_init();
                entries += self.check_node(node, height - 1, (from, to), found)?;
            }
            let known = (*inner).entries;
            if known != UNKNOWN {
                ensure(u64::from(known) == entries, || {
                    format!("a node counts {known} entries of {entries} below it")
                })?;
                ensure(found.inners - inners == found.counted - counted, || {
                    "below a node with a count, a node has none".into()
                })?;
                found.counted += 1;
            }
            Ok(entries)
        }
    }

    /// Checks that the entries of a leaf ascend, and lie between two separators.
    ///
    /// # Safety
    /// `leaf` is a live leaf of this tree.
    unsafe fn check_leaf(
        &self,
        leaf: *mut Leaf<K>,
        (from, to): (Limit<K>, Limit<K>),
        found: &mut Found<K>,
    ) -> Result<u64, String> {
        found.leaves.push(leaf);
        // SAFETY: by the contract; positions stay below the length.
        unsafe {
            let length = leaf_length(leaf);
            let is_in = length <= LEAF_CAPACITY && (length > 0 || self.height == 0);
            ensure(is_in, || format!("{length} entries in a leaf"))?;
            let rows = RowReader::of(leaf);
            let mut before = from;
            for at in 0..length {
                let key = match is_packed(leaf) {
                    true => Self::packed_key(leaf, at),
                    false => (*leaf).keys[at].assume_init(),
                };
                let row = rows.row(at);
                let ascends = before.is_none_or(|(limit, limit_row)| match (at, UNIQUE) {
                    // The first entry may be the separator itself.
                    (0, true) => !limit.after(key.as_probe()),
                    (0, false) => limit.entry_before(limit_row, key.as_probe(), row + 1),
                    (_, true) => limit.before(key.as_probe()),
                    (_, false) => limit.entry_before(limit_row, key.as_probe(), row),
                });
                ensure(ascends, || format!("the entry of row {row} is out of order"))?;
                found.arena_bytes += key.held_bytes();
                before = Some((key, row));
            }
            let is_below = match (to, before.filter(|_| length > 0)) {
                (Some((limit, _)), Some((key, _))) if UNIQUE => key.before(limit.as_probe()),
                (Some((limit, limit_row)), Some((key, row))) => {
                    key.entry_before(row, limit.as_probe(), limit_row)
                }
                _ => true,
            };
            ensure(is_below, || "an entry is not before the separator after its leaf".into())?;
            Ok(length as u64)
        }
    }

    /// Checks that the links of the leaves run along them in both directions.
    ///
    /// # Safety
    /// These are the leaves of this tree, in order.
    unsafe fn check_links(&self, leaves: &[*mut Leaf<K>]) -> Result<(), String> {
        let ends = (leaves.first().copied(), leaves.last().copied());
        ensure(ends == (Some(self.first), Some(self.last)), || {
            "the first or the last leaf is another one".into()
        })?;
        let mut previous = null_mut();
        for (position, leaf) in leaves.iter().enumerate() {
            let next = leaves.get(position + 1).copied().unwrap_or(null_mut());
            // SAFETY: by the contract.
            let linked = unsafe { (*links(*leaf).0, *links(*leaf).1) };
            ensure(linked == (previous, next), || {
                format!("leaf {position} is not linked with its neighbours")
            })?;
            previous = *leaf;
        }
        Ok(())
    }

    /// Checks the counts of packed leaves and of their bytes.
    ///
    /// # Safety
    /// These are the leaves of this tree.
    unsafe fn check_packed(&self, leaves: &[*mut Leaf<K>]) -> Result<(), String> {
        // SAFETY: by the contract.
        let packed = leaves.iter().filter(|leaf| unsafe { is_packed(**leaf) });
        // SAFETY: the leaf is a packed one.
        let sizes = packed.map(|leaf| unsafe { (*leaf.cast::<Packed<K>>()).size_bytes });
        let (packed, bytes) = sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size));
        ensure((packed, bytes) == (self.packed_leaves, self.packed_bytes), || {
            format!(
                "{packed} packed leaves of {bytes} bytes, {} of {} are counted",
                self.packed_leaves, self.packed_bytes
            )
        })
    }
}
