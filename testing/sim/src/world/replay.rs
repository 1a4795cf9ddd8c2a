//! Recovery of a simulated host: the survey of its log, and its entries run again by the
//! functions of sites that ran them first. All partitions are replayed up to the next change of
//! the catalog, which is made at all of them then, as a host's recovery does it.

use super::load::{load_partition, saved_catalog};
use super::log::CLUSTER;
use super::{Shape, SimSite, World};
use crate::plans::{Change, Made, SimCatalog, Sql};
use crate::power::Skip;
use lockstep_base::bytes::ByteReader;
use lockstep_durability::command_log::{LogEnd, LogError, LogFaults, LogPosition, LogReader};
use lockstep_durability::recovery::{
    BeginFault, Candidate, ChangedVotes, Outcome, Survey, begin_with_first, candidates,
    check_reach, survey_log,
};
use lockstep_durability::snapshot::{Manifest, PartitionPosition};
use lockstep_env::Disk;
use lockstep_exec::PreparedStatement;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::procedure::PreparedProcedure;
use lockstep_site::{
    BoundStatement, Coordinator, FragmentPart, FragmentTask, SchemaTask, StatementCall,
    change_quiet_sites,
};
use lockstep_txn::log_entry::{
    Entry, EntryBody, EntryError, FragmentsEntry, LoggedPart, LoggedStatement, PartKind,
    StatementSource, Vote,
};
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{
    Datum, Parameter, ParameterSet, PartitionId, SqlType, TableView, TransactionId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries between two looks after the tables.
const ENTRIES_A_MAINTENANCE: u64 = 64;

/// A host as its disk has it.
pub(crate) struct Recovered {
    pub(crate) world: World,
    /// Where the log ends, and the last entry of each partition.
    pub(crate) end: (LogEnd, Vec<u64>),
    /// Entries that ran again.
    pub(crate) replayed: u64,
    /// Transactions that were left out.
    pub(crate) left_out: usize,
    /// Calls at one partition that failed or were withdrawn.
    pub(crate) void_calls: usize,
    /// How often replay began anew, because a yes could not be repeated.
    pub(crate) restarts: u64,
    /// Votes that changed in the log.
    pub(crate) changed_votes: ChangedVotes,
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

/// Why an entry does not run again.
enum Fault {
    /// It cannot be read, or names what is not there.
    Unsound(String),
    /// A part of a transaction fails.
    Fails(String),
    /// A yes cannot be repeated behind what was left out.
    NotCommitted(TransactionId),
}

impl From<EntryError> for Fault {
    fn from(error: EntryError) -> Fault {
        Fault::Unsound(error.reason)
    }
}

impl HostDisk {
    fn open(&self) -> Result<LogReader, String> {
        let reader = LogReader::open(Arc::clone(&self.disk), CLUSTER);
        let mut reader = reader.map_err(|error| error.to_string())?;
        reader.inject(self.faults);
        Ok(reader)
    }

    /// The snapshots of the disk that recovery could begin with.
    pub(crate) fn candidates(&self, partitions: u32) -> Result<Vec<Candidate>, String> {
        candidates(&*self.disk, CLUSTER, partitions).map_err(|error| error.to_string())
    }

    /// Brings back what the disk has.
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
        let sound = found.iter().filter_map(|one| one.manifest.as_ref().ok());
        let sources = sound.flat_map(|manifest| &manifest.positions).map(|place| place.source);
        let last_source = sources.max().unwrap_or_default();
        let (mut recovered, problems) = begin_with_first(found, |manifest, passed| {
            let nothing = vec![PartitionPosition::default(); shape.partitions as usize];
            let behind = manifest.map_or(&nothing, |manifest| &manifest.positions);
            let sequences: Vec<u64> = behind.iter().map(|place| place.sequence).collect();
            let survey = Survey::new(&sequences);
            let surveyed = survey_log(&*self.disk, || self.open(), survey, behind, manifest)?;
            let (mut outcome, end) = (surveyed.outcome, surveyed.end);
            check_reach(&*self.disk, manifest, passed, &outcome, &end)?;
            outcome.raise_source(last_source);
            if let Some(manifest) = manifest {
                let snapshot = TransactionId(manifest.transaction as u64);
                outcome.last_multi = outcome.last_multi.max(snapshot);
            }
            self.bring_back((manifest, &sequences), (outcome, end), (seed, shape))
        })?;
        recovered.passed_over = problems.len() as u64;
        Ok(recovered)
    }

    /// Loads a snapshot, if there is one, and runs the entries behind these numbers again.
    fn bring_back(
        &self,
        (manifest, behind): (Option<&Manifest>, &[u64]),
        (mut outcome, end): (Outcome, LogEnd),
        (seed, shape): (u64, Shape),
    ) -> Result<Recovered, BeginFault> {
        let mut restarts = 0;
        loop {
            let mut world = World::new(seed, shape);
            if let Some(manifest) = manifest {
                let loaded = world.load(&*self.disk, manifest);
                loaded.map_err(|problem| BeginFault::Snapshot(Some(problem)))?;
            }
            match world.replay(self, (behind, end.position), &outcome) {
                Ok(replayed) => {
                    let sequences = outcome.tails.iter().map(|tail| tail.sequence).collect();
                    return Ok(Recovered {
                        world,
                        end: (end, sequences),
                        replayed,
                        left_out: outcome.left_out(),
                        void_calls: outcome.void_calls(),
                        restarts,
                        changed_votes: outcome.changed_votes,
                        from_snapshot: manifest.is_some(),
                        passed_over: 0,
                    });
                }
                Err(Fault::NotCommitted(transaction)) if !self.replays_all => {
                    restarts += 1;
                    outcome.leave_out(transaction);
                }
                Err(Fault::NotCommitted(transaction)) => {
                    let problem = format!("transaction {transaction:?} cannot be repeated");
                    return Err(BeginFault::Log(problem));
                }
                Err(Fault::Unsound(problem) | Fault::Fails(problem)) => {
                    return Err(BeginFault::Log(problem));
                }
            }
        }
    }
}

impl World {
    /// Goes on from a snapshot.
    fn load(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), String> {
        let catalog = saved_catalog(disk, manifest, &self.natives)?;
        if let Some(made) = catalog {
            self.change_at_rest(made, manifest.created_ms * 1_000)?;
        }
        let version = manifest.catalog_version;
        let last = TransactionId(manifest.transaction as u64);
        for (place, site) in self.sites.iter_mut().enumerate() {
            load_partition(disk, manifest, place as u32, site.database_mut())?;
            let PartitionPosition { source, sequence, .. } = manifest.positions[place];
            site.go_on_behind((source, sequence), last, version);
        }
        Ok(())
    }

    /// Puts another catalog in force where nothing else goes on.
    fn change_at_rest(&mut self, made: Made, now_us: i64) -> Result<(), String> {
        let Made { catalog, changes, swap } = made;
        let version = catalog.host.plan.version;
        let task = SchemaTask {
            changes,
            swap,
            snapshot: None,
            catalog: version,
            catalog_version: version,
            source: Arc::default(),
            advice: None,
        };
        let coordinator = Coordinator::new(self.ring.clone(), &self.limits);
        let mut sites: Vec<&mut SimSite> = self.sites.iter_mut().collect();
        change_quiet_sites(&mut sites, coordinator, task, now_us)?;
        self.catalogs = BTreeMap::from([(version, catalog)]);
        self.versions.fill(version);
        Ok(())
    }

    fn replay(
        &mut self,
        disk: &HostDisk,
        (behind, end): (&[u64], LogPosition),
        outcome: &Outcome,
    ) -> Result<u64, Fault> {
        self.sites.iter_mut().for_each(SimSite::begin_replay);
        let mut partitions = Vec::new();
        for (place, behind) in behind.iter().enumerate() {
            let partition = PartitionId(place as u32);
            let reader = disk.open().map_err(Fault::Unsound)?.of_partition(partition.0);
            let log = PartitionLog { reader, end, piece: Vec::new(), is_done: true, done: *behind };
            partitions.push((partition, log, false));
        }
        let mut replayed = 0;
        loop {
            let stops = self.replay_to_change(disk, &mut partitions, outcome, &mut replayed)?;
            let Some(first) = stops.iter().flatten().map(|stop| stop.header.transaction).min()
            else {
                break;
            };
            let stands = |stop: &Option<Stop>| {
                stop.as_ref().is_some_and(|stop| stop.header.transaction == first)
            };
            if !stops.iter().all(stands) {
                let problem = format!("change {first:?} of the catalog is not in all logs");
                return Err(Fault::Unsound(problem));
            }
            let Some(Some(stop)) = stops.into_iter().next() else { break };
            if disk.skips != Some(Skip::SchemaChanges) || self.latest().0 <= 1 {
                self.change_again(&stop, disk.skips)?;
            }
            replayed += 1;
        }
        let version = self.latest().0;
        for (site, tail) in self.sites.iter_mut().zip(&outcome.tails) {
            let last = tail.transaction.max(outcome.last_multi);
            site.go_on_behind((outcome.next_source(), tail.sequence), last, version);
        }
        self.coordinator = Coordinator::new(self.ring.clone(), &self.limits);
        self.coordinator.go_on_behind(outcome.last_multi, version);
        self.natives.serve();
        Ok(replayed)
    }

    /// Makes a change of the catalog that the log has.
    fn change_again(&mut self, stop: &Stop, skips: Option<Skip>) -> Result<(), Fault> {
        let change = Change::decode(&stop.source);
        let change = change.ok_or_else(|| Fault::Unsound("no change of a catalog".to_string()))?;
        let change = match (change, self.latest().1.classes()) {
            (Change::Classes(_), Some(old)) if skips == Some(Skip::Classes) => Change::Classes(old),
            (change, _) => change,
        };
        let mut made = self.latest().1.make(&change, &self.natives);
        if skips == Some(Skip::Swaps) {
            made.swap = None;
        }
        if made.catalog.host.plan.version != stop.catalog_version {
            return Err(Fault::Unsound(format!("{change:?} makes another version than before")));
        }
        self.change_at_rest(made, stop.header.timestamp_us).map_err(Fault::Fails)
    }

    /// Replays every partition up to its next change of the catalog, or its end.
    fn replay_to_change(
        &mut self,
        disk: &HostDisk,
        partitions: &mut [(PartitionId, PartitionLog, bool)],
        outcome: &Outcome,
        replayed: &mut u64,
    ) -> Result<Vec<Option<Stop>>, Fault> {
        let catalog = self.catalogs.last_entry().expect("there is always a catalog").into_mut();
        let (mut stops, mut unrepeatable, mut stopped) = (Vec::new(), None, None);
        let (partition_count, now_us) = (self.sites.len() as u32, self.now_us);
        for (site, (partition, log, left_out)) in self.sites.iter_mut().zip(partitions) {
            let mut replay = PartitionReplay {
                partition: *partition,
                site,
                catalog,
                left_out: *left_out,
                replays_all: disk.replays_all,
                runs_failed_writes: disk.runs_failed_writes,
                skips: disk.skips,
                partition_count,
                now_us,
                replayed: 0,
            };
            match replay.run(log, outcome) {
                Ok(stop) => stops.push(stop),
                Err(Fault::NotCommitted(transaction)) => unrepeatable = Some(transaction),
                Err(fault) => stopped = Some(fault),
            }
            *left_out = replay.left_out;
            *replayed += replay.replayed;
        }
        // What is to be left out may be why another partition fails.
        match unrepeatable.map(Fault::NotCommitted).or(stopped) {
            Some(fault) => Err(fault),
            None => Ok(stops),
        }
    }
}

/// A change of the catalog that a partition's log has next.
struct Stop {
    header: EntryHeader,
    catalog_version: u64,
    source: Vec<u8>,
}

/// How far the log of a partition is read.
struct PartitionLog {
    reader: LogReader,
    /// What stands here or behind is not of the log: such a reader does not stop at a torn block of
    /// another partition.
    end: LogPosition,
    /// The block that is replayed.
    piece: Vec<u8>,
    is_done: bool,
    /// The number of the last entry that is done.
    done: u64,
}

/// A partition whose entries run again.
struct PartitionReplay<'a> {
    partition: PartitionId,
    site: &'a mut SimSite,
    catalog: &'a mut SimCatalog,
    /// Parts of transactions were left out: what ran behind them may have ended otherwise.
    left_out: bool,
    /// A fault: what was not committed runs again too.
    replays_all: bool,
    /// A fault: writes that failed where they ran first run again.
    runs_failed_writes: bool,
    /// A fault: entries that do not run again.
    skips: Option<Skip>,
    partition_count: u32,
    /// For a fault: what the clock says.
    now_us: i64,
    replayed: u64,
}

