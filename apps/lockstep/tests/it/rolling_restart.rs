//! The hosts of a cluster are stopped on purpose and started again, one after the other, while
//! clients that follow the topology make calls: none fails, and none waits for a suspicion.

use super::cluster::{Cluster, shown, until};
use super::process::Host;
use super::{lockstep, text};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// After so long a host that is gone is found out; each host that stops is waited for as long.
const SUSPECT_AFTER: Duration = Duration::from_secs(2);
const OPTIONS: &str = "--kfactor 1 --sites 1 --option partitions_per_site=2 \
                       --option heartbeat_interval_ms=100 --option suspect_after_ms=2000 \
                       --option lease_ms=1500";
const ROWS: i64 = 60;
const SCHEMA: &str = "
    CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
    PARTITION TABLE t ON COLUMN id;
    CREATE PROCEDURE bump PARTITION ON TABLE t COLUMN id AS
        UPDATE t SET n = n + 1 WHERE id = ?;
    CREATE PROCEDURE bumpall AS UPDATE t SET n = n + 1 WHERE id < ?;";

/// What the clients share.
#[derive(Default)]
pub struct Load {
    is_over: AtomicBool,
    /// Where the hosts serve clients that lead partitions, as far as is known.
    leads: Mutex<Vec<String>>,
    bumps: AtomicI64,
    bumps_of_all: AtomicI64,
}

impl Load {
    /// Makes a table with rows at a host that leads, whose clients are about to call.
    pub fn at(host: &Host) -> Load {
        let mut connection = host.connect();
        connection.sql(SCHEMA).expect("it is made");
        for id in 0..ROWS {
            let insert = format!("INSERT INTO t VALUES ({id}, 0)");
            connection.sql(&insert).expect("it is inserted");
        }
        let load = Load::default();
        load.leads.lock().expect("it is free").push(host.address().to_string());
        load
    }

    /// Has clients call while something is done. How long the longest call took, and the sum that
    /// the rows have by then: no call fails.
    pub fn during(self, changes: impl FnOnce(&Load)) -> (Duration, i64) {
        let longest = std::thread::scope(|scope| {
            let load = &self;
            let _ends = Ends(load);
            scope.spawn(|| load.follow_topology());
            let call = |number| scope.spawn(move || load.call(number));
            let calls: Vec<_> = (0..4).map(call).collect();
            changes(load);
            load.go_on();
            load.is_over.store(true, Ordering::Relaxed);
            calls.into_iter().map(|calls| calls.join().expect("no call fails")).max()
        });
        let sum = self.bumps.into_inner() + self.bumps_of_all.into_inner() * ROWS;
        (longest.expect("there are clients"), sum)
    }

    /// Follows the topology, as clients do that subscribe to it.
    fn follow_topology(&self) {
        let mut connections: BTreeMap<String, Connection> = BTreeMap::new();
        let options = ConnectOptions::default();
        let mut selector = ParameterWriter::default();
        selector.text("CLUSTER");
        while !self.is_over.load(Ordering::Relaxed) {
            let leads = self.leads.lock().expect("no thread panicked").clone();
            for address in leads {
                if !connections.contains_key(&address) {
                    let Ok(connection) = Connection::connect(&address, &options) else { continue };
                    connections.insert(address.clone(), connection);
                }
                let connection = connections.get_mut(&address).expect("it was made");
                let shown = connection.call("@SystemInformation", &selector);
                let Ok(tables) = shown.and_then(|shown| shown.tables()) else {
                    connections.remove(&address);
                    continue;
                };
                let leads = |host: &Value| tables[2].rows.iter().any(|row| row[1] == *host);
                let hosts = tables[1].rows.iter().filter(|row| leads(&row[0]));
                let address = |row: &Vec<Value>| match &row[3] {
                    Value::Text(address) => address.to_string(),
                    other => panic!("a host has an address, not {other:?}"),
                };
                *self.leads.lock().expect("no thread panicked") = hosts.map(address).collect();
                break;
            }
        }
    }

