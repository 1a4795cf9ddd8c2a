//! Our host as the figures need it: started with or without a directory, on one core or all,
//! stopped hard, and asked what it holds.

use crate::{Plan, SERVER_CORE};
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_client::rows::Table;
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::{Datum, SqlType, Value as SqlValue};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a host is started.
pub struct HostOptions<'a> {
    /// Where its data is; in memory only if there is none.
    pub directory: Option<&'a Path>,
    /// `sync`, `async` or `none`.
    pub durability: &'a str,
    /// Which cores it has.
    pub cores: Cores,
    /// Whether it saves snapshots by itself, too.
    pub schedule: bool,
    /// Memory that it takes before it serves.
    pub ahead_bytes: u64,
}

/// Where a host runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// On the core of the servers.
    Servers,
    /// On any.
    All,
    /// Its one site on the core of the servers, which ordinary programs do not take from it, and
    /// the rest on any.
    SiteOnServers,
}

/// Priority of a site that has its core to itself, and of a load that has.
pub const PRIORITY: u32 = 1;

/// The host's options for [`Cores::SiteOnServers`].
pub fn options_of_own_core() -> [String; 4] {
    let priority = format!("realtime_priority={PRIORITY}");
    ["--pin".to_string(), SERVER_CORE.to_string(), "--option".to_string(), priority]
}

impl<'a> HostOptions<'a> {
    /// On the core of the servers, with all its answers durable and its own snapshots.
    pub fn pinned(directory: Option<&'a Path>) -> HostOptions<'a> {
        HostOptions {
            directory,
            durability: "sync",
            cores: Cores::Servers,
            schedule: true,
            ahead_bytes: 0,
        }
    }
}

/// A host that runs.
pub struct Host {
    server: ServerProcess,
    /// What it says of its recovery.
    pub recovery: Value,
    /// From the start of the process until it served.
    pub started_in: Duration,
}

impl Host {
    /// A host with one site, on the core of the servers.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(plan: &Plan, directory: Option<&Path>) -> Result<Host, String> {
        Host::start_with(plan, &HostOptions::pinned(directory))
    }

    /// A host started so.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_with(plan: &Plan, options: &HostOptions<'_>) -> Result<Host, String> {
        let program = plan.lockstep.to_string_lossy();
        let mut command = match options.cores {
            Cores::Servers => on_core(SERVER_CORE, &program),
            Cores::All | Cores::SiteOnServers => on_all_cores(plan.cores, &program),
        };
        command.args(["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        if options.ahead_bytes > 0 {
            command.args(["--option", &format!("preallocate_bytes={}", options.ahead_bytes)]);
        }
        if options.cores == Cores::SiteOnServers {
            command.args(options_of_own_core());
        }
        match options.directory {
            None => command.args(["--sites", "1"]),
            Some(directory) => {
                command.args(["--json", "--durability", options.durability]);
                if !options.schedule {
                    command.args(["--option", "snapshot_interval_s=0"]);
                    command.args(["--option", "snapshot_log_bytes=0"]);
                }
                command.arg("--dir").arg(directory)
            }
        };
        let mut recovery = Value::Null;
        let note = |line: &str| {
            if let Ok(told) = serde_json::from_str::<Value>(line) {
                recovery = told["recovery"].clone();
            }
        };
        let begun = Instant::now();
        let server = ServerProcess::start_with_lines(command, note).map_err(|e| e.to_string())?;
        Ok(Host { server, recovery, started_in: begun.elapsed() })
    }

    /// Where it serves.
    pub fn address(&self) -> String {
        self.server.address.to_string()
    }

