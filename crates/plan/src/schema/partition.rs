//! PARTITION TABLE and REPLICATE TABLE.

use crate::error::PlanError;
use lockstep_plan_ir::{StorageChange, TableDefinition};
use lockstep_sql::ast::{
    CreateProcedure, Name, ParsedStatement, PartitionTable, ProcedureBody, ProcedurePartition, Span,
};
use lockstep_types::SqlType;
use lockstep_types::hashing::MAX_KEY_PARTS;
use std::sync::Arc;

use super::Draft;
use super::message::{ddl_error, live_change_error};

impl Draft<'_> {
    pub(super) fn partition_table(
        &mut self,
        _parsed: &ParsedStatement,
        partition: &PartitionTable,
    ) -> Result<(), PlanError> {
        let mut places = Vec::with_capacity(partition.columns.len());
        for column in &partition.columns {
            let place = self.partition_column(&partition.table, column)?;
            if places.contains(&place) {
                let reason = format!("partitioning column {} is named twice", column.text);
                return Err(ddl_error(column.span, reason));
            }
            places.push(place);
        }
        if places.len() > MAX_KEY_PARTS {
            let reason = format!(
                "table {} is partitioned by {} columns (max is {MAX_KEY_PARTS})",
                partition.table.text,
                places.len()
            );
            return Err(ddl_error(partition.table.span, reason));
        }
        self.set_partitioning(&partition.table, places)
    }

    pub(super) fn replicate_table(&mut self, table: &Name) -> Result<(), PlanError> {
        self.partition_target(table)?;
        self.set_partitioning(table, Vec::new())
    }

    /// Refuses what cannot be partitioned at all.
    fn partition_target(&self, table: &Name) -> Result<(), PlanError> {
        match self.catalog.tables.get(table.as_str()) {
            None => Err(ddl_error(
                table.span,
                format!("Invalid PARTITION statement: table {} does not exist", table.text),
            )),
            Some(found) if found.definition.entries_of.is_some() => Err(self.unknown_table(table)),
            Some(found) if found.definition.view.is_some() => Err(PlanError::at(
                table.span,
                format!(
                    "In database, the materialized view is automatically partitioned based on its \
                     source table. Invalid PARTITION statement on view table {}.",
                    table.text
                ),
            )),
            Some(_) => Ok(()),
        }
    }

    /// The place of a column that may decide the partition.
    fn partition_column(&self, table: &Name, column: &Name) -> Result<u16, PlanError> {
        self.partition_target(table)?;
        let definition = &self.find_table(table)?.definition;
        let wrong = |reason: String| Err(PlanError::at(column.span, reason));
        let lower = column.text.to_ascii_lowercase();
        let Some(place) = definition.columns.iter().position(|c| c.name == column.text) else {
            return wrong(format!("In database, PARTITION has unknown COLUMN '{lower}'"));
        };
        check_partition_column(definition, place, Some(column.span))?;
        Ok(place as u16)
    }

    /// Partitions a table by columns, or replicates it if there are none.
    pub(super) fn set_partitioning(
        &mut self,
        name: &Name,
        columns: Vec<u16>,
    ) -> Result<(), PlanError> {
        let table = self.find_table_mut(name)?;
        if table.definition.partition_columns == columns {
            return Ok(());
        }
        let was_partitioned = table.definition.is_partitioned();
        let is_partitioned = !columns.is_empty();
        let definition = Arc::make_mut(&mut table.definition);
        definition.partition_columns = columns;
        let id = definition.id;
        // Rows would have to move; as in VoltDB there must be none.
        if self.old.tables.values().any(|table| table.definition.id == id) {
            let what = match was_partitioned && is_partitioned {
                true => format!("change the partition column of table {}", name.text),
                false => format!("change whether table {} is replicated", name.text),
            };
            let reason = format!("Unable to {what} because the table is not empty.");
            let message = live_change_error(&reason);
            self.require_empty.push(StorageChange::RequireEmpty { table: id, message });
        }
        Ok(())
    }
}

/// Whether values of a type place rows.
pub(crate) fn may_partition(sql_type: SqlType) -> bool {
    sql_type.is_integer() || matches!(sql_type, SqlType::Varchar | SqlType::Varbinary)
}

/// Whether a parameter's values hash as the column's do.
pub(crate) fn routes(parameter: SqlType, column: SqlType) -> bool {
    may_partition(parameter)
        && (parameter == column || (parameter.is_integer() && column.is_integer()))
}

/// Whether a call can be routed by a parameter of the type: calls convert what they were given
/// to the column's type, and hash integers as they are.
pub(super) fn routes_converted(parameter: SqlType, column: SqlType) -> bool {
    routes(parameter, column)
        || match column {
            SqlType::Varchar => {
                may_partition(parameter) || matches!(parameter, SqlType::Float | SqlType::Timestamp)
            }
            SqlType::Varbinary => parameter == SqlType::Varchar || parameter.is_integer(),
            _ => column.is_integer() && matches!(parameter, SqlType::Varchar | SqlType::Decimal),
        }
}

/// Whether the type of the parameter that routes calls need only convert to the column's.
pub(super) fn converts(create: &CreateProcedure) -> bool {
    let single = |column: &ProcedurePartition| column.columns.len() == 1 && column.via.is_none();
    matches!(create.body, ProcedureBody::Statements(_)) && create.partitions.iter().all(single)
}

/// Refuses columns that may not decide the partition of a row.
pub(super) fn check_partition_column(
    table: &TableDefinition,
    place: usize,
    span: Option<Span>,
) -> Result<(), PlanError> {
    let column = &table.columns[place];
    let name = format!("{}.{}", table.name, column.name.to_ascii_lowercase());
    let reason = if column.nullable {
        "is nullable. Partition columns must be constrained \"NOT NULL\"."
    } else if !may_partition(column.sql_type) {
        "is not a valid type. Partition columns must be an integer, varchar or varbinary type."
    } else {
        return Ok(());
    };
    let message = format!("In database, Partition column '{name}' {reason}");
    Err(PlanError { message, span })
}
