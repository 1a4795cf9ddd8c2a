//! A follower of a partition: applies what its leader has logged, through the functions that replay
//! a log ([`crate::recovery`]), and nothing that may still be undone.
//!
//! It goes by its own stream alone. An entry waits until the log is settled up to it
//! ([`lockstep_site::Site::settled_sequence`], which the leader sends along), and from the first
//! transaction over several partitions on whose commit or abort has not come, all wait. A write
//! that failed at the leader does not run here, for whatever reason it failed there.
//!
//! A change of the catalog stops the follower until its host has made that change; then it is
//! carried out here, at the same position as at the leader.
//!
//! Digests of changes, of the same position, are compared wherever both sides have one.

pub mod codec;
mod digests;
mod promotion;
mod reads;
mod snapshot;
#[cfg(test)]
mod tests;
mod verdicts;

pub use digests::Divergence;
pub use promotion::{Led, Promotion};

use crate::recovery::runner::{EntryRunner, Fault};
use crate::recovery::{EntrySources, LogPieces, LoggedChange, ReplayFaults};
use digests::DigestTrail;
use lockstep_exec::entries::PartitionEntries;
use lockstep_site::fence::{FenceReport, KnownOutcome, OutcomeMemory};
use lockstep_site::{SchemaTask, Site, SteppedDown};
use lockstep_txn::log_entry::{Entry, EntryBody, LoggedPart, ReadPosition};
use lockstep_txn::replica::Piece;
use lockstep_txn::{EntryHeader, EntryReader};
use lockstep_types::{PartitionId, TransactionId};
use reads::Staleness;
use snapshot::AwaitedSnapshot;
use std::collections::VecDeque;
use std::fmt;
use verdicts::{Verdict, Verdicts};

/// Entries between two maintenances of the tables.
const ENTRIES_A_MAINTENANCE: u64 = 64;

/// Limits of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerLimits {
    /// Entries that it applies before leaders of the same thread have their turn.
    pub slice_entries: u32,
    /// Bytes of entries that wait to be applied; with more the leader is to be slowed down.
    pub backlog_bytes: usize,
}

/// How far a follower came.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied {
    /// There is nothing that may be applied now.
    Idle,
    /// There is more to be applied.
    More,
    /// A change of the catalog is next ([`Follower::change_catalog`]).
    Change(LoggedChange),
}

/// A copy cannot go on: it is out of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerError {
    /// Whose copy.
    pub partition: PartitionId,
    /// The entry that it cannot apply.
    pub entry: u64,
    /// Why, for the user.
    pub problem: String,
}

impl fmt::Display for FollowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FollowerError { partition, entry, problem } = self;
        write!(f, "the copy of partition {partition} stops at entry {entry} of its log: {problem}")
    }
}

impl std::error::Error for FollowerError {}

/// A copy of a partition that applies its leader's log.
pub struct Follower<H, A, C> {
    partition: PartitionId,
    runner: EntryRunner<H, A, C>,
    /// The runner has no log of its own to look back at; kept, for it takes memory.
    no_log: LogPieces,
    limits: FollowerLimits,
    /// What is not wholly applied, in order.
    pieces: VecDeque<Piece>,
    /// Where it goes on in the first of them, if it has stopped there.
    stopped_in_piece: Option<ReadPosition>,
    backlog_bytes: usize,
    /// The last entry that is here.
    end: u64,
    /// The last entry that may be applied, once the transactions before it are decided.
    horizon: u64,
    /// The last entry whose verdict is known.
    judged: u64,
    /// The last entry that is applied.
    done: u64,
    verdicts: Verdicts,
    /// The change of the catalog at which it has stopped.
    stopped_at: Option<TransactionId>,
    digests: DigestTrail,
    snapshot: AwaitedSnapshot,
    staleness: Staleness,
    faults: ReplayFaults,
}

