//! Where an error is: line and column in the input, and the text with a caret under the place.

use super::script::{Piece, position};
use lockstep_sql::{Limits, parse_batch};

/// Most characters shown on each side of the place.
const SHOWN: usize = 60;

/// An error as it is printed: `source:line:column: message`, the line and a caret. `offset` is a
/// byte of the piece; without one the piece's start is named and nothing is shown.
pub fn render(source: &str, piece: &Piece, offset: Option<usize>, message: &str) -> String {
    let (line, column) = position(&piece.text, offset.unwrap_or(0), piece.line, piece.column);
    let mut text = format!("{source}:{line}:{column}: {message}\n");
    if let Some(offset) = offset {
        let (line, caret) = excerpt(&piece.text, offset);
        text.push_str(&format!("  {line}\n  {caret}^\n"));
    }
    text
}

/// The line around a byte, cut to what a terminal shows, and the blanks before its caret.
fn excerpt(text: &str, offset: usize) -> (String, String) {
    let offset = text.floor_char_boundary(offset);
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = text[offset..].find('\n').map_or(text.len(), |at| offset + at);
    let column = text[start..offset].chars().count();
    let first = column.saturating_sub(SHOWN);
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = text[start..end].chars().skip(first).take(2 * SHOWN).map(blank).collect();
    (shown.trim_end().to_string(), " ".repeat(column - first))
}

/// Finds the place that a server's refusal of a statement is about: where the statement is no
/// SQL, else the first word that the message ends with or quotes. The server is the judge; this
/// only finds where to point.
pub fn locate(statement: &str, message: &str) -> Option<usize> {
    if let Some(offset) = stated_place(statement, message) {
        return Some(offset);
    }
    if message.contains("yntax error") || message.contains(" at line ") {
        let error = parse_batch(statement, &Limits::default()).err()?;
        return Some(error.span.offset as usize);
    }
    let (_, name) =
        message.rsplit_once("not found: ").or_else(|| message.rsplit_once("column: "))?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
    let name = name[..end].trim_end_matches('.');
    // Names of columns come with their table in front, where the text may not have it.
    let last = name.rsplit('.').next().unwrap_or(name);
    find_word(statement, name).or_else(|| find_word(statement, last))
}

/// The place that a message names at its end: ` at line 2 column 14`.
fn stated_place(statement: &str, message: &str) -> Option<usize> {
    let (_, place) = message.rsplit_once(" at line ")?;
    let (line, column) = place.split_once(" column ")?;
    let end = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    let line: usize = line.parse().ok()?;
    let column: usize = column[..end].parse().ok()?;
    let before: usize =
        statement.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let rest = statement.get(before..)?;
    let within = rest.char_indices().map(|(at, _)| at).nth(column.checked_sub(1)?);
    Some(before + within.unwrap_or(rest.len()))
}

/// The first place of a whole word, whatever its case.
fn find_word(text: &str, word: &str) -> Option<usize> {
    if word.is_empty() {
        return None;
    }
    let (text, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(&word).map(|(at, _)| at).find(|&at| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_and_column_and_point() {
        let piece = Piece {
            text: "select é,\n\tnosuch from t".to_string(),
            line: 7,
            column: 3,
            batch: false,
        };
        let message = "user lacks privilege or object not found: NOSUCH";
        let offset = locate(&piece.text, message);
        let expected = "in.sql:8:2: user lacks privilege or object not found: NOSUCH
   nosuch from t
   ^
";
        assert_eq!(render("in.sql", &piece, offset, message), expected);
        assert_eq!(render("stdin", &piece, None, "no"), "stdin:7:3: no\n");
    }

    #[test]
    fn places_are_found() {
        for (statement, message, place) in [
            (
                "select * form t",
                "SQL Syntax error in \"select * form t\" unexpected token: FORM",
                Some("form t"),
            ),
            ("select xa, a from t", "object not found: T.A", Some("a from t")),
            ("select a from t", "unexpected token: WITHIN", None),
            ("select a from t", "object not found: B", None),
            ("select a from t", "Constraint violation", None),
        ] {
            let found = locate(statement, message).map(|at| &statement[at..]);
            assert_eq!(found, place, "{message}");
        }
    }
}
