//! Views over one table: how a group's MIN and MAX are found again.
//!
//! Each MIN and MAX gets a hidden index on the source over the groups and the argument, which
//! holds just the rows that count and have an argument: the first entry of a group is its
//! minimum, the last its maximum, so that upkeep does not depend on the size of groups.

use crate::query::BoundView;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::statement::Query;
use lockstep_plan_ir::{
    Access, AggregateFunction, Expression, IndexDefinition, Relation, Scan, ViewDefinition,
};
use lockstep_types::{IndexId, SqlType, TableId, Value};

use super::super::index::map_slots;

/// The slot of the source rows that a recomputation reads; slot 0 is the row that went.
const SCANNED: u16 = 1;

/// Adds the recomputations of MIN and MAX to a view and returns the indexes that they read.
pub(super) fn single(
    view_name: &str,
    bound: &BoundView,
    view: &mut ViewDefinition,
) -> Vec<(TableId, IndexDefinition)> {
    let source = &bound.sources[0].definition;
    let (group, predicate) = (view.group.clone(), view.predicate.clone());
    let mut indexes = Vec::new();
    for (place, aggregate) in view.aggregates.iter_mut().enumerate() {
        let reverse = match aggregate.function {
            AggregateFunction::Min => false,
            AggregateFunction::Max => true,
            _ => continue,
        };
        let Some(argument) = aggregate.argument.clone() else { continue };
        let name = format!("VOLTDB_HIDDEN_IDX_{view_name}_{place}");
        let index = index_of(name, &group, &argument, predicate.as_ref());
        indexes.push((source.id, index));
        let scan = Relation::Scan(Scan {
            slot: SCANNED,
            table: source.id,
            access: from_extreme(group.clone(), reverse),
            filter: None,
        });
        aggregate.recompute = Some(first_of(scan, map_slots(&argument, &|_| SCANNED)));
        aggregate.recompute_slots = SCANNED + 1;
    }
    indexes
}

/// The hidden index over groups and argument, all of one source, of the rows that count and have
/// an argument.
pub(super) fn index_of(
    name: String,
    group: &[Expression],
    argument: &Expression,
    predicate: Option<&Expression>,
) -> IndexDefinition {
    let row = |value: &Expression| map_slots(value, &|_| 0);
    let argument = row(argument);
    let boolean = |node| Expression { node, sql_type: SqlType::Boolean };
    let is_null = boolean(Node::IsNull(Box::new(argument.clone())));
    let not_null = boolean(Node::Not(Box::new(is_null)));
    let counted = match predicate {
        None => not_null,
        Some(predicate) => boolean(Node::And(vec![predicate.clone(), not_null])),
    };
    IndexDefinition {
        name,
        keys: group.iter().map(row).chain([argument]).map(|value| key(&value)).collect(),
        unique: false,
        assume_unique: false,
        constraint: None,
        predicate: Some(counted),
        hidden: true,
        building: false,
    }
}

/// Reads a group of the hidden index from its extreme on. The index's place is known once it
/// stands in the source's list; see `set_index`.
pub(super) fn from_extreme(group: Vec<Expression>, reverse: bool) -> Access {
    Access::Index {
        index: IndexId(u16::MAX),
        null_matches: vec![true; group.len()],
        equal: group,
        lower: None,
        upper: None,
        reverse,
        at_most_one: false,
    }
}

/// A value of the first row.
pub(super) fn first_of(rows: Relation, value: Expression) -> Query {
    Query {
        relation: Relation::Limit {
            input: Box::new(rows),
            limit: Some(Expression::literal(Value::Int(1), SqlType::BigInt)),
            offset: None,
        },
        output: vec![value],
    }
}

fn key(expression: &Expression) -> IndexKey {
    match expression.node {
        Node::Column { column, .. } => IndexKey::Column(column),
        _ => IndexKey::Expression(expression.clone()),
    }
}

/// Tells the recomputations that read an index of a source where it stands.
pub(super) fn set_index(
    view: &mut ViewDefinition,
    (source, index): (TableId, &IndexDefinition),
    place: IndexId,
) {
    let row = |value: &Expression| key(&map_slots(value, &|_| 0));
    let group = view.group.clone();
    for aggregate in &mut view.aggregates {
        let Some(argument) = &aggregate.argument else { continue };
        if !group.iter().chain([argument]).map(row).eq(index.keys.iter().cloned()) {
            continue;
        }
        let Some(Query { relation: Relation::Limit { input, .. }, .. }) = &mut aggregate.recompute
        else {
            continue;
        };
        let mut first = input.as_mut();
        while let Relation::Join(join) = first {
            first = &mut join.left;
        }
        if let Relation::Scan(Scan { table, access: Access::Index { index, .. }, .. }) = first
            && *table == source
        {
            *index = place;
        }
    }
}
