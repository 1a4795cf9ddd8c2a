//! Keeps materialized views: a change of a source row changes one group per view.

use super::exact_sum::{ExactSum, LONGEST_BYTES};
use super::{TableState, Writer};
use crate::analysis::columns_read;
use crate::arithmetic;
use crate::context::{Context, NoSubqueries};
use crate::database::{no_such_table, storage_fault};
use crate::error::SqlError;
use crate::evaluate::{evaluate, is_true};
use crate::frame::{Frame, Slot};
use crate::query::{Executor, Run, scalar_query};
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::schema::{ViewAggregate, ViewDefinition};
use lockstep_plan_ir::{AggregateFunction, Expression, Node};
use lockstep_storage::{RowId, RowRef, Table, Tally, UndoLog};
use lockstep_types::{Datum, IndexId, SqlType, TableId, Value};
use std::cell::RefCell;
use std::sync::Arc;

/// A view as its source table keeps it.
pub(crate) struct ViewPlan {
    pub(super) definition: Arc<ViewDefinition>,
    /// Per column of the source, whether the view depends on it; `None`: on all.
    reads: Option<Vec<bool>>,
    /// The group's columns, if the view does no more than count the rows of such groups.
    counts: Option<Vec<u16>>,
    /// How storage does that, once it has been asked; void when the tables have changed.
    tally: RefCell<Option<Tally>>,
}

/// The most group columns of a view that is kept without an arena.
const PLAIN_GROUP_LIMIT: usize = 4;

impl ViewPlan {
    pub(crate) fn new(definition: Arc<ViewDefinition>) -> ViewPlan {
        if definition.joined.is_some() {
            return ViewPlan { definition, reads: None, counts: None, tally: RefCell::default() };
        }
        let counts = counted_columns(&definition);
        let mut columns = Vec::new();
        let arguments = definition.aggregates.iter().filter_map(|call| call.argument.as_ref());
        for expression in definition.predicate.iter().chain(&definition.group).chain(arguments) {
            columns_read(expression, 0, &mut columns);
        }
        let width = columns.iter().max().map_or(0, |column| usize::from(*column) + 1);
        let mut reads = vec![false; width];
        columns.iter().for_each(|column| reads[usize::from(*column)] = true);
        ViewPlan { definition, reads: Some(reads), counts, tally: RefCell::default() }
    }

    /// Whether a change of this column of the source changes the view.
    pub(crate) fn reads(&self, column: usize) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.get(column).copied().unwrap_or(false))
    }

    /// Whether it is a view over several tables.
    pub(crate) fn is_joined(&self) -> bool {
        self.definition.joined.is_some()
    }
}

/// The group's columns of a view that is `SELECT columns, COUNT(*) ... GROUP BY columns`.
fn counted_columns(view: &ViewDefinition) -> Option<Vec<u16>> {
    let only_counts = matches!(
        view.aggregates.as_slice(),
        [ViewAggregate { function: AggregateFunction::CountStar, .. }]
    );
    let few = (1..=PLAIN_GROUP_LIMIT).contains(&view.group.len());
    if !only_counts || !few || view.predicate.is_some() || view.group_index.is_none() {
        return None;
    }
    let column = |expression: &Expression| match expression.node {
        Node::Column { slot: 0, column } => Some(column),
        _ => None,
    };
    view.group.iter().map(column).collect()
}

/// Extremes that must be found again once a source row has gone.
#[derive(Default)]
pub(crate) struct Upkeep {
    pending: Vec<Pending>,
}

/// One group whose MIN or MAX went with a row.
struct Pending {
    view: Arc<ViewDefinition>,
    /// Which aggregate.
    aggregate: usize,
    /// The group's values.
    group: Vec<Value>,
    /// What slot 0 of the recomputation reads: the row that went.
    row: Vec<Value>,
}

/// Whether a row comes to a group or goes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Add,
    Remove,
}

/// What one source row is to a view: its group and the arguments of the aggregates.
#[derive(Clone, Copy)]
pub(super) struct Contribution<'a> {
    pub(super) group: &'a [Datum<'a>],
    pub(super) arguments: &'a [Datum<'a>],
}

