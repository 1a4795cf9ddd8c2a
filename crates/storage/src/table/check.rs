//! A check of everything a table relies on, for tests and the simulator.

use super::Table;
use crate::index::Index;
use crate::row::{RowId, RowRef};
use lockstep_types::IndexId;
use std::cmp::Ordering;
use std::ops::Bound;

impl Table {
    /// Checks that slots are either live or free, each once, and that each index holds the rows
    /// it should, in order. Visits everything.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut free = 0u64;
        for row in self.blocks.free_list() {
            free += 1;
            if self.blocks.is_live(row)
                || row.0 >= self.blocks.fresh()
                || free > u64::from(u32::MAX)
            {
                return Err(format!("table {}: free slot {row} is live or unused", self.name));
            }
        }
        let (live, used) = (self.row_count(), u64::from(self.blocks.fresh()));
        let scanned = self.scan().count() as u64;
        if scanned != live || live + free != used {
            return Err(format!(
                "table {}: {scanned} rows scanned, {live} live, {free} free, {used} slots used",
                self.name
            ));
        }
        for (position, index) in self.indexes.iter().enumerate() {
            self.check_index(IndexId(position as u16), index)?;
        }
        Ok(())
    }

    fn check_index(&self, position: IndexId, index: &Index) -> Result<(), String> {
        let wrong =
            |what: String| Err(format!("table {}: index {}: {what}", self.name, index.name()));
        let entries = index.entries();
        let all = self.range(position, Bound::Unbounded, Bound::Unbounded, false);
        let mut cursor = all.map_err(|error| error.to_string())?;
        let mut previous: Option<(RowId, RowRef<'_>)> = None;
        let mut met = 0u64;
        while let Some(id) = cursor.next_id() {
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
