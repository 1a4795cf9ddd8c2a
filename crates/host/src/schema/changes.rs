//! The order of schema changes at a host: one at a time. Calls that are planned at this place wait
//! while the coordinator has a change, because plans of the old catalog would be overtaken; other
//! schema changes wait until it is decided, and until a global index is built.

use super::change::{CatalogChange, OwnedChange, PreparedChange};
use super::index_build::{self, IndexBuild};
use crate::HostTime;
use crate::catalog::HostCatalog;
use lockstep_plan::{Catalog, GlobalIndexBuild};
use lockstep_site::{Faults, SchemaTask, StatementCall};
use lockstep_types::{Failure, Status};
use std::collections::VecDeque;
use std::sync::Arc;

/// The surroundings of a host's schema changes.
pub trait SchemaHost: Sized + HostTime {
    /// A call that may be deferred.
    type Call;
    /// The connection that waits for a response.
    type Origin;
    /// The code of a procedure that is not a transaction.
    type Outside;

    /// The state of its schema changes.
    fn schema_changes(&mut self) -> &mut SchemaChanges<Self::Call, Self::Origin, Self::Outside>;

    /// What is broken in the host: for tests of the checks. Nothing is, in a server.
    fn faults(&self) -> Faults {
        Faults::default()
    }

    /// Prepares a change ([`super::change::prepare_change`]).
    ///
    /// # Errors
    /// What the user gets: why it cannot be made.
    fn prepare_change(
        &mut self,
        change: CatalogChange<'_>,
    ) -> Result<PreparedChange<Self::Outside>, Failure>;

    /// Has another thread prepare a change while calls go on; [`prepared`] gets the result.
    ///
    /// # Errors
    /// There is no such thread.
    fn prepare_on_own_thread(&mut self, change: OwnedChange) -> Result<(), Failure>;

    /// Whether the host takes a catalog with its limits.
    ///
    /// # Errors
    /// The limit that the catalog exceeds.
    fn check_limits(&mut self, next: &Catalog) -> Result<(), Failure>;

    /// Sends a change to the coordinator. [`decided`] gets its outcome, and then the requester the
    /// response; the response of a step of an index build goes to [`index_build::step_ended`].
    fn order(
        &mut self,
        requester: Requester<Self::Origin>,
        task: SchemaTask<Arc<HostCatalog<Self::Outside>>>,
    );

    /// A change is in force at all partitions, and the catalog in [`SchemaHost::schema_changes`].
    fn in_force(&mut self, advice: Vec<String>, description: String);

    /// The transaction at which a snapshot begins is decided.
    fn snapshot_decided(&mut self, committed: bool);

    /// Handles a call that was deferred.
    fn handle(&mut self, call: Self::Call);

    /// Answers a request with a failure.
    fn refuse(&mut self, origin: Self::Origin, why: &Failure);

    /// Whether rows may be added to an index that is being built.
    ///
    /// # Errors
    /// The host takes no more data at the moment.
    fn check_intake(&mut self) -> Result<(), Failure>;

    /// The most rows that the next step of an index build reads at each partition.
    fn build_rows_max(&mut self) -> u32;

    /// Sends the transaction of a step to the coordinator; its response goes to
    /// [`index_build::step_ended`].
    fn order_build_step(&mut self, work: StatementCall);

    /// A step of a build has failed and is repeated after a pause: [`index_build::retry_due`].
    fn build_paused(&mut self, index: &str, why: &Failure, pause_us: i64);

    /// A build has ended; `origin` waits for the response, if a connection does.
    fn build_ended(
        &mut self,
        origin: Option<Self::Origin>,
        index: &str,
        result: Result<Option<String>, Failure>,
    );
}

/// The requester of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester<O> {
    /// A connection.
    Client(O),
    /// The build of a global index, which the host drives itself.
    IndexBuild,
}

/// What has become of a call that its handler did not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// It has its response.
    Answered,
    /// It gets it later.
    Pending,
}

/// Whether a call may go on.
pub enum Turn<W> {
    /// It may.
    Now(W),
    /// It was deferred, and is handled again later.
    Deferred,
}

