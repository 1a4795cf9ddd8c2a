//! Walks over expressions, bound queries and relations.

use super::logical::{Body, From, LeafKind, Query, Select, Subqueries};
use lockstep_plan_ir::expression::Subquery;
use lockstep_plan_ir::relation::{KeyList, SortKey};
use lockstep_plan_ir::{Access, Expression, Node, Relation};
use std::collections::BTreeSet;

/// The subquery of a node that holds one.
pub(crate) fn subquery_of(expression: &Expression) -> Option<&Subquery> {
    match &expression.node {
        Node::ScalarSubquery(subquery) | Node::Exists(subquery) => Some(subquery),
        Node::Quantified { subquery, .. } => Some(subquery),
        _ => None,
    }
}

/// As [`subquery_of`].
pub(crate) fn subquery_of_mut(expression: &mut Expression) -> Option<&mut Subquery> {
    match &mut expression.node {
        Node::ScalarSubquery(subquery) | Node::Exists(subquery) => Some(subquery),
        Node::Quantified { subquery, .. } => Some(subquery),
        _ => None,
    }
}

/// Calls `visit` for the operands of a node (not for what is in its subquery).
pub(crate) fn each_child<'e>(expression: &'e Expression, visit: &mut dyn FnMut(&'e Expression)) {
    match &expression.node {
        Node::Literal(_)
        | Node::Parameter(_)
        | Node::Column { .. }
        | Node::ScalarSubquery(_)
        | Node::Exists(_) => {}
        Node::And(list) | Node::Or(list) | Node::Call(_, list) | Node::UserCall(_, list) => {
            list.iter().for_each(visit);
        }
        Node::Quantified { row, .. } => row.iter().for_each(visit),
        Node::Not(one) | Node::IsNull(one) | Node::Negate(one) => visit(one),
        Node::InArray { value, .. } | Node::Cast { value, .. } => visit(value),
        Node::Compare(_, a, b) | Node::Arithmetic(_, a, b) | Node::StartsWith(a, b) => {
            visit(a);
            visit(b);
        }
        Node::Like { value, pattern, .. } => {
            visit(value);
            visit(pattern);
        }
        Node::Case { branches, otherwise } => {
            for (condition, result) in branches {
                visit(condition);
                visit(result);
            }
            otherwise.iter().for_each(|e| visit(e));
        }
        Node::InList { value, list } => {
            visit(value);
            list.iter().for_each(visit);
        }
        Node::CompareRows(_, a, b) => a.iter().chain(b).for_each(visit),
    }
}

/// As [`each_child`].
pub(crate) fn each_child_mut(expression: &mut Expression, visit: &mut dyn FnMut(&mut Expression)) {
    match &mut expression.node {
        Node::Literal(_)
        | Node::Parameter(_)
        | Node::Column { .. }
        | Node::ScalarSubquery(_)
        | Node::Exists(_) => {}
        Node::And(list) | Node::Or(list) | Node::Call(_, list) | Node::UserCall(_, list) => {
            list.iter_mut().for_each(visit);
        }
        Node::Quantified { row, .. } => row.iter_mut().for_each(visit),
        Node::Not(one) | Node::IsNull(one) | Node::Negate(one) => visit(one),
        Node::InArray { value, .. } | Node::Cast { value, .. } => visit(value),
        Node::Compare(_, a, b) | Node::Arithmetic(_, a, b) | Node::StartsWith(a, b) => {
            visit(a);
            visit(b);
        }
        Node::Like { value, pattern, .. } => {
            visit(value);
            visit(pattern);
        }
        Node::Case { branches, otherwise } => {
            for (condition, result) in branches {
                visit(condition);
                visit(result);
            }
            otherwise.iter_mut().for_each(|e| visit(e));
        }
        Node::InList { value, list } => {
            visit(value);
            list.iter_mut().for_each(visit);
        }
        Node::CompareRows(_, a, b) => a.iter_mut().chain(b).for_each(visit),
    }
}

/// Calls `visit` for a node and all nodes below it, subqueries' queries included.
pub(crate) fn walk<'e>(
    expression: &'e Expression,
    subqueries: &'e Subqueries,
    visit: &mut dyn FnMut(&'e Expression),
) {
    visit(expression);
    each_child(expression, &mut |child| walk(child, subqueries, visit));
    if let Some(query) = subquery_of(expression).and_then(|s| subqueries.get(&s.number)) {
        walk_query(query, subqueries, visit);
    }
}

