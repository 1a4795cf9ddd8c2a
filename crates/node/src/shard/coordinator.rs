//! Multi-partition transactions: the coordinator's part, on the thread that the placement names.

use super::calls::Taken;
use super::handed::At;
use super::replica::Replicas;
use super::{HeldCall, HostFacts, KeptAnswer, Shard};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::mailbox::Bell;
use crate::message::{
    ControlRequest, Envelope, ForwardedAnswer, HEAVY_WEIGHT, MultiOrigin, Origin,
};
use crate::statistics::EndedCall;
use crate::threads::ProcedureThreads;
use crate::transaction_counters::EndedTransaction;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::coordinator::{self, CoordinatorHost, Overtaken};
use lockstep_host::destination::declare_partitions;
use lockstep_host::placement::Placement;
use lockstep_host::several::{self, CoordinatorCall, HomeOf, SeveralCall};
use lockstep_host::unavailable::end_transactions;
use lockstep_site::fence::EndedChange;
use lockstep_site::{
    Coordinator, CoordinatorOutput, Finished, FromPartition, OneRoundCalls, PartitionEffect,
    WaitingCall,
};
use lockstep_types::{Failure, PartitionId, Status, TransactionId};
use lockstep_wire_volt::{Invocation, response};
use std::sync::Arc;

/// Calls of one round that are kept for others.
const KEPT_CALLS: usize = 4096;

pub(super) type Output = CoordinatorOutput<MultiOrigin, Arc<HostCatalog>>;
pub(super) type Effect = PartitionEffect<HeldCall, KeptAnswer, Arc<HostCatalog>>;

/// The coordinator of multi-partition transactions, at the thread that has it.
pub(super) struct CoordinatorRole {
    pub(super) coordinator: Coordinator<MultiOrigin, Arc<HostCatalog>>,
    /// The threads of its blocking procedures.
    threads: ProcedureThreads,
    /// An empty list, kept for its memory.
    outputs: Vec<Output>,
}

impl CoordinatorRole {
    /// For a thread with these replicas. `last` is the last transaction id of the coordinator
    /// before.
    pub(super) fn new(
        facts: &HostFacts,
        (replicas, is_replicated): (&Replicas, bool),
        (last, catalog_version): (TransactionId, u64),
        bell: Arc<Bell>,
    ) -> CoordinatorRole {
        let limits = crate::catalog::site_limits(&facts.options);
        let mut coordinator = Coordinator::new(facts.ring.clone(), &limits);
        coordinator.set_stopwatch(clock::stopwatch_for(&facts.callers), clock::monotonic_ns);
        coordinator.serve_last(replicas.near());
        coordinator.go_on_behind(last, catalog_version);
        if replicas.gate_answers() || is_replicated {
            coordinator.await_durable_decisions();
        }
        if is_replicated {
            coordinator.remember_outcomes(limits.outcomes_kept());
        }
        let threads = ProcedureThreads::new(facts.options.max_procedure_threads.to_usize(), bell);
        CoordinatorRole { coordinator, threads, outputs: Vec::new() }
    }

    /// Whether no transaction is in progress.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.coordinator.is_idle()
    }

    /// Whether a blocking procedure has reported something.
    #[inline]
    pub(super) fn have_threads_said(&self) -> bool {
        self.threads.have_said()
    }

    /// An empty list, to be put back where it is from.
    pub(super) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }
}

/// Makes the calls of this thread's connections that the coordinator gets.
pub(super) struct SeveralCalls {
    /// Makes those of one round.
    pub(super) one_rounds: OneRoundCalls,
    /// An empty list, kept for its memory.
    pub(super) declared: Vec<PartitionId>,
}

impl SeveralCalls {
    pub(super) fn new(facts: &HostFacts) -> SeveralCalls {
        let stop_everything = crate::catalog::site_limits(&facts.options).stop_everything;
        let one_rounds = OneRoundCalls::new(KEPT_CALLS, stop_everything);
        SeveralCalls { one_rounds, declared: Vec::new() }
    }
}

impl CoordinatorHost for Shard {
    type Origin = MultiOrigin;
    type Catalog = Arc<HostCatalog>;

    #[inline]
    fn coordinator(&mut self) -> &mut Coordinator<MultiOrigin, Arc<HostCatalog>> {
        &mut self.coordinator_role().coordinator
    }

