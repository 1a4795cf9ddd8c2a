//! Hosts with directories that were lost come back while their cluster goes on: they load their
//! copies, which are durable before they count.

use crate::durability::data;
use crate::hand_over::{Load, ROWS, Seen, partitions_of, run_calls, schema};
use crate::support::{Peer, configuration, eventually};
use lockstep_durability::command_log;
use lockstep_durability::directory::rejoin::REJOIN_FILE;
use lockstep_durability::directory::{ClusterFile, SNAPSHOT_FOLDER, SeveralHosts, initialize};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, OpenMode};
use lockstep_node::log::{Durability, directory::new_cluster};
use lockstep_node::{Server, ServerConfiguration, local_cluster};
use lockstep_types::Datum::Int;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// A host is lost soon, and a busy machine suspects none that runs.
const SLOW: [&str; 6] = [
    "heartbeat_interval_ms=100",
    "suspect_after_ms=2500",
    "lease_ms=800",
    "log_segment_bytes=131072",
    "statistics_interval_ms=0",
    "cluster_start_timeout_ms=60000",
];

fn new_disk(kfactor: u8) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let several = Some(SeveralHosts { hosts: 3, sites: 2, kfactor, witnesses: 0 });
    initialize(&disk, ClusterFile { several, ..new_cluster(6 / (u32::from(kfactor) + 1)) })
        .expect("an empty disk can be made");
    disk
}

/// The directory as a power cut would leave it.
fn cut(disk: &MemoryDisk) -> MemoryDisk {
    disk.survivor(|_| Survival::Lost)
}

/// Three hosts of a cluster in this process, each with a directory.
pub(crate) struct Hosts {
    pub(crate) members: Vec<ServerConfiguration>,
    pub(crate) disks: Vec<MemoryDisk>,
    pub(crate) servers: Vec<Option<Server>>,
}

impl Hosts {
    pub(crate) fn new(durability: Durability) -> Hosts {
        Hosts::with_k(1, durability)
    }

    pub(crate) fn with_k(kfactor: u8, durability: Durability) -> Hosts {
        let disks: Vec<MemoryDisk> = (0..3).map(|_| new_disk(kfactor)).collect();
        let members = local_cluster::members(3, kfactor, || {
            configuration(2, &SLOW, Some(data(&disks[0], durability)))
        });
        let members = members.expect("there are free ports");
        let mut hosts = Hosts { members, disks, servers: (0..3).map(|_| None).collect() };
        hosts.start_all(durability);
        hosts
    }

    /// What a host is started with, with the directory that it has now.
    fn member(&self, host: usize, durability: Durability) -> ServerConfiguration {
        let data = Some(data(&self.disks[host], durability));
        ServerConfiguration { data, ..self.members[host].clone() }
    }

    pub(crate) fn start_all(&mut self, durability: Durability) {
        self.start_first(3, durability);
    }

    /// The first hosts start together, and the others do not.
    fn start_first(&mut self, count: usize, durability: Durability) {
        let members = (0..count).map(|host| self.member(host, durability)).collect();
        let started = local_cluster::start(members).into_iter();
        for (server, started) in self.servers.iter_mut().zip(started) {
            *server = Some(started.expect("the host starts"));
        }
    }

    pub(crate) fn client(&self, host: usize) -> SocketAddr {
        self.servers[host].as_ref().expect("it runs").client_address()
    }

    pub(crate) fn peer(&self, host: usize) -> Peer {
        Peer::login(self.client(host))
    }

    /// The power of a host is cut.
    pub(crate) fn lose(&mut self, host: usize) {
        self.disks[host] = cut(&self.disks[host]);
        drop(self.servers[host].take());
    }

    /// That of all of them, at one moment.
    pub(crate) fn cut_all(&mut self) {
        self.disks = MemoryDisk::survivors(&self.disks, |_| Survival::Lost);
        self.stop_all();
    }

    pub(crate) fn stop_all(&mut self) {
        let servers: Vec<Server> = self.servers.iter_mut().filter_map(Option::take).collect();
        let stop = |server: Server| std::thread::spawn(|| drop(server));
        let stopping: Vec<JoinHandle<()>> = servers.into_iter().map(stop).collect();
        stopping.into_iter().for_each(|it| it.join().expect("it ends"));
    }

    pub(crate) fn bring_back(&mut self, host: usize, durability: Durability) {
        let server = Server::start(self.member(host, durability));
        self.servers[host] = Some(server.expect("it joins the cluster"));
    }

    /// Waits until all partitions have a follower again.
    pub(crate) fn await_copies(&self, by: usize) {
        let mut peer = self.peer(by);
        eventually("all copies are in sync", || {
            let placed = partitions_of(&mut peer);
            placed.iter().all(|(_, followers)| followers.len() == 1)
        });
    }
}

