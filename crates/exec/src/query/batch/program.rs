//! Expressions compiled over the columns of frames: each node computes a whole column.
//!
//! A node that cannot be computed for some frame, or whose value there is not wanted after all,
//! faults as a whole; [`super::evaluate`] then asks the row evaluator, frame by frame, which
//! alone decides what an expression means. What has no column form is evaluated that way from
//! the start ([`Code::RowByRow`]).

mod compile;
mod membership;
mod pattern;

use super::frames::{Content, Frames};
use super::kernels::{self, Fault, Operand};
use super::vector::{FALSE, Kind, NULL_INT, NULL_UNITS, TRUE, UNKNOWN, Vector};
use crate::evaluate::evaluate_plain;
use crate::query::Run;
use lockstep_plan_ir::expression::{Arithmetic, Comparison, Expression};
use lockstep_types::Decimal;
use lockstep_types::float::is_null_float;
use lockstep_types::sql_type::NULL_FLOAT;
use membership::Membership;
use pattern::Pattern;

pub(super) use compile::compile;

/// A compiled expression, with the column that it computed last.
pub(super) struct Node<'a> {
    code: Code<'a>,
    out: Vector<'a>,
    /// Whether a frame may have no value: such nodes compute only what is wanted.
    fallible: bool,
}

enum Code<'a> {
    /// A column of the slot at a place.
    Column {
        place: usize,
        column: usize,
    },
    /// The one value in the node's column.
    Constant,
    /// A number as FLOAT or DECIMAL.
    Convert(Box<Node<'a>>),
    /// With the range of the result, of integers.
    Arithmetic(Arithmetic, (i64, i64), Box<(Node<'a>, Node<'a>)>),
    Negate(Box<Node<'a>>),
    Compare(Comparison, Box<(Node<'a>, Node<'a>)>),
    /// AND, or OR.
    Logic {
        is_or: bool,
        parts: Vec<Node<'a>>,
    },
    Not(Box<Node<'a>>),
    IsNull(Box<Node<'a>>),
    Case {
        branches: Vec<(Node<'a>, Node<'a>)>,
        otherwise: Option<Box<Node<'a>>>,
    },
    /// Values of the node's kind without NULL.
    InList(Box<Node<'a>>, Vector<'a>),
    Like(Box<Node<'a>>, Pattern<'a>),
    /// IN, or NOT IN, over the rows of a subquery.
    InRows(Box<Node<'a>>, Membership<'a>),
    RowByRow(&'a Expression),
}

/// The arrays of two operands of kinds of one representation, as operands.
macro_rules! operands {
    ($pattern:pat => $array:ident, $node:expr, $frames:expr) => {
        match $node.values($frames) {
            $pattern if $node.is_constant() => Operand::One($array[0]),
            $pattern => Operand::Each($array.as_slice()),
            _ => unreachable!("operands have the kind that they were compiled for"),
        }
    };
}

impl<'a> Node<'a> {
    pub(super) fn kind(&self) -> Kind {
        self.out.kind()
    }

    pub(super) fn is_fallible(&self) -> bool {
        self.fallible
    }

    fn is_constant(&self) -> bool {
        matches!(self.code, Code::Constant)
    }

    /// The column that [`Node::compute`] made of the same frames; of a constant, one value.
    pub(super) fn values<'n>(&'n self, frames: &'n Frames<'a>) -> &'n Vector<'a> {
        if let Code::Column { place, column } = &self.code
            && let Content::Values(columns, _) = &frames.slots()[*place].1
        {
            return &columns[*column];
        }
        &self.out
    }

    /// Puts the whole column, also of a constant, into `out`.
    pub(super) fn copy_into(&self, frames: &Frames<'a>, out: &mut Vector<'a>) {
        out.clear();
        match self.is_constant() {
            true => out.gather(&self.out, &vec![0; frames.len()]),
            false => out.append(self.values(frames)),
        }
    }

    /// Computes the column of all frames.
    pub(super) fn compute(&mut self, run: &Run<'_, 'a>, frames: &Frames<'a>) -> Result<(), Fault> {
        let out = &mut self.out;
        match &mut self.code {
            Code::Constant => Ok(()),
            Code::Column { place, column } => read_column(&frames.slots()[*place].1, *column, out),
            Code::Convert(inner) => {
                inner.compute(run, frames)?;
                convert(inner.values(frames), out);
                Ok(())
            }
            Code::Arithmetic(operator, range, sides) => {
                sides.0.compute(run, frames)?;
                sides.1.compute(run, frames)?;
                arithmetic(*operator, *range, sides, frames, out)
            }
            Code::Negate(inner) => {
                inner.compute(run, frames)?;
                negate(inner.values(frames), out);
                Ok(())
            }
            Code::Compare(comparison, sides) => {
                sides.0.compute(run, frames)?;
                sides.1.compute(run, frames)?;
                compare(*comparison, sides, frames, out);
                Ok(())
            }
            Code::Logic { is_or, parts } => logic(run, *is_or, parts, frames, out),
            Code::Not(inner) => {
                inner.compute(run, frames)?;
                if let (Vector::Bool(truths), Vector::Bool(out)) = (inner.values(frames), out) {
                    kernels::map(truths, out, |truth| TRUE - truth);
                }
                Ok(())
            }
            Code::IsNull(inner) => {
                inner.compute(run, frames)?;
                is_null(inner.values(frames), out);
                Ok(())
            }
            Code::Case { branches, otherwise } => {
                case(run, branches, otherwise.as_deref_mut(), frames, out)
            }
            Code::InList(inner, list) => {
                inner.compute(run, frames)?;
                in_list(inner.values(frames), list, out);
                Ok(())
            }
            Code::Like(inner, pattern) => {
                inner.compute(run, frames)?;
                if let (Vector::Text(texts), Vector::Bool(out)) = (inner.values(frames), out) {
                    kernels::map(texts, out, |text| pattern.matches(text));
                }
                Ok(())
            }
            Code::InRows(inner, rows) => {
                inner.compute(run, frames)?;
                let single = inner.is_constant().then_some(frames.len());
                rows.test(run, inner.values(frames), single, out)
            }
            Code::RowByRow(expression) => row_by_row(run, expression, frames, out),
        }
    }

    /// Computes the values of chosen frames. True: the column has those only; false: it has a
    /// value for every frame.
    fn compute_chosen(
        &mut self,
        run: &Run<'_, 'a>,
        frames: &Frames<'a>,
        chosen: &[u32],
        part: &mut Option<Frames<'a>>,
    ) -> Result<bool, Fault> {
        *part = None;
        if !self.fallible || chosen.len() == frames.len() {
            self.compute(run, frames)?;
            return Ok(false);
        }
        let mut some = Frames::like(frames);
        some.append_chosen(frames, chosen);
        self.compute(run, &some)?;
        *part = Some(some);
        Ok(true)
    }

    /// The place of a frame's value in the node's column.
    fn place(&self, compact: bool, number: usize, frame: u32) -> usize {
        if self.is_constant() {
            0
        } else if compact {
            number
        } else {
            frame as usize
        }
    }
}

fn read_column<'a>(
    content: &Content<'a>,
    column: usize,
    out: &mut Vector<'a>,
) -> Result<(), Fault> {
    let read = match (content, &mut *out) {
        // Read in place.
        (Content::Values(..), _) => true,
        (Content::Rows(rows), Vector::Int(out) | Vector::Timestamp(out)) => {
            rows.integers(column, out)
        }
        (Content::Rows(rows), Vector::Float(out)) => rows.floats(column, out),
        (Content::Rows(rows), Vector::Decimal(out)) => rows.decimals(column, out),
        (Content::Rows(rows), Vector::Text(out)) => rows.texts(column, out),
        (Content::Rows(rows), Vector::Bytes(out)) => rows.bytes(column, out),
        (Content::Rows(rows), Vector::Point(out)) => rows.points(column, out),
        (Content::Rows(_), Vector::Bool(_)) => false,
    };
    if read { Ok(()) } else { Err(Fault) }
}

fn convert<'a>(values: &Vector<'a>, out: &mut Vector<'a>) {
    match (values, out) {
        (Vector::Int(values), Vector::Float(out)) => {
            kernels::map(
                values,
                out,
                |value| {
                    if value == NULL_INT { NULL_FLOAT } else { value as f64 }
                },
            )
        }
        (Vector::Decimal(values), Vector::Float(out)) => kernels::map(values, out, |units| {
            if units == NULL_UNITS { NULL_FLOAT } else { Decimal::from_raw(units).to_f64() }
        }),
        (Vector::Int(values), Vector::Decimal(out)) => kernels::map(values, out, |value| {
            if value == NULL_INT { NULL_UNITS } else { Decimal::from_integer(value).units() }
        }),
        _ => unreachable!("only numbers are converted"),
    }
}

fn arithmetic<'a>(
    operator: Arithmetic,
    range: (i64, i64),
    (left, right): &(Node<'a>, Node<'a>),
    frames: &Frames<'a>,
    out: &mut Vector<'a>,
) -> Result<(), Fault> {
    match out {
        Vector::Float(out) => {
            let a = operands!(Vector::Float(array) => array, left, frames);
            let b = operands!(Vector::Float(array) => array, right, frames);
            kernels::floats(operator, a, b, out)
        }
        Vector::Decimal(out) => {
            let a = operands!(Vector::Decimal(array) => array, left, frames);
            let b = operands!(Vector::Decimal(array) => array, right, frames);
            kernels::units(operator, a, b, out)
        }
        Vector::Int(out) | Vector::Timestamp(out) => {
            let a = operands!(Vector::Int(array) | Vector::Timestamp(array) => array, left, frames);
            let b =
                operands!(Vector::Int(array) | Vector::Timestamp(array) => array, right, frames);
            kernels::integers(operator, range, a, b, out)
        }
        _ => unreachable!("arithmetic gives numbers"),
    }
}

