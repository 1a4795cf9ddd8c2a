//! FROM: which source comes first, and how each next one is joined.

use super::reach::Reach;
use super::{Place, Planner, conjunction, filtered};
use crate::error::PlanError;
use crate::query::access::{Path, choose};
use crate::query::bind::same_kind;
use crate::query::logical::{From, Leaf, LeafKind};
use crate::query::walk;
use crate::rules::Rule;
use lockstep_plan_ir::relation::{Join, JoinKind, JoinMethod, KeyList};
use lockstep_plan_ir::{Access, Comparison, Expression, Node, Relation, Scan, TableDefinition};
use std::collections::BTreeSet;

impl Planner<'_, '_> {
    /// Plans FROM. Conjuncts of `pending` that it ensures are taken out of the list.
    pub(super) fn plan_from(
        &mut self,
        from: &From,
        pending: &mut Vec<Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        match from {
            From::Leaf(leaf) => {
                let own = self.take(pending, bound, &[leaf.slot]);
                self.leaf(leaf, own, place, bound)
            }
            From::Inner { items, conjuncts } => {
                pending.extend(conjuncts.iter().cloned());
                self.inner(items, pending, place, bound)
            }
            From::Outer { full, left, right, conjuncts } => {
                self.outer((left, right), *full, conjuncts, pending, place, bound)
            }
        }
    }

    /// Takes the conjuncts that can be tested once the slots are bound.
    fn take(
        &self,
        pending: &mut Vec<Expression>,
        bound: &BTreeSet<u16>,
        slots: &[u16],
    ) -> Vec<Expression> {
        let mut taken = Vec::new();
        pending.retain(|conjunct| {
            let read = walk::slots_read(conjunct, &self.subqueries);
            let ready = read.iter().all(|slot| bound.contains(slot) || slots.contains(slot));
            if ready {
                taken.push(conjunct.clone());
            }
            !ready
        });
        taken
    }

    /// A source with the conjuncts over it.
    pub(super) fn leaf(
        &mut self,
        leaf: &Leaf,
        conjuncts: Vec<Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let relation = match (&leaf.kind, place) {
            (LeafKind::Table(table), Place::Here) => {
                return self.scan(&table.definition, leaf.slot, bound, conjuncts);
            }
            (LeafKind::Table(_), Place::Coordinator) => {
                return self.gather(leaf, conjuncts, bound);
            }
            (LeafKind::Derived(query), _) => {
                let planned = self.query(query, place, bound)?;
                let (input, slot) = (Box::new(planned.relation), leaf.slot);
                Relation::Project { input, slot, expressions: planned.output }
            }
            (LeafKind::Moved { received, types }, _) => {
                Relation::Receive { slot: *received, fragment: 0, types: types.clone() }
            }
            (LeafKind::Working { number }, _) => {
                Relation::Working { number: *number, slot: leaf.slot }
            }
        };
        let conjuncts = self.lower_all(conjuncts.iter(), place, bound)?;
        Ok(filtered(relation, conjuncts))
    }

    /// A table read by the best way for its conjuncts.
    pub(super) fn scan(
        &mut self,
        table: &TableDefinition,
        slot: u16,
        bound: &BTreeSet<u16>,
        conjuncts: Vec<Expression>,
    ) -> Result<Relation, PlanError> {
        let borrowed: Vec<&Expression> = conjuncts.iter().collect();
        let constant = self.constant();
        let path = choose(&self.target(table, slot, bound, &constant), &borrowed);
        let rest = borrowed
            .iter()
            .enumerate()
            .filter(|(position, _)| !path.ensured.contains(position))
            .map(|(_, conjunct)| *conjunct);
        let filter = conjunction(self.lower_all(rest, Place::Here, bound)?);
        let access = self.lower_access(path.access, bound)?;
        Ok(Relation::Scan(Scan { slot, table: table.id, access, filter }))
    }

    /// An access with the subqueries of its keys planned.
    pub(super) fn lower_access(
        &mut self,
        mut access: Access,
        bound: &BTreeSet<u16>,
    ) -> Result<Access, PlanError> {
        match &mut access {
            Access::Full => {}
            Access::Index { equal, lower, upper, .. } => {
                let ends = lower.iter_mut().chain(upper).map(|bound| &mut bound.value);
                for value in equal.iter_mut().chain(ends) {
                    *value = self.lower(value, Place::Here, bound)?;
                }
            }
            Access::IndexList { list: KeyList::Subquery(subquery), .. } => {
                **subquery = self.subquery(subquery.number, Place::Here, bound)?;
            }
            Access::IndexList { .. } => {}
        }
        Ok(access)
    }

