//! Hosts are added to a cluster of processes and removed from it, by the commands of the
//! documentation.

use super::cluster::{Cluster, has_followers, shown, until};
use super::crash::from_environment;
use super::process::Host;
use super::rolling_restart::Load;
use super::{lockstep, text};
use lockstep_node::local_cluster::ReservedPort;
use lockstep_types::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

/// Hosts with which a cluster is made.
const MADE: u64 = 3;
/// Times by which a busy machine suspects no host that runs, and sites with room for a host less.
const COPIES: &str = "--kfactor 1 --sites 1 --option partitions_per_site=2 \
                      --option heartbeat_interval_ms=100 --option suspect_after_ms=1500 \
                      --option lease_ms=1000";

fn cluster_command(host: &Host, what: &[&str]) -> Output {
    lockstep(&[&["admin", "cluster"], what, &["--server", &host.admin()]].concat(), "")
}

/// What a command prints that succeeds.
fn said(done: &Output) -> String {
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

/// The command line of a host with the options that `admin cluster add` has printed.
fn started(options: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
    command.args(["--log", "error", "start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(options.split_whitespace()).args(COPIES.split_whitespace()).args(more);
    command
}

fn number_of_rows(host: &Host) -> i64 {
    let rows = host.connect().sql("SELECT COUNT(*) FROM t").expect("it is answered");
    let Value::Int(count) = rows[0].rows[0][0] else { panic!("a count") };
    count
}

#[test]
fn a_cluster_of_processes_grows_and_shrinks_by_the_commands_of_the_documentation() {
    let cluster = Cluster::new(3, COPIES);
    let mut hosts = cluster.start();
    let create = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    hosts[1].connect().sql(create).expect("it is made");
    let insert = |host: &Host, a: i64| {
        let inserted = host.connect().sql(&format!("INSERT INTO t VALUES ({a})"));
        inserted.expect("it is inserted");
    };
    (0..20).for_each(|a| insert(&hosts[1], a));
    // As it is: all sites are full.
    let refused = cluster_command(&hosts[1], &["remove", "0"]);
    let problem = text(&refused.stderr);
    assert!(!refused.status.success() && problem.contains("2 hosts would be left"), "{problem}");
    let port = ReservedPort::new().expect("a free port");
    let address = port.address().to_string();
    let added = said(&cluster_command(&hosts[1], &["add", &address]));
    assert!(added.starts_with("Host 3 is to join: start it with "), "{added}");
    assert!(added.trim_end().ends_with(&format!("3={address}")), "{added}");
    until(&hosts[2], "it is listed", |it| {
        it["hosts"][3]["state"] == "added" && it["hosts"][3]["plan"] == "fills"
    });
    let options = added.trim().strip_prefix("Host 3 is to join: start it with ").expect("it is");
    let new = Host::run(started(options, &[]).stderr(Stdio::piped())).ready();
    until(&hosts[2], "it has its share", |it| {
        it["hosts"][3]["plan"] == "stays" && has_followers(it, 1)
    });
    let has_copy = |it: &serde_json::Value| {
        let mut partitions = it["partitions"].as_array().expect("a list").iter();
        partitions.any(|it| it["leader"] == 3 || it["followers"][0] == 3)
    };
    assert!(has_copy(&shown(&new)), "{}", shown(&new));
    insert(&new, 20);
    let removed = said(&cluster_command(&new, &["remove", "0", "--wait"]));
    assert!(removed.contains("host 0 is not of the cluster any more"), "{removed}");
    let (is_well, last) = hosts[0].wait();
    assert!(is_well, "it stops in order: {last}");
    let table = said(&cluster_command(&new, &[]));
    assert!(table.contains("3 hosts, K = 1, epoch"), "{table}");
    assert!(!table.lines().any(|line| line.trim_start().starts_with("0 ")), "{table}");
    (21..30).for_each(|a| insert(&hosts[2], a));
    for host in [&hosts[1], &hosts[2], &new] {
        assert_eq!(number_of_rows(host), 30);
    }
    // A host that is lost is replaced by the new one, too.
    drop(hosts.remove(1));
    until(&new, "the others go on", |it| it["hosts"][0]["state"] == "down");
    assert_eq!(number_of_rows(&new), 30);
}

/// A host that is added has the number after that of the witness, and the votes are three again.
#[test]
fn a_cluster_of_two_hosts_and_a_witness_grows_and_a_host_of_it_is_removed() {
    let cluster = Cluster::new(3, &format!("--witnesses 1 {COPIES}"));
    let times = COPIES.split_once("--option partitions_per_site=2").expect("they follow").1;
    let times: Vec<&str> = times.split_whitespace().collect();
    let witness = cluster.spawn_witness(&times);
    let hosts: Vec<Host> = [0, 1].map(|number| cluster.spawn_in(number, &[])).into();
    let mut hosts: Vec<Host> = hosts.into_iter().map(Host::ready).collect();
    let witness = witness.ready();
    let create = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    hosts[1].connect().sql(create).expect("it is made");
    hosts[1].connect().sql("INSERT INTO t VALUES (1)").expect("it is inserted");
    let port = ReservedPort::new().expect("a free port");
    let added = said(&cluster_command(&hosts[1], &["add", &port.address().to_string()]));
    let (text, options) = added.trim().split_once("start it with ").expect("it says how");
    assert_eq!(text, "Host 3 is to join: ");
    let new = started(options, &["--witnesses", "1"]);
    let new = Host::run({ new }.stderr(Stdio::piped())).ready();
    until(&new, "it has its share", |it| it["hosts"][3]["plan"] == "stays" && has_followers(it, 1));
    let refused = cluster_command(&new, &["remove", "2"]);
    assert!(super::text(&refused.stderr).contains("host 2 is the witness"), "{refused:?}");
    said(&cluster_command(&new, &["remove", "0", "--wait"]));
    assert!(hosts[0].wait().0, "it stops in order");
    // Of two hosts and the witness any one may be lost.
    drop(hosts);
    until(&new, "the new host goes on with the witness", |it| {
        it["hosts"][0]["state"] == "down" && it["state"] == "running"
    });
    assert_eq!(number_of_rows(&new), 1);
    drop(witness);
}

/// One host more and one less, again and again, while clients that follow the topology call.
#[test]
fn hosts_are_added_and_removed_under_load_and_no_call_fails() {
    let rounds = from_environment("GROW_ROUNDS", 2) as usize;
    let cluster = Cluster::new(3, COPIES);
    let mut hosts: BTreeMap<u64, Host> = (0..).zip(cluster.start()).collect();
    let mut ports = Vec::new();
    let load = Load::at(&hosts[&0]);
    let (longest, expected) = load.during(|load| {
        for round in 0..rounds {
            load.go_on();
            let port = ReservedPort::new().expect("a free port");
            let by = hosts.values().next_back().expect("there are hosts");
            let added = said(&cluster_command(by, &["add", &port.address().to_string()]));
            let (_, options) = added.trim().split_once("start it with ").expect("it says how");
            let number = MADE + round as u64;
            let new = Host::run(started(options, &[]).stderr(Stdio::piped())).ready();
            until(&new, "it has its share", |it| {
                let mut listed = it["hosts"].as_array().expect("a list").iter();
                listed.all(|host| host["plan"] == "stays") && has_followers(it, 1)
            });
            load.go_on();
            let (oldest, removed) = hosts.pop_first().expect("there are hosts");
            let done = cluster_command(&new, &["remove", &oldest.to_string(), "--wait"]);
            assert!(said(&done).contains("is not of the cluster any more"));
            let mut removed = removed;
            let (is_well, last) = removed.wait();
            assert!(is_well, "it stops in order: {last}");
            hosts.insert(number, new);
            ports.push(port);
        }
    });
    println!("{rounds} rounds, the longest call took {longest:?}");
    for host in hosts.values() {
        let sum = host.connect().sql("SELECT SUM(n) FROM t").expect("it is counted");
        assert_eq!(sum[0].rows, [[Value::Int(expected)]]);
    }
}

#[test]
fn lists_of_hosts_that_do_not_fit_are_refused_with_what_would() {
    for (peers, internal, problem) in [
        ("127.0.0.1:1,x=127.0.0.1:2", "127.0.0.1:2", "'x' is no number of a host"),
        ("127.0.0.1:1,999=127.0.0.1:2", "127.0.0.1:2", "those are 0 to 255"),
        ("1=127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1", "without a number after one that was added"),
        ("127.0.0.1:1,127.0.0.1:2,1=127.0.0.1:3", "127.0.0.1:3", "names host 1 twice"),
        ("127.0.0.1:1,removed", "127.0.0.1:3", "is none of --peers"),
    ] {
        let done = lockstep(&["start", "--internal", internal, "--peers", peers], "");
        let said = text(&done.stderr);
        assert!(!done.status.success() && said.contains(problem), "{peers}: {said}");
    }
}
