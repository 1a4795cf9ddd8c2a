//! The report: each figure beside what it must and should reach.

use crate::measure::{Sample, Samples};
use lockstep_bench::report::grouped;
use lockstep_bench::verdict::{Bound, align, median, times, verdict};
use serde_json::{Value, json};

/// A line of the report.
pub struct Row {
    what: &'static str,
    value: f64,
    shown: fn(f64) -> String,
    must: Bound,
    aim: Bound,
    detail: String,
}

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

fn row(
    what: &'static str,
    (value, shown): (f64, fn(f64) -> String),
    (must, aim): (Bound, Bound),
    detail: String,
) -> Row {
    Row { what, value, shown, must, aim, detail }
}

/// The report's lines.
pub fn rows(samples: &Samples) -> Vec<Row> {
    let rate = |samples| of(samples, |sample: &Sample| sample.throughput_per_s);
    let p50_us = |samples| of(samples, |sample: &Sample| sample.p50_us);
    let (none, sync) = (rate(&samples.none), rate(&samples.sync));
    let redis = median(samples.redis.iter().copied());
    let (single_us, without_us) = (p50_us(&samples.sync_single), p50_us(&samples.none_single));
    let fdatasync_us = median(samples.fdatasync_us.iter().copied());
    let replayed = median(samples.logged.iter().map(|logged| logged.replayed_per_s));
    let embedded = median(samples.embedded.iter().copied());
    let at_least = |must, aim| (Bound::AtLeast(must), Bound::AtLeast(aim));
    let at_most = |must, aim| (Bound::AtMost(must), Bound::AtMost(aim));
    vec![
        row(
            "voter, synchronous log / no log",
            (sync / none, times),
            at_least(0.6, 0.85),
            format!("{} against {}", per_s(sync), per_s(none)),
        ),
        row(
            "voter, synchronous log / Redis, appendfsync always",
            (sync / redis, times),
            at_least(0.9, 1.3),
            format!("{} against {}", per_s(sync), per_s(redis)),
        ),
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
        ),
        row(
            "replay of voter / embedded, a core",
            (replayed / embedded, times),
            at_least(1.0, 1.5),
            format!("{} against {}", per_s(replayed), per_s(embedded)),
        ),
        row(
            "log bytes of a voter call",
            (median(samples.logged.iter().map(|logged| logged.bytes_per_call)), bytes),
            at_most(80.0, 50.0),
            "headers of blocks included".to_string(),
        ),
    ]
}

/// The report as text.
pub fn render(rows: &[Row]) -> String {
    let head = ["figure", "reached", "must", "aim", "verdict", ""].map(String::from).to_vec();
    let line = |row: &Row| {
        let shown = row.shown;
        vec![
            row.what.to_string(),
            shown(row.value),
            shown(row.must.value()),
            shown(row.aim.value()),
            verdict(row.value, row.must, row.aim).to_string(),
            row.detail.clone(),
        ]
    };
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(line)).collect();
    align(&lines, |column| (1..=3).contains(&column))
}

/// The report for programs.
pub fn json(rows: &[Row], samples: &Samples, options: &[(&str, String)]) -> Value {
    let row = |row: &Row| {
        let shown = row.shown;
        json!({
            "figure": row.what, "reached": shown(row.value), "must": shown(row.must.value()),
            "aim": shown(row.aim.value()), "verdict": verdict(row.value, row.must, row.aim),
            "detail": row.detail,
        })
    };
    let list = |samples: &[Sample]| -> Value {
        let sample = |s: &Sample| {
            json!({
                "throughput_per_s": s.throughput_per_s, "p50_us": s.p50_us, "p99_us": s.p99_us,
            })
        };
        samples.iter().map(sample).collect()
    };
    let logged = samples.logged.iter().map(|logged| {
        json!({
            "bytes_per_call": logged.bytes_per_call, "replayed_per_s": logged.replayed_per_s,
        })
    });
    let options: serde_json::Map<String, Value> =
        options.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "samples": {
            "none": list(&samples.none),
            "sync": list(&samples.sync),
            "redis_per_s": samples.redis,
            "none_single": list(&samples.none_single),
            "sync_single": list(&samples.sync_single),
            "fdatasync_us": samples.fdatasync_us,
            "logged": logged.collect::<Vec<_>>(),
            "embedded_per_s": samples.embedded,
        },
        "options": options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Logged;

    #[test]
    fn every_figure_has_its_verdict() {
        let sample = |throughput_per_s, p50_us| {
            vec![Sample { throughput_per_s, p50_us, p99_us: 2.0 * p50_us }]
        };
        let samples = Samples {
            none: sample(1_000.0, 0.0),
            sync: sample(700.0, 0.0),
            redis: vec![1_000.0],
            none_single: sample(0.0, 50.0),
            sync_single: sample(0.0, 270.0),
            fdatasync_us: vec![200.0],
            logged: vec![Logged { bytes_per_call: 60.0, replayed_per_s: 3_000.0 }],
            embedded: vec![1_500.0],
        };
        let json = json(&rows(&samples), &samples, &[]);
        let verdicts: Vec<&str> = json["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|r| r["verdict"].as_str())
            .collect();
        assert_eq!(verdicts, ["must", "MISSED", "aim", "aim", "must"]);
        assert_eq!(json["rows"][2]["reached"], "20 us");
        assert_eq!(render(&rows(&samples)).lines().count(), 6);
    }
}
