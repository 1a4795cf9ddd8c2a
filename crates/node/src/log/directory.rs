//! Making a host's directory, and opening one that was made.

use super::disk::RealDisk;
use super::lock::DirectoryLock;
use crate::clock;
use crate::recovery::RecoveryProgress;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::FOLDER as LOG_FOLDER;
pub use lockstep_durability::directory::SeveralHosts;
use lockstep_durability::directory::{
    CLUSTER_FILE, ClusterFile, DirectoryError, LOG_BEGUN_FILE, SNAPSHOT_FOLDER, initialize,
};
use lockstep_durability::switch;
use lockstep_env::Disk;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

/// When answers of calls that wrote leave the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// At once; nothing is logged.
    None,
    /// At once; the log is written after them and synced at intervals.
    Async,
    /// When what they depend on is durable.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::None => "none",
            Durability::Async => "async",
            Durability::Sync => "sync",
        })
    }
}

/// Where a host keeps its data, and how.
#[derive(Clone)]
pub struct Data {
    /// The directory.
    pub disk: Arc<dyn Disk>,
    /// What its cluster file says.
    pub cluster: ClusterFile,
    /// When answers leave.
    pub durability: Durability,
    /// How far recovery is, while the host starts.
    pub progress: Arc<RecoveryProgress>,
    /// Held as long as the host runs; none for disks that no other process sees.
    pub lock: Option<Arc<DirectoryLock>>,
}

/// Makes a directory for a host with N partitions, alone or one of several.
///
/// # Errors
/// Something is in it, another process has it, or it cannot be written.
pub fn create(
    path: &Path,
    partition_count: u32,
    several: Option<SeveralHosts>,
) -> Result<ClusterFile, DirectoryError> {
    make(path, ClusterFile { several, ..new_cluster(partition_count) })
}

/// Makes a directory for a witness.
///
/// # Errors
/// As for [`create`].
pub fn create_for_witness(path: &Path) -> Result<ClusterFile, DirectoryError> {
    make(path, ClusterFile { is_witness: true, ..new_cluster(0) })
}

fn make(path: &Path, file: ClusterFile) -> Result<ClusterFile, DirectoryError> {
    let disk = RealDisk::new(path);
    disk.create_root()?;
    let _lock = DirectoryLock::take(path)?;
    initialize(&disk, file)?;
    Ok(file)
}

/// What the cluster file of a new cluster says.
pub fn new_cluster(partition_count: u32) -> ClusterFile {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random_bits().to_be_bytes());
    id[8..].copy_from_slice(&random_bits().to_be_bytes());
    ClusterFile {
        cluster: ClusterId(id),
        partition_count,
        created_ms: clock::now_us() / 1000,
        several: None,
        is_witness: false,
    }
}

/// Opens a directory and locks it.
///
/// # Errors
/// It was not made, its cluster file is damaged, another process has it, or a restore that was
/// stopped half way cannot be ended.
pub fn open(path: &Path, durability: Durability) -> Result<Data, DirectoryError> {
    let disk = RealDisk::new(path);
    let Some(cluster) = ClusterFile::read(&disk)? else {
        let shown = path.display();
        if disk.list(LOG_FOLDER).is_ok_and(|names| !names.is_empty()) {
            return Err(DirectoryError(format!(
                "{} is missing, and {} holds a command log. Put the file back from a copy; nothing \
                 was changed.",
                disk.shown(CLUSTER_FILE),
                disk.shown(LOG_FOLDER)
            )));
        }
        return Err(DirectoryError(format!(
            "{shown} is not the directory of a host: run `lockstep init --dir {shown}` first"
        )));
    };
    if cluster.is_witness {
        let shown = path.display();
        return Err(DirectoryError(format!(
            "{shown} is the directory of a witness, which has no data: `lockstep witness --dir \
             {shown}` starts it. Nothing was changed."
        )));
    }
    let lock = DirectoryLock::take(path)?;
    make_missing_folders(&disk)?;
    lock.take_log()?;
    let lock = Some(Arc::new(lock));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    // A restore that was stopped half way is ended before anybody reads the directory.
    switch::finish(&disk, cluster.cluster, random_bits())?;
    Ok(Data { disk, cluster, durability, progress: Arc::default(), lock })
}

/// Opens the directory of a witness and locks it.
///
/// # Errors
/// It was not made, is that of a host, its cluster file is damaged, or another process has it.
pub fn open_for_witness(path: &Path) -> Result<Data, DirectoryError> {
    let (disk, shown) = (RealDisk::new(path), path.display());
    let Some(cluster) = ClusterFile::read(&disk)? else {
        return Err(DirectoryError(format!(
            "{shown} is not the directory of a witness: run `lockstep init --witness --dir \
             {shown}` first"
        )));
    };
    if !cluster.is_witness {
        return Err(DirectoryError(format!(
            "{shown} is the directory of a host: give the witness one of its own, made by \
             `lockstep init --witness --dir DIR`. Nothing was changed."
        )));
    }
    let lock = Some(Arc::new(DirectoryLock::take(path)?));
    let (disk, durability): (Arc<dyn Disk>, _) = (Arc::new(disk), Durability::Sync);
    Ok(Data { disk, cluster, durability, progress: Arc::default(), lock })
}

/// Makes the folders of a directory that are not there, as copies of a directory may lack those
/// that were empty. Where the log had files, its folder is not made: a log that is gone is said.
fn make_missing_folders(disk: &RealDisk) -> Result<(), DirectoryError> {
    let names = disk.list("")?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let log = (!has(LOG_FOLDER) && !has(LOG_BEGUN_FILE)).then_some(LOG_FOLDER);
    let snapshots = (!has(SNAPSHOT_FOLDER)).then_some(SNAPSHOT_FOLDER);
    let missing: Vec<&str> = log.into_iter().chain(snapshots).collect();
    for folder in &missing {
        disk.create_folder(folder)?;
    }
    if !missing.is_empty() {
        disk.sync_folder("")?;
    }
    Ok(())
}

/// Bits that nobody outside this process can foresee.
pub(crate) fn random_bits() -> u64 {
    // Each state has keys of its own, from the system's source of random bytes.
    RandomState::new().build_hasher().finish()
}
