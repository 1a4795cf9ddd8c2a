//! New epochs at a host: what it led is sealed, what it is to lead opens, and calls that may be at
//! a lost host end.

use super::host::{Handed, Host, Where, coordinator_of};
use super::replica::{At, Following, Pending, Replica, STREAM_LIMITS};
use super::{Said, Shared};
use lockstep_host::copies::Opening;
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::follower::{Led, Promotion};
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::leading::Leading;
use lockstep_host::partition::{self, PartitionHost};
use lockstep_host::placement::Placement;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::ReplicaStream;
use lockstep_types::{HostId, PartitionId};
use std::sync::Arc;

impl Host {
    /// Another placement is in force.
    pub(super) fn follow_placement(&mut self, placement: Arc<Placement>, shared: &mut Shared) {
        if placement.epoch() <= self.placement.epoch() {
            return;
        }
        let before = std::mem::replace(&mut self.placement, Arc::clone(&placement));
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            if self.steps_down(partition, &placement) {
                self.step_down(partition, shared);
                continue;
            }
            let replica = self.replicas.get_mut(&partition).expect("it was listed");
            let epoch = placement.epoch_of(partition);
            replica.leads &= placement.leader_of(partition).host() == self.id;
            let Replica { site, leading, gate, .. } = replica;
            let Some(leading) = leading else { continue };
            if let Some(report) = leading.seal(site, epoch, self.now_us) {
                gate.advance(self.id, report.end);
                let copy = self.id;
                let said = CopyMessage::Sealed(report);
                self.sealed.push(OfCopy { partition, copy, said });
            }
        }
        self.place_learners(&before, shared);
        self.follow_learners(&before, shared);
        self.follow_coordinator(&before, shared);
        self.fail_handed_calls(&before, shared);
        self.expiry_follows_placement();
        self.take_waiting();
        self.attend_to_moves(shared);
    }

    fn follow_coordinator(&mut self, before: &Placement, shared: &mut Shared) {
        let placement = Arc::clone(&self.placement);
        let was_here = self.coordinator.is_some();
        let stays = placement.coordinator().host() == self.id;
        if !stays || placement.has_coordinator_moved(before) {
            self.changing = None;
            if let Some(role) = self.coordinator.take() {
                self.give_back_waiting(role, shared);
            }
        }
        if stays && self.coordinator.is_none() {
            let mut coordinator = coordinator_of(&placement, shared, self.version);
            coordinator.take_over(placement.epoch());
            self.coordinator = Some(coordinator);
            self.begin_with_moves(shared);
            shared.report.coordinators += 1;
        }
        if let Some(coordinator) = &mut self.coordinator {
            let partitions = (0..placement.partition_count()).map(PartitionId);
            let is_lost = |of: &PartitionId| placement.is_leader_lost_since(before, *of);
            partitions.filter(is_lost).for_each(|lost| coordinator.leader_lost(lost));
        }
        self.fence_partitions(placement.has_other_coordinator(before), shared);
        self.follow_coordinator_move(was_here, shared);
    }

    fn fence_partitions(&mut self, has_moved: bool, shared: &mut Shared) {
        let epoch = self.placement.epoch();
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            let replica = self.replicas.get_mut(&partition).expect("it was listed");
            if let Some(pending) = &mut replica.opening {
                if pending.promotion.fence(epoch, has_moved) {
                    self.report_undecided(partition, shared);
                }
                continue;
            }
            let is_due = has_moved || replica.site.awaits_coordinator();
            if replica.following.is_none() && is_due {
                let at = &mut At { host: self, shared, partition };
                partition::fence(at, epoch, &mut Vec::new());
            }
        }
    }

    /// Calls that may be at hosts that are lost end: nobody knows how.
    fn fail_handed_calls(&mut self, before: &Placement, shared: &mut Shared) {
        let lost = self.placement.lost_since(before);
        if lost.contains(&self.id) {
            return self.end_calls(shared);
        }
        let may_be_there = |at: &Where| match at {
            Where::Host(host) => lost.contains(host),
            Where::Anywhere => !lost.is_empty(),
        };
        let calls = self.handed.iter().filter(|(_, handed)| may_be_there(&handed.at));
        for call in calls.map(|(call, _)| *call).collect::<Vec<_>>() {
            let Handed { request, .. } = self.handed.remove(&call).expect("it was listed");
            match shared.faults.resend_handed_call {
                true => self.call(call, request, shared),
                false => shared.unknown(call),
            }
        }
    }

    /// The connections end whose calls were not answered.
    pub(super) fn end_calls(&mut self, shared: &mut Shared) {
        let calls = std::mem::take(&mut self.handed);
        calls.into_keys().for_each(|call| shared.unknown(call));
    }

    pub(super) fn take_waiting(&mut self) {
        self.own.extend(std::mem::take(&mut self.waiting));
    }

    /// All copies of a partition are sealed for an epoch in which it is led here.
    pub(super) fn open(&mut self, opening: Opening, shared: &mut Shared) {
        match opening.log.is_some() {
            false => self.reopen_stream(&opening, shared),
            true => self.begin_opening(opening, shared),
        }
    }

    fn reopen_stream(&mut self, opening: &Opening, shared: &mut Shared) {
        let Opening { partition, epoch, followers, in_sync, .. } = opening;
        let Replica { site, leading, gate, opening: pending, .. } =
            self.replicas.get_mut(partition).expect("it leads");
        let leading = leading.as_mut().expect("it leads");
        leading.reopen(*epoch, followers, STREAM_LIMITS);
        gate.copies().reopen((self.id, leading.stream.end()), followers);
        match pending {
            Some(pending) => (pending.epoch, pending.in_sync) = (*epoch, in_sync.clone()),
            None => {
                site.continue_in_epoch(*epoch, in_sync, self.now_us);
                site.set_followed(!followers.is_empty());
            }
        }
        shared.report.reopened += 1;
        self.end_hand_over(*partition, shared);
        self.take_waiting();
        self.hand_over(*partition, true, shared);
        self.send_to_copies(*partition);
        self.release(*partition);
    }

    fn begin_opening(&mut self, opening: Opening, shared: &mut Shared) {
        let Opening { partition, epoch, followers, in_sync, log } = opening;
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        let (following, log) = (replica.following.take(), log.expect("the copy has followed"));
        let Following { follower, version, change, .. } = following.expect("it has followed");
        let (end, history, suffix) = log;
        assert_eq!(follower.end(), end, "everything that came is here");
        let promotion = match Promotion::begin(follower, self.placement.epoch(), version) {
            Ok(promotion) => promotion,
            Err(error) => return shared.problem(error.to_string()),
        };
        let stream = ReplicaStream::open(epoch, end, history, &followers, suffix, STREAM_LIMITS);
        let copies: Vec<(HostId, u64)> =
            followers.iter().copied().chain([(self.id, end)]).collect();
        let leading = Leading::of(stream);
        replica.leading = Some(leading.with_reads_at_copies(shared.reads_bound_us.is_some()));
        replica.gate = Gate::new(SafePosition::of_copies(&copies));
        replica.opening = Some(Pending { promotion, version, change, epoch, in_sync });
        self.send_to_copies(partition);
        self.report_undecided(partition, shared);
    }

    fn report_undecided(&mut self, partition: PartitionId, shared: &mut Shared) {
        let Some(pending) = &self.replicas[&partition].opening else { return };
        let (end, report) = (pending.promotion.end(), pending.promotion.report());
        let to = self.placement.coordinator().host();
        let held = super::replica::Held { to, said: Said::FromPartition(report) };
        self.send_when_safe(shared, (partition, end), held);
    }

    /// Everything is applied: the copy leads.
    pub(super) fn end_opening(&mut self, partition: PartitionId, shared: &mut Shared) {
        let replica = self.replicas.get_mut(&partition).expect("it is about to lead");
        let pending = replica.opening.take().expect("it is about to lead");
        let Pending { promotion, version, epoch, in_sync, .. } = pending;
        let source = LogSource { epoch, incarnation: self.run };
        let Led { mut site, effects, early } = promotion.lead(source, &in_sync, self.now_us);
        site.set_followed(in_sync.len() > 1);
        (replica.site, replica.leads) = (site, true);
        self.follow_catalog(version);
        shared.report.leaders += 1;
        shared.report.returned_leaders += u64::from(self.run > 1);
        for effect in effects {
            At { host: self, shared, partition }.partition_effect(effect);
        }
        for message in early {
            let at = &mut At { host: self, shared, partition };
            partition::take_message(at, message, &mut Vec::new());
        }
        self.take_waiting();
    }
}
