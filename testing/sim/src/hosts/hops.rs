//! Statements that a global index leads to their rows: from the host of the index to that of the
//! row, wherever these are led by then.

use super::expiry::deletion_of;
use super::replica::At;
use super::{HostCall, Said};
use crate::plans::{LocalWork, Planned};
use lockstep_host::several::CoordinatorCall;
use lockstep_site::{IndexHop, MultiCall, MultiWork, ViaNext};
use lockstep_txn::EntryHeader;
use lockstep_types::PartitionId;

/// How often an index is asked for the row of a statement.
const LOOKUPS_MAX: u64 = 4;

impl At<'_> {
    /// It is a call's turn here: gives it back if it is to run here.
    pub(super) fn hop(&mut self, header: &EntryHeader, mut call: HostCall) -> Option<HostCall> {
        let LocalWork::Statements(work, Some(via)) = &mut call.work else { return Some(call) };
        let replica = self.host.replicas.get_mut(&self.partition).expect("calls come to copies");
        let next = via.next(&mut replica.site, header, LOOKUPS_MAX);
        let next = next.expect("the index is there, and its keys are integers");
        if next == ViaNext::Run {
            return Some(call);
        }
        replica.site.withdraw(header, work.read_only);
        self.shared.report.hops += 1;
        let (to, hop) = match next {
            ViaNext::Row(row) => (row, IndexHop::Row),
            ViaNext::Index => (via.index, IndexHop::Index),
            ViaNext::GiveUp | ViaNext::Run => {
                let several = CoordinatorCall::Multi(Box::new(MultiCall {
                    origin: call.call,
                    procedure_number: 0,
                    catalog_version: call.catalog_version,
                    time_limit: None,
                    declared: Vec::new(),
                    home: None,
                    led: None,
                    work: MultiWork::Statements(work.clone()),
                }));
                let coordinator = self.host.placement.coordinator().host();
                self.host.send(coordinator, Said::Multi(Box::new(several)));
                return None;
            }
        };
        via.hop = hop;
        self.send_on(to, call);
        None
    }

    /// A call that a change of the schema overtook: it begins again where the index is, if one
    /// leads it.
    pub(super) fn overtaken(&mut self, call: HostCall) -> Option<HostCall> {
        if deletion_of(call.call).is_some() && call.catalog_version != self.host.version {
            self.host.bounce(call.call, self.shared);
            return None;
        }
        let is_led = matches!(call.work, LocalWork::Statements(_, Some(_)));
        if !is_led || call.catalog_version == self.host.version {
            return Some(self.host.plan_again(call, self.shared));
        }
        let version = self.host.version;
        match self.shared.plan_with(self.host, call.call, version) {
            Planned::Partition(to, work) => {
                self.send_on(to, HostCall { work, catalog_version: version, ..call });
            }
            _ => unreachable!("the index stays"),
        }
        None
    }

    fn send_on(&mut self, to: PartitionId, call: HostCall) {
        let (host, epoch) = (self.host.placement.leader_of(to).host(), self.host.placement.epoch());
        self.host.send(host, Said::Call(to, HostCall { epoch, ..call }));
    }
}
