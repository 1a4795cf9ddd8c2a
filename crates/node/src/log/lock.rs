//! The lock on a host's directory.
//!
//! A lock belongs to an inode, and a name can be given another one: the one that removes the lock
//! file leaves a host whose lock protects nothing. So the directory itself and the folder of its
//! log are locked as well, which cannot be replaced while they are in use without being noticed:
//! from time to time the host compares what the names stand for with what it has locked.

use super::disk::{failed, identity, open_regular};
use lockstep_durability::command_log::FOLDER as LOG_FOLDER;
use lockstep_durability::directory::LOCK_FILE;
use lockstep_env::{DiskError, DiskErrorKind, DiskOperation};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The lock on a directory; dropping it, or the end of the process, gives it up.
pub struct DirectoryLock {
    root: PathBuf,
    held: Mutex<Held>,
}

struct Held {
    lock_file: File,
    /// The directory, and the folder of its log once it is there. On a file system that locks no
    /// folders they are only compared.
    folders: Vec<(PathBuf, File)>,
}

impl DirectoryLock {
    /// Takes a directory for this process: it, and its lock file, which is made if need be and
    /// never removed.
    ///
    /// # Errors
    /// Another process has one of them, or the lock file cannot be made.
    pub fn take(root: &Path) -> Result<DirectoryLock, DiskError> {
        let folders = vec![lock_folder(root, root.to_path_buf())?];
        let held = Mutex::new(Held { lock_file: take_lock_file(root)?, folders });
        Ok(DirectoryLock { root: root.to_path_buf(), held })
    }

    /// Takes the folder of the log as well, if it is there: another directory may have it too, by
    /// a link.
    ///
    /// # Errors
    /// Another process has it.
    pub fn take_log(&self) -> Result<(), DiskError> {
        let folder = match lock_folder(&self.root, self.root.join(LOG_FOLDER)) {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        self.held.lock().expect("no holder of the lock panics").folders.push(folder);
        Ok(())
    }

    /// Looks whether the directory, its log and its lock file are still those that this process
    /// has locked. A lock file that is gone is made again; true if it was.
    ///
    /// # Errors
    /// The text for the user: another directory or another process has taken their place, so what
    /// this process writes is not what the next start reads.
    pub fn check(&self) -> Result<bool, String> {
        let mut held = self.held.lock().expect("no holder of the lock panics");
        for (path, folder) in &held.folders {
            let is_same = folder.metadata().is_ok_and(|own| is_at(&own, path));
            if !is_same {
                return Err(format!(
                    "{} is not the folder any more with which this host started: it was moved, \
                     removed or replaced. Put it back, then start again",
                    path.display()
                ));
            }
        }
        let path = self.root.join(LOCK_FILE);
        if held.lock_file.metadata().is_ok_and(|own| is_at(&own, &path)) {
            return Ok(false);
        }
        held.lock_file = take_lock_file(&self.root).map_err(|error| {
            format!("{error}. The lock file of this host was removed while it ran")
        })?;
        Ok(true)
    }
}

fn lock_folder(root: &Path, path: PathBuf) -> Result<(PathBuf, File), DiskError> {
    let folder = File::open(&path);
    let folder = folder.map_err(|error| failed(DiskOperation::Lock, &path, &error))?;
    // Not all file systems lock folders: there the lock file has to do.
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => Err(in_use(root, &path)),
        Ok(()) | Err(TryLockError::Error(_)) => Ok((path, folder)),
    }
}

/// Whether a name stands for a file that is open. What cannot be looked at counts as the same:
/// a file system that does not answer has not been replaced.
fn is_at(own: &fs::Metadata, path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => identity(&found) == identity(own),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

fn take_lock_file(root: &Path) -> Result<File, DiskError> {
    let path = root.join(LOCK_FILE);
    let cannot = |error: io::Error| failed(DiskOperation::Lock, &path, &error);
    let mut options = fs::OpenOptions::new();
    let file = open_regular(options.create(true).truncate(false).read(true).write(true), &path)?;
    match file.try_lock() {
        Ok(()) => {
            // A process that finds it locked reads which one has it.
            let text = format!("{}\n", std::process::id());
            file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0)).map_err(cannot)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(in_use(root, &path)),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// Another process has locked `path` in a directory.
fn in_use(root: &Path, path: &Path) -> DiskError {
    let who = match holder(&root.join(LOCK_FILE)) {
        Some(process) => format!("process {process}"),
        None => "another process".to_string(),
    };
    DiskError::new(
        DiskOperation::Lock,
        path.display().to_string(),
        DiskErrorKind::Locked,
        format!("{who} uses the directory; stop that one first"),
    )
}

/// The process that a lock file names.
fn holder(path: &Path) -> Option<u32> {
    let file = open_regular(fs::OpenOptions::new().read(true), path).ok()?;
    let mut bytes = [0; 16];
    let read = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..read]).ok()?.trim().parse().ok()
}
