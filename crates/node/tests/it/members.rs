//! Hosts of one process with copies of partitions: how their cluster is formed, and what it is
//! after the loss of a host.

use crate::support::{Answer, Peer, call_frame, configuration, eventually, parameters};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};

/// Hosts of which a busy machine suspects none that runs.
const SLOW: [&str; 4] = [
    "partitions_per_site=2",
    "heartbeat_interval_ms=100",
    "suspect_after_ms=1500",
    "lease_ms=1000",
];

/// Calls that are sent before the first of their answers is read.
const IN_FLIGHT: i64 = 200;

/// Starts a cluster with two copies of each partition, with a client at each host.
fn cluster(hosts: u32) -> (Vec<Server>, Vec<Peer>) {
    let members = local_cluster::members(hosts, 1, || configuration(1, &SLOW, None));
    let started = local_cluster::start(members.expect("there are free ports"));
    let servers: Vec<Server> = started.into_iter().map(|it| it.expect("it starts")).collect();
    let peers = servers.iter().map(|server| Peer::login(server.client_address())).collect();
    (servers, peers)
}

/// The tables of the cluster, its hosts and its partitions, as a host shows them: lines of values.
fn shown(peer: &mut Peer) -> [Vec<Vec<String>>; 3] {
    let Answer { status, text, rows, .. } = peer.call("@SystemInformation", &[Text("CLUSTER")]);
    assert_eq!((status, text.as_str()), (1, ""));
    let values = |line: &str| {
        // A list of followers has commas, too: one host is the most here.
        line.split(',').map(str::to_string).collect::<Vec<_>>()
    };
    let tables = rows.split(';').map(|table| table.lines().map(values).collect());
    let tables: Vec<_> = tables.take(3).collect();
    tables.try_into().expect("three tables, and that of copies that are loaded")
}

/// By host, its state as a host shows it.
fn states(peer: &mut Peer) -> Vec<String> {
    let [_, hosts, _] = shown(peer);
    hosts.into_iter().map(|mut host| host.remove(2)).collect()
}

#[test]
fn copies_are_at_other_hosts_than_their_leaders_and_every_host_shows_them() {
    let (_servers, mut peers) = cluster(3);
    let mut seen = Vec::new();
    for peer in &mut peers {
        let [cluster, hosts, partitions] = shown(peer);
        assert_eq!(cluster, [["running", "1", "0", "1"]]);
        let ids: Vec<&str> = hosts.iter().map(|host| host[0].as_str()).collect();
        assert_eq!(ids, ["0", "1", "2"]);
        assert!(hosts.iter().all(|host| host[2] == "up" && host[3].starts_with("127.0.0.1:")));
        let leaders: Vec<&str> = partitions.iter().map(|it| it[1].as_str()).collect();
        assert_eq!(leaders, ["0", "1", "2"], "leaders are spread");
        assert!(partitions.iter().all(|it| it[2] != it[1] && it[3] == "1"), "{partitions:?}");
        let topology = peer.call("@Statistics", &[Text("TOPO"), Int(0)]).rows;
        let sites = topology.lines().next().expect("partition 0");
        let follower = &partitions[0][2];
        assert!(sites.starts_with(&format!("0,0:0, {follower}:0,0:0")), "{sites}");
        let deployment = peer.call("@SystemInformation", &[Text("DEPLOYMENT")]).rows;
        assert!(deployment.lines().any(|row| row.starts_with("kfactor,1")), "{deployment}");
        assert!(deployment.lines().any(|row| row.starts_with("sitesperhost,2")), "{deployment}");
        seen.push(partitions);
    }
    assert!(seen.iter().all(|partitions| *partitions == seen[0]), "{seen:?}");
    let copies = peers[1].call("@Statistics", &[Text("COPIES"), Int(0)]).rows;
    for row in &seen[0] {
        let (id, leader, follower) = (&row[0], &row[1], &row[2]);
        // TIMESTAMP, HOST_ID, HOSTNAME, SITE_ID, PARTITION_ID, ROLE, EPOCH, UNAPPLIED_BYTES,
        // LOADED_ROWS, LOADED_BYTES, ROWS_TO_LOAD
        let has = |host: &str, rest: &str| {
            let of_host = |row: &&str| row.split(',').nth(1) == Some(host);
            copies.lines().filter(of_host).any(|row| row.ends_with(&format!(",{id},{rest}")))
        };
        assert!(has(leader, "LEADER,1,0,0,0,0") && has(follower, "FOLLOWER,1,0,0,0,0"), "{copies}");
    }
    assert_eq!(copies.lines().count(), 2 * seen[0].len(), "{copies}");
    assert_eq!(missing_copies(&mut peers[2]), ["0", "0", "0"]);
}

