//! Calls that a schema change has overtaken: sent to one partition, they need others by now.

use super::Shard;
use crate::load::LOAD_AT_PARTITION;
use crate::message::ForwardedCall;
use lockstep_wire_volt::Invocation;

impl Shard {
    /// Whether a call that was sent to this partition needs others by now: a global index was
    /// created while it was under way, or its procedure anew.
    pub(super) fn has_outgrown(&self, call: &ForwardedCall) -> bool {
        if !self.catalog.changes_elsewhere() || self.facts.partition_count == 1 {
            return false;
        }
        let Ok(invocation) = Invocation::decode(&call.body) else { return false };
        match invocation.procedure {
            LOAD_AT_PARTITION => self.loads_indexed(&invocation),
            name => self.catalog.procedure(name).is_some_and(|procedure| {
                procedure.keeps_global_indexes || procedure.changes_replicated
            }),
        }
    }

    pub(super) fn reroute(&mut self, call: ForwardedCall) {
        self.dispatch_again(call.origin, call.body.into());
    }
}
