//! A follower's side of the stream from its leader.

use super::{EpochHistory, Piece, Receipt, ReplicaFaults, SealReport, ToFollower};
use std::collections::VecDeque;

/// When a follower sends receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipts {
    /// As soon as it has the entries: there is no command log, or it is asynchronous.
    AtOnce,
    /// When its command log is durable up to them.
    WhenDurable,
}

/// What becomes of a message of a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// New entries: to be appended to the follower's command log, and to be applied in order.
    Append(Piece),
    /// No new entries; positions may have advanced.
    Positions,
    /// The entries are there already. A receipt may be due again.
    Repeated,
    /// Nothing of it counts.
    Refused(NotTaken),
}

/// Why nothing of a message counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTaken {
    /// Its epoch is over, for this copy at least.
    OldEpoch {
        /// The epoch that the copy follows, or for which it is sealed.
        current: u32,
    },
    /// Its epoch has not been opened here yet.
    NotOpen {
        /// The epoch that the copy follows.
        current: u32,
    },
    /// Entries before it are missing: the connection is to be resumed from the copy's end.
    Gap {
        /// The number that is due.
        due: u64,
        /// The number of its first entry.
        found: u64,
    },
    /// It has no entries, or entries of an epoch that cannot follow: not what a leader sends.
    Unsound,
    /// Some of its entries are there, others are not: not what a leader sends.
    Overlap {
        /// The number that is due.
        due: u64,
    },
}

/// A copy that follows a leader.
#[derive(Debug, Clone)]
pub struct FollowerStream {
    /// The epoch that it follows.
    epoch: u32,
    /// It takes nothing of epochs before this one; `epoch`, unless it is sealed.
    refuses_before: u32,
    receipts: Receipts,
    /// The last entry that it has.
    end: u64,
    /// Its command log is durable up to here.
    durable: u64,
    /// The position of the last receipt on this connection.
    reported: Option<u64>,
    safe: u64,
    settled: u64,
    /// The entries that may not be at all copies: should it lead next, others may lack them.
    kept: VecDeque<Piece>,
    history: EpochHistory,
    faults: ReplicaFaults,
}

impl FollowerStream {
    /// A copy that has the log of a partition up to the entry `end`, which is safe, and follows the
    /// leader of an epoch.
    pub fn new(epoch: u32, end: u64, history: EpochHistory, receipts: Receipts) -> FollowerStream {
        assert!(history.last_epoch() <= epoch, "epochs ascend");
        FollowerStream {
            epoch,
            refuses_before: epoch,
            receipts,
            end,
            durable: end,
            reported: None,
            safe: end,
            settled: end,
            kept: VecDeque::new(),
            history,
            faults: ReplicaFaults::default(),
        }
    }

    /// A copy that led up to now, and follows the leader of a later epoch: it has what
    /// [`super::ReplicaStream::into_log`] gave, and its command log is durable up to `durable`.
    pub fn after_leading(
        epoch: u32,
        (end, history, kept): (u64, EpochHistory, Vec<Piece>),
        durable: u64,
        receipts: Receipts,
    ) -> FollowerStream {
        let safe = kept.first().map_or(end, Piece::before);
        let mut copy = FollowerStream::new(epoch, end, history, receipts);
        (copy.safe, copy.settled, copy.durable) = (safe, safe, durable.min(end));
        copy.kept = kept.into();
        copy.check_invariants();
        copy
    }

    /// Breaks it, for the tests of the checks.
    pub fn inject(&mut self, faults: ReplicaFaults) {
        self.faults = faults;
    }

    /// The epoch that it follows.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The last entry that it has.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// All in-sync copies have the entries up to here, as the leader advertised.
    pub fn safe(&self) -> u64 {
        self.safe
    }

    /// Up to which of its entries the log is settled, see [`ToFollower::settled`].
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// A message of a leader has arrived.
    pub fn take(&mut self, message: ToFollower) -> Taken {
        let ToFollower { epoch, safe, settled, piece } = message;
        if !self.faults.skip_epoch_check() {
            let current = match self.faults.ack_after_seal() {
                true => self.epoch,
                false => self.refuses_before,
            };
            if epoch < current {
                return Taken::Refused(NotTaken::OldEpoch { current });
            }
            if epoch > self.epoch {
                return Taken::Refused(NotTaken::NotOpen { current: self.epoch });
            }
        }
        let Some(piece) = piece else {
            self.note_positions(safe, settled);
            return Taken::Positions;
        };
        let due = self.end + 1;
        if piece.last() < due && !self.faults.resend_on_reconnect() {
            self.note_positions(safe, settled);
            self.reported = None;
            return Taken::Repeated;
        }
        if piece.first > due && !self.faults.drop_suffix() {
            return Taken::Refused(NotTaken::Gap { due, found: piece.first });
        }
        if piece.first < due && !self.faults.resend_on_reconnect() {
            return Taken::Refused(NotTaken::Overlap { due });
        }
        let source = piece.source.epoch;
        let may_follow = source >= self.history.last_epoch() && source <= epoch;
        if piece.entries == 0 || !(may_follow || self.faults.skip_epoch_check()) {
            return Taken::Refused(NotTaken::Unsound);
        }
        self.end = piece.last().max(self.end);
        self.note_epoch(&piece);
        self.kept.push_back(piece.clone());
        self.note_positions(safe, settled);
        assert!(self.end >= due, "what is taken is new");
        Taken::Append(piece)
    }

