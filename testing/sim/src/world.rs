//! Partitions and a coordinator, with a network between them whose order the seed decides.

use lockstep_base::random::SeededRandom;
use lockstep_exec::{PreparedStatement, routing_value};
use lockstep_plan::{Catalog, NativeProcedures, NativeSource, PlanContext, plan_statement};
use lockstep_plan_ir::Execution;
use lockstep_site::{
    BoundStatement, Coordinator, CoordinatorOutput, Faults, FromPartition, MultiCall, MultiWork,
    Numbered, PartitionEffect, Ready, SchemaTask, Site, SiteLimits, SpeculationCounts,
    StatementCall,
};
use lockstep_sql::{Limits, parse_batch};
use lockstep_txn::Admission;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{HashRing, Outcome, ParameterSet, PartitionId};
use std::sync::Arc;

/// The simulated time at which every run begins: microseconds since 1970.
const START_US: i64 = 1_700_000_000_000_000;
/// How far one step moves the clock at most.
const STEP_US: u64 = 700;

/// What a simulated host is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its partitions.
    pub partitions: u32,
    /// Multi-partition transactions under way at the same time.
    pub active_multi: usize,
    /// Partitions run calls behind undecided transactions.
    pub speculates: bool,
    /// Multi-partition transactions stop everything.
    pub stop_everything: bool,
    /// What is broken in it.
    pub faults: Faults,
}

impl Shape {
    /// A sound host with so many partitions.
    pub fn of(partitions: u32) -> Shape {
        Shape {
            partitions,
            active_multi: 64,
            speculates: true,
            stop_everything: false,
            faults: Faults::default(),
        }
    }
}

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
}

/// A call on its way to a partition, or held there.
#[derive(Debug, Clone)]
pub(crate) struct PartitionCall {
    call: CallNumber,
    statements: StatementCall,
}

/// A message in flight.
pub(crate) enum Message {
    ToPartition(Numbered<u64>),
    FromPartition(FromPartition),
    Call(PartitionId, PartitionCall),
    Multi(MultiCall<CallNumber, u64>),
}

impl Message {
    /// Which partition it goes to; the others go to the coordinator.
    pub(crate) fn partition(&self) -> Option<PartitionId> {
        match self {
            Message::ToPartition(message) => Some(message.partition),
            Message::Call(partition, _) => Some(*partition),
            Message::FromPartition(_) | Message::Multi(_) => None,
        }
    }
}

/// The simulated host.
pub struct World {
    /// Decides everything that is not decided by the code under test.
    pub random: SeededRandom,
    ring: HashRing,
    sites: Vec<Site<PartitionCall, Answer, u64>>,
    coordinator: Coordinator<CallNumber, u64>,
    in_flight: Vec<Message>,
    catalog: Catalog,
    answers: Vec<Answer>,
    now_us: i64,
    /// One message in this many is delivered a second time; 0 for none.
    pub repeat_one_in: u64,
    /// A hash of everything that happened, in order.
    pub trace: u64,
    /// Messages between the coordinator and partitions, repeats at partitions included.
    pub messages: u64,
    /// Calls that sites have run, those that ran again included.
    pub executed: u64,
}

struct NoNatives;

impl NativeProcedures for NoNatives {
    fn find(&self, _: &str) -> Option<NativeSource> {
        None
    }
}

impl World {
    /// A host without tables.
    pub fn new(seed: u64, shape: Shape) -> World {
        let partitions = shape.partitions;
        let ring = HashRing::new(partitions);
        let limits = SiteLimits {
            held_calls: 10_000,
            speculative_calls: if shape.speculates { 1_000 } else { 0 },
            speculative_bytes: 1 << 20,
            waiting_multi: 10_000,
            active_multi: shape.active_multi,
            stop_everything: shape.stop_everything,
            faults: shape.faults,
            result_bytes: 1 << 20,
            temporary_bytes: 1 << 24,
            batch_rows_min: 0,
            undo_bytes: 1 << 30,
        };
        let site = |number| Site::new(PartitionId(number), ring.clone(), &limits);
        World {
            random: SeededRandom::new(seed),
            sites: (0..partitions).map(site).collect(),
            coordinator: Coordinator::new(ring.clone(), &limits),
            ring,
            in_flight: Vec::new(),
            catalog: Catalog::default(),
            answers: Vec::new(),
            now_us: START_US,
            repeat_one_in: 0,
            trace: 0,
            messages: 0,
            executed: 0,
        }
    }

