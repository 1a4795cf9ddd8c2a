//! Functions of users in Java: scalar ones of every type, aggregates over partitions, and those
//! that fail. Without a JDK these tests say so and pass.

use crate::java::{host, jar, load};
use crate::support::{Answer, Peer};
use lockstep_types::Datum;

/// Declares a method of the class `Functions` under its own name.
fn functions(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("CREATE FUNCTION {name} FROM METHOD Functions.{name};"))
        .collect()
}

const TABLE: &str = "
    CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, g INTEGER, v BIGINT, f FLOAT, d DECIMAL,
        s VARCHAR(20), b VARBINARY(20), w TIMESTAMP, i TINYINT);
    PARTITION TABLE t ON COLUMN k;";

fn schema(names: &[&str]) -> String {
    format!("{TABLE}{}", functions(names))
}

fn ad_hoc(peer: &mut Peer, sql: &str) -> Answer {
    peer.call("@AdHoc", &[Datum::Text(sql)])
}

const SCALAR: &[&str] = &[
    "plus",
    "narrow",
    "small",
    "tiny",
    "half",
    "boxed",
    "boxedInt",
    "boxedShort",
    "boxedByte",
    "boxedDouble",
    "greet",
    "twice",
    "later",
    "mirror",
    "mirrorBoxed",
    "nothing",
    "notANumber",
    "infinite",
    "without",
    "ten",
    "fail",
    "counted",
];

const ROWS: &str = "
    INSERT INTO t VALUES (1, 1, 10, 1.5, 2.25, 'ann', X'0102', '2020-01-01 00:00:00', 3);
    INSERT INTO t VALUES (2, 1, 20, 2.5, 4.5, 'bob', X'AABB', '2021-01-01 00:00:00', 4);
    INSERT INTO t VALUES (3, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL);";

#[test]
fn scalar_functions_take_and_give_every_type() {
    for sites in [1, 2] {
        let Some((_server, mut peer)) = host(sites, &schema(SCALAR)) else { return };
        peer.run(ROWS);
        for (sql, rows) in [
            ("SELECT PLUS(v, 1), narrow(v), small(v), Tiny(i) FROM t WHERE k = 1", "11,-10,10,3"),
            (
                "SELECT PLUS(v, 1), narrow(v), boxed(v), boxedInt(g) FROM t WHERE k = 3",
                "NULL,0,-9223372036854775807,3",
            ),
            ("SELECT half(f), half(v), half(d), half(5) FROM t WHERE k = 1", "0.75,5,1.125,2.5"),
            (
                "SELECT half(f), boxedDouble(f), boxed(0), boxedInt(NULL) FROM t WHERE k = 3",
                "NULL,1.5,NULL,-2147483647",
            ),
            (
                "SELECT greet(s), twice(d), twice(v), twice(1.25) FROM t WHERE k = 1",
                "hello ann,4.500000000000,20.000000000000,2.500000000000",
            ),
            ("SELECT greet(s), twice(d), later(w) FROM t WHERE k = 3", "nobody,NULL,NULL"),
            (
                "SELECT mirror(b), mirrorBoxed(b), later(w) FROM t WHERE k = 2",
                "BBAA,AABB,2021-01-01 00:00:01.000000",
            ),
            (
                "SELECT later('2020-02-02 00:00:00'), nothing() FROM t WHERE k = 1",
                "2020-02-02 00:00:01.000000,NULL",
            ),
            ("SELECT COUNT(*) FROM t WHERE k = 1 AND notANumber(k) IS NULL", "0"),
            ("SELECT COUNT(*) FROM t WHERE k = 1 AND notANumber(k) = notANumber(v)", "1"),
            ("SELECT notANumber(k), half(notANumber(k)) FROM t WHERE k = 1", "NaN,NaN"),
            ("SELECT COUNT(*) FROM t WHERE notANumber(k) < f OR f IS NULL", "3"),
            ("SELECT infinite(k), infinite(-k) FROM t WHERE k = 1", "inf,NULL"),
            ("SELECT boxedShort(NULL), boxedByte(i) FROM t WHERE k = 3", "-32767,-127"),
            ("SELECT boxedShort(k), boxedByte(i) FROM t WHERE k = 1", "2,4"),
            ("SELECT without(X'80017F80FF', X'8002') FROM t WHERE k = 1", "017FFF"),
            ("SELECT ten(1,2,3,4,5,6,7,8,9,'!') FROM t WHERE k = 1", "45!"),
            ("SELECT k FROM t WHERE plus(v, 1) > 20 ORDER BY k", "2"),
            ("SELECT SUM(plus(v, 1)) FROM t", "32"),
            (
                "SELECT greet(s), COUNT(*) FROM t GROUP BY greet(s) ORDER BY greet(s)",
                "hello ann,1\nhello bob,1\nnobody,1",
            ),
            ("SELECT k FROM t ORDER BY narrow(v), k", "2\n1\n3"),
            ("SELECT plus(plus(v, 1), plus(v, 2)) FROM t WHERE k = 1", "23"),
            (
                "SELECT CASE WHEN plus(v, 0) = 10 THEN greet('x') ELSE 'y' END FROM t ORDER BY k",
                "hello x\ny\ny",
            ),
        ] {
            let answer = ad_hoc(&mut peer, sql);
            assert_eq!((answer.text.as_str(), answer.rows.as_str()), ("", rows), "{sql} ({sites})");
        }
    }
}

