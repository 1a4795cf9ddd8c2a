//! Subscribers as a load inside the sites' own threads: rows are read and changed by their
//! partitioning key or by their number, which a global unique index finds.

use crate::inner_host;
use lockstep_base::random::SeededRandom;
use lockstep_client::{CallOptions, ParameterWriter, Response};
use lockstep_node::options::Options;
use lockstep_node::{Server, SiteLoad};
use lockstep_types::{Datum, HashRing, Value};
use lockstep_wire_volt::invocation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;
/// Rows of one INSERT while the table is filled.
const ROWS_AT_ONCE: i64 = 500;

/// The same two things done at a row, which is found by either key; `$TYPE` is the number's.
const SCHEMA: &str = "\
CREATE TABLE subscriber (
  s_id BIGINT NOT NULL, sub_nbr $TYPE NOT NULL, changes BIGINT NOT NULL, PRIMARY KEY (s_id)
);
PARTITION TABLE subscriber ON COLUMN s_id;
CREATE GLOBAL UNIQUE INDEX sub_nbr_idx ON subscriber (sub_nbr);
CREATE PROCEDURE ReadById PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0 AS
  SELECT s_id, changes FROM subscriber WHERE s_id = ?;
CREATE PROCEDURE ChangeById PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0 AS
  UPDATE subscriber SET changes = changes + 1 WHERE s_id = ?;
CREATE PROCEDURE ReadByNumber
  PARTITION ON TABLE subscriber COLUMN s_id VIA GLOBAL INDEX sub_nbr_idx PARAMETER 0 AS
  SELECT s_id, changes FROM subscriber WHERE sub_nbr = ?;
CREATE PROCEDURE ChangeByNumber
  PARTITION ON TABLE subscriber COLUMN s_id VIA GLOBAL INDEX sub_nbr_idx PARAMETER 0 AS
  UPDATE subscriber SET changes = changes + 1 WHERE sub_nbr = ?;
";

/// What loads do, to be changed while they run.
#[derive(Debug, Default)]
pub struct Steering {
    /// They call.
    pub running: AtomicBool,
    /// Of a thousand calls, how many find their row by its number.
    pub by_number_per_mille: AtomicU64,
}

/// Calls that were answered to one load.
#[derive(Debug, Default)]
pub struct Counts {
    /// By the partitioning key.
    pub by_id: AtomicU64,
    /// By the number.
    pub by_number: AtomicU64,
    /// Those that changed their row.
    pub changes: AtomicU64,
    /// Calls that failed, or found no row.
    pub errors: AtomicU64,
}

/// What a host is made for.
#[derive(Debug, Clone)]
pub struct AlternateKeyShape {
    /// Its sites, one on each core from the first, as far as there are cores.
    pub sites: u32,
    /// Subscribers in all.
    pub subscribers: i64,
    /// Of a thousand numbers, how many have their entry at another partition than their row.
    pub elsewhere_per_mille: i64,
    /// Numbers are texts of 15 digits, not integers as the partitioning key is.
    pub texts: bool,
    /// Calls in flight at each site.
    pub in_flight: usize,
    /// Its options.
    pub options: Options,
}

/// A subscriber's number.
enum Number {
    Integer(i64),
    Text(String),
}

impl Number {
    fn datum(&self) -> Datum<'_> {
        match self {
            Number::Integer(number) => Datum::Int(*number),
            Number::Text(text) => Datum::Text(text),
        }
    }

    fn literal(&self) -> String {
        match self {
            Number::Integer(number) => number.to_string(),
            Number::Text(text) => format!("'{text}'"),
        }
    }
}

/// A host with subscribers in it, whose sites make the load themselves.
pub struct AlternateKeyHost {
    server: Server,
    ring: HashRing,
    /// Changes what the loads do.
    pub steering: Arc<Steering>,
    /// Per site.
    pub counts: Vec<Arc<Counts>>,
}

