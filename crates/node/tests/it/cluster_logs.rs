//! Hosts of one cluster with command logs: after all of them have ended, a start of all brings back
//! everything that was answered.

use crate::durability::data;
use crate::support::{Peer, SetAtTheEnd, call_frame, configuration, eventually, parameters};
use lockstep_durability::command_log::{self, LogFaults};
use lockstep_durability::directory::{ClusterFile, SNAPSHOT_FOLDER, SeveralHosts, initialize};
use lockstep_durability::recovery::{CopyEnd, RecoveryLog};
use lockstep_durability::snapshot::{self, FoundSnapshot};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, DiskOperation};
use lockstep_node::log::{Durability, directory::new_cluster};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};
use lockstep_workloads::bank;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOSTS: u32 = 3;
const SITES: u32 = 2;
const ACCOUNTS: i64 = 30;
/// Hosts of which a busy machine suspects none that runs.
const SLOW: [&str; 6] = [
    "heartbeat_interval_ms=200",
    "suspect_after_ms=5000",
    "lease_ms=1000",
    "log_segment_bytes=131072",
    "statistics_interval_ms=0",
    "cluster_start_timeout_ms=60000",
];
/// The same, with hosts that often save their copies and give up what their logs had before.
const SAVING: [&str; 8] = [
    "heartbeat_interval_ms=200",
    "suspect_after_ms=5000",
    "lease_ms=1000",
    "log_segment_bytes=65536",
    "statistics_interval_ms=0",
    "snapshot_interval_s=0",
    "snapshot_log_bytes=30000",
    "snapshots_kept=1",
];

/// The directories of the hosts of a new cluster.
fn new_disks(kfactor: u8) -> Vec<MemoryDisk> {
    let partitions = HOSTS * SITES / (u32::from(kfactor) + 1);
    let make = |_| {
        let disk = MemoryDisk::new();
        let several = Some(SeveralHosts { hosts: HOSTS, sites: SITES, kfactor, witnesses: 0 });
        let file = ClusterFile { several, ..new_cluster(partitions) };
        initialize(&disk, file).expect("an empty disk can be made");
        disk
    };
    (0..HOSTS).map(make).collect()
}

/// Starts the hosts with these directories.
fn start(
    disks: &[MemoryDisk],
    kfactor: u8,
    durability: Durability,
) -> Vec<std::io::Result<Server>> {
    start_with(disks, kfactor, durability, &SLOW)
}

fn start_with(
    disks: &[MemoryDisk],
    kfactor: u8,
    durability: Durability,
    options: &[&str],
) -> Vec<std::io::Result<Server>> {
    let number = Cell::new(0);
    let host = || {
        let disk = &disks[number.replace(number.get() + 1)];
        configuration(SITES, options, Some(data(disk, durability)))
    };
    let members = local_cluster::members(HOSTS, kfactor, host).expect("there are free ports");
    local_cluster::start(members)
}

fn cluster(disks: &[MemoryDisk], kfactor: u8, durability: Durability) -> (Vec<Server>, Vec<Peer>) {
    cluster_with(disks, kfactor, durability, &SLOW)
}

fn cluster_with(
    disks: &[MemoryDisk],
    kfactor: u8,
    durability: Durability,
    options: &[&str],
) -> (Vec<Server>, Vec<Peer>) {
    let started = start_with(disks, kfactor, durability, options).into_iter();
    let servers: Vec<Server> = started.map(|it| it.expect("it starts")).collect();
    let peers = servers.iter().map(|server| Peer::login(server.client_address())).collect();
    (servers, peers)
}

/// The directories as a power cut of all hosts at one moment would leave them. A host that went on
/// after the cut of another one could have sent that one's disk what its own log does not have.
fn cut(disks: &[MemoryDisk]) -> Vec<MemoryDisk> {
    MemoryDisk::survivors(disks, |_| Survival::Lost)
}

const LOAD: &str = "CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, n BIGINT);
    CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, k BIGINT NOT NULL);
    PARTITION TABLE p ON COLUMN id;";

fn make_tables(peer: &mut Peer) {
    peer.run(bank::SCHEMA);
    peer.run(bank::NATIVE_SCHEMA);
    peer.run(LOAD);
}

