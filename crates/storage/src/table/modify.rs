//! Changes of a table: insert, update, delete, truncate. Each is whole or leaves no trace.

use super::{Table, TruncatedState};
use crate::blocks::BlockStore;
use crate::error::StorageError;
use crate::index::{Index, IndexFault};
use crate::row::{FieldFault, RowId, read_field, read_reference, write_field};
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
        for (column, field) in self.layout.fields.iter().enumerate() {
            // SAFETY: the slot is writable and of this layout.
            let written = unsafe { write_field(field, slot, values[column], &mut self.heap) };
            if let Err(fault) = written {
                return Err(self.abandon_insert(row, fresh, column, 0, Abandon::Field(fault)));
            }
        }
        for position in 0..self.indexes.len() {
            let index = &mut self.indexes[position];
            // SAFETY: all fields of the slot were written above.
            let added = unsafe { index.insert_row(slot, &self.layout.fields, row) };
            if let Err(fault) = added {
                let columns = self.layout.fields.len();
                let why = Abandon::Index(fault);
                return Err(self.abandon_insert(row, fresh, columns, position, why));
            }
        }
        self.blocks.publish(row);
        undo.push_insert(self.id, row, fresh);
        Ok(row)
    }

    /// Undoes an insert that failed after `columns` fields and `indexes` indexes.
    #[cold]
    fn abandon_insert(
        &mut self,
        row: RowId,
        fresh: bool,
        columns: usize,
        indexes: usize,
        why: Abandon,
    ) -> StorageError {
        // SAFETY: the slot was taken; indexes are only above 0 when all fields are written.
        unsafe {
            let slot = self.blocks.slot(row);
            for index in &mut self.indexes[..indexes] {
                index.remove_row(slot, &self.layout.fields, row);
            }
            for field in &self.layout.fields[..columns] {
                if field.kind.is_heap()
                    && let Some((cell, length)) = read_reference(field, slot)
                {
                    self.heap.release(cell, length as usize);
                }
            }
        }
        self.blocks.give_back(row, fresh);
        match why {
            Abandon::Field(fault) => self.field_error(fault, columns),
            Abandon::Index(fault) => self.index_error(fault, indexes, self.indexes[indexes].name()),
        }
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
            undo.push_delete(self.id, row, bytes, !self.layout.heap_columns.is_empty());
        }
        self.blocks.free(row);
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
        self.changed_strings.clear();
        let mut affected = 0u64;
        for (column, value) in changes {
            if let Err(error) = self.change_scratch(*column, *value) {
                self.release_changed_strings();
                return Err(error);
            }
            affected |= self.column_indexes[*column];
        }
        if affected != 0 {
            self.update_indexes(row, slot, affected)?;
        }
        // SAFETY: the slot and the scratch slot hold whole rows of this layout.
        unsafe {
            let bytes = std::slice::from_raw_parts(slot, slot_bytes);
            undo.push_update(self.id, row, bytes, &self.changed_strings);
            std::ptr::copy_nonoverlapping(self.scratch.as_ptr(), slot, slot_bytes);
        }
        Ok(())
    }

    /// Writes a new value into the scratch slot.
    #[inline]
    fn change_scratch(&mut self, column: usize, value: Datum<'_>) -> Result<(), StorageError> {
        let Some(field) = self.layout.fields.get(column) else {
            return Err(StorageError::NoSuchColumn { table: self.name.clone(), column });
        };
        let scratch = self.scratch.as_mut_ptr();
        if !field.kind.is_heap() {
            // SAFETY: the scratch slot is of this layout.
            let written = unsafe { write_field(field, scratch, value, &mut self.heap) };
            return written.map_err(|fault| self.field_error(fault, column));
        }
        // SAFETY: the scratch slot holds a row of this layout, whose strings are live. A string
        // is released only if this update stored it.
        unsafe {
            if read_field(field, scratch) == value {
                return Ok(());
            }
            let earlier = read_reference(field, scratch);
            if let Err(fault) = write_field(field, scratch, value, &mut self.heap) {
                return Err(self.field_error(fault, column));
            }
            if self.changed_strings.contains(&(column as u16)) {
                if let Some((cell, length)) = earlier {
                    self.heap.release(cell, length as usize);
                }
            } else {
                self.changed_strings.push(column as u16);
            }
        }
        Ok(())
    }

    /// Releases the strings that a failed update stored.
    #[cold]
    fn release_changed_strings(&mut self) {
        for column in &self.changed_strings {
            let field = &self.layout.fields[usize::from(*column)];
            // SAFETY: these columns of the scratch slot hold strings of this update alone.
            unsafe {
                if let Some((cell, length)) = read_reference(field, self.scratch.as_ptr()) {
                    self.heap.release(cell, length as usize);
                }
            }
        }
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
                    debug_assert!(back.is_ok(), "the key was there before");
                }
                self.release_changed_strings();
                return Err(self.index_error(fault, position, self.indexes[position].name()));
            }
        }
        Ok(())
    }

    /// Removes all rows at once; slot allocation begins anew.
    ///
    /// # Errors
    /// `UndoLimit`.
    pub fn truncate(&mut self, undo: &mut UndoLog) -> Result<(), StorageError> {
        undo.check_room()?;
        let blocks = std::mem::replace(&mut self.blocks, BlockStore::new(&self.layout));
        let trees = self.indexes.iter_mut().map(Index::take_tree).collect();
        undo.push_truncate(self.id, TruncatedState { blocks, trees });
        Ok(())
    }
}

/// Why an insert did not go through.
enum Abandon {
    Field(FieldFault),
    Index(IndexFault),
}

/// The positions of the bits that are set.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let position = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (position < 64).then_some(position as usize)
    })
}
