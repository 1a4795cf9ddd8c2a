//! The orderly stop: no more calls are taken, and those in progress are finished and answered. What
//! comes in meanwhile is refused, so that clients know that it was not executed.
//!
//! A site is quiet when its connections and the tasks whose calls it made wait for nothing, its
//! partitions have nothing undecided, and the coordinator, if it is here, has no transaction. A
//! call in progress anywhere keeps the thread that it came from from being quiet, so when all sites
//! are, nothing is left in between.

use super::Shard;
use super::coordinator::CoordinatorRole;
use crate::connection::ConnectionKey;
use lockstep_types::Status;
use lockstep_wire_volt::{Invocation, response};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::Thread;

/// How far an orderly stop has come, for all threads.
#[derive(Default)]
pub struct Drain {
    /// Sites that are not quiet.
    busy: AtomicUsize,
    /// Who waits for them.
    waiting: OnceLock<Thread>,
}

impl Drain {
    /// The calling thread waits for this many sites.
    pub fn begin(&self, sites: usize) {
        self.busy.store(sites, Ordering::Release);
        // Only one thread ever stops a host.
        let _ = self.waiting.set(std::thread::current());
    }

    /// Whether the host stops.
    pub fn has_begun(&self) -> bool {
        self.waiting.get().is_some()
    }

    /// Whether a site still has something to do.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    fn tell(&self, is_quiet: bool) {
        if !is_quiet {
            self.busy.fetch_add(1, Ordering::AcqRel);
        } else if self.busy.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(thread) = self.waiting.get()
        {
            thread.unpark();
        }
    }
}

/// How far a host is that leaves the other hosts of its cluster on purpose: these hear of it, and
/// do not have to find out that it is gone.
#[derive(Default)]
pub struct Departure(AtomicU8);

impl Departure {
    const PLANNED: u8 = 1;
    const BEGUN: u8 = 2;
    const OVER: u8 = 3;

    /// The host is about to leave: it gives up what it does for all hosts.
    pub fn plan(&self) {
        self.0.fetch_max(Departure::PLANNED, Ordering::AcqRel);
    }

    /// Whether the host is about to leave, or has left.
    pub fn is_planned(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Departure::PLANNED
    }

    /// Nothing is in progress here: the host leaves, if that is planned. Whether it does.
    pub fn begin(&self) -> bool {
        let begins = self.is_planned();
        if begins {
            self.0.fetch_max(Departure::BEGUN, Ordering::AcqRel);
        }
        begins
    }

    /// Whether the other hosts are to go on without this one.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire) >= Departure::BEGUN
    }

    /// The others go on without this host.
    pub fn end(&self) {
        self.0.store(Departure::OVER, Ordering::Release);
    }

    /// Whether the others go on without this host.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == Departure::OVER
    }
}

/// How far a thread is with stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes calls.
    Serving,
    /// It takes no more calls, and finishes those that are begun.
    Draining {
        /// Nothing is left to do here, which all threads know.
        is_quiet: bool,
    },
    /// It stops at the end of the round.
    Stopping,
}

impl Phase {
    /// Whether calls are taken.
    #[inline]
    pub(super) fn takes_calls(self) -> bool {
        self == Phase::Serving
    }

    /// No more calls are taken from now on.
    pub(super) fn drain(&mut self) {
        if *self == Phase::Serving {
            *self = Phase::Draining { is_quiet: false };
        }
    }
}

/// What calls get that come to a host that stops.
const STOPS: &str = "This host stops, and takes no more calls. The call was not executed: send it \
    to another host, or again when this one has started.";

impl Shard {
    /// Refuses a call that has come while the host stops.
    #[cold]
    pub(super) fn refuse_at_the_end(
        &mut self,
        key: ConnectionKey,
        body: &[u8],
        output: &mut Vec<u8>,
    ) {
        let handle = match Invocation::decode(body) {
            Ok(invocation) => invocation.client_handle,
            Err(rejection) => {
                let id = self.connections.get(key).map_or(0, |connection| connection.id);
                rejection.answer_handle(id)
            }
        };
        response::write_simple(output, handle, Status::ServerUnavailable, Some(STOPS));
    }

    /// Refuses what has arrived by now: the connections are about to close.
    pub(super) fn refuse_the_last(&mut self) {
        self.phase = Phase::Stopping;
        let keys: Vec<ConnectionKey> = self.connections.iter().map(|it| it.key).collect();
        keys.into_iter().for_each(|key| self.connections.list_for_read(key));
        self.read_ready();
    }

    /// While the host stops: says when nothing is left to do here, and when that is no longer so.
    pub(super) fn tell_quiet(&mut self) {
        let Phase::Draining { is_quiet: was_quiet } = self.phase else { return };
        let is_quiet = self.has_nothing_to_do();
        if is_quiet != was_quiet {
            self.phase = Phase::Draining { is_quiet };
            self.facts.drain.tell(is_quiet);
        }
    }

    fn has_nothing_to_do(&mut self) -> bool {
        let mut connections = self.connections.iter();
        connections.all(|c| c.unanswered == 0 && c.unread_bytes() == 0)
            && self.replicas.iter().all(|own| own.site.is_idle() && own.gate.is_idle())
            && self.coordinator.as_ref().is_none_or(CoordinatorRole::is_idle)
            && self.task_calls == 0
            && self.own_messages.is_empty()
            && self.gates.all_replicas.is_idle()
            && self.inbox.is_empty()
    }
}
