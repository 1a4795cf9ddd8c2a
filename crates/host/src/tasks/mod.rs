//! Tasks: calls of procedures that the host makes by itself, by the schedules of its catalog.
//!
//! What is known of them beyond the catalog is here: when each runs next, which calls are in
//! progress, how they ended. None of it is logged or replayed. The calls go the way of a client's,
//! which logs them; a host that restarts begins every schedule again.
//!
//! A task has one schedule for the whole database, or with RUN ON PARTITIONS one for each
//! partition. A schedule has one call in progress at a time, also when its task is dropped and
//! created again meanwhile.

mod rows;
mod timer;

use crate::schema::SchemaHost;
use lockstep_base::extent::Extent;
use lockstep_plan::{CatalogTask, TaskErrorAction, TaskScope};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Failure, PartitionId, Status};
use lockstep_wire_volt::invocation::{self, CallOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
pub use timer::Now;
use timer::Timer;

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;
/// As much of a failure is logged.
const TOLD_CHARACTERS: usize = 1_000;
/// So long after a line in the log about failures of a task the next one may follow.
const LOG_PAUSE_NS: u64 = 1_000_000_000;

/// The surroundings of a host's tasks.
pub trait TaskHost: SchemaHost {
    /// Reads the clocks.
    type Clock: TaskClock;

    /// The state of its tasks.
    fn tasks(&mut self) -> &mut Tasks;

    /// Its clocks.
    fn clock(&self) -> Self::Clock;

    /// Whether tasks run at the moment.
    fn may_run_tasks(&mut self) -> bool;

    /// Makes a call; [`ended`] gets its end.
    fn make_call(&mut self, call: TaskCall);

    /// A call of a task failed, and is to be logged.
    fn log_failure(&mut self, failure: &TaskFailure);
}

/// The clocks of a host.
pub trait TaskClock {
    /// Reads both.
    fn read(&self) -> Now;
}

/// A call that is to be made.
#[derive(Debug)]
pub struct TaskCall {
    /// The handle by which its end is reported; the invocation has it too.
    pub handle: i64,
    /// The partition where it runs; none where it runs for the whole database, and may come in
    /// anywhere.
    pub partition: Option<PartitionId>,
    /// The invocation, without the frame's length.
    pub body: Vec<u8>,
}

/// A line for the log of the host.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// The task.
    pub task: String,
    /// What failed, and why.
    pub text: String,
    /// The task is stopped for it.
    pub is_stopped: bool,
}

/// Follows the catalog in force, and makes the calls that are due.
pub fn make_due<H: TaskHost>(host: &mut H) {
    let clock = host.clock();
    let catalog = Arc::clone(host.schema_changes().catalog());
    let (may_run, faults) = (host.may_run_tasks(), host.faults());
    let tasks = host.tasks();
    let keeps_runs = !faults.forget_task_runs();
    tasks.follow(catalog.version(), &catalog.plan.tasks, clock.read(), keeps_runs);
    for call in tasks.due(may_run, &clock) {
        host.make_call(call);
    }
}

/// A call has been answered.
pub fn ended<H: TaskHost>(host: &mut H, handle: i64, result: Result<(), Failure>) {
    let clock = host.clock();
    if let Some(failure) = host.tasks().ended(handle, result, &clock) {
        host.log_failure(&failure);
    }
}

/// All tasks.
pub struct Tasks {
    tasks: BTreeMap<String, Task>,
    /// The calls in progress by their handles: of which task, and at which of its places.
    runs: BTreeMap<i64, (String, usize)>,
    next_handle: i64,
    /// The version of the catalog that they are of.
    version: Option<u64>,
    /// Nothing is due before this, as long as nothing else happens.
    look_ns: u64,
    /// Whether they might run when they were looked at.
    might_run: bool,
    partition_count: u32,
    least_ms: u64,
}

