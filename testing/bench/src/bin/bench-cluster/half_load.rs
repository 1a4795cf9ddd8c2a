//! Latency at half of the load that a cluster with copies can take, against as many processes that
//! do nothing but the protocol, on the same core and at the same rate; and that of the same
//! cluster without copies.
//!
//! Half of the load is a rate at which the servers use half of their core, or a little more; which
//! rate that is depends on the machine and on its day, so it is looked for. Half of the calls that
//! they answer in a closed loop is a figure beside it, and no half load: it takes three quarters of
//! their core and more, since calls that come a few at a time cost more than those of a closed loop
//! (docs/decisions/2026-11-28-half-load.md).
//!
//! Three processes that share a core feel each time that the machine takes it away. A ticker on
//! either core tells when that happened; calls that were due about such a time are set aside, see
//! [`lockstep_bench::stalls`].

use crate::measure::{Aim, Voter, driver, spread};
use crate::table::Samples;
use crate::{ECHO, Plan};
use lockstep_bench::driver::{Measured, drive};
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_bench::stalls::{Undisturbed, Watch, judged_p99_us};
use lockstep_bench::voter::{Form, VoterLoad};
use lockstep_workloads::voter::CONTESTANTS;
use serde_json::{Value, json};
use std::time::Duration;

/// Tickers go on this long after the load, which connects before it begins.
const TICKER_SPARE: Duration = Duration::from_secs(1);
/// How busy servers are taken to be, at the least and at the most, where what a stall left is
/// worked off in the time that they have to spare.
const BUSY: (f64, f64) = (0.5, 0.9);

/// The share of their core that the servers use at half load: what is aimed at, and the most.
const HALF: (f64, f64) = (0.6, 0.7);
/// Rates that are tried for it.
const RATES_MAX: u32 = 4;

/// Latency at a rate, in one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tail {
    /// The median of all calls, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of all calls.
    pub p99_us: f64,
    /// The share of their core that the servers used.
    pub busy: f64,
    /// What the machine did, and the percentile without; `None` where nobody can tell.
    pub undisturbed: Option<Undisturbed>,
}

/// Three hosts with K = 1, as many servers that do nothing, and three hosts with K = 0, at a rate.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtRate {
    /// Calls per second.
    pub per_s: f64,
    /// With K = 1.
    pub copied: Tail,
    /// Of the servers that do nothing.
    pub echo: Tail,
    /// With K = 0.
    pub alone: Tail,
}

impl AtRate {
    /// The 99th percentiles that count, in microseconds: K = 1, echo, K = 0. Those without what
    /// the machine disturbed, or of all calls where too few are left of one.
    pub fn p99_us(&self) -> [f64; 3] {
        let all = [&self.copied, &self.echo, &self.alone];
        let counts = all.iter().all(|tail| tail.undisturbed.is_some_and(|left| left.counts()));
        all.map(|tail| judged_p99_us(tail.p99_us, tail.undisturbed.as_ref().filter(|_| counts)))
    }

    /// All of it.
    pub fn json(&self) -> Value {
        json!({
            "per_s": self.per_s, "copied": self.copied.json(), "echo": self.echo.json(),
            "alone": self.alone.json(),
        })
    }
}

impl Tail {
    /// All of it.
    pub fn json(&self) -> Value {
        let left = self.undisturbed.as_ref().map(Undisturbed::json);
        json!({
            "p50_us": self.p50_us, "p99_us": self.p99_us, "busy": self.busy, "undisturbed": left,
        })
    }

    fn new(plan: &Plan, measured: &Measured, busy: f64, watch: Watch) -> Tail {
        let load = busy.clamp(BUSY.0, BUSY.1);
        Tail {
            p50_us: measured.latency_us.value_at_quantile(0.5) as f64,
            p99_us: measured.latency_us.value_at_quantile(0.99) as f64,
            busy,
            undisturbed: watch.end(&measured.calls, load, plan.duration),
        }
    }