impl<H, A, C: Clone> Follower<H, A, C> {
    /// A copy with the state that the leader had after the entry `position`. It remembers as many
    /// decisions as its site ([`Site::remember_outcomes`]).
    pub fn new(
        partition: PartitionId,
        site: Site<H, A, C>,
        position: u64,
        limits: FollowerLimits,
    ) -> Follower<H, A, C> {
        assert!(limits.slice_entries > 0, "a slice has an entry");
        let verdicts = Verdicts::new(site.outcomes_limit());
        Follower {
            partition,
            runner: EntryRunner::new(partition, site),
            no_log: LogPieces::default(),
            limits,
            pieces: VecDeque::new(),
            stopped_in_piece: None,
            backlog_bytes: 0,
            end: position,
            horizon: position,
            judged: position,
            done: position,
            verdicts,
            stopped_at: None,
            digests: DigestTrail::new(position),
            snapshot: AwaitedSnapshot::default(),
            staleness: Staleness::default(),
            faults: ReplayFaults::default(),
        }
    }

    /// The copy of a leader that was drained, and follows from now on.
    pub fn after_leading(
        partition: PartitionId,
        mut site: Site<H, A, C>,
        limits: FollowerLimits,
    ) -> Follower<H, A, C> {
        let SteppedDown { position, outcomes, last, last_change } = site.step_down();
        let verdicts = Verdicts::of_leader(outcomes, (last, last_change));
        let follower = Follower::new(partition, site, position, limits);
        Follower { verdicts, ..follower }
    }

    /// The copy of a leader that was loaded with its data after the entry `position`, and with what
    /// it knew there of the coordinator's transactions.
    pub fn of_loaded(
        partition: PartitionId,
        site: Site<H, A, C>,
        (position, known): (u64, FenceReport),
        limits: FollowerLimits,
    ) -> Follower<H, A, C> {
        assert!(known.undecided.is_empty(), "a copy is loaded where nothing is undecided");
        let mut outcomes = OutcomeMemory::new(site.outcomes_limit());
        for KnownOutcome { transaction, commits, writers } in known.outcomes {
            outcomes.note(transaction, commits, || writers);
        }
        let verdicts = Verdicts::of_leader(outcomes, (known.last, known.change));
        let follower = Follower::new(partition, site, position, limits);
        Follower { verdicts, ..follower }
    }

    /// Breaks it, for the tests of the checks.
    pub fn inject(&mut self, faults: ReplayFaults) {
        self.faults = faults;
    }

    /// Which partition it is.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The copy's data, as of [`Follower::applied`].
    pub fn site(&self) -> &Site<H, A, C> {
        &self.runner.site
    }

    /// The last entry that is here.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The last entry that is applied.
    pub fn applied(&self) -> u64 {
        self.done
    }

    /// Entries, and the bytes of pieces with them, that wait to be applied.
    pub fn backlog(&self) -> (u64, usize) {
        (self.end - self.done, self.backlog_bytes)
    }

    /// Whether more waits than the limit: the leader is to be slowed down.
    pub fn is_behind(&self) -> bool {
        self.backlog_bytes > self.limits.backlog_bytes
    }

    /// Takes the next piece of the log.
    pub fn push(&mut self, piece: Piece) {
        assert!(piece.entries > 0 && piece.before() == self.end, "pieces have no gap");
        self.end = piece.last();
        self.backlog_bytes += piece.bytes.len();
        self.pieces.push_back(piece);
    }

    /// Entries up to here may be applied, which are all here: the log is settled up to them, and,
    /// where that is asked for, they are safe.
    ///
    /// # Errors
    /// They are not entries of this partition in their order.
    pub fn advance(&mut self, horizon: u64) -> Result<(), FollowerError> {
        assert!(horizon <= self.end, "what settles an entry is here before it is applied");
        self.horizon = self.horizon.max(horizon);
        assert!(self.judged <= self.horizon, "what is not settled has no verdict");
        let first = self.pieces.partition_point(|piece| piece.last() <= self.judged);
        for place in first..self.pieces.len() {
            let piece = self.pieces[place].clone();
            if piece.before() >= self.horizon {
                break;
            }
            self.judge(&piece)?;
        }
        assert_eq!(self.judged, self.horizon, "what is settled has a verdict");
        Ok(())
    }

