//! The replicated state: who is a member, and who leads and follows which partition in which
//! epoch. It changes only by commands (see [`crate::Command`]), in the order of the Raft log.

use crate::ids::{ClusterId, Epoch, HOST_LIMIT, Incarnation, RaftId};
use crate::moves::CopyMove;
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// What a cluster consists of, as its hosts were configured. All hosts agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Hosts with data, numbered from 0 in the order of the configured list.
    pub hosts: u32,
    /// Witnesses, numbered after the hosts. A witness votes and has no data.
    pub witnesses: u32,
    /// Sites of each host.
    pub sites_per_host: u16,
    /// Replicas of each site.
    pub partitions_per_site: u16,
    /// How many hosts may be lost with nothing lost: each partition has K + 1 copies.
    pub k: u8,
}

/// The greatest K.
pub const K_MAX: u8 = 2;

impl Shape {
    /// Members in total, witnesses among them.
    pub fn members(&self) -> u32 {
        self.hosts + self.witnesses
    }

    /// Whether a number is that of a witness.
    pub fn is_witness(&self, host: HostId) -> bool {
        host.0 >= self.hosts && host.0 < self.members()
    }

    /// Copies of each partition when no host is lost.
    pub fn copies(&self) -> usize {
        usize::from(self.k) + 1
    }
}

/// Whether a host takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostState {
    /// It is a member and does not serve yet.
    Joining,
    /// It serves the copies that it has, and can be given more.
    Up,
    /// It is lost. It stays listed, and comes back as [`HostState::Joining`].
    Down,
    /// It was added, and no process of it has joined yet.
    Added,
}

/// What becomes of the copies of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HostPlan {
    /// They stay.
    #[default]
    Stays,
    /// It was added: copies are moved there until it has its share.
    Fills,
    /// It is removed: its copies are moved to other hosts, and then it stops.
    Leaves,
}

/// What a member is to the Raft group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vote {
    /// Not in the group, or not yet.
    None,
    /// It receives the log and does not vote.
    Learner,
    /// It votes.
    Voter,
}

/// What a host says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDescription {
    /// Its number, by the configured list.
    pub host: HostId,
    /// Its name.
    pub name: String,
    /// Address for other hosts.
    pub internal_address: String,
    /// Address for clients.
    pub client_address: String,
    /// Address for administrators.
    pub admin_address: String,
    /// The name of its directory; empty where it keeps its data in memory only.
    pub directory: String,
    /// Hosts of one placement group may fail together, such as those of a rack.
    pub placement_group: String,
    /// Number of the release that it runs.
    pub release: u32,
}

/// A host or witness of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// What it said of itself.
    pub description: HostDescription,
    /// The run of its process.
    pub incarnation: Incarnation,
    /// The run in which it joined without Raft state.
    pub joined_in: Incarnation,
    /// Whether it takes part.
    pub state: HostState,
    /// What becomes of its copies.
    pub plan: HostPlan,
    /// The epoch in which it took part last after it did not.
    pub up_since: Epoch,
    /// What it is to the Raft group.
    pub vote: Vote,
    /// The last proposal of it that was applied: incarnation and number. A proposal that is not
    /// greater is not applied again.
    pub last_proposal: (Incarnation, u64),
}

impl HostRecord {
    /// A host that is about to take part.
    pub fn joining(description: HostDescription, incarnation: Incarnation) -> HostRecord {
        HostRecord {
            description,
            incarnation,
            joined_in: incarnation,
            state: HostState::Joining,
            plan: HostPlan::Stays,
            up_since: Epoch(0),
            vote: Vote::None,
            last_proposal: (Incarnation(0), 0),
        }
    }

    /// It takes part from an epoch on.
    pub(crate) fn take_part(&mut self, epoch: Epoch) {
        assert!(self.state != HostState::Up, "a host that comes to take part did not before");
        // A witness may do so again in the same epoch.
        assert!(epoch >= self.up_since, "epochs grow");
        (self.state, self.up_since) = (HostState::Up, epoch);
    }

    /// Its identity in the Raft group.
    ///
    /// # Panics
    /// The record was not checked by [`ClusterState::violation`].
    pub fn raft_id(&self) -> RaftId {
        RaftId::new(self.description.host, self.joined_in).expect("the record is in range")
    }
}

/// An in-sync copy of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// The host that has it.
    pub host: HostId,
    /// The site thread that executes it.
    pub thread: ThreadId,
}

/// The configuration of a partition before the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Previous {
    /// Its epoch.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: HostId,
    /// Whether that leader had sealed the partition, so that the next one need not wait for leases.
    pub sealed: bool,
}

