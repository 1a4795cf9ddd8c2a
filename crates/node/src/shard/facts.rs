//! What all threads of a host share.

use super::learned::LearnedStages;
use super::leases::{LeaseTable, SiteRuns};
use super::{Departure, Drain};
use crate::callers::Callers;
use crate::catalog::{HostCatalog, java_settings};
use crate::intake::Intake;
use crate::log::{DirectoryLock, Durability};
use crate::options::Options;
use lockstep_cluster::ClusterState;
use lockstep_durability::ClusterId;
use lockstep_env::Disk;
use lockstep_host::placement::Placement;
use lockstep_host::recovery::LoggedChange;
use lockstep_host::schema::prepared::PreparedChanges;
use lockstep_host::unavailable::Unavailable;
use lockstep_jvm::JavaSettings;
use lockstep_site::SchemaTask;
use lockstep_types::{Datum, HashRing, HostId};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What all threads of a host know.
pub struct HostFacts {
    /// How far an orderly stop has come.
    pub drain: Drain,
    /// Whether the host leaves the others of its cluster on purpose.
    pub departure: Departure,
    /// The options.
    pub options: Options,
    /// Further options for the JVM.
    pub java_options: Vec<String>,
    /// The ring.
    pub ring: HashRing,
    /// Number of partitions.
    pub partition_count: u32,
    /// Each partition had one copy more than this when the cluster was made.
    pub kfactor: u8,
    /// This host.
    pub host: HostId,
    /// Which thread serves which partition.
    pub(crate) placement: CurrentPlacement,
    /// Until when this host may answer for which partition.
    pub leases: LeaseTable,
    /// The partitions that cannot be served.
    pub unavailable: Unavailable,
    /// Which sites run, and since when.
    pub(crate) site_runs: SiteRuns,
    /// The members of the cluster and their state, as the hosts agree on it; none for a host that
    /// is alone.
    pub(crate) cluster_state: Mutex<Option<Arc<ClusterState>>>,
    /// When the host's cluster was made, milliseconds since 1970: the same at all hosts once they
    /// are connected.
    pub cluster_created_ms: AtomicI64,
    /// What clients see as version.
    pub build: String,
    /// The host's own name.
    pub host_name: String,
    /// The placement group of the host.
    pub placement_group: String,
    /// Address and ports, once bound.
    pub client_address: SocketAddr,
    /// See `client_address`.
    pub admin_address: SocketAddr,
    /// The clients that may wait for calls.
    pub(crate) callers: Arc<Callers>,
    /// Connections open at the moment, over all threads.
    pub open_connections: AtomicU64,
    /// Connections accepted so far.
    pub accepted_connections: AtomicU64,
    /// Connections refused or dropped so far.
    pub dropped_connections: AtomicU64,
    /// What work is taken in.
    pub intake: Intake,
    /// Per site, memory of its tables that the next rows of the same tables fill, in bytes.
    pub reusable_bytes: Box<[AtomicU64]>,
    /// By partition, bytes of entries that its copy here has not applied.
    pub copy_backlogs: Box<[AtomicU64]>,
    /// How far the copies are that are loaded here.
    pub learned: LearnedStages,
    /// Run when an administrator asks the host to stop.
    pub on_shutdown: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Run when the other hosts have taken this one out of the cluster, and do without it.
    pub on_put_out: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Planner rules that are switched off, as a number.
    pub disabled_rules: AtomicU64,
    /// By partition, where sites leave the digests of their replicas when they stop, if they are
    /// wanted.
    pub digests: OnceLock<Vec<Mutex<ReplicaDigest>>>,
    /// See the option `multi_spin_us`.
    pub multi_spin_ns: u64,
    /// The cluster's id; zeros for a host that keeps its data in memory only.
    pub cluster: ClusterId,
    /// Where the host listens for others, if it is one of a cluster.
    pub internal_address: Option<SocketAddr>,
    /// When this run of the host began, milliseconds since 1970.
    pub started_ms: i64,
    /// The number of the run of the process in its cluster.
    pub run: AtomicU64,
    /// The host's directory, if it has one.
    pub data_disk: Option<Arc<dyn Disk>>,
    /// The lock on it, where other processes see it.
    pub data_lock: Option<Arc<DirectoryLock>>,
    /// When writes are answered.
    pub durability: Durability,
    /// Why the directory is not the host's own any more.
    pub lost: OnceLock<String>,
    /// Changes what is logged to standard error; none for a host that is part of another program.
    pub on_log_filter: OnceLock<LogFilter>,
    /// Messages between threads go through their byte form.
    pub sends_bytes: bool,
    /// What messages name that this host has prepared.
    pub prepared: Mutex<PreparedChanges<Arc<HostCatalog>>>,
}

/// What tells whether two replicas are equal, or did the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicaDigest {
    /// A hash of all rows with their slots.
    pub content: u64,
    /// The number of the last log entry.
    pub position: u64,
    /// A digest of what was done up to that entry since the process began: which statements
    /// changed rows, with their parameters and the number of changes.
    pub changes: u64,
}

