//! A cluster as processes of this machine: started together, watched, killed one by one, and loaded
//! by a client that is connected with all of them.

pub mod load;
pub mod watch;

use crate::process::{on_cores, peak_resident_bytes_of, thread_seconds_of};
use lockstep_node::local_cluster::ReservedPort;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the hosts may take until all of them are ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Lines of a host's log that are kept for an error.
const KEPT_LINES: usize = 20;

/// What to start.
#[derive(Debug, Clone)]
pub struct ClusterShape {
    /// The server.
    pub program: PathBuf,
    /// Processes; one alone is no cluster.
    pub hosts: u32,
    /// Copies of each partition beyond the first.
    pub kfactor: u8,
    /// Sites of each host.
    pub sites: u32,
    /// Partitions of each site, copies counted.
    pub partitions_per_site: u32,
    /// Options, as `NAME=VALUE`.
    pub options: Vec<String>,
    /// The cores of each host, as `taskset` takes them; none for those of this process.
    pub cores: Vec<String>,
}

impl ClusterShape {
    fn command(&self, number: usize, addresses: &Addresses) -> Command {
        let program = self.program.to_string_lossy();
        let mut command = match self.cores.get(number) {
            Some(cores) => on_cores(cores, &program),
            None => Command::new(&self.program),
        };
        command.args(["--log", "error", "start", "--stop-with-input"]);
        command.args(["--client", &addresses.client[number].to_string()]);
        command.args(["--admin", &addresses.admin[number].to_string()]);
        command.args(["--sites", &self.sites.to_string()]);
        command.args(["--partitions-per-site", &self.partitions_per_site.to_string()]);
        if self.hosts > 1 {
            let peers: Vec<String> = addresses.peers.iter().map(SocketAddr::to_string).collect();
            command.args(["--internal", &peers[number], "--peers", &peers.join(",")]);
            command.args(["--kfactor", &self.kfactor.to_string()]);
        }
        for option in &self.options {
            command.args(["--option", option]);
        }
        command
    }
}

struct Addresses {
    client: Vec<SocketAddr>,
    admin: Vec<SocketAddr>,
    peers: Vec<SocketAddr>,
    /// Kept until the hosts listen there.
    _reserved: Vec<ReservedPort>,
}

impl Addresses {
    /// Free ones, which nobody else gets.
    fn free(hosts: u32) -> io::Result<Addresses> {
        let reserved =
            (0..3 * hosts).map(|_| ReservedPort::new()).collect::<io::Result<Vec<_>>>()?;
        let mut addresses = reserved.iter().map(ReservedPort::address);
        let mut take = || addresses.by_ref().take(hosts as usize).collect();
        let (client, admin, peers) = (take(), take(), take());
        Ok(Addresses { client, admin, peers, _reserved: reserved })
    }
}

/// A host of the cluster. Its process ends when this is dropped.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    /// Where clients connect.
    pub client: SocketAddr,
    /// Where administrators connect.
    pub admin: SocketAddr,
    /// What it logged last.
    logged: Arc<Mutex<VecDeque<String>>>,
    is_alive: bool,
}

impl HostProcess {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// False once it was killed.
    pub fn is_alive(&self) -> bool {
        self.is_alive
    }

