//! A replica of this thread as [`lockstep_host::partition`] sees it: what its calls are, how they
//! run, and what becomes of their answers.

use super::{HeldCall, HostSite, KeptAnswer, Shard, Slot};
use crate::catalog::HostCatalog;
use crate::message::{ControlRequest, Envelope, ForwardedAnswer, Origin, ViaCall};
use crate::statistics::ReplicaStatistics;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::HostTime;
use lockstep_host::partition::{self, PartitionHost};
use lockstep_site::{Numbered, PartitionEffect};
use lockstep_txn::EntryHeader;
use std::sync::Arc;

impl HostTime for Shard {
    #[inline]
    fn now_us(&self) -> i64 {
        self.now_us
    }
}

/// One replica of a thread, with all that its calls may need of the thread.
pub(super) struct AtReplica<'s> {
    shard: &'s mut Shard,
    slot: Slot,
}

impl HostTime for AtReplica<'_> {
    #[inline]
    fn now_us(&self) -> i64 {
        self.shard.now_us
    }
}

impl PartitionHost for AtReplica<'_> {
    type Call = HeldCall;
    type Answer = KeptAnswer;
    type Catalog = Arc<HostCatalog>;

    #[inline]
    fn site(&mut self) -> &mut HostSite {
        &mut self.shard.replicas[self.slot].site
    }

    #[inline]
    fn redirect(&mut self, call: HeldCall) -> Option<HeldCall> {
        match call {
            HeldCall::Invocation(call) if self.shard.is_misrouted(&call) => {
                self.shard.reroute(call);
            }
            HeldCall::AdHoc(call) if call.catalog_version != self.shard.catalog.version() => {
                self.shard.plan_again(call.origin, call.body);
            }
            call => return Some(call),
        }
        None
    }

    fn note_turn(&mut self, header: &EntryHeader, call: &HeldCall) {
        let Origin { procedure, arrived_us, .. } = call.origin();
        let waited = Elapsed::between_us(arrived_us, self.shard.now_us);
        self.statistics().count_held(procedure, waited, header.repeated);
    }

    #[inline]
    fn lead(&mut self, header: &EntryHeader, call: HeldCall) -> Option<HeldCall> {
        match call {
            HeldCall::Invocation(_) => Some(call),
            HeldCall::Via(via) => self.shard.hop_call(self.slot, header, via),
            HeldCall::AdHoc(call) => self.shard.hop_ad_hoc(self.slot, header, call),
        }
    }

    #[inline]
    fn runs_once(&self, call: &HeldCall) -> bool {
        self.shard.catalog.has_effects() && self.shard.call_runs_once(call)
    }

    #[inline]
    fn run(&mut self, header: &EntryHeader, call: HeldCall) {
        self.shard.run_held(self.slot, header, call);
    }

    fn run_speculatively(&mut self, header: &EntryHeader, call: &HeldCall) -> (KeptAnswer, usize) {
        self.statistics().count_speculative(call.origin().procedure);
        self.statistics().set_speculating(true);
        let answer = self.shard.execute_held(self.slot, header, call);
        self.statistics().set_speculating(false);
        let bytes = answer.frame.len();
        (answer, bytes)
    }

    #[cold]
    fn refuse_held(&mut self, call: HeldCall) {
        self.shard.refuse_call(&call);
    }

    #[inline(always)]
    fn partition_effect(
        &mut self,
        effect: PartitionEffect<HeldCall, KeptAnswer, Arc<HostCatalog>>,
    ) {
        match effect {
            PartitionEffect::Send(answer) => {
                let (shard, slot) = (&mut *self.shard, self.slot);
                let coordinator = shard.coordinator_thread();
                let entry = shard.replicas[slot].message_position();
                let message = Envelope::FromPartition(answer);
                shard.send_when_safe((slot, entry), coordinator, message);
            }
            PartitionEffect::Ran(run) => self.statistics().count_fragments(&run),
            PartitionEffect::CatalogInForce(catalog) => self.shard.follow_catalog(catalog),
            PartitionEffect::SnapshotBegun(begun) => {
                if !self.shard.snapshots.note_begun(self.slot, begun) {
                    self.shard.replicas[self.slot].site.end_snapshot();
                }
            }
            PartitionEffect::Answer(call, KeptAnswer { status, frame, entry }) => {
                let origin = call.origin();
                self.statistics().count_kept(origin.procedure, status);
                let answer = ForwardedAnswer { origin, status, frame };
                self.shard.answer_when_safe((self.slot, entry), answer);
                if let HeldCall::Invocation(call) | HeldCall::Via(ViaCall { call, .. }) = call {
                    self.shard.outbox.spare.give_back(call.body);
                }
            }
        }
    }
}

impl AtReplica<'_> {
    #[inline]
    fn statistics(&mut self) -> &mut ReplicaStatistics {
        &mut self.shard.replicas[self.slot].statistics
    }
}

impl Shard {
    #[inline]
    pub(super) fn at_slot(&mut self, slot: Slot) -> AtReplica<'_> {
        AtReplica { shard: self, slot }
    }

    /// The coordinator sent something to a partition of this thread.
    #[inline]
    pub(super) fn coordinator_asked_at(&mut self, slot: Slot, message: Numbered<Arc<HostCatalog>>) {
        let mut effects = std::mem::take(&mut self.spare_effects);
        partition::take_message(&mut self.at_slot(slot), message, &mut effects);
        self.spare_effects = effects;
    }

    /// A catalog is in force at a replica, and so for the whole thread. Replicas whose turn comes
    /// later run nothing until then: a schema change stops all partitions until it is decided.
    pub(super) fn follow_catalog(&mut self, catalog: Arc<HostCatalog>) {
        if catalog.version() == self.catalog.version() {
            return;
        }
        for replica in self.replicas.iter_mut() {
            replica.statistics.follow_catalog(&self.catalog, &catalog);
        }
        self.statistics.forget_procedures();
        self.several.one_rounds.clear();
        self.catalog = catalog;
        self.take_early_messages();
        self.tell_of_catalog();
    }

    /// A catalog is in force in the cluster. A thread that leads a partition goes by it when that
    /// does.
    pub(super) fn take_catalog(&mut self, catalog: Arc<HostCatalog>) {
        self.awaited_catalog = Some(catalog.version());
        if !self.replicas.has_leaders() && catalog.version() > self.catalog.version() {
            self.follow_catalog(catalog);
        }
        self.begin_learning();
        self.tell_of_catalog();
    }

    /// Tells the control thread of the catalog that it waits for.
    fn tell_of_catalog(&mut self) {
        let catalog_version = self.catalog.version();
        if self.awaited_catalog.take_if(|version| *version <= catalog_version).is_some() {
            let taken = ControlRequest::CatalogTaken { thread: self.thread, catalog_version };
            let control = self.control_thread();
            self.outbox.send(control, Envelope::Control(Box::new(taken)));
        }
    }
}
