//! Casts as text.

use super::*;

fn show(value: Datum<'_>, from: SqlType, to: SqlType) -> String {
    let arena = Arena::new();
    match cast(&arena, value, from, to) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

const RANGE: &str = "because the value is out of range for the destination type";

#[test]
fn numbers_narrow_within_their_range() {
    use SqlType::*;
    let decimal = |text| Datum::Decimal(lockstep_types::Decimal::parse(text).expect("a number"));
    let most = decimal("99999999999999999999999999.999999999999");
    let nines = "9".repeat(38);
    for (value, from, to, expected) in [
        (
            Datum::Int(32_767),
            SmallInt,
            TinyInt,
            format!("error: Type SMALLINT with value 32767 can't be cast as TINYINT {RANGE}"),
        ),
        (
            Datum::Int(-128),
            BigInt,
            TinyInt,
            format!("error: Type BIGINT with value -128 can't be cast as TINYINT {RANGE}"),
        ),
        (
            most,
            Decimal,
            Integer,
            format!("error: Type DECIMAL with value {nines} can't be cast as BIGINT {RANGE}"),
        ),
        (Datum::Float(3.75), Float, TinyInt, "3".into()),
        (Datum::Float(-2.5), Float, BigInt, "-2".into()),
        (decimal("-2.9"), Decimal, Integer, "-2".into()),
        (Datum::Float(1.0e17), Float, Decimal, "100000000000000000.000000000000".into()),
        (Datum::Float(-0.1), Float, Decimal, "-0.100000000000".into()),
        (Datum::Null, Varchar, Varbinary, "NULL".into()),
    ] {
        assert_eq!(show(value, from, to), expected);
    }
}

#[test]
fn text_is_read() {
    use SqlType::*;
    for (text, to, expected) in [
        ("-5", TinyInt, "-5"),
        (" 12.5 ", Integer, "12"),
        (
            "Hello World",
            SmallInt,
            "error: Could not convert to number: 'Hello World' contains invalid character value.",
        ),
        ("Hello World", Decimal, "error: Invalid characters in decimal string: Hello World"),
        ("1.1234567890123", Decimal, "1.123456789012"),
        ("1.1234567890125", Decimal, "1.123456789013"),
        (
            "infinity",
            Float,
            "error: Could not convert to number: 'infinity' contains invalid character value.",
        ),
        (
            "-5",
            Timestamp,
            "error: Attempted to cast '-5' to type TIMESTAMP failed. Supported format: \
             'YYYY-MM-DD HH:MM:SS.UUUUUU'or 'YYYY-MM-DD'",
        ),
        ("x", Varbinary, "error: Type VARCHAR can't be cast as VARBINARY"),
    ] {
        assert_eq!(show(Datum::Text(text), Varchar, to), expected);
    }
}

#[test]
fn text_is_made() {
    use SqlType::*;
    let decimal = Datum::Decimal(lockstep_types::Decimal::parse("-2.5").expect("a number"));
    for (value, from, expected) in [
        (Datum::Float(0.0), Float, "0E0"),
        (Datum::Float(1.0), Float, "1.0E0"),
        (Datum::Float(-2.5), Float, "-2.5E0"),
        (Datum::Float(1.5e308), Float, "1.5E308"),
        (Datum::Float(0.5), Float, "5.0E-1"),
        (Datum::Float(100.25), Float, "1.0025E2"),
        (Datum::Float(123_456.789), Float, "1.234568E5"),
        (Datum::Int(i64::MIN + 1), BigInt, "-9223372036854775807"),
        (decimal, Decimal, "-2.500000000000"),
        (Datum::Timestamp(0), Timestamp, "1970-01-01 00:00:00.000000"),
    ] {
        assert_eq!(show(value, from, Varchar), expected);
    }
}
