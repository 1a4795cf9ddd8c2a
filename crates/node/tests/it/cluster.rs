//! Several hosts of one process, each with its part of the partitions: what a client gets does not
//! depend on the host that it is connected to.

use crate::support::{Peer, call_frame, configuration, eventually};
use lockstep_node::{Server, ServerConfiguration, local_cluster};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::parameter::ParameterWriter;
use lockstep_workloads::bank;

const ACCOUNTS: i64 = 40;

/// Hosts of one cluster, not started.
fn members((hosts, kfactor): (u32, u8), sites: u32, options: &[&str]) -> Vec<ServerConfiguration> {
    // A busy machine suspects no host that runs.
    let patient = ["heartbeat_interval_ms=500", "suspect_after_ms=20000", "lease_ms=15000"];
    let more = if kfactor > 0 { &patient[..] } else { &[] };
    let options = [more, options].concat();
    let host = || configuration(sites, &options, None);
    local_cluster::members(hosts, kfactor, host).expect("there are free ports")
}

/// Starts a cluster for a test of one host, which gets one that does not lead. The others stay
/// until the process ends.
pub fn start_as_cluster(hosts: (u32, u8), sites: u32, options: &[&str]) -> std::io::Result<Server> {
    let mut started = local_cluster::start(members(hosts, sites, options));
    let last = started.pop().expect("there are hosts");
    std::mem::forget(started);
    last
}

/// Starts a cluster, with a client at each host.
fn cluster(hosts: u32, sites: u32, options: &[&str]) -> (Vec<Server>, Vec<Peer>) {
    let started = local_cluster::start(members((hosts, 0), sites, options));
    let servers: Vec<Server> = started.into_iter().map(|it| it.expect("it starts")).collect();
    let peers = servers.iter().map(|server| Peer::login(server.client_address())).collect();
    (servers, peers)
}

#[test]
fn calls_of_one_partition_are_answered_by_every_host() {
    let (_servers, mut peers) = cluster(3, 2, &[]);
    peers[1].run("CREATE TABLE t (id BIGINT NOT NULL, v VARCHAR(20), PRIMARY KEY (id))");
    peers[2].run("PARTITION TABLE t ON COLUMN id");
    for id in 0..60 {
        let peer = &mut peers[id as usize % 3];
        let answer = peer.call("T.insert", &[Int(id), Text("row")]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "1"), "{answer:?}");
    }
    for peer in &mut peers {
        for id in [0, 7, 59] {
            assert_eq!(peer.run(&format!("SELECT v FROM t WHERE id = {id}")), "row");
        }
        assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "60");
        let again = peer.call("T.insert", &[Int(5), Text("again")]);
        assert!(again.text.contains("unique") || again.status != 1, "{again:?}");
    }
}

#[test]
fn transactions_over_partitions_of_several_hosts_are_atomic() {
    let (_servers, mut peers) = cluster(3, 1, &[]);
    peers[2].run(bank::SCHEMA);
    peers[1].run(bank::NATIVE_SCHEMA);
    for account in 0..ACCOUNTS {
        assert_eq!(peers[0].call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
    }
    for (number, peer) in peers.iter_mut().enumerate() {
        for name in ["Transfer", "TransferAnywhere"] {
            let (from, to) = (number as i64, number as i64 + 7);
            let answer = peer.call(name, &[Int(from), Int(to), Int(5)]);
            assert_eq!(answer.status, 1, "{name}: {answer:?}");
            let refused = peer.call(name, &[Int(4), Int(999), Int(1)]);
            assert!(refused.text.contains("there is no account 999"), "{refused:?}");
        }
        for name in ["TransferSql", "TransferAll"] {
            let answer = peer.call(name, &[Int(-3), Int(8), Int(3), Int(9)]);
            assert_eq!((answer.status, answer.rows.as_str()), (1, "1;1"), "{answer:?}");
        }
        let total = peer.call("Total", &[]).rows;
        assert_eq!(total, format!("{},{ACCOUNTS}", ACCOUNTS * 100));
    }
}

#[test]
fn many_calls_at_once_keep_the_sum() {
    let (servers, mut peers) = cluster(2, 2, &["partitions_per_site=2"]);
    peers[0].run(bank::SCHEMA);
    peers[0].run(bank::NATIVE_SCHEMA);
    for account in 0..ACCOUNTS {
        assert_eq!(peers[1].call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
    }
    std::thread::scope(|scope| {
        for (number, server) in servers.iter().enumerate() {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut peer = Peer::login(server.client_address());
                    for call in 0..200 {
                        let from = (call * 7 + number as i64 * 3 + thread) % ACCOUNTS;
                        let to = (from + 1 + call % 5) % ACCOUNTS;
                        let name = ["Transfer", "TransferAnywhere"][call as usize % 2];
                        let answer = peer.call(name, &[Int(from), Int(to), Int(1)]);
                        assert!(answer.status == 1 || answer.text.contains("has"), "{answer:?}");
                    }
                });
            }
        }
    });
    for peer in &mut peers {
        assert_eq!(peer.call("Total", &[]).rows, format!("{},{ACCOUNTS}", ACCOUNTS * 100));
    }
}