    fn judge(&mut self, piece: &Piece) -> Result<(), FollowerError> {
        let mut reader = EntryReader::new(&piece.bytes);
        while self.judged < self.horizon {
            let head = reader.read_head().map_err(|error| self.stopped(error.to_string()))?;
            let Some(head) = head else { break };
            if head.sequence <= self.judged {
                continue;
            }
            if reader.partition() != self.partition || head.sequence != self.judged + 1 {
                let (of, number) = (reader.partition(), head.sequence);
                return Err(self.stopped(format!("entry {number} of partition {of} comes next")));
            }
            if !self.verdicts.note_call(&head) {
                let entry = reader.read_body(head);
                let entry = entry.map_err(|error| self.stopped(error.to_string()))?;
                self.verdicts.note(&entry, reader.catalog_version());
            }
            self.judged = head.sequence;
        }
        Ok(())
    }

    /// Applies entries, up to the limit of a slice.
    ///
    /// # Errors
    /// An entry cannot run, which it could at the leader.
    pub fn run<O>(&mut self, sources: &EntrySources<'_, O>) -> Result<Applied, FollowerError> {
        assert!(self.stopped_at.is_none(), "the change that it stopped at is to be made first");
        let mut left = self.limits.slice_entries;
        while let Some(piece) = self.pieces.front().cloned() {
            let stop = self.run_piece(&piece, sources, &mut left)?;
            if self.done == piece.last() {
                self.end_piece();
            }
            if let Some(stop) = stop {
                return Ok(stop);
            }
        }
        Ok(Applied::Idle)
    }

    /// The first piece is applied.
    fn end_piece(&mut self) {
        let piece = self.pieces.pop_front().expect("it was applied");
        self.stopped_in_piece = None;
        self.backlog_bytes -= piece.bytes.len();
        let digest = self.runner.site.database().change_digest();
        self.digests.note_own(piece, digest);
        assert!(!self.pieces.is_empty() || self.done == self.end, "all is applied");
    }

    fn run_piece<O>(
        &mut self,
        piece: &Piece,
        sources: &EntrySources<'_, O>,
        left: &mut u32,
    ) -> Result<Option<Applied>, FollowerError> {
        let mut reader = match self.stopped_in_piece.take() {
            Some(position) => EntryReader::resume(&piece.bytes, position),
            None => EntryReader::new(&piece.bytes),
        };
        loop {
            let entry = reader.read().map_err(|error| self.stopped(error.to_string()))?;
            let Some(entry) = entry else { return Ok(None) };
            if entry.sequence <= self.done {
                continue;
            }
            let verdict = self.verdicts.of(&entry);
            let stop = match verdict {
                Verdict::Wait => Some(Applied::Idle),
                _ if entry.sequence > self.horizon => Some(Applied::Idle),
                _ if *left == 0 => Some(Applied::More),
                _ => None,
            };
            if stop.is_some() {
                self.stopped_in_piece = Some(reader.position_before(&entry));
                return Ok(stop);
            }
            *left -= 1;
            let runs = verdict == Verdict::Run
                || self.faults.replays_failed_writes && verdict == Verdict::Failed;
            if let EntryBody::Schema { catalog_version, change } = entry.body
                && runs
            {
                self.stopped_at = Some(entry.header.transaction);
                let (header, source) = (entry.header, change.to_vec());
                let change = LoggedChange { header, catalog_version, source };
                return Ok(Some(Applied::Change(change)));
            }
            if runs {
                self.run_entry(&entry, sources)?;
            }
            self.pass(&entry);
            self.note_snapshot(&entry, piece.source);
        }
    }

    fn run_entry<O>(
        &mut self,
        entry: &Entry<'_>,
        sources: &EntrySources<'_, O>,
    ) -> Result<(), FollowerError> {
        let ran = self.runner.run_entry(entry, sources, &self.no_log);
        ran.map_err(|fault| match fault {
            Fault::Unsound(problem) | Fault::Fails(problem) => FollowerError {
                partition: self.partition,
                entry: entry.sequence,
                problem: format!("transaction {}: {problem}", entry.header.transaction.0),
            },
        })
    }

