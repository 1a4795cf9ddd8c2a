//! What a workload is: tables and procedures, the rows that they begin with, sessions that make
//! calls, and checks after a run. The one that runs one brings the connection and the clock.

use lockstep_base::bytes::ByteReader;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType, Status, TableView, Value};

/// A workload with its scale and options settled.
pub trait Workload {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The kinds of transactions, in the order of reports. Sessions name them by their place.
    fn transactions(&self) -> &[&'static str];

    /// What the scale and the options are, for reports.
    fn options(&self) -> Vec<(&'static str, String)>;

    /// Texts of DDL that make tables and procedures where there are none, in order.
    fn schema(&self) -> Vec<String>;

    /// Texts of DDL that make the procedures of this very run again, before each run, where those
    /// of an earlier run of another form may be there.
    fn procedures(&self) -> Vec<String> {
        Vec::new()
    }

    /// A jar of classes that the procedures come from, to be loaded before they are made.
    ///
    /// # Errors
    /// They come from classes, and there are none.
    fn classes(&self) -> Result<Option<&[u8]>, String> {
        Ok(None)
    }

    /// The tables that [`Workload::fill`] gives rows of, by their place.
    fn tables(&self) -> Vec<TableToFill>;

    /// Gives every row that the tables begin with: the same ones for the same seed.
    ///
    /// # Errors
    /// What the sink says.
    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String>;

    /// Looks for what is there already.
    ///
    /// # Errors
    /// What is there is of another scale or shape, with both; the database cannot be asked.
    fn survey(&self, database: &mut dyn Database) -> Result<Found, String>;

    /// Takes note of what the checks compare with, before a run.
    ///
    /// # Errors
    /// The database cannot be asked.
    fn begin(&mut self, _database: &mut dyn Database) -> Result<(), String> {
        Ok(())
    }

    /// What [`Workload::begin`] took note of, by name, for reports.
    fn noted(&self) -> Vec<(&'static str, i64)> {
        Vec::new()
    }

    /// A session's calls; they follow from its number and the seed of the run.
    fn session(&self, number: u64, seed: u64) -> Box<dyn Session>;

    /// What sessions count beside their transactions ([`Session::counts`]).
    fn counters(&self) -> &[&'static str] {
        &[]
    }

    /// Checks the data when nothing is in flight any more. `counts` are the sums of what all
    /// sessions counted, and `complete` says that every call was answered.
    ///
    /// # Errors
    /// The database cannot be asked.
    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        complete: bool,
    ) -> Result<Vec<Check>, String>;
}

/// A table to be filled.
#[derive(Debug, Clone)]
pub struct TableToFill {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: Vec<(&'static str, SqlType)>,
    /// The place of the partitioning column; a replicated table has none.
    pub partitioned_by: Option<usize>,
    /// How many rows it is given.
    pub rows: u64,
}

/// Takes rows.
pub trait RowSink {
    /// Takes a row of a table, by the table's place in [`Workload::tables`].
    ///
    /// # Errors
    /// The row cannot be sent, or an earlier one was refused.
    fn row(&mut self, table: usize, values: &[Datum<'_>]) -> Result<(), String>;
}

/// A database that answers SQL.
pub trait Database {
    /// The rows of a query's table.
    ///
    /// # Errors
    /// What it refused, as text.
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Value>>, String>;

    /// A value for each partition that is hashed to it, in order of partition.
    ///
    /// # Errors
    /// It cannot be asked.
    fn partition_keys(&mut self) -> Result<Vec<i64>, String>;

    /// The only value of a query's table.
    ///
    /// # Errors
    /// As for `query`; there is not one value.
    fn scalar(&mut self, sql: &str) -> Result<Value, String> {
        let rows = self.query(sql)?;
        match rows.as_slice() {
            [row] if row.len() == 1 => Ok(row[0].clone()),
            _ => Err(format!("one value was expected of: {sql}")),
        }
    }

    /// The only value of a query's table, a whole number; NULL, as of a sum of no rows, is 0.
    ///
    /// # Errors
    /// As for `scalar`; the value is no whole number.
    fn number(&mut self, sql: &str) -> Result<i64, String> {
        match self.scalar(sql)? {
            Value::Int(number) => Ok(number),
            Value::Null => Ok(0),
            other => Err(format!("a number was expected, not {other}, of: {sql}")),
        }
    }
}

/// Fails where a table's contents are of another size than the run writes.
///
/// # Errors
/// They are; the database cannot be asked.
pub(crate) fn check_content(
    database: &mut dyn Database,
    table: &str,
    bytes: usize,
) -> Result<(), String> {
    for of in ["MIN", "MAX"] {
        let held = database.number(&format!("SELECT {of}(OCTET_LENGTH(content)) FROM {table};"))?;
        if held != bytes as i64 {
            return Err(format!("{table} has contents of {held} bytes, this run is for {bytes}"));
        }
    }
    Ok(())
}

/// What a survey found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No tables.
    Nothing,
    /// Tables without rows.
    Tables,
    /// Tables and rows of this workload's scale.
    Rows,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is held to be true.
    pub name: String,
    /// Whether it is.
    pub holds: bool,
    /// What was compared, with values.
    pub detail: String,
}

impl Check {
    /// A check that two values are the same.
    pub fn equal<T: PartialEq + std::fmt::Display>(name: &str, left: T, right: T) -> Check {
        let holds = left == right;
        let sign = if holds { '=' } else { '≠' };
        Check { name: name.to_string(), holds, detail: format!("{left} {sign} {right}") }
    }