#[test]
fn functions_stand_in_changes_and_procedures() {
    let schema = schema(&["plus", "greet"])
        + "
        CREATE PROCEDURE put PARTITION ON TABLE t COLUMN k
            AS INSERT INTO t (k, v, s) VALUES (?, plus(?, 5), greet(?));
        CREATE PROCEDURE find AS SELECT k FROM t WHERE plus(v, ?) = ? ORDER BY k;";
    let Some((_server, mut peer)) = host(2, &schema) else { return };
    for k in 1..=4 {
        let put = [Datum::Int(k), Datum::Int(k * 10), Datum::Text("eve")];
        assert_eq!(peer.call("put", &put).rows, "1");
    }
    let found = peer.call("find", &[Datum::Int(1), Datum::Int(26)]);
    assert_eq!((found.text.as_str(), found.rows.as_str()), ("", "2"));
    assert_eq!(peer.run("UPDATE t SET v = plus(v, k) WHERE plus(v, 0) < 30"), "2");
    assert_eq!(
        peer.run("DELETE FROM t WHERE greet(s) = 'hello hello eve' AND plus(k, 0) = 4"),
        "1"
    );
    assert_eq!(
        peer.run("SELECT k, v, s FROM t ORDER BY k"),
        "1,16,hello eve\n2,27,hello eve\n3,35,hello eve"
    );
}

#[test]
fn failing_functions_end_their_statement_alone() {
    let Some((_server, mut peer)) = host(2, &schema(SCALAR)) else { return };
    peer.run(ROWS);
    for (how, status, parts) in [
        (1, -1, &["FAIL", "as it was told"][..]),
        (
            2,
            -2,
            &[
                "FAIL",
                "java.lang.IllegalArgumentException: a broken promise",
                "Functions.fail(Functions.java:",
            ],
        ),
        (3, -2, &["800 ms"]),
        (4, -2, &["java.lang.SecurityException"]),
        (5, -2, &["java.lang.StackOverflowError", "Functions.deep(Functions.java:"]),
        (6, -2, &["interrupted"]),
    ] {
        let answer = ad_hoc(&mut peer, &format!("UPDATE t SET v = fail({how}) WHERE k = 1"));
        assert_eq!(answer.status, status, "{how}: {}", answer.text);
        for part in parts {
            assert!(answer.text.contains(part), "{how}: {} lacks {part}", answer.text);
        }
        assert_eq!(peer.run("SELECT v FROM t ORDER BY k"), "10\n20\nNULL", "{how}");
    }
    let answer = ad_hoc(&mut peer, "SELECT narrow(v * 1000000000) FROM t WHERE k = 1");
    assert_eq!(answer.status, -2);
    assert!(answer.text.contains("out of range"), "{}", answer.text);
    // A procedure of several statements is undone with what it did before.
    peer.run(
        "CREATE PROCEDURE both PARTITION ON TABLE t COLUMN k AS BEGIN
        UPDATE t SET v = 99 WHERE k = ?; SELECT fail(?) FROM t WHERE k = ?; END",
    );
    let answer = peer.call("both", &[Datum::Int(1), Datum::Int(2), Datum::Int(1)]);
    assert_eq!(answer.status, -2, "{}", answer.text);
    assert_eq!(peer.run("SELECT v FROM t WHERE k = 1"), "10");
}

