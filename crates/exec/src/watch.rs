//! What a host lends to executions: a check that stops them, and counters of their operators.
//!
//! This crate has no clock. A host that limits the time of statements, or shows times in
//! `EXPLAIN ANALYZE`, brings its own as functions:
//!
//! ```
//! use lockstep_exec::watch::{Caller, LimitSource, Profiler, Stopwatch, TimeLimit, Watch};
//! # use lockstep_plan_ir::Statement;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! # fn watched(statement: Arc<Statement>) -> Watch {
//! // Milliseconds of whatever clock the host has.
//! let clock_ms = Arc::new(AtomicU64::new(0));
//! let stopwatch = Stopwatch::new(move || clock_ms.load(Ordering::Relaxed));
//! // For the call that comes next; `None` lets it run as long as it likes.
//! let (source, caller) = (LimitSource::Host, Caller::NONE);
//! stopwatch.start(Some(TimeLimit { timeout_ms: 10_000, source, caller }));
//! // Counts over all sites and the coordinator if they share it.
//! let profiler = Arc::new(Profiler::new(statement, || 0));
//! Watch { stop: Some(stopwatch.check()), profiler: Some(profiler) }
//! // database.set_watch(watch); execute(...); profiler.operators()
//! # }
//! ```
//!
//! **Stopping.** The check is asked every [`ROWS_PER_CHECK`] rows of every loop: scans, joins,
//! recursion, windows, set operations, and the loops of statements that change rows. When it
//! says so, the statement ends with [`SqlError::stopped`] and leaves data and output as they
//! were. The host that installs the check decides what may be stopped: a write that was stopped
//! must not be repeated elsewhere, and a write that is repeated must not be stopped.
//!
//! **Counting.** With a profiler, each operator counts the rows that it gave, how often it ran,
//! and the time from its start to its end without the operators above it. Operators are numbered
//! as [`Statement::operators`] lists them. Relations within expressions (subqueries) count as part
//! of the operator that evaluates them. Without a profiler none of this costs anything but one
//! test per run of an operator.

use crate::error::SqlError;
use lockstep_plan_ir::{Relation, Statement};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows between two questions of the stop check, and between two looks at the memory used.
pub const ROWS_PER_CHECK: u32 = 4096;

/// How long the statements of a call may run, and who waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit {
    /// Milliseconds; [`TimeLimit::NO_TIMEOUT`] for as long as they take.
    pub timeout_ms: u32,
    /// Whose it is.
    pub source: LimitSource,
    /// Who waits for the call: if it leaves, the queries are canceled.
    pub caller: Caller,
}

/// A host's number for a client that waits for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Caller(pub u64);

impl Caller {
    /// No client: nothing can leave.
    pub const NONE: Caller = Caller(0);
}

/// Where a limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The host's own, for queries.
    Host,
    /// The call brought it.
    Call,
    /// What is left of the time of a transaction over several partitions.
    Transaction,
    /// The host's own, for calls that write.
    Write,
}

impl TimeLimit {
    /// [`TimeLimit::timeout_ms`] of queries that may run as long as they take.
    pub const NO_TIMEOUT: u32 = u32::MAX;

    /// The limit that ends first, if there is any, with the caller of the one.
    #[inline]
    pub fn first(one: Option<TimeLimit>, other: Option<TimeLimit>) -> Option<TimeLimit> {
        match (one, other) {
            (Some(one), Some(other)) if other.timeout_ms < one.timeout_ms => {
                Some(TimeLimit { caller: one.caller, ..other })
            }
            (None, other) => other,
            (one, _) => one,
        }
    }
}

/// Why a statement has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its time is over.
    Overdue(Overdue),
    /// Its caller has left.
    Left,
}

/// A statement whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overdue {
    /// Milliseconds that it has run.
    pub elapsed_ms: u64,
    /// What it was given.
    pub limit: TimeLimit,
}

/// Says whether the statement that runs has to stop.
#[derive(Clone)]
pub struct StopCheck(Arc<dyn Fn() -> Option<Stop> + Send + Sync>);

