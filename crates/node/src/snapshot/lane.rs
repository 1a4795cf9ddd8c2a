//! The way from a site to the thread that writes its snapshot, and back for empty buffers.

use super::pace::Pace;
use crate::clock;
use crate::mailbox::Bell;
use lockstep_base::ring::{Consumer, Producer, ring};
use lockstep_site::{Site, SnapshotBegun, SnapshotStart};
use lockstep_storage::SnapshotProgress;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Buffers of a site.
const BUFFERS: usize = 4;
/// A buffer this full goes to the thread.
const BUFFER_BYTES: usize = 1 << 20;
/// Under load this full: the disk is given little at a time.
const PACED_BUFFER_BYTES: usize = 256 * 1024;
/// Changes may have forced out so much before the pace is given up: it takes memory.
const FORCED_OUT_BYTES: usize = 64 << 20;
/// Encoded between two looks at the clock.
const STEP_BYTES: usize = 32 * 1024;
/// A record is about this long: what a change that forces one out waits for.
pub(crate) const RECORD_BYTES: usize = 8 * 1024;
/// How long a site without other work encodes before it looks for some.
const IDLE_STEP_NS: u64 = 200_000;

/// What a site says of its snapshot.
pub(crate) enum FromSite {
    /// It has begun.
    Begun(Box<SnapshotBegun>),
    /// Whole records.
    Records(Vec<u8>),
    /// That was all.
    Done,
}

/// The site's end.
pub struct SiteLane {
    to_thread: Producer<FromSite>,
    empty: Consumer<Vec<u8>>,
    thread: Thread,
    given_up: Arc<AtomicBool>,
    buffer: Option<Vec<u8>>,
    begun: bool,
    share_percent: u64,
    pace: Pace,
    of_copy: Option<OfCopy>,
}

/// What the snapshot of a copy that follows begins with, where its log has that: the name and what
/// is saved.
pub(crate) type OfCopy = (Arc<[u8]>, SnapshotStart);

/// How much of a site and of the disk a snapshot takes while there is other work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneLimits {
    /// Of the time that other work takes, in percent.
    pub(crate) share_percent: u64,
    /// Bytes a second; 0 for as many as there are.
    pub(crate) bytes_per_s: u64,
}

impl LaneLimits {
    /// As much as there is, for a host that does not serve.
    pub(crate) const NONE: LaneLimits = LaneLimits { share_percent: 100, bytes_per_s: 0 };
}

/// The thread's end.
pub(crate) struct ThreadLane {
    pub(crate) from_site: Consumer<FromSite>,
    empty: Producer<Vec<u8>>,
    bell: Arc<Bell>,
}

impl ThreadLane {
    /// Gives a buffer back.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        // There is room for all buffers; one that grew beyond its use is let go with the ring.
        let _ = self.empty.push(buffer);
        self.bell.ring();
    }
}

/// A lane between a site with this bell and the thread that the site's end is given to later.
pub(crate) fn lane(bell: Arc<Bell>) -> (UnboundLane, ThreadLane) {
    let (to_thread, from_site) = ring(BUFFERS + 2);
    let (mut empty, taken) = ring(BUFFERS);
    for _ in 0..BUFFERS {
        let _ = empty.push(Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4));
    }
    (UnboundLane { to_thread, empty: taken }, ThreadLane { from_site, empty, bell })
}

/// A site's end before the thread runs.
pub(crate) struct UnboundLane {
    to_thread: Producer<FromSite>,
    empty: Consumer<Vec<u8>>,
}

impl UnboundLane {
    /// The site's end: `thread` is woken with each message, and says in `given_up` that it writes
    /// no more. The limits hold while the site has other work.
    pub(crate) fn bind(
        self,
        thread: Thread,
        given_up: Arc<AtomicBool>,
        limits: LaneLimits,
    ) -> SiteLane {
        let UnboundLane { to_thread, empty } = self;
        let (buffer, begun) = (None, false);
        let (pace, share_percent) = (Pace::new(limits.bytes_per_s), limits.share_percent);
        let of_copy = None;
        SiteLane { to_thread, empty, thread, given_up, buffer, begun, share_percent, pace, of_copy }
    }
}

impl SiteLane {
    /// The partition may follow: what begins there then.
    pub(crate) fn set_of_copy(&mut self, of_copy: OfCopy) {
        self.of_copy = Some(of_copy);
    }

    /// See [`SiteLane::set_of_copy`].
    pub(crate) fn take_of_copy(&mut self) -> Option<OfCopy> {
        self.of_copy.take()
    }

    /// The snapshot has begun at the site.
    pub(crate) fn begin(&mut self, begun: Box<SnapshotBegun>) {
        self.begun = true;
        self.say(FromSite::Begun(begun));
    }

    /// Whether the snapshot has begun at the site.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// How long until a step has anything to do, in nanoseconds, if nobody wakes the site before;
    /// `None` if that is for others to say.
    pub(crate) fn wait_ns(&mut self) -> Option<u64> {
        if self.given_up.load(Ordering::Relaxed) {
            return Some(0);
        }
        let can_step = self.begun && (self.buffer.is_some() || !self.empty.is_empty());
        can_step.then(|| self.pace.wait_ns(clock::monotonic_ns(), STEP_BYTES as u64))
    }

    fn say(&mut self, message: FromSite) {
        // The ring has space for all buffers and both other messages.
        let sent = self.to_thread.push(message).is_ok();
        assert!(sent, "there are no more messages than the ring has slots");
        self.thread.unpark();
    }

    /// Encodes for a while: `worked_ns` is what the site's other work took since the step before,
    /// `None` if it had none. True when the snapshot is over for this site.
    pub(crate) fn step<H, A, C: Clone>(
        &mut self,
        site: &mut Site<H, A, C>,
        worked_ns: Option<u64>,
    ) -> bool {
        if self.given_up.load(Ordering::Acquire) {
            site.end_snapshot();
            return true;
        }
        if !self.begun {
            return false;
        }
        let share = |worked_ns: u64| worked_ns.saturating_mul(self.share_percent) / 100;
        let budget_ns = worked_ns.map_or(IDLE_STEP_NS, share);
        let began_ns = clock::monotonic_ns();
        if worked_ns.is_some() {
            self.pace.note_work(began_ns);
        }
        let full_bytes = match self.pace.is_limited(began_ns) {
            true => PACED_BUFFER_BYTES,
            false => BUFFER_BYTES,
        };
        loop {
            if self.pace.wait_ns(began_ns, STEP_BYTES as u64) > 0
                && site.snapshot_waiting_bytes() < FORCED_OUT_BYTES
            {
                return false;
            }
            let Some(buffer) = self.buffer.as_mut() else {
                self.buffer = self.empty.pop();
                if self.buffer.is_none() {
                    return false;
                }
                continue;
            };
            let before = buffer.len();
            let done = site.snapshot_step(buffer, STEP_BYTES) == SnapshotProgress::Done;
            self.pace.count(buffer.len() - before);
            if (done && !buffer.is_empty()) || buffer.len() >= full_bytes {
                let full = self.buffer.take().unwrap_or_default();
                self.say(FromSite::Records(full));
            }
            if done {
                self.say(FromSite::Done);
                return true;
            }
            if clock::ns_since(began_ns) >= budget_ns {
                return false;
            }
        }
    }
}