    #[inline(always)]
    fn coordinator_output(&mut self, output: Output) {
        match output {
            CoordinatorOutput::Send(message) => {
                let thread = self.thread_of(message.partition);
                self.send(thread, Envelope::ToPartition(message));
            }
            CoordinatorOutput::Finished(finished) => self.finish_multi(*finished),
            CoordinatorOutput::OneRoundFinished(finished) => self.finish_one_round(finished),
            CoordinatorOutput::Thread { transaction, message } => {
                self.coordinator_role().threads.tell(transaction, message);
            }
            CoordinatorOutput::Stale(_) | CoordinatorOutput::OneRoundStale(..) => {
                unreachable!("overtaken calls are planned again")
            }
        }
    }

    #[cold]
    fn plan_overtaken(
        &mut self,
        overtaken: Overtaken<MultiOrigin>,
    ) -> Option<CoordinatorCall<MultiOrigin, Arc<HostCatalog>>> {
        let (origin, body) = match overtaken {
            Overtaken::Planned(MultiOrigin { origin, body }) => {
                (origin, body.expect("a call that can be overtaken has its invocation"))
            }
            Overtaken::OneRound(waiting, call) => (waiting.origin, call.invocation().into()),
        };
        match self.find_way_again(origin, body)? {
            Envelope::Multi(call) => Some(CoordinatorCall::Multi(call)),
            Envelope::OneRound(origin, call) => {
                Some(CoordinatorCall::OneRound(MultiOrigin { origin, body: None }, call))
            }
            other => {
                self.own_messages.push(other);
                None
            }
        }
    }

    fn took_over(&mut self, ended: Vec<EndedChange>) {
        let committed = |it: &EndedChange| it.committed && it.change.snapshot.is_none();
        let is_made = ended.iter().any(committed);
        let catalog_version = self.coordinator().catalog_version();
        tracing::info!(is_made, catalog_version, "the coordinator of transactions has taken over");
        self.tell_control_of_schema(is_made);
    }

    #[cold]
    fn refuse_waiting(&mut self, origin: MultiOrigin, is_schema: bool) {
        // In the same order as at the end of a change that was begun.
        if is_schema {
            self.tell_control_of_schema(false);
        }
        self.refuse_multi(origin.origin);
    }
}

impl Shard {
    #[inline]
    fn coordinator_role(&mut self) -> &mut CoordinatorRole {
        self.coordinator.as_mut().expect("what concerns the coordinator goes to its thread")
    }

    /// A call for the coordinator arrived.
    pub(super) fn for_coordinator(&mut self, call: CoordinatorCall<MultiOrigin, Arc<HostCatalog>>) {
        let mut outputs = self.coordinator_role().take_outputs();
        coordinator::submit(self, call, &mut outputs);
        self.coordinator_role().outputs = outputs;
    }

    /// A multi-partition procedure goes to the coordinator.
    pub(super) fn call_coordinator(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        declared: &[PartitionId],
        home: HomeOf,
    ) {
        let call = self.call_for_coordinator(origin, invocation, body, declared, home);
        if let Some(call) = call {
            let coordinator = self.coordinator_thread();
            self.send(coordinator, call);
        }
    }

    /// The call of a multi-partition procedure, as the coordinator gets it.
    pub(super) fn call_for_coordinator(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        declared: &[PartitionId],
        home: HomeOf,
    ) -> Option<Envelope> {
        let options = &self.facts.options;
        let call = SeveralCall {
            invocation,
            body,
            declared,
            number: origin.procedure,
            time_limit: options.time_limit(invocation.query_timeout_ms, origin.caller()),
            near: self.replicas.near(),
        };
        let waiting = |body| MultiOrigin { origin, body };
        let (catalog, ring) = (&self.catalog, &self.facts.ring);
        let made = several::call_for_coordinator(
            catalog,
            ring,
            &mut self.several.one_rounds,
            &call,
            home,
            waiting,
        );
        Some(match made? {
            CoordinatorCall::OneRound(waiting, call) => Envelope::OneRound(waiting.origin, call),
            CoordinatorCall::Multi(call) => Envelope::Multi(call),
        })
    }

    /// A call that takes the partitions it needs goes to the coordinator.
    pub(super) fn call_several(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        home: HomeOf,
    ) -> Taken {
        let at = At::Host(self.coordinator_thread().host());
        let origin = self.count_outstanding(origin, HEAVY_WEIGHT, at);
        self.call_coordinator(origin, invocation, body, &[], home);
        Taken::Pending
    }

