//! Where the entries of a partition come from while they run again.

use lockstep_plan::Catalog;
use lockstep_txn::log_entry::LoggedStatement;
use std::sync::Arc;

/// The log of one partition, and what is broken in its replay.
pub trait PartitionLog {
    /// The next piece, as the log has it, or several of them together; `None` at the end.
    ///
    /// # Errors
    /// It cannot be read: the text for the user.
    fn next(&mut self) -> Result<Option<&[u8]>, String>;

    /// N more entries were read.
    #[inline]
    fn note_progress(&mut self, _entries: u64) {}

    /// What is broken: for tests of the checks. Nothing is, in a server.
    #[inline]
    fn faults(&self) -> ReplayFaults {
        ReplayFaults::default()
    }

    /// A fault: whether a part of a transaction is lost whose statement has this text.
    #[inline]
    fn loses_part(&self, _text: &str) -> bool {
        false
    }

    /// A fault: a statement runs with these parameters, not with those of its entry.
    #[inline]
    fn other_parameters(&self, _: &Catalog, _: &LoggedStatement<'_>) -> Option<Arc<[u8]>> {
        None
    }
}

/// What is broken in a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayFaults {
    /// What was not committed runs again too.
    pub replays_uncommitted: bool,
    /// Writes that failed where they ran first run again.
    pub replays_failed_writes: bool,
    /// A copy that comes to lead takes what nobody has decided for committed.
    pub commits_open: bool,
    /// A copy that comes to lead counts each yes in its log, void or not.
    pub trusts_void_votes: bool,
    /// Bulk loads at one partition do not run again.
    pub loses_loads: bool,
    /// The images of calls that are logged by their effects are not made again.
    pub loses_effects: bool,
}

/// Pieces of a log in memory.
#[derive(Debug, Clone, Default)]
pub struct LogPieces {
    pieces: Arc<Vec<Vec<u8>>>,
    next: usize,
}

impl LogPieces {
    /// The pieces in their order.
    pub fn new(pieces: Arc<Vec<Vec<u8>>>) -> LogPieces {
        LogPieces { pieces, next: 0 }
    }
}

impl PartitionLog for LogPieces {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let piece = self.pieces.get(self.next);
        self.next += 1;
        Ok(piece.map(Vec::as_slice))
    }
}
