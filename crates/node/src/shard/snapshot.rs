//! A site's part in a snapshot of its host: a little encoding between rounds of the loop.

use super::Shard;
use crate::clock;
use crate::snapshot::lane::SiteLane;
use lockstep_base::counting;
use lockstep_site::SnapshotBegun;

/// The snapshot that runs at a site, or begins.
#[derive(Default)]
pub(super) struct SiteSnapshot {
    lane: Option<Box<SiteLane>>,
    /// It has begun, and its lane has not come yet.
    begun: Option<Box<SnapshotBegun>>,
    /// The site found nothing else to do.
    idle: bool,
    /// When the step before ended, nanoseconds of the host's clock.
    stepped_ns: u64,
}

impl SiteSnapshot {
    /// How long until a step has anything to do, in nanoseconds; `None` if nobody knows.
    pub(super) fn wait_ns(&mut self) -> Option<u64> {
        self.lane.as_mut().and_then(|lane| lane.wait_ns())
    }

    /// Whether a snapshot runs or begins here.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.lane.is_some()
    }

    /// The site is about to wait for work, or has some.
    #[inline]
    pub(super) fn note_wait(&mut self, idle: bool) {
        self.idle = idle;
    }
}

impl Shard {
    /// The way to the thread that writes.
    pub(super) fn snapshot_lane(&mut self, mut lane: Box<SiteLane>) {
        if let Some(begun) = self.snapshot.begun.take() {
            lane.begin(begun);
        }
        self.snapshot.stepped_ns = clock::monotonic_ns();
        self.snapshot.lane = Some(lane);
    }

    /// The snapshot has begun at this partition.
    pub(super) fn snapshot_begun(&mut self, begun: Box<SnapshotBegun>) {
        match &mut self.snapshot.lane {
            Some(lane) => lane.begin(begun),
            None => self.snapshot.begun = Some(begun),
        }
    }

    /// Encodes for a while, if a snapshot runs.
    #[inline]
    pub(super) fn step_snapshot(&mut self) {
        if self.snapshot.lane.is_some() {
            counting::apart(|| self.take_snapshot_step());
        }
    }

    #[cold]
    fn take_snapshot_step(&mut self) {
        let Some(lane) = &mut self.snapshot.lane else { return };
        let worked_ns = clock::monotonic_ns().saturating_sub(self.snapshot.stepped_ns);
        let worked_ns = (!self.snapshot.idle).then_some(worked_ns);
        if lane.step(&mut self.site, worked_ns) {
            self.snapshot.lane = None;
        }
        self.snapshot.stepped_ns = clock::monotonic_ns();
    }
}
