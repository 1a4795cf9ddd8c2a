//! The links to the other hosts of the cluster, and the thread that they have: they move the bytes
//! of [`lockstep_link`], give what arrives to the threads that it is for, and take what they send.
//! Sites do so too, where that saves them to wake that thread ([`shared`]).
//!
//! A message is a thread's number at its host, whether it is urgent, and the byte form
//! ([`crate::codec`]). The first message of each session are the terms of the cluster, which all
//! hosts must have alike.
//!
//! With one copy of each partition the cluster is lost with any of its hosts: when the session with
//! one ends, this host stops. With more copies the control plane ([`membership`]) decides who is
//! lost, and the others go on.
//!
//! A witness is this thread alone ([`crate::Witness`]): it takes part in the control plane, and has
//! no other messages for hosts than its terms.

mod configuration;
mod durable;
mod follower_logs;
mod frame;
mod growth;
mod lost;
mod membership;
mod moves;
mod of_copies;
mod peer;
mod placement;
mod round;
mod shared;
mod starters;
mod starting;
mod terms;
mod watch;
mod witness;

pub use configuration::{ClusterMembership, DEFAULT_PLACEMENT_GROUP, check_placement_group};
pub use lockstep_link::ClusterId;
pub(crate) use placement::first_placement;
pub(crate) use shared::SharedLinks;
pub(crate) use terms::SaidWithTerms;
pub use terms::{ClusterTerms, KFACTOR_MAX, WITNESSES_MAX};

use crate::clock;
use crate::codec::read_copy_message;
use crate::host_message::{HostMessage, messages_in};
use crate::log::directory::random_bits;
use crate::mailbox::{Bell, Inbox, Outbox};
use crate::message::Envelope;
use crate::shard::HostFacts;
pub(crate) use durable::{data_addresses, durable_placement, member_directories, placement_here};
use follower_logs::FollowerLogs;
pub(crate) use follower_logs::SiteLogs;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::copies::{Copies, Sends};
use lockstep_host::placement::Placement;
use lockstep_link::{Accepting, ClockReading, Event, HostIdentity, LinkLimits, VersionRange};
use lockstep_types::{HostId, ThreadId};
use membership::Membership;
pub(crate) use membership::RaftStart;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Poll, Registry, Token};
use peer::Peer;
use starters::Starters;
use starting::StartWait;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use watch::Watch;

const LISTENER: Token = Token(ACCEPTING - 1);
/// Tokens of connections whose hello has not come begin here; below are those of hosts.
const ACCEPTING: usize = 1 << 16;
/// Connections whose hello is awaited.
const ACCEPTING_MAX: usize = 64;
/// How long a hello is awaited.
const HELLO_TIMEOUT_US: u64 = 5_000_000;
/// With copies: a connection that brings nothing for this long is made again.
const SILENCE_US: u64 = 1_000_000;
/// Messages of one sender that are taken before the next one's.
const MESSAGES_PER_LANE: usize = 1024;
/// Messages for threads of this host that wait beside their rings, before nothing more is read.
const OVERFLOW_MAX: usize = 1 << 14;
/// In place of a thread: the terms of the cluster.
const TERMS: u8 = u8::MAX;

/// What the thread is made from.
pub(crate) struct LinksParts {
    pub(crate) poll: Poll,
    pub(crate) bell: Arc<Bell>,
    pub(crate) outbox: Outbox<Envelope>,
    pub(crate) inbox: Inbox<Envelope>,
    /// The polls of the sites.
    pub(crate) sites: Vec<Registry>,
    pub(crate) facts: Arc<HostFacts>,
    pub(crate) membership: ClusterMembership,
    /// Where other hosts connect.
    pub(crate) listener: TcpListener,
    /// What an earlier run has left of the control plane.
    pub(crate) raft: RaftStart,
    /// The ends of the command log of the partitions with copies here.
    pub(crate) logs: SiteLogs,
}