    fn note_epoch(&mut self, piece: &Piece) {
        if piece.source.epoch >= self.history.last_epoch() {
            self.history.note(piece.source.epoch, piece.first);
        } else {
            assert!(self.faults.skip_epoch_check(), "a leader sends no entries of older epochs");
        }
    }

    /// The leader has advertised positions, of entries that may still be on their way. What is
    /// safe is so entry by entry; a settled position says nothing before all up to it are here,
    /// because what settles an entry may come after it.
    fn note_positions(&mut self, safe: u64, settled: u64) {
        self.safe = self.safe.max(safe.min(self.end));
        if settled <= self.end {
            self.settled = self.settled.max(settled);
        }
        while self.kept.front().is_some_and(|piece| piece.last() <= self.safe) {
            self.kept.pop_front();
        }
        assert!(self.safe <= self.end && self.settled <= self.end, "positions are of entries here");
    }

    /// The follower's command log is durable up to here.
    pub fn note_durable(&mut self, position: u64) {
        assert!(position <= self.end, "what is durable was appended");
        self.durable = self.durable.max(position);
    }

    /// The receipt to be sent, if one is due.
    pub fn receipt(&mut self) -> Option<Receipt> {
        if self.is_sealed() && !self.faults.ack_after_seal() {
            return None;
        }
        let position = match self.receipts {
            Receipts::AtOnce => self.end,
            Receipts::WhenDurable => self.durable,
        };
        if self.reported == Some(position) {
            return None;
        }
        self.reported = Some(position);
        assert!(position <= self.end, "a receipt is for entries that are here");
        Some(Receipt { epoch: self.epoch, position })
    }

    /// The connection to the leader is a new one: gives the position from which it goes on. What
    /// was reported on the old one may be lost: a receipt is due.
    pub fn reconnect(&mut self) -> u64 {
        self.reported = None;
        assert!(self.durable <= self.end, "what is durable was appended");
        self.end
    }

    /// Refuses all epochs before this one from now on, for good: the surroundings make that durable
    /// before they send the report. `None` if a later seal was taken, or its epoch is not later
    /// than the one that the copy follows.
    pub fn seal(&mut self, epoch: u32) -> Option<SealReport> {
        if epoch <= self.epoch || epoch < self.refuses_before {
            return None;
        }
        self.refuses_before = epoch;
        assert!(self.is_sealed() && self.history.last_epoch() < epoch, "epochs ascend");
        let kept_after = self.kept.front().map_or(self.end, Piece::before);
        Some(SealReport { epoch, end: self.end, history: self.history.clone(), kept_after })
    }

    /// Whether it waits for the epoch for which it is sealed.
    pub fn is_sealed(&self) -> bool {
        self.refuses_before > self.epoch
    }

    /// The epoch for which it is sealed is open, and it follows its leader from its own end on.
    ///
    /// # Panics
    /// It is sealed for a later epoch, or not at all.
    pub fn follow(&mut self, epoch: u32) {
        assert!(self.is_sealed() && epoch >= self.refuses_before, "a seal precedes an epoch");
        self.epoch = epoch;
        self.refuses_before = epoch;
        self.reported = None;
        assert!(!self.is_sealed(), "the new leader is followed");
    }

    /// The copy leads from now on: gives its last entry, where its epochs began, and the entries
    /// that other copies may lack.
    ///
    /// # Panics
    /// It is not sealed.
    pub fn into_log(self) -> (u64, EpochHistory, Vec<Piece>) {
        assert!(self.is_sealed(), "a copy is sealed before it leads");
        (self.end, self.history, self.kept.into())
    }

    /// Checks what holds between two events.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        assert!(self.refuses_before >= self.epoch, "a copy refuses no epoch that it follows");
        assert!(self.durable <= self.end, "what is durable was appended");
        assert!(self.safe <= self.end && self.settled <= self.end, "positions are of entries here");
        assert!(self.reported.is_none_or(|reported| reported <= self.end), "receipts are true");
        let mut after = self.kept.front().map_or(self.end, Piece::before);
        assert!(after <= self.safe || self.kept.is_empty(), "what is not safe is kept");
        for piece in &self.kept {
            assert_eq!(piece.before(), after, "pieces have no gap");
            after = piece.last();
        }
        assert_eq!(after, self.end, "what is kept ends with the last entry");
        assert!(self.history.last_epoch() <= self.epoch, "no entry is of a later epoch");
    }
}
