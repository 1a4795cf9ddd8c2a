//! A table's part in a snapshot: see [`crate::snapshot`].

use super::{Table, TruncatedState};
use crate::snapshot::{Pending, SnapshotTable};

impl Table {
    /// Marks all slots; gives what there is to say of the table beside its rows.
    pub(crate) fn begin_snapshot(&mut self, unit_bytes: usize) -> SnapshotTable {
        let tail_bytes = self.heap.used_bytes();
        let pending = Pending::new(self.id, &self.layout, &self.blocks, tail_bytes, unit_bytes);
        assert!(!self.has_snapshot(), "one snapshot of a table runs at a time");
        self.blocks.pending = Some(Box::new(pending));
        SnapshotTable {
            table: self.id,
            name: self.name.clone(),
            columns: self.layout.columns().to_vec(),
            rows: self.row_count(),
            used_slots: self.blocks.fresh(),
            free_head: self.blocks.free_head(),
        }
    }

    /// Whether a snapshot still needs something that this table has in its hands.
    pub(crate) fn has_snapshot(&self) -> bool {
        self.blocks.pending.is_some() || self.emptied.is_some()
    }

    pub(crate) fn forced_out_bytes(&self) -> usize {
        let emptied = self.emptied.as_ref().and_then(|state| state.blocks.pending.as_ref());
        let pending = self.blocks.pending.iter().chain(emptied);
        pending.map(|pending| pending.forced_bytes()).sum()
    }

    /// Appends records that changes have forced out until `out` has `end` bytes.
    pub(crate) fn take_forced_out(&mut self, out: &mut Vec<u8>, end: usize) {
        let emptied = self.emptied.as_mut().and_then(|state| state.blocks.pending.as_mut());
        let both = self.blocks.pending.iter_mut().chain(emptied);
        both.for_each(|pending| pending.take_forced(out, end));
    }

    /// Appends records until `out` has `end` bytes. True once the snapshot has all of the table.
    pub(crate) fn encode_step(&mut self, out: &mut Vec<u8>, end: usize) -> bool {
        if let Some(mut state) = self.emptied.take() {
            let Some(mut pending) = state.blocks.pending.take() else { return true };
            if pending.step(&state.blocks, out, end) && pending.is_done() {
                self.free_truncated(state);
                return true;
            }
            state.blocks.pending = Some(pending);
            self.emptied = Some(state);
            return false;
        }
        // None: what the snapshot needs was emptied by a transaction that may be undone.
        let Some(mut pending) = self.blocks.pending.take() else { return false };
        let done = pending.step(&self.blocks, out, end) && pending.is_done();
        if !done {
            self.blocks.pending = Some(pending);
        }
        done
    }

    /// No snapshot needs anything any more.
    pub(crate) fn end_snapshot(&mut self) {
        self.blocks.pending = None;
        if let Some(state) = self.emptied.take() {
            self.free_truncated(state);
        }
    }

    /// What the table held before it was emptied is needed no more, or by a snapshot only.
    pub(crate) fn release_truncated(&mut self, state: TruncatedState) {
        if state.blocks.pending.is_some() {
            assert!(self.emptied.is_none(), "a snapshot needs one content of a table");
            self.emptied = Some(state);
        } else {
            self.free_truncated(state);
        }
    }
}
