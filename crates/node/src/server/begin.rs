//! What a host begins with: its data as they were, its command log, and its cluster.

use super::checks::check_partition_count;
use super::{ServerConfiguration, Wiring, end_host_after};
use crate::assembly::{Gathering, KnownCluster, Start};
use crate::links::{
    ClusterMembership, DEFAULT_PLACEMENT_GROUP, Formed, LinksParts, RaftStart, SharedLinks,
    SiteLogs, data_addresses, durable_placement, member_directories, placement_here,
};
use crate::log::{Durability, LogBells, LogEvents, LogStart, LogThread, SiteLog};
use crate::mailbox::Bell;
use crate::recovery::{Agree, Recovered, RecoveryProgress, ReplaySettings, directory_log, recover};
use crate::scheduling;
use crate::shard::{HeldCall, HostFacts, HostSite, KeptAnswer};
use lockstep_durability::directory::rejoin;
use lockstep_durability::recovery::{CopyEnd, Others, RecoveryLog};
use lockstep_host::placement::Placement;
use lockstep_types::{PartitionId, ReplicaId, ThreadId};
use mio::Registry;
use mio::net::TcpListener;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// The replicas that were brought back, each with its end of the command log.
pub(super) struct Replicas {
    sites: BTreeMap<PartitionId, HostSite>,
    logs: SiteLogs,
}

impl Replicas {
    pub(super) fn new(sites: Vec<HostSite>, logs: SiteLogs) -> Replicas {
        let sites = sites.into_iter().map(|site| (site.partition(), site)).collect();
        Replicas { sites, logs }
    }

    /// Whether all replicas of this host were brought back that count.
    ///
    /// # Errors
    /// The hosts have agreed on another placement than they knew when they began to start.
    pub(super) fn check(&self, placement: &Placement) -> io::Result<()> {
        let replicas = placement.sites().flat_map(|site| {
            placement.led_by(site).iter().chain(placement.followed_by(site)).copied()
        });
        let mut missing = replicas.filter(|it| !self.sites.contains_key(&it.partition));
        match missing.next() {
            None => Ok(()),
            Some(replica) => Err(io::Error::other(format!(
                "the copy of partition {} of this host counts again, and was not brought back: \
                 stop all hosts, and start all of them again",
                replica.partition
            ))),
        }
    }

    /// The replicas that a site owns and that count.
    pub(super) fn take(
        &mut self,
        placement: &Placement,
        site: ThreadId,
    ) -> Vec<(HostSite, Option<SiteLog>)> {
        let take = |ReplicaId { partition, .. }: &ReplicaId| {
            let site = self.sites.remove(partition).expect("a replica has one owner");
            (site, self.logs.remove(partition))
        };
        let (led, followed) = (placement.led_by(site), placement.followed_by(site));
        led.iter().chain(followed).map(take).collect()
    }
}

/// Starts the thread of the command log, if what is done is logged. Gives the ends of the log of
/// the partitions that have copies here, or may get one.
pub(super) fn start_log(
    configuration: &ServerConfiguration,
    (start, raft): (LogStart, &DurableRaft),
    facts: &Arc<HostFacts>,
    (bells, links_bell): (&[Arc<Bell>], Option<&Arc<Bell>>),
) -> io::Result<(Option<LogThread>, SiteLogs)> {
    let Some(data) = &configuration.data else { return Ok((None, SiteLogs::new())) };
    if data.durability == Durability::None {
        return Ok((None, SiteLogs::new()));
    }
    let facts_of_log = Arc::clone(facts);
    let on_failure = move || {
        if let Some(stop) = facts_of_log.on_shutdown.get() {
            stop();
        }
    };
    let facts_of_log = Arc::clone(facts);
    let on_full = move |is_full| {
        facts_of_log.intake.set_log_waits(is_full);
    };
    // The log keeps what it knows by partition, of which some have copies here.
    let placement = raft.placement.clone().unwrap_or_else(|| facts.placement());
    let site_of = |partition: PartitionId| {
        let threads = placement.followers_of(partition).iter().copied();
        let mut threads = threads.chain([placement.leader_of(partition)]);
        threads.find(|thread| thread.host() == facts.host)
    };
    let partitions = (0..placement.partition_count()).map(PartitionId);
    let has_copies = facts.kfactor > 0;
    // The hosts of a new cluster with placement groups are placed once all groups are known.
    let is_unplaced = raft.placement.is_none() && has_placement_group(configuration);
    let links = links_bell.filter(|_| has_copies).cloned();
    let bells = LogBells { sites: bells.to_vec(), links };
    let events = LogEvents { on_failure: Box::new(on_failure), on_full: Box::new(on_full) };
    let options = &configuration.options;
    let (log, ends) = LogThread::start(data, options, start, bells, events)?;
    let mut own = SiteLogs::new();
    for (partition, end) in partitions.zip(ends) {
        let site = site_of(partition);
        if let Some(site) = site {
            end.place(site);
        }
        // Where partitions have copies, any may be loaded here while the host runs.
        if has_copies || is_unplaced || site.is_some() {
            own.insert(partition, end);
        }
    }
    Ok((Some(log), own))
}

