//! Leaders of partitions that move: lost with their memory, or moved on purpose.

use super::log::Held;
use super::replicas::{LEADER, Replicated, STREAM_LIMITS};
use super::{Answer, CallNumber, Message, World};
use crate::census::Totals;
use lockstep_host::follower::Follower;
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::outcomes::Outcomes;
use lockstep_site::FromPartition;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{HandOver, ReplicaStream, Survivor, Takeover, plan_takeover};
use lockstep_types::{Failure, HostId, Outcome, PartitionId, Status};

/// The answer to a call whose leader was lost.
pub(crate) const UNKNOWN: &str = "the leader was lost: the outcome of the call is not known";

impl World {
    /// Whether the leader of a partition can move now: there is a copy that can lead, and no change
    /// of the catalog is in progress.
    fn can_move(&self, partition: PartitionId) -> bool {
        let replicas = self.replicas.as_ref();
        let has_copies = replicas.is_some_and(|replicas| replicas.has_copies(partition));
        has_copies && !self.control.schema.is_changing() && self.retry_us().is_none()
    }

    /// Judges the messages of all transactions, unless a leader was lost or moved: what it was
    /// sent, and what it would have answered, is not there.
    pub(crate) fn judge_messages(&self) -> Result<Totals, String> {
        match self.copy_counts().takeovers {
            [0, 0] => self.census.judge(),
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
        let lost = self.calls_at(partition);
        self.take_over(partition, None);
        for call in lost {
            self.at.remove(&call);
            let failure = Failure::new(Status::ResponseUnknown, UNKNOWN);
            let (outcome, tables) = (Outcome::failed(failure), Vec::new());
            self.answers.push(Answer { call, outcome, tables, at_partition: true });
        }
        true
    }

    /// A partition's lead moves to a copy, if the leader is quiet and the copy has everything:
    /// drain, seal, open. Calls on their way go to the new leader.
    pub fn hand_leader_over(&mut self, partition: PartitionId) -> bool {
        if !self.can_move(partition) || !self.sites[partition.index()].is_idle() {
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
        self.take_over(partition, Some(target));
        true
    }

    /// Calls that arrived at a partition, and are neither answered nor gone on.
    fn calls_at(&self, partition: PartitionId) -> Vec<CallNumber> {
        let is_on_its_way = |call: CallNumber| {
            self.in_flight.iter().any(|message| match message {
                Message::Call(_, on_its_way) => on_its_way.call == call,
                Message::Multi(multi) => multi.origin == call,
                Message::OneRound(number, _) => *number == call,
                _ => false,
            })
        };
        let here = self.at.iter().filter(|(_, at)| **at == partition);
        here.map(|(call, _)| *call).filter(|call| !is_on_its_way(*call)).collect()
    }

    /// The copies are sealed, one of them leads the next epoch, and the coordinator opens its
    /// stream to it. The leader before is gone, or follows no more.
    fn take_over(&mut self, partition: PartitionId, target: Option<HostId>) {
        let mut replicas = self.replicas.take().expect("there are copies");
        replicas.counts.takeovers[usize::from(target.is_some())] += 1;
        let broken = replicas.broken;
        let old = replicas.of(partition);
        let epoch = old.stream.epoch() + 1;
        let takeover = plan(old, epoch, target, broken.streams);
        let at = old.copies.iter().position(|copy| copy.host == takeover.leader);
        let mut copy = old.copies.swap_remove(at.expect("a copy leads"));
        let mut followers = takeover.followers();
        for other in &mut old.copies {
            other.stream.follow(epoch);
            other.to_follower.clear();
            other.to_leader.clear();
            other.to_leader.extend(other.stream.receipt());
            other.is_broken = false;
        }
        followers.retain(|(host, _)| old.copies.iter().any(|copy| copy.host == *host));
        let none = Outcomes::new(1);
        let outcomes = if broken.forget_outcomes { &none } else { &self.outcomes };
        let decided = copy.follower.decide_rest(outcomes).expect("its entries are sound");
        let failed = loop {
            match replicas.apply_rest(self, &mut copy) {
                Ok(true) => break None,
                Ok(false) => {}
                Err(problem) => break Some(problem),
            }
        };
        if let Some(problem) = failed {
            replicas.problem.get_or_insert(problem);
            self.replicas = Some(replicas);
            return;
        }
        let (end, history, suffix) = copy.stream.into_log();
        let source = LogSource { epoch, incarnation: 1 };
        let in_sync = takeover.in_sync();
        let place = (copy.version, self.now_us);
        let follower: Follower<_, _, _> = copy.follower;
        let mut site = follower.promote(source, &in_sync, &decided, place);
        site.set_followed(!followers.is_empty());
        self.sites[partition.index()] = site;
        let mut counted = vec![(LEADER, end)];
        if !broken.streams.answer_before_receipt {
            counted.extend(&followers);
        }
        let old = replicas.of(partition);
        old.gate = Gate::new(SafePosition::of_copies(&counted));
        old.stream = ReplicaStream::open(epoch, end, history, &followers, suffix, STREAM_LIMITS);
        old.digest = None;
        self.replicas = Some(replicas);
        self.open_to(partition);
    }

    /// The coordinator opens its stream to a new leader.
    fn open_to(&mut self, partition: PartitionId) {
        let to_leader = |message: &Message| match message {
            Message::ToPartition(told) => told.partition == partition,
            _ => false,
        };
        self.in_flight.retain(|message| !to_leader(message));
        let (mut outputs, now_us) = (Vec::new(), self.now_us);
        let awaits = self.coordinator.reopen(partition, now_us, &mut outputs);
        self.carry_out(outputs);
        for transaction in awaits {
            let message = FromPartition::Acknowledged { partition, transaction };
            self.leave(partition, Held::Message(Message::FromPartition(message)));
        }
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
