//! What storage refuses, as SQL errors with VoltDB's wording.

use super::constraint;
use crate::database::storage_fault;
use crate::error::{ConstraintKind, SqlError, TupleText};
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::GlobalIndexDefinition;
use lockstep_storage::{StorageError, Tables};
use lockstep_types::Datum;

/// Rows as messages show them: the columns that SQL sees.
pub(super) fn row_text(definition: &TableDefinition, rows: &[&[Datum<'_>]]) -> String {
    let visible = usize::from(definition.visible_columns);
    let names = definition.columns.iter().take(visible).map(|column| column.name.as_str());
    let mut text = TupleText::new(names);
    for row in rows {
        text = text.row(row.iter().copied().take(visible));
    }
    text.finish()
}

#[cold]
pub(crate) fn row_fault(
    definition: &TableDefinition,
    tables: &Tables,
    error: StorageError,
    values: &[Datum<'_>],
) -> SqlError {
    match error {
        StorageError::UniqueViolation { existing, .. } if definition.entries_of.is_some() => {
            let existing = tables.get(definition.id).and_then(|table| table.row(existing));
            let existing: Vec<Datum<'_>> =
                existing.map(|row| row.columns().collect()).unwrap_or_default();
            duplicate_key(definition, &[values, &existing])
        }
        StorageError::UniqueViolation { existing, .. } => {
            let existing = tables.get(definition.id).and_then(|table| table.row(existing));
            let existing: Vec<Datum<'_>> =
                existing.map(|row| row.columns().collect()).unwrap_or_default();
            constraint(ConstraintKind::Unique, definition, &[values, &existing])
        }
        StorageError::NotNull { .. } => constraint(ConstraintKind::NotNull, definition, &[values]),
        error => storage_fault(error),
    }
}

/// A key that a global unique index has already.
#[cold]
fn duplicate_key(definition: &TableDefinition, entries: &[&[Datum<'_>]]) -> SqlError {
    let (index, table) = index_of(definition);
    let key = key_text(definition, entries.first().copied().unwrap_or_default());
    let message = format!(
        "Attempted violation of constraint: global unique index {index} of table {table} has the \
         key {key} already"
    );
    let tuples = row_text(definition, entries);
    SqlError::constraint_with_message(&message, ConstraintKind::Unique, table, &tuples)
}

/// An entry is not what the rows say: nothing may go on as if it were.
#[cold]
pub(super) fn missing_entry(definition: &TableDefinition, values: &[Datum<'_>]) -> SqlError {
    let (index, table) = index_of(definition);
    let key = key_text(definition, values);
    SqlError::sql(format!(
        "global index {index} of table {table} has no entry of the row with the key {key} that is \
         to be taken out of it: index and table differ"
    ))
}

/// A statement changes more entries than may be kept until they are carried out.
#[cold]
pub(super) fn too_many_entries(
    table: &TableDefinition,
    index: &GlobalIndexDefinition,
    count: usize,
    limit_bytes: usize,
) -> SqlError {
    SqlError::sql(format!(
        "the statement changes more than {count} entries of global indexes of table {} (the last \
         one of {}), which is over the limit of {limit_bytes} bytes at one partition (option \
         max_entry_changes_bytes); change fewer rows at a time",
        table.name, index.name
    ))
}

fn index_of(definition: &TableDefinition) -> (&str, &str) {
    match &definition.entries_of {
        Some(of) => (&of.index_name, &of.table_name),
        None => (&definition.name, &definition.name),
    }
}

/// The key of an entry: names and values.
fn key_text(definition: &TableDefinition, values: &[Datum<'_>]) -> String {
    let count = definition.entries_of.as_ref().map_or(0, |of| usize::from(of.key_count));
    let names: Vec<&str> =
        definition.columns.iter().take(count).map(|column| column.name.as_str()).collect();
    let values: Vec<String> = values.iter().take(count).map(Datum::to_string).collect();
    format!("({}) = ({})", names.join(", "), values.join(", "))
}

#[cold]
pub(super) fn mispartitioned(definition: &TableDefinition, values: &[Datum<'_>]) -> SqlError {
    constraint(ConstraintKind::Partitioning, definition, &[values])
}

#[cold]
pub(super) fn over_row_limit(
    definition: &TableDefinition,
    limit: u32,
    values: &[Datum<'_>],
) -> SqlError {
    let name = &definition.name;
    let message = format!("Table {name} exceeds table maximum row count {limit}");
    let text = row_text(definition, &[values]);
    SqlError::constraint_with_message(&message, ConstraintKind::RowLimit, name, &text)
}
