//! What a simulated host is like.

use super::{BrokenCopies, CallNumber, SimSite};
use lockstep_host::placement::{ClusterShape, Placement};
use lockstep_site::{Coordinator, Faults, SiteLimits, StopEverything};
use lockstep_types::{HashRing, HostId, PartitionId};

/// What a simulated host is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its partitions.
    pub partitions: u32,
    /// Multi-partition transactions in progress at the same time.
    pub active_multi: usize,
    /// Partitions run calls after undecided transactions.
    pub speculates: bool,
    /// Multi-partition transactions stop everything.
    pub stop_everything: StopEverything,
    /// Partitions keep digests of their changes.
    pub digests: bool,
    /// Followers of each partition.
    pub followers: u32,
    /// What is broken in it.
    pub faults: Faults,
    /// What is broken in the copies.
    pub broken_copies: BrokenCopies,
}

impl Shape {
    /// A sound host with N partitions.
    pub fn of(partitions: u32) -> Shape {
        Shape {
            partitions,
            active_multi: 64,
            speculates: true,
            stop_everything: StopEverything::Never,
            digests: false,
            followers: 0,
            faults: Faults::default(),
            broken_copies: BrokenCopies::default(),
        }
    }
}

/// The partitions, empty.
pub(super) fn sites(
    shape: &Shape,
    ring: &HashRing,
    (limits, kept): (&SiteLimits, usize),
) -> Vec<SimSite> {
    let site = |number| {
        let mut site = SimSite::new(PartitionId(number), ring.clone(), limits);
        site.set_followed(shape.followers > 0);
        if shape.followers > 0 {
            let few = shape.broken_copies.remember_few;
            site.remember_outcomes(if few { 1 } else { kept });
        }
        site
    };
    (0..ring.partition_count()).map(site).collect()
}

/// Decisions that are remembered: with odd seeds so few that some are forgotten.
pub(super) fn outcomes_kept(seed: u64, limits: &SiteLimits) -> usize {
    match seed % 2 {
        0 => limits.outcomes_kept(),
        _ => limits.active_multi_calls_max + 16,
    }
}

/// A coordinator; with most seeds it serves a partition last.
pub(super) fn coordinator(
    seed: u64,
    shape: &Shape,
    ring: &HashRing,
    (limits, kept): (&SiteLimits, usize),
) -> Coordinator<CallNumber, u64> {
    let mut coordinator = Coordinator::new(ring.clone(), limits);
    if shape.followers > 0 {
        coordinator.await_durable_decisions();
        coordinator.remember_outcomes(kept);
    }
    if !seed.is_multiple_of(4) {
        coordinator.serve_last(PartitionId(seed as u32 % ring.partition_count()));
    }
    coordinator
}

/// Which thread serves which partitions: with most seeds each has a thread of its own, with the
/// others two share one, or all do. A catalog is in force for a whole thread.
pub(super) fn placement(seed: u64, partitions: u32) -> Placement {
    let sites = match seed % 6 {
        4 => partitions.div_ceil(2),
        5 => 1,
        _ => partitions,
    };
    Placement::spread(HostId(0), ClusterShape { hosts: 1, sites, partitions, first_at: 0 })
}

/// A way to stop everything for a seed.
pub(crate) fn way_to_stop(seed: u64) -> StopEverything {
    match seed % 2 {
        0 => StopEverything::ByFragments,
        _ => StopEverything::ByCalls,
    }
}
