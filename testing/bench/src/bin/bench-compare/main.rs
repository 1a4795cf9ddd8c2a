//! `bench-compare`: our speed beside Redis and an echo server, as ratios from one run.
//!
//! Servers run on one core and the load on another, one server at a time, in turns; each figure
//! is the median of its repeats. Absolute rates of a machine drift, ratios of one run do not.

mod instructions;
mod measure;
mod memory;
mod systems;
mod table;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::verdict::render_options;
use lockstep_bench::{echo, program, stalls};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use systems::Systems;

/// The subcommands that this program starts itself with.
const ECHO: &str = "echo-server";
const PROBE: &str = "embedded-probe";
const EMBEDDED: &str = "embedded";

fn command() -> Command {
    Command::new("bench-compare")
        .about("Our speed beside Redis and an echo server, as ratios from one run")
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
        .arg(program::json_option("Write rows and samples as JSON"))
        .arg(program::pinned_flag())
        .subcommand(Command::new(ECHO).hide(true))
        .subcommand(
            Command::new(PROBE)
                .hide(true)
                .arg(Arg::new("calls").required(true).value_parser(value_parser!(u64)))
                .arg(Arg::new("dry").long("dry").action(ArgAction::SetTrue)),
        )
        .subcommand(
            Command::new(EMBEDDED)
                .hide(true)
                .arg(Arg::new("milliseconds").required(true).value_parser(value_parser!(u64))),
        )
        .subcommand(stalls::ticker_command())
}

/// What a run measures and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Repeats of each figure.
    pub repeats: u32,
    /// Measured time of one figure.
    pub duration: Duration,
    /// Time before it.
    pub warmup: Duration,
    /// Calls whose instructions are counted.
    pub counted_calls: u64,
    /// A smoke run.
    pub quick: bool,
}

impl Plan {
    fn new(matches: &ArgMatches) -> Plan {
        let quick = matches.get_flag("quick");
        let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or(4);
        let repeats = matches.get_one::<u32>("repeats").copied().unwrap_or(3);
        Plan {
            repeats: if quick { 1 } else { repeats },
            duration: Duration::from_millis(if quick { 300 } else { seconds * 1000 }),
            warmup: Duration::from_millis(if quick { 100 } else { 1000 }),
            counted_calls: if quick { 20_000 } else { 1_000_000 },
            quick,
        }
    }
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some((ECHO, _)) => echo::serve(),
        Some((PROBE, arguments)) => instructions::probe(arguments),
        Some((EMBEDDED, arguments)) => measure::run_embedded(arguments),
        Some((stalls::TICKER, arguments)) => {
            stalls::print_ticks(arguments);
            Ok(())
        }
        _ => compare(&matches),
    };
    program::exit_code("bench-compare", result)
}

fn compare(matches: &ArgMatches) -> Result<(), String> {
    if !matches.get_flag("pinned") {
        return program::pin_and_restart("bench-compare");
    }
    let plan = Plan::new(matches);
    let load = load_average();
    let systems = Systems::find(matches.get_one::<PathBuf>("lockstep").cloned())?;
    let samples = measure::all(&plan, &systems)?;
    let instructions = instructions::per_call(&plan, &systems)?;
    let memory = memory::per_row(&plan, &systems)?;
    let rows = table::rows(&samples, &instructions, &memory);
    let options = systems.options(&plan);
    println!("{}\n{}", render_options(&options), table::render(&rows));
    if load > BUSY_LOAD {
        println!(
            "The machine was busy before this run (load {load:.1}): rates and latencies mean \
             little, CPU times and instructions hold."
        );
    }
    program::end_run(matches, || table::json(&rows, &samples, &options))
}

/// Above this load other work takes the cores away that are measured.
const BUSY_LOAD: f64 = 0.7;

/// Processes that wanted to run over the last minute, on average; 0 where nobody knows.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}
