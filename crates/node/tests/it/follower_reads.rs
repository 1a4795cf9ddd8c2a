//! Reads that copies answer (option `follower_reads`): they are at most as stale as their answers
//! say, and their limits and refusals are those of any call.

use crate::java;
use crate::support::{Answer, Peer, configuration, eventually};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::Int;
use std::time::{Duration, Instant};

const KEYS: i64 = 12;

/// Hosts of which a busy machine suspects none that runs.
const SLOW: [&str; 3] = ["heartbeat_interval_ms=200", "suspect_after_ms=5000", "lease_ms=1000"];

const SCHEMA: &str = "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, n BIGINT);
    PARTITION TABLE t ON COLUMN k;
    CREATE PROCEDURE Read PARTITION ON TABLE t COLUMN k AS SELECT n FROM t WHERE k = ?;
    CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY);
    CREATE PROCEDURE Endless PARTITION ON TABLE t COLUMN k AS
        SELECT COUNT(*) FROM t, r a, r b, r c WHERE t.k = ? AND a.id + b.id + c.id < 0;
    CREATE PROCEDURE Set PARTITION ON TABLE t COLUMN k PARAMETER 1 AS
        UPDATE t SET n = ? WHERE k = ?;";

/// Three hosts with these options, a client at each, and rows of which each host leads some.
fn cluster(kfactor: u8, options: &[&str]) -> (Vec<Server>, Vec<Peer>) {
    let options = [&SLOW, options].concat();
    let members = local_cluster::members(3, kfactor, || configuration(2, &options, None));
    let started = local_cluster::start(members.expect("there are free ports"));
    let servers = started.into_iter().collect::<std::io::Result<Vec<Server>>>();
    let servers = servers.expect("the cluster is formed");
    let mut peers: Vec<Peer> =
        servers.iter().map(|server| Peer::login(server.client_address())).collect();
    peers[0].run(SCHEMA);
    for key in 0..KEYS {
        assert_eq!(peers[1].call("T.insert", &[Int(key), Int(0)]).status, 1);
    }
    (servers, peers)
}

/// How stale an answer says that it may be, if a copy gave it.
fn staleness(answer: &Answer) -> Option<Duration> {
    assert_eq!(answer.status, 1, "{answer:?}");
    let said = answer.text.strip_prefix("Read at a follower; stale by at most ")?;
    let ms = said.strip_suffix(" ms").and_then(|ms| ms.parse().ok());
    Some(Duration::from_millis(ms.expect("a number of milliseconds")))
}

/// Reads each key at each host until copies have answered; gives the numbers of their answers.
fn copies_answer(peers: &mut [Peer]) -> usize {
    let mut count = 0;
    for peer in peers {
        for key in 0..KEYS {
            count += usize::from(staleness(&peer.call("Read", &[Int(key)])).is_some());
        }
    }
    count
}

#[test]
fn copies_answer_reads_and_say_how_stale_they_are() {
    for kfactor in [1, 2] {
        let options = ["follower_reads=1", "follower_read_staleness_ms=5000"];
        let (_servers, mut peers) = cluster(kfactor, &options);
        // Of each partition one host leads, and K others have a copy.
        let expected = KEYS as usize * usize::from(kfactor);
        eventually("copies answer", || copies_answer(&mut peers) == expected);
        let mut answered = Vec::new();
        for value in 1..150 {
            let key = value % KEYS;
            assert_eq!(peers[value as usize % 3].call("Set", &[Int(value), Int(key)]).status, 1);
            answered.push((Instant::now(), key, value));
            for peer in &mut peers {
                let asked = Instant::now();
                let answer = peer.call("Read", &[Int(key)]);
                let stale = staleness(&answer).unwrap_or_default();
                let is_seen =
                    |(at, of, _): &&(Instant, i64, i64)| *of == key && *at + stale < asked;
                let least = answered.iter().rev().find(is_seen).map_or(0, |(.., value)| *value);
                let read: i64 = answer.rows.trim().parse().expect("a number");
                assert!((least..=value).contains(&read), "{read} after {least}: {answer:?}");
            }
        }
    }
}