impl<'w> Writer<'w> {
    /// Adds a row of the source to a view.
    pub(super) fn add_to_view(
        &mut self,
        view: &'w ViewPlan,
        source: TableId,
        row: RowId,
    ) -> Result<(), SqlError> {
        if view.is_joined() {
            return self.change_joined(&view.definition, source, row, Direction::Add, None);
        }
        if let Some(columns) = &view.counts {
            return self.count_row(view, columns, source, row, 1);
        }
        self.change_group(&view.definition, source, row, Direction::Add, None)
    }

    /// Takes a row of the source, which is still there, from a view.
    pub(super) fn take_from_view(
        &mut self,
        view: &'w ViewPlan,
        source: TableId,
        row: RowId,
        upkeep: &mut Upkeep,
    ) -> Result<(), SqlError> {
        if let Some(columns) = &view.counts {
            return self.count_row(view, columns, source, row, -1);
        }
        let upkeep = Some(upkeep);
        if view.is_joined() {
            return self.change_joined(&view.definition, source, row, Direction::Remove, upkeep);
        }
        self.change_group(&view.definition, source, row, Direction::Remove, upkeep)
    }

    /// Counts a row in or out of a view that only counts.
    #[inline]
    fn count_row(
        &mut self,
        view: &ViewPlan,
        columns: &[u16],
        source: TableId,
        row: RowId,
        step: i64,
    ) -> Result<(), SqlError> {
        let Some((source, target)) = self.tables.pair(source, view.definition.view) else {
            return Err(no_such_table(view.definition.view));
        };
        if step > 0
            && let Some(tally) = &*view.tally.borrow()
            && target.count_in(tally, (source, row), self.undo).map_err(storage_fault)?
        {
            return Ok(());
        }
        if step > 0 {
            view.tally.replace(Tally::new(source, target, columns));
        }
        let Some(index) = view.definition.group_index else { return Ok(()) };
        count_slowly((source, row), (target, index), columns, step, self.undo)
    }

    fn change_group(
        &mut self,
        view: &'w Arc<ViewDefinition>,
        source: TableId,
        row: RowId,
        direction: Direction,
        upkeep: Option<&mut Upkeep>,
    ) -> Result<(), SqlError> {
        let Some((source, target)) = self.tables.pair(source, view.view) else {
            return Err(no_such_table(view.view));
        };
        let Some(row) = source.row(row) else { return Ok(()) };
        let Some(contribution) = contribution(view, row, self.arena)? else { return Ok(()) };
        let went = apply(view, target, self.undo, self.arena, contribution, direction)?;
        if let (Some(upkeep), false) = (upkeep, went.is_empty()) {
            let row: Vec<Value> = row.columns().map(Datum::to_value).collect();
            upkeep.add(view, went, contribution.group, &row);
        }
        Ok(())
    }

    /// Finds the pending extremes again.
    pub(super) fn recompute(
        &mut self,
        _state: &TableState,
        upkeep: Upkeep,
    ) -> Result<(), SqlError> {
        for pending in &upkeep.pending {
            let aggregate = &pending.view.aggregates[pending.aggregate];
            let Some(value) = self.extreme(aggregate, pending)? else { continue };
            let Some(target) = self.tables.get_mut(pending.view.view) else {
                return Err(no_such_table(pending.view.view));
            };
            let group: Vec<Datum<'_>> = pending.group.iter().map(Value::as_datum).collect();
            let Some((row, _)) = find_group(&pending.view, target, &group)? else { continue };
            let column = pending.view.group.len() + pending.aggregate;
            target.update(row, &[(column, value.as_datum())], self.undo).map_err(storage_fault)?;
        }
        Ok(())
    }

    /// The value of a recomputation; `None` when the plan has none.
    fn extreme(
        &self,
        aggregate: &ViewAggregate,
        pending: &Pending,
    ) -> Result<Option<Value>, SqlError> {
        let Some(query) = &aggregate.recompute else { return Ok(None) };
        let slots = usize::from(aggregate.recompute_slots).max(1);
        let settings = self.options.settings(self.watch);
        let executor = Executor::new(self.tables, self.arena, &[], slots, settings);
        let frame = Frame::new(self.arena, slots);
        let row: Vec<Datum<'_>> = pending.row.iter().map(Value::as_datum).collect();
        frame.bind(0, Slot::Values(&row));
        let context = Context {
            parameters: &[],
            arena: self.arena,
            now_us: self.transaction.timestamp_us,
            subqueries: &executor,
        };
        let run = Run { executor: &executor, context: &context, frame };
        let value = scalar_query(&run, query)?;
        Ok(Some(value.to_value()))
    }

