//! A host of one site without threads and sockets: calls run on the caller's thread, through the
//! same code as over TCP, from the invocation's bytes to the response's. For measuring the engine
//! alone, and for tests of procedures.

use crate::catalog::{HostCatalog, NativeRegistry, site_limits};
use crate::clock;
use crate::control::change::ChangeSettings;
use crate::control::planner::plan_cache::{Found, PlanCache};
use crate::control::planner::plan_text;
use crate::execution::run_invocation;
use crate::message::NO_PROCEDURE;
use crate::options::Options;
use crate::statistics::ReplicaStatistics;
use lockstep_base::elapsed::Elapsed;
use lockstep_exec::TableStatistics;
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_exec::watch::TimeLimit;
use lockstep_host::schema::change::{CatalogChange, prepare_change};
use lockstep_jvm::JavaSettings;
use lockstep_plan::{
    BatchKind, Catalog, PlanContext, Planning, classify_batch, plan_statement_with,
};
use lockstep_site::{
    AnswerForm, BoundStatement, Coordinator, CoordinatorOutput, Finished, MultiCall, MultiWork,
    PartitionEffect, Site, StatementCall,
};
use lockstep_sql::{Limits, parse_batch};
use lockstep_txn::Admission;
use lockstep_types::{Failure, HashRing, PartitionId, Status};
use lockstep_wire_volt::{Invocation, response};
use std::sync::Arc;

/// Calls between two readings of the clock and two hand-overs of the log: what one round of a
/// site's loop handles under load.
const CALLS_PER_ROUND: u32 = 64;

/// See the module.
pub struct EmbeddedHost {
    site: Site<(), (), Arc<HostCatalog>>,
    coordinator: Coordinator<(), Arc<HostCatalog>>,
    catalog: Arc<HostCatalog>,
    statistics: ReplicaStatistics,
    natives: NativeRegistry,
    planning: Planning,
    plans: PlanCache,
    now_us: i64,
    calls_this_round: u32,
    time_limit: Option<TimeLimit>,
    kept_log: Option<Vec<Vec<u8>>>,
}

impl EmbeddedHost {
    /// An empty host.
    ///
    /// # Errors
    /// None at present: an empty catalog can always be prepared.
    pub fn new(options: &Options, natives: NativeRegistry) -> Result<EmbeddedHost, Failure> {
        let ring = HashRing::new(1);
        let limits = site_limits(options);
        let plan = Catalog { planning: options.planning(), ..Catalog::default() };
        let planning = plan.planning.clone();
        let catalog =
            HostCatalog::new(plan, &natives).map_err(|error| Failure::graceful(error.message))?;
        let mut site = Site::new(PartitionId(0), ring.clone(), &limits);
        site.set_log_kept(false);
        Ok(EmbeddedHost {
            site,
            coordinator: Coordinator::new(ring, &limits),
            statistics: ReplicaStatistics::new(&catalog),
            catalog: Arc::new(catalog),
            natives,
            planning,
            plans: PlanCache::new(options.plan_cache_entries.to_usize()),
            now_us: clock::now_us(),
            calls_this_round: 0,
            time_limit: None,
            kept_log: None,
        })
    }

    /// How long the queries of ad hoc text may run from now on.
    pub fn limit_time(&mut self, limit: Option<TimeLimit>) {
        self.site.set_stopwatch(clock::stopwatch(), clock::monotonic_ns);
        self.coordinator.set_stopwatch(clock::stopwatch(), clock::monotonic_ns);
        self.time_limit = limit;
    }

    /// What ad hoc statements are planned with. Answers do not depend on it.
    pub fn planning_mut(&mut self) -> &mut Planning {
        &mut self.planning
    }

