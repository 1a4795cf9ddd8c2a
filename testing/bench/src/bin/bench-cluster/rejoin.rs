//! A host that comes back: three hosts with K = 1 and a table with rows; one is killed, started
//! again, and loads its copies. What that takes of the processors.

use crate::Plan;
use crate::failover::{HOSTS, shape};
use crate::rolling::has_all_copies;
use lockstep_bench::cluster::ClusterProcesses;
use lockstep_client::{ConnectOptions, Connection};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a step may take: the others find the loss, or the host is ready, or has its copies.
const STEP_LIMIT: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The host that comes back.
const VICTIM: usize = 2;
/// Two numbers, and a text of 150 letters.
const SCHEMA: &str = "CREATE TABLE row_of_rejoin (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT \
                      NULL, filler VARCHAR(200)); PARTITION TABLE row_of_rejoin ON COLUMN id;";

/// What one rejoin took.
#[derive(Debug, Clone, Copy)]
pub struct Rejoin {
    /// Rows that it loaded.
    pub rows: f64,
    /// Processor time of the host that came back, from its start on, in seconds.
    pub joiner_s: f64,
    /// Of the two others meanwhile.
    pub others_s: f64,
    /// From the start of its process until all copies were in sync.
    pub took_s: f64,
    /// The most memory that it ever had.
    pub peak_bytes: f64,
}

impl Rejoin {
    /// Rows by second of processor time of the host that came back.
    pub fn rows_per_core(&self) -> f64 {
        self.rows / self.joiner_s
    }

    /// All of it.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "rows": self.rows, "joiner_cpu_s": self.joiner_s, "others_cpu_s": self.others_s,
            "took_s": self.took_s, "peak_bytes": self.peak_bytes,
        })
    }
}

/// As many rejoins of one cluster as the plan has.
///
/// # Errors
/// The hosts do not start, the rows are not loaded, or the copies do not come in sync.
pub fn all(plan: &Plan) -> Result<Vec<Rejoin>, String> {
    if plan.rejoins == 0 {
        return Ok(Vec::new());
    }
    let text = |error: lockstep_client::ClientError| error.to_string();
    let mut processes = ClusterProcesses::start(&shape(plan))?;
    let address = processes.addresses()[0].clone();
    let mut connection = Connection::connect(&address, &ConnectOptions::default()).map_err(text)?;
    connection.sql(SCHEMA).map_err(text)?;
    fill(plan, &address).map_err(|error| format!("the rows are not loaded: {error}"))?;
    let mut rejoins = Vec::new();
    for number in 1..=plan.rejoins {
        let rejoin = rejoin(plan, &mut processes, &mut connection)?;
        eprintln!(
            "  rejoin {number}: {:.0} rows in {:.1} s, {:.2} s of the host, {:.2} s of the others",
            rejoin.rows, rejoin.took_s, rejoin.joiner_s, rejoin.others_s
        );
        rejoins.push(rejoin);
    }
    Ok(rejoins)
}

/// Loads the rows with `lockstep load`.
fn fill(plan: &Plan, address: &str) -> io::Result<()> {
    let mut load = Command::new(&plan.server)
        .args(["load", "csv", "--server", address, "--table", "row_of_rejoin", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let filler = "x".repeat(150);
    let mut lines = BufWriter::new(load.stdin.take().expect("it is piped"));
    for id in 0..plan.rejoin_rows {
        writeln!(lines, "{id},{},{filler}", id % 1000)?;
    }
    drop(lines.into_inner()?);
    match load.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("lockstep load failed")),
    }
}

fn rejoin(
    plan: &Plan,
    processes: &mut ClusterProcesses,
    connection: &mut Connection,
) -> Result<Rejoin, String> {
    let text = |error: io::Error| error.to_string();
    processes.hosts[VICTIM].kill().map_err(text)?;
    await_copies(connection, false)?;
    let others = |processes: &ClusterProcesses| {
        let seconds = (0..VICTIM).map(|host| processes.hosts[host].thread_seconds(""));
        seconds.sum::<io::Result<f64>>().map_err(text)
    };
    let before_s = others(processes)?;
    let begun = Instant::now();
    let ready = processes.restart(VICTIM).map_err(text)?;
    match ready.recv_timeout(STEP_LIMIT) {
        Ok((_, true)) => {}
        _ => {
            let words = processes.hosts[VICTIM].last_words();
            return Err(format!("host {VICTIM} did not start: {words}"));
        }
    }
    await_copies(connection, true)?;
    let host = &processes.hosts[VICTIM];
    Ok(Rejoin {
        // Each partition is at two of the hosts, and each host has as many copies.
        rows: f64::from(plan.rejoin_rows) * 2.0 / f64::from(HOSTS),
        joiner_s: host.thread_seconds("").map_err(text)?,
        others_s: others(processes)? - before_s,
        took_s: begun.elapsed().as_secs_f64(),
        peak_bytes: host.peak_resident_bytes().map_err(text)? as f64,
    })
}

/// Waits until all copies are in sync, or until one is not. A call that the loss of a host
/// interrupts is made again.
fn await_copies(connection: &mut Connection, wanted: bool) -> Result<(), String> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < STEP_LIMIT {
        match has_all_copies(connection) {
            Ok(has_all) if has_all == wanted => return Ok(()),
            Ok(_) => {}
            Err(problem) => last = problem,
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(format!("copies in sync are not {wanted} within {STEP_LIMIT:?}: {last}"))
}
