//! How far the copies of this host are that are loaded, for its control thread.

use lockstep_types::PartitionId;
use std::sync::atomic::{AtomicU8, Ordering};

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

/// By partition, how far its copy is.
pub struct LearnedStages(Box<[AtomicU8]>);

impl LearnedStages {
    /// Nothing is loaded.
    pub fn new(partition_count: u32) -> LearnedStages {
        LearnedStages((0..partition_count).map(|_| AtomicU8::new(0)).collect())
    }

    /// The site of a copy says how far it is.
    pub fn set(&self, partition: PartitionId, stage: LearnedStage) {
        self.0[partition.index()].store(stage as u8, Ordering::Release);
    }

    /// What the site of a copy has said last.
    pub fn get(&self, partition: PartitionId) -> LearnedStage {
        match self.0[partition.index()].load(Ordering::Acquire) {
            0 => LearnedStage::Loading,
            1 => LearnedStage::Follows,
            _ => LearnedStage::Kept,
        }
    }
}
