//! Procedures that do something else each time that they are called, and are logged by their
//! effects: hosts come back with what they had, slot by slot.

use crate::durability::{data, new_disk};
use crate::support::{Peer, SetAtTheEnd, digests, parameters, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::Datum::{Int, Text};
use lockstep_types::SqlType;
use lockstep_wire_volt::invocation::{CallOptions, encode};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

const SITES: u32 = 3;
/// A disk in memory copies a whole file at each sync: segments are small.
const OPTIONS: &[&str] = &[
    "replica_digests=1",
    "statistics_interval_ms=0",
    "java_heap_bytes=268435456",
    "java_call_limit_ms=800",
    "log_segment_bytes=262144",
];

/// `Chance(k, n)`: deletes, inserts and changes rows of `k` by chance, and fails by chance.
pub struct Chance;

/// Nobody knows it before, in no two runs.
fn chance(below: u64) -> i64 {
    (RandomState::new().build_hasher().finish() % below) as i64
}

impl NativeProcedure for Chance {
    fn name(&self) -> &str {
        "Chance"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        &[NUMBER, NUMBER]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("insert", "INSERT INTO chances VALUES (?, ?, ?, ?);"),
            ("delete", "DELETE FROM chances WHERE k = ? AND n < ?;"),
            ("update", "UPDATE chances SET v = v + ?, t = ? WHERE k = ?;"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (k, Int(n)) = (context.parameter(0), context.parameter(1)) else {
            return Err(context.abort("n is a number"));
        };
        let (long, short) = ("x".repeat(chance(100) as usize), "y".repeat(chance(50) as usize));
        context.queue(1, &[k, Int(n - 1 - chance(5))])?;
        context.queue(0, &[k, Int(n), Int(chance(1 << 40)), Text(&long)])?;
        context.queue(2, &[Int(chance(1_000)), Text(&short), k])?;
        context.execute()?;
        match chance(7) {
            0 => Err(context.abort("by chance")),
            _ => Ok(()),
        }
    }
}

const SCHEMA: &str = "
    CREATE TABLE chances (k BIGINT NOT NULL, n BIGINT NOT NULL, v BIGINT, t VARCHAR(200),
        PRIMARY KEY (k, n));
    PARTITION TABLE chances ON COLUMN k;
    CREATE INDEX by_text ON chances (t);
    CREATE VIEW sums (k, rows_of, total, least) AS
        SELECT k, COUNT(*), SUM(v), MIN(t) FROM chances GROUP BY k;
    CREATE TABLE spread (a BIGINT NOT NULL PRIMARY KEY, n BIGINT);
    PARTITION TABLE spread ON COLUMN a;
    CREATE PROCEDURE Emptied DIRECTED WITH EFFECTS
        AS BEGIN UPDATE chances SET v = 0; DELETE FROM chances; END;";

/// Empties the table at a partition.
fn empty(peer: &mut Peer, partition: i32) {
    let options =
        CallOptions { all_partition_destination: Some(partition), ..CallOptions::default() };
    let mut call = Vec::new();
    encode(&mut call, "Emptied", 1, &options, parameters(&[]).bytes());
    peer.send(&call);
    let answer = peer.answer();
    assert_eq!(answer.status, 1, "{answer:?}");
}

fn host(disk: &MemoryDisk) -> (Server, Peer) {
    let server = start_with(SITES, OPTIONS, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

/// Calls of the procedures in turns, some of them after transactions of all partitions of which
/// every other fails; what the host had, and what comes back of a power cut at the end.
fn ordeal(
    disk: &MemoryDisk,
    procedures: &[&str],
    prepare: impl Fn(&mut Peer),
) -> [Vec<(u64, u64)>; 2] {
    let (server, mut peer) = host(disk);
    prepare(&mut peer);
    for a in 0..30 {
        peer.run(&format!("INSERT INTO spread VALUES ({a}, 0)"));
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spread = || {
            let mut peer = Peer::login(server.client_address());
            for round in 0.. {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let sql = match round % 2 {
                    0 => "UPDATE spread SET n = n + 1",
                    // One partition fails, and takes the others with it.
                    _ => "UPDATE spread SET n = n / (a - 7)",
                };
                let answer = peer.call("@AdHoc", &[Text(sql)]);
                assert_eq!(answer.status == 1, round % 2 == 0, "{answer:?}");
            }
        };
        scope.spawn(spread);
        let _over = SetAtTheEnd(&is_over);
        for n in 0..400 {
            if n % 100 == 50 {
                empty(&mut peer, n as i32 / 100 % 3);
            }
            let procedure = procedures[n as usize % procedures.len()];
            let answer = peer.call(procedure, &[Int(n % 17), Int(n)]);
            assert!([1, -1].contains(&answer.status), "{answer:?}");
        }
    });
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = digests(server);
    let (server, mut peer) = host(&survivor);
    assert_eq!(peer.call(procedures[0], &[Int(1), Text("no number")]).status, -2, "it is there");
    [before, digests(server)]
}

#[test]
fn what_a_marked_procedure_did_comes_back() {
    let create = "CREATE PROCEDURE Chance PARTITION ON TABLE chances COLUMN k WITH EFFECTS
        FROM NATIVE Chance";
    let disk = new_disk(SITES);
    let [before, behind] = ordeal(&disk, &["Chance", "Stated", "Chance", "Everywhere"], |peer| {
        peer.run(SCHEMA);
        peer.run(create);
        peer.run(
            "CREATE PROCEDURE Everywhere WITH EFFECTS FROM NATIVE Chance;
             CREATE PROCEDURE Stated PARTITION ON TABLE chances COLUMN k WITH EFFECTS
                AS UPDATE chances SET v = v + 1 WHERE k = ? AND n < ?;",
        );
        let listed = peer.call("@SystemCatalog", &[Text("PROCEDURES")]);
        let line = listed.rows.lines().find(|line| line.contains("Chance")).expect("listed");
        assert!(line.contains("\"effects\":true"), "{line}");
    });
    assert_eq!(before, behind);
    // Without the mark it is what it is: calls that do something else.
    let [before, behind] = ordeal(&new_disk(SITES), &["Chance"], |peer| {
        peer.run(&SCHEMA.replace("WITH EFFECTS", ""));
        peer.run(&create.replace("WITH EFFECTS", ""));
    });
    let differs = |which: fn(&(u64, u64)) -> u64| {
        before.iter().zip(&behind).any(|(before, after)| which(before) != which(after))
    };
    assert!(differs(|digest| digest.0), "the rows are others");
    assert!(differs(|digest| digest.1), "and so is what was done");
}

#[test]
fn what_a_marked_procedure_in_java_did_comes_back_and_so_do_classes_and_functions() {
    let Some(jar) = crate::java::jar() else { return };
    let disk = new_disk(SITES);
    let prepare = |peer: &mut Peer| {
        crate::java::load(peer, jar);
        peer.run(SCHEMA);
        peer.run("CREATE FUNCTION plus FROM METHOD Functions.plus");
        // ALLOW is answered with a warning.
        let allowed = peer.sql(
            "CREATE PROCEDURE PARTITION ON TABLE chances COLUMN k ALLOW administrator
                WITH EFFECTS FROM CLASS JavaChance",
        );
        assert_eq!(allowed.status, 1, "{}", allowed.text);
        peer.run(
            "CREATE PROCEDURE Added PARTITION ON TABLE spread COLUMN a
                AS UPDATE spread SET n = plus(n, 3) WHERE a = ?;",
        );
    };
    let [before, behind] = ordeal(&disk, &["JavaChance"], |peer| {
        prepare(peer);
        for a in 0..5 {
            assert_eq!(peer.call("Added", &[Int(a)]).status, 1);
        }
    });
    assert_eq!(before, behind);
    // From a snapshot, which has the classes and the schema, and the log after it.
    let (server, mut peer) = host(&disk);
    let answer = peer.call("@SnapshotSave", &[Text(""), Text("with_classes"), Int(1)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    for n in 0..40 {
        let answer = peer.call("JavaChance", &[Int(n % 5), Int(1_000 + n)]);
        assert!([1, -1].contains(&answer.status), "{answer:?}");
        assert_eq!(peer.call("Added", &[Int(n % 5)]).status, 1);
    }
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = server.stop_with_digests().expect("it stops");
    let (server, mut peer) = host(&survivor);
    let summary = server.recovery().expect("it has a directory");
    let loaded = summary.snapshot.as_ref().expect("there is one");
    assert_eq!(loaded.nonce, "with_classes");
    assert_eq!(peer.run("SELECT plus(n, 1) - n FROM spread WHERE a = 1"), "1");
    assert_eq!(server.stop_with_digests().expect("it stops"), before);
}

#[test]
fn what_is_no_transaction_has_no_effects() {
    let Some((_server, mut peer)) = crate::java::host(1, SCHEMA) else { return };
    let answer = peer.sql("CREATE PROCEDURE WITH EFFECTS FROM CLASS Outside");
    assert!(answer.text.contains("no effects to log"), "{answer:?}");
}
