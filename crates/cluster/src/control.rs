//! The control plane of one host as a whole: the member of the Raft group, detection, leases and
//! the rules of the leader, driven by time and messages.

use crate::command::Command;
use crate::detector::{Detector, Standing};
use crate::error::{ClusterError, FormatError};
use crate::heartbeat::Heartbeat;
use crate::ids::{ClusterId, Epoch, Incarnation};
use crate::leases::Leases;
use crate::member::{
    Effects, Event, Member, MemberConfig, Outgoing, ProposalId, Restored, wanted_voters,
};
use crate::now::Now;
use crate::options::Options;
use crate::state::{ClusterState, HostRecord, HostState, Vote};
use crate::supervisor::Supervisor;
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::BTreeSet;

/// The control plane of one host.
///
/// Its messages are datagrams: they may be lost, repeated and overtaken. Most are below 1 KiB; one
/// with a snapshot of the state has some 20 bytes for each copy of a partition.
pub struct Control {
    member: Member,
    detector: Detector,
    leases: Leases,
    supervisor: Supervisor,
    options: Options,
    standing: Standing,
    suspects: Vec<HostId>,
    /// The state that detection and leases have.
    installed: Option<(Epoch, u64)>,
    changes: u64,
    next_heartbeat_us: u64,
    /// It proposes nothing of its own accord.
    is_stopping: bool,
    events: Vec<ControlEvent>,
    messages: Vec<Outgoing>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEvent {
    /// To the member of the Raft group.
    Member(Event),
    /// This host is in a majority, or not any more.
    Standing(Standing),
    /// The suspected hosts are these from now on.
    Suspects(Vec<HostId>),
    /// The clock of another host is off: it is refused.
    ClockOff(ClusterError),
}

impl ControlEvent {
    /// Whether the state is another one from now on.
    pub fn changes_state(&self) -> bool {
        matches!(self, ControlEvent::Member(event) if changes_state(event))
    }
}

/// What the caller does, in this order. See [`Effects`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlEffects {
    /// First: all of it is made durable, in this order. Memory-only hosts skip it.
    pub durable: Vec<crate::DurableChange>,
    /// Then these are sent.
    pub messages: Vec<Outgoing>,
    /// Then these have happened.
    pub events: Vec<ControlEvent>,
}

/// First byte of what the members of the Raft group exchange.
const MEMBER: u8 = 1;
/// First byte of a heartbeat.
const HEARTBEAT: u8 = 2;

impl Control {
    /// The control plane of a process that starts.
    ///
    /// # Errors
    /// As for [`Member::new`].
    pub fn new(
        config: MemberConfig,
        restored: Option<Restored>,
        now: Now,
    ) -> Result<Control, ClusterError> {
        let (host, incarnation) = (config.description.host, config.incarnation);
        let (options, faults) = (config.options, config.faults);
        let shape = config.agreement.shape;
        let sites = if shape.is_witness(host) { 0 } else { shape.sites_per_host };
        let member = Member::new(config, restored, now.us)?;
        let detector = Detector::new(host, incarnation, sites, options, faults, now.us);
        let leases = Leases::new(host, incarnation, options, faults, now.us);
        let mut control = Control {
            member,
            detector,
            leases,
            supervisor: Supervisor::default(),
            options,
            standing: Standing::Minority,
            suspects: Vec::new(),
            installed: None,
            changes: 0,
            next_heartbeat_us: now.us,
            is_stopping: false,
            events: Vec::new(),
            messages: Vec::new(),
        };
        control.leases.suspend(true);
        control.install(now);
        Ok(control)
    }

    /// The member of the Raft group.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The replicated state, if this host has it.
    pub fn state(&self) -> Option<&ClusterState> {
        self.member.state()
    }

    /// Whether this host votes, or the cluster has as many voters as it wants: then it survives as
    /// many losses with this host as it is meant to.
    pub fn votes_if_needed(&self) -> bool {
        let Some(state) = self.state() else { return false };
        let own = state.hosts.get(&self.member.host());
        let votes = own.is_some_and(|record| record.vote == Vote::Voter);
        votes || state.voters().count() >= wanted_voters(state)
    }

    /// What this host is to the cluster.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The leases of this host.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Who is connected and who is suspected.
    pub fn detector(&self) -> &Detector {
        &self.detector
    }

    /// Whether this host may answer reads of a partition at a time. It is tested after the read was
    /// executed, when the answer is written. A host in a minority holds no lease, and neither does
    /// one for a partition whose site stands still.
    pub fn holds_lease(&self, partition: PartitionId, now_us: u64) -> bool {
        let copy = self
            .state()
            .and_then(|state| state.partition(partition)?.copy_at(self.member.host()).copied());
        let runs = copy.is_some_and(|copy| !self.detector.is_stuck(copy.thread, now_us));
        runs && self.leases.holds(partition, now_us)
    }

