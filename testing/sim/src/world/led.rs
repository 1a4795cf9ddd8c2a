//! Calls that a global index leads to their row, carried between partitions as the server's
//! threads carry them: each message once, after any time, before or behind any other.

use super::{Message, PartitionCall, World};
use crate::census::Census;
use crate::plans::{LocalWork, keeps_index};
use lockstep_exec::{PreparedProcedure, PreparedStatement};
use lockstep_plan_ir::lookup::question;
use lockstep_site::{BoundStatement, Home, MultiCall, MultiWork, Ready, ViaLeg, ViaNext};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, PartitionId, SqlType};
use std::sync::Arc;

/// How far a call has come that an index leads to its row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journey {
    leg: ViaLeg,
    lookups: u16,
}

impl Default for Journey {
    fn default() -> Journey {
        Journey { leg: ViaLeg::Index, lookups: 0 }
    }
}

impl World {
    /// It is a call's turn at a partition: gives it back if it is to run there. Calls that no
    /// index leads always are.
    pub(super) fn lead(
        &mut self,
        partition: PartitionId,
        ready: Ready<PartitionCall>,
    ) -> Option<Ready<PartitionCall>> {
        let (Ready::Run(call, header) | Ready::Speculate(call, header)) = &ready;
        let LocalWork::Led { name, key, .. } = &call.work else { return Some(ready) };
        let mut journey = call.journey;
        self.census.count_visit(call.call, partition);
        let catalog = &self.catalogs[&call.catalog_version];
        let route = catalog.route(name).expect("the procedure is led by an index");
        let site = &mut self.sites[partition.index()];
        let step = site.via_step(header, journey.leg, route, &[Datum::Int(*key)]);
        let step = step.expect("the index is there, and its keys are integers");
        let next = step.next(&mut journey.lookups, self.max_index_lookups);
        let procedure = Arc::clone(catalog.procedure(name));
        let changes = self.ring.partition_count() > 1 && keeps_index(&procedure);
        let to = match next {
            ViaNext::Run if changes => None,
            ViaNext::Run => return Some(ready),
            ViaNext::Row(row) => Some((row, ViaLeg::Row)),
            ViaNext::Index => Some((self.ring.partition_of(Datum::Int(*key)), ViaLeg::Index)),
            ViaNext::GiveUp => None,
        };
        site.withdraw(header, procedure.definition().read_only);
        let home = (next == ViaNext::Run).then_some(Home { partition, addresses_partition: false });
        let (Ready::Run(mut call, _) | Ready::Speculate(mut call, _)) = ready;
        match to {
            Some((to, leg)) => {
                self.hops += 1;
                journey.leg = leg;
                call.journey = journey;
                self.in_flight.push(Message::Call(to, call));
            }
            None => self.lead_in_transaction(&call, procedure, home),
        }
        None
    }

    /// The coordinator takes over.
    fn lead_in_transaction(
        &mut self,
        call: &PartitionCall,
        procedure: Arc<PreparedProcedure>,
        home: Option<Home>,
    ) {
        let LocalWork::Led { name, parameters, key } = &call.work else { return };
        self.given_up += u64::from(home.is_none());
        let route = self.catalogs[&call.catalog_version].route(name);
        let route = route.expect("the procedure is led by an index");
        let question = question(route.entries, &[SqlType::BigInt]);
        let mut writer = ParameterWriter::default();
        let led = BoundStatement {
            statement: Arc::new(PreparedStatement::new(Arc::new(question))),
            parameters: writer.bigint(*key).bytes().into(),
            shipped: None,
            found: None,
            profile: None,
        };
        self.in_flight.push(Message::Multi(MultiCall {
            origin: call.call,
            procedure_number: Census::mark_of(call.call),
            catalog_version: call.catalog_version,
            time_limit: None,
            declared: Vec::new(),
            home,
            led: Some(led),
            work: MultiWork::Procedure { procedure, parameters: Arc::clone(parameters) },
        }));
    }
}
