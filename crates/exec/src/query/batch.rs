//! Runs relations over large tables some hundreds of frames at a time, column by column.
//!
//! The row-at-a-time operators beside this module say what a query means; this one gives the same
//! frames in the same order with fewer steps. Where a column cannot be computed as a whole, the
//! frames of that batch are evaluated one after the other by the row evaluator: those before the
//! first that fails go on to the operators above, which may have enough of them, and only then is
//! it an error.
//!
//! Bottom up: `vector` (columns of one kind), `frames` (what slots hold in many frames),
//! `kernels` and `program` (expressions), `evaluate` (sets of expressions, filters), then this
//! file (scans, filters, projections, and which relations are run here at all), and `keys`,
//! `group`, `sort`, `join` for what keeps rows.

mod evaluate;
mod frames;
mod group;
mod join;
mod kernels;
mod keys;
mod program;
mod sort;
mod vector;
mod window;

pub(super) use sort::is_batch_sort;
pub(super) use window::WindowColumns;

use super::{Flow, Run, Sink};
use crate::database::table_of;
use crate::error::SqlError;
use crate::frame::Slot;
use crate::watch::OperatorProfile;
use evaluate::{BatchFilter, Programs};
use frames::{Content, Frames};
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::{Access, Join, JoinKind, JoinMethod, Relation, Scan};
use lockstep_storage::{RowBatch, ScanCursor};
use lockstep_types::SqlType;
use vector::{Kind, Vector};

/// Frames of the first batch; each that follows may have twice as many.
const FIRST_BATCH: usize = 64;
/// The most frames of a batch.
const BATCH: usize = 1024;

/// Where batches go. The frames are the sink's to change.
type BatchSink<'s, 'a> = &'s mut dyn FnMut(&mut Frames<'a>) -> Result<Flow, SqlError>;

