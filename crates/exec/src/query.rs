//! Runs relations: each operator pushes its frames into the sink of the operator above.
//!
//! All operators of a statement share one frame. An operator binds its slot and calls its sink;
//! when the sink returns, the slot may hold anything. What an operator keeps beyond that call it
//! copies (`saved`), and what it keeps is counted against the statement's memory.

mod batch;
mod filter;
mod group;
mod join;
mod output;
mod recursive;
mod saved;
mod scan;
mod set;
mod sort;
mod subquery;
mod table;
mod window;

pub(crate) use output::{too_large, unsound, write_query};
pub(crate) use scan::KeyRange;
pub(crate) use table::RowTable;

use crate::context::Context;
use crate::error::SqlError;
use crate::evaluate::{evaluate, is_true};
use crate::frame::{Frame, Slot};
use crate::watch::{OperatorProfile, Profiler, ROWS_PER_CHECK, Watch};
use batch::is_batch_sort;
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::Relation;
use lockstep_storage::Tables;
use lockstep_types::table::DecodeError;
use lockstep_types::{Datum, SqlType, TableView};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use subquery::Kept;

/// What bounds and watches an execution.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// Memory for intermediate results, in bytes.
    pub(crate) memory_limit: usize,
    /// Tables of N rows are read in batches; none to run all relations row by row.
    pub(crate) batch_rows_min: Option<u64>,
    /// Stops and counts.
    pub(crate) watch: &'a Watch,
}

/// Whether the producer of rows should go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

/// Where an operator's frames go: called once per frame.
pub(crate) type Sink<'s> = &'s mut dyn FnMut() -> Result<Flow, SqlError>;

/// Rows of the round before, of a recursive common table.
type WorkingRows<'a> = Rc<Vec<&'a [Datum<'a>]>>;

/// What one execution of a statement reads and keeps.
pub(crate) struct Executor<'a> {
    pub(crate) tables: &'a Tables,
    /// Per fragment, the tables that the partitions sent.
    received: &'a [Vec<TableView<'a>>],
    /// Per slot, the buffer of its computed rows, once there was one.
    buffers: &'a [Cell<&'a [Cell<Datum<'a>>]>],
    kept: RefCell<Vec<Option<Rc<Kept<'a>>>>>,
    working: RefCell<Vec<Option<WorkingRows<'a>>>>,
    settings: Settings<'a>,
    memory_used: Cell<usize>,
    /// Rows until the next look at memory and the stop check.
    until_check: Cell<u32>,
}

impl<'a> Executor<'a> {
    /// An executor for a statement with this many slots.
    pub(crate) fn new(
        tables: &'a Tables,
        arena: &'a crate::arena::Arena,
        received: &'a [Vec<TableView<'a>>],
        slot_count: usize,
        settings: Settings<'a>,
    ) -> Executor<'a> {
        let empty: &'a [Cell<Datum<'a>>] =
            Cell::from_mut(arena.fill(0, Datum::Null)).as_slice_of_cells();
        let buffers = Cell::from_mut(arena.fill(slot_count, empty)).as_slice_of_cells();
        Executor {
            tables,
            received,
            buffers,
            kept: RefCell::default(),
            working: RefCell::default(),
            settings,
            memory_used: Cell::new(0),
            until_check: Cell::new(ROWS_PER_CHECK),
        }
    }
}

/// A run of relations: the executor, what expressions reach, and the frame.
#[derive(Clone, Copy)]
pub(crate) struct Run<'e, 'a> {
    pub(crate) executor: &'e Executor<'a>,
    pub(crate) context: &'e Context<'a>,
    pub(crate) frame: Frame<'a>,
}

