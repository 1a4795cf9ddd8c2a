//! PostgreSQL as a workload's checks ask it: the same queries as they are put to our server, over
//! one connection, each answered in text.

use crate::postgres::Postgres;
use crate::postgres_wire::{login, message, text, unexpected, until_ready};
use lockstep_base::bytes::ByteReader;
use lockstep_types::Value;
use lockstep_workloads::Database;
use std::io::{self, Write};
use std::net::TcpStream;

/// A connection for checks.
pub struct PostgresDatabase {
    stream: TcpStream,
    input: Vec<u8>,
}

impl PostgresDatabase {
    /// Connects. Rows are read through indexes where there are some that fit, so that a query that
    /// stands for an index reads the index.
    ///
    /// # Errors
    /// What the server says.
    pub fn connect(postgres: &Postgres) -> Result<PostgresDatabase, String> {
        let stream = TcpStream::connect(postgres.address()).map_err(|error| error.to_string())?;
        let mut database = PostgresDatabase { stream, input: Vec::new() };
        let mut out = Vec::new();
        login(&mut out);
        let greeted = database.stream.write_all(&out).and_then(|()| {
            until_ready(&mut database.stream, &mut database.input, 1, |_, _| Ok(()))
        });
        greeted.map_err(|error| error.to_string())?;
        database.query("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
        Ok(database)
    }

    fn ask(&mut self, sql: &str) -> io::Result<Vec<Vec<Value>>> {
        let mut out = Vec::new();
        message(&mut out, b'Q', |out| text(out, sql));
        self.stream.write_all(&out)?;
        let (mut types, mut rows) = (Vec::new(), Vec::new());
        until_ready(&mut self.stream, &mut self.input, 1, |kind, body| {
            let wrong = || unexpected("sent a row that cannot be read");
            match kind {
                b'T' => types = types_of(body).ok_or_else(wrong)?,
                b'D' => rows.push(row_of(body, &types).ok_or_else(wrong)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(rows)
    }
}

impl Database for PostgresDatabase {
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Value>>, String> {
        self.ask(sql).map_err(|error| format!("{error}, of: {sql}"))
    }

    fn partition_keys(&mut self) -> Result<Vec<i64>, String> {
        Err("PostgreSQL has no partitions".to_string())
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    /// A sum of bigints is numeric too: whole where it has no fraction.
    Numeric,
    Float,
    Text,
}

/// The kinds of the columns that a description of rows lists.
fn types_of(body: &[u8]) -> Option<Vec<Kind>> {
    let mut reader = ByteReader::new(body);
    let count = reader.i16().ok()?;
    let kind = |_| {
        while reader.i8().ok()? != 0 {}
        // Table and column come before the type, its size, modifier and form after.
        let (_, _) = (reader.u32().ok()?, reader.i16().ok()?);
        let number = reader.u32().ok()?;
        let (_, _, _) = (reader.i16().ok()?, reader.u32().ok()?, reader.i16().ok()?);
        Some(match number {
            20 | 21 | 23 => Kind::Whole,
            700 | 701 => Kind::Float,
            1700 => Kind::Numeric,
            _ => Kind::Text,
        })
    };
    (0..count).map(kind).collect()
}

/// A row in text, as values.
fn row_of(body: &[u8], types: &[Kind]) -> Option<Vec<Value>> {
    let mut reader = ByteReader::new(body);
    let count = usize::try_from(reader.i16().ok()?).ok()?;
    if count != types.len() {
        return None;
    }
    let value = |kind: &Kind| {
        let length = reader.u32().ok()?;
        // The length -1 stands for NULL.
        if length == u32::MAX {
            return Some(Value::Null);
        }
        let text = std::str::from_utf8(reader.take(length as usize).ok()?).ok()?;
        let whole = || text.parse().ok().map(Value::Int);
        let float = || text.parse().ok().map(Value::Float);
        match kind {
            Kind::Whole => whole(),
            Kind::Numeric => whole().or_else(float),
            Kind::Float => float(),
            Kind::Text => Some(Value::Text(text.into())),
        }
    };
    types.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_by_their_types() {
        let mut description = vec![0, 5];
        for number in [23u32, 1700, 1700, 701, 1114] {
            description.extend_from_slice(b"name\0\0\0\0\x01\0\x02");
            description.extend_from_slice(&number.to_be_bytes());
            description.extend_from_slice(&[0, 4, 0, 0, 0, 0, 0, 0]);
        }
        let types = types_of(&description).expect("sound");
        let expected = [Kind::Whole, Kind::Numeric, Kind::Numeric, Kind::Float, Kind::Text];
        assert_eq!(types, expected);
        let mut row = vec![0, 5];
        for text in ["-7", "12", "1.5", "2.25"] {
            row.extend_from_slice(&(text.len() as u32).to_be_bytes());
            row.extend_from_slice(text.as_bytes());
        }
        row.extend_from_slice(&[0xff; 4]);
        let values = row_of(&row, &types).expect("sound");
        let float = Value::Float;
        assert_eq!(values, [Value::Int(-7), Value::Int(12), float(1.5), float(2.25), Value::Null]);
        assert_eq!(row_of(&row[..20], &types), None);
        assert_eq!(row_of(&row, &types[..4]), None);
        assert_eq!(types_of(&description[..30]), None);
    }
}
