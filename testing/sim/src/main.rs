//! Runs seeds: a count of them, or new ones for a time. Prints the first that fails and stops.
//!
//! `lockstep-sim [--seeds N] [--from SEED] [--minutes M] [--calls N]`
//!
//! `lockstep-sim timed` compares, on a simulated clock, transfers over two partitions with a host
//! that stops everything for each.

#![allow(clippy::disallowed_types, reason = "the time limit of the whole run, not of a simulation")]

use lockstep_sim::timed::{self, Model, Throughput};
use lockstep_sim::world::Shape;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The share of transfers, in a thousand calls.
const SHARES_PER_MILLE: [u64; 5] = [0, 10, 100, 500, 1000];

/// Calls ended in 200 simulated milliseconds, hops of 50 us, 2 us for each message and call.
fn simulate(partitions: u32, transfers_per_mille: u64, stop_everything: bool) -> Throughput {
    let shape = Shape { stop_everything, active_multi: 10_000, ..Shape::of(partitions) };
    let (calls_in_flight, measured_ns) = (16, 200_000_000);
    let (hop_ns, work_ns) = (50_000, 2_000);
    timed::run(
        1,
        Model { shape, transfers_per_mille, calls_in_flight, hop_ns, work_ns, measured_ns },
    )
}

fn compare() {
    println!("partitions  transfers  calls/s (stop all)     calls/s  ratio  messages a transfer");
    for partitions in [8, 64] {
        for share in SHARES_PER_MILLE {
            let few = simulate(partitions, share, false);
            let all = simulate(partitions, share, true);
            let per_second = |throughput: Throughput| throughput.calls() * 5;
            println!(
                "{partitions:10} {:8.0} % {:19} {:11} {:4.1} x {:20.2}",
                share as f64 / 10.0,
                per_second(all),
                per_second(few),
                few.calls() as f64 / all.calls().max(1) as f64,
                few.messages as f64 / few.transfers.max(1) as f64,
            );
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "timed") {
        compare();
        return ExitCode::SUCCESS;
    }
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
