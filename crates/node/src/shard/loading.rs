//! Copies that are loaded while their partitions go on, see [`lockstep_host::loading`]: what a
//! leader of this thread gives to them, and a copy of this thread that begins without data.

use super::following::Following;
use super::learned::LearnedStage;
use super::replica::Replica;
use super::{HeldCall, HostSite, KeptAnswer, Shard, Slot};
use crate::catalog::{HostCatalog, site_limits};
use crate::clock;
use crate::connection::Connection;
use crate::message::{Envelope, LogGivenBack};
use lockstep_cluster::{Command, Incarnation};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::learning::{Learned, LearningCopy, LoadTurn, LoadingLeader, empty_site};
use lockstep_host::loading::{Attempt, LoadProgress, NumberedPart};
use lockstep_host::placement::Placement;
use lockstep_types::{HostId, PartitionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A leader that cannot begin, or whose copy has all parts on their way, is looked at this often.
const LOOK_AGAIN_NS: u64 = 100_000;

/// A copy of this thread that is being loaded.
pub(super) type LoadingHere = LearningCopy<HeldCall, KeptAnswer, Arc<HostCatalog>>;

/// What this thread gives to copies that are loaded.
pub(super) struct LoadSteps {
    /// A leader here has something to do with them.
    is_any: bool,
    /// Before this the site does its other work, nanoseconds of the host's clock.
    next_ns: u64,
    /// This host has the catalog of the cluster: copies of this thread may be loaded.
    may_ask: bool,
    /// How often each copy was to be loaded here.
    placed: BTreeMap<PartitionId, u32>,
}

impl LoadSteps {
    /// Of a host that begins: one that joins gets the catalog later.
    pub(super) fn new(joins: bool) -> LoadSteps {
        LoadSteps { is_any: false, next_ns: 0, may_ask: !joins, placed: BTreeMap::new() }
    }

    /// A copy is to be loaded, which may have been loaded before and gone out of sync again.
    fn note_placed(&mut self, partition: PartitionId) {
        let times = self.placed.entry(partition).or_default();
        *times += 1;
        match *times {
            1 => tracing::info!(%partition, "a copy is to be loaded here"),
            times => tracing::error!(
                %partition, times,
                "a copy is loaded again that was loaded since the host began: it goes out of sync \
                 again and again where a procedure does not do the same at each copy, or where \
                 the host is too slow (option reload_copies_after_ms; 0 for never)"
            ),
        }
    }
}

impl Replica {
    /// What is led here, as far as copies are concerned that are loaded from it.
    fn loading(&mut self) -> LoadingLeader<'_, HeldCall, KeptAnswer, Arc<HostCatalog>> {
        let Replica { loads, site, leading, gate, log, .. } = self;
        let (leading, copies) = (leading.as_deref_mut(), gate.copies());
        LoadingLeader { loads, site, leading, copies, is_logged: log.is_some() }
    }
}

impl Shard {
    /// The catalog of the cluster is in force: copies of this thread that begin without data ask
    /// for them.
    pub(super) fn begin_learning(&mut self) {
        self.loads.may_ask = true;
        for slot in self.replicas.slots() {
            let loading = self.replicas[slot].learning.as_ref();
            if loading.is_some_and(|loading| !loading.has_asked()) {
                self.begin_attempt(slot);
            }
        }
    }

    /// Another placement is in force: if the copy in a slot has led, and does not count any more,
    /// its end of the command log is for the one that is loaded in its place, at whichever site.
    pub(super) fn give_log_back(&mut self, slot: Slot) {
        let partition = self.replicas[slot].partition();
        let (led, followed) =
            (self.placement.led_by(self.thread), self.placement.followed_by(self.thread));
        if led.iter().chain(followed).any(|it| it.partition == partition) {
            return;
        }
        // What the copy has answered is void: this host has no lease for it any more.
        if let Some(log) = self.replicas[slot].log.take() {
            let links = self.placement.links_thread();
            let given = Box::new(LogGivenBack { partition, log });
            self.outbox.send(links, Envelope::LogGivenBack(given));
        }
    }

    /// Another placement is in force: copies that are to be loaded at this thread from now on get a
    /// place, that of a copy which is not in sync any more. They have no data.
    pub(super) fn place_learners(&mut self, before: &Placement) {
        let placement = Arc::clone(&self.placement);
        let known = before.learned_by(self.thread);
        for placed in placement.learned_by(self.thread).iter().filter(|it| !known.contains(it)) {
            let partition = placed.partition;
            let kinds = [
                placement.led_by(self.thread),
                placement.followed_by(self.thread),
                placement.learned_by(self.thread),
            ];
            let is_placed =
                |of: PartitionId| kinds.iter().any(|it| it.iter().any(|it| it.partition == of));
            let slot = self.replicas.slot_for_copy(partition, |of| !is_placed(of));
            self.loads.note_placed(partition);
            if let Some(slot) = slot {
                self.end_copy(slot);
            }
            let replica = Replica::learning(&self.facts, *placed, &self.catalog);
            self.facts.learned.set(partition, LearnedStage::Loading);
            self.replicas.place(slot, replica);
        }
    }

