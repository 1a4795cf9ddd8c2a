//! Inserts as a load inside the sites' own threads, into a table with a global unique index whose
//! entries all live at another site than their rows, and into the same table without it.

use crate::inner_host;
use lockstep_client::{CallOptions, Connection, ParameterWriter, Response};
use lockstep_node::options::Options;
use lockstep_node::{Server, SiteLoad};
use lockstep_types::{Datum, HashRing, Value};
use lockstep_wire_volt::invocation;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// The table with the index, and the same without.
const SCHEMA: &str = "\
CREATE TABLE indexed (s_id BIGINT NOT NULL, sub_nbr VARCHAR(15) NOT NULL, location INTEGER,
  PRIMARY KEY (s_id));
PARTITION TABLE indexed ON COLUMN s_id;
CREATE GLOBAL UNIQUE INDEX sub_nbr_idx ON indexed (sub_nbr);
CREATE TABLE plain (s_id BIGINT NOT NULL, sub_nbr VARCHAR(15) NOT NULL, location INTEGER,
  PRIMARY KEY (s_id));
PARTITION TABLE plain ON COLUMN s_id;
";

/// What loads do, to be changed while they run.
#[derive(Debug, Default)]
pub struct Steering {
    /// They call.
    pub running: AtomicBool,
    /// Into the table with the index.
    pub indexed: AtomicBool,
}

/// Calls of one load.
#[derive(Debug, Default)]
pub struct Counts {
    /// Rows that were inserted.
    pub inserted: AtomicU64,
    /// Calls whose answer is awaited.
    pub in_flight: AtomicU64,
    /// Failures.
    pub errors: AtomicU64,
}

/// A host with both tables, whose sites make the load themselves.
pub struct InsertHost {
    server: Server,
    /// Changes what the loads do.
    pub steering: Arc<Steering>,
    /// Per site.
    pub counts: Vec<Arc<Counts>>,
}

impl InsertHost {
    /// Starts a host of two sites. The loads wait.
    ///
    /// # Errors
    /// What the system or the host refused.
    pub fn start(in_flight: usize, options: &Options) -> Result<InsertHost, String> {
        const SITES: u32 = 2;
        let steering = Arc::new(Steering::default());
        let counts: Vec<Arc<Counts>> = (0..SITES).map(|_| Arc::default()).collect();
        let load = |site: u32| -> Box<dyn SiteLoad> {
            let counts = Arc::clone(&counts[site as usize]);
            Box::new(InsertLoad::new(site, SITES, in_flight as u64, &steering, counts))
        };
        let server = inner_host::start((0..SITES).map(load).collect(), options)?;
        let host = InsertHost { server, steering, counts };
        host.connect()?.sql(SCHEMA).map_err(|error| error.to_string())?;
        Ok(host)
    }

    fn connect(&self) -> Result<Connection, String> {
        inner_host::connect(&self.server)
    }

    /// Rows that were inserted so far.
    pub fn inserted(&self) -> u64 {
        self.counts.iter().map(|counts| counts.inserted.load(Ordering::Relaxed)).sum()
    }

    /// True when no answer is awaited.
    pub fn is_quiet(&self) -> bool {
        self.counts.iter().all(|counts| counts.in_flight.load(Ordering::Acquire) == 0)
    }

    /// Checks, when it is quiet, that no call failed, and that the table has the rows that were
    /// inserted; with an index, that it has an entry for each, in another partition. Then empties
    /// the table.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check_and_empty(&self, indexed: bool, rows: u64) -> Result<(), String> {
        let errors: u64 = self.counts.iter().map(|c| c.errors.load(Ordering::Relaxed)).sum();
        if errors > 0 {
            return Err(format!("{errors} calls failed"));
        }
        let mut connection = self.connect()?;
        let mut count = |query: &str| -> Result<u64, String> {
            let tables = connection.sql(query).map_err(|error| error.to_string())?;
            match tables.first().and_then(|table| table.rows.first()?.first().cloned()) {
                Some(Value::Int(number)) => Ok(number as u64),
                other => Err(format!("{query}: {other:?} is no number")),
            }
        };
        let table = if indexed { "indexed" } else { "plain" };
        let held = count(&format!("SELECT COUNT(*) FROM {table}"))?;
        if held != rows {
            return Err(format!("{table} has {held} rows, not {rows}"));
        }
        if indexed {
            let entries = count("SELECT COUNT(*) FROM \"SUB_NBR_IDX#ENTRIES\"")?;
            if entries != rows {
                return Err(format!("the index has {entries} entries, not {rows}"));
            }
        }
        connection.sql(&format!("TRUNCATE TABLE {table}")).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// The load of one site.
struct InsertLoad {
    ring: HashRing,
    /// The last row's number, and the last key; the next are `step` more, so that no two loads
    /// make the same.
    last_row: i64,
    last_key: i64,
    step: i64,
    /// Per partition, keys that live there and wait for a row of the other one.
    keys: [VecDeque<i64>; 2],
    text: String,
    most_in_flight: u64,
    steering: Arc<Steering>,
    counts: Arc<Counts>,
    writer: ParameterWriter,
}

impl InsertLoad {
    fn new(
        site: u32,
        sites: u32,
        most_in_flight: u64,
        steering: &Arc<Steering>,
        counts: Arc<Counts>,
    ) -> InsertLoad {
        InsertLoad {
            ring: HashRing::new(sites),
            last_row: i64::from(site),
            last_key: i64::from(site),
            step: i64::from(sites),
            keys: Default::default(),
            text: String::new(),
            most_in_flight,
            steering: Arc::clone(steering),
            counts,
            writer: ParameterWriter::default(),
        }
    }

