//! Several hosts as processes of one machine.

use super::directory::refused;
use super::process::{Host, PATIENCE};
use super::{lockstep, text};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_node::local_cluster::ReservedPort;
use lockstep_types::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster whose hosts are started one by one.
pub struct Cluster {
    peers: Vec<String>,
    options: Vec<String>,
    /// What is logged.
    level: &'static str,
    /// No other test gets them.
    _ports: Vec<ReservedPort>,
}

impl Cluster {
    pub fn new(count: usize, options: &str) -> Cluster {
        let options = options.split_whitespace().map(str::to_string).collect();
        let reserve = |_| ReservedPort::new().expect("a free port");
        let ports: Vec<ReservedPort> = (0..count).map(reserve).collect();
        let peers = ports.iter().map(|port| port.address().to_string()).collect();
        Cluster { peers, options, level: "error", _ports: ports }
    }

    /// Starts a host, which waits for the others.
    fn spawn(&self, number: usize) -> Host {
        self.spawn_with(number, "0")
    }

    /// Starts a host whose clock is ahead by some seconds.
    fn spawn_with(&self, number: usize, ahead_s: &str) -> Host {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
        command.env("CLOCK_SHIFT_S", ahead_s);
        self.run(number, command, &[])
    }

    /// Starts a host with more options.
    pub fn spawn_in(&self, number: usize, more: &[&str]) -> Host {
        let command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
        self.run(number, command, more)
    }

