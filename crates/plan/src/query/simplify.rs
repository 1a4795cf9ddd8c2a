//! Outer joins whose NULL-filled rows no condition lets through become inner joins, or left
//! joins where they were full: their sides may then be read in any order and through indexes.

use super::logical::{Body, From, LeafKind, Query, Subqueries};
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::{Comparison, Expression, Node};

/// Simplifies the joins of a query and of all subqueries.
pub(crate) fn simplify(query: &mut Query, subqueries: &mut Subqueries) {
    subqueries.values_mut().for_each(simplify_query);
    simplify_query(query);
}

fn simplify_query(query: &mut Query) {
    match &mut query.body {
        Body::Select(select) => {
            let nothing = From::Inner { items: Vec::new(), conjuncts: Vec::new() };
            let from = std::mem::replace(&mut select.from, nothing);
            select.from = joins(from, &select.filter);
        }
        Body::Set { branches, .. } => branches.iter_mut().for_each(simplify_query),
        Body::Recursive { base, step, .. } => {
            simplify_query(base);
            simplify_query(step);
        }
    }
}

/// FROM with its joins simplified; `conditions` hold for all rows that come out.
fn joins(from: From, conditions: &[Expression]) -> From {
    match from {
        From::Leaf(mut leaf) => {
            if let LeafKind::Derived(query) = &mut leaf.kind {
                simplify_query(query);
            }
            From::Leaf(leaf)
        }
        From::Inner { items, conjuncts } => inner(items, conjuncts, conditions),
        From::Outer { full, left, right, conjuncts } => {
            let rejected = |side: &From| {
                let slots = side.slots();
                conditions.iter().any(|condition| rejects(condition, &slots))
            };
            match (full, rejected(&left), rejected(&right)) {
                (false, _, true) | (true, true, true) => {
                    inner(vec![*left, *right], conjuncts, conditions)
                }
                (true, true, false) => outer(*left, *right, conjuncts, conditions),
                (true, false, true) => outer(*right, *left, conjuncts, conditions),
                (false, _, false) => outer(*left, *right, conjuncts, conditions),
                (true, false, false) => {
                    let (left, right) = (joins(*left, &[]), joins(*right, &[]));
                    From::Outer { full, left: Box::new(left), right: Box::new(right), conjuncts }
                }
            }
        }
    }
}

fn outer(left: From, right: From, conjuncts: Vec<Expression>, conditions: &[Expression]) -> From {
    let left = Box::new(joins(left, conditions));
    let right = Box::new(joins(right, &conjuncts));
    From::Outer { full: false, left, right, conjuncts }
}

fn inner(items: Vec<From>, conjuncts: Vec<Expression>, conditions: &[Expression]) -> From {
    let mut known = conditions.to_vec();
    known.extend(conjuncts.iter().cloned());
    let (mut all, mut conditions) = (Vec::with_capacity(items.len()), conjuncts);
    for item in items {
        match joins(item, &known) {
            From::Inner { items, conjuncts } => {
                all.extend(items);
                conditions.extend(conjuncts);
            }
            other => all.push(other),
        }
    }
    From::Inner { items: all, conjuncts: conditions }
}

/// True when a condition is not true for rows whose columns of these slots are all NULL.
fn rejects(condition: &Expression, slots: &[u16]) -> bool {
    match &condition.node {
        Node::Compare(Comparison::Distinct | Comparison::NotDistinct, ..) => false,
        Node::Compare(_, a, b) => is_null(a, slots) || is_null(b, slots),
        Node::InList { value, .. } | Node::InArray { value, .. } => is_null(value, slots),
        Node::Like { value, .. } | Node::StartsWith(value, _) => is_null(value, slots),
        Node::Quantified { quantifier: Quantifier::Any, row, .. } => {
            row.iter().any(|e| is_null(e, slots))
        }
        Node::Not(inner) => match &inner.node {
            Node::IsNull(value) => is_null(value, slots),
            _ => false,
        },
        Node::And(list) => list.iter().any(|condition| rejects(condition, slots)),
        Node::Or(list) => list.iter().all(|condition| rejects(condition, slots)),
        _ => false,
    }
}

/// True when an expression is NULL if the columns of these slots are.
fn is_null(expression: &Expression, slots: &[u16]) -> bool {
    match &expression.node {
        Node::Column { slot, .. } => slots.contains(slot),
        Node::Arithmetic(_, a, b) => is_null(a, slots) || is_null(b, slots),
        Node::Negate(value) | Node::Cast { value, .. } => is_null(value, slots),
        _ => false,
    }
}
