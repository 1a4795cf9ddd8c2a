//! What a log says that happened: which transactions over several partitions are committed, which
//! calls failed or were withdrawn, and where each partition's log ends.
//!
//! A transaction is committed if a partition has logged its commit, or if every partition that
//! writes in its last round has logged a yes and nobody an abort. A partition votes when it has
//! run its part, and again whenever that runs again, after an abort of a transaction that ran
//! before it: its last vote counts, and a yes is void from such an abort on until the next vote.
//! Everything else is not committed: its parts are left out, and what was logged after them is
//! replayed without.
//!
//! A commit that is logged names the partitions that logged something of the transaction, and the
//! round in which each of them did so last. It counts only if their logs have that: an end of a log
//! that is lost takes whole transactions with it. A commit of an earlier release names nobody.
//!
//! A call at one partition votes too, where it failed and has an entry, and whenever it runs again:
//! one whose last vote is a no has changed nothing and is left out.
//!
//! [`Survey`] takes the entries of all partitions, those of each in their order, and keeps only
//! what is not settled. [`Outcome`] is what replay goes by.

mod begin;
mod log;
mod others;
mod point;
mod replaced;

pub use begin::{
    BeginFault, Candidate, Surveyed, begin_with_first, candidates, check_reach, survey_log,
};
pub use log::{CopyEnd, LogPiece, PartitionBlocks, RecoveryLog};
pub use others::{Fact, Others, Said};
pub use point::{PassEnd, Point, PointFinder, PointTarget};
pub use replaced::Replaced;

use crate::command_log::LogFaults;
use lockstep_txn::EntryReader;
use lockstep_txn::log_entry::{Entry, EntryBody, EntryError, LogSource, Vote, WriterRound};
use lockstep_types::{PartitionId, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// Settled transactions that are remembered, for parts of theirs that stand a little after.
const SETTLED_REMEMBERED: usize = 1 << 20;

/// Why the entries of a log cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SurveyError {
    /// The bytes are no entries.
    Entry {
        /// Whose log.
        partition: PartitionId,
        /// The number of the last entry that could be read.
        sequence: u64,
        /// What is wrong.
        error: EntryError,
    },
    /// A number is not the one that is due.
    Gap {
        /// Whose log.
        partition: PartitionId,
        /// The number that is due.
        due: u64,
        /// The number that is there.
        found: u64,
    },
    /// Entries of another partition stand in a partition's log.
    WrongPartition {
        /// Whose log.
        partition: PartitionId,
        /// Whose entries.
        found: PartitionId,
    },
}

impl fmt::Display for SurveyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SurveyError::Entry { partition, sequence, error } => {
                write!(f, "the log of partition {partition} after entry {sequence}: {error}")
            }
            SurveyError::Gap { partition, due, found } if found < due => write!(
                f,
                "the log of partition {partition} has entry {found} again where entry {due} is \
                 due: two processes wrote to the directory at the same time"
            ),
            SurveyError::Gap { partition, due, found } => write!(
                f,
                "the log of partition {partition} goes on with entry {found} where entry {due} is \
                 due: entries are missing"
            ),
            SurveyError::WrongPartition { partition, found } => {
                write!(f, "entries of partition {found} stand in the log of partition {partition}")
            }
        }
    }
}

impl std::error::Error for SurveyError {}

/// What is known of a transaction over several partitions that is not settled.
#[derive(Debug, Clone, Default)]
struct Open {
    /// The partitions that must vote yes, once one has named them. If all had voted yes before:
    /// those that changed their votes since.
    participants: Vec<PartitionId>,
    yes: BTreeSet<PartitionId>,
    /// All had voted yes before.
    was_unanimous: bool,
    /// And one has voted no since.
    was_refused: bool,
}

impl Open {
    fn is_unanimous(&self) -> bool {
        !self.participants.is_empty() && self.participants.iter().all(|p| self.yes.contains(p))
    }

    fn vote(&mut self, partition: PartitionId, vote: Vote) {
        match vote {
            Vote::None => {}
            Vote::Yes => {
                self.yes.insert(partition);
            }
            Vote::No => self.forget_yes(partition),
        }
    }

    /// The partition's yes, if there is one, does not count any more.
    fn forget_yes(&mut self, partition: PartitionId) {
        self.yes.remove(&partition);
        if self.was_unanimous && !self.participants.contains(&partition) {
            self.participants.push(partition);
        }
    }
}