impl<'a> Run<'_, 'a> {
    /// Whether the relation is better run in batches.
    pub(super) fn is_worth_batches(&self, relation: &Relation) -> bool {
        let Some(worth_rows) = self.executor.settings.batch_rows_min else { return false };
        match relation {
            Relation::Scan(Scan { access: Access::Full, table, .. }) => {
                let table = self.executor.tables.get(*table);
                table.is_some_and(|table| table.row_count() >= worth_rows)
            }
            Relation::Filter { input, .. }
            | Relation::Project { input, .. }
            | Relation::Window { input, .. }
            | Relation::Distinct { input, .. } => self.is_worth_batches(input),
            Relation::Join(join) => is_batch_join(join) && self.is_worth_batches(&join.left),
            _ => false,
        }
    }

    /// Runs a relation in batches for an operator that takes single frames.
    pub(super) fn run_in_batches(
        &self,
        relation: &'a Relation,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        self.run_batch_operator(relation, &mut |frames| {
            for number in 0..frames.len() {
                frames.bind(self, number);
                if sink()? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        })
    }

    /// Pushes the relation's frames in batches.
    fn run_batches(
        &self,
        relation: &'a Relation,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        let Some(profiler) = &self.executor.settings.watch.profiler else {
            return self.run_batch_operator(relation, sink);
        };
        let start = profiler.now();
        let (mut rows, mut above) = (0, 0);
        let flow = self.run_batch_operator(relation, &mut |frames| {
            rows += frames.len() as u64;
            let start = profiler.now();
            let flow = sink(frames);
            above += profiler.now().saturating_sub(start);
            flow
        });
        let ticks = profiler.now().saturating_sub(start).saturating_sub(above);
        profiler.add(relation, OperatorProfile { rows, loops: 1, ticks });
        flow
    }

    fn run_batch_operator(
        &self,
        relation: &'a Relation,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        match relation {
            Relation::Scan(scan) => self.batch_scan(scan, sink),
            Relation::Filter { input, predicate } => {
                let mut filter = BatchFilter::new(predicate);
                self.run_batches(input, &mut |frames| self.filtered(&mut filter, frames, sink))
            }
            Relation::Project { input, slot, expressions } => {
                self.batch_project(input, *slot, expressions, sink)
            }
            Relation::Distinct { input, slot } => self.batch_distinct(input, *slot, sink),
            Relation::Window { input, slot, calls } => self.batch_window(input, *slot, calls, sink),
            Relation::Join(join) if is_batch_join(join) => self.batch_join(join, sink),
            _ => self.collected(relation, sink),
        }
    }

    /// Pushes what a filter leaves of a batch.
    fn filtered(
        &self,
        filter: &mut BatchFilter<'a>,
        frames: &mut Frames<'a>,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        let error = filter.apply(self, frames);
        if frames.len() > 0 && sink(frames)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        error.map_or(Ok(Flow::Continue), Err)
    }

    fn batch_scan(&self, scan: &'a Scan, sink: BatchSink<'_, 'a>) -> Result<Flow, SqlError> {
        if !matches!(scan.access, Access::Full) {
            return self.collected_scan(scan, sink);
        }
        let table = table_of(self.executor.tables, scan.table)?;
        let mut filter =
            scan.filter.as_ref().map(|filter| BatchFilter::of_scan(self, scan.slot, filter));
        let mut frames = Frames::of(scan.slot, Content::Rows(RowBatch::new(table)));
        let (mut cursor, mut size) = (ScanCursor::new(), FIRST_BATCH);
        loop {
            self.check()?;
            frames.clear();
            let Some(rows) = frames.first_rows() else { return Ok(Flow::Continue) };
            rows.fill(&mut cursor, size);
            let length = rows.len();
            if length == 0 {
                return Ok(Flow::Continue);
            }
            frames.set_length(length);
            let flow = match &mut filter {
                Some(filter) => self.filtered(filter, &mut frames, sink)?,
                None => sink(&mut frames)?,
            };
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
            size = (size * 2).min(BATCH);
        }
    }

    fn batch_project(
        &self,
        input: &'a Relation,
        slot: u16,
        expressions: &'a [Expression],
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        let cells = self.buffer(slot, expressions.len());
        let mut programs = Programs::new(expressions.iter());
        self.run_batches(input, &mut |frames| {
            let error = programs.compute(self, frames);
            frames.truncate(programs.length());
            frames.push_slot(slot, Content::Values(programs.take(), cells));
            let flow = if frames.len() > 0 { sink(frames)? } else { Flow::Continue };
            if let Some(Content::Values(columns, _)) = frames.pop_slot() {
                programs.give_back(columns);
            }
            match error {
                Some(error) if flow == Flow::Continue => Err(error),
                _ => Ok(flow),
            }
        })
    }

    /// A scan through an index, its rows collected into batches.
    fn collected_scan(&self, scan: &'a Scan, sink: BatchSink<'_, 'a>) -> Result<Flow, SqlError> {
        let table = table_of(self.executor.tables, scan.table)?;
        let frames = Frames::of(scan.slot, Content::Rows(RowBatch::new(table)));
        self.collect(frames, &mut |sink| self.scan(scan, sink), sink)
    }

    /// The frames of an operator that has no form for batches.
    fn collected(&self, relation: &'a Relation, sink: BatchSink<'_, 'a>) -> Result<Flow, SqlError> {
        let frames = self.shape(relation)?.expect("operators in batches have a shape");
        self.collect(frames, &mut |sink| self.run_operator(relation, sink), sink)
    }

    fn collect(
        &self,
        mut frames: Frames<'a>,
        run: &mut dyn FnMut(Sink<'_>) -> Result<Flow, SqlError>,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        let (mut flow, mut sink_failed) = (Flow::Continue, false);
        let result = run(&mut || {
            frames.push_current(self)?;
            if frames.len() >= BATCH {
                sink_failed = true;
                flow = sink(&mut frames)?;
                sink_failed = false;
                frames.clear();
            }
            Ok(flow)
        });
        // What came before an error goes on first; an error of the sink is the end.
        if flow == Flow::Continue && !sink_failed && frames.len() > 0 {
            flow = sink(&mut frames)?;
        }
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
        result
    }

    /// Frames of a relation's slots, without any yet; `None` when the kinds of their columns are
    /// not known.
    fn shape(&self, relation: &Relation) -> Result<Option<Frames<'a>>, SqlError> {
        let (mut frames, own) = match relation {
            Relation::Scan(scan) => {
                let table = table_of(self.executor.tables, scan.table)?;
                return Ok(Some(Frames::of(scan.slot, Content::Rows(RowBatch::new(table)))));
            }
            Relation::Receive { slot, types, .. } => {
                (Some(Frames::default()), Some((*slot, types.clone())))
            }
            Relation::Filter { input, .. }
            | Relation::Sort { input, .. }
            | Relation::Limit { input, .. }
            | Relation::Distinct { input, .. } => (self.shape(input)?, None),
            Relation::Project { input, slot, expressions } => {
                (self.shape(input)?, Some((*slot, types_of(expressions))))
            }
            Relation::Window { input, slot, calls } => {
                let types = calls.iter().map(|call| call.sql_type).collect();
                (self.shape(input)?, Some((*slot, types)))
            }
            Relation::Aggregate { slot, group, calls, .. } => {
                let mut types = types_of(group);
                types.extend(calls.iter().map(|call| call.sql_type));
                (Some(Frames::default()), Some((*slot, types)))
            }
            Relation::Join(join) => {
                let mut left = self.shape(&join.left)?;
                if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                    let right = self.shape(&join.right)?;
                    left = left.zip(right).map(|(mut left, right)| {
                        let slots = right.slots().iter().cloned();
                        slots.for_each(|(slot, content)| left.push_slot(slot, content));
                        left
                    });
                }
                (left, None)
            }
            Relation::OneRow
            | Relation::SetOperation { .. }
            | Relation::Recursive { .. }
            | Relation::Working { .. } => (None, None),
        };
        if let (Some(frames), Some((slot, types))) = (&mut frames, own) {
            let column = |sql_type: &SqlType| Vector::new(Kind::of(*sql_type).unwrap_or(Kind::Int));
            let columns: Vec<Vector<'a>> = types.iter().map(column).collect();
            let cells = self.buffer(slot, columns.len());
            frames.push_slot(slot, Content::Values(columns, cells));
        }
        Ok(frames)
    }
}

