//! Sets of expressions and filters over batches, with what happens where a frame fails.

use super::frames::Frames;
use super::kernels::Fault;
use super::program::{Node, compile};
use super::vector::{FALSE, Kind, TRUE, Vector};
use crate::error::SqlError;
use crate::query::Run;
use crate::query::filter::direct_parts;
use lockstep_plan_ir::Node as Plan;
use lockstep_plan_ir::expression::Expression;

/// Expressions that are computed together.
pub(super) struct Programs<'a> {
    expressions: Vec<(&'a Expression, Kind)>,
    /// Compiled for the first batch.
    nodes: Vec<Node<'a>>,
    columns: Vec<Vector<'a>>,
    length: usize,
}

impl<'a> Programs<'a> {
    pub(super) fn new(expressions: impl Iterator<Item = &'a Expression>) -> Programs<'a> {
        let kind = |expression: &Expression| Kind::of(expression.sql_type).unwrap_or(Kind::Int);
        Programs::of_kinds(expressions.map(|expression| (expression, kind(expression))))
    }

    /// The same, with numbers converted to the kinds given.
    pub(super) fn of_kinds(
        expressions: impl Iterator<Item = (&'a Expression, Kind)>,
    ) -> Programs<'a> {
        let expressions: Vec<_> = expressions.collect();
        let columns = expressions.iter().map(|(_, kind)| Vector::new(*kind)).collect();
        Programs { expressions, nodes: Vec::new(), columns, length: 0 }
    }

    /// The columns that were computed last.
    pub(super) fn columns(&self) -> &[Vector<'a>] {
        &self.columns
    }

    /// Frames that have values: all, or those before the first that fails.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Takes the columns out; [`Programs::give_back`] follows.
    pub(super) fn take(&mut self) -> Vec<Vector<'a>> {
        std::mem::take(&mut self.columns)
    }

    pub(super) fn give_back(&mut self, columns: Vec<Vector<'a>>) {
        self.columns = columns;
    }

    /// Computes all columns of the frames, or of those before the first that fails.
    pub(super) fn compute(&mut self, run: &Run<'_, 'a>, frames: &Frames<'a>) -> Option<SqlError> {
        if self.nodes.len() < self.expressions.len() {
            let node = |(expression, kind): &(&'a Expression, Kind)| {
                compile(run, frames, expression, *kind)
            };
            self.nodes = self.expressions.iter().map(node).collect();
        }
        self.length = frames.len();
        for (node, column) in self.nodes.iter_mut().zip(&mut self.columns) {
            if node.compute(run, frames).is_err() {
                return self.compute_rows(run, frames);
            }
            node.copy_into(frames, column);
        }
        None
    }

    #[cold]
    fn compute_rows(&mut self, run: &Run<'_, 'a>, frames: &Frames<'a>) -> Option<SqlError> {
        self.columns.iter_mut().for_each(Vector::clear);
        for number in 0..frames.len() {
            frames.bind(run, number);
            for ((expression, _), column) in self.expressions.iter().zip(&mut self.columns) {
                let error = match run.value(expression) {
                    Ok(value) if column.push_number(value) => continue,
                    Ok(_) => SqlError::sql("a computed value is not of its column's type"),
                    Err(error) => error,
                };
                self.columns.iter_mut().for_each(|column| column.truncate(number));
                self.length = number;
                return Some(error);
            }
        }
        None
    }
}

/// A condition that frames must meet.
pub(super) struct BatchFilter<'a> {
    predicate: &'a Expression,
    /// The parts of an AND in the order in which they are tested.
    parts: Vec<&'a Expression>,
    /// The first parts that drop a frame at once, whatever those after them would be.
    direct: usize,
    nodes: Vec<Node<'a>>,
    selection: Vec<u32>,
    /// Frames that will not pass, but whose further parts may fail.
    doomed: Vec<bool>,
}

impl<'a> BatchFilter<'a> {
    pub(super) fn new(predicate: &'a Expression) -> BatchFilter<'a> {
        let parts = match &predicate.node {
            Plan::And(parts) => parts.iter().collect(),
            _ => vec![predicate],
        };
        BatchFilter {
            predicate,
            parts,
            direct: 0,
            nodes: Vec::new(),
            selection: Vec::new(),
            doomed: Vec::new(),
        }
    }

    /// The filter of a scan, whose direct tests come first.
    pub(super) fn of_scan(
        run: &Run<'_, 'a>,
        slot: u16,
        predicate: &'a Expression,
    ) -> BatchFilter<'a> {
        let mut filter = BatchFilter::new(predicate);
        let direct = direct_parts(run, slot, &filter.parts);
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for (part, is_direct) in filter.parts.iter().zip(direct) {
            if is_direct { first.push(*part) } else { then.push(*part) }
        }
        filter.direct = first.len();
        first.append(&mut then);
        filter.parts = first;
        filter
    }

