//! The control plane of a host and what the thread of its links does with that: leases for the
//! sites, new placements, copies that are sealed, and a host that serves no more.

use super::host::Host;
use super::network::Clock;
use super::{Said, Shared};
use lockstep_cluster::{
    Agreement, ClusterState, Command, Control, ControlEvent, Epoch, Event, HostDescription,
    Incarnation, MemberConfig, Now, Options, Outgoing, Shape,
};
use lockstep_host::copies::{Copies, Sends, ToThread, Wish};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::hand_over::{PlannedMove, moves_of};
use lockstep_host::other_host::OtherHost;
use lockstep_host::placement::{ClusterPlacement, Placement};
use lockstep_host::serving::{Serving, Turn};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a host waits that was put out, before it begins again.
const BEGIN_AGAIN_US: u64 = 100_000;

/// What the links of a host do next.
#[derive(Default)]
pub(super) struct Done {
    /// To other hosts.
    pub(super) messages: Vec<(HostId, Said)>,
    /// To other hosts, in a session: the placement that this one goes by.
    pub(super) epochs: Vec<(HostId, u32, u64)>,
    /// Datagrams of the control plane.
    pub(super) datagrams: Vec<Outgoing>,
    /// To the sites of this host, in order.
    pub(super) to_sites: Vec<Said>,
    /// Hosts with which the session ends.
    pub(super) ended: Vec<HostId>,
    /// Something that is not sound.
    pub(super) problem: Option<String>,
    /// Its standing was lost; it was put out.
    pub(super) minorities: u64,
    pub(super) put_out: u64,
    pub(super) resumed: u64,
    /// It was put out, and begins again without data.
    pub(super) begins_again: bool,
    /// The host's tick has come.
    pub(super) is_tick: bool,
}

/// The links of a host.
pub(super) struct Links {
    pub(super) host: HostId,
    pub(super) run: Incarnation,
    /// By host, what is between it and this one.
    others: Vec<Other>,
    /// It serves, or has served.
    pub(super) has_begun: bool,
    /// When it proposed last that it takes part.
    pub(super) proposed_us: Option<u64>,
    pub(super) control: Control,
    pub(super) clock: Clock,
    pub(super) copies: Copies,
    pub(super) serving: Serving,
    pub(super) cut_off_since_us: Option<u64>,
    pub(super) taken: Epoch,
    /// Moves as the sites know them, and those of leaders here that are drained.
    moves: Vec<PlannedMove>,
    drained: Vec<PlannedMove>,
    /// The newest placement that the copies have followed.
    pub(super) known: Arc<Placement>,
    pub(super) sends: Sends,
}

/// Another host as the links of one have it.
struct Other {
    /// The session with it.
    session: Option<u32>,
    host: OtherHost<Said>,
}

impl Links {
    pub(super) fn new(
        placement: &Placement,
        (shape, numbers, options, run): (Shape, u32, Options, u64),
        clock: Clock,
        (seed, true_us): (u64, u64),
        shared: &Shared,
    ) -> Links {
        let faults = shared.faults;
        let host = placement.host();
        let config = MemberConfig {
            description: HostDescription {
                host,
                name: format!("host{host}"),
                internal_address: String::new(),
                client_address: String::new(),
                admin_address: String::new(),
                directory: String::new(),
                placement_group: String::new(),
                release: 1,
            },
            incarnation: Incarnation(run),
            joins: run > 1,
            added: (shape.hosts..numbers).map(HostId).collect(),
            agreement: Agreement { name: "sim".into(), shape, hosts_digest: 1 },
            options,
            seed: seed ^ u64::from(host.0) << 32 ^ run << 48,
            faults: faults.cluster,
        };
        let (us, wall_us) = clock.at(true_us);
        let control = Control::new(config, None, Now { us, wall_us });
        let mut copies = Copies::waiting(host);
        if shared.reads_bound_us.is_some() {
            copies.answer_reads();
        }
        if run == 1 {
            let begun = copies.begin(placement, &BTreeMap::new(), &mut Vec::new());
            begun.expect("nobody has said anything");
        }
        copies.inject(faults.streams);
        let other = |_| Other { session: (run == 1).then_some(0), host: OtherHost::default() };
        Links {
            host,
            run: Incarnation(run),
            others: (0..numbers).map(other).collect(),
            has_begun: run == 1,
            proposed_us: None,
            control: control.expect("the options fit together"),
            clock,
            copies,
            serving: if run == 1 { Serving::default() } else { Serving::joining() },
            cut_off_since_us: None,
            taken: Epoch(0),
            moves: Vec::new(),
            drained: Vec::new(),
            known: Arc::new(placement.clone()),
            sends: Vec::new(),
        }
    }

