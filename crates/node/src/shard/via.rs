//! Calls that a global index leads to their row, carried between threads: what becomes of one
//! at a partition is decided in [`lockstep_host::index_hops`].

use super::calls::Taken;
use super::handed::At;
use super::{HeldCall, Shard, Slot};
use crate::message::{
    AdHocCall, Envelope, ForwardedCall, MultiOrigin, MultiRequest, Origin, PARTITION_WEIGHT,
    ViaCall,
};
use lockstep_host::catalog::not_found;
use lockstep_host::index_hops::{self, HopResult, HopTurn, ViaKey};
use lockstep_host::partition;
use lockstep_host::routing_values::index_partition;
use lockstep_host::several::HomeOf;
use lockstep_site::{Home, IndexHop, MultiWork, ViaNext, ViaStep};
use lockstep_txn::{Admission, EntryHeader};
use lockstep_types::PartitionId;
use lockstep_wire_volt::Invocation;

/// A call that was decoded before.
fn decoded(body: &[u8]) -> Invocation<'_> {
    Invocation::decode(body).expect("it was decoded when it came")
}

impl Shard {
    /// A call of a connection of this thread that an index leads to its row. What can be answered
    /// at once is appended to `output`.
    pub(super) fn call_via(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
        body: &[u8],
        (index, integer): (PartitionId, Option<i64>),
        output: &mut Vec<u8>,
    ) -> Taken {
        let key = ViaKey { catalog_version: self.catalog.version() as u32, integer };
        let (mut hop, mut partition) = (IndexHop::Index, index);
        let mut speculates = None;
        let here = self.replicas.slot_of(index);
        let admission = match here {
            Some(slot) => self.replicas[slot].site.admit(self.now_us),
            None => Admission::Hold,
        };
        // The index is asked on the spot, if nothing is in the way.
        if let (Some(slot), Admission::Run(header) | Admission::Speculate(header)) =
            (here, &admission)
        {
            match self.hop_result(slot, header, hop, key, &origin, || *invocation) {
                HopResult::Step(ViaStep::Forward(row)) => (hop, partition) = (IndexHop::Row, row),
                HopResult::Step(ViaStep::Run) if matches!(admission, Admission::Run(_)) => {
                    self.execute_and_answer(slot, header, origin, invocation, output);
                    return Taken::Answered(slot);
                }
                HopResult::Step(ViaStep::Run) => speculates = Some(*header),
                // As a message to this thread: the connection that is being read takes no answer
                // but in `output`.
                HopResult::Home
                | HopResult::Reroute
                | HopResult::Refused(_)
                | HopResult::Step(ViaStep::LookUpAgain) => {}
            }
        }
        let copy = self.outbox.spare.copy_of(body);
        let origin = self.count_outstanding(origin, PARTITION_WEIGHT, At::Anywhere);
        let via = ViaCall::new(ForwardedCall { origin, body: copy }, key, hop, partition);
        match (here, speculates, admission) {
            (Some(slot), Some(header), _) => {
                partition::speculate(&mut self.at_slot(slot), header, HeldCall::Via(via));
            }
            (Some(slot), None, Admission::Hold) => {
                partition::hold(&mut self.at_slot(slot), HeldCall::Via(via));
            }
            _ => self.send_via(via),
        }
        Taken::Pending
    }

    pub(super) fn send_via(&mut self, call: ViaCall) {
        self.send(self.thread_of(call.partition()), Envelope::Via(call));
    }

    /// It is the call's turn at a replica: it goes on, or is given back to run here. What it saw of
    /// undecided transactions while it was led on is looked at again where it runs.
    pub(super) fn hop_call(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        mut via: ViaCall,
    ) -> Option<HeldCall> {
        let origin = via.call.origin;
        let body = via.call.body.as_slice();
        let way = self.hop_result(slot, header, via.hop, via.key(), &origin, || decoded(body));
        if header.repeated && !matches!(way, HopResult::Step(ViaStep::Run)) {
            self.withdraw(slot, header, &origin, &decoded(body));
        }
        match way {
            HopResult::Step(step) => {
                match via.after(step, self.facts.options.max_index_lookups.get()) {
                    ViaNext::Run => return Some(HeldCall::Via(via)),
                    ViaNext::Row(partition) => {
                        via.go_on_to(IndexHop::Row, partition);
                        self.send_via(via);
                    }
                    ViaNext::Index => self.ask_again(via),
                    ViaNext::GiveUp => self.route_in_transaction(via.call, None),
                }
            }
            HopResult::Home => {
                let partition = self.replicas[slot].site.partition();
                let home = Home { partition, addresses_partition: false };
                self.route_in_transaction(via.call, Some(home));
            }
            HopResult::Reroute => {
                let ForwardedCall { origin, body } = via.call;
                self.dispatch_again(origin, body.into());
            }
            HopResult::Refused(failure) => self.answer_failure(origin, &failure),
        }
        None
    }

