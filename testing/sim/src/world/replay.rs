//! Recovery of a simulated host: the surroundings of the server's own recovery
//! ([`lockstep_host::recovery`]), on a disk of the simulator, with what may be broken in it.

use super::load::{load_partition, saved_catalog};
use super::log::CLUSTER;
use super::{Answer, PartitionCall, Shape, SimSite, World};
use crate::classes::SimClasses;
use crate::plans::{NoCode, SimCatalog};
use crate::power::Skip;
use lockstep_durability::command_log::{LogEnd, LogFaults, LogPosition};
use lockstep_durability::recovery::{BeginFault, Candidate, Outcome, PartitionBlocks, RecoveryLog};
use lockstep_durability::snapshot::{Manifest, PartitionPosition};
use lockstep_env::Disk;
use lockstep_host::catalog::HostCatalog;
use lockstep_host::recovery::{
    LoggedChange, PartitionLog, RecoveryHost, ReplayContext, ReplayError, ReplayFaults, ReplayHost,
    ReplayOf, ReplaySummary, recover, replay,
};
use lockstep_host::schema::change::{CatalogChange, prepare_change};
use lockstep_host::schema::codec::decode;
use lockstep_plan::Catalog;
use lockstep_site::{Coordinator, SchemaTask, change_quiet_sites};
use lockstep_sql::Limits;
use lockstep_txn::log_entry::{LoggedStatement, StatementSource};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Parameter, ParameterSet, SqlType, TransactionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A host as its disk has it.
pub(crate) struct Recovered {
    pub(crate) world: World,
    /// Where the log ends, and the last entry of each partition.
    pub(crate) end: (LogEnd, Vec<u64>),
    /// Entries that ran again.
    pub(crate) replayed: u64,
    /// What the log says of transactions and calls.
    pub(crate) outcome: Outcome,
    /// How often replay began again, because a yes could not be repeated.
    pub(crate) restarts: u64,
    /// It began with a snapshot.
    pub(crate) from_snapshot: bool,
    /// Newer snapshots that are damaged.
    pub(crate) passed_over: u64,
}

/// A host's disk, and how it is read.
pub(crate) struct HostDisk {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) faults: LogFaults,
    /// A fault: what was not committed runs again too.
    pub(crate) replays_all: bool,
    /// A fault: writes that failed where they ran first run again.
    pub(crate) runs_failed_writes: bool,
    /// A fault: entries that do not run again.
    pub(crate) skips: Option<Skip>,
}

impl HostDisk {
    fn log(&self) -> RecoveryLog<'_> {
        RecoveryLog {
            disk: &self.disk,
            cluster: CLUSTER,
            until: None,
            faults: self.faults,
            others: None,
        }
    }

    /// The snapshots of the disk that recovery could begin with.
    pub(crate) fn candidates(&self, partitions: u32) -> Result<Vec<Candidate>, String> {
        self.log().candidates(partitions).map_err(|error| error.to_string())
    }

    /// Recovers what the disk has.
    pub(crate) fn recover(&self, seed: u64, shape: Shape) -> Result<Recovered, String> {
        self.recover_with(&self.candidates(shape.partitions)?, seed, shape)
    }

    /// The same, beginning with one of these snapshots, or with the log alone.
    pub(crate) fn recover_with(
        &self,
        found: &[Candidate],
        seed: u64,
        shape: Shape,
    ) -> Result<Recovered, String> {
        let mut host = SimRecovery { disk: self, seed, shape };
        let recovered = recover(&mut host, &self.log(), shape.partitions, found, 0)?;
        let outcome = &recovered.outcome;
        // One host has one sequence of blocks: what it loses of it is its end.
        if outcome.incomplete() > 0 {
            return Err("a commit is in a log, and not all parts of its transaction".to_string());
        }
        let sequences = outcome.tails.iter().map(|tail| tail.sequence).collect();
        Ok(Recovered {
            end: (recovered.end, sequences),
            replayed: recovered.replayed.replayed,
            restarts: recovered.restarts,
            from_snapshot: recovered.from_snapshot,
            passed_over: recovered.passed_over.len() as u64,
            outcome: recovered.outcome,
            world: recovered.state,
        })
    }
}