/// Calls at a host, of one partition and of all.
fn bumps(address: SocketAddr, load: &Arc<Load>) -> Vec<JoinHandle<Seen>> {
    let single = run_calls(address, load, |peer, call| {
        let answer = peer.call("bump", &[Int(call * 7 % ROWS)]);
        (answer.status, answer.text)
    });
    let all = run_calls(address, load, |peer, call| {
        let answer = match call % 2 {
            0 => peer.call("bumpall", &[Int(ROWS)]),
            _ => peer.call("bumpr", &[Int(1)]),
        };
        (answer.status, answer.text)
    });
    [single, all].into()
}

pub(crate) fn sum(peer: &mut Peer) -> i64 {
    peer.run("SELECT SUM(n) FROM t").parse().expect("a number")
}

/// Waits until calls of all partitions are answered, which wait for leases after a loss.
pub(crate) fn serves(peer: &mut Peer) {
    eventually("calls are answered", || peer.call("bumpall", &[Int(0)]).status == 1);
}

fn comes_back(durability: Durability) {
    let mut hosts = Hosts::new(durability);
    schema(&mut hosts.peer(0));
    let load = Arc::new(Load::default());
    let threads = bumps(hosts.client(0), &load);
    for _ in 0..2 {
        load.go_on();
        hosts.lose(2);
        load.go_on();
        hosts.bring_back(2, durability);
        hosts.await_copies(0);
        assert!(!hosts.disks[2].list("").expect("a folder").contains(&REJOIN_FILE.to_string()));
    }
    load.go_on();
    load.is_over.store(true, Ordering::Relaxed);
    let seen: Vec<Seen> = threads.into_iter().map(|it| it.join().expect("it ends")).collect();
    let failures: Vec<&String> = seen.iter().flat_map(|seen| &seen.failures).collect();
    // What was in progress at the lost host may have been executed.
    assert!(failures.iter().all(|text| text.starts_with("-7")), "{failures:?}");
    let most = seen[0].calls + (seen[1].calls + 1) / 2 * ROWS;
    let mut peer = hosts.peer(2);
    let before = sum(&mut peer);
    assert!(before <= most && failures.len() as i64 * ROWS >= most - before, "{before}, {most}");
    let note = peer.run("SELECT n FROM r");
    // The host that has come back leads when another one is lost, and lacks nothing.
    hosts.lose(1);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!((sum(&mut peer), peer.run("SELECT n FROM r")), (before, note.clone()));
    assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
    // All end at once: what the host has loaded was durable, and so is what came since. The host
    // that was lost joins the two that start.
    hosts.cut_all();
    hosts.start_all(durability);
    for host in 0..3 {
        let mut peer = hosts.peer(host);
        serves(&mut peer);
        assert_eq!((sum(&mut peer), peer.run("SELECT n FROM r")), (before + ROWS, note.clone()));
    }
    hosts.await_copies(0);
    hosts.lose(0);
    let mut peer = hosts.peer(1);
    serves(&mut peer);
    assert_eq!(sum(&mut peer), before + ROWS);
}

#[test]
fn a_host_with_a_directory_that_was_lost_comes_back_under_load_and_is_durable() {
    comes_back(Durability::Sync);
}

