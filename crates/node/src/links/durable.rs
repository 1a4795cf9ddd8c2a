//! What a host keeps of the control plane in its directory, and what follows from it at a start.

use super::membership::RaftStart;
use super::{ClusterMembership, ClusterTerms};
use crate::control::AUTOMATIC_PREFIX;
use crate::log::{Data, Durability};
use lockstep_cluster::{ClusterState, RaftLog, Shape};
use lockstep_durability::directory::{ClusterId, RAFT_FOLDER, SeveralHosts, read_members, rejoin};
use lockstep_host::placement::{ClusterPlacement, Placement};
use lockstep_host::recovery::assembly::DurablePlacement;
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

impl RaftStart {
    /// Opens what an earlier run has left, with the newest state that it knew. Where partitions
    /// have one copy, their placement never changes, and nothing is kept of it.
    ///
    /// # Errors
    /// The disk failed, or the file is damaged or of another cluster: the text for the user.
    pub(crate) fn open(
        data: &Data,
        membership: &ClusterMembership,
    ) -> Result<(RaftStart, Option<ClusterState>), String> {
        let directory = data.cluster.cluster.to_string();
        if membership.terms.kfactor == 0 {
            return Ok((RaftStart { directory, ..RaftStart::default() }, None));
        }
        let make_folder = || {
            data.disk.create_folder(RAFT_FOLDER)?;
            data.disk.sync_folder("")
        };
        make_folder().map_err(|error| error.to_string())?;
        let opened = RaftLog::open(Arc::clone(&data.disk), RAFT_FOLDER);
        let (log, restored) = opened.map_err(|error| error.to_string())?;
        let state = restored.as_ref().map_or(Ok(None), |restored| restored.newest_state());
        let state = state.map_err(|error| error.to_string())?;
        let shape = membership.terms.shape();
        let differs = |made: &Shape| match membership.is_witness() {
            // Sites and K are the hosts' own.
            true => (made.hosts, made.witnesses) != (shape.hosts, shape.witnesses),
            false => *made != shape,
        };
        if state.as_ref().is_some_and(|state| differs(&state.made_shape())) {
            return Err(format!(
                "the cluster of {} was made with other hosts, witnesses, sites or K: start it \
                 with those",
                data.disk.shown("")
            ));
        }
        let record = state.as_ref().and_then(|state| state.hosts.get(&membership.host));
        let joined_in = restored.as_ref().map_or(0, |restored| restored.identity.id.joined_in().0);
        let last_run = record.map_or(0, |record| record.incarnation.0).max(joined_in);
        let given_up = rejoin::read(&*data.disk).map_err(|error| error.to_string())?;
        let last_run = last_run.max(given_up.unwrap_or(0));
        let log = Some(log);
        let start = RaftStart { log, restored, last_run, directory, ..RaftStart::default() };
        Ok((start, state))
    }

    /// The cluster went on without this host, which gives up what its directory has and begins as
    /// another member. What has not come to its end is done again by the next start.
    ///
    /// # Errors
    /// The disk failed: the text for the user.
    pub(crate) fn rejoin(self, data: &Data) -> Result<RaftStart, String> {
        let mut log = self.log.expect("a host that can be lost keeps what the hosts agree on");
        let own = (AUTOMATIC_PREFIX, data.cluster.cluster);
        rejoin::begin(&*data.disk, own, self.last_run).map_err(|error| error.to_string())?;
        log.clear().map_err(|error| error.to_string())?;
        Ok(RaftStart { log: Some(log), restored: None, is_restored: false, joins: true, ..self })
    }
}

/// The directories of the hosts of a cluster: those of the newest state that a host knows, or the
/// ones that it kept when the cluster began; none before that.
///
/// # Errors
/// The disk failed: the text for the user.
pub(crate) fn member_directories(
    data: &Data,
    state: Option<&ClusterState>,
) -> Result<Option<Vec<ClusterId>>, String> {
    let kept = read_members(&*data.disk).map_err(|error| error.to_string())?;
    let Some(state) = state else { return Ok(kept) };
    let kept = |host: usize| kept.as_ref().and_then(|kept| kept.get(host)).copied();
    let named = named_directories(state).into_iter().enumerate();
    let known = named.map(|(host, named)| named.or_else(|| kept(host)).unwrap_or_default());
    Ok(Some(known.collect()))
}

