//! The procedures that every table gets: `TABLE.insert`, `upsert`, `update`, `delete`, `select`.
//!
//! Their statements are built as trees, not as text, so that column names which are keywords do
//! no harm.

use crate::error::PlanError;
use crate::query::{PlanContext, plan_statement};
use lockstep_plan_ir::procedure::RoutingColumn;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::{ProcedureDefinition, ProcedureKind, TableDefinition};
use lockstep_sql::ast::{
    Assignment, BinaryOperator, ColumnName, Delete, Expression, ExpressionKind, Insert,
    InsertSource, LimitClause, Name, OrderItem, ParsedStatement, Query, QueryBody, Select,
    SelectItem, SortDirection, Span, Statement, TableReference, TableReferenceKind, Update,
};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Draft;
use super::message::procedure_error;
use super::procedure::{partitioned_by, statement_parameters};

impl Draft<'_> {
    /// Makes the generated procedures of tables that are new or changed.
    pub(super) fn plan_generated(&mut self) -> Result<(), PlanError> {
        let mut generated = BTreeMap::new();
        for (name, table) in &self.catalog.tables {
            let definition = &table.definition;
            let old = self.old.tables.get(name);
            let same = old.is_some_and(|old| old.is_same(table));
            for &verb in verbs(definition) {
                // No statement takes more parameters; such a table gets no such procedure.
                if parameter_count(definition, verb) > MAX_PARAMETERS {
                    continue;
                }
                let key = format!("{name}.{}", verb.to_ascii_uppercase());
                let kept = self.old.generated.get(&key).filter(|_| same);
                let procedure = match kept {
                    Some(procedure) => procedure.clone(),
                    None => Arc::new(self.generate(definition, verb)?),
                };
                generated.insert(key, procedure);
            }
        }
        self.catalog.generated = generated;
        Ok(())
    }

    fn generate(
        &self,
        table: &TableDefinition,
        verb: &'static str,
    ) -> Result<ProcedureDefinition, PlanError> {
        let name = format!("{}.{verb}", table.name);
        let key = key_columns(table);
        let parsed = match verb {
            "insert" => insert(table, false),
            "upsert" => insert(table, true),
            "update" => update(table, &key),
            "delete" => delete(table, &key),
            _ => select(table, &key),
        };
        let context = match table.is_partitioned() {
            true => PlanContext::SinglePartition,
            false => PlanContext::MultiPartition,
        };
        let statement = plan_statement(&self.catalog, &parsed, context)
            .map_err(|error| procedure_error(parsed.span, &name, error.message))?;
        let read_only = statement.read_only;
        let statements = vec![("sql".to_string(), Arc::new(statement))];
        let columns = table.partition_columns.iter().map(|&column| {
            let in_key = key.iter().position(|&key| key == column).unwrap_or_default();
            let parameter = match verb {
                "insert" | "upsert" => usize::from(column),
                "update" => usize::from(table.visible_columns) + in_key,
                _ => in_key,
            };
            let column = &table.columns[usize::from(column)];
            RoutingColumn {
                column: column.name.clone(),
                column_type: column.sql_type,
                parameter: parameter as u16,
            }
        });
        let partitioning = partitioned_by(&table.name, columns.collect());
        Ok(ProcedureDefinition {
            declared: Vec::new(),
            name,
            kind: ProcedureKind::Generated { table: table.id, verb },
            partitioning,
            parameters: statement_parameters(&statements),
            statements,
            read_only,
            effects: false,
        })
    }
}

/// Most parameters of a statement.
const MAX_PARAMETERS: usize = 1025;

/// How many parameters a generated procedure takes.
fn parameter_count(table: &TableDefinition, verb: &str) -> usize {
    let (row, key) = (visible(table), key_columns(table).len());
    match verb {
        "insert" | "upsert" => row,
        "update" => row + key,
        _ => key,
    }
}

/// The procedures that a table gets.
fn verbs(table: &TableDefinition) -> &'static [&'static str] {
    let key = key_columns(table);
    let columns = &table.partition_columns;
    match table.is_partitioned() {
        _ if table.view.is_some() || table.entries_of.is_some() => &[],
        false if key.is_empty() => &["insert"],
        false => &["delete", "insert", "update", "upsert"],
        true if columns.iter().all(|column| key.contains(column)) => {
            &["delete", "insert", "select", "update", "upsert"]
        }
        true => &["insert"],
    }
}

/// The primary key's columns, in its order.
pub(crate) fn key_columns(table: &TableDefinition) -> Vec<u16> {
    let Some(key) = table.primary_key else { return Vec::new() };
    let keys = table.indexes[key.index()].keys.iter();
    keys.filter_map(|key| match key {
        IndexKey::Column(column) => Some(*column),
        IndexKey::Expression(_) => None,
    })
    .collect()
}

