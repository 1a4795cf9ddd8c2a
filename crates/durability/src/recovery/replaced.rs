//! Entries of one epoch that a later one replaced.
//!
//! The one that leads a partition in a new epoch goes on from the entries that the cluster agreed
//! on. What a leader of an earlier epoch logged beyond them is in its own log all the same: two
//! entries with the same number, of two epochs. **The rule**: where an epoch begins, at a number,
//! all entries of earlier epochs with that number or a greater one are void. They were never safe,
//! so nobody was answered; neither what they did nor what they decided counts. An entry of an
//! earlier epoch that was written after those of a later one is void by the same rule, or is there
//! already.
//!
//! Two incarnations within one epoch that have the same number are no such case: two processes
//! wrote at the same time, and both may have answered. That stays an error.

use crate::command_log::{LogError, LogReader};
use lockstep_txn::log_entry::LogSource;
use lockstep_types::PartitionId;
use std::collections::BTreeMap;

/// Where epochs begin in the logs of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replaced {
    /// By partition and epoch, the number of its first entry; nothing where no epoch replaces
    /// entries of another.
    begins: BTreeMap<(PartitionId, u32), u64>,
}

impl Replaced {
    /// Finds where epochs begin.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn find(mut reader: LogReader) -> Result<Replaced, LogError> {
        let mut replaced = Replaced::default();
        while let Some(block) = reader.next_block()? {
            let key = (PartitionId(block.partition), block.source.epoch);
            let first = replaced.begins.entry(key).or_insert(block.first_sequence);
            *first = block.first_sequence.min(*first);
        }
        Ok(replaced)
    }

    /// Whether an entry is void: a later epoch begins at its number or before.
    #[inline]
    pub fn has(&self, partition: PartitionId, source: LogSource, sequence: u64) -> bool {
        !self.begins.is_empty() && self.begins_before(partition, source.epoch, sequence)
    }

    fn begins_before(&self, partition: PartitionId, epoch: u32, sequence: u64) -> bool {
        let later = (partition, epoch.saturating_add(1))..=(partition, u32::MAX);
        epoch < u32::MAX && self.begins.range(later).any(|(_, first)| *first <= sequence)
    }
}
