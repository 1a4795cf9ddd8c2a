//! A copy of a partition at its host: what its calls are, and what waits for the other copies.

use super::host::Host;
use super::moves::Draining;
use super::{Answer, HostCall, Said, Shared};
use crate::plans::{LocalWork, decoded};
use lockstep_host::HostTime;
use lockstep_host::catalog::not_found;
use lockstep_host::follower::{Applied, Follower, FollowerLimits, Promotion};
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::leading::Leading;
use lockstep_host::learning::LearningCopy;
use lockstep_host::loading::CopyLoads;
use lockstep_host::partition::PartitionHost;
use lockstep_host::placement::Placement;
use lockstep_host::recovery::{EntrySources, LoggedChange, ReplayFaults};
use lockstep_site::{Faults, PartitionEffect, Site};
use lockstep_txn::EntryHeader;
use lockstep_txn::replica::ReplicaLimits;
use lockstep_types::{HostId, Outcome, PartitionId};
use lockstep_wire_volt::Invocation;

pub(super) const FOLLOWER_LIMITS: FollowerLimits =
    FollowerLimits { slice_entries: 8, backlog_bytes: 1 << 20 };
pub(super) const STREAM_LIMITS: ReplicaLimits = ReplicaLimits { unreceived_bytes: 1 << 20 };

pub(super) type HostSite = Site<HostCall, Answer, u64>;

/// A message that waits, and the host that it is for.
pub(super) struct Held {
    pub(super) to: HostId,
    pub(super) said: Said,
}

/// A copy that follows.
pub(super) struct Following {
    pub(super) follower: Follower<HostCall, Answer, u64>,
    /// The version of the catalog in force at it.
    pub(super) version: u64,
    /// A change that is next.
    pub(super) change: Option<LoggedChange>,
}

/// A copy that is to lead.
pub(super) struct Pending {
    pub(super) promotion: Promotion<HostCall, Answer, u64>,
    pub(super) version: u64,
    pub(super) change: Option<LoggedChange>,
    pub(super) epoch: u32,
    pub(super) in_sync: Vec<HostId>,
}

/// A copy.
pub(super) struct Replica {
    pub(super) site: HostSite,
    pub(super) gate: Gate<Held>,
    pub(super) leading: Option<Leading>,
    pub(super) following: Option<Following>,
    pub(super) opening: Option<Pending>,
    /// It leads, and another host is to lead.
    pub(super) draining: Option<Draining>,
    /// It is led elsewhere, and being loaded.
    pub(super) learning: Option<LearningCopy<HostCall, Answer, u64>>,
    /// It is led here: the copies that are loaded from it.
    pub(super) loads: CopyLoads,
    /// Calls of clients and messages of the coordinator are for it.
    pub(super) leads: bool,
    /// Ticks for which a copy has lacked something.
    pub(super) lagging_ticks: u32,
}

impl Replica {
    /// The copy that a host has at first, empty.
    pub(super) fn first(
        partition: PartitionId,
        placement: &Placement,
        shared: &Shared,
        now_us: i64,
    ) -> Replica {
        let own = placement.host();
        let leads = placement.leader_of(partition).host() == own;
        let empty = || HostSite::new(partition, shared.ring.clone(), &shared.limits);
        let mut site = empty();
        let replica = |site, gate, leading, following| Replica {
            site,
            gate,
            leading,
            following,
            opening: None,
            draining: None,
            learning: None,
            loads: CopyLoads::default(),
            leads,
            lagging_ticks: 0,
        };
        if !placement.is_replicated() {
            return replica(site, Gate::new(SafePosition::everything()), None, None);
        }
        site.remember_outcomes(shared.limits.outcomes_kept());
        if !leads {
            let limits = FollowerLimits { slice_entries: 8, backlog_bytes: 1 << 20 };
            let mut follower = Follower::new(partition, site, 0, limits);
            follower.inject(ReplayFaults {
                commits_open: shared.faults.lose_vote,
                trusts_void_votes: shared.faults.trust_logged_yes,
                ..ReplayFaults::default()
            });
            let following = Following { follower, version: 0, change: None };
            let gate = Gate::new(SafePosition::everything());
            return replica(empty(), gate, None, Some(following));
        }
        site.set_followed(true);
        let threads = placement.followers_of(partition).iter();
        let in_sync: Vec<HostId> = threads.map(|thread| thread.host()).chain([own]).collect();
        site.continue_in_epoch(placement.epoch_of(partition), &in_sync, now_us);
        let copies: Vec<(HostId, u64)> = in_sync.iter().map(|host| (*host, 0)).collect();
        let leading = Leading::first((partition, 0), placement, STREAM_LIMITS);
        let leading = leading.with_reads_at_copies(shared.reads_bound_us.is_some());
        replica(site, Gate::new(SafePosition::of_copies(&copies)), Some(leading), None)
    }

    /// A leader that goes on without the copies that lag, which it must not.
    pub(super) fn shrink(&mut self) {
        let Some(leading) = self.leading.as_ref().filter(|it| !it.stream.is_sealed()) else {
            return;
        };
        let stream = &leading.stream;
        let lags = |host: &HostId| stream.received(*host).is_some_and(|at| at < stream.end());
        let lagging: Vec<HostId> = stream.followers().filter(lags).collect();
        self.lagging_ticks = if lagging.is_empty() { 0 } else { self.lagging_ticks + 1 };
        if self.lagging_ticks >= 3 {
            let counted: Vec<HostId> = self.gate.copies().hosts().collect();
            let dropped = lagging.into_iter().filter(|host| counted.contains(host));
            dropped.for_each(|host| self.gate.copies().drop_copy(host));
        }
    }

