//! A SELECT over spread tables, cut in two: what runs at the partitions, and what the
//! coordinator makes of it.

use super::{Place, Planner, columns_of, filtered, integer, sorted};
use crate::error::PlanError;
use crate::query::logical::{Aggregate, Body, LeafKind, Query, Select};
use crate::query::partition::{self, Placement, Values};
use crate::query::walk;
use crate::rules::Rule;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::relation::AggregateCall;
use lockstep_plan_ir::statement::Query as PlannedQuery;
use lockstep_plan_ir::{AggregateFunction, Comparison, Expression, Node, Relation};
use lockstep_types::{SqlType, Value};
use std::collections::{BTreeMap, BTreeSet};

impl Planner<'_, '_> {
    /// A SELECT of which the coordinator has no tables.
    pub(super) fn select_at_coordinator(
        &mut self,
        query: &Query,
        select: &Select,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        if !self.uses(Rule::PartitionWork) || !self.runs_apart(select) {
            let rows = self.rows(select, Place::Coordinator, bound)?;
            let grouped = self.grouped(rows, select, Place::Coordinator, bound)?;
            return self.behind_groups(grouped, query, select, Place::Coordinator, bound);
        }
        let nothing = BTreeSet::new();
        let rows = self.rows(select, Place::Here, &nothing)?;
        self.cut_target = self.partitions_of(select);
        match &select.aggregate {
            None => self.cut_rows(query, select, rows, &select.from.slots(), bound),
            Some(aggregate)
                if self.uses(Rule::LocalGroups)
                    && groups_are_local(select, aggregate)
                    && select
                        .having
                        .iter()
                        .all(|e| self.fits_fragment(e, &[aggregate.slot], &Values::new())) =>
            {
                let grouped = self.grouped(rows, select, Place::Here, &nothing)?;
                self.cut_rows(query, select, grouped, &[aggregate.slot], bound)
            }
            Some(aggregate)
                if self.uses(Rule::PartialAggregation)
                    && aggregate.calls.iter().all(|call| !call.distinct) =>
            {
                let merged = self.partial(aggregate, rows)?;
                let having = self.lower_all(select.having.iter(), Place::Coordinator, bound)?;
                let merged = filtered(merged, having);
                self.behind_groups(merged, query, select, Place::Coordinator, bound)
            }
            Some(_) => {
                let slots = select.from.slots();
                let received = self.receive(query, select, rows, &slots, true)?;
                let grouped = self.grouped(received, select, Place::Coordinator, bound)?;
                self.behind_groups(grouped, query, select, Place::Coordinator, bound)
            }
        }
    }

    /// True when FROM and WHERE can run at each partition for itself.
    pub(super) fn runs_apart(&self, select: &Select) -> bool {
        let mut fits = true;
        let mut spread = false;
        let subqueries = self.subqueries();
        select.from.each_leaf(&mut |leaf| match &leaf.kind {
            LeafKind::Table(table) => {
                fits &= !table.definition.is_partial;
                spread |= partition::is_spread(leaf);
            }
            LeafKind::Derived(query) => {
                let mut uses = Vec::new();
                partition::uses(query, &subqueries, &Values::new(), &mut uses);
                fits &= matches!(partition::placement(&uses), Placement::Anywhere)
                    && walk::outer_slots(query, &subqueries).is_empty()
                    && !super::reads_working(query, &subqueries);
            }
            LeafKind::Moved { .. } => {}
            LeafKind::Working { .. } => fits = false,
        });
        let Some(tied) = partition::colocation(select) else { return false };
        if !fits || !spread {
            return false;
        }
        let own: BTreeSet<u16> = select.from.slots().into_iter().collect();
        let mut conditions: Vec<&Expression> = select.filter.iter().collect();
        select.from.each_condition(&mut |condition| conditions.push(condition));
        if let Some(aggregate) = &select.aggregate {
            conditions.extend(&aggregate.group);
        }
        let own: Vec<u16> = own.into_iter().collect();
        conditions.iter().all(|condition| self.fits_fragment(condition, &own, &tied))
    }

