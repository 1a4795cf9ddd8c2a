//! A follower becomes the leader of its partition.

use super::{Follower, FollowerError};
use crate::outcomes::{Decided, Outcomes};
use lockstep_site::{DecidedLater, Site};
use lockstep_txn::EntryReader;
use lockstep_txn::log_entry::{EntryBody, LogSource, Vote};
use lockstep_types::{HostId, TransactionId};
use std::collections::BTreeMap;

impl<H, A, C: Clone> Follower<H, A, C> {
    /// The copy is to lead, sealed: all that it has is its log now, and transactions that it has no
    /// decision on end as the coordinator has decided; those that are not decided are aborted, and
    /// nobody may commit them from here on. Then [`Follower::run`] applies the rest.
    ///
    /// # Errors
    /// Its entries are not sound.
    pub fn decide_rest(&mut self, outcomes: &Outcomes) -> Result<Vec<DecidedLater>, FollowerError> {
        self.advance(self.end)?;
        let open: Vec<TransactionId> = self.verdicts.undecided().collect();
        let mut rest: BTreeMap<TransactionId, DecidedLater> = BTreeMap::new();
        for transaction in open {
            let decided = outcomes.of(transaction).cloned();
            let Decided { commits, writers } =
                decided.unwrap_or(Decided { commits: self.faults.commits_open, writers: None });
            let (vote, round, participants) = (Vote::None, 0, Vec::new());
            let one = DecidedLater { transaction, vote, round, participants, commits, writers };
            rest.insert(transaction, one);
            self.verdicts.decide(transaction, commits);
        }
        self.read_votes(&mut rest)?;
        assert!(self.verdicts.undecided().next().is_none(), "everything is decided");
        Ok(rest.into_values().collect())
    }

    /// What the entries that are not applied say of transactions.
    fn read_votes(
        &self,
        of: &mut BTreeMap<TransactionId, DecidedLater>,
    ) -> Result<(), FollowerError> {
        for piece in &self.pieces {
            let mut reader = EntryReader::new(&piece.bytes);
            loop {
                let entry = reader.read().map_err(|error| self.stopped(error.to_string()))?;
                let Some(entry) = entry else { break };
                let Some(one) = of.get_mut(&entry.header.transaction) else { continue };
                match &entry.body {
                    EntryBody::Fragments(fragments) => {
                        (one.vote, one.round) = (fragments.vote, fragments.round);
                        one.participants = fragments.participants().collect();
                    }
                    EntryBody::Call(call) => {
                        (one.vote, one.round) = (call.vote, 1);
                        one.participants = call.participants().collect();
                    }
                    EntryBody::Vote(vote) => one.vote = *vote,
                    _ => one.round = one.round.max(1),
                }
            }
        }
        Ok(())
    }

    /// The copy leads: its site, whose log begins the epoch. Calls may come when the coordinator
    /// has opened its stream; nothing is answered before all copies in sync have the first entry.
    ///
    /// # Panics
    /// Something is not applied.
    pub fn promote(
        self,
        source: LogSource,
        in_sync: &[HostId],
        decided: &[DecidedLater],
        (catalog_version, now_us): (u64, i64),
    ) -> Site<H, A, C> {
        assert!(self.done == self.end && self.stopped_at.is_none(), "everything is applied");
        let (end, last) = (self.end, self.verdicts.last());
        let mut site = self.runner.site;
        site.go_on_behind((source, end), last, catalog_version);
        site.open_epoch(in_sync, decided, now_us);
        site
    }
}

impl<H, A, C: Clone> Follower<H, A, C> {
    /// Whether everything that is here is applied.
    pub fn is_done(&self) -> bool {
        self.done == self.end && self.stopped_at.is_none()
    }
}
