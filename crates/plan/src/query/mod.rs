//! Queries and DML: binding, optimization, partition inference, fragments.

mod bind;
mod logical;
mod walk;

use crate::catalog::Catalog;
use crate::error::PlanError;
use lockstep_plan_ir::Statement;
use lockstep_sql::ast::ParsedStatement;

pub(crate) use bind::view::{BoundView, ViewColumn, ViewColumnKind, bind_view_select};
pub(crate) use bind::{bind_default, bind_table_expression};

/// Where a statement will run, which decides how it may be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanContext {
    /// Within a procedure that runs at one partition: local plan with guards.
    SinglePartition,
    /// Within a multi-partition procedure, or ad hoc: local with a routing value when one
    /// partition has all that is needed, else distributed.
    MultiPartition,
}

/// Plans a query or DML statement.
///
/// # Errors
/// Unknown names, wrong types, unsupported clauses: see the message.
pub fn plan_statement(
    catalog: &Catalog,
    statement: &ParsedStatement,
    context: PlanContext,
) -> Result<Statement, PlanError> {
    let _ = (catalog, statement, context);
    Err(PlanError::new("queries are not planned yet"))
}