    /// A check that the database holds what was answered, and at most what nobody answered, as of
    /// lost connections, on top.
    pub fn within(name: &str, held: i64, answered: i64, unanswered: i64) -> Check {
        let holds = (answered..=answered.saturating_add(unanswered)).contains(&held);
        let detail = match (holds, unanswered) {
            (true, 0) => format!("{held} = {answered}"),
            (true, _) => format!("{answered} ≤ {held} ≤ {answered} + {unanswered} unanswered"),
            (false, 0) => format!("{held} ≠ {answered}"),
            (false, _) => format!("{held} is not {answered} to {answered} + {unanswered}"),
        };
        Check { name: name.to_string(), holds, detail }
    }
}

/// One client's calls: one is in flight at a time.
pub trait Session: Send {
    /// How long to wait before the first transaction, in microseconds.
    fn first_pause_us(&mut self) -> u64 {
        0
    }

    /// The next call: its kind of transaction, its procedure and, into `parameters`, which are
    /// empty, what it passes.
    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall;

    /// The partition that the last call asks, as one of a call to each of them.
    fn asked_partition(&self) -> Option<i32> {
        None
    }

    /// Judges the answer to the last call.
    fn answered(&mut self, answer: &Answer<'_>) -> Next;

    /// There is no answer to the last call: its connection is lost. What it did is not known.
    fn lost(&mut self) {}

    /// By the place in [`Workload::counters`].
    fn counts(&self) -> &[u64] {
        &[]
    }
}

/// A call to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextCall {
    /// The kind of transaction.
    pub transaction: usize,
    /// The procedure.
    pub procedure: &'static str,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// A transaction ended, and how. Without it the next call belongs to the same transaction,
    /// whose latency counts from its first call.
    pub ended: Option<Verdict>,
    /// The session has more to do before it may be given another transaction: its next call comes
    /// after the pause, in an open loop as well.
    pub goes_on: bool,
    /// Time before the next call, in microseconds.
    pub pause_us: u64,
}

impl Next {
    /// The transaction ended; a closed loop goes on at once.
    pub const fn end(verdict: Verdict) -> Next {
        Next { ended: Some(verdict), goes_on: false, pause_us: 0 }
    }

    /// The transaction needs a further call.
    pub const fn go_on() -> Next {
        Next { ended: None, goes_on: true, pause_us: 0 }
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did what it was to do.
    Good,
    /// It took itself back, as the workload means some to.
    Aborted,
    /// It failed, or its answer is wrong.
    Error,
}

/// An answer to a call.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status code.
    pub status: i8,
    /// The server's text.
    pub status_text: Option<&'a str>,
    /// What the procedure set.
    pub application_status: i8,
    /// Number of tables.
    pub table_count: u16,
    /// The tables in wire form, one after the other.
    pub tables: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Whether the call did its work.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.status == Status::Success.code()
    }

    /// Whether the procedure took itself back.
    #[inline]
    pub fn is_abort(&self) -> bool {
        self.status == Status::UserAbort.code()
    }

    /// A table by its place; `None` where there is none, or its bytes are no table.
    #[inline]
    pub fn table(&self, place: usize) -> Option<TableView<'a>> {
        let mut reader = ByteReader::new(self.tables);
        (0..place).try_for_each(|_| TableView::read(&mut reader).ok().map(|_| ()))?;
        (place < usize::from(self.table_count)).then_some(())?;
        TableView::read(&mut reader).ok()
    }

    /// The first value of the first row of a table, a whole number.
    #[inline]
    pub fn number(&self, place: usize) -> Option<i64> {
        match self.table(place)?.rows().next()?.ok()?.get(0).ok()? {
            Datum::Int(number) => Some(number),
            _ => None,
        }
    }

    /// The number of rows of a table.
    #[inline]
    pub fn row_count(&self, place: usize) -> Option<u32> {
        self.table(place).map(|table| table.row_count())
    }
}
