//! Nothing is released from a partition before the log entries that it depends on are safe.
//!
//! With a synchronous command log, what a call here answers may depend on any entry that the
//! partition has logged by then, its own included. So each answer takes the position of the last
//! entry along, and waits until the log is durable up to it: in its connection's output if that is
//! here, else in a queue before it is sent to another thread. The same holds for what the partition
//! tells the coordinator: a transaction that is decided is durable at all its participants. Where
//! everything before it is durable, an answer is released at once.
//!
//! Answers of other threads have waited where they come from.

use super::Shard;
use super::leases::LeaseTable;
use super::replica::{Replica, Replicas, Slot};
use crate::clock;
use crate::connection::{ConnectionKey, OutputGates};
use crate::log::SiteLog;
use crate::mailbox::Outbox;
use crate::message::{Envelope, ForwardedAnswer};
use lockstep_host::gate::{self, SafePosition};
use lockstep_host::placement::Placement;
use lockstep_types::{HostId, ThreadId};
use std::collections::VecDeque;

/// The position of an entry that is safe wherever the log is.
const SAFE_EVERYWHERE: u64 = 0;

/// What waits for the log of one replica.
pub(super) struct Gate {
    /// Messages to threads, and up to which entry the log is safe: durable, or written if it is
    /// asynchronous.
    messages: gate::Gate<(ThreadId, Envelope)>,
    /// Connections with output that waits, and the entry that it waits for.
    connections: VecDeque<(u64, ConnectionKey)>,
    /// Answers for the load inside the thread, and the entry that each depends on.
    load_answers: VecDeque<(u64, Vec<u8>)>,
    /// Another host may lead the partition by now: nothing is released.
    has_no_lease: bool,
    /// The lease has come back: what waited for it is to be released.
    has_lease_again: bool,
}

impl Gate {
    /// Of a replica of this host with its end of the command log, if there is one, and the hosts
    /// of its copies, if partitions have any.
    pub(super) fn new(host: HostId, log: Option<&SiteLog>, followers: Option<Vec<HostId>>) -> Gate {
        let safe = match (log, followers) {
            (Some(log), None) => SafePosition::of_copy(host, log.durable()),
            (None, None) => SafePosition::everything(),
            (log, Some(followers)) => {
                let own = log.map_or(0, SiteLog::durable);
                let copies = followers.into_iter().map(|copy| (copy, 0)).chain([(host, own)]);
                SafePosition::of_copies(&copies.collect::<Vec<_>>())
            }
        };
        Gate::of(safe)
    }

    fn of(safe: SafePosition) -> Gate {
        Gate {
            messages: gate::Gate::new(safe),
            connections: VecDeque::new(),
            load_answers: VecDeque::new(),
            has_no_lease: false,
            has_lease_again: false,
        }
    }

    /// A copy has the entries up to a position.
    pub(super) fn advance(&mut self, host: HostId, position: u64) {
        self.messages.advance(host, position);
    }

    /// The last entry that all copies have.
    pub(super) fn safe(&self) -> u64 {
        self.messages.safe()
    }

    /// The copies that must have the entries.
    pub(super) fn copies(&mut self) -> &mut SafePosition {
        self.messages.copies()
    }

    /// The copies that count are those of a new epoch.
    pub(super) fn reopen(&mut self, own: (HostId, u64), followers: &[(HostId, u64)]) {
        self.messages.copies().reopen(own, followers);
    }

    /// Of a copy that leads from now on, with the others that count. With a command log each has
    /// what it says with its receipts; what was logged before is not durable everywhere.
    pub(super) fn of_copies(
        own: (HostId, u64),
        log: Option<&SiteLog>,
        followers: &[(HostId, u64)],
    ) -> Gate {
        let known = |position| if log.is_none() { position } else { 0 };
        let others = followers.iter().map(|(host, position)| (*host, known(*position)));
        let own_position = log.map_or(own.1, SiteLog::durable);
        let copies: Vec<(HostId, u64)> = others.chain([(own.0, own_position)]).collect();
        Gate::of(SafePosition::of_copies(&copies))
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.messages.is_idle() && self.connections.is_empty() && self.load_answers.is_empty()
    }
}