    /// Changes the schema and waits until it is in force.
    pub fn schema(&mut self, ddl: &str) {
        let parsed = parse_batch(ddl, &Limits::default()).expect("the workload's DDL is sound");
        let before = self.catalog.version;
        let change = self.catalog.apply(&parsed, &NoNatives).expect("it can be applied");
        self.catalog = change.catalog;
        let version = self.catalog.version;
        let task = SchemaTask {
            changes: change.changes,
            swap: None,
            catalog: version,
            catalog_version: version,
            advice: None,
        };
        let work = MultiWork::Schema(Arc::new(task));
        let declared = Vec::new();
        let (origin, catalog_version, time_limit) = (usize::MAX, before, None);
        let procedure_number = 0;
        let call =
            MultiCall { origin, procedure_number, catalog_version, time_limit, declared, work };
        self.in_flight.push(Message::Multi(call));
        self.settle();
        let answers = std::mem::take(&mut self.answers);
        let failed = answers.iter().find_map(|answer| answer.outcome.failure.as_ref());
        assert!(failed.is_none() && answers.len() == 1, "the schema change: {failed:?}");
    }

    /// Plans a statement.
    pub fn prepare(&self, sql: &str) -> Arc<PreparedStatement> {
        let parsed = parse_batch(sql, &Limits::default()).expect("the workload's SQL is sound");
        let planned = plan_statement(&self.catalog, &parsed[0], PlanContext::MultiPartition)
            .expect("it can be planned");
        Arc::new(PreparedStatement::new(Arc::new(planned)))
    }

    /// Sends statements as one transaction: to one partition where that is enough.
    pub fn call(&mut self, call: CallNumber, statements: &[(&Arc<PreparedStatement>, &[i64])]) {
        let bound: Vec<BoundStatement> = statements
            .iter()
            .map(|(statement, parameters)| {
                let mut writer = ParameterWriter::default();
                parameters.iter().for_each(|value| {
                    writer.bigint(*value);
                });
                BoundStatement {
                    statement: Arc::clone(statement),
                    parameters: writer.bytes().into(),
                    shipped: None,
                    profile: None,
                }
            })
            .collect();
        let read_only = bound.iter().all(|b| b.statement.statement().read_only);
        let partition = self.only_partition(&bound);
        let statements =
            StatementCall { statements: bound, read_only, counted: false, answer: None };
        self.in_flight.push(match partition {
            Some(partition) => Message::Call(partition, PartitionCall { call, statements }),
            None => {
                let work = MultiWork::Statements(statements);
                let catalog_version = self.catalog.version;
                let declared = Vec::new();
                let (origin, time_limit) = (call, None);
                Message::Multi(MultiCall {
                    origin,
                    procedure_number: 0,
                    catalog_version,
                    time_limit,
                    declared,
                    work,
                })
            }
        });
    }

    fn only_partition(&self, bound: &[BoundStatement]) -> Option<PartitionId> {
        let mut common = None;
        for statement in bound {
            let Execution::Local { routing: Some(routing), .. } =
                &statement.statement.statement().execution
            else {
                return None;
            };
            let given = ParameterSet::new(&statement.parameters).expect("written above");
            let value =
                routing_value(&statement.statement, routing, given).expect("integers route");
            let partition = self.ring.partition_of(value.as_datum());
            if common.is_some_and(|other| other != partition) {
                return None;
            }
            common = Some(partition);
        }
        common
    }

    /// Delivers one message, drawn by the seed; false when none is in flight.
    pub fn step(&mut self) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        self.now_us += self.random.below(STEP_US) as i64;
        let place = self.random.below(self.in_flight.len() as u64) as usize;
        let message = self.in_flight.swap_remove(place);
        let repeat = self.repeat_one_in > 0 && self.random.chance(1, self.repeat_one_in);
        if repeat && let Some(copy) = copy_of(&message) {
            self.in_flight.push(copy);
        }
        self.deliver(message);
        true
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

