//! Hosts with directories that are added and removed: a start of all hosts, at any moment, begins
//! with what was answered.

use crate::grow::{Growing, changed, plans};
use crate::hand_over::{Load, ROWS, partitions_of, schema};
use crate::rejoin::{bumps, sum};
use crate::rejoin_logs::serves;
use crate::support::{Peer, eventually};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};
use std::sync::Arc;

const SYNC: Option<Durability> = Some(Durability::Sync);

/// All hosts have what was answered, and calls go on.
fn all_have(cluster: &Growing, hosts: &[u32], expected: i64) {
    for host in hosts {
        let mut peer = cluster.peer(*host);
        serves(&mut peer);
        assert_eq!(sum(&mut peer), expected, "host {host}");
    }
}

/// Whether a copy that is being loaded has all of its rows.
fn has_loaded(peer: &mut Peer) -> bool {
    let rows = peer.call("@Statistics", &[Text("COPIES"), Int(0)]).rows;
    rows.lines().filter(|row| row.contains(",LOADING,")).any(|row| {
        let numbers: Vec<u64> =
            row.rsplit(',').take(3).map(|it| it.parse().expect("a number")).collect();
        let [to_load, bytes, rows] = numbers[..] else { panic!("{row}") };
        assert!(rows <= to_load, "{row}");
        rows > 0 && rows == to_load && bytes > rows
    })
}

fn bump(peer: &mut Peer) {
    serves(peer);
    assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
    assert_eq!(peer.call("@Quiesce", &[]).status, 1);
}

#[test]
fn a_cluster_that_grew_and_shrank_starts_again() {
    let mut cluster = Growing::new(SYNC, &[]);
    schema(&mut cluster.peer(0));
    let load = Arc::new(Load::default());
    let threads = bumps(cluster.client(1), &load);
    load.go_on();
    let host = cluster.add(1);
    cluster.start(host);
    // A copy that has its data does not count before they are durable.
    let mut peer = cluster.peer(1);
    eventually("it is shown how much was loaded", || has_loaded(&mut peer));
    cluster.await_copies(1, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    load.go_on();
    let expected = changed(&load, threads);
    assert_eq!(cluster.peer(1).call("@Quiesce", &[]).status, 1);
    // The first hosts know of it by what they have agreed on alone.
    cluster.cut_all();
    cluster.start_all();
    all_have(&cluster, &[0, 1, 2, 3], expected);
    cluster.await_copies(3, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    cluster.remove(0, 3);
    cluster.await_copies(3, &[(1, 4), (2, 4), (3, 4)]);
    bump(&mut cluster.peer(1));
    cluster.cut_all();
    cluster.start_all();
    all_have(&cluster, &[1, 2, 3], expected + ROWS);
    // A host comes back to a cluster that has other hosts than it was made with.
    cluster.lose(2);
    bump(&mut cluster.peer(3));
    cluster.start(2);
    cluster.await_copies(3, &[(1, 4), (2, 4), (3, 4)]);
    all_have(&cluster, &[1, 2, 3], expected + 2 * ROWS);
    cluster.stop_all();
}

#[test]
fn a_power_cut_of_all_while_a_host_gets_its_copies_loses_nothing() {
    for moved in [0, 2] {
        let mut cluster = Growing::new(SYNC, &["max_copy_moves=1"]);
        let mut peer = cluster.peer(0);
        schema(&mut peer);
        bump(&mut peer);
        let host = cluster.add(0);
        cluster.start(host);
        eventually("as many copies are there", || {
            let has = |it: &&(i64, Vec<i64>)| it.0 == 3 || it.1.contains(&3);
            partitions_of(&mut peer).iter().filter(has).count() >= moved
        });
        cluster.cut_all();
        cluster.start_all();
        all_have(&cluster, &[0, 1, 2, 3], ROWS);
        cluster.await_copies(0, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
        cluster.stop_all();
    }
}

#[test]
fn a_power_cut_of_all_while_a_host_is_removed_loses_nothing_and_the_removal_goes_on() {
    let mut cluster = Growing::new(SYNC, &["max_copy_moves=1"]);
    schema(&mut cluster.peer(0));
    let host = cluster.add(0);
    cluster.start(host);
    cluster.await_copies(0, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    bump(&mut cluster.peer(0));
    let mut admin = cluster.admin(1);
    assert_eq!(admin.call("@RemoveHost", &[Int(2)]).status, 1);
    eventually("a copy has gone", || {
        let has = |it: &&(i64, Vec<i64>)| it.0 == 2 || it.1.contains(&2);
        partitions_of(&mut admin).iter().filter(has).count() < 3
    });
    cluster.cut_all();
    cluster.start_all();
    let mut peer = cluster.peer(3);
    serves(&mut peer);
    eventually("it is removed", || !plans(&mut peer).contains_key(&2));
    cluster.forget(2);
    all_have(&cluster, &[0, 1, 3], ROWS);
    cluster.await_copies(3, &[(0, 4), (1, 4), (3, 4)]);
    cluster.stop_all();
}

/// A directory that is not of the cluster, or of a host that was removed, takes no part.
#[test]
fn a_host_that_was_removed_or_never_added_does_not_start_beside_the_others() {
    let mut cluster = Growing::new(SYNC, &[]);
    schema(&mut cluster.peer(0));
    let host = cluster.add(0);
    let (member, disk) = (cluster.members[&host].clone(), cluster.disks[&host].clone());
    cluster.start(host);
    cluster.await_copies(0, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    cluster.remove(host, 0);
    let data = Some(crate::durability::data(&disk, Durability::Sync));
    let removed = lockstep_node::ServerConfiguration { data, ..member };
    let problem = Server::start(removed).err().expect("it was removed").to_string();
    assert!(problem.contains("host 3 is not of the cluster: it was removed"), "{problem}");
    serves(&mut cluster.peer(0));
    cluster.stop_all();
}