/// Why a transaction is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettledBy {
    /// All have voted yes, which a later vote, or an abort of another transaction, may change.
    Votes,
    /// A log has the decision.
    Commit,
}

/// What a partition logged of a transaction.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The last round.
    round: u32,
    /// It has voted yes, and nothing made that void.
    accepts: bool,
}

/// The round of what is one entry of each partition: a change of the catalog, a snapshot.
const WHOLE: u32 = u32::MAX;

/// How often votes changed after all participants of a transaction had voted yes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangedVotes {
    /// How often a partition voted no then.
    pub to_no: u64,
    /// How often all voted yes again after that.
    pub to_yes_again: u64,
}

/// Where a partition's log ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogTail {
    /// The number of the last entry; 0 for none.
    pub sequence: u64,
    /// The last transaction id that the partition gave.
    pub transaction: TransactionId,
    /// Entries that were read.
    pub entries: u64,
}

/// Reads the logs of all partitions. See the module.
#[derive(Debug, Clone)]
pub struct Survey {
    tails: Vec<LogTail>,
    open: BTreeMap<TransactionId, Open>,
    settled: BTreeMap<TransactionId, SettledBy>,
    aborted: BTreeSet<TransactionId>,
    /// By partition, what it logged of transactions over several, in their order, which is that in
    /// which it ran them.
    parts: Vec<BTreeMap<TransactionId, Part>>,
    /// Transactions with a commit in a log, and the last entries of theirs that are not found.
    incomplete: BTreeMap<TransactionId, Vec<WriterRound>>,
    /// Only the log of this partition is read.
    alone: Option<PartitionId>,
    /// By partition, transactions up to this one are decided in all logs, and its log may have
    /// nothing of them any more.
    settled_up_to: Vec<TransactionId>,
    /// By partition, calls that failed or were withdrawn.
    void_calls: Vec<BTreeSet<TransactionId>>,
    last_multi: TransactionId,
    last_source: LogSource,
    replaced: Replaced,
    cut: Option<Vec<u64>>,
    changed_votes: ChangedVotes,
    faults: LogFaults,
}

/// What replay goes by.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Per partition, where its log ends.
    pub tails: Vec<LogTail>,
    /// The last transaction id that the coordinator gave.
    pub last_multi: TransactionId,
    /// Who ordered the entries last; each run of a host is another source.
    pub last_source: LogSource,
    /// Votes that changed.
    pub changed_votes: ChangedVotes,
    /// Transactions over several partitions that are not to be replayed.
    left_out: BTreeSet<TransactionId>,
    /// Those of them with a commit in a log whose parts are not all in their logs.
    incomplete: usize,
    /// By partition, calls that are not to be replayed.
    void_calls: Vec<BTreeSet<TransactionId>>,
    replaced: Replaced,
    cut: Option<Vec<u64>>,
}

impl Survey {
    /// A survey of logs whose entries begin after these numbers, by partition: where a snapshot
    /// stands, or 0.
    pub fn new(behind: &[u64]) -> Survey {
        let tail = |sequence: &u64| LogTail { sequence: *sequence, ..LogTail::default() };
        Survey {
            tails: behind.iter().map(tail).collect(),
            open: BTreeMap::new(),
            settled: BTreeMap::new(),
            aborted: BTreeSet::new(),
            parts: vec![BTreeMap::new(); behind.len()],
            incomplete: BTreeMap::new(),
            alone: None,
            settled_up_to: Vec::new(),
            void_calls: vec![BTreeSet::new(); behind.len()],
            last_multi: TransactionId(0),
            last_source: LogSource::default(),
            replaced: Replaced::default(),
            cut: None,
            changed_votes: ChangedVotes::default(),
            faults: LogFaults::default(),
        }
    }

    /// A survey of the log of one of several partitions, which begins after a number: what is
    /// decided on its transactions is what its own entries say.
    pub fn of_one(partition: PartitionId, partitions: usize, after: u64) -> Survey {
        let mut all = vec![0; partitions];
        all[partition.index()] = after;
        Survey { alone: Some(partition), ..Survey::new(&all) }
    }

    /// Entries that a later epoch replaced, which are passed over.
    pub fn pass_over(&mut self, replaced: Replaced) {
        self.replaced = replaced;
    }

    /// By partition, what a snapshot has that was decided in all logs before it: a log that goes on
    /// from there may have nothing of the transactions up to this one.
    pub fn settle_up_to(&mut self, transactions: impl Iterator<Item = TransactionId>) {
        self.settled_up_to = transactions.collect();
        assert_eq!(self.settled_up_to.len(), self.tails.len(), "each partition has a log");
    }

