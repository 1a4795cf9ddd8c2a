//! Where partitions are served: the immutable map from each partition to the hosts and threads of
//! its copies, one of which leads, and where the coordinator of multi-partition transactions runs.
//!
//! A partition, the thread that serves it and the host of that thread have numbers of their own.
//! Senders ask the placement; no number is computed from another.

use lockstep_types::{HostId, PartitionId, ReplicaId, ThreadId};

/// Sites of a host have lower numbers, so that there are some left for its other threads.
const LINKS_LIMIT: usize = ThreadId::LIMIT as usize - 4;

/// The most sites that a host can have.
pub const MAX_SITES: u32 = LINKS_LIMIT as u32 - 1;

/// The first epoch of a cluster.
pub(crate) const FIRST_EPOCH: u64 = 1;

/// Who serves what, as one host sees it. It never changes: another epoch has another placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    host: HostId,
    /// Number of hosts that are listed, those that are lost included.
    hosts: u32,
    copies_each: u8,
    /// The hosts that take part, ascending, and the epoch since which each does.
    up: Box<[(HostId, u64)]>,
    epoch: u64,
    /// By partition, where its leader is.
    leaders: Box<[ThreadId]>,
    /// By partition, its epoch and the other copies.
    copies: Box<[Copies]>,
    coordinator: ThreadId,
    /// The number of the placement since which it is there.
    coordinator_since: u64,
    /// By site of this host, the replicas that it leads.
    led: Box<[Vec<ReplicaId>]>,
    /// By site of this host, the replicas that it follows.
    followed: Box<[Vec<ReplicaId>]>,
    /// By site of this host, the replicas that it loads.
    learned: Box<[Vec<ReplicaId>]>,
}

/// A partition besides its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copies {
    epoch: u32,
    handed_over_since: u32,
    followers: Box<[ThreadId]>,
    learning: Box<[ThreadId]>,
}

/// A placement as all hosts see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlacement {
    /// Number of hosts that are listed, those that are lost included. Where one was removed, the
    /// others have numbers that are not below it.
    pub hosts: u32,
    /// Sites of each host.
    pub sites: u16,
    /// Copies of each partition with which the cluster was made: another K while it runs leaves
    /// its hosts those of a cluster that replicates.
    pub copies: u8,
    /// The hosts that take part, ascending, and the epoch since which each does.
    pub up: Vec<(HostId, u64)>,
    /// The number of the placement; a later one has a greater number.
    pub epoch: u64,
    /// The host that has the coordinator, at its first site.
    pub coordinator: HostId,
    /// The number of the placement since which it is there.
    pub coordinator_since: u64,
    /// The partitions, in order.
    pub partitions: Vec<PartitionPlacement>,
}

/// Where the copies of a partition are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPlacement {
    /// The epoch in which its copies and its leader are these.
    pub epoch: u32,
    /// Its leader.
    pub leader: ThreadId,
    /// The other copies that are in sync.
    pub followers: Vec<ThreadId>,
    /// Copies that are being loaded.
    pub learning: Vec<ThreadId>,
    /// Since this epoch each leader has handed the partition over to the next one: what was handed
    /// to any of them is answered, or comes back.
    pub handed_over_since: u32,
}

/// How many hosts, sites and partitions a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterShape {
    /// Number of hosts.
    pub hosts: u32,
    /// Sites of each host.
    pub sites: u32,
    /// Partitions of the cluster.
    pub partitions: u32,
    /// The site of each host that has the first of its partitions.
    pub first_at: u32,
}

impl Placement {
    /// One host with a site for each partition: partition 0 and the coordinator at the first one.
    ///
    /// # Panics
    /// As for [`Placement::spread`].
    pub fn one_host(partitions: u32) -> Placement {
        let shape = ClusterShape { hosts: 1, sites: partitions, partitions, first_at: 0 };
        Placement::spread(HostId(0), shape)
    }

