//! Accumulators: what aggregates keep of a group's values.
//!
//! FLOAT sums here depend on the order of the rows, which is the same on all replicas for a query.
//! The upkeep of views, where rows also leave, needs an exact accumulator instead: a difference of
//! rounded sums is not the sum of what is left.

mod moments;
mod sketch;
mod user;

use crate::arena::Arena;
use crate::arithmetic::{decimals, float_result_of};
use crate::error::{SqlError, state};
use lockstep_plan_ir::AggregateFunction;
use lockstep_plan_ir::expression::Arithmetic;
use lockstep_plan_ir::relation::AggregateCall;
use lockstep_types::float::float_datum;
use lockstep_types::{Datum, Decimal, SqlType};
use moments::Moments;
use sketch::Sketch;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use user::UserGroup;

/// One aggregate of one group. Values that it keeps are not copied: they live as long as the
/// statement.
#[derive(Debug, Clone)]
pub struct Accumulator<'a> {
    function: AggregateFunction,
    sql_type: SqlType,
    argument_type: SqlType,
    state: State<'a>,
    /// For DISTINCT: the values seen.
    seen: Option<BTreeSet<Ordered<'a>>>,
}

/// What has been seen so far.
#[derive(Debug, Clone)]
enum State<'a> {
    Count(i64),
    /// The sum and number of values; `None` before the first.
    Sum(Option<Sum>, i64),
    Extreme(Datum<'a>),
    Sketch(Box<Sketch>),
    Moments(Moments),
    User(UserGroup),
}

/// A sum by the kind of its values. Integers are summed wide and tested at the end, so that the
/// order of rows never decides whether a sum overflows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sum {
    Integer(i128),
    Decimal(Decimal),
    Float(f64),
}

/// A value with the order of ORDER BY.
#[derive(Debug, Clone, Copy)]
struct Ordered<'a>(Datum<'a>);

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered<'_> {}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.sort_order(other.0)
    }
}

impl<'a> Accumulator<'a> {
    /// Before the first value. `sql_type` is the type of the result.
    pub fn new(function: AggregateFunction, distinct: bool, sql_type: SqlType) -> Accumulator<'a> {
        use AggregateFunction::*;
        let state = match function {
            CountStar | Count => State::Count(0),
            Sum | Average => State::Sum(None, 0),
            Min | Max => State::Extreme(Datum::Null),
            VariancePopulation | VarianceSample | DeviationPopulation | DeviationSample
            | Moments => State::Moments(moments::Moments::default()),
            ApproximateCountDistinct
            | ApproximateCountDistinctSketch
            | ApproximateCountDistinctMerge => State::Sketch(Box::default()),
            User | UserParts | UserMerge => State::User(UserGroup::default()),
        };
        // An extreme or a count of distinct values is the same over each value once.
        let matters = !matches!(
            function,
            Min | Max | ApproximateCountDistinct | ApproximateCountDistinctSketch
        );
        let seen = (distinct && matters).then(BTreeSet::new);
        Accumulator { function, sql_type, argument_type: SqlType::BigInt, state, seen }
    }

    /// Before the first value of a call, which says itself what is DISTINCT.
    pub fn of_call(call: &AggregateCall) -> Accumulator<'a> {
        let mut accumulator = Accumulator::new(call.function, false, call.sql_type);
        if let Some(argument) = &call.argument {
            accumulator = accumulator.over(argument.sql_type);
        }
        if let (State::User(group), Some(user)) = (&mut accumulator.state, &call.user) {
            *group = UserGroup::new(user);
        }
        accumulator
    }

    /// Names the static type of the argument, which APPROX_COUNT_DISTINCT hashes by; BIGINT
    /// otherwise.
    pub fn over(mut self, argument_type: SqlType) -> Accumulator<'a> {
        self.argument_type = argument_type;
        self
    }

    /// One more value; for COUNT(*) any. NULL counts for COUNT(*) and functions of users only.
    ///
    /// # Errors
    /// A DECIMAL sum of more than 38 digits; a value that is not of a kind the function takes;
    /// what a function of users throws.
    pub fn add(&mut self, value: Datum<'a>) -> Result<(), SqlError> {
        if value.is_null() && !matches!(self.state, State::User(_)) {
            match self.function {
                AggregateFunction::CountStar => {}
                _ => return Ok(()),
            }
        }
        if let Some(seen) = &mut self.seen
            && !seen.insert(Ordered(value))
        {
            return Ok(());
        }
        match &mut self.state {
            State::Count(count) => *count += 1,
            State::Sum(sum, count) => {
                *sum = Some(sum_with(*sum, value)?);
                *count += 1;
            }
            State::Extreme(extreme) => {
                let order = value.sort_order(*extreme);
                let better = match self.function {
                    AggregateFunction::Min => order == Ordering::Less,
                    _ => order == Ordering::Greater,
                };
                if extreme.is_null() || better {
                    *extreme = value;
                }
            }
            State::Moments(moments) => moments.add(value)?,
            State::User(group) => group.add(self.function, value)?,
            State::Sketch(sketch) => match (self.function, value) {
                (AggregateFunction::ApproximateCountDistinctMerge, Datum::Bytes(bytes)) => {
                    sketch.merge(bytes).ok_or_else(|| {
                        SqlError::argument("the bytes are no sketch of APPROX_COUNT_DISTINCT")
                    })?;
                }
                _ => sketch.add(value, self.argument_type),
            },
        }
        Ok(())
    }

    /// The aggregate of the values so far.
    ///
    /// # Errors
    /// A sum or average that its type cannot hold.
    pub fn finish(&mut self, arena: &'a Arena) -> Result<Datum<'a>, SqlError> {
        match &mut self.state {
            State::Count(count) => Ok(Datum::Int(*count)),
            State::Extreme(extreme) => Ok(*extreme),
            State::Sum(None, _) => Ok(Datum::Null),
            State::Sum(Some(sum), count) => sum_result(self.function, self.sql_type, *sum, *count),
            State::Moments(moments) => moments.finish(self.function, arena),
            State::User(group) => group.finish(self.function, arena),
            State::Sketch(sketch) => match self.function {
                AggregateFunction::ApproximateCountDistinctSketch => {
                    Ok(Datum::Bytes(arena.copy(&sketch.to_bytes())))
                }
                _ => Ok(Datum::Int(sketch.count())),
            },
        }
    }

    /// Bytes held besides the accumulator itself, about: for the limit on a statement's memory.
    pub fn held_bytes(&self) -> usize {
        /// A value in a B-tree with its share of the nodes.
        const ENTRY_BYTES: usize = size_of::<Datum<'_>>() * 3 / 2;
        let sketch = match &self.state {
            State::Sketch(sketch) => sketch.held_bytes(),
            _ => 0,
        };
        self.seen.as_ref().map_or(0, BTreeSet::len) * ENTRY_BYTES + sketch
    }
}

