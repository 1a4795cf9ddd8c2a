//! `lockstep admin pause|resume|quiesce|shutdown`: through the admin port of a host.

use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command};
use lockstep_client::rows::Table;
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::Value;
use std::process::ExitCode;

pub fn commands() -> Vec<Command> {
    let server = || {
        Arg::new("server")
            .long("server")
            .value_name("HOST:PORT")
            .default_value("127.0.0.1:21211")
            .help("The admin port of the host")
    };
    let save = Arg::new("save").long("save").action(ArgAction::SetTrue).help(
        "Save a snapshot into the host's directory first, so that the next start has no log to \
         replay",
    );
    let cancel =
        Arg::new("cancel").long("cancel").action(ArgAction::SetTrue).conflicts_with("save").help(
            "Cancel a shutdown that was prepared and not finished: the host accepts calls again",
        );
    vec![
        Command::new("pause").about("Make the host read-only, except for administrators"),
        Command::new("resume").about("Let clients write again"),
        Command::new("quiesce").about("Wait until all changes that were answered are on disk"),
        Command::new("shutdown").about("Shut the host down cleanly").arg(save).arg(cancel),
    ]
    .into_iter()
    .map(|command| command.arg(server()))
    .collect()
}

pub fn run(what: &str, arguments: &ArgMatches) -> Result<ExitCode, String> {
    let server = arguments.get_one::<String>("server").map_or("", String::as_str);
    let mut connection = Connection::connect(server, &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let nothing = ParameterWriter::default();
    let said = match what {
        "pause" => {
            call(&mut connection, "@Pause", &nothing)?;
            "paused: clients only read\n"
        }
        "resume" => {
            call(&mut connection, "@Resume", &nothing)?;
            "resumed: clients write again\n"
        }
        "quiesce" => {
            call(&mut connection, "@Quiesce", &nothing)?;
            "quiesced: everything that was answered is on disk, if the host has a directory\n"
        }
        _ if arguments.get_flag("cancel") => {
            call(&mut connection, "@CancelShutdown", &nothing)?;
            "cancelled: the host accepts calls again\n"
        }
        _ if arguments.get_flag("save") => {
            shut_down_saved(&mut connection)?;
            "stopped, with a snapshot\n"
        }
        _ => {
            shut_down(&mut connection, &nothing)?;
            "stopped\n"
        }
    };
    write_out(said)?;
    Ok(ExitCode::SUCCESS)
}

fn call(
    connection: &mut Connection,
    procedure: &str,
    parameters: &ParameterWriter,
) -> Result<Vec<Table>, String> {
    let response = connection.call(procedure, parameters).map_err(|error| error.to_string())?;
    let view = response.view();
    if !view.is_success() {
        return Err(view.status_text.unwrap_or("the host gave no reason").to_string());
    }
    response.tables().map_err(|error| error.to_string())
}

/// A host that stops answers nobody: that the connection closes is how it says yes.
fn shut_down(connection: &mut Connection, parameters: &ParameterWriter) -> Result<(), String> {
    match connection.call("@Shutdown", parameters) {
        Err(_) => Ok(()),
        Ok(response) => {
            let view = response.view();
            Err(view.status_text.unwrap_or("the host gave no reason").to_string())
        }
    }
}

/// No more work is taken, what is there is saved, and the host stops. If it cannot be saved, the
/// host goes on as before.
fn shut_down_saved(connection: &mut Connection) -> Result<(), String> {
    let nothing = ParameterWriter::default();
    let prepared = call(connection, "@PrepareShutdown", &nothing)?;
    let first = prepared.first().and_then(|table| table.rows.first()?.first());
    let Some(Value::Int(number)) = first else {
        return Err("@PrepareShutdown gave no number".to_string());
    };
    let mut parameters = ParameterWriter::default();
    parameters.bigint(*number);
    let stopped =
        call(connection, "@Quiesce", &nothing).and_then(|_| shut_down(connection, &parameters));
    stopped.map_err(|problem| match call(connection, "@CancelShutdown", &nothing) {
        Ok(_) => format!("{problem} The host goes on."),
        Err(also) => format!("{problem} It takes no work now: {also}"),
    })
}
