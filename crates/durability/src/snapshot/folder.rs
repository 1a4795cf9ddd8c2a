//! The snapshots of a folder: their files' names, finding them, removing them.

use super::manifest::{FileEntry, MANIFEST_BYTES_MAX, Manifest};
use super::{ContentKind, FORMAT, ROWS_HEADER_BYTES, ROWS_MAGIC, SnapshotError};
use crate::directory::ClusterId;
use lockstep_env::{Disk, DiskError, DiskErrorKind, OpenMode};
use std::collections::BTreeMap;

/// The longest name of a snapshot.
const NONCE_BYTES_MAX: usize = 100;
const MANIFEST_ENDING: &str = "-host_0.manifest";

/// A snapshot of which there are files.
#[derive(Debug, Clone)]
pub struct FoundSnapshot {
    /// Its name.
    pub nonce: String,
    /// Its files that are there, with their lengths.
    pub present: Vec<(String, u64)>,
    /// What has the name of one of its files and cannot be opened as a file.
    pub unreadable: Vec<(String, SnapshotError)>,
    /// Its manifest, or why there is none.
    pub manifest: Result<Manifest, SnapshotError>,
}

impl FoundSnapshot {
    /// Files of the manifest that are missing or of another length.
    pub fn missing(&self) -> impl Iterator<Item = &FileEntry> {
        let files = self.manifest.iter().flat_map(|manifest| &manifest.files);
        files.filter(|file| !self.present.contains(&(file.name.clone(), file.bytes)))
    }

    /// Whether all files are there, as long as they should be.
    pub fn is_complete(&self) -> bool {
        self.manifest.is_ok() && self.missing().next().is_none()
    }

    /// Bytes of all files that are there.
    pub fn bytes(&self) -> u64 {
        self.present.iter().map(|(_, bytes)| bytes).sum()
    }
}

pub(super) fn path(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_string(),
        folder => format!("{folder}/{name}"),
    }
}

/// Whether a text can name a snapshot; an error says what can.
///
/// # Errors
/// It is empty, too long, or has something else in it than letters, digits, `_` and `.`.
pub fn check_nonce(nonce: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let fits = (1..=NONCE_BYTES_MAX).contains(&nonce.len()) && !nonce.starts_with('.');
    if !fits || !nonce.bytes().all(allowed) {
        return Err(format!(
            "'{nonce}' cannot name a snapshot: it takes 1 to {NONCE_BYTES_MAX} letters, digits, \
             '_' and '.', and no '.' in front"
        ));
    }
    Ok(())
}

/// The name of a snapshot's manifest.
pub fn manifest_name(nonce: &str) -> String {
    format!("{nonce}{MANIFEST_ENDING}")
}

/// The manifest before it is whole.
pub(super) fn partial_name(nonce: &str) -> String {
    format!("{nonce}{MANIFEST_ENDING}.partial")
}

/// The manifest of a snapshot that is being removed.
fn removed_name(nonce: &str) -> String {
    format!("{nonce}{MANIFEST_ENDING}.removed")
}

/// The name of the file with a partition's rows.
pub fn rows_name(nonce: &str, partition: u32) -> String {
    format!("{nonce}-host_0-site_{partition}.rows")
}

/// The name of the file with the Java classes.
pub fn classes_name(nonce: &str) -> String {
    format!("{nonce}-host_0.classes")
}

/// Whose rows the file of this name has, if that is what it is.
fn partition_of(name: &str, nonce: &str) -> Option<u32> {
    let rest = name.strip_prefix(nonce)?.strip_prefix("-host_0-site_")?;
    let partition = rest.strip_suffix(".rows")?.parse().ok()?;
    (rows_name(nonce, partition) == name).then_some(partition)
}

/// The snapshot that a file belongs to, by its name.
fn nonce_of(name: &str) -> Option<&str> {
    let endings =
        [".manifest", ".manifest.partial", ".manifest.removed", ".rows", ".csv", ".classes"];
    if !endings.iter().any(|ending| name.ends_with(ending)) || !name.contains("-host_0") {
        return None;
    }
    let (nonce, _) = name.split_once('-')?;
    check_nonce(nonce).ok().map(|()| nonce)
}

