//! Plain derived and common tables dissolved into the query that reads them, so that their
//! tables are joined, restricted and routed as if they stood there themselves.

use super::logical::{Body, From, Leaf, LeafKind, Query, Select, Subqueries};
use super::walk;
use lockstep_plan_ir::{Expression, Node};
use std::collections::BTreeMap;

/// What the columns of dissolved tables stand for, by slot.
type Moved = BTreeMap<u16, Vec<Expression>>;

/// Dissolves what can be in a query and in all subqueries.
pub(crate) fn flatten(query: &mut Query, subqueries: &mut Subqueries) {
    let numbers: Vec<u16> = subqueries.keys().copied().collect();
    for number in numbers {
        if let Some(mut subquery) = subqueries.remove(&number) {
            flatten_query(&mut subquery, subqueries);
            subqueries.insert(number, subquery);
        }
    }
    flatten_query(query, subqueries);
}

fn flatten_query(query: &mut Query, subqueries: &mut Subqueries) {
    let mut moved = Moved::new();
    match &mut query.body {
        Body::Select(select) => {
            flatten_sources(&mut select.from, subqueries);
            let from = std::mem::replace(&mut select.from, nothing());
            select.from = dissolved(from, &mut select.filter, &mut moved);
        }
        Body::Set { branches, .. } => {
            branches.iter_mut().for_each(|branch| flatten_query(branch, subqueries));
        }
        Body::Recursive { base, step, .. } => {
            flatten_query(base, subqueries);
            flatten_query(step, subqueries);
        }
    }
    if moved.is_empty() {
        return;
    }
    walk::change_query(query, subqueries, &mut |node| {
        let Node::Column { slot, column } = node.node else { return false };
        let meaning = moved.get(&slot).and_then(|columns| columns.get(usize::from(column)));
        if let Some(meaning) = meaning {
            *node = meaning.clone();
        }
        true
    });
}

fn nothing() -> From {
    From::Inner { items: Vec::new(), conjuncts: Vec::new() }
}

fn flatten_sources(from: &mut From, subqueries: &mut Subqueries) {
    match from {
        From::Leaf(leaf) => {
            if let LeafKind::Derived(query) = &mut leaf.kind {
                flatten_query(query, subqueries);
            }
        }
        From::Inner { items, .. } => {
            items.iter_mut().for_each(|item| flatten_sources(item, subqueries));
        }
        From::Outer { left, right, .. } => {
            flatten_sources(left, subqueries);
            flatten_sources(right, subqueries);
        }
    }
}

/// FROM with the plain derived tables of inner joins and preserved sides dissolved; their
/// conditions go to WHERE.
fn dissolved(from: From, filter: &mut Vec<Expression>, moved: &mut Moved) -> From {
    match from {
        From::Leaf(Leaf { slot, kind: LeafKind::Derived(query) }) => match plain(*query) {
            Ok((select, output)) => {
                filter.extend(select.filter);
                moved.insert(slot, output);
                select.from
            }
            Err(query) => From::Leaf(Leaf { slot, kind: LeafKind::Derived(query) }),
        },
        From::Leaf(leaf) => From::Leaf(leaf),
        From::Inner { items, conjuncts } => {
            let mut all = Vec::with_capacity(items.len());
            let mut conditions = conjuncts;
            for item in items {
                match dissolved(item, filter, moved) {
                    From::Inner { items, conjuncts } => {
                        all.extend(items);
                        conditions.extend(conjuncts);
                    }
                    other => all.push(other),
                }
            }
            From::Inner { items: all, conjuncts: conditions }
        }
        From::Outer { full: false, left, right, conjuncts } => {
            let left = Box::new(dissolved(*left, filter, moved));
            From::Outer { full: false, left, right, conjuncts }
        }
        full => full,
    }
}

/// The SELECT and the output of a query that is nothing but FROM, WHERE and expressions; the
/// query itself if it is more.
fn plain(query: Query) -> Result<(Select, Vec<Expression>), Box<Query>> {
    let simple = match &query.body {
        Body::Select(select) => {
            select.aggregate.is_none()
                && select.window.is_none()
                && select.distinct.is_none()
                && !select.from.slots().is_empty()
        }
        _ => false,
    };
    let whole = query.limit.is_none() && query.offset.is_none();
    let cheap = query
        .output
        .iter()
        .all(|output| !walk::any(&output.expression, &|e| walk::subquery_of(e).is_some()));
    if !(simple && whole && cheap) {
        return Err(Box::new(query));
    }
    match query {
        Query { body: Body::Select(select), output, .. } => {
            Ok((select, output.into_iter().map(|output| output.expression).collect()))
        }
        other => Err(Box::new(other)),
    }
}
