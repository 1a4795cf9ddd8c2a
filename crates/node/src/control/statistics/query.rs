//! `@QueryStats`: a query whose tables are written `STATISTICS(SELECTOR, DELTA)`, and
//! `STATISTICS(SELECTOR, DELTA, N)` for the table N, counted from 0, of a selector with several.
//!
//! The tables are filled into an engine of their own, and the query runs there. Columns of
//! statistics have names that SQL uses otherwise (AVG, COUNT, TABLE), so each has a name of its
//! own there: the text is rewritten word by word, and the result's columns get their names back.

use super::tables;
use crate::catalog::NativeRegistry;
use crate::embedded::EmbeddedHost;
use crate::options::Options;
use lockstep_base::bytes::ByteReader;
use lockstep_exec::watch::Caller;
use lockstep_types::{Datum, Failure, SqlType, TableBuilder, TableSchema, TableView};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Texts of statistics are cut at this length, in bytes.
const TEXT_BYTES: usize = 60_000;
/// Rows are inserted in statements of about this length.
const STATEMENT_BYTES: usize = 200_000;

/// A table that a query reads.
pub(super) struct Source {
    /// In upper case.
    pub(super) selector: String,
    /// Numbers since the last look.
    pub(super) interval: bool,
    /// Which of the selector's tables.
    table: usize,
}

/// The tables of a selector, in wire form.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) count: u16,
    pub(super) bytes: Vec<u8>,
}

impl Tables {
    /// The tables that `write` appends and counts.
    pub(super) fn written(write: impl FnOnce(&mut Vec<u8>) -> u16) -> Tables {
        let mut bytes = Vec::new();
        Tables { count: write(&mut bytes), bytes }
    }

    /// Appends them; returns their number.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) -> u16 {
        out.extend_from_slice(&self.bytes);
        self.count
    }
}

/// A query over statistics.
pub(in crate::control) struct StatisticsQuery {
    /// Its words, `STATISTICS(...)` replaced by [`table_name`]s.
    words: Vec<String>,
    /// In the order of the text.
    pub(super) sources: Vec<Source>,
}

fn table_name(number: usize) -> String {
    format!("STATISTICS_{number}")
}

/// The name that a column has where the query runs.
fn inner_name(column: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = column.chars().map(plain).collect();
    format!("{}__", name.to_ascii_uppercase())
}

/// Cuts a text into words, quoted texts and names, blanks, and single other characters.
fn words(text: &str) -> Vec<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end_of = |stays: &dyn Fn(char) -> bool| rest.find(|c| !stays(c)).unwrap_or(rest.len());
        let length = match first {
            quote @ ('\'' | '"') => rest[1..].find(quote).map_or(rest.len(), |at| at + 2),
            blank if blank.is_whitespace() => end_of(&char::is_whitespace),
            letter if is_word(letter) => end_of(&is_word),
            other => other.len_utf8(),
        };
        let (word, behind) = rest.split_at(length);
        words.push(word.to_string());
        rest = behind;
    }
    words
}

fn is_blank(word: &str) -> bool {
    word.chars().all(char::is_whitespace)
}

/// The source whose parentheses begin at a word, and the position of what follows them.
fn source(words: &[String], from: usize) -> Option<(Source, usize)> {
    let end = from + words.get(from..)?.iter().position(|word| word == ")")?;
    let inside: Vec<&str> =
        words[from..end].iter().map(String::as_str).filter(|word| !is_blank(word)).collect();
    let (selector, interval, table) = match inside.as_slice() {
        ["(", selector, ",", interval] => (selector, interval, "0"),
        ["(", selector, ",", interval, ",", table] => (selector, interval, *table),
        _ => return None,
    };
    let selector = selector.trim_matches(['\'', '"']).to_ascii_uppercase();
    let interval = interval.parse::<u64>().ok()? == 1;
    Some((Source { selector, interval, table: table.parse().ok()? }, end + 1))
}

impl StatisticsQuery {
    /// Reads the text of a query.
    ///
    /// # Errors
    /// What a client gets: a table that is none of the statistics, or no query.
    pub(super) fn read(text: &str) -> Result<StatisticsQuery, Failure> {
        let all = words(text);
        let (mut kept, mut sources) = (Vec::new(), Vec::new());
        let mut place = 0;
        while let Some(word) = all.get(place) {
            place += 1;
            if !word.eq_ignore_ascii_case("STATISTICS") {
                kept.push(word.clone());
                continue;
            }
            let (found, behind) = source(&all, place).ok_or_else(|| {
                Failure::graceful(
                    "@QueryStats reads tables of the form STATISTICS(SELECTOR, 0), where 1 in \
                     place of 0 gives the numbers since the last look",
                )
            })?;
            if !tables::is_selector(&found.selector) {
                let name = found.selector;
                return Err(Failure::graceful(format!("There are no statistics named {name}")));
            }
            kept.push(table_name(sources.len()));
            sources.push(found);
            place = behind;
        }
        let first = kept.iter().find(|word| !is_blank(word));
        let is_query = first.is_some_and(|word| {
            ["SELECT", "WITH", "("].iter().any(|start| word.eq_ignore_ascii_case(start))
        });
        if !is_query {
            return Err(Failure::graceful(
                "@QueryStats takes one query that reads STATISTICS(SELECTOR, 0)",
            ));
        }
        Ok(StatisticsQuery { words: kept, sources })
    }

