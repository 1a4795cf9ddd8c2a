//! `lockstep bench lock-store`: its options, and the delays of its steps.

use super::common::{count, number, with_common};
use super::shown::OwnFigures;
use super::simple::choice;
use clap::{ArgMatches, Command};
use lockstep_bench::report::grouped;
use lockstep_bench::run::{RunOptions, RunResult};
use lockstep_workloads::Workload;
use lockstep_workloads::lock_store::{LockStore, SecondaryKey};
use serde_json::{Map, Value, json};

const WAYS: [&str; 3] = ["global-index", "find-then-lock", "one-transaction"];
/// The percentiles at which the delays of steps are published.
const PERCENTILES: [u32; 6] = [20, 40, 50, 60, 80, 90];

/// Its command line.
pub fn command() -> Command {
    let command = Command::new("lock-store")
        .about("Find a record by a secondary key and lock it, wait, write it and unlock it")
        .arg(choice(
            "secondary-key",
            &WAYS,
            "A global index; a read of all partitions, then a lock; or one transaction over all",
        ))
        .arg(number("records", "N", "100000", "Records"))
        .arg(number("content-bytes", "BYTES", "1000", "Bytes of a record's content"))
        .arg(number("rounds", "N", "5", "Locks and writes of a record before the next one"))
        .arg(number("think-min-us", "US", "1000", "The least time between a lock and its write"))
        .arg(number("think-max-us", "US", "5000", "The longest one"))
        .arg(number("lock-ms", "MS", "1000", "When a lock that is not given back expires"));
    with_common(command)
}

/// The records and how they are found.
///
/// # Errors
/// Options that do not go together.
pub fn workload(arguments: &ArgMatches) -> Result<LockStore, String> {
    let secondary_key = match arguments.get_one::<String>("secondary-key").map(String::as_str) {
        Some("find-then-lock") => SecondaryKey::FindThenLock,
        Some("one-transaction") => SecondaryKey::OneTransaction,
        _ => SecondaryKey::GlobalIndex,
    };
    let content_bytes = count(arguments, "content-bytes") as usize;
    let mut store = LockStore::new(count(arguments, "records"), content_bytes, secondary_key)?;
    store.rounds = count(arguments, "rounds") as u32;
    store.lock_ms = count(arguments, "lock-ms") as u32;
    store.think_us = (count(arguments, "think-min-us"), count(arguments, "think-max-us"));
    if store.think_us.0 > store.think_us.1 {
        let (least, longest) = store.think_us;
        return Err(format!("--think-min-us {least} is above --think-max-us {longest}"));
    }
    if u64::from(store.lock_ms) * 1000 <= store.think_us.1 {
        let (lock_ms, longest) = (store.lock_ms, store.think_us.1);
        return Err(format!(
            "--lock-ms {lock_ms} lets locks expire within --think-max-us {longest}: raise it"
        ));
    }
    Ok(store)
}

/// The delays of each step, and what became of locks.
pub fn delays(workload: &dyn Workload, _: &RunOptions, result: &RunResult) -> OwnFigures {
    let mut own = OwnFigures::default();
    let mut keys = Map::new();
    for kind in &result.figures.transactions {
        let at =
            |percentile: &u32| kind.latency_us.value_at_quantile(f64::from(*percentile) / 100.0);
        let shown: Vec<String> = PERCENTILES
            .iter()
            .map(|percentile| format!("p{percentile} {} us", grouped(at(percentile))))
            .collect();
        own.text.push_str(&format!("{:5}  {}\n", kind.name, shown.join("  ")));
        let values: Map<String, Value> = PERCENTILES
            .iter()
            .map(|percentile| (format!("p{percentile}"), json!(at(percentile))))
            .collect();
        keys.insert(kind.name.to_string(), Value::Object(values));
    }
    own.keys.insert("delays_us".to_string(), Value::Object(keys));
    let counts = workload.counters().iter().copied().zip(result.figures.counts.iter().copied());
    own.add_counts(counts);
    for (name, value) in workload.counters().iter().zip(&result.figures.counts) {
        own.keys.insert(name.replace(' ', "_"), json!(value));
    }
    own
}
