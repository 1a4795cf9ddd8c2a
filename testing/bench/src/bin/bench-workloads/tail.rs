//! The 99th percentile of New-Order in an open loop at half of the peak, beside an echo server:
//! what the machine, the sockets and the load do to a percentile is distinguished from what the
//! host does.
//!
//! What else runs on the machine takes a core for milliseconds, the kernel's own threads too. A
//! server whose tails matter has cores of its own; here the site, the echo server and the load
//! have real-time priority instead, which ordinary programs cannot interrupt.
//!
//! Transactions of the whole mix are due at even intervals; the latency of each counts from when it
//! was due, and New-Orders alone are judged. Meanwhile a ticker on either core tells when the
//! machine stood still, and New-Orders that were due about such a time are set aside.

use crate::host::{Host, Load, busy_share};
use crate::measure::{CLIENTS, CONNECTIONS, OPEN_LOAD, note};
use crate::{LOAD_CORE, Plan, SERVER_CORE};
use lockstep_bench::process::{RealTime, ServerProcess, on_core_in_real_time};
use lockstep_bench::run::Pace;
use lockstep_bench::run::drive::{DriveOptions, Share, drive};
use lockstep_bench::run::figures::Figures;
use lockstep_bench::stalls::{Undisturbed, Watch, judged_p99_us};
use lockstep_workloads::tpcc::Tpcc;
use lockstep_workloads::tpcc::session::NEW_ORDER;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Tickers go on this long after the load, which surveys the tables before it begins.
const TICKER_SPARE: Duration = Duration::from_secs(3);

/// Below that of the tickers, which tell when the machine stood still.
const PRIORITY: u32 = 1;

/// What a stall left is worked off in the time that the server has to spare, as measured:
/// calls that come a few at a time cost it more than those of the peak. At most this busy.
const MOST_BUSY: f64 = 0.9;

/// Latency of New-Order in one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tail {
    /// Transactions of all kinds per second.
    pub per_s: f64,
    /// The median of all New-Orders, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of all New-Orders, in microseconds.
    pub p99_us: f64,
    /// The share of the core that the server used.
    pub busy: f64,
    /// What the machine did, and the percentile without; `None` where nobody can tell.
    pub undisturbed: Option<Undisturbed>,
}

impl Tail {
    /// The percentile that counts.
    pub fn judged_p99_us(&self) -> f64 {
        judged_p99_us(self.p99_us, self.undisturbed.as_ref())
    }

    fn new(plan: &Plan, figures: &Figures, busy: f64, watch: Watch) -> Tail {
        let latency = &figures.transactions[NEW_ORDER].latency_us;
        Tail {
            per_s: figures.throughput_per_s(),
            p50_us: latency.value_at_quantile(0.5) as f64,
            p99_us: latency.value_at_quantile(0.99) as f64,
            busy,
            undisturbed: watch.end(&figures.calls, busy.clamp(OPEN_LOAD, MOST_BUSY), plan.latency),
        }
    }

    fn note(self, what: &str, repeat: u64) -> Tail {
        let mut more = format!(
            "  p50 {:.0} us, p99 {:.0} us, {:.0} % busy",
            self.p50_us,
            self.p99_us,
            self.busy * 100.0
        );
        if let Some(left) = &self.undisturbed {
            more += &format!(
                "; p99 {:.0} us undisturbed, {:.1} % set aside for stalls of {:.1} ms together, \
                 the longest {:.1} ms",
                left.p99_us,
                left.set_aside * 100.0,
                left.stalled_us / 1e3,
                left.longest_us / 1e3
            );
        }
        note(what, repeat, self.per_s, &more);
        self
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let left = self.undisturbed.as_ref().map(Undisturbed::json);
        json!({
            "per_s": self.per_s, "p50_us": self.p50_us, "p99_us": self.p99_us,
            "busy": self.busy, "undisturbed": left,
        })
    }
}

fn watch(plan: &Plan) -> Result<Watch, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let duration = plan.warmup + plan.latency + TICKER_SPARE;
    Ok(Watch::begin(&[SERVER_CORE, LOAD_CORE], &own, duration))
}

/// The option of the host that is measured.
pub fn host_option() -> String {
    format!("realtime_priority={PRIORITY}")
}

/// New-Order at a host of its own.
///
/// # Errors
/// A transaction fails, or a check does not hold.
pub fn new_order(
    plan: &Plan,
    workload: &mut Tpcc,
    repeat: u64,
    rate_per_s: f64,
) -> Result<Tail, String> {
    let load = Load {
        connections: CONNECTIONS,
        clients: CLIENTS,
        pace: Pace::Rate(rate_per_s),
        seed: repeat + 1000,
        keep_calls_of: Some(NEW_ORDER),
    };
    let longer = Plan { duration: plan.latency, ..plan.clone() };
    let host = Host::start_with(plan, 1, false, &[host_option()])?;
    let _priority = RealTime::of_this_thread(PRIORITY);
    let watch = watch(plan)?;
    let run = host.run(&longer, workload, &load)?;
    Ok(Tail::new(plan, &run.figures, run.busy, watch).note("TPC-C, half of the peak", repeat))
}

/// The same calls at the same rate at an echo server on the core of the servers.
///
/// # Errors
/// It does not start, or does not answer.
pub fn echo(plan: &Plan, workload: &Tpcc, repeat: u64, rate_per_s: f64) -> Result<Tail, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = on_core_in_real_time(SERVER_CORE, &own.to_string_lossy(), PRIORITY);
    command.arg(crate::ECHO);
    let server = ServerProcess::start_with_ready_line(command).map_err(|e| e.to_string())?;
    let options = DriveOptions {
        servers: vec![server.address.to_string()],
        connections: CONNECTIONS,
        clients: CLIENTS,
        rate_per_s: Some(rate_per_s),
        burst: 1,
        duration: plan.latency,
        warmup: plan.warmup,
        seed: repeat + 1000,
        server_processes: vec![server.id()],
        first_session: 0,
        share: Share::WHOLE,
        keep_calls_of: Some(NEW_ORDER),
    };
    let _priority = RealTime::of_this_thread(PRIORITY);
    let watch = watch(plan)?;
    let figures = drive(workload, &options, &AtomicBool::new(false), &mut |_| {})?;
    // What it answers is wrong where a New-Order was to be rolled back, and means nothing anyway.
    if !figures.complete {
        let error = figures.first_error.as_deref().unwrap_or("it went away");
        return Err(format!("the echo server: {error}"));
    }
    let tail = Tail::new(plan, &figures, busy_share(&figures), watch);
    Ok(tail.note("echo, the same rate", repeat))
}
