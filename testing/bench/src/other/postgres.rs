//! Workloads on PostgreSQL: functions in PL/pgSQL in the place of procedures, prepared once on
//! each connection. Whole numbers go in binary form, so that the server has the least to do
//! besides the work.

use super::{Reply, System, reader};
use crate::postgres::Postgres;
use crate::postgres_wire::{error_text, login, message, next_message, text, until_ready};
use lockstep_types::parameter::{Parameter, ParameterSet};
use lockstep_types::{Datum, SqlType, Status};
use lockstep_workloads::{RowSink, TableToFill, Workload};
use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The tables and functions of TPC-C.
pub const TPCC: &str = include_str!("../../sql/postgres-tpcc.sql");
/// Those of TATP.
pub const TATP: &str = include_str!("../../sql/postgres-tatp.sql");

/// Procedures of TPC-C, and how many parameters each takes.
pub const TPCC_FUNCTIONS: &[(&str, usize)] = &[
    ("NewOrder", 6),
    ("NewOrderRemote", 6),
    ("Payment", 7),
    ("PaymentRemote", 7),
    ("OrderStatus", 4),
    ("Delivery", 2),
    ("StockLevel", 3),
];
/// Those of TATP.
pub const TATP_FUNCTIONS: &[(&str, usize)] = &[
    ("GetSubscriberData", 1),
    ("GetNewDestination", 4),
    ("GetAccessData", 2),
    ("UpdateSubscriberData", 4),
    ("UpdateLocationByNumber", 2),
    ("InsertCallForwardingByNumber", 5),
    ("DeleteCallForwardingByNumber", 3),
];

/// How it is set up for a comparison: tuned for one core, and durable as our synchronous log is.
pub const SETTINGS: &[&str] = &[
    "synchronous_commit=on",
    "fsync=on",
    "wal_sync_method=fdatasync",
    "full_page_writes=on",
    "wal_buffers=64MB",
    "shared_buffers=2GB",
    "max_wal_size=16GB",
    "checkpoint_timeout=1h",
    "max_connections=110",
    "autovacuum=on",
    "jit=off",
    "max_parallel_workers_per_gather=0",
    "plan_cache_mode=force_generic_plan",
];

const TEXT: u16 = 0;
const BINARY: u16 = 1;
const PATIENCE: Duration = Duration::from_secs(30);
/// PostgreSQL's code of what a function raises, and the class of violated constraints.
const RAISED: &str = "P0001";
const VIOLATIONS: &str = "23";

/// A server with a workload's functions.
pub struct PostgresSystem<'p> {
    postgres: &'p Postgres,
    functions: &'static [(&'static str, usize)],
}

/// Makes a workload's tables and functions, and fills the tables. `schema` makes the tables and,
/// after a line with `-- indexes`, what is made once they are full.
///
/// # Errors
/// What the server says.
pub fn set_up(postgres: &Postgres, workload: &dyn Workload, schema: &str) -> Result<(), String> {
    let (tables, behind) = schema.split_once("-- indexes\n").ok_or("a schema without indexes")?;
    postgres.sql(tables)?;
    let mut sink = CopySink::begin(postgres, workload.tables())?;
    workload.fill(&mut sink)?;
    sink.finish()?;
    postgres.sql(behind)?;
    postgres.sql("VACUUM ANALYZE")?;
    postgres.sql("CHECKPOINT").map(|_| ())
}

/// One COPY for each table.
struct CopySink {
    clients: Vec<Child>,
    lines: Vec<String>,
}

/// Bytes of lines that are sent at once.
const COPY_BYTES: usize = 64 * 1024;

impl CopySink {
    fn begin(postgres: &Postgres, tables: Vec<TableToFill>) -> Result<CopySink, String> {
        let mut clients = Vec::new();
        for table in &tables {
            let columns: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
            let copy = format!("COPY {} ({}) FROM STDIN", table.name, columns.join(", "));
            let mut client = postgres.client();
            client.args(["-c", &copy]).stdin(Stdio::piped()).stdout(Stdio::null());
            clients.push(client.spawn().map_err(|error| format!("psql: {error}"))?);
        }
        let lines = vec![String::new(); clients.len()];
        Ok(CopySink { clients, lines })
    }

