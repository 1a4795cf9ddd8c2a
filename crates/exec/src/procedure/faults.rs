//! What goes wrong in a call: the errors of its context, and batches that fail.

use super::{PreparedProcedure, ProcedureError};
use crate::database::Database;
use crate::error::{SqlError, state};
use crate::statement::PreparedStatement;
use lockstep_types::Failure;
use lockstep_types::sql_type::MAX_VALUE_BYTES;
use lockstep_types::table::DecodeError;

#[cold]
pub(super) fn unknown_statement(statement: usize) -> ProcedureError {
    ProcedureError::Unexpected(format!("there is no statement {statement}"))
}

#[cold]
pub(super) fn wrong_count(prepared: &PreparedStatement, given: usize) -> ProcedureError {
    ProcedureError::Abort(format!(
        "Number of arguments provided was {given} where {} was expected for statement {}",
        prepared.statement().parameters.len(),
        prepared.statement().text
    ))
}

#[cold]
pub(super) fn damaged_parameters() -> ProcedureError {
    ProcedureError::Unexpected("the parameters of a queued statement are damaged".to_string())
}

/// A queued parameter that is no value. Only its size, and the text of its bytes, are its author's.
#[cold]
pub(super) fn unreadable(prepared: &PreparedStatement, error: DecodeError) -> ProcedureError {
    let text = &prepared.statement().text;
    match error {
        DecodeError::TooLong(size) => ProcedureError::Sql(SqlError::coded(
            state::TOO_LONG,
            format!(
                "The size {size} of a parameter's value exceeds the limit of {MAX_VALUE_BYTES} \
                 bytes for statement {text}"
            ),
        )),
        DecodeError::InvalidText => ProcedureError::Sql(SqlError::coded(
            state::BAD_CAST,
            format!("A parameter's text is not UTF-8 for statement {text}"),
        )),
        _ => damaged_parameters(),
    }
}

#[cold]
pub(super) fn damaged() -> ProcedureError {
    ProcedureError::Unexpected("a result table of the batch is damaged".to_string())
}

#[cold]
pub(super) fn no_such_table(number: usize) -> ProcedureError {
    ProcedureError::Unexpected(format!("the batch has no statement {number}"))
}

/// Whether a procedure is over several partitions: at the only one of a host it behaves as it does
/// at many.
pub(super) fn spans(procedure: &PreparedProcedure) -> bool {
    !procedure.definition.is_single_partition()
}

/// A batch begins at this site: it does not, if the call is doomed or its time is over.
#[inline]
pub(super) fn begin_batch(
    database: &mut Database,
    doomed: &Option<Failure>,
) -> Result<(), ProcedureError> {
    match doomed {
        Some(failure) => Err(ProcedureError::Failed(failure.clone())),
        None => database.begin_batch().map_err(ProcedureError::Sql),
    }
}

/// Whether a failure follows from the limits and the clock of this host, and not from the data and
/// the call alone.
fn is_of_host(error: &SqlError) -> bool {
    let of_host = [state::TEMPORARY_MEMORY, state::RESULT_TOO_LARGE, state::STOPPED];
    of_host.contains(&error.state())
}

/// Where several partitions take part, a batch that failed is not undone alone. Nor can a procedure
/// go on after a failure that the host's limits made: where the call is repeated without them it
/// would do something else.
#[cold]
pub(super) fn note_failed_batch(
    procedure: &PreparedProcedure,
    doomed: &mut Option<Failure>,
    error: ProcedureError,
) -> ProcedureError {
    if let ProcedureError::Sql(error) = &error
        && (spans(procedure) || is_of_host(error))
    {
        doomed.get_or_insert_with(|| Failure::from(error.clone()));
    }
    error
}
