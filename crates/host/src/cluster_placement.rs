//! What the control plane decided as the placement that the threads of a host go by.

use crate::placement::{ClusterPlacement, PartitionPlacement};
use lockstep_cluster::{ClusterState, Epoch, HostState, PartitionState, Refusal, Shape};
use lockstep_types::{HostId, ThreadId};

impl ClusterPlacement {
    /// The placement with which a cluster begins whose hosts are all of one placement group: it
    /// follows from the shape alone, so that a host has it before it is connected.
    ///
    /// # Errors
    /// The copies of partitions cannot be spread evenly; the text says which values could.
    pub fn first(shape: &Shape) -> Result<ClusterPlacement, Refusal> {
        ClusterPlacement::first_in_groups(shape, &vec![""; shape.hosts as usize])
    }

    /// The placement with which a cluster began that is formed: that of its first epoch, which
    /// follows from the shape and the placement groups of the hosts.
    ///
    /// # Panics
    /// It is not formed.
    pub fn first_of_state(state: &ClusterState) -> ClusterPlacement {
        assert!(state.is_formed(), "a cluster has a placement once it is formed");
        let group = |host| state.hosts[&HostId(host)].description.placement_group.as_str();
        let groups: Vec<&str> = (0..state.shape.hosts).map(group).collect();
        ClusterPlacement::first_in_groups(&state.made_shape(), &groups)
            .expect("a cluster whose copies cannot be spread is not formed")
    }

    /// `groups` has the placement group of each host, by number.
    fn first_in_groups(shape: &Shape, groups: &[&str]) -> Result<ClusterPlacement, Refusal> {
        let partitions = lockstep_cluster::first_placement(shape, groups)?;
        Ok(ClusterPlacement {
            hosts: shape.hosts,
            sites: shape.sites_per_host,
            copies: shape.k + 1,
            up: (0..shape.hosts).map(|host| (HostId(host), 1)).collect(),
            epoch: Epoch(0).next().0,
            coordinator: partitions[0].leader,
            coordinator_since: Epoch(0).next().0,
            partitions: partitions.iter().map(partition).collect(),
        })
    }

    /// The placement of a cluster that is formed.
    ///
    /// # Panics
    /// It is not formed.
    pub fn of_state(state: &ClusterState) -> ClusterPlacement {
        assert!(state.is_formed(), "a cluster has a placement once it is formed");
        let up = state.hosts.iter().filter(|(_, record)| record.state == HostState::Up);
        ClusterPlacement {
            hosts: state.data_hosts().count() as u32,
            sites: state.shape.sites_per_host,
            copies: state.made_k + 1,
            up: up
                .filter(|(host, _)| !state.shape.is_witness(**host))
                .map(|(host, record)| (*host, record.up_since.0))
                .collect(),
            epoch: state.epoch.0,
            coordinator: state.coordinator,
            coordinator_since: state.coordinator_since.0,
            partitions: state.partitions.iter().map(partition).collect(),
        }
    }
}

impl ClusterPlacement {
    /// A host that starts with the copies that it had, and takes part since an epoch, finds that
    /// some of these have a later one: its leader waits for the report of each copy in sync. The
    /// host begins with a placement of before, in which those copies follow other hosts in the
    /// epoch since which it takes part: they have nothing of that one, and as soon as the newest
    /// placement is in force they are sealed for theirs, and report. A copy that is the only one in
    /// sync reports to nobody, and begins with its epoch. Whether the placement is one of before.
    ///
    /// # Panics
    /// The host takes part since a later epoch than that of the placement.
    pub fn step_back(&mut self, own: HostId, since: u64) -> bool {
        assert!(since <= self.epoch, "the host takes part");
        let since_epoch = u32::try_from(since).expect("a cluster changes less than 2^32 times");
        let mut is_behind = false;
        for partition in self.partitions.iter_mut().filter(|it| it.epoch > since_epoch) {
            let copies = std::iter::once(&partition.leader).chain(&partition.followers);
            let (here, others): (Vec<ThreadId>, Vec<ThreadId>) =
                copies.copied().partition(|thread| thread.host() == own);
            let ([_], [leader, ..]) = (&here[..], &others[..]) else { continue };
            *partition = PartitionPlacement {
                epoch: since_epoch,
                leader: *leader,
                followers: others[1..].iter().chain(&here).copied().collect(),
                learning: Vec::new(),
                handed_over_since: since_epoch.min(partition.handed_over_since),
            };
            is_behind = true;
        }
        if is_behind {
            self.epoch -= 1;
        }
        is_behind
    }
}

fn partition(state: &PartitionState) -> PartitionPlacement {
    let thread = |host: HostId| {
        let copy = state.copy_at(host).expect("the leader and its followers have copies");
        ThreadId::at(host, copy.thread.0)
    };
    PartitionPlacement {
        epoch: u32::try_from(state.epoch.0).expect("a cluster changes less than 2^32 times"),
        leader: thread(state.leader),
        followers: state.followers().map(thread).collect(),
        learning: state
            .learning
            .iter()
            .map(|copy| ThreadId::at(copy.host, copy.thread.0))
            .collect(),
        handed_over_since: u32::try_from(state.handed_over_since.0)
            .expect("a cluster changes less than 2^32 times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_later_epochs_follow_another_host_in_that_of_the_start() {
        let partition = |epoch, leader: u32, followers: &[u32]| PartitionPlacement {
            epoch,
            leader: ThreadId::at(HostId(leader), 0),
            followers: followers.iter().map(|host| ThreadId::at(HostId(*host), 1)).collect(),
            learning: Vec::new(),
            handed_over_since: 1,
        };
        let newest = ClusterPlacement {
            hosts: 3,
            sites: 2,
            copies: 2,
            up: (0..3).map(|host| (HostId(host), 5)).collect(),
            epoch: 8,
            coordinator: HostId(0),
            coordinator_since: 1,
            partitions: vec![
                partition(5, 0, &[1]),
                partition(6, 0, &[2]),
                partition(7, 1, &[0]),
                partition(8, 0, &[]),
                partition(8, 1, &[2]),
            ],
        };
        let mut begun = newest.clone();
        assert!(begun.step_back(HostId(0), 5));
        let seen: Vec<(u32, u32, Vec<u32>)> = begun
            .partitions
            .iter()
            .map(|it| {
                let followers = it.followers.iter().map(|thread| thread.host().0).collect();
                (it.epoch, it.leader.host().0, followers)
            })
            .collect();
        let expected = [(5, 0, vec![1]), (5, 2, vec![0]), (5, 1, vec![0]), (8, 0, vec![])];
        assert_eq!(seen[..4], expected);
        assert_eq!(seen[4], (8, 1, vec![2]), "it has no copy here");
        assert_eq!((begun.epoch, begun.up == newest.up), (7, true));
        let mut same = newest.clone();
        assert!(!same.step_back(HostId(0), 8));
        assert_eq!(same, newest);
    }
}