    /// Makes calls at hosts that lead; the longest one.
    fn call(&self, number: i64) -> Duration {
        let mut connection: Option<(String, Connection)> = None;
        let (mut longest, mut calls) = (Duration::ZERO, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            let leads = self.leads.lock().expect("no thread panicked").clone();
            if connection.as_ref().is_none_or(|(address, _)| !leads.contains(address)) {
                let address = leads[number as usize % leads.len()].clone();
                let connected = Connection::connect(&address, &ConnectOptions::default());
                connection = Some((address, connected.expect("a host that leads serves")));
            }
            let (address, connected) = connection.as_mut().expect("it is connected");
            let mut parameters = ParameterWriter::default();
            let begun = Instant::now();
            let (procedure, counter) = match number {
                0 => ("bumpall", &self.bumps_of_all),
                _ => ("bump", &self.bumps),
            };
            parameters.bigint(if number == 0 { ROWS } else { (calls * 7 + number) % ROWS });
            let answer = connected.call(procedure, &parameters);
            let tables = answer.and_then(|answer| answer.tables());
            tables.unwrap_or_else(|error| panic!("{procedure} at {address}: {error}"));
            counter.fetch_add(1, Ordering::Relaxed);
            (longest, calls) = (longest.max(begun.elapsed()), calls + 1);
        }
        longest
    }

    /// Waits until calls of both kinds were made.
    pub fn go_on(&self) {
        for counter in [&self.bumps, &self.bumps_of_all] {
            let (before, deadline) = (counter.load(Ordering::Relaxed), Instant::now());
            while counter.load(Ordering::Relaxed) < before + 20 {
                assert!(deadline.elapsed() < Duration::from_secs(60), "calls are made");
                std::thread::yield_now();
            }
        }
    }
}

/// Ends the load, also where the test fails.
struct Ends<'l>(&'l Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn all_in_sync(it: &serde_json::Value) -> bool {
    let partitions = it["partitions"].as_array().expect("a list");
    let mut hosts = it["hosts"].as_array().expect("a list").iter();
    hosts.all(|host| host["state"] == "up")
        && partitions.iter().all(|it| it["followers"].as_array().map(Vec::len) == Some(1))
}

/// Stops a host by the host with the next number, and starts it again.
fn restart(cluster: &Cluster, hosts: &mut [Host], number: usize) {
    let other = (number + 1) % hosts.len();
    let admin = hosts[other].admin();
    let id = number.to_string();
    let stopped = lockstep(&["admin", "host", "stop", &id, "--server", &admin], "");
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert_eq!(text(&stopped.stdout).trim(), format!("host {number} is down"));
    let (is_well, said) = hosts[number].wait();
    assert!(is_well, "{said}");
    let now = shown(&hosts[other]);
    assert_eq!(now["state"], "running", "{now}");
    assert_ne!(now["coordinator"], number, "{now}");
    hosts[number] = cluster.spawn_in(number, &["--rejoin"]).ready();
    until(&hosts[other], "all copies are in sync", all_in_sync);
}

#[test]
fn a_rolling_restart_under_load_fails_no_call_and_none_waits_for_a_suspicion() {
    let cluster = Cluster::new(3, OPTIONS);
    let mut hosts = cluster.start();
    assert_eq!(shown(&hosts[0])["coordinator"], 0);
    let (longest, expected) = Load::at(&hosts[0]).during(|load| {
        for number in 0..3 {
            load.go_on();
            restart(&cluster, &mut hosts, number);
        }
    });
    println!("the longest call took {longest:?}");
    assert!(longest < SUSPECT_AFTER, "a call took {longest:?}");
    let sum = hosts[1].connect().sql("SELECT SUM(n) FROM t").expect("it is counted");
    assert_eq!(sum[0].rows, [[Value::Int(expected)]]);
}
