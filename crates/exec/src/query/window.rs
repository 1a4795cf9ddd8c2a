//! Window functions: the input is kept, ordered per call, and walked partition by partition.

mod distance;

use super::batch::WindowColumns;
use super::saved::SavedFrames;
use super::sort::{Direction, compare_keys, sorted_numbers};
use super::{Flow, Run, Sink};
use crate::aggregate::Accumulator;
use crate::error::SqlError;
use crate::frame::Slot;
use distance::Distance;
use lockstep_plan_ir::relation::{
    FrameBound, FrameExclusion, FrameUnit, Relation, SortKey, WindowCall, WindowFrame,
    WindowFunction,
};
use lockstep_plan_ir::{AggregateFunction, Expression};
use lockstep_types::Datum;
use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

/// The rows of one call: their order, keys and arguments.
pub(super) struct Ordered<'a> {
    /// Frame numbers by partition, then order.
    pub(super) order: Rc<Vec<u32>>,
    pub(super) values: RowValues<'a>,
    pub(super) key_width: usize,
    pub(super) partition_width: usize,
    pub(super) directions: Vec<Direction>,
}

/// Keys and arguments: the call's own, then the offsets of its frame's bounds.
pub(super) enum RowValues<'a> {
    /// Row by row, in the order of the frames.
    Rows { keys: Vec<Datum<'a>>, arguments: Vec<Datum<'a>>, argument_width: usize },
    /// Column by column, ordered.
    Columns(WindowColumns<'a>),
}

impl<'a> Ordered<'a> {
    fn key(&self, position: usize, column: usize) -> Option<Datum<'a>> {
        if column >= self.key_width {
            return None;
        }
        Some(match &self.values {
            RowValues::Rows { keys, .. } => {
                keys[self.order[position] as usize * self.key_width + column]
            }
            RowValues::Columns(columns) => columns.key(position, column),
        })
    }

    fn argument(&self, position: usize, number: usize) -> Datum<'a> {
        match &self.values {
            RowValues::Rows { arguments, argument_width, .. } if number < *argument_width => {
                arguments[self.order[position] as usize * argument_width + number]
            }
            RowValues::Rows { .. } => Datum::Null,
            RowValues::Columns(columns) => columns.argument(position, number),
        }
    }

    fn same(&self, a: usize, b: usize, columns: Range<usize>) -> bool {
        match &self.values {
            RowValues::Rows { keys, .. } => {
                let directions = &self.directions[columns.clone()];
                let row = |position: usize| {
                    let start = self.order[position] as usize * self.key_width;
                    &keys[start + columns.start..start + columns.end]
                };
                compare_keys(directions, row(a), row(b)) == Ordering::Equal
            }
            RowValues::Columns(keys) => keys.same(a, b, columns),
        }
    }

    /// Runs of positions within `range` that are equal in the columns.
    fn runs(&self, range: Range<usize>, columns: Range<usize>) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        let mut start = range.start;
        for position in range.clone() {
            if position + 1 == range.end || !self.same(position, position + 1, columns.clone()) {
                runs.push(start..position + 1);
                start = position + 1;
            }
        }
        runs
    }
}

