//! Who votes: what the leader does to bring the Raft group in line with the members.

use super::Member;
use crate::command::Command;
use crate::ids::RaftId;
use crate::log_entry::GroupChange;
use crate::state::{ClusterState, HostPlan, HostRecord, HostState};
use lockstep_types::HostId;
use std::collections::BTreeSet;

/// The most voters. Further members learn, and take the place of a voter that is lost.
const VOTERS_MAX: u32 = 5;

/// How many of as many members vote: an odd number, since an even one survives no more losses than
/// the odd one below it.
pub(super) fn voter_count(members: u32) -> usize {
    let members = members.min(VOTERS_MAX);
    (members - u32::from(members.is_multiple_of(2))).max(1) as usize
}

/// How many members of a cluster vote if all are up. A host that is being removed counts until it
/// is listed no more.
pub(crate) fn wanted_voters(state: &ClusterState) -> usize {
    let joined = state.hosts.values().filter(|record| record.state != HostState::Added);
    voter_count(joined.count() as u32)
}

impl Member {
    /// As the leader: does one step towards the group and the members as they should be. Members
    /// in `connected` exchange heartbeats with this one.
    pub fn lead(&mut self, connected: &BTreeSet<HostId>, now_us: u64) {
        if !self.leads() || self.admit_hosts(now_us) {
            return;
        }
        if let Some(change) = self.next_change(connected) {
            self.core.propose_change(change);
            return;
        }
        let Some(state) = &self.state else { return };
        if !state.is_formed() {
            let mut ids = state.hosts.values().map(crate::HostRecord::raft_id);
            if ids.all(|id| self.core.is_caught_up(id)) {
                self.propose_once(Command::Form, now_us);
            }
        }
    }

    /// As the leader: lets another voter lead that is up, in `connected`, and has all that is
    /// committed. True if there is one. It may be asked again until this member leads no more.
    pub fn transfer_leadership(&mut self, connected: &BTreeSet<HostId>) -> bool {
        let (Some(state), true) = (&self.state, self.core.leads()) else { return false };
        let (voters, _) = self.core.group();
        let own = self.identity.id;
        let may_lead = |id: &&RaftId| {
            let record = state.hosts.get(&id.host()).filter(|record| record.raft_id() == **id);
            let is_up = record.is_some_and(|record| record.state == HostState::Up);
            **id != own && is_up && connected.contains(&id.host()) && self.core.is_caught_up(**id)
        };
        let Some(to) = voters.iter().find(may_lead).copied() else { return false };
        self.core.transfer_leadership(to);
        true
    }

    fn next_change(&self, connected: &BTreeSet<HostId>) -> Option<GroupChange> {
        let state = self.state.as_ref()?;
        let (voters, learners) = self.core.group();
        let record_of =
            |id: &RaftId| state.hosts.get(&id.host()).filter(|record| record.raft_id() == *id);
        if let Some(old) = voters.iter().chain(&learners).find(|id| record_of(id).is_none()) {
            return Some(GroupChange::Remove(*old));
        }
        let known: BTreeSet<&RaftId> = voters.iter().chain(&learners).collect();
        // A host is listed until its vote is gone: the others count it until then.
        let is_removed = |record: &&HostRecord| {
            let leaves = record.plan == HostPlan::Leaves && record.state != HostState::Up;
            leaves && state.is_empty_host(record.description.host)
        };
        // The process of one that was put out may run on, and its vote be needed for a majority. Of
        // a host that was started again heartbeats come, and not its vote.
        let is_majority_without = |id: &RaftId| {
            let left = || voters.iter().filter(|voter| *voter != id);
            let votes = |voter: &&RaftId| {
                connected.contains(&voter.host()) && self.core.is_caught_up(**voter)
            };
            2 * left().filter(votes).count() > left().count()
        };
        let mut removed = state.hosts.values().filter(is_removed).map(HostRecord::raft_id);
        if let Some(id) = removed.find(|id| known.contains(id) && is_majority_without(id)) {
            return Some(GroupChange::Remove(id));
        }
        let joined = state.hosts.values().filter(|record| record.state != HostState::Added);
        let mut ids = joined.filter(|record| !is_removed(record)).map(HostRecord::raft_id);
        if let Some(new) = ids.find(|id| !known.contains(id)) {
            return Some(GroupChange::AddLearner(new));
        }
        let ready = |id: &&RaftId| {
            connected.contains(&id.host())
                && self.core.is_caught_up(**id)
                && record_of(id).is_some_and(|record| {
                    record.state != HostState::Down && record.plan != HostPlan::Leaves
                })
        };
        let witness_first = |id: &&RaftId| (!state.shape.is_witness(id.host()), **id);
        let candidate = learners.iter().filter(ready).min_by_key(witness_first);
        // A lost host that has the last copy of something keeps its seat: no epoch separates what
        // it may still serve from what comes after it.
        let is_down = |id: &&RaftId| {
            let down = record_of(id).is_some_and(|record| record.state == HostState::Down);
            down && state.partitions_of(id.host()).next().is_none()
        };
        let down = voters.iter().find(is_down);
        let wanted = wanted_voters(state);
        match (voters.len().cmp(&wanted), candidate) {
            (std::cmp::Ordering::Less, Some(id)) => Some(GroupChange::AddVoter(*id)),
            (std::cmp::Ordering::Equal, Some(id)) if down.is_some() => {
                Some(GroupChange::AddVoter(*id))
            }
            (std::cmp::Ordering::Greater, _) => {
                let own = self.identity.id;
                let last = voters.iter().rfind(|id| **id != own);
                down.or(last).map(|id| GroupChange::AddLearner(*id))
            }
            _ => None,
        }
    }
}
