//! The cluster is formed, and has a schema and rows.

use super::aging::Aging;
use super::host::{Handed, Where};
use super::judge::Judge;
use super::lists::Lists;
use super::tpcc::Wholesale;
use super::{Cluster, FORM_US, HostFaults, Process, Said, Shared, Work};
use super::{aging, codes, judge, lists, tpcc};
use crate::plans::{Natives, Request, SimCatalog};
use lockstep_base::random::SeededRandom;
use lockstep_cluster::Shape;
use lockstep_host::schema::change::CatalogChange;
use lockstep_host::serving::Serving;
use lockstep_host::several::CoordinatorCall;
use lockstep_plan::Catalog;
use lockstep_site::{MultiCall, MultiWork, SchemaTask, SiteLimits, StopEverything};
use lockstep_types::HostId;
use std::sync::Arc;
use std::time::Duration;

/// The shape of a run.
pub(super) fn shape_of(random: &mut SeededRandom) -> Shape {
    let shapes = [
        (1, 1, 0),
        (2, 1, 0),
        (3, 1, 0),
        (2, 1, 1),
        (3, 2, 1),
        (3, 2, 1),
        (3, 2, 1),
        (3, 1, 2),
        (3, 2, 2),
        (4, 1, 1),
        (4, 2, 1),
        (5, 2, 1),
        (5, 3, 2),
        (6, 1, 2),
        (7, 2, 1),
    ];
    let (hosts, sites_per_host, k) = shapes[random.below(shapes.len() as u64) as usize];
    Shape { hosts, witnesses: 0, sites_per_host, partitions_per_site: 1, k }
}

/// The limits of all sites of a run.
pub(super) fn limits_of(
    random: &mut SeededRandom,
    shape: &Shape,
    faults: &HostFaults,
) -> SiteLimits {
    SiteLimits {
        held_calls_max: 10_000,
        speculative_calls_max: if random.chance(4, 5) { 1_000 } else { 0 },
        speculative_bytes_max: 1 << 20,
        waiting_multi_calls_max: 10_000,
        active_multi_calls_max: [1, 3, 64][random.below(3) as usize],
        transaction_timeout: Some(Duration::from_millis([100, 5_000][random.below(2) as usize])),
        write_timeout: None,
        stop_everything: StopEverything::Never,
        faults: faults.site,
        result_bytes_max: 1 << 20,
        temporary_bytes_max: 1 << 24,
        batch_rows_min: 0,
        undo_bytes_max: 1 << 30,
        entry_changes_bytes_max: 64 << 20,
        digests: shape.k > 0,
    }
}

/// The schema of a run.
fn schema(work: Work) -> String {
    let more = match work {
        Work::Bank | Work::Reads => String::new(),
        Work::Lists => lists::SCHEMA.to_string(),
        Work::Aging => aging::SCHEMA.to_string(),
        Work::Tpcc => tpcc::schema(),
    };
    [judge::SCHEMA, codes::SCHEMA, &more].concat()
}

/// The catalog of a new cluster, the one with the schema of a run, and the change between them.
pub(super) fn made_schema(
    work: Work,
    natives: &Natives,
) -> (SimCatalog, SimCatalog, Arc<SchemaTask<u64>>) {
    let empty = SimCatalog::new(Catalog::default(), natives);
    let made = empty.prepare_change(CatalogChange::Ddl(&schema(work)), natives);
    let task = made.task;
    let version = task.catalog_version;
    let catalog = SimCatalog::of(Arc::clone(&task.catalog));
    (empty, catalog, Arc::new(task.with_catalog(version)))
}

/// What judges the calls of a run.
pub(super) fn judge_of(seed: u64, work: Work, accounts: i64, shared: &Shared) -> Judge {
    let mut judge = Judge::new(accounts, Lists::of_seed(seed, work == Work::Lists));
    if work == Work::Aging {
        let catalog = &shared.catalogs[&shared.first_version].host.plan;
        judge.aging = Some(Aging::new(catalog, shared.ring.clone(), accounts));
    }
    judge.wholesale = (work == Work::Tpcc).then(|| Wholesale::of_seed(seed));
    judge
}

impl Cluster {
    /// The control plane forms the cluster, and all hosts begin to serve.
    pub(super) fn form(&mut self) -> Result<(), String> {
        let limit_us = self.now_us + FORM_US;
        let is_formed = |it: &Cluster| {
            let is_ready = |process: &Process| {
                let now = process.links.now(it.now_us);
                process.links.state().is_some()
                    && Serving::may_answer(&process.links.control, now.us)
            };
            it.processes.iter().flatten().all(is_ready)
        };
        if !self.run_until(limit_us, is_formed)? {
            return Err("no cluster is formed".to_string());
        }
        for process in self.processes.iter_mut().flatten() {
            process.links.serving.begin();
        }
        Ok(())
    }

    /// The schema and the rows.
    pub(super) fn load(&mut self) -> Result<(), String> {
        let call = self.judge.schema();
        let work =
            MultiWork::Schema(Arc::clone(self.shared.tasks.values().next().expect("it is made")));
        let multi = CoordinatorCall::Multi(Box::new(MultiCall {
            origin: call,
            procedure_number: 0,
            catalog_version: 0,
            time_limit: None,
            declared: Vec::new(),
            home: None,
            led: None,
            work,
        }));
        self.shared.origins.push(HostId(0));
        let process = self.processes[0].as_mut().expect("it runs");
        let request = Request::Statements(Vec::new());
        let at = Where::Host(HostId(0));
        let handed = Handed { at, request, since_us: 0, partition: None };
        process.host.handed.insert(call, handed);
        process.host.own.push_back(Said::Multi(Box::new(multi)));
        let is_changed = |it: &Cluster| {
            let all = it.processes.iter().flatten();
            it.judge.outstanding == 0 && all.into_iter().all(|process| process.host.version > 0)
        };
        if !self.run_until(self.now_us + FORM_US, is_changed)? {
            return Err("the schema does not come into force".to_string());
        }
        let rows = self.judge.load();
        let codes = self.judge.load_codes();
        let lists = self.judge.load_lists();
        let warehouses = self.judge.load_wholesale();
        for call in rows.into_iter().chain(codes).chain(lists).chain(warehouses) {
            let host = self.shared.random.below(self.shape.hosts.into()) as usize;
            self.call_at(host, call);
        }
        match self.run_until(self.now_us + FORM_US, |it| it.judge.outstanding == 0)? {
            true => Ok(()),
            false => Err("the rows are not loaded".to_string()),
        }
    }
}
