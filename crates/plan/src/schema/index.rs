//! Indexes: CREATE INDEX, those of constraints, and binding them again after ALTER.

use crate::catalog::{CatalogTable, IndexSource};
use crate::error::PlanError;
use crate::query::bind_table_expression;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::{Expression, Function, IndexDefinition, TableDefinition};
use lockstep_sql::ast::{CreateIndex, Name, ParsedStatement, Span, Uniqueness};
use lockstep_types::{IndexId, SqlType};
use std::sync::Arc;

use super::Draft;
use super::message::table_error;
use super::partition::check_partition_column;

/// Most indexes of a table, hidden ones included.
const MAX_INDEXES: usize = 1000;

/// An index to be added to a table.
pub(super) struct NewIndex {
    /// Its name.
    pub name: String,
    /// UNIQUE, ASSUMEUNIQUE or neither.
    pub uniqueness: Uniqueness,
    /// The constraint that makes it.
    pub constraint: Option<String>,
    /// Key and condition as written.
    pub source: IndexSource,
    /// Where it stands.
    pub span: Span,
}

impl Draft<'_> {
    pub(super) fn create_index(
        &mut self,
        _parsed: &ParsedStatement,
        create: &CreateIndex,
    ) -> Result<(), PlanError> {
        let table = self.find_table(&create.table)?;
        let is_view = table.definition.view.is_some();
        self.require_new_index_name(&create.name)?;
        if is_view && create.uniqueness != Uniqueness::None {
            return Err(table_error(
                create.name.span,
                format!(
                    "UNIQUE and ASSUMEUNIQUE indexes are not allowed on view {}",
                    create.table.text
                ),
            ));
        }
        self.check_index_calls(&create.name.text, create.keys.iter().chain(&create.selection))?;
        let index = NewIndex {
            name: create.name.text.clone(),
            uniqueness: create.uniqueness,
            constraint: None,
            source: IndexSource { keys: create.keys.clone(), predicate: create.selection.clone() },
            span: create.name.span,
        };
        self.add_index(&create.table, index).map(|_| ())
    }

    /// Adds an index after those that SQL declared and before hidden ones.
    pub(super) fn add_index(
        &mut self,
        table: &Name,
        index: NewIndex,
    ) -> Result<IndexId, PlanError> {
        let table = self.find_table_mut(table)?;
        let definition = bind(&table.definition, &index)?;
        let place = declared_from(table) + table.index_sources.len();
        if table.definition.indexes.len() >= MAX_INDEXES {
            return Err(table_error(
                index.span,
                format!("table {} has {MAX_INDEXES} indexes, the most", table.definition.name),
            ));
        }
        Arc::make_mut(&mut table.definition).indexes.insert(place, definition);
        table.index_sources.push(index.source);
        Ok(IndexId(place as u16))
    }

    /// Holds partitioning columns and unique indexes of all tables against the rules of
    /// partitioning.
    pub(super) fn check_partitioned_tables(&self) -> Result<(), PlanError> {
        for table in self.catalog.tables.values() {
            let definition = &table.definition;
            if definition.view.is_none() && definition.entries_of.is_none() {
                for column in &definition.partition_columns {
                    check_partition_column(definition, usize::from(*column), None)?;
                }
                definition
                    .indexes
                    .iter()
                    .enumerate()
                    .filter(|(_, index)| index.unique)
                    .try_for_each(|(place, index)| check_unique_index(definition, place, index))?;
            }
        }
        Ok(())
    }
}

/// A unique index of a partitioned table is checked within each partition only: it must contain
/// the partitioning columns, unless it is declared ASSUMEUNIQUE. Each partition has all rows of a
/// replicated table, so that either word makes an index of it unique.
fn check_unique_index(
    table: &TableDefinition,
    place: usize,
    index: &IndexDefinition,
) -> Result<(), PlanError> {
    if !table.is_partitioned() {
        return Ok(());
    }
    let columns = &table.partition_columns;
    let missing = columns.iter().find(|&&column| !index.keys.contains(&IndexKey::Column(column)));
    match (index.assume_unique, missing.is_none()) {
        (true, true) => Err(PlanError::new(
            "ASSUMEUNIQUE is not valid for an index that includes the partitioning column. Please \
             use UNIQUE instead.",
        )),
        (false, false) => {
            let primary = table.primary_key.is_some_and(|key| key.index() == place);
            let kind = if primary { "PRIMARY KEY" } else { "UNIQUE" };
            let column = missing.copied().map(usize::from).unwrap_or_default();
            Err(PlanError::new(format!(
                "Invalid use of {kind}. The {kind} INDEX {} on the partitioned table {} does not \
                 include the partitioning column {}. See the documentation for the 'CREATE TABLE' \
                 and 'CREATE INDEX' commands and the 'ASSUMEUNIQUE' keyword.",
                index.name, table.name, table.columns[column].name
            )))
        }
        _ => Ok(()),
    }
}