/// Calls of one partition, of some and of all, from all hosts.
fn change(peers: &mut [Peer], from: i64) {
    for id in from..from + ACCOUNTS {
        let peer = &mut peers[id as usize % 3];
        assert_eq!(peer.call("ACCOUNTS.insert", &[Int(id), Int(100)]).status, 1);
        assert_eq!(peer.call("P.insert", &[Int(id), Int(id + 1000)]).status, 1);
        if id % 5 == 0 {
            assert_eq!(peer.call("R.insert", &[Int(id), Int(1)]).status, 1);
        }
        let to = from + (id - from + 7) % (id - from + 1);
        let _ = peer.call("TransferAnywhere", &[Int(id), Int(to), Int(5)]);
        let _ = peer.call("Transfer", &[Int(id), Int(999_999), Int(5)]);
    }
}

const EVERYTHING: [&str; 4] = [
    "SELECT id, balance FROM accounts ORDER BY id",
    "SELECT id, k FROM p ORDER BY id",
    "SELECT id, n FROM r ORDER BY id",
    "SELECT COUNT(*), SUM(balance) FROM accounts",
];

fn contents(peer: &mut Peer) -> Vec<String> {
    EVERYTHING.iter().map(|sql| peer.run(sql)).collect()
}

/// Everything is there after a stop of all hosts, at each of them, and again after the next one;
/// what is done in between is logged too.
fn survives_stops(kfactor: u8, durability: Durability) {
    let disks = new_disks(kfactor);
    let (servers, mut peers) = cluster(&disks, kfactor, durability);
    make_tables(&mut peers[1]);
    let mut expected = Vec::new();
    let mut running = (servers, peers);
    for round in 0..3 {
        change(&mut running.1, round * 100);
        if round == 1 {
            running.1[2].run("CREATE GLOBAL UNIQUE INDEX by_k ON p (k)");
        }
        expected = contents(&mut running.1[round as usize]);
        let (servers, peers) = running;
        drop(peers);
        drop(servers);
        running = cluster(&disks, kfactor, durability);
        for peer in &mut running.1 {
            assert_eq!(contents(peer), expected, "round {round}, K = {kfactor}");
        }
    }
    assert_eq!(running.1[0].run("SELECT id FROM p WHERE k = 1207"), "207");
    assert!(expected[3].starts_with(&(3 * ACCOUNTS).to_string()), "{expected:?}");
}

#[test]
fn a_cluster_with_one_copy_comes_back_after_a_stop() {
    survives_stops(0, Durability::Sync);
}

/// Leaders that were moved are where they were moved to after a stop and after a power cut, and
/// everything that was answered before, meanwhile and after that is there.
#[test]
fn leaders_that_were_moved_come_back_after_a_stop_and_after_a_power_cut() {
    let mut disks = new_disks(1);
    let mut running = cluster_with(&disks, 1, Durability::Sync, &SAVING);
    make_tables(&mut running.1[0]);
    for round in 0..6_i64 {
        let (servers, mut peers) = running;
        change(&mut peers, round * 100);
        let mut admin = Peer::login(servers[2].admin_address());
        let drained = admin.call("@PrepareStopNode", &[Int(round % 3)]);
        assert_eq!(drained.status, 1, "{drained:?}");
        change(&mut peers, round * 100 + 50);
        let expected = contents(&mut peers[round as usize % 3]);
        if round % 2 == 0 {
            disks = cut(&disks);
        }
        drop((admin, peers));
        drop(servers);
        running = cluster_with(&disks, 1, Durability::Sync, &SAVING);
        for peer in &mut running.1 {
            assert_eq!(contents(peer), expected, "round {round}");
        }
    }
}

#[test]
fn a_cluster_with_copies_comes_back_after_a_stop() {
    survives_stops(1, Durability::Sync);
}

#[test]
fn a_cluster_with_asynchronous_logs_comes_back_after_a_stop() {
    survives_stops(1, Durability::Async);
}

/// Inserts and transfers of a client until the power is cut; gives the keys of which everything was
/// answered to `answered`.
fn load(peer: &mut Peer, next: &AtomicI64, answered: &Mutex<Vec<i64>>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        let id = next.fetch_add(1, Ordering::Relaxed);
        assert_eq!(peer.call("P.insert", &[Int(id), Int(id)]).status, 1);
        assert_eq!(peer.call("R.insert", &[Int(id), Int(1)]).status, 1);
        let (from, to) = (-1 - id % ACCOUNTS, -1 - (id + 7) % ACCOUNTS);
        let moved = peer.call("TransferAnywhere", &[Int(from), Int(to), Int(1)]);
        assert_eq!(moved.status, 1, "{moved:?}");
        answered.lock().expect("no client panicked").push(id);
    }
}

