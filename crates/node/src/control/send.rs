//! Work of the control thread on its way to the partitions and to the coordinator.

use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::message::{AdHocCall, Envelope, MultiOrigin, MultiRequest, Origin};
use lockstep_exec::watch::TimeLimit;
use lockstep_host::statements::{
    StatementVia, StatementsDestination, StatementsWay, statements_way,
};
use lockstep_host::unavailable::cannot_serve;
use lockstep_site::{Home, MultiWork, StatementCall};
use lockstep_types::PartitionId;
use std::sync::Arc;

impl Control {
    /// Sends to the coordinator what runs at several partitions.
    pub(super) fn send_multi(
        &mut self,
        origin: Origin,
        body: Arc<[u8]>,
        time_limit: Option<TimeLimit>,
        work: MultiWork<Arc<HostCatalog>>,
    ) {
        self.send_multi_at(origin, body, time_limit, None, work);
    }

    /// Sends to the coordinator what runs at one partition and changes index entries at others.
    fn send_multi_at(
        &mut self,
        origin: Origin,
        body: Arc<[u8]>,
        time_limit: Option<TimeLimit>,
        home: Option<Home>,
        work: MultiWork<Arc<HostCatalog>>,
    ) {
        let catalog_version = self.schema.catalog().version();
        let request = MultiRequest {
            origin: MultiOrigin { origin, body: Some(body) },
            procedure_number: origin.procedure,
            catalog_version,
            time_limit,
            declared: Vec::new(),
            home,
            led: None,
            work,
        };
        let coordinator = self.facts.placement().coordinator();
        self.outbox.send(coordinator, Envelope::Multi(Box::new(request)));
    }

    /// Sends bound statements to where they run.
    pub(super) fn send_work(
        &mut self,
        call: SystemCall,
        work: StatementCall,
        destination: StatementsDestination,
    ) {
        match statements_way(&self.facts.ring, &work, destination) {
            StatementsWay::At(partition, via) => self.send_to_partition(call, work, partition, via),
            StatementsWay::Several(home) => {
                let work = MultiWork::Statements(work);
                self.send_multi_at(call.origin, call.body, call.time_limit, home, work);
            }
        }
    }

    fn send_to_partition(
        &mut self,
        call: SystemCall,
        work: StatementCall,
        partition: PartitionId,
        via: Option<StatementVia>,
    ) {
        if self.facts.unavailable.has(partition) {
            return self.answer_failure(call.origin, &cannot_serve(&[partition]));
        }
        let ad_hoc = AdHocCall {
            origin: call.origin,
            body: call.body,
            catalog_version: self.schema.catalog().version(),
            time_limit: call.time_limit,
            call: work,
            via,
        };
        let thread = self.facts.placement().leader_of(partition);
        self.outbox.send(thread, Envelope::AdHoc(partition, Box::new(ad_hoc)));
    }
}
