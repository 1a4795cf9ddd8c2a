//! One member of the control plane: the Raft group's member with the replicated state above it.
//!
//! It takes time, messages and proposals, and gives [`Effects`]: first what must be durable, then
//! what is sent, then what happened. The caller carries them out in this order, before it calls
//! the member again; if something cannot be made durable, the host stops.

use crate::apply::Verdict;
use crate::command::Command;
use crate::error::{ClusterError, FormatError};
use crate::faults::Faults;
use crate::ids::{ClusterId, Epoch, Incarnation, RaftId};
use crate::log_entry::{HardState, LogEntry, Persist, Snapshot};
use crate::message::{self, Agreement, Body, Envelope, Proposal};
use crate::now::Now;
use crate::options::Options;
use crate::raft_core::{Committed, CoreOptions, RaftCore};
use crate::state::{ClusterState, HostDescription, HostState};
use lockstep_types::HostId;
use std::collections::{BTreeMap, VecDeque};

mod formation;
mod group;
pub(crate) use group::wanted_voters;
mod proposals;
mod restored;

pub use proposals::{ProposalId, ProposalOutcome};

/// Who a member is.
#[derive(Debug, Clone)]
pub struct MemberConfig {
    /// What it says of itself, with its number by the configured list of hosts.
    pub description: HostDescription,
    /// The run of its process: greater than in any earlier run.
    pub incarnation: Incarnation,
    /// What all hosts must agree on.
    pub agreement: Agreement,
    /// It takes part in no new cluster: it joins one that runs.
    pub joins: bool,
    /// Hosts that were added to the cluster after it was made, as far as they are known at the
    /// start: it greets them, too.
    pub added: Vec<HostId>,
    /// Limits and times.
    pub options: Options,
    /// The seed of what is random: election timeouts and the number of a new cluster.
    pub seed: u64,
    /// What is broken on purpose.
    pub faults: Faults,
}

/// A member's identity, which is durable before it votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its identity in the Raft group.
    pub id: RaftId,
    /// The cluster that it belongs to, once it took a message of one.
    pub cluster: Option<ClusterId>,
}

/// What a member had made durable before its process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Its identity.
    pub identity: Identity,
    /// The newest snapshot.
    pub snapshot: Option<Snapshot>,
    /// The entries after it.
    pub entries: Vec<LogEntry>,
    /// The newest promise.
    pub hard_state: HardState,
}

/// Something that must be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurableChange {
    /// The identity.
    Identity(Identity),
    /// The Raft log.
    Log(Persist),
}

/// A message to another host. It may be lost, repeated, delayed or overtaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The host.
    pub to: HostId,
    /// The message.
    pub bytes: Vec<u8>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The member belongs to a cluster from now on.
    Bound(ClusterId),
    /// The Raft group has another leader, or none that is known.
    LeaderChanged {
        /// The leader's host.
        leader: Option<HostId>,
        /// The term.
        term: u64,
    },
    /// The state is that of a new epoch; a member that was away may miss epochs in between.
    PlacementChanged(Epoch),
    /// Something else in the state changed: members, versions, a transfer that began.
    StateChanged,
    /// A proposal of this member came to its end.
    ProposalEnded {
        /// Which one.
        id: ProposalId,
        /// Its outcome.
        outcome: ProposalOutcome,
    },
    /// Another process took the number of this host. This one stops.
    Replaced(Incarnation),
    /// The cluster that this process belongs to was begun and can never be formed: too many of its
    /// first members are gone. The process starts again, under a new incarnation and without its
    /// Raft log ([`crate::RaftLog::clear`]).
    StartAgain,
    /// A host is configured in another way, so that no cluster can be formed with it.
    Disagrees {
        /// The host.
        host: HostId,
        /// Its configuration.
        found: Box<Agreement>,
    },
    /// The clock of a host that greeted differs too much: no cluster is formed with it.
    ClockOff(ClusterError),
    /// A message was refused.
    Refused {
        /// The host that sent it.
        from: HostId,
        /// Why.
        reason: FormatError,
    },
}

/// What the caller does, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// First: all of it is made durable, in this order. Memory-only hosts skip it.
    pub durable: Vec<DurableChange>,
    /// Then these are sent.
    pub messages: Vec<Outgoing>,
    /// Then these have happened.
    pub events: Vec<Event>,
}

