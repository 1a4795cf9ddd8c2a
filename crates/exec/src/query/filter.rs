//! A scan's filter, prepared once per scan: comparisons of a column with a constant are made
//! directly, without walking the expression.

use super::Run;
use crate::error::SqlError;
use lockstep_plan_ir::expression::{Comparison, Expression, Node};
use lockstep_storage::RowRef;
use lockstep_types::Datum;
use std::cmp::Ordering;

/// The most direct tests of one filter.
const TEST_LIMIT: usize = 4;

/// `column comparison constant`.
#[derive(Clone, Copy)]
struct Test<'a> {
    column: u16,
    /// Which orders of column to constant pass: less, equal, greater.
    passes: [bool; 3],
    constant: Datum<'a>,
}

/// A filter split into direct tests and the rest.
pub(super) struct RowFilter<'a> {
    tests: [Test<'a>; TEST_LIMIT],
    count: usize,
    /// What is left: the whole filter, when it has parts that are no direct tests.
    rest: Option<&'a Expression>,
}

impl<'a> RowFilter<'a> {
    /// Splits a filter over the rows of `slot`. Everything else that it reads must stay as it is
    /// while the filter is used.
    pub(super) fn new(
        run: &Run<'_, 'a>,
        slot: u16,
        filter: Option<&'a Expression>,
    ) -> RowFilter<'a> {
        let empty = Test { column: 0, passes: [false; 3], constant: Datum::Null };
        let mut split = RowFilter { tests: [empty; TEST_LIMIT], count: 0, rest: None };
        let Some(filter) = filter else { return split };
        let parts = match &filter.node {
            Node::And(parts) => parts.as_slice(),
            _ => std::slice::from_ref(filter),
        };
        for part in parts {
            match direct_test(run, slot, part) {
                Some(test) if split.count < TEST_LIMIT => {
                    split.tests[split.count] = test;
                    split.count += 1;
                }
                // The direct tests stand in front and drop most rows; running them a second
                // time within the whole filter changes nothing.
                _ => split.rest = Some(filter),
            }
        }
        split
    }

    /// Whether the row, which is bound already, passes.
    #[inline]
    pub(super) fn passes(&self, run: &Run<'_, 'a>, row: RowRef<'a>) -> Result<bool, SqlError> {
        if self.count == 0 && self.rest.is_none() { Ok(true) } else { self.test(run, row) }
    }

    fn test(&self, run: &Run<'_, 'a>, row: RowRef<'a>) -> Result<bool, SqlError> {
        for test in &self.tests[..self.count] {
            let order = match (row.column(usize::from(test.column)), test.constant) {
                (Datum::Int(a), Datum::Int(b)) | (Datum::Timestamp(a), Datum::Timestamp(b)) => {
                    a.cmp(&b)
                }
                (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
                (Datum::Null, _) | (_, Datum::Null) => return Ok(false),
                (a, b) => a.sort_order(b),
            };
            if !test.passes[order_index(order)] {
                return Ok(false);
            }
        }
        match self.rest {
            None => Ok(true),
            Some(rest) => run.holds(rest),
        }
    }
}

/// Which parts of a scan's filter are direct tests: those are made before all others.
pub(super) fn direct_parts<'a>(
    run: &Run<'_, 'a>,
    slot: u16,
    parts: &[&'a Expression],
) -> Vec<bool> {
    let mut count = 0;
    let mut is_direct = |part: &&'a Expression| {
        let direct = count < TEST_LIMIT && direct_test(run, slot, part).is_some();
        count += usize::from(direct);
        direct
    };
    parts.iter().map(&mut is_direct).collect()
}

#[inline]
fn order_index(order: Ordering) -> usize {
    (order as i8 + 1) as usize
}

fn direct_test<'a>(run: &Run<'_, 'a>, slot: u16, part: &'a Expression) -> Option<Test<'a>> {
    let Node::Compare(comparison, left, right) = &part.node else { return None };
    let own = |expression: &Expression| match expression.node {
        Node::Column { slot: of, column } if of == slot => Some(column),
        _ => None,
    };
    let constant = |expression: &'a Expression| match expression.node {
        Node::Column { slot: of, .. } if of == slot => None,
        Node::Literal(_) | Node::Parameter(_) | Node::Column { .. } => run.value(expression).ok(),
        _ => None,
    };
    let (column, comparison, constant, kinds) = match (own(left), own(right)) {
        (Some(column), None) => (column, *comparison, constant(right)?, (left, right)),
        (None, Some(column)) => (column, comparison.mirrored(), constant(left)?, (left, right)),
        _ => return None,
    };
    let kinds = (kinds.0.sql_type, kinds.1.sql_type);
    if kinds.0 != kinds.1 && !(kinds.0.is_number() && kinds.1.is_number()) {
        return None;
    }
    let passes = match comparison {
        Comparison::Equal => [false, true, false],
        Comparison::NotEqual => [true, false, true],
        Comparison::Less => [true, false, false],
        Comparison::LessOrEqual => [true, true, false],
        Comparison::Greater => [false, false, true],
        Comparison::GreaterOrEqual => [false, true, true],
        Comparison::Distinct | Comparison::NotDistinct => return None,
    };
    Some(Test { column, passes, constant })
}
