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
//! 1 | one | 1.500000000000
//! ```
//!
//! Records are separated by blank lines. `skipif CONFIG` or `onlyif CONFIG` in front of a record
//! leaves it out. The letters of a query are its column types: I for integers, T for text, bytes
//! and timestamps, R for FLOAT and DECIMAL. A row is a line, values separated by ` | `; NULL is
//! `NULL`, an empty text `(empty)`. `rowsort` orders rows as text before comparing; without it
//! the order counts. Of several result tables the first counts; `tables` in place of `rowsort`
//! shows all, with `--` between them, each in its own order.
//!
//! `exec Procedure args` calls a procedure: integers, floats with a point, `NaN`, `Infinity`,
//! decimals with `D` after them, `T` before microseconds for a timestamp, 'text', X'bytes',
//! `[1, 2]` for an array of INTEGER, NULL.
//!
//! `cases` followed by a template is a list of small statements with their answers, see
//! [`crate::cases`].
//!
//! With `REWRITE=1` in the environment of the test, a file's answers are written again: look at
//! the difference before you keep it.

use crate::cases::Cases;
use crate::configuration::Configuration;
use lockstep_client::rows::Table;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_types::float::float_of_word;
use lockstep_types::{Datum, Decimal, SqlType, Value};

/// What a file's records came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records that ran and gave what they must.
    pub passed: usize,
    /// Records left out in this configuration.
    pub skipped: usize,
}

/// What running a file gave.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many records.
    pub tally: Tally,
    /// The file with the answers of this run, where they may be written.
    pub rewritten: String,
    /// The records that gave something else: the line and both answers.
    pub failures: Vec<String>,
}

/// Runs one file's text. With `rewrite`, which names the earlier configurations, queries that
/// none of those answered may answer anything.
///
/// # Errors
/// The text is not a file of records.
pub fn run(
    connection: &mut Connection,
    text: &str,
    configuration: &Configuration,
    rewrite: Option<&[Configuration]>,
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let Outcome { tally, rewritten, failures } = &mut outcome;
    for record in records(text)? {
        let left_out = record.is_left_out(&configuration.name);
        if left_out || matches!(record.kind, Kind::Comment) {
            tally.skipped += if left_out { record.count() } else { 0 };
            rewritten.push_str(&record.source);
            rewritten.push('\n');
            continue;
        }
        let found = record.answer(connection, configuration);
        let expected = record.expected();
        let is_query = matches!(record.kind, Kind::Query { .. } | Kind::Cases(_));
        let may_change = is_query
            && rewrite.is_some_and(|earlier| earlier.iter().all(|c| record.is_left_out(&c.name)));
        if expected == found || may_change {
            tally.passed += record.count();
        } else {
            failures.push(record.difference(&expected, &found));
        }
        match may_change && expected != found {
            true => rewritten.push_str(&record.with_answer(&found)),
            false => rewritten.push_str(&record.source),
        }
        rewritten.push('\n');
    }
    rewritten.truncate(rewritten.trim_end().len());
    rewritten.push('\n');
    Ok(outcome)
}

/// The statements of a file that are answered, and those that are refused.
///
/// # Errors
/// The text is not a file of records.
pub fn statements(text: &str) -> Result<[Vec<String>; 2], String> {
    let mut statements = [Vec::new(), Vec::new()];
    for record in records(text)? {
        match &record.kind {
            Kind::Comment => {}
            Kind::Error(_) => statements[1].push(record.sql),
            Kind::Cases(cases) => {
                for (statement, is_error) in cases.statements() {
                    statements[usize::from(is_error)].push(statement);
                }
            }
            Kind::Ok | Kind::Count(_) | Kind::Query { .. } => statements[0].push(record.sql),
        }
    }
    Ok(statements)
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
    Query { types: String, shown: Shown },
    Cases(Cases),
}

/// How a query's rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    InOrder,
    Sorted,
    AllTables,
}

impl Record {
    fn is_left_out(&self, configuration: &str) -> bool {
        self.conditions.iter().any(|(only, name)| (name == configuration) != *only)
    }

    fn expected(&self) -> String {
        match &self.kind {
            Kind::Comment => String::new(),
            Kind::Ok => "ok".to_string(),
            Kind::Count(count) => format!("count {count}"),
            Kind::Error(part) => format!("error {part}"),
            Kind::Query { types, .. } => format!("{types}\n{}", self.answers),
            Kind::Cases(cases) => cases.expected(),
        }
    }

