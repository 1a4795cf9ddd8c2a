//! Fills tables through the bulk path: rows are collected per table and partition, and go as
//! whole batches to the procedures that VoltDB's loaders call.

use lockstep_client::{
    Call, ConnectOptions, Connection, ConnectionIndex, ParameterWriter, Pipeline, Routing,
};
use lockstep_types::table::write_datum;
use lockstep_types::{Datum, SqlType, TableBuilder, TableSchema};
use lockstep_workloads::{RowSink, TableToFill};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rows of a batch.
const BATCH_ROWS: usize = 500;
/// Bytes of rows after which a batch goes, whatever the number of its rows.
const BATCH_BYTES: usize = 1 << 20;
/// Batches in flight.
const IN_FLIGHT: usize = 8;
/// A server that answers nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// One wait for answers.
const WAIT: Duration = Duration::from_millis(100);

/// How far the filling is.
#[derive(Debug, Clone, Copy)]
pub struct FillProgress {
    /// Rows that were sent.
    pub rows: u64,
    /// Rows in all.
    pub total: u64,
}

/// Rows of one partition of one table that were not sent yet.
#[derive(Default)]
struct Batch {
    rows: Vec<u8>,
    count: usize,
    /// The partitioning value of a row: names the partition to the server.
    key: Vec<u8>,
}

struct Table {
    shape: TableToFill,
    /// The table in wire form without rows.
    empty: Vec<u8>,
    /// By partition.
    batches: Vec<Batch>,
}

/// Sends rows to a server.
pub struct Filler<'p> {
    pipeline: Pipeline,
    routing: Routing,
    tables: Vec<Table>,
    row: Vec<u8>,
    whole: Vec<u8>,
    parameters: ParameterWriter,
    refused: Option<String>,
    rows: u64,
    total: u64,
    stop: &'p AtomicBool,
    progress: &'p mut dyn FnMut(FillProgress),
}

