//! One partition's entries, run again in their order.

use super::pieces::PartitionLog;
use super::runner::{EntryRunner, EntrySources, Fault};
use super::{ReplayError, ReplaySummary};
use crate::catalog::HostCatalog;
use lockstep_durability::recovery::Outcome;
use lockstep_exec::entries::PartitionEntries;
use lockstep_site::{SchemaTask, Site};
use lockstep_sql::Limits;
use lockstep_txn::log_entry::{Entry, EntryBody, LoggedPart};
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{PartitionId, TransactionId};
use std::collections::VecDeque;

/// Entries between two maintenances of the tables.
const ENTRIES_A_MAINTENANCE: u64 = 64;

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
    runner: EntryRunner<H, A, C>,
    log: L,
    /// The piece that is replayed, and those after it that were read already.
    piece: Vec<u8>,
    ahead: VecDeque<Vec<u8>>,
    /// All of the piece is done.
    piece_done: bool,
    /// Nothing more is to be replayed.
    ended: bool,
    /// The number of the last entry that is done.
    done: u64,
    /// The change of the catalog at which it has stopped.
    stopped_at: Option<TransactionId>,
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
    pub fn new(partition: PartitionId, site: Site<H, A, C>, log: L) -> PartitionReplay<H, A, C, L> {
        PartitionReplay {
            partition,
            done: site.log_sequence(),
            runner: EntryRunner::new(partition, site),
            log,
            piece: Vec::new(),
            ahead: VecDeque::new(),
            piece_done: true,
            ended: false,
            stopped_at: None,
        }
    }

    /// Which partition it is.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    pub(super) fn site(&mut self) -> &mut Site<H, A, C> {
        &mut self.runner.site
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
        self.runner.follow_catalog();
    }

    pub(super) fn finish(self) -> (Site<H, A, C>, ReplaySummary) {
        assert!(self.stopped_at.is_none(), "no change of the catalog is left");
        (self.runner.site, self.runner.counts)
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
            if self.piece_done && !self.next_piece()? {
                self.ended = true;
                break;
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

    /// Takes the next piece; false at the end of the log.
    fn next_piece(&mut self) -> Result<bool, ReplayError> {
        assert!(self.piece_done, "a piece is replayed before the next one");
        if let Some(piece) = self.ahead.pop_front() {
            self.piece = piece;
            return Ok(true);
        }
        let Some(piece) = self.log.next().map_err(ReplayError::Stopped)? else { return Ok(false) };
        self.piece.clear();
        self.piece.extend_from_slice(piece);
        Ok(true)
    }

    /// Carries out the change of the catalog at which it has stopped, at this partition alone: what
    /// other partitions gave for it stands in the log after it.
    ///
    /// # Errors
    /// It fails, which it did not when it ran first, or the log cannot be read: why.
    pub(super) fn change_alone(
        &mut self,
        change: &LoggedChange,
        task: &SchemaTask<C>,
    ) -> Result<(), String> {
        let (partition, transaction) = (self.partition, change.header.transaction);
        let mut built = Vec::new();
        let mut ends = built_for((partition, transaction), &self.piece, &mut built)?;
        let mut place = 0;
        while !ends {
            if place == self.ahead.len() {
                let Some(piece) = self.log.next()? else { break };
                self.ahead.push_back(piece.to_vec());
            }
            ends = built_for((partition, transaction), &self.ahead[place], &mut built)?;
            place += 1;
        }
        assert_eq!(self.stopped_at, Some(transaction), "the change is where the log has it");
        assert!(place <= self.ahead.len(), "what was read ahead is kept");
        let header = EntryHeader { repeated: true, ..change.header };
        let changed = self.runner.site.replay_change(&header, task, &built);
        changed.map_err(|failure| failure.message)
    }

    fn run_piece<O>(
        &mut self,
        piece: &[u8],
        context: &ReplayContext<'_, O>,
    ) -> Result<Option<LoggedChange>, ReplayError> {
        let mut reader = EntryReader::new(piece);
        let ReplayContext { catalog, limits, partition_count, .. } = *context;
        let sources = EntrySources { catalog, limits, partition_count };
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
                    self.runner.counts.left_out += 1;
                    self.runner.left_out |=
                        entry.header.transaction.partition() == PartitionId::MULTI;
                    continue;
                }
                Step::Run => self.note_done(&entry)?,
            }
            if let EntryBody::Schema { catalog_version, change } = entry.body {
                self.runner.counts.replayed += 1;
                let (header, source) = (entry.header, change.to_vec());
                return Ok(Some(LoggedChange { header, catalog_version, source }));
            }
            match self.runner.run_entry(&entry, &sources, &self.log) {
                Ok(()) => {}
                Err(Fault::Fails(_)) if self.runner.left_out => {
                    return Err(ReplayError::NotCommitted(entry.header.transaction));
                }
                Err(Fault::Fails(problem) | Fault::Unsound(problem)) => {
                    return Err(self.stopped(&problem));
                }
            }
            if entry.sequence.is_multiple_of(ENTRIES_A_MAINTENANCE) {
                self.runner.site.maintain();
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
}

/// Adds the entries of global indexes that a piece of a log has for a change of the catalog; true
/// if it has the decision on that, after which there are none.
fn built_for(
    (partition, transaction): (PartitionId, TransactionId),
    piece: &[u8],
    built: &mut Vec<PartitionEntries>,
) -> Result<bool, String> {
    let mut reader = EntryReader::new(piece);
    while let Some(entry) = reader.read().map_err(|error| error.to_string())? {
        if entry.header.transaction != transaction {
            continue;
        }
        match entry.body {
            EntryBody::Build(build) => {
                for part in build.parts() {
                    let part = part.map_err(|error| error.to_string())?;
                    if let LoggedPart::Entries { removed, added } = part {
                        let (removed, added) = (removed.to_vec(), added.to_vec());
                        built.push(PartitionEntries { partition, removed, added });
                    }
                }
            }
            EntryBody::Commit(_) | EntryBody::Abort => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}
