//! FROM: sources and joins.

use super::common_table::Found;
use super::expression::boolean;
use super::scope::{Scope, Source, SourceColumn};
use super::{Binder, empty_from};
use crate::error::PlanError;
use crate::query::logical::{From, Leaf, LeafKind, Query};
use crate::query::walk;
use lockstep_plan_ir::{Comparison, Expression, Node};
use lockstep_sql::ast::{
    ColumnName, JoinCondition, JoinKind, Name, Span, TableAlias, TableReference, TableReferenceKind,
};
use std::sync::Arc;

impl Binder<'_> {
    /// Binds FROM; its sources come into the innermost scope.
    pub(super) fn from(&mut self, references: &[TableReference]) -> Result<From, PlanError> {
        let mut all = empty_from();
        for reference in references {
            let item = self.reference(reference)?;
            join_inner(&mut all, item, Vec::new());
        }
        Ok(simplified(all))
    }

    fn reference(&mut self, reference: &TableReference) -> Result<From, PlanError> {
        match &reference.kind {
            TableReferenceKind::Table { name, alias } => {
                self.count_source(reference.span)?;
                self.named(name, alias.as_ref()).map(From::Leaf)
            }
            TableReferenceKind::Derived { query, alias } => {
                self.count_source(reference.span)?;
                let Some(alias) = alias else {
                    let message = "SQL Syntax error: Every derived table must have its own alias.";
                    return Err(PlanError::at(reference.span, message));
                };
                // A derived table does not see the tables beside it.
                let hidden = self.scopes.pop();
                let bound = self.query(query);
                self.scopes.extend(hidden);
                self.derived(bound?, &alias.name, &alias.columns).map(From::Leaf)
            }
            TableReferenceKind::Join { left, right, kind, condition } => {
                self.join(left, right, *kind, condition, reference.span)
            }
        }
    }

    fn named(&mut self, name: &Name, alias: Option<&TableAlias>) -> Result<Leaf, PlanError> {
        let shown = alias.map_or(name, |alias| &alias.name);
        let renamed: &[Name] = alias.map_or(&[], |alias| &alias.columns);
        match self.common_table(name)? {
            Some(Found::Query(query)) => self.derived(*query, shown, renamed),
            Some(Found::Working { number, columns }) => {
                let slot = self.new_slot()?;
                let source = Source { alias: shown.text.clone(), slot, columns };
                self.add_source(source, shown, renamed)?;
                let kind = LeafKind::Working { number };
                Ok(Leaf { slot, kind })
            }
            None => {
                let Some(table) = self.catalog.table(name.as_str()) else {
                    return Err(self.unknown_table(name));
                };
                let table = Arc::clone(table);
                self.reads_entries |= table.definition.entries_of.is_some();
                let slot = self.new_slot()?;
                self.note_view(slot, &table.definition);
                let source = Source::of_table(shown.as_str(), &table.definition, slot);
                self.add_source(source, shown, renamed)?;
                Ok(Leaf { slot, kind: LeafKind::Table(table) })
            }
        }
    }

    fn derived(&mut self, query: Query, alias: &Name, renamed: &[Name]) -> Result<Leaf, PlanError> {
        let slot = self.new_slot()?;
        self.note_nominal(slot, &query.output);
        let columns = (0..query.output.len()).map(|position| SourceColumn {
            name: query.column_name(position),
            sql_type: query.output[position].expression.sql_type,
        });
        let source = Source { alias: alias.text.clone(), slot, columns: columns.collect() };
        self.add_source(source, alias, renamed)?;
        let kind = LeafKind::Derived(Box::new(query));
        Ok(Leaf { slot, kind })
    }

    fn add_source(
        &mut self,
        mut source: Source,
        name: &Name,
        renamed: &[Name],
    ) -> Result<(), PlanError> {
        rename(&mut source.columns, renamed, name.span)?;
        let scope = self.scopes.last_mut().expect("FROM is bound within a scope");
        if scope.sources.iter().any(|other| other.alias == source.alias) {
            let message = format!("Not unique table/alias: {}", source.alias);
            return Err(PlanError::at(name.span, message));
        }
        scope.sources.push(source);
        Ok(())
    }

    fn join(
        &mut self,
        left: &TableReference,
        right: &TableReference,
        kind: JoinKind,
        condition: &JoinCondition,
        span: Span,
    ) -> Result<From, PlanError> {
        let first = self.scope().sources.len();
        let left = self.reference(left)?;
        let middle = self.scope().sources.len();
        let right = self.reference(right)?;
        let conjuncts = match condition {
            JoinCondition::None => Vec::new(),
            JoinCondition::On(condition) => self.conjuncts(condition)?,
            JoinCondition::Using(names) => self.using(names, first, middle, kind)?,
            JoinCondition::Natural => {
                let names = self.common_columns(first, middle, span);
                self.using(&names, first, middle, kind)?
            }
        };
        if matches!(kind, JoinKind::Inner | JoinKind::Cross) {
            let mut all = empty_from();
            join_inner(&mut all, left, Vec::new());
            join_inner(&mut all, right, conjuncts);
            return Ok(simplified(all));
        }
        let inside: Vec<u16> = self.scope().sources[first..].iter().map(|s| s.slot).collect();
        let beside: Vec<u16> = self.scope().sources[..first].iter().map(|s| s.slot).collect();
        for conjunct in &conjuncts {
            let read = walk::slots_read(conjunct, &self.subqueries);
            if beside.iter().any(|slot| read.contains(slot)) && !inside.is_empty() {
                let message = "Join with filters that do not depend on joined tables is not \
                               supported";
                return Err(PlanError::at(span, message));
            }
        }
        let (left, right) = if kind == JoinKind::Right { (right, left) } else { (left, right) };
        let full = kind == JoinKind::Full;
        Ok(From::Outer { full, left: Box::new(left), right: Box::new(right), conjuncts })
    }

    fn scope(&self) -> &Scope {
        self.scopes.last().expect("FROM is bound within a scope")
    }

    /// The columns that both sides of a NATURAL JOIN have, in the order of the left side.
    fn common_columns(&self, first: usize, middle: usize, span: Span) -> Vec<Name> {
        let sources = &self.scope().sources;
        let mut names: Vec<Name> = Vec::new();
        for column in sources[first..middle].iter().flat_map(|source| &source.columns) {
            let right = sources[middle..].iter().flat_map(|source| &source.columns);
            let common = right.into_iter().any(|other| other.name == column.name);
            if common && !names.iter().any(|name| name.text == column.name) {
                names.push(Name { text: column.name.clone(), quoted: true, span });
            }
        }
        names
    }

    /// USING (columns): equalities, and one column for the two.
    fn using(
        &mut self,
        names: &[Name],
        first: usize,
        middle: usize,
        kind: JoinKind,
    ) -> Result<Vec<Expression>, PlanError> {
        let mut conjuncts = Vec::with_capacity(names.len());
        for name in names {
            let left = self.using_column(name, first, middle)?;
            let right = self.using_column(name, middle, usize::MAX)?;
            let merged = match kind {
                JoinKind::Right => right.clone(),
                JoinKind::Full => first_not_null(left.clone(), right.clone()),
                _ => left.clone(),
            };
            conjuncts.push(self.compare(Comparison::Equal, left, right, name.span)?);
            let scope = self.scopes.last_mut().expect("FROM is bound within a scope");
            scope.merged.retain(|(known, _)| *known != name.text);
            scope.merged.push((name.text.clone(), merged));
        }
        Ok(conjuncts)
    }

    fn using_column(&self, name: &Name, from: usize, to: usize) -> Result<Expression, PlanError> {
        let scope = self.scope();
        let to = to.min(scope.sources.len());
        let sources = scope.sources[from..to].to_vec();
        let part = Scope { sources, merged: scope.merged.clone(), ..Scope::default() };
        let column = ColumnName { table: None, name: name.clone() };
        let unmerged = Scope { merged: Vec::new(), ..part };
        let found = match scope.merged.iter().find(|(known, _)| *known == name.text) {
            Some((_, merged)) if from == 0 && to < scope.sources.len() => Some(merged.clone()),
            _ => unmerged.column(&column)?,
        };
        found.ok_or_else(|| PlanError::at(name.span, format!("object not found: {}", name.text)))
    }
}

