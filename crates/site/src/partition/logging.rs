//! What a partition writes to its log.
//!
//! A call is logged after its run, so that the log has its result too: a call that failed, for
//! whatever reason, is run nowhere else. While nothing is undecided, a failed call is not logged
//! at all. After an undecided transaction it may run again and succeed then, so it has its entry,
//! which keeps the order of entries, and a vote of no in the same batch; each further run adds its
//! result as a vote, and the last vote counts. Calls that do not do the same twice are logged by
//! what they did.
//!
//! A round of a multi-partition transaction is logged after its run, with the partition's vote if
//! it is the last one: so a crash in between leaves no yes of a partition that would have said no.
//! A transaction whose every participant has logged a yes is committed, unless an abort is logged
//! somewhere; one without votes, because nobody knew that its last round was the last, is
//! committed where a commit is logged. Every decision is logged by each partition that logged
//! something of the transaction; a commit names all of them.

use super::{Site, Work};
use crate::message::{BoundStatement, FragmentPart, RoundTasks, SchemaTask, StatementCall};
use crate::one_round::OneRoundCall;
use lockstep_base::short_list::ShortList;
use lockstep_exec::entries::PartitionEntries;
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_storage::UndoMark;
use lockstep_txn::log_entry::{
    PartKind, StatementSource, Vote, WriterRound, begin_fragments, put_call, put_entry_changes,
    put_load, put_part, put_schema, put_statement,
};
use lockstep_txn::sp::{Fragments, first_entry};
use lockstep_txn::{EntryHeader, EntryKind};
use lockstep_types::{PartitionId, TableView, TransactionId};

/// Writers of a round that are kept without memory of their own.
const FEW_WRITERS: usize = 6;

/// What the log has of a transaction over several partitions that is not decided.
#[derive(Debug)]
pub(super) struct Logged {
    /// The vote that counts.
    vote: Vote,
    /// The last round that is logged.
    round: u32,
    /// With its vote, who else votes.
    writers: ShortList<PartitionId, FEW_WRITERS>,
}

impl Logged {
    pub(super) fn new(vote: Vote, round: u32, voters: &[PartitionId]) -> Logged {
        let mut writers = ShortList::default();
        writers.set(voters);
        Logged { vote, round, writers }
    }

    pub(super) fn vote(&self) -> Vote {
        self.vote
    }

    pub(super) fn round(&self) -> u32 {
        self.round
    }
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// Whether a write that has run gets an entry: what runs again has one, and nothing needs
    /// that of a write that failed and cannot run again.
    #[inline]
    pub(super) fn logs_entry(&self, header: &EntryHeader, succeeded: bool) -> bool {
        !header.repeated && (succeeded || !self.initiator.is_decided())
    }

    /// The result of a write, after its entry: a success at the first run is not logged.
    #[inline]
    pub(super) fn log_result(&mut self, header: &EntryHeader, succeeded: bool) {
        if header.repeated || !succeeded {
            self.log_vote_of_call(header, succeeded);
        }
    }

    #[cold]
    fn log_vote_of_call(&mut self, header: &EntryHeader, succeeded: bool) {
        let has_entry = header.repeated || !self.initiator.is_decided();
        if has_entry && !self.is_replaying() {
            let vote = if succeeded { Vote::Yes } else { Vote::No };
            self.log.append(header, EntryKind::Vote, &[vote as u8]);
        }
    }

    pub(super) fn log_statements(
        &mut self,
        header: &EntryHeader,
        call: &StatementCall,
        succeeded: bool,
    ) {
        if self.logs_entry(header, succeeded) && !self.log.is_kept() {
            self.log.number_only();
        } else if self.logs_entry(header, succeeded) {
            let mut body = std::mem::take(&mut self.log_body);
            body.clear();
            for bound in &call.statements {
                put_statement(&mut body, &source_of(&bound.statement), &bound.parameters);
            }
            self.log.append(header, EntryKind::Statements, &body);
            self.log_body = body;
        }
        self.log_result(header, succeeded);
    }

    /// Keeps a call that must not run after something undecided, because it cannot run again.
    ///
    /// # Errors
    /// As for [`Site::hold`].
    pub fn hold_until_decided(&mut self, call: H) -> Result<(), H> {
        self.initiator.hold_until_decided(call)
    }

    /// What a call did whose effects are logged: after its run, and nothing if it changed
    /// nothing.
    #[cold]
    pub(super) fn log_effects(&mut self, header: &EntryHeader, since: UndoMark) {
        assert!(
            !header.repeated && self.initiator.is_decided(),
            "what is logged by its effects runs once"
        );
        let mut body = std::mem::take(&mut self.log_body);
        body.clear();
        self.database.write_images(since, &mut body);
        if !body.is_empty() {
            self.log.append(header, EntryKind::Effects, &body);
            self.database.note_images(since, &body);
        }
        self.log_body = body;
    }