    /// Until when this host may answer for a partition, as far as the leases were granted by now:
    /// what [`Control::holds_lease`] tests, for threads that test it against their own clock.
    pub fn answers_until_us(&self, partition: PartitionId, now_us: u64) -> Option<u64> {
        let copy = *self.state()?.partition(partition)?.copy_at(self.member.host())?;
        let is_open = self.leases.open_after_us(partition).is_some_and(|at_us| at_us <= now_us);
        let runs = !self.detector.is_stuck(copy.thread, now_us);
        let until_us = self.leases.held_until_us(partition).filter(|_| is_open && runs)?;
        Some(until_us.saturating_add(self.leases.grace_us()))
    }

    /// Serves a partition no longer, until it has a new epoch: the leader's part of a transfer.
    /// Only if this is true may [`Command::CompleteHandOver`] be proposed; see [`Leases::seal`].
    pub fn seal(&mut self, partition: PartitionId, now: Now) -> bool {
        self.leases.seal(partition, now.us)
    }

    /// Whether a receipt to a leader may grant it a lease, and of which epoch. The receipt answers
    /// a message of the given process of that leader, which came at `came_us`. It carries the
    /// epoch, and the time at which the leader sent that message, by the leader's clock.
    pub fn grant_with_receipt(
        &mut self,
        leader: HostId,
        incarnation: Incarnation,
        came_us: u64,
    ) -> Option<Epoch> {
        let epoch = self.state()?.epoch;
        self.detector.answers_from_us(leader, incarnation)?;
        self.leases.give(leader, incarnation, came_us).then_some(epoch)
    }

    /// Takes a grant that came with a receipt of a follower: it answers what this process sent at
    /// `sent_us`, and is of an epoch. Receipts for an earlier process are not taken.
    pub fn take_grant(&mut self, follower: HostId, sent_us: u64, epoch: Epoch) {
        self.leases.take(follower, sent_us, epoch);
    }

    /// The partitions that this host is to lead and cannot: its copies of them are not sound. The
    /// other hosts hear of them by its heartbeats.
    pub fn set_cannot_lead(&mut self, partitions: Vec<PartitionId>) {
        self.detector.set_cannot_lead(partitions);
    }

    /// What this host has too little of, such as memory, as bits that the hosts define: the other
    /// hosts hear of it by its heartbeats.
    pub fn set_shortages(&mut self, shortages: u8) {
        self.detector.set_shortages(shortages);
    }

