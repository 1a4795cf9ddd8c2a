//! Leaders of partitions that move, lost with their memory or moved on purpose, and coordinators
//! that are lost.

use super::promotion::Promoting;
use super::replicas::{LEADER, Replicated, STREAM_LIMITS};
use super::{Answer, CallNumber, Message, World, shape};
use crate::census::Totals;
use lockstep_base::random::SeededRandom;
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::partition;
use lockstep_site::{Site, ToPartition};
use lockstep_txn::replica::{HandOver, ReplicaStream, Survivor, Takeover, plan_takeover};
use lockstep_types::{Failure, HostId, Outcome, PartitionId, Status, TransactionId};
use std::collections::BTreeMap;

/// The answer to a call whose leader or coordinator was lost.
pub(crate) const UNKNOWN: &str = "a host was lost: the outcome of the call is not known";

impl World {
    /// Whether the leader of a partition can move now: there is a copy that can lead. The catalog
    /// is that of a thread, and calls are planned with it; so a thread is not lost whose catalog
    /// others may never get.
    fn can_move(&self, partition: PartitionId) -> bool {
        let replicas = self.replicas.as_ref();
        let is_alone = self.placement.led_by(self.placement.leader_of(partition)).len() == 1;
        let version = self.control.schema.catalog().version();
        let is_level = self.versions[partition.index()] == version;
        replicas.is_some_and(|replicas| replicas.has_copies(partition))
            && (!self.control.schema.is_changing() || is_alone && is_level)
    }

    /// Judges the messages of all transactions, unless a leader or coordinator was lost or moved:
    /// what it was sent, and what it would have answered, is not there.
    pub(crate) fn judge_messages(&self) -> Result<Totals, String> {
        let counts = self.copy_counts();
        match (counts.takeovers, counts.coordinators) {
            ([0, 0], 0) => self.census.judge(),
            _ => Ok(Totals::default()),
        }
    }

    /// The host of a partition's leader dies, with its memory and all that it has not sent; a copy
    /// takes over in a new epoch. Calls that were there are answered as unknown. False if that
    /// cannot be now.
    pub fn lose_leader(&mut self, partition: PartitionId) -> bool {
        if !self.can_move(partition) {
            return false;
        }
        self.note(13 + (u64::from(partition.0) << 8));
        self.epoch += 1;
        self.lose_leader_of(partition);
        self.coordinator.leader_lost(partition);
        true
    }

    fn lose_leader_of(&mut self, partition: PartitionId) {
        let lost = self.calls_at(partition);
        self.take_over(partition, None);
        lost.into_iter().for_each(|call| self.answer_unknown(call));
    }

    fn answer_unknown(&mut self, call: CallNumber) {
        if self.lost_for_control(call) {
            return;
        }
        self.at.remove(&call);
        self.at_coordinator.remove(&call);
        let failure = Failure::new(Status::ResponseUnknown, UNKNOWN);
        let (outcome, tables) = (Outcome::failed(failure), Vec::new());
        self.answers.push(Answer { call, outcome, tables, at_partition: true });
    }

    /// A partition's lead moves to a copy, if the leader is quiet and the copy has everything:
    /// drain, seal, open. Calls on their way go to the new leader.
    pub fn hand_leader_over(&mut self, partition: PartitionId) -> bool {
        let is_led = self.replicas.as_ref().is_some_and(|all| !all.is_promoting(partition));
        let is_calm = is_led && !self.coordinator.is_taking_over();
        if !is_calm || !self.can_move(partition) || !self.sites[partition.index()].is_idle() {
            return false;
        }
        let Some(mut replicas) = self.replicas.take() else { return false };
        let replicated = replicas.of(partition);
        let is_quiet = replicated.gate.is_idle();
        let is_logged = replicated.stream.end() == self.sites[partition.index()].log_sequence();
        let target = replicated.copies[0].host;
        let hand_over = HandOver::begin(target, &replicated.stream);
        let report = hand_over.and_then(|mut hand_over| {
            hand_over.advance(is_quiet && is_logged, &mut replicated.stream)
        });
        self.replicas = Some(replicas);
        if report.is_none() {
            return false;
        }
        self.note(14 + (u64::from(partition.0) << 8));
        self.epoch += 1;
        self.take_over(partition, Some(target));
        true
    }

