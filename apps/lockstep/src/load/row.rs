//! A record's values in wire form, each as its column's type wants it.

use super::target::{Column, Mapping, Source, Target};
use crate::csv::reader::{Record, Value};
use lockstep_types::decimal::DecimalError;
use lockstep_types::float::{float_of_word, is_null_float};
use lockstep_types::geography::Point;
use lockstep_types::geography::text::{incomplete_polygon, polygon_rings};
use lockstep_types::table::write_datum;
use lockstep_types::{Datum, Decimal, SqlType, timestamp};

/// How TIMESTAMP values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`; a `T` for the blank and a `Z` after it do no harm.
    Text,
    /// A number of units since 1970, N microseconds each.
    Number(i64),
}

/// How text becomes values.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What stands for NULL where it is not quoted.
    pub nulls: Vec<String>,
    /// How times are written.
    pub times: Times,
}

/// Why a record is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The value that it is about; the record if none.
    pub place: Option<usize>,
    /// What is wrong.
    pub reason: String,
}

/// Makes rows of records.
pub struct Encoder<'t> {
    target: &'t Target,
    mapping: Mapping,
    rules: Rules,
    /// The row's values in wire form.
    pub row: Vec<u8>,
    /// The bytes of the row's partitioning value.
    key: Vec<u8>,
    has_key: bool,
    scratch: Vec<u8>,
}

impl<'t> Encoder<'t> {
    /// An encoder for a table.
    pub fn new(target: &'t Target, mapping: Mapping, rules: Rules) -> Encoder<'t> {
        let (row, key, scratch) = (Vec::new(), Vec::new(), Vec::new());
        Encoder { target, mapping, rules, row, key, has_key: false, scratch }
    }

    /// The bytes of the row's partitioning value; none for NULL and for replicated tables.
    pub fn key(&self) -> Option<&[u8]> {
        self.has_key.then_some(&self.key)
    }

    /// Encodes a record into `row`, and its partitioning value.
    ///
    /// # Errors
    /// It has another number of values, or one of them does not fit its column.
    pub fn encode(&mut self, record: &Record<'_>) -> Result<(), Refusal> {
        let (given, expected) = (record.len(), self.mapping.columns.len());
        if given != expected {
            let reason = self.wrong_count(record, given, expected);
            return Err(Refusal { place: (given > expected).then_some(expected), reason });
        }
        self.row.clear();
        self.has_key = false;
        for (place, column) in self.target.columns.iter().enumerate() {
            let field = match &self.mapping.sources[place] {
                Source::Constant(bytes) => {
                    self.row.extend_from_slice(bytes);
                    continue;
                }
                Source::Field(field) => *field,
            };
            let value = record.value(field);
            let datum = match is_null(&self.rules, value) {
                true if column.nullable => Datum::Null,
                true => {
                    let reason = format!("column {}: it takes no NULL", column.name);
                    return Err(Refusal { place: Some(field), reason });
                }
                false => read(column, value.bytes, self.rules.times, &mut self.scratch).map_err(
                    |reason| {
                        let reason = format!("column {}: {reason}", column.name);
                        Refusal { place: Some(field), reason }
                    },
                )?,
            };
            write_datum(&mut self.row, column.sql_type, datum);
            self.has_key |= self.target.place_by(place, datum, &mut self.key);
        }
        Ok(())
    }

    fn wrong_count(&self, record: &Record<'_>, given: usize, expected: usize) -> String {
        let s = |count: usize| if count == 1 { "" } else { "s" };
        if given < expected {
            let missing = &self.target.columns[self.mapping.columns[given]].name;
            let only =
                if given == 1 && record.value(0).bytes.is_empty() { "an empty line" } else { "" };
            if !only.is_empty() {
                return format!("{only}: {expected} value{} are expected", s(expected));
            }
            return format!(
                "{given} value{}, {expected} expected: the first that is missing is for {missing}",
                s(given)
            );
        }
        format!("{given} values, {expected} expected: the first that is too many is here")
    }
}

#[inline]
fn is_null(rules: &Rules, value: Value<'_>) -> bool {
    !value.quoted && rules.nulls.iter().any(|null| null.as_bytes() == value.bytes)
}

/// Text as a message shows it: not all of a long one.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().count() > MOST {
        shown.push_str("...");
    }
    format!("'{shown}'")
}