/// A member of the control plane.
pub struct Member {
    config: MemberConfig,
    identity: Identity,
    core: RaftCore,
    state: Option<ClusterState>,
    /// The newest process of each host that was heard of.
    newest: BTreeMap<HostId, Incarnation>,
    hellos: BTreeMap<HostId, formation::SeenHello>,
    pending: VecDeque<proposals::Pending>,
    next_sequence: u64,
    /// By host, the newest forwarded proposal that was appended in the current term.
    appended: BTreeMap<HostId, (Incarnation, u64)>,
    appended_term: u64,
    next_forward_us: u64,
    next_hello_us: u64,
    next_tick_us: u64,
    /// When a message of the Raft group came last.
    last_message_us: u64,
    /// [`Event::StartAgain`] was given.
    is_over: bool,
    /// The leader and the term of the last event.
    leadership: (Option<HostId>, u64),
    effects: Effects,
}

impl Member {
    /// A member that starts at `now_us`, with what an earlier process of it had made durable.
    /// A process without that is a new member, under a new identity.
    ///
    /// # Errors
    /// The configuration is out of range, or what was restored contradicts itself.
    pub fn new(
        config: MemberConfig,
        restored: Option<Restored>,
        now_us: u64,
    ) -> Result<Member, ClusterError> {
        crate::placement::partition_count(&config.agreement.shape)
            .map_err(ClusterError::Configuration)?;
        config.options.check()?;
        let host = config.description.host;
        let members = config.agreement.shape.members();
        let is_added = config.joins || restored.is_some();
        if host.0 >= members && !is_added {
            let text = format!("host {host} is not one of {members} configured hosts");
            return Err(ClusterError::Configuration(text));
        }
        let joined_in = match config.faults.reuse_raft_id() {
            true => Incarnation(1),
            false => config.incarnation,
        };
        let id = RaftId::new(host, joined_in).ok_or_else(|| {
            ClusterError::Configuration(format!("incarnation {joined_in} is out of range"))
        })?;
        // A process that never took a message of a cluster has promised nothing.
        let restored = restored.filter(|restored| restored.identity.cluster.is_some());
        let fresh = restored.is_none();
        let identity = Identity { id, cluster: None };
        let restored = restored.unwrap_or(Restored {
            identity,
            snapshot: None,
            entries: Vec::new(),
            hard_state: HardState::default(),
        });
        let identity = restored.identity;
        if identity.id.host() != host || identity.id.joined_in() > config.incarnation {
            let text = format!("it is of {}, and this is host {host}", identity.id);
            return Err(ClusterError::Restored(text));
        }
        let decode = |snapshot: &Snapshot| ClusterState::decode(&snapshot.state);
        let state = restored.snapshot.as_ref().map(decode).transpose();
        let state = state.map_err(|error| ClusterError::Restored(error.to_string()))?;
        let Restored { snapshot, entries, hard_state, .. } = restored;
        let options = core_options(&config);
        let core = RaftCore::new(identity.id, &options, snapshot, entries, hard_state)
            .map_err(ClusterError::Restored)?;
        let mut member = Member {
            identity,
            core,
            state,
            newest: BTreeMap::new(),
            hellos: BTreeMap::new(),
            pending: VecDeque::new(),
            next_sequence: 1,
            appended: BTreeMap::new(),
            appended_term: 0,
            next_forward_us: now_us,
            next_hello_us: now_us,
            next_tick_us: now_us + config.options.raft_tick_us,
            last_message_us: now_us,
            is_over: false,
            leadership: (None, 0),
            effects: Effects::default(),
            config,
        };
        if fresh {
            member.effects.durable.push(DurableChange::Identity(identity));
        }
        Ok(member)
    }

    /// This host.
    pub fn host(&self) -> HostId {
        self.config.description.host
    }

    /// The run of this process.
    pub fn incarnation(&self) -> Incarnation {
        self.config.incarnation
    }

    /// Its identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The replicated state as far as this member has it; `None` before it took part.
    pub fn state(&self) -> Option<&ClusterState> {
        self.state.as_ref()
    }

    /// Whether this member leads the Raft group and knows all that was committed before its term.
    pub fn leads(&self) -> bool {
        self.core.leads() && self.core.has_committed_in_term()
    }

    /// The leader of the Raft group, as far as this member knows.
    pub fn leader(&self) -> Option<HostId> {
        self.core.leader().map(RaftId::host)
    }

    /// The term of the Raft group.
    pub fn term(&self) -> u64 {
        self.core.term()
    }

    /// Whether a command, applied now, would change the state.
    pub fn would_change(&self, command: &Command) -> bool {
        let Some(state) = &self.state else { return false };
        let mut after = state.clone();
        after.apply(command, self.config.faults);
        after != *state
    }

