//! Hosts that are added to a cluster that serves, and removed from it. The copies of partitions are
//! moved by the steps of [`crate::moves`]; this is who moves where, and when a host is listed.
//!
//! A host that is added has the next number, and is listed as one that no process has joined. When
//! one has, copies are moved there from the hosts with most copies until it has its share. The
//! copies of a host that is removed are moved to the others. It stops when it has none, and then it
//! is listed no more.

use crate::apply::Verdict;
use crate::codec::TEXT_BYTES_MAX;
use crate::command::Command;
use crate::error::Refusal;
use crate::ids::{Epoch, HOST_LIMIT, Incarnation};
use crate::kfactor::Spread;
use crate::moves::CopyMove;
use crate::state::{ClusterState, Copy, HostDescription, HostPlan, HostRecord, HostState, Vote};
use lockstep_types::{HostId, PartitionId};
use std::cmp::Reverse;

/// Below the incarnations of all processes.
const NEVER_RAN: Incarnation = Incarnation(1);

fn refused<T>(text: String) -> Result<T, Refusal> {
    Err(Refusal::Shape(text))
}

impl ClusterState {
    /// The number that a host with an address would have if it were added now.
    ///
    /// # Errors
    /// It cannot be added: the text for the user.
    pub fn plan_addition(&self, internal_address: &str) -> Result<HostId, Refusal> {
        self.check_resizable()?;
        let bytes = internal_address.len();
        if bytes == 0 || bytes > TEXT_BYTES_MAX {
            return refused(format!("an address has 1 to {TEXT_BYTES_MAX} bytes, not {bytes}"));
        }
        let has_it = |(_, record): &(&HostId, &HostRecord)| {
            record.description.internal_address == internal_address
        };
        if let Some((host, record)) = self.hosts.iter().find(has_it) {
            let state = match record.state {
                HostState::Added => ", which was added and has not joined",
                _ => "",
            };
            return refused(format!("{internal_address} is the address of host {host}{state}"));
        }
        match self.numbers < HOST_LIMIT.min(HostId::LIMIT) {
            true => Ok(HostId(self.numbers)),
            false => refused(format!(
                "{} numbers of hosts were given, and no number is given twice: a snapshot of this \
                 cluster can be restored into a new one",
                self.numbers
            )),
        }
    }

    /// Whether hosts may be added and removed.
    fn check_resizable(&self) -> Result<(), Refusal> {
        match (self.is_formed(), self.made_k) {
            (false, _) => Err(Refusal::Phase),
            (true, 0) => refused(
                "the cluster was made with --kfactor 0, and its hosts do not replicate: a \
                 snapshot of it can be restored into a cluster with more hosts"
                    .to_string(),
            ),
            (true, _) => Ok(()),
        }
    }

    /// See [`Command::AddHost`].
    pub(crate) fn add_host(
        &mut self,
        host: HostId,
        internal_address: &str,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        if epoch != self.epoch || self.plan_addition(internal_address)? != host {
            return Err(Refusal::Stale);
        }
        let description = HostDescription {
            host,
            name: String::new(),
            internal_address: internal_address.to_string(),
            client_address: String::new(),
            admin_address: String::new(),
            directory: String::new(),
            placement_group: String::new(),
            release: 0,
        };
        let joining = HostRecord::joining(description, NEVER_RAN);
        let (state, plan) = (HostState::Added, HostPlan::Fills);
        self.hosts.insert(host, HostRecord { state, plan, ..joining });
        self.numbers = host.0 + 1;
        // All hosts get another placement: it has one host more.
        self.epoch = self.epoch.next();
        Ok(Verdict::Applied)
    }

    /// Whether a host may be removed now.
    ///
    /// # Errors
    /// It may not: the text for the user.
    pub fn check_removal(&self, host: HostId) -> Result<(), Refusal> {
        self.check_resizable()?;
        let record = self.hosts.get(&host).ok_or(Refusal::UnknownHost(host))?;
        if self.shape.is_witness(host) {
            return refused(format!("host {host} is the witness, which is never removed"));
        }
        if record.plan == HostPlan::Leaves {
            return refused(format!("host {host} is being removed already"));
        }
        if let Some(other) = self.data_hosts().find(|other| self.leaves(*other)) {
            return refused(format!("host {other} is being removed: retry when that has ended"));
        }
        let has_joined =
            |other: &HostId| *other != host && self.hosts[other].state != HostState::Added;
        let (left, copies) = (self.data_hosts().filter(has_joined).count(), self.shape.copies());
        if left < copies {
            return refused(format!(
                "{left} hosts would be left, and K = {} needs {copies}: add a host first, or \
                 change K",
                self.shape.k
            ));
        }
        let is_last = |of: &PartitionId| self.partitions[of.index()].copies.len() == 1;
        if !self.serves(host)
            && let Some(partition) = self.partitions_of(host).find(is_last)
        {
            return refused(format!(
                "host {host} is not up, and has the only copy of partition {partition}: start it \
                 first"
            ));
        }
        match Spread::without(self, host, |_| true).1 {
            true => Ok(()),
            false => refused(self.lack_of_capacity(left)),
        }
    }

