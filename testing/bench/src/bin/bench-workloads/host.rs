//! Our host on the core of the servers, and a workload run at it.

use crate::{Plan, SERVER_CORE};
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_bench::run::figures::Figures;
use lockstep_bench::run::workers::WorkerOptions;
use lockstep_bench::run::{self, Pace, RunOptions};
use lockstep_workloads::Workload;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

/// A host that runs.
pub struct Host {
    server: ServerProcess,
    directory: Option<PathBuf>,
}

/// What came of a run.
pub struct Run {
    /// What the load saw.
    pub figures: Figures,
    /// The share of the core that the server used while it was measured.
    pub busy: f64,
}

impl Run {
    /// Transactions per second.
    pub fn per_s(&self) -> f64 {
        self.figures.throughput_per_s()
    }

    /// Transactions per second of the server's processor time.
    pub fn per_busy_s(&self) -> f64 {
        self.per_s() / self.busy.max(1e-3)
    }
}

/// Memory that a host of one site takes before it serves: TPC-C's tables and what a run adds to
/// them, so that no call waits for a page that nobody has touched yet.
pub const AHEAD_BYTES: u64 = 3 << 29;

/// The share of a core that the servers used within the measured time; all of it where that is not
/// to be seen.
pub fn busy_share(figures: &Figures) -> f64 {
    let seconds = figures.duration.as_secs_f64().max(1e-9);
    figures.processor.servers.map_or(1.0, |used| used.as_secs_f64() / seconds)
}

/// How the load comes.
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// Clients over them.
    pub clients: usize,
    /// Closed loop or a rate.
    pub pace: Pace,
    /// The repeat's number.
    pub seed: u64,
    /// Keep the due time and the latency of each transaction of this kind.
    pub keep_calls_of: Option<usize>,
}

impl Host {
    /// A host with N sites on the core of the servers; with the synchronous log, or with
    /// nothing kept.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(plan: &Plan, sites: u32, durable: bool) -> Result<Host, String> {
        Host::start_with(plan, sites, durable, &[])
    }

    /// The same, with further options of a host, each as `NAME=VALUE`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_with(
        plan: &Plan,
        sites: u32,
        durable: bool,
        options: &[String],
    ) -> Result<Host, String> {
        let mut directory = None;
        let mut command = on_core(SERVER_CORE, &plan.lockstep.to_string_lossy());
        command.args(["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        if durable {
            let path = plan.folder.join("log");
            let mut init = Command::new(&plan.lockstep);
            init.args(["init", "--sites", &sites.to_string(), "--dir"]).arg(&path);
            let made = init.stdout(Stdio::null()).status().map_err(|error| error.to_string())?;
            if !made.success() {
                return Err(format!("{init:?} failed"));
            }
            command.args(["--durability", "sync", "--dir"]).arg(&path);
            directory = Some(path);
        } else {
            command.args(["--sites", &sites.to_string()]);
        }
        if sites == 1 {
            command.args(["--option", &format!("preallocate_bytes={AHEAD_BYTES}")]);
        }
        options.iter().for_each(|option| {
            command.args(["--option", option]);
        });
        command.stderr(Stdio::null());
        let server = ServerProcess::start_with_ready_line(command).map_err(|e| e.to_string())?;
        Ok(Host { server, directory })
    }

    /// Sets a workload up where it is not, runs it, and holds it to its checks.
    ///
    /// # Errors
    /// The host refuses something, a transaction fails, or a check does not hold.
    pub fn run(
        &self,
        plan: &Plan,
        workload: &mut dyn Workload,
        load: &Load,
    ) -> Result<Run, String> {
        let options = RunOptions {
            servers: vec![self.server.address.to_string()],
            connections: load.connections,
            clients: load.clients,
            pace: load.pace.clone(),
            duration: plan.duration,
            warmup: plan.warmup,
            seed: load.seed,
            no_load: false,
            burst: 1,
            workers: WorkerOptions::default(),
            keep_calls_of: load.keep_calls_of,
        };
        let result = run::run(workload, &options, &AtomicBool::new(false), &mut |_| {})?;
        if !result.is_good() {
            let wrong = result.checks.iter().find(|check| !check.holds);
            let wrong = wrong.map(|check| format!("{}: {}", check.name, check.detail));
            let error = wrong.or(result.figures.first_error);
            return Err(error.unwrap_or_else(|| "a run went wrong".to_string()));
        }
        let busy = busy_share(&result.figures);
        Ok(Run { figures: result.figures, busy })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // The host may still hold it open; what cannot be removed goes with the run's folder.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
