//! How a thread waits: it sleeps until a socket or another thread has something, looks for that a
//! while before if it was told to, and tells its log that it has nothing to do.

use super::coordinator::CoordinatorRole;
use super::{DEADLINE_CHECK_US, Shard, WAKER};
use crate::clock;
use lockstep_base::elapsed::Elapsed;
use mio::Events;
use std::io;
use std::time::Duration;

/// A thread with work from other threads looks at its sockets this often.
const BUSY_POLL_US: u64 = 50;
/// A thread whose answers wait for a lease looks for it this often.
const LEASE_CHECK_NS: u64 = 1_000_000;
/// Looks at the mailboxes between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 32;

impl Shard {
    /// Sleeps until a socket or another thread has something, unless there is work left.
    pub(super) fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let has_messages =
            self.has_message() || self.load_wants_to_call() || self.spin_for_messages();
        let may_read = self.gates.may_take_calls();
        let busy = has_messages || (self.connections.has_to_read() && may_read);
        let polled_lately = Elapsed::between_us(self.polled_us, self.now_us).us() < BUSY_POLL_US;
        if has_messages && polled_lately && !self.connections.has_to_read() {
            events.clear();
            self.snapshots.note_wait(false);
            return Ok(());
        }
        self.polled_us = self.now_us;
        let mut timeout = Some(Duration::ZERO);
        let mut asleep_ns = None;
        let snapshot_ns = match busy {
            true => None,
            false => self.snapshots.wait_ns().into_iter().chain(self.loads_wait_ns()).min(),
        };
        if !busy {
            self.note_idle();
        }
        if !busy && self.outbox.has_unsent() {
            timeout = Some(Duration::from_micros(50));
        } else if snapshot_ns == Some(0) {
            // There is something to encode: sockets are only looked at.
        } else if !busy && !self.poll_busily(events)? {
            self.bell.prepare_sleep();
            if !self.has_message() {
                let longest_ns = match self.awaits_lease() {
                    true => LEASE_CHECK_NS,
                    false => DEADLINE_CHECK_US * 1_000,
                };
                let sleep_ns = snapshot_ns.map_or(longest_ns, |ns| ns.min(longest_ns));
                timeout = Some(Duration::from_nanos(sleep_ns));
                asleep_ns = Some(clock::monotonic_ns());
                self.facts.site_runs.wait(self.thread);
            }
        } else if !busy {
            self.note_busy();
            self.snapshots.note_wait(false);
            return Ok(());
        }
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            other => other?,
        }
        self.bell.awake();
        self.note_busy();
        if self.snapshots.is_running() {
            // Who writes a snapshot wakes the site too, and that is no other work.
            let has_work = events.iter().any(|event| event.token() != WAKER) || self.has_message();
            self.snapshots.note_wait(!busy && !has_work);
        }
        if let Some(asleep_ns) = asleep_ns {
            self.statistics.count_sleep(clock::ns_since(asleep_ns));
        }
        Ok(())
    }

    /// Whether another thread sent something.
    #[inline]
    pub(super) fn has_message(&mut self) -> bool {
        if self.gates.is_log_behind {
            return self.has_log_news();
        }
        !self.inbox.is_empty()
            || !self.own_messages.is_empty()
            || self.coordinator.as_ref().is_some_and(CoordinatorRole::have_threads_said)
            || self.outside.have_said()
            || self.replicas.copies_to_apply.has_any()
            || self.has_log_news()
    }

    /// While a transaction over several partitions is undecided here, the next message is a few
    /// microseconds away, and to sleep and be woken takes more. True when there is one.
    fn spin_for_messages(&mut self) -> bool {
        let span_ns = self.facts.multi_spin_ns;
        let coordinates = || self.coordinator.as_ref().is_some_and(|role| !role.is_idle());
        let takes_part =
            self.replicas.iter().any(|replica| !replica.site.is_idle()) || coordinates();
        let has_else = self.connections.has_to_read() || self.outbox.is_overflowing();
        if span_ns == 0 || !takes_part || has_else {
            return false;
        }
        let start = clock::monotonic_ns();
        while clock::ns_since(start) < span_ns {
            for _ in 0..LOOKS_PER_CLOCK {
                if self.has_message() {
                    return true;
                }
                std::hint::spin_loop();
            }
            // What other hosts answer wakes only threads that sleep.
            if let Some(links) = &self.links {
                links.hear_all();
            }
        }
        false
    }

    /// With the option `busy_poll_us`: looks for work for that long. True when there is some;
    /// `events` then holds it.
    fn poll_busily(&mut self, events: &mut Events) -> io::Result<bool> {
        let span_ns = self.facts.options.busy_poll_us.ns();
        if span_ns == 0 {
            return Ok(false);
        }
        let start = clock::monotonic_ns();
        while clock::ns_since(start) < span_ns {
            self.poll.poll(events, Some(Duration::ZERO))?;
            if !events.is_empty() || self.has_message() {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        Ok(false)
    }
}