    fn send(&mut self, table: usize) -> Result<(), String> {
        let input = self.clients[table].stdin.as_mut().ok_or("psql has no input")?;
        input.write_all(self.lines[table].as_bytes()).map_err(|error| format!("psql: {error}"))?;
        self.lines[table].clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), String> {
        for table in 0..self.clients.len() {
            self.send(table)?;
            drop(self.clients[table].stdin.take());
        }
        for client in &mut self.clients {
            let status = client.wait().map_err(|error| format!("psql: {error}"))?;
            if !status.success() {
                return Err("COPY failed".to_string());
            }
        }
        Ok(())
    }
}

impl Drop for CopySink {
    fn drop(&mut self) {
        for client in &mut self.clients {
            // They have ended by themselves, unless something failed.
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// Appends a value in the form of COPY.
fn copy_value(out: &mut String, value: &Datum<'_>) {
    match value {
        Datum::Null => out.push_str("\\N"),
        Datum::Timestamp(us) => out.push_str(&lockstep_types::timestamp::format(*us)),
        Datum::Text(text) => {
            for character in text.chars() {
                match character {
                    '\\' => out.push_str("\\\\"),
                    '\n' => out.push_str("\\n"),
                    '\t' => out.push_str("\\t"),
                    other => out.push(other),
                }
            }
        }
        other => out.push_str(&other.to_string()),
    }
}

impl RowSink for CopySink {
    fn row(&mut self, table: usize, values: &[Datum<'_>]) -> Result<(), String> {
        let line = &mut self.lines[table];
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                line.push('\t');
            }
            copy_value(line, value);
        }
        line.push('\n');
        if line.len() >= COPY_BYTES { self.send(table) } else { Ok(()) }
    }
}

impl<'p> PostgresSystem<'p> {
    /// A server whose functions these are.
    pub fn new(
        postgres: &'p Postgres,
        functions: &'static [(&'static str, usize)],
    ) -> PostgresSystem<'p> {
        PostgresSystem { postgres, functions }
    }
}

/// Appends a parameter's form and value; NULL has no value.
fn write_parameter(parameter: &Parameter<'_>) -> Result<(u16, Option<Vec<u8>>), String> {
    let (sql_type, value) = match parameter {
        Parameter::Scalar(sql_type, value) => (*sql_type, *value),
        Parameter::Array(array) => {
            let elements: Vec<String> = array.iter().map(|each| each.to_string()).collect();
            return Ok((TEXT, Some(format!("{{{}}}", elements.join(",")).into_bytes())));
        }
        Parameter::Table(_) => return Err("PostgreSQL takes no table".to_string()),
    };
    let narrow = |number: i64| i32::try_from(number).map(|number| number.to_be_bytes().to_vec());
    Ok(match (value, sql_type) {
        (Datum::Null, _) => (TEXT, None),
        (Datum::Int(number), SqlType::BigInt) => (BINARY, Some(number.to_be_bytes().to_vec())),
        (Datum::Int(number), _) => (BINARY, Some(narrow(number).map_err(|e| e.to_string())?)),
        (Datum::Text(text), _) => (TEXT, Some(text.as_bytes().to_vec())),
        (other, _) => (TEXT, Some(other.to_string().into_bytes())),
    })
}

/// The number of a row whose only column is a bigint; 0 of others, which are only counted.
fn number_of(row: &[u8]) -> i64 {
    let mut reader = reader(row);
    let one = reader.i16().ok() == Some(1) && reader.u32().ok() == Some(8);
    reader.u64().ok().filter(|_| one).map_or(0, |value| value as i64)
}

