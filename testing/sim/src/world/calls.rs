//! Calls at the partition that they were routed to.

use super::log::Held;
use super::{Answer, PartitionCall, SimSite, World};
use crate::plans::{LocalWork, SimCatalog, decoded};
use lockstep_base::bytes::ByteReader;
use lockstep_host::catalog::not_found;
use lockstep_site::Ready;
use lockstep_txn::EntryHeader;
use lockstep_types::{Outcome, PartitionId, TableView};
use lockstep_wire_volt::Invocation;

impl World {
    /// Whether a schema change came in between, and the call needs other partitions by now.
    pub(super) fn is_overtaken(&self, partition: PartitionId, call: &PartitionCall) -> bool {
        let version = self.versions[partition.index()];
        let catalog = &self.catalogs[&version];
        call.catalog_version != version && catalog.has_outgrown(&call.work, &self.ring)
    }

    pub(super) fn run(&mut self, partition: PartitionId, ready: Ready<PartitionCall>) {
        let (Ready::Run(call, _) | Ready::Speculate(call, _)) = &ready;
        if self.is_overtaken(partition, call) {
            return self.plan_again(call.call);
        }
        let Some(ready) = self.lead(partition, ready) else { return };
        let catalog = &self.catalogs[&self.versions[partition.index()]];
        let site = &mut self.sites[partition.index()];
        self.executed += 1;
        match ready {
            Ready::Run(call, header) => {
                let answer = run(site, catalog, &header, &call);
                self.leave(partition, Held::Answer(answer));
            }
            Ready::Speculate(call, _) if catalog.runs_once(&call.work) => {
                let held = site.hold_until_decided(call);
                assert!(held.is_ok(), "the workload stays within the limits");
            }
            Ready::Speculate(call, header) => {
                let answer = run(site, catalog, &header, &call);
                let bytes = answer.tables.len();
                site.keep(call, header, answer, bytes);
            }
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
        LocalWork::Statements(statements) => site.statements(header, statements, &mut tables),
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
