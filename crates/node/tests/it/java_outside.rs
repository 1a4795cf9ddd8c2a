//! Non-transactional and compound procedures in Java, called as any other. Without a JDK these
//! tests say so and pass.

use crate::java::{OPTIONS, host_with, jar, load};
use crate::support::{Answer, Peer, call_frame, parameters};
use lockstep_types::Datum;
use std::time::{Duration, Instant};

const SCHEMA: &str = "
    CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v BIGINT);
    PARTITION TABLE t ON COLUMN k;
    CREATE DIRECTED PROCEDURE Here AS SELECT COUNT(*) FROM t;
    CREATE PROCEDURE CountByKey PARTITION ON TABLE t COLUMN k
        AS SELECT COUNT(*) FROM t WHERE k <> ? + 1000000;
    CREATE PROCEDURE FROM CLASS Outside;
    CREATE COMPOUND PROCEDURE FROM CLASS Stages;";

fn outside(peer: &mut Peer, how: &str, key: i64) -> Answer {
    peer.call("Outside", &[Datum::Text(how), Datum::Int(key)])
}

#[test]
fn a_procedure_outside_of_transactions_calls_others() {
    for sites in [1, 3] {
        let Some((_server, mut peer)) = host_with(sites, SCHEMA, OPTIONS) else { return };
        for key in 1..=20 {
            let how = if key % 2 == 0 { "wait" } else { "chain" };
            let answer = outside(&mut peer, how, key);
            let row = format!("{key},{}", 1 + key % 2);
            assert_eq!((answer.text.as_str(), answer.rows), ("", row), "{how} {key} ({sites})");
            assert_eq!(answer.note, how);
        }
        assert_eq!(outside(&mut peer, "pass", 21).rows, "1");
        assert_eq!(outside(&mut peer, "nested", 22).rows, "22,1");
        assert_eq!(outside(&mut peer, "ad hoc", 0).rows, "22");
        let total = (2200 + sites).to_string();
        for how in ["everywhere", "by key"] {
            let answer = outside(&mut peer, how, 0);
            assert_eq!((answer.text.as_str(), &answer.rows), ("", &total), "{how} ({sites})");
        }
        assert_eq!(outside(&mut peer, "absent", 0).rows, "-3 Procedure Absent was not found");
        assert_eq!(outside(&mut peer, "number", 77).rows, "77");
    }
}

#[test]
fn a_procedure_outside_of_transactions_fails_alone() {
    let options = [OPTIONS, &["nontransactional_limit_ms=600"]].concat();
    let Some((_server, mut peer)) = host_with(2, SCHEMA, &options) else { return };
    outside(&mut peer, "wait", 1);
    for (how, status, part) in [
        ("pass", -2, "CONSTRAINT VIOLATION"),
        ("wait", -3, "CONSTRAINT VIOLATION"),
        ("abort", -1, "as it was told"),
        ("throw", -3, "java.lang.IllegalArgumentException: a broken promise"),
        ("later", -3, "a promise broken later"),
        ("exit", -3, "java.lang.SecurityException"),
        ("loop", -2, "took longer than 600 ms"),
        ("sleep", -2, "took longer than 600 ms"),
        ("never", -2, "took longer than 600 ms"),
    ] {
        let begun = Instant::now();
        let answer = outside(&mut peer, how, 1);
        assert_eq!(answer.status, status, "{how}: {}", answer.text);
        assert!(answer.text.contains(part), "{how}: {} lacks {part}", answer.text);
        assert!(begun.elapsed() < Duration::from_secs(5), "{how}");
        assert_eq!(outside(&mut peer, "number", 5).rows, "5", "behind {how}");
    }
    let few = peer.call("Outside", &[Datum::Text("wait")]);
    assert_eq!(few.status, -2, "{}", few.text);
    assert!(few.text.contains("EXPECTS 2 PARAMS, BUT RECEIVED 1"), "{}", few.text);
    // A client that goes leaves the call to its end.
    let handle = 99;
    let given = parameters(&[Datum::Text("wait"), Datum::Int(50)]);
    let mut other = Peer::login(_server.client_address());
    other.send(&call_frame("Outside", handle, &given));
    drop(other);
    crate::support::eventually("the row is there", || {
        peer.run("SELECT v FROM t WHERE k = 50") == "1"
    });
}

#[test]
fn a_call_that_finds_too_many_in_progress_is_refused() {
    let limits = ["nontransactional_limit_ms=600", "max_nontransactional_calls=1"];
    let options = [OPTIONS, &limits].concat();
    let Some((_server, mut peer)) = host_with(1, SCHEMA, &options) else { return };
    let call = |how: &str, handle| {
        call_frame("Outside", handle, &parameters(&[Datum::Text(how), Datum::Int(1)]))
    };
    // Both come with one read.
    peer.send(&[call("never", 1), call("number", 2)].concat());
    let refused = peer.answer();
    assert_eq!(refused.handle, 2, "{refused:?}");
    assert!(refused.text.contains("(option max_nontransactional_calls)"), "{refused:?}");
    let ended = peer.answer();
    assert!(ended.handle == 1 && ended.text.contains("took longer than 600 ms"), "{ended:?}");
    assert_eq!(outside(&mut peer, "number", 5).rows, "5");
}

