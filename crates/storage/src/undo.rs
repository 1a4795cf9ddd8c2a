//! The undo log of a site: makes undoing a statement, a transaction or a queue of
//! speculative transactions exact.
//!
//! A change is in place at once; the log keeps what it replaced: the bytes of a deleted or
//! updated slot. Slots are free as soon as their row is deleted, so which slot the next row takes
//! depends on the operations alone, never on when older transactions were released. The strings
//! of deleted and updated rows stay in the heap until the release: their addresses are no part of
//! the replicated state.

mod check;

use crate::error::StorageError;
use crate::row::RowId;
use crate::table::TruncatedState;
use crate::tables::Tables;
use lockstep_types::TableId;
use std::collections::VecDeque;

/// A point in the log to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UndoMark(u64);

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndoKind {
    /// A row was inserted into a slot that had never been used.
    InsertFresh,
    /// A row was inserted into a slot of the free list.
    InsertReused,
    /// A row was deleted; the slot's bytes follow.
    Delete,
    /// A row was updated; the old slot's bytes follow.
    Update,
    /// A table was emptied; its old content is in the queue of truncated states.
    Truncate,
    /// More rows were covered by what is being built; before, those below this one.
    Cover,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoRecord {
    pub(crate) table: TableId,
    pub(crate) row: RowId,
    pub(crate) bytes: u32,
    pub(crate) kind: UndoKind,
    /// Strings become free at the release.
    holds_strings: bool,
}

/// What undo holds at most unless said otherwise.
pub const DEFAULT_UNDO_LIMIT_BYTES: u64 = 4 << 30;
/// The released beginning of the log is cut off when it has this many records.
const COMPACT_RECORDS: usize = 1024;
/// Capacity beyond these is given back when the log runs empty.
const KEEP_RECORDS: usize = 64 * 1024;
const KEEP_BYTES: usize = 4 << 20;

/// The log. One per site, shared by all its tables; passed to every change.
pub struct UndoLog {
    records: Vec<UndoRecord>,
    bytes: Vec<u8>,
    truncated: VecDeque<TruncatedState>,
    /// Records and bytes at the beginning that are released, but still in the vectors.
    released_records: usize,
    released_bytes: usize,
    /// The number of the first record in `records`, counted over the log's life.
    base: u64,
    /// Records not released that hold strings or a truncated state.
    to_release: usize,
    limit_bytes: u64,
}

impl Default for UndoLog {
    fn default() -> Self {
        UndoLog::new(DEFAULT_UNDO_LIMIT_BYTES)
    }
}

impl UndoLog {
    /// An empty log that refuses changes once it holds `limit_bytes`.
    pub fn new(limit_bytes: u64) -> UndoLog {
        UndoLog {
            records: Vec::new(),
            bytes: Vec::new(),
            truncated: VecDeque::new(),
            released_records: 0,
            released_bytes: 0,
            base: 0,
            to_release: 0,
            limit_bytes,
        }
    }

    /// From now on changes are refused once it holds `limit_bytes`.
    pub fn set_limit(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
    }

    /// Checks that the counts are those of the records. Visits all records.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        let released = self.released_records;
        assert!(released <= self.records.len(), "no more records are released than there are");
        let bytes =
            |records: &[UndoRecord]| records.iter().map(|r| r.bytes as usize).sum::<usize>();
        assert_eq!(self.bytes.len(), bytes(&self.records), "the bytes are those of the records");
        let (gone, open) = self.records.split_at(released);
        assert_eq!(self.released_bytes, bytes(gone), "released bytes are of released records");
        let truncations = open.iter().filter(|r| r.kind == UndoKind::Truncate).count();
        assert_eq!(self.truncated.len(), truncations, "each truncation has what it replaced");
        let strings = open.iter().filter(|r| r.holds_strings).count();
        assert_eq!(self.to_release, truncations + strings, "what is to be freed is counted");
        assert!(released == 0 || !open.is_empty(), "a log without open records is empty");
    }

    /// The present point.
    #[inline]
    pub fn mark(&self) -> UndoMark {
        UndoMark(self.base + self.records.len() as u64)
    }

    /// True if nothing can be undone.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.len() == self.released_records
    }

    /// True if something changed since `mark`.
    #[inline]
    pub fn changed_since(&self, mark: UndoMark) -> bool {
        self.mark() > mark
    }

    /// How many changes lie between two points; a rollback counts for those that it undid.
    #[inline]
    pub fn changes_between(&self, a: UndoMark, b: UndoMark) -> u64 {
        a.0.abs_diff(b.0)
    }

    /// The records since a mark, oldest first.
    pub(crate) fn records_since(&self, mark: UndoMark) -> &[UndoRecord] {
        let is_held = mark.0 >= self.base + self.released_records as u64;
        debug_assert!(is_held || self.is_empty(), "changes that were released are not read");
        let before = mark.0.saturating_sub(self.base) as usize;
        &self.records[before.clamp(self.released_records, self.records.len())..]
    }

    /// The bytes of all records, one after the other.
    pub(crate) fn held_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the log's buffers.
    pub fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<UndoRecord>()
    }

    /// Undoes every change since `mark`, latest first. Tables are then what they were, slot
    /// allocation and index order included.
    pub fn rollback_to(&mut self, mark: UndoMark, tables: &mut Tables) {
        debug_assert!(
            mark.0 >= self.base + self.released_records as u64 || self.is_empty(),
            "what was released cannot be undone"
        );
        while self.mark() > mark && self.records.len() > self.released_records {
            let Some(record) = self.records.pop() else { break };
            let start = self.bytes.len() - record.bytes as usize;
            debug_assert!(start >= self.released_bytes, "a record's bytes go with it");
            if record.holds_strings || record.kind == UndoKind::Truncate {
                debug_assert!(self.to_release > 0, "what is to be freed is counted");
                self.to_release -= 1;
            }
            let truncated = match record.kind {
                UndoKind::Truncate => self.truncated.pop_back(),
                _ => None,
            };
            if let Some(table) = tables.get_mut(record.table) {
                let UndoRecord { kind, row, holds_strings, .. } = record;
                table.undo_change((kind, holds_strings), row, &self.bytes[start..], truncated);
            }
            self.bytes.truncate(start);
        }
        debug_assert!(self.mark() <= mark, "nothing after the mark is left");
        self.clear_if_empty();
    }

    /// Makes the changes before `mark` final: what they replaced is freed. Marks are released
    /// oldest first; those after `mark` stay valid.
    #[inline]
    pub fn release_to(&mut self, mark: UndoMark, tables: &mut Tables) {
        if self.to_release == 0 {
            self.skip_to(mark);
        } else {
            self.release_each(mark, tables);
        }
        self.clear_if_empty();
    }

    /// Makes all changes final.
    #[inline]
    pub fn release_all(&mut self, tables: &mut Tables) {
        self.release_to(self.mark(), tables);
    }

    /// Releases records that hold nothing.
    #[inline]
    fn skip_to(&mut self, mark: UndoMark) {
        debug_assert!(self.truncated.is_empty(), "records that hold something are released each");
        if mark >= self.mark() {
            self.released_records = self.records.len();
            return;
        }
        while self.base + (self.released_records as u64) < mark.0 {
            self.released_bytes += self.records[self.released_records].bytes as usize;
            self.released_records += 1;
        }
    }

    fn release_each(&mut self, mark: UndoMark, tables: &mut Tables) {
        let end = self.mark().min(mark).0;
        while self.base + (self.released_records as u64) < end {
            let record = self.records[self.released_records];
            let start = self.released_bytes;
            self.released_bytes += record.bytes as usize;
            self.released_records += 1;
            if record.kind == UndoKind::Truncate {
                debug_assert!(self.to_release > 0, "a truncation is counted");
                self.to_release -= 1;
                let state = self.truncated.pop_front();
                let state = state.expect("a truncation has what it replaced");
                if let Some(table) = tables.get_mut(record.table) {
                    table.release_truncated(state);
                }
            } else if record.holds_strings {
                debug_assert!(self.to_release > 0, "a record that holds strings is counted");
                self.to_release -= 1;
                if let Some(table) = tables.get_mut(record.table) {
                    table.release_bytes(&self.bytes[start..self.released_bytes]);
                }
            }
        }
    }

    #[inline]
    fn clear_if_empty(&mut self) {
        if self.records.len() == self.released_records {
            debug_assert_eq!(self.to_release, 0, "an empty log holds nothing");
            debug_assert!(self.truncated.is_empty(), "an empty log holds no table's content");
            self.base += self.records.len() as u64;
            self.records.clear();
            self.bytes.clear();
            self.released_records = 0;
            self.released_bytes = 0;
            if self.records.capacity() > KEEP_RECORDS || self.bytes.capacity() > KEEP_BYTES {
                self.records.shrink_to(KEEP_RECORDS);
                self.bytes.shrink_to(KEEP_BYTES);
            }
        } else if self.released_records >= COMPACT_RECORDS
            && self.released_records * 2 > self.records.len()
        {
            self.base += self.released_records as u64;
            self.records.drain(..self.released_records);
            self.bytes.drain(..self.released_bytes);
            self.released_records = 0;
            self.released_bytes = 0;
        }
    }

    /// Refuses a change when the log is full.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<(), StorageError> {
        let held = self.bytes.len() + self.records.len() * size_of::<UndoRecord>();
        if held as u64 >= self.limit_bytes {
            return Err(StorageError::UndoLimit { limit: self.limit_bytes });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn push_insert(&mut self, table: TableId, row: RowId, fresh: bool) {
        let kind = if fresh { UndoKind::InsertFresh } else { UndoKind::InsertReused };
        self.records.push(UndoRecord { table, row, bytes: 0, kind, holds_strings: false });
    }

    #[inline]
    pub(crate) fn push_delete(&mut self, table: TableId, row: RowId, slot: &[u8], strings: bool) {
        self.bytes.extend_from_slice(slot);
        self.to_release += usize::from(strings);
        self.records.push(UndoRecord {
            table,
            row,
            bytes: slot.len() as u32,
            kind: UndoKind::Delete,
            holds_strings: strings,
        });
    }

    #[inline]
    pub(crate) fn push_update(&mut self, table: TableId, row: RowId, slot: &[u8], strings: bool) {
        self.bytes.extend_from_slice(slot);
        self.to_release += usize::from(strings);
        self.records.push(UndoRecord {
            table,
            row,
            bytes: slot.len() as u32,
            kind: UndoKind::Update,
            holds_strings: strings,
        });
    }

    pub(crate) fn push_cover(&mut self, table: TableId, row: RowId) {
        let kind = UndoKind::Cover;
        self.records.push(UndoRecord { table, row, bytes: 0, kind, holds_strings: false });
    }

    pub(crate) fn push_truncate(&mut self, table: TableId, state: TruncatedState) {
        self.truncated.push_back(state);
        self.to_release += 1;
        self.records.push(UndoRecord {
            table,
            row: RowId(0),
            bytes: 0,
            kind: UndoKind::Truncate,
            holds_strings: false,
        });
    }
}
