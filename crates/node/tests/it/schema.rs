//! The schema and the planner, seen by clients: pushes to subscribers, plans that a change
//! overtakes, loads, pauses.

use crate::support::{Peer, call_frame, parameters, start};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Datum::Bytes, Datum::Int, Datum::Text, SqlType};
use lockstep_types::{TableBuilder, TableSchema};

/// The handle of frames that tell of a new catalog.
const CATALOG_CHANGED: i64 = i64::MAX - 2;

fn rows(columns: &[(&str, SqlType)], rows: &[&[Datum<'_>]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let schema = TableSchema::new(columns);
    let mut table = TableBuilder::begin(&mut bytes, &schema);
    rows.iter().for_each(|row| {
        table.row(&schema, row);
    });
    table.finish();
    bytes
}

#[test]
fn subscribers_hear_of_a_schema_change_when_it_is_in_force() {
    let server = start(2, &[]);
    let mut listener = Peer::login(server.client_address());
    let mut deaf = Peer::login(server.client_address());
    let answer = listener.call("@Subscribe", &[Text("WEATHER")]);
    assert_eq!(answer.status, -2, "{answer:?}");
    assert_eq!(listener.call("@Subscribe", &[Text("TOPOLOGY")]).status, 1);
    let mut admin = Peer::login(server.admin_address());
    admin.run("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY)");
    let push = listener.answer();
    assert_eq!((push.handle, push.status), (CATALOG_CHANGED, 1));
    assert!(push.rows.contains("T.insert"), "{push:?}");
    assert_eq!(listener.call("T.insert", &[Int(1)]).status, 1, "it is in force everywhere");
    // A change that is refused is none; the next push tells of the next change.
    assert_eq!(admin.sql("CREATE TABLE t (id INTEGER)").status, -2);
    admin.run("DROP TABLE t");
    let push = listener.answer();
    assert!(push.handle == CATALOG_CHANGED && !push.rows.contains("T.insert"), "{push:?}");
    assert_eq!(deaf.call("@Ping", &[]).status, 1, "who did not subscribe hears nothing");
}

#[test]
fn statements_that_a_schema_change_overtakes_are_planned_again() {
    for sites in [1, 3] {
        let server = start(sites, &[]);
        let mut peer = Peer::login(server.client_address());
        peer.run("CREATE TABLE t (id INTEGER NOT NULL, a INTEGER); PARTITION TABLE t ON COLUMN id");
        // One client changes the table back and forth; another asks and never sees a stale plan.
        let address = server.client_address();
        let changer = std::thread::spawn(move || {
            let mut peer = Peer::login(address);
            for round in 0..20 {
                peer.run(&format!("ALTER TABLE t ADD COLUMN x{round} INTEGER"));
            }
        });
        let mut pipelined = Peer::login(address);
        let mut asked = 0;
        while !changer.is_finished() {
            for text in ["SELECT COUNT(*) FROM t", "INSERT INTO t (id) VALUES (5)"] {
                pipelined.send(&call_frame("@AdHoc", asked, &parameters(&[Text(text)])));
                asked += 1;
            }
            for _ in 0..2 {
                let answer = pipelined.answer();
                assert_eq!((answer.status, answer.text.as_str()), (1, ""), "{answer:?}");
            }
        }
        changer.join().expect("the changes succeed");
        assert_eq!(peer.run("SELECT COUNT(*) FROM t"), (asked / 2).to_string());
        assert_eq!(peer.run("SELECT COUNT(x19) FROM t"), "0");
    }
}

#[test]
fn calls_of_one_connection_run_in_their_order_while_the_schema_changes() {
    const CONNECTIONS: i64 = 4;
    const IN_FLIGHT: i64 = 8;
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id BIGINT NOT NULL, last BIGINT NOT NULL, overtaken BIGINT NOT NULL);
        PARTITION TABLE t ON COLUMN id;
        CREATE PROCEDURE Turn AS BEGIN
          UPDATE t SET overtaken = overtaken + CASE WHEN last = ? - 1 THEN 0 ELSE 1 END, last = ?
            WHERE id = ?;
          UPDATE t SET overtaken = overtaken + CASE WHEN last = ? - 1 THEN 0 ELSE 1 END, last = ?
            WHERE id = ?;
        END",
    );
    for id in 0..2 * CONNECTIONS {
        peer.run(&format!("INSERT INTO t VALUES ({id}, 0, 0)"));
    }
    let address = server.client_address();
    let changer = std::thread::spawn(move || {
        let mut peer = Peer::login(address);
        for _ in 0..40 {
            peer.run("CREATE TABLE more (id INTEGER NOT NULL)");
            peer.run("DROP TABLE more");
        }
    });
    // Each keeps several calls of its own two rows in progress.
    let mut peers: Vec<Peer> = (0..CONNECTIONS).map(|_| Peer::login(address)).collect();
    let send = |connection: i64, peer: &mut Peer, n: i64| {
        let [one, other] = [2 * connection, 2 * connection + 1];
        let given = [n, n, one, n, n, other].map(Int);
        peer.send(&call_frame("Turn", n, &parameters(&given)));
    };
    for (connection, peer) in (0..).zip(&mut peers) {
        (1..IN_FLIGHT).for_each(|n| send(connection, peer, n));
    }
    let mut next = IN_FLIGHT;
    while !changer.is_finished() {
        for (connection, peer) in (0..).zip(&mut peers) {
            send(connection, peer, next);
            let answer = peer.answer();
            assert_eq!((answer.status, answer.text.as_str()), (1, ""), "{answer:?}");
        }
        next += 1;
    }
    changer.join().expect("the changes succeed");
    for peer in &mut peers {
        (1..IN_FLIGHT).for_each(|_| assert_eq!(peer.answer().status, 1));
    }
    let rows = peer.run("SELECT DISTINCT last, overtaken FROM t");
    assert_eq!(rows, format!("{},0", next - 1), "each came behind the one before");
}