/// A change that the coordinator has.
struct OrderedChange<P> {
    catalog: Arc<HostCatalog<P>>,
    advice: Vec<String>,
    description: String,
}

enum Phase<O, P> {
    /// No change is in progress.
    Idle,
    /// Another thread prepares a change; calls go on with the catalog in force.
    Preparing(O),
    /// The coordinator has a change.
    Ordered(OrderedChange<P>),
    /// The coordinator has the transaction at which a snapshot begins.
    Snapshot,
}

/// The schema changes of a host: `W` is a call that may be deferred, `O` a connection that waits,
/// `P` the code of procedures that are not transactions.
pub struct SchemaChanges<W, O, P> {
    catalog: Arc<HostCatalog<P>>,
    partition_count: u32,
    phase: Phase<O, P>,
    /// Calls that wait for the end of the change.
    deferred: VecDeque<W>,
    build: Option<IndexBuild<O>>,
    /// Schema changes that wait for the end of the build.
    deferred_by_build: VecDeque<W>,
    /// The most calls that may wait, for either.
    deferred_max: u64,
}

impl<W, O, P> SchemaChanges<W, O, P> {
    /// A host with a catalog in force. At most `deferred_max` calls may wait for the end of a
    /// change, and as many for the end of a build (option `max_planner_queue`).
    pub fn new(catalog: Arc<HostCatalog<P>>, partition_count: u32, deferred_max: u64) -> Self {
        assert!(partition_count > 0, "a host has partitions");
        SchemaChanges {
            catalog,
            partition_count,
            phase: Phase::Idle,
            deferred: VecDeque::new(),
            build: None,
            deferred_by_build: VecDeque::new(),
            deferred_max,
        }
    }

    /// The catalog that is in force, once its change is known to be decided.
    #[inline]
    pub fn catalog(&self) -> &Arc<HostCatalog<P>> {
        &self.catalog
    }

