//! A snapshot at a partition: it begins between two transactions, and is handed out in steps. A
//! copy of the partition that is loaded from its leader gets one, too.

use super::Site;
use crate::effect::SnapshotBegun;
use crate::fence::FenceReport;
use crate::message::SnapshotStart;
use lockstep_storage::SnapshotProgress;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::{PartitionId, TransactionId};
use std::sync::Arc;

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
        self.has_copy_snapshot = false;
        let tables = self.database.begin_snapshot(start.record_bytes, |table| {
            let is_chosen = start.tables.as_ref().is_none_or(|chosen| chosen.contains(&table));
            is_chosen && (is_first || !start.replicated.contains(&table))
        });
        let (source, sequence) = (self.log.source(), self.log.sequence());
        let (digest, last) = (self.database.change_digest(), self.initiator.last_id());
        SnapshotBegun { transaction, source, sequence, digest, last, tables }
    }

    /// The data of a copy that follows, after an entry of its leader's log: the commit of the
    /// transaction at which a snapshot begins, with whom ordered it, and the last transaction that
    /// the log has. None while another snapshot runs.
    pub fn begin_followed_snapshot(
        &mut self,
        start: &SnapshotStart,
        transaction: TransactionId,
        (source, sequence, last): (LogSource, u64, TransactionId),
    ) -> Option<SnapshotBegun> {
        if self.has_snapshot() {
            return None;
        }
        let begun = self.begin_snapshot(start, transaction);
        Some(SnapshotBegun { source, sequence, last, ..begun })
    }

    /// Begins a snapshot of everything for a copy of the partition, which goes on after the last
    /// entry of the log: also gives what the partition knows of its coordinator's transactions.
    /// None while something is undecided here, or another snapshot runs.
    pub fn begin_copy(&mut self, record_bytes: usize) -> Option<(SnapshotBegun, FenceReport)> {
        let has_undecided = !self.initiator.is_decided() || self.initiator.has_repeats();
        let is_final = !has_undecided && self.logged.is_empty() && !self.database.has_undo();
        if !is_final || self.has_snapshot() || self.settled_sequence() != self.log.sequence() {
            return None;
        }
        let start = SnapshotStart { tables: None, replicated: Arc::from([]), record_bytes };
        let transaction = self.last_multi.max(self.initiator.last_id());
        let begun = self.begin_snapshot(&start, transaction);
        self.has_copy_snapshot = true;
        let report = self.report();
        assert!(report.undecided.is_empty(), "a copy begins where nothing is undecided");
        Some((begun, FenceReport { last: transaction, ..report }))
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

    /// Whether the snapshot that runs is that of a copy.
    #[inline]
    pub fn has_copy_snapshot(&self) -> bool {
        self.has_copy_snapshot && self.has_snapshot()
    }

    /// Gives up the snapshot of a copy, if one runs.
    pub fn end_copy_snapshot(&mut self) {
        if self.has_copy_snapshot() {
            self.end_snapshot();
        }
    }

    /// Gives up a snapshot, if one runs.
    pub fn end_snapshot(&mut self) {
        self.database.end_snapshot();
    }
}
