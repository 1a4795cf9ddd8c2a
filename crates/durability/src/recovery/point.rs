//! A point in a log's past: how far each partition is replayed so that the host is as it was.
//!
//! A point is told by a time or by a transaction, and every partition's log is cut at its first
//! entry that is later. Partitions give ids by their own clocks, so one may have run a
//! transaction of several partitions after a call that is later, and another before one: a
//! transaction that is cut off anywhere is cut off everywhere, with all that ran after it. What
//! is left is the beginning of each log, and a state that the host went through: nothing in it
//! ran without what it ran after.

use super::{Replaced, SurveyError};
use lockstep_txn::log_entry::{Entry, EntryBody};
use lockstep_txn::{EntryKind, EntryReader};
use lockstep_types::{PartitionId, TransactionId};
use std::collections::BTreeSet;

/// Where to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointTarget {
    /// After everything up to this time, milliseconds since 1970.
    Time(i64),
    /// After this transaction, and what ran before it.
    Transaction(TransactionId),
}

impl PointTarget {
    /// The greatest time key up to which transactions are taken to begin with.
    fn limit(self) -> u64 {
        match self {
            PointTarget::Time(ms) => {
                let first = |ms: i64| TransactionId::new(ms, 0, PartitionId(0)).time_key();
                let next_ms = ms.saturating_add(1).max(lockstep_types::ids::TRANSACTION_EPOCH_MS);
                first(next_ms).saturating_sub(1)
            }
            PointTarget::Transaction(transaction) => transaction.time_key(),
        }
    }
}

/// A point that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Per partition, the number of its last entry before the point; `u64::MAX` where none is
    /// after it.
    pub cut: Vec<u64>,
    /// Transactions with greater time keys are after it.
    pub limit_key: u64,
    /// The last transaction before the point that the log has.
    pub last: Option<TransactionId>,
    /// The first one after it.
    pub next: Option<TransactionId>,
    /// Entries after it that do something.
    pub entries_behind: u64,
}

/// What a pass over the log has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassEnd {
    /// The log is to be read once more.
    Again,
    /// The point is found.
    Found(Point),
    /// The log has nothing of the transaction; those that it has before and after it.
    Unknown(Option<TransactionId>, Option<TransactionId>),
}

/// One partition's log in a pass.
#[derive(Debug, Clone, Default)]
struct Reach {
    /// The greatest time key so far.
    greatest: u64,
    /// The number of the last entry before the point, once one is after it.
    cut: Option<u64>,
    last: Option<TransactionId>,
    next: Option<TransactionId>,
    entries_behind: u64,
}

/// Looks for a point in passes over the logs of all partitions. See the module.
#[derive(Debug)]
pub struct PointFinder {
    target: PointTarget,
    limit: u64,
    partitions: Vec<Reach>,
    /// Entries that are void.
    replaced: Replaced,
    /// Transactions over several partitions, not later than the point, of which a part is cut off.
    late: BTreeSet<TransactionId>,
    /// Others of that kind, found in this pass.
    found_late: BTreeSet<TransactionId>,
    /// The greatest time key before a part that is cut off.
    late_greatest: u64,
    /// The transaction that is the target was met.
    is_met: bool,
    /// It was met after a cut.
    is_behind: bool,
}

impl PointFinder {
    /// A search in the logs of N partitions.
    pub fn new(target: PointTarget, partitions: usize, replaced: Replaced) -> PointFinder {
        PointFinder {
            target,
            limit: target.limit(),
            partitions: vec![Reach::default(); partitions],
            replaced,
            late: BTreeSet::new(),
            found_late: BTreeSet::new(),
            late_greatest: 0,
            is_met: false,
            is_behind: false,
        }
    }

    /// The next entries of a partition's log, in their order.
    ///
    /// # Errors
    /// They are no entries.
    pub fn read(&mut self, partition: PartitionId, bytes: &[u8]) -> Result<(), SurveyError> {
        let mut reader = EntryReader::new(bytes);
        let mut sequence = 0;
        loop {
            let unsound = |error| SurveyError::Entry { partition, sequence, error };
            let Some(entry) = reader.read().map_err(unsound)? else { return Ok(()) };
            sequence = entry.sequence;
            if !self.replaced.has(partition, reader.source(), sequence) {
                self.note(partition, &entry);
            }
        }
    }

    fn note(&mut self, partition: PartitionId, entry: &Entry<'_>) {
        // Decisions do nothing by themselves, and count wherever they stand.
        if matches!(
            entry.body,
            EntryBody::Vote(_)
                | EntryBody::Commit(_)
                | EntryBody::Abort
                | EntryBody::Withdrawn
                | EntryBody::Epoch(_)
                | EntryBody::Build(_)
        ) {
            return;
        }
        let transaction = entry.header.transaction;
        let key = transaction.time_key();
        let reach = &mut self.partitions[partition.index()];
        let is_cut_off = key > self.limit || self.late.contains(&transaction);
        if is_cut_off && reach.cut.is_none() {
            reach.cut = Some(entry.sequence - 1);
        }
        reach.greatest = reach.greatest.max(key);
        let greatest = reach.greatest;
        let is_behind = reach.cut.is_some();
        // Nobody looks for the beginning of a snapshot.
        if entry.kind != EntryKind::Snapshot {
            let earlier = |a: &TransactionId, b: &TransactionId| a.time_key() < b.time_key();
            match is_behind {
                true => {
                    reach.entries_behind += 1;
                    if reach.next.as_ref().is_none_or(|next| earlier(&transaction, next)) {
                        reach.next = Some(transaction);
                    }
                }
                false if reach.last.as_ref().is_none_or(|last| earlier(last, &transaction)) => {
                    reach.last = Some(transaction);
                }
                false => {}
            }
        }
        if is_behind && key <= self.limit && transaction.partition() == PartitionId::MULTI {
            self.late_greatest = self.late_greatest.max(greatest);
            if !self.late.contains(&transaction) {
                self.found_late.insert(transaction);
            }
        }
        if self.target == PointTarget::Transaction(transaction) {
            self.is_met = true;
            if is_behind {
                self.is_behind = true;
                self.late_greatest = self.late_greatest.max(greatest);
            }
        }
    }

    /// All logs have been read to their ends.
    pub fn end_pass(&mut self) -> PassEnd {
        let reaches = std::mem::take(&mut self.partitions);
        self.partitions = vec![Reach::default(); reaches.len()];
        let by_key = |one: &TransactionId| one.time_key();
        let last = reaches.iter().filter_map(|reach| reach.last).max_by_key(by_key);
        let next = reaches.iter().filter_map(|reach| reach.next).min_by_key(by_key);
        if matches!(self.target, PointTarget::Transaction(_)) && !self.is_met {
            return PassEnd::Unknown(last, next);
        }
        if self.is_behind {
            // The clocks of the partitions differ: what ran before it is later by its id.
            assert!(self.late_greatest > self.limit, "something later stands before it");
            self.limit = self.late_greatest;
            self.late.clear();
            self.found_late.clear();
            (self.is_behind, self.late_greatest) = (false, 0);
            return PassEnd::Again;
        }
        self.late_greatest = 0;
        assert!(self.found_late.is_disjoint(&self.late), "each pass cuts off others");
        if !self.found_late.is_empty() {
            self.late.append(&mut self.found_late);
            return PassEnd::Again;
        }
        PassEnd::Found(Point {
            cut: reaches.iter().map(|reach| reach.cut.unwrap_or(u64::MAX)).collect(),
            limit_key: self.limit,
            last,
            next,
            entries_behind: reaches.iter().map(|reach| reach.entries_behind).sum(),
        })
    }
}
