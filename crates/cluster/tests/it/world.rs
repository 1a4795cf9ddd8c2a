//! Hosts with clocks, disks and a network, all of which follow from a seed.

use crate::judge::Judge;
use lockstep_base::random::SeededRandom;
use lockstep_cluster::{
    Agreement, ClusterError, ClusterState, Command, Control, ControlEvent, DurableChange, Event,
    Faults, HostDescription, HostState, Incarnation, MemberConfig, Now, Options, ProposalId,
    RaftLog, Shape,
};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, DiskErrorKind};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::BTreeMap;
use std::sync::Arc;

const WALL_US: u64 = 1_700_000_000_000_000;
/// How often a host looks at the time.
const TICK_US: u64 = 10_000;

/// What a world is made of.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub shape: Shape,
    /// Hosts keep their Raft log on disk.
    pub disk: bool,
    pub faults: Faults,
    pub options: Options,
}

/// The clock of a process: microseconds at the true time 0, and its rate against true time.
#[derive(Debug, Clone, Copy)]
struct Clock {
    base_us: u64,
    drift_ppm: i64,
    wall_offset_us: u64,
}

pub struct Host {
    pub id: HostId,
    pub control: Option<Control>,
    disk: MemoryDisk,
    log: Option<RaftLog>,
    incarnation: u64,
    clock: Clock,
    pub paused_until_us: u64,
    next_tick_us: u64,
    next_act_us: u64,
    stuck_until_us: u64,
    /// It leaves on purpose.
    pub leaves: bool,
    /// The power fails when something is made durable next.
    power_fails: bool,
    /// Since when the wall clock is off, or right again.
    wall_since_us: u64,
}

struct Packet {
    from: HostId,
    to: HostId,
    bytes: Vec<u8>,
}

pub struct World {
    pub now_us: u64,
    pub random: SeededRandom,
    pub hosts: Vec<Host>,
    pub setup: Setup,
    pub judge: Judge,
    packets: BTreeMap<(u64, u64), Packet>,
    next_packet: u64,
    /// Directions that are cut, and until when.
    cuts: BTreeMap<(HostId, HostId), u64>,
    /// Of a thousand messages, how many are lost.
    pub lost_of_thousand: u64,
    /// Of a thousand messages, how many have a byte changed.
    pub damage_of_thousand: u64,
    pub delay_us_max: u64,
    /// Hosts do what the data plane would: come up, bring copies in sync, transfer leaders.
    pub busy: bool,
}

impl World {
    pub fn new(seed: u64, setup: Setup) -> World {
        let random = SeededRandom::new(seed);
        let mut world = World {
            now_us: 0,
            random,
            hosts: Vec::new(),
            setup,
            judge: Judge::new(seed),
            packets: BTreeMap::new(),
            next_packet: 0,
            cuts: BTreeMap::new(),
            lost_of_thousand: 0,
            damage_of_thousand: 0,
            delay_us_max: 2_000,
            busy: true,
        };
        for number in 0..setup.shape.members() {
            let disk = MemoryDisk::new();
            disk.create_folder("cluster").expect("it is made");
            disk.sync_folder("").expect("it is synced");
            world.hosts.push(Host {
                id: HostId(number),
                control: None,
                disk,
                log: None,
                incarnation: 0,
                clock: Clock { base_us: 0, drift_ppm: 0, wall_offset_us: 0 },
                paused_until_us: 0,
                next_tick_us: 0,
                next_act_us: 0,
                stuck_until_us: 0,
                leaves: false,
                power_fails: false,
                wall_since_us: 0,
            });
            world.start(HostId(number));
        }
        world
    }

    pub fn host(&self, host: HostId) -> &Host {
        &self.hosts[host.0 as usize]
    }