impl StopCheck {
    /// A check that gives the reason once the statement has to stop, and `None` before. It is
    /// asked often: a load and a comparison are right, a lock each time is not.
    pub fn new(check: impl Fn() -> Option<Stop> + Send + Sync + 'static) -> StopCheck {
        StopCheck(Arc::new(check))
    }
}

/// Milliseconds that a call runs before its caller is looked for: most calls end earlier.
const FIRST_LOOK_MS: u64 = 10;
/// Milliseconds between two looks.
const LOOK_MS: u64 = 50;

/// Times one call after the other with a host's clock. To start it costs a few stores; the clock
/// is read only by calls that come to a check, and a call that runs long asks now and then whether
/// its caller has left.
#[derive(Clone)]
pub struct Stopwatch(Arc<Timing>);

struct Timing {
    clock_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    /// 0 for none; else four times the milliseconds, and the source of the limit.
    limit: AtomicU64,
    /// The time at the call's first check, and one more; 0 before.
    first_check: AtomicU64,
    /// Of the call with the limit.
    caller: AtomicU64,
    /// When its caller is looked for next; of no meaning before the first check.
    next_look: AtomicU64,
    has_left: Box<dyn Fn(Caller) -> bool + Send + Sync>,
}

impl Stopwatch {
    /// A stopwatch over a clock of milliseconds that never goes back.
    pub fn new(clock_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Stopwatch {
        Stopwatch::with_callers(clock_ms, |_| false)
    }

    /// The same, with what tells whether a caller has left. It is asked seldom.
    pub fn with_callers(
        clock_ms: impl Fn() -> u64 + Send + Sync + 'static,
        has_left: impl Fn(Caller) -> bool + Send + Sync + 'static,
    ) -> Stopwatch {
        Stopwatch(Arc::new(Timing {
            clock_ms: Box::new(clock_ms),
            limit: AtomicU64::new(0),
            first_check: AtomicU64::new(0),
            caller: AtomicU64::new(0),
            next_look: AtomicU64::new(0),
            has_left: Box::new(has_left),
        }))
    }

    /// The next call begins. Its time counts from its first check: only the thread that runs the
    /// calls starts and checks.
    #[inline]
    pub fn start(&self, limit: Option<TimeLimit>) {
        let coded = limit.map_or(0, |l| u64::from(l.timeout_ms) * 4 + l.source as u64);
        self.0.limit.store(coded, Ordering::Relaxed);
        self.0.caller.store(limit.map_or(0, |l| l.caller.0), Ordering::Relaxed);
        self.0.first_check.store(0, Ordering::Relaxed);
    }

    /// What stops statements by this watch.
    pub fn check(&self) -> StopCheck {
        let watch = Arc::clone(&self.0);
        StopCheck::new(move || watch.stop())
    }
}

impl Timing {
    fn stop(&self) -> Option<Stop> {
        let coded = self.limit.load(Ordering::Relaxed);
        if coded == 0 {
            return None;
        }
        let now = (self.clock_ms)();
        let first = match self.first_check.load(Ordering::Relaxed) {
            0 => {
                self.first_check.store(now + 1, Ordering::Relaxed);
                self.next_look.store(now + FIRST_LOOK_MS, Ordering::Relaxed);
                now
            }
            first => first - 1,
        };
        let source = match coded % 4 {
            0 => LimitSource::Host,
            1 => LimitSource::Call,
            2 => LimitSource::Transaction,
            _ => LimitSource::Write,
        };
        let caller = Caller(self.caller.load(Ordering::Relaxed));
        let limit = TimeLimit { timeout_ms: (coded / 4) as u32, source, caller };
        let elapsed_ms = now.saturating_sub(first);
        let is_limited = limit.timeout_ms != TimeLimit::NO_TIMEOUT;
        if is_limited && elapsed_ms >= u64::from(limit.timeout_ms) {
            return Some(Stop::Overdue(Overdue { elapsed_ms, limit }));
        }
        if caller == Caller::NONE || now < self.next_look.load(Ordering::Relaxed) {
            return None;
        }
        self.next_look.store(now + LOOK_MS, Ordering::Relaxed);
        (self.has_left)(caller).then_some(Stop::Left)
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopwatch")
    }
}

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopCheck")
    }
}

