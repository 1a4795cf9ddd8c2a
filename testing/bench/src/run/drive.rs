//! Drives sessions over connections, on one thread: each has one call in flight.
//!
//! *Closed loop*: a session begins its next transaction when its last one has ended and its pause
//! is over. *Open loop*: transactions are due at even intervals, whatever the server does; a
//! session that is idle takes the next one, and its latency counts from when it was due (the
//! correction for coordinated omission).

use super::figures::Figures;
use super::watch::{Moment, Reporter, Watch};
use crate::cluster::watch::read_routing;
use crate::report::Progress;
use crate::stalls::{TimedCall, wall_us};
use lockstep_client::{
    Call, ClientError, Completion, ConnectOptions, Connection, ConnectionIndex, Outgoing,
    ParameterWriter, Pipeline, Response, Routing,
};
use lockstep_types::{ParameterSet, Status};
use lockstep_workloads::{Answer, Next, Session, Verdict, Workload};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for answers.
const LONGEST_WAIT: Duration = Duration::from_millis(10);
/// The operating system waits in whole milliseconds: what comes sooner is waited for by naps.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// One nap: an open loop is at most so much coarser than its intervals, and what the system adds,
/// which is nothing for a thread of real-time priority. Its calls are late by that and count from
/// when they were due; a shorter nap makes the server wake up for every single call.
const NAP: Duration = Duration::from_micros(75);
/// A transaction of an open loop that begins so long after its due time is called late.
const LATE: Duration = Duration::from_millis(1);
/// How long calls are waited for after the end, while this process runs: one that was stopped, as
/// by its user, has waited for nothing meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
/// A longer time between two looks was none of waiting.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// How to drive.
#[derive(Debug, Clone)]
pub struct DriveOptions {
    /// Addresses; connections are spread over them. With several, a call goes to the host that
    /// leads its partition, where one of the connections leads there.
    pub servers: Vec<String>,
    /// Connections.
    pub connections: usize,
    /// Sessions, spread over the connections.
    pub clients: usize,
    /// Transactions per second; `None` is a closed loop.
    pub rate_per_s: Option<f64>,
    /// Transactions of an open loop that are due at once; 1 spreads them evenly.
    pub burst: u64,
    /// What is measured.
    pub duration: Duration,
    /// What runs before, unmeasured.
    pub warmup: Duration,
    /// What the sessions follow from.
    pub seed: u64,
    /// Processes of the servers on this machine, whose processor time is taken.
    pub server_processes: Vec<u32>,
    /// The number of the first session: several loads have sessions of different numbers.
    pub first_session: u64,
    /// Which of an open loop's transactions this load makes.
    pub share: Share,
    /// Keep the due time and the latency of each transaction of this kind.
    pub keep_calls_of: Option<usize>,
}

/// One of several loads that share an open loop: of all transactions in order, it makes those of
/// its number, and every N after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub number: u64,
    /// How many loads there are.
    pub of: u64,
}

impl Share {
    /// The only load.
    pub const WHOLE: Share = Share { number: 0, of: 1 };
}

/// An answer as workloads see it.
pub fn answer<'a>(response: &Response<'a>) -> Answer<'a> {
    Answer {
        status: response.status,
        status_text: response.status_text,
        application_status: response.application_status,
        table_count: response.table_count,
        tables: response.table_bytes(),
    }
}

struct Slot {
    session: Box<dyn Session>,
    /// From when the latency of the transaction counts.
    started_at: Instant,
    /// The kind of the last call.
    transaction: usize,
    /// Its next call belongs to what it has begun.
    within: bool,
    /// Its last call was sent, and is not answered yet.
    in_flight: bool,
}

/// What is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// The session's next call.
    Call(usize),
    /// The session is free for a transaction of the open loop.
    Idle(usize),
}

struct Drive {
    slots: Vec<Slot>,
    timers: BinaryHeap<Reverse<(Instant, Wake)>>,
    idle: VecDeque<usize>,
    open_loop: bool,
    /// The kind whose transactions are kept; a time on both clocks.
    keep_calls_of: Option<usize>,
    clocks: (Instant, u64),
    figures: Figures,
    measuring_from: Instant,
    until: Instant,
    parameters: ParameterWriter,
    /// Where calls go, if there are several hosts.
    routing: Option<Routing>,
}