    fn note(self, what: &str) -> Tail {
        let left = self.undisturbed.unwrap_or_default();
        eprintln!(
            "  {what}: p50 {:.0} us, p99 {:.0} us, {:.0} % busy; p99 {:.0} us undisturbed, {:.1} % \
             set aside for stalls of {:.1} ms together, the longest {:.1} ms",
            self.p50_us,
            self.p99_us,
            self.busy * 100.0,
            left.p99_us,
            left.set_aside * 100.0,
            left.stalled_us / 1e3,
            left.longest_us / 1e3
        );
        self
    }
}

/// Measures once at half of the closed loop's calls and at half of the load. A call that found too
/// many in flight counts from when it was due.
///
/// # Errors
/// A server does not start or fails.
pub fn p99(plan: &Plan, half_per_s: f64, samples: &mut Samples) -> Result<(), String> {
    samples.half_load.push(at_rate(plan, half_per_s)?);
    samples.half_busy.push(at_half_load(plan)?);
    Ok(())
}

/// At the rate that was asked for, or a lower one at which it is half load.
fn at_half_load(plan: &Plan) -> Result<AtRate, String> {
    let mut per_s = plan.half_rate_per_s;
    for _ in 1..RATES_MAX {
        let copied = copied(plan, per_s)?;
        if copied.busy <= HALF.1 {
            return beside(plan, per_s, copied);
        }
        per_s *= HALF.0 / copied.busy;
    }
    at_rate(plan, per_s)
}

fn at_rate(plan: &Plan, per_s: f64) -> Result<AtRate, String> {
    let copied = copied(plan, per_s)?;
    beside(plan, per_s, copied)
}

fn copied(plan: &Plan, per_s: f64) -> Result<Tail, String> {
    eprintln!("{per_s:.0} calls/s:");
    Ok(cluster(plan, 1, per_s)?.note("K = 1"))
}

/// What is compared with K = 1 at a rate.
fn beside(plan: &Plan, per_s: f64, copied: Tail) -> Result<AtRate, String> {
    let echo = echo(plan, spread(plan, 1).hosts, per_s)?.note("echo");
    let alone = cluster(plan, 0, per_s)?.note("K = 0");
    Ok(AtRate { per_s, copied, echo, alone })
}

fn watch(plan: &Plan) -> Watch {
    Watch::begin(&[0, 1], &plan.own, plan.warmup + plan.duration + TICKER_SPARE)
}

/// Three hosts.
fn cluster(plan: &Plan, kfactor: u8, rate_per_s: f64) -> Result<Tail, String> {
    let mut voter = Voter::start(plan, &spread(plan, kfactor), Aim::Leader, Some(rate_per_s))?;
    voter.options.keep_calls = true;
    let watch = watch(plan);
    let (measured, cpu_us) = voter.run()?;
    let busy = cpu_us.iter().sum::<f64>() * rate_per_s / 1e6;
    Ok(Tail::new(plan, &measured, busy, watch))
}

/// Processes that answer at once.
fn echo(plan: &Plan, processes: u32, rate_per_s: f64) -> Result<Tail, String> {
    let start = |_| {
        let mut command = on_core(0, &plan.own.to_string_lossy());
        command.arg(ECHO);
        ServerProcess::start_with_ready_line(command).map_err(|error| error.to_string())
    };
    let servers = (0..processes).map(start).collect::<Result<Vec<_>, String>>()?;
    let addresses = servers.iter().map(|server| server.address.to_string()).collect();
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let mut options = driver(plan, addresses, Some(rate_per_s));
    options.keep_calls = true;
    let cpu = || -> Result<f64, String> {
        let times = servers.iter().map(|server| server.cpu_time().map(|time| time.as_secs_f64()));
        times.sum::<std::io::Result<f64>>().map_err(|error| error.to_string())
    };
    let (before, watch) = (cpu()?, watch(plan));
    let measured = drive(&options, &mut load, &mut |_| {}).map_err(|error| error.to_string())?;
    let busy = (cpu()? - before) * rate_per_s / measured.all.max(1) as f64;
    Ok(Tail::new(plan, &measured, busy, watch))
}
