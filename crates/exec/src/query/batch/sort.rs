//! ORDER BY over batches, with or without a cut.

use super::evaluate::Programs;
use super::frames::Frames;
use super::vector::{Cell, NULL_INT, NULL_UNITS, Vector, each_pair};
use super::{Flow, Run, Sink};
use crate::error::SqlError;
use crate::query::Cut;
use crate::query::sort::Direction;
use lockstep_plan_ir::Node;
use lockstep_plan_ir::relation::{Relation, SortKey};
use lockstep_types::float::{float_order_key, is_null_float};
use lockstep_types::geography::Point;
use std::cmp::Ordering;

/// Frames kept beyond the wanted ones before the rest is thrown away.
const SPARE_FRAMES: usize = 4096;

/// Whether the batches' sort does what the row sort does: with a cut, that does not evaluate
/// further keys of frames whose first key is after all wanted ones, so they must not fail.
pub(in crate::query) fn is_batch_sort(keys: &[SortKey], has_cut: bool) -> bool {
    let is_column = |key: &SortKey| matches!(key.expression.node, Node::Column { .. });
    !keys.is_empty() && (!has_cut || keys[1..].iter().all(is_column))
}

/// Kept frames with their keys.
struct Sorter<'a> {
    directions: Vec<Direction>,
    keys: Vec<Vector<'a>>,
    frames: Option<Frames<'a>>,
    wanted: usize,
    /// Whether there are as many as wanted, the last of which is a threshold.
    has_threshold: bool,
    prefixes: Vec<u64>,
    selection: Vec<u32>,
}

