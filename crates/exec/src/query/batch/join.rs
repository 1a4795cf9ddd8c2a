//! Joins whose left side comes in batches: by hash, or through an index of the right table.
//!
//! The right side is kept whole, chained by equal keys in the order in which it came. Pairs are
//! made for whole left frames, some hundreds at a time, so that each left frame's partners are
//! seen together.

use super::evaluate::{BatchFilter, Programs};
use super::frames::{Content, Frames, RIDER};
use super::keys::{KeyTable, NONE};
use super::vector::{Kind, Vector};
use super::{BATCH, BatchSink, Flow, Run};
use crate::database::{storage_fault, table_of};
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::Node;
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::{Access, Join, JoinKind, JoinMethod, Relation};
use lockstep_storage::{RowBatch, Table};
use lockstep_types::{Datum, IndexId};

/// The kinds in which the key parts of both sides are compared; `None` when some part has none.
pub(super) fn key_kinds(left: &[Expression], right: &[Expression]) -> Option<Vec<Kind>> {
    if left.is_empty() || !left[1..].iter().chain(&right[1..]).all(is_leaf) {
        return None;
    }
    let kind = |(left, right): (&Expression, &Expression)| match (
        Kind::of(left.sql_type)?,
        Kind::of(right.sql_type)?,
    ) {
        (a, b) if a == b => Some(a),
        (Kind::Float, Kind::Int | Kind::Decimal) | (Kind::Int | Kind::Decimal, Kind::Float) => {
            Some(Kind::Float)
        }
        (Kind::Int, Kind::Decimal) | (Kind::Decimal, Kind::Int) => Some(Kind::Decimal),
        _ => None,
    };
    left.iter().zip(right).map(kind).collect()
}

/// The right side.
struct Build<'a> {
    keys: KeyTable<'a>,
    /// Per key, its first and last frame.
    ends: Vec<(u32, u32)>,
    /// Per frame, the next with the same key.
    next: Vec<u32>,
    frames: Frames<'a>,
}

impl<'a> Build<'a> {
    /// Drops all frames.
    fn clear(&mut self) {
        self.ends.clear();
        self.next.clear();
        self.frames.clear();
    }

    /// Appends the rows with a key; gives the number of their chain.
    fn look_up(
        &mut self,
        table: &'a Table,
        index: IndexId,
        key: &[Datum<'a>],
        at_most_one: bool,
    ) -> Result<u32, SqlError> {
        let Some(rows) = self.frames.first_rows() else { return Ok(NONE) };
        let first = self.next.len() as u32;
        if at_most_one {
            let found = match key {
                [Datum::Int(key)] => table.get_integer(index, *key),
                _ => None,
            };
            let found = match found {
                Some(found) => found,
                None => table.get(index, key).map_err(storage_fault)?,
            };
            let Some((id, _)) = found else { return Ok(NONE) };
            rows.push(id);
            self.next.push(NONE);
        } else {
            let mut cursor = table.equal(index, key).map_err(storage_fault)?;
            while let Some(id) = cursor.next_id() {
                rows.push(id);
                self.next.push(self.next.len() as u32 + 1);
            }
            match self.next.last_mut() {
                Some(last) if rows.len() > first as usize => *last = NONE,
                _ => return Ok(NONE),
            }
        }
        self.frames.set_length(self.next.len());
        self.ends.push((first, self.next.len() as u32 - 1));
        Ok(self.ends.len() as u32 - 1)
    }
}

/// The row join does not evaluate key parts after a NULL: those must not fail.
fn is_leaf(part: &Expression) -> bool {
    matches!(part.node, Node::Column { .. } | Node::Literal(_) | Node::Parameter(_))
}

/// Whether a nested loop's right side finds rows through an index by equal values alone, and at
/// most one condition is left to be tested.
pub(super) fn is_lookup(join: &Join) -> bool {
    let Relation::Scan(scan) = &join.right else { return false };
    let by_values = matches!(
        &scan.access,
        Access::Index { equal, lower: None, upper: None, reverse: false, .. }
            if !equal.is_empty() && equal[1..].iter().all(is_leaf)
    );
    by_values && (scan.filter.is_none() || join.condition.is_none())
}

/// What is made of the left frames.
struct Probe<'a> {
    kind: JoinKind,
    condition: Option<BatchFilter<'a>>,
    build: Build<'a>,
    /// Both sides, with the pairs at hand.
    pairs: Frames<'a>,
    left_slots: usize,
    /// The left and right frames of the pairs; no right frame is [`NONE`].
    left: Vec<u32>,
    right: Vec<u32>,
}

