//! Calls that are routed by a global index: the result of a hop at one partition.

use crate::catalog::{HostCatalog, HostProcedure, ViaRoute, not_found};
use crate::placement::Placement;
use crate::routing_values::with_routing_values;
use lockstep_site::{BoundStatement, IndexHop, Site, ViaStep};
use lockstep_txn::EntryHeader;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Failure, HashRing};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// The key that routes a call, so that its bytes need not be read again at each hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViaKey {
    /// The low half of the version of the catalog by which the call's procedure has the number in
    /// [`HopTurn::number`].
    pub catalog_version: u32,
    /// The key, if that is one integer.
    pub integer: Option<i64>,
}

/// A call's turn at a partition.
pub struct HopTurn<'a> {
    /// Its entry there.
    pub header: &'a EntryHeader,
    /// What is looked up there.
    pub hop: IndexHop,
    /// The key that routes it.
    pub key: ViaKey,
    /// Its procedure's number in the catalog of the thread that read the call.
    pub number: u32,
}

/// Whether a call that goes from host to host waits here: the host that sent it goes by a later
/// placement, of that epoch.
///
/// By the placement in force here the call could be sent on to a host that is lost. Nobody would
/// end it there: the host where it came in has ended the calls that could be at the lost one when
/// it heard of the loss, and this call came later.
#[inline]
pub fn waits_for_placement(epoch_of_sender: u64, placement: &Placement) -> bool {
    epoch_of_sender > placement.epoch()
}

/// The result of a hop at this partition.
pub enum HopResult {
    /// The step that the lookup gives.
    Step(ViaStep),
    /// It runs here, as a transaction that changes index entries elsewhere.
    Home,
    /// The catalog has changed: the call is routed again.
    Reroute,
    /// It cannot be routed.
    Refused(Failure),
}

/// The next step of a call whose turn it is at a partition. Its bytes are read only where the key
/// does not say enough.
#[inline]
pub fn hop_result<'i, H, A, C: Clone, O>(
    site: &mut Site<H, A, C>,
    catalog: &HostCatalog<O>,
    ring: &HashRing,
    turn: HopTurn<'_>,
    invocation: impl FnOnce() -> Invocation<'i>,
) -> HopResult {
    let HopTurn { header, hop, key, number } = turn;
    let (procedure, step) = match key.integer {
        Some(integer) if key.catalog_version == catalog.version() as u32 => {
            let procedure = &catalog.procedures()[number as usize];
            let Some(via) = &procedure.via else { return HopResult::Reroute };
            (procedure, Ok(site.via_step(header, hop, &via.route, &[Datum::Int(integer)])))
        }
        _ => {
            let invocation = invocation();
            let Some(procedure) = catalog.called(number, invocation.procedure) else {
                return HopResult::Refused(not_found(invocation.procedure));
            };
            let Some(via) = &procedure.via else { return HopResult::Reroute };
            let step = with_routing_values(&via.columns, procedure, &invocation, |keys| {
                site.via_step(header, hop, &via.route, keys)
            });
            (procedure, step)
        }
    };
    match step {
        Err(failure) => HopResult::Refused(failure),
        Ok(Err(error)) => HopResult::Refused(error.to_failure()),
        Ok(Ok(ViaStep::Run)) if procedure.keeps_global_indexes && ring.partition_count() > 1 => {
            HopResult::Home
        }
        Ok(Ok(step)) => HopResult::Step(step),
    }
}

/// The question that a transaction asks in place of a call that is led to its row: `None` for the
/// only statement of a procedure without a partition, which asks by itself.
///
/// # Errors
/// A routing parameter cannot be hashed.
pub fn asked_in_transaction<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
) -> Result<Option<BoundStatement>, Failure> {
    let Some(via) = procedure.via.as_ref().filter(|_| procedure.definition.partitioning.is_some())
    else {
        return Ok(None);
    };
    with_routing_values(&via.columns, procedure, invocation, |keys| Some(index_question(via, keys)))
}

/// The question where the row with a key lives.
fn index_question(via: &ViaRoute, keys: &[Datum<'_>]) -> BoundStatement {
    let mut writer = ParameterWriter::default();
    for key in keys {
        writer.scalar(key.natural_type(), *key);
    }
    BoundStatement {
        statement: Arc::clone(&via.question),
        parameters: writer.bytes().into(),
        shipped: None,
        found: None,
        profile: None,
    }
}