impl<'a> Run<'_, 'a> {
    pub(super) fn window(
        &self,
        input: &'a Relation,
        slot: u16,
        calls: &'a [WindowCall],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let mut frames = SavedFrames::of(input);
        self.run(input, &mut || {
            frames.push(self)?;
            Ok(Flow::Continue)
        })?;
        let mut columns: Vec<Vec<Datum<'a>>> = Vec::with_capacity(calls.len());
        let mut output_order: Option<Rc<Vec<u32>>> = None;
        for call in calls {
            let ordered = self.ordered(call, &frames)?;
            let values = self.compute(call, &ordered)?;
            let mut column = vec![Datum::Null; values.len()];
            for (frame, value) in ordered.order.iter().zip(values) {
                column[*frame as usize] = value;
            }
            columns.push(column);
            output_order.get_or_insert(ordered.order);
        }
        let cells = self.buffer(slot, calls.len());
        for frame in output_order.iter().flat_map(|order| order.iter().copied()) {
            self.tick()?;
            frames.restore(self, frame as usize);
            for (cell, column) in cells.iter().zip(&columns) {
                cell.set(column[frame as usize]);
            }
            self.frame.bind(slot, Slot::Buffer(cells));
            if sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn ordered(
        &self,
        call: &'a WindowCall,
        frames: &SavedFrames<'a>,
    ) -> Result<Ordered<'a>, SqlError> {
        let mut directions: Vec<Direction> =
            call.partition.iter().map(|key| Direction::ascending(key.sql_type)).collect();
        directions.extend(call.order.iter().map(Direction::of));
        let bounds = frame_offsets(call.frame.as_ref());
        let mut keys = Vec::with_capacity(frames.len() * directions.len());
        let mut arguments = Vec::new();
        for frame in 0..frames.len() {
            self.tick()?;
            frames.restore(self, frame);
            for key in &call.partition {
                keys.push(self.value(key)?);
            }
            for SortKey { expression, .. } in &call.order {
                keys.push(self.value(expression)?);
            }
            for argument in call.arguments.iter().chain(bounds.iter().copied().flatten()) {
                arguments.push(self.value(argument)?);
            }
        }
        let argument_width = call.arguments.len() + bounds.iter().flatten().count();
        self.charge((keys.len() + arguments.len()) * size_of::<Datum<'_>>())?;
        let order = match directions.is_empty() {
            true => (0..frames.len() as u32).collect(),
            false => sorted_numbers(&directions, &keys),
        };
        Ok(Ordered {
            order: Rc::new(order),
            values: RowValues::Rows { keys, arguments, argument_width },
            key_width: directions.len(),
            partition_width: call.partition.len(),
            directions,
        })
    }

    /// The call's values, ordered.
    pub(super) fn compute(
        &self,
        call: &'a WindowCall,
        rows: &Ordered<'a>,
    ) -> Result<Vec<Datum<'a>>, SqlError> {
        let mut values = vec![Datum::Null; rows.order.len()];
        self.charge(values.len() * size_of::<Datum<'_>>())?;
        for partition in rows.runs(0..rows.order.len(), 0..rows.partition_width) {
            let peers = rows.runs(partition.clone(), rows.partition_width..rows.key_width);
            let mut put = |position: usize, value: Datum<'a>| {
                values[position] = value;
            };
            match call.function {
                WindowFunction::RowNumber => partition.clone().for_each(|position| {
                    put(position, Datum::Int((position - partition.start) as i64 + 1));
                }),
                WindowFunction::Rank | WindowFunction::DenseRank => {
                    for (number, group) in peers.iter().enumerate() {
                        let rank = match call.function {
                            WindowFunction::Rank => group.start - partition.start,
                            _ => number,
                        };
                        group.clone().for_each(|position| {
                            put(position, Datum::Int(rank as i64 + 1));
                        });
                    }
                }
                WindowFunction::Lag | WindowFunction::Lead => {
                    for position in partition.clone() {
                        put(position, shifted(call, rows, &partition, position)?);
                    }
                }
                WindowFunction::PercentRank | WindowFunction::CumeDist => {
                    let count = partition.len() as f64;
                    for group in &peers {
                        let before = (group.start - partition.start) as f64;
                        let share = match call.function {
                            WindowFunction::CumeDist => {
                                (group.end - partition.start) as f64 / count
                            }
                            _ if partition.len() == 1 => 0.0,
                            _ => before / (count - 1.0),
                        };
                        group.clone().for_each(|position| put(position, Datum::Float(share)));
                    }
                }
                WindowFunction::Ntile => {
                    for position in partition.clone() {
                        put(position, tile(rows, &partition, position)?);
                    }
                }
                WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue => {
                    for position in partition.clone() {
                        let within = bounds(call, rows, &partition, &peers, position)?;
                        if let Some(at) = picked(call, rows, &within, position)? {
                            put(position, rows.argument(at, 0));
                        }
                    }
                }
                WindowFunction::Aggregate(function) => {
                    self.aggregates(call, function, rows, (&partition, &peers), &mut put)?;
                }
            }
        }
        Ok(values)
    }

    /// An aggregate up to each row and its peers; without an order, over the whole partition.
    fn running(
        &self,
        call: &'a WindowCall,
        function: AggregateFunction,
        rows: &Ordered<'a>,
        (partition, peers): (&Range<usize>, &[Range<usize>]),
        put: &mut impl FnMut(usize, Datum<'a>),
    ) -> Result<(), SqlError> {
        let mut accumulator = Accumulator::new(function, false, call.sql_type);
        let whole = std::slice::from_ref(partition);
        for group in if call.order.is_empty() { whole } else { peers } {
            for position in group.clone() {
                self.tick()?;
                accumulator.add(match call.arguments.is_empty() {
                    true => Datum::Bool(true),
                    false => rows.argument(position, 0),
                })?;
            }
            let value = accumulator.finish(self.context.arena)?;
            group.clone().for_each(|position| put(position, value));
        }
        Ok(())
    }

    /// An aggregate over each row's frame. Frames that only grow are added to; others start again.
    fn aggregates(
        &self,
        call: &'a WindowCall,
        function: AggregateFunction,
        rows: &Ordered<'a>,
        (partition, peers): (&Range<usize>, &[Range<usize>]),
        put: &mut impl FnMut(usize, Datum<'a>),
    ) -> Result<(), SqlError> {
        if call.frame.is_none() {
            return self.running(call, function, rows, (partition, peers), put);
        }
        let mut accumulator = Accumulator::new(function, false, call.sql_type);
        let mut covered = partition.start..partition.start;
        let mut value = None;
        for position in partition.clone() {
            let Within { range: within, hole } = bounds(call, rows, partition, peers, position)?;
            let holed = !hole.is_empty();
            if holed || within.start != covered.start || within.end < covered.end {
                accumulator = Accumulator::new(function, false, call.sql_type);
                covered = within.start..within.start;
                value = None;
            }
            for added in covered.end..within.end {
                self.tick()?;
                if hole.contains(added, position) {
                    continue;
                }
                let argument = match call.arguments.is_empty() {
                    true => Datum::Bool(true),
                    false => rows.argument(added, 0),
                };
                accumulator.add(argument)?;
                value = None;
            }
            // What was left out here may count for the next row.
            covered = if holed { within.start..usize::MAX } else { within };
            let result = match value {
                Some(value) => value,
                None => accumulator.finish(self.context.arena)?,
            };
            value = Some(result);
            put(position, result);
        }
        Ok(())
    }
}

/// The offset expressions of a frame's bounds: start, then end.
pub(super) fn frame_offsets(frame: Option<&WindowFrame>) -> [Option<&Expression>; 2] {
    frame.map_or([None, None], |frame| [offset_of(&frame.start), offset_of(&frame.end)])
}

fn offset_of(bound: &FrameBound) -> Option<&Expression> {
    match bound {
        FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
        _ => None,
    }
}

/// LAG and LEAD: value, offset (1 unless given), default.
fn shifted<'a>(
    call: &WindowCall,
    rows: &Ordered<'a>,
    partition: &Range<usize>,
    position: usize,
) -> Result<Datum<'a>, SqlError> {
    let offset = match call.arguments.len() {
        0 | 1 => 1,
        _ => match rows.argument(position, 1) {
            Datum::Int(offset) => offset,
            Datum::Null => return Ok(Datum::Null),
            other => return Err(SqlError::argument(format!("an offset of rows is no {other}"))),
        },
    };
    let offset =
        if call.function == WindowFunction::Lag { offset.saturating_neg() } else { offset };
    let at = (position as i64).saturating_add(offset);
    match usize::try_from(at) {
        Ok(at) if partition.contains(&at) => Ok(rows.argument(at, 0)),
        _ if call.arguments.len() > 2 => Ok(rows.argument(position, 2)),
        _ => Ok(Datum::Null),
    }
}

