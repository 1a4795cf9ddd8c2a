//! The options of `start` that make a host one of a cluster, and those of `witness`.

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use lockstep_node::links::{
    ClusterMembership, ClusterTerms, DEFAULT_PLACEMENT_GROUP, KFACTOR_MAX, WITNESSES_MAX,
    check_placement_group,
};
use lockstep_node::log::directory::SeveralHosts;
use lockstep_node::options::Options;
use lockstep_types::HostId;
use std::net::SocketAddr;

/// In the place of the address of a host that was removed from its cluster.
const REMOVED: &str = "removed";

/// With one host there are no copies that a vote could decide about.
const HOSTS_BESIDE_WITNESS_MIN: u32 = 2;

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

/// The number of witnesses.
pub fn witnesses() -> Arg {
    Arg::new("witnesses")
        .long("witnesses")
        .value_name("N")
        .value_parser(value_parser!(u32).range(0..=i64::from(WITNESSES_MAX)))
}

/// Where the members of a cluster listen for each other.
pub fn addresses(resolve: fn(&str) -> Result<SocketAddr, String>) -> [Arg; 2] {
    [
        Arg::new("internal")
            .long("internal")
            .value_name("HOST:PORT")
            .value_parser(resolve)
            .requires("peers")
            .help("Where this process listens for the other members: one of --peers"),
        Arg::new("peers")
            .long("peers")
            .value_name("HOST:PORT,...")
            .value_delimiter(',')
            .value_parser(move |text: &str| named_peer(text, resolve))
            .requires("internal")
            .help(
                "Where the hosts of the cluster listen for each other, this one too, and a witness \
                 as the last one: in the same order at each of them, at every start. After those, \
                 hosts that were added since: NUMBER=HOST:PORT, by the number that `lockstep admin \
                 cluster add` gave. In the place of a host that was removed: removed",
            ),
    ]
}

/// A host of `--peers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedPeer {
    /// One with which the cluster was made: its number follows from the order.
    Made(SocketAddr),
    /// The same, which was removed since.
    Removed,
    /// One that was added since.
    Added(HostId, SocketAddr),
}

fn named_peer(
    text: &str,
    resolve: fn(&str) -> Result<SocketAddr, String>,
) -> Result<NamedPeer, String> {
    if text == REMOVED {
        return Ok(NamedPeer::Removed);
    }
    let Some((number, address)) = text.split_once('=') else {
        return resolve(text).map(NamedPeer::Made);
    };
    let host = number.parse().ok().filter(|number| *number < HostId::LIMIT);
    let host = host.ok_or_else(|| {
        format!("'{number}' is no number of a host: those are 0 to {}", HostId::LIMIT - 1)
    })?;
    Ok(NamedPeer::Added(HostId(host), resolve(address)?))
}

/// The options of a host.
pub fn arguments() -> [Arg; 5] {
    [
        hosts().requires("peers").help(
            "Number of hosts of the cluster, without the witness [default: as many as --peers \
             names]",
        ),
        witnesses().requires("peers").help(
            "With 1, the last one of --peers is a witness (`lockstep witness`), which votes and \
             has no data: with it, two hosts with --kfactor 1 survive the loss of either one \
             [default: that of the directory, else 0]",
        ),
        kfactor().requires("peers").help(
            "How many hosts may be lost without a loss of data: each partition has K + 1 copies, \
             and the other hosts go on without a lost one while they are a majority. With 0 the \
             cluster stops with any of its hosts [default: that of the directory, else 0]",
        ),
        Arg::new("rejoin").long("rejoin").action(ArgAction::SetTrue).requires("peers").help(
            "Take the place of a lost host in a cluster that runs, and never form a new one. For \
             --kfactor 1 or 2; without this option a host in memory does both. With a new \
             directory (`lockstep init`) a host takes the place of one whose directory is lost. \
             With its own one it joins when the cluster goes on without it, and else starts with \
             what it has",
        ),
        Arg::new("group")
            .long("group")
            .value_name("NAME")
            .default_value(DEFAULT_PLACEMENT_GROUP)
            .value_parser(placement_group)
            .requires("peers")
            .help(
                "The placement group of this host. Hosts of one group may fail together, such as \
                 those of a rack: the copies of a partition are at hosts of different groups where \
                 that can be had",
            ),
    ]
}

fn placement_group(name: &str) -> Result<String, String> {
    check_placement_group(name).map(|()| name.to_string())
}

/// What `--peers` and `--internal` say.
struct Listed {
    /// Where the members listen with which the cluster was made. Without a port: that of one that
    /// was removed.
    made: Vec<SocketAddr>,
    /// The hosts that were added since.
    added: Vec<(HostId, SocketAddr)>,
    /// The number of this process.
    own: HostId,
}

