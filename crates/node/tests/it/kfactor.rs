//! Another K while a cluster runs: copies are given up, and loaded at hosts that serve.

use crate::hand_over::{Load, ROWS, Seen, partitions_of, schema};
use crate::rejoin::{self, bumps, sum};
use crate::rejoin_logs::{self, serves};
use crate::support::{Answer, Peer, eventually};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::Int;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

fn admin(server: &Option<Server>) -> Peer {
    Peer::login(server.as_ref().expect("it runs").admin_address())
}

fn set_k(server: &Option<Server>, k: i64) -> Answer {
    admin(server).call("@SetKFactor", &[Int(k)])
}

/// K is another one from now on; while copies are lacking, one that is raised waits for them.
fn change_k(server: &Option<Server>, k: i64) -> Answer {
    let mut answer = set_k(server, k);
    eventually("K is changed", || {
        if answer.status != 1 {
            assert!(answer.text.contains("has not all of its"), "{answer:?}");
            answer = set_k(server, k);
        }
        answer.status == 1
    });
    answer
}

fn await_followers(peer: &mut Peer, count: usize) {
    eventually("all copies are in sync", || {
        let placed = partitions_of(peer);
        placed.iter().all(|(_, followers)| followers.len() == count)
    });
}

/// The calls end, without other failures than those of hosts that were lost: how many rows were
/// changed at least, and at most.
fn ended(load: &Load, threads: Vec<JoinHandle<Seen>>) -> (i64, i64) {
    load.is_over.store(true, Ordering::Relaxed);
    let seen: Vec<Seen> = threads.into_iter().map(|it| it.join().expect("it ends")).collect();
    let failures: Vec<&String> = seen.iter().flat_map(|seen| &seen.failures).collect();
    assert!(failures.iter().all(|text| text.starts_with("-7")), "{failures:?}");
    let single: i64 = seen[..seen.len() - 1].iter().map(|seen| seen.calls).sum();
    let most = single + (seen[seen.len() - 1].calls + 1) / 2 * ROWS;
    (most - failures.len() as i64 * ROWS, most)
}

#[test]
fn k_goes_down_and_up_under_load_while_hosts_are_lost() {
    let mut hosts = rejoin::Hosts::start(3, 2);
    schema(&mut Peer::login(hosts.client(0)));
    let load = Arc::new(Load::default());
    let threads = bumps(hosts.client(0), &load);
    load.go_on();
    let answer = change_k(&hosts.servers[1], 1);
    assert_eq!(answer.rows, "1,0,2", "two partitions gave up a copy each");
    let mut peer = Peer::login(hosts.client(0));
    assert!(partitions_of(&mut peer).iter().all(|(_, followers)| followers.len() == 1));
    load.go_on();
    // With K = 1 a host may be lost; the copies are loaded again, if it comes back or not.
    hosts.lose(2);
    load.go_on();
    let refused = set_k(&hosts.servers[0], 2);
    assert!(refused.text.contains("host 2 is not up"), "{refused:?}");
    hosts.bring_back(2);
    await_followers(&mut peer, 1);
    load.go_on();
    let answer = change_k(&hosts.servers[0], 2);
    assert_eq!(answer.rows, "2,2,0");
    // A host that loads a copy is lost, and comes back to load all.
    hosts.lose(1);
    load.go_on();
    hosts.bring_back(1);
    await_followers(&mut peer, 2);
    load.go_on();
    let (least, most) = ended(&load, threads);
    let mut peer = Peer::login(hosts.client(1));
    serves(&mut peer);
    let found = sum(&mut peer);
    assert!((least..=most).contains(&found), "{found}: {least} to {most}");
    let note = peer.run("SELECT n FROM r");
    hosts.lose(0);
    let mut peer = Peer::login(hosts.client(2));
    serves(&mut peer);
    assert_eq!((sum(&mut peer), peer.run("SELECT n FROM r")), (found, note));
    hosts.stop();
}

