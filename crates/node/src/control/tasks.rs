//! Tasks at the control thread: the surroundings of [`lockstep_host::tasks`], with its clocks and
//! its messages.

use super::Control;
use super::own_calls::LENGTH_BYTES;
use crate::clock;
use crate::message::{Envelope, ForwardedAnswer};
use lockstep_host::tasks::{self, Now, TaskCall, TaskClock, TaskFailure, TaskHost, Tasks};
use lockstep_types::{Failure, Status, ThreadId, Value};
use lockstep_wire_volt::response::Response;
use std::time::Duration;

/// The clocks of the process and of the system.
pub struct HostClock;

impl TaskClock for HostClock {
    fn read(&self) -> Now {
        Now { monotonic_ns: clock::monotonic_ns(), wall_us: clock::wall_us() }
    }
}

impl TaskHost for Control {
    type Clock = HostClock;

    fn tasks(&mut self) -> &mut Tasks {
        &mut self.tasks
    }

    fn clock(&self) -> HostClock {
        HostClock
    }

    /// Not while an administrator has paused the host or stops it, nor while the rows of a snapshot
    /// come in that they might change.
    fn may_run_tasks(&mut self) -> bool {
        self.runs_tasks()
    }

    fn make_call(&mut self, call: TaskCall) {
        let placement = self.facts.placement();
        let first = ThreadId::at(placement.host(), 0);
        let thread = call.partition.map_or(first, |at| placement.leader_of(at));
        if thread.host() != placement.host() {
            self.lead.note_task_call(thread.host(), &call.body);
        }
        self.outbox.send(thread, Envelope::Task(call.body));
    }

    fn log_failure(&mut self, failure: &TaskFailure) {
        let TaskFailure { task, text, is_stopped } = failure;
        match is_stopped {
            true => tracing::error!(
                task,
                "{text}; the task is stopped (ALTER TASK {task} ENABLE starts it again)"
            ),
            false => tracing::warn!(task, "{text}"),
        }
    }
}

impl Control {
    fn runs_tasks(&self) -> bool {
        self.facts.placement().leads_control()
            && !self.facts.intake.is_held_by_administrator()
            && !self.facts.drain.has_begun()
            && self.restoring.is_none()
            && !self.lead_move.is_any()
    }

    /// The rows of `@Statistics TASK`, without the columns of the host.
    pub(super) fn task_rows(&self) -> Vec<Vec<Value>> {
        self.tasks.rows(self.runs_tasks())
    }

    /// Until a task is due.
    pub(super) fn task_time_left(&self) -> Option<Duration> {
        self.tasks.left_ns(HostClock.read()).map(Duration::from_nanos)
    }

    /// A task's call has been answered.
    pub(super) fn task_ended(&mut self, answer: &ForwardedAnswer) {
        self.lead.task_call_ended(answer.origin.handle);
        let body = answer.frame.get(LENGTH_BYTES..).unwrap_or_default();
        let result = match Response::decode(body) {
            Ok(response) if response.is_success() => Ok(()),
            Ok(response) => {
                let text = response.status_text.unwrap_or("it failed").to_string();
                // Neither is the procedure's fault: a call that was refused, or was at a host that
                // is lost.
                let of_host = [Status::ServerUnavailable, Status::ResponseUnknown];
                let status = match of_host.iter().any(|status| response.status == status.code()) {
                    true => Status::ServerUnavailable,
                    false => Status::GracefulFailure,
                };
                Err(Failure::new(status, text))
            }
            Err(error) => Err(Failure::unexpected(format!("its answer: {error}"))),
        };
        tasks::ended(self, answer.origin.handle, result);
    }

    /// Refuses a change of the catalog to more tasks than a host may have.
    pub(super) fn check_task_count(&self, next: &lockstep_plan::Catalog) -> Result<(), Failure> {
        let limit = self.facts.options.max_tasks.get();
        let (before, after) = (self.schema.catalog().plan.tasks.len(), next.tasks.len());
        match after > before && after as u64 > limit {
            false => Ok(()),
            true => Err(Failure::graceful(format!(
                "There would be {after} tasks, and a host has {limit} at most (option max_tasks)"
            ))),
        }
    }
}
