//! Snapshots of a site's data, and data made of one: see [`lockstep_storage::RowsRecord`].

use crate::change::{ViewPlan, fill_view};
use crate::database::Database;
use crate::error::SqlError;
use crate::schema_change::new_table;
use lockstep_plan_ir::TableDefinition;
pub use lockstep_storage::{ColumnLayout, SnapshotProgress, SnapshotTable};
use lockstep_storage::{RowsRecord, StorageError, TableLayout, TableRestore, UndoLog};
use lockstep_types::{Datum, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Database {
    /// Begins a snapshot of the tables that `choose` names as they are now; between transactions
    /// only. One that runs is given up. Records are about `record_bytes` long.
    ///
    /// Views, and the tables of global indexes' entries, are tables like others: saved with their
    /// rows, so that sums and extremes are exactly those that were.
    pub fn begin_snapshot(
        &mut self,
        record_bytes: usize,
        choose: impl Fn(TableId) -> bool,
    ) -> Vec<SnapshotTable> {
        assert!(self.undo.is_empty(), "a snapshot begins when nothing can be undone");
        self.tables.begin_snapshot(record_bytes, choose)
    }

    /// Whether a snapshot runs.
    #[inline]
    pub fn has_snapshot(&self) -> bool {
        self.tables.has_snapshot()
    }

    /// Appends records to `out`: see [`lockstep_storage::Tables::snapshot_step`].
    pub fn snapshot_step(&mut self, out: &mut Vec<u8>, budget_bytes: usize) -> SnapshotProgress {
        self.tables.snapshot_step(out, budget_bytes)
    }

    /// Bytes that changes have forced out and no step has taken yet.
    pub fn snapshot_waiting_bytes(&self) -> usize {
        self.tables.snapshot_waiting_bytes()
    }

    /// Gives up a snapshot, if one runs.
    pub fn end_snapshot(&mut self) {
        self.tables.end_snapshot();
    }
}

/// A table of a snapshot, whose rows come in records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedTable {
    /// Its number in the records.
    pub number: TableId,
    /// Its name.
    pub name: String,
    /// Slots that were ever used.
    pub used_slots: u32,
    /// The head of the free list.
    pub free_head: u32,
    /// Its columns.
    pub columns: Vec<ColumnLayout>,
}

/// Why records cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreFault {
    /// A record is damaged; where it begins among those that were given.
    Record(usize, String),
    /// The schema has other tables, or the rows break its constraints.
    Schema(String),
}

/// The tables of one partition as they are made of a snapshot of the same partition: the same
/// rows in the same slots, indexes built again. Views and entries of global indexes come from the
/// snapshot, like all other tables.
pub struct DatabaseRestore {
    tables: BTreeMap<TableId, (TableId, TableRestore)>,
}

impl DatabaseRestore {
    /// Begins. The tables are those of the catalog in force, by their names.
    ///
    /// # Errors
    /// A table is not in the catalog, has other columns there, or has rows.
    pub fn new(database: &Database, saved: &[SavedTable]) -> Result<Self, RestoreFault> {
        let mut tables = BTreeMap::new();
        for table in saved {
            let definition = restored_definition(database, table)?;
            if database.tables[definition.id].row_count() > 0 && definition.view.is_none() {
                return Err(schema_fault(table, &"it has rows already"));
            }
            let empty = new_table(&definition).map_err(|error| schema_fault(table, &error))?;
            let restore = TableRestore::new(empty, table.used_slots, table.free_head)
                .map_err(|error| schema_fault(table, &error))?;
            tables.insert(table.number, (definition.id, restore));
        }
        Ok(DatabaseRestore { tables })
    }

    /// Takes records in; gives how many rows they had.
    ///
    /// # Errors
    /// A record is damaged.
    pub fn add(&mut self, records: &[u8]) -> Result<u64, RestoreFault> {
        let (mut input, mut rows) = (records, 0);
        loop {
            let at = records.len() - input.len();
            let fault = |error: StorageError| RestoreFault::Record(at, error.to_string());
            let Some(record) = RowsRecord::take(&mut input).map_err(fault)? else { break };
            let Some((_, table)) = self.tables.get_mut(&record.table) else {
                return Err(RestoreFault::Record(at, format!("it is of no table: {record:?}")));
            };
            table.add(&record).map_err(fault)?;
            rows += u64::from(record.row_count());
        }
        Ok(rows)
    }

    /// Puts the tables in place.
    ///
    /// # Errors
    /// Records are missing, or rows break a unique index. The database is then as it was.
    pub fn finish(self, database: &mut Database) -> Result<(), RestoreFault> {
        let finish = |(id, table): (TableId, TableRestore)| Ok((id, table.finish()?));
        let tables: Vec<_> = self
            .tables
            .into_values()
            .map(finish)
            .collect::<Result<_, StorageError>>()
            .map_err(|error| RestoreFault::Schema(error.to_string()))?;
        for (id, table) in tables {
            database.tables.set(id, table);
        }
        Ok(())
    }
}

/// The tables of one partition as they are made of a snapshot of another number of partitions:
/// each partition reads the files of all, and keeps what is its own. Views are computed again.
pub struct DatabaseRehash {
    tables: BTreeMap<TableId, RehashedTable>,
    is_first: bool,
}

