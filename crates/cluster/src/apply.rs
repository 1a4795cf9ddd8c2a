//! What each command does to the replicated state: the rules of membership, epochs and placement.
//!
//! All members apply the same commands in the same order, so everything here follows from the state
//! and the command alone. A command that is refused changes nothing but the list of missing
//! partitions and the state of a lost host.

use crate::command::Command;
use crate::error::Refusal;
use crate::faults::Faults;
use crate::ids::{Epoch, Incarnation, RaftId};
use crate::placement;
use crate::state::{
    ClusterState, Copy, HostDescription, HostPlan, HostRecord, HostState, PartitionState, Vote,
};
use lockstep_types::{HostId, PartitionId};
use std::collections::BTreeSet;

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The state changed.
    Applied,
    /// The state was as the command would have it.
    Unchanged,
    /// A rule forbids it.
    Refused(Refusal),
}

impl ClusterState {
    /// Applies a command.
    pub fn apply(&mut self, command: &Command, faults: Faults) -> Verdict {
        let (epoch, learning) = (self.epoch, self.all_learning());
        let result = match command {
            Command::Form => self.form(),
            Command::Join { description, incarnation } => self.join(description, *incarnation),
            Command::HostUp { host, incarnation } => self.host_up(*host, *incarnation),
            Command::Restarted { host, incarnation } => self.restarted(*host, *incarnation),
            Command::Resume { hosts } => self.resume(hosts),
            Command::HostLost { host, incarnation } => self.host_lost(*host, *incarnation),
            Command::OutOfSync { partition, host, epoch } => {
                self.out_of_sync(*partition, *host, *epoch, faults)
            }
            Command::BeginLoading { partition, copy, incarnation, epoch } => {
                self.begin_loading(*partition, *copy, *incarnation, *epoch)
            }
            Command::InSync { partition, copy, incarnation, epoch } => {
                self.in_sync(*partition, *copy, *incarnation, *epoch)
            }
            Command::ForceCopy { partition, copy, epoch } => {
                self.force_copy(*partition, *copy, *epoch)
            }
            Command::BeginHandOver { partition, to, epoch } => {
                self.begin_hand_over(*partition, *to, *epoch)
            }
            Command::CompleteHandOver { partition, to, epoch } => {
                self.complete_hand_over(*partition, *to, *epoch)
            }
            Command::GiveUpHandOver { partition, epoch } => {
                self.give_up_hand_over(*partition, *epoch)
            }
            Command::MoveLeader { partition, to, epoch } => {
                self.move_leader(*partition, *to, *epoch)
            }
            Command::MoveCoordinator { to, epoch } => self.move_coordinator(*to, *epoch),
            Command::ChangeK { k, epoch } => self.change_k(*k, *epoch),
            Command::BeginMove { partition, from, copy, incarnation, epoch } => {
                self.begin_move(*partition, (*from, *copy), *incarnation, *epoch)
            }
            Command::EndMove { partition, epoch } => self.end_move(*partition, *epoch),
            Command::AddHost { host, internal_address, epoch } => {
                self.add_host(*host, internal_address, *epoch)
            }
            Command::PlanHost { host, plan, epoch } => self.plan_host(*host, *plan, *epoch),
            Command::RemoveHost { host, epoch } => self.remove_host(*host, *epoch),
            Command::CatalogVersion(version) => raise(&mut self.catalog_version, *version),
            Command::RingVersion(version) => raise(&mut self.ring_version, *version),
        };
        if self.epoch == epoch && self.all_learning() != learning {
            // Leaders give up copies that are not to be loaded any more.
            self.epoch = epoch.next();
        }
        assert!(self.epoch >= epoch && self.epoch.0 <= epoch.0 + 1, "epochs grow one by one");
        self.end_void_moves();
        self.missing = self.find_missing();
        self.check_invariants();
        result.unwrap_or_else(Verdict::Refused)
    }