    /// True when an expression over some slots can be computed at the partition of its rows: its
    /// subqueries read what is at hand there. `tied` are the columns that name that partition.
    fn fits_fragment(&self, expression: &Expression, slots: &[u16], tied: &Values) -> bool {
        let subqueries = self.subqueries();
        let mut uses = Vec::new();
        partition::uses_of_subqueries(expression, &subqueries, tied, &mut uses);
        uses.iter().all(partition::is_at_hand)
            && walk::slots_read(expression, &subqueries).iter().all(|slot| slots.contains(slot))
            && !reads_working_table(expression, &subqueries)
    }

    /// Sends rows; windows, DISTINCT, order and limit are done (again) where they arrive.
    fn cut_rows(
        &mut self,
        query: &Query,
        select: &Select,
        rows: Relation,
        slots: &[u16],
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        if self.uses(Rule::PushOutput) && self.computes_there(query, select, slots) {
            return self.cut_values(query, rows, bound);
        }
        let plain = self.local_behind(query, select, slots);
        if let (Some(distinct), true) = (&select.distinct, plain && self.uses(Rule::PushDistinct)) {
            let nothing = BTreeSet::new();
            let expressions = self.lower_all(distinct.expressions.iter(), Place::Here, &nothing)?;
            let (slot, input) = (distinct.slot, Box::new(rows));
            let input = Box::new(Relation::Project { input, slot, expressions });
            let rows = self.top(query, Relation::Distinct { input, slot })?;
            let types = query_types(distinct);
            let output = columns_of(slot, &types);
            let received = self.ship(rows, output, self.cut_target.clone())?;
            let Relation::Receive { slot: received_slot, .. } = received else {
                return Err(PlanError::new("a fragment is not received"));
            };
            let input = Box::new(received);
            let relation = Relation::Distinct { input, slot: received_slot };
            return self.ordered(relation, query, Place::Coordinator, bound);
        }
        // Before equal rows are one, no row may be cut off.
        let whole = select.window.is_none() && select.distinct.is_none();
        let rows = match plain && whole {
            true => self.first_rows(query, select, rows)?,
            false => rows,
        };
        let received = self.receive(query, select, rows, slots, false)?;
        self.behind_groups(received, query, select, Place::Coordinator, bound)
    }

    /// True when the result's columns hold subqueries that are best computed where the rows are.
    fn computes_there(&self, query: &Query, select: &Select, slots: &[u16]) -> bool {
        let Some(tied) = partition::colocation(select) else { return false };
        let has_subquery = |e: &Expression| walk::any(e, &|e| walk::subquery_of(e).is_some());
        let outputs = query.output.iter().map(|output| &output.expression);
        let keys = query.order.iter().map(|key| &key.expression);
        select.aggregate.is_none()
            && select.window.is_none()
            && select.distinct.is_none()
            && outputs.clone().any(has_subquery)
            && outputs.chain(keys).all(|e| self.fits_fragment(e, slots, &tied))
    }

    /// Computes the result's columns and the order's keys at the partitions.
    fn cut_values(
        &mut self,
        query: &Query,
        rows: Relation,
        bound: &BTreeSet<u16>,
    ) -> Result<PlannedQuery, PlanError> {
        let mut values: Vec<Expression> =
            query.output.iter().map(|output| output.expression.clone()).collect();
        let width = values.len();
        values.extend(query.order.iter().map(|key| key.expression.clone()));
        let types: Vec<SqlType> = values.iter().map(|value| value.sql_type).collect();
        let nothing = BTreeSet::new();
        let expressions = self.lower_all(values.iter(), Place::Here, &nothing)?;
        let slot = self.binder.new_slot()?;
        let rows = Relation::Project { input: Box::new(rows), slot, expressions };
        let mut over_values = query.clone();
        let columns = columns_of(slot, &types);
        for (key, column) in over_values.order.iter_mut().zip(&columns[width..]) {
            key.expression = column.clone();
        }
        for (output, column) in over_values.output.iter_mut().zip(&columns) {
            output.expression = column.clone();
        }
        let rows = self.top(&over_values, rows)?;
        let received = self.ship(rows, columns, self.cut_target.clone())?;
        self.ordered(received, &over_values, Place::Coordinator, bound)
    }