/// Where the hosts with data listen for each other: those that the options of the start name, and
/// those that were added to the cluster since it was made. One that was removed is none of them.
pub(crate) fn data_addresses(
    membership: &ClusterMembership,
    state: Option<&ClusterState>,
) -> BTreeMap<HostId, SocketAddr> {
    let shape = membership.terms.shape();
    let made = (0..).map(HostId).zip(membership.addresses.iter().copied());
    let named = made.chain(membership.added.iter().copied());
    let mut addresses: BTreeMap<HostId, SocketAddr> =
        named.filter(|(host, address)| !shape.is_witness(*host) && address.port() != 0).collect();
    let Some(state) = state else { return addresses };
    let was_removed = |host: &HostId| host.0 < state.numbers && !state.hosts.contains_key(host);
    addresses.retain(|host, _| !was_removed(host));
    for host in state.data_hosts() {
        if let Ok(address) = state.hosts[&host].description.internal_address.parse() {
            addresses.entry(host).or_insert(address);
        }
    }
    addresses
}

/// By number of a host, its directory by a state; none where it has none, was listed by an earlier
/// release, or is listed no more.
pub(super) fn named_directories(state: &ClusterState) -> Vec<Option<ClusterId>> {
    let of = |host| ClusterId::parse(&state.hosts.get(&host)?.description.directory);
    (0..state.numbers).map(HostId).map(of).collect()
}

/// Whether a host can be started with a directory as one of a cluster.
///
/// # Errors
/// What does not fit: the text for the user.
pub(super) fn check_directory(data: Option<&Data>, terms: &ClusterTerms) -> Result<(), String> {
    let Some(data) = data else { return Ok(()) };
    let shown = data.disk.shown("");
    let Some(SeveralHosts { hosts, sites, kfactor, witnesses }) = data.cluster.several else {
        return Err(format!(
            "{shown} is of a host that is alone, and --peers makes it one of {}: make a directory \
             with `lockstep init --hosts {}`",
            terms.hosts, terms.hosts
        ));
    };
    let differ = [
        ("it is started with", terms.witnesses.into(), "witnesses", witnesses.into()),
        ("--peers names", u64::from(terms.hosts), "hosts", u64::from(hosts)),
        ("it is started with", terms.sites.into(), "sites", sites.into()),
        ("it is started with", terms.kfactor.into(), "as K", kfactor.into()),
    ];
    if let Some((asked, found, what, made)) = differ.iter().find(|(_, a, _, b)| a != b) {
        return Err(format!("{shown} was made for {made} {what}, and {asked} {found}"));
    }
    if hosts < 2 {
        return Err(format!("{shown} is of a cluster of one host: start it without --peers"));
    }
    match data.durability {
        Durability::Sync | Durability::Async => Ok(()),
        Durability::None => Err("a host of a cluster with a directory has a command log: start \
                                 it with --durability sync or async, or without --dir to keep \
                                 its data in memory only"
            .to_string()),
    }
}

/// The newest placement that a host knows when it starts: that of the state that it kept, or the
/// first one.
pub(crate) fn durable_placement(
    state: Option<&ClusterState>,
    first: &Placement,
) -> DurablePlacement {
    let Some(state) = state else {
        let partitions = (0..first.partition_count()).map(PartitionId);
        let hosts = |partition| {
            let followers = first.followers_of(partition).iter().copied();
            let mut hosts: Vec<HostId> =
                followers.chain([first.leader_of(partition)]).map(ThreadId::host).collect();
            hosts.sort_unstable();
            hosts
        };
        let in_sync = partitions.map(hosts).collect();
        return DurablePlacement { epoch: 0, up: first.hosts().collect(), in_sync };
    };
    placement_of_state(state)
}

/// Who has which copies in sync by a state.
pub(super) fn placement_of_state(state: &ClusterState) -> DurablePlacement {
    // Whether it is up, a host without copies has nothing that counts.
    let takes_part = |host: &HostId| state.partitions_of(*host).next().is_some();
    let hosts = state.hosts.keys().copied();
    let of = |partition: &lockstep_cluster::PartitionState| {
        partition.copies.iter().map(|copy| copy.host).collect()
    };
    DurablePlacement {
        epoch: state.epoch.0,
        up: hosts.filter(takes_part).collect(),
        in_sync: state.partitions.iter().map(of).collect(),
    }
}

/// The placement of a state as a host sees it.
pub(crate) fn placement_here(host: HostId, state: &ClusterState) -> Placement {
    Placement::of_cluster(host, &ClusterPlacement::of_state(state))
}
