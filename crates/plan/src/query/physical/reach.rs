//! What it costs to join a source to rows that are there, and in which order inner joins are done.
//!
//! One unit of cost is a row that an index finds.

use super::join::hash_sides;
use super::{Place, Planner};
use crate::query::access::{Path, choose};
use crate::query::estimate::reads;
use crate::query::logical::{Body, From, Leaf, LeafKind, Query};
use crate::query::walk;
use crate::rules::Rule;
use lockstep_plan_ir::{Access, Expression, Node};
use std::collections::{BTreeMap, BTreeSet};

/// Finding a place in an index.
pub(crate) const SEEK: f64 = 1.5;
/// A row of a scan of all rows.
pub(crate) const SCANNED_ROW: f64 = 0.6;
/// A row kept in a hash table.
const BUILD: f64 = 0.5;
/// A look into a hash table.
const PROBE: f64 = 0.3;
/// A partner found in a hash table.
const MATCH: f64 = 0.5;
/// How much worse a scan may be than it seems if nothing is known of a table: plans of procedures
/// are made before there are rows, and a lookup is never very wrong.
const UNKNOWN: f64 = 2.0;
/// A row that a partition sends.
const SENT_ROW: f64 = 2.0;
/// Rows of a derived table, of which little is known.
const DERIVED_ROWS: f64 = 200.0;

/// The ways to a source.
pub(super) struct Reach {
    /// Through an index by values of the left side: rows found for each left row, and the way.
    pub(super) lookup: Option<(f64, Path)>,
    /// Running the source for itself: cost and rows.
    own: (f64, f64),
    /// Whether an equality with the left side serves a hash table.
    hashes: bool,
    /// Rows of the join for each left row.
    rows: f64,
    /// Whether anything is known of the source's size.
    is_known: bool,
}

impl Reach {
    fn lookup_cost(&self, left_rows: f64) -> Option<f64> {
        self.lookup.as_ref().map(|(found, _)| left_rows * (SEEK + found))
    }

    fn kept_cost(&self, left_rows: f64) -> f64 {
        let (cost, rows) = self.own;
        match self.hashes {
            true => cost + rows * BUILD + left_rows * (PROBE + self.rows * MATCH),
            false => left_rows.max(1.0) * cost.max(1.0),
        }
    }

    fn cost(&self, left_rows: f64) -> f64 {
        let kept = self.kept_cost(left_rows);
        match self.lookup_cost(left_rows) {
            Some(cost) if self.prefers_lookup(left_rows) => cost,
            _ => kept,
        }
    }

    fn prefers_lookup(&self, left_rows: f64) -> bool {
        let doubt = if self.is_known { 1.0 } else { UNKNOWN };
        let kept = self.kept_cost(left_rows) * doubt;
        self.lookup_cost(left_rows).is_some_and(|cost| cost <= kept)
    }

    /// The lookup, if that is the better way for N left rows.
    pub(super) fn better_lookup(self, left_rows: f64) -> Option<Path> {
        if self.prefers_lookup(left_rows) { self.lookup.map(|(_, path)| path) } else { None }
    }
}

