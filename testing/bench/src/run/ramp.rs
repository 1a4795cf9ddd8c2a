//! A ramp: the rate rises step by step until the database cannot follow.

use super::figures::{Figures, TransactionFigures};
use super::study::DELAYS;
use std::time::Duration;

/// Of what is asked for, the share that a good step reaches.
const REACHED: f64 = 0.9;
/// The most steps.
const MAX_STEPS: u32 = 1000;

/// How a rate rises.
#[derive(Debug, Clone, PartialEq)]
pub struct Ramp {
    /// Transactions per second of the first step.
    pub first_per_s: f64,
    /// And what each further one adds.
    pub step_per_s: f64,
    /// A step whose 99th percentile is greater is not good.
    pub p99_limit: Duration,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct RampStep {
    /// Turns per second that were asked for ([`Figures::turns`]).
    pub requested_per_s: f64,
    /// And reached.
    pub reached_per_s: f64,
    /// The median latency.
    pub p50_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// Latency of each kind of transaction in microseconds, at [`DELAYS`].
    pub delays_us: Vec<(&'static str, [u64; DELAYS.len()])>,
    /// Transactions that failed.
    pub errors: u64,
    /// Whether the database followed.
    pub good: bool,
}

impl Ramp {
    /// The step that figures are.
    fn step(&self, requested_per_s: f64, figures: &Figures) -> RampStep {
        let reached_per_s = figures.turns as f64 / figures.duration.as_secs_f64().max(1e-9);
        let p99_us = figures.latency_us.value_at_quantile(0.99);
        let good = reached_per_s >= REACHED * requested_per_s
            && u128::from(p99_us) <= self.p99_limit.as_micros()
            && figures.errors() == 0
            && !figures.interrupted;
        let kinds = figures.transactions.iter().filter(|kind| kind.answered() > 0);
        let delays = |kind: &TransactionFigures| {
            let at = |percent: u32| kind.latency_us.value_at_quantile(f64::from(percent) / 100.0);
            (kind.name, DELAYS.map(at))
        };
        RampStep {
            requested_per_s,
            reached_per_s,
            p50_us: figures.latency_us.value_at_quantile(0.5),
            p99_us,
            delays_us: kinds.map(delays).collect(),
            errors: figures.errors(),
            good,
        }
    }
}

/// Climbs: drives one step after the other, and returns the figures of the last good one (of the
/// first, where none was good) and all steps.
///
/// # Errors
/// What driving fails with.
pub fn climb(
    ramp: &Ramp,
    seed: u64,
    drive_at: &mut dyn FnMut(Option<f64>, u64) -> Result<Figures, String>,
) -> Result<(Figures, Vec<RampStep>), String> {
    let mut steps: Vec<RampStep> = Vec::new();
    let mut best: Option<Figures> = None;
    let mut counts: Vec<u64> = Vec::new();
    let (mut complete, mut lost, mut interrupted) = (true, 0, false);
    for number in 0..MAX_STEPS {
        let rate = ramp.first_per_s + f64::from(number) * ramp.step_per_s;
        // Each step has sessions of its own: what they follow from must differ.
        let figures = drive_at(Some(rate), seed.wrapping_add(u64::from(number) << 32))?;
        counts.resize(figures.counts.len().max(counts.len()), 0);
        counts.iter_mut().zip(&figures.counts).for_each(|(sum, count)| *sum += count);
        complete &= figures.complete;
        (lost, interrupted) = (figures.lost_connections, figures.interrupted);
        let step = ramp.step(rate, &figures);
        let good = step.good;
        steps.push(step);
        if good || best.is_none() {
            best = Some(figures);
        }
        if !good {
            break;
        }
    }
    let mut figures = best.ok_or("a ramp needs a step")?;
    (figures.counts, figures.complete) = (counts, complete);
    (figures.lost_connections, figures.interrupted) = (lost, interrupted);
    Ok((figures, steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_workloads::Verdict;

    /// Figures of one second at a rate, as far as a database of `peak` follows.
    fn figures(rate: f64, peak: f64) -> Figures {
        let mut figures = Figures::new(&["t"], Duration::from_secs(1));
        let latency = Duration::from_micros(if rate > peak { 20_000 } else { 100 });
        (0..rate.min(peak) as u64).for_each(|_| figures.record(0, Verdict::Good, latency));
        (figures.counts, figures.turns) = (vec![1], rate.min(peak) as u64);
        figures
    }

    #[test]
    fn a_ramp_ends_where_the_database_cannot_follow() {
        let mut ramp =
            Ramp { first_per_s: 1000.0, step_per_s: 2000.0, p99_limit: Duration::from_secs(1) };
        let mut seeds = Vec::new();
        let mut drive_at = |rate: Option<f64>, seed| {
            seeds.push(seed);
            Ok(figures(rate.expect("a rate"), 6000.0))
        };
        let (best, steps) = climb(&ramp, 7, &mut drive_at).expect("it climbs");
        let good: Vec<bool> = steps.iter().map(|step| step.good).collect();
        assert_eq!(good, [true, true, true, false]);
        assert_eq!((best.answered(), best.counts), (5000, vec![4]));
        seeds.dedup();
        assert_eq!(seeds.len(), 4);
        // A failure ends it as well.
        let mut fails = |rate: Option<f64>, _| {
            let mut figures = figures(rate.expect("a rate"), 6000.0);
            if rate > Some(2000.0) {
                figures.record(0, Verdict::Error, Duration::ZERO);
            }
            Ok(figures)
        };
        let (_, steps) = climb(&ramp, 7, &mut fails).expect("it climbs");
        assert_eq!(steps.iter().map(|step| step.good).collect::<Vec<_>>(), [true, false]);
        assert_eq!(steps[0].delays_us, [("t", [100; 6])]);
        // 6 000 of 6 500 are enough, but for the latency.
        (ramp.first_per_s, ramp.step_per_s) = (6500.0, 0.0);
        let mut steps = |limit_ms| {
            ramp.p99_limit = Duration::from_millis(limit_ms);
            let mut rounds = 0;
            let mut drive_at = |rate: Option<f64>, _| {
                rounds += 1;
                Ok(figures(rate.expect("a rate"), if rounds < 3 { 6000.0 } else { 5000.0 }))
            };
            climb(&ramp, 1, &mut drive_at).expect("it climbs").1.len()
        };
        assert_eq!((steps(30), steps(10)), (3, 1));
    }
}
