//! Runs of a seed with each of the workloads, from the first tick to the reads at rest.

use super::{Cluster, FORM_US, HostFaults, READS_AT_REST, REST_US, Report, TICK_US, Work};
use crate::bank::Failure;
use lockstep_cluster::HostState;

/// Runs one seed with this number of calls, with hosts that are broken in some way.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::new(seed, faults, Work::Bank), calls)
}

/// The same, and half of the calls append to lists and read them.
///
/// # Errors
/// The first check that failed.
pub fn run_lists(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::new(seed, faults, Work::Lists), calls)
}

/// As [`run_seed`], and copies answer reads.
///
/// # Errors
/// The first check that failed.
pub fn run_reads(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::new(seed, faults, Work::Reads), calls)
}

/// As [`run_seed`], and most calls insert rows that go when their time is over, and read them.
///
/// # Errors
/// The first check that failed.
pub fn run_aging(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::new(seed, faults, Work::Aging), calls)
}

/// As [`run_seed`], and K changes meanwhile.
///
/// # Errors
/// The first check that failed.
pub fn run_kfactor(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::with_k_changes(seed, faults), calls)
}

/// As [`run_seed`], and hosts are added and removed meanwhile.
///
/// # Errors
/// The first check that failed.
pub fn run_resizes(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::with_resizes(seed, faults), calls)
}

/// As [`run_seed`], and most calls are transactions of TPC-C.
///
/// # Errors
/// The first check that failed.
pub fn run_tpcc(seed: u64, calls: usize, faults: HostFaults) -> Result<Report, Failure> {
    run_cluster(Cluster::new(seed, faults, Work::Tpcc), calls)
}

fn run_cluster(mut cluster: Cluster, calls: usize) -> Result<Report, Failure> {
    match cluster.run(calls) {
        Ok(()) => Ok(cluster.summary()),
        Err(message) => {
            let Cluster { shape, seed, .. } = cluster;
            Err(Failure {
                seed,
                message: format!("hosts, {} with K = {}: {message}", shape.hosts, shape.k),
            })
        }
    }
}

impl Cluster {
    fn run(&mut self, calls: usize) -> Result<(), String> {
        self.form()?;
        self.load()?;
        self.disturb_for(calls)?;
        self.heal();
        if !self.come_to_rest(self.now_us + REST_US)? {
            if self.is_stuck() {
                self.report.stuck += 1;
                return Ok(());
            }
            return Err(format!("no rest once faults have stopped: {}", self.unrest()));
        }
        self.compare()?;
        self.report.changes += self.judge_changes()?;
        let state = self.state().expect("the cluster was formed");
        let lost = self.left_unavailable(state).expect("the cluster is at rest");
        if !lost.is_empty() {
            return self.read_what_is_left(&lost);
        }
        // A host that was disturbed last may refuse calls for a moment.
        for attempt in 0..READS_AT_REST {
            let serving = self.serving();
            let call =
                if attempt % 2 == 0 { self.judge.read_all() } else { self.judge.read_moves() };
            self.call_at(serving[attempt / 2 % serving.len()], call);
            let limit_us = self.now_us + FORM_US;
            if !self.run_until(limit_us, |it| it.judge.outstanding == 0)? {
                if self.is_stuck() {
                    self.report.stuck += 1;
                    return Ok(());
                }
                return Err("a read at rest is not answered".to_string());
            }
            if attempt % 2 == 1 && self.judge.is_last_done() {
                self.read_codes()?;
                self.judge_lists()?;
                self.judge_aging()?;
                return self.judge_wholesale();
            }
            self.run_until(self.now_us + TICK_US, |_| false)?;
        }
        Err(format!("reads at rest fail: {}; {}", self.judge.why, self.unrest()))
    }

    fn summary(&self) -> Report {
        let [answered, failed, unknown] = self.judge.ended;
        let shared = self.shared.report;
        let mut report = Report { answered, failed, unknown, ..self.report };
        report.add(&shared);
        let state = self.state().expect("the cluster was formed");
        let lost = state.hosts.values().filter(|record| record.state != HostState::Up).count();
        report.lost += lost as u64;
        report.epochs += state.epoch.0 - 1;
        report
    }
}