struct Task {
    declared: Arc<CatalogTask>,
    /// The parameters of its calls, encoded.
    parameters: Vec<u8>,
    /// An error stopped it.
    stopped: bool,
    /// It is in no catalog any more, but a call of it is in progress.
    gone: bool,
    places: Vec<Place>,
    /// When its last line was written into the log.
    logged_ns: Option<u64>,
}

/// A task at a place.
struct Place {
    /// The partition; none where the task runs for the whole database.
    partition: Option<u32>,
    timer: Timer,
    run: Option<Run>,
    counts: Counts,
    /// Why its last call failed.
    failure: Option<String>,
}

/// A call in progress.
struct Run {
    handle: i64,
    begun_ns: u64,
    /// The version of the catalog that its task came with.
    declared: u64,
}

#[derive(Default)]
struct Counts {
    /// How often the next run was worked out, and what that took.
    scheduled: u64,
    scheduling_ns: Extent,
    /// How long it was due before it was begun.
    waits: u64,
    waited_ns: Extent,
    /// Calls that were answered.
    calls: u64,
    called_ns: Extent,
    failures: u64,
}

impl Tasks {
    /// The tasks of a host; runs of one schedule begin no sooner than `least_ms` after one another
    /// (option `task_min_interval_ms`).
    pub fn new(partition_count: u32, least_ms: u64) -> Tasks {
        assert!(partition_count > 0, "a host has partitions");
        Tasks {
            tasks: BTreeMap::new(),
            runs: BTreeMap::new(),
            next_handle: 1,
            version: None,
            look_ns: 0,
            might_run: true,
            partition_count,
            least_ms,
        }
    }

    /// Takes over what a catalog says, if it is another one. `keeps_runs` is off to see that the
    /// checks notice calls that were forgotten.
    fn follow(
        &mut self,
        version: u64,
        tasks: &BTreeMap<String, Arc<CatalogTask>>,
        now: Now,
        keeps_runs: bool,
    ) {
        if self.version == Some(version) {
            return;
        }
        assert!(self.version < Some(version), "versions of the catalog grow");
        self.version = Some(version);
        self.look_ns = 0;
        for (name, task) in &mut self.tasks {
            task.gone = !tasks.contains_key(name);
        }
        self.tasks.retain(|_, task| !task.gone || task.is_under_way());
        for (name, declared) in tasks {
            match self.tasks.get_mut(name) {
                Some(task) if task.declared.declared == declared.declared => {
                    task.change(declared, self.least_ms, now);
                }
                Some(task) => {
                    let before = std::mem::take(&mut task.places);
                    *task = Task::new(declared, self.partition_count, self.least_ms, now);
                    if keeps_runs {
                        task.take_runs(before);
                    }
                }
                None => {
                    let task = Task::new(declared, self.partition_count, self.least_ms, now);
                    self.tasks.insert(name.clone(), task);
                }
            }
        }
    }

    /// The calls that are due. While they may not run, what is due waits, or is given up if its
    /// time is one of the calendar.
    fn due(&mut self, may_run: bool, clock: &impl TaskClock) -> Vec<TaskCall> {
        let now = clock.read();
        let changed = std::mem::replace(&mut self.might_run, may_run) != may_run;
        if now.monotonic_ns < self.look_ns && !changed {
            return Vec::new();
        }
        let mut calls = Vec::new();
        let mut left_ns = u64::MAX;
        for (name, task) in self.tasks.iter_mut().filter(|(_, task)| task.is_running()) {
            for number in 0..task.places.len() {
                let place = &mut task.places[number];
                if place.run.is_some() {
                    continue;
                }
                if let Some(late_ns) = place.timer.late_ns(now) {
                    if may_run {
                        let handle = self.next_handle;
                        self.next_handle += 1;
                        debug_assert!(!self.runs.contains_key(&handle), "handles are given once");
                        self.runs.insert(handle, (name.clone(), number));
                        calls.push(task.begin(number, handle, late_ns, now));
                        task.places[number].counts.count_scheduling(now, clock.read());
                        continue;
                    }
                    if !place.timer.passes(now) {
                        continue;
                    }
                }
                left_ns = left_ns.min(place.timer.left_ns(now).unwrap_or(u64::MAX));
            }
        }
        self.look_ns = now.monotonic_ns.saturating_add(left_ns);
        calls
    }