    pub(super) fn log_load(
        &mut self,
        header: &EntryHeader,
        statement: &PreparedStatement,
        rows: &TableView<'_>,
        succeeded: bool,
    ) {
        if self.logs_entry(header, succeeded) {
            self.log_rows(header, statement, rows);
        }
        self.log_result(header, succeeded);
    }

    fn log_rows(
        &mut self,
        header: &EntryHeader,
        statement: &PreparedStatement,
        rows: &TableView<'_>,
    ) {
        let procedure = match statement.origin() {
            StatementOrigin::Procedure { definition, .. } => definition.name.as_str(),
            _ => unreachable!("loads go by the procedures of tables"),
        };
        let mut bytes = Vec::new();
        rows.write(&mut bytes);
        let mut body = std::mem::take(&mut self.log_body);
        body.clear();
        put_load(&mut body, procedure, &bytes);
        self.log.append(header, EntryKind::Load, &body);
        self.log_body = body;
    }

    /// Work of the coordinator has run here, or failed.
    pub(super) fn log_work(
        &mut self,
        fragments: &Fragments<Work<C>>,
        header: &EntryHeader,
        succeeded: bool,
    ) {
        if !self.log.is_kept() {
            return self.log.number_only();
        }
        match &fragments.work {
            Work::Tasks(work, _) => self.log_tasks(fragments, work, header, succeeded),
            Work::OneRound(call, _) => self.log_one_round(fragments, call, header, succeeded),
            // What fails takes the transaction with it: nothing is to be logged.
            Work::Schema(task) if succeeded => self.log_schema(task, header, fragments.round),
            Work::Build(entries) if succeeded => self.log_build(entries, header),
            Work::Schema(_) | Work::Build(_) => {}
        }
    }

    /// The entries of other partitions' rows come again when the change is recovered, and are
    /// logged for followers, which go by their partition's log alone.
    fn log_build(&mut self, entries: &[PartitionEntries], header: &EntryHeader) {
        if !self.is_followed || entries.is_empty() {
            return;
        }
        debug_assert!(self.schema.is_some(), "entries are built in a change of the catalog");
        let mut body = std::mem::take(&mut self.log_body);
        body.clear();
        for changes in entries {
            put_entry_changes(&mut body, &changes.removed, &changes.added);
        }
        self.log.append(header, EntryKind::Build, &body);
        self.log_body = body;
    }

    fn log_schema(&mut self, task: &SchemaTask<C>, header: &EntryHeader, round: u32) {
        let mut body = std::mem::take(&mut self.log_body);
        body.clear();
        let kind = match task.snapshot {
            Some(_) => {
                body.extend_from_slice(&task.source);
                EntryKind::Snapshot
            }
            None => {
                put_schema(&mut body, task.catalog_version, &task.source);
                EntryKind::Schema
            }
        };
        self.log.append(header, kind, &body);
        self.log_body = body;
        self.note_logged(header.transaction, Logged::new(Vote::None, round, &[]));
    }

    fn log_tasks(
        &mut self,
        fragments: &Fragments<Work<C>>,
        work: &RoundTasks,
        header: &EntryHeader,
        succeeded: bool,
    ) {
        let has_writes = !work.entries.is_empty()
            || work.tasks.iter().any(|task| writes(&task.bound, task.part));
        let Some(vote) = vote(fragments.last, succeeded).filter(|_| has_writes) else { return };
        if header.repeated {
            return self.log_vote(header, vote);
        }
        let mut body = std::mem::take(&mut self.log_body);
        body.clear();
        begin_fragments(&mut body, fragments.round, vote, &work.writers);
        for changes in work.entries.iter() {
            put_entry_changes(&mut body, &changes.removed, &changes.added);
        }
        for task in work.tasks.iter().filter(|task| writes(&task.bound, task.part)) {
            let kind = match task.part {
                FragmentPart::Whole => PartKind::Whole,
                FragmentPart::Home { addresses_partition } => {
                    PartKind::Home { addresses_partition }
                }
                FragmentPart::Entry(number) => PartKind::Entry(number as u32),
                FragmentPart::Fragment(number) => PartKind::Fragment(number as u32),
                FragmentPart::Apply => PartKind::Apply,
                FragmentPart::Load => PartKind::Load,
                FragmentPart::Lookup(_) => unreachable!("a question writes nothing"),
            };
            let BoundStatement { statement, parameters, shipped, .. } = &task.bound;
            let shipped = shipped.as_ref().and_then(|rows| rows.get(self.partition.index()));
            let shipped = shipped.map_or(&[][..], |rows| rows.as_slice());
            put_part(&mut body, kind, &source_of(statement), parameters, shipped);
        }
        self.log.append(header, EntryKind::Fragments, &body);
        self.log_body = body;
        let logged = Logged::new(vote, fragments.round, &work.writers);
        self.note_logged(header.transaction, logged);
    }

