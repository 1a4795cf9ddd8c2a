//! What a partition logged, on its way to the log writer.

use super::Site;
use lockstep_txn::HandedLog;

/// Entries that nobody depends on are forwarded when they have this many bytes.
const IMPLIED_BYTES_MAX: usize = 16 << 10;

impl<H, A, C: Clone> Site<H, A, C> {
    /// Whether the partition has followers: its log has then what only they need.
    pub fn set_followed(&mut self, is_followed: bool) {
        self.is_followed = is_followed;
    }

    /// Whether somebody reads the partition's log, as is so unless it is said: a host without a
    /// command log and without copies numbers its entries only.
    pub fn set_log_kept(&mut self, is_kept: bool) {
        assert!(self.logged.is_empty(), "the log has nothing that is not decided");
        self.log.set_kept(is_kept);
    }

    /// The number of the last entry: what is read now may depend on all up to it.
    #[inline]
    pub fn log_sequence(&self) -> u64 {
        self.log.sequence()
    }

    /// The number of the last entry that a response sent now may depend on. Those after it are
    /// commits that votes in the log imply.
    #[inline]
    pub fn needed_log_sequence(&self) -> u64 {
        self.log.needed_sequence()
    }

    /// Whether entries are to be forwarded: others may depend on one, or they are many.
    #[inline]
    pub fn has_log_to_hand_over(&self) -> bool {
        self.log.is_needed() || self.log.bytes().len() >= IMPLIED_BYTES_MAX
    }

    /// Whether entries are to be forwarded when nothing has come for a while: also those that
    /// nobody depends on, which are commits that votes imply. A follower waits for them.
    #[inline]
    pub fn has_log_at_tick(&self) -> bool {
        !self.log.bytes().is_empty()
    }

    /// Bytes of entries that were not transferred yet.
    #[inline]
    pub fn waiting_log_bytes(&self) -> usize {
        self.log.bytes().len()
    }

    /// Hands the entries over that are there, at least one; `spare` takes the place of their
    /// buffer.
    pub fn take_log(&mut self, spare: Vec<u8>) -> HandedLog {
        self.log.take(spare)
    }

    /// Forgets the entries of this round, where nobody keeps them.
    #[inline]
    pub fn drop_log(&mut self) {
        if self.log.entries() > 0 {
            self.log.clear();
        }
    }
}