/// The addresses of all members, and which of them is that of this process.
///
/// # Errors
/// An address is missing, or is named twice.
fn listed(arguments: &ArgMatches) -> Result<Listed, String> {
    let own = *arguments.get_one::<SocketAddr>("internal").expect("--peers requires it");
    let peers = arguments.get_many::<NamedPeer>("peers").into_iter().flatten();
    let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
    let (mut made, mut added): (Vec<SocketAddr>, Vec<(HostId, SocketAddr)>) = Default::default();
    for peer in peers {
        match *peer {
            NamedPeer::Made(_) | NamedPeer::Removed if !added.is_empty() => {
                return Err(
                    "--peers names a host without a number after one that was added: first those \
                     with which the cluster was made, in their order"
                        .to_string(),
                );
            }
            NamedPeer::Made(address) => made.push(address),
            NamedPeer::Removed => made.push(nobody),
            NamedPeer::Added(host, address) => added.push((host, address)),
        }
    }
    let numbered = (0..).map(HostId).zip(made.iter().copied()).chain(added.iter().copied());
    let numbered: Vec<(HostId, SocketAddr)> = numbered.collect();
    for (number, (host, address)) in numbered.iter().enumerate() {
        let before = &numbered[..number];
        if *address != nobody && before.iter().any(|(_, at)| at == address) {
            return Err(format!("--peers names {address} twice"));
        }
        if before.iter().any(|(other, _)| other == host) {
            return Err(format!("--peers names host {host} twice"));
        }
    }
    let own = numbered.iter().find(|(_, address)| *address == own).ok_or_else(|| {
        format!("--internal is {own}, which is none of --peers: add it there, at each host")
    })?;
    Ok(Listed { own: own.0, made, added })
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
    if !arguments.contains_id("peers") {
        return Ok(None);
    }
    let Listed { made: addresses, added, own } = listed(arguments)?;
    let asked = arguments.get_one::<u32>("witnesses").copied();
    let witnesses = asked.or(made.map(|made| made.witnesses)).unwrap_or(0);
    let named = (addresses.len() as u32).saturating_sub(witnesses);
    let hosts = arguments.get_one::<u32>("hosts").copied().unwrap_or(named);
    let beside = if witnesses > 0 { " and a witness" } else { "" };
    if hosts != named {
        return Err(format!(
            "--hosts is {hosts}, and --peers names {named}{beside}: name each host once"
        ));
    }
    if own.0 >= hosts && own.0 < hosts + witnesses {
        return Err(format!(
            "--internal is {}, the last one of --peers, which is the witness (--witnesses 1): \
             start it there with `lockstep witness`, and each host at its own address",
            addresses[own.0 as usize]
        ));
    }
    if let Some(SeveralHosts { hosts: made, .. }) = made.filter(|made| made.hosts != hosts) {
        return Err(format!(
            "the directory was made for {made} hosts (init --hosts), and --peers names \
             {hosts}{beside}"
        ));
    }
    let kfactor = arguments.get_one::<u8>("kfactor").copied();
    let kfactor = kfactor.or(made.map(|made| made.kfactor)).unwrap_or(0);
    let terms = ClusterTerms { witnesses, ..ClusterTerms::new(hosts, sites, kfactor, options) };
    terms.check_witnesses()?;
    terms.partition_count()?;
    Ok(Some(ClusterMembership {
        host: own,
        rejoins: arguments.get_flag("rejoin") || own.0 >= hosts,
        addresses,
        added,
        terms,
        placement_group: arguments.get_one::<String>("group").expect("it has a default").clone(),
        reservation: None,
    }))
}

/// What the options of a witness say.
///
/// # Errors
/// What does not fit, and what would.
pub fn read_witness(
    arguments: &ArgMatches,
    options: &Options,
) -> Result<ClusterMembership, String> {
    let Listed { made: addresses, added, own } = listed(arguments)?;
    let hosts = (addresses.len() as u32).saturating_sub(1);
    if own.0 != hosts {
        let at = addresses.get(own.0 as usize).copied();
        let added_at = || added.iter().find(|(host, _)| *host == own).map(|(_, at)| *at);
        return Err(format!(
            "--internal is {}, and the witness is the last one of --peers without a number, {}: \
             start host {own} there with `lockstep start --witnesses 1`, and the witness at its \
             own address",
            at.or_else(added_at).expect("it was found in --peers"),
            addresses.last().map_or("none".to_string(), |at| at.to_string())
        ));
    }
    if hosts < HOSTS_BESIDE_WITNESS_MIN {
        return Err(format!(
            "--peers names {hosts} hosts and the witness, and a witness is for a cluster of \
             {HOSTS_BESIDE_WITNESS_MIN} hosts or more: name each host, and the witness as the \
             last one"
        ));
    }
    Ok(ClusterMembership {
        host: own,
        addresses,
        added,
        terms: ClusterTerms::of_witness(hosts, options),
        rejoins: false,
        placement_group: DEFAULT_PLACEMENT_GROUP.to_string(),
        reservation: None,
    })
}

/// What a host is started as, in words.
pub fn shown(cluster: Option<&ClusterMembership>, shape: String) -> String {
    let Some(cluster) = cluster else { return shape };
    let beside = if cluster.terms.witnesses > 0 { " and a witness" } else { "" };
    let of = match cluster.is_added() {
        true => format!("added to a cluster that was made with {}", cluster.terms.hosts),
        false => format!("of {}", cluster.terms.hosts),
    };
    format!("host {} {of}{beside}, {shape}", cluster.host)
}
