//! Inserts into a table with a global unique index, against the same table without.

use crate::Plan;
use lockstep_bench::inner_host::{settled, time_loads};
use lockstep_bench::inserts::InsertHost;
use lockstep_bench::report::grouped;
use lockstep_node::options::Options;
use std::sync::atomic::Ordering;

/// One repeat.
#[derive(Debug, Clone, Copy)]
pub struct Inserts {
    /// Rows per second with the index, all of whose entries are at another site than their rows.
    pub with_per_s: f64,
    /// Without.
    pub without_per_s: f64,
}

impl Inserts {
    /// With the index against without.
    pub fn ratio(&self) -> f64 {
        self.with_per_s / self.without_per_s
    }
}

/// Measures both in turns. Every time begins with an empty table, and the rows and entries are
/// counted at its end.
///
/// # Errors
/// The host does not start, a call fails, or a row or entry is missing.
pub fn measure(plan: &Plan) -> Result<Vec<Inserts>, String> {
    // Nothing but the load runs while the clock does.
    let options = Options { statistics_interval_ms: None, ..Options::default() };
    let host = InsertHost::start(plan.in_flight, &options)?;
    let mut samples = Vec::with_capacity(plan.repeats);
    for repeat in 1..=plan.repeats {
        let without_per_s = throughput(&host, plan, false)?;
        let with_per_s = throughput(&host, plan, true)?;
        let sample = Inserts { with_per_s, without_per_s };
        eprintln!(
            "repeat {repeat}: inserts {:>10}/s, with a global index {:>10}/s {:.3} x",
            grouped(without_per_s as u64),
            grouped(with_per_s as u64),
            sample.ratio()
        );
        samples.push(sample);
    }
    Ok(samples)
}

/// Inserts per second into one of the tables.
fn throughput(host: &InsertHost, plan: &Plan, indexed: bool) -> Result<f64, String> {
    let first = host.inserted();
    host.steering.indexed.store(indexed, Ordering::Relaxed);
    let timed = time_loads(&host.steering.running, plan.times(), || host.inserted());
    // A load that was about to call when it was switched off may still have done so.
    settled(|| if host.is_quiet() { Ok(()) } else { Err("inserts do not end".to_string()) })?;
    host.check_and_empty(indexed, host.inserted() - first)?;
    Ok((timed.after - timed.before) as f64 / timed.seconds)
}