fn first_not_null(a: Expression, b: Expression) -> Expression {
    let sql_type = a.sql_type;
    let is_null = boolean(Node::IsNull(Box::new(a.clone())));
    let present = boolean(Node::Not(Box::new(is_null)));
    let node = Node::Case { branches: vec![(present, a)], otherwise: Some(Box::new(b)) };
    Expression { node, sql_type }
}

fn rename(columns: &mut [SourceColumn], names: &[Name], span: Span) -> Result<(), PlanError> {
    if names.len() > columns.len() || !names.is_empty() && names.len() < columns.len() {
        let message = format!("{} names for {} columns", names.len(), columns.len());
        return Err(PlanError::at(span, message));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name.text.clone();
    }
    Ok(())
}

/// Adds an item to a group of inner joins; groups within groups are dissolved.
fn join_inner(all: &mut From, item: From, mut conditions: Vec<Expression>) {
    let From::Inner { items, conjuncts } = all else { return };
    match item {
        From::Inner { items: inner, conjuncts: mut inner_conjuncts } => {
            items.extend(inner);
            conjuncts.append(&mut inner_conjuncts);
        }
        other => items.push(other),
    }
    conjuncts.append(&mut conditions);
}

/// A group of a single item without conditions is the item.
fn simplified(from: From) -> From {
    match from {
        From::Inner { mut items, conjuncts } if items.len() == 1 && conjuncts.is_empty() => {
            items.pop().unwrap_or_else(empty_from)
        }
        other => other,
    }
}