#[test]
fn aggregates_are_combined_over_partitions() {
    for sites in [1, 3] {
        let aggregates = "
            CREATE AGGREGATE FUNCTION median FROM CLASS Functions$Median;
            CREATE AGGREGATE FUNCTION longest FROM CLASS Functions$Longest;";
        let Some((_server, mut peer)) = host(sites, &format!("{TABLE}{aggregates}")) else {
            return;
        };
        assert_eq!(peer.run("SELECT median(v), longest(s) FROM t"), "NULL,NULL");
        for k in 0..1000 {
            let (group, text) = (k % 3, "x".repeat(k % 17));
            peer.run(&format!("INSERT INTO t (k, g, v, s) VALUES ({k}, {group}, {k}, '{text}')"));
        }
        assert_eq!(
            peer.run("SELECT median(v), longest(s), COUNT(*) FROM t"),
            format!("499.5,{},1000", "x".repeat(16)),
            "{sites} sites"
        );
        assert_eq!(
            peer.run("SELECT g, median(v), MAX(v) FROM t WHERE k < 30 GROUP BY g ORDER BY g"),
            "0,13.5,27\n1,14.5,28\n2,15.5,29"
        );
        assert_eq!(peer.run("SELECT median(DISTINCT g) FROM t WHERE k < 7"), "1");
        // Numbers of all types, without their fractions.
        assert_eq!(
            peer.run("SELECT median(k + 0.75), median(k * 1.5E0) FROM t WHERE k = 3"),
            "3,4"
        );
        let answer = ad_hoc(&mut peer, "SELECT median(1E300) FROM t WHERE k = 3");
        assert!(answer.text.contains("out of range"), "{}", answer.text);
        let answer = ad_hoc(&mut peer, "SELECT median(s) FROM t");
        assert!(answer.text.contains("incompatible data type"), "{}", answer.text);
        assert_eq!(peer.run("SELECT median(v) + 1 FROM t WHERE k = 5"), "6");
        assert_eq!(
            peer.run("SELECT g FROM t WHERE k < 30 GROUP BY g HAVING median(v) > 14 ORDER BY g"),
            "1\n2"
        );
        peer.run("INSERT INTO t (k) VALUES (5000); INSERT INTO t (k, v) VALUES (5001, -13)");
        // A NULL is a value to a function of users.
        assert_eq!(peer.run("SELECT median(v) FROM t WHERE k = 5000"), "0");
        let answer = ad_hoc(&mut peer, "SELECT median(v) FROM t");
        assert_eq!(answer.status, -2, "{}", answer.text);
        assert!(answer.text.contains("an unlucky number"), "{}", answer.text);
        assert!(answer.text.contains("Functions$Median.assemble"), "{}", answer.text);
    }
}

