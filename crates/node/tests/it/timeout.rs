//! Queries that run too long: stopped at their time, with nothing changed, and the next ones
//! served.

use crate::support::{Answer, PATIENCE, Peer, frame, parameters, start};
use lockstep_types::Datum::{self, Int, Text};
use lockstep_wire_volt::invocation::{CallOptions, encode};
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

const ENDLESS_AT_ONE: &str =
    "SELECT COUNT(*) FROM r a, r b, r c, r d WHERE a.n + b.n + c.n + d.n < 0";
const ENDLESS_AT_ALL: &str =
    "SELECT COUNT(*) FROM t, r a, r b, r c, r d WHERE a.n + b.n + c.n + d.n < 0";
/// Its partitions are done at once; the coordinator is not.
const ENDLESS_AT_COORDINATOR: &str = "WITH RECURSIVE e (n) AS (SELECT MIN(k) FROM t UNION ALL \
     SELECT n + 1 FROM e) SELECT COUNT(*) FROM e WHERE n < 0";

fn host(sites: u32, options: &[&str]) -> (lockstep_node::Server, Peer) {
    let server = start(sites, options);
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    for k in 0..10 {
        peer.run(&format!("INSERT INTO t VALUES ({k}, {k})"));
    }
    let frames: Vec<u8> = (0..ROWS)
        .flat_map(|n| crate::support::call_frame("R.insert", n, &parameters(&[Int(n)])))
        .collect();
    peer.send(&frames);
    (0..ROWS).for_each(|_| assert_eq!(peer.answer().status, 1));
    (server, peer)
}

fn timed(peer: &mut Peer, procedure: &str, values: &[Datum<'_>], timeout_ms: i32) -> Answer {
    let options = CallOptions { query_timeout_ms: Some(timeout_ms), ..CallOptions::default() };
    let mut bytes = Vec::new();
    encode(&mut bytes, procedure, 77, &options, parameters(values).bytes());
    peer.send(&bytes);
    peer.answer()
}

fn stopped(answer: &Answer, parts: [&str; 2]) {
    assert_eq!((answer.status, answer.rows.as_str()), (-2, ""), "{answer:?}");
    for part in parts {
        assert!(answer.text.contains(part), "{answer:?} lacks '{part}'");
    }
}

/// One query after the other is stopped, and after each everything is served as before.
#[test]
fn a_query_is_stopped_at_its_time_and_others_are_served() {
    for sites in [1, 3] {
        let (server, mut peer) = host(sites, &["max_temporary_bytes=8589934592"]);
        let mut other = Peer::login(server.client_address());
        let calls: [(&str, Datum<'_>); 5] = [
            ("EndlessHere", Int(4)),
            ("@AdHoc", Text(ENDLESS_AT_ONE)),
            ("@AdHoc", Text(ENDLESS_AT_ALL)),
            (
                "@AdHoc",
                Text(
                    "SELECT v FROM t WHERE k = 1; SELECT COUNT(*) FROM t, r a, r b, r c, \
                r d WHERE a.n + b.n + c.n + d.n < 0",
                ),
            ),
            ("@AdHoc", Text(ENDLESS_AT_COORDINATOR)),
        ];
        for (procedure, value) in calls {
            let begun = Instant::now();
            let answer = timed(&mut peer, procedure, &[value], 60);
            assert!(begun.elapsed() < PATIENCE, "{value} took {:?}", begun.elapsed());
            stopped(&answer, ["query-specific timeout period of 0.060 seconds", "stopped after"]);
            assert_eq!(other.run("SELECT SUM(v), COUNT(*) FROM t"), "45,10", "{value}");
            assert_eq!(other.call("T.select", &[Int(3)]).rows, "3,3", "{value}");
        }
        let answer = timed(&mut peer, "EndlessEverywhere", &[], 60);
        stopped(&answer, ["query-specific timeout period", "stopped after"]);
        assert_eq!(other.run("UPDATE t SET v = v + 1"), "10");
    }
}

#[test]
fn the_option_is_for_calls_without_a_limit_of_their_own() {
    for sites in [1, 3] {
        let (_server, mut peer) = host(sites, &["query_timeout_ms=80"]);
        for text in [ENDLESS_AT_ONE, ENDLESS_AT_ALL] {
            let answer = peer.sql(text);
            stopped(&answer, ["the default query timeout period", "of 0.080 seconds"]);
        }
        // A call may ask for more time than the option gives: 1,000,000 pairs need it.
        let long = "SELECT COUNT(*) FROM r a, r b, r c WHERE c.n < 10 AND a.n + b.n + c.n < 0";
        let answer = timed(&mut peer, "@AdHoc", &[Text(long)], 0);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "0"), "{answer:?}");
        let answer = timed(&mut peer, "@AdHoc", &[Text(long)], 60_000);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "0"), "{answer:?}");
    }
}

/// What writes must end the same wherever it is repeated, so that nothing but its own failure
/// ends it: also its queries take what they need.
#[test]
fn a_call_that_writes_is_not_stopped() {
    for sites in [1, 3] {
        let (_server, mut peer) = host(sites, &["query_timeout_ms=1"]);
        let text = "INSERT INTO t SELECT 100 + MOD(a.n, 5), COUNT(*) FROM r a, r b \
            WHERE a.n < 5 GROUP BY 100 + MOD(a.n, 5)";
        let answer = timed(&mut peer, "@AdHoc", &[Text(text)], 1);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "5"), "{answer:?}");
        let answer = timed(
            &mut peer,
            "@AdHoc",
            &[Text(
                "UPDATE t SET v = (SELECT COUNT(*) \
            FROM r a, r b WHERE a.n + b.n >= 0)",
            )],
            1,
        );
        assert_eq!((answer.status, answer.rows.as_str()), (1, "15"), "{answer:?}");
    }
}

/// The oldest form of a call carries its limit elsewhere.
#[test]
fn the_limit_of_an_old_client_is_kept_too() {
    let (_server, mut peer) = host(1, &[]);
    let mut body = vec![1, 1];
    body.extend_from_slice(&50i32.to_be_bytes());
    body.extend_from_slice(&6i32.to_be_bytes());
    body.extend_from_slice(b"@AdHoc");
    body.extend_from_slice(&9i64.to_be_bytes());
    body.extend_from_slice(parameters(&[Text(ENDLESS_AT_ONE)]).bytes());
    peer.send(&frame(&body));
    stopped(&peer.answer(), ["query-specific timeout period of 0.050 seconds", "stopped"]);
}