/// What the logs of a thread's replicas hold back.
pub(super) struct LogGates {
    /// Answers wait until what they depend on is durable.
    pub(super) holds_answers: bool,
    /// The log of a replica lags too far for more calls.
    pub(super) is_log_behind: bool,
    /// A copy lags too far for more calls of clients.
    pub(super) are_copies_behind: bool,
    /// What depends on all of them.
    pub(super) all_replicas: AllReplicas,
}

impl LogGates {
    /// Of a thread with these replicas.
    pub(super) fn new(replicas: &Replicas) -> LogGates {
        LogGates {
            holds_answers: replicas.gate_answers(),
            is_log_behind: false,
            are_copies_behind: false,
            all_replicas: AllReplicas::default(),
        }
    }
}

impl LogGates {
    /// Whether logs and copies do not lag too far for more calls of clients.
    #[inline]
    pub(super) fn may_take_calls(&self) -> bool {
        !self.is_log_behind && !self.are_copies_behind
    }
}

/// What depends on all replicas of a thread, and waits for their logs.
#[derive(Default)]
pub(super) struct AllReplicas {
    /// By slot, the entries that each message depends on.
    waiting: VecDeque<(Box<[u64]>, ThreadId, Envelope)>,
}

impl AllReplicas {
    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Replica {
    /// Whether answers wait until what they depend on is durable.
    pub(super) fn gates_answers(&self) -> bool {
        self.log.as_ref().is_some_and(SiteLog::gates) || self.leading.is_some()
    }

    /// The entry that an answer given now depends on.
    #[inline]
    pub(super) fn answer_position(&self) -> u64 {
        match self.gates_answers() {
            true => self.site.needed_log_sequence(),
            false => SAFE_EVERYWHERE,
        }
    }

    /// The entry that what the partition tells the coordinator now depends on. With an asynchronous
    /// log it waits until that is written, which is not to say durable: whatever end of the log a
    /// power cut takes, no decision is left in it without what was decided on.
    #[inline]
    pub(super) fn message_position(&self) -> u64 {
        match self.log.is_some() || self.leading.is_some() {
            true => self.site.needed_log_sequence(),
            false => SAFE_EVERYWHERE,
        }
    }

    /// The last entry that was safe when the log was polled last.
    #[inline]
    fn safe_position(&self) -> u64 {
        match self.gate.has_no_lease {
            false => self.gate.messages.safe(),
            true => 0,
        }
    }

    /// Sees whether this host may still answer for the partition, after what it answers was
    /// executed.
    #[inline]
    pub(super) fn test_lease(&mut self, leases: &LeaseTable) {
        if self.leading.is_some() {
            let until_us = leases.until_us(self.site.partition());
            let has_no_lease = until_us <= clock::boot_us();
            let had_none = std::mem::replace(&mut self.gate.has_no_lease, has_no_lease);
            self.gate.has_lease_again |= had_none && !has_no_lease;
        }
    }

    /// Whether the log lags too far for more calls.
    #[inline]
    fn is_log_behind(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_behind(self.site.waiting_log_bytes()))
    }

    /// Whether the log has caught up with something that waits: for this replica, or for all.
    #[inline]
    fn has_log_news(&self, all: &AllReplicas) -> bool {
        let waits = || !self.gate.is_idle() || !all.is_idle();
        self.gate.has_lease_again || self.log.as_ref().is_some_and(|log| waits() && log.has_news())
    }

    /// What this round logged is handed to the log's thread, or dropped if there is none.
    #[inline]
    fn hand_over_log(
        &mut self,
        round: (i64, bool),
        placement: &Placement,
        outbox: &mut Outbox<Envelope>,
    ) {
        match &mut self.log {
            _ if self.leading.is_some() => self.hand_over_to_copies(round, placement, outbox),
            None => self.site.drop_log(),
            Some(_) if !self.site.has_log_to_hand_over() => {}
            Some(log) => log.hand_over(|spare| self.site.take_log(spare)),
        }
    }

    /// The thread ends: everything that was logged is handed to the log's thread.
    fn hand_over_all(&mut self) {
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

/// A connection whose output may have to wait for logs of these replicas.
struct Waiting<'r> {
    replicas: &'r mut Replicas,
    key: ConnectionKey,
}

impl OutputGates for Waiting<'_> {
    #[inline]
    fn safe_position(&self, slot: Slot) -> u64 {
        self.replicas[slot].safe_position()
    }