#[test]
fn compound_procedures_run_in_stages() {
    let options = [OPTIONS, &["nontransactional_limit_ms=600"]].concat();
    for sites in [1, 3] {
        let Some((_server, mut peer)) = host_with(sites, SCHEMA, &options) else { return };
        peer.run("INSERT INTO t VALUES (1, 100); INSERT INTO t VALUES (2, 0)");
        let mut stages = |how: &str, from: i64, amount: i64| {
            let amounts = [Datum::Int(from), Datum::Int(2), Datum::Int(amount)];
            peer.call("Stages", &[&[Datum::Text(how)], &amounts[..]].concat())
        };
        for round in 1..=10 {
            let answer = stages("move", 1, 10);
            assert_eq!((answer.text.as_str(), answer.rows.as_str()), ("", "10"), "{round}");
            assert_eq!(answer.note, "move");
        }
        for (how, from, status, part) in [
            ("move", 1, -17, "COMPOUND PROC ERROR: User abort: too little: 0"),
            ("move", 3, -17, "COMPOUND PROC ERROR: User abort: there is no such row"),
            ("throw", 1, -3, "COMPOUND PROC ERROR: Unexpected failure: java.lang.Illegal"),
            ("many", 1, -3, "more than 10 calls"),
            ("nested", 1, -17, "cannot call compound procedure"),
            ("loop", 1, -18, "COMPOUND PROC ERROR: Procedure Stages took longer than 600 ms"),
        ] {
            let answer = stages(how, from, 10);
            assert_eq!(answer.status, status, "{how}: {}", answer.text);
            assert!(answer.text.contains(part), "{how}: {} lacks {part}", answer.text);
        }
        let answer = stages("unfinished", 2, 0);
        assert_eq!(answer.status, -3, "{}", answer.text);
        assert!(answer.text.contains("completeProcedure"), "{}", answer.text);
        assert_eq!(peer.run("SELECT v FROM t ORDER BY k"), "0\n100");
    }
}

#[test]
fn declarations_go_with_their_classes() {
    let Some((_server, mut peer)) = host_with(2, SCHEMA, OPTIONS) else { return };
    for (sql, part) in [
        ("CREATE COMPOUND PROCEDURE FROM CLASS Vote", "is no compound procedure"),
        ("CREATE COMPOUND PROCEDURE FROM CLASS Outside", "is no compound procedure"),
        ("CREATE COMPOUND PROCEDURE x AS SELECT * FROM t", "is a class"),
        ("CREATE PROCEDURE x PARTITION ON TABLE t COLUMN k FROM CLASS Outside", "no partition"),
        ("CREATE DIRECTED PROCEDURE x FROM CLASS Outside", "no partition"),
        ("PARTITION PROCEDURE Outside ON TABLE t COLUMN k", "no partition"),
    ] {
        let answer = peer.sql(sql);
        assert_eq!(answer.status, -2, "{sql}: {}", answer.text);
        assert!(answer.text.contains(part), "{sql}: {} lacks {part}", answer.text);
    }
    let listed = peer.call("@SystemCatalog", &[Datum::Text("PROCEDURES")]).rows;
    let line = |name: &str| {
        let found = listed.lines().find(|line| line.contains(name));
        found.unwrap_or_else(|| panic!("{name} in {listed}")).to_string()
    };
    assert!(line("Outside").contains("\"singlePartition\":false,\"compound\":false"));
    assert!(line("Stages").contains("\"singlePartition\":false,\"compound\":true"));
    // Classes are replaced while a call runs; it ends with those that it began with.
    let given = parameters(&[Datum::Text("wait"), Datum::Int(7)]);
    peer.send(&call_frame("Outside", 1000, &given));
    let mut other = Peer::login(_server.client_address());
    load(&mut other, jar().expect("there is one"));
    assert_eq!(peer.answer().rows, "7,1");
    assert_eq!(outside(&mut peer, "wait", 8).rows, "8,1");
    // The word COMPOUND may be left out.
    peer.run("DROP PROCEDURE Stages");
    peer.run("CREATE PROCEDURE FROM CLASS Stages");
    peer.run("INSERT INTO t VALUES (1, 100); INSERT INTO t VALUES (2, 0)");
    let moved = [Datum::Text("move"), Datum::Int(1), Datum::Int(2), Datum::Int(10)];
    let answer = peer.call("Stages", &moved);
    assert_eq!((answer.status, answer.rows.as_str()), (1, "10"), "{}", answer.text);
}
