//! ORDER BY, with or without a cut.

use super::saved::SavedFrames;
use super::{Cut, Flow, Run, Sink};
use crate::error::SqlError;
use lockstep_plan_ir::relation::{Relation, SortKey};
use lockstep_types::float::float_order_key;
use lockstep_types::{Datum, SqlType};
use std::cmp::Ordering;

/// Frames kept beyond the wanted ones before the rest is thrown away.
const SPARE_FRAMES: usize = 512;

/// How one key orders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Direction {
    descending: bool,
    nulls_first: bool,
    sql_type: SqlType,
}

impl Direction {
    pub(super) fn of(key: &SortKey) -> Direction {
        let sql_type = key.expression.sql_type;
        Direction { descending: key.descending, nulls_first: key.nulls_first, sql_type }
    }

    /// The order of window partitions: any that brings equal values together.
    pub(super) fn ascending(sql_type: SqlType) -> Direction {
        Direction { descending: false, nulls_first: true, sql_type }
    }

    pub(super) fn is_descending(self) -> bool {
        self.descending
    }

    pub(super) fn is_nulls_first(self) -> bool {
        self.nulls_first
    }

    #[inline]
    fn compare(self, a: Datum<'_>, b: Datum<'_>) -> Ordering {
        let null_order = |first| if first { Ordering::Less } else { Ordering::Greater };
        let order = match (a, b) {
            (Datum::Int(a), Datum::Int(b)) => a.cmp(&b),
            (Datum::Null, Datum::Null) => return Ordering::Equal,
            (Datum::Null, _) => return null_order(self.nulls_first),
            (_, Datum::Null) => return null_order(!self.nulls_first),
            (a, b) => a.sort_order(b),
        };
        if self.descending { order.reverse() } else { order }
    }

    /// A number that orders as the values do, but for ties.
    fn prefix(self, value: Datum<'_>) -> u64 {
        const SIGN: u64 = 1 << 63;
        let prefix = match value {
            Datum::Null => return if self.nulls_first { 0 } else { u64::MAX },
            Datum::Bool(value) => u64::from(value),
            // Integers beside floats or decimals in one column do not come: the planner gives
            // a column one type. Only then are the numbers of one kind.
            Datum::Int(value) if self.sql_type.is_integer() => value as u64 ^ SIGN,
            Datum::Timestamp(value) => value as u64 ^ SIGN,
            Datum::Float(value) => float_order_key(value),
            Datum::Text(text) => leading_bytes(text.as_bytes()),
            Datum::Bytes(bytes) => leading_bytes(bytes),
            _ => 0,
        };
        if self.descending { !prefix } else { prefix }
    }
}

fn leading_bytes(bytes: &[u8]) -> u64 {
    let mut leading = [0; 8];
    let count = bytes.len().min(8);
    leading[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(leading)
}

/// Compares two rows of keys.
#[inline]
pub(super) fn compare_keys(directions: &[Direction], a: &[Datum<'_>], b: &[Datum<'_>]) -> Ordering {
    for (direction, (a, b)) in directions.iter().zip(a.iter().zip(b)) {
        let order = direction.compare(*a, *b);
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// The order of rows of keys that lie one after the other; ties keep their order.
pub(super) fn sorted_numbers(directions: &[Direction], keys: &[Datum<'_>]) -> Vec<u32> {
    let width = directions.len();
    let Some(first) = directions.first() else { return Vec::new() };
    let mut order: Vec<(u64, u32)> = keys
        .chunks_exact(width)
        .enumerate()
        .map(|(number, row)| (first.prefix(row[0]), number as u32))
        .collect();
    let row = |number: u32| &keys[number as usize * width..(number as usize + 1) * width];
    order.sort_unstable_by(|a, b| {
        let by_prefix = a.0.cmp(&b.0);
        by_prefix
            .then_with(|| compare_keys(directions, row(a.1), row(b.1)))
            .then_with(|| a.1.cmp(&b.1))
    });
    order.into_iter().map(|(_, number)| number).collect()
}

impl<'a> Run<'_, 'a> {
    pub(super) fn sort(
        &self,
        input: &'a Relation,
        keys: &'a [SortKey],
        cut: Cut,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        if cut.limit == 0 {
            return Ok(Flow::Continue);
        }
        let mut sorter = Sorter::new(input, keys, cut);
        self.run(input, &mut || {
            sorter.add(self, keys)?;
            Ok(Flow::Continue)
        })?;
        let order = sorter.order();
        let skip = usize::try_from(cut.offset).unwrap_or(usize::MAX);
        let take = usize::try_from(cut.limit).unwrap_or(usize::MAX);
        for number in order.into_iter().skip(skip).take(take) {
            self.tick()?;
            sorter.frames.restore(self, number as usize);
            if sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Frames with their keys, as many as are wanted and some more.
struct Sorter<'a> {
    directions: Vec<Direction>,
    keys: Vec<Datum<'a>>,
    frames: SavedFrames<'a>,
    /// Frames that are wanted.
    wanted: usize,
    /// The keys of the last wanted frame so far: what does not come before it is of no use.
    threshold: Vec<Datum<'a>>,
    row: Vec<Datum<'a>>,
}

impl<'a> Sorter<'a> {
    fn new(input: &Relation, keys: &[SortKey], cut: Cut) -> Sorter<'a> {
        Sorter {
            directions: keys.iter().map(Direction::of).collect(),
            keys: Vec::new(),
            frames: SavedFrames::of(input),
            wanted: usize::try_from(cut.end()).unwrap_or(usize::MAX),
            threshold: Vec::new(),
            row: Vec::with_capacity(keys.len()),
        }
    }

    #[inline]
    fn add(&mut self, run: &Run<'_, 'a>, keys: &'a [SortKey]) -> Result<(), SqlError> {
        let Some((first_key, other_keys)) = keys.split_first() else {
            return self.frames.push(run);
        };
        let first = run.value(&first_key.expression)?;
        // Most frames of a long input come after the last wanted one, by their first key.
        if let (Some(last), Some(direction)) = (self.threshold.first(), self.directions.first())
            && direction.compare(first, *last) == Ordering::Greater
        {
            return Ok(());
        }
        self.row.clear();
        self.row.push(first);
        for key in other_keys {
            self.row.push(run.value(&key.expression)?);
        }
        if !self.threshold.is_empty()
            && compare_keys(&self.directions, &self.row, &self.threshold) != Ordering::Less
        {
            return Ok(());
        }
        self.keys.extend_from_slice(&self.row);
        self.frames.push(run)?;
        if self.wanted == usize::MAX {
            return run.charge(keys.len() * size_of::<Datum<'_>>() + 16);
        }
        if self.frames.len() >= self.wanted.saturating_mul(2).saturating_add(SPARE_FRAMES) {
            self.drop_spare();
        }
        Ok(())
    }

    fn order(&self) -> Vec<u32> {
        if self.directions.is_empty() {
            return (0..self.frames.len() as u32).collect();
        }
        sorted_numbers(&self.directions, &self.keys)
    }

    /// Keeps the wanted frames only.
    fn drop_spare(&mut self) {
        let mut order = self.order();
        order.truncate(self.wanted);
        let width = self.directions.len();
        let mut keys = Vec::with_capacity(self.keys.len());
        for &number in &order {
            let start = number as usize * width;
            keys.extend_from_slice(&self.keys[start..start + width]);
        }
        self.frames.retain(order.iter().map(|number| *number as usize));
        self.threshold.clear();
        self.threshold.extend_from_slice(&keys[keys.len() - width..]);
        self.keys = keys;
    }
}
