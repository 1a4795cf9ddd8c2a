//! A check of the log against the tables whose changes it holds, for tests and the simulator.

use super::{UndoKind, UndoLog};
use crate::row::RowId;
use crate::table::Table;
use crate::tables::Tables;
use lockstep_types::TableId;
use std::collections::{BTreeMap, BTreeSet};

impl UndoLog {
    /// Checks that the newest record of each row fits what the table has: what was inserted or
    /// updated is live, what was deleted is not; the newest slot that was taken or freed is the
    /// next to be given back. The memory for texts of each table is that of its live rows, of what
    /// can be undone, and of what a snapshot keeps. Visits all records and rows.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub fn check_against(&self, tables: &Tables) -> Result<(), String> {
        let mut held: BTreeMap<TableId, usize> = BTreeMap::new();
        let mut rows: BTreeSet<(TableId, RowId)> = BTreeSet::new();
        let (mut emptied, mut slots) = (BTreeSet::new(), BTreeSet::new());
        let (mut truncated, mut end) = (self.truncated.iter().rev(), self.bytes.len());
        for record in self.records[self.released_records..].iter().rev() {
            let start = end - record.bytes as usize;
            let bytes = &self.bytes[start..end];
            end = start;
            let id = record.table;
            let Some(table) = tables.get(id) else {
                return Err(format!("there is no table {id}, of which a change can be undone"));
            };
            if record.kind == UndoKind::Truncate {
                let state = truncated.next().ok_or("a truncation without what it replaced")?;
                *held.entry(id).or_default() += table.tail_bytes_of(state);
                emptied.insert(id);
                continue;
            }
            if record.holds_strings {
                *held.entry(id).or_default() += table.tail_bytes_in(bytes);
            }
            if emptied.contains(&id) || record.kind == UndoKind::Cover {
                continue;
            }
            if rows.insert((id, record.row))
                && table.is_live(record.row) != (record.kind != UndoKind::Delete)
            {
                let (name, row, kind) = (table.name(), record.row, record.kind);
                return Err(format!("table {name}: row {row} does not fit its undo, {kind:?}"));
            }
            if record.kind != UndoKind::Update && slots.insert(id) {
                table.check_newest_slot(record.row, record.kind)?;
            }
        }
        tables
            .iter()
            .try_for_each(|(id, table)| table.check_tail_bytes(held.get(&id).copied().unwrap_or(0)))
    }
}

impl Table {
    /// Checks that a slot is the one that the newest change of this kind took or freed.
    fn check_newest_slot(&self, row: RowId, kind: UndoKind) -> Result<(), String> {
        let fits = match kind {
            UndoKind::InsertFresh => self.row_id_bound() == row.0 + 1,
            UndoKind::Delete => self.free_head() == row.0,
            _ => true,
        };
        match fits {
            true => Ok(()),
            false => Err(format!("table {}: slot {row} is not the newest, {kind:?}", self.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnLayout, TableLayout};
    use lockstep_types::{Datum, SqlType};

    #[test]
    fn undo_that_does_not_fit_its_table_is_found() {
        let text = ColumnLayout { max_bytes: 100, ..ColumnLayout::fixed(SqlType::Varchar) };
        let layout = TableLayout::new(&[ColumnLayout::fixed(SqlType::BigInt), text]);
        let (mut tables, mut undo) = (Tables::new(), UndoLog::default());
        let id = tables.add(Table::new("T", layout.expect("a legal layout")));
        let values = [Datum::Int(1), Datum::Text("a text that is longer than a slot has")];
        let row = tables[id].insert(&values, &mut undo).expect("it fits");
        undo.release_all(&mut tables);
        tables[id].delete(row, &mut undo).expect("the row is live");
        assert_eq!(undo.check_against(&tables), Ok(()));
        undo.push_insert(id, row, false);
        let found = undo.check_against(&tables).expect_err("the row is not live");
        assert_eq!(found, "table T: row 0 does not fit its undo, InsertReused");
        // Without its undo, the text of the deleted row is memory that nobody frees.
        let found = UndoLog::default().check_against(&tables).expect_err("a lost text");
        assert_eq!(found, "table T: 37 bytes of texts, 0 in rows, 0 kept, 0 in undo");
    }
}
