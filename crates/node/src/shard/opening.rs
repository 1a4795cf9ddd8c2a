//! New epochs of the partitions of this thread: the stream of a partition that is led here is
//! sealed, and opened when all its copies are; a copy that is to lead reports what its log has
//! undecided, applies the rest, and opens its first epoch.

use super::coordinator::origin_of;
use super::following::Following;
use super::gate::Gate;
use super::replica::{Replica, replica_limits};
use super::{HeldCall, KeptAnswer, Shard, Slot};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::log::SiteLog;
use crate::message::{Envelope, OpeningHere};
use lockstep_cluster::{Command, Epoch};
use lockstep_host::copies::Opening;
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::follower::{Applied, FollowerError, Led, Promotion};
use lockstep_host::index_hops::waits_for_placement;
use lockstep_host::leading::Leading;
use lockstep_host::partition::{self, PartitionHost};
use lockstep_host::placement::Placement;
use lockstep_host::recovery::{EntrySources, LoggedChange};
use lockstep_site::Numbered;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::ReplicaStream;
use lockstep_types::{HostId, PartitionId};
use std::sync::Arc;

type HostPromotion = Promotion<HeldCall, KeptAnswer, Arc<HostCatalog>>;

/// A copy that is to lead, and whose epoch has not opened.
pub(super) struct PendingOpening {
    promotion: HostPromotion,
    /// The catalog in force at it.
    catalog: Arc<HostCatalog>,
    /// A change of the catalog that is next.
    change: Option<LoggedChange>,
    epoch: u32,
    in_sync: Vec<HostId>,
    has_failed: bool,
}

impl PendingOpening {
    /// The copy's data.
    pub(super) fn site(&self) -> &super::HostSite {
        self.promotion.follower().site()
    }
}

impl Shard {
    /// Another placement is in force: what is led here is sealed where its copies or its leader
    /// have changed, and fenced where the coordinator has.
    pub(super) fn follow_placement(&mut self, placement: Arc<Placement>) {
        // A thread that began with it gets it once more.
        if placement.epoch() <= self.placement.epoch() {
            return;
        }
        let before = std::mem::replace(&mut self.placement, Arc::clone(&placement));
        for slot in self.replicas.slots() {
            let partition = self.replicas[slot].partition();
            let epoch = placement.epoch_of(partition);
            if placement.leader_of(partition) != self.thread {
                self.replicas.follow(partition);
            }
            if self.steps_down(slot, &placement) {
                self.step_down(slot);
                continue;
            }
            self.give_log_back(slot);
            if let Some(report) = self.seal_stream(slot, epoch) {
                let copy = placement.host();
                let said = CopyMessage::Sealed(report);
                let report = Envelope::Copy(Box::new(OfCopy { partition, copy, said }));
                self.outbox.send(placement.links_thread_of(copy), report);
            }
        }
        self.drop_copies(&before);
        self.place_learners(&before);
        self.follow_learners(&before);
        self.follow_coordinator(&before);
        self.fail_handed_calls(&before);
        self.take_waiting_calls();
        if self.moves.is_any() {
            self.attend_to_moves();
        }
    }

    /// All copies of a partition are sealed for an epoch in which it is led here.
    pub(super) fn open(&mut self, opening: OpeningHere) {
        let OpeningHere { opening, log } = opening;
        let placed = self.placement.epoch_of(opening.partition);
        assert_eq!(opening.epoch, placed, "epochs open in the placement that begins them");
        let slot = self.replicas.slot_of_copy(opening.partition);
        match opening.log.is_some() {
            false => self.reopen_stream(slot, &opening),
            true => self.begin_opening(slot, (opening, log)),
        }
    }

    /// The leader stays, or was about to lead, with some of its copies: what it has logged goes on
    /// to them.
    fn reopen_stream(&mut self, slot: Slot, opening: &Opening) {
        let Opening { partition, epoch, followers, in_sync, .. } = opening;
        let host = self.placement.host();
        let now_us = self.now_us;
        let Replica { site, log, leading, gate, opening: pending, .. } = &mut self.replicas[slot];
        let leading = leading.as_mut().expect("who was to lead it has reported, and leads");
        assert!(leading.stream.is_sealed(), "an epoch opens of a stream that was sealed for it");
        leading.reopen(*epoch, followers, replica_limits(&self.facts));
        let own = log.as_ref().map_or(leading.stream.end(), SiteLog::durable);
        gate.reopen((host, own), followers);
        match pending {
            Some(pending) => (pending.epoch, pending.in_sync) = (*epoch, in_sync.clone()),
            None => {
                site.continue_in_epoch(*epoch, in_sync, now_us);
                site.set_followed(!followers.is_empty() || log.is_some());
            }
        }
        let copies = in_sync.len();
        tracing::info!(%partition, epoch, copies, "a partition goes on with other copies");
        let Shard { replicas, placement, outbox, .. } = self;
        replicas[slot].hand_over_to_copies((now_us, true), placement, outbox);
        replicas[slot].send_to_copies(placement, outbox);
        self.end_hand_over(slot);
        self.take_waiting_calls();
        self.release_safe_of(slot);
    }

