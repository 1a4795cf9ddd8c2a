//! `lockstep bench`: runs a workload as a load, over TCP or inside the process, and reports.

mod common;
mod lock_store;
mod shown;
mod simple;
mod tpcc;
mod voter;

use clap::{ArgMatches, Command};
use std::process::ExitCode;

/// The command line of `lockstep bench`.
pub fn command() -> Command {
    Command::new("bench")
        .about("Measure throughput and latency")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(voter::command())
        .subcommand(tpcc::command())
        .subcommands(simple::commands())
        .subcommand(lock_store::command())
}

/// Runs the workload that was asked for.
///
/// # Errors
/// A server cannot be reached or refuses the set-up; the JSON file cannot be written.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    match arguments.subcommand() {
        Some(("voter", arguments)) => voter::run(arguments),
        Some(("lock-store", arguments)) => lock_store::run(arguments),
        Some(("tpcc", arguments)) => tpcc::run(arguments),
        Some((name, arguments)) => simple::run(name, arguments),
        None => Err("there is no such workload; try `lockstep bench --help`".to_string()),
    }
}
