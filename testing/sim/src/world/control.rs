//! The control thread of a simulated host: it plans statements, and drives changes of the schema
//! through [`lockstep_host::schema`]. What it sends to the coordinator arrives in order, and so
//! does what the coordinator sends to it; between the two, anything may come.

use super::{Message, SimTasks, World};
use crate::plans::{Natives, NoCode, Planned, Request, SimCatalog};
use crate::world::CallNumber;
use lockstep_base::bytes::ByteReader;
use lockstep_host::catalog::HostCatalog;
use lockstep_host::expiry;
use lockstep_host::schema::change::{CatalogChange, OwnedChange, PreparedChange, prepare_change};
use lockstep_host::schema::{self, Requester, SchemaChanges, SchemaHost, Turn, index_build};
use lockstep_plan::Catalog;
use lockstep_site::fence::EndedChange;
use lockstep_site::{
    ExpiryUnitId, Faults, Finished, MultiCall, MultiWork, SchemaTask, StatementCall,
};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::{Datum, Failure, TableView};
use std::collections::VecDeque;
use std::sync::Arc;

/// Stands for the call of a client that changes the schema.
const SCHEMA_CALL: CallNumber = usize::MAX;
/// Stands for a step of building a global index.
const BUILD_CALL: CallNumber = usize::MAX - 1;
/// Stands for the beginning of a snapshot.
pub(super) const SNAPSHOT_CALL: CallNumber = usize::MAX - 3;

/// Most rows of a step of an index build at a partition: few, so that calls run between the steps.
const BUILD_ROWS_MAX: u64 = 3;
/// Calls that may wait for the end of a schema change.
const DEFERRED_MAX: u64 = 10_000;

/// Why a host does not add rows to an index.
pub(crate) const NO_INTAKE: &str = "the host takes no more data";

/// The number of a requested change.
pub type ChangeNumber = usize;

/// How a change of the schema ended: none where the host itself resumed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeAnswer {
    /// Which one; none for the build of an index that the host resumed.
    pub change: Option<ChangeNumber>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// A change that the control thread is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestedChange {
    Ddl(String),
    Swap(&'static str, &'static str),
    /// Classes, as a jar.
    Classes(Vec<u8>),
}

/// A call that the control thread handles.
#[derive(Debug, Clone)]
pub(super) enum ControlCall {
    /// A request of statements or of rows, which it plans.
    Plan(CallNumber),
    Change(ChangeNumber, RequestedChange),
}

/// A message to the control thread.
pub(crate) enum ToControl {
    /// The coordinator has decided a change, or the beginning of a snapshot.
    Decided { committed: bool },
    /// The response of a step of an index build.
    StepEnded(Result<i64, Failure>),
    /// A thread has prepared a change.
    Prepared(Box<Result<PreparedChange<NoCode>, Failure>>),
    /// A partition has polled for expired rows, with this catalog in force.
    Polled { catalog_version: u64, found: Vec<(ExpiryUnitId, Option<u64>)> },
}

/// The control thread.
pub(super) struct ControlThread {
    pub(super) schema: SchemaChanges<ControlCall, ChangeNumber, NoCode>,
    /// Who requested the change that the coordinator has.
    requester: Option<Requester<ChangeNumber>>,
    next_change: ChangeNumber,
    /// Messages that it has sent to the coordinator, and the coordinator to it.
    pub(super) sent: u64,
    received: u64,
    answers: VecDeque<ChangeAnswer>,
    /// A change that was at a coordinator that is lost.
    lost: Option<CallNumber>,
    /// One step of an index build in this many finds that the host takes no more data; 0 for none.
    pub(super) full_one_in: u64,
}

impl ControlThread {
    pub(super) fn new(catalog: Arc<HostCatalog<NoCode>>, partition_count: u32) -> ControlThread {
        ControlThread {
            schema: SchemaChanges::new(catalog, partition_count, DEFERRED_MAX),
            requester: None,
            next_change: 0,
            sent: 0,
            received: 0,
            answers: VecDeque::new(),
            lost: None,
            full_one_in: 0,
        }
    }
}

/// The control thread with the rest of its host, as [`lockstep_host::schema`] sees it.
pub(super) struct AtControl<'w> {
    pub(super) world: &'w mut World,
}

