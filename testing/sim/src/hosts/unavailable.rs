//! Partitions that cannot be served, because more hosts are lost than there are copies for: calls
//! are refused by the code that serves, and what is left is checked at rest.

use super::host::{Handed, Host, Of, Where};
use super::judge::Left;
use super::{Cluster, FORM_US, READS_AT_REST, Shared, TICK_US};
use lockstep_cluster::ClusterState;
use lockstep_host::unavailable::{Overdue, cannot_serve, end_transactions};
use lockstep_types::{Datum, HostId, PartitionId};
use std::collections::BTreeSet;

impl Host {
    /// Time has passed: partitions may be unavailable since the last time.
    pub(super) fn follow_unavailable(&mut self, shared: &mut Shared) {
        if self.unavailable_calls.follow(&self.unavailable, self.now_us) {
            self.take_waiting();
        }
        let is_overdue = self.unavailable_calls.is_overdue(&self.unavailable, self.now_us);
        for (partition, replica) in &self.replicas {
            let waits = replica.opening.is_some() || replica.site.awaits_decisions();
            self.unavailable.note_undecided(*partition, waits, is_overdue);
        }
        let calls = &self.unavailable_calls;
        let Some(overdue) = calls.overdue(&self.unavailable, &self.placement, self.now_us) else {
            return;
        };
        self.end_unavailable_calls(&overdue, shared);
        if overdue.is_over_here && self.coordinator.is_some() {
            let of = &mut Of { host: self, shared };
            end_transactions(of, &overdue.partitions, &mut Vec::new());
        }
    }

    /// Calls that may be in progress at the leaders of unavailable partitions end as unknown.
    fn end_unavailable_calls(&mut self, overdue: &Overdue, shared: &mut Shared) {
        let Overdue { partitions, hosts, until_us, is_over_here } = overdue;
        let own = Where::Host(self.id);
        let ends = |handed: &Handed| match handed.at {
            // The connection is closed that waits for a copy here.
            at if at == own => {
                *is_over_here && handed.partition.is_some_and(|of| partitions.contains(&of))
            }
            Where::Host(at) => hosts.contains(&at) && handed.since_us <= *until_us,
            Where::Anywhere => handed.since_us <= *until_us,
        };
        let calls = self.handed.iter().filter(|(_, handed)| ends(handed)).map(|(call, _)| *call);
        for call in calls.collect::<Vec<_>>() {
            self.handed.remove(&call);
            shared.unknown(call);
            shared.report.ended_unavailable += 1;
        }
    }

    /// Refuses a call of a client of this host that needs a partition which cannot be served.
    pub(super) fn refuse_unavailable(
        &self,
        call: usize,
        partition: PartitionId,
        shared: &mut Shared,
    ) -> bool {
        let is_refused = self.unavailable.has(partition);
        if is_refused {
            shared.report.refused_unavailable += 1;
            shared.fail(call, cannot_serve(&[partition]));
        }
        is_refused
    }
}

impl Cluster {
    /// The partitions that an up host takes for unavailable; none while hosts differ, or while a
    /// host runs whose return, or stands still whose loss, would change that.
    pub(super) fn left_unavailable(&self, state: &ClusterState) -> Option<Vec<PartitionId>> {
        let up = |host: &HostId| {
            let record = state.hosts.get(host);
            record.is_some_and(|record| record.state == lockstep_cluster::HostState::Up)
        };
        let mut seen = BTreeSet::new();
        let is_up =
            |it: &&super::Process| up(&it.host.id) && self.is_member(state, it.host.id.0 as usize);
        for process in self.processes.iter().flatten().filter(is_up) {
            seen.insert(process.host.unavailable.all());
        }
        if seen.len() != 1 {
            return None;
        }
        let partitions = seen.pop_first()?;
        let stands_still = |host: usize| self.pause_end_us(host).is_some();
        if !partitions.is_empty() && (0..self.processes.len()).any(stands_still) {
            return None;
        }
        let is_gone = |host: &HostId| !self.is_member(state, host.0 as usize);
        let lost_copies = |partition: &PartitionId| {
            let copies = &state.partitions[partition.index()].copies;
            copies.iter().map(|copy| copy.host).filter(|host| !up(host)).collect::<Vec<_>>()
        };
        let lost: Vec<Vec<HostId>> = partitions.iter().map(lost_copies).collect();
        // Those with all their copies wait for decisions that need one without.
        let is_final = lost.iter().flatten().all(is_gone)
            && (partitions.is_empty() || lost.iter().any(|hosts| !hosts.is_empty()));
        is_final.then_some(partitions)
    }

    /// What can be read at rest while partitions are unavailable: calls for the others succeed, and
    /// what these have is as it must be.
    pub(super) fn read_what_is_left(&mut self, lost: &[PartitionId]) -> Result<(), String> {
        self.report.left_unavailable += 1;
        if self.is_stuck() {
            self.report.stuck += 1;
            return Ok(());
        }
        let mut readable = BTreeSet::new();
        for account in self.judge.accounts() {
            let partition = self.shared.ring.partition_of(Datum::Int(account));
            let is_lost = lost.contains(&partition);
            match self.read_left(account)? {
                Left::Read => drop(readable.insert(account)),
                Left::Refused if is_lost => {}
                left => {
                    let hosts = self.processes.iter().flatten();
                    let seen: Vec<_> =
                        hosts.map(|it| (it.host.id, it.host.unavailable.all())).collect();
                    return Err(format!(
                        "account {account} of partition {partition}: {left:?}; unavailable are \
                         {lost:?}, by host {seen:?}"
                    ));
                }
            }
        }
        self.judge.judge_left(&readable)
    }

    /// Reads an account and its moves, until the answers are final.
    fn read_left(&mut self, account: i64) -> Result<Left, String> {
        let mut left = Left::Failed;
        for attempt in 0..READS_AT_REST {
            let serving = self.serving();
            if serving.is_empty() {
                // Those that join wait for the catalog of a coordinator, which waits for others.
                left = Left::Refused;
                self.run_until(self.now_us + TICK_US, |_| false)?;
                continue;
            }
            let host = serving[attempt % serving.len()];
            for call in self.judge.read_left(account) {
                self.call_at(host, call);
            }
            let limit_us = self.now_us + FORM_US;
            if !self.run_until(limit_us, |it| it.judge.outstanding == 0)? {
                return Err("a read at rest is not answered".to_string());
            }
            left = self.judge.left();
            if left != Left::Failed {
                break;
            }
            self.run_until(self.now_us + TICK_US, |_| false)?;
        }
        Ok(left)
    }
}
