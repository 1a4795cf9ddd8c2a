//! Leaders that are moved on purpose, see [`lockstep_host::hand_over`]: the coordinator's part, and
//! that of a leader, which is drained and follows from then on.

use super::following::Following;
use super::gate::Gate;
use super::replica::Replica;
use super::{HostSite, Shard, Slot};
use crate::catalog::HostCatalog;
use crate::catalog::site_limits;
use crate::log::SiteLog;
use crate::message::{Envelope, SteppedDownHere};
use lockstep_host::hand_over::PlannedMove;
use lockstep_host::placement::Placement;
use lockstep_site::Numbered;
use lockstep_txn::replica::{HandOver, HandOverStage};
use lockstep_types::HostId;
use std::sync::Arc;

/// A leader that is drained, and then sealed.
pub(super) struct Draining {
    planned: PlannedMove,
    hand_over: HandOver,
    /// What the coordinator has said since it was sealed: for a leader that stays after all.
    early: Vec<Numbered<Arc<HostCatalog>>>,
}

impl Shard {
    /// These leaders are to be moved.
    pub(super) fn take_moves(&mut self, moves: &[PlannedMove]) {
        self.moves.set(moves, &self.placement);
        self.hold_coordinator_back();
    }

    /// The coordinator is made here.
    pub(super) fn begin_with_moves(&mut self) {
        self.moves.forget_notified();
        self.hold_coordinator_back();
    }

    /// While leaders are moved, the coordinator begins nothing.
    fn hold_coordinator_back(&mut self) {
        let (now_us, is_held_back) = (self.now_us, self.moves.hold_back());
        let Some(role) = &mut self.coordinator else { return };
        let mut outputs = role.take_outputs();
        role.coordinator.hold_back(is_held_back, now_us, &mut outputs);
        self.carry_out(outputs);
        self.attend_to_moves();
    }

    /// The coordinator is to be at another host, or to stay where it is.
    pub(super) fn move_coordinator(&mut self, to: Option<HostId>) {
        if self.coordinator.is_none() {
            return tracing::debug!("the coordinator that is to move is elsewhere");
        }
        match to {
            Some(to) => self.moves.move_coordinator(to),
            None => self.moves.keep_coordinator(self.placement.epoch()),
        }
        self.hold_coordinator_back();
    }

    /// Another placement is in force: the coordinator is here, or not any more.
    pub(super) fn follow_coordinator_move(&mut self) {
        if self.moves.follow_placement(self.coordinator.is_some()) {
            self.hold_coordinator_back();
        }
    }

    /// Something has ended at the coordinator, or another placement is in force: the leaders that
    /// are to move are notified when nothing is in progress, and then the coordinator may move.
    #[cold]
    pub(super) fn attend_to_moves(&mut self) {
        let Some(role) = &self.coordinator else { return };
        let epoch_of = |partition| role.coordinator.epoch_of(partition);
        if self.moves.note_streams(epoch_of, &self.placement) {
            return self.hold_coordinator_back();
        }
        if !role.coordinator.is_quiet() {
            return;
        }
        let placement = Arc::clone(&self.placement);
        let now_us = self.now_us;
        if let Some(command) = self.moves.coordinator_proposal(&placement, now_us) {
            self.outbox.send(placement.links_thread(), Envelope::Propose(Box::new(command)));
        }
        if !self.moves.await_quiet() {
            return;
        }
        for planned in self.moves.take_due(|partition| placement.epoch_of(partition)) {
            self.send(placement.leader_of(planned.partition), Envelope::HandOver(planned));
        }
    }

    /// The leader of a partition is to be drained: calls wait from now on.
    pub(super) fn begin_hand_over(&mut self, planned: PlannedMove) {
        let partition = planned.partition;
        let epoch = self.placement.epoch_of(partition);
        if epoch > planned.epoch || !self.replicas.has_copy(partition) {
            return;
        }
        let slot = self.replicas.slot_of_copy(partition);
        let Replica { leading, draining, opening, .. } = &self.replicas[slot];
        let leads = leading.as_ref().filter(|_| opening.is_none() && epoch == planned.epoch);
        let Some(leading) = leads.filter(|it| it.stream.epoch() == planned.epoch) else {
            // The placement is on its way, or its epoch has not opened here.
            return self.waiting_calls.push(Envelope::HandOver(planned));
        };
        // Several coordinators may tell.
        if draining.is_some() {
            return;
        }
        let Some(hand_over) = leading.begin_hand_over(&planned) else { return };
        tracing::info!(%partition, to = %planned.to, "a leader is to be moved");
        self.replicas.follow(partition);
        self.replicas[slot].draining =
            Some(Box::new(Draining { planned, hand_over, early: Vec::new() }));
        self.replicas.copies_to_apply.add(slot);
    }