    /// Whether a change is being prepared, or the coordinator has one or the beginning of a
    /// snapshot: another one has to wait.
    pub fn is_changing(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Whether nothing is in progress that a snapshot has to wait for.
    pub fn is_quiet(&self) -> bool {
        !self.is_changing() && self.build.is_none()
    }

    /// Whether the coordinator has a change, so that calls are not planned.
    pub fn is_ordered(&self) -> bool {
        matches!(self.phase, Phase::Ordered(_) | Phase::Snapshot)
    }

    /// The version of the catalog that the change makes that the coordinator has; none if it has
    /// none, or the beginning of a snapshot.
    pub fn ordered_version(&self) -> Option<u64> {
        match &self.phase {
            Phase::Ordered(ordered) => Some(ordered.catalog.version()),
            _ => None,
        }
    }

    /// Whether calls wait for the end of a change.
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Whether a call may be planned: while the coordinator has a change, it is deferred.
    ///
    /// # Errors
    /// Too many calls wait already.
    pub fn plan_turn(&mut self, call: W) -> Result<Turn<W>, Failure> {
        match self.is_ordered() {
            false => Ok(Turn::Now(call)),
            true => self.defer(call),
        }
    }

    /// Whether a schema change, or a snapshot, may begin: it is deferred while another one is in
    /// progress, and while a global index is being built.
    ///
    /// # Errors
    /// Too many calls wait already.
    pub fn change_turn(&mut self, call: W) -> Result<Turn<W>, Failure> {
        if self.is_changing() {
            return self.defer(call);
        }
        if self.build.is_none() {
            return Ok(Turn::Now(call));
        }
        let limit = self.deferred_max;
        if self.deferred_by_build.len() as u64 >= limit {
            return Err(unavailable(format!(
                "too many schema changes wait for the end of building a global index (limit \
                 {limit}, option max_planner_queue): retry later"
            )));
        }
        self.deferred_by_build.push_back(call);
        Ok(Turn::Deferred)
    }

    /// Defers a call until the change is decided.
    ///
    /// # Errors
    /// Too many calls wait already.
    pub fn defer(&mut self, call: W) -> Result<Turn<W>, Failure> {
        assert!(self.is_changing(), "a call is deferred until a change ends");
        let limit = self.deferred_max;
        if self.deferred.len() as u64 >= limit {
            return Err(unavailable(format!(
                "too many calls wait for the end of a schema change (limit {limit}, option \
                 max_planner_queue): retry later"
            )));
        }
        self.deferred.push_back(call);
        Ok(Turn::Deferred)
    }

    /// The coordinator gets the transaction at which a snapshot begins: changes of the schema wait
    /// until it is decided.
    pub fn begin_snapshot(&mut self) {
        assert!(self.is_quiet(), "a snapshot begins while the schema stays as it is");
        self.phase = Phase::Snapshot;
    }

    /// When [`index_build::retry_due`] repeats a step, microseconds since 1970; `None` while no
    /// build waits for that.
    pub fn retry_us(&self) -> Option<i64> {
        self.build.as_ref().and_then(IndexBuild::retry_us)
    }

    /// The index build in progress.
    pub(super) fn build_mut(&mut self) -> Option<&mut IndexBuild<O>> {
        self.build.as_mut()
    }

    pub(super) fn begin_build(&mut self, build: IndexBuild<O>) {
        assert!(self.build.is_none(), "one global index is built at a time");
        self.build = Some(build);
    }

    pub(super) fn end_build(&mut self) -> IndexBuild<O> {
        let build = self.build.take();
        build.expect("only a build in progress ends")
    }

    /// Number of partitions of the host.
    pub fn partition_count(&self) -> u32 {
        self.partition_count
    }

    /// Panics where the state contradicts itself: for simulator and tests.
    pub fn check_invariants(&self) {
        assert!(self.is_changing() || self.deferred.is_empty(), "deferred calls wait for a change");
        assert!(
            self.build.is_some() || self.deferred_by_build.is_empty(),
            "deferred schema changes wait for a build"
        );
        assert!(
            self.build.is_none() || !matches!(self.phase, Phase::Snapshot | Phase::Preparing(_)),
            "snapshots and changes of clients wait for the end of a build"
        );
        if let Phase::Ordered(ordered) = &self.phase {
            let (next, current) = (ordered.catalog.version(), self.catalog.version());
            assert_eq!(next, current + 1, "the coordinator has the change of the catalog in force");
        }
        if let Some(build) = &self.build {
            build.check_invariants(matches!(self.phase, Phase::Ordered(_)));
        }
    }
}

fn unavailable(text: String) -> Failure {
    Failure::new(Status::ServerUnavailable, text)
}

/// A client requests a change, whose turn it is.
///
/// # Errors
/// What the client gets: why the change cannot be made.
pub fn request<H: SchemaHost>(
    host: &mut H,
    origin: H::Origin,
    change: CatalogChange<'_>,
) -> Result<Handled, Failure> {
    let schema = host.schema_changes();
    assert!(schema.is_quiet(), "one change at a time");
    if let Some(owned) = change.for_own_thread(&schema.catalog.plan) {
        host.prepare_on_own_thread(owned)?;
        host.schema_changes().phase = Phase::Preparing(origin);
        return Ok(Handled::Pending);
    }
    order(host, Requester::Client(origin), change)?;
    Ok(Handled::Pending)
}

/// A client requests a change by DDL text, whose turn it is: `build` is the global index that the
/// text creates on an existing table, if it does. Such an index is built in steps, so that calls
/// run meanwhile.
///
/// # Errors
/// What the client gets: why the change cannot be made.
pub fn request_ddl<H: SchemaHost>(
    host: &mut H,
    origin: H::Origin,
    text: &str,
    build: Option<GlobalIndexBuild>,
) -> Result<Handled, Failure> {
    match build {
        Some(build) => index_build::begin(host, origin, text, build),
        None => request(host, origin, CatalogChange::Ddl(text)),
    }
}

/// Another thread has prepared a change.
pub fn prepared<H: SchemaHost>(
    host: &mut H,
    prepared: Result<PreparedChange<H::Outside>, Failure>,
) {
    let phase = std::mem::replace(&mut host.schema_changes().phase, Phase::Idle);
    let Phase::Preparing(origin) = phase else { unreachable!("another thread prepares a change") };
    match prepared.and_then(|change| checked(host, change)) {
        Ok(change) => send(host, Requester::Client(origin), change),
        Err(why) => {
            host.refuse(origin, &why);
            resume_deferred(host);
        }
    }
}

/// Prepares a change and sends it to the coordinator; gives the advice for its requester.
pub(super) fn order<H: SchemaHost>(
    host: &mut H,
    requester: Requester<H::Origin>,
    change: CatalogChange<'_>,
) -> Result<Vec<String>, Failure> {
    let prepared = host.prepare_change(change)?;
    let change = checked(host, prepared)?;
    let advice = change.advice.clone();
    send(host, requester, change);
    Ok(advice)
}

fn checked<H: SchemaHost>(
    host: &mut H,
    change: PreparedChange<H::Outside>,
) -> Result<PreparedChange<H::Outside>, Failure> {
    host.check_limits(&change.task.catalog.plan)?;
    Ok(change)
}

fn send<H: SchemaHost>(
    host: &mut H,
    requester: Requester<H::Origin>,
    change: PreparedChange<H::Outside>,
) {
    let PreparedChange { task, advice, description } = change;
    let schema = host.schema_changes();
    assert!(!schema.is_changing(), "one change at a time");
    assert_eq!(task.catalog_version, schema.catalog.version() + 1, "it is of the catalog in force");
    let catalog = Arc::clone(&task.catalog);
    schema.phase = Phase::Ordered(OrderedChange { catalog, advice, description });
    host.order(requester, task);
}

/// The host that orders changes has ordered one, which was prepared here too: calls that are
/// planned here wait until it is decided ([`decided`]). Gives it as messages name it.
///
/// # Panics
/// Another change is in progress, or it is not of the catalog in force.
pub fn follow<W, O, P>(
    schema: &mut SchemaChanges<W, O, P>,
    change: PreparedChange<P>,
) -> Arc<SchemaTask<Arc<HostCatalog<P>>>> {
    let PreparedChange { task, advice, description } = change;
    assert!(!schema.is_changing(), "one change at a time");
    assert_eq!(task.catalog_version, schema.catalog.version() + 1, "it is of the catalog in force");
    let catalog = Arc::clone(&task.catalog);
    schema.phase = Phase::Ordered(OrderedChange { catalog, advice, description });
    Arc::new(task)
}

/// The coordinator has decided the change that it had, or the beginning of a snapshot.
pub fn decided<H: SchemaHost>(host: &mut H, committed: bool) {
    let takes = committed || host.faults().use_refused_catalog();
    let schema = host.schema_changes();
    match std::mem::replace(&mut schema.phase, Phase::Idle) {
        Phase::Ordered(OrderedChange { catalog, advice, description }) if takes => {
            schema.catalog = catalog;
            host.in_force(advice, description);
        }
        Phase::Ordered(_) => {}
        Phase::Snapshot => host.snapshot_decided(committed),
        Phase::Idle | Phase::Preparing(_) => unreachable!("the coordinator had no change"),
    }
    resume_deferred(host);
}

/// Handles the calls that waited for the end of a change, in their order. One of them may be
/// another change: when the coordinator has it, the others wait for its end. While another thread
/// prepares it, they go on, because calls that arrive then go on too and must not overtake them;
/// further changes among them wait again, in their order.
pub(super) fn resume_deferred<H: SchemaHost>(host: &mut H) {
    if host.faults().lose_deferred_calls() {
        host.schema_changes().deferred.clear();
    }
    for _ in 0..host.schema_changes().deferred.len() {
        let schema = host.schema_changes();
        if schema.is_ordered() {
            break;
        }
        let Some(call) = schema.deferred.pop_front() else { break };
        host.handle(call);
    }
}

/// Handles the schema changes that waited for the end of a build, in their order. The first may
/// begin another build: the others wait for its end.
pub(super) fn resume_deferred_by_build<H: SchemaHost>(host: &mut H) {
    for call in std::mem::take(&mut host.schema_changes().deferred_by_build) {
        host.handle(call);
    }
}
