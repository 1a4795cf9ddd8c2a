//! Statements on one row found by a unique key, and INSERT of VALUES: no operators, no frame
//! where columns alone are read.

use super::PreparedStatement;
use super::columns::{ColumnGet, ColumnQuery};
use crate::analysis::{has_subquery, is_one_row};
use crate::context::{Context, NoSubqueries};
use crate::database::{Database, storage_fault, table_of};
use crate::error::SqlError;
use crate::evaluate::{evaluate, is_true};
use crate::frame::{Frame, Slot};
use crate::query::too_large;
use lockstep_plan_ir::statement::{Operation, Query};
use lockstep_plan_ir::{Access, Expression, Node, Relation, Scan};
use lockstep_storage::{RowId, RowRef};
use lockstep_types::table::MAX_ROW_BYTES;
use lockstep_types::{Datum, IndexId, TableBuilder, TableId, TableSchema, Value};

/// The most parts of a key on a fast path.
pub(super) const KEY_LIMIT: usize = 4;

/// A statement that runs on a path of its own.
#[derive(Debug, Clone)]
pub(super) enum FastPath {
    /// A row by its unique key.
    Get(Lookup),
    /// Plain columns.
    Columns(ColumnQuery),
    /// VALUES, of INSERT and of UPSERT.
    Insert,
    /// A row by its unique key.
    Update(Lookup),
    /// A row by its unique key.
    Delete(Lookup),
}

/// How the row is found.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    pub(super) table: TableId,
    pub(super) index: IndexId,
    key: Vec<Operand>,
    /// The parameter that is the whole key.
    single: Option<u16>,
}

/// A value that needs no evaluation.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Parameter(u16),
    Literal(Value),
}

