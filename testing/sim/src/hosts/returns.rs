//! Hosts that are lost are started again, as other processes without data: how they connect, and
//! take part again.

use super::host::Host;
use super::members::{Done, Links};
use super::network::Clock;
use super::{Cluster, Event, Process, Said, Shared, TICK_US};
use lockstep_cluster::{ClusterState, Command, HostState, Now};
use lockstep_host::placement::{ClusterPlacement, Placement};
use lockstep_host::serving::Serving;
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Between two proposals of a host that joins.
const PROPOSE_EVERY_US: u64 = 500_000;
/// How long a host that is lost stays away.
const AWAY_US: u64 = 400_000;

/// Two hosts, each with the run of its process.
pub(super) type Pair = ((usize, u64), (usize, u64));

impl Links {
    /// A host that joins asks to take part, and begins when it does.
    pub(super) fn attend_to_joining(
        &mut self,
        now: Now,
        (host, shared): (&mut Host, &mut Shared),
        done: &mut Done,
    ) {
        host.attend_to_joining();
        if self.has_begun {
            return;
        }
        let state = self.state();
        let up = state.into_iter().flat_map(|state| &state.hosts);
        let mut up = up.filter(|(_, record)| record.state == HostState::Up);
        let agrees = up.all(|(other, _)| *other == self.host || self.is_connected(*other));
        let waited = |at_us: u64| now.us.saturating_sub(at_us) >= PROPOSE_EVERY_US;
        if agrees && Serving::may_join(&self.control) && self.proposed_us.is_none_or(waited) {
            self.proposed_us = Some(now.us);
            let command = Command::HostUp { host: self.host, incarnation: self.run };
            // Too many are pending: it is proposed again.
            let _ = self.control.propose(command, now);
        }
        if !Serving::may_begin(&self.control, |other| self.is_connected(other), now.us) {
            return;
        }
        let state = self.state().expect("a host takes part in a cluster that is formed");
        let (epoch, placement) = (state.epoch, ClusterPlacement::of_state(state));
        let placement = Arc::new(Placement::of_cluster(self.host, &placement));
        (self.taken, self.known, self.has_begun) = (epoch, Arc::clone(&placement), true);
        self.take_part(&placement);
        if let Err(problem) = self.copies.begin(&placement, &BTreeMap::new(), &mut self.sends) {
            done.problem = Some(problem);
        }
        self.serving.begin();
        host.begin(placement, shared);
        self.send_all(self.host, done);
    }
}

impl Cluster {
    /// A process of a host begins: of a new cluster the first time, then of one that runs.
    pub(super) fn start(&mut self, id: HostId) {
        let (number, options) = (id.0 as usize, self.options);
        self.runs[number] += 1;
        let run = self.runs[number];
        let clock = Clock::new(&mut self.shared.random, options.clock_drift_ppm);
        let placement = Placement::of_cluster(id, &self.first);
        let (_, wall_us) = clock.at(self.now_us);
        let of = (self.shape, self.runs.len() as u32, options, run);
        let times = (self.seed, self.now_us);
        let links = Links::new(&placement, of, clock, times, &self.shared);
        let host = match run {
            1 => Host::new(placement, &self.shared, wall_us as i64),
            _ => Host::joining(placement, &self.shared, run, wall_us as i64),
        };
        self.processes[number] = Some(Process { run, links, host, paused_until_us: 0 });
        let first_us = self.now_us + self.shared.random.below(TICK_US);
        self.schedule(first_us, number, Event::Tick(run));
    }

    /// Whether a process is the one that the hosts list as this host.
    pub(super) fn is_member(&self, state: &ClusterState, host: usize) -> bool {
        let record = state.hosts.get(&HostId(host as u32));
        let runs = |run: u64| self.processes[host].as_ref().is_some_and(|it| it.run == run);
        record.is_some_and(|record| runs(record.incarnation.0))
    }

    /// More is lost than the cluster survives: no host is up.
    pub(super) fn is_stuck(&self) -> bool {
        let Some(state) = self.state().filter(|_| self.loses_partitions) else { return false };
        !state.hosts.values().any(|record| record.state == HostState::Up)
    }

