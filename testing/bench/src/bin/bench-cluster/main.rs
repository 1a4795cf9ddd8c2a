//! `bench-cluster`: what copies of partitions cost, and how long a lost host is felt: ratios of one
//! run, between clusters of processes on this machine, an echo server, and Redis with a replica.
//!
//! Figures are of the processor time of all servers where that is possible, because the processes
//! share the cores of one machine. Each figure is the median of its repeats, which take turns.

mod failover;
mod forwarding;
mod half_load;
mod latency;
mod measure;
mod postgres;
mod redis;
mod rejoin;
mod rolling;
mod table;

use clap::{Arg, ArgMatches, Command, value_parser};
use lockstep_bench::verdict::{Row, render_options, report_json};
use lockstep_bench::{echo, program, relay, stalls};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The subcommands that this program starts itself with.
const ECHO: &str = "echo-server";
const RELAY: &str = "relay";

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// What a leader and a follower take at fixed rates.
    Leader,
    /// What all hosts take, in a closed loop and at a fixed rate.
    AllHosts,
    /// Latency at half of the load of that closed loop.
    HalfLoad,
    /// What a call through another host takes.
    OtherHost,
    /// What a write takes, and with Redis.
    Write,
    /// Latencies of one client.
    Latency,
    /// How long a lost host is felt.
    Failover,
    /// Rolling restarts.
    Rolling,
    /// Hosts that come back.
    Rejoin,
}

/// The figures by the names of the option `--only`.
const FIGURES: [(&str, Figure); 9] = [
    ("leader", Figure::Leader),
    ("all-hosts", Figure::AllHosts),
    ("half-load", Figure::HalfLoad),
    ("other-host", Figure::OtherHost),
    ("write", Figure::Write),
    ("latency", Figure::Latency),
    ("failover", Figure::Failover),
    ("rolling", Figure::Rolling),
    ("rejoin", Figure::Rejoin),
];

fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_parser(value_parser!(u32).range(0..=1_000_000))
            .default_value(default)
            .help(help)
    };
    Command::new("bench-cluster")
        .about("What copies cost, and how long a lost host is felt, as ratios from one run")
        .arg(program::only_option(&FIGURES))
        .arg(program::quick_repeat_flag())
        .arg(number("repeats", "3", "Repeats of each figure; the median counts"))
        .arg(number("seconds", "2", "Measured time of one figure"))
        .arg(number("rate", "20000", "Calls per second of the figures at a fixed rate"))
        .arg(number("busy-rate", "150000", "The same for a leader that uses half of its core"))
        .arg(number("full-rate", "250000", "The same for a leader that works through full batches"))
        .arg(number("in-flight", "1000", "Calls in flight at each host in closed loops"))
        .arg(number(
            "half-rate",
            "25000",
            "Calls per second that take half of the core of the hosts; fewer where it is more",
        ))
        .arg(number("kills", "5", "Hosts that are killed, each in a cluster of its own"))
        .arg(number("suspensions", "3", "Hosts that are stopped by SIGSTOP, in the same way"))
        .arg(number("rolling-restarts", "1", "Restarts of all hosts, one host after the other"))
        .arg(number("rejoins", "3", "Hosts that are killed and come back"))
        .arg(
            Arg::new("rejoin-rows")
                .long("rejoin-rows")
                .value_parser(value_parser!(u32).range(1..=100_000_000))
                .default_value("4000000")
                .help("Rows of the table that they load, 170 bytes each; they have two thirds"),
        )
        .arg(
            Arg::new("lockstep")
                .long("lockstep")
                .value_name("PROGRAM")
                .value_parser(value_parser!(PathBuf))
                .help("The server [default: the one beside this program]"),
        )
        .arg(program::json_option("Write rows and samples as JSON"))
        .arg(program::pinned_flag())
        .subcommand(Command::new(ECHO).hide(true))
        .subcommand(
            Command::new(RELAY)
                .hide(true)
                .arg(Arg::new("to").required(true).value_parser(value_parser!(SocketAddr))),
        )
        .subcommand(stalls::ticker_command())
}

/// What a run measures, and with what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The figures.
    pub figures: Vec<Figure>,
    /// Repeats of each figure.
    pub repeats: u32,
    /// Measured time of one figure.
    pub duration: Duration,
    /// Time before it.
    pub warmup: Duration,
    /// Calls per second of the figures at a fixed rate.
    pub rate_per_s: f64,
    /// The same for a leader that is busy, whose calls take more of the time and its waking less.
    pub busy_rate_per_s: f64,
    /// The same for a leader whose calls come in batches as long as its buffers allow.
    pub full_rate_per_s: f64,
    /// Calls per second that take half of the core of three hosts with copies; with fewer, where
    /// these take more, half load is looked for.
    pub half_rate_per_s: f64,
    /// Calls in flight at each host in closed loops.
    pub in_flight: u32,
    /// Hosts to kill.
    pub kills: u32,
    /// Hosts to stop.
    pub suspensions: u32,
    /// Rolling restarts.
    pub rolling_restarts: u32,
    /// Hosts that come back.
    pub rejoins: u32,
    /// Rows of the table that they load.
    pub rejoin_rows: u32,
    /// The server.
    pub server: PathBuf,
    /// This program.
    pub own: PathBuf,
}

