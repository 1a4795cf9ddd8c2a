//! What a host says of itself is true.

use crate::support::{Peer, start};
use lockstep_types::Datum::{Int, Null, Text};

fn table(peer: &mut Peer, selector: &str, interval: i64) -> Vec<Vec<String>> {
    let answer = peer.call("@Statistics", &[Text(selector), Int(interval)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let lines = answer.rows.split('\n').filter(|line| !line.is_empty());
    lines.map(|line| line.split(',').map(str::to_string).collect()).collect()
}

/// Invocations of a procedure over all sites.
fn invocations(peer: &mut Peer, procedure: &str, interval: i64) -> u64 {
    let rows = table(peer, "PROCEDURE", interval);
    let own = rows.iter().filter(|row| row[5] == procedure);
    own.map(|row| row[6].parse::<u64>().expect("a count")).sum()
}

#[test]
fn calls_are_counted_since_the_start_and_since_the_last_look() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id");
    for id in 0..30 {
        assert_eq!(peer.call("T.insert", &[Int(id)]).status, 1);
    }
    assert_eq!(peer.call("T.insert", &[Int(7)]).status, -2);
    assert_eq!(invocations(&mut peer, "T.insert", 0), 31);
    assert_eq!(invocations(&mut peer, "T.insert", 1), 31);
    assert_eq!(invocations(&mut peer, "T.insert", 1), 0);
    for id in 30..35 {
        assert_eq!(peer.call("T.insert", &[Int(id)]).status, 1);
    }
    assert_eq!(invocations(&mut peer, "T.insert", 0), 36, "the look before is its own affair");
    assert_eq!(invocations(&mut peer, "T.insert", 1), 5);
    let failures: u64 = table(&mut peer, "PROCEDURE", 0)
        .iter()
        .filter(|row| row[5] == "T.insert")
        .map(|row| row[18].parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(failures, 1);
    peer.run(
        "CREATE PROCEDURE Two PARTITION ON TABLE t COLUMN id AS BEGIN
        DELETE FROM t WHERE id = ?; SELECT COUNT(*) FROM t WHERE id = ?; END",
    );
    assert_eq!(peer.call("Two", &[Int(3), Int(3)]).status, 1);
    let rows = table(&mut peer, "PROCEDUREDETAIL", 0);
    let of_two: Vec<&[String]> =
        rows.iter().filter(|row| row[5] == "Two").map(|row| &row[6..8]).collect();
    assert_eq!(of_two, [["<ALL>", "1"], ["sql0", "1"], ["sql1", "1"]]);
}

#[test]
fn aborts_are_counted_beside_failures() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE chances (k BIGINT NOT NULL, n BIGINT NOT NULL, v BIGINT, t VARCHAR(200),
            PRIMARY KEY (k, n));
        PARTITION TABLE chances ON COLUMN k;
        CREATE PROCEDURE PARTITION ON TABLE chances COLUMN k FROM NATIVE Chance",
    );
    let mut ends = [0, 0, 0];
    for call in 0..40 {
        // Every fourth call aborts for certain; the others may.
        let n = if call % 4 == 0 { Null } else { Int(call) };
        let end = match peer.call("Chance", &[Int(call % 8), n]).status {
            1 => 0,
            -1 => 1,
            _ => 2,
        };
        ends[end] += 1;
    }
    assert!(ends[0] > 0 && ends[1] >= 10 && ends[2] == 0, "{ends:?}");
    for (selector, procedure, columns) in
        [("PROCEDURE", 5, [6, 17, 18]), ("INITIATOR", 6, [7, 11, 12])]
    {
        let rows = table(&mut peer, selector, 0);
        let own: Vec<_> = rows.iter().filter(|row| row[procedure] == "Chance").collect();
        let sum = |column: usize| -> u64 {
            own.iter().map(|row| row[column].parse::<u64>().expect("a count")).sum()
        };
        assert_eq!(columns.map(sum), [40, ends[1], 0], "{selector}: {own:?}");
    }
}

#[test]
fn tables_and_indexes_are_counted_per_site() {
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, a VARCHAR(200));
        PARTITION TABLE t ON COLUMN id; CREATE INDEX by_a ON t (a);
        CREATE TABLE r (id INTEGER NOT NULL PRIMARY KEY);",
    );
    let text = "x".repeat(150);
    for id in 0..3000 {
        assert_eq!(peer.call("T.insert", &[Int(id), Text(&text)]).status, 1);
    }
    peer.run("INSERT INTO r VALUES (1)");
    let rows = table(&mut peer, "TABLE", 0);
    let of = |name: &str, column: usize| -> Vec<i64> {
        let own = rows.iter().filter(|row| row[5] == name);
        own.map(|row| row[column].parse().expect("a number")).collect()
    };
    assert_eq!(of("T", 7).iter().sum::<i64>(), 3000);
    assert!(of("T", 7).iter().all(|count| *count > 500), "{rows:?}");
    assert_eq!(of("R", 7), [1, 1, 1]);
    assert!(of("T", 10).iter().sum::<i64>() >= 3000 * 150 / 1024, "{rows:?}");
    let indexes = table(&mut peer, "INDEX", 0);
    let entries = indexes.iter().filter(|row| row[5] == "BY_A");
    let entries: i64 = entries.map(|row| row[10].parse::<i64>().expect("a number")).sum();
    assert_eq!(entries, 3000);
}