    /// Time has passed. A pause of the process counts as one tick: what was sent meanwhile is
    /// taken first.
    pub fn tick(&mut self, now: Now) {
        let now_us = now.us;
        if now_us >= self.next_tick_us {
            let tick_us = self.config.options.raft_tick_us;
            let late = now_us.saturating_sub(self.next_tick_us) >= tick_us;
            self.next_tick_us = if late { now_us + tick_us } else { self.next_tick_us + tick_us };
            if self.identity.cluster.is_some() {
                self.core.tick();
            }
        }
        self.expire_proposals(now_us);
        self.report_restart(now_us);
        self.say_hello(now);
        self.form_cluster(now_us);
        self.give_up_formation(now_us);
        if now_us >= self.next_forward_us {
            self.send_proposals(now_us);
        }
    }

    /// Proposes that the state lists this run of the process, as long as it lists an earlier one.
    fn report_restart(&mut self, now_us: u64) {
        let (host, incarnation) = (self.host(), self.config.incarnation);
        let record = self.state.as_ref().and_then(|state| state.hosts.get(&host));
        let is_listed = record.filter(|record| record.raft_id() == self.identity.id);
        if is_listed.is_some_and(|record| record.incarnation < incarnation) {
            self.propose_once(Command::Restarted { host, incarnation }, now_us);
        }
    }

    /// A message of another host arrived. Malformed and foreign ones change nothing. `is_heard`
    /// says that the process of that host which takes part is connected with this one.
    pub fn receive(&mut self, from: HostId, bytes: &[u8], is_heard: bool, now: Now) {
        let taken = message::decode(bytes).and_then(|(envelope, body)| {
            if envelope.from.host() != from || from == self.host() {
                return Err(FormatError::Rule("a message names the host that sends it"));
            }
            if is_heard && self.is_taken(&envelope, &body) {
                return Ok(());
            }
            self.take(envelope, body, now)
        });
        if let Err(reason) = taken {
            self.effects.events.push(Event::Refused { from, reason });
        }
    }

    /// Whether a process greets without Raft state whose number a member has that is up: while that
    /// one is heard, the greeting counts for nothing, as if the process had not been started.
    fn is_taken(&self, envelope: &Envelope, body: &Body) -> bool {
        let record = self.state.as_ref().and_then(|it| it.hosts.get(&envelope.from.host()));
        let is_greeting = matches!(body, Body::Hello(_));
        is_greeting
            && record.is_some_and(|record| {
                record.state == HostState::Up && record.joined_in < envelope.from.joined_in()
            })
    }

    fn take(&mut self, envelope: Envelope, body: Body, now: Now) -> Result<(), FormatError> {
        let host = envelope.from.host();
        let newest = self.newest.entry(host).or_default();
        if envelope.incarnation < *newest {
            // A process that ended meanwhile: what it still had on the way is void.
            return Ok(());
        }
        *newest = envelope.incarnation;
        // A greeting is for the process that the host runs, everything else for an identity.
        let is_hello = matches!(body, Body::Hello(_));
        if envelope.to != Some(self.identity.id) && !(is_hello && envelope.to.is_none()) {
            return Ok(());
        }
        match body {
            Body::Hello(hello) => self.take_hello(envelope, *hello, now),
            Body::Raft(bytes) => {
                if self.bind(envelope.cluster) {
                    self.last_message_us = now.us;
                    self.core.receive(envelope.from, &bytes)?;
                }
            }
            Body::Forward(proposals) => {
                if self.identity.cluster.is_some() && self.identity.cluster == envelope.cluster {
                    self.take_forwarded(envelope, proposals);
                }
            }
        }
        Ok(())
    }

    /// Whether a message of a cluster is for this member, which belongs to the first cluster that
    /// it took one of.
    fn bind(&mut self, cluster: Option<ClusterId>) -> bool {
        let Some(cluster) = cluster else { return false };
        if self.identity.cluster.is_none() {
            self.identity.cluster = Some(cluster);
            self.effects.durable.push(DurableChange::Identity(self.identity));
            self.effects.events.push(Event::Bound(cluster));
        }
        self.identity.cluster == Some(cluster)
    }

    fn send(&mut self, to: HostId, id: Option<RaftId>, body: &Body) {
        let envelope = Envelope {
            cluster: self.identity.cluster,
            from: self.identity.id,
            incarnation: self.config.incarnation,
            to: id,
        };
        let bytes = message::encode(&envelope, body);
        self.effects.messages.push(Outgoing { to, bytes });
    }