#[test]
fn schema_global_indexes_and_replicated_tables_are_those_of_the_cluster() {
    let (_servers, mut peers) = cluster(2, 2, &[]);
    peers[1].run("CREATE TABLE r (id BIGINT NOT NULL, n BIGINT, PRIMARY KEY (id))");
    peers[1].run("CREATE TABLE p (id BIGINT NOT NULL, k BIGINT NOT NULL, PRIMARY KEY (id))");
    peers[0].run("PARTITION TABLE p ON COLUMN id");
    for id in 0..30 {
        peers[id as usize % 2].run(&format!("INSERT INTO p VALUES ({id}, {})", 1000 + id));
        peers[id as usize % 2].run(&format!("INSERT INTO r VALUES ({id}, {id})"));
    }
    // Built over rows of both hosts.
    peers[1].run("CREATE GLOBAL UNIQUE INDEX by_k ON p (k)");
    for peer in &mut peers {
        assert_eq!(peer.run("SELECT id FROM p WHERE k = 1017"), "17");
        assert_eq!(peer.run("SELECT SUM(n) FROM r"), "435");
        let joined = "SELECT COUNT(*) FROM p, r WHERE p.id = r.id";
        assert_eq!(peer.run(joined), "30");
        let twice = peer.call("@AdHoc", &[Text("INSERT INTO p VALUES (77, 1003)")]);
        assert_ne!(twice.status, 1, "{twice:?}");
    }
    peers[0].run("CREATE PROCEDURE ByKey AS SELECT id FROM p WHERE k = ?");
    for peer in &mut peers {
        assert_eq!(peer.call("ByKey", &[Int(1029)]).rows, "29");
    }
    let refused = peers[1].call("@AdHoc", &[Text("CREATE TABLE r (id BIGINT)")]);
    assert!(refused.status != 1 && refused.text.to_lowercase().contains("exist"), "{refused:?}");
    peers[1].run("DROP PROCEDURE ByKey");
    let gone = peers[0].call("ByKey", &[Int(1)]);
    assert!(gone.text.contains("not found"), "{gone:?}");
}

#[test]
fn system_procedures_answer_for_all_hosts() {
    let (_servers, mut peers) = cluster(2, 2, &[]);
    peers[0].run("CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id))");
    peers[0].run("PARTITION TABLE t ON COLUMN id");
    for peer in &mut peers {
        let rows = peer.call("@Statistics", &[Text("TABLE"), Int(0)]).rows;
        let hosts: Vec<&str> = rows.lines().filter_map(|row| row.split(',').nth(1)).collect();
        assert_eq!(hosts.iter().filter(|host| **host == "0").count(), 2, "{rows}");
        assert_eq!(hosts.iter().filter(|host| **host == "1").count(), 2, "{rows}");
        let overview = peer.call("@SystemInformation", &[Text("OVERVIEW")]).rows;
        assert!(overview.lines().any(|row| row.starts_with("1,CLIENTPORT,")), "{overview}");
        // Clients refuse hosts of another cluster.
        let made = overview.lines().filter_map(|row| row.split_once(",CREATIONTIME,"));
        let made: std::collections::BTreeSet<&str> = made.map(|(_, time)| time).collect();
        assert_eq!(made.len(), 1, "{overview}");
        assert_eq!(peer.call("@PingPartitions", &[Int(1)]).status, 1);
        let topology = peer.call("@Statistics", &[Text("TOPO"), Int(0)]).rows;
        let leaders = topology.split(';').next().unwrap_or_default();
        assert!(leaders.contains("0,0:0,0:0") && leaders.contains("3,1:1,1:1"), "{topology}");
    }
}

