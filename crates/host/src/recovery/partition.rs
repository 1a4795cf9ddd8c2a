//! One partition's entries, run again in their order.

use super::pieces::PartitionLog;
use super::{ReplayError, ReplaySummary};
use crate::catalog::HostCatalog;
use crate::statement_cache::{StatementCache, StatementSources, procedure, statement_of};
use lockstep_base::bytes::ByteReader;
use lockstep_durability::recovery::Outcome;
use lockstep_exec::entries::PartitionEntries;
use lockstep_site::codec::StatementId;
use lockstep_site::{AnswerForm, BoundStatement, FragmentPart, FragmentTask, Site, StatementCall};
use lockstep_sql::Limits;
use lockstep_txn::log_entry::{
    CallEntry, Entry, EntryBody, EntryError, FragmentsEntry, LoadEntry, LoggedPart,
    LoggedStatement, PartKind, StatementSource, Vote,
};
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{ParameterSet, PartitionId, TableView, TransactionId};
use std::sync::Arc;

/// Entries between two maintenances of the tables.
const ENTRIES_A_MAINTENANCE: u64 = 64;
/// Capacity of the results' memory that is kept.
const KEPT_RESULT_BYTES: usize = 1 << 20;

/// A change of the catalog that a partition's log has next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedChange {
    /// When it ran.
    pub header: EntryHeader,
    /// The version of the catalog that it makes.
    pub catalog_version: u64,
    /// What is to be done, as the host that made it wrote it.
    pub source: Vec<u8>,
}

/// What the partitions of a replay have in common up to the next change of the catalog.
pub struct ReplayContext<'a, O> {
    /// The catalog in force.
    pub catalog: &'a HostCatalog<O>,
    /// What the log says that happened.
    pub outcome: &'a Outcome,
    /// Limits of the SQL text of statements.
    pub limits: &'a Limits,
    /// Number of partitions.
    pub partition_count: u32,
}

/// A partition that is replayed.
pub struct PartitionReplay<H, A, C, L> {
    partition: PartitionId,
    site: Site<H, A, C>,
    log: L,
    /// The piece that is replayed.
    piece: Vec<u8>,
    /// All of the piece is done.
    piece_done: bool,
    /// Nothing more is to be replayed.
    ended: bool,
    /// The number of the last entry that is done.
    done: u64,
    /// The change of the catalog at which it has stopped.
    stopped_at: Option<TransactionId>,
    /// Parts of transactions were left out: what ran after them may have ended otherwise.
    left_out: bool,
    statements: StatementCache,
    results: Vec<u8>,
    counts: ReplaySummary,
}

/// Why an entry does not run again.
#[derive(Debug)]
pub(super) enum Fault {
    /// It cannot be read, or names what is not there.
    Unsound(String),
    /// A part of a transaction fails.
    Fails(String),
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault::Unsound(reason)
    }
}

impl From<EntryError> for Fault {
    fn from(error: EntryError) -> Fault {
        Fault::Unsound(error.reason)
    }
}

/// What becomes of an entry.
enum Step {
    /// It is of what a snapshot has, or was replaced: nothing is to be done.
    Pass,
    /// It was not committed, or withdrawn, or has failed.
    LeaveOut,
    /// It comes after the point at which replay stops.
    End,
    Run,
}

impl<H, A, C: Clone, L: PartitionLog> PartitionReplay<H, A, C, L> {
    /// A partition whose log has everything after the state of its site.
    pub fn new(
        partition: PartitionId,
        mut site: Site<H, A, C>,
        log: L,
    ) -> PartitionReplay<H, A, C, L> {
        site.begin_replay();
        PartitionReplay {
            partition,
            done: site.log_sequence(),
            site,
            log,
            piece: Vec::new(),
            piece_done: true,
            ended: false,
            stopped_at: None,
            left_out: false,
            statements: StatementCache::default(),
            results: Vec::new(),
            counts: ReplaySummary::default(),
        }
    }