    /// Which hosts are lost in a new placement, and which take part again.
    fn follow_others(&mut self, (before, placement): (&Placement, &Placement), done: &mut Done) {
        for (host, other) in (0..).map(HostId).zip(&mut self.others) {
            if before.is_up(host) && !placement.is_up(host) && host != self.host {
                other.host.go_out();
                other.session = None;
                done.ended.push(host);
            }
        }
        self.take_part(placement);
    }

    /// The hosts that take part with this one in a placement are heard.
    pub(super) fn take_part(&mut self, placement: &Placement) {
        for (host, other) in (0..).map(HostId).zip(&mut self.others) {
            let since = placement.both_up_since(host).filter(|_| host != self.host);
            if since.is_some_and(|since| other.host.take_part(since)) {
                self.control.not_cut_off(host);
            }
        }
    }

    /// Tells other hosts which placement this one goes by, where they are to hear that, and sends
    /// what has waited for what they say.
    fn say_epochs(&mut self, done: &mut Done) {
        let epoch = if self.has_begun { self.known.epoch() } else { 0 };
        for (host, other) in (0..).map(HostId).zip(&mut self.others) {
            if let Some(session) = other.session.filter(|_| other.host.owes_epoch()) {
                done.epochs.push((host, session, epoch));
                other.host.note_epoch_sent();
            }
            while let Some(said) = other.host.next_waiting() {
                done.messages.push((host, said));
            }
        }
    }

    /// What is sent to another host, and the session; nothing where it waits, or is lost.
    pub(super) fn send(&mut self, to: HostId, said: Said) -> Option<(u32, Said)> {
        let other = &mut self.others[to.0 as usize];
        let said = other.host.send(said)?;
        Some((other.session?, said))
    }

    pub(super) fn now(&self, true_us: u64) -> Now {
        let (us, wall_us) = self.clock.at(true_us);
        Now { us, wall_us }
    }

    pub(super) fn state(&self) -> Option<&ClusterState> {
        self.control.state().filter(|state| state.is_formed())
    }

    /// A datagram has come.
    pub(super) fn receive(
        &mut self,
        (from, session): (HostId, u32),
        bytes: &[u8],
        true_us: u64,
        host: &mut Host,
    ) -> Done {
        if self.connection_to(from) != Some(session) {
            return Done::default();
        }
        let now = self.now(true_us);
        self.control.receive(from, bytes, now);
        self.carry_out(now, host)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, true_us: u64, host: &mut Host, shared: &mut Shared) -> Done {
        let now = self.now(true_us);
        for site in 0..host.placement.site_count() {
            self.control.site_ran(ThreadId(site), now.us);
        }
        self.control.set_cannot_lead(host.unavailable.not_led_here(&host.placement));
        self.control.tick(now);
        let mut done = self.carry_out(now, host);
        if host.placement.is_replicated() {
            host.unavailable.set(&self.control.unavailable());
        }
        done.is_tick = true;
        done.begins_again = self.serving.is_to_begin_again(&self.control, BEGIN_AGAIN_US, now.us);
        self.attend_to_joining(now, (host, shared), &mut done);
        self.copies.send_receipts(|_| false, &mut self.sends);
        self.send_all(host.id, &mut done);
        done
    }

    /// The session in which something is said to another host, if it is said.
    pub(super) fn session_to(&self, to: HostId) -> Option<u32> {
        let other = &self.others[to.0 as usize];
        other.session.filter(|_| !other.host.is_out())
    }

    /// The session with another host, also with one that is out.
    pub(super) fn connection_to(&self, to: HostId) -> Option<u32> {
        self.others[to.0 as usize].session
    }

