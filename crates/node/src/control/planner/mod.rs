//! The planner of a host: SQL text to plans that can be sent to partitions, and plans to text.
//!
//! It owns what statements are planned with, the plans that it keeps, and the queries that run for
//! `EXPLAIN ANALYZE`. The catalog in force is an argument: the control thread owns it, sends what
//! the planner has planned, and answers what the planner has refused.

mod analyses;
mod explain;
pub(crate) mod plan_cache;
mod plan_template;
mod sent_planning;

use super::statistics::{PlannerCounts, Surveyed};
use super::system::text_parameter;
use crate::catalog::HostCatalog;
use crate::clock;
use crate::shard::HostFacts;
use analyses::Analyses;
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_host::failures::{plan_failure, statement_failure, syntax_failure};
use lockstep_host::statements::{StatementsDestination, statements_destination};
use lockstep_plan::planning::Statistics;
use lockstep_plan::{
    BatchKind, Catalog, PlanContext, PlanError, Planning, RuleSet, classify_batch,
    plan_statement_with,
};
use lockstep_plan_ir::Statement;
use lockstep_site::{AnswerForm, BoundStatement, StatementCall};
use lockstep_sql::ast::{ParsedStatement, StatementKind};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::{Datum, Failure, Parameter, ParameterSet};
use lockstep_wire_volt::Invocation;
use plan_cache::{CachedPlans, Found, PlanCache};
use sent_planning::SentPlanning;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) use explain::{EXPLAIN_JSON, explain_views, without_explain, write_plans};

const NO_QUERY: &str = "Adhoc system procedure requires at least the query parameter.";
const QUERY_IS_NO_TEXT: &str =
    "Adhoc system procedure requires the query parameter to be of String type.";

/// The refusal of parameters for several statements.
const ONE_STATEMENT: &str = "The @AdHoc stored procedure when called with more than \
    one parameter must be passed a single parameterized SQL statement as its first parameter. Pass \
    each parameterized SQL statement to a separate callProcedure invocation.";

/// The call for queries of large intermediate results, which takes no DDL.
const AD_HOC_LARGE: &str = "@AdHocLarge";

/// See the module.
pub(super) struct Planner {
    facts: Arc<HostFacts>,
    /// What queries are planned with.
    planning: Planning,
    plans: PlanCache,
    sent_planning: SentPlanning,
    /// Queries that run for `EXPLAIN ANALYZE`.
    analyses: Analyses,
}

/// Planned statements with their parameters.
pub(super) struct PlannedWork {
    pub(super) work: StatementCall,
    /// The partitions that they need.
    pub(super) destination: StatementsDestination,
}

/// What an ad hoc text asks for.
pub(super) enum AdHoc {
    /// To run statements.
    Work(PlannedWork),
    /// To change the schema.
    Ddl(Vec<ParsedStatement>),
    /// To explain statements.
    Explain(Vec<ParsedStatement>),
}

impl Planner {
    /// A planner without plans.
    pub(super) fn new(facts: Arc<HostFacts>) -> Planner {
        Planner {
            planning: facts.options.planning(),
            plans: PlanCache::new(facts.options.plan_cache_entries.to_usize()),
            sent_planning: SentPlanning::default(),
            analyses: Analyses::default(),
            facts,
        }
    }

    /// What queries are planned with.
    pub(super) fn planning(&self) -> &Planning {
        &self.planning
    }

    /// Drops plans that were made with other rules than those that are on now.
    pub(super) fn follow_rules(&mut self) {
        let disabled = RuleSet::from_bits(self.facts.disabled_rules.load(Ordering::Acquire));
        if disabled != self.planning.disabled_rules {
            self.planning.disabled_rules = disabled;
            self.plans.clear();
        }
    }

    /// Drops the plans: another catalog is in force.
    pub(super) fn catalog_changed(&mut self) {
        self.plans.clear();
    }

    /// What is known of the data.
    pub(super) fn known_data(&self) -> &Statistics {
        &self.planning.statistics
    }

    /// Takes what a survey has found.
    pub(super) fn learn(&mut self, surveyed: Surveyed) {
        if surveyed.outdates_plans {
            self.plans.clear();
        }
        self.planning.statistics = Arc::new(surveyed.statistics);
    }

    /// What is counted of planning.
    pub(super) fn counts(&self) -> PlannerCounts {
        self.plans.counts()
    }

