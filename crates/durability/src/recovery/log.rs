//! The log of a directory, as recovery reads it: once to learn what happened, and then again for
//! each partition alone.

use super::{
    BeginFault, Candidate, Fact, Others, Point, Survey, Surveyed, candidates, check_reach,
    survey_log,
};
use crate::ClusterId;
use crate::command_log::{
    Block, LogEnd, LogError, LogFaults, LogPosition, LogReader, LogSettings, LogWriter,
};
use crate::snapshot::{Manifest, PartitionPosition, SnapshotError};
use lockstep_env::Disk;
use lockstep_txn::EntryReader;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::{PartitionId, TransactionId};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The log of a directory, and how it is read.
#[derive(Clone, Copy)]
pub struct RecoveryLog<'a> {
    /// The directory.
    pub disk: &'a Arc<dyn Disk>,
    /// Whose log it must be.
    pub cluster: ClusterId,
    /// What comes after this point is left out.
    pub until: Option<&'a Point>,
    /// How its reader is broken: for tests of the checks.
    pub faults: LogFaults,
    /// For a host of several: what the logs of the others say.
    pub others: Option<&'a Others>,
}

/// Where the log of one partition ends, and which epochs it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyEnd {
    /// The epochs with the number of the first entry of each, ascending; those that others have
    /// replaced in part or as a whole too.
    pub begins: Vec<(u32, u64)>,
    /// The number of the last entry that counts; 0 for none.
    pub end: u64,
}

impl CopyEnd {
    /// The epoch of the last entry; 0 for none.
    pub fn epoch(&self) -> u32 {
        self.begins.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The last entry up to which this log has the entries of another one.
    pub fn common_end(&self, other: &CopyEnd) -> u64 {
        let later = self.begins.iter().filter(|(begun, _)| *begun > other.epoch());
        let first = later.map(|(_, first)| first.saturating_sub(1)).min();
        other.end.min(self.end).min(first.unwrap_or(u64::MAX))
    }

    /// The last entry of an epoch that no later one has replaced.
    fn last_of(&self, epoch: u32) -> u64 {
        let later = self.begins.iter().filter(|(begun, _)| *begun > epoch);
        later.map(|(_, first)| first.saturating_sub(1)).min().unwrap_or(u64::MAX)
    }

    /// Of a partition of which a snapshot has everything up to a position.
    fn of_saved(saved: &PartitionPosition) -> CopyEnd {
        match saved.sequence {
            0 => CopyEnd::default(),
            end => CopyEnd { begins: vec![(saved.source.epoch, 1)], end },
        }
    }

    fn note(&mut self, block: &Block<'_>) {
        let last = block.first_sequence.saturating_add(u64::from(block.entries)).saturating_sub(1);
        match block.source.epoch.cmp(&self.epoch()) {
            _ if self.begins.is_empty() => self.begins.push((block.source.epoch, 1)),
            Ordering::Less => return,
            Ordering::Equal => {}
            Ordering::Greater => self.begins.push((block.source.epoch, block.first_sequence)),
        }
        self.end = last;
    }
}

/// Entries of one partition, of a log that is given to another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Who ordered them.
    pub source: LogSource,
    /// The number of the first.
    pub first: u64,
    /// How many they are.
    pub entries: u32,
    /// The entries.
    pub bytes: Vec<u8>,
}

