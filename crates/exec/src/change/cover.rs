//! A step of building a global index while its table is written: the next rows are covered, and
//! their entries collected, to be added where they live. From then on changes of these rows
//! change their entries; changes of rows after them do not, they are met later as they are then.

use super::{Writer, collect_entry};
use crate::database::{no_such_table, storage_fault};
use crate::error::SqlError;
use lockstep_plan_ir::statement::Cover;
use lockstep_storage::RowId;
use lockstep_types::Datum;

/// Bytes of entries after which a step ends, a row more or less.
const STEP_BYTES: usize = 1 << 20;

impl Writer<'_> {
    /// Covers the next rows of a table; gives their number, which is 0 when none are left.
    pub(super) fn cover(&mut self, cover: &Cover) -> Result<u64, SqlError> {
        let state = self.state(cover.table)?;
        let definition = &*state.definition;
        let Some(table) = self.tables.get(cover.table) else {
            return Err(no_such_table(cover.table));
        };
        let Some(mut next) = table.uncovered_from() else { return Ok(0) };
        let bytes_before = self.entries.byte_count();
        let mut count = 0;
        let to = loop {
            let Some((row, values)) = table.live_from(next) else { break None };
            let step_bytes = self.entries.byte_count() - bytes_before;
            if count >= u64::from(cover.rows) || step_bytes >= STEP_BYTES {
                break Some(row);
            }
            for index in definition.global_indexes.iter().filter(|index| index.building) {
                let entry: Vec<Datum<'_>> =
                    index.columns.iter().map(|held| values.column(usize::from(*held))).collect();
                collect_entry(self.entries, self.options, definition, index, &entry, true)?;
            }
            next = RowId(row.0 + 1);
            count += 1;
        };
        let table = self.tables.get_mut(cover.table).expect("it was read right above");
        table.cover_to(to, self.undo).map_err(storage_fault)?;
        Ok(count)
    }
}
