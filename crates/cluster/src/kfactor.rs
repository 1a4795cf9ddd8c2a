//! Another K while the cluster runs: which copies partitions get, and which they lose.
//!
//! A greater K gives each partition copies to load, at hosts that have capacity for them and, where
//! that can be had, in placement groups without a copy of it. They come in sync as any other copy
//! that is loaded. A smaller K takes followers out of the in-sync sets at once. Leaders stay, and
//! each host keeps a copy: the votes of hosts without copies cannot be counted on when the whole
//! cluster starts again.

use crate::apply::Verdict;
use crate::error::Refusal;
use crate::ids::Epoch;
use crate::placement::{conflicts, try_swap};
use crate::state::{ClusterState, Copy, HostState, K_MAX, PartitionState, Shape};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What another K does to the copies of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KChange {
    /// Copies that are to be loaded, ascending by partition.
    pub added: Vec<(PartitionId, Copy)>,
    /// The hosts of copies that are given up, in sync or being loaded.
    pub dropped: Vec<(PartitionId, HostId)>,
}

impl ClusterState {
    /// What a change of K would do now.
    ///
    /// # Errors
    /// A rule forbids it: the text for the user.
    pub fn plan_k(&self, k: u8) -> Result<KChange, Refusal> {
        self.check_k(k)?;
        match k > self.shape.k {
            true => Ok(KChange { added: self.copies_for(k)?, dropped: Vec::new() }),
            false => Ok(KChange { added: Vec::new(), dropped: self.surplus_of(k)? }),
        }
    }

    /// Whether K may become another one, as far as hosts and copies are concerned that there are.
    fn check_k(&self, k: u8) -> Result<(), Refusal> {
        let refused = |text: String| Err(Refusal::Shape(text));
        let (hosts, present) = (self.staying_hosts().count() as u32, self.shape.k);
        if !self.is_formed() {
            return Err(Refusal::Phase);
        }
        if k > K_MAX {
            return refused(format!("K is 0 to {K_MAX}, not {k}"));
        }
        if k == present {
            return refused(format!("K is {k} already"));
        }
        if let Some(number) = self.partitions.iter().position(|it| it.moving.is_some()) {
            return refused(format!(
                "a copy of partition {number} is being moved: retry when that has ended"
            ));
        }
        if self.made_k == 0 {
            return refused(format!(
                "the cluster was made with --kfactor 0, and its hosts do not replicate: K = {k} \
                 needs a new cluster, into which a snapshot of this one is restored"
            ));
        }
        if let Some(host) = self.data_hosts().find(|host| self.leaves(*host)) {
            return refused(format!("host {host} is being removed: retry when that has ended"));
        }
        if u32::from(k) >= hosts {
            return refused(format!(
                "K = {k} needs {} hosts, and the cluster has {hosts}: K = {} is the greatest",
                u32::from(k) + 1,
                hosts - 1
            ));
        }
        let state_of = |host: &HostId| self.hosts.get(host).map(|record| record.state);
        let is_away = |host: &HostId| state_of(host) != Some(HostState::Up);
        if let Some(host) = self.data_hosts().find(is_away) {
            return refused(format!(
                "host {host} is not up: K is changed while all hosts are, so that each has copies"
            ));
        }
        Ok(())
    }

    /// The copies to load with which each partition has K + 1.
    fn copies_for(&self, k: u8) -> Result<Vec<(PartitionId, Copy)>, Refusal> {
        let lacks = |state: &&crate::PartitionState| state.copies.len() < self.shape.copies();
        if let Some(number) = self.partitions.iter().position(|state| lacks(&state)) {
            return Err(Refusal::Shape(format!(
                "partition {number} has not all of its {} copies in sync: retry when no copy is \
                 missing or being loaded",
                self.shape.copies()
            )));
        }
        let copies = usize::from(k) + 1;
        let mut spread = Spread::of(self, copies);
        let hosts = self.staying_hosts().count() as u32;
        let Shape { sites_per_host, partitions_per_site, .. } = self.shape;
        let needed = self.partitions.len() * copies;
        if !spread.place_all() {
            let each = u32::from(sites_per_host) * u32::from(partitions_per_site);
            return Err(Refusal::Shape(format!(
                "K = {k} needs {needed} copies of {} partitions, each at {copies} hosts, and \
                 {hosts} hosts x {sites_per_host} sites x {partitions_per_site} \
                 (partitions_per_site) have capacity for {}",
                self.partitions.len(),
                hosts * each
            )));
        }
        spread.separate_groups();
        let added = spread.added(self);
        assert_eq!(added.len(), needed - self.in_sync_count(), "each partition gets what it lacks");
        Ok(added)
    }

