//! Rows whose time is over go by themselves: all of them, in batches, never early, and for good.

use crate::durability::{data, new_disk};
use crate::support::{Peer, eventually, start, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const OFTEN: &str = "ttl_check_ms=5";
const NEVER: &str = "ttl_check_ms=0";
/// A table that rows leave quickly once their time is over.
const TABLE: &str =
    "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, nbr VARCHAR(20), seen TIMESTAMP
        NOT NULL) USING TTL 1 HOURS ON COLUMN seen BATCH_SIZE 4 MAX_FREQUENCY 200;
    PARTITION TABLE t ON COLUMN id;
    CREATE INDEX t_at ON t (seen);
    CREATE VIEW by_nbr (nbr, n) AS SELECT nbr, COUNT(*) FROM t GROUP BY nbr;";
const EVERYWHERE: &str = "CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, seen TIMESTAMP NOT NULL)
        USING TTL 60 MINUTES ON COLUMN seen BATCH_SIZE 3 MAX_FREQUENCY 200;
    CREATE INDEX r_at ON r (seen, id);
    CREATE VIEW count_r (n) AS SELECT COUNT(*) FROM r;";

/// Rows 0 to `old` are two hours old, the others new.
fn insert(peer: &mut Peer, old: i64, new: i64) {
    for id in 0..old + new {
        let hours = if id < old { -2 } else { 0 };
        peer.run(&format!("INSERT INTO t VALUES ({id}, 'n{id}', DATEADD(HOUR, {hours}, NOW))"));
    }
}

fn count(peer: &mut Peer, table: &str) -> i64 {
    peer.run(&format!("SELECT COUNT(*) FROM {table}")).parse().expect("a number")
}

/// `@Statistics TTL`, without the times.
fn deleted(peer: &mut Peer) -> Vec<(String, i64, i64, i64)> {
    let answer = peer.call("@Statistics", &[Text("TTL"), Int(0)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, table, deleted, last, remaining, _] = cells[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<i64>().expect("a number");
        (table.to_string(), number(deleted), number(last), number(remaining))
    };
    answer.rows.lines().map(row).collect()
}

/// N checks have been made since.
fn checks_pass(peer: &mut Peer) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(150) {
        peer.run("SELECT COUNT(*) FROM t");
    }
}

#[test]
fn old_rows_go_with_all_that_hangs_on_them_and_new_ones_stay() {
    for sites in [1, 3] {
        let server = start(sites, &[OFTEN]);
        let mut peer = Peer::login(server.client_address());
        peer.run(TABLE);
        peer.run(EVERYWHERE);
        if sites > 1 {
            peer.run("CREATE GLOBAL UNIQUE INDEX t_nbr ON t (nbr)");
        }
        insert(&mut peer, 50, 10);
        for id in 0..20 {
            let hours = if id < 13 { -3 } else { 0 };
            peer.run(&format!("INSERT INTO r VALUES ({id}, DATEADD(HOUR, {hours}, NOW))"));
        }
        eventually("old rows go", || count(&mut peer, "t") == 10 && count(&mut peer, "r") == 7);
        assert_eq!(peer.run("SELECT MIN(id), COUNT(*) FROM t"), "50,10");
        assert_eq!(peer.run("SELECT MIN(id), COUNT(*) FROM r"), "13,7");
        assert_eq!(count(&mut peer, "by_nbr"), 10);
        assert_eq!(peer.run("SELECT n FROM count_r"), "7");
        if sites > 1 {
            assert_eq!(count(&mut peer, "\"T_NBR#ENTRIES\""), 10);
            let again = peer.sql("INSERT INTO t VALUES (3, 'n55', NOW)");
            assert!(again.status < 0, "{again:?}");
        }
        eventually("it is counted", || {
            let counted = deleted(&mut peer);
            counted.iter().map(|row| (row.0.as_str(), row.1, row.3)).collect::<Vec<_>>()
                == [("R", 13, 0), ("T", 50, 0)]
        });
        peer.run("INSERT INTO t VALUES (3, 'n3', NOW)");
    }
}

#[test]
fn a_row_goes_when_its_time_is_over_and_not_before() {
    let server = start(1, &[OFTEN]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id BIGINT NOT NULL, seen TIMESTAMP DEFAULT NOW NOT NULL)
            USING TTL 2 SECONDS ON COLUMN seen; CREATE INDEX t_at ON t (seen);",
    );
    let begun = Instant::now();
    peer.run("INSERT INTO t (id) VALUES (1)");
    eventually("it goes", || count(&mut peer, "t") == 0);
    // The transaction's time is in whole milliseconds.
    assert!(begun.elapsed() >= Duration::from_millis(1_999), "{:?}", begun.elapsed());
}