#[test]
fn cached_plans_serve_parameters_and_end_with_their_schema() {
    let server = start(2, &["plan_cache_entries=2"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, a INTEGER);
        PARTITION TABLE t ON COLUMN id",
    );
    for id in 0..20 {
        let insert = [Text("INSERT INTO t VALUES (?, ?)"), Int(id), Int(id * id)];
        assert_eq!(peer.call("@AdHoc", &insert).rows, "1");
    }
    for id in 0..20 {
        let select = [Text("SELECT a FROM t WHERE id = ?"), Int(id)];
        assert_eq!(peer.call("@AdHoc", &select).rows, (id * id).to_string());
        peer.run(&format!("SELECT {id} FROM t"));
    }
    let planner = peer.call("@Statistics", &[Text("PLANNER"), Int(0)]).rows;
    let columns: Vec<&str> = planner.split(',').collect();
    assert_eq!(columns[5], "2", "the cache is as large as its option: {planner}");
    peer.run("ALTER TABLE t DROP COLUMN a");
    let answer = peer.call("@AdHoc", &[Text("SELECT a FROM t WHERE id = ?"), Int(1)]);
    assert_eq!(answer.status, -2, "{answer:?}");
}

#[test]
fn a_pause_stops_the_writes_of_clients_only() {
    let server = start(2, &[]);
    let mut admin = Peer::login(server.admin_address());
    let mut client = Peer::login(server.client_address());
    admin.run("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id");
    let answer = client.call("@Pause", &[]);
    assert_eq!((answer.status, &*answer.text), (-3, "@Pause is not available to this client"));
    assert_eq!(admin.call("@Pause", &[]).rows, "0");
    for answer in [
        client.call("T.insert", &[Int(1)]),
        client.sql("INSERT INTO t VALUES (1)"),
        client.sql("CREATE TABLE u (id INTEGER)"),
    ] {
        assert_eq!(answer.status, -5, "{answer:?}");
        assert!(answer.text.starts_with("Server is paused"), "{answer:?}");
    }
    assert_eq!(client.run("SELECT COUNT(*) FROM t"), "0");
    assert_eq!(client.call("T.select", &[Int(1)]).status, 1);
    assert_eq!(admin.call("T.insert", &[Int(1)]).status, 1);
    assert_eq!(admin.call("@Resume", &[]).rows, "0");
    assert_eq!(client.call("T.insert", &[Int(2)]).status, 1);
}

