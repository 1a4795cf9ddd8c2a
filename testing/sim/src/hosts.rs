//! Several hosts with everything that the server has for them: the control plane with Raft inside,
//! copies, leaders and the coordinator, all of it the code that serves. A seed decides the shape,
//! the clocks, the network and the faults.
//!
//! Each host has a clock of its own, with an offset and a drift, and is stopped for a while now and
//! then. It is lost because a majority of the others has decided so; most lost hosts are started
//! again, without data, and load their copies. What a host answers is tested
//! against the leases that it has by its own clock. Connections keep their order, stand still while
//! they are cut, in one direction or both, and lose what is in flight when their session ends.
//!
//! Judges: what calls find and leave (`judge`, and for each further workload `lists`, `reads`,
//! `aging` and `tpcc`). Copies are equal at rest, and everything ends once faults stop.

use crate::plans::{LocalWork, Natives, Request};
use lockstep_base::random::SeededRandom;
use lockstep_cluster::{ClusterState, Options, Shape};
use lockstep_host::copies::{FollowedPiece, Opening};
use lockstep_host::follower::codec::OfCopy;
use lockstep_host::hand_over::PlannedMove;
use lockstep_host::loading::{Attempt, NumberedPart};
use lockstep_host::placement::{ClusterPlacement, Placement};
use lockstep_host::several::CoordinatorCall;
use lockstep_site::{ExpiryPoll, ExpiryUnitId, FromPartition, Numbered, SiteLimits};
use lockstep_sql::Limits;
use lockstep_types::{HashRing, HostId, Outcome, PartitionId};
use std::collections::BTreeMap;
use std::sync::Arc;

mod aging;
mod begin;
mod changes;
mod chaos;
mod codes;
mod epochs;
mod expiry;
pub mod growth;
mod hops;
mod host;
mod judge;
mod learning;
mod lists;
mod members;
mod moves;
mod network;
mod reads;
mod replica;
mod report;
mod resize;
mod rest;
mod returns;
mod runs;
mod shared;
mod tpcc;
mod unavailable;

use expiry::ExpiryLimits;
use host::Host;
use judge::Judge;
use members::{Done, Links};
use network::Network;
pub use report::{HostFaults, Report};
pub use runs::{run_aging, run_kfactor, run_lists, run_reads, run_resizes, run_seed, run_tpcc};
use shared::Shared;

/// Between two ticks of a host.
const TICK_US: u64 = 10_000;
/// How long the cluster has to form, and to come to rest once faults have stopped.
const FORM_US: u64 = 10_000_000;
const REST_US: u64 = 20_000_000;
/// Attempts to read everything at rest, of two reads each.
const READS_AT_REST: usize = 100;
/// While a host is not connected with a majority, callers wait so long.
const PATIENCE_US: u64 = 1_000_000;

/// A call on its way to a partition.
#[derive(Debug, Clone)]
pub(crate) struct HostCall {
    call: usize,
    work: LocalWork,
    /// The catalog that it was planned with.
    catalog_version: u64,
    /// The epoch of the placement of the host that sent it.
    epoch: u64,
}

