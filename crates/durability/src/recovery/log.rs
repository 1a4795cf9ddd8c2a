//! The log of a directory, as recovery reads it: once to learn what happened, and then again for
//! each partition alone.

use super::{BeginFault, Candidate, Point, Survey, Surveyed, candidates, check_reach, survey_log};
use crate::ClusterId;
use crate::command_log::{LogError, LogFaults, LogPosition, LogReader};
use crate::snapshot::{Manifest, PartitionPosition, SnapshotError};
use lockstep_env::Disk;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::TransactionId;
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
        let mut found = candidates(&**self.disk, self.cluster, partitions)?;
        if let Some(point) = self.until {
            found.retain(|candidate| candidate.is_before(point));
        }
        Ok(found)
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
        if let Some(point) = self.until {
            survey.stop_behind(point.cut.clone());
        }
        let surveyed = survey_log(&**self.disk, || self.open(), survey, saved, manifest)?;
        check_reach(&**self.disk, manifest, passed, &surveyed.outcome, &surveyed.end)?;
        let Surveyed { mut outcome, end, log_bytes, reach } = surveyed;
        outcome.raise_source(last_source);
        assert!(outcome.next_source() > last_source, "the next run is later than all before");
        if let Some(manifest) = manifest {
            let snapshot = TransactionId(manifest.transaction as u64);
            outcome.last_multi = outcome.last_multi.max(snapshot);
        }
        Ok(Surveyed { outcome, end, log_bytes, reach })
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
