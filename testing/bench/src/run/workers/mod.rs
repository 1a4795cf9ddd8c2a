//! Load generators as several processes: a coordinator prepares the database, its workers drive a
//! share of the sessions each, from a common instant, and their figures are added.
//!
//! All speak over TCP: workers that the coordinator starts on its own machine, and those that were
//! started elsewhere (`lockstep bench worker`). The common instant is told by the worker's own
//! clock, whose distance was measured by the quickest of a few round trips.

pub mod serve;
#[cfg(test)]
mod tests;
mod wire;

use super::drive::{DriveOptions, Share};
use super::figures::Figures;
use crate::process::ServerProcess;
use crate::report::Progress;
use serde_json::{Value, json};
use std::io::BufReader;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::{options_message, read_figures, read_progress, receive, send};

/// The most workers of a run.
pub const MAX_WORKERS: usize = 64;
/// Round trips by which a clock's distance is measured.
const CLOCK_ROUNDS: u32 = 9;
/// Between the last worker's word that it is connected and the common start.
const LEAD: Duration = Duration::from_millis(50);
/// How long a worker may take to answer, beside the time that it drives.
const PATIENCE: Duration = Duration::from_secs(120);
/// Messages of all workers that wait to be handled.
const MAX_WAITING: usize = 256;
/// One wait for a message.
const WAIT: Duration = Duration::from_millis(50);

/// Where load generators run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Workers {
    /// In this process, on this thread.
    #[default]
    Own,
    /// In N processes that are started here.
    Started(usize),
    /// At these addresses.
    At(Vec<String>),
}

/// What workers need beside how to drive.
#[derive(Debug, Clone, Default)]
pub struct WorkerOptions {
    /// Where they are.
    pub workers: Workers,
    /// The command line that makes the workload.
    pub arguments: Vec<String>,
    /// A clock further apart is warned of.
    pub clock_limit: Duration,
}

/// A worker, for reports.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerFacts {
    /// Its address.
    pub address: String,
    /// What its clock is ahead of this one's; `None` on this machine.
    pub clock_ahead_us: Option<i64>,
    /// The round trip by which that was measured: the distance may be wrong by half of it.
    pub round_trip_us: u64,
    /// It is further apart than the limit.
    pub apart: bool,
}

/// Microseconds since 1970 by this machine's clock.
pub(crate) fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

struct Link {
    stream: TcpStream,
    facts: WorkerFacts,
    /// A worker on this machine, which ends with this.
    _process: Option<ServerProcess>,
}

/// Connected workers with the workload prepared.
pub struct Team {
    links: Vec<Link>,
    /// Which worker says what; `None` when it is gone.
    messages: Receiver<(usize, Option<Value>)>,
    names: Vec<&'static str>,
}

