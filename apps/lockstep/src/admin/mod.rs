//! `lockstep admin`: what an administrator asks of a running host. Paths are those of the host's
//! machine.

pub mod cluster;
mod hosts;
mod leaders;
mod operate;
mod resize;

use crate::load::server_argument;
use crate::output::write_out;
use crate::sql::format::{Format, render};
use clap::{Arg, ArgAction, ArgMatches, Command};
use lockstep_client::rows::Table;
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::{Datum, SqlType, Value};
use serde_json::{Map, json};
use std::process::ExitCode;

pub fn command() -> Command {
    let name = || Arg::new("nonce").value_name("NAME").required(true).help("The snapshot's name");
    let folder = || {
        Arg::new("path")
            .value_name("DIR")
            .required(true)
            .help("A folder with snapshots, on the host's machine")
    };
    let names = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("TABLE,...").value_delimiter(',').help(help)
    };
    let only = || names("tables", "These tables only [default: all]").conflicts_with("skip-tables");
    let skipped = || names("skip-tables", "All tables but these");
    let save = Command::new("save")
        .about("Save a snapshot while the host serves calls")
        .arg(name())
        .arg(
            Arg::new("path")
                .long("path")
                .value_name("DIR")
                .help("Where to, on the host's machine [default: the host's own directory]"),
        )
        .arg(only())
        .arg(skipped())
        .arg(
            Arg::new("csv")
                .long("csv")
                .action(ArgAction::SetTrue)
                .help("As text that `lockstep load csv` takes; it cannot be restored"),
        )
        .arg(
            Arg::new("no-wait")
                .long("no-wait")
                .action(ArgAction::SetTrue)
                .help("Return once it has begun; `status` shows its progress"),
        );
    let restore = Command::new("restore")
        .about("Restore a snapshot's rows, into empty tables or beside others")
        .arg(folder())
        .arg(name())
        .arg(only())
        .arg(skipped());
    let commands = [
        save,
        Command::new("status")
            .about("Results of the last snapshots, and the progress of a running one"),
        Command::new("scan").about("List the snapshots of a folder").arg(folder()),
        restore,
        Command::new("delete").about("Delete a snapshot's files").arg(folder()).arg(name()),
    ];
    let with_server = commands.map(|command| command.arg(server_argument()));
    let snapshot = Command::new("snapshot")
        .about("Save, list, restore and delete snapshots")
        .subcommand_required(true)
        .subcommands(with_server);
    Command::new("admin")
        .about("Administer a running host")
        .subcommand_required(true)
        .subcommand(snapshot)
        .subcommand(cluster::command())
        .subcommand(hosts::command())
        .subcommands(operate::commands())
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    match arguments.subcommand() {
        Some(("snapshot", arguments)) => run_snapshot(arguments),
        Some(("cluster", arguments)) => cluster::run(arguments),
        Some(("host", arguments)) => {
            let (what, arguments) = arguments.subcommand().expect("clap requires a subcommand");
            hosts::run(what, arguments)
        }
        Some((what, arguments)) => operate::run(what, arguments),
        None => unreachable!("a subcommand is required"),
    }
}

fn run_snapshot(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let Some((what, arguments)) = arguments.subcommand() else {
        unreachable!("a subcommand is required")
    };
    let text = |name: &str| arguments.get_one::<String>(name).map_or("", String::as_str);
    let mut parameters = ParameterWriter::default();
    let procedure = match what {
        "save" => {
            parameters.text(&request(arguments, "save"));
            "@SnapshotSave"
        }
        "restore" => {
            parameters.text(&request(arguments, "restore"));
            "@SnapshotRestore"
        }
        "status" => {
            parameters.text("SNAPSHOTSUMMARY").scalar(SqlType::TinyInt, Datum::Int(0));
            "@Statistics"
        }
        "scan" => {
            parameters.text(text("path"));
            "@SnapshotScan"
        }
        _ => {
            parameters.array(SqlType::Varchar, &[Datum::Text(text("path"))]);
            parameters.array(SqlType::Varchar, &[Datum::Text(text("nonce"))]);
            "@SnapshotDelete"
        }
    };
    let mut connection = Connection::connect(text("server"), &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let response = connection.call(procedure, &parameters).map_err(|error| error.to_string())?;
    let view = response.view();
    if !view.is_success() {
        return Err(view.status_text.unwrap_or("the host gave no reason").to_string());
    }
    let tables = response.tables().map_err(|error| error.to_string())?;
    let text: String = tables.iter().map(|table| render(table, Format::Table)).collect();
    write_out(&text)?;
    Ok(if tables.iter().any(has_failure) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The JSON of `@SnapshotSave` and `@SnapshotRestore`.
fn request(arguments: &ArgMatches, what: &str) -> String {
    let mut request = Map::new();
    let text = |name: &str| arguments.get_one::<String>(name);
    request.insert("nonce".to_string(), json!(text("nonce")));
    if let Some(path) = text("path") {
        request.insert("path".to_string(), json!(path));
    }
    for (name, key) in [("tables", "tables"), ("skip-tables", "skiptables")] {
        if let Some(names) = arguments.get_many::<String>(name) {
            request.insert(key.to_string(), json!(names.collect::<Vec<_>>()));
        }
    }
    if what == "save" {
        request.insert("block".to_string(), json!(!arguments.get_flag("no-wait")));
        let format = if arguments.get_flag("csv") { "csv" } else { "native" };
        request.insert("format".to_string(), json!(format));
    }
    serde_json::Value::Object(request).to_string()
}

/// Whether a table of results tells of something that failed.
fn has_failure(table: &Table) -> bool {
    let Some(place) = table.names.iter().position(|name| name == "RESULT") else { return false };
    let failed =
        |row: &Vec<Value>| matches!(&row[place], Value::Text(text) if **text == *"FAILURE");
    table.rows.iter().any(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_host_reads() {
        let request = |words: &[&str]| {
            let given = [&["admin", "snapshot"], words].concat();
            let matches = command().try_get_matches_from(given).expect("a command line");
            let (_, matches) = matches.subcommand().expect("snapshot");
            let (what, matches) = matches.subcommand().expect("what to do");
            request(matches, what)
        };
        assert_eq!(
            request(&["save", "monday", "--tables", "a,b", "--no-wait"]),
            r#"{"block":false,"format":"native","nonce":"monday","tables":["a","b"]}"#
        );
        assert_eq!(
            request(&["restore", "/backup", "monday", "--skip-tables", "c"]),
            r#"{"nonce":"monday","path":"/backup","skiptables":["c"]}"#
        );
    }
}
