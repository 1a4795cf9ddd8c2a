//! A directory on a disk and the files in it.

use crate::error::DiskError;

/// How a file is opened. Every file can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist yet, for reading and writing.
    Create,
    /// The same for much data that nobody reads again soon: whole blocks of [`BLOCK_BYTES`] at
    /// offsets that are multiples of it go to the disk past the system's memory of files, where
    /// the system can do that.
    CreateLarge,
}

impl OpenMode {
    /// Whether the file is made, and must not exist yet.
    pub fn creates(self) -> bool {
        matches!(self, OpenMode::Create | OpenMode::CreateLarge)
    }
}

/// What files made by [`OpenMode::CreateLarge`] should be written in multiples of.
pub const BLOCK_BYTES: usize = 4096;

/// A directory that belongs to one host. Names are paths from its root with `/` between folders,
/// such as `log/00000001.log`; the root itself is the empty name.
///
/// What is written becomes durable by [`File::sync_data`]; that a file was made, renamed or
/// removed becomes durable by [`Disk::sync_folder`] of the folder that it is in. Until then a
/// power cut may undo any part of it.
///
/// Every error names the file and what was attempted.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>, DiskError>;

    /// The names of what is in a folder, without the folder's own, in ascending order.
    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError>;

    /// Makes a folder, if it is not there.
    fn create_folder(&self, folder: &str) -> Result<(), DiskError>;

    /// Gives a file another name, in place of a file that may have it already.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Removes a folder that is empty.
    fn remove_folder(&self, folder: &str) -> Result<(), DiskError>;

    /// Makes durable which names a folder holds.
    fn sync_folder(&self, folder: &str) -> Result<(), DiskError>;

    /// Bytes that can still be written to the disk.
    fn free_bytes(&self) -> Result<u64, DiskError>;

    /// A name as errors and messages should show it: with the directory in front.
    fn shown(&self, name: &str) -> String;
}

/// An open file. Offsets and lengths are in bytes.
pub trait File: Send {
    /// Reads into `buffer`; fewer bytes than it holds come back only at the file's end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError>;

    /// Writes all of `bytes`; the file grows if they reach after its end.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// The file's length.
    fn length(&self) -> Result<u64, DiskError>;

    /// Cuts the file, or lets it grow by zeros that need not take up space.
    fn set_length(&mut self, length: u64) -> Result<(), DiskError>;

    /// Lets the file grow to `length`, if it is shorter, by zeros whose space is reserved: later
    /// writes up to there do not fail for want of space.
    fn allocate(&mut self, length: u64) -> Result<(), DiskError>;

    /// Makes what was written durable, with the length. After a failure nothing may be taken for
    /// durable, and trying again proves nothing.
    fn sync_data(&mut self) -> Result<(), DiskError>;

    /// The file's name as errors show it.
    fn shown(&self) -> &str;
}
