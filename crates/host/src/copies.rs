//! The copies of partitions at a host, as far as the thread of its links has them: it takes what
//! leaders send, sends receipts at once, and gives the entries to the sites that apply them. When
//! the control plane begins a new epoch, it seals the copies here, and, where this host is to lead,
//! collects what the other copies report and determines how the epoch opens.
//!
//! The site of a leader seals its stream itself, because calls end there, and reports to that
//! thread. Everything here follows from messages and placements; no clock is read.
//!
//! With a command log a copy writes what it takes to the log of its host as well, which is for the
//! surroundings ([`Copies::take_to_log`]). Where that is synchronous, receipts wait for it.

mod followed;

use crate::follower::codec::{CopyMessage, OfCopy};
use crate::loading::{Attempt, LoadPart, NumberedPart};
use crate::placement::Placement;
use followed::{Followed, send, take_stream};
use lockstep_txn::replica::{
    CopyPlan, EpochHistory, FollowerStream, Piece, Receipts, ReplicaFaults, ReplicaStream,
    SealReport, Survivor, plan_takeover,
};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// What a copy of a partition gets to apply.
pub struct FollowedPiece {
    /// The partition.
    pub partition: PartitionId,
    /// Entries that follow those before.
    pub piece: Option<Piece>,
    /// Entries up to this one may be applied.
    pub horizon: u64,
    /// The digest that the leader has at a position, if it is to be compared.
    pub digest: Option<(u64, u64)>,
}

/// How a partition's epoch opens, in which a copy here leads: all copies in sync are sealed for it.
pub struct Opening {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch.
    pub epoch: u32,
    /// The other copies in sync, and up to which entry each has the log.
    pub followers: Vec<(HostId, u64)>,
    /// The hosts of all copies in sync.
    pub in_sync: Vec<HostId>,
    /// Of a copy that followed: its last entry, where its epochs began, and what others may lack.
    /// None where the leader stays.
    pub log: Option<(u64, EpochHistory, Vec<Piece>)>,
}

/// What the copies of a host give to a thread.
pub enum ToThread {
    /// To a leader's site, or to the thread of the links of the host that is to lead.
    Copy(OfCopy),
    /// To the site of a copy here: entries to apply.
    Follow(FollowedPiece),
    /// To the site of a copy here, which is to lead.
    Open(Opening),
    /// To the site of a copy here: a part of what it is loaded from.
    Load(PartitionId, NumberedPart),
    /// To the site of a copy here: what it is loaded from has ended, or has not begun, unless this
    /// attempt, if one is named, is not its last one.
    LoadAgain(PartitionId, Option<Attempt>),
}

/// What is to be sent, and to which thread of which host.
pub type Sends = Vec<(ThreadId, ToThread)>;

/// What the control plane is to change, because copies are not as it takes them to be, if the
/// partition is still of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Another copy is to lead: its log has the greatest end.
    MoveLeader(PartitionId, HostId, u32),
    /// A copy does not count: it cannot go on from where it is.
    OutOfSync(PartitionId, HostId, u32),
}

/// A copy that is being loaded.
#[derive(Debug, Clone, Copy)]
struct Learned {
    /// The site that loads it.
    site: ThreadId,
    /// The leader of the newest epoch that is known here.
    leader: ThreadId,
}

/// What a copy begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyStart {
    /// The last entry that its command log has: that of its leader too.
    pub end: u64,
    /// When it sends receipts.
    pub receipts: Receipts,
}

/// A partition that this host is to lead in a new epoch, which is not open yet.
struct Taking {
    epoch: u32,
    /// The site that leads.
    site: ThreadId,
    /// The hosts whose copies the placement names.
    in_sync: Vec<HostId>,
    /// By host, whether its copy led the epoch before, and what it reports.
    reports: BTreeMap<HostId, (bool, SealReport)>,
}

