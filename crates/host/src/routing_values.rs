//! The values of a call's routing parameters, and the partitions that they name together.

use crate::catalog::HostProcedure;
use crate::routing;
use lockstep_plan_ir::procedure::RoutingColumn;
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::{Datum, Failure, HashRing, Parameter, PartitionId, SqlType};
use lockstep_wire_volt::Invocation;

/// Calls `body` with the values of a call's routing parameters; with none of them when the call's
/// bytes are no parameters, which its execution will say.
///
/// # Errors
/// A value cannot be one of its column.
pub fn with_routing_values<T, O>(
    columns: &[RoutingColumn],
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    body: impl FnOnce(&[Datum<'_>]) -> T,
) -> Result<T, Failure> {
    let mut first_bytes = Vec::new();
    if let [column] = columns {
        let value = routing_value(column, procedure, invocation, &mut first_bytes)?;
        return Ok(match value {
            Some(value) => body(&[value]),
            None => body(&[]),
        });
    }
    let mut bytes = [const { Vec::new() }; MAX_KEY_PARTS];
    let mut values = [Datum::Null; MAX_KEY_PARTS];
    for ((column, bytes), value) in columns.iter().zip(&mut bytes).zip(&mut values) {
        match routing_value(column, procedure, invocation, bytes)? {
            Some(hashed) => *value = hashed,
            None => return Ok(body(&[])),
        }
    }
    Ok(body(&values[..columns.len().min(MAX_KEY_PARTS)]))
}

/// The value of one routing parameter; `None` when the call's bytes are no parameters.
#[inline]
fn routing_value<'v, O>(
    column: &RoutingColumn,
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'v>,
    bytes: &'v mut Vec<u8>,
) -> Result<Option<Datum<'v>>, Failure> {
    let refused = |value: &str, reason: &str| {
        Err(routing::misrouted(&procedure.definition, value, column.column_type, reason))
    };
    match invocation.parameters.get(usize::from(column.parameter)) {
        Some(Ok(parameter)) => match routing::hashed_value(&parameter, column.column_type, bytes) {
            Ok(value) => Ok(Some(value)),
            Err(reason) => refused(&describe(&parameter), &reason),
        },
        Some(Err(_)) => Ok(None),
        None => refused("null", "the call does not have that parameter"),
    }
}

/// The partition that a call's routing parameters name together.
///
/// # Errors
/// As for [`with_routing_values`].
pub(crate) fn partition_by_several<O>(
    columns: &[RoutingColumn],
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Result<PartitionId, Failure> {
    with_routing_values(columns, procedure, invocation, |values| match values.is_empty() {
        true => PartitionId(0),
        false => ring.partition_of_values(values.iter().copied()),
    })
}

/// Whether the key of a call is of the types that its index holds, so that the index can be asked.
pub(crate) fn fits(columns: &[RoutingColumn], keys: &[Datum<'_>]) -> bool {
    keys.iter().zip(columns).all(|(key, column)| match key {
        Datum::Null => true,
        Datum::Int(_) => column.column_type.is_integer(),
        Datum::Text(_) => column.column_type == SqlType::Varchar,
        Datum::Bytes(_) => column.column_type == SqlType::Varbinary,
        _ => false,
    })
}

/// The partition whose index says where a call runs, with the key if that is one integer; `None`
/// if the index cannot be asked for this key.
///
/// # Errors
/// As for [`with_routing_values`].
pub fn index_partition<O>(
    procedure: &HostProcedure<O>,
    invocation: &Invocation<'_>,
    ring: &HashRing,
) -> Result<Option<(PartitionId, Option<i64>)>, Failure> {
    let Some(via) = &procedure.via else { return Ok(None) };
    with_routing_values(&via.columns, procedure, invocation, |keys| {
        if keys.is_empty() || !fits(&via.columns, keys) {
            return None;
        }
        match *keys {
            [only @ Datum::Int(integer)] => Some((ring.partition_of(only), Some(integer))),
            _ => Some((ring.partition_of_values(keys.iter().copied()), None)),
        }
    })
}

pub(crate) fn describe(parameter: &Parameter<'_>) -> String {
    match parameter {
        Parameter::Scalar(_, value) => value.to_string(),
        Parameter::Array(_) => "array".to_string(),
        Parameter::Table(_) => "table".to_string(),
    }
}
