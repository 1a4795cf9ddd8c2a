//! A snapshot of tables as they were at one moment, taken while they change.
//!
//! When a snapshot begins, the slots of every chosen table are marked, in *units* of some rows. A
//! unit that is about to change for the first time since then is encoded before it changes; the
//! others are encoded in steps between transactions ([`Tables::snapshot_step`]). What both give is
//! a sequence of *records*, one per unit, in no particular order. Without a running snapshot a
//! change costs one branch.
//!
//! A table that is emptied, dropped or replaced meanwhile keeps its old content until its units
//! are encoded: nothing waits for the snapshot, and the snapshot never holds more than what the
//! tables held when it began.
//!
//! # A record
//! Numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | the table's number |
//! | 4 | its first slot |
//! | 4 | how many slots it tells of, at least 1 |
//! | 4 | bytes that follow |
//! | slots / 8, rounded up | one bit a slot, lowest first: whether a row lives there |
//! | 4 for each free slot | the next slot in the free list, 0xffffffff at its end |
//! | rows × fixed bytes | per row, in slot order, its columns in order, packed (below) |
//! | the rest | per row its tail: the values of its long columns, one after the other |
//!
//! A column takes: TINYINT 1, SMALLINT 2, INTEGER 4, BIGINT, FLOAT and TIMESTAMP 8, DECIMAL 16
//! bytes, NULL being the least value of the type (for FLOAT, everything up to -1.7e308). VARCHAR
//! and VARBINARY of at most 15 bytes: the length or 0xff for NULL, then as many bytes as the
//! longest value has, unused ones zero. Longer ones: where the value ends in the row's tail, in
//! two bytes whose highest bit says NULL, or in four if the longest tail exceeds 32,767 bytes.

mod encode;
mod record;

pub(crate) use encode::Pending;
pub(crate) use record::check_texts;
pub use record::{RecordRow, RowsRecord};

use crate::layout::ColumnLayout;
use crate::tables::Tables;
use lockstep_types::TableId;

/// What a snapshot says of a table beside its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotTable {
    /// Its number, in the records too.
    pub table: TableId,
    /// Its name.
    pub name: Box<str>,
    /// Its columns.
    pub columns: Vec<ColumnLayout>,
    /// Live rows.
    pub rows: u64,
    /// The slots that were ever used: those below.
    pub used_slots: u32,
    /// The head of the free list; `u32::MAX` when no slot is free.
    pub free_head: u32,
}

/// How far a snapshot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotProgress {
    /// There is more to encode.
    Open,
    /// All is encoded and handed out; the snapshot has ended.
    Done,
}

/// The snapshot that runs over a site's tables.
#[derive(Default)]
pub(crate) struct RunningSnapshot {
    /// Tables of which something is left, last first.
    open: Vec<TableId>,
    /// Tables that were dropped or replaced before all of them was encoded.
    retired: Vec<crate::Table>,
}

impl Tables {
    /// Begins a snapshot of the tables that `choose` names, as they are now: no change that may
    /// still be undone is open. One that runs is given up. A record is about `unit_bytes` long,
    /// or one row. Gives what there is to say of the tables, in id order.
    pub fn begin_snapshot(
        &mut self,
        unit_bytes: usize,
        choose: impl Fn(TableId) -> bool,
    ) -> Vec<SnapshotTable> {
        self.end_snapshot();
        let mut open = Vec::new();
        let mut headers = Vec::new();
        for table in self.iter_mut().filter(|table| choose(table.id())) {
            headers.push(table.begin_snapshot(unit_bytes));
            open.push(table.id());
        }
        open.reverse();
        self.snapshot = Some(Box::new(RunningSnapshot { open, retired: Vec::new() }));
        headers
    }

    /// Whether a snapshot runs.
    #[inline]
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Appends records to `out` until it has grown by `budget_bytes`, or a little more: those that
    /// changes have forced out first, because they take memory.
    pub fn snapshot_step(&mut self, out: &mut Vec<u8>, budget_bytes: usize) -> SnapshotProgress {
        let Some(mut running) = self.snapshot.take() else { return SnapshotProgress::Done };
        let end = out.len().saturating_add(budget_bytes);
        for id in &running.open {
            if let Some(table) = self.get_mut(*id) {
                table.take_forced_out(out, end);
            }
        }
        running.retired.retain_mut(|table| {
            table.take_forced_out(out, end);
            !table.encode_step(out, end)
        });
        let mut place = running.open.len();
        while place > 0 && out.len() < end {
            place -= 1;
            let done = match self.get_mut(running.open[place]) {
                Some(table) => table.encode_step(out, end),
                None => true,
            };
            if done {
                running.open.remove(place);
            }
        }
        if running.open.is_empty() && running.retired.is_empty() {
            return SnapshotProgress::Done;
        }
        self.snapshot = Some(running);
        SnapshotProgress::Open
    }

    /// Bytes of records that changes have forced out and no step has taken yet.
    pub fn snapshot_waiting_bytes(&self) -> usize {
        let Some(running) = &self.snapshot else { return 0 };
        let open = running.open.iter().filter_map(|id| self.get(*id));
        open.chain(&running.retired).map(crate::Table::forced_out_bytes).sum()
    }

    /// Gives up a snapshot, if one runs.
    pub fn end_snapshot(&mut self) {
        if self.snapshot.take().is_some() {
            self.iter_mut().for_each(crate::Table::end_snapshot);
        }
    }

    /// Drops a table that is in [`Tables`] no more, as soon as no snapshot needs it.
    pub fn retire(&mut self, table: crate::Table) {
        if let Some(running) = &mut self.snapshot
            && table.has_snapshot()
        {
            running.open.retain(|id| *id != table.id());
            running.retired.push(table);
        }
    }
}
