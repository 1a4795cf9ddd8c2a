//! USING TTL in CREATE TABLE and ALTER TABLE.
//!
//! What was declared stands with the table ([`TimeToLive`]). At the end of a batch it is held
//! against the tables as they will be: so the statements of a batch may come in any order.

use crate::catalog::CatalogTable;
use crate::error::PlanError;
use crate::time_to_live::TimeToLive;
use lockstep_sql::ast::{Name, Span, TtlClause};
use lockstep_types::SqlType;
use std::sync::Arc;

use super::Draft;
use super::message::table_error;

impl Draft<'_> {
    /// ADD USING TTL.
    pub(super) fn add_ttl(&mut self, table: &Name, clause: &TtlClause) -> Result<(), PlanError> {
        if self.find_table(table)?.time_to_live.is_some() {
            return Err(table_error(clause.span, "object name already exists"));
        }
        self.set_ttl(table, clause)
    }

    /// Of a new table, or ALTER USING TTL, which declares again whatever there is.
    pub(super) fn set_ttl(&mut self, table: &Name, clause: &TtlClause) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        let time_to_live = TimeToLive {
            value: number(clause, "USING TTL", clause.value)?,
            unit: clause.unit,
            column: clause.column.text.clone(),
            batch_size: match clause.batch_size {
                Some(rows) => number(clause, "BATCH_SIZE", rows)?,
                None => TimeToLive::BATCH_SIZE,
            },
            max_frequency: match clause.max_frequency {
                Some(times) => number(clause, "MAX_FREQUENCY", times)?,
                None => TimeToLive::MAX_FREQUENCY,
            },
        };
        check_column(entry, &time_to_live, clause.column.span)?;
        entry.time_to_live = Some(Arc::new(time_to_live));
        Ok(())
    }

    /// DROP TTL.
    pub(super) fn drop_ttl(&mut self, table: &Name, span: Span) -> Result<(), PlanError> {
        let entry = self.find_table_mut(table)?;
        match entry.time_to_live.take() {
            Some(_) => Ok(()),
            None => Err(table_error(span, "object not found")),
        }
    }

    /// Refuses to drop the column with the rows' times.
    pub(super) fn check_ttl_keeps(&self, table: &Name, column: &Name) -> Result<(), PlanError> {
        let time_to_live = &self.find_table(table)?.time_to_live;
        match time_to_live.as_ref().is_some_and(|ttl| ttl.column == column.text) {
            true => Err(table_error(column.span, "Columns used by TTL cannot be dropped.")),
            false => Ok(()),
        }
    }

    /// Holds what was declared against the tables as they will be.
    pub(super) fn check_ttls(&self) -> Result<(), PlanError> {
        self.catalog.tables.values().try_for_each(|table| match &table.time_to_live {
            Some(time_to_live) => check_column(table, time_to_live, Span::default()),
            None => Ok(()),
        })
    }

    /// What there is to say, new with this change, of tables whose rows stay for want of an index.
    pub(super) fn ttl_advice(&self) -> impl Iterator<Item = String> {
        self.catalog.tables.iter().filter_map(|(name, table)| {
            let advice = missing_index(table)?;
            let before = self.old.tables.get(name).and_then(|old| missing_index(old));
            (before.as_ref() != Some(&advice)).then_some(advice)
        })
    }
}

fn number(clause: &TtlClause, what: &str, given: u64) -> Result<u32, PlanError> {
    let max = TimeToLive::MAX_NUMBER;
    let fits = u32::try_from(given).ok().filter(|number| *number <= max);
    fits.ok_or_else(|| table_error(clause.span, format!("{what} {given} (max is {max})")))
}

/// The column must be there, and every row must have a time.
fn check_column(
    table: &CatalogTable,
    time_to_live: &TimeToLive,
    span: Span,
) -> Result<(), PlanError> {
    let (columns, table) = (&table.definition.columns, &table.definition.name);
    let name = &time_to_live.column;
    let refused = |message: String| Err(PlanError::at(span, message));
    match columns.iter().find(|column| column.name == *name) {
        None => Err(table_error(span, format!("object not found: {name}"))),
        Some(column) if column.nullable => {
            refused(format!("Column '{table}.{name}' cannot be nullable for TTL."))
        }
        Some(column) if column.sql_type != SqlType::Timestamp => {
            refused(format!("TTL column '{table}.{name}' must be of type TIMESTAMP"))
        }
        Some(_) => Ok(()),
    }
}

fn missing_index(table: &CatalogTable) -> Option<String> {
    let time_to_live = table.time_to_live.as_ref()?;
    if time_to_live.index(&table.definition).is_some() {
        return None;
    }
    let (name, column) = (&table.definition.name, &time_to_live.column);
    Some(format!(
        "USING TTL of table {name} deletes nothing: no index without a condition begins with \
         column {column}, to find the rows whose time is over. Create one: CREATE INDEX \
         {name}_{column} ON {name} ({column});"
    ))
}
