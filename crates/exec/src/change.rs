//! Changes of rows: one row at a time, with its constraints and the views that follow it.

mod cover;
mod entries;
mod exact_sum;
mod fault;
mod joined;
mod keys;
mod operation;
mod views;

pub(crate) use entries::{EntryChanges, collect_entry, partition_of_key};
pub use entries::{PartitionEntries, apply_entries, apply_known_entry};
pub(crate) use fault::row_fault;
pub(crate) use keys::layout_and_indexes;
pub(crate) use operation::{Work, own, run_change};
pub(crate) use views::{ViewPlan, fill_view};

use crate::arena::Arena;
use crate::convert::assign;
use crate::database::{Database, DatabaseOptions, TransactionContext, no_such_table, owns};
use crate::error::{ConstraintKind, SqlError};
use crate::watch::Watch;
use fault::{mispartitioned, row_text};
use lockstep_plan_ir::TableDefinition;
use lockstep_plan_ir::schema::ColumnDefinition;
use lockstep_storage::{RowId, Tables, UndoLog};
use lockstep_types::{Datum, SqlType, TableId};
use std::sync::Arc;
use views::Upkeep;

/// A table of the site, with what is prepared for its changes.
pub(crate) struct TableState {
    pub(crate) definition: Arc<TableDefinition>,
    pub(crate) views: Vec<ViewPlan>,
}

impl TableState {
    pub(crate) fn new(definition: Arc<TableDefinition>) -> TableState {
        let views = definition.dependent_views.iter().cloned().map(ViewPlan::new).collect();
        TableState { definition, views }
    }
}

/// The parts of a database that a change of rows needs.
pub(crate) struct Writer<'w> {
    pub(crate) tables: &'w mut Tables,
    pub(crate) states: &'w [Option<TableState>],
    pub(crate) undo: &'w mut UndoLog,
    pub(crate) arena: &'w Arena,
    pub(crate) options: &'w DatabaseOptions,
    pub(crate) transaction: &'w TransactionContext,
    pub(crate) owned_value: &'w mut Option<i64>,
    pub(crate) entries: &'w mut EntryChanges,
    pub(crate) watch: &'w Watch,
}

impl Database {
    /// The parts for changing rows, and the list for rows that are found first.
    pub(crate) fn writer(&mut self) -> (Writer<'_>, &mut Vec<RowId>) {
        let writer = Writer {
            tables: &mut self.tables,
            states: &self.states,
            undo: &mut self.undo,
            arena: &self.arena,
            options: &self.options,
            transaction: &self.transaction,
            owned_value: &mut self.owned_value,
            entries: &mut self.entries,
            watch: &self.watch,
        };
        (writer, &mut self.found_rows)
    }
}