    /// Notes what the members are to the Raft group, after that changed.
    pub fn set_votes(&mut self, voters: &BTreeSet<RaftId>, learners: &BTreeSet<RaftId>) {
        assert!(voters.is_disjoint(learners), "a voter is not a learner");
        for record in self.hosts.values_mut() {
            let id = record.raft_id();
            record.vote = match (voters.contains(&id), learners.contains(&id)) {
                (true, _) => Vote::Voter,
                (_, true) => Vote::Learner,
                _ => Vote::None,
            };
        }
    }

    fn find_missing(&self) -> BTreeSet<PartitionId> {
        let up = |partition: &PartitionState| {
            partition.copies.iter().any(|copy| self.hosts[&copy.host].state == HostState::Up)
        };
        let numbered = (0..).map(PartitionId).zip(&self.partitions);
        numbered.filter(|(_, partition)| !up(partition)).map(|(number, _)| number).collect()
    }

    fn form(&mut self) -> Result<Verdict, Refusal> {
        if self.is_formed() {
            return Err(Refusal::Phase);
        }
        let configured = (0..self.shape.members()).map(HostId);
        if let Some(absent) = configured.clone().find(|host| !self.hosts.contains_key(host)) {
            return Err(Refusal::Absent(absent));
        }
        let group = |host: u32| self.hosts[&HostId(host)].description.placement_group.as_str();
        let groups: Vec<&str> = (0..self.shape.hosts).map(group).collect();
        let partitions = placement::first_placement(&self.shape, &groups)?;
        self.partitions = partitions;
        self.epoch = Epoch(1);
        self.place_coordinator(self.partitions[0].leader);
        self.coordinator_since = self.epoch;
        self.hosts.values_mut().for_each(|record| record.take_part(Epoch(1)));
        Ok(Verdict::Applied)
    }

    fn join(
        &mut self,
        description: &HostDescription,
        incarnation: Incarnation,
    ) -> Result<Verdict, Refusal> {
        let host = description.host;
        // Hosts are listed when a cluster forms, and then when they are added.
        let is_known = match self.is_formed() {
            true => self.hosts.contains_key(&host),
            false => host.0 < self.shape.members(),
        };
        if !is_known || RaftId::new(host, incarnation).is_none() {
            return Err(Refusal::UnknownHost(host));
        }
        let plan = self.hosts.get(&host).map_or(HostPlan::Stays, |record| record.plan);
        if let Some(record) = self.hosts.get(&host) {
            if record.incarnation == incarnation {
                return Ok(Verdict::Unchanged);
            }
            if record.incarnation > incarnation {
                return Err(Refusal::Stale);
            }
            if record.vote != Vote::None {
                return Err(Refusal::OldIdentity(host));
            }
        }
        self.remove_copies(host)?;
        self.forget_learning(host);
        let joining = HostRecord::joining(description.clone(), incarnation);
        self.hosts.insert(host, HostRecord { plan, ..joining });
        Ok(Verdict::Applied)
    }

    fn record(
        &mut self,
        host: HostId,
        incarnation: Incarnation,
    ) -> Result<&mut HostRecord, Refusal> {
        let record = self.hosts.get_mut(&host).ok_or(Refusal::UnknownHost(host))?;
        if record.incarnation != incarnation {
            return Err(Refusal::Stale);
        }
        Ok(record)
    }

    fn host_up(&mut self, host: HostId, incarnation: Incarnation) -> Result<Verdict, Refusal> {
        let has_copies = self.partitions_of(host).next().is_some();
        if !self.is_formed() || has_copies {
            return Err(Refusal::Phase);
        }
        let is_witness = self.shape.is_witness(host);
        // All hosts get another placement, unless it has no place in it.
        let epoch = if is_witness { self.epoch } else { self.epoch.next() };
        let record = self.record(host, incarnation)?;
        if record.state == HostState::Up {
            return Ok(Verdict::Unchanged);
        }
        record.take_part(epoch);
        if !is_witness {
            self.place_learning(host);
            self.epoch = epoch;
        }
        Ok(Verdict::Applied)
    }

