//! Hosts of one process with copies of partitions: what was answered stays when a host is lost,
//! whichever it is, and the others go on with everything that one does for all.

use crate::support::{Peer, configuration, eventually};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};
use lockstep_workloads::bank;
use std::time::{Duration, Instant};

const ACCOUNTS: i64 = 30;

/// Hosts of which a busy machine suspects none that runs.
const SLOW: [&str; 4] = [
    "heartbeat_interval_ms=200",
    "suspect_after_ms=5000",
    "lease_ms=1000",
    "cluster_start_timeout_ms=60000",
];

/// Starts a cluster of three hosts with two sites each and two copies of each partition, with a
/// client at each host.
fn cluster(options: &[&str]) -> (Vec<Option<Server>>, Vec<Option<Peer>>) {
    let options = [&SLOW, options].concat();
    let members = local_cluster::members(3, 1, || configuration(2, &options, None));
    let started = local_cluster::start(members.expect("there are free ports"));
    let servers = started.into_iter().collect::<std::io::Result<Vec<Server>>>();
    let servers = servers.expect("the cluster is formed");
    let peers = servers.iter().map(|server| Some(Peer::login(server.client_address())));
    let peers = peers.collect();
    (servers.into_iter().map(Some).collect(), peers)
}

fn lose(host: usize, servers: &mut [Option<Server>], peers: &mut [Option<Peer>]) {
    peers[host] = None;
    drop(servers[host].take());
}

/// The partitions as a host shows them: number, leader, followers, epoch.
fn partitions(peer: &mut Peer) -> Vec<Vec<String>> {
    let rows = peer.call("@SystemInformation", &[Text("CLUSTER")]).rows;
    let table = rows.split(';').nth(2).expect("three tables");
    table.lines().map(|line| line.split(',').map(str::to_string).collect()).collect()
}

/// A call that is repeated while the loss of a host is not known.
fn until_done(
    peer: &mut Peer,
    procedure: &str,
    parameters: &[lockstep_types::Datum<'_>],
) -> String {
    let mut rows = String::new();
    eventually("the others go on", || {
        let answer = peer.call(procedure, parameters);
        rows.clone_from(&answer.rows);
        answer.status == 1
    });
    rows
}

#[test]
fn what_was_answered_stays_whichever_host_is_lost() {
    for lost in 0..3 {
        let (mut servers, mut peers) = cluster(&[]);
        let first = peers[1].as_mut().expect("it runs");
        first.run(bank::SCHEMA);
        first.run(bank::NATIVE_SCHEMA);
        first.run("CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, n BIGINT)");
        for account in 0..ACCOUNTS {
            let peer = peers[account as usize % 3].as_mut().expect("it runs");
            assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
            assert_eq!(peer.call("R.insert", &[Int(account), Int(1)]).status, 1);
            let to = (account + 7) % (account + 1);
            let _ = peer.call("TransferAnywhere", &[Int(account), Int(to), Int(5)]);
        }
        lose(lost, &mut servers, &mut peers);
        for (number, peer) in peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            let total = until_done(peer, "Total", &[]);
            let sum = format!("{},", ACCOUNTS * 100);
            assert!(total.starts_with(&sum), "without host {lost}: {total}");
            let count = format!("SELECT COUNT(*) FROM r WHERE id < {ACCOUNTS}");
            assert_eq!(peer.run(&count), ACCOUNTS.to_string());
            for account in 0..ACCOUNTS {
                let to = (account + 1) % ACCOUNTS;
                let answer = peer.call("Transfer", &[Int(account), Int(to), Int(1)]);
                assert_eq!(answer.status, 1, "{answer:?}");
            }
            let key = 1000 + number as i64;
            assert_eq!(peer.call("ACCOUNTS.insert", &[Int(key), Int(0)]).status, 1);
            assert_eq!(peer.call("R.insert", &[Int(key), Int(1)]).status, 1);
            peer.run(&format!("CREATE TABLE later{number} (id BIGINT NOT NULL PRIMARY KEY)"));
            peer.run(&format!("PARTITION TABLE later{number} ON COLUMN id"));
            peer.run(&format!("INSERT INTO later{number} VALUES (7)"));
        }
        let left = peers.iter_mut().flatten().last().expect("two are left");
        assert_eq!(left.call("Total", &[]).rows, format!("{},{}", ACCOUNTS * 100, ACCOUNTS + 2));
    }
}

