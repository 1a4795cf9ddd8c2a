//! The SELECT of a materialized view, bound.

use super::scope::Scope;
use super::select::leaves;
use super::{Binder, Rules};
use crate::catalog::{Catalog, CatalogTable};
use crate::error::PlanError;
use crate::query::logical::{From, LeafKind};
use lockstep_plan_ir::{AggregateFunction, Expression, Node};
use lockstep_sql::ast::{self, ExpressionKind, QueryBody, SelectItem};
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
    let refuse = |what: &str| {
        let message = format!("Materialized view \"{view_name}\" {what}");
        Err(PlanError::at(query.span, message))
    };
    let QueryBody::Select(select) = &query.body else {
        return refuse("is not a plain SELECT: set operations are not supported.");
    };
    if query.with.is_some() {
        return refuse("has a WITH clause, which is not supported.");
    }
    if !query.order_by.is_empty() {
        return refuse("with an ORDER BY clause is not supported.");
    }
    if !query.limit.is_empty() {
        return refuse("with a LIMIT or OFFSET clause is not supported.");
    }
    if select.having.is_some() {
        return refuse("with a HAVING clause is not supported.");
    }
    if select.distinct {
        return refuse("with DISTINCT is not supported.");
    }
    let mut binder = Binder::new(catalog, 0)?;
    binder.rules = Rules { parameters: false, subqueries: false, user_functions: false };
    binder.scopes.push(Scope::default());
    let from = binder.from(&select.from)?;
    let mut sources = Vec::new();
    for leaf in leaves(&from) {
        match &leaf.kind {
            LeafKind::Table(table) => sources.push(Arc::clone(table)),
            _ => return refuse("cannot be defined over a subquery."),
        }
    }
    if sources.is_empty() {
        return refuse("reads no table.");
    }
    let mut conjuncts = match from {
        From::Leaf(_) => Vec::new(),
        From::Inner { items, conjuncts } if items.iter().all(|i| matches!(i, From::Leaf(_))) => {
            conjuncts
        }
        _ => return refuse("only supports INNER JOIN."),
    };
    if let Some(condition) = &select.selection {
        conjuncts.extend(binder.conjuncts(condition)?);
    }
    let mut group = Vec::with_capacity(select.group_by.len());
    for expression in &select.group_by {
        group.push(binder.group_expression(expression, &select.items)?);
    }
    let columns = binder.view_columns(&select.items, &group)?;
    let predicate = match conjuncts.len() {
        0 | 1 => conjuncts.pop(),
        _ => Some(super::expression::boolean(Node::And(conjuncts))),
    };
    Ok(BoundView { sources, predicate, group, columns })
}

impl Binder<'_> {
    fn view_columns(
        &mut self,
        items: &[SelectItem],
        group: &[Expression],
    ) -> Result<Vec<ViewColumn>, PlanError> {
        let mut columns = Vec::with_capacity(items.len());
        for item in items {
            let SelectItem::Expression { expression, alias } = item else {
                let message = "a materialized view must name its columns: * is not supported.";
                return Err(PlanError::new(message));
            };
            let (kind, sql_type) = self.view_column(expression, group)?;
            let name = match (alias, &expression.kind) {
                (Some(alias), _) => alias.text.clone(),
                (None, ExpressionKind::Column(column)) => column.name.text.clone(),
                _ => format!("C{}", columns.len() + 1),
            };
            columns.push(ViewColumn { name, sql_type, kind });
        }
        Ok(columns)
    }

    fn view_column(
        &mut self,
        expression: &ast::Expression,
        group: &[Expression],
    ) -> Result<(ViewColumnKind, SqlType), PlanError> {
        if let ExpressionKind::Function(call) = &expression.kind
            && call.over.is_none()
            && let Some(function) = self.aggregate_named(&call.name.text)
        {
            let call = self.aggregate_parts(&function, call, expression.span)?;
            let kind = ViewColumnKind::Aggregate {
                function: call.function,
                distinct: call.distinct,
                argument: call.argument,
            };
            return Ok((kind, call.sql_type));
        }
        if self.has_aggregate(expression) {
            return Ok((ViewColumnKind::Other, SqlType::Null));
        }
        let bound = self.expression(expression)?;
        let kind = match group.iter().position(|grouped| *grouped == bound) {
            Some(position) => ViewColumnKind::Group(position),
            None => ViewColumnKind::Other,
        };
        Ok((kind, bound.sql_type))
    }
}