    /// The copies that are being loaded.
    fn all_learning(&self) -> Vec<(usize, Copy)> {
        let numbered = self.partitions.iter().enumerate();
        numbered.flat_map(|(at, it)| it.learning.iter().map(move |copy| (at, *copy))).collect()
    }

    /// What is being loaded at a host is not any more.
    fn forget_learning(&mut self, host: HostId) {
        for partition in &mut self.partitions {
            partition.learning.retain(|copy| copy.host != host);
        }
    }

    fn restarted(&mut self, host: HostId, incarnation: Incarnation) -> Result<Verdict, Refusal> {
        let record = self.hosts.get_mut(&host).ok_or(Refusal::UnknownHost(host))?;
        if incarnation.0 >= Incarnation::LIMIT || record.incarnation > incarnation {
            return Err(Refusal::Stale);
        }
        if record.incarnation == incarnation {
            return Ok(Verdict::Unchanged);
        }
        record.incarnation = incarnation;
        record.state = HostState::Joining;
        self.forget_learning(host);
        Ok(Verdict::Applied)
    }

    /// See [`Command::Resume`]. What the hosts serve alone they serve again; a copy that others
    /// kept serving is out of sync and is loaded again.
    fn resume(&mut self, hosts: &[(HostId, Incarnation)]) -> Result<Verdict, Refusal> {
        for (host, incarnation) in hosts {
            if self.record(*host, *incarnation)?.state == HostState::Up {
                return Err(Refusal::Stale);
            }
        }
        let resumed: BTreeSet<HostId> = hosts.iter().map(|(host, _)| *host).collect();
        let up = |host: &HostId| self.hosts[host].state == HostState::Up;
        let stays = |partition: &PartitionState| -> Vec<Copy> {
            let others_serve = partition.copies.iter().any(|copy| up(&copy.host));
            let stays = |copy: &&Copy| match others_serve {
                true => up(&copy.host),
                false => resumed.contains(&copy.host),
            };
            partition.copies.iter().filter(stays).copied().collect()
        };
        let kept: Vec<Vec<Copy>> = self.partitions.iter().map(stays).collect();
        let epoch = self.epoch.next();
        for (number, copies) in kept.into_iter().enumerate() {
            // A partition whose copies are all elsewhere waits for their hosts.
            let restarts = copies.iter().any(|copy| resumed.contains(&copy.host));
            if restarts || (!copies.is_empty() && copies != self.partitions[number].copies) {
                self.set_copies(number, copies, epoch);
            }
        }
        for host in &resumed {
            let record = self.hosts.get_mut(host).expect("it was looked up above");
            record.take_part(epoch);
        }
        self.epoch = epoch;
        if !self.serves(self.coordinator) {
            self.place_coordinator(self.new_coordinator());
        }
        Ok(Verdict::Applied)
    }

    fn host_lost(&mut self, host: HostId, incarnation: Incarnation) -> Result<Verdict, Refusal> {
        let record = self.record(host, incarnation)?;
        if record.state == HostState::Added {
            return Ok(Verdict::Unchanged);
        }
        let was = std::mem::replace(&mut record.state, HostState::Down);
        self.forget_learning(host);
        if !self.is_formed() {
            return Ok(Verdict::Applied);
        }
        if was == HostState::Down && self.partitions_of(host).next().is_none() {
            return Ok(Verdict::Unchanged);
        }
        let epoch = self.epoch;
        self.give_to_others(host);
        let last: Vec<PartitionId> = self.partitions_of(host).collect();
        if self.epoch == epoch && !last.is_empty() {
            return Err(Refusal::LastCopy(last));
        }
        if self.epoch == epoch {
            // A host without copies may vote. An epoch precedes each change of the voters, so that
            // leases of before cannot be held with the voters of before (see `leases.rs`).
            self.epoch = epoch.next();
        }
        Ok(Verdict::Applied)
    }

