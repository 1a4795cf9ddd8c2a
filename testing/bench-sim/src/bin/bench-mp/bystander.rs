//! A partition that takes no part in transfers: instructions of its calls while the others are
//! busy with them, against alone. Counted for its thread by callgrind in runs with and without
//! its calls; the difference is theirs.

use crate::{BYSTANDER, Plan};
use clap::ArgMatches;
use lockstep_bench::bank::{BankHost, BankShape};
use lockstep_node::options::Options;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The bystander is the last of N sites.
const SITES: u32 = 3;
/// Callgrind numbers threads as they begin: the main one, then the sites.
const BYSTANDER_THREAD: u32 = 1 + SITES;
/// Transfers that the others make at least, where they are busy.
const LEAST_TRANSFERS: u64 = 500;
/// How long a run may take, with every instruction simulated.
const PATIENCE: Duration = Duration::from_secs(300);

/// Instructions a call.
#[derive(Debug, Clone, Copy)]
pub struct Bystander {
    /// Nobody else does anything.
    pub alone: f64,
    /// The others are busy with transfers.
    pub busy: f64,
}

/// Counts; says why where it cannot.
pub fn measure(plan: &Plan) -> Result<Bystander, String> {
    let per_call = |busy: bool| -> Result<f64, String> {
        let (with, without) = (count(plan.counted_calls, busy)?, count(0, busy)?);
        Ok((with - without) / plan.counted_calls as f64)
    };
    let bystander = Bystander { alone: per_call(false)?, busy: per_call(true)? };
    eprintln!("bystander: {:.0} instructions alone, {:.0}", bystander.alone, bystander.busy);
    Ok(bystander)
}

/// Instructions of the bystander's thread over a whole run.
fn count(calls: u64, busy: bool) -> Result<f64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let directory = std::env::temp_dir().join(format!("bench-mp-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let file = directory.join("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes"]);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(own).arg(BYSTANDER).arg(calls.to_string());
    if busy {
        command.arg("--busy");
    }
    let output = command.output().map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let counted = match output.status.success() {
        true => totals_of(&file.with_file_name(format!("callgrind-{BYSTANDER_THREAD:02}"))),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    };
    // Of no use to anybody, whether it can be removed or not.
    let _ = std::fs::remove_dir_all(&directory);
    counted
}

fn totals_of(file: &Path) -> Result<f64, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    parse_totals(&text).ok_or_else(|| format!("{}: no totals", file.display()))
}

fn parse_totals(text: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

/// The process whose instructions are counted.
///
/// # Errors
/// The host does not start, or its calls do not end.
pub fn run(arguments: &ArgMatches) -> Result<(), String> {
    let calls = arguments.get_one::<u64>("calls").copied().unwrap_or(0);
    let busy = arguments.get_flag("busy");
    let options = Options { statistics_interval_ms: None, ..Options::default() };
    let shape = BankShape {
        sites: SITES,
        accounts: 3_000,
        in_flight: 16,
        options,
        bystander_calls: Some(calls),
    };
    let host = BankHost::start(&shape)?;
    let share = if busy { 1000 } else { 0 };
    host.steering.transfers_per_mille.store(share, Ordering::Relaxed);
    host.steering.only_bystander.store(!busy, Ordering::Relaxed);
    host.steering.running.store(true, Ordering::Relaxed);
    let least = if busy { LEAST_TRANSFERS } else { 0 };
    let start = Instant::now();
    while host.counts[SITES as usize - 1].calls() < calls || host.counts[0].calls() < least {
        if start.elapsed() > PATIENCE {
            return Err("the calls do not end".to_string());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    host.steering.running.store(false, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        assert_eq!(parse_totals("events: Ir\nfn=(1)\n1 2\n\ntotals: 1234\n"), Some(1234.0));
        assert_eq!(parse_totals("events: Ir\n"), None);
    }
}
