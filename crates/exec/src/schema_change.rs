//! Changes of the schema at a site: new tables are built beside the old ones, and take their
//! place when every site could build its own.

mod build;
mod in_place;

use crate::change::{TableState, ViewPlan, Writer, fill_view, layout_and_indexes, row_fault};
use crate::convert::assign;
use crate::database::{Database, no_such_table, storage_fault};
use crate::error::{ErrorKind, SqlError, state};
use build::Build;
use in_place::IndexStep;
use lockstep_plan_ir::change::ColumnSource;
use lockstep_plan_ir::schema::IndexDefinition;
use lockstep_plan_ir::{StorageChange, TableDefinition};
use lockstep_storage::{Table, Tables, UndoLog};
use lockstep_types::{Datum, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows converted before the memory of their texts is used again.
const ROWS_PER_RESET: usize = 1024;

/// A schema change that is built and waits for its commit.
#[derive(Default)]
pub(crate) struct PreparedChange {
    /// Per table, what it becomes.
    replacements: BTreeMap<TableId, Replacement>,
    /// Global indexes to be built before the change is committed.
    builds: Vec<Build>,
}

struct Replacement {
    /// None for a dropped table.
    definition: Option<Arc<TableDefinition>>,
    content: Content,
}

enum Content {
    /// The rows stay where they are.
    Same,
    /// So do they, and these indexes go, come or become complete.
    InPlace(Vec<IndexStep>),
    /// This table, or none, takes the place of the old one.
    Other(Option<Box<Table>>),
}

impl Replacement {
    fn with_table(definition: &Arc<TableDefinition>, table: Table) -> Replacement {
        let content = Content::Other(Some(Box::new(table)));
        Replacement { definition: Some(definition.clone()), content }
    }
}

impl Database {
    /// Builds what a schema change needs, beside what is there; NOW is the time of the
    /// transaction that began last. Nothing has changed in it, and no other begins before
    /// [`Database::commit_change`] or [`Database::rollback_change`].
    ///
    /// # Errors
    /// Rows in a table that must be empty, values that do not fit, duplicates under a new unique
    /// index. The database is then as it was.
    pub fn prepare_change(&mut self, changes: &[StorageChange]) -> Result<(), SqlError> {
        assert!(self.change.is_none(), "one schema change at a time");
        let timestamp_us = self.transaction.timestamp_us;
        self.begin_statement();
        let mut prepared = PreparedChange::default();
        for change in changes {
            self.prepare_step(change, timestamp_us, &mut prepared)?;
        }
        self.fill_views(changes, &mut prepared)?;
        self.change = Some(prepared);
        Ok(())
    }

    /// Builds pairs of tables of the same columns again, each with the rows of the other, as a
    /// schema change: it is in force after [`Database::commit_change`]. Returns the rows of the
    /// first two.
    ///
    /// # Errors
    /// A table is gone, or a row breaks a constraint of its new table.
    pub fn prepare_swap(&mut self, pairs: &[(TableId, TableId)]) -> Result<u64, SqlError> {
        assert!(self.change.is_none(), "one schema change at a time");
        let timestamp_us = self.transaction.timestamp_us;
        let mut prepared = PreparedChange::default();
        let mut rows = 0;
        let both =
            |(number, (a, b)): (usize, &(TableId, TableId))| [(number, *a, *b), (number, *b, *a)];
        for (number, to, from) in pairs.iter().enumerate().flat_map(both) {
            let definition = self.definition(to).cloned().ok_or_else(|| no_such_table(to))?;
            let unchanged = PreparedChange::default();
            let table = self.rebuilt(&definition, from, None, timestamp_us, &unchanged)?;
            rows += if number == 0 { table.row_count() } else { 0 };
            prepared.replacements.insert(to, Replacement::with_table(&definition, table));
        }
        self.change = Some(prepared);
        Ok(rows)
    }

    /// Puts the prepared change into force.
    pub fn commit_change(&mut self) {
        if let Some(mut prepared) = self.change.take() {
            exchange(&mut self.tables, &mut prepared);
            for (id, Replacement { definition, content }) in prepared.replacements {
                match (content, &definition) {
                    (Content::InPlace(steps), Some(new)) => self.change_in_place(new, steps),
                    // A snapshot may still need its rows.
                    (Content::Other(Some(old)), _) => self.tables.retire(*old),
                    _ => {}
                }
                if id.index() >= self.states.len() {
                    self.states.resize_with(id.index() + 1, || None);
                }
                self.states[id.index()] = definition.map(TableState::new);
            }
        }
        self.owned_value = None;
    }

    /// Forgets the prepared change.
    pub fn rollback_change(&mut self) {
        self.change = None;
    }

    fn prepare_step(
        &mut self,
        change: &StorageChange,
        timestamp_us: i64,
        prepared: &mut PreparedChange,
    ) -> Result<(), SqlError> {
        match change {
            StorageChange::RequireEmpty { table, message } => {
                if self.current(*table, prepared).is_some_and(|table| table.row_count() > 0) {
                    return Err(refused(message));
                }
            }
            StorageChange::BuildGlobalIndex { table, index } => {
                prepared.builds.push(Build::new(*table, index));
            }
            StorageChange::Create(definition) => {
                let replacement = Replacement::with_table(definition, new_table(definition)?);
                prepared.replacements.insert(definition.id, replacement);
            }
            StorageChange::Drop(table) => {
                let replacement = Replacement { definition: None, content: Content::Other(None) };
                prepared.replacements.insert(*table, replacement);
            }
            StorageChange::Alter { definition, columns } => {
                let content = match (columns, self.steps_in_place(definition, prepared)) {
                    (None, Some(steps)) => Content::InPlace(steps),
                    (None, None) if self.keeps_indexes(definition, prepared) => {
                        let earlier = prepared.replacements.remove(&definition.id);
                        earlier.map_or(Content::Same, |earlier| earlier.content)
                    }
                    (columns, _) => {
                        let columns = columns.as_deref();
                        let from = definition.id;
                        let table =
                            self.rebuilt(definition, from, columns, timestamp_us, prepared)?;
                        Content::Other(Some(Box::new(table)))
                    }
                };
                let replacement = Replacement { definition: Some(definition.clone()), content };
                prepared.replacements.insert(definition.id, replacement);
            }
        }
        Ok(())
    }

    /// A table as the steps so far have left it.
    fn current<'t>(&'t self, id: TableId, prepared: &'t PreparedChange) -> Option<&'t Table> {
        match prepared.replacements.get(&id) {
            Some(Replacement { content: Content::Other(table), .. }) => table.as_deref(),
            _ => self.tables.get(id),
        }
    }

    fn keeps_indexes(&self, definition: &TableDefinition, prepared: &PreparedChange) -> bool {
        let old = match prepared.replacements.get(&definition.id) {
            Some(replacement) => replacement.definition.as_ref(),
            None => self.definition(definition.id),
        };
        let same = |(a, b): (&IndexDefinition, &IndexDefinition)| {
            a.keys == b.keys && a.unique == b.unique && a.predicate == b.predicate
        };
        old.is_some_and(|old| {
            old.indexes.len() == definition.indexes.len()
                && old.indexes.iter().zip(&definition.indexes).all(same)
                && old.columns.len() == definition.columns.len()
        })
    }

    /// The table with a new definition and the rows of the one with the number `from`.
    fn rebuilt(
        &self,
        definition: &TableDefinition,
        from: TableId,
        columns: Option<&[ColumnSource]>,
        timestamp_us: i64,
        prepared: &PreparedChange,
    ) -> Result<Table, SqlError> {
        let mut table = new_table(definition)?;
        if definition.view.is_some() {
            return Ok(table);
        }
        let Some(old) = self.current(from, prepared) else {
            return Err(no_such_table(from));
        };
        let mut undo = UndoLog::new(u64::MAX);
        let mut nothing = Tables::new();
        let mut arena = crate::arena::Arena::new();
        let mut rows = old.scan().peekable();
        while rows.peek().is_some() {
            arena.reset();
            let mut values = Vec::with_capacity(definition.columns.len());
            for (_, row) in rows.by_ref().take(ROWS_PER_RESET) {
                values.clear();
                for (place, column) in definition.columns.iter().enumerate() {
                    let value = match columns.map(|columns| columns.get(place)) {
                        None => row.column(place),
                        Some(Some(ColumnSource::Old(old))) => row.column(usize::from(*old)),
                        Some(Some(ColumnSource::Constant(value))) => value.as_datum(),
                        Some(Some(ColumnSource::Now)) => Datum::Timestamp(timestamp_us),
                        Some(None) => Datum::Null,
                    };
                    values.push(assign(&arena, value, column)?);
                }
                if let Err(error) = table.insert(&values, &mut undo) {
                    return Err(self.rebuild_fault(definition, table, error, &values));
                }
            }
            undo.release_all(&mut nothing);
        }
        Ok(table)
    }

    #[cold]
    fn rebuild_fault(
        &self,
        definition: &TableDefinition,
        table: Table,
        error: lockstep_storage::StorageError,
        values: &[Datum<'_>],
    ) -> SqlError {
        let mut tables = Tables::new();
        tables.set(definition.id, table);
        row_fault(definition, &tables, error, values)
    }

    /// Fills the views that the change made: over the tables as they will be.
    fn fill_views(
        &mut self,
        changes: &[StorageChange],
        prepared: &mut PreparedChange,
    ) -> Result<(), SqlError> {
        let mut views = Vec::new();
        for change in changes {
            let definition = match change {
                StorageChange::Create(definition) => definition,
                StorageChange::Alter { definition, .. } => definition,
                _ => continue,
            };
            let built = prepared.replacements.get(&definition.id);
            let built = built.is_some_and(|built| matches!(built.content, Content::Other(Some(_))));
            if let (Some(view), true) = (&definition.view, built) {
                views.push(ViewPlan::new(view.clone()));
            }
        }
        if views.is_empty() {
            return Ok(());
        }
        let mut undo = UndoLog::new(u64::MAX);
        exchange(&mut self.tables, prepared);
        let mut writer = Writer {
            watch: &self.watch,
            tables: &mut self.tables,
            states: &[],
            undo: &mut undo,
            arena: &self.arena,
            options: &self.options,
            transaction: &self.transaction,
            owned_value: &mut self.owned_value,
            entries: &mut self.entries,
        };
        let filled = views.iter().try_for_each(|view| fill_view(&mut writer, view));
        undo.release_all(&mut self.tables);
        exchange(&mut self.tables, prepared);
        filled
    }
}

/// Exchanges the tables of a change with those in place. Doing it twice changes nothing.
fn exchange(tables: &mut Tables, prepared: &mut PreparedChange) {
    for (id, replacement) in &mut prepared.replacements {
        if let Content::Other(table) = &mut replacement.content {
            let old = tables.remove(*id);
            if let Some(new) = table.take() {
                tables.set(*id, *new);
            }
            *table = old.map(Box::new);
        }
    }
}

pub(crate) fn new_table(definition: &TableDefinition) -> Result<Table, SqlError> {
    let (layout, indexes) = layout_and_indexes(definition)?;
    let mut table = Table::new(&definition.name, layout);
    for index in indexes {
        table.add_index(index).map_err(storage_fault)?;
    }
    Ok(table)
}

#[cold]
fn refused(message: &str) -> SqlError {
    SqlError::new(ErrorKind::SchemaChange, state::CONSTRAINT, message)
}
