//! ALTER TABLE.
//!
//! Beside the new definition, [`Draft::columns`] keeps where each column of the altered table
//! comes from, through all statements of the batch.

use crate::error::PlanError;
use crate::query::not_found_message;
use lockstep_plan_ir::change::ColumnSource;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::schema::{DefaultValue, IndexKey};
use lockstep_plan_ir::{ColumnDefinition, Expression, IndexDefinition, StorageChange};
use lockstep_sql::ast::{self, AlterAction, AlterTable, ColumnChange, Name, ParsedStatement};
use lockstep_types::{SqlType, Value};
use std::sync::Arc;

use super::index::{self, bind_again, walk};
use super::message::{live_change_error, not_supported, table_error, table_error_in};
use super::table::{column_keys, table_key};
use super::{Draft, column, row_limit};

impl Draft<'_> {
    pub(super) fn alter_table(
        &mut self,
        parsed: &ParsedStatement,
        alter: &AlterTable,
    ) -> Result<(), PlanError> {
        let table = &alter.table;
        if self.find_table(table)?.definition.view.is_some() {
            let reason = format!("{} is a view: ALTER TABLE changes tables only", table.text);
            return Err(table_error(table.span, reason));
        }
        match &alter.action {
            AlterAction::AddColumn { column, before } => {
                self.add_column(parsed, table, column, before.as_ref())
            }
            AlterAction::AddConstraint(constraint) => match table_key(parsed, constraint)? {
                Some(key) => self.add_key(table, &key),
                None => Ok(()),
            },
            AlterAction::DropColumn { column, cascade } => {
                self.drop_column(parsed, table, column, *cascade)
            }
            AlterAction::DropConstraint(name) => self.drop_constraint(table, name),
            AlterAction::DropPrimaryKey => self.drop_primary_key(table, alter.span),
            AlterAction::RedefineColumn { column, .. } => {
                self.redefine_column(parsed, table, column)
            }
            AlterAction::ChangeColumn { column, change } => {
                self.change_column(table, column, change)
            }
            AlterAction::RenameColumn { .. } if begins_with_rename(parsed, alter.span) => {
                Err(table_error(alter.span, "unexpected token: COLUMN required: TO"))
            }
            AlterAction::RenameTo(_) | AlterAction::RenameColumn { .. } => Err(PlanError::at(
                alter.span,
                format!(
                    "AdHoc DDL ALTER/RENAME is not yet supported, in statement: {}",
                    parsed.text
                ),
            )),
            AlterAction::AddTtl(ttl) => self.add_ttl(table, ttl),
            AlterAction::AlterTtl(ttl) => self.set_ttl(table, ttl),
            AlterAction::DropTtl => self.drop_ttl(table, alter.span),
            AlterAction::AlterExport(_) => Err(not_supported(alter.span, "EXPORT clauses")),
            AlterAction::AddLimitRows(limit) => self.add_row_limit(table, limit),
            AlterAction::DropLimitRows => self.drop_row_limit(table, alter.span),
        }
    }

    /// The place of a column, or `object not found`.
    fn find_column(&self, table: &Name, column: &Name) -> Result<usize, PlanError> {
        let columns = &self.find_table(table)?.definition.columns;
        columns.iter().position(|c| c.name == column.text).ok_or_else(|| {
            let names = columns.iter().map(|c| c.name.as_str());
            let reason = not_found_message(&column.text, &column.text, names);
            table_error(column.span, reason)
        })
    }

    /// Where the columns of a table come from, to be changed along with them.
    fn sources_of(&mut self, table: &Name) -> Result<&mut Vec<ColumnSource>, PlanError> {
        let definition = &self.find_table(table)?.definition;
        let (id, count) = (definition.id, definition.columns.len() as u16);
        let sources = self.columns.entry(id);
        Ok(sources.or_insert_with(|| (0..count).map(ColumnSource::Old).collect()))
    }

    /// Makes the change depend on the table being empty, if it is in force at all.
    fn require_empty(&mut self, table: &Name, reason: &str) -> Result<(), PlanError> {
        let id = self.find_table(table)?.definition.id;
        if self.old.tables.values().any(|old| old.definition.id == id) {
            let message = live_change_error(reason);
            self.require_empty.push(StorageChange::RequireEmpty { table: id, message });
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        parsed: &ParsedStatement,
        table: &Name,
        declared: &ast::ColumnDefinition,
        before: Option<&Name>,
    ) -> Result<(), PlanError> {
        let definition = column::define(&table.text, declared)?;
        if self.find_column(table, &declared.name).is_ok() {
            return Err(table_error_in(parsed, "object name already exists"));
        }
        let place = match before {
            Some(before) => self.find_column(table, before)?,
            None => self.find_table(table)?.definition.columns.len(),
        };
        let keys = column_keys(parsed, declared)?;
        let source = match &definition.default {
            DefaultValue::Constant(value) => ColumnSource::Constant(value.clone()),
            DefaultValue::Now => ColumnSource::Now,
            DefaultValue::None => ColumnSource::Constant(Value::Null),
        };
        if definition.default == DefaultValue::None && !definition.nullable {
            self.require_empty(
                table,
                &format!(
                    "Unable to add NOT NULL column {} because table {} is not empty and no \
                     default value was specified.",
                    definition.name, table.text
                ),
            )?;
        }
        self.sources_of(table)?.insert(place, source);
        self.edit_columns(table, |columns, partition| {
            columns.insert(place, definition);
            for column in partition.iter_mut().filter(|column| usize::from(**column) >= place) {
                *column += 1;
            }
        })?;
        keys.iter().try_for_each(|key| self.add_key(table, key))
    }

    /// Changes a table's columns, and what names them by their places.
    fn edit_columns(
        &mut self,
        table: &Name,
        edit: impl FnOnce(&mut Vec<ColumnDefinition>, &mut Vec<u16>),
    ) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        let definition = Arc::make_mut(&mut entry.definition);
        edit(&mut definition.columns, &mut definition.partition_columns);
        definition.visible_columns = definition.columns.len() as u16;
        column::check_width(&table.text, &definition.columns)?;
        // Hidden indexes name old places; they are made again with the views.
        definition.indexes.retain(|index| !index.hidden);
        definition.dependent_views.clear();
        bind_again(entry)
    }

    fn drop_column(
        &mut self,
        parsed: &ParsedStatement,
        table: &Name,
        column: &Name,
        cascade: bool,
    ) -> Result<(), PlanError> {
        let place = self.find_column(table, column)?;
        let definition = &self.find_table(table)?.definition;
        if definition.columns.len() == 1 {
            let reason = format!("column {} is the only one of its table", column.text);
            return Err(table_error(column.span, reason));
        }
        if definition.places_by(place) {
            // Without it nothing says where a row belongs: the table is replicated from here on.
            self.set_partitioning(table, Vec::new())?;
        }
        self.check_ttl_keeps(table, column)?;
        for index in self.global_indexes_of_column(table, &column.text) {
            if !cascade {
                let reason = format!("column is referenced in: PUBLIC.{index}");
                return Err(table_error_in(parsed, &reason));
            }
            self.drop_global_index(&index);
        }
        // Earlier statements of the batch may have moved the columns that views read.
        self.bind_views_again()?;
        self.drop_views_of_column(parsed, table, place, cascade)?;
        self.drop_indexes_of_column(parsed, table, place, cascade)?;
        self.sources_of(table)?.remove(place);
        self.edit_columns(table, |columns, partition| {
            columns.remove(place);
            for column in partition.iter_mut().filter(|column| usize::from(**column) > place) {
                *column -= 1;
            }
        })
    }

    /// Views that read a column go with it, or keep it.
    fn drop_views_of_column(
        &mut self,
        parsed: &ParsedStatement,
        table: &Name,
        place: usize,
        cascade: bool,
    ) -> Result<(), PlanError> {
        let id = self.find_table(table)?.definition.id;
        for view in self.dependent_views(table.as_str()) {
            let definition = &self.catalog.tables[&view].definition;
            let reads = definition.view.as_ref().is_none_or(|upkeep| {
                let slot = match &upkeep.joined {
                    Some(joined) => joined.sources.iter().position(|source| *source == id),
                    None => Some(0),
                };
                let slot = slot.unwrap_or_default() as u16;
                let arguments = upkeep.aggregates.iter().filter_map(|a| a.argument.as_ref());
                let mut all = upkeep.group.iter().chain(arguments).chain(&upkeep.predicate);
                all.any(|value| reads_column(value, slot, place))
            });
            if reads && !cascade {
                let reason = format!("column is referenced in: PUBLIC.{view}");
                return Err(table_error_in(parsed, &reason));
            }
            if reads {
                self.catalog.tables.remove(&view);
            }
        }
        Ok(())
    }

    /// Indexes over nothing but the column go with it; others keep it unless CASCADE is said.
    fn drop_indexes_of_column(
        &mut self,
        parsed: &ParsedStatement,
        table: &Name,
        place: usize,
        cascade: bool,
    ) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        for index in (0..entry.definition.indexes.len()).rev() {
            let definition = &entry.definition.indexes[index];
            if definition.hidden || !index_reads(definition, place) {
                continue;
            }
            let alone = definition.keys == [IndexKey::Column(place as u16)];
            if !cascade && !alone {
                let name = definition.constraint.as_ref().unwrap_or(&definition.name);
                let reason = format!("column is referenced in: PUBLIC.{name}");
                return Err(table_error_in(parsed, &reason));
            }
            index::remove(entry, index);
        }
        Ok(())
    }

    fn drop_constraint(&mut self, table: &Name, name: &Name) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        let mut indexes = entry.definition.indexes.iter();
        match indexes.position(|index| index.constraint.as_deref() == Some(name.as_str())) {
            Some(place) => {
                index::remove(entry, place);
                Ok(())
            }
            None if row_limit::is_named(entry, name) => self.drop_row_limit(table, name.span),
            None => Err(table_error(name.span, format!("object not found: {}", name.text))),
        }
    }

    fn drop_primary_key(&mut self, table: &Name, span: ast::Span) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        match entry.definition.primary_key {
            Some(key) => {
                index::remove(entry, key.index());
                Ok(())
            }
            None => Err(table_error(span, "object not found: PRIMARY KEY")),
        }
    }

    fn redefine_column(
        &mut self,
        parsed: &ParsedStatement,
        table: &Name,
        declared: &ast::ColumnDefinition,
    ) -> Result<(), PlanError> {
        let place = self.find_column(table, &declared.name)?;
        let mut new = column::define(&table.text, declared)?;
        let definition = &self.find_table(table)?.definition;
        let old = &definition.columns[place];
        let in_key = definition.primary_key.is_some_and(|key| {
            definition.indexes[key.index()].keys.contains(&IndexKey::Column(place as u16))
        });
        // A key whose column is NOT NULL stays so, whatever else of the column changes.
        new.nullable &= old.nullable || !in_key;
        let partitioning = definition.places_by(place);
        let (from, to) = (old.sql_type, new.sql_type);
        let moves = partitioning && !(from == to || (from.is_integer() && to.is_integer()));
        if moves || !keeps_values(old, &new) {
            let reason = format!(
                "Unable to make a possibly-lossy type change to column {} in table {} because it \
                 is not empty.",
                new.name, table.text
            );
            self.require_empty(table, &reason)?;
        }
        self.sources_of(table)?;
        let keys = column_keys(parsed, declared)?;
        self.edit_columns(table, |columns, _| columns[place] = new)?;
        keys.iter().try_for_each(|key| self.add_key(table, key))
    }

    fn change_column(
        &mut self,
        table: &Name,
        name: &Name,
        change: &ColumnChange,
    ) -> Result<(), PlanError> {
        let place = self.find_column(table, name)?;
        let definition = &self.find_table(table)?.definition;
        let mut column = definition.columns[place].clone();
        match change {
            ColumnChange::SetDefault(value) => {
                column.default = column::default_value(&column, value)?;
            }
            ColumnChange::SetNotNull => column.nullable = false,
            ColumnChange::SetNull => {
                let key = definition.primary_key.map(|key| &definition.indexes[key.index()]);
                if !column.nullable && key.is_some_and(|key| index_reads(key, place)) {
                    let reason = format!("column is in the primary key: {}", name.text);
                    return Err(table_error(name.span, reason));
                }
                column.nullable = true;
            }
        }
        let entry = self.find_table_mut(table)?;
        Arc::make_mut(&mut entry.definition).columns[place] = column;
        Ok(())
    }
}

