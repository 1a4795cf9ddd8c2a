//! The control thread: everything that is not the data path. It parses and plans ad hoc SQL,
//! makes schema changes, and answers system procedures.
//!
//! It owns the newest catalog. While the coordinator has a schema change, new ad hoc calls are
//! deferred: their plans would be stale. Plans that a change overtakes on their way to a partition
//! come back and are made again.

mod ad_hoc;
mod answer;
mod arguments;
pub(crate) mod change;
mod classes;
mod cluster;
mod copies;
mod deployment;
mod explain;
mod files;
mod hosts;
mod joining;
mod lead;
mod lead_move;
mod load;
mod logging;
pub(crate) mod members;
mod merged;
mod moves;
pub(crate) mod operations;
mod overview;
mod own_calls;
pub(crate) mod planner;
mod procedures;
pub(in crate::control) mod rebalance;
mod resources;
mod send;
mod snapshot;
mod statistics;
mod stop;
mod stop_node;
mod swap;
pub mod system;
mod tasks;
mod time_to_live;
mod waiting_moves;

use crate::catalog::{HostCatalog, NativeRegistry};
use crate::clock;
use crate::codec::{Received, read_message, write_message};
use crate::log::LogPruner;
use crate::mailbox::{Bell, Inbox, Outbox};
use crate::message::{ControlRequest, Envelope, ForwardedAnswer, Origin};
use crate::shard::HostFacts;
use copies::CopiesCall;
use files::FileWork;
use joining::Joining;
use lead::Lead;
use lead_move::LeadMove;
use lockstep_base::elapsed::Elapsed;
use lockstep_exec::watch::TimeLimit;
use lockstep_host::expiry;
use lockstep_host::names::CatalogNames;
use lockstep_host::schema::index_build;
use lockstep_host::snapshots::SnapshotSchedule;
use lockstep_host::statement_cache::StatementSources;
use lockstep_host::tasks::{Tasks, make_due};
use lockstep_site::codec::MessageError;
use lockstep_types::Failure;
use lockstep_wire_volt::Invocation;
use mio::{Events, Poll};
use moves::LeaderMoves;
use planner::Planner;
use resources::Resources;
pub(crate) use resources::memory_limit_bytes;
pub(crate) use snapshot::AUTOMATIC_PREFIX;
use snapshot::{Keeper, Restoring, Snapshots};
use statistics::Statistics;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use stop::Stop;
use time_to_live::Expiry;

/// What the thread is made from.
pub struct ControlParts {
    /// Its poll; the waker of `bell` belongs to it.
    pub poll: Poll,
    /// Its bell.
    pub bell: Arc<Bell>,
    /// Sends to the site threads.
    pub outbox: Outbox<Envelope>,
    /// Receives from them.
    pub inbox: Inbox<Envelope>,
    /// What all threads know.
    pub facts: Arc<HostFacts>,
    /// The first catalog.
    pub catalog: Arc<HostCatalog>,
    /// What `FROM NATIVE` finds.
    pub natives: NativeRegistry,
    /// The bells of the sites.
    pub site_bells: Vec<Arc<Bell>>,
    /// Tells the command log what it need not keep; none where nothing is logged.
    pub log_pruner: Option<LogPruner>,
    /// Bytes of the command log after the snapshot that recovery began with.
    pub unsaved_bytes: u64,
    /// By partition, the command log has every entry with a greater number.
    pub log_reach: Vec<u64>,
    /// Of a host that joins a running cluster: waits until it takes calls.
    pub joined: Option<SyncSender<Result<(), String>>>,
}

/// The control thread.
pub struct Control {
    poll: Poll,
    bell: Arc<Bell>,
    outbox: Outbox<Envelope>,
    inbox: Inbox<Envelope>,
    facts: Arc<HostFacts>,
    natives: NativeRegistry,
    /// The catalog in force, and its changes.
    schema: change::HostSchema,
    /// The thread that prepares a change.
    preparing: Option<change::Preparing>,
    /// Plans and explains SQL text.
    planner: Planner,
    /// What the threads count, for calls and for the planner.
    statistics: Statistics,
    site_bells: Vec<Arc<Bell>>,
    /// Tells the command log what it need not keep.
    log_pruner: Option<LogPruner>,
    /// Work with files that other threads do.
    files: FileWork,
    snapshots: Snapshots,
    restoring: Option<Restoring>,
    resources: Resources,
    stop: Stop,
    tasks: Tasks,
    /// Deletes rows whose time is over.
    expiry: Expiry,
    /// How far copies are that move.
    rebalance: rebalance::Rebalance,
    /// Answers of calls that this thread made itself, with who made them.
    own_answers: VecDeque<ForwardedAnswer>,
    /// What other hosts owe.
    hosts: cluster::OtherHosts,
    /// What one does for all.
    lead: Lead,
    /// That moves to another host.
    lead_move: LeadMove,
    /// Leaders that administrators move.
    moves: LeaderMoves,
    /// The call that waits for a change of copies.
    copies_call: Option<CopiesCall>,
    /// Since when this host, which is being removed, has no copies.
    empty_since_us: Option<i64>,
    stopping_host: stop_node::StoppingHost,
    /// This host joins the cluster.
    joining: Option<Joining>,
    stopping: bool,
}

