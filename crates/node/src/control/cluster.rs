//! What the control threads of several hosts do together. One of them leads
//! ([`lockstep_host::placement::Placement::lead_control`]): the others hand calls of system
//! procedures on to it, wherever they come in. It has every host prepare a change of the catalog
//! before the transaction begins that makes it, and asks every host for what only that one knows.

use super::members::is_of_any_host;
use super::merged::{merge_rebalance, merge_removed, merge_scans, read_tables};
use super::own_calls::LENGTH_BYTES;
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::codec::Received;
use crate::host_message::HostMessage;
use crate::message::{ControlRequest, Envelope, ForwardedAnswer, Origin, SnapshotStep};
use crate::own_call::OwnCall;
use lockstep_host::placement::Placement;
use lockstep_host::schema::change::prepare_change;
use lockstep_host::schema::{self, codec};
use lockstep_plan::system_procedures::SystemProcedureId;
use lockstep_site::{MultiWork, SchemaTask};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Failure, HostId, Status};
use lockstep_wire_volt::invocation::{CallOptions, encode};
use lockstep_wire_volt::{Invocation, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What other hosts owe the one that leads.
#[derive(Default)]
pub(super) struct OtherHosts {
    /// The change of the catalog that they prepare.
    preparing: Option<OrderedChange>,
    /// Calls that each host answers for itself, by their numbers.
    asked: BTreeMap<i64, AskedCall>,
    next_call: i64,
}

/// A change of the catalog that is prepared here.
struct OrderedChange {
    origin: Origin,
    task: Arc<SchemaTask<Arc<HostCatalog>>>,
    /// The hosts that have not answered.
    awaited: BTreeSet<HostId>,
    /// Why one of them cannot make it.
    failure: Option<Box<Failure>>,
}

/// A call that each host answers for itself.
struct AskedCall {
    origin: Origin,
    merge: Merge,
    /// By host, the body of its response.
    answers: BTreeMap<HostId, Vec<u8>>,
    /// The hosts that have not answered.
    awaited: BTreeSet<HostId>,
}

/// What is made of the responses of all hosts, none of which is a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// Their rows, in the order of the hosts.
    Rows,
    /// That of this host, or else of the first one: they are alike.
    First,
    /// This host's own: the others do the same, and are not waited for.
    Own,
    /// Their rows, with one for each snapshot, whichever hosts have parts of it.
    Snapshots,
    /// Their rows, without those of hosts that have no part of a snapshot which others removed.
    Removed,
    /// One row, of how far the copies are that move.
    Rebalance,
}

/// Calls that each host answers for itself; `None` for all others, which one host answers.
fn merge_of(id: SystemProcedureId, invocation: &Invocation<'_>) -> Option<Merge> {
    use SystemProcedureId as Id;
    let selector = || text_parameter(invocation, 0).unwrap_or("").to_ascii_uppercase();
    match id {
        // What one host knows for all: the placement, tasks, expired rows.
        Id::Statistics if ["TOPO", "PARTITIONCOUNT", "KSAFETY"].contains(&&*selector()) => None,
        Id::Statistics if selector().starts_with("TASK") || selector() == "TTL" => None,
        Id::Statistics if selector() == "REBALANCE" => Some(Merge::Rebalance),
        Id::Statistics | Id::ValidatePartitioning => Some(Merge::Rows),
        Id::SystemInformation if ["", "OVERVIEW"].contains(&&*selector()) => Some(Merge::Rows),
        Id::PingPartitions | Id::Pause | Id::Resume | Id::Quiesce | Id::GC => Some(Merge::First),
        Id::PrepareShutdown | Id::CancelShutdown => Some(Merge::First),
        // With a number it saves a snapshot first, which the host does that leads.
        Id::Shutdown if invocation.parameters.count() > 0 => None,
        Id::Shutdown => Some(Merge::Own),
        Id::UpdateLogging => Some(Merge::First),
        Id::SnapshotScan => Some(Merge::Snapshots),
        Id::SnapshotDelete => Some(Merge::Removed),
        _ => None,
    }
}

impl OtherHosts {
    /// Whether this host waits for others.
    pub(super) fn is_any_asked(&self) -> bool {
        self.preparing.is_some() || !self.asked.is_empty()
    }
}

