//! Window functions over batches: the input is kept in columns, ordered once for all calls that
//! order alike, and given out again in batches.

use super::evaluate::Programs;
use super::frames::{Content, Frames};
use super::sort::{compare, sorted};
use super::vector::{Kind, Vector};
use super::{BATCH, BatchSink, Flow, Run};
use crate::error::SqlError;
use crate::query::sort::Direction;
use crate::query::window::{Ordered, RowValues, frame_offsets};
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::{Relation, WindowCall};
use lockstep_types::Datum;
use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

/// Keys and arguments of a call, in its order.
pub(in crate::query) struct WindowColumns<'a> {
    keys: Rc<Vec<Vector<'a>>>,
    directions: Vec<Direction>,
    arguments: Vec<Vector<'a>>,
}

impl<'a> WindowColumns<'a> {
    pub(in crate::query) fn key(&self, position: usize, column: usize) -> Datum<'a> {
        self.keys[column].datum(position)
    }

    pub(in crate::query) fn argument(&self, position: usize, number: usize) -> Datum<'a> {
        self.arguments.get(number).map_or(Datum::Null, |column| column.datum(position))
    }

    /// Whether two rows are equal in a range of key columns.
    #[inline]
    pub(in crate::query) fn same(&self, a: usize, b: usize, columns: Range<usize>) -> bool {
        let (directions, keys) = (&self.directions[columns.clone()], &self.keys[columns]);
        compare(directions, keys, a, keys, b) == Ordering::Equal
    }
}

/// An order with the keys in it, for all calls that have the same.
struct Sorting<'a> {
    call: &'a WindowCall,
    order: Rc<Vec<u32>>,
    keys: Rc<Vec<Vector<'a>>>,
}

/// The expressions of a call: keys, then arguments, then the offsets of its bounds.
fn expressions_of(call: &WindowCall) -> impl Iterator<Item = &Expression> {
    let order = call.order.iter().map(|key| &key.expression);
    let offsets = frame_offsets(call.frame.as_ref()).into_iter().flatten();
    call.partition.iter().chain(order).chain(&call.arguments).chain(offsets)
}

impl<'a> Run<'_, 'a> {
    pub(super) fn batch_window(
        &self,
        input: &'a Relation,
        slot: u16,
        calls: &'a [WindowCall],
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        // Each expression is computed once, whichever calls have it.
        let mut unique: Vec<&'a Expression> = Vec::new();
        for expression in calls.iter().flat_map(expressions_of) {
            if !unique.contains(&expression) {
                unique.push(expression);
            }
        }
        let mut programs = Programs::new(unique.iter().copied());
        let mut columns = programs.columns().to_vec();
        let mut kept: Option<Frames<'a>> = None;
        self.run_batches(input, &mut |frames| {
            let error = programs.compute(self, frames);
            frames.truncate(programs.length());
            let kept = kept.get_or_insert_with(|| Frames::like(frames));
            kept.append(frames);
            for (to, from) in columns.iter_mut().zip(programs.columns()) {
                to.append(from);
            }
            let value_bytes: usize = columns.iter().map(Vector::value_bytes).sum();
            self.charge(frames.len() * (kept.frame_bytes() + value_bytes))?;
            error.map_or(Ok(Flow::Continue), Err)
        })?;
        let Some(kept) = kept else { return Ok(Flow::Continue) };
        let mut sortings: Vec<Sorting<'a>> = Vec::new();
        let mut values = Vec::with_capacity(calls.len());
        for call in calls {
            values.push(self.call_values(call, (&unique, &columns), kept.len(), &mut sortings)?);
        }
        let Some(first) = sortings.first() else { return Ok(Flow::Continue) };
        let cells = self.buffer(slot, calls.len());
        for (number, chosen) in first.order.chunks(BATCH).enumerate() {
            self.check()?;
            let mut frames = Frames::like(&kept);
            frames.append_chosen(&kept, chosen);
            let start = (number * BATCH) as u32;
            let places: Vec<u32> = (start..start + chosen.len() as u32).collect();
            let part = |column: &Vector<'a>| {
                let mut part = Vector::new(column.kind());
                part.gather(column, &places);
                part
            };
            frames.push_slot(slot, Content::Values(values.iter().map(part).collect(), cells));
            if sink(&mut frames)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// The values of a call in the order of the first.
    fn call_values(
        &self,
        call: &'a WindowCall,
        (unique, columns): (&[&'a Expression], &[Vector<'a>]),
        count: usize,
        sortings: &mut Vec<Sorting<'a>>,
    ) -> Result<Vector<'a>, SqlError> {
        let mut own = expressions_of(call).filter_map(|expression| {
            let place = unique.iter().position(|other| *other == expression)?;
            columns.get(place)
        });
        let key_width = call.partition.len() + call.order.len();
        let keys: Vec<&Vector<'a>> = own.by_ref().take(key_width).collect();
        let mut directions: Vec<Direction> =
            call.partition.iter().map(|key| Direction::ascending(key.sql_type)).collect();
        directions.extend(call.order.iter().map(Direction::of));
        let same = |sorting: &&Sorting<'a>| {
            sorting.call.partition == call.partition && sorting.call.order == call.order
        };
        let (order, keys) = match sortings.iter().find(same) {
            Some(sorting) => (sorting.order.clone(), sorting.keys.clone()),
            None => {
                let keys: Vec<Vector<'a>> = keys.into_iter().cloned().collect();
                let order = match directions.is_empty() {
                    true => (0..count as u32).collect(),
                    false => sorted(&directions, &keys),
                };
                let keys = Rc::new(keys.iter().map(|key| gathered(key, &order)).collect());
                let order = Rc::new(order);
                sortings.push(Sorting { call, order: Rc::clone(&order), keys: Rc::clone(&keys) });
                (order, keys)
            }
        };
        let arguments = own.map(|argument| gathered(argument, &order)).collect();
        let rows = Ordered {
            order: Rc::clone(&order),
            values: RowValues::Columns(WindowColumns {
                keys,
                directions: directions.clone(),
                arguments,
            }),
            key_width,
            partition_width: call.partition.len(),
            directions,
        };
        let mut values = Vector::new(Kind::of(call.sql_type).unwrap_or(Kind::Int));
        for value in self.compute(call, &rows)? {
            if !values.push_number(value) {
                return Err(SqlError::sql("a window's value is not of its type"));
            }
        }
        match sortings.first() {
            Some(first) if !Rc::ptr_eq(&first.order, &order) => {
                let mut places = vec![0; count];
                for (position, frame) in (0..).zip(order.iter()) {
                    places[*frame as usize] = position;
                }
                let of_first: Vec<u32> =
                    first.order.iter().map(|frame| places[*frame as usize]).collect();
                Ok(gathered(&values, &of_first))
            }
            _ => Ok(values),
        }
    }
}

fn gathered<'a>(column: &Vector<'a>, order: &[u32]) -> Vector<'a> {
    let mut ordered = Vector::new(column.kind());
    ordered.gather(column, order);
    ordered
}
