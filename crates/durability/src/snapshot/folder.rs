//! The snapshots of a folder: their files' names, finding them, removing them.

use super::manifest::{FileEntry, MANIFEST_BYTES_MAX, Manifest};
use super::{ContentKind, FORMAT, ROWS_HEADER_BYTES, ROWS_MAGIC, SnapshotError};
use crate::directory::ClusterId;
use lockstep_env::{Disk, DiskError, DiskErrorKind, OpenMode};
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of a snapshot.
const NONCE_BYTES_MAX: usize = 100;

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
        let manifest = self.manifest.as_ref();
        manifest.is_ok_and(|manifest| manifest.lacked_partitions().next().is_none())
            && self.missing().next().is_none()
    }

    /// Whether the host whose folder it is in can begin with it: it is whole, or has all copies of
    /// one of several hosts.
    pub fn is_start(&self) -> bool {
        let is_own = self.manifest.as_ref().is_ok_and(Manifest::is_own);
        self.is_complete() || is_own && self.missing().next().is_none()
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
    manifest_name_of(nonce, 0)
}

/// The name of the manifest of a host's part.
pub fn manifest_name_of(nonce: &str, host: u32) -> String {
    format!("{nonce}-host_{host}.manifest")
}

/// The manifest before it is whole.
pub(super) fn partial_name(nonce: &str, host: u32) -> String {
    format!("{nonce}-host_{host}.manifest.partial")
}

/// The manifest of a snapshot that is being removed.
fn removed_name(nonce: &str, host: u32) -> String {
    format!("{nonce}-host_{host}.manifest.removed")
}

/// The name of the file with a partition's rows.
pub fn rows_name(nonce: &str, partition: u32) -> String {
    rows_name_of(nonce, 0, partition)
}

/// The name of the file with the rows of a partition that a host saved.
pub fn rows_name_of(nonce: &str, host: u32, partition: u32) -> String {
    format!("{nonce}-host_{host}-site_{partition}.rows")
}

/// The name of the file with the Java classes.
pub fn classes_name(nonce: &str, host: u32) -> String {
    format!("{nonce}-host_{host}.classes")
}

/// Which host wrote the file of a snapshot with this name.
pub fn host_of(name: &str) -> Option<u32> {
    let (_, rest) = name.rsplit_once("-host_")?;
    let end = rest.find(|next: char| !next.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// Whose rows the file of this name has, if that is what it is.
pub fn partition_of(name: &str, nonce: &str) -> Option<u32> {
    let rest = name.strip_prefix(nonce)?.strip_prefix("-host_")?;
    let (host, rest) = rest.split_once("-site_")?;
    let (host, partition) = (host.parse().ok()?, rest.strip_suffix(".rows")?.parse().ok()?);
    (rows_name_of(nonce, host, partition) == name).then_some(partition)
}

/// The hosts with a manifest of the snapshot among these files, whose names these endings have.
fn hosts_with<'n>(
    names: impl Iterator<Item = &'n String>,
    name_of: impl Fn(u32) -> String,
) -> BTreeSet<u32> {
    names.filter_map(|name| host_of(name).filter(|host| name_of(*host) == *name)).collect()
}

/// The snapshot that a file belongs to, by its name.
fn nonce_of(name: &str) -> Option<&str> {
    let endings =
        [".manifest", ".manifest.partial", ".manifest.removed", ".rows", ".csv", ".classes"];
    if !endings.iter().any(|ending| name.ends_with(ending)) || host_of(name).is_none() {
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
        let names = present.iter().map(|(name, _)| name);
        let names = names.chain(unreadable.iter().map(|(name, _)| name));
        let manifest = read_parts(disk, folder, &nonce, names);
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

/// Reads a snapshot's manifest; those of several hosts, as far as they are there, as one.
///
/// # Errors
/// It is not there, damaged, or of a newer release; the parts are of several snapshots.
pub fn read_manifest(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
) -> Result<Manifest, SnapshotError> {
    read_parts(disk, folder, nonce, disk.list(folder)?.iter())
}

/// The manifest of a snapshot that has files of these names.
fn read_parts<'n>(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
    names: impl Iterator<Item = &'n String>,
) -> Result<Manifest, SnapshotError> {
    let hosts = hosts_with(names, |host| manifest_name_of(nonce, host));
    let first = hosts.first().copied().unwrap_or(0);
    let name = manifest_name_of(nonce, first);
    let (mut manifest, _) = read_manifest_as(disk, folder, nonce, &name)?;
    for host in hosts.into_iter().filter(|host| *host != first) {
        let name = manifest_name_of(nonce, host);
        let (part, _) = read_manifest_as(disk, folder, nonce, &name)?;
        manifest.join(part).map_err(|problem| {
            let file = disk.shown(&path(folder, &name));
            SnapshotError::refused(file, problem, "move the files of the other one elsewhere")
        })?;
    }
    Ok(manifest)
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
            Ok(manifest) if manifest.part.is_some() => {
                let file = disk.shown(&path(folder, &manifest_name(&manifest.nonce)));
                let problem = "it is a snapshot of several hosts";
                let remedy = "restore it into a running host by @SnapshotRestore";
                problems.push(SnapshotError::refused(file, problem, remedy));
            }
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

/// Removes a snapshot: the files that its manifest names, and no other; of several hosts those of
/// all whose manifests are here. Gives the names and lengths of the files.
///
/// # Errors
/// There is no sound manifest; a file cannot be removed.
pub fn remove(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
) -> Result<Vec<(String, u64)>, SnapshotError> {
    let names = disk.list(folder)?;
    let mut hosts = hosts_with(names.iter(), |host| manifest_name_of(nonce, host));
    hosts.append(&mut hosts_with(names.iter(), |host| removed_name(nonce, host)));
    if hosts.is_empty() {
        hosts.insert(0);
    }
    let mut files = Vec::new();
    for host in hosts {
        files.append(&mut remove_part(disk, folder, nonce, host)?);
    }
    Ok(files)
}

/// Removes what a host saved of a snapshot. The manifest goes first, to a name of its own, so that
/// no part of the snapshot looks whole, and a removal that was stopped half way can be ended.
///
/// # Errors
/// As for [`remove`].
pub fn remove_part(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
    host: u32,
) -> Result<Vec<(String, u64)>, SnapshotError> {
    let (name, removed) = (manifest_name_of(nonce, host), removed_name(nonce, host));
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
    if !hosts_with(names.iter(), |host| removed_name(nonce, host)).is_empty() {
        remove(disk, folder, nonce)?;
    }
    for name in names {
        let Some(host) = host_of(&name) else { continue };
        let partial = partial_name(nonce, host);
        let other = [(partial, &b"LockstepDB snapshot"[..]), (classes_name(nonce, host), b"PK")];
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
