//! What is watched while a load is driven: its progress, and the processor time of the measured
//! time.

use super::figures::Figures;
use super::usage::ProcessorTime;
use crate::report::Progress;
use std::time::{Duration, Instant};

/// Between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// A moment of a run.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// When it is.
    pub now: Instant,
    /// Begin of the measured time.
    pub measuring_from: Instant,
    /// Its end.
    pub until: Instant,
}

/// Takes the processor time at both ends of the measured time.
pub struct Watch<'p> {
    processes: &'p [u32],
    begin: Option<ProcessorTime>,
    end: Option<ProcessorTime>,
}

impl Watch<'_> {
    /// Of this process and of those of the servers.
    pub fn new(processes: &[u32]) -> Watch<'_> {
        Watch { processes, begin: None, end: None }
    }

    /// Looks whether one of the ends has come.
    pub fn look(&mut self, moment: &Moment) {
        if self.begin.is_none() && moment.now >= moment.measuring_from {
            self.begin = Some(ProcessorTime::now(self.processes));
        }
        if self.end.is_none() && moment.now >= moment.until {
            self.end = Some(ProcessorTime::now(self.processes));
        }
    }

    /// The processor time of the measured time.
    pub fn passed(&self) -> ProcessorTime {
        let end = self.end.unwrap_or_else(|| ProcessorTime::now(self.processes));
        self.begin.map_or_else(ProcessorTime::default, |begin| end.since(&begin))
    }
}

/// Tells of the progress at intervals.
pub struct Reporter {
    start: Instant,
    last: Instant,
    last_all: u64,
}

impl Reporter {
    /// Of a run that begins then.
    pub fn new(start: Instant) -> Reporter {
        Reporter { start, last: start, last_all: 0 }
    }

    /// Tells of the progress if it is time.
    pub fn report(
        &mut self,
        moment: &Moment,
        figures: &Figures,
        progress: &mut dyn FnMut(&Progress),
    ) {
        let now = moment.now;
        let since = now - self.last;
        if since < REPORT_INTERVAL {
            return;
        }
        progress(&Progress {
            elapsed: now - self.start,
            total: moment.until - self.start,
            warming_up: now < moment.measuring_from,
            rate_per_s: (figures.all - self.last_all) as f64 / since.as_secs_f64(),
            errors: figures.errors(),
            p50_us: figures.latency_us.value_at_quantile(0.5),
            p99_us: figures.latency_us.value_at_quantile(0.99),
        });
        self.last = now;
        self.last_all = figures.all;
    }
}