    #[inline]
    fn is_withheld(&self, slot: Slot) -> bool {
        self.replicas[slot].gate.has_no_lease
    }

    fn wait(&mut self, slot: Slot, entry: u64) {
        self.replicas[slot].gate.connections.push_back((entry, self.key));
    }
}

impl Shard {
    /// Tells the log that there is nothing to do here until somebody wakes this site: what it
    /// gathers need not wait for more.
    #[inline]
    pub(super) fn note_idle(&self) {
        self.replicas
            .iter()
            .filter_map(|replica| replica.log.as_ref())
            .for_each(SiteLog::note_idle);
    }

    /// Tells the log that there is something to do again.
    #[inline]
    pub(super) fn note_busy(&self) {
        self.replicas
            .iter()
            .filter_map(|replica| replica.log.as_ref())
            .for_each(SiteLog::note_busy);
    }

    /// Releases what the logs have caught up with.
    #[inline]
    pub(super) fn release_safe(&mut self) {
        self.gates.is_log_behind = false;
        self.gates.are_copies_behind = false;
        for slot in self.replicas.slots() {
            self.release_safe_of(slot);
        }
        if !self.gates.all_replicas.is_idle() {
            self.release_safe_of_all();
        }
    }

    #[cold]
    fn release_safe_of_all(&mut self) {
        let is_safe = |(entries, ..): &mut (Box<[u64]>, ThreadId, Envelope)| {
            let mut replicas = self.replicas.iter().zip(entries);
            replicas.all(|(replica, entry)| *entry <= replica.safe_position())
        };
        let mut safe = VecDeque::new();
        while let Some((_, thread, message)) = self.gates.all_replicas.waiting.pop_front_if(is_safe)
        {
            safe.push_back((thread, message));
        }
        safe.into_iter().for_each(|(thread, message)| self.send(thread, message));
    }

    #[inline]
    pub(super) fn release_safe_of(&mut self, slot: Slot) {
        let replica = &mut self.replicas[slot];
        match &mut replica.log {
            Some(log) => {
                let host = self.placement.host();
                replica.gate.messages.advance(host, log.refresh());
                self.gates.is_log_behind |= replica.is_log_behind();
            }
            None if replica.leading.is_none() => return,
            None => {}
        }
        replica.test_lease(&self.facts.leases);
        replica.gate.has_lease_again = false;
        if replica.gate.has_no_lease {
            return;
        }
        let replica = &self.replicas[slot];
        let lags = replica.leading.as_ref().is_some_and(|leading| leading.stream.is_behind());
        self.gates.are_copies_behind |= lags;
        let safe = replica.safe_position();
        while let Some((thread, message)) = self.replicas[slot].gate.messages.release() {
            self.send(thread, message);
        }
        let connections = |shard: &mut Shard| {
            let waiting = &mut shard.replicas[slot].gate.connections;
            waiting.pop_front_if(|(entry, _)| *entry <= safe)
        };
        while let Some((_, key)) = connections(self) {
            self.connections.list_for_write(key);
        }
        let answers = |shard: &mut Shard| {
            let waiting = &mut shard.replicas[slot].gate.load_answers;
            waiting.pop_front_if(|(entry, _)| *entry <= safe)
        };
        while let Some((_, frame)) = answers(self) {
            self.tell_load(&frame);
            self.outbox.spare.give_back(frame);
        }
    }

    /// A partition is led here no more, and all copies have what its answers depend on: they are
    /// released.
    pub(super) fn release_all_of(&mut self, gate: Gate) {
        let Gate { messages, connections, load_answers, .. } = gate;
        messages.into_waiting().for_each(|(thread, message)| self.send(thread, message));
        connections.into_iter().for_each(|(_, key)| self.connections.list_for_write(key));
        for (_, frame) in load_answers {
            self.tell_load(&frame);
            self.outbox.spare.give_back(frame);
        }
    }