struct RehashedTable {
    definition: Arc<TableDefinition>,
    layout: TableLayout,
}

impl DatabaseRehash {
    /// Begins with the file of the first partition.
    ///
    /// # Errors
    /// A table is not in the catalog, has other columns there, or has rows.
    pub fn new(database: &Database, saved: &[SavedTable]) -> Result<Self, RestoreFault> {
        let first = Self::behind_others(database, saved)?;
        for table in first.tables.values().filter(|table| table.definition.view.is_none()) {
            if database.tables[table.definition.id].row_count() > 0 {
                let name = &table.definition.name;
                return Err(RestoreFault::Schema(format!("table {name} has rows already")));
            }
        }
        Ok(DatabaseRehash { is_first: true, ..first })
    }

    /// Begins with the file of another partition, after those before it.
    ///
    /// # Errors
    /// A table is not in the catalog, or has other columns there.
    pub fn behind_others(database: &Database, saved: &[SavedTable]) -> Result<Self, RestoreFault> {
        let mut tables = BTreeMap::new();
        for table in saved {
            let definition = restored_definition(database, table)?;
            let layout = TableLayout::new(&table.columns)
                .map_err(|error| RestoreFault::Schema(error.to_string()))?;
            tables.insert(table.number, RehashedTable { definition, layout });
        }
        Ok(DatabaseRehash { tables, is_first: false })
    }

    /// Takes those rows of records that belong to this partition; of replicated tables only those
    /// that the first file had. Gives how many rows it took.
    ///
    /// # Errors
    /// A record is damaged, or a row breaks a unique index.
    pub fn add(&self, database: &mut Database, records: &[u8]) -> Result<u64, RestoreFault> {
        let (mut input, mut rows) = (records, 0);
        loop {
            let at = records.len() - input.len();
            let fault = |error: StorageError| RestoreFault::Record(at, error.to_string());
            let Some(record) = RowsRecord::take(&mut input).map_err(fault)? else { break };
            let Some(table) = self.tables.get(&record.table) else {
                return Err(RestoreFault::Record(at, format!("it is of no table: {record:?}")));
            };
            let definition = &*table.definition;
            let skipped = definition.is_replicated() && !self.is_first;
            if skipped || definition.view.is_some() {
                continue;
            }
            rows += insert_own(database, table, &record).map_err(fault)?;
        }
        Ok(rows)
    }
}

/// Inserts the rows of a record that belong to this partition.
fn insert_own(
    database: &mut Database,
    table: &RehashedTable,
    record: &RowsRecord<'_>,
) -> Result<u64, StorageError> {
    let RehashedTable { definition, layout } = table;
    let (ring, partition) = (Arc::clone(&database.options.ring), database.options.partition);
    let places = &definition.partition_columns;
    let target = &mut database.tables[definition.id];
    let mut undo = UndoLog::new(u64::MAX);
    let mut rows = 0;
    record.read_rows(layout, &definition.name, |_, row| {
        let place = places.iter().map(|column| row.column(usize::from(*column)));
        if !places.is_empty() && ring.partition_of_values(place) != partition {
            return Ok(());
        }
        let values: Vec<Datum<'_>> = row.columns().collect();
        target.insert(&values, &mut undo)?;
        rows += 1;
        Ok::<(), StorageError>(())
    })?;
    undo.release_all(&mut database.tables);
    Ok(rows)
}

impl Database {
    /// Computes all views again, over tables that were loaded without them.
    ///
    /// # Errors
    /// A view's values do not fit its columns.
    pub fn fill_all_views(&mut self) -> Result<(), SqlError> {
        self.begin_statement();
        let views: Vec<(Arc<TableDefinition>, ViewPlan)> = self
            .states
            .iter()
            .flatten()
            .filter_map(|state| {
                let view = state.definition.view.clone()?;
                Some((Arc::clone(&state.definition), ViewPlan::new(view)))
            })
            .collect();
        for (definition, _) in &views {
            self.tables.set(definition.id, new_table(definition)?);
        }
        let filled = {
            let (mut writer, _) = self.writer();
            views.iter().try_for_each(|(_, view)| fill_view(&mut writer, view))
        };
        match filled {
            Ok(()) => self.undo.release_all(&mut self.tables),
            Err(_) => self.rollback(),
        }
        filled
    }
}

fn schema_fault(table: &SavedTable, error: &dyn std::fmt::Display) -> RestoreFault {
    RestoreFault::Schema(format!("table {}: {error}", table.name))
}

/// The table of the catalog that a saved one is.
fn restored_definition(
    database: &Database,
    saved: &SavedTable,
) -> Result<Arc<TableDefinition>, RestoreFault> {
    let mut states = database.states.iter().flatten();
    let Some(state) = states.find(|state| state.definition.name == saved.name) else {
        return Err(schema_fault(saved, &"the schema has no such table"));
    };
    let table = &database.tables[state.definition.id];
    if table.layout().columns() != saved.columns {
        return Err(schema_fault(saved, &"its columns are not those of the schema"));
    }
    Ok(Arc::clone(&state.definition))
}