    /// True when the expressions of order and select list can be computed at partitions.
    fn local_behind(&self, query: &Query, select: &Select, slots: &[u16]) -> bool {
        if select.window.is_some() {
            return false;
        }
        let distinct = select.distinct.iter().flat_map(|distinct| &distinct.expressions);
        let keys = query.order.iter().map(|key| &key.expression);
        let mut slots = slots.to_vec();
        slots.extend(select.distinct.iter().map(|distinct| distinct.slot));
        distinct.chain(keys).all(|e| {
            let subquery = walk::any(e, &|e| walk::subquery_of(e).is_some());
            !subquery && self.fits_fragment(e, &slots, &Values::new())
        })
    }

    /// As [`Planner::top`]; the first rows of a single table are read from an index that has the
    /// order, if there is one.
    fn first_rows(
        &mut self,
        query: &Query,
        select: &Select,
        rows: Relation,
    ) -> Result<Relation, PlanError> {
        let from_index = self.uses(Rule::PushLimits)
            && self.uses(Rule::IndexOrder)
            && query.limit.is_some()
            && !query.order.is_empty()
            && select.aggregate.is_none();
        if from_index
            && let Some(scan) = self.ordered_scan(select, &query.order, &[], &BTreeSet::new())?
        {
            let unordered = Query { order: Vec::new(), ..query.clone() };
            return self.top(&unordered, scan);
        }
        self.top(query, rows)
    }

    /// The first rows in order, at each partition: as many as limit and offset ask for together.
    fn top(&mut self, query: &Query, rows: Relation) -> Result<Relation, PlanError> {
        if !self.uses(Rule::PushLimits) {
            return Ok(rows);
        }
        let Some(limit) = &query.limit else { return Ok(rows) };
        let limit = match (&limit.node, &query.offset) {
            (_, None) => limit.clone(),
            (Node::Literal(Value::Int(n)), Some(offset)) => match &offset.node {
                Node::Literal(Value::Int(m)) => match n.checked_add(*m) {
                    Some(sum) => integer(sum),
                    None => return Ok(rows),
                },
                _ => return Ok(rows),
            },
            _ => return Ok(rows),
        };
        let keys = self.keys(&query.order, Place::Here, &BTreeSet::new())?;
        Ok(sorted(rows, keys, Some(limit), None))
    }

    /// Sends the columns of `slots` that the parts after read.
    fn receive(
        &mut self,
        query: &Query,
        select: &Select,
        rows: Relation,
        slots: &[u16],
        with_groups: bool,
    ) -> Result<Relation, PlanError> {
        let subqueries = self.subqueries();
        let mut columns: BTreeMap<(u16, u16), SqlType> = BTreeMap::new();
        let mut add = |expression: &Expression| {
            if let Node::Column { slot, column } = expression.node
                && slots.contains(&slot)
            {
                columns.insert((slot, column), expression.sql_type);
            }
        };
        let mut parts: Vec<&Expression> = walk::own_expressions(query).collect();
        if let (Some(aggregate), true) = (&select.aggregate, with_groups) {
            parts.extend(&aggregate.group);
            parts.extend(aggregate.calls.iter().filter_map(|call| call.argument.as_ref()));
            parts.extend(&select.having);
        }
        for call in select.window.iter().flat_map(|window| &window.calls) {
            parts.extend(&call.arguments);
            parts.extend(&call.partition);
            parts.extend(call.order.iter().map(|key| &key.expression));
        }
        parts.extend(select.distinct.iter().flat_map(|distinct| &distinct.expressions));
        for part in parts {
            walk::walk(part, &subqueries, &mut add);
        }
        let columns = columns
            .into_iter()
            .map(|((slot, column), sql_type)| Expression::column(slot, column, sql_type));
        self.ship(rows, columns.collect(), self.cut_target.clone())
    }

