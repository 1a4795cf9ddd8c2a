//! REGEXP_POSITION.
//!
//! Patterns are those of the `regex-lite` crate: Perl's without look-around and back-references,
//! matched in time linear in the text. Letters fold in ASCII only.

use super::text::position_of;
use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_types::Datum;
use regex_lite::{Regex, RegexBuilder};
use std::cell::RefCell;

/// The greatest memory of a compiled pattern.
const PATTERN_BYTES: usize = 256 * 1024;
/// Compiled patterns that a thread keeps: statements use a few constant ones, row after row.
const KEPT_PATTERNS: usize = 8;

struct Compiled {
    pattern: String,
    ignore_case: bool,
    regex: Regex,
}

thread_local! {
    /// Most recently compiled last. What it holds changes the speed only, never a result.
    static COMPILED: RefCell<Vec<Compiled>> = const { RefCell::new(Vec::new()) };
}

/// `REGEXP_POSITION(text, pattern [, flags])`: 0 when nothing matches.
pub(super) fn position<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let mut ignore_case = false;
    for flag in arguments.text(2)?.chars() {
        match flag {
            'c' => ignore_case = false,
            'i' => ignore_case = true,
            _ => return Err(SqlError::argument("Illegal Match Flags")),
        }
    }
    COMPILED.with_borrow_mut(|kept| {
        let found = |known: &Compiled| known.ignore_case == ignore_case && known.pattern == pattern;
        if !kept.iter().any(found) {
            if kept.len() == KEPT_PATTERNS {
                kept.remove(0);
            }
            kept.push(compile(pattern, ignore_case)?);
        }
        let regex = kept.iter().find(|known| found(known)).map(|known| &known.regex);
        let offset = regex.and_then(|regex| regex.find(text)).map(|found| found.start());
        Ok(Datum::Int(offset.map_or(0, |offset| position_of(text, offset))))
    })
}

fn compile(pattern: &str, ignore_case: bool) -> Result<Compiled, SqlError> {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(ignore_case).size_limit(PATTERN_BYTES);
    let regex = builder.build().map_err(|error| {
        SqlError::argument(format!("Regular Expression Compilation Error: {error}"))
    })?;
    Ok(Compiled { pattern: pattern.to_string(), ignore_case, regex })
}
