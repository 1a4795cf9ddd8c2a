//! System procedures: their arguments, who may call them and when, and those of VoltDB's tools and
//! tests that have no module of their own.

use crate::support::{Answer, Peer, start};
use lockstep_types::Datum::{self, Int, Null, Text};
use lockstep_types::SqlType;
use lockstep_types::parameter::ParameterWriter;

/// A host with a partitioned table T, a replicated table R and a view over each.
fn tables(client: &mut Peer) {
    client.run(
        "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, a INTEGER, s VARCHAR(9));
        PARTITION TABLE t ON COLUMN id;
        CREATE TABLE r (id INTEGER NOT NULL PRIMARY KEY, a INTEGER);
        CREATE INDEX r_a ON r (a);
        CREATE TABLE heap (a INTEGER);
        CREATE VIEW counts (a, n) AS SELECT a, COUNT(*) FROM r GROUP BY a;
        CREATE VIEW most (a, n, m) AS SELECT a, COUNT(*), MAX(id) FROM r GROUP BY a;
        CREATE VIEW joined (a, n, least) AS SELECT r.a, COUNT(*), MIN(heap.a) FROM r, heap
        WHERE r.id = heap.a GROUP BY r.a;
        CREATE PROCEDURE Both AS BEGIN SELECT COUNT(*) FROM r; SELECT COUNT(*) FROM t; END",
    );
}

/// Calls with a number of arguments or with types that a procedure does not declare are refused,
/// and name what is wrong.
#[test]
fn arguments_are_held_against_what_is_declared() {
    let server = start(2, &[]);
    let mut admin = Peer::login(server.admin_address());
    let bytes = Datum::Bytes(b"\x01");
    let none = ["@GC", "@Quiesce", "@Promote", "@CancelShutdown", "@PrepareShutdown"];
    for name in none.into_iter().chain(["@Pause", "@Resume"]) {
        let answer = admin.call(name, &[Int(1)]);
        let text = format!("VOLTDB ERROR: PROCEDURE {name} EXPECTS 0 PARAMS, BUT RECEIVED 1");
        assert_eq!((answer.status, answer.text), (-2, text));
    }
    for name in ["@ExplainProc", "@ExplainView", "@Note", "@ProfCtl", "@UpdateLogging"] {
        for (values, part) in [
            (&[][..], "EXPECTS 1 PARAMS, BUT RECEIVED 0"),
            (&[Text("a"), Text("b")], "EXPECTS 1 PARAMS, BUT RECEIVED 2"),
            (&[Int(7)], "TYPE ERROR FOR PARAMETER 0: the value (7) is not a match for the"),
            (&[bytes], "TYPE ERROR FOR PARAMETER 0"),
        ] {
            let answer = admin.call(name, values);
            assert_eq!(answer.status, -2, "{name}: {answer:?}");
            assert!(answer.text.contains(part), "{name}: {answer:?}");
        }
    }
    for (values, status) in [
        (&[Int(0)][..], 1),
        (&[Text("1")], 1),
        (&[Null], 1),
        (&[Text("one")], -2),
        (&[], -2),
        (&[Int(0), Int(0)], -2),
    ] {
        let answer = admin.call("@PingPartitions", values);
        assert_eq!(answer.status, status, "{values:?}: {answer:?}");
        assert_eq!(answer.rows, if status == 1 { "0" } else { "" });
    }
    for (values, status) in [
        (&[Null, Null][..], -2),
        (&[Null, Text("<deployment/>")], 1),
        (&[Null, Text("")], -2),
        (&[bytes, Null], -2),
        (&[Text("0a"), Null], -2),
        (&[Text("no hex"), Null], -2),
        (&[Int(1), Null], -2),
        (&[Null], -2),
        (&[], -2),
    ] {
        let answer = admin.call("@UpdateApplicationCatalog", values);
        assert_eq!(answer.status, status, "{values:?}: {answer:?}");
    }
    assert_eq!(admin.call("@Shutdown", &[bytes]).status, -2);
    assert_eq!(admin.call("@Shutdown", &[Int(1), Int(1)]).status, -2);
}

fn text_arrays(arrays: &[&[Option<&str>]]) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    for array in arrays {
        let values: Vec<Datum<'_>> = array.iter().map(|text| text.map_or(Null, Text)).collect();
        writer.array(SqlType::Varchar, &values);
    }
    writer
}

