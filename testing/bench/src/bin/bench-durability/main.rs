//! `bench-durability`: what the command log costs, beside no log, Redis, and the disk itself, as
//! ratios from one run on one disk.

mod measure;
mod table;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::process::on_core;
use lockstep_bench::verdict::render_options;
use std::os::unix::process::CommandExt;
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
/// The core of the load, where there are two.
const LOAD_CORE: usize = 1;

fn command() -> Command {
    Command::new("bench-durability")
        .about("What the command log costs, as ratios from one run on one disk")
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("One short repeat of everything: shows that it runs, measures nothing"),
        )
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
        .arg(
            Arg::new("json")
                .long("json")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write rows and samples as JSON"),
        )
        .arg(Arg::new("pinned").long("pinned").action(ArgAction::SetTrue).hide(true))
}

/// What a run measures, for how long, and where.
struct Plan {
    repeats: u32,
    duration: Duration,
    warmup: Duration,
    quick: bool,
    lockstep: PathBuf,
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
        let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or(4);
        let repeats = matches.get_one::<u32>("repeats").copied().unwrap_or(3);
        Ok(Plan {
            repeats: if quick { 1 } else { repeats },
            duration: Duration::from_millis(if quick { 300 } else { seconds * 1000 }),
            warmup: Duration::from_millis(if quick { 100 } else { 1000 }),
            quick,
            lockstep,
            folder,
        })
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        vec![
            ("core of the servers", SERVER_CORE.to_string()),
            ("core of the load", LOAD_CORE.to_string()),
            ("lockstep", format!("start --sites 1 [--dir DIR] ({})", self.lockstep.display())),
            ("Redis", "appendonly yes, appendfsync always, SET of 64 bytes".to_string()),
            ("the disk of", self.folder.display().to_string()),
            ("connections", format!("{CONNECTIONS}, or 1 where it says so")),
            ("in flight on each", format!("{PIPELINE}, or 1 where it says so")),
            ("repeats", format!("{}, medians", self.repeats)),
            ("measured time", seconds(self.duration)),
            ("warm-up", seconds(self.warmup)),
        ]
    }
}

fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-durability: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    if !matches.get_flag("pinned") {
        return pin_and_restart();
    }
    let plan = Plan::new(matches)?;
    let shown = |error: std::io::Error| format!("{}: {error}", plan.folder.display());
    std::fs::create_dir_all(&plan.folder).map_err(shown)?;
    let samples = measure::all(&plan);
    std::fs::remove_dir_all(&plan.folder).map_err(shown)?;
    let samples = samples?;
    let rows = table::rows(&samples);
    let options = plan.options();
    println!("{}\n{}", render_options(&options), table::render(&rows));
    if plan.quick {
        println!("A quick run: the figures mean nothing.");
    }
    if let Some(file) = matches.get_one::<PathBuf>("json") {
        let json = table::json(&rows, &samples, &options);
        let text = serde_json::to_string_pretty(&json).map_err(|error| error.to_string())?;
        std::fs::write(file, text + "\n").map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// Starts this program anew on the core of the load, in the place of itself.
fn pin_and_restart() -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if cores < 2 {
        eprintln!("bench-durability: there is one core only: load and servers share it");
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let error = on_core(LOAD_CORE.min(cores - 1), &program.to_string_lossy())
        .args(std::env::args().skip(1))
        .arg("--pinned")
        .exec();
    Err(format!("taskset (of util-linux) cannot be run: {error}"))
}
