//! `bench-java`: procedures in Java beside native ones, as ratios from one run.
//!
//! One site; the host runs in this process, and voter's calls reach it over TCP. Native and Java
//! take turns, each on a host of its own; the ratio is the median of the repeats. Of the open loop,
//! calls that were due while the machine took a core away are set aside, and both figures printed.

use clap::{Arg, Command, value_parser};
use lockstep_bench::driver::{DriverOptions, Measured, drive};
use lockstep_bench::program;
use lockstep_bench::stalls::{self, Watch};
use lockstep_bench::verdict::median;
use lockstep_bench::voter::{Form, VoterLoad, schema_statements};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_node::options::{Milliseconds, Options};
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, TestSettings};
use lockstep_types::{Datum, SqlType};
use lockstep_workloads::voter;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

/// Java's procedures, after the classes.
const JAVA: &str = "\
    CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM CLASS voter.Vote;
    CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM CLASS voter.Reads;";
/// Batches of one call of `Reads`, and such calls.
const BATCHES: i32 = 200_000;
const READ_CALLS: usize = 15;
/// How much longer it runs than what it watches.
const TICKER_SPARE: Duration = Duration::from_secs(2);
/// The open loop's share of the peak.
const OPEN_LOAD: f64 = 0.5;

fn main() -> ExitCode {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        let parser = value_parser!(u64).range(1..=100_000);
        Arg::new(name).long(name).value_parser(parser).default_value(default).help(help)
    };
    let matches = Command::new("bench-java")
        .about("Procedures in Java beside native ones, as ratios from one run")
        .arg(program::quick_repeat_flag())
        .arg(number("repeats", "3", "Repeats of the ratio; the median counts"))
        .arg(number("seconds", "8", "Measured time of one figure, behind 4 s of warm-up"))
        .arg(number("latency-seconds", "60", "Time of the open loop at half of the peak"))
        .subcommand(stalls::ticker_command())
        .get_matches();
    if let Some((_, ticker)) = matches.subcommand() {
        stalls::print_ticks(ticker);
        return ExitCode::SUCCESS;
    }
    let quick = matches.get_flag("quick");
    let given = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
    let plan = Plan {
        repeats: if quick { 1 } else { given("repeats") },
        duration: Duration::from_secs(if quick { 1 } else { given("seconds") }),
        warmup: Duration::from_secs(if quick { 1 } else { 4 }),
        latency: Duration::from_secs(if quick { 1 } else { given("latency-seconds") }),
    };
    match run(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-java: {message}");
            ExitCode::from(2)
        }
    }
}

struct Plan {
    repeats: u64,
    duration: Duration,
    warmup: Duration,
    latency: Duration,
}

/// A host of one site with voter's tables and, with a jar, Java's procedures.
fn host(jar: Option<&[u8]>) -> Result<(Server, Connection), String> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::test_procedures() {
        natives.register(procedure);
    }
    let server = Server::start(ServerConfiguration {
        sites: 1,
        for_tests: TestSettings::default(),
        client: any_port,
        admin: any_port,
        options: Options { java_call_limit_ms: Some(Milliseconds(60_000)), ..Options::default() },
        natives,
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data: None,
        cluster: None,
    });
    let server = server.map_err(|error| error.to_string())?;
    let address = server.client_address().to_string();
    let connected = Connection::connect(&address, &ConnectOptions::default());
    let mut connection = connected.map_err(|error| error.to_string())?;
    let mut statements = schema_statements();
    if let Some(jar) = jar {
        let mut parameters = ParameterWriter::default();
        parameters.scalar(SqlType::Varbinary, Datum::Bytes(jar));
        parameters.scalar(SqlType::Varchar, Datum::Null);
        connection.call("@UpdateClasses", &parameters).map_err(|error| error.to_string())?;
        statements.push(JAVA.to_string());
    } else {
        statements.push(voter::NATIVE_PROCEDURE.to_string());
    }
    for statement in statements {
        connection.sql(&statement).map_err(|error| error.to_string())?;
    }
    Ok((server, connection))
}

