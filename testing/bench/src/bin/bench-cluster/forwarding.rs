//! What a leader would take that did nothing: processor time for a call of a process that passes
//! each batch on to another one and answers when that one has, against one that answers at once, on
//! the core and at the rates of the figures with one leader.

use crate::measure::driver;
use crate::{ECHO, Plan, RELAY};
use lockstep_bench::driver::drive;
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_bench::voter::{Form, VoterLoad};
use lockstep_workloads::voter::CONTESTANTS;

/// Processor time for a call, in microseconds: of the process that answers, and of the one that
/// passes on.
///
/// # Errors
/// A process does not start, or a connection is lost.
pub fn cpu_us(plan: &Plan, rate_per_s: f64) -> Result<(f64, f64), String> {
    let echo = start(plan, &[ECHO])?;
    let alone = driven(plan, &echo, rate_per_s)?;
    let relay = start(plan, &[RELAY, &echo.address.to_string()])?;
    Ok((alone, driven(plan, &relay, rate_per_s)?))
}

fn start(plan: &Plan, arguments: &[&str]) -> Result<ServerProcess, String> {
    let mut command = on_core(0, &plan.own.to_string_lossy());
    command.args(arguments);
    ServerProcess::start_with_ready_line(command).map_err(|error| error.to_string())
}

/// Calls a process; its processor time for a call.
fn driven(plan: &Plan, server: &ServerProcess, rate_per_s: f64) -> Result<f64, String> {
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let options = driver(plan, vec![server.address.to_string()], Some(rate_per_s));
    let cpu = || server.cpu_time().map_err(|error| error.to_string());
    let before = cpu()?;
    let measured = drive(&options, &mut load, &mut |_| {}).map_err(|error| error.to_string())?;
    Ok((cpu()? - before).as_secs_f64() * 1e6 / measured.all.max(1) as f64)
}
