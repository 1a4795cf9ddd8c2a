//! Calls that are routed by a global index, carried between partitions as the server's threads
//! carry them: each message once, after any time, before or after any other.

use super::{Message, PartitionCall, World};
use crate::census::Census;
use crate::plans::{LocalWork, decoded};
use lockstep_host::index_hops::{self, HopResult, HopTurn};
use lockstep_host::routing_values::index_partition;
use lockstep_host::several::HomeOf;
use lockstep_site::{Home, IndexHop, MultiCall, MultiWork, ViaNext};
use lockstep_txn::EntryHeader;
use lockstep_types::PartitionId;

/// How far a call has come that is routed by an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journey {
    hop: IndexHop,
    lookups: u16,
}

impl Default for Journey {
    fn default() -> Journey {
        Journey { hop: IndexHop::Index, lookups: 0 }
    }
}

impl World {
    /// It is a call's turn at a partition: gives it back if it is to run there. Calls that no
    /// index leads always are.
    pub(super) fn lead(
        &mut self,
        partition: PartitionId,
        header: &EntryHeader,
        mut call: PartitionCall,
    ) -> Option<PartitionCall> {
        let (body, number, key) = match &call.work {
            LocalWork::Led(body, number, key) => (body, number, key),
            LocalWork::Statements(_, Some(_)) => {
                return self.lead_statement(partition, header, call);
            }
            _ => return Some(call),
        };
        let mut journey = call.journey;
        self.census.count_visit(call.call, partition);
        let catalog = &self.catalogs[&self.versions[partition.index()]].host;
        let site = &mut self.sites[partition.index()];
        let turn = HopTurn { header, hop: journey.hop, key: *key, number: *number };
        let way = index_hops::hop_result(site, catalog, &self.ring, turn, || decoded(body));
        let invocation = decoded(body);
        let procedure = catalog.procedure(invocation.procedure).expect("nobody drops it");
        let next = match &way {
            HopResult::Step(step) => step.next(&mut journey.lookups, self.max_index_lookups),
            HopResult::Home => ViaNext::GiveUp,
            HopResult::Reroute => unreachable!("the workload's procedures stay as they are"),
            HopResult::Refused(failure) => {
                panic!("the index is there, and its keys fit: {failure:?}")
            }
        };
        let to = match next {
            ViaNext::Run => return Some(call),
            ViaNext::Row(row) => Some((row, IndexHop::Row)),
            ViaNext::Index => {
                let index = index_partition(procedure, &invocation, &self.ring);
                Some((index.ok().flatten().expect("its keys fit").0, IndexHop::Index))
            }
            ViaNext::GiveUp => None,
        };
        if header.repeated {
            site.withdraw(header, procedure.definition.read_only);
        }
        let home = Home { partition, addresses_partition: false };
        let home = matches!(way, HopResult::Home).then_some(home);
        match to {
            Some((to, hop)) => {
                self.hops += 1;
                journey.hop = hop;
                call.journey = journey;
                self.in_flight.push(Message::Call(to, call));
            }
            None => self.route_in_transaction(&call, partition, home),
        }
        None
    }

    /// The same for the only statement of a transaction.
    fn lead_statement(
        &mut self,
        partition: PartitionId,
        header: &EntryHeader,
        mut call: PartitionCall,
    ) -> Option<PartitionCall> {
        let LocalWork::Statements(work, Some(via)) = &mut call.work else { return Some(call) };
        self.census.count_visit(call.call, partition);
        let site = &mut self.sites[partition.index()];
        let next = via.next(site, header, self.max_index_lookups);
        let next = next.expect("the index is there, and its keys are integers");
        if next == ViaNext::Run {
            return Some(call);
        }
        site.withdraw(header, work.read_only);
        let to = match next {
            ViaNext::Row(row) => (row, IndexHop::Row),
            ViaNext::Index => (via.index, IndexHop::Index),
            ViaNext::GiveUp | ViaNext::Run => {
                self.given_up += 1;
                let (origin, catalog_version) = (call.call, call.catalog_version);
                self.in_flight.push(Message::Multi(MultiCall {
                    origin,
                    procedure_number: Census::mark_of(origin),
                    catalog_version,
                    time_limit: None,
                    declared: Vec::new(),
                    home: None,
                    led: None,
                    work: MultiWork::Statements(work.clone()),
                }));
                return None;
            }
        };
        self.hops += 1;
        via.hop = to.1;
        self.in_flight.push(Message::Call(to.0, call));
        None
    }

    /// The coordinator takes over.
    fn route_in_transaction(
        &mut self,
        call: &PartitionCall,
        near: PartitionId,
        home: Option<Home>,
    ) {
        let LocalWork::Led(body, ..) = &call.work else { return };
        self.given_up += u64::from(home.is_none());
        let catalog = &self.catalogs[&self.versions[near.index()]];
        let invocation = decoded(body);
        let procedure = catalog.host.procedure(invocation.procedure).expect("nobody drops it");
        let led = index_hops::asked_in_transaction(procedure, &invocation).expect("its keys fit");
        let home = HomeOf { home, led };
        let made = (&self.ring, &mut self.one_rounds);
        let several = catalog.several((call.call, near), body, &[], home, made);
        self.in_flight.push(several.into());
    }
}
