//! What is taken for what, and how refusals read.

use super::*;
use lockstep_types::parameter::ParameterWriter;

/// Converts one scalar.
fn convert(value: Datum<'_>, from: SqlType, to: SqlType) -> String {
    let mut writer = ParameterWriter::default();
    writer.scalar(from, value);
    run(&writer, to, false)
}

/// Converts one array.
fn convert_array(elements: &[Datum<'_>], from: SqlType, to: SqlType, is_array: bool) -> String {
    let mut writer = ParameterWriter::default();
    writer.array(from, elements);
    run(&writer, to, is_array)
}

fn run(writer: &ParameterWriter, sql_type: SqlType, is_array: bool) -> String {
    let arena = Arena::new();
    let set = ParameterSet::new(writer.bytes()).expect("a set");
    let given = set.get(0).expect("one").expect("sound");
    match procedure_parameter(given, ProcedureParameter { sql_type, is_array }, &arena) {
        Ok(value) if is_array && !value.is_null() => {
            let values: Vec<String> =
                super::super::array_elements(value).map(|v| v.to_string()).collect();
            format!("[{}]", values.join(", "))
        }
        Ok(Datum::Text(text)) => format!("'{text}'"),
        Ok(value) => value.to_string(),
        Err(error) => error.message().replace(java::TYPE_EXCEPTION, "type: "),
    }
}

fn decimal(text: &str) -> Datum<'static> {
    Datum::Decimal(Decimal::parse(text).expect("a number"))
}

#[test]
fn integers_are_taken_exactly() {
    use SqlType::*;
    for (value, from, to, expected) in [
        (Datum::Int(70_000), Integer, SmallInt, "70000"),
        (Datum::Int(5), TinyInt, BigInt, "5"),
        (Datum::Null, SmallInt, BigInt, "NULL"),
        (Datum::Null, Float, Integer, "NULL"),
        (Datum::Null, Varbinary, Integer, "NULL"),
        (decimal("12"), Decimal, BigInt, "12"),
        (
            Datum::Float(-0.0),
            Float,
            BigInt,
            "type: The provided value: (-0.0) of type: java.lang.Double is not a match \
                 or is out of range for the target parameter type: long",
        ),
        (
            Datum::Float(1.0e15),
            Float,
            BigInt,
            "type: The provided value: (1.0E15) of type: java.lang.Double is not a \
                 match or is out of range for the target parameter type: long",
        ),
        (
            decimal("0.000000000001"),
            Decimal,
            BigInt,
            "type: The provided value: (1E-12) of type: java.math.BigDecimal is out of \
                 range for the target parameter type: long",
        ),
        (
            decimal("1.5"),
            Decimal,
            BigInt,
            "type: The provided value: (1.500000000000) of type: java.math.BigDecimal \
                 is out of range for the target parameter type: long",
        ),
        (
            Datum::Timestamp(0),
            Timestamp,
            BigInt,
            "type: The provided value: (1970-01-01 00:00:00.000000) of type: \
                 org.voltdb.types.TimestampType is not a match or is out of range for the \
                 target parameter type: long",
        ),
        (
            Datum::Null,
            Timestamp,
            Float,
            "type: The provided value: (290303-12-10 19:59:05.224192) of type: \
                 org.voltdb.types.TimestampType is not a match or is out of range for the \
                 target parameter type: double",
        ),
        (
            Datum::Bytes(b""),
            Varbinary,
            Integer,
            "type: Array / Scalar parameter mismatch ([B to long)",
        ),
    ] {
        assert_eq!(convert(value, from, to), expected, "{value} {from} to {to}");
    }
}

#[test]
fn other_numbers_and_times_are_taken_exactly() {
    use SqlType::*;
    for (value, from, to, expected) in [
        (Datum::Int(-1), Integer, Float, "-1"),
        (decimal("0.5"), Decimal, Float, "0.5"),
        (Datum::Int(i64::MAX), BigInt, Decimal, "9223372036854775807.000000000000"),
        (Datum::Float(0.1), Float, Decimal, "0.100000000000"),
        (
            Datum::Timestamp(0),
            Timestamp,
            Decimal,
            "java.lang.NumberFormatException: Character array is missing \"e\" notation \
                 exponential mark.",
        ),
        (Datum::Int(70_000), Integer, Timestamp, "1970-01-01 00:00:00.070000"),
        (Datum::Int(-1), BigInt, Timestamp, "1969-12-31 23:59:59.999999"),
        (
            Datum::Int(5),
            TinyInt,
            Timestamp,
            "type: The provided value: (5) of type: java.lang.Byte is not a match or is out of \
                 range for the target parameter type: org.voltdb.types.TimestampType",
        ),
        (
            Datum::Int(500),
            SmallInt,
            Timestamp,
            "type: The provided value: (500) of type: java.lang.Short is not a match or is out \
                 of range for the target parameter type: org.voltdb.types.TimestampType",
        ),
        (Datum::Null, TinyInt, Timestamp, "NULL"),
        (
            decimal("0.000000000001"),
            Decimal,
            Timestamp,
            "type: The provided value: (1E-12) of type: java.math.BigDecimal is out of \
                 range for the target parameter type: org.voltdb.types.TimestampType",
        ),
    ] {
        assert_eq!(convert(value, from, to), expected, "{value} {from} to {to}");
    }
}

