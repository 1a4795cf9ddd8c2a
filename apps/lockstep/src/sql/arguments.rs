//! The values after `exec PROCEDURE`: how they are written, and how they become parameters.

use super::command::CommandError;
use lockstep_client::ParameterWriter;
use lockstep_node::system_procedures::{self, ParameterKind};
use lockstep_types::float::float_of_word;
use lockstep_types::{Datum, Decimal, SqlType, Value, timestamp};

/// Most elements of an array parameter.
const MAX_ARRAY: usize = 32_767;

/// A value as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// NULL.
    Null,
    /// Text in quotes.
    Text(String),
    /// Bytes as X'..'.
    Bytes(Vec<u8>),
    /// Anything else: a number, or text without quotes.
    Bare(String),
    /// Values in brackets.
    Array(Vec<Literal>),
}

/// What a procedure declares of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// Its type; an array's, that of its elements.
    pub sql_type: SqlType,
    /// Whether it is an array.
    pub is_array: bool,
}

/// Reads values that are separated by commas or blanks; those of an array are in brackets.
///
/// # Errors
/// A quote or a bracket does not end, X'..' is not hexadecimal, or a value between two commas is
/// missing.
pub fn parse(text: &str) -> Result<Vec<Literal>, CommandError> {
    let (values, length) = sequence(text, 0, false)?;
    match text[length..].chars().next() {
        None => Ok(values),
        Some(_) => Err(CommandError::new(length, "no array begins before this bracket")),
    }
}

/// Values from `start` on up to the end of the text or a closing bracket, and where that is.
fn sequence(
    text: &str,
    start: usize,
    in_array: bool,
) -> Result<(Vec<Literal>, usize), CommandError> {
    let mut values = Vec::new();
    let mut at = start;
    // A comma wants a value after it; blanks do not.
    let mut wanted = false;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next().filter(|c| *c != ']') else { break };
        if first == ',' {
            if wanted || values.is_empty() {
                return Err(CommandError::new(at, "a value is missing before this comma"));
            }
            wanted = true;
            at += 1;
            continue;
        }
        let (literal, length) = match first {
            '[' if in_array => {
                return Err(CommandError::new(at, "an array has no arrays in it"));
            }
            '[' => {
                let (elements, end) = sequence(text, at + 1, true)?;
                if !text[end..].starts_with(']') {
                    return Err(CommandError::new(at, "the array that begins here does not end"));
                }
                (Literal::Array(elements), end + 1 - at)
            }
            '\'' => quoted(rest)
                .map(|(text, length)| (Literal::Text(text), length))
                .map_err(|message| CommandError::new(at, message))?,
            'x' | 'X' if rest[1..].starts_with('\'') => {
                bytes(rest).map_err(|message| CommandError::new(at, message))?
            }
            _ => bare(rest),
        };
        values.push(literal);
        wanted = false;
        at += length;
    }
    if wanted {
        return Err(CommandError::new(at, "a value is missing after the last comma"));
    }
    Ok((values, at))
}

/// Text in quotes at the start of `rest`, with the length that it takes there.
fn quoted(rest: &str) -> Result<(String, usize), &'static str> {
    let mut text = String::new();
    let mut at = 1;
    loop {
        let end = rest[at..].find('\'').ok_or("the text that begins here does not end")?;
        text.push_str(&rest[at..at + end]);
        at += end + 1;
        if !rest[at..].starts_with('\'') {
            return Ok((text, at));
        }
        text.push('\'');
        at += 1;
    }
}

fn bytes(rest: &str) -> Result<(Literal, usize), &'static str> {
    let (digits, length) = quoted(&rest[1..])?;
    let bytes = hexadecimal(&digits).ok_or("X'..' takes pairs of hexadecimal digits")?;
    Ok((Literal::Bytes(bytes), length + 1))
}

fn bare(rest: &str) -> (Literal, usize) {
    let end = rest
        .find(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']'))
        .unwrap_or(rest.len());
    let word = &rest[..end];
    let null = word.eq_ignore_ascii_case("null");
    (if null { Literal::Null } else { Literal::Bare(word.to_string()) }, end)
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok()).collect()
}

/// Appends a value as a parameter of the declared type; without one, as what it looks like.
///
/// # Errors
/// The value cannot be of the declared type.
pub fn write(
    out: &mut ParameterWriter,
    literal: &Literal,
    declared: Option<Declared>,
) -> Result<(), String> {
    let Literal::Array(elements) = literal else {
        let sql_type = declared.map(|declared| declared.sql_type);
        let (sql_type, value) = converted(literal, sql_type)?;
        out.scalar(sql_type, value.as_datum());
        return Ok(());
    };
    if elements.len() > MAX_ARRAY {
        return Err(format!("an array of {} values: {MAX_ARRAY} is the limit", elements.len()));
    }
    if let Some(Declared { sql_type, is_array: false }) = declared {
        return Err(format!("an array is given where the procedure takes one {sql_type}"));
    }
    let sql_type = match declared {
        Some(declared) => declared.sql_type,
        None => common_type(elements),
    };
    let mut values = Vec::with_capacity(elements.len());
    for element in elements {
        let (found, value) = converted(element, Some(sql_type))?;
        if found != sql_type {
            return Err(format!("an array of {sql_type} holds a {found}"));
        }
        values.push(value);
    }
    let elements: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
    out.array(sql_type, &elements);
    Ok(())
}

