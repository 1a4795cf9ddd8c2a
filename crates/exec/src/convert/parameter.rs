//! A client's parameters as a procedure or a statement declares them. What is taken for what,
//! and the texts of refusals, are those that VoltDB's clients know: the names in them are those
//! of Java's types.

use super::{array_parameter, hex_bytes, java, value_of_type};
use crate::arena::Arena;
use crate::cast::{decimal_of_float, number_of_text};
use crate::error::{ErrorKind, SqlError, state};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_plan_ir::statement::StatementParameter;
use lockstep_types::decimal::{DecimalError, ONE};
use lockstep_types::float::{float_datum, float_of_word};
use lockstep_types::parameter::ArrayParameter;
use lockstep_types::timestamp;
use lockstep_types::{Datum, Decimal, Parameter, ParameterSet, SqlType};

type Converted<'a> = Result<Datum<'a>, SqlError>;

/// A client's parameter as a procedure declares it. Integers of all declared widths take 64 bits;
/// assignment to a column tests their range. An array becomes what `array_parameter` makes.
///
/// # Errors
/// A value that the declared type does not take; the message is what follows
/// `PROCEDURE P TYPE ERROR FOR PARAMETER n: `.
pub fn procedure_parameter<'a>(
    given: Parameter<'a>,
    wanted: ProcedureParameter,
    arena: &'a Arena,
) -> Converted<'a> {
    let to = wanted.sql_type;
    match (given, wanted.is_array) {
        // A null time is a time to Java, and only text and times take those.
        (Parameter::Scalar(SqlType::Timestamp, Datum::Null), false)
            if to.is_number() || to == SqlType::Varbinary =>
        {
            scalar(Datum::Timestamp(i64::MIN), SqlType::Timestamp, to, arena)
        }
        (Parameter::Scalar(_, Datum::Null), _) => Ok(Datum::Null),
        (Parameter::Scalar(from, value), false) => scalar(value, from, to, arena),
        // To Java an array of bytes is one, whichever way the client sent it.
        (Parameter::Scalar(_, Datum::Bytes(bytes)), true) if to == SqlType::TinyInt => {
            let elements = bytes.iter().map(|byte| match *byte as i8 {
                i8::MIN => Datum::Null,
                value => Datum::Int(value.into()),
            });
            Ok(array_parameter(arena, to, elements))
        }
        (Parameter::Scalar(from, _), true) => {
            Err(java::mismatch(java::class(from), java::array(to)))
        }
        (Parameter::Array(array), false) if array.element_type == SqlType::TinyInt => {
            let byte = |element| match element {
                Datum::Int(value) => value as u8,
                _ => i8::MIN as u8,
            };
            let bytes: Vec<u8> = array.iter().map(byte).collect();
            scalar(Datum::Bytes(arena.copy(&bytes)), SqlType::Varbinary, to, arena)
        }
        (Parameter::Array(array), false) => {
            Err(java::mismatch(java::array(array.element_type), java::target(to)))
        }
        (Parameter::Array(array), true) => elements(&array, to, arena),
        (Parameter::Table(_), _) => {
            let target = if wanted.is_array { java::array(to) } else { java::target(to) };
            Err(java::mismatch("org.voltdb.VoltTable", target))
        }
    }
}

/// A statement's parameters, as for [`procedure_parameter`].
///
/// # Errors
/// A wrong number of parameters, or one that its type does not take.
pub fn statement_parameters<'a>(
    given: ParameterSet<'a>,
    planned: &[StatementParameter],
    arena: &'a Arena,
) -> Result<Vec<Datum<'a>>, SqlError> {
    require_count(given, planned)?;
    let mut values = Vec::with_capacity(planned.len());
    // What most clients send: values of the planned types.
    let mut rest = given.bytes();
    for parameter in planned {
        let Some((value, behind)) = value_of_type(wanted(parameter), rest, arena) else {
            return converted_parameters(given, planned, values, arena);
        };
        values.push(value);
        rest = behind;
    }
    Ok(values)
}