/// Calls `visit` for all nodes of a query, subqueries' queries included.
pub(crate) fn walk_query<'e>(
    query: &'e Query,
    subqueries: &'e Subqueries,
    visit: &mut dyn FnMut(&'e Expression),
) {
    match &query.body {
        Body::Select(select) => {
            for expression in select_expressions(select) {
                walk(expression, subqueries, visit);
            }
            select.from.each_leaf(&mut |leaf| {
                if let LeafKind::Derived(derived) = &leaf.kind {
                    walk_query(derived, subqueries, visit);
                }
            });
        }
        Body::Set { branches, .. } => {
            branches.iter().for_each(|branch| walk_query(branch, subqueries, visit));
        }
        Body::Recursive { base, step, .. } => {
            walk_query(base, subqueries, visit);
            walk_query(step, subqueries, visit);
        }
    }
    for expression in own_expressions(query) {
        walk(expression, subqueries, visit);
    }
}

/// The expressions of a query's output, order and limit.
pub(crate) fn own_expressions(query: &Query) -> impl Iterator<Item = &Expression> {
    let outputs = query.output.iter().map(|column| &column.expression);
    let order = query.order.iter().map(|key| &key.expression);
    outputs.chain(order).chain(&query.limit).chain(&query.offset)
}

/// All expressions of a SELECT but those of derived tables.
pub(crate) fn select_expressions(select: &Select) -> Vec<&Expression> {
    let mut all: Vec<&Expression> = Vec::new();
    select.from.each_condition(&mut |condition| all.push(condition));
    all.extend(&select.filter);
    if let Some(aggregate) = &select.aggregate {
        all.extend(&aggregate.group);
        all.extend(aggregate.calls.iter().filter_map(|call| call.argument.as_ref()));
    }
    all.extend(&select.having);
    for call in select.window.iter().flat_map(|window| &window.calls) {
        all.extend(&call.arguments);
        all.extend(&call.partition);
        all.extend(call.order.iter().map(|key| &key.expression));
    }
    all.extend(select.distinct.iter().flat_map(|distinct| &distinct.expressions));
    all
}

/// Calls `visit` for all sources of a query and of the queries within it.
pub(crate) fn each_leaf<'q>(
    query: &'q Query,
    subqueries: &'q Subqueries,
    visit: &mut dyn FnMut(&'q super::logical::Leaf),
) {
    each_block_leaf(query, visit);
    walk_query(query, subqueries, &mut |expression| {
        if let Some(inner) = subquery_of(expression).and_then(|s| subqueries.get(&s.number)) {
            each_block_leaf(inner, visit);
        }
    });
}

/// The sources of a query and its derived tables and branches, without those of subqueries.
fn each_block_leaf<'q>(query: &'q Query, visit: &mut dyn FnMut(&'q super::logical::Leaf)) {
    match &query.body {
        Body::Select(select) => select.from.each_leaf(&mut |leaf| {
            visit(leaf);
            if let LeafKind::Derived(derived) = &leaf.kind {
                each_block_leaf(derived, visit);
            }
        }),
        Body::Set { branches, .. } => {
            branches.iter().for_each(|branch| each_block_leaf(branch, visit));
        }
        Body::Recursive { base, step, .. } => {
            each_block_leaf(base, visit);
            each_block_leaf(step, visit);
        }
    }
}

/// The slots that a query binds, at any depth.
fn bound_slots(query: &Query, subqueries: &Subqueries, slots: &mut BTreeSet<u16>) {
    each_leaf(query, subqueries, &mut |leaf| {
        slots.insert(leaf.slot);
        if let LeafKind::Derived(derived) = &leaf.kind {
            bound_by_block(derived, slots);
        }
    });
    bound_by_block(query, slots);
    walk_query(query, subqueries, &mut |expression| {
        if let Some(inner) = subquery_of(expression).and_then(|s| subqueries.get(&s.number)) {
            bound_by_block(inner, slots);
        }
    });
}

fn bound_by_block(query: &Query, slots: &mut BTreeSet<u16>) {
    match &query.body {
        Body::Select(select) => {
            slots.extend(select.aggregate.iter().map(|aggregate| aggregate.slot));
            slots.extend(select.window.iter().map(|window| window.slot));
            slots.extend(select.distinct.iter().map(|distinct| distinct.slot));
        }
        Body::Set { slot, branches, .. } => {
            slots.insert(*slot);
            branches.iter().for_each(|branch| bound_by_block(branch, slots));
        }
        Body::Recursive { slot, base, step, .. } => {
            slots.insert(*slot);
            bound_by_block(base, slots);
            bound_by_block(step, slots);
        }
    }
}

