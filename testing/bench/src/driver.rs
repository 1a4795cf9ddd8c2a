//! The load driver: one thread, many connections, calls in a closed loop or at a rate.
//!
//! *Closed loop*: each connection keeps a fixed number of calls in flight. *Open loop*: calls are
//! due at even intervals whatever the server does, and the latency of a call counts from when it
//! was due, so that a stalled server is charged for the calls that waited (the correction for
//! coordinated omission).

use crate::report::Progress;
use crate::stalls::{TimedCall, wall_us};
use hdrhistogram::Histogram;
use lockstep_client::{
    Call, CallOptions, ClientError, ConnectOptions, ConnectionIndex, Pipeline, Response,
};
use std::time::{Duration, Instant};

/// The greatest latency that is distinguished, in microseconds.
const MAX_LATENCY_US: u64 = 600_000_000;
/// An open loop sends what became due since the last time this often; the latency of a call
/// counts from its own due time all the same. Sent singly, hundreds of thousands of calls a
/// second would measure the load's own system calls on both sides.
const OPEN_LOOP_TICK: Duration = Duration::from_micros(50);
/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// What the driver runs.
pub trait Workload {
    /// Encodes the next call's parameters (their count in front) and returns its procedure.
    /// `connection` is the place of its connection.
    fn next_call(&mut self, connection: usize, parameters: &mut Vec<u8>) -> &'static str;

    /// Judges a response. `measured` is false during the warm-up.
    fn completed(&mut self, response: &Response<'_>, measured: bool) -> Verdict;
}

/// What a response was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The call did what it was to do.
    Good,
    /// The call failed.
    Error,
}

/// How to drive.
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// Addresses; connections are spread over them.
    pub servers: Vec<String>,
    /// Connections.
    pub connections: usize,
    /// Calls in flight on each connection; in an open loop the greatest number.
    pub pipeline: usize,
    /// Calls per second; `None` is a closed loop.
    pub rate_per_s: Option<f64>,
    /// What is measured.
    pub duration: Duration,
    /// What runs before, unmeasured.
    pub warmup: Duration,
    /// Keep every measured call's time ([`Measured::calls`]): for runs of seconds.
    pub keep_calls: bool,
    /// In a closed loop the client asks for answers all the time. Where it shares a machine with
    /// the servers, these would have to wake it, which on a network its own machine does; and more
    /// often the less there is to do.
    pub never_sleeps: bool,
}

/// What came of it.
pub struct Measured {
    /// Calls that were answered within the measured time.
    pub transactions: u64,
    /// All calls that were answered: those of the warm-up and of the end as well.
    pub all: u64,
    /// Those that failed.
    pub errors: u64,
    /// The measured time.
    pub duration: Duration,
    /// Latency in microseconds.
    pub latency_us: Histogram<u64>,
    /// The first error's text.
    pub first_error: Option<String>,
    /// Calls of an open loop that could not be sent when they were due, because the most calls
    /// were in flight already.
    pub late: u64,
    /// Every measured call, if they are kept.
    pub calls: Vec<TimedCall>,
}

/// An empty latency histogram.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_max(MAX_LATENCY_US, 3).expect("three digits up to ten minutes are valid")
}

struct Run<'w, W> {
    workload: &'w mut W,
    measured: Measured,
    measuring_from: Instant,
    until: Instant,
    parameters: Vec<u8>,
    /// A moment by both clocks, if calls are kept.
    kept_from: Option<(Instant, u64)>,
}

impl<W: Workload> Run<'_, W> {
    /// Counts a completion; true while further calls are wanted.
    #[inline]
    fn count(
        &mut self,
        result: Result<Response<'_>, ClientError>,
        latency: Duration,
        now: Instant,
    ) -> bool {
        let measured = now >= self.measuring_from && now < self.until;
        self.measured.all += 1;
        let verdict = match &result {
            Ok(response) => self.workload.completed(response, measured),
            Err(_) => Verdict::Error,
        };
        if verdict == Verdict::Error && self.measured.first_error.is_none() {
            self.measured.first_error = Some(match result {
                Ok(response) => response.status_text.unwrap_or("no status text").to_string(),
                Err(error) => error.to_string(),
            });
        }
        if measured {
            self.measured.transactions += 1;
            self.measured.errors += u64::from(verdict == Verdict::Error);
            self.measured.latency_us.saturating_record(latency.as_micros() as u64);
            self.keep(latency, now);
        }
        now < self.until
    }

    fn keep(&mut self, latency: Duration, now: Instant) {
        if let Some((instant, instant_us)) = self.kept_from {
            let latency_us = latency.as_micros() as u64;
            let ended_us = instant_us + now.saturating_duration_since(instant).as_micros() as u64;
            let due_us = ended_us.saturating_sub(latency_us);
            let latency_us = u32::try_from(latency_us).unwrap_or(u32::MAX);
            self.measured.calls.push(TimedCall { due_us, latency_us });
        }
    }
}

