//! A host with a directory: nothing leaves before it is durable, and what was answered is there
//! after a power cut.

use crate::support::{Peer, call_frame, eventually, parameters, start_with};
use lockstep_durability::command_log::LogReader;
use lockstep_durability::directory::{ClusterFile, initialize};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{DiskErrorKind, DiskOperation};
use lockstep_node::Server;
use lockstep_node::log::{Data, Durability, directory::new_cluster};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::HashRing;
use lockstep_workloads::bank;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

const OPTIONS: &[&str] = &["log_segment_bytes=131072", "planner_survey_ms=0"];

fn new_disk(partitions: u32) -> MemoryDisk {
    let disk = MemoryDisk::new();
    initialize(&disk, new_cluster(partitions)).expect("an empty disk can be made");
    disk
}

fn data(disk: &MemoryDisk, durability: Durability) -> Data {
    let cluster = ClusterFile::read(disk).expect("sound").expect("made");
    Data { disk: Arc::new(disk.clone()), cluster, durability, progress: Arc::default(), lock: None }
}

fn host(disk: &MemoryDisk, sites: u32) -> (Server, Peer) {
    let server =
        start_with(sites, OPTIONS, Some(data(disk, Durability::Sync))).expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

/// The entries that a disk would have after a power cut now.
fn durable_entries(disk: &MemoryDisk) -> u64 {
    let survivor = disk.survivor(|_| Survival::Lost);
    let cluster = ClusterFile::read(&survivor).expect("sound").expect("made");
    let mut reader = LogReader::open(Arc::new(survivor), cluster.cluster).expect("a sound log");
    let mut entries = 0;
    while let Some(block) = reader.next_block().expect("a sound log") {
        entries += u64::from(block.entries);
    }
    entries
}

#[test]
fn at_each_answer_a_power_cut_would_lose_nothing_of_it() {
    for sites in [1, 3] {
        let disk = new_disk(sites);
        let (_server, mut peer) = host(&disk, sites);
        peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY, b VARCHAR(9))");
        if sites > 1 {
            peer.run("PARTITION TABLE t ON COLUMN a");
        }
        let before = durable_entries(&disk);
        for a in 0..50 {
            assert_eq!(peer.call("t.insert", &[Int(a), Text("x")]).status, 1);
            assert_eq!(durable_entries(&disk), before + a as u64 + 1, "{sites} sites");
        }
    }
}

/// Holds up syncs while it is shut.
#[derive(Default)]
struct Barrier {
    is_shut: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicUsize,
}

impl Barrier {
    fn set(&self, shut: bool) {
        *self.is_shut.lock().expect("nobody panics with it") = shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let shut = self.is_shut.lock().expect("nobody panics with it");
        drop(self.changed.wait_while(shut, |shut| *shut).expect("nobody panics with it"));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Opens a barrier at its end, so that a test that fails does not wait for ever.
struct Opened(Arc<Barrier>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn has_answer(peer: &mut Peer) -> bool {
    peer.stream.set_nonblocking(true).expect("a socket");
    let found = peer.stream.peek(&mut [0; 1]).is_ok();
    peer.stream.set_nonblocking(false).expect("a socket");
    found
}

fn partition_of(key: i64) -> u32 {
    HashRing::new(2).partition_of(Int(key)).0
}

#[test]
fn answers_wait_for_their_sync_and_reads_with_nothing_undurable_before_them_do_not() {
    let disk = new_disk(2);
    let (server, mut peer) = host(&disk, 2);
    peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY)");
    peer.run("PARTITION TABLE t ON COLUMN a");
    let mut reader = Peer::login(server.client_address());
    let mut other = Peer::login(server.client_address());
    let before = durable_entries(&disk);
    let barrier = Arc::new(Barrier::default());
    barrier.set(true);
    let (passed, _opened) = (Arc::clone(&barrier), Opened(Arc::clone(&barrier)));
    disk.set_hook(Some(Box::new(move |operation, _, _, _| {
        if operation == DiskOperation::Sync {
            passed.pass();
        }
        Ok(())
    })));
    peer.send(&call_frame("t.insert", 1, &parameters(&[Int(1)])));
    eventually("the sync begins", || barrier.waiting.load(Ordering::SeqCst) > 0);
    let clean = (2..100).find(|key| partition_of(*key) != partition_of(1)).expect("some key");
    reader.send(&call_frame("t.select", 2, &parameters(&[Int(1)])));
    let mut clean_reader = Peer::login(server.client_address());
    for _ in 0..50 {
        assert_eq!(clean_reader.call("t.select", &[Int(clean)]).rows, "");
        assert!(!has_answer(&mut peer) && !has_answer(&mut reader), "nothing leaves before");
    }
    // A read of all partitions sees the row as well.
    other.send(&call_frame("@AdHoc", 3, &parameters(&[Text("SELECT COUNT(*) FROM t")])));
    assert!(!has_answer(&mut other));
    barrier.set(false);
    assert_eq!((peer.answer().status, reader.answer().rows.as_str()), (1, "1"));
    assert_eq!(other.answer().rows, "1");
    disk.set_hook(None);
    assert_eq!(durable_entries(&disk), before + 1);
}

#[test]
fn a_failed_sync_stops_the_host_and_nothing_is_answered() {
    let disk = new_disk(2);
    let (server, mut peer) = host(&disk, 2);
    peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY)");
    let stopped = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&stopped);
    server.on_shutdown(move || noted.store(true, Ordering::SeqCst));
    disk.set_hook(Some(Box::new(|operation, _, _, _| match operation {
        DiskOperation::Sync => Err(DiskErrorKind::Other),
        _ => Ok(()),
    })));
    peer.send(&call_frame("t.insert", 1, &parameters(&[Int(1)])));
    eventually("the host asks to be stopped", || stopped.load(Ordering::SeqCst));
    assert!(!has_answer(&mut peer));
    let error = server.stop().expect_err("the log failed").to_string();
    assert!(error.contains("log/00000001.log cannot be made durable"), "{error}");
    assert!(peer.is_closed(), "unanswered");
}