fn parsed(statement: Statement, text: String, parameters: usize) -> ParsedStatement {
    let parameter_count = parameters as u32;
    ParsedStatement { statement, text, span: Span::default(), parameter_count }
}

fn name(text: &str) -> Name {
    Name { text: text.to_string(), quoted: false, span: Span::default() }
}

fn expression(kind: ExpressionKind) -> Expression {
    Expression { kind, span: Span::default() }
}

fn parameter(number: usize) -> Expression {
    expression(ExpressionKind::Parameter(number as u32))
}

fn column_name(table: &TableDefinition, column: u16) -> ColumnName {
    ColumnName { table: None, name: name(&table.columns[usize::from(column)].name) }
}

fn column(table: &TableDefinition, column: u16) -> Expression {
    expression(ExpressionKind::Column(Box::new(column_name(table, column))))
}

/// `K1 = ? AND K2 = ?`, with parameters from `first` on: as a tree and as text.
fn key_condition(
    table: &TableDefinition,
    key: &[u16],
    first: usize,
) -> (Option<Expression>, String) {
    let mut parts: Vec<Expression> = key
        .iter()
        .enumerate()
        .map(|(place, &key)| {
            expression(ExpressionKind::Binary {
                operator: BinaryOperator::Equal,
                operator_span: Span::default(),
                left: Box::new(column(table, key)),
                right: Box::new(parameter(first + place)),
            })
        })
        .collect();
    let texts: Vec<String> =
        key.iter().map(|&key| format!("{} = ?", table.columns[usize::from(key)].name)).collect();
    let tree = match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(expression(ExpressionKind::And(parts))),
    };
    (tree, texts.join(" AND "))
}

fn visible(table: &TableDefinition) -> usize {
    usize::from(table.visible_columns)
}

fn insert(table: &TableDefinition, upsert: bool) -> ParsedStatement {
    let count = visible(table);
    let statement = Statement::Insert(Box::new(Insert {
        with: None,
        upsert,
        table: name(&table.name),
        columns: None,
        source: InsertSource::Values(vec![(0..count).map(parameter).collect()]),
    }));
    let verb = if upsert { "UPSERT" } else { "INSERT" };
    let marks = vec!["?"; count].join(", ");
    parsed(statement, format!("{verb} INTO {} VALUES ({marks})", table.name), count)
}

fn update(table: &TableDefinition, key: &[u16]) -> ParsedStatement {
    let count = visible(table);
    let assignments = (0..count)
        .map(|place| Assignment {
            column: column_name(table, place as u16),
            value: parameter(place),
            span: Span::default(),
        })
        .collect();
    let sets: Vec<String> =
        table.columns[..count].iter().map(|column| format!("{} = ?", column.name)).collect();
    let (selection, text) = key_condition(table, key, count);
    let statement = Statement::Update(Box::new(Update {
        with: None,
        table: name(&table.name),
        alias: None,
        assignments,
        selection,
        order_by: Vec::new(),
        limit: LimitClause::default(),
    }));
    let text = format!("UPDATE {} SET {} WHERE {text}", table.name, sets.join(", "));
    parsed(statement, text, count + key.len())
}

fn delete(table: &TableDefinition, key: &[u16]) -> ParsedStatement {
    let (selection, text) = key_condition(table, key, 0);
    let statement = Statement::Delete(Box::new(Delete {
        with: None,
        table: name(&table.name),
        alias: None,
        selection,
        order_by: Vec::new(),
        limit: LimitClause::default(),
    }));
    parsed(statement, format!("DELETE FROM {} WHERE {text}", table.name), key.len())
}

fn select(table: &TableDefinition, key: &[u16]) -> ParsedStatement {
    let span = Span::default();
    let (selection, text) = key_condition(table, key, 0);
    let from = TableReferenceKind::Table { name: name(&table.name), alias: None };
    let select = Select {
        distinct: false,
        items: vec![SelectItem::Star(span)],
        from: vec![TableReference { kind: from, span }],
        selection,
        group_by: Vec::new(),
        having: None,
        span,
    };
    let order_by = key
        .iter()
        .map(|&key| OrderItem {
            expression: column(table, key),
            direction: SortDirection::Ascending,
            nulls: None,
        })
        .collect();
    let names: Vec<&str> =
        key.iter().map(|&key| table.columns[usize::from(key)].name.as_str()).collect();
    let order = names.join(", ");
    let statement = Statement::Query(Box::new(Query {
        with: None,
        body: QueryBody::Select(Box::new(select)),
        order_by,
        limit: LimitClause::default(),
        span,
    }));
    let text = format!("SELECT * FROM {} WHERE {text} ORDER BY {order}", table.name);
    parsed(statement, text, key.len())
}
