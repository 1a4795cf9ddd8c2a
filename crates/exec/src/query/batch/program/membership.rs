//! IN over the rows of a subquery that does not depend on the frames.

use crate::query::batch::kernels::Fault;
use crate::query::batch::keys::{KeyTable, NONE};
use crate::query::batch::vector::{FALSE, TRUE, UNKNOWN, Vector};
use crate::query::{Flow, Run};
use lockstep_plan_ir::expression::Subquery;
use lockstep_types::Datum;

/// The rows of the subquery, read when they are first asked for.
pub(super) struct Membership<'a> {
    subquery: &'a Subquery,
    is_negated: bool,
    rows: Option<Rows<'a>>,
    numbers: Vec<u32>,
}

struct Rows<'a> {
    keys: KeyTable<'a>,
    has_null: bool,
}

impl<'a> Membership<'a> {
    pub(super) fn new(subquery: &'a Subquery, is_negated: bool) -> Membership<'a> {
        Membership { subquery, is_negated, rows: None, numbers: Vec::new() }
    }

    /// Replaces `out` by the truth for each value; for a single value, as often as asked.
    pub(super) fn test(
        &mut self,
        run: &Run<'_, 'a>,
        values: &Vector<'a>,
        single: Option<usize>,
        out: &mut Vector<'a>,
    ) -> Result<(), Fault> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            place => place.insert(Rows::read(run, self.subquery, values)?),
        };
        let Vector::Bool(out) = out else { return Err(Fault) };
        let is_empty = rows.keys.len() == 0 && !rows.has_null;
        rows.keys.find(std::slice::from_ref(values), values.len(), &mut self.numbers);
        let (found, missing) = if self.is_negated { (FALSE, TRUE) } else { (TRUE, FALSE) };
        let truth = |(place, number): (usize, &u32)| match *number {
            _ if is_empty => missing,
            NONE if rows.has_null || values.is_null(place) => UNKNOWN,
            NONE => missing,
            _ => found,
        };
        out.clear();
        out.extend(self.numbers.iter().enumerate().map(truth));
        if let (Some(count), Some(truth)) = (single, out.first().copied()) {
            out.resize(count, truth);
        }
        Ok(())
    }
}

impl<'a> Rows<'a> {
    fn read(
        run: &Run<'_, 'a>,
        subquery: &'a Subquery,
        like: &Vector<'a>,
    ) -> Result<Rows<'a>, Fault> {
        let mut column = Vector::new(like.kind());
        let (mut has_null, mut fits) = (false, true);
        let output = subquery.output.first().ok_or(Fault)?;
        let result = run.run(&subquery.relation, &mut || {
            match run.value(output)? {
                Datum::Null => has_null = true,
                value => fits &= column.push(value),
            }
            run.charge(column.value_bytes() + 24)?;
            Ok(if fits { Flow::Continue } else { Flow::Stop })
        });
        if result.is_err() || !fits {
            return Err(Fault);
        }
        let mut keys = KeyTable::new(vec![Vector::new(like.kind())]);
        let count = column.len();
        keys.insert(&[column], count, true, &mut Vec::new());
        Ok(Rows { keys, has_null })
    }
}