/// Voter against a host, 64 calls in flight.
fn vote(
    server: &Server,
    rate_per_s: Option<f64>,
    duration: Duration,
    warmup: Duration,
) -> Result<Measured, String> {
    let options = DriverOptions {
        servers: vec![server.client_address().to_string()],
        connections: 1,
        pipeline: if rate_per_s.is_some() { 4_096 } else { 64 },
        rate_per_s,
        duration,
        warmup,
        keep_calls: rate_per_s.is_some(),
        never_sleeps: false,
    };
    let mut load = VoterLoad::new(1, voter::CONTESTANTS, Form::Native);
    let measured = drive(&options, &mut load, &mut |_| {}).map_err(|error| error.to_string())?;
    match &measured.first_error {
        Some(error) => Err(error.clone()),
        None => Ok(measured),
    }
}

/// Watches each core: the threads of this process may run on any.
fn watch(duration: Duration) -> Result<Watch, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let cores: Vec<usize> = (0..cores).collect();
    Ok(Watch::begin(&cores, &program, duration + TICKER_SPARE))
}

fn per_second(measured: &Measured) -> f64 {
    measured.transactions as f64 / measured.duration.as_secs_f64()
}

/// Nanoseconds of a batch of one point read, in a call that makes many.
fn crossing(connection: &mut Connection) -> Result<f64, String> {
    let mut samples = Vec::new();
    for _ in 0..READ_CALLS {
        let mut parameters = ParameterWriter::default();
        parameters.bigint(1).integer(BATCHES);
        let response = connection.call("Reads", &parameters).map_err(|e| e.to_string())?;
        let view = response.view();
        let table = view.tables().next().and_then(Result::ok).ok_or("Reads gave no table")?;
        match table.scalar() {
            Ok(Some(Datum::Int(took_ns))) => samples.push(took_ns as f64 / f64::from(BATCHES)),
            other => return Err(format!("Reads gave {other:?}")),
        }
    }
    // The first calls run before the JVM has compiled them.
    Ok(median(samples.split_off(READ_CALLS / 3)))
}

fn run(plan: &Plan) -> Result<(), String> {
    let jar = lockstep_bench::java::workloads_jar();
    if jar.is_empty() {
        return Err("this was built without a JDK; there are no Java procedures".to_string());
    }
    let (mut ratios, mut peaks) = (Vec::new(), Vec::new());
    for repeat in 1..=plan.repeats {
        let (server, _connection) = host(None)?;
        let native = per_second(&vote(&server, None, plan.duration, plan.warmup)?);
        drop(server);
        let (server, _connection) = host(Some(jar))?;
        let java = per_second(&vote(&server, None, plan.duration, plan.warmup)?);
        println!("repeat {repeat}: native {native:.0}/s, Java {java:.0}/s, {:.2} x", java / native);
        ratios.push(java / native);
        peaks.push(java);
    }
    let (server, mut connection) = host(Some(jar))?;
    let crossing_ns = crossing(&mut connection)?;
    let rate = median(peaks) * OPEN_LOAD;
    let watching = watch(plan.warmup + plan.latency)?;
    let open = vote(&server, Some(rate), plan.latency, plan.warmup)?;
    let undisturbed = watching.end(&open.calls, OPEN_LOAD, plan.latency);
    let whole_ms = open.latency_us.value_at_quantile(0.99) as f64 / 1000.0;
    let p99_ms = stalls::judged_p99_us(whole_ms * 1000.0, undisturbed.as_ref()) / 1000.0;
    let p50_ms = open.latency_us.value_at_quantile(0.5) as f64 / 1000.0;
    println!("| what | measured | must | aim |\n|---|---|---|---|");
    println!("| Vote in Java / native, 64 in flight | {:.2} x | 0.5 x | 0.75 x |", median(ratios));
    println!("| a batch of one point read | {:.2} us | 1.5 us | 0.7 us |", crossing_ns / 1000.0);
    println!("| p99 of Java's Vote at {rate:.0}/s | {p99_ms:.2} ms | 2 ms | 1 ms |");
    println!("\np50 of the open loop {p50_ms:.2} ms, {} calls late", open.late);
    match undisturbed {
        None => println!("p99 of all calls {whole_ms:.2} ms; the machine's stalls are not known"),
        Some(left) => println!(
            "p99 of all calls {whole_ms:.2} ms, without the machine's stalls {:.2} ms; set aside \
             {:.0} %{}, stalls {:.0} ms together, the longest {:.1} ms",
            left.p99_us / 1000.0,
            left.set_aside * 100.0,
            if left.counts() { "" } else { " (too many for the figure to count)" },
            left.stalled_us / 1000.0,
            left.longest_us / 1000.0
        ),
    }
    Ok(())
}
