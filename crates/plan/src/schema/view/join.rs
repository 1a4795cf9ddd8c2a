//! Views over several tables: where their rows live, and the joined rows that a change of one
//! source touches.

use crate::query::BoundView;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::relation::{AggregateCall, Join, JoinKind, JoinMethod};
use lockstep_plan_ir::schema::{IndexKey, JoinedView};
use lockstep_plan_ir::statement::Query;
use lockstep_plan_ir::{
    Access, AggregateFunction, Comparison, Expression, IndexDefinition, Relation, Scan,
    TableDefinition, ViewDefinition,
};
use lockstep_types::{IndexId, SqlType, TableId};
use std::sync::Arc;

use super::super::index::{map_slots, walk};
use super::upkeep;

/// Where a view's rows live.
pub(super) struct Placement {
    /// The group columns that are the partitioning columns of a source, in their order.
    pub columns: Vec<u16>,
    /// A view over partitioned rows without all such columns.
    pub is_partial: bool,
}

/// A column of a source: (slot, column).
type Place = (u16, u16);

/// Decides where a view's rows live. Joined partitioned tables must be joined on their
/// partitioning columns, each of several on its own, so that joined rows are in one partition.
pub(super) fn placement(bound: &BoundView) -> Result<Placement, String> {
    let partitioned: Vec<Vec<Place>> = bound
        .sources
        .iter()
        .enumerate()
        .filter(|(_, source)| source.definition.is_partitioned())
        .map(|(slot, source)| {
            let columns = source.definition.partition_columns.iter();
            columns.map(|column| (slot as u16, *column)).collect()
        })
        .collect();
    let Some(first) = partitioned.first() else {
        return Ok(Placement { columns: Vec::new(), is_partial: false });
    };
    let same: Vec<Vec<Place>> =
        first.iter().map(|place| equal_columns(*place, bound.predicate.as_ref())).collect();
    let is_joined = |places: &Vec<Place>| {
        let mut pairs = places.iter().zip(&same);
        places.len() == same.len() && pairs.all(|(place, same)| same.contains(place))
    };
    if let Some(apart) = partitioned.iter().find(|places| !is_joined(places)) {
        return Err(format!(
            "joins the partitioned table {} on other columns than the partitioning columns.",
            bound.sources[usize::from(apart[0].0)].definition.name
        ));
    }
    let group_of = |same: &Vec<Place>| {
        let is_same = |group: &Expression| place(group).is_some_and(|place| same.contains(&place));
        bound.group.iter().position(is_same).map(|column| column as u16)
    };
    let columns: Option<Vec<u16>> = same.iter().map(group_of).collect();
    Ok(Placement { is_partial: columns.is_none(), columns: columns.unwrap_or_default() })
}

/// The columns that a condition makes equal to one.
fn equal_columns(first: Place, predicate: Option<&Expression>) -> Vec<Place> {
    let pairs: Vec<(Place, Place)> = conjuncts(predicate)
        .iter()
        .filter_map(|part| match &part.node {
            Node::Compare(Comparison::Equal, a, b) => Some((place(a)?, place(b)?)),
            _ => None,
        })
        .collect();
    let mut same = vec![first];
    loop {
        let more = pairs.iter().find_map(|&(a, b)| match (same.contains(&a), same.contains(&b)) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        });
        match more {
            Some(place) => same.push(place),
            None => return same,
        }
    }
}

fn place(expression: &Expression) -> Option<Place> {
    match expression.node {
        Node::Column { slot, column } => Some((slot, column)),
        _ => None,
    }
}

/// The parts of a condition that must all be true.
fn conjuncts(predicate: Option<&Expression>) -> Vec<Expression> {
    match predicate {
        None => Vec::new(),
        Some(Expression { node: Node::And(parts), .. }) => {
            parts.iter().flat_map(|part| conjuncts(Some(part))).collect()
        }
        Some(other) => vec![other.clone()],
    }
}

