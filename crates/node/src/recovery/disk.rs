//! Recovery of a host from its directory: the newest sound snapshot, what the command log says
//! behind it, and its replay.

use super::partition::PartitionSource;
use super::snapshot::{self, SnapshotSummary, Unfit};
use super::{HostState, ReplayError, ReplaySettings, replay};
use crate::clock;
use lockstep_base::elapsed::Elapsed;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{FOLDER, LogEnd, LogPosition, LogReader, TornTail};
use lockstep_durability::recovery::{
    BeginFault, Candidate, Point, Survey, Surveyed, begin_with_first, candidates, check_reach,
    survey_log,
};
use lockstep_durability::snapshot::{Manifest, PartitionPosition};
use lockstep_env::Disk;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::TransactionId;
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
    /// The snapshot that recovery began with; none if it was the log alone.
    pub snapshot: Option<SnapshotSummary>,
    /// Newer snapshots that were not used, and why: which file is damaged, where, and what can be
    /// done.
    pub passed_over: Vec<String>,
    /// Entries of the log behind what was there before.
    pub entries: u64,
    /// Their bytes.
    pub log_bytes: u64,
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
    /// By partition, the log has every entry with a greater number.
    pub(crate) log_reach: Vec<u64>,
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
            log_reach: vec![0; settings.ring.partition_count() as usize],
            summary: RecoverySummary::default(),
        })
    }
}

/// The log of a directory.
pub(crate) struct DiskLog<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) cluster: ClusterId,
    /// What is behind this point is left out.
    pub(crate) until: Option<&'a Point>,
}

/// Brings a host back from its directory: the newest snapshot that is sound, and the log behind
/// it. A damaged snapshot is passed over only if the log behind an older one has all that it had.
///
/// # Errors
/// The text for the user: which file is damaged, or which entry cannot run.
pub(crate) fn recover<H: Send, A: Send>(
    log: &DiskLog<'_>,
    settings: &ReplaySettings<'_>,
    progress: &RecoveryProgress,
) -> Result<Recovered<H, A>, String> {
    let partitions = settings.ring.partition_count();
    let found = candidates(&**log.disk, log.cluster, partitions);
    let mut found = found.map_err(|error| error.to_string())?;
    if let Some(point) = log.until {
        found.retain(|candidate| candidate.is_before(point));
    }
    let sound = found.iter().filter_map(|one| one.manifest.as_ref().ok());
    let sources = sound.flat_map(|manifest| &manifest.positions).map(|position| position.source);
    let last_source = sources.max().unwrap_or_default();
    let (mut recovered, problems) = begin_with_first(&found, |manifest, passed| {
        begin_with(log, manifest, (passed, last_source), settings, progress)
    })?;
    recovered.summary.passed_over = problems;
    Ok(recovered)
}

/// Brings a host back from a snapshot, or from nothing, and the log behind it. Snapshots that are
/// newer were passed over; `last_source` is the greatest of any snapshot.
fn begin_with<H: Send, A: Send>(
    log: &DiskLog<'_>,
    manifest: Option<&Manifest>,
    (passed, last_source): (&[&Candidate], LogSource),
    settings: &ReplaySettings<'_>,
    progress: &RecoveryProgress,
) -> Result<Recovered<H, A>, BeginFault> {
    let began_ns = clock::monotonic_ns();
    let partitions = settings.ring.partition_count();
    let nothing = vec![PartitionPosition::default(); partitions as usize];
    let behind = manifest.map_or(&nothing, |manifest| &manifest.positions);
    let sequences: Vec<u64> = behind.iter().map(|position| position.sequence).collect();
    let mut survey = Survey::new(&sequences);
    if let Some(point) = log.until {
        survey.stop_behind(point.cut.clone());
    }
    let surveyed = survey_log(&**log.disk, || open(log), survey, behind, manifest)?;
    let Surveyed { mut outcome, end, log_bytes, reach } = surveyed;
    check_reach(&**log.disk, manifest, passed, &outcome, &end)?;
    // By the clock too: a run may have left no entry, and snapshots that are gone by now.
    let started_ms = u64::try_from(clock::now_us() / 1000).unwrap_or(0);
    outcome.raise_source(last_source);
    outcome.raise_source(LogSource { incarnation: started_ms, ..outcome.last_source });
    if let Some(manifest) = manifest {
        outcome.last_multi = outcome.last_multi.max(TransactionId(manifest.transaction as u64));
    }
    let entries = outcome.tails.iter().map(|tail| tail.entries).sum();
    progress.entries.store(entries, Ordering::Relaxed);
    let surveyed_ns = clock::monotonic_ns();
    let (state, replayed, loaded) = loop {
        progress.replayed.store(0, Ordering::Relaxed);
        let sources = sources(log, partitions, end.position).map_err(BeginFault::Log)?;
        let (state, loaded) = load(log, manifest, settings)?;
        match replay(state, sources, &outcome, settings) {
            Ok((state, replayed)) => break (state, replayed, loaded),
            Err(ReplayError::Stopped(problem)) => {
                return Err(BeginFault::Log(format!(
                    "{problem}. The command log in {} was not changed; `lockstep log inspect` \
                     shows what it holds.",
                    log.disk.shown(FOLDER)
                )));
            }
            Err(ReplayError::NotCommitted(transaction)) => outcome.leave_out(transaction),
        }
    };
    let load_us = loaded.as_ref().map_or(0, |loaded| loaded.load_us);
    let replay_us = Elapsed::between_ns(surveyed_ns, clock::monotonic_ns()).us();
    let summary = RecoverySummary {
        snapshot: loaded,
        passed_over: Vec::new(),
        entries,
        log_bytes,
        replayed: replayed.replayed,
        schema_changes: replayed.schema_changes,
        left_out: replayed.left_out,
        torn: end.torn.clone(),
        survey_us: Elapsed::between_ns(began_ns, surveyed_ns).us(),
        replay_us: replay_us.saturating_sub(load_us),
    };
    let sequences = outcome.tails.iter().map(|tail| tail.sequence).collect();
    let last_multi = outcome.last_multi;
    Ok(Recovered { state, last_multi, end, sequences, log_reach: reach, summary })
}