#[test]
fn the_topology_names_every_partition_and_the_coordinator() {
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    for answer in [
        peer.call("@Statistics", &[Text("TOPO")]),
        peer.call("@Statistics", &[Text("TOPO"), Int(0)]),
        peer.call("@Statistics", &[Text("topo"), Int(1)]),
    ] {
        assert!(answer.rows.starts_with("0,0:1,0:1\n1,0:2,0:2\n2,0:0,0:0\n16383,0:1,0:1;ELASTIC,"));
    }
}

#[test]
fn wrong_arguments_are_told() {
    let server = start(1, &[]);
    let mut peer = Peer::login(server.client_address());
    let cases = [
        (peer.call("@Statistics", &[]), -2, "expects 2, received 0"),
        (peer.call("@Statistics", &[Text("TABLE"), Int(0), Int(0)]), -2, "received 3"),
        (peer.call("@Statistics", &[Text("WEATHER"), Int(0)]), -2, "instead was WEATHER"),
        (peer.call("@Statistics", &[Null, Int(0)]), -2, "instead was null"),
        (peer.call("@Statistics", &[Text("TABLE"), Null]), -9, "Failed to get statistics"),
        (peer.call("@Statistics", &[Text("TABLE"), Text("x")]), -9, "Failed to get statistics"),
        (peer.call("@SystemCatalog", &[Text("WEATHER")]), -2, "WEATHER"),
        (peer.call("@SystemInformation", &[Text("WEATHER")]), -2, "WEATHER"),
        (peer.call("@GetPartitionKeys", &[Text("FLOAT")]), -2, "FLOAT"),
        (peer.call("@StopNode", &[Int(99)]), -2, "not member of cluster: 99"),
        (peer.call("@ExplainProc", &[Null]), -2, "name of a procedure"),
        (peer.call("@ExplainProc", &[Text("Nobody")]), -2, "Procedure Nobody not in catalog"),
        (peer.call("@SnapshotSave", &[Int(1)]), -2, "text of JSON"),
    ];
    for (answer, status, part) in cases {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text.contains(part), "{answer:?} lacks '{part}'");
    }
}

#[test]
fn connections_and_planning_are_counted() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id");
    for id in 0..20 {
        assert_eq!(peer.call("T.insert", &[Int(id)]).status, 1);
    }
    assert_eq!(peer.sql("SELECT nothing FROM t").status, -2);
    let traffic = table(&mut peer, "IOSTATS", 0).remove(0);
    // A login, 22 calls, and this one, which is not answered yet when it is counted.
    assert_eq!((&*traffic[6], &*traffic[8]), ("24", "23"), "{traffic:?}");
    assert!(traffic[5].parse::<u64>().is_ok_and(|bytes| bytes > 20 * 20), "{traffic:?}");
    let client = table(&mut peer, "LIVECLIENTS", 0).remove(0);
    // The call that asks is not among those that wait.
    assert_eq!((&*client[4], &*client[5], &client[8][..1]), ("127.0.0.1", "0", "0"), "{client:?}");
    let planner = table(&mut peer, "PLANNER", 0).remove(0);
    let number = |column: usize| planner[column].parse::<u64>().expect("a number");
    assert!(number(10) >= 1 && number(10) <= number(12) && number(12) <= number(11));
    assert_eq!(number(13), 1, "{planner:?}");
}

fn numbers(row: &[String]) -> Vec<f64> {
    row.iter().map(|cell| cell.parse().expect("a number")).collect()
}

