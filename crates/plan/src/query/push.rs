//! Conditions over derived tables, moved into them: they restrict rows before these are grouped,
//! and name partitions.

use super::logical::{Body, From, Leaf, LeafKind, Output, Query, Select, Subqueries};
use super::walk;
use lockstep_plan_ir::{Expression, Node};

/// Moves what can be moved, in a query and in all subqueries.
pub(crate) fn push(query: &mut Query, subqueries: &mut Subqueries) {
    subqueries.values_mut().for_each(push_query);
    push_query(query);
}

fn push_query(query: &mut Query) {
    match &mut query.body {
        Body::Select(select) => {
            push_from(&mut select.from, &mut select.filter);
            each_derived(&mut select.from, &mut push_query);
        }
        Body::Set { branches, .. } => branches.iter_mut().for_each(push_query),
        Body::Recursive { base, step, .. } => {
            push_query(base);
            push_query(step);
        }
    }
}

fn each_derived(from: &mut From, visit: &mut dyn FnMut(&mut Query)) {
    match from {
        From::Leaf(Leaf { kind: LeafKind::Derived(query), .. }) => visit(query),
        From::Leaf(_) => {}
        From::Inner { items, .. } => items.iter_mut().for_each(|item| each_derived(item, visit)),
        From::Outer { left, right, .. } => {
            each_derived(left, visit);
            each_derived(right, visit);
        }
    }
}

/// Moves conditions that hold for all rows that come out of `from`; those of a LEFT JOIN's ON
/// into its right side only.
fn push_from(from: &mut From, conditions: &mut Vec<Expression>) {
    match from {
        From::Leaf(Leaf { slot, kind: LeafKind::Derived(query) }) => {
            conditions.retain(|condition| {
                let movable = reads_only(condition, *slot)
                    && !walk::any(condition, &|e| walk::subquery_of(e).is_some());
                !(movable && push_into(query, *slot, condition))
            });
        }
        From::Leaf(_) | From::Outer { full: true, .. } => {}
        From::Inner { items, conjuncts } => {
            for item in items {
                push_from(item, conditions);
                push_from(item, conjuncts);
            }
        }
        From::Outer { full: false, left, right, conjuncts } => {
            push_from(left, conditions);
            push_from(right, conjuncts);
        }
    }
}

/// True for a condition that reads columns of one slot, and of no other.
fn reads_only(condition: &Expression, slot: u16) -> bool {
    let column = |e: &Expression, of: &dyn Fn(u16) -> bool| match e.node {
        Node::Column { slot, .. } => of(slot),
        _ => false,
    };
    walk::any(condition, &|e| column(e, &|read| read == slot))
        && !walk::any(condition, &|e| column(e, &|read| read != slot))
}

/// Adds a condition over the result of a query, whose rows are in `slot`, to the query itself;
/// false, with nothing changed, if that is not the same.
fn push_into(query: &mut Query, slot: u16, condition: &Expression) -> bool {
    if query.limit.is_some() || query.offset.is_some() {
        return false;
    }
    let Some(condition) = over_output(condition, slot, &query.output) else { return false };
    match &mut query.body {
        Body::Select(select) => push_into_select(select, condition),
        Body::Set { branches, slot, .. } => {
            let mut changed = branches.clone();
            let all = changed.iter_mut().all(|branch| push_into(branch, *slot, &condition));
            if all {
                *branches = changed;
            }
            all
        }
        Body::Recursive { .. } => false,
    }
}

fn push_into_select(select: &mut Select, condition: Expression) -> bool {
    if select.window.is_some() {
        return false;
    }
    let mut condition = condition;
    if let Some(distinct) = &select.distinct {
        match replaced(&condition, distinct.slot, &distinct.expressions) {
            Some(below) => condition = below,
            None => return false,
        }
    }
    let Some(aggregate) = &select.aggregate else {
        select.filter.push(condition);
        return true;
    };
    match replaced(&condition, aggregate.slot, &aggregate.group) {
        // Nothing but the group's values: whole groups stay or go.
        Some(before) if !aggregate.group.is_empty() => select.filter.push(before),
        _ => select.having.push(condition),
    }
    true
}

/// A condition over a query's result as one over what the result is made of.
fn over_output(condition: &Expression, slot: u16, output: &[Output]) -> Option<Expression> {
    let values: Vec<Expression> = output.iter().map(|column| column.expression.clone()).collect();
    replaced(condition, slot, &values)
}

/// An expression with the columns of a slot replaced by values; none if one has no value of the
/// same type without subqueries.
fn replaced(expression: &Expression, slot: u16, values: &[Expression]) -> Option<Expression> {
    let mut moved = expression.clone();
    let mut fits = true;
    replace(&mut moved, &mut |node| {
        let Node::Column { slot: read, column } = node.node else { return false };
        if read != slot {
            return false;
        }
        match values.get(usize::from(column)) {
            Some(value)
                if value.sql_type == node.sql_type
                    && !walk::any(value, &|e| walk::subquery_of(e).is_some()) =>
            {
                *node = value.clone();
            }
            _ => fits = false,
        }
        true
    });
    fits.then_some(moved)
}

/// Calls `change` for all nodes from the top; what it has replaced is not visited.
fn replace(expression: &mut Expression, change: &mut dyn FnMut(&mut Expression) -> bool) {
    if !change(expression) {
        walk::each_child_mut(expression, &mut |child| replace(child, change));
    }
}
