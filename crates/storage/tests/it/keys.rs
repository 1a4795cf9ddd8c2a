//! Index order is value order, for every type, in every form of key.

use crate::support::{fixed, on, table};
use lockstep_base::random::SeededRandom;
use lockstep_storage::{ColumnLayout, KeyForm, RowId, StorageError, Table, Tables, UndoLog};
use lockstep_types::sql_type::NULL_FLOAT;
use lockstep_types::{Datum, Decimal, IndexId, SqlType, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Values of a type that lie at its edges, and some others.
fn values_of(sql_type: SqlType) -> Vec<Value> {
    let numbers = |values: &[i64]| values.iter().map(|value| Value::Int(*value)).collect();
    let mut values: Vec<Value> = match sql_type {
        SqlType::TinyInt => numbers(&[-127, -1, 0, 1, 127]),
        SqlType::SmallInt => numbers(&[-32_767, -129, -1, 0, 256, 32_767]),
        SqlType::Integer => numbers(&[-2_147_483_647, -65_537, -1, 0, 65_536, 2_147_483_647]),
        SqlType::BigInt => numbers(&[-i64::MAX, -1 << 40, -1, 0, 1, 1 << 40, i64::MAX]),
        SqlType::Timestamp => {
            [-i64::MAX, -1, 0, 1, i64::MAX].iter().map(|value| Value::Timestamp(*value)).collect()
        }
        SqlType::Float => {
            let least = f64::from_bits(NULL_FLOAT.to_bits() - 1);
            let other_nan = f64::from_bits(0xfff8_0000_0000_0001);
            let special = [f64::NAN, other_nan, f64::INFINITY];
            [least, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 5e-324, 1.0, 1.5, f64::MAX]
                .iter()
                .chain(&special)
                .map(|value| Value::Float(*value))
                .collect()
        }
        SqlType::Decimal => [-lockstep_types::decimal::MAX_UNITS, -1 << 64, -1, 0, 1, 1 << 64]
            .iter()
            .map(|units| Value::Decimal(Decimal::from_raw(*units)))
            .collect(),
        SqlType::Varchar => {
            ["", "\0", "\0\0", "\0a", "\u{1}", "a", "a\0", "ab", "b", "é", "\u{7f}"]
                .iter()
                .map(|value| Value::Text((*value).into()))
                .chain(
                    ["xxxxxxx", "xxxxxxy", "xxxxxx\0", "aé", "abc"].map(|v| Value::Text(v.into())),
                )
                .chain([22, 23, 24, 25, 26, 200].map(|n| Value::Text("x".repeat(n).into())))
                .collect()
        }
        _ => [&[][..], &[0], &[0, 0], &[0, 255], &[0, 1], &[1], &[255], &[255, 255], &[255; 40]]
            .iter()
            .map(|value| Value::Bytes((*value).into()))
            .collect(),
    };
    values.push(Value::Null);
    values
}

fn column_of(sql_type: SqlType, longest: u32) -> ColumnLayout {
    if sql_type.is_variable_length() {
        ColumnLayout::variable(sql_type, longest)
    } else {
        fixed(sql_type)
    }
}

fn rows_between(
    table: &Table,
    lower: Bound<&[Datum<'_>]>,
    upper: Bound<&[Datum<'_>]>,
    reverse: bool,
) -> Vec<RowId> {
    let mut rows = Vec::new();
    let cursor = table.range(IndexId(0), lower, upper, reverse).expect("a legal range");
    let count = table.range(IndexId(0), lower, upper, reverse).expect("legal").count_rows();
    cursor.collect_into(&mut rows);
    assert_eq!(rows.len() as u64, count);
    rows
}

/// Fills a table with rows of random values, and compares order, lookups and ranges with a sort.
/// Text and bytes have at most `longest` bytes, the keys that are looked for may have more.
fn check_order(types: &[SqlType], longest: u32, form: KeyForm, seed: u64) {
    let mut random = SeededRandom::new(seed);
    let columns: Vec<ColumnLayout> = types.iter().map(|t| column_of(*t, longest)).collect();
    let mut tables = Tables::new();
    let id = tables.add(table("T", &columns));
    let positions: Vec<usize> = (0..types.len()).collect();
    tables[id].add_index(on("I", false, &positions)).expect("a legal index");
    assert_eq!(tables[id].indexes()[0].form(), form, "{types:?}");
    let pools: Vec<Vec<Value>> = types.iter().map(|t| values_of(*t)).collect();
    let pick = |random: &mut SeededRandom| -> Vec<Value> {
        let one = |pool: &Vec<Value>| pool[random.below(pool.len() as u64) as usize].clone();
        pools.iter().map(one).collect()
    };
    let mut rows = Vec::new();
    let mut undo = UndoLog::default();
    for _ in 0..600 {
        let values = pick(&mut random);
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        match tables[id].insert(&datums, &mut undo) {
            Ok(row) => rows.push((row, values)),
            Err(error) => assert!(matches!(error, StorageError::ValueTooLong { .. }), "{error}"),
        }
    }
    let compare = |a: &[Value], b: &[Value]| {
        let mut pairs = a.iter().zip(b);
        pairs
            .find_map(|(a, b)| Some(a.as_datum().sort_order(b.as_datum())).filter(|o| o.is_ne()))
            .unwrap_or(Ordering::Equal)
    };
    rows.sort_by(|(a_row, a), (b_row, b)| compare(a, b).then(a_row.cmp(b_row)));
    let table = &tables[id];
    for _ in 0..400 {
        let (lower, upper) = (pick(&mut random), pick(&mut random));
        let lower = &lower[..random.below(types.len() as u64 + 1) as usize];
        let upper = &upper[..random.below(types.len() as u64 + 1) as usize];
        let (from, to) = (random.chance(1, 2), random.chance(1, 2));
        let inside = |(_, row): &&(RowId, Vec<Value>)| {
            let above = compare(&row[..lower.len()], lower);
            let below = compare(&row[..upper.len()], upper);
            (above.is_gt() || from && above.is_eq()) && (below.is_lt() || to && below.is_eq())
        };
        let mut expected: Vec<RowId> = rows.iter().filter(inside).map(|(row, _)| *row).collect();
        let lower: Vec<Datum<'_>> = lower.iter().map(Value::as_datum).collect();
        let upper: Vec<Datum<'_>> = upper.iter().map(Value::as_datum).collect();
        let bound = |key, included: bool| {
            if included { Bound::Included(key) } else { Bound::Excluded(key) }
        };
        let (lower, upper) = (bound(&lower[..], from), bound(&upper[..], to));
        let given = rows_between(table, lower, upper, false);
        assert_eq!(given, expected, "{types:?} {lower:?} {upper:?}");
        expected.reverse();
        assert_eq!(rows_between(table, lower, upper, true), expected, "{types:?} reverse");
        let key = pick(&mut random);
        let first = rows.iter().find(|(_, row)| compare(row, &key).is_eq()).map(|(row, _)| *row);
        let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
        let found = table.get(IndexId(0), &key).expect("a whole key");
        assert_eq!(found.map(|(row, _)| row), first, "{types:?} {key:?}");
    }
}

#[test]
fn index_order_is_value_order() {
    use SqlType::{
        BigInt, Decimal, Float, Integer, SmallInt, Timestamp, TinyInt, Varbinary, Varchar,
    };
    let cases: [(&[SqlType], u32, KeyForm); 24] = [
        (&[TinyInt], 300, KeyForm::Word),
        (&[SmallInt], 300, KeyForm::Word),
        (&[Integer], 300, KeyForm::Word),
        (&[BigInt], 300, KeyForm::Word),
        (&[Timestamp], 300, KeyForm::Word),
        (&[Float], 300, KeyForm::Word),
        (&[Decimal], 300, KeyForm::DoubleWord),
        (&[Varchar], 300, KeyForm::Bytes),
        (&[Varbinary], 300, KeyForm::Bytes),
        (&[SmallInt, TinyInt, Integer], 300, KeyForm::Word),
        (&[Integer, Integer], 300, KeyForm::Word),
        (&[BigInt, BigInt], 300, KeyForm::DoubleWord),
        (&[TinyInt, Float], 300, KeyForm::DoubleWord),
        (&[BigInt, TinyInt, Timestamp], 300, KeyForm::Bytes),
        (&[Varchar, Integer], 300, KeyForm::Bytes),
        (&[Decimal, Varbinary, Float], 300, KeyForm::Bytes),
        (&[Varchar, Varchar], 300, KeyForm::Bytes),
        (&[Varchar, Varchar], 30, KeyForm::Bytes),
        (&[Varchar], 2, KeyForm::Word),
        (&[Varchar], 7, KeyForm::Word),
        (&[Varbinary], 15, KeyForm::DoubleWord),
        (&[Integer, Varchar], 8, KeyForm::DoubleWord),
        (&[Varchar, TinyInt, Varbinary], 2, KeyForm::Word),
        (&[Varchar, Integer, Varbinary], 7, KeyForm::Bytes),
    ];
    for (seed, (types, longest, form)) in cases.into_iter().enumerate() {
        check_order(types, longest, form, seed as u64);
    }
}

/// Unique keys are found over and over while rows change their keys, leave, come back in other
/// slots and are undone: an index answers with the row that has the key now.
#[test]
fn a_key_is_found_where_it_is_now() {
    const KEYS: u64 = 200;
    let columns = [fixed(SqlType::SmallInt), fixed(SqlType::Integer)];
    let mut tables = Tables::new();
    let mut table = table("T", &columns);
    table.add_index(on("PK", true, &[0, 1])).expect("a legal index");
    let id = tables.add(table);
    let (mut undo, mut random) = (UndoLog::default(), SeededRandom::new(7));
    let mut rows: BTreeMap<u64, RowId> = BTreeMap::new();
    let key = |number: u64| [Datum::Int(number as i64 % 3), Datum::Int(number as i64 / 3)];
    let mut found_rows = 0;
    for _ in 0..20_000 {
        let (number, other) = (random.below(KEYS), random.below(KEYS));
        let (mark, before) = (undo.mark(), rows.clone());
        match (rows.get(&number).copied(), random.below(3)) {
            (None, _) => {
                let row = tables[id].insert(&key(number), &mut undo).expect("a new key");
                rows.insert(number, row);
            }
            (Some(row), 0) => {
                tables[id].delete(row, &mut undo).expect("a row");
                rows.remove(&number);
            }
            (Some(row), 1) if !rows.contains_key(&other) => {
                let [a, b] = key(other);
                tables[id].update(row, &[(0, a), (1, b)], &mut undo).expect("a free key");
                rows.remove(&number);
                rows.insert(other, row);
            }
            _ => {}
        }
        for asked in [number, other, random.below(KEYS)] {
            let found = tables[id].get(IndexId(0), &key(asked)).expect("a whole key");
            assert_eq!(found.map(|(row, _)| row), rows.get(&asked).copied(), "key {asked}");
            found_rows += u64::from(found.is_some());
        }
        if random.chance(1, 4) {
            undo.rollback_to(mark, &mut tables);
            rows = before;
            let found = tables[id].get(IndexId(0), &key(number)).expect("a whole key");
            assert_eq!(found.map(|(row, _)| row), rows.get(&number).copied(), "key {number}");
        }
    }
    assert!(found_rows > 10_000, "{found_rows} of 60,000 were there");
}
