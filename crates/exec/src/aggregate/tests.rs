//! Aggregates over lists of values.

use super::*;
use AggregateFunction::*;

fn aggregate(
    function: AggregateFunction,
    distinct: bool,
    sql_type: SqlType,
    values: &[Datum<'_>],
) -> String {
    let arena = Arena::new();
    let values: &[Datum<'_>] = arena.copy(values);
    let mut accumulator = Accumulator::new(function, distinct, sql_type);
    let added = values.iter().try_for_each(|value| accumulator.add(*value));
    match added.and_then(|()| accumulator.finish(&arena)) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn decimal(text: &str) -> Datum<'static> {
    Datum::Decimal(Decimal::parse(text).expect("a number"))
}

#[test]
fn aggregates_skip_nulls_and_are_null_over_nothing() {
    use SqlType::{BigInt, Integer, Varchar};
    let values = [Datum::Int(2), Datum::Null, Datum::Int(-5), Datum::Int(2)];
    for (function, distinct, sql_type, expected, of_none) in [
        (CountStar, false, BigInt, "4", "0"),
        (Count, false, BigInt, "3", "0"),
        (Count, true, BigInt, "2", "0"),
        (Sum, false, BigInt, "-1", "NULL"),
        (Sum, true, BigInt, "-3", "NULL"),
        (Average, false, Integer, "0", "NULL"),
        (Average, true, Integer, "-1", "NULL"),
        (Min, false, Integer, "-5", "NULL"),
        (Max, true, Integer, "2", "NULL"),
        (ApproximateCountDistinct, false, BigInt, "2", "0"),
    ] {
        assert_eq!(aggregate(function, distinct, sql_type, &values), expected, "{function:?}");
        assert_eq!(aggregate(function, distinct, sql_type, &[]), of_none, "{function:?}");
    }
    let texts = [Datum::Text("b"), Datum::Text("é"), Datum::Null, Datum::Text("B")];
    assert_eq!(aggregate(Min, false, Varchar, &texts), "B");
    assert_eq!(aggregate(Max, false, Varchar, &texts), "é");
}

#[test]
fn sums_and_averages_keep_their_types_and_limits() {
    let (max, low) = (Datum::Int(i64::MAX), Datum::Int(-i64::MAX));
    assert_eq!(aggregate(Sum, false, SqlType::BigInt, &[max, max, low]), i64::MAX.to_string());
    let sum = aggregate(Sum, false, SqlType::BigInt, &[max, max]);
    assert_eq!(sum, "error: SUM of 18446744073709551614 will overflow BigInt storage");
    assert_eq!(aggregate(Sum, false, SqlType::BigInt, &[low, Datum::Int(-1)]), "NULL");
    let thirds = [decimal("1"), decimal("1"), decimal("0")];
    assert_eq!(aggregate(Average, false, SqlType::Decimal, &thirds), "0.666666666666");
    let most = decimal("99999999999999999999999999.999999999999");
    let sum = aggregate(Sum, false, SqlType::Decimal, &[most, most]);
    assert!(sum.contains("Attempted to add 99999999999999999999999999.999999999999"), "{sum}");
    let floats = [Datum::Float(1.5), Datum::Float(-0.5)];
    assert_eq!(aggregate(Average, false, SqlType::Float, &floats), "0.5");
    let huge = [Datum::Float(1.5e308), Datum::Float(1.5e308)];
    let sum = aggregate(Sum, false, SqlType::Float, &huge);
    assert_eq!(sum, "error: Invalid result value (inf) from floating point function SUM");
    assert!(aggregate(Sum, false, SqlType::BigInt, &[Datum::Text("x")]).starts_with("error"));
}

#[test]
fn values_that_collide_in_voltdb_collide_here() {
    let count = |argument_type, values: &[i64]| {
        let arena = Arena::new();
        let function = ApproximateCountDistinct;
        let mut counted = Accumulator::new(function, false, SqlType::BigInt).over(argument_type);
        for value in values {
            counted.add(Datum::Int(*value)).expect("any value");
        }
        counted.finish(&arena).map(|count| count.to_string())
    };
    assert_eq!(count(SqlType::BigInt, &[10, -3, 1, 10_000_000_000]), Ok("3".to_string()));
    assert_eq!(count(SqlType::BigInt, &[10, -3, 10_000_000_000]), Ok("3".to_string()));
    assert_eq!(count(SqlType::Integer, &[0, 9, 7, 5, -5]), Ok("5".to_string()));
}

#[test]
fn sketches_count_closely_and_merge() {
    for count in [1i64, 1_000, 5_000, 40_000, 200_000, 500_000] {
        let arena = Arena::new();
        let mut whole = Accumulator::new(ApproximateCountDistinct, false, SqlType::BigInt);
        let mut parts: Vec<Accumulator<'_>> = (0..3)
            .map(|_| Accumulator::new(ApproximateCountDistinctSketch, false, SqlType::Varbinary))
            .collect();
        for value in 0..count {
            whole.add(Datum::Int(value)).expect("any value");
            for part in [value % 3, value % 2] {
                parts[part as usize].add(Datum::Int(value)).expect("any value");
            }
        }
        let Ok(Datum::Int(estimate)) = whole.finish(&arena) else { panic!("a count") };
        let error = (estimate - count).abs() as f64 / count as f64;
        assert!(error < 0.02, "{estimate} for {count}");
        let mut merged = Accumulator::new(ApproximateCountDistinctMerge, false, SqlType::BigInt);
        for part in &mut parts {
            merged.add(part.finish(&arena).expect("a sketch")).expect("a sketch");
        }
        assert_eq!(merged.finish(&arena), Ok(Datum::Int(estimate)), "merged of {count}");
    }
    let bad: &[&[u8]] = &[b"", b"\0ab", b"\0abc", b"\x01abc", b"\x02"];
    for bytes in bad {
        let mut merged = Accumulator::new(ApproximateCountDistinctMerge, false, SqlType::BigInt);
        assert!(merged.add(Datum::Bytes(bytes)).is_err());
    }
}
