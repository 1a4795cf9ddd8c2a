//! Which snapshots may go. The command log is given up as far as snapshots have it, so the host's
//! own folder must always hold one that recovery can begin with.

use super::save::AUTOMATIC_PREFIX;
use crate::control::merged::no_such_snapshot;
use crate::log::RealDisk;
use crate::log::disk::is_same;
use crate::recovery::RESTORED_PREFIX;
use crate::shard::HostFacts;
use lockstep_durability::ClusterId;
use lockstep_durability::directory::{ClusterFile, SNAPSHOT_FOLDER};
use lockstep_durability::snapshot::{
    self, ContentKind, FileEntry, FoundSnapshot, Manifest, SnapshotError, check_nonce, host_of,
    manifest_name_of, remove_outdated, remove_part, verify_file,
};
use lockstep_env::{Disk, DiskErrorKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Deletes snapshots, those that users name and those that are outdated, by threads for files.
pub(in crate::control) struct Keeper {
    /// The host's directory, if it has one.
    disk: Option<Arc<dyn Disk>>,
    cluster: ClusterId,
    /// The host, if it is one of several: it deletes its own parts of snapshots.
    host: Option<u32>,
    partitions: usize,
    /// By partition, the log has every entry with a greater number; `None` where nothing is logged.
    /// Held while something is deleted from the host's own folder, or the log given up.
    reach: Mutex<Option<Vec<u64>>>,
}

impl Keeper {
    pub(in crate::control) fn new(facts: &HostFacts, reach: Option<Vec<u64>>) -> Arc<Keeper> {
        Arc::new(Keeper {
            disk: facts.data_disk.clone(),
            cluster: facts.cluster,
            host: facts.internal_address.is_some().then_some(facts.host.0),
            partitions: facts.partition_count as usize,
            reach: Mutex::new(reach),
        })
    }

    /// Deletes a snapshot of a folder: the files that its manifest names. Gives their names and
    /// lengths.
    ///
    /// # Errors
    /// The text for the user: there is no such snapshot, it is not complete, a host needs it, or
    /// the disk failed.
    pub(super) fn delete(&self, path: &str, nonce: &str) -> Result<Vec<(String, u64)>, String> {
        check_nonce(nonce)?;
        let (disk, folder) = (RealDisk::new(Path::new(path)), Path::new(path));
        let is_own = self.is_own(folder);
        if !is_own && let Some(cluster) = cluster_of(folder) {
            return Err(format!(
                "{path} belongs to the directory of another host (cluster {cluster}), whose \
                 command log may start from its snapshots: delete them through that host, or by \
                 hand"
            ));
        }
        // Another folder may be on a disk that does not answer.
        let reach = is_own.then(|| self.reach.lock().expect("no holder of the lock panics"));
        let text = |error: snapshot::SnapshotError| error.to_string();
        let found = snapshot::scan(&disk, "").map_err(text)?;
        let has_part = |one: &FoundSnapshot| {
            let own = self.host.map(|host| manifest_name_of(nonce, host));
            own.is_none_or(|own| one.present.iter().any(|(name, _)| *name == own))
        };
        let Some(one) = found.iter().find(|one| one.nonce == nonce && has_part(one)) else {
            return Err(no_such_snapshot(path, nonce));
        };
        if let Err(error) = &one.manifest
            && error.disk != Some(DiskErrorKind::NotFound)
        {
            return Err(error.to_string());
        }
        let is_own = |file: &&FileEntry| self.host.is_none() || host_of(&file.name) == self.host;
        if let Some(file) = one.missing().find(is_own) {
            return Err(format!(
                "snapshot {nonce} is not complete: {} is not there with the {} bytes of the \
                 manifest. What is left of it is not deleted: remove it by hand",
                disk.shown(&file.name),
                file.bytes
            ));
        }
        if let Some(reach) = &reach {
            self.check_not_needed(&disk, &found, one, reach.as_deref())?;
        }
        let removed = match self.host {
            None => snapshot::remove(&disk, "", nonce),
            Some(host) => remove_part(&disk, "", nonce, host),
        };
        removed.map_err(|error| match error.disk {
            Some(DiskErrorKind::NotFound) => format!(
                "snapshot {nonce} in {path} has no manifest, so nobody knows which files are its \
                 own: nothing is deleted. Remove them by hand"
            ),
            _ => error.to_string(),
        })
    }

    /// Of the host's own folder, removes the automatic snapshots that are outdated. Gives what all
    /// that stay have of the log: the last entry of each partition.
    pub(super) fn tidy(&self, kept: usize) -> BTreeMap<u32, u64> {
        let Some(disk) = &self.disk else { return BTreeMap::new() };
        let mut reach = self.reach.lock().expect("no holder of the lock panics");
        let mut failed =
            |error: SnapshotError| tracing::warn!(%error, "an old snapshot was not removed");
        let kept = (AUTOMATIC_PREFIX, kept);
        let removed = remove_outdated(&**disk, SNAPSHOT_FOLDER, kept, self.cluster, &mut failed);
        let covered = match removed {
            Ok(covered) => covered,
            Err(error) => {
                failed(error);
                return BTreeMap::new();
            }
        };
        for (partition, before) in reach.iter_mut().flatten().enumerate() {
            let partition = partition as u32;
            *before = covered.get(&partition).copied().unwrap_or(0).max(*before);
        }
        covered
    }

    /// Whether a folder is the one with the host's own snapshots.
    pub(super) fn is_own(&self, folder: &Path) -> bool {
        let own = self.disk.as_ref().map(|disk| disk.shown(SNAPSHOT_FOLDER));
        own.is_some_and(|own| is_same(folder, Path::new(&own)))
    }

    /// Whether recovery can begin with a snapshot that has all tables.
    fn is_start(&self, manifest: &Manifest) -> bool {
        manifest.content == ContentKind::Native
            && (manifest.part.is_none() || manifest.is_own())
            && manifest.cluster == self.cluster
            && manifest.positions.len() == self.partitions
    }

    fn check_not_needed(
        &self,
        disk: &dyn Disk,
        found: &[FoundSnapshot],
        one: &FoundSnapshot,
        reach: Option<&[u64]>,
    ) -> Result<(), String> {
        let complete = found.iter().filter(|one| one.is_start());
        let starts = complete.filter_map(|one| one.manifest.as_ref().ok());
        let mut starts: Vec<&Manifest> = starts.filter(|one| self.is_start(one)).collect();
        starts.sort_by_key(|manifest| std::cmp::Reverse(manifest.transaction));
        let Some(own) = starts.iter().find(|manifest| manifest.nonce == one.nonce) else {
            return Ok(());
        };
        let is_automatic = |one: &&&Manifest| one.nonce.starts_with(AUTOMATIC_PREFIX);
        let newest = starts.iter().find(is_automatic);
        if reach.is_some() && newest.is_some_and(|newest| newest.nonce == own.nonce) {
            return Err(format!(
                "snapshot {} is the newest automatic snapshot: the command log starts from it. The \
                 host deletes its automatic snapshots by itself (option snapshots_kept)",
                own.nonce
            ));
        }
        let is_usable = |one: &Manifest| match reach {
            Some(reach) => {
                let mut both = one.positions.iter().zip(reach);
                both.all(|(position, before)| position.sequence >= *before)
            }
            None => one.transaction >= own.transaction,
        };
        let log_has_all = reach.is_some_and(|reach| reach.iter().all(|before| *before == 0));
        if log_has_all || !is_usable(own) {
            return Ok(());
        }
        // Those have all tables, whatever their manifests say.
        let is_whole = |one: &Manifest| {
            one.nonce.starts_with(AUTOMATIC_PREFIX) || one.nonce.starts_with(RESTORED_PREFIX)
        };
        let is_sound =
            |one: &Manifest| one.files.iter().all(|file| verify_file(disk, "", file).is_ok());
        let mut others = starts.iter().filter(|other| other.nonce != own.nonce);
        if others.any(|other| is_whole(other) && is_usable(other) && is_sound(other)) {
            return Ok(());
        }
        Err(format!(
            "snapshot {} is the only sound one that the next start can begin with: save another \
             one first by @Shutdown with a snapshot, or wait for an automatic one",
            own.nonce
        ))
    }
}

/// The cluster of the host in whose directory a folder is the one of snapshots, if it is.
fn cluster_of(folder: &Path) -> Option<ClusterId> {
    let folder = std::fs::canonicalize(folder).ok()?;
    let root = folder.parent().filter(|_| folder.ends_with(SNAPSHOT_FOLDER))?;
    let file = ClusterFile::read(&RealDisk::new(root)).ok()??;
    Some(file.cluster)
}