/// What a host begins with, once its cluster is formed.
pub(crate) struct Formed {
    /// The placement.
    pub(crate) placement: Arc<Placement>,
    /// The ends of the command log of the partitions that it leads.
    pub(crate) logs: SiteLogs,
    /// The cluster ran before, and has the catalog.
    pub(crate) joins: bool,
}

/// A connection whose hello has not come.
struct Newcomer {
    stream: TcpStream,
    accepting: Accepting,
    since_us: i64,
}

/// The links of a host.
pub(crate) struct Links {
    watch: Watch,
    outbox: Outbox<Envelope>,
    inbox: Inbox<Envelope>,
    facts: Arc<HostFacts>,
    membership: ClusterMembership,
    /// The control plane.
    members: Membership,
    listener: TcpListener,
    /// By host; none for the own one, and for a number that no host of the cluster has.
    peers: Vec<Option<Box<Peer>>>,
    /// Who this host is to others.
    identity: HostIdentity,
    /// The epoch of which the links are to all hosts that are listed.
    linked_epoch: u64,
    newcomers: Vec<Option<Newcomer>>,
    /// Hosts that start ask this one.
    starters: Starters,
    /// Number of sites of each host.
    sites: u16,
    copies: Copies,
    /// What is to be sent because of what was read.
    sends: Sends,
    /// What of it is for other hosts, and has not been offered to their links.
    unsent: VecDeque<Box<HostMessage>>,
    /// Waits until the cluster is formed.
    formed: Option<SyncSender<Result<Formed, String>>>,
    /// The ends of the command log of the partitions that this host leads at first.
    led_logs: SiteLogs,
    /// Those of the copies that follow.
    logs: FollowerLogs,
    /// All of them, until the placement is known with which the host begins.
    waiting_logs: SiteLogs,
    /// Since when it waits, and when it was last said for what.
    start: StartWait,
    now: ClockReading,
    /// When all sockets were looked at last.
    looked_us: i64,
    /// This round does so too, and not only send what threads have sent.
    does_all: bool,
    /// The next one does.
    has_more: bool,
    /// When the control plane was attended to last.
    attended_us: i64,
    /// It is attended to in this round, or the next one that does all that is due.
    attends: bool,
    is_stopping: bool,
    /// How the thread of the links ends.
    ended: Option<io::Result<()>>,
}

/// The longest message that a host sends to another: the rows of a call, its results.
const MESSAGE_BYTES_MAX: u32 = 1 << 30;

fn limits() -> LinkLimits {
    LinkLimits {
        frame_bytes_max: MESSAGE_BYTES_MAX,
        backlog_bytes_max: 2 * u64::from(MESSAGE_BYTES_MAX),
        datagram_bytes_max: u64::from(MESSAGE_BYTES_MAX),
        ..LinkLimits::default()
    }
}

fn now() -> ClockReading {
    ClockReading { monotonic_us: (clock::monotonic_ns() / 1_000) as i64, wall_us: clock::wall_us() }
}