    /// Takes all copies of a host out of the in-sync sets, and the coordinator from it.
    fn remove_copies(&mut self, host: HostId) -> Result<(), Refusal> {
        let last: Vec<PartitionId> =
            self.partitions_of(host).filter(|partition| self.is_alone(*partition)).collect();
        if !last.is_empty() {
            return Err(Refusal::LastCopy(last));
        }
        self.give_to_others(host);
        Ok(())
    }

    /// Whether a partition has one copy only.
    fn is_alone(&self, partition: PartitionId) -> bool {
        self.partitions[partition.index()].copies.len() == 1
    }

    /// Takes the copies of a host out of the in-sync sets, but for those that no other host has,
    /// and the coordinator from it.
    fn give_to_others(&mut self, host: HostId) {
        let partitions: Vec<PartitionId> =
            self.partitions_of(host).filter(|partition| !self.is_alone(*partition)).collect();
        let coordinator = match self.coordinator == host {
            true => self.new_coordinator(),
            false => self.coordinator,
        };
        if !self.is_formed() || (partitions.is_empty() && self.coordinator == coordinator) {
            return;
        }
        let epoch = self.epoch.next();
        for partition in partitions {
            self.remove_copy(partition.index(), host, epoch);
        }
        self.epoch = epoch;
        self.place_coordinator(coordinator);
    }

    /// The coordinator is at this host from this epoch on, unless it was there before.
    pub(crate) fn place_coordinator(&mut self, host: HostId) {
        if self.coordinator != host {
            (self.coordinator, self.coordinator_since) = (host, self.epoch);
        }
        assert!(self.coordinator_since <= self.epoch, "a coordinator has an epoch that there was");
    }

    /// The host that is up and has a copy with the lowest number; the present one if there is none.
    /// One that has none may have joined just now, and wait for the catalog from the coordinator.
    fn new_coordinator(&self) -> HostId {
        let has_copy = |host: &HostId| self.partitions_of(*host).next().is_some();
        let mut hosts = self.hosts.keys().copied().filter(|host| self.serves(*host));
        hosts.find(has_copy).unwrap_or(self.coordinator)
    }

    fn remove_copy(&mut self, number: usize, host: HostId, epoch: Epoch) {
        let copies = &self.partitions[number].copies;
        let left = copies.iter().filter(|copy| copy.host != host).copied().collect();
        self.set_copies(number, left, epoch);
    }

    /// Gives a partition other copies in a new epoch. A leader that is among them stays leader;
    /// else the one leads that the partition was about to be transferred to, or that leads fewest.
    pub(crate) fn set_copies(&mut self, number: usize, copies: Vec<Copy>, epoch: Epoch) {
        assert!(!copies.is_empty(), "the in-sync set of a partition never becomes empty");
        let partition = &self.partitions[number];
        let has = |host: HostId| copies.iter().any(|copy| copy.host == host);
        let leader = if has(partition.leader) {
            partition.leader
        } else if let Some(to) = partition.hand_over.filter(|to| has(*to)) {
            to
        } else {
            let hosts = copies.iter().map(|copy| copy.host);
            hosts.min_by_key(|host| self.leaders_at(*host)).expect("there is a copy")
        };
        let partition = &mut self.partitions[number];
        partition.hand_over = partition.hand_over.filter(|to| *to != leader && has(*to));
        partition.learning.retain(|copy| !has(copy.host));
        partition.copies = copies;
        partition.lead(leader, epoch, false);
    }

    /// The number of a partition whose epoch is the given one.
    pub(crate) fn at_epoch(&self, partition: PartitionId, epoch: Epoch) -> Result<usize, Refusal> {
        match self.partition(partition) {
            None => Err(Refusal::UnknownPartition(partition)),
            Some(state) if state.epoch != epoch => Err(Refusal::Stale),
            Some(_) => Ok(partition.index()),
        }
    }

