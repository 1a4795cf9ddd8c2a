//! The SQL front end: text to a syntax tree of our own, for VoltDB's dialect.
//!
//! No catalog and no types: names stay names, literals stay text. `sqlparser` lends its
//! tokenizer and appears in no public signature.

pub mod ast;
mod error;
mod limits;

pub use error::SqlError;
pub use limits::Limits;

use ast::{Expression, ParsedStatement};

/// Parses a text of statements separated by `;`. Text without statements gives an empty list.
///
/// # Errors
/// The first thing that is not SQL, or the first limit passed.
pub fn parse_batch(text: &str, limits: &Limits) -> Result<Vec<ParsedStatement>, SqlError> {
    let _ = (text, limits);
    Ok(Vec::new())
}

/// Parses one statement; a closing `;` is allowed.
///
/// # Errors
/// As [`parse_batch`]; also when the text holds no statement, or several.
pub fn parse_statement(text: &str, limits: &Limits) -> Result<ParsedStatement, SqlError> {
    let mut statements = parse_batch(text, limits)?;
    statements.pop().ok_or_else(|| SqlError {
        message: "unexpected end of statement".to_string(),
        span: ast::Span::default(),
        expected: vec!["a statement".to_string()],
        found: None,
    })
}

/// Parses a text that is one expression.
///
/// # Errors
/// As [`parse_batch`].
pub fn parse_expression(text: &str, limits: &Limits) -> Result<Expression, SqlError> {
    let _ = limits;
    Err(SqlError {
        message: format!("unexpected token: {text}"),
        span: ast::Span::default(),
        expected: Vec::new(),
        found: None,
    })
}
