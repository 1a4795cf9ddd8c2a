//! `bench-workloads`: TPC-C, TATP and lock-store beside Redis and PostgreSQL, as ratios from one
//! run.
//!
//! Servers run on one core and the load on another, one server at a time, in turns; each figure
//! is the median of its repeats. The sessions that make the calls are the same for all systems.

mod host;
mod java;
mod measure;
mod studies;
mod table;
mod tail;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::page::{Page, machine_facts};
use lockstep_bench::verdict::{Row, render_options};
use lockstep_bench::{echo, program, stalls};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The core of the servers.
pub const SERVER_CORE: usize = 0;
/// The core of the load.
pub const LOAD_CORE: usize = 1;
/// The subcommand of the echo server that this program starts itself as.
pub const ECHO: &str = "echo-server";

/// What can be measured, as `--only` names it, and whether it is by default.
pub const FIGURES: [(&str, bool); 11] = [
    ("tpcc", true),
    ("tpcc-java", true),
    ("tpcc-log", true),
    ("tpcc-p99", true),
    ("tatp", true),
    ("lock-store", true),
    ("tpcc-strategies", false),
    ("tatp-modes", false),
    ("voter-postgres", false),
    ("tpcc-postgres", false),
    ("tatp-postgres", false),
];

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    let parser = value_parser!(u64).range(1..=10_000_000);
    Arg::new(name).long(name).value_parser(parser).default_value(default).help(help)
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
}

fn command() -> Command {
    let figures = FIGURES.map(|(name, _)| name);
    Command::new("bench-workloads")
        .about("TPC-C, TATP and lock-store beside Redis and PostgreSQL, as ratios from one run")
        .arg(program::quick_flag(
            "One short repeat at a small scale: shows that it runs, measures nothing",
        ))
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("FIGURE,...")
                .value_delimiter(',')
                .value_parser(clap::builder::PossibleValuesParser::new(figures))
                .help("Only these [default: those beside Redis]"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .conflicts_with("only")
                .help("All of them: PostgreSQL and the comparisons of studies too"),
        )
        .arg(number("repeats", "3", "Repeats of each figure; the median counts"))
        .arg(number("seconds", "5", "Measured time of one figure, behind a second of warm-up"))
        .arg(number("latency-seconds", "10", "Measured time of New-Order's p99"))
        .arg(number("warehouses", "4", "Warehouses of TPC-C"))
        .arg(number("subscribers", "100000", "Subscribers of TATP"))
        .arg(file("lockstep", "The server [default: the one beside this program]"))
        .arg(file("postgres", "The folder of initdb [default: /usr/lib/postgresql/*/bin]"))
        .arg(file("dir", "Where logs and PostgreSQL's files go [default: the temporary folder]"))
        .arg(program::json_option("Write rows, samples and options as JSON"))
        .arg(file("html", "Write the report as a page"))
        .arg(program::pinned_flag())
        .subcommand(stalls::ticker_command())
        .subcommand(Command::new(ECHO).hide(true))
}

/// What a run measures and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Figures by name.
    pub figures: Vec<String>,
    /// Repeats of each.
    pub repeats: u64,
    /// Measured time of one figure.
    pub duration: Duration,
    /// Time before it.
    pub warmup: Duration,
    /// Measured time of the open loop.
    pub latency: Duration,
    /// Warehouses of TPC-C.
    pub warehouses: u64,
    /// What makes TPC-C's items, customers and orders fewer.
    pub divisor: u64,
    /// Subscribers of TATP.
    pub subscribers: u64,
    /// Records of lock-store.
    pub records: u64,
    /// Our server's program.
    pub lockstep: PathBuf,
    /// Where PostgreSQL's programs are, if that is not where they usually are.
    pub postgres: Option<PathBuf>,
    /// For logs and databases.
    pub folder: PathBuf,
    /// A smoke run.
    pub quick: bool,
}

impl Plan {
    fn new(matches: &ArgMatches) -> Result<Plan, String> {
        let quick = matches.get_flag("quick");
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let lockstep = path("lockstep").unwrap_or_else(|| own.with_file_name("lockstep"));
        if !lockstep.exists() {
            let path = lockstep.display();
            return Err(format!("{path} is missing; `make build` makes it, or give --lockstep"));
        }
        let all = matches.get_flag("all");
        let named = matches.get_many::<String>("only");
        let figures = match named {
            Some(named) => named.cloned().collect(),
            None => {
                let wanted = FIGURES.into_iter().filter(|(_, default)| all || *default);
                wanted.map(|(name, _)| name.to_string()).collect()
            }
        };
        let folder = path("dir").unwrap_or_else(std::env::temp_dir);
        Ok(Plan {
            figures,
            repeats: if quick { 1 } else { number("repeats") },
            duration: Duration::from_millis(if quick { 400 } else { number("seconds") * 1000 }),
            warmup: Duration::from_millis(if quick { 100 } else { 1000 }),
            latency: Duration::from_millis(if quick {
                400
            } else {
                number("latency-seconds") * 1000
            }),
            warehouses: if quick { 2 } else { number("warehouses") },
            divisor: if quick { 100 } else { 1 },
            subscribers: if quick { 1000 } else { number("subscribers") },
            records: if quick { 1000 } else { 100_000 },
            lockstep,
            postgres: path("postgres"),
            folder: folder.join(format!("bench-workloads-{}", std::process::id())),
            quick,
        })
    }