/// The power of all hosts is cut, and all start: what each of them has, and how many followers
/// partitions get.
fn cut_and_start(
    hosts: &mut rejoin_logs::Hosts,
    durability: Durability,
    (expected, followers): (i64, usize),
) {
    hosts.cut_all();
    hosts.start_all(durability);
    for host in 0..3 {
        let mut peer = hosts.peer(host);
        serves(&mut peer);
        assert_eq!(sum(&mut peer), expected);
        await_followers(&mut peer, followers);
    }
}

fn is_durable(durability: Durability) {
    let mut hosts = rejoin_logs::Hosts::with_k(2, durability);
    schema(&mut hosts.peer(0));
    let mut expected = 0;
    let mut bump = |hosts: &rejoin_logs::Hosts| {
        let mut peer = hosts.peer(0);
        serves(&mut peer);
        assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
        assert_eq!(peer.call("@Quiesce", &[]).status, 1);
        expected += ROWS;
        expected
    };
    bump(&hosts);
    change_k(&hosts.servers[2], 1);
    // What the copies that were given up lack is never taken for the state of a partition.
    let expected = bump(&hosts);
    cut_and_start(&mut hosts, durability, (expected, 1));
    assert_eq!(change_k(&hosts.servers[0], 2).rows, "2,2,0");
    bump(&hosts);
    await_followers(&mut hosts.peer(1), 2);
    let expected = bump(&hosts);
    // All copies are durable, also those that were loaded at hosts that ran on.
    cut_and_start(&mut hosts, durability, (expected, 2));
    // Each host alone has what was answered: whichever one is lost next.
    for host in 0..3 {
        hosts.lose(host);
        let mut peer = hosts.peer((host + 1) % 3);
        serves(&mut peer);
        assert_eq!(sum(&mut peer), expected, "without host {host}");
        hosts.bring_back(host, durability);
        await_followers(&mut peer, 2);
    }
}

#[test]
fn another_k_survives_power_cuts_of_all_hosts() {
    is_durable(Durability::Sync);
}

#[test]
fn a_power_cut_of_all_while_copies_are_loaded_loses_nothing_and_they_are_loaded_after_it() {
    let durability = Durability::Sync;
    let mut hosts = rejoin_logs::Hosts::with_k(2, durability);
    schema(&mut hosts.peer(0));
    let mut expected = 0;
    for in_sync in 0..3 {
        change_k(&hosts.servers[0], 1);
        let mut peer = hosts.peer(0);
        serves(&mut peer);
        assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
        expected += ROWS;
        change_k(&hosts.servers[0], 2);
        eventually("as many partitions have all copies", || {
            let placed = partitions_of(&mut peer);
            placed.iter().filter(|(_, followers)| followers.len() == 2).count() >= in_sync
        });
        hosts.cut_all();
        hosts.start_all(durability);
        let mut peer = hosts.peer(1);
        serves(&mut peer);
        assert_eq!(sum(&mut peer), expected, "{in_sync} had all copies");
        await_followers(&mut peer, 2);
    }
}

#[test]
fn a_k_that_cannot_be_is_refused_with_the_limit() {
    let hosts = rejoin::Hosts::start(3, 1);
    for (k, text) in [
        (-1, "K is 0 to 2, not -1"),
        (3, "K is 0 to 2, not 3"),
        (1, "K is 1 already"),
        (2, "K = 2 needs 9 copies of 3 partitions"),
    ] {
        let answer = set_k(&hosts.servers[1], k);
        assert!(answer.status != 1 && answer.text.contains(text), "{answer:?}");
    }
    let mut client = Peer::login(hosts.client(0));
    assert!(client.call("@SetKFactor", &[Int(0)]).status != 1, "it is for administrators");
    // With K = 0 each partition is served by the leader that it had.
    schema(&mut client);
    let leaders = |peer: &mut Peer| -> Vec<i64> {
        partitions_of(peer).into_iter().map(|(leader, _)| leader).collect()
    };
    let before = leaders(&mut client);
    assert_eq!(set_k(&hosts.servers[2], 0).rows, "0,0,3");
    assert_eq!(client.call("bumpall", &[Int(ROWS)]).status, 1);
    assert_eq!((leaders(&mut client), sum(&mut client)), (before, ROWS));
    assert_eq!(set_k(&hosts.servers[0], 1).status, 1);
    hosts.await_copies(0, 1);
    hosts.stop();
}

