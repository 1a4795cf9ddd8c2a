//! A follower becomes the leader of its partition.
//!
//! What its log has undecided only the coordinator can decide, the one before or another one: see
//! [`lockstep_site::fence`]. The surroundings
//!
//! 1. begin a [`Promotion`] with the copy, sealed for the epoch in which it leads, and give the
//!    followers in sync what they lack of its log;
//! 2. send [`Promotion::report`] to the coordinator when all copies in sync have the log up to
//!    [`Promotion::end`]; again, with a later epoch ([`Promotion::fence`]), if the coordinator is
//!    lost or moved before it has answered;
//! 3. give it all messages of the coordinator to the partition ([`Promotion::take_message`]), and
//!    from the first one on its turns ([`Promotion::run`], [`Promotion::change_catalog`]);
//! 4. take the site when it is ready ([`Promotion::lead`]), deliver the messages that came early,
//!    and then calls, which have waited until now.

use super::{Applied, Follower, FollowerError};
use crate::recovery::{EntrySources, LoggedChange};
use lockstep_site::fence::{FenceReport, LoggedRound, UndecidedTransaction};
use lockstep_site::{
    DecidedLater, FromPartition, Numbered, PartitionEffect, SchemaTask, Site, ToPartition,
};
use lockstep_txn::EntryReader;
use lockstep_txn::log_entry::{EntryBody, LogSource, Vote};
use lockstep_types::{HostId, PartitionId, TransactionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A copy that is to lead, until everything in its log is decided. See the module.
pub struct Promotion<H, A, C> {
    follower: Follower<H, A, C>,
    /// The epoch of the coordinator's stream to it.
    epoch: u64,
    catalog_version: u64,
    undecided: Vec<UndecidedTransaction>,
    /// What the coordinator has decided, and waits for.
    resolved: Option<Resolved>,
    /// Messages of the coordinator after its first one.
    early: Vec<Numbered<C>>,
    /// Another coordinator came, in this epoch, when everything was decided.
    later: Option<u64>,
}

struct Resolved {
    decided: Vec<DecidedLater>,
    acknowledge: Arc<[TransactionId]>,
}

/// A copy that leads.
pub struct Led<H, A, C> {
    /// Its site, whose log begins the epoch.
    pub site: Site<H, A, C>,
    /// What it tells the coordinator.
    pub effects: Vec<PartitionEffect<H, A, C>>,
    /// Messages of the coordinator that came early.
    pub early: Vec<Numbered<C>>,
}

impl<H, A, C: Clone> Promotion<H, A, C> {
    /// The copy is to lead, sealed: all that it has is its log now. `epoch` is the one of the
    /// cluster in which it leads, and its catalog has this version.
    ///
    /// # Errors
    /// Its entries are not sound.
    pub fn begin(
        mut follower: Follower<H, A, C>,
        epoch: u64,
        catalog_version: u64,
    ) -> Result<Promotion<H, A, C>, FollowerError> {
        follower.advance(follower.end)?;
        let undecided = follower.read_undecided()?;
        let (resolved, early, later) = (None, Vec::new(), None);
        Ok(Promotion { follower, epoch, catalog_version, undecided, resolved, early, later })
    }

    /// The last entry of its log: the report depends on all of them.
    pub fn end(&self) -> u64 {
        self.follower.end
    }

    /// The copy.
    pub fn follower(&self) -> &Follower<H, A, C> {
        &self.follower
    }

    /// The epoch of the stream that it waits for.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The cluster is in a later epoch, in which the coordinator `has_moved` or not: it needs a
    /// report. False if everything is decided: then the site reports when it leads, to another one.
    pub fn fence(&mut self, epoch: u64, has_moved: bool) -> bool {
        if self.resolved.is_some() {
            // A repetition of what the report was for changes nothing: the coordinator has it.
            if epoch > self.epoch && (has_moved || self.later.is_some()) {
                self.later = self.later.max(Some(epoch));
            }
            return false;
        }
        if epoch > self.epoch {
            self.epoch = epoch;
            self.early.clear();
        }
        true
    }

    /// What the coordinator is to decide.
    pub fn report(&self) -> FromPartition {
        let verdicts = &self.follower.verdicts;
        FromPartition::Fenced(Box::new(FenceReport {
            partition: self.follower.partition,
            epoch: self.epoch,
            undecided: self.undecided.clone(),
            outcomes: verdicts.outcomes().all().cloned().collect(),
            change: verdicts.last_change(),
            catalog_version: self.catalog_version,
            last: verdicts.last(),
        }))
    }

    /// A message of the coordinator. The first of the stream has the decisions; one of another
    /// stream is not taken.
    pub fn take_message(&mut self, message: Numbered<C>) {
        if message.epoch != self.epoch {
            return;
        }
        match message.message {
            ToPartition::Resolve { decisions, acknowledge } if self.resolved.is_none() => {
                let mut decided = Vec::with_capacity(self.undecided.len());
                for one in &self.undecided {
                    let transaction = one.transaction;
                    let known = decisions.iter().find(|known| known.transaction == transaction);
                    let commits = known.is_some_and(|known| known.commits)
                        || self.follower.faults.commits_open;
                    let writers = known.and_then(|known| known.writers.clone());
                    let LoggedRound { round, vote } =
                        one.logged.unwrap_or(LoggedRound { round: 1, vote: Vote::None });
                    let participants = one.voters.clone();
                    let one =
                        DecidedLater { transaction, vote, round, participants, commits, writers };
                    self.follower.verdicts.decide_now(transaction, commits, &one.writers);
                    decided.push(one);
                }
                self.resolved = Some(Resolved { decided, acknowledge });
            }
            ToPartition::Resolve { .. } => {}
            _ => self.early.push(message),
        }
    }

    /// Applies more of what it has, once everything is decided.
    ///
    /// # Errors
    /// An entry cannot run, which it could at the leader.
    pub fn run<O>(&mut self, sources: &EntrySources<'_, O>) -> Result<Applied, FollowerError> {
        match self.resolved {
            Some(_) => self.follower.run(sources),
            None => Ok(Applied::Idle),
        }
    }

    /// [`Follower::change_catalog`].
    ///
    /// # Errors
    /// It is another change, or fails here.
    pub fn change_catalog(
        &mut self,
        change: &LoggedChange,
        task: &SchemaTask<C>,
    ) -> Result<(), FollowerError> {
        self.follower.change_catalog(change, task)?;
        self.catalog_version = change.catalog_version;
        Ok(())
    }

    /// Whether everything is decided and applied, so that it can lead.
    pub fn is_ready(&self) -> bool {
        self.resolved.is_some() && self.follower.is_done()
    }

    /// The copy leads: its log begins the epoch, and has the decisions. Nothing that it reports is
    /// released before all copies in sync have the first entry.
    ///
    /// # Panics
    /// Something is not applied.
    pub fn lead(self, source: LogSource, in_sync: &[HostId], now_us: i64) -> Led<H, A, C> {
        assert!(self.is_ready(), "everything is decided and applied");
        let Resolved { decided, acknowledge } = self.resolved.expect("everything is decided");
        let Follower { end, runner, mut verdicts, .. } = self.follower;
        let (last, last_change) = (verdicts.last(), verdicts.last_change());
        let mut site = runner.site;
        site.go_on_behind((source, end), last, self.catalog_version);
        site.join_stream(self.epoch, verdicts.take_outcomes(), (last, last_change));
        site.open_epoch(in_sync, &decided, now_us);
        let mut effects = Vec::new();
        site.joined(&acknowledge, &mut effects);
        let mut early = self.early;
        if let Some(later) = self.later {
            // The next coordinator waits for the report, and takes nothing back of what the one
            // before has sent.
            site.fence(later, &mut effects);
            early.clear();
        }
        Led { site, effects, early }
    }
}

impl<H, A, C: Clone> Follower<H, A, C> {
    /// Whether everything that is here is applied.
    pub fn is_done(&self) -> bool {
        self.done == self.end && self.stopped_at.is_none()
    }

    /// What the log has of transactions without a decision. A yes after which it has the abort of
    /// a transaction that ran before is void, until the next vote.
    fn read_undecided(&self) -> Result<Vec<UndecidedTransaction>, FollowerError> {
        let one = |transaction| {
            let (logged, voters) = (LoggedRound { round: 1, vote: Vote::None }, Vec::new());
            (transaction, (logged, voters))
        };
        let mut undecided: BTreeMap<TransactionId, (LoggedRound, Vec<PartitionId>)> =
            self.verdicts.undecided().map(one).collect();
        for piece in &self.pieces {
            let mut reader = EntryReader::new(&piece.bytes);
            loop {
                let entry = reader.read().map_err(|error| self.stopped(error.to_string()))?;
                let Some(entry) = entry else { break };
                let transaction = entry.header.transaction;
                if matches!(entry.body, EntryBody::Abort) && !self.faults.trusts_void_votes {
                    let after = undecided.range_mut(transaction..);
                    after.for_each(|(_, (logged, _))| logged.vote = Vote::None);
                }
                let Some((logged, voters)) = undecided.get_mut(&transaction) else { continue };
                match &entry.body {
                    EntryBody::Fragments(fragments) => {
                        *logged = LoggedRound { round: fragments.round, vote: fragments.vote };
                        *voters = fragments.participants().collect();
                    }
                    EntryBody::Call(call) => {
                        *logged = LoggedRound { round: 1, vote: call.vote };
                        *voters = call.participants().collect();
                    }
                    EntryBody::Vote(vote) => logged.vote = *vote,
                    _ => {}
                }
            }
        }
        let one = |(transaction, (logged, voters))| UndecidedTransaction {
            transaction,
            logged: Some(logged),
            voters,
        };
        Ok(undecided.into_iter().map(one).collect())
    }
}