    /// Whether a figure is wanted.
    pub fn wants(&self, figure: &str) -> bool {
        self.figures.iter().any(|name| name == figure)
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let wanted = |parts: &[&str]| {
            self.figures.iter().any(|name| parts.iter().any(|part| name.starts_with(part)))
        };
        let studies = ["tpcc-strategies", "tatp-modes"];
        let beside_redis = self.figures.iter().any(|name| !studies.contains(&name.as_str()));
        let lockstep = format!(
            "start --sites 1 --option preallocate_bytes={}, TATP and comparisons --sites 4 ({})",
            host::AHEAD_BYTES,
            self.lockstep.display()
        );
        let redis = "nothing kept on disk; SET: 64-byte values, 50 connections x 64";
        let tpcc = format!("{} warehouses, as PyTPCC, {}", self.warehouses, measure::LOAD);
        let tatp = format!("{} subscribers, {}", self.subscribers, measure::LOAD);
        let records = format!("{} records of 1000 bytes, 1 to 5 ms", self.records);
        let all = [
            (true, "core of the servers", SERVER_CORE.to_string()),
            (true, "core of the load", LOAD_CORE.to_string()),
            (true, "lockstep", lockstep),
            (beside_redis, "Redis", redis.to_string()),
            (wanted(&["tpcc"]), "TPC-C", tpcc),
            (wanted(&["tatp"]), "TATP", tatp),
            (wanted(&["lock-store"]), "lock-store", records),
            (true, "repeats", format!("{}, medians", self.repeats)),
            (true, "measured time", seconds(self.duration)),
            (true, "warm-up", seconds(self.warmup)),
            (
                wanted(&["tpcc-p99"]),
                "open loop",
                format!(
                    "{}, at even intervals; --option {}, the load and the echo server alike",
                    seconds(self.latency),
                    tail::host_option()
                ),
            ),
        ];
        let kept = all.into_iter().filter(|(is_wanted, ..)| *is_wanted);
        let mut options: Vec<_> = kept.map(|(_, name, value)| (name, value)).collect();
        if self.figures.iter().any(|name| name.ends_with("postgres")) {
            let settings = lockstep_bench::other::postgres::SETTINGS.join(" ");
            options.push(("PostgreSQL", format!("{settings}; the best of {}", connections())));
        }
        options
    }
}

fn connections() -> String {
    lockstep_bench::postgres::CONNECTIONS.map(|count| count.to_string()).join(", ") + " connections"
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some((stalls::TICKER, arguments)) => {
            stalls::print_ticks(arguments);
            Ok(())
        }
        Some((ECHO, _)) => echo::serve(),
        _ if matches.get_flag("pinned") => compare(&matches),
        _ => program::pin_and_restart("bench-workloads"),
    };
    program::exit_code("bench-workloads", result)
}

fn compare(matches: &ArgMatches) -> Result<(), String> {
    let plan = Plan::new(matches)?;
    std::fs::create_dir_all(&plan.folder)
        .map_err(|error| format!("{}: {error}", plan.folder.display()))?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let measured = measure::all(&plan);
    // Its files are of no use any more, whatever came of it.
    let _ = std::fs::remove_dir_all(&plan.folder);
    let samples = measured?;
    let rows = table::rows(&samples);
    let mut options = plan.options();
    options.push(("load before", load.trim().to_string()));
    println!("{}\n{}", render_options(&options), Row::render(&rows));
    samples.studies.iter().for_each(|study| println!("{}", study.render()));
    program::end_run(matches, || table::json(&rows, &samples, &options))?;
    if let Some(path) = matches.get_one::<PathBuf>("html") {
        let mut page = Page::new(match rows.is_empty() {
            true => "LockstepDB: comparisons of studies",
            false => "LockstepDB beside Redis and PostgreSQL",
        });
        table::fill_page(&mut page, &rows, &samples);
        let options: Vec<Vec<String>> =
            options.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
        page.heading("Options").table(&["option", "value"], &options);
        let facts: Vec<Vec<String>> =
            machine_facts().into_iter().map(|(name, value)| vec![name, value]).collect();
        page.heading("Machine").table(&["what", "value"], &facts);
        std::fs::write(path, page.to_html())
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
