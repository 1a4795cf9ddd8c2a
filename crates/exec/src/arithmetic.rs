//! Arithmetic of SQL values: overflow is an error, a result equal to a type's NULL sentinel is
//! NULL, decimals are exact with truncated quotients and products.

pub mod wide;

use crate::error::{SqlError, state};
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_types::decimal::ONE;
use lockstep_types::float::float_datum;
use lockstep_types::{Datum, Decimal, SqlType};
use wide::Wide;

type Computed<'a> = Result<Datum<'a>, SqlError>;

/// `left operator right` in the given result type. NULL gives NULL.
#[inline]
pub fn compute<'a>(
    operator: Arithmetic,
    left: Datum<'_>,
    right: Datum<'_>,
    result: SqlType,
) -> Computed<'a> {
    match (left, right) {
        (Datum::Int(a), Datum::Int(b)) if result.is_integer() => {
            let value = integers(operator, a, b)?;
            in_integer_type(value, result)
        }
        (Datum::Null, _) | (_, Datum::Null) => Ok(Datum::Null),
        _ => compute_wider(operator, left, right, result),
    }
}

#[inline(never)]
fn compute_wider<'a>(
    operator: Arithmetic,
    left: Datum<'_>,
    right: Datum<'_>,
    result: SqlType,
) -> Computed<'a> {
    match result {
        SqlType::Float => match (to_float(left), to_float(right)) {
            (Some(a), Some(b)) => floats(operator, a, b),
            _ => Err(not_numbers(left, right)),
        },
        SqlType::Decimal => match (to_decimal(left), to_decimal(right)) {
            (Some(a), Some(b)) => decimals(operator, a, b).map(Datum::Decimal),
            _ => Err(not_numbers(left, right)),
        },
        SqlType::Timestamp => match (to_integer(left), to_integer(right)) {
            (Some(a), Some(b)) => match integers(operator, a, b)? {
                i64::MIN => Ok(Datum::Null),
                value => Ok(Datum::Timestamp(value)),
            },
            _ => Err(not_numbers(left, right)),
        },
        _ => Err(not_numbers(left, right)),
    }
}

/// An integer result in its type: the sentinel of BIGINT is NULL, beyond a narrower type's range
/// is an error.
#[inline]
fn in_integer_type<'a>(value: i64, result: SqlType) -> Computed<'a> {
    if value == i64::MIN {
        return Ok(Datum::Null);
    }
    match result.integer_range() {
        Some((low, high)) if value < low || value > high => {
            Err(SqlError::cast_out_of_range(SqlType::BigInt, value, result))
        }
        _ => Ok(Datum::Int(value)),
    }
}

#[inline]
fn integers(operator: Arithmetic, a: i64, b: i64) -> Result<i64, SqlError> {
    let value = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide if b == 0 => return Err(divided_by_zero(a, b)),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Remainder if b == 0 => return Err(remainder_by_zero()),
        Arithmetic::Remainder => a.checked_rem(b),
    };
    value.ok_or_else(|| integer_overflow(operator, a, b))
}

/// Decimal arithmetic: exact sums, quotients and products truncated to 12 digits.
pub fn decimals(operator: Arithmetic, a: Decimal, b: Decimal) -> Result<Decimal, SqlError> {
    let (left, right) = (a.units(), b.units());
    let units = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => return multiply(a, b),
        Arithmetic::Divide => match right {
            0 => None,
            _ => Wide::product(left.unsigned_abs(), ONE.unsigned_abs())
                .divide(right.unsigned_abs())
                .0
                .signed((left < 0) != (right < 0)),
        },
        Arithmetic::Remainder if right == 0 => return Err(remainder_by_zero()),
        Arithmetic::Remainder => Some(left % right),
    };
    units.and_then(Decimal::from_units).ok_or_else(|| decimal_overflow(operator, a, b))
}

fn multiply(a: Decimal, b: Decimal) -> Result<Decimal, SqlError> {
    let (left, right) = (a.units(), b.units());
    let negative = (left < 0) != (right < 0);
    let product = Wide::product(left.unsigned_abs(), right.unsigned_abs());
    let (scaled, _) = product.divide(ONE.unsigned_abs());
    scaled.signed(negative).and_then(Decimal::from_units).ok_or_else(|| {
        let sign = if negative { "-" } else { "" };
        SqlError::out_of_range(format!(
            "Attempted to multiply {a} by {b} causing overflow/underflow. Unscaled result was \
             {sign}{scaled}"
        ))
    })
}

fn floats<'a>(operator: Arithmetic, a: f64, b: f64) -> Computed<'a> {
    let (value, symbol) = match operator {
        Arithmetic::Add => (a + b, "+"),
        Arithmetic::Subtract => (a - b, "-"),
        Arithmetic::Multiply => (a * b, "*"),
        Arithmetic::Divide => (a / b, "/"),
        Arithmetic::Remainder => (a % b, "%"),
    };
    float_result_of(&[a, b], value, || format!("'{symbol}' operator"))
}