/// By partition, its leader, its follower, and the host of three that has no copy, with K = 1.
fn placed(peer: &mut Peer) -> Vec<[i64; 3]> {
    let of =
        |(leader, followers): (i64, Vec<i64>)| [leader, followers[0], 3 - leader - followers[0]];
    partitions_of(peer).into_iter().map(of).collect()
}

fn await_move(peer: &mut Peer, partition: usize, expected: (i64, i64)) {
    eventually("the copy is moved", || {
        let (leader, followers) = partitions_of(peer).remove(partition);
        (leader, &followers[..]) == (expected.0, &[expected.1])
    });
}

#[test]
fn copies_move_to_other_hosts_under_load_and_leaders_with_them() {
    let mut hosts = rejoin::Hosts::start(3, 2);
    schema(&mut Peer::login(hosts.client(0)));
    let load = Arc::new(Load::default());
    let threads = bumps(hosts.client(0), &load);
    // One copy fewer of each partition: there is capacity.
    change_k(&hosts.servers[1], 1);
    let mut peer = Peer::login(hosts.client(0));
    let mut led = 0;
    for round in 0..6 {
        load.go_on();
        let all = placed(&mut peer);
        // One of the three hosts has copies of both partitions: it can give one up.
        let has_both = |host: &i64| all.iter().all(|[_, _, without]| without != host);
        let from = (0..3).find(has_both).expect("four copies are at three hosts");
        let [leader, follower, without] = all[round % 2];
        let call = [Int((round % 2) as i64), Int(from), Int(without)];
        let answer = admin(&hosts.servers[2]).call("@MovePartitionCopy", &call);
        assert_eq!(answer.status, 1, "{answer:?}");
        led += usize::from(from == leader);
        let expected = if from == leader { (without, follower) } else { (leader, without) };
        await_move(&mut peer, round % 2, expected);
    }
    assert!(led > 0, "leaders are moved, too");
    load.go_on();
    let (least, most) = ended(&load, threads);
    assert_eq!(least, most, "no call fails");
    let found = sum(&mut Peer::login(hosts.client(1)));
    assert_eq!(found, most);
    let [leader, follower, without] = placed(&mut peer)[0];
    for (call, text) in [
        ([0, without, leader], "has no copy of partition 0 that is in sync"),
        ([0, leader, follower], "has a copy of partition 0 already"),
        ([7, leader, without], "has no partition 7"),
    ] {
        let answer = admin(&hosts.servers[0]).call("@MovePartitionCopy", &call.map(Int));
        assert!(answer.status != 1 && answer.text.contains(text), "{answer:?}");
    }
    // The copies that were moved are whole: another host is lost, and they lead.
    hosts.lose(0);
    let mut peer = Peer::login(hosts.client(1));
    serves(&mut peer);
    assert_eq!(sum(&mut peer), found);
    hosts.stop();
}

#[test]
fn a_copy_that_was_moved_is_durable_at_its_new_host_and_void_at_the_old_one() {
    let durability = Durability::Sync;
    let mut hosts = rejoin_logs::Hosts::with_k(2, durability);
    let mut peer = hosts.peer(0);
    schema(&mut peer);
    change_k(&hosts.servers[0], 1);
    let all = placed(&mut peer);
    let has_both = |host: &i64| all.iter().all(|[_, _, without]| without != host);
    let from = (0..3).find(has_both).expect("four copies are at three hosts");
    let [leader, follower, without] = all[0];
    let call = [Int(0), Int(from), Int(without)];
    let answer = admin(&hosts.servers[1]).call("@MovePartitionCopy", &call);
    assert_eq!(answer.status, 1, "{answer:?}");
    let expected = if from == leader { (without, follower) } else { (leader, without) };
    await_move(&mut peer, 0, expected);
    assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
    hosts.cut_all();
    hosts.start_all(durability);
    for host in 0..3 {
        let mut peer = hosts.peer(host);
        serves(&mut peer);
        assert_eq!(sum(&mut peer), ROWS);
        let (leader, followers) = partitions_of(&mut peer).remove(0);
        assert!(leader != from && followers != [from], "{leader} {followers:?}");
    }
}
