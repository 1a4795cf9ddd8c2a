//! Snapshots that a host takes by itself: by the clock, by what was logged, and not for nothing.

use crate::durability::{data, new_disk};
use crate::support::{Peer, eventually, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, OpenMode};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};
use std::time::{Duration, Instant};

const NOTES: &str = "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, t VARCHAR(2000));
    PARTITION TABLE notes ON COLUMN id;";
const ROW_BYTES: usize = 1_500;
const BY_LOG: &[&str] = &[
    "log_segment_bytes=65536",
    "snapshot_interval_s=0",
    "snapshot_log_bytes=300000",
    "snapshots_kept=1",
];
const BY_CLOCK: &[&str] = &["snapshot_interval_s=1", "snapshots_kept=1"];

fn host(disk: &MemoryDisk, options: &[&str]) -> (Server, Peer) {
    let server = start_with(2, options, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

fn write(peer: &mut Peer, ids: std::ops::Range<i64>) {
    let text = "x".repeat(ROW_BYTES);
    for id in ids {
        assert_eq!(peer.call("NOTES.upsert", &[Int(id), Text(&text)]).status, 1);
    }
}

/// Names of the snapshots that are whole.
fn snapshots(disk: &MemoryDisk) -> Vec<String> {
    let mut names = disk.list("snapshots").expect("it is there");
    names.retain(|name| name.ends_with(".manifest"));
    names
}

fn log_bytes(disk: &MemoryDisk) -> u64 {
    let names = disk.list("log").expect("it is there");
    let used = names.iter().filter(|name| !name.contains("spare"));
    let length = |name: &String| {
        disk.open(&format!("log/{name}"), OpenMode::Read).and_then(|file| file.length())
    };
    used.map(|name| length(name).unwrap_or(0)).sum()
}

#[test]
fn a_log_that_has_grown_is_saved_and_given_up_whatever_the_clock_says() {
    let disk = new_disk(2);
    let (server, mut peer) = host(&disk, BY_LOG);
    peer.run(NOTES);
    write(&mut peer, 0..50);
    assert!(snapshots(&disk).is_empty(), "too little was logged");
    // What an earlier run logged counts as well.
    let survivor = disk.survivor(|_| Survival::Lost);
    drop((peer, server));
    let disk = survivor;
    let (_server, mut peer) = host(&disk, BY_LOG);
    write(&mut peer, 0..160);
    eventually("a snapshot is saved", || snapshots(&disk).len() == 1);
    // Ten times as much as may lie after a snapshot.
    let mut longest = 0;
    for _ in 0..4 {
        write(&mut peer, 0..100);
        longest = longest.max(log_bytes(&disk));
        let before = snapshots(&disk);
        write(&mut peer, 0..150);
        eventually("the next is saved", || {
            let now = snapshots(&disk);
            now.len() == 1 && now != before
        });
    }
    assert!(longest < 1_500_000, "{longest} bytes of log");
    assert_eq!(peer.run("SELECT COUNT(*) FROM notes"), "160");
}

#[test]
fn nothing_new_is_not_saved_again_and_remains_of_snapshots_go() {
    let disk = new_disk(2);
    let leave = |name: &str, bytes: &[u8]| {
        let file = disk.open(&format!("snapshots/{name}"), OpenMode::Create);
        file.expect("it is made").write_at(0, bytes).expect("it is written");
    };
    leave("AUTOSNAP17-host_0-site_0.rows", b"");
    // This one has the name only.
    leave("AUTOSNAP17-host_0-site_1.rows", b"notes");
    leave("AUTOSNAP17-host_0.manifest.partial", b"Lock");
    leave("mine-host_0-site_0.rows", b"");
    let (_server, mut peer) = host(&disk, BY_CLOCK);
    peer.run(NOTES);
    write(&mut peer, 0..3);
    eventually("a snapshot is saved", || snapshots(&disk).len() == 1);
    eventually("what was left of another is gone", || {
        disk.bytes("snapshots/AUTOSNAP17-host_0-site_0.rows").is_none()
            && disk.bytes("snapshots/AUTOSNAP17-host_0.manifest.partial").is_none()
    });
    assert!(disk.bytes("snapshots/mine-host_0-site_0.rows").is_some(), "a user's stays");
    assert!(disk.bytes("snapshots/AUTOSNAP17-host_0-site_1.rows").is_some(), "not the host's");
    let mut count =
        || peer.call("@Statistics", &[Text("SNAPSHOTSUMMARY"), Int(0)]).rows.lines().count();
    // One that began while the rows were written may be followed by one more.
    let begun = Instant::now();
    let mut last = (count(), begun);
    while last.1.elapsed() < Duration::from_millis(2_500) {
        let now = count();
        if now != last.0 {
            last = (now, Instant::now());
        }
        assert!(now <= 3, "a snapshot of nothing new");
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "a snapshot of nothing new");
}