/// What is wrong with calls about snapshots: as a table where VoltDB answers with a table.
#[test]
fn arguments_of_procedures_about_snapshots() {
    let server = start(1, &[]);
    let mut client = Peer::login(server.client_address());
    let told = |answer: Answer, part: &str| {
        assert!(answer.text.contains(part), "{part}: {answer:?}");
        let is_table = answer.status == 1;
        assert_eq!(answer.rows, if is_table { &*answer.text } else { "" });
        is_table
    };
    for (values, part) in [
        (&[][..], "Incorrect number of arguments to @SnapshotScan (expects 1, received 0)"),
        (&[Text("/tmp"), Text("/tmp")], "(expects 1, received 2)"),
        (&[Null], "must be a valid STRING path, instead was null"),
        (&[Int(5)], "must be a valid STRING path, instead was 5"),
        (&[Text("")], "path was null or the empty string"),
    ] {
        assert!(told(client.call("@SnapshotScan", values), part));
    }
    assert!(told(client.call("@SnapshotDelete", &[]), "expects 2 or 3 arguments, received 0"));
    assert!(told(client.call("@SnapshotDelete", &[Null, Null]), "No paths supplied"));
    assert!(told(client.call("@SnapshotDelete", &[Int(1), Int(2)]), "array of texts"));
    let (a, b) = (Some("/no/such/a"), Some("/no/such/b"));
    for (arrays, part) in [
        (&[&[][..], &[]][..], "No paths supplied"),
        (&[&[a], &[]], "No nonces supplied"),
        (&[&[None], &[b]], "A path was null or the empty string"),
        (&[&[a, Some(" ")], &[b, b]], "A path was null or the empty string"),
        (&[&[a], &[Some("")]], "A nonce was null or the empty string"),
        (&[&[a, b], &[a]], "A path must be provided for every nonce"),
        (&[&[a], &[a, b]], "A nonce must be provided for every path"),
        (&[&[a]], "expects 2 or 3 arguments, received 1"),
    ] {
        assert!(told(client.call_with("@SnapshotDelete", &text_arrays(arrays)), part));
    }
    for (values, part) in [
        (&[Text("/a"), Text("n")][..], "Invalid number of parameters, 2"),
        (&[Null], "@SnapshotSave JSON blob is null"),
        (&[Text("/a"), Null, Int(1)], "@SnapshotSave nonce is null"),
        (&[Text("/a"), Text("n"), Null], "@SnapshotSave blocking is null"),
        (&[Text("/a"), Text("a-b"), Int(1)], "Provided nonce a-b contains a prohibited"),
        (&[Text("/a"), Text("MANUAL7"), Int(1)], "or starts with MANUAL"),
    ] {
        assert!(!told(client.call("@SnapshotSave", values), part));
    }
    for values in [&[][..], &[Text("/a"), Text("n"), Int(1)]] {
        assert!(!told(client.call("@SnapshotRestore", values), "a single json document"));
    }
}

