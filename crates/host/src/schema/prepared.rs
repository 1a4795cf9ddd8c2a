//! Schema changes that a host has prepared: messages between coordinator and partitions name one
//! by the version of the catalog that it makes, and each partition takes what its own host has
//! prepared.

use lockstep_site::SchemaTask;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes that are kept. One begins after the other has ended, but for snapshots, of which
/// several may wait.
const CHANGES_KEPT: usize = 16;

/// The changes that were prepared last.
#[derive(Debug)]
pub struct PreparedChanges<C> {
    changes: VecDeque<Arc<SchemaTask<C>>>,
}

impl<C> Default for PreparedChanges<C> {
    fn default() -> Self {
        PreparedChanges { changes: VecDeque::new() }
    }
}

impl<C> PreparedChanges<C> {
    /// A change is ready to be carried out here.
    pub fn add(&mut self, task: Arc<SchemaTask<C>>) {
        if self.changes.len() == CHANGES_KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back(task);
        assert!(self.changes.len() <= CHANGES_KEPT, "prepared changes are limited");
    }

    /// The change that makes a version of the catalog, or that begins a snapshot beside it, by
    /// what the log says of it. Of several the one that was prepared last.
    ///
    /// # Errors
    /// It was not prepared here.
    pub fn find(&self, catalog_version: u64, source: &[u8]) -> Result<Arc<SchemaTask<C>>, String> {
        let is_it = |task: &&Arc<SchemaTask<C>>| {
            task.catalog_version == catalog_version && *task.source == *source
        };
        self.changes.iter().rev().find(is_it).cloned().ok_or_else(|| {
            format!("the change that makes catalog version {catalog_version} was not prepared here")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(catalog_version: u64, source: &[u8]) -> Arc<SchemaTask<u64>> {
        Arc::new(SchemaTask {
            changes: Vec::new(),
            swap: None,
            snapshot: None,
            catalog: catalog_version,
            catalog_version,
            source: source.into(),
            advice: None,
        })
    }

    #[test]
    fn a_change_is_found_by_what_it_makes_until_many_others_came() {
        let mut prepared = PreparedChanges::default();
        prepared.add(task(1, b"a"));
        prepared.add(task(1, b"b"));
        let found = prepared.find(1, b"a").expect("it was prepared");
        assert_eq!((found.catalog_version, &*found.source), (1, &b"a"[..]));
        assert!(prepared.find(2, b"a").is_err());
        assert!(prepared.find(1, b"c").is_err());
        (2..2 + CHANGES_KEPT as u64).for_each(|version| prepared.add(task(version, b"x")));
        let gone = prepared.find(1, b"a").map(|found| found.catalog_version);
        assert_eq!(
            gone,
            Err("the change that makes catalog version 1 was not prepared here".to_string())
        );
        assert!(prepared.find(2, b"x").is_ok());
    }
}