    /// Which partition it is.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    pub(super) fn site(&mut self) -> &mut Site<H, A, C> {
        &mut self.site
    }

    /// Whether this change is the next entry.
    pub(super) fn is_stopped_at(&self, change: &LoggedChange) -> bool {
        self.stopped_at == Some(change.header.transaction)
    }

    /// Another catalog is in force.
    pub(super) fn follow_catalog(&mut self) {
        assert!(
            self.stopped_at.is_some(),
            "a partition waits for the change that its log has next"
        );
        self.stopped_at = None;
        self.statements.forget();
    }

    pub(super) fn finish(self) -> (Site<H, A, C>, ReplaySummary) {
        assert!(self.stopped_at.is_none(), "no change of the catalog is left");
        (self.site, self.counts)
    }

    /// Replays up to the next change of the catalog; `None` at the end of the log.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn run<O>(
        &mut self,
        context: &ReplayContext<'_, O>,
    ) -> Result<Option<LoggedChange>, ReplayError> {
        assert!(self.stopped_at.is_none(), "the change that it stopped at is in force");
        while !self.ended {
            if self.piece_done {
                let next = self.log.next().map_err(ReplayError::Stopped)?;
                let Some(piece) = next else {
                    self.ended = true;
                    break;
                };
                self.piece.clear();
                self.piece.extend_from_slice(piece);
            }
            let piece = std::mem::take(&mut self.piece);
            let before = self.done;
            let stop = self.run_piece(&piece, context);
            self.piece = piece;
            self.log.note_progress(self.done - before);
            let stop = stop?;
            self.piece_done = stop.is_none();
            if let Some(change) = stop {
                self.stopped_at = Some(change.header.transaction);
                return Ok(Some(change));
            }
        }
        let due = context.outcome.tails[self.partition.index()].sequence;
        if self.done < due {
            return Err(self.stopped(&format!("the log ends there, and had entry {due} before")));
        }
        Ok(None)
    }

    fn run_piece<O>(
        &mut self,
        piece: &[u8],
        context: &ReplayContext<'_, O>,
    ) -> Result<Option<LoggedChange>, ReplayError> {
        let mut reader = EntryReader::new(piece);
        loop {
            let entry = match reader.read() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.stopped(&error.to_string())),
            };
            match self.step(&reader, &entry, context.outcome) {
                Step::Pass => continue,
                Step::End => {
                    self.ended = true;
                    return Ok(None);
                }
                Step::LeaveOut => {
                    self.note_done(&entry)?;
                    self.counts.left_out += 1;
                    self.left_out |= entry.header.transaction.partition() == PartitionId::MULTI;
                    continue;
                }
                Step::Run => self.note_done(&entry)?,
            }
            if let EntryBody::Schema { catalog_version, change } = entry.body {
                self.counts.replayed += 1;
                let (header, source) = (entry.header, change.to_vec());
                return Ok(Some(LoggedChange { header, catalog_version, source }));
            }
            match self.run_entry(&entry, context) {
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

    #[inline]
    fn step(&self, reader: &EntryReader<'_>, entry: &Entry<'_>, outcome: &Outcome) -> Step {
        let (partition, transaction) = (self.partition, entry.header.transaction);
        if entry.sequence <= self.done
            || outcome.is_replaced(partition, reader.source(), entry.sequence)
        {
            return Step::Pass;
        }
        if outcome.is_behind(partition, entry.sequence) {
            return Step::End;
        }
        let faults = self.log.faults();
        let is_run = outcome.replays(partition, transaction)
            || faults.replays_uncommitted
            || (faults.replays_failed_writes && outcome.is_void(partition, transaction));
        if is_run { Step::Run } else { Step::LeaveOut }
    }

    /// The numbers of entries have no gap: the survey, which read the log before, would have
    /// refused it.
    #[inline]
    fn note_done(&mut self, entry: &Entry<'_>) -> Result<(), ReplayError> {
        if entry.sequence != self.done + 1 {
            return Err(self.stopped(&format!("entry {} comes next", entry.sequence)));
        }
        self.done = entry.sequence;
        Ok(())
    }

    #[cold]
    fn stopped(&self, problem: &str) -> ReplayError {
        ReplayError::Stopped(format!(
            "replay of partition {} stops at entry {} of its log: {problem}",
            self.partition, self.done
        ))
    }

    #[inline]
    fn run_entry<O>(
        &mut self,
        entry: &Entry<'_>,
        context: &ReplayContext<'_, O>,
    ) -> Result<(), Fault> {
        let header = EntryHeader { repeated: true, ..entry.header };
        match &entry.body {
            EntryBody::Command(command) => {
                let procedure = procedure(context.catalog, command.procedure)?;
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
            EntryBody::Statements => self.run_statements(&header, entry, context)?,
            EntryBody::Load(load) => self.run_load(&header, load, context)?,
            EntryBody::Fragments(fragments) => self.run_fragments(&header, fragments, context)?,
            EntryBody::Call(call) => self.run_call(&header, call, context)?,
            EntryBody::Effects(_) if self.log.faults().loses_effects => {}
            EntryBody::Effects(images) => {
                self.counts.replayed += 1;
                let made = self.site.replay_effects(&header, images);
                made.map_err(|failure| Fault::Unsound(failure.message))?;
            }
            EntryBody::Schema { .. }
            | EntryBody::Snapshot(_)
            | EntryBody::Vote(_)
            | EntryBody::Commit(_)
            | EntryBody::Abort
            | EntryBody::Withdrawn
            | EntryBody::Epoch(_) => {}
        }
        if self.results.capacity() > KEPT_RESULT_BYTES {
            self.results = Vec::new();
        }
        Ok(())
    }

    fn run_statements<O>(
        &mut self,
        header: &EntryHeader,
        entry: &Entry<'_>,
        context: &ReplayContext<'_, O>,
    ) -> Result<(), Fault> {
        let mut statements = Vec::new();
        for statement in entry.statements() {
            statements.push(self.bind(&statement?, &[], context)?);
        }
        self.counts.replayed += 1;
        self.results.clear();
        let call =
            StatementCall { statements, read_only: false, answer: AnswerForm::StatementCount };
        self.site.statements(header, &call, &mut self.results);
        Ok(())
    }

    fn run_load<O>(
        &mut self,
        header: &EntryHeader,
        load: &LoadEntry<'_>,
        context: &ReplayContext<'_, O>,
    ) -> Result<(), Fault> {
        if self.log.faults().loses_loads {
            return Ok(());
        }
        let statement = statement_of(context.catalog, load.procedure, 0)?;
        let rows = TableView::read(&mut ByteReader::new(load.rows))
            .map_err(|error| Fault::Unsound(format!("the rows of a load: {error}")))?;
        self.counts.replayed += 1;
        self.results.clear();
        self.site.load(header, &statement, &rows, &mut self.results);
        Ok(())
    }

    fn run_call<O>(
        &mut self,
        header: &EntryHeader,
        call: &CallEntry<'_>,
        context: &ReplayContext<'_, O>,
    ) -> Result<(), Fault> {
        let procedure = procedure(context.catalog, call.procedure)?;
        self.counts.replayed += 1;
        self.note_first_vote(call.vote);
        let (prepared, home) = (&procedure.prepared, call.home);
        let ran = self.site.replay_one_round(header, prepared, home, call.parameters);
        ran.map_err(|failure| {
            Fault::Fails(format!(
                "the call of {} of transaction {} fails, which it did not before: {failure}",
                call.procedure, header.transaction.0
            ))
        })
    }

    fn run_fragments<O>(
        &mut self,
        header: &EntryHeader,
        fragments: &FragmentsEntry<'_>,
        context: &ReplayContext<'_, O>,
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
                    let bound = self.bind(&statement, shipped, context)?;
                    if !self.log.loses_part(&bound.statement.statement().text) {
                        tasks.push(FragmentTask { bound, part: part_of(kind) });
                    }
                }
            }
        }
        self.counts.replayed += 1;
        self.note_first_vote(fragments.vote);
        self.site.replay_round(header, &entries, &tasks).map_err(|failure| {
            Fault::Fails(format!(
                "round {} of transaction {} fails, which it did not before: {failure}",
                fragments.round, header.transaction.0
            ))
        })
    }

    /// A partition that voted no when it ran its part first voted yes when it ran it again: what
    /// ran in between was after something else.
    #[inline]
    fn note_first_vote(&mut self, vote: Vote) {
        self.left_out |= vote == Vote::No;
    }

    fn bind<O>(
        &mut self,
        logged: &LoggedStatement<'_>,
        shipped: &[u8],
        context: &ReplayContext<'_, O>,
    ) -> Result<BoundStatement, Fault> {
        let ReplayContext { catalog, limits, partition_count, .. } = *context;
        let sources = StatementSources { catalog, limits, partition_count };
        let statement = self.statements.statement(&id_of(&logged.source), &sources)?;
        ParameterSet::new(logged.parameters)
            .map_err(|error| Fault::Unsound(format!("the parameters of a statement: {error}")))?;
        let shipped = (!shipped.is_empty()).then(|| {
            let mut rows = vec![Vec::new(); self.partition.index() + 1];
            rows[self.partition.index()] = shipped.to_vec();
            Arc::new(rows)
        });
        let other = self.log.other_parameters(&catalog.plan, logged);
        let parameters = other.unwrap_or_else(|| Arc::from(logged.parameters));
        Ok(BoundStatement { statement, parameters, shipped, found: None, profile: None })
    }
}

/// What stands for the statement of an entry.
fn id_of<'a>(source: &StatementSource<'a>) -> StatementId<'a> {
    match *source {
        StatementSource::Procedure { name, number } => StatementId::Procedure { name, number },
        StatementSource::Text { text, single_partition, rules_off } => {
            StatementId::Text { text, single_partition, rules_off, planning: None }
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
