//! `bench-sql`: SQL on one site beside SQLite in memory, in one process on one thread.
//!
//! Our side runs as `lockstep bench --embedded` does: from the bytes of an invocation, with its
//! log entry and undo, to the bytes of the response, which are then read. SQLite runs prepared
//! statements with the same indexes. Results are compared before anything is timed, and their
//! checksums while it is. Absolute times of a machine drift, ratios of one run do not.

mod memory;
mod planning;
mod report;
mod reporting;
mod statements;
mod systems;
mod transactional;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::program;
use lockstep_bench::verdict::render_options;
use report::Findings;
use std::process::ExitCode;
use std::time::Duration;

fn command() -> Command {
    let number = |name: &'static str, default: &'static str, most: u64, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..=most))
            .default_value(default)
            .help(help)
    };
    Command::new("bench-sql")
        .about("SQL on one site beside SQLite in memory, as ratios from one run")
        .arg(program::quick_flag("A tiny run of everything: shows that it runs, measures nothing"))
        .arg(Arg::new("only").long("only").value_name("NAME").action(ArgAction::Append).help(
            "Only what has this in its name (again for more); planning and memory are names too",
        ))
        .arg(number("repeats", "5", 100, "Repeats of each figure; the median counts"))
        .arg(number(
            "milliseconds",
            "150",
            60_000,
            "Time of one repeat of a transactional statement",
        ))
        .arg(number("rows", "1000000", 100_000_000, "Rows that reporting queries go over"))
        .arg(program::json_option("Write figures and samples as JSON"))
        .subcommand(
            Command::new(memory::PROBE)
                .hide(true)
                .arg(Arg::new("table").required(true))
                .arg(Arg::new("rows").required(true).value_parser(value_parser!(u64))),
        )
}

/// What a run measures and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Repeats of each figure.
    pub repeats: u32,
    /// Time of one repeat of a transactional statement, on the slower system.
    pub repeat_time: Duration,
    /// Rows that reporting queries go over.
    pub report_rows: i64,
    /// A smoke run.
    pub quick: bool,
    /// Parts of names; everything if there is none.
    pub only: Vec<String>,
}

impl Plan {
    fn new(matches: &ArgMatches) -> Plan {
        let quick = matches.get_flag("quick");
        let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
        let only = matches.get_many::<String>("only").unwrap_or_default();
        Plan {
            repeats: if quick { 1 } else { number("repeats") as u32 },
            repeat_time: Duration::from_millis(number("milliseconds")),
            report_rows: if quick { 5_000 } else { number("rows") as i64 },
            quick,
            only: only.cloned().collect(),
        }
    }

    /// Whether a name was asked for.
    pub fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let only = match self.only.is_empty() {
            true => "everything".to_string(),
            false => self.only.join(", "),
        };
        vec![
            ("measured", only),
            ("repeats", self.repeats.to_string()),
            ("time of a repeat", format!("{} ms", self.repeat_time.as_millis())),
            ("rows of reports", self.report_rows.to_string()),
            ("our side", "one site in this process: log entry, undo, response bytes".to_string()),
            (
                "SQLite",
                format!("{}, in memory, prepared, no mutex, autocommit", rusqlite::version()),
            ),
        ]
    }
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some((memory::PROBE, arguments)) => {
            let table = arguments.get_one::<String>("table").map_or("", String::as_str);
            memory::probe(table, arguments.get_one::<u64>("rows").copied().unwrap_or(1))
        }
        _ => run(&matches),
    };
    program::exit_code("bench-sql", result)
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    let plan = Plan::new(matches);
    let findings = Findings {
        memory: memory::measure(&plan)?,
        planning: planning::measure(&plan)?,
        transactional: transactional::all(&plan)?,
        reporting: reporting::all(&plan)?,
    };
    let options = plan.options();
    println!("{}\n{}", render_options(&options), report::render(&findings));
    program::end_run(matches, || report::json(&findings, &options))
}
