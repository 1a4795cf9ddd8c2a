//! The settings of a host: `@SystemInformation DEPLOYMENT` lists them by the names that tools for
//! VoltDB use, and all options by their own names; `@UpdateApplicationCatalog` with a deployment
//! file, as `voltadmin update` sends it, compares the file with them.
//!
//! The settings are options of the host's start. So a file that states what is set is accepted; one
//! that would change something is refused with the setting and both values.

mod file;

use super::operations::is_null;
use super::snapshot::AUTOMATIC_PREFIX;
use super::system::text_parameter;
use crate::log::Durability;
use crate::options::OptionValue;
use crate::shard::HostFacts;
use file::{differences, elements};
use lockstep_durability::command_log::FOLDER as LOG_FOLDER;
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_types::{Failure, Status};
use lockstep_wire_volt::Invocation;

/// A setting and its value.
pub(super) type Property = (String, String);

/// The settings of a host; `has_log`: it has a command log.
pub(super) fn settings(facts: &HostFacts, has_log: bool) -> Vec<Property> {
    let options = &facts.options;
    let shown = |name: &str| match &facts.data_disk {
        Some(disk) => disk.shown(name),
        None => String::new(),
    };
    let copies = facts.partition_count * (u32::from(facts.kfactor) + 1);
    let copies = copies / facts.placement().host_count();
    let mut rows = vec![
        ("voltdbroot", shown("")),
        ("hostcount", facts.placement().host_count().to_string()),
        ("kfactor", facts.k_in_force().to_string()),
        ("sitesperhost", copies.to_string()),
        ("httpport", "0".to_string()),
        ("httpenabled", "false".to_string()),
        ("jsonenabled", "false".to_string()),
        ("snapshotpath", shown(SNAPSHOT_FOLDER)),
    ];
    rows.extend(snapshot_schedule(facts, has_log));
    rows.extend([
        ("export", "false".to_string()),
        ("largequeryswappath", String::new()),
        ("partitiondetection", "false".to_string()),
        ("heartbeattimeout", "0".to_string()),
        ("adminport", facts.admin_address.port().to_string()),
    ]);
    let mode = match facts.durability {
        Durability::None => None,
        Durability::Async => Some("async"),
        Durability::Sync => Some("sync"),
    };
    if let Some(mode) = mode {
        rows.extend([
            ("commandlogmode", mode.to_string()),
            ("commandlogfreqtime", options.log_interval_ms.get().to_string()),
            // A group commit takes what there is: no number of transactions begins one.
            ("commandlogfreqtxns", i32::MAX.to_string()),
            ("commandlogpath", shown(LOG_FOLDER)),
            ("commandlogsnapshotpath", shown(SNAPSHOT_FOLDER)),
        ]);
    }
    rows.extend([
        ("commandlogenabled", mode.is_some().to_string()),
        ("users", String::new()),
        ("elasticduration", "0".to_string()),
        ("elasticthroughput", "0".to_string()),
        ("snapshotpriority", "0".to_string()),
        ("temptablesmaxsize", (options.max_temporary_bytes.get() >> 20).to_string()),
        ("querytimeout", options.query_timeout_ms.number().to_string()),
        ("drrole", "none".to_string()),
        ("prioritiesenabled", "false".to_string()),
    ]);
    let rows = rows.into_iter().map(|(name, value)| (name.to_string(), value));
    let options = crate::options::TABLE.iter().map(|option| {
        let value = options.get(option.name).unwrap_or(option.default);
        (option.name.to_string(), value.to_string())
    });
    rows.chain(options).collect()
}

/// The snapshots that a host takes by itself.
fn snapshot_schedule(facts: &HostFacts, has_log: bool) -> Vec<(&'static str, String)> {
    let options = &facts.options;
    let by_log = has_log && options.snapshot_log_bytes.is_some();
    let by_clock = options.snapshot_interval_s;
    let is_enabled = facts.keeps_snapshots(has_log) && (by_log || by_clock.is_some());
    let mut rows = Vec::new();
    if is_enabled {
        rows.push(("snapshotprefix", AUTOMATIC_PREFIX.to_string()));
        if let Some(interval) = by_clock {
            rows.push(("snapshotfrequency", format!("{}s", interval.get())));
        }
        rows.push(("snapshotretain", options.snapshots_kept.get().to_string()));
    }
    rows.push(("snapshotenabled", is_enabled.to_string()));
    rows
}

/// Checks a call of `@UpdateApplicationCatalog` against the settings of the host.
///
/// # Errors
/// What the caller gets: there is a catalog in it, no readable deployment file, or one that would
/// change something.
pub(super) fn check_update(
    invocation: &Invocation<'_>,
    settings: &[Property],
) -> Result<(), Failure> {
    if !is_null(invocation, 0) {
        return Err(Failure::graceful(
            "Cluster is configured to use AdHoc DDL to change application schema. Use of \
             @UpdateApplicationCatalog is forbidden.",
        ));
    }
    if is_null(invocation, 1) {
        return Err(Failure::graceful(
            "@UpdateApplicationCatalog needs a deployment file: neither a catalog nor a \
             deployment file is given",
        ));
    }
    let given = text_parameter(invocation, 1).ok_or_else(|| {
        Failure::graceful("@UpdateApplicationCatalog takes a deployment file as text")
    })?;
    let elements = elements(given).map_err(|problem| {
        Failure::graceful(format!("The deployment file is not XML: {problem}"))
    })?;
    let problems = differences(&elements, settings);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Status::UnsupportedDynamicChange,
        format!(
            "The settings of this host are options of its start and do not change while it runs: \
             {}",
            problems.join("; ")
        ),
    ))
}
