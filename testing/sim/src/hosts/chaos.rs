//! The faults of a run, and the clients that call meanwhile.

use super::{Cluster, Event, Process, Said};
use lockstep_cluster::{ClusterState, Command, CopyMove, Epoch, HostState, PartitionState};
use lockstep_types::{HostId, PartitionId};
use std::collections::BTreeSet;

/// A host that was disturbed may still be put out for so long.
const AFTERMATH_US: u64 = 600_000;
/// Shorter than a lease, and than a suspicion.
const SHORT_US: u64 = 120_000;
const LONG_US: u64 = 900_000;
/// How long clients make calls at most.
const CALLS_US: u64 = 30_000_000;
const LEASE_US: u64 = 150_000;
/// How long a proposal may be on its way.
const PROPOSAL_US: u64 = 1_000_000;

impl Cluster {
    /// Clients make calls while things fail.
    pub(super) fn disturb_for(&mut self, calls: usize) -> Result<(), String> {
        let clients = 1 + self.shared.random.below(8) as usize;
        let one_in = 10 + self.shared.random.below(40);
        // Where callers wait for ever, that is for the check at the end.
        let end_us = self.now_us + CALLS_US;
        // Hosts that come back need their time.
        let calls = if self.returns { 4 * calls } else { calls };
        while self.judge.next_call() < calls && self.now_us < end_us {
            if self.judge.outstanding < clients {
                self.begin_call();
            }
            self.change_schema()?;
            self.change_k()?;
            self.move_copy();
            self.resize();
            let pause_us = self.shared.random.below(6_000);
            let until_us = self.now_us + pause_us;
            self.run_until(until_us, |_| false)?;
            if self.shape.k > 0 && self.shared.random.chance(1, one_in) {
                self.disturb();
            }
            if self.moves_leaders && self.shared.random.chance(1, 12) {
                let host = self.shared.random.below(self.processes.len() as u64) as usize;
                self.move_leader(host);
            }
            self.move_coordinator();
            // Callers of a host that has no majority for long wait as long.
            if self.judge.outstanding >= clients {
                let most_us = self.now_us + 60_000;
                self.run_until(most_us, |it| it.judge.outstanding < clients)?;
            }
        }
        Ok(())
    }

    fn begin_call(&mut self) {
        let running: Vec<usize> =
            (0..self.processes.len()).filter(|host| self.processes[*host].is_some()).collect();
        let host = running[self.shared.random.below(running.len() as u64) as usize];
        let is_out = |it: &Process| it.links.serving.is_out();
        // Few clients stay with a host that has closed their connections.
        let goes_on = self.processes[host].as_ref().is_some_and(is_out);
        if goes_on && self.shared.random.chance(9, 10) {
            return;
        }
        let call = self.judge.call(&mut self.shared.random);
        self.call_at(host, call);
    }

    fn disturb(&mut self) {
        let count = self.processes.len() as u64;
        let one = self.shared.random.below(count) as usize;
        let other = (one + 1 + self.shared.random.below(count - 1) as usize) % count as usize;
        let long_us = SHORT_US + self.shared.random.below(LONG_US - SHORT_US);
        let short_us = 5_000 + self.shared.random.below(SHORT_US - 5_000);
        match self.shared.random.below(16) {
            0 | 1 => self.kill(one),
            2 | 3 => self.pause(one, long_us),
            4 | 5 => self.pause(one, short_us),
            6 => self.cut_ways(&[(one, other)], long_us),
            7 => self.cut_ways(&[(one, other), (other, one)], long_us),
            8 => self.cut_ways(&[(one, other), (other, one)], short_us / 3),
            9 => self.isolate(one, long_us),
            10..=12 => self.end_session(one, other),
            13 | 14 => self.drop_copy(one),
            _ => {
                let random = &mut self.shared.random;
                self.network.lost_of_thousand = [0, 0, 2, 5][random.below(4) as usize];
                self.network.delay_us_max = [200, 500, 3_000, 15_000][random.below(4) as usize];
            }
        }
    }

