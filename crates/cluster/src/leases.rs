//! Leases: until when a leader may answer reads, and from when a new one may.
//!
//! A host grants a lease to another one with its heartbeats and receipts. The receiver counts it
//! from the time at which *it* sent what is answered, by its own clock, less the allowed drift. The
//! giver counts from when that arrived, which is later. So the giver knows when every lease has
//! ended that it ever granted, on its own clock.
//!
//! A leader holds the lease of a partition while it has valid grants of **every in-sync
//! follower** and of a **majority of the voters**. A grant counts for a partition if it is of an
//! epoch in which the giver knew this host as the leader: not older than the partition's own
//! epoch, and not newer than the placement of this host.
//!
//! Every host keeps, for each partition, when the leases of all older configurations have ended. A
//! leader opens the partition then. When the configuration changes, that time is
//!
//! * now, if the old leader had sealed the partition: it does so only when it was open;
//! * the same as before, if this host was the old leader;
//! * if it followed the old leader in the configuration before: the same as before, or when the
//!   grants have ended that it gave that leader;
//! * else the time of a lease after a majority of the voters has the new epoch. A host that missed
//!   a configuration, or has a new copy, cannot know who granted what.
//!
//! The last rule compares the voters of two placements, which may differ. A voter is replaced only
//! after its loss, which is an epoch of its own, and in single steps. The voters that consent to a
//! step have that epoch, so that a leader with the older placement no longer has a majority of the
//! older voters.

use crate::faults::Faults;
use crate::ids::{Epoch, Incarnation};
use crate::options::Options;
use crate::state::{ClusterState, HostState, PartitionState};
use lockstep_types::{HostId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};

/// When the leases of all older configurations of a partition have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// At this time.
    At(u64),
    /// A majority of the voters does not have the epoch yet.
    AfterMajority,
}

impl Opening {
    /// When that time has come as well.
    fn and_at(self, at_us: u64) -> Opening {
        match self {
            Opening::At(before_us) => Opening::At(before_us.max(at_us)),
            Opening::AfterMajority => Opening::AfterMajority,
        }
    }
}

/// What this host knows of a partition.
#[derive(Debug, Clone)]
struct Known {
    state: PartitionState,
    opening: Opening,
    sealed: bool,
}

/// The leases at one host. All times are of its monotonic clock, which counts the time in which
/// the host was suspended.
pub struct Leases {
    host: HostId,
    incarnation: Incarnation,
    options: Options,
    faults: Faults,
    /// What an earlier process of this host granted has ended by then.
    started_until_us: u64,
    /// By host, when the last grant that it has of this one ends.
    given: BTreeMap<HostId, u64>,
    /// By host, its grants: of which epoch, and when each ends.
    taken: BTreeMap<HostId, Vec<(Epoch, u64)>>,
    epoch: Epoch,
    is_up: bool,
    voters: Vec<HostId>,
    /// The hosts that are up, with their processes.
    up: BTreeMap<HostId, Incarnation>,
    partitions: Vec<Known>,
    suspended: bool,
}

/// Epochs of grants that are kept for each host.
const GRANTS_KEPT: usize = 4;

impl Leases {
    /// The leases of a process that starts at `now_us`.
    pub fn new(
        host: HostId,
        incarnation: Incarnation,
        options: Options,
        faults: Faults,
        now_us: u64,
    ) -> Leases {
        Leases {
            host,
            incarnation,
            options,
            faults,
            started_until_us: now_us + options.lease_us,
            given: BTreeMap::new(),
            taken: BTreeMap::new(),
            epoch: Epoch(0),
            is_up: false,
            voters: Vec::new(),
            up: BTreeMap::new(),
            partitions: Vec::new(),
            suspended: false,
        }
    }

    /// Takes a newer state.
    pub fn install(&mut self, state: &ClusterState, now_us: u64) {
        assert!(state.epoch >= self.epoch, "the epochs of a member only grow");
        let up = state.hosts.iter().filter(|(_, record)| record.state == HostState::Up);
        self.up = up.map(|(host, record)| (*host, record.incarnation)).collect();
        self.is_up = self.up.get(&self.host) == Some(&self.incarnation);
        self.voters = state.voters().collect();
        self.epoch = state.epoch;
        let known = std::mem::take(&mut self.partitions);
        let known = known.into_iter().map(Some).chain(std::iter::repeat(None));
        let pairs = state.partitions.iter().zip(known);
        self.partitions = pairs.map(|(partition, old)| self.know(partition, old, now_us)).collect();
    }

    fn know(&self, partition: &PartitionState, old: Option<Known>, now_us: u64) -> Known {
        let same = old.as_ref().is_some_and(|old| old.state.epoch == partition.epoch);
        if let (true, Some(old)) = (same, &old) {
            return Known { state: partition.clone(), ..*old };
        }
        let opening = self.opening(partition, old.as_ref(), now_us);
        Known { state: partition.clone(), opening, sealed: false }
    }

    fn opening(&self, new: &PartitionState, old: Option<&Known>, now_us: u64) -> Opening {
        let Some(previous) = new.previous else { return Opening::At(self.started_until_us) };
        // The configuration before the new one, if this host has seen that one.
        let before = old.filter(|old| old.state.epoch == previous.epoch);
        match before {
            Some(before) if previous.leader == self.host => before.opening,
            _ if previous.sealed => Opening::At(now_us),
            Some(before) if before.state.copy_at(self.host).is_some() => {
                let given_us = self.given.get(&previous.leader).copied().unwrap_or(0);
                before.opening.and_at(given_us.max(self.started_until_us))
            }
            _ => Opening::AfterMajority,
        }
    }

