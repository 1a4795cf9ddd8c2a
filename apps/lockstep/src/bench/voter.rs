//! `lockstep bench voter`, with the classic client options.

use super::common::{form, number, procedures, with_common};
use super::shown::OwnFigures;
use clap::{ArgMatches, Command};
use lockstep_bench::run::{RunOptions, RunResult};
use lockstep_workloads::Workload;
use lockstep_workloads::voter::load::Voter;
use serde_json::json;

/// Its command line. Clients are named by connections and calls in flight on each, or as for the
/// other workloads.
pub fn command() -> Command {
    let command = Command::new("voter")
        .about("Telephone voting: a small transaction over three tables and two views")
        .args(procedures(
            &["native", "java", "sql"],
            "The procedure as native code, in Java, or as SQL statements only",
        ))
        .arg(number("pipeline", "D", "64", "Calls in flight on each connection"));
    with_common(command).mut_arg("connections", |argument| argument.default_value("50")).mut_arg(
        "clients",
        |argument| {
            argument
                .default_value(None)
                .conflicts_with("pipeline")
                .help("Calls in flight in all, instead of --pipeline")
        },
    )
}

/// Voter as the command line wants it.
///
/// # Errors
/// Procedures that there are not.
pub fn workload(arguments: &ArgMatches) -> Result<Voter, String> {
    Ok(Voter::new(form(arguments)?))
}

/// What became of votes.
pub fn shown(workload: &dyn Workload, _: &RunOptions, result: &RunResult) -> OwnFigures {
    let mut own = OwnFigures::default();
    let counts = workload.counters().iter().copied().zip(result.figures.counts.iter().copied());
    own.add_counts(counts.take(3));
    let names = ["accepted", "over_limit", "unknown_contestant", "unanswered"];
    for (name, value) in names.iter().zip(&result.figures.counts) {
        own.keys.insert((*name).to_string(), json!(value));
    }
    own.keys.extend(workload.noted().into_iter().map(|(name, v)| (name.to_string(), json!(v))));
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{command, common::run_options};
    use lockstep_bench::run::Pace;
    use std::time::Duration;

    #[test]
    fn the_command_line_is_understood() {
        let parse = |line: &str| command().try_get_matches_from(line.split_whitespace());
        let options = |line: &str| {
            let matches = parse(line).expect("a command line");
            let arguments = matches.subcommand().expect("a workload").1;
            (
                run_options("voter", arguments),
                workload(arguments).expect("voter").options()[0].1.clone(),
            )
        };
        let (parsed, form) = options(
            "bench voter --servers a:1,b:2 --connections 8 --rate 1e4 --warmup 0.5 \
             --procedures sql",
        );
        assert_eq!(parsed.servers, ["a:1", "b:2"]);
        assert_eq!((parsed.connections, parsed.clients), (8, 8 * 64));
        assert_eq!((parsed.pace, parsed.warmup), (Pace::Rate(1e4), Duration::from_millis(500)));
        assert_eq!(form, "sql");
        let (parsed, form) = options("bench voter --embedded");
        assert_eq!((parsed.connections, parsed.clients, form.as_str()), (50, 3200, "native"));
        assert_eq!(options("bench voter --embedded --clients 7").0.clients, 7);
        for wrong in [
            "bench voter",
            "bench voter --embedded --servers a:1",
            "bench voter --embedded --rate 5",
            "bench voter --embedded --duration -1",
            "bench voter --embedded --connections 0",
            "bench voter --embedded --clients 5 --pipeline 5",
            "bench voter --servers a:1 --burst 5",
            "bench nothing",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
