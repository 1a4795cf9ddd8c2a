//! What a partition logged, on its way to the log writer.

use super::Site;
use lockstep_txn::HandedLog;

impl<H, A, C: Clone> Site<H, A, C> {
    /// The number of the last entry: what is read now may stand behind all up to it.
    #[inline]
    pub fn log_sequence(&self) -> u64 {
        self.log.sequence()
    }

    /// Bytes of entries that were not handed over yet.
    #[inline]
    pub fn waiting_log_bytes(&self) -> usize {
        self.log.bytes().len()
    }

    /// Hands the entries over that are there, at least one; `spare` takes the place of their
    /// buffer.
    pub fn take_log(&mut self, spare: Vec<u8>) -> HandedLog {
        self.log.take(spare)
    }

    /// Forgets the entries of this round, where nobody keeps them: they are counted only.
    #[inline]
    pub fn drop_log(&mut self) {
        if self.log.entries() > 0 {
            self.log.clear();
        }
    }
}
