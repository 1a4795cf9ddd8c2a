//! The copies of partitions at this host, as far as the thread of the links has them: it takes what
//! leaders send, sends receipts at once, and gives the entries to the sites that apply them. When
//! the control plane begins a new epoch, it seals the copies here, and, where this host is to lead,
//! collects what the other copies report and says how the epoch opens.
//!
//! The site of a leader seals its stream itself, because calls end there, and reports to this
//! thread. Everything here follows from messages and placements; no clock is read.

use crate::message::{Envelope, FollowedPiece, Opening};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::placement::Placement;
use lockstep_txn::replica::{
    CopyPlan, EpochHistory, FollowerStream, NotTaken, Receipt, Receipts, ReplicaFaults, SealReport,
    Survivor, Taken, ToFollower, plan_takeover,
};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// What is to be sent, and to which thread of which host.
pub(super) type Sends = Vec<(ThreadId, Envelope)>;

/// What the control plane is to change, because copies are not as it takes them to be, if the
/// partition is still of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Another copy is to lead: its log has the greatest end.
    MoveLeader(PartitionId, HostId, u32),
    /// A copy does not count: it cannot go on from where it is.
    OutOfSync(PartitionId, HostId, u32),
}

/// A copy that follows.
struct Followed {
    stream: FollowerStream,
    /// The site that applies it.
    site: ThreadId,
    /// The leader of the newest epoch that is known here.
    leader: ThreadId,
    /// That epoch.
    epoch: u32,
    /// Entries are applied only when all copies have them, because others may lead next.
    waits_for_safe: bool,
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
pub(super) struct Copies {
    host: HostId,
    /// By partition, its epoch in the newest placement.
    epochs: Vec<u32>,
    followed: BTreeMap<PartitionId, Followed>,
    taking: BTreeMap<PartitionId, Taking>,
    /// Reports for epochs that this host does not know yet.
    early: Vec<OfCopy>,
    /// Copies for which a receipt may be due.
    touched: BTreeSet<PartitionId>,
    wishes: Vec<Wish>,
}

/// Reports for later epochs that are kept: one of each copy.
const EARLY_REPORTS_MAX: usize = 1 << 14;

impl Copies {
    /// The copies that a host has at first, empty ones.
    pub(super) fn new(placement: &Placement) -> Copies {
        let mut followed = BTreeMap::new();
        for site in placement.sites() {
            for replica in placement.followed_by(site) {
                let partition = replica.partition;
                let epoch = placement.epoch_of(partition);
                let history = EpochHistory::of_epoch(epoch);
                let copy = Followed {
                    stream: FollowerStream::new(epoch, 0, history, Receipts::AtOnce),
                    site,
                    leader: placement.leader_of(partition),
                    epoch,
                    waits_for_safe: placement.followers_of(partition).len() > 1,
                };
                followed.insert(partition, copy);
            }
        }
        let partitions = (0..placement.partition_count()).map(PartitionId);
        Copies {
            host: placement.host(),
            epochs: partitions.map(|partition| placement.epoch_of(partition)).collect(),
            followed,
            taking: BTreeMap::new(),
            early: Vec::new(),
            touched: BTreeSet::new(),
            wishes: Vec::new(),
        }
    }

    /// Takes what another host says of a copy, or the site of a leader here.
    ///
    /// # Errors
    /// It is not what a host of the cluster says: why.
    pub(super) fn take(
        &mut self,
        from: HostId,
        message: OfCopy,
        sends: &mut Sends,
    ) -> Result<(), String> {
        let OfCopy { partition, copy, said } = message;
        match said {
            CopyMessage::Stream(message, digest) if copy == self.host => {
                let Some(followed) = self.followed.get_mut(&partition) else { return Ok(()) };
                if followed.leader.host() != from {
                    // A leader that does not know yet that it leads no more.
                    return Ok(());
                }
                self.touched.insert(partition);
                take_stream(followed, (partition, self.host), (message, digest), sends)
            }
            CopyMessage::Sealed(report) if copy == from => {
                self.take_report(partition, copy, report, sends);
                Ok(())
            }
            _ => Err(format!("what host {from} says of a copy of partition {partition}")),
        }
    }

