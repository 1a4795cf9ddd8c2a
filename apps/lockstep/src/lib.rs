//! `lockstep`: one binary for everything that a person does with LockstepDB. The commands are in
//! modules of their names; this file only parses and dispatches. It is a library so that tests
//! have a binary with procedures of their own.

mod admin;
mod bench;
mod csv;
mod demo;
mod export;
mod huge_pages;
mod init;
mod java_api;
mod last_word;
mod load;
mod log;
mod membership;
mod output;
mod recovery;
mod restore;
mod snapshot;
mod sql;
mod start;
mod witness;

use clap::{Arg, ArgAction, Command};
use lockstep_env::Disk;
use lockstep_exec::procedure::NativeProcedure;
use std::process::ExitCode;
use std::sync::Arc;

/// The native procedures that a binary brings along.
pub type Procedures = fn() -> Vec<Arc<dyn NativeProcedure>>;

fn command() -> Command {
    Command::new("lockstep")
        .version(env!("CARGO_PKG_VERSION"))
        .about("LockstepDB: in-memory SQL for transactions")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(Arg::new("log").long("log").global(true).value_name("FILTER").help(
            "What is logged to standard error: error, warn, info, debug, or a filter \
                     [default: info for `start` and `witness`, else warn]",
        ))
        .subcommand(init::command())
        .subcommand(start::command())
        .subcommand(witness::command())
        .subcommand(sql::command())
        .subcommand(load::command())
        .subcommand(export::command())
        .subcommand(bench::command())
        .subcommand(demo::command())
        .subcommand(log::command())
        .subcommand(snapshot::command())
        .subcommand(restore::command())
        .subcommand(admin::command())
        .subcommand(java_api::command())
        .subcommand(help_command())
}

fn help_command() -> Command {
    Command::new("help")
        .about("Show help; `help options` lists every limit and option of a host")
        .arg(
            Arg::new("topic")
                .action(ArgAction::Append)
                .help("A command with its own commands, or `options`"),
        )
}

/// What a binary puts between a host and the disk of its directory.
pub type WrapDisk = fn(Arc<dyn Disk>) -> Arc<dyn Disk>;

/// Changes what is logged to standard error.
type ChangeFilter = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Does what the command line says.
pub fn run(procedures: Procedures) -> ExitCode {
    run_with(procedures, |disk| disk)
}

/// As [`run`], with something between a host and its disk.
pub fn run_with(procedures: Procedures, wrap_disk: WrapDisk) -> ExitCode {
    let matches = command().get_matches();
    let serves = matches!(matches.subcommand_name(), Some("start" | "witness"));
    let default = if serves { "info" } else { "warn" };
    let filter = matches.get_one::<String>("log").map_or(default, String::as_str);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        // Colors are a feature of the library that is not built in: asked for, it panics.
        .with_ansi(false)
        // Where standard error is gone, with its terminal, a line about that has nowhere to go
        // either, and would end the thread that logs.
        .log_internal_errors(false)
        .with_filter_reloading();
    let reload = subscriber.reload_handle();
    subscriber.init();
    let change_filter: ChangeFilter = Arc::new(move |filter: &str| {
        let filter = tracing_subscriber::EnvFilter::try_new(filter);
        let filter = filter.map_err(|error| format!("the filter cannot be read: {error}"))?;
        reload.reload(filter).map_err(|error| error.to_string())
    });
    let result = match matches.subcommand() {
        Some(("init", arguments)) => init::run(arguments),
        Some(("log", arguments)) => log::run(arguments),
        Some(("snapshot", arguments)) => snapshot::run(arguments),
        Some(("restore", arguments)) => restore::run(arguments, procedures),
        Some(("admin", arguments)) => admin::run(arguments),
        Some(("start", arguments)) => start::run(arguments, procedures, wrap_disk, change_filter),
        Some(("witness", arguments)) => witness::run(arguments),
        Some(("sql", arguments)) => sql::run(arguments),
        Some(("load", arguments)) => load::run(arguments),
        Some(("export", arguments)) => export::run(arguments),
        Some(("bench", arguments)) => bench::run(arguments),
        Some(("demo", arguments)) => demo::run(arguments, procedures),
        Some(("java-api", arguments)) => java_api::run(arguments),
        Some(("help", arguments)) => {
            help(arguments.get_many("topic").into_iter().flatten().collect())
        }
        _ => unreachable!("a subcommand is required"),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            eprintln!("lockstep: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Shows the help of a command, as deep as it is named.
fn help(topic: Vec<&String>) -> Result<ExitCode, String> {
    if topic.len() == 1 && topic[0] == "options" {
        print!("{}", lockstep_node::options::help_text());
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = command();
    shown.build();
    let mut command = &mut shown;
    for (depth, name) in topic.iter().enumerate() {
        let named = topic[..depth].iter().fold("lockstep".to_string(), |all, n| all + " " + n);
        command = command.find_subcommand_mut(name).ok_or_else(|| {
            format!("there is no command '{name}' of `{named}`; try `{named} --help`")
        })?;
    }
    println!("{}", command.render_long_help());
    Ok(ExitCode::SUCCESS)
}
