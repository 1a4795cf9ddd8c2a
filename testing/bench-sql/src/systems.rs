//! The two systems in this process: a host of ours without sockets, and SQLite in memory.
//!
//! Both get the same arguments and both hand every value of every row over, which is folded into
//! a checksum: no side saves the work of making its results, and differing results are noticed.

use lockstep_base::bytes::ByteReader;
use lockstep_client::{CallOptions, RepeatedCall, Response};
use lockstep_node::NativeRegistry;
use lockstep_node::embedded::EmbeddedHost;
use lockstep_node::options::{Bytes, Options};
use lockstep_types::{Datum, TableView, Value};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Statement};

/// Limit of intermediate results.
const TEMPORARY_BYTES: u64 = 2 << 30;
/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// An argument of a statement.
#[derive(Debug, Clone, Copy)]
pub enum Argument {
    /// An integer of any width.
    Int(i64),
    /// Text.
    Text(&'static str),
    /// A floating-point number.
    Float(f64),
}

/// What a statement gave.
pub type Rows = Vec<Vec<Value>>;

/// What reads a result: counts it, or keeps it.
pub trait Sink {
    /// A value of a row.
    fn value(&mut self, value: Datum<'_>);
    /// A row has ended.
    fn end_row(&mut self);
}

/// Folds values into a number that does not depend on the order of rows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// The sum over rows.
    pub sum: u64,
    /// Rows read.
    pub rows: u64,
    row: u64,
}

impl Sink for Checksum {
    #[inline]
    fn value(&mut self, value: Datum<'_>) {
        // Cheap on purpose: this is timed.
        let value = match value {
            Datum::Int(value) | Datum::Timestamp(value) => value as u64,
            Datum::Text(text) => text.len() as u64 ^ 0x55,
            Datum::Bytes(bytes) => bytes.len() as u64 ^ 0xaa,
            // Sums of floats depend on the order of their terms; they are compared elsewhere.
            Datum::Float(_) | Datum::Decimal(_) | Datum::Point(_) => 3,
            Datum::Bool(value) => u64::from(value),
            Datum::Null => 5,
        };
        self.row = self.row.wrapping_mul(31).wrapping_add(value);
    }

    #[inline]
    fn end_row(&mut self) {
        self.sum = self.sum.wrapping_add(self.row);
        self.rows += 1;
        self.row = 0;
    }
}

/// Keeps every row.
#[derive(Debug, Default)]
pub struct Keeper {
    /// The rows.
    pub rows: Rows,
    row: Vec<Value>,
}

impl Sink for Keeper {
    fn value(&mut self, value: Datum<'_>) {
        self.row.push(value.to_value());
    }

    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }
}

/// Our host, with buffers to call it.
pub struct Ours {
    /// The host.
    pub host: EmbeddedHost,
    /// The procedure that was called last, and its calls.
    procedure: String,
    calls: RepeatedCall,
    response: Vec<u8>,
}

impl Ours {
    /// A host of one site.
    ///
    /// # Errors
    /// What it refused.
    pub fn new() -> Result<Ours, String> {
        // Sorting a million rows takes more than the limit that is meant to protect hosts.
        let options = Options { max_temporary_bytes: Bytes(TEMPORARY_BYTES), ..Options::default() };
        let host = EmbeddedHost::new(&options, NativeRegistry::default());
        Ok(Ours {
            host: host.map_err(|failure| failure.message)?,
            procedure: String::new(),
            calls: RepeatedCall::new("", 0, &CallOptions::default()),
            response: Vec::new(),
        })
    }

    /// Runs SQL text without looking at results.
    ///
    /// # Errors
    /// The statement and what was refused.
    pub fn execute(&mut self, sql: &str) -> Result<(), String> {
        let run = self.host.ad_hoc(sql);
        run.map(|_| ()).map_err(|failure| format!("{sql}: {}", failure.message))
    }

    /// Runs SQL text from parsing to reading the results.
    ///
    /// # Errors
    /// What was refused.
    pub fn ad_hoc(&mut self, sql: &str, sink: &mut impl Sink) -> Result<(), String> {
        let (tables, count) = self.host.ad_hoc(sql).map_err(|failure| failure.message)?;
        let mut reader = ByteReader::new(&tables);
        for _ in 0..count {
            let table = TableView::read(&mut reader).map_err(|error| error.to_string())?;
            read_table(&table, sink)?;
        }
        Ok(())
    }

    /// Calls a procedure: encodes the invocation, runs it as a transaction, reads the response.
    ///
    /// # Errors
    /// What was refused.
    #[inline]
    pub fn call(
        &mut self,
        procedure: &str,
        arguments: &[Argument],
        sink: &mut impl Sink,
    ) -> Result<(), String> {
        if self.procedure != procedure {
            self.procedure = procedure.to_string();
            self.calls = RepeatedCall::new(procedure, 0, &CallOptions::default());
        }
        let parameters = self.calls.parameters();
        for argument in arguments {
            match *argument {
                Argument::Int(value) => parameters.bigint(value),
                Argument::Text(text) => parameters.text(text),
                Argument::Float(value) => {
                    parameters.scalar(lockstep_types::SqlType::Float, Datum::Float(value))
                }
            };
        }
        self.response.clear();
        self.host.call(&self.calls.frame()[LENGTH_BYTES..], &mut self.response);
        let body = self.response.get(LENGTH_BYTES..).ok_or("no response")?;
        let response = Response::decode(body).map_err(|error| error.to_string())?;
        if !response.is_success() {
            let text = response.status_text.unwrap_or("no text");
            return Err(format!("{procedure} {arguments:?}: {text}"));
        }
        for table in response.tables() {
            let table = table.map_err(|error| error.to_string())?;
            read_table(&table, sink)?;
        }
        Ok(())
    }
}

