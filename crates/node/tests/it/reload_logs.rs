//! Copies with command logs that go out of sync while their hosts stay up: they are loaded again
//! beside what their logs have. A start of all hosts, at any moment, begins with copies that count.

use crate::hand_over::{ROWS, partitions_of, schema};
use crate::rejoin_logs::{Hosts, has, serves, sum};
use crate::support::{Peer, eventually};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::directory::rejoin::REJOIN_FILE;
use lockstep_env::Disk;
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};
use std::time::{Duration, Instant};

const KEYS: i64 = 30;
/// Of rows that are inserted while no copy counts.
const LATER: i64 = 1_000;

fn make_tables(peer: &mut Peer) {
    schema(peer);
    peer.run(
        "CREATE TABLE counted (k BIGINT NOT NULL PRIMARY KEY, runs BIGINT, note VARCHAR(100));
         PARTITION TABLE counted ON COLUMN k;
         CREATE PROCEDURE PARTITION ON TABLE counted COLUMN k FROM NATIVE Counting;",
    );
    for k in 0..KEYS {
        peer.run(&format!("INSERT INTO counted VALUES ({k}, 0, '')"));
    }
}

/// Has the copies of all partitions do something else than their leaders.
fn differ(peer: &mut Peer) {
    for k in 0..KEYS {
        assert_eq!(peer.call("Counting", &[Int(k)]).status, 1);
    }
    eventually("copies that differ do not count", || {
        let placed = partitions_of(peer);
        !placed.is_empty() && placed.iter().all(|(_, followers)| followers.is_empty())
    });
}

fn insert(peer: &mut Peer, keys: std::ops::Range<i64>) {
    for k in keys {
        eventually("a row is inserted", || {
            let answer = peer.call("COUNTED.insert", &[Int(k), Int(0), Text("x")]);
            // What was in progress when a host was lost may have been done.
            answer.status == 1 || answer.text.contains("unique")
        });
    }
}

fn contents(peer: &mut Peer) -> String {
    peer.run("SELECT COUNT(*), MIN(k), MAX(k), SUM(k) FROM counted")
}

fn set_reload_after(hosts: &mut Hosts, ms: u32) {
    for member in &mut hosts.members {
        let setting = format!("reload_copies_after_ms={ms}");
        member.options.set(&setting).expect("it is an option");
    }
}

fn is_loaded_again(durability: Durability) {
    let mut hosts = Hosts::new(durability);
    let mut peer = hosts.peer(0);
    make_tables(&mut peer);
    for round in 0..2 {
        differ(&mut peer);
        insert(&mut peer, LATER * (round + 1)..LATER * (round + 1) + KEYS);
        assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
        hosts.await_copies(0);
        insert(&mut peer, LATER * (round + 1) + KEYS..LATER * (round + 1) + 2 * KEYS);
    }
    assert!(!hosts.disks.iter().any(|disk| has(disk, REJOIN_FILE)), "no host gave up its data");
    let (rows, bumped) = (contents(&mut peer), sum(&mut peer));
    let runs = "SELECT SUM(runs) FROM counted";
    let before = peer.run(runs);
    // The copies that were loaded lead, and lack nothing.
    hosts.lose(1);
    serves(&mut peer);
    assert_eq!(
        (contents(&mut peer), sum(&mut peer), peer.run(runs)),
        (rows.clone(), bumped, before)
    );
    hosts.bring_back(1, durability);
    hosts.await_copies(0);
    // All end at once: what was loaded was durable, and so is what came since.
    assert_eq!(peer.call("bumpall", &[Int(ROWS)]).status, 1);
    insert(&mut peer, 10 * LATER..10 * LATER + KEYS);
    let rows = contents(&mut peer);
    hosts.cut_all();
    hosts.start_all(durability);
    for host in 0..3 {
        let mut peer = hosts.peer(host);
        serves(&mut peer);
        assert_eq!((contents(&mut peer), sum(&mut peer)), (rows.clone(), bumped + ROWS));
    }
}

#[test]
fn a_copy_with_a_synchronous_log_that_differs_is_loaded_again_while_its_host_stays() {
    is_loaded_again(Durability::Sync);
}

