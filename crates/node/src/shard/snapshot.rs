//! A site's part in a snapshot of its host: a little encoding between rounds of the loop, of each
//! replica that it owns.

use super::Shard;
use super::replica::{Replicas, Slot};
use crate::clock;
use crate::snapshot::lane::SiteLane;
use lockstep_base::counting;
use lockstep_site::SnapshotBegun;
use lockstep_types::PartitionId;

impl Shard {
    /// The way to the thread that writes a snapshot of a replica here.
    pub(super) fn take_lane(&mut self, partition: PartitionId, mut lane: Box<SiteLane>) {
        if !self.replicas.has_copy(partition) {
            return;
        }
        let slot = self.replicas.slot_of_copy(partition);
        if self.replicas[slot].learning.as_ref().is_some_and(|it| it.is_loading()) {
            // It has begun again since: the thread that writes gives up.
            return;
        }
        if let (Some((nonce, start)), Some(following)) =
            (lane.take_of_copy(), &mut self.replicas[slot].following)
            && !following.follower.expect_snapshot(nonce, start)
        {
            // Its end of the way goes with it, and the thread that writes gives up.
            return;
        }
        self.snapshots.take_lane(slot, lane);
    }

    /// A copy that follows has applied entries: a snapshot of it may begin there.
    pub(super) fn begin_followed_snapshot(&mut self, slot: Slot) {
        let following = self.replicas[slot].following.as_mut();
        let Some(following) = following else { return };
        let begun = match following.follower.take_snapshot() {
            Some(Some(begun)) => begun,
            Some(None) => return self.snapshots.drop_lane(slot),
            None => return,
        };
        if !self.snapshots.note_begun(slot, begun) {
            following.follower.saved_site().end_snapshot();
        } else if let Some(learning) = &mut self.replicas[slot].learning {
            learning.note_saved();
        }
    }
}

/// The snapshots that run at a site's replicas, or begin.
pub(super) struct SnapshotLanes {
    /// By slot.
    lanes: Box<[ReplicaLane]>,
    /// How many run.
    running: usize,
    /// The replica whose turn it is when the site is idle.
    turn: usize,
    /// The site found nothing else to do.
    idle: bool,
    /// When the step before ended, nanoseconds of the host's clock.
    stepped_ns: u64,
}

/// The snapshot that runs at a replica, or begins.
#[derive(Default)]
struct ReplicaLane {
    lane: Option<Box<SiteLane>>,
    /// It has begun, and its lane has not come yet.
    begun: Option<Box<SnapshotBegun>>,
    /// It was given up before it began: when it does, it ends.
    is_given_up: bool,
}

impl SnapshotLanes {
    /// For a site with this many replicas.
    pub(super) fn new(replica_count: usize) -> SnapshotLanes {
        let lanes = (0..replica_count).map(|_| ReplicaLane::default()).collect();
        SnapshotLanes { lanes, running: 0, turn: 0, idle: false, stepped_ns: 0 }
    }

    /// How long until a step has anything to do, in nanoseconds; `None` if nobody knows.
    pub(super) fn wait_ns(&mut self) -> Option<u64> {
        let lanes = self.lanes.iter_mut().filter_map(|replica| replica.lane.as_mut());
        lanes.filter_map(|lane| lane.wait_ns()).min()
    }

    /// Whether a snapshot runs here.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// The site is about to wait for work, or has some.
    #[inline]
    pub(super) fn note_wait(&mut self, idle: bool) {
        self.idle = idle;
    }

    /// A replica's way to the thread that writes.
    pub(super) fn take_lane(&mut self, slot: Slot, mut lane: Box<SiteLane>) {
        let replica = &mut self.lanes[slot.index()];
        if let Some(begun) = replica.begun.take() {
            lane.begin(begun);
        }
        self.stepped_ns = clock::monotonic_ns();
        replica.is_given_up = false;
        self.running += usize::from(replica.lane.is_none());
        replica.lane = Some(lane);
    }

    /// A replica has no part in the snapshot: the thread that writes gives up.
    fn drop_lane(&mut self, slot: Slot) {
        let lane = self.lanes[slot.index()].lane.take();
        self.running -= usize::from(lane.is_some());
    }

    /// The snapshot has begun at a replica; false where nobody wants it any more.
    pub(super) fn note_begun(&mut self, slot: Slot, begun: Box<SnapshotBegun>) -> bool {
        let replica = &mut self.lanes[slot.index()];
        if replica.lane.is_none() && std::mem::take(&mut replica.is_given_up) {
            return false;
        }
        match &mut replica.lane {
            Some(lane) => lane.begin(begun),
            None => replica.begun = Some(begun),
        }
        true
    }

    /// The replica is not here any more: what runs there ends.
    pub(super) fn give_up(&mut self, slot: Slot) {
        let replica = std::mem::take(&mut self.lanes[slot.index()]);
        self.running -= usize::from(replica.lane.is_some());
    }

    /// Encodes for a while, if a snapshot runs.
    #[inline]
    pub(super) fn step(&mut self, replicas: &mut Replicas) {
        if self.is_running() {
            counting::apart(|| self.step_lanes(replicas));
        }
    }

    /// Beside other work, all lanes share what a snapshot may take of the site; a site without
    /// other work encodes one replica at a time, so that it soon sees what comes.
    #[cold]
    fn step_lanes(&mut self, replicas: &mut Replicas) {
        let worked_ns = clock::monotonic_ns().saturating_sub(self.stepped_ns);
        let worked_ns = (!self.idle).then_some(worked_ns / self.running as u64);
        let next = if self.idle { self.next_turn() } else { None };
        for (slot, replica) in replicas.slots().zip(&mut self.lanes) {
            let Some(lane) = &mut replica.lane else { continue };
            let Some(site) = replicas[slot].saved_site() else { continue };
            if next.is_none_or(|next| next == slot.index()) && lane.step(site, worked_ns) {
                replica.is_given_up = !lane.has_begun();
                replica.lane = None;
                self.running -= 1;
            }
        }
        self.stepped_ns = clock::monotonic_ns();
    }

    /// The next replica that can encode now, if one can.
    fn next_turn(&mut self) -> Option<usize> {
        let count = self.lanes.len();
        for step in 1..=count {
            let at = (self.turn + step) % count;
            let lane = self.lanes[at].lane.as_mut();
            if lane.is_some_and(|lane| lane.wait_ns() == Some(0)) {
                self.turn = at;
                return Some(at);
            }
        }
        None
    }
}