/// Reads all rows.
fn read_table(table: &TableView<'_>, sink: &mut impl Sink) -> Result<(), String> {
    for row in table.rows() {
        for value in row.map_err(|error| error.to_string())?.values() {
            sink.value(value.map_err(|error| error.to_string())?);
        }
        sink.end_row();
    }
    Ok(())
}

/// A database of SQLite's in memory, one thread, no locks.
///
/// # Errors
/// SQLite's message.
pub fn open_sqlite() -> Result<Connection, String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_in_memory_with_flags(flags).map_err(sqlite_error)?;
    let settings = "PRAGMA temp_store = MEMORY; PRAGMA locking_mode = EXCLUSIVE; \
                    PRAGMA synchronous = OFF;";
    connection.execute_batch(settings).map_err(sqlite_error)?;
    Ok(connection)
}

/// Its message.
pub fn sqlite_error(error: rusqlite::Error) -> String {
    format!("SQLite: {error}")
}

/// The statements of one transaction, prepared. Several are wrapped into BEGIN and COMMIT; one
/// alone commits by itself.
pub struct Prepared<'c> {
    statements: Vec<Statement<'c>>,
    ends: Option<(Statement<'c>, Statement<'c>)>,
}

impl<'c> Prepared<'c> {
    /// Prepares them.
    ///
    /// # Errors
    /// The statement and SQLite's message.
    pub fn new(connection: &'c Connection, texts: &[String]) -> Result<Prepared<'c>, String> {
        let prepare = |text: &str| {
            connection.prepare(text).map_err(|error| format!("{text}: {}", sqlite_error(error)))
        };
        let statements = texts.iter().map(|text| prepare(text)).collect::<Result<_, _>>()?;
        let ends = match texts.len() {
            1 => None,
            _ => Some((prepare("BEGIN")?, prepare("COMMIT")?)),
        };
        Ok(Prepared { statements, ends })
    }

    /// Runs the transaction. Parameters go to the statements in turn. What changes rows gives
    /// their number, as it does on our side.
    ///
    /// # Errors
    /// SQLite's message.
    #[inline]
    pub fn run(&mut self, arguments: &[Argument], sink: &mut impl Sink) -> Result<(), String> {
        if let Some((begin, _)) = &mut self.ends {
            begin.raw_execute().map_err(sqlite_error)?;
        }
        let mut arguments = arguments.iter();
        for statement in &mut self.statements {
            run_one(statement, &mut arguments, sink).map_err(sqlite_error)?;
        }
        if let Some((_, commit)) = &mut self.ends {
            commit.raw_execute().map_err(sqlite_error)?;
        }
        Ok(())
    }
}

#[inline]
fn run_one(
    statement: &mut Statement<'_>,
    arguments: &mut std::slice::Iter<'_, Argument>,
    sink: &mut impl Sink,
) -> rusqlite::Result<()> {
    for place in 1..=statement.parameter_count() {
        match arguments.next() {
            Some(Argument::Int(value)) => statement.raw_bind_parameter(place, value)?,
            Some(Argument::Text(text)) => statement.raw_bind_parameter(place, text)?,
            Some(Argument::Float(value)) => statement.raw_bind_parameter(place, value)?,
            None => return Err(rusqlite::Error::InvalidParameterCount(place, place - 1)),
        }
    }
    let columns = statement.column_count();
    if columns == 0 {
        let changed = statement.raw_execute()?;
        sink.value(Datum::Int(changed as i64));
        sink.end_row();
        return Ok(());
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            sink.value(match row.get_ref(column)? {
                ValueRef::Null => Datum::Null,
                ValueRef::Integer(value) => Datum::Int(value),
                ValueRef::Real(value) => Datum::Float(value),
                ValueRef::Text(text) => Datum::Text(std::str::from_utf8(text).unwrap_or("?")),
                ValueRef::Blob(bytes) => Datum::Bytes(bytes),
            });
        }
        sink.end_row();
    }
    Ok(())
}

/// Whether both gave the same rows, in whatever order unless `ordered`; floats may differ by
/// the order of their sums.
///
/// # Errors
/// The first difference.
pub fn compare(mut ours: Rows, mut theirs: Rows, ordered: bool) -> Result<(), String> {
    if ours.len() != theirs.len() {
        return Err(format!("{} rows, SQLite gives {}", ours.len(), theirs.len()));
    }
    if !ordered {
        for rows in [&mut ours, &mut theirs] {
            rows.sort_by(|a, b| order(a, b));
        }
    }
    for (place, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        if a.len() != b.len() || !a.iter().zip(b).all(|(a, b)| same(a, b)) {
            return Err(format!("row {place}: {a:?}, SQLite gives {b:?}"));
        }
    }
    Ok(())
}

fn order(a: &[Value], b: &[Value]) -> std::cmp::Ordering {
    let pairs = a.iter().zip(b).map(|(a, b)| a.as_datum().sort_order(b.as_datum()));
    pairs.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => a == b,
    }
}