    /// Sends the receipts that are due, but for copies whose site lags: their leader is to be
    /// slowed down. True if some are held back.
    pub(super) fn send_receipts(
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
    pub(super) fn follow_placement(&mut self, placement: &Placement, sends: &mut Sends) {
        let partitions = (0..placement.partition_count()).map(PartitionId);
        for partition in partitions {
            self.follow_epoch(partition, placement, sends);
        }
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

    fn follow_epoch(&mut self, partition: PartitionId, placement: &Placement, sends: &mut Sends) {
        let epoch = placement.epoch_of(partition);
        let leader = placement.leader_of(partition);
        let followers = placement.followers_of(partition);
        let known = &mut self.epochs[partition.index()];
        if std::mem::replace(known, epoch) == epoch {
            return;
        }
        let is_here = |thread: &ThreadId| thread.host() == self.host;
        match is_here(&leader) {
            true => {
                let hosts = std::iter::once(leader).chain(followers.iter().copied());
                let in_sync = hosts.map(ThreadId::host).collect();
                let taking = Taking { epoch, site: leader, in_sync, reports: BTreeMap::new() };
                self.taking.insert(partition, taking);
            }
            false => drop(self.taking.remove(&partition)),
        }
        let Some(copy) = self.followed.get_mut(&partition) else { return };
        assert!(copy.epoch < epoch, "epochs ascend");
        if !is_here(&leader) && !followers.iter().any(is_here) {
            tracing::error!(%partition, epoch, "the copy of this host is out of sync");
            self.followed.remove(&partition);
            return;
        }
        (copy.epoch, copy.leader) = (epoch, leader);
        copy.waits_for_safe = followers.len() > 1;
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
        let faults = ReplicaFaults::default();
        let takeover = plan_takeover(taking.epoch, &taking.in_sync, &survivors, faults)
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
        sends.push((taking.site, Envelope::Open(Box::new(opening))));
    }

    /// What the control plane is to change.
    pub(super) fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }
}

fn send(
    sends: &mut Sends,
    to: ThreadId,
    (partition, copy): (PartitionId, HostId),
    said: CopyMessage,
) {
    sends.push((to, Envelope::Copy(Box::new(OfCopy { partition, copy, said }))));
}

/// A message of the leader.
fn take_stream(
    followed: &mut Followed,
    own: (PartitionId, HostId),
    (message, digest): (ToFollower, Option<(u64, u64)>),
    sends: &mut Sends,
) -> Result<(), String> {
    let Followed { stream, site, leader, epoch, waits_for_safe } = followed;
    if stream.is_sealed() && message.epoch == *epoch {
        stream.follow(*epoch);
    }
    let piece = match stream.take(message) {
        Taken::Append(piece) => Some(piece),
        Taken::Positions => None,
        // Of an epoch that is over, or of one that this host hears of soon.
        Taken::Repeated | Taken::Refused(NotTaken::OldEpoch { .. }) => return Ok(()),
        Taken::Refused(NotTaken::Gap { .. }) => {
            let after = Receipt { epoch: stream.epoch(), position: stream.reconnect() };
            send(sends, *leader, own, CopyMessage::Resume(after));
            return Ok(());
        }
        Taken::Refused(why) => {
            return Err(format!("entries of partition {} that cannot follow: {why:?}", own.0));
        }
    };
    let horizon = match waits_for_safe {
        true => stream.settled().min(stream.safe()),
        false => stream.settled(),
    };
    let piece = FollowedPiece { partition: own.0, piece, horizon, digest };
    sends.push((*site, Envelope::Follow(Box::new(piece))));
    Ok(())
}