/// The slots that a query reads but does not bind.
pub(crate) fn outer_slots(query: &Query, subqueries: &Subqueries) -> BTreeSet<u16> {
    let mut read = BTreeSet::new();
    walk_query(query, subqueries, &mut |expression| {
        if let Node::Column { slot, .. } = expression.node {
            read.insert(slot);
        }
    });
    let mut bound = BTreeSet::new();
    bound_slots(query, subqueries, &mut bound);
    &read - &bound
}

/// The slots that an expression reads, those that its subqueries bind themselves left out.
pub(crate) fn slots_read(expression: &Expression, subqueries: &Subqueries) -> BTreeSet<u16> {
    let mut slots = BTreeSet::new();
    collect_slots(expression, subqueries, &mut slots);
    slots
}

fn collect_slots(expression: &Expression, subqueries: &Subqueries, slots: &mut BTreeSet<u16>) {
    if let Node::Column { slot, .. } = expression.node {
        slots.insert(slot);
    }
    if let Some(query) = subquery_of(expression).and_then(|s| subqueries.get(&s.number)) {
        slots.extend(outer_slots(query, subqueries));
    }
    each_child(expression, &mut |child| collect_slots(child, subqueries, slots));
}

/// True when a node below `expression` (itself included, subqueries left out) fulfils a test.
pub(crate) fn any(expression: &Expression, test: &dyn Fn(&Expression) -> bool) -> bool {
    let mut found = test(expression);
    each_child(expression, &mut |child| found = found || any(child, test));
    found
}

/// Calls `change` for all nodes below and then for `expression` itself; subqueries' queries are
/// changed as well.
pub(crate) fn change(
    expression: &mut Expression,
    subqueries: &mut Subqueries,
    changer: &mut dyn FnMut(&mut Expression) -> bool,
) {
    if changer(expression) {
        return;
    }
    each_child_mut(expression, &mut |child| change(child, subqueries, changer));
    let number = subquery_of(expression).map(|subquery| subquery.number);
    if let Some(number) = number
        && let Some(mut query) = subqueries.remove(&number)
    {
        change_query(&mut query, subqueries, changer);
        subqueries.insert(number, query);
    }
}

/// As [`change`], for all expressions of a query.
pub(crate) fn change_query(
    query: &mut Query,
    subqueries: &mut Subqueries,
    changer: &mut dyn FnMut(&mut Expression) -> bool,
) {
    let mut each = |expression: &mut Expression| change(expression, subqueries, changer);
    query.output.iter_mut().for_each(|column| each(&mut column.expression));
    query.order.iter_mut().for_each(|key| each(&mut key.expression));
    query.limit.iter_mut().for_each(&mut each);
    query.offset.iter_mut().for_each(&mut each);
    match &mut query.body {
        Body::Select(select) => change_select(select, subqueries, changer),
        Body::Set { branches, .. } => {
            for branch in branches {
                change_query(branch, subqueries, changer);
            }
        }
        Body::Recursive { base, step, .. } => {
            change_query(base, subqueries, changer);
            change_query(step, subqueries, changer);
        }
    }
}

fn change_select(
    select: &mut Select,
    subqueries: &mut Subqueries,
    changer: &mut dyn FnMut(&mut Expression) -> bool,
) {
    change_from(&mut select.from, subqueries, changer);
    let mut each = |expression: &mut Expression| change(expression, subqueries, changer);
    select.filter.iter_mut().for_each(&mut each);
    if let Some(aggregate) = &mut select.aggregate {
        aggregate.group.iter_mut().for_each(&mut each);
        aggregate.calls.iter_mut().filter_map(|c| c.argument.as_mut()).for_each(&mut each);
    }
    select.having.iter_mut().for_each(&mut each);
    for call in select.window.iter_mut().flat_map(|window| &mut window.calls) {
        call.arguments.iter_mut().for_each(&mut each);
        call.partition.iter_mut().for_each(&mut each);
        call.order.iter_mut().for_each(|key| each(&mut key.expression));
    }
    if let Some(distinct) = &mut select.distinct {
        distinct.expressions.iter_mut().for_each(&mut each);
    }
}

