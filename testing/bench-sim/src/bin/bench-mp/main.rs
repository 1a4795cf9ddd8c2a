//! `bench-mp`: the speed of transactions over several partitions, as ratios from one run.
//!
//! Two sites run on two cores, and make the load themselves, so that they are the limit. What is
//! compared with each other takes turns; each ratio is the median of its repeats.

mod alternate_key;
mod bystander;
mod cost;
mod inserts;
mod measure;
mod table;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::program;
use lockstep_bench::verdict::{Row, render_options};
use std::process::ExitCode;
use std::time::Duration;

/// The subcommand that this program starts itself with.
const BYSTANDER: &str = "bystander";
/// The subcommand that measures the alternate-key mix only.
const ALTERNATE_KEY: &str = "alternate-key";
/// The subcommand that measures inserts only.
const INSERTS: &str = "inserts";

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    let parser = value_parser!(u64).range(1..=100_000_000);
    Arg::new(name).long(name).value_parser(parser).default_value(default).help(help)
}

fn command() -> Command {
    Command::new("bench-mp")
        .about("The speed of transactions over several partitions, as ratios from one run")
        .arg(program::quick_repeat_flag())
        .arg(number("repeats", "5", "Repeats of each ratio; the median counts"))
        .arg(number("milliseconds", "1000", "Measured time of one figure"))
        .arg(number("warmup-milliseconds", "300", "Time before it"))
        .arg(number("in-flight", "512", "Calls in flight at each site"))
        .arg(number("accounts", "20000", "Accounts of the bank, and subscribers"))
        .arg(number("by-index", "200", "Of a thousand calls of the mix, those by a global index"))
        .arg(number("latency-calls", "3000", "Calls of each kind whose latency is measured"))
        .arg(program::json_option("Write rows and samples as JSON"))
        .subcommand(Command::new(ALTERNATE_KEY).about("Measures the alternate-key mix only"))
        .subcommand(Command::new(INSERTS).about("Measures the inserts only"))
        .arg(
            Arg::new("share")
                .long("share")
                .value_name("PER MILLE")
                .value_parser(value_parser!(u64).range(0..=1000))
                .help("Only this: what a mix with so many transfers in a thousand calls costs"),
        )
        .arg(
            Arg::new("two-rounds")
                .long("two-rounds")
                .action(ArgAction::SetTrue)
                .requires("share")
                .help("With transfers of two rounds"),
        )
        .subcommand(
            Command::new(BYSTANDER)
                .hide(true)
                .arg(Arg::new("calls").required(true).value_parser(value_parser!(u64)))
                .arg(Arg::new("busy").long("busy").action(ArgAction::SetTrue)),
        )
}

/// What a run measures and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Repeats of each ratio.
    pub repeats: usize,
    /// Measured time of one figure.
    pub duration: Duration,
    /// Time before it.
    pub warmup: Duration,
    /// Calls in flight at each site.
    pub in_flight: usize,
    /// Accounts of the bank.
    pub accounts: i64,
    /// Of a thousand calls of the alternate-key mix, how many go by a global unique index.
    pub by_index_per_mille: u64,
    /// Calls of each kind whose latency is measured.
    pub latency_calls: usize,
    /// A bystander's calls whose instructions are counted.
    pub counted_calls: u64,
    /// A smoke run.
    pub quick: bool,
}

impl Plan {
    fn new(matches: &ArgMatches) -> Plan {
        let quick = matches.get_flag("quick");
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
        Plan {
            repeats: if quick { 1 } else { number("repeats") as usize },
            duration: Duration::from_millis(if quick { 100 } else { number("milliseconds") }),
            warmup: Duration::from_millis(if quick { 50 } else { number("warmup-milliseconds") }),
            in_flight: number("in-flight") as usize,
            accounts: number("accounts") as i64,
            by_index_per_mille: number("by-index"),
            latency_calls: if quick { 50 } else { number("latency-calls") as usize },
            counted_calls: if quick { 2_000 } else { 20_000 },
            quick,
        }
    }

    /// The warm-up and the measured time of a figure.
    fn times(&self) -> (Duration, Duration) {
        (self.warmup, self.duration)
    }

    fn options(&self, cores: usize) -> Vec<(&'static str, String)> {
        let ms = |time: Duration| format!("{} ms", time.as_millis());
        vec![
            ("cores", cores.to_string()),
            ("sites", "2, one on each core, which make the load themselves".to_string()),
            ("in flight at each site", self.in_flight.to_string()),
            ("accounts", format!("{}, at random", self.accounts)),
            ("by a global index", format!("{} of 1000 calls", self.by_index_per_mille)),
            ("repeats", format!("{}, medians of ratios", self.repeats)),
            ("measured time", ms(self.duration)),
            ("warm-up", ms(self.warmup)),
            ("latency", format!("{} calls of each kind, in turns", self.latency_calls)),
        ]
    }
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some((BYSTANDER, arguments)) => bystander::run(arguments),
        Some((ALTERNATE_KEY, _)) => compare_alternate_key(&Plan::new(&matches)),
        Some((INSERTS, _)) => compare_inserts(&Plan::new(&matches)),
        _ => match matches.get_one::<u64>("share") {
            Some(share) => {
                cost::print(&Plan::new(&matches), *share, matches.get_flag("two-rounds"))
            }
            None => compare(&matches),
        },
    };
    program::exit_code("bench-mp", result)
}

fn compare_alternate_key(plan: &Plan) -> Result<(), String> {
    let [integers, texts] = [false, true].map(|texts| alternate_key::measure(plan, texts));
    println!("{}", Row::render(&table::alternate_key_rows(&integers?, &texts?)));
    Ok(())
}

fn compare_inserts(plan: &Plan) -> Result<(), String> {
    let inserts = inserts::measure(plan)?;
    println!("{}", Row::render(&[table::inserts_row(&inserts)]));
    Ok(())
}

fn compare(matches: &ArgMatches) -> Result<(), String> {
    let cores = program::cores();
    if cores < 2 {
        eprintln!("bench-mp: there is one core only: the sites share it");
    }
    let plan = Plan::new(matches);
    let mut samples = measure::all(&plan)?;
    samples.alternate_key = alternate_key::measure(&plan, false)?;
    samples.alternate_text = alternate_key::measure(&plan, true)?;
    let inserts = inserts::measure(&plan)?;
    let bystander = bystander::measure(&plan);
    let simulated = measure::simulate(&plan);
    let rows = table::rows(&samples, &inserts, &bystander, &simulated);
    let options = plan.options(cores);
    println!("{}\n{}", render_options(&options), Row::render(&rows));
    program::end_run(matches, || table::json(&rows, &samples, &inserts, &options))
}
