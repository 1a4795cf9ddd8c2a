//! Functions of numbers.

use super::{Arguments, Computed};
use crate::arithmetic::float_result_of;
use crate::cast::decimal_of_float;
use crate::error::SqlError;
use lockstep_plan_ir::Function;
use lockstep_types::decimal::{MAX_UNITS, ONE, SCALE};
use lockstep_types::{Datum, Decimal, SqlType};

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let value = arguments.value(0);
    match arguments.function {
        Function::Pi => return Ok(Datum::Float(std::f64::consts::PI)),
        Function::Power | Function::ArcTangent2 => return of_two(arguments),
        _ if value.is_null() => return Ok(Datum::Null),
        Function::Abs => return absolute(arguments),
        Function::Ceiling | Function::Floor => return whole(arguments),
        Function::Round => return round(arguments),
        Function::Sign => return sign(arguments),
        Function::TruncateNumber => return truncate(arguments),
        _ => {}
    }
    let x = float(arguments, 0)?;
    let result = match arguments.function {
        Function::Exp => x.exp(),
        Function::Ln => x.ln(),
        Function::Log10 => x.log10(),
        Function::Sqrt => x.sqrt(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tan => x.tan(),
        Function::Cot => 1.0 / x.tan(),
        Function::Csc => 1.0 / x.sin(),
        Function::Sec => 1.0 / x.cos(),
        Function::Degrees => x.to_degrees(),
        Function::Radians => x.to_radians(),
        Function::ArcSine => x.asin(),
        Function::ArcCosine => x.acos(),
        Function::ArcTangent => x.atan(),
        Function::HyperbolicSine => x.sinh(),
        Function::HyperbolicCosine => x.cosh(),
        Function::HyperbolicTangent => x.tanh(),
        Function::CubeRoot => x.cbrt(),
        _ => return Err(arguments.mistyped(0, SqlType::Float)),
    };
    finish(arguments, &[x], result)
}

fn finish<'a>(arguments: &Arguments<'a, '_>, operands: &[f64], result: f64) -> Computed<'a> {
    float_result_of(operands, result, || format!("function {}", arguments.function.name()))
}

/// A number as a double. A DECIMAL beyond 64 bits is refused, as VoltDB's conversion does.
fn float(arguments: &Arguments<'_, '_>, index: usize) -> Result<f64, SqlError> {
    match arguments.value(index) {
        Datum::Int(value) => Ok(value as f64),
        Datum::Float(value) => Ok(value),
        Datum::Decimal(value) if i64::try_from(value.units() / ONE).is_err() => {
            Err(SqlError::cast_out_of_range(SqlType::Decimal, value.units(), SqlType::BigInt))
        }
        Datum::Decimal(value) => Ok(value.to_f64()),
        _ => Err(arguments.mistyped(index, SqlType::Float)),
    }
}

/// POWER(base, exponent) and ATAN2(y, x).
fn of_two<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let (x, y) = (float(arguments, 0)?, float(arguments, 1)?);
    let result = match arguments.function {
        Function::Power => x.powf(y),
        _ => x.atan2(y),
    };
    finish(arguments, &[x, y], result)
}

/// SIGN: -1, 0 or 1, in the argument's type.
fn sign<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    Ok(match arguments.value(0) {
        Datum::Int(value) => Datum::Int(value.signum()),
        Datum::Float(0.0) => Datum::Float(0.0),
        Datum::Float(value) => Datum::Float(value.signum()),
        Datum::Decimal(value) => Datum::Decimal(Decimal::from_raw(value.units().signum() * ONE)),
        _ => return Err(arguments.mistyped(0, SqlType::Float)),
    })
}