/// What replay begins with.
fn load<H: Send, A: Send>(
    log: &DiskLog<'_>,
    manifest: Option<&Manifest>,
    settings: &ReplaySettings<'_>,
) -> Result<(HostState<H, A>, Option<SnapshotSummary>), BeginFault> {
    let Some(manifest) = manifest else {
        let state = HostState::empty(settings);
        return Ok((state.map_err(|error| BeginFault::Log(error.to_string()))?, None));
    };
    match snapshot::load(&**log.disk, manifest, settings) {
        Ok((state, loaded)) => Ok((state, Some(loaded))),
        Err(Unfit::Partial) => Err(BeginFault::Snapshot(None)),
        Err(Unfit::Damaged(problem)) => Err(BeginFault::Snapshot(Some(problem))),
    }
}

pub(super) fn open(log: &DiskLog<'_>) -> Result<LogReader, String> {
    LogReader::open(Arc::clone(log.disk), log.cluster).map_err(|error| error.to_string())
}

/// The logs of all partitions, up to where the survey found their end.
fn sources(
    log: &DiskLog<'_>,
    partitions: u32,
    end: LogPosition,
) -> Result<Vec<Box<dyn PartitionSource>>, String> {
    let source = |partition| {
        let reader = open(log)?.of_partition(partition);
        Ok(Box::new(DiskSource { reader, end }) as Box<dyn PartitionSource>)
    };
    (0..partitions).map(source).collect()
}

/// The blocks of one partition.
struct DiskSource {
    reader: LogReader,
    /// A reader of one partition passes over the blocks of others without a look at their bodies.
    /// So it does not stop at a torn one, and what stands behind that is not of the log.
    end: LogPosition,
}

impl PartitionSource for DiskSource {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let block = self.reader.next_block().map_err(|error| error.to_string())?;
        Ok(block.filter(|block| block.position < self.end).map(|block| block.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_durability::command_log::{
        BLOCK_HEADER_BYTES, LogSettings, LogWriter, SEGMENT_BYTES_MIN, file_name,
    };
    use lockstep_env::memory::MemoryDisk;

    /// A power cut tore the first block of the last group, and left the second.
    #[test]
    fn what_stands_behind_a_torn_block_of_another_partition_is_not_replayed() {
        let memory = MemoryDisk::new();
        memory.create_folder(FOLDER).expect("memory takes it");
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        let cluster = ClusterId([7; 16]);
        let settings = LogSettings { cluster, segment_bytes: SEGMENT_BYTES_MIN, seed: 1 };
        let opened = LogWriter::open(Arc::clone(&disk), settings, LogEnd::default());
        let mut writer = opened.expect("memory takes it");
        let mut torn_at = 0;
        for group in 1..=2 {
            torn_at = writer.position().offset as usize + BLOCK_HEADER_BYTES;
            let source = LogSource::of_run(1);
            writer.add(0, source, group, 1, &[group as u8; 40]);
            writer.add(1, source, group, 1, &[group as u8 + 10; 40]);
            writer.write().expect("memory takes it");
        }
        let mut bytes = memory.bytes(&file_name(1)).expect("it is there");
        bytes[torn_at] ^= 1;
        memory.replace(&file_name(1), bytes);

        let log = DiskLog { disk: &disk, cluster, until: None };
        let mut reader = open(&log).expect("it is sound");
        while reader.next_block().expect("it is sound").is_some() {}
        let end = reader.into_end();
        assert!(end.torn.is_some());
        let mut sources = sources(&log, 2, end.position).expect("it is sound");
        for (source, body) in sources.iter_mut().zip([[1; 40], [11; 40]]) {
            assert_eq!(source.next().expect("it is sound"), Some(&body[..]));
            assert_eq!(source.next().expect("it is sound"), None);
        }
    }
}