    /// The process.
    pub fn process(&self) -> &ServerProcess {
        &self.server
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// It does not answer.
    pub fn connect(&self) -> Result<Connection, String> {
        let options =
            ConnectOptions { call_timeout: Duration::from_secs(600), ..ConnectOptions::default() };
        Connection::connect(&self.address(), &options).map_err(|error| error.to_string())
    }

    /// A number that it says of its recovery.
    ///
    /// # Errors
    /// It does not say it.
    pub fn recovery_number(&self, name: &str) -> Result<f64, String> {
        self.recovery.pointer(name).and_then(Value::as_f64).ok_or(format!("no '{name}' is told"))
    }
}

/// A command that runs on all cores, although this program itself runs on one.
fn on_all_cores(cores: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(format!("0-{}", cores - 1)).arg(program);
    command
}

/// Makes a directory for a host of N sites.
///
/// # Errors
/// It cannot be made.
pub fn init(plan: &Plan, directory: &Path, sites: u32) -> Result<(), String> {
    let mut command = Command::new(&plan.lockstep);
    command.args(["init", "--sites", &sites.to_string(), "--dir"]).arg(directory);
    let made = command.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
    match made.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed")),
    }
}

/// Removes a directory of this run, to have the disk for the next figure.
///
/// # Errors
/// It cannot be removed.
pub fn remove(directory: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

/// Saves a snapshot and waits for it.
///
/// # Errors
/// It fails.
pub fn save_snapshot(connection: &mut Connection, nonce: &str) -> Result<(), String> {
    let mut parameters = ParameterWriter::default();
    parameters.text(&json!({ "nonce": nonce, "block": true, "format": "native" }).to_string());
    called(connection, "@SnapshotSave", &parameters)
}

/// Calls a procedure whose tables tell of failures in a column RESULT.
fn called(
    connection: &mut Connection,
    procedure: &str,
    parameters: &ParameterWriter,
) -> Result<(), String> {
    let shown = |error: lockstep_client::ClientError| format!("{procedure}: {error}");
    let response = connection.call(procedure, parameters).map_err(shown)?;
    let view = response.view();
    if !view.is_success() {
        return Err(format!("{procedure}: {}", view.status_text.unwrap_or("no reason")));
    }
    let is_failure =
        |value: &SqlValue| matches!(value, SqlValue::Text(text) if &**text == "FAILURE");
    for table in response.tables().map_err(shown)? {
        if let Some(row) = table.rows.iter().find(|row| row.iter().any(is_failure)) {
            return Err(format!("{procedure}: {row:?}"));
        }
    }
    Ok(())
}

/// The sum of a column of `@Statistics`, over all its rows.
///
/// # Errors
/// There is no such column.
pub fn statistic(connection: &mut Connection, selector: &str, name: &str) -> Result<f64, String> {
    let mut parameters = ParameterWriter::default();
    parameters.text(selector).scalar(SqlType::TinyInt, Datum::Int(0));
    let response = connection.call("@Statistics", &parameters).map_err(|e| e.to_string())?;
    let tables = response.tables().map_err(|error| error.to_string())?;
    let place = |table: &Table| table.names.iter().position(|column| column == name);
    let found = tables.iter().find_map(|table| Some((table, place(table)?)));
    let (table, place) = found.ok_or(format!("@Statistics {selector} has no {name}"))?;
    let number = |row: &Vec<SqlValue>| match row[place] {
        SqlValue::Int(number) => number as f64,
        _ => 0.0,
    };
    Ok(table.rows.iter().map(number).sum())
}

/// The folder of a directory's snapshots.
pub fn snapshots(directory: &Path) -> PathBuf {
    directory.join("snapshots")
}

/// Makes the system forget what it has of a folder's files in memory, so that they are read from
/// the disk next.
///
/// # Errors
/// `dd` cannot be run.
pub fn forget_files(folder: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    for entry in entries.flatten() {
        let mut input = std::ffi::OsString::from("if=");
        input.push(entry.path());
        let mut command = Command::new("dd");
        command.arg(input).args(["iflag=nocache", "count=0", "status=none"]);
        command.status().map_err(|error| format!("dd (of coreutils): {error}"))?;
    }
    Ok(())
}