    /// Makes a view what it is over no rows.
    pub(super) fn empty_view(&mut self, view: &ViewPlan) -> Result<(), SqlError> {
        let definition = &view.definition;
        let Some(target) = self.tables.get_mut(definition.view) else {
            return Err(no_such_table(definition.view));
        };
        target.truncate(self.undo).map_err(storage_fault)?;
        insert_empty_group(definition, target, self.undo)
    }
}

impl Upkeep {
    pub(super) fn add(
        &mut self,
        view: &Arc<ViewDefinition>,
        aggregates: &[usize],
        group: &[Datum<'_>],
        row: &[Value],
    ) {
        for &aggregate in aggregates {
            self.pending.push(Pending {
                view: view.clone(),
                aggregate,
                group: group.iter().map(|value| value.to_value()).collect(),
                row: row.to_vec(),
            });
        }
    }
}

/// Counts a row in or out of its group with the table's general operations.
#[inline(never)]
fn count_slowly(
    (source, row): (&Table, RowId),
    (target, index): (&mut Table, IndexId),
    columns: &[u16],
    step: i64,
    undo: &mut UndoLog,
) -> Result<(), SqlError> {
    let Some(row) = source.row(row) else { return Ok(()) };
    // The group's values, then the count of a new group.
    let mut values = [Datum::Int(1); PLAIN_GROUP_LIMIT + 1];
    for (value, column) in values.iter_mut().zip(columns) {
        *value = row.column(usize::from(*column));
    }
    let width = columns.len();
    let found = target.get(index, &values[..width]).map_err(storage_fault)?;
    let changed = match found.map(|(id, row)| (id, row.column(width))) {
        None if step < 0 => Ok(()),
        None => target.insert(&values[..=width], undo).map(drop),
        Some((id, Datum::Int(1))) if step < 0 => target.delete(id, undo),
        Some((id, Datum::Int(count))) => {
            target.update(id, &[(width, Datum::Int(count + step))], undo)
        }
        Some(_) => Ok(()),
    };
    changed.map_err(storage_fault)
}

/// Computes a new, empty view over the rows that its sources have. Several sources: the joined
/// rows of all rows of the first are all joined rows.
pub(crate) fn fill_view<'w>(writer: &mut Writer<'w>, view: &'w ViewPlan) -> Result<(), SqlError> {
    let definition = &view.definition;
    let source = match &definition.joined {
        Some(joined) => joined.sources.first().copied().unwrap_or(definition.source),
        None => definition.source,
    };
    let Some(target) = writer.tables.get_mut(definition.view) else {
        return Err(no_such_table(definition.view));
    };
    insert_empty_group(definition, target, writer.undo)?;
    let mut rows = Vec::new();
    if let Some(source) = writer.tables.get(source) {
        source.collect_rows(&mut rows);
    }
    rows.into_iter().try_for_each(|row| writer.add_to_view(view, source, row))
}

/// A view without groups has one row from the beginning.
fn insert_empty_group(
    view: &ViewDefinition,
    target: &mut Table,
    undo: &mut UndoLog,
) -> Result<(), SqlError> {
    if view.group_index.is_some() || !view.group.is_empty() {
        return Ok(());
    }
    let values: Vec<Datum<'_>> = view.aggregates.iter().map(empty_value).collect();
    target.insert(&values, undo).map_err(storage_fault)?;
    Ok(())
}

fn empty_value(aggregate: &ViewAggregate) -> Datum<'static> {
    match aggregate.function {
        AggregateFunction::CountStar | AggregateFunction::Count => Datum::Int(0),
        _ => Datum::Null,
    }
}