#[test]
fn bulk_loads_are_whole_or_nothing_and_stay_at_their_partition() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a VARCHAR(3));
        PARTITION TABLE t ON COLUMN id;
        CREATE TABLE r (id INTEGER NOT NULL PRIMARY KEY, a VARCHAR(3));",
    );
    let columns = [("ID", SqlType::BigInt), ("A", SqlType::Varchar)];
    let mut load = |table: &str, upsert: bool, bytes: &[u8]| {
        let mut writer = ParameterWriter::default();
        writer.text(table).scalar(SqlType::TinyInt, Int(upsert.into())).table(bytes);
        peer.call_with("@LoadMultipartitionTable", &writer)
    };
    let two = rows(&columns, &[&[Int(1), Text("a")], &[Int(2), Datum::Null]]);
    assert_eq!(load("r", false, &two).rows, "2");
    let mixed = rows(&columns, &[&[Int(3), Text("a")], &[Int(2), Text("b")]]);
    let refused = load("R", false, &mixed);
    assert!(refused.status == -2 && refused.text.contains("UNIQUE"), "{refused:?}");
    assert_eq!(load("R", true, &mixed).rows, "2");
    assert_eq!(load("T", false, &two).status, -1);
    assert_eq!(load("NOWHERE", false, &two).status, -1);
    let long = rows(&columns, &[&[Int(9), Text("a")], &[Int(10), Text("long")]]);
    assert_eq!(load("R", false, &long).status, -2);
    assert_eq!(load("R", false, &rows(&columns, &[])).rows, "0");
    assert_eq!(peer.run("SELECT id, a FROM r ORDER BY id"), "1,a\n2,b\n3,a");

    let mut single = |key: i64, bytes: &[u8]| {
        let mut writer = ParameterWriter::default();
        let key = key.to_le_bytes();
        writer.scalar(SqlType::Varbinary, Bytes(&key)).text("T");
        writer.scalar(SqlType::TinyInt, Int(0)).table(bytes);
        peer.call_with("@LoadSinglepartitionTable", &writer)
    };
    // Of many rows some belong to the other partition, whichever this one is.
    let all: Vec<[Datum<'_>; 2]> = (0..50).map(|id| [Int(id), Datum::Null]).collect();
    let all: Vec<&[Datum<'_>]> = all.iter().map(|row| &row[..]).collect();
    let refused = single(0, &rows(&columns, &all));
    assert!(refused.status == -2 && refused.text.contains("Mispartitioned"), "{refused:?}");
    for row in &all {
        let Int(key) = row[0] else { panic!("integers") };
        assert_eq!(single(key, &rows(&columns, &[row])).rows, "1");
    }
    assert_eq!(peer.run("SELECT COUNT(*) FROM t"), "50");
    let validated = peer.call("@ValidatePartitioning", &[Datum::Null]).rows;
    assert!(validated.contains(",0,T,0") && validated.contains(",1,T,0"), "{validated}");
}

#[test]
fn swapped_tables_have_each_others_rows_in_their_own_indexes() {
    for sites in [1, 2] {
        let server = start(sites, &[]);
        let mut peer = Peer::login(server.client_address());
        peer.run(
            "CREATE TABLE a (id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20));
            CREATE TABLE b (id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20));
            CREATE TABLE p (id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20));
            CREATE TABLE q (id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(20));
            PARTITION TABLE p ON COLUMN id; PARTITION TABLE q ON COLUMN id;
            CREATE VIEW w AS SELECT v, COUNT(*) FROM q GROUP BY v;
            CREATE PROCEDURE GetA AS SELECT v FROM a WHERE id = ?;",
        );
        peer.run("INSERT INTO a VALUES (1, 'a'); INSERT INTO a VALUES (2, 'b')");
        peer.run("INSERT INTO b VALUES (3, 'c')");
        for id in 0..40 {
            assert_eq!(peer.call("P.insert", &[Int(id), Text("p")]).status, 1);
        }
        let swap =
            |peer: &mut Peer, a: &str, b: &str| peer.call("@SwapTables", &[Text(a), Text(b)]);
        assert_eq!(swap(&mut peer, "A", "b").rows, "3");
        assert_eq!(peer.run("SELECT * FROM a; SELECT id FROM b ORDER BY id"), "3,c;1\n2");
        assert_eq!(peer.call("GetA", &[Int(3)]).rows, "c");
        assert_eq!(peer.call("A.insert", &[Int(3), Text("twice")]).status, -2);
        assert_eq!(peer.call("A.insert", &[Int(1), Text("free")]).status, 1);
        for (one, other, part) in [
            ("A", "P", "one table is partitioned and the other is not"),
            ("P", "Q", "Q is referenced in views (W)"),
            ("A", "A", "with itself"),
            ("A", "NOWHERE", "TABLE object not found: NOWHERE"),
            ("W", "A", "Illegal to modify a materialized view."),
        ] {
            let answer = swap(&mut peer, one, other);
            assert!(answer.status == -2 && answer.text.contains(part), "{answer:?}");
        }
        peer.run("DROP VIEW w");
        assert_eq!(swap(&mut peer, "P", "Q").rows, "40");
        assert_eq!(peer.run("SELECT COUNT(*) FROM p; SELECT COUNT(*) FROM q"), "0;40");
        let validated = peer.call("@ValidatePartitioning", &[Datum::Null]).rows;
        assert!(validated.contains(",0,Q,0"), "{validated}");
        assert_eq!(peer.call("Q.select", &[Int(7)]).rows, "7,p");
    }
}

