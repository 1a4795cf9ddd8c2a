//! From bound queries to relations: at one place, or in fragments and a coordinator's part.

pub(crate) use reach::{SCANNED_ROW, SEEK};

mod cut;
pub(crate) mod dml;
mod gather;
mod join;
mod moving;
mod order;
mod reach;
mod semi;
mod stages;

use super::access::{Constant, Target as AccessTarget};
use super::bind::Binder;
use super::estimate::Estimator;
use super::logical::{Body, From, LeafKind, Query, Select, Subqueries};
use super::partition::{self, Placement, Values};
use super::walk;
use crate::error::PlanError;
use crate::planning::Planning;
use crate::rules::Rule;
use lockstep_plan_ir::expression::Subquery;
use lockstep_plan_ir::relation::{SetBranch, SortKey};
use lockstep_plan_ir::statement::{Fragment, Query as PlannedQuery, Target};
use lockstep_plan_ir::{Expression, Lookup, Node, Operation, Relation, TableDefinition};
use lockstep_types::{SqlType, TableSchema, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Most fragments of a statement.
const MAX_FRAGMENTS: usize = 400;

/// Where a part of a statement runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where its tables are.
    Here,
    /// At the coordinator, which has no tables: they come from fragments.
    Coordinator,
}

/// Plans one statement.
pub(crate) struct Planner<'b, 'c> {
    binder: &'b mut Binder<'c>,
    planning: &'b Planning,
    estimator: Estimator<'b>,
    subqueries: Rc<Subqueries>,
    constant: Rc<Constant>,
    /// The fragments so far.
    pub(crate) fragments: Vec<Fragment>,
    /// Columns of slots that fragments bind, by where the coordinator finds them.
    moved: BTreeMap<(u16, u16), (u16, u16)>,
    /// Columns that the statement reads, by slot, with their types.
    used: BTreeMap<u16, BTreeMap<u16, SqlType>>,
    planned: BTreeMap<(u16, bool), Subquery>,
    /// Where the fragments of the SELECT that is being cut run.
    cut_target: Target,
    /// What is known of columns in the SELECT that is being planned.
    values: Values,
    depth: usize,
}

impl<'b, 'c> Planner<'b, 'c> {
    /// A planner for what the binder has bound.
    pub(crate) fn new(binder: &'b mut Binder<'c>, planning: &'b Planning) -> Self {
        let subqueries = Rc::new(std::mem::take(&mut binder.subqueries));
        let single = subqueries.iter().filter(|(_, query)| {
            query.output.len() == 1
                && walk::outer_slots(query, &subqueries).is_empty()
                && !reads_working(query, &subqueries)
        });
        let constant: Constant =
            single.map(|(number, query)| (*number, query.types()[0])).collect();
        Planner {
            binder,
            planning,
            estimator: Estimator::new(planning),
            constant: Rc::new(constant),
            subqueries,
            fragments: Vec::new(),
            moved: BTreeMap::new(),
            used: BTreeMap::new(),
            planned: BTreeMap::new(),
            cut_target: Target::All,
            values: Values::new(),
            depth: 0,
        }
    }

    /// The statement's subqueries.
    pub(crate) fn subqueries(&self) -> Rc<Subqueries> {
        Rc::clone(&self.subqueries)
    }

    /// The subqueries that may serve as keys of indexes.
    fn constant(&self) -> Rc<Constant> {
        Rc::clone(&self.constant)
    }

    /// Whether a rule is switched on.
    fn uses(&self, rule: Rule) -> bool {
        self.planning.uses(rule)
    }