impl<'a> Run<'_, 'a> {
    pub(in crate::query) fn batch_sort(
        &self,
        input: &'a Relation,
        keys: &'a [SortKey],
        cut: Cut,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        if cut.limit == 0 {
            return Ok(Flow::Continue);
        }
        let mut programs = Programs::new(keys.iter().map(|key| &key.expression));
        let mut sorter = Sorter {
            directions: keys.iter().map(Direction::of).collect(),
            keys: programs.columns().to_vec(),
            frames: None,
            wanted: usize::try_from(cut.end()).unwrap_or(usize::MAX),
            has_threshold: false,
            prefixes: Vec::new(),
            selection: Vec::new(),
        };
        self.run_batches(input, &mut |frames| {
            let error = programs.compute(self, frames);
            frames.truncate(programs.length());
            sorter.add(self, frames, programs.columns())?;
            error.map_or(Ok(Flow::Continue), Err)
        })?;
        let order = sorted(&sorter.directions, &sorter.keys);
        let Some(frames) = &sorter.frames else { return Ok(Flow::Continue) };
        let skip = usize::try_from(cut.offset).unwrap_or(usize::MAX);
        let take = usize::try_from(cut.limit).unwrap_or(usize::MAX);
        for number in order.into_iter().skip(skip).take(take) {
            self.tick()?;
            frames.bind(self, number as usize);
            if sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

impl<'a> Sorter<'a> {
    fn add(
        &mut self,
        run: &Run<'_, 'a>,
        frames: &Frames<'a>,
        keys: &[Vector<'a>],
    ) -> Result<(), SqlError> {
        let kept = self.frames.get_or_insert_with(|| Frames::like(frames));
        self.selection.clear();
        if self.has_threshold {
            let last = self.wanted - 1;
            prefixes(self.directions[0], &self.keys[0], last..last + 1, &mut self.prefixes);
            let threshold = self.prefixes[0];
            prefixes(self.directions[0], &keys[0], 0..frames.len(), &mut self.prefixes);
            for (frame, prefix) in self.prefixes.iter().enumerate() {
                if *prefix < threshold
                    || (*prefix == threshold
                        && compare(&self.directions, keys, frame, &self.keys, last).is_lt())
                {
                    self.selection.push(frame as u32);
                }
            }
        } else {
            self.selection.extend(0..frames.len() as u32);
        }
        if self.selection.is_empty() {
            return Ok(());
        }
        kept.append_chosen(frames, &self.selection);
        for (to, from) in self.keys.iter_mut().zip(keys) {
            to.gather(from, &self.selection);
        }
        let key_bytes: usize = self.keys.iter().map(Vector::value_bytes).sum();
        if self.wanted == usize::MAX {
            return run.charge(self.selection.len() * (kept.frame_bytes() + key_bytes + 16));
        }
        if kept.len() >= self.wanted.saturating_mul(2).saturating_add(SPARE_FRAMES) {
            self.drop_spare(run, key_bytes)?;
        }
        Ok(())
    }

    /// Keeps the wanted frames only, in their order.
    fn drop_spare(&mut self, run: &Run<'_, 'a>, key_bytes: usize) -> Result<(), SqlError> {
        let mut order = sorted(&self.directions, &self.keys);
        order.truncate(self.wanted);
        for column in &mut self.keys {
            let mut kept = Vector::new(column.kind());
            kept.gather(column, &order);
            *column = kept;
        }
        if let Some(frames) = &mut self.frames {
            let mut kept = Frames::like(frames);
            kept.append_chosen(frames, &order);
            *frames = kept;
            if !self.has_threshold {
                run.charge(self.wanted * 2 * (frames.frame_bytes() + key_bytes))?;
            }
        }
        self.has_threshold = true;
        Ok(())
    }
}

/// The order of rows of keys; ties keep their order.
pub(super) fn sorted(directions: &[Direction], keys: &[Vector<'_>]) -> Vec<u32> {
    let count = keys.first().map_or(0, Vector::len);
    if let Some(order) = sorted_packed(directions, keys, count) {
        return order;
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let Some(direction) = directions.first() else { return Vec::new() };
    prefixes(*direction, &keys[0], 0..count, &mut first);
    let mut decided = usize::from(is_decided(*direction, &keys[0]));
    let rest = |decided: usize, a: u32, b: u32| {
        let (a, b) = (a as usize, b as usize);
        compare(&directions[decided..], &keys[decided..], a, &keys[decided..], b).then(a.cmp(&b))
    };
    if directions.len() == 1 {
        let mut rows: Vec<(u64, u32)> = first.into_iter().zip(0..).collect();
        rows.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| rest(decided, a.1, b.1)));
        return rows.into_iter().map(|(_, row)| row).collect();
    }
    if decided == 1 {
        prefixes(directions[1], &keys[1], 0..count, &mut second);
        decided += usize::from(is_decided(directions[1], &keys[1]));
    } else {
        second.resize(count, 0);
    }
    let pairs = first.into_iter().zip(second);
    let mut rows: Vec<(u64, u64, u32)> = pairs.zip(0..).map(|((a, b), row)| (a, b, row)).collect();
    rows.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| rest(decided, a.2, b.2)));
    rows.into_iter().map(|(_, _, row)| row).collect()
}

/// The order when all keys of a row and its number fit one word.
fn sorted_packed(directions: &[Direction], keys: &[Vector<'_>], count: usize) -> Option<Vec<u32>> {
    let width = |most: u64| u64::BITS - most.leading_zeros();
    let row_bits = width(count as u64);
    let mut bits = row_bits;
    let mut words = vec![0u64; count];
    let mut column = Vec::new();
    for (direction, key) in directions.iter().zip(keys) {
        let is_integer = matches!(key, Vector::Int(_) | Vector::Timestamp(_));
        if !is_integer || !is_decided(*direction, key) {
            return None;
        }
        prefixes(*direction, key, 0..count, &mut column);
        // NULLs stand at one end, all other values close together after or before them.
        let null = if direction.is_nulls_first() { 0 } else { u64::MAX };
        let values = || column.iter().copied().filter(|prefix| *prefix != null);
        let (least, most) = values().fold((u64::MAX, 0), |(a, b), v| (a.min(v), b.max(v)));
        let range = most.saturating_sub(least);
        let of_null = if direction.is_nulls_first() { 0 } else { range.checked_add(2)? };
        let key_bits = width(range.checked_add(2)?);
        bits += key_bits;
        if bits > u64::BITS {
            return None;
        }
        for (word, prefix) in words.iter_mut().zip(&column) {
            let value = if *prefix == null { of_null } else { prefix - least + 1 };
            *word = (*word << key_bits) | value;
        }
    }
    for (word, number) in words.iter_mut().zip(0u64..) {
        *word = (*word << row_bits) | number;
    }
    words.sort_unstable();
    let mask = (1u64 << row_bits) - 1;
    Some(words.into_iter().map(|word| (word & mask) as u32).collect())
}

/// Whether values with equal prefixes are equal.
fn is_decided(direction: Direction, column: &Vector<'_>) -> bool {
    match column {
        Vector::Int(_) | Vector::Timestamp(_) => {
            direction.is_descending() != direction.is_nulls_first()
        }
        Vector::Float(_) | Vector::Bool(_) => true,
        _ => false,
    }
}

/// Replaces `out` by numbers that order as the values of a range do, but for ties.
fn prefixes(
    direction: Direction,
    column: &Vector<'_>,
    range: std::ops::Range<usize>,
    out: &mut Vec<u64>,
) {
    const SIGN: u64 = 1 << 63;
    let flip = if direction.is_descending() { u64::MAX } else { 0 };
    let null = if direction.is_nulls_first() { 0 } else { u64::MAX };
    out.clear();
    macro_rules! each {
        ($values:expr, $is_null:expr, $prefix:expr) => {
            out.extend(
                $values[range]
                    .iter()
                    .map(|value| if $is_null(*value) { null } else { $prefix(*value) ^ flip }),
            )
        };
    }
    match column {
        Vector::Int(values) | Vector::Timestamp(values) => {
            each!(values, |value: i64| value == NULL_INT, |value: i64| value as u64 ^ SIGN);
        }
        Vector::Float(values) => each!(values, is_null_float, float_order_key),
        Vector::Decimal(values) => {
            each!(values, |units: i128| units == NULL_UNITS, |units: i128| {
                float_order_key(units as f64)
            });
        }
        Vector::Text(values) => {
            each!(values, |text: Option<&str>| text.is_none(), |text: Option<&str>| {
                leading_bytes(text.unwrap_or_default().as_bytes())
            });
        }
        Vector::Bytes(values) => {
            each!(values, |bytes: Option<&[u8]>| bytes.is_none(), |bytes: Option<&[u8]>| {
                leading_bytes(bytes.unwrap_or_default())
            });
        }
        Vector::Point(values) => {
            each!(values, |point: Option<Point>| point.is_none(), |point: Option<Point>| {
                point.map_or(0, |point| point.order_key().0 as u64 ^ SIGN)
            });
        }
        Vector::Bool(values) => {
            each!(values, |truth: u8| truth == super::vector::UNKNOWN, |truth: u8| {
                u64::from(truth) + 1
            });
        }
    }
}

fn leading_bytes(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(leading) => u64::from_be_bytes(*leading),
        None => {
            let mut leading = [0; 8];
            leading[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(leading)
        }
    }
}

/// Compares two rows of keys, of the same or of two sets of columns.
pub(super) fn compare(
    directions: &[Direction],
    left: &[Vector<'_>],
    a: usize,
    right: &[Vector<'_>],
    b: usize,
) -> Ordering {
    for ((direction, left), right) in directions.iter().zip(left).zip(right) {
        let order = match (left.is_null(a), right.is_null(b)) {
            (true, true) => continue,
            (true, false) if direction.is_nulls_first() => return Ordering::Less,
            (true, false) => return Ordering::Greater,
            (false, true) if direction.is_nulls_first() => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => each_pair!(left, right, (left, right) => {
                left[a].order(right[b])
            }),
        };
        if order != Ordering::Equal {
            return if direction.is_descending() { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}
