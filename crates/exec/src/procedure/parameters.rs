//! A call's parameters as its procedure declares them.

use crate::arena::Arena;
use crate::cast::cast;
use crate::context::{Context, NoSubqueries};
use crate::convert::{
    procedure_parameter, statement_parameter, statement_parameters, value_of_type,
};
use crate::error::{SqlError, state};
use crate::evaluate::evaluate;
use crate::frame::Frame;
use crate::statement::PreparedStatement;
use lockstep_base::bytes::ByteReader;
use lockstep_plan_ir::expression::{Expression, Node};
use lockstep_plan_ir::procedure::ProcedureDefinition;
use lockstep_plan_ir::statement::StatementParameter;
use lockstep_types::table::read_datum;
use lockstep_types::{Datum, Failure, ParameterSet, SqlType, Value};

/// Converts a call's parameters to the declared types.
#[inline]
pub(super) fn procedure_parameters<'a>(
    definition: &ProcedureDefinition,
    given: ParameterSet<'a>,
    arena: &'a Arena,
) -> Result<&'a [Datum<'a>], Failure> {
    let declared = &definition.parameters;
    if given.count() != declared.len() {
        return Err(wrong_count(definition, given.count()));
    }
    let values = arena.fill(declared.len(), Datum::Null);
    // What most clients send: values of the declared types.
    let mut rest = given.bytes();
    for number in 0..declared.len() {
        let Some((value, behind)) = value_of_type(declared[number], rest, arena) else {
            return converted_parameters(definition, given, values, arena);
        };
        values[number] = value;
        rest = behind;
    }
    Ok(values)
}

#[cold]
fn converted_parameters<'a>(
    definition: &ProcedureDefinition,
    given: ParameterSet<'a>,
    values: &'a mut [Datum<'a>],
    arena: &'a Arena,
) -> Result<&'a [Datum<'a>], Failure> {
    for (number, parameter) in given.iter().enumerate() {
        let parameter = match parameter {
            Ok(parameter) => parameter,
            Err(error) => return Err(Failure::graceful(error.to_string())),
        };
        values[number] = match procedure_parameter(parameter, definition.parameters[number], arena)
        {
            Ok(value) => value,
            Err(error) => return Err(wrong_type(definition, number, &error)),
        };
    }
    Ok(values)
}

#[cold]
fn wrong_count(definition: &ProcedureDefinition, given: usize) -> Failure {
    let (name, expected) = (&definition.name, definition.parameters.len());
    Failure::graceful(format!(
        "VOLTDB ERROR: PROCEDURE {name} EXPECTS {expected} PARAMS, BUT RECEIVED {given}"
    ))
}

#[cold]
fn wrong_type(definition: &ProcedureDefinition, number: usize, error: &SqlError) -> Failure {
    let name = &definition.name;
    Failure::graceful(format!(
        "VOLTDB ERROR: PROCEDURE {name} TYPE ERROR FOR PARAMETER {number}: {error}"
    ))
}

/// A value that a procedure queues, as its statement declares it.
#[inline(never)]
pub(super) fn queued_parameter<'a>(
    value: Datum<'a>,
    wanted: StatementParameter,
    statement: &PreparedStatement,
    arena: &'a Arena,
) -> Result<Datum<'a>, SqlError> {
    match (value, wanted.sql_type) {
        (Datum::Null, _)
        | (Datum::Text(_), SqlType::Varchar)
        | (Datum::Bytes(_), SqlType::Varbinary)
        | (Datum::Timestamp(_), SqlType::Timestamp)
        | (Datum::Float(_), SqlType::Float)
        | (Datum::Decimal(_), SqlType::Decimal) => Ok(value),
        (Datum::Bytes(_), _) if wanted.is_array => Ok(value),
        // Of any width: assignment to a column tests the range, and no column has a value
        // outside of its range to be found.
        (Datum::Int(_), sql_type) if sql_type.is_integer() => Ok(value),
        (Datum::Bytes(bytes), SqlType::Varchar) => text_of_bytes(bytes),
        (Datum::Float(_) | Datum::Decimal(_), SqlType::Timestamp) => {
            time_of_fraction(value, statement, arena)
        }
        _ => cast(arena, value, value.natural_type(), wanted.sql_type),
    }
}

