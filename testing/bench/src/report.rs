//! What a run shows: progress while it goes on, an aligned table and JSON at its end.

use crate::driver::Measured;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The state of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// The whole run, warm-up included.
    pub total: Duration,
    /// Nothing is measured yet.
    pub warming_up: bool,
    /// Calls answered per second since the last report.
    pub rate_per_s: f64,
    /// Calls that failed.
    pub errors: u64,
    /// The median latency so far.
    pub p50_us: u64,
    /// The 99th percentile so far.
    pub p99_us: u64,
}

impl Progress {
    /// One line with a bar.
    pub fn line(&self) -> String {
        const WIDTH: usize = 16;
        let share = self.elapsed.as_secs_f64() / self.total.as_secs_f64().max(1e-9);
        let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
        format!(
            "[{}{}] {:>2.0} of {:.0} s{}  {:>9}/s  p50 {} us  p99 {} us  errors {}",
            "#".repeat(filled),
            "-".repeat(WIDTH - filled),
            self.elapsed.as_secs_f64().min(self.total.as_secs_f64()),
            self.total.as_secs_f64(),
            if self.warming_up { " (warm-up)" } else { "" },
            grouped(self.rate_per_s as u64),
            grouped(self.p50_us),
            grouped(self.p99_us),
            self.errors
        )
    }
}

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Calls answered per second.
pub fn throughput_per_s(measured: &Measured) -> f64 {
    measured.transactions as f64 / measured.duration.as_secs_f64()
}

/// The result as JSON; the options and the workload's own figures stand beside.
pub fn json(measured: &Measured, options: Value, own: Map<String, Value>) -> Value {
    let at = |quantile| measured.latency_us.value_at_quantile(quantile);
    let mut result = json!({
        "throughput_per_s": throughput_per_s(measured),
        "latency_us": {
            "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "p999": at(0.999),
            "max": measured.latency_us.max(),
        },
        "transactions": measured.transactions,
        "errors": measured.errors,
        "late": measured.late,
        "first_error": measured.first_error,
        "duration_s": measured.duration.as_secs_f64(),
        "options": options,
    });
    if let Value::Object(map) = &mut result {
        map.extend(own);
    }
    result
}

/// The result as an aligned table, with the workload's own rows after.
pub fn table(measured: &Measured, own: &[(String, String)]) -> String {
    let at = |quantile| format!("{} us", grouped(measured.latency_us.value_at_quantile(quantile)));
    let mut rows = vec![
        ("calls per second".to_string(), grouped(throughput_per_s(measured) as u64)),
        ("calls".to_string(), grouped(measured.transactions)),
        ("errors".to_string(), grouped(measured.errors)),
        ("latency p50".to_string(), at(0.5)),
        ("latency p95".to_string(), at(0.95)),
        ("latency p99".to_string(), at(0.99)),
        ("latency p99.9".to_string(), at(0.999)),
        ("latency max".to_string(), format!("{} us", grouped(measured.latency_us.max()))),
    ];
    rows.extend_from_slice(own);
    let name = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let value = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
    rows.iter().map(|row| format!("{:name$}  {:>value$}\n", row.0, row.1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_fits_a_terminal() {
        let progress = Progress {
            elapsed: Duration::from_secs(4),
            total: Duration::from_secs(16),
            warming_up: false,
            rate_per_s: 1_234_567.8,
            errors: 0,
            p50_us: 411,
            p99_us: 12_345,
        };
        let expected = "[####------------]  4 of 16 s  1 234 567/s  p50 411 us  p99 12 345 us  \
                        errors 0";
        assert_eq!(progress.line(), expected);
        assert!(expected.len() <= 80);
    }

    #[test]
    fn results_are_aligned() {
        let mut latency_us = crate::driver::latency_histogram();
        (1..=1000).for_each(|us| latency_us.saturating_record(us));
        let measured = Measured {
            transactions: 2000,
            all: 2500,
            errors: 0,
            duration: Duration::from_secs(2),
            latency_us,
            first_error: None,
            late: 0,
            calls: Vec::new(),
        };
        let own = [("votes accepted".to_string(), "7".to_string())];
        let expected = "calls per second     1 000
calls                2 000
errors                   0
latency p50         500 us
latency p95         950 us
latency p99         990 us
latency p99.9       999 us
latency max       1 000 us
votes accepted           7
";
        assert_eq!(table(&measured, &own), expected);
        let json = json(&measured, serde_json::json!({"seed": 1}), Map::new());
        assert_eq!(json["throughput_per_s"], 1000.0);
        assert_eq!(json["latency_us"]["p999"], 999);
        assert_eq!(json["options"]["seed"], 1);
    }

    #[test]
    fn thousands_are_apart() {
        let shown: Vec<_> = [0, 999, 1000, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1 000", "1 234 567"]);
    }
}