/// The copies of this host.
pub struct Copies {
    host: HostId,
    /// By partition, its epoch in the newest placement.
    epochs: Vec<u32>,
    followed: BTreeMap<PartitionId, Followed>,
    /// Those that are not in sync; one that gets entries is among those that follow, too.
    learned: BTreeMap<PartitionId, Learned>,
    taking: BTreeMap<PartitionId, Taking>,
    /// Reports for epochs that this host does not know yet.
    early: Vec<OfCopy>,
    /// Copies for which a receipt may be due.
    touched: BTreeSet<PartitionId>,
    wishes: Vec<Wish>,
    dropped: Vec<(PartitionId, u32)>,
    /// Entries for the command log of the host.
    to_log: Vec<(PartitionId, Piece)>,
    /// When copies send receipts whose entries go to a command log; none without one.
    log_receipts: Option<Receipts>,
    /// Copies that were loaded, the entry after which their logs go on, and their sites.
    log_restarts: Vec<(PartitionId, u64, ThreadId)>,
    /// Copies here answer reads.
    answer_reads: bool,
    /// What other hosts have said, until the placement is known with which the host begins.
    waiting: Option<Vec<(HostId, OfCopy)>>,
    faults: ReplicaFaults,
}

/// Reports for later epochs that are kept: one of each copy.
const EARLY_REPORTS_MAX: usize = 1 << 14;

impl Copies {
    /// The copies that a host has at first, empty ones without a command log.
    pub fn new(placement: &Placement) -> Copies {
        let mut copies = Copies::waiting(placement.host());
        let begun = copies.begin(placement, &BTreeMap::new(), &mut Vec::new());
        begun.expect("nobody has said anything");
        copies
    }

    /// The copies of a host that does not know its placement yet: [`Copies::begin`] follows.
    pub fn waiting(host: HostId) -> Copies {
        Copies {
            host,
            epochs: Vec::new(),
            followed: BTreeMap::new(),
            learned: BTreeMap::new(),
            taking: BTreeMap::new(),
            early: Vec::new(),
            touched: BTreeSet::new(),
            wishes: Vec::new(),
            dropped: Vec::new(),
            to_log: Vec::new(),
            log_receipts: None,
            log_restarts: Vec::new(),
            answer_reads: false,
            waiting: Some(Vec::new()),
            faults: ReplicaFaults::default(),
        }
    }

    /// The placement is known with which the host begins; `logged` has what the copies with command
    /// logs have.
    ///
    /// # Errors
    /// Another host has said what no host of the cluster says.
    pub fn begin(
        &mut self,
        placement: &Placement,
        logged: &BTreeMap<PartitionId, CopyStart>,
        sends: &mut Sends,
    ) -> Result<(), String> {
        let said = self.waiting.take().expect("a host begins once");
        assert!(logged.is_empty() || self.log_receipts.is_some(), "the host has a command log");
        let partitions = (0..placement.partition_count()).map(PartitionId);
        self.epochs = partitions.map(|partition| placement.epoch_of(partition)).collect();
        for site in placement.sites() {
            for replica in placement.followed_by(site) {
                let partition = replica.partition;
                let epoch = placement.epoch_of(partition);
                let history = EpochHistory::of_epoch(epoch);
                let start = logged.get(&partition).copied();
                let (end, receipts) =
                    start.map_or((0, Receipts::AtOnce), |start| (start.end, start.receipts));
                let copy = Followed {
                    stream: FollowerStream::new(epoch, end, history, receipts),
                    site,
                    leader: placement.leader_of(partition),
                    epoch,
                    waits_for_safe: self.waits_for_safe(placement.followers_of(partition).len()),
                    is_logged: start.is_some(),
                };
                self.followed.insert(partition, copy);
            }
        }
        assert!(
            self.followed.values().all(|copy| copy.leader.host() != self.host),
            "a copy follows another host"
        );
        for site in placement.sites() {
            for replica in placement.learned_by(site) {
                let (partition, leader) =
                    (replica.partition, placement.leader_of(replica.partition));
                self.learned.insert(partition, Learned { site, leader });
                sends.push((site, ToThread::LoadAgain(partition, None)));
            }
        }
        for (from, message) in said {
            self.take(from, message, sends)?;
        }
        Ok(())
    }

    /// A leader of this host was drained, and follows from now on, in the newest epoch that is
    /// known here. `logged` is what its command log has, if there is one.
    pub fn follow_after_leading(
        &mut self,
        (partition, site): (PartitionId, ThreadId),
        stream: ReplicaStream,
        logged: Option<CopyStart>,
        placement: &Placement,
        sends: &mut Sends,
    ) {
        assert!(!self.followed.contains_key(&partition), "a leader does not follow");
        let epoch = placement.epoch_of(partition);
        let (leader, followers) =
            (placement.leader_of(partition), placement.followers_of(partition));
        if leader != site && !followers.contains(&site) {
            return self.dropped.push((partition, epoch));
        }
        let led = stream.epoch();
        let log = stream.into_log();
        let start = logged.unwrap_or(CopyStart { end: log.0, receipts: Receipts::AtOnce });
        let mut stream = FollowerStream::after_leading(led, log, start.end, start.receipts);
        let report = stream.seal(epoch).expect("the epoch is later than the one that it led");
        let (waits_for_safe, is_logged) = (self.waits_for_safe(followers.len()), logged.is_some());
        let copy = Followed { stream, site, leader, epoch, waits_for_safe, is_logged };
        self.followed.insert(partition, copy);
        match leader.host() == self.host {
            true => self.take_report(partition, self.host, report, sends),
            false => {
                let to = placement.links_thread_of(leader.host());
                send(sends, to, (partition, self.host), CopyMessage::Sealed(report));
            }
        }
    }

