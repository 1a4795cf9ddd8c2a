//! Result tables as text: aligned columns, CSV, or JSON.

use lockstep_client::rows::Table;
use lockstep_types::float::float_word;
use lockstep_types::geography::text::text_of;
use lockstep_types::{SqlType, Value};
use std::fmt::Write;
use std::time::Duration;

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// A column of a row on a line, for people.
    Expanded,
    /// Comma-separated values with a header line.
    Csv,
    /// One array of objects for each result table.
    Json,
}

/// A result table in a format.
pub fn render(table: &Table, format: Format) -> String {
    match format {
        Format::Table => aligned(table),
        Format::Expanded => expanded(table),
        Format::Csv => csv(table),
        Format::Json => json(table),
    }
}

impl Format {
    /// Whether people read it.
    pub fn is_for_people(self) -> bool {
        matches!(self, Format::Table | Format::Expanded)
    }
}

/// The line that ends a result of this many rows, with the time that it took unless that is not
/// wanted.
pub fn rows_line(rows: usize, elapsed: Option<Duration>) -> String {
    format!("({}{})\n", counted_rows(rows as i64), in_time(elapsed))
}

/// The line about this many rows that a statement has changed.
pub fn changed_line(rows: i64, elapsed: Option<Duration>) -> String {
    format!("({} changed{})\n", counted_rows(rows), in_time(elapsed))
}

fn counted_rows(rows: i64) -> String {
    format!("{rows} row{}", if rows == 1 { "" } else { "s" })
}

/// A time for people: whole microseconds below a millisecond, else seconds.
fn in_time(elapsed: Option<Duration>) -> String {
    match elapsed {
        None => String::new(),
        Some(time) if time < Duration::from_millis(1) => format!(" in {} us", time.as_micros()),
        Some(time) => format!(" in {:.3} s", time.as_secs_f64()),
    }
}

/// A value for people: timestamps as text, bytes in hex, NULL as `NULL`.
pub fn text(value: &Value) -> String {
    match value {
        Value::Float(number) => float_text(*number),
        other => other.to_string(),
    }
}

/// A value of a type, as [`text`]: geographic values as well-known text.
fn cell(value: &Value, sql_type: SqlType) -> String {
    text_of(sql_type, value.as_datum()).unwrap_or_else(|| text(value))
}

/// The shortest text that reads back as the same double; with an exponent from 10^7 on and below
/// 10^-3, as VoltDB's tools show doubles.
fn float_text(number: f64) -> String {
    if let Some(word) = float_word(number) {
        return word.to_string();
    }
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// Control characters as escapes, so that data cannot move the cursor or break a line.
fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

fn aligned(table: &Table) -> String {
    let cells: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&table.types);
            cells.map(|(value, sql_type)| printable(&cell(value, *sql_type))).collect()
        })
        .collect();
    let names: Vec<String> = table.names.iter().map(|name| printable(name)).collect();
    let length = |cell: &String| cell.chars().count();
    let widths: Vec<usize> = (0..names.len())
        .map(|column| {
            let longest = cells.iter().map(|row| length(&row[column])).max().unwrap_or(0);
            longest.max(length(&names[column])).max(1)
        })
        .collect();
    let mut out = String::new();
    let mut line = |cells: &[String], numbers_right: bool| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            let right = numbers_right && table.types[column].is_number();
            let separator = if column == 0 { "" } else { " " };
            let _ = match right {
                true => write!(text, "{separator}{cell:>width$}"),
                false => write!(text, "{separator}{cell:width$}"),
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&names, true);
    let dashes: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    line(&dashes, false);
    cells.iter().for_each(|row| line(row, true));
    out
}