    /// Another placement is in force: copies that were followed or loaded here, and are not to be
    /// any more, give their memory back. Those of a host that was put out stay: it may take part
    /// again with them.
    pub(super) fn drop_copies(&mut self, before: &Placement) {
        let placement = Arc::clone(&self.placement);
        let host = placement.host();
        if !placement.is_up(host) {
            return;
        }
        let known = before.followed_by(self.thread).iter().chain(before.learned_by(self.thread));
        let known = known.map(|replica| replica.partition);
        // What was led is followed since it was drained.
        let led = before.led_by(self.thread).iter().map(|replica| replica.partition);
        for partition in known.chain(led) {
            let copies = placement.followers_of(partition).iter();
            let mut copies = copies.chain(placement.learning_of(partition)).copied();
            let is_led = placement.leader_of(partition) == self.thread;
            if is_led || copies.any(|thread| thread == self.thread) {
                continue;
            }
            if !self.replicas.has_copy(partition) {
                continue;
            }
            let slot = self.replicas.slot_of_copy(partition);
            let replica = &self.replicas[slot];
            if replica.following.is_none() || replica.opening.is_some() {
                continue;
            }
            // What it answered when it led is safe, and about to be written: it was drained.
            self.snapshots.give_up(slot);
            self.connections.iter_mut().for_each(|connection| connection.forget(slot));
            let given_up = Replica::given_up(&self.facts, partition, host, &self.catalog);
            self.replicas.place(Some(slot), given_up);
        }
    }

    /// From time to time: copies begin again that have waited for a change of the catalog, and
    /// those that get nothing repeat their asks.
    pub(super) fn look_at_learners(&mut self) {
        for slot in self.replicas.slots() {
            let replica = &mut self.replicas[slot];
            let partition = replica.partition();
            let Some(learning) = &mut replica.learning else { continue };
            if learning.is_to_look_again() {
                self.load_again(partition, None);
            } else if let Some(ask) = learning.repeated_ask(self.now_us) {
                tracing::info!(%partition, "a copy asks its leader again");
                self.say_to_leader(partition, ask);
            }
        }
    }

    /// A copy of this thread is not in sync any more, and gives its place to another one.
    fn end_copy(&mut self, slot: Slot) {
        self.snapshots.give_up(slot);
        // What it answered is void, if it led.
        let waits = |connection: &&Connection| connection.waits_for(slot);
        let keys = self.connections.iter().filter(waits).map(|connection| connection.key);
        keys.collect::<Vec<_>>().into_iter().for_each(|key| self.close(key));
        self.connections.iter_mut().for_each(|connection| connection.forget(slot));
    }

    /// What a copy of this thread is loaded from has ended, or has not begun, unless its last
    /// attempt is another one.
    pub(super) fn load_again(&mut self, partition: PartitionId, attempt: Option<Attempt>) {
        if !self.replicas.has_copy(partition) {
            return tracing::debug!(%partition, "no copy of it is here any more");
        }
        let slot = self.replicas.slot_of_copy(partition);
        let learning = self.replicas[slot].learning.get_or_insert_default();
        if !learning.ends(attempt) {
            return;
        }
        self.facts.learned.set(partition, LearnedStage::Loading);
        // A snapshot that was to have what was loaded is given up.
        self.snapshots.give_up(slot);
        if self.loads.may_ask {
            // It may have had its data, and was not in sync.
            let following = Box::new(self.without_data(partition));
            self.replicas[slot].following = Some(following);
            self.begin_attempt(slot);
        }
    }

    fn begin_attempt(&mut self, slot: Slot) {
        let partition = self.replicas[slot].data().partition();
        let site = match self.empty_site(partition) {
            Ok(site) => site,
            Err(problem) => return self.cannot_load(partition, &problem),
        };
        let (incarnation, epoch) = (self.facts.run(), self.placement.epoch_of(partition));
        let Some(learning) = &mut self.replicas[slot].learning else { return };
        let catalog = (Arc::clone(&self.catalog), self.catalog.version());
        let ask = learning.begin((site, catalog), incarnation, epoch);
        self.facts.learned.set_progress(partition, LoadProgress::default());
        tracing::info!(%partition, epoch, "a copy asks its leader for the data");
        self.say_to_leader(partition, ask);
    }

