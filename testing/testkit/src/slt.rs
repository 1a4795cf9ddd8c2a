//! Runs sqllogictest files: SQL with the answers that it must give.
//!
//! ```text
//! # a comment
//! statement ok
//! CREATE TABLE t (a INTEGER)
//!
//! statement count 2
//! DELETE FROM t WHERE a < 3
//!
//! statement error unexpected token
//! SELEC 1
//!
//! query ITR rowsort
//! SELECT a, b, c FROM t
//! ----
//! 1
//! one
//! 1.500
//! ```
//!
//! Records are separated by blank lines. `skipif CONFIG` or `onlyif CONFIG` in front of a record
//! leaves it out. The letters of a query are its column types: I for integers, T for text, bytes
//! and timestamps, R for FLOAT and DECIMAL. Values stand one a line; NULL is `NULL`, an empty
//! text `(empty)`. `rowsort` orders rows as text before comparing; without it the order counts.
//! `exec Procedure args` calls a procedure: integers, 'text', NULL.
//!
//! With `REWRITE=1` in the environment of the test, a file's answers are written anew: look at
//! the difference before you keep it.

use lockstep_client::rows::Table;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_types::{Datum, SqlType, Value};
use std::fmt::Write as _;

/// What a file's records came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records that ran and gave what they must.
    pub passed: usize,
    /// Records left out in this configuration.
    pub skipped: usize,
}

/// Runs one file's text. Returns the tally, and the file as it would be with the answers of this
/// run.
///
/// # Errors
/// The first record that gave something else: the line and both answers.
pub fn run(
    connection: &mut Connection,
    text: &str,
    configuration: &str,
    rewrite: bool,
) -> Result<(Tally, String), String> {
    let mut tally = Tally::default();
    let mut rewritten = String::new();
    for record in records(text)? {
        let (expected, found) = match &record.kind {
            Kind::Comment => (String::new(), String::new()),
            _ if record.is_left_out(configuration) => {
                tally.skipped += 1;
                (String::new(), String::new())
            }
            kind => {
                let found = kind.answer(connection, &record);
                tally.passed += 1;
                (kind.expected(&record), found)
            }
        };
        if expected != found && !rewrite {
            return Err(format!(
                "line {}: {}\nexpected:\n{expected}\nfound:\n{found}",
                record.line, record.sql
            ));
        }
        match (&record.kind, expected != found) {
            (Kind::Query { .. }, true) => {
                let _ = writeln!(rewritten, "{}\n----\n{}", record.head, found.trim_end());
                rewritten.push('\n');
            }
            (_, true) => return Err(format!("line {}: found {found}", record.line)),
            (_, false) => {
                rewritten.push_str(&record.source);
                rewritten.push('\n');
            }
        }
    }
    Ok((tally, rewritten.trim_end().to_string() + "\n"))
}

#[derive(Debug)]
struct Record {
    line: usize,
    /// The whole record as written.
    source: String,
    /// The record up to the answers.
    head: String,
    conditions: Vec<(bool, String)>,
    kind: Kind,
    sql: String,
    answers: String,
}

#[derive(Debug)]
enum Kind {
    Comment,
    Ok,
    Count(i64),
    Error(String),
    Query { types: String, sorted: bool },
}

impl Record {
    fn is_left_out(&self, configuration: &str) -> bool {
        self.conditions.iter().any(|(only, name)| (name == configuration) != *only)
    }
}

impl Kind {
    fn expected(&self, record: &Record) -> String {
        match self {
            Kind::Comment => String::new(),
            Kind::Ok => "ok".to_string(),
            Kind::Count(count) => format!("count {count}"),
            Kind::Error(part) => format!("error {part}"),
            Kind::Query { .. } => record.answers.clone(),
        }
    }

    /// What the server gives, in the words of `expected`.
    fn answer(&self, connection: &mut Connection, record: &Record) -> String {
        let result = execute(connection, &record.sql);
        match (self, result) {
            (Kind::Error(part), Err(message)) if message.contains(part.as_str()) => {
                format!("error {part}")
            }
            (_, Err(message)) => format!("error {message}"),
            (Kind::Error(_), Ok(tables)) => format!("{} tables", tables.len()),
            (Kind::Ok, Ok(_)) => "ok".to_string(),
            (Kind::Count(_), Ok(tables)) => match first_value(&tables) {
                Some(Value::Int(count)) => format!("count {count}"),
                other => format!("{other:?}"),
            },
            (Kind::Query { types, sorted }, Ok(tables)) => match tables.first() {
                None => "no table".to_string(),
                Some(table) => show(table, types, *sorted),
            },
            (Kind::Comment, Ok(_)) => String::new(),
        }
    }
}

