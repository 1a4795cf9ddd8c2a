//! The house numbers and the rules of text: what STYLE.md says about lines, functions and words.

mod durations;

use crate::dependencies::{DETERMINISTIC, folder_of};
use crate::finding::Finding;
use crate::lexer::{self, Masked};
use crate::tree::Tree;

/// Longest function, from its `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;
/// Longest file without a stated reason.
const FILE_LINES: usize = 600;
/// Longest file with one.
const FILE_LINES_WITH_REASON: usize = 1500;
/// Longest test module inside the file that it tests.
const INLINE_TEST_LINES: usize = 200;
/// Widest line, in characters.
const LINE_COLUMNS: usize = 100;
/// How the head of a long file starts the line that says why.
const REASON_MARK: &str = "//! Long file:";
/// Crates that may hold `unsafe`.
const UNSAFE_CRATES: &[&str] = &["crates/base", "crates/storage", "crates/node", "crates/jvm"];
/// Words that mark unfinished work, written apart so that this file does not break its own rule.
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Macros that stop a running server.
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented"];
/// Macros that print; the deterministic crates have no console.
const PRINTING_MACROS: &[&str] = &["println", "eprintln", "print", "eprint"];

/// Checks every Rust, Python and Java file of the tree.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.files {
        if path.ends_with(".rs") {
            check_rust(path, text, &mut findings);
        } else if path.ends_with(".py") || path.ends_with(".java") {
            check_sizes(path, text, &mut findings);
            check_unfinished_words(path, text, &mut findings);
        }
    }
    check_integration_binaries(tree, &mut findings);
    findings
}

/// A package links one binary of integration tests: `tests/it/main.rs` with modules.
fn check_integration_binaries(tree: &Tree, findings: &mut Vec<Finding>) {
    for folder in tree.packages() {
        let prefix = format!("{folder}/tests/");
        let is_binary = |path: &&String| {
            let Some(rest) = path.strip_prefix(&prefix) else { return false };
            let depth = rest.matches('/').count();
            (depth == 0 && rest.ends_with(".rs")) || (depth == 1 && rest.ends_with("/main.rs"))
        };
        let binaries: Vec<&String> = tree.files.keys().filter(is_binary).collect();
        if binaries.len() > 1 {
            let message = format!("{} binaries > 1: make them modules of one", binaries.len());
            findings.push(Finding::new(binaries[1], 1, "integration tests", message));
        }
    }
}

fn check_rust(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let masked = lexer::mask(text);
    check_sizes(path, text, findings);
    check_head(path, text, findings);
    check_functions(path, &masked, findings);
    check_unfinished_words(path, &masked.comments, findings);
    check_words(path, &masked, findings);
    if !is_test_file(path) {
        findings.extend(durations::check(path, &masked.code));
    }
}

fn check_sizes(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        // A line that is one long word, such as a link, cannot be broken.
        if columns > LINE_COLUMNS && line.split_whitespace().count() > 2 {
            let message = format!("{columns} columns > {LINE_COLUMNS}");
            findings.push(Finding::new(path, index + 1, "line length", message));
        }
    }
    let lines = text.lines().count();
    let reason = text.lines().take(40).any(|line| line.starts_with(REASON_MARK));
    let limit = if reason { FILE_LINES_WITH_REASON } else { FILE_LINES };
    if lines > limit {
        let hint = if reason { "split it" } else { "split it or give a `//! Long file:` reason" };
        let message = format!("{lines} lines > {limit}: {hint}");
        findings.push(Finding::new(path, 1, "file length", message));
    }
}

fn check_head(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let opens = text.lines().next().is_some_and(|line| line.starts_with("//! "));
    if !opens {
        let message = "the first line is not a `//!` that says what the file is for";
        findings.push(Finding::new(path, 1, "file head", message));
    }
}

fn check_functions(path: &str, masked: &Masked, findings: &mut Vec<Finding>) {
    for function in lexer::functions(&masked.code) {
        if function.lines > FUNCTION_LINES {
            let message = format!("{}: {} lines > {FUNCTION_LINES}", function.name, function.lines);
            findings.push(Finding::new(path, function.line, "function length", message));
        }
    }
}

fn check_unfinished_words(path: &str, comments: &str, findings: &mut Vec<Finding>) {
    for word in UNFINISHED_WORDS {
        for at in lexer::word_positions(comments, word) {
            let line = lexer::line_of(comments, at);
            let message = format!("{word}: finish it, or write an issue and say what holds now");
            findings.push(Finding::new(path, line, "unfinished", message));
        }
    }
}

fn check_words(path: &str, masked: &Masked, findings: &mut Vec<Finding>) {
    let code = masked.code.as_str();
    let tests = lexer::test_ranges(code);
    let test_file = is_test_file(path);
    let mut report = |at: usize, rule: &'static str, message: String| {
        findings.push(Finding::new(path, lexer::line_of(code, at), rule, message));
    };
    let folder = folder_of(path);
    for at in lexer::word_positions(code, "unsafe") {
        if !UNSAFE_CRATES.contains(&folder) {
            report(at, "unsafe", format!("in {folder}, allowed in {}", UNSAFE_CRATES.join(", ")));
        }
    }
    for macro_name in UNFINISHED_MACROS.iter().chain(&["dbg"]) {
        for at in macro_calls(code, macro_name) {
            report(at, "unfinished", format!("{macro_name}! is never committed"));
        }
    }
    for range in &tests {
        // The range ends before the closing brace.
        let lines = code[range.clone()].lines().count() + 1;
        if lines > INLINE_TEST_LINES
            && lexer::word_positions(&code[range.clone()], "mod").next().is_some()
        {
            let message = format!("{lines} lines > {INLINE_TEST_LINES}: move them to tests.rs");
            report(range.start, "inline tests", message);
        }
    }
    let in_test = |at: usize| test_file || tests.iter().any(|range| range.contains(&at));
    for (at, _) in code.match_indices(".unwrap()").filter(|(at, _)| !in_test(*at)) {
        let message = "1 > 0: return an error, or `expect` with the invariant".to_string();
        report(at, "unwrap outside tests", message);
    }
    if !DETERMINISTIC.contains(&folder) {
        return;
    }
    for macro_name in PRINTING_MACROS {
        for at in macro_calls(code, macro_name).into_iter().filter(|at| !in_test(*at)) {
            report(at, "printing", format!("{macro_name}! in the deterministic crate {folder}"));
        }
    }
    // `base` wraps the standard map once, with a seeded hasher.
    for lint in ["disallowed_types", "disallowed_methods"] {
        for at in lexer::word_positions(code, lint).filter(|at| !in_test(*at)) {
            if folder != "crates/base" {
                report(at, "lint silenced", format!("{lint} in the deterministic crate {folder}"));
            }
        }
    }
}

fn macro_calls(code: &str, name: &str) -> Vec<usize> {
    let calls = |at: &usize| code[at + name.len()..].starts_with('!');
    lexer::word_positions(code, name).filter(calls).collect()
}

/// Whether a whole file belongs to tests: test folders, benches, examples and `tests.rs`.
pub fn is_test_file(path: &str) -> bool {
    let in_folder = |folder: &str| path.split('/').any(|part| part == folder);
    ["tests", "benches", "examples"].iter().any(|folder| in_folder(folder))
        || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests;
