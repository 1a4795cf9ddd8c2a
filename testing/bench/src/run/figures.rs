//! What a run measured, per kind of transaction.

use super::usage::ProcessorTime;
use crate::driver::latency_histogram;
use crate::stalls::TimedCall;
use hdrhistogram::Histogram;
use lockstep_workloads::Verdict;
use std::time::{Duration, Instant};

/// One kind of transaction.
#[derive(Debug, Clone)]
pub struct TransactionFigures {
    /// Its name.
    pub name: &'static str,
    /// Those that did what they were to do.
    pub good: u64,
    /// Those that took themselves back, as the workload means some to.
    pub aborted: u64,
    /// Those that failed.
    pub errors: u64,
    /// Latency in microseconds of all but those that failed.
    pub latency_us: Histogram<u64>,
}

impl TransactionFigures {
    /// Those that were answered without failing.
    pub fn answered(&self) -> u64 {
        self.good + self.aborted
    }
}

/// A run.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Per kind, within the measured time.
    pub transactions: Vec<TransactionFigures>,
    /// Latency of all kinds, in microseconds.
    pub latency_us: Histogram<u64>,
    /// The measured time.
    pub duration: Duration,
    /// What sessions began and ended: what a rate counts. A turn of lock-store is a record with
    /// all its locks and writes, a turn of most workloads one transaction.
    pub turns: u64,
    /// Transactions that ended in each second of the measured time.
    pub per_second: Vec<u64>,
    /// Transactions of an open loop that were begun late because all clients were busy.
    pub late: u64,
    /// Those that ended at any time: in the warm-up and after the end as well.
    pub all: u64,
    /// The first failure's text.
    pub first_error: Option<String>,
    /// Connections that were lost.
    pub lost_connections: u64,
    /// The run was cut short.
    pub interrupted: bool,
    /// Every call was answered.
    pub complete: bool,
    /// What sessions counted, over the whole run.
    pub counts: Vec<u64>,
    /// Processor time within the measured time.
    pub processor: ProcessorTime,
    /// The transactions of the kind that was to be kept.
    pub calls: Vec<TimedCall>,
}

impl Figures {
    /// Nothing measured yet.
    pub fn new(names: &[&'static str], duration: Duration) -> Figures {
        let kind = |name: &&'static str| TransactionFigures {
            name,
            good: 0,
            aborted: 0,
            errors: 0,
            latency_us: latency_histogram(),
        };
        Figures {
            transactions: names.iter().map(kind).collect(),
            latency_us: latency_histogram(),
            duration,
            turns: 0,
            per_second: Vec::new(),
            late: 0,
            all: 0,
            first_error: None,
            lost_connections: 0,
            interrupted: false,
            complete: true,
            counts: Vec::new(),
            processor: ProcessorTime::default(),
            calls: Vec::new(),
        }
    }

    /// Counts a transaction of the measured time.
    #[inline]
    pub fn record(&mut self, kind: usize, verdict: Verdict, latency: Duration) {
        let figures = &mut self.transactions[kind];
        match verdict {
            Verdict::Good => figures.good += 1,
            Verdict::Aborted => figures.aborted += 1,
            Verdict::Error => {
                figures.errors += 1;
                return;
            }
        }
        let latency_us = latency.as_micros() as u64;
        figures.latency_us.saturating_record(latency_us);
        self.latency_us.saturating_record(latency_us);
    }

    /// Counts a transaction in its second.
    pub fn count_second(&mut self, measuring_from: Instant, now: Instant) {
        let second = now.duration_since(measuring_from).as_secs() as usize;
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += 1;
    }

    /// Adds those of another load that ran at the same time.
    pub fn add(&mut self, other: &Figures) {
        for (kind, more) in self.transactions.iter_mut().zip(&other.transactions) {
            kind.good += more.good;
            kind.aborted += more.aborted;
            kind.errors += more.errors;
            add_histogram(&mut kind.latency_us, &more.latency_us);
        }
        add_histogram(&mut self.latency_us, &other.latency_us);
        add_counts(&mut self.per_second, &other.per_second);
        add_counts(&mut self.counts, &other.counts);
        self.turns += other.turns;
        self.late += other.late;
        self.all += other.all;
        self.lost_connections += other.lost_connections;
        self.interrupted |= other.interrupted;
        self.complete &= other.complete;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        self.calls.extend_from_slice(&other.calls);
        self.processor = self.processor.and(&other.processor);
    }

    /// Transactions that were answered without failing.
    pub fn answered(&self) -> u64 {
        self.transactions.iter().map(TransactionFigures::answered).sum()
    }

    /// Transactions that failed.
    pub fn errors(&self) -> u64 {
        self.transactions.iter().map(|figures| figures.errors).sum()
    }

    /// Transactions per second that were answered without failing.
    pub fn throughput_per_s(&self) -> f64 {
        self.answered() as f64 / self.duration.as_secs_f64().max(1e-9)
    }
}

fn add_histogram(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    sum.add(more).expect("all latency histograms have one range");
}

fn add_counts(sum: &mut Vec<u64>, more: &[u64]) {
    sum.resize(sum.len().max(more.len()), 0);
    sum.iter_mut().zip(more).for_each(|(sum, count)| *sum += count);
}