impl Control {
    /// A call of a system procedure has come in: from here, or handed on by another host.
    pub(super) fn route_call(&mut self, origin: Origin, admin: bool, body: Arc<[u8]>) {
        let placement = self.facts.placement();
        let is_for_each = OwnCall::of(origin.connection) == Some(OwnCall::EachHost);
        if is_for_each || is_call_of_any_host(&body) {
            return self.call(SystemCall { origin, admin, body, time_limit: None });
        }
        if let Err(failure) = self.facts.intake.check_majority() {
            // The others may be out of reach.
            return match merge_of_call(&body) {
                Some(Merge::Rows | Merge::Rebalance | Merge::Own) => {
                    self.call(SystemCall { origin, admin, body, time_limit: None });
                }
                _ => self.answer_failure(origin, &failure),
            };
        }
        if !placement.leads_control() {
            let request = ControlRequest::Call { origin, admin, body };
            let lead = placement.lead_control();
            return self.outbox.send(lead, Envelope::Control(Box::new(request)));
        }
        if self.holds_call(origin, admin, &body) {
            return;
        }
        if placement.host_count() > 1
            && let Some(merge) = merge_of_call(&body)
        {
            return self.ask_each_host(origin, admin, &body, merge);
        }
        if let Some(origin) = self.caller_of(origin) {
            self.call(SystemCall { origin, admin, body, time_limit: None });
        }
    }

    fn ask_each_host(&mut self, origin: Origin, admin: bool, body: &Arc<[u8]>, merge: Merge) {
        let number = self.hosts.next_call;
        self.hosts.next_call += 1;
        if merge != Merge::Own {
            let awaited = self.facts.placement().hosts().collect();
            let asked = AskedCall { origin, merge, answers: BTreeMap::new(), awaited };
            self.hosts.asked.insert(number, asked);
        }
        let client = origin;
        let placement = self.facts.placement();
        let origin_of = |own: &Control, host: HostId| {
            let handle = number * i64::from(HostId::LIMIT) + i64::from(host.0);
            own.own_origin(OwnCall::EachHost, handle)
        };
        for host in placement.hosts().filter(|host| *host != placement.host()) {
            let (origin, body) = (origin_of(self, host), Arc::clone(body));
            let request = ControlRequest::Call { origin, admin, body };
            let control = placement.control_thread_of(host);
            self.outbox.send(control, Envelope::Control(Box::new(request)));
        }
        // Last: the call may end this host, and what is for the others is on its way before.
        let origin = match merge {
            Merge::Own => client,
            _ => origin_of(self, placement.host()),
        };
        self.call(SystemCall { origin, admin, body: Arc::clone(body), time_limit: None });
    }

    /// All hosts of the cluster end, this one last, as by `@Shutdown` without a parameter.
    pub(super) fn end_all_hosts(&mut self, origin: Origin) {
        let (mut frame, parameters) = (Vec::new(), ParameterWriter::default());
        encode(&mut frame, "@Shutdown", 0, &CallOptions::default(), parameters.bytes());
        let body: Arc<[u8]> = frame[LENGTH_BYTES..].into();
        self.ask_each_host(origin, true, &body, Merge::Own);
    }

    /// A host has answered a call that each answers for itself.
    pub(super) fn host_answered(&mut self, answer: &ForwardedAnswer) {
        let handle = answer.origin.handle;
        let limit = i64::from(HostId::LIMIT);
        let (number, host) = (handle / limit, HostId((handle % limit) as u32));
        let Some(asked) = self.hosts.asked.get_mut(&number) else { return };
        let body = answer.frame.get(LENGTH_BYTES..).unwrap_or_default().to_vec();
        asked.awaited.remove(&host);
        asked.answers.insert(host, body);
        self.answer_asked(number);
    }

