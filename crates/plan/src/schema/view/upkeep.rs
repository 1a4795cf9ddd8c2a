//! Views over one table: how a group's MIN and MAX are found anew.
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
        let is_null = Expression {
            node: Node::IsNull(Box::new(argument.clone())),
            sql_type: SqlType::Boolean,
        };
        let not_null =
            Expression { node: Node::Not(Box::new(is_null)), sql_type: SqlType::Boolean };
        let counted = match &predicate {
            None => not_null,
            Some(predicate) => Expression {
                node: Node::And(vec![predicate.clone(), not_null]),
                sql_type: SqlType::Boolean,
            },
        };
        indexes.push((
            source.id,
            IndexDefinition {
                name: format!("VOLTDB_HIDDEN_IDX_{view_name}_{place}"),
                keys: group.iter().chain([&argument]).map(key).collect(),
                unique: false,
                assume_unique: false,
                constraint: None,
                predicate: Some(counted),
                hidden: true,
            },
        ));
        // The index's place is known once it stands in the source's list; see `set_index`.
        let scan = Relation::Scan(Scan {
            slot: SCANNED,
            table: source.id,
            access: Access::Index {
                index: IndexId(u16::MAX),
                equal: group.clone(),
                null_matches: vec![true; group.len()],
                lower: None,
                upper: None,
                reverse,
                at_most_one: false,
            },
            filter: None,
        });
        aggregate.recompute = Some(Query {
            relation: Relation::Limit {
                input: Box::new(scan),
                limit: Some(Expression::literal(Value::Int(1), SqlType::BigInt)),
                offset: None,
            },
            output: vec![map_slots(&argument, &|_| SCANNED)],
        });
        aggregate.recompute_slots = SCANNED + 1;
    }
    indexes
}

fn key(expression: &Expression) -> IndexKey {
    match expression.node {
        Node::Column { column, .. } => IndexKey::Column(column),
        _ => IndexKey::Expression(expression.clone()),
    }
}

/// Tells the recomputations that read an index where it stands.
pub(super) fn set_index(view: &mut ViewDefinition, index: &IndexDefinition, place: IndexId) {
    let group = view.group.clone();
    for aggregate in &mut view.aggregates {
        let Some(argument) = &aggregate.argument else { continue };
        if !group.iter().chain([argument]).map(key).eq(index.keys.iter().cloned()) {
            continue;
        }
        let Some(Query { relation: Relation::Limit { input, .. }, .. }) = &mut aggregate.recompute
        else {
            continue;
        };
        if let Relation::Scan(Scan { access: Access::Index { index, .. }, .. }) = input.as_mut() {
            *index = place;
        }
    }
}
