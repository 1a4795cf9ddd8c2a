//! The SQL front end: text to a syntax tree of our own, for VoltDB's dialect.
//!
//! No catalog and no types: names stay names, literals stay text. `sqlparser` lends its
//! tokenizer and appears in no public signature.

pub mod ast;
mod error;
mod keyword;
mod lexer;
mod limits;
mod parameterize;
mod parser;
mod split;
mod unparse;

pub use error::SqlError;
pub use keyword::keywords;
pub use limits::Limits;
pub use parameterize::{ExtractedLiteral, Parameterized, parameterize};
pub use split::{ScriptStatement, split_script};

use ast::{Expression, ParsedStatement, Span};

/// Parses a text of statements separated by `;`. Text without statements gives an empty list.
///
/// # Errors
/// The first thing that is not SQL, or the first limit passed.
pub fn parse_batch(text: &str, limits: &Limits) -> Result<Vec<ParsedStatement>, SqlError> {
    parser::batch(text, limits)
}

/// Parses one statement; a closing `;` is allowed.
///
/// # Errors
/// As [`parse_batch`]; also when the text holds no statement, or several.
pub fn parse_statement(text: &str, limits: &Limits) -> Result<ParsedStatement, SqlError> {
    let mut statements = parse_batch(text, limits)?.into_iter();
    let Some(statement) = statements.next() else {
        let span = Span { offset: 0, length: 0, line: 1, column: 1 };
        let expected = vec!["a statement".to_string()];
        let message = "unexpected end of statement".to_string();
        return Err(SqlError { message, span, expected, found: None });
    };
    match statements.next() {
        None => Ok(statement),
        Some(second) => Err(SqlError {
            message: "unexpected token: a second statement".to_string(),
            span: second.span,
            expected: vec!["the end of the text".to_string()],
            found: Some(second.text),
        }),
    }
}

/// Parses a text that is one expression.
///
/// # Errors
/// As [`parse_batch`].
pub fn parse_expression(text: &str, limits: &Limits) -> Result<Expression, SqlError> {
    parser::expression(text, limits)
}
