//! Where a call belongs: what the catalog and the call's parameters say of it.

use crate::catalog::{HostCatalog, HostProcedure, Routing, not_found};
use crate::load::{LOAD_AT_PARTITION, loads_indexed};
use crate::routing;
use crate::routing_values::{
    describe, fits, index_partition, partition_by_several, with_routing_values,
};
use lockstep_plan_ir::procedure::ProcedurePartitioning;
use lockstep_site::Home;
use lockstep_types::{Datum, Failure, HashRing, Parameter, PartitionId, SqlType};
use lockstep_wire_volt::Invocation;

/// What becomes of an invocation, as far as the catalog alone says.
pub enum Destination {
    /// Runs at a partition.
    Partition(PartitionId),
    /// Runs at several, those that it turns out to need.
    Multi,
    /// Runs at those that its procedure declares.
    Declared,
    /// Runs at a partition, and changes entries of global indexes at others.
    Home(Home),
    /// Runs where the index at a partition says, which is asked for a key, here if it is one
    /// integer.
    Via(PartitionId, Option<i64>),
    /// Runs at none, and makes calls.
    Outside,
    /// Cannot run.
    Refused(Failure),
}

/// Where a call goes.
pub fn destination<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Destination {
    match place_of(procedure, invocation, ring) {
        Destination::Partition(partition)
            if procedure.changes_elsewhere() && ring.partition_count() > 1 =>
        {
            Destination::Home(Home { partition, addresses_partition: invocation.all_partition })
        }
        // Where there is one partition it has everything: nobody has to be asked in rounds.
        Destination::Multi | Destination::Declared if ring.partition_count() == 1 => {
            Destination::Partition(PartitionId(0))
        }
        place => place,
    }
}

/// Where the statements of a call run.
fn place_of<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Destination {
    if invocation.all_partition || invocation.destination_partition.is_some() {
        return all_partition_part(procedure, invocation, ring);
    }
    match &procedure.routing {
        // Replicated tables are at the others, too.
        Routing::Multi if procedure.changes_replicated => Destination::Multi,
        Routing::Multi => Destination::Declared,
        Routing::Outside => Destination::Outside,
        Routing::Directed => Destination::Refused(Failure::graceful(format!(
            "Procedure {} is a work procedure and needs to be invoked appropriately. The \
             Client.callAllPartitionProcedure method should be used.",
            invocation.procedure
        ))),
        Routing::Parameter { index, column_type } => {
            match partition_by(*index, *column_type, procedure, invocation, ring) {
                Ok(partition) => Destination::Partition(partition),
                Err(failure) => Destination::Refused(failure),
            }
        }
        Routing::Entries => entries_of(procedure, invocation, ring),
        Routing::Via => match index_partition(procedure, invocation, ring) {
            Ok(Some((partition, key))) => Destination::Via(partition, key),
            // A value of another type than the key's: the statement itself says what it finds.
            Ok(None) if procedure.definition.partitioning.is_none() => Destination::Multi,
            Ok(None) => Destination::Partition(PartitionId(0)),
            Err(failure) => Destination::Refused(failure),
        },
        Routing::Parameters => {
            let partitioning = procedure.definition.partitioning.as_ref();
            match partitioning.map(|by| partition_of_call(by, procedure, invocation, ring)) {
                Some(Ok(partition)) => Destination::Partition(partition),
                Some(Err(failure)) => Destination::Refused(failure),
                None => Destination::Refused(not_found(invocation.procedure)),
            }
        }
    }
}

/// Whether a call that was sent to one partition needs others by now: a schema change created a
/// global index while it was in progress, or its procedure again.
pub fn is_misrouted<O>(
    catalog: &HostCatalog<O>,
    ring: &HashRing,
    invocation: &Invocation<'_>,
) -> bool {
    if !catalog.changes_elsewhere() || ring.partition_count() == 1 {
        return false;
    }
    match invocation.procedure {
        LOAD_AT_PARTITION => loads_indexed(catalog, ring, invocation),
        name => catalog.procedure(name).is_some_and(HostProcedure::changes_elsewhere),
    }
}

/// Adds the partitions that the call's procedure declares, in the order of the declarations.
///
/// # Errors
/// A routing parameter cannot be hashed.
pub fn declare_partitions<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
    declared: &mut Vec<PartitionId>,
) -> Result<(), Failure> {
    for partitioning in &procedure.definition.declared {
        declared.push(partition_of_call(partitioning, procedure, invocation, ring)?);
    }
    Ok(())
}