    fn out_of_sync(
        &mut self,
        partition: PartitionId,
        host: HostId,
        epoch: Epoch,
        faults: Faults,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        let state = &self.partitions[number];
        if state.learning.iter().any(|copy| copy.host == host) {
            self.renew(number);
            return Ok(Verdict::Applied);
        }
        if state.copy_at(host).is_none() {
            return Err(Refusal::Copies(host));
        }
        if state.copies.len() == 1 {
            return Err(Refusal::LastCopy(vec![partition]));
        }
        if faults.shrink_without_epoch() && self.partitions[number].leader != host {
            self.partitions[number].copies.retain(|copy| copy.host != host);
            self.partitions[number].hand_over = None;
            return Ok(Verdict::Applied);
        }
        self.epoch = self.epoch.next();
        self.remove_copy(number, host, self.epoch);
        Ok(Verdict::Applied)
    }

    /// A partition gets an epoch with the copies that it has: what was proposed for it is void, and
    /// copies that are being loaded begin again.
    pub(crate) fn renew(&mut self, number: usize) {
        self.epoch = self.epoch.next();
        let copies = self.partitions[number].copies.clone();
        self.set_copies(number, copies, self.epoch);
    }

    fn begin_loading(
        &mut self,
        partition: PartitionId,
        copy: Copy,
        incarnation: Incarnation,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        self.check_loaded_at(copy, incarnation)?;
        if !self.has_capacity(number, copy) {
            return Err(Refusal::Copies(copy.host));
        }
        self.renew(number);
        let learning = &mut self.partitions[number].learning;
        learning.push(copy);
        learning.sort();
        Ok(Verdict::Applied)
    }

    fn in_sync(
        &mut self,
        partition: PartitionId,
        copy: Copy,
        incarnation: Incarnation,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        self.check_loaded_at(copy, incarnation)?;
        if self.partitions[number].copy_at(copy.host).is_some() {
            return Err(Refusal::Copies(copy.host));
        }
        // A host that was lost meanwhile and has been resumed lacks what was answered without it.
        if !self.partitions[number].learning.contains(&copy) {
            return Err(Refusal::NotLearning(copy.host));
        }
        let mut copies = self.partitions[number].copies.clone();
        copies.push(copy);
        copies.sort();
        self.epoch = self.epoch.next();
        self.set_copies(number, copies, self.epoch);
        Ok(Verdict::Applied)
    }

    /// Whether a copy can be loaded at that site, by that process of its host.
    pub(crate) fn check_loaded_at(
        &mut self,
        copy: Copy,
        incarnation: Incarnation,
    ) -> Result<(), Refusal> {
        self.check_copy(copy)?;
        self.record(copy.host, incarnation).map(drop)
    }

    /// Whether a copy can be at that site: the host is up, and has the site.
    fn check_copy(&self, copy: Copy) -> Result<(), Refusal> {
        if !self.serves(copy.host) {
            return Err(Refusal::NotServing(copy.host));
        }
        let sites = self.shape.sites_per_host;
        match copy.thread.0 < sites {
            true => Ok(()),
            false => Err(Refusal::Shape(format!("a host has {sites} sites"))),
        }
    }

    fn force_copy(
        &mut self,
        partition: PartitionId,
        copy: Copy,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        let number = self.at_epoch(partition, epoch)?;
        self.check_copy(copy)?;
        if !self.missing.contains(&partition) {
            return Err(Refusal::NotMissing(partition));
        }
        self.epoch = self.epoch.next();
        // Whatever is being loaded has another leader now, or none.
        self.partitions[number].learning.clear();
        self.set_copies(number, vec![copy], self.epoch);
        Ok(Verdict::Applied)
    }
}

/// Takes a version that only grows.
fn raise(version: &mut u64, to: u64) -> Result<Verdict, Refusal> {
    match to.cmp(version) {
        std::cmp::Ordering::Less => Err(Refusal::Stale),
        std::cmp::Ordering::Equal => Ok(Verdict::Unchanged),
        std::cmp::Ordering::Greater => {
            *version = to;
            Ok(Verdict::Applied)
        }
    }
}

#[cfg(test)]
mod tests;