/// The type of an array's elements by what they look like.
fn common_type(elements: &[Literal]) -> SqlType {
    let types: Vec<SqlType> = elements
        .iter()
        .filter_map(|element| match element {
            Literal::Null => None,
            Literal::Bytes(_) => Some(SqlType::Varbinary),
            Literal::Bare(text) => Some(looks_like(text)),
            Literal::Text(_) | Literal::Array(_) => Some(SqlType::Varchar),
        })
        .collect();
    match types.first() {
        None => SqlType::BigInt,
        Some(first) if types.iter().all(|sql_type| sql_type == first) => *first,
        Some(_) if types.iter().all(|sql_type| sql_type.is_number()) => SqlType::Decimal,
        Some(_) => SqlType::Varchar,
    }
}

/// A value and its type: the declared one; without one, what the value looks like.
fn converted(literal: &Literal, declared: Option<SqlType>) -> Result<(SqlType, Value), String> {
    let (text, declared) = match (literal, declared) {
        (Literal::Null, declared) => return Ok((declared.unwrap_or(SqlType::Null), Value::Null)),
        (Literal::Bytes(bytes), _) => {
            return Ok((SqlType::Varbinary, Value::Bytes(bytes.clone().into())));
        }
        (Literal::Array(_), _) => return Err("an array has no arrays in it".to_string()),
        (Literal::Text(text), declared) => (text, declared.unwrap_or(SqlType::Varchar)),
        (Literal::Bare(text), declared) => (text, declared.unwrap_or_else(|| looks_like(text))),
    };
    let wrong = || format!("'{text}' is not a valid {declared}");
    let value = match declared {
        _ if declared.is_integer() => {
            let value: i64 = text.parse().map_err(|_| wrong())?;
            let (least, greatest) = declared.integer_range().unwrap_or((i64::MIN, i64::MAX));
            if !(least..=greatest).contains(&value) {
                return Err(format!(
                    "{value} is out of range: {declared} is {least} to {greatest}"
                ));
            }
            Value::Int(value)
        }
        SqlType::Float => {
            let value = text.parse().ok().filter(|value: &f64| value.is_finite());
            Value::Float(value.or_else(|| float_of_word(text)).ok_or_else(wrong)?)
        }
        SqlType::Decimal => Value::Decimal(Decimal::parse(text).map_err(|_| wrong())?),
        SqlType::Timestamp => {
            let micros = timestamp::parse(text).or_else(|| text.parse().ok());
            Value::Timestamp(micros.ok_or_else(wrong)?)
        }
        SqlType::Varbinary => Value::Bytes(hexadecimal(text).ok_or_else(wrong)?.into()),
        _ => return Ok((SqlType::Varchar, Value::Text(text.as_str().into()))),
    };
    Ok((declared, value))
}

fn looks_like(text: &str) -> SqlType {
    if text.parse::<i64>().is_ok() {
        SqlType::BigInt
    } else if Decimal::parse(text).is_ok() {
        SqlType::Decimal
    } else {
        SqlType::Varchar
    }
}

