//! One partition's entries, run again in their order.

use super::{ReplayError, ReplaySettings};
use crate::catalog::HostCatalog;
use crate::options::Options;
use lockstep_durability::recovery::Outcome;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::statement::PreparedStatement;
use lockstep_plan::{PlanContext, Planning, RuleSet, plan_statement_with};
use lockstep_site::{BoundStatement, FragmentPart, FragmentTask, Site, StatementCall};
use lockstep_sql::parse_batch;
use lockstep_txn::log_entry::{
    Entry, EntryBody, EntryError, FragmentsEntry, LoadEntry, LoggedPart, LoggedStatement, PartKind,
    StatementSource, Vote,
};
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{ParameterSet, PartitionId, TableView, TransactionId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Entries between two looks after the tables.
const ENTRIES_A_MAINTENANCE: u64 = 64;
/// Plans of texts that are kept; all are forgotten when there are more.
const PLANS_KEPT: usize = 4_096;
/// Capacity of the results' memory that is kept.
const KEPT_RESULT_BYTES: usize = 1 << 20;

/// The entries of one partition, piece by piece.
pub trait PartitionSource: Send {
    /// The next piece, as it was handed over, or several of them together; `None` at the end.
    ///
    /// # Errors
    /// It cannot be read: the text for the user.
    fn next(&mut self) -> Result<Option<&[u8]>, String>;
}

/// Pieces of a log in memory.
#[derive(Debug, Clone, Default)]
pub struct LogPieces {
    pieces: Arc<Vec<Vec<u8>>>,
    next: usize,
}

impl LogPieces {
    /// The pieces in their order.
    pub fn new(pieces: Arc<Vec<Vec<u8>>>) -> LogPieces {
        LogPieces { pieces, next: 0 }
    }
}

impl PartitionSource for LogPieces {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let piece = self.pieces.get(self.next);
        self.next += 1;
        Ok(piece.map(Vec::as_slice))
    }
}

/// A change of the catalog that a partition's log has next.
pub(super) struct Stop {
    pub(super) header: EntryHeader,
    pub(super) catalog_version: u64,
    pub(super) source: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) replayed: u64,
    pub(super) left_out: u64,
}

/// A partition that is replayed.
pub(super) struct PartitionReplay<H, A> {
    partition: PartitionId,
    site: Site<H, A, Arc<HostCatalog>>,
    source: Box<dyn PartitionSource>,
    /// The piece that is replayed.
    piece: Vec<u8>,
    /// All of the piece is done.
    piece_done: bool,
    /// Nothing more is to be replayed.
    ended: bool,
    /// The number of the last entry that is done.
    done: u64,
    /// The change of the catalog at which it stands.
    stands_at: Option<TransactionId>,
    /// Parts of transactions were left out: what ran behind them may have ended otherwise.
    left_out: bool,
    plans: BTreeMap<PlanKey, Arc<PreparedStatement>>,
    results: Vec<u8>,
    counts: Counts,
}

/// A text with how it was planned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PlanKey {
    text: String,
    single_partition: bool,
    rules_off: u64,
}

/// Why an entry does not run again.
enum Fault {
    /// It cannot be read, or names what is not there.
    Unsound(String),
    /// A part of a transaction fails.
    Fails(String),
}

impl From<EntryError> for Fault {
    fn from(error: EntryError) -> Fault {
        Fault::Unsound(error.reason)
    }
}

impl<H, A> PartitionReplay<H, A> {
    pub(super) fn new(
        partition: PartitionId,
        mut site: Site<H, A, Arc<HostCatalog>>,
        source: Box<dyn PartitionSource>,
    ) -> PartitionReplay<H, A> {
        site.begin_replay();
        PartitionReplay {
            partition,
            done: site.log_sequence(),
            site,
            source,
            piece: Vec::new(),
            piece_done: true,
            ended: false,
            stands_at: None,
            left_out: false,
            plans: BTreeMap::new(),
            results: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn partition(&self) -> PartitionId {
        self.partition
    }

    pub(super) fn site(&mut self) -> &mut Site<H, A, Arc<HostCatalog>> {
        &mut self.site
    }

    pub(super) fn stands_at(&self, header: &EntryHeader) -> bool {
        self.stands_at == Some(header.transaction)
    }

    /// Another catalog is in force.
    pub(super) fn follow_catalog(&mut self) {
        self.stands_at = None;
        self.plans.clear();
    }

    pub(super) fn finish(self) -> (Site<H, A, Arc<HostCatalog>>, Counts) {
        (self.site, self.counts)
    }

    /// Replays up to the next change of the catalog; `None` at the end of the log.
    pub(super) fn run(
        &mut self,
        catalog: &HostCatalog,
        outcome: &Outcome,
        settings: &ReplaySettings<'_>,
    ) -> Result<Option<Stop>, ReplayError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            if self.piece_done {
                let next = self.source.next().map_err(ReplayError::Stopped)?;
                let Some(piece) = next else { return Ok(None) };
                self.piece.clear();
                self.piece.extend_from_slice(piece);
            }
            let piece = std::mem::take(&mut self.piece);
            let before = self.done;
            let stop = self.run_piece(&piece, catalog, outcome, settings);
            self.piece = piece;
            settings.progress.fetch_add(self.done - before, Ordering::Relaxed);
            let stop = stop?;
            self.piece_done = stop.is_none();
            if let Some(stop) = stop {
                self.stands_at = Some(stop.header.transaction);
                return Ok(Some(stop));
            }
        }
    }

