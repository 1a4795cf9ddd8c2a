//! A snapshot at a partition: it begins between two transactions, and is handed out in steps.

use super::Site;
use crate::effect::SnapshotBegun;
use crate::message::SnapshotStart;
use lockstep_storage::SnapshotProgress;
use lockstep_types::{PartitionId, TransactionId};

impl<H, A, C: Clone> Site<H, A, C> {
    /// The data as they are now; the log has the entry of the snapshot already.
    pub(super) fn begin_snapshot(
        &mut self,
        start: &SnapshotStart,
        transaction: TransactionId,
    ) -> SnapshotBegun {
        assert!(
            self.initiator.is_decided() && !self.database.has_undo(),
            "a snapshot holds nothing that may be undone"
        );
        let is_first = self.partition == PartitionId(0);
        let tables = self.database.begin_snapshot(start.record_bytes, |table| {
            let is_chosen = start.tables.as_ref().is_none_or(|chosen| chosen.contains(&table));
            is_chosen && (is_first || !start.replicated.contains(&table))
        });
        let (source, sequence) = (self.log.source(), self.log.sequence());
        let (digest, last) = (self.database.change_digest(), self.initiator.last_id());
        SnapshotBegun { transaction, source, sequence, digest, last, tables }
    }

    /// Whether a snapshot runs.
    #[inline]
    pub fn has_snapshot(&self) -> bool {
        self.database.has_snapshot()
    }

    /// Appends records of the running snapshot to `out`, about `budget_bytes` bytes.
    pub fn snapshot_step(&mut self, out: &mut Vec<u8>, budget_bytes: usize) -> SnapshotProgress {
        self.database.snapshot_step(out, budget_bytes)
    }

    /// Bytes that changes have forced out and no step has taken yet.
    pub fn snapshot_waiting_bytes(&self) -> usize {
        self.database.snapshot_waiting_bytes()
    }

    /// Gives up a snapshot, if one runs.
    pub fn end_snapshot(&mut self) {
        self.database.end_snapshot();
    }
}
