//! A disk that fails at a chosen operation, and what it was doing then.

use lockstep_base::random::SeededRandom;
use lockstep_durability::command_log::FOLDER;
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_env::memory::{FaultHook, Survival, UnsyncedWrite};
use lockstep_env::{DiskErrorKind, DiskOperation};
use std::sync::{Arc, Mutex, PoisonError};

/// How many places [`place_of`] knows.
pub(super) const PLACES: u64 = 5;

/// Which operations count, and fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// All.
    All,
    /// Syncs; the others go on.
    Syncs,
    /// Those of one place count, and from the one that fails on all do.
    Place(usize),
}

/// Where the disk failed last.
#[derive(Default)]
pub(super) struct Strike {
    place: Arc<Mutex<Option<usize>>>,
}

impl Strike {
    /// A disk that fails from the numbered operation on.
    pub(super) fn fails_from(&self, number: u64, target: Target) -> FaultHook {
        let struck = Arc::clone(&self.place);
        let mut left = number;
        let mut has_failed = false;
        Box::new(move |operation, name, _, _| {
            let place = place_of(operation, name);
            let is_meant = match target {
                Target::All => true,
                Target::Syncs => operation == DiskOperation::Sync,
                Target::Place(meant) => place == meant,
            };
            if has_failed && (is_meant || target != Target::Syncs) {
                return Err(DiskErrorKind::Other);
            }
            if !is_meant {
                return Ok(());
            }
            if left > 0 {
                left -= 1;
                return Ok(());
            }
            has_failed = true;
            *struck.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
            Err(DiskErrorKind::Other)
        })
    }

    /// What the disk was doing when it failed; told once.
    pub(super) fn place(&self) -> Option<usize> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What an operation belongs to, as [`super::Report::struck`] counts it.
fn place_of(operation: DiskOperation, name: &str) -> usize {
    use DiskOperation::{Remove, Rename, Sync, Write};
    let is_segment = name.starts_with(FOLDER) && !name.contains("spare");
    match operation {
        Remove if name.starts_with(SNAPSHOT_FOLDER) => 4,
        _ if name.starts_with(SNAPSHOT_FOLDER) => 3,
        Remove | Rename if is_segment => 2,
        Write | Sync if name != FOLDER => 0,
        _ => 1,
    }
}

/// What a power cut leaves of a write: nothing of any, all of each, or as is drawn.
pub(crate) fn survival(
    random: &mut SeededRandom,
    mode: u64,
    write: &UnsyncedWrite<'_>,
) -> Survival {
    let drawn = if mode < 2 { mode } else { random.below(4) };
    match (drawn, write) {
        (0, _) => Survival::Lost,
        (2, UnsyncedWrite::Bytes { bytes, .. }) => {
            // Zeros that fill a page show nothing of where a write was torn.
            let shown = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |at| at + 1);
            Survival::Torn(random.below(shown as u64 + 1) as usize)
        }
        (3, UnsyncedWrite::Bytes { .. }) => Survival::Sectors(random.next_u64()),
        _ => Survival::Kept,
    }
}
