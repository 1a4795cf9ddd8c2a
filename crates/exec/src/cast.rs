//! CAST between types, and the texts of values.

use crate::arena::Arena;
use crate::error::{SqlError, state};
use crate::geography::Polygon;
use lockstep_types::decimal::{DecimalError, ONE, SCALE};
use lockstep_types::float::{float_datum, float_word};
use lockstep_types::geography::polygon_text;
use lockstep_types::{Datum, Decimal, SqlType, timestamp};
use std::fmt::Write;

/// The value of a literal as `to`: VoltDB converts those while it plans, by rules that differ for
/// bytes (text is hex digits) and for the digits of a DECIMAL (no more than were written).
///
/// # Errors
/// As for [`cast`].
pub fn cast_literal<'a>(
    arena: &'a Arena,
    value: Datum<'a>,
    from: SqlType,
    to: SqlType,
) -> Result<Datum<'a>, SqlError> {
    match (value, to) {
        (Datum::Text(text), SqlType::Varbinary) => match crate::convert::hex_bytes(text) {
            Some(bytes) => Ok(Datum::Bytes(arena.copy(&bytes))),
            None => Err(SqlError::cannot_cast(from, to)),
        },
        (Datum::Decimal(number), SqlType::Varchar) => {
            let text = number.to_string();
            let short = text.trim_end_matches('0');
            let zero = if short.ends_with('.') { 1 } else { 0 };
            Ok(Datum::Text(arena.copy_text(&text[..short.len() + zero])))
        }
        _ => cast(arena, value, from, to),
    }
}

/// The value as `to`; `from` is its static type. Declared lengths of text do not cut: a cast to
/// VARCHAR(n) keeps longer text.
///
/// # Errors
/// A number out of the target's range, text that is no such value, types without a conversion.
pub fn cast<'a>(
    arena: &'a Arena,
    value: Datum<'a>,
    from: SqlType,
    to: SqlType,
) -> Result<Datum<'a>, SqlError> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    match to {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
            to_integer_type(value, from, to)
        }
        SqlType::Float => float(value, from),
        SqlType::Decimal => decimal(value, from),
        SqlType::Varchar => match value {
            // Applications keep text as its bytes of UTF-8.
            Datum::Bytes(bytes) if from != SqlType::Geography => std::str::from_utf8(bytes)
                .map(Datum::Text)
                .map_err(|_| SqlError::cannot_cast(from, to)),
            _ => text(arena, value, from),
        },
        SqlType::Timestamp => time(value, from),
        SqlType::Varbinary if matches!(value, Datum::Bytes(_)) => Ok(value),
        SqlType::Boolean if matches!(value, Datum::Bool(_)) => Ok(value),
        SqlType::GeographyPoint | SqlType::Geography => geographic(arena, value, from, to),
        _ => Err(SqlError::cannot_cast(from, to)),
    }
}

fn to_integer_type<'a>(
    value: Datum<'_>,
    from: SqlType,
    to: SqlType,
) -> Result<Datum<'a>, SqlError> {
    let integer = match value {
        Datum::Int(v) | Datum::Timestamp(v) => v,
        Datum::Float(v) => truncated(v, from, to)?,
        Datum::Decimal(v) => {
            let whole = i64::try_from(v.units() / ONE).ok();
            let whole = whole.filter(|whole| *whole != i64::MIN);
            // VoltDB shows the unscaled digits and always names BIGINT.
            whole.ok_or_else(|| SqlError::cast_out_of_range(from, v.units(), SqlType::BigInt))?
        }
        Datum::Text(v) => integer_of_text(v, to)?,
        _ => return Err(SqlError::cannot_cast(from, to)),
    };
    let (low, high) = to.integer_range().unwrap_or((-i64::MAX, i64::MAX));
    if integer < low || integer > high {
        let source = if from.is_integer() { from } else { SqlType::BigInt };
        return Err(SqlError::cast_out_of_range(source, integer, to));
    }
    Ok(Datum::Int(integer))
}

