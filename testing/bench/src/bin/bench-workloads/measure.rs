//! The figures, one after the other, in turns.

use crate::host::{Host, Load, Run};
use crate::studies::{self, Study};
use crate::tail::{self, Tail};
use crate::{Plan, SERVER_CORE};
use lockstep_bench::driver::{self, DriverOptions};
use lockstep_bench::other::postgres::{self as functions, PostgresSystem};
use lockstep_bench::other::postgres_database::PostgresDatabase;
use lockstep_bench::other::redis_store::{RedisStore, start_redis};
use lockstep_bench::other::{self, OtherOptions};
use lockstep_bench::postgres::{self, Postgres};
use lockstep_bench::postgres_voter;
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_bench::redis::{self, RedisLoad};
use lockstep_bench::report::{grouped, throughput_per_s};
use lockstep_bench::run::Pace;
use lockstep_bench::verdict::best_of;
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_client::{ConnectOptions, Connection};
use lockstep_workloads::Workload;
use lockstep_workloads::lock_store::{LockStore, SecondaryKey};
use lockstep_workloads::tatp::{AlternateKey, Tatp};
use lockstep_workloads::tpcc::scale::{Delivery, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::{Tpcc, TpccOptions};
use lockstep_workloads::voter::CONTESTANTS;
use std::process::Stdio;

/// Connections and clients of TPC-C and TATP: as many calls are in flight as of SET.
pub const CONNECTIONS: usize = 50;
/// See [`CONNECTIONS`].
pub const CLIENTS: usize = CONNECTIONS * PIPELINE;
/// The same for people.
pub const LOAD: &str = "3200 clients over 50 connections";
/// Calls in flight on each connection of Redis's SET, and of voter.
const PIPELINE: usize = 64;
const REDIS_KEYS: u64 = 1_000_000;
/// Sessions of lock-store: as many until the p95 is above the limit.
const SESSIONS: [usize; 9] = [50, 100, 200, 400, 600, 800, 1000, 1400, 2000];
/// The greatest 95th percentile of lock-store, in microseconds.
pub const LOCK_STORE_P95_US: u64 = 7_000;
/// The share of the peak at which latency is measured.
pub const OPEN_LOAD: f64 = 0.5;

/// A rate by the clock and by the server's processor time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rate {
    /// Per second.
    pub per_s: f64,
    /// Per second of the server's processor time.
    pub per_busy_s: f64,
}

impl Rate {
    /// Of a run.
    pub fn of(run: &Run) -> Rate {
        Rate { per_s: run.per_s(), per_busy_s: run.per_busy_s() }
    }
}

/// A step of lock-store: N sessions at both systems.
#[derive(Debug, Clone, Copy)]
pub struct LockStep {
    /// Sessions.
    pub sessions: usize,
    /// Locks and writes per second, ours and Redis's.
    pub per_s: [f64; 2],
    /// The greater 95th percentile of the two calls, ours and Redis's, in microseconds.
    pub p95_us: [u64; 2],
}

/// Samples of every figure, one a repeat.
#[derive(Debug, Default)]
pub struct Samples {
    /// Redis's SET.
    pub redis: Vec<Rate>,
    /// TPC-C, nothing kept.
    pub tpcc: Vec<Rate>,
    /// The same in Java.
    pub tpcc_java: Vec<Rate>,
    /// TPC-C with the synchronous log.
    pub tpcc_log: Vec<Rate>,
    /// New-Order at half of the peak.
    pub new_order: Vec<Tail>,
    /// The same calls at the same rate to a server that does nothing.
    pub new_order_echo: Vec<Tail>,
    /// TATP with a global index at four sites.
    pub tatp: Vec<Rate>,
    /// Lock-store, step by step, one list a repeat.
    pub lock_store: Vec<Vec<LockStep>>,
    /// Comparisons of variants.
    pub studies: Vec<Study>,
    /// By workload: ours with the synchronous log, and PostgreSQL by its connections.
    pub postgres: Vec<Beside>,
}

/// Ours beside PostgreSQL, both durable.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The workload.
    pub workload: &'static str,
    /// Ours.
    pub ours: Vec<Rate>,
    /// Calls per second by connections.
    pub postgres: Vec<(usize, Rate)>,
}

impl Beside {
    /// PostgreSQL's best, by the clock.
    pub fn best(&self) -> (usize, Rate) {
        best_of(&self.postgres, |rate| rate.per_s).unwrap_or_default()
    }