#[test]
fn sleep_and_waiting_are_counted_per_site() {
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id");
    for id in 0..60 {
        assert_eq!(peer.call("T.insert", &[Int(id)]).status, 1);
    }
    let idle = table(&mut peer, "IDLETIME", 0);
    assert_eq!(idle.iter().map(|row| row[3].as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
    for row in &idle {
        let [count, percent, mean, min, max, deviation] = numbers(&row[4..])[..] else {
            panic!("six numbers: {row:?}")
        };
        assert!(count > 0.0 && (0.0..=100.0).contains(&percent), "{row:?}");
        assert!(min <= mean && mean <= max && deviation <= max, "{row:?}");
    }
    assert_eq!(table(&mut peer, "STARVATION", 0).len(), 3);
    let queue = table(&mut peer, "QUEUE", 0);
    let polled: f64 = queue.iter().map(|row| numbers(&row[4..])[1]).sum();
    assert_eq!((queue.len(), polled), (3, 60.0));
    for row in &queue {
        let [depth, _, mean, max] = numbers(&row[4..])[..] else { panic!("four numbers") };
        assert!(depth == 0.0 && mean <= max, "{row:?}");
    }
    table(&mut peer, "QUEUE", 1);
    assert_eq!(peer.call("T.insert", &[Int(60)]).status, 1);
    let since: f64 = table(&mut peer, "QUEUE", 1).iter().map(|row| numbers(&row[4..])[1]).sum();
    assert_eq!(since, 1.0);
    assert!(peer.call("@Statistics", &[Text("GC"), Int(0)]).rows.is_empty());
}

#[test]
fn histograms_of_latency_are_in_hdr_encoding() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id");
    for id in 0..20 {
        assert_eq!(peer.call("T.insert", &[Int(id)]).status, 1);
    }
    for row in table(&mut peer, "LATENCY_HISTOGRAM", 0) {
        assert!(row[4].to_ascii_lowercase().contains("1c849314"), "{row:?}");
        assert!(row[5].to_ascii_lowercase().contains("1c849313"), "{row:?}");
    }
    assert_eq!(table(&mut peer, "LATENCY_COMPRESSED", 0).len(), 2);
}

#[test]
fn an_administrator_stops_the_host() {
    let server = start(2, &[]);
    let stopped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut admin = Peer::login(server.admin_address());
    let mut client = Peer::login(server.client_address());
    let answer = client.call("@Shutdown", &[]);
    assert_eq!((answer.status, &*answer.text), (-3, "@Shutdown is not available to this client"));
    assert_eq!(admin.call("@Shutdown", &[]).status, -2, "nobody has said how");
    let seen = std::sync::Arc::clone(&stopped);
    server.on_shutdown(move || seen.store(true, std::sync::atomic::Ordering::SeqCst));
    assert_eq!(admin.call("@Shutdown", &[Int(1)]).status, -2, "there is nothing to save");
    assert_eq!(admin.call("@Pause", &[]).rows, "0");
    assert!(client.call("@SystemInformation", &[]).rows.contains("CLUSTERSTATE,PAUSED"));
    admin.send(&crate::support::call_frame("@Shutdown", 9, &crate::support::parameters(&[])));
    crate::support::eventually("told to stop", || {
        stopped.load(std::sync::atomic::Ordering::SeqCst)
    });
    server.stop().expect("it stops");
    assert!(admin.is_closed(), "nobody is answered");
}

#[test]
fn statistics_are_queried_with_sql() {
    let server = start(3, &["query_timeout_ms=300"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id;
        CREATE TABLE r (id INTEGER NOT NULL PRIMARY KEY);",
    );
    for id in 0..30 {
        assert_eq!(peer.call("T.insert", &[Int(id)]).status, 1);
    }
    let queries = [
        (
            "SELECT table_name, SUM(tuple_count) AS n FROM statistics(TABLE, 0)
            GROUP BY table_name ORDER BY n DESC",
            "T,30\nR,0",
        ),
        (
            "SELECT t.TABLE_NAME, COUNT(*) FROM STATISTICS( table , 0 ) t
            JOIN STATISTICS('INDEX', 0) i ON i.TABLE_NAME = t.TABLE_NAME
            AND i.SITE_ID = t.SITE_ID WHERE t.TABLE_NAME <> 'a statistics(x)'
            GROUP BY t.TABLE_NAME ORDER BY 1",
            "R,3\nT,3",
        ),
        // Names that are functions, types and keywords elsewhere, and one with a point in it.
        (
            "SELECT COUNT(*), CASE WHEN MAX(max) >= MIN(\"MIN\") THEN 'so' END
            FROM statistics(IDLETIME, 0) WHERE count > 0 AND avg >= min",
            "3,so",
        ),
        ("SELECT \"P99.9\" - \"P99.9\" FROM statistics(LATENCY, 0) WHERE interval >= 0", "0"),
        (
            "SELECT PROCEDURE FROM statistics(PROCEDUREPROFILE, 0) WHERE invocations = 30",
            "T.insert",
        ),
    ];
    for (text, rows) in queries {
        let answer = peer.call("@QueryStats", &[Text(text)]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, rows), "{text}: {answer:?}");
    }
    let every = "MEMORY PLANNER GC QUEUE PROCEDUREDETAIL LATENCY_HISTOGRAM DRCONSUMER TASK \
        SNAPSHOTSTATUS LIMITS IOSTATS CPU KSAFETY EXPORT COMMANDLOG INITIATOR LIVECLIENTS";
    for selector in every.split(' ') {
        let text = format!("SELECT * FROM statistics({selector}, 0)");
        let answer = peer.call("@QueryStats", &[Text(&text)]);
        assert_eq!(answer.status, 1, "{text}: {answer:?}");
    }
}

/// Queries that are wrong have a success's status text and no tables; those that take too long are
/// ended.
#[test]
fn wrong_queries_of_statistics_are_told_in_the_status_text() {
    let server = start(3, &["query_timeout_ms=300"]);
    let mut peer = Peer::login(server.client_address());
    for table in 0..3 {
        let text = format!("SELECT COUNT(*) FROM statistics(DRCONSUMER, 0, {table})");
        assert_eq!(peer.call("@QueryStats", &[Text(&text)]).rows, "0", "table {table}");
    }
    for (text, part) in [
        ("SELECT * FROM statistics(NOSUCH, 0)", "no statistics named NOSUCH"),
        ("SELECT * FROM t", "object not found: T"),
        ("SELECT 1; SELECT 2", "one query"),
        ("SELECT COUNT(*) FROM statistics(TABLE, 0, 1)", "there is no table 1"),
        ("DELETE FROM statistics(TABLE, 0)", "one query"),
        ("SELECT nothing FROM statistics(TABLE, 0)", "NOTHING"),
        ("SELECT * FROM statistics(TABLE)", "STATISTICS(SELECTOR, 0)"),
        ("SELECT 'x FROM statistics(TABLE, 0)", "malformed string"),
    ] {
        let answer = peer.call("@QueryStats", &[Text(text)]);
        assert_eq!((answer.status, &*answer.rows), (1, ""), "{text}: {answer:?}");
        assert!(answer.text.contains(part), "{text}: {answer:?}");
    }
    for values in [&[][..], &[Int(1)], &[Text("SELECT 1"), Int(1)]] {
        let answer = peer.call("@QueryStats", values);
        assert_eq!(answer.status, 1, "{answer:?}");
        assert!(answer.text.contains("as its only parameter"), "{answer:?}");
    }
    // Three rows, twenty times over: a query that nobody waits for.
    let tables: Vec<String> = (0..20).map(|n| format!("statistics(QUEUE, 0) s{n}")).collect();
    let sums: Vec<String> = (0..20).map(|n| format!("s{n}.poll_count")).collect();
    let (tables, sum) = (tables.join(", "), sums.join(" + "));
    let text = format!("SELECT COUNT(*) FROM {tables} WHERE {sum} < 0");
    let answer = peer.call("@QueryStats", &[Text(&text)]);
    assert!(answer.text.contains("default query timeout period"), "{answer:?}");
}

/// Statements of native procedures have rows of their own, and those of SQL procedures times.
#[test]
fn statements_of_procedures_are_counted_and_timed() {
    let server = start(1, &[]);
    let mut voter = crate::allocation::Voter::new(&server);
    voter.vote(0..100, 10, 0);
    let peer = &mut voter.peer;
    peer.run(
        "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id;
        CREATE PROCEDURE Two PARTITION ON TABLE t COLUMN id AS BEGIN
        INSERT INTO t VALUES (?); SELECT COUNT(*) FROM t WHERE id = ?; END",
    );
    for id in 0..41 {
        assert_eq!(peer.call("Two", &[Int(id), Int(id)]).status, 1);
    }
    assert_eq!(peer.call("Two", &[Int(1), Int(1)]).status, -2);
    let rows = table(peer, "PROCEDUREDETAIL", 0);
    let of = |procedure: &str| -> Vec<&Vec<String>> {
        rows.iter().filter(|row| row[5] == procedure).collect()
    };
    let two = of("Two");
    let counts: Vec<&[String]> = two.iter().map(|row| &row[6..9]).collect();
    assert_eq!(counts, [["<ALL>", "42", "3"], ["sql0", "41", "3"], ["sql1", "41", "3"]]);
    for row in &two {
        let [min, max, mean] = numbers(&row[9..12])[..] else { panic!("three times") };
        assert!(0.0 < min && min <= mean && mean <= max, "{row:?}");
    }
    for row in &two[1..] {
        assert!(numbers(&row[12..15]).iter().all(|bytes| *bytes > 0.0), "{row:?}");
    }
    let vote = of("Vote");
    assert_eq!(vote[0][6..8], ["<ALL>", "100"]);
    assert!(vote.len() > 3, "a row for each statement that it runs: {vote:?}");
    assert!(vote[1..].iter().all(|row| row[7] == "100"), "{vote:?}");
    // Since the last look: nothing ran.
    table(peer, "PROCEDUREDETAIL", 1);
    let rows = table(peer, "PROCEDUREDETAIL", 1);
    assert!(rows.iter().all(|row| row[5] != "Two" && row[5] != "Vote"), "{rows:?}");
}
