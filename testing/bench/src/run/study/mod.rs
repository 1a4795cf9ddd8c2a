//! A study: one workload over a list of values of one thing (sites, clients, payload), or over all
//! combinations of several lists, each point repeated; and the scalability law over the first.

pub mod law;
pub mod report;
#[cfg(test)]
mod tests;

use super::RunResult;
use crate::usl::{Fit, Point};
use crate::verdict::median;

/// The percentiles that a point keeps, beside p95 and p99: those of the published delays.
pub const DELAYS: [u32; 6] = [20, 40, 50, 60, 80, 90];

/// Latency of a kind of transaction, or of all, in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Delays {
    /// The kind.
    pub name: String,
    /// Transactions per second.
    pub per_s: f64,
    /// At [`DELAYS`].
    pub at: [f64; DELAYS.len()],
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th.
    pub p99: f64,
}

/// What of a run a study keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// Transactions per second that were answered without failing.
    pub throughput_per_s: f64,
    /// Of all transactions.
    pub all: Delays,
    /// Of each kind.
    pub kinds: Vec<Delays>,
    /// Cores that were busy with the load.
    pub load_cores: f64,
    /// And with the servers, where that can be seen.
    pub server_cores: Option<f64>,
    /// The most resident memory of the server that the study started, in bytes.
    pub server_bytes: Option<u64>,
    /// Transactions that took themselves back.
    pub aborted: u64,
    /// Transactions that failed.
    pub errors: u64,
    /// Checks that do not hold.
    pub wrong: Vec<String>,
    /// Whether the run was whole and all was well.
    pub good: bool,
}

impl Repeat {
    /// What is kept of a result.
    pub fn of(result: &RunResult, server_bytes: Option<u64>) -> Repeat {
        let figures = &result.figures;
        let seconds = figures.duration.as_secs_f64().max(1e-9);
        let delays = |name: &str, answered: u64, latency: &hdrhistogram::Histogram<u64>| {
            let at = |percent: u32| latency.value_at_quantile(f64::from(percent) / 100.0) as f64;
            Delays {
                name: name.to_string(),
                per_s: answered as f64 / seconds,
                at: DELAYS.map(at),
                p95: at(95),
                p99: at(99),
            }
        };
        let kinds = figures.transactions.iter().filter(|kind| kind.answered() > 0);
        let wrong = result.checks.iter().filter(|check| !check.holds);
        Repeat {
            throughput_per_s: figures.throughput_per_s(),
            all: delays("all", figures.answered(), &figures.latency_us),
            kinds: kinds.map(|kind| delays(kind.name, kind.answered(), &kind.latency_us)).collect(),
            load_cores: figures.processor.load.as_secs_f64() / seconds,
            server_cores: figures.processor.servers.map(|time| time.as_secs_f64() / seconds),
            server_bytes,
            aborted: figures.transactions.iter().map(|kind| kind.aborted).sum(),
            errors: figures.errors(),
            wrong: wrong.map(|check| format!("{}: {}", check.name, check.detail)).collect(),
            good: result.is_good(),
        }
    }
}

/// One combination of values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StudyPoint {
    /// A value of each thing that is varied.
    pub values: Vec<u64>,
    /// Its runs.
    pub repeats: Vec<Repeat>,
    /// Why it, or a repeat of it, did not run.
    pub failed: Option<String>,
    /// The fit does without it.
    pub left_out: bool,
}

impl StudyPoint {
    /// The median of a figure over the repeats.
    pub fn median(&self, of: impl Fn(&Repeat) -> f64) -> f64 {
        median(self.repeats.iter().map(of))
    }

    /// The median of a kind's figure.
    fn median_of_kind(&self, name: &str, of: impl Fn(&Delays) -> f64) -> Option<f64> {
        let found: Vec<f64> = self
            .repeats
            .iter()
            .filter_map(|repeat| repeat.kinds.iter().find(|kind| kind.name == name))
            .map(of)
            .collect();
        (!found.is_empty()).then(|| median(found))
    }
}

/// A whole study.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// The workload.
    pub workload: String,
    /// What is varied.
    pub varied: Vec<String>,
    /// All points that were begun, in order.
    pub points: Vec<StudyPoint>,
    /// The law is fitted over what is varied.
    pub fits: bool,
    /// The study was cut short.
    pub interrupted: bool,
    /// What the last server said of itself.
    pub server: Vec<(String, String)>,
}

impl Study {
    /// Whether all points ran and all was well.
    pub fn is_good(&self) -> bool {
        let good = |point: &StudyPoint| {
            point.failed.is_none() && point.repeats.iter().all(|repeat| repeat.good)
        };
        !self.interrupted && self.points.iter().all(good)
    }

    /// The law over all repeats of all points that are not left out; `None` where it has no
    /// meaning over what is varied.
    pub fn fit(&self) -> Option<Result<Fit, String>> {
        if !self.fits {
            return None;
        }
        let kept = self.points.iter().filter(|point| !point.left_out);
        let points: Vec<Point> = kept
            .flat_map(|point| {
                let load = point.values.first().copied().unwrap_or(0) as f64;
                point
                    .repeats
                    .iter()
                    .map(move |repeat| Point { load, throughput_per_s: repeat.throughput_per_s })
            })
            .collect();
        Some(Fit::new(&points))
    }

    /// The kinds of transactions that were seen, in order.
    fn kinds(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let repeats = self.points.iter().flat_map(|point| &point.repeats);
        for kind in repeats.flat_map(|repeat| &repeat.kinds) {
            if !names.contains(&kind.name) {
                names.push(kind.name.clone());
            }
        }
        names
    }
}