impl<'w> Writer<'w> {
    /// A table's state.
    pub(crate) fn state(&self, table: TableId) -> Result<&'w TableState, SqlError> {
        let states = self.states;
        states.get(table.index()).and_then(Option::as_ref).ok_or_else(|| no_such_table(table))
    }

    /// Inserts a row, whose values are assigned to the columns here.
    pub(crate) fn insert<'v>(
        &mut self,
        state: &'w TableState,
        values: &mut [Datum<'v>],
    ) -> Result<RowId, SqlError>
    where
        'w: 'v,
    {
        let definition = &*state.definition;
        for (value, column) in values.iter_mut().zip(&definition.columns) {
            if !fits(value, column) {
                *value = assign(self.arena, *value, column)?;
            }
        }
        if !self.is_placed_here(definition, values) {
            return Err(mispartitioned(definition, values));
        }
        if let Some(limit) = definition.row_limit {
            self.hold_row_limit(state, limit, values)?;
        }
        let Some(table) = self.tables.get_mut(definition.id) else {
            return Err(no_such_table(definition.id));
        };
        let row = match table.insert(values, self.undo) {
            Ok(row) => row,
            Err(error) => return Err(row_fault(definition, self.tables, error, values)),
        };
        if !state.views.is_empty() {
            self.after_insert(state, row)?;
        }
        if !definition.global_indexes.is_empty() {
            self.entries_of_inserted(state, row, values)?;
        }
        Ok(row)
    }

    /// Whether the partitioning columns of a row say that it lives here.
    #[inline(always)]
    fn is_placed_here(&mut self, definition: &TableDefinition, values: &[Datum<'_>]) -> bool {
        match definition.partition_columns.as_slice() {
            [] => true,
            [only] => owns(self.options, self.owned_value, values[usize::from(*only)]),
            several => {
                let ring = &self.options.ring;
                let values = several.iter().map(|column| values[usize::from(*column)]);
                ring.partition_of_values(values) == self.options.partition
            }
        }
    }

    /// Refuses a row for which there is no room, once what makes room has run.
    fn hold_row_limit(
        &mut self,
        state: &'w TableState,
        limit: u32,
        values: &[Datum<'_>],
    ) -> Result<(), SqlError> {
        let definition = &*state.definition;
        if !self.is_full(definition.id, limit) {
            return Ok(());
        }
        if let Some(purge) = &definition.row_limit_purge {
            let slot_count = usize::from(purge.slot_count);
            let work = Work { parameters: &[], received: &[], slot_count };
            self.run_delete(&purge.delete, work, &mut Vec::new())?;
        }
        match self.is_full(definition.id, limit) {
            true => Err(fault::over_row_limit(definition, limit, values)),
            false => Ok(()),
        }
    }

    fn is_full(&self, table: TableId, limit: u32) -> bool {
        self.tables.get(table).is_some_and(|table| table.row_count() >= u64::from(limit))
    }

    fn after_insert(&mut self, state: &'w TableState, row: RowId) -> Result<(), SqlError> {
        for view in &state.views {
            self.add_to_view(view, state.definition.id, row)?;
        }
        Ok(())
    }

    /// Deletes a row.
    pub(crate) fn delete(&mut self, state: &'w TableState, row: RowId) -> Result<(), SqlError> {
        let definition = &*state.definition;
        let mut upkeep = Upkeep::default();
        for view in &state.views {
            self.take_from_view(view, definition.id, row, &mut upkeep)?;
        }
        if !definition.global_indexes.is_empty() {
            self.entries_of_row(state, row, None, false)?;
        }
        let Some(table) = self.tables.get_mut(definition.id) else {
            return Err(no_such_table(definition.id));
        };
        table.delete(row, self.undo).map_err(crate::database::storage_fault)?;
        self.recompute(state, upkeep)
    }

    /// Changes columns of a row; the values are assigned to the columns here.
    pub(crate) fn update<'v>(
        &mut self,
        state: &'w TableState,
        row: RowId,
        changes: &mut [(usize, Datum<'v>)],
    ) -> Result<(), SqlError>
    where
        'w: 'v,
    {
        let definition = &*state.definition;
        for (column, value) in changes.iter_mut() {
            let target = &definition.columns[*column];
            if !fits(value, target) {
                *value = assign(self.arena, *value, target)?;
            }
            if definition.partition_columns.first().map(|&only| usize::from(only)) == Some(*column)
                && definition.partition_columns.len() == 1
                && !owns(self.options, self.owned_value, *value)
            {
                return Err(self.moved(definition, row, &[(*column, *value)]));
            }
        }
        if definition.partition_columns.len() > 1 {
            self.check_stays(definition, row, changes)?;
        }
        let indexed = !definition.global_indexes.is_empty();
        if state.views.is_empty() && !indexed {
            let Some(table) = self.tables.get_mut(definition.id) else {
                return Err(no_such_table(definition.id));
            };
            let updated = table.update(row, changes, self.undo);
            return updated.map_err(|error| self.update_fault(definition, row, changes, error));
        }
        let touched = |view: &&ViewPlan| changes.iter().any(|(column, _)| view.reads(*column));
        let mut upkeep = Upkeep::default();
        for view in state.views.iter().filter(touched) {
            self.take_from_view(view, definition.id, row, &mut upkeep)?;
        }
        if indexed {
            self.entries_of_row(state, row, Some(changes), false)?;
        }
        let Some(table) = self.tables.get_mut(definition.id) else {
            return Err(no_such_table(definition.id));
        };
        if let Err(error) = table.update(row, changes, self.undo) {
            return Err(self.update_fault(definition, row, changes, error));
        }
        for view in state.views.iter().filter(touched) {
            self.add_to_view(view, definition.id, row)?;
        }
        if indexed {
            self.entries_of_row(state, row, Some(changes), true)?;
        }
        self.recompute(state, upkeep)
    }

    #[cold]
    fn update_fault(
        &self,
        definition: &TableDefinition,
        row: RowId,
        changes: &[(usize, Datum<'_>)],
        error: lockstep_storage::StorageError,
    ) -> SqlError {
        let table = self.tables.get(definition.id);
        let Some(old) = table.and_then(|table| table.row(row)) else {
            return crate::database::storage_fault(error);
        };
        let mut values: Vec<Datum<'_>> = old.columns().collect();
        for (column, value) in changes {
            values[*column] = *value;
        }
        row_fault(definition, self.tables, error, &values)
    }

    /// Refuses a change of several partitioning columns that would move a row elsewhere.
    fn check_stays(
        &self,
        definition: &TableDefinition,
        row: RowId,
        changes: &[(usize, Datum<'_>)],
    ) -> Result<(), SqlError> {
        if !changes.iter().any(|(column, _)| definition.places_by(*column)) {
            return Ok(());
        }
        let table = self.tables.get(definition.id);
        let Some(old) = table.and_then(|table| table.row(row)) else {
            return Err(no_such_table(definition.id));
        };
        let values = definition.partition_columns.iter().map(|&column| {
            let column = usize::from(column);
            let new = changes.iter().rev().find(|(changed, _)| *changed == column);
            new.map_or_else(|| old.column(column), |(_, value)| *value)
        });
        match self.options.ring.partition_of_values(values) == self.options.partition {
            true => Ok(()),
            false => Err(self.moved(definition, row, changes)),
        }
    }

    #[cold]
    fn moved(
        &self,
        definition: &TableDefinition,
        row: RowId,
        changes: &[(usize, Datum<'_>)],
    ) -> SqlError {
        let table = self.tables.get(definition.id);
        let Some(old) = table.and_then(|table| table.row(row)) else {
            return no_such_table(definition.id);
        };
        let mut values: Vec<Datum<'_>> = old.columns().collect();
        changes.iter().for_each(|(column, value)| values[*column] = *value);
        let text = row_text(definition, &[&values]);
        SqlError::partition_column_changed(&definition.name, &text)
    }

    /// Deletes all rows; gives their number.
    pub(crate) fn truncate(&mut self, state: &'w TableState) -> Result<u64, SqlError> {
        let definition = &*state.definition;
        let Some(table) = self.tables.get_mut(definition.id) else {
            return Err(no_such_table(definition.id));
        };
        let count = table.row_count();
        let collects = !definition.global_indexes.is_empty() && !self.entries.known;
        if collects || state.views.iter().any(ViewPlan::is_joined) {
            let mut rows = Vec::with_capacity(count as usize);
            table.collect_rows(&mut rows);
            for row in rows {
                self.delete(state, row)?;
            }
            return Ok(count);
        }
        table.truncate(self.undo).map_err(crate::database::storage_fault)?;
        for view in &state.views {
            self.empty_view(view)?;
        }
        Ok(count)
    }
}

/// Whether a value is plainly one of the column's: the common cases of `assign`.
#[inline(always)]
fn fits(value: &Datum<'_>, column: &ColumnDefinition) -> bool {
    match (value, column.sql_type) {
        (Datum::Int(_), SqlType::BigInt)
        | (Datum::Float(_), SqlType::Float)
        | (Datum::Timestamp(_), SqlType::Timestamp) => true,
        (Datum::Int(value), SqlType::Integer) => {
            i32::try_from(*value).is_ok_and(|value| value != i32::MIN)
        }
        (Datum::Int(value), SqlType::SmallInt) => {
            i16::try_from(*value).is_ok_and(|value| value != i16::MIN)
        }
        (Datum::Int(value), SqlType::TinyInt) => {
            i8::try_from(*value).is_ok_and(|value| value != i8::MIN)
        }
        (Datum::Text(text), SqlType::Varchar) => text.len() <= column.length as usize,
        _ => false,
    }
}

/// A violated constraint of a row.
fn constraint(
    kind: ConstraintKind,
    definition: &TableDefinition,
    rows: &[&[Datum<'_>]],
) -> SqlError {
    SqlError::constraint(kind, &definition.name, &row_text(definition, rows))
}