    /// The view that `host` has of partitions with one copy each, spread evenly over the hosts: the
    /// first ones are at host 0, the next ones at host 1. At each host the first one is at the site
    /// `first_at` and each further one at the next site, the first site coming after the last.
    /// The coordinator is at the site of partition 0. Tests run hosts with a `first_at` other than
    /// 0, so that no partition has its thread's number.
    ///
    /// # Panics
    /// The host is none of the cluster, there is no site, there are fewer partitions than sites, or
    /// more hosts, sites or partitions than have numbers.
    pub fn spread(host: HostId, shape: ClusterShape) -> Placement {
        let ClusterShape { hosts, sites, partitions, first_at } = shape;
        assert!(host.0 < hosts && hosts <= HostId::LIMIT, "hosts have numbers of 8 bits");
        assert!(sites > 0, "a host has a site at least");
        assert!(partitions >= hosts * sites, "a site has a partition at least");
        assert!(partitions <= PartitionId::LIMIT, "partitions have numbers of 14 bits");
        let thread = |partition: u32| {
            let at =
                HostId((u64::from(partition) * u64::from(hosts) / u64::from(partitions)) as u32);
            // The first partition of the host: what is below it belongs to the hosts before.
            let first = (u64::from(at.0) * u64::from(partitions)).div_ceil(u64::from(hosts));
            let site = (u64::from(partition) - first + u64::from(first_at)) % u64::from(sites);
            ThreadId::at(at, site as u16)
        };
        let leaders = (0..partitions).map(thread);
        let alone = |leader| PartitionPlacement {
            epoch: FIRST_EPOCH as u32,
            leader,
            followers: Vec::new(),
            learning: Vec::new(),
            handed_over_since: FIRST_EPOCH as u32,
        };
        let partitions: Vec<PartitionPlacement> = leaders.map(alone).collect();
        let coordinator = partitions[0].leader;
        let up = (0..hosts).map(|host| (HostId(host), FIRST_EPOCH)).collect();
        let sites = sites as u16;
        let epoch = FIRST_EPOCH;
        let cluster = ClusterPlacement {
            hosts,
            sites,
            copies: 1,
            up,
            epoch,
            coordinator: HostId(0),
            coordinator_since: FIRST_EPOCH,
            partitions,
        };
        let placement = Placement { coordinator, ..Placement::of_cluster(host, &cluster) };
        assert!(placement.led.iter().all(|led| !led.is_empty()), "a site owns a replica");
        placement.check_invariants();
        placement
    }

    /// The view that `host` has of the placement of its cluster.
    ///
    /// # Panics
    /// A partition is at a host or site that there is not.
    pub fn of_cluster(host: HostId, cluster: &ClusterPlacement) -> Placement {
        let mut led = vec![Vec::new(); usize::from(cluster.sites)];
        let (mut followed, mut learned) = (led.clone(), led.clone());
        for (number, partition) in (0..).zip(&cluster.partitions) {
            let replica = ReplicaId { partition: PartitionId(number), host };
            if partition.leader.host() == host {
                led[partition.leader.index()].push(replica);
            }
            for follower in partition.followers.iter().filter(|thread| thread.host() == host) {
                followed[follower.index()].push(replica);
            }
            for learner in partition.learning.iter().filter(|thread| thread.host() == host) {
                learned[learner.index()].push(replica);
            }
        }
        let copies = |partition: &PartitionPlacement| Copies {
            epoch: partition.epoch,
            handed_over_since: partition.handed_over_since,
            followers: partition.followers.clone().into(),
            learning: partition.learning.clone().into(),
        };
        let placement = Placement {
            host,
            hosts: cluster.hosts,
            copies_each: cluster.copies,
            up: cluster.up.clone().into(),
            epoch: cluster.epoch,
            leaders: cluster.partitions.iter().map(|partition| partition.leader).collect(),
            copies: cluster.partitions.iter().map(copies).collect(),
            coordinator: ThreadId::at(cluster.coordinator, 0),
            coordinator_since: cluster.coordinator_since,
            led: led.into(),
            followed: followed.into(),
            learned: learned.into(),
        };
        placement.check_invariants();
        placement
    }

    /// Every partition has one leader, a host has one copy of a partition at most, and all are at
    /// hosts and sites that there are.
    ///
    /// # Panics
    /// It is not so.
    pub fn check_invariants(&self) {
        let site_count = self.led.len();
        for (number, leader) in (0..).zip(&self.leaders) {
            let partition = PartitionId(number);
            let owned = self.led.iter().chain(&*self.followed).chain(&*self.learned).flatten();
            let owners = owned.filter(|replica| replica.partition == partition);
            assert!(owners.count() <= 1, "partition {partition} has two copies at a host");
            if leader.host() == self.host {
                let led = &self.led[leader.index()];
                assert!(
                    led.iter().any(|replica| replica.partition == partition),
                    "site {} leads partition {partition} and does not own it",
                    leader.index()
                );
            }
        }
        assert!(
            self.up.is_sorted() && self.up.len() <= self.hosts as usize,
            "the hosts that take part are listed"
        );
        let is_here = self.coordinator.host() == self.host;
        assert!(!is_here || self.coordinator.index() < site_count, "the coordinator is at a site");
        assert!(site_count < LINKS_LIMIT, "a host has numbers for its threads");
    }

