//! Rows as comma-separated text that `lockstep load csv` takes: texts and bytes in quotes, NULL as
//! `\N`.

use lockstep_types::float::float_word;
use lockstep_types::geography::text::text_of;
use lockstep_types::{Datum, SqlType};
use std::io::Write;

/// The name of a table's file, by the host that writes it.
pub fn file_name(nonce: &str, table: &str, host: u32) -> String {
    format!("{nonce}-{table}-host_{host}.csv")
}

/// Appends a row with its line end.
pub fn write_row<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = (SqlType, Datum<'a>)>) {
    let mut separator: &[u8] = b"";
    for (sql_type, value) in values {
        out.extend_from_slice(separator);
        separator = b",";
        match text_of(sql_type, value) {
            Some(text) => write_value(out, Datum::Text(&text)),
            None => write_value(out, value),
        }
    }
    out.push(b'\n');
}

fn write_value(out: &mut Vec<u8>, value: Datum<'_>) {
    // Writing into memory does not fail.
    match value {
        Datum::Null => out.extend_from_slice(b"\\N"),
        Datum::Text(text) => {
            out.push(b'"');
            for byte in text.bytes() {
                if byte == b'"' {
                    out.push(b'"');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
        Datum::Bytes(bytes) => {
            out.push(b'"');
            bytes.iter().for_each(|byte| drop(write!(out, "{byte:02X}")));
            out.push(b'"');
        }
        // The debug form is the shortest that reads back, with an exponent where it is long.
        Datum::Float(number) => match float_word(number) {
            Some(word) => out.extend_from_slice(word.as_bytes()),
            None => drop(write!(out, "{number:?}")),
        },
        Datum::Int(number) => drop(write!(out, "{number}")),
        other => drop(write!(out, "{other}")),
    }
}