    /// Runs the query over the tables of its sources. Returns the result, in wire form.
    ///
    /// # Errors
    /// As for ad hoc SQL.
    pub(super) fn run(&self, sources: &[Tables], options: &Options) -> Result<Vec<u8>, Failure> {
        let mut host = EmbeddedHost::new(options, NativeRegistry::default())?;
        host.limit_time(options.time_limit(None, Caller::NONE));
        let mut columns = BTreeSet::new();
        for (number, (source, tables)) in self.sources.iter().zip(sources).enumerate() {
            let table = table_of(source, tables)?;
            let names = table.column_names().expect(OWN_TABLE);
            columns.extend(names.iter().map(|name| name.to_ascii_uppercase()));
            fill(&mut host, &table_name(number), &table, &names)?;
        }
        let (result, count) = host.ad_hoc(&self.with_inner_names(&columns))?;
        if count != 1 {
            return Err(Failure::graceful("@QueryStats takes one query"));
        }
        with_outer_names(&result, &columns)
    }

    /// The text with the columns' inner names. A word before a parenthesis is a function, and one
    /// before a quoted text the type of a literal.
    fn with_inner_names(&self, columns: &BTreeSet<String>) -> String {
        let mut text = String::new();
        for (place, word) in self.words.iter().enumerate() {
            let name = word.trim_matches('"').to_ascii_uppercase();
            let behind = self.words[place + 1..].iter().find(|word| !is_blank(word));
            let other = behind.is_some_and(|next| next == "(" || next.starts_with('\''));
            match columns.contains(&name) && !other {
                true => text.push_str(&inner_name(&name)),
                false => text.push_str(word),
            }
        }
        text
    }
}

/// Why the tables that are queried can be read.
const OWN_TABLE: &str = "the host wrote the table";

/// The table of a source among those of its selector.
fn table_of<'t>(source: &Source, tables: &'t Tables) -> Result<TableView<'t>, Failure> {
    let Source { selector, table: wanted, .. } = source;
    if *wanted >= usize::from(tables.count) {
        return Err(Failure::graceful(format!(
            "The statistics {selector} have {} tables: there is no table {wanted}, counted from 0",
            tables.count
        )));
    }
    let mut reader = ByteReader::new(&tables.bytes);
    let mut next = || TableView::read(&mut reader).expect(OWN_TABLE);
    let mut table = next();
    for _ in 0..*wanted {
        table = next();
    }
    Ok(table)
}

/// Makes a table and fills it.
fn fill(
    host: &mut EmbeddedHost,
    name: &str,
    table: &TableView<'_>,
    names: &[&str],
) -> Result<(), Failure> {
    let column = |(place, name): (usize, &&str)| {
        let sql_type = table.column_type(place);
        let length = match sql_type {
            SqlType::Varchar => format!("({TEXT_BYTES} BYTES)"),
            SqlType::Varbinary => format!("({TEXT_BYTES})"),
            _ => String::new(),
        };
        format!("{} {}{length}", inner_name(name), sql_type.name())
    };
    let columns: Vec<String> = names.iter().enumerate().map(column).collect();
    host.ad_hoc(&format!("CREATE TABLE {name} ({})", columns.join(", ")))?;
    let mut rows = String::new();
    let mut values = Vec::new();
    for row in table.rows() {
        values.clear();
        row.and_then(|row| row.read_into(&mut values)).expect(OWN_TABLE);
        rows.push_str(if rows.is_empty() { "(" } else { ", (" });
        for (place, value) in values.iter().enumerate() {
            rows.push_str(if place == 0 { "" } else { ", " });
            write_literal(&mut rows, *value);
        }
        rows.push(')');
        if rows.len() > STATEMENT_BYTES {
            host.ad_hoc(&format!("INSERT INTO {name} VALUES {rows}"))?;
            rows.clear();
        }
    }
    if !rows.is_empty() {
        host.ad_hoc(&format!("INSERT INTO {name} VALUES {rows}"))?;
    }
    Ok(())
}

fn write_literal(out: &mut String, value: Datum<'_>) {
    // Writing to a string cannot fail.
    let _ = match value {
        Datum::Text(text) => {
            let end = text.floor_char_boundary(TEXT_BYTES);
            write!(out, "'{}'", text[..end].replace('\'', "''"))
        }
        Datum::Float(number) => write!(out, "{number:E}"),
        Datum::Bytes(bytes) => {
            out.push_str("X'");
            for byte in bytes.iter().take(TEXT_BYTES) {
                let _ = write!(out, "{byte:02X}");
            }
            write!(out, "'")
        }
        other => write!(out, "{other}"),
    };
}

/// A result with the names that its columns have for clients.
fn with_outer_names(result: &[u8], columns: &BTreeSet<String>) -> Result<Vec<u8>, Failure> {
    let table = TableView::read(&mut ByteReader::new(result)).expect(OWN_TABLE);
    let outer = |(place, name): (usize, &str)| {
        let found = columns.iter().find(|column| inner_name(column) == name);
        (found.map_or(name.to_string(), String::clone), table.column_type(place))
    };
    let names = table.column_names().expect(OWN_TABLE);
    let columns: Vec<(String, SqlType)> = names.into_iter().enumerate().map(outer).collect();
    let schema = TableSchema::new(&columns);
    let mut out = Vec::new();
    let mut builder = TableBuilder::begin(&mut out, &schema);
    let mut values = Vec::new();
    for row in table.rows() {
        values.clear();
        row.and_then(|row| row.read_into(&mut values)).expect(OWN_TABLE);
        builder.row(&schema, &values);
    }
    builder.finish();
    Ok(out)
}
