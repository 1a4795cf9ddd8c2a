//! `bench-instructions`: the instructions of a call on the paths that matter, counted by
//! callgrind, and held to the limits of a file. Counts do not depend on how busy the machine is,
//! so that they can fail a change where times cannot.
//!
//! They do depend on the compiler: with another one than the file names, nothing fails.

mod limits;
mod paths;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use limits::{Judgement, Limits};
use lockstep_bench::program;
use paths::{CountedPath, PATHS};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The subcommand with which this program starts itself, under callgrind.
const COUNTED: &str = "counted";

fn command() -> Command {
    Command::new("bench-instructions")
        .about("Instructions of a call on the paths that matter, held to the limits of a file")
        .arg(
            Arg::new("limits")
                .long("limits")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .default_value("corpus/instructions.json")
                .help("The file of limits"),
        )
        .arg(
            Arg::new("calls")
                .long("calls")
                .value_parser(value_parser!(u64).range(100..=1_000_000))
                .default_value("2000")
                .help("Calls of each path; the limits are for the default"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("PATH")
                .action(ArgAction::Append)
                .value_parser(PATHS.map(|path| path.name))
                .help("Count this path, not all"),
        )
        .arg(
            Arg::new("write")
                .long("write")
                .action(ArgAction::SetTrue)
                .help("Make what was counted the limits; a commit that raises one says why"),
        )
        .arg(program::json_option("Write the counts as JSON"))
        .subcommand(
            Command::new(COUNTED)
                .hide(true)
                .arg(Arg::new("path").required(true))
                .arg(Arg::new("calls").required(true).value_parser(value_parser!(u64))),
        )
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some((COUNTED, arguments)) => run_path(arguments).map(|()| true),
        _ => count_all(&matches),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("bench-instructions: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one path; called under callgrind.
fn run_path(arguments: &ArgMatches) -> Result<(), String> {
    let name = arguments.get_one::<String>("path").map(String::as_str).unwrap_or_default();
    let calls = arguments.get_one::<u64>("calls").copied().unwrap_or(1);
    let path = PATHS.iter().find(|path| path.name == name).ok_or("no such path")?;
    (path.run)(calls)
}

fn count_all(matches: &ArgMatches) -> Result<bool, String> {
    let file = matches.get_one::<PathBuf>("limits").ok_or("no file of limits")?;
    let calls = matches.get_one::<u64>("calls").copied().unwrap_or(2000);
    let only: Vec<&String> = matches.get_many("only").map(Iterator::collect).unwrap_or_default();
    let chosen = |path: &&CountedPath| only.is_empty() || only.iter().any(|o| *o == path.name);
    let mut limits = Limits::read(file)?;
    let compiler = limits::compiler()?;
    let mut counts = Vec::new();
    for path in PATHS.iter().filter(chosen) {
        counts.push((path.name, count(path, calls)?));
    }
    if matches.get_flag("write") {
        limits.take(&counts, &compiler);
        limits.write(file)?;
    }
    if let Some(json) = matches.get_one::<PathBuf>("json") {
        limits::write_counts(json, &counts, &compiler)?;
    }
    Ok(report(&limits, &counts, &compiler))
}

/// Prints a table; true if no limit is passed.
fn report(limits: &Limits, counts: &[(&'static str, u64)], compiler: &str) -> bool {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("{:<24} {:>12} {:>9} {:>8}", "path", "instructions", "limit", "change");
    for (name, count) in counts {
        let limit = limits.of(name);
        let judgement = limits.judge(name, *count, compiler);
        match judgement {
            Judgement::Within | Judgement::Lower => passed += 1,
            Judgement::Over => failed += 1,
            Judgement::NoLimit | Judgement::OtherCompiler => skipped += 1,
        }
        let change = limit.map(|limit| (*count as f64 / limit as f64 - 1.0) * 100.0);
        let change = change.map_or_else(String::new, |change| format!("{change:+.1} %"));
        let limit = limit.map_or_else(|| "none".to_string(), |limit| limit.to_string());
        println!("{name:<24} {count:>12} {limit:>9} {change:>8}  {}", judgement.text());
    }
    if skipped > 0 {
        println!("the limits are for {}, this is {compiler}", limits.compiler_text());
    }
    println!("suite instructions: {passed} passed, {failed} failed, {skipped} skipped");
    failed == 0
}

/// Instructions of one call of a path.
fn count(path: &CountedPath, calls: u64) -> Result<u64, String> {
    eprintln!("{}: {}", path.name, path.about);
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let total = callgrind(&own, path.name, calls)?;
    Ok((total as f64 / calls as f64).round() as u64)
}

/// Instructions that callgrind collects in the measured functions of a run.
fn callgrind(own: &Path, name: &str, calls: u64) -> Result<u64, String> {
    let output = std::process::Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--toggle-collect=*measured_calls*", "--toggle-collect=*measured_transactions*"])
        .arg(own)
        .args([COUNTED, name, &calls.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name}: {}", text.trim()));
    }
    match parse_collected(&text) {
        Some(0) | None => Err(format!("{name}: nothing was counted in: {}", text.trim())),
        Some(total) => Ok(total),
    }
}

fn parse_collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let text = "==7== Events    : Ir\n==7== Collected : 6789\n";
        assert_eq!(parse_collected(text), Some(6789));
        assert_eq!(parse_collected("==7== Events    : Ir\n"), None);
    }

    #[test]
    fn every_path_runs() {
        for path in &PATHS {
            assert_eq!((path.run)(100), Ok(()), "{}", path.name);
        }
    }
}
