//! The report: each figure beside what it must and should reach.

use crate::measure::{Sample, Samples, best_of};
use crate::mixed::MixedReplay;
use crate::recovery::{Recovery, SnapshotSpeed};
use crate::under_load::UnderLoad;
use lockstep_bench::report::grouped;
use lockstep_bench::stalls::Undisturbed;
use lockstep_bench::verdict::{Bound, Row, median, report_json, times};
use serde_json::{Value, json};

fn of(samples: &[Sample], value: fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(value))
}

fn per_s(rate: f64) -> String {
    format!("{}/s", grouped(rate as u64))
}

fn microseconds(time_us: f64) -> String {
    format!("{time_us:.0} us")
}

fn bytes(count: f64) -> String {
    format!("{count:.1} B")
}

fn seconds(time_s: f64) -> String {
    format!("{time_s:.1} s")
}

fn milliseconds(time_us: f64) -> String {
    format!("{:.2} ms", time_us / 1e3)
}

fn megabytes_per_s(rate: f64) -> String {
    format!("{:.0} MB/s", rate / 1e6)
}

fn row(what: &str, value: (f64, fn(f64) -> String), bounds: (Bound, Bound), detail: String) -> Row {
    Row::judged(what, value, bounds, detail)
}

fn at_least(must: f64, aim: f64) -> (Bound, Bound) {
    (Bound::AtLeast(must), Bound::AtLeast(aim))
}

fn at_most(must: f64, aim: f64) -> (Bound, Bound) {
    (Bound::AtMost(must), Bound::AtMost(aim))
}

/// The report's lines: of what was measured.
pub fn rows(samples: &Samples) -> Vec<Row> {
    let mut rows = throughput_rows(samples);
    if !samples.sync_single.is_empty() {
        rows.push(latency_row(samples));
    }
    rows.extend(log_rows(samples));
    if !samples.mixed.is_empty() {
        rows.push(mixed_row(&samples.mixed));
    }
    rows.extend(samples.recovery.iter().flat_map(recovery_rows));
    if !samples.under_load.is_empty() {
        rows.extend(under_load_rows(&samples.under_load));
    }
    if !samples.speed.is_empty() {
        rows.extend(speed_rows(&samples.speed));
    }
    rows
}

fn throughput_rows(samples: &Samples) -> Vec<Row> {
    let rate = |samples| of(samples, |sample: &Sample| sample.throughput_per_s);
    let sync = rate(&samples.sync);
    let against = |rate: f64| format!("{} against {}", per_s(sync), per_s(rate));
    let mut rows = Vec::new();
    if !samples.none.is_empty() {
        let none = rate(&samples.none);
        let cpu_us = |samples| of(samples, |sample: &Sample| sample.cpu_us);
        let by_cpu = cpu_us(&samples.none) / cpu_us(&samples.sync).max(1e-9);
        let detail = format!("{}; by processor time {}", against(none), times(by_cpu));
        let what = "voter, synchronous log / no log";
        rows.push(row(what, (sync / none, times), at_least(0.6, 0.85), detail));
    }
    if !samples.redis.is_empty() {
        let redis = median(samples.redis.iter().copied());
        let what = "voter, synchronous log / Redis, appendfsync always";
        rows.push(row(what, (sync / redis, times), at_least(0.9, 1.3), against(redis)));
    }
    if !samples.postgres.is_empty() {
        let best = median(samples.postgres.iter().map(|rates| best_of(rates).1));
        let connections = samples.postgres.iter().map(|rates| best_of(rates).0.to_string());
        let what = "voter, synchronous log / PostgreSQL, synchronous_commit=on";
        let connections = connections.collect::<Vec<_>>().join(", ");
        let detail = format!("{}; its best with {connections} connections", against(best));
        rows.push(row(what, (sync / best, times), at_least(15.0, 40.0), detail));
    }
    rows
}

fn latency_row(samples: &Samples) -> Row {
    let p50_us = |samples| of(samples, |sample: &Sample| sample.p50_us);
    let (single_us, without_us) = (p50_us(&samples.sync_single), p50_us(&samples.none_single));
    let fdatasync_us = median(samples.fdatasync_us.iter().copied());
    row(
        "1 in flight: added latency beyond one fdatasync",
        (single_us - without_us - fdatasync_us, microseconds),
        at_most(100.0, 30.0),
        format!(
            "{} against {}; one fdatasync {}",
            microseconds(single_us),
            microseconds(without_us),
            microseconds(fdatasync_us)
        ),
    )
}

