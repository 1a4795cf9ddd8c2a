//! Leaders that administrators move: `@MigratePartitionLeader`, `@PrepareStopNode` and, before
//! a host stops, `@StopNode`. The control plane is asked to begin each move; how it ends shows in
//! the placement.

use super::Control;
use super::stop_node::StopOf;
use super::waiting_moves::{Aim, Placed, WaitingCall};
use crate::clock;
use crate::message::{Envelope, Origin};
use lockstep_cluster::ClusterState;
use lockstep_host::schema::Handled;
use lockstep_types::{Datum, Failure, HostId, Parameter, PartitionId};
use lockstep_wire_volt::Invocation;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at moves that have begun.
const LOOK_MS: u64 = 20;

/// The calls that wait for leaders to be moved.
#[derive(Default)]
pub(super) struct LeaderMoves {
    waiting: Vec<WaitingCall>,
}

impl LeaderMoves {
    /// Until something is due.
    pub(super) fn time_left(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(Duration::from_millis(LOOK_MS))
    }
}

impl Control {
    /// `@MigratePartitionLeader`.
    pub(super) fn migrate_leader(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let state = self.state_with_copies()?;
        let (partition, to) = (number(invocation, 0)?, host_parameter(invocation, 1)?);
        let count = state.partitions.len();
        let partition = u32::try_from(partition).ok().map(PartitionId);
        let known = partition.filter(|partition| partition.index() < count);
        let partition = known.ok_or_else(|| {
            let last = count - 1;
            Failure::graceful(format!("There is no such partition: the partitions are 0 to {last}"))
        })?;
        check_host(&state, to)?;
        let placed = &state.partitions[partition.index()];
        if placed.leader == to {
            let text = format!("Host {to} leads partition {partition} already");
            self.answer_with_text(origin, &text, super::answer::write_status);
            return Ok(Handled::Answered);
        }
        if placed.copy_at(to).is_none() {
            let hosts: Vec<String> = placed.followers().map(|host| host.to_string()).collect();
            let hosts = if hosts.is_empty() { "no other host".into() } else { hosts.join(", ") };
            return Err(Failure::graceful(format!(
                "Host {to} has no copy of partition {partition} that is in sync: it could be led \
                 by {hosts}"
            )));
        }
        self.move_leaders(origin, &[(partition, to)], Aim::Move)
    }

    /// `@PrepareStopNode`: the leaders of a host move to hosts with copies, and the coordinator to
    /// another host if it is there.
    pub(super) fn prepare_stop_node(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let state = self.state_with_copies()?;
        let host = host_parameter(invocation, 0)?;
        check_host(&state, host)?;
        let wanted = away_from(&state, host)?;
        self.move_leaders(origin, &wanted, Aim::Drain(host))
    }

    fn state_with_copies(&self) -> Result<Arc<ClusterState>, Failure> {
        let state = self.facts.cluster_state.lock().expect("no thread panicked with it");
        let with_copies = state.as_ref().filter(|state| state.shape.k > 0 && state.is_formed());
        let state = with_copies.map(Arc::clone).ok_or_else(|| {
            Failure::graceful("Each partition has one copy (K = 0): its leader cannot be moved")
        })?;
        Ok(state)
    }

    /// Moves leaders; when all have moved the call is answered, or a host stops.
    pub(super) fn move_leaders(
        &mut self,
        origin: Origin,
        moves: &[(PartitionId, HostId)],
        aim: Aim,
    ) -> Result<Handled, Failure> {
        let limit = self.facts.options.max_waiting_moves.to_usize();
        if self.moves.waiting.len() >= limit {
            return Err(Failure::graceful(format!(
                "{limit} calls wait for leaders to be moved already (option max_waiting_moves): \
                 call again when one of them has ended"
            )));
        }
        let times = (clock::now_us(), self.facts.options.hand_over_timeout_ms.us());
        self.moves.waiting.push(WaitingCall::new(origin, moves, (times, aim)));
        self.attend_to_leader_moves();
        Ok(Handled::Pending)
    }

