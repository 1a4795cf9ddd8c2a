//! Calls: from an invocation to its partition, or to what else answers it.

use super::handed::At;
use super::replica::Replica;
use super::{HeldCall, KeptAnswer, Shard, Slot};
use crate::catalog::HostProcedure;
use crate::clock;
use crate::connection::ConnectionKey;
use crate::control::members::is_of_any_host;
use crate::control::system::write_ping;
use crate::execution::run_invocation;
use crate::intake::Changes;
use crate::message::{
    ControlRequest, Envelope, ForwardedAnswer, ForwardedCall, HEAVY_WEIGHT, NO_PROCEDURE, Origin,
    PARTITION_WEIGHT, ViaCall,
};
use lockstep_base::elapsed::Elapsed;
use lockstep_host::catalog::not_found;
use lockstep_host::destination::{Destination, destination};
use lockstep_host::index_hops::ViaKey;
use lockstep_host::load::LOAD_AT_PARTITION;
use lockstep_host::partition;
use lockstep_host::several::HomeOf;
use lockstep_host::unavailable::cannot_serve;
use lockstep_plan::system_procedures::{SystemProcedure, SystemProcedureId};
use lockstep_site::IndexHop;
use lockstep_txn::{Admission, EntryHeader};
use lockstep_types::{Datum, Failure, Parameter, Status, ThreadId};
use lockstep_wire_volt::{Invocation, response};
use std::sync::Arc;

/// What has become of a call that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It ran at a replica of this thread, and its answer is in the output.
    Answered(Slot),
    /// Its answer comes later.
    Pending,
    /// Its answer is in the output and depends on no replica.
    Refused,
}

