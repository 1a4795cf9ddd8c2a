//! Snapshots of a site's data, and data made of one: see [`lockstep_storage::RowsRecord`].

use crate::database::Database;
use lockstep_storage::{SnapshotProgress, SnapshotTable};
use lockstep_types::TableId;

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
        assert!(self.undo.is_empty(), "a snapshot begins when nothing can be taken back");
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