    /// Partial aggregates at the partitions, merged by group at the coordinator, so that the
    /// group's row has the layout that the rest of the SELECT reads.
    fn partial(&mut self, aggregate: &Aggregate, rows: Relation) -> Result<Relation, PlanError> {
        let nothing = BTreeSet::new();
        let group = self.lower_all(aggregate.group.iter(), Place::Here, &nothing)?;
        let calls = self.calls(aggregate, Place::Here, &nothing)?;
        let groups = group.len();
        let mut types: Vec<SqlType> = group.iter().map(|e| e.sql_type).collect();
        let mut parts = Vec::new();
        let mut merges = Vec::new();
        let mut finals = Vec::new();
        for call in &calls {
            finals.push(split(call, &mut parts, &mut merges));
        }
        types.extend(parts.iter().map(|part| part.sql_type));
        let users: Vec<_> = parts.iter().map(|part| part.user.clone()).collect();
        let slot = self.binder.new_slot()?;
        let input = Box::new(rows);
        let relation = Relation::Aggregate { input, slot, group, calls: parts };
        let query = PlannedQuery { relation, output: columns_of(slot, &types) };
        let fragment = self.add_fragment(self.cut_target.clone(), query, &types)?;
        let received = self.binder.new_slot()?;
        let mut columns = columns_of(received, &types);
        let values = columns.split_off(groups);
        let users = users.into_iter();
        let merged =
            values.into_iter().zip(&merges).zip(users).map(|((column, function), user)| {
                let sql_type = match (function, &user) {
                    (AggregateFunction::ApproximateCountDistinctMerge, _) => SqlType::BigInt,
                    (_, Some(user)) => user.sql_type,
                    (function, _) if is_variance(*function) => SqlType::Float,
                    _ => column.sql_type,
                };
                let function = *function;
                AggregateCall { function, distinct: false, argument: Some(column), sql_type, user }
            });
        let merged: Vec<AggregateCall> = merged.collect();
        let mut row: Vec<SqlType> = types[..groups].to_vec();
        row.extend(merged.iter().map(|call| call.sql_type));
        let input = Box::new(Relation::Receive { slot: received, fragment, types });
        let slot = self.binder.new_slot()?;
        let merged = Relation::Aggregate { input, slot, group: columns, calls: merged };
        let mut expressions = columns_of(slot, &row);
        let values = expressions.split_off(groups);
        expressions.extend(calls.iter().zip(finals).map(|(call, parts)| {
            let value = |part: usize| values[part].clone();
            match parts {
                Final::Same(part) => Expression { sql_type: call.sql_type, ..value(part) },
                Final::Average { sum, count } => average(value(sum), value(count), call.sql_type),
            }
        }));
        let input = Box::new(merged);
        Ok(Relation::Project { input, slot: aggregate.slot, expressions })
    }
}

fn query_types(distinct: &crate::query::logical::Distinct) -> Vec<SqlType> {
    distinct.expressions.iter().map(|expression| expression.sql_type).collect()
}

fn reads_working_table(
    expression: &Expression,
    subqueries: &crate::query::logical::Subqueries,
) -> bool {
    let inner = walk::subquery_of(expression).and_then(|s| subqueries.get(&s.number));
    let mut found = inner.is_some_and(|query| super::reads_working(query, subqueries));
    walk::each_child(expression, &mut |child| {
        found = found || reads_working_table(child, subqueries);
    });
    found
}

/// True when all rows of a group are at one partition: the partitioning columns of a table that
/// no outer join fills with NULLs are among the group's values.
fn groups_are_local(select: &Select, aggregate: &Aggregate) -> bool {
    let mut anchor = Vec::new();
    select.from.each_leaf(&mut |leaf| {
        if anchor.is_empty() && partition::is_spread(leaf) {
            anchor = partition::partition_columns(leaf);
        }
    });
    let full = has_full_join(&select.from);
    let columns: Vec<(u16, u16)> = aggregate
        .group
        .iter()
        .filter_map(|group| match group.node {
            Node::Column { slot, column } => Some((slot, column)),
            _ => None,
        })
        .collect();
    let grouped = |place: &(u16, u16)| columns.contains(place);
    !anchor.is_empty() && !full && anchor.iter().all(grouped)
}

fn has_full_join(from: &crate::query::logical::From) -> bool {
    use crate::query::logical::From;
    match from {
        From::Leaf(_) => false,
        From::Inner { items, .. } => items.iter().any(has_full_join),
        From::Outer { full, left, right, .. } => {
            *full || has_full_join(left) || has_full_join(right)
        }
    }
}

