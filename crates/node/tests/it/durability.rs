//! A host with a directory: nothing leaves before it is durable, and what was answered is there
//! after a power cut.

use crate::support::{Peer, call_frame, eventually, parameters, start_with, start_with_loads};
use lockstep_durability::command_log::{LogPosition, LogReader, file_name};
use lockstep_durability::directory::{ClusterFile, initialize};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, DiskErrorKind, DiskOperation};
use lockstep_node::log::{Data, Durability, directory::new_cluster};
use lockstep_node::{Server, SiteLoad};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::HashRing;
use lockstep_workloads::bank;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const OPTIONS: &[&str] = &["log_segment_bytes=131072", "statistics_interval_ms=0"];

pub fn new_disk(partitions: u32) -> MemoryDisk {
    let disk = MemoryDisk::new();
    initialize(&disk, new_cluster(partitions)).expect("an empty disk can be made");
    disk
}

pub fn data(disk: &MemoryDisk, durability: Durability) -> Data {
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
    // The log of each partition counts for itself, at one thread and at two.
    for (sites, shape) in [(2, "partitions_per_site=1"), (1, "partitions_per_site=2")] {
        check_what_waits_for_syncs(sites, shape);
    }
}

fn check_what_waits_for_syncs(sites: u32, shape: &str) {
    let disk = new_disk(2);
    let options = [OPTIONS, &[shape]].concat();
    let server = start_with(sites, &options, Some(data(&disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY)");
    peer.run("PARTITION TABLE t ON COLUMN a");
    let mut reader = Peer::login(server.client_address());
    let mut other = Peer::login(server.client_address());
    let before = durable_entries(&disk);
    let barrier = Arc::new(Barrier::default());
    barrier.set(true);
    let _opened = Opened(Arc::clone(&barrier));
    hold_syncs(&disk, &barrier);
    peer.send(&call_frame("t.insert", 1, &parameters(&[Int(1)])));
    eventually("the sync begins", || barrier.waiting.load(Ordering::SeqCst) > 0);
    let clean = (2..100).find(|key| partition_of(*key) != partition_of(1)).expect("some key");
    reader.send(&call_frame("t.select", 2, &parameters(&[Int(1)])));
    // One that waits for nothing is answered after those before it on its connection.
    peer.send(&call_frame("t.select", 2, &parameters(&[Int(clean)])));
    let mut clean_reader = Peer::login(server.client_address());
    for _ in 0..50 {
        assert_eq!(clean_reader.call("t.select", &[Int(clean)]).rows, "");
        assert!(!has_answer(&mut peer) && !has_answer(&mut reader), "nothing leaves before");
    }
    // A read of all partitions sees the row as well.
    other.send(&call_frame("@AdHoc", 3, &parameters(&[Text("SELECT COUNT(*) FROM t")])));
    assert!(!has_answer(&mut other));
    barrier.set(false);
    assert_eq!((peer.answer().handle, reader.answer().rows.as_str()), (1, "1"));
    assert_eq!((peer.answer().handle, peer.call("t.select", &[Int(1)]).rows.as_str()), (2, "1"));
    assert_eq!(other.answer().rows, "1");
    disk.set_hook(None);
    assert_eq!(durable_entries(&disk), before + 1);
}

/// Lets syncs pass while the barrier is open.
fn hold_syncs(disk: &MemoryDisk, barrier: &Arc<Barrier>) {
    let passed = Arc::clone(barrier);
    disk.set_hook(Some(Box::new(move |operation, _, _, _| {
        if operation == DiskOperation::Sync {
            passed.pass();
        }
        Ok(())
    })));
}

/// Inserts rows from inside a site's thread once it is asked to.
struct Inserts {
    goes: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

const INSERTS: usize = 20;

impl SiteLoad for Inserts {
    fn wants_to_call(&mut self) -> bool {
        self.goes.load(Ordering::SeqCst) && self.sent.load(Ordering::SeqCst) < INSERTS
    }

    fn next_call(&mut self, frame: &mut Vec<u8>) {
        let n = self.sent.fetch_add(1, Ordering::SeqCst) as i64;
        let call = call_frame("t.insert", n, &parameters(&[Int(n)]));
        frame.extend_from_slice(&call);
    }

    fn answered(&mut self, _: &[u8]) {
        self.answered.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn answers_to_loads_inside_a_thread_wait_for_their_sync_too() {
    let disk = new_disk(2);
    let (goes, sent, answered) = <(Arc<AtomicBool>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let load = Inserts {
        goes: Arc::clone(&goes),
        sent: Arc::clone(&sent),
        answered: Arc::clone(&answered),
    };
    let data = Some(data(&disk, Durability::Sync));
    let server = start_with_loads(2, OPTIONS, data, vec![Box::new(load)]).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY)");
    peer.run("PARTITION TABLE t ON COLUMN a");
    let before = durable_entries(&disk);
    let barrier = Arc::new(Barrier::default());
    barrier.set(true);
    let _opened = Opened(Arc::clone(&barrier));
    hold_syncs(&disk, &barrier);
    goes.store(true, Ordering::SeqCst);
    eventually("the sync begins", || barrier.waiting.load(Ordering::SeqCst) > 0);
    // Calls at the own partition have run when the next is made.
    eventually("all calls are made", || sent.load(Ordering::SeqCst) == INSERTS);
    assert_eq!(answered.load(Ordering::SeqCst), 0);
    barrier.set(false);
    eventually("all is answered", || answered.load(Ordering::SeqCst) == INSERTS);
    disk.set_hook(None);
    assert_eq!(durable_entries(&disk), before + INSERTS as u64);
}

const UNDONE_SCHEMA: &str = "\
    CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL, b VARCHAR(3000), PRIMARY KEY (k));
    PARTITION TABLE t ON COLUMN k;
    CREATE PROCEDURE Change PARTITION ON TABLE t COLUMN k PARAMETER 0
      AND ON TABLE t COLUMN k PARAMETER 2 AS BEGIN
        UPDATE t SET v = v + 1 WHERE k = ?;
        SELECT b FROM t WHERE k = ?;
        UPDATE t SET v = v + 1 WHERE k = ?;
        SELECT b FROM t WHERE k = ?;
      END;
    CREATE PROCEDURE ChangeAll AS BEGIN
        UPDATE t SET v = v + 1;
        SELECT b FROM t;
      END;";

/// A host whose procedures `Change` and `ChangeAll` fail when all partitions have said yes: their
/// answers are over the limit together. Gives keys of two partitions.
fn host_of_undone(disk: &MemoryDisk, options: &[&str]) -> (Server, Peer, [i64; 2]) {
    let options = [OPTIONS, options].concat();
    let server = start_with(2, &options, Some(data(disk, Durability::Sync))).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    let other = (2..100).find(|key| partition_of(*key) != partition_of(1)).expect("some key");
    if peer.call("t.select", &[Int(1)]).status != 1 {
        peer.run(UNDONE_SCHEMA);
        for key in [1, other] {
            let text = "x".repeat(3_000);
            assert_eq!(peer.call("t.insert", &[Int(key), Int(0), Text(&text)]).status, 1);
        }
    }
    (server, peer, [1, other])
}

#[test]
fn a_failure_after_all_said_yes_is_told_when_the_abort_is_durable() {
    let disk = new_disk(2);
    let (_server, mut peer, [one, other]) = host_of_undone(&disk, &["max_response_bytes=4096"]);
    // A disk that takes its time: what is answered too early is not there yet.
    disk.set_hook(Some(Box::new(|operation, _, _, _| {
        if operation == DiskOperation::Sync {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(())
    })));
    let change = [Int(one), Int(one), Int(other), Int(other)];
    let calls: [(&str, &[_]); 2] = [("Change", &change), ("ChangeAll", &[])];
    for (procedure, values) in calls {
        let answer = peer.call(procedure, values);
        let survivor = disk.survivor(|_| Survival::Lost);
        assert_eq!(answer.status, -2, "{procedure}: {answer:?}");
        assert!(answer.text.contains("max_response_bytes"), "{answer:?}");
        let (_server, mut peer, _) = host_of_undone(&survivor, &[]);
        assert_eq!(peer.run("SELECT SUM(v) FROM t"), "0", "{procedure} is undone");
    }
}

/// Commits that only logs tell are awaited one by one; what comes after one goes on meanwhile.
#[test]
fn transactions_of_several_rounds_go_on_behind_commits_that_are_not_durable_yet() {
    let disk = new_disk(2);
    let (server, mut peer) = host(&disk, 2);
    peer.run(bank::SCHEMA);
    peer.run(bank::NATIVE_SCHEMA);
    for account in 0..10 {
        assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(1_000)]).status, 1);
    }
    const CALLS: i64 = 100;
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::login(server.client_address())).collect();
    for (number, peer) in (0..).zip(&mut peers) {
        let mut frames = Vec::new();
        for n in 0..CALLS {
            let values = [Int((n + number) % 10), Int((n * 3 + number + 1) % 10), Int(1)];
            frames.extend(call_frame("TransferAnywhere", n, &parameters(&values)));
        }
        peer.send(&frames);
    }
    for peer in &mut peers {
        (0..CALLS).for_each(|_| assert_eq!(peer.answer().status, 1));
    }
    assert_eq!(peer.call("Total", &[]).rows, "10000,10");
}

#[test]
fn what_no_log_has_decided_in_time_is_told_as_unknown() {
    let disk = new_disk(2);
    let (_server, mut peer, [one, other]) = host_of_undone(&disk, &["transaction_timeout_ms=200"]);
    let barrier = Arc::new(Barrier::default());
    barrier.set(true);
    let _opened = Opened(Arc::clone(&barrier));
    hold_syncs(&disk, &barrier);
    for (procedure, values) in
        [("Change", vec![Int(one), Int(one), Int(other), Int(other)]), ("ChangeAll", vec![])]
    {
        // The votes wait for their sync, so the round is late; so is the abort.
        let answer = peer.call(procedure, &values);
        assert_eq!(answer.status, -7, "{procedure}: {answer:?}");
        assert!(answer.text.contains("transaction_timeout_ms"), "{answer:?}");
    }
    barrier.set(false);
    disk.set_hook(None);
    assert_eq!(peer.run("SELECT SUM(v) FROM t"), "0");
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
fn a_group_commit_waits_for_no_more_of_a_site_that_is_idle() {
    const BURSTS: u32 = 40;
    const CALLS: i64 = 300;
    let distance = Duration::from_millis(100);
    let busy = format!("group_commit_busy_interval_us={}", distance.as_micros());
    for sites in [1, 2] {
        let disk = new_disk(sites);
        let options = [OPTIONS, &["group_commit_interval_us=0", &busy, "busy_poll_us=50"]].concat();
        let server = start_with(sites, &options, Some(data(&disk, Durability::Sync)));
        let server = server.expect("the host starts");
        let mut peer = Peer::login(server.client_address());
        peer.run("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;");
        let begun = Instant::now();
        for burst in 0..i64::from(BURSTS) {
            // All at once: the groups of such a burst are those of a host under load.
            let key = |call| parameters(&[Int(burst * CALLS + call)]);
            let calls = (0..CALLS).map(|call| call_frame("T.insert", call, &key(call)));
            peer.send(&calls.collect::<Vec<_>>().concat());
            (0..CALLS).for_each(|_| assert_eq!(peer.answer().status, 1));
        }
        let taken = begun.elapsed();
        assert!(taken < distance * BURSTS / 2, "{BURSTS} bursts took {taken:?}");
    }
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

/// Where the blocks of a log stand, in their order.
fn blocks(disk: &MemoryDisk) -> Vec<LogPosition> {
    let cluster = ClusterFile::read(disk).expect("sound").expect("made");
    let mut reader = LogReader::open(Arc::new(disk.clone()), cluster.cluster).expect("sound");
    let mut positions = Vec::new();
    while let Some(block) = reader.next_block().expect("a sound log") {
        positions.push(block.position);
    }
    positions
}

#[test]
fn whatever_end_an_asynchronous_log_loses_the_rest_is_whole() {
    const SITES: u32 = 3;
    let disk = new_disk(SITES);
    let start = |disk: &MemoryDisk| {
        let server = start_with(SITES, OPTIONS, Some(data(disk, Durability::Async)));
        let server = server.expect("the host starts");
        let peer = Peer::login(server.client_address());
        (server, peer)
    };
    let (server, mut peer) = start(&disk);
    for script in [bank::SCHEMA, bank::NATIVE_SCHEMA] {
        peer.run(script);
    }
    for account in 0..20 {
        assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(1_000)]).status, 1);
    }
    assert_eq!(peer.call("@Quiesce", &[]).status, 1, "what was answered is in the log");
    let begun = blocks(&disk).len();
    std::thread::scope(|scope| {
        for client in 0..3i64 {
            let address = server.client_address();
            scope.spawn(move || {
                let mut peer = Peer::login(address);
                for n in 0..40 {
                    let (from, to) = ((n * 3 + client) % 20, (n * 7 + 3 + client) % 20);
                    let answer = peer.call("TransferAnywhere", &[Int(from), Int(to), Int(1)]);
                    assert_eq!(answer.status, 1, "{answer:?}");
                    if client == 0 && n % 4 == 0 {
                        peer.run(&format!("CREATE TABLE made_{n} (a INTEGER)"));
                    }
                }
            });
        }
    });
    let whole = disk.survivor(|_| Survival::Kept);
    drop(server);
    let positions = blocks(&whole);
    assert!(positions.len() > begun + 50, "{} blocks", positions.len());
    for position in positions.iter().skip(begun).step_by(positions.len() / 60 + 1) {
        let cut = whole.copy();
        for name in cut.list("log").expect("a folder").iter().map(|name| format!("log/{name}")) {
            if name > file_name(position.segment) && !name.contains("spare") {
                cut.remove(&name).expect("it is there");
            }
        }
        let name = file_name(position.segment);
        let mut bytes = cut.bytes(&name).expect("it is there");
        bytes[position.offset as usize..].fill(0);
        cut.replace(&name, bytes);
        let (_server, mut peer) = start(&cut);
        assert_eq!(peer.run("SELECT COUNT(*), SUM(balance) FROM accounts"), "20,20000");
    }
}