/// The surroundings of a recovery.
struct SimRecovery<'a> {
    disk: &'a HostDisk,
    seed: u64,
    shape: Shape,
}

impl RecoveryHost for SimRecovery<'_> {
    type State = World;

    fn load(&mut self, manifest: Option<&Manifest>) -> Result<World, BeginFault> {
        let mut world = World::new(self.seed, self.shape);
        if let Some(manifest) = manifest {
            let loaded = world.load(&*self.disk.disk, manifest);
            loaded.map_err(|problem| BeginFault::Snapshot(Some(problem)))?;
        }
        Ok(world)
    }

    fn replay(
        &mut self,
        mut world: World,
        end: LogPosition,
        outcome: &Outcome,
    ) -> Result<(World, ReplaySummary), ReplayError> {
        match world.replay(self.disk, end, outcome) {
            Ok(summary) => Ok((world, summary)),
            // With this fault nothing can be left out.
            Err(ReplayError::NotCommitted(transaction)) if self.disk.replays_all => {
                let problem = format!("transaction {transaction:?} cannot be repeated");
                Err(ReplayError::Stopped(problem))
            }
            Err(error) => Err(error),
        }
    }
}

impl World {
    /// Goes on from a snapshot.
    fn load(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), String> {
        let catalog = saved_catalog(disk, manifest, &self.natives)?;
        if let Some(task) = catalog {
            let catalog = SimCatalog::of(Arc::clone(&task.catalog));
            let task = task.with_catalog(catalog.host.version());
            let coordinator = Coordinator::new(self.ring.clone(), &self.limits);
            let mut sites: Vec<&mut SimSite> = self.sites.iter_mut().collect();
            change_quiet_sites(&mut sites, coordinator, task, manifest.created_ms * 1_000)?;
            self.put_in_force(catalog);
        }
        let version = manifest.catalog_version;
        let last = TransactionId(manifest.transaction as u64);
        for (number, site) in self.sites.iter_mut().enumerate() {
            load_partition(disk, manifest, number as u32, site.database_mut())?;
            let PartitionPosition { source, sequence, digest, .. } = manifest.positions[number];
            site.go_on_behind((source, sequence), last, version);
            site.database_mut().resume_digest(digest);
        }
        Ok(())
    }

    /// Replays the log of a disk.
    fn replay(
        &mut self,
        disk: &HostDisk,
        end: LogPosition,
        outcome: &Outcome,
    ) -> Result<ReplaySummary, ReplayError> {
        let sites = std::mem::take(&mut self.sites);
        let mut logs = Vec::new();
        for partition in 0..sites.len() as u32 {
            let blocks = disk.log().partition(partition, end).map_err(ReplayError::Stopped)?;
            let is_last = partition as usize + 1 == sites.len();
            logs.push(SimLog { blocks, faults: Faults::of(disk, is_last), now_us: self.now_us });
        }
        let mut host = SimReplay { world: self, skips: disk.skips, made: None };
        let (sites, summary) = replay(&mut host, sites, logs, outcome)?;
        self.sites = sites;
        let version = self.latest().0;
        self.coordinator = Coordinator::new(self.ring.clone(), &self.limits);
        self.coordinator.go_on_behind(outcome.last_multi, version);
        self.natives.serve();
        Ok(summary)
    }

    /// Another catalog is in force at all partitions, where nothing else is in progress.
    fn put_in_force(&mut self, catalog: SimCatalog) {
        let version = catalog.host.version();
        self.restart_control(Arc::clone(&catalog.host));
        self.catalogs = BTreeMap::from([(version, catalog)]);
        self.versions.fill(version);
    }
}

/// A replay whose partitions run one after the other.
struct SimReplay<'a> {
    world: &'a mut World,
    skips: Option<Skip>,
    /// The catalog of the change that is being carried out.
    made: Option<SimCatalog>,
}

