//! What a client gets for SQL text that cannot be planned.

use lockstep_plan::PlanError;
use lockstep_sql::SqlError;
use lockstep_sql::ast::Span;
use lockstep_types::Failure;
use std::borrow::Cow;

/// The beginning of every error of a statement.
const PREFIX: &str = "SQL error while compiling query:";

/// What a client gets for text that is not SQL. It is called a syntax error only for an unexpected
/// token, and names what was expected.
pub fn syntax_failure(text: &str, error: &SqlError) -> Failure {
    let statement = excerpt(text);
    if error.message.starts_with("unexpected token") {
        return Failure::graceful(format!("{PREFIX} SQL Syntax error in \"{statement}\" {error}"));
    }
    let SqlError { message, span, .. } = error;
    let (line, column) = (span.line, span.column);
    Failure::graceful(format!(
        "{PREFIX} Error in \"{statement}\" - {message} at line {line} column {column}"
    ))
}

/// What a client gets for a statement that cannot be planned. A message of the binder, which begins
/// with a small letter, follows the text of the statement.
pub fn statement_failure(text: &str, error: &PlanError) -> Failure {
    // VoltDB's whole sentences stay as they are.
    let sentence = error.message.ends_with('.');
    let message = match error.span.filter(|span| span.line > 0 && !sentence) {
        Some(Span { line, column, .. }) => {
            format!("{} at line {line} column {column}", error.message)
        }
        None => error.message.clone(),
    };
    if message.starts_with(|first: char| first.is_lowercase()) {
        let statement = excerpt(text);
        return Failure::graceful(format!("{PREFIX} Error in \"{statement}\" - {message}"));
    }
    Failure::graceful(format!("{PREFIX} {message}"))
}

/// Most characters of a statement that a refusal repeats.
const SHOWN_CHARACTERS: usize = 1_000;

/// A statement as refusals repeat it: without what ends it, and cut when it is long.
fn excerpt(text: &str) -> Cow<'_, str> {
    let statement = text.trim().trim_end_matches(';');
    match statement.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}...", &statement[..end])),
        None => Cow::Borrowed(statement),
    }
}

/// What a client gets for a text whose statements do not go together.
pub fn plan_failure(error: PlanError) -> Failure {
    Failure::graceful(error.message)
}

/// What a client gets for DDL that cannot be applied.
pub fn ddl_failure(error: PlanError) -> Failure {
    Failure::graceful(error.message)
}