    /// The other hosts that take part, each with what it has too little of, ascending.
    pub fn shortages(&self) -> impl Iterator<Item = (HostId, u8)> + '_ {
        let hosts = self.state().into_iter().flat_map(|state| &state.hosts);
        let up = hosts.filter(|(_, record)| record.state == HostState::Up);
        let reported = up.map(|(host, _)| (*host, self.detector.shortages_of(*host)));
        reported.filter(|(_, shortages)| *shortages != 0)
    }

    /// The partitions that cannot be served, ascending: a copy that counts is at a host that is not
    /// up and could not be taken out, or the host that is to lead says that it cannot.
    pub fn unavailable(&self) -> Vec<PartitionId> {
        let Some(state) = self.state().filter(|state| state.is_formed()) else { return Vec::new() };
        let is_up = |host| state.hosts.get(&host).is_some_and(|it| it.state == HostState::Up);
        let is_served = |number: &PartitionId| {
            let partition = &state.partitions[number.index()];
            let has_all = partition.copies.iter().all(|copy| is_up(copy.host));
            has_all && !self.detector.cannot_lead(partition.leader, *number)
        };
        let partitions = (0..).map(PartitionId).take(state.partitions.len());
        partitions.filter(|partition| !is_served(partition)).collect()
    }

    /// This host is linked with another one, which the options of its start may not name: it
    /// greets that one, too.
    pub fn greet(&mut self, host: HostId) {
        self.member.greet(host);
    }

    /// A site thread ran at a time, or was waiting for work then.
    pub fn site_ran(&mut self, site: ThreadId, at_us: u64) {
        self.detector.site_ran(site, at_us);
    }

    /// Messages of replication between this host and a process of another one are lost for good,
    /// although both may run, and had taken part since an epoch: one of the two is taken out by the
    /// rules of the leader.
    pub fn cut_off(&mut self, host: HostId, incarnation: Incarnation, since: Epoch) {
        self.detector.cut_off(host, incarnation, since);
    }

    /// Messages to and from a host are not lost any more: it or this one was out, and takes part
    /// again.
    pub fn not_cut_off(&mut self, host: HostId) {
        self.detector.not_cut_off(host);
    }

    /// This process is about to end: it proposes no more, as the leader, that another host is lost.
    pub fn stop_proposing(&mut self) {
        self.is_stopping = true;
    }

    /// This process is about to end, and another voter is to lead the Raft group, if this one does.
    /// To be called from time to time. True if nothing is to be waited for: it does not lead, or no
    /// other voter can.
    pub fn stop_leading(&mut self, now: Now) -> bool {
        self.stop_proposing();
        let leads = self.member.leader() == Some(self.member.host());
        !leads || !self.member.transfer_leadership(&self.detector.connected(now.us))
    }

    /// This process leaves the cluster on purpose: another voter is to lead the Raft group in its
    /// place, and then this host is proposed to be lost. The other hosts go on at once, and do not
    /// have to find out. To be called from time to time until it is true: the cluster goes on
    /// without this host, or cannot lose it, because without its vote there is no majority.
    pub fn leave(&mut self, now: Now) -> bool {
        let is_done = !self.is_up() || !self.is_majority_without_own(now);
        if !is_done && self.stop_leading(now) {
            let (host, incarnation) = (self.member.host(), self.member.incarnation());
            self.member.propose_once(Command::HostLost { host, incarnation }, now.us);
        }
        is_done
    }

    /// Whether the other voters that are up and connected with this host are a majority.
    fn is_majority_without_own(&self, now: Now) -> bool {
        let Some(state) = self.state() else { return false };
        let own = self.member.host();
        let stays = |host: &HostId| {
            let is_up = state.hosts[host].state == HostState::Up;
            *host != own && is_up && self.detector.is_connected(*host, now.us)
        };
        2 * state.voters().filter(stays).count() > state.voters().count()
    }

    /// Proposes a command.
    ///
    /// # Errors
    /// Too many proposals are pending.
    pub fn propose(&mut self, command: Command, now: Now) -> Result<ProposalId, ClusterError> {
        self.member.propose(command, now.us)
    }

    /// Time has passed: called at least every tick of the Raft group.
    pub fn tick(&mut self, now: Now) {
        self.member.tick(now);
        self.look(now);
        self.lead(now);
        if now.us >= self.next_heartbeat_us {
            self.send_heartbeats(now);
        }
    }

    /// A message of another host arrived.
    pub fn receive(&mut self, from: HostId, bytes: &[u8], now: Now) {
        let bytes = match opened(bytes) {
            Ok(bytes) => bytes,
            Err(reason) => return self.refuse(from, reason),
        };
        match bytes.split_first() {
            Some((&MEMBER, rest)) => {
                let is_heard = self.detector.is_connected(from, now.us);
                self.member.receive(from, rest, is_heard, now);
            }
            Some((&HEARTBEAT, rest)) => match Heartbeat::decode(rest) {
                Ok(heartbeat) => self.take_heartbeat(from, &heartbeat, now),
                Err(reason) => self.refuse(from, reason),
            },
            Some((&found, _)) => {
                let found = u64::from(found);
                self.refuse(from, FormatError::Value { field: "channel", found });
            }
            None => self.refuse(from, FormatError::End),
        }
    }

    fn refuse(&mut self, from: HostId, reason: FormatError) {
        self.events.push(ControlEvent::Member(Event::Refused { from, reason }));
    }

    fn cluster(&self) -> Option<ClusterId> {
        self.state().map(|state| state.id)
    }

    fn take_heartbeat(&mut self, from: HostId, heartbeat: &Heartbeat, now: Now) {
        if from == self.member.host() || self.cluster() != Some(heartbeat.cluster) {
            return;
        }
        if self.state().is_some_and(|state| !state.hosts.contains_key(&from)) {
            // A host that was removed, or is about to be added.
            return;
        }
        let Some(heard) = self.detector.take(from, heartbeat, (now.us, now.wall_us)) else {
            return;
        };
        if let Some((sent_us, epoch)) = heard.grant {
            self.leases.take(from, sent_us, epoch);
        }
        if let Some(offset_us) = heard.clock_off_us {
            let limit_us = self.options.clock_offset_max_us as i64;
            let error = ClusterError::ClockOff { host: from, offset_us, limit_us };
            self.events.push(ControlEvent::ClockOff(error));
        }
        self.note_epochs(now);
    }

    fn note_epochs(&mut self, now: Now) {
        let Control { leases, detector, .. } = self;
        leases.note_epochs(|host| detector.epoch_of(host), now.us);
    }

    /// Brings standing and suspects up to date.
    fn look(&mut self, now: Now) {
        let Some(state) = self.member.state() else { return };
        let voters: Vec<HostId> = state.voters().collect();
        let epoch = state.epoch;
        let standing = self.detector.standing(&voters, epoch, now.us);
        if standing != self.standing {
            self.standing = standing;
            self.leases.suspend(standing != Standing::Majority);
            self.events.push(ControlEvent::Standing(standing));
        }
        let suspects = self.detector.suspects(now.us);
        if suspects != self.suspects {
            self.suspects.clone_from(&suspects);
            self.events.push(ControlEvent::Suspects(suspects));
        }
    }

    /// As the leader of the Raft group: proposes what the rules say.
    fn lead(&mut self, now: Now) {
        let leads = self.member.leads() && !self.is_stopping;
        if !leads || self.standing != Standing::Majority {
            self.supervisor.reset();
            return;
        }
        let connected: BTreeSet<HostId> = self.detector.connected(now.us);
        self.member.lead(&connected, now.us);
        let Control { supervisor, detector, options, member, .. } = self;
        let Some(state) = member.state().filter(|state| state.is_formed()) else { return };
        let commands = supervisor.proposals(member.host(), state, detector, options, now.us);
        for command in commands {
            if self.member.would_change(&command) {
                self.member.propose_once(command, now.us);
            }
        }
    }

    fn send_heartbeats(&mut self, now: Now) {
        self.next_heartbeat_us = now.us + self.options.heartbeat_interval_us;
        let Some(state) = self.member.state() else { return };
        let (cluster, epoch, own) = (state.id, state.epoch, self.member.host());
        let joined = state.hosts.iter().filter(|(_, record)| record.state != HostState::Added);
        let to: Vec<(HostId, Incarnation)> =
            joined.map(|(host, record)| (*host, record.incarnation)).collect();
        for (host, incarnation) in to.into_iter().filter(|(host, _)| *host != own) {
            let came_us = self.detector.answers_from_us(host, incarnation);
            let grants =
                came_us.is_some_and(|came_us| self.leases.give(host, incarnation, came_us));
            let times = (now.us, now.wall_us);
            let heartbeat = self.detector.heartbeat(host, cluster, epoch, grants, times);
            let bytes = sealed(HEARTBEAT, &heartbeat.encode());
            self.messages.push(Outgoing { to: host, bytes });
        }
    }

    /// Gives a newer state to detection and leases.
    fn install(&mut self, now: Now) {
        let Some(state) = self.member.state() else { return };
        let version = (state.epoch, self.changes);
        if self.installed == Some(version) {
            return;
        }
        let joined = state.hosts.iter().filter(|(_, record)| record.state != HostState::Added);
        for (host, record) in joined {
            self.detector.expect(*host, record.incarnation, now.us);
        }
        self.detector.forget_others(|host| state.hosts.contains_key(&host));
        if self.installed.is_some_and(|installed| installed.0 == Epoch(0)) && state.is_formed() {
            // Hosts have heartbeats for each other once they have the state.
            self.detector.expect_all(now.us);
        }
        self.leases.install(state, now.us);
        let new_epoch = self.installed.is_none_or(|installed| installed.0 != version.0);
        self.installed = Some(version);
        if new_epoch {
            // Grants of the new epoch are counted on by all leaders.
            self.send_heartbeats(now);
        }
        self.note_epochs(now);
    }

    /// What has to be done since the last call.
    pub fn take_effects(&mut self, now: Now) -> ControlEffects {
        let Effects { durable, messages, events } = self.member.take_effects(now.us);
        self.changes += events.iter().filter(|event| changes_state(event)).count() as u64;
        self.install(now);
        let wrap =
            |outgoing: Outgoing| Outgoing { bytes: sealed(MEMBER, &outgoing.bytes), ..outgoing };
        let mut messages: Vec<Outgoing> = messages.into_iter().map(wrap).collect();
        messages.append(&mut self.messages);
        let mut all = std::mem::take(&mut self.events);
        all.extend(events.into_iter().map(ControlEvent::Member));
        ControlEffects { durable, messages, events: all }
    }

    /// Whether this host is listed as up, in its present run.
    pub fn is_up(&self) -> bool {
        let record = self.state().and_then(|state| state.hosts.get(&self.member.host()));
        let current = |record: &&HostRecord| record.incarnation == self.member.incarnation();
        record.filter(current).is_some_and(|record| record.state == HostState::Up)
    }
}

/// A message with its checksum in front: what the network damaged changes nothing.
fn sealed(channel: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + message.len());
    bytes.extend_from_slice(&[0; 4]);
    bytes.push(channel);
    bytes.extend_from_slice(message);
    let sum = crc32fast::hash(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The message after its checksum.
fn opened(bytes: &[u8]) -> Result<&[u8], FormatError> {
    let (sum, message) = bytes.split_first_chunk::<4>().ok_or(FormatError::End)?;
    match u32::from_be_bytes(*sum) == crc32fast::hash(message) {
        true => Ok(message),
        false => Err(FormatError::Rule("the checksum of a message is right")),
    }
}

fn changes_state(event: &Event) -> bool {
    matches!(event, Event::PlacementChanged(_) | Event::StateChanged)
}
