//! SQLite in memory.

use super::{Answer, Cell, System};
use crate::generator::Dialect;
use lockstep_types::Value;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::io;

/// A database of its own.
pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// An empty database.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn open() -> io::Result<Sqlite> {
        let connection = Connection::open_in_memory().map_err(io::Error::other)?;
        let settings = "PRAGMA case_sensitive_like = ON; BEGIN; SAVEPOINT last";
        connection.execute_batch(settings).map_err(io::Error::other)?;
        Ok(Sqlite { connection })
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
        match self.answer(sql, gives_rows) {
            Ok(rows) => Answer::Rows { types: Vec::new(), rows },
            Err(error) => Answer::Refused(error.to_string()),
        }
    }

    fn undo(&mut self) -> bool {
        self.connection.execute_batch("ROLLBACK TO last").is_ok()
    }
}
