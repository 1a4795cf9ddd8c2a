//! LIMIT PARTITION ROWS, with what makes room: for schemas of older releases.

use crate::catalog::CatalogTable;
use crate::error::PlanError;
use crate::query::plan_purge;
use lockstep_plan_ir::schema::RowLimitPurge;
use lockstep_sql::ast::{LimitPartitionRows, Name, Span};
use std::sync::Arc;

use super::Draft;
use super::message::table_error;

/// The limit as sites know it.
pub(super) fn rows(limit: &LimitPartitionRows) -> Result<u32, PlanError> {
    u32::try_from(limit.rows).map_err(|_| {
        let reason = format!("LIMIT PARTITION ROWS {} (max is {})", limit.rows, u32::MAX);
        table_error(limit.span, reason)
    })
}

/// Whether a table's limit was given this name by CONSTRAINT.
pub(super) fn is_named(table: &CatalogTable, name: &Name) -> bool {
    let source = table.row_limit_source.as_ref();
    source.and_then(|source| source.name.as_ref()).is_some_and(|known| known.text == name.text)
}

impl Draft<'_> {
    pub(super) fn add_row_limit(
        &mut self,
        table: &Name,
        limit: &LimitPartitionRows,
    ) -> Result<(), PlanError> {
        let rows = rows(limit)?;
        let entry = self.find_table_mut(table)?;
        entry.row_limit_source = Some(Arc::new(limit.clone()));
        Arc::make_mut(&mut entry.definition).row_limit = Some(rows);
        Ok(())
    }

    pub(super) fn drop_row_limit(&mut self, table: &Name, span: Span) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        if entry.row_limit_source.take().is_none() {
            return Err(table_error(span, "object not found: LIMIT PARTITION ROWS"));
        }
        let definition = Arc::make_mut(&mut entry.definition);
        definition.row_limit = None;
        definition.row_limit_purge = None;
        Ok(())
    }

    /// Plans what makes room, against the tables as they will be.
    pub(super) fn plan_row_limits(&mut self) -> Result<(), PlanError> {
        let limited = self.catalog.tables.iter().filter_map(|(name, table)| {
            table.row_limit_source.clone().map(|source| (name.clone(), source))
        });
        let limited: Vec<(String, Arc<LimitPartitionRows>)> = limited.collect();
        for (name, source) in limited {
            let purge = self.purge(&name, &source)?.map(Arc::new);
            let Some(entry) = self.catalog.tables.get_mut(&name) else { continue };
            if entry.definition.row_limit_purge != purge {
                let entry = Arc::make_mut(entry);
                Arc::make_mut(&mut entry.definition).row_limit_purge = purge;
            }
        }
        Ok(())
    }

    fn purge(
        &self,
        table: &str,
        limit: &LimitPartitionRows,
    ) -> Result<Option<RowLimitPurge>, PlanError> {
        let Some(delete) = &limit.execute else { return Ok(None) };
        let wrong = |reason: &str| {
            let reason = format!(
                "Table {table} has invalid DELETE statement for LIMIT PARTITION ROWS constraint: \
                 {reason}"
            );
            table_error(limit.span, reason)
        };
        if delete.table.as_str() != table {
            return Err(wrong(&format!("target of DELETE is not {table}")));
        }
        let (delete, slot_count) =
            plan_purge(&self.catalog, delete).map_err(|error| wrong(&error.message))?;
        Ok(Some(RowLimitPurge { text: limit.execute_text.clone(), delete, slot_count }))
    }
}
