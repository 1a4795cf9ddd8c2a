//! `bench-durability`: what the command log and snapshots cost, beside no log, Redis, PostgreSQL
//! and the disk itself, as ratios from one run on one disk.

mod ballast;
mod host;
mod measure;
mod mixed;
mod recovery;
mod table;
mod under_load;

use clap::{Arg, ArgMatches, Command, value_parser};
use lockstep_bench::verdict::{Row, render_options};
use lockstep_bench::{program, stalls};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Connections of the loads that measure throughput.
const CONNECTIONS: usize = 50;
/// Calls in flight on each.
const PIPELINE: usize = 64;
/// Keys of the load on Redis.
const REDIS_KEYS: u64 = 1_000_000;
/// The core of the servers.
const SERVER_CORE: usize = 0;

/// The subcommands that this program starts itself with.
const EMBEDDED: &str = "embedded";
const SYNC: &str = "sync";

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The synchronous log against none.
    NoLog,
    /// Against Redis.
    Redis,
    /// Against PostgreSQL.
    Postgres,
    /// Added latency of one call at a time.
    Latency,
    /// Replay of the log against embedded calls.
    Replay,
    /// Replay of a log of procedures in Java.
    MixedReplay,
    /// Bytes of the log for a call.
    LogBytes,
    /// Recovery of gigabytes of rows.
    Recovery,
    /// Calls while snapshots are taken.
    UnderLoad,
    /// Writing and loading snapshots on one core.
    SnapshotSpeed,
}

/// The figures by the names of the option `--only`.
const FIGURES: [(&str, Figure); 10] = [
    ("no-log", Figure::NoLog),
    ("redis", Figure::Redis),
    ("postgres", Figure::Postgres),
    ("latency", Figure::Latency),
    ("replay", Figure::Replay),
    ("mixed-replay", Figure::MixedReplay),
    ("log-bytes", Figure::LogBytes),
    ("recovery", Figure::Recovery),
    ("under-load", Figure::UnderLoad),
    ("snapshot-speed", Figure::SnapshotSpeed),
];

fn command() -> Command {
    let program = Command::new("bench-durability")
        .about("What the command log and snapshots cost, as ratios from one run on one disk")
        .arg(program::only_option(&FIGURES))
        .arg(program::quick_repeat_flag())
        .arg(
            Arg::new("repeats")
                .long("repeats")
                .value_parser(value_parser!(u32).range(1..=100))
                .default_value("3")
                .help("Repeats of each figure; the median counts"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_parser(value_parser!(u64).range(1..=600))
                .default_value("4")
                .help("Measured time of one figure"),
        )
        .arg(
            Arg::new("lockstep")
                .long("lockstep")
                .value_name("PROGRAM")
                .value_parser(value_parser!(PathBuf))
                .help("The server [default: the one beside this program]"),
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where the disk is that is measured [default: beside this program]"),
        )
        .arg(program::json_option("Write rows and samples as JSON"))
        .arg(program::pinned_flag());
    let hidden = |name: &'static str| {
        let milliseconds = Arg::new("milliseconds").value_parser(value_parser!(u64));
        Command::new(name).hide(true).arg(milliseconds.required(true))
    };
    let file = Arg::new("file").required(true).value_parser(value_parser!(PathBuf));
    amounts(program)
        .subcommand(hidden(EMBEDDED))
        .subcommand(stalls::ticker_command())
        .subcommand(Command::new(SYNC).hide(true).arg(file))
}

/// The options that say how much data there is, and where PostgreSQL is.
fn amounts(program: Command) -> Command {
    let megabytes = |name: &'static str, default: &'static str, help: &'static str| {
        let range = value_parser!(u64).range(1..=1_000_000);
        Arg::new(name)
            .long(name)
            .value_name("MB")
            .value_parser(range)
            .default_value(default)
            .help(help)
    };
    program
        .arg(megabytes("recovery-mb", "5000", "Rows that are recovered, in MB of their values"))
        .arg(megabytes("snapshot-mb", "1000", "Rows in the other snapshots, in MB of their values"))
        .arg(
            Arg::new("mixed-calls")
                .long("mixed-calls")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=100_000_000))
                .default_value("280000")
                .help("Calls of procedures in Java in the log that is replayed"),
        )
        .arg(
            Arg::new("postgres")
                .long("postgres")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .help("PostgreSQL's programs [default: the newest installed]"),
        )
}

