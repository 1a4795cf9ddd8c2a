//! A copy that is being loaded, as the leader has it.
//!
//! The leader gives it its data as of an entry at which nothing is undecided, and keeps for it what
//! it logs from then on, apart from what copies in sync lack: a copy that loads slowly slows nobody
//! down. When the data are there it gets those entries. Once it has nearly all, it *counts*: what
//! the leader answers waits for its receipts, too. Only after it has sent one for everything that
//! was logged before it counted, the control plane is asked to take it in sync
//! ([`ReplicaStream::is_in_sync_due`]): so a copy that is in sync has everything that was answered,
//! even if the leader is lost in that moment.
//!
//! A new epoch ends it. Where that names the copy, it goes on as one in sync; else it begins again.

use super::leader::{Copy, Kept, ReplicaStream, ResumeError};
use super::{EpochHistory, Piece, ToFollower};
use lockstep_types::HostId;
use std::collections::VecDeque;

/// A copy that lacks no more than this many bytes of entries counts.
const CAUGHT_UP_BYTES: usize = 1 << 18;

/// How far a copy is that is being loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its data are on their way.
    Loading,
    /// It gets entries.
    Following,
    /// What is answered waits for it; it is in sync when it has this entry.
    Counts(u64),
}

/// A copy that is being loaded.
#[derive(Debug, Clone)]
pub(super) struct Learner {
    pub(super) copy: Copy,
    /// The run of its process.
    incarnation: u64,
    /// What it has not received, in order, without gaps up to the end of the stream.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    stage: Stage,
}

impl Learner {
    pub(super) fn host(&self) -> HostId {
        self.copy.host
    }

    pub(super) fn log(&mut self, piece: &Piece, logged_us: i64, settled: u64) {
        self.kept_bytes += piece.bytes.len();
        self.kept.push_back(Kept { piece: piece.clone(), logged_us, settled });
    }

    pub(super) fn last_kept(&mut self) -> Option<&mut Kept> {
        self.kept.back_mut()
    }

    pub(super) fn into_kept(self) -> VecDeque<Kept> {
        self.kept
    }

    pub(super) fn kept_after(&self, end: u64) -> u64 {
        self.kept.front().map_or(end, |kept| kept.piece.before())
    }

    pub(super) fn next(&mut self, stream: (u32, u64), positions: (u64, u64)) -> Option<ToFollower> {
        match self.stage {
            Stage::Loading => None,
            Stage::Following | Stage::Counts(_) => self.copy.next(stream, positions, &self.kept),
        }
    }

    pub(super) fn note_received(&mut self, position: u64) -> bool {
        let is_news = self.copy.note_received(position);
        while self.kept.front().is_some_and(|kept| kept.piece.last() <= position) {
            let kept = self.kept.pop_front().expect("it was looked at");
            self.kept_bytes -= kept.piece.bytes.len();
        }
        is_news
    }

    pub(super) fn reconnected(&mut self, position: u64, end: u64) -> Result<(), ResumeError> {
        let kept_after = self.kept_after(end);
        let begins = |kept: &Kept| kept.piece.before() == position;
        if position > end {
            return Err(ResumeError::TooNew { end });
        }
        if position < self.copy.received {
            return Err(ResumeError::Lost { received: self.copy.received });
        }
        if position != end && !self.kept.iter().any(begins) {
            return Err(ResumeError::TooOld { kept_after });
        }
        self.copy.is_connected = true;
        self.copy.sent = position;
        self.copy.advertised = (0, 0);
        Ok(())
    }

    pub(super) fn check_invariants(&self, end: u64) {
        let mut before = self.kept_after(end);
        assert!(before <= self.copy.received.max(before), "what it lacks is kept");
        for kept in &self.kept {
            assert!(kept.piece.before() == before && kept.piece.entries > 0, "pieces have no gap");
            before = kept.piece.last();
        }
        assert_eq!(before, end, "what is kept ends with the last entry");
        let bytes: usize = self.kept.iter().map(|kept| kept.piece.bytes.len()).sum();
        assert_eq!(self.kept_bytes, bytes, "the bytes are those of what is kept");
        assert!(self.kept_after(end) <= self.copy.received, "what it lacks is kept");
    }
}