/// The snapshots of a folder, in the order of their names; sound or not.
///
/// # Errors
/// The folder cannot be read.
pub fn scan(disk: &dyn Disk, folder: &str) -> Result<Vec<FoundSnapshot>, SnapshotError> {
    type Files = (Vec<(String, u64)>, Vec<(String, SnapshotError)>);
    let mut by_nonce: BTreeMap<String, Files> = BTreeMap::new();
    for name in disk.list(folder)? {
        let Some(nonce) = nonce_of(&name) else { continue };
        let opened = disk.open(&path(folder, &name), OpenMode::Read);
        let (present, unreadable) = by_nonce.entry(nonce.to_string()).or_default();
        match opened.and_then(|file| file.length()) {
            Ok(length) => present.push((name, length)),
            // Removed since the folder was listed.
            Err(error) if error.is_not_found() => {}
            Err(error) => unreadable.push((name, error.into())),
        }
    }
    let found = by_nonce.into_iter().map(|(nonce, (present, unreadable))| {
        let manifest = read_manifest(disk, folder, &nonce);
        FoundSnapshot { nonce, present, unreadable, manifest }
    });
    Ok(found.collect())
}

/// Whether the first bytes of a file are these, as far as it has some.
fn begins_with(disk: &dyn Disk, name: &str, first: &[u8]) -> Result<bool, DiskError> {
    let mut bytes = vec![0; first.len()];
    let read = disk.open(name, OpenMode::Read)?.read_at(0, &mut bytes)?;
    Ok(first.starts_with(&bytes[..read]))
}

/// Whether a file is one of rows that a host of a cluster wrote, or began to: the first bytes
/// reach the disk late.
fn is_begun_rows(
    disk: &dyn Disk,
    name: &str,
    cluster: ClusterId,
    partition: u32,
) -> Result<bool, DiskError> {
    let mut header = [0; ROWS_HEADER_BYTES];
    let read = disk.open(name, OpenMode::Read)?.read_at(0, &mut header)?;
    // Magic, format, partition, cluster.
    let own = header.starts_with(ROWS_MAGIC)
        && header[12..16] == partition.to_le_bytes()
        && header[16..32] == cluster.0;
    Ok(read == 0 || own && read == ROWS_HEADER_BYTES)
}

/// Reads a snapshot's manifest.
///
/// # Errors
/// It is not there, damaged, or of a newer release.
pub fn read_manifest(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
) -> Result<Manifest, SnapshotError> {
    let name = manifest_name(nonce);
    read_manifest_as(disk, folder, nonce, &name).map(|(manifest, _)| manifest)
}

/// The manifest in a file of this name, with the file's length.
fn read_manifest_as(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
    name: &str,
) -> Result<(Manifest, u64), SnapshotError> {
    let file = disk.open(&path(folder, name), OpenMode::Read)?;
    let length = file.length()?;
    if length > MANIFEST_BYTES_MAX {
        let problem = format!("{length} bytes are too many for a manifest");
        return Err(SnapshotError::damaged(file.shown(), 0, problem));
    }
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    if let Some(format) = Manifest::format(&bytes).filter(|format| *format > FORMAT) {
        let problem = format!("it has format {format}, newer than {FORMAT}");
        let remedy = "use the release that wrote it, or a later one";
        return Err(SnapshotError::refused(file.shown(), problem, remedy));
    }
    let manifest = Manifest::decode(&bytes)
        .map_err(|(at, problem)| SnapshotError::damaged(file.shown(), at, problem))?;
    if manifest.nonce != nonce {
        let problem = format!("it is the manifest of snapshot {}", manifest.nonce);
        return Err(SnapshotError::refused(file.shown(), problem, "give it its own name again"));
    }
    Ok((manifest, length))
}

