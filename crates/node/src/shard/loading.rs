//! Copies that are loaded while their partitions go on, see [`lockstep_host::loading`]: what a
//! leader of this thread gives to them, and a copy of this thread that begins without data.

use super::following::Following;
use super::{HeldCall, HostSite, KeptAnswer, Shard, Slot};
use crate::catalog::{HostCatalog, site_limits};
use crate::clock;
use crate::message::Envelope;
use lockstep_base::elapsed::Elapsed;
use lockstep_cluster::{Command, Copy, Epoch, Incarnation};
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::loading::{LoadAsk, LoadPart, Loading, LoadingCopy, NumberedPart};
use lockstep_plan::plan_ir::StorageChange;
use lockstep_site::SchemaTask;
use lockstep_txn::EntryHeader;
use lockstep_types::{HostId, PartitionId, ThreadId, TransactionId};
use std::sync::Arc;

/// A leader that cannot begin, or whose copy has all parts on their way, is looked at this often.
const LOOK_AGAIN_NS: u64 = 100_000;
/// Between two proposals to take a copy in sync.
const PROPOSE_EVERY_US: u64 = 500_000;

/// A copy of this thread that is being loaded.
pub(super) struct LoadingHere {
    copy: Option<LoadingCopy<HeldCall, KeptAnswer, Arc<HostCatalog>>>,
    /// Attempts, the present one included.
    attempts: u32,
}

/// What this thread gives to copies that are loaded.
#[derive(Default)]
pub(super) struct LoadSteps {
    /// A leader here has something to do with them.
    is_any: bool,
    /// Before this the site does its other work, nanoseconds of the host's clock.
    next_ns: u64,
    /// When a copy was proposed to be in sync.
    proposed_us: i64,
}

impl LoadingHere {
    /// A copy that has not asked for its data.
    pub(super) fn new() -> LoadingHere {
        LoadingHere { copy: None, attempts: 0 }
    }

    /// Whether its data are on their way.
    pub(super) fn is_loading(&self) -> bool {
        self.attempts == 0 || self.copy.is_some()
    }
}

impl Shard {
    /// The catalog of the cluster is in force: copies of this thread that begin without data ask
    /// for them.
    pub(super) fn begin_learning(&mut self) {
        for slot in self.replicas.slots() {
            let loading = self.replicas[slot].learning.as_ref();
            if loading.is_some_and(|loading| loading.attempts == 0) {
                self.begin_attempt(slot);
            }
        }
    }