impl Team {
    /// Starts workers or connects to them, compares clocks, and has them prepare the workload, of
    /// which the transactions are named. `program` is this binary.
    ///
    /// # Errors
    /// A worker cannot be started or reached, or cannot prepare the workload.
    pub fn gather(
        options: &WorkerOptions,
        server: &str,
        names: &[&'static str],
    ) -> Result<Team, String> {
        let (sender, messages) = sync_channel(MAX_WAITING);
        let mut team = Team { links: Vec::new(), messages, names: names.to_vec() };
        let count = match &options.workers {
            Workers::Own => 0,
            Workers::Started(count) => *count,
            Workers::At(addresses) => addresses.len(),
        };
        if count == 0 || count > MAX_WORKERS {
            return Err(format!("{count} workers: there may be 1 to {MAX_WORKERS}"));
        }
        for number in 0..count {
            let (address, process) = match &options.workers {
                Workers::At(addresses) => (addresses[number].clone(), None),
                _ => {
                    let process = start_worker()?;
                    (process.address.to_string(), Some(process))
                }
            };
            let at = |error: String| format!("the worker at {address}: {error}");
            let stream = TcpStream::connect(&address).map_err(|error| at(error.to_string()))?;
            stream.set_nodelay(true).map_err(|error| at(error.to_string()))?;
            let reader = stream.try_clone().map_err(|error| at(error.to_string()))?;
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(reader);
                while let Ok(Some(message)) = receive(&mut reader) {
                    if sender.send((number, Some(message))).is_err() {
                        return;
                    }
                }
                // The team may be gone already.
                let _ = sender.send((number, None));
            });
            let here = process.is_some();
            let facts = WorkerFacts {
                address: address.clone(),
                clock_ahead_us: None,
                round_trip_us: 0,
                apart: false,
            };
            team.links.push(Link { stream, facts, _process: process });
            if !here {
                team.compare_clock(number, options.clock_limit).map_err(at)?;
            }
            let prepare = json!({ "prepare": {
                "arguments": options.arguments, "server": server,
                "version": env!("CARGO_PKG_VERSION"),
            } });
            team.ask(number, &prepare, "ready").map_err(at)?;
        }
        Ok(team)
    }

    /// Sends to a worker and waits for an answer with a key.
    fn ask(&mut self, number: usize, message: &Value, key: &str) -> Result<Value, String> {
        send(&mut self.links[number].stream, message)?;
        loop {
            let (from, answer) =
                self.messages.recv_timeout(PATIENCE).map_err(|_| "it does not answer")?;
            let Some(answer) = answer else { return Err("it is gone".to_string()) };
            if let Some(error) = answer["error"].as_str() {
                return Err(error.to_string());
            }
            if from == number && !answer[key].is_null() {
                return Ok(answer);
            }
        }
    }

    /// Measures how far a worker's clock is ahead, by its quickest round trip.
    fn compare_clock(&mut self, number: usize, limit: Duration) -> Result<(), String> {
        let mut best: Option<(u64, i64)> = None;
        for _ in 0..CLOCK_ROUNDS {
            let sent = Instant::now();
            let sent_us = wall_us();
            let answer = self.ask(number, &json!({ "clock": true }), "clock_us")?;
            let round_trip_us = sent.elapsed().as_micros() as u64;
            let theirs = answer["clock_us"].as_u64().unwrap_or(0) as i64;
            let ahead_us = theirs - (sent_us + round_trip_us / 2) as i64;
            if best.is_none_or(|(quickest, _)| round_trip_us < quickest) {
                best = Some((round_trip_us, ahead_us));
            }
        }
        let (round_trip_us, ahead_us) = best.unwrap_or_default();
        let facts = &mut self.links[number].facts;
        facts.apart = u128::from(ahead_us.unsigned_abs()) > limit.as_micros();
        (facts.clock_ahead_us, facts.round_trip_us) = (Some(ahead_us), round_trip_us);
        Ok(())
    }

    /// The workers.
    pub fn facts(&self) -> Vec<WorkerFacts> {
        self.links.iter().map(|link| link.facts.clone()).collect()
    }

    /// Has all drive their share, and adds their figures.
    ///
    /// # Errors
    /// A worker cannot begin. One that is lost later is an error of the run, which ends with the
    /// figures of the others.
    pub fn drive(
        &mut self,
        options: &DriveOptions,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Figures, String> {
        let count = self.links.len();
        let mut first_session = 0;
        for number in 0..count {
            let mut own = options.clone();
            let part = |whole: usize| whole / count + usize::from(number < whole % count);
            (own.clients, own.connections) = (part(options.clients), part(options.connections));
            own.connections = own.connections.max(1);
            (own.first_session, own.share) =
                (first_session, Share { number: number as u64, of: count as u64 });
            first_session += own.clients as u64;
            // One of them watches the servers for all.
            if number > 0 || self.links[number].facts.clock_ahead_us.is_some() {
                own.server_processes.clear();
            }
            let message = json!({ "drive": options_message(&own) });
            let asked = self.ask(number, &message, "connected");
            asked.map_err(|error| {
                format!("the worker at {}: {error}", self.links[number].facts.address)
            })?;
        }
        let start_us = wall_us() + LEAD.as_micros() as u64;
        for link in &mut self.links {
            let at_us = start_us.saturating_add_signed(link.facts.clock_ahead_us.unwrap_or(0));
            // A worker that is gone is noticed by its missing figures.
            let _ = send(&mut link.stream, &json!({ "start_at_us": at_us }));
        }
        self.collect(options, stop, progress)
    }

    fn collect(
        &mut self,
        options: &DriveOptions,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Figures, String> {
        let mut figures = Figures::new(&self.names, options.duration);
        let mut shorter = options.duration;
        let mut states: Vec<Option<Progress>> = vec![None; self.links.len()];
        let mut waited_for: Vec<usize> = (0..self.links.len()).collect();
        let give_up = Instant::now() + options.warmup + options.duration + PATIENCE;
        let mut told = false;
        while !waited_for.is_empty() {
            if stop.load(Ordering::Relaxed) && !told {
                told = true;
                for link in &mut self.links {
                    let _ = send(&mut link.stream, &json!({ "stop": true }));
                }
            }
            let (number, message) = match self.messages.recv_timeout(WAIT) {
                Ok(received) => received,
                Err(RecvTimeoutError::Timeout) if Instant::now() < give_up => continue,
                Err(_) => (waited_for[0], None),
            };
            let message = message.unwrap_or_else(|| json!({ "error": "it is gone" }));
            if message["progress"].is_object() {
                states[number] = read_progress(&message["progress"]).ok();
                progress(&together(&states));
                continue;
            }
            waited_for.retain(|other| *other != number);
            let read = match message["error"].as_str() {
                Some(error) => Err(error.to_string()),
                None => read_figures(&message["figures"], &self.names),
            };
            match read {
                Ok(own) => {
                    shorter = shorter.min(own.duration);
                    figures.add(&own);
                }
                Err(error) => {
                    let address = &self.links[number].facts.address;
                    let text = format!("the worker at {address} gave no figures: {error}");
                    figures.first_error = Some(text);
                    (figures.interrupted, figures.complete) = (true, false);
                }
            }
        }
        if figures.interrupted {
            figures.duration = shorter;
        }
        Ok(figures)
    }
}

/// The state of all: rates and errors added, the worst latency.
fn together(states: &[Option<Progress>]) -> Progress {
    let mut states = states.iter().flatten();
    let first = states.next().copied().expect("somebody told of progress");
    states.fold(first, |all, one| Progress {
        elapsed: all.elapsed.max(one.elapsed),
        rate_per_s: all.rate_per_s + one.rate_per_s,
        errors: all.errors + one.errors,
        p50_us: all.p50_us.max(one.p50_us),
        p99_us: all.p99_us.max(one.p99_us),
        ..all
    })
}

fn start_worker() -> Result<ServerProcess, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["bench", "worker", "--listen", "127.0.0.1:0", "--leash"]);
    ServerProcess::start_on_leash(command).map_err(|error| format!("a worker: {error}"))
}
