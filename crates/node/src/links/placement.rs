//! The placement with which a cluster begins, as far as a host knows it before it is connected.

use super::ClusterTerms;
use lockstep_host::placement::ClusterPlacement;

/// The placement with which a cluster begins whose hosts are all of one placement group: it follows
/// from the terms alone, so that a host has it before it is connected.
///
/// # Errors
/// The copies of partitions cannot be spread evenly; the text says which values could.
pub(crate) fn first_placement(terms: &ClusterTerms) -> Result<ClusterPlacement, String> {
    ClusterPlacement::first(&terms.shape()).map_err(|refusal| refusal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use lockstep_host::placement::Placement;
    use lockstep_types::{HostId, PartitionId, ThreadId};

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
