//! Why SQL cannot be planned.

use lockstep_sql::ast::Span;
use std::fmt;

/// A refusal of a statement, with the place in its text where that is known.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanError {
    /// What is wrong, in VoltDB's wording where applications match it.
    pub message: String,
    /// Where in the statement.
    pub span: Option<Span>,
}

impl PlanError {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> PlanError {
        PlanError { message: message.into(), span: None }
    }

    /// An error at a place.
    pub fn at(span: Span, message: impl Into<String>) -> PlanError {
        PlanError { message: message.into(), span: Some(span) }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PlanError {}