/// NTILE: which of N parts, as equal as can be, a row is in.
fn tile<'a>(
    rows: &Ordered<'a>,
    partition: &Range<usize>,
    position: usize,
) -> Result<Datum<'a>, SqlError> {
    let parts = match rows.argument(position, 0) {
        Datum::Null => return Ok(Datum::Null),
        Datum::Int(parts @ 1..) => parts as u64,
        other => {
            let message = format!("NTILE makes a number of parts above 0, not {other}");
            return Err(SqlError::argument(message));
        }
    };
    let (count, row) = (partition.len() as u64, (position - partition.start) as u64);
    // The first parts are longer by one where the rows do not divide evenly.
    let (size, longer) = (count / parts, count % parts);
    let in_longer = longer * (size + 1);
    let number = match row < in_longer {
        true => row / (size + 1),
        false => longer + (row - in_longer) / size,
    };
    Ok(Datum::Int(number as i64 + 1))
}

/// The row that FIRST_VALUE, LAST_VALUE or NTH_VALUE takes its value from.
fn picked(
    call: &WindowCall,
    rows: &Ordered<'_>,
    within: &Within,
    position: usize,
) -> Result<Option<usize>, SqlError> {
    let mut inside = within.range.clone().filter(|at| !within.hole.contains(*at, position));
    Ok(match call.function {
        WindowFunction::FirstValue => inside.next(),
        WindowFunction::LastValue => inside.next_back(),
        _ => match rows.argument(position, 1) {
            Datum::Null => None,
            Datum::Int(number @ 1..) => match usize::try_from(number - 1) {
                Ok(skipped) if within.hole.is_empty() => {
                    within.range.start.checked_add(skipped).filter(|at| *at < within.range.end)
                }
                Ok(skipped) => inside.nth(skipped),
                Err(_) => None,
            },
            other => {
                let message = format!("NTH_VALUE counts rows from 1 on, not {other}");
                return Err(SqlError::argument(message));
            }
        },
    })
}