/// Adds the queries that keep a view over a join, and returns the indexes that they read.
pub(super) fn complete(
    view_name: &str,
    bound: &BoundView,
    view: &mut ViewDefinition,
) -> Vec<(TableId, IndexDefinition)> {
    let count = bound.sources.len() as u16;
    let arguments: Vec<Expression> =
        view.aggregates.iter().filter_map(|aggregate| aggregate.argument.clone()).collect();
    let parts = conjuncts(bound.predicate.as_ref());
    let delta = (0..count)
        .map(|changed| {
            // The changed row is in slot 0, the other sources follow in their order.
            let slot_of = |slot: u16| match slot.cmp(&changed) {
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Less => slot + 1,
                std::cmp::Ordering::Greater => slot,
            };
            let others: Vec<(u16, &TableDefinition)> = (0..count)
                .filter(|&slot| slot != changed)
                .map(|slot| (slot_of(slot), &*bound.sources[usize::from(slot)].definition))
                .collect();
            let parts = parts.iter().map(|part| map_slots(part, &slot_of)).collect();
            let output = view.group.iter().chain(&arguments);
            Query {
                relation: nested_loops(&others, parts, &[0], None),
                output: output.map(|value| map_slots(value, &slot_of)).collect(),
            }
        })
        .collect();
    let indexes = recompute_extremes(view_name, bound, view, &parts);
    view.joined = Some(Arc::new(JoinedView {
        sources: bound.sources.iter().map(|source| source.definition.id).collect(),
        delta,
        slot_count: count,
    }));
    indexes
}

/// MIN and MAX of a group again. Slot 0 holds a row of `delta`'s columns, of which the groups are
/// read. Where groups and argument are columns of one source, a hidden index on it leads from the
/// extreme value on, and the first row that has partners is the one; else all joined rows of the
/// group are read.
fn recompute_extremes(
    view_name: &str,
    bound: &BoundView,
    view: &mut ViewDefinition,
    parts: &[Expression],
) -> Vec<(TableId, IndexDefinition)> {
    let count = bound.sources.len() as u16;
    let up = |slot: u16| slot + 1;
    let group = view.group.clone();
    let parts: Vec<Expression> = parts.iter().map(|part| map_slots(part, &up)).collect();
    let mut indexes = Vec::new();
    for (place, aggregate) in view.aggregates.iter_mut().enumerate() {
        let reverse = match aggregate.function {
            AggregateFunction::Min => false,
            AggregateFunction::Max => true,
            _ => continue,
        };
        let Some(argument) = &aggregate.argument else { continue };
        let mut tables: Vec<(u16, &TableDefinition)> = bound
            .sources
            .iter()
            .enumerate()
            .map(|(slot, source)| (slot as u16 + 1, &*source.definition))
            .collect();
        let mut parts = parts.clone();
        let output = map_slots(argument, &up);
        aggregate.recompute_slots = count + 2;
        if let Some(slot) = source_of(&group, argument) {
            // The source with the index comes first, the others follow in their order.
            tables[..=usize::from(slot)].rotate_right(1);
            let table = tables[0].1;
            let name = format!("VOLTDB_HIDDEN_IDX_{view_name}_{place}");
            indexes.push((table.id, upkeep::index_of(name, &group, argument, None)));
            let wanted = group.iter().enumerate();
            let wanted = wanted.map(|(at, v)| Expression::column(0, at as u16, v.sql_type));
            let first = upkeep::from_extreme(wanted.collect(), reverse);
            let relation = nested_loops(&tables, parts, &[0], Some(first));
            aggregate.recompute = Some(upkeep::first_of(relation, output));
            continue;
        }
        for (column, value) in group.iter().enumerate() {
            let wanted = Expression::column(0, column as u16, value.sql_type);
            let (value, wanted) = (Box::new(map_slots(value, &up)), Box::new(wanted));
            let node = Node::Compare(Comparison::NotDistinct, value, wanted);
            parts.push(Expression { node, sql_type: SqlType::Boolean });
        }
        let call = AggregateCall {
            function: aggregate.function,
            distinct: false,
            argument: Some(output),
            sql_type: aggregate.sql_type,
            user: None,
        };
        aggregate.recompute = Some(Query {
            relation: Relation::Aggregate {
                input: Box::new(nested_loops(&tables, parts, &[0], None)),
                slot: count + 1,
                group: Vec::new(),
                calls: vec![call],
            },
            output: vec![Expression::column(count + 1, 0, aggregate.sql_type)],
        });
    }
    indexes
}

