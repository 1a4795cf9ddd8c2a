//! Who leads the next epoch, and what becomes of the other copies.

use super::{EpochHistory, ReplicaFaults, SealReport};
use lockstep_types::HostId;
use std::fmt;

/// A copy that is sealed for the next epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its host.
    pub host: HostId,
    /// It led the epoch before.
    pub led: bool,
    /// What it reported with its seal.
    pub sealed: SealReport,
}

/// What becomes of a copy in the next epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyPlan {
    /// It has what the leader has.
    Complete,
    /// It lacks the entries after this one, and gets them.
    Lacks {
        /// Its last entry.
        after: u64,
    },
    /// It has entries that the leader has not, was not in sync, or lacks what the leader does not
    /// keep any more. What it has after the agreed entry is never kept: it discards its memory and
    /// loads its own snapshot and log up to there, or everything again where nothing is agreed.
    Diverged {
        /// The last entry that it has in common with the leader, if that is known.
        agreed: Option<u64>,
    },
}

/// The next epoch of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    /// Its number.
    pub epoch: u32,
    /// Who leads.
    pub leader: HostId,
    /// The last entry that is agreed upon: the first one of the epoch follows it.
    pub end: u64,
    /// The other copies.
    pub copies: Vec<(HostId, CopyPlan)>,
}

impl Takeover {
    /// The copies that are in sync in the epoch, the leader's first. A copy that has diverged joins
    /// again later, by an epoch of its own.
    pub fn in_sync(&self) -> Vec<HostId> {
        let stays = |(host, plan): &(HostId, CopyPlan)| {
            (!matches!(plan, CopyPlan::Diverged { .. })).then_some(*host)
        };
        std::iter::once(self.leader).chain(self.copies.iter().filter_map(stays)).collect()
    }

    /// The followers that are in sync, with up to which entry each has the log.
    pub fn followers(&self) -> Vec<(HostId, u64)> {
        let position = |(host, plan): &(HostId, CopyPlan)| match plan {
            CopyPlan::Complete => Some((*host, self.end)),
            CopyPlan::Lacks { after } => Some((*host, *after)),
            CopyPlan::Diverged { .. } => None,
        };
        self.copies.iter().filter_map(position).collect()
    }
}

/// Why an epoch cannot begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeoverError {
    /// No copy is left that the placement before names as in sync: the partition waits for one of
    /// these hosts.
    NoCopyInSync {
        /// The copies that were in sync.
        in_sync: Vec<HostId>,
    },
    /// A copy is sealed for another epoch.
    OtherSeal {
        /// Whose copy.
        host: HostId,
        /// Its epoch.
        epoch: u32,
    },
}

impl fmt::Display for TakeoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakeoverError::NoCopyInSync { in_sync } => {
                let hosts: Vec<String> = in_sync.iter().map(ToString::to_string).collect();
                write!(f, "no copy in sync is left: waiting for host {}", hosts.join(" or "))
            }
            TakeoverError::OtherSeal { host, epoch } => {
                write!(f, "the copy of host {host} is sealed for epoch {epoch}")
            }
        }
    }
}

impl std::error::Error for TakeoverError {}

/// Plans the next epoch of a partition from the copies that are left, each of them sealed for it.
/// `in_sync` are the copies that the newest durable placement names: no other leads or counts, for
/// it may lack what was answered. A leader that is left stays leader; else the copy leads whose
/// last entry is of the latest epoch, among those the one with the greatest end, and among equals
/// the first one of `in_sync`, where the placement's leader stands: so a leader that was moved on
/// purpose does not lead again.
///
/// # Errors
/// No copy in sync is left, or one is sealed for another epoch.
pub fn plan_takeover(
    epoch: u32,
    in_sync: &[HostId],
    survivors: &[Survivor],
    faults: ReplicaFaults,
) -> Result<Takeover, TakeoverError> {
    if let Some(other) = survivors.iter().find(|survivor| survivor.sealed.epoch != epoch) {
        return Err(TakeoverError::OtherSeal { host: other.host, epoch: other.sealed.epoch });
    }
    let counts = |survivor: &&Survivor| in_sync.contains(&survivor.host) || faults.start_stale();
    let key = |survivor: &&Survivor| {
        let SealReport { end, history, .. } = &survivor.sealed;
        // Of equals the first one of those in sync, so that all who plan agree.
        let place = in_sync.iter().position(|host| *host == survivor.host);
        let place = place.unwrap_or(in_sync.len());
        (survivor.led, history.last_epoch(), *end, std::cmp::Reverse((place, survivor.host)))
    };
    let Some(leader) = survivors.iter().filter(counts).max_by_key(key) else {
        return Err(TakeoverError::NoCopyInSync { in_sync: in_sync.to_vec() });
    };
    let others = survivors.iter().filter(|survivor| survivor.host != leader.host);
    let plan = |survivor: &Survivor| {
        let plan = plan_copy(leader, survivor, in_sync.contains(&survivor.host), faults);
        (survivor.host, plan)
    };
    let takeover = Takeover {
        epoch,
        leader: leader.host,
        end: leader.sealed.end,
        copies: others.map(plan).collect(),
    };
    let followers = takeover.followers();
    assert!(
        followers.iter().all(|(_, end)| *end <= takeover.end),
        "a follower has nothing that its leader has not"
    );
    Ok(takeover)
}

/// What becomes of a copy.
fn plan_copy(
    leader: &Survivor,
    copy: &Survivor,
    was_in_sync: bool,
    faults: ReplicaFaults,
) -> CopyPlan {
    let SealReport { end, history, .. } = &copy.sealed;
    let kept_after = leader.sealed.kept_after;
    let of_leader: &EpochHistory = &leader.sealed.history;
    let common = of_leader.common_end(history.last_epoch(), *end);
    let common = common.map(|common| common.min(leader.sealed.end));
    if faults.rejoin_keeps_tail() && common.is_some_and(|common| common < *end) {
        return CopyPlan::Diverged { agreed: Some(leader.sealed.end.min(*end)) };
    }
    match common {
        Some(common) if common == *end && common >= kept_after && was_in_sync => {
            match common == leader.sealed.end {
                true => CopyPlan::Complete,
                false => CopyPlan::Lacks { after: common },
            }
        }
        agreed => CopyPlan::Diverged { agreed },
    }
}
