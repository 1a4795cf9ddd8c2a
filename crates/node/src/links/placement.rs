//! What the control plane decided as the placement that the threads of a host go by.

use super::ClusterTerms;
use lockstep_cluster::{ClusterState, Epoch, HostState, PartitionState};
use lockstep_host::placement::{ClusterPlacement, PartitionPlacement};
use lockstep_types::{HostId, ThreadId};

/// The placement with which a cluster begins: it follows from the terms alone, so that a host has
/// it before it is connected.
///
/// # Errors
/// The copies of partitions cannot be spread evenly; the text says which values could.
pub(crate) fn first_placement(terms: &ClusterTerms) -> Result<ClusterPlacement, String> {
    let shape = terms.shape();
    let groups = vec![""; shape.hosts as usize];
    let partitions = lockstep_cluster::first_placement(&shape, &groups);
    let partitions = partitions.map_err(|refusal| refusal.to_string())?;
    Ok(ClusterPlacement {
        hosts: shape.hosts,
        sites: shape.sites_per_host,
        copies: shape.k + 1,
        up: (0..shape.hosts).map(HostId).collect(),
        epoch: Epoch(0).next().0,
        coordinator: partitions[0].leader,
        partitions: partitions.iter().map(partition).collect(),
    })
}

/// The placement of a cluster that is formed.
pub(super) fn placement_of(state: &ClusterState) -> ClusterPlacement {
    assert!(state.is_formed(), "a cluster has a placement once it is formed");
    let up = state.hosts.iter().filter(|(_, record)| record.state == HostState::Up);
    ClusterPlacement {
        hosts: state.shape.hosts,
        sites: state.shape.sites_per_host,
        copies: state.shape.k + 1,
        up: up.map(|(host, _)| *host).filter(|host| !state.shape.is_witness(*host)).collect(),
        epoch: state.epoch.0,
        coordinator: state.coordinator,
        partitions: state.partitions.iter().map(partition).collect(),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use lockstep_host::placement::Placement;
    use lockstep_types::PartitionId;

    /// Leaders and followers by partition, and who has them.
    #[test]
    fn a_host_knows_the_first_placement_from_the_terms() {
        let terms = ClusterTerms::new(3, 2, 1, &Options::default());
        let cluster = first_placement(&terms).expect("three hosts with two sites fit K = 1");
        let views: Vec<Placement> =
            (0..3).map(|host| Placement::of_cluster(HostId(host), &cluster)).collect();
        for partition in (0..3).map(PartitionId) {
            let leader = views[0].leader_of(partition);
            let [follower] = views[1].followers_of(partition) else { panic!("K = 1") };
            assert_ne!(leader.host(), follower.host());
            let led = views[leader.host().0 as usize].led_by(leader);
            let followed = views[follower.host().0 as usize].followed_by(*follower);
            assert!(led.iter().chain(followed).all(|replica| replica.partition == partition));
            assert_eq!(views[2].epoch_of(partition), 1);
        }
        assert_eq!(views[1].hosts().count(), 3);
        assert_eq!(views[2].coordinator(), ThreadId::at(HostId(0), 0));
        let odd = ClusterTerms::new(3, 1, 1, &Options::default());
        assert!(first_placement(&odd).expect_err("three copies").contains("would fit"));
    }
}
