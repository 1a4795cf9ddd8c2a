//! Calls that change which hosts there are, and which have copies of partitions: `@SetKFactor`,
//! `@MovePartitionCopy`, `@AddHost`, `@RemoveHost` and `@KeepHost`. The control plane decides; a
//! call is answered when it has, and copies that are to be loaded come in sync after that.

use super::Control;
use super::answer::write_status;
use super::moves::{host_parameter, number};
use crate::clock;
use crate::message::{Envelope, Origin};
use lockstep_cluster::{ClusterState, Command, CopyMove, HostPlan, HostRecord, KChange};
use lockstep_host::schema::Handled;
use lockstep_types::{Datum, Failure, HostId, PartitionId, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at a change that was proposed.
const LOOK_MS: u64 = 20;
/// Between two proposals of the same change: one may be lost, or be of an epoch that is over.
const PROPOSE_AGAIN_US: i64 = 200_000;
/// How long a call waits.
const PATIENCE_US: i64 = 5_000_000;
/// How long before the end of a call nothing is proposed any more.
const IN_FLIGHT_US: i64 = 1_000_000;

/// A change of copies.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// Another K.
    K(u8),
    /// A copy is moved to another host.
    Move(PartitionId, CopyMove),
    /// A host with this address is added.
    Add(String),
    /// A host is removed, or is not removed any more.
    Plan(HostId, HostPlan),
}

/// The call that waits for one.
pub(super) struct CopiesCall {
    origin: Origin,
    change: Change,
    /// What another K does to the copies, by the state of which it was proposed last.
    of_k: KChange,
    propose_us: i64,
    until_us: i64,
}

impl CopiesCall {
    /// Until something is due.
    pub(super) fn time_left(&self) -> Duration {
        Duration::from_millis(LOOK_MS)
    }
}

impl Change {
    /// What is proposed by a state, and what another K does to the copies.
    ///
    /// # Errors
    /// It is refused.
    fn plan(&self, state: &ClusterState) -> Result<(Command, KChange), Failure> {
        let refused = |what: &str, why: lockstep_cluster::Refusal| {
            Failure::graceful(format!("{what}: {why}"))
        };
        match *self {
            Change::K(k) => {
                let of_k = state.plan_k(k).map_err(|why| refused("K stays", why))?;
                Ok((Command::ChangeK { k, epoch: state.epoch }, of_k))
            }
            Change::Move(partition, moving) => {
                let copy = state.plan_move(partition, moving);
                let copy = copy.map_err(|why| refused("The copy is not moved", why))?;
                let incarnation = state.hosts[&copy.host].incarnation;
                let epoch = state.partitions[partition.index()].epoch;
                let from = moving.from;
                let begin = Command::BeginMove { partition, from, copy, incarnation, epoch };
                Ok((begin, KChange::default()))
            }
            Change::Add(ref internal_address) => {
                let host = state.plan_addition(internal_address);
                let host = host.map_err(|why| refused("The host is not added", why))?;
                let (internal_address, epoch) = (internal_address.clone(), state.epoch);
                let add = Command::AddHost { host, internal_address, epoch };
                Ok((add, KChange::default()))
            }
            Change::Plan(host, plan) => {
                if plan == HostPlan::Leaves {
                    let checked = state.check_removal(host);
                    checked.map_err(|why| refused("The host is not removed", why))?;
                } else if !state.leaves(host) {
                    let text = format!("Host {host} is not being removed");
                    return Err(Failure::graceful(text));
                }
                let epoch = state.epoch;
                Ok((Command::PlanHost { host, plan, epoch }, KChange::default()))
            }
        }
    }

    /// Whether a state has it: K is that one, or the move has begun, or has ended already.
    fn is_in(&self, state: &ClusterState) -> bool {
        match *self {
            Change::K(k) => state.shape.k == k,
            Change::Add(ref address) => listed_at(state, address).is_some(),
            Change::Plan(host, plan) => {
                state.hosts.get(&host).is_none_or(|record| record.plan == plan)
            }
            Change::Move(partition, moving) => {
                let placed = state.partition(partition);
                placed.is_some_and(|placed| {
                    let has_ended = placed.copy_at(moving.to).is_some()
                        && placed.copy_at(moving.from).is_none();
                    placed.moving == Some(moving) || has_ended
                })
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Change::Add(address) => format!("the addition of a host at {address}"),
            Change::Plan(host, HostPlan::Leaves) => format!("the removal of host {host}"),
            Change::Plan(host, _) => format!("the end of the removal of host {host}"),
            Change::K(k) => format!("K = {k}"),
            Change::Move(partition, CopyMove { from, to }) => {
                format!("the move of the copy of partition {partition} from host {from} to {to}")
            }
        }
    }
}

/// The host with an address.
fn listed_at(state: &ClusterState, address: &str) -> Option<HostId> {
    let mut hosts = state.hosts.iter();
    let is_it = |record: &HostRecord| record.description.internal_address == address;
    hosts.find(|(_, record)| is_it(record)).map(|(host, _)| *host)
}

impl Control {
    /// `@SetKFactor`.
    pub(super) fn set_k(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let given = number(invocation, 0)?;
        let k = u8::try_from(given).map_err(|_| {
            Failure::graceful(format!("K is 0 to {}, not {given}", lockstep_cluster::K_MAX))
        })?;
        self.change_copies(origin, &Change::K(k))
    }

