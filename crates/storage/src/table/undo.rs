//! A table's part of undo: reversing a change, and freeing what a change replaced.

use super::{Table, TruncatedState};
use crate::row::RowId;
use crate::undo::UndoKind;

impl Table {
    /// Undoes the latest change of this table. `bytes` is what the undo record kept.
    pub(crate) fn undo_change(
        &mut self,
        (kind, holds_tail): (UndoKind, bool),
        row: RowId,
        bytes: &[u8],
        truncated: Option<TruncatedState>,
    ) {
        // Records of another table with the same id would break what the blocks rely on.
        let whole = bytes.len() >= self.layout.slot_bytes;
        let live = self.blocks.is_live(row);
        match kind {
            UndoKind::InsertFresh if live => self.undo_insert(row, true),
            UndoKind::InsertReused if live => self.undo_insert(row, false),
            UndoKind::Delete if whole && !live => self.undo_delete(row, bytes),
            UndoKind::Update if whole && live => self.undo_update(row, bytes, holds_tail),
            UndoKind::Cover => self.undo_cover(row),
            UndoKind::Truncate => {
                let TruncatedState { blocks, trees } =
                    truncated.expect("a truncation has what it replaced");
                assert_eq!(trees.len(), self.indexes.len(), "no index came or went in between");
                self.blocks = blocks;
                for (index, tree) in self.indexes.iter_mut().zip(trees) {
                    index.tree = tree;
                }
                assert!(self.indexes_hold_all_rows(), "rows and entries come back together");
            }
            _ => unreachable!("the record is of another table"),
        }
    }

    fn undo_insert(&mut self, row: RowId, fresh: bool) {
        // SAFETY: the row was inserted and all later changes are undone: it is live.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes {
                index.remove_row(slot, &self.layout.fields, row);
            }
            self.layout.release_tail(slot, &mut self.heap);
        }
        self.blocks.retract(row);
        self.blocks.give_back(row, fresh);
        debug_assert!(self.indexes_hold_all_rows(), "undo of an insert leaves no entry");
    }

    fn undo_delete(&mut self, row: RowId, bytes: &[u8]) {
        let taken = self.blocks.take();
        assert_eq!(taken, Some((row, false)), "the slot was freed last");
        // SAFETY: the slot exists, and the bytes are those of the row it held, whose strings
        // are live until the deletion is released.
        unsafe {
            let slot = self.blocks.slot(row);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot, self.layout.slot_bytes);
            for index in &mut self.indexes {
                let added = index.insert_row(slot, &self.layout.fields, row);
                assert!(added.is_ok(), "the row was in the index before");
            }
        }
        self.blocks.publish(row);
        debug_assert!(self.indexes_hold_all_rows(), "undo of a delete inserts all entries");
    }

    fn undo_update(&mut self, row: RowId, old: &[u8], changed_tail: bool) {
        // SAFETY: the row is live, the bytes are those it had before, whose tail is live. The
        // tail that it has now is its own alone if the update changed it.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes {
                let back = index.replace_row(slot, old.as_ptr(), &self.layout.fields, row);
                assert!(back.is_ok(), "the key was there before");
            }
            if changed_tail {
                self.layout.release_tail(slot, &mut self.heap);
            }
            std::ptr::copy_nonoverlapping(old.as_ptr(), slot, self.layout.slot_bytes);
        }
    }

    /// Frees the tail of a deleted row, or the one that an update replaced.
    pub(crate) fn release_bytes(&mut self, slot: &[u8]) {
        if slot.len() >= self.layout.slot_bytes {
            // SAFETY: the bytes are those of a row whose tail nobody else refers to now.
            unsafe { self.layout.release_tail(slot.as_ptr(), &mut self.heap) };
        }
    }

    /// Frees what the table held before it was emptied.
    pub(crate) fn free_truncated(&mut self, state: TruncatedState) {
        let mut from = 0;
        while self.layout.has_tail()
            && let Some(row) = state.blocks.next_live(from)
        {
            from = row.0 + 1;
            // SAFETY: the row was live in the old state, which goes with this call.
            unsafe { self.layout.release_tail(state.blocks.slot(row), &mut self.heap) };
        }
    }
}
