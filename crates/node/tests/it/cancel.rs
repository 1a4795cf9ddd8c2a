//! Queries whose client closes its connection: they end, and others are served.

use crate::support::{PATIENCE, Peer, call_frame, parameters, start};
use lockstep_types::Datum::{self, Int, Text};
use std::time::Instant;

const SCHEMA: &str = "\
    CREATE TABLE t (k BIGINT NOT NULL, v BIGINT, PRIMARY KEY (k));
    PARTITION TABLE t ON COLUMN k;
    CREATE TABLE r (n BIGINT NOT NULL, PRIMARY KEY (n));
    CREATE PROCEDURE EndlessHere PARTITION ON TABLE t COLUMN k AS
        SELECT COUNT(*) FROM r a, r b, r c, r d, t WHERE t.k = ? AND a.n + b.n + c.n + d.n < 0;
    CREATE PROCEDURE EndlessEverywhere AS
        SELECT COUNT(*) FROM r a, r b, r c, r d, t WHERE a.n + b.n + c.n + d.n < 0;";

/// Pairs of pairs of this many rows take far longer than any test.
const ROWS: i64 = 1000;

fn host(sites: u32, options: &[&str]) -> lockstep_node::Server {
    let server = start(sites, options);
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    for k in 0..10 {
        peer.run(&format!("INSERT INTO t VALUES ({k}, {k})"));
    }
    let frames: Vec<u8> =
        (0..ROWS).flat_map(|n| call_frame("R.insert", n, &parameters(&[Int(n)]))).collect();
    peer.send(&frames);
    (0..ROWS).for_each(|_| assert_eq!(peer.answer().status, 1));
    server
}

/// Whatever runs for a client that has gone ends, wherever it runs, with a time limit and without
/// one: the host has a site for each partition, and all of them are busy with it.
#[test]
fn queries_of_a_client_that_leaves_are_canceled() {
    let at_one = "SELECT COUNT(*) FROM r a, r b, r c, r d WHERE a.n + b.n + c.n + d.n < 0";
    let at_all = "SELECT COUNT(*) FROM t, r a, r b, r c, r d WHERE a.n + b.n + c.n + d.n < 0";
    // Its partitions are done at once; the coordinator is not.
    let at_coordinator = "WITH RECURSIVE e (n) AS (SELECT MIN(k) FROM t UNION ALL \
         SELECT n + 1 FROM e) SELECT COUNT(*) FROM e WHERE n < 0";
    let calls: [(&str, &[Datum<'_>]); 6] = [
        ("EndlessHere", &[Int(4)]),
        ("EndlessHere", &[Int(5)]),
        ("EndlessEverywhere", &[]),
        ("@AdHoc", &[Text(at_one)]),
        ("@AdHoc", &[Text(at_all)]),
        ("@AdHoc", &[Text(at_coordinator)]),
    ];
    for sites in [1, 3] {
        for timeout in ["query_timeout_ms=0", "query_timeout_ms=600000"] {
            let options = [timeout, "max_temporary_bytes=8589934592", "transaction_timeout_ms=0"];
            let server = host(sites, &options);
            let mut other = Peer::login(server.client_address());
            for (procedure, values) in calls {
                // What a client has sent before it leaves is read before its end is.
                let mut gone = Peer::login(server.client_address());
                gone.send(&call_frame(procedure, 1, &parameters(values)));
                drop(gone);
                assert_eq!(other.run("SELECT SUM(v), COUNT(*) FROM t"), "45,10", "{procedure}");
                assert_eq!(other.call("T.select", &[Int(3)]).rows, "3,3", "{procedure}");
            }
            assert_eq!(other.run("UPDATE t SET v = v + 1"), "10");
        }
    }
}

/// A call that changes data ends as it would have with its client.
#[test]
fn a_call_that_writes_is_not_canceled() {
    for sites in [1, 3] {
        let server = host(sites, &[]);
        let mut other = Peer::login(server.client_address());
        let mut gone = Peer::login(server.client_address());
        let text = "INSERT INTO t SELECT 100 + MOD(a.n, 5), COUNT(*) FROM r a, r b \
            GROUP BY 100 + MOD(a.n, 5)";
        gone.send(&call_frame("@AdHoc", 1, &parameters(&[Text(text)])));
        drop(gone);
        let until = Instant::now() + PATIENCE;
        while other.run("SELECT COUNT(*) FROM t WHERE v = 200000") != "5" {
            assert!(Instant::now() < until, "the rows are inserted");
        }
    }
}
