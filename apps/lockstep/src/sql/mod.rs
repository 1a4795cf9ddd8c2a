//! `lockstep sql`: SQL and the shell's own commands from the command line, a file, standard input
//! or a terminal.

mod arguments;
mod command;
mod completion;
mod describe;
pub(crate) mod format;
mod place;
mod script;
mod session;
mod shell;

use clap::{Arg, ArgAction, ArgMatches, Command};
use format::Format;
use lockstep_client::{ConnectOptions, Connection};
use script::ScriptReader;
use session::{Flow, Session};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal};
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
                .help("The host to talk to"),
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
                .help("Run the statements of a file, behind those of -e"),
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
                .help("Go on after an error; the exit code is 1 all the same"),
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
    let connection = Connection::connect(text("server"), &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let texts: Vec<&String> = arguments.get_many("execute").into_iter().flatten().collect();
    let files: Vec<&String> = arguments.get_many("file").into_iter().flatten().collect();
    let interactive = texts.is_empty() && files.is_empty() && io::stdin().is_terminal();
    let mut out = BufWriter::new(io::stdout());
    let mut errors = io::stderr();
    let go_on = arguments.get_flag("continue-on-error") || interactive;
    let mut session = Session::new(connection, format, go_on, &mut out, &mut errors);
    if interactive {
        shell::run(&mut session, text("server"))?;
        return Ok(ExitCode::SUCCESS);
    }
    run_inputs(&mut session, &texts, &files)?;
    Ok(if session.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_inputs(
    session: &mut Session<'_>,
    texts: &[&String],
    files: &[&String],
) -> Result<(), String> {
    if texts.is_empty() && files.is_empty() {
        run_input(session, "stdin", &mut io::stdin().lock())?;
        return Ok(());
    }
    for text in texts {
        if run_input(session, "-e", &mut text.as_bytes())? == Flow::Stop {
            return Ok(());
        }
    }
    for file in files {
        let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
        if run_input(session, file, &mut BufReader::new(opened))? == Flow::Stop {
            return Ok(());
        }
    }
    Ok(())
}

/// Statements that are read before the first of them runs, so that neighbouring schema changes
/// can go together.
const PIECES_AHEAD: usize = 256;

fn run_input(
    session: &mut Session<'_>,
    source: &str,
    input: &mut dyn BufRead,
) -> Result<Flow, String> {
    let mut reader = ScriptReader::default();
    let mut pieces = Vec::new();
    let mut line = String::new();
    loop {
        line.clear();
        let read = input.read_line(&mut line).map_err(|error| format!("{source}: {error}"))?;
        if read == 0 {
            break;
        }
        pieces.extend(reader.push_line(line.trim_end_matches(['\n', '\r'])));
        if pieces.len() >= PIECES_AHEAD {
            if session.run(source, &pieces) == Flow::Stop {
                return Ok(Flow::Stop);
            }
            pieces.clear();
        }
    }
    let rest = reader.finish();
    pieces.extend(rest.as_ref().ok().into_iter().flatten().cloned());
    let flow = session.run(source, &pieces);
    if let (Flow::Continue, Err(error)) = (flow, rest) {
        let offset = Some(error.offset);
        session.report_text(&place::render(source, &error.piece, offset, &error.message));
        return Ok(Flow::Stop);
    }
    Ok(flow)
}
