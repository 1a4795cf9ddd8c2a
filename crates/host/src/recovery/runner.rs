//! Runs the entries of one partition's log, one at a time, through the functions of the site that
//! ran them first.

use super::ReplaySummary;
use super::pieces::PartitionLog;
use crate::catalog::HostCatalog;
use crate::statement_cache::{StatementCache, StatementSources, procedure, statement_of};
use lockstep_base::bytes::ByteReader;
use lockstep_exec::entries::PartitionEntries;
use lockstep_site::codec::StatementId;
use lockstep_site::{AnswerForm, BoundStatement, FragmentPart, FragmentTask, Site, StatementCall};
use lockstep_sql::Limits;
use lockstep_txn::EntryHeader;
use lockstep_txn::log_entry::{
    CallEntry, Entry, EntryBody, EntryError, FragmentsEntry, LoadEntry, LoggedPart,
    LoggedStatement, PartKind, StatementSource, Vote,
};
use lockstep_types::{ParameterSet, PartitionId, TableView};
use std::sync::Arc;

/// Capacity of the results' memory that is kept.
const KEPT_RESULT_BYTES: usize = 1 << 20;

/// What entries name, and how they are planned.
pub struct EntrySources<'a, O> {
    /// The catalog in force.
    pub catalog: &'a HostCatalog<O>,
    /// Limits of the SQL text of statements.
    pub limits: &'a Limits,
    /// Number of partitions.
    pub partition_count: u32,
}

/// Why an entry does not run again.
#[derive(Debug)]
pub(crate) enum Fault {
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

/// A partition that runs entries of its log.
pub(crate) struct EntryRunner<H, A, C> {
    partition: PartitionId,
    pub(crate) site: Site<H, A, C>,
    /// Parts of transactions were left out: what ran after them may have ended otherwise.
    pub(crate) left_out: bool,
    statements: StatementCache,
    results: Vec<u8>,
    pub(crate) counts: ReplaySummary,
}

impl<H, A, C: Clone> EntryRunner<H, A, C> {
    /// Entries are to follow the state of a site, which runs them without limits from now on.
    pub(crate) fn new(partition: PartitionId, mut site: Site<H, A, C>) -> EntryRunner<H, A, C> {
        site.begin_replay();
        EntryRunner {
            partition,
            site,
            left_out: false,
            statements: StatementCache::default(),
            results: Vec::new(),
            counts: ReplaySummary::default(),
        }
    }

    /// Another catalog is in force.
    pub(crate) fn follow_catalog(&mut self) {
        self.statements.forget();
    }

    /// Runs an entry as it ran first; decisions and the like do nothing.
    ///
    /// # Errors
    /// It cannot run.
    #[inline]
    pub(crate) fn run_entry<O>(
        &mut self,
        entry: &Entry<'_>,
        sources: &EntrySources<'_, O>,
        log: &impl PartitionLog,
    ) -> Result<(), Fault> {
        let header = EntryHeader { repeated: true, ..entry.header };
        match &entry.body {
            EntryBody::Command(command) => {
                let procedure = procedure(sources.catalog, command.procedure)?;
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
            EntryBody::Statements => self.run_statements(&header, entry, sources, log)?,
            EntryBody::Load(load) => self.run_load(&header, load, sources, log)?,
            EntryBody::Fragments(fragments) => {
                self.run_fragments(&header, fragments, sources, log)?
            }
            EntryBody::Call(call) => self.run_call(&header, call, sources)?,
            EntryBody::Effects(_) if log.faults().loses_effects => {}
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
            | EntryBody::Epoch(_)
            | EntryBody::Build(_) => {}
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
        sources: &EntrySources<'_, O>,
        log: &impl PartitionLog,
    ) -> Result<(), Fault> {
        let mut statements = Vec::new();
        for statement in entry.statements() {
            statements.push(self.bind(&statement?, &[], sources, log)?);
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
        sources: &EntrySources<'_, O>,
        log: &impl PartitionLog,
    ) -> Result<(), Fault> {
        if log.faults().loses_loads {
            return Ok(());
        }
        let statement = statement_of(sources.catalog, load.procedure, 0)?;
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
        sources: &EntrySources<'_, O>,
    ) -> Result<(), Fault> {
        let procedure = procedure(sources.catalog, call.procedure)?;
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
        sources: &EntrySources<'_, O>,
        log: &impl PartitionLog,
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
                    let bound = self.bind(&statement, shipped, sources, log)?;
                    if !log.loses_part(&bound.statement.statement().text) {
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
        sources: &EntrySources<'_, O>,
        log: &impl PartitionLog,
    ) -> Result<BoundStatement, Fault> {
        let EntrySources { catalog, limits, partition_count } = *sources;
        let sources = StatementSources { catalog, limits, partition_count };
        let statement = self.statements.statement(&id_of(&logged.source), &sources)?;
        ParameterSet::new(logged.parameters)
            .map_err(|error| Fault::Unsound(format!("the parameters of a statement: {error}")))?;
        let shipped = (!shipped.is_empty()).then(|| {
            let mut rows = vec![Vec::new(); self.partition.index() + 1];
            rows[self.partition.index()] = shipped.to_vec();
            Arc::new(rows)
        });
        let other = log.other_parameters(&catalog.plan, logged);
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
