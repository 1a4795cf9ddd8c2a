//! The copies of this thread that follow: they apply what their leaders have logged, in slices
//! between the rounds of the partitions that are led here.

use super::{HeldCall, HostFacts, HostSite, KeptAnswer, Shard, Slot};
use crate::catalog::HostCatalog;
use lockstep_host::copies::FollowedPiece;
use lockstep_host::follower::{Applied, Divergence, Follower, FollowerError, FollowerLimits};
use lockstep_host::recovery::{EntrySources, LoggedChange};
use lockstep_types::PartitionId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Entries that a copy applies before the partitions that are led here have their turn.
const SLICE_ENTRIES: u32 = 64;

/// A copy as the host's threads have it.
pub(super) type HostFollower = Follower<HeldCall, KeptAnswer, Arc<HostCatalog>>;

/// A copy that follows.
pub(super) struct Following {
    pub(super) follower: HostFollower,
    /// The catalog in force at it.
    pub(super) catalog: Arc<HostCatalog>,
    /// A change of the catalog that is next.
    pub(super) change: Option<LoggedChange>,
    /// It is out of service.
    pub(super) has_failed: bool,
}

impl Following {
    /// Of a leader that was drained, and follows from now on.
    pub(super) fn after_leading(
        site: HostSite,
        catalog: Arc<HostCatalog>,
        backlog_bytes: usize,
    ) -> Self {
        let limits = FollowerLimits { slice_entries: SLICE_ENTRIES, backlog_bytes };
        let follower = Follower::after_leading(site.partition(), site, limits);
        Following { follower, catalog, change: None, has_failed: false }
    }

    /// A copy with the state of a site.
    pub(super) fn new(site: HostSite, catalog: Arc<HostCatalog>, backlog_bytes: usize) -> Self {
        let (partition, position) = (site.partition(), site.log_sequence());
        let limits = FollowerLimits { slice_entries: SLICE_ENTRIES, backlog_bytes };
        Following::loaded(Follower::new(partition, site, position, limits), catalog)
    }

    /// A copy that has its data.
    pub(super) fn loaded(follower: HostFollower, catalog: Arc<HostCatalog>) -> Self {
        Following { follower, catalog, change: None, has_failed: false }
    }
}

/// The limits of copies of a host.
pub(super) fn limits(facts: &HostFacts) -> FollowerLimits {
    let backlog_bytes = facts.options.max_copy_backlog_bytes.to_usize();
    FollowerLimits { slice_entries: SLICE_ENTRIES, backlog_bytes }
}

/// Why a copy is put out of service.
enum Unsound {
    Fails(FollowerError),
    Differs(Divergence),
}

impl Shard {
    /// Entries for a copy here have come.
    pub(super) fn follow(&mut self, message: FollowedPiece) {
        let FollowedPiece { partition, piece, horizon, digest } = message;
        if !self.replicas.has_copy(partition) {
            return;
        }
        let slot = self.replicas.slot_of_copy(partition);
        // It leads by now, or is out of service: what comes late is not for it.
        self.replicas.copies_to_apply.add(slot);
        if self.replicas[slot].learning.as_ref().is_some_and(|it| it.is_loading()) {
            return;
        }
        let following = self.replicas[slot].following.as_mut().filter(|copy| !copy.has_failed);
        let Some(following) = following else { return };
        if let Some(piece) = piece {
            following.follower.push(piece);
        }
        let differs = digest.and_then(|(at, digest)| following.follower.compare(at, digest));
        let advanced = following.follower.advance(horizon);
        self.note_backlog(slot);
        if let Err(error) = advanced {
            return self.put_out_of_service(slot, &Unsound::Fails(error));
        }
        if let Some(differs) = differs {
            self.put_out_of_service(slot, &Unsound::Differs(differs));
        }
    }

    /// Copies apply what they may, each a slice of it.
    #[inline]
    pub(super) fn run_copies(&mut self) {
        for slot in self.replicas.copies_to_apply.drain() {
            self.run_copy(slot);
        }
    }

    fn run_copy(&mut self, slot: Slot) {
        if self.replicas[slot].opening.is_some() {
            if self.go_on_opening(slot) {
                self.replicas.copies_to_apply.add(slot);
            }
            return;
        }
        if self.replicas[slot].draining.is_some() {
            if self.go_on_draining(slot) {
                self.replicas.copies_to_apply.add(slot);
            }
            return;
        }
        let applied = self.apply_slice(slot);
        self.begin_followed_snapshot(slot);
        match applied {
            Ok(true) => self.replicas.copies_to_apply.add(slot),
            Ok(false) => {}
            Err(error) => self.put_out_of_service(slot, &Unsound::Fails(error)),
        }
        self.note_backlog(slot);
        let following = self.replicas[slot].following.as_ref();
        let differs = following.filter(|copy| !copy.has_failed);
        if let Some(differs) = differs.and_then(|copy| copy.follower.divergence()) {
            self.put_out_of_service(slot, &Unsound::Differs(differs));
        }
    }

    /// Applies a slice; true if there is more that may be applied.
    fn apply_slice(&mut self, slot: Slot) -> Result<bool, FollowerError> {
        let partition_count = self.facts.partition_count;
        let limits = self.facts.options.sql_limits();
        let Some(following) = &mut self.replicas[slot].following else { return Ok(false) };
        if following.has_failed {
            return Ok(false);
        }
        if let Some(change) = following.change.take() {
            return self.change_catalog_of(slot, &change).map(|()| true);
        }
        let catalog = Arc::clone(&following.catalog);
        let sources = EntrySources { catalog: &*catalog, limits: &limits, partition_count };
        Ok(match following.follower.run(&sources)? {
            Applied::Idle => false,
            Applied::More => true,
            Applied::Change(change) => {
                following.change = Some(change);
                true
            }
        })
    }

    /// A change of the catalog is next at a copy: its host has prepared it.
    fn change_catalog_of(
        &mut self,
        slot: Slot,
        change: &LoggedChange,
    ) -> Result<(), FollowerError> {
        let prepared = self.facts.find_prepared(change);
        let following = self.replicas[slot].following.as_mut().expect("it applies the change");
        let partition = following.follower.partition();
        let entry = following.follower.applied() + 1;
        let task = prepared.map_err(|problem| FollowerError { partition, entry, problem })?;
        following.follower.change_catalog(change, &task)?;
        following.catalog = Arc::clone(&task.catalog);
        if !self.replicas.has_leaders() && task.catalog.version() > self.catalog.version() {
            self.follow_catalog(Arc::clone(&task.catalog));
        }
        Ok(())
    }

    /// Says how much waits to be applied: the leader is slowed down when it is too much.
    fn note_backlog(&self, slot: Slot) {
        let Some(following) = &self.replicas[slot].following else { return };
        let partition: PartitionId = following.follower.partition();
        let bytes = following.follower.backlog().1 as u64;
        self.facts.copy_backlogs[partition.index()].store(bytes, Ordering::Relaxed);
    }

    /// A copy is not as its leader, or cannot go on.
    #[cold]
    fn put_out_of_service(&mut self, slot: Slot, why: &Unsound) {
        let Some(following) = &mut self.replicas[slot].following else { return };
        following.has_failed = true;
        let partition = following.follower.partition();
        match why {
            Unsound::Fails(error) => tracing::error!(%partition, "{error}"),
            Unsound::Differs(differs) => tracing::error!(%partition, "{differs}"),
        }
        let epoch = self.placement.epoch_of(partition);
        self.propose_out_of_sync(partition, epoch);
    }
}
