//! Storage layouts and index keys from table definitions.

use crate::analysis::columns_read;
use crate::arena::Arena;
use crate::context::{Context, NoSubqueries};
use crate::database::storage_fault;
use crate::error::SqlError;
use crate::evaluate::{evaluate, is_true};
use crate::frame::{Frame, Slot};
use lockstep_plan_ir::schema::{IndexDefinition, IndexKey};
use lockstep_plan_ir::{Expression, TableDefinition};
use lockstep_storage::{
    ColumnLayout, IndexDefinition as StoredIndex, KeyEvaluator, KeySource, KeyWriter, RowId,
    RowRef, StorageError, TableLayout,
};
use lockstep_types::SqlType;

/// The layout of a table's rows, and its indexes for storage.
pub(crate) fn layout_and_indexes(
    definition: &TableDefinition,
) -> Result<(TableLayout, Vec<StoredIndex>), SqlError> {
    let columns: Vec<ColumnLayout> = definition
        .columns
        .iter()
        .map(|column| ColumnLayout {
            sql_type: column.sql_type,
            max_bytes: column.max_bytes(),
            nullable: column.nullable,
        })
        .collect();
    let layout = TableLayout::new(&columns).map_err(storage_fault)?;
    let indexes = definition.indexes.iter().map(|index| stored_index(definition, index)).collect();
    Ok((layout, indexes))
}

fn stored_index(definition: &TableDefinition, index: &IndexDefinition) -> StoredIndex {
    let plain: Option<Vec<usize>> = index
        .keys
        .iter()
        .map(|key| match key {
            IndexKey::Column(column) => Some(usize::from(*column)),
            IndexKey::Expression(_) => None,
        })
        .collect();
    let source = match plain {
        Some(columns) if index.predicate.is_none() => KeySource::Columns(columns),
        _ => computed_source(definition, index),
    };
    StoredIndex { name: index.name.as_str().into(), unique: index.unique, source }
}

fn computed_source(definition: &TableDefinition, index: &IndexDefinition) -> KeySource {
    let mut keys = Vec::new();
    let mut types = Vec::new();
    let mut reads = Vec::new();
    for key in &index.keys {
        let expression = match key {
            IndexKey::Expression(expression) => expression.clone(),
            IndexKey::Column(column) => {
                let sql_type = definition
                    .columns
                    .get(usize::from(*column))
                    .map_or(SqlType::BigInt, |column| column.sql_type);
                Expression::column(0, *column, sql_type)
            }
        };
        types.push(key_type(expression.sql_type));
        columns_read(&expression, 0, &mut reads);
        keys.push(expression);
    }
    if let Some(predicate) = &index.predicate {
        columns_read(predicate, 0, &mut reads);
    }
    let reads = reads.into_iter().map(usize::from).collect();
    let predicate = index.predicate.clone();
    let evaluator = Box::new(Evaluator { keys, predicate, arena: Arena::new() });
    KeySource::Computed { types, reads, evaluator }
}

/// Integers computed from narrower ones may be wider than their operands' type.
fn key_type(sql_type: SqlType) -> SqlType {
    if sql_type.is_integer() { SqlType::BigInt } else { sql_type }
}

/// Computes the keys of an index on expressions, or of a partial one.
struct Evaluator {
    keys: Vec<Expression>,
    predicate: Option<Expression>,
    arena: Arena,
}

impl KeyEvaluator for Evaluator {
    fn evaluate(
        &mut self,
        row: RowRef<'_>,
        key: &mut KeyWriter<'_, '_, '_>,
    ) -> Result<bool, StorageError> {
        self.arena.reset();
        evaluate_key(&self.keys, self.predicate.as_ref(), &self.arena, row, key)
    }
}

fn evaluate_key<'a>(
    keys: &'a [Expression],
    predicate: Option<&'a Expression>,
    arena: &'a Arena,
    row: RowRef<'a>,
    key: &mut KeyWriter<'_, '_, '_>,
) -> Result<bool, StorageError> {
    let context = Context { parameters: &[], arena, now_us: 0, subqueries: &NoSubqueries };
    let frame = Frame::new(arena, 1);
    frame.bind(0, Slot::Row(row, RowId(0)));
    if let Some(predicate) = predicate
        && !is_true(predicate, &context, &frame).map_err(key_fault)?
    {
        return Ok(false);
    }
    for expression in keys {
        key.push(evaluate(expression, &context, &frame).map_err(key_fault)?)?;
    }
    Ok(true)
}

#[cold]
fn key_fault(error: SqlError) -> StorageError {
    StorageError::KeyExpression { message: error.message().into() }
}