    /// Hosts that are up and have lost messages to each other: one of them is about to go out.
    pub(super) fn cut_off(&self, state: &ClusterState) -> Vec<usize> {
        let is_up = |host: &usize| {
            let record = state.hosts.get(&HostId(*host as u32));
            let is_up = record.is_some_and(|record| record.state == HostState::Up);
            is_up && self.is_member(state, *host)
        };
        let up: Vec<usize> = (0..self.processes.len()).filter(is_up).collect();
        let hears = |one: usize, other: usize| {
            let links = self.processes[one].as_ref().map(|process| &process.links);
            links.is_some_and(|links| links.session_to(HostId(other as u32)).is_some())
        };
        let is_cut_off = |host: &usize| {
            let mut others = up.iter().filter(|other| *other != host);
            others.any(|other| !hears(*host, *other) || !hears(*other, *host))
        };
        up.iter().copied().filter(is_cut_off).collect()
    }

    /// A host that is lost is started again after a while.
    pub(super) fn return_later(&mut self, host: usize) {
        if self.returns && self.shared.random.chance(9, 10) {
            let away_us = 1_000 + self.shared.random.below(AWAY_US);
            self.schedule(self.now_us + away_us, host, Event::Start);
        }
    }

    /// A host that was put out begins again: its process ends.
    pub(super) fn begin_again(&mut self, host: usize) {
        // A vote more is missing until it is back, beside those that faults may take.
        if !self.returns || !self.may_lose(&[host]) {
            return;
        }
        let process = self.processes[host].take().expect("it runs");
        process.host.handed.into_keys().for_each(|call| self.shared.unknown(call));
        self.report.began_again += 1;
        self.return_later(host);
    }

    /// A host is started again, and connects with the others.
    pub(super) fn start_again(&mut self, id: HostId) {
        self.start(id);
        self.report.started_again += 1;
        let number = id.0 as usize;
        let run = self.runs[number];
        for other in (0..self.processes.len()).filter(|other| *other != number) {
            self.connect((number, run), other);
        }
    }

    /// A host sends another one a message, as soon as its links may.
    pub(super) fn send(&mut self, links: &mut Links, to: HostId, said: Said) {
        if let Some((session, said)) = links.send(to, said) {
            self.send_in((links.host, to), session, said);
        }
    }

    /// The same in a session that there is.
    pub(super) fn send_in(&mut self, (from, to): (HostId, HostId), session: u32, said: Said) {
        self.traffic.note((from, to), &said);
        let (from, way) = (from.0 as usize, (from.0 as usize, to.0 as usize));
        let at_us = self.network.message_us(&mut self.shared.random, way, self.now_us);
        self.schedule(at_us, way.1, Event::Message { from, session, said });
    }

    /// Two hosts connect with each other, in a session of their own.
    pub(super) fn connect(&mut self, (one, run): (usize, u64), other: usize) {
        let Some(Process { run: other_run, .. }) = self.processes[other] else { return };
        // Where both have ended a session, one follows.
        let pair = [(one, run), (other, other_run)];
        let pair = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        if self.connecting.get(&pair).is_some_and(|at_us| *at_us > self.now_us) {
            return;
        }
        self.network.end_session((one, other));
        let session = self.network.session((one, other));
        let random = &mut self.shared.random;
        let ways = [(one, other), (other, one)];
        let at_us = ways.map(|way| self.network.message_us(random, way, self.now_us));
        let at_us = at_us[0].max(at_us[1]);
        self.connecting.insert(pair, at_us);
        self.schedule(at_us, one, Event::Session { run, peer: other, session });
        self.schedule(at_us, other, Event::Session { run: other_run, peer: one, session });
    }

    /// What is in flight between two hosts that run is lost.
    pub(super) fn lose_session(&mut self, one: usize, other: usize) {
        self.network.end_session((one, other));
        let session = self.network.session((one, other));
        for (own, peer) in [(one, other), (other, one)] {
            let process = self.processes[own].as_mut().expect("it runs");
            process.links.begin_session(HostId(peer as u32), session);
            self.note_disturbed(own, 0);
        }
    }
}