#[test]
fn text_is_read_as_the_declared_type() {
    use SqlType::*;
    for (text, to, expected) in [
        (" 7 ", Integer, "7"),
        ("1,234", BigInt, "1234"),
        ("X'ff'", BigInt, "255"),
        ("\\N", BigInt, "NULL"),
        ("1e2", BigInt, "type: Unable to convert string 1e2 to long value for target parameter."),
        ("", SmallInt, "type: Unable to convert string  to long value for target parameter."),
        ("1e2", Float, "100"),
        (" NaN ", Float, "NaN"),
        ("Infinity", Float, "inf"),
        ("-Infinity", Float, "NULL"),
        ("nan", Float, "type: Unable to convert string nan to double value for target parameter."),
        ("12.5", Decimal, "12.500000000000"),
        ("0.0000000000015", Decimal, "0.000000000002"),
        (
            "abc",
            Decimal,
            "java.lang.NumberFormatException: Character a is neither a decimal digit \
                 number, decimal point, nor \"e\" notation exponential mark.",
        ),
        ("2020-01-01", Timestamp, "2020-01-01 00:00:00.000000"),
        ("5", Timestamp, "1970-01-01 00:00:00.000005"),
        (
            "日本",
            Timestamp,
            "type: The provided value: (日本) of type: java.lang.String is not a match or \
                 is out of range for the target parameter type: \
                 org.voltdb.types.TimestampType",
        ),
        ("0A0b", Varbinary, "0A0B"),
        ("X'0A'", Varbinary, "0A"),
        (" 7 ", Varbinary, "java.lang.RuntimeException: String is not properly hex-encoded."),
        ("\\N", Varchar, "NULL"),
    ] {
        assert_eq!(convert(Datum::Text(text), Varchar, to), expected, "{text} to {to}");
    }
}

#[test]
fn most_values_are_taken_as_text() {
    use SqlType::*;
    for (value, from, expected) in [
        (Datum::Int(7), Integer, "'7'"),
        (Datum::Float(1.5), Float, "'1.5'"),
        (Datum::Float(-0.0), Float, "'-0.0'"),
        (Datum::Float(1.0e-300), Float, "'1.0E-300'"),
        (Datum::Float(12_345_678.0), Float, "'1.2345678E7'"),
        (Datum::Float(f64::NAN), Float, "'NaN'"),
        (Datum::Float(f64::INFINITY), Float, "'Infinity'"),
        (Datum::Timestamp(0), Timestamp, "'1970-01-01 00:00:00.000000'"),
        (Datum::Bytes(b"ab"), Varbinary, "'ab'"),
        (
            decimal("12"),
            Decimal,
            "type: The provided value: (12.000000000000) of type: java.math.BigDecimal \
                 is out of range for the target parameter type: java.lang.String",
        ),
    ] {
        assert_eq!(convert(value, from, Varchar), expected, "{value}");
    }
    let refused = convert(Datum::Int(1), Integer, Varbinary);
    assert_eq!(refused, "type: Array / Scalar parameter mismatch (java.lang.Integer to [B)");
}

#[test]
fn arrays_keep_their_element_type() {
    use SqlType::*;
    let ints = [Datum::Int(1), Datum::Null];
    assert_eq!(convert_array(&ints, Integer, Integer, true), "[1, NULL]");
    assert_eq!(convert_array(&[], Varchar, Integer, true), "[]");
    assert_eq!(
        convert_array(&ints, Integer, BigInt, true),
        "type: tryScalarMakeCompatible: Unable to match parameter array:long to provided int"
    );
    assert_eq!(
        convert_array(&ints, Integer, BigInt, false),
        "type: Array / Scalar parameter mismatch ([I to long)"
    );
    assert_eq!(convert_array(&ints, TinyInt, Varbinary, false), "0180");
    assert_eq!(convert_array(&[Datum::Text("0aFF")], Varchar, Varbinary, true), "[0AFF]");
    assert_eq!(
        convert_array(&[Datum::Text("a")], Varchar, Varbinary, true),
        "java.lang.RuntimeException: String is not properly hex-encoded."
    );
    let mut writer = ParameterWriter::default();
    writer.text("7");
    assert_eq!(
        run(&writer, SmallInt, true),
        "type: Array / Scalar parameter mismatch (java.lang.String to [S)"
    );
    let mut writer = ParameterWriter::default();
    writer.scalar(Varbinary, Datum::Bytes(&[1, 0x80]));
    assert_eq!(run(&writer, TinyInt, true), "[1, NULL]");
}

#[test]
fn statements_name_what_is_wrong() {
    let arena = Arena::new();
    let planned = [StatementParameter { sql_type: SqlType::Integer, is_array: false }];
    let mut writer = ParameterWriter::default();
    writer.integer(1).integer(2);
    let set = ParameterSet::new(writer.bytes()).expect("a set");
    let error = statement_parameters(set, &planned, &arena).expect_err("too many");
    let failure = error.to_failure();
    assert_eq!(
        failure.message,
        "SQL error while compiling query: Incorrect number of parameters passed: expected 1, \
         passed 2"
    );
    let mut writer = ParameterWriter::default();
    writer.array(SqlType::Integer, &[Datum::Int(1)]);
    let set = ParameterSet::new(writer.bytes()).expect("a set");
    let error = statement_parameters(set, &planned, &arena).expect_err("an array");
    assert_eq!(
        error.message(),
        "Unable to execute adhoc sql statement(s): Array / Scalar parameter mismatch ([I to long)"
    );
}
