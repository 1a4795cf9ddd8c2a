//! Partitions and a coordinator, with a network between them whose order the seed decides.

use crate::census::Census;
use crate::plans::{LocalWork, Natives, Planned, Request, SimCatalog, Sql};
use crate::world::log::HostLog;
use crate::world::save::Saves;
use lockstep_base::random::SeededRandom;
use lockstep_host::coordinator;
use lockstep_host::partition;
use lockstep_host::placement::Placement;
use lockstep_host::several::CoordinatorCall;
use lockstep_plan::Catalog;
use lockstep_site::{
    Coordinator, FromPartition, MultiCall, Numbered, OneRoundCall, OneRoundCalls, Site, SiteLimits,
    SpeculationCounts,
};
use lockstep_types::{Failure, HashRing, Outcome, PartitionId, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

mod bytes;
mod calls;
mod content;
mod control;
mod expiry;
mod index_hops;
mod invariants;
mod load;
pub(crate) mod log;
mod order;
mod outputs;
mod promotion;
pub(crate) mod replay;
mod replicas;
pub(crate) mod save;
mod shape;
mod takeover;
mod tasks;

use calls::At;
pub use control::{ChangeAnswer, ChangeNumber};
use control::{ControlCall, ControlThread, ToControl};
pub(crate) use control::{NO_INTAKE, RequestedChange};
use expiry::{Expiry, Poll};
pub(crate) use expiry::{SentBatch, is_expiry};
use index_hops::Journey;
use invariants::Checks;
use replicas::Replicas;
pub(crate) use replicas::followers_of;
pub use replicas::{BrokenCopies, CopyCounts};
pub use shape::Shape;
use shape::coordinator as coordinator_of;
pub(crate) use shape::way_to_stop;
pub(crate) use takeover::UNKNOWN;
use tasks::SimTasks;
pub(crate) use tasks::{SentTask, is_task};

/// The simulated time at which every run begins: microseconds since 1970.
const START_US: i64 = 1_700_000_000_000_000;
/// How far one step moves the clock at most.
const STEP_US: u64 = 700;

/// A transaction is over after this time, when the world is told to look ([`World::expire`]).
const TRANSACTION_TIMEOUT: Duration = Duration::from_millis(20);

/// Who waits for a call.
pub type CallNumber = usize;

/// A call that has ended.
#[derive(Debug)]
pub struct Answer {
    /// Which.
    pub call: CallNumber,
    /// How.
    pub outcome: Outcome,
    /// Its result tables.
    pub tables: Vec<u8>,
    /// It ran at one partition.
    pub at_partition: bool,
}

/// A call on its way to a partition, or held there.
#[derive(Debug, Clone)]
pub(crate) struct PartitionCall {
    call: CallNumber,
    catalog_version: u64,
    work: LocalWork,
    /// Of a call that an index leads.
    journey: Journey,
}

/// Why calls end that were in progress when the coordinator failed.
pub const FAILED: &str = "the coordinator cannot go on";

/// A message in flight.
pub(crate) enum Message {
    ToPartition(Numbered<u64>),
    FromPartition(FromPartition),
    Call(PartitionId, PartitionCall),
    Multi(MultiCall<CallNumber, u64>),
    OneRound(CallNumber, Arc<OneRoundCall>),
    /// From the control thread to the coordinator, with its number: they arrive in order.
    Ordered(u64, MultiCall<CallNumber, u64>),
    /// From the coordinator to the control thread, with its number: they arrive in order.
    ToControl(u64, ToControl),
    /// From other threads to the control thread.
    Unordered(ToControl),
    /// From the control thread to a partition, which polls for expired rows.
    Poll(PartitionId, Poll),
    /// Another coordinator takes over in this epoch: the placement, as a partition gets it.
    Fence(PartitionId, u64),
}

impl From<CoordinatorCall<CallNumber, u64>> for Message {
    fn from(call: CoordinatorCall<CallNumber, u64>) -> Message {
        match call {
            CoordinatorCall::OneRound(number, call) => Message::OneRound(number, call),
            CoordinatorCall::Multi(call) => Message::Multi(*call),
        }
    }
}

impl Message {
    /// Which partition it goes to; the others go to the coordinator or to the control thread.
    pub(crate) fn partition(&self) -> Option<PartitionId> {
        match self {
            Message::ToPartition(message) => Some(message.partition),
            Message::Call(partition, _)
            | Message::Poll(partition, _)
            | Message::Fence(partition, _) => Some(*partition),
            Message::FromPartition(_)
            | Message::Multi(_)
            | Message::OneRound(..)
            | Message::Ordered(..)
            | Message::ToControl(..)
            | Message::Unordered(_) => None,
        }
    }
}

/// A partition of the simulated host.
pub(crate) type SimSite = Site<PartitionCall, Answer, u64>;

/// The simulated host.
pub struct World {
    /// Decides everything that is not decided by the code under test.
    pub random: SeededRandom,
    shape: Shape,
    ring: HashRing,
    pub(crate) sites: Vec<SimSite>,
    coordinator: Coordinator<CallNumber, u64>,
    pub(crate) in_flight: Vec<Message>,
    pub(crate) natives: Natives,
    /// By version: those in force somewhere, and one that is in progress.
    pub(crate) catalogs: BTreeMap<u64, SimCatalog>,
    /// Per partition, the version in force at its thread.
    versions: Vec<u64>,
    placement: Placement,
    control: ControlThread,
    /// What each call asks for, should a schema change overtake its plans.
    requests: BTreeMap<CallNumber, Request>,
    /// The threads of connections whose calls reach the coordinator in the order of their numbers.
    connections: BTreeMap<CallNumber, usize>,
    answers: Vec<Answer>,
    now_us: i64,
    /// One message in this many is delivered a second time; 0 for none.
    pub repeat_one_in: u64,
    /// A hash of everything that happened, in order.
    pub trace: u64,
    /// Messages between the coordinator and partitions, repeats at partitions included.
    pub messages: u64,
    /// Counts the messages of each transaction.
    pub census: Census,
    /// Calls that sites have run, those that ran again included.
    pub executed: u64,
    /// Calls at one partition that failed when they ran after something undecided.
    failed_runs: BTreeMap<CallNumber, TransactionId>,
    /// Calls whose plans a schema change overtook.
    pub planned_again: usize,
    /// How often an index is asked for a call's row.
    pub max_index_lookups: u64,
    /// How often calls were handed on by an index, or back to it.
    pub hops: u64,
    /// Calls that asked as often as they may, and went on as transactions.
    pub given_up: u64,
    /// Makes calls of one round.
    one_rounds: OneRoundCalls,
    /// How many of them went to the coordinator.
    pub one_round_calls: u64,
    limits: SiteLimits,
    /// The command log, if it has one.
    log: Option<HostLog>,
    /// The followers of its partitions, if there are any.
    replicas: Option<Replicas>,
    /// The epoch of the cluster.
    epoch: u64,
    /// How many decisions are remembered.
    outcomes_kept: usize,
    /// Where calls are that wait or run at a partition, and those at the coordinator.
    at: BTreeMap<CallNumber, PartitionId>,
    at_coordinator: BTreeSet<CallNumber>,
    /// The snapshots that it saves, if it does.
    saves: Option<Saves>,
    /// How often a step of an index build has failed and waited to be repeated.
    pub build_pauses: u64,
    /// Deletes rows whose time is over.
    expiry: Expiry,
    tasks: SimTasks,
    checks: Checks,
    bytes: bytes::MessageBytes,
}

impl World {
    /// A host without tables.
    pub fn new(seed: u64, shape: Shape) -> World {
        let partitions = shape.partitions;
        let ring = HashRing::new(partitions);
        let limits = SiteLimits {
            held_calls_max: 10_000,
            speculative_calls_max: if shape.speculates { 1_000 } else { 0 },
            speculative_bytes_max: 1 << 20,
            waiting_multi_calls_max: 10_000,
            active_multi_calls_max: shape.active_multi,
            transaction_timeout: Some(TRANSACTION_TIMEOUT),
            write_timeout: None,
            stop_everything: shape.stop_everything,
            faults: shape.faults,
            result_bytes_max: 1 << 20,
            temporary_bytes_max: 1 << 24,
            batch_rows_min: 0,
            undo_bytes_max: 1 << 30,
            entry_changes_bytes_max: 64 << 20,
            digests: shape.digests || shape.followers > 0,
        };
        let replicas = (shape.followers, shape.broken_copies);
        let outcomes_kept = shape::outcomes_kept(seed, &limits);
        let limited = (&limits, outcomes_kept);
        let replicas = Replicas::new(seed, replicas, &ring, limited);
        let natives = Natives::new(seed);
        let catalog = SimCatalog::new(Catalog::default(), &natives);
        let empty = Arc::clone(&catalog.host);
        World {
            random: SeededRandom::new(seed),
            sites: shape::sites(&shape, &ring, limited),
            coordinator: coordinator_of(seed, &shape, &ring, limited),
            shape,
            ring,
            in_flight: Vec::new(),
            catalogs: BTreeMap::from([(0, catalog)]),
            natives,
            versions: vec![0; partitions as usize],
            placement: shape::placement(seed, partitions),
            control: ControlThread::new(empty, partitions),
            requests: BTreeMap::new(),
            connections: BTreeMap::new(),
            answers: Vec::new(),
            now_us: START_US,
            repeat_one_in: 0,
            trace: 0,
            messages: 0,
            census: Census::new(shape.followers > 0),
            executed: 0,
            failed_runs: BTreeMap::new(),
            planned_again: 0,
            max_index_lookups: 8,
            hops: 0,
            given_up: 0,
            one_rounds: OneRoundCalls::new(16, shape.stop_everything),
            one_round_calls: 0,
            limits,
            log: None,
            replicas,
            epoch: 0,
            outcomes_kept,
            at: BTreeMap::new(),
            at_coordinator: BTreeSet::new(),
            saves: None,
            build_pauses: 0,
            expiry: Expiry::new(partitions),
            tasks: SimTasks::new(partitions),
            checks: Checks::of(shape.faults),
            bytes: bytes::MessageBytes::new(seed, &shape),
        }
    }

    /// A statement for [`World::call`].
    pub fn prepare(&self, sql: &str) -> Sql {
        sql.into()
    }

    /// Sends statements as one transaction: to one partition where that is enough.
    pub fn call(&mut self, call: CallNumber, statements: &[(&Sql, &[i64])]) {
        let own = |(sql, parameters): &(&Sql, &[i64])| (Arc::clone(sql), parameters.to_vec());
        self.request(call, Request::Statements(statements.iter().map(own).collect()));
    }

    /// Sends a request, planned with the catalog of the partition whose thread has the client's
    /// connection.
    pub fn request(&mut self, call: CallNumber, request: Request) {
        // Without a schema change all have the same.
        let connected = match self.control.schema.is_changing() {
            true => self.random.below(self.versions.len() as u64) as usize,
            false => 0,
        };
        self.take_request(connected, call, request);
    }

    /// A request arrives at the thread of the client's connection.
    pub(crate) fn take_request(&mut self, connected: usize, call: CallNumber, request: Request) {
        let by_control = self.is_planned_by_control(connected, &request);
        if by_control {
            self.requests.insert(call, request);
            return self.control_call(ControlCall::Plan(call));
        }
        let message = self.plan(connected, call, &request);
        self.requests.insert(call, request);
        self.in_flight.push(message);
    }

    /// A request as the thread of the client's connection sends it on.
    fn plan(&mut self, connected: usize, call: CallNumber, request: &Request) -> Message {
        let catalog_version = self.versions[connected];
        let catalog = self.catalogs.get_mut(&catalog_version).expect("it is in force");
        let planned = catalog.plan(call, request, &self.ring, &mut self.one_rounds);
        self.message_of(call, catalog_version, planned)
    }

    /// What is sent on of a call that was planned.
    fn message_of(&mut self, call: CallNumber, catalog_version: u64, planned: Planned) -> Message {
        match planned {
            Planned::Several(several) => several.into(),
            Planned::Partition(partition, work) => {
                let journey = Journey::default();
                Message::Call(partition, PartitionCall { call, catalog_version, work, journey })
            }
            Planned::Multi { declared, home, work } => {
                let (origin, time_limit) = (call, None);
                let procedure_number = Census::mark_of(call);
                Message::Multi(MultiCall {
                    origin,
                    procedure_number,
                    catalog_version,
                    time_limit,
                    declared,
                    home,
                    led: None,
                    work,
                })
            }
        }
    }

    /// A schema change overtook the plans of a call.
    fn plan_again(&mut self, call: CallNumber) {
        if self.expiry_overtaken(call) {
            return;
        }
        self.planned_again += 1;
        self.at.remove(&call);
        let request = self.requests.get(&call).cloned().expect("it was requested");
        self.request(call, request);
    }

    /// What the host is like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of partitions.
    pub fn partition_count(&self) -> u32 {
        self.ring.partition_count()
    }

    /// The partition of a key.
    pub fn partition_of(&self, key: i64) -> PartitionId {
        self.ring.partition_of(lockstep_types::Datum::Int(key))
    }

    /// Delivers one message, drawn by the seed, and checks the invariants; false when none is in
    /// flight.
    pub fn step(&mut self) -> bool {
        let is_made = self.make_step();
        if is_made {
            self.check_step();
        }
        is_made
    }

    fn make_step(&mut self) -> bool {
        if self.log_is_due() {
            self.step_log();
            return true;
        }
        if self.replicas_are_due() && self.step_replicas() {
            return true;
        }
        if self.save_is_due() {
            self.step_save();
            return true;
        }
        if self.retry_us().is_some_and(|due_us| due_us <= self.now_us || self.in_flight.is_empty())
        {
            // While nothing else happens, time passes.
            self.now_us = self.retry_us().map_or(self.now_us, |due_us| due_us.max(self.now_us));
            self.retry_build();
            return true;
        }
        if self.in_flight.is_empty() {
            return false;
        }
        self.now_us += self.random.below(STEP_US) as i64;
        let place = self.random.below(self.in_flight.len() as u64) as usize;
        let message = self.in_flight.swap_remove(self.first_of_its_way(place));
        let repeat = self.repeat_one_in > 0 && self.random.chance(1, self.repeat_one_in);
        if repeat && let Some(copy) = log::copy_of(&message) {
            self.in_flight.push(copy);
        }
        self.deliver(message);
        true
    }

    /// The clock is set again, forwards or backwards.
    pub(crate) fn jump_clock(&mut self, by_us: i64) {
        self.now_us += by_us;
    }

    /// The coordinator looks at the clock.
    pub fn expire(&mut self) {
        self.note(5);
        let mut outputs = Vec::new();
        self.coordinator.expire(self.now_us, &mut outputs);
        self.carry_out(outputs);
    }

    /// The coordinator cannot go on with anything.
    pub fn fail_all(&mut self) {
        self.note(6);
        let mut outputs = Vec::new();
        self.coordinator.fail_all(&Failure::graceful(FAILED), 0, &mut outputs);
        self.carry_out(outputs);
    }

    /// Delivers everything: the network is quiet afterwards.
    pub fn settle(&mut self) {
        self.repeat_one_in = 0;
        while self.step() {}
    }

    /// Answers since the last time.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// What a call at one partition is in the log, if it failed when it ran after something
    /// undecided: it may have run again since.
    pub(crate) fn failed_run(&self, call: CallNumber) -> Option<TransactionId> {
        self.failed_runs.get(&call).copied()
    }

    /// How often all partitions speculated, ran again and aborted.
    pub fn speculation(&self) -> SpeculationCounts {
        self.sites.iter().map(Site::speculation).fold(SpeculationCounts::default(), |sum, own| {
            SpeculationCounts {
                speculated: sum.speculated + own.speculated,
                repeated: sum.repeated + own.repeated,
                aborted: sum.aborted + own.aborted,
            }
        })
    }

    /// True when nothing waits anywhere.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.coordinator.is_idle()
            && self.sites.iter().all(Site::is_idle)
            && self.replicas.as_ref().is_none_or(|replicas| replicas.promoting_count() == 0)
    }

    fn note(&mut self, what: u64) {
        self.trace ^= what;
        lockstep_base::random::split_mix(&mut self.trace);
    }

    /// What was sent since the last time, for a scheduler of its own.
    pub(crate) fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.in_flight)
    }

    pub(crate) fn deliver(&mut self, message: Message) {
        let message = match self.bytes.is_on() {
            false => message,
            true => match self.through_bytes(message) {
                Some(message) => message,
                None => return,
            },
        };
        let Some(message) = self.keep_for_leader(message) else { return };
        match message {
            Message::Fence(partition, epoch) => {
                self.note(16 + (u64::from(partition.0) << 8));
                self.deliver_fence(partition, epoch);
            }
            Message::Multi(call) => {
                self.at.remove(&call.origin);
                self.note(1 + ((call.origin as u64) << 8));
                self.submit(CoordinatorCall::Multi(Box::new(call)));
            }
            Message::OneRound(call, one_round) => {
                self.at.remove(&call);
                self.note(7 + ((call as u64) << 8));
                self.one_round_calls += 1;
                self.submit(CoordinatorCall::OneRound(call, one_round));
            }
            Message::Ordered(_, call) => {
                self.note(1 + ((call.origin as u64) << 8));
                self.submit(CoordinatorCall::Multi(Box::new(call)));
            }
            Message::ToControl(_, message) => {
                self.note(10);
                self.deliver_to_control(message);
            }
            Message::Unordered(message) => {
                self.note(11);
                self.deliver_to_control(message);
            }
            Message::Poll(partition, poll) => {
                self.note(12);
                self.deliver_poll(partition, &poll);
            }
            Message::FromPartition(answer) => {
                self.note(2);
                coordinator::receive(self, answer, &mut Vec::new());
            }
            Message::ToPartition(message) => self.deliver_to_partition(message),
            Message::Call(partition, call) => {
                if self.replicas.is_some() {
                    self.at.insert(call.call, partition);
                }
                self.note(3 + (u64::from(partition.0) << 8) + ((call.call as u64) << 32));
                partition::take_call(&mut At { world: self, partition }, call);
            }
        }
    }

    fn deliver_to_partition(&mut self, message: Numbered<u64>) {
        let partition = message.partition;
        let place = partition.index();
        self.note(4 + ((place as u64) << 8) + (message.number << 16));
        self.messages += 1;
        partition::take_message(&mut At { world: self, partition }, message, &mut Vec::new());
    }
}
