//! Where partitions are served: the immutable map from each partition to a host and one of its
//! threads, and where the coordinator of multi-partition transactions runs.
//!
//! A partition, the thread that serves it and the host of that thread have numbers of their own.
//! Senders ask the placement; no number is computed from another.

use lockstep_types::{HostId, PartitionId, ReplicaId, ThreadId};

/// One thread of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SitePlace {
    /// The host.
    pub host: HostId,
    /// Its thread.
    pub thread: ThreadId,
}

/// Who serves what, as one host sees it. It never changes: another epoch has another placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    host: HostId,
    /// By partition, where its leader is.
    leaders: Box<[SitePlace]>,
    coordinator: SitePlace,
    /// By site of this host, the replicas that it owns.
    replicas: Box<[Vec<ReplicaId>]>,
}

impl Placement {
    /// One host with a site for each partition: partition 0 and the coordinator at the first one.
    ///
    /// # Panics
    /// As for [`Placement::spread`].
    pub fn one_host(partitions: u32) -> Placement {
        Placement::spread(partitions, partitions, 0)
    }

    /// One host whose partitions are spread evenly over `sites` sites: partition 0 is at site
    /// `first_at` and each further one at the next site, the first site coming after the last.
    /// The coordinator is at the site of partition 0. Tests run hosts with a `first_at` other than
    /// 0, so that no partition has its thread's number.
    ///
    /// # Panics
    /// There is no site, there are fewer partitions than sites, or more than
    /// [`PartitionId::LIMIT`].
    pub fn spread(partitions: u32, sites: u32, first_at: u32) -> Placement {
        assert!(sites > 0, "a host has a site at least");
        assert!(partitions >= sites, "a site has a partition at least");
        assert!(partitions <= PartitionId::LIMIT, "partitions have numbers of 14 bits");
        let host = HostId(0);
        let thread = |partition: u32| {
            let site = (u64::from(partition) + u64::from(first_at)) % u64::from(sites);
            ThreadId(site as u16)
        };
        let leaders: Box<[SitePlace]> =
            (0..partitions).map(|p| SitePlace { host, thread: thread(p) }).collect();
        let mut replicas = vec![Vec::new(); sites as usize];
        for (number, leader) in (0..).zip(&leaders) {
            let replica = ReplicaId { partition: PartitionId(number), host };
            replicas[leader.thread.index()].push(replica);
        }
        let coordinator = leaders[0];
        let placement = Placement { host, leaders, coordinator, replicas: replicas.into() };
        placement.check_invariants();
        placement
    }

    /// Every partition has one leader, which its site here owns, no site owns a partition twice,
    /// and no site is without a partition.
    ///
    /// # Panics
    /// It is not so.
    pub fn check_invariants(&self) {
        let site_count = self.replicas.len();
        for (number, leader) in (0..).zip(&self.leaders) {
            let partition = PartitionId(number);
            let owners = self.replicas.iter().flatten().filter(|r| r.partition == partition);
            assert!(owners.count() <= 1, "partition {partition} has two copies at a host");
            if leader.host == self.host {
                let owned = &self.replicas[leader.thread.index()];
                assert!(
                    owned.iter().any(|replica| replica.partition == partition),
                    "site {} leads partition {partition} and does not own it",
                    leader.thread
                );
            }
        }
        assert!(self.replicas.iter().all(|owned| !owned.is_empty()), "a site owns a replica");
        assert!(self.coordinator.thread.index() < site_count, "the coordinator is at a site");
    }

    /// The host whose view this is.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Number of partitions of the cluster.
    pub fn partition_count(&self) -> u32 {
        self.leaders.len() as u32
    }

    /// Number of sites of this host.
    pub fn site_count(&self) -> u16 {
        self.replicas.len() as u16
    }

    /// The sites of this host.
    pub fn sites(&self) -> impl Iterator<Item = ThreadId> + use<> {
        (0..self.site_count()).map(ThreadId)
    }

    /// The control thread of this host.
    pub fn control_thread(&self) -> ThreadId {
        ThreadId(self.site_count())
    }

    /// The replicas that a site of this host owns.
    ///
    /// # Panics
    /// The thread is no site.
    pub fn replicas_of(&self, site: ThreadId) -> &[ReplicaId] {
        &self.replicas[site.index()]
    }

    /// Where a partition's leader is.
    ///
    /// # Panics
    /// There is no such partition.
    #[inline]
    pub fn leader_of(&self, partition: PartitionId) -> SitePlace {
        self.leaders[partition.index()]
    }

    /// The thread of this host that serves a partition.
    ///
    /// # Panics
    /// There is no such partition, or it is led elsewhere.
    #[inline]
    pub fn thread_of(&self, partition: PartitionId) -> ThreadId {
        let leader = self.leader_of(partition);
        debug_assert_eq!(leader.host, self.host, "threads of other hosts are not addressed");
        leader.thread
    }

    /// Where the coordinator is.
    #[inline]
    pub fn coordinator(&self) -> SitePlace {
        self.coordinator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_at_the_site_that_owns_it() {
        let shapes = [(1, 1, 0), (3, 3, 0), (3, 3, 1), (4, 4, 7), (4, 2, 0), (4, 2, 1), (7, 3, 2)];
        for (partitions, sites, first_at) in shapes {
            let placement = Placement::spread(partitions, sites, first_at);
            assert_eq!(u32::from(placement.site_count()), sites);
            let mut seen = Vec::new();
            for site in placement.sites() {
                let owned = placement.replicas_of(site);
                let (least, most) = (partitions / sites, partitions.div_ceil(sites));
                assert!((least..=most).contains(&(owned.len() as u32)), "they are spread evenly");
                assert!(owned.is_sorted_by_key(|replica| replica.partition));
                for replica in owned {
                    assert_eq!(placement.thread_of(replica.partition), site);
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
    #[should_panic(expected = "does not own it")]
    fn a_leader_at_a_site_without_the_partition_is_found() {
        let mut placement = Placement::one_host(2);
        placement.leaders[1].thread = ThreadId(0);
        placement.check_invariants();
    }
}
