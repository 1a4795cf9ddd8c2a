//! Which snapshots of a folder stay, and what of the command log they make superfluous.

use super::FoundSnapshot;
use crate::directory::ClusterId;
use lockstep_env::DiskErrorKind;
use std::collections::BTreeMap;

/// Of the snapshots whose names begin with `prefix`, those that are older than the newest `kept`,
/// and those that a host began before it was killed; none may be under way.
pub fn outdated<'a>(found: &'a [FoundSnapshot], prefix: &str, kept: usize) -> Vec<&'a str> {
    let (mut sound, mut gone) = (Vec::new(), Vec::new());
    for one in found.iter().filter(|one| one.nonce.starts_with(prefix)) {
        match &one.manifest {
            Ok(manifest) => sound.push((manifest.transaction, &*one.nonce)),
            Err(error) if error.disk == Some(DiskErrorKind::NotFound) => gone.push(&*one.nonce),
            // Somebody may want to mend it.
            Err(_) => {}
        }
    }
    sound.sort_unstable();
    sound.truncate(sound.len().saturating_sub(kept));
    gone.extend(sound.into_iter().map(|(_, nonce)| nonce));
    gone
}

/// By partition, the last log entry that all complete snapshots have whose names begin with
/// `prefix`: recovery begins with the newest one, and with an older one should its files be
/// damaged, so entries up to there are not needed.
pub fn covered(found: &[FoundSnapshot], prefix: &str, cluster: ClusterId) -> BTreeMap<u32, u64> {
    let own = found.iter().filter(|one| one.nonce.starts_with(prefix) && one.is_complete());
    let sound = own.filter_map(|one| one.manifest.as_ref().ok());
    let mut covered = BTreeMap::new();
    for manifest in sound.filter(|manifest| manifest.cluster == cluster) {
        for (partition, position) in (0u32..).zip(&manifest.positions) {
            let least = covered.entry(partition).or_insert(position.sequence);
            *least = position.sequence.min(*least);
        }
    }
    covered
}