/// The newest snapshot of a folder that can be restored and has all its files, if there is one;
/// with it, what is wrong with those that were newer or have no sound manifest.
///
/// # Errors
/// The folder cannot be read.
pub fn newest(
    disk: &dyn Disk,
    folder: &str,
) -> Result<(Option<Manifest>, Vec<SnapshotError>), SnapshotError> {
    let mut sound: Option<Manifest> = None;
    let mut problems = Vec::new();
    for found in scan(disk, folder)? {
        let missing = found.missing().next().map(|file| {
            let shown = disk.shown(&path(folder, &file.name));
            let problem = format!("it is not there with the {} bytes of the manifest", file.bytes);
            SnapshotError::refused(shown, problem, "restore the file from a copy")
        });
        match found.manifest {
            Ok(manifest) if missing.is_none() => {
                let is_newer = |best: &Manifest| manifest.transaction > best.transaction;
                if manifest.content == ContentKind::Native && sound.as_ref().is_none_or(is_newer) {
                    sound = Some(manifest);
                }
            }
            // One that was not finished does not exist.
            Err(error) if error.disk == Some(DiskErrorKind::NotFound) => {}
            Err(error) => problems.push(error),
            Ok(_) => problems.extend(missing),
        }
    }
    Ok((sound, problems))
}

/// Removes a snapshot: the files that its manifest names, and no other. The manifest goes first, to
/// a name of its own, so that no part of the snapshot looks whole, and a removal that was stopped
/// half way can be ended. Gives the names and lengths of the files.
///
/// # Errors
/// There is no sound manifest; a file cannot be removed.
pub fn remove(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
) -> Result<Vec<(String, u64)>, SnapshotError> {
    let (name, removed) = (manifest_name(nonce), removed_name(nonce));
    let (manifest, length) = match read_manifest_as(disk, folder, nonce, &name) {
        Ok(found) => {
            disk.rename(&path(folder, &name), &path(folder, &removed))?;
            disk.sync_folder(folder)?;
            found
        }
        // It was removed up to here before.
        Err(error) if error.disk == Some(DiskErrorKind::NotFound) => {
            read_manifest_as(disk, folder, nonce, &removed).map_err(|_| error)?
        }
        Err(error) => return Err(error),
    };
    let mut files = vec![(name, length)];
    for file in &manifest.files {
        match disk.remove(&path(folder, &file.name)) {
            Ok(()) => files.push((file.name.clone(), file.bytes)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    disk.sync_folder(folder)?;
    disk.remove(&path(folder, &removed))?;
    disk.sync_folder(folder)?;
    Ok(files)
}

/// Removes a snapshot of a cluster, whether it was finished or not.
///
/// # Errors
/// As for [`remove`].
pub fn clear(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
    cluster: ClusterId,
) -> Result<(), SnapshotError> {
    match remove(disk, folder, nonce) {
        Err(error) if error.disk == Some(DiskErrorKind::NotFound) => {
            remove_unfinished(disk, folder, nonce, cluster)
        }
        other => other.map(drop),
    }
}

/// Removes what is left of a snapshot of a cluster that was not finished, or not removed to the
/// end: it has no manifest. Files that only have such names stay.
///
/// # Errors
/// A file cannot be removed.
pub fn remove_unfinished(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
    cluster: ClusterId,
) -> Result<(), SnapshotError> {
    let names = disk.list(folder)?;
    if names.contains(&removed_name(nonce)) {
        remove(disk, folder, nonce)?;
    }
    let other = [(partial_name(nonce), &b"LockstepDB snapshot"[..]), (classes_name(nonce), b"PK")];
    for name in names {
        let is_rows = partition_of(&name, nonce).is_some_and(|partition| {
            is_begun_rows(disk, &path(folder, &name), cluster, partition).unwrap_or(false)
        });
        let is_other = other.iter().any(|(own, first)| {
            *own == name && begins_with(disk, &path(folder, &name), first).unwrap_or(false)
        });
        if is_rows || is_other {
            match disk.remove(&path(folder, &name)) {
                Err(error) if error.is_not_found() => {}
                other => other?,
            }
        }
    }
    disk.sync_folder(folder)?;
    Ok(())
}
