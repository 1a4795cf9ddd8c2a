//! The control plane of a host and what the thread of its links does with that: leases for the
//! sites, new placements, copies that are sealed, and a host that serves no more.

use super::host::Host;
use super::network::Clock;
use super::{HostFaults, Said};
use lockstep_cluster::{
    Agreement, ClusterState, Command, Control, ControlEvent, Epoch, Event, HostDescription,
    Incarnation, MemberConfig, Now, Options, Outgoing, Shape,
};
use lockstep_host::copies::{Copies, Sends, ToThread, Wish};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::hand_over::{PlannedMove, moves_of};
use lockstep_host::placement::{ClusterPlacement, Placement};
use lockstep_host::serving::{Serving, Turn};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::sync::Arc;

/// What the links of a host do next.
#[derive(Default)]
pub(super) struct Done {
    /// To other hosts.
    pub(super) messages: Vec<(HostId, Said)>,
    /// Datagrams of the control plane.
    pub(super) datagrams: Vec<Outgoing>,
    /// To the sites of this host, in order.
    pub(super) to_sites: Vec<Said>,
    /// Something that is not sound.
    pub(super) problem: Option<String>,
    /// Its standing was lost; it was put out.
    pub(super) minorities: u64,
    pub(super) put_out: u64,
    pub(super) resumed: u64,
    /// The host's tick has come.
    pub(super) is_tick: bool,
}

/// The links of a host.
pub(super) struct Links {
    pub(super) control: Control,
    pub(super) clock: Clock,
    pub(super) copies: Copies,
    pub(super) serving: Serving,
    pub(super) cut_off_since_us: Option<u64>,
    taken: Epoch,
    /// Moves as the sites know them, and those of leaders here that are drained.
    moves: Vec<PlannedMove>,
    drained: Vec<PlannedMove>,
    sends: Sends,
}

impl Links {
    pub(super) fn new(
        placement: &Placement,
        (shape, options): (Shape, Options),
        clock: Clock,
        (seed, true_us): (u64, u64),
        faults: HostFaults,
    ) -> Links {
        let host = placement.host();
        let config = MemberConfig {
            description: HostDescription {
                host,
                name: format!("host{host}"),
                internal_address: String::new(),
                client_address: String::new(),
                admin_address: String::new(),
                placement_group: String::new(),
                release: 1,
            },
            incarnation: Incarnation(1),
            joins: false,
            agreement: Agreement { name: "sim".into(), shape, hosts_digest: 1 },
            options,
            seed: seed ^ u64::from(host.0) << 32,
            faults: faults.cluster,
        };
        let (us, wall_us) = clock.at(true_us);
        let control = Control::new(config, None, Now { us, wall_us });
        let mut copies = Copies::new(placement);
        copies.inject(faults.streams);
        Links {
            control: control.expect("the options fit together"),
            clock,
            copies,
            serving: Serving::default(),
            cut_off_since_us: None,
            taken: Epoch(0),
            moves: Vec::new(),
            drained: Vec::new(),
            sends: Vec::new(),
        }
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
        from: HostId,
        bytes: &[u8],
        true_us: u64,
        host: &mut Host,
    ) -> Done {
        let now = self.now(true_us);
        self.control.receive(from, bytes, now);
        self.carry_out(now, host)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, true_us: u64, host: &mut Host) -> Done {
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
        self.copies.send_receipts(|_| false, &mut self.sends);
        self.send_all(host.id, &mut done);
        done
    }

    /// A message of another host has come: what is not for the links goes to the sites.
    pub(super) fn take(&mut self, from: HostId, said: Said, host: &mut Host) -> Done {
        let mut done = Done::default();
        match said {
            Said::Copy(
                message @ OfCopy { said: CopyMessage::Stream(..) | CopyMessage::Sealed(_), .. },
            ) => {
                if let Err(problem) = self.copies.take(from, message, &mut self.sends) {
                    done.problem = Some(problem);
                }
                self.copies.send_receipts(|_| false, &mut self.sends);
                self.send_all(host.id, &mut done);
            }
            other => done.to_sites.push(other),
        }
        done
    }

    /// What the sites have sealed, and ask the control plane for.
    pub(super) fn take_from_sites(&mut self, true_us: u64, host: &mut Host) -> Done {
        let mut done = Done::default();
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
        host.is_cut_off = self.serving.is_cut_off();
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
        if epoch <= self.taken || !host.placement.is_replicated() {
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
        self.copies.follow_placement(&placement, &mut self.sends);
        self.copies.take_dropped();
        // Before the openings of epochs that it begins.
        done.to_sites.push(Said::Placement(Arc::new(placement)));
        self.send_all(host.id, done);
    }

    fn send_all(&mut self, own: HostId, done: &mut Done) {
        for (thread, message) in self.sends.drain(..) {
            let said = match message {
                ToThread::Copy(message) => Said::Copy(message),
                ToThread::Follow(piece) => Said::Follow(piece),
                ToThread::Open(opening) => Said::Open(Box::new(opening)),
                ToThread::Load(..) | ToThread::LoadAgain(..) => {
                    unreachable!("no host comes back in this world")
                }
            };
            match thread.host() == own {
                true => done.to_sites.push(said),
                false => done.messages.push((thread.host(), said)),
            }
        }
    }
}