    /// An entry is applied, or does not run.
    fn pass(&mut self, entry: &Entry<'_>) {
        self.verdicts.pass(entry);
        self.done = entry.sequence;
        assert!(self.done <= self.horizon, "what may change is not applied");
        if self.done.is_multiple_of(ENTRIES_A_MAINTENANCE) {
            self.runner.site.maintain();
        }
    }

    /// Carries out the change of the catalog that is next: the host has made it.
    ///
    /// # Errors
    /// It is another change, or fails here.
    pub fn change_catalog(
        &mut self,
        change: &LoggedChange,
        task: &SchemaTask<C>,
    ) -> Result<(), FollowerError> {
        let is_next = self.stopped_at == Some(change.header.transaction);
        assert!(is_next, "a change is carried out where the log has it");
        let (made, due) = (task.catalog_version, change.catalog_version);
        if made != due {
            let problem = format!("it makes version {made} of the catalog, and made version {due}");
            return Err(self.stopped(problem));
        }
        let header = EntryHeader { repeated: true, ..change.header };
        let built = self.built(change.header.transaction)?;
        let changed = self.runner.site.replay_change(&header, task, &built);
        changed.map_err(|failure| self.stopped(failure.message))?;
        self.runner.follow_catalog();
        self.stopped_at = None;
        self.done += 1;
        if self.pieces.front().is_some_and(|piece| piece.last() == self.done) {
            self.end_piece();
        }
        Ok(())
    }

    /// The entries of global indexes that other partitions have handed out for a change of the
    /// catalog that is committed: they follow its entry.
    fn built(&self, transaction: TransactionId) -> Result<Vec<PartitionEntries>, FollowerError> {
        let mut built = Vec::new();
        for piece in &self.pieces {
            let mut reader = EntryReader::new(&piece.bytes);
            loop {
                let entry = reader.read().map_err(|error| self.stopped(error.to_string()))?;
                let Some(entry) = entry else { break };
                match entry.body {
                    EntryBody::Build(build) if entry.header.transaction == transaction => {
                        for part in build.parts() {
                            let part = part.map_err(|error| self.stopped(error.to_string()))?;
                            let LoggedPart::Entries { removed, added } = part else { continue };
                            let (removed, added) = (removed.to_vec(), added.to_vec());
                            let partition = self.partition;
                            built.push(PartitionEntries { partition, removed, added });
                        }
                    }
                    EntryBody::Commit(_) if entry.header.transaction == transaction => {
                        return Ok(built);
                    }
                    _ => {}
                }
            }
        }
        // A copy that comes to lead has the commit from the coordinator.
        Ok(built)
    }

    /// The digest that the leader has at a position; the difference, if there is one here.
    pub fn compare(&mut self, position: u64, digest: u64) -> Option<Divergence> {
        assert_ne!(position, 0, "a log without entries has no digest");
        self.digests.note_leader(position, digest);
        self.divergence()
    }

    /// The first difference between the digests of the leader and this copy, if there is one.
    pub fn divergence(&self) -> Option<Divergence> {
        self.digests.divergence(self.partition)
    }

    /// The transactions among the entries that may be applied whose commit or abort has not come,
    /// in order.
    pub fn undecided(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.verdicts.undecided()
    }

    #[cold]
    fn stopped(&self, problem: impl Into<String>) -> FollowerError {
        let (partition, entry) = (self.partition, self.done + 1);
        FollowerError { partition, entry, problem: problem.into() }
    }

    /// Checks what holds between two events.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        assert!(self.done <= self.horizon && self.horizon <= self.end, "applied, settled, here");
        assert_eq!(self.judged, self.horizon, "what is settled has a verdict");
        let mut after = self.pieces.front().map_or(self.end, Piece::before);
        assert!(after <= self.done || self.pieces.is_empty(), "what is not applied is kept");
        for piece in &self.pieces {
            assert_eq!(piece.before(), after, "pieces have no gap");
            after = piece.last();
        }
        assert_eq!(after, self.end, "what is kept ends with the last entry");
        let bytes: usize = self.pieces.iter().map(|piece| piece.bytes.len()).sum();
        assert_eq!(self.backlog_bytes, bytes, "the bytes are those of what waits");
        self.verdicts.check_invariants();
        assert!(!self.site().database().has_undo(), "what is applied is final");
    }
}
