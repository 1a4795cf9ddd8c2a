//! Processor time of a run: that of the load, and that of the servers that run on this machine.

use crate::process::cpu_time_of;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The state of a socket that listens, in /proc/net/tcp.
const LISTENS: &str = "0A";

/// Processor time so far, or between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Of this process: the load, and in an embedded run the host as well.
    pub load: Duration,
    /// Of all servers; `None` where one of them is not to be seen from here.
    pub servers: Option<Duration>,
}

impl ProcessorTime {
    /// The time by now of this process and of the servers' processes.
    pub fn now(servers: &[u32]) -> ProcessorTime {
        let times = servers.iter().map(|process| cpu_time_of(&process.to_string()).ok());
        let servers = if servers.is_empty() { None } else { times.sum() };
        ProcessorTime { load: cpu_time_of("self").unwrap_or_default(), servers }
    }

    /// What passed since an earlier moment.
    pub fn since(&self, earlier: &ProcessorTime) -> ProcessorTime {
        let servers = self.servers.zip(earlier.servers);
        ProcessorTime {
            load: self.load.saturating_sub(earlier.load),
            servers: servers.map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The time of two loads at the same servers, which only one of them watches.
    pub fn and(&self, other: &ProcessorTime) -> ProcessorTime {
        ProcessorTime { load: self.load + other.load, servers: self.servers.or(other.servers) }
    }
}

/// The processes that listen at these addresses; empty if one of them is not to be seen, as of
/// another machine or another user.
pub fn processes_of(servers: &[String]) -> Vec<u32> {
    let mut processes: Vec<u32> = servers.iter().map_while(|server| process_of(server)).collect();
    if processes.len() < servers.len() {
        return Vec::new();
    }
    processes.sort_unstable();
    processes.dedup();
    processes
}

fn process_of(server: &str) -> Option<u32> {
    let address = server.to_socket_addrs().ok()?.find(SocketAddr::is_ipv4)?;
    if !address.ip().is_loopback() {
        return None;
    }
    let sockets = fs::read_to_string("/proc/net/tcp").ok()?;
    let wanted = format!("socket:[{}]", listening_inode(&sockets, address.port())?);
    let holds = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|target| target.as_os_str() == wanted.as_str())
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.find(holds)
}

/// The socket that listens at a port, by the kernel's table of sockets.
fn listening_inode(sockets: &str, port: u16) -> Option<&str> {
    let port = format!("{port:04X}");
    sockets.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, at) = fields.get(1)?.split_once(':')?;
        (at == port && fields.get(3) == Some(&LISTENS)).then(|| fields.get(9).copied())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_behind_an_address_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        assert_eq!(processes_of(&[address.clone(), address.clone()]), [std::process::id()]);
        drop(listener);
        assert_eq!(processes_of(&[address]), Vec::<u32>::new());
        assert_eq!(processes_of(&["192.0.2.1:21212".to_string()]), Vec::<u32>::new());
    }

    #[test]
    fn times_are_taken_between_moments_and_added_over_loads() {
        let time = |load, servers: Option<u64>| ProcessorTime {
            load: Duration::from_secs(load),
            servers: servers.map(Duration::from_secs),
        };
        assert_eq!(time(5, Some(7)).since(&time(2, Some(1))), time(3, Some(6)));
        assert_eq!(time(5, Some(7)).since(&time(2, None)), time(3, None));
        assert_eq!(time(5, None).and(&time(2, Some(1))), time(7, Some(1)));
        let before = ProcessorTime::now(&[std::process::id()]);
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(40) {}
        let passed = ProcessorTime::now(&[std::process::id()]).since(&before);
        assert!(passed.load > Duration::ZERO && passed.servers > Some(Duration::ZERO));
    }
}