impl RecoveryLog<'_> {
    /// A reader of all partitions' blocks.
    ///
    /// # Errors
    /// The log cannot be read: the text for the user.
    pub fn open(&self) -> Result<LogReader, String> {
        let reader = LogReader::open(Arc::clone(self.disk), self.cluster);
        let mut reader = reader.map_err(|error| error.to_string())?;
        reader.inject(self.faults);
        Ok(reader)
    }

    /// The snapshots that recovery could begin with, newest first: see [`candidates`].
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn candidates(&self, partitions: u32) -> Result<Vec<Candidate>, SnapshotError> {
        let own = self.others.map(|others| &others.own[..]);
        let mut found = candidates(&**self.disk, self.cluster, partitions, own)?;
        if let Some(point) = self.until {
            found.retain(|candidate| candidate.is_before(point));
        }
        Ok(found)
    }

    /// What a host of several keeps of its copies: the newest sound snapshot, if there is one.
    ///
    /// # Errors
    /// Their folder cannot be read: the text for the user.
    pub fn kept(&self, partitions: u32) -> Result<Option<Manifest>, String> {
        let found = candidates(&**self.disk, self.cluster, partitions, Some(&[]));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.into_iter().find_map(|one| one.manifest.ok()))
    }

    /// Reads the log after a snapshot, or from the beginning. Newer snapshots were `passed` over;
    /// the next run is later than that of `last_source`, whatever the log has.
    ///
    /// # Errors
    /// The log cannot be read, is of another history than the snapshot, or does not have all that
    /// the snapshots had that were passed over.
    pub fn survey(
        &self,
        partitions: u32,
        manifest: Option<&Manifest>,
        passed: &[&Candidate],
        last_source: LogSource,
    ) -> Result<Surveyed, BeginFault> {
        let nothing = vec![PartitionPosition::default(); partitions as usize];
        let saved = manifest.map_or(&nothing, |manifest| &manifest.positions);
        assert_eq!(saved.len(), partitions as usize, "a snapshot of the whole host has them all");
        let sequences: Vec<u64> = saved.iter().map(|position| position.sequence).collect();
        let mut survey = Survey::new(&sequences);
        survey.faults = self.faults;
        if let Some(point) = self.until {
            survey.stop_behind(point.cut.clone());
        }
        if let Some(others) = self.others {
            let own = manifest.map_or(TransactionId(0), Manifest::transaction_id);
            survey.settle_up_to(others.settled.iter().map(|of_other| own.max(*of_other)));
        }
        let saved = (&saved[..], manifest);
        let surveyed = survey_log(&**self.disk, || self.open(), survey, saved, self.others)?;
        let own = self.others.map(|others| &others.own[..]);
        let (outcome, end) = (&surveyed.outcome, &surveyed.end);
        check_reach(&**self.disk, manifest, (passed, own), outcome, end)?;
        let Surveyed { mut outcome, end, log_bytes, reach } = surveyed;
        outcome.raise_source(last_source);
        assert!(outcome.next_source() > last_source, "the next run is later than all before");
        if let Some(manifest) = manifest {
            outcome.last_multi = outcome.last_multi.max(manifest.transaction_id());
        }
        Ok(Surveyed { outcome, end, log_bytes, reach })
    }

    /// Where the log of each partition ends, and the log as a whole. The log goes on from what the
    /// host has `kept`, if it has, and need not have what is in that.
    ///
    /// # Errors
    /// The log cannot be read: the text for the user.
    pub fn copy_ends(
        &self,
        partitions: u32,
        kept: Option<&Manifest>,
    ) -> Result<(Vec<CopyEnd>, LogEnd), String> {
        let positions = kept.map_or(Vec::new(), |manifest| manifest.positions.clone());
        let begin = |number: u32| {
            positions.get(number as usize).map_or(CopyEnd::default(), CopyEnd::of_saved)
        };
        let mut ends: Vec<CopyEnd> = (0..partitions).map(begin).collect();
        let mut reader = self.open()?;
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            let end = ends.get_mut(block.partition as usize);
            let end = end.ok_or_else(|| {
                let partition = block.partition;
                format!("the command log has entries of partition {partition}, of {partitions}")
            })?;
            end.note(&block);
        }
        for (end, saved) in ends.iter_mut().zip(&positions) {
            // The log has what comes after, or nothing more.
            end.end = end.end.max(saved.sequence);
        }
        Ok((ends, reader.into_end()))
    }

    /// Gives the entries of a partition that count, in their order: those after `after`. `end` is
    /// what [`RecoveryLog::copy_ends`] found.
    ///
    /// # Errors
    /// The log cannot be read, or `take` has failed: the text for the user.
    pub fn pieces_after(
        &self,
        (partition, end): (PartitionId, &CopyEnd),
        after: u64,
        mut take: impl FnMut(LogPiece) -> Result<(), String>,
    ) -> Result<(), String> {
        let (mut reader, mut after) = (self.open()?, after);
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            if block.partition != partition.0 {
                continue;
            }
            let last = end.last_of(block.source.epoch).min(end.end);
            if let Some(piece) = piece_between(&block, after, last)? {
                after = piece.first + u64::from(piece.entries) - 1;
                take(piece)?;
            }
        }
        Ok(())
    }

    /// Adds entries that the log lacks, of another host's log: partition by partition, in their
    /// order. They are durable then. The log ends at `end`; nothing else may read or write it.
    ///
    /// # Errors
    /// The disk failed.
    pub fn add_pieces(
        &self,
        settings: LogSettings,
        end: LogEnd,
        lacked: &[(PartitionId, Vec<LogPiece>)],
    ) -> Result<(), LogError> {
        assert_eq!(settings.cluster, self.cluster, "the log is of one cluster");
        let mut writer = LogWriter::open(Arc::clone(self.disk), settings, end)?;
        writer.inject(self.faults);
        for (partition, pieces) in lacked {
            for LogPiece { source, first, entries, bytes } in pieces {
                writer.add(partition.0, *source, *first, *entries, bytes);
                writer.write()?;
            }
        }
        writer.sync()?;
        writer.seal()?;
        writer.sync()
    }

    /// What the logs of some partitions say of transactions over several, with where each ends.
    ///
    /// # Errors
    /// As for [`RecoveryLog::pieces_after`].
    pub fn facts(
        &self,
        ends: &BTreeMap<u32, &CopyEnd>,
    ) -> Result<BTreeMap<u32, Vec<Fact>>, String> {
        let mut facts: BTreeMap<u32, Vec<Fact>> = ends.keys().map(|of| (*of, Vec::new())).collect();
        let mut reader = self.open()?;
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            let (Some(end), Some(of)) =
                (ends.get(&block.partition), facts.get_mut(&block.partition))
            else {
                continue;
            };
            let last = end.last_of(block.source.epoch).min(end.end);
            let mut entries = EntryReader::new(block.body);
            while let Some(entry) = entries.read().map_err(|error| error.to_string())? {
                if entry.sequence <= last {
                    of.extend(Fact::of(&entry));
                }
            }
        }
        Ok(facts)
    }

    /// The blocks of one partition, up to where a survey found the end of the log.
    ///
    /// # Errors
    /// The log cannot be read: the text for the user.
    pub fn partition(&self, partition: u32, end: LogPosition) -> Result<PartitionBlocks, String> {
        let reader = self.open()?.of_partition(partition);
        Ok(PartitionBlocks { reader, end })
    }
}