    /// Runs SQL text: DDL, or queries and DML. Returns the result tables in wire form, one after
    /// the other, and their number.
    ///
    /// # Errors
    /// What a client would get.
    pub fn ad_hoc(&mut self, text: &str) -> Result<(Vec<u8>, u16), Failure> {
        let plan_failure = |error: lockstep_plan::PlanError| Failure::graceful(error.message);
        let parsed = parse_batch(text, &Limits::default())
            .map_err(|error| Failure::graceful(error.to_string()))?;
        let work = match classify_batch(&parsed).map_err(plan_failure)? {
            BatchKind::Ddl => {
                let settings = ChangeSettings {
                    natives: self.natives.clone(),
                    java: JavaSettings::default(),
                    limits: Limits::default(),
                    initialize_classes: true,
                };
                let planning = self.catalog.plan.planning.clone();
                let change = CatalogChange::Ddl(text);
                let task = prepare_change(&self.catalog, &settings, change, &planning)?.task;
                MultiWork::Schema(Arc::new(task))
            }
            BatchKind::DmlQueries => {
                let mut statements = Vec::new();
                for statement in &parsed {
                    let context = PlanContext::MultiPartition;
                    let (catalog, planning) = (&self.catalog.plan, &self.planning);
                    let planned = plan_statement_with(catalog, planning, statement, context)
                        .map_err(plan_failure)?;
                    let statement = Arc::new(PreparedStatement::for_partitions(planned, 1));
                    let parameters = Arc::from(&[0u8, 0][..]);
                    statements.push(BoundStatement {
                        statement,
                        parameters,
                        shipped: None,
                        found: None,
                        profile: None,
                    });
                }
                let read_only = statements.iter().all(|b| b.statement.statement().read_only);
                MultiWork::Statements(StatementCall {
                    statements,
                    read_only,
                    answer: AnswerForm::Results,
                })
            }
        };
        let finished = self.run_multi(work);
        match finished.outcome.failure {
            Some(failure) => Err(failure),
            None => Ok((finished.tables, finished.outcome.table_count)),
        }
    }

    /// Plans the statements of a text as the control thread does: those of its cache, else new
    /// ones, which it keeps. Returns whether the cache had them. For measuring.
    ///
    /// # Errors
    /// What a client would get.
    pub fn plan_ad_hoc(
        &mut self,
        text: &str,
    ) -> Result<(bool, Vec<Arc<PreparedStatement>>), Failure> {
        let limits = Limits::default();
        let form = match self.plans.find(text, &limits, true) {
            Found::Plans(plans) => return Ok((true, plans.statements)),
            Found::Nothing(form) => form,
        };
        let plan_failure = |error: lockstep_plan::PlanError| Failure::graceful(error.message);
        let parsed =
            parse_batch(text, &limits).map_err(|error| Failure::graceful(error.to_string()))?;
        let (catalog, planning) = (&self.catalog.plan, &self.planning);
        let plan = |statement| {
            let context = PlanContext::MultiPartition;
            let planned =
                plan_statement_with(catalog, planning, statement, context).map_err(plan_failure)?;
            Ok(Arc::new(PreparedStatement::new(Arc::new(planned))))
        };
        let statements: Vec<_> = parsed.iter().map(plan).collect::<Result<_, Failure>>()?;
        let again = |text: &str| plan_text(catalog, planning, text, &limits);
        let (single_partition, rules_off, planning) = (false, 0, None);
        let origin = StatementOrigin::Text { single_partition, rules_off, planning };
        self.plans.insert(text, form.as_ref(), &statements, origin, again);
        Ok((false, statements))
    }

