//! Sessions of a workload against another system, on one thread, as [`crate::run::drive`] drives
//! them against ours: the same calls, the same pauses, the same figures. A system says how a call
//! and its answer look on its wire.

pub mod postgres;
pub mod postgres_database;
pub mod redis_store;

use crate::link;
use crate::run::figures::Figures;
use lockstep_base::bytes::ByteReader;
use lockstep_types::parameter::{ParameterSet, ParameterWriter};
use lockstep_types::table::TableBuilder;
use lockstep_types::{Datum, SqlType, Status, TableSchema};
use lockstep_workloads::{Answer, Session, Verdict, Workload};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// The longest wait for answers.
const LONGEST_WAIT: Duration = Duration::from_millis(10);
/// The operating system waits in whole milliseconds: what comes sooner is waited for by naps.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// One nap.
const NAP: Duration = Duration::from_micros(25);
/// How long calls are waited for after the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Another system.
pub trait System {
    /// A connection that is logged in and prepared: the next bytes on it are calls and answers.
    ///
    /// # Errors
    /// It cannot be reached, or refuses the preparation.
    fn connect(&self) -> Result<std::net::TcpStream, String>;

    /// Appends a call.
    ///
    /// # Errors
    /// The system has nothing like the procedure, or its parameters cannot be read.
    fn call(
        &self,
        procedure: &str,
        parameters: ParameterSet<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String>;

    /// Reads the answer at the beginning of what came: its bytes; `None` where more is to come.
    ///
    /// # Errors
    /// It is no answer.
    fn answer(&self, input: &[u8], reply: &mut Reply) -> Result<Option<usize>, String>;
}

/// An answer, in the form that sessions judge.
#[derive(Debug, Clone)]
pub struct Reply {
    status: Status,
    text: Option<String>,
    tables: Vec<u8>,
    table_count: u16,
}

impl Reply {
    fn new() -> Reply {
        Reply { status: Status::Success, text: None, tables: Vec::new(), table_count: 0 }
    }

    fn clear(&mut self) {
        (self.status, self.text, self.table_count) = (Status::Success, None, 0);
        self.tables.clear();
    }

    /// It failed.
    pub fn fail(&mut self, status: Status, text: String) {
        (self.status, self.text) = (status, Some(text));
    }

    /// Adds a table.
    pub fn table<'v>(&mut self, schema: &TableSchema, rows: impl Iterator<Item = &'v [Datum<'v>]>) {
        let mut table = TableBuilder::begin(&mut self.tables, schema);
        rows.for_each(|row| {
            table.row(schema, row);
        });
        table.finish();
        self.table_count += 1;
    }

    /// Adds a table of one column of numbers.
    pub fn numbers(&mut self, rows: impl Iterator<Item = i64>) {
        let schema = TableSchema::new(&[("number", SqlType::BigInt)]);
        let mut table = TableBuilder::begin(&mut self.tables, &schema);
        rows.for_each(|number| {
            table.row(&schema, &[Datum::Int(number)]);
        });
        table.finish();
        self.table_count += 1;
    }

    fn answer(&self) -> Answer<'_> {
        Answer {
            status: self.status.code(),
            status_text: self.text.as_deref(),
            application_status: 0,
            table_count: self.table_count,
            tables: &self.tables,
        }
    }
}

/// How to drive.
#[derive(Debug, Clone)]
pub struct OtherOptions {
    /// Connections.
    pub connections: usize,
    /// Sessions, spread over the connections: each has one call in flight.
    pub clients: usize,
    /// What is measured.
    pub duration: Duration,
    /// What runs before.
    pub warmup: Duration,
    /// What the sessions follow from.
    pub seed: u64,
}

struct Link {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whose calls are in flight, in order.
    waiting: VecDeque<usize>,
}

impl Link {
    fn flush(&mut self) -> io::Result<()> {
        link::flush(&mut self.stream, &mut self.output)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        link::receive(&mut self.stream, &mut self.input, buffer)
    }
}

struct Slot {
    session: Box<dyn Session>,
    started_at: Instant,
    transaction: usize,
    /// Its next call belongs to what it has begun.
    within: bool,
}

struct Drive<'s> {
    system: &'s dyn System,
    links: Vec<Link>,
    slots: Vec<Slot>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    figures: Figures,
    measuring_from: Instant,
    until: Instant,
    parameters: ParameterWriter,
    reply: Reply,
}

/// Runs a workload's sessions in a closed loop; `ended` is called once the last call is answered
/// and the connections are still there.
///
/// # Errors
/// The system cannot be reached, closes a connection, or answers with what is no answer.
pub fn drive(
    system: &dyn System,
    workload: &dyn Workload,
    options: &OtherOptions,
    ended: &mut dyn FnMut(),
) -> Result<Figures, String> {
    let text = |error: io::Error| error.to_string();
    let mut poll = Poll::new().map_err(text)?;
    let mut drive = Drive::new(system, workload, options, &poll)?;
    drive.begin()?;
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; 64 * 1024]);
    loop {
        let now = Instant::now();
        drive.wake(now)?;
        let wait = drive.wait(now);
        poll.poll(&mut events, Some(wait)).map_err(text)?;
        if events.is_empty() && wait.is_zero() {
            std::thread::sleep(NAP);
        }
        for event in &events {
            let place = event.token().0;
            drive.links[place].receive(&mut buffer).map_err(text)?;
            drive.take_answers(place)?;
            drive.links[place].flush().map_err(text)?;
        }
        let now = Instant::now();
        if now >= drive.until && drive.is_quiet() {
            ended();
            return Ok(drive.into_figures());
        }
        if now > drive.until + PATIENCE {
            return Err("calls remain without an answer".to_string());
        }
    }
}

