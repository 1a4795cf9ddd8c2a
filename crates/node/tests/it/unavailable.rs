//! Partitions of which every copy is lost, while the other hosts are a majority: calls that need
//! one are refused by name, and the others go on.

use crate::support::{Peer, call_frame, configuration, eventually, parameters};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};

/// Hosts of which a busy machine suspects none that runs, soon enough for a test.
const OPTIONS: [&str; 4] = [
    "heartbeat_interval_ms=100",
    "suspect_after_ms=2000",
    "lease_ms=800",
    "cluster_start_timeout_ms=60000",
];
const HOSTS: u32 = 5;
const KEYS: i64 = 20;

/// The tables that a host shows of its cluster, each as rows of values.
fn shown(peer: &mut Peer) -> Vec<Vec<Vec<String>>> {
    let answer = peer.call("@SystemInformation", &[Text("CLUSTER")]);
    assert_eq!(answer.status, 1, "{}", answer.text);
    let row = |line: &str| line.split(',').map(str::to_string).collect();
    answer.rows.split(';').map(|table| table.lines().map(row).collect()).collect()
}

#[test]
fn calls_that_need_a_partition_without_a_copy_are_refused() {
    let members = local_cluster::members(HOSTS, 1, || configuration(2, &OPTIONS, None));
    let started = local_cluster::start(members.expect("there are free ports"));
    let mut servers: Vec<Option<Server>> =
        started.into_iter().map(|it| Some(it.expect("the cluster is formed"))).collect();
    let address = servers[0].as_ref().expect("it runs").client_address();
    let mut peer = Peer::login(address);
    peer.run("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, b BIGINT)");
    peer.run("PARTITION TABLE t ON COLUMN a");
    for key in 0..KEYS {
        assert_eq!(peer.call("T.insert", &[Int(key), Int(0)]).status, 1);
    }
    let partitions = shown(&mut peer).swap_remove(2);
    // Host 0 answers and has the coordinator.
    let chosen = partitions.iter().find(|row| row[1] != "0" && row[2] != "0");
    let chosen = chosen.expect("host 0 has two of ten copies").clone();
    let (partition, leader) = (chosen[0].clone(), chosen[1].parse::<usize>().expect("a host"));
    let follower: usize = chosen[2].parse().expect("one follower");
    servers[follower] = None;
    eventually("the follower is lost", || shown(&mut peer)[1][follower][2] == "down");
    servers[leader] = None;
    // Whatever becomes of them, they end: also with the connection, where the answer waits for the
    // lost host.
    for key in 0..KEYS {
        let invocation = call_frame("T.insert", key, &parameters(&[Int(KEYS + key), Int(0)]));
        peer.send(&invocation);
        match peer.next_answer() {
            Some(answer) => assert!([1, -5, -7].contains(&answer.status), "{answer:?}"),
            None => peer = Peer::login(address),
        }
    }
    eventually("the host shows which one is unavailable", || {
        let tables = shown(&mut peer);
        let is_left = tables[2].iter().any(|row| row[0] == partition && row[4] == "unavailable");
        is_left && tables[0][0][0] == "unavailable"
    });
    let (mut served, mut refused) = (0, 0);
    for key in 0..KEYS {
        let read = format!("SELECT b FROM t WHERE a = {key}");
        let answers = [
            peer.call("T.update", &[Int(key), Int(1), Int(key)]),
            peer.call("@AdHoc", &[Text(&read)]),
        ];
        let statuses = answers.each_ref().map(|answer| answer.status);
        match statuses {
            [1, 1] => served += 1,
            _ => {
                assert_eq!(statuses, [-5, -5], "{answers:?}");
                assert!(answers.iter().all(|it| it.text.contains("cannot be served")));
                let name = format!("partition {partition} cannot be served");
                refused += usize::from(answers.iter().all(|it| it.text.contains(&name)));
            }
        }
    }
    assert!(served > 0 && refused > 0, "{served} served, {refused} refused");
    let all = peer.call("@AdHoc", &[Text("SELECT COUNT(*) FROM t")]);
    assert_eq!(all.status, -5, "{all:?}");
    assert!(all.text.contains(&partition) && all.text.contains("cannot be served"), "{all:?}");
}