/// Threads that lead no partition know a new catalog as soon as its change is answered.
#[test]
fn every_connection_finds_what_a_change_made_that_is_answered() {
    let (servers, mut peers) = cluster(&[]);
    let address = |host: usize| servers[host].as_ref().expect("it runs").client_address();
    // Connections go to the sites of a host in turn.
    let mut others: Vec<Peer> = (0..12).map(|number| Peer::login(address(number % 3))).collect();
    let changer = peers[2].as_mut().expect("it runs");
    for number in 0..15 {
        changer.run(&format!(
            "CREATE TABLE t{number} (id BIGINT NOT NULL PRIMARY KEY);
             PARTITION TABLE t{number} ON COLUMN id;"
        ));
        for (id, peer) in others.iter_mut().enumerate() {
            let answer = peer.call(&format!("T{number}.insert"), &[Int(id as i64)]);
            assert_eq!(answer.status, 1, "{answer:?}");
        }
    }
}

#[test]
fn a_copy_that_differs_is_put_out_of_service_and_loaded_again_while_the_rest_goes_on() {
    let (mut servers, mut peers) = cluster(&["reload_copies_after_ms=4000"]);
    let peer = peers[0].as_mut().expect("it runs");
    peer.run(
        "CREATE TABLE counted (k BIGINT NOT NULL PRIMARY KEY, runs BIGINT, note VARCHAR(100));
         PARTITION TABLE counted ON COLUMN k;
         CREATE PROCEDURE PARTITION ON TABLE counted COLUMN k FROM NATIVE Counting;",
    );
    for k in 0..30 {
        peer.run(&format!("INSERT INTO counted VALUES ({k}, 0, '')"));
    }
    for k in 0..30 {
        assert_eq!(peer.call("Counting", &[Int(k)]).status, 1);
    }
    eventually("copies that differ do not count", || {
        partitions(peer).iter().all(|partition| partition[2].is_empty())
    });
    for k in 30..60 {
        let inserted = until_done(peer, "COUNTED.insert", &[Int(k), Int(0), Text("x")]);
        assert_eq!(inserted, "1");
    }
    assert_eq!(peer.run("SELECT COUNT(*) FROM counted"), "60");
    eventually("all copies are in sync again", || {
        partitions(peer).iter().all(|partition| !partition[2].is_empty())
    });
    let runs = "SELECT SUM(runs), COUNT(*) FROM counted";
    let before = peer.run(runs);
    lose(1, &mut servers, &mut peers);
    let peer = peers[0].as_mut().expect("it runs");
    assert_eq!(until_done(peer, "@AdHoc", &[Text(runs)]), before, "the copies are as the leaders");
}

