//! Schema changes: DDL statements to the next catalog and the sites' steps.

use crate::catalog::{Catalog, NativeProcedures, SchemaChange};
use crate::error::PlanError;
use lockstep_sql::ast::ParsedStatement;

/// See [`Catalog::apply`].
pub(crate) fn apply(
    catalog: &Catalog,
    statements: &[ParsedStatement],
    natives: &dyn NativeProcedures,
) -> Result<SchemaChange, PlanError> {
    let _ = (catalog, statements, natives);
    Err(PlanError::new("schema changes are not planned yet"))
}
