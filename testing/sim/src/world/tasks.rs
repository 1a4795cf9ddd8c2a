//! Tasks of a simulated host: the surroundings of [`lockstep_host::tasks`], by the simulated clock.
//! Their calls go the way of a client's.

use super::control::AtControl;
use super::{CallNumber, World};
use crate::plans::Request;
use lockstep_host::tasks::{self, Now, TaskCall, TaskClock, TaskFailure, TaskHost, Tasks};
use lockstep_types::{Failure, PartitionId, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The calls' numbers begin here, far from those of other calls.
const FIRST_CALL: CallNumber = usize::MAX / 8 * 7;

/// The tasks of a host, and the calls that they have in progress.
pub(super) struct SimTasks {
    tasks: Tasks,
    next_call: CallNumber,
    handles: BTreeMap<CallNumber, i64>,
    sent: Vec<SentTask>,
    failures: Vec<TaskFailure>,
    followed: TaskVersions,
}

/// By task, the version of the catalog that it came with, and the one that last said something of
/// it.
pub(crate) type TaskVersions = BTreeMap<String, (u64, u64)>;

/// A call that was made.
#[derive(Debug)]
pub(crate) struct SentTask {
    pub(crate) call: CallNumber,
    pub(crate) partition: Option<PartitionId>,
    pub(crate) body: Arc<[u8]>,
}

/// Whether a call is one of a task.
pub(crate) fn is_task(call: CallNumber) -> bool {
    (FIRST_CALL..FIRST_CALL + usize::MAX / 16).contains(&call)
}

impl SimTasks {
    pub(super) fn new(partition_count: u32) -> SimTasks {
        SimTasks {
            tasks: Tasks::new(partition_count, 0),
            next_call: FIRST_CALL,
            handles: BTreeMap::new(),
            sent: Vec::new(),
            failures: Vec::new(),
            followed: TaskVersions::new(),
        }
    }

    /// See [`Tasks::check_invariants`].
    pub(super) fn check_invariants(&self) {
        self.tasks.check_invariants();
    }
}

/// The simulated clock.
pub(super) struct SimClock(i64);

impl TaskClock for SimClock {
    fn read(&self) -> Now {
        Now { monotonic_ns: self.0 as u64 * 1_000, wall_us: self.0 }
    }
}

impl TaskHost for AtControl<'_> {
    type Clock = SimClock;

    fn tasks(&mut self) -> &mut Tasks {
        &mut self.world.tasks.tasks
    }

    fn clock(&self) -> SimClock {
        SimClock(self.world.now_us)
    }

    fn may_run_tasks(&mut self) -> bool {
        true
    }

    fn make_call(&mut self, call: TaskCall) {
        let TaskCall { handle, partition, body } = call;
        let own = &mut self.world.tasks;
        let (call, body) = (own.next_call, Arc::from(body));
        own.next_call += 1;
        own.handles.insert(call, handle);
        own.sent.push(SentTask { call, partition, body: Arc::clone(&body) });
        self.world.request(call, Request::Procedure(body));
    }

    fn log_failure(&mut self, failure: &TaskFailure) {
        let TaskFailure { task, text, is_stopped } = failure;
        let failure =
            TaskFailure { task: task.clone(), text: text.clone(), is_stopped: *is_stopped };
        self.world.tasks.failures.push(failure);
    }
}

impl World {
    /// The control thread follows the catalog in force and makes the calls that are due: those.
    pub(crate) fn run_tasks(&mut self) -> Vec<SentTask> {
        tasks::make_due(&mut self.at_control());
        self.tasks.followed = self.task_versions();
        std::mem::take(&mut self.tasks.sent)
    }

    /// A call of a task was answered.
    pub(crate) fn task_ended(&mut self, call: CallNumber, result: Result<(), Failure>) {
        let handle = self.tasks.handles.remove(&call).expect("the call was made");
        tasks::ended(&mut self.at_control(), handle, result);
    }

    /// The tasks that failures have stopped since the last time.
    pub(crate) fn take_stopped_tasks(&mut self) -> Vec<String> {
        let failures = std::mem::take(&mut self.tasks.failures).into_iter();
        failures.filter(|failure| failure.is_stopped).map(|failure| failure.task).collect()
    }

    /// The rows of `@Statistics TASK`.
    pub(crate) fn task_rows(&self) -> Vec<Vec<Value>> {
        self.tasks.tasks.rows(true)
    }

    /// Of the tasks in the catalog that the control thread followed last.
    pub(crate) fn followed_tasks(&self) -> &TaskVersions {
        &self.tasks.followed
    }

    /// Of the tasks in the catalog of the control thread.
    pub(crate) fn task_versions(&self) -> TaskVersions {
        let tasks = &self.control.schema.catalog().plan.tasks;
        let versions = |task: &Arc<lockstep_plan::CatalogTask>| (task.declared, task.changed);
        tasks.iter().map(|(name, task)| (name.clone(), versions(task))).collect()
    }

    /// Until the next call is due, microseconds.
    pub(crate) fn task_time_left_us(&self) -> Option<i64> {
        let left_ns = self.tasks.tasks.left_ns(SimClock(self.now_us).read())?;
        Some(i64::try_from(left_ns / 1_000 + 1).unwrap_or(i64::MAX))
    }
}