/// How executions are watched; nothing by default.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Ends statements.
    pub stop: Option<StopCheck>,
    /// Counts what operators do.
    pub profiler: Option<Arc<Profiler>>,
}

impl Watch {
    /// Ends the statement if its time is over or its caller has left.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        match &self.stop {
            None => Ok(()),
            Some(stop) => match (stop.0)() {
                None => Ok(()),
                Some(reason) => Err(SqlError::stopped(reason)),
            },
        }
    }
}

/// Counters of a statement's operators. They add up over executions and sites.
pub struct Profiler {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    operators: Box<[Counters]>,
    /// Numbers of the operators by address: the statement is kept, so that they stay.
    numbers: BTreeMap<usize, usize>,
    _statement: Arc<Statement>,
}

#[derive(Default)]
struct Counters {
    rows: AtomicU64,
    loops: AtomicU64,
    ticks: AtomicU64,
}

/// What one operator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperatorProfile {
    /// Rows that it gave, over all its runs.
    pub rows: u64,
    /// How often it ran: more than once below a nested loop.
    pub loops: u64,
    /// Time in units of the host's clock, the operators below included.
    pub ticks: u64,
}

/// What one statement of a measured call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementTime {
    /// Its place among the procedure's statements.
    pub statement: u32,
    /// Time in units of the host's clock.
    pub ticks: u64,
    /// Bytes of its result.
    pub result_bytes: u64,
    /// It failed.
    pub failed: bool,
}

/// Statements of one call that are remembered; what a procedure runs beyond is not.
const MEASURED_STATEMENTS: usize = 1000;

/// The statements of a call that a host measures: it lends this to the database for that call.
#[derive(Debug)]
pub struct StatementTimes {
    clock: fn() -> u64,
    times: Vec<StatementTime>,
}

impl StatementTimes {
    /// Nothing measured yet; the clock has any unit and never goes back.
    pub fn new(clock: fn() -> u64) -> StatementTimes {
        StatementTimes { clock, times: Vec::new() }
    }

    /// What was measured since the last time, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = StatementTime> {
        self.times.drain(..)
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn add(&mut self, time: StatementTime) {
        if self.times.len() < MEASURED_STATEMENTS {
            self.times.push(time);
        }
    }
}

impl Profiler {
    /// Counters for the operators of the very statement that will be executed, and the clock: any
    /// unit, never backwards.
    pub fn new(
        statement: Arc<Statement>,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Profiler {
        let listed = statement.operators();
        let operators = listed.iter().map(|_| Counters::default()).collect();
        let numbers = listed.into_iter().map(address).zip(0..).collect();
        Profiler { clock: Box::new(clock), operators, numbers, _statement: statement }
    }

    /// What each operator did so far.
    pub fn operators(&self) -> Vec<OperatorProfile> {
        let read = |counters: &Counters| OperatorProfile {
            rows: counters.rows.load(Ordering::Relaxed),
            loops: counters.loops.load(Ordering::Relaxed),
            ticks: counters.ticks.load(Ordering::Relaxed),
        };
        self.operators.iter().map(read).collect()
    }

    /// The time.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Adds to an operator; one of another statement is let go.
    pub(crate) fn add(&self, operator: &Relation, more: OperatorProfile) {
        let number = self.numbers.get(&address(operator)).copied();
        if let Some(counters) = number.and_then(|number| self.operators.get(number)) {
            counters.rows.fetch_add(more.rows, Ordering::Relaxed);
            counters.loops.fetch_add(more.loops, Ordering::Relaxed);
            counters.ticks.fetch_add(more.ticks, Ordering::Relaxed);
        }
    }
}

fn address(operator: &Relation) -> usize {
    std::ptr::from_ref(operator).addr()
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.operators()).finish()
    }
}