    /// The host whose view this is.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Number of partitions of the cluster.
    pub fn partition_count(&self) -> u32 {
        self.leaders.len() as u32
    }

    /// The number of the placement: a later one has a greater number.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of hosts of the cluster, those that are lost included.
    pub fn host_count(&self) -> u32 {
        self.hosts
    }

    /// Whether the cluster was made with several copies of each partition, so that what a leader
    /// logs goes to others, if there are any.
    pub fn is_replicated(&self) -> bool {
        self.copies_each > 1
    }

    /// The hosts of the cluster that take part, ascending.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.up.iter().map(|(host, _)| *host)
    }

    /// Whether a host takes part.
    pub fn is_up(&self, host: HostId) -> bool {
        self.up_since(host).is_some()
    }

    /// The epoch since which a host takes part, if it does.
    fn up_since(&self, host: HostId) -> Option<u64> {
        self.up.iter().find(|(up, _)| *up == host).map(|(_, since)| *since)
    }

    /// Whether a host takes part that did not since a placement before, at least for a while: what
    /// was between it and the others is lost.
    pub fn is_back_since(&self, before: &Placement, host: HostId) -> bool {
        self.is_up(host) && self.up_since(host) != before.up_since(host)
    }

    /// The number of the placement since which this host and another one both take part, if they
    /// do.
    pub fn both_up_since(&self, other: HostId) -> Option<u64> {
        Some(self.up_since(self.host)?.max(self.up_since(other)?))
    }

    /// Whether partitions that are led here report to the coordinator: it is another one than in a
    /// placement before, or what it and this host said to each other may be lost.
    pub fn has_other_coordinator(&self, before: &Placement) -> bool {
        let is_back = |host| self.is_back_since(before, host);
        let (own, coordinator) = (self.host, self.coordinator.host());
        self.has_coordinator_moved(before) || is_back(own) || is_back(coordinator)
    }

    /// Whether the coordinator was moved since a placement before, if only to another host and
    /// back: no host hears of each placement.
    pub fn has_coordinator_moved(&self, before: &Placement) -> bool {
        self.coordinator != before.coordinator || self.coordinator_since > before.epoch
    }

    /// Whether what leads a partition is another one than in a placement before, or its host was
    /// away meanwhile: what was said to it, and what it said, may be lost.
    pub fn is_leader_lost_since(&self, before: &Placement, partition: PartitionId) -> bool {
        let leader = self.leader_of(partition);
        leader != before.leader_of(partition) || self.is_back_since(before, leader.host())
    }

    /// The hosts that may not answer any more what was handed to them in a placement before: they
    /// are lost, or others have what they led. A host that was put out, and takes part again with
    /// the only copies of some partitions, is among them.
    pub fn lost_since(&self, before: &Placement) -> Vec<HostId> {
        let is_deposed = |host: &HostId| {
            let mut partitions = (0..self.partition_count()).map(PartitionId);
            partitions.any(|of| {
                let at = before.leader_of(of);
                let is_moved = at.host() == *host && at != self.leader_of(of);
                is_moved && before.epoch_of(of) < self.copies[of.index()].handed_over_since
            })
        };
        // Where it stayed, the coordinator was moved on purpose when it had nothing in progress,
        // and what waited or comes late goes back to where it came in.
        let stayed = |host| before.is_up(host) && before.up_since(host) == self.up_since(host);
        let has_moved = before.coordinator != self.coordinator;
        let is_replaced =
            |host: &HostId| has_moved && before.coordinator.host() == *host && !stayed(*host);
        // Nothing that was handed to a host while it was away has come to it; one that led nothing
        // then was handed nothing.
        let leads = |host: &HostId| before.leaders.iter().any(|leader| leader.host() == *host);
        let is_lost = |host: &HostId| {
            before.is_up(*host) && !self.is_up(*host)
                || self.is_back_since(before, *host) && (before.is_up(*host) || leads(host))
        };
        let mut known: Vec<HostId> = before.hosts().chain(self.hosts()).collect();
        known.extend(before.leaders.iter().map(|leader| leader.host()));
        known.sort_unstable();
        known.dedup();
        known.retain(|host| is_lost(host) || is_deposed(host) || is_replaced(host));
        known
    }

    /// The hosts of the cluster that take part, but this one.
    pub fn other_hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts().filter(|host| *host != self.host)
    }

    /// Number of sites of this host.
    pub fn site_count(&self) -> u16 {
        self.led.len() as u16
    }

    /// The sites of this host.
    pub fn sites(&self) -> impl Iterator<Item = ThreadId> + use<> {
        let host = self.host;
        (0..self.site_count()).map(move |number| ThreadId::at(host, number))
    }

    /// The control thread of this host.
    pub fn control_thread(&self) -> ThreadId {
        ThreadId::at(self.host, self.site_count())
    }

    /// The control thread of another host, which has as many sites.
    pub fn control_thread_of(&self, host: HostId) -> ThreadId {
        ThreadId::at(host, self.site_count())
    }

    /// The thread of this host that exchanges messages with other hosts.
    pub fn links_thread(&self) -> ThreadId {
        ThreadId::at(self.host, self.site_count() + 1)
    }

    /// The same thread of another host, which has as many sites.
    pub fn links_thread_of(&self, host: HostId) -> ThreadId {
        ThreadId::at(host, self.site_count() + 1)
    }

    /// The control thread that orders changes of the catalog, makes the calls of tasks and deletes
    /// expired rows, for all hosts: that of the coordinator's host.
    pub fn lead_control(&self) -> ThreadId {
        self.control_thread_of(self.coordinator.host())
    }

    /// Whether this host has that thread.
    pub fn leads_control(&self) -> bool {
        self.coordinator.host() == self.host
    }

    /// The sites of all hosts that take part.
    pub fn all_sites(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let sites = self.site_count();
        let of_host = move |host| (0..sites).map(move |number| ThreadId::at(host, number));
        self.hosts().flat_map(of_host)
    }

    /// The replicas that a site of this host leads.
    ///
    /// # Panics
    /// The thread is no site.
    pub fn led_by(&self, site: ThreadId) -> &[ReplicaId] {
        &self.led[site.index()]
    }

    /// The replicas that a site of this host follows.
    ///
    /// # Panics
    /// The thread is no site.
    pub fn followed_by(&self, site: ThreadId) -> &[ReplicaId] {
        &self.followed[site.index()]
    }

    /// The replicas that a site of this host loads.
    ///
    /// # Panics
    /// The thread is no site.
    pub fn learned_by(&self, site: ThreadId) -> &[ReplicaId] {
        &self.learned[site.index()]
    }

    /// The threads with copies of a partition that are being loaded.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn learning_of(&self, partition: PartitionId) -> &[ThreadId] {
        &self.copies[partition.index()].learning
    }

    /// The threads with the other copies of a partition.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn followers_of(&self, partition: PartitionId) -> &[ThreadId] {
        &self.copies[partition.index()].followers
    }

    /// The epoch in which a partition has its leader and its copies.
    ///
    /// # Panics
    /// There is no such partition.
    pub fn epoch_of(&self, partition: PartitionId) -> u32 {
        self.copies[partition.index()].epoch
    }

    /// The thread that leads a partition, of whichever host.
    ///
    /// # Panics
    /// There is no such partition.
    #[inline]
    pub fn leader_of(&self, partition: PartitionId) -> ThreadId {
        self.leaders[partition.index()]
    }

    /// Where the coordinator is.
    #[inline]
    pub fn coordinator(&self) -> ThreadId {
        self.coordinator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_that_was_elsewhere_meanwhile_is_another_one() {
        let placed = |coordinator: u32, since, epoch| {
            let partition = PartitionPlacement {
                epoch: 1,
                leader: ThreadId::at(HostId(0), 0),
                followers: Vec::new(),
                learning: Vec::new(),
                handed_over_since: 1,
            };
            let cluster = ClusterPlacement {
                hosts: 2,
                sites: 1,
                copies: 1,
                up: vec![(HostId(0), 1), (HostId(1), 1)],
                epoch,
                coordinator: HostId(coordinator),
                coordinator_since: since,
                partitions: vec![partition],
            };
            Placement::of_cluster(HostId(0), &cluster)
        };
        let before = placed(0, 1, 6);
        assert!(!placed(0, 1, 7).has_other_coordinator(&before), "it stays");
        assert!(placed(1, 7, 7).has_other_coordinator(&before), "it is at host 1");
        let back = placed(0, 8, 8);
        assert!(back.has_other_coordinator(&before), "it was at host 1 in placement 7");
        assert!(back.has_coordinator_moved(&before));
        assert!(!placed(0, 8, 9).has_other_coordinator(&back), "it stays again");
    }

    #[test]
    fn a_host_that_others_lead_for_answers_no_more_though_it_takes_part() {
        let placed = |leaders: [u32; 2], coordinator: u32, up: &[u32], epoch| {
            let partition = |host| PartitionPlacement {
                epoch: epoch as u32,
                leader: ThreadId::at(HostId(host), 0),
                followers: Vec::new(),
                learning: Vec::new(),
                handed_over_since: epoch as u32,
            };
            let cluster = ClusterPlacement {
                hosts: 4,
                sites: 2,
                copies: 2,
                up: up.iter().map(|host| (HostId(*host), 1)).collect(),
                epoch,
                coordinator: HostId(coordinator),
                coordinator_since: 1,
                partitions: leaders.map(partition).to_vec(),
            };
            Placement::of_cluster(HostId(3), &cluster)
        };
        let before = placed([0, 1], 2, &[0, 1, 2, 3], 1);
        let lost = |after: Placement| -> Vec<u32> {
            after.lost_since(&before).into_iter().map(|host| host.0).collect()
        };
        assert_eq!(lost(placed([0, 1], 2, &[0, 1, 2, 3], 2)), [0; 0]);
        assert_eq!(lost(placed([0, 1], 2, &[0, 1, 2], 2)), [3], "it is not up");
        assert_eq!(lost(placed([0, 2], 2, &[0, 1, 2, 3], 2)), [1], "host 2 leads in its place");
        // It was transferred, and that host has given its copy up since: both are heard of at once.
        let mut transferred = placed([0, 2], 2, &[0, 1, 2, 3], 3);
        transferred.copies.iter_mut().for_each(|copies| copies.handed_over_since = 1);
        assert_eq!(lost(transferred), [0; 0], "each leader has handed the partition over");
        let moved = placed([0, 1], 0, &[0, 1, 2, 3], 2);
        assert_eq!(lost(moved), [0; 0], "the coordinator was moved from a host that stays");
        assert_eq!(lost(placed([0, 1], 0, &[0, 1, 3], 2)), [2], "it is lost");
        // It was down with the only copy of a partition, and took part again.
        let down = placed([0, 1], 2, &[0, 2, 3], 1);
        let after = placed([0, 2], 2, &[0, 1, 2, 3], 2);
        assert_eq!(after.lost_since(&down), [HostId(1)]);
    }

    #[test]
    fn each_partition_is_at_the_site_that_owns_it() {
        let shapes = [(1, 1, 0), (3, 3, 0), (3, 3, 1), (4, 4, 7), (4, 2, 0), (4, 2, 1), (7, 3, 2)];
        for (partitions, sites, first_at) in shapes {
            let shape = ClusterShape { hosts: 1, sites, partitions, first_at };
            let placement = Placement::spread(HostId(0), shape);
            assert_eq!(u32::from(placement.site_count()), sites);
            let mut seen = Vec::new();
            for site in placement.sites() {
                let owned = placement.led_by(site);
                let (least, most) = (partitions / sites, partitions.div_ceil(sites));
                assert!((least..=most).contains(&(owned.len() as u32)), "they are spread evenly");
                assert!(owned.is_sorted_by_key(|replica| replica.partition));
                for replica in owned {
                    assert_eq!(placement.leader_of(replica.partition), site);
                    seen.push(replica.partition);
                }
            }
            seen.sort();
            let all: Vec<PartitionId> = (0..partitions).map(PartitionId).collect();
            assert_eq!(seen, all);
            assert_eq!(placement.coordinator(), placement.leader_of(PartitionId(0)));
        }
    }

    #[test]
    fn hosts_see_one_placement_and_each_owns_its_part() {
        for (hosts, sites, each, first_at) in
            [(2, 1, 1, 0), (3, 2, 1, 0), (3, 2, 2, 1), (5, 3, 1, 2)]
        {
            let shape = ClusterShape { hosts, sites, partitions: hosts * sites * each, first_at };
            let views = (0..hosts).map(|host| Placement::spread(HostId(host), shape));
            let views: Vec<Placement> = views.collect();
            for partition in (0..shape.partitions).map(PartitionId) {
                let leader = views[0].leader_of(partition);
                assert_eq!(leader.host().0, partition.0 / (sites * each), "in the order of hosts");
                assert!(views.iter().all(|view| view.leader_of(partition) == leader));
                let owner = &views[leader.host().0 as usize];
                let owned = owner.led_by(leader);
                assert!(owned.iter().any(|replica| replica.partition == partition));
            }
            for view in &views {
                let owned: usize = view.sites().map(|site| view.led_by(site).len()).sum();
                assert_eq!(owned as u32, sites * each);
                assert!(!view.other_hosts().any(|other| other == view.host()));
                assert_eq!(view.coordinator(), views[0].coordinator());
            }
        }
    }

    #[test]
    #[should_panic(expected = "does not own it")]
    fn a_leader_at_a_site_without_the_partition_is_found() {
        let mut placement = Placement::one_host(2);
        placement.leaders[1] = ThreadId(0);
        placement.check_invariants();
    }
}
