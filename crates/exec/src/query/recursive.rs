//! Recursive common tables.

use super::{Flow, RowTable, Run, Sink, WorkingRows};
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::relation::SetBranch;
use lockstep_types::Datum;
use std::rc::Rc;

/// Rounds after which a recursion that still finds rows is taken for endless.
const ROUND_LIMIT: u32 = 1_000_000;

impl<'a> Run<'_, 'a> {
    /// `table` is the number of the common table, the slot of its rows, and whether duplicates
    /// are kept.
    pub(super) fn recursive(
        &self,
        (number, slot, all): (u16, u16, bool),
        base: &'a SetBranch,
        step: &'a SetBranch,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let mut seen = (!all).then(|| RowTable::new(base.output.len()));
        let mut branch = base;
        let mut rounds = 0;
        loop {
            let rows = self.branch_rows(branch, seen.as_mut())?;
            self.tick()?;
            for &row in &rows {
                self.tick()?;
                self.frame.bind(slot, Slot::Values(row));
                if sink()? == Flow::Stop {
                    self.set_working(number, None);
                    return Ok(Flow::Stop);
                }
            }
            rounds += 1;
            if rows.is_empty() {
                self.set_working(number, None);
                return Ok(Flow::Continue);
            }
            if rounds > ROUND_LIMIT {
                return Err(SqlError::sql(format!(
                    "a recursive common table still finds rows after {ROUND_LIMIT} rounds"
                )));
            }
            self.set_working(number, Some(Rc::new(rows)));
            branch = step;
        }
    }

    fn branch_rows(
        &self,
        branch: &'a SetBranch,
        mut seen: Option<&mut RowTable<'a>>,
    ) -> Result<Vec<&'a [Datum<'a>]>, SqlError> {
        let mut rows: Vec<&'a [Datum<'a>]> = Vec::new();
        let mut row = Vec::new();
        self.run(&branch.relation, &mut || {
            self.read_expressions(&branch.output, &mut row)?;
            if let Some(seen) = seen.as_mut() {
                if !seen.insert(&row).1 {
                    return Ok(Flow::Continue);
                }
                self.charge(seen.bytes_per_row())?;
            }
            rows.push(self.context.arena.copy(&row));
            self.charge(size_of::<&[Datum<'_>]>())?;
            Ok(Flow::Continue)
        })?;
        Ok(rows)
    }

    fn set_working(&self, number: u16, rows: Option<WorkingRows<'a>>) {
        let mut working = self.executor.working.borrow_mut();
        let number = usize::from(number);
        if working.len() <= number {
            working.resize(number + 1, None);
        }
        working[number] = rows;
    }

    pub(super) fn working(&self, number: u16, slot: u16, sink: Sink<'_>) -> Result<Flow, SqlError> {
        let rows = self.executor.working.borrow().get(usize::from(number)).cloned().flatten();
        for row in rows.iter().flat_map(|rows| rows.iter()) {
            self.tick()?;
            self.frame.bind(slot, Slot::Values(row));
            if sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}
