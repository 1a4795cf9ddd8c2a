//! What the benchmark programs share: common arguments, the end of a run, and the restart on the
//! core of the load.

use crate::process::on_core;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Carries the machine's number of cores over the pinning of a program.
const CORES_VARIABLE: &str = "LOCKSTEP_BENCH_CORES";

/// The flag `--quick`, for a run that measures nothing.
pub fn quick_flag(help: &'static str) -> Arg {
    Arg::new("quick").long("quick").action(ArgAction::SetTrue).help(help)
}

/// [`quick_flag`] of a program that repeats its figures.
pub fn quick_repeat_flag() -> Arg {
    quick_flag("One short repeat of everything: shows that it runs, measures nothing")
}

/// The option `--only FIGURE,...` of a program whose figures have these names.
pub fn only_option<F>(figures: &[(&'static str, F)]) -> Arg {
    let names: Vec<&'static str> = figures.iter().map(|(name, _)| *name).collect();
    let only = Arg::new("only").long("only").value_name("FIGURE").action(ArgAction::Append);
    only.value_delimiter(',')
        .value_parser(PossibleValuesParser::new(names))
        .help("Measure only these")
}

/// The figures that [`only_option`] names; all without it.
pub fn chosen_figures<F: Copy>(matches: &ArgMatches, figures: &[(&'static str, F)]) -> Vec<F> {
    let only: Option<Vec<&String>> = matches.get_many("only").map(Iterator::collect);
    let is_chosen = |name: &str| only.as_ref().is_none_or(|only| only.iter().any(|it| *it == name));
    figures.iter().filter(|(name, _)| is_chosen(name)).map(|(_, figure)| *figure).collect()
}

/// The option `--json FILE`.
pub fn json_option(help: &'static str) -> Arg {
    let parser = value_parser!(PathBuf);
    Arg::new("json").long("json").value_name("FILE").value_parser(parser).help(help)
}

/// The hidden flag of a program that [`pin_and_restart`] has started.
pub fn pinned_flag() -> Arg {
    Arg::new("pinned").long("pinned").action(ArgAction::SetTrue).hide(true)
}

/// The code that a program ends with; writes the message of a failure.
pub fn exit_code(program: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{program}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Ends a run with the arguments [`quick_flag`] and [`json_option`]: prints that the figures of a
/// quick run mean nothing, and writes the report to the file, if one is given.
///
/// # Errors
/// The file cannot be written.
pub fn end_run(matches: &ArgMatches, json: impl FnOnce() -> Value) -> Result<(), String> {
    if matches.get_flag("quick") {
        println!("A quick run: the figures mean nothing.");
    }
    match matches.get_one::<PathBuf>("json") {
        None => Ok(()),
        Some(file) => write_json(file, &json()),
    }
}

/// Writes a report to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(file: &Path, json: &Value) -> Result<(), String> {
    let text = serde_json::to_string_pretty(json).map_err(|error| error.to_string())?;
    std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
}

/// The cores that this process may use; of one that was pinned, those of the machine.
pub fn cores() -> usize {
    let given = std::env::var(CORES_VARIABLE).ok().and_then(|cores| cores.parse().ok());
    given.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()))
}

/// The core of the load, beside the servers on the first one.
pub fn load_core(cores: usize) -> usize {
    usize::from(cores > 1)
}

/// Starts a program again on the core of the load, in its own process, with [`pinned_flag`].
///
/// # Errors
/// It cannot be started.
pub fn pin_and_restart(program: &str) -> Result<(), String> {
    let cores = cores();
    if cores < 2 {
        eprintln!("{program}: there is one core only: load and servers share it");
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let error = on_core(load_core(cores), &own.to_string_lossy())
        .args(std::env::args().skip(1))
        .arg("--pinned")
        .env(CORES_VARIABLE, cores.to_string())
        .exec();
    Err(format!("taskset (of util-linux) cannot be run: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn the_report_is_written_where_it_is_asked_for() {
        let command = || {
            let command = Command::new("bench").arg(quick_repeat_flag()).arg(pinned_flag());
            command.arg(json_option("Write the report"))
        };
        let none = command().get_matches_from(["bench", "--quick"]);
        assert_eq!(end_run(&none, || unreachable!("no file is given")), Ok(()));
        let name = format!("bench-program-{}.json", std::process::id());
        let file = std::env::temp_dir().join(name);
        let path = file.to_string_lossy();
        let given = command().get_matches_from(["bench", "--json", &path]);
        assert_eq!(end_run(&given, || serde_json::json!({ "rows": [1] })), Ok(()));
        let text = std::fs::read_to_string(&file).expect("the report");
        assert_eq!(text, "{\n  \"rows\": [\n    1\n  ]\n}\n");
        std::fs::remove_file(&file).expect("it is there");
        let missing = file.join("report.json");
        let error = write_json(&missing, &Value::Null).expect_err("there is no such folder");
        assert!(error.starts_with(&missing.display().to_string()), "{error}");
    }
}