#[cold]
fn converted_parameters<'a>(
    given: ParameterSet<'a>,
    planned: &[StatementParameter],
    mut values: Vec<Datum<'a>>,
    arena: &'a Arena,
) -> Result<Vec<Datum<'a>>, SqlError> {
    values.clear();
    for (parameter, planned) in given.iter().zip(planned) {
        let parameter = parameter.map_err(|error| refused(error.to_string()))?;
        values.push(statement_value(parameter, planned, arena)?);
    }
    Ok(values)
}

/// One of a statement's parameters, as [`statement_parameters`] gives it; the others are not
/// looked at.
///
/// # Errors
/// A wrong number of parameters, or that the type does not take it.
pub(crate) fn statement_parameter<'a>(
    given: ParameterSet<'a>,
    planned: &[StatementParameter],
    number: usize,
    arena: &'a Arena,
) -> Converted<'a> {
    require_count(given, planned)?;
    let parameter = given.get(number).expect("a plan names the parameters that it has");
    let parameter = parameter.map_err(|error| refused(error.to_string()))?;
    statement_value(parameter, &planned[number], arena)
}

fn require_count(given: ParameterSet<'_>, planned: &[StatementParameter]) -> Result<(), SqlError> {
    if given.count() == planned.len() {
        return Ok(());
    }
    Err(refused(format!(
        "SQL error while compiling query: Incorrect number of parameters passed: expected {}, \
         passed {}",
        planned.len(),
        given.count()
    )))
}

fn refused(message: String) -> SqlError {
    SqlError::new(ErrorKind::Statement, state::INVALID_PARAMETER, message)
}

fn wanted(planned: &StatementParameter) -> ProcedureParameter {
    ProcedureParameter { sql_type: planned.sql_type, is_array: planned.is_array }
}

/// One parameter of a statement.
///
/// # Errors
/// The statement's type does not take it.
pub(crate) fn statement_value<'a>(
    given: Parameter<'a>,
    planned: &StatementParameter,
    arena: &'a Arena,
) -> Converted<'a> {
    procedure_parameter(given, wanted(planned), arena).map_err(|error| {
        let message = error.message();
        let message = message.split_once("VoltTypeException: ").map_or(message, |(_, m)| m);
        let message = format!("Unable to execute adhoc sql statement(s): {message}");
        SqlError::new(ErrorKind::Statement, state::INVALID_PARAMETER, message)
    })
}

/// An array or a table that a procedure queues for a statement. A list may be of any integers,
/// because it says itself of which.
///
/// # Errors
/// The statement's type does not take it.
pub(crate) fn queued_list<'a>(
    given: Parameter<'a>,
    planned: &StatementParameter,
    arena: &'a Arena,
) -> Converted<'a> {
    match given {
        Parameter::Array(list)
            if planned.is_array
                && planned.sql_type.is_integer()
                && list.element_type.is_integer() =>
        {
            Ok(array_parameter(arena, list.element_type, list.iter()))
        }
        other => statement_value(other, planned, arena),
    }
}

fn elements<'a>(array: &ArrayParameter<'a>, to: SqlType, arena: &'a Arena) -> Converted<'a> {
    let from = array.element_type;
    let convertible = from == to
        || array.count == 0
        || matches!(
            (from, to),
            (SqlType::Varchar, SqlType::Varbinary) | (SqlType::Varbinary, SqlType::Varchar)
        );
    if !convertible {
        return Err(SqlError::argument(format!(
            "{}tryScalarMakeCompatible: Unable to match parameter array:{} to provided {}",
            java::TYPE_EXCEPTION,
            java::element(to),
            java::element(from),
        )));
    }
    let mut values = Vec::with_capacity(array.count as usize);
    for element in array.iter() {
        values.push(match element {
            Datum::Null => Datum::Null,
            value => scalar(value, from, to, arena)?,
        });
    }
    Ok(array_parameter(arena, to, values.into_iter()))
}