/// Parameter types of system procedures, which the server's catalog does not list, up to the first
/// one that takes several types. Values after them are passed as what they look like.
pub fn system_types(procedure: &str) -> Vec<Declared> {
    let mut known = system_procedures::TABLE.iter();
    let found = known.find(|row| row.name.eq_ignore_ascii_case(procedure));
    let longest = found.and_then(|row| row.forms.last()).copied().unwrap_or_default();
    let declared = |(_, kind): &(&str, ParameterKind)| match (kind, kind.sql_type()) {
        (ParameterKind::Texts, _) => Some(Declared { sql_type: SqlType::Varchar, is_array: true }),
        (_, Some(sql_type)) => Some(Declared { sql_type, is_array: false }),
        (_, None) => None,
    };
    longest.iter().map_while(declared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::{Parameter, ParameterSet};

    #[test]
    fn values_are_read() {
        for (text, values) in [
            ("", "[]"),
            (" 1, -2 3.5", r#"[Bare("1"), Bare("-2"), Bare("3.5")]"#),
            ("'it''s, so' null,NULL", r#"[Text("it's, so"), Null, Null]"#),
            ("X'00ff' abc", r#"[Bytes([0, 255]), Bare("abc")]"#),
            (
                "[1, 2],['a b' null] []",
                r#"[Array([Bare("1"), Bare("2")]), Array([Text("a b"), Null]), Array([])]"#,
            ),
            ("'2001-02-03 04:05:06'", r#"[Text("2001-02-03 04:05:06")]"#),
        ] {
            assert_eq!(parse(text).map(|v| format!("{v:?}")), Ok(values.to_string()), "{text}");
        }
        for (text, offset) in [
            ("1,,2", 2),
            (",1", 0),
            ("1,", 2),
            (" 'a", 1),
            ("x'0'", 0),
            ("1 [2, 3", 2),
            ("[1, [2]]", 4),
            ("[1,]", 3),
            ("1]", 1),
        ] {
            assert_eq!(parse(text).map_err(|error| error.offset), Err(offset), "{text}");
        }
    }

    /// A value as it reaches the server: its type and value.
    fn written(literal: &str, declared: Option<SqlType>) -> Result<String, String> {
        let mut out = ParameterWriter::default();
        let literals = parse(literal).expect("a literal");
        let declared = declared.map(|sql_type| Declared { sql_type, is_array: false });
        write(&mut out, &literals[0], declared)?;
        let set = ParameterSet::new(out.bytes()).expect("a set");
        match set.get(0) {
            Some(Ok(Parameter::Scalar(sql_type, value))) => Ok(format!("{sql_type} {value}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn declared_types_win_over_looks() {
        use SqlType::*;
        for (literal, declared, result) in [
            ("7", None, Ok("BIGINT 7")),
            ("7", Some(TinyInt), Ok("TINYINT 7")),
            ("7", Some(Varchar), Ok("VARCHAR 7")),
            ("'7'", Some(Integer), Ok("INTEGER 7")),
            ("7.5", None, Ok("DECIMAL 7.500000000000")),
            ("7.5", Some(Float), Ok("FLOAT 7.5")),
            ("NaN", Some(Float), Ok("FLOAT NaN")),
            ("abc", None, Ok("VARCHAR abc")),
            ("null", None, Ok("NULL NULL")),
            ("null", Some(Varchar), Ok("VARCHAR NULL")),
            ("X'0A'", Some(Varbinary), Ok("VARBINARY 0A")),
            ("'0a'", Some(Varbinary), Ok("VARBINARY 0A")),
            ("'2000-01-01'", Some(Timestamp), Ok("TIMESTAMP 2000-01-01 00:00:00.000000")),
            ("1", Some(Timestamp), Ok("TIMESTAMP 1970-01-01 00:00:00.000001")),
            ("200", Some(TinyInt), Err("200 is out of range: TINYINT is -127 to 127")),
            ("abc", Some(BigInt), Err("'abc' is not a valid BIGINT")),
            ("1e400", Some(Float), Err("'1e400' is not a valid FLOAT")),
        ] {
            let expected = result.map(str::to_string).map_err(str::to_string);
            assert_eq!(written(literal, declared), expected, "{literal}");
        }
    }

    #[test]
    fn types_of_system_procedures_are_those_of_their_table() {
        use SqlType::*;
        let of = |name: &str| -> Vec<(SqlType, bool)> {
            let declared = system_types(name).into_iter();
            declared.map(|declared| (declared.sql_type, declared.is_array)).collect()
        };
        assert_eq!(of("@statistics"), [(Varchar, false), (Integer, false)]);
        assert_eq!(of("@SnapshotDelete"), [(Varchar, true), (Varchar, true), (Varchar, false)]);
        assert_eq!(of("@SnapshotSave"), [(Varchar, false), (Varchar, false), (Integer, false)]);
        // The parameters of the statement are of any types.
        assert_eq!(of("@AdHoc"), [(Varchar, false)]);
        assert_eq!(of("@Shutdown"), []);
        assert_eq!(of("@nosuch"), []);
    }

    /// An array as it reaches the server.
    fn written_array(literal: &str, declared: Option<Declared>) -> Result<String, String> {
        let mut out = ParameterWriter::default();
        write(&mut out, &parse(literal).expect("a literal")[0], declared)?;
        match ParameterSet::new(out.bytes()).expect("a set").get(0) {
            Some(Ok(Parameter::Array(array))) => {
                let elements: Vec<String> = array.iter().map(|e| e.to_string()).collect();
                Ok(format!("{} {}", array.element_type, elements.join("|")))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arrays_have_the_type_that_is_declared_or_that_of_their_values() {
        use SqlType::*;
        let array = |sql_type| Some(Declared { sql_type, is_array: true });
        for (literal, declared, result) in [
            ("[1, 2]", None, Ok("BIGINT 1|2")),
            ("[]", None, Ok("BIGINT ")),
            ("[1, 2.5]", None, Ok("DECIMAL 1.000000000000|2.500000000000")),
            ("['a', 1]", None, Ok("VARCHAR a|1")),
            ("[1 2 null]", array(Integer), Ok("INTEGER 1|2|NULL")),
            ("['1', b]", array(Varchar), Ok("VARCHAR 1|b")),
            ("['x']", array(BigInt), Err("'x' is not a valid BIGINT")),
            (
                "[1]",
                Some(Declared { sql_type: Integer, is_array: false }),
                Err("an array is given where the procedure takes one INTEGER"),
            ),
        ] {
            let expected = result.map(str::to_string).map_err(str::to_string);
            assert_eq!(written_array(literal, declared), expected, "{literal}");
        }
    }
}