fn log_rows(samples: &Samples) -> Vec<Row> {
    let mut rows = Vec::new();
    if !samples.embedded.is_empty() {
        let replayed = median(samples.logged.iter().map(|logged| logged.replayed_per_s));
        let embedded = median(samples.embedded.iter().copied());
        rows.push(row(
            "replay of voter / embedded, a core",
            (replayed / embedded, times),
            at_least(1.0, 1.5),
            format!("{} against {}", per_s(replayed), per_s(embedded)),
        ));
    }
    if !samples.logged.is_empty() {
        rows.push(row(
            "log bytes of a voter call",
            (median(samples.logged.iter().map(|logged| logged.bytes_per_call)), bytes),
            at_most(80.0, 50.0),
            "headers of blocks included".to_string(),
        ));
    }
    rows
}

fn mixed_row(samples: &[MixedReplay]) -> Row {
    let of = |value: fn(&MixedReplay) -> f64| median(samples.iter().map(value));
    row(
        "replay of Java, one and two partitions: entries, a core",
        (of(|s| s.entries / s.cpu_s), per_s),
        at_least(200_000.0, 300_000.0),
        format!(
            "{} entries in {:.2} s of processor time, from the start of the process until it \
             serves, the start of the JVM and its compiler included; by the clock {}",
            grouped(of(|s| s.entries) as u64),
            of(|s| s.cpu_s),
            per_s(of(|s| s.entries / s.seconds))
        ),
    )
}

fn recovery_rows(recovery: &Recovery) -> Vec<Row> {
    let gigabytes = |bytes: f64| format!("{:.2} GB", bytes / 1e9);
    vec![
        row(
            "recovery: time",
            (recovery.seconds, seconds),
            at_most(60.0, 25.0),
            format!(
                "{} rows, {} of values; from the start of the process until it serves",
                grouped(recovery.rows as u64),
                gigabytes(recovery.row_bytes)
            ),
        ),
        row(
            "recovery: peak memory / the rows' and their indexes'",
            (recovery.peak_bytes / recovery.stated_bytes, times),
            at_most(1.2, 1.1),
            format!(
                "{} resident, {} stated",
                gigabytes(recovery.peak_bytes),
                gigabytes(recovery.stated_bytes)
            ),
        ),
    ]
}

fn under_load_rows(samples: &[UnderLoad]) -> Vec<Row> {
    let of = |value: fn(&UnderLoad) -> f64| median(samples.iter().map(value));
    let (with, without) = (of(|s| s.with_per_s), of(|s| s.without_per_s));
    let share = of(|s| s.share) * 100.0;
    let all = of(|s| s.p99_us);
    let set_aside = of(|s| s.undisturbed.map_or(0.0, |u| u.set_aside)) * 100.0;
    let stalled = match samples.iter().any(|sample| sample.undisturbed.is_none()) {
        true => "no real-time priority to see the machine's stalls by".to_string(),
        false => format!("{set_aside:.0} % of the calls set aside for the machine's stalls"),
    };
    vec![
        row(
            "during snapshots: calls / without",
            (of(|s| s.with_per_s / s.without_per_s), times),
            at_least(0.85, 0.95),
            format!(
                "closed loop: {} against {}; a snapshot runs {share:.0} % of the time, at {}",
                per_s(with),
                per_s(without),
                megabytes_per_s(of(|s| s.snapshot_per_s))
            ),
        ),
        row(
            "during snapshots: p99 at half of the peak",
            (of(UnderLoad::judged_p99_us), milliseconds),
            at_most(5_000.0, 2_000.0),
            format!(
                "open loop, {}, {:.0} % busy; {stalled}; of all {}; without a snapshot {}",
                per_s(of(|s| s.open_per_s)),
                of(|s| s.busy) * 100.0,
                milliseconds(all),
                milliseconds(of(|s| s.p99_without_us))
            ),
        ),
    ]
}

fn speed_rows(samples: &[SnapshotSpeed]) -> Vec<Row> {
    let of = |value: fn(&SnapshotSpeed) -> f64| median(samples.iter().map(value));
    let detail = |by_cpu: f64, disk: f64| {
        let (by_cpu, disk) = (megabytes_per_s(by_cpu), megabytes_per_s(disk));
        format!("of row data; by processor time {by_cpu}; the disk alone {disk}")
    };
    let (disk_write, disk_read) = (of(|s| s.disk_write_per_s), of(|s| s.disk_read_per_s));
    vec![
        row(
            "snapshot: write, a core",
            (of(|s| s.row_bytes / s.write_s), megabytes_per_s),
            at_least(300e6, disk_write.max(300e6)),
            detail(of(|s| s.row_bytes / s.write_cpu_s), disk_write),
        ),
        row(
            "snapshot: load, a core",
            (of(|s| s.row_bytes / s.load_s), megabytes_per_s),
            at_least(300e6, disk_read.max(300e6)),
            detail(of(|s| s.row_bytes / s.load_cpu_s), disk_read),
        ),
    ]
}

