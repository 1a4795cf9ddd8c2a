//! Why a log cannot be read or written.

use lockstep_env::DiskError;
use std::fmt;

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogErrorKind {
    /// The disk failed an operation.
    Disk,
    /// Bytes that were synced are not what was written.
    Damaged,
    /// A file in the middle of the sequence is not there.
    Missing,
    /// The files belong to another cluster.
    Foreign,
    /// The files are of a later version of the program.
    Newer,
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
        LogError {
            kind: LogErrorKind::Disk,
            file: error.file.clone(),
            offset: error.offset,
            problem: error.to_string(),
            remedy: "mend the disk or the directory's permissions, then start again".to_string(),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A disk error's text has file and offset in it.
        if self.kind != LogErrorKind::Disk {
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