#[test]
fn rows_go_in_the_order_of_their_times_so_many_at_a_time_and_so_often() {
    let server = start(1, &[OFTEN]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id BIGINT NOT NULL, seen TIMESTAMP NOT NULL);
        CREATE INDEX t_at ON t (seen);",
    );
    for id in 0..31 {
        // The last inserted are the oldest.
        peer.run(&format!("INSERT INTO t VALUES ({id}, DATEADD(MINUTE, -{id}, NOW))"));
    }
    let begun = Instant::now();
    peer.run("ALTER TABLE t ADD USING TTL 0 ON COLUMN seen BATCH_SIZE 3 MAX_FREQUENCY 10");
    let mut seen = BTreeSet::new();
    eventually("all go", || {
        let left: Vec<i64> = peer
            .run("SELECT id FROM t ORDER BY id")
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect();
        let first: Vec<i64> = (0..left.len() as i64).collect();
        assert_eq!(left, first, "the oldest go first");
        seen.insert(left.len());
        left.is_empty()
    });
    // Ten batches of three, and one of one after a tenth of a second each.
    assert!(begun.elapsed() >= Duration::from_millis(1_000), "{:?}", begun.elapsed());
    assert!(seen.iter().all(|left| [0, 31].contains(left) || left % 3 == 1), "{seen:?}");
    eventually("it is counted", || deleted(&mut peer) == [("T".to_string(), 31, 1, 0)]);
}

#[test]
fn without_an_index_nothing_goes_and_that_is_told() {
    let server = start(1, &[OFTEN]);
    let mut peer = Peer::login(server.client_address());
    let told = peer.sql(
        "CREATE TABLE t (id BIGINT NOT NULL, seen TIMESTAMP NOT NULL) USING TTL 1 ON COLUMN seen",
    );
    assert_eq!(told.status, 1);
    assert!(told.note.contains("TTL of table T deletes nothing"), "{told:?}");
    peer.run("INSERT INTO t VALUES (1, DATEADD(HOUR, -2, NOW))");
    checks_pass(&mut peer);
    assert_eq!(count(&mut peer, "t"), 1);
    assert_eq!(deleted(&mut peer), [("T".to_string(), 0, 0, 0)]);
    let told = peer.sql("CREATE INDEX t_at ON t (seen)");
    assert_eq!((told.status, told.note.as_str()), (1, ""));
    eventually("it goes", || count(&mut peer, "t") == 0);
    let told = peer.sql("DROP INDEX t_at");
    assert!(told.note.contains("deletes nothing"), "{told:?}");
}

