//! What one mix costs: its rate against deposits alone, and the time that each site's thread is on
//! a core for a call. For work on the speed of transfers, and for a profiler to look at.

use crate::Plan;
use crate::measure::{settled, start_bank, throughput};
use lockstep_bench::bank::BankHost;
use std::path::PathBuf;

/// Measures deposits alone, then a share of transfers, and prints each repeat.
///
/// # Errors
/// A host does not start, a call fails, or money is lost.
pub fn print(plan: &Plan, transfers_per_mille: u64, two_rounds: bool) -> Result<(), String> {
    let (host, _) = start_bank(plan)?;
    println!("repeat  calls/s  against deposits  us on a core per call: site 0, site 1; deposits");
    for repeat in 1..=plan.repeats {
        let (alone, deposits_us) = costed(&host, plan, 0, false);
        let (rate, on_core_us) = costed(&host, plan, transfers_per_mille, two_rounds);
        let [first, second] = on_core_us;
        println!(
            "{repeat:6} {rate:8.0} {:17.3} {first:36.3}, {second:.3}; {:.3}, {:.3}",
            rate / alone,
            deposits_us[0],
            deposits_us[1]
        );
    }
    settled(&host, 0)
}

/// Calls per second, and per site the microseconds that its thread is on a core for each.
fn costed(host: &BankHost, plan: &Plan, per_mille: u64, two_rounds: bool) -> (f64, [f64; 2]) {
    let calls = || host.counts.iter().map(|counts| counts.calls()).sum::<u64>();
    let (calls_before, times_before) = (calls(), on_core_ns());
    let rate = throughput(host, plan, per_mille, two_rounds);
    let (calls, times) = (calls() - calls_before, on_core_ns());
    let cost = |site: usize| (times[site] - times_before[site]) / calls.max(1) as f64 / 1000.0;
    (rate, [cost(0), cost(1)])
}

/// Nanoseconds that the threads of the sites were on a core, as the system counts them; of the
/// host that was started first.
fn on_core_ns() -> [f64; 2] {
    let mut times = [None, None];
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return [0.0; 2] };
    let mut paths: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
    paths.sort();
    for path in paths {
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let spent = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let spent = spent.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
        match name.trim() {
            "site 0" => times[0] = times[0].or(spent),
            "site 1" => times[1] = times[1].or(spent),
            _ => {}
        }
    }
    times.map(Option::unwrap_or_default)
}