impl<'s> Drive<'s> {
    fn new(
        system: &'s dyn System,
        workload: &dyn Workload,
        options: &OtherOptions,
        poll: &Poll,
    ) -> Result<Drive<'s>, String> {
        let text = |error: io::Error| error.to_string();
        let mut links = Vec::new();
        for place in 0..options.connections.clamp(1, options.clients.max(1)) {
            let stream = system.connect()?;
            stream.set_nodelay(true).map_err(text)?;
            stream.set_nonblocking(true).map_err(text)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(place), interest).map_err(text)?;
            let (input, output, waiting) = Default::default();
            links.push(Link { stream, input, output, waiting });
        }
        let start = Instant::now();
        let slot = |number: usize| Slot {
            session: workload.session(number as u64, options.seed),
            started_at: start,
            transaction: 0,
            within: false,
        };
        Ok(Drive {
            system,
            links,
            slots: (0..options.clients.max(1)).map(slot).collect(),
            timers: BinaryHeap::new(),
            figures: Figures::new(workload.transactions(), options.duration),
            measuring_from: start + options.warmup,
            until: start + options.warmup + options.duration,
            parameters: ParameterWriter::default(),
            reply: Reply::new(),
        })
    }

    fn begin(&mut self) -> Result<(), String> {
        for place in 0..self.slots.len() {
            let pause = self.slots[place].session.first_pause_us();
            let at = self.slots[place].started_at + Duration::from_micros(pause);
            self.timers.push(Reverse((at, place)));
        }
        Ok(())
    }

    fn wake(&mut self, now: Instant) -> Result<(), String> {
        while let Some(Reverse((at, place))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            if self.slots[place].within || now < self.until {
                if !self.slots[place].within {
                    self.slots[place].started_at = at;
                }
                self.call(place)?;
                let link = place % self.links.len();
                self.links[link].flush().map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Appends a session's next call to what its connection sends.
    fn call(&mut self, place: usize) -> Result<(), String> {
        let slot = &mut self.slots[place];
        self.parameters.clear();
        let next = slot.session.next_call(&mut self.parameters);
        slot.transaction = next.transaction;
        let parameters = ParameterSet::new(self.parameters.bytes()).map_err(|e| e.to_string())?;
        let link = place % self.links.len();
        let link = &mut self.links[link];
        link.waiting.push_back(place);
        self.system.call(next.procedure, parameters, &mut link.output)
    }

    fn take_answers(&mut self, link: usize) -> Result<(), String> {
        let mut at = 0;
        loop {
            self.reply.clear();
            let input = &self.links[link].input[at..];
            let Some(bytes) = self.system.answer(input, &mut self.reply)? else { break };
            at += bytes;
            let place = self.links[link].waiting.pop_front().ok_or("an answer to no call")?;
            self.complete(place)?;
        }
        self.links[link].input.drain(..at);
        Ok(())
    }

    fn complete(&mut self, place: usize) -> Result<(), String> {
        let now = Instant::now();
        let next = self.slots[place].session.answered(&self.reply.answer());
        if next.ended == Some(Verdict::Error) {
            let text = self.reply.text.clone();
            let text = text.unwrap_or_else(|| "the answer is wrong".to_string());
            self.figures.first_error.get_or_insert(text);
        }
        if let Some(verdict) = next.ended {
            self.count(place, verdict, now);
        }
        self.slots[place].within = next.goes_on;
        if !next.goes_on && now >= self.until {
            return Ok(());
        }
        let at = now + Duration::from_micros(next.pause_us);
        if next.ended.is_some() {
            self.slots[place].started_at = at;
        }
        match next.pause_us {
            0 => self.call(place),
            _ => {
                self.timers.push(Reverse((at, place)));
                Ok(())
            }
        }
    }

    fn count(&mut self, place: usize, verdict: Verdict, now: Instant) {
        self.figures.all += 1;
        if now >= self.measuring_from && now < self.until {
            let slot = &self.slots[place];
            let latency = now.saturating_duration_since(slot.started_at);
            self.figures.record(slot.transaction, verdict, latency);
            self.figures.count_second(self.measuring_from, now);
        }
    }

    fn wait(&self, now: Instant) -> Duration {
        match self.timers.peek() {
            Some(Reverse((at, _))) => {
                let left = at.saturating_duration_since(now);
                left.saturating_sub(SHORTEST_WAIT).min(LONGEST_WAIT)
            }
            None => LONGEST_WAIT,
        }
    }

    fn is_quiet(&self) -> bool {
        let within = |Reverse((_, place)): &Reverse<(Instant, usize)>| self.slots[*place].within;
        self.links.iter().all(|link| link.waiting.is_empty()) && !self.timers.iter().any(within)
    }

    fn into_figures(self) -> Figures {
        let mut figures = self.figures;
        for slot in &self.slots {
            let counts = slot.session.counts();
            figures.counts.resize(counts.len().max(figures.counts.len()), 0);
            figures.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        figures
    }
}

/// A whole number that stands as text in front of a line's end.
fn line_number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.trim_end().parse().ok()
}

/// A reader over bytes that came.
fn reader(bytes: &[u8]) -> ByteReader<'_> {
    ByteReader::new(bytes)
}