#[test]
fn other_clauses_are_in_force_at_once() {
    let server = start(3, &[OFTEN]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run("ALTER TABLE t ADD COLUMN more INTEGER BEFORE seen");
    peer.run("ALTER TABLE t ALTER USING TTL 1 DAYS ON COLUMN seen MAX_FREQUENCY 100");
    peer.run("INSERT INTO t (id, seen) VALUES (1, DATEADD(HOUR, -2, NOW))");
    peer.run("INSERT INTO t (id, seen) VALUES (2, DATEADD(HOUR, -25, NOW))");
    eventually("one goes", || peer.run("SELECT id FROM t") == "1");
    peer.run("ALTER TABLE t DROP TTL");
    peer.run("INSERT INTO t (id, seen) VALUES (2, DATEADD(HOUR, -25, NOW))");
    checks_pass(&mut peer);
    assert_eq!(count(&mut peer, "t"), 2);
    assert_eq!(deleted(&mut peer), []);
    peer.run("ALTER TABLE t ADD USING TTL 1 HOURS ON COLUMN seen MAX_FREQUENCY 100");
    eventually("both go", || count(&mut peer, "t") == 0);
}

#[test]
fn changes_of_the_catalog_overtake_what_is_under_way() {
    let server = start(3, &["ttl_check_ms=1"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    peer.run(EVERYWHERE);
    for round in 0..30 {
        insert(&mut peer, 6, 0);
        peer.run(&format!("INSERT INTO r VALUES ({round}, DATEADD(HOUR, -2, NOW))"));
        peer.run("CREATE GLOBAL INDEX more ON t (nbr); DROP VIEW by_nbr");
        peer.run(
            "DROP INDEX more;
            CREATE VIEW by_nbr (nbr, n) AS SELECT nbr, COUNT(*) FROM t GROUP BY nbr;",
        );
        eventually("they go", || count(&mut peer, "t") + count(&mut peer, "r") == 0);
    }
}

#[test]
fn a_paused_host_deletes_nothing() {
    let server = start(2, &[OFTEN]);
    let mut peer = Peer::login(server.client_address());
    let mut admin = Peer::login(server.admin_address());
    peer.run(TABLE);
    assert_eq!(admin.call("@Pause", &[]).status, 1);
    insert(&mut admin, 9, 1);
    checks_pass(&mut peer);
    assert_eq!(count(&mut peer, "t"), 10);
    assert_eq!(admin.call("@Resume", &[]).status, 1);
    eventually("they go", || count(&mut peer, "t") == 1);
}

fn host(disk: &MemoryDisk, options: &[&str]) -> (Server, Peer) {
    let options = [&["log_segment_bytes=131072", "statistics_interval_ms=0"], options].concat();
    let server = start_with(3, &options, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

#[test]
fn a_host_at_its_memory_limit_goes_on() {
    let disk = new_disk(3);
    let (server, mut peer) = host(&disk, &[NEVER]);
    peer.run(TABLE);
    insert(&mut peer, 9, 1);
    server.stop().expect("it stops");
    let (_server, mut peer) = host(&disk, &[OFTEN, "memory_limit_bytes=1", "resource_check_ms=10"]);
    eventually("it is read-only", || {
        peer.sql("INSERT INTO t VALUES (100, 'x', NOW)").text.contains("read-only mode")
    });
    eventually("they go", || count(&mut peer, "t") <= 2);
}

#[test]
fn what_went_stays_away_behind_a_power_cut_and_replay_deletes_nothing_by_itself() {
    let disk = new_disk(3);
    let (server, mut peer) = host(&disk, &[NEVER]);
    peer.run(TABLE);
    peer.run(EVERYWHERE);
    peer.run("CREATE GLOBAL UNIQUE INDEX t_nbr ON t (nbr)");
    insert(&mut peer, 40, 5);
    for id in 0..20 {
        peer.run(&format!("INSERT INTO r VALUES ({id}, DATEADD(MINUTE, -{}, NOW))", 50 + id));
    }
    let survivor = disk.survivor(|_| Survival::Lost);
    drop((server, peer));
    // Replay deletes nothing although the time is over.
    let (server, mut peer) = host(&survivor, &[NEVER]);
    assert_eq!((count(&mut peer, "t"), count(&mut peer, "r")), (45, 20));
    peer.run("INSERT INTO t VALUES (1000, 'late', DATEADD(HOUR, -2, NOW))");
    server.stop().expect("it stops");

    // The power fails when some rows have gone.
    let (server, mut peer) = host(&survivor, &[OFTEN]);
    eventually("some go", || count(&mut peer, "t") < 40);
    let left = (count(&mut peer, "t"), count(&mut peer, "r"));
    let cut = survivor.survivor(|_| Survival::Lost);
    drop((server, peer));
    let state = |peer: &mut Peer| {
        let texts = [
            "SELECT id, nbr, seen FROM t ORDER BY id",
            "SELECT id, seen FROM r ORDER BY id",
            "SELECT * FROM by_nbr ORDER BY nbr",
            "SELECT nbr, id FROM \"T_NBR#ENTRIES\" ORDER BY nbr",
            "SELECT n FROM count_r",
        ];
        texts.map(|text| peer.run(text))
    };
    let recovered = |disk: &MemoryDisk| {
        let (server, mut peer) = host(&disk.copy(), &[NEVER]);
        let state = state(&mut peer);
        (state, server.stop_with_digests().expect("it stops"))
    };
    let (first, second) = (recovered(&cut), recovered(&cut));
    assert_eq!(first, second, "bit by bit");
    let rows = |text: &str| text.lines().count() as i64;
    assert!(rows(&first.0[0]) <= left.0 && rows(&first.0[0]) >= 5, "{:?}", first.0);
    assert!(rows(&first.0[1]) <= left.1 && rows(&first.0[1]) >= 10, "{:?}", first.0);
    assert_eq!(rows(&first.0[2]), rows(&first.0[0]));
    assert_eq!(rows(&first.0[3]), rows(&first.0[0]));
    assert_eq!(first.0[4], rows(&first.0[1]).to_string());

    // It goes on until none is left that should go, also after a snapshot.
    let (server, mut peer) = host(&cut, &[OFTEN]);
    eventually("the rest goes", || count(&mut peer, "t") == 5);
    let answer = peer.call("@SnapshotSave", &[Text(""), Text("one"), Int(1)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let cut = cut.survivor(|_| Survival::Lost);
    drop((server, peer));
    let (_server, mut peer) = host(&cut, &[OFTEN]);
    assert_eq!(count(&mut peer, "t"), 5);
    peer.run("INSERT INTO t VALUES (2000, 'later', DATEADD(HOUR, -2, NOW))");
    eventually("the clause is in the snapshot", || count(&mut peer, "t") == 5);
    assert_eq!(peer.run("SELECT MIN(id), MAX(id) FROM t"), "40,44");
}
