//! A copy that leads from now on: the first entries of its epoch.

use super::Site;
use super::logging::Logged;
use crate::message::Writers;
use lockstep_txn::log_entry::{LogSource, Vote, put_epoch};
use lockstep_txn::{Admission, EntryKind};
use lockstep_types::{HostId, PartitionId, TransactionId};

/// A transaction that a copy's log has something of, and no decision, when the copy becomes the
/// leader; and what was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedLater {
    /// Which.
    pub transaction: TransactionId,
    /// What the partition voted last.
    pub vote: Vote,
    /// The last round that is logged.
    pub round: u32,
    /// With its vote, who else votes.
    pub participants: Vec<PartitionId>,
    /// It is committed; else it is aborted.
    pub commits: bool,
    /// For a commit, the partitions that logged something, unless the last round named them.
    pub writers: Option<Writers>,
}

impl<H, A, C: Clone> Site<H, A, C> {
    /// The copies of the partition have changed, and this one leads on, whatever is in progress:
    /// what was forwarded is of the epochs before, what comes now is of this one. Or it is the
    /// first epoch, and nothing was logged.
    pub fn continue_in_epoch(&mut self, epoch: u32, in_sync: &[HostId], now_us: i64) {
        let source = LogSource { epoch, ..self.log.source() };
        if source != self.log.source() {
            self.log.set_source(source);
        }
        let header = self.initiator.order_apart(now_us / 1000);
        let mut body = Vec::new();
        put_epoch(&mut body, epoch, in_sync);
        self.log.append(&header, EntryKind::Epoch, &body);
    }

    /// The first entry of the epoch in which this copy leads, which names the copies in sync, and
    /// the decisions on transactions before it. [`Site::go_on_behind`] has given the epoch.
    pub fn open_epoch(&mut self, in_sync: &[HostId], decided: &[DecidedLater], now_us: i64) {
        assert!(self.is_idle(), "an epoch begins when nothing is in progress");
        let Admission::Run(header) = self.initiator.admit(now_us / 1000) else {
            unreachable!("an idle partition is free");
        };
        let mut body = Vec::new();
        put_epoch(&mut body, self.log.source().epoch, in_sync);
        self.log.append(&header, EntryKind::Epoch, &body);
        for one in decided {
            let logged = Logged::new(one.vote, one.round, &one.participants);
            self.logged.push(one.transaction, logged);
            match one.commits {
                true => self.log_commit(one.transaction, one.writers.as_deref().map(Vec::as_slice)),
                false => self.log_abort(one.transaction),
            }
        }
        assert!(self.logged.is_empty(), "everything before the epoch is decided");
    }
}
