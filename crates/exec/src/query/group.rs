//! GROUP BY and aggregates: a hash table of groups, in the order in which they came; one group
//! without a table.

use super::{Flow, RowTable, Run, Sink};
use crate::aggregate::Accumulator;
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::expression::{Expression, Node};
use lockstep_plan_ir::relation::{AggregateCall, Relation};
use lockstep_types::Datum;

/// A call, prepared for one run.
struct Call<'a> {
    plan: &'a AggregateCall,
    /// The argument when it is a plain column.
    column: Option<(u16, u16)>,
    /// Values that were seen, each after its group's number, for DISTINCT.
    seen: Option<RowTable<'a>>,
}

impl<'a> Call<'a> {
    fn new(plan: &'a AggregateCall) -> Call<'a> {
        let column = match plan.argument.as_ref().map(|argument| &argument.node) {
            Some(Node::Column { slot, column }) => Some((*slot, *column)),
            _ => None,
        };
        Call { plan, column, seen: plan.distinct.then(|| RowTable::new(2)) }
    }

    fn accumulator(&self) -> Accumulator<'a> {
        Accumulator::of_call(self.plan)
    }

    #[inline]
    fn add(
        &mut self,
        run: &Run<'_, 'a>,
        group: usize,
        accumulator: &mut Accumulator<'a>,
    ) -> Result<(), SqlError> {
        let value = match (self.column, &self.plan.argument) {
            (Some((slot, column)), _) => run.frame.column(slot, column),
            (None, Some(argument)) => run.value(argument)?,
            (None, None) => Datum::Bool(true),
        };
        if let Some(seen) = &mut self.seen {
            if value.is_null() || !seen.insert(&[Datum::Int(group as i64), value]).1 {
                return Ok(());
            }
            run.charge(seen.bytes_per_row())?;
        }
        accumulator.add(value)
    }
}

impl<'a> Run<'_, 'a> {
    pub(super) fn aggregate(
        &self,
        input: &'a Relation,
        slot: u16,
        group: &'a [Expression],
        calls: &'a [AggregateCall],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        if let Some(flow) = self.counted_group(input, slot, group, calls, sink)? {
            return Ok(flow);
        }
        let mut calls: Vec<Call<'a>> = calls.iter().map(Call::new).collect();
        if group.is_empty() {
            return self.one_group(input, slot, &mut calls, sink);
        }
        let mut groups = RowTable::new(group.len());
        let mut accumulators: Vec<Accumulator<'a>> = Vec::new();
        let mut key = Vec::with_capacity(group.len());
        self.run(input, &mut || {
            key.clear();
            for expression in group {
                key.push(match expression.node {
                    Node::Column { slot, column } => self.frame.column(slot, column),
                    _ => self.value(expression)?,
                });
            }
            let (number, is_new) = groups.insert(&key);
            if is_new {
                accumulators.extend(calls.iter().map(|call| call.accumulator()));
                let bytes = calls.len() * size_of::<Accumulator<'_>>();
                self.charge(groups.bytes_per_row() + bytes)?;
            }
            let first = number * calls.len();
            for (call, accumulator) in calls.iter_mut().zip(&mut accumulators[first..]) {
                call.add(self, number, accumulator)?;
            }
            Ok(Flow::Continue)
        })?;
        for number in 0..groups.len() {
            self.tick()?;
            let first = number * calls.len();
            let accumulators = &mut accumulators[first..first + calls.len()];
            if self.push_group(slot, groups.row(number), accumulators, sink)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// The only group, when its rows need not be visited to be counted.
    pub(super) fn counted_group(
        &self,
        input: &'a Relation,
        slot: u16,
        group: &[Expression],
        calls: &'a [AggregateCall],
        sink: Sink<'_>,
    ) -> Result<Option<Flow>, SqlError> {
        if let Some(scan) = Relation::counted_scan(input, group, calls)
            && let Some(count) = self.count_scan(scan)?
        {
            let cells = self.buffer(slot, calls.len());
            cells.iter().for_each(|cell| cell.set(Datum::Int(count as i64)));
            self.frame.bind(slot, Slot::Buffer(cells));
            return sink().map(Some);
        }
        Ok(None)
    }

    fn one_group(
        &self,
        input: &'a Relation,
        slot: u16,
        calls: &mut [Call<'a>],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let mut accumulators: Vec<Accumulator<'a>> = calls.iter().map(Call::accumulator).collect();
        self.run(input, &mut || {
            for (call, accumulator) in calls.iter_mut().zip(&mut accumulators) {
                call.add(self, 0, accumulator)?;
            }
            Ok(Flow::Continue)
        })?;
        self.push_group(slot, &[], &mut accumulators, sink)
    }

    fn push_group(
        &self,
        slot: u16,
        group: &[Datum<'a>],
        accumulators: &mut [Accumulator<'a>],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let cells = self.buffer(slot, group.len() + accumulators.len());
        let (keys, values) = cells.split_at(group.len());
        keys.iter().zip(group).for_each(|(cell, value)| cell.set(*value));
        for (cell, accumulator) in values.iter().zip(accumulators) {
            cell.set(accumulator.finish(self.context.arena)?);
        }
        self.frame.bind(slot, Slot::Buffer(cells));
        sink()
    }
}