    /// Drains a leader; true while that goes on.
    pub(super) fn go_on_draining(&mut self, slot: Slot) -> bool {
        let now_us = self.now_us;
        let Shard { replicas, placement, outbox, .. } = self;
        replicas[slot].hand_over_to_copies((now_us, true), placement, outbox);
        let Replica { site, gate, leading, draining, .. } = &mut replicas[slot];
        let (Some(leading), Some(draining)) = (leading, draining) else { return false };
        let Draining { planned, hand_over, .. } = &mut **draining;
        if leading.drained(hand_over, site, (gate.safe(), gate.is_idle())) {
            outbox.send(placement.links_thread(), Envelope::HandedOver(*planned));
        }
        hand_over.stage() == HandOverStage::Drain
    }

    /// The coordinator says something to a leader that is to be moved: how what it has begun ends,
    /// which the order to drain it has overtaken. A sealed one takes nothing, unless it stays.
    pub(super) fn coordinator_told_draining(
        &mut self,
        slot: Slot,
        message: Numbered<Arc<HostCatalog>>,
    ) {
        let draining = self.replicas[slot].draining.as_mut().expect("it was looked at");
        match draining.hand_over.stage() {
            HandOverStage::Drain => self.coordinator_asked_at(slot, message),
            _ => draining.early.push(message),
        }
    }

    /// Whether a leader follows from now on, in this placement, or has no copy any more: it was
    /// drained for that. With a placement that comes late, both have come to be at once.
    pub(super) fn steps_down(&self, slot: Slot, placement: &Placement) -> bool {
        let replica = &self.replicas[slot];
        let Some(draining) = &replica.draining else { return false };
        let partition = draining.planned.partition;
        let is_over = placement.epoch_of(partition) > draining.planned.epoch;
        let is_sealed = draining.hand_over.stage() == HandOverStage::Sealed;
        let is_up = placement.is_up(placement.host());
        let leads = placement.leader_of(partition) == self.thread;
        // One that is loaded here again begins without data, with the log that is given back.
        let is_loaded = placement.learning_of(partition).contains(&self.thread);
        is_over && is_sealed && is_up && !leads && !is_loaded && replica.site.is_idle()
    }

    /// A leader that was drained follows from now on; the thread of the links reports its end to
    /// the host that leads.
    pub(super) fn step_down(&mut self, slot: Slot) {
        let partition = self.replicas[slot].partition();
        let empty =
            HostSite::new(partition, self.facts.ring.clone(), &site_limits(&self.facts.options));
        let backlog_bytes = self.facts.options.max_copy_backlog_bytes.to_usize();
        let host = self.placement.host();
        let replica = &mut self.replicas[slot];
        replica.draining = None;
        let leading = replica.leading.take().expect("it was drained, and so led");
        let log: Option<SiteLog> = replica.log.take();
        replica.loads.give_up_all(&mut replica.site);
        let site = std::mem::replace(&mut replica.site, empty);
        let catalog = Arc::clone(&self.catalog);
        replica.following = Some(Box::new(Following::after_leading(site, catalog, backlog_bytes)));
        // What it answered is safe, and was given out or can be.
        let gate = std::mem::replace(&mut replica.gate, Gate::new(host, None, None));
        self.release_all_of(gate);
        let stream = leading.stream;
        let here = SteppedDownHere { partition, site: self.thread, stream, log };
        tracing::info!(%partition, entries = here.stream.end(), "a leader follows from now on");
        self.outbox.send(self.placement.links_thread(), Envelope::SteppedDown(Box::new(here)));
    }

    /// A leader that was to be moved stays: calls that waited go on.
    pub(super) fn end_hand_over(&mut self, slot: Slot) {
        if let Some(draining) = self.replicas[slot].draining.take() {
            self.replicas.lead(slot);
            for message in draining.early {
                self.coordinator_asked_at(slot, message);
            }
        }
    }
}
