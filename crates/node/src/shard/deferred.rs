//! Calls that are deferred at a partition: those that must not run before all is decided, and those
//! that are too many.

use super::{HeldCall, Shard};
use crate::catalog::HostProcedure;
use crate::message::{Envelope, ForwardedAnswer, Origin, ViaCall};
use lockstep_types::{Failure, Status};
use lockstep_wire_volt::{Invocation, response};

impl Shard {
    /// Whether the log has what the call did, so that it cannot be undone and run again.
    #[cold]
    pub(super) fn call_runs_once(&self, call: &HeldCall) -> bool {
        let (HeldCall::Invocation(call) | HeldCall::Via(ViaCall { call, .. })) = call else {
            return false;
        };
        let invocation = Invocation::decode(&call.body).expect("it was decoded when it came");
        let procedure = self.catalog.called(call.origin.procedure, invocation.procedure);
        procedure.is_some_and(HostProcedure::runs_once)
    }

    #[cold]
    pub(super) fn refuse_call(&mut self, call: &HeldCall) {
        let origin = call.origin();
        let limit = self.facts.options.max_held_calls.get();
        let text = format!(
            "The partition has deferred {limit} calls until a multi-partition transaction ends \
             (limit of the option max_held_calls); try again later."
        );
        self.refuse_by_message(origin, &Failure::new(Status::ServerUnavailable, text));
    }

    /// Answers with a failure by a message, to this thread as well: a connection that is being read
    /// takes no answer but by its reader.
    #[cold]
    pub(super) fn refuse_by_message(&mut self, origin: Origin, failure: &Failure) {
        let (status, text) = (failure.status, failure.message.as_str());
        let mut frame = self.outbox.spare.take();
        response::write_simple(&mut frame, origin.handle, status, Some(text));
        let answer = ForwardedAnswer { origin, status, frame };
        self.send(origin.thread, Envelope::Answer(answer));
    }
}
