//! `@AdHoc`: SQL text to plans, and the plans to where they run.

use super::plan_cache::{CachedPlans, Found};
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::intake::Changes;
use crate::message::{AdHocCall, Envelope, MultiOrigin, MultiRequest, Origin};
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_exec::watch::TimeLimit;
use lockstep_host::failures::{plan_failure, statement_failure, syntax_failure};
use lockstep_host::schema::{self, Handled, Turn};
use lockstep_host::statements::{
    StatementVia, StatementsDestination, StatementsWay, statements_destination, statements_way,
};
use lockstep_plan::{
    BatchKind, Catalog, PlanContext, PlanError, Planning, classify_batch, plan_statement_with,
};
use lockstep_plan_ir::Statement;
use lockstep_site::{AnswerForm, BoundStatement, Home, MultiWork, StatementCall};
use lockstep_sql::ast::{self, ParsedStatement, StatementKind};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::{Datum, Failure, Parameter, ParameterSet, PartitionId};
use lockstep_wire_volt::Invocation;
use std::borrow::Cow;
use std::sync::Arc;

const NO_QUERY: &str = "Adhoc system procedure requires at least the query parameter.";
const QUERY_IS_NO_TEXT: &str =
    "Adhoc system procedure requires the query parameter to be of String type.";

/// The refusal of parameters for several statements.
pub(super) const ONE_STATEMENT: &str = "The @AdHoc stored procedure when called with more than \
    one parameter must be passed a single parameterized SQL statement as its first parameter. Pass \
    each parameterized SQL statement to a separate callProcedure invocation.";

/// The call for queries of large intermediate results, which takes no DDL.
const AD_HOC_LARGE: &str = "@AdHocLarge";

/// What a batch of DDL may change: one that only drops makes what is kept smaller.
fn changes_of_ddl(parsed: &[ParsedStatement]) -> Changes {
    let drops = |part: &ParsedStatement| matches!(part.statement, ast::Statement::Drop(_));
    if parsed.iter().all(drops) { Changes::Deletes } else { Changes::Anything }
}

impl Control {
    pub(super) fn ad_hoc(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.schema.plan_turn(call)? else { return Ok(Handled::Pending) };
        if invocation.parameters.count() == 0 {
            return Err(Failure::graceful(NO_QUERY));
        }
        let text =
            text_parameter(invocation, 0).ok_or_else(|| Failure::graceful(QUERY_IS_NO_TEXT))?;
        let limit = self.facts.options.max_statement_bytes.get();
        if text.len() as u64 > limit {
            return Err(Failure::graceful(format!(
                "The SQL text has {} bytes, over the limit of {limit} bytes (option \
                 max_statement_bytes)",
                text.len()
            )));
        }
        let given = invocation.parameters.without_first().unwrap_or(ParameterSet::EMPTY);
        let limits = self.sql_limits();
        let form = match self.plans.find(text, &limits, given.count() == 0) {
            Found::Nothing(form) => form,
            Found::Plans(CachedPlans { statements, constants }) => {
                let Some(constants) = &constants else {
                    return self.send_statements(call, statements, given);
                };
                let given = ParameterSet::new(constants)
                    .map_err(|error| Failure::unexpected(error.to_string()))?;
                return self.send_statements(call, statements, given);
            }
        };
        let parsed = parse_batch(text, &limits).map_err(|error| syntax_failure(text, &error))?;
        match classify_batch(&parsed).map_err(plan_failure)? {
            BatchKind::Ddl if invocation.procedure == AD_HOC_LARGE => {
                Err(Failure::graceful("DDL is not supported in @AdHocLarge."))
            }
            BatchKind::Ddl => {
                let changes = changes_of_ddl(&parsed);
                let Turn::Now(call) = self.change_turn(call, changes)? else {
                    return Ok(Handled::Pending);
                };
                let build = self.schema.catalog().plan.build_of(&parsed);
                schema::request_ddl(self, call.origin, text, build)
            }
            BatchKind::DmlQueries
                if parsed.iter().any(|part| part.kind() == StatementKind::Explain) =>
            {
                self.explain_parsed(call, parsed, given)
            }
            BatchKind::DmlQueries => {
                let began_ns = clock::monotonic_ns();
                let planned = self.plan_all(&parsed);
                self.plans.count_planning(clock::ns_since(began_ns), planned.is_err());
                let statements = planned?;
                let planning = self.planning_for(&parsed[0]).into_owned();
                let origin = self.text_origin(&parsed[0], false);
                let catalog = &self.schema.catalog().plan;
                let plan = |text: &str| plan_text(catalog, &planning, text, &limits);
                self.plans.insert(text, form.as_ref(), &statements, origin, plan);
                self.send_statements(call, statements, given)
            }
        }
    }

    /// Whether a schema change may begin; `changes` is what it does to the data. One that the host
    /// does not take at the moment is refused even if it would have to wait.
    pub(super) fn change_turn(
        &mut self,
        call: SystemCall,
        changes: Changes,
    ) -> Result<Turn<SystemCall>, Failure> {
        self.facts.intake.check(changes, call.admin)?;
        self.schema.change_turn(call)
    }

