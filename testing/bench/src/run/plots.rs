//! A run as charts, and as a page of its own with its options, the machine and its checks.

use super::RunResult;
use super::report::{checks_rows, steps_rows, transaction_rows};
use crate::chart::{Chart, Series, Style};
use crate::page::{Page, machine_facts};
use hdrhistogram::Histogram;

/// Where latency is drawn: one call in N is slower.
const ONE_IN: [f64; 14] =
    [1.0, 1.25, 1.67, 2.0, 2.5, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 1e3, 1e4, 1e5];

/// The charts of a run: throughput over time, latency percentiles of each kind of transaction, and
/// the steps of a ramp.
pub fn charts(result: &RunResult) -> Vec<Chart> {
    let mut charts = vec![over_time(result), latency(result)];
    if !result.steps.is_empty() {
        charts.push(steps(result));
        charts.push(step_latency(result));
    }
    charts
}

/// A series joined by lines.
pub fn line(name: &str, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_string(), style: Style::Line, points }
}

fn over_time(result: &RunResult) -> Chart {
    let whole = result.figures.duration.as_secs_f64();
    let point = |(second, count): (usize, &u64)| {
        // The last second may have been a part of one.
        let part = (whole - second as f64).clamp(1e-3, 1.0);
        (second as f64 + part, *count as f64 / part)
    };
    let points = result.figures.per_second.iter().enumerate().map(point).collect();
    Chart {
        title: "Throughput over time".to_string(),
        x_label: "measured time, s".to_string(),
        y_label: "transactions per second".to_string(),
        x_is_logarithmic: false,
        series: vec![line("all transactions that ended", points)],
    }
}

fn percentile_points(latency_us: &Histogram<u64>) -> Vec<(f64, f64)> {
    let told = ONE_IN.iter().filter(|one_in| **one_in <= latency_us.len() as f64);
    told.map(|one_in| {
        let quantile = 1.0 - 1.0 / one_in;
        (*one_in, latency_us.value_at_quantile(quantile) as f64 / 1000.0)
    })
    .collect()
}

fn latency(result: &RunResult) -> Chart {
    let kinds = result.figures.transactions.iter().filter(|kind| kind.answered() > 0);
    Chart {
        title: "Latency by percentile".to_string(),
        x_label: "one call in so many is slower (2: median, 10: p90, 100: p99, 1000: p99.9)"
            .to_string(),
        y_label: "latency, ms".to_string(),
        x_is_logarithmic: true,
        series: kinds.map(|kind| line(kind.name, percentile_points(&kind.latency_us))).collect(),
    }
}

fn steps(result: &RunResult) -> Chart {
    let points = |of: fn(&super::ramp::RampStep) -> f64| {
        result.steps.iter().map(|step| (step.requested_per_s, of(step))).collect::<Vec<_>>()
    };
    Chart {
        title: "The ramp's steps".to_string(),
        x_label: "requested transactions per second".to_string(),
        y_label: "reached per second".to_string(),
        x_is_logarithmic: false,
        series: vec![
            line("reached", points(|step| step.reached_per_s)),
            Series {
                name: "requested".to_string(),
                style: Style::Dashed,
                points: points(|step| step.requested_per_s),
            },
        ],
    }
}

fn step_latency(result: &RunResult) -> Chart {
    let points = |of: fn(&super::ramp::RampStep) -> u64| {
        let point = |step: &super::ramp::RampStep| (step.requested_per_s, of(step) as f64 / 1e3);
        // A step without an answer has no latency.
        let answered = result.steps.iter().filter(|step| step.reached_per_s > 0.0);
        answered.map(point).collect::<Vec<_>>()
    };
    Chart {
        title: "Latency of the ramp's steps".to_string(),
        x_label: "requested transactions per second".to_string(),
        y_label: "latency, ms".to_string(),
        x_is_logarithmic: false,
        series: vec![
            line("p99", points(|step| step.p99_us)),
            line("p50", points(|step| step.p50_us)),
        ],
    }
}

/// Name and value of options as rows.
pub fn rows(pairs: &[(String, String)]) -> Vec<Vec<String>> {
    pairs.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect()
}

