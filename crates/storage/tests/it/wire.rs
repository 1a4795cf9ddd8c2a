//! Result rows from slots are what the builder of result tables makes of the same values.

use crate::support::{fixed, on, table, text};
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_storage::{ColumnLayout, RowLimits, Table, Tables, UndoLog};
use lockstep_types::{Datum, Decimal, IndexId, SqlType, TableBuilder, TableSchema};
use std::ops::Bound;

const TYPES: [SqlType; 11] = [
    SqlType::BigInt,
    SqlType::Integer,
    SqlType::SmallInt,
    SqlType::TinyInt,
    SqlType::Float,
    SqlType::Decimal,
    SqlType::Timestamp,
    SqlType::Varchar,
    SqlType::Varchar,
    SqlType::Varbinary,
    SqlType::Varbinary,
];
const NO_LIMITS: RowLimits = RowLimits { row_bytes: usize::MAX, end: usize::MAX };
const ROWS: i64 = 500;

fn value<'t>(random: &mut SeededRandom, column: usize, number: i64, text: &'t str) -> Datum<'t> {
    if column == 0 {
        return Datum::Int(number);
    }
    if random.below(4) == 0 {
        return Datum::Null;
    }
    let integer = random.below(200) as i64 - 100;
    let text = &text[..random.below(1 + if column % 2 == 1 { 15 } else { 60 }) as usize];
    match TYPES[column] {
        SqlType::Float => Datum::Float(integer as f64 / 8.0),
        SqlType::Decimal => Datum::Decimal(Decimal::from_raw(i128::from(integer) << 70)),
        SqlType::Timestamp => Datum::Timestamp(integer << 40),
        SqlType::Varchar => Datum::Text(text),
        SqlType::Varbinary => Datum::Bytes(text.as_bytes()),
        _ => Datum::Int(integer),
    }
}

/// A table with columns of every type, a unique index on the first and another on the second.
fn filled() -> (Tables, lockstep_types::TableId) {
    let column = |(number, sql_type): (usize, &SqlType)| match sql_type {
        SqlType::Varchar => text(if number % 2 == 1 { 15 } else { 60 }),
        SqlType::Varbinary => {
            ColumnLayout::variable(SqlType::Varbinary, if number % 2 == 1 { 15 } else { 60 })
        }
        other => fixed(*other),
    };
    let columns: Vec<ColumnLayout> = TYPES.iter().enumerate().map(column).collect();
    let (mut tables, mut undo) = (Tables::new(), UndoLog::default());
    let id = tables.add(table("T", &columns));
    tables[id].add_index(on("KEY", true, &[0])).expect("legal");
    tables[id].add_index(on("OTHER", false, &[1])).expect("legal");
    let mut random = SeededRandom::new(7);
    let long = "long enough for every column of this table to be cut off from it";
    for number in 0..ROWS {
        let row: Vec<Datum<'_>> =
            (0..TYPES.len()).map(|column| value(&mut random, column, number, long)).collect();
        tables[id].insert(&row, &mut undo).expect("a row that fits");
    }
    undo.release_all(&mut tables);
    (tables, id)
}

/// What the builder makes of the rows of a range, after its header.
fn built(table: &Table, index: u16, reverse: bool, columns: &[u16]) -> Vec<u8> {
    let types: Vec<(&str, SqlType)> =
        columns.iter().map(|column| ("C", TYPES[usize::from(*column)])).collect();
    let schema = TableSchema::new(&types);
    let mut out = Vec::new();
    let mut empty = Vec::new();
    TableBuilder::begin(&mut empty, &schema).finish();
    let mut builder = TableBuilder::begin(&mut out, &schema);
    let cursor = table.range(IndexId(index), Bound::Unbounded, Bound::Unbounded, reverse);
    for (_, row) in cursor.expect("a legal range") {
        let values: Vec<_> = columns.iter().map(|c| row.column(usize::from(*c))).collect();
        builder.row(&schema, &values);
    }
    builder.finish();
    out.split_off(empty.len())
}

#[test]
fn rows_of_a_range_are_written_as_the_builder_writes_them() {
    let (tables, id) = filled();
    let table = &tables[id];
    let all: Vec<u16> = (0..TYPES.len() as u16).collect();
    for columns in [&all[..], &[0], &[8, 1], &[10, 9, 0], &[2, 2], &[]] {
        for (index, reverse) in [(0, false), (0, true), (1, false), (1, true)] {
            for most in [1, 7, 16, 100, 10_000] {
                let mut out = vec![1, 2, 3];
                let range =
                    table.range(IndexId(index), Bound::Unbounded, Bound::Unbounded, reverse);
                let mut cursor = range.expect("a legal range");
                let mut rows = 0;
                loop {
                    let written = cursor.write_rows(columns, most, NO_LIMITS, &mut out);
                    let written = written.expect("no limits");
                    rows += written;
                    if written < most {
                        break;
                    }
                }
                assert_eq!(rows, ROWS as usize);
                assert_eq!(out[..3], [1, 2, 3], "what stood before stays");
                assert!(out[3..] == built(table, index, reverse, columns), "{columns:?} {most}");
            }
        }
    }
}

#[test]
fn the_first_row_over_a_limit_ends_the_writing() {
    let (tables, id) = filled();
    let table = &tables[id];
    let write = |limits: RowLimits| {
        let range = table.range(IndexId(0), Bound::Unbounded, Bound::Unbounded, false);
        let mut out = Vec::new();
        let written = range.expect("a legal range").write_rows(&[0, 8], 1000, limits, &mut out);
        (written, out)
    };
    let rows = |bytes: &[u8]| {
        let mut reader = ByteReader::new(bytes);
        std::iter::from_fn(|| Some(reader.sized().ok()??.len())).collect::<Vec<_>>()
    };
    let (written, all) = write(NO_LIMITS);
    assert_eq!(written, Ok(ROWS as usize));
    let lengths = rows(&all);
    let longest = *lengths.iter().max().expect("rows");
    let (written, out) = write(RowLimits { row_bytes: longest - 1, ..NO_LIMITS });
    assert_eq!(written, Err(longest));
    assert_eq!(rows(&out).iter().position(|bytes| *bytes == longest), Some(rows(&out).len() - 1));
    let (written, out) = write(RowLimits { end: 100, ..NO_LIMITS });
    assert_eq!(written, Err(*rows(&out).last().expect("a row")));
    assert!(out.len() > 100 && out.len() - 4 - rows(&out).last().expect("a row") <= 100);
    assert_eq!(write(RowLimits { end: all.len(), ..NO_LIMITS }).0, Ok(ROWS as usize));
}

#[test]
fn columns_of_another_type_are_told_apart() {
    let (tables, id) = filled();
    let table = &tables[id];
    assert!(table.has_columns(&[0, 7], &[SqlType::BigInt, SqlType::Varchar]));
    assert!(!table.has_columns(&[0, 7], &[SqlType::BigInt, SqlType::Varbinary]));
    assert!(!table.has_columns(&[0], &[SqlType::BigInt, SqlType::Varchar]));
    assert!(!table.has_columns(&[TYPES.len() as u16], &[SqlType::BigInt]));
}