impl Links {
    /// Assembles them; gives the poll of their thread apart.
    ///
    /// # Errors
    /// The poll takes no more sockets, or a name is too long for a link.
    fn new(
        mut parts: LinksParts,
        formed: SyncSender<Result<Formed, String>>,
    ) -> io::Result<(Links, Poll)> {
        let registry = parts.poll.registry().try_clone()?;
        registry.register(&mut parts.listener, LISTENER, Interest::READABLE)?;
        let membership = parts.membership;
        let placement = parts.facts.placement();
        let now = now();
        let identity = HostIdentity {
            cluster: membership.terms.cluster,
            host: membership.host,
            incarnation: now.wall_us.max(1) as u64,
            process: random_bits(),
            name: parts.facts.host_name.clone(),
            release: env!("CARGO_PKG_VERSION").to_string(),
            versions: VersionRange::SUPPORTED,
        };
        let peers = growth::first_peers(&identity, &membership).map_err(io::Error::other)?;
        let members = Membership::new(&membership, Arc::clone(&parts.facts), parts.raft);
        let mut copies = Copies::waiting(placement.host());
        if parts.facts.options.follower_reads.is_on() {
            copies.answer_reads();
        }
        let links = Links {
            watch: Watch::new(registry, parts.sites),
            outbox: parts.outbox,
            inbox: parts.inbox,
            facts: parts.facts,
            listener: parts.listener,
            peers,
            identity,
            linked_epoch: 0,
            newcomers: Vec::new(),
            starters: Starters::default(),
            sites: placement.site_count(),
            copies,
            led_logs: SiteLogs::new(),
            logs: FollowerLogs::default(),
            waiting_logs: parts.logs,
            sends: Vec::new(),
            unsent: VecDeque::new(),
            formed: Some(formed),
            start: StartWait::begun(now),
            now,
            looked_us: 0,
            does_all: true,
            has_more: false,
            attended_us: 0,
            attends: true,
            is_stopping: false,
            ended: None,
            members: members.map_err(io::Error::other)?,
            membership,
        };
        Ok((links, parts.poll))
    }

    /// Whether a peer takes no more messages for now, so that those for all wait in their boxes.
    fn is_held_up(&self) -> bool {
        self.peers.iter().flatten().any(|peer| peer.is_held_up())
    }

