//! Evaluates expressions over a frame.
//!
//! Columns, parameters, literals, comparisons and logic neither allocate nor call through
//! pointers; text that has to be made goes to the context's arena. The planner bounds the depth
//! of expressions, and with it the recursion here.

mod compare;
mod like;

pub use compare::{compare, equal};
pub use like::like;

use crate::arena::Arena;
use crate::arithmetic;
use crate::cast;
use crate::context::{Context, Quantified};
use crate::convert::array_elements;
use crate::error::SqlError;
use crate::frame::Frame;
use crate::functions;
use lockstep_plan_ir::expression::Comparison;
use lockstep_plan_ir::{Expression, Node, UserFunction};
use lockstep_types::{Datum, SqlType};
use std::cell::RefCell;
use std::cmp::Ordering;

/// The value of an expression. Text that it makes lives as long as the statement.
///
/// # Errors
/// What arithmetic, casts, functions and subqueries refuse.
#[inline]
pub fn evaluate<'a>(
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<Datum<'a>, SqlError> {
    evaluate_in(context.arena, expression, context, frame)
}

/// The value of an expression; text that it makes is put into `arena`.
#[inline]
pub(crate) fn evaluate_in<'a: 's, 's>(
    arena: &'s Arena,
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    // Most operands are leaves: they need no call.
    match &expression.node {
        Node::Column { slot, column } => Ok(frame.column(*slot, *column)),
        Node::Parameter(number) => Ok(parameter(context, *number)),
        Node::Literal(value) => Ok(value.as_datum()),
        _ => evaluate_operator(arena, expression, context, frame),
    }
}

#[inline(never)]
fn evaluate_operator<'a: 's, 's>(
    arena: &'s Arena,
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    match &expression.node {
        Node::Compare(comparison, left, right) => {
            let left = evaluate_in(arena, left, context, frame)?;
            let right = evaluate_in(arena, right, context, frame)?;
            compare(*comparison, left, right)
        }
        Node::And(parts) => all_true(arena, context, parts, frame),
        Node::Or(parts) => any_true(arena, context, parts, frame),
        Node::Not(inner) => Ok(not(evaluate_in(arena, inner, context, frame)?)),
        Node::IsNull(inner) => {
            Ok(Datum::Bool(evaluate_in(arena, inner, context, frame)?.is_null()))
        }
        Node::Arithmetic(operator, left, right) => {
            let left = evaluate_in(arena, left, context, frame)?;
            let right = evaluate_in(arena, right, context, frame)?;
            arithmetic::compute(*operator, left, right, expression.sql_type)
        }
        _ => evaluate_other(arena, expression, context, frame),
    }
}

thread_local! {
    /// Memory for what a condition makes on the way to its answer. Nothing in it outlives the
    /// condition, so that a scan of any length stays within its statement's memory.
    static SCRATCH: RefCell<Arena> = RefCell::new(Arena::new());
}

/// Scratch memory that is kept from one condition to the next.
const KEPT_SCRATCH_BYTES: usize = 1 << 20;

/// Whether a condition is true: false and NULL are not.
///
/// # Errors
/// As for [`evaluate`].
#[inline]
pub fn is_true<'a>(
    condition: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<bool, SqlError> {
    // Comparisons of leaves make nothing.
    if let Node::Compare(comparison, left, right) = &condition.node
        && let (Some(left), Some(right)) = (leaf(left, context, frame), leaf(right, context, frame))
    {
        return Ok(compare(*comparison, left, right)? == Datum::Bool(true));
    }
    is_true_with_scratch(condition, context, frame)
}

fn is_true_with_scratch<'a>(
    condition: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<bool, SqlError> {
    with_scratch(|scratch| match scratch {
        Some(arena) => {
            evaluate_in(arena, condition, context, frame).map(|value| value == Datum::Bool(true))
        }
        None => Ok(evaluate(condition, context, frame)? == Datum::Bool(true)),
    })
}

/// Lends the scratch memory; a condition of a subquery within a condition finds it taken.
fn with_scratch<T>(body: impl FnOnce(Option<&Arena>) -> T) -> T {
    SCRATCH.with(|scratch| {
        let Ok(mut arena) = scratch.try_borrow_mut() else { return body(None) };
        let result = body(Some(&arena));
        if arena.is_used() {
            arena.reset();
            if arena.reserved_bytes() > KEPT_SCRATCH_BYTES {
                arena.shrink(KEPT_SCRATCH_BYTES);
            }
        }
        result
    })
}

/// The value of an expression that makes no text or bytes: what it makes on the way is forgotten.
pub(crate) fn evaluate_plain<'a>(
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<Datum<'static>, SqlError> {
    let plain = |value: Datum<'_>| match value {
        Datum::Null => Ok(Datum::Null),
        Datum::Bool(value) => Ok(Datum::Bool(value)),
        Datum::Int(value) => Ok(Datum::Int(value)),
        Datum::Float(value) => Ok(Datum::Float(value)),
        Datum::Decimal(value) => Ok(Datum::Decimal(value)),
        Datum::Timestamp(value) => Ok(Datum::Timestamp(value)),
        Datum::Point(point) => Ok(Datum::Point(point)),
        Datum::Text(_) | Datum::Bytes(_) => Err(SqlError::sql("a value is not of its type")),
    };
    with_scratch(|scratch| match scratch {
        Some(arena) => evaluate_in(arena, expression, context, frame).and_then(plain),
        None => evaluate(expression, context, frame).and_then(plain),
    })
}