    /// By partition, entries with greater numbers are not to be replayed: see [`Point`]. What
    /// they say of transactions before them counts.
    pub fn stop_behind(&mut self, cut: Vec<u64>) {
        assert_eq!(cut.len(), self.tails.len(), "each partition has a cut");
        self.cut = Some(cut);
    }

    /// The number of the last entry of a partition that is to be replayed, if that is limited.
    fn cut(&self, partition: PartitionId) -> u64 {
        self.cut.as_ref().map_or(u64::MAX, |cut| cut[partition.index()])
    }

    /// The next entries of a partition's log, as they were transferred. Those that a snapshot has
    /// already are left out.
    ///
    /// # Errors
    /// They are no entries, or not the next ones.
    pub fn read(&mut self, partition: PartitionId, bytes: &[u8]) -> Result<(), SurveyError> {
        let mut reader = EntryReader::new(bytes);
        loop {
            let sequence = self.tails[partition.index()].sequence;
            let unsound = |error| SurveyError::Entry { partition, sequence, error };
            let Some(entry) = reader.read().map_err(unsound)? else { return Ok(()) };
            if reader.partition() != partition {
                return Err(SurveyError::WrongPartition { partition, found: reader.partition() });
            }
            self.last_source = self.last_source.max(reader.source());
            if self.replaced.has(partition, reader.source(), entry.sequence) {
                continue;
            }
            let is_first = self.tails[partition.index()].entries == 0;
            if entry.sequence <= sequence && (is_first || self.faults.keep_old_tail()) {
                continue;
            }
            let due = sequence + 1;
            if entry.sequence != due && due > self.cut(partition) {
                // A later run began elsewhere; it decides nothing of what is replayed.
                return Ok(());
            }
            if entry.sequence != due {
                return Err(SurveyError::Gap { partition, due, found: entry.sequence });
            }
            self.note(partition, &entry);
            let read = self.tails[partition.index()].sequence;
            assert_eq!(read, due, "entries are noted without a gap");
        }
    }

    fn note(&mut self, partition: PartitionId, entry: &Entry<'_>) {
        let transaction = entry.header.transaction;
        let is_replayed = entry.sequence <= self.cut(partition);
        let tail = &mut self.tails[partition.index()];
        tail.sequence = entry.sequence;
        tail.entries += u64::from(is_replayed);
        match transaction.partition() == PartitionId::MULTI {
            true => self.last_multi = self.last_multi.max(transaction),
            false => tail.transaction = tail.transaction.max(transaction),
        }
        match &entry.body {
            EntryBody::Command(_) | EntryBody::Statements | EntryBody::Load(_) => {}
            EntryBody::Effects(_) | EntryBody::Epoch(_) | EntryBody::Build(_) => {}
            EntryBody::Snapshot(_) => self.note_part(partition, transaction, WHOLE),
            EntryBody::Withdrawn => {
                self.void_calls[partition.index()].insert(transaction);
            }
            EntryBody::Fragments(fragments) => {
                self.note_part(partition, transaction, fragments.round);
                self.vote(partition, transaction, fragments.vote, fragments.participants());
            }
            EntryBody::Call(call) => {
                self.note_part(partition, transaction, 1);
                self.vote(partition, transaction, call.vote, call.participants());
            }
            EntryBody::Vote(vote) if transaction.partition() != PartitionId::MULTI => {
                let void_calls = &mut self.void_calls[partition.index()];
                match vote {
                    Vote::No => void_calls.insert(transaction),
                    Vote::Yes | Vote::None => void_calls.remove(&transaction),
                };
            }
            EntryBody::Vote(vote) => {
                self.vote(partition, transaction, *vote, std::iter::empty());
            }
            EntryBody::Schema { .. } => {
                self.note_part(partition, transaction, WHOLE);
                self.vote(partition, transaction, Vote::None, std::iter::empty());
            }
            EntryBody::Commit(commit) => self.commit(transaction, commit.writers()),
            EntryBody::Abort => self.abort(partition, transaction),
        }
    }

    /// The log of a partition has the abort of a transaction.
    fn abort(&mut self, partition: PartitionId, transaction: TransactionId) {
        self.open.remove(&transaction);
        self.aborted.insert(transaction);
        self.void_after(partition, transaction);
    }