impl HostCall {
    /// Whether a global index leads it to its row.
    fn is_led(&self) -> bool {
        matches!(self.work, LocalWork::Statements(_, Some(_)))
    }
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Answer {
    call: usize,
    outcome: Outcome,
    tables: Vec<u8>,
    /// The entry of the partition's log that it depends on.
    entry: u64,
    /// A copy has answered whose data may be as old as this.
    staleness_us: Option<u64>,
}

impl Answer {
    fn new(call: usize, outcome: Outcome, tables: Vec<u8>) -> Answer {
        Answer { call, outcome, tables, entry: 0, staleness_us: None }
    }
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// They move money.
    Bank,
    /// They also append to lists and read them.
    Lists,
    /// They move money, and copies answer reads.
    Reads,
    /// They also insert rows that go when their time is over.
    Aging,
    /// They also run the transactions of TPC-C.
    Tpcc,
}

/// A message between sites, or from the links of a host to its sites.
enum Said {
    /// The placement that a host goes by.
    Epoch(u64),
    Call(PartitionId, HostCall),
    Multi(Box<CoordinatorCall<usize, u64>>),
    Answer(Box<Answer>),
    ToPartition(Numbered<u64>),
    FromPartition(FromPartition),
    Copy(OfCopy),
    Follow(FollowedPiece),
    /// To a copy here: a part of what it is loaded from, or the end of that.
    Load(PartitionId, NumberedPart),
    LoadAgain(PartitionId, Option<Attempt>),
    /// A host that joins asks for the catalog, and gets it.
    AskCatalog(HostId),
    GiveCatalog(u64),
    Open(Box<Opening>),
    Placement(Arc<Placement>),
    /// A client changes the schema.
    Change(usize),
    /// Leaders that are to be moved.
    Moves(Vec<PlannedMove>),
    /// From the coordinator to a leader that is to be moved.
    HandOver(PlannedMove),
    /// To the coordinator: it is to be at another host, or to stay.
    MoveCoordinator(Option<HostId>),
    /// From the host that orders deletions to a leader, with the version of the catalog: it is to
    /// poll its tables for expired rows. And what it found.
    Poll(PartitionId, u64, Vec<ExpiryPoll>),
    Polled(u64, Vec<(ExpiryUnitId, Option<u64>)>),
    /// A call that another host is to run, with the epoch of the placement that says so.
    Bounced(usize, u64),
}

enum Event {
    Datagram {
        from: usize,
        session: u32,
        bytes: Vec<u8>,
    },
    Message {
        from: usize,
        session: u32,
        said: Said,
    },
    /// To a run of a host's process.
    ToSite(u64, Said),
    Tick(u64),
    /// A session with another host begins at a run of a host's process.
    Session {
        run: u64,
        peer: usize,
        session: u32,
    },
    /// A host is started again.
    Start,
    Call(usize, Request),
    Change(usize),
}

/// A process.
struct Process {
    run: u64,
    links: Links,
    host: Host,
    paused_until_us: u64,
}

struct Cluster {
    now_us: u64,
    shape: Shape,
    shared: Shared,
    /// None for one that has ended.
    processes: Vec<Option<Process>>,
    network: Network,
    /// By time and number.
    events: BTreeMap<(u64, u64), (usize, Event)>,
    next_event: u64,
    judge: Judge,
    /// Hosts that may be lost because of a fault, and until when.
    disturbed: BTreeMap<usize, u64>,
    /// The last copy of a partition may be lost.
    loses_partitions: bool,
    /// Of the clients' turns, one in as many is a change of the schema; 0: none.
    changes_one_in: u64,
    /// Leaders are moved on purpose.
    moves_leaders: bool,
    /// The coordinator is, too; with numbers of their own, so that other runs stay as they are.
    coordinator_moves: Option<SeededRandom>,
    /// K is another one now and then; with numbers of their own, so that other runs stay as they
    /// are.
    k_changes: Option<SeededRandom>,
    /// Hosts that are added and removed.
    resizes: Option<resize::Resizes>,
    /// Hosts that are lost are started again.
    returns: bool,
    first: ClusterPlacement,
    options: Options,
    seed: u64,
    /// By host, its last run.
    runs: Vec<u64>,
    /// By pair of hosts with their runs, when they are connected again.
    connecting: BTreeMap<returns::Pair, u64>,
    report: Report,
    /// What hosts send each other, where that is counted.
    traffic: growth::Traffic,
}

impl Cluster {
    /// A cluster of several copies, to which hosts are added and from which others are removed.
    fn with_resizes(seed: u64, faults: HostFaults) -> Cluster {
        let mut random = SeededRandom::new(seed ^ 0x9e51_2e00);
        let mut shapes = std::iter::repeat_with(|| begin::shape_of(&mut random));
        let shape = shapes.find(|shape| shape.k > 0).expect("some shapes have copies");
        let shape = Shape { partitions_per_site: 2, ..shape };
        let limits = begin::limits_of(&mut random, &shape, &faults);
        let resizes = Some(resize::Resizes::new(random.next_u64()));
        let shape = (shape, resize::SPARE);
        let cluster = Cluster::of_shape((seed, random), shape, (faults, limits), Work::Bank);
        Cluster { resizes, returns: true, ..cluster }
    }