    /// What a copy of this thread is loaded from has ended, unless its last attempt is another one.
    pub(super) fn load_again(&mut self, partition: PartitionId, attempt: Option<u32>) {
        let slot = self.replicas.slot_of_copy(partition);
        let replica = &mut self.replicas[slot];
        if let Some(loading) = &replica.learning
            && attempt.is_some_and(|attempt| attempt != loading.attempts)
        {
            return;
        }
        let attempts = replica.learning.take().map_or(0, |loading| loading.attempts);
        replica.learning = Some(Box::new(LoadingHere { copy: None, attempts }));
        if attempts > 0 {
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
        let Some(loading) = &mut self.replicas[slot].learning else { return };
        loading.attempts += 1;
        let attempt = loading.attempts;
        loading.copy = Some(LoadingCopy::new(site, attempt));
        let incarnation = self.facts.run();
        let ask = LoadAsk { incarnation, epoch: self.placement.epoch_of(partition), attempt };
        tracing::info!(%partition, attempt, "a copy asks its leader for the data");
        self.say_to_leader(partition, CopyMessage::AskLoad(ask));
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
        site.begin_replay();
        let catalog = Arc::clone(&self.catalog);
        let mut tables: Vec<_> = catalog.plan.tables.values().collect();
        tables.sort_by_key(|table| table.definition.id);
        let create = |table| StorageChange::Create(Arc::clone(table));
        let task = SchemaTask {
            changes: tables.into_iter().map(|table| create(&table.definition)).collect(),
            swap: None,
            snapshot: None,
            catalog_version: catalog.version(),
            catalog,
            source: Arc::from(&[][..]),
            advice: None,
        };
        let transaction = TransactionId::default();
        let header = EntryHeader { transaction, timestamp_us: self.now_us, repeated: true };
        let changed = site.replay_change(&header, &task, &[]);
        changed.map_err(|failure| failure.message).map(|()| site)
    }

    /// A part of what a copy of this thread is loaded from.
    pub(super) fn take_load(&mut self, partition: PartitionId, part: NumberedPart) {
        let slot = self.replicas.slot_of_copy(partition);
        let NumberedPart { attempt, number, part } = part;
        let Some(loading) = &mut self.replicas[slot].learning else { return };
        let Some(copy) = loading.copy.take_if(|copy| copy.attempt() == attempt) else { return };
        if let LoadPart::Head(head) = &part {
            let (theirs, own) = (head.known.catalog_version, self.catalog.version());
            if theirs != own {
                let problem = format!(
                    "its leader has version {theirs} of the catalog, and this host version {own}"
                );
                return self.cannot_load(partition, &problem);
            }
        }
        let (rows, bytes) = copy.progress();
        let limits = super::following::limits(&self.facts);
        match copy.take(number, part, limits) {
            Ok(Loading::More(copy)) => {
                if let Some(loading) = &mut self.replicas[slot].learning {
                    loading.copy = Some(*copy);
                }
            }
            Ok(Loading::Loaded(follower)) => {
                tracing::info!(%partition, rows, bytes, "a copy has the data of its leader");
                let catalog = Arc::clone(&self.catalog);
                let following = Following::loaded(*follower, catalog);
                self.replicas[slot].following = Some(Box::new(following));
            }
            Err(problem) => {
                tracing::error!(%partition, problem, "a copy cannot be loaded: it begins again");
                return self.load_again(partition, None);
            }
        }
        self.say_to_leader(partition, CopyMessage::Loaded(attempt, number));
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
    pub(super) fn ask_load(&mut self, slot: Slot, host: HostId, ask: LoadAsk) {
        self.end_learner(slot, host);
        let replica = &mut self.replicas[slot];
        replica.loads.ask(host, ask, &mut replica.site);
        self.loads.is_any = true;
    }

    /// A copy has taken parts of what it is loaded from.
    pub(super) fn note_load_taken(&mut self, slot: Slot, host: HostId, taken: (u32, u32)) {
        let partition = self.replicas[slot].partition();
        let replica = &mut self.replicas[slot];
        let Some(leading) = &mut replica.leading else { return };
        if replica.loads.note_taken(host, taken) {
            tracing::info!(%partition, %host, "a copy at another host has its data");
            leading.stream.note_loaded(host);
            let Shard { replicas, placement, outbox, .. } = self;
            replicas[slot].send_to_copies(placement, outbox);
        }
    }

    /// A copy that is not in sync has sent a receipt, or time has passed: it may count, or be in
    /// sync.
    pub(super) fn attend_to_loaded(&mut self, slot: Slot) {
        let limit = self.facts.options.max_copy_load_bytes.to_usize();
        let hosts: Vec<HostId> = self.replicas[slot].loads.hosts().collect();
        for host in hosts {
            let replica = &mut self.replicas[slot];
            let Some(leading) = &mut replica.leading else { return };
            if let Some(position) = leading.stream.count_learner(host) {
                let copies = replica.gate.copies();
                copies.add_copy(host, position.max(copies.safe()));
            }
            if let Some(incarnation) = leading.stream.is_in_sync_due(host) {
                self.propose_in_sync(slot, host, incarnation);
                continue;
            }
            if leading.stream.learner_bytes(host) > limit && !leading.stream.counts(host) {
                let partition = replica.partition();
                tracing::warn!(
                    %partition, %host, limit,
                    "a copy is loaded more slowly than its partition changes: it begins again \
                     (option max_copy_load_bytes)"
                );
                self.give_up_load(slot, host);
            }
        }
    }

    fn propose_in_sync(&mut self, slot: Slot, host: HostId, incarnation: u64) {
        let partition = self.replicas[slot].partition();
        let learned = self.placement.learning_of(partition).iter();
        let Some(thread) = learned.copied().find(|thread| thread.host() == host) else { return };
        let is_new = self.replicas[slot].loads.note_proposed(host);
        let waited = Elapsed::between_us(self.loads.proposed_us, self.now_us);
        if !is_new && waited.us() < PROPOSE_EVERY_US {
            return;
        }
        self.loads.proposed_us = self.now_us;
        let epoch = Epoch(self.placement.epoch_of(partition).into());
        let copy = Copy { host, thread: ThreadId(thread.index() as u16) };
        let incarnation = Incarnation(incarnation);
        self.propose(Command::InSync { partition, copy, incarnation, epoch });
    }

    /// A copy that is loaded from a leader here begins again.
    fn give_up_load(&mut self, slot: Slot, host: HostId) {
        let partition = self.replicas[slot].partition();
        let attempt = self.replicas[slot].loads.attempt_of(host);
        self.end_learner(slot, host);
        if let Some(attempt) = attempt {
            let said = CopyMessage::LoadAgain(attempt);
            let message = Envelope::Copy(Box::new(OfCopy { partition, copy: host, said }));
            self.outbox.send(self.placement.links_thread_of(host), message);
        }
    }

    /// A copy is not loaded any more.
    fn end_learner(&mut self, slot: Slot, host: HostId) {
        let replica = &mut self.replicas[slot];
        replica.loads.give_up(host, &mut replica.site);
        let counted = replica.leading.as_mut().is_some_and(|it| it.stream.drop_learner(host));
        if counted {
            replica.gate.copies().drop_copy(host);
            self.release_safe_of(slot);
        }
    }

    /// A copy that is being loaded cannot go on from where it is.
    pub(super) fn fail_learner(&mut self, slot: Slot, host: HostId) {
        let counts = self.replicas[slot].leading.as_ref().is_some_and(|it| it.stream.counts(host));
        match counts {
            // It may be taken in sync at any moment.
            true => {
                let incarnation = self.replicas[slot].leading.as_ref();
                let incarnation = incarnation.and_then(|it| it.stream.incarnation_of(host));
                let incarnation = Incarnation(incarnation.unwrap_or(0));
                self.propose(Command::HostLost { host, incarnation });
            }
            false => self.give_up_load(slot, host),
        }
    }

    /// Another placement is in force: copies are loaded that it names, by leaders that stay.
    pub(super) fn follow_learners(&mut self) {
        for slot in self.replicas.slots() {
            let partition = self.replicas[slot].partition();
            let epoch = self.placement.epoch_of(partition);
            let replica = &mut self.replicas[slot];
            if !replica.loads.is_any() {
                continue;
            }
            if replica.leading.as_ref().is_none_or(|it| it.stream.epoch() != epoch) {
                // The stream forgets them when it opens again.
                replica.loads.follow_epoch(epoch, &mut replica.site);
                continue;
            }
            let named = self.placement.learning_of(partition);
            let is_named = |host: &HostId| named.iter().any(|thread| thread.host() == *host);
            let gone: Vec<HostId> = replica.loads.hosts().filter(|it| !is_named(it)).collect();
            for host in gone {
                self.end_learner(slot, host);
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
        if let Some(host) = replica.loads.overtaken(&replica.site) {
            return self.give_up_load(slot, host);
        }
        let leads = replica.opening.is_none() && replica.draining.is_none();
        if !leads || replica.log.is_some() {
            return;
        }
        if replica.loads.can_begin() {
            // The stream has all that the data have.
            let round = (self.now_us, true);
            let Shard { replicas, placement, outbox, .. } = self;
            replicas[slot].hand_over_to_copies(round, placement, outbox);
        }
        let placement = Arc::clone(&self.placement);
        let named = placement.learning_of(partition);
        let replica = &mut self.replicas[slot];
        let Some(leading) = &mut replica.leading else { return };
        let may_load = |host: HostId| named.iter().any(|thread| thread.host() == host);
        let part = replica.loads.step(&mut replica.site, &mut leading.stream, may_load);
        let Some((host, part)) = part else { return };
        let said = CopyMessage::Load(part);
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