/// Who has a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// The epoch of the last change of its copies or its leader.
    pub epoch: Epoch,
    /// The host that leads it; it has one of the copies.
    pub leader: HostId,
    /// The in-sync copies, ascending by host.
    pub copies: Vec<Copy>,
    /// Copies that are being loaded, ascending by host: they do not count as in sync.
    pub learning: Vec<Copy>,
    /// The host that the leader transfers the partition to: it drains and seals.
    pub hand_over: Option<HostId>,
    /// A copy that is moved to another host: for a while there may be K + 2.
    pub moving: Option<CopyMove>,
    /// The configuration before, if there was one.
    pub previous: Option<Previous>,
    /// Since this epoch the leader changed by planned transfers alone: each leader has answered
    /// what it was sent, or given it back. Before it another host may have taken over.
    pub handed_over_since: Epoch,
}

impl PartitionState {
    /// The copy of a host.
    pub fn copy_at(&self, host: HostId) -> Option<&Copy> {
        self.copies.iter().find(|copy| copy.host == host)
    }

    /// The hosts of the in-sync copies but the leader's.
    pub fn followers(&self) -> impl Iterator<Item = HostId> + '_ {
        self.copies.iter().map(|copy| copy.host).filter(|host| *host != self.leader)
    }
}

/// Everything that the members agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// The number of the cluster.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its shape, with the K in force.
    pub shape: Shape,
    /// The K with which it was made, and with which its hosts are configured.
    pub made_k: u8,
    /// Its hosts and witnesses.
    pub hosts: BTreeMap<HostId, HostRecord>,
    /// One more than the greatest number that a host or witness has had. No number is given twice.
    pub numbers: u32,
    /// The current epoch; 0 until the cluster is formed.
    pub epoch: Epoch,
    /// Who has which partition, by number; empty until the cluster is formed.
    pub partitions: Vec<PartitionState>,
    /// The host that runs multi-partition transactions.
    pub coordinator: HostId,
    /// The epoch since which that host does. One that ran them before, and does again, is another
    /// coordinator: it knows nothing of what was decided meanwhile.
    pub coordinator_since: Epoch,
    /// Partitions whose copies are all at hosts that are not up.
    pub missing: BTreeSet<PartitionId>,
    /// A cache of the catalog's version; the partition logs are the truth.
    pub catalog_version: u64,
    /// The version of the map from hash tokens to partitions.
    pub ring_version: u64,
}

impl ClusterState {
    /// A cluster that has members and no placement yet.
    pub fn forming(
        id: ClusterId,
        name: String,
        shape: Shape,
        hosts: BTreeMap<HostId, HostRecord>,
    ) -> ClusterState {
        ClusterState {
            id,
            name,
            shape,
            made_k: shape.k,
            hosts,
            numbers: shape.members(),
            epoch: Epoch(0),
            partitions: Vec::new(),
            coordinator: HostId(0),
            coordinator_since: Epoch(0),
            missing: BTreeSet::new(),
            catalog_version: 0,
            ring_version: 0,
        }
    }

    /// Whether the first placement was made.
    pub fn is_formed(&self) -> bool {
        self.epoch > Epoch(0)
    }

    /// The shape with which its hosts are configured, from which its number of partitions follows.
    pub fn made_shape(&self) -> Shape {
        Shape { k: self.made_k, ..self.shape }
    }

    /// A partition, if there is one of that number.
    pub fn partition(&self, partition: PartitionId) -> Option<&PartitionState> {
        self.partitions.get(partition.index())
    }