impl ReplayHost for SimReplay<'_> {
    type Origin = PartitionCall;
    type Answer = Answer;
    type Catalog = u64;
    type Outside = NoCode;
    type Log = SimLog;

    fn catalog(&self) -> &HostCatalog<NoCode> {
        &self.world.latest().1.host
    }

    fn run_partitions(
        &mut self,
        partitions: &mut [ReplayOf<Self>],
        outcome: &Outcome,
    ) -> Vec<Result<Option<LoggedChange>, ReplayError>> {
        let context = ReplayContext {
            catalog: self.catalog(),
            outcome,
            limits: &Limits::default(),
            partition_count: self.world.partition_count(),
        };
        partitions.iter_mut().map(|partition| partition.run(&context)).collect()
    }

    fn make_change(&mut self, change: &LoggedChange) -> Result<Option<SchemaTask<u64>>, String> {
        let (version, catalog) = self.world.latest();
        if self.skips == Some(Skip::SchemaChanges) && version > 1 {
            return Ok(None);
        }
        let (decoded, planning) = decode(&change.source)?;
        let old = catalog.classes().map(|version| SimClasses(version).jar());
        let decoded = match (decoded, &old) {
            (CatalogChange::Classes { removed, .. }, Some(old))
                if self.skips == Some(Skip::Classes) =>
            {
                CatalogChange::Classes { jar: Some(old), removed }
            }
            (decoded, _) => decoded,
        };
        let made = prepare_change(&catalog.host, &self.world.natives, decoded, &planning);
        let mut task = made.map_err(|failure| failure.message)?.task;
        if self.skips == Some(Skip::Swaps) {
            task.swap = None;
        }
        let catalog = SimCatalog::of(Arc::clone(&task.catalog));
        let task = task.with_catalog(catalog.host.version());
        self.made = Some(catalog);
        Ok(Some(task))
    }

    fn coordinator(&self) -> Coordinator<(), u64> {
        Coordinator::new(self.world.ring.clone(), &self.world.limits)
    }

    fn put_in_force(&mut self, version: u64) {
        let catalog = self.made.take().expect("it was made before it was carried out");
        assert_eq!(catalog.host.version(), version, "the catalog is the one that sites were given");
        self.world.put_in_force(catalog);
    }
}

/// What is broken in the replay of a partition.
#[derive(Clone, Copy)]
struct Faults {
    replays: ReplayFaults,
    /// Writes of replicated tables are lost.
    loses_replicated: bool,
    /// Rows expire up to a time by the clock, not up to that of the entry.
    takes_clock: bool,
}

impl Faults {
    fn of(disk: &HostDisk, is_last: bool) -> Faults {
        let replays = ReplayFaults {
            trusts_void_votes: false,
            commits_open: false,
            replays_uncommitted: disk.replays_all,
            replays_failed_writes: disk.runs_failed_writes,
            loses_loads: disk.skips == Some(Skip::Loads),
            loses_effects: disk.skips == Some(Skip::Effects),
        };
        Faults {
            replays,
            loses_replicated: is_last && disk.skips == Some(Skip::ReplicatedWritesOfOne),
            takes_clock: disk.skips == Some(Skip::CutOffs),
        }
    }
}

/// The log of a partition, and what is broken in its replay.
struct SimLog {
    blocks: PartitionBlocks,
    faults: Faults,
    /// What the clock says, for a fault.
    now_us: i64,
}

impl PartitionLog for SimLog {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        self.blocks.next_body().map_err(|error| error.to_string())
    }

    fn faults(&self) -> ReplayFaults {
        self.faults.replays
    }

    fn loses_part(&self, text: &str) -> bool {
        self.faults.loses_replicated && text.starts_with(Skip::REPLICATED)
    }

    fn other_parameters(&self, plan: &Catalog, logged: &LoggedStatement<'_>) -> Option<Arc<[u8]>> {
        let StatementSource::Text { text, .. } = logged.source else { return None };
        if !self.faults.takes_clock || plan.expire_of_text(text).is_none() {
            return None;
        }
        let set = ParameterSet::new(logged.parameters).ok()?;
        let Some(Ok(Parameter::Scalar(sql_type, rows))) = set.get(1) else { return None };
        let mut writer = ParameterWriter::default();
        let cut_off = Datum::Timestamp(self.now_us - 1_000_000);
        writer.scalar(SqlType::Timestamp, cut_off).scalar(sql_type, rows);
        Some(Arc::from(writer.bytes()))
    }
}
