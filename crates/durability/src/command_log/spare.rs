//! Files that are filled with zeros before a segment needs them: a sync is cheap when it only
//! replaces bytes that are there, and dear when the file grows, so somebody beside the log's
//! thread makes them.

use super::FOLDER;
use lockstep_env::{Disk, DiskError, OpenMode};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A file that a writer wants to have, see [`super::LogWriter::spare_to_make`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpareOrder {
    pub(super) name: String,
    pub(super) bytes: u64,
}

impl SpareOrder {
    /// The file of a number.
    pub(super) fn new(number: u64, bytes: u64) -> SpareOrder {
        SpareOrder { name: format!("{FOLDER}/spare-{number:08}.log"), bytes }
    }

    /// Writes the file and makes it durable. Between two pieces `goes_on` is asked, and may take
    /// its time. False if it said no; the file is gone then, as it is after an error.
    ///
    /// # Errors
    /// The disk failed, or is full. Nothing stands in the file: the log goes on without it.
    pub fn make(
        &self,
        disk: &dyn Disk,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, DiskError> {
        let made = self.fill(disk, goes_on);
        if made != Ok(true) {
            // A name that stays is removed when the log is opened the next time.
            let _ = disk.remove(&self.name);
        }
        made
    }

    fn fill(&self, disk: &dyn Disk, goes_on: &mut dyn FnMut() -> bool) -> Result<bool, DiskError> {
        let mut file = disk.open(&self.name, OpenMode::CreateLarge)?;
        file.allocate(self.bytes)?;
        let zeros = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < self.bytes {
            if !goes_on() {
                return Ok(false);
            }
            let piece = (self.bytes - at).min(PIECE_BYTES as u64);
            file.write_at(at, &zeros[..piece as usize])?;
            at += piece;
        }
        file.sync_data()?;
        Ok(true)
    }
}