/// The source whose plain columns all groups and the argument are.
fn source_of(group: &[Expression], argument: &Expression) -> Option<u16> {
    let (slot, _) = place(argument)?;
    group.iter().all(|value| place(value).is_some_and(|(of, _)| of == slot)).then_some(slot)
}

/// Tables joined by nested loops in their order, each condition as early as its slots are bound;
/// `first` is how the first table is read, if that is decided.
fn nested_loops(
    tables: &[(u16, &TableDefinition)],
    mut parts: Vec<Expression>,
    bound: &[u16],
    mut first: Option<Access>,
) -> Relation {
    let mut bound = bound.to_vec();
    let mut relation: Option<Relation> = None;
    for (slot, table) in tables {
        let access = first.take().unwrap_or_else(|| access(table, *slot, &parts, &bound));
        bound.push(*slot);
        let (now, later): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| slots(part).iter().all(|s| bound.contains(s)));
        parts = later;
        let scan =
            Relation::Scan(Scan { slot: *slot, table: table.id, access, filter: all_of(now) });
        relation = Some(match relation {
            None => scan,
            Some(left) => Relation::Join(Box::new(Join {
                kind: JoinKind::Inner,
                left,
                right: scan,
                method: JoinMethod::NestedLoop,
                condition: None,
                left_slots: Vec::new(),
                right_slots: Vec::new(),
            })),
        });
    }
    relation.unwrap_or(Relation::OneRow)
}

fn all_of(mut parts: Vec<Expression>) -> Option<Expression> {
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Expression { node: Node::And(parts), sql_type: SqlType::Boolean }),
    }
}

/// The slots that an expression reads.
fn slots(expression: &Expression) -> Vec<u16> {
    let mut slots = Vec::new();
    walk(expression, &mut |part| {
        if let Node::Column { slot, .. } = part.node {
            slots.push(slot);
        }
    });
    slots
}

/// The index whose first columns are most of all known from the rows bound before.
fn access(table: &TableDefinition, slot: u16, parts: &[Expression], bound: &[u16]) -> Access {
    let mut best = Access::Full;
    let mut best_length = 0;
    for (place, index) in table.indexes.iter().enumerate() {
        if index.predicate.is_some() || index.hidden {
            continue;
        }
        let known = index.keys.iter().map_while(|key| match key {
            IndexKey::Column(column) => known_value(table, slot, *column, parts, bound),
            IndexKey::Expression(_) => None,
        });
        let (equal, null_matches): (Vec<Expression>, Vec<bool>) = known.unzip();
        if equal.len() > best_length {
            best_length = equal.len();
            best = Access::Index {
                index: IndexId(place as u16),
                at_most_one: index.unique && equal.len() == index.keys.len(),
                equal,
                null_matches,
                lower: None,
                upper: None,
                reverse: false,
            };
        }
    }
    best
}

/// What a column must be equal to, if that is known from the rows bound before; and whether NULL
/// is equal to NULL.
fn known_value(
    table: &TableDefinition,
    slot: u16,
    column: u16,
    parts: &[Expression],
    bound: &[u16],
) -> Option<(Expression, bool)> {
    let column_type = table.columns[usize::from(column)].sql_type;
    parts.iter().find_map(|part| {
        let (nulls, a, b) = match &part.node {
            Node::Compare(Comparison::Equal, a, b) => (false, a, b),
            Node::Compare(Comparison::NotDistinct, a, b) => (true, a, b),
            _ => return None,
        };
        let value = match (place(a) == Some((slot, column)), place(b) == Some((slot, column))) {
            (true, false) => b,
            (false, true) => a,
            _ => return None,
        };
        let same_kind = value.sql_type == column_type
            || (value.sql_type.is_integer() && column_type.is_integer());
        let known = same_kind && slots(value).iter().all(|slot| bound.contains(slot));
        known.then(|| (value.as_ref().clone(), nulls))
    })
}