    /// A table as the choice of an access path sees it.
    fn target<'t>(
        &'t self,
        table: &'t TableDefinition,
        slot: u16,
        bound: &'t BTreeSet<u16>,
        constant: &'t Constant,
    ) -> AccessTarget<'t> {
        let (planning, estimator) = (self.planning, &self.estimator);
        AccessTarget { table, slot, bound, constant, planning, estimator }
    }

    /// Learns which tables a query reads, subqueries' included.
    pub(crate) fn learn(&mut self, query: &Query) {
        let subqueries = self.subqueries();
        let estimator = &mut self.estimator;
        walk::each_leaf(query, &subqueries, &mut |leaf| {
            if let LeafKind::Table(table) = &leaf.kind {
                estimator.learn_table(leaf.slot, &table.definition);
            }
        });
    }

    fn learn_conditions(&mut self, select: &Select) {
        let joined: &[Expression] = match &select.from {
            From::Leaf(_) => return,
            From::Inner { conjuncts, .. } => conjuncts,
            From::Outer { .. } => &[],
        };
        self.estimator.learn_conditions(select.filter.iter().chain(joined));
    }

    /// Notes the columns that a query reads; must be done before any of it is planned for the
    /// coordinator.
    pub(crate) fn note_query(&mut self, query: &Query) {
        let subqueries = self.subqueries();
        walk::walk_query(query, &subqueries, &mut |e| note(&mut self.used, e));
    }

    /// Plans a query. `bound` are the slots of the query around it.
    pub(crate) fn query(
        &mut self,
        query: &Query,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        self.depth += 1;
        if self.depth > 200 {
            return Err(PlanError::new("Queries are nested too deeply (max is 200)"));
        }
        let planned = self.query_at(query, place, bound);
        self.depth -= 1;
        planned
    }

    fn query_at(
        &mut self,
        query: &Query,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        if place == Place::Coordinator
            && let Some(target) = self.single_target(query)
            && (self.uses(Rule::OnePartition) || target == Target::One)
        {
            let whole = self.query(query, Place::Here, &BTreeSet::new())?;
            return self.send_whole(whole, query, target);
        }
        match &query.body {
            Body::Select(select) => {
                let outer = self.values.clone();
                self.values = partition::known_values(select, &outer);
                self.learn_conditions(select);
                let planned = match place {
                    Place::Here => self.select_here(query, select, bound),
                    Place::Coordinator => self.select_at_coordinator(query, select, bound),
                };
                self.values = outer;
                planned
            }
            Body::Set { operator, all, branches, slot } => {
                let mut planned = Vec::with_capacity(branches.len());
                for branch in branches {
                    planned.push(self.branch(branch, place, bound)?);
                }
                let relation = match planned.len() {
                    1 => {
                        let only = planned.pop().expect("there is one");
                        let (input, slot) = (Box::new(only.relation), *slot);
                        Relation::Project { input, slot, expressions: only.output }
                    }
                    _ => Relation::SetOperation {
                        operator: *operator,
                        all: *all,
                        branches: planned,
                        slot: *slot,
                    },
                };
                self.ordered(relation, query, place, bound)
            }
            Body::Recursive { number, base, step, all, slot } => {
                let base = Box::new(self.branch(base, place, bound)?);
                let step = Box::new(self.branch(step, place, bound)?);
                let (number, all, slot) = (*number, *all, *slot);
                let relation = Relation::Recursive { number, base, step, all, slot };
                self.ordered(relation, query, place, bound)
            }
        }
    }

    fn branch(
        &mut self,
        query: &Query,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<SetBranch, PlanError> {
        let planned = self.query(query, place, bound)?;
        Ok(SetBranch { relation: planned.relation, output: planned.output })
    }

    /// Where a statement's tables are, as far as the rules in force let it be told.
    fn placement(&self, uses: &[partition::Use<'_>]) -> Placement {
        match partition::placement(uses) {
            Placement::One(value) if !self.may_route_by(&value) => Placement::Many,
            placement => placement,
        }
    }

    /// Whether partitions may be told by a value.
    fn may_route_by(&self, value: &Expression) -> bool {
        Lookup::of(value).is_none() || self.uses(Rule::GlobalIndexes)
    }

    /// The partition that can answer a query alone, if there is one.
    fn single_target(&self, query: &Query) -> Option<Target> {
        let subqueries = self.subqueries();
        if !walk::outer_slots(query, &subqueries).is_empty() || reads_working(query, &subqueries) {
            return None;
        }
        let mut uses = Vec::new();
        partition::uses(query, &subqueries, &Values::new(), &mut uses);
        if uses.is_empty() {
            return None;
        }
        match self.placement(&uses) {
            Placement::Anywhere => Some(Target::One),
            Placement::One(value) => Some(Target::Owner(value)),
            Placement::Many => None,
        }
    }

    /// Makes a whole planned query a fragment.
    pub(super) fn send_whole(
        &mut self,
        planned: PlannedQuery,
        query: &Query,
        target: Target,
    ) -> Result<PlannedQuery, PlanError> {
        let types = query.types();
        let slot = self.binder.new_slot()?;
        let fragment = self.add_fragment(target, planned, &types)?;
        let output = columns_of(slot, &types);
        Ok(PlannedQuery { relation: Relation::Receive { slot, fragment, types }, output })
    }

    /// Adds a fragment; its number.
    fn add_fragment(
        &mut self,
        target: Target,
        query: PlannedQuery,
        types: &[SqlType],
    ) -> Result<u16, PlanError> {
        if self.fragments.len() >= MAX_FRAGMENTS {
            return Err(PlanError::new(format!(
                "The statement needs too many fragments (max is {MAX_FRAGMENTS})"
            )));
        }
        let named: Vec<(String, SqlType)> =
            types.iter().enumerate().map(|(i, t)| (format!("C{}", i + 1), *t)).collect();
        let result = TableSchema::new(&named);
        self.fragments.push(Fragment { target, operation: Operation::Query(query), result });
        Ok((self.fragments.len() - 1) as u16)
    }

    /// Order, limit and output of a query.
    fn ordered(
        &mut self,
        relation: Relation,
        query: &Query,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        let keys = self.keys(&query.order, place, bound)?;
        let limit = self.optional(query.limit.as_ref(), place, bound)?;
        let offset = self.optional(query.offset.as_ref(), place, bound)?;
        let relation = sorted(relation, keys, limit, offset);
        let output = self.lower_all(query.output.iter().map(|o| &o.expression), place, bound)?;
        Ok(PlannedQuery { relation, output })
    }

    fn keys(
        &mut self,
        keys: &[SortKey],
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Vec<SortKey>, PlanError> {
        let lowered = keys.iter().map(|key| {
            let expression = self.lower(&key.expression, place, bound)?;
            Ok(SortKey { expression, ..key.clone() })
        });
        lowered.collect()
    }

    fn optional(
        &mut self,
        expression: Option<&Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Option<Expression>, PlanError> {
        expression.map(|e| self.lower(e, place, bound)).transpose()
    }

    /// Lowers several expressions.
    pub(crate) fn lower_all<'e>(
        &mut self,
        expressions: impl Iterator<Item = &'e Expression>,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Vec<Expression>, PlanError> {
        expressions.map(|e| self.lower(e, place, bound)).collect()
    }

    /// An expression with its subqueries planned.
    pub(crate) fn lower(
        &mut self,
        expression: &Expression,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Expression, PlanError> {
        let mut lowered = expression.clone();
        self.lower_in_place(&mut lowered, place, bound)?;
        Ok(lowered)
    }

    fn lower_in_place(
        &mut self,
        expression: &mut Expression,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<(), PlanError> {
        if let Some(subquery) = walk::subquery_of_mut(expression) {
            let number = subquery.number;
            *subquery = self.subquery(number, place, bound)?;
        }
        let mut result = Ok(());
        walk::each_child_mut(expression, &mut |child| {
            if result.is_ok() {
                result = self.lower_in_place(child, place, bound);
            }
        });
        result
    }

    fn subquery(
        &mut self,
        number: u16,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Subquery, PlanError> {
        let key = (number, place == Place::Here);
        if let Some(known) = self.planned.get(&key) {
            return Ok(known.clone());
        }
        let subqueries = self.subqueries();
        let query = subqueries.get(&number).expect("the binder keeps all subqueries");
        let outer = walk::outer_slots(query, &subqueries);
        let mut around = bound.clone();
        around.extend(&outer);
        let planned = self.query(query, place, &around)?;
        let subquery = Subquery {
            relation: planned.relation,
            output: planned.output,
            uncorrelated: outer.is_empty() && !reads_working(query, &subqueries),
            number,
        };
        self.planned.insert(key, subquery.clone());
        Ok(subquery)
    }

    /// Brings the coordinator's expressions to where fragments' columns are received.
    pub(crate) fn settle(&self, query: &mut PlannedQuery) {
        settle_by(&self.moved, query);
    }
}

/// Brings expressions to where columns are received.
fn settle_by(moved: &BTreeMap<(u16, u16), (u16, u16)>, query: &mut PlannedQuery) {
    let mut settle = |node: &mut Expression| {
        if let Node::Column { slot, column } = &mut node.node
            && let Some((new_slot, new_column)) = moved.get(&(*slot, *column))
        {
            (*slot, *column) = (*new_slot, *new_column);
        }
    };
    walk::each_in_relation(&mut query.relation, &mut settle);
    query.output.iter_mut().for_each(|e| walk::each_planned(e, &mut settle));
}

fn note(used: &mut BTreeMap<u16, BTreeMap<u16, SqlType>>, expression: &Expression) {
    if let Node::Column { slot, column } = expression.node {
        used.entry(slot).or_default().insert(column, expression.sql_type);
    }
}

/// The columns of a slot with these types.
pub(crate) fn columns_of(slot: u16, types: &[SqlType]) -> Vec<Expression> {
    let columns = types.iter().enumerate();
    columns.map(|(i, sql_type)| Expression::column(slot, i as u16, *sql_type)).collect()
}

/// True when a query reads the previous round of a recursive common table around it.
fn reads_working(query: &Query, subqueries: &Subqueries) -> bool {
    let mut working = BTreeSet::new();
    walk::each_leaf(query, subqueries, &mut |leaf| {
        if let super::logical::LeafKind::Working { number } = leaf.kind {
            working.insert(number);
        }
    });
    let mut defined = BTreeSet::new();
    defined_tables(query, &mut defined);
    walk::each_leaf(query, subqueries, &mut |leaf| {
        if let super::logical::LeafKind::Derived(derived) = &leaf.kind {
            defined_tables(derived, &mut defined);
        }
    });
    working.difference(&defined).next().is_some()
}

fn defined_tables(query: &Query, defined: &mut BTreeSet<u16>) {
    match &query.body {
        Body::Recursive { number, .. } => {
            defined.insert(*number);
        }
        Body::Set { branches, .. } => branches.iter().for_each(|b| defined_tables(b, defined)),
        Body::Select(_) => {}
    }
}

/// A relation with an order and a limit.
pub(crate) fn sorted(
    input: Relation,
    keys: Vec<SortKey>,
    limit: Option<Expression>,
    offset: Option<Expression>,
) -> Relation {
    if !keys.is_empty() {
        return Relation::Sort { input: Box::new(input), keys, limit, offset };
    }
    if limit.is_some() || offset.is_some() {
        return Relation::Limit { input: Box::new(input), limit, offset };
    }
    input
}

/// A relation with conjuncts that must hold.
pub(crate) fn filtered(input: Relation, conjuncts: Vec<Expression>) -> Relation {
    match conjunction(conjuncts) {
        Some(predicate) => Relation::Filter { input: Box::new(input), predicate },
        None => input,
    }
}

/// AND of conjuncts; none if there are none.
pub(crate) fn conjunction(mut conjuncts: Vec<Expression>) -> Option<Expression> {
    match conjuncts.len() {
        0 | 1 => conjuncts.pop(),
        _ => Some(Expression { node: Node::And(conjuncts), sql_type: SqlType::Boolean }),
    }
}

/// A BIGINT constant.
pub(crate) fn integer(value: i64) -> Expression {
    Expression::literal(Value::Int(value), SqlType::BigInt)
}
