//! Hosts that are added to a cluster that serves, and removed from it: no call fails, and nothing
//! is lost.

use crate::durability::data;
use crate::hand_over::{Load, ROWS, SLOW, Seen, partitions_of, schema};
use crate::rejoin::{bumps, sum};
use crate::rejoin_logs::serves;
use crate::support::{Answer, Peer, configuration, eventually};
use lockstep_durability::directory::{ClusterFile, SeveralHosts, initialize};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::local_cluster::{self, ReservedPort};
use lockstep_node::log::{Durability, directory::new_cluster};
use lockstep_node::{Server, ServerConfiguration};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Hosts with which the cluster is made.
const MADE: u32 = 3;
/// Their partitions: three hosts with two sites and two copies at each, K = 1.
pub(crate) const PARTITIONS: usize = 6;

type Slot = Arc<Mutex<Option<Server>>>;

/// A cluster in this process of which the number of hosts changes.
pub(crate) struct Growing {
    pub(crate) members: BTreeMap<u32, ServerConfiguration>,
    pub(crate) disks: BTreeMap<u32, MemoryDisk>,
    servers: BTreeMap<u32, Slot>,
    durability: Option<Durability>,
}

fn new_disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let several = Some(SeveralHosts { hosts: MADE, sites: 2, kfactor: 1, witnesses: 0 });
    initialize(&disk, ClusterFile { several, ..new_cluster(PARTITIONS as u32) })
        .expect("an empty disk can be made");
    disk
}

impl Growing {
    pub(crate) fn new(durability: Option<Durability>, options: &[&str]) -> Growing {
        let options = [&SLOW[..], &["partitions_per_site=2"], options].concat();
        let members = local_cluster::members(MADE, 1, || configuration(2, &options, None));
        let members: BTreeMap<u32, ServerConfiguration> =
            (0..).zip(members.expect("there are free ports")).collect();
        let disks = match durability {
            Some(_) => members.keys().map(|host| (*host, new_disk())).collect(),
            None => BTreeMap::new(),
        };
        let mut cluster = Growing { members, disks, servers: BTreeMap::new(), durability };
        cluster.start_all();
        cluster
    }

    fn member(&self, host: u32) -> ServerConfiguration {
        let data = self.durability.map(|durability| data(&self.disks[&host], durability));
        ServerConfiguration { data, ..self.members[&host].clone() }
    }

    /// All hosts that are of the cluster start.
    pub(crate) fn start_all(&mut self) {
        let hosts: Vec<u32> = self.members.keys().copied().collect();
        let members = hosts.iter().map(|host| self.member(*host)).collect();
        for (host, started) in hosts.into_iter().zip(local_cluster::start(members)) {
            self.note_started(host, started.expect("the host starts"));
        }
    }

    pub(crate) fn start(&mut self, host: u32) {
        let server = Server::start(self.member(host)).expect("it joins the cluster");
        self.note_started(host, server);
    }

    /// A host that is asked to stop does so, as a process of its own would.
    fn note_started(&mut self, host: u32, server: Server) {
        let (stop, stops) = channel();
        let stop = Mutex::new(stop);
        server.on_shutdown(move || {
            let _ = stop.lock().expect("nobody panics with it").send(());
        });
        let slot: Slot = Arc::new(Mutex::new(Some(server)));
        self.servers.insert(host, Arc::clone(&slot));
        std::thread::spawn(move || {
            if stops.recv().is_ok()
                && let Some(server) = slot.lock().expect("nobody panics with it").take()
            {
                server.stop().expect("it stops in order");
            }
        });
    }

    fn with<T>(&self, host: u32, what: impl Fn(&Server) -> T) -> T {
        let server = self.servers[&host].lock().expect("nobody panics with it");
        what(server.as_ref().expect("it runs"))
    }

    pub(crate) fn client(&self, host: u32) -> SocketAddr {
        self.with(host, Server::client_address)
    }

    pub(crate) fn peer(&self, host: u32) -> Peer {
        Peer::login(self.client(host))
    }

    pub(crate) fn admin(&self, host: u32) -> Peer {
        Peer::login(self.with(host, Server::admin_address))
    }

    /// A host is added, by a call at another one; it is not started.
    pub(crate) fn add(&mut self, at: u32) -> u32 {
        let port = ReservedPort::new().expect("there are free ports");
        let address = port.address().to_string();
        let mut admin = self.admin(at);
        let answer = admin.call("@AddHost", &[Text(&address)]);
        assert_eq!(answer.status, 1, "{answer:?}");
        let host: u32 = answer.rows.split(',').next().and_then(|it| it.parse().ok()).expect("one");
        assert!(answer.rows.contains(&format!("{host}={address}")), "{answer:?}");
        let again = admin.call("@AddHost", &[Text(&address)]);
        assert!(again.text.contains(&format!("the address of host {host}")), "{again:?}");
        let options = &self.members[&at].options;
        let made = ServerConfiguration { options: options.clone(), ..configuration(2, &[], None) };
        let known = self.members[&at].clone();
        let added = local_cluster::added_to(&known, HostId(host), &port, made);
        self.members.insert(host, added);
        if self.durability.is_some() {
            self.disks.insert(host, new_disk());
        }
        host
    }

