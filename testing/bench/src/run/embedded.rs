//! Workloads without sockets: calls go as bytes into a host of one site inside this process, on
//! this thread, and come back as bytes. Sessions take turns; their pauses are left out.

use super::drive::answer;
use super::figures::Figures;
use super::fill::FillProgress;
use super::usage::ProcessorTime;
use super::{Pace, Report, RunOptions, RunResult, refuse_missing, unasked};
use crate::report::Progress;
use lockstep_base::bytes::ByteReader;
use lockstep_client::rows;
use lockstep_client::{CallOptions, ParameterWriter, Response};
use lockstep_node::NativeRegistry;
use lockstep_node::embedded::EmbeddedHost;
use lockstep_node::options::Options;
use lockstep_types::{Datum, Status, TableView, Value};
use lockstep_wire_volt::invocation;
use lockstep_workloads::{Database, Found, Next, RowSink, Session, TableToFill, Verdict, Workload};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;
/// Rows of one INSERT.
const ROWS_AT_ONCE: u64 = 200;
/// Between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// A host of one site.
pub struct EmbeddedDatabase {
    host: EmbeddedHost,
    frame: Vec<u8>,
    response: Vec<u8>,
    parameters: ParameterWriter,
}

impl EmbeddedDatabase {
    /// An empty one.
    ///
    /// # Errors
    /// What the host refused.
    pub fn new() -> Result<EmbeddedDatabase, String> {
        let mut natives = NativeRegistry::default();
        for procedure in lockstep_workloads::native_procedures() {
            natives.register(procedure);
        }
        let host =
            EmbeddedHost::new(&Options::default(), natives).map_err(|failure| failure.message)?;
        Ok(EmbeddedDatabase {
            host,
            frame: Vec::new(),
            response: Vec::new(),
            parameters: ParameterWriter::default(),
        })
    }

    /// Runs DDL or DML.
    ///
    /// # Errors
    /// What the host refused.
    pub fn execute(&mut self, sql: &str) -> Result<(), String> {
        self.host.ad_hoc(sql).map(|_| ()).map_err(|failure| failure.message)
    }

    /// Runs an invocation, given as a frame's body, and appends the answer's frame to `response`.
    #[inline]
    pub fn call(&mut self, body: &[u8], response: &mut Vec<u8>) -> Status {
        self.host.call(body, response)
    }

    /// Makes the workload's tables and fills them; returns the rows.
    ///
    /// # Errors
    /// What the host refused.
    pub fn set_up(
        &mut self,
        workload: &dyn Workload,
        progress: &mut dyn FnMut(FillProgress),
    ) -> Result<u64, String> {
        for text in workload.schema().into_iter().chain(workload.procedures()) {
            self.execute(&text)?;
        }
        let tables = workload.tables();
        let total = tables.iter().map(|table| table.rows).sum();
        let texts = tables.iter().map(|_| (String::new(), 0)).collect();
        let mut sink = TextSink { database: self, tables, texts, rows: 0, total, progress };
        workload.fill(&mut sink)?;
        sink.finish()
    }

    /// Makes a session's next call.
    pub fn step(&mut self, session: &mut dyn Session) -> Step<'_> {
        self.parameters.clear();
        let next = session.next_call(&mut self.parameters);
        self.frame.clear();
        let options = CallOptions {
            all_partition_destination: session.asked_partition(),
            ..CallOptions::default()
        };
        let parameters = self.parameters.bytes();
        invocation::encode(&mut self.frame, next.procedure, 0, &options, parameters);
        self.response.clear();
        self.host.call(&self.frame[LENGTH_BYTES..], &mut self.response);
        let body = self.response.get(LENGTH_BYTES..).unwrap_or_default();
        let Ok(response) = Response::decode(body) else {
            let text = "the answer cannot be read";
            let ended = Some(Verdict::Error);
            return Step { kind: next.transaction, ended, goes_on: false, text };
        };
        let Next { ended, goes_on, .. } = session.answered(&answer(&response));
        let text = response.status_text.unwrap_or("the answer is wrong");
        Step { kind: next.transaction, ended, goes_on, text }
    }
}

/// What came of a call.
#[derive(Debug)]
pub struct Step<'a> {
    /// The kind of transaction.
    pub kind: usize,
    /// Whether and how it ended.
    pub ended: Option<Verdict>,
    /// The session has more to do before it may be left.
    pub goes_on: bool,
    /// The status text, for failures.
    pub text: &'a str,
}

impl Database for EmbeddedDatabase {
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Value>>, String> {
        let (bytes, _) = self.host.ad_hoc(sql).map_err(|failure| failure.message)?;
        let table =
            TableView::read(&mut ByteReader::new(&bytes)).map_err(|error| error.to_string())?;
        rows::rows(&table).map_err(|error| error.to_string())
    }

    fn partition_keys(&mut self) -> Result<Vec<i64>, String> {
        Ok(vec![0])
    }
}

/// Makes INSERT statements of rows.
struct TextSink<'a> {
    database: &'a mut EmbeddedDatabase,
    tables: Vec<TableToFill>,
    /// Per table: rows that were not sent yet, and their number.
    texts: Vec<(String, u64)>,
    rows: u64,
    total: u64,
    progress: &'a mut dyn FnMut(FillProgress),
}

