//! How far the copies of this host are that are loaded, for its control thread.

use lockstep_host::loading::LoadProgress;
use lockstep_types::PartitionId;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// How far a copy is that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LearnedStage {
    /// Its data are not all here.
    Loading = 0,
    /// It has its data, and applies what was logged since.
    Follows = 1,
    /// A start of the host begins with it.
    Kept = 2,
}

/// How far one copy is.
#[derive(Default)]
struct Learned {
    stage: AtomicU8,
    /// Rows, bytes and slots of [`LoadProgress`], each for itself.
    progress: [AtomicU64; 3],
    /// Rows and bytes of all loads since the host began.
    loaded: [AtomicU64; 2],
}

/// By partition, how far its copy is.
pub struct LearnedStages(Box<[Learned]>);

impl LearnedStages {
    /// Nothing is loaded.
    pub fn new(partition_count: u32) -> LearnedStages {
        LearnedStages((0..partition_count).map(|_| Learned::default()).collect())
    }

    /// The site of a copy says how much of its data it has.
    pub fn set_progress(&self, partition: PartitionId, progress: LoadProgress) {
        let LoadProgress { rows, bytes, slots } = progress;
        let learned = &self.0[partition.index()];
        for ((loaded, cell), value) in
            learned.loaded.iter().zip(&learned.progress).zip([rows, bytes])
        {
            // Less than before is another load.
            let before = cell.load(Ordering::Relaxed);
            let more = if value < before { value } else { value - before };
            loaded.fetch_add(more, Ordering::Relaxed);
        }
        for (cell, value) in learned.progress.iter().zip([rows, bytes, slots]) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Rows and bytes that were loaded of a partition since the host began, whichever loads they
    /// were of.
    pub fn loaded(&self, partition: PartitionId) -> (u64, u64) {
        let [rows, bytes] =
            [0, 1].map(|at: usize| self.0[partition.index()].loaded[at].load(Ordering::Relaxed));
        (rows, bytes)
    }

    /// How much of its data a copy has that is being loaded.
    pub fn progress(&self, partition: PartitionId) -> LoadProgress {
        let cells = &self.0[partition.index()].progress;
        let [rows, bytes, slots] = [0, 1, 2].map(|at: usize| cells[at].load(Ordering::Relaxed));
        LoadProgress { rows, bytes, slots }
    }

    /// The site of a copy says how far it is.
    pub fn set(&self, partition: PartitionId, stage: LearnedStage) {
        self.0[partition.index()].stage.store(stage as u8, Ordering::Release);
    }

    /// What the site of a copy has said last.
    pub fn get(&self, partition: PartitionId) -> LearnedStage {
        match self.0[partition.index()].stage.load(Ordering::Acquire) {
            0 => LearnedStage::Loading,
            1 => LearnedStage::Follows,
            _ => LearnedStage::Kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_loads_are_counted_once_each() {
        let (stages, partition) = (LearnedStages::new(2), PartitionId(1));
        for rows in [0, 5, 9, 0, 4, 3] {
            stages.set_progress(partition, LoadProgress { rows, bytes: rows * 10, slots: 9 });
        }
        assert_eq!(stages.loaded(partition), (9 + 4 + 3, 160));
        assert_eq!(stages.progress(partition), LoadProgress { rows: 3, bytes: 30, slots: 9 });
        assert_eq!(stages.loaded(PartitionId(0)), (0, 0));
    }
}
