//! GROUP BY, aggregates and DISTINCT over batches.

use super::evaluate::Programs;
use super::frames::Content;
use super::keys::KeyTable;
use super::vector::{Cell, Kind, NULL_INT, NULL_UNITS, Vector};
use super::{BatchSink, Flow, Run, Sink};
use crate::aggregate::{Accumulator, Sum, sum_result};
use crate::arena::Arena;
use crate::arithmetic::decimals;
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::AggregateFunction;
use lockstep_plan_ir::expression::{Arithmetic, Expression};
use lockstep_plan_ir::relation::{AggregateCall, Relation};
use lockstep_types::float::is_null_float;
use lockstep_types::geography::Point;
use lockstep_types::{Datum, Decimal};

/// One aggregate of all groups.
struct Call<'a> {
    plan: &'a AggregateCall,
    /// The place of the argument among those computed.
    argument: Option<usize>,
    totals: Totals<'a>,
    /// For DISTINCT: the values seen, after their group's number.
    seen: Option<KeyTable<'a>>,
}

/// What is kept per group.
enum Totals<'a> {
    /// Rows, or values that are not NULL.
    Count(Vec<i64>),
    /// The sum, and the number of values.
    Integers(Vec<(i128, i64)>),
    Floats(Vec<(f64, i64)>),
    Decimals(Vec<(i128, i64)>),
    Least(Vector<'a>),
    Greatest(Vector<'a>),
    Other(Vec<Accumulator<'a>>, Box<Accumulator<'a>>),
}

/// The group of each row.
#[derive(Clone, Copy)]
enum Groups<'g> {
    /// All in the only group.
    One(usize),
    Each(&'g [u32]),
}

impl<'a> Run<'_, 'a> {
    /// Aggregates an input that is worth batches.
    pub(in crate::query) fn batch_aggregate(
        &self,
        input: &'a Relation,
        slot: u16,
        group: &'a [Expression],
        calls: &'a [AggregateCall],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
        let mut programs = Programs::new(group.iter().chain(arguments));
        let mut place = group.len();
        let mut calls: Vec<Call<'a>> = calls
            .iter()
            .map(|call| {
                let argument = call.argument.is_some().then_some(place);
                place += usize::from(call.argument.is_some());
                Call::new(call, argument)
            })
            .collect();
        let keys = programs.columns()[..group.len()].to_vec();
        let mut groups = KeyTable::new(keys);
        let mut numbers = Vec::new();
        if group.is_empty() {
            calls.iter_mut().for_each(|call| call.totals.grow(1));
        }
        let bytes_per_group =
            groups.bytes_per_key() + calls.iter().map(Call::bytes_per_group).sum::<usize>();
        self.run_batches(input, &mut |frames| {
            let error = programs.compute(self, frames);
            let length = programs.length();
            let (keys, _) = programs.columns().split_at(group.len());
            let rows = if group.is_empty() {
                Groups::One(length)
            } else {
                let before = groups.len();
                groups.insert(keys, length, false, &mut numbers);
                self.charge((groups.len() - before) * bytes_per_group)?;
                calls.iter_mut().for_each(|call| call.totals.grow(groups.len()));
                Groups::Each(&numbers)
            };
            for call in &mut calls {
                call.add(self, programs.columns(), rows)?;
            }
            error.map_or(Ok(Flow::Continue), Err)
        })?;
        self.push_groups(slot, &groups, group.len(), &mut calls, sink)
    }

    fn push_groups(
        &self,
        slot: u16,
        groups: &KeyTable<'a>,
        key_width: usize,
        calls: &mut [Call<'a>],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let cells = self.buffer(slot, key_width + calls.len());
        let count = if key_width == 0 { 1 } else { groups.len() };
        for number in 0..count {
            self.tick()?;
            for (cell, column) in cells.iter().zip(groups.columns()) {
                cell.set(column.datum(number));
            }
            for (cell, call) in cells[key_width..].iter().zip(&mut *calls) {
                cell.set(call.finish(number, self.context.arena)?);
            }
            self.frame.bind(slot, Slot::Buffer(cells));
            if sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// The first frame of each set whose row in `slot` is equal.
    pub(super) fn batch_distinct(
        &self,
        input: &'a Relation,
        slot: u16,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        let mut seen: Option<KeyTable<'a>> = None;
        let (mut numbers, mut selection) = (Vec::new(), Vec::new());
        self.run_batches(input, &mut |frames| {
            let place = frames.place_of(slot);
            let content = place.and_then(|place| frames.slots().get(place));
            let Some((_, Content::Values(columns, _))) = content else {
                unreachable!("DISTINCT reads computed rows");
            };
            let empty = || columns.iter().map(|column| Vector::new(column.kind())).collect();
            let seen = seen.get_or_insert_with(|| KeyTable::new(empty()));
            let mut known = seen.len();
            seen.insert(columns, frames.len(), false, &mut numbers);
            self.charge((seen.len() - known) * seen.bytes_per_key())?;
            selection.clear();
            for (frame, number) in (0..).zip(&numbers) {
                if *number as usize == known {
                    known += 1;
                    selection.push(frame);
                }
            }
            frames.keep(&selection);
            if frames.len() > 0 { sink(frames) } else { Ok(Flow::Continue) }
        })
    }
}

impl<'a> Call<'a> {
    fn new(plan: &'a AggregateCall, argument: Option<usize>) -> Call<'a> {
        let sql_type = plan.argument.as_ref().map(|argument| argument.sql_type);
        let kind = sql_type.and_then(Kind::of).unwrap_or(Kind::Int);
        let seen =
            plan.distinct.then(|| KeyTable::new(vec![Vector::new(Kind::Int), Vector::new(kind)]));
        Call { plan, argument, totals: Totals::new(plan, kind), seen }
    }

    fn bytes_per_group(&self) -> usize {
        match &self.totals {
            Totals::Count(_) => 8,
            Totals::Integers(_) | Totals::Decimals(_) => 32,
            Totals::Floats(_) => 16,
            Totals::Least(best) | Totals::Greatest(best) => best.value_bytes(),
            Totals::Other(..) => size_of::<Accumulator<'_>>(),
        }
    }

    fn add(
        &mut self,
        run: &Run<'_, 'a>,
        columns: &[Vector<'a>],
        groups: Groups<'_>,
    ) -> Result<(), SqlError> {
        let Some(values) = self.argument.map(|place| &columns[place]) else {
            self.totals.add_rows(groups);
            return Ok(());
        };
        let Some(seen) = &mut self.seen else { return self.totals.add(values, groups) };
        let length = match groups {
            Groups::One(length) => length,
            Groups::Each(numbers) => numbers.len(),
        };
        let mut of_group = vec![0i64; length];
        if let Groups::Each(numbers) = groups {
            of_group = numbers.iter().map(|number| i64::from(*number)).collect();
        }
        let mut known = seen.len();
        let mut numbers = Vec::new();
        let mut row = values.clone();
        row.truncate(length);
        seen.insert(&[Vector::Int(of_group), row], length, true, &mut numbers);
        run.charge((seen.len() - known) * seen.bytes_per_key())?;
        let (mut fresh, mut fresh_groups) = (Vec::new(), Vec::new());
        for (place, number) in (0..).zip(&numbers) {
            if *number as usize == known {
                known += 1;
                fresh.push(place);
                fresh_groups.push(match groups {
                    Groups::One(_) => 0,
                    Groups::Each(numbers) => numbers[place as usize],
                });
            }
        }
        let mut some = Vector::new(values.kind());
        some.gather(values, &fresh);
        self.totals.add(&some, Groups::Each(&fresh_groups))
    }

    fn finish(&mut self, group: usize, arena: &'a Arena) -> Result<Datum<'a>, SqlError> {
        let of_sum = |sum: Sum, count: i64| match count {
            0 => Ok(Datum::Null),
            count => sum_result(self.plan.function, self.plan.sql_type, sum, count),
        };
        match &mut self.totals {
            Totals::Count(counts) => Ok(Datum::Int(counts[group])),
            Totals::Integers(sums) => of_sum(Sum::Integer(sums[group].0), sums[group].1),
            Totals::Floats(sums) => of_sum(Sum::Float(sums[group].0), sums[group].1),
            Totals::Decimals(sums) => {
                of_sum(Sum::Decimal(Decimal::from_raw(sums[group].0)), sums[group].1)
            }
            Totals::Least(best) | Totals::Greatest(best) => Ok(best.datum(group)),
            Totals::Other(accumulators, _) => accumulators[group].finish(arena),
        }
    }
}

impl<'a> Totals<'a> {
    fn new(plan: &AggregateCall, kind: Kind) -> Totals<'a> {
        use AggregateFunction::{Average, Count, CountStar, Max, Min, Sum};
        match (plan.function, kind) {
            (CountStar | Count, _) => Totals::Count(Vec::new()),
            (Sum | Average, Kind::Int) => Totals::Integers(Vec::new()),
            (Sum | Average, Kind::Float) => Totals::Floats(Vec::new()),
            (Sum | Average, Kind::Decimal) => Totals::Decimals(Vec::new()),
            (Min, kind) if kind != Kind::Bool => Totals::Least(Vector::new(kind)),
            (Max, kind) if kind != Kind::Bool => Totals::Greatest(Vector::new(kind)),
            _ => Totals::Other(Vec::new(), Box::new(Accumulator::of_call(plan))),
        }
    }

    /// Makes room for N groups.
    fn grow(&mut self, groups: usize) {
        match self {
            Totals::Count(counts) => counts.resize(groups, 0),
            Totals::Integers(sums) | Totals::Decimals(sums) => sums.resize(groups, (0, 0)),
            // Minus zero and a value is that value, whichever zero it is.
            Totals::Floats(sums) => sums.resize(groups, (-0.0, 0)),
            Totals::Least(best) | Totals::Greatest(best) => best.push_nulls(groups - best.len()),
            Totals::Other(accumulators, one) => accumulators.resize(groups, (**one).clone()),
        }
    }

    /// Counts rows.
    fn add_rows(&mut self, groups: Groups<'_>) {
        let Totals::Count(counts) = self else { return };
        match groups {
            Groups::One(length) => counts[0] += length as i64,
            Groups::Each(numbers) => {
                numbers.iter().for_each(|number| counts[*number as usize] += 1);
            }
        }
    }

    fn add(&mut self, values: &Vector<'a>, groups: Groups<'_>) -> Result<(), SqlError> {
        match (&mut *self, values) {
            (Totals::Count(counts), values) => {
                groups.each(|row, group| counts[group] += i64::from(!values.is_null(row)));
            }
            (Totals::Integers(sums), Vector::Int(values)) => {
                groups.each_value(values, |value, group| {
                    if value != NULL_INT {
                        let (sum, count) = &mut sums[group];
                        *sum += i128::from(value);
                        *count += 1;
                    }
                });
            }
            (Totals::Floats(sums), Vector::Float(values)) => {
                groups.each_value(values, |value, group| {
                    if !is_null_float(value) {
                        let (sum, count) = &mut sums[group];
                        *sum += value;
                        *count += 1;
                    }
                });
            }
            (Totals::Decimals(sums), Vector::Decimal(values)) => {
                return add_decimals(sums, values, groups);
            }
            (Totals::Least(best), values) => keep_best(best, values, groups, true),
            (Totals::Greatest(best), values) => keep_best(best, values, groups, false),
            (Totals::Other(accumulators, _), values) => {
                let mut result = Ok(());
                groups.each(|row, group| {
                    if result.is_ok() {
                        result = accumulators[group].add(values.datum(row));
                    }
                });
                return result;
            }
            _ => unreachable!("totals are made for the kind of their argument"),
        }
        Ok(())
    }
}

impl Groups<'_> {
    /// Calls with each row and its group.
    #[inline(always)]
    fn each(self, mut call: impl FnMut(usize, usize)) {
        match self {
            Groups::One(length) => (0..length).for_each(|row| call(row, 0)),
            Groups::Each(numbers) => {
                numbers.iter().enumerate().for_each(|(row, group)| call(row, *group as usize));
            }
        }
    }

    /// Calls with each value and its group.
    #[inline(always)]
    fn each_value<T: Copy>(self, values: &[T], mut call: impl FnMut(T, usize)) {
        match self {
            Groups::One(length) => values[..length].iter().for_each(|value| call(*value, 0)),
            Groups::Each(numbers) => {
                for (value, group) in values.iter().zip(numbers) {
                    call(*value, *group as usize);
                }
            }
        }
    }
}

fn add_decimals(
    sums: &mut [(i128, i64)],
    values: &[i128],
    groups: Groups<'_>,
) -> Result<(), SqlError> {
    let mut failed = None;
    groups.each_value(values, |units, group| {
        if units == NULL_UNITS || failed.is_some() {
            return;
        }
        let (sum, count) = &mut sums[group];
        let value = Decimal::from_raw(units);
        match decimals(Arithmetic::Add, Decimal::from_raw(*sum), value) {
            Ok(more) => *sum = more.units(),
            Err(error) => failed = Some(error),
        }
        *count += 1;
    });
    failed.map_or(Ok(()), Err)
}

/// Keeps the first of the least, or of the greatest, values.
fn keep_best<'a>(best: &mut Vector<'a>, values: &Vector<'a>, groups: Groups<'_>, is_least: bool) {
    macro_rules! keep {
        ($best:expr, $values:expr, $is_null:expr) => {
            groups.each_value($values, |value, group| {
                let so_far = $best[group];
                let better = if is_least { value.is_less(so_far) } else { so_far.is_less(value) };
                if !$is_null(value) && (better || $is_null(so_far)) {
                    $best[group] = value;
                }
            })
        };
    }
    match (best, values) {
        (Vector::Int(best), Vector::Int(values))
        | (Vector::Timestamp(best), Vector::Timestamp(values)) => {
            keep!(best, values, |value: i64| value == NULL_INT);
        }
        (Vector::Float(best), Vector::Float(values)) => {
            keep!(best, values, is_null_float);
        }
        (Vector::Decimal(best), Vector::Decimal(values)) => {
            keep!(best, values, |units: i128| units == NULL_UNITS);
        }
        (Vector::Text(best), Vector::Text(values)) => {
            keep!(best, values, |text: Option<&str>| text.is_none());
        }
        (Vector::Bytes(best), Vector::Bytes(values)) => {
            keep!(best, values, |bytes: Option<&[u8]>| bytes.is_none());
        }
        (Vector::Point(best), Vector::Point(values)) => {
            keep!(best, values, |point: Option<Point>| point.is_none());
        }
        _ => unreachable!("a best value is of the values' kind"),
    }
}
