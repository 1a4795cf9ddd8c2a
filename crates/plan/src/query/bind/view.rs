//! The SELECT of a materialized view, bound.

use crate::catalog::{Catalog, CatalogTable};
use crate::error::PlanError;
use lockstep_plan_ir::{AggregateFunction, Expression};
use lockstep_sql::ast;
use lockstep_types::SqlType;
use std::sync::Arc;

/// The SELECT of a view. The row of `sources[i]` is in slot `i`.
#[derive(Debug)]
pub(crate) struct BoundView {
    /// The tables, in the order of FROM; only inner joins.
    pub(crate) sources: Vec<Arc<CatalogTable>>,
    /// WHERE and all join conditions, ANDed.
    pub(crate) predicate: Option<Expression>,
    /// GROUP BY, in its order.
    pub(crate) group: Vec<Expression>,
    /// The select list.
    pub(crate) columns: Vec<ViewColumn>,
}

/// An item of a view's select list.
#[derive(Debug)]
pub(crate) struct ViewColumn {
    /// The alias, the column's name, or `C1`, `C2` ... by position.
    pub(crate) name: String,
    /// Its type.
    pub(crate) sql_type: SqlType,
    /// What it is.
    pub(crate) kind: ViewColumnKind,
}

/// What an item of a view's select list is.
#[derive(Debug)]
pub(crate) enum ViewColumnKind {
    /// The GROUP BY expression of that number.
    Group(usize),
    /// A plain aggregate.
    Aggregate {
        /// Which; any that the dialect has: the caller refuses those that views may not hold.
        function: AggregateFunction,
        /// DISTINCT inside.
        distinct: bool,
        /// The argument; none for COUNT(*).
        argument: Option<Expression>,
    },
    /// Neither: an ungrouped column or an expression over aggregates, which views refuse.
    Other,
}

/// Binds the SELECT of a view. What views may not hold syntactically (ORDER BY, LIMIT, HAVING,
/// DISTINCT, set operations, subqueries, outer joins, parameters) is refused here, with messages
/// that begin `Materialized view "V" `; the rules about select lists are the caller's.
///
/// # Errors
/// Unknown names, wrong types, refused clauses.
pub(crate) fn bind_view_select(
    catalog: &Catalog,
    view_name: &str,
    query: &ast::Query,
) -> Result<BoundView, PlanError> {
    let _ = (catalog, view_name);
    Err(PlanError::at(query.span, "views are not bound yet"))
}