    fn run_piece(
        &mut self,
        piece: &[u8],
        catalog: &HostCatalog,
        outcome: &Outcome,
        settings: &ReplaySettings<'_>,
    ) -> Result<Option<Stop>, ReplayError> {
        let mut reader = EntryReader::new(piece);
        loop {
            let entry = match reader.read() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.stopped(&error.to_string())),
            };
            let is_replaced = outcome.is_replaced(self.partition, reader.source(), entry.sequence);
            if entry.sequence <= self.done || is_replaced {
                continue;
            }
            if outcome.is_behind(self.partition, entry.sequence) {
                self.ended = true;
                return Ok(None);
            }
            self.done = entry.sequence;
            if !outcome.replays(self.partition, entry.header.transaction) {
                self.counts.left_out += 1;
                self.left_out |= entry.header.transaction.partition() == PartitionId::MULTI;
                continue;
            }
            if let EntryBody::Schema { catalog_version, change } = entry.body {
                self.counts.replayed += 1;
                let (header, source) = (entry.header, change.to_vec());
                return Ok(Some(Stop { header, catalog_version, source }));
            }
            match self.run_entry(&entry, catalog, settings) {
                Ok(()) => {}
                Err(Fault::Fails(_)) if self.left_out => {
                    return Err(ReplayError::NotCommitted(entry.header.transaction));
                }
                Err(Fault::Fails(problem) | Fault::Unsound(problem)) => {
                    return Err(self.stopped(&problem));
                }
            }
            if entry.sequence.is_multiple_of(ENTRIES_A_MAINTENANCE) {
                self.site.maintain();
            }
        }
    }

    #[cold]
    fn stopped(&self, problem: &str) -> ReplayError {
        ReplayError::Stopped(format!(
            "replay of partition {} stops at entry {} of its log: {problem}",
            self.partition, self.done
        ))
    }

    #[inline]
    fn run_entry(
        &mut self,
        entry: &Entry<'_>,
        catalog: &HostCatalog,
        settings: &ReplaySettings<'_>,
    ) -> Result<(), Fault> {
        let header = EntryHeader { repeated: true, ..entry.header };
        match &entry.body {
            EntryBody::Command(command) => {
                let procedure = catalog.procedure(command.procedure).ok_or_else(|| {
                    Fault::Unsound(format!("there is no procedure {}", command.procedure))
                })?;
                self.counts.replayed += 1;
                self.results.clear();
                // That it fails as it failed before is its result.
                self.site.call(
                    &header,
                    &procedure.prepared,
                    procedure.number,
                    &command.parameters,
                    command.addresses_partition,
                    &mut self.results,
                );
            }
            EntryBody::Statements => {
                let mut statements = Vec::new();
                for statement in entry.statements() {
                    statements.push(self.bind(&statement?, &[], catalog, settings)?);
                }
                self.counts.replayed += 1;
                self.results.clear();
                let call =
                    StatementCall { statements, read_only: false, counted: true, answer: None };
                self.site.statements(&header, &call, &mut self.results);
            }
            EntryBody::Load(load) => self.run_load(&header, load, catalog)?,
            EntryBody::Fragments(fragments) => {
                self.run_fragments(&header, fragments, catalog, settings)?;
            }
            EntryBody::Call(call) => {
                let procedure = catalog.procedure(call.procedure).ok_or_else(|| {
                    Fault::Unsound(format!("there is no procedure {}", call.procedure))
                })?;
                self.counts.replayed += 1;
                let (prepared, home) = (&procedure.prepared, call.home);
                let ran = self.site.replay_one_round(&header, prepared, home, call.parameters);
                ran.map_err(|failure| Fault::Fails(failure.message))?;
            }
            EntryBody::Effects(images) => {
                self.counts.replayed += 1;
                let made = self.site.replay_effects(&header, images);
                made.map_err(|failure| Fault::Unsound(failure.message))?;
            }
            EntryBody::Schema { .. }
            | EntryBody::Snapshot(_)
            | EntryBody::Vote(_)
            | EntryBody::Commit
            | EntryBody::Abort
            | EntryBody::Withdrawn => {}
        }
        if self.results.capacity() > KEPT_RESULT_BYTES {
            self.results = Vec::new();
        }
        Ok(())
    }

    fn run_load(
        &mut self,
        header: &EntryHeader,
        load: &LoadEntry<'_>,
        catalog: &HostCatalog,
    ) -> Result<(), Fault> {
        let procedure = catalog.procedure(load.procedure);
        let statement = procedure.and_then(|found| found.prepared.statements().first());
        let statement = statement.ok_or_else(|| no_statement(load.procedure, 0))?;
        let mut reader = lockstep_base::bytes::ByteReader::new(load.rows);
        let rows = TableView::read(&mut reader)
            .map_err(|error| Fault::Unsound(format!("the rows of a load: {error}")))?;
        self.counts.replayed += 1;
        self.results.clear();
        self.site.load(header, statement, &rows, &mut self.results);
        Ok(())
    }

    fn run_fragments(
        &mut self,
        header: &EntryHeader,
        fragments: &FragmentsEntry<'_>,
        catalog: &HostCatalog,
        settings: &ReplaySettings<'_>,
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
                    let bound = self.bind(&statement, shipped, catalog, settings)?;
                    tasks.push(FragmentTask { bound, part: part_of(kind) });
                }
            }
        }
        self.counts.replayed += 1;
        // The partition said no when it ran first, and yes when it ran again.
        let said_no = fragments.vote == Vote::No;
        self.left_out |= said_no;
        self.site.replay_round(header, &entries, &tasks).map_err(|failure| {
            Fault::Fails(format!(
                "round {} of transaction {} fails, which it did not before: {failure}",
                fragments.round, header.transaction.0
            ))
        })
    }

    fn bind(
        &mut self,
        logged: &LoggedStatement<'_>,
        shipped: &[u8],
        catalog: &HostCatalog,
        settings: &ReplaySettings<'_>,
    ) -> Result<BoundStatement, Fault> {
        let statement = self.statement(&logged.source, catalog, settings)?;
        ParameterSet::new(logged.parameters)
            .map_err(|error| Fault::Unsound(format!("the parameters of a statement: {error}")))?;
        let shipped = (!shipped.is_empty()).then(|| {
            let mut rows = vec![Vec::new(); self.partition.index() + 1];
            rows[self.partition.index()] = shipped.to_vec();
            Arc::new(rows)
        });
        let parameters = Arc::from(logged.parameters);
        Ok(BoundStatement { statement, parameters, shipped, found: None, profile: None })
    }

    fn statement(
        &mut self,
        source: &StatementSource<'_>,
        catalog: &HostCatalog,
        settings: &ReplaySettings<'_>,
    ) -> Result<Arc<PreparedStatement>, Fault> {
        match *source {
            StatementSource::Procedure { name, number } => {
                let procedure = catalog.procedure(name);
                let statements = procedure.map(|procedure| procedure.prepared.statements());
                let found = statements.and_then(|statements| statements.get(number as usize));
                found.cloned().ok_or_else(|| no_statement(name, number))
            }
            StatementSource::Text { text, single_partition, rules_off } => {
                let key = PlanKey { text: text.to_string(), single_partition, rules_off };
                if let Some(found) = self.plans.get(&key) {
                    return Ok(Arc::clone(found));
                }
                let planned = Arc::new(plan(&key, catalog, settings)?);
                if self.plans.len() >= PLANS_KEPT {
                    self.plans.clear();
                }
                self.plans.insert(key, Arc::clone(&planned));
                Ok(planned)
            }
        }
    }
}