/// SUM or AVG over values with this sum and, at least one, count.
pub(crate) fn sum_result<'a>(
    function: AggregateFunction,
    sql_type: SqlType,
    sum: Sum,
    count: i64,
) -> Result<Datum<'a>, SqlError> {
    let value = match function {
        AggregateFunction::Average => average(sum, count)?,
        _ => sum,
    };
    match (value, sql_type) {
        (Sum::Integer(v), SqlType::Float) => Ok(Datum::Float(v as f64)),
        // The part of an average that a partition computes.
        (Sum::Integer(v), SqlType::Decimal) => {
            let units = v.checked_mul(lockstep_types::decimal::ONE).and_then(Decimal::from_units);
            units.map(Datum::Decimal).ok_or_else(|| {
                SqlError::out_of_range(format!("{} of {v} is no DECIMAL", function.name()))
            })
        }
        (Sum::Integer(v), _) => {
            let (low, high) = sql_type.integer_range().unwrap_or((-i64::MAX, i64::MAX));
            match i64::try_from(v) {
                Ok(i64::MIN) => Ok(Datum::Null),
                Ok(v) if (low..=high).contains(&v) => Ok(Datum::Int(v)),
                Ok(v) => Err(SqlError::cast_out_of_range(SqlType::BigInt, v, sql_type)),
                Err(_) => Err(SqlError::out_of_range(format!(
                    "{} of {v} will overflow BigInt storage",
                    function.name()
                ))),
            }
        }
        (Sum::Decimal(v), SqlType::Float) => Ok(Datum::Float(v.to_f64())),
        (Sum::Decimal(v), _) => Ok(Datum::Decimal(v)),
        // Nothing was added: the value as it is, also where it is not finite.
        (Sum::Float(v), _) if count == 1 && function != AggregateFunction::Average => {
            Ok(float_datum(v))
        }
        // Only NaN makes NaN here: infinity has no negative among the values.
        (Sum::Float(v), _) => float_result_of(&[v], v, || format!("function {}", function.name())),
    }
}

fn sum_with(sum: Option<Sum>, value: Datum<'_>) -> Result<Sum, SqlError> {
    Ok(match (sum, value) {
        (None, Datum::Int(v)) => Sum::Integer(v.into()),
        (None, Datum::Decimal(v)) => Sum::Decimal(v),
        (None, Datum::Float(v)) => Sum::Float(v),
        // 2^63 values of 2^63 fit.
        (Some(Sum::Integer(sum)), Datum::Int(v)) => Sum::Integer(sum + i128::from(v)),
        (Some(Sum::Decimal(sum)), Datum::Decimal(v)) => {
            Sum::Decimal(decimals(Arithmetic::Add, sum, v)?)
        }
        (Some(Sum::Float(sum)), Datum::Float(v)) => Sum::Float(sum + v),
        (_, other) => {
            let other = other.natural_type();
            return Err(SqlError::coded(
                state::TYPE_MISMATCH,
                format!("a value of type {other} cannot be added to a sum of another type"),
            ));
        }
    })
}

/// The average in the kind of the values: integers and decimals are truncated.
fn average(sum: Sum, count: i64) -> Result<Sum, SqlError> {
    Ok(match sum {
        Sum::Integer(sum) => Sum::Integer(sum / i128::from(count.max(1))),
        Sum::Decimal(sum) => {
            Sum::Decimal(decimals(Arithmetic::Divide, sum, Decimal::from_integer(count.max(1)))?)
        }
        Sum::Float(sum) => Sum::Float(sum / count.max(1) as f64),
    })
}

#[cfg(test)]
mod tests;
