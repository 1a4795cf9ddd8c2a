//! `lockstep sql`: SQL and the shell's own commands from the command line, a file, standard input
//! or a terminal.

mod arguments;
mod command;
mod completion;
mod describe;
pub(crate) mod format;
mod input;
mod link;
mod place;
mod script;
mod session;
mod shell;

use clap::{Arg, ArgAction, ArgMatches, Command};
use format::Format;
use link::{Interrupt, Link};
use session::Session;
use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;

/// The command line of `lockstep sql`.
pub fn command() -> Command {
    Command::new("sql")
        .about("Run SQL: from -e, from files, from standard input, or at a prompt")
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("HOST:PORT")
                .default_value("127.0.0.1:21212")
                .help("The host to connect to"),
        )
        .arg(
            Arg::new("execute")
                .short('e')
                .long("execute")
                .value_name("SQL")
                .action(ArgAction::Append)
                .help("Run this; may be given several times"),
        )
        .arg(
            Arg::new("file")
                .short('f')
                .long("file")
                .value_name("FILE")
                .action(ArgAction::Append)
                .help("Run the statements of a file, after those of -e"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(["table", "csv", "json"])
                .default_value("table")
                .help("How results are printed"),
        )
        .arg(
            Arg::new("continue-on-error")
                .long("continue-on-error")
                .action(ArgAction::SetTrue)
                .help("Continue after an error; the exit code is still 1"),
        )
        .after_help(command::HELP)
}

/// Runs what was asked for.
///
/// # Errors
/// The server or a file cannot be reached.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let text = |name: &str| arguments.get_one::<String>(name).map_or("", String::as_str);
    let format = match text("format") {
        "csv" => Format::Csv,
        "json" => Format::Json,
        _ => Format::Table,
    };
    let texts: Vec<&String> = arguments.get_many("execute").into_iter().flatten().collect();
    let files: Vec<&String> = arguments.get_many("file").into_iter().flatten().collect();
    let interactive = texts.is_empty() && files.is_empty() && io::stdin().is_terminal();
    let mut out = BufWriter::new(io::stdout());
    let mut errors = io::stderr();
    let interrupt = interactive.then(Interrupt::default);
    let link = Link::connect(text("server"), interrupt.clone());
    let link = link.map_err(|error| error.to_string())?;
    let go_on = arguments.get_flag("continue-on-error");
    let mut session = Session::new(link, format, go_on, &mut out, &mut errors);
    if let Some(interrupt) = interrupt {
        interrupt.install()?;
        shell::run(&mut session, &interrupt)?;
        return Ok(ExitCode::SUCCESS);
    }
    input::run_all(&mut session, &texts, &files)?;
    Ok(if session.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