    /// The most that PostgreSQL does in a second of processor time.
    pub fn best_per_busy_s(&self) -> f64 {
        self.postgres.iter().map(|(_, rate)| rate.per_busy_s).fold(0.0, f64::max)
    }
}

/// TPC-C at the plan's scale, with native procedures.
pub fn tpcc(plan: &Plan) -> Result<Tpcc, String> {
    Ok(Tpcc::new(TpccOptions {
        scale: Scale::new(plan.warehouses, plan.divisor)?,
        partitioning: Partitioning::Warehouse,
        delivery: Delivery::Original,
        remote: true,
        rules: Rules::Py,
        exact_money: false,
    }))
}

/// The load of TPC-C and TATP.
pub fn load(pace: Pace, seed: u64) -> Load {
    Load { connections: CONNECTIONS, clients: CLIENTS, pace, seed, keep_calls_of: None }
}

/// Tells a figure as it comes.
pub fn note(what: &str, repeat: u64, per_s: f64, more: &str) {
    eprintln!("repeat {repeat}: {what:32} {:>12}/s{more}", grouped(per_s as u64));
}

/// A rate by processor time, in words.
pub fn busy(rate: Rate) -> String {
    format!("  {:>12} per s of processor time", grouped(rate.per_busy_s as u64))
}

/// Measures what the plan names.
///
/// # Errors
/// A server does not start, a transaction fails, or a check does not hold.
pub fn all(plan: &Plan) -> Result<Samples, String> {
    let mut samples = Samples::default();
    for repeat in 1..=plan.repeats {
        let wants_set = ["tpcc", "tpcc-java", "tatp"].iter().any(|figure| plan.wants(figure));
        if wants_set {
            let rate = redis_set(plan)?;
            note("Redis SET", repeat, rate.per_s, &busy(rate));
            samples.redis.push(rate);
        }
        tpcc_figures(plan, repeat, &mut samples)?;
        if plan.wants("tpcc-java") {
            samples.tpcc_java.push(crate::java::tpcc_in_java(plan, repeat)?);
        }
        if plan.wants("tatp") {
            let host = Host::start(plan, 4, false)?;
            let mut tatp = Tatp::new(plan.subscribers, AlternateKey::GlobalIndex)?;
            let rate = Rate::of(&host.run(plan, &mut tatp, &load(Pace::Closed, repeat))?);
            note("TATP, four sites", repeat, rate.per_s, &busy(rate));
            samples.tatp.push(rate);
        }
        if plan.wants("lock-store") {
            samples.lock_store.push(lock_store(plan, repeat)?);
        }
    }
    if plan.wants("tpcc-strategies") {
        samples.studies.push(studies::tpcc_strategies(plan)?);
    }
    if plan.wants("tatp-modes") {
        samples.studies.push(studies::tatp_modes(plan)?);
    }
    if plan.wants("voter-postgres") {
        samples.postgres.push(voter_beside(plan)?);
    }
    if plan.wants("tpcc-postgres") {
        let (schema, names) = (functions::TPCC, functions::TPCC_FUNCTIONS);
        let ours: Vec<Rate> = samples.tpcc_log.clone();
        samples.postgres.push(beside(plan, "TPC-C", &mut tpcc(plan)?, ours, (schema, names))?);
    }
    if plan.wants("tatp-postgres") {
        let (schema, names) = (functions::TATP, functions::TATP_FUNCTIONS);
        let mut tatp = Tatp::new(plan.subscribers, AlternateKey::GlobalIndex)?;
        samples.postgres.push(beside(plan, "TATP", &mut tatp, Vec::new(), (schema, names))?);
    }
    Ok(samples)
}

fn tpcc_figures(plan: &Plan, repeat: u64, samples: &mut Samples) -> Result<(), String> {
    if ["tpcc", "tpcc-log", "tpcc-p99"].iter().any(|figure| plan.wants(figure)) {
        let host = Host::start(plan, 1, false)?;
        let run = host.run(plan, &mut tpcc(plan)?, &load(Pace::Closed, repeat))?;
        let rate = Rate::of(&run);
        note("TPC-C", repeat, rate.per_s, &busy(rate));
        samples.tpcc.push(rate);
        if plan.wants("tpcc-p99") {
            let half = rate.per_s * OPEN_LOAD;
            drop(host);
            samples.new_order.push(tail::new_order(plan, &mut tpcc(plan)?, repeat, half)?);
            samples.new_order_echo.push(tail::echo(plan, &tpcc(plan)?, repeat, half)?);
        }
    }
    if plan.wants("tpcc-log") {
        let host = Host::start(plan, 1, true)?;
        let run = host.run(plan, &mut tpcc(plan)?, &load(Pace::Closed, repeat))?;
        let rate = Rate::of(&run);
        note("TPC-C, synchronous log", repeat, rate.per_s, &busy(rate));
        samples.tpcc_log.push(rate);
    }
    Ok(())
}

