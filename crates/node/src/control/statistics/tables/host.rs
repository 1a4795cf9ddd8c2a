//! Statistics of the whole host.

use super::{Row, View, number, small, text};
use crate::control::resources::{physical_memory_kb, resident_kb};
use crate::statistics::{ConnectionSnapshot, ThreadSnapshot};
use hdrhistogram::Histogram;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::loading::LoadProgress;
use lockstep_types::{PartitionId, ReplicaId, ThreadId, Value};
use std::sync::atomic::Ordering;

const KIB: u64 = 1024;

pub(super) fn memory(view: &View) -> Vec<Row> {
    let (mut data, mut allocated, mut indexes, mut strings, mut rows) = (0, 0, 0, 0, 0);
    for table in view.replicas().flat_map(|replica| &replica.tables) {
        data += table.memory.data_bytes as u64;
        allocated += table.memory.block_bytes as u64;
        strings += table.memory.string_allocated_bytes as u64;
        indexes += table.indexes.iter().map(|index| index.allocated_bytes as u64).sum::<u64>();
        rows += table.rows;
    }
    vec![vec![
        small(resident_kb()),
        Value::Int(0),
        Value::Int(0),
        number(data / KIB),
        number(allocated / KIB),
        number(indexes / KIB),
        number(strings / KIB),
        number(rows),
        number(strings / KIB),
        number(physical_memory_kb()),
        Value::Int(0),
    ]]
}

pub(super) fn io(view: &View) -> Vec<Row> {
    let connections = view.snapshots.iter().flat_map(|snapshot| &snapshot.connections);
    connections
        .map(|connection| {
            let traffic = connection.traffic;
            vec![
                Value::Int(connection.id),
                text(&connection.peer),
                number(traffic.bytes_read),
                number(traffic.messages_read),
                number(traffic.bytes_written),
                number(traffic.messages_written),
            ]
        })
        .collect()
}

/// The share of all cores that this process has used since the host started, in percent.
pub(super) fn cpu(view: &View) -> Vec<Row> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the whole structure when it returns 0, and it is read only then.
    let used_us = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) == 0 {
            let usage = usage.assume_init();
            let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
            seconds * 1_000_000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec
        } else {
            0
        }
    };
    let lifetime_ms = Elapsed::between_ms(view.facts.started_ms, view.now_ms).ms_i64().max(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as i64;
    vec![vec![Value::Int((used_us / 10 / (lifetime_ms * cores)).clamp(0, 100))]]
}

pub(super) fn limits(view: &View) -> Vec<Row> {
    let facts = &view.facts;
    let mut limit = std::mem::MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: getrlimit fills the whole structure when it returns 0, and it is read only then.
    let descriptors = unsafe {
        match libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) {
            0 => limit.assume_init().rlim_cur,
            _ => 0,
        }
    };
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    vec![vec![
        small(descriptors),
        small(open),
        small(facts.options.max_connections.get()),
        small(facts.open_connections.load(Ordering::Relaxed)),
        small(facts.accepted_connections.load(Ordering::Relaxed)),
        small(facts.dropped_connections.load(Ordering::Relaxed)),
    ]]
}

/// The connections, and the calls of each that wait for their answers. The call that asks is not
/// among those: tools wait until none is left before they stop a host.
pub(super) fn live_clients(view: &View) -> Vec<Row> {
    let row = |thread: ThreadId, connection: &ConnectionSnapshot| {
        let asks = view.asking.thread == thread && view.asking.connection == connection.key;
        vec![
            Value::Int(connection.id),
            text(&connection.peer),
            Value::Int(i64::from(connection.admin)),
            Value::Int(0),
            Value::Int(i64::from(connection.unread_bytes > 0)),
            Value::Int(i64::from(connection.unanswered.saturating_sub(u32::from(asks)))),
        ]
    };
    let of_thread = |snapshot: &ThreadSnapshot| -> Vec<Row> {
        snapshot.connections.iter().map(|connection| row(snapshot.thread, connection)).collect()
    };
    view.snapshots.iter().flat_map(of_thread).collect()
}