/// How a call's value is made of merged parts.
enum Final {
    /// The part itself.
    Same(usize),
    /// A quotient.
    Average {
        /// The part with the sum.
        sum: usize,
        /// The part with the number of values.
        count: usize,
    },
}

/// The parts that partitions compute for a call, and how they merge.
fn split(
    call: &AggregateCall,
    parts: &mut Vec<AggregateCall>,
    merges: &mut Vec<AggregateFunction>,
) -> Final {
    use AggregateFunction as F;
    let mut add = |function, sql_type, merge| {
        let (argument, user) = (call.argument.clone(), call.user.clone());
        let part = AggregateCall { function, distinct: false, argument, sql_type, user };
        let mut pairs = parts.iter().zip(merges.iter());
        let known = pairs.position(|(known, how)| *known == part && *how == merge);
        known.unwrap_or_else(|| {
            parts.push(part);
            merges.push(merge);
            parts.len() - 1
        })
    };
    match call.function {
        F::CountStar | F::Count => Final::Same(add(call.function, SqlType::BigInt, F::Sum)),
        F::Average => {
            let argument = call.argument.as_ref().map(|argument| argument.sql_type);
            let summed = match call.sql_type.is_integer() {
                // Their sum may be greater than any of them, their average cannot.
                true if argument == Some(SqlType::BigInt) => SqlType::Decimal,
                true => SqlType::BigInt,
                false => call.sql_type,
            };
            let sum = add(F::Sum, summed, F::Sum);
            let count = add(F::Count, SqlType::BigInt, F::Sum);
            Final::Average { sum, count }
        }
        F::ApproximateCountDistinct => Final::Same(add(
            F::ApproximateCountDistinctSketch,
            SqlType::Varbinary,
            F::ApproximateCountDistinctMerge,
        )),
        F::User => Final::Same(add(F::UserParts, SqlType::Varbinary, F::UserMerge)),
        variance if is_variance(variance) => {
            Final::Same(add(F::Moments, SqlType::Varbinary, variance))
        }
        function => Final::Same(add(function, call.sql_type, function)),
    }
}

/// True for what is made of the parts that [`AggregateFunction::Moments`] gives.
fn is_variance(function: AggregateFunction) -> bool {
    use AggregateFunction as F;
    matches!(
        function,
        F::VariancePopulation | F::VarianceSample | F::DeviationPopulation | F::DeviationSample
    )
}

/// Sum divided by count; NULL for no values. Integers are truncated toward zero, as AVG does.
fn average(sum: Expression, count: Expression, sql_type: SqlType) -> Expression {
    let zero = Box::new(integer(0));
    let some = Node::Compare(Comparison::Greater, Box::new(count.clone()), zero);
    let some = Expression { node: some, sql_type: SqlType::Boolean };
    let divided = if sum.sql_type == SqlType::Decimal { SqlType::Decimal } else { sql_type };
    let node = Node::Arithmetic(Arithmetic::Divide, Box::new(sum), Box::new(count));
    let mut quotient = Expression { node, sql_type: divided };
    if divided != sql_type {
        let value = Box::new(quotient);
        let node = Node::Cast { value, length: 0, length_in_bytes: false };
        quotient = Expression { node, sql_type };
    }
    let node = Node::Case { branches: vec![(some, quotient)], otherwise: None };
    Expression { node, sql_type }
}

/// AVG of integers over several partitions is a BIGINT, as the merged sums and counts are.
pub(super) fn widen_averages(query: &mut Query) {
    let Body::Select(select) = &mut query.body else { return };
    if select.aggregate.as_ref().is_none_or(|aggregate| groups_are_local(select, aggregate)) {
        return;
    }
    let Some(aggregate) = &mut select.aggregate else { return };
    let groups = aggregate.group.len();
    for (position, call) in aggregate.calls.iter_mut().enumerate() {
        if call.function != AggregateFunction::Average || !call.sql_type.is_integer() {
            continue;
        }
        call.sql_type = SqlType::BigInt;
        let column = (groups + position) as u16;
        let node = Node::Column { slot: aggregate.slot, column };
        for output in &mut query.output {
            if output.expression.node == node {
                output.expression.sql_type = SqlType::BigInt;
            }
        }
    }
}
