//! A partition of the simulated host as [`lockstep_host::partition`] sees it.

use super::log::Held;
use super::{Answer, Message, PartitionCall, SimSite, World};
use crate::plans::{LocalWork, SimCatalog, decoded};
use lockstep_base::bytes::ByteReader;
use lockstep_host::HostTime;
use lockstep_host::catalog::not_found;
use lockstep_host::partition::PartitionHost;
use lockstep_site::{Faults, PartitionEffect};
use lockstep_txn::EntryHeader;
use lockstep_types::{Outcome, PartitionId, TableView};
use lockstep_wire_volt::Invocation;

/// A partition of the simulated host.
pub(super) struct At<'w> {
    pub(super) world: &'w mut World,
    pub(super) partition: PartitionId,
}

impl At<'_> {
    fn version(&self) -> u64 {
        self.world.versions[self.partition.index()]
    }

    fn execute(&mut self, header: &EntryHeader, call: &PartitionCall) -> Answer {
        self.world.executed += 1;
        let catalog = &self.world.catalogs[&self.version()];
        run(&mut self.world.sites[self.partition.index()], catalog, header, call)
    }
}

impl HostTime for At<'_> {
    fn now_us(&self) -> i64 {
        self.world.now_us
    }
}

impl PartitionHost for At<'_> {
    type Call = PartitionCall;
    type Answer = Answer;
    type Catalog = u64;

    fn site(&mut self) -> &mut SimSite {
        &mut self.world.sites[self.partition.index()]
    }

    fn faults(&self) -> Faults {
        self.world.shape.faults
    }

    fn redirect(&mut self, call: PartitionCall) -> Option<PartitionCall> {
        let version = self.version();
        let catalog = &self.world.catalogs[&version];
        let stays =
            call.catalog_version == version || !catalog.is_misrouted(&call.work, &self.world.ring);
        if stays {
            return Some(call);
        }
        self.world.plan_again(call.call);
        None
    }

    fn lead(&mut self, header: &EntryHeader, call: PartitionCall) -> Option<PartitionCall> {
        self.world.lead(self.partition, header, call)
    }

    fn runs_once(&self, call: &PartitionCall) -> bool {
        self.world.catalogs[&self.version()].runs_once(&call.work)
    }

    fn run(&mut self, header: &EntryHeader, call: PartitionCall) {
        let answer = self.execute(header, &call);
        self.world.leave(self.partition, Held::Answer(answer));
    }

    fn run_speculatively(&mut self, header: &EntryHeader, call: &PartitionCall) -> (Answer, usize) {
        let answer = self.execute(header, call);
        if answer.outcome.failure.is_some() {
            self.world.failed_runs.insert(call.call, header.transaction);
        }
        let bytes = answer.tables.len();
        (answer, bytes)
    }

    fn refuse_held(&mut self, call: PartitionCall) {
        unreachable!("the workload stays within the limits, and call {} does not", call.call);
    }

    fn partition_effect(&mut self, effect: PartitionEffect<PartitionCall, Answer, u64>) {
        let (world, partition) = (&mut *self.world, self.partition);
        match effect {
            PartitionEffect::Send(answer) => {
                world.messages += 1;
                world.census.count_answer(&answer);
                world.leave(partition, Held::Message(Message::FromPartition(answer)));
            }
            PartitionEffect::Ran(_) => {}
            PartitionEffect::SnapshotBegun(begun) => world.save_begun(partition, begun),
            PartitionEffect::CatalogInForce(version) => {
                assert!(world.catalogs.contains_key(&version), "no catalog from the future");
                let thread = world.placement.leader_of(partition);
                for replica in world.placement.led_by(thread) {
                    world.versions[replica.partition.index()] = version;
                }
                let early = world.bytes.take_early();
                world.in_flight.extend(early);
            }
            PartitionEffect::Answer(_, answer) => world.leave(partition, Held::Answer(answer)),
        }
    }
}

fn run(
    site: &mut SimSite,
    catalog: &SimCatalog,
    header: &EntryHeader,
    call: &PartitionCall,
) -> Answer {
    let mut tables = Vec::new();
    let outcome = match &call.work {
        LocalWork::Statements(statements, _) => site.statements(header, statements, &mut tables),
        LocalWork::Procedure(body) | LocalWork::Led(body, ..) => {
            let Invocation { procedure, parameters, all_partition, .. } = decoded(body);
            match catalog.host.procedure(procedure) {
                None => Outcome::failed(not_found(procedure)),
                Some(found) => {
                    let (prepared, number) = (&found.prepared, found.number);
                    site.call(header, prepared, number, &parameters, all_partition, &mut tables)
                }
            }
        }
        LocalWork::Load(statement, rows) => {
            let rows = TableView::read(&mut ByteReader::new(rows)).expect("its own table");
            site.load(header, statement, &rows, &mut tables)
        }
    };
    if outcome.failure.is_some() {
        tables.clear();
    }
    Answer { call: call.call, outcome, tables, at_partition: true }
}