pub(super) fn latency(view: &View) -> Vec<Row> {
    let mut all: Option<Histogram<u64>> = None;
    for snapshot in &view.snapshots {
        match &mut all {
            None => all = Some(snapshot.latency_us.clone()),
            // The histograms have the same bounds, so adding cannot fail.
            Some(all) => all.add(&snapshot.latency_us).unwrap_or_default(),
        }
    }
    let Some(all) = all else { return Vec::new() };
    let interval_ms = Elapsed::between_ms(view.since_ms, view.now_ms).ms().max(1);
    let at = |quantile: f64| number(all.value_at_quantile(quantile));
    vec![vec![
        small(interval_ms),
        small(all.len()),
        small(all.len() * 1000 / interval_ms),
        at(0.5),
        at(0.95),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(0.99999),
        number(all.max()),
    ]]
}

pub(super) fn partition_count(view: &View) -> Vec<Row> {
    vec![vec![small(view.facts.partition_count.into())]]
}

pub(super) fn planner(view: &View) -> Vec<Row> {
    let plans = &view.host.plans;
    let mut row = vec![Value::Int(0), Value::Int(0), number(plans.kept), Value::Int(0)];
    row.extend([number(plans.hits), Value::Int(0), number(plans.misses)]);
    let time = &plans.planning_ns;
    row.extend([number(time.smallest()), number(time.max), number(time.mean(plans.planned))]);
    row.push(number(plans.failures));
    vec![row]
}

/// How the command log is; zeros where nothing is logged.
pub(super) fn command_log(view: &View) -> Vec<Row> {
    let log = view.host.log.unwrap_or_default();
    let bytes: u64 = view.replicas().map(|replica| replica.outstanding_bytes).sum();
    let entries: u64 = view.replicas().map(|replica| replica.outstanding_entries).sum();
    vec![vec![
        number(bytes),
        number(entries),
        small(log.segments_in_use),
        small(log.segments),
        small(log.sync_interval_us.div_ceil(1000)),
    ]]
}

/// How many of the copies that each partition is to have are missing or still being loaded.
pub(super) fn k_safety(view: &View) -> Vec<Row> {
    let (placement, wanted) = (view.facts.placement(), usize::from(view.facts.k_in_force()));
    let row = |partition: PartitionId| {
        let missing = wanted.saturating_sub(placement.followers_of(partition).len());
        vec![Value::Int(view.now_ms), Value::Int(partition.0.into()), number(missing as u64)]
    };
    (0..placement.partition_count()).map(PartitionId).map(row).collect()
}

/// The role of a copy that does not count yet.
const LOADING: &str = "LOADING";

/// The copies of partitions at this host.
pub(super) fn copies(view: &View) -> Vec<Row> {
    let placement = view.facts.placement();
    let row = |(site, replica, role): (ThreadId, &ReplicaId, &str)| {
        let partition = replica.partition;
        let unapplied_bytes = match role {
            "FOLLOWER" => view.facts.copy_backlogs[partition.index()].load(Ordering::Relaxed),
            _ => 0,
        };
        let LoadProgress { rows, bytes, slots } = match role {
            LOADING => view.facts.learned.progress(partition),
            _ => LoadProgress::default(),
        };
        vec![
            Value::Int(site.index() as i64),
            Value::Int(partition.0.into()),
            text(role),
            Value::Int(placement.epoch_of(partition).into()),
            number(unapplied_bytes),
            number(rows),
            number(bytes),
            number(slots),
        ]
    };
    let of_site = |site: ThreadId| {
        let with = |role: &'static str| move |replica| (site, replica, role);
        let led = placement.led_by(site).iter().map(with("LEADER"));
        let followed = placement.followed_by(site).iter().map(with("FOLLOWER"));
        let loaded = placement.learned_by(site).iter().map(with(LOADING));
        led.chain(followed).chain(loaded).map(row).collect::<Vec<Row>>()
    };
    placement.sites().flat_map(of_site).collect()
}

pub(super) fn dr_role(_: &View) -> Vec<Row> {
    vec![vec![text("NONE"), text("DISABLED"), Value::Int(-1)]]
}
