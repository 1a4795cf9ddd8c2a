//! A study as a table, as charts, as JSON and as a page.

use super::super::plots::{add_machine, line, rows, split_head};
use super::super::report::{columns, object};
use super::{DELAYS, Repeat, Study, StudyPoint};
use crate::chart::{Chart, Series, Style};
use crate::page::{Page, machine_facts};
use crate::report::grouped;
use crate::usl::{Estimate, Fit};
use serde_json::{Map, Value, json};

fn ms(us: f64) -> String {
    format!("{:.2}", us / 1000.0)
}

/// The points as rows, their head in front.
pub fn point_rows(study: &Study) -> Vec<Vec<String>> {
    let mut head = study.varied.clone();
    let titles = [
        "runs",
        "per s",
        "least",
        "most",
        "p50 ms",
        "p95",
        "p99",
        "load cores",
        "server cores",
        "memory MB",
        "aborts",
        "errors",
        "",
    ];
    head.extend(titles.map(str::to_string));
    let mut lines = vec![head];
    lines.extend(study.points.iter().map(point_row));
    lines
}

fn point_row(point: &StudyPoint) -> Vec<String> {
    let rate = |repeat: &Repeat| repeat.throughput_per_s;
    let least = point.repeats.iter().map(rate).fold(f64::INFINITY, f64::min);
    let most = point.repeats.iter().map(rate).fold(0.0, f64::max);
    let mut row: Vec<String> = point.values.iter().map(u64::to_string).collect();
    row.push(point.repeats.len().to_string());
    if point.repeats.is_empty() {
        row.resize(row.len() + 11, "-".to_string());
    } else {
        let servers = point.repeats.iter().all(|repeat| repeat.server_cores.is_some());
        let server_cores = point.median(|repeat| repeat.server_cores.unwrap_or(0.0));
        let memory = point.repeats.iter().filter_map(|repeat| repeat.server_bytes).max();
        let sum = |of: fn(&Repeat) -> u64| grouped(point.repeats.iter().map(of).sum());
        row.extend([
            grouped(point.median(rate) as u64),
            grouped(least as u64),
            grouped(most as u64),
            ms(point.median(|repeat| repeat.all.at[2])),
            ms(point.median(|repeat| repeat.all.p95)),
            ms(point.median(|repeat| repeat.all.p99)),
            format!("{:.2}", point.median(|repeat| repeat.load_cores)),
            if servers { format!("{server_cores:.2}") } else { "-".to_string() },
            memory.map_or("-".to_string(), |bytes| grouped(bytes / 1_000_000)),
            sum(|repeat| repeat.aborted),
            sum(|repeat| repeat.errors),
        ]);
    }
    let mut notes = Vec::new();
    if point.left_out {
        notes.push("left out of the fit".to_string());
    }
    let wrong = point.repeats.iter().flat_map(|repeat| &repeat.wrong);
    notes.extend(wrong.map(|wrong| format!("WRONG {wrong}")));
    notes.extend(point.failed.iter().map(|error| format!("did not run: {error}")));
    row.push(notes.join("; "));
    row
}

/// The delays of each kind of transaction as rows, their head in front.
pub fn delay_rows(study: &Study) -> Vec<Vec<String>> {
    let mut head = vec!["transaction".to_string()];
    head.extend(study.varied.clone());
    head.push("per s".to_string());
    head.extend(DELAYS.map(|percent| format!("p{percent} ms")));
    head.extend(["p95", "p99"].map(str::to_string));
    let mut lines = vec![head];
    for kind in study.kinds() {
        for point in &study.points {
            let Some(per_s) = point.median_of_kind(&kind, |delays| delays.per_s) else { continue };
            let at = |of: &dyn Fn(&super::Delays) -> f64| {
                ms(point.median_of_kind(&kind, of).unwrap_or(0.0))
            };
            let mut row = vec![kind.clone()];
            row.extend(point.values.iter().map(u64::to_string));
            row.push(grouped(per_s as u64));
            row.extend((0..DELAYS.len()).map(|place| at(&|delays| delays.at[place])));
            row.extend([at(&|delays| delays.p95), at(&|delays| delays.p99)]);
            lines.push(row);
        }
    }
    lines
}

