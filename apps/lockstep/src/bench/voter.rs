//! `lockstep bench voter`, with the classic client options.

use super::common::{number, seconds};
use super::shown::ProgressLine;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use lockstep_bench::driver::DriverOptions;
use lockstep_bench::embedded::EmbeddedVoter;
use lockstep_bench::report::{self, Progress};
use lockstep_bench::voter::{self, Form, VoterResult};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The command line of `lockstep bench voter`.
pub fn command() -> Command {
    Command::new("voter")
        .about("Telephone voting: a small transaction over three tables and two views")
        .arg(
            Arg::new("servers")
                .long("servers")
                .value_name("HOST:PORT,...")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help("Hosts; connections are spread over them"),
        )
        .arg(
            Arg::new("embedded")
                .long("embedded")
                .action(ArgAction::SetTrue)
                .help("No sockets: one site inside this process, called on one thread"),
        )
        .group(ArgGroup::new("target").args(["servers", "embedded"]).required(true))
        .arg(number("connections", "C", "50", "Connections"))
        .arg(number("pipeline", "D", "64", "Calls in flight on each connection"))
        .arg(
            Arg::new("rate")
                .long("rate")
                .value_name("R")
                .value_parser(value_parser!(f64))
                .conflicts_with("embedded")
                .help("Calls per second, due at even intervals [default: as fast as they go]"),
        )
        .arg(seconds("duration", "15", "Measured time in seconds"))
        .arg(seconds("warmup", "2", "Time before the measured time in seconds"))
        .arg(
            Arg::new("procedures")
                .long("procedures")
                .value_name("FORM")
                .value_parser(["native", "sql"])
                .default_value("native")
                .help("The procedure as native code, or as SQL statements only"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("1")
                .help("What the calls follow from"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write the result as JSON"),
        )
}

/// What the command line says.
struct VoterArguments {
    driver: DriverOptions,
    embedded: bool,
    form: Form,
    seed: u64,
    json: Option<PathBuf>,
}

impl VoterArguments {
    fn new(arguments: &ArgMatches) -> VoterArguments {
        let count = |name: &str| arguments.get_one::<u32>(name).map_or(1, |n| *n as usize);
        let time = |name: &str| {
            Duration::from_secs_f64(arguments.get_one::<f64>(name).copied().unwrap_or(0.0))
        };
        let native = arguments.get_one::<String>("procedures").is_none_or(|form| form == "native");
        VoterArguments {
            driver: DriverOptions {
                servers: arguments.get_many("servers").into_iter().flatten().cloned().collect(),
                connections: count("connections"),
                pipeline: count("pipeline"),
                rate_per_s: arguments.get_one::<f64>("rate").copied(),
                duration: time("duration"),
                warmup: time("warmup"),
                keep_calls: false,
            },
            embedded: arguments.get_flag("embedded"),
            form: if native { Form::Native } else { Form::Sql },
            seed: arguments.get_one::<u64>("seed").copied().unwrap_or(1),
            json: arguments.get_one::<PathBuf>("json").cloned(),
        }
    }

    fn options_json(&self) -> serde_json::Value {
        let driver = &self.driver;
        json!({
            "workload": "voter",
            "servers": driver.servers,
            "embedded": self.embedded,
            "connections": driver.connections,
            "pipeline": driver.pipeline,
            "rate_per_s": driver.rate_per_s,
            "duration_s": driver.duration.as_secs_f64(),
            "warmup_s": driver.warmup.as_secs_f64(),
            "procedures": if self.form == Form::Native { "native" } else { "sql" },
            "seed": self.seed,
        })
    }

    fn measure(&self) -> Result<VoterResult, String> {
        let mut show = ProgressLine::default();
        let mut progress = |state: &Progress| show.show(&state.line());
        let result = if self.embedded {
            EmbeddedVoter::new(self.form, self.seed)?.run(
                self.driver.warmup,
                self.driver.duration,
                &mut progress,
            )
        } else {
            voter::run(&self.driver, self.form, self.seed, &mut progress)
                .map_err(|error| error.to_string())
        };
        show.end();
        result
    }
}

/// Runs voter.
///
/// # Errors
/// A server cannot be reached or refuses the set-up; the JSON file cannot be written.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let arguments = VoterArguments::new(arguments);
    let result = arguments.measure()?;
    print!("{}", report::table(&result.measured, &result.rows()));
    if let Some(error) = &result.measured.first_error {
        eprintln!("lockstep: the first error was: {error}");
    }
    if let Some(file) = &arguments.json {
        let json = report::json(&result.measured, arguments.options_json(), result.json());
        let text = serde_json::to_string_pretty(&json).map_err(|error| error.to_string())?;
        std::fs::write(file, text + "\n").map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let good = result.is_consistent() && result.measured.errors == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::command;

    fn parse(line: &str) -> Result<VoterArguments, clap::Error> {
        let matches = command().try_get_matches_from(line.split_whitespace())?;
        Ok(VoterArguments::new(matches.subcommand().expect("a workload").1))
    }

    #[test]
    fn the_command_line_is_understood() {
        let parsed = parse(
            "bench voter --servers a:1,b:2 --connections 8 --rate 1e4 --warmup 0.5 \
             --procedures sql",
        )
        .expect("a command line");
        assert_eq!(parsed.driver.servers, ["a:1", "b:2"]);
        assert_eq!((parsed.driver.connections, parsed.driver.pipeline), (8, 64));
        assert_eq!(parsed.driver.rate_per_s, Some(10_000.0));
        assert_eq!(parsed.driver.warmup, Duration::from_millis(500));
        assert_eq!(parsed.form, Form::Sql);
        assert_eq!(parsed.options_json()["procedures"], "sql");
        for wrong in [
            "bench voter",
            "bench voter --embedded --servers a:1",
            "bench voter --embedded --rate 5",
            "bench voter --embedded --duration -1",
            "bench voter --embedded --connections 0",
            "bench nothing",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
