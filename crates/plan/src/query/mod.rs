//! Queries and DML: binding, optimization, partition inference, fragments.

mod access;
mod bind;
mod explain;
mod flatten;
mod logical;
mod partition;
mod physical;
mod simplify;
mod walk;

use crate::catalog::Catalog;
use crate::error::PlanError;
use bind::Binder;
use lockstep_plan_ir::Statement;
use lockstep_sql::ast::{self, ParsedStatement};
use lockstep_types::TableSchema;
use physical::Planner;
use physical::dml::Plan;

pub(crate) use bind::view::{BoundView, ViewColumn, ViewColumnKind, bind_view_select};
pub(crate) use bind::{bind_default, bind_table_expression};

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
    let mut binder = Binder::new(catalog, statement.parameter_count)?;
    let (plan, result, ordered) =
        plan(&mut binder, &statement.statement, context, &statement.text)?;
    let read_only = matches!(statement.statement, ast::Statement::Query(_));
    let in_procedure = context == PlanContext::SinglePartition;
    let explanation = explain::explain(catalog, &plan.execution, in_procedure);
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
        explanation,
    })
}

fn plan(
    binder: &mut Binder<'_>,
    statement: &ast::Statement,
    context: PlanContext,
    text: &str,
) -> Result<(Plan, TableSchema, bool), PlanError> {
    let counts = TableSchema::modified_tuples();
    match statement {
        ast::Statement::Query(query) => {
            let mut bound = binder.bind_query(query)?.query;
            flatten::flatten(&mut bound, &mut binder.subqueries);
            simplify::simplify(&mut bound, &mut binder.subqueries);
            let plan = Planner::new(binder).plan_query(&mut bound, context)?;
            let named: Vec<_> = (0..bound.output.len())
                .map(|position| {
                    let sql_type = bound.output[position].expression.sql_type;
                    (bound.column_name(position), sql_type)
                })
                .collect();
            let ordered = !bound.order.is_empty();
            Ok((plan, TableSchema::new(&named), ordered))
        }
        ast::Statement::Insert(insert) => {
            let mut bound = binder.insert(insert)?;
            flatten::flatten(&mut bound.source, &mut binder.subqueries);
            simplify::simplify(&mut bound.source, &mut binder.subqueries);
            Ok((Planner::new(binder).plan_insert(&bound, context)?, counts, true))
        }
        ast::Statement::Update(update) => {
            let mut bound = binder.update(update)?;
            flatten::flatten(&mut bound.source, &mut binder.subqueries);
            simplify::simplify(&mut bound.source, &mut binder.subqueries);
            Ok((Planner::new(binder).plan_change(&bound, true, context)?, counts, true))
        }
        ast::Statement::Delete(delete) => {
            let mut bound = binder.delete(delete)?;
            flatten::flatten(&mut bound.source, &mut binder.subqueries);
            simplify::simplify(&mut bound.source, &mut binder.subqueries);
            Ok((Planner::new(binder).plan_change(&bound, false, context)?, counts, true))
        }
        ast::Statement::Truncate(name) => {
            let table = binder.target(name)?;
            Ok((Planner::new(binder).plan_truncate(&table, context, text)?, counts, true))
        }
        ast::Statement::Migrate(_) => Err(PlanError::new("MIGRATE is not supported yet")),
        _ => Err(PlanError::new("this statement is not a query or DML statement")),
    }
}
