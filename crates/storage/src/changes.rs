//! What a transaction did to the rows, told from its undo: for those whose effects are logged.

use crate::row::{RowId, RowRef};
use crate::tables::Tables;
use crate::undo::{UndoKind, UndoLog, UndoMark, UndoRecord};
use lockstep_types::TableId;
use std::collections::BTreeMap;

/// A change of a table, as it was made.
pub enum RowChange<'a> {
    /// A row came into a slot.
    Insert(RowId, RowRef<'a>),
    /// A row was changed: what it was, and what it is then.
    Update(RowId, RowRef<'a>, RowRef<'a>),
    /// A row went.
    Delete(RowId),
    /// All rows went at once.
    Truncate,
}

impl UndoLog {
    /// The changes since a mark, in their order: who makes them again, from what was before them,
    /// has the same rows in the same slots. What was done to a table before it was emptied is
    /// left out.
    pub fn each_change(
        &self,
        mark: UndoMark,
        tables: &Tables,
        mut visit: impl FnMut(TableId, RowChange<'_>),
    ) {
        let records = self.records_since(mark);
        let mut end = self.held_bytes().len();
        let mut place = vec![(0, 0); records.len()];
        // Backwards: where the bytes of each record are, and what its row is after it, if a later
        // record has that.
        let mut next: BTreeMap<(TableId, RowId), usize> = BTreeMap::new();
        let mut behind: Vec<Option<usize>> = vec![None; records.len()];
        let mut emptied: BTreeMap<TableId, usize> = BTreeMap::new();
        for (number, record) in records.iter().enumerate().rev() {
            let start = end - record.bytes as usize;
            place[number] = (start, end);
            end = start;
            match record.kind {
                UndoKind::Truncate => {
                    emptied.entry(record.table).or_insert(number);
                }
                UndoKind::Cover => {}
                _ => behind[number] = next.insert((record.table, record.row), number),
            }
        }
        for (number, record) in records.iter().enumerate() {
            let UndoRecord { table: id, row, .. } = *record;
            let is_void = emptied.get(&id).is_some_and(|last| number < *last);
            let Some(table) = tables.get(id).filter(|_| !is_void) else { continue };
            let old = |number: usize| {
                let (start, end) = place[number];
                let bytes = &self.held_bytes()[start..end];
                assert_eq!(bytes.len(), table.layout().slot_bytes, "undo holds whole slots");
                // SAFETY: the bytes are a slot of this table as it was; its strings stay in the
                // heap until the record is released, and nothing is released while `self` is
                // borrowed.
                unsafe { RowRef::new(bytes.as_ptr(), &table.layout().fields) }
            };
            let now = || match behind[number] {
                Some(later) => old(later),
                None => table.row(row).expect("no later record took the row away"),
            };
            match record.kind {
                UndoKind::InsertFresh | UndoKind::InsertReused => {
                    visit(id, RowChange::Insert(row, now()));
                }
                UndoKind::Update => visit(id, RowChange::Update(row, old(number), now())),
                UndoKind::Delete => visit(id, RowChange::Delete(row)),
                UndoKind::Truncate => visit(id, RowChange::Truncate),
                UndoKind::Cover => {}
            }
        }
    }
}
