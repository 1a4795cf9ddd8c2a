//! The SELECT of a materialized view, bound.

use super::dml::select_of;
use super::scope::Scope;
use super::select::leaves;
use super::{Binder, Rules};
use crate::catalog::{Catalog, CatalogTable};
use crate::error::PlanError;
use crate::query::flatten::flatten;
use crate::query::logical::{Body, From, LeafKind, Output, Query, Select};
use crate::query::walk;
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
/// set operations, subqueries, outer joins, parameters) is refused here, with messages that begin
/// `Materialized view "V" `; the rules about select lists are the caller's. Derived tables that
/// are nothing but columns and conditions count as the tables that they read.
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
    // DISTINCT changes nothing: the select list has all groups, so no two rows are equal.
    let mut binder = Binder::new(catalog, 0)?;
    binder.rules = Rules { parameters: false, subqueries: false, user_functions: false };
    binder.scopes.push(Scope::default());
    let from = binder.from(&select.from)?;
    let filter = match &select.selection {
        Some(condition) => binder.conjuncts(condition)?,
        None => Vec::new(),
    };
    let mut group = binder.group_by(&select.group_by, &select.items)?;
    let mut columns = binder.view_columns(&select.items, &group)?;
    let (sources, conjuncts) =
        match binder.view_sources(select_of(from, filter), &mut group, &mut columns) {
            Ok(found) => found,
            Err(reason) => return refuse(reason),
        };
    let predicate = match conjuncts.len() {
        0 | 1 => conjuncts.into_iter().next(),
        _ => Some(super::expression::boolean(Node::And(conjuncts))),
    };
    Ok(BoundView { sources, predicate, group, columns })
}

impl Binder<'_> {
    /// The tables of a view and its conditions, with derived tables dissolved into it. The groups
    /// and the arguments of aggregates are brought over the tables, each in the slot of its number.
    fn view_sources(
        &mut self,
        select: Select,
        group: &mut [Expression],
        columns: &mut [ViewColumn],
    ) -> Result<(Vec<Arc<CatalogTable>>, Vec<Expression>), &'static str> {
        let arguments = columns.iter_mut().filter_map(|column| match &mut column.kind {
            ViewColumnKind::Aggregate { argument, .. } => argument.as_mut(),
            _ => None,
        });
        let mut values: Vec<&mut Expression> = group.iter_mut().chain(arguments).collect();
        let named =
            |value: &&mut Expression| Output { name: String::new(), expression: (**value).clone() };
        let output = values.iter().map(named).collect();
        let body = Body::Select(select);
        let mut query = Query { body, output, order: Vec::new(), limit: None, offset: None };
        flatten(&mut query, &mut self.subqueries);
        let Body::Select(select) = &query.body else { return Err("is not a plain SELECT.") };
        let (mut sources, mut slots) = (Vec::new(), Vec::new());
        for leaf in leaves(&select.from) {
            match &leaf.kind {
                LeafKind::Table(table) => sources.push(Arc::clone(table)),
                _ => return Err("cannot be defined over a subquery."),
            }
            slots.push(leaf.slot);
        }
        if sources.is_empty() {
            return Err("reads no table.");
        }
        walk::change_query(&mut query, &mut self.subqueries, &mut |node| {
            if let Node::Column { slot, .. } = &mut node.node
                && let Some(place) = slots.iter().position(|known| known == slot)
            {
                *slot = place as u16;
            }
            false
        });
        for (value, output) in values.iter_mut().zip(query.output) {
            **value = output.expression;
        }
        let Body::Select(select) = query.body else { return Err("is not a plain SELECT.") };
        let mut conjuncts = match select.from {
            From::Leaf(_) => Vec::new(),
            From::Inner { items, conjuncts }
                if items.iter().all(|item| matches!(item, From::Leaf(_))) =>
            {
                conjuncts
            }
            _ => return Err("only supports INNER JOIN."),
        };
        conjuncts.extend(select.filter);
        Ok((sources, conjuncts))
    }

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
            let call = self.aggregate_parts(&function, call, SqlType::Null, expression.span)?;
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
