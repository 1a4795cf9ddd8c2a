//! What the undo log asks of a table: to take a change back, or to free what it replaced.

use super::{Table, TruncatedState};
use crate::row::{RowId, read_reference};
use crate::undo::UndoKind;

impl Table {
    /// Takes back the latest change of this table. `bytes` is what the undo record kept.
    pub(crate) fn take_back(
        &mut self,
        kind: UndoKind,
        row: RowId,
        bytes: &[u8],
        truncated: Option<TruncatedState>,
    ) {
        // Records of another table with the same id would break what the blocks rely on.
        let whole = bytes.len() >= self.layout.slot_bytes;
        let live = self.blocks.is_live(row);
        match kind {
            UndoKind::InsertFresh if live => self.take_back_insert(row, true),
            UndoKind::InsertReused if live => self.take_back_insert(row, false),
            UndoKind::Delete if whole && !live => self.take_back_delete(row, bytes),
            UndoKind::Update if whole && live => self.take_back_update(row, bytes),
            UndoKind::Truncate => {
                let Some(TruncatedState { blocks, trees }) = truncated else { return };
                self.blocks = blocks;
                for (index, tree) in self.indexes.iter_mut().zip(trees) {
                    index.tree = tree;
                }
            }
            _ => debug_assert!(false, "the record is of another table"),
        }
    }

    fn take_back_insert(&mut self, row: RowId, fresh: bool) {
        // SAFETY: the row was inserted and all later changes are taken back: it is live.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes {
                index.remove_row(slot, &self.layout.fields, row);
            }
            for column in &self.layout.heap_columns {
                let field = &self.layout.fields[usize::from(*column)];
                if let Some((cell, length)) = read_reference(field, slot) {
                    self.heap.release(cell, length as usize);
                }
            }
        }
        self.blocks.retract(row);
        self.blocks.give_back(row, fresh);
    }

    fn take_back_delete(&mut self, row: RowId, bytes: &[u8]) {
        let taken = self.blocks.take();
        debug_assert_eq!(taken, Some((row, false)), "the slot was freed last");
        if taken != Some((row, false)) {
            return;
        }
        // SAFETY: the slot exists, and the bytes are those of the row it held, whose strings
        // are live until the deletion is released.
        unsafe {
            let slot = self.blocks.slot(row);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot, self.layout.slot_bytes);
            for index in &mut self.indexes {
                let added = index.insert_row(slot, &self.layout.fields, row);
                debug_assert!(added.is_ok(), "the row was in the index before");
            }
        }
        self.blocks.publish(row);
    }

    fn take_back_update(&mut self, row: RowId, bytes: &[u8]) {
        let (old, columns) = bytes.split_at(self.layout.slot_bytes);
        // SAFETY: the row is live, the bytes are those it had before, with live strings.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes {
                let back = index.replace_row(slot, old.as_ptr(), &self.layout.fields, row);
                debug_assert!(back.is_ok(), "the key was there before");
            }
            for column in heap_columns(columns) {
                if let Some((cell, length)) = read_reference(&self.layout.fields[column], slot) {
                    self.heap.release(cell, length as usize);
                }
            }
            std::ptr::copy_nonoverlapping(old.as_ptr(), slot, self.layout.slot_bytes);
        }
    }

    /// Frees the strings of a deleted row, or those that an update replaced.
    pub(crate) fn release_bytes(&mut self, kind: UndoKind, bytes: &[u8]) {
        let (slot, columns) = bytes.split_at(self.layout.slot_bytes);
        let mut release = |column: usize| {
            // SAFETY: the bytes are those of a row whose strings nobody else refers to now.
            unsafe {
                let reference = read_reference(&self.layout.fields[column], slot.as_ptr());
                if let Some((cell, length)) = reference {
                    self.heap.release(cell, length as usize);
                }
            }
        };
        if kind == UndoKind::Update {
            heap_columns(columns).for_each(&mut release);
        } else {
            self.layout.heap_columns.iter().for_each(|column| release(usize::from(*column)));
        }
    }

    /// Frees what the table held before it was emptied.
    pub(crate) fn release_truncated(&mut self, state: TruncatedState) {
        let mut from = 0;
        while !self.layout.heap_columns.is_empty()
            && let Some(row) = state.blocks.next_live(from)
        {
            from = row.0 + 1;
            for column in &self.layout.heap_columns {
                let field = &self.layout.fields[usize::from(*column)];
                // SAFETY: the row was live in the old state, which goes with this call.
                unsafe {
                    if let Some((cell, length)) = read_reference(field, state.blocks.slot(row)) {
                        self.heap.release(cell, length as usize);
                    }
                }
            }
        }
    }
}

/// The positions of changed heap columns behind an updated slot's bytes.
fn heap_columns(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes.chunks_exact(2).map(|pair| usize::from(u16::from_ne_bytes([pair[0], pair[1]])))
}
