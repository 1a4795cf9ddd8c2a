//! TPC-C with its procedures in Java.

use crate::Plan;
use crate::host::Host;
use crate::measure::{Rate, busy, load, note, tpcc};
use lockstep_bench::run::Pace;
use std::time::Duration;

/// What the JVM needs to compile what is called; it does so on the server's core.
const WARMUP: Duration = Duration::from_secs(12);

/// A repeat, on a host of its own.
///
/// # Errors
/// This was built without a JDK; the host refuses something, or a check does not hold.
pub fn tpcc_in_java(plan: &Plan, repeat: u64) -> Result<Rate, String> {
    let host = Host::start(plan, 1, false)?;
    let warmup = if plan.quick { plan.warmup } else { plan.warmup.max(WARMUP) };
    let plan = Plan { warmup, ..plan.clone() };
    let mut workload = tpcc(&plan)?.with_java(lockstep_bench::java::workloads_jar().into());
    let rate = Rate::of(&host.run(&plan, &mut workload, &load(Pace::Closed, repeat))?);
    note("TPC-C in Java", repeat, rate.per_s, &busy(rate));
    Ok(rate)
}