/// Whether the hosts of the cluster name placement groups.
fn has_placement_group(configuration: &ServerConfiguration) -> bool {
    let membership = configuration.cluster.as_ref();
    membership.is_some_and(|it| it.placement_group != DEFAULT_PLACEMENT_GROUP)
}

/// What a directory has of the control plane.
pub(super) struct DurableRaft {
    pub(super) start: RaftStart,
    /// The newest placement that is known there.
    pub(super) placement: Option<Arc<Placement>>,
}

/// What a host begins with: where it listens for the others, the control plane and the data.
pub(super) type BroughtBack = (Option<TcpListener>, DurableRaft, Recovered<HeldCall, KeptAnswer>);

/// Brings back what the directory holds; a host of several does so together with the others.
pub(super) fn bring_back_with_others(
    configuration: &ServerConfiguration,
    facts: &HostFacts,
    internal: Option<TcpListener>,
) -> Result<BroughtBack, String> {
    let none = DurableRaft { start: RaftStart::default(), placement: None };
    let (Some(cluster), Some(data)) = (&configuration.cluster, &configuration.data) else {
        return Ok((internal, none, bring_back(configuration, facts, None)?));
    };
    let listener = internal.expect("a host of a cluster listens for the others");
    check_partition_count(configuration, data)?;
    let (mut start, state) = RaftStart::open(data, cluster)?;
    if rejoin::read(&*data.disk).map_err(|error| error.to_string())?.is_some() {
        tracing::warn!("the host was about to load its copies again: it begins with that again");
        return join(configuration, facts, (listener, start));
    }
    let known = KnownCluster {
        placement: durable_placement(state.as_ref(), &facts.placement()),
        members: member_directories(data, state.as_ref())?,
        addresses: data_addresses(cluster, state.as_ref()),
    };
    let options = (data, &configuration.options);
    let (mut gathering, others) = match Gathering::begin(cluster, options, known, listener)? {
        Start::Together(gathering, others) => (*gathering, others),
        Start::Joins(listener) => return join(configuration, facts, (listener, start)),
    };
    start.is_restored = gathering.plan().is_placed;
    start.brought_back = gathering.plan().own.clone();
    let recovered = bring_back(configuration, facts, Some((&mut gathering, &others)));
    let recovered = recovered.inspect_err(|problem| gathering.give_up(problem))?;
    let placement = state.map(|state| Arc::new(placement_here(cluster.host, &state)));
    let listener = gathering.finish()?;
    Ok((Some(listener), DurableRaft { start, placement }, recovered))
}

/// The cluster went on without this host, which begins empty and loads its copies.
fn join(
    configuration: &ServerConfiguration,
    facts: &HostFacts,
    (listener, start): (TcpListener, RaftStart),
) -> Result<BroughtBack, String> {
    let data = configuration.data.as_ref().expect("only a host with a directory gives up data");
    let start = start.rejoin(data)?;
    let progress = RecoveryProgress::default();
    let settings = replay_settings(configuration, facts, &progress);
    let recovered = Recovered::nothing(&settings).map_err(|error| error.to_string())?;
    Ok((Some(listener), DurableRaft { start, placement: None }, recovered))
}