    /// The process of a host ends, and what was not durable is lost.
    pub(crate) fn lose(&mut self, host: u32) {
        if let Some(disk) = self.disks.get_mut(&host) {
            *disk = disk.survivor(|_| Survival::Lost);
        }
        drop(self.servers[&host].lock().expect("nobody panics with it").take());
    }

    /// The power of all is cut at one moment.
    pub(crate) fn cut_all(&mut self) {
        let (hosts, disks): (Vec<u32>, Vec<MemoryDisk>) =
            std::mem::take(&mut self.disks).into_iter().unzip();
        let left = MemoryDisk::survivors(&disks, |_| Survival::Lost);
        self.disks = hosts.into_iter().zip(left).collect();
        self.stop_all();
    }

    pub(crate) fn stop_all(&mut self) {
        let slots = std::mem::take(&mut self.servers).into_values();
        let stop = |slot: Slot| {
            std::thread::spawn(move || drop(slot.lock().expect("nobody panics with it").take()))
        };
        let stopping: Vec<JoinHandle<()>> = slots.map(stop).collect();
        stopping.into_iter().for_each(|it| it.join().expect("it ends"));
    }

    /// A host is removed, by a call at another one; waits until it is not listed any more.
    pub(crate) fn remove(&mut self, host: u32, at: u32) {
        let mut admin = self.admin(at);
        let answer = admin.call("@RemoveHost", &[Int(host.into())]);
        assert_eq!(answer.status, 1, "{answer:?}");
        eventually("the host is removed", || !plans(&mut admin).contains_key(&host));
        self.forget(host);
    }

    /// A host that was removed has stopped.
    pub(crate) fn forget(&mut self, host: u32) {
        let slot = self.servers.remove(&host).expect("it is known");
        eventually("it has stopped", || slot.lock().expect("nobody panics with it").is_none());
        self.members.remove(&host);
        self.disks.remove(&host);
        for member in self.members.values_mut() {
            let cluster = member.cluster.as_mut().expect("it is a member");
            cluster.added.retain(|(added, _)| added.0 != host);
        }
    }

    /// Waits until hosts have these numbers of copies, all of which are in sync.
    pub(crate) fn await_copies(&self, at: u32, expected: &[(u32, usize)]) {
        let mut peer = self.peer(at);
        let mut seen = BTreeMap::new();
        let expected: BTreeMap<u32, usize> = expected.iter().copied().collect();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while seen != expected {
            assert!(std::time::Instant::now() < deadline, "{seen:?}, not {expected:?}");
            seen = copies(&mut peer);
            std::thread::yield_now();
        }
    }
}

/// Copies in sync by host; nothing while a partition has others than two.
fn copies(peer: &mut Peer) -> BTreeMap<u32, usize> {
    let placed = partitions_of(peer);
    let mut counts = BTreeMap::new();
    if placed.len() != PARTITIONS || placed.iter().any(|(_, followers)| followers.len() != 1) {
        return counts;
    }
    for host in placed.iter().flat_map(|(leader, followers)| followers.iter().chain([leader])) {
        *counts.entry(*host as u32).or_default() += 1;
    }
    counts
}

/// Of the copies that have moved, as all hosts know them: how much of 100, rows, and what time is
/// left, milliseconds.
fn rebalanced(peer: &mut Peer) -> (f64, i64, i64) {
    let mut seen = None;
    eventually("the moves are over", || {
        let answer = peer.call("@Statistics", &[Text("REBALANCE"), Int(0)]);
        assert_eq!(answer.rows.lines().count(), 1, "{answer:?}");
        let cells: Vec<&str> = answer.rows.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().expect("a number");
        seen = Some((number(1), number(2) as i64, number(4) as i64));
        number(1) >= 100.0
    });
    seen.expect("it was seen")
}

/// What becomes of each host that is listed.
pub(crate) fn plans(peer: &mut Peer) -> BTreeMap<u32, String> {
    let answer = peer.call("@SystemInformation", &[Text("CLUSTER")]);
    let table = answer.rows.split(';').nth(1).expect("a table of hosts");
    let plan = |line: &str| {
        let number = line.split(',').next().and_then(|number| number.parse().ok());
        let plan = line.rsplit(',').next().expect("a plan").trim_matches('"').to_string();
        (number.expect("hosts have numbers"), plan)
    };
    table.lines().map(plan).collect()
}

/// The calls end, and none of them has failed: how many rows were changed.
pub(crate) fn changed(load: &Load, threads: Vec<JoinHandle<Seen>>) -> i64 {
    load.is_over.store(true, Ordering::Relaxed);
    let seen: Vec<Seen> = threads.into_iter().map(|it| it.join().expect("it ends")).collect();
    let failures: Vec<&String> = seen.iter().flat_map(|seen| &seen.failures).collect();
    assert!(failures.is_empty(), "no call fails: {failures:?}");
    let (all, single) = seen.split_last().expect("several threads");
    single.iter().map(|seen| seen.calls).sum::<i64>() + (all.calls + 1) / 2 * ROWS
}

