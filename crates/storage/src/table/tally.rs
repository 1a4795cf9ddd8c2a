//! Counting a row of one table into a table of groups, as views that count do: one search of the
//! group's index finds the group or makes its entry, and fields go from slot to slot as bytes.

use super::Table;
use crate::error::StorageError;
use crate::index::AnyTree;
use crate::key::{KeyPart, ordered_at};
use crate::layout::{Field, FieldKind};
use crate::row::RowId;
use crate::undo::UndoLog;
use std::sync::Arc;

/// How rows of one table are counted in another, worked out once: it holds for as long as both
/// tables have the layouts and the target the index that it was made for.
#[derive(Debug, Clone)]
pub struct Tally {
    source: Arc<[Field]>,
    target: Arc<[Field]>,
    key: Arc<[KeyPart]>,
    columns: Box<[TallyColumn]>,
    /// Where the count lies in a target slot.
    count_offset: u32,
}

/// A column of the group.
#[derive(Debug, Clone, Copy)]
struct TallyColumn {
    kind: FieldKind,
    /// Offsets in a source and a target slot.
    from: u32,
    to: u32,
    slot_bytes: u32,
    key_bytes: u32,
}

impl Tally {
    /// The tally of groups by `columns` of `source`, which are the first columns of `target`,
    /// with the count after them. `None` when the tables are not that simple: the target has
    /// other indexes than one on the group, long text, fields that differ.
    pub fn new(source: &Table, target: &Table, columns: &[u16]) -> Option<Tally> {
        let [index] = &*target.indexes else { return None };
        let (count, group) = target.layout.fields.split_last()?;
        let simple = group.len() == columns.len()
            && index.shape.parts.len() == columns.len()
            && count.kind == FieldKind::BigInt
            && target.column_indexes[columns.len()] == 0
            && matches!(index.tree, AnyTree::UniqueWord(_) | AnyTree::UniqueDouble(_));
        if !simple {
            return None;
        }
        let tallied = |(place, column): (usize, &u16)| {
            let (own, part) = (group.get(place)?, index.shape.parts.get(place)?);
            let given = source.layout.fields.get(usize::from(*column))?;
            let same = part.field.is_some_and(|field| field.offset == own.offset)
                && own.kind == given.kind
                && own.max_bytes == given.max_bytes
                && (own.nullable || !given.nullable)
                && !own.kind.is_tail();
            same.then_some(TallyColumn {
                kind: own.kind,
                from: given.offset,
                to: own.offset,
                slot_bytes: target.layout.fields.get(place + 1)?.offset - own.offset,
                key_bytes: part.width,
            })
        };
        let mut places = columns.iter().enumerate();
        // First without memory: for views that are not so simple this happens with each row.
        if !places.clone().all(|place| tallied(place).is_some()) {
            return None;
        }
        Some(Tally {
            columns: places.by_ref().filter_map(tallied).collect(),
            source: Arc::clone(&source.layout.fields),
            target: Arc::clone(&target.layout.fields),
            key: Arc::clone(&index.shape.parts),
            count_offset: count.offset,
        })
    }
}

impl Table {
    /// Adds 1 to the count of the group that a row of `source` belongs to, or inserts the group
    /// with a count of 1. False, with nothing changed, when the tally is not, or no longer, that
    /// of these tables, or the row is not live.
    ///
    /// # Errors
    /// `UndoLimit`.
    #[inline(always)]
    pub fn count_in(
        &mut self,
        tally: &Tally,
        (source, row): (&Table, RowId),
        undo: &mut UndoLog,
    ) -> Result<bool, StorageError> {
        let [index] = &mut *self.indexes else { return Ok(false) };
        let holds = Arc::ptr_eq(&tally.source, &source.layout.fields)
            && Arc::ptr_eq(&tally.target, &self.layout.fields)
            && Arc::ptr_eq(&tally.key, &index.shape.parts);
        let Some(next) = self.blocks.next() else { return Ok(false) };
        if !holds || !source.blocks.is_live(row) {
            return Ok(false);
        }
        undo.check_room()?;
        // SAFETY: the source row is live, and of the layout that the tally was made for.
        let from = unsafe { source.blocks.slot(row) };
        // SAFETY: the tally's columns lie within a slot of that layout.
        let part = |column: &TallyColumn| unsafe {
            ordered_at(column.kind, column.key_bytes, from.add(column.from as usize))
        };
        let added = match &mut index.tree {
            AnyTree::UniqueWord(tree) => {
                let parts = tally.columns.iter();
                let shift = |column: &TallyColumn| column.key_bytes * 8;
                let key = parts.fold(0u64, |key, column| {
                    key.unbounded_shl(shift(column)) | part(column) as u64
                });
                tree.insert_expected(key, next.0)
            }
            AnyTree::UniqueDouble(tree) => {
                let mut key = 0u128;
                for column in &tally.columns {
                    key = key.unbounded_shl(column.key_bytes * 8) | part(column);
                }
                tree.insert(key, next.0)
            }
            _ => return Ok(false),
        };
        match added {
            Err(existing) => self.count_again(RowId(existing), tally, undo),
            Ok(()) => self.add_group(tally, from, undo),
        }
        Ok(true)
    }

    /// Adds 1 to the count of a row.
    #[inline(always)]
    fn count_again(&mut self, row: RowId, tally: &Tally, undo: &mut UndoLog) {
        // SAFETY: rows of an index are live; the count is a BIGINT within the slot.
        unsafe {
            let slot = self.blocks.slot(row);
            debug_assert!(self.blocks.is_live(row), "rows of an index are live");
            let before = std::slice::from_raw_parts(slot, self.layout.slot_bytes);
            undo.push_update(self.id, row, before, false);
            self.blocks.about_to_change(row);
            let at = slot.add(tally.count_offset as usize).cast::<i64>();
            at.write_unaligned(at.read_unaligned().wrapping_add(1));
        }
    }

    /// Makes the row of a group whose entry is in the index already.
    #[inline(always)]
    fn add_group(&mut self, tally: &Tally, from: *const u8, undo: &mut UndoLog) {
        let (row, fresh) = self.blocks.take().expect("`next` showed that there is a slot");
        // SAFETY: the slot was taken; source and target fields have the same kinds and widths.
        unsafe {
            let slot = self.blocks.slot(row);
            for column in &tally.columns {
                let source = from.add(column.from as usize);
                let target = slot.add(column.to as usize);
                if column.slot_bytes == 8 {
                    target.cast::<u64>().write_unaligned(source.cast::<u64>().read_unaligned());
                } else {
                    source.copy_to_nonoverlapping(target, column.slot_bytes as usize);
                }
            }
            slot.add(tally.count_offset as usize).cast::<i64>().write_unaligned(1);
        }
        self.blocks.publish(row);
        debug_assert!(self.indexes_hold_all_rows(), "a group and its entry come together");
        undo.push_insert(self.id, row, fresh);
    }
}
