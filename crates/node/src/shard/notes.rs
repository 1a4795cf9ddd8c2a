//! Lines in the log about what single clients do: input that is refused, and calls that take
//! long. They cost calls nothing but a comparison.

use super::Shard;
use crate::clock;
use crate::connection::ConnectionKey;
use crate::line_limit::LineLimit;
use crate::message::{NO_PROCEDURE, Origin};
use crate::options::Milliseconds;
use lockstep_base::elapsed::Elapsed;
use std::fmt::Display;

/// What a thread has logged of its clients, and from when on a call is slow.
pub(super) struct Notes {
    lines: LineLimit,
    slow: Elapsed,
}

impl Notes {
    /// With the option `slow_call_ms`; none is never.
    pub(super) fn new(slow_call: Option<Milliseconds>) -> Notes {
        let slow_ms = slow_call.map_or(u64::MAX / 1000, Milliseconds::get);
        Notes { lines: LineLimit::default(), slow: Elapsed::from_ms(slow_ms) }
    }
}

impl Notes {
    /// Whether a line may be logged now; then, how many were left out before it.
    pub(super) fn may_log(&mut self, now_us: i64) -> Option<u64> {
        self.lines.take(now_us)
    }
}

impl Shard {
    /// Input of a connection was refused.
    #[cold]
    pub(super) fn note_refused(&mut self, key: ConnectionKey, what: &str, why: &dyn Display) {
        let Some(left_out) = self.notes.may_log(self.now_us) else { return };
        let peer = self.connections.get(key).map_or_else(String::new, |c| c.peer.clone());
        tracing::warn!(%peer, left_out, "{what}: {why}");
    }

    /// A call ran on its connection's own thread, which began at a reading of
    /// [`clock::coarse_ms`].
    #[inline]
    pub(super) fn note_if_slow(&mut self, began_ms: u64, origin: &Origin) {
        let ran = Elapsed::from_ms(clock::coarse_ms().saturating_sub(began_ms));
        if ran >= self.notes.slow {
            self.note_slow(ran, origin);
        }
    }

    /// A call of a connection of this thread was answered.
    #[inline]
    pub(super) fn note_if_late(&mut self, origin: &Origin) {
        let took = Elapsed::between_us(origin.arrived_us, self.now_us);
        if took >= self.notes.slow {
            self.note_slow(took, origin);
        }
    }

    #[cold]
    fn note_slow(&mut self, took: Elapsed, origin: &Origin) {
        let Some(left_out) = self.notes.may_log(self.now_us) else { return };
        let found = self.catalog.procedures().get(origin.procedure as usize);
        let name = match found {
            Some(procedure) if origin.procedure != NO_PROCEDURE => {
                procedure.definition.name.clone()
            }
            _ => "ad hoc SQL or a system procedure".to_string(),
        };
        let took_ms = took.ms();
        let peer =
            self.connections.get(origin.connection).map_or_else(String::new, |c| c.peer.clone());
        tracing::warn!(%peer, took_ms, left_out, "slow call (option slow_call_ms): {name}");
    }
}