impl<'a> Run<'_, 'a> {
    /// The value of an expression over the current frame.
    #[inline]
    pub(crate) fn value(&self, expression: &'a Expression) -> Result<Datum<'a>, SqlError> {
        evaluate(expression, self.context, &self.frame)
    }

    /// Whether a condition is true (and not NULL).
    #[inline]
    pub(crate) fn holds(&self, condition: &'a Expression) -> Result<bool, SqlError> {
        is_true(condition, self.context, &self.frame)
    }

    /// Counts memory that an operator keeps until the statement ends.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), SqlError> {
        let executor = self.executor;
        let kept = executor.memory_used.get() + bytes;
        executor.memory_used.set(kept);
        let limit = executor.settings.memory_limit;
        if kept + self.context.arena.taken_bytes() > limit {
            return Err(SqlError::temporary_memory(limit));
        }
        self.tick()
    }

    /// Counts one step of a loop: every so often the statement's memory and time are looked at.
    #[inline]
    pub(crate) fn tick(&self) -> Result<(), SqlError> {
        let left = self.executor.until_check.get();
        // Rows may compute large values: those are looked at with each.
        let large = self.context.arena.taken_bytes() > self.executor.settings.memory_limit;
        if left == 0 || large {
            return self.check();
        }
        self.executor.until_check.set(left - 1);
        Ok(())
    }

    /// Holds the memory of the statement against its limit, and asks whether it has to stop.
    #[cold]
    #[inline(never)]
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        let executor = self.executor;
        executor.until_check.set(ROWS_PER_CHECK);
        let used = executor.memory_used.get() + self.context.arena.taken_bytes();
        let limit = executor.settings.memory_limit;
        if used > limit {
            return Err(SqlError::temporary_memory(limit));
        }
        executor.settings.watch.check()
    }

    /// The buffer for the computed rows of a slot.
    pub(crate) fn buffer(&self, slot: u16, width: usize) -> &'a [Cell<Datum<'a>>] {
        let place = &self.executor.buffers[usize::from(slot)];
        if place.get().len() < width {
            let cells = self.context.arena.fill(width, Datum::Null);
            place.set(Cell::from_mut(cells).as_slice_of_cells());
        }
        place.get()
    }

    /// Evaluates a computed row into the slot's buffer, and binds it when all is evaluated.
    #[inline]
    pub(crate) fn bind_expressions(
        &self,
        slot: u16,
        cells: &'a [Cell<Datum<'a>>],
        expressions: &'a [Expression],
    ) -> Result<(), SqlError> {
        for (cell, expression) in cells.iter().zip(expressions) {
            cell.set(self.value(expression)?);
        }
        self.frame.bind(slot, Slot::Buffer(cells));
        Ok(())
    }

    /// Pushes the relation's frames into the sink until they end or the sink has enough.
    pub(crate) fn run(&self, relation: &'a Relation, sink: Sink<'_>) -> Result<Flow, SqlError> {
        if let Some(profiler) = &self.executor.settings.watch.profiler {
            return self.run_counted(profiler, relation, sink);
        }
        self.run_operator(relation, sink)
    }

    #[cold]
    #[inline(never)]
    fn run_counted(
        &self,
        profiler: &Profiler,
        relation: &'a Relation,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let start = profiler.now();
        let (mut rows, mut above) = (0, 0);
        let flow = self.run_operator(relation, &mut || {
            rows += 1;
            let start = profiler.now();
            let flow = sink();
            above += profiler.now().saturating_sub(start);
            flow
        });
        let ticks = profiler.now().saturating_sub(start).saturating_sub(above);
        profiler.add(relation, OperatorProfile { rows, loops: 1, ticks });
        flow
    }

    fn run_operator(&self, relation: &'a Relation, sink: Sink<'_>) -> Result<Flow, SqlError> {
        if let Some(input) = batched_input(relation)
            && self.is_worth_batches(input)
        {
            return self.run_batched(relation, sink);
        }
        self.run_rows(relation, sink)
    }

    /// Runs a relation whose input is worth batches.
    fn run_batched(&self, relation: &'a Relation, sink: Sink<'_>) -> Result<Flow, SqlError> {
        match relation {
            Relation::Aggregate { input, slot, group, calls } => {
                if let Some(flow) = self.counted_group(input, *slot, group, calls, sink)? {
                    return Ok(flow);
                }
                self.batch_aggregate(input, *slot, group, calls, sink)
            }
            Relation::Sort { input, keys, limit, offset }
                if is_batch_sort(keys, limit.is_some()) =>
            {
                let cut = self.cut(limit.as_ref(), offset.as_ref())?;
                self.batch_sort(input, keys, cut, sink)
            }
            Relation::Scan(_)
            | Relation::Filter { .. }
            | Relation::Project { .. }
            | Relation::Distinct { .. }
            | Relation::Window { .. }
            | Relation::Join(_) => self.run_in_batches(relation, sink),
            _ => self.run_rows(relation, sink),
        }
    }

    fn run_rows(&self, relation: &'a Relation, sink: Sink<'_>) -> Result<Flow, SqlError> {
        match relation {
            Relation::OneRow => sink(),
            Relation::Scan(scan) => self.scan(scan, sink),
            Relation::Receive { slot, fragment, types } => {
                self.receive(*slot, *fragment, types, sink)
            }
            Relation::Filter { input, predicate } => self.run(input, &mut || {
                if self.holds(predicate)? { sink() } else { Ok(Flow::Continue) }
            }),
            Relation::Project { input, slot, expressions } => {
                let cells = self.buffer(*slot, expressions.len());
                self.run(input, &mut || {
                    self.bind_expressions(*slot, cells, expressions)?;
                    sink()
                })
            }
            Relation::Join(join) => self.join(join, sink),
            Relation::Aggregate { input, slot, group, calls } => {
                self.aggregate(input, *slot, group, calls, sink)
            }
            Relation::Sort { input, keys, limit, offset } => {
                let cut = self.cut(limit.as_ref(), offset.as_ref())?;
                self.sort(input, keys, cut, sink)
            }
            Relation::Limit { input, limit, offset } => {
                let cut = self.cut(limit.as_ref(), offset.as_ref())?;
                self.limit(input, cut, sink)
            }
            Relation::Distinct { input, slot } => self.distinct(input, *slot, sink),
            Relation::SetOperation { operator, all, branches, slot } => {
                self.set_operation(*operator, *all, branches, *slot, sink)
            }
            Relation::Window { input, slot, calls } => self.window(input, *slot, calls, sink),
            Relation::Recursive { number, base, step, all, slot } => {
                self.recursive((*number, *slot, *all), base, step, sink)
            }
            Relation::Working { number, slot } => self.working(*number, *slot, sink),
        }
    }

    /// LIMIT and OFFSET as numbers; NULL and negative numbers are refused.
    fn cut(
        &self,
        limit: Option<&'a Expression>,
        offset: Option<&'a Expression>,
    ) -> Result<Cut, SqlError> {
        let number = |expression: Option<&'a Expression>, name: &str| match expression {
            None => Ok(None),
            Some(expression) => match self.value(expression)? {
                Datum::Int(number) if number >= 0 => Ok(Some(number as u64)),
                value => Err(SqlError::argument(format!(
                    "Negative or NULL argument to {name}: {value}. It takes a number from 0 on."
                ))),
            },
        };
        let limit = number(limit, "LIMIT")?.unwrap_or(u64::MAX);
        Ok(Cut { offset: number(offset, "OFFSET")?.unwrap_or(0), limit })
    }

    fn limit(&self, input: &'a Relation, cut: Cut, sink: Sink<'_>) -> Result<Flow, SqlError> {
        let mut seen = 0u64;
        let end = cut.end();
        if cut.limit == 0 {
            return Ok(Flow::Continue);
        }
        let mut outer = Flow::Continue;
        self.run(input, &mut || {
            seen += 1;
            if seen > cut.offset {
                outer = sink()?;
            }
            Ok(if seen >= end { Flow::Stop } else { outer })
        })?;
        Ok(outer)
    }

    fn receive(
        &self,
        slot: u16,
        fragment: u16,
        types: &[SqlType],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let cells = self.buffer(slot, types.len());
        let mut values = Vec::with_capacity(types.len());
        let tables = self.executor.received.get(usize::from(fragment));
        for table in tables.into_iter().flatten() {
            if table.column_count() != types.len() {
                return Err(SqlError::sql(format!(
                    "fragment {fragment} sent {} columns instead of {}",
                    table.column_count(),
                    types.len()
                )));
            }
            for row in table.rows() {
                let row = row.map_err(received_fault)?;
                values.clear();
                self.tick()?;
                row.read_into(&mut values).map_err(received_fault)?;
                cells.iter().zip(&values).for_each(|(cell, value)| cell.set(*value));
                self.frame.bind(slot, Slot::Buffer(cells));
                if sink()? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }
}

fn received_fault(error: DecodeError) -> SqlError {
    SqlError::sql(format!("a fragment's table cannot be read: {error}"))
}

/// What decides whether an operator runs in batches: its input, or the operator itself. Scans
/// without a filter give single rows as fast as they can be.
fn batched_input(relation: &Relation) -> Option<&Relation> {
    match relation {
        Relation::Aggregate { input, .. } | Relation::Sort { input, .. } => Some(input),
        Relation::Scan(scan) if scan.filter.is_none() => None,
        Relation::Scan(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Distinct { .. }
        | Relation::Window { .. }
        | Relation::Join(_) => Some(relation),
        _ => None,
    }
}

/// Which frames of a sequence are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    offset: u64,
    limit: u64,
}

impl Cut {
    /// Number of frames after which nothing more is wanted.
    fn end(self) -> u64 {
        self.offset.saturating_add(self.limit)
    }
}

/// The first column of a query's first row; NULL when there is none.
pub(crate) fn scalar_query<'a>(
    run: &Run<'_, 'a>,
    query: &'a lockstep_plan_ir::statement::Query,
) -> Result<Datum<'a>, SqlError> {
    let mut found = Datum::Null;
    run.run(&query.relation, &mut || {
        if let Some(expression) = query.output.first() {
            found = run.value(expression)?;
        }
        Ok(Flow::Stop)
    })?;
    Ok(found)
}
