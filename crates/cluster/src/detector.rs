//! Who is connected, who is suspected, and whether this host is among the majority.
//!
//! Two hosts are *connected* when each hears the other: a heartbeat came lately, and it answers one
//! that was sent lately. A cut in one direction is seen at both ends by that. A host is *suspected*
//! when it is not connected, when a site of it stands still while its heartbeats arrive, when its
//! clock is off, or when messages of replication to or from it were lost.

use crate::faults::Faults;
use crate::heartbeat::{Echo, Heartbeat};
use crate::ids::{Epoch, Incarnation};
use crate::options::Options;
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// What this host is to the cluster, as far as it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It is connected with a majority of the voters.
    Majority,
    /// It is not. It serves nothing, and keeps its data.
    Minority,
    /// Others have had a newer placement for longer than a suspicion takes. It serves nothing
    /// until it has that placement.
    Stale,
}

struct Peer {
    incarnation: Incarnation,
    /// Since when heartbeats are expected.
    expected_us: u64,
    /// The greatest send time of this host that was answered.
    answered_us: Option<u64>,
    /// The newest heartbeat: its send time by the peer's clock, and when it came.
    newest: Option<(u64, u64)>,
    epoch: Epoch,
    suspects: BTreeSet<HostId>,
    cut_from: BTreeMap<HostId, Epoch>,
    site_age_us_max: u64,
    cannot_lead: BTreeSet<PartitionId>,
    /// What it has too little of.
    shortages: u8,
    /// The peer's wall clock less that of this host, if it is over the limit.
    clock_off_us: Option<i64>,
    /// Messages between the two hosts were lost for good, which both had taken part since this
    /// epoch.
    cut_since: Option<Epoch>,
}

/// What a heartbeat brought, beside the news that its sender lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// A grant: the time at which this host sent what it is counted from, and its epoch.
    pub grant: Option<(u64, Epoch)>,
    /// The sender's clock differs by this much, over the limit. It was not so before.
    pub clock_off_us: Option<i64>,
}

/// The state of detection at one host. All times are of its monotonic clock, which counts the time
/// in which the host was suspended.
pub struct Detector {
    host: HostId,
    incarnation: Incarnation,
    options: Options,
    faults: Faults,
    peers: BTreeMap<HostId, Peer>,
    /// By site, when its thread ran last.
    sites: Vec<u64>,
    /// Partitions that this host is to lead and cannot.
    cannot_lead: Vec<PartitionId>,
    /// What this host has too little of.
    shortages: u8,
    stale_since_us: Option<u64>,
}

impl Detector {
    /// Detection at a host with sites that start at `now_us`.
    pub fn new(
        host: HostId,
        incarnation: Incarnation,
        sites: u16,
        options: Options,
        faults: Faults,
        now_us: u64,
    ) -> Detector {
        Detector {
            host,
            incarnation,
            options,
            faults,
            peers: BTreeMap::new(),
            sites: vec![now_us; usize::from(sites)],
            cannot_lead: Vec::new(),
            shortages: 0,
            stale_since_us: None,
        }
    }

    /// A site thread ran at a time, or was waiting for work then.
    pub fn site_ran(&mut self, site: ThreadId, at_us: u64) {
        if let Some(ran_us) = self.sites.get_mut(site.index()) {
            *ran_us = (*ran_us).max(at_us);
        }
    }

    /// Whether a site of this host stands still.
    pub fn is_stuck(&self, site: ThreadId, now_us: u64) -> bool {
        let ran_us = self.sites.get(site.index());
        let limit_us = self.options.site_suspect_after_us;
        ran_us.is_none_or(|ran_us| now_us.saturating_sub(*ran_us) > limit_us)
    }

    /// The partitions that this host is to lead and cannot, as its heartbeats have them.
    pub fn set_cannot_lead(&mut self, partitions: Vec<PartitionId>) {
        self.cannot_lead = partitions;
    }

    /// What this host has too little of, as its heartbeats have it.
    pub fn set_shortages(&mut self, shortages: u8) {
        self.shortages = shortages;
    }

    /// What another host has too little of, by its newest heartbeat; 0 is nothing.
    pub fn shortages_of(&self, host: HostId) -> u8 {
        self.peers.get(&host).map_or(0, |peer| peer.shortages)
    }