    /// The hosts with data, ascending: those that are not up too, and no witness.
    pub fn data_hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts.keys().copied().filter(|host| !self.shape.is_witness(*host))
    }

    /// The hosts with data that stay, ascending.
    pub fn staying_hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.data_hosts().filter(|host| !self.leaves(*host))
    }

    /// Whether a host is being removed.
    pub fn leaves(&self, host: HostId) -> bool {
        self.hosts.get(&host).is_some_and(|record| record.plan == HostPlan::Leaves)
    }

    /// Whether a host is up and has data.
    pub fn serves(&self, host: HostId) -> bool {
        !self.shape.is_witness(host)
            && self.hosts.get(&host).is_some_and(|record| record.state == HostState::Up)
    }

    /// Number of partitions that a host leads.
    pub fn leaders_at(&self, host: HostId) -> usize {
        self.partitions.iter().filter(|partition| partition.leader == host).count()
    }

    /// Whether a host has a copy of a partition that no other host has.
    pub fn has_last_copy(&self, host: HostId) -> bool {
        let is_last = |of: PartitionId| self.partitions[of.index()].copies.len() == 1;
        self.partitions_of(host).any(is_last)
    }

    /// Whether two hosts are cut off from each other that have lost messages, and had both taken
    /// part since an epoch: since then none of them has taken part again.
    pub fn are_cut_off(&self, one: HostId, other: HostId, since: Epoch) -> bool {
        let up_since = |host: HostId| self.hosts.get(&host).map(|record| record.up_since);
        [one, other].into_iter().all(|host| up_since(host).is_some_and(|up| up <= since))
    }

    /// The partitions that have a copy at a host.
    pub fn partitions_of(&self, host: HostId) -> impl Iterator<Item = PartitionId> + '_ {
        (0..).zip(&self.partitions).filter_map(move |(number, partition)| {
            partition.copy_at(host).is_some().then_some(PartitionId(number))
        })
    }

    /// The members that vote.
    pub fn voters(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts.iter().filter(|(_, r)| r.vote == Vote::Voter).map(|(host, _)| *host)
    }

    /// Number of copies at each site of a host, those that are being loaded included.
    pub fn copies_by_site(&self, host: HostId) -> Vec<u32> {
        let mut sites = vec![0; usize::from(self.shape.sites_per_host)];
        let copies = self.partitions.iter().flat_map(|it| it.copies.iter().chain(&it.learning));
        for copy in copies.filter(|copy| copy.host == host) {
            sites[usize::from(copy.thread.0)] += 1;
        }
        sites
    }

    /// The rule that the state breaks, if any.
    pub fn violation(&self) -> Option<&'static str> {
        let limit = self.numbers;
        if self.shape.hosts == 0 || self.shape.sites_per_host == 0 || limit > HOST_LIMIT {
            return Some("a cluster has hosts and sites, and no more than the limit");
        }
        if limit < self.shape.members() {
            return Some("the hosts with which the cluster was made have numbers");
        }
        if self.hosts.values().filter(|record| record.plan == HostPlan::Leaves).count() > 1 {
            return Some("one host is removed at a time");
        }
        for (host, record) in &self.hosts {
            if record.description.host != *host || host.0 >= limit {
                return Some("each host is listed once, with a number that was given");
            }
            if RaftId::new(*host, record.joined_in).is_none()
                || record.incarnation < record.joined_in
                || record.incarnation.0 >= Incarnation::LIMIT
            {
                return Some("incarnations are in range and only grow");
            }
        }
        if self.is_formed() == self.partitions.is_empty() {
            return Some("a formed cluster has partitions, and no other has");
        }
        if self.partitions.len() > PartitionId::LIMIT as usize {
            return Some("partitions have numbers of 14 bits");
        }
        let serves = |host| self.hosts.contains_key(&host) && !self.shape.is_witness(host);
        if self.is_formed() && !serves(self.coordinator) {
            return Some("the coordinator is at a host with data");
        }
        self.partitions.iter().find_map(|partition| self.violation_of(partition, &serves))
    }

    fn violation_of(
        &self,
        partition: &PartitionState,
        serves: &dyn Fn(HostId) -> bool,
    ) -> Option<&'static str> {
        let copies = &partition.copies;
        if copies.is_empty() {
            return Some("a partition has an in-sync copy");
        }
        let learning = &partition.learning;
        let limit = self.shape.copies() + usize::from(partition.moving.is_some());
        if copies.len() + learning.len() > limit {
            return Some("a partition has at most K + 1 copies, and one more while one is moved");
        }
        if partition.moving.is_some_and(|moving| moving.from == moving.to) {
            return Some("a copy is moved to another host");
        }
        let is_in_sync = |copy: &Copy| partition.copy_at(copy.host).is_some();
        if !learning.is_sorted_by(|a, b| a.host < b.host) || learning.iter().any(is_in_sync) {
            return Some("a copy is loaded once at a host, or is in sync");
        }
        if !copies.is_sorted_by(|a, b| a.host < b.host) {
            return Some("a host has at most one copy of a partition");
        }
        let at_site = |copy: &Copy| copy.thread.0 < self.shape.sites_per_host;
        if !copies.iter().chain(learning).all(|copy| serves(copy.host) && at_site(copy)) {
            return Some("copies are at sites of hosts with data");
        }
        if partition.copy_at(partition.leader).is_none() {
            return Some("the leader of a partition is in sync");
        }
        if partition.epoch > self.epoch || partition.epoch == Epoch(0) {
            return Some("the epoch of a partition is one that the cluster had");
        }
        if partition.previous.is_some_and(|previous| previous.epoch >= partition.epoch) {
            return Some("the epoch of a partition only grows");
        }
        if partition.handed_over_since > partition.epoch {
            return Some("a leader took over in an epoch that there was");
        }
        let to = partition.hand_over;
        if to.is_some_and(|to| to == partition.leader || partition.copy_at(to).is_none()) {
            return Some("a leader is transferred to one of its followers");
        }
        None
    }

    /// # Panics
    /// A rule of [`ClusterState::violation`] is broken.
    pub fn check_invariants(&self) {
        let violation = self.violation();
        assert!(violation.is_none(), "{} in {self:?}", violation.unwrap_or_default());
    }
}