    /// Hashes of all partitions' data.
    pub fn content_hashes(&self) -> Vec<u64> {
        self.sites.iter().map(|site| site.database().content_hash()).collect()
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
        match message {
            Message::Multi(call) => {
                self.note(1 + ((call.origin as u64) << 8));
                let mut outputs = Vec::new();
                let accepted = self.coordinator.submit(call, self.now_us, &mut outputs);
                assert!(accepted.is_ok(), "the workload stays within the limits");
                self.carry_out(outputs);
            }
            Message::FromPartition(answer) => {
                self.note(2);
                let mut outputs = Vec::new();
                self.coordinator.receive(answer, self.now_us, &mut outputs);
                self.carry_out(outputs);
            }
            Message::ToPartition(message) => self.deliver_to_partition(message),
            Message::Call(partition, call) => {
                self.note(3 + (u64::from(partition.0) << 8) + ((call.call as u64) << 32));
                let site = &mut self.sites[partition.index()];
                self.executed += 1;
                match site.admit(self.now_us) {
                    Admission::Run(header) => {
                        let answer = run(site, &header, &call);
                        self.answers.push(answer);
                    }
                    Admission::Speculate(header) => speculate(site, header, call),
                    Admission::Hold => {
                        assert!(site.hold(call).is_ok(), "the workload stays within the limits");
                    }
                }
            }
        }
    }

    fn deliver_to_partition(&mut self, message: Numbered<u64>) {
        let place = message.partition.index();
        self.note(4 + ((place as u64) << 8) + (message.number << 16));
        self.messages += 1;
        let mut effects = Vec::new();
        self.sites[place].receive(message.number, message.message, self.now_us, &mut effects);
        self.apply(&mut effects);
        while let Some(ready) = self.sites[place].next(self.now_us, &mut effects) {
            self.executed += 1;
            self.apply(&mut effects);
            let site = &mut self.sites[place];
            match ready {
                Ready::Run(call, header) => self.answers.push(run(site, &header, &call)),
                Ready::Speculate(call, header) => speculate(site, header, call),
            }
        }
        self.apply(&mut effects);
    }

    fn apply(&mut self, effects: &mut Vec<PartitionEffect<PartitionCall, Answer, u64>>) {
        for effect in effects.drain(..) {
            match effect {
                PartitionEffect::Send(answer) => {
                    self.messages += 1;
                    self.in_flight.push(Message::FromPartition(answer));
                }
                PartitionEffect::Ran(_) => {}
                PartitionEffect::CatalogInForce(version) => {
                    assert!(version <= self.catalog.version, "no catalog from the future");
                }
                PartitionEffect::Answer(_, answer) => self.answers.push(answer),
            }
        }
    }

    fn carry_out(&mut self, outputs: Vec<CoordinatorOutput<CallNumber, u64>>) {
        for output in outputs {
            match output {
                CoordinatorOutput::Send(message) => {
                    self.in_flight.push(Message::ToPartition(message));
                }
                CoordinatorOutput::Stale(call) => unreachable!("call {call} has the one schema"),
                CoordinatorOutput::Finished(finished) => self.answers.push(Answer {
                    call: finished.origin,
                    outcome: finished.outcome,
                    tables: finished.tables,
                }),
            }
        }
    }
}

fn run(
    site: &mut Site<PartitionCall, Answer, u64>,
    header: &lockstep_txn::EntryHeader,
    call: &PartitionCall,
) -> Answer {
    let mut tables = Vec::new();
    let outcome = site.statements(header, &call.statements, &mut tables);
    Answer { call: call.call, outcome, tables }
}

fn speculate(
    site: &mut Site<PartitionCall, Answer, u64>,
    header: lockstep_txn::EntryHeader,
    call: PartitionCall,
) {
    let answer = run(site, &header, &call);
    let bytes = answer.tables.len();
    site.keep(call, header, answer, bytes);
}

/// Messages between the coordinator and partitions may arrive twice; calls of clients are sent
/// once.
fn copy_of(message: &Message) -> Option<Message> {
    match message {
        Message::Call(..) | Message::Multi(_) => None,
        Message::FromPartition(message) => Some(Message::FromPartition(message.clone())),
        Message::ToPartition(message) => Some(Message::ToPartition(message.clone())),
    }
}
