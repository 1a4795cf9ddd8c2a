//! The figures, one after the other, in turns.

use crate::{CONNECTIONS, PIPELINE, Plan, REDIS_KEYS, SERVER_CORE};
use lockstep_bench::driver::{DriverOptions, drive};
use lockstep_bench::embedded::EmbeddedVoter;
use lockstep_bench::process::{ServerProcess, free_address, on_core};
use lockstep_bench::redis::{self, RedisLoad};
use lockstep_bench::report::throughput_per_s;
use lockstep_bench::verdict::median;
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_client::{ConnectOptions, Connection};
use lockstep_workloads::voter::CONTESTANTS;
use serde_json::Value;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of the write that a single call makes: a block's header and one entry.
const SINGLE_WRITE_BYTES: usize = 128;
/// Syncs that are timed.
const SYNCS: u64 = 500;

/// What one run of voter came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Calls per second.
    pub throughput_per_s: f64,
    /// The median of latency in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

/// What the log of a run holds, and how fast it is replayed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Logged {
    /// Bytes of the log for each call, block headers included.
    pub bytes_per_call: f64,
    /// Calls replayed per second, the reading before included.
    pub replayed_per_s: f64,
}

/// Samples of every figure, one a repeat.
#[derive(Debug, Default)]
pub struct Samples {
    /// Many in flight, nothing logged.
    pub none: Vec<Sample>,
    /// Many in flight, each answer behind its sync.
    pub sync: Vec<Sample>,
    /// Redis with `appendfsync always`, calls per second.
    pub redis: Vec<f64>,
    /// One in flight, nothing logged.
    pub none_single: Vec<Sample>,
    /// One in flight, each answer behind its sync.
    pub sync_single: Vec<Sample>,
    /// One write and fdatasync of the same size, microseconds.
    pub fdatasync_us: Vec<f64>,
    /// What was logged with many in flight.
    pub logged: Vec<Logged>,
    /// Voter without sockets, calls per second.
    pub embedded: Vec<f64>,
}

/// Measures everything.
///
/// # Errors
/// A system cannot be started, or answers wrongly.
pub fn all(plan: &Plan) -> Result<Samples, String> {
    let mut samples = Samples::default();
    for repeat in 1..=plan.repeats {
        let note = |what: &str, per_s: f64| eprintln!("repeat {repeat}: {what:28} {per_s:>10.0}/s");
        let directory = plan.folder.join(format!("many-{repeat}"));
        let none = voter(plan, None, (CONNECTIONS, PIPELINE))?;
        note("voter, no log", none.throughput_per_s);
        samples.none.push(none);
        let sync = voter(plan, Some(&directory), (CONNECTIONS, PIPELINE))?;
        note("voter, synchronous log", sync.throughput_per_s);
        samples.sync.push(sync);
        let logged = logged(plan, &directory)?;
        note("voter, replayed", logged.replayed_per_s);
        samples.logged.push(logged);
        let redis = redis_always(plan)?;
        note("Redis, appendfsync always", redis);
        samples.redis.push(redis);
        samples.none_single.push(voter(plan, None, (1, 1))?);
        let directory = plan.folder.join(format!("single-{repeat}"));
        samples.sync_single.push(voter(plan, Some(&directory), (1, 1))?);
        let fdatasync_us = fdatasync_us(plan).map_err(|error| error.to_string())?;
        eprintln!("repeat {repeat}: one fdatasync of {SINGLE_WRITE_BYTES} bytes {fdatasync_us} us");
        samples.fdatasync_us.push(fdatasync_us);
        let embedded = embedded(plan)?;
        note("voter, embedded", embedded);
        samples.embedded.push(embedded);
    }
    Ok(samples)
}

