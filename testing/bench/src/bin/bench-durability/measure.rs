//! The figures, one after the other, in turns.

use crate::host::{self, Host};
use crate::mixed::{self, MixedReplay};
use crate::recovery::{self, Recovery, SnapshotSpeed};
use crate::under_load::{self, UnderLoad};
use crate::{CONNECTIONS, EMBEDDED, Figure, PIPELINE, Plan, REDIS_KEYS, SERVER_CORE, SYNC};
use lockstep_bench::driver::{DriverOptions, Measured, drive};
use lockstep_bench::embedded::EmbeddedVoter;
use lockstep_bench::postgres::{self, Postgres};
use lockstep_bench::postgres_voter;
use lockstep_bench::process::{ServerProcess, free_address, on_core};
use lockstep_bench::redis::{self, RedisLoad};
use lockstep_bench::report::throughput_per_s;
use lockstep_bench::verdict::{self, median};
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_workloads::voter::CONTESTANTS;
use serde_json::Value;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of the write that a single call makes: a block's header and one entry.
const SINGLE_WRITE_BYTES: usize = 128;
/// Syncs that are timed.
const SYNCS: u64 = 500;
/// PostgreSQL as somebody would set it up who wants it fast and loses nothing: each commit is
/// synced, and no checkpoint falls into the run.
pub const POSTGRES_SETTINGS: &[&str] = &[
    "synchronous_commit=on",
    "fsync=on",
    "wal_sync_method=fdatasync",
    "full_page_writes=on",
    "wal_buffers=64MB",
    "shared_buffers=2GB",
    "max_wal_size=16GB",
    "checkpoint_timeout=1h",
    "max_connections=110",
    "autovacuum=on",
    "jit=off",
];

/// What one run of voter came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Calls per second.
    pub throughput_per_s: f64,
    /// The median of latency in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Processor time of the host for a call, that of the kernel for it included.
    pub cpu_us: f64,
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
    /// Many in flight, each answer after its sync.
    pub sync: Vec<Sample>,
    /// Redis with `appendfsync always`, calls per second.
    pub redis: Vec<f64>,
    /// One in flight, nothing logged.
    pub none_single: Vec<Sample>,
    /// One in flight, each answer after its sync.
    pub sync_single: Vec<Sample>,
    /// One write and fdatasync of the same size, microseconds.
    pub fdatasync_us: Vec<f64>,
    /// What was logged with many in flight.
    pub logged: Vec<Logged>,
    /// Voter without sockets, calls per second.
    pub embedded: Vec<f64>,
    /// PostgreSQL, a line a repeat: calls per second by connections.
    pub postgres: Vec<Vec<(usize, f64)>>,
    /// A log of procedures in Java, replayed.
    pub mixed: Vec<MixedReplay>,
    /// Gigabytes brought back.
    pub recovery: Option<Recovery>,
    /// Voter while snapshots are taken.
    pub under_load: Vec<UnderLoad>,
    /// How fast one core writes and loads snapshots.
    pub speed: Vec<SnapshotSpeed>,
}

/// Measures what the plan wants.
///
/// # Errors
/// A system cannot be started, or answers wrongly.
pub fn all(plan: &Plan) -> Result<Samples, String> {
    let mut samples = Samples::default();
    for repeat in 1..=plan.repeats {
        throughputs(plan, repeat, &mut samples)?;
        if plan.wants(&[Figure::Latency]) {
            latencies(plan, &mut samples)?;
        }
        if plan.wants(&[Figure::MixedReplay]) {
            let replay = mixed::replay(plan)?;
            let rate = replay.entries / replay.cpu_s;
            eprintln!("repeat {repeat}: {:28} {rate:>10.0}/s", "Java, replayed, a core");
            samples.mixed.push(replay);
        }
        if plan.wants(&[Figure::SnapshotSpeed]) {
            let speed = recovery::snapshot_speed(plan)?;
            let mb_per_s = |seconds: f64| speed.row_bytes / 1e6 / seconds;
            eprintln!(
                "repeat {repeat}: a snapshot: written {:.0} MB/s, loaded {:.0} MB/s",
                mb_per_s(speed.write_s),
                mb_per_s(speed.load_s)
            );
            samples.speed.push(speed);
        }
    }
    if plan.wants(&[Figure::UnderLoad]) {
        samples.under_load = under_load::measure(plan)?;
    }
    if plan.wants(&[Figure::Recovery]) {
        let recovery = recovery::recover(plan)?;
        let gigabytes = recovery.row_bytes / 1e9;
        eprintln!("recovery of {gigabytes:.1} GB of rows: {:.1} s", recovery.seconds);
        samples.recovery = Some(recovery);
    }
    Ok(samples)
}

