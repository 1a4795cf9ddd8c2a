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
            hosts: state.shape.hosts,
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
        handed_over: state.previous.filter(|previous| previous.sealed).map(|previous| {
            u32::try_from(previous.epoch.0).expect("a cluster changes less than 2^32 times")
        }),
    }
}
