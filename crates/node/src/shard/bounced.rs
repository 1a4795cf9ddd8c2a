//! Calls that come to a thread which cannot run them, because another host leads what they need by
//! now: nothing has happened, and they go back to the thread where they came in, which sends them
//! where they belong. So that thread knows at which hosts a call may be.

use super::Shard;
use super::coordinator::origin_of;
use super::handed::At;
use crate::message::{BouncedCall, Envelope, ForwardedCall, Origin};
use lockstep_types::{Failure, Status};
use std::sync::Arc;

impl Shard {
    /// A call that came to a thread that cannot run it.
    #[cold]
    pub(super) fn bounce(&mut self, call: Envelope) {
        let origin = origin_of(&call);
        let is_of_site = origin.thread.index() < usize::from(self.placement.site_count());
        let body = match call {
            Envelope::Call(_, call) => Some(call.body),
            Envelope::Via(via) => Some(via.call.body),
            Envelope::AdHoc(_, call) => Some(call.body.to_vec()),
            Envelope::Multi(call) => call.origin.body.map(|body| body.to_vec()),
            Envelope::OneRound(_, call) => Some(call.invocation().to_vec()),
            _ => unreachable!("calls are sent back"),
        };
        // What a control thread has ordered is not repeated.
        let body = body.filter(|body| is_of_site && !body.is_empty());
        let Some(body) = body else { return self.refuse_elsewhere(origin) };
        let call =
            BouncedCall { epoch: self.placement.epoch(), call: ForwardedCall { origin, body } };
        self.send(origin.thread, Envelope::Bounced(Box::new(call)));
    }

    /// A call of a connection of this thread has come back.
    #[cold]
    pub(super) fn take_bounced(&mut self, bounced: Box<BouncedCall>) {
        if bounced.epoch > self.placement.epoch() {
            // The placement by which it was sent back is on its way.
            return self.waiting_calls.push(Envelope::Bounced(bounced));
        }
        let ForwardedCall { origin, body } = bounced.call;
        let Some(origin) = self.unnote_handed(origin) else { return };
        let origin = self.note_handed(origin, At::Anywhere);
        self.dispatch_again(origin, Arc::from(body));
    }

    /// A call that nobody can run now: its caller hears that nothing has happened.
    #[cold]
    pub(super) fn refuse_elsewhere(&mut self, origin: Origin) {
        let host = self.facts.host;
        let text = format!(
            "VOLTDB ERROR: host {host} does not lead what the call needs: another host does since \
             just now. Nothing was done; the call can be repeated."
        );
        self.refuse_by_message(origin, &Failure::new(Status::ServerUnavailable, text));
    }
}