impl Operand {
    pub(super) fn of(expression: &Expression) -> Option<Operand> {
        match &expression.node {
            Node::Parameter(number) => Some(Operand::Parameter(*number)),
            Node::Literal(value) => Some(Operand::Literal(value.clone())),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn value<'a>(&'a self, parameters: &[Datum<'a>]) -> Datum<'a> {
        match self {
            Operand::Parameter(number) => parameters[usize::from(*number)],
            Operand::Literal(value) => value.as_datum(),
        }
    }
}

impl FastPath {
    /// The fast path of an operation, if it has one.
    pub(super) fn of(operation: &Operation, result: &TableSchema) -> Option<FastPath> {
        match operation {
            Operation::Query(query) => {
                if let Some(query) = ColumnQuery::of(query, result) {
                    return Some(FastPath::Columns(query));
                }
                let (lookup, _) = lookup_of(&query.relation)?;
                (!query.output.iter().any(has_subquery)).then_some(FastPath::Get(lookup))
            }
            Operation::Insert(insert) => {
                let standalone =
                    is_one_row(&insert.source) && !insert.values.iter().any(has_subquery);
                standalone.then_some(FastPath::Insert)
            }
            Operation::Update(update) => {
                let (lookup, scan) = lookup_of(&update.source)?;
                let standalone = !update.assignments.iter().any(|(_, value)| has_subquery(value));
                (standalone && scan.slot == update.slot && scan.table == update.table)
                    .then_some(FastPath::Update(lookup))
            }
            Operation::Delete(delete) => {
                let (lookup, scan) = lookup_of(&delete.source)?;
                (scan.slot == delete.slot && scan.table == delete.table)
                    .then_some(FastPath::Delete(lookup))
            }
            Operation::Truncate(_) | Operation::Cover(_) => None,
        }
    }

    /// Prepares the memory for a run that is to come.
    #[inline(always)]
    pub(super) fn prefetch(&self, database: &Database, parameters: &[Datum<'_>]) {
        match self {
            FastPath::Columns(ColumnQuery::Get(ColumnGet { lookup, .. }))
            | FastPath::Get(lookup)
            | FastPath::Update(lookup)
            | FastPath::Delete(lookup) => lookup.prefetch(database, parameters),
            FastPath::Insert | FastPath::Columns(ColumnQuery::Range(_)) => {}
        }
    }

    /// The search for a row whose columns are wanted, when it is one by a key.
    #[inline]
    pub(super) fn search(&self) -> Option<(&Lookup, &[u16])> {
        match self {
            FastPath::Columns(ColumnQuery::Get(get)) => Some((&get.lookup, get.columns())),
            FastPath::Get(lookup) => Some((lookup, &[])),
            _ => None,
        }
    }

    /// Runs a statement on one row and appends its table.
    #[inline]
    pub(super) fn run(
        &self,
        database: &mut Database,
        prepared: &PreparedStatement,
        parameters: &[Datum<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let lockstep_plan_ir::statement::Execution::Local { operation, .. } =
            &prepared.statement.execution
        else {
            unreachable!("only local statements have a fast path");
        };
        let count = match (self, operation) {
            (FastPath::Get(lookup), Operation::Query(query)) => {
                return get(database, prepared, lookup, query, parameters, out);
            }
            (FastPath::Insert, Operation::Insert(insert)) => {
                insert_values(database, insert, parameters)?
            }
            (FastPath::Update(lookup), Operation::Update(update)) => {
                update_row(database, prepared, lookup, update, parameters)?
            }
            (FastPath::Delete(lookup), Operation::Delete(delete)) => {
                delete_row(database, prepared, lookup, delete, parameters)?
            }
            _ => unreachable!("a fast path is that of its statement's operation"),
        };
        prepared.counts.write(count, out);
        Ok(())
    }
}

/// The scan of a relation that finds at most one row by a key of constants.
pub(super) fn lookup_of(relation: &Relation) -> Option<(Lookup, &Scan)> {
    let Relation::Scan(scan) = relation else { return None };
    if scan.filter.as_ref().is_some_and(has_subquery) {
        return None;
    }
    let Access::Index { index, equal, null_matches, at_most_one: true, .. } = &scan.access else {
        return None;
    };
    if equal.len() > KEY_LIMIT || null_matches.iter().any(|matches| *matches) {
        return None;
    }
    let key: Option<Vec<Operand>> = equal.iter().map(Operand::of).collect();
    let key = key?;
    let single = match key.as_slice() {
        [Operand::Parameter(number)] => Some(*number),
        _ => None,
    };
    Some((Lookup { table: scan.table, index: *index, key, single }, scan))
}

impl Lookup {
    /// The row, if it is there. A NULL in the key finds nothing.
    #[inline(always)]
    pub(super) fn find<'t>(
        &self,
        database: &'t Database,
        parameters: &[Datum<'_>],
    ) -> Result<Option<(RowId, RowRef<'t>)>, SqlError> {
        if let Some(number) = self.single
            && let Some(Datum::Int(value)) = parameters.get(usize::from(number))
            && let Some(table) = database.tables.get(self.table)
            && let Some(found) = table.get_integer(self.index, *value)
        {
            return Ok(found);
        }
        self.find_any(database, parameters)
    }

    /// Prepares the memory for `find`.
    #[inline(always)]
    fn prefetch(&self, database: &Database, parameters: &[Datum<'_>]) {
        if let Some(number) = self.single
            && let Some(Datum::Int(value)) = parameters.get(usize::from(number))
            && let Some(table) = database.tables.get(self.table)
        {
            table.prefetch_integer(self.index, *value);
        }
    }

    /// The table and the whole key, if nothing of it is NULL.
    #[inline]
    pub(super) fn key<'k>(
        &'k self,
        database: &'k Database,
        parameters: &[Datum<'k>],
        key: &'k mut [Datum<'k>; KEY_LIMIT],
    ) -> Option<(&'k lockstep_storage::Table, &'k [Datum<'k>])> {
        let table = database.tables.get(self.table)?;
        for (place, operand) in key.iter_mut().zip(&self.key) {
            *place = operand.value(parameters);
            if place.is_null() {
                return None;
            }
        }
        Some((table, &key[..self.key.len()]))
    }

    #[inline(never)]
    fn find_any<'t>(
        &self,
        database: &'t Database,
        parameters: &[Datum<'_>],
    ) -> Result<Option<(RowId, RowRef<'t>)>, SqlError> {
        let table = table_of(&database.tables, self.table)?;
        let mut key = [Datum::Null; KEY_LIMIT];
        for (place, operand) in key.iter_mut().zip(&self.key) {
            *place = operand.value(parameters);
            if place.is_null() {
                return Ok(None);
            }
        }
        let key = &key[..self.key.len()];
        if let Some(row) = database.routed_row(self.table, self.index, key) {
            return Ok(table.row(row).map(|found| (row, found)));
        }
        table.get(self.index, key).map_err(storage_fault)
    }
}

fn get(
    database: &mut Database,
    prepared: &PreparedStatement,
    lookup: &Lookup,
    query: &Query,
    parameters: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    let schema = &prepared.statement.result;
    let found = lookup.find(database, parameters)?;
    let mut table = TableBuilder::begin(out, schema);
    if let (Some(found), Relation::Scan(scan)) = (found, &query.relation) {
        let (context, frame) = bind(database, prepared, scan.slot, found, parameters);
        if passes(&context, scan, &frame)? {
            table.begin_row();
            for (expression, sql_type) in query.output.iter().zip(schema.types()) {
                table.value(*sql_type, evaluate(expression, &context, &frame)?);
            }
            let row_bytes = table.end_row();
            let limit = database.options.result_limit_bytes;
            if row_bytes > MAX_ROW_BYTES || table.byte_count() > limit {
                return Err(too_large(row_bytes, limit));
            }
        }
    }
    table.finish();
    Ok(())
}

/// A frame with the row that was found.
#[inline]
fn bind<'a>(
    database: &'a Database,
    prepared: &PreparedStatement,
    slot: u16,
    (id, row): (RowId, RowRef<'a>),
    parameters: &'a [Datum<'a>],
) -> (Context<'a>, Frame<'a>) {
    let context = Context {
        parameters,
        arena: &database.arena,
        now_us: database.transaction.timestamp_us,
        subqueries: &NoSubqueries,
    };
    let frame = Frame::new(&database.arena, usize::from(prepared.statement.slot_count));
    frame.bind(slot, Slot::Row(row, id));
    (context, frame)
}

#[inline]
fn passes<'a>(context: &Context<'a>, scan: &'a Scan, frame: &Frame<'a>) -> Result<bool, SqlError> {
    match &scan.filter {
        Some(filter) => is_true(filter, context, frame),
        None => Ok(true),
    }
}

#[inline]
fn insert_values(
    database: &mut Database,
    insert: &lockstep_plan_ir::statement::Insert,
    parameters: &[Datum<'_>],
) -> Result<u64, SqlError> {
    let (mut writer, _) = database.writer();
    let state = writer.state(insert.table)?;
    let arena = writer.arena;
    let context = Context {
        parameters,
        arena,
        now_us: writer.transaction.timestamp_us,
        subqueries: &NoSubqueries,
    };
    let frame = Frame::new(arena, 0);
    let values = arena.fill(insert.values.len(), Datum::Null);
    for (place, expression) in values.iter_mut().zip(&insert.values) {
        match &expression.node {
            Node::Parameter(number) => *place = parameters[usize::from(*number)],
            _ => *place = evaluate(expression, &context, &frame)?,
        }
    }
    match &insert.upsert {
        None => writer.insert(state, values).map(drop)?,
        upsert => writer.insert_or_update(state, upsert.as_ref(), values)?,
    }
    Ok(1)
}

fn update_row(
    database: &mut Database,
    prepared: &PreparedStatement,
    lookup: &Lookup,
    update: &lockstep_plan_ir::statement::Update,
    parameters: &[Datum<'_>],
) -> Result<u64, SqlError> {
    let Some(found) = lookup.find(database, parameters)? else { return Ok(0) };
    let Relation::Scan(scan) = &update.source else { return Ok(0) };
    let (row, changes) = {
        let arena = &database.arena;
        let changes = arena.fill(update.assignments.len(), (0usize, Datum::Null));
        let (context, frame) = bind(database, prepared, scan.slot, found, parameters);
        if !passes(&context, scan, &frame)? {
            return Ok(0);
        }
        for (change, (column, expression)) in changes.iter_mut().zip(&update.assignments) {
            let value = evaluate(expression, &context, &frame)?;
            *change = (usize::from(*column), crate::change::own(arena, value));
        }
        (found.0, changes)
    };
    let mut writer = crate::change::Writer {
        watch: &database.watch,
        tables: &mut database.tables,
        states: &database.states,
        undo: &mut database.undo,
        arena: &database.arena,
        options: &database.options,
        transaction: &database.transaction,
        owned_value: &mut database.owned_value,
        entries: &mut database.entries,
    };
    let state = writer.state(update.table)?;
    writer.update(state, row, changes)?;
    Ok(1)
}

fn delete_row(
    database: &mut Database,
    prepared: &PreparedStatement,
    lookup: &Lookup,
    delete: &lockstep_plan_ir::statement::Delete,
    parameters: &[Datum<'_>],
) -> Result<u64, SqlError> {
    let Some(found) = lookup.find(database, parameters)? else { return Ok(0) };
    let Relation::Scan(scan) = &delete.source else { return Ok(0) };
    if scan.filter.is_some() {
        let (context, frame) = bind(database, prepared, scan.slot, found, parameters);
        if !passes(&context, scan, &frame)? {
            return Ok(0);
        }
    }
    let row = found.0;
    let (mut writer, _) = database.writer();
    let state = writer.state(delete.table)?;
    writer.delete(state, row)?;
    Ok(1)
}
