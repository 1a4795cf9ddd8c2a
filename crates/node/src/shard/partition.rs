//! This thread's partition as [`lockstep_host::partition`] sees it: what its calls are, how they
//! run, and what becomes of their answers.

use super::{HeldCall, HostSite, KeptAnswer, Shard};
use crate::catalog::HostCatalog;
use crate::message::{Envelope, ForwardedAnswer, Origin, ViaCall};
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

impl PartitionHost for Shard {
    type Call = HeldCall;
    type Answer = KeptAnswer;
    type Catalog = Arc<HostCatalog>;

    #[inline]
    fn site(&mut self) -> &mut HostSite {
        &mut self.site
    }

    #[inline]
    fn redirect(&mut self, call: HeldCall) -> Option<HeldCall> {
        match call {
            HeldCall::Invocation(call) if self.has_outgrown(&call) => self.reroute(call),
            HeldCall::AdHoc(call) if call.catalog_version != self.catalog.version() => {
                self.plan_again(call.origin, call.body);
            }
            call => return Some(call),
        }
        None
    }

    fn note_turn(&mut self, header: &EntryHeader, call: &HeldCall) {
        let Origin { procedure, arrived_us, .. } = call.origin();
        let waited = Elapsed::between_us(arrived_us, self.now_us);
        self.statistics.count_held(procedure, waited, header.repeated);
    }

    #[inline]
    fn lead(&mut self, header: &EntryHeader, call: HeldCall) -> Option<HeldCall> {
        match call {
            HeldCall::Invocation(_) => Some(call),
            HeldCall::Via(via) => self.lead_call(header, via),
            HeldCall::AdHoc(call) => self.lead_ad_hoc(header, call),
        }
    }

    #[inline]
    fn runs_once(&self, call: &HeldCall) -> bool {
        self.catalog.has_effects() && self.call_runs_once(call)
    }

    #[inline]
    fn run(&mut self, header: &EntryHeader, call: HeldCall) {
        self.run_held(header, call);
    }

    fn run_speculatively(&mut self, header: &EntryHeader, call: &HeldCall) -> (KeptAnswer, usize) {
        self.statistics.count_speculative(call.origin().procedure);
        self.statistics.set_speculating(true);
        let answer = self.execute_held(header, call);
        self.statistics.set_speculating(false);
        let bytes = answer.frame.len();
        (answer, bytes)
    }

    #[cold]
    fn refuse_held(&mut self, call: HeldCall) {
        self.refuse_call(&call);
    }

    fn partition_effect(
        &mut self,
        effect: PartitionEffect<HeldCall, KeptAnswer, Arc<HostCatalog>>,
    ) {
        match effect {
            PartitionEffect::Send(answer) => {
                let coordinator = self.coordinator_thread();
                let entry = self.told_behind();
                self.send_behind(entry, coordinator, Envelope::FromPartition(answer));
            }
            PartitionEffect::Ran(run) => self.statistics.count_fragments(&run),
            PartitionEffect::CatalogInForce(catalog) => {
                self.statistics.follow_catalog(&self.catalog, &catalog);
                self.one_rounds.clear();
                self.catalog = catalog;
                self.take_early_messages();
            }
            PartitionEffect::SnapshotBegun(begun) => self.snapshot_begun(begun),
            PartitionEffect::Answer(call, KeptAnswer { status, frame, entry }) => {
                let origin = call.origin();
                self.statistics.count_kept(origin.procedure, status);
                self.answer_behind(entry, ForwardedAnswer { origin, status, frame });
                if let HeldCall::Invocation(call) | HeldCall::Via(ViaCall { call, .. }) = call {
                    self.recycle(call.body);
                }
            }
        }
    }
}

impl Shard {
    /// The coordinator sent something to this thread's partition.
    pub(super) fn coordinator_asked(&mut self, message: Numbered<Arc<HostCatalog>>) {
        let mut effects = std::mem::take(&mut self.spare_effects);
        partition::take_message(self, message, &mut effects);
        self.spare_effects = effects;
    }
}