fn redis_set(plan: &Plan) -> Result<Rate, String> {
    let server = start_redis(SERVER_CORE)?;
    let text = |error: std::io::Error| error.to_string();
    let before = server.cpu_time().map_err(text)?;
    let result = redis::run(&RedisLoad {
        address: server.address,
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        keys: REDIS_KEYS,
        duration: plan.duration,
        warmup: plan.warmup,
    })
    .map_err(text)?;
    let cpu = (server.cpu_time().map_err(text)? - before).as_secs_f64();
    Ok(Rate { per_s: result.throughput_per_s, per_busy_s: result.all as f64 / cpu.max(1e-3) })
}

/// More and more sessions, first at ours, then at Redis, until both are too slow.
fn lock_store(plan: &Plan, repeat: u64) -> Result<Vec<LockStep>, String> {
    let mut store = LockStore::new(plan.records, 1000, SecondaryKey::GlobalIndex)?;
    let host = Host::start(plan, 1, false)?;
    let redis = RedisStore::start(SERVER_CORE, &store)?;
    let (mut steps, mut writes) = (Vec::new(), 0);
    let tried = if plan.quick { &SESSIONS[..1] } else { &SESSIONS };
    for sessions in tried.iter().copied() {
        let connections = CONNECTIONS.min(sessions);
        let seed = repeat * 1000 + sessions as u64;
        let load = Load { connections, clients: sessions, ..load(Pace::Closed, seed) };
        let ours = host.run(plan, &mut store, &load)?.figures;
        let (duration, warmup) = (plan.duration, plan.warmup);
        let options = OtherOptions { connections, clients: sessions, duration, warmup, seed };
        let theirs = other::drive(&redis, &store, &options, &mut || {})?;
        if let Some(error) = &theirs.first_error {
            return Err(format!("lock-store on Redis: {error}"));
        }
        writes += theirs.counts.first().copied().unwrap_or(0);
        let per_s = [&ours, &theirs].map(|figures| figures.throughput_per_s());
        let p95_us = [&ours, &theirs].map(|figures| {
            let each = figures.transactions.iter();
            each.map(|kind| kind.latency_us.value_at_quantile(0.95)).max().unwrap_or(0)
        });
        let more = format!("  p95 {} us, Redis {:.0}/s {} us", p95_us[0], per_s[1], p95_us[1]);
        note(&format!("lock-store, {sessions} sessions"), repeat, per_s[0], &more);
        steps.push(LockStep { sessions, per_s, p95_us });
        if p95_us.iter().all(|p95| *p95 > LOCK_STORE_P95_US) {
            break;
        }
    }
    let check = redis.check(plan.records, writes)?;
    match check.holds {
        true => Ok(steps),
        false => Err(format!("lock-store on Redis: {}: {}", check.name, check.detail)),
    }
}

fn start_postgres(plan: &Plan) -> Result<Postgres, String> {
    let programs = postgres::find(plan.postgres.as_deref())?;
    let folder = plan.folder.join("postgres");
    Postgres::start(&programs, &folder, functions::SETTINGS, Some(SERVER_CORE))
}

fn tried(plan: &Plan) -> &'static [usize] {
    if plan.quick { &postgres::CONNECTIONS[1..3] } else { &postgres::CONNECTIONS }
}

