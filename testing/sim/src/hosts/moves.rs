//! Leaders that are moved on purpose: what the sites of a host do for it, as the server's do.

use super::host::{Host, Of};
use super::replica::{At, Following, Held, HostSite, Replica};
use super::{Said, Shared};
use lockstep_host::coordinator;
use lockstep_host::follower::{Follower, FollowerLimits};
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::hand_over::PlannedMove;
use lockstep_host::partition;
use lockstep_host::placement::Placement;
use lockstep_site::{Coordinator, Numbered, WaitingCall};
use lockstep_txn::replica::{HandOver, HandOverStage};
use lockstep_types::{HostId, PartitionId};
use std::sync::Arc;

/// A leader that is drained, and then sealed.
pub(super) struct Draining {
    planned: PlannedMove,
    hand_over: HandOver,
    /// What the coordinator has said since it was sealed.
    early: Vec<Numbered<u64>>,
}

impl Host {
    pub(super) fn take_moves(&mut self, moves: &[PlannedMove], shared: &mut Shared) {
        self.moves.set(moves, &self.placement);
        self.hold_coordinator_back(shared);
    }

    /// The coordinator is made here.
    pub(super) fn begin_with_moves(&mut self, shared: &mut Shared) {
        self.moves.forget_notified();
        self.hold_coordinator_back(shared);
    }

    fn hold_coordinator_back(&mut self, shared: &mut Shared) {
        let (now_us, is_held_back) = (self.now_us, self.moves.hold_back());
        let Some(coordinator) = &mut self.coordinator else { return };
        let mut outputs = Vec::new();
        coordinator.hold_back(is_held_back, now_us, &mut outputs);
        coordinator::carry_out(&mut Of { host: self, shared }, &mut outputs);
        self.attend_to_moves(shared);
    }

    /// The coordinator is to be at another host, or to stay where it is. A change of the schema
    /// that is in progress ends first, as the control thread sees to it.
    pub(super) fn move_coordinator(&mut self, to: Option<HostId>, shared: &mut Shared) {
        if self.coordinator.is_none() || to.is_some() && self.changing.is_some() {
            return;
        }
        match to {
            Some(to) => self.moves.move_coordinator(to),
            None => self.moves.keep_coordinator(self.placement.epoch()),
        }
        self.expiry_follows_move(to.is_some(), shared.faults);
        self.hold_coordinator_back(shared);
    }

    /// The coordinator was here: calls that have not begun go where it is now.
    pub(super) fn give_back_waiting(&mut self, mut role: Coordinator<usize, u64>, shared: &Shared) {
        if !self.placement.is_up(self.id) {
            return;
        }
        for waiting in role.take_waiting() {
            let origin = match waiting {
                WaitingCall::Planned(call) => call.origin,
                WaitingCall::OneRound(origin, _) => origin,
            };
            self.bounce(origin, shared);
        }
    }

    /// Another placement is in force: the coordinator is here, or not any more.
    pub(super) fn follow_coordinator_move(&mut self, was_here: bool, shared: &mut Shared) {
        let is_here = self.coordinator.is_some();
        let was_moving = self.moves.is_coordinator_moving();
        shared.report.coordinators_moved += u64::from(was_here && !is_here && was_moving);
        if self.moves.follow_placement(is_here) {
            self.hold_coordinator_back(shared);
        }
    }

    pub(super) fn attend_to_moves(&mut self, shared: &mut Shared) {
        let Some(coordinator) = &self.coordinator else { return };
        let epoch_of = |partition| coordinator.epoch_of(partition);
        if self.moves.note_streams(epoch_of, &self.placement) {
            return self.hold_coordinator_back(shared);
        }
        if !coordinator.is_quiet() {
            return;
        }
        let placement = Arc::clone(&self.placement);
        self.proposals.extend(self.moves.coordinator_proposal(&placement, self.now_us));
        if !self.moves.await_quiet() {
            return;
        }
        for planned in self.moves.take_due(|partition| placement.epoch_of(partition)) {
            let leader = placement.leader_of(planned.partition).host();
            self.send(leader, Said::HandOver(planned));
        }
    }

