//! The leader's side of the stream to its followers.

use super::learner::Learner;
use super::{EpochHistory, Piece, Receipt, ReplicaFaults, SealReport, ToFollower};
use lockstep_base::elapsed::Elapsed;
use lockstep_types::HostId;
use std::collections::VecDeque;

/// Limits of the stream of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// Bytes of entries that some follower has not received; with more the leader is to be slowed
    /// down ([`ReplicaStream::is_behind`]).
    pub unreceived_bytes: usize,
}

/// What a receipt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptOutcome {
    /// The copy has the entries up to here.
    Advanced(u64),
    /// What was known.
    Known,
    /// It is of another epoch than the leader's, or the leader is sealed.
    OtherEpoch,
    /// The host has no copy that counts.
    NotInSync,
    /// It is for entries that were not sent: the copy is not sound.
    NotSent,
}

/// Why a follower cannot go on where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeError {
    /// The host has no copy that counts.
    NotInSync,
    /// The entries after its position are not kept any more: it is to load a snapshot.
    TooOld {
        /// The entry before the first that is kept.
        kept_after: u64,
    },
    /// It has entries that the leader has not.
    TooNew {
        /// The leader's last entry.
        end: u64,
    },
    /// It follows another epoch, or the leader is sealed: the leader leads no more.
    OtherEpoch,
    /// It has lost entries for which it had sent receipts: the copy is not sound.
    Lost {
        /// Up to which entry it had sent receipts.
        received: u64,
    },
}

/// Nothing was sent in the epoch: also one that has all entries hears of it, and sends a receipt
/// for what its log has.
const NOTHING_ADVERTISED: (u64, u64) = (u64::MAX, u64::MAX);

/// A follower as the leader has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) host: HostId,
    /// Up to which entry it has sent receipts.
    pub(super) received: u64,
    /// The last entry that was sent on the present connection.
    pub(super) sent: u64,
    /// The safe and the settled position that were sent last.
    pub(super) advertised: (u64, u64),
    pub(super) is_connected: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) piece: Piece,
    pub(super) logged_us: i64,
    /// What was settled while its entries were the last ones.
    pub(super) settled: u64,
}

impl Copy {
    /// What is to be sent to it next, of what is kept for it.
    pub(super) fn next(
        &mut self,
        (epoch, end): (u32, u64),
        (safe, last_settled): (u64, u64),
        kept: &VecDeque<Kept>,
    ) -> Option<ToFollower> {
        if !self.is_connected {
            return None;
        }
        let place = kept.partition_point(|kept| kept.piece.before() < self.sent);
        let kept = kept.get(place);
        // With entries before the last ones goes what was settled when they were the last.
        let settled = kept.map_or(last_settled, |kept| kept.settled);
        let piece = kept.map(|kept| kept.piece.clone());
        assert!(
            piece.as_ref().map_or(self.sent == end, |piece| piece.before() == self.sent),
            "what was not sent is kept, from where a piece begins"
        );
        if piece.is_none() && self.advertised == (safe, settled) {
            return None;
        }
        self.sent = piece.as_ref().map_or(self.sent, Piece::last);
        self.advertised = (safe, settled);
        assert!(settled <= self.sent, "what is settled is sent before, or with it");
        Some(ToFollower { epoch, safe, settled, piece })
    }

    /// It has sent a receipt; whether that is news.
    pub(super) fn note_received(&mut self, position: u64) -> bool {
        if position <= self.received {
            return false;
        }
        self.received = position;
        // Receipts of an earlier connection may come after the follower has said where it goes on.
        self.sent = self.sent.max(position);
        true
    }
}

/// What a leader has logged in an epoch, and who has received it.
#[derive(Debug, Clone)]
pub struct ReplicaStream {
    pub(super) epoch: u32,
    /// The last entry that was logged.
    pub(super) end: u64,
    safe: u64,
    settled: u64,
    pub(super) copies: Vec<Copy>,
    /// Copies that are being loaded.
    pub(super) learners: Vec<Learner>,
    /// In order, without gaps up to `end`: what some follower has not received.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    limits: ReplicaLimits,
    pub(super) history: EpochHistory,
    /// It leads no more: its last epoch is over.
    pub(super) is_sealed: bool,
    pub(super) faults: ReplicaFaults,
}

