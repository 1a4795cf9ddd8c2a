//! What is known of a table whose rows go when their time is over (`USING TTL`).

use crate::statement::Statement;
use lockstep_types::{IndexId, TableId};

/// A table whose rows go when their time is over.
#[derive(Debug, Clone)]
pub struct ExpiringTable {
    /// Its name.
    pub name: String,
    /// The table.
    pub table: TableId,
    /// Every partition has all its rows.
    pub is_replicated: bool,
    /// How long a row lives, in microseconds.
    pub lifetime_us: i64,
    /// The most rows that one transaction deletes, of all or of a partition's.
    pub batch_rows: u32,
    /// The most such transactions a second.
    pub max_frequency: u32,
    /// What deletes rows, and the index with their times first in its key; none where there is no
    /// such index, so that no row goes. The statement's parameters: the latest time that is over,
    /// and the most rows. It deletes the first in the index's order.
    pub by: Option<(IndexId, Statement)>,
}