impl ReplicaStream {
    pub(super) fn learner_of(&mut self, host: HostId) -> Option<&mut Learner> {
        self.learners.iter_mut().find(|learner| learner.copy.host == host)
    }

    /// A copy of a run of a host's process gets the data as they are after the last entry: what is
    /// logged from now on is kept for it. One of the host that was being loaded is forgotten. Gives
    /// that entry, and where the epochs began.
    ///
    /// # Panics
    /// The copy is in sync, or the leader is sealed.
    pub fn begin_learner(&mut self, host: HostId, incarnation: u64) -> (u64, EpochHistory) {
        assert!(!self.is_sealed, "copies are loaded while the leader leads");
        assert!(self.copies.iter().all(|copy| copy.host != host), "a host has one copy");
        self.drop_learner(host);
        let end = self.end;
        let (received, sent, advertised) = (end, end, (u64::MAX, u64::MAX));
        let copy = Copy { host, received, sent, advertised, is_connected: true };
        let (kept, kept_bytes) = (VecDeque::new(), 0);
        let stage = Stage::Loading;
        self.learners.push(Learner { copy, incarnation, kept, kept_bytes, stage });
        (end, self.history.clone())
    }

    /// The copy has its data: it gets the entries that were logged since.
    pub fn note_loaded(&mut self, host: HostId) {
        let prunes = self.faults.prune_during_rejoin();
        if let Some(learner) = self.learner_of(host) {
            assert_eq!(learner.stage, Stage::Loading, "data are loaded once");
            if prunes {
                (learner.kept, learner.kept_bytes) = (VecDeque::new(), 0);
            }
            learner.stage = Stage::Following;
        }
    }

    /// The copy is not loaded any more. True if answers waited for it.
    pub fn drop_learner(&mut self, host: HostId) -> bool {
        let place = self.learners.iter().position(|learner| learner.host() == host);
        let learner = place.map(|place| self.learners.remove(place));
        learner.is_some_and(|learner| matches!(learner.stage, Stage::Counts(_)))
    }

    /// The hosts whose copies are being loaded.
    pub fn learners(&self) -> impl Iterator<Item = HostId> + '_ {
        self.learners.iter().map(Learner::host)
    }

    /// Bytes of entries that are kept for a copy that is being loaded, of those that it lacks.
    pub fn learner_bytes(&self, host: HostId) -> usize {
        let learner = self.learners.iter().find(|learner| learner.host() == host);
        learner.map_or(0, |learner| learner.kept_bytes)
    }

    /// Whether answers wait for a copy that is being loaded.
    pub fn counts(&self, host: HostId) -> bool {
        let learner = self.learners.iter().find(|learner| learner.host() == host);
        learner.is_some_and(|learner| matches!(learner.stage, Stage::Counts(_)))
    }

    /// The run of the process of a copy that is being loaded.
    pub fn incarnation_of(&self, host: HostId) -> Option<u64> {
        let learner = self.learners.iter().find(|learner| learner.host() == host);
        learner.map(|learner| learner.incarnation)
    }

    /// If the copy lacks little, it counts from now on: gives up to which entry it has the log.
    /// What is answered from now on waits for it, which is for the caller to see to.
    pub fn count_learner(&mut self, host: HostId) -> Option<u64> {
        let (end, is_sealed) = (self.end, self.is_sealed);
        let learner = self.learner_of(host)?;
        let lacks_little = learner.kept_bytes <= CAUGHT_UP_BYTES;
        if is_sealed || learner.stage != Stage::Following || !lacks_little {
            return None;
        }
        learner.stage = Stage::Counts(end);
        Some(learner.copy.received)
    }

    /// The run of the copy's process, if it counts and has everything that was logged before it
    /// did: the control plane is to take it in sync.
    pub fn is_in_sync_due(&self, host: HostId) -> Option<u64> {
        let learner = self.learners.iter().find(|learner| learner.host() == host)?;
        let has_all = matches!(learner.stage, Stage::Counts(from) if learner.copy.received >= from);
        (has_all && !self.is_sealed).then_some(learner.incarnation)
    }
}
