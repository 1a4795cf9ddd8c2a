//! How long calls of a partition are not answered when a host is lost: three hosts with default
//! settings, votes at a steady rate by a client that is connected with all of them.

use crate::Plan;
use lockstep_bench::cluster::load::ClusterLoad;
use lockstep_bench::cluster::watch::{Watch, read_routing};
use lockstep_bench::cluster::{ClusterProcesses, ClusterShape};
use lockstep_bench::program::cores;
use lockstep_bench::voter::{self, Form};
use lockstep_client::{ConnectOptions, Connection};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hosts of a cluster.
pub const HOSTS: u32 = 3;
/// And partitions.
pub const PARTITIONS: usize = 3;
/// Calls per second.
pub const RATE_PER_S: f64 = 2000.0;
/// Before the host is lost.
const BEFORE: Duration = Duration::from_millis(700);
/// After it.
const AFTER: Duration = Duration::from_millis(2500);
/// The topology is read at this interval, too, if no host reports a change.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How long calls in flight are waited for at the end.
pub const FINISH: Duration = Duration::from_secs(1);

/// What happens to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`.
    Kill,
    /// SIGSTOP.
    Suspend,
}

/// The longest gap of each failover, in milliseconds: every one in a cluster of its own, the hosts
/// in turn.
///
/// # Errors
/// The hosts do not start, or acknowledged votes are lost.
pub fn gaps(plan: &Plan, fault: Fault, count: u32) -> Result<Vec<f64>, String> {
    let mut gaps = Vec::new();
    for number in 0..count {
        let victim = (number % HOSTS) as usize;
        let gap = failover(plan, fault, victim)?;
        eprintln!("  {fault:?} of host {victim}: longest gap {:.0} ms", gap);
        gaps.push(gap);
    }
    Ok(gaps)
}

/// The cluster: default settings, on all cores.
pub fn shape(plan: &Plan) -> ClusterShape {
    ClusterShape {
        program: plan.server.clone(),
        hosts: HOSTS,
        kfactor: 1,
        sites: 1,
        partitions_per_site: 2,
        options: Vec::new(),
        cores: vec![format!("0-{}", cores() - 1); HOSTS as usize],
    }
}

fn failover(plan: &Plan, fault: Fault, victim: usize) -> Result<f64, String> {
    let text = |error: lockstep_client::ClientError| error.to_string();
    let mut processes = ClusterProcesses::start(&shape(plan))?;
    let addresses = processes.addresses();
    let survivor = addresses[(victim + 1) % addresses.len()].clone();
    let mut connection =
        Connection::connect(&survivor, &ConnectOptions::default()).map_err(text)?;
    voter::set_up(&mut connection, Form::Native).map_err(text)?;
    let routing = Arc::new(read_routing(&mut connection)?);
    let mut load =
        ClusterLoad::connect(&addresses, routing, PARTITIONS, RATE_PER_S).map_err(text)?;
    let watch = Watch::start(addresses, WATCH_INTERVAL, |connection| {
        read_routing(connection).map(Arc::new)
    });
    let begun = Instant::now();
    let mut fault = Some(fault);
    while begun.elapsed() < BEFORE + AFTER {
        if let Some(host) = load.step().map_err(text)? {
            watch.ask(host);
        }
        if let Some(routing) = watch.latest() {
            load.set_routing(Arc::clone(&routing));
        }
        if let Some(fault) = fault.take_if(|_| begun.elapsed() >= BEFORE) {
            let host = &mut processes.hosts[victim];
            let done = if fault == Fault::Kill { host.kill() } else { host.suspend() };
            done.map_err(|error| error.to_string())?;
        }
    }
    let gap = load.longest_gap().lasted;
    load.finish(FINISH).map_err(text)?;
    let (counts, counted) = (load.counts(), voter::vote_count(&mut connection).map_err(text)?);
    match (counts.lost(counted), counts.doubled(counted)) {
        (0, 0) => Ok(gap.as_secs_f64() * 1e3),
        (lost, doubled) => Err(format!("{lost} votes are lost, {doubled} doubled: {counts:?}")),
    }
}
