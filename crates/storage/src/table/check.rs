//! A check of everything a table relies on, for tests and the simulator.

use super::{Table, TruncatedState};
use crate::blocks::BlockStore;
use crate::index::{AnyTree, Index, each_tree};
use crate::row::{RowId, RowRef};
use lockstep_types::IndexId;
use std::cmp::Ordering;
use std::ops::Bound;

impl Table {
    /// Checks that slots are either live or free, each once, that each index holds the rows it
    /// should, in order, and the memory of both. Visits everything.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: String| format!("table {}: {what}", self.name);
        self.blocks.check().map_err(wrong)?;
        self.heap.check().map_err(wrong)?;
        let (live, scanned) = (self.row_count(), self.scan().count() as u64);
        if scanned != live {
            return Err(wrong(format!("{scanned} rows scanned, {live} live")));
        }
        for (position, index) in self.indexes.iter().enumerate() {
            self.check_index(IndexId(position as u16), index)?;
        }
        Ok(())
    }

    /// The head of the free list, or `u32::MAX`.
    pub(crate) fn free_head(&self) -> u32 {
        self.blocks.free_head()
    }

    /// Checks that the memory for texts is that of the live rows, of what a snapshot keeps, and
    /// `held` bytes of what can be undone.
    pub(crate) fn check_tail_bytes(&self, held: usize) -> Result<(), String> {
        let kept = self.emptied.as_ref().map_or(0, |state| self.tail_bytes_of(state));
        let (live, used) = (self.live_tail_bytes(&self.blocks), self.heap.used_bytes());
        match live + kept + held == used {
            true => Ok(()),
            false => Err(format!(
                "table {}: {used} bytes of texts, {live} in rows, {kept} kept, {held} in undo",
                self.name
            )),
        }
    }

    /// Bytes of texts of what the table held before it was emptied.
    pub(crate) fn tail_bytes_of(&self, state: &TruncatedState) -> usize {
        self.live_tail_bytes(&state.blocks)
    }

    /// Bytes of texts of a row of this table, whose slot undo has.
    pub(crate) fn tail_bytes_in(&self, slot: &[u8]) -> usize {
        assert_eq!(slot.len(), self.layout.slot_bytes, "undo holds whole slots");
        // SAFETY: the bytes are a slot of this layout; only its ends are read.
        unsafe { self.layout.tail(slot.as_ptr()) }.map_or(0, |(_, length)| length)
    }

    fn live_tail_bytes(&self, blocks: &BlockStore) -> usize {
        let rows = std::iter::successors(blocks.next_live(0), |row| blocks.next_live(row.0 + 1));
        // SAFETY: the rows are live, and of this layout.
        let tail = |row| unsafe { self.layout.tail(blocks.slot(row)) };
        rows.filter_map(tail).map(|(_, length)| length).sum()
    }

    fn check_index(&self, position: IndexId, index: &Index) -> Result<(), String> {
        let wrong =
            |what: String| Err(format!("table {}: index {}: {what}", self.name, index.name()));
        let entries = index.entries();
        let rows = each_tree!(&index.tree, tree => tree.check());
        let rows = rows.or_else(|what| wrong(what).map(|()| Vec::new()))?;
        let all = self.range(position, Bound::Unbounded, Bound::Unbounded, false);
        let mut cursor = all.map_err(|error| error.to_string())?;
        let mut previous: Option<(RowId, RowRef<'_>)> = None;
        let mut met = 0u64;
        while let Some(id) = cursor.next_id() {
            if rows.get(met as usize) != Some(&id.0) {
                return wrong(format!("a scan meets row {id} at position {met}"));
            }
            met += 1;
            let Some(row) = self.row(id) else {
                return wrong(format!("row {id} is not live"));
            };
            if let (Some(columns), Some((before_id, before))) = (index.columns(), previous) {
                let order = compare(before, row, columns);
                let later = order.is_lt() || order.is_eq() && !index.is_unique() && before_id < id;
                if !later {
                    return wrong(format!("row {before_id} stands before row {id}"));
                }
            }
            previous = Some((id, row));
        }
        let expected = match index.is_covering() {
            true => self.scan().filter(|(row, _)| self.is_covered(*row)).count() as u64,
            false => self.row_count(),
        };
        let complete = index.columns().is_none() || entries == expected;
        if met != entries || !complete || entries > self.row_count() {
            let rows = self.row_count();
            return wrong(format!("{met} entries met, {entries} counted, {rows} rows"));
        }
        Ok(())
    }
}

fn compare(a: RowRef<'_>, b: RowRef<'_>, columns: &[usize]) -> Ordering {
    let order = |column: &usize| a.column(*column).sort_order(b.column(*column));
    columns.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