    /// A copy at a host goes out of sync, or one that is being loaded begins again.
    fn drop_copy(&mut self, host: usize) {
        let now_us = self.now_us;
        let id = HostId(host as u32);
        let Some(state) = self.state() else { return };
        let has = |partition: &PartitionState| {
            let mut learning = partition.learning.iter();
            partition.followers().any(|it| it == id) || learning.any(|copy| copy.host == id)
        };
        let partitions = state.partitions.iter().enumerate();
        let partitions = partitions.filter(|(_, partition)| has(partition));
        let found: Vec<(usize, Epoch)> = partitions.map(|(at, it)| (at, it.epoch)).collect();
        if found.is_empty() || !self.may_lose(&[host]) {
            return;
        }
        let (at, epoch) = found[self.shared.random.below(found.len() as u64) as usize];
        let command = Command::OutOfSync { partition: PartitionId(at as u32), host: id, epoch };
        let proposer = self.shared.random.below(self.processes.len() as u64) as usize;
        let Some(process) = &mut self.processes[proposer] else { return };
        let now = process.links.now(now_us);
        // Too many are pending: nothing happens.
        let _ = process.links.control.propose(command, now);
        self.note_disturbed(host, PROPOSAL_US);
    }

    /// Now and then K is to be another one. A smaller one only while no host may be lost, since
    /// fewer may be after it. Nothing else fails before that is decided.
    fn change_k(&mut self) -> Result<(), String> {
        let now_us = self.now_us;
        self.disturbed.retain(|_, until_us| *until_us > now_us);
        let all_run = self.processes.iter().all(Option::is_some) && self.disturbed.is_empty();
        let Some(random) = &mut self.k_changes else { return Ok(()) };
        if !random.chance(1, 20) {
            return Ok(());
        }
        let k = random.below(u64::from(self.shape.k) + 1) as u8;
        let proposer = random.below(self.processes.len() as u64) as usize;
        let Some(process) = &mut self.processes[proposer] else { return Ok(()) };
        let Some(state) = process.links.state() else { return Ok(()) };
        if state.plan_k(k).is_err() || k < state.shape.k && !all_run {
            return Ok(());
        }
        let (epoch, now) = (state.epoch, process.links.now(now_us));
        // Too many are pending: K stays.
        let _ = process.links.control.propose(Command::ChangeK { k, epoch }, now);
        let is_changed = |it: &Cluster| it.state().is_some_and(|state| state.shape.k == k);
        let changed = self.run_until(now_us + 2 * PROPOSAL_US, is_changed)?;
        self.report.k_changes += u64::from(changed);
        Ok(())
    }

    /// Now and then a copy is to be at another host, where K changes: there is capacity at times.
    fn move_copy(&mut self) {
        let now_us = self.now_us;
        let Some(random) = &mut self.k_changes else { return };
        let count = self.processes.len() as u64;
        if !random.chance(1, 6) {
            return;
        }
        let [proposer, from, to] = [0; 3].map(|_| random.below(count) as u32);
        let drawn = random.next_u64();
        let Some(process) = &mut self.processes[proposer as usize] else { return };
        let Some(state) = process.links.state() else { return };
        let partition = PartitionId((drawn % state.partitions.len() as u64) as u32);
        let moving = CopyMove { from: HostId(from), to: HostId(to) };
        let Ok(copy) = state.plan_move(partition, moving) else { return };
        let incarnation = state.hosts[&copy.host].incarnation;
        let epoch = state.partitions[partition.index()].epoch;
        let from = moving.from;
        let begin = Command::BeginMove { partition, from, copy, incarnation, epoch };
        let now = process.links.now(now_us);
        // Too many are pending: the copy stays.
        self.report.copy_moves += u64::from(process.links.control.propose(begin, now).is_ok());
    }

    /// A leader is to be moved, or a move to be given up.
    fn move_leader(&mut self, host: usize) {
        let now_us = self.now_us;
        let Some(process) = &mut self.processes[host] else { return };
        let Some(state) = process.links.state() else { return };
        let random = &mut self.shared.random;
        let partition = PartitionId(random.below(state.partitions.len() as u64) as u32);
        let placed = &state.partitions[partition.index()];
        let epoch = placed.epoch;
        let followers: Vec<HostId> = placed.followers().collect();
        let command = match (placed.hand_over, followers.len() as u64) {
            (Some(_), _) => Command::GiveUpHandOver { partition, epoch },
            (None, 0) => return,
            (None, count) => {
                let to = followers[random.below(count) as usize];
                Command::BeginHandOver { partition, to, epoch }
            }
        };
        let now = process.links.now(now_us);
        // Too many are pending: this one is not begun.
        let _ = process.links.control.propose(command, now);
    }

