//! Calls that tasks make: they come in here as those of a connection would.

use super::Shard;
use super::calls::Taken;
use crate::message::{ForwardedAnswer, NO_PROCEDURE, Origin};
use crate::own_call::OwnCall;
use lockstep_types::Status;
use lockstep_wire_volt::{Invocation, response};

impl Shard {
    /// Makes a task's call. The control thread waits for its answer.
    pub(super) fn task_call(&mut self, body: &[u8]) {
        let handle = Invocation::decode(body).map_or(0, |invocation| invocation.client_handle);
        self.task_calls += 1;
        let mut frame = self.outbox.spare.take();
        let taken = match self.phase.takes_calls() {
            false => {
                let text = Some("Server is shutting down.");
                response::write_simple(&mut frame, handle, Status::ServerUnavailable, text);
                Taken::Refused
            }
            true => self.take_invocation(OwnCall::Task.key(), body, &mut frame),
        };
        // Counted already, and read from the frame by who waits.
        let origin = Origin {
            thread: self.thread,
            connection: OwnCall::Task.key(),
            handle,
            arrived_us: self.now_us,
            procedure: NO_PROCEDURE,
            weight: 0,
        };
        let answer = ForwardedAnswer { origin, status: Status::Success, frame };
        match taken {
            Taken::Answered(slot) => {
                let entry = self.replicas[slot].answer_position();
                self.answer_when_safe((slot, entry), answer);
            }
            Taken::Refused => self.forwarded_answer(answer),
            Taken::Pending => self.outbox.spare.give_back(answer.frame),
        }
    }
}
