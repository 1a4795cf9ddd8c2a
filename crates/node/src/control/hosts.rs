//! Hosts that are added to the cluster and removed from it: `@AddHost`, `@RemoveHost` and
//! `@KeepHost`. The control plane lists the hosts, and the leader of its group has the copies
//! moved; a host that is removed stops by itself when it has none.

use super::Control;
use super::copies::Change;
use super::moves::host_parameter;
use super::stop_node::what_is_lost;
use super::system::text_parameter;
use crate::clock;
use crate::message::Origin;
use lockstep_base::elapsed::Elapsed;
use lockstep_cluster::{ClusterState, HostPlan};
use lockstep_host::schema::Handled;
use lockstep_types::{Datum, Failure, HostId, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;
use std::net::SocketAddr;
use std::time::Duration;

/// Between two looks at a host that is being removed.
const LOOK_MS: u64 = 50;

impl Control {
    /// `@AddHost`.
    pub(super) fn add_host(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let given = text_parameter(invocation, 0).unwrap_or_default();
        let address: SocketAddr = given.parse().map_err(|_| {
            Failure::graceful(format!(
                "The host is not added: '{given}' is no address and port at which it listens for \
                 the other hosts, such as 10.0.0.4:3021"
            ))
        })?;
        if address.port() == 0 || address.ip().is_unspecified() {
            return Err(Failure::graceful(format!(
                "The host is not added: other hosts cannot connect to {address}"
            )));
        }
        self.change_copies(origin, &Change::Add(address.to_string()))
    }

    /// `@RemoveHost`.
    pub(super) fn remove_host(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let host = host_parameter(invocation, 0)?;
        self.change_copies(origin, &Change::Plan(host, HostPlan::Leaves))
    }

    /// `@KeepHost`.
    pub(super) fn keep_host(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let host = host_parameter(invocation, 0)?;
        self.change_copies(origin, &Change::Plan(host, HostPlan::Stays))
    }

    /// A host was added: how it is started.
    pub(super) fn answer_addition(&mut self, origin: Origin, host: HostId, state: &ClusterState) {
        let peers = peers(state);
        let address = &state.hosts[&host].description.internal_address;
        let text =
            format!("Host {host} is to join: start it with --internal {address} --peers {peers}");
        self.answer_with_text(origin, &text, |out| {
            let schema =
                TableSchema::new(&[("HOST_ID", SqlType::Integer), ("PEERS", SqlType::Varchar)]);
            let mut table = TableBuilder::begin(out, &schema);
            table.row(&schema, &[Datum::Int(host.0.into()), Datum::Text(&peers)]);
            table.finish();
            1
        });
    }

    /// Whether this host is being removed, and others have all that it had.
    fn is_to_stop(&self, state: &ClusterState) -> bool {
        let own = self.facts.host;
        let has_none = state.partitions.iter().all(|partition| {
            partition.copies.iter().chain(&partition.learning).all(|copy| copy.host != own)
        });
        state.leaves(own) && state.serves(own) && has_none
    }

    /// A host that is being removed stops when others have all copies that it had.
    pub(super) fn attend_to_removal(&mut self) {
        if self.removal_time_left().is_none() {
            return;
        }
        let Ok(state) = self.state_of_cluster() else { return };
        // While the others would be no majority, it stays.
        let is_needed = what_is_lost(&state, self.facts.host).is_some();
        if !self.is_to_stop(&state) || is_needed {
            self.empty_since_us = None;
            return;
        }
        let now_us = clock::now_us();
        let since_us = *self.empty_since_us.get_or_insert(now_us);
        if !self.facts.placement().leads_control() {
            // A host that has heard nothing for longer than this is suspected: by then none sends
            // calls here, and neither does a client that follows the topology.
            let known_us = self.facts.options.suspect_after_ms.us() as u64;
            if Elapsed::between_us(since_us, now_us).us() >= known_us {
                tracing::warn!("the host has no copies any more and is removed: it stops");
                self.leave();
            }
            return;
        }
        if let Err(failure) = self.move_lead(&state) {
            // It is tried again.
            tracing::warn!(problem = failure.message, "the host is not removed yet");
        }
    }

    /// Until the next look, where this host is being removed.
    pub(super) fn removal_time_left(&self) -> Option<Duration> {
        let leaves = self.facts.leaves() && !self.facts.departure.is_planned();
        leaves.then_some(Duration::from_millis(LOOK_MS))
    }
}

/// The hosts and the witness as the option `--peers` names them: those with which the cluster was
/// made in their order, and those that were added with their numbers.
fn peers(state: &ClusterState) -> String {
    let at = |host: HostId| match state.hosts.get(&host) {
        Some(record) => record.description.internal_address.clone(),
        None => "removed".to_string(),
    };
    let made = state.shape.members();
    let first = (0..made).map(|number| at(HostId(number)));
    let added = state.hosts.keys().filter(|host| host.0 >= made);
    let added = added.map(|host| format!("{host}={}", at(*host)));
    first.chain(added).collect::<Vec<String>>().join(",")
}