impl TextSink<'_> {
    fn send(&mut self, table: usize) -> Result<(), String> {
        let (text, count) = std::mem::take(&mut self.texts[table]);
        if count > 0 {
            let shape = &self.tables[table];
            let names: Vec<&str> = shape.columns.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            self.database
                .execute(&format!("INSERT INTO {} ({names}) VALUES {text};", shape.name))?;
            self.rows += count;
            (self.progress)(FillProgress { rows: self.rows, total: self.total });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, String> {
        (0..self.tables.len()).try_for_each(|table| self.send(table))?;
        Ok(self.rows)
    }
}

impl RowSink for TextSink<'_> {
    fn row(&mut self, table: usize, values: &[Datum<'_>]) -> Result<(), String> {
        let (text, count) = &mut self.texts[table];
        text.push_str(if *count == 0 { "(" } else { ", (" });
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                text.push_str(", ");
            }
            let written = match value {
                Datum::Text(value) => write!(text, "'{}'", value.replace('\'', "''")),
                Datum::Timestamp(value) => write!(text, "{value}"),
                // With its point, so that it is read as the number that it is.
                Datum::Float(value) => write!(text, "{value:?}"),
                Datum::Null => write!(text, "NULL"),
                value => write!(text, "{value}"),
            };
            written.map_err(|error| error.to_string())?;
        }
        text.push(')');
        *count += 1;
        match *count >= ROWS_AT_ONCE {
            true => self.send(table),
            false => Ok(()),
        }
    }
}

/// Runs a workload in a host of its own.
///
/// # Errors
/// What the host refused; a pace that this cannot keep.
pub fn run(
    workload: &mut dyn Workload,
    options: &RunOptions,
    stop: &AtomicBool,
    report: &mut dyn FnMut(&Report<'_>),
) -> Result<RunResult, String> {
    if options.pace != Pace::Closed {
        return Err("--embedded runs as fast as it can: leave the rate out".to_string());
    }
    if workload.classes()?.is_some() {
        return Err("--embedded runs no Java: use --start 1, or --servers".to_string());
    }
    refuse_missing(workload, Found::Nothing, options)?;
    let mut database = EmbeddedDatabase::new()?;
    let begun = Instant::now();
    let rows = database.set_up(workload, &mut |state| report(&Report::Fill(state)))?;
    let loaded = Some((rows, begun.elapsed()));
    workload.begin(&mut database)?;
    let mut progress = |state: &Progress| report(&Report::Run(state));
    let figures = drive(workload, options, &mut database, stop, &mut progress);
    report(&Report::Checking);
    let checks = workload.check(&mut database, &figures.counts, true).unwrap_or_else(unasked);
    let (steps, server, workers) = (Vec::new(), Vec::new(), Vec::new());
    Ok(RunResult { figures, checks, loaded, steps, server, workers })
}

fn drive(
    workload: &dyn Workload,
    options: &RunOptions,
    database: &mut EmbeddedDatabase,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Figures {
    // Each with whether it is within something.
    let mut sessions: Vec<(Box<dyn Session>, bool)> = (0..options.clients.max(1) as u64)
        .map(|number| (workload.session(number, options.seed), false))
        .collect();
    let mut figures = Figures::new(workload.transactions(), options.duration);
    let start = Instant::now();
    let (measuring_from, mut until) =
        (start + options.warmup, start + options.warmup + options.duration);
    let mut reported = (start, 0);
    let (mut begun, mut processor) = (start, None);
    'run: loop {
        for session in &mut sessions {
            let (kind, verdict) = loop {
                let step = database.step(&mut *session.0);
                session.1 = step.goes_on;
                if let Some(verdict) = step.ended {
                    if verdict == Verdict::Error && figures.first_error.is_none() {
                        figures.first_error = Some(step.text.to_string());
                    }
                    break (step.kind, verdict);
                }
            };
            let now = Instant::now();
            figures.all += 1;
            if begun >= measuring_from {
                processor.get_or_insert_with(|| ProcessorTime::now(&[]));
                figures.record(kind, verdict, now - begun);
                figures.turns += u64::from(!session.1);
                figures.count_second(measuring_from, now);
            }
            begun = now;
            if now >= until {
                break 'run;
            }
        }
        if begun - reported.0 >= REPORT_INTERVAL {
            progress(&state(&figures, begun, (start, measuring_from, until), reported));
            reported = (begun, figures.all);
        }
        if stop.load(Ordering::Relaxed) {
            (figures.interrupted, until) = (true, begun);
            break;
        }
    }
    figures.duration = begun.max(until).saturating_duration_since(measuring_from);
    figures.processor =
        processor.map_or_else(ProcessorTime::default, |from| ProcessorTime::now(&[]).since(&from));
    for (session, within) in &mut sessions {
        while *within {
            *within = database.step(&mut **session).goes_on;
        }
        let counts = session.counts();
        figures.counts.resize(counts.len().max(figures.counts.len()), 0);
        figures.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    figures
}

fn state(
    figures: &Figures,
    now: Instant,
    (start, measuring_from, until): (Instant, Instant, Instant),
    (since, transactions): (Instant, u64),
) -> Progress {
    Progress {
        elapsed: now - start,
        total: until - start,
        warming_up: now < measuring_from,
        rate_per_s: (figures.all - transactions) as f64 / (now - since).as_secs_f64(),
        errors: figures.errors(),
        p50_us: figures.latency_us.value_at_quantile(0.5),
        p99_us: figures.latency_us.value_at_quantile(0.99),
    }
}
