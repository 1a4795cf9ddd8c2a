//! Changes of the schema while hosts are lost: what comes with one version goes with a later one,
//! so that a version says what the schema is, at any host.

use super::host::{Handed, Host, Of, Where};
use super::{Cluster, HostCall, Said, Shared};
use crate::plans::{LocalWork, Planned, Request, SimCatalog};
use lockstep_cluster::{ClusterState, HostState};
use lockstep_host::coordinator;
use lockstep_host::schema::change::CatalogChange;
use lockstep_host::several::CoordinatorCall;
use lockstep_site::{MultiCall, MultiWork, SchemaTask};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The changes, one after the other; the last one is followed by the first.
const CHANGES: [&str; 4] = [
    "ALTER TABLE accounts ADD COLUMN extra BIGINT DEFAULT 7 BEFORE money;",
    "CREATE INDEX accounts_by_money ON accounts (money, id);",
    "ALTER TABLE accounts DROP COLUMN extra;",
    "DROP INDEX accounts_by_money;",
];

impl Shared {
    /// The change that follows a version of the catalog.
    fn change_after(&mut self, version: u64) -> Arc<SchemaTask<u64>> {
        let number = (version - self.first_version) as usize % CHANGES.len();
        let catalog = &self.catalogs[&version];
        let made = catalog.prepare_change(CatalogChange::Ddl(CHANGES[number]), &self.natives);
        let next = made.task.catalog_version;
        assert_eq!(next, version + 1, "a change makes the next version");
        let key = (next, made.task.source.to_vec());
        if let Some(known) = self.tasks.get(&key) {
            return Arc::clone(known);
        }
        self.catalogs.insert(next, SimCatalog::of(Arc::clone(&made.task.catalog)));
        let task = Arc::new(made.task.with_catalog(next));
        self.tasks.insert(key, Arc::clone(&task));
        task
    }

    /// The request of a call, planned with a version of the catalog.
    pub(super) fn plan_with(&mut self, host: &mut Host, call: usize, version: u64) -> Planned {
        let request = self.requests[&call].clone();
        let ring = self.ring.clone();
        let catalog = self.catalogs.get_mut(&version).expect("it was in force somewhere");
        catalog.plan(call, &request, &ring, &mut host.one_rounds)
    }
}

impl Host {
    /// A client of this host changes the schema.
    pub(super) fn call_change(&mut self, call: usize, shared: &mut Shared) {
        if self.is_cut_off {
            return shared.refuse(call, "the host is not connected with a majority");
        }
        let to = self.placement.coordinator().host();
        let request = Request::Statements(Vec::new());
        let (at, since_us) = (Where::Host(to), self.now_us);
        self.handed.insert(call, Handed { at, request, since_us, partition: None });
        self.send(to, Said::Change(call));
    }

    /// The host of the coordinator makes one change at a time.
    pub(super) fn take_change(&mut self, call: usize, shared: &mut Shared) {
        let Some(coordinator) = &self.coordinator else {
            return self.refuse_elsewhere(call, shared);
        };
        let is_moving = self.moves.is_coordinator_moving();
        let is_busy = self.changing.is_some() || coordinator.is_taking_over() || is_moving;
        if is_busy || self.unavailable.is_any() || self.loads_any() {
            return self.refuse_busy(call, shared);
        }
        let version = coordinator.catalog_version();
        let task = shared.change_after(version);
        self.changing = Some(call);
        let multi = CoordinatorCall::Multi(Box::new(MultiCall {
            origin: call,
            procedure_number: 0,
            catalog_version: version,
            time_limit: None,
            declared: Vec::new(),
            home: None,
            led: None,
            work: MultiWork::Schema(task),
        }));
        coordinator::submit(&mut Of { host: self, shared }, multi, &mut Vec::new());
    }

