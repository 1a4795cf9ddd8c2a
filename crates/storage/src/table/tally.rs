//! Counting a row of one table into a table of groups, as views that count do: one search of the
//! group's index finds the group or makes its entry, and fields go from slot to slot as bytes.

use super::Table;
use crate::error::StorageError;
use crate::index::AnyTree;
use crate::key::KeyShape;
use crate::layout::{Field, FieldKind};
use crate::row::RowId;
use crate::undo::UndoLog;
use lockstep_types::IndexId;

impl Table {
    /// Adds 1 to the count of the group that a row of `source` belongs to, or inserts the group
    /// with a count of 1. The group's values are the row's `columns`; here they are the first
    /// columns, which `index` is on, and the count is the last. False, with nothing changed, when
    /// the tables are not that simple: other indexes, long text, fields that differ.
    ///
    /// # Errors
    /// `UndoLimit`.
    #[inline]
    pub fn count_in(
        &mut self,
        index: IndexId,
        columns: &[u16],
        (source, row): (&Table, RowId),
        undo: &mut UndoLog,
    ) -> Result<bool, StorageError> {
        let [own] = &mut *self.indexes else { return Ok(false) };
        let Some((count, group)) = self.layout.fields.split_last() else { return Ok(false) };
        let fits = index.index() == 0
            && group.len() == columns.len()
            && count.kind == FieldKind::BigInt
            && self.column_indexes[columns.len()] == 0
            && own.shape.parts.len() == columns.len()
            && source.blocks.is_live(row);
        let Some(next) = self.blocks.next() else { return Ok(false) };
        if !fits || !same_fields(group, &own.shape, columns, &source.layout.fields) {
            return Ok(false);
        }
        undo.check_room()?;
        // SAFETY: the source row is live.
        let from = unsafe { source.blocks.slot(row) };
        let fields = columns.iter().map(|column| &source.layout.fields[usize::from(*column)]);
        // SAFETY: `from` holds a row of these fields, which are of the kinds of the key's parts.
        let added = unsafe {
            match &mut own.tree {
                AnyTree::UniqueWord(tree) => {
                    tree.insert(own.shape.word_of_fields(fields, from), next.0)
                }
                AnyTree::UniqueDouble(tree) => {
                    tree.insert(own.shape.double_of_fields(fields, from), next.0)
                }
                _ => return Ok(false),
            }
        };
        match added {
            Err(existing) => self.count_again(RowId(existing), undo),
            Ok(()) => self.add_group(columns, &source.layout.fields, from, undo),
        }
        Ok(true)
    }

    /// Adds 1 to the last column of a row.
    #[inline]
    fn count_again(&mut self, row: RowId, undo: &mut UndoLog) {
        let (slot_bytes, count) = (self.layout.slot_bytes, self.layout.fields.len() - 1);
        // SAFETY: rows of an index are live; the last field is a BIGINT within the slot.
        unsafe {
            let slot = self.blocks.slot(row);
            undo.push_update(self.id, row, std::slice::from_raw_parts(slot, slot_bytes), &[]);
            let at = slot.add(self.layout.fields[count].offset as usize).cast::<i64>();
            at.write_unaligned(at.read_unaligned().wrapping_add(1));
        }
    }

    /// Makes the row of a group whose entry is in the index already.
    #[inline]
    fn add_group(
        &mut self,
        columns: &[u16],
        fields: &[Field],
        from: *const u8,
        undo: &mut UndoLog,
    ) {
        let (row, fresh) = self.blocks.take().expect("`next` showed that there is a slot");
        // SAFETY: the slot was taken; source and target fields have the same kinds and widths.
        unsafe {
            let slot = self.blocks.slot(row);
            for (place, column) in columns.iter().enumerate() {
                let [to, behind] = [place, place + 1].map(|at| self.layout.fields[at].offset);
                let source = from.add(fields[usize::from(*column)].offset as usize);
                let target = slot.add(to as usize);
                match behind - to {
                    8 => {
                        target.cast::<u64>().write_unaligned(source.cast::<u64>().read_unaligned())
                    }
                    bytes => source.copy_to_nonoverlapping(target, bytes as usize),
                }
            }
            let count = self.layout.fields[columns.len()].offset as usize;
            slot.add(count).cast::<i64>().write_unaligned(1);
        }
        self.blocks.publish(row);
        undo.push_insert(self.id, row, fresh);
    }
}

/// Whether the fields of a group are those that the key is made of, and of the source's kinds.
#[inline]
fn same_fields(group: &[Field], shape: &KeyShape, columns: &[u16], source: &[Field]) -> bool {
    group.iter().zip(&shape.parts).zip(columns).all(|((own, part), column)| {
        let Some(given) = source.get(usize::from(*column)) else { return false };
        part.field.is_some_and(|field| field.offset == own.offset)
            && own.kind == given.kind
            && own.max_bytes == given.max_bytes
            && (own.nullable || !given.nullable)
            && !own.kind.is_heap()
    })
}
