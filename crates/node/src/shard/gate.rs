//! Nothing leaves a partition before what it stands behind is durable.
//!
//! With a synchronous command log, what a call here answers may rest on any entry that the
//! partition has logged by then, its own included. So each answer takes the number of the last
//! entry along, and waits until the log is durable up to there: in its connection's output if
//! that is here, else in a queue before it is sent to another thread. The same holds for what the
//! partition tells the coordinator: a transaction that is decided is durable at all its
//! participants. Where nothing undurable is before it, an answer leaves at once.
//!
//! Answers of other threads have waited where they come from.

use super::Shard;
use crate::connection::ConnectionKey;
use crate::log::SiteLog;
use crate::message::{Envelope, ForwardedAnswer};
use lockstep_site::DurabilityGate;
use lockstep_types::ThreadId;
use std::collections::VecDeque;

/// The number of an entry that is durable wherever the log is.
const DURABLE_EVERYWHERE: u64 = 0;

/// What waits for the log of this thread's partition.
#[derive(Default)]
pub(super) struct Gate {
    /// Messages to threads.
    messages: DurabilityGate<(ThreadId, Envelope)>,
    /// Connections with output that waits, and the entry that it waits for.
    connections: VecDeque<(u64, ConnectionKey)>,
    /// Answers for the load inside the thread, and the entry that each stands behind.
    load_answers: VecDeque<(u64, Vec<u8>)>,
    /// The log is too far behind for more calls.
    is_shut: bool,
}

impl Gate {
    /// Whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_idle() && self.connections.is_empty() && self.load_answers.is_empty()
    }

    /// Whether the log is too far behind for more calls.
    pub(super) fn is_shut(&self) -> bool {
        self.is_shut
    }
}

impl Shard {
    /// The entry that what is answered here now stands behind.
    #[inline]
    pub(super) fn stands_behind(&self) -> u64 {
        match &self.log {
            Some(log) if log.gates() => self.site.needed_log_sequence(),
            _ => DURABLE_EVERYWHERE,
        }
    }

    /// The entry that what the partition tells the coordinator now stands behind. With an
    /// asynchronous log it waits until that is written, which is not to say durable: whatever end
    /// of the log a power cut takes, no decision is left in it without what was decided on.
    #[inline]
    pub(super) fn told_behind(&self) -> u64 {
        self.log.as_ref().map_or(DURABLE_EVERYWHERE, |_| self.site.needed_log_sequence())
    }

    /// How far the log was durable when it was last looked at; written, if it is asynchronous.
    #[inline]
    fn durable(&self) -> u64 {
        self.log.as_ref().map_or(u64::MAX, SiteLog::durable)
    }

    /// Tells the log that there is nothing to do here until somebody wakes this site: what it
    /// gathers need not wait for more.
    #[inline]
    pub(super) fn note_idle(&self) {
        if let Some(log) = &self.log {
            log.note_idle();
        }
    }

    /// Tells the log that there is something to do again.
    #[inline]
    pub(super) fn note_busy(&self) {
        if let Some(log) = &self.log {
            log.note_busy();
        }
    }

    /// Lets go what the log has caught up with.
    #[inline]
    pub(super) fn release_durable(&mut self) {
        let Some(log) = &mut self.log else { return };
        let durable = log.refresh();
        self.gate.is_shut = log.is_behind(self.site.waiting_log_bytes());
        while let Some((thread, message)) = self.gate.messages.release(durable) {
            self.send(thread, message);
        }
        while self.gate.connections.front().is_some_and(|(entry, _)| *entry <= durable)
            && let Some((_, key)) = self.gate.connections.pop_front()
        {
            self.list_for_write(key);
        }
        while self.gate.load_answers.front().is_some_and(|(entry, _)| *entry <= durable)
            && let Some((_, frame)) = self.gate.load_answers.pop_front()
        {
            self.tell_load(&frame);
            self.recycle(frame);
        }
    }

    /// Keeps an answer to the load inside the thread until the log has what it stands behind.
    /// False when it may go now.
    #[inline]
    pub(super) fn keeps_load_answer(&mut self, answer: &[u8]) -> bool {
        let entry = self.stands_behind();
        if entry <= self.durable() && self.gate.load_answers.is_empty() {
            return false;
        }
        let mut frame = self.spare_buffer();
        frame.extend_from_slice(answer);
        self.gate.load_answers.push_back((entry, frame));
        true
    }

    /// Whether the log has caught up with something that waits, or calls may go on.
    #[inline]
    pub(super) fn has_log_news(&self) -> bool {
        let Some(log) = &self.log else { return false };
        if self.gate.is_shut {
            return !log.is_behind(self.site.waiting_log_bytes());
        }
        !self.gate.is_idle() && log.has_news()
    }

    /// Sends to a thread, this one included, once the entry is durable.
    pub(super) fn send_behind(&mut self, entry: u64, thread: ThreadId, message: Envelope) {
        let durable = self.durable();
        let passed = self.gate.messages.pass(entry, durable, (thread, message));
        if let Some((thread, message)) = passed {
            self.send(thread, message);
        }
    }

    /// Answers a call that ran here, once the entry is durable.
    pub(super) fn answer_behind(&mut self, entry: u64, answer: ForwardedAnswer) {
        let thread = answer.origin.thread;
        let is_here = thread == self.thread;
        match self.connection(answer.origin.connection) {
            Some(connection) if is_here => {
                connection.stand_behind(entry);
                self.forwarded_answer(answer);
            }
            // Another thread, or somebody here who has no connection: a load, a procedure.
            _ => self.send_behind(entry, thread, Envelope::Answer(answer)),
        }
    }

    /// How many bytes of a connection's output may be written now.
    #[inline]
    pub(super) fn writable_bytes(&mut self, key: ConnectionKey) -> usize {
        if self.log.as_ref().is_none_or(|log| !log.gates()) {
            return usize::MAX;
        }
        let durable = self.durable();
        let Some(connection) = self.connection(key) else { return 0 };
        let (bytes, waits_for) = connection.durable_bytes(durable);
        if let Some(entry) = waits_for {
            self.gate.connections.push_back((entry, key));
        }
        bytes
    }

    /// What this round logged goes to the log's thread, or nowhere if there is none.
    #[inline]
    pub(super) fn hand_over_log(&mut self) {
        match &mut self.log {
            None => self.site.drop_log(),
            Some(_) if !self.site.has_log_to_hand_over() => {}
            Some(log) => log.hand_over(|spare| self.site.take_log(spare)),
        }
    }

    /// The thread ends: everything that was logged goes to the log's thread.
    pub(super) fn hand_over_all(&mut self) {
        while self.site.waiting_log_bytes() > 0 {
            match &mut self.log {
                None => self.site.drop_log(),
                Some(log) => log.hand_over(|spare| self.site.take_log(spare)),
            }
            if self.log.as_ref().is_none_or(SiteLog::has_failed) {
                return;
            }
            std::thread::yield_now();
        }
    }
}