    /// Whether a host that is to lead a partition has said that it cannot.
    pub fn cannot_lead(&self, host: HostId, partition: PartitionId) -> bool {
        match host == self.host {
            true => self.cannot_lead.contains(&partition),
            false => {
                self.peers.get(&host).is_some_and(|peer| peer.cannot_lead.contains(&partition))
            }
        }
    }

    /// Whether any site of this host stands still.
    pub fn has_stuck_site(&self, now_us: u64) -> bool {
        (0..self.sites.len()).any(|site| self.is_stuck(ThreadId(site as u16), now_us))
    }

    /// From `now_us` on a host is expected to send heartbeats.
    pub fn expect(&mut self, host: HostId, incarnation: Incarnation, now_us: u64) {
        if host == self.host {
            return;
        }
        let known = self.peers.get(&host);
        if known.is_some_and(|peer| peer.incarnation >= incarnation) {
            return;
        }
        let peer = Peer {
            incarnation,
            expected_us: now_us,
            answered_us: None,
            newest: None,
            epoch: Epoch(0),
            suspects: BTreeSet::new(),
            cut_from: BTreeMap::new(),
            site_age_us_max: 0,
            cannot_lead: BTreeSet::new(),
            shortages: 0,
            clock_off_us: None,
            cut_since: None,
        };
        self.peers.insert(host, peer);
    }

    /// Hosts that were removed are not expected any more.
    pub fn forget_others(&mut self, is_listed: impl Fn(HostId) -> bool) {
        self.peers.retain(|host, _| is_listed(*host));
    }

    /// All hosts begin now: each has the time of a suspicion to be heard.
    pub fn expect_all(&mut self, now_us: u64) {
        self.peers.values_mut().for_each(|peer| peer.expected_us = now_us);
    }

    /// Messages of replication between this host and a process of another one are lost for good,
    /// which both had taken part since an epoch: the other host is suspected as long as that
    /// process runs, until one of the two takes part again.
    pub fn cut_off(&mut self, host: HostId, incarnation: Incarnation, since: Epoch) {
        let peer = self.peers.get_mut(&host).filter(|peer| peer.incarnation == incarnation);
        if let Some(peer) = peer {
            peer.cut_since = Some(since);
        }
    }

    /// Messages between this host and another one are not lost any more, see
    /// [`Detector::cut_off`].
    pub fn not_cut_off(&mut self, host: HostId) {
        if let Some(peer) = self.peers.get_mut(&host) {
            peer.cut_since = None;
        }
    }

    /// The heartbeat for a host. `grants` says whether it may grant a lease.
    pub fn heartbeat(
        &self,
        to: HostId,
        cluster: crate::ClusterId,
        epoch: Epoch,
        grants: bool,
        (now_us, wall_us): (u64, u64),
    ) -> Heartbeat {
        let newest = self.peers.get(&to).and_then(|peer| Some((peer.incarnation, peer.newest?)));
        let echo = newest.map(|(incarnation, (sent_us, came_us))| Echo {
            incarnation,
            sent_us,
            held_us: now_us.saturating_sub(came_us),
            grants,
        });
        Heartbeat {
            cluster,
            incarnation: self.incarnation,
            epoch,
            sent_us: now_us,
            wall_us,
            echo,
            suspects: self.failing(now_us),
            cut_from: self.cut_from().collect(),
            site_ages_us: self.sites.iter().map(|ran_us| now_us.saturating_sub(*ran_us)).collect(),
            cannot_lead: self.cannot_lead.clone(),
            shortages: self.shortages,
        }
    }

    /// When the heartbeat came that the next one to a host answers: a grant is counted from
    /// there. `None` if there is none of its process, or its clock is off.
    pub fn answers_from_us(&self, to: HostId, incarnation: Incarnation) -> Option<u64> {
        let peer = self.peers.get(&to).filter(|peer| peer.incarnation == incarnation)?;
        peer.newest.filter(|_| peer.clock_off_us.is_none()).map(|(_, came_us)| came_us)
    }