#[test]
fn what_was_answered_is_there_after_power_cuts() {
    let disk = new_disk(3);
    let mut expected = Vec::new();
    for round in 0..4i64 {
        let (server, mut peer) = host(&disk, 3);
        if round == 0 {
            peer.run(bank::SCHEMA);
            peer.run(bank::NATIVE_SCHEMA);
        }
        assert_eq!(peer.run("SELECT id FROM accounts ORDER BY id"), expected.join("\n"));
        for account in round * 10..round * 10 + 10 {
            assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
            expected.push(account.to_string());
        }
        for to in 1..10 {
            assert_eq!(peer.call("Transfer", &[Int(0), Int(to), Int(1)]).status, 1);
            assert_eq!(peer.call("TransferAnywhere", &[Int(to), Int(0), Int(1)]).status, 1);
        }
        assert_eq!(peer.call("Transfer", &[Int(round), Int(9), Int(1)]).status, 1);
        let total = format!("{},{}", (round + 1) * 1_000, (round + 1) * 10);
        assert_eq!(peer.call("Total", &[]).rows, total);
        let balances = peer.run("SELECT id, balance FROM accounts ORDER BY id");
        let survivor = disk.survivor(|_| Survival::Lost);
        drop(server);
        let (_server, mut peer) = host(&survivor, 3);
        assert_eq!(peer.run("SELECT id, balance FROM accounts ORDER BY id"), balances);
        assert_eq!(peer.call("Total", &[]).rows, total);
        disk.set_hook(None);
    }
}

#[test]
fn calls_wait_while_the_log_is_far_behind_and_none_fails() {
    let disk = new_disk(1);
    let options = &["log_segment_bytes=131072", "log_buffer_bytes=4096"];
    let server = start_with(1, options, Some(data(&disk, Durability::Sync))).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY, b VARCHAR(2000))");
    let text = "x".repeat(1_500);
    let mut frames = Vec::new();
    for a in 0..200 {
        frames.extend(call_frame("t.insert", a, &parameters(&[Int(a), Text(&text)])));
    }
    peer.send(&frames);
    for a in 0..200 {
        let answer = peer.answer();
        assert_eq!((answer.handle, answer.status), (a, 1));
    }
    assert!(durable_entries(&disk) > 200);
}

#[test]
fn an_orderly_stop_of_the_asynchronous_mode_loses_nothing() {
    let disk = new_disk(2);
    let asynchronous = || Some(data(&disk, Durability::Async));
    let server = start_with(2, OPTIONS, asynchronous()).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY)");
    for a in 0..100 {
        assert_eq!(peer.call("t.insert", &[Int(a)]).status, 1);
    }
    server.stop().expect("it stops");
    disk.cut_power(|_| Survival::Lost);
    let server = start_with(2, OPTIONS, asynchronous()).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "100");
}

#[test]
fn a_directory_of_another_shape_is_refused() {
    let disk = new_disk(2);
    let error = start_with(3, OPTIONS, Some(data(&disk, Durability::Sync))).err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("2 partitions") && error.contains("--sites 2"), "{error}");
}
