//! What becomes of the entries of a stream, as far as it is settled.

use lockstep_txn::log_entry::{Entry, EntryBody, EntryKind, Vote};
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
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// Transactions over several partitions with entries that are not applied, and their outcomes.
    decisions: BTreeMap<TransactionId, Option<bool>>,
    /// Calls that failed, or were withdrawn.
    void: BTreeSet<TransactionId>,
    /// The latest transaction of all.
    last: TransactionId,
}

impl Verdicts {
    /// The next entry, in the order of the log.
    pub(super) fn note(&mut self, entry: &Entry<'_>) {
        let transaction = entry.header.transaction;
        let is_multi = transaction.partition() == PartitionId::MULTI;
        self.last = self.last.max(transaction);
        match entry.body {
            EntryBody::Commit(_) => self.decide(transaction, true),
            EntryBody::Abort => self.decide(transaction, false),
            EntryBody::Vote(Vote::No) | EntryBody::Withdrawn if !is_multi => {
                self.void.insert(transaction);
            }
            EntryBody::Vote(_) if !is_multi => {
                self.void.remove(&transaction);
            }
            EntryBody::Vote(_) | EntryBody::Withdrawn | EntryBody::Epoch(_) => {}
            _ if is_multi => {
                let before = self.decisions.entry(transaction).or_default();
                assert!(before.is_none(), "nothing is logged of a transaction that is decided");
            }
            _ => {}
        }
    }

    /// How a transaction ends.
    pub(super) fn decide(&mut self, transaction: TransactionId, commits: bool) {
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

    /// The latest transaction that was noted.
    pub(super) fn last(&self) -> TransactionId {
        self.last
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