    /// Takes a heartbeat. `None` if it is of an older process, or came after a newer one.
    pub fn take(
        &mut self,
        from: HostId,
        heartbeat: &Heartbeat,
        (now_us, wall_us): (u64, u64),
    ) -> Option<Heard> {
        self.expect(from, heartbeat.incarnation, now_us);
        let limit_us = self.options.clock_offset_max_us;
        let peer = self.peers.get_mut(&from)?;
        let overtaken = peer.newest.is_some_and(|(sent_us, _)| sent_us >= heartbeat.sent_us);
        if peer.incarnation != heartbeat.incarnation || overtaken {
            return None;
        }
        peer.newest = Some((heartbeat.sent_us, now_us));
        peer.epoch = heartbeat.epoch;
        peer.suspects = heartbeat.suspects.iter().copied().collect();
        peer.cut_from = heartbeat.cut_from.iter().copied().collect();
        peer.cannot_lead = heartbeat.cannot_lead.iter().copied().collect();
        peer.shortages = heartbeat.shortages;
        peer.site_age_us_max = heartbeat.site_ages_us.iter().copied().max().unwrap_or(0);
        let echo = heartbeat
            .echo
            .filter(|echo| echo.incarnation == self.incarnation && echo.sent_us <= now_us);
        // The delay of the message is between nothing and what the round trip leaves for it.
        let round_trip_us =
            echo.map(|echo| now_us.saturating_sub(echo.sent_us).saturating_sub(echo.held_us));
        let off_us = offset_us(heartbeat.wall_us, wall_us, round_trip_us, limit_us);
        let off_us = off_us.filter(|_| !self.faults.one_bad_clock());
        let is_new = peer.clock_off_us.is_none();
        peer.clock_off_us = off_us;
        if let Some(echo) = &echo {
            peer.answered_us = peer.answered_us.max(Some(echo.sent_us));
        }
        let grant = echo.filter(|echo| echo.grants && off_us.is_none());
        let grant = grant.map(|echo| (echo.sent_us, heartbeat.epoch));
        Some(Heard { grant, clock_off_us: off_us.filter(|_| is_new) })
    }

    /// Whether this host and another one hear each other.
    pub fn is_connected(&self, host: HostId, now_us: u64) -> bool {
        self.heard_within(host, self.options.suspect_after_us, now_us)
    }

    /// Whether this host and a majority of the voters have heard each other within half the time
    /// of a suspicion. A host that is cut off from all others finds the first of them silent up to
    /// a heartbeat before the next one, and is still connected with a majority at that moment.
    pub fn hears_majority_lately(&self, voters: &[HostId], now_us: u64) -> bool {
        let limit_us = self.options.suspect_after_us / 2;
        let heard = voters.iter().filter(|host| self.heard_within(**host, limit_us, now_us));
        2 * heard.count() > voters.len()
    }

    fn heard_within(&self, host: HostId, limit_us: u64, now_us: u64) -> bool {
        let Some(peer) = self.peers.get(&host) else { return host == self.host };
        let within = |at_us: Option<u64>, limit_us: u64| {
            at_us.is_some_and(|at_us| now_us.saturating_sub(at_us) <= limit_us)
        };
        let heard = within(peer.newest.map(|(_, came_us)| came_us), limit_us);
        // An answer is older by the interval in which it waits for the next heartbeat.
        let answered = within(peer.answered_us, limit_us + self.options.heartbeat_interval_us);
        heard && answered && peer.clock_off_us.is_none()
    }

    /// Whether another host is suspected. A host that was not expected before has the time of a
    /// suspicion to be heard.
    pub fn is_suspected(&self, host: HostId, now_us: u64) -> bool {
        self.is_cut_from(host) || self.is_failing(host, now_us)
    }

    /// The same, but for messages of replication that are lost: those between a host that does not
    /// take part and this one say nothing.
    pub fn is_failing(&self, host: HostId, now_us: u64) -> bool {
        let Some(peer) = self.peers.get(&host) else { return host != self.host };
        let stuck = peer.site_age_us_max > self.options.site_suspect_after_us;
        let Options { suspect_after_us, heartbeat_interval_us, .. } = self.options;
        let is_new =
            now_us.saturating_sub(peer.expected_us) <= suspect_after_us + heartbeat_interval_us;
        let silent = !self.is_connected(host, now_us) && !is_new;
        silent || stuck || peer.clock_off_us.is_some()
    }

