//! A log of procedures in Java, at one partition and at two, is replayed: each call counts the
//! rows of its slot before it adds one, so that a count which visits rows makes replay quadratic.

use crate::Plan;
use crate::host::{self, Host, HostOptions};
use lockstep_bench::driver::{DriverOptions, Verdict, Workload, drive};
use lockstep_bench::java::workloads_jar;
use lockstep_client::{Connection, ParameterWriter, Response};
use lockstep_types::{Datum, HashRing, SqlType, Value};
use std::time::Duration;

/// Partitions of the host.
pub const SITES: u32 = 2;
/// Of ten calls, how many are of two partitions.
const BOTH_OF_TEN: i64 = 2;
/// Each call of such a number is rolled back by its procedure.
const ABORT_EVERY: i64 = 9;
/// Connections, and calls in flight on each.
const IN_FLIGHT: (usize, usize) = (8, 16);
/// The load goes on in pieces of this length until there are enough calls.
const PIECE: Duration = Duration::from_millis(500);

const SCHEMA: &str = "\
CREATE TABLE kept (slot BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (slot, n));
PARTITION TABLE kept ON COLUMN slot;
CREATE TABLE kept_both (slot BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (slot, n));
PARTITION TABLE kept_both ON COLUMN slot;
CREATE PROCEDURE PARTITION ON TABLE kept COLUMN slot FROM CLASS kept.Keep;
CREATE PROCEDURE FROM CLASS kept.KeepBoth;";

/// What a replay came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct MixedReplay {
    /// Entries that ran again, at both partitions.
    pub entries: f64,
    /// Seconds of reading the log and of replay by the clock, all on one core.
    pub seconds: f64,
    /// Processor time of the host from its start until it served, that of the JVM included.
    pub cpu_s: f64,
}

/// The calls, and what is to be there after them.
struct MixedLoad {
    /// A slot of each partition.
    slots: Vec<i64>,
    calls: i64,
    writer: ParameterWriter,
    /// Calls that were answered: with success, and rolled back as they were to be.
    good: i64,
    rolled_back: i64,
}

impl MixedLoad {
    fn new() -> MixedLoad {
        let ring = HashRing::new(SITES);
        let of = |partition| {
            let is_there = |slot: &i64| ring.partition_of(Datum::Int(*slot)).0 == partition;
            (0..).find(is_there).unwrap_or_default()
        };
        let slots = (0..SITES).map(of).collect();
        MixedLoad { slots, calls: 0, writer: ParameterWriter::default(), good: 0, rolled_back: 0 }
    }
}

impl Workload for MixedLoad {
    fn next_call(&mut self, _: usize, parameters: &mut Vec<u8>) -> &'static str {
        self.calls += 1;
        self.writer.clear();
        let is_both = self.calls % 10 < BOTH_OF_TEN;
        match is_both {
            true => self.slots.iter().for_each(|slot| {
                self.writer.bigint(*slot);
            }),
            false => {
                self.writer.bigint(self.slots[(self.calls % 2) as usize]);
            }
        }
        self.writer.bigint(self.calls);
        parameters.extend_from_slice(self.writer.bytes());
        if is_both { "KeepBoth" } else { "Keep" }
    }

    fn completed(&mut self, response: &Response<'_>, _: bool) -> Verdict {
        let is_rolled_back = response.status_text.is_some_and(|text| text.contains("rolled back"));
        self.good += i64::from(response.is_success());
        self.rolled_back += i64::from(is_rolled_back);
        if response.is_success() || is_rolled_back { Verdict::Good } else { Verdict::Error }
    }
}

/// Makes the log, stops the host hard, and starts it again, all on the core of the servers.
///
/// # Errors
/// There are no classes, a host does not start, a call fails, or a row is missing.
pub fn replay(plan: &Plan) -> Result<MixedReplay, String> {
    let directory = plan.folder.join("mixed");
    host::init(plan, &directory, SITES)?;
    let given = HostOptions::pinned(Some(&directory));
    // Its own snapshots would give the log up.
    let options = HostOptions { schedule: false, ..given };
    let host = Host::start_with(plan, &options)?;
    let load = make_log(plan, &host)?;
    drop(host);
    let host = Host::start_with(plan, &options)?;
    let cpu_s = host.process().cpu_time().map_err(|error| error.to_string())?.as_secs_f64();
    let seconds = (host.recovery_number("/survey_us")? + host.recovery_number("/replay_us")?) / 1e6;
    let entries = host.recovery_number("/replayed")?;
    let mut connection = host.connect()?;
    check(&mut connection, &load)?;
    drop((connection, host));
    host::remove(&directory)?;
    Ok(MixedReplay { entries, seconds, cpu_s })
}

/// Loads the classes and makes the calls.
fn make_log(plan: &Plan, host: &Host) -> Result<MixedLoad, String> {
    let jar = workloads_jar();
    if jar.is_empty() {
        return Err("this program was built without a JDK: leave mixed-replay out".to_string());
    }
    let mut connection = host.connect()?;
    let mut parameters = ParameterWriter::default();
    parameters.scalar(SqlType::Varbinary, Datum::Bytes(jar));
    parameters.scalar(SqlType::Varchar, Datum::Null);
    connection.call("@UpdateClasses", &parameters).map_err(|error| error.to_string())?;
    connection.sql(SCHEMA).map_err(|error| error.to_string())?;
    let mut load = MixedLoad::new();
    let (connections, pipeline) = IN_FLIGHT;
    let options = DriverOptions {
        servers: vec![host.address()],
        connections,
        pipeline,
        rate_per_s: None,
        duration: PIECE,
        warmup: Duration::ZERO,
        keep_calls: false,
        never_sleeps: false,
    };
    while load.calls < plan.mixed_calls as i64 {
        let measured = drive(&options, &mut load, &mut |_| {}).map_err(|e| e.to_string())?;
        if let Some(error) = measured.first_error {
            return Err(format!("{} calls failed, the first: {error}", measured.errors));
        }
    }
    match load.good + load.rolled_back == load.calls {
        true => Ok(load),
        false => Err(format!("{} of {} calls were answered", load.good, load.calls)),
    }
}

/// The rows that calls left, and no others, are there.
fn check(connection: &mut Connection, load: &MixedLoad) -> Result<(), String> {
    let mut count = |table: &str| -> Result<i64, String> {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let tables = connection.sql(&sql).map_err(|error| error.to_string())?;
        match tables.first().and_then(|table| table.rows.first()?.first()) {
            Some(Value::Int(rows)) => Ok(*rows),
            other => Err(format!("{sql}: {other:?}")),
        }
    };
    let stays = |n: &i64| n % ABORT_EVERY != 0;
    let (both, one): (Vec<i64>, Vec<i64>) =
        (1..=load.calls).filter(stays).partition(|n| n % 10 < BOTH_OF_TEN);
    let expected = (one.len() as i64, both.len() as i64 * i64::from(SITES));
    let found = (count("kept")?, count("kept_both")?);
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found:?} rows are there behind replay, not {expected:?}")),
    }
}