/// The page of a run; `own` are the workload's own figures.
pub fn page(
    title: &str,
    result: &RunResult,
    options: &[(String, String)],
    own: &[(String, String)],
) -> Page {
    let mut page = Page::new(title);
    let figures = &result.figures;
    if figures.interrupted {
        let seconds = figures.duration.as_secs_f64();
        page.text(&format!("PARTIAL: the run was cut short after {seconds:.1} s."));
    }
    if figures.lost_connections > 0 {
        page.text(&format!("{} connections were lost.", figures.lost_connections));
    }
    if let Some(error) = &figures.first_error {
        page.text(&format!("The first error was: {error}"));
    }
    page.heading("Result");
    let (head, body) = split_head(transaction_rows(figures));
    page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    page.table(&[], &rows(&processor_rows(result)));
    page.table(&[], &rows(own));
    charts(result).iter().for_each(|chart| {
        page.chart(chart);
    });
    if !result.steps.is_empty() {
        page.heading("Steps of the ramp");
        let (head, body) = split_head(steps_rows(result));
        page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &body);
    }
    page.heading("Checks behind the run");
    page.table(&["check", "", ""], &checks_rows(result));
    page.heading("Options").table(&[], &rows(options));
    add_machine(&mut page, &result.server);
    page
}

/// What the reader must know of the machine and the server.
pub fn add_machine(page: &mut Page, server: &[(String, String)]) {
    page.heading("Machine of the load").table(&[], &rows(&machine_facts()));
    if !server.is_empty() {
        page.heading("Server").table(&[], &rows(server));
    }
}

/// The head of a table apart from its rows.
pub fn split_head(mut rows: Vec<Vec<String>>) -> (Vec<String>, Vec<Vec<String>>) {
    let body = if rows.is_empty() { Vec::new() } else { rows.split_off(1) };
    (rows.pop().unwrap_or_default(), body)
}

/// Processor time of the measured time, as cores that were busy.
pub fn processor_rows(result: &RunResult) -> Vec<(String, String)> {
    let seconds = result.figures.duration.as_secs_f64().max(1e-9);
    let cores = |time: std::time::Duration| format!("{:.2}", time.as_secs_f64() / seconds);
    let processor = result.figures.processor;
    let mut rows = vec![("cores busy with the load".to_string(), cores(processor.load))];
    if let Some(servers) = processor.servers {
        rows.push(("cores busy with the servers".to_string(), cores(servers)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::*;
    use lockstep_workloads::{Check, Verdict};
    use std::time::Duration;

    fn result() -> RunResult {
        let mut figures = Figures::new(&["READ", "UPDATE"], Duration::from_millis(1500));
        (1..=1000).for_each(|us| figures.record(0, Verdict::Good, Duration::from_micros(us)));
        figures.per_second = vec![600, 400];
        figures.processor.load = Duration::from_millis(750);
        RunResult {
            figures,
            checks: vec![Check::equal("rows are kept", 5, 5)],
            loaded: None,
            steps: Vec::new(),
            server: Vec::new(),
            workers: Vec::new(),
        }
    }

    #[test]
    fn charts_show_rates_and_percentiles() {
        let charts = charts(&result());
        // The second second was half of one.
        assert_eq!(charts[0].series[0].points, [(1.0, 600.0), (1.5, 800.0)]);
        let latency = &charts[1].series;
        assert_eq!(latency.len(), 1, "a kind without calls is not drawn");
        assert_eq!(latency[0].points[3], (2.0, 0.5));
        assert_eq!(latency[0].points[9], (100.0, 0.99));
        assert_eq!(latency[0].points.len(), 12, "nothing beyond what a thousand calls tell");
    }

    #[test]
    fn a_page_says_what_was_run_and_where() {
        let mut result = result();
        let options = [("clients".to_string(), "8".to_string())];
        let html = page("key-value", &result, &options, &[]).to_html();
        for part in [
            "<td>clients</td><td>8</td>",
            "<td>cores</td>",
            "<td>kernel</td>",
            "<td>rows are kept</td>",
            "<td>READ</td><td>1 000</td>",
            "<td>cores busy with the load</td><td>0.50</td>",
            "Throughput over time",
            "Latency by percentile",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("PARTIAL"));
        result.figures.interrupted = true;
        assert!(page("x", &result, &[], &[]).to_html().contains("PARTIAL"));
    }
}
