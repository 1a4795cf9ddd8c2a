//! Where snapshots are, and whether one can be written there.

use super::save::AUTOMATIC_PREFIX;
use crate::log::disk::RealDisk;
use crate::recovery::RESTORED_PREFIX;
use crate::shard::HostFacts;
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::snapshot::{self, FileWriter, SnapshotError, manifest_name_of};
use lockstep_env::Disk;
use std::path::Path;
use std::sync::Arc;

/// A disk, a folder of it, and how users know that.
pub(super) type Place = (Arc<dyn Disk>, String, String);

/// The directory that a call names, or that of the host: its disk, the folder there, and how
/// users know it.
pub(super) fn snapshot_place(facts: &HostFacts, given: Option<&str>) -> Result<Place, String> {
    if let Some(path) = given.filter(|path| !path.trim().is_empty()) {
        let disk = Arc::new(RealDisk::new(Path::new(path)));
        return Ok((disk, String::new(), path.to_string()));
    }
    match &facts.data_disk {
        Some(disk) => {
            let shown = disk.shown(SNAPSHOT_FOLDER);
            Ok((Arc::clone(disk), SNAPSHOT_FOLDER.to_string(), shown))
        }
        None => Err("name a directory: this host keeps its data in memory only".to_string()),
    }
}

/// Names by which the host tells its own snapshots are not for others in its folder.
pub(super) fn check_not_reserved(nonce: &str) -> Result<(), String> {
    let reserved = [AUTOMATIC_PREFIX, RESTORED_PREFIX];
    match reserved.into_iter().find(|prefix| nonce.starts_with(prefix)) {
        None => Ok(()),
        Some(prefix) => Err(format!(
            "'{nonce}' cannot name a snapshot in the host's own folder: names that begin with \
             {prefix} are those of its own snapshots; choose another nonce"
        )),
    }
}

/// Looks whether a snapshot of this name can be written there.
/// Other hosts of the same machine may look at the same time: what one makes for that is passed
/// over by `host`.
pub(super) fn check_place(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
    host: Option<u32>,
) -> Result<(), SnapshotError> {
    let own = manifest_name_of(nonce, host.unwrap_or(0));
    let probe = format!("{own}.partial");
    let is_of_other =
        |name: &str| host.is_some() && name != probe && name.ends_with(".manifest.partial");
    let found = snapshot::scan(disk, folder)?.into_iter().find(|found| found.nonce == nonce);
    let there = found.and_then(|found| {
        let unreadable = found.unreadable.into_iter().map(|(name, _)| name);
        let mut names = found.present.into_iter().map(|(name, _)| name).chain(unreadable);
        names.find(|name| !is_of_other(name))
    });
    if let Some(name) = there {
        let problem = format!("a snapshot {nonce} is there already");
        return Err(SnapshotError::refused(disk.shown(&name), problem, "choose another nonce"));
    }
    FileWriter::create(disk, folder, &probe)?;
    let path = match folder {
        "" => probe,
        folder => format!("{folder}/{probe}"),
    };
    Ok(disk.remove(&path)?)
}
