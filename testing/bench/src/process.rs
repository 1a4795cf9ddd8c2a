//! Server processes for comparisons: started on a core of their own, measured through /proc,
//! stopped by their own id and no other.

use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Clock ticks of /proc/PID/stat in a second: fixed by the kernel's interface.
const TICKS_PER_S: f64 = 100.0;

/// A process that stops when this is dropped.
pub struct ServerProcess {
    child: Child,
    /// Where it serves.
    pub address: SocketAddr,
}

/// A command that runs on one core only.
pub fn on_core(core: usize, program: &str) -> Command {
    on_cores(&core.to_string(), program)
}

/// A command that runs on some cores only, which `taskset` takes as a list.
pub fn on_cores(cores: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cores).arg(program);
    command
}

/// Real-time priority of the calling thread, until it is dropped.
pub struct RealTime {
    thread: Option<String>,
}

impl RealTime {
    /// No ordinary program interrupts this thread any more; those that it starts do not become
    /// so. Where that is not allowed all stays as it is, with a word on stderr.
    pub fn of_this_thread(priority: u32) -> RealTime {
        let link = std::fs::read_link("/proc/thread-self").ok();
        let name = link.as_deref().and_then(Path::file_name);
        let thread = name.map(|name| name.to_string_lossy().into_owned());
        let given = thread.filter(|thread| {
            let policy = ["--reset-on-fork", "--fifo", "--pid", &priority.to_string()];
            change_policy(&policy, thread)
        });
        if given.is_none() {
            eprintln!("  the load has no real-time priority");
        }
        RealTime { thread: given }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            change_policy(&["--other", "--pid", "0"], thread);
        }
    }
}

/// A command that runs `program` on one core, with real-time priority where that is allowed.
pub fn on_core_in_real_time(core: usize, program: &str, priority: u32) -> Command {
    let with_priority = ["--fifo", &priority.to_string()];
    let tried = Command::new("chrt").args(with_priority).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return on_core(core, program);
    }
    let mut command = on_core(core, "chrt");
    command.args(with_priority).arg(program);
    command
}

fn change_policy(policy: &[&str], thread: &str) -> bool {
    let changed = Command::new("chrt").args(policy).arg(thread).output();
    changed.is_ok_and(|output| output.status.success())
}

impl ServerProcess {
    /// Starts a server that prints `... ready on ADDRESS` once it serves.
    ///
    /// # Errors
    /// It cannot be started, or ends without that line.
    pub fn start_with_ready_line(command: Command) -> io::Result<ServerProcess> {
        ServerProcess::start_with_lines(command, |_| {})
    }

    /// The same, and `note` gets each line up to that one.
    ///
    /// # Errors
    /// It cannot be started, or ends without that line.
    pub fn start_with_lines(
        mut command: Command,
        note: impl FnMut(&str),
    ) -> io::Result<ServerProcess> {
        ServerProcess::start(command.stdin(Stdio::null()), note)
    }

    /// Starts a server that prints such a line and that ends, by itself, when its input does: with
    /// this process, however that ends. An interrupt from the terminal reaches this process only.
    ///
    /// # Errors
    /// It cannot be started, or ends without that line.
    pub fn start_on_leash(mut command: Command) -> io::Result<ServerProcess> {
        ServerProcess::start(command.stdin(Stdio::piped()).process_group(0), |_| {})
    }

