//! Calls routed by several parameters, and those that a global index leads to their row.

use super::{HeldCall, HostFacts, Shard};
use crate::catalog::HostProcedure;
use crate::execution::not_found;
use crate::message::{Envelope, ForwardedCall, PARTITION_WEIGHT, ViaCall};
use crate::routing;
use lockstep_plan_ir::procedure::RoutingColumn;
use lockstep_site::{Home, ViaLeg, ViaStep};
use lockstep_txn::{Admission, EntryHeader};
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::{Datum, Failure, Parameter, PartitionId, Status};
use lockstep_wire_volt::Invocation;

/// Calls `body` with the values of a call's routing parameters; with none of them when the call's
/// bytes are no parameters, which its execution will say.
///
/// # Errors
/// A value cannot be one of its column.
pub(super) fn with_routing_values<T>(
    columns: &[RoutingColumn],
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    body: impl FnOnce(&[Datum<'_>]) -> T,
) -> Result<T, Failure> {
    let mut bytes = [const { Vec::new() }; MAX_KEY_PARTS];
    let mut values = [Datum::Null; MAX_KEY_PARTS];
    for ((column, bytes), value) in columns.iter().zip(&mut bytes).zip(&mut values) {
        let refused = |value: &str, reason: &str| {
            let definition = &procedure.definition;
            Err(routing::misrouted(definition, value, column.column_type, reason))
        };
        *value = match invocation.parameters.get(usize::from(column.parameter)) {
            Some(Ok(parameter)) => {
                match routing::hashed_value(&parameter, column.column_type, bytes) {
                    Ok(value) => value,
                    Err(reason) => return refused(&describe(&parameter), &reason),
                }
            }
            Some(Err(_)) => return Ok(body(&[])),
            None => return refused("null", "the call does not have that parameter"),
        };
    }
    Ok(body(&values[..columns.len().min(MAX_KEY_PARTS)]))
}

/// The partition that a call's routing parameters name together.
///
/// # Errors
/// As for [`with_routing_values`].
pub(super) fn partition_by_several(
    columns: &[RoutingColumn],
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
) -> Result<PartitionId, Failure> {
    with_routing_values(columns, procedure, invocation, |values| match values.is_empty() {
        true => PartitionId(0),
        false => facts.ring.partition_of_values(values.iter().copied()),
    })
}

/// Whether the key of a call is of the types that its index holds, so that the index can be asked.
fn fits(columns: &[RoutingColumn], keys: &[Datum<'_>]) -> bool {
    keys.iter().zip(columns).all(|(key, column)| match key {
        Datum::Null => true,
        Datum::Int(_) => column.column_type.is_integer(),
        Datum::Text(_) => column.column_type == lockstep_types::SqlType::Varchar,
        Datum::Bytes(_) => column.column_type == lockstep_types::SqlType::Varbinary,
        _ => false,
    })
}

/// The partition whose index says where a call runs; `None` if the index cannot be asked for this
/// key.
///
/// # Errors
/// As for [`with_routing_values`].
pub(super) fn index_partition(
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
) -> Result<Option<PartitionId>, Failure> {
    let Some(via) = &procedure.via else { return Ok(None) };
    with_routing_values(&via.columns, procedure, invocation, |keys| {
        let asks = !keys.is_empty() && fits(&via.columns, keys);
        asks.then(|| facts.ring.partition_of_values(keys.iter().copied()))
    })
}

pub(super) fn describe(parameter: &Parameter<'_>) -> String {
    match parameter {
        Parameter::Scalar(_, value) => value.to_string(),
        Parameter::Array(_) => "array".to_string(),
        Parameter::Table(_) => "table".to_string(),
    }
}

/// What becomes of a call at this partition.
enum Way {
    Step(ViaStep),
    /// It runs here, as a transaction that changes index entries elsewhere.
    Home,
    /// The catalog has changed: it finds its way anew.
    Anew,
    Refused(Failure),
}

impl Shard {
    /// A call of a connection of this thread that an index leads to its row.
    pub(super) fn call_via(
        &mut self,
        origin: crate::message::Origin,
        body: &[u8],
        index: PartitionId,
    ) {
        let mut copy = self.spare_buffer();
        copy.extend_from_slice(body);
        let origin = self.count_outstanding(origin, PARTITION_WEIGHT);
        let call = ForwardedCall { origin, body: copy };
        self.send_via(ViaCall { call, leg: ViaLeg::Index, lookups: 0 }, index);
    }

    pub(super) fn send_via(&mut self, call: ViaCall, partition: PartitionId) {
        // Also to itself by message: the connection may be read at the moment, and takes no answer.
        self.send(partition.index(), Envelope::Via(call));
    }

    /// A call on its way arrives at this thread's partition.
    pub(super) fn via_call(&mut self, via: ViaCall) {
        match self.site.admit(self.now_us) {
            Admission::Run(header) => self.run_via(&header, via, false),
            Admission::Speculate(header) => self.run_via(&header, via, true),
            Admission::Hold => self.hold(HeldCall::Via(via)),
        }
    }

    /// It is the call's turn at this partition: it runs here or goes on. What it saw of
    /// undecided transactions while it was led on is looked at again where it runs.
    pub(super) fn run_via(&mut self, header: &EntryHeader, mut via: ViaCall, speculates: bool) {
        let way = self.way_of(&via);
        if header.repeated && !matches!(way, Way::Step(ViaStep::Run)) {
            self.withdraw(header, &via);
        }
        match way {
            Way::Step(ViaStep::Run) if speculates => self.speculate(*header, HeldCall::Via(via)),
            Way::Step(ViaStep::Run) => self.run_held(header, HeldCall::Via(via)),
            Way::Step(ViaStep::HandOn(partition)) => {
                via.leg = ViaLeg::Row;
                via.lookups += 1;
                self.send_via(via, partition);
            }
            Way::Step(ViaStep::AskAgain) => self.ask_again(via),
            Way::Home => {
                let partition = PartitionId(self.index as u32);
                self.call_at_home(via.call, Home { partition, addresses_partition: false });
            }
            Way::Anew => {
                let ForwardedCall { origin, body } = via.call;
                self.dispatch_again(origin, body.into());
            }
            Way::Refused(failure) => self.answer_failure(via.call.origin, &failure),
        }
    }

    /// A call has run here, and now, behind an abort, it turns out to belong elsewhere.
    #[cold]
    fn withdraw(&mut self, header: &EntryHeader, via: &ViaCall) {
        let invocation = Invocation::decode(&via.call.body).expect("it was decoded when it came");
        let procedure = self.catalog.procedure(invocation.procedure);
        // No catalog changes behind speculation: it is the one that the call ran by.
        let read_only = procedure.is_none_or(|procedure| procedure.definition.read_only);
        self.site.withdraw(header, read_only);
    }

    fn way_of(&self, via: &ViaCall) -> Way {
        let invocation = Invocation::decode(&via.call.body).expect("it was decoded when it came");
        let Some(procedure) = self.catalog.procedure(invocation.procedure) else {
            return Way::Refused(not_found(invocation.procedure));
        };
        let Some(route) = &procedure.via else { return Way::Anew };
        let step = with_routing_values(&route.columns, procedure, &invocation, |keys| {
            self.site.via_step(via.leg, route.entries, keys)
        });
        match step {
            Err(failure) => Way::Refused(failure),
            Ok(Err(error)) => Way::Refused(error.to_failure()),
            Ok(Ok(ViaStep::Run))
                if procedure.keeps_global_indexes && self.facts.partition_count > 1 =>
            {
                Way::Home
            }
            Ok(Ok(step)) => Way::Step(step),
        }
    }

    /// The row has moved while the call was on its way.
    fn ask_again(&mut self, mut via: ViaCall) {
        let limit = self.facts.options.max_index_lookups;
        if u64::from(via.lookups) >= limit {
            let text = format!(
                "The row that the call is for moved to another partition {limit} times while the \
                 call was on its way to it (option max_index_lookups). Nothing was changed; call \
                 again."
            );
            let failure = Failure::new(Status::ServerUnavailable, text);
            return self.answer_failure(via.call.origin, &failure);
        }
        let invocation = Invocation::decode(&via.call.body).expect("it was decoded when it came");
        let index = match self.catalog.procedure(invocation.procedure) {
            Some(procedure) => index_partition(procedure, &invocation, &self.facts),
            None => Err(not_found(invocation.procedure)),
        };
        via.leg = ViaLeg::Index;
        match index {
            Ok(Some(index)) => self.send_via(via, index),
            Ok(None) => {
                let ForwardedCall { origin, body } = via.call;
                self.dispatch_again(origin, body.into());
            }
            Err(failure) => self.answer_failure(via.call.origin, &failure),
        }
    }

    /// The row is here, and the call changes index entries that may be elsewhere.
    fn call_at_home(&mut self, call: ForwardedCall, home: Home) {
        let ForwardedCall { origin, body } = call;
        let invocation = Invocation::decode(&body).expect("it was decoded when it came");
        self.call_coordinator(origin, &invocation, &body, Vec::new(), Some(home));
    }
}
