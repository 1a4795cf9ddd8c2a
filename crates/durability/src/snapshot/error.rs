//! Why a snapshot cannot be written or read.

use lockstep_env::{DiskError, DiskErrorKind};
use std::fmt;

/// A problem with a file of a snapshot: which, where, and what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotError {
    /// The file, as a user finds it.
    pub file: String,
    /// Where in it, if there is a place.
    pub offset: Option<u64>,
    /// What is wrong.
    pub problem: String,
    /// What can be done.
    pub remedy: String,
    /// What kind of failure the disk reported, if it did.
    pub disk: Option<DiskErrorKind>,
}

impl SnapshotError {
    /// Bytes that no snapshot has there.
    pub fn damaged(file: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        SnapshotError {
            file: file.into(),
            offset: Some(offset),
            problem: problem.into(),
            remedy: "restore the file from a copy, or use another snapshot".to_string(),
            disk: None,
        }
    }

    /// A file that is what it is, but cannot be used like this.
    pub fn refused(
        file: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        SnapshotError {
            file: file.into(),
            offset: None,
            problem: problem.into(),
            remedy: remedy.into(),
            disk: None,
        }
    }
}

impl From<DiskError> for SnapshotError {
    fn from(error: DiskError) -> SnapshotError {
        use DiskErrorKind as Kind;
        let remedy = match error.kind {
            Kind::Full => "make room on the disk or name another directory, then try again",
            Kind::Denied => "let the host's user read and write there, or name another directory",
            Kind::NotFound => "name the directory and the snapshot that are there",
            Kind::Exists => "choose another name, or remove the files first",
            Kind::NotRegular => "move it out of the folder; files of snapshots are regular files",
            Kind::Locked | Kind::Other => "mend the disk or the directory, then try again",
        };
        SnapshotError {
            problem: error.to_string(),
            file: error.file,
            offset: error.offset,
            remedy: remedy.to_string(),
            disk: Some(error.kind),
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A disk error's text has file and offset in it.
        if self.disk.is_none() {
            write!(f, "{}", self.file)?;
            if let Some(offset) = self.offset {
                write!(f, ", byte {offset}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

impl std::error::Error for SnapshotError {}
