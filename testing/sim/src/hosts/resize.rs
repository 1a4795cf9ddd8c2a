//! Hosts are added to a cluster and removed from it while clients make calls and things fail.

use super::host::Host;
use super::{Cluster, Event, Process, Said};
use lockstep_base::random::SeededRandom;
use lockstep_cluster::{ClusterState, Command, HostPlan, HostRecord, HostState};
use lockstep_host::hand_over::next_coordinator;
use lockstep_types::HostId;
use std::collections::BTreeSet;

/// Numbers beside those of the hosts with which a cluster is made.
pub(super) const SPARE: u32 = 3;
/// Between two looks at hosts that are removed, once no calls are made.
const LOOK_EVERY_US: u64 = 20_000;
/// At one in as many looks a process that was removed without its knowledge is stopped.
const STOPPED_ONE_IN: u64 = 40;
/// Between two orders to the coordinator of a host that is removed.
const ORDER_EVERY_US: u64 = 500_000;

/// What is known of hosts that are added and removed.
pub(super) struct Resizes {
    random: SeededRandom,
    /// Hosts that were added, and whose process begins soon or has begun.
    started: BTreeSet<HostId>,
    /// When the coordinator of a host that is removed was last asked to move.
    ordered_us: u64,
}

impl Resizes {
    pub(super) fn new(seed: u64) -> Resizes {
        Resizes { random: SeededRandom::new(seed), started: BTreeSet::new(), ordered_us: 0 }
    }
}

impl Cluster {
    /// Now and then a host is to be added or removed, or to stay after all.
    pub(super) fn resize(&mut self) {
        let Some(mut resizes) = self.resizes.take() else { return };
        self.propose_resize(&mut resizes);
        self.attend_to_resizes(&mut resizes);
        self.resizes = Some(resizes);
    }

    /// What is due for hosts that are added and removed; when it is to be looked at again, if ever.
    pub(super) fn attend_to_hosts(&mut self) -> Option<u64> {
        let mut resizes = self.resizes.take()?;
        self.attend_to_resizes(&mut resizes);
        self.resizes = Some(resizes);
        Some(self.now_us + LOOK_EVERY_US)
    }

    fn propose_resize(&mut self, Resizes { random, .. }: &mut Resizes) {
        let now_us = self.now_us;
        let [proposer, drawn, kind] = [0; 3].map(|_| random.below(1 << 20) as usize);
        if !random.chance(1, 12) {
            return;
        }
        let count = self.processes.len();
        let limit = self.shape.hosts + SPARE;
        let Some(process) = &mut self.processes[proposer % count] else { return };
        let Some(state) = process.links.state() else { return };
        let epoch = state.epoch;
        let hosts: Vec<HostId> = state.data_hosts().collect();
        let host = hosts[drawn % hosts.len()];
        let address = format!("host{}", state.numbers);
        let command = match kind % 5 {
            0 | 1 if state.numbers < limit => match state.plan_addition(&address) {
                Ok(host) => Command::AddHost { host, internal_address: address, epoch },
                Err(_) => return,
            },
            2 | 3 if state.check_removal(host).is_ok() => {
                Command::PlanHost { host, plan: HostPlan::Leaves, epoch }
            }
            4 if drawn.is_multiple_of(3) => match hosts.iter().find(|host| state.leaves(**host)) {
                Some(host) => Command::PlanHost { host: *host, plan: HostPlan::Stays, epoch },
                None => return,
            },
            _ => return,
        };
        let now = process.links.now(now_us);
        // Too many are pending: this one is not proposed.
        let _ = process.links.control.propose(command, now);
    }