impl<'a> Run<'_, 'a> {
    pub(super) fn batch_join(
        &self,
        join: &'a Join,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        let JoinMethod::Hash { left, right } = &join.method else {
            return self.lookup_join(join, sink);
        };
        let kinds = key_kinds(left, right).unwrap_or_default();
        let mut build = self.batch_build(join, right, &kinds)?;
        let mut keys = std::mem::replace(&mut build.keys, KeyTable::new(Vec::new()));
        let mut probe = self.probe_of(join, join.condition.as_ref(), build)?;
        let mut programs = Programs::of_kinds(left.iter().zip(kinds.iter().copied()));
        let mut numbers = Vec::new();
        self.run_batches(&join.left, &mut |frames| {
            let error = programs.compute(self, frames);
            keys.find(programs.columns(), programs.length(), &mut numbers);
            if probe.probe(self, frames, &numbers, sink)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            error.map_or(Ok(Flow::Continue), Err)
        })
    }

    fn probe_of(
        &self,
        join: &'a Join,
        condition: Option<&'a Expression>,
        build: Build<'a>,
    ) -> Result<Probe<'a>, SqlError> {
        let mut pairs = self.shape(&join.left)?.expect("sides of a join in batches have a shape");
        let left_slots = pairs.slots().len();
        for (slot, content) in Frames::like(&build.frames).slots() {
            pairs.push_slot(*slot, content.clone());
            self.frame.bind(*slot, Slot::Unbound);
        }
        Ok(Probe {
            kind: join.kind,
            condition: condition.map(BatchFilter::new),
            build,
            pairs,
            left_slots,
            left: Vec::new(),
            right: Vec::new(),
        })
    }

    /// A nested loop whose right side finds rows through an index.
    fn lookup_join(&self, join: &'a Join, sink: BatchSink<'_, 'a>) -> Result<Flow, SqlError> {
        let Relation::Scan(scan) = &join.right else {
            unreachable!("only scans are looked up in batches");
        };
        let Access::Index { index, equal, null_matches, at_most_one, .. } = &scan.access else {
            unreachable!("only indexes are looked up in batches");
        };
        let table = table_of(self.executor.tables, scan.table)?;
        let build = Build {
            keys: KeyTable::new(Vec::new()),
            ends: Vec::new(),
            next: Vec::new(),
            frames: Frames::of(scan.slot, Content::Rows(RowBatch::new(table))),
        };
        // One of the two is all there is.
        let condition = scan.filter.as_ref().or(join.condition.as_ref());
        let mut probe = self.probe_of(join, condition, build)?;
        if let (Some(filter), false) = (&scan.filter, at_most_one) {
            probe.condition = Some(BatchFilter::of_scan(self, scan.slot, filter));
        }
        let mut programs = Programs::new(equal.iter());
        let (mut numbers, mut key) = (Vec::new(), Vec::new());
        self.run_batches(&join.left, &mut |frames| {
            let error = programs.compute(self, frames);
            probe.build.clear();
            numbers.clear();
            for row in 0..programs.length() {
                key.clear();
                key.extend(programs.columns().iter().map(|column| column.datum(row)));
                let is_lost = |(part, matches): (&Datum<'_>, &bool)| part.is_null() && !matches;
                if key.iter().zip(null_matches).any(is_lost) {
                    numbers.push(NONE);
                    continue;
                }
                numbers.push(probe.build.look_up(table, *index, &key, *at_most_one)?);
            }
            if probe.probe(self, frames, &numbers, sink)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            error.map_or(Ok(Flow::Continue), Err)
        })
    }

    fn batch_build(
        &self,
        join: &'a Join,
        keys: &'a [Expression],
        kinds: &[Kind],
    ) -> Result<Build<'a>, SqlError> {
        let frames = self.shape(&join.right)?.expect("sides of a join in batches have a shape");
        let columns = kinds.iter().map(|kind| Vector::new(*kind)).collect();
        let mut build =
            Build { keys: KeyTable::new(columns), ends: Vec::new(), next: Vec::new(), frames };
        let mut programs = Programs::of_kinds(keys.iter().zip(kinds.iter().copied()));
        let (mut numbers, mut selection) = (Vec::new(), Vec::new());
        self.run_batches(&join.right, &mut |frames| {
            let error = programs.compute(self, frames);
            let before = build.keys.len();
            build.keys.insert(programs.columns(), programs.length(), true, &mut numbers);
            let added = build.keys.len() - before;
            build.ends.resize(build.keys.len(), (NONE, NONE));
            selection.clear();
            for (frame, number) in (0..).zip(&numbers) {
                if *number == NONE {
                    continue;
                }
                let kept = build.next.len() as u32;
                build.next.push(NONE);
                let (first, last) = &mut build.ends[*number as usize];
                match *last {
                    NONE => *first = kept,
                    last => build.next[last as usize] = kept,
                }
                *last = kept;
                selection.push(frame);
            }
            build.frames.append_chosen(frames, &selection);
            let frame_bytes = build.frames.frame_bytes() + 4;
            self.charge(added * (build.keys.bytes_per_key() + 8) + selection.len() * frame_bytes)?;
            error.map_or(Ok(Flow::Continue), Err)
        })?;
        Ok(build)
    }
}

