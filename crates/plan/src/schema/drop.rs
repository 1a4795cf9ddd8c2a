//! DROP of every kind of object.

use crate::error::PlanError;
use crate::query::not_found_message;
use lockstep_sql::ast::{Drop, ObjectKind, ParsedStatement, Statement};
use std::sync::Arc;

use super::message::{ddl_error, not_supported, table_error, table_error_in};
use super::{Draft, index, procedure};

impl Draft<'_> {
    pub(super) fn drop_object(
        &mut self,
        parsed: &ParsedStatement,
        drop: &Drop,
    ) -> Result<(), PlanError> {
        match drop.kind {
            // VoltDB's DROP TABLE takes views too.
            ObjectKind::Table | ObjectKind::View => self.drop_table(parsed, drop),
            ObjectKind::Index => self.drop_index(parsed, drop),
            ObjectKind::Procedure => self.drop_procedure(parsed, drop),
            ObjectKind::Role => self.drop_role(drop),
            ObjectKind::Stream if drop.if_exists => Ok(()),
            ObjectKind::Stream => {
                Err(table_error_in(parsed, &format!("object not found: {}", drop.name.text)))
            }
            ObjectKind::Function | ObjectKind::AggregateFunction => self.drop_function(drop),
            ObjectKind::Task => self.drop_task(drop),
        }
    }

    fn drop_table(&mut self, parsed: &ParsedStatement, drop: &Drop) -> Result<(), PlanError> {
        let name = drop.name.text.as_str();
        let found = self.catalog.tables.get(name);
        let found = found.filter(|table| table.definition.entries_of.is_none());
        let is_view = found.is_some_and(|table| table.definition.view.is_some());
        if found.is_none() || (drop.kind == ObjectKind::View && !is_view) {
            return match drop.if_exists {
                true => Ok(()),
                false => {
                    let tables = self.catalog.visible_names();
                    Err(table_error_in(parsed, &not_found_message(name, name, tables)))
                }
            };
        }
        let dependents = self.dependent_views(name);
        if let (Some(view), false) = (dependents.first(), drop.cascade) {
            let reason = format!("dependent objects exist: PUBLIC.{view}");
            return Err(table_error_in(parsed, &reason));
        }
        for view in dependents {
            self.catalog.tables.remove(&view);
        }
        self.drop_entries_of(name);
        self.catalog.tables.remove(name);
        Ok(())
    }

    /// The views that read a table or view, in name order.
    pub(super) fn dependent_views(&self, name: &str) -> Vec<String> {
        self.catalog
            .tables
            .iter()
            .filter(|(_, table)| {
                let sources = table.view_source.as_ref().map(|(sources, _)| sources);
                sources.is_some_and(|sources| sources.iter().any(|source| source == name))
            })
            .map(|(view, _)| view.clone())
            .collect()
    }

    fn drop_index(&mut self, parsed: &ParsedStatement, drop: &Drop) -> Result<(), PlanError> {
        let name = drop.name.text.as_str();
        if self.drop_global_index(name) {
            return Ok(());
        }
        let place = self.catalog.tables.iter().find_map(|(table, entry)| {
            let mut indexes = entry.definition.indexes.iter();
            let place = indexes.position(|index| index.name == name && !index.hidden)?;
            Some((table.clone(), place))
        });
        let Some((table, place)) = place else {
            return match drop.if_exists {
                true => Ok(()),
                false => Err(table_error_in(parsed, &format!("object not found: {name}"))),
            };
        };
        let definition = &self.catalog.tables[&table].definition;
        let is_group_index = definition.view.is_some() && definition.indexes[place].unique;
        if definition.indexes[place].constraint.is_some() || is_group_index {
            let reason = format!("index {name} belongs to a constraint, which must be dropped");
            return Err(table_error(drop.name.span, reason));
        }
        if let Some(entry) = self.catalog.tables.get_mut(&table) {
            index::remove(Arc::make_mut(entry), place);
        }
        Ok(())
    }

    fn drop_procedure(&mut self, parsed: &ParsedStatement, drop: &Drop) -> Result<(), PlanError> {
        let name = drop.name.text.as_str();
        if self.catalog.sources.remove(name).is_some() {
            self.catalog.procedures.remove(name);
            return Ok(());
        }
        if procedure::is_generated_name(&self.catalog, name) {
            let reason = format!("Procedure \"{name}\" is generated for its table");
            return Err(not_supported(parsed.span, &format!("{reason}; such drops")));
        }
        match drop.if_exists {
            true => Ok(()),
            false => Err(ddl_error(
                drop.name.span,
                format!("Dropped Procedure \"{name}\" is not defined"),
            )),
        }
    }

    fn drop_role(&mut self, drop: &Drop) -> Result<(), PlanError> {
        let name = drop.name.text.to_ascii_uppercase();
        if matches!(name.as_str(), "ADMINISTRATOR" | "USER") {
            return Err(ddl_error(
                drop.name.span,
                format!("You may not drop the built-in role \"{}\".", drop.name.text),
            ));
        }
        let allowed = self.catalog.sources.iter().find(|(_, source)| match &source.statement {
            Statement::CreateProcedure(create) => {
                create.allow.iter().any(|role| role.text.eq_ignore_ascii_case(&name))
            }
            _ => false,
        });
        if let Some((procedure, _)) = allowed {
            return Err(ddl_error(
                drop.name.span,
                format!("Role \"{name}\" is allowed by procedure {procedure}, drop that first."),
            ));
        }
        match (self.catalog.roles.remove(&name).is_some(), drop.if_exists) {
            (true, _) | (false, true) => Ok(()),
            (false, false) => Err(ddl_error(
                drop.name.span,
                format!("Role name \"{}\" in DROP ROLE statement does not exist.", drop.name.text),
            )),
        }
    }
}