/// Binds an index to a table's columns.
fn bind(table: &TableDefinition, index: &NewIndex) -> Result<IndexDefinition, PlanError> {
    let mut keys = Vec::with_capacity(index.source.keys.len());
    for key in &index.source.keys {
        let bound = bind_part(table, index, key)?;
        if bound.sql_type == SqlType::Geography {
            check_geography(index, key.span)?;
        }
        keys.push(match bound.node {
            Node::Column { column, .. } => IndexKey::Column(column),
            _ if bound.sql_type == SqlType::Boolean => {
                return Err(PlanError::at(
                    key.span,
                    format!(
                        "Cannot create index \"{}\" because it contains a boolean expression, \
                         which is not supported.",
                        index.name
                    ),
                ));
            }
            _ => IndexKey::Expression(bound),
        });
    }
    let predicate = match &index.source.predicate {
        None => None,
        Some(predicate) => {
            let bound = bind_part(table, index, predicate)?;
            if bound.sql_type != SqlType::Boolean {
                return Err(table_error(predicate.span, "not boolean: the index's condition"));
            }
            Some(bound)
        }
    };
    Ok(IndexDefinition {
        name: index.name.clone(),
        keys,
        unique: index.uniqueness != Uniqueness::None,
        assume_unique: index.uniqueness == Uniqueness::AssumeUnique,
        constraint: index.constraint.clone(),
        predicate,
        hidden: false,
        building: false,
    })
}

/// An index over polygons has no other key and is not unique.
fn check_geography(index: &NewIndex, span: Span) -> Result<(), PlanError> {
    let reason = match index.source.keys.len() {
        1 if index.uniqueness == Uniqueness::None => return Ok(()),
        1 => "uniqueness is not supported for GEOGRAPHY columns",
        _ => "a GEOGRAPHY column must be its only column",
    };
    let message = format!("Cannot create index \"{}\": {reason}.", index.name);
    Err(PlanError::at(span, message))
}

fn bind_part(
    table: &TableDefinition,
    index: &NewIndex,
    expression: &lockstep_sql::ast::Expression,
) -> Result<Expression, PlanError> {
    let bound = bind_table_expression(table, expression)
        .map_err(|error| table_error(error.span.unwrap_or(expression.span), error.message))?;
    if has_function(&bound, Function::Now) {
        return Err(PlanError::at(
            expression.span,
            format!(
                "Index \"{}\" cannot include the function NOW or CURRENT_TIMESTAMP.",
                index.name
            ),
        ));
    }
    Ok(bound)
}

/// Whether a function is called anywhere in an expression.
pub(super) fn has_function(expression: &Expression, function: Function) -> bool {
    let mut found = false;
    walk(expression, &mut |part| {
        found |= matches!(&part.node, Node::Call(called, _) if *called == function);
    });
    found
}

/// Visits an expression and everything in it, subqueries left out.
pub(crate) fn walk(expression: &Expression, visit: &mut dyn FnMut(&Expression)) {
    visit(expression);
    match &expression.node {
        Node::And(parts) | Node::Or(parts) | Node::Call(_, parts) | Node::UserCall(_, parts) => {
            parts.iter().for_each(|part| walk(part, visit));
        }
        Node::Not(a) | Node::IsNull(a) | Node::Negate(a) | Node::Cast { value: a, .. } => {
            walk(a, visit);
        }
        Node::Compare(_, a, b) | Node::Arithmetic(_, a, b) | Node::StartsWith(a, b) => {
            walk(a, visit);
            walk(b, visit);
        }
        Node::Like { value, pattern, .. } => {
            walk(value, visit);
            walk(pattern, visit);
        }
        Node::Case { branches, otherwise } => {
            for (condition, result) in branches {
                walk(condition, visit);
                walk(result, visit);
            }
            otherwise.iter().for_each(|otherwise| walk(otherwise, visit));
        }
        Node::InList { value, list } => {
            walk(value, visit);
            list.iter().for_each(|part| walk(part, visit));
        }
        Node::InArray { value, .. } => walk(value, visit),
        Node::Quantified { row, .. } => row.iter().for_each(|part| walk(part, visit)),
        Node::CompareRows(_, a, b) => a.iter().chain(b).for_each(|part| walk(part, visit)),
        Node::Literal(_)
        | Node::Parameter(_)
        | Node::Column { .. }
        | Node::ScalarSubquery(_)
        | Node::Exists(_) => {}
    }
}

