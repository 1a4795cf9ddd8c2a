//! Recovery of a host from its directory: what the command log says, and its replay.

use super::partition::PartitionSource;
use super::{HostState, ReplayError, ReplaySettings, replay};
use crate::clock;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{LogEnd, LogReader, TornTail};
use lockstep_durability::recovery::{Outcome, Survey};
use lockstep_env::Disk;
use lockstep_types::{PartitionId, TransactionId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far recovery has come, for whoever shows it.
#[derive(Debug, Default)]
pub struct RecoveryProgress {
    /// Entries of the log, once they are counted.
    pub entries: AtomicU64,
    /// Entries that were gone through.
    pub replayed: AtomicU64,
}

/// What recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoverySummary {
    /// Entries of the log behind what was there before.
    pub entries: u64,
    /// Entries that ran again.
    pub replayed: u64,
    /// Changes of the catalog that were made again.
    pub schema_changes: u64,
    /// Entries of transactions that were not committed, and of calls that were withdrawn.
    pub left_out: u64,
    /// The end of the log that was cut off because it was never known to be durable.
    pub torn: Option<TornTail>,
    /// Reading the log through, microseconds.
    pub survey_us: u64,
    /// Running its entries, microseconds.
    pub replay_us: u64,
}

/// A host as its directory has it.
pub(crate) struct Recovered<H, A> {
    /// Its catalog and sites.
    pub(crate) state: HostState<H, A>,
    /// The coordinator's last transaction id.
    pub(crate) last_multi: TransactionId,
    /// Where the log ends.
    pub(crate) end: LogEnd,
    /// By partition, the number of its last entry.
    pub(crate) sequences: Vec<u64>,
    /// What was done.
    pub(crate) summary: RecoverySummary,
}

impl<H, A> Recovered<H, A> {
    /// A host that begins empty.
    ///
    /// # Errors
    /// As for [`HostState::empty`].
    pub(crate) fn nothing(settings: &ReplaySettings<'_>) -> Result<Recovered<H, A>, ReplayError> {
        Ok(Recovered {
            state: HostState::empty(settings)?,
            last_multi: TransactionId(0),
            end: LogEnd::default(),
            sequences: vec![0; settings.ring.partition_count() as usize],
            summary: RecoverySummary::default(),
        })
    }
}

/// The log of a directory.
pub(crate) struct DiskLog<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) cluster: ClusterId,
    /// Entries with greater transaction ids are left out.
    pub(crate) until: Option<TransactionId>,
}

/// Brings a host back from its directory.
///
/// # Errors
/// The text for the user: which file is damaged, or which entry cannot run.
pub(crate) fn recover<H: Send, A: Send>(
    log: &DiskLog<'_>,
    settings: &ReplaySettings<'_>,
    progress: &RecoveryProgress,
) -> Result<Recovered<H, A>, String> {
    let began_ns = clock::monotonic_ns();
    let (mut outcome, end) = survey(log, settings.ring.partition_count())?;
    let entries = outcome.tails.iter().map(|tail| tail.entries).sum();
    progress.entries.store(entries, Ordering::Relaxed);
    let surveyed_ns = clock::monotonic_ns();
    let (state, replayed) = loop {
        progress.replayed.store(0, Ordering::Relaxed);
        let sources = sources(log, settings.ring.partition_count())?;
        let state = HostState::empty(settings).map_err(|error| error.to_string())?;
        match replay(state, sources, &outcome, settings) {
            Ok(done) => break done,
            Err(ReplayError::Stopped(problem)) => {
                return Err(format!(
                    "{problem}. The command log in {} was not changed; `lockstep log inspect` \
                     shows what it holds.",
                    log.disk.shown(lockstep_durability::command_log::FOLDER)
                ));
            }
            Err(ReplayError::NotCommitted(transaction)) => outcome.leave_out(transaction),
        }
    };
    let summary = RecoverySummary {
        entries,
        replayed: replayed.replayed,
        schema_changes: replayed.schema_changes,
        left_out: replayed.left_out,
        torn: end.torn.clone(),
        survey_us: (surveyed_ns - began_ns) / 1000,
        replay_us: (clock::monotonic_ns() - surveyed_ns) / 1000,
    };
    let sequences = outcome.tails.iter().map(|tail| tail.sequence).collect();
    Ok(Recovered { state, last_multi: outcome.last_multi, end, sequences, summary })
}

/// Reads the whole log once.
fn survey(log: &DiskLog<'_>, partitions: u32) -> Result<(Outcome, LogEnd), String> {
    let mut reader = open(log)?;
    let mut survey = Survey::new(&vec![0; partitions as usize]);
    if let Some(last) = log.until {
        survey.stop_behind(last);
    }
    while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
        if block.partition >= partitions {
            return Err(format!(
                "the command log has entries of partition {}, and the host has {partitions} \
                 partitions",
                block.partition
            ));
        }
        let position = block.position;
        let read = survey.read(PartitionId(block.partition), block.body);
        read.map_err(|error| {
            format!("segment {}, block at byte {}: {error}", position.segment, position.offset)
        })?;
    }
    Ok((survey.finish(), reader.into_end()))
}

fn open(log: &DiskLog<'_>) -> Result<LogReader, String> {
    LogReader::open(Arc::clone(log.disk), log.cluster).map_err(|error| error.to_string())
}

fn sources(log: &DiskLog<'_>, partitions: u32) -> Result<Vec<Box<dyn PartitionSource>>, String> {
    let source = |partition| {
        let reader = open(log)?.of_partition(partition);
        Ok(Box::new(DiskSource { reader }) as Box<dyn PartitionSource>)
    };
    (0..partitions).map(source).collect()
}

/// The blocks of one partition.
struct DiskSource {
    reader: LogReader,
}

impl PartitionSource for DiskSource {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let block = self.reader.next_block().map_err(|error| error.to_string())?;
        Ok(block.map(|block| block.body))
    }
}