fn read<'v>(
    column: &Column,
    bytes: &'v [u8],
    times: Times,
    scratch: &'v mut Vec<u8>,
) -> Result<Datum<'v>, String> {
    let sql_type = column.sql_type;
    match sql_type {
        SqlType::Varchar => read_text(column, bytes),
        SqlType::Varbinary => {
            *scratch = hexadecimal(bytes)
                .ok_or_else(|| format!("{} is not in pairs of hexadecimal digits", shown(bytes)))?;
            if scratch.len() > column.length {
                let (size, most) = (scratch.len(), column.length);
                return Err(format!("{size} bytes do not fit VARBINARY({most})"));
            }
            Ok(Datum::Bytes(scratch))
        }
        SqlType::Float => {
            // `-Infinity` is in the range of NULL.
            let word = plain(bytes).and_then(float_of_word).filter(|word| !is_null_float(*word));
            if let Some(value) = word {
                return Ok(Datum::Float(value));
            }
            let number = plain(bytes).and_then(|text| text.parse::<f64>().ok());
            // Words such as `inf` are numbers to Rust, and none here; so is what means NULL.
            let sound = number.filter(|n| n.is_finite() && !is_null_float(*n));
            let word = bytes.iter().any(|byte| matches!(byte, b'n' | b'N'));
            match sound {
                Some(number) if !word => Ok(Datum::Float(number)),
                _ if number.is_some() && !word => {
                    Err(format!("{} is out of range: no FLOAT is so large", shown(bytes)))
                }
                _ => Err(format!("{} is no FLOAT", shown(bytes))),
            }
        }
        SqlType::Decimal => {
            let text = plain(bytes).ok_or_else(|| format!("{} is no DECIMAL", shown(bytes)))?;
            let number = Decimal::parse(text);
            number.map(Datum::Decimal).map_err(|error| {
                let what = match error {
                    DecimalError::Malformed => "is no DECIMAL",
                    DecimalError::TooPrecise => "has more than 12 digits after the decimal point",
                    DecimalError::TooLarge => {
                        "is out of range: a DECIMAL has 26 digits in front of the point"
                    }
                };
                format!("{} {what}", shown(bytes))
            })
        }
        SqlType::Timestamp => read_time(bytes, times),
        SqlType::GeographyPoint => {
            let text = String::from_utf8_lossy(bytes);
            Point::parse(&text).map(Datum::Point)
        }
        SqlType::Geography => {
            *scratch = incomplete_polygon(&polygon_rings(&String::from_utf8_lossy(bytes))?);
            if scratch.len() > column.length {
                let (size, most) = (scratch.len(), column.length);
                return Err(format!("{size} bytes do not fit GEOGRAPHY({most})"));
            }
            Ok(Datum::Bytes(scratch))
        }
        _ => read_integer(sql_type, bytes),
    }
}

fn read_text<'v>(column: &Column, bytes: &'v [u8]) -> Result<Datum<'v>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        format!("byte {:#04x} after {at} bytes of the value is not UTF-8", bytes[at])
    })?;
    // A text has at most as many characters as bytes, so most need no counting.
    if bytes.len() > column.length {
        let characters = text.chars().count();
        if characters > column.length {
            let most = column.length;
            return Err(format!(
                "{} has {characters} characters and does not fit VARCHAR({most})",
                shown(bytes)
            ));
        }
    }
    Ok(Datum::Text(text))
}

fn read_integer(sql_type: SqlType, bytes: &[u8]) -> Result<Datum<'static>, String> {
    let text = bytes.trim_ascii();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!("{} is no {sql_type}", shown(bytes)));
    }
    // Negative numbers reach further, so all are added up as such.
    let value = digits
        .iter()
        .try_fold(0i64, |sum, digit| sum.checked_mul(10)?.checked_sub(i64::from(digit - b'0')));
    let value = value.and_then(|value| if negative { Some(value) } else { value.checked_neg() });
    let (least, greatest) = sql_type.integer_range().unwrap_or((i64::MIN, i64::MAX));
    match value {
        Some(value) if (least..=greatest).contains(&value) => Ok(Datum::Int(value)),
        _ => {
            let shown = shown(bytes);
            Err(format!("{shown} is out of range: {sql_type} is {least} to {greatest}"))
        }
    }
}