    /// Until something is due, nanoseconds; `None` for nothing.
    pub fn left_ns(&self, now: Now) -> Option<u64> {
        (self.look_ns < u64::MAX).then(|| self.look_ns.saturating_sub(now.monotonic_ns))
    }

    /// A call has been answered: what is to be logged.
    fn ended(
        &mut self,
        handle: i64,
        result: Result<(), Failure>,
        clock: &impl TaskClock,
    ) -> Option<TaskFailure> {
        let now = clock.read();
        let (name, number) = self.runs.remove(&handle)?;
        let task = self.tasks.get_mut(&name)?;
        self.look_ns = 0;
        let mut failure = None;
        let place = task.places.get_mut(number);
        if let Some(run) = place.and_then(|place| place.run.take_if(|run| run.handle == handle))
            && run.declared == task.declared.declared
            && !task.gone
        {
            failure = task.count(number, &run, result, now);
            task.places[number].counts.count_scheduling(now, clock.read());
        }
        if task.gone && !task.is_under_way() {
            self.tasks.remove(&name);
        }
        failure
    }

    /// The calls in progress.
    pub fn in_progress(&self) -> usize {
        self.runs.len()
    }

    /// What must hold between any two steps. Panics if it does not.
    pub fn check_invariants(&self) {
        for (handle, (name, number)) in &self.runs {
            assert!(*handle < self.next_handle, "the handle of a call was given");
            let task = self.tasks.get(name);
            // One that came again with other schedules has none for it.
            let place = task.and_then(|task| task.places.get(*number));
            let run = place.and_then(|place| place.run.as_ref());
            assert!(run.is_none_or(|run| self.runs.contains_key(&run.handle)), "a call is known");
        }
        for (name, task) in &self.tasks {
            assert_eq!(name, &task.declared.name, "a task is found by its name");
            assert!(!task.gone || task.is_under_way(), "a dropped task waits for its calls");
            for (number, place) in task.places.iter().enumerate() {
                let Some(run) = &place.run else { continue };
                let known = self.runs.get(&run.handle);
                assert_eq!(known, Some(&(name.clone(), number)), "the call of a schedule is known");
            }
        }
    }
}

impl Task {
    fn new(declared: &Arc<CatalogTask>, partitions: u32, least_ms: u64, now: Now) -> Task {
        let at = match declared.scope {
            TaskScope::Partitions => (0..partitions).map(Some).collect(),
            TaskScope::Database | TaskScope::Hosts => vec![None],
        };
        let place = |partition: Option<u32>| Place {
            partition,
            timer: Timer::new(&declared.schedule, least_ms, now),
            run: None,
            counts: Counts::default(),
            failure: None,
        };
        Task {
            parameters: encoded(declared),
            stopped: false,
            gone: false,
            places: at.into_iter().map(place).collect(),
            logged_ns: None,
            declared: Arc::clone(declared),
        }
    }

    /// The catalog has changed, and with it perhaps what it says of this task.
    fn change(&mut self, declared: &Arc<CatalogTask>, least_ms: u64, now: Now) {
        let was_running = self.is_running();
        self.gone = false;
        self.stopped &= self.declared.changed == declared.changed;
        self.declared = Arc::clone(declared);
        self.parameters = encoded(declared);
        if self.is_running() && !was_running {
            for place in &mut self.places {
                place.timer = Timer::new(&declared.schedule, least_ms, now);
                place.failure = None;
            }
        }
    }

    /// The calls that a task of the same name has in progress hold back those of this one.
    fn take_runs(&mut self, before: Vec<Place>) {
        for (place, before) in self.places.iter_mut().zip(before) {
            place.run = before.run;
        }
    }

    fn is_running(&self) -> bool {
        self.declared.enabled && !self.stopped && !self.gone
    }

