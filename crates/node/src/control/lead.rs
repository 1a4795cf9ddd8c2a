//! What one control thread does for the whole cluster: changes of the catalog, tasks, row
//! expiration, builds of indexes. It is that of the coordinator's host, and another one's when that
//! host is lost or the coordinator is moved ([`super::lead_move`]). And what every control thread
//! does when hosts are lost.

use super::{Control, answer};
use crate::clock;
use crate::control::statistics::topology_tables;
use crate::message::{ControlRequest, Envelope, ForwardedAnswer};
use crate::own_call::OwnCall;
use lockstep_host::expiry;
use lockstep_host::placement::Placement;
use lockstep_host::schema::{self, index_build};
use lockstep_types::{HostId, Status, ThreadId};
use lockstep_wire_volt::topology::TOPOLOGY_CHANGED_HANDLE;
use lockstep_wire_volt::{Invocation, response};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The part of the lead control thread.
pub(super) struct Lead {
    /// This host has it.
    is_here: bool,
    /// Calls of tasks that sites of other hosts make, by their handles.
    task_calls: BTreeMap<i64, HostId>,
    /// By site of this host, the version of the catalog that it goes by.
    at_sites: BTreeMap<ThreadId, u64>,
    /// By host, the version that all of its sites go by.
    at_hosts: BTreeMap<HostId, u64>,
    /// Responses to changes of the catalog, which wait until all sites go by a version.
    answers: VecDeque<(u64, ForwardedAnswer)>,
}

impl Lead {
    /// As a host begins.
    pub(super) fn new(placement: &Placement) -> Lead {
        Lead {
            is_here: placement.leads_control(),
            task_calls: BTreeMap::new(),
            at_sites: BTreeMap::new(),
            at_hosts: BTreeMap::new(),
            answers: VecDeque::new(),
        }
    }

    /// Another host has it.
    pub(super) fn is_elsewhere(&mut self) {
        self.is_here = false;
    }

    /// Whether responses to changes of the catalog wait for other hosts.
    pub(super) fn awaits_hosts(&self) -> bool {
        !self.answers.is_empty()
    }

    /// A site of another host makes a task's call.
    pub(super) fn note_task_call(&mut self, host: HostId, body: &[u8]) {
        let call = Invocation::decode(body).expect("this host has made the call");
        self.task_calls.insert(call.client_handle, host);
    }

    /// A task's call has been answered.
    pub(super) fn task_call_ended(&mut self, handle: i64) {
        self.task_calls.remove(&handle);
    }
}

impl Control {
    /// Another placement is in force: what lost hosts were asked for is not waited for, and
    /// subscribers learn where the partitions are.
    pub(super) fn follow_placement(&mut self, placement: &Placement) {
        self.attend_to_rebalance(true);
        self.wait_for_hosts_that_are_left(placement);
        self.end_lost_task_calls(placement);
        self.answer_changes();
        self.snapshot_follows(placement);
        self.expiry.host_lost(clock::now_us());
        self.follow_lead();
        self.push_topology();
    }

    fn end_lost_task_calls(&mut self, placement: &Placement) {
        let calls = self.lead.task_calls.iter();
        let lost = calls.filter(|(_, host)| !placement.is_up(**host)).map(|(handle, _)| *handle);
        for handle in lost.collect::<Vec<i64>>() {
            let origin = self.own_origin(OwnCall::Task, handle);
            let (status, mut frame) = (Status::ResponseUnknown, Vec::new());
            let text = "the host that made the task's call is lost";
            response::write_simple(&mut frame, handle, status, Some(text));
            self.task_ended(&ForwardedAnswer { origin, status, frame });
        }
    }

    /// A change of the catalog is decided, by which this version is in force. One that is refused
    /// may not have come this far here; and a coordinator that took over tells of what it found,
    /// of which others may have heard before.
    pub(super) fn schema_decided(&mut self, committed: bool, catalog_version: u64) {
        let leads = self.facts.placement().leads_control();
        match self.schema.ordered_version() {
            Some(ordered) => schema::decided(self, ordered <= catalog_version),
            None if self.schema.is_ordered() && leads => schema::decided(self, committed),
            None => {
                let own = self.schema.catalog().version();
                assert!(!committed || catalog_version <= own, "a change that is made is prepared");
            }
        }
        if leads && !self.lead.is_here {
            self.begin_leading();
        }
    }

    /// The coordinator has taken over at this host, and what was in progress is decided.
    fn begin_leading(&mut self) {
        self.lead.is_here = true;
        tracing::info!("this host orders changes of the catalog, tasks and row expiration now");
        self.expiry.begin();
        expiry::set_tables(self);
        index_build::resume(self);
    }

    /// A catalog is in force: sites that lead no partition learn it from here.
    pub(super) fn tell_sites_of_catalog(&mut self) {
        let placement = self.facts.placement();
        if !placement.is_replicated() {
            return;
        }
        for site in placement.sites() {
            let catalog = Arc::clone(self.schema.catalog());
            self.outbox.send(site, Envelope::Catalog(catalog));
        }
    }

    /// A site of this host goes by a catalog.
    pub(super) fn catalog_taken(&mut self, thread: ThreadId, catalog_version: u64) {
        self.lead.at_sites.insert(thread, catalog_version);
        let placement = self.facts.placement();
        let of_site = |site: ThreadId| self.lead.at_sites.get(&site).copied().unwrap_or(0);
        let least = placement.sites().map(of_site).min().unwrap_or(0);
        let host = placement.host();
        if least < catalog_version {
            return;
        }
        if placement.leads_control() {
            return self.catalog_in_force_at(host, least);
        }
        let in_force = ControlRequest::CatalogInForce { host, catalog_version: least };
        self.outbox.send(placement.lead_control(), Envelope::Control(Box::new(in_force)));
    }

    /// All sites of a host go by a catalog.
    pub(super) fn catalog_in_force_at(&mut self, host: HostId, catalog_version: u64) {
        self.lead.at_hosts.insert(host, catalog_version);
        self.answer_changes();
    }

    /// The response to a change of the catalog: its client finds the catalog at any host.
    pub(super) fn answer_when_in_force(&mut self, catalog_version: u64, answer: ForwardedAnswer) {
        self.lead.answers.push_back((catalog_version, answer));
        self.answer_changes();
    }

    fn answer_changes(&mut self) {
        let placement = self.facts.placement();
        let at_hosts = &self.lead.at_hosts;
        let of_host = |host: HostId| at_hosts.get(&host).copied().unwrap_or(0);
        let least = placement.hosts().map(of_host).min().unwrap_or(0);
        while let Some((_, answer)) =
            self.lead.answers.pop_front_if(|(version, _)| *version <= least)
        {
            self.outbox.send(answer.origin.thread, Envelope::Answer(answer));
        }
    }

    /// Tells subscribers where the partitions are.
    fn push_topology(&mut self) {
        let (facts, mut frame) = (Arc::clone(&self.facts), Vec::new());
        let (handle, now_us) = (TOPOLOGY_CHANGED_HANDLE, clock::now_us());
        let write = |out: &mut Vec<u8>| topology_tables(out, &facts);
        answer::write_tables(&mut frame, handle, now_us, now_us, write);
        let frame: Arc<[u8]> = frame.into();
        for thread in self.facts.placement().sites() {
            self.outbox.send(thread, Envelope::Push(Arc::clone(&frame)));
        }
    }
}