    /// The next row's number; `text` is its key, which lives at the other partition.
    fn draw(&mut self) -> i64 {
        self.last_row += self.step;
        let row_at = self.ring.partition_of(Datum::Int(self.last_row)).index();
        let key = loop {
            if let Some(key) = self.keys[1 - row_at].pop_front() {
                break key;
            }
            self.last_key += self.step;
            self.write_key(self.last_key);
            let key_at = self.ring.partition_of(Datum::Text(&self.text)).index();
            self.keys[key_at].push_back(self.last_key);
        };
        self.write_key(key);
        self.last_row
    }

    fn write_key(&mut self, key: i64) {
        self.text.clear();
        // A string takes what is written to it.
        let _ = write!(self.text, "{key:015}");
    }
}

impl SiteLoad for InsertLoad {
    fn wants_to_call(&mut self) -> bool {
        self.counts.in_flight.load(Ordering::Relaxed) < self.most_in_flight
            && self.steering.running.load(Ordering::Relaxed)
    }

    fn next_call(&mut self, frame: &mut Vec<u8>) {
        // The counters have one writer.
        let in_flight = self.counts.in_flight.load(Ordering::Relaxed);
        self.counts.in_flight.store(in_flight + 1, Ordering::Relaxed);
        let id = self.draw();
        self.writer.clear();
        self.writer.bigint(id).text(&self.text).integer((id % 1000) as i32);
        let procedure = match self.steering.indexed.load(Ordering::Relaxed) {
            true => "INDEXED.insert",
            false => "PLAIN.insert",
        };
        let options = CallOptions::default();
        invocation::encode(frame, procedure, id, &options, self.writer.bytes());
    }

    fn answered(&mut self, frame: &[u8]) {
        let response = frame.get(LENGTH_BYTES..).map(Response::decode);
        let succeeded = matches!(&response, Some(Ok(response)) if response.is_success());
        let counter = if succeeded { &self.counts.inserted } else { &self.counts.errors };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let in_flight = self.counts.in_flight.load(Ordering::Relaxed);
        self.counts.in_flight.store(in_flight - 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn rows_and_entries_are_as_many_as_the_loads_say() {
        let host = InsertHost::start(16, &Options::default()).expect("the host starts");
        for indexed in [true, false, true] {
            let before = host.inserted();
            host.steering.indexed.store(indexed, Ordering::Relaxed);
            host.steering.running.store(true, Ordering::Relaxed);
            let start = Instant::now();
            while host.inserted() < before + 500 {
                assert!(start.elapsed() < Duration::from_secs(20), "the loads insert");
                std::thread::yield_now();
            }
            host.steering.running.store(false, Ordering::Relaxed);
            while !host.is_quiet() {
                assert!(start.elapsed() < Duration::from_secs(20), "the loads end");
                std::thread::yield_now();
            }
            let rows = host.inserted() - before;
            assert!(host.check_and_empty(indexed, rows + 1).is_err());
            host.check_and_empty(indexed, rows).expect("it is right");
        }
    }

    #[test]
    fn keys_live_at_the_other_partition_and_come_once() {
        let steering = Arc::default();
        let mut seen = std::collections::BTreeSet::new();
        for site in 0..2 {
            let mut load = InsertLoad::new(site, 2, 1, &steering, Arc::default());
            for _ in 0..1000 {
                let id = load.draw();
                let row_at = load.ring.partition_of(Datum::Int(id));
                assert_ne!(row_at, load.ring.partition_of(Datum::Text(&load.text)));
                assert!(seen.insert((0, id.to_string())));
                assert!(seen.insert((1, load.text.clone())));
            }
        }
    }
}