#[test]
fn without_the_option_leaders_answer() {
    let (_servers, mut peers) = cluster(1, &[]);
    for _ in 0..20 {
        assert_eq!(copies_answer(&mut peers), 0);
    }
}

#[test]
fn a_read_at_a_copy_has_the_limits_of_any_read_and_the_copy_goes_on() {
    let options = ["follower_reads=1", "follower_read_staleness_ms=60000", "query_timeout_ms=500"];
    let (_servers, mut peers) = cluster(1, &options);
    let rows: Vec<String> = (0..1_000).map(|id| format!("({id})")).collect();
    peers[0].run(&format!("INSERT INTO r VALUES {}", rows.join(", ")));
    eventually("copies answer", || copies_answer(&mut peers) == KEYS as usize);
    for value in 1..3 {
        for key in 0..4 {
            let stopped = peers[1].call("Endless", &[Int(key)]);
            assert!(stopped.status < 0, "{stopped:?}");
            assert_eq!(peers[2].call("Set", &[Int(value), Int(key)]).status, 1);
        }
        eventually("copies have the last writes", || {
            let mut read =
                |key| peers[1].call("Read", &[Int(key)]).rows.trim() == value.to_string();
            (0..4).all(&mut read)
        });
    }
}

#[test]
fn a_schema_change_is_followed_by_reads_at_copies() {
    let options = ["follower_reads=1", "follower_read_staleness_ms=5000"];
    let (_servers, mut peers) = cluster(1, &options);
    eventually("copies answer", || copies_answer(&mut peers) == KEYS as usize);
    peers[0].run("DROP PROCEDURE Read");
    for peer in &mut peers {
        let gone = peer.call("Read", &[Int(1)]);
        assert!(gone.status < 0 && gone.text.contains("Read"), "{gone:?}");
    }
    peers[1].run("ALTER TABLE t ADD COLUMN m BIGINT DEFAULT 77");
    peers[1]
        .run("CREATE PROCEDURE Read PARTITION ON TABLE t COLUMN k AS SELECT m FROM t WHERE k = ?");
    eventually("copies answer again", || copies_answer(&mut peers) == KEYS as usize);
    for peer in &mut peers {
        for key in 0..KEYS {
            assert_eq!(peer.call("Read", &[Int(key)]).rows.trim(), "77");
        }
    }
}

const JAVA: &str = "import org.voltdb.*;
public class ReadRow extends VoltProcedure {
    public final SQLStmt get = new SQLStmt(\"SELECT n FROM t WHERE k = ?\");
    public VoltTable[] run(long k) {
        voltQueueSQL(get, k);
        return voltExecuteSQL(true);
    }
}
";

#[test]
fn procedures_in_java_that_only_read_run_at_copies() {
    if java::jar().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lockstep-read-row-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join("ReadRow.java");
    std::fs::write(&source, JAVA).expect("a file");
    let jar = java::compile("read-row", &[source]);
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    let options = ["follower_reads=1", "follower_read_staleness_ms=5000"];
    let (_servers, mut peers) = cluster(1, &[&options, java::OPTIONS].concat());
    java::load(&mut peers[0], &jar);
    peers[0].run("CREATE PROCEDURE PARTITION ON TABLE t COLUMN k FROM CLASS ReadRow");
    eventually("copies answer", || {
        let calls = peers.iter_mut().flat_map(|peer| {
            (0..KEYS).map(|key| peer.call("ReadRow", &[Int(key)])).collect::<Vec<_>>()
        });
        let answers: Vec<Answer> = calls.collect();
        assert!(answers.iter().all(|answer| answer.rows.trim() == "0"), "{answers:?}");
        answers.iter().filter(|answer| staleness(answer).is_some()).count() == KEYS as usize
    });
}