fn negate<'a>(values: &Vector<'a>, out: &mut Vector<'a>) {
    match (values, out) {
        // The sentinel is its own negative.
        (Vector::Int(values), Vector::Int(out)) => kernels::map(values, out, i64::wrapping_neg),
        (Vector::Decimal(values), Vector::Decimal(out)) => {
            kernels::map(values, out, i128::wrapping_neg);
        }
        (Vector::Float(values), Vector::Float(out)) => kernels::map(values, out, |value| {
            if is_null_float(value) || is_null_float(-value) { NULL_FLOAT } else { -value }
        }),
        _ => unreachable!("only numbers are negated"),
    }
}

fn compare<'a>(
    comparison: Comparison,
    (left, right): &(Node<'a>, Node<'a>),
    frames: &Frames<'a>,
    out: &mut Vector<'a>,
) {
    let Vector::Bool(out) = out else { unreachable!("comparisons give truth values") };
    match left.values(frames) {
        Vector::Int(_) | Vector::Timestamp(_) => {
            let a = operands!(Vector::Int(array) | Vector::Timestamp(array) => array, left, frames);
            let b =
                operands!(Vector::Int(array) | Vector::Timestamp(array) => array, right, frames);
            kernels::compare(comparison, a, b, |value| value == NULL_INT, out);
        }
        Vector::Float(_) => {
            let a = operands!(Vector::Float(array) => array, left, frames);
            let b = operands!(Vector::Float(array) => array, right, frames);
            kernels::compare(comparison, a, b, is_null_float, out);
        }
        Vector::Decimal(_) => {
            let a = operands!(Vector::Decimal(array) => array, left, frames);
            let b = operands!(Vector::Decimal(array) => array, right, frames);
            kernels::compare(comparison, a, b, |value| value == NULL_UNITS, out);
        }
        Vector::Text(_) => {
            let a = operands!(Vector::Text(array) => array, left, frames);
            let b = operands!(Vector::Text(array) => array, right, frames);
            kernels::compare(comparison, a, b, |value| value.is_none(), out);
        }
        Vector::Bytes(_) => {
            let a = operands!(Vector::Bytes(array) => array, left, frames);
            let b = operands!(Vector::Bytes(array) => array, right, frames);
            kernels::compare(comparison, a, b, |value| value.is_none(), out);
        }
        Vector::Point(_) => {
            let a = operands!(Vector::Point(array) => array, left, frames);
            let b = operands!(Vector::Point(array) => array, right, frames);
            kernels::compare(comparison, a, b, |value| value.is_none(), out);
        }
        Vector::Bool(_) => unreachable!("truth values are compared row by row"),
    }
}

