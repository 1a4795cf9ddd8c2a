//! What a host takes snapshots by itself by: when, of what, and how much of the host for that.

use super::request::{ChosenTables, SnapshotRequest};
use crate::clock;
use crate::options::{Bytes, Seconds};
use crate::shard::HostFacts;
use crate::snapshot::lane::LaneLimits;
use lockstep_durability::snapshot::ContentKind;
use lockstep_host::snapshots::SnapshotSettings;

/// What a snapshot may take under load. One that would not be done in half of the time until
/// the next may take more.
pub(super) fn lane_limits(facts: &HostFacts, expected_bytes: u64) -> LaneLimits {
    let options = &facts.options;
    let in_time = options.snapshot_interval_s.map(|interval| expected_bytes * 2 / interval.get());
    let sites = u64::from(facts.partition_count);
    let bytes_per_s = match options.snapshot_bytes_per_s {
        None => 0,
        Some(rate) => rate.get().max(in_time.unwrap_or(0)).div_ceil(sites),
    };
    LaneLimits { share_percent: options.snapshot_share_percent.get(), bytes_per_s }
}

/// What makes snapshots of a host due, which has a command log or not.
pub(in crate::control) fn settings(facts: &HostFacts, has_log: bool) -> SnapshotSettings {
    SnapshotSettings {
        interval_us: facts.options.snapshot_interval_s.map(Seconds::us),
        log_bytes: facts.options.snapshot_log_bytes.map(Bytes::get),
        has_directory: facts.keeps_snapshots(has_log),
        has_log,
    }
}

/// A snapshot of everything in the host's directory, named by the time.
pub(super) fn automatic(prefix: &str) -> SnapshotRequest {
    let now_ms = clock::now_us() / 1000;
    SnapshotRequest {
        path: None,
        nonce: format!("{prefix}{now_ms}"),
        content: ContentKind::Native,
        blocking: true,
        tables: ChosenTables::default(),
    }
}