    fn accept_all(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let free = self.newcomers.iter().position(Option::is_none);
            let place = free.unwrap_or(self.newcomers.len());
            if place >= ACCEPTING_MAX {
                tracing::warn!(limit = ACCEPTING_MAX, "too many hosts connect at once");
                continue;
            }
            let token = Token(ACCEPTING + place);
            if self.watch.registry().register(&mut stream, token, Interest::READABLE).is_err() {
                continue;
            }
            if place == self.newcomers.len() {
                self.newcomers.push(None);
            }
            let accepting = Accepting::new(VersionRange::SUPPORTED);
            let since_us = self.now.monotonic_us;
            self.newcomers[place] = Some(Newcomer { stream, accepting, since_us });
            self.hear(place);
        }
    }

    /// Reads the hello of a connection.
    fn hear(&mut self, place: usize) {
        if self.is_starter(place) {
            return self.answer_starter(place);
        }
        let Some(newcomer) = self.newcomers.get_mut(place).and_then(Option::as_mut) else { return };
        let refusal = loop {
            let read = newcomer.stream.read(newcomer.accepting.read_space());
            match read {
                Ok(0) => break None,
                Ok(count) => newcomer.accepting.filled(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => break None,
            }
            match newcomer.accepting.hello() {
                Ok(None) => {}
                Ok(Some(hello)) => {
                    let from = hello.from;
                    return self.welcome(place, from);
                }
                Err(error) => {
                    tracing::warn!(%error, "something that is no host of the cluster connects");
                    break error.refusal();
                }
            }
        };
        if let Some(Newcomer { mut stream, .. }) = self.newcomers[place].take()
            && let Some(refusal) = refusal
        {
            // A fresh socket takes so little; if not, the peer sees the close alone.
            let _ = stream.write(&refusal.to_bytes(VersionRange::SUPPORTED));
        }
    }

    /// The hello of a connection has come.
    fn welcome(&mut self, place: usize, from: HostId) {
        let newcomer = self.newcomers[place].take().expect("its hello was just read");
        let Newcomer { mut stream, accepting, .. } = newcomer;
        let _ = self.watch.registry().deregister(&mut stream);
        self.expect_unlisted(from);
        let peer = self.peers.get_mut(from.0 as usize).and_then(Option::as_mut);
        let Some(peer) = peer else {
            tracing::warn!(host = %from, "a host connects that is not of the cluster");
            return;
        };
        if let Err(refusal) = peer.accept(stream, accepting, &self.watch, self.now) {
            tracing::debug!(host = %from, ?refusal, "a connection is refused");
        }
    }

    /// Dials, reads what has come, and gives it to the threads.
    fn read_peers(&mut self) -> io::Result<()> {
        let now_us = self.now.monotonic_us;
        for newcomer in &mut self.newcomers {
            if newcomer
                .as_ref()
                .is_some_and(|it| Elapsed::between_us(it.since_us, now_us).us() > HELLO_TIMEOUT_US)
            {
                *newcomer = None;
            }
        }
        for number in 0..self.peers.len() {
            let Some(mut peer) = self.peers[number].take() else { continue };
            if self.members.has_copies() || self.formed.is_some() {
                peer.drop_silent(SILENCE_US, &self.watch, self.now);
            }
            peer.dial_in_time(&self.watch, self.now);
            // What the receivers have no room for stays in the socket.
            let ended = match self.is_behind() {
                true => {
                    self.has_more = true;
                    Ok(())
                }
                false => self.read_peer(&mut peer),
            };
            let host = peer.host();
            self.peers[number] = Some(peer);
            let ended = ended.and_then(|()| self.check_heard(number));
            match ended {
                Ok(()) => {}
                Err(problem) if self.formed.is_none() && self.members.has_copies() => {
                    tracing::error!(%host, problem, "the host is cut off");
                    self.cut_off(host);
                }
                Err(problem) => self.lose(host, &problem)?,
            }
        }
        Ok(())
    }

    /// Whether nothing is read for now, because threads of this host cannot keep up. With copies
    /// that comes late: heartbeats are read with the messages, and a site that is busy for long
    /// is not to cost the host.
    fn is_behind(&self) -> bool {
        match self.members.has_copies() {
            true => self.outbox.overflow() > OVERFLOW_MAX,
            false => self.outbox.is_overflowing(),
        }
    }

    /// Reads until nothing is left; an error says why the host is lost.
    fn read_peer(&mut self, peer: &mut Peer) -> Result<(), String> {
        loop {
            loop {
                let is_heard = peer.other.is_heard();
                let event = match peer.link.next_event(self.now) {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!(host = %peer.host(), %error, "the connection ends");
                        peer.fail(&error);
                        break;
                    }
                };
                self.attends |= !matches!(event, Event::Message { .. } | Event::Heartbeat(_));
                match event {
                    Event::SessionBegan { .. } => {
                        peer.note_session();
                        peer.send_terms((&self.membership.terms, self.said()), self.now)?;
                    }
                    Event::SessionEnded { .. } if self.formed.is_none() => {
                        if !self.members.has_copies() {
                            return Err("its process has ended".to_string());
                        }
                        // What hosts and witnesses exchange is sent again, or may be lost.
                        if peer.is_cut_off() && !self.members.is_with_witness(peer.host_id) {
                            self.members.cut_off(peer.host_id, peer.other.since());
                        }
                    }
                    Event::SessionEnded { .. } => peer.ends_session(),
                    Event::Connected { .. } | Event::Heartbeat(_) => {}
                    Event::Datagram(bytes) => self.members.receive(peer.host_id, bytes),
                    Event::Message { bytes: [TERMS, _, terms @ ..], .. } => {
                        let agreed = self.membership.terms.agrees_with(terms);
                        let said = agreed.map_err(|problem| {
                            format!("it has other terms than this host: {problem}")
                        })?;
                        self.note_terms(peer, said);
                        self.attends = true;
                    }
                    Event::Message { .. } if !is_heard => {}
                    Event::Message { bytes, .. } => self.deliver(peer.host_id, bytes)?,
                }
            }
            if self.is_behind() {
                self.has_more = true;
                return Ok(());
            }
            if !peer.read() {
                return Ok(());
            }
        }
    }

    /// What this host says beside its terms.
    fn said(&self) -> SaidWithTerms {
        SaidWithTerms {
            created_ms: self.facts.cluster_created_ms.load(Ordering::Relaxed),
            placement_epoch: match self.formed.is_some() {
                true => 0,
                false => self.facts.placement_epoch(),
            },
        }
    }

    /// Another host has the same terms.
    fn note_terms(&self, peer: &mut Peer, said: SaidWithTerms) {
        let SaidWithTerms { created_ms, placement_epoch } = said;
        peer.other.hear_epoch(placement_epoch);
        // Clients compare it between hosts.
        if peer.host_id == self.members.first_host() && self.formed.is_some() {
            self.facts.cluster_created_ms.store(created_ms, Ordering::Relaxed);
        }
        peer.created_ms = Some(created_ms);
        peer.has_agreed = true;
    }

    /// Gives a message of another host to the thread that it is for.
    pub(super) fn deliver(&mut self, from: HostId, bytes: &[u8]) -> Result<(), String> {
        if self.members.is_with_witness(from) {
            return Err("it sends a message that a witness neither sends nor takes".to_string());
        }
        if let [to, _, bytes @ ..] = bytes
            && u16::from(*to) == self.sites + 1
        {
            for message in messages_in(bytes) {
                let message = read_copy_message(message?, self.facts.partition_count);
                let message = message.map_err(|error| error.to_string())?;
                self.copies.take(from, message, &mut self.sends)?;
            }
            return Ok(());
        }
        let (to, message) = frame::read(bytes, from, self.sites, &mut self.outbox.spare)?;
        let to = ThreadId::at(self.membership.host, to);
        let is_urgent = message.is_urgent;
        let message = Envelope::Incoming(message);
        match is_urgent {
            true => self.outbox.send_urgent(to, message),
            false => self.outbox.send(to, message),
        }
        Ok(())
    }

    fn take_messages(&mut self) {
        self.send_owed_terms();
        self.peers.iter_mut().flatten().for_each(|peer| peer.offer_held(self.now));
        while !self.is_held_up() {
            let Some(message) = self.inbox.take_urgent() else { break };
            self.take_message(message);
        }
        for lane in 0..self.inbox.lane_count() {
            for _ in 0..MESSAGES_PER_LANE {
                if self.is_held_up() {
                    return;
                }
                let Some(message) = self.inbox.take(lane) else { break };
                self.take_message(message);
            }
        }
    }

    fn offer(&mut self, mut message: Box<HostMessage>) {
        let host = message.peer.host();
        // No thread of this host knows a later one.
        message.epoch = message.epoch.map(|_| self.facts.placement_epoch());
        match self.peers.get_mut(host.0 as usize).and_then(Option::as_mut) {
            Some(peer) => {
                let offered = peer.offer(message, self.now);
                offered.into_iter().for_each(|it| self.outbox.spare.give_back_message(it));
            }
            // It was removed after the message was sent: nothing expects an answer of it.
            None => self.outbox.spare.give_back_message(message),
        }
    }

    fn take_message(&mut self, message: Envelope) {
        match message {
            Envelope::Outgoing(message) => self.offer(message),
            Envelope::Copy(message) => {
                self.does_all = true;
                let taken = self.copies.take(self.membership.host, *message, &mut self.sends);
                taken.expect("sites of this host report what they have sealed");
            }
            other => {
                // What the control plane makes of it is not to wait for the next tick.
                (self.does_all, self.attends) = (true, true);
                self.take_other(other);
            }
        }
    }

    fn take_other(&mut self, message: Envelope) {
        match message {
            Envelope::EndSession(host) => self.cut_off(host),
            Envelope::Propose(command) => self.members.propose(*command),
            Envelope::HandedOver(planned) => self.members.complete_move(planned),
            Envelope::SteppedDown(here) => self.follow_after_leading(*here),
            Envelope::LogGivenBack(given) => self.take_log_back(*given),
            Envelope::Drain => {}
            Envelope::Stop => self.is_stopping = true,
            _ => unreachable!("threads send messages for other hosts"),
        }
    }

    fn write_peers(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            peer.beat_in_time(self.now);
            peer.write(self.now);
        }
    }
}