fn estimate_text(estimate: Estimate, digits: usize) -> String {
    match estimate.plus_minus.is_finite() {
        true => format!("{:.digits$} ± {:.digits$}", estimate.value, estimate.plus_minus),
        false => format!("{:.digits$} (no interval: as many points as parameters)", estimate.value),
    }
}

/// The fitted law in words.
pub fn fit_rows(study: &Study) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_string(), value);
    let fit = match study.fit() {
        None => return Vec::new(),
        Some(Err(error)) => return vec![row("scalability law", format!("not fitted: {error}"))],
        Some(Ok(fit)) => fit,
    };
    let mut rows = law_rows(&fit, study.varied.first().map_or("", String::as_str));
    let left_out = study.points.iter().filter(|point| point.left_out);
    let left_out: Vec<String> =
        left_out.filter_map(|point| point.values.first()).map(u64::to_string).collect();
    if !left_out.is_empty() {
        rows.push(row("left out of the fit", left_out.join(", ")));
    }
    rows
}

/// A law over something in words.
pub(super) fn law_rows(fit: &Fit, over: &str) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_string(), value);
    let peak = match fit.peak_load() {
        Some(load) => {
            format!("{} per s at {load:.1} {over}", grouped(fit.throughput_per_s(load) as u64))
        }
        None => "none: no coherence cost was seen".to_string(),
    };
    vec![
        row("lambda, per s of one", estimate_text(fit.lambda_per_s, 0)),
        row("sigma (contention)", estimate_text(fit.sigma, 5)),
        row("kappa (coherence)", estimate_text(fit.kappa, 6)),
        row("peak", peak),
        row("r²", format!("{:.4}", fit.r_squared)),
    ]
}

/// What the reader must know of what was varied, to take the curve for no more than it is.
fn remark(study: &Study) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match study.varied.first()?.as_str() {
        what @ ("sites" | "hosts") => Some(format!(
            "All {what} and the load share the {cores} cores of this machine. Points of more \
             {what} than cores show how a study is made, not how the engine scales."
        )),
        "clients" => Some(
            "N counts clients with one call in flight each, at the same host: the curve shows how \
             the throughput of one host grows with calls at the same time, not how sites scale."
                .to_string(),
        ),
        _ => None,
    }
}

/// The study as aligned tables.
pub fn table(study: &Study) -> String {
    let mut text = columns(&point_rows(study));
    if study.interrupted {
        text.push_str("PARTIAL: the study was cut short\n");
    }
    let delays = delay_rows(study);
    if delays.len() > 1 {
        text.push_str(&format!("\n{}", columns(&delays)));
    }
    let fit = rows(&fit_rows(study));
    if !fit.is_empty() {
        text.push_str("\nUniversal Scalability Law, 95 % intervals\n");
        let width = fit.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
        for row in &fit {
            text.push_str(&format!("{:width$}  {}\n", row[0], row[1]));
        }
        remark(study).into_iter().for_each(|remark| text.push_str(&format!("{remark}\n")));
    }
    text
}