/// The value of an expression that is a leaf.
#[inline]
fn leaf<'a>(
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Option<Datum<'a>> {
    match &expression.node {
        Node::Column { slot, column } => Some(frame.column(*slot, *column)),
        Node::Parameter(number) => Some(parameter(context, *number)),
        Node::Literal(value) => Some(value.as_datum()),
        _ => None,
    }
}

/// A statement's parameter. Statements run with as many parameters as they declare.
#[inline]
fn parameter<'a>(context: &Context<'a>, number: u16) -> Datum<'a> {
    context.parameters[usize::from(number)]
}

/// The rarer kinds, apart so that the stack frame of the common ones stays small.
#[inline(never)]
fn evaluate_other<'a: 's, 's>(
    arena: &'s Arena,
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    let value_of = |inner: &'a Expression| evaluate_in(arena, inner, context, frame);
    match &expression.node {
        Node::Negate(inner) => arithmetic::negate(value_of(inner)?),
        Node::Case { branches, otherwise } => {
            for (condition, result) in branches {
                if value_of(condition)? == Datum::Bool(true) {
                    return widened(value_of(result)?, expression.sql_type);
                }
            }
            match otherwise {
                Some(result) => widened(value_of(result)?, expression.sql_type),
                None => Ok(Datum::Null),
            }
        }
        Node::InList { value, list } => {
            let value = value_of(value)?;
            if value.is_null() {
                return Ok(Datum::Null);
            }
            // A NULL in the list never makes the answer unknown.
            for candidate in list {
                if equal(value, value_of(candidate)?)? {
                    return Ok(Datum::Bool(true));
                }
            }
            Ok(Datum::Bool(false))
        }
        Node::InArray { value, parameter: number } => {
            in_array(value_of(value)?, parameter(context, *number))
        }
        Node::Like { value, pattern, escape } => {
            Ok(like(value_of(value)?, value_of(pattern)?, *escape))
        }
        Node::StartsWith(value, prefix) => Ok(match (value_of(value)?, value_of(prefix)?) {
            (Datum::Text(value), Datum::Text(prefix)) => Datum::Bool(value.starts_with(prefix)),
            _ => Datum::Null,
        }),
        Node::Cast { value, .. } => {
            let (from, to) = (value.sql_type, expression.sql_type);
            match &value.node {
                Node::Literal(literal) => cast::cast_literal(arena, literal.as_datum(), from, to),
                _ => cast::cast(arena, value_of(value)?, from, to),
            }
        }
        Node::Call(function, arguments) => {
            functions::call(arena, context, *function, arguments, expression.sql_type, frame)
        }
        Node::UserCall(function, arguments) => {
            user_call(arena, context, function, arguments, frame)
        }
        Node::CompareRows(comparison, left, right) => {
            compare_rows(arena, context, *comparison, left, right, frame)
        }
        _ => evaluate_subquery(expression, context, frame),
    }
}

/// Most arguments of a function of users whose values need no memory of their own.
const FEW_ARGUMENTS: usize = 8;

fn user_call<'a: 's, 's>(
    arena: &'s Arena,
    context: &Context<'a>,
    function: &'a UserFunction,
    arguments: &'a [Expression],
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    let mut few = [Datum::Null; FEW_ARGUMENTS];
    let mut many = Vec::new();
    let values = match few.get_mut(..arguments.len()) {
        Some(few) => few,
        None => {
            many.resize(arguments.len(), Datum::Null);
            many.as_mut_slice()
        }
    };
    for (value, argument) in values.iter_mut().zip(arguments) {
        let given = evaluate_in(arena, argument, context, frame)?;
        *value = widened(given, argument.sql_type)?;
    }
    let mut result = Datum::Null;
    let called = function.code.call(values, &mut |value| result = keep(arena, value));
    called.map_err(SqlError::user_function)?;
    Ok(result)
}

/// A value whose text or bytes are about to go.
pub(crate) fn keep<'s>(arena: &'s Arena, value: Datum<'_>) -> Datum<'s> {
    match value {
        Datum::Text(text) => Datum::Text(arena.copy_text(text)),
        Datum::Bytes(bytes) => Datum::Bytes(arena.copy(bytes)),
        Datum::Null => Datum::Null,
        Datum::Bool(value) => Datum::Bool(value),
        Datum::Int(value) => Datum::Int(value),
        Datum::Float(value) => Datum::Float(value),
        Datum::Decimal(value) => Datum::Decimal(value),
        Datum::Timestamp(value) => Datum::Timestamp(value),
        Datum::Point(point) => Datum::Point(point),
    }
}