    /// A call of a procedure that declares its partitions goes to the coordinator, or is refused.
    pub(super) fn call_declared(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        output: &mut Vec<u8>,
    ) -> Taken {
        match self.declared_partitions(invocation) {
            Ok(declared) => {
                let at = At::Host(self.coordinator_thread().host());
                let origin = self.count_outstanding(origin, HEAVY_WEIGHT, at);
                let home = HomeOf::default();
                self.call_coordinator(origin, invocation, body, &declared, home);
                self.several.declared = declared;
                Taken::Pending
            }
            Err(failure) => self.refuse_counted(output, &origin, &failure),
        }
    }

    /// The partitions that the call's procedure declares, if any, in a list to be given back.
    pub(super) fn declared_partitions(
        &mut self,
        invocation: &Invocation<'_>,
    ) -> Result<Vec<PartitionId>, Failure> {
        let mut declared = std::mem::take(&mut self.several.declared);
        declared.clear();
        if let Some(procedure) = self.catalog.procedure(invocation.procedure) {
            declare_partitions(procedure, invocation, &self.facts.ring, &mut declared)?;
        }
        Ok(declared)
    }

    /// Too many calls wait for the coordinator.
    #[cold]
    pub(super) fn refuse_multi(&mut self, origin: Origin) {
        let limit = self.facts.options.max_waiting_multi.get();
        let text = format!(
            "{limit} multi-partition calls wait already (option max_waiting_multi); try again \
             later."
        );
        self.answer_failure(origin, &Failure::new(Status::ServerUnavailable, text));
    }

    /// A partition answered.
    pub(super) fn partition_answered(&mut self, answer: FromPartition) {
        let mut outputs = self.coordinator_role().take_outputs();
        coordinator::receive(self, answer, &mut outputs);
        self.coordinator_role().outputs = outputs;
        if self.moves.is_any() {
            self.attend_to_moves();
        }
    }

    /// Time has passed: rounds that take too long end.
    pub(super) fn expire_rounds(&mut self) {
        let Some(role) = &mut self.coordinator else { return };
        let mut outputs = role.take_outputs();
        role.coordinator.expire(self.now_us, &mut outputs);
        self.carry_out(outputs);
        if self.moves.is_any() {
            self.attend_to_moves();
        }
    }

    /// Partitions cannot be served: the transactions here that are in progress end.
    pub(super) fn end_transactions(&mut self, partitions: &[PartitionId]) {
        let Some(role) = &mut self.coordinator else { return };
        let mut outputs = role.take_outputs();
        end_transactions(self, partitions, &mut outputs);
        self.coordinator_role().outputs = outputs;
    }

    pub(super) fn carry_out(&mut self, mut outputs: Vec<Output>) {
        coordinator::carry_out(self, &mut outputs);
        self.coordinator_role().outputs = outputs;
    }

    /// The coordinator hears what the threads of its procedures said.
    #[inline]
    pub(super) fn hear_threads(&mut self) {
        while let Some((transaction, said)) =
            self.coordinator.as_mut().and_then(|role| role.threads.hear())
        {
            let now_us = self.now_us;
            let mut outputs = Vec::new();
            self.coordinator().hear_thread(transaction, said, now_us, &mut outputs);
            self.carry_out(outputs);
        }
    }

    fn finish_multi(&mut self, finished: Finished<MultiOrigin>) {
        let origin = finished.origin.origin;
        let mut frame = self.outbox.spare.take();
        let start = response::begin(&mut frame);
        frame.extend_from_slice(&finished.tables);
        let waited = Elapsed::between_us(origin.arrived_us, self.now_us);
        let outcome = &finished.outcome;
        // More clients show the status text of a change of the schema than the application's.
        let advice = outcome.application_text.as_deref().filter(|_| finished.is_schema);
        let warning = advice.and_then(lockstep_plan::warning_of);
        match warning {
            Some(_) => {
                let handle = origin.handle;
                response::finish_with_text(&mut frame, start, handle, outcome, warning, waited);
            }
            None => response::finish(&mut frame, start, origin.handle, outcome, waited),
        }
        let status = finished.outcome.failure.as_ref().map_or(Status::Success, |f| f.status);
        let transaction = EndedTransaction {
            partition_count: finished.partition_count,
            of_partitions: self.facts.partition_count,
            rounds: finished.rounds,
            enlargements: finished.enlargements,
        };
        let ended = EndedCall {
            transaction: (!finished.is_schema).then_some(transaction),
            result_bytes: finished.tables.len(),
            parameter_bytes: finished.parameter_bytes,
            failure: finished.outcome.failure.as_ref().map(|failure| failure.status),
        };
        self.replicas.first().statistics.count_multi(&origin, &ended, self.now_us);
        if finished.is_schema {
            self.tell_control_of_schema(status == Status::Success);
            let is_clients = origin.thread != self.control_thread();
            if status == Status::Success && is_clients && self.placement.is_replicated() {
                return self.answer_by_control(ForwardedAnswer { origin, status, frame });
            }
        }
        self.answer(origin, status, frame);
    }