/// The positions of a row's frame.
struct Within {
    range: Range<usize>,
    hole: Hole,
}

/// The positions that EXCLUDE leaves out.
struct Hole {
    range: Range<usize>,
    /// The current row stays all the same.
    keeps_own: bool,
}

impl Hole {
    fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn contains(&self, position: usize, own: usize) -> bool {
        self.range.contains(&position) && !(self.keeps_own && position == own)
    }
}

/// The number of the run of peers that a position is in.
fn group_of(peers: &[Range<usize>], position: usize) -> usize {
    peers.partition_point(|peer| peer.end <= position)
}

/// The positions of a row's frame.
fn bounds(
    call: &WindowCall,
    rows: &Ordered<'_>,
    partition: &Range<usize>,
    peers: &[Range<usize>],
    position: usize,
) -> Result<Within, SqlError> {
    let group = group_of(peers, position);
    let own = peers.get(group).cloned().unwrap_or(position..position + 1);
    let nothing = Hole { range: 0..0, keeps_own: false };
    let Some(frame) = &call.frame else {
        let end = if call.order.is_empty() { partition.end } else { own.end };
        return Ok(Within { range: partition.start..end, hole: nothing });
    };
    let hole = match frame.exclusion {
        FrameExclusion::Nothing => nothing,
        FrameExclusion::CurrentRow => Hole { range: position..position + 1, keeps_own: false },
        FrameExclusion::Group => Hole { range: own.clone(), keeps_own: false },
        FrameExclusion::Ties => Hole { range: own.clone(), keeps_own: true },
    };
    let first_offset = call.arguments.len();
    let start_has_offset =
        matches!(frame.start, FrameBound::Preceding(_) | FrameBound::Following(_));
    let end_offset = first_offset + usize::from(start_has_offset);
    let scope = Scope { rows, partition, peers, group, own, position, unit: frame.unit };
    let start = scope.edge(&frame.start, first_offset, false)?;
    let end = scope.edge(&frame.end, end_offset, true)?;
    Ok(Within { range: start..end.max(start), hole })
}

