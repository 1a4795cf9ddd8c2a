//! What went wrong with a file, said so that somebody can mend it.

use std::fmt;

/// What was attempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOperation {
    /// Opening or making a file.
    Open,
    /// Listing a folder.
    List,
    /// Making a folder.
    CreateFolder,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Asking for or changing the length.
    Length,
    /// Reserving space.
    Allocate,
    /// Making bytes or names durable.
    Sync,
    /// Giving another name.
    Rename,
    /// Removing a file or a folder.
    Remove,
    /// Taking a directory for this process alone.
    Lock,
    /// Asking how much space is left.
    FreeSpace,
}

/// What kind of failure it was, for code that reacts to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// No such file or folder.
    NotFound,
    /// It is there already.
    Exists,
    /// The process may not.
    Denied,
    /// The disk, or a quota, is full.
    Full,
    /// Another process has it.
    Locked,
    /// It is a folder, a FIFO, a socket or a device: only regular files are opened.
    NotRegular,
    /// Anything else; the text says what.
    Other,
}

/// A failed operation on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskError {
    /// The file or folder, as a user finds it.
    pub file: String,
    /// What was attempted.
    pub operation: DiskOperation,
    /// Where in the file, for reads and writes.
    pub offset: Option<u64>,
    /// What kind of failure.
    pub kind: DiskErrorKind,
    /// What the system said.
    pub reason: String,
}

impl DiskError {
    /// A failure without a place in the file.
    pub fn new(
        operation: DiskOperation,
        file: impl Into<String>,
        kind: DiskErrorKind,
        reason: impl Into<String>,
    ) -> DiskError {
        DiskError { file: file.into(), operation, offset: None, kind, reason: reason.into() }
    }

    /// The same at an offset.
    pub fn at(mut self, offset: u64) -> DiskError {
        self.offset = Some(offset);
        self
    }

    /// Whether the file or folder was missing.
    pub fn is_not_found(&self) -> bool {
        self.kind == DiskErrorKind::NotFound
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match self.operation {
            DiskOperation::Open => write!(f, "{file} cannot be opened"),
            DiskOperation::List => write!(f, "{file} cannot be listed"),
            DiskOperation::CreateFolder => write!(f, "the folder {file} cannot be made"),
            DiskOperation::Read => write!(f, "{file} cannot be read"),
            DiskOperation::Write => write!(f, "{file} cannot be written"),
            DiskOperation::Length => write!(f, "the length of {file} cannot be had or set"),
            DiskOperation::Allocate => write!(f, "no space can be reserved for {file}"),
            DiskOperation::Sync => write!(f, "{file} cannot be made durable"),
            DiskOperation::Rename => write!(f, "{file} cannot be renamed"),
            DiskOperation::Remove => write!(f, "{file} cannot be removed"),
            DiskOperation::Lock => write!(f, "{file} cannot be locked"),
            DiskOperation::FreeSpace => write!(f, "the free space of {file} cannot be had"),
        }?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for DiskError {}
