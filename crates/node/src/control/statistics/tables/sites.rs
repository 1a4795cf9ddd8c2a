//! Statistics of sites, and of tables and indexes at each replica.

use super::{Row, View, number, small, text};
use crate::statistics::ThreadSnapshot;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::Value;

const KIB: u64 = 1024;

pub(super) fn table(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for snapshot in view.replicas() {
        for table in &snapshot.tables {
            let limit = table.row_limit;
            let full = limit.map_or(0, |limit| table.rows * 100 / u64::from(limit.max(1)));
            rows.push(vec![
                snapshot.site(),
                snapshot.partition(),
                text(&table.name),
                text("PersistentTable"),
                number(table.rows),
                number((table.memory.block_bytes as u64).div_ceil(KIB)),
                number((table.memory.data_bytes as u64).div_ceil(KIB)),
                number((table.memory.string_allocated_bytes as u64).div_ceil(KIB)),
                limit.map_or(Value::Int(i32::MAX.into()), |limit| number(limit.into())),
                number(full),
                text("false"),
                text(""),
            ]);
        }
    }
    rows
}

/// How long each thread slept, in nanoseconds, and its share of the time.
pub(super) fn idle_time(view: &View) -> Vec<Row> {
    let elapsed_ns = Elapsed::between_ms(view.since_ms, view.now_ms).ms().max(1) as f64 * 1e6;
    let row = |snapshot: &ThreadSnapshot| {
        let idle = &snapshot.idle;
        let mean = idle.slept_ns.sum as f64 / idle.count.max(1) as f64;
        let variance = idle.squares_ns / idle.count.max(1) as f64 - mean * mean;
        vec![
            snapshot.site(),
            number(idle.count),
            Value::Float((idle.slept_ns.sum as f64 * 100.0 / elapsed_ns).min(100.0)),
            number(idle.slept_ns.mean(idle.count)),
            number(idle.slept_ns.smallest()),
            number(idle.slept_ns.max),
            number(variance.max(0.0).sqrt() as u64),
        ]
    };
    view.snapshots.iter().map(row).collect()
}

/// Calls that wait at each site, and how long those that ran had waited, in microseconds.
pub(super) fn queue(view: &View) -> Vec<Row> {
    let row = |snapshot: &ThreadSnapshot| {
        let queue = &snapshot.queue;
        vec![
            snapshot.site(),
            small(snapshot.replicas.iter().map(|replica| replica.waiting).sum()),
            number(queue.polled),
            number(queue.waited_us.mean(queue.polled)),
            number(queue.waited_us.max),
        ]
    };
    view.snapshots.iter().map(row).collect()
}

pub(super) fn index(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    for snapshot in view.replicas() {
        for table in &snapshot.tables {
            for index in &table.indexes {
                rows.push(vec![
                    snapshot.site(),
                    snapshot.partition(),
                    text(&index.name),
                    text(&table.name),
                    text(if index.unique { "OrderedUniqueIndex" } else { "OrderedIndex" }),
                    Value::Int(index.unique.into()),
                    Value::Int(1),
                    number(index.entries),
                    number((index.allocated_bytes as u64).div_ceil(KIB)),
                ]);
            }
        }
    }
    rows
}
