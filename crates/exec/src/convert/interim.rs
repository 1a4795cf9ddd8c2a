//! Parameters of calls and statements by plain casts, until the exact rules stand beside.

use super::array_parameter;
use crate::arena::Arena;
use crate::cast::cast;
use crate::error::SqlError;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_plan_ir::statement::StatementParameter;
use lockstep_types::{Datum, Parameter, ParameterSet, SqlType};

/// A client's parameter as a procedure declares it.
///
/// # Errors
/// A value of another kind or out of range.
pub fn procedure_parameter<'a>(
    given: Parameter<'a>,
    wanted: ProcedureParameter,
    arena: &'a Arena,
) -> Result<Datum<'a>, SqlError> {
    let to = wanted.sql_type;
    match given {
        Parameter::Scalar(_, Datum::Null) => Ok(Datum::Null),
        Parameter::Scalar(from, value) if !wanted.is_array => convert(value, from, to, arena),
        Parameter::Array(array) if wanted.is_array => {
            let mut elements = Vec::with_capacity(array.count as usize);
            for element in array.iter() {
                elements.push(convert(element, array.element_type, to, arena)?);
            }
            Ok(array_parameter(arena, to, elements.into_iter()))
        }
        Parameter::Array(array) if array.element_type == SqlType::TinyInt && !wanted.is_array => {
            let bytes: Vec<u8> = array
                .iter()
                .map(|element| if let Datum::Int(value) = element { value as u8 } else { 0x80 })
                .collect();
            convert(Datum::Bytes(arena.copy(&bytes)), SqlType::Varbinary, to, arena)
        }
        _ => Err(SqlError::argument(format!("a value of type {to} was expected"))),
    }
}

fn convert<'a>(
    value: Datum<'a>,
    from: SqlType,
    to: SqlType,
    arena: &'a Arena,
) -> Result<Datum<'a>, SqlError> {
    if from == to || value.is_null() { Ok(value) } else { cast(arena, value, from, to) }
}

/// A statement's parameters.
///
/// # Errors
/// As for [`procedure_parameter`]; a wrong number of parameters.
pub fn statement_parameters<'a>(
    given: ParameterSet<'a>,
    planned: &[StatementParameter],
    arena: &'a Arena,
) -> Result<Vec<Datum<'a>>, SqlError> {
    if given.count() != planned.len() {
        return Err(SqlError::argument(format!(
            "Incorrect number of parameters passed: expected {}, passed {}",
            planned.len(),
            given.count()
        )));
    }
    given
        .iter()
        .zip(planned)
        .map(|(parameter, planned)| {
            let parameter = parameter.map_err(|error| SqlError::argument(error.to_string()))?;
            let wanted =
                ProcedureParameter { sql_type: planned.sql_type, is_array: planned.is_array };
            procedure_parameter(parameter, wanted, arena)
        })
        .collect()
}