/// Leaders are moved to and fro until the power is cut.
fn keep_moving(admin: &mut Peer, is_over: &AtomicBool) {
    let mut host = 0;
    while !is_over.load(Ordering::Acquire) {
        let moved = admin.call("@PrepareStopNode", &[Int(host)]);
        // A busy machine may take long for what is in progress.
        assert!(moved.status == 1 || moved.text.contains("hand_over_timeout_ms"), "{moved:?}");
        host = (host + 1) % 3;
    }
}

/// Power is cut at all hosts at once while clients insert and transfer.
fn survives_power_cuts(
    kfactor: u8,
    (calls, moves): (usize, bool),
    options: &[&str],
) -> Vec<MemoryDisk> {
    let mut disks = new_disks(kfactor);
    let (next, answered) = (AtomicI64::new(0), Mutex::new(Vec::new()));
    let mut sure: Vec<i64> = Vec::new();
    for round in 0..4 {
        let (servers, mut peers) = cluster_with(&disks, kfactor, Durability::Sync, options);
        if round == 0 {
            make_tables(&mut peers[0]);
            for id in 0..ACCOUNTS {
                assert_eq!(peers[0].call("ACCOUNTS.insert", &[Int(-1 - id), Int(100)]).status, 1);
            }
        }
        let total = peers[1].call("Total", &[]);
        assert_eq!(total.rows, format!("{},{ACCOUNTS}", ACCOUNTS * 100), "{total:?}");
        for table in ["p", "r"] {
            let ids = peers[2].run(&format!("SELECT id FROM {table}"));
            let ids: BTreeSet<i64> = ids.lines().map(|id| id.parse().expect("a key")).collect();
            let lost: Vec<&i64> = sure.iter().filter(|id| !ids.contains(id)).collect();
            assert!(lost.is_empty(), "{table}, round {round}, K = {kfactor}: {lost:?}");
        }
        let is_over = AtomicBool::new(false);
        let enough = sure.len() + calls;
        std::thread::scope(|scope| {
            let over = SetAtTheEnd(&is_over);
            if moves {
                let (is_over, address) = (&is_over, servers[0].admin_address());
                scope.spawn(move || keep_moving(&mut Peer::login(address), is_over));
            }
            for peer in peers.iter_mut() {
                let (is_over, answered, next) = (&is_over, &answered, &next);
                scope.spawn(move || load(peer, next, answered, is_over));
            }
            let so_far = || answered.lock().expect("no client panicked").clone();
            eventually("calls are answered", || so_far().len() >= enough);
            sure = so_far();
            disks = cut(&disks);
            drop(over);
        });
        // What was done after the cut is gone with the hosts.
        answered.lock().expect("no client panicked").clone_from(&sure);
        next.fetch_add(1_000, Ordering::Relaxed);
        drop(peers);
        drop(servers);
    }
    disks
}

#[test]
fn a_cluster_with_one_copy_comes_back_after_a_power_cut() {
    survives_power_cuts(0, (100, false), &SLOW);
}

#[test]
fn a_cluster_with_copies_comes_back_after_a_power_cut() {
    survives_power_cuts(1, (100, false), &SLOW);
}

/// How many entries of all partitions are durable at both of their copies.
fn durable_at_both(disks: &[MemoryDisk]) -> u64 {
    let partitions = HOSTS * SITES / 2;
    let ends = cut(disks).into_iter().map(|disk| {
        let cluster = ClusterFile::read(&disk).expect("sound").expect("made").cluster;
        let (disk, faults): (Arc<dyn Disk>, _) = (Arc::new(disk), LogFaults::default());
        let log = RecoveryLog { disk: &disk, cluster, until: None, faults, others: None };
        log.copy_ends(partitions, None).expect("a sound log").0
    });
    let ends: Vec<Vec<CopyEnd>> = ends.collect();
    let at_both = |number: usize| {
        let mut of_one: Vec<u64> = ends.iter().map(|ends| ends[number].end).collect();
        of_one.sort_unstable();
        of_one[of_one.len() - 2]
    };
    (0..partitions as usize).map(at_both).sum()
}