    /// A call has run here, and now, after an abort, it turns out to belong elsewhere.
    #[cold]
    fn withdraw(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        origin: &Origin,
        invocation: &Invocation<'_>,
    ) {
        let procedure = self.catalog.called(origin.procedure, invocation.procedure);
        // No catalog changes after speculation: it is the one that the call ran by.
        let read_only = procedure.is_none_or(|procedure| procedure.definition.read_only);
        self.replicas[slot].site.withdraw(header, read_only);
    }

    /// The next step of a call. Its bytes are read only where `key` does not say enough.
    #[inline]
    fn hop_result<'i>(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        hop: IndexHop,
        key: ViaKey,
        origin: &Origin,
        invocation: impl FnOnce() -> Invocation<'i>,
    ) -> HopResult {
        let turn = HopTurn { header, hop, key, number: origin.procedure };
        let site = &mut self.replicas[slot].site;
        index_hops::hop_result(site, &self.catalog, &self.facts.ring, turn, invocation)
    }

    /// It is the turn of ad hoc statements at a replica: they are given back to run here, or
    /// the only one goes on to where a global index says that its row is.
    pub(super) fn hop_ad_hoc(
        &mut self,
        slot: Slot,
        header: &EntryHeader,
        mut call: Box<AdHocCall>,
    ) -> Option<HeldCall> {
        let Some(via) = &mut call.via else { return Some(HeldCall::AdHoc(call)) };
        let site = &mut self.replicas[slot].site;
        let next = via.next(site, header, self.facts.options.max_index_lookups.get());
        if matches!(next, Ok(ViaNext::Run)) {
            return Some(HeldCall::AdHoc(call));
        }
        site.withdraw(header, call.call.read_only);
        match next {
            Err(error) => self.answer_failure(call.origin, &error.to_failure()),
            Ok(ViaNext::Row(partition)) => {
                via.hop = IndexHop::Row;
                self.send(self.thread_of(partition), Envelope::AdHoc(partition, call));
            }
            Ok(ViaNext::Index) => {
                let index = via.index;
                via.hop = IndexHop::Index;
                self.send(self.thread_of(index), Envelope::AdHoc(index, call));
            }
            Ok(ViaNext::GiveUp | ViaNext::Run) => self.ask_in_transaction(*call),
        }
        None
    }

    /// The row has moved as often as the statement may look for it: the coordinator asks the index
    /// within a transaction.
    #[cold]
    fn ask_in_transaction(&mut self, call: AdHocCall) {
        let AdHocCall { origin, body, catalog_version, time_limit, call, .. } = call;
        let request = MultiRequest {
            origin: MultiOrigin { origin, body: Some(body) },
            procedure_number: origin.procedure,
            catalog_version,
            time_limit,
            declared: Vec::new(),
            home: None,
            led: None,
            work: MultiWork::Statements(call),
        };
        let coordinator = self.coordinator_thread();
        self.send(coordinator, Envelope::Multi(Box::new(request)));
    }

    /// The row has moved while the call was on its way.
    fn ask_again(&mut self, mut via: ViaCall) {
        let invocation = decoded(&via.call.body);
        let index = match self.catalog.procedure(invocation.procedure) {
            Some(procedure) => index_partition(procedure, &invocation, &self.facts.ring),
            None => Err(not_found(invocation.procedure)),
        };
        match index {
            Ok(Some((index, _))) => {
                via.go_on_to(IndexHop::Index, index);
                self.send_via(via);
            }
            Ok(None) => {
                let ForwardedCall { origin, body } = via.call;
                self.dispatch_again(origin, body.into());
            }
            Err(failure) => self.answer_failure(via.call.origin, &failure),
        }
    }

    /// The coordinator takes over: the call changes index entries that may not be where its row
    /// is, or the row has moved as often as calls may look for it. If the row is not where it was
    /// found, the index is asked within the transaction.
    #[cold]
    fn route_in_transaction(&mut self, call: ForwardedCall, home: Option<Home>) {
        let ForwardedCall { origin, body } = call;
        let invocation = decoded(&body);
        let procedure = self.catalog.procedure(invocation.procedure);
        let Some(procedure) = procedure.filter(|procedure| procedure.via.is_some()) else {
            return self.dispatch_again(origin, body.into());
        };
        let led = index_hops::asked_in_transaction(procedure, &invocation);
        match led {
            Err(failure) => self.answer_failure(origin, &failure),
            Ok(led) => {
                self.call_coordinator(origin, &invocation, &body, &[], HomeOf { home, led });
            }
        }
    }
}
