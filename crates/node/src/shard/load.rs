//! `@LoadSinglepartitionTable`: rows of a partitioned table go straight to their partition, as
//! calls of procedures do.

use super::calls::{Taken, refuse};
use super::handed::At;
use super::{Shard, Slot};
use crate::intake::Changes;
use crate::message::{
    ControlRequest, Envelope, ForwardedCall, HEAVY_WEIGHT, Origin, PARTITION_WEIGHT,
};
use lockstep_base::elapsed::Elapsed;
use lockstep_host::load::{load_parameters, load_statement, loads_indexed};
use lockstep_host::unavailable::cannot_serve;
use lockstep_txn::EntryHeader;
use lockstep_types::{Outcome, Status};
use lockstep_wire_volt::{Invocation, response};

impl Shard {
    /// A load arrives at a connection of this thread.
    pub(super) fn load(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Taken {
        let admin = self.connections.get(origin.connection).is_some_and(|c| c.admin);
        if let Err(failure) = self.facts.intake.check(Changes::Anything, admin) {
            refuse(output, &origin, &failure);
            return Taken::Refused;
        }
        let load = match load_parameters(invocation) {
            Ok(load) => load,
            Err(failure) => {
                refuse(output, &origin, &failure);
                return Taken::Refused;
            }
        };
        let Some(key) = load.key else { return Taken::Pending };
        if loads_indexed(&self.catalog, &self.facts.ring, invocation) {
            // Its rows go through the coordinator.
            let origin = self.count_outstanding(origin, HEAVY_WEIGHT, At::Anywhere);
            let request = ControlRequest::Call { origin, admin, body: body.into() };
            let control = self.control_thread();
            self.outbox.send(control, Envelope::Control(Box::new(request)));
            return Taken::Pending;
        }
        // NULL lives at the first partition.
        let partition = self.facts.ring.partition_of(key);
        if self.facts.unavailable.has(partition) {
            refuse(output, &origin, &cannot_serve(&[partition]));
            return Taken::Refused;
        }
        if let Some(slot) = self.replicas.slot_of(partition) {
            return self.call_here(slot, origin, invocation, body, output);
        }
        let copy = self.outbox.spare.copy_of(body);
        let thread = self.thread_of(partition);
        let at = At::Host(thread.host());
        let origin = self.count_outstanding(origin, PARTITION_WEIGHT, at);
        let call = ForwardedCall { origin, body: copy };
        self.send(thread, Envelope::Call(partition, call));
        Taken::Pending
    }

    /// Runs a load at a replica and appends the answer to `output`.
    pub(super) fn execute_load(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        invocation: &Invocation<'_>,
        waited: Elapsed,
        output: &mut Vec<u8>,
    ) -> Status {
        let start = response::begin(output);
        let prepared = load_parameters(invocation)
            .and_then(|load| Ok((load_statement(&self.catalog, &load)?, *load.rows()?)));
        let outcome = match prepared {
            Ok((statement, rows)) => {
                self.replicas[slot].site.load(header, &statement, &rows, output)
            }
            Err(failure) => Outcome::failed(failure),
        };
        response::finish(output, start, invocation.client_handle, &outcome, waited);
        outcome.failure.map_or(Status::Success, |failure| failure.status)
    }
}
