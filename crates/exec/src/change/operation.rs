//! INSERT, UPSERT, UPDATE, DELETE and TRUNCATE over any source: what they read is read first, and
//! copied; then rows change one after the other.

use super::{TableState, Writer};
use crate::analysis::{has_subquery, is_one_row};
use crate::arena::Arena;
use crate::context::{Context, NoSubqueries};
use crate::database::{Database, no_such_table, storage_fault};
use crate::error::{ConstraintKind, SqlError};
use crate::evaluate::evaluate;
use crate::frame::{Frame, Slot};
use crate::query::{Executor, Flow, Run};
use crate::watch::ROWS_PER_CHECK;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::{Delete, Insert, Operation, Update, Upsert};
use lockstep_plan_ir::{Expression, Relation};
use lockstep_storage::RowId;
use lockstep_types::{Datum, TableView};

/// Values of new rows for which there is room at first.
const FIRST_VALUES: usize = 64;

/// Most changes of a row, and parts of a key, that need no memory of their own.
const FEW_CHANGES: usize = 12;
const FEW_PARTS: usize = 4;

/// What an operation works with.
#[derive(Clone, Copy)]
pub(crate) struct Work<'p> {
    pub(crate) parameters: &'p [Datum<'p>],
    /// Per fragment, the tables that were received.
    pub(crate) received: &'p [Vec<TableView<'p>>],
    pub(crate) slot_count: usize,
}

/// Runs an operation that changes rows; gives the number of rows.
pub(crate) fn run_change(
    database: &mut Database,
    operation: &Operation,
    work: Work<'_>,
) -> Result<u64, SqlError> {
    let (mut writer, found) = database.writer();
    match operation {
        Operation::Query(_) => unreachable!("queries are run by their caller"),
        Operation::Insert(insert) => writer.run_insert(insert, work),
        Operation::Update(update) => writer.run_update(update, work, found),
        Operation::Delete(delete) => writer.run_delete(delete, work, found),
        Operation::Truncate(table) => {
            let state = writer.state(*table)?;
            writer.truncate(state)
        }
        Operation::Cover(cover) => writer.cover(cover),
    }
}

/// The value with its text and bytes copied into the arena, so that it outlives table rows.
#[inline]
pub(crate) fn own<'r>(arena: &'r Arena, value: Datum<'_>) -> Datum<'r> {
    match value {
        Datum::Null => Datum::Null,
        Datum::Bool(value) => Datum::Bool(value),
        Datum::Int(value) => Datum::Int(value),
        Datum::Float(value) => Datum::Float(value),
        Datum::Decimal(value) => Datum::Decimal(value),
        Datum::Timestamp(value) => Datum::Timestamp(value),
        Datum::Text(text) => Datum::Text(arena.copy_text(text)),
        Datum::Bytes(bytes) => Datum::Bytes(arena.copy(bytes)),
        Datum::Point(point) => Datum::Point(point),
    }
}

impl<'w> Writer<'w> {
    fn run_insert(&mut self, insert: &Insert, work: Work<'_>) -> Result<u64, SqlError> {
        let state = self.state(insert.table)?;
        let standalone = is_one_row(&insert.source) && !insert.values.iter().any(has_subquery);
        if standalone {
            return self.insert_values(insert, state, work);
        }
        let mut rows = Vec::with_capacity(FIRST_VALUES);
        let values: Vec<&Expression> = insert.values.iter().collect();
        self.collect(&insert.source, &values, work, None, &mut rows)?;
        let width = insert.values.len().max(1);
        let mut count = 0u64;
        for row in rows.chunks_exact_mut(width) {
            self.tick(count)?;
            self.insert_or_update(state, insert.upsert.as_ref(), row)?;
            count += 1;
        }
        Ok(count)
    }

    fn insert_values(
        &mut self,
        insert: &Insert,
        state: &'w TableState,
        work: Work<'_>,
    ) -> Result<u64, SqlError> {
        let arena = self.arena;
        let frame = Frame::new(arena, 0);
        let context = Context {
            parameters: work.parameters,
            arena,
            now_us: self.transaction.timestamp_us,
            subqueries: &NoSubqueries,
        };
        let values = arena.fill(insert.values.len(), Datum::Null);
        for (place, expression) in values.iter_mut().zip(&insert.values) {
            *place = evaluate(expression, &context, &frame)?;
        }
        self.insert_or_update(state, insert.upsert.as_ref(), values)?;
        Ok(1)
    }

