//! What a site says of its tables, and checks over all of its data.

use crate::database::Database;
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_storage::{RowId, Table, TableMemory};
use lockstep_types::{Datum, IndexId, TableId, Value};
use std::ops::Bound;

/// Rows and memory of one table or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStatistics {
    /// Its number.
    pub table: TableId,
    /// Its name.
    pub name: String,
    /// Whether it is a materialized view.
    pub is_view: bool,
    /// Live rows.
    pub rows: u64,
    /// The greatest number of rows, if there is one.
    pub row_limit: Option<u32>,
    /// Memory of the rows; see there.
    pub memory: TableMemory,
    /// Its indexes.
    pub indexes: Vec<IndexStatistics>,
}

/// Entries and memory of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStatistics {
    /// Its name.
    pub name: String,
    /// Whether keys are unique.
    pub unique: bool,
    /// Entries.
    pub entries: u64,
    /// Bytes obtained from the system.
    pub allocated_bytes: usize,
}

impl Database {
    /// All tables and views, by number. A global index is among the indexes of its table here, with
    /// the entries that live at this partition.
    pub fn statistics(&self) -> Vec<TableStatistics> {
        let shown = self.tables.iter().filter(|(id, _)| !self.holds_entries(*id));
        shown
            .map(|(id, table)| {
                let definition = self.definition(id);
                let mut indexes = index_statistics(table);
                for index in definition.into_iter().flat_map(|table| &table.global_indexes) {
                    let own = index.local_index_name();
                    let own = indexes.iter().position(|local| local.name == own);
                    let own_bytes = own.map_or(0, |place| indexes.remove(place).allocated_bytes);
                    indexes.extend(self.global_index_statistics(index, own_bytes));
                }
                TableStatistics {
                    table: id,
                    name: table.name().to_string(),
                    is_view: definition.is_some_and(|definition| definition.view.is_some()),
                    rows: table.row_count(),
                    row_limit: definition.and_then(|definition| definition.row_limit),
                    memory: table.memory(),
                    indexes,
                }
            })
            .collect()
    }

    /// Memory of tables that no row is in, in bytes: the next rows of the same tables fill it.
    pub fn reusable_bytes(&self) -> usize {
        let reusable = |memory: TableMemory| {
            let used = memory.data_bytes + memory.string_used_bytes;
            memory.allocated_bytes().saturating_sub(used)
        };
        self.tables.iter().map(|(_, table)| reusable(table.memory())).sum()
    }

    fn holds_entries(&self, table: TableId) -> bool {
        self.definition(table).is_some_and(|table| table.entries_of.is_some())
    }

    /// `own_bytes` are those of the index from the key to the rows.
    fn global_index_statistics(
        &self,
        index: &GlobalIndexDefinition,
        own_bytes: usize,
    ) -> Option<IndexStatistics> {
        let entries = self.tables.get(index.entries)?;
        let trees = entries.indexes().iter().map(|tree| tree.allocated_bytes());
        Some(IndexStatistics {
            name: index.name.clone(),
            unique: index.unique,
            entries: entries.row_count(),
            allocated_bytes: own_bytes + entries.memory().allocated_bytes() + trees.sum::<usize>(),
        })
    }

    /// Rows of every table and view, by number.
    pub fn row_counts(&self) -> impl Iterator<Item = (TableId, u64)> {
        self.tables.iter().map(|(id, table)| (id, table.row_count()))
    }

    /// At most `count` rows of a table, evenly from the places where rows lie. Long texts and
    /// bytes are cut: a sample tells where values lie, not what they are.
    pub fn sample(&self, table: TableId, count: u32) -> Vec<Vec<Value>> {
        let Some(table) = self.tables.get(table) else { return Vec::new() };
        let (bound, count) = (u64::from(table.row_id_bound()), u64::from(count));
        let place = |number: u64| RowId((number * bound / count) as u32);
        (0..count.min(bound))
            .map(|number| if bound <= count { RowId(number as u32) } else { place(number) })
            .filter_map(|place| table.row(place))
            .map(|row| row.columns().map(cut).collect())
            .collect()
    }

    /// How many rows have a time in the first part of an index's key that is not later than this
    /// one, of which at most N are counted. None where there are no such table and index.
    pub fn rows_up_to(
        &self,
        table: TableId,
        index: IndexId,
        time_us: i64,
        rows_max: u64,
    ) -> Option<u64> {
        let upper = [Datum::Timestamp(time_us)];
        let (lower, upper) = (Bound::Excluded(&[Datum::Null][..]), Bound::Included(&upper[..]));
        let rows = self.tables.get(table)?.range(index, lower, upper, false).ok()?;
        Some(rows.take(rows_max as usize).count() as u64)
    }

    /// A hash of everything that replicas must agree on.
    pub fn content_hash(&self) -> u64 {
        self.table_hashes().fold(0, |hash, (id, table)| {
            let mut state = hash ^ u64::from(id.0) ^ table;
            lockstep_base::random::split_mix(&mut state)
        })
    }

    /// Such a hash of each table.
    pub fn table_hashes(&self) -> impl Iterator<Item = (TableId, u64)> {
        self.tables.iter().map(|(id, table)| (id, table.content_hash()))
    }

    /// Rows of partitioned tables that do not belong at this partition, per table that has any.
    /// Entries of global indexes count for the table of the rows.
    pub fn mispartitioned_rows(&self) -> Vec<(TableId, u64)> {
        let options = self.options();
        let mut found: Vec<(TableId, u64)> = Vec::new();
        for (id, table) in self.tables.iter() {
            let Some(definition) = self.definition(id).filter(|table| table.is_partitioned())
            else {
                continue;
            };
            let columns = &definition.partition_columns;
            let elsewhere = table.scan().filter(|(_, row)| {
                let places = columns.iter().map(|&column| row.column(column.into()));
                options.ring.partition_of_values(places) != options.partition
            });
            let shown = definition.entries_of.as_ref().map_or(id, |of| of.table);
            match (elsewhere.count() as u64, found.iter_mut().find(|(id, _)| *id == shown)) {
                (0, _) => {}
                (count, Some((_, sum))) => *sum += count,
                (count, None) => found.push((shown, count)),
            }
        }
        found
    }
}

/// The greatest length of a sampled value, in bytes.
const SAMPLED_BYTES: usize = 64;

fn cut(value: Datum<'_>) -> Value {
    match value {
        Datum::Text(text) if text.len() > SAMPLED_BYTES => {
            Datum::Text(&text[..text.floor_char_boundary(SAMPLED_BYTES)]).to_value()
        }
        Datum::Bytes(bytes) if bytes.len() > SAMPLED_BYTES => {
            Datum::Bytes(&bytes[..SAMPLED_BYTES]).to_value()
        }
        value => value.to_value(),
    }
}

fn index_statistics(table: &Table) -> Vec<IndexStatistics> {
    table
        .indexes()
        .iter()
        .map(|index| IndexStatistics {
            name: index.name().to_string(),
            unique: index.is_unique(),
            entries: index.entries(),
            allocated_bytes: index.allocated_bytes(),
        })
        .collect()
}
