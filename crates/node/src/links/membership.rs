//! The control plane of this host ([`lockstep_cluster::Control`]), driven by the thread of the
//! links: its messages are datagrams of the links. What it decides is left for that thread: the
//! new placement, and the end of a host that cannot go on.
//!
//! In memory nothing of it is durable: a process that ends begins again as another member. Where
//! the host has a directory and partitions have copies, what the group of the hosts agrees on is
//! written there before any message leaves that depends on it ([`RaftLog`]). A start of all hosts
//! goes on from it: each is listed with its new run, and when all are, the copies that were in
//! sync serve again in a new epoch.
//!
//! With one copy of each partition no host can take over from another one. The placement then
//! stays that of the formation, and the cluster ends with any of its hosts, which the links notice.

use super::ClusterMembership;
use super::moves::Moves;
use super::terms::differences;
use crate::clock;
use crate::log::directory::random_bits;
use crate::shard::HostFacts;
use lockstep_cluster::{
    Agreement, ClusterError, ClusterState, Command, Control, ControlEffects, ControlEvent, Epoch,
    Event, Faults, HostDescription, HostState, Incarnation, MemberConfig, Now, Outgoing,
    ProposalOutcome, RaftLog, Restored, Shape, Standing, Verdict,
};
use lockstep_host::serving::{Serving, Turn};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::sync::Arc;

/// Between two steps of the control plane by time alone.
const TICK_US: u64 = 10_000;
/// Between two proposals of a host that joins.
const PROPOSE_EVERY_US: u64 = 500_000;
/// The name of a cluster, which hosts compare: those in memory have no other one.
const CLUSTER_NAME: &str = "lockstep";
/// The release as the control plane has it: no release knows of another one yet.
const RELEASE: u32 = 1;

/// What an earlier run of the host has left of the control plane.
#[derive(Default)]
pub(crate) struct RaftStart {
    /// Where what the hosts agree on is kept; none for a host whose membership lives in memory.
    pub(crate) log: Option<RaftLog>,
    /// What it had.
    pub(crate) restored: Option<Restored>,
    /// The cluster was placed by an earlier run.
    pub(crate) is_restored: bool,
    /// By partition, whether a copy was brought back here that counts; empty for none.
    pub(crate) brought_back: Vec<bool>,
    /// The last run of the host that is known.
    pub(crate) last_run: u64,
    /// The host joins a cluster that runs without it.
    pub(crate) joins: bool,
    /// The name of its directory; empty for none.
    pub(crate) directory: String,
}

/// The control plane of a host and what it has decided.
pub(super) struct Membership {
    control: Control,
    raft_log: Option<RaftLog>,
    /// It begins with the placement of an earlier run of the cluster.
    is_restored: bool,
    /// See [`RaftStart::brought_back`].
    brought_back: Vec<bool>,
    /// It has no data, and joins the cluster if that runs already.
    joins: bool,
    config: MemberConfig,
    pub(super) facts: Arc<HostFacts>,
    serving: Serving,
    next_tick_us: u64,
    /// Leaders that are to be moved.
    pub(super) moves: Moves,
    /// Messages to other hosts that were not taken yet.
    messages: Vec<Outgoing>,
    /// The epoch that [`Membership::take_epoch`] gave last.
    taken_epoch: Epoch,
    /// A host that joins: when it proposed last that it takes part.
    proposed_us: Option<u64>,
    /// It is about to begin again, after it was put out.
    begins_again: bool,
    /// Why the host stops: what the user gets, and the host that it is about.
    end: Option<(Option<HostId>, String)>,
}

