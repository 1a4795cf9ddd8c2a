//! A site's thread: its replicas, its connections and its loop.
//!
//! One round of the loop: poll; read all ready sockets, running calls for the own partitions on
//! the spot; take what other threads sent; hand the log entries over; write all answers. Nothing
//! in between waits. A call for a partition of another thread goes through a mailbox as the
//! bytes that the client sent, and its answer comes back as the bytes that the client gets.
//!
//! The first thread also accepts connections. One thread, which the placement names, runs the
//! coordinator of multi-partition transactions.

mod accept;
mod answers;
mod at_replica;
mod bounced;
mod bytes;
mod calls;
mod connections;
mod coordinator;
mod copy_reads;
mod deferred;
mod drain;
mod facts;
mod following;
mod gate;
mod hand_over;
mod handed;
mod input;
mod leading;
mod learned;
mod leases;
mod load;
mod loading;
mod misrouted;
mod notes;
mod one_round;
mod opening;
mod output;
mod outside;
mod own_messages;
mod replica;
mod site_load;
mod snapshot;
mod task;
mod unavailable;
mod urgent_polling;
mod via;
mod wait;

use crate::catalog::HostCatalog;
use crate::clock;
use crate::inner_load::SiteLoad;
use crate::links::SharedLinks;
use crate::log::SiteLog;
use crate::mailbox::{Bell, Inbox, Outbox};
use crate::message::{AdHocCall, Envelope, ForwardedCall, MultiOrigin, Origin, ViaCall};
use crate::statistics::ThreadStatistics;
use accept::Listener;
use connections::Connections;
use coordinator::{CoordinatorRole, SeveralCalls};
use drain::Phase;
pub use drain::{Departure, Drain};
pub(crate) use facts::CurrentPlacement;
pub use facts::{HostFacts, ReplicaDigest};
use gate::LogGates;
pub use learned::{LearnedStage, LearnedStages};
pub use leases::LeaseTable;
pub(crate) use leases::SiteRuns;
use lockstep_base::counting;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::hand_over::MovesAtCoordinator;
use lockstep_host::partition::take_call;
use lockstep_host::placement::Placement;
use lockstep_host::several::CoordinatorCall;
use lockstep_host::unavailable::UnavailableCalls;
use lockstep_site::{FromPartition, Site};
use lockstep_types::{HostId, PartitionId, Status, ThreadId, TransactionId};
use mio::{Events, Poll, Token};
use outside::OutsideCalls;
use own_messages::OwnMessages;
pub use replica::Slot;
use replica::{Replica, Replicas};
use site_load::InnerLoad;
use snapshot::SnapshotLanes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use urgent_polling::UrgentPolling;

/// The token of the thread's own waker; connections have their place as token.
const WAKER: Token = Token(usize::MAX);
const CLIENT_LISTENER: Token = Token(usize::MAX - 1);
const ADMIN_LISTENER: Token = Token(usize::MAX - 2);
/// Of the sockets to other hosts: that with the number 0 is the first.
const LINKS: usize = usize::MAX - (1 << 16);
const LINKS_END: usize = ADMIN_LISTENER.0;

/// Messages taken from each other thread in one round, so that sockets are not starved.
const MESSAGES_PER_ROUND: usize = 1024;
/// Urgent messages taken before what they made this thread send is shown to the others.
const URGENT_PER_SHOW: usize = 16;
/// How often deadlines are looked at.
const DEADLINE_CHECK_US: u64 = 100_000;

/// A call that waits until its partition goes on.
pub enum HeldCall {
    Invocation(ForwardedCall),
    AdHoc(Box<AdHocCall>),
    Via(ViaCall),
}

impl HeldCall {
    fn origin(&self) -> Origin {
        match self {
            HeldCall::Invocation(call) => call.origin,
            HeldCall::AdHoc(call) => call.origin,
            HeldCall::Via(via) => via.call.origin,
        }
    }
}

/// The answer of a call that ran after a transaction whose outcome is not known yet.
pub struct KeptAnswer {
    status: Status,
    frame: Vec<u8>,
    /// The last log entry that it depends on.
    entry: u64,
}

/// A partition of a host.
pub type HostSite = Site<HeldCall, KeptAnswer, Arc<HostCatalog>>;