    /// A cluster of several copies, whose K changes.
    fn with_k_changes(seed: u64, faults: HostFaults) -> Cluster {
        let mut random = SeededRandom::new(seed ^ 0x0c4a_6e5b);
        let mut shapes = std::iter::repeat_with(|| begin::shape_of(&mut random));
        let shape = shapes.find(|shape| shape.k > 0).expect("some shapes have copies");
        let limits = begin::limits_of(&mut random, &shape, &faults);
        let k_changes = Some(SeededRandom::new(random.next_u64()));
        let cluster = Cluster::of_shape((seed, random), (shape, 0), (faults, limits), Work::Bank);
        Cluster { k_changes, ..cluster }
    }

    fn new(seed: u64, faults: HostFaults, work: Work) -> Cluster {
        let mut random = SeededRandom::new(seed ^ 0x05e7_e7a1);
        let shape = begin::shape_of(&mut random);
        let limits = begin::limits_of(&mut random, &shape, &faults);
        Cluster::of_shape((seed, random), (shape, 0), (faults, limits), work)
    }

    /// `spare` numbers are for hosts that are added.
    fn of_shape(
        (seed, mut random): (u64, SeededRandom),
        (shape, spare): (Shape, u32),
        (faults, limits): (HostFaults, SiteLimits),
        work: Work,
    ) -> Cluster {
        let placement = ClusterPlacement::first(&shape).expect("the shapes fit");
        let options = Options {
            proposal_timeout_us: 1_000_000,
            reload_after_us: 200_000,
            ..Options::default()
        };
        let natives = Natives::new(seed);
        let (empty, catalog, task) = begin::made_schema(work, &natives);
        let version = task.catalog_version;
        let tasks = BTreeMap::from([((version, task.source.to_vec()), task)]);
        let accounts = 2 + random.below(8) as i64;
        let mut shared = Shared {
            random,
            ring: HashRing::new(placement.partitions.len() as u32),
            limits,
            sql_limits: Limits::default(),
            catalogs: BTreeMap::from([(0, empty), (version, catalog)]),
            tasks,
            natives,
            first_version: version,
            origins: Vec::new(),
            requests: BTreeMap::new(),
            answers: Vec::new(),
            problem: None,
            reads_bound_us: (work == Work::Reads).then(|| reads::bound_us(seed)),
            expiry: (work == Work::Aging).then(|| ExpiryLimits::of_seed(seed)),
            deletions: Vec::new(),
            deletions_ended: Vec::new(),
            faults,
            report: Report::default(),
        };
        let judge = begin::judge_of(seed, work, accounts, &shared);
        let mut cluster = Cluster {
            now_us: 1_000,
            loses_partitions: shared.random.chance(1, 4),
            changes_one_in: [0, 0, 40, 150][shared.random.below(4) as usize],
            moves_leaders: shape.k > 0 && seed.is_multiple_of(3),
            coordinator_moves: (shape.k > 0 && seed % 5 == 2)
                .then(|| SeededRandom::new(seed ^ 0x0c00_4d1e)),
            k_changes: None,
            resizes: None,
            returns: shape.k > 0 && !seed.is_multiple_of(4),
            // A process of an added host joins, as one that comes back.
            runs: (0..shape.hosts + spare).map(|host| u64::from(host >= shape.hosts)).collect(),
            connecting: BTreeMap::new(),
            first: placement,
            options,
            seed,
            shape,
            shared,
            processes: Vec::new(),
            network: Network::new(),
            events: BTreeMap::new(),
            next_event: 0,
            judge,
            disturbed: BTreeMap::new(),
            report: Report::default(),
            traffic: growth::Traffic::default(),
        };
        cluster.processes.resize_with(cluster.runs.len(), || None);
        (0..shape.hosts).for_each(|host| cluster.start(HostId(host)));
        cluster
    }

