//! The names and texts of Java that stand in VoltDB's refusals of parameters.

use crate::error::SqlError;
use lockstep_types::decimal::SCALE;
use lockstep_types::float::float_word;
use lockstep_types::{Datum, Decimal, SqlType, timestamp};

/// What stands before most refusals.
pub(super) const TYPE_EXCEPTION: &str = "org.voltdb.VoltTypeException: ";

const TIMESTAMP: &str = "org.voltdb.types.TimestampType";

/// The class of a value as sent.
pub(super) fn class(sql_type: SqlType) -> &'static str {
    match sql_type {
        SqlType::TinyInt => "java.lang.Byte",
        SqlType::SmallInt => "java.lang.Short",
        SqlType::Integer => "java.lang.Integer",
        SqlType::BigInt => "java.lang.Long",
        SqlType::Float => "java.lang.Double",
        SqlType::Boolean => "java.lang.Boolean",
        other => element(other),
    }
}

/// The type of a declared parameter; all integers are long.
pub(super) fn target(sql_type: SqlType) -> &'static str {
    if sql_type.is_integer() { "long" } else { element(sql_type) }
}

/// The type of an array's elements.
pub(super) fn element(sql_type: SqlType) -> &'static str {
    match sql_type {
        SqlType::TinyInt => "byte",
        SqlType::SmallInt => "short",
        SqlType::Integer => "int",
        SqlType::BigInt => "long",
        SqlType::Float => "double",
        SqlType::Varchar => "java.lang.String",
        SqlType::Timestamp => TIMESTAMP,
        SqlType::Decimal => "java.math.BigDecimal",
        SqlType::Varbinary => "[B",
        SqlType::GeographyPoint => "org.voltdb.types.GeographyPointValue",
        SqlType::Geography => "org.voltdb.types.GeographyValue",
        SqlType::Boolean => "boolean",
        SqlType::Null => "null",
    }
}

/// The class of an array.
pub(super) fn array(sql_type: SqlType) -> &'static str {
    match sql_type {
        SqlType::TinyInt => "[B",
        SqlType::SmallInt => "[S",
        SqlType::Integer => "[I",
        SqlType::BigInt => "[J",
        SqlType::Float => "[D",
        SqlType::Varchar => "[Ljava.lang.String;",
        SqlType::Timestamp => "[Lorg.voltdb.types.TimestampType;",
        SqlType::Decimal => "[Ljava.math.BigDecimal;",
        SqlType::Varbinary => "[[B",
        SqlType::GeographyPoint => "[Lorg.voltdb.types.GeographyPointValue;",
        SqlType::Geography => "[Lorg.voltdb.types.GeographyValue;",
        SqlType::Boolean => "[Z",
        SqlType::Null => "[Ljava.lang.Object;",
    }
}

/// An array for a scalar, or the other way round.
#[cold]
pub(super) fn mismatch(from: &str, to: &str) -> SqlError {
    SqlError::argument(format!(
        "{TYPE_EXCEPTION}Array / Scalar parameter mismatch ({from} to {to})"
    ))
}

/// A value that the target does not take.
#[cold]
pub(super) fn no_match(value: Datum<'_>, from: SqlType, to: SqlType) -> SqlError {
    let shown = match value {
        Datum::Float(v) => double(v),
        // The formatter of VoltDB wraps around at the NULL of times.
        Datum::Timestamp(i64::MIN) => "290303-12-10 19:59:05.224192".to_string(),
        Datum::Timestamp(v) => timestamp::format(v),
        other => other.to_string(),
    };
    let (from, to) = (class(from), target(to));
    SqlError::argument(format!(
        "{TYPE_EXCEPTION}The provided value: ({shown}) of type: {from} is not a match or is out \
         of range for the target parameter type: {to}"
    ))
}

/// A DECIMAL that the target does not take.
#[cold]
pub(super) fn out_of_range(value: Decimal, to: SqlType) -> SqlError {
    let (shown, to) = (big_decimal(value), target(to));
    SqlError::argument(format!(
        "{TYPE_EXCEPTION}The provided value: ({shown}) of type: java.math.BigDecimal is out of \
         range for the target parameter type: {to}"
    ))
}

/// A text that is no number.
#[cold]
pub(super) fn unreadable(text: &str, to: &str) -> SqlError {
    SqlError::argument(format!(
        "{TYPE_EXCEPTION}Unable to convert string {text} to {to} value for target parameter."
    ))
}

/// A text that is no DECIMAL.
#[cold]
pub(super) fn number_format(message: &str) -> SqlError {
    SqlError::argument(format!("java.lang.NumberFormatException: {message}"))
}

/// A double as Java prints it: `1.5`, `1.0E15`.
pub(super) fn double(value: f64) -> String {
    if let Some(word) = float_word(value) {
        return word.to_string();
    }
    if value == 0.0 || (1.0e-3..1.0e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => text,
    }
}

/// A DECIMAL as Java prints it: with an exponent when it is small.
fn big_decimal(value: Decimal) -> String {
    let digits = value.units().unsigned_abs().to_string();
    let exponent = digits.len() as i64 - 1 - i64::from(SCALE);
    if exponent >= -6 {
        return value.to_string();
    }
    let sign = if value.units() < 0 { "-" } else { "" };
    match digits.split_at(1) {
        (first, "") => format!("{sign}{first}E{exponent}"),
        (first, rest) => format!("{sign}{first}.{rest}E{exponent}"),
    }
}