    /// An abort stands in the log of a partition: what the partition ran after the aborted
    /// transaction runs again, and each yes is void until it votes again.
    fn void_after(&mut self, partition: PartitionId, aborted: TransactionId) {
        let after = (Bound::Excluded(aborted), Bound::Unbounded);
        let parts = self.parts[partition.index()].range_mut(after);
        let accepted = parts.filter(|(_, part)| part.accepts);
        let void = accepted.map(|(transaction, part)| {
            part.accepts = false;
            *transaction
        });
        let void: Vec<TransactionId> = void.collect();
        for transaction in void {
            match self.settled.get(&transaction) {
                Some(SettledBy::Commit) => continue,
                Some(SettledBy::Votes) => self.reopen(transaction),
                None => {}
            }
            if let Some(open) = self.open.get_mut(&transaction) {
                open.forget_yes(partition);
            }
        }
    }

    /// All have voted yes, and one yes does not count any more: that partition may vote again.
    fn reopen(&mut self, transaction: TransactionId) {
        let before = self.settled.remove(&transaction);
        assert_eq!(before, Some(SettledBy::Votes), "a commit in a log is final");
        let open = Open { was_unanimous: true, ..Open::default() };
        let before = self.open.insert(transaction, open);
        assert!(before.is_none(), "what is settled is not open");
    }

    fn vote(
        &mut self,
        partition: PartitionId,
        transaction: TransactionId,
        vote: Vote,
        participants: impl Iterator<Item = PartitionId>,
    ) {
        let settled = self.settled.get(&transaction).copied();
        if self.aborted.contains(&transaction) || settled == Some(SettledBy::Commit) {
            return;
        }
        if let Some(part) = self.parts[partition.index()].get_mut(&transaction) {
            part.accepts = vote == Vote::Yes;
        }
        match (settled, vote) {
            (Some(_), Vote::No) => self.reopen(transaction),
            (Some(_), Vote::Yes | Vote::None) => return,
            (None, _) => {}
        }
        let open = self.open.entry(transaction).or_default();
        if open.participants.is_empty() && !open.was_unanimous {
            open.participants = participants.collect();
        }
        assert!(!self.settled.contains_key(&transaction), "what is open is not settled");
        open.vote(partition, vote);
        if vote == Vote::No && open.was_unanimous && !open.was_refused {
            open.was_refused = true;
            self.changed_votes.to_no += 1;
        }
        if open.is_unanimous() {
            self.changed_votes.to_yes_again += u64::from(open.was_refused);
            self.settle(transaction, SettledBy::Votes);
        }
    }

    /// A partition logged a round of a transaction.
    fn note_part(&mut self, partition: PartitionId, transaction: TransactionId, round: u32) {
        let parts = &mut self.parts[partition.index()];
        let part = parts.entry(transaction).or_insert(Part { round, accepts: false });
        part.round = part.round.max(round);
        if parts.len() > SETTLED_REMEMBERED {
            // It was decided long ago.
            parts.pop_first();
        }
        assert!(parts.len() <= SETTLED_REMEMBERED, "what is remembered is limited");
        if let Some(missing) = self.incomplete.get_mut(&transaction) {
            missing.retain(|writer| writer.partition != partition || writer.round > round);
            if missing.is_empty() {
                self.incomplete.remove(&transaction);
                self.settle(transaction, SettledBy::Commit);
            }
        }
    }

    /// A log says that a transaction is committed, and who logged something of it.
    fn commit(&mut self, transaction: TransactionId, writers: impl Iterator<Item = WriterRound>) {
        if self.settled.get(&transaction) == Some(&SettledBy::Commit) {
            return;
        }
        let named: Vec<WriterRound> = writers.collect();
        let missing = named.iter().filter(|writer| self.is_missing(transaction, writer));
        let missing: Vec<WriterRound> = missing.copied().collect();
        if !missing.is_empty() || self.incomplete.contains_key(&transaction) {
            // Another log has the commit too: what either of them names must be there.
            let all = self.incomplete.entry(transaction).or_default();
            let new = |one: &WriterRound| !all.contains(one);
            let new: Vec<WriterRound> = missing.into_iter().filter(new).collect();
            all.extend(new);
            return;
        }
        self.settle(transaction, SettledBy::Commit);
        for writer in named {
            if let Some(parts) = self.parts.get_mut(writer.partition.index()) {
                parts.remove(&transaction);
            }
        }
    }