    /// Keeps an answer to the load inside the thread until the log has the entries that it depends
    /// on. False when it is safe now.
    #[inline]
    pub(super) fn keeps_load_answer(&mut self, slot: Slot, answer: &[u8]) -> bool {
        let replica = &self.replicas[slot];
        let entry = replica.answer_position();
        if entry <= replica.safe_position() && replica.gate.load_answers.is_empty() {
            return false;
        }
        let frame = self.outbox.spare.copy_of(answer);
        self.replicas[slot].gate.load_answers.push_back((entry, frame));
        true
    }

    /// Whether a log has caught up with something that waits, or calls may go on.
    #[inline]
    pub(super) fn has_log_news(&self) -> bool {
        match self.gates.is_log_behind {
            true => !self.replicas.iter().any(Replica::is_log_behind),
            false => self.replicas.iter().any(|own| own.has_log_news(&self.gates.all_replicas)),
        }
    }

    /// Sends to a thread, this one included, once the entry of a replica's log is safe.
    #[inline]
    pub(super) fn send_when_safe(
        &mut self,
        (slot, entry): (Slot, u64),
        thread: ThreadId,
        message: Envelope,
    ) {
        let replica = &mut self.replicas[slot];
        replica.test_lease(&self.facts.leases);
        let gate = &mut replica.gate;
        if gate.has_no_lease {
            return gate.messages.keep(entry, (thread, message));
        }
        if let Some((thread, message)) = gate.messages.pass(entry, (thread, message)) {
            self.send(thread, message);
        }
    }

    /// Sends to a thread what depends on all replicas here, once it is safe.
    pub(super) fn send_when_all_safe(&mut self, thread: ThreadId, message: Envelope) {
        let entries = self.replicas.iter().map(Replica::answer_position).collect();
        self.gates.all_replicas.waiting.push_back((entries, thread, message));
        self.release_safe_of_all();
    }

    /// Answers a call that ran here, once the entry of its replica's log is safe.
    pub(super) fn answer_when_safe(&mut self, (slot, entry): (Slot, u64), answer: ForwardedAnswer) {
        let thread = answer.origin.thread;
        let is_here = thread == self.thread;
        match self.connections.get(answer.origin.connection) {
            Some(connection) if is_here => {
                connection.depend_on(slot, entry);
                self.forwarded_answer(answer);
            }
            // Another thread, or somebody here who has no connection: a load, a procedure.
            _ => self.send_when_safe((slot, entry), thread, Envelope::Answer(answer)),
        }
    }

    /// How many bytes of a connection's output may be written now.
    #[inline]
    pub(super) fn writable_bytes(&mut self, key: ConnectionKey) -> usize {
        if !self.gates.holds_answers {
            return usize::MAX;
        }
        let Some(connection) = self.connections.get(key) else { return 0 };
        connection.safe_bytes(&mut Waiting { replicas: &mut self.replicas, key })
    }

    /// Before answers are written: whether this host may still give them.
    #[inline]
    pub(super) fn test_leases(&mut self) {
        let leases = &self.facts.leases;
        self.replicas.iter_mut().for_each(|own| own.test_lease(leases));
    }

    /// Whether something waits for a lease: nobody tells when that comes.
    pub(super) fn awaits_lease(&self) -> bool {
        self.replicas.iter().any(|own| own.gate.has_no_lease && !own.gate.is_idle())
    }

    /// What this round logged goes to the log's thread.
    #[inline]
    pub(super) fn hand_over_log(&mut self) {
        let has_copies = self.placement.is_replicated();
        let all = has_copies && self.inbox.is_empty() && self.own_messages.is_empty();
        let Shard { replicas, placement, outbox, now_us, .. } = self;
        let round = (*now_us, all);
        replicas.iter_mut().for_each(|own| own.hand_over_log(round, placement, outbox));
        if has_copies {
            self.release_what_is_alone();
        }
    }

    /// Where no other host has a copy, what was logged just now is safe, and no receipt that comes
    /// later says so.
    #[inline]
    fn release_what_is_alone(&mut self) {
        for slot in self.replicas.slots() {
            if self.replicas[slot].gate.messages.may_release() {
                self.release_safe_of(slot);
            }
        }
    }

    /// The thread ends: everything that was logged goes to the log's thread.
    pub(super) fn hand_over_all(&mut self) {
        self.replicas.iter_mut().for_each(Replica::hand_over_all);
    }
}