    /// Begins moves, and answers the calls whose moves have ended.
    pub(super) fn attend_to_leader_moves(&mut self) {
        if self.moves.waiting.is_empty() {
            return;
        }
        let Ok(state) = self.state_with_copies() else { return };
        let links = self.facts.placement().links_thread();
        let now_us = clock::now_us();
        // A host that has heard nothing for longer than this is suspected.
        let known_us = self.facts.options.suspect_after_ms.us();
        for mut waiting in std::mem::take(&mut self.moves.waiting) {
            let placed = |partition, to| Placed::of(&state, partition, to);
            for command in waiting.look(placed, now_us) {
                self.outbox.send(links, Envelope::Propose(Box::new(command)));
            }
            let (origin, aim) = (waiting.origin, waiting.aim);
            let ended = match waiting.ended(now_us) {
                None => None,
                Some(Ok(())) => self.all_leaders_moved(&mut waiting, &state, (now_us, known_us)),
                Some(Err(failure)) => Some(Err(failure)),
            };
            let ended = match (ended, aim) {
                (None, _) => {
                    self.moves.waiting.push(waiting);
                    continue;
                }
                (Some(Err(_)), Aim::Stop(stop)) if stop.is_forced => self.stop_host(origin, stop),
                (Some(Ok(())), Aim::Stop(stop)) => self.stop_host(origin, stop),
                (Some(Ok(())), Aim::Move | Aim::Drain(_)) => self.answer_status(origin),
                (Some(failed), _) => failed,
            };
            if let Err(failure) = ended {
                self.answer_failure(origin, &failure);
            }
        }
    }
}

impl Control {
    /// The leaders have moved that a call waits for: whether it has what it is for, once that is
    /// so. The coordinator moves last, since it lets other moves wait.
    fn all_leaders_moved(
        &mut self,
        waiting: &mut WaitingCall,
        state: &ClusterState,
        (now_us, known_us): (i64, i64),
    ) -> Option<Result<(), Failure>> {
        let placement = self.facts.placement();
        let is_led = |host: HostId| host == placement.host() && placement.leads_control();
        let aim = waiting.aim;
        match aim {
            Aim::Drain(host) | Aim::Stop(StopOf { host, .. }) if is_led(host) => {
                self.move_lead(state).err().map(Err)
            }
            Aim::Stop(_) if !waiting.is_known(now_us, known_us) => None,
            _ => Some(Ok(())),
        }
    }
}

/// Where the partitions go that a host leads: each to the host with a copy that leads fewest.
pub(super) fn away_from(
    state: &ClusterState,
    host: HostId,
) -> Result<Vec<(PartitionId, HostId)>, Failure> {
    let mut leaders: BTreeMap<HostId, usize> =
        state.data_hosts().map(|host| (host, state.leaders_at(host))).collect();
    let mut moves = Vec::new();
    for (partition, placed) in (0..).map(PartitionId).zip(&state.partitions) {
        if placed.leader != host {
            continue;
        }
        let others = placed.followers().filter(|other| state.serves(*other));
        let to = others.min_by_key(|other| leaders[other]).ok_or_else(|| {
            Failure::graceful(format!(
                "Partition {partition} has its only copy at host {host}: it cannot be led elsewhere"
            ))
        })?;
        *leaders.entry(to).or_default() += 1;
        moves.push((partition, to));
    }
    Ok(moves)
}

pub(super) fn check_host(state: &ClusterState, host: HostId) -> Result<(), Failure> {
    match state.serves(host) {
        true => Ok(()),
        false if state.shape.is_witness(host) => Err(Failure::graceful(format!(
            "Host {host} is the witness, which leads nothing: it stops when its process is \
             stopped"
        ))),
        false => Err(Failure::graceful(format!(
            "Invalid Host Id or Host Id not member of cluster: {host}"
        ))),
    }
}

pub(super) fn host_parameter(invocation: &Invocation<'_>, index: usize) -> Result<HostId, Failure> {
    let given = number(invocation, index)?;
    let host = u32::try_from(given).ok().filter(|host| *host < HostId::LIMIT);
    host.map(HostId).ok_or_else(|| {
        Failure::graceful(format!("Invalid Host Id or Host Id not member of cluster: {given}"))
    })
}

pub(super) fn number(invocation: &Invocation<'_>, index: usize) -> Result<i64, Failure> {
    match invocation.parameters.get(index) {
        Some(Ok(Parameter::Scalar(_, Datum::Int(number)))) => Ok(number),
        _ => Err(Failure::graceful(format!("{} expects integers", invocation.procedure))),
    }
}
