//! A table with another layout and the same rows, for ALTER.

use super::Table;
use crate::error::StorageError;
use crate::layout::TableLayout;
use crate::undo::UndoLog;
use lockstep_types::{Datum, Value};

/// Where a column of a rebuilt table gets its values.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnSource {
    /// From a column of the old table.
    Column(usize),
    /// The same value in every row.
    Value(Value),
}

impl Table {
    /// A table with `layout` and this table's rows, in the same order. It has no indexes: the
    /// caller adds them and puts it in this table's place.
    ///
    /// # Errors
    /// As for [`Table::insert`] when a value does not fit its new column; `ColumnCount` unless
    /// each new column has a source; `NoSuchColumn`.
    pub fn rebuild(
        &self,
        layout: TableLayout,
        sources: &[ColumnSource],
    ) -> Result<Table, StorageError> {
        let (columns, expected) = (self.layout.fields.len(), layout.fields.len());
        if sources.len() != expected {
            let given = sources.len();
            return Err(StorageError::ColumnCount { table: self.name.clone(), expected, given });
        }
        for source in sources {
            if let ColumnSource::Column(column) = source
                && *column >= columns
            {
                let table = self.name.clone();
                return Err(StorageError::NoSuchColumn { table, column: *column });
            }
        }
        let mut table = Table::new(&self.name, layout);
        let mut undo = UndoLog::new(u64::MAX);
        let mut nothing = crate::Tables::new();
        let mut values: Vec<Datum<'_>> = Vec::with_capacity(expected);
        for (_, row) in self.scan() {
            values.clear();
            values.extend(sources.iter().map(|source| match source {
                ColumnSource::Column(column) => row.column(*column),
                ColumnSource::Value(value) => value.as_datum(),
            }));
            table.insert(&values, &mut undo)?;
            undo.release_all(&mut nothing);
        }
        Ok(table)
    }
}
