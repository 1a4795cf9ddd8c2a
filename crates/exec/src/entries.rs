//! Entries of global indexes: see the module that keeps them, `change/entries.rs`.

pub use crate::change::{PartitionEntries, apply_entries, apply_known_entry};
