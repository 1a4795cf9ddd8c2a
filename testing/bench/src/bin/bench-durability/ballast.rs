//! A table of N bytes of rows, for snapshots and recoveries to have something to do.

use lockstep_client::{Call, ConnectOptions, Connection, ConnectionIndex, Pipeline};
use lockstep_client::{ClientError, ParameterWriter};
use lockstep_types::Value;
use std::time::{Duration, Instant};

/// Letters of a row's text.
const TEXT_BYTES: usize = 200;
/// Bytes of a row's values: two BIGINT, two INTEGER, the text.
pub const ROW_BYTES: u64 = 8 + 8 + 4 + 4 + TEXT_BYTES as u64;
const CONNECTIONS: usize = 8;
const PIPELINE: usize = 256;

const SCHEMA: &str = "\
CREATE TABLE ballast (
  id BIGINT NOT NULL PRIMARY KEY, changed BIGINT NOT NULL, kind INTEGER NOT NULL,
  amount INTEGER NOT NULL, description VARCHAR(200 BYTES) NOT NULL);
PARTITION TABLE ballast ON COLUMN id;";

/// Encodes the rows' inserts.
struct Rows {
    writer: ParameterWriter,
    text: String,
    next: u64,
    count: u64,
}

impl Rows {
    fn next(&mut self) -> Option<&[u8]> {
        if self.next == self.count {
            return None;
        }
        let id = self.next as i64;
        self.next += 1;
        self.text.replace_range(..12, &format!("{id:012}"));
        self.writer.clear();
        self.writer.bigint(id).bigint(id * 7).integer((id % 11) as i32).integer((id % 997) as i32);
        self.writer.text(&self.text);
        Some(self.writer.bytes())
    }
}

/// Makes the table and fills it with at least N bytes of rows; the number of rows.
///
/// # Errors
/// The host refuses something.
pub fn fill(connection: &mut Connection, address: &str, bytes: u64) -> Result<u64, String> {
    connection.sql(SCHEMA).map_err(|error| error.to_string())?;
    let count = bytes.div_ceil(ROW_BYTES);
    fill_rows(address, count).map_err(|error| error.to_string())?;
    check(connection, count)?;
    Ok(count)
}

/// Compares the table with what it was filled with.
///
/// # Errors
/// A row is missing.
pub fn check(connection: &mut Connection, count: u64) -> Result<(), String> {
    let tables = connection
        .sql("SELECT COUNT(*), SUM(id) FROM ballast;")
        .map_err(|error| error.to_string())?;
    let row = tables.first().and_then(|table| table.rows.first());
    let sum = count as i64 * (count as i64 - 1) / 2;
    match row.map(Vec::as_slice) {
        Some([Value::Int(rows), Value::Int(ids)]) if (*rows as u64, *ids) == (count, sum) => Ok(()),
        other => Err(format!("{count} rows with the sum {sum} were expected, not {other:?}")),
    }
}

fn fill_rows(address: &str, count: u64) -> Result<(), ClientError> {
    let connect = ConnectOptions { max_in_flight: PIPELINE, ..ConnectOptions::default() };
    let mut pipeline = Pipeline::new(&connect)?;
    for _ in 0..CONNECTIONS {
        pipeline.connect(address)?;
    }
    let text = "consectetur adipiscing elit ".repeat(TEXT_BYTES)[..TEXT_BYTES].to_string();
    let mut rows = Rows { writer: ParameterWriter::default(), text, next: 0, count };
    const INSERT: &str = "BALLAST.insert";
    let start = Instant::now();
    for place in 0..CONNECTIONS * PIPELINE {
        let Some(parameters) = rows.next() else { break };
        let call = Call::new(INSERT, parameters, start);
        pipeline.submit(ConnectionIndex(place % CONNECTIONS), &call)?;
    }
    let mut failed = None;
    while pipeline.in_flight() > 0 && failed.is_none() {
        pipeline.poll(Duration::from_millis(10), |completion, outgoing| {
            match completion.result {
                Ok(response) if response.is_success() => {}
                Ok(response) => {
                    let text = response.status_text.unwrap_or("no reason").to_string();
                    failed = Some(ClientError::Protocol(text));
                }
                Err(error) => failed = Some(error),
            }
            if failed.is_none()
                && let Some(parameters) = rows.next()
            {
                let call = Call::new(INSERT, parameters, completion.completed_at);
                failed = outgoing.submit(&call).err();
            }
        })?;
    }
    failed.map_or(Ok(()), Err)
}