fn types_of(expressions: &[Expression]) -> Vec<SqlType> {
    expressions.iter().map(|expression| expression.sql_type).collect()
}

/// Whether a join has a form for batches of its left side.
fn is_batch_join(join: &Join) -> bool {
    let kind =
        matches!(join.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti);
    kind && match &join.method {
        JoinMethod::Hash { left, right } => {
            join::key_kinds(left, right).is_some() && has_shape(&join.right)
        }
        JoinMethod::NestedLoop => join::is_lookup(join),
    }
}

/// Whether the kinds of a relation's columns are known.
fn has_shape(relation: &Relation) -> bool {
    match relation {
        Relation::Scan(_) | Relation::Receive { .. } | Relation::Aggregate { .. } => true,
        Relation::Filter { input, .. }
        | Relation::Sort { input, .. }
        | Relation::Limit { input, .. }
        | Relation::Distinct { input, .. }
        | Relation::Project { input, .. }
        | Relation::Window { input, .. } => has_shape(input),
        Relation::Join(join) => has_shape(&join.left) && has_shape(&join.right),
        _ => false,
    }
}

impl<'a> Frames<'a> {
    /// Appends the current frame of the run.
    fn push_current(&mut self, run: &Run<'_, 'a>) -> Result<(), SqlError> {
        let length = self.len() + 1;
        for (slot, content) in self.slots_mut() {
            let pushed = match (content, run.frame.slot(*slot)) {
                (Content::Rows(rows), Slot::Row(_, id)) => rows.push(id),
                (Content::Rows(rows), Slot::Unbound) => {
                    rows.push_gap();
                    true
                }
                (Content::Values(columns, _), _) => {
                    let number = (0..).zip(columns.iter_mut());
                    number.fold(true, |pushed, (column, values)| {
                        pushed & values.push_number(run.frame.column(*slot, column))
                    })
                }
                (Content::Rows(_), _) => false,
            };
            if !pushed {
                return Err(SqlError::sql("a computed value is not of its column's type"));
            }
        }
        self.set_length(length);
        Ok(())
    }
}
