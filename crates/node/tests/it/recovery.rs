//! A host comes back from its newest sound snapshot and the log after it, and keeps no more of
//! the log than that needs.

use crate::durability::{data, new_disk};
use crate::snapshot;
use crate::support::{Peer, call_frame, eventually, parameters, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, DiskErrorKind, DiskOperation};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_node::recovery::RecoverySummary;
use lockstep_types::Datum::{Int, Text};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SITES: u32 = 3;
const OPTIONS: &[&str] = &["log_segment_bytes=131072", "statistics_interval_ms=0"];
/// A snapshot by schedule every two seconds, of which one stays.
const SCHEDULE: &[&str] = &[
    "log_segment_bytes=131072",
    "statistics_interval_ms=0",
    "snapshot_interval_s=2",
    "snapshots_kept=1",
];
const NOTES: &str = "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, t VARCHAR(2000));
    PARTITION TABLE notes ON COLUMN id;";

fn host_with(disk: &MemoryDisk, durability: Durability, options: &[&str]) -> (Server, Peer) {
    let server = start_with(SITES, options, Some(data(disk, durability)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

fn host(disk: &MemoryDisk) -> (Server, Peer) {
    host_with(disk, Durability::Sync, OPTIONS)
}

fn summary(server: &Server) -> RecoverySummary {
    server.recovery().expect("it has a directory").clone()
}

/// Saves into the host's own directory.
fn save(peer: &mut Peer, nonce: &str) {
    let answer = peer.call("@SnapshotSave", &[Text(""), Text(nonce), Int(1)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.rows.lines().all(|line| line.contains(",SUCCESS,")), "{answer:?}");
}

fn change(peer: &mut Peer, from: i64) {
    for id in from..from + 40 {
        assert_eq!(peer.call("change", &[Int(id % 120)]).status, 1);
        peer.run(&format!("INSERT INTO pair VALUES ({id}, 'behind {from}', 0.3)"));
    }
    peer.run(&format!("DELETE FROM kinds WHERE id BETWEEN {from} AND {}", from + 3));
    peer.run(&format!("UPDATE everywhere SET t = 'now {from}' WHERE id < 50"));
}

/// The disk as a power cut would leave it, the host's tables bit by bit, and what they hold.
fn cut(
    disk: &MemoryDisk,
    (server, mut peer): (Server, Peer),
) -> (MemoryDisk, Vec<u64>, Vec<String>) {
    let texts = snapshot::digest(&mut peer);
    let survivor = disk.survivor(|_| Survival::Lost);
    (survivor, server.stop_with_digests().expect("it stops"), texts)
}

/// Starts on a copy of the disk: what was done, the tables bit by bit, and what they hold.
fn recovered(disk: &MemoryDisk) -> (RecoverySummary, Vec<u64>, Vec<String>) {
    let (server, mut peer) = host(&disk.copy());
    let (summary, texts) = (summary(&server), snapshot::digest(&mut peer));
    (summary, server.stop_with_digests().expect("it stops"), texts)
}

fn files(disk: &MemoryDisk, folder: &str, part: &str) -> Vec<String> {
    let mut names = disk.list(folder).expect("it is there");
    names.retain(|name| name.contains(part));
    names.iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Turns a bit over in the middle of a file.
fn damage(disk: &MemoryDisk, name: &str) {
    let mut bytes = disk.bytes(name).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    disk.replace(name, bytes);
}

#[test]
fn recovery_begins_with_the_newest_snapshot() {
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk);
    // Ids of tables with a gap, and versions of the catalog that no listing of it would give.
    peer.run("CREATE TABLE gone (a INTEGER); CREATE TABLE gone_too (a INTEGER)");
    snapshot::fill(&mut peer);
    peer.run("DROP TABLE gone");
    save(&mut peer, "one");
    change(&mut peer, 0);
    save(&mut peer, "two");
    change(&mut peer, 20);
    peer.run("CREATE INDEX late ON kinds (a); CREATE TABLE later (a INTEGER NOT NULL)");
    peer.run("INSERT INTO later VALUES (7)");
    change(&mut peer, 60);
    let (survivor, digests, texts) = cut(&disk, (server, peer));

    let (by_snapshot, same, same_texts) = recovered(&survivor);
    let loaded = by_snapshot.snapshot.clone().expect("there is one");
    assert_eq!(loaded.nonce, "two");
    assert!(loaded.rows > 200 && by_snapshot.schema_changes == 1, "{by_snapshot:?}");
    assert!(by_snapshot.passed_over.is_empty());
    assert_eq!((same_texts, same), (texts.clone(), digests.clone()));

    // The whole log leads to the same, bit by bit.
    let without = survivor.copy();
    for name in files(&without, "snapshots", "") {
        without.remove(&name).expect("it is there");
    }
    let (by_log, same, _) = recovered(&without);
    assert!(by_log.snapshot.is_none() && by_log.entries > by_snapshot.entries + 300);
    assert_eq!(same, digests);

    // A host that goes on, and comes back again.
    let (server, mut peer) = host(&survivor);
    change(&mut peer, 80);
    peer.run("DROP TABLE later");
    let (survivor, digests, texts) = cut(&survivor, (server, peer));
    let (again, same, same_texts) = recovered(&survivor);
    assert_eq!(again.snapshot.expect("there is one").nonce, "two");
    assert_eq!((same_texts, same), (texts, digests));
}

#[test]
fn a_damaged_snapshot_is_told_and_an_older_one_used_while_the_log_reaches() {
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk);
    snapshot::fill(&mut peer);
    save(&mut peer, "one");
    change(&mut peer, 0);
    save(&mut peer, "two");
    // Some tables, saved for another purpose: nothing for recovery.
    let json = "{\"nonce\":\"some\",\"block\":true,\"tables\":[\"PAIR\"]}";
    assert_eq!(peer.call("@SnapshotSave", &[Text(json)]).status, 1);
    change(&mut peer, 30);
    let (survivor, digests, texts) = cut(&disk, (server, peer));
    let (sound, same, _) = recovered(&survivor);
    assert_eq!(
        (sound.snapshot.expect("there is one").nonce.as_str(), same),
        ("two", digests.clone())
    );

    for (broken, place) in
        [("two-host_0-site_1.rows", ", byte "), ("two-host_0.manifest", ", byte ")]
    {
        let damaged = survivor.copy();
        damage(&damaged, &format!("snapshots/{broken}"));
        let (summary, same, same_texts) = recovered(&damaged);
        assert_eq!(summary.snapshot.expect("the older one").nonce, "one");
        let [problem] = summary.passed_over.as_slice() else { panic!("{:?}", summary.passed_over) };
        assert!(problem.contains(broken) && problem.contains(place), "{problem}");
        assert_eq!((&same_texts, &same), (&texts, &digests));
    }
    for name in files(&survivor, "snapshots", "site_0.rows") {
        survivor.remove(&name).expect("it is there");
    }
    let (summary, same, _) = recovered(&survivor);
    assert!(summary.snapshot.is_none() && summary.passed_over.len() == 3, "{summary:?}");
    assert_eq!(same, digests);
}

/// Writes rows of a segment and more.
fn write(peer: &mut Peer, ids: std::ops::Range<i64>) {
    let text = "x".repeat(1_500);
    for id in ids {
        assert_eq!(peer.call("NOTES.insert", &[Int(id), Text(&text)]).status, 1);
    }
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    let mut names = files(disk, "log", "");
    names.retain(|name| !name.contains("spare"));
    names.sort();
    names
}

#[test]
fn the_log_behind_snapshots_by_schedule_is_given_up() {
    let disk = new_disk(SITES);
    let (server, mut peer) = host_with(&disk, Durability::Sync, SCHEDULE);
    peer.run(NOTES);
    let mut written = 0;
    let mut longest = 0;
    for _ in 0..3 {
        let first = segments(&disk)[0].clone();
        write(&mut peer, written..written + 400);
        written += 400;
        longest = longest.max(segments(&disk).len());
        eventually("the oldest segments go", || segments(&disk)[0] > first);
    }
    // 600 KB at a time, in segments of 128 KiB: three times as much was written.
    eventually("only what is behind the snapshot stays", || segments(&disk).len() <= 2);
    assert!(longest < 12, "{longest}");
    let survivor = disk.survivor(|_| Survival::Lost);
    let digests = server.stop_with_digests().expect("it stops");

    let server = start_with(SITES, OPTIONS, Some(data(&survivor.copy(), Durability::Sync)));
    let server = server.expect("the host starts");
    let mut peer = Peer::login(server.client_address());
    let loaded = summary(&server).snapshot.expect("there is one");
    assert!(loaded.nonce.starts_with("AUTOSNAP"), "{loaded:?}");
    assert_eq!(peer.run("SELECT COUNT(*), MAX(id) FROM notes"), "1200,1199");
    assert_eq!(server.stop_with_digests().expect("it stops"), digests);

    // Without it there is no way back, and nothing is made up.
    for name in files(&survivor, "snapshots", ".manifest") {
        damage(&survivor, &name);
    }
    let before = segments(&survivor);
    let error = start_with(SITES, OPTIONS, Some(data(&survivor, Durability::Sync))).err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("-host_0.manifest, byte "), "{error}");
    assert!(error.contains("entry 1 is due") || error.contains("files back"), "{error}");
    assert_eq!(segments(&survivor), before);
}

#[test]
fn a_stop_in_the_middle_of_giving_up_segments_is_harmless() {
    for fails_at in [1, 3] {
        let disk = new_disk(SITES);
        let (server, mut peer) = host_with(&disk, Durability::Sync, SCHEDULE);
        let stopped = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&stopped);
        server.on_shutdown(move || noted.store(true, Ordering::SeqCst));
        let mut given_up = 0;
        disk.set_hook(Some(Box::new(move |operation, name, _, _| {
            // A spare that becomes a segment is renamed, too.
            let is_segment = name.starts_with("log/") && !name.contains("spare");
            let goes = matches!(operation, DiskOperation::Rename | DiskOperation::Remove);
            given_up += u32::from(goes && is_segment);
            match goes && is_segment && given_up >= fails_at {
                true => Err(DiskErrorKind::Other),
                false => Ok(()),
            }
        })));
        peer.run(NOTES);
        write(&mut peer, 0..600);
        eventually("the disk fails", || stopped.load(Ordering::SeqCst));
        let survivor = disk.survivor(|_| Survival::Lost);
        drop(server);
        let (server, mut peer) = host(&survivor);
        assert!(summary(&server).snapshot.is_some());
        assert_eq!(peer.run("SELECT COUNT(*), MAX(id) FROM notes"), "600,599");
    }
}

#[test]
fn an_index_that_was_being_built_is_built_behind_a_recovery() {
    let disk = new_disk(SITES);
    let slowly = &["log_segment_bytes=131072", "statistics_interval_ms=0", "index_build_rows=1"];
    let (server, mut peer) = host_with(&disk, Durability::Sync, slowly);
    peer.run(NOTES);
    for id in 0..1_500 {
        assert_eq!(peer.call("NOTES.insert", &[Int(id), Text(&format!("n{id}"))]).status, 1);
    }
    save(&mut peer, "before");
    let mut other = Peer::login(server.client_address());
    let index = "CREATE GLOBAL UNIQUE INDEX notes_t ON notes (t)";
    peer.send(&call_frame("@AdHoc", 9, &parameters(&[Text(index)])));
    let covered = |peer: &mut Peer| peer.sql("SELECT COUNT(*) FROM \"NOTES_T#ENTRIES\"").rows;
    eventually("the build has begun", || {
        covered(&mut other).parse::<u32>().is_ok_and(|count| count > 0)
    });
    let survivor = disk.survivor(|_| Survival::Lost);
    assert_ne!(covered(&mut other), "1500", "the build was under way when the power went");
    drop(server);
    let (server, mut peer) = host(&survivor);
    assert_eq!(summary(&server).schema_changes, 1);
    eventually("the build ends", || covered(&mut peer) == "1500");
    // It is in force: it keeps texts unique, and another schema change runs after it.
    peer.run("CREATE TABLE behind (a INTEGER)");
    assert_ne!(peer.call("NOTES.insert", &[Int(5_000), Text("n7")]).status, 1);
    assert_eq!(peer.run("SELECT id FROM notes WHERE t = 'n7'"), "7");
    let survivor = survivor.survivor(|_| Survival::Lost);
    drop(server);
    let (server, mut peer) = host(&survivor);
    assert_eq!(summary(&server).schema_changes, 3);
    assert_eq!(peer.run("SELECT id FROM notes WHERE t = 'n7'"), "7");
}

#[test]
fn a_snapshot_of_a_run_without_a_log_is_not_mixed_with_a_later_log() {
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk);
    peer.run(NOTES);
    write(&mut peer, 0..10);
    server.stop().expect("it stops");
    let (server, mut peer) = host_with(&disk, Durability::None, OPTIONS);
    write(&mut peer, 10..30);
    save(&mut peer, "unlogged");
    server.stop().expect("it stops");
    let with = disk.copy();
    let (server, mut peer) = host(&with);
    assert_eq!(summary(&server).snapshot.expect("there is one").nonce, "unlogged");
    assert_eq!(peer.run("SELECT COUNT(*) FROM notes"), "30");
    server.stop().expect("it stops");

    // The snapshot is lost, and a run goes on without it, under the same numbers.
    let names = files(&disk, "snapshots", "unlogged");
    let kept: Vec<_> = names.iter().map(|name| disk.bytes(name).expect("it is there")).collect();
    names.iter().for_each(|name| disk.remove(name).expect("it is there"));
    let (server, mut peer) = host(&disk);
    assert_eq!(peer.run("SELECT COUNT(*) FROM notes"), "10");
    write(&mut peer, 1_000..1_200);
    server.stop().expect("it stops");
    for (name, bytes) in names.iter().zip(kept) {
        disk.replace(name, bytes);
    }
    let (server, mut peer) = host(&disk);
    let summary = summary(&server);
    assert!(summary.snapshot.is_none(), "{summary:?}");
    assert!(summary.passed_over[0].contains("snapshot unlogged is of a run"), "{summary:?}");
    assert_eq!(peer.run("SELECT COUNT(*), MIN(id), MAX(id) FROM notes"), "210,0,1199");
}