/// A host of ours with one site, and what it says of its recovery.
fn start(plan: &Plan, directory: Option<&Path>) -> Result<(ServerProcess, Value), String> {
    let mut command = on_core(SERVER_CORE, &plan.lockstep.to_string_lossy());
    command.args(["start", "--sites", "1", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    if let Some(directory) = directory {
        command.args(["--json", "--dir"]).arg(directory);
    }
    let mut recovery = Value::Null;
    let note = |line: &str| {
        if let Ok(told) = serde_json::from_str::<Value>(line) {
            recovery = told["recovery"].clone();
        }
    };
    let server = ServerProcess::start_with_lines(command, note).map_err(|e| e.to_string())?;
    Ok((server, recovery))
}

fn voter(
    plan: &Plan,
    directory: Option<&Path>,
    (connections, pipeline): (usize, usize),
) -> Result<Sample, String> {
    if let Some(directory) = directory {
        let mut command = Command::new(&plan.lockstep);
        command.args(["init", "--sites", "1", "--dir"]).arg(directory).stdout(Stdio::null());
        let made = command.status().map_err(|error| error.to_string())?;
        if !made.success() {
            return Err(format!("{command:?} failed"));
        }
    }
    let (server, _) = start(plan, directory)?;
    let address = server.address.to_string();
    let mut connection = Connection::connect(&address, &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    voter::set_up(&mut connection, Form::Native).map_err(|error| error.to_string())?;
    let options = DriverOptions {
        servers: vec![address],
        connections,
        pipeline,
        rate_per_s: None,
        duration: plan.duration,
        warmup: plan.warmup,
        keep_calls: false,
    };
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let measured = drive(&options, &mut load, &mut |_| {}).map_err(|error| error.to_string())?;
    if let Some(error) = &measured.first_error {
        return Err(format!("{} calls failed, the first: {error}", measured.errors));
    }
    let votes = voter::vote_count(&mut connection).map_err(|error| error.to_string())?;
    if votes != load.accepted {
        return Err(format!("{votes} votes in the table, {} accepted", load.accepted));
    }
    Ok(Sample {
        throughput_per_s: throughput_per_s(&measured),
        p50_us: measured.latency_us.value_at_quantile(0.5) as f64,
        p99_us: measured.latency_us.value_at_quantile(0.99) as f64,
    })
}

/// What a host that was killed left behind, and how fast the next one takes it up.
fn logged(plan: &Plan, directory: &Path) -> Result<Logged, String> {
    let mut command = Command::new(&plan.lockstep);
    command.args(["log", "inspect", "--json"]).arg(directory);
    let output = command.output().map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let (mut bytes, mut entries) = (0, 0);
    for segment in told["segments"].as_array().into_iter().flatten() {
        let page = 4_096;
        bytes += segment["used_bytes"].as_u64().unwrap_or(0).saturating_sub(page);
        for part in segment["partitions"].as_array().into_iter().flatten() {
            entries += part["entries"].as_u64().unwrap_or(0);
        }
    }
    let (_server, recovery) = start(plan, Some(directory))?;
    let number = |name: &str| recovery[name].as_f64().ok_or(format!("no '{name}' is told"));
    let seconds = (number("survey_us")? + number("replay_us")?) / 1e6;
    Ok(Logged {
        bytes_per_call: bytes as f64 / entries.max(1) as f64,
        replayed_per_s: number("replayed")? / seconds,
    })
}

fn redis_always(plan: &Plan) -> Result<f64, String> {
    let text = |error: io::Error| error.to_string();
    let directory = plan.folder.join("redis");
    std::fs::create_dir_all(&directory).map_err(text)?;
    let address = free_address().map_err(text)?;
    let mut command = on_core(SERVER_CORE, "redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"]);
    command.arg("--dir").arg(&directory);
    let server = ServerProcess::start_at(command, address).map_err(text)?;
    let result = redis::run(&RedisLoad {
        address: server.address,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        keys: REDIS_KEYS,
        duration: plan.duration,
        warmup: plan.warmup,
    });
    drop(server);
    std::fs::remove_dir_all(&directory).map_err(text)?;
    result.map(|result| result.throughput_per_s).map_err(text)
}

/// The median time of a write and its fdatasync, into a file that has its length, as the log's
/// segments have.
fn fdatasync_us(plan: &Plan) -> io::Result<f64> {
    let path = plan.folder.join("sync");
    let file = std::fs::File::create(&path)?;
    let length = SYNCS * SINGLE_WRITE_BYTES as u64;
    file.write_all_at(&vec![0; length as usize], 0)?;
    file.sync_all()?;
    let mut times = Vec::new();
    for number in 0..SYNCS {
        let begun = Instant::now();
        let at = number * SINGLE_WRITE_BYTES as u64;
        file.write_all_at(&[(number % 255) as u8 + 1; SINGLE_WRITE_BYTES], at)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_nanos() as f64 / 1e3);
    }
    std::fs::remove_file(&path)?;
    Ok(median(times))
}

fn embedded(plan: &Plan) -> Result<f64, String> {
    let host = EmbeddedVoter::new(Form::Native, 1)?;
    let result = host.run(plan.warmup.min(Duration::from_secs(1)), plan.duration, &mut |_| {})?;
    Ok(throughput_per_s(&result.measured))
}