    /// Whether the log of a partition, if it is read, does not have its last part of a transaction.
    fn is_missing(&self, transaction: TransactionId, writer: &WriterRound) -> bool {
        let settled = self.settled_up_to.get(writer.partition.index());
        let is_read = self.alone.is_none_or(|alone| alone == writer.partition)
            && settled.is_none_or(|settled| transaction > *settled);
        let Some(parts) = self.parts.get(writer.partition.index()).filter(|_| is_read) else {
            return false;
        };
        match parts.get(&transaction) {
            Some(part) => part.round < writer.round,
            // Those long ago are not remembered.
            None => {
                let first = parts.first_key_value().filter(|_| parts.len() == SETTLED_REMEMBERED);
                first.is_none_or(|(first, _)| *first < transaction)
            }
        }
    }

    fn settle(&mut self, transaction: TransactionId, by: SettledBy) {
        self.open.remove(&transaction);
        let before = self.settled.insert(transaction, by);
        assert!(before != Some(SettledBy::Commit), "a commit in a log is final");
        if self.settled.len() > SETTLED_REMEMBERED {
            self.settled.pop_first();
        }
        assert!(self.settled.len() <= SETTLED_REMEMBERED, "what is remembered is limited");
    }

    /// All logs have been read to their ends.
    pub fn finish(mut self) -> Outcome {
        let incomplete = self.incomplete.len();
        let by_commit = |one: &TransactionId| self.settled.get(one) == Some(&SettledBy::Commit);
        assert!(!self.incomplete.keys().any(by_commit), "a commit whose parts lack does not count");
        self.aborted.extend(self.incomplete.into_keys());
        self.aborted.extend(self.open.into_keys());
        for (tail, cut) in self.tails.iter_mut().zip(self.cut.iter().flatten()) {
            tail.sequence = tail.sequence.min(*cut);
        }
        Outcome {
            tails: self.tails,
            last_multi: self.last_multi,
            last_source: self.last_source,
            replaced: self.replaced,
            changed_votes: self.changed_votes,
            left_out: self.aborted,
            incomplete,
            void_calls: self.void_calls,
            cut: self.cut,
        }
    }
}

impl Outcome {
    /// Whether an entry of a partition is to be replayed.
    #[inline]
    pub fn replays(&self, partition: PartitionId, transaction: TransactionId) -> bool {
        let skipped = match transaction.partition() == PartitionId::MULTI {
            true => &self.left_out,
            false => &self.void_calls[partition.index()],
        };
        skipped.is_empty() || !skipped.contains(&transaction)
    }

    /// Whether an entry of a partition is after the point at which replay stops.
    #[inline]
    pub fn is_behind(&self, partition: PartitionId, sequence: u64) -> bool {
        self.cut.as_ref().is_some_and(|cut| sequence > cut[partition.index()])
    }

    /// A transaction turns out not to have been committed: a partition that had said yes to it
    /// cannot repeat its part without what was aborted before. False if it was left out already.
    pub fn leave_out(&mut self, transaction: TransactionId) -> bool {
        self.left_out.insert(transaction)
    }

    /// Whether an entry is void, because a later epoch replaced it.
    #[inline]
    pub fn is_replaced(&self, partition: PartitionId, source: LogSource, sequence: u64) -> bool {
        self.replaced.has(partition, source, sequence)
    }

    /// There is a trace of this source, which may be later than those of the entries.
    pub fn raise_source(&mut self, source: LogSource) {
        let LogSource { epoch, incarnation } = self.last_source;
        self.last_source = LogSource {
            epoch: epoch.max(source.epoch),
            incarnation: incarnation.max(source.incarnation),
        };
        assert!(self.last_source >= source, "the last source is not earlier than any other");
    }

    /// Who orders what follows: the next run, in the same epoch.
    pub fn next_source(&self) -> LogSource {
        LogSource { incarnation: self.last_source.incarnation + 1, ..self.last_source }
    }

    /// Whether a call at one partition failed or was withdrawn.
    pub fn is_void(&self, partition: PartitionId, call: TransactionId) -> bool {
        self.void_calls[partition.index()].contains(&call)
    }

    /// Number of calls at one partition that failed, and have an entry, or were withdrawn.
    pub fn void_calls(&self) -> usize {
        self.void_calls.iter().map(BTreeSet::len).sum()
    }

    /// Number of transactions that are left out although a log has their commit, because the log of
    /// another partition does not have its part.
    pub fn incomplete(&self) -> usize {
        self.incomplete
    }

    /// Number of transactions over several partitions that are left out.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }
}