    /// Whether messages of replication between this host and another one are lost for good.
    pub fn is_cut_from(&self, host: HostId) -> bool {
        self.cut_since(host).is_some()
    }

    /// The epoch since which this host and another one had taken part when messages of replication
    /// between them were lost for good, if they were.
    pub fn cut_since(&self, host: HostId) -> Option<Epoch> {
        self.peers.get(&host).and_then(|peer| peer.cut_since)
    }

    fn cut_from(&self) -> impl Iterator<Item = (HostId, Epoch)> {
        self.peers.iter().filter_map(|(host, peer)| Some((*host, peer.cut_since?)))
    }

    /// All hosts that are failing, ascending, see [`Detector::is_failing`].
    fn failing(&self, now_us: u64) -> Vec<HostId> {
        self.peers.keys().copied().filter(|host| self.is_failing(*host, now_us)).collect()
    }

    /// All hosts that are suspected, ascending.
    pub fn suspects(&self, now_us: u64) -> Vec<HostId> {
        self.peers.keys().copied().filter(|host| self.is_suspected(*host, now_us)).collect()
    }

    /// The hosts that are connected with this one, itself among them.
    pub fn connected(&self, now_us: u64) -> BTreeSet<HostId> {
        let peers = self.peers.keys().copied();
        peers.chain([self.host]).filter(|host| self.is_connected(*host, now_us)).collect()
    }

    /// The hosts that a host suspects because of what it hears of them, by its newest heartbeat.
    pub fn suspects_of(&self, host: HostId) -> impl Iterator<Item = HostId> + '_ {
        self.peers.get(&host).into_iter().flat_map(|peer| peer.suspects.iter().copied())
    }

    /// The hosts to or from which a host has lost messages of replication, by its newest heartbeat,
    /// each with the epoch since which both had taken part.
    pub fn cut_from_of(&self, host: HostId) -> impl Iterator<Item = (HostId, Epoch)> + '_ {
        let cut_from = self.peers.get(&host).into_iter().flat_map(|peer| &peer.cut_from);
        cut_from.map(|(other, since)| (*other, *since))
    }

    /// The process of a host that is expected or heard; of this host, its own.
    pub fn incarnation_of(&self, host: HostId) -> Option<Incarnation> {
        match host == self.host {
            true => Some(self.incarnation),
            false => self.peers.get(&host).map(|peer| peer.incarnation),
        }
    }

    /// The epoch of a host's newest heartbeat.
    pub fn epoch_of(&self, host: HostId) -> Epoch {
        self.peers.get(&host).map_or(Epoch(0), |peer| peer.epoch)
    }

    /// What this host is to the cluster whose voters are given. `epoch` is that of its placement.
    pub fn standing(&mut self, voters: &[HostId], epoch: Epoch, now_us: u64) -> Standing {
        let connected = voters.iter().filter(|host| self.is_connected(**host, now_us)).count();
        if 2 * connected <= voters.len() {
            return Standing::Minority;
        }
        let newer = self.peers.values().any(|peer| peer.epoch > epoch);
        self.stale_since_us = self.stale_since_us.or(Some(now_us)).filter(|_| newer);
        let limit_us = self.options.suspect_after_us;
        match self.stale_since_us {
            Some(since_us) if now_us.saturating_sub(since_us) > limit_us => Standing::Stale,
            _ => Standing::Majority,
        }
    }
}

/// How far the clock of the peer is off, if it is over the limit for every delay that the message
/// may have had. Without a round trip the delay may be anything.
pub(crate) fn offset_us(
    peer_us: u64,
    own_us: u64,
    round_trip_us: Option<u64>,
    limit_us: u64,
) -> Option<i64> {
    let clamp = |value: i128| value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    let least = i128::from(peer_us).saturating_sub(i128::from(own_us));
    let most = round_trip_us.map(|round_trip_us| least + i128::from(round_trip_us));
    let limit = i128::from(limit_us);
    match most {
        _ if least > limit => Some(clamp(least)),
        Some(most) if most < -limit => Some(clamp(most)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
