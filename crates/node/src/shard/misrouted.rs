//! Calls that are misrouted after a schema change: sent to one partition, they need others by now.

use super::Shard;
use crate::message::ForwardedCall;
use lockstep_host::destination::is_misrouted;
use lockstep_wire_volt::Invocation;

impl Shard {
    /// Whether a call that was sent to one partition needs others by now: a global index was
    /// created while it was in flight, or its procedure was created again.
    pub(super) fn is_misrouted(&self, call: &ForwardedCall) -> bool {
        // The bytes are read only where it may matter.
        self.catalog.changes_elsewhere()
            && Invocation::decode(&call.body)
                .is_ok_and(|invocation| is_misrouted(&self.catalog, &self.facts.ring, &invocation))
    }

    pub(super) fn reroute(&mut self, call: ForwardedCall) {
        self.dispatch_again(call.origin, call.body.into());
    }
}