#[test]
fn a_copy_with_an_asynchronous_log_that_differs_is_loaded_again_while_its_host_stays() {
    let durability = Durability::Async;
    let mut hosts = Hosts::new(durability);
    let mut peer = hosts.peer(0);
    make_tables(&mut peer);
    differ(&mut peer);
    insert(&mut peer, LATER..LATER + KEYS);
    hosts.await_copies(0);
    let (rows, before) = (contents(&mut peer), peer.run("SELECT SUM(runs) FROM counted"));
    hosts.lose(1);
    serves(&mut peer);
    let found = (contents(&mut peer), peer.run("SELECT SUM(runs) FROM counted"));
    assert_eq!(found, (rows.clone(), before));
    // What was written long before the end is durable.
    hosts.bring_back(1, durability);
    hosts.await_copies(0);
    hosts.stop_all();
    hosts.start_all(durability);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!(contents(&mut peer), rows);
    hosts.await_copies(2);
}

/// Hosts of which sites have no copy that counts start, and load those.
#[test]
fn copies_that_were_out_of_sync_when_all_hosts_stopped_are_loaded_after_the_start() {
    let durability = Durability::Sync;
    let mut hosts = Hosts::new(durability);
    hosts.stop_all();
    set_reload_after(&mut hosts, 0);
    hosts.start_all(durability);
    let mut peer = hosts.peer(0);
    make_tables(&mut peer);
    differ(&mut peer);
    insert(&mut peer, LATER..LATER + KEYS);
    let rows = contents(&mut peer);
    hosts.cut_all();
    set_reload_after(&mut hosts, 500);
    hosts.start_all(durability);
    let mut peer = hosts.peer(2);
    serves(&mut peer);
    assert_eq!(contents(&mut peer), rows, "copies that did not count lack rows");
    hosts.await_copies(2);
    insert(&mut peer, 2 * LATER..2 * LATER + KEYS);
    let rows = contents(&mut peer);
    hosts.lose(0);
    serves(&mut peer);
    assert_eq!(contents(&mut peer), rows);
}

/// The placement with which a start begins may be of before or after copies came in sync.
#[test]
fn a_power_cut_of_all_while_copies_are_loaded_again_loses_nothing() {
    let durability = Durability::Sync;
    let mut hosts = Hosts::new(durability);
    let mut peer = hosts.peer(0);
    make_tables(&mut peer);
    for round in 1..4 {
        differ(&mut peer);
        insert(&mut peer, LATER * round..LATER * round + KEYS);
        let files: Vec<Vec<String>> = hosts.disks.iter().map(snapshot_files).collect();
        let rows = contents(&mut peer);
        let is_saving = |(disk, before): (&MemoryDisk, &Vec<String>)| {
            snapshot_files(disk).iter().any(|name| !before.contains(name))
        };
        eventually("copies are loaded, or saved, or in sync", || {
            let placed = partitions_of(&mut peer);
            // A moment that was missed is over by then.
            placed.iter().any(|(_, followers)| !followers.is_empty())
                || round == 1 && is_any_loading(&mut peer)
                || round == 2 && hosts.disks.iter().zip(&files).any(is_saving)
        });
        hosts.disks = MemoryDisk::survivors(&hosts.disks, |_| Survival::Lost);
        hosts.stop_all();
        hosts.start_all(durability);
        peer = hosts.peer(round as usize % 3);
        serves(&mut peer);
        assert_eq!(contents(&mut peer), rows, "round {round}");
        await_copies(&hosts, 0);
        let lost = (round as usize + 1) % 3;
        hosts.lose(lost);
        serves(&mut peer);
        assert_eq!(contents(&mut peer), rows, "round {round}, without host {lost}");
        hosts.bring_back(lost, durability);
        await_copies(&hosts, round as usize % 3);
    }
}

/// Waits until all copies are in sync. A copy that a start brought back by running the log again
/// differs once more, and a snapshot that was given up is taken again after ten seconds.
fn await_copies(hosts: &Hosts, by: usize) {
    let mut peer = hosts.peer(by);
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let placed = partitions_of(&mut peer);
        if !placed.is_empty() && placed.iter().all(|(_, followers)| followers.len() == 1) {
            return;
        }
        assert!(Instant::now() < deadline, "copies are not in sync: {placed:?}");
        std::thread::yield_now();
    }
}

fn snapshot_files(disk: &MemoryDisk) -> Vec<String> {
    disk.list(SNAPSHOT_FOLDER).expect("a folder")
}

/// Whether a copy is being loaded.
fn is_any_loading(peer: &mut Peer) -> bool {
    peer.call("@Statistics", &[Text("COPIES"), Int(0)]).rows.contains("LOADING")
}
