//! The report: each ratio beside what it must and should reach.

use crate::measure::{Beside, LOCK_STORE_P95_US, LockStep, Rate, Samples};
use crate::studies::{self, Study};
use crate::tail::Tail;
use lockstep_bench::chart::{Chart, Series, Style};
use lockstep_bench::page::Page;
use lockstep_bench::report::grouped;
use lockstep_bench::stalls::Undisturbed;
use lockstep_bench::verdict::{Bound, Row, median, report_json, times, verdict};
use serde_json::{Value, json};

fn ratio(what: &str, ratios: &[f64], bounds: Option<(f64, f64)>, detail: &str) -> Row {
    let reached = median(ratios.iter().copied());
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
    let stated = || "stated".to_string();
    let judged = bounds.map(|(must, aim)| {
        let word = verdict(reached, Bound::AtLeast(must), Bound::AtLeast(aim));
        (times(must), times(aim), word)
    });
    let (must, aim, verdict) = judged.unwrap_or((stated(), stated(), "stated"));
    Row {
        what: what.to_string(),
        reached: format!("{reached:.3} x"),
        must,
        aim,
        verdict,
        detail: format!("{detail}{}", each.join(" ")),
    }
}

fn ratios(these: &[Rate], those: &[Rate], value: fn(&Rate) -> f64) -> Vec<f64> {
    these.iter().zip(those).map(|(a, b)| value(a) / value(b).max(1e-9)).collect()
}

/// The ratio of two systems by the clock, and by processor time.
fn compared(what: &str, these: &[Rate], those: &[Rate], bounds: Option<(f64, f64)>) -> Vec<Row> {
    if these.is_empty() || those.is_empty() {
        return Vec::new();
    }
    let rate = |rates: &[Rate]| grouped(median(rates.iter().map(|rate| rate.per_s)) as u64);
    let detail = format!("{}/s and {}/s; ", rate(these), rate(those));
    let by_clock = ratios(these, those, |rate| rate.per_s);
    let by_time = ratios(these, those, |rate| rate.per_busy_s);
    vec![
        ratio(what, &by_clock, bounds, &detail),
        ratio("  the same by processor time", &by_time, bounds, ""),
    ]
}

/// The last step at which ours is within the limit, and the ratio there.
fn lock_store_ratio(steps: &[LockStep]) -> Option<(usize, f64)> {
    let last = steps.iter().rev().find(|step| step.p95_us[0] <= LOCK_STORE_P95_US)?;
    Some((last.sessions, last.per_s[0] / last.per_s[1].max(1e-9)))
}

/// The most that a system did within the limit.
fn lock_store_most(steps: &[LockStep], system: usize) -> f64 {
    let within = steps.iter().filter(|step| step.p95_us[system] <= LOCK_STORE_P95_US);
    within.map(|step| step.per_s[system]).fold(0.0, f64::max)
}

fn lock_store_rows(repeats: &[Vec<LockStep>]) -> Vec<Row> {
    let found: Vec<(usize, f64)> =
        repeats.iter().filter_map(|steps| lock_store_ratio(steps)).collect();
    if found.is_empty() {
        let most = repeats.iter().flatten().map(|step| step.p95_us[0]).min().unwrap_or(0);
        return repeats.first().map_or(Vec::new(), |_| {
            vec![Row {
                what: "lock-store / Redis script, the same sessions".to_string(),
                reached: "-".to_string(),
                must: times(1.0),
                aim: times(2.0),
                verdict: "not measured",
                detail: format!("no p95 within 7 ms, the least {most} us: is the machine busy?"),
            }]
        });
    }
    let sessions: Vec<String> = found.iter().map(|(sessions, _)| sessions.to_string()).collect();
    let same: Vec<f64> = found.iter().map(|(_, ratio)| *ratio).collect();
    let detail = format!("{} sessions; ", sessions.join(" "));
    let most = |system| median(repeats.iter().map(|steps| lock_store_most(steps, system)));
    let each: Vec<f64> = repeats
        .iter()
        .map(|steps| lock_store_most(steps, 0) / lock_store_most(steps, 1).max(1e-9))
        .collect();
    let rates = format!("{}/s and {}/s; ", grouped(most(0) as u64), grouped(most(1) as u64));
    let bounds = Some((1.0, 2.0));
    vec![
        ratio("lock-store / Redis script, the same sessions", &same, bounds, &detail),
        ratio("  the most with p95 within 7 ms", &each, bounds, &rates),
    ]
}