/// A number with a fraction for a TIMESTAMP: a change takes its whole microseconds, as VoltDB does,
/// and a query refuses it.
#[cold]
fn time_of_fraction<'a>(
    value: Datum<'a>,
    statement: &PreparedStatement,
    arena: &'a Arena,
) -> Result<Datum<'a>, SqlError> {
    if statement.statement().read_only {
        return cast(arena, value, value.natural_type(), SqlType::Timestamp);
    }
    match cast(arena, value, value.natural_type(), SqlType::BigInt)? {
        Datum::Int(micros) => Ok(Datum::Timestamp(micros)),
        other => Ok(other),
    }
}

/// The text that bytes hold: procedures pass on the bytes of a VARCHAR that they read.
fn text_of_bytes<'a>(bytes: &'a [u8]) -> Result<Datum<'a>, SqlError> {
    std::str::from_utf8(bytes).map(Datum::Text).map_err(|error| {
        let message = format!(
            "Type VARBINARY can't be cast as VARCHAR: the bytes are not UTF-8 text (at byte {})",
            error.valid_up_to()
        );
        SqlError::coded(state::BAD_CAST, message)
    })
}

/// Takes an integer, a text or a double at the beginning of a queued statement's parameters over
/// as it is, where that is what the statement declares; gives what follows it. `None` has left
/// the value as it was.
///
/// Values are written in place, as in [`super::ProcedureContext::queue`]: through a temporary, the
/// copy would wait for the bytes beside the tag to reach memory.
#[inline(always)]
pub(super) fn take_plain<'a>(
    bytes: &'a [u8],
    wanted: StatementParameter,
    value: &mut Datum<'a>,
) -> Option<&'a [u8]> {
    let (code, rest) = bytes.split_first()?;
    let (given, sql_type) = (SqlType::from_code(*code as i8)?, wanted.sql_type);
    if wanted.is_array {
        return None;
    }
    if sql_type.is_integer() {
        let (number, null, behind) = match given {
            SqlType::TinyInt => {
                let (number, behind) = rest.split_first_chunk()?;
                (i64::from(i8::from_be_bytes(*number)), i64::from(i8::MIN), behind)
            }
            SqlType::SmallInt => {
                let (number, behind) = rest.split_first_chunk()?;
                (i64::from(i16::from_be_bytes(*number)), i64::from(i16::MIN), behind)
            }
            SqlType::Integer => {
                let (number, behind) = rest.split_first_chunk()?;
                (i64::from(i32::from_be_bytes(*number)), i64::from(i32::MIN), behind)
            }
            SqlType::BigInt => {
                let (number, behind) = rest.split_first_chunk()?;
                (i64::from_be_bytes(*number), i64::MIN, behind)
            }
            _ => return None,
        };
        if number == null {
            *value = Datum::Null;
        } else {
            *value = Datum::Int(number);
        }
        return Some(behind);
    }
    if given != sql_type {
        return None;
    }
    let mut reader = ByteReader::new(rest);
    match (sql_type, read_datum(&mut reader, sql_type).ok()?) {
        (SqlType::Varchar, Datum::Text(text)) => *value = Datum::Text(text),
        (SqlType::Float, Datum::Float(number)) => *value = Datum::Float(number),
        _ => return None,
    }
    Some(reader.rest())
}

/// The value that routes a local statement: its `routing` over the call's parameters.
///
/// # Errors
/// Parameters that do not fit, and what the expression's evaluation refuses.
pub fn routing_value(
    prepared: &PreparedStatement,
    routing: &Expression,
    given: ParameterSet<'_>,
) -> Result<Value, SqlError> {
    let arena = Arena::new();
    let planned = &prepared.statement().parameters;
    // Most often a parameter as it was sent. The others are tested where the statement runs.
    if let Node::Parameter(number) = routing.node {
        return Ok(statement_parameter(given, planned, number.into(), &arena)?.to_value());
    }
    let parameters = statement_parameters(given, planned, &arena)?;
    let context =
        Context { parameters: &parameters, arena: &arena, now_us: 0, subqueries: &NoSubqueries };
    Ok(evaluate(routing, &context, &Frame::new(&arena, 0))?.to_value())
}
