//! Calls that a global index leads to their row, carried between partitions as the server's
//! threads carry them: each message once, after any time, before or behind any other.

use super::{Answer, Message, PartitionCall, World};
use crate::plans::LocalWork;
use lockstep_site::{Ready, ViaLeg, ViaNext};
use lockstep_types::{Datum, Failure, Outcome, PartitionId};

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
        let to = match next {
            ViaNext::Run => return Some(ready),
            ViaNext::Row(row) => Some((row, ViaLeg::Row)),
            ViaNext::Index => Some((self.ring.partition_of(Datum::Int(*key)), ViaLeg::Index)),
            ViaNext::GiveUp => None,
        };
        let read_only = catalog.procedure(name).definition().read_only;
        site.withdraw(header, read_only);
        let (Ready::Run(mut call, _) | Ready::Speculate(mut call, _)) = ready;
        match to {
            Some((to, leg)) => {
                self.hops += 1;
                journey.leg = leg;
                call.journey = journey;
                self.in_flight.push(Message::Call(to, call));
            }
            None => {
                self.given_up += 1;
                let outcome = Outcome::failed(Failure::graceful(GAVE_UP));
                self.answers.push(Answer { call: call.call, outcome, tables: Vec::new() });
            }
        }
        None
    }
}

/// Why a call ended whose row moved as often as an index may be asked for it.
pub const GAVE_UP: &str = "the row moves all the time";
