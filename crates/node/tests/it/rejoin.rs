//! Hosts that were lost come back while their cluster goes on: they load their copies, which count
//! again.

use crate::hand_over::{Load, ROWS, SLOW, Seen, partitions_of, run_calls, schema};
use crate::support::{Peer, configuration, eventually};
use lockstep_node::{Server, ServerConfiguration, local_cluster};
use lockstep_types::Datum::Int;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Hosts of a cluster in this process, each of which can be lost and started again.
pub(crate) struct Hosts {
    members: Vec<ServerConfiguration>,
    pub(crate) servers: Vec<Option<Server>>,
}

impl Hosts {
    pub(crate) fn start(hosts: u32, kfactor: u8) -> Hosts {
        let members = local_cluster::members(hosts, kfactor, || configuration(2, &SLOW, None));
        let members = members.expect("there are free ports");
        let started = local_cluster::start(members.clone()).into_iter();
        let servers = started.map(|server| Some(server.expect("the cluster is formed"))).collect();
        Hosts { members, servers }
    }

    pub(crate) fn client(&self, host: usize) -> SocketAddr {
        self.servers[host].as_ref().expect("it runs").client_address()
    }

    pub(crate) fn lose(&mut self, host: usize) {
        drop(self.servers[host].take());
    }

    pub(crate) fn bring_back(&mut self, host: usize) {
        let server = Server::start(self.members[host].clone());
        self.servers[host] = Some(server.expect("it joins the cluster"));
    }

    /// Waits until all partitions have K followers again.
    pub(crate) fn await_copies(&self, by: usize, kfactor: usize) {
        let mut peer = Peer::login(self.client(by));
        eventually("all copies are in sync", || {
            let placed = partitions_of(&mut peer);
            placed.iter().all(|(_, followers)| followers.len() == kfactor)
        });
    }

    /// Stops all hosts; the contents of all copies of each partition, which are to be equal.
    pub(crate) fn stop(self) {
        let stop = |server: Server| std::thread::spawn(|| server.stop_with_digests());
        let stopping: Vec<_> = self.servers.into_iter().flatten().map(stop).collect();
        let digests = stopping.into_iter().map(|it| it.join().expect("it stops"));
        let digests: Vec<Vec<u64>> = digests.map(|it| it.expect("it stops in order")).collect();
        for partition in 0..digests[0].len() {
            let of_copies = digests.iter().map(|digests| digests[partition]);
            let mut of_copies: Vec<u64> = of_copies.filter(|digest| *digest != 0).collect();
            of_copies.dedup();
            assert!(of_copies.len() <= 1, "copies of partition {partition} differ");
        }
    }
}

/// Calls at a host of all kinds, by several threads.
pub(crate) fn bumps(address: SocketAddr, load: &Arc<Load>) -> Vec<JoinHandle<Seen>> {
    let single = |number: i64| {
        run_calls(address, load, move |peer, call| {
            let answer = peer.call("bump", &[Int((call * 7 + number) % ROWS)]);
            (answer.status, answer.text)
        })
    };
    let all = run_calls(address, load, |peer, call| {
        let answer = match call % 2 {
            0 => peer.call("bumpall", &[Int(ROWS)]),
            _ => peer.call("bumpr", &[Int(1)]),
        };
        (answer.status, answer.text)
    });
    [single(0), single(1), all].into()
}

pub(crate) fn sum(peer: &mut Peer) -> i64 {
    peer.run("SELECT SUM(n) FROM t").parse().expect("a number")
}

#[test]
fn a_host_that_was_lost_comes_back_under_load_and_takes_over() {
    for kfactor in [1, 2] {
        let mut hosts = Hosts::start(3, kfactor);
        schema(&mut Peer::login(hosts.client(0)));
        let load = Arc::new(Load::default());
        let threads = bumps(hosts.client(0), &load);
        for _ in 0..2 {
            load.go_on();
            hosts.lose(2);
            load.go_on();
            hosts.bring_back(2);
            hosts.await_copies(0, kfactor.into());
        }
        load.go_on();
        load.is_over.store(true, Ordering::Relaxed);
        let seen: Vec<Seen> = threads.into_iter().map(|it| it.join().expect("it ends")).collect();
        let failures: Vec<&String> = seen.iter().flat_map(|seen| &seen.failures).collect();
        // What was in progress at the lost host may have been executed.
        assert!(failures.iter().all(|text| text.starts_with("-7")), "{failures:?}");
        let mut peer = Peer::login(hosts.client(2));
        let single: i64 = seen[..2].iter().map(|seen| seen.calls).sum();
        let most = single + (seen[2].calls + 1) / 2 * ROWS;
        let before = sum(&mut peer);
        assert!(before <= most, "{before} of at most {most}");
        assert!(failures.len() as i64 * ROWS >= most - before, "{before}, most {most}");
        // The host that has come back leads when another one is lost, and lacks nothing.
        let note = peer.run("SELECT n FROM r");
        hosts.lose(1);
        let mut peer = Peer::login(hosts.client(2));
        eventually("the others have taken over", || {
            let answer = peer.call("bumpall", &[Int(0)]);
            answer.status == 1
        });
        assert_eq!(sum(&mut peer), before);
        assert_eq!(peer.run("SELECT n FROM r"), note);
        hosts.stop();
    }
}

/// A release that could not apply what the others do does not join them, and they go on.
#[test]
fn a_host_of_a_release_with_other_forms_does_not_join_a_cluster_that_serves() {
    let mut hosts = Hosts::start(3, 1);
    let mut peer = Peer::login(hosts.client(0));
    schema(&mut peer);
    hosts.lose(2);
    let mut member = hosts.members[2].clone();
    let terms = &mut member.cluster.as_mut().expect("it is a member").terms;
    terms.forms = format!("{}, more 1", terms.forms);
    let problem = Server::start(member).err().expect("it is of another release").to_string();
    assert!(problem.contains("more 1' here: the releases of the two hosts cannot"), "{problem}");
    eventually("the others go on", || peer.call("bumpall", &[Int(0)]).status == 1);
    hosts.bring_back(2);
    hosts.await_copies(0, 1);
    hosts.stop();
}

#[test]
fn the_schema_waits_for_copies_that_are_loaded_and_then_changes_everywhere() {
    let mut hosts = Hosts::start(3, 1);
    schema(&mut Peer::login(hosts.client(0)));
    hosts.lose(2);
    hosts.bring_back(2);
    let mut peer = Peer::login(hosts.client(0));
    eventually("the schema changes", || {
        let answer = peer.call("@AdHoc", &[lockstep_types::Datum::Text("CREATE TABLE u (a INT)")]);
        assert!(answer.status == 1 || answer.text.contains("are loaded"), "{answer:?}");
        answer.status == 1
    });
    hosts.await_copies(0, 1);
    hosts.lose(0);
    let mut peer = Peer::login(hosts.client(2));
    eventually("the table is there", || peer.call("U.insert", &[Int(1)]).status == 1);
    hosts.stop();
}