    /// What is to be added to the command log of the host.
    pub fn take_to_log(&mut self) -> Vec<(PartitionId, Piece)> {
        let to_log = std::mem::take(&mut self.to_log);
        assert!(to_log.iter().all(|(_, piece)| piece.entries > 0), "what is logged has entries");
        to_log
    }

    /// The copies that have begun to load their data, the last entry that these have, and their
    /// sites: command logs go on after it, with what [`Copies::take_to_log`] gives from now on.
    pub fn take_log_restarts(&mut self) -> Vec<(PartitionId, u64, ThreadId)> {
        let restarts = std::mem::take(&mut self.log_restarts);
        assert!(restarts.is_empty() || self.log_receipts.is_some(), "there is a command log");
        restarts
    }

    /// The command log of a copy is durable up to an entry: a receipt may be due.
    pub fn note_durable(&mut self, partition: PartitionId, position: u64) {
        if let Some(copy) = self.followed.get_mut(&partition) {
            assert!(copy.is_logged, "what is durable went to a command log");
            copy.stream.note_durable(position.min(copy.stream.end()));
            self.touched.insert(partition);
        }
    }

    /// The host has a command log, for all copies that it has or will have. It is to be said before
    /// the host begins.
    pub fn write_logs(&mut self, receipts: Receipts) {
        assert!(self.waiting.is_some(), "no copy has anything yet");
        self.log_receipts = Some(receipts);
    }

    /// Copies here answer reads: they apply only what all copies of their partition have. The
    /// leaders, which say what that is, know of it. It is to be said before the host begins.
    pub fn answer_reads(&mut self) {
        assert!(self.waiting.is_some(), "no copy has anything yet");
        self.answer_reads = true;
    }

    /// Whether a copy applies only what is safe: because others may lead next, or because what it
    /// has is read.
    fn waits_for_safe(&self, followers: usize) -> bool {
        followers > 1 || self.answer_reads
    }

    /// Breaks them, for the tests of the checks.
    pub fn inject(&mut self, faults: ReplicaFaults) {
        self.faults = faults;
        self.followed.values_mut().for_each(|copy| copy.stream.inject(faults));
    }

    /// Takes what another host says of a copy, or the site of a leader here.
    ///
    /// # Errors
    /// It is not what a host of the cluster says: why.
    pub fn take(&mut self, from: HostId, message: OfCopy, sends: &mut Sends) -> Result<(), String> {
        if let Some(waiting) = &mut self.waiting {
            if waiting.len() >= EARLY_REPORTS_MAX {
                return Err(format!("host {from} says too much before this one has begun"));
            }
            waiting.push((from, message));
            return Ok(());
        }
        let OfCopy { partition, copy, said } = message;
        match said {
            CopyMessage::Stream(message, digest) if copy == self.host => {
                let Some(followed) = self.followed.get_mut(&partition) else { return Ok(()) };
                if followed.leader.host() != from {
                    // A leader that does not know yet that it leads no more.
                    return Ok(());
                }
                self.touched.insert(partition);
                let to = (sends, &mut self.to_log);
                take_stream(followed, (partition, self.host), (message, digest), to)
            }
            CopyMessage::Load(part) if copy == self.host => {
                self.take_part((partition, from), part, sends);
                Ok(())
            }
            CopyMessage::LoadAgain(attempt) if copy == self.host => {
                let learned = self.learned.get(&partition).copied();
                if let Some(learned) = learned.filter(|it| it.leader.host() == from) {
                    self.followed.remove(&partition);
                    sends.push((learned.site, ToThread::LoadAgain(partition, Some(attempt))));
                }
                Ok(())
            }
            CopyMessage::Sealed(report) if copy == from => {
                self.take_report(partition, copy, report, sends);
                Ok(())
            }
            _ => Err(format!("what host {from} says of a copy of partition {partition}")),
        }
    }

