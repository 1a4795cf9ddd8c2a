//! What a site says of its tables, and checks over all of its data.

use crate::database::Database;
use lockstep_storage::{Table, TableMemory};
use lockstep_types::TableId;

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
    /// All tables and views, by number.
    pub fn statistics(&self) -> Vec<TableStatistics> {
        self.tables
            .iter()
            .map(|(id, table)| {
                let definition = self.definition(id);
                TableStatistics {
                    table: id,
                    name: table.name().to_string(),
                    is_view: definition.is_some_and(|definition| definition.view.is_some()),
                    rows: table.row_count(),
                    row_limit: definition.and_then(|definition| definition.row_limit),
                    memory: table.memory(),
                    indexes: index_statistics(table),
                }
            })
            .collect()
    }

    /// A hash of everything that replicas must agree on.
    pub fn content_hash(&self) -> u64 {
        self.tables.iter().fold(0, |hash, (id, table)| {
            let mut state = hash ^ u64::from(id.0) ^ table.content_hash();
            lockstep_base::random::split_mix(&mut state)
        })
    }

    /// Rows of partitioned tables that do not belong at this partition, per table that has any.
    pub fn mispartitioned_rows(&self) -> Vec<(TableId, u64)> {
        let options = self.options();
        let mut found = Vec::new();
        for (id, table) in self.tables.iter() {
            let column = self.definition(id).and_then(|definition| definition.partition_column);
            let Some(column) = column.map(usize::from) else { continue };
            let elsewhere = table.scan().filter(|(_, row)| {
                options.ring.partition_of(row.column(column)) != options.partition
            });
            match elsewhere.count() {
                0 => {}
                count => found.push((id, count as u64)),
            }
        }
        found
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
