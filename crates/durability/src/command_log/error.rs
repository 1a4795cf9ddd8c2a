//! Why a log cannot be read or written.

use lockstep_env::{DiskError, DiskErrorKind, DiskOperation};
use std::fmt;

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogErrorKind {
    /// The disk failed an operation.
    Disk,
    /// No space could be reserved: nothing was written.
    Full,
    /// Bytes that were synced are not what was written.
    Damaged,
    /// A file in the middle of the sequence is not there.
    Missing,
    /// The files belong to another cluster.
    Foreign,
    /// The files are of a later version of the program.
    Newer,
    /// Two processes wrote the log at a time.
    Overlapping,
}

/// A problem with a log file, with its place and what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogError {
    /// What kind.
    pub kind: LogErrorKind,
    /// The file.
    pub file: String,
    /// Where in it, if there is a place.
    pub offset: Option<u64>,
    /// What is wrong.
    pub problem: String,
    /// What can be done.
    pub remedy: String,
}

impl LogError {
    /// Whether no space could be reserved, so that the attempt may be made again.
    pub fn is_full(&self) -> bool {
        self.kind == LogErrorKind::Full
    }

    pub(super) fn damaged(file: String, offset: u64, problem: impl Into<String>) -> LogError {
        LogError {
            kind: LogErrorKind::Damaged,
            file,
            offset: Some(offset),
            problem: problem.into(),
            remedy: "restore the file from a copy, or restore the host from a snapshot; keep the \
                     directory as it is until then"
                .to_string(),
        }
    }
}

impl From<DiskError> for LogError {
    fn from(error: DiskError) -> LogError {
        let is_full = error.kind == DiskErrorKind::Full;
        let remedy = match is_full {
            true => "make room on the disk of the directory, then start again",
            false => "mend the disk or the directory's permissions, then start again",
        };
        // A sync that fails has lost something, whatever its reason.
        let kind = match error.operation {
            DiskOperation::Allocate | DiskOperation::Open if is_full => LogErrorKind::Full,
            _ => LogErrorKind::Disk,
        };
        LogError {
            kind,
            file: error.file.clone(),
            offset: error.offset,
            problem: error.to_string(),
            remedy: remedy.to_string(),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A disk error's text has file and offset in it.
        if !matches!(self.kind, LogErrorKind::Disk | LogErrorKind::Full) {
            write!(f, "{}", self.file)?;
            if let Some(offset) = self.offset {
                write!(f, ", byte {offset}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}. Remedy: {}. No file was changed.", self.problem, self.remedy)
    }
}

impl std::error::Error for LogError {}