impl AlternateKeyHost {
    /// Starts the host and fills its table. The loads wait.
    ///
    /// # Errors
    /// What the system or the host refused.
    pub fn start(shape: &AlternateKeyShape) -> Result<AlternateKeyHost, String> {
        let steering = Arc::new(Steering::default());
        let counts: Vec<Arc<Counts>> = (0..shape.sites).map(|_| Arc::default()).collect();
        let ring = HashRing::new(shape.sites);
        let numbers: Arc<[Number]> = numbers(shape, &ring).into();
        let load = |site: u32| -> Box<dyn SiteLoad> {
            Box::new(AlternateKeyLoad {
                random: SeededRandom::new(u64::from(site) + 1),
                numbers: Arc::clone(&numbers),
                steering: Arc::clone(&steering),
                counts: Arc::clone(&counts[site as usize]),
                in_flight: 0,
                most_in_flight: shape.in_flight,
                writer: ParameterWriter::default(),
                found_bytes: 0,
            })
        };
        let server = inner_host::start((0..shape.sites).map(load).collect(), &shape.options)?;
        let host = AlternateKeyHost { server, ring, steering, counts };
        host.fill(&numbers, if shape.texts { "VARCHAR(15)" } else { "BIGINT" })?;
        Ok(host)
    }

    fn fill(&self, numbers: &[Number], key_type: &str) -> Result<(), String> {
        let mut connection = inner_host::connect(&self.server)?;
        connection.sql(&SCHEMA.replace("$TYPE", key_type)).map_err(|error| error.to_string())?;
        let row = |(id, number): (usize, &Number)| format!("({id}, {}, 0)", number.literal());
        let rows: Vec<String> = numbers.iter().enumerate().map(row).collect();
        for rows in rows.chunks(ROWS_AT_ONCE as usize) {
            let insert = format!("INSERT INTO subscriber VALUES {};", rows.join(", "));
            connection.sql(&insert).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The share of the index's entries, as the host has them, that are at another partition than
    /// their row.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub fn share_elsewhere(&self) -> Result<f64, String> {
        let entries = "SELECT sub_nbr, s_id FROM \"SUB_NBR_IDX#ENTRIES\";";
        let tables =
            inner_host::connect(&self.server)?.sql(entries).map_err(|error| error.to_string())?;
        let rows = &tables.first().ok_or("no table came back")?.rows;
        let elsewhere = |row: &&Vec<Value>| {
            let place = |column: usize| self.ring.partition_of(row[column].as_datum());
            place(0) != place(1)
        };
        Ok(rows.iter().filter(elsewhere).count() as f64 / rows.len().max(1) as f64)
    }

    /// Checks, when nothing is in flight, that no call failed or found no row, and that rows have
    /// changed as often as calls said.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let sum = |count: fn(&Counts) -> &AtomicU64| -> u64 {
            self.counts.iter().map(|counts| count(counts).load(Ordering::Relaxed)).sum()
        };
        let errors = sum(|counts| &counts.errors);
        if errors > 0 {
            return Err(format!("{errors} calls failed or found no row"));
        }
        let expected = sum(|counts| &counts.changes) as i64;
        let tables = inner_host::connect(&self.server)?.sql("SELECT SUM(changes) FROM subscriber;");
        let tables = tables.map_err(|error| error.to_string())?;
        let held = tables.first().and_then(|table| table.rows.first()?.first()).cloned();
        match held {
            Some(Value::Int(held)) if held == expected => Ok(()),
            held => Err(format!("rows have changed {held:?} times, calls say {expected}")),
        }
    }

    /// Answered calls, by either key.
    pub fn calls(&self) -> u64 {
        let both = |counts: &Arc<Counts>| {
            counts.by_id.load(Ordering::Relaxed) + counts.by_number.load(Ordering::Relaxed)
        };
        self.counts.iter().map(both).sum()
    }
}

/// A number for each subscriber, N of them with their entry elsewhere.
fn numbers(shape: &AlternateKeyShape, ring: &HashRing) -> Vec<Number> {
    let number = |id: i64| {
        let elsewhere = shape.sites > 1 && id % 1000 < shape.elsewhere_per_mille;
        let place = ring.partition_of(Datum::Int(id));
        let mut candidates = (0..1000).map(|attempt| match shape.texts {
            true => Number::Text(format!("{:015}", id * 1000 + attempt)),
            false => Number::Integer(id * 1000 + attempt),
        });
        let fits = |number: &Number| (ring.partition_of(number.datum()) != place) == elsewhere;
        candidates.find(fits).expect("a thousand values hash to all partitions")
    };
    (0..shape.subscribers).map(number).collect()
}

