//! Changes of the schema as sites carry them out.

use crate::schema::{GlobalIndexDefinition, TableDefinition};
use lockstep_types::{TableId, Value};
use std::sync::Arc;

/// One step of a schema change. The steps of a change are prepared in order at every site, and
/// take effect together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum StorageChange {
    /// Refuses the whole change if the table has a row at any site.
    RequireEmpty {
        /// The table.
        table: TableId,
        /// What the statement that asked gets.
        message: String,
    },
    /// A new, empty table or view. A view over tables with rows is filled at the end of the
    /// change.
    Create(Arc<TableDefinition>),
    /// The table goes, with its rows.
    Drop(TableId),
    /// The table gets a new definition; rows stay, converted. Indexes that the new definition
    /// has and the old had not are built (a duplicate in a unique one refuses the change).
    Alter {
        /// The new definition, with the old id.
        definition: Arc<TableDefinition>,
        /// Where each new column comes from; `None` when columns and layout stay as they are.
        columns: Option<Vec<ColumnSource>>,
    },
    /// A new global index gets entries for the rows that its table has: after all other steps,
    /// through rounds of its own between the partitions.
    BuildGlobalIndex {
        /// The table with the rows.
        table: TableId,
        /// The index, whose table of entries was created in the same change.
        index: Arc<GlobalIndexDefinition>,
    },
}

/// Where a column of an altered table comes from. Values are assigned with the new column's
/// checks; one that does not fit refuses the change.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnSource {
    /// An old column; a changed type converts as CAST does.
    Old(u16),
    /// A constant.
    Constant(Value),
    /// The transaction's time.
    Now,
}
