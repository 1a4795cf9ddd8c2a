//! The wrappings that VoltDB puts around the reason of a refused schema change.

use crate::error::PlanError;
use lockstep_sql::ast::{ParsedStatement, Span};

/// A refusal by the table compiler: `[Ad Hoc DDL Input:<line>]: DDL Error: "<reason>"`.
pub(super) fn table_error(span: Span, reason: impl AsRef<str>) -> PlanError {
    let line = span.line.max(1);
    PlanError::at(span, format!("[Ad Hoc DDL Input:{line}]: DDL Error: \"{}\"", reason.as_ref()))
}

/// As [`table_error`], with the statement's text after the reason.
pub(super) fn table_error_in(statement: &ParsedStatement, reason: &str) -> PlanError {
    let reason = format!("{reason} in statement [{}]", statement.text);
    table_error(statement.span, reason)
}

/// A refusal of one of VoltDB's own statements.
pub(super) fn ddl_error(span: Span, reason: impl AsRef<str>) -> PlanError {
    let reason = reason.as_ref();
    PlanError::at(span, format!("[Ad Hoc DDL Input]: VoltDB DDL Error: \"{reason}\""))
}

/// A refusal of a procedure.
pub(super) fn procedure_error(span: Span, name: &str, reason: impl AsRef<str>) -> PlanError {
    PlanError::at(span, format!("[{name}]: {}", reason.as_ref()))
}

/// A refusal of something that the server does not have yet.
pub(super) fn not_supported(span: Span, what: &str) -> PlanError {
    ddl_error(span, format!("{what} are not supported yet"))
}

/// A change that the data in place does not allow.
pub(super) fn live_change_error(reason: &str) -> String {
    format!("Unable to make requested schema change: {reason}")
}
