//! A rolling restart under load: three hosts with default settings are stopped in order, one after
//! the other, and started again; what calls notice of it.

use crate::Plan;
use crate::failover::{FINISH, HOSTS, PARTITIONS, RATE_PER_S, WATCH_INTERVAL, shape};
use lockstep_bench::cluster::ClusterProcesses;
use lockstep_bench::cluster::load::ClusterLoad;
use lockstep_bench::cluster::watch::{Watch, read_routing};
use lockstep_bench::voter::{self, Form};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter, Routing};
use lockstep_types::Value;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Before the first host is stopped, and after the last one is back.
const QUIET: Duration = Duration::from_millis(500);
/// How long a step may take: a host stops, or is ready, or has its copies.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// What calls noticed of a rolling restart.
#[derive(Debug, Clone, Copy)]
pub struct Rolling {
    /// Calls that failed, or of which nobody knows.
    pub failed: f64,
    /// The longest time in which a partition answered no call, in milliseconds.
    pub gap_ms: f64,
    /// How long it took, in seconds.
    pub took_s: f64,
}

impl Rolling {
    /// All of it.
    pub fn json(&self) -> serde_json::Value {
        json!({ "failed": self.failed, "gap_ms": self.gap_ms, "took_s": self.took_s })
    }
}

/// The load, and what tells it where calls go.
struct Loaded {
    load: ClusterLoad,
    topology: Watch<Arc<Routing>>,
    /// Whether all partitions have all of their copies in sync.
    copies: Watch<bool>,
}

/// Restarts all hosts once.
///
/// # Errors
/// A host does not stop, start or load its copies, or acknowledged votes are lost.
pub fn restart_all(plan: &Plan) -> Result<Rolling, String> {
    let text = |error: lockstep_client::ClientError| error.to_string();
    let mut processes = ClusterProcesses::start(&shape(plan))?;
    let addresses = processes.addresses();
    let connect = |to: &str| Connection::connect(to, &ConnectOptions::default()).map_err(text);
    let mut connection = connect(&addresses[0])?;
    voter::set_up(&mut connection, Form::Native).map_err(text)?;
    let routing = Arc::new(read_routing(&mut connection)?);
    let watched = addresses.clone();
    let mut loaded = Loaded {
        load: ClusterLoad::connect(&addresses, routing, PARTITIONS, RATE_PER_S).map_err(text)?,
        topology: Watch::start(watched.clone(), WATCH_INTERVAL, |connection| {
            read_routing(connection).map(Arc::new)
        }),
        copies: Watch::start(watched, WATCH_INTERVAL / 4, has_all_copies),
    };
    loaded.run_for(QUIET)?;
    let begun = Instant::now();
    for victim in 0..HOSTS as usize {
        loaded.restart(&mut processes, victim)?;
    }
    let took_s = begun.elapsed().as_secs_f64();
    loaded.run_for(QUIET)?;
    let gap_ms = loaded.load.longest_gap().lasted.as_secs_f64() * 1e3;
    loaded.load.finish(FINISH).map_err(text)?;
    let counts = loaded.load.counts();
    let mut connection = connect(&addresses[0])?;
    let counted = voter::vote_count(&mut connection).map_err(text)?;
    if let Some(failure) = loaded.load.first_failure() {
        eprintln!("  the first call that failed: {failure}");
    }
    match (counts.lost(counted), counts.doubled(counted)) {
        (0, 0) => {
            let failed = (counts.failed + counts.unknown) as f64;
            eprintln!(
                "  rolling restart: {} calls, {failed} failed, longest gap {gap_ms:.0} ms, \
                 {took_s:.1} s",
                counts.sent
            );
            Ok(Rolling { failed, gap_ms, took_s })
        }
        (lost, doubled) => Err(format!("{lost} votes are lost, {doubled} doubled: {counts:?}")),
    }
}