/// TRUNC(number [, digits]), in the argument's type: digits after those are dropped.
fn truncate<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let digits = if arguments.has(1) { arguments.integer(1)? } else { 0 };
    let dropped = |units: i128, places: i64| match u32::try_from(places - digits) {
        Err(_) => units,
        Ok(count) => match 10i128.checked_pow(count) {
            Some(step) => units - units % step,
            None => 0,
        },
    };
    let digits_fit = (-400..=400).contains(&digits);
    Ok(match arguments.value(0) {
        Datum::Int(_) if digits < -18 => Datum::Int(0),
        Datum::Int(value) if digits >= 0 => Datum::Int(value),
        Datum::Int(value) => Datum::Int(dropped(value.into(), 0) as i64),
        Datum::Decimal(value) if digits_fit => {
            Datum::Decimal(Decimal::from_raw(dropped(value.units(), SCALE.into())))
        }
        Datum::Float(value) if digits_fit && digits == 0 => Datum::Float(value.trunc()),
        Datum::Float(value) if digits_fit => {
            let step = 10f64.powi(digits as i32);
            let scaled = value * step;
            return if scaled.is_finite() && step > 0.0 {
                finish(arguments, &[value], scaled.trunc() / step)
            } else {
                Ok(Datum::Float(value))
            };
        }
        other if digits > 0 => other,
        Datum::Decimal(_) => Datum::Decimal(Decimal::from_raw(0)),
        _ => Datum::Float(0.0),
    })
}

fn absolute<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    Ok(match arguments.value(0) {
        // The sentinel is no value, so that every integer has its opposite.
        Datum::Int(value) => Datum::Int(value.wrapping_abs()),
        Datum::Float(value) => Datum::Float(value.abs()),
        Datum::Decimal(value) => Datum::Decimal(Decimal::from_raw(value.units().abs())),
        _ => return Err(arguments.mistyped(0, SqlType::BigInt)),
    })
}

/// CEILING and FLOOR, in the argument's type.
fn whole<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let up = arguments.function == Function::Ceiling;
    Ok(match arguments.value(0) {
        Datum::Int(value) => Datum::Int(value),
        Datum::Float(value) => Datum::Float(if up { value.ceil() } else { value.floor() }),
        Datum::Decimal(value) => {
            let floor = value.units().div_euclid(ONE);
            let exact = value.units().rem_euclid(ONE) == 0;
            let units = if up && !exact { floor + 1 } else { floor } * ONE;
            // One digit more than a DECIMAL has fits its 128 bits.
            Datum::Decimal(Decimal::from_raw(units))
        }
        _ => return Err(arguments.mistyped(0, SqlType::Float)),
    })
}

/// ROUND(number, digits) gives a DECIMAL, ties to even.
fn round<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let value = match arguments.value(0) {
        Datum::Float(value) => decimal_of_float(value)
            .ok_or_else(|| SqlError::cast_out_of_range(SqlType::Float, value, SqlType::Decimal))?,
        _ => arguments.decimal(0)?,
    };
    let digits = if arguments.has(1) { rounding_digits(arguments)? } else { 0 };
    let units = round_units(value.units(), digits);
    if units.abs() > MAX_UNITS + 1 {
        return Err(SqlError::out_of_range(format!("ROUND of {value} overflows DECIMAL")));
    }
    Ok(Datum::Decimal(Decimal::from_raw(units)))
}

/// The second argument of ROUND and FORMAT_CURRENCY; NULL is out of its range.
pub(super) fn rounding_digits(arguments: &Arguments<'_, '_>) -> Result<i64, SqlError> {
    let digits = arguments.integer(1)?;
    if arguments.value(1).is_null() || digits >= 12 || digits <= -26 {
        return Err(SqlError::argument("the second parameter should be < 12 and > -26"));
    }
    Ok(digits)
}

/// Units of 10^-12 rounded to a number of digits after the point (before it, if negative), ties
/// to even. Digits are between -25 and 11.
pub(super) fn round_units(units: i128, digits: i64) -> i128 {
    let step = 10i128.pow((i64::from(SCALE) - digits).clamp(0, 37) as u32);
    let quotient = units.div_euclid(step);
    let rest = units.rem_euclid(step);
    let up = match (rest * 2).cmp(&step) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => quotient % 2 != 0,
        std::cmp::Ordering::Less => false,
    };
    (quotient + i128::from(up)) * step
}