    fn host_mut(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host.0 as usize]
    }

    pub fn local(&self, host: &Host) -> Now {
        let Clock { base_us, drift_ppm, wall_offset_us } = host.clock;
        let rate = (1_000_000 + drift_ppm) as u64;
        let us = base_us + (u128::from(self.now_us) * u128::from(rate) / 1_000_000) as u64;
        Now { us, wall_us: WALL_US + self.now_us + wall_offset_us }
    }

    /// Starts the process of a host that is down.
    pub fn start(&mut self, id: HostId) {
        if self.host(id).control.is_some() {
            return;
        }
        let drift = self.setup.options.clock_drift_ppm as i64;
        let clock = Clock {
            base_us: self.random.below(1 << 40),
            drift_ppm: self.random.between(-drift, drift),
            wall_offset_us: self.host(id).clock.wall_offset_us,
        };
        let phase_us = self.random.below(TICK_US);
        let (now_us, disk) = (self.now_us, self.setup.disk);
        let host = self.host_mut(id);
        host.incarnation += 1;
        host.clock = clock;
        host.next_tick_us = now_us + phase_us;
        host.next_act_us = now_us + 100_000 + phase_us;
        host.paused_until_us = now_us;
        let mut restored = None;
        if disk {
            let opened = RaftLog::open(Arc::new(host.disk.clone()), "cluster");
            let (log, found) = opened.expect("a log survives what happens to it");
            (host.log, restored) = (Some(log), found);
        }
        let config = self.config(id);
        let now = self.local(self.host(id));
        let control = Control::new(config, restored, now).expect("the configuration is right");
        self.judge.begin_life(id);
        self.host_mut(id).control = Some(control);
    }

    fn config(&self, id: HostId) -> MemberConfig {
        let Setup { shape, faults, options, .. } = self.setup;
        let host = self.host(id);
        MemberConfig {
            description: HostDescription {
                host: id,
                name: format!("host{id}"),
                internal_address: format!("{id}:3021"),
                client_address: format!("{id}:21212"),
                admin_address: format!("{id}:21211"),
                directory: String::new(),
                placement_group: String::new(),
                release: 1,
            },
            incarnation: Incarnation(host.incarnation),
            joins: false,
            added: Vec::new(),
            agreement: Agreement { name: "sim".into(), shape, hosts_digest: 1 },
            options,
            seed: self.judge.seed,
            faults,
        }
    }

    /// Ends the process of a host; of what was not synced on its disk, anything may be left.
    pub fn crash(&mut self, id: HostId) {
        let random = &mut self.random;
        let host = &mut self.hosts[id.0 as usize];
        (host.control, host.log, host.power_fails) = (None, None, false);
        host.disk.cut_power(|_| match random.below(4) {
            0 => Survival::Kept,
            1 => Survival::Torn(random.below(64) as usize),
            2 => Survival::Sectors(random.next_u64()),
            _ => Survival::Lost,
        });
    }

    /// A host leaves on purpose from now on.
    pub fn leave(&mut self, id: HostId) {
        self.host_mut(id).leaves = true;
    }

    /// Ends the process of a host at the next moment at which it makes something durable.
    pub fn crash_at_next_write(&mut self, id: HostId) {
        self.host_mut(id).power_fails = true;
    }

    pub fn pause(&mut self, id: HostId, for_us: u64) {
        self.host_mut(id).paused_until_us = self.now_us + for_us;
    }

    pub fn stick_site(&mut self, id: HostId, for_us: u64) {
        self.host_mut(id).stuck_until_us = self.now_us + for_us;
    }

    pub fn set_wall_offset(&mut self, id: HostId, offset_us: u64) {
        let now_us = self.now_us;
        let host = self.host_mut(id);
        if host.clock.wall_offset_us != offset_us {
            (host.clock.wall_offset_us, host.wall_since_us) = (offset_us, now_us);
        }
    }

    /// The offset of a host's wall clock, and since when it has it.
    pub fn wall_offset(&self, host: &Host) -> (u64, u64) {
        (host.clock.wall_offset_us, host.wall_since_us)
    }

    pub fn cut(&mut self, from: HostId, to: HostId, for_us: u64) {
        self.cuts.insert((from, to), self.now_us + for_us);
    }

    /// Ends all faults; hosts that are down start.
    pub fn heal(&mut self) {
        self.cuts.clear();
        (self.lost_of_thousand, self.delay_us_max) = (0, 2_000);
        for number in 0..self.hosts.len() {
            let id = HostId(number as u32);
            let host = &mut self.hosts[number];
            (host.paused_until_us, host.stuck_until_us, host.power_fails) = (0, 0, false);
            self.set_wall_offset(id, 0);
            self.start(id);
        }
    }

    /// For a time another process greets under the number of a host that runs, from elsewhere: what
    /// is sent to it comes to the first one.
    pub fn start_beside(&mut self, id: HostId, for_us: u64) {
        let mut config = self.config(id);
        config.incarnation.0 += 1;
        let now = self.local(self.host(id));
        let mut control = Control::new(config, None, now).expect("the configuration is right");
        let until_us = self.now_us + for_us;
        while self.now_us < until_us {
            let now = self.local(self.host(id));
            control.tick(now);
            for outgoing in control.take_effects(now).messages {
                self.send(id, outgoing.to, outgoing.bytes);
            }
            self.run_until(self.now_us + TICK_US, &|_| false);
        }
    }

    /// Has a host propose a command.
    pub fn propose(&mut self, id: HostId, command: Command) -> ProposalId {
        let now = self.local(self.host(id));
        let control = self.host_mut(id).control.as_mut().expect("it runs");
        let proposal = control.propose(command, now).expect("few are pending");
        self.carry_out(id);
        proposal
    }

    /// The state that the newest placement is in.
    pub fn newest_state(&self) -> Option<&ClusterState> {
        let states = self.hosts.iter().filter_map(|host| host.control.as_ref()?.state());
        states.max_by_key(|state| state.epoch)
    }

    /// Runs until a time, or until `done` at the end of a step.
    pub fn run_until(&mut self, until_us: u64, done: &dyn Fn(&World) -> bool) -> bool {
        while self.now_us < until_us {
            let packet = self.packets.first_key_value().map(|(key, _)| key.0);
            let ticks = self.hosts.iter().filter(|host| host.control.is_some());
            let tick = ticks.map(|host| host.next_tick_us.max(host.paused_until_us)).min();
            let next = packet.into_iter().chain(tick).min().unwrap_or(until_us);
            self.now_us = next.clamp(self.now_us, until_us);
            self.deliver();
            self.tick();
            self.check();
            if done(self) {
                return true;
            }
        }
        false
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.packets.first_entry() {
            if entry.key().0 > self.now_us {
                break;
            }
            let packet = entry.remove();
            let host = self.host(packet.to);
            if host.control.is_some() && host.paused_until_us > self.now_us {
                let at_us = host.paused_until_us;
                self.queue(at_us, packet);
                continue;
            }
            let now = self.local(host);
            let host = self.host_mut(packet.to);
            if let Some(control) = &mut host.control {
                control.receive(packet.from, &packet.bytes, now);
                self.carry_out(packet.to);
            }
        }
    }

    fn queue(&mut self, at_us: u64, packet: Packet) {
        self.next_packet += 1;
        self.packets.insert((at_us, self.next_packet), packet);
    }

    fn tick(&mut self) {
        for number in 0..self.hosts.len() {
            let host = &self.hosts[number];
            let due = host.next_tick_us.max(host.paused_until_us) <= self.now_us;
            if host.control.is_none() || !due {
                continue;
            }
            let (now, now_us) = (self.local(host), self.now_us);
            let sites = self.setup.shape.sites_per_host;
            let host = &mut self.hosts[number];
            host.next_tick_us = now_us + TICK_US;
            let stuck = host.stuck_until_us > now_us;
            let control = host.control.as_mut().expect("it was there above");
            for site in u16::from(stuck)..sites {
                control.site_ran(ThreadId(site), now.us);
            }
            if host.leaves {
                control.leave(now);
            }
            control.tick(now);
            // One that leaves does not ask to take part again.
            if host.next_act_us <= now_us && !host.leaves {
                host.next_act_us = now_us + 50_000;
                self.act(number);
            }
            self.carry_out(HostId(number as u32));
        }
    }

    /// What the data plane of a host would do.
    fn act(&mut self, number: usize) {
        let random = &mut self.random;
        let now = {
            let host = &self.hosts[number];
            self.judge.seen_acting(host.id);
            World::local_of(host, self.now_us)
        };
        let busy = self.busy;
        let host = &mut self.hosts[number];
        let Some(control) = &mut host.control else { return };
        let Some(state) = control.state().filter(|state| state.is_formed()) else { return };
        let own = host.id;
        let mut commands = Vec::new();
        let mut sealed = Vec::new();
        let record = state.hosts.get(&own);
        let waits =
            record.is_some_and(|r| r.state != HostState::Up && r.incarnation.0 == host.incarnation);
        if waits && state.partitions_of(own).next().is_none() {
            commands
                .push(Command::HostUp { host: own, incarnation: Incarnation(host.incarnation) });
        }
        for (partition, known) in (0..).map(PartitionId).zip(&state.partitions) {
            if known.leader != own || !control.is_up() {
                continue;
            }
            let epoch = known.epoch;
            match known.hand_over {
                Some(_) if busy && random.chance(1, 4) => {
                    commands.push(Command::GiveUpHandOver { partition, epoch });
                }
                Some(to) => {
                    let complete = Command::CompleteHandOver { partition, to, epoch };
                    sealed.push((partition, complete));
                }
                None if !known.learning.is_empty() && random.chance(1, 2) => {
                    let copy = known.learning[0];
                    let incarnation = state.hosts[&copy.host].incarnation;
                    commands.push(Command::InSync { partition, copy, incarnation, epoch });
                }
                None if busy && known.copies.len() > 1 && random.chance(1, 12) => {
                    let to = known.followers().next().expect("it has one");
                    commands.push(match random.below(4) {
                        0 => Command::OutOfSync { partition, host: to, epoch },
                        1 => Command::MoveLeader { partition, to, epoch },
                        _ => Command::BeginHandOver { partition, to, epoch },
                    });
                }
                None => {}
            }
        }
        if busy && random.chance(1, 30) {
            commands.push(Command::CatalogVersion(state.catalog_version + 1));
        }
        let sealed = sealed.into_iter().filter(|(partition, _)| control.seal(*partition, now));
        commands.extend(sealed.map(|(_, complete)| complete).collect::<Vec<_>>());
        for command in commands {
            let _ = control.propose(command, now);
        }
    }

    fn local_of(host: &Host, now_us: u64) -> Now {
        let rate = (1_000_000 + host.clock.drift_ppm) as u64;
        let us = host.clock.base_us + (u128::from(now_us) * u128::from(rate) / 1_000_000) as u64;
        Now { us, wall_us: WALL_US + now_us + host.clock.wall_offset_us }
    }

    /// Does what a host's control plane asks for, in its order.
    fn carry_out(&mut self, id: HostId) {
        let now = self.local(self.host(id));
        let host = self.host_mut(id);
        let Some(control) = &mut host.control else { return };
        let effects = control.take_effects(now);
        if host.log.is_some() && !effects.durable.is_empty() && host.power_fails {
            // The power fails at one of the operations, and all after it do nothing.
            let mut left = self.random.below(7);
            let host = self.host_mut(id);
            host.disk.set_hook(Some(Box::new(move |_, _, _, _| {
                left = left.saturating_sub(1);
                if left == 0 { Err(DiskErrorKind::Other) } else { Ok(()) }
            })));
            let _ = host.write(&effects.durable);
            host.disk.set_hook(None);
            self.crash(id);
            return;
        }
        host.write(&effects.durable).expect("the disk in memory does not fail");
        for outgoing in effects.messages {
            self.send(id, outgoing.to, outgoing.bytes);
        }
        let control = self.hosts[id.0 as usize].control.as_ref().expect("it runs");
        self.judge.take_events(id, control, &effects.events);
        if effects.events.contains(&ControlEvent::Member(Event::StartAgain)) {
            let host = self.host_mut(id);
            let cleared = host.log.as_mut().map_or(Ok(()), RaftLog::clear);
            cleared.expect("the disk in memory does not fail");
            (host.control, host.log) = (None, None);
            self.start(id);
        }
    }

    fn send(&mut self, from: HostId, to: HostId, mut bytes: Vec<u8>) {
        if self.damage_of_thousand > 0 && self.random.below(1000) < self.damage_of_thousand {
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
        let cut = self.cuts.get(&(from, to)).is_some_and(|until_us| *until_us > self.now_us);
        if cut || self.random.below(1000) < self.lost_of_thousand {
            return;
        }
        let copies = if self.random.chance(1, 200) { 2 } else { 1 };
        for _ in 0..copies {
            let delay_us = 100 + self.random.below(self.delay_us_max);
            let packet = Packet { from, to, bytes: bytes.clone() };
            self.queue(self.now_us + delay_us, packet);
        }
    }

    fn check(&mut self) {
        let mut judge = std::mem::replace(&mut self.judge, Judge::new(0));
        judge.check(self);
        self.judge = judge;
    }

    /// Whether a host could end without its memory, and the cluster would still have a majority of
    /// voters that remember, and a copy of each partition.
    pub fn can_lose_memory_of(&self, id: HostId) -> bool {
        let Some(state) = self.newest_state().filter(|state| state.is_formed()) else {
            return false;
        };
        let remembers = |host: &HostId| {
            let control = self.host(*host).control.as_ref();
            let identity = control.map(|control| control.member().identity().id);
            *host != id && identity == state.hosts.get(host).map(|record| record.raft_id())
        };
        let voters: Vec<HostId> = state.voters().collect();
        // While one voter is lost, another one may be about to take its place: the group has an
        // even number of voters then, and cannot lose a second one.
        let left = voters.iter().filter(|host| **host != id).all(remembers);
        // A group that just got its third voter has two until the others know of it.
        let known = self.hosts.iter().filter_map(|host| host.control.as_ref()?.state());
        let left = left && known.clone().all(|known| known.voters().eq(state.voters()));
        let copies = state.partitions.iter().all(|p| p.copies.iter().any(|c| remembers(&c.host)));
        left && voters.len() > 2 && voters.len() % 2 == 1 && copies
    }
}

impl Host {
    fn write(&mut self, changes: &[DurableChange]) -> Result<(), ClusterError> {
        self.log.as_mut().map_or(Ok(()), |log| log.write(changes))
    }
}