    pub(super) fn sql_limits(&self) -> Limits {
        self.facts.options.sql_limits()
    }

    pub(super) fn plan_all(
        &self,
        parsed: &[ParsedStatement],
    ) -> Result<Vec<Arc<PreparedStatement>>, Failure> {
        let plan = |statement: &ParsedStatement| {
            let planned = self
                .plan(statement, PlanContext::MultiPartition)
                .map_err(|error| statement_failure(&statement.text, &error))?;
            let partition_count = self.facts.partition_count;
            let prepared = PreparedStatement::for_partitions(planned, partition_count);
            Ok(Arc::new(prepared.with_origin(self.text_origin(statement, false))))
        };
        parsed.iter().map(plan).collect()
    }

    fn plan(
        &self,
        statement: &ParsedStatement,
        context: PlanContext,
    ) -> Result<Statement, PlanError> {
        let planning = self.planning_for(statement);
        plan_statement_with(&self.schema.catalog().plan, &planning, statement, context)
    }

    /// What a statement is planned with. Replay plans those that write again, and has to find the
    /// rows in the same order: so they go by what was known of the data at the last change of the
    /// catalog, as statements of procedures do.
    fn planning_for(&self, statement: &ParsedStatement) -> Cow<'_, Planning> {
        match statement.kind() {
            StatementKind::Dml => Cow::Owned(Planning {
                disabled_rules: self.planning.disabled_rules,
                ..self.schema.catalog().plan.planning.clone()
            }),
            _ => Cow::Borrowed(&self.planning),
        }
    }

    /// Where a statement of text comes from, as logs and messages say it.
    fn text_origin(&self, statement: &ParsedStatement, single_partition: bool) -> StatementOrigin {
        let rules_off = self.planning.disabled_rules.bits();
        let known = &self.schema.catalog().plan.planning;
        let planning = self.planning_for(statement);
        let is_known = Arc::ptr_eq(&planning.statistics, &known.statistics)
            && planning.local_data == known.local_data
            && planning.max_ordered_sources == known.max_ordered_sources;
        let planning = (!is_known).then(|| self.sent_planning.of(&planning));
        StatementOrigin::Text { single_partition, rules_off, planning }
    }

    pub(super) fn send_multi(
        &mut self,
        origin: Origin,
        body: Arc<[u8]>,
        time_limit: Option<TimeLimit>,
        work: MultiWork<Arc<HostCatalog>>,
    ) {
        self.send_multi_at(origin, body, time_limit, None, work);
    }

    /// Sends to the coordinator what runs at one partition and changes index entries at others.
    fn send_multi_at(
        &mut self,
        origin: Origin,
        body: Arc<[u8]>,
        time_limit: Option<TimeLimit>,
        home: Option<Home>,
        work: MultiWork<Arc<HostCatalog>>,
    ) {
        let catalog_version = self.schema.catalog().version();
        let request = MultiRequest {
            origin: MultiOrigin { origin, body: Some(body) },
            procedure_number: origin.procedure,
            catalog_version,
            time_limit,
            declared: Vec::new(),
            home,
            led: None,
            work,
        };
        let coordinator = self.facts.placement.coordinator().thread;
        self.outbox.send(coordinator, Envelope::Multi(Box::new(request)));
    }

    /// Sends planned statements to the one partition that has all they need, else to the
    /// coordinator.
    fn send_statements(
        &mut self,
        call: SystemCall,
        statements: Vec<Arc<PreparedStatement>>,
        given: ParameterSet<'_>,
    ) -> Result<Handled, Failure> {
        let parameters = self.check_parameters(&statements, given)?;
        let partition = self.common_partition(&statements, given)?;
        let read_only = statements.iter().all(|s| s.statement().read_only);
        self.check_taken(&statements, call.admin)?;
        let bind = |statement| BoundStatement {
            statement,
            parameters: Arc::clone(&parameters),
            shipped: None,
            found: None,
            profile: None,
        };
        let statements = statements.into_iter().map(bind).collect();
        let work = StatementCall { statements, read_only, answer: AnswerForm::Results };
        self.send_work(call, work, partition);
        Ok(Handled::Pending)
    }

    /// Refuses statements that change more than is taken at the moment.
    fn check_taken(
        &self,
        statements: &[Arc<PreparedStatement>],
        admin: bool,
    ) -> Result<(), Failure> {
        let changes = statements.iter().map(|s| Changes::of_statement(s.statement())).max();
        self.facts.intake.check(changes.unwrap_or(Changes::Nothing), admin)
    }

    /// Sends bound statements to where they run.
    pub(super) fn send_work(
        &mut self,
        call: SystemCall,
        work: StatementCall,
        destination: StatementsDestination,
    ) {
        match statements_way(&self.facts.ring, &work, destination) {
            StatementsWay::At(partition, via) => self.send_to_partition(call, work, partition, via),
            StatementsWay::Several(home) => {
                let work = MultiWork::Statements(work);
                self.send_multi_at(call.origin, call.body, call.time_limit, home, work);
            }
        }
    }

    fn send_to_partition(
        &mut self,
        call: SystemCall,
        work: StatementCall,
        partition: PartitionId,
        via: Option<StatementVia>,
    ) {
        let ad_hoc = AdHocCall {
            origin: call.origin,
            body: call.body,
            catalog_version: self.schema.catalog().version(),
            time_limit: call.time_limit,
            call: work,
            via,
        };
        let thread = self.facts.placement.thread_of(partition);
        self.outbox.send(thread, Envelope::AdHoc(partition, Box::new(ad_hoc)));
    }

    /// `@AdHocSpForTest`: a statement, a partitioning value, and the statement's parameters. The
    /// statement runs at the partition of the value, whatever it needs; at all that it needs, if
    /// the value is NULL.
    pub(super) fn ad_hoc_at_partition(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.schema.plan_turn(call)? else { return Ok(Handled::Pending) };
        let count = invocation.parameters.count();
        if count == 0 {
            return Err(Failure::graceful(NO_QUERY));
        }
        let text =
            text_parameter(invocation, 0).ok_or_else(|| Failure::graceful(QUERY_IS_NO_TEXT))?;
        if count < 2 {
            return Err(Failure::graceful(format!(
                "@AdHocSpForTest expects at least 2 paramters but got {count}."
            )));
        }
        let Some(Ok(Parameter::Scalar(_, key))) = invocation.parameters.get(1) else {
            return Err(Failure::graceful("@AdHocSpForTest takes one partitioning value."));
        };
        let behind = invocation.parameters.without_first().and_then(|rest| rest.without_first());
        let given = behind.unwrap_or(ParameterSet::EMPTY);
        let parsed =
            parse_batch(text, &self.sql_limits()).map_err(|error| syntax_failure(text, &error))?;
        let [statement] = parsed.as_slice() else {
            return Err(Failure::graceful(
                "@AdHocSpForTest expects precisely one statement (no batching).",
            ));
        };
        if classify_batch(&parsed).map_err(plan_failure)? == BatchKind::Ddl {
            return Err(Failure::graceful("@AdHocSpForTest doesn't support DDL."));
        }
        if key == Datum::Null {
            let statements = self.plan_all(&parsed)?;
            return self.send_statements(call, statements, given);
        }
        let planned = self
            .plan(statement, PlanContext::SinglePartition)
            .map_err(|error| statement_failure(&statement.text, &error))?;
        let prepared = PreparedStatement::new(Arc::new(planned));
        let origin = self.text_origin(statement, true);
        let statements = vec![Arc::new(prepared.with_origin(origin))];
        let parameters = self.check_parameters(&statements, given)?;
        let read_only = statements[0].statement().read_only;
        self.check_taken(&statements, call.admin)?;
        let bind = |statement| BoundStatement {
            statement,
            parameters: Arc::clone(&parameters),
            shipped: None,
            found: None,
            profile: None,
        };
        let statements = statements.into_iter().map(bind).collect();
        let work = StatementCall { statements, read_only, answer: AnswerForm::Results };
        let partition = self.facts.ring.partition_of(key);
        self.send_work(call, work, StatementsDestination::One(partition));
        Ok(Handled::Pending)
    }

    pub(super) fn check_parameters(
        &self,
        statements: &[Arc<PreparedStatement>],
        given: ParameterSet<'_>,
    ) -> Result<Arc<[u8]>, Failure> {
        if given.count() > 0 && statements.len() > 1 {
            return Err(Failure::graceful(ONE_STATEMENT));
        }
        for statement in statements {
            let expected = statement.statement().parameters.len();
            if expected != given.count() {
                return Err(Failure::graceful(format!(
                    "SQL error while compiling query: Incorrect number of parameters passed: \
                     expected {expected}, passed {}",
                    given.count()
                )));
            }
        }
        let mut bytes = (given.count() as u16).to_be_bytes().to_vec();
        bytes.extend_from_slice(given.bytes());
        Ok(bytes.into())
    }

    /// The partition that all statements can run at.
    pub(super) fn common_partition(
        &self,
        statements: &[Arc<PreparedStatement>],
        given: ParameterSet<'_>,
    ) -> Result<StatementsDestination, Failure> {
        let statements = statements.iter().map(|statement| (&**statement, given));
        statements_destination(&self.schema.catalog().plan, &self.facts.ring, statements)
    }
}

/// The plan of a text of one statement, if it has one.
pub(crate) fn plan_text(
    catalog: &Catalog,
    planning: &Planning,
    text: &str,
    limits: &Limits,
) -> Option<Statement> {
    let parsed = parse_batch(text, limits).ok()?;
    let [statement] = parsed.as_slice() else { return None };
    plan_statement_with(catalog, planning, statement, PlanContext::MultiPartition).ok()
}