fn postgres_rows(beside: &Beside) -> Vec<Row> {
    let (connections, best) = beside.best();
    let against = |value: fn(&Rate) -> f64, best: f64| -> Vec<f64> {
        beside.ours.iter().map(|rate| value(rate) / best.max(1e-9)).collect()
    };
    let ours = grouped(median(beside.ours.iter().map(|rate| rate.per_s)) as u64);
    let theirs = grouped(best.per_s as u64);
    let detail = format!("{ours}/s and {theirs}/s with {connections} connections; ");
    let bounds = (beside.workload == "TPC-C").then_some((15.0, 40.0));
    let what = format!("{} / PostgreSQL, both durable", beside.workload);
    let mut rows = vec![ratio(&what, &against(|rate| rate.per_s, best.per_s), bounds, &detail)];
    let most = beside.best_per_busy_s();
    if most > 0.0 {
        let each = against(|rate| rate.per_busy_s, most);
        let detail = format!("PostgreSQL: {} at most; ", grouped(most as u64));
        rows.push(ratio("  the same by processor time", &each, bounds, &detail));
    }
    rows
}

/// The percentile without the machine's stalls, which is judged, that of all New-Orders, and those
/// of the echo server.
fn new_order_rows(ours: &[Tail], echo: &[Tail]) -> Vec<Row> {
    if ours.is_empty() {
        return Vec::new();
    }
    let ms = |us: f64| format!("{:.2} ms", us / 1000.0);
    let row = |what: &str, tails: &[Tail], value: fn(&Tail) -> f64, more: String| {
        let each: Vec<String> =
            tails.iter().map(|tail| format!("{:.2}", value(tail) / 1000.0)).collect();
        Row {
            what: what.to_string(),
            reached: ms(median(tails.iter().map(value))),
            must: "stated".to_string(),
            aim: "stated".to_string(),
            verdict: "stated",
            detail: format!("{more}{}", each.join(" ")),
        }
    };
    let part = |value: fn(&Undisturbed) -> f64| {
        median(ours.iter().map(|tail| tail.undisturbed.as_ref().map_or(0.0, value)))
    };
    let more = format!(
        "at {}/s, {:.0} % busy; {:.1} % set aside, the longest stall {}; ",
        grouped(median(ours.iter().map(|tail| tail.per_s)) as u64),
        median(ours.iter().map(|tail| tail.busy)) * 100.0,
        part(|left| left.set_aside) * 100.0,
        ms(part(|left| left.longest_us))
    );
    let p99_ms = median(ours.iter().map(Tail::judged_p99_us)) / 1000.0;
    let judged = Row {
        must: "2 ms".to_string(),
        aim: "1 ms".to_string(),
        verdict: verdict(p99_ms, Bound::AtMost(2.0), Bound::AtMost(1.0)),
        ..row("New-Order, p99 at half of the peak", ours, Tail::judged_p99_us, more)
    };
    let all = "  the same with the machine's stalls";
    let mut rows = vec![judged, row(all, ours, |tail| tail.p99_us, String::new())];
    rows.push(row("  the same, p50", ours, |tail| tail.p50_us, String::new()));
    if !echo.is_empty() {
        let what = "  an echo server at the same rate";
        rows.push(row(what, echo, Tail::judged_p99_us, String::new()));
        let what = "  the echo server with the stalls";
        rows.push(row(what, echo, |tail| tail.p99_us, String::new()));
    }
    rows
}

/// The report's lines.
pub fn rows(samples: &Samples) -> Vec<Row> {
    let mut rows =
        compared("TPC-C, native / Redis SET", &samples.tpcc, &samples.redis, Some((0.10, 0.20)));
    let what = "TPC-C, Java / Redis SET";
    rows.extend(compared(what, &samples.tpcc_java, &samples.redis, Some((0.05, 0.10))));
    let what = "TPC-C, synchronous log / none";
    rows.extend(compared(what, &samples.tpcc_log, &samples.tpcc, Some((0.7, 0.85))));
    rows.extend(new_order_rows(&samples.new_order, &samples.new_order_echo));
    let what = "TATP, global index, four sites / Redis SET";
    rows.extend(compared(what, &samples.tatp, &samples.redis, Some((0.5, 0.8))));
    rows.extend(lock_store_rows(&samples.lock_store));
    rows.extend(samples.postgres.iter().flat_map(postgres_rows));
    rows
}

/// Lines and plots on a page.
pub fn fill_page(page: &mut Page, rows: &[Row], samples: &Samples) {
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    if !cells.is_empty() {
        page.heading("Ratios").table(&Row::HEAD, &cells);
    }
    let series = |name: &str, points| Series { name: name.to_string(), style: Style::Line, points };
    if let Some(steps) = samples.lock_store.last() {
        let of = |system: usize, value: fn(&LockStep, usize) -> f64| {
            steps.iter().map(|step| (step.sessions as f64, value(step, system))).collect()
        };
        let both = |value: fn(&LockStep, usize) -> f64| {
            vec![series("LockstepDB", of(0, value)), series("Redis", of(1, value))]
        };
        let rate = both(|step, system| step.per_s[system]);
        let p95 = both(|step, system| step.p95_us[system] as f64 / 1000.0);
        for (title, y, series) in [
            ("Lock-store: locks and writes", "per second", rate),
            ("Lock-store: the greater 95th percentile", "ms", p95),
        ] {
            page.chart(&Chart {
                title: title.to_string(),
                x_label: "sessions".to_string(),
                y_label: y.to_string(),
                x_is_logarithmic: false,
                series,
            });
        }
    }
    for study in &samples.studies {
        page.heading(&study.title).table(&studies::HEAD, &study.ranking());
        page.bars(&study.bars());
        study.remarks.iter().for_each(|remark| {
            page.text(remark);
        });
    }
    for beside in &samples.postgres {
        let points =
            beside.postgres.iter().map(|(count, rate)| (*count as f64, rate.per_s)).collect();
        page.chart(&Chart {
            title: format!("{} on PostgreSQL", beside.workload),
            x_label: "connections".to_string(),
            y_label: "per second".to_string(),
            x_is_logarithmic: true,
            series: vec![series("PostgreSQL", points)],
        });
    }
}