/// A double cut toward zero, within 64 bits and above the sentinel.
fn truncated(value: f64, from: SqlType, to: SqlType) -> Result<i64, SqlError> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value > -LIMIT && value < LIMIT {
        return Ok(value as i64);
    }
    Err(SqlError::cast_out_of_range(from, float_text(value), to))
}

fn integer_of_text(text: &str, to: SqlType) -> Result<i64, SqlError> {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
    if let Ok(value) = trimmed.parse::<i64>() {
        return Ok(value);
    }
    match number_of_text(trimmed) {
        Some(value) => truncated(value, SqlType::Varchar, to),
        None => Err(not_a_number(text)),
    }
}

/// A decimal number with an optional exponent; nothing else that a double's text may be.
pub(crate) fn number_of_text(text: &str) -> Option<f64> {
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    if !text.bytes().all(plain) {
        return None;
    }
    text.parse().ok()
}

#[cold]
fn not_a_number(text: &str) -> SqlError {
    let message =
        format!("Could not convert to number: '{text}' contains invalid character value.");
    SqlError::coded(state::BAD_CAST, message)
}

fn float<'a>(value: Datum<'_>, from: SqlType) -> Result<Datum<'a>, SqlError> {
    let number = match value {
        Datum::Int(v) | Datum::Timestamp(v) => v as f64,
        Datum::Float(v) => return Ok(float_datum(v)),
        // VoltDB converts the part before the point through 64 bits.
        Datum::Decimal(v) if i64::try_from(v.units() / ONE).is_err() => {
            return Err(SqlError::cast_out_of_range(from, v.units(), SqlType::BigInt));
        }
        Datum::Decimal(v) => v.to_f64(),
        Datum::Text(v) => number_of_text(v.trim()).ok_or_else(|| not_a_number(v))?,
        _ => return Err(SqlError::cannot_cast(from, SqlType::Float)),
    };
    if !number.is_finite() {
        return Err(SqlError::cast_out_of_range(from, value, SqlType::Float));
    }
    Ok(float_datum(number))
}

fn decimal<'a>(value: Datum<'_>, from: SqlType) -> Result<Datum<'a>, SqlError> {
    Ok(Datum::Decimal(match value {
        Datum::Int(v) | Datum::Timestamp(v) => Decimal::from_integer(v),
        Datum::Decimal(v) => v,
        Datum::Float(v) => decimal_of_float(v)
            .ok_or_else(|| SqlError::cast_out_of_range(from, float_text(v), SqlType::Decimal))?,
        Datum::Text(v) => decimal_of_text(v)?,
        _ => return Err(SqlError::cannot_cast(from, SqlType::Decimal)),
    }))
}

/// The double with 12 digits after the point, rounded half away from zero on its exact binary
/// value.
pub fn decimal_of_float(value: f64) -> Option<Decimal> {
    if !value.is_finite() || value.abs() >= 1.0e26 {
        return None;
    }
    let whole = value.trunc();
    let fraction = ((value - whole) * ONE as f64).round();
    Decimal::from_units(whole as i128 * ONE + fraction as i128)
}

/// Text as DECIMAL: more than 12 digits after the point round half away from zero.
pub fn decimal_of_text(text: &str) -> Result<Decimal, SqlError> {
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
    Decimal::parse_rounded(trimmed).map_err(|fault| match fault {
        DecimalError::Malformed | DecimalError::TooPrecise => {
            let message = format!("Invalid characters in decimal string: {text}");
            SqlError::coded(state::BAD_CAST, message)
        }
        DecimalError::TooLarge => SqlError::out_of_range(format!(
            "Maximum precision exceeded. Maximum of {} digits to the left of the decimal point",
            38 - SCALE
        )),
    })
}

fn time<'a>(value: Datum<'_>, from: SqlType) -> Result<Datum<'a>, SqlError> {
    match value {
        Datum::Timestamp(v) | Datum::Int(v) => Ok(Datum::Timestamp(v)),
        Datum::Text(v) => timestamp::parse(v).map(Datum::Timestamp).ok_or_else(|| {
            SqlError::coded(
                state::BAD_CAST,
                format!(
                    "Attempted to cast '{v}' to type TIMESTAMP failed. Supported format: \
                     'YYYY-MM-DD HH:MM:SS.UUUUUU'or 'YYYY-MM-DD'"
                ),
            )
        }),
        _ => Err(SqlError::cannot_cast(from, SqlType::Timestamp)),
    }
}