/// A value that is not NULL, as a declared type.
fn scalar<'a>(value: Datum<'a>, from: SqlType, to: SqlType, arena: &'a Arena) -> Converted<'a> {
    match to {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
            integer(value, from, to)
        }
        SqlType::Float => float(value, from),
        SqlType::Decimal => decimal(value, from),
        SqlType::Timestamp => time(value, from),
        SqlType::Varchar => text(value, from, arena),
        SqlType::Varbinary => bytes(value, from, arena),
        SqlType::GeographyPoint | SqlType::Geography => geographic(value, from, to, arena),
        SqlType::Null | SqlType::Boolean => match value {
            Datum::Bool(_) => Ok(value),
            _ => Err(java::no_match(value, from, to)),
        },
    }
}

/// VoltDB's text for NULL in CSV files and parameters.
pub(crate) const NULL_TEXT: &str = "\\N";

fn integer<'a>(value: Datum<'a>, from: SqlType, to: SqlType) -> Converted<'a> {
    match value {
        Datum::Int(_) => Ok(value),
        Datum::Decimal(v) => match i64::try_from(v.units() / ONE) {
            Ok(whole) if v.units() % ONE == 0 => Ok(Datum::Int(whole)),
            _ => Err(java::out_of_range(v, to)),
        },
        Datum::Text(NULL_TEXT) => Ok(Datum::Null),
        Datum::Text(text) => match integer_of_text(text) {
            Some(i64::MIN) => Ok(Datum::Null),
            Some(number) => Ok(Datum::Int(number)),
            None => Err(java::unreadable(text, "long")),
        },
        Datum::Bytes(_) => Err(java::mismatch("[B", java::target(to))),
        _ => Err(java::no_match(value, from, to)),
    }
}

/// An integer in text: blanks around it and commas in it do not matter; `X'..'` is hexadecimal.
fn integer_of_text(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(digits) = quoted_hex(text) {
        let sound =
            (1..=16).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        return sound.then(|| u64::from_str_radix(digits, 16).ok()).flatten().map(|v| v as i64);
    }
    if text.contains(',') { text.replace(',', "").parse().ok() } else { text.parse().ok() }
}

/// What stands between the quotes of `X'..'`.
fn quoted_hex(text: &str) -> Option<&str> {
    text.strip_prefix("X'").or_else(|| text.strip_prefix("x'"))?.strip_suffix('\'')
}

fn float<'a>(value: Datum<'a>, from: SqlType) -> Converted<'a> {
    let number = match value {
        Datum::Float(v) => v,
        Datum::Int(v) => v as f64,
        Datum::Decimal(v) => v.to_f64(),
        Datum::Text(NULL_TEXT) => return Ok(Datum::Null),
        Datum::Text(text) => {
            let plain = text.trim().replace(',', "");
            let number = number_of_text(&plain).filter(|number| number.is_finite());
            number
                .or_else(|| float_of_word(&plain))
                .ok_or_else(|| java::unreadable(text, "double"))?
        }
        Datum::Bytes(_) => return Err(java::mismatch("[B", "double")),
        _ => return Err(java::no_match(value, from, SqlType::Float)),
    };
    Ok(float_datum(number))
}

fn decimal<'a>(value: Datum<'a>, from: SqlType) -> Converted<'a> {
    match value {
        Datum::Decimal(_) => Ok(value),
        Datum::Int(v) => Ok(Datum::Decimal(Decimal::from_integer(v))),
        Datum::Float(v) => decimal_of_float(v)
            .map(Datum::Decimal)
            .ok_or_else(|| java::no_match(value, from, SqlType::Decimal)),
        Datum::Text(NULL_TEXT) => Ok(Datum::Null),
        Datum::Text(text) => {
            Decimal::parse_rounded(text).map(Datum::Decimal).map_err(|fault| {
                match (fault, text.chars().next()) {
                    (DecimalError::TooLarge, _) => java::no_match(value, from, SqlType::Decimal),
                    (_, Some(first)) if !first.is_ascii_digit() => java::number_format(&format!(
                        "Character {first} is neither a decimal digit number, decimal point, nor \
                     \"e\" notation exponential mark."
                    )),
                    _ => java::number_format(MISSING_MARK),
                }
            })
        }
        Datum::Timestamp(_) => Err(java::number_format(MISSING_MARK)),
        Datum::Bytes(_) => Err(java::mismatch("[B", java::target(SqlType::Decimal))),
        _ => Err(java::no_match(value, from, SqlType::Decimal)),
    }
}