    /// How many statements the record stands for.
    fn count(&self) -> usize {
        match &self.kind {
            Kind::Cases(cases) => cases.count(),
            _ => 1,
        }
    }

    /// Tells where two answers part.
    fn difference(&self, expected: &str, found: &str) -> String {
        let Kind::Cases(_) = self.kind else {
            let (line, sql) = (self.line, &self.sql);
            return format!("line {line}: {sql}\nexpected:\n{expected}\nfound:\n{found}");
        };
        let pairs = expected.lines().zip(found.lines()).enumerate();
        let differing = pairs.filter(|(_, (expected, found))| expected != found);
        let told = differing.map(|(number, (expected, found))| {
            format!("line {}: {expected}\n  found: {found}", self.line + 1 + number)
        });
        told.collect::<Vec<_>>().join("\n")
    }

    /// What the server gives, in the words of `expected`.
    fn answer(&self, connection: &mut Connection, configuration: &Configuration) -> String {
        if let Kind::Cases(cases) = &self.kind {
            return cases.answer(connection, configuration);
        }
        let result = match self.sql.strip_prefix("exec ") {
            Some(call) => execute(connection, call),
            None => configuration.execute(connection, &self.sql),
        };
        match (&self.kind, result) {
            (Kind::Error(part), Err(message)) if message.contains(part.as_str()) => {
                format!("error {part}")
            }
            (_, Err(message)) => format!("error {message}"),
            (Kind::Error(_), Ok(tables)) => {
                let rows: Vec<_> = tables.iter().map(|table| &table.rows).collect();
                format!("no error: {rows:?}")
            }
            (Kind::Ok, Ok(_)) => "ok".to_string(),
            (Kind::Count(_), Ok(tables)) => match first_value(&tables) {
                Some(Value::Int(count)) => format!("count {count}"),
                other => format!("{other:?}"),
            },
            (Kind::Query { shown, .. }, Ok(tables)) => show(&tables, *shown),
            (Kind::Comment | Kind::Cases(_), Ok(_)) => String::new(),
        }
    }

    /// The record with another answer, column types first.
    fn with_answer(&self, found: &str) -> String {
        if let Kind::Cases(_) = self.kind {
            return format!("{}\n{found}", self.head);
        }
        let Kind::Query { shown, .. } = self.kind else { return self.source.clone() };
        let (types, rows) = found.split_once('\n').unwrap_or((found, ""));
        if found.starts_with("error ") {
            return format!("{}\n----\n{found}\n", self.head);
        }
        let how = match shown {
            Shown::InOrder => "",
            Shown::Sorted => " rowsort",
            Shown::AllTables => " tables",
        };
        let header = format!("query {types}{how}");
        let head: Vec<&str> = self
            .head
            .lines()
            .map(|line| if line.starts_with("query ") { header.as_str() } else { line })
            .collect();
        format!("{}\n----\n{rows}", head.join("\n"))
    }
}

fn first_value(tables: &[Table]) -> Option<&Value> {
    tables.first()?.rows.first()?.first()
}

/// Calls a procedure: its name, then arguments.
pub(crate) fn execute(connection: &mut Connection, call: &str) -> Result<Vec<Table>, String> {
    let call = call.trim().trim_end_matches(';');
    let (name, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
    let mut writer = ParameterWriter::default();
    for argument in split_arguments(arguments) {
        write_argument(&mut writer, &argument).ok_or(format!("no argument: {argument}"))?;
    }
    let response = connection.call(name, &writer).map_err(|error| error.to_string())?;
    response.tables().map_err(|error| error.to_string())
}

/// Splits at commas outside of quotes and brackets.
fn split_arguments(text: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let (mut quoted, mut nested) = (false, false);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            '[' | ']' if !quoted => nested = c == '[',
            _ => {}
        }
        match arguments.last_mut() {
            Some(last) if c != ',' || quoted || nested => last.push(c),
            _ => arguments.push(String::new()),
        }
    }
    arguments.iter().map(|a| a.trim().to_string()).filter(|a| !a.is_empty()).collect()
}