/// The figures that have many calls in flight.
fn throughputs(plan: &Plan, repeat: u32, samples: &mut Samples) -> Result<(), String> {
    let note = |what: &str, per_s: f64| eprintln!("repeat {repeat}: {what:28} {per_s:>10.0}/s");
    let logs = [Figure::Replay, Figure::LogBytes];
    let ratios = [Figure::NoLog, Figure::Redis, Figure::Postgres];
    if plan.wants(&[Figure::NoLog]) {
        let none = voter(plan, None, (CONNECTIONS, PIPELINE))?;
        note("voter, no log", none.throughput_per_s);
        samples.none.push(none);
    }
    if plan.wants(&logs) || plan.wants(&ratios) {
        let directory = plan.folder.join("many");
        let sync = voter(plan, Some(&directory), (CONNECTIONS, PIPELINE))?;
        note("voter, synchronous log", sync.throughput_per_s);
        samples.sync.push(sync);
        if plan.wants(&logs) {
            let logged = logged(plan, &directory)?;
            note("voter, replayed", logged.replayed_per_s);
            samples.logged.push(logged);
        }
        host::remove(&directory)?;
    }
    if plan.wants(&[Figure::Replay]) {
        let embedded = embedded(plan)?;
        note("voter, embedded", embedded);
        samples.embedded.push(embedded);
    }
    if plan.wants(&[Figure::Redis]) {
        let redis = redis_always(plan)?;
        note("Redis, appendfsync always", redis);
        samples.redis.push(redis);
    }
    if plan.wants(&[Figure::Postgres]) {
        let rates = postgres(plan)?;
        let (connections, best) = best_of(&rates);
        note(&format!("PostgreSQL, {connections} connections"), best);
        samples.postgres.push(rates);
    }
    Ok(())
}

/// One call at a time, with the log and without, and the disk by itself.
fn latencies(plan: &Plan, samples: &mut Samples) -> Result<(), String> {
    let none = voter(plan, None, (1, 1))?;
    let directory = plan.folder.join("single");
    let sync = voter(plan, Some(&directory), (1, 1))?;
    host::remove(&directory)?;
    let file = plan.folder.join("sync");
    let fdatasync_us = number_of(on_own(plan).arg(SYNC).arg(&file))?;
    eprintln!(
        "  1 in flight: {:.0} us with the log, {:.0} us without; one fdatasync of \
         {SINGLE_WRITE_BYTES} bytes {fdatasync_us:.0} us",
        sync.p50_us, none.p50_us
    );
    samples.none_single.push(none);
    samples.sync_single.push(sync);
    samples.fdatasync_us.push(fdatasync_us);
    Ok(())
}

/// Runs voter at a host.
///
/// # Errors
/// A call fails, or a connection is lost.
pub fn drive_voter(
    plan: &Plan,
    host: &Host,
    (connections, pipeline): (usize, usize),
    rate_per_s: Option<f64>,
    load: &mut VoterLoad,
) -> Result<Measured, String> {
    let options = DriverOptions {
        servers: vec![host.address()],
        connections,
        pipeline,
        rate_per_s,
        duration: plan.duration,
        warmup: plan.warmup,
        keep_calls: rate_per_s.is_some(),
        never_sleeps: false,
    };
    let measured = drive(&options, load, &mut |_| {}).map_err(|error| error.to_string())?;
    match &measured.first_error {
        Some(error) => Err(format!("{} calls failed, the first: {error}", measured.errors)),
        None => Ok(measured),
    }
}

/// Calls per second.
pub fn rate_of(measured: &Measured) -> f64 {
    throughput_per_s(measured)
}