    /// A leader moves or is lost, or the coordinator is lost, alone or with leaders.
    pub(crate) fn lose_something(&mut self, random: &mut SeededRandom) {
        let count = u64::from(self.partition_count());
        let partition = PartitionId(random.below(count) as u32);
        match random.below(4) {
            0 => self.hand_leader_over(partition),
            1 => self.lose_leader(partition),
            2 => self.lose_coordinator(&[]),
            _ => {
                let all = (0..count as u32).map(PartitionId);
                let leaders: Vec<PartitionId> = all.filter(|_| random.chance(1, 3)).collect();
                self.lose_coordinator(&leaders)
            }
        };
    }

    /// The coordinator's host dies, with the leaders of some partitions: a new coordinator takes
    /// over in a new epoch, of which each partition learns in its time. Calls that were there are
    /// answered as unknown. False if that cannot be now.
    pub fn lose_coordinator(&mut self, leaders: &[PartitionId]) -> bool {
        if self.replicas.is_none() {
            return false;
        }
        self.note(15 + ((leaders.len() as u64) << 8));
        self.epoch += 1;
        self.count_interruption();
        let limited = (&self.limits, self.outcomes_kept);
        let mut coordinator = shape::coordinator(self.epoch, &self.shape, &self.ring, limited);
        coordinator.go_on_behind(TransactionId::default(), self.latest().0);
        coordinator.take_over(self.epoch);
        self.coordinator = coordinator;
        self.lose_messages_of_coordinator();
        for call in std::mem::take(&mut self.at_coordinator) {
            self.answer_unknown(call);
        }
        for partition in (0..self.partition_count()).map(PartitionId) {
            match leaders.contains(&partition) && self.can_move(partition) {
                true => self.lose_leader_of(partition),
                false => self.in_flight.push(Message::Fence(partition, self.epoch)),
            }
        }
        true
    }

    fn count_interruption(&mut self) {
        let is_taking_over = self.coordinator.is_taking_over();
        let replicas = self.replicas.as_mut().expect("there are copies");
        let is_promoting = replicas.promoting_count() > 0;
        replicas.counts.interrupted += u64::from(is_promoting || is_taking_over);
        replicas.counts.coordinators += 1;
    }

    /// Of what the coordinator has sent to each partition a beginning arrives, late perhaps; calls
    /// on their way to it do not arrive.
    fn lose_messages_of_coordinator(&mut self) {
        let mut last: BTreeMap<PartitionId, u64> = BTreeMap::new();
        for message in &self.in_flight {
            if let Message::ToPartition(told) = message {
                last.entry(told.partition).or_insert(told.number);
            }
        }
        for number in last.values_mut() {
            *number += self.random.below(4);
        }
        let mut lost = Vec::new();
        self.in_flight.retain(|message| match message {
            Message::ToPartition(told) => told.number < last[&told.partition],
            Message::Multi(call) | Message::Ordered(_, call) => {
                lost.push(call.origin);
                false
            }
            Message::OneRound(call, _) => {
                lost.push(*call);
                false
            }
            _ => true,
        });
        lost.into_iter().for_each(|call| self.answer_unknown(call));
    }

    /// A partition learns that another coordinator is to take over.
    pub(super) fn deliver_fence(&mut self, partition: PartitionId, epoch: u64) {
        partition::fence(&mut super::At { world: self, partition }, epoch, &mut Vec::new());
    }

    /// Counts what a coordinator makes of what it found undecided.
    pub(super) fn count_resolved(&mut self, message: &ToPartition<u64>) {
        let (ToPartition::Resolve { decisions, .. }, Some(replicas)) =
            (message, &mut self.replicas)
        else {
            return;
        };
        for decision in decisions.iter() {
            replicas.counts.resolved[usize::from(!decision.commits)] += 1;
        }
    }