/// What a run measures, for how long, and where.
struct Plan {
    figures: Vec<Figure>,
    repeats: u32,
    duration: Duration,
    warmup: Duration,
    quick: bool,
    recovery_bytes: u64,
    snapshot_bytes: u64,
    mixed_calls: u64,
    /// Cores of the machine.
    cores: usize,
    /// This program.
    own: PathBuf,
    lockstep: PathBuf,
    postgres: Option<PathBuf>,
    /// A folder of this run alone.
    folder: PathBuf,
}

impl Plan {
    fn new(matches: &ArgMatches) -> Result<Plan, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let beside = |name: &str| own.with_file_name(name);
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let lockstep = path("lockstep").unwrap_or_else(|| beside("lockstep"));
        if !lockstep.exists() {
            let path = lockstep.display();
            return Err(format!("{path} is missing; `make build` makes it, or give --lockstep"));
        }
        let name = format!("bench-durability-{}", std::process::id());
        let folder = path("dir").map_or_else(|| beside(&name), |dir| dir.join(&name));
        let quick = matches.get_flag("quick");
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
        let bytes = |name: &str| if quick { 20_000_000 } else { number(name) * 1_000_000 };
        let repeats = matches.get_one::<u32>("repeats").copied().unwrap_or(3);
        Ok(Plan {
            figures: program::chosen_figures(matches, &FIGURES),
            repeats: if quick { 1 } else { repeats },
            duration: Duration::from_millis(if quick { 300 } else { number("seconds") * 1000 }),
            warmup: Duration::from_millis(if quick { 100 } else { 1000 }),
            quick,
            recovery_bytes: bytes("recovery-mb"),
            snapshot_bytes: bytes("snapshot-mb"),
            mixed_calls: if quick { 2_000 } else { number("mixed-calls") },
            cores: program::cores(),
            own,
            lockstep,
            postgres: path("postgres"),
            folder,
        })
    }

    /// Whether one of these is to be measured.
    fn wants(&self, figures: &[Figure]) -> bool {
        figures.iter().any(|figure| self.figures.contains(figure))
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let megabytes = |bytes: u64| format!("{} MB of rows", bytes / 1_000_000);
        vec![
            ("core of the servers", SERVER_CORE.to_string()),
            ("core of the load", program::load_core(self.cores).to_string()),
            ("lockstep", format!("start --sites 1 [--dir DIR] ({})", self.lockstep.display())),
            ("Redis", "appendonly yes, appendfsync always, SET of 64 bytes".to_string()),
            ("PostgreSQL", measure::POSTGRES_SETTINGS.join(", ")),
            ("the disk of", self.folder.display().to_string()),
            ("connections", format!("{CONNECTIONS}, or 1 where it says so")),
            ("in flight on each", format!("{PIPELINE}, or 1 where it says so")),
            ("recovery", format!("{}, {} sites", megabytes(self.recovery_bytes), self.cores)),
            ("snapshots", megabytes(self.snapshot_bytes)),
            ("replay of Java", format!("{} calls, {} sites", self.mixed_calls, mixed::SITES)),
            ("during snapshots", under_load::options_in_words()),
            ("repeats", format!("{}, medians; of the recovery one", self.repeats)),
            ("measured time", seconds(self.duration)),
            ("warm-up", seconds(self.warmup)),
        ]
    }
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let duration = |arguments: &ArgMatches| {
        let milliseconds = arguments.get_one::<u64>("milliseconds").copied();
        Duration::from_millis(milliseconds.unwrap_or(1000))
    };
    let result = match matches.subcommand() {
        Some((EMBEDDED, arguments)) => measure::run_embedded(duration(arguments)),
        Some((stalls::TICKER, arguments)) => {
            stalls::print_ticks(arguments);
            Ok(())
        }
        Some((SYNC, arguments)) => {
            let file = arguments.get_one::<PathBuf>("file").cloned().unwrap_or_default();
            measure::run_sync(&file).map_err(|error| format!("{}: {error}", file.display()))
        }
        _ => run(&matches),
    };
    program::exit_code("bench-durability", result)
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    if !matches.get_flag("pinned") {
        return program::pin_and_restart("bench-durability");
    }
    let plan = Plan::new(matches)?;
    let shown = |error: std::io::Error| format!("{}: {error}", plan.folder.display());
    std::fs::create_dir_all(&plan.folder).map_err(shown)?;
    let samples = measure::all(&plan);
    std::fs::remove_dir_all(&plan.folder).map_err(shown)?;
    let samples = samples?;
    let rows = table::rows(&samples);
    let options = plan.options();
    println!("{}\n{}", render_options(&options), Row::render(&rows));
    program::end_run(matches, || table::json(&rows, &samples, &options))
}