impl Shard {
    /// Handles one invocation of a connection of this thread. What can be answered at once is
    /// appended to `output`.
    pub(super) fn take_invocation(
        &mut self,
        key: ConnectionKey,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Taken {
        let invocation = match Invocation::decode(body) {
            Ok(invocation) => invocation,
            Err(rejection) => {
                let id = self.connections.get(key).map_or(0, |connection| connection.id);
                let handle = rejection.answer_handle(id);
                let text = rejection.message();
                self.note_refused(key, "call refused", &text);
                response::write_simple(output, handle, Status::UnexpectedFailure, Some(&text));
                return Taken::Refused;
            }
        };
        let origin = Origin {
            thread: self.thread,
            connection: key,
            handle: invocation.client_handle,
            arrived_us: self.now_us,
            procedure: NO_PROCEDURE,
            weight: 0,
        };
        if invocation.procedure.starts_with('@') {
            return self.system_call(origin, &invocation, body, output);
        }
        let catalog = &self.catalog;
        let Some(procedure) = catalog.procedure(invocation.procedure) else {
            refuse(output, &origin, &not_found(invocation.procedure));
            return Taken::Refused;
        };
        if !self.facts.intake.is_open() {
            let admin = self.connections.get(key).is_some_and(|c| c.admin);
            if let Err(failure) = self.check_intake(admin, procedure, &invocation) {
                refuse(output, &origin, &failure);
                return Taken::Refused;
            }
        }
        let origin = Origin { procedure: procedure.number, ..origin };
        match destination(procedure, &invocation, &self.facts.ring) {
            Destination::Partition(partition) => match self.replicas.slot_of(partition) {
                Some(slot) => self.call_here(slot, origin, &invocation, body, output),
                None => {
                    let reads = procedure.definition.read_only;
                    self.call_elsewhere(partition, origin, (&invocation, body), reads, output)
                }
            },
            Destination::Via(index, key) => {
                self.call_via(origin, &invocation, body, (index, key), output)
            }
            Destination::Multi => self.call_several(origin, &invocation, body, HomeOf::default()),
            Destination::Declared => self.call_declared(origin, &invocation, body, output),
            Destination::Home(home) => {
                self.call_several(origin, &invocation, body, HomeOf::known(home))
            }
            Destination::Outside => self.call_outside(origin, &invocation),
            Destination::Refused(failure) => self.refuse_counted(output, &origin, &failure),
        }
    }

    /// Less than everything is taken: whether a call is.
    ///
    /// # Errors
    /// What the caller gets.
    #[cold]
    fn check_intake(
        &self,
        admin: bool,
        procedure: &HostProcedure,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let changes = Changes::of_procedure(&procedure.definition);
        self.facts.intake.check(changes, admin)?;
        match destination(procedure, invocation, &self.facts.ring) {
            Destination::Partition(partition) if self.facts.unavailable.has(partition) => {
                Err(cannot_serve(&[partition]))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a call of a procedure, which is counted as a failure of that.
    pub(super) fn refuse_counted(
        &mut self,
        output: &mut Vec<u8>,
        origin: &Origin,
        failure: &Failure,
    ) -> Taken {
        self.replicas.first().statistics.count_refused(origin.procedure);
        refuse(output, origin, failure);
        Taken::Refused
    }

    /// A call whose replica is this thread's and whose connection too: no hand-off at all.
    pub(super) fn call_here(
        &mut self,
        slot: Slot,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Taken {
        match self.replicas[slot].site.admit(self.now_us) {
            Admission::Run(header) => {
                self.execute_and_answer(slot, &header, origin, invocation, output);
                Taken::Answered(slot)
            }
            waits => {
                let at = At::Host(self.facts.host);
                let origin = self.count_outstanding(origin, PARTITION_WEIGHT, at);
                let copy = self.outbox.spare.copy_of(body);
                let call = HeldCall::Invocation(ForwardedCall { origin, body: copy });
                match waits {
                    Admission::Speculate(header) => {
                        partition::speculate(&mut self.at_slot(slot), header, call);
                    }
                    _ => partition::hold(&mut self.at_slot(slot), call),
                }
                Taken::Pending
            }
        }
    }

    /// Runs an invocation of a connection of this thread, whose answer is counted at once.
    #[inline]
    pub(super) fn execute_and_answer(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        origin: Origin,
        invocation: &Invocation<'_>,
        output: &mut Vec<u8>,
    ) {
        let began_ms = clock::coarse_ms();
        let status = self.execute(slot, header, origin, invocation, output);
        self.statistics.count_answer(&origin, status, self.now_us);
        self.note_if_slow(began_ms, &origin);
    }

    /// Runs an invocation at a replica and appends the answer to `output`.
    pub(super) fn execute(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        origin: Origin,
        invocation: &Invocation<'_>,
        output: &mut Vec<u8>,
    ) -> Status {
        let waited = Elapsed::between_us(origin.arrived_us, self.now_us);
        self.statistics.count_wait(waited);
        if invocation.procedure == LOAD_AT_PARTITION {
            return self.execute_load(slot, header, invocation, waited, output);
        }
        // The thread that read the call found it in its own catalog; one that it was sent to
        // looks again, for the catalog may have changed on the way.
        let procedure = match origin.thread == self.thread && origin.weight == 0 {
            true => self.catalog.procedures().get(origin.procedure as usize),
            false => self.catalog.called(origin.procedure, invocation.procedure),
        };
        let Replica { site, statistics, .. } = &mut self.replicas[slot];
        let reads = procedure.is_some_and(|procedure| procedure.definition.read_only);
        let options = &self.facts.options;
        let of_query =
            reads.then(|| options.time_limit(invocation.query_timeout_ms, origin.caller()));
        site.limit_call(reads, of_query.flatten());
        run_invocation(site, procedure, statistics, header, invocation, waited, output)
    }

    /// Runs a call that came from another thread or waited, and answers it.
    pub(super) fn run_held(&mut self, slot: Slot, header: &EntryHeader, call: HeldCall) {
        let KeptAnswer { status, frame, entry } = self.execute_held(slot, header, &call);
        let origin = call.origin();
        self.answer_when_safe((slot, entry), ForwardedAnswer { origin, status, frame });
        if let HeldCall::Invocation(call) | HeldCall::Via(ViaCall { call, .. }) = call {
            self.outbox.spare.give_back(call.body);
        }
    }

    pub(super) fn execute_held(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        call: &HeldCall,
    ) -> KeptAnswer {
        let mut frame = self.outbox.spare.take();
        let status = match call {
            HeldCall::Invocation(call) | HeldCall::Via(ViaCall { call, .. }) => {
                let invocation = Invocation::decode(&call.body)
                    .expect("the connection's thread decoded it before");
                self.execute(slot, header, call.origin, &invocation, &mut frame)
            }
            HeldCall::AdHoc(call) => {
                let start = response::begin(&mut frame);
                let Replica { site, statistics, .. } = &mut self.replicas[slot];
                site.limit_call(call.call.read_only, call.time_limit);
                let outcome = site.statements(header, &call.call, &mut frame);
                statistics.count_ad_hoc();
                let waited = Elapsed::between_us(call.origin.arrived_us, self.now_us);
                self.statistics.count_wait(waited);
                response::finish(&mut frame, start, call.origin.handle, &outcome, waited);
                outcome.failure.map_or(Status::Success, |failure| failure.status)
            }
        };
        KeptAnswer { status, frame, entry: self.replicas[slot].answer_position() }
    }

    /// Plans that a schema change overtook are made again. The call was let in before, so a pause
    /// that came since does not concern it.
    pub(super) fn plan_again(&mut self, origin: Origin, body: Arc<[u8]>) {
        let request = ControlRequest::Call { origin, admin: true, body };
        let control = self.control_thread();
        self.outbox.send(control, Envelope::Control(Box::new(request)));
    }

    /// A schema change overtook a call: it finds its way again.
    pub(super) fn dispatch_again(&mut self, origin: Origin, body: Arc<[u8]>) {
        if let Some(call) = self.find_way_again(origin, body) {
            let coordinator = self.coordinator_thread();
            self.send(coordinator, call);
        }
    }

    /// The same, but what is for the coordinator is given back.
    pub(super) fn find_way_again(&mut self, origin: Origin, body: Arc<[u8]>) -> Option<Envelope> {
        let invocation = Invocation::decode(&body).expect("it was decoded when it came");
        if invocation.procedure.starts_with('@') {
            self.plan_again(origin, Arc::clone(&body));
            return None;
        }
        let Some(procedure) = self.catalog.procedure(invocation.procedure) else {
            self.answer_failure(origin, &not_found(invocation.procedure));
            return None;
        };
        let origin = Origin { procedure: procedure.number, ..origin };
        match destination(procedure, &invocation, &self.facts.ring) {
            Destination::Multi => {
                let home = HomeOf::default();
                return self.call_for_coordinator(origin, &invocation, &body, &[], home);
            }
            Destination::Declared => match self.declared_partitions(&invocation) {
                Ok(declared) => {
                    let home = HomeOf::default();
                    let call =
                        self.call_for_coordinator(origin, &invocation, &body, &declared, home);
                    self.several.declared = declared;
                    return call;
                }
                Err(failure) => self.answer_failure(origin, &failure),
            },
            Destination::Home(home) => {
                let home = HomeOf::known(home);
                return self.call_for_coordinator(origin, &invocation, &body, &[], home);
            }
            Destination::Outside => {
                self.call_outside(origin, &invocation);
            }
            Destination::Refused(failure) => self.answer_failure(origin, &failure),
            Destination::Via(index, integer) => {
                let call = ForwardedCall { origin, body: body.to_vec() };
                let key = ViaKey { catalog_version: self.catalog.version() as u32, integer };
                self.send_via(ViaCall::new(call, key, IndexHop::Index, index));
            }
            Destination::Partition(partition) => {
                let call = ForwardedCall { origin, body: body.to_vec() };
                self.send(self.thread_of(partition), Envelope::Call(partition, call));
            }
        }
        None
    }

    /// System procedures: the few that concern the connection are answered here, the others by
    /// the control thread.
    fn system_call(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Taken {
        match SystemProcedure::find(invocation.procedure).map(|procedure| procedure.id) {
            Some(SystemProcedureId::Ping) => {
                write_ping(output, origin.handle);
                Taken::Refused
            }
            Some(SystemProcedureId::LoadSinglepartitionTable) => {
                self.load(origin, invocation, body, output)
            }
            Some(SystemProcedureId::Subscribe) => {
                self.subscribe(origin, invocation, output);
                Taken::Refused
            }
            // The control thread answers for those that there are not, too.
            _ => {
                let admin = self.connections.get(origin.connection).is_some_and(|c| c.admin);
                let at = match is_of_any_host(invocation) {
                    true => At::Host(self.facts.host),
                    false => At::Anywhere,
                };
                let origin = self.count_outstanding(origin, HEAVY_WEIGHT, at);
                let request = ControlRequest::Call { origin, admin, body: body.into() };
                let control = self.control_thread();
                self.outbox.send(control, Envelope::Control(Box::new(request)));
                Taken::Pending
            }
        }
    }

    fn subscribe(&mut self, origin: Origin, invocation: &Invocation<'_>, output: &mut Vec<u8>) {
        for parameter in invocation.parameters.iter() {
            let known = matches!(
                parameter,
                Ok(Parameter::Scalar(_, Datum::Text(lockstep_wire_volt::topology::TOPOLOGY_TOPIC)))
            );
            if !known {
                let topic = match parameter {
                    Ok(Parameter::Scalar(_, value)) => value.to_string(),
                    _ => "?".to_string(),
                };
                let message = format!("Parameter \"{topic}\" is not recognized/supported");
                return refuse(output, &origin, &Failure::graceful(message));
            }
        }
        if let Some(connection) = self.connections.get(origin.connection) {
            connection.subscribed = true;
        }
        response::write_simple(output, origin.handle, Status::Success, None);
    }

    /// The call will be answered later: it counts among those that its connection waits for.
    pub(super) fn count_outstanding(&mut self, origin: Origin, weight: u16, at: At) -> Origin {
        if let Some(connection) = self.connections.get(origin.connection) {
            connection.outstanding += u32::from(weight);
            connection.unanswered += 1;
        }
        self.note_handed(Origin { weight, ..origin }, at)
    }

    /// Sends to another thread, or to this one: what a thread sends itself it takes in the same
    /// round, after the sockets.
    pub(super) fn send(&mut self, thread: ThreadId, message: Envelope) {
        if thread == self.thread {
            self.own_messages.push(message);
        } else if message.is_urgent() {
            let is_awaited = message.is_of_a_round();
            self.outbox.send_urgent(thread, message);
            if is_awaited {
                self.outbox.show_urgent();
            }
        } else {
            self.outbox.send(thread, message);
        }
    }
}

/// Appends a failure.
pub(super) fn refuse(output: &mut Vec<u8>, origin: &Origin, failure: &Failure) {
    let text = Some(failure.message.as_str());
    response::write_simple(output, origin.handle, failure.status, text);
}