/// A workload at our host with the synchronous log, where that is not measured yet, and at
/// PostgreSQL with each number of connections.
fn beside(
    plan: &Plan,
    name: &'static str,
    workload: &mut dyn Workload,
    mut ours: Vec<Rate>,
    (schema, names): (&str, &'static [(&'static str, usize)]),
) -> Result<Beside, String> {
    while (ours.len() as u64) < plan.repeats {
        let host = Host::start(plan, 1, true)?;
        let repeat = ours.len() as u64 + 1;
        let rate = Rate::of(&host.run(plan, workload, &load(Pace::Closed, repeat))?);
        note(&format!("{name}, synchronous log"), repeat, rate.per_s, &busy(rate));
        ours.push(rate);
    }
    let server = start_postgres(plan)?;
    functions::set_up(&server, workload, schema)?;
    let system = PostgresSystem::new(&server, names);
    let mut database = PostgresDatabase::connect(&server)?;
    let mut rates = Vec::new();
    for (seed, &connections) in (1..).zip(tried(plan)) {
        let options = OtherOptions {
            connections,
            clients: connections,
            duration: plan.duration,
            warmup: plan.warmup,
            seed,
        };
        workload.begin(&mut database)?;
        let before = server.cpu_time()?;
        // The connections end with the load: what they used is asked for while they are there.
        let mut used = None;
        let mut ended = || used = server.cpu_time().ok();
        let figures = other::drive(&system, workload, &options, &mut ended)?;
        if let Some(error) = &figures.first_error {
            return Err(format!("{name} on PostgreSQL: {error}"));
        }
        let checks = workload.check(&mut database, &figures.counts, figures.complete)?;
        if let Some(wrong) = checks.iter().find(|check| !check.holds) {
            return Err(format!("{name} on PostgreSQL: {}: {}", wrong.name, wrong.detail));
        }
        let used = used.unwrap_or_default().saturating_sub(before).as_secs_f64();
        let rate = Rate {
            per_s: figures.throughput_per_s(),
            per_busy_s: figures.all as f64 / used.max(1e-3),
        };
        let what = format!("{name}, PostgreSQL, {connections} connections");
        note(&what, seed, rate.per_s, &format!("{}, {} checks hold", busy(rate), checks.len()));
        rates.push((connections, rate));
    }
    Ok(Beside { workload: name, ours, postgres: rates })
}

fn voter_beside(plan: &Plan) -> Result<Beside, String> {
    let mut ours = Vec::new();
    for repeat in 1..=plan.repeats {
        let rate = voter_with_log(plan)?;
        note("voter, synchronous log", repeat, rate.per_s, &busy(rate));
        ours.push(rate);
    }
    let server = start_postgres(plan)?;
    postgres_voter::set_up(&server)?;
    let mut seed = 0;
    let mut told = |connections, per_s| {
        seed += 1;
        note(&format!("voter, PostgreSQL, {connections} connections"), seed, per_s, "");
    };
    let times = (plan.duration, plan.warmup);
    let rates = postgres_voter::run_with_each(&server, tried(plan), times, &mut told)?;
    // Its connections have ended: their processor time is not known.
    let rate = |(connections, per_s)| (connections, Rate { per_s, per_busy_s: 0.0 });
    let rates = rates.into_iter().map(rate).collect();
    Ok(Beside { workload: "voter", ours, postgres: rates })
}

fn voter_with_log(plan: &Plan) -> Result<Rate, String> {
    let directory = plan.folder.join("voter");
    let mut init = std::process::Command::new(&plan.lockstep);
    init.args(["init", "--sites", "1", "--dir"]).arg(&directory).stdout(Stdio::null());
    let made = init.status().map_err(|error| error.to_string())?;
    if !made.success() {
        return Err(format!("{init:?} failed"));
    }
    let mut command = on_core(SERVER_CORE, &plan.lockstep.to_string_lossy());
    command.args(["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--durability", "sync", "--dir"]).arg(&directory).stderr(Stdio::null());
    let server = ServerProcess::start_with_ready_line(command).map_err(|e| e.to_string())?;
    let address = server.address.to_string();
    let connected = Connection::connect(&address, &ConnectOptions::default());
    let mut connection = connected.map_err(|error| error.to_string())?;
    voter::set_up(&mut connection, Form::Native).map_err(|error| error.to_string())?;
    let mut votes = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let options = DriverOptions {
        servers: vec![address],
        connections: CONNECTIONS,
        pipeline: PIPELINE,
        rate_per_s: None,
        duration: plan.duration,
        warmup: plan.warmup,
        keep_calls: false,
        never_sleeps: false,
    };
    let before = server.cpu_time().map_err(|error| error.to_string())?;
    let measured =
        driver::drive(&options, &mut votes, &mut |_| {}).map_err(|error| error.to_string())?;
    let cpu = server.cpu_time().map_err(|error| error.to_string())? - before;
    if let Some(error) = &measured.first_error {
        return Err(error.clone());
    }
    let kept = voter::vote_count(&mut connection).map_err(|error| error.to_string())?;
    drop(server);
    std::fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
    match kept == votes.accepted {
        true => Ok(Rate {
            per_s: throughput_per_s(&measured),
            per_busy_s: measured.all as f64 / cpu.as_secs_f64().max(1e-3),
        }),
        false => Err(format!("{kept} votes in the table, {} accepted", votes.accepted)),
    }
}
