//! Joins of tables that do not lie together: the smaller one is sent to all partitions, where it
//! is joined as a replicated table would be.

use super::{Place, Planner, settle_by};
use crate::error::PlanError;
use crate::query::logical::{Body, From, Leaf, LeafKind, Query, Select};
use crate::query::{partition, walk};
use crate::rules::Rule;
use lockstep_plan_ir::statement::{Finish, Query as PlannedQuery, Target};
use lockstep_plan_ir::{Execution, Expression, Operation, Relation};
use std::collections::BTreeSet;

/// How many times the rows of all tables the copies of the smaller one may be: joining at the
/// partitions is shared work, joining at the coordinator is not.
const COPIES_MAX: f64 = 2.0;

impl Planner<'_, '_> {
    /// Number of partitions, as far as it is known.
    pub(super) fn partitions(&self) -> f64 {
        f64::from(self.planning.statistics.partitions.max(1))
    }

    /// A query that one moved table makes one for each partition; none if there is no such table
    /// or it is too large. The query's columns are noted already.
    pub(super) fn plan_moved(&mut self, query: &Query) -> Result<Option<Execution>, PlanError> {
        let Body::Select(select) = &query.body else { return Ok(None) };
        let plain = self.uses(Rule::MoveSmallerSide)
            && self.uses(Rule::PartitionWork)
            && self.subqueries.is_empty()
            && !self.runs_apart(select);
        let Some(leaf) = plain.then(|| self.movable(select)).flatten() else { return Ok(None) };
        let nothing = BTreeSet::new();
        let before = self.moved.clone();
        let gathered = self.gather(&leaf, own_conditions(select, leaf.slot), &nothing)?;
        let Relation::Receive { slot: received, types, .. } = &gathered else {
            return Err(PlanError::new("a moved table is received as it was sent"));
        };
        let (received, types) = (*received, types.clone());
        let shipped =
            PlannedQuery { output: super::columns_of(received, &types), relation: gathered };
        let moved = self.moved.clone();
        let first = std::mem::take(&mut self.fragments);
        let mut query = query.clone();
        if let Body::Select(select) = &mut query.body {
            replace(&mut select.from, leaf.slot, received, &types);
        }
        let mut finish = self.query(&query, Place::Coordinator, &nothing)?;
        self.settle(&mut finish);
        let mut second = std::mem::replace(&mut self.fragments, first);
        // What one partition answers alone is no work for all of them.
        let applied = match (second.pop(), second.is_empty()) {
            (Some(last), true)
                if matches!(
                    last.target,
                    Target::All | Target::Owners(_) | Target::OwnersOfArray(_)
                ) =>
            {
                last
            }
            _ => {
                self.fragments.clear();
                self.moved = before;
                return Ok(None);
            }
        };
        let Operation::Query(mut apply) = applied.operation else {
            return Err(PlanError::new("a fragment of a query is a query"));
        };
        settle_by(&moved, &mut apply);
        Ok(Some(Execution::Shipped {
            fragments: std::mem::take(&mut self.fragments),
            query: shipped,
            types,
            partition_columns: Vec::new(),
            apply: Operation::Query(apply),
            replicated: false,
            finish: Some(Finish { sent: applied.result, query: finish }),
        }))
    }

    /// The smallest table that, were it replicated, would let the rest run at the partitions.
    fn movable(&self, select: &Select) -> Option<Leaf> {
        let mut spread: Vec<(f64, &Leaf)> = Vec::new();
        select.from.each_leaf(&mut |leaf| {
            if partition::is_spread(leaf) {
                let own = own_conditions(select, leaf.slot);
                let rows = self.estimator.table_rows(leaf.slot) * self.partitions();
                spread.push((rows * self.estimator.share(own.iter()), leaf));
            }
        });
        let all: f64 = spread.iter().map(|(rows, _)| rows).sum();
        spread.sort_by(|a, b| a.0.total_cmp(&b.0));
        let found = spread.into_iter().find(|(rows, leaf)| {
            let mut without = select.clone();
            replace(&mut without.from, leaf.slot, leaf.slot, &[]);
            let is_partial = matches!(&leaf.kind, LeafKind::Table(t) if t.definition.is_partial);
            let small = rows * self.partitions() <= COPIES_MAX * all;
            small && !is_partial && self.runs_apart(&without)
        });
        found.map(|(_, leaf)| leaf.clone())
    }
}

/// The conditions that restrict a source by itself, if no outer join stands in between.
fn own_conditions(select: &Select, slot: u16) -> Vec<Expression> {
    let is_own = |from: &From| matches!(from, From::Leaf(leaf) if leaf.slot == slot);
    let joined: &[Expression] = match &select.from {
        From::Inner { items, conjuncts } if items.iter().any(is_own) => conjuncts,
        _ => return Vec::new(),
    };
    let own = select.filter.iter().chain(joined).filter(|condition| {
        let other = |e: &Expression| {
            matches!(e.node, lockstep_plan_ir::Node::Column { slot: read, .. } if read != slot)
        };
        crate::query::estimate::reads(condition, &[slot]) && !walk::any(condition, &other)
    });
    own.cloned().collect()
}

/// Makes a source a moved table.
fn replace(from: &mut From, slot: u16, received: u16, types: &[lockstep_types::SqlType]) {
    match from {
        From::Leaf(leaf) if leaf.slot == slot => {
            leaf.kind = LeafKind::Moved { received, types: types.to_vec() };
        }
        From::Leaf(_) => {}
        From::Inner { items, .. } => {
            items.iter_mut().for_each(|item| replace(item, slot, received, types));
        }
        From::Outer { left, right, .. } => {
            replace(left, slot, received, types);
            replace(right, slot, received, types);
        }
    }
}