impl World {
    pub(super) fn at_control(&mut self) -> AtControl<'_> {
        AtControl { world: self }
    }

    /// Changes the schema and waits until it is in force.
    pub fn schema(&mut self, ddl: &str) {
        self.begin_schema(ddl);
        self.settle();
        let failure = self.take_change_answer().map(|answer| answer.failure);
        assert_eq!(failure, Some(None), "the schema change");
    }

    /// Requests a change of the schema by DDL text.
    pub fn begin_schema(&mut self, ddl: &str) -> ChangeNumber {
        self.begin_change(RequestedChange::Ddl(ddl.to_string()))
    }

    /// Requests a change of the catalog. It waits until those before it have ended.
    pub(crate) fn begin_change(&mut self, change: RequestedChange) -> ChangeNumber {
        let number = self.control.next_change;
        self.control.next_change += 1;
        self.control_call(ControlCall::Change(number, change));
        number
    }

    /// How a schema change ended, if one has since the last time.
    pub fn take_change_answer(&mut self) -> Option<ChangeAnswer> {
        self.control.answers.pop_front()
    }

    /// Resumes the build of a global index that the host had in progress when it stopped.
    pub(crate) fn resume_build(&mut self) {
        index_build::resume(&mut self.at_control());
    }

    /// When a step of an index build is repeated, if one is.
    pub(super) fn retry_us(&self) -> Option<i64> {
        self.control.schema.retry_us()
    }

    /// The control thread looks at the clock: a step of an index build may be repeated.
    pub(super) fn retry_build(&mut self) {
        index_build::retry_due(&mut self.at_control());
    }

    /// One step of index builds in this many finds that the host takes no more data.
    pub(crate) fn refuse_intake(&mut self, one_in: u64) {
        self.control.full_one_in = one_in;
    }

    /// The newest catalog in force, with its version.
    pub(crate) fn latest(&self) -> (u64, &SimCatalog) {
        let version = self.versions.iter().max().expect("a host has partitions");
        (*version, &self.catalogs[version])
    }

    /// The catalog of the control thread after a recovery.
    pub(super) fn restart_control(&mut self, catalog: Arc<HostCatalog<NoCode>>) {
        let partition_count = self.partition_count();
        self.control = ControlThread::new(catalog, partition_count);
        self.tasks = SimTasks::new(partition_count);
        expiry::set_tables(&mut self.at_control());
    }

    /// A call arrives at the control thread.
    pub(super) fn control_call(&mut self, call: ControlCall) {
        match call {
            ControlCall::Plan(number) => match self.control.schema.plan_turn(call) {
                Ok(Turn::Now(_)) => self.plan_at_control(number),
                Ok(Turn::Deferred) => {}
                Err(why) => unreachable!("the workload stays within the limits: {why}"),
            },
            ControlCall::Change(number, change) => {
                if let Err(why) = self.requested_change(number, change) {
                    self.answer_change(Some(number), Err(why));
                }
            }
        }
    }

    fn requested_change(
        &mut self,
        number: ChangeNumber,
        change: RequestedChange,
    ) -> Result<(), Failure> {
        let call = ControlCall::Change(number, change);
        let Turn::Now(ControlCall::Change(_, change)) = self.control.schema.change_turn(call)?
        else {
            return Ok(());
        };
        match &change {
            RequestedChange::Ddl(text) => {
                let parsed = parse_batch(text, &Limits::default());
                let parsed = parsed.map_err(|error| Failure::graceful(error.to_string()))?;
                let build = self.control.schema.catalog().plan.build_of(&parsed);
                schema::request_ddl(&mut self.at_control(), number, text, build)?;
            }
            RequestedChange::Swap(one, other) => {
                schema::request(&mut self.at_control(), number, CatalogChange::Swap(one, other))?;
            }
            RequestedChange::Classes(jar) => {
                let change = CatalogChange::Classes { jar: Some(jar), removed: None };
                schema::request(&mut self.at_control(), number, change)?;
            }
        }
        Ok(())
    }

    /// Plans a request of statements or of rows, and sends it to where it runs.
    fn plan_at_control(&mut self, call: CallNumber) {
        let request = self.requests.get(&call).cloned().expect("it was requested");
        let version = self.control.schema.catalog().version();
        let catalog = self.catalogs.get_mut(&version).expect("it is in force");
        let planned = catalog.plan(call, &request, &self.ring, &mut self.one_rounds);
        self.send_from_control(call, version, planned);
    }

    /// Sends work that the control thread has planned.
    pub(super) fn send_from_control(
        &mut self,
        call: CallNumber,
        catalog_version: u64,
        planned: Planned,
    ) {
        match self.message_of(call, catalog_version, planned) {
            Message::Multi(call) => self.order_from_control(call),
            other => self.in_flight.push(other),
        }
    }

    /// Sends work to the coordinator.
    pub(super) fn send_multi(&mut self, origin: CallNumber, work: MultiWork<u64>) {
        let catalog_version = self.control.schema.catalog().version();
        self.order_from_control(MultiCall {
            origin,
            procedure_number: 0,
            catalog_version,
            time_limit: None,
            declared: Vec::new(),
            home: None,
            led: None,
            work,
        });
    }

    fn order_from_control(&mut self, call: MultiCall<CallNumber, u64>) {
        self.control.sent += 1;
        self.in_flight.push(Message::Ordered(self.control.sent, call));
    }

    /// Whether the coordinator's answer is for the control thread, which gets it then.
    pub(super) fn finished_for_control(&mut self, finished: &Finished<CallNumber>) -> bool {
        if ![SCHEMA_CALL, BUILD_CALL, SNAPSHOT_CALL].contains(&finished.origin) {
            return false;
        }
        let failure = finished.outcome.failure.clone();
        let rows = match failure.is_none() && !finished.is_schema {
            true => count(&finished.tables),
            false => 0,
        };
        self.ended_for_control(finished.origin, finished.is_schema, failure.map_or(Ok(rows), Err));
        true
    }

    /// What the control thread has sent to the coordinator has ended.
    fn ended_for_control(
        &mut self,
        origin: CallNumber,
        is_schema: bool,
        result: Result<i64, Failure>,
    ) {
        if is_schema {
            let committed = result.is_ok();
            if !committed && origin != SNAPSHOT_CALL {
                let (version, in_force) = (self.catalogs.pop_last(), self.latest().0);
                assert!(version.is_some_and(|(version, _)| version == in_force + 1));
            }
            self.tell_control(ToControl::Decided { committed });
        }
        match origin {
            SCHEMA_CALL => self.answer_requester(result.err()),
            BUILD_CALL => self.tell_control(ToControl::StepEnded(result)),
            _ => {}
        }
    }

    /// The coordinator is lost with something that the control thread has sent: how a change ends
    /// the next one finds out, and a step of an index build is repeated. False if it is a call.
    pub(super) fn lost_for_control(&mut self, origin: CallNumber) -> bool {
        if ![SCHEMA_CALL, BUILD_CALL, SNAPSHOT_CALL].contains(&origin) {
            return false;
        }
        match self.control.schema.is_ordered() {
            true => self.control.lost = Some(origin),
            false => {
                self.ended_for_control(origin, false, Err(Failure::graceful(super::UNKNOWN)));
            }
        }
        true
    }

    /// A coordinator has taken over, and all partitions have ended what was in progress.
    pub(super) fn coordinator_took_over(&mut self, ended: &[EndedChange]) {
        // What came for the coordinator waits for the catalog in force there.
        let early = self.bytes.take_early();
        self.in_flight.extend(early);
        let Some(origin) = self.control.lost.take() else { return };
        let version = self.control.schema.catalog().version() + 1;
        let committed = ended.iter().any(|ended| {
            let change = &ended.change;
            ended.committed && change.snapshot.is_none() && change.catalog_version == version
        });
        if let Some(replicas) = &mut self.replicas {
            replicas.counts.changes_ended[usize::from(!committed)] += 1;
        }
        let failure = || Failure::graceful(super::UNKNOWN);
        let result = if committed { Ok(0) } else { Err(failure()) };
        self.ended_for_control(origin, true, result);
    }

    fn tell_control(&mut self, message: ToControl) {
        self.control.received += 1;
        self.in_flight.push(Message::ToControl(self.control.received, message));
    }

    /// The coordinator's answer to the client that requested a change: the change is in force at
    /// all partitions, or at none.
    fn answer_requester(&mut self, failure: Option<Failure>) {
        let Some(Requester::Client(number)) = self.control.requester.take() else {
            unreachable!("a client requested the change");
        };
        let (first, versions) = (self.versions[0], &self.versions);
        assert!(versions.iter().all(|version| *version == first), "{versions:?}");
        self.answer_change(Some(number), failure.map_or(Ok(()), Err));
    }

    fn answer_change(&mut self, change: Option<ChangeNumber>, result: Result<(), Failure>) {
        let failure = result.err().map(|failure| failure.message);
        self.control.answers.push_back(ChangeAnswer { change, failure });
    }

    /// A message of the coordinator arrives.
    pub(super) fn deliver_to_control(&mut self, message: ToControl) {
        match message {
            ToControl::Decided { committed } => schema::decided(&mut self.at_control(), committed),
            ToControl::Prepared(change) => schema::prepared(&mut self.at_control(), *change),
            ToControl::Polled { catalog_version, found } => {
                expiry::polled(&mut self.at_control(), catalog_version, found);
            }
            ToControl::StepEnded(result) => index_build::step_ended(&mut self.at_control(), result),
        }
    }

    /// Whether requests are planned by the control thread, as the thread of a connection finds it.
    pub(super) fn is_planned_by_control(&self, connected: usize, request: &Request) -> bool {
        match request {
            Request::Statements(_) | Request::At(..) => true,
            Request::Load(table, _) => {
                let catalog = &self.catalogs[&self.versions[connected]].host;
                let table = catalog.plan.table(table);
                table.is_some_and(|table| {
                    let definition = &table.definition;
                    definition.is_replicated() || !definition.global_indexes.is_empty()
                })
            }
            Request::Procedure(_) => false,
        }
    }
}