impl<'a> Probe<'a> {
    /// Pushes what the left frames give; `numbers` are those of their keys.
    fn probe(
        &mut self,
        run: &Run<'_, 'a>,
        frames: &mut Frames<'a>,
        numbers: &[u32],
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        if self.condition.is_none() && matches!(self.kind, JoinKind::Semi | JoinKind::Anti) {
            let wants = self.kind == JoinKind::Semi;
            let chosen = (0..).zip(numbers).filter(|(_, number)| (**number != NONE) == wants);
            self.left.clear();
            self.left.extend(chosen.map(|(frame, _)| frame));
            frames.truncate(numbers.len());
            frames.keep(&self.left);
            return if frames.len() > 0 { sink(frames) } else { Ok(Flow::Continue) };
        }
        let mut start = 0;
        while start < numbers.len() {
            let end = self.find_pairs(run, numbers, start)?;
            if self.push_pairs(run, frames, start..end, sink)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            start = end;
        }
        Ok(Flow::Continue)
    }

    /// Finds the partners of left frames until there are enough; gives the frame after the last.
    fn find_pairs(
        &mut self,
        run: &Run<'_, 'a>,
        numbers: &[u32],
        start: usize,
    ) -> Result<usize, SqlError> {
        self.left.clear();
        self.right.clear();
        let keeps_left = self.condition.is_none() && self.kind == JoinKind::Left;
        for (frame, number) in numbers.iter().enumerate().skip(start) {
            if self.left.len() >= BATCH {
                return Ok(frame);
            }
            if *number == NONE {
                if keeps_left {
                    self.left.push(frame as u32);
                    self.right.push(NONE);
                }
                continue;
            }
            let mut next = self.build.ends[*number as usize].0;
            while next != NONE {
                run.tick()?;
                self.left.push(frame as u32);
                self.right.push(next);
                next = self.build.next[next as usize];
            }
        }
        Ok(numbers.len())
    }

