//! `lockstep bench`: runs a workload as a load, over TCP or inside the process, and reports.

mod common;
mod fit;
mod lock_store;
mod scale;
mod shown;
mod simple;
mod tpcc;
mod voter;
mod worker;

use clap::{ArgMatches, Command};
use lockstep_workloads::Workload;
use shown::Own;
use std::process::ExitCode;

/// The command line of `lockstep bench`.
pub fn command() -> Command {
    Command::new("bench")
        .about("Measure throughput and latency")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(workload_commands())
        .subcommand(scale::command())
        .subcommand(fit::command())
        .subcommand(worker::command())
}

/// The command lines of all workloads.
fn workload_commands() -> Vec<Command> {
    let mut commands = vec![voter::command(), tpcc::command()];
    commands.extend(simple::commands());
    commands.push(lock_store::command());
    commands
}

/// The workload that a command line wants, and what it shows beside the common figures.
fn build(name: &str, arguments: &ArgMatches) -> Result<(Box<dyn Workload>, Own), String> {
    Ok(match name {
        "voter" => (Box::new(voter::workload(arguments)?), voter::shown),
        "lock-store" => (Box::new(lock_store::workload(arguments)?), lock_store::delays),
        "tpcc" => (Box::new(tpcc::workload(arguments)?), tpcc::shown),
        name => (simple::workload(name, arguments)?, shown::nothing),
    })
}

/// Runs the workload that was asked for.
///
/// # Errors
/// A server cannot be reached or refuses the set-up; a file cannot be written.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    match arguments.subcommand() {
        Some(("scale", arguments)) => scale::run(arguments),
        Some(("fit", arguments)) => fit::run(arguments),
        Some(("worker", arguments)) => worker::run(arguments),
        Some((name, arguments)) => {
            let (mut workload, own) = build(name, arguments)?;
            shown::run_and_report(&mut *workload, (name, arguments), own)
        }
        None => Err("there is no such workload; try `lockstep bench --help`".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_page_of_benchmarks_names_every_workload_and_option() {
        let page = include_str!("../../../../docs/benchmarks.md");
        let mut commands = workload_commands();
        let studies = scale::command();
        commands.extend(studies.get_subcommands().cloned());
        commands.extend([worker::command(), fit::command()]);
        let mut missing = BTreeSet::new();
        for command in &commands {
            if !page.contains(&format!("`{}`", command.get_name())) {
                missing.insert(command.get_name().to_string());
            }
            for long in command.get_arguments().filter_map(clap::Arg::get_long) {
                if !page.contains(&format!("`--{long}")) {
                    missing.insert(format!("--{long}"));
                }
            }
        }
        assert_eq!(missing, BTreeSet::new());
    }
}
