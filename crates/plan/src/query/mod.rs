//! Queries and DML: binding, optimization, partition inference, fragments.

mod access;
mod bind;
mod cover;
mod entries;
mod estimate;
mod expire;
pub(crate) mod explain;
mod flatten;
mod imply;
mod logical;
mod partition;
mod physical;
mod push;
mod simplify;
mod upkeep;
mod walk;

use crate::catalog::Catalog;
use crate::error::PlanError;
use crate::planning::Planning;
use crate::rules::Rule;
use bind::Binder;
pub(crate) use cover::{cover, cover_of_text};
pub(crate) use expire::{expire, expire_of_text};
use lockstep_plan_ir::Statement;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_sql::ast::{self, ParsedStatement};
use lockstep_types::TableSchema;
use physical::Planner;
use physical::dml::Plan;

pub(crate) use bind::view::{BoundView, ViewColumn, ViewColumnKind, bind_view_select};
pub(crate) use bind::{
    NO_SUBQUERIES, any_call, bind_argument, bind_default, bind_table_expression, not_found_message,
    sql_type_of,
};

/// The names of all functions, in upper case, aliases included.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    bind::function_names()
}

/// Where a statement will run, which decides how it may be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanContext {
    /// Within a procedure that runs at one partition: local plan with guards.
    SinglePartition,
    /// Within a multi-partition procedure, or ad hoc: local with a routing value when one
    /// partition has all that is needed, else distributed.
    MultiPartition,
}

/// Plans a query or DML statement.
///
/// # Errors
/// Unknown names, wrong types, unsupported clauses: see the message.
pub fn plan_statement(
    catalog: &Catalog,
    statement: &ParsedStatement,
    context: PlanContext,
) -> Result<Statement, PlanError> {
    plan_statement_with(catalog, &catalog.planning, statement, context)
}

/// As [`plan_statement`], with rules, limits and counts other than the catalog's own.
///
/// # Errors
/// As for [`plan_statement`].
pub fn plan_statement_with(
    catalog: &Catalog,
    planning: &Planning,
    statement: &ParsedStatement,
    context: PlanContext,
) -> Result<Statement, PlanError> {
    let mut binder = Binder::new(catalog, statement.parameter_count)?;
    let (plan, result, ordered, upkeep) = plan(&mut binder, planning, statement, context)?;
    let read_only = matches!(statement.statement, ast::Statement::Query(_));
    Ok(Statement {
        text: statement.text.clone(),
        parameters: binder.finish_parameters()?,
        result,
        read_only,
        execution: plan.execution,
        guards: plan.guards,
        slot_count: binder.slot_count(),
        subquery_count: binder.subquery_count(),
        ordered,
        upkeep,
        needs_entries: binder.reads_entries,
    })
}

/// Plans the DELETE that makes room in a table with LIMIT PARTITION ROWS: it runs at each
/// partition for itself. Gives its number of slots, too.
///
/// # Errors
/// As for [`plan_statement`]; also for subqueries, which other partitions might have to answer.
pub(crate) fn plan_purge(
    catalog: &Catalog,
    delete: &ast::Delete,
) -> Result<(lockstep_plan_ir::statement::Delete, u16), PlanError> {
    let planning = &catalog.planning;
    let mut binder = Binder::new(catalog, 0)?;
    let mut bound = binder.delete(delete)?;
    if binder.subquery_count() > 0 {
        return Err(PlanError::new("subqueries are not allowed"));
    }
    rewrite(planning, &mut bound.source, &mut binder);
    let operation = Planner::new(&mut binder, planning).change_operation(&bound, false)?;
    match operation {
        lockstep_plan_ir::Operation::Delete(delete) => Ok((delete, binder.slot_count())),
        _ => Err(PlanError::new("it is no DELETE")),
    }
}

/// Brings a bound query to a form that has better plans.
fn rewrite(planning: &Planning, query: &mut logical::Query, binder: &mut Binder<'_>) {
    if planning.uses(Rule::FlattenDerivedTables) {
        flatten::flatten(query, &mut binder.subqueries);
    }
    if planning.uses(Rule::SimplifyOuterJoins) {
        simplify::simplify(query, &mut binder.subqueries);
    }
    if planning.uses(Rule::ImpliedConditions) {
        imply::imply(query, &mut binder.subqueries);
    }
    if planning.uses(Rule::PushFilters) {
        push::push(query, &mut binder.subqueries);
    }
}

fn plan(
    binder: &mut Binder<'_>,
    planning: &Planning,
    statement: &ParsedStatement,
    context: PlanContext,
) -> Result<(Plan, TableSchema, bool, IndexUpkeep), PlanError> {
    let counts = TableSchema::modified_tuples();
    match &statement.statement {
        ast::Statement::Query(query) => {
            let mut bound = binder.bind_query(query)?.query;
            rewrite(planning, &mut bound, binder);
            if context == PlanContext::MultiPartition && planning.uses(Rule::GlobalIndexes) {
                let catalog = binder.catalog;
                binder.reads_entries |=
                    entries::read_entries(&mut bound, &mut binder.subqueries, catalog);
            }
            let plan = Planner::new(binder, planning).plan_query(&mut bound, context)?;
            let named: Vec<_> = (0..bound.output.len())
                .map(|position| {
                    let sql_type = bound.output[position].expression.sql_type;
                    (bound.column_name(position), sql_type)
                })
                .collect();
            let ordered = !bound.order.is_empty();
            Ok((plan, TableSchema::new(&named), ordered, IndexUpkeep::None))
        }
        ast::Statement::Insert(insert) => {
            let mut bound = binder.insert(insert)?;
            rewrite(planning, &mut bound.source, binder);
            let plan = Planner::new(binder, planning).plan_insert(&bound, context)?;
            let upkeep = upkeep::of_insert(&bound, &plan.execution);
            Ok((plan, counts, true, upkeep))
        }
        ast::Statement::Update(update) => {
            let mut bound = binder.update(update)?;
            rewrite(planning, &mut bound.source, binder);
            let plan = Planner::new(binder, planning).plan_change(&bound, true, context)?;
            Ok((plan, counts, true, upkeep::of_change(&bound, true)))
        }
        ast::Statement::Delete(delete) => {
            let mut bound = binder.delete(delete)?;
            rewrite(planning, &mut bound.source, binder);
            let plan = Planner::new(binder, planning).plan_change(&bound, false, context)?;
            Ok((plan, counts, true, upkeep::of_change(&bound, false)))
        }
        ast::Statement::Truncate(name) => {
            let table = binder.target(name)?;
            let planner = Planner::new(binder, planning);
            let plan = planner.plan_truncate(&table, context, &statement.text)?;
            Ok((plan, counts, true, upkeep::of_truncate(&table.definition)))
        }
        ast::Statement::Migrate(_) => Err(PlanError::new("MIGRATE is not supported yet")),
        _ => Err(PlanError::new("this statement is not a query or DML statement")),
    }
}