impl Plan {
    fn new(matches: &ArgMatches) -> Result<Plan, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let given = matches.get_one::<PathBuf>("lockstep").cloned();
        let server = given.unwrap_or_else(|| own.with_file_name("lockstep"));
        if !server.is_file() {
            return Err(format!("there is no server at {}: make build", server.display()));
        }
        let quick = matches.get_flag("quick");
        let number = |name| matches.get_one::<u32>(name).copied().unwrap_or(1);
        let of = |name| if quick { number(name).min(1) } else { number(name) };
        Ok(Plan {
            figures: program::chosen_figures(matches, &FIGURES),
            repeats: of("repeats").max(1),
            duration: Duration::from_millis(if quick {
                300
            } else {
                u64::from(number("seconds").max(1)) * 1000
            }),
            warmup: Duration::from_millis(if quick { 100 } else { 500 }),
            rate_per_s: f64::from(if quick { 2000 } else { number("rate").max(1) }),
            busy_rate_per_s: f64::from(if quick { 4000 } else { number("busy-rate").max(1) }),
            full_rate_per_s: f64::from(if quick { 8000 } else { number("full-rate").max(1) }),
            half_rate_per_s: f64::from(if quick { 2000 } else { number("half-rate").max(1) }),
            in_flight: number("in-flight").max(1),
            kills: of("kills"),
            suspensions: of("suspensions"),
            rolling_restarts: of("rolling-restarts"),
            rejoins: of("rejoins"),
            rejoin_rows: if quick { 20_000 } else { number("rejoin-rows") },
            server,
            own,
        })
    }

    /// Whether a figure is measured.
    pub fn has(&self, figure: Figure) -> bool {
        self.figures.contains(&figure)
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        vec![
            ("repeats", self.repeats.to_string()),
            ("measured time", format!("{:?}", self.duration)),
            (
                "fixed rates",
                format!(
                    "{}, {}, {} calls/s",
                    self.rate_per_s, self.busy_rate_per_s, self.full_rate_per_s
                ),
            ),
            ("half load", format!("{} calls/s or fewer", self.half_rate_per_s)),
            ("in flight, closed loop", format!("{} calls a host", self.in_flight)),
            ("kills, suspensions", format!("{}, {}", self.kills, self.suspensions)),
            ("rejoins", format!("{} of {} rows", self.rejoins, self.rejoin_rows)),
            ("cores", program::cores().to_string()),
        ]
    }
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some((ECHO, _)) => echo::serve(),
        Some((RELAY, arguments)) => {
            relay::serve(*arguments.get_one::<SocketAddr>("to").expect("it is required"))
        }
        Some((stalls::TICKER, arguments)) => {
            stalls::print_ticks(arguments);
            Ok(())
        }
        _ => run(&matches),
    };
    program::exit_code("bench-cluster", result)
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    if !matches.get_flag("pinned") {
        return program::pin_and_restart("bench-cluster");
    }
    let plan = Plan::new(matches)?;
    let mut samples = table::Samples {
        one_leader: vec![
            table::OneLeader::stated_at(plan.rate_per_s),
            table::OneLeader::judged_at(plan.busy_rate_per_s),
            table::OneLeader::stated_at(plan.full_rate_per_s),
        ],
        ..table::Samples::default()
    };
    for repeat in 1..=plan.repeats {
        measure::all(&plan, &mut samples)?;
        if plan.has(Figure::Latency) {
            latency::all(&plan, &mut samples)?;
        }
        if plan.has(Figure::Write) {
            samples.redis_cpu_us.extend(redis::cpu_us_per_write(&plan)?);
            samples.postgres_cpu_us.extend(postgres::cpu_us_per_write(&plan)?);
        }
        eprintln!("repeat {repeat} of {}: done", plan.repeats);
    }
    if plan.has(Figure::Failover) {
        samples.kills = failover::gaps(&plan, failover::Fault::Kill, plan.kills)?;
        samples.suspensions = failover::gaps(&plan, failover::Fault::Suspend, plan.suspensions)?;
    }
    if plan.has(Figure::Rolling) {
        for _ in 0..plan.rolling_restarts {
            samples.rolling.push(rolling::restart_all(&plan)?);
        }
    }
    if plan.has(Figure::Rejoin) {
        samples.rejoins = rejoin::all(&plan)?;
    }
    let rows = samples.rows();
    let options = plan.options();
    println!("{}\n{}", render_options(&options), Row::render(&rows));
    program::end_run(matches, || {
        report_json(rows.iter().map(Row::json).collect(), samples.json(), &options)
    })
}