/// Whether a clause is `RENAME COLUMN c TO d`, which VoltDB does not know, instead of
/// `ALTER COLUMN c RENAME TO d`, which it knows and refuses.
fn begins_with_rename(parsed: &ParsedStatement, clause: ast::Span) -> bool {
    let start = clause.offset.saturating_sub(parsed.span.offset) as usize;
    let text = parsed.text.get(start..).unwrap_or_default();
    text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("RENAME"))
}

/// Whether every value that a column may hold is the same value in its new definition.
fn keeps_values(old: &ColumnDefinition, new: &ColumnDefinition) -> bool {
    let (from, to) = (old.sql_type, new.sql_type);
    if let (Some((_, old_greatest)), Some((_, new_greatest))) =
        (from.integer_range(), to.integer_range())
    {
        return old_greatest <= new_greatest;
    }
    match (from, to) {
        (SqlType::TinyInt | SqlType::SmallInt | SqlType::Integer, SqlType::Float) => true,
        (_, SqlType::Decimal) if from.is_integer() => true,
        (SqlType::Varchar, SqlType::Varchar) => match (old.length_in_bytes, new.length_in_bytes) {
            (false, true) => new.length >= old.max_bytes(),
            _ => new.length >= old.length,
        },
        (SqlType::Varbinary, SqlType::Varbinary) => new.length >= old.length,
        _ => from == to,
    }
}

/// Whether an expression reads a column of the row in a slot.
fn reads_column(expression: &Expression, slot: u16, place: usize) -> bool {
    let wanted = Node::Column { slot, column: place as u16 };
    let mut found = false;
    walk(expression, &mut |part| found |= part.node == wanted);
    found
}

fn index_reads(index: &IndexDefinition, place: usize) -> bool {
    let in_keys = index.keys.iter().any(|key| match key {
        IndexKey::Column(column) => usize::from(*column) == place,
        IndexKey::Expression(expression) => reads_column(expression, 0, place),
    });
    in_keys || index.predicate.as_ref().is_some_and(|predicate| reads_column(predicate, 0, place))
}