/// A call of a system procedure.
pub struct SystemCall {
    origin: Origin,
    admin: bool,
    body: Arc<[u8]>,
    /// How long its queries may run, if it only reads.
    time_limit: Option<TimeLimit>,
}

/// The changes of a catalog that is in force.
fn host_schema(facts: &HostFacts, catalog: Arc<HostCatalog>) -> change::HostSchema {
    let deferred_max = facts.options.max_planner_queue.get();
    change::HostSchema::new(catalog, facts.partition_count, deferred_max)
}

impl Control {
    /// Assembles the thread's state.
    pub fn new(parts: ControlParts) -> Control {
        let least_ms = parts.facts.options.task_min_interval_ms.get();
        let tasks = Tasks::new(parts.facts.partition_count, least_ms);
        let mut expiry = Expiry::new(&parts.facts.options, parts.facts.partition_count);
        let placement = parts.facts.placement();
        let lead = Lead::new(&placement);
        if !placement.leads_control() {
            expiry.stop();
        }
        let schema = host_schema(&parts.facts, parts.catalog);
        let logs = parts.log_pruner.is_some();
        let keeper = Keeper::new(&parts.facts, logs.then_some(parts.log_reach));
        let settings = snapshot::settings(&parts.facts, logs);
        let schedule = SnapshotSchedule::new(settings, parts.unsaved_bytes);
        Control {
            poll: parts.poll,
            bell: parts.bell,
            outbox: parts.outbox,
            inbox: parts.inbox,
            planner: Planner::new(Arc::clone(&parts.facts)),
            statistics: Statistics::new(Arc::clone(&parts.facts)),
            resources: Resources::new(Arc::clone(&parts.facts)),
            facts: parts.facts,
            natives: parts.natives,
            schema,
            preparing: None,
            site_bells: parts.site_bells,
            log_pruner: parts.log_pruner,
            files: FileWork::new(),
            snapshots: Snapshots::new(schedule, keeper),
            restoring: None,
            stop: Stop::default(),
            tasks,
            expiry,
            rebalance: rebalance::Rebalance::default(),
            own_answers: VecDeque::new(),
            hosts: cluster::OtherHosts::default(),
            lead,
            lead_move: LeadMove::default(),
            moves: LeaderMoves::default(),
            copies_call: None,
            empty_since_us: None,
            stopping_host: stop_node::StoppingHost::default(),
            joining: parts.joined.map(Joining::new),
            stopping: false,
        }
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// The poll itself failed.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        index_build::resume(&mut self);
        self.outbox.flush();
        expiry::set_tables(&mut self);
        while !self.stopping {
            self.begin_survey_if_due();
            self.bell.prepare_sleep();
            let prepared = self.take_prepared();
            let timeout = match (self.inbox.is_empty() && !prepared, self.outbox.has_unsent()) {
                (false, _) => Some(Duration::ZERO),
                (true, true) => Some(Duration::from_micros(50)),
                (true, false) => self.time_left(),
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => other?,
            }
            self.bell.awake();
            for lane in 0..self.inbox.lane_count() {
                while let Some(message) = self.inbox.take(lane) {
                    // A decision comes first that was sent before whatever led to this message.
                    self.take_decisions();
                    self.take_message(message);
                    // The next one may take long.
                    self.outbox.close();
                }
            }
            self.take_decisions();
            self.attend_to_own_work();
            self.outbox.flush();
        }
        Ok(())
    }

    /// Takes the decisions of schema changes, which overtake all other messages: a client that has
    /// the response to its change, from whichever thread, finds the new catalog here.
    fn take_decisions(&mut self) {
        while let Some(message) = self.inbox.take_urgent() {
            self.take_message(message);
        }
    }

    /// Snapshots and restores go on.
    fn attend_to_own_work(&mut self) {
        self.attend_to_files();
        self.attend_to_snapshots();
        self.attend_to_learned();
        self.attend_to_restore();
        self.attend_to_resources();
        self.attend_to_stop();
        self.attend_to_leader_moves();
        self.attend_to_copies();
        self.attend_to_removal();
        self.attend_to_rebalance(false);
        self.attend_to_joining();
        self.attend_to_expiry();
        index_build::retry_due(self);
        self.attend_to_own_calls();
        // After what makes a new catalog and what ends a restore.
        make_due(self);
    }

    /// Until something is due.
    fn time_left(&self) -> Option<Duration> {
        // Elsewhere none begins, and what is due would wake the thread again and again.
        let surveys = self.facts.placement().leads_control();
        let survey = surveys.then(|| self.statistics.survey_time_left(clock::now_us())).flatten();
        let snapshot = self.snapshot_time_left();
        let look = Some(self.resources.time_left());
        let task = self.task_time_left();
        let expiry = self.expiry.time_left(clock::now_us());
        let build = self.schema.retry_us();
        let build = build.map(|due_us| Elapsed::between_us(clock::now_us(), due_us).duration());
        let moves = self.moves.time_left();
        let joining = self.joining_time_left();
        let learned = self.learned_time_left();
        let copies = self.copies_call.as_ref().map(CopiesCall::time_left);
        let copies = copies.or(self.removal_time_left());
        let rebalance = self.rebalance.time_left();
        let copies = copies.into_iter().chain(rebalance).min();
        let due = [survey, snapshot, look, task, expiry, build, moves, copies, joining, learned];
        due.into_iter().flatten().min()
    }

