//! A host that has too little memory: all hosts of its cluster refuse what it would have to execute
//! as well, as long as it takes part.

use crate::hand_over::{SLOW, partitions_of};
use crate::support::{Peer, configuration, eventually};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};

/// The status of a call that is refused for now.
const UNAVAILABLE: i8 = -5;

#[test]
fn all_hosts_refuse_writes_while_one_is_at_its_memory_limit() {
    let members = local_cluster::members(3, 1, || configuration(2, &SLOW, None));
    let mut members = members.expect("there are free ports");
    for option in ["memory_limit_bytes=1", "resource_check_ms=10"] {
        members[2].options.set(option).expect("within its range");
    }
    let started = local_cluster::start(members.clone()).into_iter();
    let mut servers: Vec<Server> = started.map(|it| it.expect("it starts")).collect();
    let login = |server: &Server| Peer::login(server.client_address());
    let mut peers: Vec<Peer> = servers.iter().map(login).collect();
    peers[0].run("CREATE TABLE t (k BIGINT NOT NULL, PRIMARY KEY (k))");
    peers[0].run("PARTITION TABLE t ON COLUMN k");
    for peer in &mut peers[..2] {
        eventually("the host hears of it", || {
            // Until then rows are inserted.
            let answer = peer.sql("UPSERT INTO t VALUES (1)");
            let named = "host 2 of the cluster is at its memory limit";
            assert!(answer.status == 1 || answer.text.contains(named), "{answer:?}");
            answer.status == UNAVAILABLE
        });
        for key in 0..20 {
            let answer = peer.call("t.insert", &[Int(key)]);
            assert_eq!(answer.status, UNAVAILABLE, "{answer:?}");
        }
        assert_eq!(peer.sql("SELECT COUNT(*) FROM t").status, 1);
        assert_eq!(peer.sql("DELETE FROM t").status, 1);
        let state = peer.call("@SystemInformation", &[Text("OVERVIEW")]).rows;
        assert!(state.lines().any(|row| row == "0,CLUSTERSTATE,PAUSED"), "{state}");
    }
    // A host that joins meanwhile refuses the same, and no longer than the others.
    drop(servers.remove(1));
    let whole = |peer: &mut Peer| partitions_of(peer).iter().all(|(_, it)| it.len() == 1);
    eventually("host 1 is lost", || !whole(&mut peers[0]));
    servers.insert(1, Server::start(members[1].clone()).expect("it joins the cluster"));
    eventually("all copies are in sync", || whole(&mut peers[0]));
    peers[1] = login(&servers[1]);
    eventually("host 1 refuses writes", || {
        peers[1].call("t.upsert", &[Int(1)]).status == UNAVAILABLE
    });
    // A host that is lost executes nothing.
    drop(servers.pop());
    for peer in &mut peers[..2] {
        eventually("writes go on", || peer.call("t.upsert", &[Int(1)]).status == 1);
    }
}
