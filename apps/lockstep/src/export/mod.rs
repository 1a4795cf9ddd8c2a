//! `lockstep export csv`: a table or the result of a query as text that `lockstep load csv` takes
//! back.
//!
//! A table with a primary key is read in the key's order, some megabytes at a time, so that its
//! size does not matter; each part is a transaction of its own. A query is one transaction, and
//! its result is bounded by the server.

mod parts;

use crate::csv::writer::{Rules, write_text, write_value};
use crate::csv::{Dialect, dialect_arguments, header_argument};
use crate::load::target::Target;
use crate::load::{NULLS, Progress, server_argument};
use clap::{Arg, ArgGroup, ArgMatches, Command};
use lockstep_bench::report::grouped;
use lockstep_client::{ConnectOptions, Connection, OwnedResponse, ParameterWriter};
use lockstep_types::TableView;
use lockstep_types::geography::text::text_of;
use parts::Parts;
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

/// The command line of `lockstep export`.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let csv = Command::new("csv")
        .about("Write a table or a query's result as comma-separated values")
        .arg(server_argument())
        .arg(text("table", "TABLE", "The table to write"))
        .arg(text("query", "SQL", "The query whose result to write"))
        .group(ArgGroup::new("what").args(["table", "query"]).required(true))
        .arg(text("output", "FILE", "Where to [default: standard output]"))
        .args(dialect_arguments())
        .arg(header_argument("Write a first line with the columns' names"))
        .arg(text("null-string", "TEXT", "What to write for NULL").default_value(""))
        .after_help(
            "A table with a primary key is read in parts of the key's order, each its own \
             transaction; without one, and for a query, the server's limit of one response holds.",
        );
    Command::new("export").about("Write data out").subcommand_required(true).subcommand(csv)
}

/// Runs the export that was asked for.
///
/// # Errors
/// The server refuses, or the output cannot be written.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let Some(("csv", arguments)) = arguments.subcommand() else {
        return Err("there is no such form; try `lockstep export --help`".to_string());
    };
    let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
    let rules = Rules {
        dialect: Dialect::of(arguments)?,
        null: text("null-string").unwrap_or_default().to_string(),
        read_as_null: NULLS.map(str::to_string).to_vec(),
    };
    let server = text("server").unwrap_or_default();
    let connection = Connection::connect(server, &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let name = text("output").unwrap_or("standard output").to_string();
    let out: Box<dyn Write> = match text("output") {
        None => Box::new(io::stdout().lock()),
        Some(file) => Box::new(File::create(file).map_err(|error| format!("{file}: {error}"))?),
    };
    let header = arguments.get_flag("header");
    let mut output = Output {
        out,
        name,
        rules,
        header,
        rows: 0,
        bytes: Vec::new(),
        progress: Progress::new(None),
    };
    let result = match (text("table"), text("query")) {
        (Some(table), _) => export_table(connection, table, &mut output),
        (None, query) => export_query(connection, query.unwrap_or_default(), &mut output),
    };
    output.progress.clear();
    result?;
    if let Some(file) = text("output") {
        let seconds = output.progress.elapsed().as_secs_f64();
        println!("{} rows written to {file} in {seconds:.1} s", grouped(output.rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs SQL text; the response.
fn ad_hoc(connection: &mut Connection, sql: &str) -> Result<OwnedResponse, String> {
    let mut parameters = ParameterWriter::default();
    parameters.text(sql);
    let response = connection.call("@AdHoc", &parameters).map_err(|error| error.to_string())?;
    let view = response.view();
    match view.is_success() {
        true => Ok(response),
        false => Err(view.status_text.unwrap_or("the server gave no reason").to_string()),
    }
}

fn export_query(mut connection: Connection, query: &str, out: &mut Output) -> Result<(), String> {
    let response = ad_hoc(&mut connection, query).map_err(|error| too_large(error, "a WHERE"))?;
    let view = response.view();
    let mut tables = view.tables();
    let (Some(table), None) = (tables.next(), tables.next()) else {
        return Err("--query takes one statement".to_string());
    };
    out.table(&table.map_err(|error| error.to_string())?, None)
}

/// Says what to do about a result that is over the server's limit.
fn too_large(error: String, by: &str) -> String {
    let limits = ["temp table memory", "max_response_bytes", "larger than", "limit of"];
    match limits.iter().any(|limit| error.contains(limit)) {
        true => format!("{error}\nexport it in parts, with --query and {by} on ranges"),
        false => error,
    }
}

fn export_table(mut connection: Connection, name: &str, out: &mut Output) -> Result<(), String> {
    let target = Target::read(&mut connection, name)?;
    let key = target.primary_key(&mut connection)?;
    if key.is_empty() {
        let columns: Vec<&str> = target.columns.iter().map(|c| c.name.as_str()).collect();
        let query = format!("SELECT {} FROM {}", columns.join(", "), target.name);
        return export_query(connection, &query, out)
            .map_err(|error| format!("{} has no primary key to go by: {error}", target.name));
    }
    let mut parts = Parts::new(&target, key);
    let mut first = true;
    while let Some(query) = parts.next_query() {
        let response = ad_hoc(&mut connection, &query)?;
        let view = response.view();
        let table = view.tables().next().ok_or("the server sent no table")?;
        let table = table.map_err(|error| error.to_string())?;
        if first || table.row_count() > 0 {
            out.table(&table, Some(&mut parts))?;
        }
        first = false;
        parts.done(table.row_count());
    }
    Ok(())
}

/// The text that is written.
struct Output {
    out: Box<dyn Write>,
    name: String,
    rules: Rules,
    /// Whether names are to be written, once.
    header: bool,
    rows: u64,
    bytes: Vec<u8>,
    progress: Progress,
}

/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

impl Output {
    /// Writes the rows of a table; `parts` takes note of each.
    fn table(
        &mut self,
        table: &TableView<'_>,
        mut parts: Option<&mut Parts<'_>>,
    ) -> Result<(), String> {
        let bad = |error: lockstep_types::table::DecodeError| error.to_string();
        let delimiter = self.rules.dialect.delimiter;
        if std::mem::take(&mut self.header) {
            for (place, name) in table.column_names().map_err(bad)?.iter().enumerate() {
                if place > 0 {
                    self.bytes.push(delimiter);
                }
                write_text(&mut self.bytes, name, &self.rules)?;
            }
            self.bytes.push(b'\n');
        }
        let mut values = Vec::with_capacity(table.column_count());
        for row in table.rows() {
            values.clear();
            let before = self.bytes.len();
            row.and_then(|row| row.read_into(&mut values)).map_err(bad)?;
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    self.bytes.push(delimiter);
                }
                match text_of(table.column_type(place), *value) {
                    Some(text) => write_text(&mut self.bytes, &text, &self.rules)?,
                    None => write_value(&mut self.bytes, *value, &self.rules)?,
                }
            }
            self.bytes.push(b'\n');
            self.rows += 1;
            if let Some(parts) = &mut parts {
                parts.row(&values, self.bytes.len() - before);
            }
            if self.bytes.len() >= WRITE_BYTES {
                self.write()?;
            }
        }
        self.progress.update(self.rows, 0, 0);
        self.write()
    }

    fn write(&mut self) -> Result<(), String> {
        let written = self.out.write_all(&self.bytes).and_then(|()| self.out.flush());
        self.bytes.clear();
        written.map_err(|error| format!("{}: {error}", self.name))
    }
}
