//! Statements that work on the rows of the partition of their call, and arguments of other types
//! than the partitioning column's.

use crate::durability::{data, new_disk};
use crate::support::{Peer, parameters, start, start_with};
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Bytes, Float, Int, Text};

const SITES: u32 = 3;
const ROWS: i64 = 60;
const OPTIONS: &[&str] = &["statistics_interval_ms=0", "log_segment_bytes=262144"];

const SCHEMA: &str = "\
    CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v BIGINT); PARTITION TABLE t ON COLUMN k;";
const PROCEDURES: &str = "\
    CREATE PROCEDURE Here PARTITION ON TABLE t COLUMN k AS SELECT COUNT(*) FROM t WHERE k <> ?;
    CREATE PROCEDURE Add PARTITION ON TABLE t COLUMN k AS BEGIN
        SELECT v FROM t WHERE k = ?; UPDATE t SET v = v + ?; END;
    CREATE PROCEDURE Far PARTITION ON TABLE t COLUMN k AS BEGIN
        SELECT v FROM t WHERE k = ?; SELECT v FROM t WHERE k = ?; END;";

fn fill(peer: &mut Peer) {
    for k in 0..ROWS {
        assert_eq!(peer.call("T.insert", &[Int(k), Int(0)]).status, 1);
    }
}

/// A key of another partition than that of key 0.
fn far_key(peer: &mut Peer) -> i64 {
    let rows = peer.call("Here", &[Int(0)]).rows;
    let far = (1..ROWS).find(|&k| peer.call("Far", &[Int(0), Int(k)]).rows.ends_with(';'));
    far.unwrap_or_else(|| panic!("all {rows} rows are at one partition"))
}

