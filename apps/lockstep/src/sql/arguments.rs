//! The values behind `exec PROCEDURE`: how they are written, and how they become parameters.

use super::command::CommandError;
use lockstep_client::ParameterWriter;
use lockstep_types::{Datum, Decimal, SqlType, timestamp};

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
}

/// Reads values that are separated by commas or blanks.
///
/// # Errors
/// A quote does not end, X'..' is not hexadecimal, or a value between two commas is missing.
pub fn parse(text: &str) -> Result<Vec<Literal>, CommandError> {
    let mut values = Vec::new();
    let mut at = 0;
    // A comma wants a value behind it; blanks do not.
    let mut wanted = false;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { break };
        if first == ',' {
            if wanted || values.is_empty() {
                return Err(CommandError::new(at, "a value is missing before this comma"));
            }
            wanted = true;
            at += 1;
            continue;
        }
        let (literal, length) = match first {
            '\'' => quoted(rest).map(|(text, length)| (Literal::Text(text), length)),
            'x' | 'X' if rest[1..].starts_with('\'') => bytes(rest),
            _ => Ok(bare(rest)),
        }
        .map_err(|message| CommandError::new(at, message))?;
        values.push(literal);
        wanted = false;
        at += length;
    }
    if wanted {
        return Err(CommandError::new(at, "a value is missing behind the last comma"));
    }
    Ok(values)
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
    let end = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
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
    declared: Option<SqlType>,
) -> Result<(), String> {
    let (text, declared) = match (literal, declared) {
        (Literal::Null, declared) => {
            out.scalar(declared.unwrap_or(SqlType::Null), Datum::Null);
            return Ok(());
        }
        (Literal::Bytes(bytes), _) => {
            out.scalar(SqlType::Varbinary, Datum::Bytes(bytes));
            return Ok(());
        }
        (Literal::Text(text), declared) => (text, declared.unwrap_or(SqlType::Varchar)),
        (Literal::Bare(text), declared) => (text, declared.unwrap_or_else(|| looks_like(text))),
    };
    let wrong = || format!("'{text}' is no {declared}");
    match declared {
        _ if declared.is_integer() => {
            let value: i64 = text.parse().map_err(|_| wrong())?;
            let (least, greatest) = declared.integer_range().unwrap_or((i64::MIN, i64::MAX));
            if !(least..=greatest).contains(&value) {
                return Err(format!(
                    "{value} is out of range: {declared} is {least} to {greatest}"
                ));
            }
            out.scalar(declared, Datum::Int(value));
        }
        SqlType::Float => {
            let value: f64 = text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(wrong)?;
            out.scalar(declared, Datum::Float(value));
        }
        SqlType::Decimal => {
            let value = Decimal::parse(text).map_err(|_| wrong())?;
            out.scalar(declared, Datum::Decimal(value));
        }
        SqlType::Timestamp => {
            let micros = timestamp::parse(text).or_else(|| text.parse().ok()).ok_or_else(wrong)?;
            out.scalar(declared, Datum::Timestamp(micros));
        }
        SqlType::Varbinary => {
            let value = hexadecimal(text).ok_or_else(wrong)?;
            out.scalar(declared, Datum::Bytes(&value));
        }
        _ => {
            out.text(text);
        }
    }
    Ok(())
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

/// Parameter types of system procedures, which the server's catalog does not list. An empty slice
/// for those not known: their values are passed as what they look like.
pub fn system_types(procedure: &str) -> &'static [SqlType] {
    const TEXT: SqlType = SqlType::Varchar;
    const INTEGER: SqlType = SqlType::Integer;
    match procedure.to_ascii_lowercase().as_str() {
        "@statistics" | "@snapshotscan" => &[TEXT, INTEGER],
        "@adhoc" | "@explain" | "@explainproc" | "@explainview" | "@explainjson"
        | "@getpartitionkeys" | "@note" | "@querystats" | "@subscribe" | "@systemcatalog"
        | "@systeminformation" | "@updatelogging" => &[TEXT],
        "@preparestopnode" | "@stopnode" => &[INTEGER],
        "@snapshotdelete" | "@snapshotrestore" | "@snapshotsave" => &[TEXT, TEXT, SqlType::TinyInt],
        _ => &[],
    }
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
            ("'2001-02-03 04:05:06'", r#"[Text("2001-02-03 04:05:06")]"#),
        ] {
            assert_eq!(parse(text).map(|v| format!("{v:?}")), Ok(values.to_string()), "{text}");
        }
        for (text, offset) in [("1,,2", 2), (",1", 0), ("1,", 2), (" 'a", 1), ("x'0'", 0)] {
            assert_eq!(parse(text).map_err(|error| error.offset), Err(offset), "{text}");
        }
    }

    /// A value as it reaches the server: its type and value.
    fn written(literal: &str, declared: Option<SqlType>) -> Result<String, String> {
        let mut out = ParameterWriter::default();
        let literals = parse(literal).expect("a literal");
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
            ("abc", None, Ok("VARCHAR abc")),
            ("null", None, Ok("NULL NULL")),
            ("null", Some(Varchar), Ok("VARCHAR NULL")),
            ("X'0A'", Some(Varbinary), Ok("VARBINARY 0A")),
            ("'0a'", Some(Varbinary), Ok("VARBINARY 0A")),
            ("'2000-01-01'", Some(Timestamp), Ok("TIMESTAMP 2000-01-01 00:00:00.000000")),
            ("1", Some(Timestamp), Ok("TIMESTAMP 1970-01-01 00:00:00.000001")),
            ("200", Some(TinyInt), Err("200 is out of range: TINYINT is -127 to 127")),
            ("abc", Some(BigInt), Err("'abc' is no BIGINT")),
            ("1e400", Some(Float), Err("'1e400' is no FLOAT")),
        ] {
            let expected = result.map(str::to_string).map_err(str::to_string);
            assert_eq!(written(literal, declared), expected, "{literal}");
        }
    }
}
