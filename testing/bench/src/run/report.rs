//! A run as a table for people and as JSON for machines.

use super::RunResult;
use super::figures::{Figures, TransactionFigures};
use super::study::DELAYS;
use super::workers::WorkerFacts;
use crate::page::machine_facts;
use crate::report::grouped;
use hdrhistogram::Histogram;
use lockstep_workloads::Check;
use serde_json::{Map, Value, json};

/// Rows of text in columns: the first to the left, the others to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, text): (usize, &String)| match column {
            0 => format!("{text:<0$}", widths[0]),
            _ => format!("{text:>0$}", widths[column]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

fn milliseconds(us: u64) -> String {
    format!("{:.2}", us as f64 / 1000.0)
}

fn percentiles(latency_us: &Histogram<u64>) -> Vec<String> {
    let at = |quantile| milliseconds(latency_us.value_at_quantile(quantile));
    vec![at(0.5), at(0.95), at(0.99), at(0.999), milliseconds(latency_us.max())]
}

fn transaction_row(figures: &TransactionFigures, whole: &Figures) -> Vec<String> {
    let share = 100.0 * figures.answered() as f64 / whole.answered().max(1) as f64;
    let per_s = figures.answered() as f64 / whole.duration.as_secs_f64().max(1e-9);
    let mut row = vec![
        figures.name.to_string(),
        grouped(figures.answered()),
        format!("{share:.1} %"),
        grouped(per_s as u64),
        grouped(figures.aborted),
        grouped(figures.errors),
    ];
    row.extend(percentiles(&figures.latency_us));
    row
}

/// The transactions as rows, their head in front.
pub fn transaction_rows(figures: &Figures) -> Vec<Vec<String>> {
    let head = [
        "transaction",
        "count",
        "share",
        "per s",
        "aborts",
        "errors",
        "p50 ms",
        "p95",
        "p99",
        "p99.9",
        "max",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    rows.extend(figures.transactions.iter().map(|kind| transaction_row(kind, figures)));
    if figures.transactions.len() > 1 {
        let sum = |value: fn(&TransactionFigures) -> u64| {
            grouped(figures.transactions.iter().map(value).sum())
        };
        let mut all = vec![
            "all".to_string(),
            grouped(figures.answered()),
            String::new(),
            grouped(figures.throughput_per_s() as u64),
            sum(|kind| kind.aborted),
            sum(|kind| kind.errors),
        ];
        all.extend(percentiles(&figures.latency_us));
        rows.push(all);
    }
    rows
}

/// The result as aligned tables.
pub fn table(result: &RunResult, own: &[(String, String)]) -> String {
    let figures = &result.figures;
    let mut text = columns(&transaction_rows(figures));
    if figures.interrupted {
        let seconds = figures.duration.as_secs_f64();
        text.push_str(&format!("PARTIAL: the run was cut short after {seconds:.1} s\n"));
    }
    if figures.lost_connections > 0 {
        text.push_str(&format!("{} connections were lost\n", figures.lost_connections));
    }
    if figures.late > 0 {
        let late = grouped(figures.late);
        text.push_str(&format!("{late} transactions began late: all clients were busy\n"));
    }
    workers_text(&result.workers, &mut text);
    let own: Vec<Vec<String>> =
        own.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    text.push_str(&columns(&own));
    text + &steps_table(result) + &checks_table(&result.checks)
}

/// How far the clocks of workers elsewhere were apart.
fn workers_text(workers: &[WorkerFacts], text: &mut String) {
    for worker in workers {
        let Some(ahead_us) = worker.clock_ahead_us else { continue };
        let WorkerFacts { address, round_trip_us, apart, .. } = worker;
        let warning = if *apart { "WARNING: " } else { "" };
        text.push_str(&format!(
            "{warning}the clock of the worker at {address} is {ahead_us} us ahead, give or take \
             {} us\n",
            round_trip_us / 2
        ));
    }
}

/// The steps of a ramp as rows, their head in front.
pub fn steps_rows(result: &RunResult) -> Vec<Vec<String>> {
    let head = ["requested per s", "reached", "p50 ms", "p99 ms", "errors", ""];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    rows.extend(result.steps.iter().map(|step| {
        vec![
            grouped(step.requested_per_s as u64),
            grouped(step.reached_per_s as u64),
            milliseconds(step.p50_us),
            milliseconds(step.p99_us),
            grouped(step.errors),
            if step.good { "good" } else { "too much" }.to_string(),
        ]
    }));
    rows
}

fn steps_table(result: &RunResult) -> String {
    if result.steps.is_empty() {
        return String::new();
    }
    let last = match result.steps.iter().rev().find(|step| step.good) {
        Some(step) => format!("last good step: {} per s\n", grouped(step.requested_per_s as u64)),
        None => "no step was good\n".to_string(),
    };
    format!("\n{}{last}", columns(&steps_rows(result)))
}

/// The checks as rows: what is held, whether it is, what was compared.
pub fn checks_rows(result: &RunResult) -> Vec<Vec<String>> {
    let row = |check: &Check| {
        let verdict = if check.holds { "holds" } else { "WRONG" };
        vec![check.name.clone(), verdict.to_string(), check.detail.clone()]
    };
    result.checks.iter().map(row).collect()
}

/// The checks as lines.
pub fn checks_table(checks: &[Check]) -> String {
    let row = |check: &Check| {
        let verdict = if check.holds { "holds" } else { "WRONG" };
        format!("{verdict}  {}: {}\n", check.name, check.detail)
    };
    let rows: String = checks.iter().map(row).collect();
    if rows.is_empty() { rows } else { format!("\n{rows}") }
}

/// Percentiles as JSON, in microseconds.
pub fn latency_json(latency_us: &Histogram<u64>) -> Value {
    let at = |quantile| latency_us.value_at_quantile(quantile);
    json!({
        "min": latency_us.min(), "p20": at(0.2), "p40": at(0.4), "p50": at(0.5), "p60": at(0.6),
        "p75": at(0.75), "p80": at(0.8), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99),
        "p999": at(0.999), "max": latency_us.max(), "mean": latency_us.mean(),
    })
}

/// Names and values as an object.
pub fn object(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>().into()
}

/// The result as JSON; the options and the workload's own keys stand beside.
pub fn json(result: &RunResult, options: Value, own: Map<String, Value>) -> Value {
    let figures = &result.figures;
    let kind = |kind: &TransactionFigures| {
        let value = json!({
            "count": kind.answered(), "aborts": kind.aborted, "errors": kind.errors,
            "latency_us": latency_json(&kind.latency_us),
        });
        (kind.name.to_string(), value)
    };
    let check = |check: &Check| {
        let Check { name, holds, detail } = check;
        json!({ "name": name, "holds": holds, "detail": detail })
    };
    let step = |step: &super::ramp::RampStep| {
        let delays = |(name, at): &(&str, [u64; 6])| {
            let at = DELAYS.iter().zip(at);
            let at: Map<String, Value> =
                at.map(|(percent, us)| (format!("p{percent}"), json!(us))).collect();
            ((*name).to_string(), Value::Object(at))
        };
        json!({
            "delays_us": step.delays_us.iter().map(delays).collect::<Map<_, _>>(),
            "requested_per_s": step.requested_per_s, "reached_per_s": step.reached_per_s,
            "p50_us": step.p50_us, "p99_us": step.p99_us, "errors": step.errors,
            "good": step.good,
        })
    };
    let worker = |worker: &WorkerFacts| {
        json!({
            "address": worker.address, "clock_ahead_us": worker.clock_ahead_us,
            "round_trip_us": worker.round_trip_us, "clock_apart": worker.apart,
        })
    };
    let mut value = json!({
        "workers": result.workers.iter().map(worker).collect::<Vec<_>>(),
        "throughput_per_s": figures.throughput_per_s(),
        "transactions": figures.answered(),
        "turns": figures.turns,
        "errors": figures.errors(),
        "first_error": figures.first_error,
        "duration_s": figures.duration.as_secs_f64(),
        "latency_us": latency_json(&figures.latency_us),
        "per_transaction": figures.transactions.iter().map(kind).collect::<Map<_, _>>(),
        "per_second": figures.per_second,
        "late": figures.late,
        "lost_connections": figures.lost_connections,
        "interrupted": figures.interrupted,
        "load_processor_s": figures.processor.load.as_secs_f64(),
        "server_processor_s": figures.processor.servers.map(|time| time.as_secs_f64()),
        "loaded_rows": result.loaded.map(|(rows, _)| rows),
        "load_s": result.loaded.map(|(_, time)| time.as_secs_f64()),
        "steps": result.steps.iter().map(step).collect::<Vec<_>>(),
        "checks": result.checks.iter().map(check).collect::<Vec<_>>(),
        "consistent": result.checks.iter().all(|check| check.holds),
        "options": options,
        "machine": object(&machine_facts()),
        "server": object(&result.server),
    });
    if let Value::Object(map) = &mut value {
        map.extend(own);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_workloads::Verdict;
    use std::time::Duration;

    #[test]
    fn results_are_shown_by_transaction_with_their_checks() {
        let mut figures = Figures::new(&["READ", "UPDATE"], Duration::from_secs(2));
        (0..3000).for_each(|us| figures.record(0, Verdict::Good, Duration::from_micros(us)));
        figures.record(1, Verdict::Aborted, Duration::from_millis(7));
        figures.record(1, Verdict::Error, Duration::from_millis(9));
        let checks = vec![Check::equal("rows are kept", 5, 6)];
        let (loaded, steps, server, workers) = (None, Vec::new(), Vec::new(), Vec::new());
        let result = RunResult { figures, checks, loaded, steps, server, workers };
        let expected = "\
transaction  count    share  per s  aborts  errors  p50 ms   p95   p99  p99.9   max
READ         3 000  100.0 %  1 500       0       0    1.50  2.85  2.97   3.00  3.00
UPDATE           1    0.0 %      0       1       1    7.00  7.00  7.00   7.00  7.00
all          3 001           1 500       1       1    1.50  2.85  2.97   3.00  7.00

WRONG  rows are kept: 5 ≠ 6
";
        assert_eq!(table(&result, &[]), expected);
        let json = json(&result, json!({"seed": 1}), Map::new());
        assert_eq!(json["per_transaction"]["UPDATE"]["aborts"], 1);
        assert_eq!(json["latency_us"]["max"], 7003);
        assert_eq!(json["consistent"], false);
        assert!(!result.is_good());
    }
}
