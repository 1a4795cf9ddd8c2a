//! Voter without sockets: calls go as bytes into a host inside this process and come back as
//! bytes, through the code that serves TCP.

use crate::driver::{Measured, Verdict, Workload, latency_histogram};
use crate::report::Progress;
use crate::voter::{Form, VoterLoad, VoterResult, procedure_statements, schema_statements};
use lockstep_base::bytes::ByteReader;
use lockstep_client::{CallOptions, Response};
use lockstep_node::NativeRegistry;
use lockstep_node::embedded::EmbeddedHost;
use lockstep_node::options::Options;
use lockstep_types::{Datum, TableView};
use lockstep_wire_volt::invocation;
use lockstep_workloads::voter;
use std::time::{Duration, Instant};

/// Calls between two looks at the clock; the latency of one in N is measured.
const BATCH: usize = 64;
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// A host with voter in it, and the buffers to call it.
pub struct EmbeddedVoter {
    host: EmbeddedHost,
    load: VoterLoad,
    parameters: Vec<u8>,
    frame: Vec<u8>,
    response: Vec<u8>,
    first_error: Option<String>,
}

impl EmbeddedVoter {
    /// A host with voter's tables and procedure.
    ///
    /// # Errors
    /// What the host refused.
    pub fn new(form: Form, seed: u64) -> Result<EmbeddedVoter, String> {
        let mut natives = NativeRegistry::default();
        for procedure in lockstep_workloads::native_procedures() {
            natives.register(procedure);
        }
        let mut host =
            EmbeddedHost::new(&Options::default(), natives).map_err(|failure| failure.message)?;
        for statement in schema_statements().iter().chain(&procedure_statements(form)) {
            host.ad_hoc(statement).map_err(|failure| failure.message)?;
        }
        Ok(EmbeddedVoter {
            host,
            load: VoterLoad::new(seed, voter::CONTESTANTS, form),
            parameters: Vec::new(),
            frame: Vec::new(),
            response: Vec::new(),
            first_error: None,
        })
    }

    /// Encodes the next call and runs it. Without `execute` it is only encoded, and the last
    /// answer judged again: what the measuring itself costs.
    #[inline]
    pub fn call(&mut self, execute: bool) -> Verdict {
        self.parameters.clear();
        let procedure = self.load.next_call(0, &mut self.parameters);
        self.frame.clear();
        let options = CallOptions::default();
        invocation::encode(&mut self.frame, procedure, 0, &options, &self.parameters);
        if execute {
            self.response.clear();
            self.host.call(&self.frame[LENGTH_BYTES..], &mut self.response);
        }
        let Some(body) = self.response.get(LENGTH_BYTES..) else { return Verdict::Error };
        let Ok(response) = Response::decode(body) else { return Verdict::Error };
        let verdict = self.load.completed(&response, true);
        if verdict == Verdict::Error && self.first_error.is_none() {
            self.first_error = Some(response.status_text.unwrap_or("a wrong answer").to_string());
        }
        verdict
    }

    /// The number of votes in the table.
    ///
    /// # Errors
    /// What the host refused.
    pub fn vote_count(&mut self) -> Result<u64, String> {
        let (tables, _) =
            self.host.ad_hoc("SELECT COUNT(*) FROM votes;").map_err(|failure| failure.message)?;
        let table = TableView::read(&mut ByteReader::new(&tables)).map_err(|e| e.to_string())?;
        match table.scalar() {
            Ok(Some(Datum::Int(count))) => Ok(count as u64),
            other => Err(format!("a count was expected, not {other:?}")),
        }
    }

    /// Calls as fast as they go on this thread.
    ///
    /// # Errors
    /// The votes cannot be counted.
    pub fn run(
        mut self,
        warmup: Duration,
        duration: Duration,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<VoterResult, String> {
        let start = Instant::now();
        let (measuring_from, until) = (start + warmup, start + warmup + duration);
        let mut measured = Measured {
            transactions: 0,
            all: 0,
            errors: 0,
            duration,
            latency_us: latency_histogram(),
            first_error: None,
            late: 0,
            calls: Vec::new(),
        };
        let mut reported = (start, 0);
        loop {
            let before = Instant::now();
            let mut errors = u64::from(self.call(true) == Verdict::Error);
            let latency = before.elapsed();
            for _ in 1..BATCH {
                errors += u64::from(self.call(true) == Verdict::Error);
            }
            measured.all += BATCH as u64;
            if before >= measuring_from {
                measured.transactions += BATCH as u64;
                measured.errors += errors;
                measured.latency_us.saturating_record(latency.as_micros() as u64);
            }
            if before - reported.0 >= Duration::from_millis(250) {
                progress(&state(&measured, before, (start, measuring_from, until), reported));
                reported = (before, measured.all);
            }
            if before >= until {
                // The last batch began after the end; the time is taken as it was.
                measured.duration = Instant::now() - measuring_from;
                break;
            }
        }
        measured.first_error = self.first_error.take();
        let votes_after = self.vote_count()?;
        Ok(self.load.result(measured, 0, votes_after))
    }
}

fn state(
    measured: &Measured,
    now: Instant,
    (start, measuring_from, until): (Instant, Instant, Instant),
    (since, calls): (Instant, u64),
) -> Progress {
    Progress {
        elapsed: now - start,
        total: until - start,
        warming_up: now < measuring_from,
        rate_per_s: (measured.all - calls) as f64 / (now - since).as_secs_f64(),
        errors: measured.errors,
        p50_us: measured.latency_us.value_at_quantile(0.5),
        p99_us: measured.latency_us.value_at_quantile(0.99),
    }
}
