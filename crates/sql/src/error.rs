//! What is wrong with a statement, where, and what would have been accepted.

use crate::ast::Span;
use core::fmt;

/// A refusal by the parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// One sentence; syntax errors begin `unexpected token: X` or `unexpected end of statement`.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What would have been accepted there, most likely first; may be empty.
    pub expected: Vec<String>,
    /// The token that was found, as written; none at the end of the statement.
    pub found: Option<String>,
}

impl SqlError {
    /// The message with the position and what was expected, on one line.
    pub fn one_line(&self) -> String {
        let mut text = self.message.clone();
        if !self.expected.is_empty() {
            text.push_str("; expected ");
            text.push_str(&self.expected.join(", "));
        }
        text.push_str(&format!(" at line {} column {}", self.span.line, self.span.column));
        text
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.one_line())
    }
}

impl std::error::Error for SqlError {}
