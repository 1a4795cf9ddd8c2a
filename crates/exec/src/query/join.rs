//! Joins: nested loops, and hash joins that keep the right side.

use super::saved::{SavedFrames, bound_slots};
use super::{Flow, RowTable, Run, Sink};
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::Node;
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::{Access, Join, JoinKind, JoinMethod, Relation, Scan};
use lockstep_storage::{PrefetchedKey, RowId, Table};
use lockstep_types::{Datum, IndexId, SqlType};

/// End of a chain of equal keys.
const NONE: u32 = u32::MAX;

impl<'a> Run<'_, 'a> {
    pub(super) fn join(&self, join: &'a Join, sink: Sink<'_>) -> Result<Flow, SqlError> {
        let join = &Sides::of(join);
        match (&join.plan.method, join.plan.kind) {
            (JoinMethod::NestedLoop, JoinKind::Right | JoinKind::Full) => {
                // The right side cannot depend on the left here; it is kept and scanned.
                self.kept_join(join, &[], &[], sink)
            }
            (JoinMethod::NestedLoop, _) => self.nested_loop(join, sink),
            (JoinMethod::Hash { left, right }, _) => self.kept_join(join, left, right, sink),
        }
    }

    fn nested_loop(&self, join: &Sides<'a>, sink: Sink<'_>) -> Result<Flow, SqlError> {
        if let Some(ahead) = Prefetcher::of(self, join.plan) {
            return self.nested_loop_ahead(join, &ahead, sink);
        }
        self.run(&join.plan.left, &mut || self.partners(join, sink))
    }

    /// Runs the right side of a nested loop for the present left frame.
    fn partners(&self, join: &Sides<'a>, sink: Sink<'_>) -> Result<Flow, SqlError> {
        let mut matched = false;
        let mut outer = Flow::Continue;
        self.run(&join.plan.right, &mut || {
            if let Some(condition) = &join.plan.condition
                && !self.holds(condition)?
            {
                return Ok(Flow::Continue);
            }
            matched = true;
            match join.plan.kind {
                JoinKind::Semi | JoinKind::Anti => Ok(Flow::Stop),
                _ => {
                    outer = sink()?;
                    Ok(outer)
                }
            }
        })?;
        self.after_left(join, matched, outer, sink)
    }

    /// As `nested_loop`, a few left rows at a time, so that the memory of their partners is there
    /// when they are looked for. The first row goes alone: the one that wants one does not wait.
    fn nested_loop_ahead(
        &self,
        join: &Sides<'a>,
        ahead: &Prefetcher<'a>,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let mut rows = [Slot::Unbound; ROWS_AHEAD];
        let (mut count, mut most) = (0, 1);
        let flow = self.run(&join.plan.left, &mut || {
            rows[count] = self.keep_slot(ahead.left_slot);
            count += 1;
            if count < most {
                return Ok(Flow::Continue);
            }
            let whole = &rows[..std::mem::take(&mut count)];
            most = ROWS_AHEAD;
            self.partners_of(join, ahead, whole, sink)
        })?;
        match flow {
            Flow::Stop => Ok(Flow::Stop),
            Flow::Continue => self.partners_of(join, ahead, &rows[..count], sink),
        }
    }

    fn partners_of(
        &self,
        join: &Sides<'a>,
        ahead: &Prefetcher<'a>,
        rows: &[Slot<'a>],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let mut keys = [None; ROWS_AHEAD];
        for (row, key) in rows.iter().zip(&mut keys) {
            self.frame.bind(ahead.left_slot, *row);
            *key = ahead.ask_for_leaf(self)?;
        }
        let partners = keys.map(|key| key.map(|key| ahead.table.prefetched_row(ahead.index, key)));
        for (row, partner) in rows.iter().zip(partners) {
            self.frame.bind(ahead.left_slot, *row);
            let flow = match partner {
                Some(partner) => self.partner(join, ahead, partner, sink)?,
                None => self.partners(join, sink)?,
            };
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// As `partners`, where the only one is known.
    fn partner(
        &self,
        join: &Sides<'a>,
        ahead: &Prefetcher<'a>,
        partner: Option<RowId>,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let Some((id, row)) = partner.and_then(|id| Some((id, ahead.table.row(id)?))) else {
            return Ok(Flow::Continue);
        };
        self.found(ahead.right, id, row, &mut || match &join.plan.condition {
            Some(condition) if !self.holds(condition)? => Ok(Flow::Continue),
            _ => sink(),
        })
    }

    /// What a left frame gives when all its partners have been seen.
    fn after_left(
        &self,
        join: &Sides<'a>,
        matched: bool,
        outer: Flow,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let pushes = match join.plan.kind {
            JoinKind::Left | JoinKind::Full | JoinKind::Anti => !matched,
            JoinKind::Semi => matched,
            JoinKind::Inner | JoinKind::Right => false,
        };
        if outer == Flow::Stop || !pushes {
            return Ok(outer);
        }
        self.unbind(&join.right_slots);
        sink()
    }

    fn unbind(&self, slots: &[u16]) {
        slots.iter().for_each(|slot| self.frame.bind(*slot, Slot::Unbound));
    }

    fn kept_join(
        &self,
        join: &Sides<'a>,
        left_keys: &'a [Expression],
        right_keys: &'a [Expression],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let as_float = float_keys(left_keys, right_keys);
        let build = self.build(join, right_keys, &as_float)?;
        let keeps_right = matches!(join.plan.kind, JoinKind::Right | JoinKind::Full);
        let mut matched_right = vec![false; if keeps_right { build.frames.len() } else { 0 }];
        let mut key = Vec::with_capacity(left_keys.len());
        let flow = self.run(&join.plan.left, &mut || {
            let mut matched = false;
            let mut outer = Flow::Continue;
            let found = match self.read_key(left_keys, &as_float, &mut key)? {
                true => build.keys.find(&key),
                false => None,
            };
            let mut next = found.map_or(NONE, |number| build.first[number]);
            while next != NONE {
                let partner = next as usize;
                next = build.next[partner];
                self.tick()?;
                build.frames.restore(self, partner);
                if let Some(condition) = &join.plan.condition
                    && !self.holds(condition)?
                {
                    continue;
                }
                matched = true;
                if keeps_right {
                    matched_right[partner] = true;
                }
                if matches!(join.plan.kind, JoinKind::Semi | JoinKind::Anti) {
                    break;
                }
                outer = sink()?;
                if outer == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            self.after_left(join, matched, outer, sink)
        })?;
        if flow == Flow::Stop || !keeps_right {
            return Ok(flow);
        }
        self.unbind(&join.left_slots);
        for (number, _) in matched_right.iter().enumerate().filter(|(_, matched)| !**matched) {
            self.tick()?;
            build.frames.restore(self, number);
            self.unbind(&join.left_slots);
            if sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// Runs the right side into a table by its keys. Frames with a NULL in the key are kept for
    /// right and full joins, but in no chain.
    fn build(
        &self,
        join: &Sides<'a>,
        keys: &'a [Expression],
        as_float: &[bool],
    ) -> Result<Build<'a>, SqlError> {
        let mut build = Build {
            keys: RowTable::new(keys.len()),
            first: Vec::new(),
            last: Vec::new(),
            next: Vec::new(),
            frames: SavedFrames::of(&join.plan.right),
        };
        let keeps_all = matches!(join.plan.kind, JoinKind::Right | JoinKind::Full);
        let mut key = Vec::with_capacity(keys.len());
        self.run(&join.plan.right, &mut || {
            let usable = self.read_key(keys, as_float, &mut key)?;
            if !usable && !keeps_all {
                return Ok(Flow::Continue);
            }
            let frame = build.frames.len() as u32;
            build.frames.push(self)?;
            build.next.push(NONE);
            if usable {
                match build.keys.insert(&key) {
                    (_, true) => {
                        build.first.push(frame);
                        build.last.push(frame);
                        self.charge(build.keys.bytes_per_row() + 16)?;
                    }
                    (number, false) => {
                        let last = std::mem::replace(&mut build.last[number], frame);
                        build.next[last as usize] = frame;
                    }
                }
            }
            Ok(Flow::Continue)
        })?;
        Ok(build)
    }

    /// Evaluates a key; false when a part is NULL, which matches nothing.
    fn read_key(
        &self,
        keys: &'a [Expression],
        as_float: &[bool],
        key: &mut Vec<Datum<'a>>,
    ) -> Result<bool, SqlError> {
        key.clear();
        for (expression, as_float) in keys.iter().zip(as_float) {
            let value = self.value(expression)?;
            if value.is_null() {
                return Ok(false);
            }
            key.push(if *as_float { to_float(value) } else { value });
        }
        Ok(true)
    }
}

/// Left rows of a nested loop that are read before their partners are looked for.
const ROWS_AHEAD: usize = 16;
/// The fewest rows of a table whose index and rows are likely not to be in the cache.
const ROWS_OUT_OF_CACHE: u64 = 10_000;
/// The most parts of a key that are looked up ahead.
const KEY_LIMIT: usize = 4;

/// An inner join of the rows of a table with those of another by a unique key. Neither reading
/// left rows early nor making their keys can fail.
struct Prefetcher<'a> {
    left_slot: u16,
    right: &'a Scan,
    table: &'a Table,
    index: IndexId,
    key: &'a [Expression],
}

impl<'a> Prefetcher<'a> {
    fn of(run: &Run<'_, 'a>, join: &'a Join) -> Option<Prefetcher<'a>> {
        let (JoinKind::Inner, Relation::Scan(left), Relation::Scan(right)) =
            (join.kind, &join.left, &join.right)
        else {
            return None;
        };
        let Access::Index { index, equal, null_matches, at_most_one: true, .. } = &right.access
        else {
            return None;
        };
        let is_leaf = |part: &Expression| {
            matches!(part.node, Node::Column { .. } | Node::Parameter(_) | Node::Literal(_))
        };
        // Who counts what operators do wants them run one by one.
        let is_counted = run.executor.settings.watch.profiler.is_some();
        let finds_one = matches!(left.access, Access::Index { at_most_one: true, .. });
        let is_plain = left.filter.is_none()
            && !finds_one
            && !is_counted
            && equal.len() <= KEY_LIMIT
            && equal.iter().all(is_leaf)
            && !null_matches.contains(&true);
        let table = run.executor.tables.get(right.table)?;
        (is_plain && table.row_count() >= ROWS_OUT_OF_CACHE).then_some(Prefetcher {
            left_slot: left.slot,
            right,
            table,
            index: *index,
            key: equal,
        })
    }

    /// Asks for the leaf of the index that the present left row leads to.
    #[inline]
    fn ask_for_leaf(&self, run: &Run<'_, 'a>) -> Result<Option<PrefetchedKey>, SqlError> {
        let mut key = [Datum::Null; KEY_LIMIT];
        for (place, part) in key.iter_mut().zip(self.key) {
            *place = run.value(part)?;
        }
        // A NULL among them is prefetched for nothing: it finds no row.
        Ok(self.table.prefetch(self.index, &key[..self.key.len()]))
    }
}

/// A join with the slots that its sides bind, here: a plan may name others that stand for them.
struct Sides<'a> {
    plan: &'a Join,
    left_slots: Vec<u16>,
    right_slots: Vec<u16>,
}

impl<'a> Sides<'a> {
    fn of(plan: &'a Join) -> Sides<'a> {
        let (mut left_slots, mut right_slots) = (Vec::new(), Vec::new());
        if plan.kind != JoinKind::Inner {
            bound_slots(&plan.left, &mut left_slots);
            bound_slots(&plan.right, &mut right_slots);
        }
        Sides { plan, left_slots, right_slots }
    }
}

/// The right side of a join: frames, chained by equal keys in the order in which they came.
struct Build<'a> {
    keys: RowTable<'a>,
    first: Vec<u32>,
    last: Vec<u32>,
    next: Vec<u32>,
    frames: SavedFrames<'a>,
}

/// Key parts that are compared as FLOAT, because exactly one side is one.
fn float_keys(left: &[Expression], right: &[Expression]) -> Vec<bool> {
    left.iter()
        .zip(right)
        .map(|(a, b)| (a.sql_type == SqlType::Float) != (b.sql_type == SqlType::Float))
        .collect()
}

fn to_float(value: Datum<'_>) -> Datum<'_> {
    match value {
        Datum::Int(value) => Datum::Float(value as f64),
        Datum::Decimal(value) => Datum::Float(value.to_f64()),
        other => other,
    }
}