impl PartitionReplay<'_> {
    /// Replays up to the next change of the catalog; `None` at the end of the log.
    fn run(&mut self, log: &mut PartitionLog, outcome: &Outcome) -> Result<Option<Stop>, Fault> {
        let failed = |error: LogError| Fault::Unsound(error.to_string());
        loop {
            if log.is_done {
                let block = log.reader.next_block().map_err(failed)?;
                let Some(block) = block.filter(|block| block.position < log.end) else {
                    return Ok(None);
                };
                log.piece.clear();
                log.piece.extend_from_slice(block.body);
            }
            let stop = self.run_piece(&log.piece, &mut log.done, outcome)?;
            log.is_done = stop.is_none();
            if stop.is_some() {
                return Ok(stop);
            }
        }
    }

    fn run_piece(
        &mut self,
        piece: &[u8],
        done: &mut u64,
        outcome: &Outcome,
    ) -> Result<Option<Stop>, Fault> {
        let mut entries = EntryReader::new(piece);
        while let Some(entry) = entries.read()? {
            if entry.sequence <= *done
                || outcome.is_replaced(self.partition, entries.source(), entry.sequence)
            {
                continue;
            }
            assert_eq!(entry.sequence, *done + 1, "the survey found no gap");
            *done = entry.sequence;
            let transaction = entry.header.transaction;
            let failed = outcome.is_void(self.partition, transaction);
            let is_broken = self.replays_all || (failed && self.runs_failed_writes);
            if !outcome.replays(self.partition, transaction) && !is_broken {
                self.left_out |= transaction.partition() == PartitionId::MULTI;
                continue;
            }
            if let EntryBody::Schema { catalog_version, change } = entry.body {
                let (header, source) = (entry.header, change.to_vec());
                return Ok(Some(Stop { header, catalog_version, source }));
            }
            match self.run_entry(&entry) {
                Err(Fault::Fails(_)) if self.left_out => {
                    return Err(Fault::NotCommitted(transaction));
                }
                Err(Fault::Fails(problem) | Fault::Unsound(problem)) => {
                    let partition = self.partition;
                    let problem = format!("partition {partition}, entry {done}: {problem}");
                    return Err(Fault::Unsound(problem));
                }
                other => other?,
            }
            self.replayed += 1;
            if entry.sequence.is_multiple_of(ENTRIES_A_MAINTENANCE) {
                self.site.maintain();
            }
        }
        Ok(None)
    }

    fn run_entry(&mut self, entry: &Entry<'_>) -> Result<(), Fault> {
        let header = EntryHeader { repeated: true, ..entry.header };
        let mut results = Vec::new();
        match &entry.body {
            EntryBody::Command(command) => {
                let procedure = self.procedure(command.procedure)?;
                let (parameters, addressed) = (&command.parameters, command.addresses_partition);
                // That it fails as it failed before is its result.
                self.site.call(&header, &procedure, 0, parameters, addressed, &mut results);
            }
            EntryBody::Statements => {
                let mut statements = Vec::new();
                for statement in entry.statements() {
                    statements.push(self.bind(&statement?, &[])?);
                }
                let call =
                    StatementCall { statements, read_only: false, counted: true, answer: None };
                self.site.statements(&header, &call, &mut results);
            }
            EntryBody::Fragments(fragments) => self.run_fragments(&header, fragments)?,
            EntryBody::Call(call) => {
                let procedure = self.procedure(call.procedure)?;
                let ran =
                    self.site.replay_one_round(&header, &procedure, call.home, call.parameters);
                ran.map_err(|failure| Fault::Fails(failure.message))?;
            }
            EntryBody::Vote(_) | EntryBody::Commit | EntryBody::Abort | EntryBody::Withdrawn => {}
            EntryBody::Snapshot(_) | EntryBody::Schema { .. } => {}
            EntryBody::Load(_) if self.skips == Some(Skip::Loads) => {}
            EntryBody::Effects(_) if self.skips == Some(Skip::Effects) => {}
            EntryBody::Load(load) => {
                let statement = self.catalog.load_statement(load.procedure);
                let statement = statement.ok_or_else(|| no_procedure(load.procedure))?;
                let rows = TableView::read(&mut ByteReader::new(load.rows));
                let rows = rows.map_err(|error| Fault::Unsound(error.to_string()))?;
                self.site.load(&header, &statement, &rows, &mut results);
            }
            EntryBody::Effects(images) => {
                let made = self.site.replay_effects(&header, images);
                made.map_err(|failure| Fault::Unsound(failure.message))?;
            }
        }
        Ok(())
    }

    fn procedure(&self, name: &str) -> Result<Arc<PreparedProcedure>, Fault> {
        let found = self.catalog.find(name).map(Arc::clone);
        found.ok_or_else(|| no_procedure(name))
    }

    fn run_fragments(
        &mut self,
        header: &EntryHeader,
        fragments: &FragmentsEntry<'_>,
    ) -> Result<(), Fault> {
        let is_last = self.partition.0 + 1 == self.partition_count;
        let (mut entries, mut tasks) = (Vec::new(), Vec::new());
        for part in fragments.parts() {
            match part? {
                LoggedPart::Entries { removed, added } => entries.push(PartitionEntries {
                    partition: self.partition,
                    removed: removed.to_vec(),
                    added: added.to_vec(),
                }),
                LoggedPart::Statement { kind, statement, shipped } => {
                    let bound = self.bind(&statement, shipped)?;
                    let planned = bound.statement.statement();
                    let is_skipped = self.skips == Some(Skip::ReplicatedWritesOfOne)
                        && is_last
                        && planned.text.starts_with(Skip::REPLICATED);
                    if is_skipped {
                        continue;
                    }
                    tasks.push(FragmentTask { bound, part: part_of(kind) });
                }
            }
        }
        // The partition said no when it ran first, and yes when it ran again.
        self.left_out |= fragments.vote == Vote::No;
        let ran = self.site.replay_round(header, &entries, &tasks);
        ran.map_err(|failure| Fault::Fails(failure.message))
    }

    fn bind(
        &mut self,
        logged: &LoggedStatement<'_>,
        shipped: &[u8],
    ) -> Result<BoundStatement, Fault> {
        let statement = self.statement(&logged.source)?;
        let shipped = (!shipped.is_empty()).then(|| {
            let mut rows = vec![Vec::new(); self.partition.index() + 1];
            rows[self.partition.index()] = shipped.to_vec();
            Arc::new(rows)
        });
        let parameters = match self.skips {
            Some(Skip::CutOffs) => self.with_clock(logged)?,
            _ => Arc::from(logged.parameters),
        };
        Ok(BoundStatement { statement, parameters, shipped, found: None, profile: None })
    }

    /// A fault: rows go up to a time by the clock, not up to that of the entry.
    fn with_clock(&self, logged: &LoggedStatement<'_>) -> Result<Arc<[u8]>, Fault> {
        let StatementSource::Text { text, .. } = logged.source else {
            return Ok(Arc::from(logged.parameters));
        };
        let set = ParameterSet::new(logged.parameters);
        let set = set.map_err(|error| Fault::Unsound(error.to_string()))?;
        match (self.catalog.host.plan.expire_of_text(text), set.get(1)) {
            (Some(_), Some(Ok(Parameter::Scalar(sql_type, rows)))) => {
                let mut writer = ParameterWriter::default();
                let cut_off = Datum::Timestamp(self.now_us - 1_000_000);
                writer.scalar(SqlType::Timestamp, cut_off).scalar(sql_type, rows);
                Ok(Arc::from(writer.bytes()))
            }
            _ => Ok(Arc::from(logged.parameters)),
        }
    }

    fn statement(&mut self, source: &StatementSource<'_>) -> Result<Arc<PreparedStatement>, Fault> {
        match *source {
            StatementSource::Procedure { name, number } => {
                let Some(procedure) = self.catalog.find(name) else {
                    return self.catalog.load_statement(name).ok_or_else(|| no_procedure(name));
                };
                procedure.statements().get(number as usize).cloned().ok_or_else(|| {
                    Fault::Unsound(format!("there is no statement {number} of procedure {name}"))
                })
            }
            StatementSource::Text { text, .. } => {
                let plan = &self.catalog.host.plan;
                match plan.cover_of_text(text).or_else(|| plan.expire_of_text(text)) {
                    Some(own) => {
                        let partitions = self.partition_count;
                        Ok(Arc::new(PreparedStatement::for_partitions(own, partitions)))
                    }
                    None => Ok(self.catalog.prepare(&Sql::from(text))),
                }
            }
        }
    }
}

fn no_procedure(name: &str) -> Fault {
    Fault::Unsound(format!("there is no procedure {name}"))
}

fn part_of(kind: PartKind) -> FragmentPart {
    match kind {
        PartKind::Whole => FragmentPart::Whole,
        PartKind::Home { addresses_partition } => FragmentPart::Home { addresses_partition },
        PartKind::Entry(number) => FragmentPart::Entry(number as usize),
        PartKind::Fragment(number) => FragmentPart::Fragment(number as usize),
        PartKind::Apply => FragmentPart::Apply,
        PartKind::Load => FragmentPart::Load,
    }
}
