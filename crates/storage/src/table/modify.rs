//! Changes of a table: insert, update, delete, truncate. Each is whole or leaves no trace.

use super::{Table, TruncatedState};
use crate::blocks::BlockStore;
use crate::error::StorageError;
use crate::index::{Index, IndexFault};
use crate::row::{FieldFault, RowId, read_field, write_field};
use crate::tail::{put_end, tail_bytes};
use crate::undo::UndoLog;
use lockstep_types::Datum;

impl Table {
    /// Adds a row, a value for each column, in column order.
    ///
    /// # Errors
    /// `UniqueViolation`, `NotNull`, `ValueTooLong`, `OutOfRange`, `TypeMismatch`,
    /// `ColumnCount`, `RowIdsExhausted`, `UndoLimit`; what a key evaluator gives.
    #[inline]
    pub fn insert(
        &mut self,
        values: &[Datum<'_>],
        undo: &mut UndoLog,
    ) -> Result<RowId, StorageError> {
        if values.len() != self.layout.fields.len() {
            return Err(StorageError::ColumnCount {
                table: self.name.clone(),
                expected: self.layout.fields.len(),
                given: values.len(),
            });
        }
        undo.check_room()?;
        let Some((row, fresh)) = self.blocks.take() else {
            return Err(StorageError::RowIdsExhausted { table: self.name.clone() });
        };
        // SAFETY: the slot was taken above, so it exists; it is this table's alone.
        let slot = unsafe { self.blocks.slot(row) };
        let mut tail_end = 0;
        for (column, field) in self.layout.fields.iter().enumerate() {
            // SAFETY: the slot is writable and of this layout.
            let written = unsafe {
                if field.kind.is_tail() {
                    put_end(field, slot, values[column], &mut tail_end)
                } else {
                    write_field(field, slot, values[column])
                }
            };
            if let Err(fault) = written {
                self.blocks.give_back(row, fresh);
                return Err(self.field_error(fault, column));
            }
        }
        if self.layout.has_tail() {
            let value_of = |column: usize| values[column];
            // SAFETY: all ends were written above.
            unsafe { self.layout.fill_tail(slot, &mut self.heap, tail_end, value_of) };
        }
        for position in 0..self.indexes.len() {
            let index = &mut self.indexes[position];
            // SAFETY: all fields of the slot were written above.
            let added = unsafe { index.insert_row(slot, &self.layout.fields, row) };
            if let Err(fault) = added {
                return Err(self.abandon_insert(row, fresh, position, fault));
            }
        }
        self.blocks.publish(row);
        debug_assert!(self.indexes_hold_all_rows(), "a row is inserted into each index");
        undo.push_insert(self.id, row, fresh);
        Ok(row)
    }

    /// Undoes an insert whose row is written and that `indexes` indexes have taken.
    #[cold]
    fn abandon_insert(
        &mut self,
        row: RowId,
        fresh: bool,
        indexes: usize,
        fault: IndexFault,
    ) -> StorageError {
        // SAFETY: the slot was taken, and all fields are written.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes[..indexes] {
                index.remove_row(slot, &self.layout.fields, row);
            }
            self.layout.release_tail(slot, &mut self.heap);
        }
        self.blocks.give_back(row, fresh);
        assert!(self.indexes_hold_all_rows(), "a failed insert leaves no entry");
        self.index_error(fault, indexes, self.indexes[indexes].name())
    }

    #[cold]
    fn field_error(&self, fault: FieldFault, column: usize) -> StorageError {
        let table = self.name.clone();
        let field = &self.layout.fields[column];
        let (sql_type, limit) = (field.sql_type, field.max_bytes as usize);
        match fault {
            FieldFault::NotNull => StorageError::NotNull { table, column },
            FieldFault::TooLong(length) => {
                StorageError::ValueTooLong { table, column, length, limit }
            }
            FieldFault::OutOfRange => StorageError::OutOfRange { table, column, sql_type },
            FieldFault::TypeMismatch => {
                StorageError::TypeMismatch { place: table, column, expected: sql_type }
            }
        }
    }

    #[cold]
    fn no_such_row(&self, row: RowId) -> StorageError {
        StorageError::NoSuchRow { table: self.name.clone(), row }
    }

    /// Deletes a row. Its slot is the next that an insert takes.
    ///
    /// # Errors
    /// `NoSuchRow`, `UndoLimit`.
    #[inline]
    pub fn delete(&mut self, row: RowId, undo: &mut UndoLog) -> Result<(), StorageError> {
        if !self.blocks.is_live(row) {
            return Err(self.no_such_row(row));
        }
        undo.check_room()?;
        // SAFETY: the row is live, so its slot holds a row of this layout.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes {
                index.remove_row(slot, &self.layout.fields, row);
            }
            let bytes = std::slice::from_raw_parts(slot, self.layout.slot_bytes);
            undo.push_delete(self.id, row, bytes, self.layout.has_tail());
        }
        self.blocks.free(row);
        debug_assert!(self.indexes_hold_all_rows(), "a row is deleted from each index");
        Ok(())
    }

    /// Changes columns of a row. Only indexes that read one of these columns are looked at.
    ///
    /// # Errors
    /// As for [`Table::insert`]; `NoSuchRow`, `NoSuchColumn`.
    pub fn update(
        &mut self,
        row: RowId,
        changes: &[(usize, Datum<'_>)],
        undo: &mut UndoLog,
    ) -> Result<(), StorageError> {
        if !self.blocks.is_live(row) {
            return Err(self.no_such_row(row));
        }
        undo.check_room()?;
        // SAFETY: the row is live, so its slot exists and is of the scratch slot's size.
        let slot = unsafe { self.blocks.slot(row) };
        let slot_bytes = self.layout.slot_bytes;
        // SAFETY: as above; the scratch slot is memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(slot, self.scratch.as_mut_ptr(), slot_bytes) };
        let mut affected = 0u64;
        let mut changes_tail = false;
        for (column, value) in changes {
            changes_tail |= self.change_scratch(slot, *column, *value)?;
            affected |= self.column_indexes[*column];
        }
        if changes_tail {
            let scratch = self.scratch.as_mut_ptr();
            // SAFETY: the slot holds a live row, and the scratch slot a copy of it.
            let changed =
                unsafe { self.layout.change_tail(slot, scratch, &mut self.heap, changes) };
            changed.map_err(|(column, fault)| self.field_error(fault, column))?;
        }
        if affected != 0
            && let Err(error) = self.update_indexes(row, slot, affected)
        {
            if changes_tail {
                // SAFETY: the tail of the scratch slot is of this update alone.
                unsafe { self.layout.release_tail(self.scratch.as_ptr(), &mut self.heap) };
            }
            return Err(error);
        }
        // SAFETY: the slot and the scratch slot hold whole rows of this layout.
        unsafe {
            let bytes = std::slice::from_raw_parts(slot, slot_bytes);
            undo.push_update(self.id, row, bytes, changes_tail);
            self.blocks.about_to_change(row);
            std::ptr::copy_nonoverlapping(self.scratch.as_ptr(), slot, slot_bytes);
        }
        debug_assert!(self.indexes_hold_all_rows(), "an update leaves a row its entries");
        Ok(())
    }

    /// Writes a new value into the scratch slot; one of the tail is looked at only: true if it
    /// differs from that in `slot`.
    #[inline]
    fn change_scratch(
        &mut self,
        slot: *const u8,
        column: usize,
        value: Datum<'_>,
    ) -> Result<bool, StorageError> {
        let Some(field) = self.layout.fields.get(column) else {
            return Err(StorageError::NoSuchColumn { table: self.name.clone(), column });
        };
        let changed = if field.kind.is_tail() {
            // SAFETY: the slot holds a live row of this layout.
            tail_bytes(field, value).map(|_| unsafe { read_field(field, slot) } != value)
        } else {
            // SAFETY: the scratch slot is of this layout.
            unsafe { write_field(field, self.scratch.as_mut_ptr(), value) }.map(|()| false)
        };
        changed.map_err(|fault| self.field_error(fault, column))
    }

    /// Moves a row in the affected indexes from the slot's keys to the scratch slot's.
    fn update_indexes(
        &mut self,
        row: RowId,
        slot: *const u8,
        affected: u64,
    ) -> Result<(), StorageError> {
        let fields = &self.layout.fields;
        let scratch = self.scratch.as_ptr();
        for position in bits(affected) {
            // SAFETY: both slots hold whole rows of this layout.
            let replaced =
                unsafe { self.indexes[position].replace_row(slot, scratch, fields, row) };
            if let Err(fault) = replaced {
                for earlier in bits(affected).take_while(|earlier| *earlier < position) {
                    // SAFETY: as above. The old key was there, so it is free.
                    let back =
                        unsafe { self.indexes[earlier].replace_row(scratch, slot, fields, row) };
                    assert!(back.is_ok(), "the key was there before");
                }
                return Err(self.index_error(fault, position, self.indexes[position].name()));
            }
        }
        Ok(())
    }

    /// Removes all rows at once; slot allocation begins again.
    ///
    /// # Errors
    /// `UndoLimit`.
    pub fn truncate(&mut self, undo: &mut UndoLog) -> Result<(), StorageError> {
        undo.check_room()?;
        let blocks = std::mem::replace(&mut self.blocks, BlockStore::new(&self.layout));
        let trees = self.indexes.iter_mut().map(Index::take_tree).collect();
        assert!(self.indexes_hold_all_rows(), "an empty table has empty indexes");
        undo.push_truncate(self.id, TruncatedState { blocks, trees });
        Ok(())
    }
}

/// The positions of the bits that are set.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let position = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (position < 64).then_some(position as usize)
    })
}