fn expanded(table: &Table) -> String {
    let names: Vec<String> = table.names.iter().map(|name| printable(name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (number, row) in table.rows.iter().enumerate() {
        let _ = writeln!(out, "-[ row {} ]{}", number + 1, "-".repeat(width));
        for (name, (value, sql_type)) in names.iter().zip(row.iter().zip(&table.types)) {
            let line = format!("{name:width$} | {}", printable(&cell(value, *sql_type)));
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

fn csv(table: &Table) -> String {
    let mut out = String::new();
    csv_line(&mut out, table.names.iter().map(|name| quoted_if_needed(name)));
    for row in &table.rows {
        csv_line(
            &mut out,
            row.iter().zip(&table.types).map(|(value, sql_type)| match value {
                Value::Text(text) => quoted_if_needed(text),
                Value::Bytes(_) => quoted_if_needed(&cell(value, *sql_type)),
                other => text(other),
            }),
        );
    }
    out
}

fn csv_line(out: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    out.push_str(&cells.join(","));
    out.push('\n');
}

/// Text in quotes where a reader would otherwise see something else: separators, line ends, an
/// empty cell, or NULL.
fn quoted_if_needed(text: &str) -> String {
    let plain = !text.is_empty()
        && text != "NULL"
        && text.trim() == text
        && !text.contains([',', '"', '\n', '\r']);
    if plain { text.to_string() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

fn json(table: &Table) -> String {
    let keys = json_keys(&table.names);
    let mut out = String::from("[");
    for (number, row) in table.rows.iter().enumerate() {
        out.push_str(if number == 0 { "\n  {" } else { ",\n  {" });
        for (column, value) in row.iter().enumerate() {
            let separator = if column == 0 { "" } else { ", " };
            let value = json_value(value, table.types[column]);
            let _ = write!(out, "{separator}{}: {value}", keys[column]);
        }
        out.push('}');
    }
    out.push_str(if table.rows.is_empty() { "]\n" } else { "\n]\n" });
    out
}

/// Column names as JSON strings. A repeated one gets a number, because objects have each key once.
fn json_keys(names: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for name in names {
        let mut key = name.clone();
        let mut number = 2;
        while keys.contains(&key) {
            key = format!("{name}_{number}");
            number += 1;
        }
        keys.push(key);
    }
    keys.iter().map(|key| json_text(key)).collect()
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json_value(value: &Value, sql_type: SqlType) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(truth) => truth.to_string(),
        // JSON numbers have any length; readers that take doubles round decimals.
        Value::Int(_) | Value::Decimal(_) => value.to_string(),
        // JSON has no number that is not finite: text, as VoltDB's tables write it.
        Value::Float(number) => match float_word(*number) {
            Some(word) => json_text(word),
            None => format!("{number:?}"),
        },
        _ if sql_type.is_number() => value.to_string(),
        other => json_text(&cell(other, sql_type)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::Decimal;
    use lockstep_types::geography::Point;
    use lockstep_types::geography::text::{incomplete_polygon, polygon_rings};

    fn sample() -> Table {
        let column = |name: &str, sql_type| (name.to_string(), sql_type);
        let (names, types) = [
            column("ID", SqlType::BigInt),
            column("NAME", SqlType::Varchar),
            column("AT", SqlType::Timestamp),
            column("PRICE", SqlType::Decimal),
            column("F", SqlType::Float),
            column("B", SqlType::Varbinary),
            column("NAME", SqlType::Varchar),
        ]
        .into_iter()
        .unzip();
        let text = |text: &str| Value::Text(text.into());
        let price = Value::Decimal(Decimal::parse("1.5").expect("a number"));
        let bytes = Value::Bytes(Box::from([0u8, 0xab]));
        let rows = vec![
            vec![
                Value::Int(1),
                text("é, \"x\""),
                Value::Timestamp(1),
                price,
                Value::Float(0.1),
                bytes,
                text("NULL"),
            ],
            vec![
                Value::Int(-1234),
                text("a\nb"),
                Value::Null,
                Value::Null,
                Value::Float(-1e300),
                Value::Null,
                text(""),
            ],
        ];
        Table { names, types, rows }
    }

    #[test]
    fn numbers_that_are_not_finite_are_words() {
        for (number, word) in [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity")] {
            let (value, sql_type) = (Value::Float(number), SqlType::Float);
            assert_eq!(text(&value), word);
            assert_eq!(json_value(&value, sql_type), format!("\"{word}\""));
        }
    }

    #[test]
    fn geographic_values_are_well_known_text() {
        let rings = polygon_rings("POLYGON ((0 0, 1 0, 0 1, 0 0))").expect("a polygon");
        let polygon = Value::Bytes(incomplete_polygon(&rings).into());
        let point = Value::Point(Point::parse("POINT (1.5 -2)").expect("a point"));
        let table = Table {
            names: vec!["G".to_string(), "P".to_string()],
            types: vec![SqlType::Geography, SqlType::GeographyPoint],
            rows: vec![vec![polygon, point], vec![Value::Null, Value::Null]],
        };
        let (ring, place) = ("POLYGON ((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0))", "POINT (1.5 -2.0)");
        for (format, row) in [
            (Format::Table, format!("\n{ring} {place}\n")),
            (Format::Expanded, format!("\nG | {ring}\nP | {place}\n")),
            (Format::Csv, format!("\n\"{ring}\",{place}\nNULL,NULL\n")),
            (Format::Json, format!("\n  {{\"G\": \"{ring}\", \"P\": \"{place}\"}},\n")),
        ] {
            let shown = render(&table, format);
            assert!(shown.contains(&row), "{format:?}: {shown}");
        }
    }

    #[test]
    fn tables_are_aligned_with_numbers_at_the_right() {
        let expected = "   ID NAME   AT                                  PRICE        F B    NAME
----- ------ -------------------------- -------------- -------- ---- ----
    1 é, \"x\" 1970-01-01 00:00:00.000001 1.500000000000      0.1 00AB NULL
-1234 a\\nb   NULL                                 NULL -1.0E300 NULL
";
        assert_eq!(render(&sample(), Format::Table), expected);
    }

    #[test]
    fn csv_quotes_what_would_be_read_otherwise() {
        let expected = "ID,NAME,AT,PRICE,F,B,NAME
1,\"é, \"\"x\"\"\",1970-01-01 00:00:00.000001,1.500000000000,0.1,00AB,\"NULL\"
-1234,\"a
b\",NULL,NULL,-1.0E300,NULL,\"\"
";
        assert_eq!(render(&sample(), Format::Csv), expected);
    }

    #[test]
    fn json_is_an_array_of_objects() {
        let shown = render(&sample(), Format::Json);
        let expected = r#"[
  {"ID": 1, "NAME": "é, \"x\"", "AT": "1970-01-01 00:00:00.000001", "PRICE": 1.500000000000,+
 "F": 0.1, "B": "00AB", "NAME_2": "NULL"},
  {"ID": -1234, "NAME": "a\nb", "AT": null, "PRICE": null, "F": -1e300, "B": null, "NAME_2": ""}
]
"#;
        // `+` marks a line of the expectation that goes on.
        assert_eq!(shown, expected.replace("+\n", ""));
        let read: serde_json::Value = serde_json::from_str(&shown).expect("valid JSON");
        assert_eq!(read[1]["NAME"], "a\nb");
        let empty = Table { rows: Vec::new(), ..sample() };
        assert_eq!(render(&empty, Format::Json), "[]\n");
    }

    #[test]
    fn doubles_are_short_and_keep_their_point() {
        let shown: Vec<_> =
            [0.0, 1.0, -0.001, 123_456.75, 1e7, 1.25e-5, 9_999_999.0].map(float_text).into();
        assert_eq!(shown, ["0.0", "1.0", "-0.001", "123456.75", "1.0E7", "1.25E-5", "9999999.0"]);
    }

    #[test]
    fn times_below_a_millisecond_are_in_microseconds() {
        for (micros, line) in [
            (0, "(1 row in 0 us)\n"),
            (431, "(1 row in 431 us)\n"),
            (999, "(1 row in 999 us)\n"),
            (1_000, "(1 row in 0.001 s)\n"),
            (12_345, "(1 row in 0.012 s)\n"),
            (8_650_000, "(1 row in 8.650 s)\n"),
        ] {
            assert_eq!(rows_line(1, Some(Duration::from_micros(micros))), line);
        }
        assert_eq!(rows_line(2, None), "(2 rows)\n");
        assert_eq!(changed_line(0, Some(Duration::from_micros(7))), "(0 rows changed in 7 us)\n");
        assert_eq!(changed_line(1, None), "(1 row changed)\n");
    }

    #[test]
    fn expanded_rows_have_a_line_for_each_column() {
        let shown = render(&sample(), Format::Expanded);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[..3], ["-[ row 1 ]-----", "ID    | 1", "NAME  | é, \"x\""]);
        assert_eq!(lines[8..11], ["-[ row 2 ]-----", "ID    | -1234", "NAME  | a\\nb"]);
        assert_eq!(lines[15], "NAME  |");
    }
}