impl ReplicaStream {
    /// The stream of a partition that leads in an epoch after the entry `end`, with the followers
    /// that are in sync and up to which entry each has the log. `suffix` are the last entries of
    /// the log, at least those that a follower lacks.
    ///
    /// # Panics
    /// A follower has more than the leader, or lacks what the suffix does not have.
    pub fn open(
        epoch: u32,
        end: u64,
        history: EpochHistory,
        followers: &[(HostId, u64)],
        suffix: impl IntoIterator<Item = Piece>,
        limits: ReplicaLimits,
    ) -> ReplicaStream {
        assert!(history.last_epoch() <= epoch, "epochs ascend");
        let copy = |(host, position): &(HostId, u64)| Copy {
            host: *host,
            received: *position,
            sent: *position,
            advertised: NOTHING_ADVERTISED,
            is_connected: true,
        };
        let kept = suffix.into_iter().map(|piece| Kept { piece, logged_us: 0, settled: 0 });
        let mut stream = ReplicaStream {
            epoch,
            end,
            safe: 0,
            settled: 0,
            copies: followers.iter().map(copy).collect(),
            learners: Vec::new(),
            kept: kept.collect(),
            kept_bytes: 0,
            limits,
            history,
            is_sealed: false,
            faults: ReplicaFaults::default(),
        };
        stream.kept_bytes = stream.kept.iter().map(|kept| kept.piece.bytes.len()).sum();
        stream.forget_received();
        let kept_after = stream.kept_after();
        assert!(
            followers.iter().all(|(_, position)| (kept_after..=end).contains(position)),
            "what a follower lacks is kept, and it has nothing that the leader has not"
        );
        stream.check_invariants();
        stream
    }

    /// Breaks it, for the tests of the checks.
    pub fn inject(&mut self, faults: ReplicaFaults) {
        self.faults = faults;
    }

