//! Bound queries before any plan is chosen: typed expressions over slots, tables still joined in
//! the order they were written.
//!
//! Subqueries within expressions stay outside of them, in [`Subqueries`] by their number; the
//! expression holds an empty [`lockstep_plan_ir::expression::Subquery`] with that number.

use crate::catalog::CatalogTable;
use lockstep_plan_ir::Expression;
use lockstep_plan_ir::relation::{AggregateCall, SetOperator, SortKey, WindowCall};
use lockstep_types::SqlType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The subqueries of a statement's expressions, by number.
pub(crate) type Subqueries = BTreeMap<u16, Query>;

/// A query with its order and limit.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// Where rows come from.
    pub(crate) body: Body,
    /// The result's columns, over the body's slots.
    pub(crate) output: Vec<Output>,
    /// ORDER BY, over the body's slots.
    pub(crate) order: Vec<SortKey>,
    /// LIMIT.
    pub(crate) limit: Option<Expression>,
    /// OFFSET.
    pub(crate) offset: Option<Expression>,
}

/// A result column.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// Its name; empty for expressions, which are named by position.
    pub(crate) name: String,
    /// Its value.
    pub(crate) expression: Expression,
}

/// The forms of a query.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "made once per statement")]
pub(crate) enum Body {
    /// One SELECT.
    Select(Select),
    /// Set operation; its rows are in `slot`.
    Set {
        /// Which.
        operator: SetOperator,
        /// Keep duplicates.
        all: bool,
        /// Branches of equal width.
        branches: Vec<Query>,
        /// The slot of the result's rows.
        slot: u16,
    },
    /// A recursive common table; its rows are in `slot`.
    Recursive {
        /// Its number among subqueries and common tables.
        number: u16,
        /// First rows.
        base: Box<Query>,
        /// Rows that follow.
        step: Box<Query>,
        /// Keep duplicates.
        all: bool,
        /// The slot of the result's rows.
        slot: u16,
    },
}

/// One SELECT, in the order in which its parts are evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    /// FROM.
    pub(crate) from: From,
    /// WHERE, as conjuncts.
    pub(crate) filter: Vec<Expression>,
    /// GROUP BY and aggregates.
    pub(crate) aggregate: Option<Aggregate>,
    /// HAVING, as conjuncts over the group's row.
    pub(crate) having: Vec<Expression>,
    /// Window functions.
    pub(crate) window: Option<Window>,
    /// DISTINCT: the select list's values go to a slot of their own.
    pub(crate) distinct: Option<Distinct>,
}

/// Grouping.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    /// The slot of the group's row: group values, then calls.
    pub(crate) slot: u16,
    /// GROUP BY.
    pub(crate) group: Vec<Expression>,
    /// The aggregates.
    pub(crate) calls: Vec<AggregateCall>,
}

/// Window functions of a SELECT.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The slot of the values.
    pub(crate) slot: u16,
    /// The calls.
    pub(crate) calls: Vec<WindowCall>,
}

/// SELECT DISTINCT.
#[derive(Debug, Clone)]
pub(crate) struct Distinct {
    /// The slot of the values.
    pub(crate) slot: u16,
    /// The values.
    pub(crate) expressions: Vec<Expression>,
}

/// FROM. Right joins are brought to left joins by exchanging their sides.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "made once per statement")]
pub(crate) enum From {
    /// A single source.
    Leaf(Leaf),
    /// Sources joined by comma, CROSS JOIN or INNER JOIN; none: one empty row.
    Inner {
        /// What is joined.
        items: Vec<From>,
        /// ON conditions, as conjuncts.
        conjuncts: Vec<Expression>,
    },
    /// LEFT or FULL JOIN.
    Outer {
        /// FULL instead of LEFT.
        full: bool,
        /// Preserved side.
        left: Box<From>,
        /// The other side.
        right: Box<From>,
        /// ON, as conjuncts.
        conjuncts: Vec<Expression>,
    },
}

/// A source of rows with its slot.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    /// The slot.
    pub(crate) slot: u16,
    /// What it is.
    pub(crate) kind: LeafKind,
}

/// The kinds of sources.
#[derive(Debug, Clone)]
pub(crate) enum LeafKind {
    /// A table or view.
    Table(Arc<CatalogTable>),
    /// A derived or common table.
    Derived(Box<Query>),
    /// A table whose rows the coordinator has sent to all partitions.
    Moved {
        /// The slot of the received rows.
        received: u16,
        /// Their types.
        types: Vec<SqlType>,
    },
    /// The previous round of a recursive common table.
    Working {
        /// The common table's number.
        number: u16,
    },
}

impl From {
    /// The slots that it binds.
    pub(crate) fn slots(&self) -> Vec<u16> {
        let mut slots = Vec::new();
        self.each_leaf(&mut |leaf| slots.push(leaf.slot));
        slots
    }

    /// Calls `visit` for all sources, in the order written (but for exchanged sides).
    pub(crate) fn each_leaf<'f>(&'f self, visit: &mut dyn FnMut(&'f Leaf)) {
        match self {
            From::Leaf(leaf) => visit(leaf),
            From::Inner { items, .. } => items.iter().for_each(|item| item.each_leaf(visit)),
            From::Outer { left, right, .. } => {
                left.each_leaf(visit);
                right.each_leaf(visit);
            }
        }
    }

    /// Calls `visit` for all join conditions.
    pub(crate) fn each_condition<'f>(&'f self, visit: &mut dyn FnMut(&'f Expression)) {
        match self {
            From::Leaf(_) => {}
            From::Inner { items, conjuncts } => {
                items.iter().for_each(|item| item.each_condition(visit));
                conjuncts.iter().for_each(visit);
            }
            From::Outer { left, right, conjuncts, .. } => {
                left.each_condition(visit);
                right.each_condition(visit);
                conjuncts.iter().for_each(visit);
            }
        }
    }
}

impl Query {
    /// Types of the result's columns.
    pub(crate) fn types(&self) -> Vec<SqlType> {
        self.output.iter().map(|column| column.expression.sql_type).collect()
    }

    /// Name of the result column at a position: its own, or `C1`, `C2` ...
    pub(crate) fn column_name(&self, position: usize) -> String {
        match self.output.get(position) {
            Some(column) if !column.name.is_empty() => column.name.clone(),
            _ => format!("C{}", position + 1),
        }
    }
}
