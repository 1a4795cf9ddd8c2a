//! `@StopNode`: one host of a cluster is stopped while the others go on. First its leaders move to
//! hosts with copies, and what it does for all hosts to another one; then it stops as by
//! `@Shutdown`, and leaves the cluster before its process ends. A stop that
//! would cost a partition its last copy, or the cluster its majority, is refused, unless it is
//! forced.

use super::Control;
use super::moves::{away_from, check_host, host_parameter};
use super::waiting_moves::Aim;
use crate::clock;
use crate::message::Origin;
use crate::own_call::OwnCall;
use lockstep_cluster::{ClusterState, HostState};
use lockstep_host::schema::Handled;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Failure, HostId, Parameter, PartitionId};
use lockstep_wire_volt::Invocation;
use lockstep_wire_volt::invocation::{CallOptions, encode};
use std::sync::Arc;

/// How long another host that stops may still be among those that serve.
const STOP_PATIENCE_US: i64 = 30_000_000;

/// A host that is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StopOf {
    pub(super) host: HostId,
    /// Whatever that costs.
    pub(super) is_forced: bool,
}

/// The host that was stopped last, and until when it may take.
#[derive(Default)]
pub(super) struct StoppingHost(Option<(HostId, i64)>);

impl StoppingHost {
    /// Another host that stops, and still serves.
    fn other_than(&self, host: HostId, state: &ClusterState, now_us: i64) -> Option<HostId> {
        let (stopping, until_us) = self.0?;
        (stopping != host && state.serves(stopping) && now_us < until_us).then_some(stopping)
    }
}

impl Control {
    /// `@StopNode`.
    pub(super) fn stop_node(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let stop = self.wanted_stop(invocation)?;
        if OwnCall::of(origin.connection) == Some(OwnCall::EachHost) {
            // The host that leads has moved everything away from here. Nobody waits for a response.
            self.leave();
            return Ok(Handled::Pending);
        }
        let state = self.check_stop(stop)?;
        let moves = match (away_from(&state, stop.host), stop.is_forced) {
            (Ok(moves), _) => moves,
            (Err(_), true) => Vec::new(),
            (Err(failure), false) => return Err(failure),
        };
        self.move_leaders(origin, &moves, Aim::Stop(stop))
    }

    fn wanted_stop(&self, invocation: &Invocation<'_>) -> Result<StopOf, Failure> {
        if invocation.parameters.get(0).is_none() {
            return Err(Failure::graceful("@StopNode must provide hostId"));
        }
        let host = host_parameter(invocation, 0)?;
        let forced = invocation.parameters.get(1);
        let is_forced = matches!(forced, Some(Ok(Parameter::Scalar(_, Datum::Int(1)))));
        Ok(StopOf { host, is_forced })
    }

    /// The state, if the host may stop.
    fn check_stop(&self, stop: StopOf) -> Result<Arc<ClusterState>, Failure> {
        let StopOf { host, is_forced } = stop;
        let state = self.facts.cluster_state.lock().expect("no thread panicked with it");
        let Some(state) = state.as_ref().map(Arc::clone).filter(|it| it.shape.k > 0) else {
            return Err(match host.0 < self.facts.placement().host_count() {
                true => unsafe_to_stop(
                    host,
                    "Stopping individual nodes is only allowed on a K-safe cluster. Stop the \
                     process instead.",
                ),
                false => Failure::graceful(format!(
                    "Invalid Host Id or Host Id not member of cluster: {host}"
                )),
            });
        };
        check_host(&state, host)?;
        if self.facts.on_shutdown.get().is_none() {
            return Err(Failure::graceful("This host ends with the program that it is part of."));
        }
        if is_forced {
            return Ok(state);
        }
        if let Some(other) = self.stopping_host.other_than(host, &state, clock::now_us()) {
            let text = format!("Host {other} stops already: call again when it is down.");
            return Err(unsafe_to_stop(host, &text));
        }
        match what_is_lost(&state, host) {
            None => Ok(state),
            Some(why) => Err(unsafe_to_stop(host, &why)),
        }
    }

    /// Nothing more is led there, as far as that could be had: the host stops.
    ///
    /// # Errors
    /// It may not stop any more: another host was lost meanwhile.
    pub(super) fn stop_host(&mut self, origin: Origin, stop: StopOf) -> Result<(), Failure> {
        self.check_stop(stop)?;
        let StopOf { host, is_forced } = stop;
        self.stopping_host.0 = Some((host, clock::now_us() + STOP_PATIENCE_US));
        tracing::warn!(%host, is_forced, "a host is stopped by an administrator");
        // First: this may be the host that stops.
        self.answer_status(origin)?;
        self.ask_to_leave(host);
        Ok(())
    }
}

/// The call by which the host that leads has another one stop, without the length of its frame.
pub(super) fn stop_call(host: HostId) -> Arc<[u8]> {
    let (mut frame, mut parameters) = (Vec::new(), ParameterWriter::default());
    parameters.integer(i32::try_from(host.0).expect("numbers of hosts are small"));
    encode(&mut frame, "@StopNode", 0, &CallOptions::default(), parameters.bytes());
    frame[super::own_calls::LENGTH_BYTES..].into()
}

fn unsafe_to_stop(host: HostId, why: &str) -> Failure {
    Failure::graceful(format!(
        "It's unsafe to shutdown node {host}. Cannot stop the requested node. {why}"
    ))
}

/// What the others cannot do without a host; nothing where they go on.
pub(super) fn what_is_lost(state: &ClusterState, host: HostId) -> Option<String> {
    let serves = |other: HostId| other != host && state.serves(other);
    let mut lost: Vec<String> = Vec::new();
    for (partition, placed) in (0..).map(PartitionId).zip(&state.partitions) {
        let has_copy = placed.copy_at(host).is_some();
        if has_copy && !placed.copies.iter().any(|copy| serves(copy.host)) {
            lost.push(partition.to_string());
        }
    }
    if !lost.is_empty() {
        return Some(format!(
            "No other host has a copy in sync of partition {}. With the second parameter 1 it is \
             stopped all the same.",
            lost.join(", ")
        ));
    }
    let is_up = |other: &HostId| {
        let record = state.hosts.get(other);
        *other != host && record.is_some_and(|record| record.state == HostState::Up)
    };
    let (voters, left) = (state.voters().count(), state.voters().filter(is_up).count());
    (left * 2 <= voters).then(|| {
        format!(
            "The {left} hosts with a vote that are left of {voters} are no majority, and would \
             serve nothing. With the second parameter 1 it is stopped all the same."
        )
    })
}