    /// What is between this host and the others, for who looks for a reason.
    pub(super) fn shown(&self) -> String {
        let of = |(host, other): (usize, &Other)| {
            let Other { session, host: it } = other;
            let (is_out, is_heard) = (it.is_out(), it.is_heard());
            let is_cut = self.control.detector().is_cut_from(HostId(host as u32));
            format!("{host}: session {session:?} out {is_out} heard {is_heard} cut {is_cut}")
        };
        self.others.iter().enumerate().map(of).collect::<Vec<_>>().join(", ")
    }

    /// Whether this host is connected with another one.
    pub(super) fn is_connected(&self, to: HostId) -> bool {
        self.connection_to(to).is_some()
    }

    /// A session with another host begins: with the one before messages were lost.
    pub(super) fn begin_session(&mut self, peer: HostId, session: u32) {
        let other = &mut self.others[peer.0 as usize];
        if other.session.is_some_and(|known| known >= session) {
            return;
        }
        let has_lost = other.session.replace(session).is_some() && self.has_begun;
        let is_news = has_lost && other.host.end_session();
        other.host.begin_session();
        let since = Epoch(other.host.since());
        let record = self.control.state().and_then(|state| state.hosts.get(&peer));
        if let Some(incarnation) = record.filter(|_| is_news).map(|record| record.incarnation) {
            self.control.cut_off(peer, incarnation, since);
        }
    }

    /// A message of another host has come, in a session.
    pub(super) fn hear(&mut self, from: HostId, session: u32, said: Said, host: &mut Host) -> Done {
        let mut done = Done::default();
        let other = &mut self.others[from.0 as usize];
        if other.session != Some(session) {
            return done;
        }
        match said {
            Said::Epoch(epoch) => other.host.hear_epoch(epoch),
            said if other.host.is_heard() => self.take((from, said), host, &mut done),
            _ => {}
        }
        done
    }

    /// A message of another host counts: what is not for the links goes to the sites.
    fn take(&mut self, (from, said): (HostId, Said), host: &mut Host, done: &mut Done) {
        match said {
            Said::Copy(
                message @ OfCopy {
                    said:
                        CopyMessage::Stream(..)
                        | CopyMessage::Sealed(_)
                        | CopyMessage::Load(_)
                        | CopyMessage::LoadAgain(_),
                    ..
                },
            ) => {
                if let Err(problem) = self.copies.take(from, message, &mut self.sends) {
                    done.problem = Some(problem);
                }
                self.copies.send_receipts(|_| false, &mut self.sends);
                self.send_all(host.id, done);
            }
            other => done.to_sites.push(other),
        }
    }

    /// What the sites have sealed, and ask the control plane for.
    pub(super) fn take_from_sites(&mut self, true_us: u64, host: &mut Host) -> Done {
        let mut done = Done::default();
        self.say_epochs(&mut done);
        for report in std::mem::take(&mut host.sealed) {
            if let Err(problem) = self.copies.take(host.id, report, &mut self.sends) {
                done.problem = Some(problem);
            }
        }
        for (partition, stream) in std::mem::take(&mut host.stepped_down) {
            // The newest placement that the copies have followed.
            let Some(state) = self.state() else { continue };
            let placement = Placement::of_cluster(host.id, &ClusterPlacement::of_state(state));
            let copy = state.partitions[partition.index()].copy_at(host.id);
            let site = ThreadId::at(host.id, copy.map_or(0, |copy| copy.thread.0));
            let copy = (partition, site);
            self.copies.follow_after_leading(copy, stream, None, &placement, &mut self.sends);
        }
        self.drained.append(&mut host.drained);
        self.complete_moves(true_us);
        self.send_all(host.id, &mut done);
        let commands = std::mem::take(&mut host.proposals);
        for command in commands.into_iter().chain(self.wishes()) {
            // Too many are pending: the partition asks again in its next epoch.
            let _ = self.control.propose(command, self.now(true_us));
        }
        done
    }

    /// Leaders here that are drained give up their leases, and their moves are completed.
    fn complete_moves(&mut self, true_us: u64) {
        let now = self.now(true_us);
        let Some(state) = self.state() else { return };
        let epochs: Vec<Epoch> = state.partitions.iter().map(|it| it.epoch).collect();
        self.drained.retain(|it| epochs[it.partition.index()].0 <= it.epoch.into());
        for PlannedMove { partition, to, epoch } in self.drained.clone() {
            if self.control.seal(partition, now) {
                let epoch = Epoch(epoch.into());
                let command = Command::CompleteHandOver { partition, to, epoch };
                // Too many are pending: it is proposed again.
                let _ = self.control.propose(command, now);
            }
        }
    }