    fn schedule(&mut self, at_us: u64, host: usize, event: Event) {
        self.next_event += 1;
        self.events.insert((at_us, self.next_event), (host, event));
    }

    fn state(&self) -> Option<&ClusterState> {
        let running = self.processes.iter().flatten();
        let states = running.filter_map(|process| process.links.state());
        states.max_by_key(|state| state.epoch)
    }

    /// Runs until a time, or until `done` at the end of a step.
    fn run_until(
        &mut self,
        until_us: u64,
        done: impl Fn(&Cluster) -> bool,
    ) -> Result<bool, String> {
        while let Some(((at_us, order), (number, event))) = self
            .events
            .first_key_value()
            .is_some_and(|(key, _)| key.0 <= until_us)
            .then(|| self.events.pop_first().expect("it was there"))
        {
            self.now_us = at_us.max(self.now_us);
            match self.pause_end_us(number) {
                Some(end_us) => self.defer(order, end_us, (number, event)),
                None => self.happen(number, event),
            }
            self.judge_answers()?;
            if let Some(problem) = self.shared.problem.take() {
                return Err(problem);
            }
            if done(self) {
                return Ok(true);
            }
        }
        self.now_us = until_us.max(self.now_us);
        Ok(false)
    }

    /// When a host that stands still goes on.
    fn pause_end_us(&self, number: usize) -> Option<u64> {
        let until_us = self.processes[number].as_ref()?.paused_until_us;
        (until_us > self.now_us).then_some(until_us)
    }

    /// What comes to a host that stands still comes when it goes on, in the order in which it was
    /// sent; any of it first, or a tick.
    fn defer(&mut self, order: u64, end_us: u64, (number, event): (usize, Event)) {
        match event {
            Event::Tick(_) => {
                let late_us = self.shared.random.below(3_000);
                self.schedule(end_us + late_us, number, event);
            }
            _ => drop(self.events.insert((end_us, order), (number, event))),
        }
    }

    fn happen_without_process(&mut self, number: usize, event: Event) {
        match event {
            Event::Call(call, _) | Event::Change(call) => self.shared.unknown(call),
            Event::Start if self.may_start(number) => self.start_again(HostId(number as u32)),
            _ => {}
        }
    }

    fn happen(&mut self, number: usize, event: Event) {
        if self.processes[number].is_none() {
            return self.happen_without_process(number, event);
        }
        let mut process = self.processes[number].take().expect("it runs");
        let run = process.run;
        let (boot_us, wall_us) = process.links.clock.at(self.now_us);
        (process.host.boot_us, process.host.now_us) = (boot_us, wall_us as i64);
        let Process { links, host, .. } = &mut process;
        let shared = &mut self.shared;
        let mut done = Done::default();
        match event {
            Event::Datagram { from, session, bytes } => {
                let from = (HostId(from as u32), session);
                done = links.receive(from, &bytes, self.now_us, host);
            }
            Event::Message { from, session, said } => {
                done = links.hear(HostId(from as u32), session, said, host);
            }
            Event::ToSite(to, said) if to == run => host.take(said, shared),
            Event::Session { run: of, peer, session } if of == run => {
                links.begin_session(HostId(peer as u32), session);
            }
            Event::Call(call, request) => host.call(call, request, shared),
            Event::Change(call) => host.call_change(call, shared),
            Event::Tick(of) if of == run => {
                done = links.tick(self.now_us, host, shared);
                host.expire(shared);
                host.look_at_learners(shared);
            }
            // For a process that has ended.
            Event::ToSite(..) | Event::Session { .. } | Event::Tick(_) => {}
            Event::Start => unreachable!("the world starts hosts"),
        }
        host.take_all(shared);
        if !lags(self.coordinator_moves.as_mut(), done.is_tick) {
            host.run_copies(shared);
        }
        host.take_all(shared);
        if done.is_tick || shared.random.chance(1, 4) {
            host.step_loads(shared);
        }
        let (is_tick, begins_again) = (done.is_tick, done.begins_again);
        if is_tick || shared.random.chance(2, 3) {
            host.end_round((is_tick || shared.random.chance(1, 3), is_tick), shared);
        }
        let more = links.take_from_sites(self.now_us, host);
        let end_us = links.cut_off_since_us;
        if is_tick && host.is_cut_off {
            let since_us = end_us.unwrap_or(boot_us);
            links.cut_off_since_us = Some(since_us);
            if boot_us - since_us > PATIENCE_US {
                host.end_calls(shared);
            }
        }
        self.carry_out(number, done, &mut process);
        self.carry_out(number, more, &mut process);
        for (to, said) in std::mem::take(&mut process.host.out) {
            self.send(&mut process.links, to, said);
        }
        self.processes[number] = Some(process);
        if begins_again {
            self.begin_again(number);
        }
    }