    fn run_multi(&mut self, work: MultiWork<Arc<HostCatalog>>) -> Finished<()> {
        self.now_us = clock::now_us();
        let mut outputs = Vec::new();
        let catalog_version = self.catalog.version();
        let declared = Vec::new();
        let call = MultiCall {
            origin: (),
            procedure_number: NO_PROCEDURE,
            catalog_version,
            time_limit: self.time_limit,
            declared,
            home: None,
            led: None,
            work,
        };
        let accepted = self.coordinator.submit(call, self.now_us, &mut outputs);
        assert!(accepted.is_ok(), "one call at a time is within every limit");
        let mut finished = None;
        while let Some(output) = outputs.pop() {
            match output {
                CoordinatorOutput::Finished(end) => finished = Some(end),
                CoordinatorOutput::Stale(()) => unreachable!("planned with the catalog in force"),
                CoordinatorOutput::OneRoundFinished(_) | CoordinatorOutput::OneRoundStale(..) => {
                    unreachable!("there is no call of one round with one partition")
                }
                CoordinatorOutput::Thread { .. } => {
                    unreachable!("there is no call that loads classes here")
                }
                CoordinatorOutput::Send(message) => {
                    let mut effects = Vec::new();
                    let place = (message.epoch, message.number);
                    self.site.receive(place, message.message, self.now_us, &mut effects);
                    let waiting = self.site.next(self.now_us, &mut effects);
                    assert!(waiting.is_none(), "no call waits beside the one of this thread");
                    for effect in effects {
                        match effect {
                            PartitionEffect::Send(answer) => {
                                self.coordinator.receive(answer, self.now_us, &mut outputs);
                            }
                            PartitionEffect::Ran(_) => {}
                            PartitionEffect::SnapshotBegun(_) => {}
                            PartitionEffect::CatalogInForce(catalog) => {
                                self.statistics.follow_catalog(&self.catalog, &catalog);
                                self.catalog = catalog;
                                self.plans.clear();
                            }
                            PartitionEffect::Answer((), ()) => {
                                unreachable!("one call at a time does not speculate")
                            }
                        }
                    }
                }
            }
        }
        *finished.expect("a call ends when all its messages are delivered")
    }

    /// Runs one single-partition invocation, given as the body of a client's frame, and appends
    /// the response frame to `output`.
    #[inline]
    pub fn call(&mut self, body: &[u8], output: &mut Vec<u8>) -> Status {
        if self.calls_this_round == 0 {
            self.now_us = clock::now_us();
            self.end_round();
            self.site.maintain();
        }
        self.calls_this_round = (self.calls_this_round + 1) % CALLS_PER_ROUND;
        let invocation = match Invocation::decode(body) {
            Ok(invocation) => invocation,
            Err(rejection) => {
                let (handle, text) = (rejection.answer_handle(0), rejection.message());
                response::write_simple(output, handle, Status::UnexpectedFailure, Some(&text));
                return Status::UnexpectedFailure;
            }
        };
        let Admission::Run(header) = self.site.admit(self.now_us) else {
            unreachable!("nothing stops the partition between two calls of one thread");
        };
        let (site, statistics) = (&mut self.site, &mut self.statistics);
        let procedure = self.catalog.procedure(invocation.procedure);
        run_invocation(site, procedure, statistics, &header, &invocation, Elapsed::ZERO, output)
    }

    /// Rows and memory of all tables and views.
    pub fn table_statistics(&self) -> Vec<TableStatistics> {
        self.site.database().statistics()
    }

    /// From now on what is logged is kept, to be taken by [`EmbeddedHost::take_log`].
    pub fn keep_log(&mut self) {
        self.kept_log = Some(Vec::new());
        self.site.set_log_kept(true);
    }

    /// What was logged since [`EmbeddedHost::keep_log`], as pieces for a replay.
    pub fn take_log(&mut self) -> Vec<Vec<u8>> {
        self.end_round();
        self.site.set_log_kept(false);
        self.kept_log.take().unwrap_or_default()
    }

    /// What was logged in a round is kept if somebody wants it.
    fn end_round(&mut self) {
        match &mut self.kept_log {
            Some(kept) if self.site.waiting_log_bytes() > 0 => {
                kept.push(self.site.take_log(Vec::new()).bytes);
            }
            _ => self.site.drop_log(),
        }
    }

    /// A hash of the data.
    pub fn content_hash(&self) -> u64 {
        self.site.database().content_hash()
    }

    /// Log entries so far, and their bytes.
    pub fn log_totals(&self) -> (u64, u64) {
        self.site.log_totals()
    }
}