    fn in_sync_count(&self) -> usize {
        self.partitions.iter().map(|partition| partition.copies.len()).sum()
    }

    /// The copies that partitions have beyond K + 1: those that are being loaded first, then
    /// followers that share a placement group with others, at the hosts with most copies.
    fn surplus_of(&self, k: u8) -> Result<Vec<(PartitionId, HostId)>, Refusal> {
        let (copies, numbers) = (usize::from(k) + 1, (0..).map(PartitionId));
        let mut dropped = Vec::new();
        let mut kept: Vec<Vec<HostId>> = Vec::new();
        let mut held: BTreeMap<HostId, usize> = BTreeMap::new();
        for (number, partition) in numbers.zip(&self.partitions) {
            let loaded = copies.saturating_sub(partition.copies.len());
            let given_up = partition.learning.iter().skip(loaded);
            dropped.extend(given_up.map(|copy| (number, copy.host)));
            kept.push(partition.copies.iter().map(|copy| copy.host).collect());
            partition.copies.iter().for_each(|copy| *held.entry(copy.host).or_default() += 1);
        }
        for _ in 0..K_MAX {
            for (number, kept) in kept.iter_mut().enumerate() {
                if kept.len() <= copies {
                    continue;
                }
                let host = self.least_needed(number, kept, &held);
                kept.retain(|other| *other != host);
                *held.get_mut(&host).expect("it has the copy") -= 1;
                dropped.push((PartitionId(number as u32), host));
            }
        }
        let is_emptied = |host: &HostId| held.get(host) == Some(&0);
        if let Some(host) = self.data_hosts().find(is_emptied) {
            return Err(Refusal::Shape(format!(
                "K = {k} leaves host {host} without a copy of any of the {} partitions: let each \
                 host lead about as many (admin cluster balance), or keep K = {}",
                kept.len(),
                self.shape.k
            )));
        }
        dropped.sort_unstable();
        Ok(dropped)
    }

    /// Of the hosts that keep a copy of a partition, the follower that is to give it up.
    fn least_needed(
        &self,
        number: usize,
        kept: &[HostId],
        held: &BTreeMap<HostId, usize>,
    ) -> HostId {
        let partition = &self.partitions[number];
        let group = |host: HostId| &self.hosts[&host].description.placement_group;
        let in_group = |host: HostId| kept.iter().filter(|it| group(**it) == group(host)).count();
        // One that leads others keeps these.
        let leads_none = |host: HostId| self.leaders_at(host) == 0;
        let rank = |host: &HostId| {
            let is_last = held[host] == 1;
            let is_next = partition.hand_over == Some(*host);
            let shared = Reverse(in_group(*host));
            (is_last, is_next, shared, Reverse(held[host]), leads_none(*host), Reverse(*host))
        };
        let followers = kept.iter().copied().filter(|host| *host != partition.leader);
        followers.min_by_key(rank).expect("a partition with more copies than one has a follower")
    }

    /// See [`crate::Command::ChangeK`].
    pub(crate) fn change_k(&mut self, k: u8, epoch: Epoch) -> Result<Verdict, Refusal> {
        if epoch != self.epoch {
            return Err(Refusal::Stale);
        }
        let KChange { added, dropped } = self.plan_k(k)?;
        let changed = added.iter().map(|(partition, _)| *partition);
        let changed = changed.chain(dropped.iter().map(|(partition, _)| *partition));
        let changed: BTreeSet<PartitionId> = changed.collect();
        let dropped: BTreeSet<(PartitionId, HostId)> = dropped.into_iter().collect();
        // What was proposed for the copies of before is void in the new epoch.
        let next = self.epoch.next();
        for partition in changed {
            let goes = |copy: &Copy| dropped.contains(&(partition, copy.host));
            let state = &mut self.partitions[partition.index()];
            state.learning.retain(|copy| !goes(copy));
            let kept: Vec<Copy> = state.copies.iter().filter(|it| !goes(it)).copied().collect();
            let leader = state.leader;
            self.set_copies(partition.index(), kept, next);
            assert_eq!(self.partitions[partition.index()].leader, leader, "leaders stay");
        }
        for (partition, copy) in added {
            let learning = &mut self.partitions[partition.index()].learning;
            learning.push(copy);
            learning.sort();
        }
        (self.shape.k, self.epoch) = (k, next);
        Ok(Verdict::Applied)
    }
}