impl<'p> Filler<'p> {
    /// Connects and learns where partitions are. The filling fails when `stop` becomes true.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(
        server: &str,
        tables: Vec<TableToFill>,
        stop: &'p AtomicBool,
        progress: &'p mut dyn FnMut(FillProgress),
    ) -> Result<Filler<'p>, String> {
        let text = |error: lockstep_client::ClientError| error.to_string();
        let connect = ConnectOptions { max_in_flight: IN_FLIGHT, ..ConnectOptions::default() };
        let mut connection = Connection::connect(server, &connect).map_err(text)?;
        let mut routing = Routing::default();
        let mut parameters = ParameterWriter::default();
        parameters.text("TOPO").integer(0);
        let topology = connection.call("@Statistics", &parameters).map_err(text)?;
        routing.read_topology(&topology.view()).map_err(text)?;
        let mut pipeline = Pipeline::new(&connect).map_err(text)?;
        pipeline.connect(server).map_err(text)?;
        let total = tables.iter().map(|table| table.rows).sum();
        let table = |shape: TableToFill| {
            let mut empty = Vec::new();
            TableBuilder::begin(&mut empty, &TableSchema::new(&shape.columns)).finish();
            Table { shape, empty, batches: Vec::new() }
        };
        Ok(Filler {
            pipeline,
            routing,
            tables: tables.into_iter().map(table).collect(),
            row: Vec::new(),
            whole: Vec::new(),
            parameters,
            refused: None,
            rows: 0,
            total,
            stop,
            progress,
        })
    }

    /// Sends what is left and waits for all answers.
    ///
    /// # Errors
    /// The server refused rows or is lost.
    pub fn finish(mut self) -> Result<u64, String> {
        for table in 0..self.tables.len() {
            for partition in 0..self.tables[table].batches.len() {
                if self.tables[table].batches[partition].count > 0 {
                    self.send(table, partition)?;
                }
            }
        }
        self.wait_until(|in_flight| in_flight == 0)?;
        Ok(self.rows)
    }

    fn send(&mut self, table: usize, partition: usize) -> Result<(), String> {
        self.wait_until(|in_flight| in_flight < IN_FLIGHT)?;
        let Table { shape, empty, batches } = &mut self.tables[table];
        let batch = &mut batches[partition];
        let whole = &mut self.whole;
        whole.clear();
        whole.extend_from_slice(empty);
        let count_at = whole.len() - 4;
        whole[count_at..].copy_from_slice(&(batch.count as i32).to_be_bytes());
        whole.extend_from_slice(&batch.rows);
        // The table's length in front does not count itself.
        let length = (whole.len() - 4) as i32;
        whole[..4].copy_from_slice(&length.to_be_bytes());
        self.parameters.clear();
        let procedure = match shape.partitioned_by {
            None => "@LoadMultipartitionTable",
            Some(_) => {
                self.parameters.scalar(SqlType::Varbinary, Datum::Bytes(&batch.key));
                "@LoadSinglepartitionTable"
            }
        };
        self.parameters.text(shape.name).scalar(SqlType::TinyInt, Datum::Int(0)).table(whole);
        let call = Call::new(procedure, self.parameters.bytes(), Instant::now());
        self.pipeline.submit(ConnectionIndex(0), &call).map_err(|error| error.to_string())?;
        self.rows += batch.count as u64;
        batch.count = 0;
        batch.rows.clear();
        (self.progress)(FillProgress { rows: self.rows, total: self.total });
        self.wait_until(|_| true)
    }

    /// Takes answers until N calls are in flight.
    fn wait_until(&mut self, enough: impl Fn(usize) -> bool) -> Result<(), String> {
        let mut heard = Instant::now();
        let mut wait = Duration::ZERO;
        loop {
            let refused = &mut self.refused;
            let polled = self.pipeline.poll(wait, |completion, _| {
                let text = match completion.result {
                    Ok(response) if response.is_success() => return,
                    Ok(response) => response.status_text.unwrap_or("no text").to_string(),
                    Err(error) => error.to_string(),
                };
                refused.get_or_insert(text);
            });
            if polled.map_err(|error| error.to_string())? > 0 {
                heard = Instant::now();
            }
            if let Some(text) = &self.refused {
                return Err(format!("rows were refused: {text}"));
            }
            if enough(self.pipeline.in_flight()) {
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) {
                let (rows, total) = (self.rows, self.total);
                return Err(format!(
                    "interrupted while rows were loaded: {rows} of {total} were sent, and are there"
                ));
            }
            if heard.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(format!("the server has not answered for {seconds} s"));
            }
            wait = WAIT;
        }
    }
}

impl RowSink for Filler<'_> {
    fn row(&mut self, table: usize, values: &[Datum<'_>]) -> Result<(), String> {
        let Table { shape, batches, .. } = &mut self.tables[table];
        assert_eq!(values.len(), shape.columns.len(), "a value for each column of {}", shape.name);
        let (partition, key) = match shape.partitioned_by {
            None => (0, Datum::Null),
            Some(column) => {
                let key = values[column];
                (self.routing.partition_of(key).map_or(0, |place| place.index()), key)
            }
        };
        if batches.len() <= partition {
            batches.resize_with(partition + 1, Batch::default);
        }
        let batch = &mut batches[partition];
        if batch.count == 0 {
            batch.key.clear();
            match key {
                Datum::Int(number) => batch.key.extend_from_slice(&number.to_le_bytes()),
                Datum::Text(text) => batch.key.extend_from_slice(text.as_bytes()),
                _ => {}
            }
        }
        self.row.clear();
        for (value, (_, sql_type)) in values.iter().zip(&shape.columns) {
            write_datum(&mut self.row, *sql_type, *value);
        }
        batch.rows.extend_from_slice(&(self.row.len() as i32).to_be_bytes());
        batch.rows.extend_from_slice(&self.row);
        batch.count += 1;
        match batch.count >= BATCH_ROWS || batch.rows.len() >= BATCH_BYTES {
            true => self.send(table, partition),
            false => Ok(()),
        }
    }
}
