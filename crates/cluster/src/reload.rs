//! Copies that partitions lack while hosts are up that have room for them: a copy went out of sync
//! at a host that stays, or its host came back without it. The leader of the Raft group has them
//! loaded again, after a pause that grows while that does not help.

use crate::command::Command;
use crate::kfactor::Spread;
use crate::options::Options;
use crate::state::{ClusterState, Copy, PartitionState};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A pause is doubled this often at most.
const DOUBLINGS_MAX: u32 = 6;

impl ClusterState {
    /// Whether a partition lacks a copy, and one may be loaded at that site.
    pub(crate) fn has_capacity(&self, number: usize, copy: Copy) -> bool {
        let partition = &self.partitions[number];
        let known = partition.copies.iter().chain(&partition.learning);
        let lacks = known.clone().count() < self.shape.copies();
        let is_there = known.clone().any(|known| known.host == copy.host);
        let sites = self.copies_by_site(copy.host);
        let room = u32::from(self.shape.partitions_per_site);
        lacks && !is_there && sites.get(copy.thread.index()).is_some_and(|count| *count < room)
    }

    /// A host without copies gets those to load that partitions lack: first of the partitions with
    /// the fewest, each to the site that has fewest.
    pub(crate) fn place_learning(&mut self, host: HostId) {
        let room = u32::from(self.shape.partitions_per_site);
        let copies = |state: &PartitionState| state.copies.len() + state.learning.len();
        let lacks = |number: &usize| copies(&self.partitions[*number]) < self.shape.copies();
        let mut short: Vec<usize> = (0..self.partitions.len()).filter(lacks).collect();
        short.sort_by_key(|number| copies(&self.partitions[*number]));
        for number in short {
            let sites = self.copies_by_site(host);
            let fewest = sites.iter().zip(0u16..).min().map(|(count, site)| (*count, site));
            let Some((_, site)) = fewest.filter(|(count, _)| *count < room) else { return };
            let learning = &mut self.partitions[number].learning;
            learning.push(Copy { host, thread: ThreadId(site) });
            learning.sort();
        }
    }

    /// Number of a partition's copies at hosts of the placement group of a host, those that are
    /// being loaded included.
    pub(crate) fn copies_in_group_of(&self, partition: PartitionId, host: HostId) -> usize {
        let group = |host: HostId| self.hosts.get(&host).map(|it| &it.description.placement_group);
        let PartitionState { copies, learning, .. } = &self.partitions[partition.index()];
        copies.iter().chain(learning).filter(|copy| group(copy.host) == group(host)).count()
    }

    /// Where a host would have another copy: at its site with the fewest, if that has capacity.
    pub(crate) fn place_at(&self, host: HostId) -> Option<Copy> {
        let limit = u32::from(self.shape.partitions_per_site);
        let sites = self.copies_by_site(host);
        let (count, site) = sites.into_iter().zip(0u16..).min()?;
        (count < limit).then_some(Copy { host, thread: ThreadId(site) })
    }

    /// Where a partition that lacks a copy could have one: at each host that is up with data and
    /// has capacity, at its site with the fewest copies.
    pub fn places_for_copy(&self, partition: PartitionId) -> Vec<Copy> {
        let place = |host: HostId| {
            let copy = self.place_at(host)?;
            self.has_capacity(partition.index(), copy).then_some(copy)
        };
        let hosts = self.hosts.keys().copied().filter(|host| self.serves(*host));
        hosts.filter_map(place).collect()
    }
}

/// What the leader remembers of partitions that lack copies.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    waits: BTreeMap<PartitionId, Wait>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    /// A copy is loaded then, if one is lacking still.
    due_us: u64,
    /// How often that was proposed.
    tries: u32,
    /// Since when all copies are in sync: what was loaded has to last.
    whole_since_us: Option<u64>,
}

impl Reloads {
    /// The copy that is to be loaded now, at a host that `may_load`.
    pub fn due(
        &mut self,
        state: &ClusterState,
        may_load: impl Fn(HostId) -> bool,
        options: &Options,
        now_us: u64,
    ) -> Option<Command> {
        let pause_us = |tries: u32| options.reload_after_us << tries.min(DOUBLINGS_MAX);
        let mut due: Option<(PartitionId, Vec<Copy>)> = None;
        for number in (0..state.partitions.len() as u32).map(PartitionId) {
            let mut places = state.places_for_copy(number);
            places.retain(|copy| may_load(copy.host));
            if places.is_empty() {
                let partition = &state.partitions[number.index()];
                let is_whole = partition.copies.len() == state.shape.copies();
                let remembers = |wait: &mut Wait| match is_whole {
                    true => {
                        let since_us = *wait.whole_since_us.get_or_insert(now_us);
                        now_us.saturating_sub(since_us) < pause_us(wait.tries)
                    }
                    false => !partition.learning.is_empty() || now_us < wait.due_us,
                };
                self.waits.retain(|of, wait| *of != number || remembers(wait));
                continue;
            }
            let due_us = now_us + pause_us(0);
            let first = Wait { due_us, tries: 0, whole_since_us: None };
            let wait = self.waits.entry(number).or_insert(first);
            if wait.whole_since_us.take().is_some() {
                // It did not last.
                wait.due_us = now_us + pause_us(wait.tries);
            }
            let is_tighter = |best: &(_, Vec<Copy>)| places.len() < best.1.len();
            if now_us >= wait.due_us && due.as_ref().is_none_or(is_tighter) {
                due = Some((number, places));
            }
        }
        let (partition, places) = due.filter(|_| options.reload_after_us > 0)?;
        let wait = self.waits.get_mut(&partition).expect("it is due");
        wait.tries += 1;
        wait.due_us = now_us + pause_us(wait.tries);
        let count_at = |copy: &Copy| state.copies_by_site(copy.host).iter().sum::<u32>();
        let in_group = |copy: &Copy| state.copies_in_group_of(partition, copy.host);
        // A place that leaves others none is the last choice: nobody makes way for them later.
        let unplaced = |copy: &Copy| {
            let mut then = state.clone();
            then.partitions[partition.index()].learning.push(*copy);
            Reverse(Spread::of_lacking(&then, &may_load).placeable())
        };
        let rank = |copy: &Copy| (unplaced(copy), in_group(copy), count_at(copy), copy.host);
        let copy = places.into_iter().min_by_key(rank)?;
        let incarnation = state.hosts[&copy.host].incarnation;
        let epoch = state.partitions[partition.index()].epoch;
        Some(Command::BeginLoading { partition, copy, incarnation, epoch })
    }
}