/// Copies that partitions are to get, as they are placed.
pub(crate) struct Spread<'a> {
    /// By number of a host, its placement group.
    groups: Vec<&'a str>,
    copies: usize,
    /// By partition, the hosts with a copy: those that have or load one now, then those that get
    /// one.
    hosts: Vec<Vec<HostId>>,
    /// By partition, how many have or load one now.
    fixed: Vec<usize>,
    /// By number of a host, the copies that it could have beside those; 0 for one that has no
    /// data, is being removed, or is not listed.
    free: Vec<u32>,
}

impl Spread<'_> {
    fn of(state: &ClusterState, copies: usize) -> Spread<'_> {
        let numbered = || (0..state.numbers).map(HostId);
        let group = |host: HostId| {
            state.hosts.get(&host).map_or("", |record| record.description.placement_group.as_str())
        };
        let capacity = u32::from(state.shape.partitions_per_site);
        let staying: BTreeSet<HostId> = state.staying_hosts().collect();
        let free_at = |host: HostId| {
            if !staying.contains(&host) {
                return 0;
            }
            let sites = state.copies_by_site(host);
            sites.into_iter().map(|count| capacity.saturating_sub(count)).sum()
        };
        let copies_of = |it: &PartitionState| {
            it.copies.iter().chain(&it.learning).map(|copy| copy.host).collect()
        };
        let hosts: Vec<Vec<HostId>> = state.partitions.iter().map(copies_of).collect();
        Spread {
            groups: numbered().map(group).collect(),
            copies,
            fixed: hosts.iter().map(Vec::len).collect(),
            hosts,
            free: numbered().map(free_at).collect(),
        }
    }

    /// Where copies could be at the other hosts that stay and `may_load`, so that none is at a
    /// host: as many as there is capacity for, those that partitions lack now among them. And
    /// whether these are all.
    pub(crate) fn without(
        state: &ClusterState,
        host: HostId,
        may_load: impl Fn(HostId) -> bool,
    ) -> (Vec<(PartitionId, Copy)>, bool) {
        let mut spread = Spread::of(state, state.shape.copies());
        for (other, free) in (0..).map(HostId).zip(&mut spread.free) {
            if other == host || !may_load(other) {
                *free = 0;
            }
        }
        for (hosts, fixed) in spread.hosts.iter_mut().zip(&mut spread.fixed) {
            hosts.retain(|other| *other != host);
            *fixed = hosts.len();
        }
        spread.place_most();
        spread.separate_groups();
        let are_all = spread.hosts.iter().all(|hosts| hosts.len() >= spread.copies);
        (spread.added(state), are_all)
    }

    /// Of what partitions lack now, at hosts that serve and `may_load`.
    pub(crate) fn of_lacking(
        state: &ClusterState,
        may_load: impl Fn(HostId) -> bool,
    ) -> Spread<'_> {
        let mut spread = Spread::of(state, state.shape.copies());
        for (host, free) in (0..).map(HostId).zip(&mut spread.free) {
            if !state.serves(host) || !may_load(host) {
                *free = 0;
            }
        }
        spread
    }

    /// How many of the copies that are lacking have a place, if all are placed as they should be.
    pub(crate) fn placeable(mut self) -> usize {
        self.place_most()
    }

    /// Places as many copies as there is capacity for, those of partitions with the fewest first.
    /// How many that are.
    fn place_most(&mut self) -> usize {
        let mut placed = 0;
        for count in 0..self.copies {
            for number in 0..self.hosts.len() {
                let is_next = self.hosts[number].len() == count;
                let place = |spread: &mut Self| {
                    spread.place_best(number) || spread.place(number, None, &mut BTreeSet::new())
                };
                placed += usize::from(is_next && place(self));
            }
        }
        placed
    }

    /// The copies that a host gets where as many as possible of those that partitions lack are
    /// placed.
    pub(crate) fn share_of(
        mut self,
        state: &ClusterState,
        host: HostId,
    ) -> Vec<(PartitionId, Copy)> {
        self.place_most();
        let mut added = self.added(state);
        added.retain(|(_, copy)| copy.host == host);
        added
    }

    /// False where the copies cannot be placed, whichever host gets which.
    fn place_all(&mut self) -> bool {
        for count in 0..self.copies {
            for number in 0..self.hosts.len() {
                if self.hosts[number].len() > count {
                    continue;
                }
                if !self.place_best(number) && !self.place(number, None, &mut BTreeSet::new()) {
                    return false;
                }
            }
        }
        true
    }

    /// The hosts that could have a copy of a partition, whether they have capacity or not.
    fn candidates(&self, number: usize) -> Vec<HostId> {
        let all = (0..self.free.len() as u32).map(HostId);
        all.filter(|host| !self.hosts[number].contains(host)).collect()
    }

    /// A host with capacity gets a copy: of a group that has the fewest, and with most capacity.
    fn place_best(&mut self, number: usize) -> bool {
        let group = |host: HostId| self.groups[host.0 as usize];
        let rank = |host: &HostId| {
            let shared = self.hosts[number].iter().filter(|it| group(**it) == group(*host));
            (shared.count(), Reverse(self.free[host.0 as usize]), *host)
        };
        let candidates = self.candidates(number).into_iter();
        let with_space = candidates.filter(|host| self.free[host.0 as usize] > 0);
        let Some(host) = with_space.min_by_key(rank) else { return false };
        self.free[host.0 as usize] -= 1;
        self.hosts[number].push(host);
        true
    }

    /// Some host gets a copy, in place of one that was placed before if one is given. Where none
    /// has capacity, copies that were placed before make way, those of hosts in `tried` excepted.
    fn place(
        &mut self,
        number: usize,
        replaced: Option<HostId>,
        tried: &mut BTreeSet<HostId>,
    ) -> bool {
        for host in self.candidates(number) {
            if !tried.insert(host) {
                continue;
            }
            let has_space = self.free[host.0 as usize] > 0;
            if !has_space && !self.make_way(host, tried) {
                continue;
            }
            if has_space {
                self.free[host.0 as usize] -= 1;
            }
            match replaced {
                None => self.hosts[number].push(host),
                Some(before) => {
                    let mut placed = self.hosts[number].iter_mut();
                    *placed.find(|it| **it == before).expect("it was placed there") = host;
                }
            }
            return true;
        }
        false
    }

    /// A copy that was placed at a host goes to another one.
    fn make_way(&mut self, host: HostId, tried: &mut BTreeSet<HostId>) -> bool {
        (0..self.hosts.len()).any(|number| {
            let placed = &self.hosts[number][self.fixed[number]..];
            placed.contains(&host) && self.place(number, Some(host), tried)
        })
    }

    /// Partitions exchange the hosts of copies that they get, as long as fewer share a group by it.
    fn separate_groups(&mut self) {
        let Spread { groups, hosts, fixed, .. } = self;
        for a in 0..hosts.len() {
            for slot in fixed[a]..hosts[a].len() {
                if conflicts(&hosts[a], groups) == 0 {
                    break;
                }
                for b in 0..hosts.len() {
                    let mut others = fixed[b]..hosts[b].len();
                    if others.any(|other| try_swap(hosts, groups, (a, slot), (b, other))) {
                        break;
                    }
                }
            }
        }
    }

    /// The copies that partitions get, each at the site of its host with the fewest.
    fn added(&self, state: &ClusterState) -> Vec<(PartitionId, Copy)> {
        let numbered = (0..state.numbers).map(HostId);
        let mut sites: Vec<Vec<u32>> = numbered.map(|host| state.copies_by_site(host)).collect();
        let mut added = Vec::new();
        for (number, hosts) in (0..).map(PartitionId).zip(&self.hosts) {
            for &host in &hosts[self.fixed[number.index()]..] {
                let sites = &mut sites[host.0 as usize];
                let fewest = (0..sites.len()).min_by_key(|site| sites[*site]);
                let site = fewest.expect("a host has a site");
                sites[site] += 1;
                added.push((number, Copy { host, thread: ThreadId(site as u16) }));
            }
        }
        added
    }
}

#[cfg(test)]
pub(crate) mod tests;