/// The partition of a call by one declaration of its procedure.
fn partition_of_call<O>(
    partitioning: &ProcedurePartitioning,
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Result<PartitionId, Failure> {
    match partitioning {
        ProcedurePartitioning::Column { parameter, column_type, .. } => {
            let column_type = routing::hashed_type(&procedure.definition, *parameter, *column_type);
            partition_by(*parameter, column_type, procedure, invocation, ring)
        }
        ProcedurePartitioning::Columns { columns, .. } => {
            partition_by_several(columns, procedure, invocation, ring)
        }
        ProcedurePartitioning::Via { .. } | ProcedurePartitioning::Directed => Ok(PartitionId(0)),
    }
}

/// The partition that a call's routing parameter names.
fn partition_by<O>(
    index: u16,
    column_type: SqlType,
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Result<PartitionId, Failure> {
    let refused = |value: &str, reason: &str| {
        Err(routing::misrouted(&procedure.definition, value, column_type, reason))
    };
    if column_type.is_integer()
        && let Some(value) = invocation.parameters.integer_at(index.into())
    {
        return Ok(ring.partition_of(value));
    }
    match invocation.parameters.get(usize::from(index)) {
        // A null of some type hashes like that type's; only one without is refused.
        Some(Ok(Parameter::Scalar(SqlType::Null, _))) if procedure.definition.read_only => {
            let text = "Illegal partition parameter. Value cannot be null";
            Err(Failure::graceful(text))
        }
        Some(Ok(parameter)) => {
            match routing::partition_of_parameter(&parameter, column_type, ring) {
                Ok(partition) => Ok(partition),
                Err(reason) => refused(&describe(&parameter), &reason),
            }
        }
        // Bytes that are no parameters: the partition's check says which.
        Some(Err(_)) => Ok(PartitionId(0)),
        None => refused("null", "the call does not have that parameter"),
    }
}

/// One part of an all-partition call: runs exactly at the partition that it names.
fn all_partition_part<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Destination {
    let first = matches!(procedure.routing, Routing::Parameter { index: 0, .. })
        && !procedure.changes_replicated;
    if !first && !matches!(procedure.routing, Routing::Directed) {
        return Destination::Refused(Failure::graceful(format!(
            "Invalid procedure for all-partition execution. Targeted procedure must be \
             partitioned, must be partitioned on the first parameter: {}",
            invocation.procedure
        )));
    }
    let by_key = || match (invocation.parameters.get(0), &procedure.routing) {
        (Some(Ok(parameter)), Routing::Parameter { column_type, .. }) => {
            // The keys of partitions are integers for columns of any type.
            let hashed = match parameter {
                Parameter::Scalar(_, Datum::Int(_)) => SqlType::BigInt,
                _ => *column_type,
            };
            routing::partition_of_parameter(&parameter, hashed, ring)
                .map(|partition| partition.0 as i32)
                .ok()
        }
        _ => None,
    };
    let Some(number) = invocation.destination_partition.or_else(by_key) else {
        return Destination::Refused(Failure::graceful(
            "Invalid destination partition provided: none, and no key to find it by",
        ));
    };
    match u32::try_from(number) {
        Ok(number) if number < ring.partition_count() => {
            Destination::Partition(PartitionId(number))
        }
        Ok(_) => {
            Destination::Refused(Failure::graceful(format!("Partition does not exist: {number}")))
        }
        Err(_) => Destination::Refused(Failure::graceful(format!(
            "Invalid destination partition provided: {number}"
        ))),
    }
}

/// Where a call goes whose only statement reads entries of a global index: to their partition.
fn entries_of<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Destination {
    let columns = procedure.entry_key.as_deref().unwrap_or_default();
    let owner = with_routing_values(columns, procedure, invocation, |keys| {
        let asks = !keys.is_empty() && fits(columns, keys);
        asks.then(|| ring.partition_of_values(keys.iter().copied()))
    });
    match owner {
        Ok(Some(partition)) => Destination::Partition(partition),
        // The statement itself says what it makes of such values.
        Ok(None) => Destination::Multi,
        Err(failure) => Destination::Refused(failure),
    }
}
