//! A snapshot of a copy that follows: it begins where that of the leader does, after the commit of
//! the transaction that begins it, so that all copies of all partitions are saved as of one
//! transaction.

use super::Follower;
use lockstep_site::{Site, SnapshotBegun, SnapshotStart};
use lockstep_txn::log_entry::{Entry, EntryBody, LogSource};
use lockstep_types::TransactionId;
use std::sync::Arc;

/// A snapshot that the host of a copy gets ready for.
#[derive(Default)]
pub(super) struct AwaitedSnapshot {
    /// Its name, and what it has.
    expected: Option<(Arc<[u8]>, SnapshotStart)>,
    /// The transaction that begins it, whose commit comes next.
    transaction: Option<TransactionId>,
    /// The log had it, and nobody has taken what has begun.
    begun: Option<Option<Box<SnapshotBegun>>>,
    /// The name of one that the log had before anybody expected it here.
    missed: Option<Box<[u8]>>,
}

impl<H, A, C: Clone> Follower<H, A, C> {
    /// A snapshot of this name is to begin where the log has it; in place of any before. False if
    /// the log had it already: then there is none of this copy.
    pub fn expect_snapshot(&mut self, nonce: Arc<[u8]>, start: SnapshotStart) -> bool {
        let is_missed = self.snapshot.missed.take().is_some_and(|missed| *missed == *nonce);
        let expected = (!is_missed).then_some((nonce, start));
        self.snapshot = AwaitedSnapshot { expected, ..Default::default() };
        !is_missed
    }

    /// The expected snapshot, when the log has it: it has begun, or cannot begin because another
    /// one is in progress.
    pub fn take_snapshot(&mut self) -> Option<Option<Box<SnapshotBegun>>> {
        self.snapshot.begun.take()
    }

    /// The copy's data, for a step of its snapshot, which changes nothing.
    pub fn saved_site(&mut self) -> &mut Site<H, A, C> {
        &mut self.runner.site
    }

    /// An entry was passed: the expected snapshot may begin.
    pub(super) fn note_snapshot(&mut self, entry: &Entry<'_>, source: LogSource) {
        let Some((nonce, start)) = &self.snapshot.expected else {
            if let EntryBody::Snapshot(name) = entry.body {
                self.snapshot.missed = Some(name.into());
            }
            return;
        };
        let transaction = entry.header.transaction;
        match entry.body {
            EntryBody::Snapshot(name) if *name == **nonce => {
                self.snapshot.transaction = Some(transaction);
            }
            EntryBody::Commit(_) if self.snapshot.transaction == Some(transaction) => {
                let place = (source, entry.sequence, self.verdicts.last());
                let site = &mut self.runner.site;
                let begun = site.begin_followed_snapshot(start, transaction, place);
                assert_eq!(self.done, entry.sequence, "it has everything up to here");
                self.snapshot = AwaitedSnapshot::default();
                self.snapshot.begun = Some(begun.map(Box::new));
            }
            _ => {}
        }
    }
}