    /// The processes of hosts that were added begin, and one that is removed ends when it has
    /// nothing that others need, as a control thread has it stop.
    fn attend_to_resizes(&mut self, resizes: &mut Resizes) {
        for number in 0..self.processes.len() {
            // One that was removed ends when it knows. Where it was cut off it runs on, and does no
            // harm until somebody ends it.
            let is_out = |it: &Process| it.links.serving.is_out();
            let Some(process) = &self.processes[number] else { continue };
            let ends = !self.may_start(number)
                && (is_out(process) || resizes.random.chance(1, STOPPED_ONE_IN));
            if ends {
                self.end_process(HostId(number as u32));
            }
        }
        let Some(state) = self.state() else { return };
        let added = state.hosts.iter().filter(|(_, record)| record.state == HostState::Added);
        let added: Vec<HostId> = added.map(|(host, _)| *host).collect();
        let leaving = state.data_hosts().find(|host| state.leaves(*host) && state.serves(*host));
        let has_none = |host: &HostId| {
            state.partitions.iter().all(|partition| {
                let mut copies = partition.copies.iter().chain(&partition.learning);
                copies.all(|copy| copy.host != *host)
            })
        };
        let leaving = leaving.filter(has_none);
        let (is_empty, to) = match leaving {
            Some(host) => (state.is_empty_host(host), next_coordinator(state, host)),
            None => (false, None),
        };
        for host in added {
            if resizes.started.insert(host) {
                let after_us = 1_000 + resizes.random.below(200_000);
                self.schedule(self.now_us + after_us, host.0 as usize, Event::Start);
                self.report.added += 1;
            }
        }
        let Some(host) = leaving else { return };
        let Some(process) = &self.processes[host.0 as usize] else { return };
        let has_it = |host: &Host| host.coordinator.is_some();
        if is_empty && !has_it(&process.host) {
            // Nothing is led there, and what has come there is handed on or fails. While the others
            // would be no majority, it stays.
            if self.may_lose(&[host.0 as usize]) {
                self.end_process(host);
                self.report.removed += 1;
            }
        } else if self.now_us >= resizes.ordered_us + ORDER_EVERY_US {
            resizes.ordered_us = self.now_us;
            let said = Said::MoveCoordinator(to);
            self.schedule(self.now_us, host.0 as usize, Event::ToSite(process.run, said));
        }
    }

    /// Whether the group may get more voters at any moment, because hosts are added. From one voter
    /// to three it is of two for a moment, and cannot lose any.
    pub(super) fn may_get_voters(&self, state: &ClusterState) -> bool {
        const VOTERS_MAX: usize = 5;
        let members = state.hosts.len().min(VOTERS_MAX);
        let wanted = members - usize::from(members.is_multiple_of(2));
        self.resizes.is_some() && state.voters().count() < wanted
    }

    fn end_process(&mut self, host: HostId) {
        let ended = self.processes[host.0 as usize].take().expect("it runs");
        ended.host.handed.into_keys().for_each(|call| self.shared.unknown(call));
    }

    /// Whether the process of a host that ended may begin again: not one that was removed.
    pub(super) fn may_start(&self, number: usize) -> bool {
        let is_listed = |state: &ClusterState| state.hosts.contains_key(&HostId(number as u32));
        self.state().is_none_or(is_listed)
    }

    /// Whether hosts are being added or removed, and something is left to do for it now: with
    /// partitions that are lost, or less capacity because a host is, it waits.
    pub(super) fn is_resizing(&self) -> bool {
        let Some(state) = self.state().filter(|_| self.resizes.is_some()) else { return false };
        let is_added = |record: &HostRecord| record.state == HostState::Added;
        let all_are_up = state.hosts.values().all(|record| record.state == HostState::Up);
        let is_left = |host: HostId| {
            let is_leaving = all_are_up && state.leaves(host) && state.serves(host);
            is_leaving && state.partitions_of(host).next().is_none()
        };
        let is_due = state.hosts.values().any(is_added)
            || state.data_hosts().any(is_left)
            || !state.resizing(|host| state.serves(host), usize::MAX).is_empty();
        is_due && self.left_unavailable(state).is_none_or(|lost| lost.is_empty())
    }
}