    /// The entry that what is reported now depends on.
    pub(super) fn position(&self) -> u64 {
        if self.leading.is_some() { self.site.needed_log_sequence() } else { 0 }
    }
}

impl Following {
    pub(super) fn apply(&mut self, shared: &Shared) -> Result<Option<u64>, String> {
        if let Some(change) = self.change.take() {
            let task = shared.task(&change)?;
            self.follower.change_catalog(&change, &task).map_err(|error| error.to_string())?;
            self.version = change.catalog_version;
            return Ok(Some(self.version));
        }
        let sources = sources(shared, self.version);
        let applied = self.follower.run(&sources).map_err(|error| error.to_string())?;
        if let Applied::Change(change) = applied {
            self.change = Some(change);
        }
        match self.follower.divergence() {
            Some(differs) => Err(differs.to_string()),
            None => Ok(None),
        }
    }
}

impl Pending {
    pub(super) fn apply(&mut self, shared: &Shared) -> Result<Option<u64>, String> {
        if let Some(change) = self.change.take() {
            let task = shared.task(&change)?;
            self.promotion.change_catalog(&change, &task).map_err(|error| error.to_string())?;
            self.version = change.catalog_version;
            return Ok(Some(self.version));
        }
        let sources = sources(shared, self.version);
        let applied = self.promotion.run(&sources).map_err(|error| error.to_string())?;
        if let Applied::Change(change) = applied {
            self.change = Some(change);
        }
        Ok(None)
    }
}

fn sources(shared: &Shared, version: u64) -> EntrySources<'_, crate::plans::NoCode> {
    EntrySources {
        catalog: &shared.catalogs[&version].host,
        limits: &shared.sql_limits,
        partition_count: shared.ring.partition_count(),
    }
}

/// A partition at a host, with what its calls need.
pub(super) struct At<'w> {
    pub(super) host: &'w mut Host,
    pub(super) shared: &'w mut Shared,
    pub(super) partition: PartitionId,
}

impl At<'_> {
    fn replica(&mut self) -> &mut Replica {
        self.host.replicas.get_mut(&self.partition).expect("calls come to copies")
    }

    fn execute(&mut self, header: &EntryHeader, call: &HostCall) -> Answer {
        let catalog = &self.shared.catalogs[&self.host.version];
        let replica = self.host.replicas.get_mut(&self.partition).expect("calls come to copies");
        let site = &mut replica.site;
        let mut tables = Vec::new();
        let outcome = match &call.work {
            LocalWork::Statements(call, _) => site.statements(header, call, &mut tables),
            LocalWork::Procedure(body) => {
                let Invocation { procedure, parameters, all_partition, .. } = decoded(body);
                match catalog.host.procedure(procedure) {
                    None => Outcome::failed(not_found(procedure)),
                    Some(found) => {
                        let (prepared, number) = (&found.prepared, found.number);
                        let whole = all_partition;
                        site.call(header, prepared, number, &parameters, whole, &mut tables)
                    }
                }
            }
            LocalWork::Load(..) | LocalWork::Led(..) => unreachable!("the workload has none"),
        };
        if outcome.failure.is_some() {
            tables.clear();
        }
        Answer { entry: replica.position(), ..Answer::new(call.call, outcome, tables) }
    }

    fn answer(&mut self, answer: Answer) {
        let (entry, to) = (answer.entry, self.shared.origin_of(answer.call));
        let said = Said::Answer(Box::new(answer));
        self.host.send_when_safe(self.shared, (self.partition, entry), Held { to, said });
    }
}

impl HostTime for At<'_> {
    fn now_us(&self) -> i64 {
        self.host.now_us
    }
}

impl PartitionHost for At<'_> {
    type Call = HostCall;
    type Answer = Answer;
    type Catalog = u64;

    fn site(&mut self) -> &mut HostSite {
        &mut self.replica().site
    }

    fn faults(&self) -> Faults {
        self.shared.limits.faults
    }

    fn redirect(&mut self, call: HostCall) -> Option<HostCall> {
        self.overtaken(call)
    }

    fn lead(&mut self, header: &EntryHeader, call: HostCall) -> Option<HostCall> {
        self.hop(header, call)
    }

    fn runs_once(&self, _: &HostCall) -> bool {
        false
    }

    fn run(&mut self, header: &EntryHeader, call: HostCall) {
        let answer = self.execute(header, &call);
        self.answer(answer);
    }

    fn run_speculatively(&mut self, header: &EntryHeader, call: &HostCall) -> (Answer, usize) {
        let answer = self.execute(header, call);
        let bytes = answer.tables.len();
        (answer, bytes)
    }

    fn refuse_held(&mut self, call: HostCall) {
        unreachable!("the workload stays within the limits, and call {} does not", call.call);
    }

    fn partition_effect(&mut self, effect: PartitionEffect<HostCall, Answer, u64>) {
        match effect {
            PartitionEffect::Send(answer) => {
                let entry = self.replica().position();
                let to = self.host.placement.coordinator().host();
                let held = Held { to, said: Said::FromPartition(answer) };
                self.host.send_when_safe(self.shared, (self.partition, entry), held);
            }
            PartitionEffect::Ran(_) => {}
            PartitionEffect::SnapshotBegun(_) => unreachable!("the workload saves no snapshots"),
            PartitionEffect::CatalogInForce(version) => self.host.follow_catalog(version),
            PartitionEffect::Answer(_, answer) => self.answer(answer),
        }
    }
}