impl Loaded {
    fn step(&mut self) -> Result<(), String> {
        if let Some(host) = self.load.step().map_err(|error| error.to_string())? {
            self.topology.ask(host);
        }
        if let Some(routing) = self.topology.latest() {
            self.load.set_routing(Arc::clone(&routing));
        }
        Ok(())
    }

    /// Stops a host in order and starts it again; it has its copies when this returns.
    fn restart(&mut self, processes: &mut ClusterProcesses, victim: usize) -> Result<(), String> {
        let other = processes.hosts[(victim + 1) % HOSTS as usize].admin.to_string();
        let mut stop = Some(std::thread::spawn(move || stop_host(&other, victim)));
        self.run_until(&format!("host {victim} has not stopped"), || {
            if let Some(stop) = stop.take_if(|stop| stop.is_finished()) {
                stop.join().map_err(|_| "the thread that stops a host has ended".to_string())??;
            }
            let has_ended = processes.hosts[victim].has_ended();
            has_ended.map(|it| it && stop.is_none()).map_err(|error| error.to_string())
        })?;
        let ready = processes.restart(victim).map_err(|error| error.to_string())?;
        let host = &processes.hosts[victim];
        self.run_until(&format!("host {victim} is not ready"), || match ready.try_recv() {
            Ok((_, false)) => Err(format!("host {victim} did not start: {}", host.last_words())),
            Ok((_, true)) => Ok(true),
            Err(_) => Ok(false),
        })?;
        self.load.reconnect(victim).map_err(|error| error.to_string())?;
        self.await_copies()
    }

    fn run_for(&mut self, duration: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < duration {
            self.step()?;
        }
        Ok(())
    }

    /// Calls go on until something is done; `what` says what is wrong if it never is.
    fn run_until(
        &mut self,
        what: &str,
        mut is_done: impl FnMut() -> Result<bool, String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        while !is_done()? {
            if begun.elapsed() > STEP_LIMIT {
                return Err(format!("{what} after {STEP_LIMIT:?}"));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Calls go on until all copies are in sync, as was read after this began.
    fn await_copies(&mut self) -> Result<(), String> {
        // What was read last may be of the time before.
        self.run_for(WATCH_INTERVAL)?;
        let begun = Instant::now();
        while self.copies.latest().is_none_or(|has_all| !*has_all) {
            if begun.elapsed() > STEP_LIMIT {
                return Err(format!("copies are not in sync within {STEP_LIMIT:?}"));
            }
            self.step()?;
        }
        Ok(())
    }
}

/// Asks a host to stop another one in order.
fn stop_host(admin: &str, victim: usize) -> Result<(), String> {
    let text = |error: lockstep_client::ClientError| error.to_string();
    let mut connection = Connection::connect(admin, &ConnectOptions::default()).map_err(text)?;
    let mut parameters = ParameterWriter::default();
    parameters.integer(victim as i32);
    let response = connection.call("@StopNode", &parameters).map_err(text)?;
    let response = response.view();
    match response.is_success() {
        true => Ok(()),
        false => Err(response.status_text.unwrap_or("@StopNode failed").to_string()),
    }
}

/// Whether all partitions have all of their copies in sync.
///
/// # Errors
/// The host does not answer.
pub fn has_all_copies(connection: &mut Connection) -> Result<bool, String> {
    let mut parameters = ParameterWriter::default();
    parameters.text("TOPO").integer(0);
    let response = connection.call("@Statistics", &parameters).map_err(|it| it.to_string())?;
    let tables = response.tables().map_err(|error| error.to_string())?;
    // The partition, its copies, its leader. The role of the coordinator is listed, too.
    let copies = |row: &Vec<Value>| match &row[..] {
        [Value::Int(partition), Value::Text(copies), ..] if *partition < PARTITIONS as i64 => {
            copies.split(',').count()
        }
        _ => 0,
    };
    let whole = tables.first().map(|table| table.rows.iter().filter(|row| copies(row) > 1).count());
    Ok(whole == Some(PARTITIONS))
}
