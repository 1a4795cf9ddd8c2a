//! Copies of a partition: its leader sends what it logs to its followers, and counts their
//! receipts.
//!
//! * [`ReplicaStream`] is the leader's side: what was logged in a round goes to every in-sync
//!   follower as one [`Piece`], the same bytes as to the command log. What a follower has not
//!   received is kept, up to a limit.
//! * [`FollowerStream`] is the side of one follower: it takes pieces of its epoch in order, and
//!   decides when a receipt may be sent.
//! * [`plan_takeover`] decides, from what the surviving copies have, who leads the next epoch and
//!   what becomes of the other copies.
//! * A copy that is being loaded is a learner of [`ReplicaStream`] until the control plane takes it
//!   in sync.
//! * [`HandOver`] moves a leader on purpose: drain, seal, open.
//!
//! **Why nothing is lost that was answered.** A leader answers when every in-sync copy has sent a
//! receipt for what the answer depends on. Before a new epoch begins every surviving copy is
//! sealed: from then on it takes nothing of an older epoch and sends no receipt for it, so that its
//! end, which it reports with the seal, is an end for good. The greatest end among in-sync copies
//! has everything that was answered. The first entry of the new epoch is safe at all its in-sync
//! copies before anything is answered in it; what other copies have beyond the agreed entries is
//! never kept.
//!
//! An epoch changes only by the control plane, never by a guess: nothing here begins one.

mod follower;
mod hand_over;
mod leader;
mod learner;
mod takeover;
#[cfg(test)]
mod tests;

pub use follower::{FollowerStream, NotTaken, Receipts, Taken};
pub use hand_over::{HandOver, HandOverStage};
pub use leader::{ReceiptOutcome, ReplicaLimits, ReplicaStream, ResumeError};
pub use takeover::{CopyPlan, Survivor, Takeover, TakeoverError, plan_takeover};

use crate::log_entry::{HandedLog, LogSource};
use std::sync::Arc;

/// Epochs of which a copy remembers where they began.
const EPOCHS_REMEMBERED: usize = 64;

/// What a partition logged in one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Who ordered the entries.
    pub source: LogSource,
    /// The number of the first.
    pub first: u64,
    /// How many they are, at least one.
    pub entries: u32,
    /// The entries.
    pub bytes: Arc<[u8]>,
}

impl Piece {
    /// What a partition gives to its command log.
    pub fn of(handed: &HandedLog) -> Piece {
        let HandedLog { bytes, source, first_sequence, entries } = handed;
        Piece {
            source: *source,
            first: *first_sequence,
            entries: *entries,
            bytes: bytes.as_slice().into(),
        }
    }

    /// The number of the entry before it.
    pub fn before(&self) -> u64 {
        self.first.saturating_sub(1)
    }

    /// The number of its last entry.
    pub fn last(&self) -> u64 {
        self.before().saturating_add(u64::from(self.entries))
    }
}

/// What a leader sends to a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToFollower {
    /// The epoch in which it leads.
    pub epoch: u32,
    /// All in-sync copies have the entries up to this one.
    pub safe: u64,
    /// What the log says of the entries up to this one cannot change by further entries, unless a
    /// transaction over several partitions among them is undecided. They are in this message and
    /// those before it: it says nothing of a part of them.
    pub settled: u64,
    /// Entries, if there are new ones.
    pub piece: Option<Piece>,
}

/// A copy has the entries up to a position; in its command log, if that is synchronous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The epoch that the copy follows.
    pub epoch: u32,
    /// The number of the last entry.
    pub position: u64,
}

/// Where epochs began in a copy's log, the latest ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochHistory {
    /// The epoch, and the number of its first entry; ascending.
    begins: Vec<(u32, u64)>,
}

impl EpochHistory {
    /// Of a log whose entries are all of one epoch, or that has none.
    pub fn of_epoch(epoch: u32) -> EpochHistory {
        EpochHistory { begins: vec![(epoch, 0)] }
    }

    /// The epochs with the number of the first entry of each, ascending.
    pub fn begins(&self) -> &[(u32, u64)] {
        &self.begins
    }

    /// The history with these beginnings; `None` where there are none, too many, or they do not
    /// ascend.
    pub fn from_begins(begins: Vec<(u32, u64)>) -> Option<EpochHistory> {
        let ascends = |pair: &[(u32, u64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        let is_sound =
            (1..=EPOCHS_REMEMBERED).contains(&begins.len()) && begins.windows(2).all(ascends);
        is_sound.then_some(EpochHistory { begins })
    }

    /// An entry follows; its epoch may be a new one.
    pub fn note(&mut self, epoch: u32, sequence: u64) {
        let (last, first) = *self.begins.last().expect("a log has an epoch");
        assert!(epoch >= last && sequence >= first, "epochs and entries of a log ascend");
        if epoch > last {
            self.begins.push((epoch, sequence));
            if self.begins.len() > EPOCHS_REMEMBERED {
                self.begins.remove(0);
            }
        }
        assert!(self.begins.len() <= EPOCHS_REMEMBERED, "what is remembered is limited");
    }

    /// The epoch of the last entry.
    pub fn last_epoch(&self) -> u32 {
        self.begins.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The last entry up to which a log with this history has the entries of another one, which
    /// ends with an entry of `epoch` at `end`; `None` if that is too long ago to be known.
    pub fn common_end(&self, epoch: u32, end: u64) -> Option<u64> {
        if self.begins.first().is_some_and(|(first, at)| epoch < *first && *at > 0) {
            return None;
        }
        let later = self.begins.iter().find(|(begun, _)| *begun > epoch);
        Some(later.map_or(end, |(_, first)| end.min(first.saturating_sub(1))))
    }
}

/// What a sealed copy reports. It is durable that the copy refuses older epochs before this may be
/// sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealReport {
    /// Entries and receipts of epochs before this one are refused from now on.
    pub epoch: u32,
    /// The number of the copy's last entry.
    pub end: u64,
    /// Where its epochs began.
    pub history: EpochHistory,
    /// The copy keeps the entries after this one, so that it can send them should it lead.
    pub kept_after: u64,
}

lockstep_base::faults! {
    /// Ways to break replication, for the tests of its checks.
    pub struct ReplicaFaults {
        /// A follower takes a piece after a gap: a suffix that a connection lost is missing.
        drop_suffix,
        /// A follower takes a piece again that comes again after a reconnect.
        resend_on_reconnect,
        /// A sealed follower sends receipts for what it takes.
        ack_after_seal,
        /// A follower takes pieces of older epochs.
        skip_epoch_check,
        /// A leader takes entries as safe that its followers have not received.
        answer_before_receipt,
        /// A copy keeps what it has beyond the agreed entries.
        rejoin_keeps_tail,
        /// A copy leads that was not in sync.
        start_stale,
        /// A copy that has its data goes on after another entry than the last one that they have.
        rejoin_from_wrong_position,
        /// What was logged since a copy began to be loaded is dropped before the copy has it.
        prune_during_rejoin,
    }
}
