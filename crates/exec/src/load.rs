//! Bulk loads: the rows of a table in wire form go into a table of this site, converted as
//! parameters of its generated procedures are, without a statement for each.

use crate::convert::statement_value;
use crate::database::Database;
use crate::error::SqlError;
use crate::statement::{PreparedStatement, check_start_of_load};
use lockstep_plan_ir::statement::{Execution, Operation};
use lockstep_storage::UndoMark;
use lockstep_types::{Datum, Parameter, TableView};

/// Inserts or upserts rows, by the statement of the table's generated procedure of that name.
/// Gives their number.
///
/// # Errors
/// What the first bad row violates; data is then as it was.
pub fn load_rows(
    database: &mut Database,
    prepared: &PreparedStatement,
    rows: &TableView<'_>,
) -> Result<u64, SqlError> {
    database.begin_statement();
    let mark = database.mark();
    let mut result = load(database, prepared, rows);
    if database.has_entry_changes()
        && let Ok(count) = result
    {
        result = database.settle_entries().map(|()| count);
    }
    match result {
        Ok(_) => note_load(database, mark, prepared, rows),
        Err(_) => database.rollback_to(mark),
    }
    result
}

/// The digest of changes counts the rows.
fn note_load(
    database: &mut Database,
    mark: UndoMark,
    prepared: &PreparedStatement,
    rows: &TableView<'_>,
) {
    if database.options().digests {
        let mut bytes = Vec::new();
        rows.write(&mut bytes);
        database.note_bytes(mark, prepared.identity(), &[&bytes]);
    }
}

fn load(
    database: &mut Database,
    prepared: &PreparedStatement,
    rows: &TableView<'_>,
) -> Result<u64, SqlError> {
    let statement = prepared.statement();
    check_start_of_load(database, statement)?;
    // Into a replicated table it is the part of every partition.
    let operation = match &statement.execution {
        Execution::Local { operation, .. } => Some(operation),
        Execution::Distributed { fragments, .. } => fragments.first().map(|part| &part.operation),
        Execution::Shipped { .. } => None,
    };
    let Some(Operation::Insert(insert)) = operation else {
        return Err(SqlError::sql("a load goes by an insert or an upsert"));
    };
    let planned = &statement.parameters;
    if rows.column_count() != planned.len() {
        return Err(SqlError::argument(format!(
            "Number of arguments provided was {} where {} was expected for statement {};",
            rows.column_count(),
            planned.len(),
            statement.text
        )));
    }
    let types: Vec<_> = (0..planned.len()).map(|column| rows.column_type(column)).collect();
    let (mut writer, _) = database.writer();
    let state = writer.state(insert.table)?;
    let arena = writer.arena;
    let mut values: Vec<Datum<'_>> = Vec::with_capacity(planned.len());
    let mut count = 0;
    for row in rows.rows() {
        writer.tick(count)?;
        values.clear();
        row.and_then(|row| row.read_into(&mut values))
            .map_err(|error| SqlError::argument(format!("row {count} of the table: {error}")))?;
        for ((value, from), planned) in values.iter_mut().zip(&types).zip(planned) {
            if *from != planned.sql_type {
                *value = statement_value(Parameter::Scalar(*from, *value), planned, arena)?;
            }
        }
        writer.insert_or_update(state, insert.upsert.as_ref(), &mut values)?;
        count += 1;
    }
    Ok(count)
}
