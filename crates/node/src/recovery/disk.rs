//! Recovery of a host from the files of its directory: the newest sound snapshot, and the command
//! log after it.

use super::snapshot::{self, SnapshotSummary, Unfit};
use super::{HostState, PartitionLog, ReplayError, ReplaySettings, ReplaySummary, replay};
use crate::clock;
use crate::log::Data;
use lockstep_base::elapsed::Elapsed;
use lockstep_durability::command_log::{FOLDER, LogEnd, LogFaults, LogPosition, TornTail};
use lockstep_durability::recovery::{BeginFault, Outcome, PartitionBlocks, RecoveryLog};
use lockstep_durability::snapshot::Manifest;
use lockstep_host::recovery::RecoveryHost;
use lockstep_types::TransactionId;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far recovery has come, for those who show it.
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
    /// Entries of the log after what was there before.
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
pub(crate) fn directory_log(data: &Data) -> RecoveryLog<'_> {
    let (disk, cluster) = (&data.disk, data.cluster.cluster);
    RecoveryLog { disk, cluster, until: None, faults: LogFaults::default(), others: None }
}

/// Tells the other hosts of a cluster which transactions replay has left out, and gives theirs.
pub(crate) type Agree<'a> =
    dyn FnMut(&BTreeSet<TransactionId>) -> Result<BTreeSet<TransactionId>, String> + 'a;

/// Brings a host back from its directory: the newest snapshot that is sound, and the log after it.
///
/// # Errors
/// The text for the user: which file is damaged, or which entry cannot run.
pub(crate) fn recover<H: Send, A: Send>(
    log: &RecoveryLog<'_>,
    settings: &ReplaySettings<'_>,
    progress: &RecoveryProgress,
    agree: Option<&mut Agree<'_>>,
) -> Result<Recovered<H, A>, String> {
    let partitions = settings.ring.partition_count();
    let found = log.candidates(partitions).map_err(|error| error.to_string())?;
    let now_ns = clock::monotonic_ns();
    let mut files = Files {
        log,
        settings,
        progress,
        loaded: None,
        surveyed: Duration { from_ns: now_ns, to_ns: now_ns },
        agree,
        sites: PhantomData,
    };
    let started_ms = u64::try_from(clock::now_us() / 1000).unwrap_or(0);
    let recovered =
        lockstep_host::recovery::recover(&mut files, log, partitions, &found, started_ms)?;
    let Files { loaded, surveyed, .. } = files;
    let entries = recovered.outcome.tails.iter().map(|tail| tail.entries).sum();
    let load_us = loaded.as_ref().map_or(0, |loaded| loaded.load_us);
    let replay_us = Elapsed::between_ns(surveyed.to_ns, clock::monotonic_ns()).us();
    let replayed = recovered.replayed;
    let summary = RecoverySummary {
        snapshot: loaded,
        passed_over: recovered.passed_over,
        entries,
        log_bytes: recovered.log_bytes,
        replayed: replayed.replayed,
        schema_changes: replayed.schema_changes,
        left_out: replayed.left_out,
        torn: recovered.end.torn.clone(),
        survey_us: Elapsed::between_ns(surveyed.from_ns, surveyed.to_ns).us(),
        replay_us: replay_us.saturating_sub(load_us),
    };
    Ok(Recovered {
        state: recovered.state,
        last_multi: recovered.outcome.last_multi,
        end: recovered.end,
        sequences: recovered.outcome.tails.iter().map(|tail| tail.sequence).collect(),
        log_reach: recovered.reach,
        summary,
    })
}

/// The files of a directory that recovery reads.
struct Files<'a, 'f, H, A> {
    log: &'a RecoveryLog<'a>,
    settings: &'a ReplaySettings<'a>,
    progress: &'a RecoveryProgress,
    /// The snapshot that replay began with last.
    loaded: Option<SnapshotSummary>,
    /// When the log was read that is replayed.
    surveyed: Duration,
    /// Of a host of several.
    agree: Option<&'a mut Agree<'f>>,
    sites: PhantomData<(H, A)>,
}

/// From when to when something took place.
struct Duration {
    from_ns: u64,
    to_ns: u64,
}

impl<H: Send, A: Send> RecoveryHost for Files<'_, '_, H, A> {
    type State = HostState<H, A>;

    fn begin_survey(&mut self) {
        self.surveyed.from_ns = clock::monotonic_ns();
    }

    fn end_survey(&mut self, outcome: &Outcome) {
        let entries = outcome.tails.iter().map(|tail| tail.entries).sum();
        self.progress.entries.store(entries, Ordering::Relaxed);
        self.surveyed.to_ns = clock::monotonic_ns();
    }

    fn load(&mut self, manifest: Option<&Manifest>) -> Result<HostState<H, A>, BeginFault> {
        self.progress.replayed.store(0, Ordering::Relaxed);
        self.loaded = None;
        let Some(manifest) = manifest else {
            let state = HostState::empty(self.settings);
            return state.map_err(|error| BeginFault::Log(error.to_string()));
        };
        match snapshot::load(&**self.log.disk, manifest, self.settings) {
            Ok((state, loaded)) => {
                self.loaded = Some(loaded);
                Ok(state)
            }
            Err(Unfit::Partial) => Err(BeginFault::Snapshot(None)),
            Err(Unfit::Damaged(problem)) => Err(BeginFault::Snapshot(Some(problem))),
        }
    }

    fn replay(
        &mut self,
        state: HostState<H, A>,
        end: LogPosition,
        outcome: &Outcome,
    ) -> Result<(HostState<H, A>, ReplaySummary), ReplayError> {
        let log = |partition| {
            let blocks = self.log.partition(partition, end).map_err(ReplayError::Stopped)?;
            Ok(Box::new(DiskLog(blocks)) as Box<dyn PartitionLog + Send>)
        };
        let partitions = state.sites.iter().map(|site| site.partition().0);
        let logs: Result<Vec<_>, _> = partitions.map(log).collect();
        replay(state, logs?, outcome, self.settings).map_err(|error| match error {
            ReplayError::Stopped(problem) => ReplayError::Stopped(format!(
                "{problem}. The command log in {} was not changed; `lockstep log inspect` shows \
                 what it holds.",
                self.log.disk.shown(FOLDER)
            )),
            other => other,
        })
    }

    fn agree(
        &mut self,
        found: &BTreeSet<TransactionId>,
    ) -> Result<BTreeSet<TransactionId>, String> {
        self.agree.as_mut().map_or(Ok(BTreeSet::new()), |agree| agree(found))
    }
}

/// The blocks of one partition.
struct DiskLog(PartitionBlocks);

impl PartitionLog for DiskLog {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        self.0.next_body().map_err(|error| error.to_string())
    }
}