    fn log_one_round(
        &mut self,
        fragments: &Fragments<Work<C>>,
        call: &OneRoundCall,
        header: &EntryHeader,
        succeeded: bool,
    ) {
        let writes = call.writers().contains(&self.partition);
        let Some(vote) = vote(fragments.last, succeeded).filter(|_| writes) else { return };
        if header.repeated {
            return self.log_vote(header, vote);
        }
        let mut body = std::mem::take(&mut self.log_body);
        body.clear();
        let name = &call.procedure.definition().name;
        put_call(&mut body, vote, call.writers(), call.home(), name, call.parameter_set());
        self.log.append(header, EntryKind::Call, &body);
        self.log_body = body;
        let logged = Logged::new(vote, fragments.round, call.writers());
        self.note_logged(header.transaction, logged);
    }

    /// The last round ran again after an abort, which makes the vote before it void: the partition
    /// votes again, changed or not.
    #[cold]
    fn log_vote(&mut self, header: &EntryHeader, vote: Vote) {
        if let Some(logged) = self.logged.get_mut(header.transaction) {
            logged.vote = vote;
            self.log.append(header, EntryKind::Vote, &[vote as u8]);
        }
    }

    fn note_logged(&mut self, transaction: TransactionId, logged: Logged) {
        // A partition runs transactions in the order of their ids.
        match self.logged.get_mut(transaction) {
            Some(before) => {
                debug_assert!(before.round < logged.round, "each round is logged once");
                *before = logged;
            }
            None => self.logged.push(transaction, logged),
        }
    }

    /// A commit, with all that logged something of the transaction: logged where the log has
    /// something of it. `writers` are none where the last round named them.
    pub(super) fn log_commit(
        &mut self,
        transaction: TransactionId,
        writers: Option<&[WriterRound]>,
    ) {
        if self.logged.is_empty() {
            return;
        }
        let Some(logged) = self.logged.remove(transaction) else { return };
        let round = logged.round;
        let of_round = |&partition: &PartitionId| WriterRound { partition, round };
        let named = logged.writers.as_slice().iter().map(of_round);
        let own = of_round(&self.partition);
        let (header, is_implied) = (first_entry(transaction), logged.vote == Vote::Yes);
        match writers {
            Some(writers) => {
                debug_assert!(writers.contains(&own), "a commit names this partition");
                self.log.append_commit(&header, writers.iter().copied(), is_implied);
            }
            None => {
                debug_assert!(named.clone().any(|at| at == own), "a commit names this partition");
                self.log.append_commit(&header, named, is_implied);
            }
        }
    }

    /// An abort: logged where the log has something of the transaction.
    pub(super) fn log_abort(&mut self, transaction: TransactionId) {
        if self.logged.remove(transaction).is_some() {
            self.log.append(&first_entry(transaction), EntryKind::Abort, &[]);
        }
    }

    /// A call does not run here, although it is its turn: it belongs to another partition, or is
    /// refused. If it ran here, after what is aborted now, the log says that it does not count.
    pub fn withdraw(&mut self, header: &EntryHeader, read_only: bool) {
        if header.repeated && !read_only {
            self.log.append(header, EntryKind::Withdrawn, &[]);
        }
    }
}

/// What a round says; nothing where it fails and more were to come.
fn vote(last: bool, succeeded: bool) -> Option<Vote> {
    match (last, succeeded) {
        (true, true) => Some(Vote::Yes),
        (true, false) => Some(Vote::No),
        (false, true) => Some(Vote::None),
        (false, false) => None,
    }
}

/// Whether a part of a statement may change data.
pub(crate) fn writes(bound: &BoundStatement, part: FragmentPart) -> bool {
    !bound.statement.statement().read_only && !matches!(part, FragmentPart::Lookup(_))
}

fn source_of(statement: &PreparedStatement) -> StatementSource<'_> {
    match statement.origin() {
        StatementOrigin::Procedure { definition, number } => {
            StatementSource::Procedure { name: &definition.name, number: *number }
        }
        StatementOrigin::Text { single_partition, rules_off, planning } => {
            let read_only = statement.statement().read_only;
            debug_assert!(
                planning.is_none() || read_only,
                "writes are planned with what the catalog has, so that replay plans the same"
            );
            StatementSource::Text {
                text: &statement.statement().text,
                single_partition: *single_partition,
                rules_off: *rules_off,
            }
        }
        StatementOrigin::Question { .. } => unreachable!("a question is asked, never logged"),
    }
}