fn refused(answer: &Answer, text: &str) {
    assert!(answer.status != 1 && answer.text.contains(text), "{answer:?}");
}

#[test]
fn hosts_are_added_and_removed_under_load_and_no_call_fails() {
    let mut cluster = Growing::new(None, &[]);
    schema(&mut cluster.peer(0));
    let load = Arc::new(Load::default());
    let threads = bumps(cluster.client(1), &load);
    load.go_on();
    let host = cluster.add(1);
    assert_eq!(host, MADE);
    load.go_on();
    cluster.start(host);
    cluster.await_copies(1, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    let led = partitions_of(&mut cluster.peer(host)).iter().filter(|(it, _)| *it == 3).count();
    assert!(led > 0, "it leads partitions, too");
    eventually("it has its share", || plans(&mut cluster.peer(2))[&host] == "stays");
    // Three copies have moved, with the rows that each partition has.
    let moved = rebalanced(&mut cluster.peer(2));
    assert_eq!((moved.0, moved.2), (100.0, 0));
    let all = ROWS as f64;
    assert!((0.2 * all..=0.9 * all).contains(&(moved.1 as f64)), "{moved:?} of {all} rows");
    load.go_on();
    // The coordinator of transactions is at the host that goes.
    cluster.remove(0, 1);
    cluster.await_copies(2, &[(1, 4), (2, 4), (3, 4)]);
    load.go_on();
    let next = cluster.add(3);
    assert_eq!(next, 4, "no number is given twice");
    cluster.start(next);
    cluster.await_copies(3, &[(1, 3), (2, 3), (3, 3), (4, 3)]);
    load.go_on();
    let expected = changed(&load, threads);
    for host in [1, 2, 3, 4] {
        assert_eq!(sum(&mut cluster.peer(host)), expected);
    }
    // The new hosts lead where others are lost, and lack nothing.
    cluster.lose(1);
    let mut peer = cluster.peer(4);
    serves(&mut peer);
    assert_eq!(sum(&mut peer), expected);
    cluster.start(1);
    cluster.await_copies(4, &[(1, 3), (2, 3), (3, 3), (4, 3)]);
    cluster.stop_all();
}

#[test]
fn what_cannot_be_added_or_removed_is_refused_with_the_reason() {
    let mut cluster = Growing::new(None, &[]);
    let mut admin = cluster.admin(0);
    for (address, text) in [
        ("", "is no address and port"),
        ("somewhere", "'somewhere' is no address and port"),
        ("0.0.0.0:3021", "other hosts cannot connect to 0.0.0.0:3021"),
    ] {
        refused(&admin.call("@AddHost", &[Text(address)]), text);
    }
    refused(&admin.call("@RemoveHost", &[Int(7)]), "no host 7");
    refused(&admin.call("@RemoveHost", &[Int(1)]), "that is 8 copies, and 6 partitions");
    refused(&admin.call("@KeepHost", &[Int(1)]), "Host 1 is not being removed");
    let mut client = cluster.peer(0);
    assert!(client.call("@RemoveHost", &[Int(1)]).status != 1, "it is for administrators");
    // A host that never came is removed at once, and its process does not join afterwards.
    let host = cluster.add(2);
    assert_eq!(plans(&mut admin)[&host], "fills");
    assert_eq!(admin.call("@RemoveHost", &[Int(host.into())]).status, 1);
    eventually("it is not listed", || !plans(&mut admin).contains_key(&host));
    let member = cluster.members.get_mut(&host).expect("it was added");
    member.options.set("cluster_start_timeout_ms=3000").expect("it is an option");
    let problem = Server::start(member.clone()).err().expect("it is not of the cluster");
    assert!(problem.to_string().contains("was not formed in 3000 ms"), "{problem}");
    cluster.stop_all();
}

#[test]
fn a_removal_is_cancelled_and_one_is_at_a_time() {
    let mut cluster = Growing::new(None, &["max_copy_moves=1"]);
    schema(&mut cluster.peer(0));
    let host = cluster.add(0);
    cluster.start(host);
    cluster.await_copies(0, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    let mut admin = cluster.admin(2);
    // What the hosts lead goes to the new one as well.
    for host in 0..3 {
        let drained = admin.call("@PrepareStopNode", &[Int(host)]);
        assert_eq!(drained.status, 1, "{drained:?}");
        assert!(partitions_of(&mut cluster.peer(0)).iter().all(|(leader, _)| *leader != host));
    }
    assert_eq!(admin.call("@RemoveHost", &[Int(0)]).status, 1);
    refused(&admin.call("@RemoveHost", &[Int(1)]), "host 0 is being removed");
    refused(&admin.call("@SetKFactor", &[Int(0)]), "being");
    assert_eq!(admin.call("@KeepHost", &[Int(0)]).status, 1);
    eventually("it stays", || plans(&mut admin)[&0] == "stays");
    serves(&mut cluster.peer(0));
    cluster.stop_all();
}