/// AND is the least of the truth values, OR the greatest. A part that may fail is computed only
/// where those before it leave the answer open.
fn logic<'a>(
    run: &Run<'_, 'a>,
    is_or: bool,
    parts: &mut [Node<'a>],
    frames: &Frames<'a>,
    out: &mut Vector<'a>,
) -> Result<(), Fault> {
    let Vector::Bool(out) = out else { unreachable!("logic gives truth values") };
    let (start, decided) = if is_or { (FALSE, TRUE) } else { (TRUE, FALSE) };
    out.clear();
    out.resize(frames.len(), start);
    let mut open: Vec<u32> = Vec::new();
    let mut part_frames = None;
    for part in parts {
        open.clear();
        if part.fallible {
            open.extend((0..).zip(out.iter()).filter(|(_, t)| **t != decided).map(|(n, _)| n));
        } else {
            open.extend(0..frames.len() as u32);
        }
        let compact = part.compute_chosen(run, frames, &open, &mut part_frames)?;
        let values = part.values(part_frames.as_ref().unwrap_or(frames));
        let Vector::Bool(truths) = values else { unreachable!("logic is of truth values") };
        if !compact && !part.is_constant() {
            for (truth, other) in out.iter_mut().zip(truths) {
                *truth = if is_or { (*truth).max(*other) } else { (*truth).min(*other) };
            }
            continue;
        }
        for (number, frame) in open.iter().enumerate() {
            let other = truths[part.place(compact, number, *frame)];
            let truth = &mut out[*frame as usize];
            *truth = if is_or { (*truth).max(other) } else { (*truth).min(other) };
        }
    }
    Ok(())
}

