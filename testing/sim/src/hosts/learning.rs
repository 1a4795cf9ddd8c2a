//! Hosts that come back, as their sites see it: the catalog, copies that are loaded, and leaders
//! that they are loaded from. What is decided is the code that serves.

use super::host::Host;
use super::replica::{FOLLOWER_LIMITS, Following, HostSite, Replica};
use super::{Answer, HostCall, Said, Shared};
use lockstep_host::follower::Follower;
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::gate::{Gate, SafePosition};
use lockstep_host::learning::{Learned, LearningCopy, LoadTurn, LoadingLeader, empty_site};
use lockstep_host::loading::{Attempt, CopyLoads, NumberedPart};
use lockstep_host::placement::Placement;
use lockstep_txn::replica::{Receipt, ReceiptOutcome};
use lockstep_types::{HostId, PartitionId};
use std::sync::Arc;

/// Entries that are kept for a copy that is loaded, bytes.
const LOAD_BYTES_MAX: usize = 1 << 14;
/// Between two questions for the catalog.
const ASK_EVERY_US: i64 = 200_000;

/// How far a host is that joins a cluster which runs.
pub(super) enum Joining {
    /// It does not take part yet: what was said to its sites.
    Waits(Vec<Said>),
    /// It has no catalog, and asked for it at this time.
    Asks(i64),
    Joined,
}

impl Replica {
    /// A copy without data.
    fn learning(partition: PartitionId, shared: &Shared) -> Replica {
        Replica {
            site: HostSite::new(partition, shared.ring.clone(), &shared.limits),
            gate: Gate::new(SafePosition::everything()),
            leading: None,
            following: Some(Following::without_data(partition, shared)),
            opening: None,
            draining: None,
            learning: Some(LearningCopy::default()),
            loads: CopyLoads::default(),
            leads: false,
            lagging_ticks: 0,
        }
    }

    fn loading(&mut self) -> LoadingLeader<'_, HostCall, Answer, u64> {
        let Replica { loads, site, leading, gate, .. } = self;
        let (leading, copies) = (leading.as_mut(), gate.copies());
        LoadingLeader { loads, site, leading, copies, is_logged: false }
    }
}

impl Following {
    fn without_data(partition: PartitionId, shared: &Shared) -> Following {
        let site = HostSite::new(partition, shared.ring.clone(), &shared.limits);
        let follower = Follower::new(partition, site, 0, FOLLOWER_LIMITS);
        Following { follower, version: 0, change: None }
    }
}

impl Host {
    /// A host that is started in place of one that is lost.
    pub(super) fn joining(placement: Placement, shared: &Shared, run: u64, now_us: i64) -> Host {
        let mut host = Host::new(placement, shared, now_us);
        host.replicas.clear();
        (host.coordinator, host.run, host.is_cut_off) = (None, run, true);
        host.joining = Joining::Waits(Vec::new());
        host
    }

    /// Whether it takes calls, as far as that is for the host alone.
    pub(super) fn has_joined(&self) -> bool {
        matches!(self.joining, Joining::Joined)
    }

    /// The host takes part from now on, with copies that it is to load.
    pub(super) fn begin(&mut self, placement: Arc<Placement>, shared: &mut Shared) {
        let partitions = placement.sites().flat_map(|site| placement.learned_by(site));
        for partition in partitions.map(|replica| replica.partition).collect::<Vec<_>>() {
            self.replicas.insert(partition, Replica::learning(partition, shared));
        }
        self.placement = placement;
        let waits = std::mem::replace(&mut self.joining, Joining::Asks(0));
        let Joining::Waits(early) = waits else { unreachable!("a host begins once") };
        self.own.extend(early);
        shared.report.joined += 1;
    }