    /// Now and then the coordinator is to be at another host, which may be lost by then; half of
    /// the times when all leaders at its host have moved. It stays where that takes longer than a
    /// control thread waits.
    fn move_coordinator(&mut self) {
        let Some(random) = &mut self.coordinator_moves else { return };
        if !random.chance(1, 25) {
            return;
        }
        let to = HostId(random.below(self.processes.len() as u64) as u32);
        let patience_us = [1_000, 20_000, 400_000][random.below(3) as usize];
        let leaders_move = random.chance(1, 2);
        let has_it = |process: &Process| process.host.coordinator.is_some();
        let found = self.processes.iter().position(|it| it.as_ref().is_some_and(has_it));
        let Some(at) = found.filter(|at| *at != to.0 as usize) else { return };
        let run = self.processes[at].as_ref().expect("it runs").run;
        if leaders_move {
            self.move_leaders_of(at);
        }
        let delay_us = if leaders_move { 5_000 } else { 0 };
        let moves = Event::ToSite(run, Said::MoveCoordinator(Some(to)));
        self.schedule(self.now_us + delay_us, at, moves);
        let stay = Event::ToSite(run, Said::MoveCoordinator(None));
        self.schedule(self.now_us + delay_us + patience_us, at, stay);
    }

    /// All leaders of a host are to be moved, to the first of their copies.
    fn move_leaders_of(&mut self, host: usize) {
        let (id, now_us) = (HostId(host as u32), self.now_us);
        let Some(process) = &mut self.processes[host] else { return };
        let Some(state) = process.links.state() else { return };
        let led = (0..).map(PartitionId).zip(&state.partitions).filter(|(_, it)| it.leader == id);
        let moves: Vec<Command> = led
            .filter_map(|(partition, it)| {
                let to = it.followers().next()?;
                Some(Command::BeginHandOver { partition, to, epoch: it.epoch })
            })
            .collect();
        let now = process.links.now(now_us);
        for command in moves {
            // Too many are pending: this one is not begun.
            let _ = process.links.control.propose(command, now);
        }
    }

    /// Whether any of these hosts could be lost, beside those that may be by now, with a majority
    /// and a copy of each partition left.
    pub(super) fn may_lose(&mut self, hosts: &[usize]) -> bool {
        let now_us = self.now_us;
        self.disturbed.retain(|_, until_us| *until_us > now_us);
        // One that joins has none at first.
        let knows = |it: &&Process| it.run == 1 || it.links.state().is_some();
        // One that was removed knows nothing that counts.
        let is_listed = |it: &&Process| self.may_start(it.links.host.0 as usize);
        let running = self.processes.iter().flatten().filter(is_listed).filter(knows);
        let states = running.map(|process| process.links.state());
        let Some(states) = states.collect::<Option<Vec<_>>>() else { return false };
        // Voters change without an epoch: what any host knows of them counts.
        let Some(state) = self.state() else { return false };
        let voters_of = |state: &ClusterState| -> Vec<usize> {
            state.voters().map(|host| host.0 as usize).collect()
        };
        // While a voter takes the place of a lost one, the group is even, and cannot lose two.
        // One that joins may get its vote at any moment.
        let state_of = |host: usize| {
            let record = state.hosts.get(&HostId(host as u32));
            record.map_or(HostState::Down, |record| record.state)
        };
        let is_replacing = |voters: &[usize]| {
            let mut others = (0..self.processes.len()).filter(|host| !voters.contains(host));
            voters.iter().any(|host| state_of(*host) != HostState::Up)
                && others.any(|host| !matches!(state_of(host), HostState::Down | HostState::Added))
        };
        if states.iter().any(|state| is_replacing(&voters_of(state))) {
            return false;
        }
        if states.iter().any(|state| self.may_get_voters(state)) {
            return false;
        }
        let mut disturbed: BTreeSet<usize> = self.disturbed.keys().copied().collect();
        disturbed.extend(self.cut_off(state));
        let stays = |gone: usize, host: usize| {
            host != gone
                && self.is_member(state, host)
                && state_of(host) == HostState::Up
                && !disturbed.contains(&host)
        };
        hosts.iter().all(|gone| {
            let has_majority = states.iter().map(|state| voters_of(state)).all(|voters| {
                let left = voters.iter().filter(|host| stays(*gone, **host)).count();
                left > voters.len() / 2
            });
            let has_copy = self.loses_partitions
                || state.partitions.iter().all(|partition| {
                    partition.copies.iter().any(|copy| stays(*gone, copy.host.0 as usize))
                });
            has_majority && has_copy
        })
    }