    /// Another placement is in force: hosts that are lost answer nothing any more.
    pub(super) fn wait_for_hosts_that_are_left(&mut self, placement: &Placement) {
        let OtherHosts { preparing, asked, .. } = &mut self.hosts;
        preparing.iter_mut().for_each(|it| it.awaited.retain(|host| placement.is_up(*host)));
        asked.values_mut().for_each(|it| it.awaited.retain(|host| placement.is_up(*host)));
        let numbers: Vec<i64> = self.hosts.asked.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.answer_asked(number));
        self.order_prepared();
    }

    /// Answers a call that each host answers for itself, once all have that are left.
    fn answer_asked(&mut self, number: i64) {
        let is_complete = |asked: &AskedCall| asked.awaited.is_empty();
        if self.hosts.asked.get(&number).is_some_and(is_complete) {
            let asked = self.hosts.asked.remove(&number).expect("it was just found");
            self.answer_merged(&asked);
        }
    }

    fn answer_merged(&mut self, asked: &AskedCall) {
        let decoded: Result<Vec<Response<'_>>, _> =
            asked.answers.values().map(|body| Response::decode(body)).collect();
        let responses = match decoded {
            Ok(responses) => responses,
            Err(error) => {
                let text = format!("a host's response cannot be read: {error}");
                return self.answer_failure(asked.origin, &Failure::unexpected(text));
            }
        };
        if let Some(failed) = responses.iter().find(|response| !response.is_success()) {
            let text = failed.status_text.unwrap_or_default();
            let status = Status::from_code(failed.status).unwrap_or(Status::UnexpectedFailure);
            return self.answer_failure(asked.origin, &Failure::new(status, text));
        }
        let own = self.facts.host;
        let own = asked.answers.keys().position(|host| *host == own).unwrap_or(0);
        let kept = match asked.merge {
            Merge::Rows | Merge::Snapshots | Merge::Removed | Merge::Rebalance => &responses[..],
            Merge::First | Merge::Own => &responses[own..=own],
        };
        let mut tables = Vec::new();
        let merged = match asked.merge {
            Merge::Snapshots => merge_scans(kept, &mut tables),
            Merge::Removed => merge_removed(kept, &mut tables),
            Merge::Rebalance => merge_rebalance(kept, &mut tables),
            _ => merge_tables(kept, &mut tables),
        };
        let count = match merged {
            Ok(count) => count,
            Err(problem) => {
                let text = format!("a host's response cannot be read: {problem}");
                return self.answer_failure(asked.origin, &Failure::unexpected(text));
            }
        };
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(&tables);
            count
        };
        match responses[0].status_text.filter(|text| !text.is_empty()) {
            Some(text) => self.answer_with_text(asked.origin, text, write),
            None => self.answer_tables(asked.origin, write),
        }
    }

    /// Sends a change of the catalog to the coordinator, once every host has prepared it.
    pub(super) fn order_at_all_hosts(
        &mut self,
        origin: Origin,
        task: Arc<SchemaTask<Arc<HostCatalog>>>,
    ) {
        assert!(self.hosts.preparing.is_none(), "one change at a time");
        let placement = self.facts.placement();
        let awaited: BTreeSet<HostId> = placement.other_hosts().collect();
        for host in &awaited {
            let (catalog_version, source) = (task.catalog_version, task.source.to_vec());
            let lead = placement.host();
            let request = ControlRequest::PrepareChange { lead, catalog_version, source };
            let control = placement.control_thread_of(*host);
            self.outbox.send(control, Envelope::Control(Box::new(request)));
        }
        self.hosts.preparing = Some(OrderedChange { origin, task, awaited, failure: None });
        self.order_prepared();
    }

    /// Another host has prepared a change, or cannot make it.
    pub(super) fn host_prepared(
        &mut self,
        host: HostId,
        catalog_version: u64,
        failure: Option<Box<Failure>>,
    ) {
        let Some(ordered) = &mut self.hosts.preparing else { return };
        if ordered.task.catalog_version != catalog_version || !ordered.awaited.remove(&host) {
            return;
        }
        if let Some(failure) = failure {
            tracing::warn!(%host, %failure, "a host cannot make a change of the catalog");
            ordered.failure.get_or_insert(failure);
        }
        self.order_prepared();
    }

    /// Goes on with a change that all hosts have prepared, or gives it up.
    fn order_prepared(&mut self) {
        let Some(ordered) = self.hosts.preparing.take_if(|it| it.awaited.is_empty()) else {
            return;
        };
        let Some(failure) = ordered.failure else {
            let work = MultiWork::Schema(ordered.task);
            return self.send_multi(ordered.origin, Arc::from(&[][..]), None, work);
        };
        let placement = self.facts.placement();
        let catalog_version = self.schema.catalog().version();
        for host in placement.other_hosts() {
            let decided = ControlRequest::SchemaDecided { committed: false, catalog_version };
            let control = placement.control_thread_of(host);
            self.outbox.send_urgent(control, Envelope::Control(Box::new(decided)));
        }
        schema::decided(self, false);
        self.answer_failure(ordered.origin, &failure);
    }

    /// The host that leads has a change of the catalog, which it is to be ready for.
    pub(super) fn prepare_for_lead(&mut self, lead: HostId, catalog_version: u64, source: &[u8]) {
        let prepared = match self.schema.is_changing() {
            true => Err(Failure::unexpected("another change of the catalog is in progress")),
            false => {
                codec::decode(source).map_err(Failure::unexpected).and_then(|(change, planning)| {
                    let catalog = self.schema.catalog();
                    prepare_change(catalog, &self.change_settings(), change, &planning)
                })
            }
        };
        let failure = match prepared {
            Ok(change) if change.task.catalog_version == catalog_version => {
                let task = schema::follow(&mut self.schema, change);
                self.facts.note_prepared(&task);
                None
            }
            Ok(change) => Some(Failure::unexpected(format!(
                "it makes version {} of the catalog here, and {catalog_version} elsewhere",
                change.task.catalog_version
            ))),
            Err(failure) => Some(failure),
        };
        let host = self.facts.placement().host();
        let failure = failure.map(Box::new);
        let answer = ControlRequest::ChangePrepared { host, catalog_version, failure };
        let lead = self.facts.placement().control_thread_of(lead);
        self.outbox.send(lead, Envelope::Control(Box::new(answer)));
    }

    /// Messages of another host arrived, which may be anything.
    pub(super) fn take_incoming(&mut self, messages: &HostMessage) {
        let host = messages.peer.host();
        for bytes in messages.messages() {
            let taken = bytes.and_then(|bytes| self.take_received(host, bytes));
            if let Err(problem) = taken {
                // Nothing that comes after it can be taken.
                tracing::error!(%host, problem, "a message of another host is refused");
                let links = self.facts.placement().links_thread();
                return self.outbox.send(links, Envelope::EndSession(host));
            }
        }
    }

    /// Takes one of the messages that came together; an error says why it cannot be taken.
    fn take_received(&mut self, host: HostId, bytes: &[u8]) -> Result<(), String> {
        match self.read(bytes) {
            Ok(Received::Message(Envelope::Answer(answer))) if is_expected(&answer) => {
                self.own_answers.push_back(answer);
            }
            Ok(Received::Message(Envelope::Control(request)))
                if self.takes_from(host, &request) =>
            {
                self.take_message(Envelope::Control(request));
            }
            // Another host may lead by now, of which one of the two has not heard yet.
            Ok(_) if self.facts.placement().is_replicated() => {}
            Ok(_) => {
                return Err(
                    "it is not what the control thread takes from that host now".to_string()
                );
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }
}

impl Control {
    /// Whether a request may come from another host, as things are here.
    fn takes_from(&self, host: HostId, request: &ControlRequest) -> bool {
        let placement = self.facts.placement();
        let is_from_lead = placement.lead_control().host() == host;
        match request {
            ControlRequest::Call { .. } => true,
            ControlRequest::PrepareChange { lead, .. } => {
                *lead == host && (is_from_lead || placement.is_replicated())
            }
            // Another host may lead by now, of which this one has not heard yet.
            ControlRequest::SchemaDecided { .. } if placement.is_replicated() => true,
            ControlRequest::SchemaDecided { committed, catalog_version } => {
                // Of a snapshot, which has no change here, there is nothing to do.
                let is_in_force = *catalog_version <= self.schema.catalog().version();
                is_from_lead && (self.schema.is_ordered() || !committed || is_in_force)
            }
            ControlRequest::ChangePrepared { host: named, .. } => {
                placement.leads_control() && *named == host
            }
            ControlRequest::Surveyed { .. } | ControlRequest::ExpirySeen { .. } => {
                placement.leads_control()
            }
            ControlRequest::Snapshot { host: named, step, .. } => {
                let is_for_lead = matches!(
                    step,
                    SnapshotStep::Prepared { .. } | SnapshotStep::Saved { .. } | SnapshotStep::Due
                );
                let fits = if is_for_lead { placement.leads_control() } else { is_from_lead };
                *named == host && fits
            }
            ControlRequest::CatalogInForce { host: named, .. } => {
                placement.leads_control() && *named == host
            }
            ControlRequest::AskCatalog { host: named } => *named == host,
            // It may come twice.
            ControlRequest::CatalogGiven { .. } => placement.is_replicated(),
            ControlRequest::SchemaAnswer { .. }
            | ControlRequest::CatalogTaken { .. }
            | ControlRequest::Gathered { .. } => false,
        }
    }
}

/// Whether the control thread waits for such an answer.
fn is_expected(answer: &ForwardedAnswer) -> bool {
    let made_by = OwnCall::of(answer.origin.connection);
    made_by.is_some_and(|made_by| !matches!(made_by, OwnCall::Load | OwnCall::Procedure))
}

fn is_call_of_any_host(body: &[u8]) -> bool {
    Invocation::decode(body).is_ok_and(|invocation| is_of_any_host(&invocation))
}

fn merge_of_call(body: &[u8]) -> Option<Merge> {
    let invocation = Invocation::decode(body).ok()?;
    let procedure = lockstep_plan::system_procedures::SystemProcedure::find(invocation.procedure)?;
    merge_of(procedure.id, &invocation)
}

/// Appends the tables of all responses, each with the rows of all; returns their number.
fn merge_tables(responses: &[Response<'_>], out: &mut Vec<u8>) -> Result<u16, String> {
    let tables = read_tables(responses)?;
    tables.iter().for_each(|table| table.write(out));
    Ok(tables.len() as u16)
}
