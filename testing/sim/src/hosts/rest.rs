//! Hosts at rest: everything has ended, and copies are equal.

use super::{Cluster, Process};
use lockstep_cluster::HostState;
use lockstep_types::{HostId, PartitionId};

impl Cluster {
    /// Everything has ended, and all copies have applied what their leaders have.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_over = self.judge.outstanding == 0 && !self.is_resizing();
        is_over && self.unapplied().is_none() && self.is_aged()
    }

    /// Runs until everything has ended, hosts that are being removed among it. Whether it has.
    pub(super) fn come_to_rest(&mut self, limit_us: u64) -> Result<bool, String> {
        while self.now_us < limit_us {
            let until_us = self.attend_to_hosts().map_or(limit_us, |at_us| at_us.min(limit_us));
            if self.run_until(until_us, Cluster::is_at_rest)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A copy that has not what its leader has.
    fn unapplied(&self) -> Option<(PartitionId, HostId)> {
        let Some(state) = self.state() else { return Some((PartitionId(0), HostId(0))) };
        let host = |host: HostId| Some(&self.processes[host.0 as usize].as_ref()?.host);
        let Some(lost) = self.left_unavailable(state) else {
            return Some((PartitionId(0), HostId(0)));
        };
        let up = state.hosts.iter().filter(|(_, record)| record.state == HostState::Up);
        for (number, _) in up {
            let Some(host) = host(*number).filter(|_| self.is_member(state, number.0 as usize))
            else {
                return Some((PartitionId(0), *number));
            };
            // A coordinator that takes over from a lost one waits for lost partitions, too.
            let is_joining = !host.has_joined() && !lost.is_empty();
            if host.is_cut_off && !is_joining || host.placement.epoch() != state.epoch.0 {
                return Some((PartitionId(0), *number));
            }
        }
        let number = |number: usize| PartitionId(number as u32);
        let partitions = state.partitions.iter().enumerate();
        for (at, partition) in partitions.filter(|(at, _)| !lost.contains(&number(*at))) {
            let leader = host(partition.leader).and_then(|host| host.replicas.get(&number(at)));
            let Some(leader) =
                leader.filter(|it| it.leads && it.site.is_idle() && it.gate.is_idle())
            else {
                return Some((number(at), partition.leader));
            };
            if let Some(copy) = partition.learning.first().filter(|_| lost.is_empty()) {
                return Some((number(at), copy.host));
            }
            if let Some(moving) = partition.moving.filter(|_| lost.is_empty()) {
                return Some((number(at), moving.to));
            }
            let places = state.places_for_copy(number(at));
            if let Some(copy) = places.first().filter(|_| lost.is_empty()) {
                return Some((number(at), copy.host));
            }
            let end = leader.site.log_sequence();
            for follower in partition.followers() {
                let copy = host(follower).and_then(|host| host.replicas.get(&number(at)));
                let applied = copy.and_then(|copy| copy.following.as_ref());
                if applied.is_none_or(|it| it.follower.applied() != end) {
                    return Some((number(at), follower));
                }
            }
        }
        None
    }

    pub(super) fn unrest(&self) -> String {
        let state = self.state().expect("the cluster was formed");
        let listed = state.hosts.iter();
        let listed: Vec<String> = listed
            .map(|(host, record)| format!("{host} {:?} {:?}", record.state, record.plan))
            .collect();
        let voters: Vec<u32> = state.voters().map(|host| host.0).collect();
        let of = |process: &Process| {
            let Process { host, links, .. } = process;
            let coordinator = host.coordinator.as_ref();
            let replicas = host.replicas.iter().map(|(partition, it)| {
                format!(
                    "{partition}: leads {} opening {} sealed {:?} idle {} gate {} loads {:?} \
                     asked {:?}",
                    it.leads,
                    it.opening.is_some(),
                    it.leading.as_ref().map(|leading| leading.stream.is_sealed()),
                    it.site.is_idle(),
                    it.gate.is_idle(),
                    it.loads,
                    it.learning.as_ref().map(|it| (it.has_asked(), it.is_loading()))
                )
            });
            format!(
                "\n  host {}: {:?} {:?} group led by {:?}, cut off {} epoch {} of {:?}, {} handed, \
                 {} waiting, coordinator {:?}, {}, {}",
                host.id,
                links.serving,
                links.control.standing(),
                links.control.member().leader(),
                host.is_cut_off,
                host.placement.epoch(),
                links.state().map(|state| state.epoch),
                host.handed.len(),
                host.waiting.len(),
                coordinator.map(|it| (it.is_taking_over(), it.is_idle())),
                replicas.collect::<Vec<_>>().join("; "),
                links.shown()
            )
        };
        let hosts: Vec<String> = self.processes.iter().flatten().map(of).collect();
        let copies = state.partitions.iter().map(|partition| {
            let copies: Vec<u32> = partition.copies.iter().map(|copy| copy.host.0).collect();
            let learning: Vec<u32> = partition.learning.iter().map(|copy| copy.host.0).collect();
            format!("{} of {copies:?} and {learning:?}", partition.leader)
        });
        format!(
            "{} calls are outstanding, {}{:?} lags, {listed:?}, voters {voters:?}, led by {:?}{}",
            self.judge.outstanding,
            if self.is_aged() { "" } else { "rows are left whose time is over, " },
            self.unapplied(),
            copies.collect::<Vec<_>>(),
            hosts.concat()
        )
    }

    /// Copies have the same rows.
    pub(super) fn compare(&self) -> Result<(), String> {
        let state = self.state().expect("the cluster was formed");
        let replica = |host: HostId, partition| {
            let process = self.processes[host.0 as usize].as_ref().expect("it is up");
            &process.host.replicas[&partition]
        };
        let lost = self.left_unavailable(state).expect("the cluster is at rest");
        let partitions = (0..).map(PartitionId).zip(&state.partitions);
        for (number, partition) in partitions.filter(|(number, _)| !lost.contains(number)) {
            let hash = replica(partition.leader, number).site.database().content_hash();
            for follower in partition.followers() {
                let following = replica(follower, number).following.as_ref();
                let copy = following.expect("it is in sync").follower.site();
                if copy.database().content_hash() != hash {
                    return Err(format!(
                        "the copy of partition {number} at host {follower} has other rows than \
                         its leader"
                    ));
                }
            }
        }
        Ok(())
    }
}
