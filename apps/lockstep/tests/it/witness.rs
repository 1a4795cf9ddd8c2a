//! Two hosts and a witness as processes: each of them is killed as `kill -9` does, and the others
//! go on.

use super::cluster::{Cluster, shown, signal, until};
use super::directory::{Folder, refused};
use super::process::{Host, TIMES};
use super::{lockstep, text};
use lockstep_client::ParameterWriter;
use lockstep_types::{Status, Value};
use std::time::{Duration, Instant};

/// How long a test waits for what must come to be.
const PATIENCE: Duration = Duration::from_secs(60);
const SCHEMA: &str =
    "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";

/// A cluster of two hosts and a witness, in memory or with directories.
struct Members {
    cluster: Cluster,
    /// By member; the last one is that of the witness.
    folders: Vec<Folder>,
}

impl Members {
    fn new(shape: &str) -> Members {
        let options = format!("{shape} {}", TIMES.join(" "));
        Members { cluster: Cluster::new(3, &options), folders: Vec::new() }
    }

    fn in_memory() -> Members {
        Members::new("--witnesses 1 --kfactor 1 --sites 2")
    }

    fn durable(name: &str) -> Members {
        let mut members = Members::new("");
        let shape = ["--hosts", "2", "--witnesses", "1", "--kfactor", "1", "--sites", "2"];
        for (number, options) in [(0, &shape[..]), (1, &shape), (2, &["--witness"])] {
            let folder = Folder::new(&format!("witness-{name}-{number}"));
            let made = lockstep(&[&["init", "--dir", folder.shown()], options].concat(), "");
            assert!(made.status.success(), "{}", text(&made.stderr));
            members.folders.push(folder);
        }
        members
    }

    fn directory(&self, member: usize) -> Vec<&str> {
        self.folders.get(member).map_or(Vec::new(), |folder| vec!["--dir", folder.shown()])
    }

    fn spawn(&self, member: usize) -> Host {
        let directory = self.directory(member);
        match member {
            2 => self.cluster.spawn_witness(&[&TIMES[..], &directory].concat()),
            host => self.cluster.spawn_in(host, &directory),
        }
    }

    /// Starts all and waits until they are ready.
    fn start(&self) -> Vec<Host> {
        let spawned: Vec<Host> = (0..3).map(|member| self.spawn(member)).collect();
        spawned.into_iter().map(Host::ready).collect()
    }
}

/// Inserts a row; a call that was in progress at a lost host is made again.
fn insert(host: &Host, a: i64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "row {a} is not inserted");
        let mut parameters = ParameterWriter::default();
        parameters.bigint(a);
        let response = host.connect().call("T.insert", &parameters).expect("it answers");
        let view = response.view();
        let may_be_there = view.status == Status::ResponseUnknown.code();
        if view.is_success() || view.status_text.is_some_and(|text| text.contains("already")) {
            return;
        }
        let is_there = format!("SELECT a FROM t WHERE a = {a}");
        let found = host.connect().sql(&is_there);
        assert!(may_be_there || found.is_err(), "{:?}", view.status_text);
        if found.is_ok_and(|tables| !tables[0].rows.is_empty()) {
            return;
        }
    }
}

fn count(host: &Host) -> Value {
    let tables = host.connect().sql("SELECT COUNT(*) FROM t").expect("it counts");
    tables[0].rows[0][0].clone()
}

fn await_in_sync(host: &Host, member: usize) {
    until(host, "all copies are in sync", |it| {
        let mut partitions = it["partitions"].as_array().into_iter().flatten();
        let has_copies = |followers: &serde_json::Value| followers.as_array().map(Vec::len);
        it["hosts"][member]["state"] == "up"
            && partitions.all(|partition| has_copies(&partition["followers"]) == Some(1))
    });
}

#[test]
fn each_of_two_hosts_and_a_witness_is_killed_in_turn_and_no_row_is_lost() {
    let members = Members::in_memory();
    let mut hosts = members.start();
    assert!(hosts[0].said.contains("host 0 of 2 and a witness, 2 sites"), "{}", hosts[0].said);
    assert!(hosts[2].said.contains("witness of 2 hosts"), "{}", hosts[2].said);
    assert_eq!(hosts[2].address(), members.cluster.peers()[2]);
    hosts[0].connect().sql(SCHEMA).expect("it is made");
    let mut rows = 0;
    for victim in [2, 1, 0] {
        hosts[victim].kill();
        let others: Vec<usize> = [0, 1].into_iter().filter(|host| *host != victim).collect();
        for host in others.iter().map(|host| &hosts[*host]) {
            (rows..rows + 20).for_each(|a| insert(host, a));
            rows += 20;
            until(host, "it is lost", |it| it["hosts"][victim]["state"] == "down");
            assert_eq!(shown(host)["state"], "running");
        }
        hosts[victim] = members.spawn(victim).ready();
        for host in &hosts[..2] {
            await_in_sync(host, victim);
            assert_eq!(count(host), Value::Int(rows));
        }
    }
    let it = shown(&hosts[1]);
    let roles = [0, 1, 2].map(|member| it["hosts"][member]["role"].as_str().unwrap_or(""));
    assert_eq!(roles, ["host", "host", "witness"], "{it}");
    let shown = text(&lockstep(&["admin", "cluster", "--server", &hosts[0].admin()], "").stdout);
    assert!(shown.contains("2 hosts and a witness") && shown.contains("(witness)"), "{shown}");
    let status = lockstep(&["admin", "host", "status", "2", "--server", &hosts[0].admin()], "");
    assert!(text(&status.stdout).contains("the witness"), "{status:?}");
    signal(&hosts[2], "-TERM");
    let (is_well, said) = hosts[2].wait();
    assert!(is_well, "{said}");
    until(&hosts[0], "it is lost", |it| it["hosts"][2]["state"] == "down");
    hosts[1].kill();
    until(&hosts[0], "no majority is left", |it| it["state"] == "no majority");
    let refused = hosts[0].connect().sql("SELECT COUNT(*) FROM t");
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("not connected with a majority"), "{said}");
}

