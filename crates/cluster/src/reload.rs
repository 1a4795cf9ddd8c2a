//! Copies that partitions lack while hosts are up that have room for them: a copy went out of sync
//! at a host that stays, or its host came back without it. The leader of the Raft group has them
//! loaded again, after a pause that grows while that does not help. Where the hosts with capacity
//! have a copy of the partition already, a copy of another partition is moved there first.

use crate::command::Command;
use crate::kfactor::Spread;
use crate::moves::CopyMove;
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

    /// A host without copies gets some to load that partitions lack, so that as many as possible of
    /// the others have a place at the other hosts.
    pub(crate) fn place_learning(&mut self, host: HostId) {
        let share = Spread::of_lacking(self, |_| true).share_of(self, host);
        for (partition, copy) in share {
            let learning = &mut self.partitions[partition.index()].learning;
            learning.push(copy);
            learning.sort();
        }
    }

    /// The move of a copy that gives a partition a place for one that it lacks, where the only
    /// sites with capacity are at hosts that have a copy of it. `None` while a copy is being loaded
    /// or moved, and where there is none.
    fn way_for_lacking(&self, may_load: &impl Fn(HostId) -> bool) -> Option<Command> {
        let numbers = || (0..self.partitions.len() as u32).map(PartitionId);
        let is_busy = |it: &PartitionState| !it.learning.is_empty() || it.moving.is_some();
        if self.partitions.iter().any(is_busy) {
            return None;
        }
        let stuck = |of: &PartitionId| {
            let lacks = self.partitions[of.index()].copies.len() < self.shape.copies();
            lacks && self.places_for_copy(*of).is_empty()
        };
        let has_capacity =
            |to: &HostId| self.serves(*to) && may_load(*to) && self.place_at(*to).is_some();
        let free: Vec<HostId> = self.staying_hosts().filter(has_capacity).collect();
        let has_copy = |of: PartitionId, host| self.partitions[of.index()].copy_at(host).is_some();
        let way = |lacking: PartitionId| {
            let others = numbers().filter(|of| *of != lacking);
            let moves = others.flat_map(|of| {
                let full = self.partitions[of.index()].copies.iter().map(|copy| copy.host);
                let full = full.filter(|from| !has_copy(lacking, *from) && may_load(*from));
                let free = &free;
                full.flat_map(move |from| {
                    free.iter().map(move |to| (of, CopyMove { from, to: *to }))
                })
            });
            moves
                .into_iter()
                .find_map(|(of, moved)| Some((of, moved, self.plan_move(of, moved).ok()?)))
        };
        let (partition, CopyMove { from, .. }, copy) = numbers().filter(stuck).find_map(way)?;
        let incarnation = self.hosts[&copy.host].incarnation;
        let epoch = self.partitions[partition.index()].epoch;
        Some(Command::BeginMove { partition, from, copy, incarnation, epoch })
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
        let hosts = self.staying_hosts().filter(|host| self.serves(*host));
        hosts.filter_map(place).collect()
    }
}

/// What the leader remembers of partitions that lack copies.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    waits: BTreeMap<PartitionId, Wait>,
    /// Since when a partition lacks a copy that has a place only after a move of another one.
    stuck_since_us: Option<u64>,
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
        let due = due.filter(|_| options.reload_after_us > 0);
        let Some((partition, places)) = due else {
            return match options.reload_after_us > 0 {
                true => self.make_way(state, may_load, options, now_us),
                false => None,
            };
        };
        let wait = self.waits.get_mut(&partition).expect("it is due");
        wait.tries += 1;
        wait.due_us = now_us + pause_us(wait.tries);
        let count_at = |copy: &Copy| state.copies_by_site(copy.host).iter().sum::<u32>();
        let in_group = |copy: &Copy| state.copies_in_group_of(partition, copy.host);
        // A place that leaves others none is the last choice: copies would have to be moved.
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

    /// A partition that lacks a copy gets a place for it by a move, when it had none for long.
    fn make_way(
        &mut self,
        state: &ClusterState,
        may_load: impl Fn(HostId) -> bool,
        options: &Options,
        now_us: u64,
    ) -> Option<Command> {
        let Some(moved) = state.way_for_lacking(&may_load) else {
            self.stuck_since_us = None;
            return None;
        };
        let since_us = *self.stuck_since_us.get_or_insert(now_us);
        let is_due = now_us.saturating_sub(since_us) >= options.reload_after_us;
        is_due.then(|| {
            self.stuck_since_us = None;
            moved
        })
    }
}

#[cfg(test)]
mod tests;