#[test]
fn functions_are_refused_where_they_cannot_be() {
    let Some((_server, mut peer)) = host(2, &schema(&["plus", "greet"])) else { return };
    peer.run(
        "CREATE AGGREGATE FUNCTION median FROM CLASS Functions$Median;
        CREATE PROCEDURE uses AS SELECT plus(v, 1) FROM t;",
    );
    for (sql, part) in [
        ("CREATE FUNCTION plus FROM METHOD Functions.plus", "already defined"),
        ("CREATE FUNCTION median FROM METHOD Functions.plus", "already defined"),
        ("CREATE FUNCTION abs FROM METHOD Functions.plus", "already defined"),
        ("CREATE FUNCTION f FROM METHOD Functions.many", "multiple methods named many"),
        (
            "CREATE FUNCTION f FROM METHOD Functions.list",
            "unsupported parameter type java.util.List",
        ),
        ("CREATE FUNCTION f FROM METHOD Functions.fixed", "is static"),
        ("CREATE FUNCTION f FROM METHOD Functions.absent", "Cannot find the implementation method"),
        ("CREATE FUNCTION f FROM METHOD Absent.f", "Cannot find class: Absent"),
        ("CREATE AGGREGATE FUNCTION f FROM CLASS Functions", "must implement VoltUDAggregate"),
        ("CREATE INDEX x ON t (plus(v, 1))", "user-defined function PLUS"),
        ("CREATE INDEX x ON t (v) WHERE plus(v, 1) > 3", "user-defined function PLUS"),
        ("CREATE VIEW w AS SELECT plus(v, 1), COUNT(*) FROM t GROUP BY plus(v, 1)", "PLUS"),
        ("CREATE VIEW w AS SELECT g, COUNT(*), median(v) FROM t GROUP BY g", "MEDIAN"),
        ("SELECT plus(1) FROM t", "object not found: PLUS with 1 arguments"),
        ("SELECT plus('a', 1) FROM t", "incompatible data type in operation"),
        ("SELECT plus(d, 1) FROM t", "incompatible data type in operation"),
        ("SELECT greet(k) FROM t", "incompatible data type in operation"),
        ("SELECT median(v, 1) FROM t", "takes one argument"),
        ("SELECT median(median(v)) FROM t", "nested"),
        ("SELECT median(v) OVER (PARTITION BY g) FROM t", "Unsupported window function MEDIAN"),
        ("SELECT k FROM t WHERE median(v) > 1", "invalid WHERE expression"),
        ("DROP FUNCTION plus", "uses"),
        ("DROP FUNCTION absent", "does not exist"),
        ("DROP AGGREGATE FUNCTION greet", "does not exist"),
    ] {
        let answer = ad_hoc(&mut peer, sql);
        assert_eq!(answer.status, -2, "{sql}: {}", answer.text);
        assert!(answer.text.contains(part), "{sql}: {} lacks {part}", answer.text);
    }
    peer.run("DROP FUNCTION absent IF EXISTS");
    let refused = peer.call("@UpdateClasses", &[Datum::Null, Datum::Text("Functions*")]);
    assert_eq!(refused.status, -2, "{}", refused.text);
    assert!(
        refused.text.contains("\"greet\"") || refused.text.contains("\"median\""),
        "{}",
        refused.text
    );
    assert_eq!(
        peer.call("@SystemCatalog", &[Datum::Text("functions")]).rows,
        "scalar,greet,Functions,greet\naggregate,median,Functions$Median,NULL\n\
         scalar,plus,Functions,plus"
    );
    peer.run("DROP PROCEDURE uses; DROP FUNCTION plus; DROP FUNCTION greet; DROP FUNCTION median");
    assert_eq!(peer.call("@SystemCatalog", &[Datum::Text("FUNCTIONS")]).rows, "");
    let gone = ad_hoc(&mut peer, "SELECT greet(s) FROM t");
    assert!(gone.text.contains("object not found: GREET"), "{}", gone.text);
    let removed = peer.call("@UpdateClasses", &[Datum::Null, Datum::Text("Functions*")]);
    assert_eq!(removed.status, 1, "{}", removed.text);
    load(&mut peer, jar().expect("there is one"));
}
