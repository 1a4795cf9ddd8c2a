//! Comparison of two values, with NULL as unknown.

use crate::arithmetic::to_float;
use crate::error::{SqlError, state};
use lockstep_plan_ir::expression::Comparison;
use lockstep_types::float::compare_floats;
use lockstep_types::{Datum, Decimal};
use std::cmp::Ordering;

/// `left comparison right`: a truth value, or NULL when a side is NULL (but for the DISTINCT
/// comparisons, which are never NULL).
#[inline]
pub fn compare<'a>(
    comparison: Comparison,
    left: Datum<'_>,
    right: Datum<'_>,
) -> Result<Datum<'a>, SqlError> {
    match order(left, right)? {
        Some(order) => Ok(Datum::Bool(holds(comparison, order))),
        None => Ok(with_null(comparison, left.is_null() && right.is_null())),
    }
}

/// Whether two values are equal; NULL equals nothing.
#[inline]
pub fn equal(left: Datum<'_>, right: Datum<'_>) -> Result<bool, SqlError> {
    Ok(order(left, right)? == Some(Ordering::Equal))
}

fn with_null<'a>(comparison: Comparison, both: bool) -> Datum<'a> {
    match comparison {
        Comparison::Distinct => Datum::Bool(!both),
        Comparison::NotDistinct => Datum::Bool(both),
        _ => Datum::Null,
    }
}

/// Whether a comparison holds for two values in this order.
#[inline]
pub(super) fn holds(comparison: Comparison, order: Ordering) -> bool {
    match comparison {
        Comparison::Equal | Comparison::NotDistinct => order == Ordering::Equal,
        Comparison::NotEqual | Comparison::Distinct => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

/// The order of two values; `None` when one is NULL.
#[inline]
pub(super) fn order(left: Datum<'_>, right: Datum<'_>) -> Result<Option<Ordering>, SqlError> {
    Ok(Some(match (left, right) {
        (Datum::Int(a), Datum::Int(b)) => a.cmp(&b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(&b),
        (Datum::Null, _) | (_, Datum::Null) => return Ok(None),
        _ => order_of_other(left, right)?,
    }))
}

#[inline(never)]
fn order_of_other(left: Datum<'_>, right: Datum<'_>) -> Result<Ordering, SqlError> {
    Ok(match (left, right) {
        (Datum::Float(a), Datum::Float(b)) => compare_floats(a, b),
        (Datum::Decimal(a), Datum::Decimal(b)) => a.cmp(&b),
        (Datum::Decimal(a), Datum::Int(b)) => a.cmp(&Decimal::from_integer(b)),
        (Datum::Int(a), Datum::Decimal(b)) => Decimal::from_integer(a).cmp(&b),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (Datum::Point(a), Datum::Point(b)) => a.cmp(&b),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(&b),
        (Datum::Timestamp(a), Datum::Int(b)) | (Datum::Int(a), Datum::Timestamp(b)) => a.cmp(&b),
        _ => match (to_float(left), to_float(right)) {
            (Some(a), Some(b)) => compare_floats(a, b),
            _ => return Err(incomparable(left, right)),
        },
    })
}

#[cold]
fn incomparable(left: Datum<'_>, right: Datum<'_>) -> SqlError {
    let (left, right) = (left.natural_type(), right.natural_type());
    let message = format!("Type {left} cannot be cast for comparison to type {right}");
    SqlError::coded(state::TYPE_MISMATCH, message)
}
