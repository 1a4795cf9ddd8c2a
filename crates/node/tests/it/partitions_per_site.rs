//! Sites that serve several partitions each: everything that a host does is the same, however its
//! partitions are spread over its threads.

use crate::durability::{data, new_disk};
use crate::snapshot;
use crate::support::{Peer, call_frame, digests, eventually, parameters, start, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_types::Datum::{Int, Text};
use lockstep_workloads::bank;
use std::collections::BTreeSet;

const PARTITIONS: u32 = 4;
/// Sites, and the option that gives each its share of the partitions.
const SHAPES: [(u32, &str); 3] =
    [(4, "partitions_per_site=1"), (2, "partitions_per_site=2"), (1, "partitions_per_site=4")];
/// Half of the partitions at each of two sites.
const HALVES: (u32, &str) = SHAPES[1];

fn host_on(disk: &MemoryDisk, (sites, option): (u32, &str)) -> (Server, Peer) {
    let options = ["log_segment_bytes=131072", "statistics_interval_ms=0", option];
    let server = start_with(sites, &options, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

/// What a host holds, as text, without the times at which rows were inserted, and without sums of
/// floating-point numbers, which depend on the number of partitions.
fn contents(peer: &mut Peer) -> Vec<String> {
    peer.run("UPDATE kinds SET f = NULL");
    let mut texts = snapshot::digest(peer);
    texts.pop();
    texts
}

fn change(peer: &mut Peer, from: i64) {
    for id in from..from + 30 {
        assert_eq!(peer.call("change", &[Int(id % 120)]).status, 1);
        peer.run(&format!("INSERT INTO pair VALUES ({id}, 'after {from}', 0.3)"));
    }
    peer.run(&format!("DELETE FROM kinds WHERE id BETWEEN {from} AND {}", from + 3));
    peer.run(&format!("UPDATE everywhere SET t = 'now {from}' WHERE id < 50"));
}

/// The rows of a selector of `@Statistics`, as cells.
fn statistics(peer: &mut Peer, selector: &str) -> Vec<Vec<String>> {
    let answer = peer.call("@Statistics", &[Text(selector), Int(0)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let cells = |line: &str| line.split(',').map(str::to_string).collect();
    answer.rows.split(';').next().unwrap_or("").lines().map(cells).collect()
}

#[test]
fn calls_changes_of_the_schema_and_snapshots_are_the_same_in_every_shape() {
    let mut seen = BTreeSet::new();
    for (sites, option) in SHAPES {
        let disk = new_disk(PARTITIONS);
        let (server, mut peer) = host_on(&disk, (sites, option));
        assert_eq!(peer.run("SELECT 1"), "1");
        snapshot::fill(&mut peer);
        change(&mut peer, 0);
        let saved = peer.call("@SnapshotSave", &[Text(""), Text("one"), Int(1)]);
        assert!(saved.status == 1 && !saved.rows.contains("FAILURE"), "{saved:?}");
        change(&mut peer, 40);
        // Built on rows that are there, beside entries at other partitions.
        peer.run("CREATE GLOBAL INDEX kinds_a ON kinds (a) INCLUDE (c)");
        peer.run("CREATE INDEX late ON kinds (a); ALTER TABLE pair ADD COLUMN w INTEGER DEFAULT 7");
        peer.run("INSERT INTO pair VALUES (1000, 'after the change', 0.3, 8)");
        change_of_entries(&mut peer);
        let texts = contents(&mut peer);
        seen.insert(texts.clone());
        let validated = peer.call("@ValidatePartitioning", &[Int(0)]);
        assert!(validated.status == 1, "{validated:?}");
        let misplaced = validated.rows.split(';').next().unwrap_or("").lines();
        assert!(misplaced.clone().count() > 0);
        assert!(misplaced.into_iter().all(|row| row.ends_with(",0")), "{validated:?}");

        // What is left on the disk is the same for hosts of every shape.
        let survivor = disk.survivor(|_| Survival::Lost);
        let stopped = server.stop_with_digests().expect("it stops");
        for shape in SHAPES {
            let (server, mut peer) = host_on(&survivor.copy(), shape);
            let recovery = server.recovery().expect("it has a directory").clone();
            let loaded = recovery.snapshot.as_ref().map(|snapshot| snapshot.nonce.as_str());
            assert_eq!(loaded, Some("one"), "{shape:?} {recovery:?}");
            assert_eq!(snapshot::digest(&mut peer)[..texts.len()], texts, "{shape:?}");
            assert_eq!(server.stop_with_digests().expect("it stops"), stopped, "{shape:?}");
        }
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// Changes rows that a global index finds, among them some that move to other partitions.
fn change_of_entries(peer: &mut Peer) {
    peer.run("UPDATE kinds SET g = 'moved ' || CAST(id AS VARCHAR) WHERE id BETWEEN 60 AND 70");
    assert_eq!(peer.run("SELECT id FROM kinds WHERE g = 'moved 66'"), "66");
    let taken = peer.sql("UPDATE kinds SET g = 'moved 66' WHERE id = 80");
    assert!(taken.status < 0, "{taken:?}");
    let rows = peer.run("SELECT a, id, c FROM kinds ORDER BY 1, 2");
    assert_eq!(peer.run("SELECT a, id, c FROM \"KINDS_A#ENTRIES\" ORDER BY 1, 2"), rows);
}

#[test]
fn a_snapshot_of_one_shape_is_restored_into_another() {
    let folder = std::env::temp_dir().join(format!("lockstep-shapes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let path = Text(folder.to_str().expect("a path of text"));
    let server = start(HALVES.0, &[HALVES.1]);
    let mut peer = Peer::login(server.client_address());
    snapshot::fill(&mut peer);
    let texts = contents(&mut peer);
    let saved = peer.call("@SnapshotSave", &[path, Text("shape"), Int(1)]);
    assert_eq!(saved.status, 1, "{saved:?}");
    for (sites, option) in [(2, "partitions_per_site=3"), (3, "partitions_per_site=1")] {
        let server = start(sites, &[option]);
        let mut peer = Peer::login(server.client_address());
        let restored = peer.call("@SnapshotRestore", &[path, Text("shape")]);
        assert!(restored.status == 1 && !restored.rows.contains("FAILURE"), "{restored:?}");
        assert_eq!(contents(&mut peer), texts, "{sites} {option}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn statistics_name_the_site_and_the_partition() {
    let server = start(HALVES.0, &[HALVES.1]);
    let mut peer = Peer::login(server.client_address());
    peer.run(bank::SCHEMA);
    for account in 0..40 {
        assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
    }
    let sites_of = |rows: &[Vec<String>], site: usize, partition: usize| -> BTreeSet<(i64, i64)> {
        let number = |row: &Vec<String>, at: usize| row[at].parse().expect("a number");
        rows.iter().map(|row| (number(row, site), number(row, partition))).collect()
    };
    let topology = peer.call("@Statistics", &[Text("TOPO"), Int(0)]);
    let served: BTreeSet<(i64, i64)> = topology
        .rows
        .split(';')
        .next()
        .expect("a table")
        .lines()
        .filter_map(|line| {
            // Partition, its sites, and its leader as host:site.
            let cells: Vec<&str> = line.split(',').collect();
            let partition: i64 = cells[0].parse().expect("a number");
            let (_, site) = cells[1].split_once(':').expect("a host and a site");
            (partition < i64::from(PARTITIONS)).then(|| (site.parse().expect("a site"), partition))
        })
        .collect();
    assert_eq!(served.len(), PARTITIONS as usize, "{topology:?}");
    assert_eq!(served.iter().map(|(site, _)| site).collect::<BTreeSet<_>>().len(), 2);
    for selector in ["TABLE", "INDEX", "PROCEDURE"] {
        let rows = statistics(&mut peer, selector);
        assert_eq!(sites_of(&rows, 3, 4), served, "{selector}: {rows:?}");
    }
    // Rows and calls are those of the partition, not of the site.
    let rows = statistics(&mut peer, "TABLE");
    let counts: Vec<i64> = rows.iter().map(|row| row[7].parse().expect("a number")).collect();
    assert!(counts.iter().sum::<i64>() == 40 && counts.iter().all(|rows| *rows < 40), "{rows:?}");
    let calls = statistics(&mut peer, "PROCEDURE");
    let called: Vec<i64> = calls.iter().map(|row| row[6].parse().expect("a number")).collect();
    assert!(called.iter().sum::<i64>() == 40 && called == counts, "{calls:?}");
    assert_eq!(statistics(&mut peer, "IDLETIME").len(), 2);
    assert_eq!(statistics(&mut peer, "QUEUE").len(), 2);
    assert_eq!(peer.call("@PingPartitions", &[Int(0)]).status, 1);
}

#[test]
fn transactions_over_partitions_of_one_thread_run_before_others_are_decided() {
    for (sites, option) in SHAPES {
        let server = start(sites, &[option]);
        let mut peer = Peer::login(server.client_address());
        peer.run(bank::SCHEMA);
        peer.run(bank::NATIVE_SCHEMA);
        for account in 0..40 {
            assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
        }
        let mut clients: Vec<Peer> = (0..3).map(|_| Peer::login(server.client_address())).collect();
        let mut handle = 0;
        for round in 0..60 {
            for client in &mut clients {
                for (name, from, to) in [
                    ("TransferAnywhere", round % 40, (round * 7 + 1) % 40),
                    ("Transfer", (round * 3) % 40, (round * 5 + 2) % 40),
                    // Undone, and what ran after it at its partitions runs again.
                    ("Transfer", round % 40, 999),
                ] {
                    handle += 1;
                    let call = parameters(&[Int(from), Int(to), Int(1)]);
                    client.send(&call_frame(name, handle, &call));
                }
                for account in [round % 40, (round + 11) % 40] {
                    handle += 1;
                    let call = parameters(&[Int(account)]);
                    client.send(&call_frame("ACCOUNTS.select", handle, &call));
                }
            }
        }
        for client in &mut clients {
            for _ in 0..60 * 5 {
                let answer = client.answer();
                let missing = answer.text.contains("there is no account 999");
                assert!(answer.status == 1 || missing, "{answer:?}");
            }
        }
        assert_eq!(peer.call("Total", &[]).rows, "4000,40", "{sites} sites");
        eventually("nothing waits any more", || {
            statistics(&mut peer, "QUEUE").iter().all(|row| row[4] == "0")
        });
        assert_eq!(digests(server).len(), PARTITIONS as usize);
    }
}

#[test]
fn tasks_and_row_expiration_reach_every_partition() {
    let options = [HALVES.1, "ttl_check_ms=5"];
    let server = start(HALVES.0, &options);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE hits (id INTEGER NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
         PARTITION TABLE hits ON COLUMN id;
         CREATE PROCEDURE HitHere DIRECTED AS UPDATE hits SET n = n + 1;
         CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, nbr VARCHAR(20), seen TIMESTAMP NOT NULL)
            USING TTL 1 HOURS ON COLUMN seen BATCH_SIZE 4 MAX_FREQUENCY 200;
         PARTITION TABLE t ON COLUMN id;
         CREATE INDEX t_at ON t (seen);
         CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, seen TIMESTAMP NOT NULL)
            USING TTL 60 MINUTES ON COLUMN seen BATCH_SIZE 3 MAX_FREQUENCY 200;
         CREATE INDEX r_at ON r (seen, id);",
    );
    for id in 0..24 {
        peer.run(&format!("INSERT INTO hits VALUES ({id}, 0)"));
        let hours = if id < 18 { -2 } else { 0 };
        peer.run(&format!("INSERT INTO t VALUES ({id}, 'n', DATEADD(HOUR, {hours}, NOW))"));
        peer.run(&format!("INSERT INTO r VALUES ({id}, DATEADD(HOUR, {hours}, NOW))"));
    }
    eventually("old rows are deleted", || {
        peer.run("SELECT COUNT(*) FROM t") == "6" && peer.run("SELECT COUNT(*) FROM r") == "6"
    });
    peer.run("CREATE TASK h ON SCHEDULE EVERY 20 MILLISECONDS PROCEDURE HitHere RUN ON PARTITIONS");
    eventually("each partition is hit", || {
        peer.run("SELECT COUNT(*) FROM hits WHERE n = 0") == "0"
    });
    let rows = statistics(&mut peer, "TASK");
    let partitions: BTreeSet<&str> = rows.iter().map(|row| row[3].as_str()).collect();
    assert_eq!(partitions, ["0", "1", "2", "3"].into());
}

#[test]
fn a_host_with_more_sites_than_there_are_numbers_is_refused() {
    let refused = start_with(2_000, &["partitions_per_site=16"], None).err();
    let refused = refused.expect("too many").to_string();
    assert_eq!(refused, "a host has 1 to 251 sites, not 2000");
}

#[test]
fn the_number_of_partitions_of_a_directory_stays() {
    let disk = new_disk(PARTITIONS);
    for (sites, option, advice) in [
        (
            4,
            "partitions_per_site=2",
            "4 sites with 2 partitions each were asked for: start it with --sites 2",
        ),
        (3, "partitions_per_site=1", "3 sites were asked for: start it with --sites 4"),
        (
            2,
            "partitions_per_site=3",
            "start it with --sites 4 and the option partitions_per_site=1",
        ),
    ] {
        let refused = start_with(sites, &[option], Some(data(&disk, Durability::Sync))).err();
        let refused = refused.expect("another number of partitions").to_string();
        assert!(refused.contains("4 partitions") && refused.contains(advice), "{refused}");
    }
}