fn is_null<'a>(values: &Vector<'a>, out: &mut Vector<'a>) {
    let Vector::Bool(out) = out else { unreachable!("a test gives truth values") };
    let truth = |null: bool| if null { TRUE } else { FALSE };
    match values {
        Vector::Int(values) | Vector::Timestamp(values) => {
            kernels::map(values, out, |value| truth(value == NULL_INT));
        }
        Vector::Float(values) => kernels::map(values, out, |value| truth(is_null_float(value))),
        Vector::Decimal(values) => kernels::map(values, out, |value| truth(value == NULL_UNITS)),
        Vector::Text(values) => kernels::map(values, out, |value| truth(value.is_none())),
        Vector::Bytes(values) => kernels::map(values, out, |value| truth(value.is_none())),
        Vector::Point(values) => kernels::map(values, out, |value| truth(value.is_none())),
        Vector::Bool(values) => kernels::map(values, out, |value| truth(value == UNKNOWN)),
    }
}

/// Each branch is tried where none before it held.
fn case<'a>(
    run: &Run<'_, 'a>,
    branches: &mut [(Node<'a>, Node<'a>)],
    otherwise: Option<&mut Node<'a>>,
    frames: &Frames<'a>,
    out: &mut Vector<'a>,
) -> Result<(), Fault> {
    out.clear();
    out.push_nulls(frames.len());
    let mut open: Vec<u32> = (0..frames.len() as u32).collect();
    let mut part_frames = None;
    let mut take = |node: &mut Node<'a>, chosen: &[u32]| {
        let compact = node.compute_chosen(run, frames, chosen, &mut part_frames)?;
        let values = node.values(part_frames.as_ref().unwrap_or(frames));
        for (number, frame) in chosen.iter().enumerate() {
            out.set(*frame as usize, values, node.place(compact, number, *frame));
        }
        Ok(())
    };
    let mut condition_frames = None;
    for (condition, result) in branches {
        if open.is_empty() {
            return Ok(());
        }
        let compact = condition.compute_chosen(run, frames, &open, &mut condition_frames)?;
        let values = condition.values(condition_frames.as_ref().unwrap_or(frames));
        let Vector::Bool(truths) = values else { unreachable!("conditions are truth values") };
        let (mut held, mut left) = (Vec::new(), Vec::new());
        for (number, frame) in open.iter().enumerate() {
            let truth = truths[condition.place(compact, number, *frame)];
            if truth == TRUE { held.push(*frame) } else { left.push(*frame) }
        }
        if !held.is_empty() {
            take(result, &held)?;
        }
        open = left;
    }
    match otherwise {
        Some(otherwise) if !open.is_empty() => take(otherwise, &open),
        _ => Ok(()),
    }
}

fn in_list<'a>(values: &Vector<'a>, list: &Vector<'a>, out: &mut Vector<'a>) {
    let Vector::Bool(out) = out else { unreachable!("a test gives truth values") };
    let truth = |holds: bool| if holds { TRUE } else { FALSE };
    match (values, list) {
        (
            Vector::Int(values) | Vector::Timestamp(values),
            Vector::Int(list) | Vector::Timestamp(list),
        ) => kernels::map(values, out, |value| match value {
            NULL_INT => UNKNOWN,
            _ => truth(list.contains(&value)),
        }),
        (Vector::Text(values), Vector::Text(list)) => {
            kernels::map(values, out, |value| match value {
                None => UNKNOWN,
                some => truth(list.contains(&some)),
            });
        }
        _ => unreachable!("lists are of integers, times or text"),
    }
}

fn row_by_row<'a>(
    run: &Run<'_, 'a>,
    expression: &'a Expression,
    frames: &Frames<'a>,
    out: &mut Vector<'a>,
) -> Result<(), Fault> {
    out.clear();
    for number in 0..frames.len() {
        frames.bind(run, number);
        let value = match out.kind().is_variable() {
            true => run.value(expression),
            false => evaluate_plain(expression, run.context, &run.frame),
        };
        if !value.is_ok_and(|value| out.push(value)) {
            return Err(Fault);
        }
    }
    Ok(())
}