    /// A copy that has nothing to follow with.
    fn without_data(&self, partition: PartitionId) -> Following {
        let limits = site_limits(&self.facts.options);
        let site = HostSite::new(partition, self.facts.ring.clone(), &limits);
        let backlog_bytes = self.facts.options.max_copy_backlog_bytes.to_usize();
        Following::new(site, Arc::clone(&self.catalog), backlog_bytes)
    }

    fn say_to_leader(&mut self, partition: PartitionId, said: CopyMessage) {
        let copy = self.placement.host();
        let leader = self.placement.leader_of(partition);
        let message = Envelope::Copy(Box::new(OfCopy { partition, copy, said }));
        self.outbox.send(leader, message);
    }

    /// An empty site of a partition with the catalog of this thread in force.
    fn empty_site(&self, partition: PartitionId) -> Result<HostSite, String> {
        let limits = site_limits(&self.facts.options);
        let mut site = HostSite::new(partition, self.facts.ring.clone(), &limits);
        site.remember_outcomes(limits.outcomes_kept());
        let catalog = (Arc::clone(&self.catalog), self.catalog.version());
        empty_site(site, &self.catalog.plan, catalog, self.now_us)
    }

    /// A part of what a copy of this thread is loaded from.
    pub(super) fn take_load(&mut self, partition: PartitionId, part: NumberedPart) {
        if !self.replicas.has_copy(partition) {
            return;
        }
        let slot = self.replicas.slot_of_copy(partition);
        let limits = super::following::limits(&self.facts);
        let Some(learning) = &mut self.replicas[slot].learning else { return };
        match learning.take(part, limits) {
            Learned::Nothing => {}
            Learned::More(taken, progress) => {
                self.facts.learned.set_progress(partition, progress);
                self.say_to_leader(partition, taken);
            }
            Learned::Loaded(follower, catalog, taken, progress) => {
                let LoadProgress { rows, bytes, .. } = progress;
                // What is free in its tables was counted, too.
                let progress = LoadProgress { slots: rows, ..progress };
                self.facts.learned.set_progress(partition, progress);
                tracing::info!(%partition, rows, bytes, "a copy has the data of its leader");
                let following = Following::loaded(*follower, catalog);
                self.replicas[slot].following = Some(Box::new(following));
                self.facts.learned.set(partition, LearnedStage::Follows);
                self.say_to_leader(partition, taken);
            }
            Learned::Again(problem) => {
                tracing::error!(%partition, problem, "a copy cannot be loaded: it begins again");
                self.load_again(partition, None);
            }
            Learned::NotYet(problem) => {
                tracing::info!(%partition, problem, "a copy waits for a change of the catalog");
            }
        }
    }

    /// A copy here can never be loaded: the host gives up what it was given.
    #[cold]
    fn cannot_load(&mut self, partition: PartitionId, problem: &str) {
        tracing::error!(%partition, problem, "a copy cannot be loaded: start the host again");
        let (host, incarnation) = (self.facts.host, Incarnation(self.facts.run()));
        self.propose(Command::HostLost { host, incarnation });
    }

    fn propose(&mut self, command: Command) {
        let links = self.placement.links_thread();
        self.outbox.send(links, Envelope::Propose(Box::new(command)));
    }

    /// A copy without data asks the leader here.
    pub(super) fn ask_load(&mut self, slot: Slot, host: HostId, ask: Attempt) {
        self.loads.is_any = true;
        if self.replicas[slot].loading().ask(host, ask) {
            self.release_safe_of(slot);
        }
    }

    /// A copy has taken parts of what it is loaded from.
    pub(super) fn note_load_taken(&mut self, slot: Slot, host: HostId, taken: (Attempt, u32)) {
        let partition = self.replicas[slot].partition();
        if self.replicas[slot].loading().note_taken(host, taken) {
            tracing::info!(%partition, %host, "a copy at another host has its data");
            let Shard { replicas, placement, outbox, .. } = self;
            replicas[slot].send_to_copies(placement, outbox);
        }
    }

    /// A snapshot of this host counts, and nothing is left of what it had before: the leaders of
    /// the copies that are in it hear of that.
    pub(super) fn copies_are_kept(&mut self) {
        for slot in self.replicas.slots() {
            let replica = &self.replicas[slot];
            let partition = replica.partition();
            let is_learned = replica.following.is_some();
            let kept = replica.learning.as_ref().filter(|_| is_learned).and_then(|it| it.kept());
            let Some(kept) = kept else { continue };
            tracing::info!(%partition, "a copy is durable at this host");
            self.facts.learned.set(partition, LearnedStage::Kept);
            self.say_to_leader(partition, kept);
        }
    }

