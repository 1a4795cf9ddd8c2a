//! INSERT, UPSERT, UPDATE, DELETE and TRUNCATE, bound.

use super::scope::{Scope, Source};
use super::select::one_row;
use super::{Binder, CAST_NEEDED, empty_from, is_untyped};
use crate::catalog::CatalogTable;
use crate::error::PlanError;
use crate::query::logical::{Body, From, Leaf, LeafKind, Output, Query, Select};
use lockstep_plan_ir::relation::SetOperator;
use lockstep_plan_ir::schema::{ColumnDefinition, DefaultValue};
use lockstep_plan_ir::statement::Upsert;
use lockstep_plan_ir::{Expression, Function, Node, TableDefinition};
use lockstep_sql::ast::{self, ExpressionKind, InsertSource, LimitClause, Name, OrderItem};
use lockstep_types::{SqlType, Value};
use std::sync::Arc;

/// INSERT or UPSERT. VALUES is a query over one empty row.
#[derive(Debug)]
pub(crate) struct BoundInsert {
    /// The target.
    pub(crate) table: Arc<CatalogTable>,
    /// The rows: as many columns as the table has, in its order.
    pub(crate) source: Query,
    /// For UPSERT.
    pub(crate) upsert: Option<Upsert>,
}

/// UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct BoundChange {
    /// The target.
    pub(crate) table: Arc<CatalogTable>,
    /// The slot of its rows.
    pub(crate) slot: u16,
    /// The rows to be changed; no output.
    pub(crate) source: Query,
    /// For UPDATE: columns with new values.
    pub(crate) assignments: Vec<(u16, Expression)>,
}

