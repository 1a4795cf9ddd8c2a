//! CREATE TABLE.

use crate::catalog::{CatalogTable, IndexSource};
use crate::error::PlanError;
use lockstep_plan_ir::{ColumnDefinition, TableDefinition};
use lockstep_sql::ast::{
    ColumnConstraintKind, ColumnName, ConstraintKind, CreateTable, Expression, ExpressionKind,
    Name, ParsedStatement, Span, TableConstraint, Uniqueness,
};
use std::sync::Arc;

use super::index::NewIndex;
use super::message::{ddl_error, not_supported, table_error, table_error_in};
use super::{Draft, column, row_limit};

/// A key constraint, wherever it was written.
pub(super) struct KeyConstraint<'a> {
    /// CONSTRAINT name.
    pub name: Option<&'a Name>,
    /// PRIMARY KEY rather than a unique constraint.
    pub primary: bool,
    /// UNIQUE or ASSUMEUNIQUE.
    pub uniqueness: Uniqueness,
    /// The key.
    pub keys: Vec<Expression>,
    /// Where it stands.
    pub span: Span,
}

impl Draft<'_> {
    pub(super) fn create_table(
        &mut self,
        parsed: &ParsedStatement,
        create: &CreateTable,
    ) -> Result<(), PlanError> {
        self.require_new_table_name(&create.name)?;
        if create.export.is_some() {
            let reason = "EXPORT and MIGRATE tables are not supported yet: there are no targets \
                          that rows could go to";
            return Err(ddl_error(parsed.span, reason));
        }
        let name = &create.name.text;
        let mut columns: Vec<ColumnDefinition> = Vec::with_capacity(create.columns.len());
        for declared in &create.columns {
            let definition = column::define(name, declared)?;
            if columns.iter().any(|column| column.name == definition.name) {
                let reason = format!("object name already exists: {}", definition.name);
                return Err(table_error(declared.span, reason));
            }
            columns.push(definition);
        }
        column::check_width(name, &columns)?;
        self.check_references(parsed, create)?;
        let is_key = |constraint: &&TableConstraint| {
            !matches!(constraint.kind, ConstraintKind::ForeignKey { .. })
        };
        let mut constraints = Vec::new();
        for declared in &create.columns {
            constraints.extend(column_keys(parsed, declared)?);
        }
        for constraint in create.constraints.iter().filter(is_key) {
            constraints.extend(table_key(parsed, constraint)?);
        }
        let definition = TableDefinition {
            id: self.take_table_id(name),
            name: name.clone(),
            visible_columns: columns.len() as u16,
            columns,
            indexes: Vec::new(),
            primary_key: None,
            partition_columns: Vec::new(),
            is_partial: false,
            view: None,
            dependent_views: Vec::new(),
            row_limit: create.limit_rows.as_ref().map(row_limit::rows).transpose()?,
            row_limit_purge: None,
            global_indexes: Vec::new(),
            entries_of: None,
        };
        let table = CatalogTable {
            definition: Arc::new(definition),
            view_source: None,
            index_sources: Vec::new(),
            row_limit_source: create.limit_rows.clone().map(Arc::new),
            global_sources: Vec::new(),
            time_to_live: None,
        };
        self.catalog.tables.insert(name.clone(), Arc::new(table));
        constraints.iter().try_for_each(|constraint| self.add_key(&create.name, constraint))?;
        create.ttl.as_ref().map_or(Ok(()), |ttl| self.set_ttl(&create.name, ttl))
    }

    /// Foreign keys of a new table must name tables and columns that are there. As in VoltDB they
    /// are declarations that no row is held against: applications write them for their readers.
    fn check_references(
        &self,
        parsed: &ParsedStatement,
        create: &CreateTable,
    ) -> Result<(), PlanError> {
        let refused = |reason: String| Err(table_error_in(parsed, &reason));
        // Those after a column are refused, but an unknown table is told first.
        for constraint in create.columns.iter().flat_map(|column| &column.constraints) {
            if let ColumnConstraintKind::References(table, _) = &constraint.kind
                && !self.catalog.tables.contains_key(table.as_str())
            {
                return refused(format!("object not found: {}", table.text));
            }
        }
        for constraint in &create.constraints {
            let ConstraintKind::ForeignKey { columns, table, referenced } = &constraint.kind else {
                continue;
            };
            let Some(parent) = self.catalog.tables.get(table.as_str()) else {
                return refused(format!("object not found: {}", table.text));
            };
            let ours =
                |name: &&Name| create.columns.iter().all(|c| c.name.as_str() != name.as_str());
            let theirs = |name: &&Name| {
                parent.definition.columns.iter().all(|column| column.name != name.as_str())
            };
            let absent = columns.iter().find(ours).or_else(|| referenced.iter().find(theirs));
            if let Some(name) = absent {
                return refused(format!("object not found: {}", name.text));
            }
            if !referenced.is_empty() && referenced.len() != columns.len() {
                return refused("column list mismatch in FOREIGN KEY".to_string());
            }
        }
        Ok(())
    }

    /// Adds a PRIMARY KEY, UNIQUE or ASSUMEUNIQUE constraint to a table. As in VoltDB the columns
    /// of a primary key take NULL unless they are declared NOT NULL; its index takes each key once,
    /// those with NULL too.
    pub(super) fn add_key(
        &mut self,
        table: &Name,
        constraint: &KeyConstraint<'_>,
    ) -> Result<(), PlanError> {
        let definition = &self.find_table(table)?.definition;
        if constraint.primary && definition.primary_key.is_some() {
            return Err(table_error(constraint.span, "primary key already exist"));
        }
        let keys = &constraint.keys;
        let columns: Vec<Option<&str>> = keys.iter().map(plain_column).collect();
        if constraint.primary {
            if columns.contains(&None) {
                let reason = "unexpected token in PRIMARY KEY: only columns are allowed";
                return Err(table_error(constraint.span, reason));
            }
            for (place, column) in columns.iter().enumerate() {
                if columns[..place].contains(column) {
                    let reason =
                        format!("duplicate column name in key: {}", column.unwrap_or_default());
                    return Err(table_error(constraint.span, reason));
                }
            }
        }
        let (index_name, constraint_name) = self.key_names(table, constraint, &columns)?;
        let unique = NewIndex {
            name: index_name,
            uniqueness: constraint.uniqueness,
            constraint: Some(constraint_name),
            source: IndexSource { keys: keys.clone(), predicate: None },
            span: constraint.span,
        };
        let place = self.add_index(table, unique)?;
        if constraint.primary {
            let table = self.find_table_mut(table)?;
            let definition = Arc::make_mut(&mut table.definition);
            definition.primary_key = Some(place);
        }
        Ok(())
    }

    /// The names of a key constraint's index and of the constraint, as VoltDB makes them.
    fn key_names(
        &self,
        table: &Name,
        constraint: &KeyConstraint<'_>,
        columns: &[Option<&str>],
    ) -> Result<(String, String), PlanError> {
        if let Some(name) = constraint.name {
            super::unquoted(name)?;
            let taken = self.catalog.tables.values().any(|table| {
                let mut indexes = table.definition.indexes.iter();
                indexes.any(|index| index.constraint.as_deref() == Some(name.as_str()))
            });
            if taken {
                let reason = format!("object name already exists: {}", name.text);
                return Err(table_error(name.span, reason));
            }
            let index = format!("VOLTDB_AUTOGEN_CONSTRAINT_IDX_{}", name.text);
            return Ok((index, name.text.clone()));
        }
        let kind = if constraint.primary { "PK" } else { "CT" };
        let columns: Vec<&str> =
            columns.iter().map(|column| column.unwrap_or("EXPRESSION")).collect();
        let mut stem = format!("{kind}_{}_{}", table.text, columns.join("_"));
        let whole = stem.clone();
        let mut number = 1;
        while self.index_name_is_taken(&format!("VOLTDB_AUTOGEN_IDX_{stem}")) {
            number += 1;
            stem = format!("{whole}_{number}");
        }
        Ok((format!("VOLTDB_AUTOGEN_IDX_{stem}"), format!("VOLTDB_AUTOGEN_CT__{stem}")))
    }
}

