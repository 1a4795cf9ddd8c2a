//! A disk that fills up: what is taken then, what waits, and that nothing answered is lost.

use crate::durability::{data, new_disk};
use crate::support::{Peer, call_frame, eventually, parameters, start_with};
use lockstep_env::Disk;
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};

const SEGMENT: &str = "log_segment_bytes=65536";
/// More than any disk of these tests holds.
const PLENTY: u64 = 1 << 40;

fn start(disk: &MemoryDisk, reserve: &str) -> std::io::Result<Server> {
    let options = [SEGMENT, "resource_check_ms=10", "statistics_interval_ms=0", reserve];
    start_with(1, &options, Some(data(disk, Durability::Sync)))
}

/// From now on N bytes are free.
pub fn leave_free(disk: &MemoryDisk, free: u64) {
    disk.limit_capacity(Some(PLENTY));
    let used = PLENTY - disk.free_bytes().expect("it is known");
    disk.limit_capacity(Some(used + free));
}

fn rows(disk: &MemoryDisk) -> String {
    disk.limit_capacity(None);
    let server = start(disk, "disk_reserve_bytes=0").expect("it starts");
    Peer::login(server.client_address()).run("SELECT COUNT(*) FROM t")
}

const SCHEMA: &str = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, b VARCHAR(3000));
    PARTITION TABLE t ON COLUMN a;";

#[test]
fn below_its_reserve_the_host_deletes_and_below_a_quarter_it_only_reads() {
    const RESERVE: u64 = 16 << 20;
    let disk = new_disk(1);
    let server = start(&disk, &format!("disk_reserve_bytes={RESERVE}")).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    let insert = |peer: &mut Peer, a| peer.call("t.insert", &[Int(a), Text("x")]);
    (0..9).for_each(|a| assert_eq!(insert(&mut peer, a).status, 1));
    leave_free(&disk, RESERVE - 1);
    eventually("writes are refused", || {
        let is_refused = insert(&mut peer, -1).status == -5;
        assert_eq!(peer.call("t.delete", &[Int(-1)]).status, 1);
        is_refused
    });
    let refused = insert(&mut peer, 100);
    for word in ["less than its reserve of 16.0 MiB", "disk_reserve_bytes", "Make room"] {
        assert!(refused.text.contains(word), "'{word}' is not in: {refused:?}");
    }
    assert_eq!(peer.call("t.delete", &[Int(0)]).status, 1);
    assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "8");
    leave_free(&disk, RESERVE / 4 - 1);
    eventually("deletes are refused", || peer.call("t.delete", &[Int(1)]).status == -5);
    assert_eq!(peer.sql("DELETE FROM t WHERE a = 1").status, -5);
    let reads = peer.run("SELECT COUNT(*) FROM t");
    assert!(reads == "8" || reads == "7", "{reads}");
    leave_free(&disk, RESERVE + RESERVE / 10);
    eventually("writes go on", || insert(&mut peer, 200).status == 1);
    assert!(peer.call("@SystemInformation", &[]).rows.contains("CLUSTERSTATE,RUNNING"));
}

/// Sends rows until the log waits for space; gives how many were sent.
fn fill(disk: &MemoryDisk, server: &Server, peer: &mut Peer) -> i64 {
    peer.run(SCHEMA);
    leave_free(disk, 0);
    let mut other = Peer::login(server.client_address());
    let long = "x".repeat(3_000);
    // A segment has 64 KiB: these rows do not fit.
    let sent = 40;
    for a in 0..sent {
        peer.send(&call_frame("t.insert", a, &parameters(&[Int(a), Text(&long)])));
    }
    eventually("the log waits", || {
        other.call("@SystemInformation", &[]).rows.contains("CLUSTERSTATE,PAUSED")
    });
    for refused in [other.call("t.delete", &[Int(0)]), other.sql("DELETE FROM t")] {
        assert_eq!(refused.status, -5, "{refused:?}");
        assert!(refused.text.contains("no space for the command log"), "{refused:?}");
    }
    sent
}

/// The file that is made ahead for the log has the last space: the log goes on in it, even if it
/// had to wait for it.
#[test]
fn the_last_space_is_the_log_s_even_when_a_spare_has_it() {
    for _ in 0..5 {
        let disk = new_disk(1);
        let server = start(&disk, "disk_reserve_bytes=0").expect("it starts");
        let mut peer = Peer::login(server.client_address());
        peer.run(SCHEMA);
        leave_free(&disk, 65_536);
        let long = "x".repeat(3_000);
        // More than one segment has, less than two.
        for a in 0..30 {
            assert_eq!(peer.call("t.insert", &[Int(a), Text(&long)]).status, 1);
        }
        drop((server, peer));
        assert_eq!(rows(&disk), "30");
    }
}