/// Plans a text as it was planned before it was logged.
fn plan(
    key: &PlanKey,
    catalog: &HostCatalog,
    settings: &ReplaySettings<'_>,
) -> Result<PreparedStatement, Fault> {
    let PlanKey { text, single_partition, rules_off } = key;
    let refused =
        |error: String| Fault::Unsound(format!("the statement \"{text}\" has no plan: {error}"));
    // A step of building an index is no SQL, and what deletes rows whose time is over neither.
    let own = catalog.plan.cover_of_text(text);
    if let Some(own) = own.or_else(|| catalog.plan.expire_of_text(text)) {
        let partitions = settings.ring.partition_count();
        return Ok(PreparedStatement::for_partitions(own, partitions));
    }
    let parsed = parse_batch(text, &Options::greatest_sql_limits())
        .map_err(|error| refused(error.to_string()))?;
    let [statement] = parsed.as_slice() else {
        return Err(refused(format!("it is {} statements", parsed.len())));
    };
    let planning = Planning {
        disabled_rules: RuleSet::from_bits(*rules_off),
        ..catalog.plan.planning.clone()
    };
    let context = match single_partition {
        true => PlanContext::SinglePartition,
        false => PlanContext::MultiPartition,
    };
    let planned = plan_statement_with(&catalog.plan, &planning, statement, context)
        .map_err(|error| refused(error.message))?;
    Ok(match single_partition {
        true => PreparedStatement::new(Arc::new(planned)),
        false => PreparedStatement::for_partitions(planned, settings.ring.partition_count()),
    })
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

#[cold]
fn no_statement(procedure: &str, number: u32) -> Fault {
    Fault::Unsound(format!("there is no statement {number} of procedure {procedure}"))
}