/// Voter at a new host, which is stopped hard at the end.
fn voter(
    plan: &Plan,
    directory: Option<&Path>,
    in_flight: (usize, usize),
) -> Result<Sample, String> {
    if let Some(directory) = directory {
        host::init(plan, directory, 1)?;
    }
    let host = Host::start(plan, directory)?;
    let mut connection = host.connect()?;
    voter::set_up(&mut connection, Form::Native).map_err(|error| error.to_string())?;
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let cpu_time = || host.process().cpu_time().map_err(|error| error.to_string());
    let before = cpu_time()?;
    let measured = drive_voter(plan, &host, in_flight, None, &mut load)?;
    let cpu = cpu_time()? - before;
    let votes = voter::vote_count(&mut connection).map_err(|error| error.to_string())?;
    if votes != load.accepted {
        return Err(format!("{votes} votes in the table, {} accepted", load.accepted));
    }
    Ok(Sample {
        throughput_per_s: throughput_per_s(&measured),
        p50_us: measured.latency_us.value_at_quantile(0.5) as f64,
        p99_us: measured.latency_us.value_at_quantile(0.99) as f64,
        cpu_us: cpu.as_secs_f64() * 1e6 / measured.all.max(1) as f64,
    })
}

/// What a host that was killed left, and how fast the next one takes it up.
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
    let host = Host::start(plan, Some(directory))?;
    let seconds = (host.recovery_number("/survey_us")? + host.recovery_number("/replay_us")?) / 1e6;
    Ok(Logged {
        bytes_per_call: bytes as f64 / entries.max(1) as f64,
        replayed_per_s: host.recovery_number("/replayed")? / seconds,
    })
}

/// The connections with which PostgreSQL was fastest, and its calls per second then.
pub fn best_of(rates: &[(usize, f64)]) -> (usize, f64) {
    verdict::best_of(rates, |rate| *rate).unwrap_or_default()
}

/// PostgreSQL with one number of connections after the other.
fn postgres(plan: &Plan) -> Result<Vec<(usize, f64)>, String> {
    let programs = postgres::find(plan.postgres.as_deref())?;
    let folder = plan.folder.join("postgres");
    let server = Postgres::start(&programs, &folder, POSTGRES_SETTINGS, Some(SERVER_CORE))?;
    postgres_voter::set_up(&server)?;
    let tried = if plan.quick { &postgres::CONNECTIONS[..2] } else { &postgres::CONNECTIONS };
    let times = (plan.duration / 2, plan.warmup);
    postgres_voter::run_with_each(&server, tried, times, &mut |_, _| ())
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

/// The process that measures the time of one fdatasync, on the core of the servers, where the log's
/// thread waits for its own: prints the median time of a write and its fdatasync, into a file that
/// has its length, as the log's segments have.
///
/// # Errors
/// The disk fails.
pub fn run_sync(path: &Path) -> io::Result<()> {
    let file = std::fs::File::create(path)?;
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
    std::fs::remove_file(path)?;
    println!("{}", median(times));
    Ok(())
}

/// This program on the core of the servers.
fn on_own(plan: &Plan) -> Command {
    on_core(SERVER_CORE, &plan.own.to_string_lossy())
}

/// The number that a command prints.
fn number_of(command: &mut Command) -> Result<f64, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let reason = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    text.trim().parse().map_err(|_| reason())
}

/// Voter without sockets, in a process of its own on the core of the servers.
fn embedded(plan: &Plan) -> Result<f64, String> {
    number_of(on_own(plan).arg(EMBEDDED).arg(plan.duration.as_millis().to_string()))
}

/// The process of [`embedded`]: prints calls per second.
///
/// # Errors
/// The host refuses something, a call fails, or votes are lost.
pub fn run_embedded(duration: Duration) -> Result<(), String> {
    let host = EmbeddedVoter::new(Form::Native, 1)?;
    let result = host.run(duration / 4, duration, &mut |_| {})?;
    if let Some(error) = &result.measured.first_error {
        return Err(error.clone());
    }
    if !result.is_consistent() {
        return Err(format!("{} votes, {} accepted", result.votes_after, result.accepted));
    }
    println!("{}", throughput_per_s(&result.measured));
    Ok(())
}