    /// A copy is to lead: the others get what they lack, and the coordinator hears what its log has
    /// undecided.
    fn begin_opening(&mut self, slot: Slot, (opening, site_log): (Opening, Option<SiteLog>)) {
        let Opening { partition, epoch, followers, in_sync, log } = opening;
        let following = self.replicas[slot].following.take();
        let (Some(following), Some((end, history, suffix))) = (following, log) else {
            unreachable!("the copy has followed until now")
        };
        let Following { follower, catalog, change, has_failed, .. } = *following;
        self.replicas[slot].log = site_log;
        if has_failed {
            // It lacks entries, or has others than its leader: no data is better than wrong data.
            tracing::error!(%partition, "a copy that is out of service is to lead");
            return self.cannot_lead(partition);
        }
        assert_eq!(follower.end(), end, "everything that came is here");
        let cluster_epoch = self.placement.epoch();
        let promotion = match Promotion::begin(follower, cluster_epoch, catalog.version()) {
            Ok(promotion) => promotion,
            Err(error) => {
                tracing::error!(%partition, "{error}");
                return self.cannot_lead(partition);
            }
        };
        let limits = replica_limits(&self.facts);
        let stream = ReplicaStream::open(epoch, end, history, &followers, suffix, limits);
        let own = (self.placement.host(), end);
        let replica = &mut self.replicas[slot];
        let copies_read = self.facts.options.follower_reads.is_on();
        let leading = Leading::of(stream).with_reads_at_copies(copies_read);
        replica.leading = Some(Box::new(leading));
        replica.gate = Gate::of_copies(own, replica.log.as_ref(), &followers);
        let pending = PendingOpening { promotion, catalog, change, epoch, in_sync, has_failed };
        replica.opening = Some(Box::new(pending));
        self.gates.holds_answers = true;
        tracing::info!(%partition, epoch, entries = end, "a copy takes over its partition");
        let Shard { replicas, placement, outbox, .. } = self;
        replicas[slot].send_to_copies(placement, outbox);
        self.report_undecided(slot);
    }

    /// Tells the coordinator what the log of a copy that is to lead has undecided.
    fn report_undecided(&mut self, slot: Slot) {
        let Some(pending) = &self.replicas[slot].opening else { return };
        let (end, report) = (pending.promotion.end(), pending.promotion.report());
        let coordinator = self.coordinator_thread();
        self.send_when_safe((slot, end), coordinator, Envelope::FromPartition(report));
    }

    /// The placement is another one: partitions that are led here, or are about to be, report to
    /// the coordinator if that `has_moved`, or if it has not heard them yet: it may have taken over
    /// in this epoch, and not in the one in which they have reported.
    pub(super) fn fence_partitions(&mut self, has_moved: bool) {
        let epoch = self.placement.epoch();
        for slot in self.replicas.slots() {
            if let Some(pending) = &mut self.replicas[slot].opening {
                if pending.promotion.fence(epoch, has_moved) {
                    self.report_undecided(slot);
                }
                continue;
            }
            let replica = &self.replicas[slot];
            let is_due = has_moved || replica.site.awaits_coordinator();
            if is_due && self.replicas.slot_of(replica.partition()).is_some() {
                let mut effects = std::mem::take(&mut self.spare_effects);
                partition::fence(&mut self.at_slot(slot), epoch, &mut effects);
                self.spare_effects = effects;
            }
        }
    }

    /// The coordinator said something to a partition that is not led here: it may be about to be.
    pub(super) fn coordinator_told_copy(&mut self, message: Numbered<Arc<HostCatalog>>) {
        if !self.replicas.has_copy(message.partition) {
            return tracing::debug!("a message of a coordinator for a copy that is gone");
        }
        let slot = self.replicas.slot_of_copy(message.partition);
        if self.replicas[slot].draining.is_some() {
            return self.coordinator_told_draining(slot, message);
        }
        // To a leader before, whose messages come again to the next one.
        let Some(pending) = &mut self.replicas[slot].opening else { return };
        pending.promotion.take_message(message);
        self.replicas.copies_to_apply.add(slot);
    }