    pub(crate) fn insert_or_update<'v>(
        &mut self,
        state: &'w TableState,
        upsert: Option<&Upsert>,
        values: &mut [Datum<'v>],
    ) -> Result<(), SqlError>
    where
        'w: 'v,
    {
        if let Some(upsert) = upsert
            && let Some(row) = self.same_key(state, upsert, values)?
        {
            let change = |column: &u16| (usize::from(*column), values[usize::from(*column)]);
            let count = upsert.assigned.len();
            if count > FEW_CHANGES {
                let mut changes: Vec<(usize, Datum<'v>)> =
                    upsert.assigned.iter().map(change).collect();
                return self.update(state, row, &mut changes);
            }
            let mut changes = [(0, Datum::Null); FEW_CHANGES];
            for (place, column) in changes.iter_mut().zip(&upsert.assigned) {
                *place = change(column);
            }
            return self.update(state, row, &mut changes[..count]);
        }
        self.insert(state, values).map(drop)
    }

    /// The row that has the primary key of new values.
    fn same_key(
        &self,
        state: &TableState,
        upsert: &Upsert,
        values: &[Datum<'_>],
    ) -> Result<Option<RowId>, SqlError> {
        let definition = &state.definition;
        let Some(index) = definition.indexes.get(upsert.primary_key.index()) else {
            return Err(SqlError::sql(format!("{} has no primary key", definition.name)));
        };
        let part = |key: &IndexKey| match key {
            IndexKey::Column(column) => values[usize::from(*column)],
            IndexKey::Expression(_) => Datum::Null,
        };
        let Some(table) = self.tables.get(definition.id) else {
            return Err(no_such_table(definition.id));
        };
        let count = index.keys.len();
        let found = if count > FEW_PARTS {
            let key: Vec<Datum<'_>> = index.keys.iter().map(part).collect();
            table.get(upsert.primary_key, &key)
        } else {
            let mut key = [Datum::Null; FEW_PARTS];
            key.iter_mut().zip(&index.keys).for_each(|(place, key)| *place = part(key));
            table.get(upsert.primary_key, &key[..count])
        };
        Ok(found.map_err(storage_fault)?.map(|(row, _)| row))
    }

    fn run_update(
        &mut self,
        update: &Update,
        work: Work<'_>,
        found: &mut Vec<RowId>,
    ) -> Result<u64, SqlError> {
        let state = self.state(update.table)?;
        let outputs: Vec<&Expression> =
            update.assignments.iter().map(|(_, expression)| expression).collect();
        let mut values = Vec::new();
        found.clear();
        self.collect(&update.source, &outputs, work, Some((update.slot, found)), &mut values)?;
        let columns: Vec<usize> =
            update.assignments.iter().map(|(column, _)| usize::from(*column)).collect();
        let mark = self.undo.mark();
        let entries_mark = self.entries.mark();
        let mut changes = Vec::with_capacity(columns.len());
        let news = values.chunks_exact(columns.len().max(1));
        for (count, (row, new)) in (0..).zip(found.iter().zip(news)) {
            self.tick(count)?;
            changes.clear();
            changes.extend(columns.iter().copied().zip(new.iter().copied()));
            let Err(error) = self.update(state, *row, &mut changes) else { continue };
            let width = state.definition.columns.len();
            let copied_bytes = found.len() * width * size_of::<Datum<'_>>();
            if found.len() > 1
                && error.violated() == Some(ConstraintKind::Unique)
                && copied_bytes <= self.options.temporary_limit_bytes
            {
                self.undo.rollback_to(mark, self.tables);
                self.entries.truncate(entries_mark);
                self.replace_rows(state, found, &columns, &values)?;
                break;
            }
            return Err(error);
        }
        Ok(found.len() as u64)
    }

    /// Updates rows by taking all of them out before the first comes back: keys must be unique at
    /// the end of the statement, and on the way a row may get the key that another still has.
    #[cold]
    fn replace_rows(
        &mut self,
        state: &'w TableState,
        found: &[RowId],
        columns: &[usize],
        values: &[Datum<'w>],
    ) -> Result<(), SqlError> {
        let arena: &'w Arena = self.arena;
        let table = state.definition.id;
        let mut rows: Vec<Vec<Datum<'w>>> = Vec::with_capacity(found.len());
        for (row, new) in found.iter().zip(values.chunks_exact(columns.len().max(1))) {
            let stored = self.tables.get(table).and_then(|table| table.row(*row));
            let Some(stored) = stored else { return Err(no_such_table(table)) };
            let mut whole: Vec<Datum<'w>> =
                stored.columns().map(|value| own(arena, value)).collect();
            columns.iter().zip(new).for_each(|(column, value)| whole[*column] = *value);
            rows.push(whole);
        }
        found.iter().try_for_each(|row| self.delete(state, *row))?;
        rows.iter_mut().try_for_each(|row| self.insert(state, row).map(drop))
    }

    pub(super) fn run_delete(
        &mut self,
        delete: &Delete,
        work: Work<'_>,
        found: &mut Vec<RowId>,
    ) -> Result<u64, SqlError> {
        let state = self.state(delete.table)?;
        found.clear();
        self.collect(&delete.source, &[], work, Some((delete.slot, found)), &mut Vec::new())?;
        for (count, row) in (0..).zip(found.iter()) {
            self.tick(count)?;
            self.delete(state, *row)?;
        }
        Ok(found.len() as u64)
    }

    /// Asks every so often whether the statement has to stop; one of few rows does not ask.
    #[inline]
    pub(crate) fn tick(&self, rows_before: u64) -> Result<(), SqlError> {
        match (rows_before + 1).is_multiple_of(u64::from(ROWS_PER_CHECK)) {
            true => self.watch.check(),
            false => Ok(()),
        }
    }

    /// Runs a relation; keeps, per frame, the values of `outputs` and the row in a slot.
    fn collect(
        &self,
        relation: &Relation,
        outputs: &[&Expression],
        work: Work<'_>,
        mut found: Option<(u16, &mut Vec<RowId>)>,
        values: &mut Vec<Datum<'w>>,
    ) -> Result<(), SqlError> {
        let arena: &'w Arena = self.arena;
        let settings = self.options.settings(self.watch);
        let executor = Executor::new(self.tables, arena, work.received, work.slot_count, settings);
        let context = Context {
            parameters: work.parameters,
            arena,
            now_us: self.transaction.timestamp_us,
            subqueries: &executor,
        };
        let frame = Frame::new(arena, work.slot_count);
        let run = Run { executor: &executor, context: &context, frame };
        run.run(relation, &mut || {
            if let Some((slot, found)) = &mut found {
                let Slot::Row(_, row) = frame.slot(*slot) else {
                    unreachable!("the rows that a statement changes are rows of its table");
                };
                found.push(row);
            }
            for output in outputs {
                values.push(own(arena, run.value(output)?));
            }
            run.charge(outputs.len() * size_of::<Datum<'_>>() + size_of::<RowId>())?;
            Ok(Flow::Continue)
        })?;
        Ok(())
    }
}