    /// Why the copies cannot be at this number of hosts alone.
    fn lack_of_capacity(&self, hosts: usize) -> String {
        let (sites, each) = (self.shape.sites_per_host, self.shape.partitions_per_site);
        let (partitions, copies) = (self.partitions.len(), self.shape.copies());
        let capacity = hosts * usize::from(sites) * usize::from(each);
        if capacity >= partitions * copies {
            return format!(
                "the {hosts} hosts that would be left have capacity for {capacity} copies, but \
                 where there is some, they have a copy of the same partition: move copies between \
                 them first (admin cluster move-copy), or add a host"
            );
        }
        format!(
            "{hosts} hosts would be left, with {sites} sites each and {each} copies at a site \
             (partitions_per_site): that is {capacity} copies, and {partitions} partitions with \
             {copies} copies have {}",
            partitions * copies
        )
    }

    /// See [`Command::PlanHost`].
    pub(crate) fn plan_host(
        &mut self,
        host: HostId,
        plan: HostPlan,
        epoch: Epoch,
    ) -> Result<Verdict, Refusal> {
        if epoch != self.epoch {
            return Err(Refusal::Stale);
        }
        self.check_resizable()?;
        let is_data = self.data_hosts().any(|other| other == host);
        let record = self.hosts.get(&host).filter(|_| is_data);
        let before = record.ok_or(Refusal::UnknownHost(host))?.plan;
        if before == plan {
            return Ok(Verdict::Unchanged);
        }
        if plan == HostPlan::Leaves {
            self.check_removal(host)?;
        }
        self.hosts.get_mut(&host).expect("it was looked up above").plan = plan;
        Ok(Verdict::Applied)
    }

    /// Whether nothing is at a host any more that others need.
    pub fn is_empty_host(&self, host: HostId) -> bool {
        let has_one = |copies: &[Copy]| copies.iter().any(|copy| copy.host == host);
        let mut partitions = self.partitions.iter();
        self.coordinator != host
            && !partitions.any(|it| has_one(&it.copies) || has_one(&it.learning))
    }

    /// See [`Command::RemoveHost`].
    pub(crate) fn remove_host(&mut self, host: HostId, epoch: Epoch) -> Result<Verdict, Refusal> {
        if epoch != self.epoch {
            return Err(Refusal::Stale);
        }
        let record = self.hosts.get(&host).ok_or(Refusal::UnknownHost(host))?;
        let is_away = record.state != HostState::Up;
        if record.plan != HostPlan::Leaves || !is_away || !self.is_empty_host(host) {
            return refused(format!("host {host} takes part, or was not to be removed"));
        }
        if record.vote != Vote::None {
            return Err(Refusal::OldIdentity(host));
        }
        self.hosts.remove(&host);
        self.epoch = self.epoch.next();
        Ok(Verdict::Applied)
    }

    /// What the leader of the Raft group proposes for hosts that were added or are being removed:
    /// as many moves as `limit` allows at a time, and then the next step of the host. `may_load`
    /// tells the hosts that can be given copies now.
    pub fn resizing(&self, may_load: impl Fn(HostId) -> bool, limit: usize) -> Vec<Command> {
        if self.hosts.values().all(|record| record.plan == HostPlan::Stays) {
            // As nearly always.
            return Vec::new();
        }
        let epoch = self.epoch;
        let mut due = Vec::new();
        let mut moving = self.partitions.iter().filter(|it| it.moving.is_some()).count();
        // Each move is planned with those before it.
        let mut planned = self.clone();
        for (&host, record) in &self.hosts {
            let is_away = record.state != HostState::Up;
            let is_over = is_away && record.vote == Vote::None && self.is_empty_host(host);
            if record.plan == HostPlan::Leaves && is_over {
                due.push(Command::RemoveHost { host, epoch });
            }
        }
        while moving < limit {
            let Some((partition, moved)) = planned.next_move(&may_load) else { break };
            let Ok(copy) = planned.plan_move(partition, moved) else { break };
            let incarnation = planned.hosts[&copy.host].incarnation;
            let epoch = planned.partitions[partition.index()].epoch;
            let from = moved.from;
            due.push(Command::BeginMove { partition, from, copy, incarnation, epoch });
            let begun = planned.begin_move(partition, (from, copy), incarnation, epoch);
            begun.expect("it was planned by this state");
            moving += 1;
        }
        let fills = |host: &HostId| self.hosts[host].plan == HostPlan::Fills;
        for host in self.data_hosts().filter(fills) {
            if self.serves(host) && self.is_filled(host) {
                due.push(Command::PlanHost { host, plan: HostPlan::Stays, epoch });
            }
        }
        due
    }

