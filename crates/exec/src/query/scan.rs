//! Scans: all rows of a table, or those that an index finds.

use super::filter::RowFilter;
use super::{Flow, Run, Sink};
use crate::convert::array_elements;
use crate::database::{storage_fault, table_of};
use crate::error::SqlError;
use crate::frame::Slot;
use lockstep_plan_ir::expression::Expression;
use lockstep_plan_ir::relation::{Access, KeyBound, KeyList, Scan};
use lockstep_storage::{IndexCursor, RowId, RowRef, StorageError, Table};
use lockstep_types::{Datum, IndexId};
use std::ops::Bound;

impl<'a> Run<'_, 'a> {
    pub(super) fn scan(&self, scan: &'a Scan, sink: Sink<'_>) -> Result<Flow, SqlError> {
        let table = table_of(self.executor.tables, scan.table)?;
        match &scan.access {
            Access::Full => self.full_scan(scan, table, sink),
            Access::Index { index, equal, at_most_one: true, null_matches, .. }
                if let ([equal], [] | [false]) = (&**equal, &**null_matches) =>
            {
                // What joins look up, row after row.
                let key = self.value(equal)?;
                if key.is_null() {
                    return Ok(Flow::Continue);
                }
                self.unique_scan(scan, table, *index, &[key], sink)
            }
            Access::Index { index, equal, null_matches, lower, upper, reverse, at_most_one } => {
                let Some(mut key) = self.equal_key(equal, null_matches)? else {
                    return Ok(Flow::Continue);
                };
                if *at_most_one {
                    let key = &key.places()[..equal.len()];
                    return self.unique_scan(scan, table, *index, key, sink);
                }
                let range = Range { index: *index, lower, upper, reverse: *reverse };
                self.range_scan(scan, table, range, key, sink)
            }
            Access::IndexList { index, list } => self.list_scan(scan, table, *index, list, sink),
        }
    }

    /// The number of rows of a scan without a filter, where it is known without a visit to each.
    pub(super) fn count_scan(&self, scan: &'a Scan) -> Result<Option<u64>, SqlError> {
        let table = table_of(self.executor.tables, scan.table)?;
        match &scan.access {
            Access::Full => Ok(Some(table.row_count())),
            Access::Index {
                index, equal, null_matches, lower, upper, at_most_one: false, ..
            } => {
                let Some(key) = self.equal_key(equal, null_matches)? else { return Ok(Some(0)) };
                let range = Range { index: *index, lower, upper, reverse: false };
                let cursor = self.range_cursor(table, &range, key)?;
                Ok(Some(cursor.map_or(0, IndexCursor::count_rows)))
            }
            _ => Ok(None),
        }
    }

    /// The equal values of an index access; `None` when a NULL among them finds nothing.
    fn equal_key(
        &self,
        equal: &'a [Expression],
        null_matches: &[bool],
    ) -> Result<Option<KeyValues<'a>>, SqlError> {
        // One more, for the end of a range.
        let mut key = KeyValues::new(equal.len() + 1);
        for (position, (place, expression)) in key.places().iter_mut().zip(equal).enumerate() {
            *place = self.value(expression)?;
            if place.is_null() && !null_matches.get(position).is_some_and(|matches| *matches) {
                return Ok(None);
            }
        }
        Ok(Some(key))
    }

    fn full_scan(
        &self,
        scan: &'a Scan,
        table: &'a Table,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let filter = RowFilter::new(self, scan.slot, scan.filter.as_ref());
        for (id, row) in table.scan() {
            self.tick()?;
            self.frame.bind(scan.slot, Slot::Row(row, id));
            if filter.passes(self, row)? && sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn unique_scan(
        &self,
        scan: &'a Scan,
        table: &'a Table,
        index: IndexId,
        key: &[Datum<'a>],
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        match table.get(index, key).map_err(storage_fault)? {
            Some((id, row)) => self.found(scan, id, row, sink),
            None => Ok(Flow::Continue),
        }
    }

    /// Pushes one row that an index found, if the filter lets it pass.
    #[inline]
    pub(super) fn found(
        &self,
        scan: &'a Scan,
        id: RowId,
        row: RowRef<'a>,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        self.tick()?;
        self.frame.bind(scan.slot, Slot::Row(row, id));
        match &scan.filter {
            Some(filter) if !self.holds(filter)? => Ok(Flow::Continue),
            _ => sink(),
        }
    }

    fn range_scan(
        &self,
        scan: &'a Scan,
        table: &'a Table,
        range: Range<'a>,
        key: KeyValues<'a>,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let Some(mut cursor) = self.range_cursor(table, &range, key)? else {
            return Ok(Flow::Continue);
        };
        let filter = RowFilter::new(self, scan.slot, scan.filter.as_ref());
        while let Some((id, row)) = cursor.next_row() {
            self.tick()?;
            self.frame.bind(scan.slot, Slot::Row(row, id));
            if filter.passes(self, row)? && sink()? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    /// The cursor over a range after equal values; `None` when a NULL bound finds nothing.
    fn range_cursor(
        &self,
        table: &'a Table,
        range: &Range<'a>,
        mut low: KeyValues<'a>,
    ) -> Result<Option<IndexCursor<'a>>, SqlError> {
        let end = |bound: &'a Option<KeyBound>| match bound {
            None => Ok(None),
            Some(bound) => self.value(&bound.value).map(|value| Some((value, bound.inclusive))),
        };
        let mut high = low.clone();
        let range = KeyRange {
            index: range.index,
            equal: low.length - 1,
            lower: end(range.lower)?,
            upper: end(range.upper)?,
            reverse: range.reverse,
        };
        range.open(table, low.places(), high.places()).map_err(storage_fault)
    }

    fn list_scan(
        &self,
        scan: &'a Scan,
        table: &'a Table,
        index: IndexId,
        list: &'a KeyList,
        sink: Sink<'_>,
    ) -> Result<Flow, SqlError> {
        let values = self.list_values(list)?;
        for value in values {
            let mut cursor = table.equal(index, &[value]).map_err(storage_fault)?;
            while let Some((id, row)) = cursor.next_row() {
                if self.found(scan, id, row, sink)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// The distinct values of a list that are not NULL, in its order.
    fn list_values(&self, list: &'a KeyList) -> Result<Vec<Datum<'a>>, SqlError> {
        let mut seen = super::RowTable::new(1);
        let mut add = |value: Datum<'a>| {
            if !value.is_null() {
                seen.insert(&[value]);
            }
        };
        match list {
            KeyList::Values(expressions) => {
                for expression in expressions {
                    add(self.value(expression)?);
                }
            }
            KeyList::Array(parameter) => {
                let array = self.context.parameters.get(usize::from(*parameter));
                array_elements(array.copied().unwrap_or(Datum::Null)).for_each(add);
            }
            KeyList::Subquery(subquery) => {
                let output: &'a [Expression] = &subquery.output;
                self.run(&subquery.relation, &mut || {
                    if let Some(expression) = output.first() {
                        add(self.value(expression)?);
                    }
                    self.charge(size_of::<Datum<'_>>())?;
                    Ok(Flow::Continue)
                })?;
            }
        }
        Ok((0..seen.len()).map(|number| seen.row(number)[0]).collect())
    }
}

/// The part of an index after the equal values.
struct Range<'a> {
    index: IndexId,
    lower: &'a Option<KeyBound>,
    upper: &'a Option<KeyBound>,
    reverse: bool,
}

/// The part of an index between two ends, evaluated.
pub(crate) struct KeyRange<'v> {
    pub(crate) index: IndexId,
    /// Number of values that all keys begin with.
    pub(crate) equal: usize,
    /// The least value after those, and whether it is in the range.
    pub(crate) lower: Option<(Datum<'v>, bool)>,
    /// The greatest.
    pub(crate) upper: Option<(Datum<'v>, bool)>,
    pub(crate) reverse: bool,
}

impl<'v> KeyRange<'v> {
    /// The cursor over the range; `None` when a NULL end finds nothing. `low` and `high` begin
    /// with the equal values and have a place more.
    #[inline]
    pub(crate) fn open<'t>(
        &self,
        table: &'t Table,
        low: &mut [Datum<'v>],
        high: &mut [Datum<'v>],
    ) -> Result<Option<IndexCursor<'t>>, StorageError> {
        let equal = self.equal;
        let (low, high) = match (self.lower, self.upper) {
            (None, None) => (Bound::Included(&low[..equal]), Bound::Included(&high[..equal])),
            (lower, upper) => {
                let is_null = |end: Option<(Datum<'_>, bool)>| end.is_some_and(|e| e.0.is_null());
                if is_null(lower) || is_null(upper) {
                    return Ok(None);
                }
                // A range without a lower end leaves NULLs out.
                let (value, included) = lower.unwrap_or((Datum::Null, false));
                low[equal] = value;
                let low = bound(&low[..=equal], included);
                let Some((value, included)) = upper else {
                    let high = Bound::Included(&high[..equal]);
                    return table.range(self.index, low, high, self.reverse).map(Some);
                };
                high[equal] = value;
                (low, bound(&high[..=equal], included))
            }
        };
        table.range(self.index, low, high, self.reverse).map(Some)
    }
}

#[inline]
fn bound<'k, 'v>(key: &'k [Datum<'v>], included: bool) -> Bound<&'k [Datum<'v>]> {
    if included { Bound::Included(key) } else { Bound::Excluded(key) }
}

/// Most values of a key that need no memory of their own.
const FEW_VALUES: usize = 5;

/// The values of a key, with places to fill.
#[derive(Clone)]
struct KeyValues<'a> {
    few: [Datum<'a>; FEW_VALUES],
    many: Vec<Datum<'a>>,
    length: usize,
}

impl<'a> KeyValues<'a> {
    #[inline]
    fn new(length: usize) -> KeyValues<'a> {
        let many = if length > FEW_VALUES { vec![Datum::Null; length] } else { Vec::new() };
        KeyValues { few: [Datum::Null; FEW_VALUES], many, length }
    }

    #[inline]
    fn places(&mut self) -> &mut [Datum<'a>] {
        match self.length > FEW_VALUES {
            true => &mut self.many,
            false => &mut self.few[..self.length],
        }
    }
}
