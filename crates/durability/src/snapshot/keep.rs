//! Which snapshots of a folder stay, and what of the command log they make superfluous.

use super::{ContentKind, FoundSnapshot, Manifest, SnapshotError, clear, scan};
use crate::directory::ClusterId;
use lockstep_env::{Disk, DiskErrorKind};
use std::collections::BTreeMap;

/// Of the snapshots whose names begin with `prefix`, those that are older than the newest `kept`
/// complete ones, and those that a host began before it was killed; none may be in progress.
pub fn outdated<'a>(found: &'a [FoundSnapshot], prefix: &str, kept: usize) -> Vec<&'a str> {
    let (mut sound, mut complete, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for one in found.iter().filter(|one| one.nonce.starts_with(prefix)) {
        match &one.manifest {
            Ok(manifest) => {
                sound.push((manifest.transaction, &*one.nonce));
                complete.extend(one.is_start().then_some(manifest.transaction));
            }
            Err(error) if error.disk == Some(DiskErrorKind::NotFound) => gone.push(&*one.nonce),
            // Somebody may want to mend it.
            Err(_) => {}
        }
    }
    complete.sort_unstable();
    // One that is not complete takes the place of none that is.
    let oldest_kept = complete.len().checked_sub(kept).and_then(|first| complete.get(first));
    let is_older = |transaction: i64| oldest_kept.is_some_and(|oldest| transaction < *oldest);
    sound.sort_unstable();
    let older = sound.into_iter().filter(|(transaction, _)| is_older(*transaction));
    gone.extend(older.map(|(_, nonce)| nonce));
    gone
}

/// Removes the outdated snapshots of a folder ([`outdated`]): by partition, the last log entry that
/// all remaining ones have ([`covered`]). `failed` gets each that was not removed.
///
/// # Errors
/// The folder cannot be listed.
pub fn remove_outdated(
    disk: &dyn Disk,
    folder: &str,
    (prefix, kept): (&str, usize),
    cluster: ClusterId,
    failed: &mut dyn FnMut(SnapshotError),
) -> Result<BTreeMap<u32, u64>, SnapshotError> {
    let found = scan(disk, folder)?;
    for nonce in outdated(&found, prefix, kept) {
        if let Err(error) = clear(disk, folder, nonce, cluster) {
            failed(error);
        }
    }
    let remaining = scan(disk, folder)?;
    debug_assert!(remaining.len() <= found.len(), "nothing is added meanwhile");
    Ok(covered(&remaining, prefix, cluster))
}

/// By partition, the last log entry that all complete snapshots have whose names begin with
/// `prefix`: recovery begins with the newest one, and with an older one should its files be
/// damaged, so entries up to there are not needed.
pub fn covered(found: &[FoundSnapshot], prefix: &str, cluster: ClusterId) -> BTreeMap<u32, u64> {
    let own = found.iter().filter(|one| one.nonce.starts_with(prefix) && one.is_start());
    let sound = own.filter_map(|one| one.manifest.as_ref().ok());
    let mut covered = BTreeMap::new();
    let is_own = |one: &&Manifest| one.cluster == cluster && one.content == ContentKind::Native;
    for manifest in sound.filter(is_own) {
        let has = |partition: &u32| !manifest.lacked_partitions().any(|it| it == *partition);
        let saved = (0u32..).zip(&manifest.positions).filter(|(partition, _)| has(partition));
        for (partition, position) in saved {
            let least = covered.entry(partition).or_insert(position.sequence);
            *least = position.sequence.min(*least);
        }
    }
    covered
}