    /// A part of what a copy here is loaded from has come. With the first one the copy gets a
    /// stream: what comes in it follows all parts.
    fn take_part(
        &mut self,
        (partition, from): (PartitionId, HostId),
        part: NumberedPart,
        sends: &mut Sends,
    ) {
        let epoch = self.epochs[partition.index()];
        let learned = self.learned.get(&partition).copied();
        let Some(learned) = learned.filter(|it| it.leader.host() == from) else { return };
        if let LoadPart::Head(head) = &part.part {
            if head.epoch != epoch {
                // This host, or the leader, is about to know that epoch: then the copy asks again.
                return;
            }
            let (mut position, history) = (head.position, head.history.clone());
            position += u64::from(self.faults.rejoin_from_wrong_position());
            let is_logged = self.log_receipts.is_some();
            if is_logged {
                self.to_log.retain(|(of, _)| *of != partition);
                self.log_restarts.retain(|(of, ..)| *of != partition);
                self.log_restarts.push((partition, position, learned.site));
            }
            let receipts = self.log_receipts.unwrap_or(Receipts::AtOnce);
            let mut stream = FollowerStream::new(epoch, position, history, receipts);
            stream.inject(self.faults);
            let Learned { site, leader } = learned;
            let waits_for_safe = self.waits_for_safe(0);
            let copy = Followed { stream, site, leader, epoch, waits_for_safe, is_logged };
            self.followed.insert(partition, copy);
        }
        sends.push((learned.site, ToThread::Load(partition, part)));
    }

    /// A copy that is being loaded has another epoch. False if it goes on as one in sync.
    fn learns_on(
        &mut self,
        partition: PartitionId,
        placement: &Placement,
        sends: &mut Sends,
    ) -> bool {
        let Some(learned) = self.learned.get_mut(&partition) else { return false };
        learned.leader = placement.leader_of(partition);
        let site = learned.site;
        // It may lead already: this host may have missed the epoch in which it came in sync.
        if learned.leader == site || placement.followers_of(partition).contains(&site) {
            assert!(self.followed.contains_key(&partition), "a copy in sync gets entries");
            self.learned.remove(&partition);
            return false;
        }
        self.followed.remove(&partition);
        match placement.learning_of(partition).contains(&site) {
            true => sends.push((site, ToThread::LoadAgain(partition, None))),
            false => drop(self.learned.remove(&partition)),
        }
        true
    }

    /// Sends the receipts that are due, but for copies whose site lags: their leader is to be
    /// slowed down. True if some are held back.
    pub fn send_receipts(
        &mut self,
        is_behind: impl Fn(PartitionId) -> bool,
        sends: &mut Sends,
    ) -> bool {
        let Copies { host, followed, touched, .. } = self;
        touched.retain(|partition| {
            let Some(copy) = followed.get_mut(partition) else { return false };
            if is_behind(*partition) {
                return true;
            }
            if let Some(receipt) = copy.stream.receipt() {
                send(sends, copy.leader, (*partition, *host), CopyMessage::Receipt(receipt));
            }
            false
        });
        !touched.is_empty()
    }

    /// Another placement is in force: copies are sealed for their new epochs.
    pub fn follow_placement(&mut self, placement: &Placement, sends: &mut Sends) {
        let partitions = (0..placement.partition_count()).map(PartitionId);
        for partition in partitions {
            self.follow_epoch(partition, placement, sends);
        }
        self.begin_learning(placement, sends);
        let known = |message: &OfCopy| match &message.said {
            CopyMessage::Sealed(report) => report.epoch <= placement.epoch_of(message.partition),
            _ => unreachable!("only reports are kept"),
        };
        let (known, later) = std::mem::take(&mut self.early).into_iter().partition(known);
        self.early = later;
        for OfCopy { partition, copy, said } in known {
            let CopyMessage::Sealed(report) = said else { continue };
            self.take_report(partition, copy, report, sends);
        }
    }

    /// Copies that are to be loaded at this host from now on: they ask their leaders.
    fn begin_learning(&mut self, placement: &Placement, sends: &mut Sends) {
        for site in placement.sites() {
            for partition in placement.learned_by(site).iter().map(|replica| replica.partition) {
                let leader = placement.leader_of(partition);
                if self.learned.insert(partition, Learned { site, leader }).is_none() {
                    assert!(!self.followed.contains_key(&partition), "its data do not count");
                    sends.push((site, ToThread::LoadAgain(partition, None)));
                }
            }
        }
    }

