//! WITH: common tables. A common table is bound again at each place that reads it; a recursive
//! one has a query of its own kind.

use super::scope::SourceColumn;
use super::{Binder, MAX_COLUMNS};
use crate::error::PlanError;
use crate::query::logical::{Body, Output, Query};
use lockstep_plan_ir::Expression;
use lockstep_sql::ast::{self, CommonTable, Name, QueryBody, SetOperator, With};
use std::rc::Rc;

/// A common table in scope.
#[derive(Debug, Clone)]
pub(super) struct Visible {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Its syntax tree.
    Plain { table: Rc<CommonTable>, recursive: bool },
    /// Within the recursive part: the rows of the previous round.
    Working { number: u16, columns: Vec<SourceColumn> },
}

/// What a name of a common table stands for.
pub(super) enum Found {
    /// A query, its columns named.
    Query(Box<Query>),
    /// The rows of the previous round.
    Working {
        /// The common table's number.
        number: u16,
        /// Its columns.
        columns: Vec<SourceColumn>,
    },
}

impl Binder<'_> {
    /// Brings the tables of a WITH into scope; the caller drops them again by
    /// [`Binder::leave_with`].
    pub(super) fn enter_with(&mut self, with: Option<&With>) -> Result<usize, PlanError> {
        let mark = self.common_tables.len();
        for table in with.iter().flat_map(|with| &with.tables) {
            let known = self.common_tables[mark..].iter().any(|v| v.name == table.name.text);
            if known {
                let message = format!("object name already exists: {}", table.name.text);
                return Err(PlanError::at(table.name.span, message));
            }
            let recursive = with.is_some_and(|with| with.recursive);
            let kind = Kind::Plain { table: Rc::new(table.clone()), recursive };
            self.common_tables.push(Visible { name: table.name.text.clone(), kind });
        }
        // Also those that nothing reads must be right.
        Ok(mark)
    }

    /// Drops what [`Binder::enter_with`] has brought into scope.
    pub(super) fn leave_with(&mut self, mark: usize) {
        self.common_tables.truncate(mark);
    }

    /// The common table of a name, bound for this use.
    pub(super) fn common_table(&mut self, name: &Name) -> Result<Option<Found>, PlanError> {
        let position = self.common_tables.iter().rposition(|v| v.name == name.text);
        let Some(position) = position else { return Ok(None) };
        match self.common_tables[position].kind.clone() {
            Kind::Working { number, columns } => Ok(Some(Found::Working { number, columns })),
            Kind::Plain { table, recursive } => {
                // It sees the common tables before it, and no table of the query around it.
                let later = self.common_tables.split_off(position);
                let scopes = std::mem::take(&mut self.scopes);
                let bound = self.bind_common_table(&table, recursive);
                self.scopes = scopes;
                self.common_tables.truncate(position);
                self.common_tables.extend(later);
                let mut query = bound?;
                rename(&mut query, &table.columns)?;
                Ok(Some(Found::Query(Box::new(query))))
            }
        }
    }

    fn bind_common_table(
        &mut self,
        table: &CommonTable,
        recursive: bool,
    ) -> Result<Query, PlanError> {
        match &table.query.body {
            QueryBody::SetOperation { operator: SetOperator::Union, all, left, right, .. }
                if recursive && mentions(right, &table.name.text) =>
            {
                self.nested(table.span, |binder| binder.recursive(table, left, right, *all))
            }
            _ => self.query(&table.query),
        }
    }

    fn recursive(
        &mut self,
        table: &CommonTable,
        left: &QueryBody,
        right: &QueryBody,
        all: bool,
    ) -> Result<Query, PlanError> {
        let mut base = self.body(left)?;
        rename(&mut base, &table.columns)?;
        let number = self.new_number()?;
        let columns = (0..base.output.len()).map(|position| SourceColumn {
            name: base.column_name(position),
            sql_type: base.output[position].expression.sql_type,
        });
        let columns: Vec<SourceColumn> = columns.collect();
        let kind = Kind::Working { number, columns: columns.clone() };
        self.common_tables.push(Visible { name: table.name.text.clone(), kind });
        let step = self.body(right);
        self.common_tables.pop();
        let mut step = step?;
        if step.output.len() != base.output.len() {
            let message = "column number mismatch detected in rows of UNION, INTERSECT, EXCEPT, \
                           or VALUES operation";
            return Err(PlanError::at(table.span, message));
        }
        for (output, column) in step.output.iter_mut().zip(&columns) {
            let value = output.expression.clone();
            output.expression = self.assign(value, column.sql_type, "", table.span)?;
        }
        let slot = self.new_slot()?;
        let output = columns.iter().enumerate().map(|(position, column)| Output {
            name: column.name.clone(),
            expression: Expression::column(slot, position as u16, column.sql_type),
        });
        let output = output.collect();
        let (base, step) = (Box::new(base), Box::new(step));
        let body = Body::Recursive { number, base, step, all, slot };
        Ok(Query { body, output, order: Vec::new(), limit: None, offset: None })
    }
}

fn rename(query: &mut Query, names: &[Name]) -> Result<(), PlanError> {
    if names.is_empty() {
        return Ok(());
    }
    if names.len() != query.output.len() || names.len() > MAX_COLUMNS {
        let message = format!("{} names for {} columns", names.len(), query.output.len());
        return Err(PlanError::at(names[0].span, message));
    }
    for (output, name) in query.output.iter_mut().zip(names) {
        output.name = name.text.clone();
    }
    Ok(())
}

/// True when a body reads a table of a name in a FROM (also in branches and derived tables).
fn mentions(body: &QueryBody, name: &str) -> bool {
    match body {
        QueryBody::Select(select) => select.from.iter().any(|r| reference_mentions(r, name)),
        QueryBody::SetOperation { left, right, .. } => {
            mentions(left, name) || mentions(right, name)
        }
        QueryBody::Parenthesized(query) => mentions(&query.body, name),
        QueryBody::Values(_) => false,
    }
}

fn reference_mentions(reference: &ast::TableReference, name: &str) -> bool {
    match &reference.kind {
        ast::TableReferenceKind::Table { name: table, .. } => table.as_str() == name,
        ast::TableReferenceKind::Derived { query, .. } => mentions(&query.body, name),
        ast::TableReferenceKind::Join { left, right, .. } => {
            reference_mentions(left, name) || reference_mentions(right, name)
        }
    }
}
