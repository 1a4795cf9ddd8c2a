//! What the Raft leader proposes of its own accord: who is lost, and who resumes.
//!
//! The rules:
//!
//! 1. Only the leader of the Raft group proposes that a host is lost, and only while a majority of
//!    the voters is connected with it. The proposal itself needs that majority again.
//! 2. A host is lost when the leader and that host have not heard each other for the time of a
//!    suspicion, in either direction, or when a site of the host stands still. The leader must have
//!    heard a majority within half of that time: a leader that is cut off from all others would
//!    have the first one put out that it misses, by a proposal that may still reach them.
//! 3. Two hosts that are connected with the leader and not with each other cannot replicate to each
//!    other. Neither can the leader and a host that hears it and suspects it. When that lasts for
//!    the time of a suspicion, one of them is lost: the one that more hosts suspect, else the one
//!    that leads fewer partitions, else the one with the greater number. A host with the last copy
//!    of a partition is connected and stays: it could only be resumed at once. If both have last
//!    copies, and messages of replication between them were lost for good, one of them is lost all
//!    the same: it is resumed with its last copies, and messages count again from there. What a
//!    host reports as lost from before it, or the other one, took part again does not count. A
//!    leader that was put out itself, and leads the Raft group still, does not count what is
//!    between it and the others.
//! 4. A leader with a site that stands still proposes that it is lost itself; also one that cannot
//!    replicate to a host that stays by rule 3, if it has no last copy as well.
//! 5. A lost host does not come back by being heard: its copies are out of sync. It is up again
//!    when it says so, without copies, and gets them again one by one. So a host whose connection
//!    comes and goes is lost once and not time and again.
//! 6. Copies that only hosts have which are not up are resumed by these hosts when they are back:
//!    all at once when the whole cluster had stopped. While no host is up that is connected, nobody
//!    is lost for the time that these hosts wait for each other. Where others serve, a host waits
//!    for the other copies of what it has, and for nothing else: a partition may be lost for good.
//! 7. A partition that lacks a copy gets one at a host that is up, connected and has capacity for
//!    it, see [`crate::reload`].
//! 8. A copy that is moved goes once the new one is in sync, and the leader is elsewhere, see
//!    [`crate::moves`].
//! 9. Copies are moved to hosts that were added and away from one that is being removed, see
//!    [`crate::hosts`].
//!
//! A host that is cut off notices that it is in a minority, and gives up its leases.

use crate::command::Command;
use crate::detector::Detector;
use crate::ids::Incarnation;
use crate::moves::Moves;
use crate::options::Options;
use crate::reload::Reloads;
use crate::state::{ClusterState, HostRecord, HostState, PartitionState};
use lockstep_types::HostId;
use std::collections::{BTreeMap, BTreeSet};

/// What the leader remembers between two looks.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    /// Pairs of hosts of which one suspects the other, and since when.
    apart_since_us: BTreeMap<(HostId, HostId), u64>,
    /// Since when hosts that could resume wait for others.
    resume_since_us: Option<u64>,
    /// Since when no host is up that is connected.
    stopped_since_us: Option<u64>,
    /// Copies that partitions lack.
    reloads: Reloads,
    /// Copies that are moved.
    moves: Moves,
}

impl Supervisor {
    /// Forgets what was seen, since this host does not lead.
    pub fn reset(&mut self) {
        *self = Supervisor::default();
    }

    /// What the leader proposes at a time, most urgent first.
    pub fn proposals(
        &mut self,
        own: HostId,
        state: &ClusterState,
        detector: &Detector,
        options: &Options,
        now_us: u64,
    ) -> Vec<Command> {
        let lost =
            |host: HostId| Command::HostLost { host, incarnation: state.hosts[&host].incarnation };
        let up = state.hosts.iter().filter(|(_, record)| record.state == HostState::Up);
        let up: Vec<HostId> = up.map(|(host, _)| *host).collect();
        let connected = detector.connected(now_us);
        let serves = |host: &HostId| {
            let record = &state.hosts[host];
            let runs = detector.incarnation_of(*host) == Some(record.incarnation);
            record.state == HostState::Up && connected.contains(host) && runs
        };
        let serving: BTreeSet<HostId> = state.hosts.keys().copied().filter(serves).collect();
        let mut proposals = Vec::new();
        proposals.extend(self.resume(state, &connected, &serving, options, now_us));
        if self.is_starting(state, &serving, options, now_us) {
            return proposals;
        }
        if detector.has_stuck_site(now_us) && up.contains(&own) {
            proposals.push(lost(own));
        }
        let others = up.iter().copied().filter(|host| *host != own);
        // A connected host with a last copy would be resumed at once.
        let stays = |host: &HostId| connected.contains(host) && state.has_last_copy(*host);
        let is_up = up.contains(&own);
        let is_cut = |host: HostId| {
            let since = detector.cut_since(host).filter(|_| is_up);
            since.is_some_and(|since| state.are_cut_off(own, host, since))
        };
        let is_suspected = |host: HostId| is_cut(host) || detector.is_failing(host, now_us);
        let suspected = others.filter(|host| is_suspected(*host) && !stays(host));
        let voters: Vec<HostId> = state.voters().collect();
        if detector.hears_majority_lately(&voters, now_us) {
            proposals.extend(suspected.map(lost));
        }
        if let Some(&host) = up.iter().find(|host| is_cut(**host) && stays(host)) {
            proposals.push(lost(if state.has_last_copy(own) { host } else { own }));
        }
        let apart = self.find_apart(own, &up, state, detector, options, now_us);
        proposals.extend(apart.map(lost));
        for (host, record) in &state.hosts {
            let waits = record.state != HostState::Up && state.is_formed();
            if waits && state.shape.is_witness(*host) && connected.contains(host) {
                let (host, incarnation) = (*host, record.incarnation);
                proposals.push(Command::HostUp { host, incarnation });
            }
        }
        let may_load = |host| serving.contains(&host) && !is_suspected(host);
        proposals.extend(self.reloads.due(state, may_load, options, now_us));
        proposals.extend(self.moves.due(state, now_us));
        proposals.extend(state.resizing(may_load, options.copy_moves_max as usize));
        proposals
    }