    fn is_under_way(&self) -> bool {
        self.places.iter().any(|place| place.run.is_some())
    }

    /// Begins a call at a place.
    fn begin(&mut self, number: usize, handle: i64, late_ns: u64, now: Now) -> TaskCall {
        assert!(self.is_running(), "only an enabled task runs");
        let place = &mut self.places[number];
        assert!(place.run.is_none(), "a schedule has one call in progress at a time");
        place.timer.begin(now);
        place.counts.waits += 1;
        place.counts.waited_ns.add(late_ns);
        let declared = self.declared.declared;
        place.run = Some(Run { handle, begun_ns: now.monotonic_ns, declared });
        let options = CallOptions {
            all_partition_destination: place.partition.map(|partition| partition as i32),
            ..CallOptions::default()
        };
        let mut body = Vec::new();
        let procedure = &self.declared.procedure;
        invocation::encode(&mut body, procedure, handle, &options, &self.parameters);
        body.drain(..LENGTH_BYTES);
        TaskCall { handle, partition: place.partition.map(PartitionId), body }
    }

    /// A call of this task has ended: what is to be logged.
    fn count(
        &mut self,
        number: usize,
        run: &Run,
        result: Result<(), Failure>,
        now: Now,
    ) -> Option<TaskFailure> {
        debug_assert_eq!(run.declared, self.declared.declared, "it is a call of this task");
        let place = &mut self.places[number];
        place.timer.end(now);
        let failure = match result {
            // Nothing was done: the host takes no such calls at the moment.
            Err(failure) if failure.status == Status::ServerUnavailable => {
                let text = format!("it was not run: {}", failure.message);
                place.failure = Some(text.clone());
                return match self.declared.on_error {
                    TaskErrorAction::Ignore => None,
                    TaskErrorAction::Stop | TaskErrorAction::Log => self.warning(now, text),
                };
            }
            result => result.err(),
        };
        place.counts.calls += 1;
        place.counts.called_ns.add(now.monotonic_ns.saturating_sub(run.begun_ns));
        place.failure = None;
        let failure = failure?;
        place.counts.failures += 1;
        debug_assert!(place.counts.failures <= place.counts.calls, "a call fails once");
        let at = place.partition.map_or_else(String::new, |p| format!(" at partition {p}"));
        // One line of the log, of bounded length.
        let why: String =
            failure.message.replace('\n', " ").chars().take(TOLD_CHARACTERS).collect();
        let text = format!("procedure {} failed{at}: {why}", self.declared.procedure);
        place.failure = Some(text.clone());
        match self.declared.on_error {
            TaskErrorAction::Stop => {
                self.stopped = true;
                Some(TaskFailure { task: self.declared.name.clone(), text, is_stopped: true })
            }
            TaskErrorAction::Log => self.warning(now, text),
            TaskErrorAction::Ignore => None,
        }
    }

    /// A line for the log, unless there was one a moment ago.
    fn warning(&mut self, now: Now, text: String) -> Option<TaskFailure> {
        let is_soon = |logged_ns: u64| now.monotonic_ns.saturating_sub(logged_ns) < LOG_PAUSE_NS;
        if self.logged_ns.is_some_and(is_soon) {
            return None;
        }
        self.logged_ns = Some(now.monotonic_ns);
        Some(TaskFailure { task: self.declared.name.clone(), text, is_stopped: false })
    }
}

impl Counts {
    fn count_scheduling(&mut self, from: Now, to: Now) {
        self.scheduled += 1;
        self.scheduling_ns.add(to.monotonic_ns.saturating_sub(from.monotonic_ns));
    }
}

/// The arguments as a call has them.
fn encoded(task: &CatalogTask) -> Vec<u8> {
    let mut writer = ParameterWriter::default();
    for (sql_type, value) in &task.arguments {
        writer.scalar(*sql_type, value.as_datum());
    }
    writer.bytes().to_vec()
}

#[cfg(test)]
mod tests;
