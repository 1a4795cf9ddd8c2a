//! The rows that a unique index found last, so that a row that is read and then updated is
//! searched for once.

use super::{AnyTree, Index};
use crate::row::RowId;
use lockstep_types::Datum;
use std::cell::Cell;

/// Rows that searches of an index found, by the hash of their key.
const RECENT_ROWS: usize = 64;

/// The rows of a unique index on integers that were found last. What is asked for once is mostly
/// asked for again soon: read, then updated. Nothing but a guess: the one that takes a row from
/// here makes sure that it is live and has the key, which then no other row has.
pub(crate) struct RecentRows([Cell<u32>; RECENT_ROWS]);

impl RecentRows {
    pub(super) fn new() -> RecentRows {
        RecentRows([const { Cell::new(u32::MAX) }; RECENT_ROWS])
    }

    #[inline(always)]
    fn place(&self, key: u64) -> &Cell<u32> {
        // The high bits of the product depend on all bits of the key.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        &self.0[hash as usize % RECENT_ROWS]
    }
}

impl Index {
    /// The number of a whole key, where rows are found by that: in a unique index on several
    /// columns of at most 8 bytes together.
    #[inline(always)]
    pub(crate) fn unique_word(&self, key: &[Datum<'_>]) -> Option<u64> {
        // One integer is found without this about as fast.
        let is_sought = key.len() > 1 && matches!(self.tree, AnyTree::UniqueWord(_));
        if !is_sought || self.evaluator.is_some() {
            return None;
        }
        match self.shape.word_of(key) {
            Some((number, 0)) => Some(number),
            _ => None,
        }
    }

    /// A row that may be the one of this number.
    #[inline(always)]
    pub(crate) fn recent_row(&self, number: u64) -> RowId {
        RowId(self.recent.place(number).get())
    }

    /// Whether a row has this number.
    ///
    /// # Safety
    /// `slot` holds a row of the index's table, and `unique_word` gave the number.
    #[inline(always)]
    pub(crate) unsafe fn is_row_of(&self, number: u64, slot: *const u8) -> bool {
        // SAFETY: by the contract.
        unsafe { self.shape.word_from_slot(slot) == number }
    }

    /// The row of a number that `unique_word` gave.
    #[inline]
    pub(crate) fn get_word(&self, number: u64) -> Option<RowId> {
        let AnyTree::UniqueWord(tree) = &self.tree else { return None };
        let row = tree.get(number)?;
        self.recent.place(number).set(row);
        Some(RowId(row))
    }
}
