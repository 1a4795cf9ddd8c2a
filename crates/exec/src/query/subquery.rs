//! Subqueries inside expressions. The rows of an uncorrelated one are kept for the statement.

use super::{Executor, Flow, RowTable, Run};
use crate::context::{Context, Quantified, Subqueries};
use crate::error::SqlError;
use crate::evaluate::RowComparison;
use crate::frame::Frame;
use lockstep_plan_ir::Comparison;
use lockstep_plan_ir::expression::{Quantifier, Subquery};
use lockstep_types::{Datum, SqlType};
use std::rc::Rc;

/// What is kept of an uncorrelated subquery.
pub(super) enum Kept<'a> {
    Scalar(Datum<'a>),
    Exists(bool),
    Rows(RowSet<'a>),
}

/// The rows of a subquery on the right of a quantified comparison.
pub(super) struct RowSet<'a> {
    width: usize,
    /// How many rows there are, equal ones included.
    count: usize,
    /// The distinct rows without NULLs.
    rows: RowTable<'a>,
    /// Rows with a NULL in them.
    with_nulls: Vec<Datum<'a>>,
    /// For one column: the least and the greatest value that is not NULL.
    extremes: Option<(Datum<'a>, Datum<'a>)>,
}

impl<'a> Executor<'a> {
    fn kept(&self, subquery: &Subquery) -> Option<Rc<Kept<'a>>> {
        if !subquery.uncorrelated {
            return None;
        }
        self.kept.borrow().get(usize::from(subquery.number)).cloned().flatten()
    }

    fn keep(&self, subquery: &Subquery, kept: Rc<Kept<'a>>) {
        if subquery.uncorrelated {
            let mut all = self.kept.borrow_mut();
            let number = usize::from(subquery.number);
            if all.len() <= number {
                all.resize(number + 1, None);
            }
            all[number] = Some(kept);
        }
    }
}

impl<'a> Subqueries<'a> for Executor<'a> {
    fn scalar(
        &self,
        context: &Context<'a>,
        subquery: &'a Subquery,
        frame: &Frame<'a>,
    ) -> Result<Datum<'a>, SqlError> {
        if let Some(Kept::Scalar(value)) = self.kept(subquery).as_deref() {
            return Ok(*value);
        }
        let run = Run { executor: self, context, frame: *frame };
        let mut found = None;
        run.run(&subquery.relation, &mut || {
            if found.is_some() {
                return Err(SqlError::several_rows());
            }
            found = Some(match subquery.output.first() {
                Some(expression) => run.value(expression)?,
                None => Datum::Null,
            });
            Ok(Flow::Continue)
        })?;
        let value = found.unwrap_or(Datum::Null);
        self.keep(subquery, Rc::new(Kept::Scalar(value)));
        Ok(value)
    }

    fn exists(
        &self,
        context: &Context<'a>,
        subquery: &'a Subquery,
        frame: &Frame<'a>,
    ) -> Result<bool, SqlError> {
        if let Some(Kept::Exists(found)) = self.kept(subquery).as_deref() {
            return Ok(*found);
        }
        let run = Run { executor: self, context, frame: *frame };
        let mut found = false;
        run.run(&subquery.relation, &mut || {
            found = true;
            Ok(Flow::Stop)
        })?;
        self.keep(subquery, Rc::new(Kept::Exists(found)));
        Ok(found)
    }

    fn quantified(
        &self,
        context: &Context<'a>,
        quantified: Quantified<'a, '_>,
        frame: &Frame<'a>,
    ) -> Result<Datum<'a>, SqlError> {
        let Quantified { comparison, quantifier, row, subquery } = quantified;
        let kept = match self.kept(subquery) {
            Some(kept) => kept,
            None => {
                let run = Run { executor: self, context, frame: *frame };
                if !subquery.uncorrelated {
                    return run.quantified_once(comparison, quantifier, row, subquery);
                }
                let kept = Rc::new(Kept::Rows(run.row_set(subquery)?));
                self.keep(subquery, kept.clone());
                kept
            }
        };
        match &*kept {
            Kept::Rows(rows) if quantifier == Quantifier::Single => {
                rows.compare_only(comparison, row)
            }
            Kept::Rows(rows) => rows.compare(comparison, quantifier == Quantifier::All, row),
            _ => unreachable!("a subquery has one number, and one use"),
        }
    }
}

impl<'a> Run<'_, 'a> {
    /// Runs a correlated subquery until it decides.
    fn quantified_once(
        &self,
        comparison: Comparison,
        quantifier: Quantifier,
        row: &[Datum<'a>],
        subquery: &'a Subquery,
    ) -> Result<Datum<'a>, SqlError> {
        if quantifier == Quantifier::Single {
            return self.row_set(subquery)?.compare_only(comparison, row);
        }
        let mut verdict = Verdict::new(quantifier == Quantifier::All);
        self.run(&subquery.relation, &mut || {
            let mut pairs = RowComparison::new(comparison);
            for (left, right) in row.iter().zip(&subquery.output) {
                pairs.add(*left, self.value(right)?)?;
            }
            Ok(if verdict.add(pairs.finish()) { Flow::Stop } else { Flow::Continue })
        })?;
        Ok(verdict.value())
    }

    fn row_set(&self, subquery: &'a Subquery) -> Result<RowSet<'a>, SqlError> {
        let width = subquery.output.len();
        let rows = RowTable::new(width);
        let mut set = RowSet { width, count: 0, rows, with_nulls: Vec::new(), extremes: None };
        let mut row = Vec::with_capacity(width);
        self.run(&subquery.relation, &mut || {
            self.read_expressions(&subquery.output, &mut row)?;
            self.charge(set.rows.bytes_per_row())?;
            set.add(&row);
            Ok(Flow::Continue)
        })?;
        Ok(set)
    }
}