fn first_value(tables: &[Table]) -> Option<&Value> {
    tables.first()?.rows.first()?.first()
}

fn execute(connection: &mut Connection, sql: &str) -> Result<Vec<Table>, String> {
    let Some(call) = sql.strip_prefix("exec ") else {
        return connection.sql(sql).map_err(|error| error.to_string());
    };
    let call = call.trim().trim_end_matches(';');
    let (name, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
    let mut writer = ParameterWriter::default();
    for argument in arguments.split(',').map(str::trim).filter(|a| !a.is_empty()) {
        if argument == "NULL" {
            writer.scalar(SqlType::Null, Datum::Null);
        } else if let Some(text) = argument.strip_prefix('\'') {
            writer.text(text.trim_end_matches('\''));
        } else {
            writer.bigint(argument.parse().map_err(|_| format!("no argument: {argument}"))?);
        }
    }
    let response = connection.call(name, &writer).map_err(|error| error.to_string())?;
    response.tables().map_err(|error| error.to_string())
}

fn show(table: &Table, types: &str, sorted: bool) -> String {
    let letters: String = table.types.iter().map(|t| letter(*t)).collect();
    if letters != types {
        return format!("columns of types {letters}, not {types}");
    }
    let mut rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(show_value).collect()).collect();
    if sorted {
        rows.sort();
    }
    rows.iter().flatten().fold(String::new(), |text, value| text + value + "\n")
}

fn letter(sql_type: SqlType) -> char {
    match sql_type {
        SqlType::Float | SqlType::Decimal => 'R',
        sql_type if sql_type.is_integer() => 'I',
        _ => 'T',
    }
}

fn show_value(value: &Value) -> String {
    match value {
        Value::Text(text) if text.is_empty() => "(empty)".to_string(),
        Value::Bytes(bytes) if bytes.is_empty() => "(empty)".to_string(),
        Value::Float(v) if *v != 0.0 && !(1e-4..1e15).contains(&v.abs()) => format!("{v:E}"),
        other => other.to_string().replace('\n', "\\n"),
    }
}

fn records(text: &str) -> Result<Vec<Record>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim().is_empty() {
            at += 1;
            continue;
        }
        let end = (at..lines.len()).find(|&l| lines[l].trim().is_empty()).unwrap_or(lines.len());
        records.push(record(&lines[at..end], at + 1)?);
        at = end;
    }
    Ok(records)
}

fn record(lines: &[&str], line: usize) -> Result<Record, String> {
    let source = lines.join("\n") + "\n";
    let mut conditions = Vec::new();
    let mut at = 0;
    while let Some(current) = lines.get(at) {
        match current.split_once(' ') {
            Some(("skipif", name)) => conditions.push((false, name.trim().to_string())),
            Some(("onlyif", name)) => conditions.push((true, name.trim().to_string())),
            _ if current.starts_with('#') => {}
            _ => break,
        }
        at += 1;
    }
    let Some(header) = lines.get(at) else {
        let (head, sql) = (source.clone(), String::new());
        let (kind, answers) = (Kind::Comment, String::new());
        return Ok(Record { line, source, head, conditions, kind, sql, answers });
    };
    let words: Vec<&str> = header.split_whitespace().collect();
    let bad = || format!("line {}: not a record: {header}", line + at);
    let kind = match words.as_slice() {
        ["statement", "ok"] => Kind::Ok,
        ["statement", "count", count] => Kind::Count(count.parse().map_err(|_| bad())?),
        ["statement", "error", ..] => {
            Kind::Error(header.splitn(3, ' ').nth(2).unwrap_or("").trim().to_string())
        }
        ["query", types] => Kind::Query { types: types.to_string(), sorted: false },
        ["query", types, "rowsort"] => Kind::Query { types: types.to_string(), sorted: true },
        _ => return Err(bad()),
    };
    let split = lines.iter().position(|l| *l == "----").unwrap_or(lines.len());
    let sql = lines[at + 1..split].join("\n");
    let answers = lines.get(split + 1..).unwrap_or(&[]).iter().map(|l| format!("{l}\n")).collect();
    let head = lines[..split].join("\n");
    Ok(Record { line: line + at, source, head, conditions, kind, sql, answers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_with_their_conditions_and_answers() {
        let text = "# head\n\nskipif three_sites\nquery IT rowsort\nSELECT 1,\n 'x'\n----\n1\nx\n";
        let found = records(text).expect("sound");
        assert!(matches!(found[0].kind, Kind::Comment));
        assert_eq!(found[1].sql, "SELECT 1,\n 'x'");
        assert_eq!(found[1].answers, "1\nx\n");
        assert!(found[1].is_left_out("three_sites") && !found[1].is_left_out("one_site"));
        assert!(records("query\nSELECT 1").is_err());
    }
}