/// Clients get what reads while an administrator has paused the host, whatever else a system
/// procedure would do; administrators get everything.
#[test]
fn a_pause_refuses_system_procedures_that_do_not_read() {
    let server = start(2, &[]);
    let mut admin = Peer::login(server.admin_address());
    let mut client = Peer::login(server.client_address());
    tables(&mut client);
    for name in ["@Resume", "@Pause", "@PrepareShutdown", "@CancelShutdown", "@Shutdown"] {
        let answer = client.call(name, &[]);
        let text = format!("{name} is not available to this client");
        assert_eq!((answer.status, answer.text), (-3, text));
    }
    assert_eq!(admin.call("@Pause", &[]).status, 1);
    let changing: &[(&str, &[Datum<'_>])] = &[
        ("@AdHocLarge", &[Text("SELECT COUNT(*) FROM t")]),
        ("@GC", &[]),
        ("@Note", &[Text("paused")]),
        ("@PingPartitions", &[Int(0)]),
        ("@Quiesce", &[]),
        ("@SnapshotScan", &[Text("/no/such/folder")]),
        ("@ValidatePartitioning", &[Null]),
    ];
    for (name, values) in changing {
        let answer = client.call(name, values);
        assert_eq!(answer.status, -5, "{name}: {answer:?}");
        assert!(answer.text.starts_with("Server is paused"), "{name}: {answer:?}");
        assert_eq!(admin.call(name, values).status, 1, "{name}");
    }
    let reading: &[(&str, &[Datum<'_>])] = &[
        ("@AdHoc", &[Text("SELECT COUNT(*) FROM t")]),
        ("@AdHocSpForTest", &[Text("SELECT COUNT(*) FROM t"), Int(1)]),
        ("@Explain", &[Text("DELETE FROM t")]),
        ("@ExplainCatalog", &[]),
        ("@ExplainJSON", &[Text("DELETE FROM t")]),
        ("@ExplainProc", &[Text("Both")]),
        ("@ExplainView", &[Text("counts")]),
        ("@GetPartitionKeys", &[Text("INTEGER")]),
        ("@Ping", &[]),
        ("@QueryStats", &[Text("SELECT COUNT(*) FROM statistics(TABLE, 0)")]),
        ("@Statistics", &[Text("TABLE"), Int(0)]),
        ("@SystemCatalog", &[Text("TABLES")]),
        ("@SystemClockSkew", &[Text("COLLECT")]),
        ("@SystemInformation", &[]),
    ];
    for (name, values) in reading {
        assert_eq!(client.call(name, values).status, 1, "{name}");
    }
    assert_eq!(admin.call("@Resume", &[]).status, 1);
    assert_eq!(client.call("@Quiesce", &[]).status, 1);
}

/// For each row of the table: what a client and an administrator get in each state of the host.
#[test]
fn each_procedure_is_refused_as_its_row_says() {
    let server = start(2, &[]);
    let mut admin = Peer::login(server.admin_address());
    let mut client = Peer::login(server.client_address());
    let refusal = |peer: &mut Peer, name: &str| {
        let answer = peer.call(name, &[]);
        let texts = [
            (" is not available to this client", "administrators"),
            ("Server is paused", "paused"),
            ("Server is shutting down", "stopping"),
            ("was not found", "missing"),
            ("is not available in this release", "missing"),
        ];
        texts.iter().find(|(text, _)| answer.text.contains(text)).map(|(_, refusal)| *refusal)
    };
    // These change the state, or end it.
    let changes = ["@CancelShutdown", "@Pause", "@PrepareShutdown", "@Resume", "@Shutdown"];
    let procedures = || {
        let all = lockstep_node::system_procedures::TABLE.iter();
        all.map(|row| (row, row.name, row.administrators))
    };
    for (_, name, administrators) in procedures() {
        let expected = administrators.then_some("administrators");
        assert_eq!(refusal(&mut client, name), expected, "{name}");
    }
    assert_eq!(admin.call("@Pause", &[]).status, 1);
    for (row, name, administrators) in procedures() {
        let expected = match (administrators, row.while_paused) {
            (true, _) => Some("administrators"),
            (false, while_paused) => (!while_paused).then_some("paused"),
        };
        assert_eq!(refusal(&mut client, name), expected, "{name} while the host is paused");
        if !changes.contains(&name) {
            assert_eq!(refusal(&mut admin, name), None, "{name} by an administrator");
        }
    }
    assert_eq!(admin.call("@Resume", &[]).status, 1);
    assert_eq!(admin.call("@PrepareShutdown", &[]).status, 1);
    for (row, name, administrators) in procedures() {
        let expected = match (row.while_stopping, administrators) {
            (false, _) => Some("stopping"),
            (true, administrators) => administrators.then_some("administrators"),
        };
        assert_eq!(refusal(&mut client, name), expected, "{name} while a stop is prepared");
        if !changes.contains(&name) {
            let expected = (!row.while_stopping).then_some("stopping");
            assert_eq!(refusal(&mut admin, name), expected, "{name} by an administrator");
        }
    }
    assert_eq!(admin.call("@CancelShutdown", &[]).status, 1);
}

#[test]
fn plans_of_several_names_and_statements() {
    let server = start(2, &[]);
    let mut client = Peer::login(server.client_address());
    tables(&mut client);
    let mut tables_of = |name: &str, values: &[Datum<'_>]| {
        let answer = client.call(name, values);
        assert_eq!((answer.status, &*answer.text), (1, ""), "{name} {values:?}");
        (answer.tables, answer.rows)
    };
    for (text, count) in
        [("", 0), (" ; ", 0), ("counts", 1), ("COUNTS; most;", 2), ("most;most;most", 3)]
    {
        assert_eq!(tables_of("@ExplainView", &[Text(text)]).0, count, "{text}");
    }
    for (text, count) in [("", 0), ("Both", 1), ("both;T.insert", 2), (" ;R.insert; ", 1)] {
        assert_eq!(tables_of("@ExplainProc", &[Text(text)]).0, count, "{text}");
    }
    let statements = "SELECT * FROM r; SELECT * FROM t WHERE id = 5; DELETE FROM t";
    assert_eq!(tables_of("@Explain", &[Text(statements)]).0, 3);
    let (count, plans) = tables_of("@ExplainJSON", &[Text(statements)]);
    assert_eq!(count, 3);
    let values: Vec<serde_json::Value> =
        plans.split(';').map(|plan| serde_json::from_str(plan).expect("JSON")).collect();
    assert_eq!(values[0]["SQL"], "SELECT * FROM r");
    let root = &values[0]["PLAN"][0];
    assert_eq!(root["STEP"], "RETURN RESULTS TO STORED PROCEDURE");
    assert!(root["INPUTS"].as_array().is_some_and(|inputs| inputs.len() == 2), "{plans}");
    assert_eq!(values[2]["PLAN"].as_array().map(Vec::len), Some(2), "a fragment: {plans}");
    for (name, rows) in [
        ("most", &["Refresh MAX column \"M\","][..]),
        ("counts", &[",No query plan is being used."]),
        ("joined", &["Join Evaluation,", "Refresh MIN column \"LEAST\","]),
    ] {
        let (_, explained) = tables_of("@ExplainView", &[Text(name)]);
        let lines: Vec<&str> = explained.lines().collect();
        assert_eq!(lines.len(), rows.len(), "{explained}");
        assert!(lines.iter().zip(rows).all(|(line, row)| line.starts_with(row)), "{explained}");
    }
    let (_, both) = tables_of("@ExplainProc", &[Text("Both")]);
    assert!(both.contains("sql1,SELECT COUNT(*) FROM t;,"), "{both}");
    let (_, insert) = tables_of("@ExplainProc", &[Text("T.insert")]);
    assert!(insert.starts_with("sql0,INSERT INTO T VALUES (?, ?, ?);,"), "{insert}");
    let (_, catalog) = tables_of("@ExplainCatalog", &[]);
    for part in ["CREATE TABLE T", "PARTITION TABLE T", "CREATE VIEW COUNTS", "Both"] {
        assert!(catalog.contains(part), "{part}: {catalog}");
    }
    for (name, values, part) in [
        ("@ExplainView", &[Text("counts;nosuch")][..], "View nosuch does not exist."),
        ("@ExplainView", &[Text("t")], "Table T is not a view."),
        ("@ExplainProc", &[Text("Both;nosuch")], "Procedure nosuch not in catalog"),
        ("@Explain", &[Text("SELECT 1 FROM r; CREATE TABLE x (a INTEGER)")], "DDL mixed with"),
        ("@Explain", &[Text("SELECT a FROM r WHERE a = ?; SELECT a FROM r"), Int(1)], "one"),
        ("@ExplainJSON", &[Text("CREATE TABLE x (a INTEGER)")], "Explain doesn't support DDL."),
        ("@ExplainJSON", &[Text("-- nothing")], "no SQL statement provided"),
        ("@ExplainJSON", &[Text("SELECT nothing FROM r")], "NOTHING"),
        ("@ExplainJSON", &[Text("ANALYZE SELECT a FROM r")], "unexpected token"),
        ("@ExplainJSON", &[], "@ExplainJSON requires the SQL text"),
        ("@Explain", &[Null], "@Explain requires the SQL text"),
    ] {
        let answer = client.call(name, values);
        assert_eq!(answer.status, -2, "{name} {values:?}: {answer:?}");
        let part = if part == "one" { "single parameterized SQL statement" } else { part };
        assert!(answer.text.contains(part), "{name} {values:?}: {answer:?}");
    }
}

/// The forms of ad hoc calls beside `@AdHoc`.
#[test]
fn other_forms_of_ad_hoc_calls() {
    let server = start(2, &[]);
    let mut client = Peer::login(server.client_address());
    tables(&mut client);
    for id in 0..20 {
        client.run(&format!("INSERT INTO t VALUES ({id}, {}, 'x')", id % 3));
    }
    let counted: i64 = {
        let keys = client.call("@GetPartitionKeys", &[Text("INTEGER")]).rows;
        let key = |line: &str| line.rsplit(',').next().and_then(|key| key.parse::<i64>().ok());
        let counts = keys.lines().filter_map(key).map(|key| {
            let statement = Text("SELECT COUNT(*) FROM t WHERE id >= ?");
            let answer = client.call("@AdHocSpForTest", &[statement, Int(key), Int(0)]);
            assert_eq!(answer.status, 1, "{answer:?}");
            answer.rows.parse::<i64>().expect("a number")
        });
        counts.sum()
    };
    assert_eq!(counted, 20, "each partition counts its own rows");
    let everywhere = client.call("@AdHocSpForTest", &[Text("SELECT COUNT(*) FROM t"), Null]);
    assert_eq!(everywhere.rows, "20", "NULL is no partition");
    let large = Text("SELECT COUNT(*) FROM t WHERE a = ?");
    assert_eq!(client.call("@AdHocLarge", &[large, Int(0)]).rows, "7");
    assert_eq!(client.call("@AdHocLarge", &[Text("DELETE FROM t WHERE id = 19")]).rows, "1");
    for (name, values, part) in [
        ("@AdHocLarge", &[][..], "requires at least the query parameter"),
        ("@AdHocLarge", &[Int(1)], "query parameter to be of String type"),
        ("@AdHocLarge", &[Text(" ")], "no SQL statement provided"),
        ("@AdHocLarge", &[Text("DROP TABLE t")], "DDL is not supported in @AdHocLarge."),
        ("@AdHocSpForTest", &[], "requires at least the query parameter"),
        ("@AdHocSpForTest", &[Int(1), Int(1)], "query parameter to be of String type"),
        ("@AdHocSpForTest", &[Text("SELECT a FROM t")], "at least 2 paramters but got 1."),
        ("@AdHocSpForTest", &[Text("SELECT a FROM t; SELECT a FROM t"), Int(1)], "no batching"),
        ("@AdHocSpForTest", &[Text("DROP TABLE t"), Int(1)], "doesn't support DDL"),
        ("@AdHocSpForTest", &[Text("SELECT a FROM t WHERE a = ?"), Int(1)], "expected 1, passed 0"),
    ] {
        let answer = client.call(name, values);
        assert_eq!(answer.status, -2, "{name} {values:?}: {answer:?}");
        assert!(answer.text.contains(part), "{name} {values:?}: {answer:?}");
    }
}

/// `@ProfCtl` answers with its command, as a server without a profiler does, and the status text
/// is about that.
#[test]
fn there_is_no_profiler() {
    let server = start(1, &[]);
    let mut client = Peer::login(server.client_address());
    for command in ["SAMPLER_START", "gperf_enable", "GPERF_DISABLE"] {
        let answer = client.call("@ProfCtl", &[Text(command)]);
        let about = format!("@ProfCtl {command} has no effect: the host has no profiler");
        assert!(answer.text.starts_with(&about), "{answer:?}");
        assert_eq!((answer.status, answer.rows.as_str()), (1, command));
    }
    for (value, row) in [(Text("Pony"), "Invalid command: Pony"), (Null, "No command.")] {
        let answer = client.call("@ProfCtl", &[value]);
        assert_eq!((answer.status, answer.rows.as_str(), answer.text.as_str()), (1, row, ""));
    }
}

/// A load without rows is refused for its table first.
#[test]
fn a_load_of_null() {
    let server = start(2, &[]);
    let mut client = Peer::login(server.client_address());
    tables(&mut client);
    for (table, upsert, status, part) in [
        ("nosuch", 0, -1, "Table not present in catalog"),
        ("heap", 1, -1, "the table heap does not have a primary key"),
        ("t", 0, -1, "no longer supports loading partitioned tables"),
        ("r", 0, -2, "The table with the rows is NULL."),
    ] {
        let answer = client.call("@LoadMultipartitionTable", &[Text(table), Int(upsert), Null]);
        assert_eq!(answer.status, status, "{table}: {answer:?}");
        assert!(answer.text.contains(part), "{table}: {answer:?}");
    }
}
