//! What all threads of a host know, made when it starts.

use super::ServerConfiguration;
use crate::callers::Callers;
use crate::clock;
use crate::intake::Intake;
use crate::links::{ClusterMembership, DEFAULT_PLACEMENT_GROUP, first_placement};
use crate::log::Durability;
use crate::shard::{CurrentPlacement, HostFacts, LearnedStages, LeaseTable, SiteRuns};
use lockstep_host::placement::{ClusterShape, Placement};
use lockstep_host::unavailable::Unavailable;
use lockstep_types::{HashRing, HostId};
use lockstep_wire_volt::COMPATIBLE_VERSION;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

pub(super) fn host_facts(
    configuration: &ServerConfiguration,
    client_address: SocketAddr,
    admin_address: SocketAddr,
) -> io::Result<HostFacts> {
    let placement = placement(configuration).map_err(io::Error::other)?;
    let (partition_count, host) = (placement.partition_count(), placement.host());
    let kfactor = configuration.cluster.as_ref().map_or(0, |cluster| cluster.terms.kfactor);
    Ok(HostFacts {
        drain: crate::shard::Drain::default(),
        departure: crate::shard::Departure::default(),
        options: configuration.options.clone(),
        java_options: configuration.java_options.clone(),
        ring: HashRing::new(partition_count),
        partition_count,
        host,
        placement: CurrentPlacement::new(placement),
        leases: match kfactor {
            0 => LeaseTable::always(partition_count),
            _ => LeaseTable::granted(partition_count),
        },
        unavailable: Unavailable::new(partition_count),
        kfactor,
        site_runs: SiteRuns::new(configuration.sites),
        cluster_state: Mutex::default(),
        cluster_created_ms: AtomicI64::new(match &configuration.data {
            Some(data) => data.cluster.created_ms,
            None => clock::now_us() / 1000,
        }),
        internal_address: configuration.cluster.as_ref().map(ClusterMembership::own_address),
        build: format!(
            "voltdb-{COMPATIBLE_VERSION} compatible lockstepdb-{}",
            env!("CARGO_PKG_VERSION")
        ),
        host_name: host_name(),
        placement_group: match &configuration.cluster {
            Some(membership) => membership.placement_group.clone(),
            None => DEFAULT_PLACEMENT_GROUP.to_string(),
        },
        client_address,
        admin_address,
        callers: Arc::new(Callers::of_host(host)),
        open_connections: AtomicU64::new(0),
        accepted_connections: AtomicU64::new(0),
        dropped_connections: AtomicU64::new(0),
        intake: Intake::default(),
        reusable_bytes: (0..configuration.sites).map(|_| AtomicU64::new(0)).collect(),
        copy_backlogs: (0..partition_count).map(|_| AtomicU64::new(0)).collect(),
        learned: LearnedStages::new(partition_count),
        on_shutdown: OnceLock::new(),
        on_put_out: OnceLock::new(),
        digests: OnceLock::new(),
        disabled_rules: AtomicU64::new(configuration.options.disabled_rules.bits()),
        multi_spin_ns: multi_spin_ns(configuration),
        cluster: configuration.data.as_ref().map(|data| data.cluster.cluster).unwrap_or_default(),
        run: AtomicU64::new(0),
        started_ms: clock::now_us() / 1000,
        data_disk: configuration.data.as_ref().map(|data| Arc::clone(&data.disk)),
        data_lock: configuration.data.as_ref().and_then(|data| data.lock.clone()),
        durability: configuration.data.as_ref().map_or(Durability::None, |data| data.durability),
        lost: OnceLock::new(),
        sends_bytes: configuration.for_tests.sends_bytes || crate::codec::sends_bytes_always(),
        prepared: Mutex::default(),
        on_log_filter: OnceLock::new(),
    })
}

/// The placement with which the host begins.
fn placement(configuration: &ServerConfiguration) -> Result<Placement, String> {
    if let Some(ClusterMembership { host, terms, .. }) = &configuration.cluster {
        return Ok(Placement::of_cluster(*host, &first_placement(terms)?));
    }
    let (partitions, sites) = (configuration.partition_count()?, configuration.sites);
    let first_at = configuration.for_tests.first_partition_at;
    let shape = ClusterShape { hosts: 1, sites, partitions, first_at };
    Ok(Placement::spread(HostId(0), shape))
}

/// A thread that spins where there are too few cores keeps the one from running that it waits for.
fn multi_spin_ns(configuration: &ServerConfiguration) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    match configuration.sites as usize <= cores && configuration.sites > 1 {
        true => configuration.options.multi_spin_us.ns(),
        false => 0,
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_string())
        .unwrap_or_else(|_| "localhost".to_string())
}