/// What a row is to a view; `None` when the view's condition leaves it out.
fn contribution<'a>(
    view: &'a ViewDefinition,
    row: RowRef<'a>,
    arena: &'a crate::arena::Arena,
) -> Result<Option<Contribution<'a>>, SqlError> {
    let context = Context { parameters: &[], arena, now_us: 0, subqueries: &NoSubqueries };
    let frame = Frame::new(arena, 1);
    frame.bind(0, Slot::Row(row, RowId(0)));
    if let Some(predicate) = &view.predicate
        && !is_true(predicate, &context, &frame)?
    {
        return Ok(None);
    }
    let value = |expression: &'a Expression| match expression.node {
        Node::Column { slot: 0, column } => Ok(row.column(usize::from(column))),
        _ => evaluate(expression, &context, &frame),
    };
    let group = arena.fill(view.group.len(), Datum::Null);
    for (place, expression) in group.iter_mut().zip(&view.group) {
        *place = value(expression)?;
    }
    let arguments = arena.fill(view.aggregates.len(), Datum::Null);
    for (place, aggregate) in arguments.iter_mut().zip(&view.aggregates) {
        if let Some(argument) = &aggregate.argument {
            *place = value(argument)?;
        }
    }
    Ok(Some(Contribution { group, arguments }))
}

fn find_group<'t>(
    view: &ViewDefinition,
    target: &'t Table,
    group: &[Datum<'_>],
) -> Result<Option<(RowId, RowRef<'t>)>, SqlError> {
    match view.group_index {
        Some(index) => target.get(index, group).map_err(storage_fault),
        None => Ok(target.scan().next()),
    }
}

/// Applies a row to its group. Gives the aggregates whose extreme went with it.
pub(super) fn apply<'a>(
    view: &'a ViewDefinition,
    target: &mut Table,
    undo: &mut UndoLog,
    arena: &'a crate::arena::Arena,
    contribution: Contribution<'a>,
    direction: Direction,
) -> Result<&'a [usize], SqlError> {
    let Contribution { group, arguments } = contribution;
    let Some((row_id, row)) = find_group(view, target, group)? else {
        if direction == Direction::Add {
            insert_group(view, target, undo, arena, contribution)?;
        }
        return Ok(&[]);
    };
    let first = view.group.len();
    let count_column = first + usize::from(view.count);
    let is_last = direction == Direction::Remove && row.column(count_column) == Datum::Int(1);
    if is_last && first > 0 {
        target.delete(row_id, undo).map_err(storage_fault)?;
        return Ok(&[]);
    }
    let changes = arena.fill(view.aggregates.len(), (0usize, Datum::Null));
    let mut change_count = 0;
    let went = arena.fill(if direction == Direction::Remove { arguments.len() } else { 0 }, 0usize);
    let mut went_count = 0;
    for (number, (aggregate, argument)) in view.aggregates.iter().zip(arguments).enumerate() {
        let old = row.column(first + number);
        let new = if is_last {
            Some(empty_value(aggregate))
        } else if direction == Direction::Remove
            && is_last_summand(aggregate, row, first, *argument)
        {
            Some(Datum::Null)
        } else {
            let old = match aggregate.kept_by {
                Some(kept) => row.column(first + usize::from(kept)),
                None => old,
            };
            match changed(aggregate, old, *argument, direction, arena)? {
                Change::Same => None,
                Change::Value(value) => Some(value),
                Change::Gone => {
                    went[went_count] = number;
                    went_count += 1;
                    None
                }
            }
        };
        if let Some(new) = new {
            changes[change_count] = (first + number, new);
            change_count += 1;
        }
    }
    target.update(row_id, &changes[..change_count], undo).map_err(storage_fault)?;
    Ok(&went[..went_count])
}

/// Whether a row that goes takes the last value of a sum with it.
fn is_last_summand(
    aggregate: &ViewAggregate,
    row: RowRef<'_>,
    first: usize,
    argument: Datum<'_>,
) -> bool {
    !argument.is_null()
        && aggregate
            .counted_by
            .is_some_and(|count| row.column(first + usize::from(count)) == Datum::Int(1))
}