    /// Inner joins, in the order that costs least.
    fn inner(
        &mut self,
        items: &[From],
        pending: &mut Vec<Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let mut bound_now = bound.clone();
        let mut left_slots: Vec<u16> = Vec::new();
        let mut relation: Option<Relation> = None;
        for position in self.join_order(items, pending, place, bound) {
            let item = &items[position];
            let slots = item.slots();
            relation = Some(match relation {
                None => self.plan_from(item, pending, place, bound)?,
                Some(joined) => {
                    let before = (&bound_now, &left_slots[..]);
                    let conditions = self.take(pending, &bound_now, &slots);
                    let parts = (joined, item);
                    self.join(parts, JoinKind::Inner, conditions, place, bound, before)?
                }
            });
            bound_now.extend(&slots);
            left_slots.extend(slots);
        }
        Ok(relation.unwrap_or(Relation::OneRow))
    }

    fn subqueries_of(&self, expression: &Expression) -> bool {
        walk::any(expression, &|e| walk::subquery_of(e).is_some())
    }

    /// Joins an item to what is joined already. `before` are all slots bound so far, and those
    /// of the left side.
    pub(super) fn join(
        &mut self,
        (left, item): (Relation, &From),
        kind: JoinKind,
        conditions: Vec<Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
        before: (&BTreeSet<u16>, &[u16]),
    ) -> Result<Relation, PlanError> {
        let (bound_now, left_slots) = before;
        let right_slots = item.slots();
        let left_slots = left_slots.to_vec();
        let left_rows = self.estimator.rows(&left, &self.fragments);
        let looked_up = match self.lookup_path(item, &conditions, kind, place, bound, before) {
            Some(reach) => match reach.better_lookup(left_rows) {
                Some(path) => Some(self.lookup(item, &conditions, kind, path, bound_now)?),
                None => None,
            },
            None => None,
        };
        if let Some((right, condition)) = looked_up {
            return Ok(joined(kind, (left, right), JoinMethod::NestedLoop, condition));
        }
        // What reads the right side alone is tested there, unless unmatched rows of that side
        // stay.
        let mut own = conditions;
        let mut cross = Vec::new();
        own.retain(|conjunct| {
            let read = walk::slots_read(conjunct, &self.subqueries);
            let alone = kind != JoinKind::Full
                && read.iter().all(|slot| bound.contains(slot) || right_slots.contains(slot))
                && (kind == JoinKind::Inner || read.iter().any(|s| right_slots.contains(s)));
            if !alone {
                cross.push(conjunct.clone());
            }
            alone
        });
        let right = self.plan_from(item, &mut own, place, bound)?;
        let own = self.lower_all(own.iter(), place, bound)?;
        let right = filtered(right, own);
        let (mut left_keys, mut right_keys) = (Vec::new(), Vec::new());
        let hashes = self.uses(Rule::HashJoins);
        cross.retain(|conjunct| {
            let subqueries = self.subqueries_of(conjunct);
            match hash_sides(conjunct, &right_slots, &subqueries) {
                Some((a, b)) if hashes && reads_any(a, &left_slots) => {
                    left_keys.push(a.clone());
                    right_keys.push(b.clone());
                    false
                }
                _ => true,
            }
        });
        let method = if left_keys.is_empty() {
            JoinMethod::NestedLoop
        } else {
            JoinMethod::Hash { left: left_keys, right: right_keys }
        };
        let condition = conjunction(self.lower_all(cross.iter(), place, bound_now)?);
        Ok(joined(kind, (left, right), method, condition))
    }

    /// The ways to the right side, if an index may be one of them.
    fn lookup_path(
        &self,
        item: &From,
        conditions: &[Expression],
        kind: JoinKind,
        place: Place,
        bound: &BTreeSet<u16>,
        before: (&BTreeSet<u16>, &[u16]),
    ) -> Option<Reach> {
        let From::Leaf(Leaf { kind: LeafKind::Table(_), .. }) = item else { return None };
        if place != Place::Here || kind == JoinKind::Full {
            return None;
        }
        let borrowed: Vec<&Expression> = conditions.iter().collect();
        let reach = self.reach(item, &borrowed, place, bound, before);
        reach.lookup.is_some().then_some(reach)
    }

