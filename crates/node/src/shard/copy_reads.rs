//! Calls that only read, answered by a copy of this host (option `follower_reads`), and what
//! copies and leaders say to each other for that: how stale the copies are
//! ([`lockstep_host::follower`]).

use super::calls::Taken;
use super::handed::At;
use super::{Shard, Slot};
use crate::clock;
use crate::execution::run_read_at_copy;
use crate::message::{Envelope, ForwardedAnswer, ForwardedCall, Origin, PARTITION_WEIGHT};
use lockstep_base::elapsed::Elapsed;
use lockstep_host::destination::{Destination, destination};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_types::{HostId, PartitionId, Status, ThreadId};
use lockstep_wire_volt::Invocation;

impl Shard {
    /// A call of a connection of this thread whose partition this thread does not lead. What can be
    /// answered at once is appended to `output`.
    pub(super) fn call_elsewhere(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        (invocation, body): (&Invocation<'_>, &[u8]),
        reads: bool,
        output: &mut Vec<u8>,
    ) -> Taken {
        let leader = self.thread_of(partition);
        let reader = reads.then(|| self.reader_of(partition)).flatten();
        if reader == Some(self.thread) {
            let began_ms = clock::coarse_ms();
            let slot = self.replicas.slot_of_copy(partition);
            if let Some(status) = self.read_copy(slot, origin, invocation, output) {
                self.statistics.count_answer(&origin, status, self.now_us);
                self.note_if_slow(began_ms, &origin);
                return Taken::Refused;
            }
        }
        let body = self.outbox.spare.copy_of(body);
        // A copy may send the call on, to the leader of that time.
        let elsewhere = reader.filter(|thread| *thread != self.thread);
        let at = elsewhere.map_or(At::Host(leader.host()), |_| At::Anywhere);
        let origin = self.count_outstanding(origin, PARTITION_WEIGHT, at);
        let call = ForwardedCall { origin, body };
        match elsewhere {
            Some(thread) => self.send(thread, Envelope::ReadAtCopy(partition, call)),
            None => self.send(leader, Envelope::Call(partition, call)),
        }
        Taken::Pending
    }

    /// The thread of this host whose copy of a partition may answer reads, if another host leads
    /// that.
    fn reader_of(&self, partition: PartitionId) -> Option<ThreadId> {
        let reads = self.facts.options.follower_reads.is_on();
        let mut followers = self.placement.followers_of(partition).iter().filter(|_| reads);
        followers.find(|thread| thread.host() == self.facts.host).copied()
    }

    /// A call of another thread of this host, for a copy here. Where that cannot answer, the leader
    /// does.
    pub(super) fn read_at_copy(&mut self, partition: PartitionId, call: ForwardedCall) {
        let invocation =
            Invocation::decode(&call.body).expect("the connection's thread decoded it before");
        let mut frame = self.outbox.spare.take();
        let answered = self.replicas.has_copy(partition).then(|| {
            let slot = self.replicas.slot_of_copy(partition);
            self.read_copy(slot, call.origin, &invocation, &mut frame)
        });
        match answered.flatten() {
            Some(status) => {
                let answer = ForwardedAnswer { origin: call.origin, status, frame };
                self.send(call.origin.thread, Envelope::Answer(answer));
                self.outbox.spare.give_back(call.body);
            }
            None => {
                self.outbox.spare.give_back(frame);
                self.send(self.thread_of(partition), Envelope::Call(partition, call));
            }
        }
    }

    /// Answers a call at a copy that is current enough.
    fn read_copy(
        &mut self,
        slot: Slot,
        origin: Origin,
        invocation: &Invocation<'_>,
        output: &mut Vec<u8>,
    ) -> Option<Status> {
        let partition = self.replicas[slot].partition();
        let (catalog, limits) = (&self.catalog, &self.facts.options);
        let procedure = catalog.called(origin.procedure, invocation.procedure)?;
        let is_here = matches!(
            destination(procedure, invocation, &self.facts.ring),
            Destination::Partition(of) if of == partition
        );
        let is_in_sync = self.placement.followers_of(partition).contains(&self.thread);
        if !procedure.definition.read_only || !is_here || !is_in_sync {
            return None;
        }
        let replica = &mut self.replicas[slot];
        let following = replica.following.as_mut().filter(|_| replica.learning.is_none())?;
        if following.has_failed || following.catalog.version() != catalog.version() {
            return None;
        }
        let (bound_us, boot_us) = (limits.follower_read_staleness_ms.us() as u64, clock::boot_us());
        if following.follower.asks_position(bound_us, boot_us) {
            let (copy, said) = (self.facts.host, CopyMessage::AskPosition(boot_us));
            let question = Envelope::Copy(Box::new(OfCopy { partition, copy, said }));
            self.outbox.send(self.placement.leader_of(partition), question);
        }
        let staleness_us = following.follower.staleness_us(bound_us, boot_us)?;
        let limit = limits.time_limit(invocation.query_timeout_ms, origin.caller());
        let waited = Elapsed::between_us(origin.arrived_us, self.now_us);
        self.statistics.count_wait(waited);
        let statistics = &mut replica.statistics;
        let callers = &self.facts.callers;
        Some(following.follower.read(self.now_us, |site, header| {
            if !site.has_stopwatch() {
                site.set_stopwatch(clock::stopwatch_for(callers), clock::monotonic_ns);
            }
            site.limit_call(true, limit);
            let of_copy = (statistics, waited, staleness_us);
            run_read_at_copy(site, procedure, of_copy, header, invocation, output)
        }))
    }

    /// A copy asks how far the log is: it hears that like the answer to a read.
    pub(super) fn tell_position(&mut self, slot: Slot, copy: HostId, asked_us: u64) {
        let partition = self.replicas[slot].partition();
        let followers = self.placement.followers_of(partition);
        let asks = followers.iter().find(|thread| thread.host() == copy).copied();
        let leads = self.replicas.slot_of(partition).is_some();
        if let Some(thread) = asks.filter(|_| leads && self.replicas[slot].leading.is_some()) {
            let position = self.replicas[slot].answer_position();
            let said = CopyMessage::Position(asked_us, position);
            let message = Envelope::Copy(Box::new(OfCopy { partition, copy, said }));
            self.send_when_safe((slot, position), thread, message);
        }
    }

    /// The leader of a copy here has answered.
    pub(super) fn note_position(&mut self, slot: Slot, asked_us: u64, position: u64) {
        if let Some(following) = &mut self.replicas[slot].following {
            following.follower.note_position(asked_us, position);
        }
    }
}
