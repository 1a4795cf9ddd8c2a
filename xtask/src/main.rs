//! Checks and chores of the workspace: `cargo xtask check`, `cargo xtask test` and
//! `cargo xtask words`.
//!
//! `check` reads the tree and the cargo metadata and prints one line per finding,
//! `file:line: rule: value > limit`. It changes nothing. `test` runs every test suite in turn
//! and sums up their counts.

mod api_table;
mod assertions;
mod check;
mod dependencies;
mod documents;
mod finding;
mod house;
mod lexer;
mod notice;
mod rust_tests;
mod suites;
mod tree;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask check [--root DIR] [--figures]
       cargo xtask words
       cargo xtask test [--only rust|check|python|java|java-api|failover|golden]... [--list]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((command, rest)) if command == "check" => check_command(rest),
        Some((command, [])) if command == "words" => lower_words(),
        Some((command, rest)) if command == "test" => suites::command(&repository_root(), rest),
        _ => Err(USAGE.to_string()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

/// Prints the findings of every check, and with `--figures` how many assertions each crate has;
/// true if there are no findings.
fn check_command(arguments: &[String]) -> Result<bool, String> {
    let (shows_figures, arguments) = match arguments.split_last() {
        Some((flag, rest)) if flag == "--figures" => (true, rest),
        _ => (false, arguments),
    };
    let root = match arguments {
        [] => repository_root(),
        [flag, directory] if flag == "--root" => PathBuf::from(directory),
        _ => return Err(USAGE.to_string()),
    };
    let report = check::run(&root)?;
    for figure in report.figures.iter().filter(|_| shows_figures) {
        println!("{figure}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    println!("xtask check: {} files, {} findings", report.files, report.findings.len());
    Ok(report.findings.is_empty())
}

/// Lowers the limits of words to what is used.
fn lower_words() -> Result<bool, String> {
    let root = repository_root();
    words::lower(&root, &tree::Tree::read(&root)?)?;
    Ok(true)
}

/// The folder above this package: the package lives at the root's `xtask/`.
fn repository_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
