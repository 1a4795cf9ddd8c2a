//! Tasks as the control thread runs them: with its clocks, its catalog and its messages.

use super::timer::Now;
use crate::clock;
use crate::control::Control;
use crate::message::{Envelope, ForwardedAnswer};
use lockstep_types::{Failure, Status, ThreadId};
use lockstep_wire_volt::response::Response;
use std::time::Duration;

fn now() -> Now {
    Now { monotonic_ns: clock::monotonic_ns(), wall_us: clock::wall_us() }
}

impl Control {
    /// Begins the calls that are due.
    pub(in crate::control) fn attend_to_tasks(&mut self) {
        let catalog = self.schema.catalog();
        self.tasks.follow(catalog.version(), &catalog.plan.tasks, now());
        for call in self.tasks.due(self.may_run_tasks(), &now) {
            let placement = &self.facts.placement;
            let thread = call.partition.map_or(ThreadId(0), |at| placement.thread_of(at));
            self.outbox.send(thread, Envelope::Task(call.body));
        }
    }

    /// Whether tasks run: not while an administrator has paused the host or stops it, nor while
    /// the rows of a snapshot come in that they might change.
    pub(in crate::control) fn may_run_tasks(&self) -> bool {
        !self.facts.intake.is_held_by_administrator()
            && !self.facts.drain.has_begun()
            && self.restoring.is_none()
    }

    /// Until a task is due.
    pub(in crate::control) fn task_time_left(&self) -> Option<Duration> {
        self.tasks.left_ns(now()).map(Duration::from_nanos)
    }

    /// A task's call has been answered.
    pub(in crate::control) fn task_ended(&mut self, answer: &ForwardedAnswer) {
        let body = answer.frame.get(super::LENGTH_BYTES..).unwrap_or_default();
        let result = match Response::decode(body) {
            Ok(response) if response.is_success() => Ok(()),
            Ok(response) => {
                let text = response.status_text.unwrap_or("it failed").to_string();
                let is_refused = response.status == Status::ServerUnavailable.code();
                let status = match is_refused {
                    true => Status::ServerUnavailable,
                    false => Status::GracefulFailure,
                };
                Err(Failure::new(status, text))
            }
            Err(error) => Err(Failure::unexpected(format!("its answer: {error}"))),
        };
        self.tasks.ended(answer.origin.handle, result, &now);
    }

    /// Refuses a change of the catalog to more tasks than a host may have.
    pub(in crate::control) fn check_task_count(
        &self,
        next: &lockstep_plan::Catalog,
    ) -> Result<(), Failure> {
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
