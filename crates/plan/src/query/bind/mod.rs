//! Name and type binding: syntax trees to typed expressions over slots.

pub(crate) mod view;

use crate::error::PlanError;
use lockstep_plan_ir::schema::DefaultValue;
use lockstep_plan_ir::{Expression, TableDefinition};
use lockstep_sql::ast;
use lockstep_types::SqlType;

/// Binds an expression over one table, whose row is in slot 0: index keys, index predicates.
/// No parameters, subqueries or aggregates. A condition gets the type BOOLEAN.
///
/// # Errors
/// Unknown columns, wrong types.
pub(crate) fn bind_table_expression(
    table: &TableDefinition,
    expression: &ast::Expression,
) -> Result<Expression, PlanError> {
    let _ = table;
    Err(PlanError::at(expression.span, "expressions are not bound yet"))
}

/// Binds a column's DEFAULT: a literal, with a sign or not, brought to the column's type
/// (not checked against its range and length), NULL, or NOW.
///
/// # Errors
/// What is no constant, or none of that type.
pub(crate) fn bind_default(
    sql_type: SqlType,
    expression: &ast::Expression,
) -> Result<DefaultValue, PlanError> {
    let _ = sql_type;
    Err(PlanError::at(expression.span, "defaults are not bound yet"))
}