    /// A copy is durable at its host with what it has loaded in an attempt.
    pub(super) fn note_kept(&mut self, slot: Slot, host: HostId, attempt: Attempt) {
        self.replicas[slot].loading().note_kept(host, attempt);
        self.attend_to_loaded(slot);
    }

    /// A copy that is not in sync has sent a receipt, or time has passed: it may count, or be in
    /// sync.
    pub(super) fn attend_to_loaded(&mut self, slot: Slot) {
        let limit = self.facts.options.max_copy_load_bytes.to_usize();
        let (placement, now_us) = (Arc::clone(&self.placement), self.now_us);
        for turn in self.replicas[slot].loading().attend(&placement, limit, now_us) {
            match turn {
                LoadTurn::Propose(command) => self.propose(command),
                LoadTurn::TooSlow(host) => {
                    let partition = self.replicas[slot].partition();
                    tracing::warn!(
                        %partition, %host, limit,
                        "a copy is loaded more slowly than its partition changes: it begins again \
                         (option max_copy_load_bytes)"
                    );
                    self.give_up_load(slot, host);
                }
            }
        }
    }

    /// A copy that is loaded from a leader here begins again.
    fn give_up_load(&mut self, slot: Slot, host: HostId) {
        let partition = self.replicas[slot].partition();
        let (said, counted) = self.replicas[slot].loading().begin_again(host);
        if let Some(said) = said {
            let message = Envelope::Copy(Box::new(OfCopy { partition, copy: host, said }));
            self.outbox.send(self.placement.links_thread_of(host), message);
        }
        if counted {
            self.release_safe_of(slot);
        }
    }

    /// A copy that is being loaded cannot go on from where it is: it begins again.
    pub(super) fn fail_learner(&mut self, slot: Slot, host: HostId) {
        match self.replicas[slot].loading().failed(host) {
            Some(command) => self.propose(command),
            None => self.give_up_load(slot, host),
        }
    }

    /// Another placement is in force: copies are loaded that it names, by leaders that stay.
    pub(super) fn follow_learners(&mut self, before: &Placement) {
        let placement = Arc::clone(&self.placement);
        for slot in self.replicas.slots() {
            if self.replicas[slot].loading().follow_placement(before, &placement) {
                self.release_safe_of(slot);
            }
        }
    }

    /// Gives copies that are loaded a little more, between rounds of the loop.
    #[inline]
    pub(super) fn step_loads(&mut self) {
        if self.loads.is_any {
            self.step_all_loads();
        }
    }

    #[cold]
    fn step_all_loads(&mut self) {
        let began_ns = clock::monotonic_ns();
        if began_ns < self.loads.next_ns {
            return;
        }
        self.loads.is_any = false;
        for slot in self.replicas.slots() {
            if !self.replicas[slot].loads.is_any() {
                continue;
            }
            self.loads.is_any = true;
            self.attend_to_loaded(slot);
            self.step_load(slot);
        }
        let worked_ns = clock::ns_since(began_ns);
        let share = self.facts.options.snapshot_share_percent.get().max(1);
        // A site without other work looks only at what has come.
        let pause_ns = match self.has_message() || self.connections.has_to_read() {
            true => worked_ns.saturating_mul(100) / share,
            false => 0,
        };
        self.loads.next_ns = clock::monotonic_ns() + pause_ns;
        self.outbox.flush();
    }

    fn step_load(&mut self, slot: Slot) {
        let partition = self.replicas[slot].partition();
        let replica = &mut self.replicas[slot];
        if let Some(host) = replica.loading().overtaken() {
            return self.give_up_load(slot, host);
        }
        let leads = replica.opening.is_none() && replica.draining.is_none();
        if !leads {
            return;
        }
        if replica.loading().is_about_to_begin() {
            // The stream has all that the data have.
            let round = (self.now_us, true);
            let Shard { replicas, placement, outbox, .. } = self;
            replicas[slot].hand_over_to_copies(round, placement, outbox);
        }
        let placement = Arc::clone(&self.placement);
        let part = self.replicas[slot].loading().step(&placement);
        let Some((host, said)) = part else { return };
        let message = Envelope::Copy(Box::new(OfCopy { partition, copy: host, said }));
        self.outbox.send(placement.links_thread_of(host), message);
    }

    /// How long until a copy that is loaded can get more, in nanoseconds; `None` if nobody waits.
    pub(super) fn loads_wait_ns(&self) -> Option<u64> {
        if !self.loads.is_any {
            return None;
        }
        let can_step = |replica: &super::Replica| replica.loads.can_step();
        let can_step = self.replicas.iter().any(can_step);
        let due_ns = self.loads.next_ns.saturating_sub(clock::monotonic_ns());
        Some(if can_step { due_ns } else { LOOK_AGAIN_NS.max(due_ns) })
    }
}
