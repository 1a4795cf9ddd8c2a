//! The stream of a partition from its leader to its copies: what is logged in a round goes to them
//! at its end, and a stream that was sealed goes on in a later epoch.

use crate::follower::codec::CopyMessage;
use crate::gate::SafePosition;
use crate::placement::Placement;
use lockstep_site::Site;
use lockstep_txn::HandedLog;
use lockstep_txn::replica::{
    EpochHistory, Piece, Receipt, ReplicaLimits, ReplicaStream, ResumeError, SealReport,
};
use lockstep_types::{HostId, PartitionId};

/// A greater buffer of entries is not kept for the next round.
const SPARE_BYTES_MAX: usize = 1 << 16;

/// The stream of a partition to its copies.
pub struct Leading {
    /// The stream.
    pub stream: ReplicaStream,
    /// A digest that is to be compared.
    digest: Option<(u64, u64)>,
    /// What was safe and settled when positions were sent last.
    safe: u64,
    settled: u64,
    /// The buffer of the entries of a round, for the next one.
    spare: Vec<u8>,
    /// Copies answer reads.
    copies_read: bool,
}

impl Leading {
    /// Of a partition in the epoch with which its host begins: all its copies have the log up to
    /// `end`, where it was brought back from, or nothing.
    pub fn first(
        (partition, end): (PartitionId, u64),
        placement: &Placement,
        limits: ReplicaLimits,
    ) -> Leading {
        let epoch = placement.epoch_of(partition);
        let followers = placement.followers_of(partition).iter();
        let followers: Vec<(HostId, u64)> = followers.map(|thread| (thread.host(), end)).collect();
        let history = EpochHistory::of_epoch(epoch);
        Leading::of(ReplicaStream::open(epoch, end, history, &followers, [], limits))
    }

    /// Of a stream that is open.
    pub fn of(stream: ReplicaStream) -> Leading {
        let spare = Vec::new();
        Leading { stream, digest: None, safe: 0, settled: 0, spare, copies_read: false }
    }

    /// The copies answer reads, and so wait until they hear of each entry that it is safe.
    pub fn with_reads_at_copies(self, copies_read: bool) -> Leading {
        Leading { copies_read, ..self }
    }

    /// Its sealed stream goes on in a later epoch, to these copies.
    pub fn reopen(&mut self, epoch: u32, followers: &[(HostId, u64)], limits: ReplicaLimits) {
        assert!(self.stream.epoch() < epoch, "epochs ascend");
        let history = EpochHistory::of_epoch(0);
        let nothing = ReplicaStream::open(0, 0, history, &[], [], limits);
        let sealed = std::mem::replace(&mut self.stream, nothing);
        self.stream = sealed.reopen(epoch, followers);
    }

    /// What was logged is put into the stream: at the end of a round what others may depend on,
    /// and everything when nothing else has come. The end of the stream, if that was so.
    pub fn take_log<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        (now_us, all): (i64, bool),
    ) -> Option<u64> {
        if !self.is_due(site, all) {
            return None;
        }
        let spare = std::mem::take(&mut self.spare);
        let handed = self.take_log_into(site, now_us, spare);
        self.keep_spare(handed.bytes);
        Some(self.stream.end())
    }

    /// Whether something was logged that is to be put into the stream now.
    pub fn is_due<H, A, C: Clone>(&self, site: &Site<H, A, C>, all: bool) -> bool {
        let has_log = if all { site.has_log_at_tick() } else { site.has_log_to_hand_over() };
        has_log && !self.stream.is_sealed()
    }

    /// The same for what goes to a command log too, with a buffer of that; something is due.
    pub fn take_log_into<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        now_us: i64,
        buffer: Vec<u8>,
    ) -> HandedLog {
        let handed = site.take_log(buffer);
        self.stream.log(Piece::of(&handed), now_us);
        self.digest = site.decided_digest();
        assert!(handed.entries > 0, "something was due");
        assert!(!self.stream.is_sealed(), "a sealed stream takes nothing");
        handed
    }

    /// What the stream has advertised of its positions is brought up to date, and `true` given if
    /// that is to be sent: after something was logged, and with `all` when it is news.
    pub fn advertise<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        safe: u64,
        (is_logged, all): (bool, bool),
    ) -> bool {
        if self.stream.is_sealed() {
            return false;
        }
        let settled = site.settled_sequence();
        // Where there are several, or they answer reads, a copy applies only what all of them have.
        let waits = self.copies_read || self.stream.followers().count() > 1;
        let is_safe_news = safe != self.safe && waits;
        let is_news = all && (settled != self.settled || self.digest.is_some() || is_safe_news);
        if is_logged || is_news {
            (self.safe, self.settled) = (safe, settled);
            self.stream.advertise(safe, settled);
        }
        is_logged || is_news
    }

    /// What was not sent to a copy yet, one message after the other.
    pub fn send(
        &mut self,
        copies: impl Iterator<Item = HostId>,
        mut send: impl FnMut(HostId, CopyMessage),
    ) {
        let end = self.stream.end();
        let digest = self.digest.take_if(|(position, _)| *position == end && end > 0);
        for copy in copies {
            while let Some(message) = self.stream.next_for(copy) {
                let is_last = message.piece.as_ref().is_none_or(|piece| piece.last() == end);
                let digest = digest.filter(|_| is_last);
                send(copy, CopyMessage::Stream(message, digest));
            }
        }
    }

    /// A copy lacks something that was sent to it: it gets that again.
    ///
    /// # Errors
    /// The copy cannot go on from where it is.
    pub fn resume(&mut self, copy: HostId, after: Receipt) -> Result<(), ResumeError> {
        self.stream.disconnected(copy);
        self.stream.reconnected(copy, after.epoch, after.position)
    }

    /// The stream ends its epoch: everything that was logged is in it, and nothing more is sent
    /// before the next one opens. None if it was sealed for this epoch, or leads in it.
    pub fn seal<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        epoch: u32,
        now_us: i64,
    ) -> Option<SealReport> {
        if epoch <= self.stream.epoch() {
            return None;
        }
        if !self.stream.is_sealed() && site.has_log_at_tick() {
            self.stream.log(Piece::of(&site.take_log(Vec::new())), now_us);
        }
        self.stream.seal(epoch)
    }

    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            self.spare = buffer;
        }
    }
}

impl SafePosition {
    /// The copies that count are those of a new epoch, in which the leader stays.
    pub fn reopen(&mut self, own: (HostId, u64), followers: &[(HostId, u64)]) {
        self.advance(own.0, own.1);
        for (host, position) in followers {
            if !self.hosts().any(|known| known == *host) {
                self.add_copy(*host, (*position).max(self.safe()));
            }
        }
        let stays = |host: &HostId| followers.iter().any(|(stays, _)| stays == host);
        let lost: Vec<HostId> =
            self.hosts().filter(|host| *host != own.0 && !stays(host)).collect();
        lost.into_iter().for_each(|host| self.drop_copy(host));
    }
}
