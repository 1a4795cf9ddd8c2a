//! Memory of a row of `votes` without indexes and views: what the server states, and what its
//! process grew by.

use crate::Plan;
use crate::systems::{CONNECTIONS, PIPELINE, Systems};
use lockstep_bench::driver::{DriverOptions, Verdict, Workload, drive};
use lockstep_client::rows::Table;
use lockstep_client::{ClientError, ConnectOptions, Connection, ParameterWriter, Response};
use lockstep_types::Value;
use lockstep_workloads::voter::PhoneCalls;

/// `votes` as voter has it, and nothing else.
const SCHEMA: &str = "\
CREATE TABLE votes (
  phone_number BIGINT NOT NULL,
  state VARCHAR(2) NOT NULL,
  contestant_number INTEGER NOT NULL
);
PARTITION TABLE votes ON COLUMN phone_number;
";
/// A number of 8 bytes, one of 4, and text of 2 with its length.
pub const ROW_BYTES: f64 = 15.0;

/// What was found.
pub struct Memory {
    /// Bytes of a row by `@Statistics TABLE`.
    pub stated_per_row: f64,
    /// Bytes of a row by the growth of the process.
    pub grown_per_row: f64,
    /// Rows that were inserted between the two readings.
    pub rows: u64,
}

struct Inserts {
    calls: PhoneCalls,
    writer: ParameterWriter,
}

impl Workload for Inserts {
    fn next_call(&mut self, _: usize, parameters: &mut Vec<u8>) -> &'static str {
        let call = self.calls.draw();
        self.writer.clear();
        self.writer.bigint(call.phone_number).text("XX").integer(call.contestant);
        parameters.extend_from_slice(self.writer.bytes());
        "VOTES.insert"
    }

    fn completed(&mut self, response: &Response<'_>, _: bool) -> Verdict {
        if response.is_success() { Verdict::Good } else { Verdict::Error }
    }
}

/// A reading: rows, stated bytes, resident bytes.
type Reading = (u64, u64, u64);

/// Measures it.
///
/// # Errors
/// The server does not start or refuses something.
pub fn per_row(plan: &Plan, systems: &Systems) -> Result<Memory, String> {
    let server = systems.start_lockstep()?;
    let text = |error: ClientError| error.to_string();
    let address = server.address.to_string();
    let mut connection = Connection::connect(&address, &ConnectOptions::default()).map_err(text)?;
    connection.sql(SCHEMA).map_err(text)?;
    let mut load = Inserts { calls: PhoneCalls::new(1, 6), writer: ParameterWriter::default() };
    let mut read = |duration| -> Result<Reading, String> {
        let options = DriverOptions {
            servers: vec![address.clone()],
            connections: CONNECTIONS,
            pipeline: PIPELINE,
            rate_per_s: None,
            duration,
            warmup: std::time::Duration::ZERO,
            keep_calls: false,
            never_sleeps: false,
        };
        let measured = drive(&options, &mut load, &mut |_| {}).map_err(text)?;
        if let Some(error) = measured.first_error {
            return Err(format!("inserts fail: {error}"));
        }
        let (rows, stated) = stated(&mut connection).map_err(text)?;
        Ok((rows, stated, server.resident_bytes().map_err(|error| error.to_string())?))
    };
    // The first part makes the buffers grow that every load needs.
    let first = read(plan.duration / 4)?;
    let second = read(plan.duration)?;
    let rows = second.0.saturating_sub(first.0);
    let per_row = |before: u64, after: u64| (after as f64 - before as f64) / rows.max(1) as f64;
    let memory = Memory {
        stated_per_row: per_row(first.1, second.1),
        grown_per_row: per_row(first.2, second.2),
        rows,
    };
    eprintln!(
        "memory: {:.1} bytes a row stated, {:.1} grown, {rows} rows",
        memory.stated_per_row, memory.grown_per_row
    );
    Ok(memory)
}

/// Rows and bytes of `votes` by `@Statistics TABLE`: slots, and the text that pointers refer to.
fn stated(connection: &mut Connection) -> Result<(u64, u64), ClientError> {
    let mut parameters = ParameterWriter::default();
    parameters.text("TABLE").integer(0);
    let tables = connection.call("@Statistics", &parameters)?.tables()?;
    let table = tables.first().ok_or_else(|| ClientError::Protocol("no table".to_string()))?;
    let sum = |column: &str| sum(table, column);
    let kibibytes = sum("TUPLE_ALLOCATED_MEMORY") + sum("STRING_DATA_MEMORY");
    Ok((sum("TUPLE_COUNT"), kibibytes * 1024))
}

/// The sum of a column over the partitions of `votes`.
fn sum(table: &Table, column: &str) -> u64 {
    let place = |name: &str| table.names.iter().position(|n| n == name);
    let (Some(name), Some(column)) = (place("TABLE_NAME"), place(column)) else { return 0 };
    let is_votes = |row: &&Vec<Value>| matches!(&row[name], Value::Text(t) if &**t == "VOTES");
    let number = |row: &Vec<Value>| match row[column] {
        Value::Int(number) => u64::try_from(number).unwrap_or(0),
        _ => 0,
    };
    table.rows.iter().filter(is_votes).map(number).sum()
}