/// The entries of a block after one number and up to another.
fn piece_between(block: &Block<'_>, after: u64, last: u64) -> Result<Option<LogPiece>, String> {
    let (mut from, mut to, mut first, mut entries) = (None, block.body.len(), 0, 0);
    let mut reader = EntryReader::new(block.body);
    while let Some(entry) = reader.read().map_err(|error| error.to_string())? {
        if entry.sequence > last {
            to = entry.offset;
            break;
        }
        if entry.sequence > after {
            if from.is_none() {
                (from, first) = (Some(entry.offset), entry.sequence);
            }
            entries += 1;
        }
    }
    let Some(from) = from else { return Ok(None) };
    let bytes = block.body[from..to].to_vec();
    // What was transferred at a time can be read by itself; copies have it as a whole, or not.
    let whole = EntryReader::new(&bytes)
        .read()
        .is_ok_and(|entry| entry.is_some_and(|entry| entry.sequence == first));
    match whole {
        true => Ok(Some(LogPiece { source: block.source, first, entries, bytes })),
        false => {
            Err(format!("entry {first} of partition {} does not begin a piece", block.partition))
        }
    }
}

/// The blocks of one partition.
pub struct PartitionBlocks {
    reader: LogReader,
    /// A reader of one partition skips the blocks of others without reading their bodies. So it
    /// does not stop at a torn one, and what comes after that is not of the log.
    end: LogPosition,
}

impl PartitionBlocks {
    /// The entries of the next block; `None` at the end of the log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, LogError> {
        let end = self.end;
        let block = self.reader.next_block()?;
        Ok(block.filter(|block| block.position < end).map(|block| block.body))
    }
}