#[test]
fn an_option_makes_procedures_work_on_local_rows() {
    let server = start(SITES, &["local_data=1"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    let created = peer.call("@AdHoc", &[Text(PROCEDURES)]);
    assert_eq!(created.status, 1, "{created:?}");
    for part in ["Procedure Here is WITH LOCAL DATA", "sql0 on table T", "Procedure Add is WITH"] {
        assert!(created.note.contains(part), "{} lacks {part}", created.note);
    }
    assert!(!created.note.contains("Far"), "{}", created.note);
    fill(&mut peer);
    let here = peer.call("Here", &[Int(0)]);
    let count: i64 = here.rows.parse().expect("a number of rows");
    assert!(count > 0 && count < ROWS - 1, "{here:?}");
    let changed = peer.call("Add", &[Int(0), Int(5)]);
    assert_eq!(changed.rows, format!("0;{}", count + 1));
    assert_eq!(peer.run("SELECT SUM(v) FROM t"), ((count + 1) * 5).to_string());
    // What is elsewhere is not found, as in VoltDB; a row is not put where it does not belong.
    let far = far_key(&mut peer);
    assert_eq!(peer.call("Far", &[Int(0), Int(far)]).rows, "5;");
    let plans = peer.call("@ExplainProc", &[Text("Add")]).rows;
    assert!(plans.contains("LOCAL DATA: only the rows of T at that partition"), "{plans}");
    assert!(plans.contains("whatever T.K = ?0 is"), "{plans}");
    let listed = peer.call("@SystemCatalog", &[Text("PROCEDURES")]).rows;
    assert!(listed.contains("\"localData\":true"), "{listed}");
}

#[test]
fn a_declaration_makes_one_procedure_work_on_local_rows() {
    let server = start(SITES, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    peer.run(PROCEDURES);
    peer.run(
        "CREATE PROCEDURE Declared PARTITION ON TABLE t COLUMN k WITH LOCAL DATA
         AS SELECT COUNT(*) FROM t WHERE k <> ?;",
    );
    fill(&mut peer);
    let refused = peer.call("Here", &[Int(0)]);
    assert!(refused.text.contains("declare it WITH LOCAL DATA"), "{refused:?}");
    let here: i64 = peer.call("Declared", &[Int(0)]).rows.parse().expect("a number of rows");
    assert!(here > 0 && here < ROWS - 1);
}

#[test]
fn a_restart_without_the_option_keeps_what_procedures_declare() {
    let disk = new_disk(SITES);
    let with: Vec<&str> = OPTIONS.iter().copied().chain(["local_data=1"]).collect();
    let server = start_with(SITES, &with, Some(data(&disk, Durability::Sync))).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    peer.run(PROCEDURES);
    fill(&mut peer);
    for k in 0..10 {
        assert_eq!(peer.call("Add", &[Int(k), Int(k)]).status, 1);
    }
    let sums = peer.run("SELECT k, v FROM t ORDER BY k");
    drop(peer);
    drop(server);
    let server =
        start_with(SITES, OPTIONS, Some(data(&disk, Durability::Sync))).expect("it starts again");
    let mut peer = Peer::login(server.client_address());
    assert_eq!(peer.run("SELECT k, v FROM t ORDER BY k"), sums);
    assert_eq!(peer.call("Add", &[Int(0), Int(1)]).status, 1);
    peer.run(
        "CREATE PROCEDURE Later PARTITION ON TABLE t COLUMN k
         AS SELECT COUNT(*) FROM t WHERE k <> ?;",
    );
    assert_eq!(peer.call("Later", &[Int(0)]).status, -2);
}

#[test]
fn an_argument_is_routed_as_the_value_that_the_procedure_gets() {
    let server = start(SITES, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE s (k VARCHAR(40) NOT NULL, v BIGINT, PRIMARY KEY (k));
         PARTITION TABLE s ON COLUMN k;
         CREATE TABLE n (k SMALLINT NOT NULL, v BIGINT, PRIMARY KEY (k));
         PARTITION TABLE n ON COLUMN k;
         CREATE PROCEDURE Pair PARTITION ON TABLE s COLUMN k PARAMETER 1
             AS SELECT v + CAST(? AS BIGINT) FROM s WHERE k = ?;",
    );
    for number in 0..20 {
        assert_eq!(peer.call("S.insert", &[Int(number), Int(number)]).status, 1, "{number}");
        assert_eq!(peer.call("S.upsert", &[Int(number), Int(number + 1)]).status, 1);
        let text = number.to_string();
        let next = (number + 1).to_string();
        for given in [Int(number), Text(&text), Bytes(text.as_bytes())] {
            let found = peer.call("Pair", &[Int(0), given]);
            assert_eq!((found.status, &found.rows), (1, &next), "{given:?} {}", found.text);
        }
        assert_eq!(peer.call("S.insert", &[Float(number as f64), Int(0)]).status, 1);
        assert_eq!(peer.call("S.delete", &[Float(number as f64)]).rows, "1");
        assert_eq!(peer.call("N.insert", &[Text(&text), Int(1)]).status, 1);
        assert_eq!(peer.call("N.delete", &[Int(number)]).rows, "1");
    }
    assert_eq!(peer.call_with("S.delete", &parameters(&[Int(3)])).rows, "1");
    assert_eq!(peer.run("SELECT COUNT(*) FROM s"), "19");
}

/// The keys of `@GetPartitionKeys` reach each partition once, whatever type the partitioning column
/// has.
#[test]
fn a_call_with_the_key_of_each_partition_reaches_all_rows() {
    let server = start(SITES, &[]);
    let mut peer = Peer::login(server.client_address());
    for (table, column) in [("s", "VARCHAR(40)"), ("b", "VARBINARY(40)"), ("n", "SMALLINT")] {
        peer.run(&format!(
            "CREATE TABLE {table} (k {column} NOT NULL, PRIMARY KEY (k));
             PARTITION TABLE {table} ON COLUMN k;
             CREATE PROCEDURE Count_{table} PARTITION ON TABLE {table} COLUMN k WITH LOCAL DATA
                 AS SELECT COUNT(*) FROM {table} WHERE 0 <= CAST(? AS INTEGER);
             CREATE PROCEDURE Second_{table} PARTITION ON TABLE {table} COLUMN k PARAMETER 1
                 WITH LOCAL DATA AS
                 SELECT COUNT(*) + CAST(? AS INTEGER) FROM {table} WHERE 0 <= CAST(? AS BIGINT);"
        ));
        let name = table.to_uppercase();
        for number in 10..40 {
            let text = number.to_string();
            assert_eq!(peer.call(&format!("{name}.insert"), &[Text(&text)]).status, 1, "{text}");
        }
        let keys = peer.call("@GetPartitionKeys", &[Text("INTEGER")]).rows;
        let keys: Vec<i64> = keys
            .lines()
            .map(|row| row.rsplit(',').next().and_then(|key| key.parse().ok()).expect("a key"))
            .collect();
        assert_eq!(keys.len(), SITES as usize);
        let mut sums = [0, 0, 0];
        for &key in &keys {
            let text = key.to_string();
            let calls = [
                peer.call(&format!("Count_{table}"), &[Int(key)]),
                peer.call(&format!("Count_{table}"), &[Text(&text)]),
                peer.call(&format!("Second_{table}"), &[Int(0), Int(key)]),
            ];
            for (sum, answer) in sums.iter_mut().zip(calls) {
                *sum += answer.rows.parse::<i64>().unwrap_or_else(|_| panic!("{answer:?}"));
            }
        }
        assert_eq!(sums, [30; 3], "{column}");
    }
}
