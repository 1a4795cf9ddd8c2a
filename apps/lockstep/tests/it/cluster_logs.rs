//! Several hosts as processes, each with a directory of its own: however all of them end,
//! everything that was answered is there after the next start of all.

use super::cluster::{Cluster, has_followers, shown, signal, until};
use super::crash::from_environment;
use super::directory::{Folder, refused};
use super::process::Host;
use super::{lockstep, text};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Times by which a busy machine suspects no host that runs.
const SLOW: &str = "--option heartbeat_interval_ms=100 --option suspect_after_ms=1500 \
                    --option lease_ms=1000";
const SCHEMA: &str =
    "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;
                      CREATE TABLE r (a BIGINT NOT NULL PRIMARY KEY);";

/// The directories of the hosts of a new cluster.
fn directories(name: &str, kfactor: &str) -> Vec<Folder> {
    let make = |number| {
        let folder = Folder::new(&format!("{name}-{number}"));
        let shape = ["--hosts", "3", "--kfactor", kfactor, "--sites", "2"];
        let words = [&["init", "--dir", folder.shown()], &shape[..]].concat();
        let made = lockstep(&words, "");
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert!(text(&made.stdout).contains("one of 3 hosts with 2 sites each"), "{made:?}");
        folder
    };
    (0..3).map(make).collect()
}

/// Starts every host in its directory.
fn start(cluster: &Cluster, folders: &[Folder]) -> Vec<Host> {
    let spawn =
        |(number, folder): (usize, &Folder)| cluster.spawn_in(number, &["--dir", folder.shown()]);
    let spawned: Vec<Host> = folders.iter().enumerate().map(spawn).collect();
    spawned.into_iter().map(Host::ready).collect()
}

fn keys(connection: &mut Connection, table: &str) -> BTreeSet<i64> {
    let tables = connection.sql(&format!("SELECT a FROM {table}")).expect("the query runs");
    let key = |row: &Vec<Value>| match row[0] {
        Value::Int(key) => key,
        ref other => panic!("{other:?}"),
    };
    tables[0].rows.iter().map(key).collect()
}

/// Inserts rows until a call fails; those that were answered are in `answered`.
fn insert(host: &Host, next: &AtomicI64, answered: &Mutex<BTreeSet<i64>>) {
    let mut connection = host.connect();
    loop {
        let a = next.fetch_add(1, Ordering::Relaxed);
        for procedure in ["T.insert", "R.insert"] {
            let mut parameters = ParameterWriter::default();
            parameters.bigint(a);
            let response = connection.call(procedure, &parameters);
            if response.and_then(|response| response.tables()).is_err() {
                return;
            }
        }
        answered.lock().expect("no client panicked").insert(a);
    }
}

/// Every host is killed under load, three times; then the cluster is shut down, and started again.
fn survives_kills(kfactor: &str) {
    let folders = directories(&format!("kills-{kfactor}"), kfactor);
    let cluster = Cluster::new(3, SLOW);
    let (next, answered) = (AtomicI64::new(0), Mutex::new(BTreeSet::new()));
    let so_far = || answered.lock().expect("no client panicked").len();
    for round in 0..3 {
        let mut hosts = start(&cluster, &folders);
        if round == 0 {
            hosts[1].connect().sql(SCHEMA).expect("it is made");
        }
        for host in &hosts {
            for table in ["t", "r"] {
                let found = keys(&mut host.connect(), table);
                let answered = answered.lock().expect("no client panicked");
                let lost: Vec<_> = answered.difference(&found).collect();
                assert!(lost.is_empty(), "{table}, round {round}: {lost:?}");
            }
        }
        let enough = so_far() + 150;
        std::thread::scope(|scope| {
            let pids: Vec<String> = hosts.iter().map(|host| host.child.id().to_string()).collect();
            for host in hosts.iter().chain(&hosts) {
                scope.spawn(|| insert(host, &next, &answered));
            }
            let deadline = Instant::now() + Duration::from_secs(60);
            while so_far() < enough {
                assert!(Instant::now() < deadline, "the rows are not inserted");
                std::thread::yield_now();
            }
            // All at once.
            let mut kill = std::process::Command::new("kill");
            assert!(kill.arg("-9").args(&pids).status().expect("kill runs").success());
        });
        hosts.iter_mut().for_each(Host::kill);
    }
    let mut hosts = start(&cluster, &folders);
    let all = keys(&mut hosts[2].connect(), "t");
    let stopped = lockstep(&["admin", "shutdown", "--server", &hosts[0].admin()], "");
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    for host in &mut hosts {
        let (is_well, said) = host.wait();
        assert!(is_well, "{said}");
    }
    let hosts = start(&cluster, &folders);
    assert_eq!(keys(&mut hosts[1].connect(), "t"), all);
    let state = shown(&hosts[0]);
    let down = state["hosts"].as_array().expect("a list").iter().find(|it| it["state"] != "up");
    assert!(down.is_none(), "a stop of all takes no host out: {state}");
}