    /// Voters were heard of with these epochs: what waits for a majority may begin its wait.
    pub fn note_epochs(&mut self, epoch_of: impl Fn(HostId) -> Epoch, now_us: u64) {
        let (own, host) = (self.epoch, self.host);
        let mut epochs: Vec<Epoch> =
            self.voters.iter().map(|v| if *v == host { own } else { epoch_of(*v) }).collect();
        epochs.sort_by(|a, b| b.cmp(a));
        // A majority has this epoch or a newer one.
        let Some(&majority) = epochs.get(epochs.len() / 2) else { return };
        let wait_us = self.options.lease_us + self.options.drift_allowance_us();
        for known in &mut self.partitions {
            if known.opening == Opening::AfterMajority && majority >= known.state.epoch {
                known.opening = Opening::At(now_us + wait_us);
            }
        }
    }

    /// Whether the next message to a host may grant it a lease, which is counted from `came_us`,
    /// when what it answers came. It is noted as given then.
    pub fn give(&mut self, to: HostId, to_incarnation: Incarnation, came_us: u64) -> bool {
        if self.suspended || self.up.get(&to) != Some(&to_incarnation) {
            return false;
        }
        let until_us = self.given.entry(to).or_default();
        *until_us = (*until_us).max(came_us + self.options.lease_us);
        true
    }

    /// Takes a grant of a host: it answers what this host sent at `sent_us`, and is of an epoch.
    pub fn take(&mut self, from: HostId, sent_us: u64, epoch: Epoch) {
        let length_us = self.options.counted_lease_us();
        let until_us = sent_us + length_us;
        let grants = self.taken.entry(from).or_default();
        match grants.iter_mut().find(|grant| grant.0 == epoch) {
            Some(grant) => grant.1 = grant.1.max(until_us),
            None => grants.push((epoch, until_us)),
        }
        if grants.len() > GRANTS_KEPT {
            grants.remove(0);
        }
    }

    /// This host gives up all its leases, and grants none, until it does not any more: it is in a
    /// minority, or its placement is stale.
    pub fn suspend(&mut self, suspended: bool) {
        self.suspended = suspended;
    }

    /// This host serves a partition no longer, until the partition has a new epoch: the first step
    /// of a planned transfer. False if it cannot, because it does not lead the partition or leases
    /// of an older leader may not have ended; the transfer is not completed then.
    pub fn seal(&mut self, partition: PartitionId, now_us: u64) -> bool {
        let is_open = self.open_after_us(partition).is_some_and(|at_us| at_us <= now_us);
        if let (true, Some(known)) = (is_open, self.partitions.get_mut(partition.index())) {
            known.sealed = true;
        }
        is_open
    }

    /// From when this host may answer for a partition that it leads, as far as other leaders are
    /// concerned. `None` if it does not lead it, or a majority does not have the epoch yet.
    pub fn open_after_us(&self, partition: PartitionId) -> Option<u64> {
        let known = self.partitions.get(partition.index())?;
        match known.opening {
            Opening::At(at_us) if known.state.leader == self.host => Some(at_us),
            _ => None,
        }
    }

    /// Whether this host may answer reads of a partition at a time. It is tested after the read was
    /// executed, when the answer is written.
    pub fn holds(&self, partition: PartitionId, now_us: u64) -> bool {
        let open = self.open_after_us(partition).is_some_and(|at_us| at_us <= now_us);
        let held = self.held_until_us(partition);
        open && held.is_some_and(|until_us| now_us < until_us.saturating_add(self.grace_us()))
    }

    /// How long after its end a lease still counts: not at all, unless that is broken.
    pub(crate) fn grace_us(&self) -> u64 {
        if self.faults.serve_after_lease() { 4 * self.options.lease_us } else { 0 }
    }

    /// When the lease of a partition ends, as far as it was granted until now.
    pub fn held_until_us(&self, partition: PartitionId) -> Option<u64> {
        let known = self.partitions.get(partition.index())?;
        let state = &known.state;
        let gave_up = self.suspended && !self.faults.serve_after_lease();
        if state.leader != self.host || known.sealed || !self.is_up || gave_up {
            return None;
        }
        let until_us = |host: HostId| self.granted_until_us(host, state.epoch);
        let followers_us = state.followers().map(until_us).min().unwrap_or(u64::MAX);
        let mut voters_us: Vec<u64> = self.voters.iter().map(|host| until_us(*host)).collect();
        voters_us.sort_by(|a, b| b.cmp(a));
        let majority_us = voters_us.get(voters_us.len() / 2).copied().unwrap_or(0);
        Some(followers_us.min(majority_us)).filter(|until_us| *until_us > 0)
    }

    /// When the grants of a host end that count since an epoch.
    fn granted_until_us(&self, host: HostId, since: Epoch) -> u64 {
        if host == self.host {
            return u64::MAX;
        }
        let counts = |grant: &&(Epoch, u64)| (since..=self.epoch).contains(&grant.0);
        let grants = self.taken.get(&host).into_iter().flatten();
        grants.filter(counts).map(|(_, until_us)| *until_us).max().unwrap_or(0)
    }

    /// The partitions that this host leads.
    pub fn led(&self) -> BTreeSet<PartitionId> {
        let numbered = (0..).map(PartitionId).zip(&self.partitions);
        let led = numbered.filter(|(_, known)| known.state.leader == self.host);
        led.map(|(partition, _)| partition).collect()
    }
}

#[cfg(test)]
mod tests;
