//! A call's parameters as its procedure declares them.

use crate::arena::Arena;
use crate::cast::cast;
use crate::context::{Context, NoSubqueries};
use crate::convert::{procedure_parameter, statement_parameters};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::frame::Frame;
use crate::statement::PreparedStatement;
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::procedure::ProcedureDefinition;
use lockstep_plan_ir::statement::StatementParameter;
use lockstep_types::{Datum, Failure, Parameter, ParameterSet, SqlType, Value};

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
    for (number, (value, parameter)) in values.iter_mut().zip(given.iter()).enumerate() {
        let parameter = match parameter {
            Ok(parameter) => parameter,
            Err(error) => return Err(Failure::graceful(error.to_string())),
        };
        let wanted = declared[number];
        *value = match parameter {
            // What most clients send: the declared type itself, or a 64-bit integer for one.
            Parameter::Scalar(sql_type, given)
                if sql_type == wanted.sql_type && !wanted.is_array =>
            {
                given
            }
            parameter => match procedure_parameter(parameter, wanted, arena) {
                Ok(value) => value,
                Err(error) => return Err(wrong_type(definition, number, &error)),
            },
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
#[inline]
pub(super) fn queued_parameter<'a>(
    value: Datum<'a>,
    wanted: StatementParameter,
    arena: &'a Arena,
) -> Result<Datum<'a>, SqlError> {
    match (value, wanted.sql_type) {
        (Datum::Null, _)
        | (Datum::Int(_), SqlType::BigInt)
        | (Datum::Text(_), SqlType::Varchar)
        | (Datum::Bytes(_), SqlType::Varbinary)
        | (Datum::Timestamp(_), SqlType::Timestamp)
        | (Datum::Float(_), SqlType::Float)
        | (Datum::Decimal(_), SqlType::Decimal) => Ok(value),
        (Datum::Bytes(_), _) if wanted.is_array => Ok(value),
        (Datum::Int(number), sql_type) => match sql_type.integer_range() {
            Some((low, high)) if (low..=high).contains(&number) => Ok(value),
            _ => cast(arena, value, SqlType::BigInt, sql_type),
        },
        _ => cast(arena, value, value.natural_type(), wanted.sql_type),
    }
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
    let parameters = statement_parameters(given, &prepared.statement().parameters, &arena)?;
    let context =
        Context { parameters: &parameters, arena: &arena, now_us: 0, subqueries: &NoSubqueries };
    Ok(evaluate(routing, &context, &Frame::new(&arena, 0))?.to_value())
}