impl SchemaHost for AtControl<'_> {
    type Call = ControlCall;
    type Origin = ChangeNumber;
    type Outside = NoCode;

    fn schema_changes(&mut self) -> &mut SchemaChanges<ControlCall, ChangeNumber, NoCode> {
        &mut self.world.control.schema
    }

    fn faults(&self) -> Faults {
        self.world.shape.faults
    }

    fn prepare_change(
        &mut self,
        change: CatalogChange<'_>,
    ) -> Result<PreparedChange<NoCode>, Failure> {
        prepared(self.world.control.schema.catalog(), &self.world.natives, change)
    }

    fn prepare_on_own_thread(&mut self, change: OwnedChange) -> Result<(), Failure> {
        let catalog = self.world.control.schema.catalog();
        let change = prepared(catalog, &self.world.natives, change.borrowed());
        self.world.in_flight.push(Message::Unordered(ToControl::Prepared(Box::new(change))));
        Ok(())
    }

    fn check_limits(&mut self, _: &Catalog) -> Result<(), Failure> {
        Ok(())
    }

    fn order(
        &mut self,
        requester: Requester<ChangeNumber>,
        task: SchemaTask<Arc<HostCatalog<NoCode>>>,
    ) {
        let version = task.catalog_version;
        self.world.catalogs.insert(version, SimCatalog::of(Arc::clone(&task.catalog)));
        self.world.control.requester = Some(requester);
        let origin = match requester {
            Requester::Client(_) => SCHEMA_CALL,
            Requester::IndexBuild => BUILD_CALL,
        };
        let task = Arc::new(task.with_catalog(version));
        self.world.bytes.note_prepared(&task);
        if let Some(replicas) = &mut self.world.replicas {
            replicas.note_change(&task);
        }
        self.world.send_multi(origin, MultiWork::Schema(task));
    }

    fn in_force(&mut self, _: Vec<String>, _: String) {
        expiry::set_tables(self);
    }

    fn snapshot_decided(&mut self, committed: bool) {
        self.world.save_decided(committed);
    }

    fn handle(&mut self, call: ControlCall) {
        self.world.control_call(call);
    }

    fn refuse(&mut self, origin: ChangeNumber, why: &Failure) {
        self.world.answer_change(Some(origin), Err(why.clone()));
    }

    fn check_intake(&mut self) -> Result<(), Failure> {
        let one_in = self.world.control.full_one_in;
        match one_in > 0 && self.world.random.chance(1, one_in) {
            true => Err(Failure::graceful(NO_INTAKE)),
            false => Ok(()),
        }
    }

    fn build_rows_max(&mut self) -> u32 {
        1 + self.world.random.below(BUILD_ROWS_MAX) as u32
    }

    fn order_build_step(&mut self, work: StatementCall) {
        self.world.send_multi(BUILD_CALL, MultiWork::Statements(work));
    }

    fn build_paused(&mut self, _: &str, _: &Failure, _: i64) {
        self.world.build_pauses += 1;
    }

    fn build_ended(
        &mut self,
        origin: Option<ChangeNumber>,
        _: &str,
        result: Result<Option<String>, Failure>,
    ) {
        self.world.answer_change(origin, result.map(|_| ()));
    }
}