/// The load of one site.
struct AlternateKeyLoad {
    random: SeededRandom,
    /// Per subscriber.
    numbers: Arc<[Number]>,
    steering: Arc<Steering>,
    counts: Arc<Counts>,
    in_flight: usize,
    most_in_flight: usize,
    writer: ParameterWriter,
    /// Bytes of an answer with a row.
    found_bytes: usize,
}

impl AlternateKeyLoad {
    /// Whether a read found its row: answers with a row are all of one length, so that only one
    /// has to be read.
    fn found_row(&mut self, response: &Response<'_>, frame_bytes: usize) -> bool {
        if self.found_bytes == 0 {
            let table = response.tables().next();
            if !table.is_some_and(|table| table.is_ok_and(|table| table.row_count() == 1)) {
                return false;
            }
            self.found_bytes = frame_bytes;
        }
        frame_bytes == self.found_bytes
    }
}

/// The handle of a call says what it is.
const BY_NUMBER: i64 = 1;
const CHANGES: i64 = 2;

/// By handle.
const PROCEDURES: [&str; 4] = ["ReadById", "ReadByNumber", "ChangeById", "ChangeByNumber"];

impl SiteLoad for AlternateKeyLoad {
    fn wants_to_call(&mut self) -> bool {
        self.in_flight < self.most_in_flight && self.steering.running.load(Ordering::Relaxed)
    }

    fn next_call(&mut self, frame: &mut Vec<u8>) {
        self.in_flight += 1;
        let share = self.steering.by_number_per_mille.load(Ordering::Relaxed);
        let subscriber = self.random.below(self.numbers.len() as u64) as usize;
        let mut handle = if self.random.below(1000) < share { BY_NUMBER } else { 0 };
        self.writer.clear();
        match (handle, &self.numbers[subscriber]) {
            (BY_NUMBER, Number::Integer(number)) => self.writer.bigint(*number),
            (BY_NUMBER, Number::Text(text)) => self.writer.text(text),
            _ => self.writer.bigint(subscriber as i64),
        };
        handle |= if self.random.chance(1, 2) { CHANGES } else { 0 };
        let procedure = PROCEDURES[handle as usize];
        let options = CallOptions::default();
        invocation::encode(frame, procedure, handle, &options, self.writer.bytes());
    }

    fn answered(&mut self, frame: &[u8]) {
        self.in_flight -= 1;
        // The counters have one writer.
        let add = |counter: &AtomicU64| {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        let Some(Ok(response)) = frame.get(LENGTH_BYTES..).map(Response::decode) else {
            return add(&self.counts.errors);
        };
        let changes = response.client_handle & CHANGES != 0;
        if !response.is_success() || (!changes && !self.found_row(&response, frame.len())) {
            return add(&self.counts.errors);
        }
        match response.client_handle & BY_NUMBER {
            0 => add(&self.counts.by_id),
            _ => add(&self.counts.by_number),
        }
        if changes {
            add(&self.counts.changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn rows_are_found_by_both_keys_and_entries_live_where_the_shape_says() {
        [false, true].into_iter().for_each(check_host);
    }

    fn check_host(texts: bool) {
        let shape = AlternateKeyShape {
            sites: 2,
            subscribers: 1000,
            elsewhere_per_mille: 800,
            texts,
            in_flight: 16,
            options: Options::default(),
        };
        let host = AlternateKeyHost::start(&shape).expect("the host starts");
        assert_eq!(host.share_elsewhere(), Ok(0.8));
        host.steering.by_number_per_mille.store(500, Ordering::Relaxed);
        host.steering.running.store(true, Ordering::Relaxed);
        let by_number = |counts: &Arc<Counts>| counts.by_number.load(Ordering::Relaxed);
        until("both sites call", || {
            host.calls() > 2000 && host.counts.iter().all(|counts| by_number(counts) > 300)
        });
        host.steering.running.store(false, Ordering::Relaxed);
        until("the changes are all there", || host.check().is_ok());
        let changes = &host.counts[0].changes;
        changes.store(changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        assert!(host.check().is_err());
    }
}