    /// Tells the sites which leaders are to be moved, after the placement that they are of.
    fn tell_moves(&mut self, done: &mut Done) {
        let Some(state) = self.state().filter(|state| state.epoch == self.taken) else { return };
        let moves = moves_of(state);
        if moves != self.moves {
            self.moves.clone_from(&moves);
            done.to_sites.push(Said::Moves(moves));
        }
    }

    fn wishes(&mut self) -> Vec<Command> {
        let command = |wish| match wish {
            Wish::MoveLeader(partition, to, epoch) => {
                Command::MoveLeader { partition, to, epoch: Epoch(epoch.into()) }
            }
            Wish::OutOfSync(partition, host, epoch) => {
                Command::OutOfSync { partition, host, epoch: Epoch(epoch.into()) }
            }
        };
        self.copies.take_wishes().into_iter().map(command).collect()
    }

    fn carry_out(&mut self, now: Now, host: &mut Host) -> Done {
        let mut done = Done::default();
        let effects = self.control.take_effects(now);
        done.datagrams = effects.messages;
        for event in effects.events {
            if let ControlEvent::Member(Event::Disagrees { host, .. }) = event {
                done.problem = Some(format!("host {host} has other terms"));
            }
        }
        self.write_leases(now, host);
        while let Some(turn) = self.turn(now, host) {
            done.minorities += u64::from(matches!(turn, Turn::CutOff(_)));
            done.put_out += u64::from(turn == Turn::Out);
            done.resumed += u64::from(turn == Turn::Resumed);
        }
        host.is_cut_off = self.serving.is_cut_off() || !host.has_joined();
        if !host.is_cut_off {
            self.cut_off_since_us = None;
        }
        self.install_placement(host, &mut done);
        self.tell_moves(&mut done);
        done
    }

    fn turn(&mut self, now: Now, host: &Host) -> Option<Turn> {
        let has_copies = host.placement.is_replicated();
        has_copies.then(|| self.serving.poll(&self.control, now.us)).flatten()
    }

    fn write_leases(&self, now: Now, host: &mut Host) {
        for (number, until_us) in (0..).zip(&mut host.leases_us) {
            *until_us = self.control.answers_until_us(PartitionId(number), now.us).unwrap_or(0);
        }
    }

    fn install_placement(&mut self, host: &mut Host, done: &mut Done) {
        let Some(state) = self.state() else { return };
        let epoch = state.epoch;
        if epoch <= self.taken || !host.placement.is_replicated() || !self.has_begun {
            return;
        }
        let placement = Placement::of_cluster(host.id, &ClusterPlacement::of_state(state));
        self.taken = epoch;
        if placement.epoch() <= host.placement.epoch() {
            if placement != *host.placement {
                done.problem = Some("the cluster begins with another placement".to_string());
            }
            return;
        }
        let before = Arc::clone(&self.known);
        let placement = Arc::new(placement);
        self.known = Arc::clone(&placement);
        self.follow_others((&before, &placement), done);
        self.copies.follow_placement(&placement, &mut self.sends);
        self.copies.take_dropped();
        // Before the openings of epochs that it begins.
        done.to_sites.push(Said::Placement(placement));
        self.send_all(host.id, done);
    }

    pub(super) fn send_all(&mut self, own: HostId, done: &mut Done) {
        for (thread, message) in self.sends.drain(..) {
            let said = match message {
                ToThread::Copy(message) => Said::Copy(message),
                ToThread::Follow(piece) => Said::Follow(piece),
                ToThread::Open(opening) => Said::Open(Box::new(opening)),
                ToThread::Load(partition, part) => Said::Load(partition, part),
                ToThread::LoadAgain(partition, attempt) => Said::LoadAgain(partition, attempt),
            };
            match thread.host() == own {
                true => done.to_sites.push(said),
                false => done.messages.push((thread.host(), said)),
            }
        }
    }
}
