//! Numbers as text: FORMAT_CURRENCY and STR.

use super::numeric::{round_units, rounding_digits};
use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_plan_ir::Function;
use lockstep_types::decimal::ONE;
use lockstep_types::{Datum, SqlType};

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.value(0).is_null() {
        return Ok(Datum::Null);
    }
    match arguments.function {
        Function::FormatCurrency => currency(arguments),
        _ => plain(arguments),
    }
}

/// `-1,234,567.89`
fn currency<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let value = arguments.decimal(0)?.units();
    let digits = rounding_digits(arguments)?;
    let (whole, fraction) = rounded(value, digits)?;
    let mut text = sign(value).to_string();
    let number = whole.to_string();
    for (index, digit) in number.chars().enumerate() {
        if index > 0 && (number.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.push_str(&fraction);
    arguments.new_text(&text)
}

/// `STR(number [, length [, digits]])`: stars when the text is longer.
fn plain<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let value = arguments.decimal(0)?.units();
    let length = if arguments.has(1) { arguments.integer(1)? } else { 10 };
    if length <= 0 || length > 38 {
        return Err(SqlError::argument("the second parameter should be <= 38 and > 0"));
    }
    let digits = if arguments.has(2) { arguments.integer(2)? } else { 0 };
    if !(0..12).contains(&digits) {
        return Err(SqlError::argument("the third parameter should be < 12 and >= 0"));
    }
    let (whole, fraction) = rounded(value, digits)?;
    let text = format!("{}{whole}{fraction}", sign(value));
    if text.len() as i64 > length {
        return arguments.new_text(&"*".repeat(length as usize));
    }
    arguments.new_text(&text)
}

fn sign(units: i128) -> &'static str {
    if units < 0 { "-" } else { "" }
}

/// The magnitude before the point, and the text after it with the point.
fn rounded(units: i128, digits: i64) -> Result<(u128, String), SqlError> {
    let units = round_units(units, digits);
    // VoltDB writes the part before the point from 64 bits.
    if i64::try_from(units / ONE).is_err() {
        return Err(SqlError::cast_out_of_range(SqlType::Decimal, units, SqlType::BigInt));
    }
    let magnitude = units.unsigned_abs();
    let one = ONE.unsigned_abs();
    let mut fraction = String::new();
    if digits > 0 {
        fraction = format!(".{:012}", magnitude % one);
        fraction.truncate(1 + digits as usize);
    }
    Ok((magnitude / one, fraction))
}
