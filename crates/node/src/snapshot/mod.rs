//! Snapshots of a running host: sites encode, a thread writes.
//!
//! A snapshot begins as a transaction over all partitions. From then on each site encodes what
//! was there, a little between rounds of its loop, into buffers that it hands to the thread of
//! the snapshot through a ring and gets back through another. There are few buffers, so a slow
//! disk slows the encoding down and nothing else; only what changes force out waits in memory,
//! and that is never more than the tables held when the snapshot began. While a site has other
//! work it hands out a given number of bytes a second, unless much was forced out.

pub(crate) mod lane;
pub(crate) mod load;
mod pace;
pub(crate) mod save;

pub use load::{LoadError, Loaded, PartitionLoad, load_partition};

use lockstep_durability::snapshot::{ColumnHead, SnapshotError, TableHead};
use lockstep_plan_ir::TableDefinition;
use lockstep_storage::SnapshotTable;

/// A table as a file of rows has it.
pub(crate) fn table_head(table: &SnapshotTable, definition: &TableDefinition) -> TableHead {
    let column = |column: &lockstep_storage::ColumnLayout| ColumnHead {
        sql_type: column.sql_type,
        nullable: column.nullable,
        max_bytes: if column.sql_type.is_variable_length() { column.max_bytes } else { 0 },
    };
    TableHead {
        table: table.table.0,
        name: table.name.to_string(),
        rows: table.rows,
        used_slots: table.used_slots,
        free_head: table.free_head,
        columns: table.columns.iter().map(column).collect(),
        partition_columns: definition.partition_columns.clone(),
    }
}

/// What a snapshot has become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Saved {
    /// The transaction at which it stands.
    pub(crate) transaction: i64,
    /// Its files: which table each has, if it has only one, its name and bytes.
    pub(crate) files: Vec<(Option<String>, String, u64)>,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// By partition, the number of the last entry of the log that is in it.
    pub(crate) sequences: Vec<u64>,
}

/// How a snapshot ended.
pub(crate) type SaveResult = Result<Saved, SnapshotError>;