/// Prepares a change with what the catalog in force was planned with.
fn prepared(
    catalog: &HostCatalog<NoCode>,
    natives: &Natives,
    change: CatalogChange<'_>,
) -> Result<PreparedChange<NoCode>, Failure> {
    prepare_change(catalog, natives, change, &catalog.plan.planning)
}

/// The count that a step of an index build answers with.
fn count(tables: &[u8]) -> i64 {
    let table = TableView::read(&mut ByteReader::new(tables)).expect("it has a table");
    let mut values = Vec::new();
    if let Some(Ok(row)) = table.rows().next() {
        row.read_into(&mut values).expect("its own row");
    }
    match values.as_slice() {
        [Datum::Int(count)] => *count,
        other => unreachable!("a step counts its rows: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::SimClasses;
    use crate::world::Shape;

    /// Statements of a connection are planned as they were sent: those that waited for a change
    /// are planned before those that arrive while another thread prepares the next one.
    #[test]
    fn calls_that_waited_for_a_change_are_not_overtaken_while_the_next_one_is_prepared() {
        let turn = "UPDATE t SET passed = passed + CASE WHEN last < ? THEN 1 ELSE 0 END, last = ?";
        for seed in 1..=20 {
            let mut world = World::new(seed, Shape::of(2));
            world.schema("CREATE TABLE t (id BIGINT NOT NULL, last BIGINT, passed BIGINT);");
            world.schema("PARTITION TABLE t ON COLUMN id;");
            let insert = world.prepare("INSERT INTO t VALUES (?, 0, 0)");
            (0..20).for_each(|id| world.call(id as usize, &[(&insert, &[id])]));
            world.settle();
            let take_turn = |world: &mut World, turns: std::ops::Range<i64>| {
                for number in turns {
                    let statement = (world.prepare(turn), vec![number, number]);
                    let request = Request::Statements(vec![statement]);
                    world.request_in_order(0, 100 + number as usize, request);
                }
            };
            let classes =
                |version| RequestedChange::Classes(SimClasses(version).jar().as_slice().into());
            world.begin_schema("CREATE TABLE u (id BIGINT NOT NULL);");
            take_turn(&mut world, 1..2);
            world.begin_change(classes(1));
            take_turn(&mut world, 2..3);
            world.begin_change(classes(2));
            take_turn(&mut world, 3..5);
            while world.control.schema.is_ordered() {
                assert!(world.step(), "the first change ends");
            }
            assert!(world.control.schema.is_changing(), "the second one is prepared");
            take_turn(&mut world, 5..8);
            world.settle();
            assert_eq!(world.take_answers().len(), 27);
            let text = "SELECT COUNT(*) FROM t WHERE passed = 7 AND last = 7";
            assert_eq!(crate::power::read(&mut world, text), Ok(vec![vec![20]]), "seed {seed}");
            let answers: Vec<_> = std::iter::from_fn(|| world.take_change_answer()).collect();
            let made = [2, 3, 4].map(|change| ChangeAnswer { change: Some(change), failure: None });
            assert_eq!(answers, made);
            assert!(world.is_idle());
        }
    }

    /// The drop of an index whose build failed is repeated with growing pauses until it succeeds.
    #[test]
    fn the_drop_of_a_failed_index_build_is_repeated_after_pauses() {
        let mut world = World::new(7, Shape::of(2));
        world.schema("CREATE TABLE t (id BIGINT NOT NULL, k BIGINT NOT NULL, PRIMARY KEY (id));");
        world.schema("PARTITION TABLE t ON COLUMN id;");
        let insert = world.prepare("INSERT INTO t VALUES (?, ?)");
        (0..20).for_each(|id| world.call(id as usize, &[(&insert, &[id, id])]));
        world.settle();
        world.begin_schema("CREATE GLOBAL UNIQUE INDEX t_k ON t (k);");
        while world.latest().1.host.plan.builds().next().is_none() {
            assert!(world.step(), "the index is declared");
        }
        // Nothing succeeds from now on: first the build fails, then its drop.
        let mut paused_us = Vec::new();
        for _ in 0..2_000 {
            let before = world.build_pauses;
            assert!(world.step(), "the drop is repeated");
            world.fail_all();
            if world.build_pauses > before {
                paused_us.push(world.now_us);
            }
            if paused_us.len() == 6 {
                break;
            }
        }
        assert_eq!(paused_us.len(), 6, "{paused_us:?}");
        for (number, pair) in paused_us.windows(2).enumerate() {
            let pause_us = 10_000 << number;
            assert!((pause_us..pause_us + 10_000).contains(&(pair[1] - pair[0])), "{paused_us:?}");
        }
        assert!(world.take_change_answer().is_none(), "the build has not ended");
        world.settle();
        let answer = world.take_change_answer().expect("the build has ended");
        assert!(answer.failure.is_some_and(|why| why.contains(crate::world::FAILED)));
        assert!(world.latest().1.host.plan.builds().next().is_none() && world.is_idle());
        assert_eq!(world.retry_us(), None);
        world.schema("CREATE GLOBAL UNIQUE INDEX t_k ON t (k);");
    }
}
