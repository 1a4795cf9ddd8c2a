//! `@AdHoc`: SQL text to plans, and the plans to where they run.

use super::change::CatalogChange;
use super::plan_cache::{CachedPlans, Found};
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::intake::Changes;
use crate::message::{AdHocCall, Envelope, MultiOrigin, MultiRequest, Origin};
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_exec::watch::TimeLimit;
use lockstep_host::statements::{
    StatementVia, StatementsDestination, StatementsWay, statements_destination, statements_way,
};
use lockstep_plan::{
    BatchKind, Catalog, PlanContext, PlanError, Planning, classify_batch, plan_statement_with,
};
use lockstep_plan_ir::Statement;
use lockstep_site::{BoundStatement, Home, MultiWork, StatementCall};
use lockstep_sql::ast::{self, ParsedStatement, Span, StatementKind};
use lockstep_sql::{Limits, SqlError, parse_batch};
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
    pub(super) fn ad_hoc(&mut self, call: SystemCall) {
        if self.next_catalog.is_some() {
            return self.wait_for_schema(call);
        }
        let body = Arc::clone(&call.body);
        let origin = call.origin;
        let result = match Invocation::decode(&body) {
            Ok(invocation) => self.plan_and_send(call, &invocation),
            Err(rejection) => Err(Failure::unexpected(rejection.message())),
        };
        if let Err(failure) = result {
            self.answer_failure(origin, &failure);
        }
    }

    pub(super) fn wait_for_schema(&mut self, call: SystemCall) {
        let limit = self.facts.options.max_planner_queue;
        if self.waiting.len() as u64 >= limit {
            let text = format!(
                "{limit} ad hoc calls wait for the planner already (option max_planner_queue); \
                 try again later."
            );
            let failure = Failure::new(lockstep_types::Status::ServerUnavailable, text);
            return self.answer_failure(call.origin, &failure);
        }
        self.waiting.push_back(call);
    }

    fn plan_and_send(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        if invocation.parameters.count() == 0 {
            return Err(Failure::graceful(NO_QUERY));
        }
        let text =
            text_parameter(invocation, 0).ok_or_else(|| Failure::graceful(QUERY_IS_NO_TEXT))?;
        let limit = self.facts.options.max_statement_bytes;
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
            BatchKind::Ddl if self.is_changing() => {
                self.wait_for_schema(call);
                Ok(())
            }
            BatchKind::Ddl => {
                self.facts.intake.check(changes_of_ddl(&parsed), call.admin)?;
                let Some(call) = self.unless_building(call) else { return Ok(()) };
                match self.catalog.plan.build_of(&parsed) {
                    Some(build) => self.begin_index_build(call.origin, text, build),
                    None => self.change_catalog(call.origin, CatalogChange::Ddl(text)),
                }
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
                let origin = self.text_origin(false);
                let catalog = &self.catalog.plan;
                let plan = |text: &str| plan_text(catalog, &planning, text, &limits);
                self.plans.insert(text, form.as_ref(), &statements, origin, plan);
                self.send_statements(call, statements, given)
            }
        }
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
            Ok(Arc::new(prepared.with_origin(self.text_origin(false))))
        };
        parsed.iter().map(plan).collect()
    }

    fn plan(
        &self,
        statement: &ParsedStatement,
        context: PlanContext,
    ) -> Result<Statement, PlanError> {
        let planning = self.planning_for(statement);
        plan_statement_with(&self.catalog.plan, &planning, statement, context)
    }

    /// What a statement is planned with. Replay plans those that write again, and has to find the
    /// rows in the same order: so they go by what was known of the data at the last change of the
    /// catalog, as statements of procedures do.
    fn planning_for(&self, statement: &ParsedStatement) -> Cow<'_, Planning> {
        match statement.kind() {
            StatementKind::Dml => Cow::Owned(Planning {
                disabled_rules: self.planning.disabled_rules,
                ..self.catalog.plan.planning.clone()
            }),
            _ => Cow::Borrowed(&self.planning),
        }
    }

    /// Where statements of text come from, as the log says it.
    fn text_origin(&self, single_partition: bool) -> StatementOrigin {
        let rules_off = self.planning.disabled_rules.bits();
        StatementOrigin::Text { single_partition, rules_off }
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
        let catalog_version = self.catalog.version();
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
        self.outbox.send(0, Envelope::Multi(Box::new(request)));
    }

    /// Sends planned statements to the one partition that has all they need, else to the
    /// coordinator.
    fn send_statements(
        &mut self,
        call: SystemCall,
        statements: Vec<Arc<PreparedStatement>>,
        given: ParameterSet<'_>,
    ) -> Result<(), Failure> {
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
        let work = StatementCall { statements, read_only, counted: false, answer: None };
        self.send_work(call, work, partition);
        Ok(())
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
            catalog_version: self.catalog.version(),
            time_limit: call.time_limit,
            call: work,
            via,
        };
        self.outbox.send(partition.index(), Envelope::AdHoc(Box::new(ad_hoc)));
    }

    /// `@AdHocSpForTest`: a statement, a partitioning value, and the statement's parameters. The
    /// statement runs at the partition of the value, whatever it needs; at all that it needs, if
    /// the value is NULL.
    pub(super) fn ad_hoc_at_partition(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        if self.next_catalog.is_some() {
            self.wait_for_schema(call);
            return Ok(());
        }
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
        let statements = vec![Arc::new(prepared.with_origin(self.text_origin(true)))];
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
        let work = StatementCall { statements, read_only, counted: false, answer: None };
        let partition = self.facts.ring.partition_of(key);
        self.send_work(call, work, StatementsDestination::One(partition));
        Ok(())
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
        statements_destination(&self.catalog.plan, &self.facts.ring, statements)
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

/// What stands before all that is wrong with a statement.
const PREFIX: &str = "SQL error while compiling query:";

/// What a client gets for text that is no SQL. Only where a token is the trouble is it a syntax
/// error by name, with what would have been accepted.
pub(super) fn syntax_failure(text: &str, error: &SqlError) -> Failure {
    let statement = excerpt(text);
    if error.message.starts_with("unexpected token") {
        return Failure::graceful(format!("{PREFIX} SQL Syntax error in \"{statement}\" {error}"));
    }
    let SqlError { message, span, .. } = error;
    let (line, column) = (span.line, span.column);
    Failure::graceful(format!(
        "{PREFIX} Error in \"{statement}\" - {message} at line {line} column {column}"
    ))
}

/// What a client gets for a statement that cannot be planned: what its binder refuses, in small
/// letters, stands behind the statement.
fn statement_failure(text: &str, error: &PlanError) -> Failure {
    // VoltDB's whole sentences stay as they are.
    let sentence = error.message.ends_with('.');
    let message = match error.span.filter(|span| span.line > 0 && !sentence) {
        Some(Span { line, column, .. }) => {
            format!("{} at line {line} column {column}", error.message)
        }
        None => error.message.clone(),
    };
    if message.starts_with(|first: char| first.is_lowercase()) {
        let statement = excerpt(text);
        return Failure::graceful(format!("{PREFIX} Error in \"{statement}\" - {message}"));
    }
    Failure::graceful(format!("{PREFIX} {message}"))
}

/// Most characters of a statement that a refusal repeats.
const SHOWN_CHARACTERS: usize = 1_000;

/// A statement as refusals repeat it: without what ends it, and cut when it is long.
fn excerpt(text: &str) -> Cow<'_, str> {
    let statement = text.trim().trim_end_matches(';');
    match statement.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}...", &statement[..end])),
        None => Cow::Borrowed(statement),
    }
}

/// What a client gets for a text whose statements do not go together.
pub(super) fn plan_failure(error: PlanError) -> Failure {
    Failure::graceful(error.message)
}

pub(super) fn ddl_failure(error: PlanError) -> Failure {
    Failure::graceful(error.message)
}