/// A computed double as a SQL value: NULL at the sentinel, an error that names `of` when not
/// finite.
#[inline]
pub fn float_result<'a>(value: f64, of: impl FnOnce() -> String) -> Computed<'a> {
    float_result_of(&[], value, of)
}

/// As [`float_result`], of these operands: what is computed of NaN has another name in the error
/// than a NaN of numbers.
#[inline]
pub fn float_result_of<'a>(
    operands: &[f64],
    value: f64,
    of: impl FnOnce() -> String,
) -> Computed<'a> {
    if !value.is_finite() {
        return Err(invalid_float(operands, value, &of()));
    }
    Ok(float_datum(value))
}

/// Unary minus in the operand's type.
#[inline]
pub fn negate<'a>(value: Datum<'_>) -> Computed<'a> {
    Ok(match value {
        Datum::Null => Datum::Null,
        // The sentinel is no value, so that no legal integer overflows.
        Datum::Int(v) => Datum::Int(v.wrapping_neg()),
        // Not tested: the negative of NaN is NaN, that of infinity NULL.
        Datum::Float(v) => float_datum(-v),
        Datum::Decimal(v) => Datum::Decimal(Decimal::from_raw(-v.units())),
        other => return Err(SqlError::cannot_cast(other.natural_type(), SqlType::BigInt)),
    })
}

/// Any number as FLOAT.
#[inline]
pub fn to_float(value: Datum<'_>) -> Option<f64> {
    Some(match value {
        Datum::Int(v) => v as f64,
        Datum::Float(v) => v,
        Datum::Decimal(v) => v.to_f64(),
        _ => return None,
    })
}

/// An integer or DECIMAL as DECIMAL.
#[inline]
pub fn to_decimal(value: Datum<'_>) -> Option<Decimal> {
    Some(match value {
        Datum::Int(v) => Decimal::from_integer(v),
        Datum::Decimal(v) => v,
        _ => return None,
    })
}

fn to_integer(value: Datum<'_>) -> Option<i64> {
    match value {
        Datum::Int(v) | Datum::Timestamp(v) => Some(v),
        _ => None,
    }
}

#[cold]
fn not_numbers(left: Datum<'_>, right: Datum<'_>) -> SqlError {
    let (left, right) = (left.natural_type(), right.natural_type());
    SqlError::sql(format!("there is no arithmetic between {left} and {right}"))
}

#[cold]
fn divided_by_zero(a: i64, b: i64) -> SqlError {
    SqlError::coded(state::DIVISION_BY_ZERO, format!("Attempted to divide {a} by {b}"))
}

#[cold]
fn remainder_by_zero() -> SqlError {
    SqlError::coded(state::DIVISION_BY_ZERO, "division by zero")
}

#[cold]
fn integer_overflow(operator: Arithmetic, a: i64, b: i64) -> SqlError {
    let what = match operator {
        Arithmetic::Add => format!("Adding {a} and {b}"),
        Arithmetic::Subtract => format!("Subtracting {b} from {a}"),
        Arithmetic::Multiply => format!("Multiplying {a} with {b}"),
        Arithmetic::Divide | Arithmetic::Remainder => format!("Dividing {a} by {b}"),
    };
    SqlError::out_of_range(format!("{what} will overflow BigInt storage"))
}

#[cold]
fn decimal_overflow(operator: Arithmetic, a: Decimal, b: Decimal) -> SqlError {
    let message = match operator {
        Arithmetic::Add => format!("Attempted to add {a} with {b} causing overflow/underflow"),
        Arithmetic::Subtract => {
            format!("Attempted to subtract {b} from {a} causing overflow/underflow")
        }
        _ if b.units() == 0 => {
            let message = format!(
                "Attempted to divide {a} by {b} causing overflow/underflow (or divide by zero)"
            );
            return SqlError::coded(state::DIVISION_BY_ZERO, message);
        }
        _ => {
            format!("Attempted to divide {a} by {b} causing overflow/underflow (or divide by zero)")
        }
    };
    SqlError::out_of_range(message)
}

/// A computed double that is not finite, written as C does.
#[cold]
fn invalid_float(operands: &[f64], value: f64, of: &str) -> SqlError {
    // The sign of a computed NaN differs between processors; VoltDB's clients see these.
    let name = match (value.is_nan(), value < 0.0) {
        (true, _) if operands.iter().any(|operand| operand.is_nan()) => "nan",
        (true, _) => "-nan",
        (false, true) => "-inf",
        (false, false) => "inf",
    };
    SqlError::out_of_range(format!("Invalid result value ({name}) from floating point {of}"))
}

#[cfg(test)]
mod tests;