    /// What has to be done since the last call.
    pub fn take_effects(&mut self, now_us: u64) -> Effects {
        loop {
            let core = self.core.take_effects();
            let log = core.persists.into_iter().map(DurableChange::Log);
            self.effects.durable.extend(log);
            for (to, bytes) in core.messages {
                self.send(to.host(), Some(to), &Body::Raft(bytes));
            }
            let mut group_changed = false;
            let idle = core.committed.is_empty();
            for committed in core.committed {
                group_changed |= matches!(committed, Committed::Group { .. });
                self.take_committed(committed);
            }
            let long = self.core.applied_since_snapshot() >= self.config.options.compact_entries;
            // A new learner is in no older snapshot, so a changed group has one of its own.
            if let (Some(state), true) = (&self.state, group_changed || long) {
                let persist = self.core.compact(state.encode());
                self.effects.durable.push(DurableChange::Log(persist));
            }
            if !self.notice_leader(now_us) && idle {
                break;
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Reports a change of the leader or the term. True if there was one.
    fn notice_leader(&mut self, now_us: u64) -> bool {
        let leadership = (self.leader(), self.core.term());
        if leadership == self.leadership {
            return false;
        }
        self.leadership = leadership;
        let (leader, term) = leadership;
        self.effects.events.push(Event::LeaderChanged { leader, term });
        self.send_proposals(now_us);
        true
    }

    fn take_committed(&mut self, committed: Committed) {
        match committed {
            Committed::Snapshot(snapshot) => {
                let state = ClusterState::decode(&snapshot.state)
                    .expect("a snapshot is read before the library has it");
                let last = state.hosts.get(&self.host()).map(|record| record.last_proposal);
                self.state = Some(state);
                self.note_epoch(None);
                self.end_proposals_up_to(last.unwrap_or_default());
            }
            Committed::Group { voters, learners } => {
                if let Some(state) = &mut self.state {
                    let voters = voters.into_iter().collect();
                    state.set_votes(&voters, &learners.into_iter().collect());
                }
                self.effects.events.push(Event::StateChanged);
            }
            Committed::Proposal(bytes) => match Proposal::decode(&bytes) {
                Ok(proposal) => self.apply(proposal),
                Err(reason) => {
                    let from = self.host();
                    self.effects.events.push(Event::Refused { from, reason });
                }
            },
        }
    }

    /// Applies a proposal, if it was not applied before. Every member decides that alike.
    fn apply(&mut self, proposal: Proposal) {
        let Some(state) = &mut self.state else { return };
        let number = (proposal.incarnation, proposal.sequence);
        let Some(record) = state.hosts.get_mut(&proposal.from.host()) else { return };
        let current = record.raft_id() == proposal.from && record.incarnation <= number.0;
        if !current || record.last_proposal >= number {
            return;
        }
        record.last_proposal = number;
        let epoch = state.epoch;
        let outcome = match Command::decode(&proposal.command) {
            Ok(command) => state.apply(&command, self.config.faults).into(),
            Err(error) => ProposalOutcome::Malformed(error),
        };
        let changed = outcome != ProposalOutcome::Ended(Verdict::Unchanged);
        if changed {
            self.note_epoch(Some(epoch));
        }
        if proposal.from == self.identity.id && proposal.incarnation == self.config.incarnation {
            self.end_proposal(proposal.sequence, outcome);
        }
    }

    fn note_epoch(&mut self, before: Option<Epoch>) {
        let Some(state) = &self.state else { return };
        let event = match before == Some(state.epoch) {
            true => Event::StateChanged,
            false => Event::PlacementChanged(state.epoch),
        };
        self.effects.events.push(event);
        let host = self.config.description.host;
        if let Some(record) = state.hosts.get(&host) {
            let (own, other) = (self.config.incarnation, record.incarnation);
            if other > own {
                self.effects.events.push(Event::Replaced(other));
            }
        }
    }
}

fn core_options(config: &MemberConfig) -> CoreOptions {
    let options = &config.options;
    CoreOptions {
        election_ticks: options.election_ticks as usize,
        heartbeat_ticks: options.raft_heartbeat_ticks as usize,
        message_bytes_max: options.message_bytes_max,
        inflight_messages_max: options.inflight_messages_max as usize,
        uncommitted_bytes_max: options.uncommitted_bytes_max,
        seed: config.seed,
    }
}