    /// The right side as an index lookup by values of the left side, with what is left to test
    /// of a pair.
    fn lookup(
        &mut self,
        item: &From,
        conditions: &[Expression],
        kind: JoinKind,
        path: Path,
        bound_now: &BTreeSet<u16>,
    ) -> Result<(Relation, Option<Expression>), PlanError> {
        let From::Leaf(Leaf { kind: LeafKind::Table(table), slot, .. }) = item else {
            return Err(PlanError::new("only a table is looked up"));
        };
        let definition = &table.definition;
        // Conditions of an outer join over its left side alone are not the scan's to test.
        let (mut own, mut pair) = (Vec::new(), Vec::new());
        for (position, conjunct) in conditions.iter().enumerate() {
            let read = walk::slots_read(conjunct, &self.subqueries);
            if path.ensured.contains(&position) {
                continue;
            }
            if kind == JoinKind::Inner || read.contains(slot) {
                own.push(conjunct);
            } else {
                pair.push(conjunct);
            }
        }
        let filter = conjunction(self.lower_all(own.into_iter(), Place::Here, bound_now)?);
        let condition = conjunction(self.lower_all(pair.into_iter(), Place::Here, bound_now)?);
        let access = self.lower_access(path.access, bound_now)?;
        let (slot, table) = (*slot, definition.id);
        let scan = Scan { slot, table, access, filter };
        Ok((Relation::Scan(scan), condition))
    }

    fn outer(
        &mut self,
        (left, right): (&From, &From),
        full: bool,
        conjuncts: &[Expression],
        pending: &mut Vec<Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let left_slots = left.slots();
        // WHERE conditions over the preserved side are tested before the join.
        let mut early = if full { Vec::new() } else { self.take(pending, bound, &left_slots) };
        let planned = self.plan_from(left, &mut early, place, bound)?;
        let early = self.lower_all(early.iter(), place, bound)?;
        let planned = filtered(planned, early);
        let mut bound_now = bound.clone();
        bound_now.extend(&left_slots);
        let kind = if full { JoinKind::Full } else { JoinKind::Left };
        let before = (&bound_now, &left_slots[..]);
        self.join((planned, right), kind, conjuncts.to_vec(), place, bound, before)
    }
}

/// A join. The slots that it unbinds are those that the sides really bind: at the coordinator,
/// received rows have slots of their own.
pub(super) fn joined(
    kind: JoinKind,
    (left, right): (Relation, Relation),
    method: JoinMethod,
    condition: Option<Expression>,
) -> Relation {
    let (mut left_slots, mut right_slots) = (Vec::new(), Vec::new());
    bound_slots(&left, &mut left_slots);
    bound_slots(&right, &mut right_slots);
    let join = Join { kind, left, right, method, condition, left_slots, right_slots };
    Relation::Join(Box::new(join))
}

/// The slots whose rows a relation leaves bound.
fn bound_slots(relation: &Relation, slots: &mut Vec<u16>) {
    match relation {
        Relation::OneRow => {}
        Relation::Scan(scan) => slots.push(scan.slot),
        Relation::Receive { slot, .. }
        | Relation::Working { slot, .. }
        | Relation::Project { slot, .. }
        | Relation::Aggregate { slot, .. }
        | Relation::SetOperation { slot, .. }
        | Relation::Recursive { slot, .. } => slots.push(*slot),
        Relation::Filter { input, .. }
        | Relation::Sort { input, .. }
        | Relation::Limit { input, .. }
        | Relation::Distinct { input, .. } => bound_slots(input, slots),
        Relation::Window { input, slot, .. } => {
            slots.push(*slot);
            bound_slots(input, slots);
        }
        Relation::Join(join) => {
            bound_slots(&join.left, slots);
            bound_slots(&join.right, slots);
        }
    }
}

/// The sides of an equality of which the second reads only `right`: hash keys.
pub(super) fn hash_sides<'e>(
    conjunct: &'e Expression,
    right: &[u16],
    has_subqueries: &bool,
) -> Option<(&'e Expression, &'e Expression)> {
    if *has_subqueries {
        return None;
    }
    let Node::Compare(Comparison::Equal, a, b) = &conjunct.node else { return None };
    if !same_kind(a.sql_type, b.sql_type) {
        return None;
    }
    let reads = |e: &Expression| reads_any(e, right);
    if reads(b) && !reads(a) && only_reads(b, right) {
        return Some((a, b));
    }
    if reads(a) && !reads(b) && only_reads(a, right) {
        return Some((b, a));
    }
    None
}

fn reads_any(expression: &Expression, slots: &[u16]) -> bool {
    walk::any(expression, &|e| matches!(e.node, Node::Column { slot, .. } if slots.contains(&slot)))
}

fn only_reads(expression: &Expression, slots: &[u16]) -> bool {
    !walk::any(
        expression,
        &|e| matches!(e.node, Node::Column { slot, .. } if !slots.contains(&slot)),
    )
}