    /// Copies begin again that have waited for a change of the catalog, of which this host may
    /// not have heard; those that get nothing repeat their asks.
    pub(super) fn look_at_learners(&mut self, shared: &mut Shared) {
        let now_us = self.now_us;
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            let replica = self.replicas.get_mut(&partition).expect("it was listed");
            let Some(learning) = &mut replica.learning else { continue };
            if learning.is_to_look_again() {
                self.send(self.placement.coordinator().host(), Said::AskCatalog(self.id));
                self.load_again(partition, None, shared);
            } else if let Some(ask) = learning.repeated_ask(now_us) {
                shared.report.asks_repeated += 1;
                self.say_to_leader(partition, ask);
            }
        }
    }

    /// Asks for the catalog, if it is time to.
    pub(super) fn attend_to_joining(&mut self) {
        let Joining::Asks(asked_us) = &mut self.joining else { return };
        if self.now_us - *asked_us >= ASK_EVERY_US {
            *asked_us = self.now_us;
            self.send(self.placement.coordinator().host(), Said::AskCatalog(self.id));
        }
    }

    /// A host that joins asks for the catalog. It asks again while it gets none.
    pub(super) fn give_catalog(&mut self, host: HostId) {
        let Some(coordinator) = &self.coordinator else { return };
        let is_quiet = self.changing.is_none() && !coordinator.is_taking_over();
        if is_quiet && self.has_joined() && self.placement.is_up(host) {
            let version = coordinator.catalog_version();
            self.send(host, Said::GiveCatalog(version));
        }
    }

    /// Whether copies are being loaded: the schema does not change meanwhile.
    pub(super) fn loads_any(&self) -> bool {
        let mut partitions = (0..self.placement.partition_count()).map(PartitionId);
        partitions.any(|partition| !self.placement.learning_of(partition).is_empty())
    }

    pub(super) fn take_catalog(&mut self, version: u64, shared: &mut Shared) {
        if self.has_joined() {
            // A host that leads nothing hears of changes by itself.
            if self.replicas.values().all(|replica| !replica.leads) {
                self.follow_catalog(version);
            }
            return;
        }
        (self.joining, self.version) = (Joining::Joined, version);
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            let learning = self.replicas[&partition].learning.as_ref();
            if learning.is_some_and(|learning| !learning.has_asked()) {
                self.begin_attempt(partition, shared);
            }
        }
    }

    fn say_to_leader(&mut self, partition: PartitionId, said: CopyMessage) {
        let (copy, to) = (self.id, self.placement.leader_of(partition).host());
        self.send(to, Said::Copy(OfCopy { partition, copy, said }));
    }

    /// Copies that are to be loaded here from now on have no data.
    pub(super) fn place_learners(&mut self, before: &Placement, shared: &mut Shared) {
        let learned = |placement: &Placement| -> Vec<PartitionId> {
            let replicas = placement.sites().flat_map(|site| placement.learned_by(site));
            replicas.map(|replica| replica.partition).collect()
        };
        let known = learned(before);
        for partition in learned(&self.placement).into_iter().filter(|it| !known.contains(it)) {
            self.replicas.insert(partition, Replica::learning(partition, shared));
            shared.report.reloads += 1;
        }
    }

    fn begin_attempt(&mut self, partition: PartitionId, shared: &mut Shared) {
        let mut site = HostSite::new(partition, shared.ring.clone(), &shared.limits);
        site.remember_outcomes(shared.limits.outcomes_kept());
        let catalog = &shared.catalogs[&self.version].host;
        let made = empty_site(site, &catalog.plan, (self.version, self.version), self.now_us);
        let site = made.unwrap_or_else(|problem| panic!("the schema can be made: {problem}"));
        let epoch = self.placement.epoch_of(partition);
        let replica = self.replicas.get_mut(&partition).expect("it is loaded");
        let learning = replica.learning.as_mut().expect("it is loaded");
        shared.report.load_attempts += 1;
        let ask = learning.begin((site, (self.version, self.version)), self.run, epoch);
        self.say_to_leader(partition, ask);
    }

    pub(super) fn load_again(
        &mut self,
        partition: PartitionId,
        attempt: Option<Attempt>,
        shared: &mut Shared,
    ) {
        let has_catalog = self.has_joined();
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        if replica.learning.get_or_insert_default().ends(attempt) && has_catalog {
            replica.following = Some(Following::without_data(partition, shared));
            shared.report.loads_again += 1;
            self.begin_attempt(partition, shared);
        }
    }

    pub(super) fn take_load(
        &mut self,
        partition: PartitionId,
        part: NumberedPart,
        shared: &mut Shared,
    ) {
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        let Some(learning) = &mut replica.learning else { return };
        match learning.take(part, FOLLOWER_LIMITS) {
            Learned::Nothing => {}
            Learned::More(taken, _) => self.say_to_leader(partition, taken),
            Learned::Loaded(follower, version, taken, _) => {
                replica.following = Some(Following { follower: *follower, version, change: None });
                shared.report.loaded += 1;
                self.say_to_leader(partition, taken);
            }
            Learned::NotYet(_) => {}
            Learned::Again(problem) => {
                shared.problem(format!("partition {partition} at host {}: {problem}", self.id));
            }
        }
    }

    pub(super) fn ask_load(
        &mut self,
        partition: PartitionId,
        (host, ask): (HostId, Attempt),
        shared: &mut Shared,
    ) {
        if shared.faults.lose_asks && shared.random.chance(1, 2) {
            shared.report.asks_lost += 1;
            return;
        }
        let Some(replica) = self.replicas.get_mut(&partition) else { return };
        if replica.loading().ask(host, ask) {
            self.release(partition);
        }
    }

    pub(super) fn note_load_taken(
        &mut self,
        partition: PartitionId,
        host: HostId,
        taken: (Attempt, u32),
    ) {
        let Some(replica) = self.replicas.get_mut(&partition) else { return };
        if replica.loading().note_taken(host, taken) {
            self.send_to_copies(partition);
        }
    }

    /// Copies that are not in sync may count, or be in sync.
    pub(super) fn attend_to_loaded(&mut self, partition: PartitionId, shared: &mut Shared) {
        let (placement, now_us) = (Arc::clone(&self.placement), self.now_us);
        let replica = self.replicas.get_mut(&partition).expect("it has a copy");
        for turn in replica.loading().attend(&placement, LOAD_BYTES_MAX, now_us) {
            match turn {
                LoadTurn::Propose(command) => self.proposals.push(command),
                LoadTurn::TooSlow(host) => {
                    shared.report.loads_too_slow += 1;
                    self.give_up_load(partition, host);
                }
            }
        }
    }

    fn give_up_load(&mut self, partition: PartitionId, host: HostId) {
        let replica = self.replicas.get_mut(&partition).expect("it leads");
        let (said, counted) = replica.loading().begin_again(host);
        if let Some(said) = said {
            self.send(host, Said::Copy(OfCopy { partition, copy: host, said }));
        }
        if counted {
            self.release(partition);
        }
    }

    pub(super) fn fail_learner(&mut self, partition: PartitionId, host: HostId) {
        let replica = self.replicas.get_mut(&partition).expect("it leads");
        match replica.loading().failed(host) {
            Some(command) => self.proposals.push(command),
            None => self.give_up_load(partition, host),
        }
    }

    pub(super) fn copy_said(
        &mut self,
        OfCopy { partition, copy, said }: OfCopy,
        shared: &mut Shared,
    ) {
        match said {
            CopyMessage::Receipt(receipt) => self.take_receipt(partition, copy, receipt, shared),
            CopyMessage::Resume(after) => {
                let Some(replica) = self.replicas.get_mut(&partition) else { return };
                let Some(leading) = &mut replica.leading else { return };
                if leading.resume(copy, after).is_err() {
                    let is_loaded = leading.stream.learners().any(|host| host == copy);
                    match is_loaded {
                        true => return self.fail_learner(partition, copy),
                        false => self.propose_out_of_sync(partition, copy, after.epoch),
                    }
                }
                self.hand_over(partition, true, shared);
                self.send_to_copies(partition);
            }
            CopyMessage::Stream(..)
            | CopyMessage::Sealed(_)
            | CopyMessage::Load(_)
            | CopyMessage::LoadAgain(_)
            | CopyMessage::Kept(_) => unreachable!("they are for the links, or of a log"),
            CopyMessage::AskPosition(asked_us) => {
                self.tell_position((partition, copy), asked_us, shared);
            }
            CopyMessage::Position(asked_us, position) => {
                self.note_position(partition, asked_us, position, shared);
            }
            CopyMessage::AskLoad(ask) => self.ask_load(partition, (copy, ask), shared),
            CopyMessage::Loaded(attempt, number) => {
                self.note_load_taken(partition, copy, (attempt, number));
            }
        }
    }

    fn take_receipt(
        &mut self,
        partition: PartitionId,
        copy: HostId,
        receipt: Receipt,
        shared: &mut Shared,
    ) {
        let Some(replica) = self.replicas.get_mut(&partition) else { return };
        let Some(leading) = &mut replica.leading else { return };
        match leading.stream.receipt(copy, receipt) {
            ReceiptOutcome::Advanced(position) => {
                replica.gate.advance(copy, position);
                self.release(partition);
                self.attend_to_loaded(partition, shared);
            }
            ReceiptOutcome::NotSent => {
                shared.problem(format!("host {copy} has a receipt for what was not sent"));
            }
            ReceiptOutcome::Known | ReceiptOutcome::OtherEpoch | ReceiptOutcome::NotInSync => {}
        }
    }

    pub(super) fn follow_learners(&mut self, before: &Placement, shared: &mut Shared) {
        let placement = Arc::clone(&self.placement);
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            let replica = self.replicas.get_mut(&partition).expect("it was listed");
            let mut followers = placement.followers_of(partition).iter();
            let is_in_sync = followers.any(|thread| thread.host() == self.id);
            let has_data = replica.learning.as_ref().is_some_and(|it| !it.is_loading());
            if is_in_sync && has_data {
                replica.learning = None;
                shared.report.in_sync += 1;
            }
            if replica.loading().follow_placement(before, &placement) {
                self.release(partition);
            }
        }
    }

    /// Copies that are loaded get a little more.
    pub(super) fn step_loads(&mut self, shared: &mut Shared) {
        for partition in self.replicas.keys().copied().collect::<Vec<_>>() {
            if self.replicas[&partition].loads.is_any() {
                let replica = self.replicas.get_mut(&partition).expect("it was listed");
                if let Some(leading) = &mut replica.leading {
                    leading.stream.inject(shared.faults.streams);
                }
                self.attend_to_loaded(partition, shared);
                self.step_load(partition, shared);
            }
        }
    }

    fn step_load(&mut self, partition: PartitionId, shared: &mut Shared) {
        let replica = self.replicas.get_mut(&partition).expect("it leads");
        if let Some(host) = replica.loading().overtaken() {
            return self.give_up_load(partition, host);
        }
        if replica.opening.is_some() || replica.draining.is_some() {
            return;
        }
        if replica.loading().is_about_to_begin() {
            self.hand_over(partition, true, shared);
        }
        let placement = Arc::clone(&self.placement);
        let replica = self.replicas.get_mut(&partition).expect("it leads");
        if let Some((host, said)) = replica.loading().step(&placement) {
            self.send(host, Said::Copy(OfCopy { partition, copy: host, said }));
        }
    }
}