    fn carry_out(&mut self, number: usize, done: Done, process: &mut Process) {
        let run = process.run;
        if done.is_tick {
            self.schedule(self.now_us + TICK_US, number, Event::Tick(run));
        }
        for peer in done.ended {
            self.connect((number, run), peer.0 as usize);
        }
        let Done { messages, epochs, datagrams, to_sites, problem, .. } = done;
        let Done { minorities, put_out, resumed, .. } = done;
        for datagram in datagrams {
            let way = (number, datagram.to.0 as usize);
            let at_us = self.network.datagram_us(&mut self.shared.random, way, self.now_us);
            let session = process.links.connection_to(datagram.to);
            if let (Some(at_us), Some(session)) = (at_us, session) {
                let event = Event::Datagram { from: number, session, bytes: datagram.bytes };
                self.schedule(at_us, way.1, event);
            }
        }
        for said in to_sites {
            let way = (number, number);
            let at_us = self.network.message_us(&mut self.shared.random, way, self.now_us);
            self.schedule(at_us, number, Event::ToSite(run, said));
        }
        for (to, session, epoch) in epochs {
            self.send_in((process.links.host, to), session, Said::Epoch(epoch));
        }
        for (to, said) in messages {
            self.send(&mut process.links, to, said);
        }
        if let Some(problem) = problem {
            self.shared.problem(problem);
        }
        self.report.minorities += minorities;
        self.report.false_suspicions += put_out;
        self.report.resumed += resumed;
    }

    fn judge_answers(&mut self) -> Result<(), String> {
        self.judge.now_us = self.now_us;
        self.judge.take_deletions(&mut self.shared)?;
        for answer in std::mem::take(&mut self.shared.answers) {
            self.judge.answer(&answer)?;
        }
        Ok(())
    }

    /// A client of a host calls.
    fn call_at(&mut self, host: usize, (call, request): (usize, Request)) {
        assert_eq!(self.shared.origins.len(), call, "calls are numbered in order");
        self.shared.origins.push(HostId(host as u32));
        self.shared.requests.insert(call, request.clone());
        self.schedule(self.now_us, host, Event::Call(call, request));
    }

    fn change_at(&mut self, host: usize, call: usize) {
        assert_eq!(self.shared.origins.len(), call, "calls are numbered in order");
        self.shared.origins.push(HostId(host as u32));
        self.schedule(self.now_us, host, Event::Change(call));
    }

    fn serving(&self) -> Vec<usize> {
        let is_serving = |process: &Option<Process>| {
            process.as_ref().is_some_and(|it| !it.links.serving.is_out() && it.host.has_joined())
        };
        (0..self.processes.len()).filter(|host| is_serving(&self.processes[*host])).collect()
    }
}

/// Whether copies are not applied now: they are between other work, and a coordinator may move
/// before that ends.
fn lags(coordinator_moves: Option<&mut SeededRandom>, is_tick: bool) -> bool {
    coordinator_moves.is_some_and(|random| !is_tick && random.chance(1, 2))
}