    /// Copies that are to move to another host, those in progress included: because hosts are added
    /// or removed, or because somebody has one moved. A host that was added and has not joined gets
    /// none yet.
    pub fn copies_to_move(&self) -> usize {
        let is_moving = |it: &crate::PartitionState| it.moving.is_some();
        if self.hosts.values().all(|record| record.plan == HostPlan::Stays)
            && !self.partitions.iter().any(is_moving)
        {
            // As nearly always.
            return 0;
        }
        let is_planned =
            |host: HostId, plan| self.hosts.get(&host).is_some_and(|record| record.plan == plan);
        let copies = self.partitions.iter().map(|it| it.copies.len()).sum::<usize>();
        let share = copies / self.staying_hosts().count().max(1);
        let of_host = |host: HostId| {
            let has = || self.partitions_of(host).count();
            let comes = |it: &&crate::PartitionState| it.moving.is_some_and(|it| it.to == host);
            match (self.hosts[&host].plan, self.hosts[&host].state) {
                (HostPlan::Leaves, HostState::Up) => has(),
                (HostPlan::Fills, HostState::Up) => match self.place_at(host) {
                    Some(_) => share.saturating_sub(has()),
                    None => self.partitions.iter().filter(comes).count(),
                },
                _ => 0,
            }
        };
        let by_hand = |it: &&crate::PartitionState| {
            it.moving.is_some_and(|moving| {
                !is_planned(moving.from, HostPlan::Leaves)
                    && !is_planned(moving.to, HostPlan::Fills)
            })
        };
        let planned = self.data_hosts().map(of_host).sum::<usize>();
        planned + self.partitions.iter().filter(by_hand).count()
    }

    /// The next copy that is to be moved.
    fn next_move(&self, may_load: &impl Fn(HostId) -> bool) -> Option<(PartitionId, CopyMove)> {
        let leaving = self.data_hosts().find(|host| self.leaves(*host) && self.serves(*host));
        let away = leaving.and_then(|from| {
            let (places, _) = Spread::without(self, from, may_load);
            let mut moves =
                places.into_iter().map(|(of, copy)| (of, CopyMove { from, to: copy.host }));
            moves.find(|(of, moved)| self.plan_move(*of, *moved).is_ok())
        });
        let fills = |host: &HostId| self.hosts[host].plan == HostPlan::Fills && may_load(*host);
        away.or_else(|| self.data_hosts().filter(fills).find_map(|host| self.next_to(host)))
    }

    /// Copies that a host has, loads or is to have; those that it is about to give up are not
    /// counted.
    fn copies_kept_at(&self, host: HostId) -> usize {
        let is_kept = |it: &&crate::PartitionState| {
            let known = it.copies.iter().chain(&it.learning).any(|copy| copy.host == host);
            known && it.moving.is_none_or(|moving| moving.from != host)
        };
        self.partitions.iter().filter(is_kept).count()
    }

    /// The host with most copies, of those that another one could take some from.
    fn fullest_but(&self, host: HostId) -> Option<HostId> {
        let others = self.staying_hosts().filter(|other| *other != host);
        let leaders = |host| self.leaders_kept_at(host);
        others.max_by_key(|other| (self.copies_kept_at(*other), leaders(*other), Reverse(*other)))
    }

    /// Whether a host has its share: one more move would leave another host with fewer copies.
    fn is_filled(&self, host: HostId) -> bool {
        let own = self.copies_kept_at(host);
        let fullest = self.fullest_but(host).map_or(0, |other| self.copies_kept_at(other));
        let is_moving = self.partitions.iter().any(|it| it.moving.is_some_and(|m| m.to == host));
        !is_moving && (fullest < own + 2 || self.place_at(host).is_none())
    }

    /// The copy that a host is to get next.
    fn next_to(&self, to: HostId) -> Option<(PartitionId, CopyMove)> {
        let from = self.fullest_but(to)?;
        if self.copies_kept_at(from) < self.copies_kept_at(to) + 2 {
            return None;
        }
        let moved = CopyMove { from, to };
        let numbers = (0..self.partitions.len() as u32).map(PartitionId);
        let movable = numbers.filter(|of| self.plan_move(*of, moved).is_ok());
        // A leader moves along where the other host leads more afterwards, or as many.
        let leads_few = self.leaders_kept_at(from) >= self.leaders_kept_at(to) + 2;
        let rank = |of: &PartitionId| {
            let in_group = self.copies_in_group_of(*of, to);
            let is_led = self.partitions[of.index()].leader == from;
            (in_group, is_led != leads_few, *of)
        };
        movable.min_by_key(rank).map(|of| (of, moved))
    }

    /// Partitions that a host leads, or will after the moves that have begun.
    fn leaders_kept_at(&self, host: HostId) -> usize {
        let is_kept = |it: &&crate::PartitionState| match it.moving {
            Some(moving) if moving.from == it.leader => moving.to == host,
            _ => it.leader == host,
        };
        self.partitions.iter().filter(is_kept).count()
    }
}

#[cfg(test)]
mod tests;