const MISSING_MARK: &str = "Character array is missing \"e\" notation exponential mark.";

fn time<'a>(value: Datum<'a>, from: SqlType) -> Converted<'a> {
    match value {
        Datum::Timestamp(_) => Ok(value),
        // Microseconds since 1970 do not come in one or two bytes: as VoltDB does.
        Datum::Int(_) if matches!(from, SqlType::TinyInt | SqlType::SmallInt) => {
            Err(java::no_match(value, from, SqlType::Timestamp))
        }
        Datum::Int(v) => Ok(Datum::Timestamp(v)),
        Datum::Text(NULL_TEXT) => Ok(Datum::Null),
        Datum::Text(text) => {
            let text = text.trim();
            let micros = text.parse().ok().or_else(|| timestamp::parse(text));
            match micros {
                Some(i64::MIN) => Ok(Datum::Null),
                Some(micros) => Ok(Datum::Timestamp(micros)),
                None => Err(java::no_match(value, from, SqlType::Timestamp)),
            }
        }
        Datum::Decimal(v) => Err(java::out_of_range(v, SqlType::Timestamp)),
        Datum::Bytes(_) => Err(java::mismatch("[B", java::target(SqlType::Timestamp))),
        _ => Err(java::no_match(value, from, SqlType::Timestamp)),
    }
}

fn text<'a>(value: Datum<'a>, from: SqlType, arena: &'a Arena) -> Converted<'a> {
    match value {
        Datum::Text(NULL_TEXT) => Ok(Datum::Null),
        Datum::Text(_) => Ok(value),
        Datum::Int(v) => Ok(Datum::Text(arena.copy_text(&v.to_string()))),
        Datum::Float(v) => Ok(Datum::Text(arena.copy_text(&java::double(v)))),
        Datum::Timestamp(v) => Ok(Datum::Text(arena.copy_text(&timestamp::format(v)))),
        Datum::Point(_) => crate::cast::text(arena, value, from),
        Datum::Bytes(_) if from == SqlType::Geography => crate::cast::text(arena, value, from),
        Datum::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(NULL_TEXT) => Ok(Datum::Null),
            Ok(text) => Ok(Datum::Text(text)),
            Err(_) => Ok(Datum::Text(arena.copy_text(&String::from_utf8_lossy(bytes)))),
        },
        Datum::Decimal(v) => Err(java::out_of_range(v, SqlType::Varchar)),
        _ => Err(java::no_match(value, from, SqlType::Varchar)),
    }
}

/// Points and polygons, as such or as text.
fn geographic<'a>(value: Datum<'a>, from: SqlType, to: SqlType, arena: &'a Arena) -> Converted<'a> {
    match value {
        Datum::Text(NULL_TEXT) => Ok(Datum::Null),
        Datum::Text(_) => crate::cast::cast(arena, value, from, to),
        _ if from == to => crate::cast::cast(arena, value, from, to),
        _ => Err(java::no_match(value, from, to)),
    }
}

fn bytes<'a>(value: Datum<'a>, from: SqlType, arena: &'a Arena) -> Converted<'a> {
    match value {
        Datum::Bytes(_) if from != SqlType::Geography => Ok(value),
        Datum::Text(NULL_TEXT) => Ok(Datum::Null),
        Datum::Text(text) => {
            let digits = quoted_hex(text).unwrap_or(text);
            let bytes = hex_bytes(digits).ok_or_else(|| {
                SqlError::argument(
                    "java.lang.RuntimeException: String is not properly hex-encoded.",
                )
            })?;
            Ok(Datum::Bytes(arena.copy(&bytes)))
        }
        Datum::Decimal(v) => Err(java::out_of_range(v, SqlType::Varbinary)),
        _ => Err(java::mismatch(java::class(from), "[B")),
    }
}

#[cfg(test)]
mod tests;
