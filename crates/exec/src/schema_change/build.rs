//! Entries of a new global index for the rows that its table has already: collected at each
//! partition in bounded parts, and put into the table of the entries where they belong, before
//! that table is in force.

use super::{PreparedChange, exchange};
use crate::change::{EntryChanges, PartitionEntries, TableState, Writer, collect_entry};
use crate::database::{Database, no_such_table};
use crate::error::SqlError;
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_storage::{RowId, UndoLog};
use lockstep_types::{Datum, TableId};
use std::sync::Arc;

/// Bytes of entries that a partition hands out at a time, a row more or less.
const PART_BYTES: usize = 1 << 20;

/// A global index that is built.
pub(super) struct Build {
    table: TableId,
    index: Arc<GlobalIndexDefinition>,
    /// The table's rows when the build began, and how many of them were read.
    rows: Option<Vec<RowId>>,
    read: usize,
}

impl Build {
    pub(super) fn new(table: TableId, index: &Arc<GlobalIndexDefinition>) -> Build {
        Build { table, index: Arc::clone(index), rows: None, read: 0 }
    }
}

impl Database {
    /// Carries out a part of building the global indexes of the prepared change: entries that
    /// live here are added; the next entries of rows that live here are handed out. Nothing is
    /// handed out once all rows were read.
    ///
    /// # Errors
    /// Two rows have one key of a unique index. The change cannot be committed then.
    pub fn build_entries(
        &mut self,
        added: &[PartitionEntries],
    ) -> Result<Vec<PartitionEntries>, SqlError> {
        let mut prepared = self.change.take().expect("entries are built in a schema change");
        let result =
            self.add_built(&mut prepared, added).and_then(|()| self.next_part(&mut prepared));
        self.change = Some(prepared);
        result
    }

    fn add_built(
        &mut self,
        prepared: &mut PreparedChange,
        added: &[PartitionEntries],
    ) -> Result<(), SqlError> {
        if added.is_empty() {
            return Ok(());
        }
        let mut states: Vec<Option<TableState>> = Vec::new();
        for build in &prepared.builds {
            let id = build.index.entries;
            let definition = prepared.replacements.get(&id).and_then(|new| new.definition.clone());
            if states.len() <= id.index() {
                states.resize_with(id.index() + 1, || None);
            }
            states[id.index()] = definition.map(TableState::new);
        }
        self.begin_statement();
        let mut undo = UndoLog::new(u64::MAX);
        exchange(&mut self.tables, prepared);
        let mut writer = Writer {
            watch: &self.watch,
            tables: &mut self.tables,
            states: &states,
            undo: &mut undo,
            arena: &self.arena,
            options: &self.options,
            transaction: &self.transaction,
            owned_value: &mut self.owned_value,
            entries: &mut self.entries,
        };
        let done = added
            .iter()
            .try_for_each(|entries| writer.apply_entries(&entries.removed, &entries.added));
        undo.release_all(&mut self.tables);
        exchange(&mut self.tables, prepared);
        done
    }

    fn next_part(
        &mut self,
        prepared: &mut PreparedChange,
    ) -> Result<Vec<PartitionEntries>, SqlError> {
        let mut builds = std::mem::take(&mut prepared.builds);
        let mut changes = EntryChanges::default();
        let mut options = self.options.clone();
        // A part is bounded here, and one entry is never too much.
        options.entry_changes_limit_bytes = usize::MAX;
        let mut collect = || -> Result<(), SqlError> {
            for build in &mut builds {
                let definition = match prepared.replacements.get(&build.table) {
                    Some(replacement) => replacement.definition.as_ref(),
                    None => self.definition(build.table),
                };
                let table = self.current(build.table, prepared);
                let (Some(definition), Some(table)) = (definition, table) else {
                    return Err(no_such_table(build.table));
                };
                let rows = build.rows.get_or_insert_with(|| {
                    let mut rows = Vec::new();
                    table.collect_rows(&mut rows);
                    rows
                });
                while build.read < rows.len() && changes.byte_count() < PART_BYTES {
                    let row = table.row(rows[build.read]);
                    let row = row.expect("a schema change stops the partition: no row goes");
                    let held = build.index.columns.iter();
                    let entry: Vec<Datum<'_>> =
                        held.map(|column| row.column(usize::from(*column))).collect();
                    collect_entry(&mut changes, &options, definition, &build.index, &entry, true)?;
                    build.read += 1;
                }
            }
            Ok(())
        };
        let collected = collect();
        prepared.builds = builds;
        collected.map(|()| changes.take())
    }
}
