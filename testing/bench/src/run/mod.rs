//! Runs a workload: makes its tables, fills them, drives its sessions, checks what is left.

pub mod drive;
pub mod embedded;
pub mod figures;
pub mod fill;
pub mod plots;
pub mod ramp;
pub mod report;
#[cfg(test)]
mod same_rows;
mod shape;
pub mod study;
#[cfg(test)]
mod tests;
pub mod usage;
mod watch;
pub mod workers;

use crate::report::Progress;
use drive::{DriveOptions, Share, drive};
use figures::Figures;
use fill::{FillProgress, Filler};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter, rows::Table};
use lockstep_types::{Datum, SqlType, Value};
use lockstep_workloads::{Check, Database, Found, Workload};
use ramp::{Ramp, RampStep};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use workers::{Team, WorkerFacts, WorkerOptions, Workers};

/// How fast calls come.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// As fast as each client has its answer.
    Closed,
    /// N transactions per second.
    Rate(f64),
    /// A rate that rises until the database cannot follow.
    Ramp(Ramp),
}

/// How to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Servers; none: inside this process, without sockets.
    pub servers: Vec<String>,
    /// Connections.
    pub connections: usize,
    /// Clients: each has one call in flight.
    pub clients: usize,
    /// How fast.
    pub pace: Pace,
    /// Transactions of a rate or ramp that are due at once; 1 spreads them evenly.
    pub burst: u64,
    /// The measured time; of a ramp, that of each step.
    pub duration: Duration,
    /// What runs before.
    pub warmup: Duration,
    /// What the calls follow from.
    pub seed: u64,
    /// Use the rows that are there, and fail where there are none.
    pub no_load: bool,
    /// Where the load runs.
    pub workers: WorkerOptions,
    /// Keep the due time and the latency of each transaction of this kind; workers keep none.
    pub keep_calls_of: Option<usize>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// What was measured; of a ramp, the last good step.
    pub figures: Figures,
    /// The checks after it.
    pub checks: Vec<Check>,
    /// Rows that were loaded, and how long that took.
    pub loaded: Option<(u64, Duration)>,
    /// The steps of a ramp.
    pub steps: Vec<RampStep>,
    /// What the first server says of itself: name and value.
    pub server: Vec<(String, String)>,
    /// The workers that made the load, where it was not this process.
    pub workers: Vec<WorkerFacts>,
}

impl RunResult {
    /// Whether the run was whole, no transaction failed and all checks hold.
    pub fn is_good(&self) -> bool {
        self.figures.errors() == 0
            && self.figures.lost_connections == 0
            && !self.figures.interrupted
            && self.checks.iter().all(|check| check.holds)
    }
}

/// What is told while a run goes on.
pub enum Report<'a> {
    /// Rows are loaded.
    Fill(FillProgress),
    /// Calls are made.
    Run(&'a Progress),
    /// The checks are asked.
    Checking,
}

/// The rows of a query that has one table.
fn only_rows(tables: Vec<Table>, sql: &str) -> Result<Vec<Vec<Value>>, String> {
    match tables.into_iter().next() {
        Some(table) => Ok(table.rows),
        None => Err(format!("no table came of: {sql}")),
    }
}

fn connect(server: &str) -> Result<Connection, String> {
    Connection::connect(server, &ConnectOptions::default()).map_err(|error| error.to_string())
}

/// A database with a connection.
struct Server(Connection);

impl Server {
    /// Its version and its partitions, as far as it tells.
    fn facts(&mut self) -> Vec<(String, String)> {
        let mut parameters = ParameterWriter::default();
        parameters.text("OVERVIEW");
        let answer = self.0.call("@SystemInformation", &parameters);
        let tables = answer.and_then(|answer| answer.tables()).unwrap_or_default();
        let rows = tables.into_iter().flat_map(|table| table.rows);
        let version = rows.filter_map(|row| match row.as_slice() {
            [_, Value::Text(key), Value::Text(value)] if &**key == "LOCKSTEPVERSION" => {
                Some(("version".to_string(), value.to_string()))
            }
            _ => None,
        });
        let mut facts: Vec<(String, String)> = version.take(1).collect();
        if let Ok(keys) = self.partition_keys() {
            facts.push(("partitions".to_string(), keys.len().to_string()));
        }
        facts
    }