    fn run(&self, number: usize, mut command: Command, more: &[&str]) -> Host {
        command.args(["--log", self.level, "start"]);
        command.args(["--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(["--internal", &self.peers[number], "--peers", &self.peers.join(",")]);
        Host::run(command.args(&self.options).args(more).stderr(Stdio::piped()))
    }

    /// Starts the witness, which is the last one of the list, with more options.
    pub fn spawn_witness(&self, more: &[&str]) -> Host {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
        command.args(["--log", self.level, "witness", "--peers", &self.peers.join(",")]);
        let own = self.peers.last().expect("a cluster has members");
        Host::run(command.args(["--internal", own]).args(more).stderr(Stdio::piped()))
    }

    /// Where the members listen for each other.
    pub fn peers(&self) -> &[String] {
        &self.peers
    }

    /// Starts all hosts and waits until they are ready.
    pub fn start(&self) -> Vec<Host> {
        let spawned: Vec<Host> = (0..self.peers.len()).map(|number| self.spawn(number)).collect();
        spawned.into_iter().map(Host::ready).collect()
    }
}

/// Starts hosts with two sites each and waits until all are ready.
fn start(count: usize, options: &[&str]) -> Vec<Host> {
    Cluster::new(count, &format!("--sites 2 {}", options.join(" "))).start()
}

/// With copies, and times by which a busy machine suspects no host that runs.
const COPIES: &str = "--kfactor 1 --sites 1 --option partitions_per_site=2 \
                      --option heartbeat_interval_ms=100 --option suspect_after_ms=1500 \
                      --option lease_ms=1000";

#[test]
fn three_processes_are_one_database_until_one_is_gone() {
    let mut hosts = start(3, &["--kfactor", "0", "--option", "host_timeout_ms=500"]);
    for (number, host) in hosts.iter().enumerate() {
        assert!(host.said.contains(&format!("host {number} of 3, 2 sites")), "{}", host.said);
    }
    hosts[2].connect().sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    hosts[1].connect().sql("PARTITION TABLE t ON COLUMN a").expect("it is partitioned");
    for a in 0..30 {
        let host = &hosts[a % 3];
        host.connect().sql(&format!("INSERT INTO t VALUES ({a})")).expect("it is inserted");
    }
    for host in &hosts {
        let shown =
            lockstep(&["sql", "--server", host.address(), "-e", "SELECT COUNT(*) FROM t"], "");
        assert!(text(&shown.stdout).contains("30"), "{}", text(&shown.stdout));
        let shown = lockstep(&["admin", "cluster", "--json", "--server", &host.admin()], "");
        let cluster: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("it is JSON");
        assert_eq!(cluster["state"], "running");
        let ids: Vec<_> = (0..3).map(|at| cluster["hosts"][at]["id"].as_i64()).collect();
        assert_eq!(ids, [Some(0), Some(1), Some(2)], "{cluster}");
        let partitions = cluster["partitions"].as_array().expect("a list");
        assert_eq!(partitions.len(), 6);
        assert_eq!((&partitions[5]["leader"], &partitions[5]["epoch"]), (&2.into(), &1.into()));
    }
    hosts[1].kill();
    for number in [0, 2] {
        let (is_well, said) = hosts[number].wait();
        assert!(!is_well && said.contains("host 1 is lost"), "{said}");
    }
}

/// What `admin cluster --json` shows at a host.
pub fn shown(host: &Host) -> serde_json::Value {
    answered(host).unwrap_or_else(|error| panic!("{error}"))
}

/// What a host answers to `admin cluster --json`.
///
/// # Errors
/// What the command printed, if the host did not answer it.
fn answered(host: &Host) -> Result<serde_json::Value, String> {
    let shown = lockstep(&["admin", "cluster", "--json", "--server", &host.admin()], "");
    serde_json::from_slice(&shown.stdout)
        .map_err(|error| format!("{error}: {} {}", text(&shown.stdout), text(&shown.stderr)))
}

#[test]
fn a_killed_host_is_down_and_the_hosts_with_copies_lead_its_partitions() {
    let cluster = Cluster::new(3, COPIES);
    let mut hosts = cluster.start();
    let before = shown(&hosts[0]);
    assert_eq!((&before["state"], &before["epoch"]), (&"running".into(), &1.into()), "{before}");
    for partition in before["partitions"].as_array().expect("a list") {
        let followers = partition["followers"].as_array().expect("a list");
        assert!(followers.len() == 1 && followers[0] != partition["leader"], "{before}");
    }
    hosts[2].kill();
    for host in &hosts[..2] {
        until(host, "the host is lost", |it| it["hosts"][2]["state"] == "down");
        let after = shown(host);
        assert_eq!(after["state"], "running");
        let partitions = after["partitions"].as_array().expect("a list");
        assert_eq!(partitions.len(), 3);
        for (now, then) in partitions.iter().zip(before["partitions"].as_array().expect("a list")) {
            assert_ne!(now["leader"], 2, "{after}");
            let was_there = then["leader"] == 2 || then["followers"][0] == 2;
            assert_eq!(now["epoch"].as_i64() > Some(1), was_there, "{after}");
            assert_eq!(now["followers"].as_array().map(Vec::is_empty), Some(was_there), "{after}");
        }
        let table = lockstep(&["admin", "cluster", "--server", &host.admin()], "");
        let lines = text(&table.stdout);
        let lost = lines.lines().find(|line| line.trim_start().starts_with('2'));
        assert!(lost.is_some_and(|line| line.contains(" down ")), "{lines}");
    }
}

#[test]
fn copies_are_in_the_placement_groups_that_hosts_are_started_with() {
    let groups = ["east", "east", "west", "west"];
    let cluster = Cluster::new(groups.len(), COPIES);
    let start = |(number, group): (usize, &&str)| cluster.spawn_in(number, &["--group", group]);
    let hosts: Vec<Host> = groups.iter().enumerate().map(start).collect();
    let hosts: Vec<Host> = hosts.into_iter().map(Host::ready).collect();
    let shown = shown(&hosts[3]);
    for partition in shown["partitions"].as_array().expect("a list") {
        let at = |host: &serde_json::Value| groups[host.as_u64().expect("a number") as usize];
        assert_ne!(at(&partition["leader"]), at(&partition["followers"][0]), "{shown}");
    }
    for (number, group) in groups.iter().enumerate() {
        assert_eq!(shown["hosts"][number]["group"], *group, "{shown}");
    }
    let table = lockstep(&["admin", "cluster", "--server", &hosts[0].admin()], "");
    let lines = text(&table.stdout);
    let has = |what: &[&str]| lines.lines().any(|line| what.iter().all(|it| line.contains(it)));
    assert!(has(&["name", "group", "state"]) && has(&["west", " up "]), "{lines}");
    let refused = lockstep(&["start", "--group", "a b"], "");
    assert!(text(&refused.stderr).contains("placement group has ' '"), "{refused:?}");
}

/// A start reports which hosts are missing and why, and ends when its time is over.
#[test]
fn a_start_names_the_hosts_that_it_waits_for() {
    let mut cluster = Cluster::new(3, COPIES);
    cluster.options.extend(["--option", "cluster_start_timeout_ms=8000"].map(str::to_string));
    cluster.level = "warn";
    let mut hosts = [cluster.spawn(0), cluster.spawn(1)];
    let missing = format!("host 2 at {}: no connection (Connection refused", cluster.peers[2]);
    for host in &mut hosts {
        let (is_well, said) = host.wait();
        assert!(!is_well, "{said}");
        let report = said.lines().find(|line| line.contains("s for its cluster to form: "));
        assert!(report.is_some_and(|line| line.contains(&missing)), "{said}");
        let end = "the cluster was not formed in 8000 ms (option cluster_start_timeout_ms): ";
        // The host that waited longest may be missing in the other one's text by then.
        let last = said.lines().rfind(|line| line.contains(end));
        assert!(last.is_some_and(|line| line.contains(&missing)), "{said}");
    }
}

/// The folder of a host's thread in `/proc`, once the thread has taken its name.
fn task_of(host: &Host, thread: &str) -> PathBuf {
    let tasks = format!("/proc/{}/task", host.child.id());
    let has_name = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == thread)
    };
    let begun = Instant::now();
    loop {
        let folders = std::fs::read_dir(&tasks).expect("the host runs");
        let mut folders = folders.flatten().map(|task| task.path());
        if let Some(folder) = folders.find(has_name) {
            return folder;
        }
        assert!(begun.elapsed() < PATIENCE, "no thread {thread} after {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// How often a thread of a host has gone to sleep so far.
fn sleeps_of(task: &Path) -> u64 {
    let status = std::fs::read_to_string(task.join("status")).expect("the thread runs");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("the kernel counts them")
}

#[test]
fn the_control_threads_of_idle_hosts_sleep() {
    let hosts = start(2, &[]);
    let tasks = hosts.iter().map(|host| task_of(host, "control")).collect::<Vec<PathBuf>>();
    let before = tasks.iter().map(|task| sleeps_of(task)).collect::<Vec<u64>>();
    // What is counted is what happens in this time; nothing is waited for.
    std::thread::sleep(Duration::from_secs(1));
    for (task, before) in tasks.iter().zip(before) {
        let slept = sleeps_of(task) - before;
        assert!(slept < 200, "{slept} times in a second");
    }
}

/// Sends a signal to a host's process, by its name.
pub fn signal(host: &Host, name: &str) {
    let pid = host.child.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
    assert!(sent.success(), "{name} is sent");
}

/// Waits until a host shows its cluster in a certain way. A call without an answer is made again:
/// a host that finds itself out closes the connections of the calls that wait there.
pub fn until(host: &Host, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now = answered(host);
        if now.as_ref().is_ok_and(&is_so) {
            return;
        }
        assert!(Instant::now() < deadline, "never: {what}: {now:?}");
    }
}

#[test]
fn k_is_changed_while_the_hosts_serve() {
    let cluster = Cluster::new(3, COPIES);
    let hosts = cluster.start();
    let change = |k: &str| {
        let server = hosts[1].admin();
        lockstep(&["admin", "cluster", "kfactor", k, "--json", "--server", &server], "")
    };
    let has_followers = |shown: &serde_json::Value, count: usize| {
        let mut partitions = shown["partitions"].as_array().expect("a list").iter();
        partitions.all(|it| it["followers"].as_array().is_some_and(|it| it.len() == count))
    };
    for (k, text) in
        [("2", "copies of 3 partitions, each at 3 hosts"), ("-1", "K is 0 to 2, not -1")]
    {
        let refused = change(k);
        assert!(!refused.status.success() && self::text(&refused.stderr).contains(text));
    }
    let changed = change("0");
    assert_eq!(
        text(&changed.stdout).trim(),
        r#"{"copies_given_up":3,"copies_to_load":0,"kfactor":0}"#,
        "{}",
        text(&changed.stderr)
    );
    until(&hosts[2], "the copies are given up", |it| it["kfactor"] == 0 && has_followers(it, 0));
    assert!(change("1").status.success());
    until(&hosts[0], "the copies are loaded", |it| it["kfactor"] == 1 && has_followers(it, 1));
    let table = lockstep(&["admin", "cluster", "--server", &hosts[0].admin()], "");
    assert!(text(&table.stdout).contains("3 hosts, K = 1, epoch"), "{}", text(&table.stdout));
}

#[test]
fn a_copy_is_moved_to_another_host_while_the_hosts_serve() {
    // Hosts keep one copy each, and have two to move.
    let hosts = Cluster::new(3, &COPIES.replace("--sites 1", "--sites 2")).start();
    let admin = |what: &[&str]| {
        let server = hosts[1].admin();
        lockstep(&[&["admin", "cluster"], what, &["--server", &server]].concat(), "")
    };
    // Sites that are full take no copy, so each partition gives one up first.
    assert!(admin(&["kfactor", "0"]).status.success());
    let leader_of_0 = |it: &serde_json::Value| it["partitions"][0]["leader"].as_u64();
    until(&hosts[1], "copies are given up", |it| {
        let mut partitions = it["partitions"].as_array().expect("a list").iter();
        partitions.all(|it| it["followers"].as_array().is_some_and(Vec::is_empty))
    });
    let from = leader_of_0(&shown(&hosts[1])).expect("it has a leader");
    let to = (from + 1) % 3;
    let moved = |from: u64, to: u64| {
        let (from, to) = (from.to_string(), to.to_string());
        admin(&["move-copy", "--partition", "0", "--from", &from, "--to", &to])
    };
    let refused = moved(to, from);
    let missing = format!("host {to} has no copy of partition 0");
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
    assert!(text(&refused.stderr).to_lowercase().contains(&missing), "{}", text(&refused.stderr));
    let done = moved(from, to);
    assert!(done.status.success(), "{}", text(&done.stderr));
    until(&hosts[2], "the copy is moved", |it| leader_of_0(it) == Some(to));
}

#[test]
fn a_host_that_stood_still_finds_itself_out_and_serves_nothing() {
    let stays = format!("{COPIES} --option rejoin_after_ms=0");
    let hosts = Cluster::new(3, &stays).start();
    hosts[0].connect().sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    signal(&hosts[1], "-STOP");
    for number in [0, 2] {
        let is_down = |it: &serde_json::Value| it["hosts"][1]["state"] == "down";
        until(&hosts[number], "the host is lost", is_down);
    }
    signal(&hosts[1], "-CONT");
    until(&hosts[1], "it knows that it is out", |it| {
        it["hosts"][1]["state"] == "down" && it["state"] == "no majority"
    });
    let refused = hosts[1].connect().sql("SELECT COUNT(*) FROM t");
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("serves nothing"), "{said}");
    assert_eq!(shown(&hosts[0])["state"], "running");
}

#[test]
fn a_host_that_stood_still_begins_again_and_is_in_sync_without_a_command() {
    let mut hosts = Cluster::new(3, COPIES).start();
    let create = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    hosts[0].connect().sql(create).expect("it is made");
    let insert = |host: &Host, a: i64| {
        let inserted = host.connect().sql(&format!("INSERT INTO t VALUES ({a})"));
        inserted.expect("it is inserted");
    };
    (0..20).for_each(|a| insert(&hosts[0], a));
    // Clients of the host hold its port while it stands still.
    let clients: Vec<Connection> = (0..5).map(|_| hosts[1].connect()).collect();
    signal(&hosts[1], "-STOP");
    until(&hosts[0], "the host is lost", |it| it["hosts"][1]["state"] == "down");
    (20..40).for_each(|a| insert(&hosts[0], a));
    signal(&hosts[1], "-CONT");
    until(&hosts[0], "all copies are in sync", |it| {
        it["hosts"][1]["state"] == "up" && has_followers(it, 1)
    });
    drop(clients);
    // It answers at the same address, from copies that have everything.
    hosts[2].kill();
    until(&hosts[1], "the next host is lost", |it| {
        it["hosts"][2]["state"] == "down" && it["state"] == "running"
    });
    let count = hosts[1].connect().sql("SELECT COUNT(*) FROM t").expect("it counts");
    assert_eq!(count[0].rows, [[Value::Int(40)]]);
    signal(&hosts[1], "-TERM");
    let (is_well, said) = hosts[1].wait();
    assert!(is_well, "{said}");
}

#[test]
fn a_host_that_was_out_with_the_only_copy_of_a_partition_takes_part_again_with_all_others() {
    let stays = format!("{COPIES} --option rejoin_after_ms=0");
    let hosts = Cluster::new(3, &stays).start();
    let create = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    hosts[0].sql_in_the_end(create);
    for a in 0..3 {
        hosts[0].sql_in_the_end(&format!("UPSERT INTO t VALUES ({a})"));
    }
    // Host 1 has the only copies of what it shared with host 0, and then the coordinator, too.
    for victim in [0, 1] {
        signal(&hosts[victim], "-STOP");
        until(&hosts[2], "the host is lost", |it| it["hosts"][victim]["state"] == "down");
        signal(&hosts[victim], "-CONT");
        if victim == 0 {
            until(&hosts[0], "it knows that it is out", |it| it["state"] == "no majority");
        }
    }
    for host in &hosts[1..] {
        until(host, "it takes part again", |it| {
            it["hosts"][1]["state"] == "up" && it["state"] == "running"
        });
        let count = host.sql_in_the_end("SELECT COUNT(*) FROM t");
        assert_eq!(count[0].rows, [[Value::Int(3)]]);
    }
}

/// Inserts rows through a host until a call fails: the rows that were acknowledged, and how long
/// the last call took.
fn insert_until_failure(host: &Host, first: i64, call_timeout: Duration) -> (Vec<i64>, Duration) {
    let options = ConnectOptions { call_timeout, ..ConnectOptions::default() };
    let mut connection = Connection::connect(host.address(), &options).expect("it connects");
    let mut acknowledged = Vec::new();
    for a in first.. {
        let begin = Instant::now();
        let mut parameters = ParameterWriter::default();
        parameters.bigint(a);
        let response = connection.call("T.insert", &parameters);
        match response.and_then(|response| response.tables()) {
            Ok(_) => acknowledged.push(a),
            Err(_) => return (acknowledged, begin.elapsed()),
        }
    }
    unreachable!("the rows do not end")
}

#[test]
fn calls_in_progress_at_a_host_that_stood_still_end_when_it_goes_on() {
    let hosts = Cluster::new(3, COPIES).start();
    let create = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    hosts[0].connect().sql(create).expect("it is made");
    let limit = Duration::from_secs(40);
    let is_down = |it: &serde_json::Value| it["hosts"][1]["state"] == "down";
    let acknowledged = std::thread::scope(|scope| {
        let insert = |worker: i64| {
            let host = &hosts[1];
            scope.spawn(move || insert_until_failure(host, worker * 1_000_000, limit))
        };
        let workers: Vec<_> = (0..12).map(insert).collect();
        let deadline = Instant::now() + limit;
        let count = || hosts[0].connect().sql("SELECT a FROM t").expect("it counts")[0].rows.len();
        while count() < 200 {
            assert!(Instant::now() < deadline, "the rows are not inserted");
        }
        signal(&hosts[1], "-STOP");
        until(&hosts[0], "the host is lost", is_down);
        signal(&hosts[1], "-CONT");
        let mut acknowledged = Vec::new();
        for worker in workers {
            let (rows, last) = worker.join().expect("it inserts");
            assert!(last < limit, "a call has no end");
            acknowledged.extend(rows);
        }
        acknowledged
    });
    let found = hosts[0].connect().sql("SELECT a FROM t").expect("the others serve");
    let is_there = |a: &i64| found[0].rows.contains(&vec![Value::Int(*a)]);
    let lost: Vec<_> = acknowledged.iter().filter(|a| !is_there(a)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[test]
fn a_host_that_was_started_again_is_one_of_the_cluster_before_it_is_formed_and_not_after() {
    let cluster = Cluster::new(3, COPIES);
    let mut first = cluster.spawn(1);
    let others = [cluster.spawn(0), cluster.spawn(2)];
    // The hosts may have begun to form the cluster, or not.
    first.kill();
    let again = cluster.spawn(1);
    let mut hosts: Vec<Host> = others.into_iter().chain([again]).map(Host::ready).collect();
    for host in &hosts {
        assert_eq!(shown(host)["state"], "running");
    }
    // After it is formed it loads its copies from the others.
    hosts[2].kill();
    until(&hosts[0], "the host is lost", |it| it["hosts"][1]["state"] == "down");
    hosts[2] = cluster.spawn(1).ready();
    assert_eq!(shown(&hosts[0])["state"], "running", "the others go on");
}

/// Whether all partitions have this many followers.
pub fn has_followers(it: &serde_json::Value, count: usize) -> bool {
    let mut partitions = it["partitions"].as_array().into_iter().flatten();
    partitions.all(|partition| partition["followers"].as_array().map(Vec::len) == Some(count))
}

#[test]
fn a_killed_host_is_started_again_and_the_next_one_may_be_killed() {
    let cluster = Cluster::new(3, COPIES);
    let mut hosts = cluster.start();
    let create = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    hosts[0].connect().sql(create).expect("it is made");
    let mut rows = 0;
    let mut insert = |host: &Host| {
        for _ in 0..200 {
            let mut parameters = ParameterWriter::default();
            parameters.bigint(rows);
            let response = host.connect().call("T.insert", &parameters).expect("it answers");
            assert!(response.tables().is_ok(), "{response:?}");
            rows += 1;
        }
    };
    insert(&hosts[0]);
    for victim in [2, 1, 0, 2] {
        let other = (victim + 1) % 3;
        hosts[victim].kill();
        until(&hosts[other], "the host is lost", |it| it["hosts"][victim]["state"] == "down");
        insert(&hosts[other]);
        hosts[victim] = cluster.spawn_in(victim, &["--rejoin"]).ready();
        insert(&hosts[victim]);
        until(&hosts[other], "all copies are in sync", |it| {
            it["hosts"][victim]["state"] == "up" && has_followers(it, 1)
        });
    }
    for host in &hosts {
        let count = host.connect().sql("SELECT COUNT(*) FROM t").expect("it counts");
        assert_eq!(count[0].rows, [[Value::Int(rows)]]);
    }
}

#[test]
fn a_host_that_is_to_join_forms_no_cluster_and_takes_no_place_that_is_taken() {
    let cluster = Cluster::new(3, COPIES);
    let mut alone = cluster.spawn_in(0, &["--rejoin", "--option", "cluster_start_timeout_ms=1500"]);
    let others = [cluster.spawn(1), cluster.spawn(2)];
    let (is_well, said) = alone.wait();
    assert!(!is_well && said.contains("cluster_start_timeout_ms"), "{said}");
    let first = cluster.spawn(0);
    let hosts: Vec<Host> = [first].into_iter().chain(others).map(Host::ready).collect();
    let (is_well, said) = cluster.spawn_in(1, &["--rejoin"]).wait();
    assert!(!is_well && said.contains("cannot listen"), "{said}");
    assert_eq!(shown(&hosts[1])["state"], "running");
    let (is_well, said) = Cluster::new(3, "--sites 1").spawn_in(1, &["--rejoin"]).wait();
    assert!(!is_well && said.contains("--kfactor 1 or 2"), "{said}");
}

#[test]
fn a_host_whose_clock_is_off_ends_the_start_with_its_name() {
    // The one that finds it ends; the other may not have heard why, and waits for it then.
    let cluster = Cluster::new(2, "--sites 1 --option cluster_start_timeout_ms=3000");
    let mut hosts = [cluster.spawn(0), cluster.spawn_with(1, "60")];
    let said = hosts.each_mut().map(Host::wait);
    let named = said.iter().any(|(_, said)| {
        said.contains("the clock of host") && said.contains("synchronize the clocks")
    });
    assert!(named && said.iter().all(|(is_well, _)| !is_well), "{said:?}");
}

#[test]
fn a_shutdown_ends_every_process_cleanly() {
    let mut hosts = start(2, &[]);
    let stopped = lockstep(&["admin", "shutdown", "--server", &hosts[1].admin()], "");
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    for host in &mut hosts {
        let (is_well, said) = host.wait();
        assert!(is_well, "{said}");
    }
}

#[test]
fn members_that_do_not_fit_are_refused_with_what_would() {
    let start = |arguments: &[&str]| {
        let mut all = vec!["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        all.extend_from_slice(arguments);
        lockstep(&all, "")
    };
    let two = "127.0.0.1:4001,127.0.0.1:4002";
    let of = |more: &[&str]| {
        let mut all = vec!["--peers", two, "--internal", "127.0.0.1:4001"];
        all.extend_from_slice(more);
        start(&all)
    };
    refused(&of(&["--hosts", "3"]), &["--hosts is 3", "--peers names 2"]);
    refused(&of(&["--kfactor", "3"]), &["--kfactor", "0..=2"]);
    refused(&of(&["--kfactor", "2", "--sites", "1"]), &["K = 2 needs 3 hosts", "K = 1 would fit"]);
    let three = "127.0.0.1:4001,127.0.0.1:4002,127.0.0.1:4003";
    let odd = ["--peers", three, "--internal", "127.0.0.1:4001", "--kfactor", "1", "--sites", "1"];
    refused(&start(&odd), &["cannot be divided by 2 copies", "2 sites per host"]);
    refused(&of(&["--option", "lease_ms=300", "--kfactor", "1"]), &["lease_ms: 300 ms is not"]);
    refused(&start(&["--peers", two]), &["--internal"]);
    refused(
        &start(&["--peers", two, "--internal", "127.0.0.1:4003"]),
        &["127.0.0.1:4003", "none of --peers"],
    );
    let twice = "127.0.0.1:4001,127.0.0.1:4001";
    let internal = ["--peers", twice, "--internal", "127.0.0.1:4001"];
    refused(&start(&internal), &["names 127.0.0.1:4001 twice"]);
}