#[test]
fn an_answer_waits_until_both_copies_have_it_on_disk() {
    let disks = new_disks(1);
    let (servers, mut peers) = cluster(&disks, 1, Durability::Sync);
    make_tables(&mut peers[0]);
    for disk in &disks[1..] {
        disk.set_hook(Some(Box::new(|operation, _, _, _| {
            if operation == DiskOperation::Sync {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        })));
    }
    for id in 0..20 {
        let before = durable_at_both(&disks);
        assert_eq!(peers[0].call("P.insert", &[Int(id), Int(id)]).status, 1);
        let after = durable_at_both(&disks);
        assert!(after > before, "row {id} is answered with one copy on disk");
    }
    disks.iter().for_each(|disk| disk.set_hook(None));
    drop(peers);
    drop(servers);
}

/// The copy of a host that was lost is too old: the others start without it, and never from it. It
/// loads theirs.
#[test]
fn a_host_that_was_lost_before_is_not_needed_and_its_copy_never_wins() {
    let disks = new_disks(1);
    let (mut servers, mut peers) = cluster(&disks, 1, Durability::Sync);
    make_tables(&mut peers[0]);
    change(&mut peers, 0);
    drop(peers.pop());
    // Without a word to the others.
    drop(servers.pop());
    eventually("the others go on", || peers[0].call("P.insert", &[Int(5_000), Int(1)]).status == 1);
    for id in 6_000..6_060 {
        eventually("inserted", || peers[0].call("P.insert", &[Int(id), Int(1)]).status == 1);
    }
    let expected = contents(&mut peers[1]);
    drop(peers);
    drop(servers);
    let started = start(&disks, 1, Durability::Sync);
    for server in &started {
        let server = server.as_ref().expect("it starts without the lost one, or joins");
        let mut peer = Peer::login(server.client_address());
        assert_eq!(contents(&mut peer), expected);
        assert_eq!(peer.call("@AdHoc", &[Text("DELETE FROM p WHERE id = 6000")]).status, 1);
        assert_eq!(peer.call("P.insert", &[Int(6_000), Int(1)]).status, 1);
    }
}

#[test]
fn directories_that_do_not_belong_together_are_refused() {
    let disks = new_disks(0);
    let (servers, mut peers) = cluster(&disks, 0, Durability::Sync);
    make_tables(&mut peers[0]);
    drop(peers);
    drop(servers);
    let mut others = disks.clone();
    others[1] = new_disks(0).remove(0);
    // A host that comes when the others have ended with that waits for them.
    let started = start(&others, 0, Durability::Sync).into_iter();
    let problem = |started: std::io::Result<Server>| {
        started.err().expect("host 1 has lost its directory").to_string()
    };
    let problems: Vec<String> = started.map(problem).collect();
    assert!(problems.iter().all(|problem| problem.contains("host 1")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("directory")), "{problems:?}");
    let data = Some(data(&disks[0], Durability::Sync));
    let alone = Server::start(configuration(SITES, &SLOW, data)).err().expect("two are missing");
    assert!(alone.to_string().contains("--peers"), "{alone}");
}

/// Whether a host has a snapshot of its copies, and its log no longer what it began with.
fn has_short_log(disk: &MemoryDisk) -> bool {
    let found = snapshot::scan(disk, SNAPSHOT_FOLDER).expect("a folder");
    let first = command_log::file_name(1);
    let log = disk.list(command_log::FOLDER).expect("a folder");
    found.iter().any(FoundSnapshot::is_start) && !log.contains(&first)
}

#[test]
fn hosts_with_copies_start_from_their_own_snapshots_after_a_power_cut() {
    let disks = survives_power_cuts(1, (700, false), &SAVING);
    assert!(disks.iter().all(has_short_log), "each host gives up what its snapshot has");
}

#[test]
fn a_power_cut_while_leaders_move_loses_nothing() {
    survives_power_cuts(1, (300, true), &SLOW);
}

#[test]
fn hosts_with_one_copy_start_from_their_own_snapshots_after_a_power_cut() {
    let disks = survives_power_cuts(0, (700, false), &SAVING);
    assert!(disks.iter().all(has_short_log), "each host gives up what its snapshot has");
}

/// The schema with global indexes, and rows of all kinds, come from snapshots as well.
#[test]
fn a_schema_and_its_rows_come_back_from_the_snapshots_of_the_hosts() {
    let disks = new_disks(1);
    let saved = |disks: &[MemoryDisk]| disks.iter().all(has_short_log);
    let (mut servers, mut peers) = cluster_with(&disks, 1, Durability::Sync, &SAVING);
    make_tables(&mut peers[1]);
    peers[1].run("CREATE GLOBAL UNIQUE INDEX by_k ON p (k)");
    peers[1].run("CREATE VIEW sums (n, c) AS SELECT n, COUNT(*) FROM r GROUP BY n");
    let mut from = 0;
    for _ in 0..3 {
        eventually("the logs are short", || {
            change(&mut peers, from);
            from += ACCOUNTS;
            saved(&disks)
        });
        let expected = contents(&mut peers[0]);
        let sums = peers[2].run("SELECT n, c FROM sums");
        drop(peers);
        drop(servers);
        (servers, peers) = cluster_with(&disks, 1, Durability::Sync, &SAVING);
        for peer in &mut peers {
            assert_eq!(contents(peer), expected);
            assert_eq!(peer.run("SELECT n, c FROM sums"), sums);
            assert_eq!(peer.run("SELECT id FROM p WHERE k = 1007"), "7");
        }
    }
    drop(peers);
    drop(servers);
}

/// The last file of a snapshot takes so long at this disk. Returns whether one is complete.
fn with_slow_manifests(disk: &MemoryDisk, delay_ms: u64) -> Arc<AtomicBool> {
    let is_saved = Arc::<AtomicBool>::default();
    let saved = Arc::clone(&is_saved);
    disk.set_hook(Some(Box::new(move |operation, name, _, _| {
        if operation == DiskOperation::Rename && name.contains(".manifest") {
            std::thread::sleep(Duration::from_millis(delay_ms));
            saved.store(true, Ordering::Release);
        }
        Ok(())
    })));
    is_saved
}

/// A stop with a snapshot, asked for at a host that does not lead: all hosts save their copies, all
/// stop, and no host has a log to replay at the next start.
#[test]
fn a_stop_with_a_snapshot_leaves_nothing_to_replay_at_any_host() {
    let disks = new_disks(1);
    let (servers, mut peers) = cluster(&disks, 1, Durability::Sync);
    make_tables(&mut peers[0]);
    change(&mut peers, 0);
    let expected = contents(&mut peers[0]);
    let stopped = Arc::new(AtomicI64::new(0));
    // The host that leads orders the stop of the others when its own snapshot is there.
    for (host, server) in servers.iter().enumerate() {
        let saved = with_slow_manifests(&disks[host], if host == 0 { 0 } else { 200 });
        let stopped = Arc::clone(&stopped);
        server.on_shutdown(move || {
            let is_saved = saved.load(Ordering::Acquire);
            stopped.fetch_add(if is_saved { 1 } else { 10 }, Ordering::AcqRel);
        });
    }
    let mut admin = Peer::login(servers[2].admin_address());
    let wrong = admin.call("@Shutdown", &[Int(1)]);
    assert!(wrong.status == -2 && wrong.text.contains("@PrepareShutdown"), "{wrong:?}");
    let number = admin.call("@PrepareShutdown", &[]).rows;
    let number: i64 = number.trim().parse().expect("the number of the stop");
    assert_eq!(admin.call("@Quiesce", &[]).status, 1);
    admin.send(&call_frame("@Shutdown", 7, &parameters(&[Int(number)])));
    eventually("all hosts stop", || stopped.load(Ordering::Acquire) >= 3);
    assert_eq!(stopped.load(Ordering::Acquire), 3, "each stops when its own snapshot is there");
    drop((admin, peers));
    drop(servers);
    let (servers, mut peers) = cluster(&disks, 1, Durability::Sync);
    for server in &servers {
        let recovery = server.recovery().expect("it has a directory");
        assert!(recovery.snapshot.is_some() && recovery.replayed == 0, "{recovery:?}");
    }
    assert_eq!(contents(&mut peers[1]), expected);
}
