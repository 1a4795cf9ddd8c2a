//! Recovery: the entries of a log run again, so that a host has what it had.
//!
//! What is decided there is in [`lockstep_host::recovery`]. Here are its surroundings: a thread for
//! each partition, the files of the log and of snapshots, and changes of the catalog as the control
//! thread makes them.

mod disk;
mod restore;
mod saved_catalog;
mod snapshot;

pub(crate) use disk::{Agree, Recovered, directory_log, recover};
pub use disk::{RecoveryProgress, RecoverySummary};
pub use lockstep_durability::recovery::PointTarget;
pub use lockstep_host::recovery::{
    LogPieces, PartitionLog, ReplayError, ReplayFaults, ReplaySummary,
};
pub(crate) use restore::RESTORED_PREFIX;
pub use restore::{RestoreSettings, RestoreSummary, UndoneRestore, restore, undo_restore};
pub(crate) use saved_catalog::{SavedCatalog, SavedCatalogError};
pub use snapshot::SnapshotSummary;

use crate::catalog::{HostCatalog, NativeRegistry};
use crate::control::change::ChangeSettings;
use crate::options::Options;
use lockstep_durability::recovery::Outcome;
use lockstep_host::recovery::{LoggedChange, PartitionReplay, ReplayContext, ReplayHost, ReplayOf};
use lockstep_host::schema::change::prepare_change;
use lockstep_host::schema::codec::decode;
use lockstep_jvm::{JavaNonTransactional, JavaSettings};
use lockstep_plan::Catalog;
use lockstep_site::{Coordinator, SchemaTask, Site, SnapshotBegun, change_quiet_sites};
use lockstep_sql::Limits;
use lockstep_types::{HashRing, PartitionId, TransactionId};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A host's state that replay goes on from, or ends with. `H` and `A` are those of the sites.
pub struct HostState<H, A> {
    /// The catalog in force.
    pub catalog: Arc<HostCatalog>,
    /// By partition, those that the host has.
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
    /// By partition, whether the host has it; all where nothing is said.
    pub own: Option<&'a [bool]>,
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
        let is_own = |number: &u32| settings.own.is_none_or(|own| own[*number as usize]);
        let sites = (0..settings.ring.partition_count()).filter(is_own).map(site).collect();
        Ok(HostState { catalog: Arc::new(catalog), sites })
    }
}

/// Replays the entries of all partitions of a host onto a state; `logs` are those of its sites, and
/// have everything after it.
///
/// # Errors
/// See [`ReplayError`]; the state is void then.
pub fn replay<H: Send, A: Send>(
    state: HostState<H, A>,
    logs: Vec<Box<dyn PartitionLog + Send>>,
    outcome: &Outcome,
    settings: &ReplaySettings<'_>,
) -> Result<(HostState<H, A>, ReplaySummary), ReplayError> {
    let HostState { catalog, sites } = state;
    let mut host = ThreadedReplay {
        catalog,
        settings,
        limits: Options::greatest_sql_limits(),
        sites: PhantomData,
    };
    let logs = logs.into_iter().map(|log| CountedLog { log, progress: settings.progress });
    let (sites, summary) =
        lockstep_host::recovery::replay(&mut host, sites, logs.collect(), outcome)?;
    Ok((HostState { catalog: host.catalog, sites }, summary))
}

/// The log of a partition, whose progress somebody may watch.
struct CountedLog<'a> {
    log: Box<dyn PartitionLog + Send>,
    progress: &'a AtomicU64,
}

impl PartitionLog for CountedLog<'_> {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        self.log.next()
    }

    fn note_progress(&mut self, entries: u64) {
        self.progress.fetch_add(entries, Ordering::Relaxed);
    }
}

/// A replay whose partitions have threads.
struct ThreadedReplay<'a, H, A> {
    catalog: Arc<HostCatalog>,
    settings: &'a ReplaySettings<'a>,
    /// Of the text of statements.
    limits: Limits,
    sites: PhantomData<(H, A)>,
}

impl<'a, H: Send, A: Send> ReplayHost for ThreadedReplay<'a, H, A> {
    type Origin = H;
    type Answer = A;
    type Catalog = Arc<HostCatalog>;
    type Outside = JavaNonTransactional;
    type Log = CountedLog<'a>;

    fn catalog(&self) -> &HostCatalog {
        &self.catalog
    }

    fn run_partitions(
        &mut self,
        partitions: &mut [ReplayOf<Self>],
        outcome: &Outcome,
    ) -> Vec<Result<Option<LoggedChange>, ReplayError>> {
        let context = ReplayContext {
            catalog: &*self.catalog,
            outcome,
            limits: &self.limits,
            partition_count: self.settings.ring.partition_count(),
        };
        run_on_threads(partitions, &context)
    }

    fn make_change(
        &mut self,
        change: &LoggedChange,
    ) -> Result<Option<SchemaTask<Arc<HostCatalog>>>, String> {
        let (logged, planning) = decode(&change.source)?;
        let change_settings = ChangeSettings {
            natives: self.settings.natives.clone(),
            java: self.settings.java.clone(),
            limits: Options::greatest_sql_limits(),
            initialize_classes: false,
        };
        let made = prepare_change(&self.catalog, &change_settings, logged, &planning);
        made.map(|made| Some(made.task)).map_err(|failure| failure.message)
    }

    fn coordinator(&self) -> Coordinator<(), Arc<HostCatalog>> {
        coordinator(self.settings, None)
    }

    fn put_in_force(&mut self, catalog: Arc<HostCatalog>) {
        self.catalog = catalog;
    }
}

/// Replays every partition on a thread of its own.
fn run_on_threads<H: Send, A: Send>(
    partitions: &mut [PartitionReplay<H, A, Arc<HostCatalog>, CountedLog<'_>>],
    context: &ReplayContext<'_, JavaNonTransactional>,
) -> Vec<Result<Option<LoggedChange>, ReplayError>> {
    std::thread::scope(|scope| {
        let spawn = |partition| {
            let partition: &mut PartitionReplay<H, A, _, _> = partition;
            std::thread::Builder::new()
                .name(format!("replay {}", partition.partition()))
                .stack_size(crate::server::SITE_STACK_BYTES)
                .spawn_scoped(scope, || {
                    lockstep_jvm::lift_limits();
                    partition.run(context)
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
        threads.into_iter().map(join).collect()
    })
}

/// A coordinator of a host that serves nobody, whose last transaction id was `after`.
fn coordinator(
    settings: &ReplaySettings<'_>,
    after: Option<TransactionId>,
) -> Coordinator<(), Arc<HostCatalog>> {
    let limits = crate::catalog::site_limits(settings.options);
    let mut coordinator = Coordinator::new(settings.ring.clone(), &limits);
    if let Some(last) = after {
        coordinator.go_on_behind(last, 0);
    }
    coordinator
}

/// Takes a schema change, or the beginning of a snapshot, through its rounds at all partitions, as
/// a coordinator does whose last transaction id was `after`. Gives what began at which partition.
fn carry_out<H, A>(
    sites: &mut [&mut Site<H, A, Arc<HostCatalog>>],
    task: SchemaTask<Arc<HostCatalog>>,
    now_us: i64,
    after: Option<TransactionId>,
    settings: &ReplaySettings<'_>,
) -> Result<Vec<(PartitionId, Box<SnapshotBegun>)>, String> {
    change_quiet_sites(sites, coordinator(settings, after), task, now_us)
}