#[test]
fn tasks_row_expiration_and_index_builds_go_on_without_the_host_that_led_them() {
    let (mut servers, mut peers) = cluster(&["ttl_check_ms=50", "task_min_interval_ms=1"]);
    let peer = peers[2].as_mut().expect("it runs");
    peer.run(
        "CREATE TABLE due (id BIGINT NOT NULL PRIMARY KEY, since TIMESTAMP NOT NULL)
             USING TTL 1 SECONDS ON COLUMN since;
         PARTITION TABLE due ON COLUMN id;
         CREATE INDEX due_since ON due (since);
         CREATE TABLE ticks (id INTEGER NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
         CREATE PROCEDURE tick AS UPDATE ticks SET n = n + 1;",
    );
    peer.run("INSERT INTO ticks VALUES (1, 0)");
    peer.run("CREATE TASK ticking ON SCHEDULE EVERY 20 MILLISECONDS PROCEDURE tick");
    eventually("the task runs", || peer.run("SELECT n FROM ticks") != "0");
    peers[0] = None;
    drop(servers[0].take());
    let peer = peers[2].as_mut().expect("it runs");
    let before = until_done(peer, "@AdHoc", &[Text("SELECT n FROM ticks")]);
    eventually("the task runs again", || {
        let answer = peer.call("@AdHoc", &[Text("SELECT n FROM ticks")]);
        answer.status == 1 && answer.rows != before
    });
    for id in 0..20 {
        peer.run(&format!("INSERT INTO due VALUES ({id}, NOW)"));
    }
    eventually("rows expire", || peer.run("SELECT COUNT(*) FROM due") == "0");
    peer.run("CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, k BIGINT NOT NULL)");
    peer.run("PARTITION TABLE p ON COLUMN id");
    for id in 0..20 {
        peer.run(&format!("INSERT INTO p VALUES ({id}, {})", 1000 + id));
    }
    peer.run("CREATE GLOBAL UNIQUE INDEX by_k ON p (k)");
    assert_eq!(peer.run("SELECT id FROM p WHERE k = 1007"), "7");
}

/// By host, a key of a partition that it leads.
fn keys_by_leader(peer: &mut Peer) -> Vec<i64> {
    let leaders = partitions(peer);
    let keys = peer.call("@GetPartitionKeys", &[Text("INTEGER")]).rows;
    let key_of = |host: &str| {
        let led = |row: &&Vec<String>| row[1].split(':').next() == Some(host);
        let number = &leaders.iter().find(led).expect("it leads a partition")[0];
        let mut rows = keys.lines().filter_map(|row| row.split_once(','));
        let (_, key) = rows.find(|(partition, _)| partition == number).expect("it has a key");
        key.trim().parse().expect("a number")
    };
    ["0", "1"].map(key_of).to_vec()
}

/// Sites take what other hosts send; one that works for long must not let them wait.
#[test]
fn a_long_call_does_not_hold_up_the_copies_at_its_site() {
    let options = ["partitions_per_site=2", "query_timeout_ms=4000"];
    let options = [&SLOW[..], &options].concat();
    let members = local_cluster::members(2, 1, || configuration(1, &options, None));
    let started = local_cluster::start(members.expect("there are free ports"));
    let servers = started.into_iter().collect::<std::io::Result<Vec<Server>>>();
    let servers = servers.expect("the cluster is formed");
    let [mut first, mut second] = [0, 1].map(|host| Peer::login(servers[host].client_address()));
    first.run(
        "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, n BIGINT);
         PARTITION TABLE t ON COLUMN k;
         CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY);
         CREATE PROCEDURE Endless PARTITION ON TABLE t COLUMN k AS
             SELECT COUNT(*) FROM t, r a, r b, r c WHERE t.k = ? AND a.id + b.id + c.id < 0;",
    );
    let rows: Vec<String> = (0..1_000).map(|id| format!("({id})")).collect();
    first.run(&format!("INSERT INTO r VALUES {}", rows.join(", ")));
    let keys = keys_by_leader(&mut first);
    for key in &keys {
        assert_eq!(first.call("T.insert", &[Int(*key), Int(0)]).status, 1);
    }
    let (here, elsewhere) = (keys[0], keys[1]);
    let long = std::thread::spawn(move || second.call("Endless", &[Int(elsewhere)]).status);
    let (mut longest, mut calls) = (Duration::ZERO, 0);
    while !long.is_finished() {
        let begun = Instant::now();
        assert_eq!(first.call("T.update", &[Int(here), Int(calls), Int(here)]).status, 1);
        longest = longest.max(begun.elapsed());
        calls += 1;
    }
    assert!(long.join().expect("no panic") < 0, "it was to be stopped");
    assert!(calls > 1 && longest < Duration::from_secs(2), "{calls} calls, {longest:?}");
}
