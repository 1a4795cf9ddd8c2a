//! Instructions of an embedded call: a process runs N calls, another only encodes and
//! judges as many, and the difference is the host's.

use crate::systems::Systems;
use crate::{PROBE, Plan};
use clap::ArgMatches;
use lockstep_bench::driver::Verdict;
use lockstep_bench::embedded::EmbeddedVoter;
use lockstep_bench::voter::Form;
use std::process::Command;

/// Calls that are counted where every instruction is simulated.
const SIMULATED_CALLS: u64 = 50_000;

/// What was counted, and how.
pub struct Instructions {
    /// Instructions of a call.
    pub per_call: f64,
    /// The counter.
    pub counted_by: &'static str,
    /// Calls that were counted.
    pub calls: u64,
}

/// The process whose instructions are counted.
///
/// # Errors
/// The host refuses something.
pub fn probe(arguments: &ArgMatches) -> Result<(), String> {
    let calls = arguments.get_one::<u64>("calls").copied().unwrap_or(1);
    let dry = arguments.get_flag("dry");
    let mut host = EmbeddedVoter::new(Form::Native, 1)?;
    host.call(true);
    let errors = (0..calls).filter(|_| host.call(!dry) == Verdict::Error).count();
    if errors == 0 { Ok(()) } else { Err(format!("{errors} calls failed")) }
}

/// Counts with the processor's counters where there are some, else by simulation.
///
/// # Errors
/// Neither perf nor valgrind works here.
pub fn per_call(plan: &Plan, systems: &Systems) -> Result<Instructions, String> {
    let has_counters = by_perf(systems, 1, true).is_some();
    let (counted_by, calls) = match has_counters {
        true => ("perf stat -e instructions:u", plan.counted_calls),
        false => ("callgrind", plan.counted_calls.min(SIMULATED_CALLS)),
    };
    let count = |dry| {
        let count = if has_counters { by_perf } else { by_callgrind };
        count(systems, calls, dry).ok_or("instructions cannot be counted here")
    };
    let (all, dry) = (count(false)?, count(true)?);
    let per_call = (all - dry) / calls as f64;
    eprintln!("embedded: {per_call:.0} instructions a call, counted by {counted_by}");
    Ok(Instructions { per_call, counted_by, calls })
}

fn probe_arguments(command: &mut Command, systems: &Systems, calls: u64, dry: bool) {
    command.arg(&systems.own).arg(PROBE).arg(calls.to_string());
    if dry {
        command.arg("--dry");
    }
}

fn by_perf(systems: &Systems, calls: u64, dry: bool) -> Option<f64> {
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", "instructions:u", "--"]);
    probe_arguments(&mut command, systems, calls, dry);
    let output = command.output().ok().filter(|output| output.status.success())?;
    parse_perf(&String::from_utf8_lossy(&output.stderr))
}

fn parse_perf(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("instructions"))?;
    line.split(',').next()?.trim().parse().ok()
}

fn by_callgrind(systems: &Systems, calls: u64, dry: bool) -> Option<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    probe_arguments(&mut command, systems, calls, dry);
    let output = command.output().ok().filter(|output| output.status.success())?;
    parse_callgrind(&String::from_utf8_lossy(&output.stderr))
}

fn parse_callgrind(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        assert_eq!(parse_perf("12345,,instructions:u,1000,100.00,,\n"), Some(12_345.0));
        assert_eq!(parse_perf("<not supported>,,instructions:u,0,100.00,,\n"), None);
        let text = "==7== Events    : Ir\n==7== Collected : 6789\n";
        assert_eq!(parse_callgrind(text), Some(6789.0));
    }
}
