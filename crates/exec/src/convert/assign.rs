//! Assignment of a value to a column: its type, range and length, and NOT NULL.

use crate::arena::Arena;
use crate::cast;
use crate::error::{SqlError, state};
use lockstep_plan_ir::schema::ColumnDefinition;
use lockstep_types::geography::COMPLETE;
use lockstep_types::{Datum, SqlType};

/// The value as the column stores it. NULL is returned as NULL even for a NOT NULL column: the
/// caller, who knows the whole row, reports the violated constraint.
///
/// # Errors
/// A value out of the column's range or longer than it, with VoltDB's wording.
#[inline]
pub fn assign<'a>(
    arena: &'a Arena,
    value: Datum<'a>,
    column: &ColumnDefinition,
) -> Result<Datum<'a>, SqlError> {
    match (value, column.sql_type) {
        (Datum::Null, _) => Ok(Datum::Null),
        (Datum::Int(_), SqlType::BigInt)
        | (Datum::Float(_), SqlType::Float)
        | (Datum::Decimal(_), SqlType::Decimal)
        | (Datum::Timestamp(_), SqlType::Timestamp)
        | (Datum::Point(_), SqlType::GeographyPoint) => Ok(value),
        (Datum::Int(v), kind) if kind.is_integer() => match kind.integer_range() {
            Some((low, high)) if v < low || v > high => Err(out_of_range(v, column)),
            _ => Ok(value),
        },
        (Datum::Text(text), SqlType::Varchar) => {
            check_text(text, column)?;
            Ok(value)
        }
        (Datum::Bytes(bytes), SqlType::Varbinary) => {
            if bytes.len() > column.length as usize {
                return Err(bytes_too_long(bytes.len(), column));
            }
            Ok(value)
        }
        (Datum::Bytes(bytes), SqlType::Geography) if bytes.first() == Some(&(COMPLETE as u8)) => {
            if bytes.len() > column.length as usize {
                return Err(bytes_too_long(bytes.len(), column));
            }
            Ok(value)
        }
        _ => convert(arena, value, column),
    }
}

/// A value of another kind: numbers widen and narrow, text becomes what it says.
fn convert<'a>(
    arena: &'a Arena,
    value: Datum<'a>,
    column: &ColumnDefinition,
) -> Result<Datum<'a>, SqlError> {
    let to = column.sql_type;
    let named = |error: SqlError| error.with_suffix(&format!(" '{}'", column.name));
    let converted = match (value, to) {
        (Datum::Decimal(number), SqlType::Float) => Datum::Float(number.to_f64()),
        (Datum::Text(text), SqlType::Varbinary) => {
            let bytes = super::hex_bytes(text).ok_or_else(|| {
                let message = format!("Type {} can't be cast as {to}", SqlType::Varchar);
                named(SqlError::coded(state::BAD_CAST, message))
            })?;
            Datum::Bytes(arena.copy(&bytes))
        }
        (Datum::Bytes(bytes), SqlType::Varchar) => match std::str::from_utf8(bytes) {
            Ok(text) => Datum::Text(text),
            Err(_) => return Err(named(SqlError::cannot_cast(SqlType::Varbinary, to))),
        },
        _ => cast::cast(arena, value, value.natural_type(), to).map_err(named)?,
    };
    match (converted, to) {
        (Datum::Text(text), SqlType::Varchar) => check_text(text, column)?,
        (Datum::Bytes(bytes), _) if bytes.len() > column.length as usize => {
            return Err(bytes_too_long(bytes.len(), column));
        }
        _ => {}
    }
    Ok(converted)
}

#[inline]
fn check_text(text: &str, column: &ColumnDefinition) -> Result<(), SqlError> {
    let limit = column.length as usize;
    // A text has at most as many characters as bytes, so most need no counting.
    if text.len() <= limit {
        return Ok(());
    }
    let size = if column.length_in_bytes { text.len() } else { text.chars().count() };
    if size > limit { Err(text_too_long(text, size, column)) } else { Ok(()) }
}

#[cold]
fn out_of_range(value: i64, column: &ColumnDefinition) -> SqlError {
    SqlError::cast_out_of_range(SqlType::BigInt, value, column.sql_type)
        .with_suffix(&format!(" '{}'", column.name))
}

#[cold]
fn text_too_long(text: &str, size: usize, column: &ColumnDefinition) -> SqlError {
    /// Longer values are cut in the message.
    const SHOWN_CHARACTERS: usize = 100;
    let unit = if column.length_in_bytes { " BYTES" } else { "" };
    let (shown, cut) = match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => (&text[..end], "..."),
        None => (text, ""),
    };
    let message = format!(
        "The size {size} of the value '{shown}{cut}' exceeds the size of the VARCHAR({}{unit}) \
         column '{}'",
        column.length, column.name
    );
    SqlError::coded(state::TOO_LONG, message)
}

#[cold]
fn bytes_too_long(size: usize, column: &ColumnDefinition) -> SqlError {
    let message = format!(
        "The size {size} of the value exceeds the size of the {}({}) column '{}'",
        column.sql_type, column.length, column.name
    );
    SqlError::coded(state::TOO_LONG, message)
}
