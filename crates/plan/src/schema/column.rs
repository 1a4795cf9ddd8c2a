//! Columns: declared types, lengths and defaults.

use crate::error::PlanError;
use crate::query::{bind_default, sql_type_of};
use lockstep_plan_ir::ColumnDefinition;
use lockstep_plan_ir::schema::DefaultValue;
use lockstep_sql::ast::{self, ColumnConstraintKind, DataType, Expression, LengthUnit};
use lockstep_types::geography::{DEFAULT_GEOGRAPHY_BYTES, MIN_GEOGRAPHY_BYTES};
use lockstep_types::sql_type::{MAX_VALUE_BYTES, MAX_VALUE_CHARACTERS};
use lockstep_types::table::MAX_ROW_BYTES;
use lockstep_types::{SqlType, Value};

use super::message::table_error;

/// Most columns of a table.
const MAX_COLUMNS: usize = 1024;
/// The length of VARCHAR and VARBINARY columns that declare none.
const DEFAULT_LENGTH: u32 = 2048;

/// A column's definition from its declaration; `owner` is the table, for messages.
pub(super) fn define(
    owner: &str,
    column: &ast::ColumnDefinition,
) -> Result<ColumnDefinition, PlanError> {
    super::unquoted(&column.name)?;
    let (sql_type, length, length_in_bytes) = declared_type(owner, column)?;
    let nullable = !column.constraints.iter().any(|constraint| {
        matches!(constraint.kind, ColumnConstraintKind::NotNull | ColumnConstraintKind::Identity)
    });
    let mut definition = ColumnDefinition {
        name: column.name.text.clone(),
        sql_type,
        length,
        length_in_bytes,
        nullable,
        default: DefaultValue::None,
    };
    if let Some(default) = &column.default {
        definition.default = default_value(&definition, default)?;
    }
    Ok(definition)
}

/// Type, length and whether the length counts bytes.
fn declared_type(
    owner: &str,
    column: &ast::ColumnDefinition,
) -> Result<(SqlType, u32, bool), PlanError> {
    let DataType { name, length, unit, span } = column.data_type;
    let sql_type = sql_type_of(name);
    if !sql_type.is_variable_length() {
        return Ok((sql_type, 0, false));
    }
    let geography = sql_type == SqlType::Geography;
    let length = match length {
        None if geography => DEFAULT_GEOGRAPHY_BYTES,
        None => DEFAULT_LENGTH,
        Some(length) if geography && length < u64::from(MIN_GEOGRAPHY_BYTES) => {
            return Err(PlanError::at(
                span,
                format!(
                    "{sql_type} column {} in table {owner} has length of {length} which is shorter \
                     than {MIN_GEOGRAPHY_BYTES}, the minimum allowed length for the type.",
                    column.name.text
                ),
            ));
        }
        Some(0) => return Err(table_error(span, "precision or scale out of range")),
        Some(length) if length > u64::from(MAX_VALUE_BYTES) => {
            return Err(PlanError::at(
                span,
                format!(
                    "{sql_type} column size for column {owner}.{} is > {MAX_VALUE_BYTES} char \
                     maximum.",
                    column.name.text
                ),
            ));
        }
        Some(length) => length as u32,
    };
    // More characters than fit are taken for bytes.
    let in_bytes = sql_type == SqlType::Varchar
        && (unit == LengthUnit::Bytes || length > MAX_VALUE_CHARACTERS);
    Ok((sql_type, length, in_bytes))
}

/// Refuses tables and views with too many columns.
pub(super) fn check_count(table: &str, columns: &[ColumnDefinition]) -> Result<(), PlanError> {
    match columns.len() > MAX_COLUMNS {
        true => Err(PlanError::new(format!(
            "Table {table} has {} columns (max is {MAX_COLUMNS})",
            columns.len()
        ))),
        false => Ok(()),
    }
}

/// Refuses tables with too many columns or too wide rows.
pub(super) fn check_width(table: &str, columns: &[ColumnDefinition]) -> Result<(), PlanError> {
    check_count(table, columns)?;
    let bytes: usize = columns
        .iter()
        .map(|column| match column.sql_type.fixed_bytes() {
            Some(bytes) => bytes,
            None => 4 + column.max_bytes() as usize,
        })
        .sum();
    if bytes > MAX_ROW_BYTES {
        return Err(PlanError::new(format!(
            "Error: Table {table} has a maximum row size of {bytes} but the maximum supported \
             row size is {MAX_ROW_BYTES}"
        )));
    }
    Ok(())
}

/// The value of a DEFAULT clause for a column.
pub(super) fn default_value(
    column: &ColumnDefinition,
    default: &Expression,
) -> Result<DefaultValue, PlanError> {
    let value = bind_default(column.sql_type, default)
        .map_err(|error| table_error(default.span, error.message))?;
    match value {
        DefaultValue::Constant(Value::Null) => Ok(DefaultValue::None),
        DefaultValue::Constant(value) => match holds(column, &value) {
            Ok(()) => Ok(DefaultValue::Constant(value)),
            Err(reason) => Err(table_error(default.span, reason)),
        },
        other => Ok(other),
    }
}

/// Whether a value of the column's type is within its range or length.
fn holds(column: &ColumnDefinition, value: &Value) -> Result<(), &'static str> {
    const OUT_OF_RANGE: &str = "data exception: numeric value out of range";
    const TOO_LONG: &str = "data exception: string data, right truncation";
    let length = match (value, column.sql_type.integer_range()) {
        (Value::Int(value), Some((low, high))) => {
            return if (low..=high).contains(value) { Ok(()) } else { Err(OUT_OF_RANGE) };
        }
        (Value::Float(value), _) if !value.is_finite() => return Err(OUT_OF_RANGE),
        (Value::Text(text), _) if column.length_in_bytes => text.len(),
        (Value::Text(text), _) => text.chars().count(),
        (Value::Bytes(bytes), _) => bytes.len(),
        _ => return Ok(()),
    };
    if length <= column.length as usize { Ok(()) } else { Err(TOO_LONG) }
}
