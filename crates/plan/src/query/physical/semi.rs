//! Correlated EXISTS and IN of WHERE as semi and anti joins.

use super::{Place, Planner};
use crate::error::PlanError;
use crate::query::logical::{Body, Select, Subqueries};
use crate::query::{partition, walk};
use crate::rules::Rule;
use lockstep_plan_ir::expression::Quantifier;
use lockstep_plan_ir::relation::JoinKind;
use lockstep_plan_ir::{Comparison, Expression, Node, Relation};
use lockstep_types::SqlType;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A condition that can be a join.
struct Semi<'q> {
    kind: JoinKind,
    select: &'q Select,
    /// What must be true of a pair.
    conditions: Vec<Expression>,
}

impl Planner<'_, '_> {
    /// Takes the conditions that can be semi or anti joins out of a WHERE.
    pub(super) fn take_semi_joins(
        &self,
        select: &Select,
        pending: &mut Vec<Expression>,
        bound: &BTreeSet<u16>,
    ) -> Vec<Expression> {
        let subqueries = self.subqueries();
        let own = select.from.slots();
        let mut taken = Vec::new();
        if own.is_empty() || !self.uses(Rule::SemiJoins) {
            return taken;
        }
        pending.retain(|conjunct| {
            let joinable = semi(conjunct, &subqueries, &own, bound).is_some();
            if joinable {
                taken.push(conjunct.clone());
            }
            !joinable
        });
        taken
    }

    /// Joins what [`Planner::take_semi_joins`] has taken to the rows.
    pub(super) fn semi_joins(
        &mut self,
        mut relation: Relation,
        select: &Select,
        taken: &[Expression],
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let subqueries: Rc<Subqueries> = self.subqueries();
        let own = select.from.slots();
        let mut bound_now = bound.clone();
        bound_now.extend(&own);
        for conjunct in taken {
            let Some(semi) = semi(conjunct, &subqueries, &own, bound) else { continue };
            let outer = self.values.clone();
            self.values = partition::known_values(semi.select, &outer);
            let parts = (relation, &semi.select.from);
            let before = (&bound_now, &own[..]);
            let joined = self.join(parts, semi.kind, semi.conditions, place, bound, before);
            self.values = outer;
            relation = joined?;
        }
        Ok(relation)
    }
}

/// A condition as a join with the rows of `own`, if it can be one: the subquery is plain, and
/// reads the rows around it in WHERE only.
fn semi<'q>(
    conjunct: &Expression,
    subqueries: &'q Subqueries,
    own: &[u16],
    bound: &BTreeSet<u16>,
) -> Option<Semi<'q>> {
    let (node, kind) = match &conjunct.node {
        Node::Not(inner) if matches!(inner.node, Node::Exists(_)) => (&inner.node, JoinKind::Anti),
        node => (node, JoinKind::Semi),
    };
    let (number, row): (u16, &[Expression]) = match node {
        Node::Exists(subquery) => (subquery.number, &[]),
        Node::Quantified {
            comparison: Comparison::Equal,
            quantifier: Quantifier::Any,
            row,
            subquery,
        } => (subquery.number, row),
        _ => return None,
    };
    let query = subqueries.get(&number)?;
    let Body::Select(select) = &query.body else { return None };
    let plain = select.aggregate.is_none()
        && select.window.is_none()
        && (select.distinct.is_none() || row.is_empty())
        && query.limit.is_none()
        && query.offset.is_none();
    let outer = walk::outer_slots(query, subqueries);
    if !plain || !outer.iter().any(|slot| own.contains(slot)) {
        return None;
    }
    if !reads_outside_in_where_only(select, subqueries, bound) {
        return None;
    }
    let mut conditions = select.filter.clone();
    for (value, output) in row.iter().zip(&query.output) {
        let (a, b) = (Box::new(value.clone()), Box::new(output.expression.clone()));
        let node = Node::Compare(Comparison::Equal, a, b);
        conditions.push(Expression { node, sql_type: SqlType::Boolean });
    }
    Some(Semi { kind, select, conditions })
}

fn reads_outside_in_where_only(
    select: &Select,
    subqueries: &Subqueries,
    bound: &BTreeSet<u16>,
) -> bool {
    let inside: BTreeSet<u16> = select.from.slots().into_iter().collect();
    if inside.is_empty() {
        return false;
    }
    let mut fits = true;
    select.from.each_condition(&mut |condition| {
        let read = walk::slots_read(condition, subqueries);
        fits &= read.iter().all(|slot| inside.contains(slot) || bound.contains(slot));
    });
    select.from.each_leaf(&mut |leaf| {
        if let crate::query::logical::LeafKind::Derived(query) = &leaf.kind {
            fits &= walk::outer_slots(query, subqueries).is_subset(bound);
        }
    });
    fits
}