impl Binder<'_> {
    /// The table that a statement writes to.
    pub(crate) fn target(&self, name: &Name) -> Result<Arc<CatalogTable>, PlanError> {
        let Some(table) = self.catalog.table(name.as_str()) else {
            return Err(self.unknown_table(name));
        };
        if table.definition.view.is_some() {
            return Err(PlanError::at(name.span, "Illegal to modify a materialized view."));
        }
        if let Some(of) = &table.definition.entries_of {
            let (index, rows) = (&of.index_name, &of.table_name);
            let message = format!(
                "{} holds the entries of global index {index}, which change with the rows of \
                 table {rows} only.",
                name.text
            );
            return Err(PlanError::at(name.span, message));
        }
        Ok(Arc::clone(table))
    }

    /// INSERT and UPSERT.
    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<BoundInsert, PlanError> {
        let mark = self.enter_with(insert.with.as_ref())?;
        let bound = self.insert_parts(insert);
        self.leave_with(mark);
        bound
    }

    fn insert_parts(&mut self, insert: &ast::Insert) -> Result<BoundInsert, PlanError> {
        let table = self.target(&insert.table)?;
        let listed = listed_columns(&table.definition, insert)?;
        let query = match &insert.source {
            InsertSource::Values(rows) => self.values(&table.definition, &listed, rows)?,
            InsertSource::Query(query) => self.insert_query(&table.definition, &listed, query)?,
        };
        let upsert = if insert.upsert { Some(upsert_of(&table, insert, &listed)?) } else { None };
        let source = complete(query, &table.definition, &listed, insert.upsert)?;
        Ok(BoundInsert { table, source, upsert })
    }

    fn values(
        &mut self,
        table: &TableDefinition,
        listed: &[u16],
        rows: &[Vec<ast::Expression>],
    ) -> Result<Query, PlanError> {
        let mut branches = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != listed.len() {
                return Err(PlanError::new("row column count mismatch"));
            }
            let mut output = Vec::with_capacity(row.len());
            for (value, position) in row.iter().zip(listed) {
                let column = &table.columns[usize::from(*position)];
                let mut expression = self.assigned(table, column, value)?;
                // Rows that are put together are kept in the column's type, where a wider number
                // would lose its upper part.
                if rows.len() > 1 && expression.sql_type != column.sql_type {
                    expression = super::cast::converted(expression, column.sql_type);
                }
                output.push(Output { name: column.name.clone(), expression });
            }
            branches.push(one_row(output));
        }
        if branches.len() == 1
            && let Some(single) = branches.pop()
        {
            return Ok(single);
        }
        let slot = self.new_slot()?;
        let output = listed.iter().enumerate().map(|(place, position)| {
            let column = &table.columns[usize::from(*position)];
            let expression = Expression::column(slot, place as u16, column.sql_type);
            Output { name: column.name.clone(), expression }
        });
        let output = output.collect();
        let body = Body::Set { operator: SetOperator::Union, all: true, branches, slot };
        Ok(Query { body, output, order: Vec::new(), limit: None, offset: None })
    }

    fn insert_query(
        &mut self,
        table: &TableDefinition,
        listed: &[u16],
        query: &ast::Query,
    ) -> Result<Query, PlanError> {
        let types = listed.iter().map(|&at| table.columns[usize::from(at)].sql_type).collect();
        let mut bound = self.assigned_query(query, types)?;
        if bound.output.len() != listed.len() {
            let message = "number of target columns does not match that of query expression";
            return Err(PlanError::at(query.span, message));
        }
        for (output, position) in bound.output.iter_mut().zip(listed) {
            let column = &table.columns[usize::from(*position)];
            let value = output.expression.clone();
            let context = context(table, column);
            output.expression = self.assign(value, column.sql_type, &context, query.span)?;
        }
        Ok(bound)
    }

    /// The value of a VALUES or SET item for a column.
    fn assigned(
        &mut self,
        table: &TableDefinition,
        column: &ColumnDefinition,
        value: &ast::Expression,
    ) -> Result<Expression, PlanError> {
        if matches!(value.kind, ExpressionKind::Default) {
            return default_of(column);
        }
        let bound = self.wanted_expression(value, column.sql_type)?;
        let bound = self.assign(bound, column.sql_type, &context(table, column), value.span)?;
        if is_untyped(&bound) {
            return Err(PlanError::at(value.span, CAST_NEEDED));
        }
        Ok(bound)
    }

    /// UPDATE.
    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<BoundChange, PlanError> {
        let mark = self.enter_with(update.with.as_ref())?;
        let table = self.target(&update.table)?;
        let alias = update.alias.as_ref().unwrap_or(&update.table);
        let slot = self.new_slot()?;
        let source = Source::of_table(alias.as_str(), &table.definition, slot);
        self.scopes.push(Scope::of_source(source));
        let result = self.update_parts(update, &table, slot);
        self.scopes.pop();
        self.leave_with(mark);
        let (assignments, mut source) = result?;
        if let Body::Select(select) = &mut source.body {
            select.from = leaf(&table, slot);
        }
        Ok(BoundChange { table, slot, source, assignments })
    }

    #[allow(clippy::type_complexity, reason = "used once, right above")]
    fn update_parts(
        &mut self,
        update: &ast::Update,
        table: &CatalogTable,
        slot: u16,
    ) -> Result<(Vec<(u16, Expression)>, Query), PlanError> {
        let definition = &table.definition;
        let mut assignments: Vec<(u16, Expression)> = Vec::new();
        for assignment in &update.assignments {
            let name = &assignment.column;
            let found = self.resolve(name)?;
            let position = match found.node {
                Node::Column { slot: s, column } if s == slot => column,
                _ => {
                    let message = format!("object not found: {}", name.name.text);
                    return Err(PlanError::at(name.name.span, message));
                }
            };
            if assignments.iter().any(|(known, _)| *known == position) {
                let message = format!("duplicate column name in derived table: {}", name.name.text);
                return Err(PlanError::at(assignment.span, message));
            }
            let column = &definition.columns[usize::from(position)];
            assignments.push((position, self.assigned(definition, column, &assignment.value)?));
        }
        let source =
            self.changed_rows(update.selection.as_ref(), &update.order_by, &update.limit)?;
        Ok((assignments, source))
    }

    /// DELETE.
    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<BoundChange, PlanError> {
        let mark = self.enter_with(delete.with.as_ref())?;
        let table = self.target(&delete.table)?;
        let alias = delete.alias.as_ref().unwrap_or(&delete.table);
        if delete.order_by.is_empty() && !delete.limit.is_empty() {
            return Err(PlanError::new(
                "DELETE statement with LIMIT or OFFSET but no ORDER BY would produce \
                 non-deterministic results. Please use an ORDER BY clause.",
            ));
        }
        let slot = self.new_slot()?;
        let source = Source::of_table(alias.as_str(), &table.definition, slot);
        self.scopes.push(Scope::of_source(source));
        let result = self.changed_rows(delete.selection.as_ref(), &delete.order_by, &delete.limit);
        self.scopes.pop();
        self.leave_with(mark);
        let mut source = result?;
        if let Body::Select(select) = &mut source.body {
            select.from = leaf(&table, slot);
        }
        Ok(BoundChange { table, slot, source, assignments: Vec::new() })
    }

    fn changed_rows(
        &mut self,
        selection: Option<&ast::Expression>,
        order: &[OrderItem],
        limit: &LimitClause,
    ) -> Result<Query, PlanError> {
        let filter = match selection {
            Some(condition) => self.conjuncts(condition)?,
            None => Vec::new(),
        };
        let limits = self.order_and_limit(order, limit)?;
        Ok(Query {
            body: Body::Select(select_of(empty_from(), filter)),
            output: Vec::new(),
            order: limits.keys,
            limit: limits.limit,
            offset: limits.offset,
        })
    }
}

