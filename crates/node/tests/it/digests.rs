//! The running digest of changes: equal where a log is replayed, and another one as soon as a
//! procedure does something else than before.

use crate::durability::{data, new_disk};
use crate::support::{Peer, digests, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::Datum::{Int, Text};
use lockstep_types::SqlType;
use std::sync::atomic::{AtomicU64, Ordering};

const SITES: u32 = 3;

/// `Counting(k)`: stores how often it ran in this process, which no log knows.
pub struct Counting;

static RUNS: AtomicU64 = AtomicU64::new(0);

impl NativeProcedure for Counting {
    fn name(&self) -> &str {
        "Counting"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[ProcedureParameter { sql_type: SqlType::BigInt, is_array: false }]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("store", "UPDATE counted SET runs = ? WHERE k = ?;")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let runs = RUNS.fetch_add(1, Ordering::SeqCst) as i64;
        let k = context.parameter(0);
        context.queue(0, &[Int(runs), k])?;
        context.execute().map(drop)
    }
}

fn host(disk: &MemoryDisk) -> (Server, Peer) {
    let server = start_with(SITES, &["replica_digests=1"], Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

/// The digests of a host on which `run` was called, and those of one that replays its log.
fn before_and_after(run: impl Fn(&mut Peer)) -> [Vec<(u64, u64)>; 2] {
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk);
    peer.run(
        "CREATE TABLE counted (k BIGINT NOT NULL PRIMARY KEY, runs BIGINT, note VARCHAR(100));
         PARTITION TABLE counted ON COLUMN k;
         CREATE TABLE named (k BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL);
         PARTITION TABLE named ON COLUMN k;
         CREATE GLOBAL UNIQUE INDEX named_name ON named (name);
         CREATE TABLE seen (k BIGINT NOT NULL PRIMARY KEY, since TIMESTAMP DEFAULT NOW);",
    );
    peer.run("CREATE PROCEDURE PARTITION ON TABLE counted COLUMN k FROM NATIVE Counting");
    for k in 0..30 {
        assert_eq!(peer.call("COUNTED.insert", &[Int(k), Int(0), Text("new")]).status, 1);
    }
    run(&mut peer);
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = digests(server);
    let (server, _peer) = host(&survivor);
    [before, digests(server)]
}

/// Calls at one partition and over all of them, some of which fail after they changed something.
fn mixed(peer: &mut Peer) {
    for k in 0..60 {
        let note = format!("note {k}");
        peer.call("COUNTED.update", &[Int(k % 30), Int(k), Text(&note), Int(k % 30)]);
        match k % 6 {
            0 => drop(peer.run("UPDATE counted SET runs = runs + 1")),
            1 => drop(peer.sql("UPDATE counted SET runs = runs / (k - 7)")),
            2 => drop(peer.call("COUNTED.insert", &[Int(k % 30), Int(1), Text("twice")])),
            3 => drop(peer.run(&format!("INSERT INTO seen (k) VALUES ({k})"))),
            4 if k % 4 == 0 => drop(peer.sql("UPDATE named SET name = name || 'x' WHERE k < 20")),
            4 => drop(peer.run(&format!("DELETE FROM counted WHERE k = {}", 30 + k))),
            _ => drop(peer.call("NAMED.insert", &[Int(k), Text(&note)])),
        }
    }
}

#[test]
fn a_replay_has_the_digest_of_what_it_replays() {
    let [before, after] = before_and_after(mixed);
    assert_eq!(before, after);
    assert!(before.iter().all(|(_, changes)| *changes != 0), "{before:?}");
}

#[test]
fn a_snapshot_keeps_the_digest() {
    let saves = |peer: &mut Peer| {
        mixed(peer);
        let saved = peer.call("@SnapshotSave", &[Text(""), Text("one"), Int(1)]);
        assert_eq!(saved.status, 1, "{}", saved.text);
    };
    let [before, after] = before_and_after(saves);
    assert_eq!(before, after, "nothing follows the snapshot");
    let [before, after] = before_and_after(|peer| {
        saves(peer);
        peer.run("UPDATE counted SET runs = runs + 1");
    });
    assert_eq!(before, after, "the log follows the snapshot");
}

#[test]
fn a_procedure_that_stores_what_only_its_process_knows_is_seen() {
    let [before, after] = before_and_after(|peer| {
        mixed(peer);
        assert_eq!(peer.call("Counting", &[Int(3)]).status, 1);
    });
    let differs: Vec<bool> =
        before.iter().zip(&after).map(|(before, after)| before.1 != after.1).collect();
    assert_eq!(differs.iter().filter(|differs| **differs).count(), 1, "{before:?} {after:?}");
}

/// The rows are the same in the end, and so a comparison of rows would not see it.
#[test]
fn what_was_overwritten_since_is_seen_too() {
    let [before, after] = before_and_after(|peer| {
        assert_eq!(peer.call("Counting", &[Int(3)]).status, 1);
        assert_eq!(peer.call("COUNTED.update", &[Int(3), Int(7), Text("same"), Int(3)]).status, 1);
    });
    let contents = |digests: &[(u64, u64)]| -> Vec<u64> {
        digests.iter().map(|(content, _)| *content).collect()
    };
    assert_eq!(contents(&before), contents(&after));
    assert_ne!(before, after);
}