    pub(super) fn predicate(&self) -> &'a Expression {
        self.predicate
    }

    /// Keeps the frames that pass, or of those before the first that fails.
    pub(super) fn apply(&mut self, run: &Run<'_, 'a>, frames: &mut Frames<'a>) -> Option<SqlError> {
        match self.try_apply(run, frames) {
            Ok(()) => None,
            Err(Fault) => apply_rows(run, self.predicate, frames),
        }
    }

    /// Keeps the frames that pass, unless some may fail: then keeps those that are to be tested
    /// one by one.
    pub(super) fn try_apply(
        &mut self,
        run: &Run<'_, 'a>,
        frames: &mut Frames<'a>,
    ) -> Result<(), Fault> {
        if self.nodes.len() < self.parts.len() {
            let node = |part: &&'a Expression| compile(run, frames, part, Kind::Bool);
            self.nodes = self.parts.iter().map(node).collect();
        }
        let is_careful = self.nodes.iter().any(Node::is_fallible);
        let simple = if is_careful { self.direct } else { self.nodes.len() };
        for node in &mut self.nodes[..simple] {
            node.compute(run, frames)?;
            passing(node, frames, &mut self.selection);
            frames.keep(&self.selection);
            if frames.len() == 0 {
                return Ok(());
            }
        }
        if is_careful { self.apply_careful(run, frames) } else { Ok(()) }
    }

    /// The same with parts that may fail: a frame for which a part is unknown stays until all
    /// parts that may fail have seen it, as AND has it.
    fn apply_careful(&mut self, run: &Run<'_, 'a>, frames: &mut Frames<'a>) -> Result<(), Fault> {
        let whole = frames.clone();
        self.doomed.clear();
        self.doomed.resize(frames.len(), false);
        let count = self.nodes.len();
        for number in self.direct..count {
            let fails_later = self.nodes[number + 1..].iter().any(Node::is_fallible);
            let node = &mut self.nodes[number];
            if node.compute(run, frames).is_err() {
                *frames = whole;
                return Err(Fault);
            }
            let truths = truths(node, frames);
            self.selection.clear();
            for (frame, truth) in truths.enumerate() {
                if truth == TRUE || (fails_later && truth != FALSE) {
                    self.doomed[self.selection.len()] = self.doomed[frame] | (truth != TRUE);
                    self.selection.push(frame as u32);
                }
            }
            self.doomed.truncate(self.selection.len());
            frames.keep(&self.selection);
        }
        if self.doomed.contains(&true) {
            let doomed = (0..).zip(&self.doomed);
            self.selection.clear();
            self.selection.extend(doomed.filter(|(_, doomed)| !**doomed).map(|(n, _)| n));
            frames.keep(&self.selection);
        }
        Ok(())
    }
}

/// The truth values of a condition, one per frame.
fn truths<'n, 'a>(
    node: &'n Node<'a>,
    frames: &'n Frames<'a>,
) -> impl Iterator<Item = u8> + use<'n, 'a> {
    let Vector::Bool(truths) = node.values(frames) else {
        unreachable!("conditions are truth values")
    };
    let single = truths.len() == 1;
    (0..frames.len()).map(move |frame| truths[if single { 0 } else { frame }])
}

/// The frames for which a condition is true.
fn passing<'a>(node: &Node<'a>, frames: &Frames<'a>, selection: &mut Vec<u32>) {
    selection.clear();
    selection.resize(frames.len(), 0);
    let mut count = 0;
    for (frame, truth) in truths(node, frames).enumerate() {
        selection[count] = frame as u32;
        count += usize::from(truth == TRUE);
    }
    selection.truncate(count);
}

#[cold]
fn apply_rows<'a>(
    run: &Run<'_, 'a>,
    predicate: &'a Expression,
    frames: &mut Frames<'a>,
) -> Option<SqlError> {
    let mut selection = Vec::new();
    let mut error = None;
    for number in 0..frames.len() {
        frames.bind(run, number);
        match run.holds(predicate) {
            Ok(true) => selection.push(number as u32),
            Ok(false) => {}
            Err(failure) => {
                error = Some(failure);
                break;
            }
        }
    }
    frames.keep(&selection);
    error
}