/// The report for programs.
pub fn json(rows: &[Row], samples: &Samples, options: &[(&str, String)]) -> Value {
    let list = |samples: &[Sample]| -> Value {
        let sample = |s: &Sample| {
            json!({
                "throughput_per_s": s.throughput_per_s, "p50_us": s.p50_us, "p99_us": s.p99_us,
                "cpu_us": s.cpu_us,
            })
        };
        samples.iter().map(sample).collect()
    };
    let logged = samples.logged.iter().map(|logged| {
        json!({
            "bytes_per_call": logged.bytes_per_call, "replayed_per_s": logged.replayed_per_s,
        })
    });
    let samples = json!({
        "none": list(&samples.none),
        "sync": list(&samples.sync),
        "redis_per_s": samples.redis,
        "postgres_per_s": samples.postgres,
        "none_single": list(&samples.none_single),
        "sync_single": list(&samples.sync_single),
        "fdatasync_us": samples.fdatasync_us,
        "logged": logged.collect::<Vec<_>>(),
        "embedded_per_s": samples.embedded,
        "mixed_replay": samples.mixed.iter().map(mixed_json).collect::<Vec<_>>(),
        "recovery": samples.recovery.as_ref().map(recovery_json),
        "under_load": samples.under_load.iter().map(under_load_json).collect::<Vec<_>>(),
        "snapshot_speed": samples.speed.iter().map(speed_json).collect::<Vec<_>>(),
    });
    report_json(rows.iter().map(Row::json).collect(), samples, options)
}

fn mixed_json(replay: &MixedReplay) -> Value {
    json!({ "entries": replay.entries, "seconds": replay.seconds, "cpu_s": replay.cpu_s })
}

fn recovery_json(recovery: &Recovery) -> Value {
    json!({
        "rows": recovery.rows, "row_bytes": recovery.row_bytes,
        "stated_bytes": recovery.stated_bytes, "peak_bytes": recovery.peak_bytes,
        "seconds": recovery.seconds,
    })
}

fn under_load_json(sample: &UnderLoad) -> Value {
    let undisturbed = sample.undisturbed.as_ref().map(Undisturbed::json);
    json!({
        "without_per_s": sample.without_per_s, "with_per_s": sample.with_per_s,
        "share": sample.share, "p99_without_us": sample.p99_without_us, "p99_us": sample.p99_us,
        "busy": sample.busy, "undisturbed": undisturbed,
    })
}

fn speed_json(speed: &SnapshotSpeed) -> Value {
    json!({
        "row_bytes": speed.row_bytes, "write_s": speed.write_s, "write_cpu_s": speed.write_cpu_s,
        "load_s": speed.load_s, "load_cpu_s": speed.load_cpu_s,
        "disk_write_per_s": speed.disk_write_per_s, "disk_read_per_s": speed.disk_read_per_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Logged;

    #[test]
    fn every_figure_has_its_verdict() {
        let sample = |throughput_per_s, p50_us| {
            vec![Sample { throughput_per_s, p50_us, p99_us: 2.0 * p50_us, cpu_us: 1.0 }]
        };
        let samples = Samples {
            none: sample(1_000.0, 0.0),
            sync: sample(700.0, 0.0),
            redis: vec![1_000.0],
            postgres: vec![vec![(1, 10.0), (8, 20.0), (16, 15.0)]],
            none_single: sample(0.0, 50.0),
            sync_single: sample(0.0, 270.0),
            fdatasync_us: vec![200.0],
            logged: vec![Logged { bytes_per_call: 60.0, replayed_per_s: 3_000.0 }],
            embedded: vec![1_500.0],
            mixed: vec![MixedReplay { entries: 3e5, seconds: 1.0, cpu_s: 1.2 }],
            recovery: Some(Recovery {
                rows: 10.0,
                row_bytes: 800.0,
                stated_bytes: 1_000.0,
                peak_bytes: 1_300.0,
                seconds: 20.0,
            }),
            under_load: vec![UnderLoad {
                without_per_s: 100.0,
                with_per_s: 90.0,
                p99_us: 6_000.0,
                ..UnderLoad::default()
            }],
            speed: vec![SnapshotSpeed {
                row_bytes: 1e9,
                write_s: 4.0,
                load_s: 2.0,
                disk_read_per_s: 4e8,
                ..SnapshotSpeed::default()
            }],
        };
        let json = json(&rows(&samples), &samples, &[]);
        let verdicts: Vec<&str> = json["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|r| r["verdict"].as_str())
            .collect();
        let (must, aim, missed) = ("must", "aim", "MISSED");
        let expected =
            [must, missed, must, aim, aim, must, must, aim, missed, must, missed, missed, aim];
        assert_eq!(verdicts, expected);
        assert_eq!(json["rows"][3]["reached"], "20 us");
        let shown = Row::render(&rows(&samples));
        assert_eq!(shown.lines().count(), 14);
        assert!(shown.contains("its best with 8 connections"), "{shown}");
    }

    #[test]
    fn only_what_was_measured_is_shown() {
        let samples = Samples { fdatasync_us: vec![200.0], ..Samples::default() };
        assert!(rows(&samples).is_empty());
    }
}