fn change_from(
    from: &mut From,
    subqueries: &mut Subqueries,
    changer: &mut dyn FnMut(&mut Expression) -> bool,
) {
    match from {
        From::Leaf(leaf) => {
            if let LeafKind::Derived(query) = &mut leaf.kind {
                change_query(query, subqueries, changer);
            }
        }
        From::Inner { items, conjuncts } => {
            items.iter_mut().for_each(|item| change_from(item, subqueries, changer));
            conjuncts.iter_mut().for_each(|e| change(e, subqueries, changer));
        }
        From::Outer { left, right, conjuncts, .. } => {
            change_from(left, subqueries, changer);
            change_from(right, subqueries, changer);
            conjuncts.iter_mut().for_each(|e| change(e, subqueries, changer));
        }
    }
}

/// Calls `visit` for every node of a planned expression, planned subqueries included.
pub(crate) fn each_planned(expression: &mut Expression, visit: &mut dyn FnMut(&mut Expression)) {
    visit(expression);
    each_child_mut(expression, &mut |child| each_planned(child, visit));
    if let Some(subquery) = subquery_of_mut(expression) {
        each_in_subquery(subquery, visit);
    }
}

fn each_in_subquery(subquery: &mut Subquery, visit: &mut dyn FnMut(&mut Expression)) {
    each_in_relation(&mut subquery.relation, visit);
    subquery.output.iter_mut().for_each(|e| each_planned(e, visit));
}

/// Calls `visit` for every expression node of a relation, planned subqueries included.
pub(crate) fn each_in_relation(relation: &mut Relation, visit: &mut dyn FnMut(&mut Expression)) {
    let mut each = |expression: &mut Expression| each_planned(expression, visit);
    match relation {
        Relation::OneRow | Relation::Receive { .. } | Relation::Working { .. } => {}
        Relation::Scan(scan) => {
            scan.filter.iter_mut().for_each(&mut each);
            each_in_access(&mut scan.access, visit);
        }
        Relation::Filter { input, predicate } => {
            each(predicate);
            each_in_relation(input, visit);
        }
        Relation::Project { input, expressions, .. } => {
            expressions.iter_mut().for_each(&mut each);
            each_in_relation(input, visit);
        }
        Relation::Join(join) => {
            join.condition.iter_mut().for_each(&mut each);
            if let lockstep_plan_ir::relation::JoinMethod::Hash { left, right } = &mut join.method {
                left.iter_mut().chain(right).for_each(&mut each);
            }
            each_in_relation(&mut join.left, visit);
            each_in_relation(&mut join.right, visit);
        }
        Relation::Aggregate { input, group, calls, .. } => {
            group.iter_mut().for_each(&mut each);
            calls.iter_mut().filter_map(|c| c.argument.as_mut()).for_each(&mut each);
            each_in_relation(input, visit);
        }
        Relation::Sort { input, keys, limit, offset } => {
            each_key(keys, &mut each);
            limit.iter_mut().chain(offset).for_each(&mut each);
            each_in_relation(input, visit);
        }
        Relation::Limit { input, limit, offset } => {
            limit.iter_mut().chain(offset).for_each(&mut each);
            each_in_relation(input, visit);
        }
        Relation::Distinct { input, .. } => each_in_relation(input, visit),
        Relation::SetOperation { branches, .. } => {
            for branch in branches {
                branch.output.iter_mut().for_each(|e| each_planned(e, visit));
                each_in_relation(&mut branch.relation, visit);
            }
        }
        Relation::Window { input, calls, .. } => {
            for call in calls {
                call.arguments.iter_mut().chain(&mut call.partition).for_each(&mut each);
                each_key(&mut call.order, &mut each);
            }
            each_in_relation(input, visit);
        }
        Relation::Recursive { base, step, .. } => {
            for branch in [base, step] {
                branch.output.iter_mut().for_each(|e| each_planned(e, visit));
                each_in_relation(&mut branch.relation, visit);
            }
        }
    }
}

fn each_key(keys: &mut [SortKey], each: &mut dyn FnMut(&mut Expression)) {
    keys.iter_mut().for_each(|key| each(&mut key.expression));
}

fn each_in_access(access: &mut Access, visit: &mut dyn FnMut(&mut Expression)) {
    match access {
        Access::Full => {}
        Access::Index { equal, lower, upper, .. } => {
            equal.iter_mut().for_each(|e| each_planned(e, visit));
            for bound in lower.iter_mut().chain(upper) {
                each_planned(&mut bound.value, visit);
            }
        }
        Access::IndexList { list, .. } => match list {
            KeyList::Values(values) => values.iter_mut().for_each(|e| each_planned(e, visit)),
            KeyList::Array(_) => {}
            KeyList::Subquery(subquery) => each_in_subquery(subquery, visit),
        },
    }
}