/// Binds all indexes that SQL declared to the table's columns as they are now.
pub(super) fn bind_again(table: &mut CatalogTable) -> Result<(), PlanError> {
    let declared_from = declared_from(table);
    for place in declared_from..declared_from + table.index_sources.len() {
        let old = &table.definition.indexes[place];
        let index = NewIndex {
            name: old.name.clone(),
            uniqueness: match (old.unique, old.assume_unique) {
                (_, true) => Uniqueness::AssumeUnique,
                (true, false) => Uniqueness::Unique,
                (false, false) => Uniqueness::None,
            },
            constraint: old.constraint.clone(),
            source: table.index_sources[place - declared_from].clone(),
            span: Span::default(),
        };
        let bound = bind(&table.definition, &index)?;
        Arc::make_mut(&mut table.definition).indexes[place] = bound;
    }
    Ok(())
}

/// How many hidden indexes a table has; they stand last.
fn hidden_count(table: &TableDefinition) -> usize {
    table.indexes.iter().filter(|index| index.hidden).count()
}

/// Takes an index that SQL declared off a table, whose primary key may be another one.
pub(super) fn remove(table: &mut CatalogTable, place: usize) {
    let declared_from = declared_from(table);
    table.index_sources.remove(place - declared_from);
    let definition = Arc::make_mut(&mut table.definition);
    definition.indexes.remove(place);
    definition.primary_key = match definition.primary_key {
        Some(key) if key.index() == place => None,
        Some(key) if key.index() > place => Some(IndexId(key.0 - 1)),
        key => key,
    };
}

/// The place of the first index that SQL declared: a view's group index stands before them.
fn declared_from(table: &CatalogTable) -> usize {
    let declared_to = table.definition.indexes.len() - hidden_count(&table.definition);
    declared_to - table.index_sources.len()
}

/// An expression with its slots renumbered; subqueries, which indexes and views do not hold,
/// stay as they are.
pub(super) fn map_slots(expression: &Expression, slot_of: &dyn Fn(u16) -> u16) -> Expression {
    let one = |part: &Expression| Box::new(map_slots(part, slot_of));
    let many = |parts: &[Expression]| parts.iter().map(|part| map_slots(part, slot_of)).collect();
    let node = match &expression.node {
        Node::Column { slot, column } => Node::Column { slot: slot_of(*slot), column: *column },
        Node::And(parts) => Node::And(many(parts)),
        Node::Or(parts) => Node::Or(many(parts)),
        Node::Call(function, parts) => Node::Call(*function, many(parts)),
        Node::UserCall(function, parts) => Node::UserCall(Arc::clone(function), many(parts)),
        Node::Not(a) => Node::Not(one(a)),
        Node::IsNull(a) => Node::IsNull(one(a)),
        Node::Negate(a) => Node::Negate(one(a)),
        Node::Cast { value, length, length_in_bytes } => {
            Node::Cast { value: one(value), length: *length, length_in_bytes: *length_in_bytes }
        }
        Node::Compare(comparison, a, b) => Node::Compare(*comparison, one(a), one(b)),
        Node::Arithmetic(operator, a, b) => Node::Arithmetic(*operator, one(a), one(b)),
        Node::StartsWith(a, b) => Node::StartsWith(one(a), one(b)),
        Node::Like { value, pattern, escape } => {
            Node::Like { value: one(value), pattern: one(pattern), escape: *escape }
        }
        Node::Case { branches, otherwise } => Node::Case {
            branches: branches
                .iter()
                .map(|(condition, result)| {
                    (map_slots(condition, slot_of), map_slots(result, slot_of))
                })
                .collect(),
            otherwise: otherwise.as_deref().map(one),
        },
        Node::InList { value, list } => Node::InList { value: one(value), list: many(list) },
        Node::InArray { value, parameter } => {
            Node::InArray { value: one(value), parameter: *parameter }
        }
        Node::CompareRows(comparison, a, b) => Node::CompareRows(*comparison, many(a), many(b)),
        Node::Literal(_)
        | Node::Parameter(_)
        | Node::ScalarSubquery(_)
        | Node::Exists(_)
        | Node::Quantified { .. } => expression.node.clone(),
    };
    Expression { node, sql_type: expression.sql_type }
}