    /// Plans the text of `@AdHoc` or `@AdHocLarge`.
    ///
    /// # Errors
    /// What the caller gets: the parameters, the text or a statement is wrong.
    pub(super) fn ad_hoc(
        &mut self,
        catalog: &HostCatalog,
        invocation: &Invocation<'_>,
    ) -> Result<AdHoc, Failure> {
        let text = query_text(invocation)?;
        let limit = self.facts.options.max_statement_bytes.get();
        if text.len() as u64 > limit {
            return Err(Failure::graceful(format!(
                "The SQL text has {} bytes, over the limit of {limit} bytes (option \
                 max_statement_bytes)",
                text.len()
            )));
        }
        let given = invocation.parameters.without_first().unwrap_or(ParameterSet::EMPTY);
        let limits = self.facts.options.sql_limits();
        let form = match self.plans.find(text, &limits, given.count() == 0) {
            Found::Nothing(form) => form,
            Found::Plans(CachedPlans { statements, constants }) => {
                let given = match &constants {
                    None => given,
                    Some(constants) => ParameterSet::new(constants)
                        .map_err(|error| Failure::unexpected(error.to_string()))?,
                };
                return self.bind(catalog, statements, given).map(AdHoc::Work);
            }
        };
        let parsed = parse_batch(text, &limits).map_err(|error| syntax_failure(text, &error))?;
        match classify_batch(&parsed).map_err(plan_failure)? {
            BatchKind::Ddl if invocation.procedure == AD_HOC_LARGE => {
                Err(Failure::graceful("DDL is not supported in @AdHocLarge."))
            }
            BatchKind::Ddl => Ok(AdHoc::Ddl(parsed)),
            BatchKind::DmlQueries
                if parsed.iter().any(|part| part.kind() == StatementKind::Explain) =>
            {
                Ok(AdHoc::Explain(parsed))
            }
            BatchKind::DmlQueries => {
                let began_ns = clock::monotonic_ns();
                let planned = self.plan_all(catalog, &parsed);
                self.plans.count_planning(clock::ns_since(began_ns), planned.is_err());
                let statements = planned?;
                let planning = self.planning_for(catalog, &parsed[0]).into_owned();
                let origin = self.text_origin(catalog, &parsed[0], false);
                let plan = |text: &str| plan_text(&catalog.plan, &planning, text, &limits);
                self.plans.insert(text, form.as_ref(), &statements, origin, plan);
                self.bind(catalog, statements, given).map(AdHoc::Work)
            }
        }
    }

    /// Plans the text of `@AdHocSpForTest`: a statement, a partitioning value, and the statement's
    /// parameters. The statement runs at the partition of the value, whatever it needs; at all that
    /// it needs, if the value is NULL.
    ///
    /// # Errors
    /// As [`Planner::ad_hoc`].
    pub(super) fn ad_hoc_at_partition(
        &mut self,
        catalog: &HostCatalog,
        invocation: &Invocation<'_>,
    ) -> Result<PlannedWork, Failure> {
        let text = query_text(invocation)?;
        let count = invocation.parameters.count();
        if count < 2 {
            return Err(Failure::graceful(format!(
                "@AdHocSpForTest expects at least 2 paramters but got {count}."
            )));
        }
        let Some(Ok(Parameter::Scalar(_, key))) = invocation.parameters.get(1) else {
            return Err(Failure::graceful("@AdHocSpForTest takes one partitioning value."));
        };
        let given = invocation.parameters.without_first().and_then(|rest| rest.without_first());
        let given = given.unwrap_or(ParameterSet::EMPTY);
        let limits = self.facts.options.sql_limits();
        let parsed = parse_batch(text, &limits).map_err(|error| syntax_failure(text, &error))?;
        let [statement] = parsed.as_slice() else {
            return Err(Failure::graceful(
                "@AdHocSpForTest expects precisely one statement (no batching).",
            ));
        };
        if classify_batch(&parsed).map_err(plan_failure)? == BatchKind::Ddl {
            return Err(Failure::graceful("@AdHocSpForTest doesn't support DDL."));
        }
        if key == Datum::Null {
            let statements = self.plan_all(catalog, &parsed)?;
            return self.bind(catalog, statements, given);
        }
        let planned = self
            .plan(catalog, statement, PlanContext::SinglePartition)
            .map_err(|error| statement_failure(&statement.text, &error))?;
        let prepared = PreparedStatement::new(Arc::new(planned));
        let origin = self.text_origin(catalog, statement, true);
        let statements = vec![Arc::new(prepared.with_origin(origin))];
        let parameters = check_parameters(&statements, given)?;
        let destination = StatementsDestination::One(self.facts.ring.partition_of(key));
        Ok(PlannedWork { work: work_of(statements, &parameters), destination })
    }

