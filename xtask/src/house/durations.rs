//! Durations come from one type: the difference of two times is never written with a minus sign.

use crate::finding::Finding;
use crate::lexer;

/// Folders whose code measures time.
const FOLDERS: &[&str] = &["crates/", "apps/"];
/// Where the type is.
const HOME: &str = "crates/base/src/elapsed.rs";
/// How names of times end.
const UNITS: &[&str] = &["_us", "_ms", "_ns"];

/// Reports each `a_us - b_us` outside of tests.
pub(super) fn check(path: &str, code: &str) -> Vec<Finding> {
    if path == HOME || !FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let tests = lexer::test_ranges(code);
    let is_difference = |at: &usize| {
        let (left, right) = (&code[..*at], &code[at + 1..]);
        !tests.iter().any(|range| range.contains(at))
            && left.ends_with([' ', '\n'])
            && right.starts_with(' ')
            && names_time(left_operand(left))
            && names_time(right_operand(right))
    };
    let minus_signs = code.match_indices('-').map(|(at, _)| at);
    minus_signs
        .filter(is_difference)
        .map(|at| {
            let message = "a difference of two times may be negative: use `Elapsed::between_us`";
            Finding::new(path, lexer::line_of(code, at), "duration", message)
        })
        .collect()
}

/// Whether a word in lower case ends in a unit of time.
fn names_time(operand: &str) -> bool {
    let words = operand.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_time = |word: &str| {
        UNITS.iter().any(|unit| word.ends_with(unit)) && !word.contains(char::is_uppercase)
    };
    words.into_iter().any(is_time)
}

/// Whether an expression ends at a character that is not within brackets of its own.
fn ends_operand(c: char) -> bool {
    matches!(c, ',' | ';' | '=' | '<' | '>' | '&' | '|' | '+' | '-' | '?' | '!')
}

/// What stands before the sign, up to the beginning of its expression.
fn left_operand(text: &str) -> &str {
    let mut depth = 0u32;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' if depth == 0 => return &text[at + 1..],
            '(' | '[' | '{' => depth -= 1,
            other if depth == 0 && ends_operand(other) => return &text[at + 1..],
            _ => {}
        }
    }
    text
}

/// What stands after the sign, up to the end of its expression.
fn right_operand(text: &str) -> &str {
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return &text[..at],
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return &text[..at],
            other if depth == 0 && ends_operand(other) => return &text[..at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> usize {
        check("crates/node/src/x.rs", code).len()
    }

    #[test]
    fn differences_of_times_are_found_however_they_are_written() {
        for code in [
            "let took_ms = (clock::now_us() - self.arrived_us) / 1000;",
            "let uptime = clock::now_us() / 1000 - created_ms;",
            "let took = past.ended_ms.unwrap_or(clock::now_us() / 1000) - past.started_ms;",
            "if now_us\n    - self.synced_us >= limit {",
            "call(ended_ns - clock::monotonic_ns());",
        ] {
            assert_eq!(found(code), 1, "{code}");
        }
    }

    #[test]
    fn other_differences_are_nobodys_concern() {
        for code in [
            "let left = count - 1;",
            "let time = (time_ms - TRANSACTION_EPOCH_MS) as u64;",
            "let begin = length - used; let end_us = now_us;",
            "let negative_us = -given_us;",
            "fn f(now_us: i64) -> Option<u64> { left_us }",
        ] {
            assert_eq!(found(code), 0, "{code}");
        }
        let code = "let took = ended_us - began_us;";
        assert_eq!(check("testing/bench/src/x.rs", code).len(), 0);
        assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{ fn f() {{ {code} }} }}")), 0);
    }
}