fn evaluate_subquery<'a>(
    expression: &'a Expression,
    context: &Context<'a>,
    frame: &Frame<'a>,
) -> Result<Datum<'a>, SqlError> {
    match &expression.node {
        Node::ScalarSubquery(subquery) => context.subqueries.scalar(context, subquery, frame),
        Node::Exists(subquery) => {
            context.subqueries.exists(context, subquery, frame).map(Datum::Bool)
        }
        Node::Quantified { comparison, quantifier, row, subquery } => {
            let values = context.arena.fill(row.len(), Datum::Null);
            for (value, expression) in values.iter_mut().zip(row) {
                *value = evaluate(expression, context, frame)?;
            }
            let quantified = Quantified {
                comparison: *comparison,
                quantifier: *quantifier,
                row: values,
                subquery,
            };
            context.subqueries.quantified(context, quantified, frame)
        }
        _ => unreachable!("callers evaluate all nodes without a subquery"),
    }
}

/// A CASE result in the type of the whole: branches may be of narrower number types.
#[inline]
fn widened<'a>(value: Datum<'a>, to: SqlType) -> Result<Datum<'a>, SqlError> {
    match (value, to) {
        (Datum::Int(v), SqlType::Float) => Ok(Datum::Float(v as f64)),
        (Datum::Int(v), SqlType::Decimal) => {
            Ok(Datum::Decimal(lockstep_types::Decimal::from_integer(v)))
        }
        (Datum::Decimal(v), SqlType::Float) => Ok(Datum::Float(v.to_f64())),
        _ => Ok(value),
    }
}

#[inline]
fn not(value: Datum<'_>) -> Datum<'static> {
    match value {
        Datum::Bool(truth) => Datum::Bool(!truth),
        _ => Datum::Null,
    }
}

#[inline(never)]
fn all_true<'a: 's, 's>(
    arena: &'s Arena,
    context: &Context<'a>,
    parts: &'a [Expression],
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    let mut result = Datum::Bool(true);
    for part in parts {
        match evaluate_in(arena, part, context, frame)? {
            Datum::Bool(true) => {}
            Datum::Bool(false) => return Ok(Datum::Bool(false)),
            _ => result = Datum::Null,
        }
    }
    Ok(result)
}

#[inline(never)]
fn any_true<'a: 's, 's>(
    arena: &'s Arena,
    context: &Context<'a>,
    parts: &'a [Expression],
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    let mut result = Datum::Bool(false);
    for part in parts {
        match evaluate_in(arena, part, context, frame)? {
            Datum::Bool(false) => {}
            Datum::Bool(true) => return Ok(Datum::Bool(true)),
            _ => result = Datum::Null,
        }
    }
    Ok(result)
}

fn in_array<'a>(value: Datum<'a>, array: Datum<'a>) -> Result<Datum<'a>, SqlError> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    for candidate in array_elements(array) {
        if equal(value, candidate)? {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

/// Compares rows column by column: the first pair that differs or is unknown decides.
fn compare_rows<'a: 's, 's>(
    arena: &'s Arena,
    context: &Context<'a>,
    comparison: Comparison,
    left: &'a [Expression],
    right: &'a [Expression],
    frame: &Frame<'a>,
) -> Result<Datum<'s>, SqlError> {
    let mut pairs = RowComparison::new(comparison);
    for (left, right) in left.iter().zip(right) {
        let left = evaluate_in(arena, left, context, frame)?;
        pairs.add(left, evaluate_in(arena, right, context, frame)?)?;
    }
    Ok(pairs.finish())
}

/// The comparison of two rows of values, fed pair by pair from the left: also of use to those
/// who run quantified subqueries.
#[derive(Debug, Clone, Copy)]
pub struct RowComparison {
    comparison: Comparison,
    order: Ordering,
    unknown: bool,
}

impl RowComparison {
    /// Before the first pair.
    pub fn new(comparison: Comparison) -> RowComparison {
        RowComparison { comparison, order: Ordering::Equal, unknown: false }
    }

    /// The next pair of values.
    pub fn add(&mut self, left: Datum<'_>, right: Datum<'_>) -> Result<(), SqlError> {
        let by_equality = matches!(self.comparison, Comparison::Equal | Comparison::NotEqual);
        let distinct = matches!(self.comparison, Comparison::Distinct | Comparison::NotDistinct);
        // A pair that differs decides; for = and <> also after an unknown one.
        if self.order != Ordering::Equal || (self.unknown && !by_equality) {
            return Ok(());
        }
        match compare::order(left, right)? {
            Some(order) => self.order = order,
            None if !distinct => self.unknown = true,
            None if left.is_null() && right.is_null() => {}
            None => self.order = Ordering::Less,
        }
        Ok(())
    }

    /// The truth value.
    pub fn finish(self) -> Datum<'static> {
        let by_equality = matches!(self.comparison, Comparison::Equal | Comparison::NotEqual);
        let decided = by_equality && self.order != Ordering::Equal;
        if self.unknown && !decided {
            return Datum::Null;
        }
        Datum::Bool(compare::holds(self.comparison, self.order))
    }
}

#[cfg(test)]
mod tests;