    /// The epoch in which it leads.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The last entry that was logged.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The followers that are in sync.
    pub fn followers(&self) -> impl Iterator<Item = HostId> + '_ {
        self.copies.iter().map(|copy| copy.host)
    }

    /// Up to which entry a follower has sent receipts.
    pub fn received(&self, host: HostId) -> Option<u64> {
        self.copies.iter().find(|copy| copy.host == host).map(|copy| copy.received)
    }

    /// What was logged in a round is to be sent.
    pub fn log(&mut self, piece: Piece, now_us: i64) {
        assert!(!self.is_sealed, "a leader that is sealed logs nothing");
        assert!(piece.before() == self.end && piece.entries > 0, "entries have no gap");
        assert_eq!(piece.source.epoch, self.epoch, "a leader orders entries of its epoch");
        self.end = piece.last();
        self.history.note(piece.source.epoch, piece.first);
        for learner in &mut self.learners {
            learner.log(&piece, now_us, self.settled);
        }
        if !self.copies.is_empty() {
            self.kept_bytes += piece.bytes.len();
            self.kept.push_back(Kept { piece, logged_us: now_us, settled: self.settled });
        }
    }

    /// Entries up to `safe` are at all in-sync copies; what the log says of those up to `settled`
    /// is final, see [`ToFollower::settled`]. A settled position beyond what was logged here
    /// waits for those entries, and counts for none before: what settles these may be among them.
    pub fn advertise(&mut self, safe: u64, settled: u64) {
        assert!(settled >= self.settled, "what is settled stays so");
        self.safe = self.safe.max(safe.min(self.end));
        if settled <= self.end {
            self.settled = settled;
            let learners = self.learners.iter_mut().filter_map(Learner::last_kept);
            learners.chain(self.kept.back_mut()).for_each(|last| last.settled = settled);
        }
    }

    /// What is to be sent to a follower next.
    pub fn next_for(&mut self, host: HostId) -> Option<ToFollower> {
        let (epoch, safe) = (self.epoch, self.safe);
        if self.is_sealed {
            return None;
        }
        let (stream, positions) = ((epoch, self.end), (safe, self.settled));
        match self.copies.iter_mut().find(|copy| copy.host == host) {
            Some(copy) => copy.next(stream, positions, &self.kept),
            None => self.learner_of(host)?.next(stream, positions),
        }
    }

    /// A follower has sent a receipt. The gate of the partition advances with it.
    pub fn receipt(&mut self, host: HostId, receipt: Receipt) -> ReceiptOutcome {
        if receipt.epoch != self.epoch || self.is_sealed {
            return ReceiptOutcome::OtherEpoch;
        }
        if receipt.position > self.end {
            return ReceiptOutcome::NotSent;
        }
        let is_news = match self.copies.iter_mut().find(|copy| copy.host == host) {
            Some(copy) => copy.note_received(receipt.position),
            None => match self.learner_of(host) {
                Some(learner) => learner.note_received(receipt.position),
                None => return ReceiptOutcome::NotInSync,
            },
        };
        if !is_news {
            return ReceiptOutcome::Known;
        }
        self.forget_received();
        ReceiptOutcome::Advanced(receipt.position)
    }

    /// The connection to a follower is lost, with whatever was in flight.
    pub fn disconnected(&mut self, host: HostId) {
        let learners = self.learners.iter_mut().map(|learner| &mut learner.copy);
        let copies = self.copies.iter_mut().chain(learners).filter(|copy| copy.host == host);
        copies.for_each(|copy| copy.is_connected = false);
        debug_assert!(self.next_for(host).is_none(), "nothing is sent without a connection");
    }

    /// A follower of an epoch is connected again, and has the entries up to a position. That is no
    /// receipt: a synchronous log may not have them yet.
    ///
    /// # Errors
    /// It cannot go on from there.
    pub fn reconnected(
        &mut self,
        host: HostId,
        epoch: u32,
        position: u64,
    ) -> Result<(), ResumeError> {
        let (end, kept_after) = (self.end, self.kept_after());
        if epoch != self.epoch || self.is_sealed {
            return Err(ResumeError::OtherEpoch);
        }
        if let Some(learner) = self.learner_of(host) {
            return learner.reconnected(position, end);
        }
        let copy = self.copies.iter_mut().find(|copy| copy.host == host);
        let copy = copy.ok_or(ResumeError::NotInSync)?;
        if position > end {
            return Err(ResumeError::TooNew { end });
        }
        if position < copy.received {
            return Err(ResumeError::Lost { received: copy.received });
        }
        let begins = |kept: &Kept| kept.piece.before() == position;
        if position < kept_after || position != end && !self.kept.iter().any(begins) {
            return Err(ResumeError::TooOld { kept_after });
        }
        copy.is_connected = true;
        assert!(position >= copy.received, "a copy has what it sent receipts for");
        copy.sent = position;
        copy.advertised = (0, 0);
        Ok(())
    }

    /// A copy does not count any more, as a new epoch has it.
    pub fn drop_copy(&mut self, host: HostId) {
        self.copies.retain(|copy| copy.host != host);
        self.forget_received();
        assert!(!self.copies.is_empty() || self.kept.is_empty(), "nobody lacks anything");
    }

    /// Bytes of entries that some follower has not received.
    pub fn unreceived_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Whether that is more than the limit: the partition is to take no calls until it is less.
    #[inline]
    pub fn is_behind(&self) -> bool {
        self.kept_bytes > self.limits.unreceived_bytes
    }

    /// How long the first entry that some follower has not received has been waiting.
    pub fn unreceived_age(&self, now_us: i64) -> Elapsed {
        let first = self.kept.front();
        first.map_or(Elapsed::ZERO, |kept| Elapsed::between_us(kept.logged_us, now_us))
    }

    /// The leader stops leading: entries of later epochs follow, or of another leader. Gives what
    /// it has; the same again where it is sealed for this epoch, or nothing for an older one.
    pub fn seal(&mut self, epoch: u32) -> Option<SealReport> {
        if epoch <= self.epoch {
            return None;
        }
        self.is_sealed = true;
        assert!(self.history.last_epoch() < epoch, "a seal is for a later epoch");
        let learners = self.learners.iter().map(|learner| learner.kept_after(self.end));
        let kept_after = learners.chain([self.kept_after()]).min().expect("there is its own");
        let end = self.end;
        Some(SealReport { epoch, end, history: self.history.clone(), kept_after })
    }

    /// Whether it leads no more.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// A sealed leader goes on as the leader of a later epoch, with what its followers have now;
    /// what one of them lacks is kept.
    ///
    /// # Panics
    /// It is not sealed, or a follower cannot go on from there.
    pub fn reopen(self, epoch: u32, followers: &[(HostId, u64)]) -> ReplicaStream {
        assert!(self.is_sealed && epoch > self.epoch, "a leader is sealed before it goes on");
        let (end, history, limits) = (self.end, self.history.clone(), self.limits);
        ReplicaStream::open(epoch, end, history, followers, self.into_suffix(), limits)
    }

    /// What the log has, for a leader that follows another one: its last entry, where its epochs
    /// began, and the last pieces.
    pub fn into_log(self) -> (u64, EpochHistory, Vec<Piece>) {
        assert!(self.is_sealed, "a leader is sealed before another one leads");
        (self.end, self.history.clone(), self.into_suffix())
    }

    /// The last entries, as many as are kept for any copy.
    fn into_suffix(self) -> Vec<Piece> {
        let learners = self.learners.into_iter().map(Learner::into_kept);
        let longest = learners.chain([self.kept]).max_by_key(VecDeque::len);
        longest.into_iter().flatten().map(|kept| kept.piece).collect()
    }

    /// The entry before the first one that is kept for a copy in sync.
    fn kept_after(&self) -> u64 {
        self.kept.front().map_or(self.end, |kept| kept.piece.before())
    }

    fn forget_received(&mut self) {
        let received = self.copies.iter().map(|copy| copy.received).min();
        let received = received.unwrap_or(u64::MAX);
        while self.kept.front().is_some_and(|kept| kept.piece.last() <= received) {
            let kept = self.kept.pop_front().expect("it was looked at");
            self.kept_bytes -= kept.piece.bytes.len();
        }
        assert!(self.kept_after() <= received, "what was not received is kept");
    }

    /// Checks what holds between two events.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        let mut before = self.kept_after();
        for kept in &self.kept {
            assert!(kept.settled <= kept.piece.last().min(self.settled), "it was settled then");
            assert!(kept.piece.before() == before && kept.piece.entries > 0, "pieces have no gap");
            before = kept.piece.last();
        }
        assert_eq!(before, self.end, "what is kept ends with the last entry");
        let bytes: usize = self.kept.iter().map(|kept| kept.piece.bytes.len()).sum();
        assert_eq!(self.kept_bytes, bytes, "the bytes are those of what is kept");
        for (number, copy) in self.copies.iter().enumerate() {
            assert!(copy.received <= copy.sent || !copy.is_connected, "received after it is sent");
            assert!(copy.sent <= self.end, "what was sent was logged");
            assert!(copy.received >= self.kept_after(), "what a copy lacks is kept");
            let others = &self.copies[number + 1..];
            assert!(others.iter().all(|other| other.host != copy.host), "a host has one copy");
        }
        for learner in &self.learners {
            learner.check_invariants(self.end);
            let in_sync = self.copies.iter().any(|copy| copy.host == learner.host());
            assert!(!in_sync, "a copy that is loaded is not in sync");
        }
        assert!(self.settled <= self.end && self.safe <= self.end, "positions are of entries");
        assert!(self.history.last_epoch() <= self.epoch, "no entry is of a later epoch");
    }
}