#[test]
fn a_full_disk_makes_answers_wait_and_loses_none() {
    let disk = new_disk(1);
    let server = start(&disk, "disk_reserve_bytes=0").expect("it starts");
    let mut peer = Peer::login(server.client_address());
    let sent = fill(&disk, &server, &mut peer);
    // The power fails now: what it leaves has everything that was answered.
    let survivor = disk.survivor(|_| Survival::Lost);
    disk.limit_capacity(None);
    let mut answered = 0;
    for _ in 0..sent {
        let answer = peer.answer();
        assert!([1, -5].contains(&answer.status), "{answer:?}");
        answered += i64::from(answer.status == 1);
    }
    assert!(answered > 0);
    let kept: i64 = rows(&survivor).parse().expect("a number");
    assert!(kept < answered, "some waited: {kept} of {answered}");
    eventually("writes go on", || peer.call("t.upsert", &[Int(-2), Text("x")]).status == 1);
    let expected = peer.run("SELECT COUNT(*) FROM t");
    drop((server, peer));
    assert_eq!(rows(&disk), expected);
}

#[test]
fn a_host_that_stops_while_the_disk_is_full_says_so_and_answers_nothing_more() {
    let disk = new_disk(1);
    let server = start_with(
        1,
        &[SEGMENT, "disk_reserve_bytes=0", "stop_timeout_ms=50"],
        Some(data(&disk, Durability::Sync)),
    )
    .expect("it starts");
    let mut peer = Peer::login(server.client_address());
    fill(&disk, &server, &mut peer);
    let problem = server.stop().expect_err("the log is not whole").to_string();
    for word in ["log/00000002.log", "no space can be reserved", "make room on the disk"] {
        assert!(problem.contains(word), "'{word}' is not in: {problem}");
    }
    let mut answered = 0;
    while let Some(answer) = peer.next_answer() {
        answered += i64::from(answer.status == 1);
    }
    let kept: i64 = rows(&disk).parse().expect("a number");
    assert!(kept >= answered, "{kept} of {answered}");
}

#[test]
fn a_start_on_a_full_disk_is_refused_and_changes_nothing() {
    let disk = new_disk(1);
    let server = start(&disk, "disk_reserve_bytes=0").expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    assert_eq!(peer.call("t.insert", &[Int(1), Text("x")]).status, 1);
    drop((server, peer));
    let files = |disk: &MemoryDisk| {
        let names = disk.list("log").expect("a folder");
        let bytes = |name: String| disk.bytes(&format!("log/{name}")).map(|bytes| (name, bytes));
        names.into_iter().filter_map(bytes).collect::<Vec<_>>()
    };
    let before = files(&disk);
    leave_free(&disk, 1_000);
    let problem = match start(&disk, "disk_reserve_bytes=0") {
        Ok(_) => panic!("there is no room for a log"),
        Err(error) => error.to_string(),
    };
    for word in ["log/00000002.log", "no space can be reserved", "Remedy: make room on the disk"] {
        assert!(problem.contains(word), "'{word}' is not in: {problem}");
    }
    assert!(files(&disk) == before, "a file was changed");
    assert_eq!(rows(&disk), "1");
}

#[test]
fn a_snapshot_without_room_fails_and_the_host_goes_on() {
    let disk = new_disk(1);
    let server = start(&disk, "disk_reserve_bytes=0").expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    let long = "x".repeat(3_000);
    (0..300).for_each(|a| assert_eq!(peer.call("t.insert", &[Int(a), Text(&long)]).status, 1));
    leave_free(&disk, 300_000);
    let request = "{\"nonce\": \"N\", \"block\": true}";
    let said = peer.call("@SnapshotSave", &[Text(request)]).rows;
    for word in ["FAILURE", "snapshots/N-host_0-site_0.rows", "make room on the disk"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    disk.limit_capacity(None);
    assert_eq!(disk.list("snapshots").expect("a folder"), Vec::<String>::new());
    assert_eq!(peer.call("t.insert", &[Int(1_000), Text("x")]).status, 1);
    assert!(peer.call("@SnapshotSave", &[Text(request)]).rows.contains("SUCCESS"));
}
