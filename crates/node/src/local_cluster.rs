//! Several hosts of one cluster in this process, on loopback: for tests and demonstrations.

use crate::links::{ClusterMembership, ClusterTerms, DEFAULT_PLACEMENT_GROUP};
use crate::server::{Server, ServerConfiguration};
use lockstep_types::HostId;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

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
    let reserved = (0..hosts).map(|_| ReservedPort::new()).collect::<io::Result<Vec<_>>>()?;
    Ok(members_at(&reserved, (hosts, kfactor), configuration))
}

/// The same for hosts with a witness, and what that is.
///
/// # Errors
/// The system has no port left.
pub fn members_and_witness(
    hosts: u32,
    kfactor: u8,
    configuration: impl Fn() -> ServerConfiguration,
) -> io::Result<(Vec<ServerConfiguration>, ClusterMembership)> {
    let reserved = (0..=hosts).map(|_| ReservedPort::new()).collect::<io::Result<Vec<_>>>()?;
    let witness = ClusterMembership {
        host: HostId(hosts),
        addresses: reserved.iter().map(ReservedPort::address).collect(),
        added: Vec::new(),
        terms: ClusterTerms::of_witness(hosts, &configuration().options),
        rejoins: false,
        placement_group: DEFAULT_PLACEMENT_GROUP.to_string(),
        reservation: reserved.last().map(|port| Arc::clone(&port.socket)),
    };
    Ok((members_at(&reserved, (hosts, kfactor), configuration), witness))
}

/// The hosts at the first of these ports; the others are those of witnesses.
fn members_at(
    reserved: &[ReservedPort],
    (hosts, kfactor): (u32, u8),
    configuration: impl Fn() -> ServerConfiguration,
) -> Vec<ServerConfiguration> {
    let addresses: Vec<SocketAddr> = reserved.iter().map(ReservedPort::address).collect();
    let member = |host: u32| {
        let mut configuration = configuration();
        let terms = ClusterTerms::new(hosts, configuration.sites, kfactor, &configuration.options);
        let terms = ClusterTerms { witnesses: reserved.len() as u32 - hosts, ..terms };
        let addresses = addresses.clone();
        let reservation = Some(Arc::clone(&reserved[host as usize].socket));
        let host = HostId(host);
        configuration.cluster = Some(ClusterMembership {
            host,
            addresses,
            added: Vec::new(),
            terms,
            rejoins: false,
            placement_group: DEFAULT_PLACEMENT_GROUP.to_string(),
            reservation,
        });
        configuration
    };
    (0..hosts).map(member).collect()
}

/// The configuration of a host that was added under a number, at this port, to the cluster of
/// which another one is a member.
///
/// # Panics
/// The other one is no member of a cluster.
pub fn added_to(
    member: &ServerConfiguration,
    host: HostId,
    port: &ReservedPort,
    configuration: ServerConfiguration,
) -> ServerConfiguration {
    let cluster = member.cluster.as_ref().expect("it is a member of a cluster");
    let added = cluster.added.iter().copied().chain([(host, port.address())]).collect();
    let cluster = ClusterMembership {
        host,
        added,
        rejoins: true,
        reservation: Some(Arc::clone(&port.socket)),
        ..cluster.clone()
    };
    ServerConfiguration { cluster: Some(cluster), ..configuration }
}

/// Starts the hosts of a cluster, each of which waits for the others.
pub fn start(members: Vec<ServerConfiguration>) -> Vec<io::Result<Server>> {
    let start = |configuration| std::thread::spawn(move || Server::start(configuration));
    let threads: Vec<_> = members.into_iter().map(start).collect();
    let panicked = |_| Err(io::Error::other("the start of a host panicked"));
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
}

/// A port of loopback that is kept free for a host: a socket that is bound and never listens. The
/// system gives the port to nobody, and the host that names it and reuses addresses can listen
/// there.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    socket: Arc<Socket>,
}

impl ReservedPort {
    /// A port that nobody has.
    ///
    /// # Errors
    /// The system has no port left.
    pub fn new() -> io::Result<ReservedPort> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket();
        let address = address.ok_or_else(|| io::Error::other("the socket has no address"))?;
        Ok(ReservedPort { address, socket: Arc::new(socket) })
    }

    /// Where the host is to listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_reserved_port_is_free_for_its_host_alone() {
        let reservation = ReservedPort::new().expect("there are free ports");
        let address = reservation.address();
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        assert!(other.bind(&address.into()).is_err(), "it reuses no address");
        // As a host does, the standard library reuses addresses.
        drop(TcpListener::bind(address).expect("its host listens there"));
        drop(reservation);
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        other.bind(&address.into()).expect("nobody has it");
    }
}
