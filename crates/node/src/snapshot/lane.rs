//! The way from a site to the thread that writes its snapshot, and back for empty buffers.

use crate::clock;
use crate::mailbox::Bell;
use lockstep_base::ring::{Consumer, Producer, ring};
use lockstep_site::{Site, SnapshotBegun};
use lockstep_storage::SnapshotProgress;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Buffers of a site.
const BUFFERS: usize = 4;
/// A buffer this full goes to the thread.
const BUFFER_BYTES: usize = 1 << 20;
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
    /// no more. While the site has other work it spends this share of its time on encoding.
    pub(crate) fn bind(
        self,
        thread: Thread,
        given_up: Arc<AtomicBool>,
        share_percent: u64,
    ) -> SiteLane {
        let UnboundLane { to_thread, empty } = self;
        let (buffer, begun) = (None, false);
        SiteLane { to_thread, empty, thread, given_up, buffer, begun, share_percent }
    }
}

impl SiteLane {
    /// The snapshot has begun at the site.
    pub(crate) fn begin(&mut self, begun: Box<SnapshotBegun>) {
        self.begun = true;
        self.say(FromSite::Begun(begun));
    }

    /// Whether a step has anything to do now.
    pub(crate) fn wants_step(&mut self) -> bool {
        self.given_up.load(Ordering::Relaxed)
            || self.begun && (self.buffer.is_some() || !self.empty.is_empty())
    }

    fn say(&mut self, message: FromSite) {
        // The ring has room for all buffers and both other messages.
        let sent = self.to_thread.push(message).is_ok();
        assert!(sent, "there are no more messages than the ring has room for");
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
        loop {
            let Some(buffer) = self.buffer.as_mut() else {
                self.buffer = self.empty.pop();
                if self.buffer.is_none() {
                    return false;
                }
                continue;
            };
            let done = site.snapshot_step(buffer, STEP_BYTES) == SnapshotProgress::Done;
            if (done && !buffer.is_empty()) || buffer.len() >= BUFFER_BYTES {
                let full = self.buffer.take().unwrap_or_default();
                self.say(FromSite::Records(full));
            }
            if done {
                self.say(FromSite::Done);
                return true;
            }
            if clock::monotonic_ns() - began_ns >= budget_ns {
                return false;
            }
        }
    }
}