    fn follow_epoch(&mut self, partition: PartitionId, placement: &Placement, sends: &mut Sends) {
        let epoch = placement.epoch_of(partition);
        let leader = placement.leader_of(partition);
        let followers = placement.followers_of(partition);
        let known = &mut self.epochs[partition.index()];
        if std::mem::replace(known, epoch) == epoch {
            return;
        }
        let host = self.host;
        let is_here = |thread: &ThreadId| thread.host() == host;
        match is_here(&leader) {
            true => {
                let hosts = std::iter::once(leader).chain(followers.iter().copied());
                let in_sync = hosts.map(ThreadId::host).collect();
                let taking = Taking { epoch, site: leader, in_sync, reports: BTreeMap::new() };
                self.taking.insert(partition, taking);
            }
            false => drop(self.taking.remove(&partition)),
        }
        if self.learns_on(partition, placement, sends) {
            return;
        }
        let Some(copy) = self.followed.get_mut(&partition) else { return };
        assert!(copy.epoch < epoch, "epochs ascend");
        if !is_here(&leader) && !followers.iter().any(is_here) {
            self.dropped.push((partition, epoch));
            self.followed.remove(&partition);
            return;
        }
        (copy.epoch, copy.leader) = (epoch, leader);
        copy.waits_for_safe = followers.len() > 1 || self.answer_reads;
        let Some(report) = copy.stream.seal(epoch) else { return };
        match leader.host() == self.host {
            true => self.take_report(partition, self.host, report, sends),
            false => {
                let to = placement.links_thread_of(leader.host());
                send(sends, to, (partition, self.host), CopyMessage::Sealed(report));
            }
        }
    }

    /// A copy is sealed for an epoch in which this host may lead.
    fn take_report(
        &mut self,
        partition: PartitionId,
        copy: HostId,
        report: SealReport,
        sends: &mut Sends,
    ) {
        let Some(taking) = self.taking.get_mut(&partition).filter(|it| it.epoch >= report.epoch)
        else {
            if self.early.len() < EARLY_REPORTS_MAX {
                self.early.push(OfCopy { partition, copy, said: CopyMessage::Sealed(report) });
            }
            return;
        };
        if taking.epoch > report.epoch {
            return;
        }
        // The copy that this host leads is not among those that it follows.
        let led = copy == self.host && !self.followed.contains_key(&partition);
        taking.reports.insert(copy, (led, report));
        if taking.in_sync.iter().all(|host| taking.reports.contains_key(host)) {
            self.open(partition, sends);
        }
    }

    /// All copies are sealed for the epoch: it opens here, or the control plane has to change it.
    fn open(&mut self, partition: PartitionId, sends: &mut Sends) {
        let taking = self.taking.remove(&partition).expect("its last report has just come");
        let survivor = |(host, (led, sealed)): (&HostId, &(bool, SealReport))| Survivor {
            host: *host,
            led: *led,
            sealed: sealed.clone(),
        };
        let survivors: Vec<Survivor> = taking.reports.iter().map(survivor).collect();
        let takeover = plan_takeover(taking.epoch, &taking.in_sync, &survivors, self.faults)
            .expect("every copy in sync is sealed for the epoch");
        if takeover.leader != self.host {
            return self.wishes.push(Wish::MoveLeader(partition, takeover.leader, taking.epoch));
        }
        let diverged = |(_, plan): &&(HostId, CopyPlan)| matches!(plan, CopyPlan::Diverged { .. });
        if let Some((host, _)) = takeover.copies.iter().find(diverged) {
            return self.wishes.push(Wish::OutOfSync(partition, *host, taking.epoch));
        }
        let log = self.followed.remove(&partition).map(|followed| followed.stream.into_log());
        let (followers, in_sync) = (takeover.followers(), takeover.in_sync());
        let opening = Opening { partition, epoch: taking.epoch, followers, in_sync, log };
        sends.push((taking.site, ToThread::Open(opening)));
    }

    /// What the control plane is to change.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// The copies of this host that are out of sync since the last call, and in which epoch.
    pub fn take_dropped(&mut self) -> Vec<(PartitionId, u32)> {
        std::mem::take(&mut self.dropped)
    }

    /// The newest epoch of a partition that the copies here know.
    pub fn epoch_of(&self, partition: PartitionId) -> u32 {
        self.epochs[partition.index()]
    }
}
