//! Writes values as comma-separated text that the reader gives back unchanged: floats in the
//! shortest form that reads as the same number, bytes in hexadecimal, NULL without quotes.

use super::Dialect;
use lockstep_types::Datum;
use lockstep_types::float::float_word;
use std::io::Write;

/// How values become text.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Delimiter, quotes, escapes.
    pub dialect: Dialect,
    /// What stands for NULL, never quoted.
    pub null: String,
    /// Text that would be read as NULL without quotes, beside `null`.
    pub read_as_null: Vec<String>,
}

/// Appends a value.
///
/// # Errors
/// Text holds what cannot be written without quotes, and there are none.
pub fn write_value(out: &mut Vec<u8>, value: Datum<'_>, rules: &Rules) -> Result<(), String> {
    // Writing into memory does not fail.
    match value {
        Datum::Null => out.extend_from_slice(rules.null.as_bytes()),
        Datum::Text(text) => return write_text(out, text, rules),
        // The debug form is the shortest that reads back, with an exponent where it is long.
        Datum::Float(number) => match float_word(number) {
            Some(word) => out.extend_from_slice(word.as_bytes()),
            None => drop(write!(out, "{number:?}")),
        },
        Datum::Bytes(bytes) => bytes.iter().for_each(|byte| drop(write!(out, "{byte:02X}"))),
        Datum::Int(number) => drop(write!(out, "{number}")),
        other => drop(write!(out, "{other}")),
    }
    // No bytes at all are something, unlike NULL.
    if value == Datum::Bytes(&[]) {
        return write_text(out, "", rules);
    }
    Ok(())
}

/// Appends text, quoted if need be.
///
/// # Errors
/// It cannot be written without quotes, and there are none.
pub fn write_text(out: &mut Vec<u8>, text: &str, rules: &Rules) -> Result<(), String> {
    let Dialect { delimiter, quote, escape } = rules.dialect;
    let special =
        |byte: u8| byte == delimiter || Some(byte) == quote || byte == b'\n' || byte == b'\r';
    let needs_quotes = text.bytes().any(special)
        || text == rules.null
        || rules.read_as_null.iter().any(|null| null == text)
        || text.starts_with('\u{feff}');
    if !needs_quotes {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    let Some(quote) = quote else {
        let shown: String = text.chars().take(40).collect();
        return Err(format!("'{shown}' cannot be written without quotes; leave --quote none out"));
    };
    out.push(quote);
    for byte in text.bytes() {
        if byte == quote || Some(byte) == escape {
            out.push(escape.unwrap_or(quote));
        }
        out.push(byte);
    }
    out.push(quote);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: Datum<'_>, dialect: Dialect) -> Result<String, String> {
        let rules = Rules { dialect, null: String::new(), read_as_null: vec!["\\N".to_string()] };
        let mut out = Vec::new();
        write_value(&mut out, value, &rules)?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn values_are_written_so_that_they_read_back() {
        let plain = Dialect::default();
        for (value, text) in [
            (Datum::Null, ""),
            (Datum::Text(""), "\"\""),
            (Datum::Text("\\N"), "\"\\N\""),
            (Datum::Text("a b"), "a b"),
            (Datum::Text("a,\"b\"\n"), "\"a,\"\"b\"\"\n\""),
            (Datum::Int(-5), "-5"),
            (Datum::Float(0.1), "0.1"),
            (Datum::Float(1e300), "1e300"),
            (Datum::Float(-0.0), "-0.0"),
            (Datum::Float(f64::NAN), "NaN"),
            (Datum::Float(f64::INFINITY), "Infinity"),
            (Datum::Bytes(&[0, 255]), "00FF"),
            (Datum::Bytes(&[]), "\"\""),
            (Datum::Timestamp(1), "1970-01-01 00:00:00.000001"),
        ] {
            assert_eq!(written(value, plain), Ok(text.to_string()), "{value:?}");
        }
        let escaped = Dialect { escape: Some(b'\\'), ..plain };
        assert_eq!(written(Datum::Text("a\"\\,"), escaped), Ok("\"a\\\"\\\\,\"".to_string()));
        let bare = Dialect { quote: None, ..plain };
        assert!(written(Datum::Text("a,b"), bare).is_err());
        assert_eq!(written(Datum::Text("a\"b"), bare), Ok("a\"b".to_string()));
    }
}
