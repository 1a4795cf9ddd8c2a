//! Queries of plain columns of one table: the row of a unique key, or the rows of an index range.
//! The columns go from the slots into the result as they are.

use super::fast::{KEY_LIMIT, Lookup, Operand, lookup_of};
use crate::database::{Database, storage_fault, table_of};
use crate::error::SqlError;
use crate::query::{KeyRange, too_large, unsound};
use crate::watch::ROWS_PER_CHECK;
use lockstep_base::bytes::ByteWriter;
use lockstep_plan_ir::relation::KeyBound;
use lockstep_plan_ir::statement::Query;
use lockstep_plan_ir::{Access, Node, Relation, Scan};
use lockstep_storage::{IndexCursor, RowId, RowLimits, RowRef, Table};
use lockstep_types::table::MAX_ROW_BYTES;
use lockstep_types::{Datum, IndexId, SqlType, TableBuilder, TableId, TableSchema};

/// A query of plain columns.
#[derive(Debug, Clone)]
pub(super) enum ColumnQuery {
    Get(ColumnGet),
    Range(ColumnRange),
}

impl ColumnQuery {
    /// A query as one of columns, if it is one.
    pub(super) fn of(query: &Query, result: &TableSchema) -> Option<ColumnQuery> {
        if let Some((lookup, scan)) = lookup_of(&query.relation) {
            let columns = Columns::of(query, scan, result)?;
            return Some(ColumnQuery::Get(ColumnGet::new(lookup, columns, result)));
        }
        ColumnRange::of(query, result).map(ColumnQuery::Range)
    }

    /// Appends the query's table; when it fails, `out` is as it was.
    #[inline(always)]
    pub(super) fn run(
        &self,
        database: &Database,
        parameters: &[Datum<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        match self {
            ColumnQuery::Get(get) => get.run(database, parameters, out),
            ColumnQuery::Range(range) => range.run(database, parameters, out),
        }
    }
}

/// Columns that make a result.
#[derive(Debug, Clone)]
struct Columns {
    columns: Box<[u16]>,
    types: Box<[SqlType]>,
    /// The table without rows.
    empty: Box<[u8]>,
}

impl Columns {
    /// The columns of a query over a scan, when nothing else is asked for.
    fn of(query: &Query, scan: &Scan, result: &TableSchema) -> Option<Columns> {
        let types = result.types();
        if scan.filter.is_some() || query.output.len() != types.len() {
            return None;
        }
        let columns: Option<Box<[u16]>> = query
            .output
            .iter()
            .zip(types)
            .map(|(expression, sql_type)| match expression.node {
                Node::Column { slot, column } if slot == scan.slot => {
                    (expression.sql_type == *sql_type).then_some(column)
                }
                _ => None,
            })
            .collect();
        let mut empty = Vec::new();
        TableBuilder::begin(&mut empty, result).finish();
        Some(Columns { columns: columns?, types: types.into(), empty: empty.into() })
    }

    /// Refuses a table whose columns are not those that were planned with.
    #[inline]
    fn check(&self, table: &Table) -> Result<(), SqlError> {
        match table.has_columns(&self.columns, &self.types) {
            true => Ok(()),
            false => Err(unsound()),
        }
    }

    /// Completes a table that began at `start` with N rows.
    #[inline]
    fn finish(&self, start: usize, rows: usize, out: &mut Vec<u8>) {
        let table_bytes = out.len() - start - 4;
        out.patch_i32(start, table_bytes as i32);
        out.patch_i32(start + self.empty.len() - 4, rows as i32);
    }
}

/// Columns of a row by its unique key.
#[derive(Debug, Clone)]
pub(super) struct ColumnGet {
    pub(super) lookup: Lookup,
    columns: Columns,
    /// The table with one row, for one column of 8 or 4 bytes: only the value changes.
    one: Option<Box<[u8]>>,
}

impl ColumnGet {
    fn new(lookup: Lookup, columns: Columns, result: &TableSchema) -> ColumnGet {
        let narrow = matches!(result.types(), [SqlType::BigInt | SqlType::Integer]);
        let one = narrow.then(|| {
            let mut one = Vec::new();
            let mut table = TableBuilder::begin(&mut one, result);
            table.row(result, &[Datum::Int(0)]);
            table.finish();
            one.into()
        });
        ColumnGet { lookup, columns, one }
    }

    /// What it reads.
    #[inline]
    pub(super) fn columns(&self) -> &[u16] {
        &self.columns.columns
    }

    /// Writes the table of one number from its template.
    #[inline(always)]
    fn write_one(&self, row: RowRef<'_>, out: &mut Vec<u8>, limit: usize) -> bool {
        let (Some(one), [column]) = (&self.one, &*self.columns.columns) else { return false };
        let Datum::Int(value) = row.column(usize::from(*column)) else { return false };
        if one.len() > limit {
            return false;
        }
        out.extend_from_slice(one);
        if self.columns.types[0] == SqlType::BigInt {
            if let Some(place) = out.last_chunk_mut() {
                *place = value.to_be_bytes();
            }
        } else if let Some(place) = out.last_chunk_mut() {
            *place = (value as i32).to_be_bytes();
        }
        true
    }