impl Planner<'_, '_> {
    /// The ways to `item` when the slots of `bound_now` are bound, of which `left_slots` are the
    /// left side's; `bound` are those of the query around it.
    pub(super) fn reach(
        &self,
        item: &From,
        conditions: &[&Expression],
        place: Place,
        bound: &BTreeSet<u16>,
        (bound_now, left_slots): (&BTreeSet<u16>, &[u16]),
    ) -> Reach {
        let slots = item.slots();
        let share = self.estimator.share(conditions.iter().copied());
        let simple = |c: &Expression| !walk::any(c, &|e| walk::subquery_of(e).is_some());
        let hashes = self.uses(Rule::HashJoins)
            && conditions.iter().any(|c| {
                let sides = hash_sides(c, &slots, &!simple(c));
                sides.is_some_and(|(left, _)| reads(left, left_slots))
            });
        let alone: Vec<&Expression> =
            conditions.iter().copied().filter(|c| simple(c) && !reads(c, left_slots)).collect();
        let (From::Leaf(Leaf { kind: LeafKind::Table(table), slot, .. }), Place::Here) =
            (item, place)
        else {
            let rows = self.source_rows(item);
            let own_rows = rows * self.estimator.share(alone.iter().copied());
            let sent = if place == Place::Coordinator { own_rows * SENT_ROW } else { 0.0 };
            let own = (rows * SCANNED_ROW + sent, own_rows);
            return Reach { lookup: None, own, hashes, rows: rows * share, is_known: true };
        };
        let (definition, constant) = (&*table.definition, self.constant());
        let rows = self.estimator.table_rows(*slot);
        let path = choose(&self.target(definition, *slot, bound, &constant), &alone);
        let own_rows = rows * self.estimator.share(alone.iter().copied());
        let is_known = self.estimator.is_known(*slot);
        let own = (path.cost, own_rows);
        let mut reach = Reach { lookup: None, own, hashes, rows: 0.0, is_known };
        let mut found_most = f64::INFINITY;
        if !left_slots.is_empty() && self.uses(Rule::IndexJoins) {
            let path = choose(&self.target(definition, *slot, bound_now, &constant), conditions);
            if reads_left(&path.access, left_slots) {
                let found = self.estimator.found(*slot, &path.access);
                if path.is_unique() {
                    found_most = 1.0;
                }
                reach.lookup = Some((found, path));
            }
        }
        reach.rows = (rows * share).min(found_most);
        reach
    }

    /// Rows of a source by itself.
    fn source_rows(&self, from: &From) -> f64 {
        match from {
            From::Leaf(Leaf { kind: LeafKind::Table(_), slot }) => self.estimator.table_rows(*slot),
            From::Leaf(Leaf { kind: LeafKind::Derived(query), .. }) => self.query_rows(query),
            From::Leaf(Leaf { kind: LeafKind::Moved { .. }, slot }) => {
                self.estimator.table_rows(*slot) * self.partitions()
            }
            From::Leaf(_) => DERIVED_ROWS,
            From::Inner { items, conjuncts } => {
                let rows: f64 = items.iter().map(|item| self.source_rows(item)).product();
                rows * self.estimator.share(conjuncts.iter())
            }
            From::Outer { full, left, right, .. } => {
                let (left, right) = (self.source_rows(left), self.source_rows(right));
                if *full { left + right } else { left }
            }
        }
    }

    fn query_rows(&self, query: &Query) -> f64 {
        let limit = match query.limit.as_ref().map(|limit| &limit.node) {
            Some(Node::Literal(lockstep_types::Value::Int(limit))) => *limit as f64,
            _ => f64::INFINITY,
        };
        let Body::Select(select) = &query.body else { return DERIVED_ROWS.min(limit) };
        let rows = self.source_rows(&select.from) * self.estimator.share(select.filter.iter());
        match &select.aggregate {
            Some(aggregate) if aggregate.group.is_empty() => 1.0,
            Some(_) => (rows / 10.0).max(1.0).min(limit),
            None => rows.min(limit),
        }
    }

    /// The order in which the sources of an inner join are joined.
    pub(super) fn join_order(
        &self,
        items: &[From],
        pending: &[Expression],
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Vec<usize> {
        let written = || (0..items.len()).collect();
        if items.len() < 2 || !self.uses(Rule::JoinOrder) {
            return written();
        }
        let limit = (self.planning.max_ordered_sources as usize).min(MOST_ORDERED);
        let mut weighing = Weighing::new(self, items, pending, place, bound);
        match items.len() <= limit {
            true => weighing.best_order(),
            false => weighing.step_by_step(),
        }
    }
}

/// Sources of which all orders can be weighed at all: memory for each subset.
const MOST_ORDERED: usize = 12;

fn reads_left(access: &Access, left_slots: &[u16]) -> bool {
    let Access::Index { equal, lower, upper, .. } = access else { return false };
    let bounds = lower.iter().chain(upper).map(|bound| &bound.value);
    equal.iter().chain(bounds).any(|value| reads(value, left_slots))
}

/// The search for an order.
struct Weighing<'w, 'b, 'c> {
    planner: &'w Planner<'b, 'c>,
    items: &'w [From],
    slots: Vec<Vec<u16>>,
    /// Conditions with the items that they read; those that wait for other slots are left out.
    conditions: Vec<(BTreeSet<usize>, &'w Expression)>,
    place: Place,
    bound: &'w BTreeSet<u16>,
    /// By item and those joined before that its conditions read.
    known: BTreeMap<(usize, BTreeSet<usize>), Reach>,
}

/// The best way to a set of items.
#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    rows: f64,
    last: usize,
}