/// What the bounds of one row's frame are counted from.
struct Scope<'s, 'a> {
    rows: &'s Ordered<'a>,
    partition: &'s Range<usize>,
    peers: &'s [Range<usize>],
    /// The number of this row's run of peers.
    group: usize,
    /// The rows that the order does not tell from this one.
    own: Range<usize>,
    position: usize,
    unit: FrameUnit,
}

impl Scope<'_, '_> {
    /// The first position of the frame, or, for its end, the one after the last.
    fn edge(&self, bound: &FrameBound, offset: usize, end: bool) -> Result<usize, SqlError> {
        let Range { start: first, end: last } = *self.partition;
        let at = match bound {
            FrameBound::UnboundedPreceding => first,
            FrameBound::UnboundedFollowing => last,
            FrameBound::CurrentRow if self.unit == FrameUnit::Rows => {
                self.position + usize::from(end)
            }
            FrameBound::CurrentRow if end => self.own.end,
            FrameBound::CurrentRow => self.own.start,
            FrameBound::Preceding(_) => self.shifted_edge(offset, true, end)?,
            FrameBound::Following(_) => self.shifted_edge(offset, false, end)?,
        };
        Ok(at.clamp(first, last))
    }

    fn shifted_edge(&self, offset: usize, back: bool, end: bool) -> Result<usize, SqlError> {
        let offset = self.rows.argument(self.position, offset);
        if self.unit == FrameUnit::Range {
            return self.value_edge(offset, back, end);
        }
        let Datum::Int(offset @ 0..) = offset else {
            return Err(bad_offset(offset));
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if self.unit == FrameUnit::Groups {
            return Ok(self.group_edge(offset, back, end));
        }
        let at = self.position + usize::from(end);
        Ok(if back { at.saturating_sub(offset) } else { at.saturating_add(offset) })
    }

    /// GROUPS with an offset: N runs of peers away.
    fn group_edge(&self, offset: usize, back: bool, end: bool) -> usize {
        let Range { start: first, end: last } = *self.partition;
        let group = match back {
            true => self.group.checked_sub(offset),
            false => self.group.checked_add(offset),
        };
        match group.and_then(|group| self.peers.get(group)) {
            Some(peers) if end => peers.end,
            Some(peers) => peers.start,
            None if back => first,
            None => last,
        }
    }

    /// RANGE with an offset: by the value of the one key.
    fn value_edge(&self, offset: Datum<'_>, back: bool, end: bool) -> Result<usize, SqlError> {
        let rows = self.rows;
        let column = rows.partition_width;
        let Some(distance) = Distance::of(offset).filter(|distance| !distance.is_invalid()) else {
            return Err(bad_offset(offset));
        };
        let Some(here) = rows.key(self.position, column).and_then(Distance::of) else {
            return Ok(if end { self.own.end } else { self.own.start });
        };
        let descending = rows.directions[column].is_descending();
        let limit = here.moved(distance, back != descending);
        let before = |position: usize| {
            let Some(value) = rows.key(position, column).and_then(Distance::of) else {
                // NULLs are peers of each other only: outside, at whichever end they stand.
                return position < self.position;
            };
            let order = value.compare(limit);
            let order = if descending { order.reverse() } else { order };
            order == Ordering::Less || end && order == Ordering::Equal
        };
        let Range { start: mut low, end: mut high } = *self.partition;
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

#[cold]
fn bad_offset(offset: Datum<'_>) -> SqlError {
    SqlError::argument(format!(
        "the offset of a window frame is {offset}; it must be a number from 0 on"
    ))
}