    /// The coordinator may have come here, or gone elsewhere, or partitions have other leaders.
    pub(super) fn follow_coordinator(&mut self, before: &Placement) {
        let placement = Arc::clone(&self.placement);
        let stays = placement.coordinator() == self.thread;
        if !stays || placement.has_coordinator_moved(before) {
            self.end_coordinator();
        }
        if stays && self.coordinator.is_none() {
            let position = (TransactionId::default(), self.catalog.version());
            let bell = Arc::clone(&self.bell);
            let mut role =
                CoordinatorRole::new(&self.facts, (&self.replicas, true), position, bell);
            role.coordinator.take_over(placement.epoch());
            self.coordinator = Some(role);
            self.begin_with_moves();
            tracing::info!(epoch = placement.epoch(), "the coordinator of transactions is here");
        }
        if let Some(role) = &mut self.coordinator {
            let partitions = (0..placement.partition_count()).map(PartitionId);
            let is_lost = |of: &PartitionId| placement.is_leader_lost_since(before, *of);
            partitions.filter(is_lost).for_each(|lost| role.coordinator.leader_lost(lost));
        }
        self.fence_partitions(placement.has_other_coordinator(before));
        self.follow_coordinator_move();
    }

    /// If the coordinator was here: calls that have not begun go where it is now.
    fn end_coordinator(&mut self) {
        let Some(mut role) = self.coordinator.take() else { return };
        let epoch = self.placement.epoch();
        tracing::info!(epoch, "the coordinator of transactions was moved from here");
        if !self.placement.is_up(self.facts.host) {
            return;
        }
        for waiting in role.coordinator.take_waiting() {
            self.bounce(match waiting {
                WaitingCall::Planned(call) => Envelope::Multi(Box::new(call)),
                WaitingCall::OneRound(MultiOrigin { origin, .. }, call) => {
                    Envelope::OneRound(origin, call)
                }
            });
        }
    }

    /// A partition reports in a placement of which this thread has not heard yet: it is about to,
    /// and the answer goes to the leader that the placement names.
    pub(super) fn wait_for_placement(&mut self, report: FromPartition) {
        self.waiting_calls.push(Envelope::FromPartition(report));
    }

    /// Has the control thread answer a change, when all threads of the cluster go by its catalog.
    fn answer_by_control(&mut self, answer: ForwardedAnswer) {
        let catalog_version = self.coordinator().catalog_version();
        let answer = Box::new(answer);
        let request = ControlRequest::SchemaAnswer { catalog_version, answer };
        let control = self.control_thread();
        self.outbox.send(control, Envelope::Control(Box::new(request)));
    }

    /// Before the response to the change is sent: each control thread takes this before anything
    /// that the response leads to.
    fn tell_control_of_schema(&mut self, committed: bool) {
        let catalog_version = self.coordinator().catalog_version();
        let placement = &self.placement;
        for host in placement.hosts() {
            let decided = ControlRequest::SchemaDecided { committed, catalog_version };
            let control = placement.control_thread_of(host);
            self.outbox.send_urgent(control, Envelope::Control(Box::new(decided)));
        }
        self.outbox.show_urgent();
    }
}

/// Who waits for a call.
pub(super) fn origin_of(call: &Envelope) -> Origin {
    match call {
        Envelope::Call(_, call) => call.origin,
        Envelope::Via(via) => via.call.origin,
        Envelope::AdHoc(_, call) => call.origin,
        Envelope::Multi(call) => call.origin.origin,
        Envelope::OneRound(origin, _) => *origin,
        _ => unreachable!("calls are refused"),
    }
}
