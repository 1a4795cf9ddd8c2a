//! `@SystemInformation OVERVIEW`: properties of the host, by VoltDB's names.

use super::resources::physical_memory_kb;
use crate::clock;
use crate::shard::HostFacts;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::{Datum, SqlType, TableBuilder, TableSchema, timestamp};
use lockstep_wire_volt::COMPATIBLE_VERSION;
use std::sync::atomic::Ordering;

/// The properties of a host whose catalog has this version.
fn properties(facts: &HostFacts, catalog_version: u64) -> Vec<(&'static str, String)> {
    let created_ms = facts.cluster_created_ms.load(Ordering::Relaxed);
    let started_ms = facts.started_ms;
    let uptime = Elapsed::between_ms(started_ms, clock::now_us() / 1000);
    let none = String::new;
    // Clients go to the other hosts by this: no address that stands for all of a machine helps.
    let internal = facts.internal_address;
    let reached = facts.reachable(facts.client_address);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let started = timestamp::format(started_ms * 1000);
    vec![
        ("IPADDRESS", reached.ip().to_string()),
        ("HOSTNAME", facts.host_name.clone()),
        ("CLIENTINTERFACE", reached.ip().to_string()),
        ("CLIENTPORT", facts.client_address.port().to_string()),
        ("ADMININTERFACE", facts.admin_address.ip().to_string()),
        ("ADMINPORT", facts.admin_address.port().to_string()),
        ("HTTPINTERFACE", none()),
        ("HTTPPORT", "0".to_string()),
        ("INTERNALINTERFACE", internal.map_or_else(none, |at| at.ip().to_string())),
        ("INTERNALPORT", internal.map_or(0, |at| at.port()).to_string()),
        ("ZKINTERFACE", none()),
        ("ZKPORT", "0".to_string()),
        ("DRINTERFACE", none()),
        ("DRPORT", "0".to_string()),
        ("PUBLICINTERFACE", none()),
        ("DRPUBLICINTERFACE", none()),
        ("DRPUBLICPORT", "0".to_string()),
        ("BUILDSTRING", facts.build.clone()),
        ("VERSION", COMPATIBLE_VERSION.to_string()),
        ("CATALOG", format!("version {catalog_version}")),
        ("DEPLOYMENT", none()),
        ("CLUSTERSTATE", cluster_state(facts).to_string()),
        ("CLUSTERSAFETY", "FULL".to_string()),
        ("INITIALIZED", "true".to_string()),
        ("REPLICATIONROLE", "NONE".to_string()),
        ("CATALOGCRC", catalog_version.to_string()),
        ("IV2ENABLED", "true".to_string()),
        ("STARTTIME", started_ms.to_string()),
        ("CREATIONTIME", created_ms.to_string()),
        ("HOSTSTARTTIME", started_ms.to_string()),
        ("UPTIME", uptime_text(uptime)),
        ("LAST_UPDATECORE_DURATION", "0".to_string()),
        ("LOG4JPORT", "0".to_string()),
        ("PLACEMENTGROUP", facts.placement_group.clone()),
        ("PARTITIONGROUP", "0".to_string()),
        ("VOLTDBROOT", facts.data_disk.as_ref().map_or_else(none, |disk| disk.shown(""))),
        ("FULLCLUSTERSIZE", facts.placement().host_count().to_string()),
        ("CLUSTERID", "0".to_string()),
        ("TOPICSPUBLICINTERFACE", none()),
        ("TOPICSPUBLICPORT", "0".to_string()),
        ("TOPICSPORT", "0".to_string()),
        ("CPUCORES", cores.clone()),
        ("CPUTHREADS", cores),
        ("MEMORY", physical_memory_kb().to_string()),
        ("KUBERNETES", "false".to_string()),
        ("STARTED", started),
        ("LOCKSTEPEPOCH", facts.placement().epoch().to_string()),
        ("LOCKSTEPVERSION", env!("CARGO_PKG_VERSION").to_string()),
    ]
}

/// Whether clients may write.
fn cluster_state(facts: &HostFacts) -> &'static str {
    if facts.intake.is_paused() { "PAUSED" } else { "RUNNING" }
}

fn uptime_text(uptime: Elapsed) -> String {
    let seconds = uptime.ms() / 1000;
    format!(
        "{} days {:02}:{:02}:{:02}.{:03}",
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        uptime.ms() % 1000
    )
}

/// Appends the table; returns the number of tables.
pub(super) fn write(out: &mut Vec<u8>, facts: &HostFacts, catalog_version: u64) -> u16 {
    let schema = TableSchema::new(&[
        ("HOST_ID", SqlType::Integer),
        ("KEY", SqlType::Varchar),
        ("VALUE", SqlType::Varchar),
    ]);
    let mut table = TableBuilder::begin(out, &schema);
    for (key, value) in properties(facts, catalog_version) {
        table.row(&schema, &[facts.host_id(), Datum::Text(key), Datum::Text(&value)]);
    }
    table.finish();
    1
}
