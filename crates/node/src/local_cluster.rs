//! Several hosts of one cluster in this process, on loopback: for tests and demonstrations.

use crate::links::{ClusterMembership, ClusterTerms};
use crate::server::{Server, ServerConfiguration};
use lockstep_types::HostId;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// What the hosts of a new cluster with K + 1 copies of each partition are started with, each on
/// ports of its own for the others.
///
/// # Errors
/// The system has no port left.
pub fn members(
    hosts: u32,
    kfactor: u8,
    configuration: impl Fn() -> ServerConfiguration,
) -> io::Result<Vec<ServerConfiguration>> {
    let free = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All at the same time, so that no port is taken twice.
    let listeners = (0..hosts).map(free).collect::<io::Result<Vec<TcpListener>>>()?;
    let addresses =
        listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<SocketAddr>>>()?;
    let member = |host| {
        let mut configuration = configuration();
        let terms = ClusterTerms::new(hosts, configuration.sites, kfactor, &configuration.options);
        let addresses = addresses.clone();
        configuration.cluster = Some(ClusterMembership { host: HostId(host), addresses, terms });
        configuration
    };
    Ok((0..hosts).map(member).collect())
}

/// Starts the hosts of a cluster, each of which waits for the others.
pub fn start(members: Vec<ServerConfiguration>) -> Vec<io::Result<Server>> {
    let start = |configuration| std::thread::spawn(move || Server::start(configuration));
    let threads: Vec<_> = members.into_iter().map(start).collect();
    let panicked = |_| Err(io::Error::other("the start of a host panicked"));
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
}