    pub(super) fn note_disturbed(&mut self, host: usize, for_us: u64) {
        let until_us = self.now_us + for_us + AFTERMATH_US;
        let known = self.disturbed.entry(host).or_default();
        *known = until_us.max(*known);
    }

    /// The process of a host ends.
    pub(super) fn kill(&mut self, host: usize) {
        if self.processes[host].is_none() || !self.may_lose(&[host]) {
            return;
        }
        let process = self.processes[host].take().expect("it runs");
        process.host.handed.into_keys().for_each(|call| self.shared.unknown(call));
        self.report.killed += 1;
        self.return_later(host);
        self.note_disturbed(host, 0);
    }

    fn pause(&mut self, host: usize, for_us: u64) {
        let is_long = for_us > SHORT_US;
        if is_long && !self.may_lose(&[host]) {
            return;
        }
        let now_us = self.now_us;
        let Some(process) = &mut self.processes[host] else { return };
        if process.paused_until_us > now_us {
            return;
        }
        process.paused_until_us = now_us + for_us;
        self.report.long_pauses += u64::from(for_us > LEASE_US);
        if is_long {
            self.note_disturbed(host, for_us);
        }
    }

    fn cut_ways(&mut self, ways: &[(usize, usize)], for_us: u64) {
        let (one, other) = ways[0];
        let is_long = for_us > SHORT_US / 3;
        if is_long && !self.may_lose(&[one, other]) {
            return;
        }
        ways.iter().for_each(|way| self.network.cut(*way, self.now_us + for_us));
        match ways.len() {
            1 => self.report.one_way_cuts += 1,
            _ => self.report.cuts += 1,
        }
        if is_long {
            self.note_disturbed(one, for_us);
            self.note_disturbed(other, for_us);
        }
    }

    /// A host is cut off from all others, in one direction or both.
    fn isolate(&mut self, host: usize, for_us: u64) {
        if !self.may_lose(&[host]) {
            return;
        }
        let kind = self.shared.random.below(3);
        for other in (0..self.processes.len()).filter(|other| *other != host) {
            if kind != 1 {
                self.network.cut((host, other), self.now_us + for_us);
            }
            if kind != 2 {
                self.network.cut((other, host), self.now_us + for_us);
            }
        }
        match kind {
            0 => self.report.cuts += 1,
            _ => self.report.one_way_cuts += 1,
        }
        self.note_disturbed(host, for_us);
    }

    /// What is in flight between two hosts is lost: one of them goes out.
    fn end_session(&mut self, one: usize, other: usize) {
        let both = [one, other];
        let is_over = both.iter().any(|host| self.processes[*host].is_none());
        // Both may have last copies: the kept seeds are of runs in which that is seldom.
        let is_kept = self.loses_partitions && self.judge.lists.is_none();
        if is_over || is_kept || !self.may_lose(&both) {
            return;
        }
        if self.shared.random.chance(1, 2) {
            // One of the two hears late of the epoch in which the other one goes on.
            let slow = both[self.shared.random.below(2) as usize];
            self.network.slow_down(slow, self.now_us + AFTERMATH_US);
        }
        self.report.sessions += 1;
        self.lose_session(one, other);
    }

    /// Faults stop; hosts that stand still go on in their time.
    pub(super) fn heal(&mut self) {
        self.network.heal();
    }
}