#[test]
fn tasks_and_expired_rows_are_handled_once_for_the_cluster() {
    let (_servers, mut peers) = cluster(2, 1, &["ttl_check_ms=20", "task_min_interval_ms=1"]);
    peers[1].run(
        "CREATE TABLE old (id BIGINT NOT NULL, made TIMESTAMP NOT NULL, PRIMARY KEY (id)) \
         USING TTL 1 HOURS ON COLUMN made",
    );
    peers[1].run("PARTITION TABLE old ON COLUMN id");
    peers[1].run("CREATE INDEX by_time ON old (made)");
    for id in 0..20 {
        let hours = if id % 2 == 0 { -2 } else { 0 };
        peers[0].run(&format!("INSERT INTO old VALUES ({id}, DATEADD(HOUR, {hours}, NOW))"));
    }
    eventually("old rows are deleted", || peers[1].run("SELECT COUNT(*) FROM old") == "10");
}

#[test]
fn a_host_with_other_terms_is_refused_by_name() {
    let mut members = members((2, 0), 1, &[]);
    let other = &mut members[1];
    other.sites = 2;
    let membership = other.cluster.as_mut().expect("it is a member");
    membership.terms.sites = 2;
    for started in local_cluster::start(members) {
        let problem = started.err().expect("they do not agree").to_string();
        assert!(problem.contains("sites="), "{problem}");
    }
}

#[test]
fn a_host_of_a_release_with_other_forms_is_refused_by_name() {
    for kfactor in [0, 1] {
        let mut members = members((2, kfactor), 2, &[]);
        let terms = &mut members[1].cluster.as_mut().expect("it is a member").terms;
        terms.forms = "heartbeat 99".to_string();
        for started in local_cluster::start(members) {
            let problem = started.err().expect("they do not agree").to_string();
            let is_named = problem.contains("'forms=heartbeat 99'")
                || problem.contains("here: the releases of the two hosts cannot be in one cluster");
            assert!(is_named && problem.contains("has other terms"), "{problem}");
        }
    }
}

#[test]
fn a_host_that_is_gone_ends_the_others_which_name_it() {
    let (mut servers, peers) = cluster(2, 1, &["host_timeout_ms=300"]);
    let (asked, stops) = std::sync::mpsc::channel();
    servers[0].on_shutdown(move || {
        let _ = asked.send(());
    });
    drop(peers);
    drop(servers.pop());
    let waited = stops.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!(waited, Ok(()), "the host asks to be stopped");
    let problem = servers.pop().expect("it is there").stop().expect_err("it could not go on");
    assert!(problem.to_string().contains("host 1 is lost: nothing was heard of it"), "{problem}");
}

#[test]
fn a_stop_that_a_client_asks_for_reaches_every_host() {
    let started = local_cluster::start(members((3, 0), 1, &[]));
    let servers: Vec<Server> = started.into_iter().map(|it| it.expect("it starts")).collect();
    let (asked, stops) = std::sync::mpsc::channel();
    for (number, server) in servers.iter().enumerate() {
        let asked = asked.clone();
        server.on_shutdown(move || {
            let _ = asked.send(number);
        });
    }
    let mut administrator = Peer::login(servers[2].admin_address());
    administrator.send(&call_frame("@Shutdown", 1, &ParameterWriter::default()));
    let patience = std::time::Duration::from_secs(20);
    let mut stopped: Vec<usize> =
        (0..3).map(|_| stops.recv_timeout(patience).expect("all are asked to stop")).collect();
    stopped.sort_unstable();
    assert_eq!(stopped, [0, 1, 2]);
}
