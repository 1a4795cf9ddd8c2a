//! Recovery: the entries of a log run again, so that a host has what it had.
//!
//! [`replay`] takes what a survey of the log found ([`lockstep_durability::recovery`]) and the
//! entries of each partition. All partitions are replayed at the same time, each on a thread of
//! its own, up to the next change of the catalog; that is made by the control thread's code and
//! carried out by a coordinator at all of them, and then they go on. Everything runs through the
//! functions that ran it first, so the same state comes out, slot by slot. A host begins with the
//! newest snapshot that is sound, and replays what its log has behind that.

mod disk;
mod partition;
mod restore;
mod snapshot;

pub(crate) use disk::{DiskLog, Recovered, recover};
pub use disk::{RecoveryProgress, RecoverySummary};
pub use lockstep_durability::recovery::PointTarget;
pub use partition::{LogPieces, PartitionSource};
pub(crate) use restore::RESTORED_PREFIX;
pub use restore::{RestoreSettings, RestoreSummary, TakenBack, restore, take_back};
pub use snapshot::SnapshotSummary;

use crate::catalog::{HostCatalog, NativeRegistry};
use crate::control::change::{ChangeSettings, decode, make_change};
use crate::options::Options;
use lockstep_durability::recovery::Outcome;
use lockstep_jvm::JavaSettings;
use lockstep_plan::Catalog;
use lockstep_site::{Coordinator, SchemaTask, Site, SnapshotBegun, change_quiet_sites};
use lockstep_types::{HashRing, PartitionId, TransactionId};
use partition::{PartitionReplay, Stop};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Why replay ends before the log does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayError {
    /// A partition that had said yes to a transaction cannot repeat its part, behind what turned
    /// out to be aborted: it would have said no next. Replay is to begin anew without it.
    NotCommitted(TransactionId),
    /// Replay cannot go on.
    Stopped(String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::NotCommitted(transaction) => {
                write!(f, "transaction {} was not committed", transaction.0)
            }
            ReplayError::Stopped(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for ReplayError {}

/// A host's state that replay goes on from, or ends with. `H` and `A` are those of the sites.
pub struct HostState<H, A> {
    /// The catalog in force.
    pub catalog: Arc<HostCatalog>,
    /// By partition.
    pub sites: Vec<Site<H, A, Arc<HostCatalog>>>,
}

/// What replay is done with.
pub struct ReplaySettings<'a> {
    /// What `FROM NATIVE` finds.
    pub natives: &'a NativeRegistry,
    /// The options of the host.
    pub options: &'a Options,
    /// How the JVM is started, if there are classes.
    pub java: JavaSettings,
    /// Which partition owns which value.
    pub ring: &'a HashRing,
    /// Grows with the entries that were gone through.
    pub progress: &'a AtomicU64,
}

impl<H, A> HostState<H, A> {
    /// A host without tables.
    ///
    /// # Errors
    /// None at present: an empty catalog can always be prepared.
    pub fn empty(settings: &ReplaySettings<'_>) -> Result<HostState<H, A>, ReplayError> {
        let options = settings.options;
        let plan = Catalog { planning: options.planning(), ..Catalog::default() };
        let catalog = HostCatalog::new(plan, settings.natives)
            .map_err(|error| ReplayError::Stopped(error.to_string()))?;
        let limits = crate::catalog::site_limits(options);
        let site = |partition| Site::new(PartitionId(partition), settings.ring.clone(), &limits);
        let sites = (0..settings.ring.partition_count()).map(site).collect();
        Ok(HostState { catalog: Arc::new(catalog), sites })
    }
}

/// What replay did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Entries that ran again.
    pub replayed: u64,
    /// Changes of the catalog among them, each counted once.
    pub schema_changes: u64,
    /// Entries of what was not committed, or withdrawn.
    pub left_out: u64,
}

/// Replays the entries of all partitions onto a state; `sources` are by partition, and begin
/// where the state stands.
///
/// # Errors
/// See [`ReplayError`]; the state is void then.
pub fn replay<H: Send, A: Send>(
    state: HostState<H, A>,
    sources: Vec<Box<dyn PartitionSource>>,
    outcome: &Outcome,
    settings: &ReplaySettings<'_>,
) -> Result<(HostState<H, A>, ReplaySummary), ReplayError> {
    assert_eq!(state.sites.len(), sources.len(), "each partition has a log");
    let HostState { mut catalog, sites } = state;
    let partitions = sites.into_iter().zip(sources).enumerate();
    let mut partitions: Vec<PartitionReplay<H, A>> = partitions
        .map(|(number, (site, source))| {
            PartitionReplay::new(PartitionId(number as u32), site, source)
        })
        .collect();
    let mut summary = ReplaySummary::default();
    loop {
        let stops = run_all(&mut partitions, &catalog, outcome, settings)?;
        let change = stops.into_iter().flatten().reduce(|first, next| {
            // The partitions stand at the same change, unless a log was cut before it.
            if next.header.transaction < first.header.transaction { next } else { first }
        });
        let Some(change) = change else { break };
        let missing = partitions.iter().find(|partition| !partition.stands_at(&change.header));
        if let Some(partition) = missing {
            return Err(ReplayError::Stopped(format!(
                "the log of partition {} ends before a change of the catalog (transaction {}) \
                 that other partitions have: its last entries are missing",
                partition.partition(),
                change.header.transaction.0
            )));
        }
        catalog = apply_change(&mut partitions, &catalog, &change, settings)?;
        summary.schema_changes += 1;
    }
    let version = catalog.version();
    let mut sites = Vec::with_capacity(partitions.len());
    for (partition, tail) in partitions.into_iter().zip(&outcome.tails) {
        let (mut site, counts) = partition.finish();
        summary.replayed += counts.replayed;
        summary.left_out += counts.left_out;
        let (source, last) = (outcome.next_source(), tail.transaction.max(outcome.last_multi));
        site.go_on_behind((source, tail.sequence), last, version);
        sites.push(site);
    }
    Ok((HostState { catalog, sites }, summary))
}

/// Replays every partition up to its next change of the catalog, or its end.
fn run_all<H: Send, A: Send>(
    partitions: &mut [PartitionReplay<H, A>],
    catalog: &HostCatalog,
    outcome: &Outcome,
    settings: &ReplaySettings<'_>,
) -> Result<Vec<Option<Stop>>, ReplayError> {
    let ended = std::thread::scope(|scope| {
        let spawn = |partition| {
            let partition: &mut PartitionReplay<H, A> = partition;
            std::thread::Builder::new()
                .name(format!("replay {}", partition.partition()))
                .stack_size(crate::server::SITE_STACK_BYTES)
                .spawn_scoped(scope, || {
                    lockstep_jvm::lift_limits();
                    partition.run(catalog, outcome, settings)
                })
        };
        let threads: Vec<_> = partitions.iter_mut().map(spawn).collect();
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
            let stopped = |text: String| Err(ReplayError::Stopped(text));
            match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| {
                    stopped("a thread that replayed a partition panicked".to_string())
                }),
                Err(error) => stopped(format!("no thread for replay: {error}")),
            }
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    // A transaction that is to be left out may be why another partition fails.
    let is_other = |end: &Result<_, ReplayError>| matches!(end, Err(ReplayError::Stopped(_)));
    let (stopped, rest): (Vec<_>, Vec<_>) = ended.into_iter().partition(is_other);
    let stops = rest.into_iter().collect::<Result<Vec<_>, _>>()?;
    match stopped.into_iter().next() {
        Some(Err(error)) => Err(error),
        _ => Ok(stops),
    }
}

/// Makes a change of the catalog and carries it out at all partitions.
fn apply_change<H, A>(
    partitions: &mut [PartitionReplay<H, A>],
    catalog: &Arc<HostCatalog>,
    change: &Stop,
    settings: &ReplaySettings<'_>,
) -> Result<Arc<HostCatalog>, ReplayError> {
    let transaction = change.header.transaction;
    let stopped = |problem: String| {
        ReplayError::Stopped(format!(
            "the change of the catalog of transaction {} cannot be replayed: {problem}",
            transaction.0
        ))
    };
    let (logged, planning) = decode(&change.source).map_err(stopped)?;
    let change_settings = ChangeSettings {
        natives: settings.natives.clone(),
        java: settings.java.clone(),
        limits: Options::greatest_sql_limits(),
        initialize_classes: false,
    };
    let made = make_change(catalog, &change_settings, logged, &planning)
        .map_err(|failure| stopped(failure.message))?;
    if made.task.catalog_version != change.catalog_version {
        return Err(stopped(format!(
            "it makes version {} of the catalog, and made version {}",
            made.task.catalog_version, change.catalog_version
        )));
    }
    let next = Arc::clone(&made.task.catalog);
    let mut sites: Vec<_> = partitions.iter_mut().map(PartitionReplay::site).collect();
    carry_out(&mut sites, made.task, change.header.timestamp_us, None, settings)
        .map_err(stopped)?;
    partitions.iter_mut().for_each(PartitionReplay::follow_catalog);
    Ok(next)
}

/// Takes a schema change, or the beginning of a snapshot, through its rounds at all partitions, as
/// a coordinator does whose last transaction id was `behind`. Gives what began at which partition.
fn carry_out<H, A>(
    sites: &mut [&mut Site<H, A, Arc<HostCatalog>>],
    task: SchemaTask<Arc<HostCatalog>>,
    now_us: i64,
    behind: Option<TransactionId>,
    settings: &ReplaySettings<'_>,
) -> Result<Vec<(PartitionId, Box<SnapshotBegun>)>, String> {
    let limits = crate::catalog::site_limits(settings.options);
    let mut coordinator = Coordinator::new(settings.ring.clone(), &limits);
    if let Some(last) = behind {
        coordinator.go_on_behind(last, 0);
    }
    change_quiet_sites(sites, coordinator, task, now_us)
}
