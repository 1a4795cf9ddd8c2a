//! Latency at half of the load that a cluster with copies can take, against as many processes that
//! do nothing but the protocol, on the same core and at the same rate; and that of the same
//! cluster without copies.

use crate::measure::{Aim, driver, run_voter, spread};
use crate::table::Samples;
use crate::{ECHO, Plan};
use lockstep_bench::driver::{Measured, drive};
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_bench::voter::{Form, VoterLoad};
use lockstep_workloads::voter::CONTESTANTS;

/// Measures them once, at a rate. A call that found too many in flight counts from when it was due.
///
/// # Errors
/// A server does not start or fails.
pub fn p99(plan: &Plan, rate_per_s: f64, samples: &mut Samples) -> Result<(), String> {
    let shape = spread(plan, 1);
    let (measured, _) = run_voter(plan, &shape, Aim::Leader, Some(rate_per_s))?;
    let echo = echo(plan, shape.hosts, rate_per_s)?;
    let (without, _) = run_voter(plan, &spread(plan, 0), Aim::Leader, Some(rate_per_s))?;
    samples.half_load_k0_p99_us.push(p99_us(&without));
    samples.half_load_per_s.push(rate_per_s);
    samples.half_load_p50_us.push(measured.latency_us.value_at_quantile(0.5) as f64);
    samples.half_load_p99_us.push(p99_us(&measured));
    samples.echo_p99_us.push(p99_us(&echo));
    Ok(())
}

fn p99_us(measured: &Measured) -> f64 {
    measured.latency_us.value_at_quantile(0.99) as f64
}

/// Processes that answer at once.
fn echo(plan: &Plan, processes: u32, rate_per_s: f64) -> Result<Measured, String> {
    let start = |_| {
        let mut command = on_core(0, &plan.own.to_string_lossy());
        command.arg(ECHO);
        ServerProcess::start_with_ready_line(command).map_err(|error| error.to_string())
    };
    let servers = (0..processes).map(start).collect::<Result<Vec<_>, String>>()?;
    let addresses = servers.iter().map(|server| server.address.to_string()).collect();
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let options = driver(plan, addresses, Some(rate_per_s));
    drive(&options, &mut load, &mut |_| {}).map_err(|error| error.to_string())
}
