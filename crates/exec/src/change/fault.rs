//! What storage refuses, as SQL errors with VoltDB's wording.

use super::constraint;
use crate::database::storage_fault;
use crate::error::{ConstraintKind, SqlError, TupleText};
use lockstep_plan_ir::TableDefinition;
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
