//! The snapshots of a folder: their files' names, finding them, removing them.

use super::manifest::{FileEntry, MANIFEST_BYTES_MAX, Manifest};
use super::{ContentKind, FORMAT, SnapshotError};
use lockstep_env::{Disk, DiskErrorKind, OpenMode};
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

/// The name of the file with a partition's rows.
pub fn rows_name(nonce: &str, partition: u32) -> String {
    format!("{nonce}-host_0-site_{partition}.rows")
}

/// The snapshot that a file belongs to, by its name.
fn nonce_of(name: &str) -> Option<&str> {
    let endings = [".manifest", ".manifest.partial", ".rows", ".csv", ".classes"];
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
    let mut by_nonce: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for name in disk.list(folder)? {
        if let Some(nonce) = nonce_of(&name) {
            let length = disk.open(&path(folder, &name), OpenMode::Read)?.length()?;
            by_nonce.entry(nonce.to_string()).or_default().push((name, length));
        }
    }
    let found = by_nonce.into_iter().map(|(nonce, present)| {
        let manifest = read_manifest(disk, folder, &nonce);
        FoundSnapshot { nonce, present, manifest }
    });
    Ok(found.collect())
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
    let name = path(folder, &manifest_name(nonce));
    let file = disk.open(&name, OpenMode::Read)?;
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
    Ok(manifest)
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

/// Removes the files of a snapshot, its manifest first, so that no part of it looks whole. Gives
/// their names and lengths.
///
/// # Errors
/// A file cannot be removed.
pub fn remove(
    disk: &dyn Disk,
    folder: &str,
    nonce: &str,
) -> Result<Vec<(String, u64)>, SnapshotError> {
    let mut files = Vec::new();
    for name in disk.list(folder)? {
        if nonce_of(&name) == Some(nonce) {
            let length = disk.open(&path(folder, &name), OpenMode::Read)?.length()?;
            files.push((name, length));
        }
    }
    files.sort_by_key(|(name, _)| !name.ends_with(MANIFEST_ENDING));
    for (place, (name, _)) in files.iter().enumerate() {
        disk.remove(&path(folder, name))?;
        if place == 0 {
            disk.sync_folder(folder)?;
        }
    }
    disk.sync_folder(folder)?;
    Ok(files)
}