impl Membership {
    /// The control plane of a process that starts.
    ///
    /// # Errors
    /// The text for the user: options that do not fit together.
    pub(super) fn new(
        membership: &ClusterMembership,
        facts: Arc<HostFacts>,
        raft: RaftStart,
    ) -> Result<Membership, String> {
        let terms = &membership.terms;
        let options = facts.options.control_plane(terms.kfactor).map_err(|it| it.to_string())?;
        // A witness has no ports for others than hosts.
        let reachable = |address| match membership.is_witness() {
            true => String::new(),
            false => facts.reachable(address).to_string(),
        };
        let config = MemberConfig {
            description: HostDescription {
                host: membership.host,
                name: facts.host_name.clone(),
                internal_address: membership.own_address().to_string(),
                client_address: reachable(facts.client_address),
                admin_address: reachable(facts.admin_address),
                directory: raft.directory.clone(),
                placement_group: membership.placement_group.clone(),
                release: RELEASE,
            },
            incarnation: Incarnation(
                (clock::wall_us().max(1_000) as u64 / 1_000).max(raft.last_run + 1),
            ),
            joins: raft.joins || (membership.rejoins && raft.log.is_none()),
            added: membership.added.iter().map(|(host, _)| *host).collect(),
            agreement: Agreement {
                name: CLUSTER_NAME.to_string(),
                shape: terms.shape(),
                // Hosts may have other addresses for each other; their numbers are compared.
                hosts_digest: 0,
            },
            options,
            seed: random_bits(),
            faults: Faults::default(),
        };
        facts.set_run(config.incarnation.0);
        let now = now();
        let joins = raft.log.is_none() || raft.joins;
        let control = begin(&config, raft.restored, now)?;
        Ok(Membership {
            is_restored: raft.is_restored,
            brought_back: raft.brought_back,
            joins,
            control,
            raft_log: raft.log,
            config,
            facts,
            serving: match (raft.is_restored, joins) {
                (true, _) => Serving::resuming(),
                (false, false) if !membership.is_witness() => Serving::default(),
                (false, _) => Serving::joining(),
            },
            next_tick_us: now.us,
            moves: Moves::default(),
            messages: Vec::new(),
            taken_epoch: Epoch(0),
            proposed_us: None,
            begins_again: false,
            end: None,
        })
    }

    /// The control plane: leases, and what the hosts agree on.
    pub(super) fn control(&mut self) -> &mut Control {
        &mut self.control
    }

