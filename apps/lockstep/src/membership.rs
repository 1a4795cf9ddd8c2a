//! The options of `start` that make a host one of a cluster.

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use lockstep_node::links::{ClusterMembership, ClusterTerms, KFACTOR_MAX};
use lockstep_node::log::directory::SeveralHosts;
use lockstep_node::options::Options;
use lockstep_types::HostId;
use std::net::SocketAddr;

/// The number of hosts.
pub fn hosts() -> Arg {
    Arg::new("hosts")
        .long("hosts")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=i64::from(HostId::LIMIT)))
}

/// How many may be lost.
pub fn kfactor() -> Arg {
    Arg::new("kfactor")
        .long("kfactor")
        .value_name("K")
        .value_parser(value_parser!(u8).range(0..=i64::from(KFACTOR_MAX)))
}

/// The options.
pub fn arguments(resolve: fn(&str) -> Result<SocketAddr, String>) -> [Arg; 5] {
    [
        hosts()
            .requires("peers")
            .help("Number of hosts of the cluster [default: as many as --peers names]"),
        kfactor().requires("peers").help(
            "How many hosts may be lost without a loss of data: each partition has K + 1 copies, \
             and the other hosts go on without a lost one while they are a majority. With 0 the \
             cluster stops with any of its hosts [default: that of the directory, else 0]",
        ),
        Arg::new("internal")
            .long("internal")
            .value_name("HOST:PORT")
            .value_parser(resolve)
            .requires("peers")
            .help("Where this host listens for the other hosts: one of --peers"),
        Arg::new("peers")
            .long("peers")
            .value_name("HOST:PORT,...")
            .value_delimiter(',')
            .value_parser(resolve)
            .requires("internal")
            .help(
                "Where the hosts of the cluster listen for each other, this one too, in the same \
                 order at each of them, at every start",
            ),
        Arg::new("rejoin").long("rejoin").action(ArgAction::SetTrue).requires("peers").help(
            "Take the place of a lost host in a cluster that runs, and never form a new one. For \
                 --kfactor 1 or 2; without this option a host does both. With a directory a host \
                 joins when the cluster goes on without it, and else starts with what it has",
        ),
    ]
}

/// What the options say; `None` for a host that is alone. What they leave out is as the directory
/// was made.
///
/// # Errors
/// What does not fit, and what would.
pub fn read(
    arguments: &ArgMatches,
    sites: u32,
    options: &Options,
    made: Option<SeveralHosts>,
) -> Result<Option<ClusterMembership>, String> {
    let Some(peers) = arguments.get_many::<SocketAddr>("peers") else { return Ok(None) };
    let addresses: Vec<SocketAddr> = peers.copied().collect();
    let own = arguments.get_one::<SocketAddr>("internal").expect("--peers requires it");
    let listed = addresses.len();
    let hosts = arguments.get_one::<u32>("hosts").copied().unwrap_or(listed as u32);
    if hosts as usize != listed {
        return Err(format!("--hosts is {hosts}, and --peers names {listed}: name each host once"));
    }
    for (number, address) in addresses.iter().enumerate() {
        if addresses[..number].contains(address) {
            return Err(format!("--peers names {address} twice"));
        }
    }
    let position = addresses.iter().position(|address| address == own).ok_or_else(|| {
        format!("--internal is {own}, which is none of --peers: add it there, at each host")
    })?;
    if let Some(SeveralHosts { hosts: made, .. }) = made.filter(|made| made.hosts != hosts) {
        return Err(format!(
            "the directory was made for {made} hosts (init --hosts), and --peers names {hosts}"
        ));
    }
    let kfactor = arguments.get_one::<u8>("kfactor").copied();
    let kfactor = kfactor.or(made.map(|made| made.kfactor)).unwrap_or(0);
    let terms = ClusterTerms::new(hosts, sites, kfactor, options);
    terms.partition_count()?;
    Ok(Some(ClusterMembership {
        host: HostId(position as u32),
        addresses,
        terms,
        rejoins: arguments.get_flag("rejoin"),
        reservation: None,
    }))
}

/// What a host is started as, in words.
pub fn shown(cluster: Option<&ClusterMembership>, shape: String) -> String {
    match cluster {
        None => shape,
        Some(cluster) => format!("host {} of {}, {shape}", cluster.host, cluster.terms.hosts),
    }
}