    fn start(command: &mut Command, mut note: impl FnMut(&str)) -> io::Result<ServerProcess> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("the output is piped");
        let mut lines = BufReader::new(output).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            note(&line);
            line.split_once("ready on ").and_then(|(_, address)| address.trim().parse().ok())
        });
        let mut server = ServerProcess { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        match address {
            Some(address) => server.address = address,
            None => return Err(io::Error::other(format!("{command:?} did not become ready"))),
        }
        // Read on, so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    /// Starts a server that is ready once its port takes connections.
    ///
    /// # Errors
    /// It cannot be started or does not listen within ten seconds.
    pub fn start_at(mut command: Command, address: SocketAddr) -> io::Result<ServerProcess> {
        let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn()?;
        let server = ServerProcess { child, address };
        let patience = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > patience {
                return Err(io::Error::other(format!("{command:?} does not listen at {address}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads so far.
    ///
    /// # Errors
    /// The process is gone.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        cpu_time_of(&self.child.id().to_string())
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// The process is gone.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        resident_bytes_of(&self.child.id().to_string())
    }

    /// The most resident memory that it ever had, in bytes.
    ///
    /// # Errors
    /// The process is gone.
    pub fn peak_resident_bytes(&self) -> io::Result<u64> {
        peak_resident_bytes_of(&self.child.id().to_string())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process so far, by its id or as `self`.
///
/// # Errors
/// The process is gone.
pub fn cpu_time_of(process: &str) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    parse_cpu_time(&stat).ok_or_else(|| io::Error::other("/proc/PID/stat has another form"))
}

/// CPU time so far of a process and of the processes that it has started and that still run.
///
/// # Errors
/// The process is gone.
pub fn cpu_time_with_children(process: u32) -> io::Result<Duration> {
    let mut total = cpu_time_of(&process.to_string())?;
    for entry in std::fs::read_dir("/proc")? {
        // Processes may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(entry?.path().join("stat")) else { continue };
        if parent_of(&stat) == Some(process) {
            total += parse_cpu_time(&stat).unwrap_or_default();
        }
    }
    Ok(total)
}

/// The fourth field: who started it.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Resident memory of a process in bytes, by its id or as `self`.
///
/// # Errors
/// The process is gone.
pub fn resident_bytes_of(process: &str) -> io::Result<u64> {
    status_bytes(process, "VmRSS:")
}

/// The most resident memory that a process ever had, in bytes, by its id or as `self`.
///
/// # Errors
/// The process is gone.
pub fn peak_resident_bytes_of(process: &str) -> io::Result<u64> {
    status_bytes(process, "VmHWM:")
}

/// An amount of memory that the kernel states of a process.
fn status_bytes(process: &str, name: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    parse_status_bytes(&status, name)
        .ok_or_else(|| io::Error::other("/proc/PID/status has another form"))
}

/// Seconds of processor time, so far, of this process's threads whose names begin so.
///
/// # Errors
/// The kernel does not tell.
pub fn thread_seconds(name_begins: &str) -> io::Result<f64> {
    thread_seconds_of("self", name_begins)
}

/// The same of the threads of a process, by its id or as `self`.
///
/// # Errors
/// The process is gone.
pub fn thread_seconds_of(process: &str, name_begins: &str) -> io::Result<f64> {
    let mut total_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let folder = thread?.path();
        // Threads may end meanwhile.
        let Ok(name) = std::fs::read_to_string(folder.join("comm")) else { continue };
        if name.starts_with(name_begins) {
            let text = std::fs::read_to_string(folder.join("schedstat"))?;
            let ran_ns = text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
            let other = || io::Error::other("/proc/PID/task/TID/schedstat has another form");
            total_ns += ran_ns.ok_or_else(other)?;
        }
    }
    Ok(total_ns as f64 / 1e9)
}

/// User and system time: the 14th and 15th field, counted after the name in parentheses.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let total = ticks()? + ticks()?;
    Some(Duration::from_secs_f64(total as f64 / TICKS_PER_S))
}

fn parse_status_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// A port of the loopback address that is free at the moment.
///
/// # Errors
/// None is free.
pub fn free_address() -> io::Result<SocketAddr> {
    std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        let stat = "12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 7 8 9";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(parse_cpu_time("12 (x) S 1"), None);
        assert_eq!(parent_of(stat), Some(1));
        assert_eq!(parse_status_bytes("Name:\tx\nVmRSS:\t   12 kB\n", "VmRSS:"), Some(12_288));
    }

    #[test]
    fn threads_are_timed_by_name() {
        assert_eq!(thread_seconds("nobody").expect("the kernel tells"), 0.0);
        let busy = std::thread::Builder::new().name("busy one".to_string());
        let busy = busy.spawn(|| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(20) {}
            thread_seconds("busy").expect("the kernel tells")
        });
        assert!(busy.expect("it starts").join().expect("it ends") > 0.0);
    }

    #[test]
    fn a_server_is_started_and_stopped() {
        let mut command = Command::new("sh");
        command.arg("-c").arg("echo hello; echo x: ready on 127.0.0.1:5; exec sleep 60");
        let server = ServerProcess::start_with_ready_line(command).expect("it starts");
        assert_eq!(server.address.port(), 5);
        assert!(server.resident_bytes().expect("it runs") > 0);
        let process = format!("/proc/{}", server.child.id());
        drop(server);
        assert!(!std::path::Path::new(&process).exists());
    }
}
