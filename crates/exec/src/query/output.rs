//! Writes a query's rows as a result table.

use super::{Flow, Run};
use crate::error::{SqlError, state};
use crate::frame::Slot;
use lockstep_plan_ir::expression::{Expression, Node};
use lockstep_plan_ir::statement::Query;
use lockstep_types::table::MAX_ROW_BYTES;
use lockstep_types::{SqlType, TableBuilder, TableSchema};

/// Appends the query's table to `out`; on an error the caller cuts `out` back.
pub(crate) fn write_query<'a>(
    run: &Run<'_, 'a>,
    query: &'a Query,
    schema: &TableSchema,
    result_limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let mut table = TableBuilder::begin(out, schema);
    let columns = || query.output.iter().zip(schema.types());
    run.run(&query.relation, &mut || {
        table.begin_row();
        for (expression, sql_type) in columns() {
            if !table.value_by(|out| write_column(run, expression, *sql_type, out)) {
                let value = direct_value(run, expression)?;
                table.value(*sql_type, value);
            }
        }
        let row_bytes = table.end_row();
        if row_bytes > MAX_ROW_BYTES || table.byte_count() > result_limit {
            return Err(too_large(row_bytes, result_limit));
        }
        Ok(Flow::Continue)
    })?;
    if !table.is_sound() {
        return Err(unsound());
    }
    table.finish();
    Ok(())
}

/// The plan promised another type than its expression gives: never the client's fault, and never
/// a wrong answer.
#[cold]
pub(crate) fn unsound() -> SqlError {
    SqlError::sql("a result value is not of its column's type; please report the statement")
}

/// Columns of tables are most of what is written: they go as they lie in their slots. False when
/// the expression is something else.
#[inline]
fn write_column(
    run: &Run<'_, '_>,
    expression: &Expression,
    sql_type: SqlType,
    out: &mut Vec<u8>,
) -> bool {
    match expression.node {
        Node::Column { slot, column } => match run.frame.slot(slot) {
            Slot::Row(row, _) => row.write_column(column, sql_type, out),
            _ => false,
        },
        _ => false,
    }
}

/// Columns of computed rows are read without a call.
#[inline]
fn direct_value<'a>(
    run: &Run<'_, 'a>,
    expression: &'a Expression,
) -> Result<lockstep_types::Datum<'a>, SqlError> {
    match expression.node {
        Node::Column { slot, column } => Ok(run.frame.column(slot, column)),
        _ => run.value(expression),
    }
}

#[cold]
pub(crate) fn too_large(row_bytes: usize, result_limit: usize) -> SqlError {
    let message = if row_bytes > MAX_ROW_BYTES {
        format!("a result row of {row_bytes} bytes is over the limit of {MAX_ROW_BYTES} bytes")
    } else {
        format!(
            "the result is over the limit of {result_limit} bytes (option max_response_bytes); \
             select less or use LIMIT"
        )
    };
    SqlError::limit(state::RESULT_TOO_LARGE, message)
}