fn replay_settings<'a>(
    configuration: &'a ServerConfiguration,
    facts: &'a HostFacts,
    progress: &'a RecoveryProgress,
) -> ReplaySettings<'a> {
    ReplaySettings {
        natives: &configuration.natives,
        options: &configuration.options,
        java: facts.java_settings(),
        ring: &facts.ring,
        progress: &progress.replayed,
        own: None,
    }
}

/// Brings back what the directory holds; without one, a host begins empty.
fn bring_back(
    configuration: &ServerConfiguration,
    facts: &HostFacts,
    hosts: Option<(&mut Gathering, &Others)>,
) -> Result<Recovered<HeldCall, KeptAnswer>, String> {
    let nobody_looks = RecoveryProgress::default();
    let progress = configuration.data.as_ref().map_or(&nobody_looks, |data| &data.progress);
    let mut settings = replay_settings(configuration, facts, progress);
    let Some(data) = &configuration.data else {
        return Recovered::nothing(&settings).map_err(|error| error.to_string());
    };
    let Some((gathering, others)) = hosts else {
        check_partition_count(configuration, data)?;
        return recover(&directory_log(data), &settings, progress, None);
    };
    // Where copies of a new cluster with placement groups are is known once it is formed.
    let is_unplaced = gathering.plan().is_new && has_placement_group(configuration);
    settings.own = (!is_unplaced).then_some(&others.own);
    let log = RecoveryLog { others: Some(others), ..directory_log(data) };
    let agree: &mut Agree<'_> = &mut |found| gathering.agree(found);
    let recovered = recover(&log, &settings, progress, Some(agree))?;
    let mut ends = (0..).zip(&gathering.plan().ends).zip(&others.own);
    let differs = |((number, end), is_own): &((usize, &CopyEnd), &bool)| {
        **is_own && recovered.sequences[*number] != end.end
    };
    match ends.find(differs) {
        None => Ok(recovered),
        Some(((number, end), _)) => Err(format!(
            "the log of partition {number} ends with entry {} here, and with entry {} at the \
             other hosts: no file was changed since",
            recovered.sequences[number], end.end
        )),
    }
}

/// What the thread of the links is started with.
pub(super) struct JoinStart {
    pub(super) cluster: (ClusterMembership, TcpListener),
    pub(super) wiring: Option<Wiring>,
    /// The polls of the sites.
    pub(super) sites: Vec<Registry>,
    pub(super) raft: RaftStart,
    pub(super) logs: SiteLogs,
}

/// The thread of the links, and what it has in common with the sites.
pub(super) type RunningLinks = (JoinHandle<io::Result<()>>, Arc<SharedLinks>);

/// Starts the thread of the links, and waits until all hosts are connected and agree.
pub(super) fn join_cluster(
    start: JoinStart,
    facts: &Arc<HostFacts>,
) -> io::Result<(RunningLinks, Formed)> {
    let JoinStart { cluster: (membership, listener), wiring, sites, raft, logs } = start;
    let Wiring { poll, bell, outbox, inbox } = wiring.expect("one for the links");
    let facts = Arc::clone(facts);
    let of_links = Arc::clone(&facts);
    let parts = LinksParts {
        poll,
        bell,
        outbox,
        inbox,
        sites,
        facts: of_links,
        membership,
        listener,
        raft,
        logs,
    };
    let (formed, forms) = sync_channel(1);
    let (links, poll) = SharedLinks::new(parts, formed)?;
    let shared = Arc::clone(&links);
    let builder = std::thread::Builder::new().name("links".to_string());
    let thread = builder.spawn(move || {
        if facts.kfactor > 0 {
            // Other hosts count on its heartbeats, and leaders wait for its receipts.
            scheduling::run_as_short_work();
        }
        end_host_after("links", &facts, || links.run(poll))
    });
    let thread = thread?;
    let said = match forms.recv() {
        Ok(Ok(formed)) => return Ok(((thread, shared), formed)),
        Ok(Err(problem)) => Some(problem),
        // It ended without a word.
        Err(_) => None,
    };
    // Its port is free once this returns: the same start may be tried again at once.
    let ended = thread.join();
    Err(io::Error::other(said.unwrap_or_else(|| match ended {
        Ok(Err(error)) => format!("the thread of the links ended before the start: {error}"),
        _ => "the thread of the links panicked: its text is in the host's log".to_string(),
    })))
}