#[test]
fn with_directories_all_are_killed_at_once_and_start_again_with_every_row() {
    let members = Members::durable("kills");
    let mut hosts = members.start();
    hosts[1].connect().sql(SCHEMA).expect("it is made");
    (0..20).for_each(|a| insert(&hosts[0], a));
    hosts.iter_mut().for_each(Host::kill);
    let mut hosts = members.start();
    assert_eq!(count(&hosts[1]), Value::Int(20));
    // The witness that is started again goes on from its directory, and votes.
    hosts[2].kill();
    until(&hosts[0], "it is lost", |it| it["hosts"][2]["state"] == "down");
    hosts[2] = members.spawn(2).ready();
    until(&hosts[0], "it is back", |it| it["hosts"][2]["state"] == "up");
    hosts[1].kill();
    (20..40).for_each(|a| insert(&hosts[0], a));
    hosts[0].kill();
    hosts[2].kill();
    // The directory of host 1 is too old: the witness and host 0 are the majority.
    let (first, witness) = (members.spawn(0), members.spawn(2));
    let (first, _witness) = (first.ready(), witness.ready());
    assert_eq!(count(&first), Value::Int(40));
    insert(&first, 40);
}

#[test]
fn a_witness_that_waits_for_hosts_says_which_ones() {
    let members = Members::in_memory();
    let limit = ["--option", "cluster_start_timeout_ms=1000"];
    let mut alone = members.cluster.spawn_witness(&[&TIMES[..], &limit].concat());
    let (is_well, said) = alone.wait();
    let missing = format!("host 0 at {}: no connection", members.cluster.peers()[0]);
    assert!(!is_well && said.contains(&missing), "{said}");
    assert!(said.contains("cluster_start_timeout_ms"), "{said}");
}

#[test]
fn members_at_addresses_that_are_not_theirs_are_refused_with_what_fits() {
    let (two, three) = ("127.0.0.1:1,127.0.0.1:2", "127.0.0.1:4001,127.0.0.1:4002,127.0.0.1:4003");
    let at = |number: u16| format!("127.0.0.1:{}", 4000 + number);
    let host = |number: u16, more: &[&str]| {
        let own = at(number);
        let ports = ["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let words = [&ports[..], &["--internal", &own, "--peers", three], more].concat();
        lockstep(&words, "")
    };
    let with = |more: &[&'static str]| [&["--witnesses", "1", "--kfactor", "1"], more].concat();
    refused(&host(3, &with(&[])), &["127.0.0.1:4003", "the last one of --peers", "witness"]);
    refused(&host(1, &with(&["--hosts", "3"])), &["--hosts is 3", "names 2 and a witness"]);
    refused(&host(1, &["--witnesses", "1"]), &["--witnesses 1, K is 0", "--kfactor 1"]);
    refused(&host(1, &["--witnesses", "2", "--kfactor", "1"]), &["--witnesses", "0..=1"]);
    let witness = |own: &str, peers: &str, more: &[&str]| {
        lockstep(&[&["witness", "--internal", own, "--peers", peers], more].concat(), "")
    };
    refused(&witness(&at(1), three, &[]), &["127.0.0.1:4001", "start --witnesses 1", "4003"]);
    let pair = "127.0.0.1:4001,127.0.0.1:4002";
    refused(&witness(&at(2), pair, &[]), &["names 1 hosts and the witness", "2 hosts or more"]);
    refused(&lockstep(&["witness", "--peers", two], ""), &["--internal"]);
    let members = Members::durable("refused");
    let [first, _, last] = [0, 1, 2].map(|member| members.folders[member].shown());
    refused(&witness(&at(3), three, &["--dir", first]), &["directory of a host", "--witness"]);
    refused(&host(1, &["--dir", last]), &["directory of a witness", "lockstep witness"]);
    let none = Folder::new("witness-none");
    let words = witness(&at(3), three, &["--dir", none.shown()]);
    refused(&words, &["init --witness --dir"]);
    refused(&host(1, &["--dir", first, "--witnesses", "0"]), &["made for 2 hosts", "names 3"]);
    let words = ["init", "--dir", none.shown(), "--witness", "--hosts", "2"];
    refused(&lockstep(&words, ""), &["--witness", "--hosts"]);
    let words = ["init", "--dir", none.shown(), "--witnesses", "1", "--hosts", "2"];
    refused(&lockstep(&words, ""), &["K is 0"]);
}