    /// A call for one partition that a change overtook, planned again.
    pub(super) fn plan_again(&mut self, call: HostCall, shared: &mut Shared) -> HostCall {
        let version = self.version;
        let is_planned = matches!(call.work, LocalWork::Statements(..));
        if !is_planned || call.catalog_version == version {
            return call;
        }
        shared.report.planned_again += 1;
        match shared.plan_with(self, call.call, version) {
            Planned::Partition(_, work) => HostCall { work, catalog_version: version, ..call },
            _ => unreachable!("no change moves rows"),
        }
    }

    /// A call for the coordinator that a change overtook, planned again; none if it is sent to one
    /// partition: it came from there, after the index had led it to rows that were gone.
    pub(super) fn plan_several_again(
        &mut self,
        call: usize,
        shared: &mut Shared,
    ) -> Option<CoordinatorCall<usize, u64>> {
        let version = self.coordinator.as_ref().map(|it| it.catalog_version());
        let version = version.expect("it asks for the call");
        shared.report.planned_again += 1;
        match shared.plan_with(self, call, version) {
            Planned::Partition(partition, work) => {
                let epoch = self.placement.epoch();
                let again = HostCall { call, work, catalog_version: version, epoch };
                assert!(again.is_led(), "no change moves rows");
                let leader = self.placement.leader_of(partition).host();
                self.send(leader, Said::Call(partition, again));
                None
            }
            Planned::Several(several) => Some(several),
            Planned::Multi { declared, home, work } => {
                Some(CoordinatorCall::Multi(Box::new(MultiCall {
                    origin: call,
                    procedure_number: 0,
                    catalog_version: version,
                    time_limit: None,
                    declared,
                    home,
                    led: None,
                    work,
                })))
            }
        }
    }
}

impl Cluster {
    /// Now and then a client changes the schema, and the host of the coordinator may be lost in the
    /// middle.
    pub(super) fn change_schema(&mut self) -> Result<(), String> {
        let one_in = self.changes_one_in;
        if one_in == 0 || !self.shared.random.chance(1, one_in) {
            return Ok(());
        }
        let serving = self.serving();
        if serving.is_empty() {
            return Ok(());
        }
        let host = serving[self.shared.random.below(serving.len() as u64) as usize];
        let call = self.judge.change();
        self.change_at(host, call);
        if self.shape.k > 0 && self.shared.random.chance(1, 8) {
            let until_us = self.now_us + self.shared.random.below(1_500);
            self.run_until(until_us, |_| false)?;
            let coordinator = self.state().map(|state| state.coordinator.0 as usize);
            coordinator.into_iter().for_each(|host| self.kill(host));
        }
        Ok(())
    }

    /// Whether all copies of all partitions are lost.
    fn is_all_lost(&self, state: &ClusterState) -> bool {
        let lost = self.left_unavailable(state);
        lost.is_some_and(|lost| lost.len() == state.partitions.len())
    }

    /// All up hosts are at one version, to which answered changes have led.
    pub(super) fn judge_changes(&self) -> Result<u64, String> {
        let state = self.state().expect("the cluster was formed");
        let up = |it: &&super::Process| {
            let Some(record) = state.hosts.get(&it.host.id) else { return false };
            let is_member = record.incarnation.0 == it.run;
            // One without copies hears of changes at its control thread, which is not simulated.
            let has_copies = state.partitions_of(it.host.id).next().is_some();
            record.state == HostState::Up && is_member && it.host.has_joined() && has_copies
        };
        let running = self.processes.iter().flatten().filter(up);
        let versions: BTreeSet<u64> = running.map(|process| process.host.version).collect();
        let made = versions.iter().map(|version| version - self.shared.first_version);
        let made: Vec<u64> = made.collect();
        let (least, most) = self.judge.changes();
        match made[..] {
            [made] if (least..=most).contains(&made) => Ok(made),
            [] if self.is_all_lost(state) => Ok(least),
            _ => {
                Err(format!("{made:?} changes were made at hosts; {least} to {most} are possible"))
            }
        }
    }
}
