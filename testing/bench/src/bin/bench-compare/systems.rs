//! The systems that are compared: where their programs are and how each is started.

use crate::{ECHO, Plan};
use lockstep_bench::process::{ServerProcess, free_address, on_core};
use lockstep_bench::program::{cores, load_core};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Connections of every load.
pub const CONNECTIONS: usize = 50;
/// Calls in flight on each where throughput is measured.
pub const PIPELINE: usize = 64;
/// Keys of the load on Redis.
pub const REDIS_KEYS: u64 = 1_000_000;
/// The core of the servers.
pub const SERVER_CORE: usize = 0;

/// Where the programs are.
pub struct Systems {
    /// This program.
    pub own: PathBuf,
    lockstep: PathBuf,
    /// Of the machine.
    pub cores: usize,
    redis_version: String,
}

impl Systems {
    /// Finds the programs; installs Redis where it is missing and may be installed.
    ///
    /// # Errors
    /// A program is missing.
    pub fn find(lockstep: Option<PathBuf>) -> Result<Systems, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let lockstep = lockstep.unwrap_or_else(|| own.with_file_name("lockstep"));
        if !lockstep.exists() {
            let path = lockstep.display();
            return Err(format!("{path} is missing; `make build` makes it, or give --lockstep"));
        }
        if version_of_redis().is_none() {
            install_redis()?;
        }
        let redis_version = version_of_redis()
            .ok_or("redis-server is missing; on Debian `apt-get install redis-server`")?;
        Ok(Systems { own, lockstep, cores: cores(), redis_version })
    }

    /// A command on the core of the servers.
    pub fn on_server_core(&self, program: &Path) -> Command {
        on_core(SERVER_CORE, &program.to_string_lossy())
    }

    /// A host of ours with one site.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_lockstep(&self) -> Result<ServerProcess, String> {
        let mut command = self.on_server_core(&self.lockstep);
        command.args(["start", "--sites", "1", "--client", "127.0.0.1:0"]);
        command.args(["--admin", "127.0.0.1:0"]);
        ServerProcess::start_with_ready_line(command).map_err(|error| error.to_string())
    }

    /// The echo server.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_echo(&self) -> Result<ServerProcess, String> {
        let mut command = self.on_server_core(&self.own);
        command.arg(ECHO);
        ServerProcess::start_with_ready_line(command).map_err(|error| error.to_string())
    }

    /// Redis, keeping nothing on disk, as it is fastest.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_redis(&self) -> Result<ServerProcess, String> {
        let address = free_address().map_err(|error| error.to_string())?;
        let mut command = self.on_server_core(Path::new("redis-server"));
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        ServerProcess::start_at(command, address).map_err(|error| error.to_string())
    }

    /// What the run was made with, for its report.
    pub fn options(&self, plan: &Plan) -> Vec<(&'static str, String)> {
        let seconds = |time: std::time::Duration| format!("{} s", time.as_secs_f64());
        vec![
            ("cores", self.cores.to_string()),
            ("core of the servers", SERVER_CORE.to_string()),
            ("core of the load", load_core(self.cores).to_string()),
            ("lockstep", format!("start --sites 1 ({})", self.lockstep.display())),
            ("Redis", format!("{}, nothing kept on disk", self.redis_version)),
            ("Redis load", format!("SET, 64-byte values, {REDIS_KEYS} keys at random")),
            ("connections", CONNECTIONS.to_string()),
            ("in flight on each", format!("{PIPELINE}, or 1 where it says so")),
            ("repeats", format!("{}, medians", plan.repeats)),
            ("measured time", seconds(plan.duration)),
            ("warm-up", seconds(plan.warmup)),
        ]
    }
}

fn version_of_redis() -> Option<String> {
    let output = Command::new("redis-server").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().find_map(|word| word.strip_prefix("v=")).map(str::to_string)
}

/// Installs Redis from the distribution, where this process is root.
fn install_redis() -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root {
        return Err("redis-server is missing and only root may install it; on Debian \
                    `apt-get install redis-server`"
            .to_string());
    }
    eprintln!("bench-compare: installing redis-server");
    let run = |arguments: &[&str]| {
        // At this run level the package does not start a server of its own.
        Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("RUNLEVEL", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .map_err(|error| format!("apt-get cannot be run: {error}"))
    };
    run(&["update", "-q"])?;
    let status = run(&["install", "-q", "-y", "redis-server", "redis-tools"])?;
    if status.success() { Ok(()) } else { Err("apt-get could not install Redis".to_string()) }
}