    pub(super) fn begin_hand_over(&mut self, planned: PlannedMove, shared: &Shared) {
        let epoch = self.placement.epoch_of(planned.partition);
        let Some(replica) = self.replicas.get_mut(&planned.partition) else { return };
        if epoch > planned.epoch {
            return;
        }
        let leads = replica.leading.as_ref().filter(|_| replica.opening.is_none());
        let leads = leads.filter(|it| it.stream.epoch() == planned.epoch);
        let Some(leading) = leads.filter(|_| epoch == planned.epoch) else {
            return self.waiting.push(Said::HandOver(planned));
        };
        if replica.draining.is_some() {
            return;
        }
        let Some(hand_over) = leading.begin_hand_over(&planned) else { return };
        replica.draining = Some(Draining { planned, hand_over, early: Vec::new() });
        replica.leads = shared.faults.run_after_seal;
    }

    /// Whether a leader is drained, and not sealed yet.
    pub(super) fn drains(&self, partition: PartitionId) -> bool {
        let draining = self.replicas.get(&partition).and_then(|it| it.draining.as_ref());
        draining.is_some_and(|draining| draining.hand_over.stage() == HandOverStage::Drain)
    }

    pub(super) fn drain_leaders(&mut self, shared: &Shared) {
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            if !self.drains(partition) {
                continue;
            }
            self.hand_over(partition, true, shared);
            let Replica { site, gate, leading, draining, .. } =
                self.replicas.get_mut(&partition).expect("it was listed");
            let (Some(leading), Some(draining)) = (leading, draining) else { continue };
            let Draining { planned, hand_over, .. } = draining;
            if leading.drained(hand_over, site, (gate.safe(), gate.is_idle())) {
                self.drained.push(*planned);
            }
        }
    }

    /// Whether a leader follows from now on.
    pub(super) fn steps_down(&self, partition: PartitionId, placement: &Placement) -> bool {
        let replica = &self.replicas[&partition];
        let Some(Draining { planned, hand_over, .. }) = &replica.draining else { return false };
        let is_over = placement.epoch_of(partition) > planned.epoch;
        let mut followers = placement.followers_of(partition).iter();
        let follows = followers.any(|thread| thread.host() == self.id);
        let is_sealed = hand_over.stage() == HandOverStage::Sealed;
        is_over && is_sealed && follows && replica.site.is_idle()
    }

    pub(super) fn step_down(&mut self, partition: PartitionId, shared: &mut Shared) {
        let empty = HostSite::new(partition, shared.ring.clone(), &shared.limits);
        let version = self.version;
        let replica = self.replicas.get_mut(&partition).expect("it led");
        (replica.draining, replica.leads) = (None, false);
        let leading = replica.leading.take().expect("it was drained, and so led");
        replica.loads.give_up_all(&mut replica.site);
        let mut site = std::mem::replace(&mut replica.site, empty);
        if shared.faults.run_after_seal {
            // What it ran since is lost with what says so.
            site.drop_log();
        }
        let limits = FollowerLimits { slice_entries: 8, backlog_bytes: 1 << 20 };
        let follower = Follower::after_leading(partition, site, limits);
        replica.following = Some(Following { follower, version, change: None });
        let everything = Gate::new(SafePosition::everything());
        let gate = std::mem::replace(&mut replica.gate, everything);
        gate.into_waiting().for_each(|Held { to, said }| self.send(to, said));
        self.stepped_down.push((partition, leading.stream));
        shared.report.moved += 1;
    }

    /// The coordinator says something to a leader that is to be moved.
    pub(super) fn told_draining(&mut self, message: Numbered<u64>, shared: &mut Shared) {
        let partition = message.partition;
        if self.drains(partition) {
            let at = &mut At { host: self, shared, partition };
            return partition::take_message(at, message, &mut Vec::new());
        }
        let replica = self.replicas.get_mut(&partition).expect("it leads");
        replica.draining.as_mut().expect("it was looked at").early.push(message);
    }

    /// A leader that was to be moved stays.
    pub(super) fn end_hand_over(&mut self, partition: PartitionId, shared: &mut Shared) {
        let replica = self.replicas.get_mut(&partition).expect("it leads");
        let Some(draining) = replica.draining.take() else { return };
        replica.leads = true;
        for message in draining.early {
            let at = &mut At { host: self, shared, partition };
            partition::take_message(at, message, &mut Vec::new());
        }
    }
}