/// What a thread is made from.
pub struct ShardParts {
    /// The thread.
    pub thread: ThreadId,
    /// Its poll; the waker of `bell` belongs to it.
    pub poll: Poll,
    /// Its bell.
    pub bell: Arc<Bell>,
    /// Sends to the other threads.
    pub outbox: Outbox<Envelope>,
    /// Receives from them.
    pub inbox: Inbox<Envelope>,
    /// What all know.
    pub facts: Arc<HostFacts>,
    /// The placement with which the cluster begins.
    pub placement: Arc<Placement>,
    /// The first catalog.
    pub catalog: Arc<HostCatalog>,
    /// Its replicas that count, in the order of the placement, as they were brought back, each with
    /// its end of the command log if there is one.
    pub(crate) replicas: Vec<(HostSite, Option<SiteLog>)>,
    /// The last transaction id of the coordinator before.
    pub last_multi: TransactionId,
    /// The host gets the catalog from the others.
    pub joins: bool,
    /// The listening sockets, on the first thread: clients, administrators.
    pub listeners: Option<(mio::net::TcpListener, mio::net::TcpListener)>,
    /// Calls that the thread makes itself.
    pub inner_load: Option<Box<dyn SiteLoad>>,
    /// The links to the other hosts of the cluster, if there are any.
    pub(crate) links: Option<Arc<SharedLinks>>,
}

/// A site's thread.
pub struct Shard {
    thread: ThreadId,
    poll: Poll,
    bell: Arc<Bell>,
    outbox: Outbox<Envelope>,
    inbox: Inbox<Envelope>,
    links: Option<Arc<SharedLinks>>,
    /// Hosts that have sent something.
    heard_hosts: Vec<HostId>,
    facts: Arc<HostFacts>,
    placement: Arc<Placement>,
    catalog: Arc<HostCatalog>,
    replicas: Replicas,
    gates: LogGates,
    snapshots: SnapshotLanes,
    loads: loading::LoadSteps,
    /// The coordinator, if it is here.
    coordinator: Option<CoordinatorRole>,
    several: SeveralCalls,
    /// Calls of procedures that are no transactions.
    outside: OutsideCalls,
    listener: Option<Listener>,
    inner_load: Option<InnerLoad>,
    connections: Connections,
    /// Calls of connections that are at other hosts.
    handed: handed::HandedCalls,
    /// Leaders that are to be moved.
    moves: MovesAtCoordinator,
    /// Calls for partitions that are about to be led here, or of senders with a later placement,
    /// and reports for the coordinator, if it is about to be here.
    waiting_calls: Vec<Envelope>,
    /// Calls that are in progress at partitions which cannot be served.
    unavailable_calls: UnavailableCalls,
    /// Since when the host is not connected with a majority of its cluster.
    cut_off_since_us: Option<i64>,
    /// The control thread waits until this thread goes by this version of the catalog.
    awaited_catalog: Option<u64>,
    read_buffer: Vec<u8>,
    /// An empty list, kept for its memory.
    spare_effects: Vec<coordinator::Effect>,
    statistics: ThreadStatistics,
    now_us: i64,
    polled_us: i64,
    deadlines_checked_us: i64,
    own_messages: OwnMessages,
    /// Calls of tasks that are not answered yet: no connection counts them.
    task_calls: usize,
    polling: UrgentPolling,
    notes: notes::Notes,
    message_bytes: bytes::MessageBytes,
    phase: Phase,
}