/// The column that a key part names, if it is nothing but a column.
pub(super) fn plain_column(expression: &Expression) -> Option<&str> {
    match &expression.kind {
        ExpressionKind::Column(column) => Some(column.name.as_str()),
        _ => None,
    }
}

/// The key constraints written after a column.
pub(super) fn column_keys<'a>(
    parsed: &ParsedStatement,
    column: &'a lockstep_sql::ast::ColumnDefinition,
) -> Result<Vec<KeyConstraint<'a>>, PlanError> {
    let mut keys = Vec::new();
    for constraint in &column.constraints {
        let (primary, uniqueness) = match &constraint.kind {
            ColumnConstraintKind::PrimaryKey => (true, Uniqueness::Unique),
            ColumnConstraintKind::Unique => (false, Uniqueness::Unique),
            ColumnConstraintKind::AssumeUnique => (false, Uniqueness::AssumeUnique),
            ColumnConstraintKind::References(table, _) => {
                return Err(foreign_key(parsed, table));
            }
            ColumnConstraintKind::Check(_) => return Err(check_constraint(constraint.span)),
            ColumnConstraintKind::Identity => {
                return Err(not_supported(constraint.span, "IDENTITY columns"));
            }
            ColumnConstraintKind::NotNull | ColumnConstraintKind::Null => continue,
        };
        let name = ColumnName { table: None, name: column.name.clone() };
        let key =
            Expression { kind: ExpressionKind::Column(Box::new(name)), span: column.name.span };
        keys.push(KeyConstraint {
            name: constraint.name.as_ref(),
            primary,
            uniqueness,
            keys: vec![key],
            span: constraint.span,
        });
    }
    Ok(keys)
}

/// The key that a table constraint declares, if it declares one.
pub(super) fn table_key<'a>(
    parsed: &ParsedStatement,
    constraint: &'a lockstep_sql::ast::TableConstraint,
) -> Result<Option<KeyConstraint<'a>>, PlanError> {
    let (primary, uniqueness, keys) = match &constraint.kind {
        ConstraintKind::PrimaryKey(keys) => (true, Uniqueness::Unique, keys),
        ConstraintKind::Unique(keys) => (false, Uniqueness::Unique, keys),
        ConstraintKind::AssumeUnique(keys) => (false, Uniqueness::AssumeUnique, keys),
        ConstraintKind::Check(_) => return Err(check_constraint(constraint.span)),
        ConstraintKind::ForeignKey { table, .. } => return Err(foreign_key(parsed, table)),
    };
    Ok(Some(KeyConstraint {
        name: constraint.name.as_ref(),
        primary,
        uniqueness,
        keys: keys.clone(),
        span: constraint.span,
    }))
}

/// VoltDB takes CHECK and never holds a row against it; that would be found out too late.
fn check_constraint(span: Span) -> PlanError {
    not_supported(span, "CHECK constraints")
}

fn foreign_key(parsed: &ParsedStatement, table: &Name) -> PlanError {
    let reason = format!("foreign keys are not supported yet: REFERENCES {}", table.text);
    table_error_in(parsed, &reason)
}
