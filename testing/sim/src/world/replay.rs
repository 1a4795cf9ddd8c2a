//! Recovery of a simulated host: the survey of its log, and its entries run again by the
//! functions of sites that ran them first. The schema is fixed from the beginning, so nothing of
//! a host's control thread is needed.

use super::log::CLUSTER;
use super::{Shape, SimSite, World};
use crate::plans::{SimCatalog, Sql};
use lockstep_durability::command_log::{LogEnd, LogError, LogFaults, LogReader};
use lockstep_durability::recovery::{Outcome, Survey};
use lockstep_env::Disk;
use lockstep_exec::PreparedStatement;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::procedure::PreparedProcedure;
use lockstep_site::{BoundStatement, Coordinator, FragmentPart, FragmentTask, StatementCall};
use lockstep_txn::log_entry::{
    Entry, EntryBody, EntryError, FragmentsEntry, LoggedPart, LoggedStatement, PartKind,
    StatementSource, Vote,
};
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{PartitionId, TransactionId};
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
}

/// A host's disk, and how it is read.
pub(crate) struct HostDisk {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) faults: LogFaults,
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

    fn survey(&self, partitions: u32) -> Result<(Outcome, LogEnd), String> {
        let mut reader = self.open()?;
        let mut survey = Survey::new(&vec![0; partitions as usize]);
        while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
            if block.partition >= partitions {
                return Err(format!("a block of partition {}", block.partition));
            }
            let partition = PartitionId(block.partition);
            survey.read(partition, block.body).map_err(|error| error.to_string())?;
        }
        Ok((survey.finish(), reader.into_end()))
    }

    /// Brings back what the disk has.
    pub(crate) fn recover(
        &self,
        seed: u64,
        shape: Shape,
        schema: &str,
    ) -> Result<Recovered, String> {
        let (mut outcome, end) = self.survey(shape.partitions)?;
        let mut restarts = 0;
        loop {
            let mut world = World::new(seed, shape);
            world.schema(schema);
            match world.replay(self, &outcome) {
                Ok(replayed) => {
                    let sequences = outcome.tails.iter().map(|tail| tail.sequence).collect();
                    let (end, left_out) = ((end, sequences), outcome.left_out());
                    return Ok(Recovered { world, end, replayed, left_out, restarts });
                }
                Err(Fault::NotCommitted(transaction)) => {
                    restarts += 1;
                    outcome.leave_out(transaction);
                }
                Err(Fault::Unsound(problem) | Fault::Fails(problem)) => return Err(problem),
            }
        }
    }
}

impl World {
    fn replay(&mut self, disk: &HostDisk, outcome: &Outcome) -> Result<u64, Fault> {
        let entry = self.catalogs.last_entry().expect("there is always a catalog");
        let version = *entry.key();
        let catalog = entry.into_mut();
        let (mut replayed, mut unrepeatable, mut stopped) = (0, None, None);
        for (place, site) in self.sites.iter_mut().enumerate() {
            let partition = PartitionId(place as u32);
            let reader = disk.open().map_err(Fault::Unsound)?.of_partition(partition.0);
            let catalog = &mut *catalog;
            let mut replay = PartitionReplay { partition, site, catalog, left_out: false, done: 0 };
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

/// A partition whose entries run again.
struct PartitionReplay<'a> {
    partition: PartitionId,
    site: &'a mut SimSite,
    catalog: &'a mut SimCatalog,
    /// Parts of transactions were left out: what ran behind them may have ended otherwise.
    left_out: bool,
    /// The number of the last entry that is done.
    done: u64,
}

impl PartitionReplay<'_> {
    fn run(&mut self, mut reader: LogReader, outcome: &Outcome) -> Result<u64, Fault> {
        let mut replayed = 0;
        let failed = |error: LogError| Fault::Unsound(error.to_string());
        while let Some(block) = reader.next_block().map_err(failed)? {
            let mut entries = EntryReader::new(block.body);
            while let Some(entry) = entries.read()? {
                assert_eq!(entry.sequence, self.done + 1, "the survey found no gap");
                self.done = entry.sequence;
                let transaction = entry.header.transaction;
                if !outcome.replays(self.partition, transaction) {
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
            EntryBody::Schema { .. }
            | EntryBody::Load(_)
            | EntryBody::Snapshot(_)
            | EntryBody::Effects(_) => {
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
