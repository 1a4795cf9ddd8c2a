//! Where a call belongs: what the catalog and the call's parameters say of it.

use super::HostFacts;
use super::via::{describe, entries_of, index_partition, partition_by_several};
use crate::catalog::{HostProcedure, Routing};
use crate::execution::not_found;
use crate::routing;
use lockstep_plan_ir::procedure::ProcedurePartitioning;
use lockstep_site::Home;
use lockstep_types::{Datum, Failure, Parameter, PartitionId, SqlType};
use lockstep_wire_volt::Invocation;

/// What becomes of an invocation, as far as the catalog alone says.
pub(super) enum Destination {
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
pub(super) fn destination(
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
) -> Destination {
    match place_of(procedure, invocation, facts) {
        Destination::Partition(partition)
            if (procedure.keeps_global_indexes || procedure.changes_replicated)
                && facts.partition_count > 1 =>
        {
            Destination::Home(Home { partition, addresses_partition: invocation.all_partition })
        }
        // Where there is one partition it has everything: nobody has to be asked in rounds.
        Destination::Multi | Destination::Declared if facts.partition_count == 1 => {
            Destination::Partition(PartitionId(0))
        }
        place => place,
    }
}

/// Where the statements of a call run.
fn place_of(
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
) -> Destination {
    if invocation.all_partition || invocation.destination_partition.is_some() {
        return all_partition_leg(procedure, invocation, facts);
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
            match partition_by(*index, *column_type, procedure, invocation, facts) {
                Ok(partition) => Destination::Partition(partition),
                Err(failure) => Destination::Refused(failure),
            }
        }
        Routing::Entries => entries_of(procedure, invocation, facts),
        Routing::Via => match index_partition(procedure, invocation, facts) {
            Ok(Some((partition, key))) => Destination::Via(partition, key),
            // A value of another type than the key's: the statement itself says what it finds.
            Ok(None) if procedure.definition.partitioning.is_none() => Destination::Multi,
            Ok(None) => Destination::Partition(PartitionId(0)),
            Err(failure) => Destination::Refused(failure),
        },
        Routing::Parameters => {
            let partitioning = procedure.definition.partitioning.as_ref();
            match partitioning.map(|by| partition_of_call(by, procedure, invocation, facts)) {
                Some(Ok(partition)) => Destination::Partition(partition),
                Some(Err(failure)) => Destination::Refused(failure),
                None => Destination::Refused(not_found(invocation.procedure)),
            }
        }
    }
}

/// The partition of a call by one declaration of its procedure.
pub(super) fn partition_of_call(
    partitioning: &ProcedurePartitioning,
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
) -> Result<PartitionId, Failure> {
    match partitioning {
        ProcedurePartitioning::Column { parameter, column_type, .. } => {
            let column_type = routing::hashed_type(&procedure.definition, *parameter, *column_type);
            partition_by(*parameter, column_type, procedure, invocation, facts)
        }
        ProcedurePartitioning::Columns { columns, .. } => {
            partition_by_several(columns, procedure, invocation, facts)
        }
        ProcedurePartitioning::Via { .. } | ProcedurePartitioning::Directed => Ok(PartitionId(0)),
    }
}

/// The partition that a call's routing parameter names.
fn partition_by(
    index: u16,
    column_type: SqlType,
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
) -> Result<PartitionId, Failure> {
    let refused = |value: &str, reason: &str| {
        Err(routing::misrouted(&procedure.definition, value, column_type, reason))
    };
    match invocation.parameters.get(usize::from(index)) {
        // A null of some type hashes like that type's; only one without is refused.
        Some(Ok(Parameter::Scalar(SqlType::Null, _))) if procedure.definition.read_only => {
            let text = "Illegal partition parameter. Value cannot be null";
            Err(Failure::graceful(text))
        }
        Some(Ok(parameter)) => {
            match routing::partition_of_parameter(&parameter, column_type, &facts.ring) {
                Ok(partition) => Ok(partition),
                Err(reason) => refused(&describe(&parameter), &reason),
            }
        }
        // Bytes that are no parameters: the partition's check says which.
        Some(Err(_)) => Ok(PartitionId(0)),
        None => refused("null", "the call does not have that parameter"),
    }
}

/// One leg of an all-partition call: runs exactly at the partition that it names.
fn all_partition_leg(
    procedure: &HostProcedure,
    invocation: &Invocation<'_>,
    facts: &HostFacts,
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
            routing::partition_of_parameter(&parameter, hashed, &facts.ring)
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
        Ok(number) if number < facts.partition_count => Destination::Partition(PartitionId(number)),
        Ok(_) => {
            Destination::Refused(Failure::graceful(format!("Partition does not exist: {number}")))
        }
        Err(_) => Destination::Refused(Failure::graceful(format!(
            "Invalid destination partition provided: {number}"
        ))),
    }
}
