//! Recovery of a simulated host: the survey of its log, and its entries run again by the
//! functions of sites that ran them first. The schema is fixed from the beginning, so nothing of
//! a host's control thread is needed.

use super::log::CLUSTER;
use super::{Shape, SimSite, World};
use crate::plans::{SimCatalog, Sql};
use lockstep_durability::command_log::{LogEnd, LogError, LogFaults, LogReader};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::recovery::{
    BeginFault, Candidate, Outcome, Survey, begin_with_first, candidates, check_reach, survey_log,
};
use lockstep_durability::snapshot::{
    ColumnHead, Manifest, PartitionPosition, RowsReader, SnapshotError,
};
use lockstep_env::Disk;
use lockstep_exec::PreparedStatement;
use lockstep_exec::database::Database;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::procedure::PreparedProcedure;
use lockstep_exec::snapshot::{DatabaseRestore, RestoreFault, SavedTable};
use lockstep_site::{BoundStatement, Coordinator, FragmentPart, FragmentTask, StatementCall};
use lockstep_storage::ColumnLayout;
use lockstep_txn::log_entry::{
    Entry, EntryBody, EntryError, FragmentsEntry, LoggedPart, LoggedStatement, PartKind,
    StatementSource, Vote,
};
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{PartitionId, TableId, TransactionId};
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
    /// How often replay began anew, because a yes could not be repeated.
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
    pub(crate) fn recover(
        &self,
        seed: u64,
        shape: Shape,
        schema: &str,
    ) -> Result<Recovered, String> {
        self.recover_with(&self.candidates(shape.partitions)?, seed, shape, schema)
    }

    /// The same, beginning with one of these snapshots, or with the log alone.
    pub(crate) fn recover_with(
        &self,
        found: &[Candidate],
        seed: u64,
        shape: Shape,
        schema: &str,
    ) -> Result<Recovered, String> {
        let sound = found.iter().filter_map(|one| one.manifest.as_ref().ok());
        let epochs = sound.flat_map(|manifest| &manifest.positions).map(|place| place.epoch);
        let last_epoch = epochs.max().unwrap_or(0);
        let (mut recovered, problems) = begin_with_first(found, |manifest, passed| {
            let nothing = vec![PartitionPosition::default(); shape.partitions as usize];
            let behind = manifest.map_or(&nothing, |manifest| &manifest.positions);
            let sequences: Vec<u64> = behind.iter().map(|place| place.sequence).collect();
            let reader = self.open().map_err(BeginFault::Log)?;
            let survey = Survey::new(&sequences);
            let (mut outcome, end, _) = survey_log(&*self.disk, reader, survey, behind, manifest)?;
            check_reach(&*self.disk, manifest, passed, &outcome, &end)?;
            outcome.last_epoch = outcome.last_epoch.max(last_epoch);
            if let Some(manifest) = manifest {
                let snapshot = TransactionId(manifest.transaction as u64);
                outcome.last_multi = outcome.last_multi.max(snapshot);
            }
            self.bring_back((manifest, &sequences), (outcome, end), (seed, shape, schema))
        })?;
        recovered.passed_over = problems.len() as u64;
        Ok(recovered)
    }

    /// Loads a snapshot, if there is one, and runs the entries behind these numbers again.
    fn bring_back(
        &self,
        (manifest, behind): (Option<&Manifest>, &[u64]),
        (mut outcome, end): (Outcome, LogEnd),
        (seed, shape, schema): (u64, Shape, &str),
    ) -> Result<Recovered, BeginFault> {
        let mut restarts = 0;
        loop {
            let mut world = World::new(seed, shape);
            world.schema(schema);
            if let Some(manifest) = manifest {
                let loaded = world.load(&*self.disk, manifest);
                loaded.map_err(|problem| BeginFault::Snapshot(Some(problem)))?;
            }
            match world.replay(self, behind, &outcome) {
                Ok(replayed) => {
                    let sequences = outcome.tails.iter().map(|tail| tail.sequence).collect();
                    return Ok(Recovered {
                        world,
                        end: (end, sequences),
                        replayed,
                        left_out: outcome.left_out(),
                        restarts,
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
    /// Fills the tables, which are empty, with the rows of a snapshot.
    fn load(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), String> {
        for (place, site) in self.sites.iter_mut().enumerate() {
            load_partition(disk, manifest, place as u32, site.database_mut())?;
        }
        Ok(())
    }

    fn replay(&mut self, disk: &HostDisk, behind: &[u64], outcome: &Outcome) -> Result<u64, Fault> {
        let entry = self.catalogs.last_entry().expect("there is always a catalog");
        let version = *entry.key();
        let catalog = entry.into_mut();
        let (mut replayed, mut unrepeatable, mut stopped) = (0, None, None);
        for (place, site) in self.sites.iter_mut().enumerate() {
            let partition = PartitionId(place as u32);
            let reader = disk.open().map_err(Fault::Unsound)?.of_partition(partition.0);
            let catalog = &mut *catalog;
            let mut replay = PartitionReplay {
                partition,
                site,
                catalog,
                left_out: false,
                done: behind[place],
                replays_all: disk.replays_all,
            };
            match replay.run(reader, outcome) {
                Ok(count) => replayed += count,
                Err(Fault::NotCommitted(transaction)) => unrepeatable = Some(transaction),
                Err(fault) => stopped = Some(fault),
            }
        }
        // What is to be left out may be why another partition fails.
        if let Some(fault) = unrepeatable.map(Fault::NotCommitted).or(stopped) {
            return Err(fault);
        }
        for (site, tail) in self.sites.iter_mut().zip(&outcome.tails) {
            let last = tail.transaction.max(outcome.last_multi);
            site.go_on_behind((outcome.last_epoch + 1, tail.sequence), last, version);
        }
        self.coordinator = Coordinator::new(self.ring.clone(), &self.limits);
        self.coordinator.go_on_behind(outcome.last_multi, version);
        Ok(replayed)
    }
}

fn load_partition(
    disk: &dyn Disk,
    manifest: &Manifest,
    partition: u32,
    database: &mut Database,
) -> Result<(), String> {
    let text = |error: SnapshotError| error.to_string();
    let mut reader = RowsReader::open(disk, SNAPSHOT_FOLDER, manifest, partition).map_err(text)?;
    let unfit = |fault: RestoreFault| format!("{}: {fault:?}", disk.shown(SNAPSHOT_FOLDER));
    let column = |column: &ColumnHead| ColumnLayout {
        sql_type: column.sql_type,
        max_bytes: column.max_bytes,
        nullable: column.nullable,
    };
    let saved = reader.tables().iter().map(|head| SavedTable {
        number: TableId(head.table),
        name: head.name.clone(),
        used_slots: head.used_slots,
        free_head: head.free_head,
        columns: head.columns.iter().map(column).collect(),
    });
    let saved: Vec<SavedTable> = saved.collect();
    let mut restore = DatabaseRestore::new(database, &saved).map_err(unfit)?;
    let mut records = Vec::new();
    while reader.next(&mut records).map_err(text)?.is_some() {
        restore.add(&records).map_err(unfit)?;
    }
    restore.finish(database).map_err(unfit)
}

/// A partition whose entries run again.
struct PartitionReplay<'a> {
    partition: PartitionId,
    site: &'a mut SimSite,
    catalog: &'a mut SimCatalog,
    /// Parts of transactions were left out: what ran behind them may have ended otherwise.
    left_out: bool,
    /// The number of the last entry that is done.
    done: u64,
    /// A fault: what was not committed runs again too.
    replays_all: bool,
}

impl PartitionReplay<'_> {
    fn run(&mut self, mut reader: LogReader, outcome: &Outcome) -> Result<u64, Fault> {
        let mut replayed = 0;
        let failed = |error: LogError| Fault::Unsound(error.to_string());
        while let Some(block) = reader.next_block().map_err(failed)? {
            let mut entries = EntryReader::new(block.body);
            while let Some(entry) = entries.read()? {
                if entry.sequence <= self.done {
                    continue;
                }
                assert_eq!(entry.sequence, self.done + 1, "the survey found no gap");
                self.done = entry.sequence;
                let transaction = entry.header.transaction;
                if !outcome.replays(self.partition, transaction) && !self.replays_all {
                    self.left_out |= transaction.partition() == PartitionId::MULTI;
                    continue;
                }
                match self.run_entry(&entry) {
                    Err(Fault::Fails(_)) if self.left_out => {
                        return Err(Fault::NotCommitted(transaction));
                    }
                    Err(Fault::Fails(problem) | Fault::Unsound(problem)) => {
                        let (partition, done) = (self.partition, self.done);
                        let problem = format!("partition {partition}, entry {done}: {problem}");
                        return Err(Fault::Unsound(problem));
                    }
                    other => other?,
                }
                replayed += 1;
                if entry.sequence.is_multiple_of(ENTRIES_A_MAINTENANCE) {
                    self.site.maintain();
                }
            }
        }
        Ok(replayed)
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
            EntryBody::Snapshot(_) => {}
            EntryBody::Schema { .. } | EntryBody::Load(_) | EntryBody::Effects(_) => {
                let text = format!("the workload has no entries of kind {:?}", entry.kind);
                return Err(Fault::Unsound(text));
            }
        }
        Ok(())
    }

    fn procedure(&self, name: &str) -> Result<Arc<PreparedProcedure>, Fault> {
        let found = self.catalog.find(name).map(Arc::clone);
        found.ok_or_else(|| Fault::Unsound(format!("there is no procedure {name}")))
    }

    fn run_fragments(
        &mut self,
        header: &EntryHeader,
        fragments: &FragmentsEntry<'_>,
    ) -> Result<(), Fault> {
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
        let parameters = Arc::from(logged.parameters);
        Ok(BoundStatement { statement, parameters, shipped, found: None, profile: None })
    }

    fn statement(&mut self, source: &StatementSource<'_>) -> Result<Arc<PreparedStatement>, Fault> {
        match *source {
            StatementSource::Procedure { name, number } => {
                let procedure = self.procedure(name)?;
                procedure.statements().get(number as usize).cloned().ok_or_else(|| {
                    Fault::Unsound(format!("there is no statement {number} of procedure {name}"))
                })
            }
            StatementSource::Text { text, .. } => {
                let sql: Sql = text.into();
                Ok(self.catalog.prepare(&sql))
            }
        }
    }
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