    /// Loads the classes of a jar.
    fn load_classes(&mut self, jar: &[u8]) -> Result<(), String> {
        let mut parameters = ParameterWriter::default();
        parameters.scalar(SqlType::Varbinary, Datum::Bytes(jar));
        parameters.scalar(SqlType::Varchar, Datum::Null);
        let loaded = self.0.call("@UpdateClasses", &parameters).and_then(|answer| answer.tables());
        loaded.map(|_| ()).map_err(|error| format!("the server takes no classes: {error}"))
    }
}

impl Database for Server {
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Value>>, String> {
        only_rows(self.0.sql(sql).map_err(|error| error.to_string())?, sql)
    }

    fn partition_keys(&mut self) -> Result<Vec<i64>, String> {
        let mut parameters = ParameterWriter::default();
        parameters.text("INTEGER");
        let answer = self.0.call("@GetPartitionKeys", &parameters);
        let tables =
            answer.and_then(|answer| answer.tables()).map_err(|error| error.to_string())?;
        let key = |row: &Vec<Value>| match row.as_slice() {
            [Value::Int(partition), Value::Int(key)] => Ok((*partition, *key)),
            _ => Err("@GetPartitionKeys answered without keys".to_string()),
        };
        let rows = only_rows(tables, "@GetPartitionKeys")?;
        let mut keys: Vec<(i64, i64)> = rows.iter().map(key).collect::<Result<_, _>>()?;
        keys.sort_unstable();
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }
}