    /// Whether the process has ended by itself.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        let ended = self.child.try_wait()?.is_some();
        self.is_alive &= !ended;
        Ok(ended)
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Errors
    /// It has ended by itself.
    pub fn kill(&mut self) -> io::Result<()> {
        self.is_alive = false;
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Stops it for now, as SIGSTOP does; it ends when this is dropped all the same.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn suspend(&mut self) -> io::Result<()> {
        let sent = Command::new("kill").args(["-STOP", &self.id().to_string()]).status()?;
        match sent.success() {
            true => Ok(()),
            false => Err(io::Error::other("SIGSTOP cannot be sent")),
        }
    }

    /// Processor time of its threads whose names begin so.
    ///
    /// # Errors
    /// The process is gone.
    pub fn thread_seconds(&self, name_begins: &str) -> io::Result<f64> {
        thread_seconds_of(&self.id().to_string(), name_begins)
    }

    /// The most resident memory that it ever had, in bytes.
    ///
    /// # Errors
    /// The process is gone.
    pub fn peak_resident_bytes(&self) -> io::Result<u64> {
        peak_resident_bytes_of(&self.id().to_string())
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        let logged = self.logged.lock().map(|lines| Vec::from(lines.clone()));
        logged.unwrap_or_default().join("\n")
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hosts, in the order of their numbers.
pub struct ClusterProcesses {
    /// All that were started, those that were killed as well.
    pub hosts: Vec<HostProcess>,
    shape: ClusterShape,
    listed: Addresses,
}

impl ClusterProcesses {
    /// Starts all hosts and waits until they are ready.
    ///
    /// # Errors
    /// One of them cannot be started; the text has the end of its log.
    pub fn start(shape: &ClusterShape) -> Result<ClusterProcesses, String> {
        let addresses = Addresses::free(shape.hosts).map_err(|error| error.to_string())?;
        let (tell, told) = channel();
        let mut hosts = Vec::new();
        for number in 0..shape.hosts as usize {
            let command = shape.command(number, &addresses);
            let host = spawn(number, command, &addresses, &tell);
            hosts.push(host.map_err(|error| format!("host {number}: {error}"))?);
        }
        let deadline = Instant::now() + START_LIMIT;
        for _ in 0..hosts.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            match told.recv_timeout(left) {
                Ok((_, true)) => {}
                Ok((number, false)) => {
                    let host: &mut HostProcess = &mut hosts[number];
                    // Its log is complete when it has ended.
                    let _ = host.child.wait();
                    return Err(format!("host {number} did not start: {}", host.last_words()));
                }
                Err(_) => return Err(format!("the hosts are not ready after {START_LIMIT:?}")),
            }
        }
        Ok(ClusterProcesses { hosts, shape: shape.clone(), listed: addresses })
    }

    /// Starts the process of a host again that has ended; it is to join the others. What is given
    /// gets whether it became ready.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restart(&mut self, number: usize) -> io::Result<Receiver<(usize, bool)>> {
        let (tell, told) = channel();
        let mut command = self.shape.command(number, &self.listed);
        command.arg("--rejoin");
        self.hosts[number] = spawn(number, command, &self.listed, &tell)?;
        Ok(told)
    }

    /// Processor time of each host so far, in seconds.
    ///
    /// # Errors
    /// A host has ended.
    pub fn cpu_seconds(&self) -> io::Result<Vec<f64>> {
        self.hosts.iter().map(|host| host.thread_seconds("")).collect()
    }

    /// Where clients connect, of the hosts that were not killed.
    pub fn addresses(&self) -> Vec<String> {
        let alive = self.hosts.iter().filter(|host| host.is_alive);
        alive.map(|host| host.client.to_string()).collect()
    }
}

/// Starts a process; whether it became ready is sent with its number.
fn spawn(
    number: usize,
    mut command: Command,
    addresses: &Addresses,
    tell: &Sender<(usize, bool)>,
) -> io::Result<HostProcess> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // An interrupt from the terminal is for this process, which ends and closes their input.
    let mut child = command.process_group(0).spawn()?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let logged = Arc::new(Mutex::new(VecDeque::new()));
    let host = HostProcess {
        child,
        client: addresses.client[number],
        admin: addresses.admin[number],
        logged: Arc::clone(&logged),
        is_alive: true,
    };
    let tell = tell.clone();
    std::thread::spawn(move || {
        let mut lines = lines_of(output);
        let is_ready = lines.any(|line| line.contains("ready on "));
        // Nobody waits any more once another host has failed.
        let _ = tell.send((number, is_ready));
        lines.for_each(drop);
    });
    std::thread::spawn(move || {
        for line in lines_of(errors) {
            let Ok(mut kept) = logged.lock() else { return };
            kept.push_back(line);
            if kept.len() > KEPT_LINES {
                kept.pop_front();
            }
        }
    });
    Ok(host)
}

fn lines_of(stream: Option<impl Read>) -> impl Iterator<Item = String> {
    let lines = stream.map(|stream| BufReader::new(stream).lines().map_while(Result::ok));
    lines.into_iter().flatten()
}
