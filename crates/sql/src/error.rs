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
    /// A limit that was passed: what is too large, the limit's name and value. A host has an
    /// option for each.
    pub(crate) fn limit(what: String, name: &str, value: u32, span: Span) -> SqlError {
        let message = format!("{what} (max is {value}, option max_{name})");
        SqlError { message, span, expected: Vec::new(), found: None }
    }

    /// The message, the line of `text` that it is about, and a caret under the place.
    pub fn render(&self, text: &str) -> String {
        let mut offset = (self.span.offset as usize).min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
        let (line, caret) = excerpt(&text[start..end], &text[start..offset]);
        format!("{}\n  {line}\n  {caret}^", self.one_line())
    }

    /// The message with the position and what was expected, on one line.
    pub fn one_line(&self) -> String {
        let mut text = self.message.clone();
        if !self.expected.is_empty() {
            text.push_str("; expected ");
            let last = self.expected.len() - 1;
            for (index, what) in self.expected.iter().enumerate() {
                let separator = match index {
                    0 => "",
                    _ if index == last => " or ",
                    _ => ", ",
                };
                text.push_str(separator);
                text.push_str(what);
            }
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

/// Most characters shown on each side of the place.
const SHOWN: usize = 60;

/// The part of a line around a place, and the blanks that bring a caret under the place.
/// `before` is the part of `line` in front of the place.
fn excerpt(line: &str, before: &str) -> (String, String) {
    let column = before.chars().count();
    let first = column.saturating_sub(SHOWN);
    let blank = |ch: char| if ch.is_control() { ' ' } else { ch };
    let shown: String = line.chars().skip(first).take(2 * SHOWN).map(blank).collect();
    (shown.trim_end().to_string(), " ".repeat(column - first))
}
