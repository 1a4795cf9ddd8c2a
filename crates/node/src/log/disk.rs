//! The real disk: a directory of the file system.

use lockstep_env::{BLOCK_BYTES, Disk, DiskError, DiskErrorKind, DiskOperation, File, OpenMode};
use std::cell::Cell;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A write past the system's memory of files is at most this long: whatever else waits for the
/// disk waits for no more than that.
const DIRECT_BYTES: usize = 256 * 1024;

/// A directory of the file system.
pub struct RealDisk {
    root: PathBuf,
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

/// What the system said, in the words of `env`.
pub(super) fn failed(operation: DiskOperation, path: &Path, error: &io::Error) -> DiskError {
    let kind = match error.kind() {
        ErrorKind::NotFound => DiskErrorKind::NotFound,
        ErrorKind::AlreadyExists => DiskErrorKind::Exists,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => DiskErrorKind::Denied,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskErrorKind::Full,
        _ => DiskErrorKind::Other,
    };
    DiskError::new(operation, path.display().to_string(), kind, error.to_string())
}

/// Opens a regular file, and refuses anything else without waiting for it: to open a FIFO waits
/// for its other end.
pub(super) fn open_regular(
    options: &mut fs::OpenOptions,
    path: &Path,
) -> Result<fs::File, DiskError> {
    let refused = |kind: fs::FileType| {
        let what = match kind {
            kind if kind.is_dir() => "a folder",
            kind if kind.is_fifo() => "a FIFO",
            kind if kind.is_socket() => "a socket",
            kind if kind.is_char_device() || kind.is_block_device() => "a device",
            _ => "something else",
        };
        let reason = format!("it is {what}, not a regular file");
        let (shown, kind) = (path.display().to_string(), DiskErrorKind::NotRegular);
        Err(DiskError::new(DiskOperation::Open, shown, kind, reason))
    };
    let cannot = |error: &io::Error| failed(DiskOperation::Open, path, error);
    match options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path) {
        Ok(file) => match file.metadata().map_err(|error| cannot(&error))?.file_type() {
            kind if kind.is_file() => Ok(file),
            kind => refused(kind),
        },
        // The system opens no socket and no folder for writing, and says so in words of its own.
        Err(error) => match fs::metadata(path).map(|facts| facts.file_type()) {
            Ok(kind) if !kind.is_file() => refused(kind),
            _ => Err(cannot(&error)),
        },
    }
}

/// What tells a file or a folder from every other on the machine, whatever its name.
pub(super) fn identity(facts: &fs::Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

/// Whether both paths are the same folder or file, through links and mounts; false if one is not
/// there.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let found = |path: &Path| fs::metadata(path).ok().map(|facts| identity(&facts));
    found(a).is_some_and(|a| Some(a) == found(b))
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
            OpenMode::Create | OpenMode::CreateLarge => {
                options.write(true).create_new(true);
            }
        }
        let file = open_regular(&mut options, &path)?;
        let direct = mode == OpenMode::CreateLarge && set_direct(&file, true);
        let blocks = if direct { vec![0; DIRECT_BYTES + BLOCK_BYTES] } else { Vec::new() };
        let (shown, direct) = (path.display().to_string(), Cell::new(direct));
        Ok(Box::new(RealFile { file, path, shown, direct, blocks }))
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
    /// Reads and writes go past the system's memory of files, and so are of whole blocks.
    direct: Cell<bool>,
    /// Bytes on their way past it: the system takes them from addresses that are multiples of a
    /// block only.
    blocks: Vec<u8>,
}

/// Lets what is read and written go past the system's memory of files, or not; false if the file
/// system cannot.
fn set_direct(file: &fs::File, direct: bool) -> bool {
    let descriptor = file.as_raw_fd();
    // SAFETY: the descriptor belongs to the file that lives as long as this borrow; the calls
    // read and set its flags and take no addresses.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        let wanted = if direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
        flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, wanted) == 0
    }
}

impl RealFile {
    fn failed(&self, operation: DiskOperation, error: &io::Error) -> DiskError {
        failed(operation, &self.path, error)
    }

    /// From now on the file is like any other.
    fn leave_direct(&self) {
        if self.direct.replace(false) {
            set_direct(&self.file, false);
        }
    }

    /// Writes whole blocks past the system's memory of files.
    fn write_blocks(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let skipped = self.blocks.as_ptr().align_offset(BLOCK_BYTES);
        let mut at = offset;
        for piece in bytes.chunks(DIRECT_BYTES) {
            let blocks = &mut self.blocks[skipped..skipped + piece.len()];
            blocks.copy_from_slice(piece);
            self.file.write_all_at(blocks, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.leave_direct();
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
        let is_whole = |number: u64| number.is_multiple_of(BLOCK_BYTES as u64);
        if self.direct.get() && is_whole(offset) && is_whole(bytes.len() as u64) {
            match self.write_blocks(offset, bytes) {
                // Some file systems say only now that they cannot.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                written => {
                    return written
                        .map_err(|error| self.failed(DiskOperation::Write, &error).at(offset));
                }
            }
        }
        self.leave_direct();
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

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, DIRECT_BYTES, RealDisk};
    use lockstep_env::{Disk, OpenMode};

    #[test]
    fn a_large_file_takes_writes_of_any_length_at_any_place() {
        let name = format!("lockstep-large-file-{}", std::process::id());
        // Beside the program, which is on a disk more likely than the folder of temporary files.
        let program = std::env::current_exe().expect("tests are programs");
        let disk = RealDisk::new(program.parent().expect("it is in a folder"));
        let _ = disk.remove(&name);
        let mut file = disk.open(&name, OpenMode::CreateLarge).expect("it is made");
        let bytes: Vec<u8> = (0..3 * DIRECT_BYTES + 77).map(|place| (place % 251) as u8).collect();
        let whole = 2 * DIRECT_BYTES + 3 * BLOCK_BYTES;
        file.write_at(0, &bytes[..whole]).expect("whole blocks are written");
        file.write_at(whole as u64, &bytes[whole..]).expect("and others behind them");
        file.write_at(BLOCK_BYTES as u64, &[9; BLOCK_BYTES]).expect("and whole ones behind those");
        file.sync_data().expect("it is made durable");
        let mut read = vec![0; bytes.len() + 1];
        assert_eq!(file.read_at(0, &mut read), Ok(bytes.len()));
        let (first, rest) = (&read[..BLOCK_BYTES], &read[2 * BLOCK_BYTES..bytes.len()]);
        assert!(first == &bytes[..BLOCK_BYTES] && rest == &bytes[2 * BLOCK_BYTES..]);
        assert!(read[BLOCK_BYTES..2 * BLOCK_BYTES].iter().all(|byte| *byte == 9));
        drop(file);
        assert_eq!(disk.open(&name, OpenMode::CreateLarge).err().map(|e| e.kind), {
            Some(lockstep_env::DiskErrorKind::Exists)
        });
        disk.remove(&name).expect("it is removed");
    }
}
