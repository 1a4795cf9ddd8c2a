//! SQLite in memory.

use super::{Answer, Cell, System};
use crate::generator::Dialect;
use lockstep_types::Value;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A database of its own.
pub struct Sqlite {
    connection: Connection,
    /// Steps of the statement that runs, in units of [`STEPS`].
    steps: Arc<AtomicU64>,
}

const STEPS: i32 = 10_000;
/// A statement that takes longer is given up: a join of everything with everything.
const STEPS_MAX: u64 = 10_000;

impl Sqlite {
    /// An empty database.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn open() -> io::Result<Sqlite> {
        let mut connection = Connection::open_in_memory().map_err(io::Error::other)?;
        let settings = "PRAGMA case_sensitive_like = ON; BEGIN; SAVEPOINT last";
        connection.execute_batch(settings).map_err(io::Error::other)?;
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let too_long = move || counted.fetch_add(1, Ordering::Relaxed) > STEPS_MAX;
        connection.progress_handler(STEPS, Some(too_long)).map_err(io::Error::other)?;
        Ok(Sqlite { connection, steps })
    }

    fn answer(&self, sql: &str, gives_rows: bool) -> rusqlite::Result<Vec<Vec<Cell>>> {
        if !gives_rows {
            self.connection.execute_batch("RELEASE last; SAVEPOINT last")?;
            let changed = self.connection.execute(sql, [])?;
            return Ok(vec![vec![Cell::Integer(changed as i64)]]);
        }
        let mut statement = self.connection.prepare(sql)?;
        let width = statement.column_count();
        let mut found = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let cells = (0..width).map(|column| row.get_ref(column).map(cell));
            rows.push(cells.collect::<rusqlite::Result<Vec<Cell>>>()?);
        }
        Ok(rows)
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Own(Value::Null),
        ValueRef::Integer(v) => Cell::Integer(v),
        ValueRef::Real(v) => Cell::Real(v),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}

impl System for Sqlite {
    fn name(&self) -> String {
        "SQLite".to_string()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn run(&mut self, sql: &str, gives_rows: bool) -> Answer {
        self.steps.store(0, Ordering::Relaxed);
        match self.answer(sql, gives_rows) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Answer::Unsupported(error.to_string())
            }
            Ok(rows) => Answer::Rows { types: Vec::new(), rows },
            Err(error) => Answer::Refused(error.to_string()),
        }
    }

    fn undo(&mut self) -> bool {
        self.connection.execute_batch("ROLLBACK TO last").is_ok()
    }
}