/// Rows, samples and options as JSON.
pub fn json(rows: &[Row], samples: &Samples, options: &[(&str, String)]) -> Value {
    let rates = |rates: &[Rate]| -> Vec<Value> {
        rates
            .iter()
            .map(|rate| json!({ "per_s": rate.per_s, "per_busy_s": rate.per_busy_s }))
            .collect()
    };
    let step = |step: &LockStep| {
        let LockStep { sessions, per_s, p95_us } = step;
        json!({ "sessions": sessions, "per_s": per_s, "p95_us": p95_us })
    };
    let lock_store: Vec<Vec<Value>> =
        samples.lock_store.iter().map(|steps| steps.iter().map(step).collect()).collect();
    let studies: Vec<Value> = samples.studies.iter().map(Study::json).collect();
    let postgres = samples.postgres.iter().map(|beside| {
        json!({
            "workload": beside.workload, "ours": rates(&beside.ours),
            "postgres_by_connections": beside.postgres.iter().map(|(count, rate)| {
                json!({
                    "connections": count, "per_s": rate.per_s, "per_busy_s": rate.per_busy_s,
                })
            }).collect::<Vec<_>>(),
        })
    });
    let samples = json!({
        "redis_set": rates(&samples.redis),
        "tpcc": rates(&samples.tpcc),
        "tpcc_java": rates(&samples.tpcc_java),
        "tpcc_log": rates(&samples.tpcc_log),
        "new_order": samples.new_order.iter().map(Tail::json).collect::<Vec<_>>(),
        "new_order_echo": samples.new_order_echo.iter().map(Tail::json).collect::<Vec<_>>(),
        "tatp": rates(&samples.tatp),
        "lock_store": lock_store,
        "studies": studies,
        "postgres": postgres.collect::<Vec<_>>(),
    });
    report_json(rows.iter().map(Row::json).collect(), samples, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_verdict() {
        let rate = |per_s: f64| vec![Rate { per_s, per_busy_s: per_s * 2.0 }];
        let step =
            |sessions, ours, theirs, p95_us| LockStep { sessions, per_s: [ours, theirs], p95_us };
        // Without its stalls a run has a third of its percentile, where enough is left.
        let tail = |(p99_us, set_aside): (f64, f64)| {
            let left = Undisturbed { p99_us: p99_us / 3.0, set_aside, ..Undisturbed::default() };
            Tail { p99_us, undisturbed: Some(left), ..Tail::default() }
        };
        let samples = Samples {
            redis: rate(100.0),
            tpcc: rate(12.0),
            tpcc_java: rate(7.0),
            tpcc_log: rate(6.0),
            new_order: [(900.0, 0.1), (4000.0, 0.1), (1500.0, 0.6)].map(tail).to_vec(),
            new_order_echo: vec![tail((300.0, 0.0))],
            tatp: rate(80.0),
            lock_store: vec![vec![
                step(100, 10.0, 10.0, [900, 900]),
                step(200, 30.0, 20.0, [6000, 9000]),
                step(400, 31.0, 20.0, [8000, 19000]),
            ]],
            studies: Vec::new(),
            postgres: vec![Beside {
                workload: "TPC-C",
                ours: rate(60.0),
                postgres: [(1, 1.0), (2, 3.0), (4, 2.0)]
                    .map(|(count, per_s)| (count, Rate { per_s, per_busy_s: 5.0 }))
                    .to_vec(),
            }],
        };
        let rows = rows(&samples);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.reached.as_str(), row.verdict)).collect();
        let expected = [
            ("0.120 x", "must"),
            ("0.120 x", "must"),
            ("0.070 x", "must"),
            ("0.070 x", "must"),
            ("0.500 x", "MISSED"),
            ("0.500 x", "MISSED"),
            ("1.33 ms", "must"),
            ("1.50 ms", "stated"),
            ("0.00 ms", "stated"),
            ("0.10 ms", "stated"),
            ("0.30 ms", "stated"),
            ("0.800 x", "aim"),
            ("0.800 x", "aim"),
            ("1.500 x", "must"),
            ("3.000 x", "aim"),
            ("20.000 x", "must"),
            ("24.000 x", "must"),
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(Row::render(&rows).lines().count(), 18);
    }
}