    /// Goes on with a copy that is to lead: applies a slice of what is left. True if there is more.
    pub(super) fn go_on_opening(&mut self, slot: Slot) -> bool {
        match self.apply_rest(slot) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                tracing::error!("{error}");
                if let Some(pending) = &mut self.replicas[slot].opening {
                    pending.has_failed = true;
                    let partition = pending.promotion.follower().partition();
                    self.cannot_lead(partition);
                }
                false
            }
        }
    }

    fn apply_rest(&mut self, slot: Slot) -> Result<bool, FollowerError> {
        let partition_count = self.facts.partition_count;
        let limits = self.facts.options.sql_limits();
        let Some(pending) = &mut self.replicas[slot].opening else { return Ok(false) };
        if pending.has_failed {
            return Ok(false);
        }
        if let Some(change) = pending.change.take() {
            let follower = pending.promotion.follower();
            let (partition, entry) = (follower.partition(), follower.applied() + 1);
            let task = self.facts.find_prepared(&change);
            let task = task.map_err(|problem| FollowerError { partition, entry, problem })?;
            pending.promotion.change_catalog(&change, &task)?;
            pending.catalog = Arc::clone(&task.catalog);
            return Ok(true);
        }
        let catalog = Arc::clone(&pending.catalog);
        let sources = EntrySources { catalog: &*catalog, limits: &limits, partition_count };
        match pending.promotion.run(&sources)? {
            Applied::Idle => {}
            Applied::More => return Ok(true),
            Applied::Change(change) => {
                pending.change = Some(change);
                return Ok(true);
            }
        }
        if pending.promotion.is_ready() {
            self.end_opening(slot);
        }
        Ok(false)
    }

    /// Everything is applied: the copy leads.
    fn end_opening(&mut self, slot: Slot) {
        let pending = self.replicas[slot].opening.take().expect("it is about to lead");
        let PendingOpening { promotion, catalog, epoch, in_sync, .. } = *pending;
        let source = LogSource { epoch, incarnation: self.facts.incarnation() };
        let Led { mut site, effects, early } = promotion.lead(source, &in_sync, self.now_us);
        let partition = site.partition();
        site.set_stopwatch(clock::stopwatch_for(&self.facts.callers), clock::monotonic_ns);
        site.set_followed(in_sync.len() > 1 || self.replicas[slot].log.is_some());
        self.replicas[slot].site = site;
        self.replicas.lead(slot);
        if catalog.version() > self.catalog.version() {
            self.follow_catalog(catalog);
        }
        tracing::info!(%partition, epoch, "a copy leads its partition");
        for effect in effects {
            self.at_slot(slot).partition_effect(effect);
        }
        early.into_iter().for_each(|message| self.coordinator_asked_at(slot, message));
        self.take_waiting_calls();
    }

    /// Asks the control plane to put the copy of this host out of sync.
    pub(super) fn propose_out_of_sync(&mut self, partition: PartitionId, epoch: u32) {
        self.propose_out_of_sync_of(partition, self.facts.host, epoch);
    }

    /// Asks the control plane to put a copy out of sync, if the partition is still of that epoch.
    pub(super) fn propose_out_of_sync_of(
        &mut self,
        partition: PartitionId,
        host: HostId,
        epoch: u32,
    ) {
        let epoch = Epoch(epoch.into());
        let command = Command::OutOfSync { partition, host, epoch };
        let links = self.placement.links_thread();
        self.outbox.send(links, Envelope::Propose(Box::new(command)));
    }

    /// A call for a partition that is not led here: it waits if that is about to change, else it
    /// goes back to the thread where it came in.
    #[cold]
    pub(super) fn wait_for_lead(&mut self, partition: PartitionId, call: Envelope) {
        if let Some(failure) = self.never_led_here(partition) {
            return self.refuse_by_message(origin_of(&call), &failure);
        }
        let is_due = self.placement.leader_of(partition) == self.thread;
        match (is_due, self.may_wait()) {
            (true, true) => self.waiting_calls.push(call),
            (true, false) => self.refuse_elsewhere(origin_of(&call)),
            (false, _) => self.bounce(call),
        }
    }

    /// Whether one more call may wait for a partition or a placement.
    pub(super) fn may_wait(&self) -> bool {
        self.waiting_calls.len() < self.facts.options.max_held_calls.to_usize()
    }

    /// Whether a thread of this host may know a later placement than this one, which is about to
    /// hear of it: what it has sent is not to be sent on by an older one.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        waits_for_placement(self.facts.placement_epoch(), &self.placement)
    }

    /// A call that goes on to other hosts waits for a placement that this host has.
    #[cold]
    pub(super) fn wait_behind(&mut self, call: Envelope) {
        match self.may_wait() {
            true => self.waiting_calls.push(call),
            false => self.refuse_elsewhere(origin_of(&call)),
        }
    }

    /// Calls that waited for a partition to be led here, or for another placement.
    pub(super) fn take_waiting_calls(&mut self) {
        let waiting = std::mem::take(&mut self.waiting_calls);
        waiting.into_iter().for_each(|call| self.own_messages.push(call));
    }
}