impl<'a> RowSet<'a> {
    fn add(&mut self, row: &[Datum<'a>]) {
        self.count += 1;
        if row.iter().any(|value| value.is_null()) {
            // Further rows of the same width that are all NULL decide nothing new.
            if self.width > 1 || self.with_nulls.is_empty() {
                self.with_nulls.extend_from_slice(row);
            }
            return;
        }
        self.rows.insert(row);
        if let [value] = row {
            let (least, greatest) = self.extremes.unwrap_or((*value, *value));
            self.extremes = Some((
                if value.sort_order(least).is_lt() { *value } else { least },
                if value.sort_order(greatest).is_gt() { *value } else { greatest },
            ));
        }
    }

    /// The comparison with the only row; NULL without one.
    fn compare_only(
        &self,
        comparison: Comparison,
        row: &[Datum<'a>],
    ) -> Result<Datum<'a>, SqlError> {
        match self.count {
            0 => Ok(Datum::Null),
            1 if self.rows.len() == 0 => compare_rows(comparison, row, &self.with_nulls),
            1 => compare_rows(comparison, row, self.rows.row(0)),
            _ => Err(SqlError::several_rows()),
        }
    }

    fn compare(
        &self,
        comparison: Comparison,
        all: bool,
        row: &[Datum<'a>],
    ) -> Result<Datum<'a>, SqlError> {
        let known = !row.iter().any(|value| value.is_null());
        let mut verdict = Verdict::new(all);
        if self.rows.len() == 0 && self.with_nulls.is_empty() {
            return Ok(verdict.value());
        }
        let comparable = known && self.hashes_as(row);
        match (comparison, all) {
            // One equal row decides; without one only rows with NULLs can.
            (Comparison::Equal, false) if comparable => {
                if self.rows.find(row).is_some() {
                    return Ok(Datum::Bool(true));
                }
                verdict.add(Datum::Bool(false));
            }
            (Comparison::NotEqual, true) if comparable => {
                if self.rows.find(row).is_some() {
                    return Ok(Datum::Bool(false));
                }
                verdict.add(Datum::Bool(true));
            }
            _ => self.compare_each(comparison, row, &mut verdict)?,
        }
        for nulls in self.with_nulls.chunks_exact(self.width.max(1)) {
            if verdict.add(compare_rows(comparison, row, nulls)?) {
                break;
            }
        }
        Ok(verdict.value())
    }

    /// Whether a hash look-up finds equal values: a FLOAT against an exact number needs the
    /// comparison itself.
    fn hashes_as(&self, row: &[Datum<'_>]) -> bool {
        if self.rows.len() == 0 {
            return true;
        }
        row.iter().zip(self.rows.row(0)).all(|(a, b)| {
            (a.natural_type() == SqlType::Float) == (b.natural_type() == SqlType::Float)
        })
    }

    fn compare_each(
        &self,
        comparison: Comparison,
        row: &[Datum<'a>],
        verdict: &mut Verdict,
    ) -> Result<(), SqlError> {
        let ordering = matches!(
            comparison,
            Comparison::Less
                | Comparison::LessOrEqual
                | Comparison::Greater
                | Comparison::GreaterOrEqual
        );
        if let Some((least, greatest)) = self.extremes.filter(|_| ordering) {
            // ANY and ALL of an order are decided at the ends.
            for end in [least, greatest] {
                verdict.add(compare_rows(comparison, row, &[end])?);
            }
            return Ok(());
        }
        for number in 0..self.rows.len() {
            if verdict.add(compare_rows(comparison, row, self.rows.row(number))?) {
                break;
            }
        }
        Ok(())
    }
}

fn compare_rows<'a>(
    comparison: Comparison,
    left: &[Datum<'a>],
    right: &[Datum<'a>],
) -> Result<Datum<'a>, SqlError> {
    let mut pairs = RowComparison::new(comparison);
    for (left, right) in left.iter().zip(right) {
        pairs.add(*left, *right)?;
    }
    Ok(pairs.finish())
}

/// ANY or ALL over truth values.
struct Verdict {
    all: bool,
    unknown: bool,
    decided: bool,
}

impl Verdict {
    fn new(all: bool) -> Verdict {
        Verdict { all, unknown: false, decided: false }
    }

    /// Takes one truth value; true when the rest does not matter.
    fn add(&mut self, value: Datum<'_>) -> bool {
        match value {
            Datum::Bool(truth) => self.decided |= truth != self.all,
            _ => self.unknown = true,
        }
        self.decided
    }

    fn value(&self) -> Datum<'static> {
        match (self.decided, self.unknown) {
            (true, _) => Datum::Bool(!self.all),
            (false, true) => Datum::Null,
            (false, false) => Datum::Bool(self.all),
        }
    }
}