impl Shard {
    /// Assembles a thread's state.
    pub fn new(parts: ShardParts) -> io::Result<Shard> {
        let facts = parts.facts;
        let placement = parts.placement;
        let replicas =
            Replicas::new((&facts, &placement), parts.thread, parts.replicas, &parts.catalog);
        let has_coordinator = placement.coordinator() == parts.thread;
        let coordinator = has_coordinator.then(|| {
            let position = (parts.last_multi, parts.catalog.version());
            let bell = Arc::clone(&parts.bell);
            CoordinatorRole::new(&facts, (&replicas, placement.is_replicated()), position, bell)
        });
        let listener = match parts.listeners {
            None => None,
            Some((client, admin)) => Some(Listener::register(&parts.poll, client, admin)?),
        };
        let outside = OutsideCalls::new(Arc::clone(&parts.bell));
        // Copies may be loaded here later.
        let replica_limit = replicas.count().max(facts.options.partitions_per_site.to_usize());
        let several = SeveralCalls::new(&facts);
        let loads = loading::LoadSteps::new(parts.joins);
        Ok(Shard {
            thread: parts.thread,
            poll: parts.poll,
            bell: parts.bell,
            outbox: parts.outbox,
            inbox: parts.inbox,
            links: parts.links,
            heard_hosts: Vec::new(),
            read_buffer: vec![0; facts.options.read_buffer_bytes.to_usize()],
            notes: notes::Notes::new(facts.options.slow_call_ms),
            message_bytes: bytes::MessageBytes::default(),
            facts,
            placement,
            catalog: parts.catalog,
            snapshots: SnapshotLanes::new(replica_limit),
            loads,
            gates: LogGates::new(&replicas),
            replicas,
            coordinator,
            several,
            outside,
            listener,
            inner_load: parts.inner_load.map(InnerLoad::new),
            connections: Connections::default(),
            handed: handed::HandedCalls::default(),
            moves: MovesAtCoordinator::default(),
            waiting_calls: Vec::new(),
            unavailable_calls: UnavailableCalls::default(),
            cut_off_since_us: None,
            awaited_catalog: None,
            spare_effects: Vec::new(),
            statistics: ThreadStatistics::default(),
            now_us: clock::now_us(),
            polled_us: 0,
            deadlines_checked_us: 0,
            own_messages: OwnMessages::default(),
            task_calls: 0,
            polling: UrgentPolling::default(),
            phase: Phase::Serving,
        })
    }

    /// The token under which a thread's poll hears its waker.
    pub fn waker_token() -> Token {
        WAKER
    }

