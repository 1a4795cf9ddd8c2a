//! Bounds that lie outside a column's range, and scans that run while rows change.

use crate::support::{fixed, on, table};
use lockstep_storage::{ScanCursor, Tables, UndoLog};
use lockstep_types::{Datum, Decimal, IndexId, SqlType};
use std::ops::Bound;

#[test]
fn bounds_outside_the_range_bound_as_arithmetic_has_it() {
    let mut tables = Tables::new();
    let id = tables.add(table("T", &[fixed(SqlType::TinyInt), fixed(SqlType::Integer)]));
    tables[id].add_index(on("PAIR", false, &[0, 1])).expect("a legal index");
    let mut undo = UndoLog::default();
    for small in [Datum::Null, Datum::Int(-127), Datum::Int(5), Datum::Int(127)] {
        for other in [Datum::Null, Datum::Int(-9), Datum::Int(9)] {
            tables[id].insert(&[small, other], &mut undo).expect("legal values");
        }
    }
    let count = |lower: Bound<&[Datum<'_>]>, upper: Bound<&[Datum<'_>]>| {
        let range = |reverse| tables[id].range(IndexId(0), lower, upper, reverse);
        let forward = range(false).expect("a legal range").count_rows();
        assert_eq!(forward, range(true).expect("a legal range").count_rows());
        forward
    };
    let (huge, tiny) = ([Datum::Int(1 << 40)], [Datum::Int(-(1 << 40))]);
    assert_eq!(count(Bound::Unbounded, Bound::Included(&huge)), 12);
    assert_eq!(count(Bound::Unbounded, Bound::Excluded(&huge)), 12);
    assert_eq!(count(Bound::Included(&huge), Bound::Unbounded), 0);
    assert_eq!(count(Bound::Excluded(&tiny), Bound::Unbounded), 9, "NULL is below all");
    assert_eq!(count(Bound::Unbounded, Bound::Excluded(&tiny)), 3, "only NULL is below");
    assert_eq!(count(Bound::Excluded(&[Datum::Null]), Bound::Unbounded), 9);
    assert_eq!(count(Bound::Included(&huge), Bound::Included(&huge)), 0);
    let within = [Datum::Int(5), Datum::Int(i64::MAX)];
    assert_eq!(count(Bound::Included(&within[..1]), Bound::Included(&within)), 3);
    assert_eq!(count(Bound::Included(&within), Bound::Unbounded), 3, "from 127 on");
    assert_eq!(count(Bound::Included(&[Datum::Int(127)]), Bound::Included(&[Datum::Int(5)])), 0);
    let found = tables[id].get(IndexId(0), &within).expect("a whole key");
    assert!(found.is_none());
}

#[test]
fn numbers_of_other_kinds_find_float_and_decimal_keys() {
    let mut tables = Tables::new();
    let id = tables.add(table("T", &[fixed(SqlType::Float), fixed(SqlType::Decimal)]));
    tables[id].add_index(on("F", true, &[0])).expect("a legal index");
    tables[id].add_index(on("D", true, &[1])).expect("a legal index");
    let two = Datum::Decimal(Decimal::from_integer(2));
    tables[id].insert(&[Datum::Float(2.0), two], &mut UndoLog::default()).expect("legal values");
    for (index, key) in [(0, Datum::Int(2)), (0, two), (1, Datum::Int(2)), (0, Datum::Float(2.0))] {
        assert!(tables[id].get(IndexId(index), &[key]).expect("a whole key").is_some(), "{key}");
    }
    assert!(tables[id].get(IndexId(0), &[Datum::Text("2")]).is_err());
}

#[test]
fn a_scan_goes_on_while_its_rows_are_deleted_and_updated() {
    let mut tables = Tables::new();
    let id = tables.add(table("T", &[fixed(SqlType::BigInt)]));
    let mut undo = UndoLog::default();
    for value in 0..1000 {
        tables[id].insert(&[Datum::Int(value)], &mut undo).expect("legal values");
    }
    let (mut cursor, mut met) = (ScanCursor::new(), 0);
    while let Some((row, values)) = cursor.next(&tables[id]) {
        let Datum::Int(value) = values.column(0) else { panic!("no value is NULL") };
        assert_eq!(value, met);
        met += 1;
        if value % 3 == 0 {
            tables[id].delete(row, &mut undo).expect("the row is live");
        } else {
            tables[id].update(row, &[(0, Datum::Int(-1))], &mut undo).expect("legal values");
        }
    }
    assert_eq!(met, 1000);
    assert_eq!(tables[id].row_count(), 666);
    assert!(tables[id].scan().all(|(_, values)| values.column(0) == Datum::Int(-1)));
}