/// Points and polygons, from their text or as they are.
fn geographic<'a>(
    arena: &'a Arena,
    value: Datum<'a>,
    from: SqlType,
    to: SqlType,
) -> Result<Datum<'a>, SqlError> {
    match (value, to) {
        (Datum::Point(_), SqlType::GeographyPoint) => Ok(value),
        (Datum::Text(text), SqlType::GeographyPoint) => {
            Ok(Datum::Point(crate::functions::geography::point_of_text(text)?))
        }
        (Datum::Bytes(bytes), SqlType::Geography) => complete_polygon(arena, bytes),
        (Datum::Text(text), SqlType::Geography) => {
            let polygon = Polygon::from_text(text, false).map_err(SqlError::argument)?;
            Ok(Datum::Bytes(arena.copy(&polygon.to_bytes())))
        }
        _ => Err(SqlError::cannot_cast(from, to)),
    }
}

/// A polygon as a client sent it with its bounds, depths and origin flags worked out.
///
/// # Errors
/// Bytes that are not a polygon.
pub fn complete_polygon<'a>(arena: &'a Arena, bytes: &[u8]) -> Result<Datum<'a>, SqlError> {
    let polygon = Polygon::from_vertices(bytes).map_err(SqlError::argument)?;
    Ok(Datum::Bytes(arena.copy(&polygon.to_bytes())))
}

/// The text of a value, as CAST to VARCHAR and `||` make it.
pub fn text<'a>(arena: &'a Arena, value: Datum<'a>, from: SqlType) -> Result<Datum<'a>, SqlError> {
    let mut buffer = TextBuffer::default();
    // Writing into the buffer cannot fail: it is longer than any of these texts.
    let _ = match value {
        Datum::Text(_) | Datum::Null => return Ok(value),
        Datum::Int(v) => write!(buffer, "{v}"),
        Datum::Decimal(v) => write!(buffer, "{v}"),
        Datum::Float(v) => return Ok(Datum::Text(arena.copy_text(&float_text(v)))),
        Datum::Timestamp(v) => return Ok(Datum::Text(arena.copy_text(&timestamp::format(v)))),
        Datum::Point(v) => return Ok(Datum::Text(arena.copy_text(&v.to_string()))),
        Datum::Bytes(bytes) if from == SqlType::Geography => {
            let text = polygon_text(bytes)
                .ok_or_else(|| SqlError::argument("the bytes of a GEOGRAPHY are damaged"))?;
            return Ok(Datum::Text(arena.copy_text(&text)));
        }
        _ => return Err(SqlError::cannot_cast(from, SqlType::Varchar)),
    };
    Ok(Datum::Text(arena.copy_text(buffer.as_str())))
}

/// Room for the text of any integer or DECIMAL.
struct TextBuffer {
    bytes: [u8; 48],
    length: usize,
}

impl Default for TextBuffer {
    fn default() -> Self {
        TextBuffer { bytes: [0; 48], length: 0 }
    }
}

impl TextBuffer {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for TextBuffer {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let target = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        target.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// A double as VoltDB writes it: seven significant digits, `1.234568E5`, `5.0E-1`, `0E0`.
pub fn float_text(value: f64) -> String {
    if value == 0.0 {
        return "0E0".to_string();
    }
    if let Some(word) = float_word(value) {
        return word.to_string();
    }
    let text = format!("{value:.6E}");
    let Some((mantissa, exponent)) = text.split_once('E') else { return text };
    let mantissa = mantissa.trim_end_matches('0');
    let padding = if mantissa.ends_with('.') { "0" } else { "" };
    format!("{mantissa}{padding}E{exponent}")
}

#[cfg(test)]
mod tests;