/// By partition, how many copies are missing.
fn missing_copies(peer: &mut Peer) -> Vec<String> {
    let rows = peer.call("@Statistics", &[Text("KSAFETY"), Int(0)]).rows;
    rows.lines().filter_map(|row| row.rsplit(',').next()).map(str::to_string).collect()
}

#[test]
fn a_lost_host_is_a_new_epoch_in_which_others_lead_its_partitions() {
    let (mut servers, mut peers) = cluster(3);
    peers.pop();
    drop(servers.pop());
    for peer in &mut peers {
        eventually("host 2 is lost", || states(peer) == ["up", "up", "down"]);
        eventually("others lead its partitions", || {
            let [cluster, _, partitions] = shown(peer);
            assert_eq!(cluster[0][0], "running");
            partitions.iter().all(|it| it[1] != "2" && it[2] != "2")
        });
        let [cluster, _, partitions] = shown(peer);
        let epoch: u64 = cluster[0][1].parse().expect("a number");
        assert!(epoch > 1, "{cluster:?}");
        let led = &partitions[2];
        assert!(led[3].parse::<u64>().expect("a number") > 1, "{led:?}");
        assert_eq!(led[2], "", "no other host has a copy");
        let alone = partitions.iter().map(|it| u8::from(it[2].is_empty()).to_string());
        assert_eq!(missing_copies(peer), alone.collect::<Vec<_>>());
    }
    for peer in &mut peers {
        // The hosts that are left answer for the cluster.
        let overview = peer.call("@SystemInformation", &[Text("OVERVIEW")]).rows;
        assert!(overview.lines().any(|row| row.starts_with("1,HOSTNAME,")), "{overview}");
        assert!(!overview.lines().any(|row| row.starts_with("2,")), "{overview}");
        assert_eq!(peer.call("@PingPartitions", &[Int(1)]).status, 1);
    }
}

#[test]
fn a_host_shows_its_cluster_also_at_the_moment_when_another_is_lost() {
    let (mut servers, mut peers) = cluster(3);
    let lost = (servers.pop(), peers.pop());
    let end = std::thread::spawn(move || drop(lost));
    let selector = parameters(&[Text("CLUSTER")]);
    let frame = |handle| call_frame("@SystemInformation", handle, &selector);
    let frames: Vec<u8> = (0..IN_FLIGHT).flat_map(frame).collect();
    for peer in &mut peers {
        eventually("host 2 is lost", || {
            peer.send(&frames);
            let answers: Vec<Answer> = (0..IN_FLIGHT).map(|_| peer.answer()).collect();
            let failed = answers.iter().find(|answer| answer.status != 1);
            assert!(failed.is_none(), "{failed:?}");
            states(peer) == ["up", "up", "down"]
        });
    }
    end.join().expect("the host stops");
}

#[test]
fn a_host_without_a_majority_refuses_all_calls_and_shows_its_cluster() {
    let (mut servers, mut peers) = cluster(3);
    peers[0].run("CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id))");
    peers[0].run("PARTITION TABLE t ON COLUMN id");
    let mut peer = peers.remove(1);
    drop(peers);
    let left = servers.remove(1);
    // Both at once: neither is lost in an epoch of its own.
    std::thread::scope(|scope| {
        servers.into_iter().for_each(|server| drop(scope.spawn(move || drop(server))));
    });
    eventually("it notices", || shown(&mut peer)[0][0][0] == "no majority");
    for (procedure, values) in [
        ("T.insert", &[Int(1)][..]),
        ("T.select", &[Int(1)]),
        ("@AdHoc", &[Text("SELECT COUNT(*) FROM t")]),
        ("@Pause", &[]),
    ] {
        let refused = peer.call(procedure, values);
        assert_eq!(refused.status, -5, "{procedure}: {refused:?}");
        assert!(refused.text.contains("not connected with a majority"), "{refused:?}");
    }
    let overview = peer.call("@SystemInformation", &[Text("OVERVIEW")]);
    assert!(overview.rows.contains("1,HOSTNAME,"), "{overview:?}");
    left.stop().expect("it can be stopped");
}

#[test]
fn hosts_that_do_not_agree_on_k_or_on_times_are_refused_by_name() {
    for (name, change) in [("kfactor=", 0), ("lease_ms=", 1)] {
        let mut members =
            local_cluster::members(2, 1, || configuration(1, &SLOW, None)).expect("free ports");
        let membership = members[1].cluster.as_mut().expect("it is a member");
        match change {
            0 => membership.terms.kfactor = 0,
            _ => membership.terms.times_ms[2] = 900,
        }
        for started in local_cluster::start(members) {
            let problem = started.err().expect("they do not agree").to_string();
            assert!(problem.contains(name), "{problem}");
        }
    }
}