impl<'w, 'b, 'c> Weighing<'w, 'b, 'c> {
    fn new(
        planner: &'w Planner<'b, 'c>,
        items: &'w [From],
        pending: &'w [Expression],
        place: Place,
        bound: &'w BTreeSet<u16>,
    ) -> Self {
        let slots: Vec<Vec<u16>> = items.iter().map(From::slots).collect();
        let owner = |slot: &u16| slots.iter().position(|own| own.contains(slot));
        let conditions = pending.iter().filter_map(|condition| {
            let read = walk::slots_read(condition, &planner.subqueries);
            let ready = read.iter().all(|slot| bound.contains(slot) || owner(slot).is_some());
            let items: BTreeSet<usize> = read.iter().filter_map(owner).collect();
            (ready && !items.is_empty()).then_some((items, condition))
        });
        let conditions = conditions.collect();
        let known = BTreeMap::new();
        Weighing { planner, items, slots, conditions, place, bound, known }
    }

    /// Cost and rows of joining an item to N rows of `before`.
    fn step(&mut self, item: usize, before: &BTreeSet<usize>, rows: f64) -> (f64, f64) {
        let mut near = BTreeSet::new();
        let mut conditions = Vec::new();
        for (read, condition) in &self.conditions {
            if read.contains(&item) && read.iter().all(|i| *i == item || before.contains(i)) {
                near.extend(read.iter().filter(|i| **i != item));
                conditions.push(*condition);
            }
        }
        let (planner, place, bound) = (self.planner, self.place, self.bound);
        let (items, slots) = (self.items, &self.slots);
        let reach = self.known.entry((item, near)).or_insert_with_key(|(_, near)| {
            let left: Vec<u16> = near.iter().flat_map(|i| slots[*i].iter().copied()).collect();
            let mut bound_now = bound.clone();
            bound_now.extend(&left);
            let around = (&bound_now, &left[..]);
            planner.reach(&items[item], &conditions, place, bound, around)
        });
        match before.is_empty() {
            true => (reach.own.0, reach.own.1),
            false => (reach.cost(rows), rows * reach.rows),
        }
    }

    /// Weighs all orders in which each item is joined to those before it.
    fn best_order(&mut self) -> Vec<usize> {
        let count = self.items.len();
        let mut best: Vec<Option<Best>> = vec![None; 1 << count];
        best[0] = Some(Best { cost: 0.0, rows: 1.0, last: 0 });
        for set in 0..best.len() {
            let Some(so_far) = best[set] else { continue };
            let before: BTreeSet<usize> = (0..count).filter(|i| set & (1 << i) != 0).collect();
            for item in (0..count).filter(|i| set & (1 << i) == 0) {
                let (cost, rows) = self.step(item, &before, so_far.rows);
                let next = Best { cost: so_far.cost + cost, rows, last: item };
                let known = &mut best[set | 1 << item];
                if known.is_none_or(|known| next.cost < known.cost) {
                    *known = Some(next);
                }
            }
        }
        let mut order = Vec::with_capacity(count);
        let mut set = best.len() - 1;
        while let (true, Some(reached)) = (set != 0, best[set]) {
            order.push(reached.last);
            set &= !(1 << reached.last);
        }
        order.reverse();
        order
    }

    /// Always the item that is joined at the least cost, and of those the one that gives the
    /// fewest rows.
    fn step_by_step(&mut self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.items.len());
        let mut before = BTreeSet::new();
        let mut rows = 1.0;
        while order.len() < self.items.len() {
            let mut best: Option<Best> = None;
            for item in 0..self.items.len() {
                if before.contains(&item) {
                    continue;
                }
                let (cost, rows) = self.step(item, &before, rows);
                if best.is_none_or(|best| cost + rows < best.cost + best.rows) {
                    best = Some(Best { cost, rows, last: item });
                }
            }
            let Some(next) = best else { break };
            order.push(next.last);
            before.insert(next.last);
            rows = next.rows;
        }
        order
    }
}