    /// The token under which a site's poll hears another host.
    pub(crate) fn token_of_host(host: HostId) -> Token {
        let token = Token(LINKS + host.0 as usize);
        assert!(token.0 < LINKS_END, "a cluster has fewer hosts than there are tokens");
        token
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// The poll itself failed: the host cannot go on.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while self.phase != Phase::Stopping {
            self.wait(&mut events)?;
            self.now_us = clock::now_us();
            self.facts.site_runs.begin_round(self.thread, self.now_us);
            self.own_messages.begin_round(self.now_us);
            for event in &events {
                self.note_event(event);
            }
            self.hear_hosts();
            self.release_safe();
            self.read_ready();
            self.take_messages();
            self.hear_threads();
            self.hear_outside();
            self.run_load();
            self.run_copies();
            if Elapsed::between_us(self.deadlines_checked_us, self.now_us).us() >= DEADLINE_CHECK_US
            {
                self.expire_rounds();
            }
            self.take_own_messages();
            self.send_late_when_idle();
            self.outbox.show_urgent();
            self.hand_over_log();
            self.test_leases();
            self.write_ready();
            self.flush_messages();
            self.tell_quiet();
            counting::apart(|| self.replicas.iter_mut().for_each(|own| own.site.maintain()));
            self.snapshots.step(&mut self.replicas);
            self.step_loads();
            self.statistics.end_round(Elapsed::between_us(self.now_us, clock::now_us()));
            if Elapsed::between_us(self.deadlines_checked_us, self.now_us).us() >= DEADLINE_CHECK_US
            {
                self.deadlines_checked_us = self.now_us;
                self.check_deadlines();
                self.end_cut_off_calls();
                self.follow_unavailable();
                self.look_at_learners();
                self.expire_outside();
                self.tell_reusable_memory();
                // Connections that could not be accepted, for want of files, bring no new event.
                self.accept_all();
            }
        }
        self.stop();
        if cfg!(debug_assertions) {
            for replica in self.replicas.iter() {
                replica.site.check_invariants();
                replica.site.database().check_invariants();
            }
        }
        Ok(())
    }

    fn note_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKER => {}
            CLIENT_LISTENER | ADMIN_LISTENER => self.accept_all(),
            Token(LINKS..LINKS_END) => {
                self.heard_hosts.push(HostId((event.token().0 - LINKS) as u32));
            }
            Token(place) => self.note_socket(place, event),
        }
    }

    /// Brings what other hosts have sent into the mailboxes.
    fn hear_hosts(&mut self) {
        if let Some(links) = self.links.as_ref().filter(|_| !self.heard_hosts.is_empty()) {
            links.hear(self.heard_hosts.drain(..));
        }
    }

    /// What this round sent is on its way: to other hosts at once, unless another thread is at the
    /// links, which then sends it.
    fn flush_messages(&mut self) {
        match &self.links {
            None => self.outbox.flush(),
            Some(links) => {
                if self.outbox.flush_here() {
                    links.send();
                }
            }
        }
    }

    fn take_messages(&mut self) {
        // They wait where they are until the log has caught up.
        if self.gates.is_log_behind {
            return;
        }
        self.take_urgent();
        for lane in 0..self.inbox.lane_count() {
            let mut left = MESSAGES_PER_ROUND;
            while left > 0 {
                let Some(message) = self.inbox.take(lane) else { break };
                left = left.saturating_sub(message.weight());
                self.inbox.next_usual(lane).inspect(|next| next.prefetch());
                self.take_message(message);
                if self.finds_urgent() {
                    self.take_urgent();
                }
            }
        }
        self.take_own_messages();
    }

    /// Between two calls: whether something should be done before the next one.
    #[inline]
    fn finds_urgent(&mut self) -> bool {
        self.polling.is_due() && {
            self.outbox.show_urgent();
            let finds = self.inbox.is_hurried() || self.own_messages.has_next();
            if !finds {
                self.polling.found(0);
            }
            finds
        }
    }

    /// Takes what transactions over several partitions wait for: until they are decided, every
    /// call here is kept to be undone.
    fn take_urgent(&mut self) {
        let mut found = self.own_messages.len();
        self.take_own_messages();
        for _ in 0..MESSAGES_PER_ROUND {
            let Some(message) = self.inbox.take_urgent() else { break };
            self.inbox.next_urgent().inspect(|next| next.prefetch());
            found += 1;
            self.take_message(message);
            self.take_own_messages();
            if found.is_multiple_of(URGENT_PER_SHOW) {
                self.outbox.show_urgent();
            }
        }
        self.outbox.show_urgent();
        self.polling.found(found);
    }

    fn take_own_messages(&mut self) {
        while let Some(message) = self.own_messages.take(self.now_us) {
            self.take_message(message);
        }
    }

    #[inline]
    fn take_message(&mut self, message: Envelope) {
        match self.facts.sends_bytes {
            false => self.take_here(message),
            true => {
                let message = self.through_bytes(message);
                message.into_iter().for_each(|message| self.take_here(message));
            }
        }
    }

    fn take_here(&mut self, message: Envelope) {
        match message {
            Envelope::Call(partition, call) => match self.replicas.slot_of(partition) {
                Some(slot) => take_call(&mut self.at_slot(slot), HeldCall::Invocation(call)),
                None => self.wait_for_lead(partition, Envelope::Call(partition, call)),
            },
            call @ (Envelope::Via(_) | Envelope::AdHoc(..)) if self.is_behind() => {
                self.wait_behind(call);
            }
            Envelope::Via(call) => match self.replicas.slot_of(call.partition()) {
                Some(slot) => take_call(&mut self.at_slot(slot), HeldCall::Via(call)),
                None => self.wait_for_lead(call.partition(), Envelope::Via(call)),
            },
            Envelope::Answer(answer) => self.forwarded_answer(answer),
            Envelope::AdHoc(partition, call) => match self.replicas.slot_of(partition) {
                Some(slot) => take_call(&mut self.at_slot(slot), HeldCall::AdHoc(call)),
                None => self.wait_for_lead(partition, Envelope::AdHoc(partition, call)),
            },
            call @ (Envelope::Multi(_) | Envelope::OneRound(..)) if self.coordinator.is_none() => {
                self.bounce(call);
            }
            call @ (Envelope::Multi(_) | Envelope::OneRound(..))
                if self.facts.unavailable.is_any() =>
            {
                self.refuse_unavailable(call);
            }
            Envelope::Multi(call) => self.for_coordinator(CoordinatorCall::Multi(call)),
            Envelope::OneRound(origin, call) => {
                let waiting = MultiOrigin { origin, body: None };
                self.for_coordinator(CoordinatorCall::OneRound(waiting, call));
            }
            Envelope::OneRoundFinished(end) => self.one_round_finished(end),
            Envelope::OneRoundTables(end) => self.one_round_tables(*end),
            Envelope::ToPartition(message) => match self.replicas.slot_of(message.partition) {
                Some(slot) => self.coordinator_asked_at(slot, message),
                None => self.coordinator_told_copy(message),
            },
            Envelope::FromPartition(FromPartition::Fenced(report))
                if report.epoch > self.placement.epoch() || self.coordinator.is_none() =>
            {
                self.wait_for_placement(FromPartition::Fenced(report));
            }
            Envelope::FromPartition(answer) => match self.coordinator.is_some() {
                true => self.partition_answered(answer),
                false => tracing::debug!("a partition answers a coordinator that is gone"),
            },
            rare => self.take_rare(rare),
        }
    }

    /// Takes what is not of a transaction: apart, because what it needs of the stack is much.
    #[inline(never)]
    fn take_rare(&mut self, message: Envelope) {
        match message {
            Envelope::Connection { stream, id, admin } => self.adopt(stream, id, admin),
            Envelope::Gather { request, validate } => self.send_statistics(request, validate),
            Envelope::Survey { sample, rows } => self.survey(&sample, rows),
            Envelope::ExpiryPolls { catalog_version, looks } => {
                self.poll_expired(catalog_version, &looks);
            }
            Envelope::Push(frames) => self.push_to_subscribers(&frames),
            Envelope::SnapshotLane(partition, lane) => self.take_lane(partition, lane),
            Envelope::CopiesKept => self.copies_are_kept(),
            Envelope::ReadAtCopy(partition, call) => self.read_at_copy(partition, call),
            Envelope::Catalog(catalog) => self.take_catalog(catalog),
            Envelope::Task(body) => self.task_call(&body),
            Envelope::Copy(message) => self.copy_said(*message),
            Envelope::Follow(piece) => self.follow(*piece),
            Envelope::Open(opening) => self.open(*opening),
            Envelope::Load(part) => self.take_load(part.0, part.1),
            Envelope::LoadAgain(partition, attempt) => self.load_again(partition, attempt),
            Envelope::Placement(placement) => self.follow_placement(placement),
            Envelope::Moves(moves) => self.take_moves(&moves),
            Envelope::HandOver(planned) => self.begin_hand_over(planned),
            Envelope::MoveCoordinator(to) => self.move_coordinator(to),
            Envelope::Bounced(bounced) => self.take_bounced(bounced),
            Envelope::Drain => self.phase.drain(),
            Envelope::Stop => self.phase = Phase::Stopping,
            Envelope::Incoming(message) => self.take_incoming(message),
            Envelope::Control(_)
            | Envelope::Outgoing(_)
            | Envelope::EndSession(_)
            | Envelope::HandedOver(_)
            | Envelope::SteppedDown(_)
            | Envelope::LogGivenBack(_)
            | Envelope::Propose(_) => unreachable!("only control and links get these"),
            _ => unreachable!("what is of a transaction is taken before"),
        }
    }

    /// Where the coordinator is.
    fn coordinator_thread(&self) -> ThreadId {
        self.placement.coordinator()
    }

    fn control_thread(&self) -> ThreadId {
        self.placement.control_thread()
    }

    /// The thread that serves a partition.
    #[inline]
    fn thread_of(&self, partition: PartitionId) -> ThreadId {
        self.placement.leader_of(partition)
    }

    /// Says how much memory the next rows need not ask for.
    fn tell_reusable_memory(&self) {
        let bytes = |own: &Replica| own.site.database().reusable_bytes() as u64;
        let bytes = self.replicas.iter().map(bytes).sum();
        self.facts.reusable_bytes[self.thread.index()].store(bytes, Ordering::Relaxed);
    }

    fn leave_digests(&self) {
        let Some(digests) = self.facts.digests.get() else { return };
        for replica in self.replicas.iter() {
            let (site, position) = match &replica.following {
                None => (&replica.site, replica.site.log_sequence()),
                Some(copy) => (copy.follower.site(), copy.follower.applied()),
            };
            let database = site.database();
            let digest = ReplicaDigest {
                content: database.content_hash(),
                position,
                changes: database.change_digest(),
            };
            let mut left =
                digests[site.partition().index()].lock().expect("no site panicked with it");
            *left = digest;
        }
    }

    /// Sends what this round had to say to other threads, writes what is written already to the
    /// sockets, once, and closes them.
    fn stop(&mut self) {
        self.leave_digests();
        self.hand_over_all();
        self.flush_messages();
        self.refuse_the_last();
        self.write_ready();
        self.connections.clear();
    }
}