    fn push_pairs(
        &mut self,
        run: &Run<'_, 'a>,
        frames: &Frames<'a>,
        range: std::ops::Range<usize>,
        sink: BatchSink<'_, 'a>,
    ) -> Result<Flow, SqlError> {
        self.make_pairs(frames);
        let mut error = None;
        if self.kind == JoinKind::Inner {
            if let Some(condition) = &mut self.condition {
                error = condition.apply(run, &mut self.pairs);
            }
        } else if self.condition.is_some() {
            error = self.match_left(run, frames, range);
            if self.kind == JoinKind::Left {
                self.make_pairs(frames);
            } else {
                self.pairs.clear();
            }
        }
        let flow = if self.kind == JoinKind::Semi || self.kind == JoinKind::Anti {
            let mut chosen = frames.clone();
            chosen.keep(&self.left);
            if chosen.len() > 0 { sink(&mut chosen)? } else { Flow::Continue }
        } else if self.pairs.len() > 0 {
            sink(&mut self.pairs)?
        } else {
            Flow::Continue
        };
        match error {
            Some(error) if flow == Flow::Continue => Err(error),
            _ => Ok(flow),
        }
    }

    fn make_pairs(&mut self, frames: &Frames<'a>) {
        self.pairs.clear();
        self.pairs.gather(0, frames, &self.left);
        self.pairs.gather(self.left_slots, &self.build.frames, &self.right);
        self.pairs.set_length(self.left.len());
    }

    /// Replaces the pairs by what those that meet the condition make of the left frames in the
    /// range, or of those before the first that fails.
    fn match_left(
        &mut self,
        run: &Run<'_, 'a>,
        frames: &Frames<'a>,
        range: std::ops::Range<usize>,
    ) -> Option<SqlError> {
        let Some(condition) = &mut self.condition else { return None };
        // The pairs that pass are told by numbers that ride along.
        let numbers = Vector::Int((0..self.left.len() as i64).collect());
        self.pairs.push_slot(RIDER, Content::Values(vec![numbers], &[]));
        let applied = condition.try_apply(run, &mut self.pairs);
        let rider = self.pairs.pop_slot();
        let (mut passed, mut failed) = (Vec::new(), None);
        match (applied, rider) {
            (Ok(()), Some(Content::Values(columns, _))) => {
                if let Some(Vector::Int(numbers)) = columns.first() {
                    passed.extend(numbers.iter().map(|number| *number as usize));
                }
            }
            _ => {
                self.make_pairs(frames);
                (passed, failed) = self.match_pairs(run);
            }
        }
        let end = failed.as_ref().map_or(range.end, |(frame, _)| *frame);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut passed = passed.into_iter().peekable();
        for frame in range.start..range.end.min(end + 1) {
            let mut matched = false;
            while let Some(pair) = passed.next_if(|pair| self.left[*pair] as usize == frame) {
                matched = true;
                if self.kind == JoinKind::Left {
                    left.push(frame as u32);
                    right.push(self.right[pair]);
                }
            }
            let alone = match self.kind {
                JoinKind::Left | JoinKind::Anti => !matched,
                _ => matched,
            };
            if alone && frame < end {
                left.push(frame as u32);
                right.push(NONE);
            }
        }
        self.left = left;
        self.right = right;
        failed.map(|(_, error)| error)
    }

    /// The pairs that meet the condition, tested one by one, up to the left frame with one that
    /// fails. A match ends a semi-join's search.
    #[cold]
    fn match_pairs(&self, run: &Run<'_, 'a>) -> (Vec<usize>, Option<(usize, SqlError)>) {
        let mut passed: Vec<usize> = Vec::new();
        let Some(condition) = &self.condition else { return (passed, None) };
        let is_search = self.kind != JoinKind::Left;
        for (pair, frame) in self.left.iter().enumerate() {
            let is_found = passed.last().is_some_and(|last| self.left[*last] == *frame);
            if is_search && is_found {
                continue;
            }
            self.pairs.bind(run, pair);
            match run.holds(condition.predicate()) {
                Ok(true) => passed.push(pair),
                Ok(false) => {}
                Err(error) => return (passed, Some((*frame as usize, error))),
            }
        }
        (passed, None)
    }
}
