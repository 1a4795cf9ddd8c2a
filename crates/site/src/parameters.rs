//! A statement's parameters from their encoded form to what the executor takes.

use crate::message::BoundStatement;
use lockstep_exec::SqlError;
use lockstep_exec::arena::Arena;
use lockstep_exec::convert::statement_parameters;
use lockstep_types::{Datum, Failure, ParameterSet};

/// Runs `body` with the statement's parameters, converted to their planned types.
pub(crate) fn with_parameters<T>(
    bound: &BoundStatement,
    body: impl FnOnce(&[Datum<'_>]) -> Result<T, SqlError>,
) -> Result<T, Failure> {
    let set = ParameterSet::new(&bound.parameters)
        .map_err(|error| Failure::graceful(error.to_string()))?;
    let arena = Arena::new();
    let planned = &bound.statement.statement().parameters;
    let parameters =
        statement_parameters(set, planned, &arena).map_err(|error| error.to_failure())?;
    body(&parameters).map_err(|error| error.to_failure())
}
