//! Runs seeds: a count of them, or new ones for a time. Prints the first that fails and stops.
//!
//! `lockstep-sim [--seeds N] [--from SEED] [--minutes M] [--calls N]`

#![allow(clippy::disallowed_types, reason = "the time limit of the whole run, not of a simulation")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)?.parse().ok()
    };
    let from = number("--from").unwrap_or(1);
    let seeds =
        number("--seeds").unwrap_or(if number("--minutes").is_some() { u64::MAX } else { 1000 });
    let calls = number("--calls").unwrap_or(400) as usize;
    let until = number("--minutes").map(|m| Instant::now() + Duration::from_secs(m * 60));
    let (mut done, mut answered, mut speculated, mut repeated) = (0u64, 0usize, 0u64, 0u64);
    for seed in (from..).take(usize::try_from(seeds).unwrap_or(usize::MAX)) {
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        let bank = lockstep_sim::run_seed(seed, calls).map(|report| {
            speculated += report.speculated;
            repeated += report.repeated;
            report.calls
        });
        let sound = lockstep_sim::Faults::default();
        let lists = lockstep_sim::lists::run_seed(seed, calls / 2, sound)
            .map(|report| report.committed + report.aborted);
        for run in [bank, lists] {
            match run {
                Ok(calls) => answered += calls,
                Err(failure) => {
                    eprintln!("{failure}");
                    return ExitCode::FAILURE;
                }
            }
        }
        done += 1;
    }
    println!(
        "{done} seeds, {answered} calls: all checks held; in the bank {speculated} ran \
         speculatively and {repeated} again"
    );
    ExitCode::SUCCESS
}
