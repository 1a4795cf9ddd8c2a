//! The loops over columns that expressions are made of. Those that can fail say that some value
//! did; which, and how, is found row by row.

use super::vector::{Cell, FALSE, NULL_INT, NULL_UNITS, TRUE, UNKNOWN};
use crate::arithmetic::decimals;
use lockstep_plan_ir::expression::{Arithmetic, Comparison};
use lockstep_types::Decimal;
use lockstep_types::float::is_null_float;
use lockstep_types::sql_type::NULL_FLOAT;

/// Some value of a column cannot be computed.
pub(super) struct Fault;

/// One side of an operation: a value per row, or the same for all.
#[derive(Clone, Copy)]
pub(super) enum Operand<'n, T> {
    Each(&'n [T]),
    One(T),
}

/// Replaces `out` by what the function makes of the pairs.
#[inline(always)]
fn zip<A: Copy, B: Copy, R>(
    a: Operand<'_, A>,
    b: Operand<'_, B>,
    out: &mut Vec<R>,
    mut function: impl FnMut(A, B) -> R,
) {
    out.clear();
    match (a, b) {
        (Operand::Each(a), Operand::Each(b)) => {
            out.extend(a.iter().zip(b).map(|(a, b)| function(*a, *b)));
        }
        (Operand::Each(a), Operand::One(b)) => out.extend(a.iter().map(|a| function(*a, b))),
        (Operand::One(a), Operand::Each(b)) => out.extend(b.iter().map(|b| function(a, *b))),
        (Operand::One(a), Operand::One(b)) => out.push(function(a, b)),
    }
}

/// Compares values of one kind. The comparisons with DISTINCT are not made here.
pub(super) fn compare<T: Cell>(
    comparison: Comparison,
    a: Operand<'_, T>,
    b: Operand<'_, T>,
    is_null: impl Fn(T) -> bool + Copy,
    out: &mut Vec<u8>,
) {
    let truth = |null: bool, holds: bool| {
        if null {
            UNKNOWN
        } else if holds {
            TRUE
        } else {
            FALSE
        }
    };
    let null = move |a: T, b: T| is_null(a) | is_null(b);
    match comparison {
        Comparison::Equal | Comparison::NotDistinct => {
            zip(a, b, out, |a, b| truth(null(a, b), a.equals(b)));
        }
        Comparison::NotEqual | Comparison::Distinct => {
            zip(a, b, out, |a, b| truth(null(a, b), !a.equals(b)));
        }
        Comparison::Less => zip(a, b, out, |a, b| truth(null(a, b), a.is_less(b))),
        Comparison::LessOrEqual => zip(a, b, out, |a, b| truth(null(a, b), !b.is_less(a))),
        Comparison::Greater => zip(a, b, out, |a, b| truth(null(a, b), b.is_less(a))),
        Comparison::GreaterOrEqual => zip(a, b, out, |a, b| truth(null(a, b), !a.is_less(b))),
    }
}

/// Integer arithmetic with a result within `low` and `high`; the NULL of 64 bits is NULL.
pub(super) fn integers(
    operator: Arithmetic,
    (low, high): (i64, i64),
    a: Operand<'_, i64>,
    b: Operand<'_, i64>,
    out: &mut Vec<i64>,
) -> Result<(), Fault> {
    let mut failed = false;
    let mut checked = |a: i64, b: i64, (value, overflow): (i64, bool)| {
        let null = (a == NULL_INT) | (b == NULL_INT);
        let outside = (value != NULL_INT) & ((value < low) | (value > high));
        failed |= !null & (overflow | outside);
        if null { NULL_INT } else { value }
    };
    // A quotient by zero or NULL is computed by one, and not used.
    let divisor = |b: i64| if (b == 0) | (b == NULL_INT) { 1 } else { b };
    match operator {
        Arithmetic::Add => zip(a, b, out, |a, b| checked(a, b, a.overflowing_add(b))),
        Arithmetic::Subtract => zip(a, b, out, |a, b| checked(a, b, a.overflowing_sub(b))),
        Arithmetic::Multiply => zip(a, b, out, |a, b| checked(a, b, a.overflowing_mul(b))),
        Arithmetic::Divide => {
            zip(a, b, out, |a, b| checked(a, b, (a.wrapping_div(divisor(b)), b == 0)));
        }
        Arithmetic::Remainder => {
            zip(a, b, out, |a, b| checked(a, b, (a.wrapping_rem(divisor(b)), b == 0)));
        }
    }
    if failed { Err(Fault) } else { Ok(()) }
}

/// FLOAT arithmetic: results at or below the sentinel are NULL, infinite ones fail.
pub(super) fn floats(
    operator: Arithmetic,
    a: Operand<'_, f64>,
    b: Operand<'_, f64>,
    out: &mut Vec<f64>,
) -> Result<(), Fault> {
    let mut failed = false;
    let mut checked = |a: f64, b: f64, value: f64| {
        let null = is_null_float(a) | is_null_float(b);
        failed |= !null & !value.is_finite();
        if null | is_null_float(value) { NULL_FLOAT } else { value }
    };
    match operator {
        Arithmetic::Add => zip(a, b, out, |a, b| checked(a, b, a + b)),
        Arithmetic::Subtract => zip(a, b, out, |a, b| checked(a, b, a - b)),
        Arithmetic::Multiply => zip(a, b, out, |a, b| checked(a, b, a * b)),
        Arithmetic::Divide => zip(a, b, out, |a, b| checked(a, b, a / b)),
        Arithmetic::Remainder => zip(a, b, out, |a, b| checked(a, b, a % b)),
    }
    if failed { Err(Fault) } else { Ok(()) }
}

/// DECIMAL arithmetic over units.
pub(super) fn units(
    operator: Arithmetic,
    a: Operand<'_, i128>,
    b: Operand<'_, i128>,
    out: &mut Vec<i128>,
) -> Result<(), Fault> {
    let mut failed = false;
    zip(a, b, out, |a, b| {
        if a == NULL_UNITS || b == NULL_UNITS {
            return NULL_UNITS;
        }
        match decimals(operator, Decimal::from_raw(a), Decimal::from_raw(b)) {
            Ok(value) => value.units(),
            Err(_) => {
                failed = true;
                NULL_UNITS
            }
        }
    });
    if failed { Err(Fault) } else { Ok(()) }
}

/// Replaces `out` by what the function makes of each value.
#[inline(always)]
pub(super) fn map<T: Copy, R>(values: &[T], out: &mut Vec<R>, function: impl Fn(T) -> R) {
    out.clear();
    out.extend(values.iter().map(|value| function(*value)));
}