/// Sets the workload up, runs it, and checks it.
///
/// # Errors
/// A server cannot be reached at the beginning, refuses the schema or the rows, or holds a
/// database of another scale.
pub fn run(
    workload: &mut dyn Workload,
    options: &RunOptions,
    stop: &AtomicBool,
    report: &mut dyn FnMut(&Report<'_>),
) -> Result<RunResult, String> {
    match options.servers.first() {
        None => embedded::run(workload, options, stop, report),
        Some(server) => run_at_servers(workload, options, server, stop, report),
    }
}

/// Holds what a server has to a workload's checks; nothing is called or changed.
///
/// # Errors
/// The server cannot be reached, or has no rows of the workload, or of another scale.
pub fn check_only(workload: &mut dyn Workload, server: &str) -> Result<Vec<Check>, String> {
    let connection = Connection::connect(server, &ConnectOptions::default());
    let mut database = Server(connection.map_err(|error| error.to_string())?);
    if workload.survey(&mut database)? != Found::Rows {
        return Err(format!("the server has no rows of {} to check", workload.name()));
    }
    workload.begin(&mut database)?;
    let counts = vec![0; workload.counters().len()];
    workload.check(&mut database, &counts, true)
}

fn run_at_servers(
    workload: &mut dyn Workload,
    options: &RunOptions,
    server: &str,
    stop: &AtomicBool,
    report: &mut dyn FnMut(&Report<'_>),
) -> Result<RunResult, String> {
    check_workers(options)?;
    let mut database = Server(connect(server)?);
    let loaded = set_up(&mut database, &*workload, options, server, stop, report)?;
    workload.begin(&mut database)?;
    let server_facts = database.facts();
    let mut progress = |state: &Progress| report(&Report::Run(state));
    let drive_options = DriveOptions {
        servers: options.servers.clone(),
        connections: options.connections,
        clients: options.clients,
        rate_per_s: None,
        burst: options.burst,
        duration: options.duration,
        warmup: options.warmup,
        seed: options.seed,
        server_processes: usage::processes_of(&options.servers),
        first_session: 0,
        share: Share::WHOLE,
        keep_calls_of: options.keep_calls_of,
    };
    let mut team = match &options.workers.workers {
        Workers::Own => None,
        _ => Some(Team::gather(&options.workers, server, workload.transactions())?),
    };
    let workers = team.as_ref().map(Team::facts).unwrap_or_default();
    let mut drive_at = |rate_per_s, seed| {
        let options = DriveOptions { rate_per_s, seed, ..drive_options.clone() };
        match &mut team {
            None => drive(&*workload, &options, stop, &mut progress),
            Some(team) => team.drive(&options, stop, &mut progress),
        }
    };
    let (figures, steps) = match &options.pace {
        Pace::Closed => (drive_at(None, options.seed)?, Vec::new()),
        Pace::Rate(rate) => (drive_at(Some(*rate), options.seed)?, Vec::new()),
        Pace::Ramp(ramp) => ramp::climb(ramp, options.seed, &mut drive_at)?,
    };
    report(&Report::Checking);
    let checks = check(workload, &figures, server);
    Ok(RunResult { figures, checks, loaded, steps, server: server_facts, workers })
}

/// Makes what a run needs at a server; the rows that were loaded, and how long that took.
fn set_up(
    database: &mut Server,
    workload: &dyn Workload,
    options: &RunOptions,
    server: &str,
    stop: &AtomicBool,
    report: &mut dyn FnMut(&Report<'_>),
) -> Result<Option<(u64, Duration)>, String> {
    let classes = workload.classes()?;
    shape::compare(database, workload)?;
    let found = workload.survey(database)?;
    refuse_missing(workload, found, options)?;
    // Before there are tables: the host may have no Java.
    if let Some(jar) = classes {
        database.load_classes(jar)?;
    }
    if found == Found::Nothing {
        for text in workload.schema() {
            database.0.sql(&text).map_err(|error| error.to_string())?;
        }
    }
    for text in workload.procedures() {
        database.0.sql(&text).map_err(|error| error.to_string())?;
    }
    if found == Found::Rows {
        return Ok(None);
    }
    let begun = Instant::now();
    let mut progress = |state| report(&Report::Fill(state));
    let mut filler = Filler::connect(server, workload.tables(), stop, &mut progress)?;
    workload.fill(&mut filler)?;
    Ok(Some((filler.finish()?, begun.elapsed())))
}

/// Fails where a worker would have nothing to do.
fn check_workers(options: &RunOptions) -> Result<(), String> {
    let workers = match &options.workers.workers {
        Workers::Own => 1,
        Workers::Started(count) => *count,
        Workers::At(addresses) => addresses.len(),
    };
    match options.clients < workers {
        true => Err(format!("{workers} workers need as many clients, not {}", options.clients)),
        false => Ok(()),
    }
}

/// Fails where rows are needed that are not there.
fn refuse_missing(
    workload: &dyn Workload,
    found: Found,
    options: &RunOptions,
) -> Result<(), String> {
    let name = workload.name();
    match (options.no_load, found) {
        (false, _) | (true, Found::Rows) => Ok(()),
        (true, Found::Nothing) => {
            Err(format!("the server has no tables of {name}; run without --no-load"))
        }
        (true, Found::Tables) => {
            Err(format!("the tables of {name} have no rows; run without --no-load"))
        }
    }
}

/// The checks; a server that cannot be asked any more is a check that does not hold.
fn check(workload: &dyn Workload, figures: &Figures, server: &str) -> Vec<Check> {
    let checks = connect(server).and_then(|connection| {
        workload.check(&mut Server(connection), &figures.counts, figures.complete)
    });
    checks.unwrap_or_else(unasked)
}

/// The check that stands for those that could not be asked.
fn unasked(error: String) -> Vec<Check> {
    let name = "the checks can be asked".to_string();
    vec![Check { name, holds: false, detail: error }]
}