fn write_argument(writer: &mut ParameterWriter, argument: &str) -> Option<()> {
    if argument == "NULL" {
        writer.scalar(SqlType::Null, Datum::Null);
    } else if let Some(text) = argument.strip_prefix('\'') {
        writer.text(text.trim_end_matches('\''));
    } else if let Some(digits) = argument.strip_prefix("X'") {
        let digits = digits.trim_end_matches('\'').as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Vec<u8> = digits.map(byte).collect::<Option<_>>()?;
        writer.scalar(SqlType::Varbinary, Datum::Bytes(&bytes));
    } else if let Some(elements) = argument.strip_prefix('[') {
        let elements = split_arguments(elements.trim_end_matches(']'));
        let numbers: Vec<i64> = elements.iter().map(|e| e.parse().ok()).collect::<Option<_>>()?;
        let elements: Vec<Datum<'_>> = numbers.into_iter().map(Datum::Int).collect();
        writer.array(SqlType::Integer, &elements);
    } else if let Some(digits) = argument.strip_suffix('D') {
        let value = Decimal::parse(digits).ok()?;
        writer.scalar(SqlType::Decimal, Datum::Decimal(value));
    } else if let Some(micros) = argument.strip_prefix('T') {
        writer.scalar(SqlType::Timestamp, Datum::Timestamp(micros.parse().ok()?));
    } else if let Some(word) = float_of_word(argument) {
        writer.scalar(SqlType::Float, Datum::Float(word));
    } else if argument.contains(['.', 'E']) {
        writer.scalar(SqlType::Float, Datum::Float(argument.parse().ok()?));
    } else {
        writer.bigint(argument.parse().ok()?);
    }
    Some(())
}

/// The types' letters, and the rows.
fn show(tables: &[Table], shown: Shown) -> String {
    let tables = if shown == Shown::AllTables { tables } else { &tables[..tables.len().min(1)] };
    let letters = |table: &Table| table.types.iter().map(|t| letter(*t)).collect::<String>();
    let types: Vec<String> = tables.iter().map(letters).collect();
    let parts: Vec<String> = tables.iter().map(|table| show_rows(table, shown)).collect();
    format!("{}\n{}", types.join("/"), parts.join("--\n"))
}

fn show_rows(table: &Table, shown: Shown) -> String {
    let line = |row: &Vec<Value>| row.iter().map(show_value).collect::<Vec<_>>().join(" | ");
    let mut rows: Vec<String> = table.rows.iter().map(line).collect();
    if shown == Shown::Sorted {
        rows.sort();
    }
    rows.iter().fold(String::new(), |text, row| text + row + "\n")
}

fn letter(sql_type: SqlType) -> char {
    match sql_type {
        SqlType::Float | SqlType::Decimal => 'R',
        sql_type if sql_type.is_integer() => 'I',
        _ => 'T',
    }
}

pub(crate) fn show_value(value: &Value) -> String {
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
        ["query", types] => query(types, Shown::InOrder),
        ["query", types, "rowsort"] => query(types, Shown::Sorted),
        ["query", types, "tables"] => query(types, Shown::AllTables),
        ["cases", ..] => {
            let (_, template) = header.split_once(' ').unwrap_or_default();
            Kind::Cases(Cases::read(template.trim(), &lines[at + 1..]).ok_or_else(bad)?)
        }
        _ => return Err(bad()),
    };
    let split = lines.iter().position(|l| *l == "----").unwrap_or(lines.len());
    let sql = lines[at + 1..split].join("\n");
    let answers = lines.get(split + 1..).unwrap_or(&[]).iter().map(|l| format!("{l}\n")).collect();
    let head_end = if matches!(kind, Kind::Cases(_)) { at + 1 } else { split };
    let head = lines[..head_end].join("\n");
    Ok(Record { line: line + at, source, head, conditions, kind, sql, answers })
}

fn query(types: &str, shown: Shown) -> Kind {
    Kind::Query { types: types.to_string(), shown }
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

    #[test]
    fn arguments_are_split_outside_of_quotes_and_brackets() {
        let found = split_arguments("1, 'a, b', [1, 2], NULL");
        assert_eq!(found, ["1", "'a, b'", "[1, 2]", "NULL"]);
        assert!(write_argument(&mut ParameterWriter::default(), "much").is_none());
    }
}