/// Points that differ in the first value only make a line; its name tells the other values.
fn lines_of<'s>(study: &'s Study) -> Vec<(String, Vec<&'s StudyPoint>)> {
    let mut lines: Vec<(String, Vec<&'s StudyPoint>)> = Vec::new();
    for point in study.points.iter().filter(|point| !point.repeats.is_empty()) {
        let others = study.varied.iter().zip(&point.values).skip(1);
        let name: Vec<String> = others.map(|(name, value)| format!("{name} {value}")).collect();
        let name = name.join(", ");
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    lines
}

fn x_of(point: &StudyPoint) -> f64 {
    point.values.first().copied().unwrap_or(0) as f64
}

/// One figure of all lines; `prefix` stands in front of what the line is.
fn series(study: &Study, prefix: &str, of: &dyn Fn(&StudyPoint) -> Option<f64>) -> Vec<Series> {
    let named = |(name, points): (String, Vec<&StudyPoint>)| {
        let name = if name.is_empty() { prefix.to_string() } else { format!("{prefix}, {name}") };
        let placed = points.into_iter().filter_map(|point| Some((x_of(point), of(point)?)));
        line(&name, placed.collect())
    };
    lines_of(study).into_iter().map(named).collect()
}

fn chart(study: &Study, title: &str, y_label: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: format!("{}: {title}", study.workload),
        x_label: study.varied.first().cloned().unwrap_or_default(),
        y_label: y_label.to_string(),
        x_is_logarithmic: false,
        series,
    }
}

/// The charts: throughput with the fitted curve, latency, processor time, memory, and one for the
/// delays of each kind of transaction.
pub fn charts(study: &Study) -> Vec<Chart> {
    let rate = "transactions per second";
    let mut charts = vec![match study.fit() {
        Some(Ok(fit)) => chart(study, "throughput", rate, fitted(study, &fit)),
        _ => {
            let median = |point: &StudyPoint| Some(point.median(|repeat| repeat.throughput_per_s));
            chart(study, "throughput", rate, series(study, "median of the runs", &median))
        }
    }];
    let latency = |name: &str, of: fn(&Repeat) -> f64| {
        series(study, name, &|point| Some(point.median(of) / 1e3))
    };
    let mut delays = latency("p50", |repeat| repeat.all.at[2]);
    delays.extend(latency("p95", |repeat| repeat.all.p95));
    delays.extend(latency("p99", |repeat| repeat.all.p99));
    charts.push(chart(study, "latency", "latency, ms", delays));
    let mut cores = series(study, "load", &|point| Some(point.median(|r| r.load_cores)));
    cores.extend(series(study, "servers", &|point| {
        let seen = point.repeats.iter().all(|repeat| repeat.server_cores.is_some());
        seen.then(|| point.median(|repeat| repeat.server_cores.unwrap_or(0.0)))
    }));
    cores.retain(|series| !series.points.is_empty());
    charts.push(chart(study, "processor time", "busy cores", cores));
    let mut memory = series(study, "server", &|point| {
        let bytes = point.repeats.iter().filter_map(|repeat| repeat.server_bytes).max()?;
        Some(bytes as f64 / 1e6)
    });
    memory.retain(|series| !series.points.is_empty());
    if !memory.is_empty() {
        charts.push(chart(study, "memory", "most resident memory, MB", memory));
    }
    for kind in study.kinds() {
        let mut both = Vec::new();
        for (name, place) in [("p50", 2), ("p90", 5)] {
            both.extend(series(study, name, &|point| {
                Some(point.median_of_kind(&kind, |delays| delays.at[place])? / 1e3)
            }));
        }
        charts.push(chart(study, &format!("delays of {kind}"), "latency, ms", both));
    }
    charts
}

/// Measured points, those that are left out, and the law's curve through the others.
fn fitted(study: &Study, fit: &Fit) -> Vec<Series> {
    let points = |left_out: bool| -> Vec<(f64, f64)> {
        let chosen = study.points.iter().filter(|point| point.left_out == left_out);
        let placed = chosen.flat_map(|point| {
            point.repeats.iter().map(|repeat| (x_of(point), repeat.throughput_per_s))
        });
        placed.collect()
    };
    let measured = points(false);
    let most = study.points.iter().map(x_of).fold(1.0, f64::max);
    let mut series = vec![
        Series { name: "measured".to_string(), style: Style::Points, points: measured },
        law_series(fit, most),
    ];
    let out = points(true);
    if !out.is_empty() {
        let name = "measured, left out of the fit".to_string();
        series.push(Series { name, style: Style::Points, points: out });
    }
    series
}

/// The curve of a law up to a load.
pub(super) fn law_series(fit: &Fit, most: f64) -> Series {
    let curve = (0..=100).map(|step| {
        let load = 1.0 + (most - 1.0) * f64::from(step) / 100.0;
        (load, fit.throughput_per_s(load))
    });
    let (sigma, kappa) = (fit.sigma.value, fit.kappa.value);
    Series {
        name: format!("law: σ {sigma:.4}, κ {kappa:.6}, r² {:.4}", fit.r_squared),
        style: Style::Curve,
        points: curve.collect(),
    }
}

fn repeat_json(repeat: &Repeat) -> Value {
    let delays = |delays: &super::Delays| {
        let mut map: Map<String, Value> = DELAYS
            .iter()
            .zip(delays.at)
            .map(|(percent, us)| (format!("p{percent}"), json!(us)))
            .collect();
        map.insert("p95".to_string(), json!(delays.p95));
        map.insert("p99".to_string(), json!(delays.p99));
        map
    };
    let kind = |kind: &super::Delays| {
        let value = json!({ "per_s": kind.per_s, "latency_us": delays(kind) });
        (kind.name.clone(), value)
    };
    json!({
        "throughput_per_s": repeat.throughput_per_s, "latency_us": delays(&repeat.all),
        "per_transaction": repeat.kinds.iter().map(kind).collect::<Map<_, _>>(),
        "load_cores": repeat.load_cores, "server_cores": repeat.server_cores,
        "server_peak_bytes": repeat.server_bytes, "aborts": repeat.aborted,
        "errors": repeat.errors, "wrong": repeat.wrong, "good": repeat.good,
    })
}

fn fit_json(study: &Study) -> Value {
    match study.fit() {
        None => Value::Null,
        Some(Err(error)) => json!({ "error": error }),
        Some(Ok(fit)) => law_json(&fit),
    }
}

/// A law as JSON.
pub(super) fn law_json(fit: &Fit) -> Value {
    let estimate = |estimate: Estimate| {
        let width = estimate.plus_minus.is_finite().then_some(estimate.plus_minus);
        json!({ "value": estimate.value, "plus_minus_95": width })
    };
    json!({
        "lambda_per_s": estimate(fit.lambda_per_s), "sigma": estimate(fit.sigma),
        "kappa": estimate(fit.kappa), "r_squared": fit.r_squared,
        "peak_load": fit.peak_load(),
        "peak_per_s": fit.peak_load().map(|load| fit.throughput_per_s(load)),
    })
}

/// The study as JSON.
pub fn json(study: &Study, options: &Value) -> Value {
    let point = |point: &StudyPoint| {
        let values = study.varied.iter().zip(&point.values);
        let values: Map<String, Value> =
            values.map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "values": values, "left_out": point.left_out, "failed": point.failed,
            "throughput_per_s": point.median(|repeat| repeat.throughput_per_s),
            "repeats": point.repeats.iter().map(repeat_json).collect::<Vec<_>>(),
        })
    };
    json!({
        "study": study.workload, "varied": study.varied, "interrupted": study.interrupted,
        "points": study.points.iter().map(point).collect::<Vec<_>>(),
        "scalability_law": fit_json(study), "good": study.is_good(), "options": options,
        "machine": object(&machine_facts()), "server": object(&study.server),
    })
}

/// The study as a page.
pub fn page(title: &str, study: &Study, options: &[(String, String)]) -> Page {
    let mut page = Page::new(title);
    if study.interrupted {
        page.text("PARTIAL: the study was cut short.");
    }
    page.heading("Points");
    let add = |page: &mut Page, rows: Vec<Vec<String>>| {
        let (head, body) = split_head(rows);
        page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    };
    add(&mut page, point_rows(study));
    if study.fits {
        page.heading("Universal Scalability Law, 95 % intervals");
        page.table(&[], &rows(&fit_rows(study)));
        remark(study).into_iter().for_each(|remark| {
            page.text(&remark);
        });
    }
    charts(study).iter().for_each(|chart| {
        page.chart(chart);
    });
    page.heading("Delays of each transaction");
    add(&mut page, delay_rows(study));
    page.heading("Options").table(&[], &rows(options));
    add_machine(&mut page, &study.server);
    page
}
