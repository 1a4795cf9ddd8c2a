//! The partitions of the rows and index entries that the values of statements name.

use super::Desk;
use crate::message::BoundStatement;
use crate::parameters::with_parameters;
use lockstep_exec::convert::array_elements;
use lockstep_exec::distributed::owner_of_given;
use lockstep_exec::lookup::{lookup_owner, lookups};
use lockstep_plan_ir::{Expression, Lookup};
use lockstep_types::{Datum, Failure, HashRing, ParameterSet, PartitionId};
use std::collections::BTreeSet;

/// The partitions of rows with a partitioning value, at least one: where an index has none, its
/// own partition finds nothing.
pub(super) fn owners_of(
    bound: &BoundStatement,
    value: &Expression,
    desk: &Desk<'_>,
) -> Result<Vec<PartitionId>, Failure> {
    match found_places(bound, value) {
        Some(places) if desk.ring.partition_count() > 1 => Ok(places.to_vec()),
        _ => Ok(vec![owner_of(bound, value, desk)?]),
    }
}

/// The first of them.
pub(super) fn first_owner_of(
    bound: &BoundStatement,
    value: &Expression,
    desk: &Desk<'_>,
) -> Result<PartitionId, Failure> {
    match found_places(bound, value) {
        Some(places) if desk.ring.partition_count() > 1 => Ok(places[0]),
        _ => owner_of(bound, value, desk),
    }
}

/// Where a global index has found the rows with a value, if one was asked and has.
fn found_places<'b>(bound: &'b BoundStatement, value: &Expression) -> Option<&'b [PartitionId]> {
    let found = bound.found.as_ref()?;
    let asked = lookups(bound.statement.statement());
    let number = asked.iter().position(|asked| *asked == value)?;
    found.get(number).map(Vec::as_slice).filter(|places| !places.is_empty())
}

/// The partition of rows with a value, or of the entry of an index with it.
fn owner_of(
    bound: &BoundStatement,
    value: &Expression,
    desk: &Desk<'_>,
) -> Result<PartitionId, Failure> {
    let now_us = desk.context.timestamp_us;
    if let Some(question) = Lookup::of(value) {
        if desk.ring.partition_count() == 1 {
            return Ok(PartitionId(0));
        }
        return with_parameters(bound, |parameters| {
            lookup_owner(&question, parameters, now_us, desk.ring)
        });
    }
    owner_of_value(bound, value, now_us, desk.ring)
}

/// The partition of rows with a value that no index is asked for.
pub(super) fn owner_of_value(
    bound: &BoundStatement,
    value: &Expression,
    now_us: i64,
    ring: &HashRing,
) -> Result<PartitionId, Failure> {
    let given = ParameterSet::new(&bound.parameters)
        .map_err(|error| Failure::graceful(error.to_string()))?;
    owner_of_given(value, &bound.statement, given, now_us, ring).map_err(|e| e.to_failure())
}

/// The partitions of the elements of an array parameter, at least one: of an empty array any one
/// finds nothing.
pub(super) fn owners_of_elements(
    bound: &BoundStatement,
    parameter: u16,
    desk: &Desk<'_>,
) -> Result<Vec<PartitionId>, Failure> {
    with_parameters(bound, |parameters| {
        let array = parameters.get(usize::from(parameter)).copied().unwrap_or(Datum::Null);
        let owners: BTreeSet<PartitionId> =
            array_elements(array).map(|element| desk.ring.partition_of(element)).collect();
        match owners.is_empty() {
            true => Ok(vec![desk.home]),
            false => Ok(owners.into_iter().collect()),
        }
    })
}