/// Runs a workload's sessions. `progress` is told of the state four times a second; the run ends
/// early when `stop` becomes true.
///
/// # Errors
/// A server cannot be reached at the beginning.
pub fn drive(
    workload: &dyn Workload,
    options: &DriveOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Figures, String> {
    drive_from(workload, options, || Ok(Instant::now()), stop, progress)
}

/// As [`drive`]; when all is connected, `start` says when to begin.
///
/// # Errors
/// A server cannot be reached at the beginning, or does not say who leads what; `start` fails.
pub fn drive_from(
    workload: &dyn Workload,
    options: &DriveOptions,
    start: impl FnOnce() -> Result<Instant, String>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Figures, String> {
    let text = |error: ClientError| error.to_string();
    let mut pipeline = connected(options).map_err(text)?;
    let routing = routing_of(&options.servers)?;
    let start = start()?;
    std::thread::sleep(start.saturating_duration_since(Instant::now()));
    let mut drive = Drive::new(workload, options, start);
    drive.routing = routing;
    drive.begin(start, &mut pipeline);
    let mut reporter = Reporter::new(start);
    let mut watch = Watch::new(&options.server_processes);
    let mut due = Due::new(start, options);
    let (mut looked_at, mut waited) = (start, Duration::ZERO);
    loop {
        let now = Instant::now();
        if now >= drive.until {
            waited += now.saturating_duration_since(looked_at).min(LONGEST_LOOK);
        }
        looked_at = now;
        if stop.load(Ordering::Relaxed) && now < drive.until {
            drive.cut_short(now);
        }
        drive.wake(now, &mut pipeline);
        if drive.open_loop && now < drive.until {
            drive.begin_due(now, &mut due, &mut pipeline);
        }
        let wait = drive.wait(now);
        let completed =
            pipeline.poll(wait, |completion, outgoing| drive.complete(completion, outgoing));
        let completed = completed.map_err(text)?;
        if completed == 0 && wait.is_zero() {
            std::thread::sleep(NAP);
        }
        let moment = drive.moment(now);
        reporter.report(&moment, &drive.figures, progress);
        watch.look(&moment);
        if drive.has_ended(now, &pipeline) || waited > PATIENCE {
            break;
        }
    }
    drive.give_up();
    drive.figures.processor = watch.passed();
    Ok(drive.into_figures(pipeline.in_flight() == 0))
}

/// All connections.
fn connected(options: &DriveOptions) -> Result<Pipeline, ClientError> {
    let connections = options.connections.clamp(1, options.clients.max(1));
    let max_in_flight = match options.servers.len() {
        0 | 1 => options.clients.div_ceil(connections).max(1),
        // One host may lead what all of them ask for.
        _ => options.clients.max(1),
    };
    let connect = ConnectOptions { max_in_flight, ..ConnectOptions::default() };
    let mut pipeline = Pipeline::new(&connect)?;
    for number in 0..connections {
        pipeline.connect(&options.servers[number % options.servers.len()])?;
    }
    Ok(pipeline)
}

/// Where calls go, if there are several hosts, as the first one has it.
fn routing_of(servers: &[String]) -> Result<Option<Routing>, String> {
    let [first, _, ..] = servers else { return Ok(None) };
    let connection = Connection::connect(first, &ConnectOptions::default());
    read_routing(&mut connection.map_err(|error| error.to_string())?).map(Some)
}

/// Where an open loop is.
struct Due {
    start: Instant,
    interval_ns: f64,
    burst: u64,
    share: Share,
    begun: u64,
}

impl Due {
    fn new(start: Instant, options: &DriveOptions) -> Due {
        let interval_ns = 1e9 / options.rate_per_s.unwrap_or(1.0);
        Due { start, interval_ns, burst: options.burst.max(1), share: options.share, begun: 0 }
    }

    /// When the next transaction is due: with the first one of its burst.
    fn next(&self) -> Instant {
        let number = self.begun * self.share.of + self.share.number;
        let first = number / self.burst * self.burst;
        self.start + Duration::from_nanos((first as f64 * self.interval_ns) as u64)
    }
}

impl Drive {
    fn new(workload: &dyn Workload, options: &DriveOptions, start: Instant) -> Drive {
        let slot = |number: usize| Slot {
            session: workload.session(options.first_session + number as u64, options.seed),
            started_at: start,
            transaction: 0,
            within: false,
            in_flight: false,
        };
        let measuring_from = start + options.warmup;
        Drive {
            slots: (0..options.clients.max(1)).map(slot).collect(),
            timers: BinaryHeap::new(),
            idle: VecDeque::new(),
            open_loop: options.rate_per_s.is_some(),
            keep_calls_of: options.keep_calls_of,
            clocks: (Instant::now(), wall_us()),
            figures: Figures::new(workload.transactions(), options.duration),
            measuring_from,
            until: measuring_from + options.duration,
            parameters: ParameterWriter::default(),
            routing: None,
        }
    }

    fn moment(&self, now: Instant) -> Moment {
        Moment { now, measuring_from: self.measuring_from, until: self.until }
    }

    fn begin(&mut self, start: Instant, pipeline: &mut Pipeline) {
        for place in 0..self.slots.len() {
            let pause = self.slots[place].session.first_pause_us();
            match (self.open_loop, pause) {
                (true, _) => self.idle.push_back(place),
                (false, 0) => self.call(place, start, pipeline),
                (false, pause) => {
                    let at = start + Duration::from_micros(pause);
                    self.timers.push(Reverse((at, Wake::Call(place))));
                }
            }
        }
    }

    /// Ends the measured time now.
    fn cut_short(&mut self, now: Instant) {
        self.figures.interrupted = true;
        self.until = now;
        self.figures.duration = now.saturating_duration_since(self.measuring_from);
    }

    /// Does what is due.
    fn wake(&mut self, now: Instant, pipeline: &mut Pipeline) {
        while let Some(Reverse((at, wake))) = self.timers.peek().copied() {
            if at > now {
                return;
            }
            self.timers.pop();
            match wake {
                Wake::Idle(place) => self.idle.push_back(place),
                Wake::Call(place) if self.slots[place].within || now < self.until => {
                    if !self.slots[place].within {
                        self.slots[place].started_at = at;
                    }
                    self.call(place, at, pipeline);
                }
                Wake::Call(_) => {}
            }
        }
    }

    /// Begins what an open loop owes.
    fn begin_due(&mut self, now: Instant, due: &mut Due, pipeline: &mut Pipeline) {
        while due.next() <= now {
            let Some(place) = self.idle.pop_front() else { return };
            let due_at = due.next();
            self.figures.late += u64::from(now.duration_since(due_at) > LATE);
            self.slots[place].started_at = due_at;
            due.begun += 1;
            self.call(place, due_at, pipeline);
        }
    }

    /// Sends a session's next call. On a lost connection the session ends.
    fn call(&mut self, place: usize, at: Instant, pipeline: &mut Pipeline) {
        if let Some(routing) = self.routing.take() {
            let mut submitted = None;
            self.with_call(place, at, |call| {
                let set = ParameterSet::new(call.parameters).expect("it was just written");
                let picked = pipeline.pick(&routing, call.procedure, set);
                submitted = picked.map(|connection| pipeline.submit(connection, call));
            });
            self.routing = Some(routing);
            return submitted.into_iter().for_each(|submitted| self.note_sent(place, submitted));
        }
        let connection = ConnectionIndex(place % pipeline.connection_count());
        if pipeline.is_open(connection) {
            let mut submitted = Ok(());
            self.with_call(place, at, |call| submitted = pipeline.submit(connection, call));
            self.note_sent(place, submitted);
        }
    }

    fn with_call(&mut self, place: usize, at: Instant, send: impl FnOnce(&Call<'_>)) {
        let slot = &mut self.slots[place];
        self.parameters.clear();
        let next = slot.session.next_call(&mut self.parameters);
        slot.transaction = next.transaction;
        let mut call = Call::new(next.procedure, self.parameters.bytes(), at);
        call.context = place as u64;
        call.options.all_partition_destination = slot.session.asked_partition();
        send(&call);
    }

    fn note_sent(&mut self, place: usize, submitted: Result<(), ClientError>) {
        self.slots[place].in_flight = submitted.is_ok();
        if let Err(error) = submitted {
            self.figures.first_error.get_or_insert(error.to_string());
        }
    }

    /// Takes an answer and lets its session go on.
    fn complete(&mut self, completion: Completion<'_>, outgoing: &mut Outgoing) {
        let (place, now) = (completion.context as usize, completion.completed_at);
        self.slots[place].in_flight = false;
        let next = match completion.result {
            Ok(response) if response.status == Status::ResponseUnknown.code() => {
                // What it did is not known, as of a lost connection.
                self.slots[place].session.lost();
                self.figures.complete = false;
                let text = response.status_text.unwrap_or("the outcome is not known");
                self.figures.first_error.get_or_insert_with(|| text.to_string());
                Next::end(Verdict::Error)
            }
            Ok(response) => {
                let next = self.slots[place].session.answered(&answer(&response));
                if next.ended == Some(Verdict::Error) {
                    let text = response.status_text.unwrap_or("the answer is wrong");
                    self.figures.first_error.get_or_insert_with(|| text.to_string());
                }
                next
            }
            Err(error) => {
                self.slots[place].session.lost();
                self.figures.complete = false;
                self.figures.first_error.get_or_insert_with(|| error.to_string());
                if error.is_connection_lost() {
                    self.count(place, Verdict::Error, now);
                    return;
                }
                Next::end(Verdict::Error)
            }
        };
        if let Some(verdict) = next.ended {
            self.count(place, verdict, now);
        }
        let measured = now >= self.measuring_from && now < self.until;
        self.figures.turns += u64::from(measured && !next.goes_on);
        self.slots[place].within = next.goes_on;
        self.go_on(place, next, now, outgoing);
    }

    fn go_on(&mut self, place: usize, next: Next, now: Instant, outgoing: &mut Outgoing) {
        if !next.goes_on && now >= self.until {
            return;
        }
        let at = now + Duration::from_micros(next.pause_us);
        if next.ended.is_some() {
            self.slots[place].started_at = at;
        }
        match (self.open_loop && !next.goes_on, next.pause_us) {
            (true, 0) => self.idle.push_back(place),
            (true, _) => self.timers.push(Reverse((at, Wake::Idle(place)))),
            // The next call may be for another host.
            (false, 0) if self.routing.is_some() => {
                self.timers.push(Reverse((now, Wake::Call(place))));
            }
            (false, 0) => {
                let mut submitted = Ok(());
                self.with_call(place, now, |call| submitted = outgoing.submit(call));
                self.note_sent(place, submitted);
            }
            (false, _) => self.timers.push(Reverse((at, Wake::Call(place)))),
        }
    }

    fn count(&mut self, place: usize, verdict: Verdict, now: Instant) {
        self.figures.all += 1;
        if now >= self.measuring_from && now < self.until {
            let slot = &self.slots[place];
            let latency = now.saturating_duration_since(slot.started_at);
            self.figures.record(slot.transaction, verdict, latency);
            if self.keep_calls_of == Some(slot.transaction) && verdict != Verdict::Error {
                // What is measured may have been due before: within the warm-up.
                let (then, then_us) = self.clocks;
                let ago_us = now.saturating_duration_since(then).as_micros() as u64;
                let latency_us = latency.as_micros() as u64;
                self.figures.calls.push(TimedCall {
                    due_us: (then_us + ago_us).saturating_sub(latency_us),
                    latency_us: u32::try_from(latency_us).unwrap_or(u32::MAX),
                });
            }
            self.figures.count_second(self.measuring_from, now);
        }
    }

    /// How long nothing has to be done but taking answers.
    fn wait(&self, now: Instant) -> Duration {
        if self.open_loop && now < self.until {
            return Duration::ZERO;
        }
        let next = self.timers.peek().map(|Reverse((at, _))| at.saturating_duration_since(now));
        match next {
            Some(next) if next <= SHORTEST_WAIT => Duration::ZERO,
            Some(next) => (next - SHORTEST_WAIT).min(LONGEST_WAIT),
            None => LONGEST_WAIT,
        }
    }

    /// Whether nothing is to come, or nobody can be waited for any more.
    fn has_ended(&mut self, now: Instant, pipeline: &Pipeline) -> bool {
        let open = |number: &usize| pipeline.is_open(ConnectionIndex(*number));
        let connections = pipeline.connection_count();
        let lost = connections - (0..connections).filter(open).count();
        self.figures.lost_connections = lost as u64;
        if lost == connections {
            if now < self.until {
                self.cut_short(now);
            }
            return true;
        }
        if now < self.until {
            return false;
        }
        let within = |Reverse((_, wake)): &Reverse<(Instant, Wake)>| match wake {
            Wake::Call(place) => self.slots[*place].within,
            Wake::Idle(_) => false,
        };
        pipeline.in_flight() == 0 && !self.timers.iter().any(within)
    }

    /// Takes calls that nobody has answered for lost: what they did is not known.
    fn give_up(&mut self) {
        let mut unanswered = 0;
        for slot in self.slots.iter_mut().filter(|slot| slot.in_flight) {
            (slot.in_flight, unanswered) = (false, unanswered + 1);
            slot.session.lost();
            self.figures.transactions[slot.transaction].errors += 1;
        }
        if unanswered > 0 {
            self.figures.complete = false;
            let text = format!("{unanswered} calls were not answered behind the end of the run");
            self.figures.first_error.get_or_insert(text);
        }
    }

    fn into_figures(self, answered: bool) -> Figures {
        let mut figures = self.figures;
        figures.complete &= answered;
        for slot in &self.slots {
            let counts = slot.session.counts();
            figures.counts.resize(counts.len().max(figures.counts.len()), 0);
            figures.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_workloads::key_value::{KeyValue, Keys};

    #[test]
    fn calls_that_nobody_answers_are_errors_and_lost() {
        let options = DriveOptions { clients: 4, ..options() };
        let workload = KeyValue::new(9, 10, 0, Keys::Uniform).expect("a workload");
        let mut drive = Drive::new(&workload, &options, Instant::now());
        for place in 0..3 {
            drive.with_call(place, Instant::now(), |_| ());
            drive.note_sent(place, Ok(()));
        }
        // The third one's answer has come.
        drive.slots[2].in_flight = false;
        drive.give_up();
        drive.give_up();
        let figures = drive.into_figures(true);
        assert_eq!((figures.errors(), figures.complete), (2, false));
        assert_eq!(figures.counts, [0, 2], "no update was answered, and two may have been done");
        assert!(figures.first_error.expect("an error").starts_with("2 calls were not answered"));
    }

    fn options() -> DriveOptions {
        DriveOptions {
            servers: Vec::new(),
            connections: 1,
            clients: 1,
            rate_per_s: Some(1000.0),
            burst: 4,
            duration: Duration::ZERO,
            warmup: Duration::ZERO,
            seed: 1,
            server_processes: Vec::new(),
            first_session: 0,
            share: Share::WHOLE,
            keep_calls_of: None,
        }
    }

    #[test]
    fn bursts_are_due_at_once_and_keep_the_rate() {
        let options = options();
        let times = |options: &DriveOptions, count| -> Vec<u128> {
            let mut due = Due::new(Instant::now(), options);
            let mut next = |begun| {
                due.begun = begun;
                (due.next() - due.start).as_millis()
            };
            (0..count).map(&mut next).collect()
        };
        let whole = times(&options, 9);
        assert_eq!(whole, [0, 0, 0, 0, 4, 4, 4, 4, 8]);
        // Three loads make together what one makes.
        let share = |number| DriveOptions { share: Share { number, of: 3 }, ..options.clone() };
        let mut together: Vec<u128> = (0..3).flat_map(|n| times(&share(n), 3)).collect();
        together.sort_unstable();
        assert_eq!(together, whole);
    }
}