#[test]
fn hosts_with_one_copy_that_are_killed_come_back_with_everything_that_was_answered() {
    survives_kills("0");
}

#[test]
fn hosts_with_copies_that_are_killed_come_back_with_everything_that_was_answered() {
    survives_kills("1");
}

/// Inserts rows at a host, also after calls have failed, until it is over.
fn insert_on(
    address: &str,
    (next, answered): (&AtomicI64, &Mutex<BTreeSet<i64>>),
    is_over: &AtomicBool,
) {
    while !is_over.load(Ordering::Relaxed) {
        let connected = Connection::connect(address, &ConnectOptions::default());
        let Ok(mut connection) = connected else { continue };
        while !is_over.load(Ordering::Relaxed) {
            let a = next.fetch_add(1, Ordering::Relaxed);
            let is_inserted = ["T.insert", "R.insert"].iter().all(|procedure| {
                let mut parameters = ParameterWriter::default();
                parameters.bigint(a);
                let response = connection.call(procedure, &parameters);
                response.and_then(|response| response.tables()).is_ok()
            });
            match is_inserted {
                true => drop(answered.lock().expect("no client panicked").insert(a)),
                false => break,
            }
        }
    }
}

/// Which of the rows that were answered a host lacks.
fn lost(host: &Host, answered: &Mutex<BTreeSet<i64>>) -> Vec<(&'static str, i64)> {
    let of_table = |table: &'static str| {
        // While leases run out calls may be refused.
        let deadline = Instant::now() + Duration::from_secs(60);
        let sql = format!("SELECT COUNT(*) FROM {table}");
        while host.connect().sql(&sql).is_err() {
            assert!(Instant::now() < deadline, "the host does not serve");
        }
        let found = keys(&mut host.connect(), table);
        let answered = answered.lock().expect("no client panicked");
        answered.difference(&found).map(|a| (table, *a)).collect::<Vec<_>>()
    };
    ["t", "r"].into_iter().flat_map(of_table).collect()
}

