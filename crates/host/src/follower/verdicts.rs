//! What becomes of the entries of a stream, as far as it is settled.

use lockstep_site::Writers;
use lockstep_site::fence::{ChangeId, OutcomeMemory};
use lockstep_txn::log_entry::{Entry, EntryBody, EntryHead, EntryKind, Vote};
use lockstep_types::{PartitionId, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Run,
    /// It was aborted, or does nothing by itself.
    Pass,
    /// It failed at the leader, or was withdrawn.
    Failed,
    /// Its commit or abort has not come.
    Wait,
}

/// The verdicts on entries that are not applied.
#[derive(Debug)]
pub(super) struct Verdicts {
    /// Transactions over several partitions with entries that are not applied, and their outcomes.
    decisions: BTreeMap<TransactionId, Option<bool>>,
    /// Calls that failed, or were withdrawn.
    void: BTreeSet<TransactionId>,
    /// The latest transaction of all.
    last: TransactionId,
    /// What was decided lately, and the last change of the catalog or beginning of a snapshot: for
    /// a coordinator that is new to the copy when it leads.
    outcomes: OutcomeMemory,
    last_change: Option<ChangeId>,
}

impl Verdicts {
    /// Remembers this many decisions.
    pub(super) fn new(outcomes_limit: usize) -> Verdicts {
        Verdicts {
            decisions: BTreeMap::new(),
            void: BTreeSet::new(),
            last: TransactionId::default(),
            outcomes: OutcomeMemory::new(outcomes_limit),
            last_change: None,
        }
    }

    /// Of a copy that has led: what it knows by then.
    pub(super) fn of_leader(
        outcomes: OutcomeMemory,
        (last, last_change): (TransactionId, Option<ChangeId>),
    ) -> Verdicts {
        Verdicts { outcomes, last, last_change, ..Verdicts::new(0) }
    }

    /// The next entry, if it is a call of the partition alone: whether that runs is for later
    /// entries to say. False, and nothing noted, for any other.
    #[inline]
    pub(super) fn note_call(&mut self, head: &EntryHead<'_>) -> bool {
        let transaction = head.header.transaction;
        let is_call =
            head.kind == EntryKind::Command && transaction.partition() != PartitionId::MULTI;
        if is_call {
            assert!(head.sequence > 0, "entries are numbered from 1");
            self.last = self.last.max(transaction);
        }
        is_call
    }

    /// The next entry, in the order of the log, of this version of the catalog.
    pub(super) fn note(&mut self, entry: &Entry<'_>, catalog_version: u64) {
        let transaction = entry.header.transaction;
        let is_multi = transaction.partition() == PartitionId::MULTI;
        self.last = self.last.max(transaction);
        match entry.body {
            EntryBody::Commit(commit) => {
                let writers = Writers::new(commit.writers().collect());
                self.decide_now(transaction, true, &Some(writers));
            }
            EntryBody::Abort => self.decide_now(transaction, false, &None),
            EntryBody::Vote(Vote::No) | EntryBody::Withdrawn if !is_multi => {
                self.void.insert(transaction);
            }
            EntryBody::Vote(_) if !is_multi => {
                self.void.remove(&transaction);
            }
            EntryBody::Vote(_) | EntryBody::Withdrawn | EntryBody::Epoch(_) => {}
            _ if is_multi => {
                let change = match entry.body {
                    EntryBody::Schema { catalog_version, .. } => Some((catalog_version, None)),
                    EntryBody::Snapshot(source) => Some((catalog_version, Some(source.into()))),
                    _ => None,
                };
                if let Some((catalog_version, snapshot)) = change {
                    self.last_change = Some(ChangeId { transaction, catalog_version, snapshot });
                }
                let before = self.decisions.entry(transaction).or_default();
                assert!(before.is_none(), "nothing is logged of a transaction that is decided");
            }
            _ => {}
        }
    }

    /// How a transaction ends, which is remembered.
    pub(super) fn decide_now(
        &mut self,
        transaction: TransactionId,
        commits: bool,
        writers: &Option<Writers>,
    ) {
        self.outcomes.note(transaction, commits, || writers.clone());
        self.decide(transaction, commits);
    }

    fn decide(&mut self, transaction: TransactionId, commits: bool) {
        let decision = self.decisions.entry(transaction).or_default();
        assert!(decision.is_none_or(|before| before == commits), "a decision is final");
        *decision = Some(commits);
    }

    /// What becomes of an entry that was noted.
    pub(super) fn of(&self, entry: &Entry<'_>) -> Verdict {
        let transaction = entry.header.transaction;
        match entry.kind {
            EntryKind::Commit
            | EntryKind::Abort
            | EntryKind::Vote
            | EntryKind::Withdrawn
            | EntryKind::Epoch
            | EntryKind::Build => Verdict::Pass,
            _ if transaction.partition() == PartitionId::MULTI => {
                match self.decisions.get(&transaction) {
                    Some(Some(true)) => Verdict::Run,
                    Some(Some(false)) => Verdict::Pass,
                    Some(None) | None => Verdict::Wait,
                }
            }
            _ if self.void.contains(&transaction) => Verdict::Failed,
            _ => Verdict::Run,
        }
    }

    /// An entry was applied, or passed over: what comes after it says nothing of what is before.
    pub(super) fn pass(&mut self, entry: &Entry<'_>) {
        let transaction = entry.header.transaction;
        match entry.kind {
            EntryKind::Commit | EntryKind::Abort => {
                let decision = self.decisions.remove(&transaction);
                assert!(decision.flatten().is_some(), "what is passed was noted");
            }
            EntryKind::Vote | EntryKind::Withdrawn => {
                self.void.remove(&transaction);
            }
            _ => {}
        }
    }

    /// Transactions without an outcome, in order.
    pub(super) fn undecided(&self) -> impl Iterator<Item = TransactionId> + '_ {
        let open = self.decisions.iter().filter(|(_, decision)| decision.is_none());
        open.map(|(transaction, _)| *transaction)
    }

    /// Whether no transaction is committed of which entries may be applied and others not.
    pub(super) fn are_whole(&self) -> bool {
        self.decisions.values().all(|decision| *decision != Some(true))
    }

    /// The latest transaction that was noted.
    pub(super) fn last(&self) -> TransactionId {
        self.last
    }

    /// What was decided lately.
    pub(super) fn outcomes(&self) -> &OutcomeMemory {
        &self.outcomes
    }

    pub(super) fn take_outcomes(&mut self) -> OutcomeMemory {
        std::mem::take(&mut self.outcomes)
    }

    /// The last change of the catalog, or beginning of a snapshot.
    pub(super) fn last_change(&self) -> Option<ChangeId> {
        self.last_change.clone()
    }

    /// Checks what holds between two entries.
    ///
    /// # Panics
    /// An invariant is broken.
    pub(super) fn check_invariants(&self) {
        let is_multi = |id: &TransactionId| id.partition() == PartitionId::MULTI;
        assert!(self.decisions.keys().all(is_multi), "only the coordinator's are decided");
        assert!(!self.void.iter().any(is_multi), "only calls of the partition are void");
    }
}