    /// What keeps the host from coming to rest, as far as copies and coordinators go.
    pub(crate) fn unrest(&self) -> String {
        let promoting = self.replicas.as_ref().map_or(0, |replicas| replicas.promoting_count());
        let busy = self.sites.iter().filter(|site| !site.is_idle()).count();
        format!(
            "{} at partitions, {} at the coordinator; it takes over: {}, idle: {}, {promoting} \
             partitions without a leader, {busy} busy, {} messages in flight, {} for a later \
             catalog",
            self.at.len(),
            self.at_coordinator.len(),
            self.coordinator.is_taking_over(),
            self.coordinator.is_idle(),
            self.in_flight.len(),
            self.bytes.early_count(),
        )
    }

    /// Calls that arrived at a partition, and are neither answered nor gone on.
    fn calls_at(&self, partition: PartitionId) -> Vec<CallNumber> {
        let is_on_its_way = |call: CallNumber| {
            let replicas = self.replicas.iter().flat_map(|replicas| replicas.waiting());
            self.in_flight.iter().chain(replicas).any(|message| match message {
                Message::Call(_, on_its_way) => on_its_way.call == call,
                Message::Multi(multi) => multi.origin == call,
                Message::OneRound(number, _) => *number == call,
                _ => false,
            })
        };
        let here = self.at.iter().filter(|(_, at)| **at == partition);
        here.map(|(call, _)| *call).filter(|call| !is_on_its_way(*call)).collect()
    }

    /// The copies are sealed, and one of them is to lead the next epoch: it reports to the
    /// coordinator. The leader before is gone, or follows no more.
    fn take_over(&mut self, partition: PartitionId, target: Option<HostId>) {
        let mut replicas = self.replicas.take().expect("there are copies");
        replicas.counts.takeovers[usize::from(target.is_some())] += 1;
        let broken = replicas.broken;
        let old = replicas.of(partition);
        let epoch = old.stream.epoch() + 1;
        let takeover = plan(old, epoch, target, broken.streams);
        let at = old.copies.iter().position(|copy| copy.host == takeover.leader);
        let copy = old.copies.swap_remove(at.expect("a copy leads"));
        let mut followers = takeover.followers();
        for other in &mut old.copies {
            other.stream.follow(epoch);
            other.to_follower.clear();
            other.to_leader.clear();
            other.to_leader.extend(other.stream.receipt());
            other.is_broken = false;
        }
        followers.retain(|(host, _)| old.copies.iter().any(|copy| copy.host == *host));
        let waiting = old.promoting.take().map_or_else(Vec::new, |before| before.waiting);
        let (mut promoting, stream) = match Promoting::begin(copy, self.epoch, takeover) {
            Ok(begun) => begun,
            Err(problem) => {
                replicas.problem.get_or_insert(problem);
                self.replicas = Some(replicas);
                return;
            }
        };
        promoting.waiting = waiting;
        let (end, history, suffix) = stream.into_log();
        let mut counted = vec![(LEADER, end)];
        if !broken.streams.answer_before_receipt {
            counted.extend(&followers);
        }
        old.gate = Gate::new(SafePosition::of_copies(&counted));
        old.stream = ReplicaStream::open(epoch, end, history, &followers, suffix, STREAM_LIMITS);
        old.digest = None;
        old.promoting = Some(promoting);
        self.replicas = Some(replicas);
        // Nothing of the leader before is left.
        self.sites[partition.index()] = Site::new(partition, self.ring.clone(), &self.limits);
        self.send_report(partition);
    }
}

/// Seals the copies and plans the next epoch; with a target that one leads.
fn plan(
    old: &mut Replicated,
    epoch: u32,
    target: Option<HostId>,
    faults: lockstep_txn::replica::ReplicaFaults,
) -> Takeover {
    let in_sync: Vec<HostId> = old.copies.iter().map(|copy| copy.host).collect();
    let seal = |copy: &mut super::replicas::Copy| Survivor {
        host: copy.host,
        led: target == Some(copy.host),
        sealed: copy.stream.seal(epoch).expect("the epoch is later"),
    };
    let survivors: Vec<Survivor> = old.copies.iter_mut().map(seal).collect();
    plan_takeover(epoch, &in_sync, &survivors, faults).expect("a copy in sync is left")
}

#[cfg(test)]
mod tests;