/// Takes a filter for what is logged; an error says what is wrong with it.
pub type LogFilter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The placement that is in force, for threads that do no transactions.
pub(crate) struct CurrentPlacement {
    placement: Mutex<Arc<Placement>>,
    /// Its epoch, for those who need no more of it.
    epoch: AtomicU64,
}

impl CurrentPlacement {
    /// The first one.
    pub(crate) fn new(placement: Placement) -> CurrentPlacement {
        let epoch = AtomicU64::new(placement.epoch());
        CurrentPlacement { placement: Mutex::new(Arc::new(placement)), epoch }
    }
}

impl HostFacts {
    /// A change of the catalog, or a snapshot, is ready to be carried out here.
    pub fn note_prepared(&self, task: &Arc<SchemaTask<Arc<HostCatalog>>>) {
        let mut prepared = self.prepared.lock().expect("no thread panicked with it");
        prepared.add(Arc::clone(task));
    }

    /// The K in force, as far as this host knows: each partition is to have one copy more.
    pub fn k_in_force(&self) -> u8 {
        let state = self.cluster_state.lock().expect("no thread panicked with it");
        state.as_ref().map_or(self.kfactor, |state| state.shape.k)
    }

    /// Whether this host is being removed from its cluster.
    pub(crate) fn leaves(&self) -> bool {
        let state = self.cluster_state.lock().expect("no thread panicked with it");
        state.as_ref().is_some_and(|state| state.leaves(self.host))
    }

    /// The placement that is in force, as far as this host knows. Site threads have one of their
    /// own, so that it changes between two messages.
    pub fn placement(&self) -> Arc<Placement> {
        Arc::clone(&self.placement.placement.lock().expect("no thread panicked with it"))
    }

    /// The epoch of the placement that is in force. Who has a message of a thread that knows
    /// a placement finds its epoch here, or a later one.
    #[inline]
    pub fn placement_epoch(&self) -> u64 {
        self.placement.epoch.load(Ordering::Acquire)
    }

    /// Another placement is in force. Each thread hears of it by a message
    /// ([`crate::message::Envelope::Placement`]).
    pub fn set_placement(&self, placement: Arc<Placement>) {
        let mut current = self.placement.placement.lock().expect("no thread panicked with it");
        assert!(placement.epoch() > current.epoch(), "epochs ascend");
        self.placement.epoch.store(placement.epoch(), Ordering::Release);
        *current = placement;
    }

    /// A new cluster is formed, and no site runs yet: its first placement, which follows from the
    /// placement groups of all hosts.
    pub(crate) fn set_first_placement(&self, placement: Placement) {
        let mut current = self.placement.placement.lock().expect("no thread panicked with it");
        assert_eq!(placement.epoch(), current.epoch(), "no other placement was in force");
        *current = Arc::new(placement);
    }

    /// An address at which other machines reach a port that this host listens at.
    pub(crate) fn reachable(&self, address: SocketAddr) -> SocketAddr {
        match self.internal_address.filter(|_| address.ip().is_unspecified()) {
            Some(internal) => SocketAddr::new(internal.ip(), address.port()),
            None => address,
        }
    }

    /// A change of the catalog that a log has, as this host has prepared it.
    ///
    /// # Errors
    /// It has not: why.
    pub fn find_prepared(
        &self,
        change: &LoggedChange,
    ) -> Result<Arc<SchemaTask<Arc<HostCatalog>>>, String> {
        let prepared = self.prepared.lock().expect("no thread panicked with it");
        prepared.find(change.catalog_version, &change.source)
    }

    /// Whether the host keeps snapshots in its directory: it has one. One of several needs a
    /// command log beside them, by which the hosts bring their copies to the same end.
    pub fn keeps_snapshots(&self, has_log: bool) -> bool {
        self.data_disk.is_some() && (has_log || !self.keeps_own_copies())
    }

    /// Whether that host is one of several, each of which keeps snapshots of its copies.
    pub fn keeps_own_copies(&self) -> bool {
        self.data_disk.is_some() && self.internal_address.is_some()
    }

    /// The run of this process as the control plane of the cluster has it.
    pub fn run(&self) -> u64 {
        self.run.load(Ordering::Relaxed)
    }

    /// See [`HostFacts::run`].
    pub fn set_run(&self, run: u64) {
        self.run.store(run, Ordering::Relaxed);
    }

    /// The number of this run of the process.
    pub fn incarnation(&self) -> u64 {
        self.started_ms.max(1) as u64
    }

    /// The host's number, as clients see it.
    pub fn host_id(&self) -> Datum<'static> {
        Datum::Int(self.host.0.into())
    }

    /// How the JVM is started, if it is.
    pub fn java_settings(&self) -> JavaSettings {
        java_settings(&self.options, &self.java_options)
    }
}