    /// Plans for all partitions.
    fn plan_all(
        &self,
        catalog: &HostCatalog,
        parsed: &[ParsedStatement],
    ) -> Result<Vec<Arc<PreparedStatement>>, Failure> {
        let plan = |statement: &ParsedStatement| {
            let planned = self
                .plan(catalog, statement, PlanContext::MultiPartition)
                .map_err(|error| statement_failure(&statement.text, &error))?;
            let partition_count = self.facts.partition_count;
            let prepared = PreparedStatement::for_partitions(planned, partition_count);
            Ok(Arc::new(prepared.with_origin(self.text_origin(catalog, statement, false))))
        };
        parsed.iter().map(plan).collect()
    }

    fn plan(
        &self,
        catalog: &HostCatalog,
        statement: &ParsedStatement,
        context: PlanContext,
    ) -> Result<Statement, PlanError> {
        let planning = self.planning_for(catalog, statement);
        plan_statement_with(&catalog.plan, &planning, statement, context)
    }

    /// What a statement is planned with. Replay plans those that write again, and has to find the
    /// rows in the same order: so they are planned with what was known of the data at the last
    /// change of the catalog, as statements of procedures are.
    fn planning_for(
        &self,
        catalog: &HostCatalog,
        statement: &ParsedStatement,
    ) -> Cow<'_, Planning> {
        match statement.kind() {
            StatementKind::Dml => Cow::Owned(Planning {
                disabled_rules: self.planning.disabled_rules,
                ..catalog.plan.planning.clone()
            }),
            _ => Cow::Borrowed(&self.planning),
        }
    }

    /// The origin of a statement of text, for logs and messages.
    fn text_origin(
        &self,
        catalog: &HostCatalog,
        statement: &ParsedStatement,
        single_partition: bool,
    ) -> StatementOrigin {
        let rules_off = self.planning.disabled_rules.bits();
        let known = &catalog.plan.planning;
        let planning = self.planning_for(catalog, statement);
        let is_known = Arc::ptr_eq(&planning.statistics, &known.statistics)
            && planning.local_data == known.local_data
            && planning.max_ordered_sources == known.max_ordered_sources;
        let planning = (!is_known).then(|| self.sent_planning.of(&planning));
        StatementOrigin::Text { single_partition, rules_off, planning }
    }

    /// Gives planned statements their parameters, and finds the partitions that they need.
    fn bind(
        &self,
        catalog: &HostCatalog,
        statements: Vec<Arc<PreparedStatement>>,
        given: ParameterSet<'_>,
    ) -> Result<PlannedWork, Failure> {
        let parameters = check_parameters(&statements, given)?;
        let destination = self.destination(catalog, &statements, given)?;
        Ok(PlannedWork { work: work_of(statements, &parameters), destination })
    }

    /// The partitions that all of some statements need.
    fn destination(
        &self,
        catalog: &HostCatalog,
        statements: &[Arc<PreparedStatement>],
        given: ParameterSet<'_>,
    ) -> Result<StatementsDestination, Failure> {
        let statements = statements.iter().map(|statement| (&**statement, given));
        statements_destination(&catalog.plan, &self.facts.ring, statements)
    }
}

/// The SQL text of an ad hoc call.
fn query_text<'a>(invocation: &Invocation<'a>) -> Result<&'a str, Failure> {
    if invocation.parameters.count() == 0 {
        return Err(Failure::graceful(NO_QUERY));
    }
    text_parameter(invocation, 0).ok_or_else(|| Failure::graceful(QUERY_IS_NO_TEXT))
}

/// Checks the number of parameters; returns them as the statements get them.
fn check_parameters(
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

/// The work of statements that are answered with their results.
fn work_of(statements: Vec<Arc<PreparedStatement>>, parameters: &Arc<[u8]>) -> StatementCall {
    let read_only = statements.iter().all(|statement| statement.statement().read_only);
    let statements = statements.into_iter().map(|statement| bound(statement, parameters, None));
    StatementCall { statements: statements.collect(), read_only, answer: AnswerForm::Results }
}

/// A statement with its parameters; with a number, its operators are counted under that.
fn bound(
    statement: Arc<PreparedStatement>,
    parameters: &Arc<[u8]>,
    profile: Option<u32>,
) -> BoundStatement {
    let parameters = Arc::clone(parameters);
    BoundStatement { statement, parameters, shipped: None, found: None, profile }
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