    fn take_message(&mut self, message: Envelope) {
        let message = match self.facts.sends_bytes {
            false => message,
            true => self.through_bytes(message),
        };
        match message {
            Envelope::Control(request) => match *request {
                ControlRequest::Call { origin, admin, body } => {
                    self.route_call(origin, admin, body);
                }
                ControlRequest::PrepareChange { lead, catalog_version, source } => {
                    self.prepare_for_lead(lead, catalog_version, &source);
                }
                ControlRequest::ChangePrepared { host, catalog_version, failure } => {
                    self.host_prepared(host, catalog_version, failure);
                }
                ControlRequest::Snapshot { host, nonce, step } => {
                    self.snapshot_step(host, &nonce, step);
                }
                ControlRequest::SchemaDecided { committed, catalog_version } => {
                    self.schema_decided(committed, catalog_version);
                }
                ControlRequest::SchemaAnswer { catalog_version, answer } => {
                    self.answer_when_in_force(catalog_version, *answer);
                }
                ControlRequest::CatalogTaken { thread, catalog_version } => {
                    self.catalog_taken(thread, catalog_version);
                }
                ControlRequest::CatalogInForce { host, catalog_version } => {
                    self.catalog_in_force_at(host, catalog_version);
                }
                ControlRequest::AskCatalog { host } => self.give_catalog(host),
                ControlRequest::CatalogGiven { catalog, is_paused } => {
                    self.take_given_catalog(&catalog, is_paused);
                }
                ControlRequest::Surveyed { thread, tables } => self.surveyed(thread, tables),
                ControlRequest::ExpirySeen { catalog_version, seen } => {
                    expiry::polled(self, catalog_version, seen);
                }
                ControlRequest::Gathered { request, snapshot } => {
                    self.gathered(request, *snapshot);
                }
            },
            // Calls that are planned or wait for a schema change are those of connections, whose
            // threads wait for the answers.
            Envelope::Incoming(message) => self.take_incoming(&message),
            Envelope::Placement(placement) => self.follow_placement(&placement),
            Envelope::Drain => self.expiry.stop(),
            Envelope::Answer(answer) => self.own_answers.push_back(answer),
            Envelope::Stop => self.stopping = true,
            _ => unreachable!("site threads send requests only"),
        }
    }

    /// The message, as another process would get it.
    #[cold]
    fn through_bytes(&mut self, message: Envelope) -> Envelope {
        let mut bytes = Vec::new();
        if !write_message(&mut bytes, &message) {
            return message;
        }
        match self.read(&bytes) {
            Ok(Received::Message(message)) => message,
            Ok(_) => unreachable!("calls go to sites"),
            Err(error) => panic!("a message of this host is not read: {error}"),
        }
    }

    /// Reads a message in its byte form.
    fn read(&mut self, bytes: &[u8]) -> Result<Received, MessageError> {
        let limits = self.facts.options.sql_limits();
        let sources = StatementSources {
            catalog: self.schema.catalog(),
            limits: &limits,
            partition_count: self.facts.partition_count,
        };
        let (mut statements, prepared) = Default::default();
        let statements = &mut statements;
        let mut names = CatalogNames {
            sources,
            partition_count: self.facts.partition_count,
            statements,
            prepared: &prepared,
        };
        read_message(bytes, &mut names, &mut self.outbox.spare)
    }

    fn call(&mut self, mut call: SystemCall) {
        self.planner.follow_rules();
        let body = Arc::clone(&call.body);
        let invocation = match Invocation::decode(&body) {
            Ok(invocation) => invocation,
            Err(rejection) => {
                let failure = Failure::unexpected(rejection.message());
                return self.answer_failure(call.origin, &failure);
            }
        };
        let origin = call.origin;
        call.time_limit =
            self.facts.options.time_limit(invocation.query_timeout_ms, origin.caller());
        if let Err(failure) = self.system_procedure(call, &invocation) {
            self.answer_failure(origin, &failure);
        }
    }

    /// Tells subscribers of the procedures that there are now.
    fn push_catalog(&mut self) {
        let mut frame = Vec::new();
        let handle = lockstep_wire_volt::topology::CATALOG_CHANGED_HANDLE;
        answer::write_tables(&mut frame, handle, clock::now_us(), clock::now_us(), |out| {
            answer::procedures(out, self.schema.catalog())
        });
        let frame: Arc<[u8]> = frame.into();
        for thread in self.facts.placement().sites() {
            self.outbox.send(thread, Envelope::Push(Arc::clone(&frame)));
        }
    }
}
