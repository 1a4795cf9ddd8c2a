//! DISTINCT and the set operations.

use super::{Flow, RowTable, Run, Sink};
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::{Relation, SetBranch, SetOperator};
use lockstep_types::Datum;

impl<'a> Run<'_, 'a> {
    /// Copies the row in a slot into `row`.
    pub(super) fn read_slot(&self, slot: u16, row: &mut Vec<Datum<'a>>) {
        row.clear();
        match self.frame.slot(slot) {
            Slot::Buffer(cells) => row.extend(cells.iter().map(std::cell::Cell::get)),
            Slot::Values(values) => row.extend_from_slice(values),
            Slot::Row(stored, _) => row.extend(stored.columns()),
            Slot::Unbound => {}
        }
    }

    /// Evaluates expressions into `row`.
    #[inline]
    pub(super) fn read_expressions(
        &self,
        expressions: &'a [Expression],
        row: &mut Vec<Datum<'a>>,
    ) -> Result<(), SqlError> {
        row.clear();
        for expression in expressions {
            row.push(self.value(expression)?);
        }
        Ok(())
    }

    pub(super) fn distinct(
        &self,
        input: &'a Relation,
        slot: u16,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let mut row = Vec::new();
        let mut seen: Option<RowTable<'a>> = None;
        self.run(input, &mut || {
            self.read_slot(slot, &mut row);
            let seen = seen.get_or_insert_with(|| RowTable::new(row.len()));
            if seen.insert(&row).1 {
                self.charge(seen.bytes_per_row())?;
                sink()
            } else {
                Ok(Flow::Continue)
            }
        })
    }

    pub(super) fn set_operation(
        &self,
        operator: SetOperator,
        all: bool,
        branches: &'a [SetBranch],
        slot: u16,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        match (operator, all) {
            (SetOperator::Union, true) => self.union_all(branches, slot, sink),
            (SetOperator::Union, false) => self.union_distinct(branches, slot, sink),
            _ => self.intersect_or_except(operator, all, branches, slot, sink),
        }
    }

    fn union_all(
        &self,
        branches: &'a [SetBranch],
        slot: u16,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        for branch in branches {
            let cells = self.buffer(slot, branch.output.len());
            let flow = self.run(&branch.relation, &mut || {
                self.bind_expressions(slot, cells, &branch.output)?;
                sink()
            })?;
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn union_distinct(
        &self,
        branches: &'a [SetBranch],
        slot: u16,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let width = branches.first().map_or(0, |branch| branch.output.len());
        let mut seen = RowTable::new(width);
        let mut row = Vec::new();
        self.union_all(branches, slot, &mut || {
            self.read_slot(slot, &mut row);
            if seen.insert(&row).1 {
                self.charge(seen.bytes_per_row())?;
                sink()
            } else {
                Ok(Flow::Continue)
            }
        })
    }

    fn intersect_or_except(
        &self,
        operator: SetOperator,
        all: bool,
        branches: &'a [SetBranch],
        slot: u16,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let Some((first, others)) = branches.split_first() else { return Ok(Flow::Continue) };
        let mut rows = RowTable::new(first.output.len());
        let mut counts = self.count_rows(first, &mut rows)?;
        if !all {
            counts.iter_mut().for_each(|count| *count = (*count).min(1));
        }
        for branch in others {
            let matches = self.count_matches(branch, &rows)?;
            for (count, matched) in counts.iter_mut().zip(matches) {
                *count = match (operator, all) {
                    (SetOperator::Intersect, _) => (*count).min(matched),
                    (_, true) => count.saturating_sub(matched),
                    (_, false) if matched > 0 => 0,
                    _ => *count,
                };
            }
        }
        let cells = self.buffer(slot, first.output.len());
        for (number, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                self.tick()?;
                cells.iter().zip(rows.row(number)).for_each(|(cell, value)| cell.set(*value));
                self.frame.bind(slot, Slot::Buffer(cells));
                if sink()? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// Collects a branch's rows, and how often each came.
    fn count_rows(
        &self,
        branch: &'a SetBranch,
        rows: &mut RowTable<'a>,
    ) -> Result<Vec<u64>, SqlError> {
        let mut row = Vec::new();
        let mut counts = Vec::new();
        self.run(&branch.relation, &mut || {
            self.read_expressions(&branch.output, &mut row)?;
            match rows.insert(&row) {
                (number, false) => counts[number] += 1,
                (_, true) => {
                    counts.push(1);
                    self.charge(rows.bytes_per_row() + 8)?;
                }
            }
            Ok(Flow::Continue)
        })?;
        Ok(counts)
    }

    /// How often each of the rows comes in a branch.
    fn count_matches(
        &self,
        branch: &'a SetBranch,
        rows: &RowTable<'a>,
    ) -> Result<Vec<u64>, SqlError> {
        let mut row = Vec::new();
        let mut counts = vec![0; rows.len()];
        self.run(&branch.relation, &mut || {
            self.read_expressions(&branch.output, &mut row)?;
            if let Some(number) = rows.find(&row) {
                counts[number] += 1;
            }
            Ok(Flow::Continue)
        })?;
        Ok(counts)
    }
}
