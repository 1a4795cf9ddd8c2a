//! What names mean: sources in scope, their columns, aliases, and messages for unknown names.

use super::Binder;
use crate::error::PlanError;
use lockstep_plan_ir::relation::{AggregateCall, WindowCall};
use lockstep_plan_ir::{Expression, TableDefinition};
use lockstep_sql::ast::{ColumnName, Name, Span};
use lockstep_types::SqlType;

/// The names that one SELECT or DML statement brings into scope.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Tables in the order written.
    pub(super) sources: Vec<Source>,
    /// Columns that USING has merged, by name: what the name alone means.
    pub(super) merged: Vec<(String, Expression)>,
    /// Aggregates seen, where they are allowed.
    pub(super) aggregates: Option<Aggregates>,
    /// Window functions seen, where they are allowed.
    pub(super) windows: Option<Windows>,
    /// Aliases of the select list, where they are known (ORDER BY).
    pub(super) aliases: Vec<(String, Expression)>,
    /// The expressions of GROUP BY that contain subqueries.
    pub(super) grouped: Vec<GroupedSubquery>,
}

/// An expression of GROUP BY that contains a subquery. Each binding of a subquery gets slots and a
/// number of its own, so that such expressions are compared by their text.
#[derive(Debug)]
pub(super) struct GroupedSubquery {
    /// Its text.
    pub(super) text: String,
    /// Its position in the statement.
    pub(super) span: Span,
    /// What it was bound to.
    pub(super) expression: Expression,
}

/// Collects the aggregates of a SELECT.
#[derive(Debug)]
pub(super) struct Aggregates {
    /// The slot of the group's row.
    pub(super) slot: u16,
    /// Number of group values before the calls.
    pub(super) groups: usize,
    /// The calls so far.
    pub(super) calls: Vec<AggregateCall>,
    /// Within an aggregate's argument.
    pub(super) inside: bool,
}

/// Collects the window functions of a SELECT.
#[derive(Debug)]
pub(super) struct Windows {
    /// The slot of their values.
    pub(super) slot: u16,
    /// The calls so far.
    pub(super) calls: Vec<WindowCall>,
}

/// A table in scope.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The name by which columns are qualified.
    pub(super) alias: String,
    /// Its slot.
    pub(super) slot: u16,
    /// Its columns.
    pub(super) columns: Vec<SourceColumn>,
}

/// A column of a source.
#[derive(Debug, Clone)]
pub(super) struct SourceColumn {
    /// Its name.
    pub(super) name: String,
    /// Its type.
    pub(super) sql_type: SqlType,
}

impl Source {
    /// A table or view under a name.
    pub(super) fn of_table(alias: &str, table: &TableDefinition, slot: u16) -> Source {
        let visible = usize::from(table.visible_columns);
        let columns = table
            .columns
            .iter()
            .take(visible)
            .map(|column| SourceColumn { name: column.name.clone(), sql_type: column.sql_type });
        Source { alias: alias.to_string(), slot, columns: columns.collect() }
    }

    /// The column at a position, as an expression.
    pub(super) fn column(&self, position: usize) -> Expression {
        Expression::column(self.slot, position as u16, self.columns[position].sql_type)
    }

    fn find(&self, name: &str) -> Option<Expression> {
        let position = self.columns.iter().position(|column| column.name == name)?;
        Some(self.column(position))
    }
}

impl Scope {
    /// A scope of a single source.
    pub(super) fn of_source(source: Source) -> Scope {
        Scope { sources: vec![source], ..Scope::default() }
    }

    /// Finds a column.
    pub(super) fn column(&self, name: &ColumnName) -> Result<Option<Expression>, PlanError> {
        let wanted = name.name.as_str();
        if name.table.is_none()
            && let Some((_, merged)) = self.merged.iter().find(|(n, _)| n == wanted)
        {
            return Ok(Some(merged.clone()));
        }
        let mut found = None;
        for source in &self.sources {
            if name.table.as_ref().is_some_and(|table| table.as_str() != source.alias) {
                continue;
            }
            if let Some(column) = source.find(wanted) {
                let twice = source.columns.iter().filter(|c| c.name == wanted).nth(1).is_some();
                if found.is_some() || twice {
                    let message = format!(
                        "Column \"{wanted}\" is ambiguous.  It's in tables: {}",
                        self.holders(wanted)
                    );
                    return Err(PlanError::at(name.name.span, message));
                }
                found = Some(column);
            }
        }
        Ok(found)
    }

    fn holders(&self, column: &str) -> String {
        let holders: Vec<&str> = self
            .sources
            .iter()
            .filter(|source| source.columns.iter().any(|c| c.name == column))
            .map(|source| source.alias.as_str())
            .collect();
        holders.join(", ")
    }
}

impl Binder<'_> {
    /// What a column name means, in the innermost scope that knows it.
    pub(super) fn resolve(&mut self, name: &ColumnName) -> Result<Expression, PlanError> {
        if let Some(scope) = self.scopes.last()
            && name.table.is_none()
            && scope.column(name)?.is_none()
            && let Some((_, aliased)) = scope.aliases.iter().find(|(n, _)| *n == name.name.text)
        {
            return Ok(aliased.clone());
        }
        for scope in self.scopes.iter().rev() {
            if let Some(column) = scope.column(name)? {
                return Ok(column);
            }
        }
        Err(self.unknown_column(name))
    }

    fn unknown_column(&self, name: &ColumnName) -> PlanError {
        let shown = match &name.table {
            Some(table) => format!("{}.{}", table.text, name.name.text),
            None => name.name.text.clone(),
        };
        let columns = self.scopes.iter().rev().flat_map(|scope| &scope.sources).filter(|source| {
            name.table.as_ref().is_none_or(|table| table.as_str() == source.alias)
        });
        let candidates = columns.flat_map(|source| source.columns.iter().map(|c| c.name.as_str()));
        not_found(&shown, &name.name.text, name.name.span, candidates)
    }

    /// The error for a table that is not there.
    pub(crate) fn unknown_table(&self, name: &Name) -> PlanError {
        let tables = self.catalog.visible_names();
        not_found(&name.text, &name.text, name.span, tables)
    }
}

/// `object not found`, with the nearest name there is.
pub(super) fn not_found<'n>(
    shown: &str,
    name: &str,
    span: Span,
    candidates: impl Iterator<Item = &'n str>,
) -> PlanError {
    PlanError::at(span, not_found_message(shown, name, candidates))
}

/// The text of `object not found`, with the nearest name there is.
pub(crate) fn not_found_message<'n>(
    shown: &str,
    name: &str,
    candidates: impl Iterator<Item = &'n str>,
) -> String {
    let mut message = format!("object not found: {shown}");
    let mut nearest: Option<(usize, &str)> = None;
    for candidate in candidates.take(10_000) {
        let distance = edit_distance(name, candidate);
        if nearest.is_none_or(|(best, _)| distance < best) {
            nearest = Some((distance, candidate));
        }
    }
    if let Some((distance, candidate)) = nearest
        && distance > 0
        && distance * 3 <= name.chars().count().max(3)
    {
        message.push_str(&format!(" (did you mean {candidate}?)"));
    }
    message
}

/// Levenshtein distance, of the first 64 characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