/// Each host in turn is killed under load, and started again with the same command: it is in sync
/// before the next one is killed, and nothing that was answered is lost.
#[test]
fn hosts_that_are_killed_under_load_come_back_while_the_others_serve() {
    let rounds = from_environment("REJOIN_ROUNDS", 3) as usize;
    let folders = directories("come-back", "1");
    let cluster = Cluster::new(3, SLOW);
    let (next, answered) = (AtomicI64::new(0), Mutex::new(BTreeSet::new()));
    let so_far = || answered.lock().expect("no client panicked").len();
    let mut hosts = start(&cluster, &folders);
    hosts[1].connect().sql(SCHEMA).expect("it is made");
    for round in 0..rounds {
        let victim = (round + 2) % 3;
        let others: Vec<usize> = (0..3).filter(|host| *host != victim).collect();
        let addresses = others.iter().map(|host| hosts[*host].address().to_string());
        let addresses: Vec<String> = addresses.collect();
        let is_over = AtomicBool::new(false);
        let await_rows = || {
            let (enough, deadline) = (so_far() + 50, Instant::now() + Duration::from_secs(60));
            while so_far() < enough {
                assert!(Instant::now() < deadline, "the rows are not inserted");
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for address in &addresses {
                scope.spawn(|| insert_on(address, (&next, &answered), &is_over));
            }
            await_rows();
            hosts[victim].kill();
            let back = cluster.spawn_in(victim, &["--dir", folders[victim].shown()]).ready();
            hosts[victim] = back;
            until(&hosts[others[0]], "all copies are in sync", |it| {
                it["hosts"][victim]["state"] == "up" && has_followers(it, 1)
            });
            await_rows();
            is_over.store(true, Ordering::Relaxed);
        });
        for host in &hosts {
            assert_eq!(lost(host, &answered), [], "round {round}");
        }
    }
    // All at once: what the hosts have loaded was durable.
    hosts.iter_mut().for_each(Host::kill);
    drop(hosts);
    let mut hosts = start(&cluster, &folders);
    for host in &hosts {
        assert_eq!(lost(host, &answered), []);
    }
    hosts[0].kill();
    assert_eq!(lost(&hosts[1], &answered), []);
}

#[test]
fn a_host_with_a_directory_that_stood_still_begins_again_and_is_in_sync() {
    let folders = directories("stood-still", "1");
    let cluster = Cluster::new(3, SLOW);
    let hosts = start(&cluster, &folders);
    hosts[0].connect().sql(SCHEMA).expect("it is made");
    signal(&hosts[1], "-STOP");
    until(&hosts[0], "the host is lost", |it| it["hosts"][1]["state"] == "down");
    let answered = Mutex::new(BTreeSet::new());
    let mut connection = hosts[0].connect();
    for a in 0..20 {
        connection.sql(&format!("INSERT INTO t VALUES ({a})")).expect("it is inserted");
        connection.sql(&format!("INSERT INTO r VALUES ({a})")).expect("it is inserted");
        answered.lock().expect("nobody panicked").insert(a);
    }
    signal(&hosts[1], "-CONT");
    until(&hosts[0], "all copies are in sync", |it| {
        it["hosts"][1]["state"] == "up" && has_followers(it, 1)
    });
    assert_eq!(lost(&hosts[1], &answered), []);
    drop(hosts);
    let hosts = start(&cluster, &folders);
    assert_eq!(lost(&hosts[1], &answered), []);
}

#[test]
fn directories_that_do_not_fit_are_refused_with_both_numbers() {
    let folder = &directories("refused", "1")[0];
    let odd = ["init", "--hosts", "3", "--kfactor", "1", "--sites", "1", "--dir"];
    let new = Folder::new("refused-odd");
    refused(&lockstep(&[&odd[..], &[new.shown()]].concat(), ""), &["2 sites per host"]);
    let start = |more: &[&str]| {
        let words = ["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dir"];
        lockstep(&[&words[..], &[folder.shown()], more].concat(), "")
    };
    refused(&start(&[]), &["one of 3 hosts", "--peers"]);
    let two = ["--internal", "127.0.0.1:4001", "--peers", "127.0.0.1:4001,127.0.0.1:4002"];
    refused(&start(&two), &["made for 3 hosts", "--peers names 2"]);
    let three = "127.0.0.1:4001,127.0.0.1:4002,127.0.0.1:4003";
    let of = ["--internal", "127.0.0.1:4001", "--peers", three];
    let with = |more: &[&str]| start(&[&of[..], more].concat());
    refused(&with(&["--kfactor", "0"]), &["1 as K", "started with 0"]);
    refused(&with(&["--sites", "4"]), &["2 sites", "started with 4"]);
    refused(&with(&["--durability", "none"]), &["--durability sync or async"]);
    let alone = Folder::made("refused-alone");
    let words = ["start", "--dir", alone.shown(), "--internal", "127.0.0.1:4001"];
    let joins = lockstep(&[&words[..], &["--peers", three]].concat(), "");
    refused(&joins, &["a host that is alone", "init --hosts 3"]);
}