    /// `@MovePartitionCopy`.
    pub(super) fn move_copy(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let given = number(invocation, 0)?;
        let partition = u32::try_from(given).ok().filter(|number| *number < PartitionId::LIMIT);
        let partition = partition.map(PartitionId).ok_or_else(|| {
            Failure::graceful(format!("The copy is not moved: there is no partition {given}"))
        })?;
        let (from, to) = (host_parameter(invocation, 1)?, host_parameter(invocation, 2)?);
        self.change_copies(origin, &Change::Move(partition, CopyMove { from, to }))
    }

    pub(super) fn change_copies(
        &mut self,
        origin: Origin,
        change: &Change,
    ) -> Result<Handled, Failure> {
        if let Some(other) = &self.copies_call {
            return Err(Failure::graceful(format!(
                "Another call waits for {}: retry later",
                other.change.shown()
            )));
        }
        let state = self.state_of_cluster()?;
        let (_, of_k) = change.plan(&state)?;
        let now_us = clock::now_us();
        let (propose_us, until_us) = (now_us, now_us + PATIENCE_US);
        let change = change.clone();
        self.copies_call = Some(CopiesCall { origin, change, of_k, propose_us, until_us });
        self.attend_to_copies();
        Ok(Handled::Pending)
    }

    pub(super) fn state_of_cluster(&self) -> Result<Arc<ClusterState>, Failure> {
        let state = self.facts.cluster_state.lock().expect("no thread panicked with it");
        state.as_ref().map(Arc::clone).ok_or_else(|| {
            Failure::graceful("This host is alone: copies are of clusters of hosts (--peers)")
        })
    }

    /// Proposes the change that a call waits for, and answers it when that has taken place.
    pub(super) fn attend_to_copies(&mut self) {
        let Some(mut call) = self.copies_call.take() else { return };
        let state = match self.state_of_cluster() {
            Ok(state) => state,
            Err(failure) => return self.answer_failure(call.origin, &failure),
        };
        let now_us = clock::now_us();
        if call.change.is_in(&state) {
            tracing::warn!(change = call.change.shown(), "hosts or copies change");
            return self.answer_copies(&call, &state);
        }
        let planned = call.change.plan(&state).and_then(|planned| match now_us < call.until_us {
            true => Ok(planned),
            false => Err(Failure::graceful(format!(
                "The hosts did not agree on {} in {} ms: look at it (admin cluster) before the \
                 call is repeated",
                call.change.shown(),
                PATIENCE_US / 1_000
            ))),
        });
        let (command, of_k) = match planned {
            Ok(planned) => planned,
            Err(failure) => return self.answer_failure(call.origin, &failure),
        };
        call.of_k = of_k;
        if now_us >= call.propose_us && now_us < call.until_us - IN_FLIGHT_US {
            call.propose_us = now_us + PROPOSE_AGAIN_US;
            let links = self.facts.placement().links_thread();
            self.outbox.send(links, Envelope::Propose(Box::new(command)));
        }
        self.copies_call = Some(call);
    }

    fn answer_copies(&mut self, call: &CopiesCall, state: &ClusterState) {
        let CopiesCall { origin, change, of_k: KChange { added, dropped }, .. } = call;
        let k = match *change {
            Change::K(k) => k,
            Change::Add(ref address) => {
                let host = listed_at(state, address).expect("it is in the state");
                return self.answer_addition(*origin, host, state);
            }
            Change::Plan(host, plan) => {
                let text = match plan {
                    HostPlan::Leaves => format!(
                        "The copies of host {host} are moved to other hosts, and then it stops"
                    ),
                    _ => format!("Host {host} keeps the copies that it has"),
                };
                return self.answer_with_text(*origin, &text, write_status);
            }
            Change::Move(partition, CopyMove { from, to }) => {
                let text = format!(
                    "The copy of partition {partition} is loaded at host {to}, and then goes from \
                     host {from}"
                );
                return self.answer_with_text(*origin, &text, write_status);
            }
        };
        let text = match (added.len(), dropped.len()) {
            (0, dropped) => format!("K is {k}: {dropped} copies were given up"),
            (added, _) => {
                format!(
                    "K is {k}: {added} copies are to be loaded, and count when they are in sync"
                )
            }
        };
        self.answer_with_text(*origin, &text, |out| {
            let schema = TableSchema::new(&[
                ("KFACTOR", SqlType::Integer),
                ("COPIES_TO_LOAD", SqlType::Integer),
                ("COPIES_GIVEN_UP", SqlType::Integer),
            ]);
            let mut table = TableBuilder::begin(out, &schema);
            let count = |count: usize| Datum::Int(count as i64);
            let row = [Datum::Int(k.into()), count(added.len()), count(dropped.len())];
            table.row(&schema, &row);
            table.finish();
            1
        });
    }
}
