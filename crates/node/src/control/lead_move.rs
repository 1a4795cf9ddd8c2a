//! The coordinator of transactions moves to another host on purpose, and with it what the control
//! thread beside it does for all hosts: changes of the catalog, tasks, row expiration. First what
//! this thread has in progress ends, while calls go on. Then calls for it wait, for as long as the
//! coordinator's transactions in progress take, and go to the host that has it then.

use super::Control;
use crate::clock;
use crate::message::{ControlRequest, Envelope, Origin};
use crate::own_call::OwnCall;
use lockstep_cluster::ClusterState;
use lockstep_host::hand_over::next_coordinator;
use lockstep_types::{Failure, HostId, Status};
use std::collections::VecDeque;
use std::sync::Arc;

/// The planned move of what this host does for all.
#[derive(Default)]
pub(super) struct LeadMove {
    moving: Option<Moving>,
    /// Calls that wait for it.
    held: VecDeque<(Origin, bool, Arc<[u8]>)>,
}

/// A move that is in progress.
struct Moving {
    to: HostId,
    /// It is given up then.
    until_us: i64,
    /// Nothing is in progress here, and the coordinator is to move when that is so there, too.
    is_ordered: bool,
}

impl LeadMove {
    /// Whether nothing begins of its own accord.
    pub(super) fn is_any(&self) -> bool {
        self.moving.is_some()
    }

    /// Whether calls wait.
    fn holds_calls(&self) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.is_ordered)
    }
}

impl Control {
    /// Has what this host does for all move to another host: to be called from time to time while
    /// it is here.
    ///
    /// # Errors
    /// It stays, because of what is named.
    pub(super) fn move_lead(&mut self, state: &ClusterState) -> Result<(), Failure> {
        let now_us = clock::now_us();
        let host = self.facts.host;
        let Some(to) = next_coordinator(state, host) else {
            let text = format!("no other host has copies: what host {host} does for all stays");
            self.end_lead_move();
            return Err(Failure::graceful(text));
        };
        let until_us = now_us + self.facts.options.hand_over_timeout_ms.us();
        if !self.lead_move.is_any() {
            tracing::info!(%to, "the coordinator of transactions is to move");
            self.expiry.stop();
        }
        let moving =
            self.lead_move.moving.get_or_insert(Moving { to, until_us, is_ordered: false });
        if now_us > moving.until_us {
            let what = self.lead_work().unwrap_or("a transaction over several partitions");
            let text = format!(
                "Host {host} still runs transactions over several partitions: {what} in progress \
                 takes longer than hand_over_timeout_ms"
            );
            self.end_lead_move();
            return Err(Failure::graceful(text));
        }
        let (is_ordered, is_current) = (moving.is_ordered, moving.to == to);
        if is_ordered && is_current || !is_ordered && self.lead_work().is_some() {
            return Ok(());
        }
        self.lead_move.moving = Some(Moving { to, until_us, is_ordered: true });
        let coordinator = self.facts.placement().coordinator();
        self.outbox.send(coordinator, Envelope::MoveCoordinator(Some(to)));
        Ok(())
    }

    /// What this thread has in progress for all hosts, which another one could not finish.
    fn lead_work(&self) -> Option<&'static str> {
        if !self.schema.is_quiet() || self.preparing.is_some() || self.lead.awaits_hosts() {
            return Some("a change of the schema");
        }
        if self.restoring.is_some() {
            return Some("a restore of a snapshot");
        }
        if self.tasks.in_progress() > 0 {
            return Some("a call of a task");
        }
        self.hosts.is_any_asked().then_some("a call that all hosts answer")
    }

    /// Whether a call waits for the move of what this host does for all. Too many are refused.
    pub(super) fn holds_call(&mut self, origin: Origin, admin: bool, body: &Arc<[u8]>) -> bool {
        if !self.lead_move.holds_calls() || OwnCall::of(origin.connection).is_some() {
            return false;
        }
        let limit = self.facts.options.max_planner_queue.to_usize();
        match self.lead_move.held.len() < limit {
            true => self.lead_move.held.push_back((origin, admin, Arc::clone(body))),
            false => {
                let text = format!(
                    "too many calls wait for the move of the coordinator (limit {limit}, option \
                     max_planner_queue): retry later"
                );
                self.answer_failure(origin, &Failure::new(Status::ServerUnavailable, text));
            }
        }
        true
    }

    /// Another placement is in force: where another host leads, calls that waited go there.
    pub(super) fn follow_lead(&mut self) {
        if self.facts.placement().leads_control() {
            return;
        }
        self.lead.is_elsewhere();
        self.expiry.stop();
        self.lead_move.moving = None;
        self.route_held();
    }

    /// What this host does for all stays here.
    fn end_lead_move(&mut self) {
        let Some(moving) = self.lead_move.moving.take() else { return };
        if moving.is_ordered {
            let coordinator = self.facts.placement().coordinator();
            self.outbox.send(coordinator, Envelope::MoveCoordinator(None));
        }
        self.expiry.begin();
        self.route_held();
    }

    fn route_held(&mut self) {
        for (origin, admin, body) in std::mem::take(&mut self.lead_move.held) {
            self.route_call(origin, admin, body);
        }
    }

    /// Leaves the cluster: the process stops when nothing is in progress here, and the other hosts
    /// go on at once.
    pub(super) fn leave(&self) {
        let facts = Arc::clone(&self.facts);
        let Some(stop) = facts.on_shutdown.get() else { return };
        facts.departure.plan();
        stop();
    }

    /// Another host, or this one, asks this host to leave.
    pub(super) fn ask_to_leave(&mut self, host: HostId) {
        let placement = self.facts.placement();
        if host == placement.host() {
            return self.leave();
        }
        let origin = self.own_origin(OwnCall::EachHost, i64::MAX);
        let body = super::stop_node::stop_call(host);
        let request = ControlRequest::Call { origin, admin: true, body };
        let control = placement.control_thread_of(host);
        self.outbox.send(control, Envelope::Control(Box::new(request)));
    }
}