impl System for PostgresSystem<'_> {
    fn connect(&self) -> Result<TcpStream, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(self.postgres.address()).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut out = Vec::new();
        login(&mut out);
        for (name, count) in self.functions {
            let places: Vec<String> = (1..=*count).map(|place| format!("${place}")).collect();
            message(&mut out, b'P', |out| {
                text(out, name);
                text(out, &format!("SELECT * FROM {name}({})", places.join(", ")));
                out.extend_from_slice(&0u16.to_be_bytes());
            });
        }
        message(&mut out, b'S', |_| {});
        stream.write_all(&out).map_err(failed)?;
        // Ready after the login, and after the preparation.
        until_ready(&mut stream, &mut Vec::new(), 2, |_, _| Ok(())).map_err(failed)?;
        Ok(stream)
    }

    fn call(
        &self,
        procedure: &str,
        parameters: ParameterSet<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let values: Result<Vec<_>, String> = parameters
            .iter()
            .map(|each| each.map_err(|error| error.to_string()))
            .map(|each| write_parameter(&each?))
            .collect();
        let values = values?;
        let count = (values.len() as u16).to_be_bytes();
        message(out, b'B', |out| {
            text(out, "");
            text(out, procedure);
            out.extend_from_slice(&count);
            values.iter().for_each(|(form, _)| out.extend_from_slice(&form.to_be_bytes()));
            out.extend_from_slice(&count);
            for (_, value) in &values {
                match value {
                    None => out.extend_from_slice(&(-1i32).to_be_bytes()),
                    Some(bytes) => {
                        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                        out.extend_from_slice(bytes);
                    }
                }
            }
            for number in [1, BINARY] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        });
        message(out, b'E', |out| {
            text(out, "");
            out.extend_from_slice(&[0; 4]);
        });
        message(out, b'S', |_| {});
        Ok(())
    }

    fn answer(&self, input: &[u8], reply: &mut Reply) -> Result<Option<usize>, String> {
        let (mut at, mut numbers, mut error) = (0, Vec::new(), None);
        while let Some((kind, body)) = next_message(&input[at..]).map_err(|e| e.to_string())? {
            at += 5 + body.len();
            match kind {
                b'D' => numbers.push(number_of(body)),
                b'E' => error = Some(error_text(body)),
                b'Z' => {
                    match error {
                        None => reply.numbers(numbers.into_iter()),
                        Some(error) => fail(reply, &error),
                    }
                    return Ok(Some(at));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn fail(reply: &mut Reply, error: &str) {
    if error.starts_with(RAISED) {
        reply.fail(Status::UserAbort, error.to_string());
    } else if error.starts_with(VIOLATIONS) {
        reply.fail(Status::GracefulFailure, format!("CONSTRAINT VIOLATION: {error}"));
    } else {
        reply.fail(Status::GracefulFailure, error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::parameter::ParameterWriter;

    #[test]
    fn calls_carry_parameters_in_their_forms() {
        let mut parameters = ParameterWriter::default();
        parameters.integer(7).bigint(8).text("x");
        parameters.scalar(SqlType::Integer, Datum::Null);
        parameters.array(SqlType::Integer, &[Datum::Int(1), Datum::Int(2)]);
        let set = ParameterSet::new(parameters.bytes()).expect("parameters");
        let written: Vec<_> =
            set.iter().map(|each| write_parameter(&each.expect("sound")).expect("sound")).collect();
        let expected = [
            (BINARY, Some(vec![0, 0, 0, 7])),
            (BINARY, Some(vec![0, 0, 0, 0, 0, 0, 0, 8])),
            (TEXT, Some(b"x".to_vec())),
            (TEXT, None),
            (TEXT, Some(b"{1,2}".to_vec())),
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn rows_are_counted_and_numbers_read() {
        assert_eq!(number_of(&[0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2]), 2);
        assert_eq!(number_of(&[0, 2, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2]), 0);
        let mut line = String::new();
        copy_value(&mut line, &Datum::Text("a\tb\\"));
        copy_value(&mut line, &Datum::Null);
        assert_eq!(line, "a\\tb\\\\\\N");
    }
}