    /// Whether no host with data serves, and those that are back may still wait for each other.
    fn is_starting(
        &mut self,
        state: &ClusterState,
        serving: &BTreeSet<HostId>,
        options: &Options,
        now_us: u64,
    ) -> bool {
        if serving.iter().any(|host| !state.shape.is_witness(*host)) {
            self.stopped_since_us = None;
            return false;
        }
        let since_us = *self.stopped_since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us) < options.resume_wait_us
    }

    /// The host to put out, of two that have been apart for long.
    fn find_apart(
        &mut self,
        own: HostId,
        up: &[HostId],
        state: &ClusterState,
        detector: &Detector,
        options: &Options,
        now_us: u64,
    ) -> Option<HostId> {
        let mut suspected_by: BTreeMap<HostId, usize> = BTreeMap::new();
        let (mut apart, mut cut) = (BTreeSet::new(), BTreeSet::new());
        for &host in up.iter().filter(|host| **host != own) {
            // Of this host the others know what it does not: only one end of a session that was
            // lost may have had something on its way.
            let counts = |other: &HostId| *other != own || detector.is_connected(host, now_us);
            let counts = |other: &HostId| up.contains(other) && counts(other);
            let cut_from = detector.cut_from_of(host).filter(|(other, _)| counts(other));
            let cut_from =
                cut_from.filter(|(other, since)| state.are_cut_off(host, *other, *since));
            let cut_from: BTreeSet<HostId> = cut_from.map(|(other, _)| other).collect();
            let pair = |other: &HostId| (host.min(*other), host.max(*other));
            cut.extend(cut_from.iter().map(pair));
            let failing = detector.suspects_of(host).filter(counts);
            for other in failing.chain(cut_from).collect::<BTreeSet<HostId>>() {
                *suspected_by.entry(other).or_default() += 1;
                apart.insert(pair(&other));
            }
        }
        self.apart_since_us.retain(|pair, _| apart.contains(pair));
        for pair in apart {
            self.apart_since_us.entry(pair).or_insert(now_us);
        }
        let long = |since_us: &u64| now_us.saturating_sub(*since_us) > options.suspect_after_us;
        let weight = |host: &HostId| {
            let suspected = suspected_by.get(host).copied().unwrap_or(0);
            (std::cmp::Reverse(suspected), state.leaders_at(*host), std::cmp::Reverse(*host))
        };
        let can_go = |host: &HostId| !state.has_last_copy(*host);
        let pairs = self.apart_since_us.iter().filter(|(_, since_us)| long(since_us));
        let put_out = |(pair, _): (&(HostId, HostId), _)| {
            let both = [pair.0, pair.1];
            let either = both.into_iter().filter(|_| cut.contains(pair)).min_by_key(weight);
            both.into_iter().filter(can_go).min_by_key(weight).or(either)
        };
        pairs.map(put_out).find(Option::is_some).flatten()
    }

    fn resume(
        &mut self,
        state: &ClusterState,
        connected: &BTreeSet<HostId>,
        serving: &BTreeSet<HostId>,
        options: &Options,
        now_us: u64,
    ) -> Option<Command> {
        let waiting = |(host, record): &(&HostId, &HostRecord)| {
            record.state != HostState::Up
                && connected.contains(host)
                && state.partitions_of(**host).next().is_some()
        };
        let mut hosts: BTreeSet<HostId> =
            state.hosts.iter().filter(waiting).map(|(host, _)| *host).collect();
        if hosts.is_empty() {
            self.resume_since_us = None;
            return None;
        }
        let since_us = *self.resume_since_us.get_or_insert(now_us);
        let waited = now_us.saturating_sub(since_us) >= options.resume_wait_us;
        // A partition that nobody serves waits for all of its copies; for long, for one of them.
        let stopped =
            state.partitions.iter().filter(|p| !p.copies.iter().any(|c| serving.contains(&c.host)));
        let stopped: Vec<&PartitionState> = stopped.collect();
        let is_complete = |partition: &PartitionState, hosts: &BTreeSet<HostId>| {
            let mut ready = partition.copies.iter().map(|copy| hosts.contains(&copy.host));
            if waited { ready.any(|is_ready| is_ready) } else { ready.all(|is_ready| is_ready) }
        };
        if serving.iter().all(|host| state.shape.is_witness(*host)) {
            if !stopped.iter().all(|partition| is_complete(partition, &hosts)) {
                return None;
            }
        } else {
            // Of those whose copies are not complete no host is resumed, and so on.
            let is_short = |hosts: &BTreeSet<HostId>| {
                let short = stopped.iter().filter(|partition| !is_complete(partition, hosts));
                short.flat_map(|it| it.copies.iter()).find(|copy| hosts.contains(&copy.host))
            };
            while let Some(copy) = is_short(&hosts) {
                hosts.remove(&copy.host);
            }
        }
        let incarnation_of = |host: HostId| (host, state.hosts[&host].incarnation);
        let hosts: Vec<(HostId, Incarnation)> = hosts.into_iter().map(incarnation_of).collect();
        (!hosts.is_empty()).then_some(Command::Resume { hosts })
    }
}

#[cfg(test)]
mod tests;
