//! Calls that a global index leads to their row: what becomes of one at a partition.

use crate::catalog::{HostCatalog, HostProcedure, ViaRoute, not_found};
use crate::routing_values::with_routing_values;
use lockstep_site::{BoundStatement, Site, ViaLeg, ViaStep};
use lockstep_txn::EntryHeader;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Failure, HashRing};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// What a call is led by, so that its bytes need not be read again on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViaKey {
    /// The low half of the version of the catalog by which the call's procedure has the number in
    /// [`LedTurn::number`].
    pub catalog_version: u32,
    /// The key, if that is one integer.
    pub integer: Option<i64>,
}

/// A call's turn at a partition.
pub struct LedTurn<'a> {
    /// Its entry there.
    pub header: &'a EntryHeader,
    /// What it looks for there.
    pub leg: ViaLeg,
    /// What it is led by.
    pub key: ViaKey,
    /// Its procedure's number in the catalog of the thread that read the call.
    pub number: u32,
}

/// What becomes of a call at this partition.
pub enum Way {
    /// What its leg says.
    Step(ViaStep),
    /// It runs here, as a transaction that changes index entries elsewhere.
    Home,
    /// The catalog has changed: it finds its way anew.
    Anew,
    /// Cannot be led.
    Refused(Failure),
}

/// The next step of a call whose turn it is at a partition. Its bytes are read only where the key
/// does not say enough.
#[inline]
pub fn way_of<'i, H, A, C: Clone, O>(
    site: &mut Site<H, A, C>,
    catalog: &HostCatalog<O>,
    ring: &HashRing,
    turn: LedTurn<'_>,
    invocation: impl FnOnce() -> Invocation<'i>,
) -> Way {
    let LedTurn { header, leg, key, number } = turn;
    let (procedure, step) = match key.integer {
        Some(integer) if key.catalog_version == catalog.version() as u32 => {
            let procedure = &catalog.procedures()[number as usize];
            let Some(via) = &procedure.via else { return Way::Anew };
            (procedure, Ok(site.via_step(header, leg, &via.route, &[Datum::Int(integer)])))
        }
        _ => {
            let invocation = invocation();
            let Some(procedure) = catalog.called(number, invocation.procedure) else {
                return Way::Refused(not_found(invocation.procedure));
            };
            let Some(via) = &procedure.via else { return Way::Anew };
            let step = with_routing_values(&via.columns, procedure, &invocation, |keys| {
                site.via_step(header, leg, &via.route, keys)
            });
            (procedure, step)
        }
    };
    match step {
        Err(failure) => Way::Refused(failure),
        Ok(Err(error)) => Way::Refused(error.to_failure()),
        Ok(Ok(ViaStep::Run)) if procedure.keeps_global_indexes && ring.partition_count() > 1 => {
            Way::Home
        }
        Ok(Ok(step)) => Way::Step(step),
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