fn context(table: &TableDefinition, column: &ColumnDefinition) -> String {
    format!(" for column '{}' in the table '{}'", column.name, table.name)
}

fn leaf(table: &Arc<CatalogTable>, slot: u16) -> From {
    let kind = LeafKind::Table(Arc::clone(table));
    From::Leaf(Leaf { slot, kind })
}

/// A SELECT with nothing but FROM and WHERE.
pub(super) fn select_of(from: From, filter: Vec<Expression>) -> Select {
    Select { from, filter, aggregate: None, having: Vec::new(), window: None, distinct: None }
}

/// The positions of the columns that an INSERT gives values for.
fn listed_columns(table: &TableDefinition, insert: &ast::Insert) -> Result<Vec<u16>, PlanError> {
    let Some(names) = &insert.columns else {
        return Ok((0..table.visible_columns).collect());
    };
    let mut listed: Vec<u16> = Vec::with_capacity(names.len());
    for name in names {
        let position = table.columns.iter().position(|column| column.name == name.text);
        let Some(position) = position else {
            let columns = table.columns.iter().map(|column| column.name.as_str());
            return Err(super::scope::not_found(&name.text, &name.text, name.span, columns));
        };
        let position = position as u16;
        if listed.contains(&position) {
            let message = format!("duplicate column name in derived table: {}", name.text);
            return Err(PlanError::at(name.span, message));
        }
        listed.push(position);
    }
    Ok(listed)
}

fn upsert_of(
    table: &CatalogTable,
    insert: &ast::Insert,
    listed: &[u16],
) -> Result<Upsert, PlanError> {
    let definition = &table.definition;
    let Some(primary_key) = definition.primary_key else {
        let message = format!(
            "Unsupported UPSERT table without primary key: UPSERT is not allowed on table \"{}\" \
             that has no primary key.",
            definition.name
        );
        return Err(PlanError::at(insert.table.span, message));
    };
    let key = &definition.indexes[primary_key.index()];
    for part in &key.keys {
        if let lockstep_plan_ir::schema::IndexKey::Column(column) = part
            && !listed.contains(column)
        {
            let message = format!(
                "UPSERT on table \"{}\" must specify a value for primary key \"{}\".",
                definition.name,
                definition.columns[usize::from(*column)].name
            );
            return Err(PlanError::at(insert.table.span, message));
        }
    }
    Ok(Upsert { primary_key, assigned: listed.to_vec() })
}

/// Puts the query's columns in the table's order, with defaults for those that are not listed.
fn complete(
    mut query: Query,
    table: &TableDefinition,
    listed: &[u16],
    upsert: bool,
) -> Result<Query, PlanError> {
    let mut given = query.output;
    query.output = Vec::with_capacity(table.columns.len());
    for (position, column) in table.columns.iter().enumerate() {
        let source = listed.iter().position(|listed| usize::from(*listed) == position);
        let expression = match source {
            Some(source) => {
                let null = Expression::literal(Value::Null, SqlType::Null);
                std::mem::replace(&mut given[source].expression, null)
            }
            // A row that is there keeps its value; a new one violates NOT NULL when it is inserted.
            None if upsert => default_of(column)
                .unwrap_or_else(|_| Expression::literal(Value::Null, column.sql_type)),
            None => default_of(column)?,
        };
        query.output.push(Output { name: column.name.clone(), expression });
    }
    Ok(query)
}

fn default_of(column: &ColumnDefinition) -> Result<Expression, PlanError> {
    Ok(match &column.default {
        DefaultValue::Constant(value) => Expression::literal(value.clone(), column.sql_type),
        DefaultValue::Now => {
            let node = Node::Call(Function::Now, Vec::new());
            Expression { node, sql_type: SqlType::Timestamp }
        }
        DefaultValue::None if column.nullable => Expression::literal(Value::Null, column.sql_type),
        DefaultValue::None => {
            return Err(PlanError::new(format!(
                "Column {} has no default and is not nullable.",
                column.name
            )));
        }
    })
}
