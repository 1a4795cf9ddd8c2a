//! Filling an index that is empty with the rows of a table.
//!
//! Rows lie in the order in which they came, keys in that of their values: entering one after
//! the other would look for a place all over the tree. Numbers are sorted first, some millions at
//! a time, each time those of one range, so that entries come at the tree's end, and the memory
//! for it is small beside the tables.

use super::{AnyTree, Index, IndexFault};
use crate::blocks::BlockStore;
use crate::btree::{Tree, TreeKey};
use crate::layout::Field;
use crate::row::RowId;

/// Entries that are sorted at a time.
const BATCH: usize = 2 << 20;
/// Keys that are looked at for each range.
const SAMPLES: usize = 64;

impl Index {
    /// Enters all live rows.
    ///
    /// # Errors
    /// Two rows have the same key in a unique index; what a key evaluator gives.
    pub(crate) fn fill(&mut self, blocks: &BlockStore, fields: &[Field]) -> Result<(), IndexFault> {
        let shape = &self.shape;
        let is_plain = self.evaluator.is_none();
        // SAFETY: the slots of live rows hold rows of the index's table, and the shape has the
        // form that the tree has.
        let filled = unsafe {
            let word = |row| shape.word_from_slot(blocks.slot(row));
            let double = |row| shape.double_from_slot(blocks.slot(row));
            match &mut self.tree {
                AnyTree::Word(tree) if is_plain => fill_numbers(tree, blocks, word, BATCH),
                AnyTree::UniqueWord(tree) if is_plain => fill_numbers(tree, blocks, word, BATCH),
                AnyTree::Double(tree) if is_plain => fill_numbers(tree, blocks, double, BATCH),
                AnyTree::UniqueDouble(tree) if is_plain => {
                    fill_numbers(tree, blocks, double, BATCH)
                }
                _ => {
                    let mut next = blocks.next_live(0);
                    while let Some(row) = next {
                        self.insert_row(blocks.slot(row), fields, row)?;
                        next = blocks.next_live(row.0 + 1);
                    }
                    Ok(())
                }
            }
        };
        filled.map_err(|existing| IndexFault::Duplicate(RowId(existing)))
    }
}

/// Enters all live rows, N sorted at a time; an error is a row that has the same key.
pub(crate) fn fill_numbers<K, const UNIQUE: bool>(
    tree: &mut Tree<K, UNIQUE>,
    blocks: &BlockStore,
    key: impl Fn(RowId) -> K,
    batch_entries: usize,
) -> Result<(), u32>
where
    K: for<'p> TreeKey<Probe<'p> = K> + Ord,
{
    let is_behind = |one: K, other: K| if UNIQUE { one > other } else { one >= other };
    // As long as keys grow with the slots, there is nothing to sort.
    let (mut next, mut last) = (blocks.next_live(0), None);
    while let Some(row) = next {
        let found = key(row);
        if last.is_some_and(|last| !is_behind(found, last)) {
            break;
        }
        tree.append(found, row.0)?;
        last = Some(found);
        next = blocks.next_live(row.0 + 1);
    }
    let Some(from) = next else { return Ok(()) };
    let left = blocks.live_count() as usize - tree.len() as usize;
    let ranges = left.div_ceil(batch_entries / 2).max(1);
    let bounds = bounds(blocks, &key, from, ranges, left);
    let mut batch: Vec<(K, u32)> = Vec::with_capacity(left.min(batch_entries));
    for range in 0..=bounds.len() {
        let low = range.checked_sub(1).map(|before| bounds[before]);
        let high = bounds.get(range).copied();
        let mut next = Some(from);
        while let Some(row) = next {
            let found = key(row);
            let is_in = low.is_none_or(|low| found >= low) && high.is_none_or(|high| found < high);
            if is_in {
                // The ranges are guesses; one that has too much is entered in parts.
                if batch.len() == batch_entries {
                    enter(tree, &mut batch)?;
                }
                batch.push((found, row.0));
            }
            next = blocks.next_live(row.0 + 1);
        }
        enter(tree, &mut batch)?;
    }
    Ok(())
}

fn enter<K, const UNIQUE: bool>(
    tree: &mut Tree<K, UNIQUE>,
    batch: &mut Vec<(K, u32)>,
) -> Result<(), u32>
where
    K: for<'p> TreeKey<Probe<'p> = K> + Ord,
{
    batch.sort_unstable();
    batch.drain(..).try_for_each(|(key, row)| tree.append(key, row))
}

/// Keys between N ranges of about as many rows each, by looking at some.
fn bounds<K: Ord + Copy>(
    blocks: &BlockStore,
    key: impl Fn(RowId) -> K,
    from: RowId,
    ranges: usize,
    rows: usize,
) -> Vec<K> {
    if ranges == 1 {
        return Vec::new();
    }
    let step = (rows / (ranges * SAMPLES)).max(1) as u32;
    let mut samples = Vec::with_capacity(ranges * SAMPLES + 1);
    let mut next = blocks.next_live(from.0);
    while let Some(row) = next {
        samples.push(key(row));
        next = row.0.checked_add(step).and_then(|row| blocks.next_live(row));
    }
    samples.sort_unstable();
    let mut bounds: Vec<K> =
        (1..ranges).map(|range| samples[range * samples.len() / ranges]).collect();
    bounds.dedup();
    bounds
}