    #[inline(always)]
    fn run(
        &self,
        database: &Database,
        parameters: &[Datum<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let found = self.lookup.find(database, parameters)?;
        self.write(database, found.map(|(_, row)| row), out)
    }

    /// As `run`, where the row is known.
    #[inline]
    pub(super) fn run_at(
        &self,
        database: &Database,
        row: RowId,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let row = table_of(&database.tables, self.lookup.table)?.row(row);
        self.write(database, row, out)
    }

    #[inline(always)]
    fn write(
        &self,
        database: &Database,
        found: Option<RowRef<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let limit = database.options.result_limit_bytes;
        if let Some(row) = found
            && self.write_one(row, out, limit)
        {
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&self.columns.empty);
        let Some(row) = found else { return Ok(()) };
        self.columns.check(table_of(&database.tables, self.lookup.table)?)?;
        let row_bytes = row.write_columns(&self.columns.columns, out);
        if row_bytes > MAX_ROW_BYTES || out.len() - start > limit {
            out.truncate(start);
            return Err(too_large(row_bytes, limit));
        }
        self.columns.finish(start, 1, out);
        Ok(())
    }
}

/// Columns of the rows of an index range, whose ends need no evaluation.
#[derive(Debug, Clone)]
pub(super) struct ColumnRange {
    table: TableId,
    index: IndexId,
    equal: Vec<Operand>,
    lower: Option<(Operand, bool)>,
    upper: Option<(Operand, bool)>,
    reverse: bool,
    columns: Columns,
}

impl ColumnRange {
    /// The range of a query, if it is one.
    fn of(query: &Query, result: &TableSchema) -> Option<ColumnRange> {
        let Relation::Scan(scan) = &query.relation else { return None };
        let access = &scan.access;
        let Access::Index { index, equal, null_matches, lower, upper, reverse, at_most_one } =
            access
        else {
            return None;
        };
        if *at_most_one || equal.len() >= KEY_LIMIT || null_matches.iter().any(|matches| *matches) {
            return None;
        }
        let end = |bound: &Option<KeyBound>| match bound {
            None => Some(None),
            Some(bound) => Operand::of(&bound.value).map(|value| Some((value, bound.inclusive))),
        };
        Some(ColumnRange {
            table: scan.table,
            index: *index,
            equal: equal.iter().map(Operand::of).collect::<Option<_>>()?,
            lower: end(lower)?,
            upper: end(upper)?,
            reverse: *reverse,
            columns: Columns::of(query, scan, result)?,
        })
    }

    /// The cursor over the range; `None` when a NULL in its ends finds nothing.
    #[inline]
    fn open<'t, 'v>(
        &'v self,
        table: &'t Table,
        parameters: &[Datum<'v>],
    ) -> Result<Option<IndexCursor<'t>>, SqlError> {
        let mut low = [Datum::Null; KEY_LIMIT];
        for (place, operand) in low.iter_mut().zip(&self.equal) {
            *place = operand.value(parameters);
            if place.is_null() {
                return Ok(None);
            }
        }
        let mut high = low;
        let end = |end: &'v Option<(Operand, bool)>| {
            end.as_ref().map(|(value, inclusive)| (value.value(parameters), *inclusive))
        };
        let range = KeyRange {
            index: self.index,
            equal: self.equal.len(),
            lower: end(&self.lower),
            upper: end(&self.upper),
            reverse: self.reverse,
        };
        range.open(table, &mut low, &mut high).map_err(storage_fault)
    }

    // Apart, so that gets by key do not pay for its keys' room on the stack.
    #[inline(never)]
    fn run(
        &self,
        database: &Database,
        parameters: &[Datum<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let table = table_of(&database.tables, self.table)?;
        self.columns.check(table)?;
        let start = out.len();
        out.extend_from_slice(&self.columns.empty);
        let written = match self.open(table, parameters) {
            Ok(None) => return Ok(()),
            Ok(Some(cursor)) => self.write(database, cursor, start, out),
            Err(error) => Err(error),
        };
        match written {
            Ok(rows) => self.columns.finish(start, rows, out),
            Err(_) => out.truncate(start),
        }
        written.map(|_| ())
    }

    /// Appends all rows; gives their number.
    fn write(
        &self,
        database: &Database,
        mut cursor: IndexCursor<'_>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, SqlError> {
        let limit = database.options.result_limit_bytes;
        let limits = RowLimits { row_bytes: MAX_ROW_BYTES, end: start.saturating_add(limit) };
        let most = ROWS_PER_CHECK as usize;
        let mut rows = 0;
        loop {
            let written = cursor
                .write_rows(&self.columns.columns, most, limits, out)
                .map_err(|row_bytes| too_large(row_bytes, limit))?;
            rows += written;
            if written < most {
                return Ok(rows);
            }
            database.watch.check()?;
        }
    }
}
