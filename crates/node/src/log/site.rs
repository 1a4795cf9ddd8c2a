//! The site's end of the command log.
//!
//! A site hands over what it logged once a round and goes on; buffers come back for reuse. It
//! learns from one counter how far its log is durable. It never waits: a site that is too far
//! ahead takes no new calls until the log has caught up, and messages for it wait where they are.

use super::shared::LogShared;
use lockstep_base::ring::{Consumer, Producer};
use lockstep_txn::HandedLog;
use lockstep_types::ThreadId;
use std::sync::Arc;

/// A site's end.
pub(crate) struct SiteLog {
    pub(super) batches: Producer<HandedLog>,
    pub(super) spares: Consumer<Vec<u8>>,
    pub(super) shared: Arc<LogShared>,
    pub(super) site: usize,
    /// Answers wait until what they depend on is durable.
    pub(super) gates: bool,
    /// Bytes that may be handed over and not written yet.
    pub(super) limit_bytes: u64,
    pub(super) handed_bytes: u64,
    /// How far the log was durable when it was last looked at.
    pub(super) durable: u64,
    /// Bytes that the log's thread got before the copy was loaded again: how far these are durable
    /// means nothing for the copy.
    pub(super) restarted_after_bytes: Option<u64>,
}

impl SiteLog {
    /// Whether answers wait for the log.
    #[inline]
    pub fn gates(&self) -> bool {
        self.gates
    }

    /// Looks how far the log is durable: the number of the last such entry.
    #[inline]
    pub fn refresh(&mut self) -> u64 {
        self.durable = self.known_durable();
        self.durable
    }

    /// The partition is at a site from now on, which is woken when more is durable.
    pub fn place(&self, site: ThreadId) {
        self.shared.place(self.site, site.index());
    }

    /// The copy was loaded with the data up to an entry, and its log goes on after that.
    pub fn restart(&mut self, position: u64) {
        self.restarted_after_bytes = Some(self.handed_bytes);
        self.durable = position;
    }

    #[inline]
    fn known_durable(&self) -> u64 {
        match self.restarted_after_bytes {
            None => self.shared.durable(self.site),
            Some(before) => self.durable_since(before),
        }
    }

    /// The bytes are read first: when they have grown, the entry is of what came since.
    #[cold]
    fn durable_since(&self, before_bytes: u64) -> u64 {
        match self.shared.written_bytes(self.site) > before_bytes {
            true => self.shared.durable(self.site),
            false => self.durable,
        }
    }

    /// How far it was at the last look.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether the writer has given up: nothing becomes durable any more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed()
    }

    /// Whether it is further than at the last look.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.known_durable() > self.durable
    }

    /// Whether the log lags so far that no more calls should be taken.
    #[inline]
    pub fn is_behind(&self, waiting_bytes: usize) -> bool {
        let unwritten = self.unwritten_bytes() + waiting_bytes as u64;
        unwritten > self.limit_bytes && !self.has_failed()
    }

    /// Bytes that were handed over and not written yet.
    #[inline]
    pub fn unwritten_bytes(&self) -> u64 {
        self.handed_bytes.saturating_sub(self.shared.written_bytes(self.site))
    }

    /// The site has nothing to do until somebody wakes it: a group commit waits for no more of it,
    /// if it has a part in one.
    #[inline]
    pub fn note_idle(&self) {
        if self.gates && self.handed_bytes > self.shared.written_bytes(self.site) {
            self.shared.note_idle(self.site);
        }
    }

    /// It has something to do again.
    #[inline]
    pub fn note_busy(&self) {
        if self.gates {
            self.shared.note_busy(self.site);
        }
    }

    /// Whether the writer can hold another batch.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.batches.free() > 0
    }

    /// Gives a batch to the writer, and waits where it holds as much as it can: for the few that
    /// cannot stay where they are. Without a writer that runs they are given up.
    #[cold]
    pub fn hand_over_waiting(&mut self, batch: HandedLog) {
        while !self.has_room() {
            if self.has_failed() {
                return;
            }
            std::thread::yield_now();
        }
        self.hand_over(|_| batch);
    }

    /// Gives entries to the writer. `take` is asked for them with an empty buffer that takes the
    /// place of theirs; it is not asked while the writer has as much as it can hold.
    #[inline]
    pub fn hand_over(&mut self, take: impl FnOnce(Vec<u8>) -> HandedLog) {
        if !self.has_room() {
            return;
        }
        let batch = take(self.spares.pop().unwrap_or_default());
        self.handed_bytes += batch.bytes.len() as u64;
        let pushed = self.batches.push(batch);
        assert!(pushed.is_ok(), "there was room");
        self.shared.wake();
    }
}