fn insert_group(
    view: &ViewDefinition,
    target: &mut Table,
    undo: &mut UndoLog,
    arena: &crate::arena::Arena,
    contribution: Contribution<'_>,
) -> Result<(), SqlError> {
    let Contribution { group, arguments } = contribution;
    let values = arena.fill(group.len() + arguments.len(), Datum::Null);
    values[..group.len()].copy_from_slice(group);
    for (number, (aggregate, argument)) in view.aggregates.iter().zip(arguments).enumerate() {
        values[group.len() + number] = match aggregate.function {
            AggregateFunction::CountStar => Datum::Int(1),
            AggregateFunction::Count => Datum::Int(i64::from(!argument.is_null())),
            AggregateFunction::Sum if is_exact(aggregate) && !argument.is_null() => {
                exact_sum(aggregate, Datum::Null, *argument, Direction::Add, arena)?
            }
            _ => *argument,
        };
    }
    target.insert(values, undo).map_err(storage_fault)?;
    Ok(())
}

/// What a row does to one aggregate.
enum Change<'a> {
    Same,
    Value(Datum<'a>),
    /// The extreme itself went.
    Gone,
}

fn changed<'a>(
    aggregate: &ViewAggregate,
    old: Datum<'_>,
    argument: Datum<'a>,
    direction: Direction,
    arena: &'a crate::arena::Arena,
) -> Result<Change<'a>, SqlError> {
    let counts = aggregate.function == AggregateFunction::CountStar;
    if argument.is_null() && !counts {
        return Ok(Change::Same);
    }
    let step = if direction == Direction::Add { 1 } else { -1 };
    Ok(match (aggregate.function, old) {
        (AggregateFunction::CountStar | AggregateFunction::Count, Datum::Int(count)) => {
            Change::Value(Datum::Int(count + step))
        }
        (AggregateFunction::Sum, old) if is_exact(aggregate) || aggregate.kept_by.is_some() => {
            Change::Value(exact_sum(aggregate, old, argument, direction, arena)?)
        }
        (AggregateFunction::Sum, Datum::Null) => Change::Value(argument),
        (AggregateFunction::Sum, old) => {
            let operator =
                if direction == Direction::Add { Arithmetic::Add } else { Arithmetic::Subtract };
            Change::Value(sum(operator, old, argument, aggregate)?)
        }
        (AggregateFunction::Min | AggregateFunction::Max, old) => {
            let order = argument.sort_order(old);
            let better = old.is_null()
                || if aggregate.function == AggregateFunction::Min {
                    order.is_lt()
                } else {
                    order.is_gt()
                };
            match direction {
                Direction::Add if better => Change::Value(argument),
                Direction::Remove if order.is_eq() => Change::Gone,
                _ => Change::Same,
            }
        }
        _ => Change::Same,
    })
}

/// Whether an aggregate is the exact form of a SUM of FLOAT.
fn is_exact(aggregate: &ViewAggregate) -> bool {
    aggregate.function == AggregateFunction::Sum && aggregate.sql_type == SqlType::Varbinary
}

/// A SUM of FLOAT after a change, exactly or as the nearest FLOAT; `kept` is the exact one before.
fn exact_sum<'a>(
    aggregate: &ViewAggregate,
    kept: Datum<'_>,
    argument: Datum<'_>,
    direction: Direction,
    arena: &'a crate::arena::Arena,
) -> Result<Datum<'a>, SqlError> {
    let of = || "SUM".to_string();
    let Datum::Float(value) = argument else { return Ok(Datum::Null) };
    // What is not finite is refused as a sum that is not would be.
    arithmetic::float_result_of(&[value], value, of)?;
    let mut sum = ExactSum::read(if let Datum::Bytes(bytes) = kept { bytes } else { &[] });
    sum.change(value, direction == Direction::Add);
    if aggregate.kept_by.is_some() {
        return arithmetic::float_result(sum.value(), of);
    }
    let mut buffer = [0; LONGEST_BYTES];
    Ok(Datum::Bytes(arena.copy(sum.write(&mut buffer))))
}

/// Sums are numbers: the result borrows nothing.
fn sum<'a>(
    operator: Arithmetic,
    old: Datum<'_>,
    argument: Datum<'_>,
    aggregate: &ViewAggregate,
) -> Result<Datum<'a>, SqlError> {
    Ok(match arithmetic::compute(operator, old, argument, aggregate.sql_type)? {
        Datum::Int(value) => Datum::Int(value),
        Datum::Float(value) => Datum::Float(value),
        Datum::Decimal(value) => Datum::Decimal(value),
        _ => Datum::Null,
    })
}