/// Runs a workload. `progress` is told of the state four times a second.
///
/// # Errors
/// A server cannot be reached or a connection is lost.
pub fn drive<W: Workload>(
    options: &DriverOptions,
    workload: &mut W,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Measured, ClientError> {
    let connect = ConnectOptions { max_in_flight: options.pipeline, ..ConnectOptions::default() };
    let mut pipeline = Pipeline::new(&connect)?;
    for number in 0..options.connections {
        pipeline.connect(&options.servers[number % options.servers.len()])?;
    }
    let start = Instant::now();
    let measuring_from = start + options.warmup;
    let mut run = Run {
        workload,
        measured: Measured {
            transactions: 0,
            all: 0,
            errors: 0,
            duration: options.duration,
            latency_us: latency_histogram(),
            first_error: None,
            late: 0,
            calls: Vec::new(),
        },
        measuring_from,
        until: measuring_from + options.duration,
        parameters: Vec::new(),
        kept_from: options.keep_calls.then(|| (start, wall_us())),
    };
    match options.rate_per_s {
        None => closed_loop(&mut pipeline, options, &mut run, progress)?,
        Some(rate) => open_loop(&mut pipeline, options, rate, &mut run, progress)?,
    }
    drain(&mut pipeline, &mut run)?;
    Ok(run.measured)
}

fn closed_loop<W: Workload>(
    pipeline: &mut Pipeline,
    options: &DriverOptions,
    run: &mut Run<'_, W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), ClientError> {
    let start = Instant::now();
    for connection in 0..options.connections {
        for _ in 0..options.pipeline {
            run.parameters.clear();
            let procedure = run.workload.next_call(connection, &mut run.parameters);
            let call = Call::new(procedure, &run.parameters, start);
            pipeline.submit(ConnectionIndex(connection), &call)?;
        }
    }
    let mut reporter = Reporter::new(start);
    let patience = if options.never_sleeps { Duration::ZERO } else { Duration::from_millis(10) };
    loop {
        let mut failed = None;
        pipeline.poll(patience, |completion, outgoing| {
            let now = completion.completed_at;
            let lost =
                completion.result.as_ref().err().is_some_and(ClientError::is_connection_lost);
            let go_on = run.count(completion.result, completion.latency, now);
            if lost || !go_on {
                return;
            }
            run.parameters.clear();
            let procedure = run.workload.next_call(outgoing.connection().0, &mut run.parameters);
            let call = Call::new(procedure, &run.parameters, now);
            if let Err(error) = outgoing.submit(&call) {
                failed = Some(error);
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let now = Instant::now();
        reporter.report(now, run, progress);
        if now >= run.until || pipeline.in_flight() == 0 {
            return Ok(());
        }
    }
}

fn open_loop<W: Workload>(
    pipeline: &mut Pipeline,
    options: &DriverOptions,
    rate_per_s: f64,
    run: &mut Run<'_, W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), ClientError> {
    let start = Instant::now();
    let interval_ns = 1e9 / rate_per_s;
    let mut last_sent = start;
    let mut sent = 0u64;
    let mut connection = 0;
    let mut reporter = Reporter::new(start);
    loop {
        let now = Instant::now();
        if now >= run.until {
            return Ok(());
        }
        let due = match now.duration_since(last_sent) >= OPEN_LOOP_TICK {
            true => (now.duration_since(start).as_nanos() as f64 / interval_ns) as u64,
            false => sent,
        };
        if sent < due {
            last_sent = now;
        }
        while sent < due {
            let Some(free) = next_free(pipeline, connection, options) else {
                run.measured.late += 1;
                break;
            };
            connection = free;
            run.parameters.clear();
            let procedure = run.workload.next_call(free, &mut run.parameters);
            let due_at = start + Duration::from_nanos((sent as f64 * interval_ns) as u64);
            let call = Call {
                procedure,
                parameters: &run.parameters,
                options: CallOptions::default(),
                context: 0,
                started_at: due_at,
            };
            pipeline.submit(ConnectionIndex(free), &call)?;
            sent += 1;
        }
        // What is due within a tick goes out together, on one connection after the other.
        if last_sent == now {
            connection = (connection + 1) % options.connections;
        }
        let completed = pipeline.poll(Duration::ZERO, |completion, _| {
            run.count(completion.result, completion.latency, completion.completed_at);
        })?;
        if completed == 0 {
            // A load that spins leaves the servers' core to everything else of the machine.
            std::thread::sleep(OPEN_LOOP_TICK / 2);
        }
        reporter.report(now, run, progress);
    }
}

fn next_free(pipeline: &Pipeline, from: usize, options: &DriverOptions) -> Option<usize> {
    (0..options.connections)
        .map(|step| (from + step) % options.connections)
        .find(|&place| pipeline.in_flight_on(ConnectionIndex(place)) < options.pipeline)
}

/// Waits for what is still in flight: it is counted by the workload, not measured.
fn drain<W: Workload>(pipeline: &mut Pipeline, run: &mut Run<'_, W>) -> Result<(), ClientError> {
    let patience = Instant::now() + Duration::from_secs(30);
    while pipeline.in_flight() > 0 {
        if Instant::now() > patience {
            return Err(ClientError::TimedOut { waited: Duration::from_secs(30) });
        }
        pipeline.poll(Duration::from_millis(10), |completion, _| {
            run.count(completion.result, completion.latency, completion.completed_at);
        })?;
    }
    Ok(())
}

struct Reporter {
    start: Instant,
    last: Instant,
    last_all: u64,
}

impl Reporter {
    fn new(start: Instant) -> Reporter {
        Reporter { start, last: start, last_all: 0 }
    }

    fn report<W>(&mut self, now: Instant, run: &Run<'_, W>, progress: &mut dyn FnMut(&Progress)) {
        let since = now - self.last;
        if since < REPORT_INTERVAL {
            return;
        }
        let latency = &run.measured.latency_us;
        progress(&Progress {
            elapsed: now - self.start,
            total: run.until - self.start,
            warming_up: now < run.measuring_from,
            rate_per_s: (run.measured.all - self.last_all) as f64 / since.as_secs_f64(),
            errors: run.measured.errors,
            p50_us: latency.value_at_quantile(0.5),
            p99_us: latency.value_at_quantile(0.99),
        });
        self.last = now;
        self.last_all = run.measured.all;
    }
}