    /// Whether the host begins with the placement of an earlier run of the cluster, which is in
    /// force in a new epoch once all hosts are back.
    pub(super) fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// See [`RaftStart::brought_back`]; for the placement with which the host begins.
    pub(super) fn take_brought_back(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.brought_back)
    }

    /// Whether the host joins the cluster if that runs already.
    pub(super) fn may_join(&self) -> bool {
        self.has_copies() && self.joins
    }

    /// Whether the cluster runs, and this host may take part in it.
    pub(super) fn is_joining(&self) -> bool {
        self.may_join() && Serving::may_join(&self.control)
    }

    /// Whether the cluster ran before this process took part in it.
    pub(super) fn has_joined(&self) -> bool {
        let own = self.host();
        let state = self.state().filter(|_| self.may_join());
        state.is_some_and(|state| state.partitions_of(own).next().is_none())
    }

    /// Proposes that this host takes part, from time to time.
    pub(super) fn propose_host_up(&mut self) {
        let now_us = now().us;
        let waited = |at_us: u64| now_us.saturating_sub(at_us) >= PROPOSE_EVERY_US;
        if self.proposed_us.is_none_or(waited) {
            self.proposed_us = Some(now_us);
            let (host, incarnation) = (self.host(), self.config.incarnation);
            self.propose(Command::HostUp { host, incarnation });
        }
    }

    /// How many hosts and witnesses there are.
    pub(super) fn shape(&self) -> Shape {
        self.config.agreement.shape
    }

    /// Whether the cluster was made with more than one copy of each partition.
    pub(super) fn has_copies(&self) -> bool {
        self.config.agreement.shape.k > 0
    }

    /// The state that the hosts agree on, once the cluster is formed.
    pub(super) fn state(&self) -> Option<&ClusterState> {
        self.control.state().filter(|state| state.is_formed())
    }

    /// A datagram of another host arrived.
    pub(super) fn receive(&mut self, from: HostId, bytes: &[u8]) {
        let now = now();
        self.control.receive(from, bytes, now);
        self.note_effects(now);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self) {
        let now = now();
        if now.us < self.next_tick_us {
            return;
        }
        self.next_tick_us = now.us + TICK_US;
        let (rounds, now_us) = (self.facts.site_runs.rounds(), clock::now_us());
        for (number, since_us) in (0..).zip(rounds) {
            let busy_us = since_us.map_or(0, |since_us| now_us.saturating_sub(since_us).max(0));
            let ran_us = now.us.saturating_sub(busy_us as u64);
            self.control.site_ran(ThreadId(number), ran_us);
        }
        if self.has_copies() && !self.is_witness() {
            let not_led = self.facts.unavailable.not_led_here(&self.facts.placement());
            self.control.set_cannot_lead(not_led);
        }
        if self.facts.drain.has_begun() {
            // All hosts may be stopping: those that have stopped already are not lost.
            self.control.stop_proposing();
        }
        self.leave(now);
        self.control.set_shortages(self.facts.intake.shortages());
        self.control.tick(now);
        self.note_effects(now);
        if let Some(news) = self.facts.intake.note_shortages(self.control.shortages()) {
            tracing::warn!("{news}");
        }
        self.attend_to_moves();
        self.note_unavailable();
        self.begin_again(now.us);
    }

    /// A host that leaves on purpose gives up what it does for all hosts, and then its copies.
    fn leave(&mut self, now: Now) {
        let departure = &self.facts.departure;
        if departure.is_over() || !departure.is_planned() || !self.has_copies() {
            return;
        }
        if !departure.has_begun() {
            self.control.stop_leading(now);
        } else if self.control.leave(now) {
            departure.end();
        }
    }

    /// A host that was put out, and has nothing that the others need, begins again, where its
    /// program is one for that.
    fn begin_again(&mut self, now_us: u64) {
        let Some(after) = self.facts.options.rejoin_after_ms else { return };
        if !self.has_copies() || self.begins_again || self.facts.drain.has_begun() {
            return;
        }
        if self.serving.is_to_begin_again(&self.control, after.us() as u64, now_us)
            && let Some(begin_again) = self.facts.on_put_out.get()
        {
            self.begins_again = true;
            tracing::warn!(
                "the host begins again without data, and joins the cluster (option \
                 rejoin_after_ms)"
            );
            begin_again();
        }
    }

    /// Leaves for the sites which partitions cannot be served.
    fn note_unavailable(&self) {
        let partitions = match self.has_copies() && !self.is_witness() {
            true => self.control.unavailable(),
            false => return,
        };
        if !self.facts.unavailable.set(&partitions) {
            return;
        }
        self.facts.intake.set_unavailable(!partitions.is_empty());
        let numbers: Vec<String> = partitions.iter().map(PartitionId::to_string).collect();
        match partitions.is_empty() {
            true => tracing::warn!("all partitions can be served again"),
            false => tracing::error!(
                partitions = numbers.join(", "),
                "partitions cannot be served: a host with a copy is lost and cannot be replaced, \
                 or the copy is out of service. Calls that need them are refused"
            ),
        }
    }

    /// Proposes a change of the placement. Its outcome is a new epoch, or nothing: it names the
    /// epoch that its proposer saw.
    pub(super) fn propose(&mut self, command: Command) {
        let now = now();
        if let Err(error) = self.control.propose(command, now) {
            tracing::warn!(%error, "a change of the placement is not proposed");
        }
        self.note_effects(now);
    }

    /// The host, or this one, was out and takes part again: what was lost before does not count.
    pub(super) fn not_cut_off(&mut self, host: HostId) {
        self.control.not_cut_off(host);
    }

    /// Messages to or from a host were lost for good while both ran, which both had taken part
    /// since a placement: one of the two goes out.
    pub(super) fn cut_off(&mut self, host: HostId, since: u64) {
        let record = self.control.state().and_then(|state| state.hosts.get(&host));
        if let Some(incarnation) = record.map(|record| record.incarnation) {
            self.control.cut_off(host, incarnation, Epoch(since));
        }
    }

    /// The messages for other hosts.
    pub(super) fn take_messages(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.messages)
    }

    /// Why the host stops, if it has to, and the other host that it is about.
    pub(super) fn take_end(&mut self) -> Option<(Option<HostId>, String)> {
        self.end.take()
    }

    /// The state of a new epoch, once for each.
    pub(super) fn take_epoch(&mut self) -> Option<&ClusterState> {
        let epoch = self.state()?.epoch;
        if epoch <= self.taken_epoch {
            return None;
        }
        self.taken_epoch = epoch;
        self.state()
    }

    /// Whether the cluster is formed and this host may serve in it, once it is connected with the
    /// hosts that `agrees` gives.
    pub(super) fn is_formed(&self, agrees: impl Fn(HostId) -> bool) -> bool {
        Serving::may_begin(&self.control, agrees, now().us)
    }

    /// What the formation waits for, once this host is connected with the hosts that take part.
    pub(super) fn awaited(&self) -> String {
        let standing = self.control.standing();
        match (self.control.member().leader(), self.state().is_some()) {
            (None, _) => "the hosts are connected, and have not elected a leader".to_string(),
            (Some(host), false) => {
                format!("the hosts are connected, and host {host} has not formed the cluster")
            }
            _ if standing != Standing::Majority => {
                format!("this {} does not hear a majority of the cluster", self.own_role())
            }
            _ => "the other hosts have not confirmed what this one leads".to_string(),
        }
    }

    /// Whether a host takes part, as far as is known.
    pub(super) fn takes_part(&self, host: HostId) -> bool {
        let record = self.state().and_then(|state| state.hosts.get(&host));
        record.is_none_or(|record| record.state == HostState::Up)
    }

    /// The host begins to serve.
    pub(super) fn begin_serving(&mut self) {
        self.serving.begin();
    }

    pub(super) fn host(&self) -> HostId {
        self.config.description.host
    }

    fn note_effects(&mut self, now: Now) {
        let ControlEffects { durable, messages, events } = self.control.take_effects(now);
        if let Some(log) = &mut self.raft_log
            && let Err(error) = log.write(&durable)
        {
            // What is durable is not known, and so nothing that depends on it is sent.
            let problem = format!("the host cannot keep what the cluster agrees on: {error}");
            self.end = Some((None, problem));
            return;
        }
        self.messages.extend(messages);
        let changes = events.iter().any(ControlEvent::changes_state);
        events.into_iter().for_each(|event| self.note(event, now));
        if changes {
            self.note_state();
            // A client that finds the host serving must not be refused by what was so before.
            self.note_unavailable();
        }
        self.write_leases(now);
        while self.has_copies() {
            let Some(turn) = self.serving.poll(&self.control, now.us) else { break };
            self.note_turn(turn);
        }
    }

    fn note(&mut self, event: ControlEvent, now: Now) {
        match event {
            ControlEvent::Member(event) => self.note_member(event, now),
            ControlEvent::Standing(_) => {}
            ControlEvent::Suspects(hosts) if hosts.is_empty() => {
                tracing::info!("no host of the cluster is suspected any more");
            }
            ControlEvent::Suspects(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(HostId::to_string).collect();
                tracing::warn!(hosts = hosts.join(", "), "hosts of the cluster are suspected");
            }
            ControlEvent::ClockOff(error) => self.refuse_clock(&error),
        }
    }

    fn note_member(&mut self, event: Event, now: Now) {
        match event {
            Event::Bound(cluster) => tracing::debug!(%cluster, "the host belongs to a cluster"),
            Event::LeaderChanged { leader: Some(leader), term } => {
                tracing::debug!(%leader, term, "the control plane has a leader");
            }
            Event::LeaderChanged { leader: None, term } => {
                tracing::debug!(term, "the control plane has no leader");
            }
            Event::PlacementChanged(_) | Event::StateChanged => {}
            Event::ProposalEnded { outcome, .. } => match outcome {
                ProposalOutcome::Applied | ProposalOutcome::Ended(Verdict::Applied) => {}
                outcome => tracing::debug!(?outcome, "a change of the placement was not made"),
            },
            Event::Replaced(incarnation) => {
                let host = self.host();
                self.end = Some((
                    None,
                    format!(
                        "another process runs as host {host} of the cluster (begun {incarnation} \
                         ms after 1970): this one stops"
                    ),
                ));
            }
            Event::StartAgain => self.start_again(now),
            Event::Disagrees { host, found } => {
                let own = &self.config.agreement;
                let problem = match own.shape == found.shape {
                    true => format!("its cluster is '{}' there, '{}' here", found.name, own.name),
                    false => differences(&found, own),
                };
                self.end_start(host, format!("it has other terms than this host: {problem}"));
            }
            Event::ClockOff(error) => self.refuse_clock(&error),
            Event::Refused { from, reason } => {
                tracing::warn!(host = %from, %reason, "a message of the control plane is refused");
            }
        }
    }

    /// While the cluster is formed: the start is over for a reason that another host is.
    fn end_start(&mut self, host: HostId, problem: String) {
        match self.serving.is_forming() {
            true => self.end = Some((Some(host), problem)),
            false => tracing::warn!(%host, problem, "a host cannot be of the cluster"),
        }
    }

    fn refuse_clock(&mut self, error: &ClusterError) {
        match error {
            ClusterError::ClockOff { host, .. } => self.end_start(*host, error.to_string()),
            _ => tracing::warn!(%error, "the clock of another host is off"),
        }
    }

    /// The group that this process belongs to will never be formed.
    fn start_again(&mut self, now: Now) {
        // Of a cluster that was formed only a witness notices that it is over.
        let is_over = self.state().is_some();
        let problem = match (is_over, &self.raft_log) {
            (true, Some(_)) => Some(
                "the hosts were started with new directories, and the directory of the witness \
                 is of their cluster before: start it with a new one, made by `lockstep init \
                 --witness`",
            ),
            (true, None) => {
                tracing::warn!("all hosts were started again without data: so is the witness");
                self.serving = Serving::joining();
                None
            }
            (false, _) if self.serving.is_forming() => None,
            _ => Some("the cluster that this host is of cannot be formed any more"),
        };
        if let Some(problem) = problem {
            self.end = Some((None, problem.to_string()));
            return;
        }
        tracing::info!("a host was started again while the cluster was formed: begin again");
        let wall_ms = clock::wall_us().max(0) as u64 / 1_000;
        self.config.incarnation.0 = wall_ms.max(self.config.incarnation.0 + 1);
        self.facts.set_run(self.config.incarnation.0);
        let cleared = self.raft_log.as_mut().map_or(Ok(()), RaftLog::clear);
        let begun = cleared.map_err(|error| error.to_string());
        match begun.and_then(|()| begin(&self.config, None, now)) {
            Ok(control) => self.control = control,
            Err(problem) => self.end = Some((None, problem)),
        }
    }

    /// This host serves, or does not any more.
    fn note_turn(&mut self, turn: Turn) {
        if self.is_witness() {
            return self.note_witness_turn(turn);
        }
        match turn {
            Turn::NotMember => {
                let problem = match self.has_copies() && !self.joins {
                    true => {
                        "the cluster went on without this host while that started: start it \
                         again, and it joins the others"
                    }
                    false => {
                        "the cluster runs without this host, which had the only copy of a \
                         partition: stop all hosts and start the cluster again"
                    }
                };
                self.end = self.end.take().or(Some((None, problem.to_string())));
            }
            Turn::Removed if self.facts.departure.has_begun() => {}
            Turn::Removed => {
                let problem = "the host was removed from the cluster: it stops, and its data are \
                               not needed any more";
                self.end = self.end.take().or(Some((None, problem.to_string())));
            }
            Turn::CutOff(_) if self.facts.drain.has_begun() => {}
            Turn::Out if self.facts.departure.has_begun() => {
                tracing::info!("the other hosts go on without this one");
            }
            Turn::CutOff(standing) => tracing::error!(
                ?standing,
                "the host is not connected with a majority of the cluster: it serves nothing until \
                 it is. It keeps its data in memory. If the other hosts run, restore the network \
                 between them and this host; if they do not, their data is lost, and the cluster \
                 is started again with all hosts"
            ),
            Turn::Out => tracing::error!(
                "the other hosts have taken this host out of the cluster: it serves nothing any \
                 more. The cluster goes on with the other hosts. This one begins again and loads \
                 its copies once the others do without it, after rejoin_after_ms; with 0, stop it \
                 and start it again"
            ),
            Turn::Resumed => tracing::warn!(
                "the host takes part in the cluster again, with the partitions of which it has the \
                 only copy"
            ),
            Turn::Serves => {
                tracing::warn!("the host is connected with a majority again, and serves");
            }
        }
        let is_stopping = self.facts.drain.has_begun() && matches!(turn, Turn::CutOff(_));
        if turn != Turn::NotMember && !is_stopping {
            self.facts.intake.set_cut_off(self.serving.is_cut_off());
        }
    }

    /// The state has changed.
    fn note_state(&mut self) {
        let Some(state) = self.state() else { return };
        let shown = Arc::new(state.clone());
        let mut known = self.facts.cluster_state.lock().expect("no thread panicked with it");
        let before = known.replace(Arc::clone(&shown));
        drop(known);
        self.log_members(before.as_deref(), &shown);
        self.note_moves();
    }

    /// Leaves for the sites until when they may answer.
    fn write_leases(&self, now: Now) {
        let leads = self.has_copies() && !self.is_witness();
        let Some(state) = self.state().filter(|_| leads) else { return };
        for partition in (0..state.partitions.len() as u32).map(PartitionId) {
            let until_us = self.control.answers_until_us(partition, now.us);
            self.facts.leases.set(partition, until_us.unwrap_or(0));
        }
    }
}

fn begin(config: &MemberConfig, restored: Option<Restored>, now: Now) -> Result<Control, String> {
    Control::new(config.clone(), restored, now).map_err(|error| error.to_string())
}

pub(super) fn now() -> Now {
    Now { us: clock::boot_us(), wall_us: clock::wall_us().max(0) as u64 }
}
