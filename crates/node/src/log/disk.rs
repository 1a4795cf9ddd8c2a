//! The real disk: a directory of the file system.

use lockstep_env::{Disk, DiskError, DiskErrorKind, DiskOperation, File, OpenMode};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A directory of the file system.
pub struct RealDisk {
    root: PathBuf,
}

/// The lock on a directory; dropping it, or the end of the process, gives it up.
pub struct DirectoryLock {
    _file: fs::File,
}

impl RealDisk {
    /// The disk whose names are below `root`, which need not exist yet.
    pub fn new(root: &Path) -> RealDisk {
        RealDisk { root: root.to_path_buf() }
    }

    /// Makes the directory itself, and those above it, if they are not there.
    ///
    /// # Errors
    /// The system refused; the error names the directory.
    pub fn create_root(&self) -> Result<(), DiskError> {
        fs::create_dir_all(&self.root)
            .map_err(|error| failed(DiskOperation::CreateFolder, &self.root, &error))
    }

    /// Takes the directory for this process by a lock on one of its files, which is made if need
    /// be and never removed.
    ///
    /// # Errors
    /// Another process has it, or the file cannot be made.
    pub fn lock(&self, name: &str) -> Result<DirectoryLock, DiskError> {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        let cannot = |error: io::Error| failed(DiskOperation::Lock, &path, &error);
        let file = options.create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {
                // Whoever finds it locked reads who has it.
                let text = format!("{}\n", std::process::id());
                file.set_len(0)
                    .and_then(|()| file.write_all_at(text.as_bytes(), 0))
                    .map_err(cannot)?;
                Ok(DirectoryLock { _file: file })
            }
            Err(fs::TryLockError::WouldBlock) => {
                let who = match holder(&file) {
                    Some(process) => format!("process {process}"),
                    None => "another process".to_string(),
                };
                Err(DiskError::new(
                    DiskOperation::Lock,
                    path.display().to_string(),
                    DiskErrorKind::Locked,
                    format!("{who} uses the directory; stop that one first"),
                ))
            }
            Err(fs::TryLockError::Error(error)) => Err(failed(DiskOperation::Lock, &path, &error)),
        }
    }

    /// Bytes of the file system that the directory is on.
    ///
    /// # Errors
    /// The system does not say.
    pub fn total_bytes(&self) -> Result<u64, DiskError> {
        let facts = self.space()?;
        Ok(facts.f_blocks.saturating_mul(facts.f_frsize))
    }

    /// What the system says of the file system.
    fn space(&self) -> Result<libc::statvfs, DiskError> {
        let path = &self.root;
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(0);
        // SAFETY: the path ends with a zero byte, the structure lives on this stack frame and is
        // zeroed, and the call keeps neither.
        let (result, facts) = unsafe {
            let mut facts: libc::statvfs = std::mem::zeroed();
            (libc::statvfs(bytes.as_ptr().cast(), &mut facts), facts)
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            return Err(failed(DiskOperation::FreeSpace, path, &error));
        }
        Ok(facts)
    }

    fn path(&self, name: &str) -> PathBuf {
        match name.is_empty() {
            true => self.root.clone(),
            false => self.root.join(name),
        }
    }
}

/// The process that a lock file names.
fn holder(file: &fs::File) -> Option<u32> {
    let mut bytes = [0; 16];
    let read = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..read]).ok()?.trim().parse().ok()
}

/// What the system said, in the words of `env`.
fn failed(operation: DiskOperation, path: &Path, error: &io::Error) -> DiskError {
    let kind = match error.kind() {
        ErrorKind::NotFound => DiskErrorKind::NotFound,
        ErrorKind::AlreadyExists => DiskErrorKind::Exists,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => DiskErrorKind::Denied,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskErrorKind::Full,
        _ => DiskErrorKind::Other,
    };
    DiskError::new(operation, path.display().to_string(), kind, error.to_string())
}

impl Disk for RealDisk {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>, DiskError> {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create_new(true);
            }
        }
        let file =
            options.open(&path).map_err(|error| failed(DiskOperation::Open, &path, &error))?;
        let shown = path.display().to_string();
        Ok(Box::new(RealFile { file, path, shown }))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let path = self.path(folder);
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort_unstable();
            Ok(names)
        };
        list().map_err(|error| failed(DiskOperation::List, &path, &error))
    }

    fn create_folder(&self, folder: &str) -> Result<(), DiskError> {
        let path = self.path(folder);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other.map_err(|error| failed(DiskOperation::CreateFolder, &path, &error)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let path = self.path(from);
        fs::rename(&path, self.path(to))
            .map_err(|error| failed(DiskOperation::Rename, &path, &error))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(|error| failed(DiskOperation::Remove, &path, &error))
    }

    fn remove_folder(&self, folder: &str) -> Result<(), DiskError> {
        let path = self.path(folder);
        fs::remove_dir(&path).map_err(|error| failed(DiskOperation::Remove, &path, &error))
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        let path = self.path(folder);
        let sync = || fs::File::open(&path)?.sync_all();
        sync().map_err(|error| failed(DiskOperation::Sync, &path, &error))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let facts = self.space()?;
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// An open file of the file system.
struct RealFile {
    file: fs::File,
    path: PathBuf,
    shown: String,
}

impl RealFile {
    fn failed(&self, operation: DiskOperation, error: &io::Error) -> DiskError {
        failed(operation, &self.path, error)
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(self.failed(DiskOperation::Read, &error).at(offset + read as u64));
                }
            }
        }
        Ok(read)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|error| self.failed(DiskOperation::Write, &error).at(offset))
    }

    fn length(&self) -> Result<u64, DiskError> {
        let facts = self.file.metadata();
        facts.map(|facts| facts.len()).map_err(|error| self.failed(DiskOperation::Length, &error))
    }

    fn set_length(&mut self, length: u64) -> Result<(), DiskError> {
        self.file.set_len(length).map_err(|error| self.failed(DiskOperation::Length, &error))
    }

    fn allocate(&mut self, length: u64) -> Result<(), DiskError> {
        if length <= self.length()? {
            return Ok(());
        }
        let bytes = libc::off_t::try_from(length).unwrap_or(libc::off_t::MAX);
        // SAFETY: the descriptor belongs to the file that lives as long as this borrow.
        let result = unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, bytes) };
        match result {
            0 => Ok(()),
            code => {
                let error = io::Error::from_raw_os_error(code);
                Err(self.failed(DiskOperation::Allocate, &error))
            }
        }
    }

    fn sync_data(&mut self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|error| self.failed(DiskOperation::Sync, &error))
    }

    fn shown(&self) -> &str {
        &self.shown
    }
}
