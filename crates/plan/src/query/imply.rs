//! Conditions that follow from others: what is known of a column holds for all columns that are
//! equal to it. Tables are then restricted before they are joined, and partitions are named for
//! all of them.

use super::logical::{Body, From, LeafKind, Query, Select, Subqueries};
use super::partition::is_known;
use lockstep_plan_ir::{Comparison, Expression, Node};
use lockstep_types::SqlType;

/// Most conditions that are added to a WHERE.
const MAX_ADDED: usize = 64;

/// Adds what follows to a query and to all subqueries.
pub(crate) fn imply(query: &mut Query, subqueries: &mut Subqueries) {
    subqueries.values_mut().for_each(imply_query);
    imply_query(query);
}

fn imply_query(query: &mut Query) {
    match &mut query.body {
        Body::Select(select) => {
            imply_sources(&mut select.from);
            if !matches!(select.from, From::Leaf(_)) {
                let added = implied(select);
                select.filter.extend(added);
            }
        }
        Body::Set { branches, .. } => branches.iter_mut().for_each(imply_query),
        Body::Recursive { base, step, .. } => {
            imply_query(base);
            imply_query(step);
        }
    }
}

fn imply_sources(from: &mut From) {
    match from {
        From::Leaf(leaf) => {
            if let LeafKind::Derived(query) = &mut leaf.kind {
                imply_query(query);
            }
        }
        From::Inner { items, .. } => items.iter_mut().for_each(imply_sources),
        From::Outer { left, right, .. } => {
            imply_sources(left);
            imply_sources(right);
        }
    }
}

/// What follows from the conditions that hold for all rows of a SELECT.
fn implied(select: &Select) -> Vec<Expression> {
    let mut all: Vec<&Expression> = select.filter.iter().collect();
    if let From::Inner { conjuncts, .. } = &select.from {
        all.extend(conjuncts);
    }
    let equal = all.iter().filter_map(|condition| match &condition.node {
        Node::Compare(Comparison::Equal, a, b) if is_column(a) && is_column(b) => {
            alike(a.sql_type, b.sql_type).then_some((&**a, &**b))
        }
        _ => None,
    });
    let equal: Vec<(&Expression, &Expression)> = equal.collect();
    let mut added: Vec<Expression> = Vec::new();
    if equal.is_empty() {
        return added;
    }
    for condition in &all {
        let Some(column) = restricted(condition) else { continue };
        for other in same(column, &equal) {
            let follows = about(condition, column, other);
            if added.len() < MAX_ADDED && !added.contains(&follows) && !all.contains(&&follows) {
                added.push(follows);
            }
        }
    }
    added
}

fn is_column(expression: &Expression) -> bool {
    matches!(expression.node, Node::Column { .. })
}

fn alike(a: SqlType, b: SqlType) -> bool {
    a == b || a.is_integer() && b.is_integer()
}

/// The column that a condition compares with what is known before the statement runs.
fn restricted(condition: &Expression) -> Option<&Expression> {
    match &condition.node {
        Node::Compare(
            Comparison::Equal
            | Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual,
            a,
            b,
        ) => match (is_column(a) && is_known(b), is_column(b) && is_known(a)) {
            (true, _) => Some(a),
            (_, true) => Some(b),
            _ => None,
        },
        Node::InList { value, list } if is_column(value) && list.iter().all(is_known) => {
            Some(value)
        }
        Node::InArray { value, .. } if is_column(value) => Some(value),
        _ => None,
    }
}

/// The columns that are equal to one, itself left out.
fn same<'e>(
    column: &'e Expression,
    equal: &[(&'e Expression, &'e Expression)],
) -> Vec<&'e Expression> {
    let mut found = vec![column];
    let mut next = 0;
    while let Some(one) = found.get(next).copied() {
        next += 1;
        for (a, b) in equal {
            let other = match (a.node == one.node, b.node == one.node) {
                (true, _) => *b,
                (_, true) => *a,
                _ => continue,
            };
            if !found.iter().any(|known| known.node == other.node) {
                found.push(other);
            }
        }
    }
    found.split_off(1)
}

/// A condition about one column as one about another.
fn about(condition: &Expression, column: &Expression, other: &Expression) -> Expression {
    let mut moved = condition.clone();
    super::walk::each_child_mut(&mut moved, &mut |child| {
        if child.node == column.node {
            *child = other.clone();
        }
    });
    moved
}
