//! A SELECT at one place: FROM, WHERE, grouping, windows, DISTINCT, order.

use super::{Place, Planner, conjunction, filtered, sorted};
use crate::error::PlanError;
use crate::query::logical::{Aggregate, From, LeafKind, Query, Select};
use crate::rules::Rule;
use lockstep_plan_ir::relation::{AggregateCall, SortKey, WindowCall};
use lockstep_plan_ir::statement::Query as PlannedQuery;
use lockstep_plan_ir::{AggregateFunction, Expression, Node, Relation};
use lockstep_types::SqlType;
use std::collections::BTreeSet;

impl Planner<'_, '_> {
    /// A SELECT whose tables are here.
    pub(super) fn select_here(
        &mut self,
        query: &Query,
        select: &Select,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        let plain =
            select.aggregate.is_none() && select.window.is_none() && select.distinct.is_none();
        if plain && let Some(planned) = self.in_index_order(query, select, bound)? {
            return Ok(planned);
        }
        let input = match self.extreme_from_index(select, bound)? {
            Some(input) => input,
            None => self.rows(select, Place::Here, bound)?,
        };
        let grouped = self.grouped(input, select, Place::Here, bound)?;
        self.behind_groups(grouped, query, select, Place::Here, bound)
    }

    /// FROM and WHERE.
    pub(super) fn rows(
        &mut self,
        select: &Select,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let mut pending = select.filter.clone();
        let taken = self.take_semi_joins(select, &mut pending, bound);
        let relation = self.plan_from(&select.from, &mut pending, place, bound)?;
        let rest = self.lower_all(pending.iter(), place, bound)?;
        self.semi_joins(filtered(relation, rest), select, &taken, place, bound)
    }

    /// GROUP BY and HAVING, if there are any.
    pub(super) fn grouped(
        &mut self,
        input: Relation,
        select: &Select,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Relation, PlanError> {
        let Some(aggregate) = &select.aggregate else { return Ok(input) };
        let group = self.lower_all(aggregate.group.iter(), place, bound)?;
        let calls = self.calls(aggregate, place, bound)?;
        let input = Box::new(input);
        let relation = Relation::Aggregate { input, slot: aggregate.slot, group, calls };
        let having = self.lower_all(select.having.iter(), place, bound)?;
        Ok(filtered(relation, having))
    }

    pub(super) fn calls(
        &mut self,
        aggregate: &Aggregate,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<Vec<AggregateCall>, PlanError> {
        let calls = aggregate.calls.iter().map(|call| {
            let argument = call.argument.as_ref();
            let argument = argument.map(|e| self.lower(e, place, bound)).transpose()?;
            Ok(AggregateCall { argument, ..call.clone() })
        });
        calls.collect()
    }

    /// Windows, DISTINCT, order, limit and output.
    pub(super) fn behind_groups(
        &mut self,
        input: Relation,
        query: &Query,
        select: &Select,
        place: Place,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        let mut relation = input;
        if let Some(window) = &select.window {
            let mut calls = Vec::with_capacity(window.calls.len());
            for call in &window.calls {
                calls.push(WindowCall {
                    arguments: self.lower_all(call.arguments.iter(), place, bound)?,
                    partition: self.lower_all(call.partition.iter(), place, bound)?,
                    order: self.keys(&call.order, place, bound)?,
                    ..call.clone()
                });
            }
            let input = Box::new(relation);
            relation = Relation::Window { input, slot: window.slot, calls };
        }
        if let Some(distinct) = &select.distinct {
            let expressions = self.lower_all(distinct.expressions.iter(), place, bound)?;
            let slot = distinct.slot;
            let input =
                Box::new(Relation::Project { input: Box::new(relation), slot, expressions });
            relation = Relation::Distinct { input, slot };
        }
        self.ordered(relation, query, place, bound)
    }

    /// A plain SELECT of one table whose ORDER BY an index gives.
    fn in_index_order(
        &mut self,
        query: &Query,
        select: &Select,
        bound: &BTreeSet<u16>,
    ) -> Result<Option<PlannedQuery>, PlanError> {
        if query.order.is_empty() || !self.uses(Rule::IndexOrder) {
            return Ok(None);
        }
        let Some(scan) = self.ordered_scan(select, &query.order, &[], bound)? else {
            return Ok(None);
        };
        let limit = self.optional(query.limit.as_ref(), Place::Here, bound)?;
        let offset = self.optional(query.offset.as_ref(), Place::Here, bound)?;
        let relation = sorted(scan, Vec::new(), limit, offset);
        let expressions = query.output.iter().map(|o| &o.expression);
        let output = self.lower_all(expressions, Place::Here, bound)?;
        Ok(Some(PlannedQuery { relation, output }))
    }

    /// For a single MIN or MAX without groups: the row at the end of an index.
    fn extreme_from_index(
        &mut self,
        select: &Select,
        bound: &BTreeSet<u16>,
    ) -> Result<Option<Relation>, PlanError> {
        if !self.uses(Rule::IndexExtremes) {
            return Ok(None);
        }
        let Some(aggregate) = &select.aggregate else { return Ok(None) };
        let [call] = &aggregate.calls[..] else { return Ok(None) };
        let descending = match call.function {
            AggregateFunction::Min => false,
            AggregateFunction::Max => true,
            _ => return Ok(None),
        };
        let (true, Some(argument)) = (aggregate.group.is_empty(), &call.argument) else {
            return Ok(None);
        };
        if !matches!(argument.node, Node::Column { .. }) {
            return Ok(None);
        }
        let expression = argument.clone();
        let key = SortKey { expression, descending, nulls_first: !descending };
        let boolean = |node| Expression { node, sql_type: SqlType::Boolean };
        let is_null = boolean(Node::IsNull(Box::new(argument.clone())));
        let present = boolean(Node::Not(Box::new(is_null)));
        let scan = self.ordered_scan(select, &[key], &[present], bound)?;
        Ok(scan.map(|scan| {
            let (input, limit) = (Box::new(scan), Some(super::integer(1)));
            Relation::Limit { input, limit, offset: None }
        }))
    }

    /// The scan of a SELECT's only table in the order of `keys`, if an index gives it.
    pub(super) fn ordered_scan(
        &mut self,
        select: &Select,
        keys: &[SortKey],
        more: &[Expression],
        bound: &BTreeSet<u16>,
    ) -> Result<Option<Relation>, PlanError> {
        let From::Leaf(leaf) = &select.from else { return Ok(None) };
        let LeafKind::Table(table) = &leaf.kind else { return Ok(None) };
        let conjuncts: Vec<&Expression> = select.filter.iter().collect();
        let constant = self.constant();
        let (definition, slot) = (&table.definition, leaf.slot);
        let target = self.target(definition, slot, bound, &constant);
        let Some(path) = super::order::ordered_path(&target, &conjuncts, keys) else {
            return Ok(None);
        };
        let mut rest: Vec<&Expression> = conjuncts
            .iter()
            .enumerate()
            .filter(|(position, _)| !path.ensured.contains(position))
            .map(|(_, conjunct)| *conjunct)
            .collect();
        rest.extend(more);
        let filter = conjunction(self.lower_all(rest.into_iter(), Place::Here, bound)?);
        let scan = lockstep_plan_ir::Scan {
            slot: leaf.slot,
            table: table.definition.id,
            access: self.lower_access(path.access, bound)?,
            filter,
        };
        Ok(Some(Relation::Scan(scan)))
    }
}