/// How far a host is that gives up its data and loads its copies.
type Moment = (&'static str, fn(&MemoryDisk) -> bool);

pub(crate) fn has(disk: &MemoryDisk, name: &str) -> bool {
    disk.list("").expect("a folder").iter().any(|there| there == name)
}

fn has_log(disk: &MemoryDisk) -> bool {
    disk.open(&command_log::file_name(1), OpenMode::Read).is_ok()
}

fn has_snapshot(disk: &MemoryDisk) -> bool {
    !disk.list(SNAPSHOT_FOLDER).expect("a folder").is_empty()
}

const MOMENTS: [Moment; 4] = [
    ("it is noted that the data are given up", |disk| has(disk, REJOIN_FILE)),
    ("a new log has begun", |disk| has(disk, REJOIN_FILE) && has_log(disk)),
    ("the copies are saved", |disk| has(disk, REJOIN_FILE) && has_snapshot(disk)),
    ("what was loaded is kept", |disk| !has(disk, REJOIN_FILE) && has_snapshot(disk)),
];

/// Waits for a moment of a host that loads its copies. Where this thread stands still meanwhile, it
/// may find the host after it, with all copies in sync.
fn await_moment((what, is_so): Moment, disk: &MemoryDisk, peer: &mut Peer) {
    let mut looks = 0u32;
    eventually(what, || {
        looks += 1;
        let is_after = looks.is_multiple_of(100) && {
            let placed = partitions_of(peer);
            placed.iter().all(|(_, followers)| followers.len() == 1) && !has(disk, REJOIN_FILE)
        };
        is_so(disk) || is_after
    });
}

#[test]
fn a_host_that_is_lost_again_while_it_loads_its_copies_comes_back() {
    let durability = Durability::Sync;
    let mut hosts = Hosts::new(durability);
    schema(&mut hosts.peer(0));
    let mut peer = hosts.peer(0);
    let mut expected = 0;
    for (what, is_so) in MOMENTS {
        hosts.lose(2);
        serves(&mut peer);
        assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
        expected += ROWS;
        let member = hosts.member(2, durability);
        let starting = std::thread::spawn(move || Server::start(member));
        await_moment((what, is_so), &hosts.disks[2], &mut peer);
        hosts.disks[2] = cut(&hosts.disks[2]);
        drop(starting.join().expect("the start does not panic"));
        hosts.bring_back(2, durability);
        hosts.await_copies(0);
        assert_eq!(sum(&mut hosts.peer(2)), expected, "{what}");
    }
    hosts.lose(1);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!(sum(&mut peer), expected);
    hosts.cut_all();
    hosts.start_all(durability);
    assert_eq!(sum(&mut hosts.peer(0)), expected);
}

/// The other hosts start with what they have, also when they have to find out first that the one
/// that was loading is not there. That one begins with it again, or takes part with the copies that
/// have come in sync.
#[test]
fn a_power_cut_of_all_while_a_host_loads_its_copies_loses_nothing() {
    let durability = Durability::Sync;
    let mut hosts = Hosts::new(durability);
    schema(&mut hosts.peer(0));
    let mut expected = 0;
    for (what, is_so) in MOMENTS {
        let mut peer = hosts.peer(0);
        hosts.lose(2);
        serves(&mut peer);
        assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
        expected += ROWS;
        let member = hosts.member(2, durability);
        let starting = std::thread::spawn(move || Server::start(member));
        await_moment((what, is_so), &hosts.disks[2], &mut peer);
        let left = MemoryDisk::survivors(&hosts.disks, |_| Survival::Lost);
        // It ends while there are others.
        drop(starting.join().expect("the start does not panic"));
        hosts.stop_all();
        hosts.disks = left;
        let loads = has(&hosts.disks[2], REJOIN_FILE);
        match loads && has_snapshot(&hosts.disks[2]) {
            true => {
                hosts.start_first(2, durability);
                hosts.bring_back(2, durability);
            }
            false => hosts.start_all(durability),
        }
        if !loads {
            // Some of its copies may have come in sync: it loads the others while it serves.
            assert_eq!(sum(&mut hosts.peer(2)), expected, "{what}");
        }
        hosts.await_copies(0);
        assert_eq!(sum(&mut hosts.peer(2)), expected, "{what}");
    }
    hosts.lose(1);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!(sum(&mut peer), expected);
}

impl Hosts {
    /// Starts a host with a new directory in place of one that is lost.
    fn replace(&mut self, host: usize, disk: MemoryDisk) -> Result<(), String> {
        self.disks[host] = disk;
        let mut member = self.member(host, Durability::Sync);
        member.cluster.as_mut().expect("it is one of several").rejoins = true;
        self.servers[host] = Some(Server::start(member).map_err(|error| error.to_string())?);
        Ok(())
    }
}

#[test]
fn a_new_directory_takes_the_place_of_one_that_is_lost() {
    let mut hosts = Hosts::new(Durability::Sync);
    schema(&mut hosts.peer(0));
    let load = Arc::new(Load::default());
    let threads = bumps(hosts.client(0), &load);
    load.go_on();
    hosts.lose(2);
    load.go_on();
    let lost = hosts.disks[2].clone();
    hosts.replace(2, new_disk(1)).expect("it joins");
    hosts.await_copies(0);
    load.go_on();
    load.is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|it| drop(it.join().expect("it ends")));
    let expected = sum(&mut hosts.peer(0));
    // The directory that was lost is none of the cluster any more, whether that serves or starts.
    hosts.lose(2);
    let replaced = std::mem::replace(&mut hosts.disks[2], lost.clone());
    let started = Server::start(hosts.member(2, Durability::Sync));
    let problem = started.err().expect("another one has its place").to_string();
    assert!(problem.contains("host 2 was started with the directory"), "{problem}");
    assert!(hosts.replace(2, lost).is_err_and(|problem| problem.contains("only an empty")));
    hosts.disks[2] = replaced;
    hosts.bring_back(2, Durability::Sync);
    hosts.await_copies(0);
    // All remember the new one at a start of the whole cluster.
    hosts.cut_all();
    hosts.start_all(Durability::Sync);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!(sum(&mut peer), expected);
    hosts.lose(1);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!(sum(&mut peer), expected);
}

#[test]
fn a_directory_of_another_cluster_does_not_join_one_that_serves() {
    let mut hosts = Hosts::new(Durability::Sync);
    schema(&mut hosts.peer(0));
    hosts.lose(2);
    let lost = std::mem::replace(&mut hosts.disks[2], new_disk(1));
    let started = Server::start(hosts.member(2, Durability::Sync));
    let problem = started.err().expect("it is not of the cluster").to_string();
    assert!(problem.contains("host 2 was started with the directory"), "{problem}");
    assert!(problem.contains("takes its place with --rejoin"), "{problem}");
    assert!(!has(&hosts.disks[2], REJOIN_FILE), "nothing was changed");
    hosts.disks[2] = lost;
    hosts.bring_back(2, Durability::Sync);
    hosts.await_copies(0);
}
