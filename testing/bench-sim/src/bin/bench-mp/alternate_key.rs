//! The alternate-key mix: some of the calls find their row by a global unique index, against
//! the same load with all rows found by the partitioning key.

use crate::Plan;
use lockstep_bench::alternate_key::{AlternateKeyHost, AlternateKeyShape};
use lockstep_bench::inner_host::{settled, time_loads};
use lockstep_bench::process::thread_seconds;
use lockstep_bench::report::grouped;
use lockstep_node::options::Options;
use std::sync::atomic::Ordering;

/// Of a thousand entries of the index, how many live at another partition than their row.
const ELSEWHERE_PER_MILLE: i64 = 800;
/// What the names of sites' threads begin with.
const SITES: &str = "site ";

/// Ratios, one a repeat.
#[derive(Debug, Default)]
pub struct AlternateKey {
    /// Calls per second without the index.
    pub alone_per_s: Vec<f64>,
    /// Throughput of the mix against that.
    pub ratios: Vec<f64>,
    /// The same, with calls per second of the sites' processor time.
    pub cpu_ratios: Vec<f64>,
    /// The share of entries that live at another partition than their row, as the host has them.
    pub share_elsewhere: f64,
}

/// Measures by the clock and by processor time: with numbers that are integers, as the partitioning
/// key is, or with texts.
///
/// # Errors
/// A host does not start, or a call fails.
pub fn measure(plan: &Plan, texts: bool) -> Result<AlternateKey, String> {
    let host = AlternateKeyHost::start(&AlternateKeyShape {
        sites: 2,
        subscribers: plan.accounts,
        elsewhere_per_mille: ELSEWHERE_PER_MILLE,
        texts,
        in_flight: plan.in_flight,
        options: Options { statistics_interval_ms: None, ..Options::default() },
    })?;
    let share_elsewhere = host.share_elsewhere()?;
    let mut samples = AlternateKey { share_elsewhere, ..AlternateKey::default() };
    for repeat in 1..=plan.repeats {
        let (alone, alone_cpu) = throughput(&host, plan, 0)?;
        let (mixed, mixed_cpu) = throughput(&host, plan, plan.by_index_per_mille)?;
        let (ratio, cpu_ratio) = (mixed / alone, mixed_cpu / alone_cpu);
        let rates = [alone, mixed].map(|rate| grouped(rate as u64));
        eprintln!(
            "repeat {repeat}: by id {:>10}/s, the mix{} {:>10}/s {ratio:.3} x, {cpu_ratio:.3} x \
             by processor time",
            rates[0],
            if texts { " with texts" } else { "" },
            rates[1]
        );
        samples.alone_per_s.push(alone);
        samples.ratios.push(ratio);
        samples.cpu_ratios.push(cpu_ratio);
    }
    settled(|| host.check())?;
    Ok(samples)
}

/// Calls per second, and per second of the sites' processor time.
fn throughput(
    host: &AlternateKeyHost,
    plan: &Plan,
    by_number_per_mille: u64,
) -> Result<(f64, f64), String> {
    let cpu_s = || thread_seconds(SITES).map_err(|error| error.to_string());
    host.steering.by_number_per_mille.store(by_number_per_mille, Ordering::Relaxed);
    let timed = time_loads(&host.steering.running, plan.times(), || (host.calls(), cpu_s()));
    let ((calls_before, cpu_before), (calls_after, cpu_after)) = (timed.before, timed.after);
    let (calls, cpu) = ((calls_after - calls_before) as f64, cpu_after? - cpu_before?);
    Ok((calls / timed.seconds, calls / cpu.max(1e-9)))
}