/// Tables may differ in what takes NULL: the rows decide whether they can be exchanged.
#[test]
fn swapped_tables_may_differ_in_not_null() {
    for partition in ["", "PARTITION TABLE a ON COLUMN p; PARTITION TABLE b ON COLUMN p;"] {
        let server = start(2, &[]);
        let mut peer = Peer::login(server.client_address());
        peer.run(&format!(
            "CREATE TABLE a (p INTEGER NOT NULL, v INTEGER, UNIQUE (p, v));
            CREATE TABLE b (p INTEGER NOT NULL, v INTEGER NOT NULL, UNIQUE (p, v)); {partition}"
        ));
        for row in 0..20 {
            peer.run(&format!("INSERT INTO a VALUES ({row}, {row})"));
        }
        peer.run("INSERT INTO a VALUES (20, NULL); INSERT INTO b VALUES (7, 8)");
        for (one, other) in [("a", "b"), ("b", "a")] {
            let answer = peer.call("@SwapTables", &[Text(one), Text(other)]);
            assert_eq!(answer.status, -2, "{answer:?}");
            assert!(answer.text.contains("NOT_NULL"), "{answer:?}");
            assert_eq!(peer.run("SELECT COUNT(*) FROM a; SELECT COUNT(*) FROM b"), "21;1");
        }
        peer.run("DELETE FROM a WHERE v IS NULL");
        assert_eq!(peer.call("@SwapTables", &[Text("a"), Text("b")]).rows, "21");
        assert_eq!(peer.run("SELECT * FROM a; SELECT COUNT(*) FROM b"), "7,8;20");
        assert_eq!(peer.sql("INSERT INTO b VALUES (1, NULL)").status, -2);
        peer.run("INSERT INTO a VALUES (1, NULL)");
    }
}