fn read_time(bytes: &[u8], times: Times) -> Result<Datum<'static>, String> {
    let micros = match times {
        Times::Text => plain(bytes).and_then(|text| {
            let text = text.strip_suffix('Z').unwrap_or(text);
            match text.split_once('T') {
                Some((day, time)) => timestamp::parse(&format!("{day} {time}")),
                None => timestamp::parse(text),
            }
        }),
        Times::Number(micros_each) => match read_integer(SqlType::BigInt, bytes)? {
            Datum::Int(number) => number.checked_mul(micros_each),
            _ => None,
        },
    };
    micros.map(Datum::Timestamp).ok_or_else(|| match times {
        Times::Text => {
            format!("{} is no TIMESTAMP as in 2025-01-31 23:59:59.999999", shown(bytes))
        }
        Times::Number(_) => format!("{} is out of range of TIMESTAMP", shown(bytes)),
    })
}

/// Text without blanks around it.
fn plain(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.trim_ascii()).ok()
}

/// Bytes of pairs of hexadecimal digits.
pub fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(sql_type: SqlType, length: usize) -> Column {
        Column { name: "C".to_string(), sql_type, length, nullable: true, default: None }
    }

    #[test]
    fn values_are_read_as_their_columns_want_them() {
        use SqlType::*;
        for (sql_type, text, expected) in [
            (Integer, " 7 ", Ok("7")),
            (Integer, "+7", Ok("7")),
            (BigInt, "-9223372036854775807", Ok("-9223372036854775807")),
            (
                BigInt,
                "-9223372036854775808",
                Err("is out of range: BIGINT is -9223372036854775807 to 9223372036854775807"),
            ),
            (BigInt, "99999999999999999999", Err("is out of range")),
            (TinyInt, "128", Err("'128' is out of range: TINYINT is -127 to 127")),
            (Integer, "1.5", Err("'1.5' is no INTEGER")),
            (Integer, "", Err("'' is no INTEGER")),
            (Float, "1e-3", Ok("0.001")),
            (Float, "1e999", Err("out of range")),
            (Float, "NaN", Ok("NaN")),
            (Float, "Infinity", Ok("inf")),
            (Float, "-Infinity", Err("'-Infinity' is no FLOAT")),
            (Float, "nan", Err("'nan' is no FLOAT")),
            (Float, "inf", Err("'inf' is no FLOAT")),
            (Float, "x", Err("'x' is no FLOAT")),
            (Decimal, "1.25", Ok("1.250000000000")),
            (Decimal, "1.0000000000001", Err("has more than 12 digits")),
            (Timestamp, "2000-01-01", Ok("2000-01-01 00:00:00.000000")),
            (Timestamp, "2000-01-01T00:00:01.5Z", Ok("2000-01-01 00:00:01.500000")),
            (Timestamp, "2000-02-30", Err("'2000-02-30' is no TIMESTAMP as in")),
            (Varchar, "abcd", Ok("abcd")),
            (Varchar, "éééé", Ok("éééé")),
            (Varchar, "abcde", Err("'abcde' has 5 characters and does not fit VARCHAR(4)")),
            (Varbinary, "00fF", Ok("00FF")),
            (Varbinary, "0", Err("'0' is not in pairs of hexadecimal digits")),
            (Varbinary, "0011223344", Err("5 bytes do not fit VARBINARY(4)")),
        ] {
            let mut scratch = Vec::new();
            let column = column(sql_type, 4);
            let value = read(&column, text.as_bytes(), Times::Text, &mut scratch);
            match (value.map(|value| value.to_string()), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{sql_type} {text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (value, _) => panic!("{sql_type} {text}: {value:?}"),
            }
        }
        let mut scratch = Vec::new();
        let bad = read(&column(Varchar, 9), b"ab\xffc", Times::Text, &mut scratch);
        assert_eq!(bad, Err("byte 0xff after 2 bytes of the value is not UTF-8".to_string()));
    }

    #[test]
    fn times_may_be_numbers() {
        let read = |text: &str, each| read_time(text.as_bytes(), Times::Number(each));
        assert_eq!(read("5", 1000), Ok(Datum::Timestamp(5000)));
        assert!(read("9223372036854775807", 1000).is_err_and(|e| e.contains("out of range")));
        assert!(read("2000-01-01", 1).is_err());
    }
}
